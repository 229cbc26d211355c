"""Decision stumps: one feature, one threshold, two polarities, and the constants.

Features are coded by rank once; each call of the oracle then makes one histogram per
feature, in O(rows x features), and reads every threshold's price off it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from totalqboost.dictionaries.base import Candidate, Candidates, Shift, price_rule
from totalqboost.dictionaries.grid import CutGrid, Joined, SetGrid
from totalqboost.dictionaries.pricing import Offer, Pricing
from totalqboost.dictionaries.special import (
    Categories,
    NumbersWithMissing,
    SpecialFeature,
    best_sets,
    moved_cut,
    sums_by_bin,
)
from totalqboost.kernels.histogram import BY_EDGE, best_cuts
from totalqboost.kernels.loss_codes import CUSTOM
from totalqboost.learners import Constant, Feature, Learner, Stump
from totalqboost.master import normalised
from totalqboost.threads import n_threads, share_out

__all__ = ["StumpOracle", "Stumps"]

MAX_CODES = 2**16
GRID_BINS = 64  # cuts per feature that an exchange scores, and one
PARALLEL_FROM = 2_000_000  # rows x features: below this, threads cost more than they save


@dataclass(frozen=True)
class Stumps:
    """All decision stumps of the data: thresholds midway between neighbouring values.

    Parameters
    ----------
    max_bins : int, optional
        Cut each feature at no more than ``max_bins - 1`` quantiles. By default every
        distinct value counts (up to 65,536 per feature; of collections of Dask, 256). 256 or
        less codes a feature in one byte per row.

    Examples
    --------
    >>> import numpy as np
    >>> oracle = Stumps().prepare(np.array([[1.0], [2.0], [4.0]]), np.array([-1, 1, 1]))
    >>> oracle.best(np.full(3, 1 / 3))[0].learner
    Stump(feature=0, threshold=1.5, polarity=1)
    """

    max_bins: int | None = None

    def __post_init__(self) -> None:
        if self.max_bins is not None and not 2 <= self.max_bins <= MAX_CODES:
            raise ValueError(
                f"max_bins must be between 2 and {MAX_CODES} or None, got {self.max_bins!r}"
            )

    def prepare(
        self,
        X: np.ndarray,
        y: np.ndarray,
        n_jobs: int | None = None,
        features: Sequence[Feature] | None = None,
        weight: np.ndarray | None = None,
    ) -> StumpOracle:
        """Code the features by rank and return the oracle; a sparse matrix stays sparse."""
        if sparse.issparse(X):
            from totalqboost.dictionaries.sparse import SparseStumpOracle  # which needs this one

            return SparseStumpOracle.of(X, y, self.max_bins or MAX_CODES, n_jobs, features, weight)
        return StumpOracle.of(X, y, self.max_bins or MAX_CODES, n_jobs, features, weight)


class StumpOracle:
    """Histogram oracle over the stumps of a data set.

    Parameters
    ----------
    y : array of int8
        The labels, -1 and +1.
    weight : array
        How much each example counts; the sum is one.
    thresholds : list of array
        Those of each feature, ascending.
    polarity : array of int
        The only one that stumps of a feature may have, 0 if both.
    special : dict
        The features that are more than numbers.
    groups : sequence
        The codes of the others.
    n_threads : int
        Features are shared out among them.
    """

    def __init__(
        self,
        y: np.ndarray,
        weight: np.ndarray,
        thresholds: list[np.ndarray],
        polarity: np.ndarray,
        special: dict[int, SpecialFeature],
        groups: Sequence[Any],
        n_threads: int,
    ):
        self.y, self.weight, self.thresholds, self.polarity = y, weight, thresholds, polarity
        self.is_symmetric = not polarity.any()
        self.special, self.groups, self.n_threads = special, groups, n_threads
        self.n_features = len(thresholds)
        self.place = _places(groups)
        self._orders: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._counts: dict[int, np.ndarray] = {}  # of all rows, if these stand for them
        self._extras: dict[Learner, int] = {}  # of learners that were asked for
        self._offered: dict[Stump, int] = {}  # key of each stump that was ever offered

    @classmethod
    def of(
        cls,
        X: np.ndarray,
        y: np.ndarray,
        max_bins: int,
        n_jobs: int | None,
        features: Sequence[Feature] | None = None,
        weight: np.ndarray | None = None,
    ) -> StumpOracle:
        """Return the oracle of examples, each feature coded by rank."""
        m, n_features = X.shape
        weight = normalised(weight, m)
        kinds = [Feature("")] * n_features if features is None else features
        number = n_threads(n_jobs) if m * n_features >= PARALLEL_FROM else 1
        with ThreadPoolExecutor(number) as pool:

            def cuts(feature: int) -> np.ndarray:
                is_category = kinds[feature].categories is not None
                return np.zeros(0) if is_category else cut_points(X[:, feature], max_bins)

            thresholds = list(pool.map(cuts, range(n_features)))
            special = _special_features(X, thresholds, kinds, weight)
            polarity = polarities(kinds)
            groups = dense_groups(thresholds, polarity, special, m)
            place = _places(groups)

            def encode(feature: int) -> None:
                group, row = place[feature]
                group.codes[row] = np.searchsorted(thresholds[feature], X[:, feature])

            list(pool.map(encode, place))
        y = np.asarray(y, dtype=np.int8)
        return cls(y, weight, thresholds, polarity, special, groups, number)

    @property
    def n_columns(self) -> int:
        """The number of cuts, and of sets of categories as far as they can be counted."""
        plain = sum(len(self.thresholds[f]) for f in self.place)
        return plain + sum(own.n_columns for own in self.special.values())

    def subset(self, rows: np.ndarray) -> StumpOracle:
        """See :class:`totalqboost.dictionaries.base.Oracle`; nothing is coded again."""
        other = copy(self)
        other.y, other.weight = self.y[rows], normalised(self.weight[rows], len(rows))
        other.groups = [group.subset(rows) for group in self.groups]
        other.place = _places(other.groups)
        other.special = {f: own.subset(rows, other.weight) for f, own in self.special.items()}
        other._orders, other._counts, other._extras = {}, {}, {}
        return other

    def sampled(self, rows: np.ndarray) -> StumpOracle:
        """Return the oracle of some rows that stand for all: its coarse cuts are those of all."""
        other = copy(self)
        other.y, other.weight = self.y[rows], self.weight[rows]
        other.groups = [group.subset(rows) for group in self.groups]
        other.place = _places(other.groups)
        other.special = {f: own.coded(own.codes[rows]) for f, own in self.special.items()}
        other._orders, other._counts = {}, {f: self.counts(f) for f in self.place}
        return other

    def best(
        self,
        u: np.ndarray,
        exclude: Collection[Learner] = (),
        n: int = 1,
        curvature: np.ndarray | None = None,
        nu: float = 0.0,
        extra: float = 0.0,
    ) -> list[Candidate]:
        """See :class:`totalqboost.dictionaries.base.Oracle`."""
        g = np.multiply(u, self.y, dtype=float)
        h = u if curvature is None else curvature
        rule = price_rule(u, curvature)
        pricing = Pricing.by(rule, g, nu, extra)
        found: list[tuple[float, int, int, float]] = []  # price, feature, key, edge
        for group in self.groups:
            blocks = self._blocked(group, exclude)
            found += group.best(g, h, pricing, blocks, n, self.n_threads)
        # Ties are decided by feature, then threshold: prices that differ by rounding are ties.
        quantum = pricing.quantum
        found.sort(key=lambda c: (-np.rint(c[0] / quantum), c[1], c[2]))
        offers = [self._offer(*item) for item in found[:n]]
        for feature, own in self.special.items():
            sign = int(self.polarity[feature])
            offers += best_sets(own, self.priced_bins(feature, g, h), pricing, exclude, n, sign)
        if rule == BY_EDGE:
            total = float(g.sum())
            edges = [(sign * total, Constant(sign)) for sign in (1, -1)]
            offers += [Offer(edge, edge, h) for edge, h in edges if h not in exclude]
        if len(offers) > len(found[:n]):
            offers.sort(key=lambda offer: -np.rint(offer.price / quantum))
        return [Candidate(o.learner, self.column(o.learner), o.edge, o.price) for o in offers[:n]]

    @property
    def constants(self) -> tuple[Learner, ...]:
        """See :class:`totalqboost.dictionaries.base.Oracle`."""
        return (Constant(1),)

    def n_extras(self, learner: Learner) -> int:
        """See :class:`totalqboost.dictionaries.base.Oracle`."""
        if not self.special:
            return 0
        known = self._extras.get(learner)
        if known is None:
            own = self.special_feature(learner)
            known = self._extras[learner] = 0 if own is None else own.extras(learner)
        return known

    def has_opposite(self, learner: Learner) -> bool:
        """See :class:`totalqboost.dictionaries.base.Oracle`."""
        return self.is_symmetric or not any(self.polarity[f] for f in learner.features)

    def special_feature(self, learner: Learner) -> SpecialFeature | None:
        """Return the feature that a learner looks at if it is more than numbers."""
        if not self.special:
            return None
        return next((self.special[f] for f in learner.features if f in self.special), None)

    def codes(self, feature: int) -> np.ndarray:
        """Return the rank codes of a feature: the number of thresholds below each value."""
        if feature in self.special:
            return self.special[feature].codes
        group, row = self.place[feature]
        codes: np.ndarray = group.codes_of(row)
        return codes

    def counts(self, feature: int) -> np.ndarray:
        """Return how many rows have each code of a feature, of all where some stand for them."""
        if feature in self._counts:
            return self._counts[feature]
        return np.bincount(self.codes(feature), minlength=len(self.thresholds[feature]) + 1)

    def bins(self, feature: int, *values: np.ndarray) -> np.ndarray:
        """Return the sums of values of rows per bin of a special feature, a column for each."""
        own = self.special[feature]
        return np.column_stack([sums_by_bin(own.codes, v, own.n_bins) for v in values])

    def priced_bins(self, feature: int, g: np.ndarray, h: np.ndarray) -> np.ndarray:
        """Return the sums of slope and curvature per bin of a special feature."""
        return self.bins(feature, g, h)

    def told(self, learners: Sequence[Learner], weights: np.ndarray) -> None:
        """See :class:`totalqboost.dictionaries.base.Oracle`; weights of rows say all here."""

    def with_dense_codes(self) -> StumpOracle:
        """Return the same oracle with a code for every row and feature: itself, unless sparse."""
        return self

    def column(self, learner: Learner) -> np.ndarray:
        """Return y_i h(x_i) of a stump of this dictionary, from the codes, or of a constant."""
        if isinstance(learner, Constant):
            return learner.polarity * self.y
        own: Any = self.special_feature(learner)
        if own is not None:
            known: Any = learner
            inside = own.members(known)[own.codes]
            return np.where(inside == known.is_positive, self.y, -self.y)
        assert isinstance(learner, Stump)
        above = self.codes(learner.feature) > self._key(learner) // 2
        return np.where(above == (learner.polarity > 0), self.y, -self.y)

    def candidates(self, with_constant: bool, wanted: Collection[Learner] = ()) -> Candidates:
        """Return cuts near the quantiles of each feature; ``refined`` finds those between."""
        plain = self.cut_grid(with_constant, wanted)
        if not self.special:
            return plain
        polarity = [int(self.polarity[f]) for f in self.special]
        return Joined(plain, SetGrid(self.coarse(wanted), polarity, not with_constant))

    def coarse(self, wanted: Collection[Learner] = ()) -> list[SpecialFeature]:
        """Return the features that are more than numbers, with few sets each."""
        return [
            feature.coarse(GRID_BINS, [h for h in wanted if h.features == (f,)])
            for f, feature in self.special.items()
        ]

    def cut_grid(self, with_constant: bool, wanted: Collection[Learner] = ()) -> CutGrid:
        """Return the candidates of the features that are numbers."""
        cuts: dict[int, list[int]] = {}
        for learner in wanted:
            if isinstance(learner, Stump) and learner.feature in self.place:
                cuts.setdefault(learner.feature, []).append(self._key(learner) // 2)
        return CutGrid(
            self.codes,
            self.counts,
            [t if f in self.place else t[:0] for f, t in enumerate(self.thresholds)],
            self.polarity,
            len(self.y),
            GRID_BINS,
            with_constant,
            self.n_threads,
            cuts,
        )

    def refined(self, learner: Learner, shift: Shift) -> Learner | None:
        """Return the stump of the best cut nearby, by exact change of the risk."""
        own = self.special_feature(learner)
        if shift.loss.code == CUSTOM:
            return None
        if own is not None:
            return own.refined(learner, shift, self.y, shift.extra)
        if not isinstance(learner, Stump):
            return None
        thresholds, cut = self.thresholds[learner.feature], self._key(learner) // 2
        order, start = self.sorted_rows(learner.feature)
        new = moved_cut(order, start, cut, len(thresholds), learner, shift, self.y)
        if new == cut:
            return None
        return Stump(learner.feature, float(thresholds[new]), learner.polarity)

    def sorted_rows(self, feature: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows in the order of a feature's codes, and where each code begins."""
        if feature not in self._orders:
            codes, n_codes = self.codes(feature), len(self.thresholds[feature]) + 1
            start = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=n_codes))])
            order = np.argsort(codes, kind="stable").astype(np.int32)
            self._orders[feature] = (order, start)
        return self._orders[feature]

    def _key(self, stump: Stump) -> int:
        """Return the key of a stump of this dictionary, -1 for any other."""
        if stump not in self._offered:
            thresholds = self.thresholds[stump.feature]
            cut = int(np.searchsorted(thresholds, stump.threshold))
            is_ours = cut < len(thresholds) and thresholds[cut] == stump.threshold
            self._offered[stump] = 2 * cut + (stump.polarity < 0) if is_ours else -1
        return self._offered[stump]

    def _offer(self, price: float, feature: int, key: int, edge: float) -> Offer:
        threshold = float(self.thresholds[feature][key // 2])
        stump = Stump(feature, threshold, 1 if key % 2 == 0 else -1)
        self._offered[stump] = key
        return Offer(price, edge, stump)

    def _blocked(self, group: Any, exclude: Collection[Learner]) -> tuple[np.ndarray, np.ndarray]:
        """Return the excluded keys of each feature of the group, as offsets and sorted keys."""
        found = []
        for learner in exclude:
            if isinstance(learner, Stump) and learner.feature in self.place:
                owner, row = self.place[learner.feature]
                if owner is group:
                    found.append((row, self._key(learner)))
        rows, keys = np.array(sorted(found), dtype=np.int64).reshape(-1, 2).T
        return np.searchsorted(rows, np.arange(len(group.features) + 1)), np.ascontiguousarray(keys)


class _CodedFeatures:
    """The features whose codes share one integer type, one row of codes per feature."""

    def __init__(
        self, features: np.ndarray, n_codes: np.ndarray, polarity: np.ndarray, m: int, dtype: type
    ):
        self.features = features
        self.n_codes = n_codes
        self.polarity = polarity
        self.codes: np.ndarray = np.empty((len(features), m), dtype=dtype)

    def codes_of(self, row: int) -> np.ndarray:
        """Return the codes of the feature in one row."""
        codes: np.ndarray = self.codes[row]
        return codes

    def subset(self, rows: np.ndarray) -> _CodedFeatures:
        """Return the same features of some of the rows."""
        other = copy(self)
        other.codes = np.ascontiguousarray(self.codes[:, rows])
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
        """Return (price, feature, key, edge) of the best n cuts of each feature."""
        shape = (len(self.features), n)
        prices, edges = np.full(shape, -np.inf), np.zeros(shape)
        keys = np.full(shape, -1, dtype=np.int64)

        def scan(first: int, last: int) -> None:
            best_cuts(
                self.codes,
                self.n_codes,
                self.polarity,
                g,
                h,
                pricing.rule,
                pricing.nu,
                *blocks,
                pricing.tie,
                first,
                last,
                prices,
                keys,
                edges,
            )

        share_out(shape[0], n_threads, scan)
        rows, places = np.nonzero(keys >= 0)
        return [
            (float(prices[r, p]), int(self.features[r]), int(keys[r, p]), float(edges[r, p]))
            for r, p in zip(rows, places, strict=True)
        ]


def _special_features(
    X: np.ndarray, thresholds: list[np.ndarray], kinds: Sequence[Feature], weight: np.ndarray
) -> dict[int, SpecialFeature]:
    """Return the features that have categories or missing values."""
    special: dict[int, SpecialFeature] = {}
    for f, kind in enumerate(kinds):
        if kind.categories is not None:
            special[f] = Categories.of(f, X[:, f], len(kind.categories), weight)
        elif np.isnan(X[:, f].max()):
            special[f] = NumbersWithMissing.of(f, X[:, f], thresholds[f], weight)
    return special


def polarities(features: Sequence[Feature]) -> np.ndarray:
    """Return the only polarity that stumps of each feature may have, 0 if both."""
    return np.array([feature.monotone for feature in features], dtype=np.int64)


def dense_groups(
    thresholds: list[np.ndarray], polarity: np.ndarray, special: Collection[int], m: int
) -> list[_CodedFeatures]:
    """Return groups of features of few and of many codes, which are not written yet."""
    n_codes = np.array([len(t) + 1 for t in thresholds], dtype=np.int64)
    is_plain = np.array([f not in special for f in range(len(thresholds))], dtype=bool)
    small = n_codes <= 256
    return [
        _CodedFeatures(np.flatnonzero(mask), n_codes[mask], polarity[mask], m, dtype)
        for mask, dtype in ((small & is_plain, np.uint8), (~small & is_plain, np.uint16))
        if mask.any()
    ]


def _places(groups: Sequence[Any]) -> dict[int, tuple[Any, int]]:
    """Return for each feature its group and its row there."""
    return {f: (group, row) for group in groups for row, f in enumerate(group.features.tolist())}


def cut_points(x: np.ndarray, max_bins: int) -> np.ndarray:
    """Return the thresholds of one feature, ascending, at most max_bins - 1 of them.

    They lie midway between neighbouring distinct values: all of them where they are few
    enough, else those nearest to the quantiles.
    """
    ordered = np.sort(x)
    if np.isnan(ordered[-1]):
        ordered = ordered[: np.searchsorted(ordered, np.nan)]  # what is missing comes last
    last = np.flatnonzero(ordered[1:] != ordered[:-1])  # last row of each value but the largest
    last = last[quantile_places(last, len(ordered), max_bins)]
    return midway(ordered[last], ordered[last + 1])


def quantile_places(last: np.ndarray, n_rows: int, max_bins: int) -> np.ndarray | slice:
    """Return where to cut sorted rows, given the last row of each value but the largest."""
    if len(last) < max_bins:
        return slice(None)
    wanted = np.arange(1, max_bins) * (n_rows / max_bins) - 1
    after = np.clip(np.searchsorted(last, wanted), 1, len(last) - 1)
    nearer = last[after] - wanted < wanted - last[after - 1]
    return np.unique(np.where(nearer, after, after - 1))


def midway(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return thresholds between neighbouring values."""
    low, high = low.astype(float), high.astype(float)
    middle = 0.5 * low + 0.5 * high
    # Rounding must not leave the gap.
    return np.where((low <= middle) & (middle < high), middle, low)
