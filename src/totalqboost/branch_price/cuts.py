"""Cuts: all stumps of the data, in the form that the kernels and the master problem want."""

from __future__ import annotations

import numpy as np

from totalqboost.dictionaries.stumps import StumpOracle
from totalqboost.kernels.cells import cell_risk
from totalqboost.learners import Constant, Learner, Stump

__all__ = ["Cuts"]


class Cuts:
    """The cuts of all features in one numbering, and the examples that they divide.

    Attributes
    ----------
    rank : array of shape (n_features, n_examples)
        Rank of the example's value; cut t of a feature has the ranks 0..t on its left. Equal
        examples are one example with a weight for each class.
    order : array of the same shape
        Sorts the examples by each feature.
    plus, minus : arrays of shape (n_examples,)
        Weight of the two classes.
    offsets : array of shape (n_features + 1,)
        Number of the first cut of each feature; the last entry counts all cuts.
    later : list of arrays
        later[j]: the cells that the cuts from j on make together.
    """

    def __init__(self, oracle: StumpOracle, weight: np.ndarray):
        codes = np.stack([oracle.codes(f) for f in range(len(oracle.thresholds))])
        rows, place = np.unique(codes.T, axis=0, return_inverse=True)
        place = place.ravel()
        self.rank = np.ascontiguousarray(rows.T, dtype=np.int64)
        self.order = np.argsort(self.rank, axis=1, kind="stable")
        self.plus = np.bincount(place, weight * (oracle.y > 0), len(rows))
        self.minus = np.bincount(place, weight * (oracle.y < 0), len(rows))
        self.thresholds = oracle.thresholds
        sizes = [len(t) for t in self.thresholds]
        self.offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self._feature = np.repeat(np.arange(len(sizes)), sizes)
        self.later = self._later()

    def __len__(self) -> int:
        return int(self.offsets[-1])

    # -- cells ------------------------------------------------------------------------

    def one_cell(self) -> np.ndarray:
        """Return the cell of each example before any cut: one for all."""
        return np.zeros(len(self.plus), dtype=np.int64)

    def split(self, cell: np.ndarray, j: int) -> np.ndarray:
        """Return the cells after one more cut, numbered without gaps."""
        return _numbered(2 * cell + self._is_above(j))

    def bound(self, code: int, cell: np.ndarray, other: np.ndarray) -> float:
        """Return the cell bound of two partitions together, for the loss of this code."""
        both = _numbered(cell * (int(other.max()) + 1) + other)
        p, n = np.bincount(both, self.plus), np.bincount(both, self.minus)
        return sum(cell_risk(code, a, b) for a, b in zip(p.tolist(), n.tolist(), strict=True))

    def _is_above(self, j: int) -> np.ndarray:
        f = self._feature[j]
        return self.rank[f] > j - self.offsets[f]

    def _later(self) -> list[np.ndarray]:
        cells = [self.one_cell()]
        for j in range(len(self) - 1, -1, -1):
            cells.append(self.split(cells[-1], j))
        return cells[::-1]

    # -- columns ----------------------------------------------------------------------

    def columns(self) -> tuple[np.ndarray, np.ndarray]:
        """Return A and the weight of its rows: two per example, one for each class it has.

        Columns 2 j and 2 j + 1 are the two polarities of cut j; the constants come last.
        """
        sign = np.ones((len(self) + 1, len(self.plus)), dtype=np.int8)
        for j in range(len(self)):
            sign[j] = np.where(self._is_above(j), 1, -1)
        A = np.concatenate([sign[:, self.plus > 0], -sign[:, self.minus > 0]], axis=1)
        weight = np.concatenate([self.plus[self.plus > 0], self.minus[self.minus > 0]])
        return np.stack([A, -A], axis=1).reshape(-1, A.shape[1]), weight

    def learner(self, column: int) -> Learner:
        """Return the weak classifier of a column of A."""
        j, polarity = column // 2, 1 if column % 2 == 0 else -1
        if j == len(self):
            return Constant(polarity)
        f = int(self._feature[j])
        return Stump(f, float(self.thresholds[f][j - self.offsets[f]]), polarity)

    def number(self, stump: Stump) -> int:
        """Return the number of the cut that a stump of the dictionary makes."""
        position = np.searchsorted(self.thresholds[stump.feature], stump.threshold)
        return int(self.offsets[stump.feature] + position)


def _numbered(labels: np.ndarray) -> np.ndarray:
    """Return the labels as 0, 1, 2, ... without gaps."""
    return np.unique(labels, return_inverse=True)[1].ravel().astype(np.int64)
