"""What ensembles do on rows that they were not trained on: error, log-loss, AUC, and how surely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import expit, log_softmax, softmax
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
    scores : array of shape (n_sizes, n_rows) or (n_sizes, n_rows, n_classes)
        f(x) of each ensemble on each row, of more than two classes one for each.
    y : array of shape (n_rows,)
        Signs of the classes; numbers of more than two.
    weight : array of shape (n_rows,)
        Weights of the rows; they sum to one.
    fold : array of int, shape (n_rows,)
        Rows of one fold were scored by the same ensembles.
    cluster : array of int, shape (n_rows,)
        Rows of one cluster are no independent witnesses: those of one group, or one row that
        several folds held out.
    loss : Loss
        Its link turns scores into probabilities; of more than two classes softmax does.
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

    @property
    def is_multiclass(self) -> bool:
        return self.scores.ndim == 3

    @cached_property
    def wrong(self) -> np.ndarray:
        """1.0 where the label of a row would be wrong; a score of 0 means the first class."""
        if self.is_multiclass:
            return (self.scores.argmax(axis=2) != self.y).astype(float)
        return ((self.scores > 0) != (self.y > 0)).astype(float)

    @cached_property
    def log_losses(self) -> np.ndarray:
        """-log of the probability of the right class, for each row."""
        if self.is_multiclass:
            right = log_softmax(self.scores, axis=2)[:, np.arange(len(self.y)), self.y]
            return np.minimum(-right, -np.log(LEAST_PROBABILITY))
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

        A fold with one class has none. Of more than two classes it is the mean over classes of
        the area of each against the rest, by probability.
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
        if self.loss.log_odds is None and not self.is_multiclass:
            return self, np.ones(len(self.scores))
        scores = self.scores.copy()
        _, fold = np.unique(self.fold, return_inverse=True)
        for part in np.unique(fold % N_PARTS):
            own = fold % N_PARTS == part
            others = ~own & ~np.isin(self.cluster, self.cluster[own])
            if others.any():
                factors = self._factors(others)
                scores[:, own] *= factors.reshape(-1, *[1] * (scores.ndim - 1))
        every = np.ones(len(self.y), dtype=bool)
        return replace(self, scores=scores), self._factors(every)

    def _factors(self, rows: np.ndarray) -> np.ndarray:
        """Return the factor of least log-loss for each size, by Newton steps on its logarithm."""
        weight = self.weight[rows]
        log_factor = np.zeros(len(self.scores))
        for _ in range(N_STEPS):
            slopes, spreads = self._slopes(np.exp(log_factor), rows)
            slope = slopes @ weight
            curvature = spreads @ weight + np.abs(slope)
            log_factor -= slope / np.maximum(curvature, 1e-300)
            log_factor = np.clip(log_factor, -np.log(MOST), np.log(MOST))
        return np.exp(log_factor)

    def _slopes(self, factor: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return slope of the log-loss in the logarithm of the factor, per row, and variances."""
        if self.is_multiclass:
            F = factor[:, None, None] * self.scores[:, rows]
            p = softmax(F, axis=2)
            mean = np.sum(p * F, axis=2)
            right = F[:, np.arange(F.shape[1]), self.y[rows]]
            return mean - right, np.sum(p * F**2, axis=2) - mean**2
        assert self.loss.log_odds is not None
        z = factor[:, None] * (self.loss.log_odds * self.scores[:, rows] * self.y[rows])
        u = expit(-z)
        return -(u * z), u * (1.0 - u) * z**2

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
        scores, y = self.scores[:, rows], self.y[rows]
        if not self.is_multiclass:
            found = _placements(scores, y > 0)
            return None if found is None else (found[0], (found[1] ** 2).sum(axis=1))
        p = softmax(scores, axis=2)
        every = [_placements(p[:, :, label], y == label) for label in range(p.shape[2])]
        present = [found for found in every if found is not None]
        if not present:
            return None
        areas, parts = (np.mean(values, axis=0) for values in zip(*present, strict=True))
        return areas, (parts**2).sum(axis=1)


def _placements(
    scores: np.ndarray, is_positive: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the areas, and what each row adds to their error: the variance is the sum of squares.

    None if there is one class only.
    """
    n_positive = int(is_positive.sum())
    n_negative = len(is_positive) - n_positive
    if n_positive == 0 or n_negative == 0:
        return None
    ranks = rankdata(scores, axis=1)
    own_positive = rankdata(scores[:, is_positive], axis=1)
    own_negative = rankdata(scores[:, ~is_positive], axis=1)
    above = (ranks[:, is_positive] - own_positive) / n_negative  # share of negatives below
    below = 1.0 - (ranks[:, ~is_positive] - own_negative) / n_positive
    parts = np.empty_like(ranks)
    parts[:, is_positive], parts[:, ~is_positive] = _errors(above), _errors(below)
    return above.mean(axis=1), parts


def _errors(values: np.ndarray) -> np.ndarray:
    """Return deviations whose squares sum to the variance of the mean."""
    n = values.shape[1]
    return (values - values.mean(axis=1, keepdims=True)) / np.sqrt(n * max(n - 1, 1))


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
