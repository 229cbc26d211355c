"""Second-order gains of every column of the dictionary, from one pass over its codes.

Adding column h to slots of columns A with the inverse Gram matrix M gains about
max(|s| - nu, 0)^2 / (2 r): s = u h is its edge, r what the slots leave of it in the metric of
the curvature q, 1 - g M g with g = A q h, all over the sum of curvatures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from totalqboost.boosting.fees import Fees, NewcomerFees
from totalqboost.boosting.point import Point
from totalqboost.dictionaries.base import Candidates
from totalqboost.kernels.swaps import NONE, score_swaps, weigh_rows
from totalqboost.learners import Learner

__all__ = ["HeavyRows", "Scores", "Scoring"]

TRIM = 0.02  # rows of less than this share of the mean curvature are left out of scores
SCORE_ROWS = 10_000  # of these scores look at about so many
SAME = 2e-3  # share of a newcomer that the slots must leave for it to be another column
PAD = 8  # right-hand sides of a pass come in groups of so many


@dataclass(frozen=True, eq=False)
class Scores:
    """What a pass over the dictionary found: gain and newcomer per slot, and an addition."""

    gains: np.ndarray
    newcomers: list[Learner | None]
    addition: Learner | None = None
    addition_gain: float = 0.0


class HeavyRows:
    """The rows that scores look at: those of weight, and of many a share."""

    def __init__(self, n_rows: int):
        self._shuffled = np.random.default_rng(0).permutation(n_rows)

    def of(self, point: Point) -> tuple[np.ndarray, float]:
        """Return the rows, and how much more weight all rows have."""
        u, q = point.u, point.q
        total = q.sum()
        least = TRIM * total / len(q)
        is_heavy = (q > least) | (np.abs(u) > least)
        if len(q) > SCORE_ROWS:  # at random: rows may come in an order
            first = self._shuffled[: 2 * SCORE_ROWS]
            rows = first[is_heavy[first]]
            if len(rows) < SCORE_ROWS:
                rows = self._shuffled[is_heavy[self._shuffled]]
            rows = np.sort(rows[:SCORE_ROWS])
        else:
            rows = np.flatnonzero(is_heavy)
        seen = q[rows].sum()
        return rows, float(total / seen) if seen > 0.0 else 1.0


@dataclass(frozen=True, eq=False)
class Scoring:
    """What gains depend on: candidates, slots with a point and M, the rows to look at, nu, fees.

    ``total`` is the sum of curvatures that M was made with.
    """

    candidates: Candidates
    AT: np.ndarray
    y: np.ndarray
    point: Point
    M: np.ndarray
    total: float
    rows: np.ndarray
    scale: float
    nu: float
    fees: Fees
    learners: Sequence[Learner]

    def _products(self) -> tuple[np.ndarray, np.ndarray]:
        """Return edge and Gram row of every candidate, over the sum of curvatures, and R."""
        p = len(self.point.w)
        width = (p + PAD) // PAD * PAD
        Q = np.zeros((len(self.rows), width), np.float32)
        scale = self.scale / self.total
        weigh_rows(self.AT, p, self.y, self.point.u, self.point.q, self.rows, scale, Q)
        sums = self.candidates.sums(Q, self.rows, self.learners)
        if len(self.y) > SCORE_ROWS:  # the noise of edges misleads where gains are small
            sums[:, 0] = self.candidates.edges(self.y * self.point.u, self.total)
        inverse = np.zeros((width, p), np.float32)
        inverse[1 : p + 1] = self.M * self.total
        return sums, sums @ inverse

    def swaps(self, n_fixed: int) -> Scores:
        """Return the gains of the best newcomer per slot and of an addition."""
        p = len(self.point.w)
        gains, newcomers = np.zeros(p), np.full(p, NONE, np.int64)
        if not self.total > 0.0:
            return Scores(gains, [None] * p)
        sums, R = self._products()
        newcomer = self._newcomers()
        last, again, back = np.full(p, -1), np.zeros(p), np.zeros(p)
        if not self.fees.is_free:
            back[n_fixed:], last[n_fixed:], again[n_fixed:] = self.fees.of_slots(self.learners)
        addition, addition_gain = score_swaps(
            sums,
            R,
            p,
            n_fixed,
            self.candidates.is_signed,
            newcomer.kept,
            newcomer.freed,
            newcomer.features,
            last,
            again / self.total,
            self.nu / self.total,
            self.point.w,
            self.M * self.total,
            1.0,
            SAME,
            gains,
            newcomers,
        )
        gains = gains * self.total + back
        learners: list[Learner | None] = [None] * p
        for j in np.flatnonzero(gains > 0.0):  # nobody asks for the others
            learners[j] = self._learner(newcomers[j])
        return Scores(gains, learners, self._learner(addition), addition_gain * self.total)

    def _newcomers(self) -> NewcomerFees:
        """Return what candidates would pay, over the sum of curvatures."""
        fees = self.fees.of_newcomers(self.candidates, self.learners)
        if self.fees.is_free:
            return fees
        return NewcomerFees(fees.kept / self.total, fees.freed / self.total, fees.features)

    def _learner(self, s: Any) -> Learner | None:
        return None if s == NONE else self.candidates.learner(int(s))

    def additions(self, n: int) -> list[Learner]:
        """Return the n best columns to add."""
        sums, R = self._products()
        edge = np.where(self.candidates.is_signed, np.abs(sums[:, 0]), sums[:, 0])
        size = np.maximum(edge - self.nu / self.total, 0.0)
        own = 1.0 - np.einsum("ij,ij->i", R, sums[:, 1 : R.shape[1] + 1])
        fee = self._newcomers().kept
        gain = np.where(own > SAME, size**2 / np.maximum(own, SAME) - 2.0 * fee, 0.0)
        best = np.argsort(-gain, kind="stable")[:n]
        return [self.candidates.learner(int(s)) for s in best if gain[s] > 0]
