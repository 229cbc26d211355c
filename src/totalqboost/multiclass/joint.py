"""Stumps chosen with their weights per class: exchange with the whole dictionary.

The objective is that of :mod:`totalqboost.multiclass.weights`. Scores of swaps come from
:mod:`totalqboost.kernels.joint`; they propose, and the objective decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from totalqboost.dictionaries.classes import ClassOracle
from totalqboost.kernels.joint import NONE, score_joint_swaps
from totalqboost.learners import Learner, Stump
from totalqboost.multiclass.weights import Counts, fit_per_class
from totalqboost.threads import share_out

__all__ = ["JointExchange", "Weighed"]

SCORE_ROWS = 5_000  # examples that scores look at, at most
SAME = 2e-3  # share of a newcomer that the slots must leave for it to be another stump
RIDGE = 1e-5  # of the sum of curvatures: keeps Gram matrices definite
N_PASSES = 20  # over the dictionary, at most
N_FAILURES = 4  # swaps that may disappoint before the next pass
N_STEPS = 4  # with one inverse after a swap
ENOUGH = 1e-4  # share of the objective that a swap must gain


@dataclass(frozen=True, eq=False)
class Weighed:
    """Stumps with weights per class, intercepts, and the objective."""

    learners: tuple[Learner, ...]
    W: np.ndarray
    b: np.ndarray
    value: float


class JointExchange:
    """Slots of stumps with weights per class, and swaps that lower the objective.

    Parameters
    ----------
    oracle : ClassOracle
        The dictionary, over the training rows.
    weight : array of shape (n_rows,)
        Sample weights; they sum to one.
    mu : float
        Price of the norms of weights.
    has_intercept : bool
        Whether each class has an intercept.
    """

    def __init__(
        self, oracle: ClassOracle, weight: np.ndarray, mu: float, has_intercept: bool = True
    ):
        self.oracle, self.weight, self.mu, self.has_intercept = oracle, weight, mu, has_intercept
        self.target = weight[:, None] * (oracle.y.reshape(-1, oracle.n_classes) > 0)
        self.grid = oracle.base.cut_grid(False)
        n_rows = len(weight)
        self.rows = np.sort(np.random.default_rng(0).permutation(n_rows)[:SCORE_ROWS])
        self.learners: list[Learner] = []
        self.A = np.ones((n_rows, 1), np.int8)  # answers of the slots; the first is the constant
        share = np.maximum(self.target.sum(axis=0), 0.1 / n_rows)
        self.W = np.log(share)[None] if has_intercept else np.zeros((1, oracle.n_classes))
        self.F, self.M, self.value = self.A @ self.W, np.empty(0), np.inf
        self._move(self.W)
        self._invert()

    # -- the state ---------------------------------------------------------------------

    def _objective(self, W: np.ndarray, F: np.ndarray) -> float:
        loss = self.weight @ logsumexp(F, axis=1) - np.sum(self.target * F)
        return float(loss) + self.mu * float(np.sqrt(np.sum(W[1:] ** 2, axis=1)).sum())

    def _move(self, W: np.ndarray) -> None:
        self.W, self.F = W, self.A @ W
        self.value = self._objective(W, self.F)

    def _slopes(self, F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return slopes g and curvatures q of all rows and classes."""
        p = np.exp(F - logsumexp(F, axis=1)[:, None])
        c = self.weight[:, None]
        return self.target - c * p, c * p * (1.0 - p)

    def _invert(self) -> None:
        """Compute the inverses of the Gram matrices of the classes."""
        _, q = self._slopes(self.F)
        A = self.A.astype(float)
        G = np.array([A.T @ (A * own[:, None]) for own in q.T])
        G[:, np.arange(A.shape[1]), np.arange(A.shape[1])] += self._ridge(q, self.W)
        self.M = np.zeros_like(G)
        first = 0 if self.has_intercept else 1  # without one the constant has no weight
        self.M[:, first:, first:] = np.linalg.inv(G[:, first:, first:])

    def _ridge(self, q: np.ndarray, W: np.ndarray) -> np.ndarray:
        """Return what is added to diagonals, (n_classes, n_slots): the price, as a square."""
        norms = np.sqrt(np.sum(W**2, axis=1))
        price = np.where(norms > 0, self.mu / np.maximum(norms, 1e-2), 0.0)
        price[0] = 0.0
        return RIDGE * q.sum(axis=0)[:, None] + 1e-12 + price

    def settle(self, precision: float = 1e-7) -> None:
        """Bring all weights to their optimum, and the inverses up to date."""
        oracle = self.oracle
        counts = Counts.of(
            self.A[:, 1:], oracle.labels, self.weight, oracle.n_classes, self.has_intercept
        )
        W, b = fit_per_class(counts, self.mu, self.W[1:], self.W[0], precision)
        self._move(np.vstack([b, W]))
        self._invert()

    def restart(self, learners: Sequence[Learner], W: np.ndarray, b: np.ndarray) -> None:
        """Take other stumps into the slots, and refit."""
        self.learners = list(learners)
        columns = [np.ones(len(self.weight), np.int8), *map(self.oracle.base.column, learners)]
        self.A = np.array(columns, dtype=np.int8).T.copy()
        self.W = np.vstack([b, W])
        self.settle()

    def found(self) -> Weighed:
        """Return what is in the slots."""
        return Weighed(tuple(self.learners), self.W[1:].copy(), self.W[0].copy(), self.value)

    # -- moves -------------------------------------------------------------------------

    def scan(self) -> tuple[np.ndarray, np.ndarray]:
        """Return gain and newcomer in the place of each slot; first those of an addition."""
        g, q = self._slopes(self.F[self.rows])
        scale = self.weight.sum() / self.weight[self.rows].sum()
        diagonal = np.maximum(np.einsum("laa->la", self.M), 1e-30)
        total = scale * q.sum(axis=0)
        least = np.column_stack([total, SAME * total]).astype(np.float32)
        p, grid = len(self.W), self.grid
        parts: list[tuple[np.ndarray, np.ndarray]] = []

        def score(first: int, last: int) -> None:
            best, newcomers = np.zeros(p), np.full(p, NONE, np.int64)
            score_joint_swaps(
                grid.codes,
                self.rows,
                grid.offsets,
                first,
                last,
                self.A[self.rows],
                (scale * g).astype(np.float32),
                (scale * q).astype(np.float32),
                self.M.astype(np.float32),
                (self.W.T / diagonal).astype(np.float32),
                (1.0 / diagonal).astype(np.float32),
                least,
                self.mu,
                best,
                newcomers,
            )
            parts.append((best, newcomers))

        share_out(len(grid.thresholds), grid.n_threads, score)
        best = np.array([gains for gains, _ in parts])
        place = best.argmax(axis=0)
        newcomers = np.array([s for _, s in parts])[place, np.arange(p)]
        gains = best.max(axis=0) - self._losses(diagonal)
        return gains, newcomers

    def _losses(self, diagonal: np.ndarray) -> np.ndarray:
        """Return what the objective rises by when a slot leaves; 0 for an addition."""
        norms = np.sqrt(np.sum(self.W**2, axis=1))
        losses = 0.5 * np.sum(self.W.T**2 / diagonal, axis=0) - self.mu * norms
        losses[0] = 0.0
        return losses

    def add(self, learner: Learner) -> None:
        """Put a stump into a slot of its own, and refit."""
        self.learners.append(learner)
        self.A = np.column_stack([self.A, self.oracle.base.column(learner)])
        self.W = np.vstack([self.W, np.zeros(self.oracle.n_classes)])
        self.settle(1e-5)

    def swap(self, j: int, learner: Learner, least: float) -> bool:
        """Put a stump into slot j if that lowers the objective by more than ``least``."""
        column = self.oracle.base.column(learner)
        before, M, W = self.A[:, j].copy(), self.M, self.W
        M, W = self._swapped(j, column)
        self.A[:, j] = column
        W, F, value = self._descended(M, W, self.value - least)
        if not value < self.value - least:
            self.A[:, j] = before
            return False
        self.learners[j - 1] = learner
        self.W, self.F, self.M, self.value = W, F, M, value
        return True

    def _swapped(self, j: int, column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return inverses and weights of the second-order model with another column in slot j."""
        g, q = self._slopes(self.F)
        M, W = self.M, self.W
        own = M[:, :, j] / M[:, j, j][:, None]  # (n_classes, n_slots)
        W = W - (own * W[j][:, None]).T
        x = (q * column[:, None]).T @ self.A  # (n_classes, n_slots)
        edge = column @ g + np.einsum("la,la->l", x, own) * self.W[j]
        x[:, j] = 0.0
        M = M - np.einsum("la,lb->lab", own, M[:, j])
        b = np.einsum("lab,lb->la", M, x)
        ridge = self._ridge(q, self.W)[:, j]
        rest = np.maximum(q.sum(axis=0) + ridge - np.einsum("la,la->l", x, b), 1e-12)
        b[:, j] = -1.0
        weight = edge / rest
        W = W - (b * weight[:, None]).T
        W[j] = weight
        M[:, j, :] = M[:, :, j] = 0.0
        return M + np.einsum("la,lb->lab", b, b) / rest[:, None, None], W

    def _descended(
        self, M: np.ndarray, W: np.ndarray, target: float
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Return weights after a few steps with the inverses M, unless the target is too far."""
        F = self.A @ W
        value = self._objective(W, F)
        for _ in range(N_STEPS):
            g, _ = self._slopes(F)
            slope = g.T @ self.A  # (n_classes, n_slots)
            norms = np.sqrt(np.sum(W**2, axis=1))
            slope[:, 1:] -= (self.mu * W[1:] / np.maximum(norms[1:], 1e-9)[:, None]).T
            if not self.has_intercept:
                slope[:, 0] = 0.0
            step = np.einsum("lab,lb->al", M, slope)
            decrement = 0.5 * float(np.sum(step.T * slope))
            if value - 2.0 * decrement > target:
                break
            for size in (1.0, 0.5, 0.2):
                trial = W + size * step
                trial_F = self.A @ trial
                new = self._objective(trial, trial_F)
                if new < value:
                    break
            if not new < value:
                break
            W, F, value = trial, trial_F, new
        return W, F, value

    def descend(self) -> None:
        """Swap until no swap helps."""
        for _ in range(N_PASSES):
            least = ENOUGH * self.value
            gains, newcomers = self.scan()
            n_swapped = n_failed = 0
            for j in 1 + np.argsort(-gains[1:], kind="stable"):
                if gains[j] < least or newcomers[j] == NONE or n_failed == N_FAILURES:
                    break
                learner = self.grid.learner(int(newcomers[j]))
                is_swapped = learner not in self.learners and self.swap(int(j), learner, least)
                n_swapped += is_swapped
                n_failed += not is_swapped
            if n_swapped == 0:
                break
            self.settle(1e-5)

    def refine(self) -> int:
        """Move the cut of each stump to its best place, weights as they are; then refit."""
        n_moved = 0
        for j, learner in enumerate(self.learners, start=1):
            if not isinstance(learner, Stump) or self.oracle.base.is_special(learner):
                continue
            thresholds = self.oracle.base.thresholds[learner.feature]
            codes = self.oracle.base.codes(learner.feature)
            rest = self.F - np.outer(self.A[:, j], self.W[j])
            above, below = (self._row_losses(rest + sign * self.W[j]) for sign in (1, -1))
            by_code = np.bincount(codes, weights=below - above, minlength=len(thresholds) + 1)
            cut = int(np.argmin(np.cumsum(by_code)[:-1]))
            other = Stump(learner.feature, float(thresholds[cut]))
            if other in self.learners:
                continue
            column = self.oracle.base.column(other)
            F = rest + np.outer(column, self.W[j])
            value = self._objective(self.W, F)
            if value < (1.0 - 1e-7) * self.value:
                self.A[:, j], self.F, self.value = column, F, value
                self.learners[j - 1] = other
                n_moved += 1
        if n_moved:
            self.settle(1e-5)
        return n_moved

    def _row_losses(self, F: np.ndarray) -> np.ndarray:
        losses: np.ndarray = self.weight * logsumexp(F, axis=1) - np.sum(self.target * F, axis=1)
        return losses

    def improved(self, learners: Sequence[Learner], W: np.ndarray, b: np.ndarray) -> Weighed:
        """Return what exchange makes of other stumps; weights are a start."""
        self.restart(learners, W, b)
        self.improve()
        self.settle()
        return self.found()

    def improve(self) -> None:
        """Swap and refine until neither helps."""
        self.descend()
        for _ in range(3):
            if not self.refine():
                break
            self.descend()
