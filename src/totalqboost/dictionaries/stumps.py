"""Decision stumps: one feature, one threshold, two polarities, and the constants.

Features are coded by rank once; each call of the oracle then makes one histogram per
feature, in O(rows x features), and reads every threshold's price off it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass

import numpy as np

from totalqboost.dictionaries.base import Candidate, Shift, price_rule
from totalqboost.dictionaries.grid import CutGrid
from totalqboost.kernels.histogram import BY_EDGE, best_cuts
from totalqboost.kernels.loss_codes import CUSTOM
from totalqboost.kernels.swaps import shift_cut
from totalqboost.learners import Constant, Feature, Learner, Stump
from totalqboost.master import absolute_sum
from totalqboost.threads import n_threads, share_out

__all__ = ["StumpOracle", "Stumps"]

MAX_CODES = 2**16
GRID_BINS = 64  # cuts per feature that an exchange scores, and one
REACH = 16  # a kept cut moves by up to this fraction of its feature's cuts
PARALLEL_FROM = 2_000_000  # rows x features: below this, threads cost more than they save


@dataclass(frozen=True)
class Stumps:
    """All decision stumps of the data: thresholds midway between neighbouring values.

    Parameters
    ----------
    max_bins : int, optional
        Cut each feature at no more than ``max_bins - 1`` quantiles. By default every
        distinct value counts (up to 65,536 per feature). 256 or less codes a feature in
        one byte per row.

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
    ) -> StumpOracle:
        """Code the features by rank and return the oracle."""
        return StumpOracle(X, y, self.max_bins or MAX_CODES, n_jobs)


class StumpOracle:
    """Histogram oracle over the stumps of a data set."""

    def __init__(self, X: np.ndarray, y: np.ndarray, max_bins: int, n_jobs: int | None):
        m, n_features = X.shape
        self.n_features = n_features
        self.y = np.asarray(y, dtype=np.int8)
        number = n_threads(n_jobs)
        self.n_threads = number if m * n_features >= PARALLEL_FROM else 1
        self._orders: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        with ThreadPoolExecutor(self.n_threads) as pool:
            self.thresholds = list(
                pool.map(lambda f: cut_points(X[:, f], max_bins), range(n_features))
            )
            n_codes = np.array([len(t) + 1 for t in self.thresholds], dtype=np.int64)
            small = n_codes <= 256
            self.groups = [
                _CodedFeatures(np.flatnonzero(mask), n_codes[mask], m, dtype)
                for mask, dtype in ((small, np.uint8), (~small, np.uint16))
                if mask.any()
            ]
            self._offered: dict[Stump, int] = {}  # key of each stump that was ever offered
            self.place = _places(self.groups)

            def encode(feature: int) -> None:
                group, row = self.place[feature]
                group.codes[row] = np.searchsorted(self.thresholds[feature], X[:, feature])

            list(pool.map(encode, range(n_features)))

    @property
    def n_columns(self) -> int:
        """The number of cuts."""
        return sum(len(thresholds) for thresholds in self.thresholds)

    def subset(self, rows: np.ndarray) -> StumpOracle:
        """See :class:`totalqboost.dictionaries.base.Oracle`; nothing is coded again."""
        other = copy(self)
        other.y = self.y[rows]
        other.groups = [group.subset(rows) for group in self.groups]
        other.place = _places(other.groups)
        other._orders = {}
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
        scale = absolute_sum(g)
        found: list[tuple[float, int, int, float]] = []  # price, feature, key, edge
        for group in self.groups:
            blocked_start, blocked = self._blocked(group, exclude)
            found += group.best(g, h, rule, nu, blocked_start, blocked, scale, n, self.n_threads)
        # Ties are decided by feature, then threshold: prices that differ by rounding are ties.
        quantum = max(1e-12 * scale, 1e-300)
        found.sort(key=lambda c: (-np.rint(c[0] / quantum), c[1], c[2]))
        candidates = [self._candidate(*item) for item in found[:n]]
        if rule == BY_EDGE:
            total = float(g.sum())
            for sign in (1, -1):
                if Constant(sign) not in exclude:
                    edge = sign * total
                    candidates.append(Candidate(Constant(sign), sign * self.y, edge, edge))
            candidates.sort(key=lambda c: -np.rint(c.price / quantum))
        return candidates[:n]

    @property
    def constants(self) -> tuple[Learner, ...]:
        """See :class:`totalqboost.dictionaries.base.Oracle`."""
        return (Constant(1),)

    def extras(self, learner: Learner) -> int:
        """Return 0."""
        return 0

    def codes(self, feature: int) -> np.ndarray:
        """Return the rank codes of a feature: the number of thresholds below each value."""
        group, row = self.place[feature]
        return group.codes[row]

    def column(self, learner: Learner) -> np.ndarray:
        """Return y_i h(x_i) of a stump of this dictionary, from the codes, or of a constant."""
        if isinstance(learner, Constant):
            return learner.polarity * self.y
        assert isinstance(learner, Stump)
        above = self.codes(learner.feature) > self._key(learner) // 2
        return np.where(above == (learner.polarity > 0), self.y, -self.y)

    def candidates(self, with_constant: bool, wanted: Collection[Learner] = ()) -> CutGrid:
        """Return cuts near the quantiles of each feature; ``refined`` finds those between."""
        cuts: dict[int, list[int]] = {}
        for learner in wanted:
            if isinstance(learner, Stump):
                cuts.setdefault(learner.feature, []).append(self._key(learner) // 2)
        return CutGrid(
            self.codes, self.thresholds, len(self.y), GRID_BINS, with_constant, self.n_threads, cuts
        )

    def refined(self, learner: Learner, shift: Shift) -> Learner | None:
        """Return the stump of the best cut nearby, by exact change of the risk."""
        if not isinstance(learner, Stump) or shift.loss.code == CUSTOM:
            return None
        thresholds = self.thresholds[learner.feature]
        cut, reach = self._key(learner) // 2, max(1, len(thresholds) // REACH)
        order, start = self.sorted_rows(learner.feature)
        new, change = shift_cut(
            order,
            start,
            cut,
            max(0, cut - reach),
            min(len(thresholds) - 1, cut + reach),
            2.0 * shift.weight * learner.polarity,
            self.y,
            shift.z,
            shift.u,
            shift.sample_weight,
            shift.loss.code,
        )
        if new == cut or change >= 0.0:
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

    def _candidate(self, price: float, feature: int, key: int, edge: float) -> Candidate:
        threshold = float(self.thresholds[feature][key // 2])
        stump = Stump(feature, threshold, 1 if key % 2 == 0 else -1)
        self._offered[stump] = key
        return Candidate(stump, self.column(stump), edge, price)

    def _blocked(
        self, group: _CodedFeatures, exclude: Collection[Learner]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the excluded keys of each feature of the group, as offsets and sorted keys."""
        keys: list[list[int]] = [[] for _ in group.features]
        for learner in exclude:
            if isinstance(learner, Stump) and learner.feature in self.place:
                owner, row = self.place[learner.feature]
                if owner is group:
                    keys[row].append(self._key(learner))
        start = np.concatenate([[0], np.cumsum([len(k) for k in keys])]).astype(np.int64)
        return start, np.array([k for row in keys for k in sorted(row)], dtype=np.int64)


class _CodedFeatures:
    """The features whose codes share one integer type, one row of codes per feature."""

    def __init__(self, features: np.ndarray, n_codes: np.ndarray, m: int, dtype: type):
        self.features = features
        self.n_codes = n_codes
        self.codes: np.ndarray = np.empty((len(features), m), dtype=dtype)

    def subset(self, rows: np.ndarray) -> _CodedFeatures:
        """Return the same features of some of the rows."""
        other = copy(self)
        other.codes = np.ascontiguousarray(self.codes[:, rows])
        return other

    def best(
        self,
        g: np.ndarray,
        h: np.ndarray,
        rule: int,
        nu: float,
        blocked_start: np.ndarray,
        blocked: np.ndarray,
        scale: float,
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
                g,
                h,
                rule,
                nu,
                blocked_start,
                blocked,
                1e-12 * scale,
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


def _places(groups: list[_CodedFeatures]) -> dict[int, tuple[_CodedFeatures, int]]:
    """Return for each feature its group and its row there."""
    return {int(f): (group, row) for group in groups for row, f in enumerate(group.features)}


def cut_points(x: np.ndarray, max_bins: int) -> np.ndarray:
    """Return the thresholds of one feature, ascending, at most max_bins - 1 of them.

    They lie midway between neighbouring distinct values: all of them where they are few
    enough, else those nearest to the quantiles.
    """
    ordered = np.sort(x)
    last = np.flatnonzero(ordered[1:] != ordered[:-1])  # last row of each value but the largest
    if len(last) >= max_bins:
        wanted = np.arange(1, max_bins) * (len(x) / max_bins) - 1
        after = np.clip(np.searchsorted(last, wanted), 1, len(last) - 1)
        nearer = last[after] - wanted < wanted - last[after - 1]
        last = last[np.unique(np.where(nearer, after, after - 1))]
    low, high = ordered[last].astype(float), ordered[last + 1].astype(float)
    middle = 0.5 * low + 0.5 * high
    # Rounding must not leave the gap.
    return np.where((low <= middle) & (middle < high), middle, low)
