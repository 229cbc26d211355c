"""Scorer: the learners of an ensemble as arrays for the kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from totalqboost.kernels.scoring import (
    add_category_sets,
    score_stumps,
    score_stumps_of_classes,
)
from totalqboost.learners import CategorySet, Constant, Learner, Missing, Stump

__all__ = ["Scorer"]


class Scorer:
    """Scores of rows of the internal table: numbers, NaN, and codes of categories.

    Parameters
    ----------
    learners : sequence of Learner
        The weak classifiers.
    weights : array of shape (n_learners, n_scores)
        What each adds to each score of a row where it answers +1.
    intercept : array of shape (n_scores,)
        The scores before any learner.
    """

    def __init__(self, learners: Sequence[Learner], weights: np.ndarray, intercept: np.ndarray):
        pairs = list(zip(learners, weights, strict=True))
        cuts = [_cut(h, w) for h, w in pairs if isinstance(h, Stump | Missing)]
        cuts.sort(key=lambda cut: cut[2])  # stable: those that send missing values up come last
        sets = [(h, h.polarity * w) for h, w in pairs if isinstance(h, CategorySet)]
        known = Stump | Missing | CategorySet | Constant
        self.others = [(h, w) for h, w in pairs if not isinstance(h, known)]
        constants = [h.polarity * w for h, w in pairs if isinstance(h, Constant)]
        self.intercept = intercept + sum(constants, np.zeros_like(intercept))
        self.n_below = sum(not above for _, _, above, _ in cuts)
        self.features = np.array([feature for feature, *_ in cuts], dtype=np.int64)
        self.thresholds = np.array([threshold for _, threshold, *_ in cuts], dtype=float)
        self.values = np.array([w for *_, w in cuts]).reshape(-1, len(intercept))
        self.set_features = np.array([h.feature for h, _ in sets], dtype=np.int64)
        self.set_values = np.array([w for _, w in sets]).reshape(-1, len(intercept))
        flags = [_is_inside(h) for h, _ in sets]
        self.is_inside = np.concatenate([*flags, np.zeros(0, dtype=bool)])
        self.starts = np.cumsum([0, *map(len, flags)])
        both = np.concatenate([self.features, self.set_features])
        self.n_columns = int(both.max(initial=-1)) + 1  # the least number that rows must have

    def scores(self, X: np.ndarray) -> np.ndarray:
        """Return the scores, shape (n_rows, n_scores)."""
        if X.shape[1] < self.n_columns:  # kernels do not look where they read
            raise ValueError(f"X must have at least {self.n_columns} columns, got {X.shape[1]}")
        out = np.empty((len(X), len(self.intercept)))
        cuts = (X, self.features, self.thresholds)
        if len(self.intercept) == 1:
            start = float(self.intercept[0])
            score_stumps(*cuts, self.values.ravel(), self.n_below, start, out.ravel())
        else:
            score_stumps_of_classes(*cuts, self.values, self.n_below, self.intercept, out)
        if len(self.set_features):
            sets = (self.set_features, self.starts, self.is_inside, self.set_values)
            add_category_sets(X, *sets, out)
        for learner, weight in self.others:
            out += np.outer(learner.predict(X), weight)
        return out


def _cut(learner: Stump | Missing, w: np.ndarray) -> tuple[int, float, bool, np.ndarray]:
    """Return (feature, threshold, where missing values go, values above).

    "Missing" is the cut above all numbers that sends missing values up.
    """
    value = learner.polarity * w
    if isinstance(learner, Missing):
        return learner.feature, np.inf, True, value
    return learner.feature, learner.threshold, learner.missing_above, value


def _is_inside(learner: CategorySet) -> np.ndarray:
    flags = np.zeros(max(learner.codes, default=-1) + 1, dtype=bool)
    flags[list(learner.codes)] = True
    return flags
