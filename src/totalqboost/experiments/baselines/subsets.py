"""Choices of columns that need no solver: backward elimination, and chance.

Both take the columns that plain column generation has made and refit the weights of those they
keep, as subset selection (experiment E) does. So the difference from E is the solver alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from totalqboost.kernels.newton import own_gram
from totalqboost.master import MasterProblem
from totalqboost.refit import refit_value

__all__ = ["backward_elimination", "random_subsets"]


def backward_elimination(
    problem: MasterProblem, tol: float = 1e-6
) -> Iterator[tuple[int, np.ndarray, float]]:
    """Drop the least useful column, again and again, until none is left.

    Dropping column j costs about w_j^2 / (2 V_jj), V the inverse of the Hessian (Hassibi and
    Stork, Second order derivatives for network pruning, 1993); the others are refitted.

    Yields
    ------
    (int, array, float)
        How many columns are left (some may have no weight), the weights, and the
        l1-regularised risk.
    """
    priced, free = np.flatnonzero(problem.cost > 0), problem.free
    w = np.zeros(problem.n_columns)
    while True:
        support = np.concatenate([priced, free])
        w, value = refit_value(problem, support, w, tol=tol)
        yield len(priced), w, value
        if len(priced) == 0:
            return
        _, q = problem.weights_and_curvature(w)
        G = np.empty((len(support), len(support)))
        own_gram(problem.A, support, q, G)
        V = np.linalg.inv(G + (1e-6 * q.sum() + 1e-12) * np.eye(len(support)))
        cost = w[priced] ** 2 / np.maximum(np.diag(V)[: len(priced)], 1e-300)
        priced = np.delete(priced, int(np.argmin(cost)))


def random_subsets(
    problem: MasterProblem, generators: Iterable[np.random.Generator], tol: float = 1e-10
) -> Iterator[tuple[int, np.ndarray]]:
    """Draw one, two, three, ... columns by chance and refit; each number with its own generator.

    Yields
    ------
    (int, array)
        How many columns were drawn (some may get no weight), and the weights.
    """
    priced, free = np.flatnonzero(problem.cost > 0), problem.free
    for n, rng in zip(range(1, len(priced) + 1), generators, strict=False):
        drawn = rng.choice(priced, n, replace=False)
        yield n, refit_value(problem, np.concatenate([np.sort(drawn), free]), tol=tol)[0]
