"""What ensembles do on rows that they were not trained on: error, log-loss, AUC, and how surely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import expit
from scipy.stats import rankdata

from totalqboost.losses import Loss

__all__ = ["HeldOut", "Measure", "joined"]

MOST = 4.0  # a factor of scores lies between 1 / MOST and this
N_STEPS = 30
N_PARTS = 10  # that are calibrated by each other
LEAST_PROBABILITY = np.finfo(float).eps  # as scikit-learn's log_loss cuts them


@dataclass(frozen=True)
class Measure:
    """A mean and its standard error, one of each per size."""

    mean: np.ndarray
    se: np.ndarray

    def first(self, n_sizes: int) -> Measure:
        """Return that of the first sizes."""
        return Measure(self.mean[:n_sizes], self.se[:n_sizes])


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Scores of the ensembles of several sizes on held-out rows.

    Attributes
    ----------
    scores : array of shape (n_sizes, n_rows)
        f(x) of each ensemble on each row.
    y : array of shape (n_rows,)
        Signs of the classes.
    weight : array of shape (n_rows,)
        Weights of the rows; they sum to one.
    fold : array of int, shape (n_rows,)
        Rows of one fold were scored by the same ensembles.
    cluster : array of int, shape (n_rows,)
        Rows of one cluster are no independent witnesses: those of one group, or one row that
        several folds held out.
    loss : Loss
        Its link turns scores into probabilities.
    """

    scores: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    fold: np.ndarray
    cluster: np.ndarray
    loss: Loss

    def first(self, n_sizes: int) -> HeldOut:
        """Return the scores of the first sizes."""
        return replace(self, scores=self.scores[:n_sizes])

    @cached_property
    def wrong(self) -> np.ndarray:
        """1.0 where the label of a row would be wrong; a score of 0 means the first class."""
        return ((self.scores > 0) != (self.y > 0)).astype(float)

    @cached_property
    def log_losses(self) -> np.ndarray:
        """-log of the probability of the right class, for each row."""
        p = self.loss.link(self.scores)
        right = np.where(self.y > 0, p, 1.0 - p)
        return -np.log(np.clip(right, LEAST_PROBABILITY, 1.0))

    @property
    def mean_error(self) -> np.ndarray:
        """Share of wrong labels, without the work for its standard error."""
        return self._mean(self.wrong)

    @property
    def error(self) -> Measure:
        """Share of wrong labels, with its standard error."""
        return self._measure(self.wrong)

    @property
    def log_loss(self) -> Measure:
        """Mean of the log-losses."""
        return self._measure(self.log_losses)

    @cached_property
    def auc(self) -> Measure:
        """Mean of the folds' areas under the ROC curve; weights do not count (DeLong's error).

        A fold with one class has none.
        """
        folds = [self._auc(self.fold == fold) for fold in np.unique(self.fold)]
        folds = [found for found in folds if found is not None]
        if not folds:
            nothing = np.full(len(self.scores), np.nan)
            return Measure(nothing, nothing)
        areas, variances = (np.array(values) for values in zip(*folds, strict=True))
        return Measure(areas.mean(axis=0), np.sqrt(variances.sum(axis=0)) / len(folds))

    def calibrated(self) -> tuple[HeldOut, np.ndarray]:
        """Return the scores times a factor for each size, and the factors.

        The l1 price makes scores too small, overfitting makes them too large; the factor of
        least log-loss puts both right and changes no label. Scores here get the factor of other
        folds (of at most ten parts) without the clusters of their own, so that the log-loss
        stays honest; where there are no other rows they stay as they are.
        """
        if self.loss.log_odds is None:
            return self, np.ones(len(self.scores))
        scores = self.scores.copy()
        _, fold = np.unique(self.fold, return_inverse=True)
        for part in np.unique(fold % N_PARTS):
            own = fold % N_PARTS == part
            others = ~own & ~np.isin(self.cluster, self.cluster[own])
            if others.any():
                scores[:, own] *= self._factors(others)[:, None]
        every = np.ones(len(self.y), dtype=bool)
        return replace(self, scores=scores), self._factors(every)

    def _factors(self, rows: np.ndarray) -> np.ndarray:
        """Return the factor of least log-loss for each size, by Newton steps on its logarithm."""
        assert self.loss.log_odds is not None
        margins = self.loss.log_odds * self.scores[:, rows] * self.y[rows]
        weight = self.weight[rows]
        log_factor = np.zeros(len(margins))
        for _ in range(N_STEPS):
            z = np.exp(log_factor)[:, None] * margins
            u = expit(-z)
            slope = -(u * z) @ weight
            curvature = (u * (1.0 - u) * z**2) @ weight + np.abs(slope)
            log_factor -= slope / np.maximum(curvature, 1e-300)
            log_factor = np.clip(log_factor, -np.log(MOST), np.log(MOST))
        return np.exp(log_factor)

    def excess(self, values: np.ndarray, best: int) -> Measure:
        """Return how much higher values are than those of one size, compared row by row."""
        return self._measure(values - values[best])

    def _mean(self, values: np.ndarray) -> np.ndarray:
        return np.round(values @ self.weight, 14)  # equal numbers of wrong rows are equal

    def _measure(self, values: np.ndarray) -> Measure:
        """Return the weighted mean of values of rows; its error is that of clusters."""
        mean = self._mean(values)
        parts = (values - mean[:, None]) * self.weight
        _, place = np.unique(self.cluster, return_inverse=True)
        totals = np.array([np.bincount(place, part) for part in parts])
        return Measure(mean, np.sqrt((totals**2).sum(axis=1)))

    def _auc(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the areas on some rows and their variances, by placements (DeLong et al.)."""
        scores, is_positive = self.scores[:, rows], self.y[rows] > 0
        n_positive = int(is_positive.sum())
        n_negative = len(is_positive) - n_positive
        if n_positive == 0 or n_negative == 0:
            return None
        ranks = rankdata(scores, axis=1)
        own_positive = rankdata(scores[:, is_positive], axis=1)
        own_negative = rankdata(scores[:, ~is_positive], axis=1)
        above = (ranks[:, is_positive] - own_positive) / n_negative  # share of negatives below
        below = 1.0 - (ranks[:, ~is_positive] - own_negative) / n_positive
        variance = _variance(above) / n_positive + _variance(below) / n_negative
        return above.mean(axis=1), variance


def _variance(values: np.ndarray) -> np.ndarray:
    return values.var(axis=1, ddof=1) if values.shape[1] > 1 else np.zeros(len(values))


def joined(parts: Sequence[HeldOut]) -> HeldOut:
    """Return the rows of several folds together, weights made to sum to one."""
    weight = np.concatenate([part.weight for part in parts])
    return HeldOut(
        np.concatenate([part.scores for part in parts], axis=1),
        np.concatenate([part.y for part in parts]),
        weight / weight.sum(),
        np.concatenate([part.fold for part in parts]),
        np.concatenate([part.cluster for part in parts]),
        parts[0].loss,
    )
