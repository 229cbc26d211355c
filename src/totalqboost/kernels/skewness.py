"""Third moments of whitened columns, their skewest direction, the matrix that bounds it."""

from __future__ import annotations

import math

import numpy as np

from totalqboost.kernels.definite import exact_gram, factor, invert_factor
from totalqboost.kernels.jit import kernel

BLOCK = 256  # examples whose products are summed in single precision
TINY = 1e-30  # weights that count as none: far below the slack of any sum


@kernel
def whiten(A, columns, u, mean, least, G, inverse, W):
    """Write second moments G under weights u, the inverse of the Cholesky factor of the
    covariance, and the columns whitened by it; False if an eigenvalue is below ``least``.
    """
    k, m = W.shape
    exact_gram(A, columns, u, G)
    covariance, L = np.empty((k, k)), np.empty((k, k))
    for a in range(k):
        for b in range(k):
            covariance[a, b] = G[a, b] - mean[a] * mean[b]
    none = np.zeros(k)
    if not factor(covariance, none + least, L) or not factor(covariance, none, L):
        return False
    invert_factor(L, inverse)
    inverse[:] = inverse.T.copy()
    block, part = np.empty((k, BLOCK)), np.empty((k, BLOCK))
    for first in range(0, m, BLOCK):
        size = min(BLOCK, m - first)
        for a in range(k):
            for i in range(size):
                block[a, i] = A[columns[a], first + i] - mean[a]
            for i in range(size, BLOCK):
                block[a, i] = 0.0
        np.dot(inverse, block, part)
        W[:, first : first + size] = part[:, :size]
    return True


@kernel
def third_moments(W, u, T):
    """Write T_abc = sum_i u_i W_ai W_bi W_ci; return how far T x x x may be off for unit x.

    Blocks are summed in single precision, and their sums in double: an entry is off by at
    most (BLOCK + 8) 2^-24 sum_i |u_i W_ai W_bi W_ci|, and |W_i|^3 is the largest value of
    (sum_a |W_ai x_a|)^3 over unit x.
    """
    k, m = W.shape
    n_pairs = k * (k + 1) // 2
    block, weighted = np.zeros((k, BLOCK), np.float32), np.zeros((k, BLOCK), np.float32)
    products, part = np.zeros((n_pairs, BLOCK), np.float32), np.empty((n_pairs, k), np.float32)
    T[:] = 0.0
    cubes = 0.0
    for first in range(0, m, BLOCK):
        size = min(BLOCK, m - first)
        for i in range(size):
            squares = 0.0
            # Weights below float32's normal range would cost many times the time.
            weight = np.float32(u[first + i] if u[first + i] > TINY else 0.0)
            for a in range(k):
                at = W[a, first + i]
                squares += at * at
                block[a, i] = at
                weighted[a, i] = weight * block[a, i]
            cubes += u[first + i] * squares * math.sqrt(squares)
        for a in range(k):
            for i in range(size, BLOCK):
                weighted[a, i] = 0.0
        row = 0
        for a in range(k):
            for b in range(a, k):
                for i in range(BLOCK):
                    products[row, i] = block[a, i] * block[b, i]
                row += 1
        np.dot(products, weighted.T, part)
        row = 0
        for a in range(k):
            for b in range(a, k):
                for c in range(k):
                    T[a, b, c] += part[row, c]
                row += 1
    for a in range(k):
        for b in range(a):
            T[a, b] = T[b, a]
    return (BLOCK + 8) * 2.0**-24 * 1.01 * cubes


@kernel
def skewest(T, x, n_steps):
    """Climb from x, in place, to a direction of large sum_abc T_abc x_a x_b x_c; return that.

    The power method for a symmetric tensor: x becomes T x x, at length one.
    """
    k = x.shape[0]
    y = np.empty(k)
    value = 0.0
    for _ in range(n_steps):
        for a in range(k):
            total = 0.0
            for b in range(k):
                inner = 0.0
                for c in range(k):
                    inner += T[a, b, c] * x[c]
                total += inner * x[b]
            y[a] = total
        value = 0.0
        length = 0.0
        for a in range(k):
            value += y[a] * x[a]
            length += y[a] * y[a]
        length = math.sqrt(length)
        if length < 1e-300:
            return 0.0
        for a in range(k):
            x[a] = y[a] / length
    return abs(value)


@kernel
def pair_form(S, place, shift, out):
    """Write the matrix over pairs i <= j of the quartic form sum_a (x' T_a x)^2, made symmetric.

    S holds sum_a T_aij T_akl at (place_ij, place_kl). An entry of ``out`` is the mean over
    the three ways to split i, j, k, l into two pairs, times sqrt(2) for each pair of
    different indices, less ``shift`` times that of (sum_i x_i^2)^2.
    """
    k = place.shape[0]
    for i in range(k):
        for j in range(i, k):
            row = place[i, j]
            left = 1.0 if i == j else math.sqrt(2.0)
            for a in range(k):
                for b in range(a, k):
                    column = place[a, b]
                    if column > row:
                        continue
                    total = S[row, column] + S[place[i, a], place[j, b]]
                    total += S[place[i, b], place[j, a]]
                    total *= left * (1.0 if a == b else math.sqrt(2.0)) / 3.0
                    if i == j and a == b:
                        total -= shift
                    out[row, column] = total
                    out[column, row] = total
