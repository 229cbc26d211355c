"""The order in which a soft cascade asks its learners: what rejects most for the least, first."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["best_order", "expected_cost"]

MOST_ROWS = 1000  # of each class that orders are compared on
MOST_SWEEPS = 2


def best_order(
    votes: np.ndarray,
    is_positive: np.ndarray,
    reads: list[tuple[int, ...]],
    feature_costs: np.ndarray,
    min_recall: float,
) -> list[int]:
    """Return the order of least expected cost for a negative, by moving one learner at a time.

    A learner costs 1, and a feature its cost when the first learner looks at it.

    Parameters
    ----------
    votes : array of shape (n_learners, n_rows)
        What each learner adds to the score of each training row.
    is_positive : array of bool, shape (n_rows,)
        The class of each row.
    reads : list of tuples of int
        The features that each learner looks at.
    feature_costs : array of shape (n_features,)
        In units of the cost of a learner.
    min_recall : float
        Negatives are rejected where no positive is that is in this best share by whole score.
    """
    positives, negatives = _some(votes[:, is_positive]), _some(votes[:, ~is_positive])
    totals = positives.sum(axis=0)
    kept = positives[:, totals >= np.quantile(totals, 1.0 - min_recall, method="lower")]

    def cost(order: list[int]) -> float:
        return expected_cost(order, kept, negatives, reads, feature_costs)

    order = list(range(len(votes)))
    least = cost(order)
    for _ in range(MOST_SWEEPS):
        before = least
        for learner in list(order):
            order, least = _best_place(order, least, learner, cost)
        if least >= before:
            break
    return order


def _best_place(
    order: list[int], least: float, learner: int, cost: Callable[[list[int]], float]
) -> tuple[list[int], float]:
    others, best = [k for k in order if k != learner], order
    for place in range(len(order)):
        moved = [*others[:place], learner, *others[place:]]
        if (value := cost(moved)) < least - 1e-12:
            best, least = moved, value
    return best, least


def expected_cost(
    order: list[int],
    kept: np.ndarray,
    negatives: np.ndarray,
    reads: list[tuple[int, ...]],
    feature_costs: np.ndarray,
) -> float:
    """Return the mean cost of a negative that is rejected where no kept positive is as low."""
    least = np.cumsum(kept[order], axis=0).min(axis=1)
    passes = np.cumsum(negatives[order], axis=0) >= least[:, None] - 1e-9
    alive = np.logical_and.accumulate(passes, axis=0).mean(axis=1)
    reached = np.append(1.0, alive[:-1])
    return float(reached @ _costs(order, reads, feature_costs))


def _costs(order: list[int], reads: list[tuple[int, ...]], feature_costs: np.ndarray) -> np.ndarray:
    seen: set[int] = set()
    costs = np.ones(len(order))
    for place, k in enumerate(order):
        new = [j for j in reads[k] if j not in seen]
        costs[place] += feature_costs[new].sum()
        seen.update(new)
    return costs


def _some(columns: np.ndarray) -> np.ndarray:
    """Return columns evenly spread over all, not more than are needed."""
    n = columns.shape[1]
    return columns[:, np.unique(np.linspace(0, n - 1, min(n, MOST_ROWS)).astype(int))]
