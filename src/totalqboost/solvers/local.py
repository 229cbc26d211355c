"""Iterated local search over the kept set, with continuous weights: the default solver.

Order of calls: ``solve`` descends from its starting points (:mod:`totalqboost.solvers.descent`),
then repeats "perturb the best, descend, keep if better". Several such searches may go side by
side and share what they find.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from totalqboost.master import MasterProblem
from totalqboost.parameters import check_integer, check_jobs
from totalqboost.solvers.descent import IMPROVEMENT, Descent
from totalqboost.solvers.side_by_side import parts_of, side_by_side
from totalqboost.solving import MasterSolver, Solution, SolverSession, Status

__all__ = ["LocalSearch"]

POOL = 4  # local optima that are kept


@dataclass(frozen=True)
class LocalSearch(MasterSolver):
    """Iterated local search: add, drop and swap columns, refit, perturb, repeat.

    Parameters
    ----------
    n_perturbations : int
        How often the best solution is perturbed and searched again.
    n_verified : int
        How many of the best-scored moves are verified before a point counts as a local
        optimum.
    n_warm_perturbations : int
        The same when a starting point is given, as in every round of boosting: it comes
        from the round before and has been searched around already.
    max_evaluations : int
        Budget in refits.
    n_starts : int
        Searches side by side, each with all perturbations, the whole budget and randomness of its
        own. After every quarter of the perturbations they share their best local optima.
    n_jobs : int, optional
        How many of them at a time, as joblib counts: threads, or the processes or Dask workers
        of ``joblib.parallel_config``. The result is the same.
    """

    n_perturbations: int = 60
    n_verified: int = 10
    n_warm_perturbations: int = 1
    max_evaluations: int = 20_000
    n_starts: int = 1
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        for name in ("n_perturbations", "n_warm_perturbations"):
            check_integer(name, getattr(self, name), 0)
        for name in ("n_verified", "max_evaluations", "n_starts"):
            check_integer(name, getattr(self, name), 1)
        check_jobs(self.n_jobs)

    def solve(
        self,
        problem: MasterProblem,
        start: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> Solution:
        """Return the best weights found; never worse than ``start`` or the empty ensemble."""
        rng = np.random.default_rng(0) if rng is None else rng
        # Few rows are not worth the search for equal ones.
        search = Descent(problem.merged() if problem.n_rows > 500 else problem, self)
        start = problem.checked_start(start)
        n_perturbations = self.n_perturbations if start is None else self.n_warm_perturbations
        if self.n_starts == 1:
            pool = self._begin(search, start)
            self._go_on(search, pool, range(n_perturbations), rng, start is None)
            used = [search.n_evaluations]
        else:
            pool, used = self._side_by_side(search.problem, start, n_perturbations, rng)
        empty = np.zeros(problem.n_columns)
        best = search.polish(pool.best if pool.members else empty)
        objective = problem.objective(best)
        for w in [empty] if start is None else [start, empty]:  # never worse than the start
            if problem.is_feasible(w) and problem.objective(w) < objective:
                best, objective = w, problem.objective(w)
        is_spent = max(used) >= self.max_evaluations
        status = Status.BUDGET_SPENT if is_spent else Status.LOCAL_OPTIMUM
        return Solution(best, objective, n_evaluations=sum(used), status=status)

    def _begin(self, search: Descent, start: np.ndarray | None) -> _Pool:
        """Return the local optima near the start, or near several if none is given."""
        empty = np.zeros(search.problem.n_columns)
        origins = [lambda: empty if start is None else start]
        if start is None:
            origins += [search.full, search.best_prefix, search.best_elimination]
            origins += [search.features.best_elimination] if search.features else []
        pool = _Pool()
        for origin in origins:
            if search.remaining > 0:
                pool.offer(*search.descend(origin()))
        if start is None:
            self._relink(search, pool)
        return pool

    def _go_on(
        self,
        search: Descent,
        pool: _Pool,
        turns: range,
        rng: np.random.Generator,
        is_thorough: bool,
    ) -> None:
        """Perturb and descend in turn, from the best and from others of the pool."""
        for i in turns:
            if search.remaining <= 0:
                break
            w, value = search.descend(search.perturb(pool.pick(i), rng))
            if pool.offer(w, value) and is_thorough:
                self._excursions(search, pool, w, value)

    def _side_by_side(
        self,
        problem: MasterProblem,
        start: np.ndarray | None,
        n_perturbations: int,
        rng: np.random.Generator,
    ) -> tuple[_Pool, list[int]]:
        """Return the best local optima of several searches, and the refits of each.

        They share what they have found after every part.
        """
        pool, used, done = _Pool(), [0] * self.n_starts, 0
        with side_by_side(self.n_jobs, problem) as run:
            for part in parts_of(n_perturbations) or [0]:
                turns = range(done, done + part)
                known = self, pool.members, start, turns
                seeds = enumerate(rng.spawn(self.n_starts))
                found = run(_part, [(*known, used[i], own, i) for i, own in seeds])
                pool, used, done = _Pool(), [n for _, n in found], turns.stop
                for w, value in (pair for members, _ in found for pair in members):
                    pool.offer(w, value)
        return pool, used

    def session(self, problem: MasterProblem) -> SolverSession:
        session = SolverSession(self)
        session.adds_to_search = False  # the search makes the same moves, over more columns
        return session

    def _excursions(self, search: Descent, pool: _Pool, w: np.ndarray, value: float) -> None:
        """Leave a local optimum upwards and back, as long as that leads to a better one."""
        is_better = True
        while is_better and search.remaining > 1:
            w, new = search.descend(search.oscillate(w))
            is_better, value = new < value - IMPROVEMENT, new
            pool.offer(w, value)

    def _relink(self, search: Descent, pool: _Pool) -> None:
        """Search from what is found on the way between the local optima so far."""
        for w, value in pool.members:
            self._excursions(search, pool, w, value)
        for other in [w for w, _ in pool.members[1:]]:
            if search.remaining > 1:
                union = np.union1d(search.support(pool.best), search.support(other))
                pool.offer(*search.descend(search.best_elimination(union)))


def _part(
    problem: MasterProblem,
    settings: LocalSearch,
    known: list[tuple[np.ndarray, float]],
    start: np.ndarray | None,
    turns: range,
    n_used: int,
    rng: np.random.Generator,
    number: int,
) -> tuple[list[tuple[np.ndarray, float]], int]:
    """Return the local optima of one of several searches after a part of it, and its refits.

    It goes on from what all know. At first that is nothing: one begins as it would alone, the
    others with what is best in a random half of the columns.
    """
    search, pool = Descent(problem, settings), _Pool()
    search.n_evaluations = n_used
    for pair in known:
        pool.offer(*pair)
    if not known and (number == 0 or start is not None):
        pool = settings._begin(search, start)
    elif not known:
        half = rng.permutation(search.priced)[: (len(search.priced) + 1) // 2]
        columns = np.concatenate([np.sort(half), problem.free])
        pool.offer(*search.descend(search.best_elimination(columns)))
    settings._go_on(search, pool, turns, rng, start is None)
    return pool.members, search.n_evaluations


class _Pool:
    """The best few local optima that differ in what they keep, best first."""

    def __init__(self) -> None:
        self.members: list[tuple[np.ndarray, float]] = []

    @property
    def best(self) -> np.ndarray:
        return self.members[0][0]

    def offer(self, w: np.ndarray, value: float) -> bool:
        """Take w in if it is new and good enough; tell whether it was."""
        if any(np.array_equal(w > 0, other > 0) for other, _ in self.members):
            return False
        if len(self.members) == POOL and value >= self.members[-1][1]:
            return False
        self.members = sorted([*self.members, (w, value)], key=lambda pair: pair[1])[:POOL]
        return True

    def pick(self, i: int) -> np.ndarray:
        """Return the best in every other round, the others in turn between."""
        return self.members[0 if i % 2 == 0 else (i // 2) % len(self.members)][0]
