"""An ensemble that trades its columns with the whole dictionary: the state of an exchange.

Unlike the columns of H, which have weights >= 0, slots have weights of either sign where the
dictionary holds -h with every h: a weight may change its sign on the way. The objective is that
of :class:`totalqboost.master.MasterProblem` without the price per column, which is the same for
all ensembles of one size. ``value`` leaves out fees, ``objective`` has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from totalqboost.boosting.columns import Terms
from totalqboost.boosting.fees import Fees
from totalqboost.boosting.point import Point, Slots, Steps
from totalqboost.boosting.scores import HeavyRows, Scores, Scoring
from totalqboost.boosting.votes import unvoted
from totalqboost.dictionaries.base import Candidates, Oracle, Shift
from totalqboost.kernels.swaps import add_columns, slot_edges, swapped_model
from totalqboost.learners import Learner, Votes
from totalqboost.master import FREE_NU, MasterProblem
from totalqboost.refit import refit_value

__all__ = ["Snapshot", "Support"]

N_FAILURES = 6  # swaps that may disappoint before a descent looks at the dictionary again
N_PASSES = 20  # over the dictionary in one descent, at most
CLOSE = 1e-9  # share of the objective that a last step may gain
N_ROUNDS = 6  # of steps with a new inverse, before the slower refit
BLOCK = 1024  # rows whose columns are copied at a time
ROUNDING = 1e-7  # relative change of the objective below which a cut stays where it is


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Learners with their weights, those of free constants first, and the objective."""

    learners: tuple[Learner, ...]
    w: np.ndarray
    value: float
    M: np.ndarray | None = None  # inverse of the Gram matrix, if it is known


class Support:
    """Slots with weights, margins, and the inverse of their Gram matrix."""

    def __init__(self, oracle: Oracle, terms: Terms, capacity: int):
        self.oracle, self.terms, self.fees = oracle, terms, Fees(oracle, terms)
        constants = oracle.constants if terms.free_intercept else ()
        self.n_fixed = len(constants)
        self._candidates: Candidates | None = None  # made when an exchange asks for them
        self.y = oracle.y.astype(float)
        self.AT = np.zeros((len(self.y), capacity + self.n_fixed + 1), np.int8)
        for j, constant in enumerate(constants):
            self.AT[:, j] = oracle.column(constant)
        self._rows = HeavyRows(len(self.y))
        self.learners: list[Learner] = []
        self.at = Point(terms, np.zeros(self.n_fixed), np.zeros(len(self.y)))
        self.value = self.total = self.paid = 0.0
        self.nu = self.least = self.reference = self.M = np.empty(0)
        self.close = CLOSE  # of objectives that are compared; larger is faster
        self._here: Snapshot | None = None  # what is here, if it was asked for
        self._scores: Scores | None = None  # of what is here
        self.settle()

    def consider(self, learners: Sequence[Learner]) -> None:
        """Let newcomers be these learners too."""
        self._candidates = self.oracle.candidates(not self.n_fixed, learners)
        self._scores = None

    @property
    def candidates(self) -> Candidates:
        """The columns that an exchange looks at."""
        if self._candidates is None:
            self._candidates = self.oracle.candidates(not self.n_fixed)
        return self._candidates

    @property
    def n_slots(self) -> int:
        return self.n_fixed + len(self.learners)

    @property
    def size(self) -> int:
        return len(self.learners)

    @property
    def w(self) -> np.ndarray:
        return self.at.w

    @property
    def objective(self) -> float:
        return self.value + self.paid

    @property
    def slots(self) -> Slots:
        return Slots(self.AT, self.nu, self.least)

    def _per_slot(self, of_intercept: float, of_others: float) -> np.ndarray:
        values = np.full(self.n_slots, of_others)
        values[: self.n_fixed] = of_intercept
        return values

    def snapshot(self) -> Snapshot:
        if self._here is None:
            self._here = Snapshot(tuple(self.learners), self.w.copy(), self.objective, self.M)
        return self._here

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to an ensemble; columns that are in their slots already are not made again."""
        if snapshot is self._here:
            return
        self._make_room(self.n_fixed + len(snapshot.learners))
        for j, learner in enumerate(snapshot.learners):
            if j >= self.size or self.learners[j] != learner:
                self.AT[:, self.n_fixed + j] = self.oracle.column(learner)
        self.learners = list(snapshot.learners)
        self._move_to(snapshot.w.copy())
        if snapshot.M is None:
            self.settle()
            return
        self._begin()
        self._refer()
        self.M, self._here = snapshot.M, snapshot

    def _make_room(self, n_slots: int) -> None:
        missing = n_slots - self.AT.shape[1]
        if missing > 0:
            more = np.zeros((len(self.AT), max(missing, self.AT.shape[1])), np.int8)
            self.AT = np.concatenate([self.AT, more], axis=1)

    def _move_to(self, w: np.ndarray) -> None:
        z = np.zeros(len(self.y))
        add_columns(self.AT, w, z)
        self.at = Point(self.terms, w, z)

    # -- weights -----------------------------------------------------------------------

    def settle(self) -> None:
        """Bring all weights to their optimum, and the inverse Gram matrix up to date."""
        self._begin()
        for _ in range(N_ROUNDS):
            self._invert()
            if self.n_slots == 0:
                return
            limit, before = self.close * self.value, self.w.copy()
            self.value, decrement = self.at.descend(self.slots, self.M, self.value, Steps(3, limit))
            if abs(decrement) < limit:  # at a limit of weights a step may lead uphill
                return
            if np.array_equal(self.w, before):  # another round would do the same
                break
        self._refit()
        self._invert()

    def _begin(self) -> None:
        """Forget what was known about the slots before."""
        self._here = self._scores = None
        self.nu = self._per_slot(min(self.terms.nu, FREE_NU), self.terms.nu)
        self.least = np.full(self.n_slots, -np.inf)
        if not self.oracle.is_symmetric:
            signed = [self.oracle.has_opposite(learner) for learner in self.learners]
            self.least[self.n_fixed :][~np.array(signed, dtype=bool)] = 0.0
        self.paid = self.fees.total(self.learners)
        self.value = self.at.risk + float(self.nu @ np.abs(self.w))

    def _refit(self) -> None:
        """Refit by the active-set method, which is slower and sees through what steps do not.

        Where classes separate and nu decides, the curvature changes too fast for one inverse,
        and weights have to stop at zero.
        """
        p = self.n_slots
        edges = np.empty(p)
        for _ in range(2):  # a weight of zero may have the wrong sign to leave it
            slot_edges(self.AT, p, self.at.u, edges)
            sign = np.where(self.w != 0.0, np.sign(self.w), np.where(edges < 0.0, -1.0, 1.0))
            sign = np.where(self.least == 0.0, 1.0, sign)
            A = np.empty((p, len(self.y)), np.int8)
            for i in range(0, len(self.y), BLOCK):  # what is turned stays in the cache
                A[:, i : i + BLOCK] = (self.AT[i : i + BLOCK, :p] * sign.astype(np.int8)).T
            cost = self._per_slot(0.0, 1.0)
            terms = self.terms
            problem = MasterProblem.trusted(A, terms.nu, 0.0, cost, terms.loss, terms.sample_weight)
            w, value = refit_value(problem, np.arange(p), np.abs(self.w), tol=1e-7)
            if value >= self.value:
                break
            self._move_to(sign * w)
            self.value = value

    def _refer(self) -> tuple[np.ndarray, float]:
        """Note the curvature that M is made with; return its rows and their scale."""
        q = self.at.q
        rows, scale = self._rows.of(self.at)
        self.reference = np.zeros(len(q))
        self.reference[rows] = scale * q[rows]
        self.total = float(q.sum())
        return rows, scale

    def _invert(self) -> None:
        """Compute M, the inverse of the Gram matrix at the present margins."""
        p, q = self.n_slots, self.at.q
        rows, scale = self._refer()
        if p == 0 or not self.total > 0.0:
            self.M = np.zeros((p, p))
            return
        B = self.AT[rows, :p].astype(np.float32)
        B *= np.sqrt(q[rows] * (scale / self.total)).astype(np.float32)[:, None]
        G = (B.T @ B).astype(float)
        G[np.diag_indices(p)] = 1.0 + 1e-5
        self.M = np.linalg.inv(G) / self.total

    # -- the dictionary ----------------------------------------------------------------

    def tell(self) -> None:
        """Let the oracle know of which ensemble the weights of rows are."""
        constants = self.oracle.constants[: self.n_fixed]
        self.oracle.told([*constants, *self.learners], self.w)

    def _scoring(self) -> Scoring:
        self.tell()
        rows, scale = self._rows.of(self.at)
        return Scoring(
            self.candidates,
            self.AT,
            self.y,
            self.at,
            self.M,
            self.total,
            rows,
            scale,
            self.terms.nu,
            self.fees,
            self.learners,
        )

    def scan(self) -> Scores:
        """Return the second-order gains of the best newcomer per slot and of an addition."""
        if self._scores is None:
            self._scores = self._scoring().swaps(self.n_fixed)
        return self._scores

    def additions(self, n: int) -> list[Learner]:
        """Return the n best columns to add."""
        return self._scoring().additions(n)

    def holds(self, learner: Learner, but: int = -1) -> bool:
        """Tell whether a slot, but for one, has this learner, with whatever votes."""
        if not isinstance(learner, Votes):  # quickly
            return learner in self.learners and (but < 0 or self.learners[but] != learner)
        own = unvoted(learner)
        return any(j != but and unvoted(other) == own for j, other in enumerate(self.learners))

    # -- moves -------------------------------------------------------------------------

    def add(self, learner: Learner) -> None:
        """Add a column and refit."""
        self._make_room(self.n_slots + 1)
        self.AT[:, self.n_slots] = self.oracle.column(learner)
        self.learners.append(learner)
        self.at.w = np.append(self.w, 0.0)
        self.settle()

    def drop(self, slots: np.ndarray | int) -> None:
        """Drop some slots and refit; the others move up."""
        slots = np.atleast_1d(slots)
        inner = np.linalg.solve(self.M[np.ix_(slots, slots)], self.w[slots])
        step = -self.M[:, slots] @ inner
        best: tuple[float, np.ndarray] | None = None
        for factor in (1.0, 0.5, 0.0):  # the second-order model can overshoot
            w = np.maximum(self.w + factor * step, self.least)
            w[slots] = 0.0
            z = np.zeros(len(self.y))
            add_columns(self.AT, w, z)
            risk = Point(self.terms, w, z).risk
            if best is None or risk < best[0]:
                best = (risk, w)
            if risk < 1.5 * self.value:
                break
        assert best is not None
        kept = np.delete(np.arange(self.n_slots), slots)
        self.AT[:, : len(kept)] = self.AT[:, kept]
        self.learners = [self.learners[j - self.n_fixed] for j in kept[self.n_fixed :]]
        self._move_to(best[1][kept])
        self.settle()

    def weakest(self, n: int = 1) -> np.ndarray:
        """Return the n slots whose loss costs least, each by itself, in second order."""
        cost = 0.5 * self.w**2 / np.maximum(np.diag(self.M), 1e-300)
        cost = cost[self.n_fixed :] - self.fees.of_slots(self.learners).back
        return self.n_fixed + np.argsort(cost, kind="stable")[:n]

    def swap(self, j: int, learner: Learner, tolerance: float) -> bool:
        """Put a newcomer into slot j if that lowers the objective by more than the tolerance."""
        paid = 0.0
        if not self.fees.is_free:
            after = [learner if i == j - self.n_fixed else h for i, h in enumerate(self.learners)]
            if not self.fees.allows(after):
                return False
            paid = self.fees.total(after)
        tolerance += paid - self.paid
        column = self.oracle.column(learner)
        M, delta = np.empty_like(self.M), np.empty(self.n_slots)
        gain = swapped_model(
            self.AT,
            self.n_slots,
            j,
            column,
            self.M,
            self.at.u,
            self.reference,
            self.w,
            self.terms.nu,
            M,
            delta,
        )
        if gain < tolerance:
            return False
        before = self.AT[:, j].copy()
        w = self.w + delta
        w[j] = delta[j]
        least = self.least.copy()
        least[j] = -np.inf if self.oracle.has_opposite(learner) else 0.0
        w = np.maximum(w, least)
        change = w - self.w
        change[j] = -self.w[j]
        z = self.at.z.copy()
        add_columns(self.AT, change, z)
        z += w[j] * column
        self.AT[:, j] = column
        point = Point(self.terms, w, z)
        value = point.risk + float(self.nu @ np.abs(w))
        target = self.value - tolerance
        slots = Slots(self.AT, self.nu, least)
        value, _ = point.descend(slots, M, value, Steps(4, 0.02 * gain, target))
        if not value < target:
            self.AT[:, j] = before
            return False
        self.at, self.M, self.value, self.paid, self.least = point, M, value, paid, least
        self._here = self._scores = None
        self.learners[j - self.n_fixed] = learner
        return True

    def descend(
        self, tolerance: float, n_passes: int = N_PASSES, n_failures: int = N_FAILURES
    ) -> Scores:
        """Swap until no swap helps by more than this share of the objective."""
        least = tolerance * self.value
        for _ in range(n_passes):
            scores = self.scan()
            n_swapped = n_failed = 0
            for j in np.argsort(-scores.gains, kind="stable"):
                learner = scores.newcomers[j]
                if scores.gains[j] < least or learner is None or n_failed == n_failures:
                    break
                is_swapped = not self.holds(learner) and self.swap(int(j), learner, least)
                n_swapped += is_swapped
                n_failed += not is_swapped
            if n_swapped == 0:
                break
            self.settle()
        return scores

    def refine(self) -> int:
        """Move each kept learner to its best neighbour, weights as they are; then refit."""
        n_moved = 0
        for j in range(self.n_fixed, self.n_slots):
            at, terms = self.at, self.terms
            self.tell()
            shift = Shift(float(at.w[j]), at.z, at.u, terms.sample_weight, terms.loss, terms.extra)
            before = self.learners[j - self.n_fixed]
            learner = self.oracle.refined(before, shift)
            if learner is None or self.holds(learner, but=j - self.n_fixed):
                continue
            column = self.oracle.column(learner)
            z = self.at.z + self.w[j] * (column - self.AT[:, j])
            point = Point(self.terms, self.w, z)
            paid = self.fees.total([learner]) - self.fees.total([before])
            if point.risk + paid < self.at.risk - ROUNDING * self.value:
                self.AT[:, j] = column
                self.learners[j - self.n_fixed] = learner
                self.at = point
                n_moved += 1
        if n_moved:
            self.settle()
        return n_moved
