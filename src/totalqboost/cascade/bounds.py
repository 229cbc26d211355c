"""How many positives a detector may miss on held-out rows so that its recall is sure.

Held-out positives are independent draws of the positives to come, and the detector was trained
without them. If a scalar T(x) orders what a family of detectors accepts (x is accepted at level t
iff T(x) >= t), then the (k+1)-th smallest T of n held-out positives is a level whose recall is at
least r with probability 1 - P(Bin(n, 1-r) <= k) or more, whatever the distribution and also with
ties (Wilks 1941). Tukey (1947, 1948) gives the same for several scores in turn: n points cut the
space into n + 1 blocks that hold the same share on average, a cut at the b-th smallest of the
points that are left gives away b of them, the next score may depend on earlier cuts, and the
recall counts all blocks that were given away.
"""

from __future__ import annotations

import numpy as np
from scipy.special import bdtr, betaincinv

__all__ = ["allowed_misses", "lower_bound", "positives_needed", "upper_bound"]


def allowed_misses(n: int, min_recall: float, confidence: float) -> int:
    """Return the largest k with P(Bin(n, 1 - min_recall) <= k) <= 1 - confidence, or -1.

    Examples
    --------
    >>> from totalqboost.cascade.bounds import allowed_misses
    >>> [allowed_misses(n, 0.95, 0.95) for n in (58, 59, 500, 2000)]
    [-1, 0, 16, 83]
    """
    risk, least, most = 1.0 - confidence, -1, n
    while least < most:  # the probability rises with k
        k = (least + most + 1) // 2
        least, most = (k, most) if bdtr(k, n, 1.0 - min_recall) <= risk else (least, k - 1)
    return least


def positives_needed(min_recall: float, confidence: float, n_cuts: int = 1) -> int:
    """Return the fewest held-out positives with which so many cuts can be sure of the recall.

    Examples
    --------
    >>> from totalqboost.cascade.bounds import positives_needed
    >>> [positives_needed(recall, 0.95) for recall in (0.9, 0.95, 0.99)]
    [29, 59, 299]
    >>> positives_needed(0.95, 0.95, n_cuts=4)
    153
    """
    enough = n_cuts
    while allowed_misses(enough, min_recall, confidence) < n_cuts - 1:
        enough *= 2
    low, high = 0, enough
    while low + 1 < high:
        middle = (low + high) // 2
        is_enough = allowed_misses(middle, min_recall, confidence) >= n_cuts - 1
        low, high = (low, middle) if is_enough else (middle, high)
    return high


def lower_bound(n_hits: int, n: int, confidence: float) -> float:
    """Return Clopper and Pearson's (1934) one-sided lower bound of a share of which n were seen.

    Examples
    --------
    >>> from totalqboost.cascade.bounds import lower_bound
    >>> round(lower_bound(59, 59, 0.95), 3)
    0.95
    """
    return float(betaincinv(n_hits, n - n_hits + 1, 1.0 - confidence)) if n_hits else 0.0


def upper_bound(n_hits: int, n: int, confidence: float) -> float:
    """Return the one-sided upper bound."""
    return 1.0 - lower_bound(n - n_hits, n, confidence) if n else float(np.nan)
