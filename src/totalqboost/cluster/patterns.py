"""Rows that look the same to an ensemble, merged on the workers before anything travels.

The columns of k weak classifiers and an intercept have at most 2^(k+1) different rows. To a fit of
weights only these matter, with the weight of the rows that have each: workers merge the rows of
their blocks, then what others have merged, and the driver fits without asking again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from totalqboost.cluster.blocks import Block, Slot
from totalqboost.losses import Loss
from totalqboost.refit import columns_of, different_rows

__all__ = ["MOST_BITS", "Model", "Patterns", "merged", "patterns_of"]

MOST_BITS = 64  # columns, a bit of a number each
MOST_PATTERNS = 2**20  # 16 MB: of more, sums over rows travel instead
CHUNK = 2**16  # patterns whose columns are made at a time
ALL = slice(None)


class Model(NamedTuple):
    """What a refit needs to know about rows: risk, sum_i u_i a_i and sum_i q_i a_i a_i'."""

    risk: float
    slopes: np.ndarray
    gram: np.ndarray


class Patterns(NamedTuple):
    """Different rows of a_ij = y_i h_j(x_i), and what the rows like each weigh together.

    Bit j of a key is set where a_ij is +1.
    """

    keys: np.ndarray  # uint64
    weight: np.ndarray

    def model(self, w: np.ndarray, loss: Loss) -> Model:
        """Return risk, slopes and Gram matrix at the weights w of the columns."""
        p = len(w)
        risk, slopes, gram = 0.0, np.zeros(p), np.zeros((p, p))
        for first in range(0, len(self.keys), CHUNK):
            part = slice(first, first + CHUNK)
            A, c = self.columns(p, part).T.astype(float), self.weight[part]
            z = A @ w
            risk += float(c @ loss.value(z))
            slopes += (c * loss.weight(z)) @ A
            gram += A.T @ ((c * loss.curvature(z))[:, None] * A)
        return Model(risk, slopes, gram)

    def columns(self, p: int, part: slice = ALL) -> np.ndarray:
        """Return the signs of the p columns, or of some of their rows: (p, n_patterns)."""
        return columns_of(self.keys[part], p)


def patterns_of(block: Block, slots: Sequence[Slot]) -> Patterns | None:
    """Return the patterns of a block of two classes; None if they are too many."""
    A = np.empty((len(slots), len(block)), np.int8)
    for row, (answers, votes) in zip(A, slots, strict=True):
        row[:] = block.y * int(votes[0])
        if answers is not None:
            row *= answers.signs[block.codes(answers.feature)]
    room = min(len(block), MOST_PATTERNS)
    found = different_rows(A, np.arange(len(A)), block.weight, room)
    return None if found is None else Patterns(*found)


def merged(parts: Sequence[Patterns | None]) -> Patterns | None:
    """Return the patterns of several parts, by ascending key; None if they are too many."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    keys, inverse = np.unique(np.concatenate([part.keys for part in known]), return_inverse=True)
    if len(keys) > MOST_PATTERNS:
        return None
    weight = np.concatenate([part.weight for part in known])
    return Patterns(keys, np.bincount(inverse, weight, minlength=len(keys)))
