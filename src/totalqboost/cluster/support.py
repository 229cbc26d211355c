"""An ensemble whose weights are fitted without its columns: no row comes to the driver.

Newton steps need the risk, the slopes and the Gram matrix of few columns at the present weights.
Workers merge the rows that look the same to these columns; the driver sums over what is left of
them. Where even that is too much, workers sum over their rows, once for every step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from totalqboost.boosting.columns import Terms
from totalqboost.boosting.fees import Fees
from totalqboost.boosting.support import ROUNDING, Snapshot
from totalqboost.cluster.oracle import ClusterOracle
from totalqboost.cluster.patterns import MOST_BITS, Model, Patterns
from totalqboost.dictionaries.base import Shift
from totalqboost.learners import Learner
from totalqboost.master import FREE_NU

__all__ = ["RemoteSupport"]

MOST_STEPS = 50
CLOSE = 1e-14  # share of the objective that a last step may gain
LEAST_STEP = 1e-4  # of a Newton step that does not help
SWEEPS = 500  # over the weights of a quadratic model, at most
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
        """Newton steps, each to the minimum of a quadratic model with the l1 term."""
        self.value, model = self._at(self.w)
        for _ in range(MOST_STEPS):
            step, gain = newton_step(model, self.w, self.nus, self.least)
            if gain <= CLOSE * self.value:
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


def newton_step(
    model: Model, w: np.ndarray, nus: np.ndarray, least: Sequence[float] | np.ndarray
) -> tuple[np.ndarray, float]:
    """Return the step to the minimum of the quadratic model with its l1 term, and its gain.

    Coordinate descent on -slopes d + d' gram d / 2 + sum_j nu_j |w_j + d_j|.
    """
    p = len(w)
    gram = model.gram + 1e-12 * np.trace(model.gram) / max(p, 1) * np.eye(p)
    x, slope = w.copy(), -model.slopes  # slope of the smooth part at x
    for _ in range(SWEEPS):
        moved = 0.0
        for j in range(p):
            curvature = gram[j, j]
            if not curvature > 0.0:
                continue
            centre = x[j] - slope[j] / curvature
            new = np.sign(centre) * max(abs(centre) - nus[j] / curvature, 0.0)
            change = max(new, least[j]) - x[j]
            if change != 0.0:
                slope += change * gram[:, j]
                x[j] += change
                moved = max(moved, curvature * change * change)
        if moved <= 1e-30:
            break
    d = x - w
    smooth = model.slopes @ d - 0.5 * d @ gram @ d
    return d, float(smooth - nus @ (np.abs(x) - np.abs(w)))
