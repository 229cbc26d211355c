"""Exchange: replace kept columns by better ones of the whole dictionary.

Column generation prices new columns at the dual point of the present ensemble, that is, by
what they add to it. Whether a column could take the place of a kept one shows only at the
dual point of the ensemble without that one. A sweep visits each kept column, weakest first:
leave it out, refit, price the dictionary there, and keep the newcomer if the objective is
lower with it. This goes beyond Algorithm 1 and follows it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from totalqboost.columns import GeneratedColumns
from totalqboost.dictionaries.base import Candidate, Oracle
from totalqboost.master import MasterProblem
from totalqboost.refit import refit_value
from totalqboost.solving import SolverSession, solve

__all__ = ["SweepInterrupted", "exchange"]

IMPROVEMENT = 1e-7  # relative gain below which an exchange is not worth a column


def exchange(
    H: GeneratedColumns,
    w: np.ndarray,
    oracle: Oracle,
    session: SolverSession,
    rng: np.random.Generator,
    n_sweeps: int,
    free_intercept: bool,
) -> Iterator[tuple[np.ndarray, int, int]]:
    """Yield the weights over H, which changes, after each sweep; stop when one does nothing.

    With the weights come the number of exchanges made and the work done in the sweep.
    """
    for _ in range(n_sweeps):
        w, n_exchanged, n_evaluations = _sweep(H, w, oracle, free_intercept)
        if n_exchanged > 0:
            solution = solve(session, H.problem(), w, rng)
            w, n_evaluations = solution.w, n_evaluations + solution.n_evaluations
        yield w, n_exchanged, n_evaluations
        if n_exchanged == 0:
            break


class SweepInterrupted(KeyboardInterrupt):
    """Ctrl-C in the middle of a sweep; ``w`` are the weights over H as it is now."""

    def __init__(self, w: np.ndarray):
        super().__init__("interrupted in an exchange sweep")
        self.w = w


def _sweep(
    H: GeneratedColumns, w: np.ndarray, oracle: Oracle, free_intercept: bool
) -> tuple[np.ndarray, int, int]:
    """Try to replace each kept column once; return weights, exchanges made and refits."""
    problem = H.problem()
    value = problem.objective(w)
    n_exchanged = n_tried = 0
    kept = np.flatnonzero((w > 0) & (problem.cost > 0))
    try:
        for j in kept[np.argsort(w[kept], kind="stable")]:
            if w[j] == 0:
                continue  # an earlier exchange made it superfluous
            trial = _trial(H, problem, w, int(j), oracle, free_intercept)
            n_tried += 1
            if trial is None:
                continue
            trial_value = H.problem().objective(trial)
            if trial_value < value - IMPROVEMENT * abs(value):
                H.replace(int(j))
                w, value = trial[:-1].copy(), trial_value
                w[j] = trial[-1]
                problem = H.problem()
                n_exchanged += 1
            else:
                H.withdraw()
    except KeyboardInterrupt:
        raise SweepInterrupted(w) from None
    return w, n_exchanged, 2 * n_tried


def _trial(
    H: GeneratedColumns,
    problem: MasterProblem,
    w: np.ndarray,
    j: int,
    oracle: Oracle,
    free_intercept: bool,
) -> np.ndarray | None:
    """Leave column j out, add the best newcomer to H and return the weights with it."""
    others = np.union1d(np.flatnonzero(w > 0), problem.free)
    others = others[others != j]
    without, _ = refit_value(problem, others, w, tol=1e-5)
    newcomer = _newcomer(H, problem, without, oracle, free_intercept)
    if newcomer is None:
        return None
    H.add(newcomer)
    support = np.append(others, problem.n_columns)
    return refit_value(H.problem(), support, np.append(without, 0.0), tol=1e-6)[0]


def _newcomer(
    H: GeneratedColumns,
    problem: MasterProblem,
    w: np.ndarray,
    oracle: Oracle,
    free_intercept: bool,
) -> Candidate | None:
    """Return the best column at w that is not in H under any name."""
    u, curvature = problem.weights_and_curvature(w)
    offered = oracle.best(u, H.blacklist, n=3, curvature=curvature if free_intercept else None)
    return next((candidate for candidate in offered if H.is_new(candidate.column)), None)
