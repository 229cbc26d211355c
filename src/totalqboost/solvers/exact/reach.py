"""Limits of weights and of margins, from one tangent for each of them.

``weight_limits`` has the first limits of all weights; nothing is known before. ``confine`` shrinks
the ranges of a node: a convex problem per column and per example, about as much work as a node for
every eight examples. So only the root has it, and only when its tree turns out to be long; where
there are too many examples for that, its weights have it from the start. All nodes inherit it, and
the curvature that is certain grows as ranges shrink: ellipsoids that start wide stay wide.

Of two opposite columns, such as the two signs of an intercept, an optimal solution uses one. So
w_j is limited by the reach of w_j less the weight of its opposite (`Model.units`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from totalqboost.kernels.exact.definite import EPS, exact_gram
from totalqboost.kernels.exact.reach import Center, reaches
from totalqboost.kernels.exact.relaxation import Data, Ranges, penalties, relax, relaxed_value
from totalqboost.kernels.exact.shrinking import shrink
from totalqboost.kernels.loss_codes import SQUARED
from totalqboost.kernels.newton import loss_terms, margins
from totalqboost.refit import refit_value
from totalqboost.solvers.exact.bounding import USELESS, Bounder
from totalqboost.solvers.exact.model import Model
from totalqboost.solvers.exact.node import Node
from totalqboost.threads import Workers

__all__ = ["MAX_ROWS", "Reach", "weight_limits"]

N_PASSES = 2  # over all columns, for first limits
N_STEPS = 6  # Newton steps per column: the inequality is valid after any number
N_UNBOUNDED = 60  # the same where a limit is infinite: then small errors count for much
MAX_ROWS = 3000  # examples above which moments are the better use of the time
MAX_PASSES = 8  # over all weights: limits of some make those of others tighter
WORTHWHILE = 0.05  # mean of log(before / after) from which another pass pays
MANY_COLUMNS = 64  # with more, weights without useful limits take longer than they are worth
AT_ONCE = 16  # directions between two looks at the clock


# -- first limits of weights -----------------------------------------------------------------


def weight_limits(model: Model, cutoff: float, multiplier: float) -> np.ndarray:
    """Return an upper limit of every weight over solutions with an objective below ``cutoff``.

    For each column j the tangent at the minimum of F(w) - eta w_j gives an inequality

        g_j w_j <= budget + sum_{l != j} max(-g_l, 0) w_l,   g_j about eta

    whether or not the minimum was reached. Under a limit of k columns, every solution satisfies
    F(w) + multiplier card(w) <= cutoff + multiplier k, so the multiplier acts as a price.
    """
    problem = model.problem
    n = problem.n_columns
    highest = np.divide(cutoff, problem.nus, out=np.full(n, np.inf), where=problem.nus > 0)
    hi = np.where(problem.cost > 0, highest, np.inf)  # what a free column pays limits nothing
    if model.is_grid:
        hi = np.minimum(hi, model.top * model.step)
    price = model.shared_price + multiplier * (problem.cost > 0)
    total = cutoff + multiplier * model.limit
    x = refit_value(problem, np.arange(n), tol=1e-8)[0]
    for i in range(N_PASSES):
        is_priced = (i > 0) & (hi > 0) & np.isfinite(hi)
        with np.errstate(over="ignore"):
            slope = np.divide(price, hi, out=np.zeros(n), where=is_priced)
        slope = np.minimum(slope, 1e100)  # less is a weaker limit, and infinity would be none
        hi = np.minimum(hi, _tightened(model, hi, x, price, slope, total))
    return np.minimum(hi, highest) * (1.0 + 1e-9)


def _tightened(
    model: Model,
    hi: np.ndarray,
    x: np.ndarray,
    price: np.ndarray,
    slope: np.ndarray,
    total: float,
) -> np.ndarray:
    """Return limits from one inequality per column; ``slope`` is the price per unit of weight."""
    problem, n = model.problem, len(x)
    _, q = problem.weights_and_curvature(x)
    B = problem.A.astype(float)
    H = (B * q) @ B.T
    V = np.linalg.inv(H + (1e-8 * q.sum() + 1e-12) * np.eye(n))
    spread = np.einsum("ja,ab,jb->j", model.units, V, model.units)
    value = problem.risk(x) + float((problem.nus + slope) @ x)
    data = Data(problem.A, np.arange(n), problem.sample_weight, problem.loss.code)
    none, is_in = np.zeros(n), np.ones(n, dtype=bool)
    b, E = np.full(n, np.inf), np.zeros((n, n))
    for j in range(n):
        linear = problem.nus + slope
        linear[j] = problem.nus[j]
        budget = total - price[j]
        spare = max(budget - value, 1e-3 * abs(value) + 1e-9)
        tilt = np.sqrt(2.0 * spare / max(spread[j], 1e-12))
        w, top, opposite = x.copy(), hi.copy(), model.opposite[j]
        if opposite >= 0:
            top[opposite] = 0.0
        w[j] = min(w[j] + min(tilt * spread[j], 4.0), hi[j])
        share, n_steps = (0.02, N_STEPS) if np.isfinite(hi[j]) else (1e-9, N_UNBOUNDED)
        tilted, box = linear.copy(), Ranges(none, is_in, none, top, none, n)
        tilted[j] -= tilt
        relax(data, tilted, none, box, none, w, value + spare, share, n_steps, H.copy(), True)
        constant, g = _inequality(model, w, linear)
        if np.isfinite(constant) and np.isfinite(g).all() and g[j] > 1e-12:
            b[j] = max(budget - constant, 0.0) / g[j]
            E[j] = np.maximum(-g, 0.0) / g[j]
            E[j, [j, opposite] if opposite >= 0 else j] = 0.0
    return _solved(b, E, hi)


def _inequality(model: Model, w: np.ndarray, linear: np.ndarray) -> tuple[float, np.ndarray]:
    """Return a constant and g, rounded down, with F(v) >= constant + g' v for all v >= 0."""
    problem = model.problem
    z = problem.margins(w)
    u = problem.sample_weight * problem.loss.weight(z)
    with np.errstate(over="ignore"):  # a step that went wild proves nothing
        weight = float(np.abs(u).sum())
    unit = 4.0 * (problem.n_rows + 2 * len(w) + 16) * EPS
    risk = float(problem.sample_weight @ problem.loss.value(z))
    constant = risk + float(u @ z) - unit * (risk + float(np.abs(u) @ np.abs(z)))
    return constant, linear - problem.edges(u) - unit * (weight + np.abs(linear))


def _solved(b: np.ndarray, E: np.ndarray, hi: np.ndarray) -> np.ndarray:
    """Return limits that satisfy w <= b + E w, as tight as the known ones allow.

    Known ones are put in on the right side. Columns without (free ones, all if nu = 0) have
    theirs together: if x >= b + E x with b, x > 0, then w <= x for every finite w >= 0 with
    w <= b + E w. (For r = max_j w_j / x_j, attained at j: r x_j <= b_j + r (E x)_j <=
    b_j + r (x_j - b_j), so r <= 1.)
    """
    is_open = ~np.isfinite(hi)
    if is_open.any():
        rest = b[is_open] + E[np.ix_(is_open, ~is_open)] @ hi[~is_open]
        rest, within = np.maximum(rest, 1e-6), E[np.ix_(is_open, is_open)]  # room for rounding
        if not np.isfinite(rest).all():
            return hi
        try:
            x = np.linalg.solve(np.eye(len(rest)) - within, 1.001 * rest + 1e-6 * rest.max())
        except np.linalg.LinAlgError:
            return hi
        if not ((x > 0).all() and (x >= (rest + within @ x) * (1.0 + 1e-12)).all()):
            return hi
        hi = hi.copy()
        hi[is_open] = x
    for _ in range(3):
        hi = np.minimum(hi, b + E @ hi)
    return hi


# -- the ranges of a node ----------------------------------------------------------------------


class Reach:
    """How far solutions below the cutoff reach: shrinks the ranges of one node."""

    def __init__(
        self,
        bounder: Bounder,
        node: Node,
        cutoff: float,
        is_late: Callable[[], bool],
        workers: Workers,
    ):
        self.bounder, self.node, self.cutoff = bounder, node, cutoff
        self.is_late, self.workers = is_late, workers

    def confine(self) -> bool:
        """Shrink the ranges of weights and margins; False if it was not worth the time.

        Margins are left alone if weights turn out to have no useful limits.
        """
        node, bounder = self.node, self.bounder
        if len(node.columns) > MANY_COLUMNS and np.median(node.hi) > USELESS:
            return False
        if not self.confine_weights():
            return False
        center = self._center()
        if center is None or np.median(node.hi) > USELESS or bounder.code == SQUARED:
            return True
        return self._confine_margins(center)

    def confine_weights(self) -> bool:
        """Shrink the ranges of weights; False if there was no time for all."""
        node, model = self.node, self.bounder.model
        for _ in range(MAX_PASSES):
            center = self._center()
            if center is None:
                break
            before = node.hi.copy()
            tops = self._tops(center, model.units[np.ix_(node.columns, node.columns)])
            if tops is None:
                return False
            tops = np.maximum(tops, 0.0)  # of w_j, which is 0 where its opposite has a weight
            shrink(node.ranges(model), np.full(len(tops), -np.inf), tops)
            change = np.log(np.clip(before, 1e-9, 1e9)) - np.log(np.clip(node.hi, 1e-9, 1e9))
            if not change.mean() > WORTHWHILE:
                break
        return True

    def _confine_margins(self, center: Center) -> bool:
        node = self.node
        signs = np.ascontiguousarray(self.bounder.model.problem.A[node.columns].T, dtype=float)
        tops = self._tops(center, signs)
        if tops is None:
            return False
        # What is added is the rounding of sums and of the quotient.
        node.high = np.minimum(node.high, tops + 1e-9 * (1.0 + np.abs(tops)))
        if self.bounder.needs_low:
            tops = self._tops(center, -signs)
            if tops is None:
                return False
            node.low = np.maximum(node.low, -tops - 1e-9 * (1.0 + np.abs(tops)))
        return True

    def _center(self) -> Center | None:
        """Return the minimum of the relaxation without curvature; None: nothing is to be done."""
        node, bounder, model = self.node, self.bounder, self.bounder.model
        if not bounder.admit(node) or bounder.is_leaf(node):
            return None
        ranges, data = node.ranges(model), node.data(model)
        if ranges.room < 0:
            return None  # more columns are in than the limit allows
        k, m = len(node.columns), len(data.c)
        x, H, none = node.w.copy(), np.empty((k, k)), np.zeros(k)
        nu = model.problem.nus[node.columns]
        toll, room = bounder.prices(node), bounder.room(node, self.cutoff)
        relax(data, nu, none, ranges, toll, x, room, 1e-9, 60, H, False)
        z, u, q = np.empty(m), np.empty(m), np.empty(m)
        margins(data.A, data.columns, x, z)
        value = float(loss_terms(data.code, z, data.c, u, q))
        value += float(relaxed_value(x, nu, penalties(ranges, none, toll)))
        exact_gram(data.A, data.columns, np.maximum(q, 0.0), H)
        H += (1e-8 * np.trace(H) / k + 1e-14) * np.eye(k)
        if not room - value > 0.0 or not np.isfinite(H).all():
            return None  # the node is all but closed
        return Center(x, H, np.linalg.inv(H), value, room - value)

    def _tops(self, center: Center, directions: np.ndarray) -> np.ndarray | None:
        """Return how far solutions reach in each direction, or None if there is no time for it."""
        node, model = self.node, self.bounder.model
        data, ranges, toll = node.data(model), node.ranges(model), self.bounder.prices(node)
        tops, nu = np.empty(len(directions)), model.problem.nus[node.columns]

        def fill(first: int) -> bool:
            part = slice(first, first + AT_ONCE)
            if self.is_late():
                return False
            reaches(data, nu, ranges, toll, self.cutoff, center, directions[part], tops[part])
            return True

        return tops if all(self.workers.map(fill, range(0, len(tops), AT_ONCE))) else None
