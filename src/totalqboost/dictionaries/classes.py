"""Stumps shared between classes: one cut, and a vote of its two sides for every class.

Many classes become one problem of two: rows are pairs (example i, class l) in the order
i n_classes + l, of sign +1 where l is the class of i (AdaBoost.MH of Schapire and Singer, 1999,
with factorised votes as in Kégl and Busa-Fekete, 2009). A column is Y_il v_l h(x_i) with votes v
in {-1, +1}; columns stay signs, and a stump is paid once whatever the number of classes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from totalqboost.dictionaries.base import Candidate, Candidates, Shift
from totalqboost.dictionaries.class_sets import SharedSets, best_shared_sets, class_bins
from totalqboost.dictionaries.grid import CutGrid, Joined
from totalqboost.dictionaries.special import SpecialFeature, places_near
from totalqboost.dictionaries.stumps import StumpOracle
from totalqboost.kernels.classes import best_shared_cuts, shared_cut_sums, shift_shared_cut
from totalqboost.kernels.loss_codes import CUSTOM
from totalqboost.learners import Constant, Learner, Stump, Votes
from totalqboost.master import absolute_sum
from totalqboost.threads import share_out

__all__ = ["ClassOracle", "SharedCuts", "class_signs"]


def class_signs(labels: np.ndarray, n_classes: int) -> np.ndarray:
    """Return +1 for the class of each row and -1 for all others, flattened, as int8."""
    signs = np.full((len(labels), n_classes), -1, dtype=np.int8)
    signs[np.arange(len(labels)), labels] = 1
    return signs.ravel()


class ClassOracle:
    """The stumps of another oracle, each with its best votes.

    Parameters
    ----------
    base : StumpOracle
        Has the codes of the features; its labels are all +1.
    labels : array of int, shape (n_rows,)
        Class of each row, from 0.
    n_classes : int
        At least three: of two classes the votes of one are those of the other.
    """

    def __init__(self, base: StumpOracle, labels: np.ndarray, n_classes: int):
        self.base, self.labels, self.n_classes = base.with_dense_codes(), labels, n_classes
        self.n_features, self.n_columns = base.n_features, base.n_columns
        self.y = class_signs(labels, n_classes)

    def told(self, learners: Sequence[Learner], weights: np.ndarray) -> None:
        """See :class:`totalqboost.dictionaries.base.Oracle`."""
        self.base.told(learners, weights)

    @property
    def constants(self) -> tuple[Learner, ...]:
        """One intercept per class, as signs: +1 for the class and -1 for all others."""
        votes = 2 * np.eye(self.n_classes, dtype=int) - 1
        return tuple(Votes(Constant(1), tuple(row)) for row in votes.tolist())

    def n_extras(self, learner: Learner) -> int:
        """See :class:`totalqboost.dictionaries.base.Oracle`."""
        assert isinstance(learner, Votes)
        return self.base.n_extras(learner.learner)

    @property
    def is_symmetric(self) -> bool:
        """Return True: votes have both signs."""
        return True

    def has_opposite(self, learner: Learner) -> bool:
        """Return True: votes have both signs."""
        return True

    def column(self, learner: Learner) -> np.ndarray:
        """Return Y_il v_l h(x_i), example by example."""
        assert isinstance(learner, Votes)
        votes = np.array(learner.votes, dtype=np.int8)
        return self.y * np.outer(self.base.column(learner.learner), votes).ravel()

    def subset(self, rows: np.ndarray) -> ClassOracle:
        """Return the oracle of some of the examples."""
        other = copy(self)
        other.base, other.labels = self.base.subset(rows), self.labels[rows]
        other.y = class_signs(other.labels, self.n_classes)
        return other

    def sampled(self, rows: np.ndarray) -> ClassOracle:
        """See :class:`totalqboost.dictionaries.base.SampledOracle`."""
        return ClassOracle(self.base.sampled(rows), self.labels[rows], self.n_classes)

    # -- pricing -----------------------------------------------------------------------

    def best(
        self,
        u: np.ndarray,
        exclude: Collection[Learner] = (),
        n: int = 1,
        curvature: np.ndarray | None = None,
        nu: float = 0.0,
        extra: float = 0.0,
    ) -> list[Candidate]:
        """See :class:`totalqboost.dictionaries.base.Oracle`.

        A stump is offered with its best votes, unless it is excluded with any votes. The price
        is always the edge or the decrease to second order.
        """
        g = np.multiply(u, self.y, dtype=float)
        by_edge = curvature is None
        h = g if curvature is None else curvature
        own = {learner.learner for learner in exclude if isinstance(learner, Votes)}
        scale = absolute_sum(g)
        found = []
        for group in self.base.groups:
            found += self._best_cuts(group, g, h, by_edge, nu, own, 1e-12 * scale, n)
        quantum = max(1e-12 * scale, 1e-300)
        found.sort(key=lambda c: (-np.rint(c[0] / quantum), c[1], c[2]))
        candidates = [
            self._candidate(Stump(f, float(self.base.thresholds[f][cut])), g, curvature, price)
            for price, f, cut in found[:n]
        ]
        for special in self.base.special.values():
            bins = self._priced_bins(special, g, h)
            offers = best_shared_sets(special, bins, by_edge, nu, extra, own, n)
            candidates += [self._candidate(h, g, curvature, price) for price, h in offers]
        if by_edge and Constant(1) not in own:
            edge = float(np.abs(self._per_class(g, 1)).sum())
            candidates.append(self._candidate(Constant(1), g, None, edge))
        candidates.sort(key=lambda c: -np.rint(c.price / quantum))
        return candidates[:n]

    def _priced_bins(self, special: SpecialFeature, g: np.ndarray, h: np.ndarray) -> np.ndarray:
        """Return slopes and curvatures per bin and class of a special feature."""
        return class_bins(special, np.arange(len(g)), np.column_stack([g, h]), self.n_classes)

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
        """Return (price, feature, cut) of the best n cuts of each feature of a group."""
        prices = np.full((len(group.features), n), -np.inf)
        cuts = np.full(prices.shape, -1, dtype=np.int64)
        offsets = np.concatenate([[0], np.cumsum(group.n_codes - 1)])
        is_blocked = np.zeros(offsets[-1] + 1, dtype=np.bool_)
        for stump in exclude:
            if isinstance(stump, Stump) and stump.feature in group.features:
                row = int(np.searchsorted(group.features, stump.feature))
                is_blocked[offsets[row] + self._cut(stump)] = True

        def scan(first: int, last: int) -> None:
            best_shared_cuts(
                group.codes,
                group.n_codes,
                g,
                h,
                self.n_classes,
                by_edge,
                nu,
                is_blocked,
                offsets,
                tie,
                first,
                last,
                prices,
                cuts,
            )

        share_out(len(group.features), self.base.n_threads, scan)
        rows, places = np.nonzero(cuts >= 0)
        return [
            (float(prices[r, p]), int(group.features[r]), int(cuts[r, p]))
            for r, p in zip(rows, places, strict=True)
        ]

    def _candidate(
        self, learner: Learner, g: np.ndarray, h: np.ndarray | None, price: float
    ) -> Candidate:
        """Return a learner with its best votes; without a curvature those of the plain edge."""
        signs = self.base.column(learner)
        slopes = self._per_class(g, signs)
        if h is not None:
            total = np.maximum(self._per_class(h, 1), 1e-300)
            slopes -= self._per_class(h, signs) / total * self._per_class(g, 1)
        votes = Votes(learner, tuple(np.where(slopes >= 0.0, 1, -1).tolist()))
        column = self.column(votes)
        edge = float(self._per_class(g, signs) @ np.array(votes.votes))
        return Candidate(votes, column, edge, price)

    def _per_class(self, values: np.ndarray, signs: np.ndarray | int) -> np.ndarray:
        """Return sum_i h(x_i) values_il of each class."""
        table = values.reshape(-1, self.n_classes)
        return table.sum(axis=0) if isinstance(signs, int) else signs @ table

    def _cut(self, stump: Stump) -> int:
        return int(np.searchsorted(self.base.thresholds[stump.feature], stump.threshold))

    # -- exchange ----------------------------------------------------------------------

    def candidates(self, with_constant: bool, wanted: Collection[Learner] = ()) -> Candidates:
        """Return cuts near the quantiles of each feature; votes are chosen by every pass."""
        own = [learner.learner for learner in wanted if isinstance(learner, Votes)]
        cuts = SharedCuts(self.base.cut_grid(with_constant, own), self.n_classes)
        if not self.base.special:
            return cuts
        return Joined(cuts, SharedSets(self.base.coarse(own), self.n_classes, not with_constant))

    def refined(self, learner: Learner, shift: Shift) -> Learner | None:
        """Return the best cut nearby, or the votes that have the wrong sign turned."""
        assert isinstance(learner, Votes)
        if shift.loss.code == CUSTOM:
            return None
        special = self.base.special_feature(learner)
        if special is None:
            moved = self._moved(learner, shift)
            if moved is not None:
                return moved
        z = shift.z - 2.0 * shift.weight * self.column(learner)  # every vote turned
        change = shift.sample_weight * (shift.loss.value(z) - shift.loss.value(shift.z))
        if special is not None:
            by_row = change.reshape(-1, self.n_classes).sum(axis=1)
            by_bin = self.base.bins(special.feature, by_row)[:, 0]
            other = special.neighbour(learner.learner, by_bin, shift.extra)
            if other is not None:
                return Votes(other, learner.votes)
        votes = np.where(self._per_class(change, 1) < 0.0, -1, 1) * np.array(learner.votes)
        turned = Votes(learner.learner, tuple(votes.tolist()))
        return None if turned in (learner, learner.negated()) else turned

    def _moved(self, learner: Votes, shift: Shift) -> Votes | None:
        stump = learner.learner
        if not isinstance(stump, Stump):
            return None
        thresholds, cut = self.base.thresholds[stump.feature], self._cut(stump)
        low, high = places_near(cut, len(thresholds))
        order, start = self.base.sorted_rows(stump.feature)
        new, change = shift_shared_cut(
            order,
            start,
            cut,
            low,
            high,
            2.0 * shift.weight * stump.polarity * np.array(learner.votes, dtype=float),
            self.y,
            shift.z,
            shift.sample_weight,
            shift.loss.code,
        )
        if new == cut or change >= 0.0:
            return None
        return Votes(replace(stump, threshold=float(thresholds[new])), learner.votes)


class SharedCuts:
    """Cuts that stand for all stumps, with the votes that the last pass chose for each."""

    def __init__(self, grid: CutGrid, n_classes: int):
        self.grid, self.n_classes = grid, n_classes
        self.is_signed = np.full(len(grid.features), True)
        self.extras, self.features = grid.extras, grid.features
        self._kept: list[int] = []
        self.votes = np.ones((len(grid.cuts) + grid.with_constant, n_classes), np.int8)

    def learner(self, s: int) -> Learner:
        """Return the stump of a cut, or the constant, with its votes; the first is +1."""
        return Votes(self.grid.learner(s), tuple(self.votes[s].tolist()))

    def sums(self, Q: np.ndarray, rows: np.ndarray, kept: Collection[Learner] = ()) -> np.ndarray:
        """See :class:`totalqboost.dictionaries.base.Candidates`.

        A cut that is kept with any votes has zeros: its votes turn in a refinement.
        """
        grid, width = self.grid, Q.shape[1]
        out = np.empty((len(self.votes), width), np.float32)
        total = np.zeros((self.n_classes, width))
        for label in range(self.n_classes):
            total[label] = Q[rows % self.n_classes == label].sum(axis=0, dtype=float)
        if grid.with_constant:
            votes = np.where(total[:, 0] >= 0.0, 1, -1)
            self.votes[-1] = votes * votes[0]
            out[-1] = self.votes[-1] @ total
        total = total.astype(np.float32)

        def scan(first: int, last: int) -> None:
            shared_cut_sums(grid.codes, rows, grid.offsets, first, last, Q, total, out, self.votes)

        share_out(len(grid.thresholds), grid.n_threads, scan)
        self._kept = self._places(kept)
        out[self._kept] = 0.0
        return out

    def edges(self, values: np.ndarray, over: float = 1.0) -> np.ndarray:
        """See :class:`totalqboost.dictionaries.base.Candidates`."""
        table = (values / over).reshape(-1, self.n_classes)
        by_class = np.column_stack([self.grid.edges(own) for own in table.T])
        out: np.ndarray = np.sum(by_class * self.votes, axis=1)
        out[self._kept] = 0.0
        return out

    def edges_of_bins(self, bins: Mapping[int, np.ndarray], total: np.ndarray) -> np.ndarray:
        """Return what ``edges`` does, given sums per code and class of each feature."""
        out: np.ndarray = np.sum(self.grid.sums_of_bins(bins, total) * self.votes, axis=1)
        out[self._kept] = 0.0
        return out

    def _places(self, kept: Collection[Learner]) -> list[int]:
        """Return where the cuts of learners are, of those that are among the candidates."""
        places = []
        for learner in kept:
            own = learner.learner if isinstance(learner, Votes) else learner
            if isinstance(own, Constant) and self.grid.with_constant:
                places.append(len(self.votes) - 1)
            if isinstance(own, Stump):
                first, last = self.grid.offsets[own.feature : own.feature + 2]
                cut = np.searchsorted(self.grid.thresholds[own.feature], own.threshold)
                place = first + np.searchsorted(self.grid.cuts[first:last], cut)
                if place < last and self.grid.cuts[place] == cut:
                    places.append(int(place))
        return places
