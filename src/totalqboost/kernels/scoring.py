"""Scores of a batch of examples under an ensemble.

Cuts come in two blocks: the first ``n_below`` count a missing value as below the threshold, the
others as above. Any comparison with NaN is false, so that ``x > t`` does the one and
``not x <= t`` the other, and nothing has to be asked of numbers that are there.
"""

from __future__ import annotations

import numpy as np

from totalqboost.kernels.jit import kernel


@kernel
def infinite_column(X, columns):
    """Return the first of the columns that has an infinity in the first row that has one, or -1."""
    for i in range(X.shape[0]):
        for j in columns:
            if np.abs(X[i, j]) == np.inf:
                return j
    return -1


@kernel
def score_stumps(X, features, thresholds, values, n_below, intercept, out):
    """Write the intercept plus values_k where X[i, features_k] > thresholds_k, minus it else."""
    for i in range(X.shape[0]):
        total = intercept
        for k in range(n_below):
            if X[i, features[k]] > thresholds[k]:
                total += values[k]
            else:
                total -= values[k]
        for k in range(n_below, features.shape[0]):
            if X[i, features[k]] <= thresholds[k]:
                total -= values[k]
            else:
                total += values[k]
        out[i] = total


@kernel
def score_stumps_of_classes(X, features, thresholds, values, n_below, intercept, out):
    """Do the same for K classes: values (n_stumps, K), intercept (K,), out (n_rows, K)."""
    for i in range(X.shape[0]):
        for c in range(out.shape[1]):
            out[i, c] = intercept[c]
        for k in range(features.shape[0]):
            x = X[i, features[k]]
            is_above = x > thresholds[k] if k < n_below else not x <= thresholds[k]
            if is_above:
                for c in range(out.shape[1]):
                    out[i, c] += values[k, c]
            else:
                for c in range(out.shape[1]):
                    out[i, c] -= values[k, c]


@kernel
def add_category_sets(X, features, starts, is_inside, values, out):
    """Add values_k to row i of out where the category of X[i, features_k] is in set k, else minus.

    ``is_inside[starts[k] + c]`` says it of category c; categories beyond ``starts[k + 1]`` and
    negative ones are in no set.
    """
    for i in range(X.shape[0]):
        for k in range(features.shape[0]):
            place = starts[k] + X[i, features[k]]  # NaN compares false below
            is_known = place >= starts[k] and place < starts[k + 1]
            if is_known and is_inside[int(place)]:
                for c in range(out.shape[1]):
                    out[i, c] += values[k, c]
            else:
                for c in range(out.shape[1]):
                    out[i, c] -= values[k, c]
