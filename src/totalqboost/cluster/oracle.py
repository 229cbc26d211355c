"""Oracles over rows on a cluster: the stumps of :mod:`totalqboost.dictionaries`, priced from sums.

What an oracle in memory computes from codes, these compute from histograms that workers add up;
the rest is the same code. The driver has labels, weights and the columns that it asked for, a bit
a row, and the codes of the rows that scores of an exchange look at, some thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from totalqboost.boosting.scores import SCORE_ROWS
from totalqboost.cluster.blocks import Answers, Kept, Point, Slot
from totalqboost.cluster.patterns import Model, Patterns
from totalqboost.cluster.rows import ClusterRows
from totalqboost.dictionaries.base import Candidates, Shift
from totalqboost.dictionaries.classes import ClassOracle
from totalqboost.dictionaries.pricing import Pricing
from totalqboost.dictionaries.special import (
    BinTotals,
    Categories,
    NumbersWithMissing,
    SpecialFeature,
    places_near,
    sums_by_bin,
)
from totalqboost.dictionaries.stumps import StumpOracle, dense_groups
from totalqboost.kernels.classes import best_shared_cuts
from totalqboost.kernels.histogram import best_cuts_of_bins
from totalqboost.kernels.loss_codes import CUSTOM
from totalqboost.learners import Constant, Learner, Stump, Votes
from totalqboost.losses import Loss
from totalqboost.master import absolute_sum, normalised

__all__ = ["ClusterClassOracle", "ClusterOracle"]

SAME = 1e-6  # share of all slopes by which two sums of them may differ


class ClusterOracle(StumpOracle):
    """Histogram oracle over the stumps of rows on workers.

    Parameters
    ----------
    rows : ClusterRows
        The rows, coded.
    y, weight, thresholds, polarity, special
        As in :class:`StumpOracle`; special features have no codes.
    loss : Loss
        Of the margins: workers compute boosting weights themselves.
    n_scores : int
        One of two classes, else one for each.
    """

    def __init__(
        self,
        rows: ClusterRows,
        y: np.ndarray,
        weight: np.ndarray,
        thresholds: list[np.ndarray],
        polarity: np.ndarray,
        special: dict[int, SpecialFeature],
        loss: Loss,
        n_scores: int = 1,
    ):
        plain = np.array([f for f in range(len(thresholds)) if f not in special], dtype=np.int64)
        groups = [_RemoteFeatures(self, plain, polarity[plain])] if len(plain) else []
        super().__init__(y, weight, thresholds, polarity, special, groups, 1)
        self.rows, self.loss, self.n_scores = rows, loss, n_scores
        totals = rows.totals()[:, 0]
        for f in plain.tolist():
            self._counts[f] = totals[rows.layout.bins_of(f)].astype(np.int64)
        self._told: tuple[list[Learner], np.ndarray] | None = None
        self._point: Point | None = None
        self._kept: dict[Learner, Kept] = {}
        # At the point, once they were asked for:
        self._slopes: np.ndarray | None = None
        self._turned: np.ndarray | None = None
        self._sample: tuple[np.ndarray, StumpOracle] | None = None

    # -- what workers know -------------------------------------------------------------

    def knows(self, learner: Any) -> bool:
        """Tell whether a learner is of this dictionary."""
        (feature,) = learner.features
        return feature in self.special or self._key(learner) >= 0

    def answers(self, learner: Any) -> Answers:
        """Return what a learner says to each code of its feature."""
        (feature,) = learner.features
        own: Any = self.special.get(feature)
        if own is not None:
            inside = own.members(learner)
        else:
            inside = np.arange(len(self.thresholds[feature]) + 1) > self._key(learner) // 2
        signs = np.where(inside == learner.is_positive, 1, -1).astype(np.int8)
        return Answers(feature, signs)

    def told(self, learners: Sequence[Learner], weights: np.ndarray) -> None:
        """See :class:`totalqboost.dictionaries.base.Oracle`."""
        told = list(learners), np.array(weights)
        before = self._told
        if before is not None and told[0] == before[0] and np.array_equal(told[1], before[1]):
            return  # nothing is new
        self._told = told
        self._slopes, self._turned, self._kept = None, None, {}
        intercept = np.zeros(self.n_scores)
        tables: dict[int, np.ndarray] = {}
        for learner, weight in zip(learners, weights, strict=True):
            own, votes = voting(learner)
            if isinstance(own, Constant):
                intercept += weight * own.polarity * votes
                continue
            known = self.answers(own)
            self._kept[learner] = Kept(known, weight * votes, self.near(own, len(known.signs)))
            if weight == 0.0:
                continue  # it is asked about, but says nothing
            table = np.outer(known.signs, weight * votes)
            so_far = tables.get(known.feature)
            tables[known.feature] = table if so_far is None else so_far + table
        self._point = Point(tables, intercept, self.loss)

    def model(self, learners: Sequence[Learner], weights: np.ndarray) -> Model:
        """Return risk, slopes and Gram matrix of the columns of an ensemble, where it stands."""
        self.told(learners, weights)
        assert self._point is not None
        sums, p = self.rows.model(self._point, self._slots(learners)), len(learners)
        return Model(float(sums[0]), sums[1 : p + 1], sums[p + 1 :].reshape(p, p))

    def patterns(self, learners: Sequence[Learner]) -> Patterns | None:
        """Return the different rows of the columns of learners; None if they are too many."""
        return self.rows.patterns(self._slots(learners))

    def _slots(self, learners: Sequence[Learner]) -> list[Slot]:
        slots = []
        for learner in learners:
            own, votes = voting(learner)
            is_constant = isinstance(own, Constant)
            votes = own.polarity * votes if is_constant else votes
            slots.append(Slot(None if is_constant else self.answers(own), votes))
        return slots

    def near(self, learner: Learner, n_bins: int) -> np.ndarray:
        """Return which bins may be answered otherwise when a learner is refined."""
        if isinstance(self.special_feature(learner), Categories):
            return np.ones(n_bins, dtype=np.bool_)
        is_near = np.zeros(n_bins, dtype=np.bool_)
        if isinstance(learner, Stump):
            thresholds = self.thresholds[learner.feature]
            cut = int(np.searchsorted(thresholds, learner.threshold))
            low, high = places_near(cut, len(thresholds))
            is_near[low + 1 : high + 1] = True
        return is_near

    def slopes(self, g: np.ndarray | None = None) -> np.ndarray:
        """Return sums of slope and curvature per bin and score, where the driver stands.

        ``g`` are the slopes of rows that the caller has: their sum must be that of the bins.
        """
        assert self._point is not None, "an oracle on a cluster must be told of an ensemble first"
        if self._slopes is None:
            self._slopes = self.rows.slopes(self._point)
        if g is not None:
            found = self._slopes[self.rows.layout.bins_of(0)][:, :, 0].sum()
            if not abs(found - g.sum()) <= SAME * absolute_sum(g):
                raise RuntimeError("weights of rows are not those of the ensemble told last")
        return self._slopes

    def bins_of(self, values: np.ndarray) -> dict[int, np.ndarray]:
        """Return the rows of an array over all bins by feature."""
        return {f: values[self.rows.layout.bins_of(f)] for f in range(self.n_features)}

    # -- the oracle --------------------------------------------------------------------

    def priced_bins(self, feature: int, g: np.ndarray, h: np.ndarray) -> np.ndarray:
        """See :class:`StumpOracle`."""
        return np.ascontiguousarray(self.slopes(g)[self.rows.layout.bins_of(feature), 0])

    def bins(self, feature: int, *values: np.ndarray) -> np.ndarray:
        """See :class:`StumpOracle`; the codes of the feature come to the driver for it."""
        codes, n_bins = self.codes(feature), int(self.rows.layout.n_bins[feature])
        return np.column_stack([sums_by_bin(codes, v, n_bins) for v in values])

    def codes(self, feature: int) -> np.ndarray:
        """Return the codes of a feature; they come to the driver, so ask rarely."""
        return self.rows.codes(feature)

    def column(self, learner: Learner) -> np.ndarray:
        """Return y_i h(x_i) of a stump of this dictionary, or of a constant."""
        if isinstance(learner, Constant):
            return learner.polarity * self.y
        return self.rows.column(self.answers(learner)) * self.y

    def subset(self, rows: np.ndarray) -> ClusterOracle:
        """See :class:`totalqboost.dictionaries.base.Oracle`; rows are filtered on the workers."""
        share = float(self.weight[rows].sum())
        remote = self.rows.subset(rows, share)
        totals = remote.totals()
        return ClusterOracle(
            remote,
            self.y[rows],
            normalised(self.weight[rows], len(rows)),
            self.thresholds,
            self.polarity,
            {f: _counted(own, totals[remote.layout.bins_of(f)]) for f, own in self.special.items()},
            self.loss,
            self.n_scores,
        )

    def sampled(self, rows: np.ndarray) -> StumpOracle:
        """See :class:`StumpOracle`; codes of these rows come to the driver."""
        codes = self.rows.picked(rows)
        groups = dense_groups(self.thresholds, self.polarity, self.special, len(rows))
        for group in groups:
            group.codes[:] = codes[group.features]
        special = {f: own.coded(codes[f]) for f, own in self.special.items()}
        known = self.y[rows], self.weight[rows], self.thresholds, self.polarity, special
        other = StumpOracle(*known, groups, 1)
        other._counts = self._counts
        return other

    def nearby(self) -> StumpOracle | None:
        """Return the oracle in memory if rows are as few as scores would look at anyway."""
        n_rows = len(self.y)
        return self.sampled(np.arange(n_rows)) if n_rows <= 2 * SCORE_ROWS else None

    def sample(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, StumpOracle]:
        """Return the places of rows among some more, these, and the oracle of these."""
        if self._sample is None or not np.isin(rows, self._sample[0]).all():
            known = np.random.default_rng(0).permutation(len(self.y))[: 2 * SCORE_ROWS]
            if self._sample is not None:
                known = np.union1d(known, self._sample[0])
            known = np.union1d(known, rows)
            self._sample = known, self.sampled(known)
        known, oracle = self._sample
        return np.searchsorted(known, rows), known, oracle

    def candidates(self, with_constant: bool, wanted: Collection[Learner] = ()) -> Candidates:
        """See :class:`StumpOracle`."""
        return _RemoteCandidates(
            self, lambda oracle, _: StumpOracle.candidates(oracle, with_constant, wanted)
        )

    def refined(self, learner: Learner, shift: Shift) -> Learner | None:
        """See :class:`StumpOracle`."""
        if shift.loss.code == CUSTOM or not learner.features:
            return None
        by_bin = self.turned(learner)[:, 0]
        own: Any = self.special_feature(learner)
        if isinstance(own, Categories):
            return own.neighbour(learner, by_bin, shift.extra)
        if not isinstance(learner, Stump):
            return None
        thresholds = self.thresholds[learner.feature]
        cut = int(np.searchsorted(thresholds, learner.threshold))
        new = moved_cut(by_bin, cut, len(thresholds))
        if new == cut:
            return None
        threshold = float(thresholds[new])
        return Stump(learner.feature, threshold, learner.polarity, learner.missing_above)

    def turned(self, learner: Learner) -> np.ndarray:
        """Return how the risk changes if a kept learner's answers are turned, per bin and score.

        All kept learners are asked about at once: most stay where they are.
        """
        assert self._point is not None
        if self._turned is None:
            self._turned = self.rows.turned(self._point, list(self._kept.values()))
        sizes = [len(kept.answers.signs) for kept in self._kept.values()]
        last = np.cumsum(sizes)[list(self._kept).index(learner)]
        return self._turned[last - len(self._kept[learner].answers.signs) : last]


def voting(learner: Any) -> tuple[Any, np.ndarray]:
    """Return what a learner asks, and its votes, one per score."""
    if isinstance(learner, Votes):
        return learner.learner, np.array(learner.votes, dtype=float)
    return learner, np.ones(1)


def moved_cut(by_bin: np.ndarray, cut: int, n_cuts: int) -> int:
    """Return the best place for a cut near where it is, given what turning each bin changes."""
    low, high = places_near(cut, n_cuts)
    up, down = np.cumsum(by_bin[cut + 1 : high + 1]), np.cumsum(by_bin[low + 1 : cut + 1][::-1])
    best, place = 0.0, cut
    for change, sign in ((up, 1), (down, -1)):
        if len(change) and change.min() < best:
            best, place = float(change.min()), cut + sign * (int(change.argmin()) + 1)
    return place


def _counted(own: SpecialFeature, totals: np.ndarray) -> SpecialFeature:
    """Return a special feature with the totals of other rows."""
    known = BinTotals(totals[:, 0].astype(np.int64), totals[:, 1])
    if isinstance(own, NumbersWithMissing):
        return NumbersWithMissing(own.feature, own.codes, own.thresholds, known)
    return Categories(own.feature, own.codes, known)


class _RemoteFeatures:
    """The plain features of an oracle on a cluster, as a group of :class:`StumpOracle`."""

    def __init__(self, oracle: ClusterOracle, features: np.ndarray, polarity: np.ndarray):
        self.oracle, self.features, self.polarity = oracle, features, polarity

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
        slopes, layout = self.oracle.slopes(g), self.oracle.rows.layout
        bins = np.concatenate([slopes[layout.bins_of(f), 0] for f in self.features.tolist()])
        offsets = np.concatenate([[0], np.cumsum(layout.n_bins[self.features])])
        shape = (len(self.features), n)
        prices, edges = np.full(shape, -np.inf), np.zeros(shape)
        keys = np.full(shape, -1, dtype=np.int64)
        rule = pricing.rule, pricing.nu, *blocks, pricing.tie
        best_cuts_of_bins(bins, offsets, self.polarity, *rule, prices, keys, edges)
        rows, order = np.nonzero(keys >= 0)
        return [
            (float(prices[r, p]), int(self.features[r]), int(keys[r, p]), float(edges[r, p]))
            for r, p in zip(rows, order, strict=True)
        ]


class _RemoteCandidates:
    """Candidates of an exchange: scored on some rows here, their edges on all rows there.

    ``make`` returns the candidates of the oracle of some rows, given their numbers.
    """

    def __init__(self, oracle: Any, make: Callable[[StumpOracle, np.ndarray], Any]):
        self.oracle, self.make = oracle, make
        self._of: StumpOracle | None = None
        self._own: Any = None

    def _sampled(self, rows: np.ndarray) -> np.ndarray:
        """Hold candidates over these rows at least; return the places of these."""
        base = _base_of(self.oracle)
        places, known, sample = base.sample(rows)
        if sample is not self._of:
            self._of, self._own = sample, self.make(sample, known)
        return places

    @property
    def own(self) -> Any:
        if self._own is None:
            self._sampled(np.zeros(0, dtype=np.int64))
        return self._own

    @property
    def is_signed(self) -> np.ndarray:
        signed: np.ndarray = self.own.is_signed
        return signed

    @property
    def extras(self) -> np.ndarray:
        extras: np.ndarray = self.own.extras
        return extras

    @property
    def features(self) -> np.ndarray:
        features: np.ndarray = self.own.features
        return features

    def learner(self, s: int) -> Learner:
        learner: Learner = self.own.learner(s)
        return learner

    def sums(self, Q: np.ndarray, rows: np.ndarray, kept: Collection[Learner] = ()) -> np.ndarray:
        """See :class:`totalqboost.dictionaries.base.Candidates`."""
        n = self.oracle.n_classes if isinstance(self.oracle, ClusterClassOracle) else 1
        examples, inverse = np.unique(rows // n, return_inverse=True)
        places = self._sampled(examples)[inverse] * n + rows % n
        sums: np.ndarray = self.own.sums(Q, places, kept)
        return sums

    def edges(self, values: np.ndarray, over: float = 1.0) -> np.ndarray:
        """See :class:`totalqboost.dictionaries.base.Candidates`; workers know the values."""
        base = _base_of(self.oracle)
        slopes = base.slopes(values)[:, :, 0] / over
        slopes = slopes[:, 0] if base.n_scores == 1 else slopes
        total = slopes[base.rows.layout.bins_of(0)].sum(axis=0)
        out: np.ndarray = self.own.edges_of_bins(base.bins_of(slopes), total)
        return out


def _base_of(oracle: ClusterOracle | ClusterClassOracle) -> ClusterOracle:
    base: Any = oracle.base if isinstance(oracle, ClusterClassOracle) else oracle
    return base


class ClusterClassOracle(ClassOracle):
    """Stumps shared between classes, over rows on workers."""

    def _priced_bins(self, special: SpecialFeature, g: np.ndarray, h: np.ndarray) -> np.ndarray:
        base = _base_of(self)
        return np.ascontiguousarray(base.slopes(g)[base.rows.layout.bins_of(special.feature)])

    def _best_cuts(
        self,
        group: Any,
        g: np.ndarray,
        h: np.ndarray,
        by_edge: bool,
        nu: float,
        exclude: Collection[Learner],
        tie: float,
        n: int,
    ) -> list[tuple[float, int, int]]:
        """Return (price, feature, cut) of the best n cuts of each feature.

        A bin with its sums is priced like a row with its slopes.
        """
        base, found = _base_of(self), []
        slopes = base.slopes(g)
        for f in group.features.tolist():
            bins = slopes[base.rows.layout.bins_of(f)]
            prices = np.full((1, n), -np.inf)
            cuts = np.full((1, n), -1, dtype=np.int64)
            is_blocked = np.zeros(len(bins), dtype=np.bool_)
            for stump in exclude:
                if isinstance(stump, Stump) and stump.feature == f:
                    is_blocked[self._cut(stump)] = True
            best_shared_cuts(
                np.arange(len(bins), dtype=np.uint16)[None],
                np.array([len(bins)]),
                bins[:, :, 0].ravel(),
                bins[:, :, 1].ravel(),
                self.n_classes,
                by_edge,
                nu,
                is_blocked,
                np.array([0, len(bins) - 1]),
                tie,
                0,
                1,
                prices,
                cuts,
            )
            found += [(float(p), f, int(c)) for p, c in zip(prices[0], cuts[0], strict=True)]
        return [offer for offer in found if offer[2] >= 0]

    def candidates(self, with_constant: bool, wanted: Collection[Learner] = ()) -> Candidates:
        """See :class:`ClassOracle`."""

        def make(sample: StumpOracle, rows: np.ndarray) -> Candidates:
            own = ClassOracle(sample, self.labels[rows], self.n_classes)
            return own.candidates(with_constant, wanted)

        return _RemoteCandidates(self, make)

    def _moved(self, learner: Votes, shift: Shift) -> Votes | None:
        stump = learner.learner
        if not isinstance(stump, Stump):
            return None
        base, cut = _base_of(self), self._cut(stump)
        by_bin = base.turned(learner).sum(axis=1)
        thresholds = base.thresholds[stump.feature]
        new = moved_cut(by_bin, cut, len(thresholds))
        if new == cut:
            return None
        return Votes(replace(stump, threshold=float(thresholds[new])), learner.votes)
