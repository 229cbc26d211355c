"""Cuts that stand for all stumps: few enough per feature to be scored in one pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from totalqboost.dictionaries.special import Sets, SpecialFeature, sums_by_bin
from totalqboost.kernels.swaps import bin_sums, cut_edges, cut_sums
from totalqboost.learners import Constant, Learner, Stump
from totalqboost.threads import share_out

__all__ = ["CutGrid", "Joined", "SetGrid", "few_cuts"]

MAX_CUTS = 255  # of a feature: a code is one byte


def few_cuts(counts: np.ndarray, n_bins: int, wanted: Sequence[int]) -> np.ndarray:
    """Return cuts near the quantiles of a feature of so many rows per code, and those wanted."""
    below = np.cumsum(counts)
    shares = np.arange(1, n_bins) * (below[-1] / n_bins)
    chosen = np.unique(np.clip(np.searchsorted(below[:-1], shares), 0, len(counts) - 2))
    more = wanted[: MAX_CUTS - len(chosen)]
    return np.union1d(chosen, np.asarray(more, dtype=np.int64))


class CutGrid:
    """At most ``n_bins - 1`` cuts of each feature, near its quantiles, others that are wanted,
    and the constant.

    Parameters
    ----------
    codes, counts : callable
        The rank codes of a feature, and how many rows have each.
    thresholds : list of array
        The thresholds of each feature.
    polarity : array of int
        The only one that a feature may have, 0 if both.
    n_rows, n_bins : int
        Number of examples, and of bins per feature.
    with_constant : bool
        Whether the constant classifier is the last candidate.
    wanted : mapping, optional
        Further cuts of features, by their place among the thresholds.
    n_threads : int
        Features are shared out among them; the sums do not depend on their number.
    """

    def __init__(
        self,
        codes: Callable[[int], np.ndarray],
        counts: Callable[[int], np.ndarray],
        thresholds: list[np.ndarray],
        polarity: np.ndarray,
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
                chosen = few_cuts(counts(feature), n_bins, (wanted or {}).get(feature, ()))
                cuts.append(chosen)
                place = np.searchsorted(chosen, np.arange(len(own) + 1)).astype(np.uint8)
                np.take(place, fine, out=self.codes[feature])
        sizes = [len(chosen) for chosen in cuts]
        self.offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.features = np.repeat(np.arange(len(cuts)), sizes)
        sign = np.where(polarity == 0, 1, polarity)[self.features]
        self.cuts = np.concatenate([*cuts, np.empty(0, dtype=np.int64)]).astype(np.int64)
        self.is_signed = polarity[self.features] == 0
        if with_constant:
            self.features = np.append(self.features, -1)
            self.is_signed = np.append(self.is_signed, True)
        self.extras = np.zeros(len(self.features), dtype=int)
        self.is_falling = sign < 0
        self.has_falling = bool(self.is_falling.any())

    def learner(self, s: int) -> Learner:
        """Return the stump of a cut, or the constant."""
        if s == len(self.cuts):
            return Constant(1)
        feature = int(self.features[s])
        polarity = -1 if self.is_falling[s] else 1
        return Stump(feature, float(self.thresholds[feature][self.cuts[s]]), polarity)

    def sums(self, Q: np.ndarray, rows: np.ndarray, kept: Collection[Learner] = ()) -> np.ndarray:
        """See :class:`totalqboost.dictionaries.base.Candidates`."""
        out = np.empty((len(self.cuts) + self.with_constant, Q.shape[1]), np.float32)
        total = Q.sum(axis=0, dtype=float).astype(np.float32)
        if self.with_constant:
            out[-1] = total

        def scan(first: int, last: int) -> None:
            cut_sums(self.codes, rows, self.offsets, first, last, Q, total, out)

        share_out(len(self.thresholds), self.n_threads, scan)
        if self.has_falling:
            out[: len(self.cuts)][self.is_falling] *= -1.0
        return out

    def edges(self, values: np.ndarray, over: float = 1.0) -> np.ndarray:
        """See :class:`totalqboost.dictionaries.base.Candidates`."""
        values = (values / over).astype(np.float32)
        out = np.empty(len(self.cuts) + self.with_constant, np.float32)
        if self.with_constant:
            out[-1] = values.sum(dtype=float)

        def scan(first: int, last: int) -> None:
            cut_edges(self.codes, self.offsets, first, last, values, out)

        share_out(len(self.thresholds), self.n_threads, scan)
        if self.has_falling:
            out[: len(self.cuts)][self.is_falling] *= -1.0
        return out

    def sums_of_bins(self, bins: Mapping[int, np.ndarray], total: np.ndarray) -> np.ndarray:
        """Return sum_i h_s(x_i) v_i of all cuts s, given sums of v per code of each feature.

        Values may have further dimensions; ``total`` is the sum of all.
        """
        parts = [
            total - 2.0 * np.cumsum(bins[f], axis=0)[self.cuts[first:last]]
            for f, (first, last) in enumerate(pairwise(self.offsets))
            if last > first
        ]
        out = np.concatenate([*parts, total[None][: int(self.with_constant)]])
        if self.has_falling:
            out[: len(self.cuts)][self.is_falling] *= -1.0
        return out

    def edges_of_bins(self, bins: Mapping[int, np.ndarray], total: np.ndarray) -> np.ndarray:
        """Return what ``edges`` does, given sums of values per code of each feature."""
        return self.sums_of_bins(bins, total)


class SetGrid:
    """Sets of bins of special features, chosen anew by every pass.

    Parameters
    ----------
    own : sequence of SpecialFeature
        The features, with few sets each.
    polarity : sequence of int
        The only one that a feature may have, 0 if both.
    has_curvature : bool
        Whether the second right-hand side of a pass is the curvature: that of the intercept. Where
        there is none, the weights of rows stand for it.
    """

    def __init__(
        self,
        own: Sequence[SpecialFeature],
        polarity: Sequence[int],
        has_curvature: bool,
    ):
        self.own, self.polarity, self.has_curvature = own, polarity, has_curvature
        self.is_signed = np.zeros(0, dtype=bool)
        self.extras = self.features = np.zeros(0, dtype=int)
        self._sets: list[Sets] = []
        self._starts = np.zeros(1, dtype=int)

    def learner(self, s: int) -> Learner:
        """Return the learner of a set of the last pass."""
        place = int(np.searchsorted(self._starts, s, side="right")) - 1
        learner: Any = self._sets[place].learner(int(s - self._starts[place]))
        is_turned = self.polarity[place] < 0 and not self.is_signed[s]
        turned: Learner = learner.negated() if is_turned else learner
        return turned

    def sums(self, Q: np.ndarray, rows: np.ndarray, kept: Collection[Learner] = ()) -> np.ndarray:
        """See :class:`totalqboost.dictionaries.base.Candidates`."""
        total = Q.sum(axis=0, dtype=float).astype(np.float32)
        parts, self._sets = [], []
        for own, polarity in zip(self.own, self.polarity, strict=True):
            bins = np.zeros((own.n_bins, Q.shape[1]), np.float32)
            bin_sums(own.codes, rows, Q, bins)
            h = bins[:, 1] if self.has_curvature else own.totals.weight
            sets = own.sets(bins[:, 0], h)
            part = 2.0 * sets.inside(bins) - total
            parts.append(part if polarity >= 0 else -part)
            self._sets.append(sets)
        sizes = [len(part) for part in parts]
        self._starts = np.concatenate([[0], np.cumsum(sizes)])
        self.features = np.repeat([own.feature for own in self.own], sizes)
        self.is_signed = np.repeat([polarity == 0 for polarity in self.polarity], sizes)
        self.extras = np.concatenate([sets.extras for sets in self._sets])
        return np.concatenate(parts)

    def edges(self, values: np.ndarray, over: float = 1.0) -> np.ndarray:
        """See :class:`totalqboost.dictionaries.base.Candidates`."""
        values = values / over
        return self._edges([sums_by_bin(own.codes, values, own.n_bins) for own in self.own])

    def edges_of_bins(self, bins: Mapping[int, np.ndarray], total: np.ndarray) -> np.ndarray:
        """Return what ``edges`` does, given sums of values per fine bin of each feature."""
        return self._edges([own.merged(bins[own.feature]) for own in self.own])

    def _edges(self, bins: Sequence[np.ndarray]) -> np.ndarray:
        parts = []
        for own, polarity, sets in zip(bins, self.polarity, self._sets, strict=True):
            part = 2.0 * sets.inside(own) - own.sum()
            parts.append(part if polarity >= 0 else -part)
        return np.concatenate(parts)


class Joined:
    """Candidates of two kinds."""

    def __init__(self, first: Any, second: Any):
        self.first, self.second = first, second
        self.n_first = len(first.features)

    @property
    def is_signed(self) -> np.ndarray:
        return np.concatenate([self.first.is_signed, self.second.is_signed])

    @property
    def extras(self) -> np.ndarray:
        return np.concatenate([self.first.extras, self.second.extras])

    @property
    def features(self) -> np.ndarray:
        return np.concatenate([self.first.features, self.second.features])

    def learner(self, s: int) -> Learner:
        if s < self.n_first:
            return self.first.learner(s)
        return self.second.learner(s - self.n_first)

    def sums(self, Q: np.ndarray, rows: np.ndarray, kept: Collection[Learner] = ()) -> np.ndarray:
        first = self.first.sums(Q, rows, kept)
        self.n_first = len(first)
        return np.concatenate([first, self.second.sums(Q, rows, kept)])

    def edges(self, values: np.ndarray, over: float = 1.0) -> np.ndarray:
        return np.concatenate([self.first.edges(values, over), self.second.edges(values, over)])

    def edges_of_bins(self, bins: Mapping[int, np.ndarray], total: np.ndarray) -> np.ndarray:
        parts = [own.edges_of_bins(bins, total) for own in (self.first, self.second)]
        return np.concatenate(parts)
