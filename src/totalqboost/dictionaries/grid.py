"""Cuts that stand for all stumps: few enough per feature to be scored in one pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from totalqboost.kernels.swaps import cut_sums
from totalqboost.learners import Constant, Learner, Stump
from totalqboost.threads import share_out

__all__ = ["CutGrid"]

MAX_CUTS = 255  # of a feature: a code is one byte


class CutGrid:
    """At most ``n_bins - 1`` cuts of each feature, near its quantiles, others that are wanted,
    and the constant.

    Parameters
    ----------
    codes : callable
        The rank codes of a feature.
    thresholds : list of array
        The thresholds of each feature.
    n_rows, n_bins : int
        Number of examples, and of bins per feature.
    with_constant : bool
        Whether the constant classifier is the last candidate.
    wanted : mapping, optional
        Further cuts of features, by their place among the thresholds.
    n_threads : int
        Features are shared out among them; the sums do not depend on their number.
    """

    is_signed = True

    def __init__(
        self,
        codes: Callable[[int], np.ndarray],
        thresholds: list[np.ndarray],
        n_rows: int,
        n_bins: int,
        with_constant: bool,
        n_threads: int,
        wanted: Mapping[int, Sequence[int]] | None = None,
    ):
        self.thresholds, self.with_constant, self.n_threads = thresholds, with_constant, n_threads
        self.codes = np.empty((len(thresholds), n_rows), np.uint8)
        cuts = []
        for feature, own in enumerate(thresholds):
            fine = codes(feature)
            if len(own) < n_bins:
                cuts.append(np.arange(len(own)))
                self.codes[feature] = fine
            else:
                below = np.cumsum(np.bincount(fine, minlength=len(own) + 1))[:-1]
                shares = np.arange(1, n_bins) * (n_rows / n_bins)
                chosen = np.unique(np.clip(np.searchsorted(below, shares), 0, len(own) - 1))
                more = (wanted or {}).get(feature, ())[: MAX_CUTS - len(chosen)]
                chosen = np.union1d(chosen, np.asarray(more, dtype=np.int64))
                cuts.append(chosen)
                place = np.searchsorted(chosen, np.arange(len(own) + 1)).astype(np.uint8)
                np.take(place, fine, out=self.codes[feature])
        sizes = [len(chosen) for chosen in cuts]
        self.offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.features = np.repeat(np.arange(len(cuts)), sizes)
        self.cuts = np.concatenate([*cuts, np.empty(0, dtype=np.int64)]).astype(np.int64)

    def learner(self, s: int) -> Learner:
        """Return the stump of a cut, or the constant."""
        if s == len(self.cuts):
            return Constant(1)
        feature = int(self.features[s])
        return Stump(feature, float(self.thresholds[feature][self.cuts[s]]), 1)

    def sums(self, Q: np.ndarray, rows: np.ndarray, kept: Collection[Learner] = ()) -> np.ndarray:
        """See :class:`totalqboost.dictionaries.base.Candidates`."""
        out = np.empty((len(self.cuts) + self.with_constant, Q.shape[1]), np.float32)
        total = Q.sum(axis=0, dtype=float).astype(np.float32)
        if self.with_constant:
            out[-1] = total

        def scan(first: int, last: int) -> None:
            cut_sums(self.codes, rows, self.offsets, first, last, Q, total, out)

        share_out(len(self.thresholds), self.n_threads, scan)
        return out
