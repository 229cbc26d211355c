"""An ensemble whose weights are fitted without its columns: no row comes to the driver.

Newton steps need the risk, the slopes and the Gram matrix of few columns at the present weights.
Workers merge the rows that look the same to these columns; the driver sums over what is left of
them. Where even that is too much, workers sum over their rows, once for every step.
"""

from __future__ import annotations

import numpy as np

from totalqboost.boosting.columns import Terms
from totalqboost.boosting.fees import Fees
from totalqboost.boosting.support import ROUNDING, Snapshot
from totalqboost.cluster.oracle import ClusterOracle
from totalqboost.cluster.patterns import MOST_BITS, Model, Patterns
from totalqboost.dictionaries.base import Shift
from totalqboost.kernels.newton import minimise_model
from totalqboost.learners import Learner
from totalqboost.master import FREE_NU, MasterProblem
from totalqboost.refit import refit_value

__all__ = ["RemoteSupport"]

MOST_STEPS = 50
CLOSE = 1e-14  # share of the objective that a last step may gain
LEAST_STEP = 1e-4  # of a Newton step that does not help
MOST_TURNS = 4  # of weights that end at zero and may leave it on the other side
PRECISION = 1e-13  # of a refit on few rows
NO_ROWS = np.zeros(0)


class RemoteSupport:
    """The part of :class:`totalqboost.boosting.support.Support` that needs sums over rows only."""

    def __init__(self, oracle: ClusterOracle, terms: Terms):
        self.oracle, self.terms, self.fees = oracle, terms, Fees(oracle, terms)
        self.constants = oracle.constants if terms.free_intercept else ()
        self.learners: list[Learner] = []
        self.w = np.zeros(len(self.constants))
        self.value = np.inf  # risk and l1 term
        self._known: dict[tuple[Learner, ...], Patterns] = {}  # of the last two ensembles
        self._too_many = MOST_BITS + 1  # columns whose different rows are too many

    def restore(self, snapshot: Snapshot) -> None:
        """Go to an ensemble, and bring its weights to their optimum."""
        self.learners, self.w = list(snapshot.learners), snapshot.w.copy()
        self.settle()

    def snapshot(self) -> Snapshot:
        """Return what is here, without learners that have no weight."""
        n_free = len(self.constants)
        kept = np.flatnonzero(self.w[n_free:])
        learners = tuple(self.learners[j] for j in kept)
        w = np.concatenate([self.w[:n_free], self.w[n_free + kept]])
        return Snapshot(learners, w, self.value + self.fees.total(learners))

    @property
    def nus(self) -> np.ndarray:
        """What a unit of each weight costs."""
        free = min(self.terms.nu, FREE_NU)
        n_free = len(self.constants)
        return np.concatenate([np.full(n_free, free), np.full(len(self.w) - n_free, self.terms.nu)])

    @property
    def least(self) -> np.ndarray:
        """The least value of each weight: no limit, or zero where the opposite is not offered."""
        opposite = [self.oracle.has_opposite(learner) for learner in self.learners]
        limits = np.where(np.array(opposite, dtype=bool), -np.inf, 0.0)
        return np.concatenate([np.full(len(self.constants), -np.inf), limits])

    def _at(self, w: np.ndarray) -> tuple[float, Model]:
        """Return the objective, without fees, and the model at some weights."""
        patterns = self._patterns()
        if patterns is None:
            model = self.oracle.model([*self.constants, *self.learners], w)
        else:
            model = patterns.model(w, self.terms.loss)
        return model.risk + float(self.nus @ np.abs(w)), model

    def _patterns(self) -> Patterns | None:
        """Return the different rows of the columns; None if these are too many to travel."""
        columns = (*self.constants, *self.learners)
        if columns not in self._known:
            if not 0 < len(columns) < self._too_many:
                return None
            found = self.oracle.patterns(columns)
            if found is None:
                self._too_many = len(columns)
                return None
            self._known = dict([*self._known.items()][-1:]) | {columns: found}
        return self._known[columns]

    def settle(self) -> None:
        """Bring all weights to their optimum."""
        patterns = self._patterns()
        if patterns is None:
            self._settle_by_sums()
        else:
            self._settle_by(patterns)

    def _settle_by(self, patterns: Patterns) -> None:
        """Refit on the different rows, as in memory: an intercept is two opposite columns."""
        n_free, columns = len(self.constants), patterns.columns(len(self.w))
        self.value, model = self._at(self.w)
        for _ in range(MOST_TURNS):
            sign = signs_of(self.w, model.slopes, self.least)
            A = np.concatenate([columns * sign[:, None].astype(np.int8), -columns[:n_free]])
            cost = np.r_[np.zeros(n_free), np.ones(len(self.learners)), np.zeros(n_free)]
            A[:n_free] = columns[:n_free]
            known = self.terms.nu, 0.0, cost, self.terms.loss, patterns.weight
            free = self.w[:n_free]
            start = np.r_[np.maximum(free, 0.0), np.abs(self.w[n_free:]), np.maximum(-free, 0.0)]
            problem = MasterProblem.trusted(A, *known)
            found = refit_value(problem, np.arange(len(A)), start, tol=PRECISION)[0]
            w = sign * found[: len(sign)]
            w[:n_free] = found[:n_free] - found[len(sign) :]
            value, there = self._at(w)
            if value > self.value:
                return
            is_same = np.array_equal(w == 0.0, self.w == 0.0)
            self.w, self.value, model = w, value, there
            if is_same:
                return

    def _settle_by_sums(self) -> None:
        """Newton steps, each to the minimum of a quadratic model with the l1 term."""
        self.value, model = self._at(self.w)
        for _ in range(MOST_STEPS):
            step, gain = newton_step(model, self.w, self.nus, self.least)
            if gain <= CLOSE * self.value:  # what the last step gains no sum can tell
                self.w = self.w + step
                return
            share = 1.0
            while share >= LEAST_STEP:
                value, there = self._at(self.w + share * step)
                if value < self.value - 0.01 * share * gain:
                    break
                share *= 0.5
            else:
                return  # rounding is larger than what is left
            self.w, self.value, model = self.w + share * step, value, there

    def refine(self) -> int:
        """Move each kept learner to its best neighbour, weights as they are; then refit."""
        n_moved, terms = 0, self.terms
        risk = self.value - float(self.nus @ np.abs(self.w))
        for j, before in enumerate(list(self.learners)):
            weight = float(self.w[len(self.constants) + j])
            self.oracle.told([*self.constants, *self.learners], self.w)
            shift = Shift(weight, NO_ROWS, NO_ROWS, NO_ROWS, terms.loss, terms.extra)
            learner = self.oracle.refined(before, shift)
            if learner is None or learner in self.learners:
                continue
            self.learners[j] = learner
            there = self._at(self.w)[1].risk
            paid = self.fees.total([learner]) - self.fees.total([before])
            if there + paid < risk - ROUNDING * self.value:
                risk, n_moved = there, n_moved + 1
            else:
                self.learners[j] = before
        if n_moved:
            self.settle()
        return n_moved


def signs_of(w: np.ndarray, slopes: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Return on which side of zero each weight is, or would go."""
    sign = np.where(w != 0.0, np.sign(w), np.where(slopes < 0.0, -1.0, 1.0))
    return np.where(least == 0.0, 1.0, sign)


def newton_step(
    model: Model, w: np.ndarray, nus: np.ndarray, least: np.ndarray
) -> tuple[np.ndarray, float]:
    """Return the step to the minimum of the quadratic model with its l1 term, and its gain.

    Active sets, with weights on one side of zero at a time: those that end at zero may go on to
    the other side afterwards. What is free pays nothing, and has no side.
    """
    p = len(w)
    gram = model.gram + 1e-12 * np.trace(model.gram) / max(p, 1) * np.eye(p)
    is_free = np.isinf(least) & (nus <= FREE_NU)
    limits = np.where(is_free, -np.inf, 0.0)
    prices = np.where(is_free, 0.0, nus)
    x, y, scratch = w.copy(), np.empty(p), np.empty((p, p))
    for _ in range(2 * p + 2):
        slopes = model.slopes - gram @ (x - w)
        sign = np.where(is_free, 1.0, signs_of(x, slopes, least))
        if not minimise_model(
            sign[:, None] * gram * sign, prices - sign * slopes, sign * x, limits, y, scratch
        ):
            break  # not definite in rounding: what was found is a step downwards
        is_same = np.array_equal(sign * y, x)
        x = sign * y
        if is_same:
            break
    d = x - w
    smooth = model.slopes @ d - 0.5 * d @ gram @ d
    return d, float(smooth - nus @ (np.abs(x) - np.abs(w)))
