"""Quantiles of features whose rows are in many places: summaries that merge.

A summary holds values with the number of rows up to each: all values while they are few, else those
at evenly spaced ranks. Ranks in a merged summary are off by no larger a share of the rows than in
its parts; every thinning adds at most one part in ``size``. Nothing is random: the same parts in
the same order give the same cuts. (Mergeable summaries: Agarwal et al., 2012; the rule is that of
Munro and Paterson, 1980.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from totalqboost.dictionaries.stumps import midway, quantile_places

__all__ = ["Summary"]


@dataclass(frozen=True, eq=False)
class Summary:
    """Values, ascending, how many rows each stands for, and how many values there may be.

    Examples
    --------
    >>> import numpy as np
    >>> one = Summary.of(np.array([3.0, 1.0, 1.0]), 100)
    >>> both = one.merged(Summary.of(np.array([2.0, np.nan]), 100))
    >>> both.values.tolist(), both.counts.tolist(), both.cuts(256).tolist()
    ([1.0, 2.0, 3.0], [2, 1, 1], [1.5, 2.5])
    """

    values: np.ndarray
    counts: np.ndarray
    size: int

    @classmethod
    def of(cls, x: np.ndarray, size: int) -> Summary:
        """Return that of some rows; what is missing does not count."""
        values, counts = np.unique(x[~np.isnan(x)], return_counts=True)
        own = cls(values, counts, size).thinned()
        return cls(own.values, own.counts.astype(np.int32), size)  # columns may be many

    def merged(self, other: Summary) -> Summary:
        """Return that of the rows of both, all values of both; thin it when all are merged."""
        values = np.concatenate([self.values, other.values])
        values, place = np.unique(values, return_inverse=True)
        counts = np.bincount(place, np.concatenate([self.counts, other.counts]), len(values))
        return Summary(values, counts.astype(np.int64), self.size)

    def thinned(self) -> Summary:
        """Return at most ``size`` of the values, the largest among them."""
        if len(self.values) <= self.size:
            return self
        upto = np.cumsum(self.counts)
        wanted = np.arange(1, self.size + 1) * (upto[-1] / self.size)
        kept = np.unique(np.minimum(np.searchsorted(upto, wanted), len(upto) - 1))
        return Summary(self.values[kept], np.diff(upto[kept], prepend=0), self.size)

    def cuts(self, max_bins: int) -> np.ndarray:
        """Return at most ``max_bins`` - 1 thresholds; of all values the same as in memory."""
        upto, values = np.cumsum(self.counts), self.values.astype(float)
        if len(upto) < 2:
            return np.zeros(0)
        places = quantile_places(upto[:-1] - 1, int(upto[-1]), max_bins)
        return midway(values[:-1][places], values[1:][places])
