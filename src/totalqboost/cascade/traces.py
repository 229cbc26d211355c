"""Rejection traces: the thresholds of a soft cascade as a family with one level to choose.

A threshold after each of K learners is K choices; made on the held-out positives one by one, the
losses add up and no order statistic bounds the sum. So the shape of all thresholds comes from
training rows, as in multiple-instance pruning (Zhang and Viola 2007: at level t, reject what is
lower than every training positive whose whole score is at least t), and the held-out positives
choose the level alone. Members of the family are nested: a higher level rejects all that a lower
one does. So each row has one number, the highest level that still accepts it, and the order
statistics of that number bound the recall of the whole detector (see ``bounds``).
"""

from __future__ import annotations

import numpy as np

from totalqboost.cascade.model import NEVER

__all__ = ["Traces", "loosened"]

ROUNDING = 1e-9  # relative, of sums of weights
EARLY_SHARE = 0.1  # of the misses that are allowed, those before the last learner


class Traces:
    """Nested rejection traces, made of the partial scores of training positives.

    Parameters
    ----------
    partial : array of shape (n_learners, n_positives)
        Their scores after each learner.
    min_recall : float
        The recall that will be asked for. The minima over training positives are shifted so that
        about ``EARLY_SHARE`` of the misses that it allows come before the last learner: up where
        there are many positives, which makes minima extreme and cascades slow, down where there
        are few, which new positives would often undercut.
    """

    def __init__(self, partial: np.ndarray, min_recall: float):
        self.final = partial[-1]
        self.early = partial[:-1] - _slack(partial, min_recall)
        self.bottom = self.early.min(axis=1, initial=np.inf)
        order = np.argsort(self.early, axis=1, kind="stable")
        self._sorted = np.take_along_axis(self.early, order, axis=1)
        self._highest = np.maximum.accumulate(self.final[order], axis=1)

    def levels(self, partial: np.ndarray) -> np.ndarray:
        """Return the highest level at which each row is accepted, from its partial scores."""
        levels = partial[-1].copy()
        lowest = self.final.min()
        for k, values in enumerate(partial[:-1]):
            place = np.searchsorted(self._sorted[k], values, side="right")
            # Below all training positives levels go on falling, one for one.
            below = lowest - (self.bottom[k] - values)
            own = np.where(place > 0, self._highest[k][np.maximum(place, 1) - 1], below)
            np.minimum(levels, own, out=levels)
        return levels

    def thresholds(self, level: float) -> np.ndarray:
        """Return the thresholds after each learner that accept exactly what has this level."""
        lowest = self.final.min()
        if level <= lowest:
            return np.append(self.bottom - (lowest - level), level)
        kept = self.final >= min(level, self.final.max())
        return np.append(self.early[:, kept].min(axis=1), level)


def _slack(partial: np.ndarray, min_recall: float) -> float:
    """Return what is subtracted from minima over positives, by two-fold cross-validation."""
    half = np.arange(partial.shape[1]) % 2 == 0
    if partial.shape[0] == 1 or half.all():
        return 0.0
    level = np.quantile(partial[-1], 1.0 - min_recall, method="lower")
    deficits = [
        (part[:-1][:, part[-1] >= level].min(axis=1, initial=np.inf)[:, None] - rest[:-1])[
            :, rest[-1] >= level
        ].max(axis=0)
        for part, rest in (
            (partial[:, half], partial[:, ~half]),
            (partial[:, ~half], partial[:, half]),
        )
        if (part[-1] >= level).any()
    ]
    missed = EARLY_SHARE * (1.0 - min_recall)
    all_of_them = np.concatenate([*deficits, np.zeros(1)])
    return float(np.quantile(all_of_them, 1.0 - missed, method="higher"))


def loosened(thresholds: np.ndarray, partial: np.ndarray) -> tuple[float, ...]:
    """Return thresholds in the gaps below, where no training row is; what is accepted only grows.

    Then neither rounding nor coarser weights move a row across them. One that would reject no
    training row is left out, but the last, which decides.
    """
    loose = []
    for k, (threshold, scores) in enumerate(zip(thresholds, partial, strict=True)):
        edge = threshold - ROUNDING * (1.0 + abs(threshold))
        lower = scores[scores < edge]
        if len(lower):
            loose.append(float(min(edge, (lower.max() + threshold) / 2)))
        else:
            loose.append(float(edge) if k == len(thresholds) - 1 else NEVER)
    return tuple(loose)
