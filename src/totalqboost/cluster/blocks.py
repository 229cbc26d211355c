"""What workers do: rows as codes, and the few sums over them that a driver asks for.

A block holds consecutive rows, coded once. The driver sends an ensemble as tables of scores per
code, some hundred bytes a weak classifier; every block computes margins, boosting weights and
curvatures of its own rows, and answers with sums per bin. Rows never leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from totalqboost.kernels.blocks import (
    add_histograms,
    add_scores,
    add_turned,
    loss_values,
    write_column,
)
from totalqboost.kernels.loss_codes import CUSTOM
from totalqboost.kernels.newton import loss_terms
from totalqboost.losses import Loss

__all__ = ["Answers", "Block", "Kept", "Layout", "Point", "Slot", "weights_and_curvatures"]

CHUNK = 2**16  # rows whose columns are made at a time


@dataclass(frozen=True, eq=False)
class Layout:
    """Which features are in which array of codes, and where their bins begin in one vector.

    Features of at most 256 bins have one byte a row, the others two.
    """

    n_bins: np.ndarray

    @property
    def is_small(self) -> np.ndarray:
        return self.n_bins <= 256

    @property
    def offsets(self) -> np.ndarray:
        """Where the bins of each feature begin, and the number of all."""
        return np.concatenate([[0], np.cumsum(self.n_bins)])

    def place(self, feature: int) -> tuple[bool, int]:
        """Return whether a feature is in the small array, and its row there."""
        same = self.is_small[:feature] == self.is_small[feature]
        return bool(self.is_small[feature]), int(same.sum())

    def bins_of(self, feature: int) -> slice:
        """Return where the bins of a feature are."""
        first = int(self.n_bins[:feature].sum())
        return slice(first, first + int(self.n_bins[feature]))


class Answers(NamedTuple):
    """A weak classifier as workers know it: what it says to each code of one feature."""

    feature: int
    signs: np.ndarray  # int8, a sign per bin


class Kept(NamedTuple):
    """A weak classifier of an ensemble with its weights, one per score.

    ``is_near`` tells which bins its answers may change for when it is refined.
    """

    answers: Answers
    weights: np.ndarray
    is_near: np.ndarray


class Slot(NamedTuple):
    """A weak classifier, None for one that always says +1, and its votes, one per score."""

    answers: Answers | None
    votes: np.ndarray


@dataclass(frozen=True, eq=False)
class Point:
    """An ensemble as workers know it.

    Attributes
    ----------
    tables : dict
        For each feature that is looked at, the scores that its codes bring, (n_bins, n_scores).
    intercept : array of shape (n_scores,)
        One score of two classes, else one for each.
    loss : Loss
        Of the margins.
    """

    tables: dict[int, np.ndarray]
    intercept: np.ndarray
    loss: Loss


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive rows: codes, labels and weights.

    ``y`` holds signs of two classes, else numbers of classes. Weights of all blocks sum to one.
    """

    layout: Layout
    small: np.ndarray  # uint8, a row per feature
    large: np.ndarray  # uint16
    y: np.ndarray
    weight: np.ndarray

    def __len__(self) -> int:
        return len(self.y)

    def codes(self, feature: int) -> np.ndarray:
        """Return the codes of one feature."""
        is_small, row = self.layout.place(feature)
        codes: np.ndarray = (self.small if is_small else self.large)[row]
        return codes

    # -- what the driver asks for ------------------------------------------------------

    def totals(self) -> np.ndarray:
        """Return the number of rows and their weight, per bin of every feature."""
        return self._histograms(np.column_stack([np.ones(len(self)), self.weight]))

    def slopes(self, point: Point) -> np.ndarray:
        """Return sums of slope and curvature per bin: (bins, n_scores, 2)."""
        z, signs, c = self._margins(point)
        u, q = weights_and_curvatures(point.loss, z, c)
        values = np.stack([u * signs, q], axis=2)
        n_scores = values.shape[1]
        sums = self._histograms(values.reshape(len(values), 2 * n_scores))
        return sums.reshape(-1, n_scores, 2)

    def model(self, point: Point, slots: Sequence[Slot]) -> np.ndarray:
        """Return risk, slopes and Gram matrix of weak classifiers at an ensemble, in one row.

        Slopes are sum_i u_i a_ij, the matrix is sum_i q_i a_ij a_ik with a_ij = y_i h_j(x_i); of
        several scores, over all of them.
        """
        z, signs, c = self._margins(point)
        u, q = weights_and_curvatures(point.loss, z, c)
        p = len(slots)
        risk, slopes, gram = float((c * point.loss.value(z)).sum()), np.zeros(p), np.zeros((p, p))
        for first in range(0, len(self), CHUNK):
            rows = slice(first, first + CHUNK)
            H = np.ones((len(self.y[rows]), p))
            for j, (answers, _) in enumerate(slots):
                if answers is not None:
                    H[:, j] = answers.signs[self.codes(answers.feature)[rows]]
            for t in range(z.shape[1]):
                A = H * np.array([votes[t] for _, votes in slots])
                slopes += (u[rows, t] * signs[rows, t]) @ A
                gram += A.T @ (q[rows, t, None] * A)
        return np.concatenate([[risk], slopes, gram.ravel()])

    def column(self, answers: Answers) -> np.ndarray:
        """Return the answers to all rows, a bit each."""
        out = np.empty(len(self), np.int8)
        write_column(self.codes(answers.feature), answers.signs, out)
        return np.packbits(out > 0)

    def turned(self, point: Point, kept: Sequence[Kept]) -> np.ndarray:
        """Return how the risk changes if answers are turned, per bin and score.

        One kept learner after the other; each is turned by itself, in the bins near its cut.
        """
        z, signs, c = self._margins(point)
        code, values = point.loss.code, np.empty(z.shape)
        loss_values(code, z, values)
        parts = []
        for (feature, answers), weights, is_near in kept:
            out = np.zeros((len(answers), len(weights)))
            if is_near.any():
                add_turned(
                    code, self.codes(feature), answers, is_near, weights, signs, z, values, c, out
                )
            parts.append(out)
        return np.concatenate(parts)

    def picked(self, rows: np.ndarray) -> np.ndarray:
        """Return all codes of some rows, (n_features, n_rows)."""
        out = np.empty((len(self.layout.n_bins), len(rows)), np.uint16)
        out[self.layout.is_small] = self.small[:, rows]
        out[~self.layout.is_small] = self.large[:, rows]
        return out

    def subset(self, rows: np.ndarray, share: float) -> Block:
        """Return some of the rows, their weights divided by the share of all that are kept."""
        return replace(
            self,
            small=np.ascontiguousarray(self.small[:, rows]),
            large=np.ascontiguousarray(self.large[:, rows]),
            y=self.y[rows],
            weight=self.weight[rows] / share,
        )

    # -- how ---------------------------------------------------------------------------

    def _histograms(self, values: np.ndarray) -> np.ndarray:
        offsets, is_small = self.layout.offsets, self.layout.is_small
        out = np.zeros((offsets[-1], values.shape[1]))
        for codes, mask in ((self.small, is_small), (self.large, ~is_small)):
            add_histograms(codes, offsets[:-1][mask], np.ascontiguousarray(values), out)
        return out

    def _margins(self, point: Point) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return margins, signs of the rows and their weights, one column per score."""
        n_scores = len(point.intercept)
        scores = np.tile(point.intercept, (len(self), 1))
        for feature, table in point.tables.items():
            add_scores(self.codes(feature), table, scores)
        if n_scores == 1:
            signs = self.y[:, None].astype(float)
        else:
            signs = np.where(self.y[:, None] == np.arange(n_scores), 1.0, -1.0)
        return signs * scores, signs, np.repeat(self.weight[:, None] / n_scores, n_scores, axis=1)


def weights_and_curvatures(
    loss: Loss, z: np.ndarray, c: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return u = -c l'(z) and q = c l''(z)."""
    if loss.code == CUSTOM:
        return c * loss.weight(z), c * loss.curvature(z)
    u, q = np.empty(z.size), np.empty(z.size)
    loss_terms(loss.code, np.ascontiguousarray(z).ravel(), np.ascontiguousarray(c).ravel(), u, q)
    return u.reshape(z.shape), q.reshape(z.shape)


def stacked(layout: Layout, parts: Sequence[Block]) -> Block:
    """Return the rows of several blocks as one."""
    return Block(
        layout,
        np.concatenate([part.small for part in parts], axis=1),
        np.concatenate([part.large for part in parts], axis=1),
        np.concatenate([part.y for part in parts]),
        np.concatenate([part.weight for part in parts]),
    )
