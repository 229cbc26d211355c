"""Stumps chosen with their weights per class: exchange with the whole dictionary.

The objective is that of :mod:`totalqboost.multiclass.weights`. Scores of swaps come from
:mod:`totalqboost.kernels.joint`; they propose, and the objective decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from totalqboost.dictionaries.class_sets import sets_for_classes
from totalqboost.dictionaries.classes import ClassOracle
from totalqboost.dictionaries.special import Sets
from totalqboost.kernels.joint import NONE, add_to_bins, score_joint_sets, score_joint_swaps
from totalqboost.kernels.softmax import row_losses, softmax_terms
from totalqboost.learners import Learner, Stump
from totalqboost.multiclass.weights import Counts, fit_per_class
from totalqboost.threads import share_out

__all__ = ["JointExchange", "JointSearch", "Weighed"]

SCORE_ROWS = 5_000  # examples that scores look at, at most
SAME = 2e-3  # share of a newcomer that the slots must leave for it to be another stump
RIDGE = 1e-5  # of the sum of curvatures: keeps Gram matrices definite
N_PASSES = 20  # over the dictionary, at most
N_FAILURES = 4  # swaps that may disappoint before the next pass
N_STEPS = 4  # with one inverse after a swap
ROUNDING = 1e-7  # share of the objective that is no gain: a cut stays where it is
WALK, POLISH = 1e-3, 1e-4  # share of the objective that a swap must gain, on the way and last
BETTER = 1e-5  # share that an addition must gain
NEAR = 0.02  # starts that are worse by a larger share are left
FEW = 12  # sizes at which no start is left
ROUGH, PRECISE = 1e-5, 1e-7  # slopes of weights that are good enough, on the way and last


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
    extra : float
        Price of each of the extras of a stump.
    """

    def __init__(
        self,
        oracle: ClassOracle,
        weight: np.ndarray,
        mu: float,
        has_intercept: bool = True,
        extra: float = 0.0,
    ):
        self.oracle, self.weight, self.mu, self.has_intercept = oracle, weight, mu, has_intercept
        self.target = weight[:, None] * (oracle.y.reshape(-1, oracle.n_classes) > 0)
        n_rows = len(weight)
        self.rows = np.sort(np.random.default_rng(0).permutation(n_rows)[:SCORE_ROWS])
        scored = oracle.base.sampled(self.rows)
        self.extra, self.grid, self.special = extra, scored.cut_grid(False), scored.coarse()
        self._sets: list[tuple[Sets, int]] = []  # of the last scan
        self.learners: list[Learner] = []
        self.A = np.ones((n_rows, 1), np.int8)  # answers of the slots; the first is the constant
        share = np.maximum(self.target.sum(axis=0), 0.1 / n_rows)
        self.W = np.log(share)[None] if has_intercept else np.zeros((1, oracle.n_classes))
        self.F, self.M, self.value = self.A @ self.W, np.empty(0), np.inf
        self._move(self.W)
        self._invert()

    # -- the state ---------------------------------------------------------------------

    def _objective(self, W: np.ndarray, F: np.ndarray) -> float:
        loss: float = row_losses(F, self.target, np.empty(len(F)))
        n_extras = sum(map(self.oracle.base.n_extras, self.learners)) if self.extra else 0
        norms = np.sqrt(np.sum(W[1:] ** 2, axis=1))
        return loss + self.mu * float(norms.sum()) + self.extra * n_extras

    def _move(self, W: np.ndarray) -> None:
        self.W, self.F = W, self.A @ W
        self.value = self._objective(W, self.F)

    def _slopes(self, F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return slopes g and curvatures q of all rows and classes."""
        g, q = np.empty_like(F), np.empty_like(F)
        softmax_terms(F, self.target, g, q)
        return g, q

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

    def settle(self, precision: float) -> None:
        """Bring all weights to their optimum, and the inverses up to date."""
        oracle = self.oracle
        counts = Counts.of(
            self.A[:, 1:], oracle.labels, self.weight, oracle.n_classes, self.has_intercept
        )
        W, b = fit_per_class(counts, self.mu, self.W[1:], self.W[0], precision)
        self._move(np.vstack([b, W]))
        self._invert()

    def restore(self, start: Weighed) -> None:
        """Take other stumps and weights into the slots."""
        columns = [self.A[:, 0]]
        for j, learner in enumerate(start.learners):
            is_here = j < len(self.learners) and self.learners[j] == learner
            columns.append(self.A[:, 1 + j] if is_here else self.oracle.base.column(learner))
        self.learners = list(start.learners)
        self.A = np.array(columns, dtype=np.int8).T.copy()
        self._move(np.vstack([start.b, start.W]))
        self._invert()

    def found(self) -> Weighed:
        """Return what is in the slots."""
        return Weighed(tuple(self.learners), self.W[1:].copy(), self.W[0].copy(), self.value)

    # -- moves -------------------------------------------------------------------------

    def scan(self) -> tuple[np.ndarray, np.ndarray]:
        """Return gain and newcomer in the place of each slot; first those of an addition."""
        g, q = (part[self.rows] for part in self._slopes(self.F))
        scale = self.weight.sum() / self.weight[self.rows].sum()
        diagonal = np.maximum(np.einsum("laa->la", self.M), 1e-30)
        total = scale * q.sum(axis=0)
        least = np.column_stack([total, SAME * total]).astype(np.float32)
        p, grid, places = len(self.W), self.grid, np.arange(len(self.rows))
        parts: list[tuple[np.ndarray, np.ndarray]] = []

        def score(first: int, last: int) -> None:
            best, newcomers = np.zeros(p), np.full(p, NONE, np.int64)
            score_joint_swaps(
                grid.codes,
                places,
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
        parts += self._scan_sets(scale * g, scale * q, diagonal, least)
        best = np.array([gains for gains, _ in parts])
        place = best.argmax(axis=0)
        newcomers = np.array([s for _, s in parts])[place, np.arange(p)]
        gains = best.max(axis=0) - self._losses(diagonal)
        return gains, newcomers

    def _scan_sets(
        self, g: np.ndarray, q: np.ndarray, diagonal: np.ndarray, least: np.ndarray
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Do the same with the sets of special features."""
        p, start = len(self.W), len(self.grid.cuts)
        answers, places = self.A[self.rows], np.arange(len(self.rows))
        parts = []
        self._sets = []
        for own in self.special:
            bins = np.zeros((own.n_bins, *g.shape[1:], p + 1), np.float32)
            add_to_bins(
                own.codes, places, answers, g.astype(np.float32), q.astype(np.float32), bins
            )
            for sets in sets_for_classes(own, bins[:, :, 0], bins[:, :, 1]):
                inside = sets.inside(bins.reshape(own.n_bins, -1)).reshape(-1, *bins.shape[1:])
                best, newcomers = np.zeros(p), np.full(p, NONE, np.int64)
                score_joint_sets(
                    (2.0 * inside - bins.sum(axis=0)).astype(np.float32),
                    self.extra * sets.extras,
                    self.M.astype(np.float32),
                    (self.W.T / diagonal).astype(np.float32),
                    (1.0 / diagonal).astype(np.float32),
                    least,
                    self.mu,
                    best,
                    newcomers,
                    start,
                )
                parts.append((best, newcomers))
                self._sets += [(sets, t) for t in range(len(inside))]
                start += len(inside)
        return parts

    def newcomer(self, s: int) -> Learner:
        """Return a newcomer of the last scan."""
        if s < len(self.grid.cuts):
            return self.grid.learner(s)
        sets, t = self._sets[s - len(self.grid.cuts)]
        return sets.learner(t)

    def _losses(self, diagonal: np.ndarray) -> np.ndarray:
        """Return what the objective rises by when a slot leaves; 0 for an addition."""
        norms = np.sqrt(np.sum(self.W**2, axis=1))
        losses = 0.5 * np.sum(self.W.T**2 / diagonal, axis=0) - self.mu * norms
        losses[0] = 0.0
        if self.extra:
            losses[1:] -= self.extra * np.array([*map(self.oracle.base.n_extras, self.learners)])
        return losses

    def add(self, learner: Learner) -> None:
        """Put a stump into a slot of its own, and refit."""
        self.learners.append(learner)
        self.A = np.column_stack([self.A, self.oracle.base.column(learner)])
        self.W = np.vstack([self.W, np.zeros(self.oracle.n_classes)])
        self.settle(ROUGH)

    def swap(self, j: int, learner: Learner, least: float) -> bool:
        """Put a stump into slot j if that lowers the objective by more than ``least``."""
        column = self.oracle.base.column(learner)
        before, own = self.A[:, j].copy(), self.learners[j - 1]
        M, W = self._swapped(j, column)
        self.A[:, j], self.learners[j - 1] = column, learner
        W, F, value = self._descended(M, W, self.value - least)
        if not value < self.value - least:
            self.A[:, j], self.learners[j - 1] = before, own
            return False
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

    def descend(self, enough: float) -> None:
        """Swap until no swap gains this share of the objective."""
        for _ in range(N_PASSES):
            least = enough * self.value
            gains, newcomers = self.scan()
            n_swapped = n_failed = 0
            for j in 1 + np.argsort(-gains[1:], kind="stable"):
                if gains[j] < least or newcomers[j] == NONE or n_failed == N_FAILURES:
                    break
                learner = self.newcomer(int(newcomers[j]))
                is_swapped = learner not in self.learners and self.swap(int(j), learner, least)
                n_swapped += is_swapped
                n_failed += not is_swapped
            if n_swapped == 0:
                break
            self.settle(ROUGH)

    def refine(self) -> int:
        """Move the cut of each stump to its best place, weights as they are; then refit."""
        n_moved = 0
        for j, learner in enumerate(self.learners, start=1):
            rest = self.F - np.outer(self.A[:, j], self.W[j])
            other = self._moved(learner, rest, self.W[j])
            if other is None or other in self.learners:
                continue
            column = self.oracle.base.column(other)
            F = rest + np.outer(column, self.W[j])
            self.learners[j - 1] = other
            value = self._objective(self.W, F)
            if value < (1.0 - ROUNDING) * self.value:
                self.A[:, j], self.F, self.value = column, F, value
                n_moved += 1
            else:
                self.learners[j - 1] = learner
        if n_moved:
            self.settle(ROUGH)
        return n_moved

    def _moved(self, learner: Learner, rest: np.ndarray, weights: np.ndarray) -> Learner | None:
        """Return the best neighbour of a stump, given the scores of all others."""
        base = self.oracle.base
        above, below = (self._row_losses(rest + sign * weights) for sign in (1, -1))
        special = base.special_feature(learner)
        if special is not None:
            turned = np.where(base.column(learner) > 0, below - above, above - below)
            by_bin = base.bins(special.feature, turned)[:, 0]
            return special.neighbour(learner, by_bin, self.extra)
        if not isinstance(learner, Stump):
            return None
        thresholds, codes = base.thresholds[learner.feature], base.codes(learner.feature)
        by_code = np.bincount(codes, weights=below - above, minlength=len(thresholds) + 1)
        cut = int(np.argmin(np.cumsum(by_code)[:-1]))
        return Stump(learner.feature, float(thresholds[cut]))

    def _row_losses(self, F: np.ndarray) -> np.ndarray:
        losses = np.empty(len(F))
        row_losses(F, self.target, losses)
        return losses

    def weakest(self) -> int:
        """Return the slot whose loss costs least, in second order."""
        diagonal = np.maximum(np.einsum("laa->la", self.M), 1e-30)
        return 1 + int(np.argmin(self._losses(diagonal)[1:]))

    def drop(self, j: int) -> None:
        """Empty a slot, and refit."""
        own = self.M[:, :, j] / self.M[:, j, j][:, None]
        W = self.W - (own * self.W[j][:, None]).T
        del self.learners[j - 1]
        self.A, self.W = np.delete(self.A, j, axis=1), np.delete(W, j, axis=0)
        self.settle(ROUGH)

    def grow(self) -> bool:
        """Add the best stump, if there is one that helps."""
        gains, newcomers = self.scan()
        if newcomers[0] == NONE or gains[0] < BETTER * self.value:
            return False
        learner = self.newcomer(int(newcomers[0]))
        if learner in self.learners:
            return False
        self.add(learner)
        return True

    def improve(self, enough: float) -> None:
        """Swap and refine until neither gains this share of the objective."""
        self.descend(enough)
        if self.refine():
            self.descend(enough)


class JointSearch:
    """The best stumps of every size, with weights per class.

    Sizes are walked up (add the best stump, exchange, refine) and down (drop the weakest), and
    stumps that were found with votes start from where they are.
    """

    def __init__(self, slots: JointExchange):
        self.slots = slots
        self.best = {0: slots.found()}

    def search(self, starts: Sequence[Weighed], max_learners: int) -> None:
        """Search all sizes up to the largest; ``starts`` are stumps to improve."""
        by_size = {len(start.learners): start for start in starts}
        slots = self.slots
        for size in range(max_learners):
            slots.restore(self.best[size])
            if not slots.grow():
                break
            self._improve()
            if size + 1 in by_size:
                slots.restore(by_size[size + 1])
                slots.settle(ROUGH)
                if size < FEW or slots.value < (1.0 + NEAR) * self.best[size + 1].value:
                    self._improve()
        for size in range(max(self.best), 1, -1):
            slots.restore(self.best[size])
            slots.drop(slots.weakest())
            if slots.value < (1.0 + NEAR) * self.best[size - 1].value:
                self._improve()

    def _improve(self) -> None:
        self.slots.improve(WALK)
        self.offer()

    def offer(self) -> None:
        """Keep what is in the slots if it is the best of its size; of equals, the first."""
        found = self.slots.found()
        size = len(found.learners)
        if size not in self.best or found.value < (1.0 - ROUNDING) * self.best[size].value:
            self.best[size] = found

    def polished(self, size: int) -> Weighed:
        """Return the best of a size, or of the largest below it, with weights of full precision."""
        size = max(known for known in self.best if known <= size)
        self.slots.restore(self.best[size])
        self.slots.improve(POLISH)
        self.slots.settle(PRECISE)
        self.best[size] = self.slots.found()
        return self.best[size]
