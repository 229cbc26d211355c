"""Continuous weights on a fixed support: lines 12-13 of Algorithm 1.

minimise  sum_i c_i l(z_i) + sum_j nu_j w_j   over w_j >= 0, w_j = 0 outside the support
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from totalqboost.kernels.loss_codes import CUSTOM
from totalqboost.kernels.newton import correlate, margins, merge_rows, newton_refit
from totalqboost.master import MasterProblem

__all__ = ["GrowingRefit", "refit", "refit_lbfgsb", "refit_value"]

MERGE_FROM = 100_000  # rows: merging equal ones takes as long as a step or two
MERGE_SHARE = 4  # so many times fewer must be left
MOST_BITS = 64  # of a pattern


def refit(
    problem: MasterProblem,
    support: np.ndarray,
    start: np.ndarray | None = None,
    tol: float = 5e-4,
    max_iter: int = 200,
) -> np.ndarray:
    """Return the weights (zero outside the support) that minimise the l1-regularised risk.

    Parameters
    ----------
    problem : MasterProblem
        Its ``lam`` plays no part here: the support is given.
    support : array of int
        Columns that may have a positive weight.
    start : array of shape (n_columns,), optional
        Warm start; zero by default.
    tol : float
        Largest violation of the optimality conditions that is accepted: abs(nu - s_j) where
        w_j > 0 and s_j - nu where w_j = 0. The paper's epsilon is that of a sum over m rows, m
        times as much.
    max_iter : int
        Limit on Newton steps.

    Examples
    --------
    >>> import numpy as np
    >>> from totalqboost import MasterProblem
    >>> A = np.where(np.random.default_rng(0).random((6, 40)) < 0.6, 1, -1)
    >>> problem = MasterProblem(A, nu=1e-3, lam=0.01)
    >>> from totalqboost.refit import refit
    >>> w = refit(problem, np.arange(6))
    >>> problem.objective(w) < problem.objective(np.zeros(6)) and bool((w >= 0).all())
    True
    """
    return refit_value(problem, support, start, tol, max_iter)[0]


def refit_value(
    problem: MasterProblem,
    support: np.ndarray,
    start: np.ndarray | None = None,
    tol: float = 5e-4,
    max_iter: int = 200,
    hessian: np.ndarray | None = None,
    target: float = np.inf,
    known: bool = True,
) -> tuple[np.ndarray, float]:
    """Return the refitted weights and their l1-regularised risk; for inner loops.

    ``hessian`` is overwritten with the last Hessian on the support; if ``known``, it
    already holds a nearby one, which saves the first. ``target`` gives up early, with the
    weights reached, when that value is clearly out of reach.
    """
    support = np.asarray(support, dtype=np.intp)
    start = np.zeros(problem.n_columns) if start is None else np.asarray(start, dtype=float)
    if problem.loss.code == CUSTOM:
        return refit_lbfgsb(problem, support, start, tol)
    support, sign = _single_intercepts(problem, support)
    x = start[support] - np.where(sign >= 0, start[sign], 0.0)
    least = np.where(sign >= 0, -np.inf, 0.0)
    scratch = np.empty((len(x), len(x))) if hessian is None else hessian
    nu, code = problem.nus[support] * (sign < 0), problem.loss.code

    def newton(has_hessian: bool) -> tuple[float, float]:
        """Move x by Newton steps; return its value and the violation that remains."""
        value, remaining, _ = newton_refit(
            A, columns, x, least, c, nu, code, tol, max_iter, scratch, has_hessian, target
        )
        return value, remaining

    A, columns, c = problem.A, support, problem.sample_weight
    merged = _merged(problem, support)
    if merged is not None:
        A, c = merged
        columns = np.arange(len(support))
    value, remaining = newton(known and hessian is not None)
    # Newton can stall where the curvature jumps (the smoothed hinge): L-BFGS-B takes over,
    # and Newton finishes.
    for _ in range(4):
        if remaining <= max(tol, 1e-7) or value > target:
            break
        w = refit_lbfgsb(problem, _both(support, sign), _spread(problem, support, sign, x), tol)[0]
        x = w[support] - np.where(sign >= 0, w[sign], 0.0)
        value, remaining = newton(False)
    w = _spread(problem, support, sign, x)
    return w, value + float(problem.nus[support] @ (np.abs(x) * (sign >= 0)))


def _merged(problem: MasterProblem, support: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the columns of the support over rows whose equals are merged, and their weights.

    None where rows are few, or few are equal.
    """
    m, k = problem.n_rows, len(support)
    if m < MERGE_FROM or not 0 < k <= MOST_BITS:
        return None
    room = min(m // MERGE_SHARE, 2**k)
    found = different_rows(problem.A, support, problem.sample_weight, room)
    return None if found is None else (columns_of(found[0], k), found[1])


def different_rows(
    A: np.ndarray, support: np.ndarray, weight: np.ndarray, room: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the different rows of some columns as keys, and what those like each weigh.

    Bit t of a key is set where column t of the support is +1. None if there are more than room.
    """
    keys, weights = np.empty(room, np.uint64), np.empty(room)
    slots = np.full(2 ** int(np.ceil(np.log2(max(2, 2 * room)))), -1, np.int32)
    n = merge_rows(A, support, weight, keys, weights, slots)
    return None if n < 0 else (keys[:n].copy(), weights[:n].copy())


def columns_of(keys: np.ndarray, k: int) -> np.ndarray:
    """Return the k columns whose rows are keys, as signs."""
    bits = keys >> np.arange(k, dtype=np.uint64)[:, None] & np.uint64(1)
    signs: np.ndarray = 2 * bits.astype(np.int8) - 1
    return signs


def _single_intercepts(
    problem: MasterProblem, support: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the support with one column of each intercept, and per column its opposite or -1.

    An intercept is two columns of opposite signs, and their Hessian is singular: Newton steps
    need one column with a weight of either sign.
    """
    pairs = problem.intercepts
    opposite = np.full(len(support), -1, dtype=np.intp)
    if not len(pairs):
        return support, opposite
    pairs = pairs[np.isin(pairs, support).all(axis=1)]
    keep = ~np.isin(support, pairs[:, 1])
    support, opposite = support[keep], opposite[keep]
    for one, other in pairs:
        opposite[support == one] = other
    return support, opposite


def _both(support: np.ndarray, opposite: np.ndarray) -> np.ndarray:
    return np.concatenate([support, opposite[opposite >= 0]])


def _spread(
    problem: MasterProblem, support: np.ndarray, opposite: np.ndarray, x: np.ndarray
) -> np.ndarray:
    """Return weights >= 0 of all columns; a negative one goes to the opposite column."""
    w = np.zeros(problem.n_columns)
    w[support] = np.where(opposite >= 0, np.maximum(x, 0.0), x)
    is_signed = opposite >= 0
    w[opposite[is_signed]] = np.maximum(-x[is_signed], 0.0)
    return w


class GrowingRefit:
    """Refits over all columns of a problem that grows by one column a time.

    The Hessian of the last refit, scaled to the present risk and extended by one row, is
    a good enough start for the next one: it costs one pass over the data instead of one
    per column.
    """

    def __init__(self, tol: float):
        self.tol = tol
        self._hessian = np.empty((0, 0))

    def __call__(self, problem: MasterProblem, start: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the weights of all columns that minimise the l1-regularised risk, and that."""
        every = np.arange(problem.n_columns)
        if problem.loss.code == CUSTOM:
            return refit_value(problem, every, start, self.tol)
        columns, _ = _single_intercepts(problem, every)
        n = len(columns)
        known = len(self._hessian) == n - 1 > 0 and self._hessian[0, 0] > 0
        self._hessian = self._extend(problem, columns, start) if known else np.zeros((n, n))
        return refit_value(problem, every, start, self.tol, 200, self._hessian, known=known)

    def _extend(self, problem: MasterProblem, columns: np.ndarray, w: np.ndarray) -> np.ndarray:
        n = len(columns)
        _, q = problem.weights_and_curvature(w)
        H = np.empty((n, n))
        H[-1] = problem.edges(q * problem.A[-1])[columns]
        H[:-1, -1] = H[-1, :-1]
        H[:-1, :-1] = self._hessian * (q.sum() / max(self._hessian[0, 0], 1e-300))
        H[-1, -1] *= 1.0 + 1e-7
        return H


def refit_lbfgsb(
    problem: MasterProblem,
    support: np.ndarray,
    start: np.ndarray | None = None,
    tol: float = 5e-4,
) -> tuple[np.ndarray, float]:
    """Do the same by scipy's L-BFGS-B, the paper's choice and our reference."""
    support = np.asarray(support, dtype=np.intp)
    w = np.zeros(problem.n_columns)
    if len(support) == 0:
        return w, problem.risk(w)
    c, nu, loss = problem.sample_weight, problem.nus[support], problem.loss
    z, s = np.empty(problem.n_rows), np.empty(len(support))

    def value_and_gradient(x: np.ndarray) -> tuple[float, np.ndarray]:
        margins(problem.A, support, x, z)
        correlate(problem.A, support, c * loss.weight(z), s)
        return float(c @ loss.value(z) + nu @ x), nu - s

    x = np.zeros(len(support)) if start is None else np.array(start, dtype=float)[support]
    result = minimize(
        value_and_gradient,
        x,
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * len(x),
        options={"gtol": tol, "ftol": 1e-15, "maxiter": 5000, "maxfun": 10000},
    )
    w[support] = result.x
    return w, float(result.fun)
