"""A diagonal below a Gram matrix: D with D <= Q in the order of definite matrices.

The curvature D can be moved from the risk into the penalties of the columns, one by one,
where it makes the price of a fractional column nearly right.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

__all__ = ["certify_diagonal", "cholesky", "choose_diagonal", "rounding"]

EPS = float(np.finfo(float).eps)
SHRINK = 0.95
MAX_TRIES = 40


def cholesky(S: np.ndarray) -> np.ndarray | None:
    """Return the lower Cholesky factor, or None if S is not definite."""
    L, info = lapack.dpotrf(S, lower=1)
    return L if info == 0 else None


def rounding(Q: np.ndarray, n_rows: int) -> float:
    """Return a bound of the spectral norm of all rounding in Q and in its Cholesky factor.

    An entry of Q is a float64 sum of n_rows terms, off by at most n_rows eps Q_jj, so the
    matrix is off by at most n_rows eps trace(Q); the factor adds about len(Q) eps trace(Q)
    (Higham, "Accuracy and stability of numerical algorithms", theorem 10.3).
    """
    return 4.0 * (n_rows + 2 * len(Q) + 10) * EPS * float(np.trace(Q))


def certify_diagonal(Q: np.ndarray, d: np.ndarray, n_rows: int) -> np.ndarray | None:
    """Return d, shrunk until Q - diag(d) is proven semidefinite, less the rounding.

    Entries may come out slightly negative, which is harmless. None if nothing is proven.
    """
    slack = rounding(Q, n_rows)
    d = np.array(d)
    for _ in range(MAX_TRIES):
        if _factor(Q, d - slack) is not None:
            return d - 2.0 * slack
        d *= SHRINK
    return None


def choose_diagonal(Q: np.ndarray, weight: np.ndarray, d: np.ndarray, n_steps: int) -> np.ndarray:
    """Return a d > 0 that nearly maximises sum_j weight_j log d_j subject to diag(d) <= Q.

    Newton steps on sum_j weight_j log d_j + mu logdet(Q - diag(d)), from d, which must be
    inside. The result steers; `certify_diagonal` decides.
    """
    mu = 0.02 * weight.sum() / len(Q)
    here = _factor(Q, d)
    if here is None:
        return d
    best = _barrier(here, weight, d, mu)
    diagonal = np.diag_indices(len(d))
    for _ in range(n_steps):
        lower, info = lapack.dpotri(here, lower=1)  # only the lower triangle is written
        if info != 0 or not np.isfinite(lower).all():
            break
        with np.errstate(over="ignore"):  # a step that is not finite ends this
            hessian = mu * lower * lower
            gradient = weight / d - mu * lower[diagonal]
            hessian[diagonal] += weight / d**2
        _, step, info = lapack.dposv(hessian, gradient, lower=1)
        if info != 0 or not np.isfinite(step).all():
            break
        alpha = min(1.0, 0.9 / max(float(np.max(-step / d)), 0.9))
        for _ in range(20):
            there = _factor(Q, d + alpha * step)
            value = -np.inf if there is None else _barrier(there, weight, d + alpha * step, mu)
            if value >= best:
                break
            alpha *= 0.5
        else:
            break
        d, best, here = d + alpha * step, value, there
        if step @ gradient < 1e-3 * weight.sum():
            break
    return d


def _factor(Q: np.ndarray, d: np.ndarray) -> np.ndarray | None:
    """Return the Cholesky factor of Q - diag(d), if there is one."""
    S = np.array(Q, order="F")
    S.ravel(order="K")[:: len(d) + 1] -= d
    return cholesky(S)


def _barrier(L: np.ndarray, weight: np.ndarray, d: np.ndarray, mu: float) -> float:
    return float(weight @ np.log(d) + 2.0 * mu * np.log(L.diagonal()).sum())
