"""AdaBoost: one column gets a weight in each round."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from totalqboost.dictionaries.base import Oracle
from totalqboost.experiments.baselines.generation import Stage, ensemble_of
from totalqboost.learners import Constant, Learner, Stump

__all__ = ["adaboost"]

LARGEST_EDGE = 1.0 - 1e-12  # of a column that is not perfect
SMALLEST_EDGE = 1e-12  # below, no column is better than chance


def adaboost(oracle: Oracle, c: np.ndarray, max_rounds: int) -> Iterator[Stage]:
    """Discrete AdaBoost; a column chosen again adds to its weight, its opposite subtracts.

    A column without any error needs no company: it becomes the whole ensemble, at weight 1.
    """
    weights: dict[Learner, float] = {}
    z = np.zeros(len(c))
    for _ in range(max_rounds):
        d = c * np.exp(z.min() - z)
        d /= d.sum()
        best = oracle.best(d)[0]
        if best.edge <= SMALLEST_EDGE:
            return
        is_perfect = bool((best.column[c > 0] > 0).all())
        if is_perfect:
            weights, z = {best.learner: 1.0}, 1.0 * best.column
        else:
            alpha = float(np.arctanh(min(best.edge, LARGEST_EDGE)))
            _add_weight(weights, best.learner, alpha)
            z += alpha * best.column
        risk = float(c @ np.exp(-z))
        yield Stage(ensemble_of(list(weights), np.array(list(weights.values()))), risk, -np.inf)
        if is_perfect:
            return


def _add_weight(weights: dict[Learner, float], learner: Learner, alpha: float) -> None:
    """Add alpha h to the sum; h and -h are one learner, of the sign that remains."""
    if isinstance(learner, Stump | Constant):
        opposite = learner.negated()
        alpha -= weights.pop(opposite, 0.0)
        if alpha < 0:
            learner, alpha = opposite, -alpha
    weights[learner] = weights.get(learner, 0.0) + alpha
