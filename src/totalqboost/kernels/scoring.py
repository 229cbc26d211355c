"""Scores of a batch of examples under an ensemble of stumps."""

from __future__ import annotations

from totalqboost.kernels.jit import kernel


@kernel
def score_stumps(X, features, thresholds, values, intercept, out):
    """Write the intercept plus values_k where X[i, features_k] > thresholds_k, minus it else."""
    for i in range(X.shape[0]):
        total = intercept
        for k in range(features.shape[0]):
            if X[i, features[k]] > thresholds[k]:
                total += values[k]
            else:
                total -= values[k]
        out[i] = total
