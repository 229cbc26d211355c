"""Stumps of a sparse matrix: codes of the non-zeros only, zero's bin by subtraction.

Passes over the dictionary cost the number of non-zeros, whatever the number of rows and
features. The stumps are those of the same matrix made dense.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
from scipy import sparse

from totalqboost.dictionaries.grid import few_cuts
from totalqboost.dictionaries.pricing import Pricing
from totalqboost.dictionaries.special import NumbersWithMissing, SpecialFeature
from totalqboost.dictionaries.stumps import (
    GRID_BINS,
    PARALLEL_FROM,
    StumpOracle,
    cut_points,
    dense_groups,
    midway,
    polarities,
    quantile_places,
)
from totalqboost.kernels.histogram import BY_EDGE, BY_NEWTON_DECREASE
from totalqboost.kernels.sparse import ABSENT, best_sparse_cuts, sparse_cut_sums
from totalqboost.learners import Constant, Feature, Learner, Stump
from totalqboost.master import normalised
from totalqboost.threads import n_threads, share_out

__all__ = ["SparseGrid", "SparseStumpOracle"]

MOST_FEATURES = 500  # that an exchange looks at because they are best now, or best alone
MOST_CODES = 2**29  # of features that need a code for every row


class SparseStumpOracle(StumpOracle):
    """Histogram oracle over the stumps of a sparse matrix."""

    @classmethod
    def of(
        cls,
        X: Any,
        y: np.ndarray,
        max_bins: int,
        n_jobs: int | None,
        features: Sequence[Feature] | None = None,
        weight: np.ndarray | None = None,
    ) -> SparseStumpOracle:
        """Return the oracle of a sparse matrix; NaN among its values is missing."""
        X = sparse.csc_array(X)
        X.sum_duplicates()
        weight = normalised(weight, X.shape[0])
        kinds = [Feature("")] * X.shape[1] if features is None else features
        polarity = polarities(kinds)
        has_gap = np.bincount(_columns(X)[np.isnan(X.data)], minlength=X.shape[1]) > 0
        _check_room(int(has_gap.sum()) * X.shape[0], "has missing values in too many columns")
        coded = _Coded(X, np.flatnonzero(~has_gap), max_bins)
        thresholds = coded.thresholds
        special: dict[int, SpecialFeature] = {}
        for f in np.flatnonzero(has_gap).tolist():
            x = _dense_column(X, f)
            thresholds[f] = cut_points(x, max_bins)
            special[f] = NumbersWithMissing.of(f, x, thresholds[f], weight)
        groups = [SparseFeatures(coded, polarity)] if len(coded.features) else []
        number = n_threads(n_jobs) if X.nnz >= PARALLEL_FROM else 1
        y = np.asarray(y, dtype=np.int8)
        return cls(y, weight, thresholds, polarity, special, groups, number)

    def cut_grid(self, with_constant: bool, wanted: Collection[Learner] = ()) -> Any:
        """Return the candidates of an exchange: all features, or the most promising ones."""
        cuts: dict[int, list[int]] = {}
        for learner in wanted:
            if isinstance(learner, Stump) and learner.feature in self.place:
                cuts.setdefault(self.place[learner.feature][1], []).append(self._key(learner) // 2)
        group = self.groups[0] if self.groups else None
        known = group, self.y, self.weight, self.thresholds
        return SparseGrid(*known, with_constant, self.n_threads, cuts)

    def with_dense_codes(self) -> StumpOracle:
        """Return the oracle that has a code for every row and feature, if they are not many."""
        m = len(self.y)
        _check_room(m * self.n_features, "is too large for more than two classes")
        groups = dense_groups(self.thresholds, self.polarity, self.special, m)
        for group in groups:
            for row, feature in enumerate(group.features.tolist()):
                group.codes[row] = self.codes(feature)
        known = self.y, self.weight, self.thresholds, self.polarity, self.special
        return StumpOracle(*known, groups, self.n_threads)


def _check_room(n_codes: int, complaint: str) -> None:
    if n_codes > MOST_CODES:
        raise ValueError(
            f"X is sparse and {complaint} ({n_codes:.2g} values, at most {MOST_CODES:.2g}); "
            "choose fewer columns first, e.g. with sklearn.feature_selection.SelectKBest, "
            "or use X.toarray() if memory allows"
        )


def _columns(X: Any) -> np.ndarray:
    """Return the column of each entry."""
    return np.repeat(np.arange(X.shape[1]), np.diff(X.indptr))


def _dense_column(X: Any, f: int) -> np.ndarray:
    x = np.zeros(X.shape[0], dtype=X.dtype)
    own = slice(X.indptr[f], X.indptr[f + 1])
    x[X.indices[own]] = X.data[own]
    return x


class _Coded:
    """Thresholds of all features, and the codes of the entries of some, where not that of zero."""

    def __init__(self, X: Any, features: np.ndarray, max_bins: int):
        self.n_rows, self.features = X.shape[0], features
        self.thresholds = [np.zeros(0)] * X.shape[1]
        self.zero = np.zeros(len(features), dtype=np.uint16)
        self.starts = np.zeros(len(features) + 1, dtype=np.int64)
        self.rows = np.empty(X.nnz, dtype=np.int32)
        self.codes = np.empty(X.nnz, dtype=np.uint16)
        end = 0
        for place, f in enumerate(features.tolist()):
            own = slice(X.indptr[f], X.indptr[f + 1])
            x = X.data[own]
            thresholds = self.thresholds[f] = sparse_cut_points(x, self.n_rows, max_bins)
            if len(thresholds):
                codes = np.searchsorted(thresholds, x)
                zero = int(np.searchsorted(thresholds, 0.0))
                is_entry = codes != zero
                begin, end = end, end + int(np.count_nonzero(is_entry))
                self.zero[place] = zero
                self.rows[begin:end] = X.indices[own][is_entry]
                self.codes[begin:end] = codes[is_entry]
            self.starts[place + 1] = end
        self.rows, self.codes = self.rows[:end].copy(), self.codes[:end].copy()


def sparse_cut_points(x: np.ndarray, n_rows: int, max_bins: int) -> np.ndarray:
    """Return the thresholds of a feature that is zero but for these values.

    As :func:`stumps.cut_points` of the dense feature.
    """
    values, counts = np.unique(x, return_counts=True)
    n_zeros = n_rows - len(x)
    if n_zeros:
        place = int(np.searchsorted(values, 0.0))
        if place == len(values) or values[place] != 0.0:
            values, counts = np.insert(values, place, 0.0), np.insert(counts, place, 0)
        counts[place] += n_zeros
    places = quantile_places(np.cumsum(counts)[:-1] - 1, n_rows, max_bins)
    return midway(values[:-1][places], values[1:][places])


class SparseFeatures:
    """Codes of sparse features, feature by feature; rows that are not there have zero's code."""

    def __init__(self, coded: _Coded, polarity: np.ndarray):
        self.n_rows, self.features = coded.n_rows, coded.features
        self.n_codes = np.array([len(coded.thresholds[f]) + 1 for f in coded.features.tolist()])
        self.polarity = polarity[coded.features]
        self.zero, self.starts = coded.zero, coded.starts
        self.rows, self.codes = coded.rows, coded.codes

    @property
    def entries(self) -> tuple[np.ndarray, ...]:
        """What kernels have to know of the codes."""
        return self.starts, self.rows, self.codes, self.zero, self.n_codes

    def codes_of(self, row: int) -> np.ndarray:
        """Return the codes of one feature, for all rows."""
        codes = np.full(self.n_rows, self.zero[row])
        own = slice(self.starts[row], self.starts[row + 1])
        codes[self.rows[own]] = self.codes[own]
        return codes

    def counts_of(self, row: int) -> np.ndarray:
        """Return the number of rows of each code of one feature."""
        own = self.codes[self.starts[row] : self.starts[row + 1]]
        counts = np.bincount(own, minlength=self.n_codes[row])
        counts[self.zero[row]] += self.n_rows - len(own)
        return counts

    def subset(self, rows: np.ndarray) -> SparseFeatures:
        """Return the same features of some of the rows."""
        shape = self.n_rows, len(self.features)
        kept = sparse.csc_array((self.codes, self.rows, self.starts), shape=shape)[rows]
        other = copy(self)
        other.n_rows = len(rows)
        other.starts = kept.indptr.astype(np.int64)
        other.rows, other.codes = kept.indices.astype(np.int32, copy=False), kept.data
        return other

    def best(
        self,
        g: np.ndarray,
        h: np.ndarray,
        pricing: Pricing,
        blocks: tuple[np.ndarray, np.ndarray],
        n: int,
        n_threads: int,
    ) -> list[tuple[float, int, int, float]]:
        """Return (price, feature, key, edge) of the best n cuts of all features."""
        prices, keys, edges = self.scan(g, h, pricing, blocks, n, n_threads)
        rows, places = np.nonzero(keys >= 0)
        prices, keys, edges = prices[rows, places], keys[rows, places], edges[rows, places]
        rank = -np.rint(prices / pricing.quantum)
        if len(rank) > n:
            near = np.flatnonzero(rank <= np.partition(rank, n - 1)[n - 1])
            rows, prices, keys, edges, rank = (
                values[near] for values in (rows, prices, keys, edges, rank)
            )
        return [
            (float(prices[t]), int(self.features[rows[t]]), int(keys[t]), float(edges[t]))
            for t in np.lexsort((keys, rows, rank))[:n]
        ]

    def scan(
        self,
        g: np.ndarray,
        h: np.ndarray,
        pricing: Pricing,
        blocks: tuple[np.ndarray, np.ndarray] | None,
        n: int,
        n_threads: int,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return prices, keys and edges of the best n cuts of each feature."""
        shape = (len(self.features), n)
        prices, edges = np.full(shape, -np.inf), np.zeros(shape)
        keys = np.full(shape, -1, dtype=np.int64)
        none = np.zeros(len(self.starts), dtype=np.int64), np.zeros(0, dtype=np.int64)

        def work(first: int, last: int) -> None:
            best_sparse_cuts(
                *self.entries,
                self.polarity,
                g,
                h,
                pricing.rule,
                pricing.nu,
                *(none if blocks is None else blocks),
                pricing.tie,
                first,
                last,
                prices,
                keys,
                edges,
            )

        share_out(shape[0], n_threads, work)
        return prices, keys, edges


class SparseGrid:
    """Cuts that an exchange scores: near the quantiles of features, as in :class:`CutGrid`.

    Of very many features these are the ones whose best cut gains most where the exchange is, those
    that gain most alone, and those of learners that are kept or wanted: the first are worth
    adding, the others worth trying in the place of a kept one, whose gain they would share.
    """

    def __init__(
        self,
        own: SparseFeatures | None,
        y: np.ndarray,
        weight: np.ndarray,
        thresholds: list[np.ndarray],
        with_constant: bool,
        n_threads: int,
        wanted: Mapping[int, Sequence[int]],
    ):
        self.own, self.thresholds, self.wanted = own, thresholds, wanted
        self.with_constant, self.n_threads = with_constant, n_threads
        self._few: dict[int, np.ndarray] = {}  # cuts of features that were looked at
        self._fixed: np.ndarray | None = None
        every = np.arange(0 if own is None else len(own.features))
        if len(every) > 2 * MOST_FEATURES:
            alone = self._promising(weight * y, weight)
            self._fixed = np.union1d(alone, np.array(list(wanted), dtype=int))
        self._choose(every if self._fixed is None else self._fixed)

    def _promising(self, g: np.ndarray, h: np.ndarray) -> np.ndarray:
        """Return the features whose best cut gains most."""
        assert self.own is not None
        rule = BY_EDGE if self.with_constant else BY_NEWTON_DECREASE
        pricing = Pricing(rule, 0.0, 0.0, 0.0)
        prices = self.own.scan(g, h, pricing, None, 1, self.n_threads)[0][:, 0]
        return np.argpartition(-prices, MOST_FEATURES)[:MOST_FEATURES]

    def _choose(self, chosen: np.ndarray) -> None:
        """Let candidates be the cuts of these features."""
        cuts = [self._cuts(row) for row in chosen.tolist()]
        sizes = [len(own) for own in cuts]
        self.chosen, self.offsets = chosen, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.cuts = np.concatenate([*cuts, np.zeros(0, dtype=np.int64)])
        rows = np.repeat(chosen, sizes)
        no_features = np.zeros(0, dtype=np.int64)
        names, polarity = (
            (no_features, no_features)
            if self.own is None
            else (self.own.features[rows], self.own.polarity[rows])
        )
        extra = [-1] if self.with_constant else []
        self.features = np.append(names, extra).astype(np.int64)
        self.is_signed = np.append(polarity == 0, [True] * len(extra)).astype(bool)
        self.extras = np.zeros(len(self.features), dtype=int)
        self.is_falling = polarity < 0

    def _cuts(self, row: int) -> np.ndarray:
        if row not in self._few:
            assert self.own is not None
            n_cuts = int(self.own.n_codes[row]) - 1
            self._few[row] = (
                np.arange(n_cuts)
                if n_cuts < GRID_BINS
                else few_cuts(self.own.counts_of(row), GRID_BINS, self.wanted.get(row, ()))
            )
        return self._few[row]

    def learner(self, s: int) -> Learner:
        """Return the stump of a cut of the last pass, or the constant."""
        if s == len(self.cuts):
            return Constant(1)
        feature = int(self.features[s])
        polarity = -1 if self.is_falling[s] else 1
        return Stump(feature, float(self.thresholds[feature][self.cuts[s]]), polarity)

    def sums(self, Q: np.ndarray, rows: np.ndarray, kept: Collection[Learner] = ()) -> np.ndarray:
        """See :class:`totalqboost.dictionaries.base.Candidates`."""
        if self._fixed is not None:
            self._choose(self._best_now(Q, rows, kept))
        return self._sums(Q, rows)

    def edges(self, values: np.ndarray, over: float = 1.0) -> np.ndarray:
        """See :class:`totalqboost.dictionaries.base.Candidates`."""
        values = values / over
        return self._sums(values.astype(np.float32)[:, None], np.arange(len(values)))[:, 0]

    def _sums(self, Q: np.ndarray, rows: np.ndarray) -> np.ndarray:
        out = np.empty((len(self.features), Q.shape[1]), np.float32)
        total = Q.sum(axis=0, dtype=float).astype(np.float32)
        if self.with_constant:
            out[-1] = total
        if self.own is not None:
            own = self.own
            at = np.full(own.n_rows, ABSENT, dtype=np.int32)
            at[rows] = np.arange(len(rows))

            def scan(first: int, last: int) -> None:
                what = self.chosen, self.cuts, self.offsets, at, Q, total
                sparse_cut_sums(*own.entries, *what, first, last, out)

            share_out(len(self.chosen), self.n_threads, scan)
        out[: len(self.cuts)][self.is_falling] *= -1.0
        return out

    def _best_now(self, Q: np.ndarray, rows: np.ndarray, kept: Collection[Learner]) -> np.ndarray:
        """Return the features to look at: slope and curvature are the first two sides of Q."""
        assert self.own is not None
        assert self._fixed is not None
        g, h = np.zeros((2, self.own.n_rows))
        g[rows], h[rows] = Q[:, 0], Q[:, 1]
        names = [f for learner in kept for f in learner.features]
        own = np.flatnonzero(np.isin(self.own.features, names))
        return np.unique(np.concatenate([self._fixed, own, self._promising(g, h)]))
