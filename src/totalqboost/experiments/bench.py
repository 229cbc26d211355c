"""One split of one data set, prepared once for all strategies."""

from __future__ import annotations

import zlib
from dataclasses import replace
from functools import cached_property, lru_cache

import numpy as np

from totalqboost import datasets, dictionaries, losses, paper, solvers
from totalqboost.boosting import BoostingResult, Engine, Rounds, Terms, boost
from totalqboost.experiments.grids import eliminated_risks, penalty_grid
from totalqboost.experiments.settings import FORM, Settings
from totalqboost.master import MasterProblem
from totalqboost.solving import MasterSolver

__all__ = ["Bench", "prepared"]

SMALLEST_NU = 5e-4  # of A: with less, ensembles hardly grow, or T ends them all


class Bench:
    """Training data behind an oracle, validation data, plain column generation and grids."""

    def __init__(self, dataset: str, split: int, settings: Settings):
        X, y, self.names = datasets.load(dataset, return_names=True)
        valid = validation_rows(len(y), split, settings.n_folds)
        self.dataset, self.split, self.settings = dataset, split, settings
        self.X, self.y = X[~valid], y[~valid].astype(np.int8)
        self.X_valid, self.y_valid = X[valid], y[valid]
        self.oracle = dictionaries.get("stumps").prepare(self.X, self.y)
        self.loss = losses.get(settings.loss)

    def solver(self) -> MasterSolver:
        s = self.settings
        if s.solver == "tabu":
            return paper.tabu_search(s.n_bits)
        solver = solvers.get(s.solver, s.n_bits)
        if s.time_limit is None:
            return solver
        return replace(solver, time_limit=s.time_limit)  # type: ignore[type-var]

    def generator(self, strategy: str, index: int) -> np.random.Generator:
        """Return randomness that depends on what is run, not on when or where."""
        name = zlib.crc32(f"{self.dataset}/{strategy}".encode())
        return np.random.default_rng([name, self.split, index])

    def boost(
        self,
        rng: np.random.Generator,
        nu: float | None = None,
        lam: float = 0.0,
        start: np.ndarray | None = None,
    ) -> BoostingResult:
        """Run Algorithm 1 with the run's settings.

        ``start`` are weights of the first T' columns: the rounds go on from there.
        """
        s = self.settings
        terms = Terms(
            self.loss,
            np.full(len(self.y), 1.0 / len(self.y)),
            s.nu if nu is None else nu,
            lam,
            free_intercept=s.fit_intercept,
        )
        tol = paper.tolerance(s.tol, len(self.y))
        engine = Engine(self.oracle, terms, self.solver(), tol, rng)
        n_done = 0
        if start is not None:
            engine.adopt(self.plain.learners[: len(start)], start)
            n_done = self.plain_rounds
        rounds = Rounds(s.max_rounds - n_done, patience=FORM["patience"], exhaust=s.exhaust)
        return boost(engine, rounds)

    @cached_property
    def plain(self) -> BoostingResult:
        """Plain column generation (UCG, strategy B); its columns feed D and E."""
        return self.boost(self.generator("B", 0))

    @cached_property
    def plain_rounds(self) -> int:
        """T': the stated share of T, or all columns of plain column generation if they are fewer.

        So E has all that B ever had wherever B converges early, and D goes on from there.
        """
        return min(len(self.plain.trace), self.settings.n_hot)

    @cached_property
    def plain_problem(self) -> MasterProblem:
        """The restricted master problem over the first T' columns, without a penalty."""
        problem = self.plain.problem
        assert problem is not None
        n = self.plain_rounds + len(problem.free)
        return problem.columns(slice(n))

    @cached_property
    def lambdas(self) -> np.ndarray:
        """Penalties of C, D and E, falling: from where nothing pays to where all of it does.

        The lowest risk at each size is estimated by early stopping and, among the first T'
        columns, by dropping one column at a time; see :mod:`totalqboost.experiments.grids`.
        """
        risks = np.array([self.loss.value(np.zeros(1))[0], *(r.risk for r in self.plain.trace)])
        dropped = eliminated_risks(self.plain_problem)
        risks[: len(dropped)] = np.minimum(risks[: len(dropped)], dropped)
        return penalty_grid(risks, self.settings.n_penalties)

    @cached_property
    def nus(self) -> np.ndarray:
        """l1 weights of A, falling from the largest edge, above which nothing enters."""
        u = np.full(len(self.y), 1.0 / len(self.y)) * self.loss.weight(np.zeros(1))[0]
        largest = self.oracle.best(u)[0].edge
        return np.geomspace(0.99 * largest, SMALLEST_NU, self.settings.n_penalties)


def validation_rows(n_rows: int, split: int, n_folds: int) -> np.ndarray:
    """Return the mask of a split's validation rows: each with probability 0.2, as in the paper.

    With ``n_folds`` the rows of one fold, dealt out at random once.
    """
    if not n_folds:
        return np.random.default_rng(split).random(n_rows) < 0.2
    if split >= n_folds:
        raise ValueError(f"split must be below the number of folds, {n_folds}, got {split!r}")
    return np.random.default_rng(0).permutation(n_rows) % n_folds == split


@lru_cache(maxsize=2)
def prepared(dataset: str, split: int, settings: Settings) -> Bench:
    """Return the bench, kept for the next strategy that asks for the same one."""
    return Bench(dataset, split, settings)
