"""Upper limits of all weights of solutions that are better than the best known one.

For each column j the tangent at the minimum of F(w) - eta w_j gives an inequality

    g_j w_j <= budget + sum_{l != j} max(-g_l, 0) w_l,   g_j about eta

that holds for every such solution, whether or not the minimum was reached. A column that pays
nu has weight cutoff / nu at most, which is put in on the right side. Free columns (and all, if
nu = 0) have no such limit: their inequalities w <= b + E w are solved together. If x >= b + E x
with b, x > 0, then w <= x for every finite w >= 0 with w <= b + E w. (For r = max_j w_j / x_j,
attained at j: r x_j <= b_j + r (E x)_j <= b_j + r (x_j - b_j), so r <= 1.)

Of two opposite columns, such as the two signs of an intercept, an optimal solution uses one: where
one has a weight, the other has none.
"""

from __future__ import annotations

import numpy as np

from totalqboost.kernels.definite import EPS
from totalqboost.kernels.relaxation import relax
from totalqboost.refit import refit_value
from totalqboost.solvers.exact.model import Model

__all__ = ["weight_limits"]

N_PASSES = 2
N_STEPS = 6  # Newton steps per column: the inequality is valid after any number
N_UNBOUNDED = 60  # the same while limits are infinite: then small errors count for much


def weight_limits(model: Model, cutoff: float, multiplier: float) -> np.ndarray:
    """Return an upper limit of every weight over solutions with an objective below ``cutoff``.

    Under a limit of k columns, every solution satisfies F(w) + multiplier card(w) <=
    cutoff + multiplier k, so the multiplier acts as a price.
    """
    problem = model.problem
    n = problem.n_columns
    highest = np.divide(cutoff, problem.nus, out=np.full(n, np.inf), where=problem.nus > 0)
    hi = np.where(problem.cost > 0, highest, np.inf)  # what a free column pays limits nothing
    if model.top:
        hi = np.minimum(hi, model.top * model.step)
    price = model.price + multiplier * (problem.cost > 0)
    total = cutoff + multiplier * model.limit
    x = refit_value(problem, np.arange(n), tol=1e-8)[0]
    for i in range(N_PASSES):
        is_priced = (i > 0) & (hi > 0) & np.isfinite(hi)
        slope = np.divide(price, hi, out=np.zeros(n), where=is_priced)
        hi = np.minimum(hi, _tighten(model, hi, x, price, slope, total))
    return np.minimum(hi, highest) * (1.0 + 1e-9)


def _tighten(
    model: Model,
    hi: np.ndarray,
    x: np.ndarray,
    price: np.ndarray,
    slope: np.ndarray,
    total: float,
) -> np.ndarray:
    """Return limits from one inequality per column; ``slope`` is the price per unit of weight."""
    problem = model.problem
    n = len(x)
    rows = np.arange(n)
    _, q = problem.weights_and_curvature(x)
    B = problem.A.astype(float)
    H = (B * q) @ B.T
    V = np.linalg.inv(H + (1e-8 * q.sum() + 1e-12) * np.eye(n))
    spread = np.einsum("ja,ab,jb->j", model.units, V, model.units)
    value = problem.risk(x) + float((problem.nus + slope) @ x)
    b, E = np.full(n, np.inf), np.zeros((n, n))
    is_finite = np.isfinite(hi)
    for j in range(n):
        budget = total - price[j]
        linear = problem.nus + slope
        linear[j] = problem.nus[j]
        spare = max(budget - value, 1e-3 * abs(value) + 1e-9)
        tilt = np.sqrt(2.0 * spare / max(spread[j], 1e-12))
        tilted = linear - tilt * (rows == j)
        w, hessian, top = x.copy(), H.copy(), hi.copy()
        if model.opposite[j] >= 0:
            top[model.opposite[j]] = 0.0
        none, is_in = np.zeros(n), np.ones(n, dtype=bool)
        start = min(tilt * spread[j], 4.0)
        w[j] = min(w[j] + start, hi[j])
        relax(
            problem.A,
            rows,
            problem.sample_weight,
            problem.loss.code,
            tilted,
            none,
            none,
            top,
            none,
            is_in,
            w,
            value + spare,
            0.02 if is_finite[j] else 1e-9,
            N_STEPS if is_finite[j] else N_UNBOUNDED,
            hessian,
            True,
        )
        constant, g = _inequality(model, w, linear)
        if np.isfinite(constant) and np.isfinite(g).all() and g[j] > 1e-12:
            b[j] = max(budget - constant, 0.0) / g[j]
            E[j] = np.maximum(-g, 0.0) / g[j]
            E[j, j] = 0.0
            if model.opposite[j] >= 0:
                E[j, model.opposite[j]] = 0.0
    return _solve(b, E, hi)


def _inequality(model: Model, w: np.ndarray, linear: np.ndarray) -> tuple[float, np.ndarray]:
    """Return a constant and g, rounded down, with F(v) >= constant + g' v for all v >= 0."""
    problem = model.problem
    z = problem.margins(w)
    u = problem.sample_weight * problem.loss.weight(z)
    with np.errstate(over="ignore"):  # a step that went wild proves nothing
        weight = float(np.abs(u).sum())
    unit = 4.0 * (problem.n_rows + 2 * len(w) + 16) * EPS
    risk = float(problem.sample_weight @ problem.loss.value(z))
    product = float(u @ z)
    constant = risk + product - unit * (risk + float(np.abs(u) @ np.abs(z)))
    return constant, linear - problem.edges(u) - unit * (weight + np.abs(linear))


def _solve(b: np.ndarray, E: np.ndarray, hi: np.ndarray) -> np.ndarray:
    """Return limits that satisfy w <= b + E w, as tight as the known ones allow."""
    is_open = ~np.isfinite(hi)
    if is_open.any():
        rest = b[is_open] + E[np.ix_(is_open, ~is_open)] @ hi[~is_open]
        hi = hi.copy()
        hi[is_open] = _solve_together(rest, E[np.ix_(is_open, is_open)])
    if np.isfinite(hi).all():
        for _ in range(3):
            hi = np.minimum(hi, b + E @ hi)
    return hi


def _solve_together(b: np.ndarray, E: np.ndarray) -> np.ndarray:
    """Return an x that is proven to be above every w >= 0 with w <= b + E w, or infinities."""
    nothing = np.full(len(b), np.inf)
    if not np.isfinite(b).all():
        return nothing
    b = np.maximum(b, 1e-6)  # room for rounding in the proof below
    try:
        x = np.linalg.solve(np.eye(len(b)) - E, 1.001 * b + 1e-6 * b.max())
    except np.linalg.LinAlgError:
        return nothing
    is_proven = (x > 0).all() and (x >= (b + E @ x) * (1.0 + 1e-12)).all()
    return x if is_proven else nothing
