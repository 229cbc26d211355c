"""Third moments of whitened columns, their skewest direction, the matrix that bounds it."""

from __future__ import annotations

import math

import numpy as np

from totalqboost.kernels.jit import kernel

BLOCK = 256  # examples whose products are summed in single precision
TINY = np.float32(1e-30)  # weights that count as none: far below the slack of any sum


@kernel
def pair_moments(W, u, out):
    """Write sum_i u_i W_ai W_bi W_ci at (pair a <= b, c), from W and u in single precision.

    Blocks are summed in single precision, and their sums in double: an entry is off by at
    most (BLOCK + 8) 2^-24 sum_i |u_i W_ai W_bi W_ci|.
    """
    k, m = W.shape
    block, weighted = np.zeros((k, BLOCK), np.float32), np.zeros((k, BLOCK), np.float32)
    products = np.zeros((out.shape[0], BLOCK), np.float32)
    part = np.empty(out.shape, np.float32)
    out[:] = 0.0
    for first in range(0, m, BLOCK):
        size = min(BLOCK, m - first)
        for a in range(k):
            for i in range(size):
                # Weights below float32's normal range would cost many times the time.
                weight = u[first + i] if u[first + i] > TINY else np.float32(0.0)
                block[a, i] = W[a, first + i]
                weighted[a, i] = weight * W[a, first + i]
            for i in range(size, BLOCK):
                weighted[a, i] = 0.0
        row = 0
        for a in range(k):
            for b in range(a, k):
                for i in range(BLOCK):
                    products[row, i] = block[a, i] * block[b, i]
                row += 1
        np.dot(products, weighted.T, part)
        for row in range(out.shape[0]):
            for c in range(k):
                out[row, c] += part[row, c]


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
