"""How skew the margins are in any direction, at most: a bound of the exponential loss anywhere.

Let X = a'd be the change of a margin under the weights u / f of the examples. With kappa the
largest skewness of X over all directions d, `totalqboost.kernels.shells` has the growth of the
risk that follows. It also follows, with q(x) = (exp(-x) - 1 + x) / x^2, which is convex and falls,
by Jensen's inequality under the weights u X^2,

    sum_i u_i (exp(-X_i) - 1 + X_i) = f E[X^2 q(X)] >= f E[X^2] q(E[X^3] / E[X^2]).

kappa^2 is the largest value of sum_a (x' T_a x)^2 over unit x, T the third moments of the
whitened columns. As a quadratic form in y = (x_i x_j) that is at most the largest eigenvalue
of its matrix, of which many represent the same form: the one that is symmetric in all four
indices, less mu times (sum_i x_i^2)^2 = 1, comes close.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.linalg import lapack

from totalqboost.kernels.skewness import pair_form, skewest, third_moments

__all__ = ["MAX_COLUMNS", "largest_skewness"]

MAX_COLUMNS = 64  # third moments take the cube of this per example
PAIRED = 40  # largest ratio of the cube of columns to examples at which pairs are affordable
CLOSE = 1.5  # ratio of two squared skewnesses that is not worth the matrix over pairs
SHIFT = 0.1  # mu, in units of the square of the skewness that a climb finds
GUESSES = (1.3, 1.8)  # of the eigenvalue, in the same unit
N_CLIMB = 30


def cholesky(S: np.ndarray) -> np.ndarray | None:
    """Return the lower Cholesky factor, or None if S is not definite."""
    L, info = lapack.dpotrf(S, lower=1)
    return L if info == 0 else None


def largest_skewness(W: np.ndarray, u: np.ndarray) -> float:
    """Return an upper bound of kappa for whitened columns W (sum_i u_i W_i W_i' = 1, sum u = 1).

    The norm of T as a matrix, where that is not far above the skewest direction that a climb
    finds, or where more is not affordable. Else the eigenvalue is guessed from that direction
    and proven by a Cholesky factor.
    """
    T = np.empty((len(W), len(W), len(W)))
    error = third_moments(W, u, T)
    flat = T.reshape(len(W), -1)
    if not np.isfinite(flat).all():
        return math.inf
    if len(W) ** 3 > PAIRED * len(u):
        best = float(np.linalg.eigvalsh(flat @ flat.T)[-1])
    else:
        norms, directions = np.linalg.eigh(flat @ flat.T)
        found = float(skewest(T, directions[:, -1].copy(), N_CLIMB)) ** 2
        best = float(norms[-1])
        if best > CLOSE * found:
            best = min(best, _largest_form(T, found))
    return math.sqrt(max(best, 0.0)) * (1.0 + 1e-6) + 1e-6 + error


def _largest_form(T: np.ndarray, found: float) -> float:
    """Return a bound of sum_a (x' T_a x)^2 over unit x, given a value that is reached."""
    place, first, second = _pairs(len(T))
    V = T[:, first, second]
    matrix = np.empty((len(first), len(first)))
    shift = SHIFT * found
    pair_form(V.T @ V, place, shift, matrix)
    for factor in GUESSES:
        limit = factor * found + 1e-9
        if cholesky((limit - shift) * np.eye(len(matrix)) - matrix) is not None:
            return limit
    return math.inf


@lru_cache(maxsize=64)
def _pairs(k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the place of each pair in the list of pairs i <= j, and that list."""
    first, second = np.triu_indices(k)
    place = np.empty((k, k), dtype=np.int64)
    place[first, second] = place[second, first] = np.arange(len(first))
    return place, first, second
