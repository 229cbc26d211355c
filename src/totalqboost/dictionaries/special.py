"""Features that are more than numbers: those with missing values, and categories.

Such a feature has bins, and a weak classifier is a set of them: +1 inside, -1 outside. Sums over
bins price every set, so that a pass over the rows costs what it does for numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from totalqboost.dictionaries.base import Shift
from totalqboost.dictionaries.pricing import Offer, Pricing
from totalqboost.kernels.histogram import BY_EDGE
from totalqboost.kernels.swaps import shift_cut, sums_above_cuts
from totalqboost.learners import CategorySet, Learner, Missing, Stump

__all__ = ["BinTotals", "Categories", "NumbersWithMissing", "Sets", "SpecialFeature"]

MAX_SIZE = 256  # categories of a set, at most: every one of them costs
MAX_SINGLES = 1024
ROUNDING = 1e-9  # shares of weight that differ by less are equal
REACH = 16  # a kept cut moves by up to this fraction of its feature's cuts


class BinTotals(NamedTuple):
    """How many rows each bin has, and how much they weigh together."""

    counts: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, codes: np.ndarray, weight: np.ndarray, n_bins: int) -> BinTotals:
        """Return those of rows."""
        return cls(np.bincount(codes, minlength=n_bins), sums_by_bin(codes, weight, n_bins))


class Sets(Protocol):
    """Sets of bins that are worth trying, and the extras that each has to pay."""

    extras: np.ndarray

    def inside(self, bins: np.ndarray) -> np.ndarray:
        """Return sums over each set of values per bin, shape (n_bins, ...)."""

    def learner(self, t: int) -> Learner:
        """Return the learner that says +1 inside set t."""


class SpecialFeature(Protocol):
    """One feature: the bin of every row, and what sets of bins there are."""

    feature: int
    codes: np.ndarray
    n_bins: int
    totals: BinTotals

    @property
    def n_columns(self) -> int:
        """The number of weak classifiers, as far as they can be counted."""

    def sets(self, g: np.ndarray, h: np.ndarray) -> Sets:
        """Return the sets to try, given sums of slope and curvature per bin."""

    def members(self, learner: Any) -> np.ndarray:
        """Return the bins where a learner, taken with positive polarity, says +1."""

    def extras(self, learner: Any) -> int:
        """Return what a learner has to pay for; see :class:`Oracle`."""

    def subset(self, rows: np.ndarray, weight: np.ndarray) -> SpecialFeature:
        """Return the feature of some of the rows, and of their weights."""

    def coded(self, codes: np.ndarray) -> SpecialFeature:
        """Return the feature with the codes of other rows, which stand for all."""

    def merged(self, bins: np.ndarray) -> np.ndarray:
        """Return sums per bin of a coarse feature, given those of the fine one."""

    def coarse(self, n_bins: int, wanted: Sequence[Any]) -> SpecialFeature:
        """Return the feature with few sets, those of the learners that are wanted among them."""

    def refined(self, learner: Any, shift: Shift, y: np.ndarray, extra: float) -> Learner | None:
        """Return the best neighbour of a kept learner, its weight as it is; None: itself."""

    def neighbour(self, learner: Any, by_bin: np.ndarray, extra: float) -> Learner | None:
        """Return the same, given how the risk changes if the answers of a bin are turned."""


def sums_by_bin(codes: np.ndarray, values: np.ndarray, n_bins: int) -> np.ndarray:
    """Return the sums of values per bin."""
    return np.bincount(codes, weights=values, minlength=n_bins)


def best_sets(
    own: SpecialFeature,
    bins: np.ndarray,
    pricing: Pricing,
    exclude: Collection[Learner],
    n: int,
    polarity: int = 0,
) -> list[Offer]:
    """Return the best n sets of a feature that are not excluded, both signs of each tried.

    ``bins`` holds the sums of slope and curvature per bin. ``polarity`` other than 0 is the only
    one that may be.
    """
    sets = own.sets(bins[:, 0], bins[:, 1])
    if not len(sets.extras):
        return []
    inside, total = sets.inside(bins), bins.sum(axis=0)
    prices, signs = pricing.of_sets(inside, total, sets.extras)
    places = np.arange(len(prices))
    if pricing.rule == BY_EDGE:  # the other sign is a column too, if a poor one
        prices, signs = np.concatenate([prices, -prices]), np.concatenate([signs, -signs])
        places = np.concatenate([places, places])
    found: list[Offer] = []
    for t in np.argsort(-np.rint(prices / pricing.quantum), kind="stable"):
        if polarity not in (0, signs[t]):
            continue
        learner: Any = sets.learner(int(places[t]))
        edge = float(2.0 * inside[places[t], 0] - total[0])
        learner, edge = (learner, edge) if signs[t] > 0 else (learner.negated(), -edge)
        if learner not in exclude:
            found.append(Offer(float(prices[t]), edge, learner))
            if len(found) == n:
                break
    return found


# -- numbers, some of them missing -----------------------------------------------------------


class NumbersWithMissing:
    """A numeric feature some of whose values are missing; it is its own family of sets.

    Codes count the thresholds below a value; the last bin holds what is missing. A cut sends it
    to the side of more weight, or, as an extra, to the other; and it may stand against the rest,
    an extra too.
    """

    def __init__(self, feature: int, codes: np.ndarray, thresholds: np.ndarray, totals: BinTotals):
        self.feature, self.codes, self.thresholds = feature, codes, thresholds
        self.totals, self.n_bins = totals, len(thresholds) + 2
        self._place: np.ndarray | None = None  # of fine bins, if this one is coarse
        below = np.cumsum(totals.weight[:-1])
        self.is_usually_above = below[:-1] < (0.5 - ROUNDING) * below[-1]
        self.n_columns = 2 * len(thresholds) + 1
        cuts = len(thresholds)
        self._extras = np.repeat([0, 1, 1], [cuts, cuts, 1])
        self._order: tuple[np.ndarray, np.ndarray] | None = None

    @classmethod
    def of(
        cls, feature: int, x: np.ndarray, thresholds: np.ndarray, weight: np.ndarray
    ) -> NumbersWithMissing:
        """Return the feature of values, NaN where one is missing."""
        codes = codes_with_missing(x, thresholds)
        return cls(feature, codes, thresholds, BinTotals.of(codes, weight, len(thresholds) + 2))

    def sets(self, g: np.ndarray, h: np.ndarray) -> Sets:
        return _Cuts(self)

    def cut(self, stump: Stump) -> int:
        """Return the place of its threshold."""
        return int(self.thresholds.searchsorted(stump.threshold))

    def members(self, learner: Any) -> np.ndarray:
        members = np.zeros(self.n_bins, dtype=bool)
        members[-1] = isinstance(learner, Missing) or learner.missing_above
        if isinstance(learner, Stump):
            members[self.cut(learner) + 1 : -1] = True
        return members

    def extras(self, learner: Any) -> int:
        if isinstance(learner, Missing):
            return 1
        return int(learner.missing_above != self.is_usually_above[self.cut(learner)])

    def subset(self, rows: np.ndarray, weight: np.ndarray) -> NumbersWithMissing:
        codes = self.codes[rows]
        totals = BinTotals.of(codes, weight, self.n_bins)
        return NumbersWithMissing(self.feature, codes, self.thresholds, totals)

    def coded(self, codes: np.ndarray) -> NumbersWithMissing:
        return NumbersWithMissing(self.feature, codes, self.thresholds, self.totals)

    def merged(self, bins: np.ndarray) -> np.ndarray:
        return bins if self._place is None else _merged(bins, self._place, self.n_bins)

    def coarse(self, n_bins: int, wanted: Sequence[Any]) -> NumbersWithMissing:
        n_cuts = len(self.thresholds)
        if n_cuts < n_bins:
            return self
        below = np.cumsum(self.totals.counts)[:n_cuts]
        shares = np.arange(1, n_bins) * (below[-1] / n_bins)
        chosen = np.clip(np.searchsorted(below, shares), 0, n_cuts - 1)
        more = [self.cut(learner) for learner in wanted if isinstance(learner, Stump)]
        chosen = np.union1d(chosen, np.array(more, dtype=chosen.dtype))
        place = np.searchsorted(chosen, np.arange(self.n_bins)).astype(np.uint16)
        place[-1] = len(chosen) + 1
        totals = BinTotals(*(_merged(own, place, len(chosen) + 2) for own in self.totals))
        other = NumbersWithMissing(self.feature, place[self.codes], self.thresholds[chosen], totals)
        other._place = place
        return other

    def refined(self, learner: Any, shift: Shift, y: np.ndarray, extra: float) -> Learner | None:
        """Return the stump of the best cut nearby; what is missing stays on its side."""
        if not isinstance(learner, Stump):
            return None
        if self._order is None:
            counts = np.bincount(self.codes, minlength=self.n_bins)
            start = np.concatenate([[0], np.cumsum(counts)])
            self._order = np.argsort(self.codes, kind="stable").astype(np.int32), start
        new = moved_cut(*self._order, self.cut(learner), len(self.thresholds), learner, shift, y)
        return self._at(learner, new)

    def neighbour(self, learner: Any, by_bin: np.ndarray, extra: float) -> Learner | None:
        if not isinstance(learner, Stump):
            return None
        total = np.cumsum(by_bin[:-2])  # of the bins up to each cut
        cut = self.cut(learner)
        change = np.where(np.arange(len(total)) > cut, total - total[cut], total[cut] - total)
        return self._at(learner, int(np.argmin(change)))

    def _at(self, learner: Stump, cut: int) -> Learner | None:
        threshold = float(self.thresholds[cut])
        other = Stump(learner.feature, threshold, learner.polarity, learner.missing_above)
        return None if other == learner else other


class _Cuts:
    """All cuts of a feature, what is missing on its usual side, then on the other; and alone."""

    def __init__(self, own: NumbersWithMissing):
        self.own, self.extras = own, own._extras

    def inside(self, bins: np.ndarray) -> np.ndarray:
        own = np.ascontiguousarray(bins).reshape(len(bins), -1)
        out = np.empty((len(self.extras), own.shape[1]), own.dtype)
        sums_above_cuts(own, self.own.is_usually_above, out)
        return out.reshape(-1, *bins.shape[1:])

    def learner(self, t: int) -> Learner:
        own, n_cuts = self.own, len(self.own.thresholds)
        if t == 2 * n_cuts:
            return Missing(own.feature)
        cut = t % n_cuts
        is_above = bool(own.is_usually_above[cut]) != (t >= n_cuts)
        return Stump(own.feature, float(own.thresholds[cut]), missing_above=is_above)


def codes_with_missing(x: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Return the number of thresholds below each value, one more than the most for NaN."""
    codes = np.where(np.isnan(x), len(thresholds) + 1, np.searchsorted(thresholds, x))
    return codes.astype(np.uint16)


def _merged(bins: np.ndarray, place: np.ndarray, n_bins: int) -> np.ndarray:
    """Return sums of bins, each of which goes to its place."""
    out = np.zeros((n_bins, *bins.shape[1:]), dtype=bins.dtype)
    np.add.at(out, place, bins)
    return out


def places_near(cut: int, n_cuts: int) -> tuple[int, int]:
    """Return the lowest and the highest place that a kept cut may move to."""
    reach = max(1, n_cuts // REACH)
    return max(0, cut - reach), min(n_cuts - 1, cut + reach)


def moved_cut(
    order: np.ndarray,
    start: np.ndarray,
    cut: int,
    n_cuts: int,
    stump: Stump,
    shift: Shift,
    y: np.ndarray,
) -> int:
    """Return the best place for the cut of a kept stump, near where it is, by exact change."""
    low, high = places_near(cut, n_cuts)
    new, change = shift_cut(
        order,
        start,
        cut,
        low,
        high,
        2.0 * shift.weight * stump.polarity,
        y,
        shift.z,
        shift.u,
        shift.sample_weight,
        shift.loss.code,
    )
    return cut if change >= 0.0 else int(new)


# -- categories ------------------------------------------------------------------------------


class Categories:
    """A categorical feature; its bins are the codes of the categories.

    Sets tried are single categories, and the first and last ones in the order of slope over
    curvature, which holds the best set of any size if sets cost nothing (Fisher; Breiman et al.),
    or in the order of slope over its spread. A set is the smaller side, and every category
    beyond its first is an extra.
    """

    def __init__(
        self,
        feature: int,
        codes: np.ndarray,
        totals: BinTotals,
        wanted: Sequence[CategorySet] = (),
    ):
        self.feature, self.codes, self.totals, self.wanted = feature, codes, totals, wanted
        self.n_bins = len(totals.counts)
        self.present = np.flatnonzero(totals.counts[:-1])

    @classmethod
    def of(cls, feature: int, x: np.ndarray, n_categories: int, weight: np.ndarray) -> Categories:
        """Return the feature of codes; what is -1 has a bin of its own that is in no set."""
        codes = codes_of_categories(x, n_categories)
        return cls(feature, codes, BinTotals.of(codes, weight, n_categories + 1))

    @property
    def n_columns(self) -> int:
        return max(len(self.present) - 1, 0)

    def sets(self, g: np.ndarray, h: np.ndarray) -> Sets:
        own, n = self.present, len(self.present)
        if n < 2:
            return _Members(self.feature, np.zeros((0, self.n_bins), dtype=bool), np.zeros(0, int))
        slope, spread = g[own].astype(float), np.maximum(h[own].astype(float), 1e-30)
        strength = slope / np.sqrt(spread)
        single = np.argsort(-np.abs(strength), kind="stable")[: 1 if n == 2 else MAX_SINGLES]
        members = [self._rows([own[[j]] for j in single])]
        for key in (slope / spread, strength) if n > 2 else ():
            order = own[np.argsort(key, kind="stable")]
            sizes = range(2, min(n // 2, MAX_SIZE) + 1)
            members += [self._rows([order[:size] for size in sizes])]
            members += [self._rows([order[-size:] for size in sizes])]
        members += [self._rows([np.array(h.codes) for h in self.wanted])]
        every = np.concatenate(members)
        return _Members(self.feature, every, self._paid(every))

    def _rows(self, sets: Sequence[np.ndarray]) -> np.ndarray:
        rows = np.zeros((len(sets), self.n_bins), dtype=bool)
        for row, codes in zip(rows, sets, strict=True):
            row[codes] = True
        return rows

    def _paid(self, members: np.ndarray) -> np.ndarray:
        return _beyond_first(members[:, self.present].sum(axis=1), len(self.present))

    def members(self, learner: Any) -> np.ndarray:
        return self._rows([np.array(learner.codes)])[0]

    def extras(self, learner: Any) -> int:
        return int(self._paid(self.members(learner)[None])[0])

    def subset(self, rows: np.ndarray, weight: np.ndarray) -> Categories:
        codes = self.codes[rows]
        return Categories(self.feature, codes, BinTotals.of(codes, weight, self.n_bins))

    def coded(self, codes: np.ndarray) -> Categories:
        return Categories(self.feature, codes, self.totals, self.wanted)

    def merged(self, bins: np.ndarray) -> np.ndarray:
        return bins  # all categories stay

    def coarse(self, n_bins: int, wanted: Sequence[Any]) -> Categories:
        return Categories(self.feature, self.codes, self.totals, wanted)

    def refined(self, learner: Any, shift: Shift, y: np.ndarray, extra: float) -> Learner | None:
        """Return the set with one category more or less that lowers the objective most."""
        answers = learner.polarity * np.where(self.members(learner)[self.codes], 1, -1)
        z = shift.z - 2.0 * shift.weight * y * answers
        loss = shift.loss
        change = shift.sample_weight * (loss.value(z) - loss.value(shift.z))
        return self.neighbour(learner, sums_by_bin(self.codes, change, self.n_bins), extra)

    def neighbour(self, learner: Any, by_bin: np.ndarray, extra: float) -> Learner | None:
        own, change = self.present, by_bin[self.present]
        is_in = self.members(learner)[own]
        step = np.where(is_in, -1, 1)
        size = len(learner.codes) + step
        paid = _beyond_first(np.count_nonzero(is_in) + step, len(own))
        gain = change + extra * (paid - self.extras(learner))
        gain[(size <= 0) | (size >= len(own)) | (change >= extra)] = 0.0
        if not gain.min(initial=0.0) < 0.0:
            return None
        codes = _toggled(learner.codes, int(own[gain.argmin()]))
        return CategorySet(self.feature, codes, learner.polarity)


def codes_of_categories(x: np.ndarray, n_categories: int) -> np.ndarray:
    """Return codes as integers; what is -1 gets the one after all categories."""
    dtype = np.uint16 if n_categories < 2**16 else np.uint32
    return np.where(x < 0, n_categories, x).astype(dtype)


class _Members:
    """Sets of categories as rows of zeros and ones."""

    def __init__(self, feature: int, members: np.ndarray, extras: np.ndarray):
        self.feature, self.members, self.extras = feature, members, extras

    def inside(self, bins: np.ndarray) -> np.ndarray:
        return self.members.astype(bins.dtype) @ bins

    def learner(self, t: int) -> Learner:
        return CategorySet(self.feature, tuple(np.flatnonzero(self.members[t]).tolist()))


def _beyond_first(inside: np.ndarray, n: int) -> np.ndarray:
    """Return the extras of sets: the categories after the first, of a set or of the rest of n."""
    return np.maximum(np.minimum(inside, n - inside) - 1, 0)


def _toggled(codes: Iterable[int], code: int) -> tuple[int, ...]:
    return tuple(sorted(set(codes) ^ {code}))
