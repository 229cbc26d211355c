"""Definite matrices of the exact solver: factors, Gram matrices, diagonals below them."""

from __future__ import annotations

import math

import numpy as np

from totalqboost.kernels.jit import kernel
from totalqboost.kernels.newton import solve_spd

EPS = float(np.finfo(np.float64).eps)
ROWS_AT_ONCE = 256  # they stay in cache
SHRINK, MAX_SHRINKS = 0.95, 40
RIDGE = 1e-9  # of the trace: keeps the inverse accurate to about 1e-6
LEAST_PIVOT = 1e-4  # in the diagonal of a Cholesky factor that needs no ridge, of the largest


@kernel
def is_number(x):
    """Tell whether x is finite; ``math.isfinite`` is x - x == 0, which reassociation breaks."""
    return -np.inf < x < np.inf


@kernel
def factor(Q, d, L):
    """Write the lower Cholesky factor of Q - diag(d) into L; tell whether it is definite."""
    k = Q.shape[0]
    for a in range(k):
        for b in range(a):
            total = Q[a, b]
            for t in range(b):
                total -= L[a, t] * L[b, t]
            L[a, b] = total / L[b, b]
        total = Q[a, a] - d[a]
        for t in range(a):
            total -= L[a, t] * L[a, t]
        if not total > 0.0:
            return False
        L[a, a] = math.sqrt(total)
    return True


@kernel
def is_well_factored(E, L):
    """Write the Cholesky factor of E; tell whether there is one with a tame diagonal."""
    if not factor(E, np.zeros(E.shape[0]), L):
        return False
    least, largest = np.inf, 0.0
    for a in range(E.shape[0]):
        least, largest = min(least, L[a, a]), max(largest, L[a, a])
    return least >= LEAST_PIVOT * largest


@kernel
def invert_factor(L, R):
    """Write the transpose of the inverse of a lower factor: row b of R is column b of 1 / L."""
    k = L.shape[0]
    inverse = np.zeros((k, k))
    for a in range(k):  # whole rows at a time, from those above
        scale = 1.0 / L[a, a]
        for t in range(a):
            share = L[a, t] * scale
            for b in range(t + 1):
                inverse[a, b] -= share * inverse[t, b]
        inverse[a, a] = scale
    R[:] = inverse.T


@kernel
def exact_gram(A, columns, q, Q):
    """Write Q_ab = sum_i q_i A[columns_a, i] A[columns_b, i] for q >= 0, in double precision.

    Bounds rest on this one; `newton.gram` is faster and in single precision.
    """
    Q[:] = 0.0
    for first in range(0, A.shape[1], ROWS_AT_ONCE):
        part = slice(first, first + ROWS_AT_ONCE)
        half = A[:, part][columns] * np.sqrt(q[part])
        Q += np.dot(half, half.T)


@kernel
def rounding(Q, n_rows):
    """Return a bound of the spectral norm of all rounding in Q and in its Cholesky factor.

    An entry of Q is a float64 sum of n_rows terms, off by at most n_rows eps Q_jj, so the
    matrix is off by at most n_rows eps trace(Q); the factor adds about len(Q) eps trace(Q)
    (Higham, "Accuracy and stability of numerical algorithms", theorem 10.3).
    """
    return 4.0 * (n_rows + 2 * Q.shape[0] + 10) * EPS * np.trace(Q)


@kernel
def certify_diagonal(Q, d, n_rows):
    """Return d, shrunk until Q - diag(d) is proven semidefinite, less the rounding, and whether.

    Entries may come out slightly negative, which is harmless. Zeros if nothing is proven.
    """
    slack = rounding(Q, n_rows)
    d = d.copy()
    L = np.empty_like(Q)
    for _ in range(MAX_SHRINKS):
        if factor(Q, d - slack, L):
            return d - 2.0 * slack, True
        d *= SHRINK
    return np.zeros_like(d), False


@kernel
def barrier(L, weight, d, mu):
    """Return sum_j weight_j log d_j + mu logdet(L L')."""
    return (weight * np.log(d) + 2.0 * mu * np.log(np.diag(L))).sum()


@kernel
def choose_diagonal(Q, weight, d, n_steps):
    """Return a d > 0 that nearly maximises sum_j weight_j log d_j subject to diag(d) <= Q.

    Newton steps on sum_j weight_j log d_j + mu logdet(Q - diag(d)), from d, which must be
    inside. The result steers; `certify_diagonal` decides.
    """
    k = Q.shape[0]
    total = weight.sum()
    mu = 0.02 * total / k
    here, there = np.empty((k, k)), np.empty((k, k))
    if not factor(Q, d, here):
        return d
    best = barrier(here, weight, d, mu)
    scratch, V = np.empty((k, k)), np.empty((k, k))
    step, everyone = np.empty(k), np.arange(k)
    for _ in range(n_steps):
        invert_factor(here, scratch)
        np.dot(scratch, scratch.T, V)
        gradient = weight / d - mu * np.diag(V)
        V[:] = mu * V * V + np.diag(weight / d / d)
        if not solve_spd(V, everyone, k, gradient, step, scratch):
            break
        largest, rise = max((-step / d).max(), 0.9), np.dot(step, gradient)
        if not is_number(rise):
            break
        alpha, found = 0.9 / largest, False
        for _ in range(20):
            trial = d + alpha * step
            if factor(Q, trial, there):
                value = barrier(there, weight, trial, mu)
                if value >= best:
                    found = True
                    break
            alpha *= 0.5
        if not found:
            break
        d, best = trial, value
        here, there = there, here
        if rise < 1e-3 * total:
            break
    return d


@kernel
def least_eigenvalue(S, scale):
    """Return about the least eigenvalue of S, from below, or 0 where it is tiny or negative."""
    k = S.shape[0]
    L, d = np.empty((k, k)), np.empty(k)
    low, high = 0.0, scale
    for a in range(k):
        high = min(high, S[a, a])
    for _ in range(12):
        middle = 0.5 * (low + high)
        d[:] = middle
        if factor(S, d, L):
            low = middle
        else:
            high = middle
    return low
