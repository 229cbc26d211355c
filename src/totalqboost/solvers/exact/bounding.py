"""The bound of a node: valid from any point, whatever the relaxation has converged to.

Lemma. Let R_i >= 0 be such that l(t) >= l(z_i) + l'(z_i)(t - z_i) + R_i (t - z_i)^2 on the
range of margin i over the node, and let D = diag(d) <= Q = 2 A diag(c R) A'. Then every w of
the node satisfies, with u_i = -c_i l'(z_i), s = A u and g = nu - s - d * x at any point x
with margins z,

    F(w) >= sum_i (c_i l(z_i) + u_i z_i) + sum_j d_j x_j^2 / 2
            + sum_j ( g_j w_j + d_j w_j^2 / 2 + price_j [w_j > 0] )

and the last sum falls apart: each column takes its best weight, or none. Under a limit on
the number of columns the most useful ones are taken, as many as the limit allows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from totalqboost.kernels.loss_codes import EXPONENTIAL, LOGISTIC, SMOOTHED_HINGE, SQUARED
from totalqboost.kernels.newton import loss_terms, margins, slopes
from totalqboost.kernels.relaxation import (
    column_terms,
    curvature_floor,
    envelope,
    minimise_penalised,
    relax,
)
from totalqboost.solvers.exact.diagonal import (
    EPS,
    certify_diagonal,
    cholesky,
    choose_diagonal,
    rounding,
)
from totalqboost.solvers.exact.model import Model, Rows
from totalqboost.solvers.exact.skewness import (
    MAX_COLUMNS,
    largest_radius,
    largest_skewness,
    ratio,
)

__all__ = ["Bounder", "Node", "Split"]

SPLITS = (0.9, 0.5)  # shares of D that stay in the bound while the rest confines the node
STRIDE = 0.5  # of the way to the relaxation's minimum, from round to round
PATIENCE = 3  # rounds before one without progress is the last
N_DIAGONALS = 3  # diagonals tried on one expansion of the risk
ENOUGH = 0.8  # of the curvature at the point: not worth improving
TINY = 1e-200  # a risk that is zero
WELL = 1e-4  # least ratio in the diagonal of a Cholesky factor that needs no ridge
LARGE = 50.0  # weights beyond which limits are no help
RIDGE = 1e-9  # of the trace: keeps the inverse accurate to about 1e-6


@dataclass
class Node:
    """A part of the search space: who is in, who is undecided, and ranges of all weights.

    Arrays run over ``columns``, the columns that are not out. An undecided column has weight
    0 or one in [lo, hi]; one that is in, always a weight in [lo, hi].
    """

    columns: np.ndarray
    is_in: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    w: np.ndarray
    d: np.ndarray
    rows: Rows
    low: np.ndarray  # ranges of the margins
    high: np.ndarray
    center: np.ndarray | None = None  # (w - center)' shape (w - center) <= 1
    shape: np.ndarray | None = None
    multiplier: float = 0.0
    bound: float = -np.inf
    is_closed: bool = False
    depth: int = 0

    def keep(self, stays: np.ndarray) -> None:
        """Forget the columns that are out."""
        for name in ("columns", "is_in", "lo", "hi", "w", "d"):
            setattr(self, name, getattr(self, name)[stays])
        if self.shape is not None and self.center is not None:
            stay, go = np.flatnonzero(stays), np.flatnonzero(~stays)
            gone = self.center[go]  # their weights are zero now
            ridge = RIDGE * float(np.trace(self.shape))
            left = _schur(self.shape, stay, go, ridge)
            self.shape = left / (1.0 + ridge * float(gone @ gone))
            self.center = self.center[stay]

    def child(self, j: int, becomes_in: bool) -> Node:
        """Return a copy in which undecided column j (a position) is in or out."""
        names = ("columns", "is_in", "lo", "hi", "w", "d")
        copies = {name: getattr(self, name).copy() for name in names}
        node = Node(
            **copies,
            rows=self.rows,
            low=self.low,
            high=self.high,
            center=self.center,
            shape=self.shape,
            multiplier=self.multiplier,
            bound=self.bound,
            depth=self.depth + 1,
        )
        if becomes_in:
            node.is_in[j] = True
            node.d[j] = 0.0
        else:
            node.keep(np.arange(len(self.columns)) != j)
        return node


def _schur(Q: np.ndarray, stay: np.ndarray, go: np.ndarray, ridge: float) -> np.ndarray:
    """Return the quadratic form of some variables, the others at their best.

    With a ridge on the others: for any values v of theirs, the form Q is at least this one
    less ridge v'v.
    """
    S = Q[np.ix_(stay, stay)]
    if len(go) == 0:
        return S
    cross = Q[np.ix_(go, stay)]
    block = Q[np.ix_(go, go)] + ridge * np.eye(len(go))
    return S - cross.T @ np.linalg.solve(block, cross)


class Expansion:
    """The risk at a point of a node, and the bounds that follow from it.

    On the node, risk(w) >= m(w) = risk(x) - s'(w - x) + (w - x)' Q (w - x) / 2 once ``Q`` is
    set; the lemma holds for the quadratic m at any point, with s - Q (y - x) for s.
    """

    def __init__(self, model: Model, node: Node, x: np.ndarray):
        rows, columns = node.rows, node.columns
        self.model, self.node, self.x = model, node, x.copy()
        self.z, self.u = np.empty(len(rows.c)), np.empty(len(rows.c))
        self.s = np.empty(len(columns))
        margins(rows.A, columns, self.x, self.z)
        code = model.problem.loss.code
        self.risk = float(loss_terms(code, self.z, rows.c, self.u, np.empty(len(rows.c))))
        slopes(rows.A, columns, self.u, self.s)
        self.weight = float(np.abs(self.u).sum())
        self.unit = 4.0 * (len(self.z) + 2 * len(x) + 16) * EPS
        self.Q = np.zeros((len(x), len(x)))
        self.price = model.price[columns]
        self.step = model.step[columns]
        n_in = np.count_nonzero(model.problem.cost[columns[node.is_in]] > 0)
        self.room = model.limit - int(n_in)

    def floor(self) -> np.ndarray:
        """Return c_i R_i on the ranges of the margins."""
        node = self.node
        out = np.empty(len(self.z))
        curvature_floor(self.model.problem.loss.code, self.z, node.low, node.high, node.rows.c, out)
        return out

    def bound(self, y: np.ndarray, d: np.ndarray) -> Split:
        """Return the bound of the lemma at y, rounded down, and what each column adds to it.

        Every sum of n float64 terms is off by at most n eps times the sum of their absolute
        values; a gradient that may be off is taken at its low end, since weights are >= 0.
        """
        node, unit = self.node, self.unit
        move = y - self.x
        bend = self.Q @ move
        s = self.s - bend
        reach = float(y.sum() + self.x.sum())
        nu = self.model.problem.nu
        largest = float(self.Q.diagonal().max(initial=0.0))
        error = unit * (self.weight + nu + np.abs(d) * y + largest * reach)
        g = nu - s - d * y - error
        inside = np.empty(len(y))
        column_terms(g, d, node.lo, node.hi, self.step, inside)
        parts = (self.risk, float(s @ y), -float(self.s @ move), 0.5 * float(move @ bend))
        lift, fixed = 0.5 * float(d @ (y * y)), float(self.price[node.is_in].sum())
        terms = np.where(node.is_in, inside, np.minimum(inside + self.price, 0.0))
        size = sum(abs(part) for part in parts) + abs(lift) + fixed
        size += (self.weight + largest * reach) * reach
        size += float(np.abs(terms[np.isfinite(terms)]).sum())
        return Split(self, g, d, inside, terms, sum(parts) + lift + fixed - unit * size)

    def scaled_dual(self) -> float:
        """Return the bound of the l1 problem from u, scaled so that no column prices out.

        -sum_i c_i l*(-t u_i / c_i) with t A u <= nu, plus the prices of the columns that are
        in. It needs no limit of any weight, which counts where those are large.
        """
        problem, c = self.model.problem, self.node.rows.c
        worst = float((self.s + self.unit * self.weight).max(initial=0.0))
        t = 1.0 if worst <= problem.nu else problem.nu / worst * (1.0 - 1e-12)
        used = c > 0
        terms = c[used] * problem.loss.conjugate(t * self.u[used] / c[used])
        value = float(terms.sum()) + self.unit * float(np.abs(terms).sum())
        return float(self.price[self.node.is_in].sum()) - value

    def minimise(self, y: np.ndarray, d: np.ndarray, price: np.ndarray) -> np.ndarray:
        """Return the minimum of the relaxation of m, from y."""
        node = self.node
        k = len(y)
        slope, knot = np.zeros(k), np.zeros(k)
        curve = np.where(node.is_in, 0.0, np.maximum(d, 0.0))
        for j in range(k):
            if not node.is_in[j]:
                slope[j], knot[j] = envelope(curve[j], node.lo[j], node.hi[j], price[j])
        y = np.clip(y, np.where(node.is_in, node.lo, 0.0), node.hi)
        g = self.model.problem.nu - self.s + self.Q @ (y - self.x) - curve * y
        H = self.Q - np.diag(curve)
        out = np.empty(k)
        minimise_penalised(H, g, y, node.is_in, curve, node.lo, node.hi, slope, knot, 1e-12, out)
        return out


@dataclass
class Split:
    """A bound that is a constant plus one term per column."""

    expansion: Expansion
    g: np.ndarray
    d: np.ndarray
    inside: np.ndarray
    terms: np.ndarray
    constant: float

    def __post_init__(self) -> None:
        is_in = self.expansion.node.is_in
        undecided = np.flatnonzero(~is_in)
        order = undecided[np.argsort(self.terms[undecided], kind="stable")]
        room = max(self.expansion.room, 0)
        self.taken, self.others = order[:room], order[room:]
        self.value = self.constant + self.terms[is_in].sum() + self.terms[self.taken].sum()
        if self.expansion.room < 0:
            self.value = np.inf  # more columns are in than the limit allows

    def without(self) -> np.ndarray:
        """Return the bound without the term of each column, the others at their best.

        For an undecided column this is the bound if it is out; with its own term and price
        added, the bound if it is in.
        """
        value = np.full(len(self.terms), self.value)
        value[self.expansion.node.is_in] -= self.terms[self.expansion.node.is_in]
        # One that is out frees a place, one that comes in takes the last one.
        next_best = self.terms[self.others[0]] if len(self.others) else 0.0
        value[self.taken] += next_best - self.terms[self.taken]
        return value

    def with_column(self) -> np.ndarray:
        """Return the bound without the term of each column, one place being taken by it."""
        value = np.full(len(self.terms), self.value)
        value[self.expansion.node.is_in] -= self.terms[self.expansion.node.is_in]
        value[self.taken] -= self.terms[self.taken]
        value[self.others] -= self.terms[self.taken[-1]] if len(self.taken) else -np.inf
        return value


class Bounder:
    """Bounds nodes and shrinks them: relaxation, tangent, curvature, fixing, ranges."""

    def __init__(self, model: Model):
        self.model = model
        self.code = model.problem.loss.code
        self.needs_low = self.code in (LOGISTIC, SMOOTHED_HINGE)

    def is_leaf(self, node: Node) -> bool:
        """Tell whether nothing is left to decide: which columns, and on a grid which levels."""
        if not node.is_in.all():
            return False
        return not self.model.top or bool(
            (node.hi - node.lo < 0.5 * self.model.step[node.columns]).all()
        )

    def strengthen(self, node: Node, cutoff: float, n_rounds: int) -> None:
        """Raise the bound of a node and shrink it, for solutions below ``cutoff`` only."""
        hessian = None
        for i in range(n_rounds):
            before, size = node.bound, len(node.columns)
            if not self._admit(node, cutoff):
                return
            if hessian is None or len(hessian) != len(node.columns):
                hessian = np.empty((len(node.columns), len(node.columns)))
            x = node.w.copy()
            self._relax(node, cutoff, hessian)
            if i > 0:
                node.w = x + STRIDE * (node.w - x)
            self._bound(node, cutoff)
            if node.is_closed or self.is_leaf(node):
                break
            is_stuck = node.bound - before < 0.01 * (cutoff - node.bound)
            if i >= PATIENCE and len(node.columns) == size and is_stuck:
                break

    def bound_leaf(self, node: Node, cutoff: float, w: np.ndarray) -> None:
        """Bound a node in which all is decided from the tangent at weights w of all columns."""
        x = w[node.columns]  # any point will do, also one outside the ranges
        expansion = Expansion(self.model, node, x)
        split = expansion.bound(x, np.zeros(len(x)))
        node.bound = max(node.bound, split.value, expansion.scaled_dual())
        node.is_closed = node.is_closed or node.bound >= cutoff

    def drop_opposite(self, node: Node, column: int) -> None:
        """Put the opposite of a column that came in out, unless it is in."""
        is_opposite = node.columns == self.model.opposite[column]
        if (is_opposite & ~node.is_in).any():
            node.keep(~is_opposite)

    def _admit(self, node: Node, cutoff: float) -> bool:
        """Apply the least useful weights and the ranges of margins; False closes the node."""
        model = self.model
        prices = float(model.price[node.columns[node.is_in]].sum())
        undecided = ~node.is_in
        least = model.least_weight(node.columns, cutoff - prices)
        node.lo[undecided] = np.maximum(node.lo, least)[undecided]
        stays = node.is_in | (node.hi >= np.maximum(node.lo, 1e-12))
        priced = node.is_in & (model.price[node.columns] > 0)
        own = model.least_weight(node.columns, cutoff - prices + model.price[node.columns])
        node.lo[priced] = np.maximum(node.lo, own)[priced]
        if (node.lo > node.hi)[node.is_in].any():
            node.bound, node.is_closed = np.inf, True
            return False
        if not stays.all():
            node.keep(stays)
        if len(node.columns) < 0.8 * node.rows.n_columns and len(node.columns) > 0:
            node.rows, node.low, node.high = node.rows.merged(node.columns, node.low, node.high)
        self._ranges_from_weights(node)
        return True

    def _ranges_from_weights(self, node: Node) -> None:
        if self.code == SQUARED:
            return
        lo = np.where(node.is_in, node.lo, 0.0)
        if not np.isfinite(node.hi).all():
            return
        middle = np.empty(len(node.rows.c))
        margins(node.rows.A, node.columns, 0.5 * (lo + node.hi), middle)
        radius = 0.5 * float((node.hi - lo).sum())
        radius += 1e-12 * (1.0 + radius + float(node.hi.sum()))
        node.high = np.minimum(node.high, middle + radius)
        if self.needs_low:
            node.low = np.maximum(node.low, middle - radius)

    def _relax(self, node: Node, cutoff: float, hessian: np.ndarray) -> None:
        model, is_in = self.model, node.is_in
        price = self._prices(node)
        fixed = float(model.price[node.columns[is_in]].sum())
        room = cutoff - fixed
        if node.multiplier > 0:
            n_in = np.count_nonzero(model.problem.cost[node.columns[is_in]] > 0)
            room += node.multiplier * (model.limit - n_in)
        relax(
            node.rows.A,
            node.columns,
            node.rows.c,
            self.code,
            np.full(len(price), model.problem.nu),
            np.maximum(node.d, 0.0),
            node.lo,
            node.hi,
            price,
            is_in,
            node.w,
            room,
            0.0 if self.is_leaf(node) else 0.01,
            40,
            hessian,
            False,
        )

    def _bound(self, node: Node, cutoff: float) -> None:
        """Expand the risk at the node's point, raise the bound from it, shrink the node."""
        expansion = Expansion(self.model, node, node.w)
        split, y = expansion.bound(node.w, np.zeros(len(node.w))), node.w
        node.bound = max(node.bound, split.value, float(expansion.price[node.is_in].sum()))
        if node.hi.max(initial=0.0) > LARGE:
            node.bound = max(node.bound, expansion.scaled_dual())
        if node.bound >= cutoff:
            node.is_closed = True
        if node.is_closed or self.is_leaf(node) or not np.isfinite(split.value):
            return
        B = node.rows.A[node.columns].astype(float)
        expansion.Q = self._curvature(node, expansion, B, cutoff)
        d = self._certified(expansion, node.d)
        for i in range(N_DIAGONALS):
            if i > 0:
                d = self._certified(expansion, self._next_diagonal(node, expansion.Q, d, y))
            if i > 0 or d.max() > 0:
                x = expansion.minimise(y, d, self._prices(node))
                trial = expansion.bound(x, d)
                if not np.isfinite(trial.value):
                    break
                if trial.value >= split.value:
                    is_stuck = trial.value - split.value < 0.01 * (cutoff - trial.value)
                    split, y = trial, x
                    if i > 1 and is_stuck:
                        break
                if node.multiplier > 0 or self.model.limit < len(self.model.price):
                    node.multiplier = self._multiplier(node, trial)
            node.bound = max(node.bound, split.value)
            if node.bound >= cutoff:
                node.is_closed = True
                return
        node.d = np.maximum(split.d, 0.0)
        stays = self._fix(node, split, cutoff)
        if not node.is_closed:
            self._confine(node, expansion, B, y, split.d, cutoff)
        if not stays.all():
            node.keep(stays)

    def _certified(self, expansion: Expansion, d: np.ndarray) -> np.ndarray:
        """Return d, reduced until it is below Q, or zeros."""
        proven = certify_diagonal(expansion.Q, d, len(expansion.z))
        return np.zeros(len(d)) if proven is None else proven

    def _prices(self, node: Node) -> np.ndarray:
        """Return the prices that steer the relaxation: under a limit, with its multiplier."""
        is_priced = self.model.problem.cost[node.columns] > 0
        return self.model.price[node.columns] + np.where(is_priced, node.multiplier, 0.0)

    def _curvature(
        self, node: Node, expansion: Expansion, B: np.ndarray, cutoff: float
    ) -> np.ndarray:
        """Return a Q with risk(w) >= tangent(w) + (w - x)' Q (w - x) / 2 on all of the node.

        From the ranges of the margins, or for the exponential loss from their skewness,
        whichever has the larger trace.
        """
        half = B * np.sqrt(2.0 * expansion.floor())
        Q = half @ half.T
        is_enough = np.trace(Q) > ENOUGH * expansion.risk * len(B)
        if self.code != EXPONENTIAL or len(B) > MAX_COLUMNS or is_enough or expansion.risk < TINY:
            return Q
        weight = expansion.u / expansion.risk
        half = B * np.sqrt(weight)
        G = half @ half.T
        # Dependent columns: whiten with a ridge, and claim nothing about directions in which
        # the ridge is more than a 1e-4th of the variance.
        is_singular = cholesky(G - 1e-6 * np.eye(len(G))) is None
        ridge, unclaimed = (1e-12, 1e-8) if is_singular else (0.0, 0.0)
        L = cholesky(G + ridge * np.eye(len(G)))
        if L is None:
            return Q
        inverse = np.tril(lapack.dtrtri(L, lower=1)[0])
        kappa = largest_skewness(inverse @ B, weight) * (1.0 + 1e-4)
        radius = self._radius(node, expansion, inverse, kappa, cutoff)
        share = 2.0 * expansion.risk * ratio(kappa * radius) * (1.0 - 1e-6)
        if share * len(G) <= np.trace(Q):
            return Q
        return share * (G - unclaimed * np.eye(len(G)))

    def _radius(
        self, node: Node, expansion: Expansion, inverse: np.ndarray, kappa: float, cutoff: float
    ) -> float:
        """Return how far from the point a better solution can be, in the norm of the margins.

        First without extracted curvature; then the diagonal that is certain within that
        distance raises the bound, which lowers the distance, and so on.
        """
        d = np.maximum(node.d, 0.0)
        risk = expansion.risk
        flat = expansion.bound(expansion.x, np.zeros(len(d)))
        radius = largest_radius(kappa, max(cutoff - flat.value, 0.0) / risk, 0.0, np.inf)
        radius = min(radius, self._known_radius(node, expansion, inverse))
        largest = float(np.linalg.norm(inverse * np.sqrt(d), 2)) ** 2 / risk
        if largest == 0.0 or np.isinf(radius):
            return radius
        for _ in range(8):
            before = radius
            share = min(1.0, 0.999 * 2.0 * ratio(kappa * radius) / largest)
            for theta in (0.3 * share, 0.6 * share, 0.8 * share):
                part = expansion.bound(expansion.x, theta * d)
                limit = max(cutoff - part.value, 0.0) / risk
                radius = largest_radius(kappa, limit, theta * largest, radius)
            if radius > 0.98 * before:
                break
        return radius

    def _known_radius(self, node: Node, expansion: Expansion, inverse: np.ndarray) -> float:
        """Return how far from the point the ellipsoid reaches that was found before."""
        if node.shape is None or node.center is None:
            return np.inf
        least = float(np.linalg.eigvalsh(inverse @ node.shape @ inverse.T)[0])
        if least <= 1e-12:
            return np.inf
        shift = np.linalg.solve(inverse.T, node.center - expansion.x)  # in the norm of the margins
        return (1.0 + 1e-6) * (1.0 / np.sqrt(least) + float(np.linalg.norm(shift)))

    def _fix(self, node: Node, split: Split, cutoff: float) -> np.ndarray:
        """Decide columns by their reduced costs and cut ranges; return who is not out."""
        undecided = ~node.is_in
        price = split.expansion.price
        budget = cutoff - split.with_column() - np.where(undecided, price, 0.0)
        stays = node.is_in | (split.inside < budget)
        comes_in = undecided & (split.without() >= cutoff)
        if (comes_in & ~stays).any():
            node.is_closed, node.bound = True, max(node.bound, cutoff)
            return stays
        node.is_in |= comes_in
        self._cut_ranges(node, split.g, split.d, budget)
        return stays

    def _cut_ranges(self, node: Node, g: np.ndarray, d: np.ndarray, budget: np.ndarray) -> None:
        """Keep weights with g x + d x^2 / 2 <= budget."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            root = np.sqrt(g * g + 2.0 * d * budget)
            above, below = (root - g) / d, (-g - root) / d
            linear = np.where(g > 0, budget / g, np.inf)
        curved = (d > 1e-9) & np.isfinite(root)
        hi = np.where(curved, above, np.where(d >= 0, linear, np.inf))
        self._set_ranges(node, np.where(curved, below, -np.inf), hi)

    def _set_ranges(self, node: Node, lo: np.ndarray, hi: np.ndarray) -> None:
        """Shrink the ranges of weights, with a margin for rounding, to multiples of the step."""
        hi = np.where(np.isfinite(hi), hi, np.inf)
        hi = hi + 1e-7 * np.abs(hi) + 1e-9
        lo = lo - 1e-7 * np.abs(lo) - 1e-9
        step = self.model.step[node.columns]
        if self.model.top:
            hi = np.where(np.isfinite(hi), np.floor(hi / step) * step, hi)
            lo = np.where(np.isfinite(lo), np.ceil(lo / step) * step, lo)
        node.hi = np.minimum(node.hi, hi)
        node.lo = np.where(node.is_in, np.maximum(node.lo, lo), node.lo)

    def _confine(
        self,
        node: Node,
        expansion: Expansion,
        B: np.ndarray,
        x: np.ndarray,
        d: np.ndarray,
        cutoff: float,
    ) -> None:
        """Shrink the ranges of weights and margins to an ellipsoid around the point.

        With the share theta of D in the bound, the rest of the curvature is left:
        (w - x)' E (w - x) <= cutoff - bound, E = (Q - theta D) / 2, less its rounding. Where E
        is nearly singular, a ridge adds at most its size times the squared width of the node.
        """
        lo = np.where(node.is_in, node.lo, 0.0)
        width = np.maximum(node.hi - x, x - lo)
        squares = float(width @ width)
        Q = expansion.Q
        for theta in SPLITS if (d > 0).any() else (0.0,):
            part = expansion.bound(x, theta * d)
            excess = cutoff - part.value
            if not np.isfinite(excess):
                return
            if excess <= 0.0:
                node.bound, node.is_closed = max(node.bound, part.value), True
                return
            E = 0.5 * (Q - np.diag(theta * d)) - rounding(Q, len(expansion.z)) * np.eye(len(d))
            L = cholesky(E)
            if L is None or L.diagonal().min() < WELL * L.diagonal().max():
                if not np.isfinite(squares):
                    return
                ridge = RIDGE * float(np.trace(Q)) + 1e-3 * excess / max(squares, 1e-12)
                E[np.diag_indices_from(E)] += ridge
                excess += ridge * squares
                L = cholesky(E)
            if L is None:
                continue
            inverse, _ = lapack.dtrtri(L, lower=1)
            inverse = np.tril(inverse)
            radius = np.sqrt(excess * np.einsum("ij,ij->j", inverse, inverse)) * (1.0 + 1e-4)
            self._set_ranges_around(node, x, radius)
            node.center, node.shape = x.copy(), E / excess * (1.0 - 1e-6)
        if L is not None and self.code != SQUARED:
            half = inverse @ B
            z = expansion.z + (x - expansion.x) @ B
            reach = np.sqrt(excess * np.einsum("ij,ij->j", half, half)) * (1.0 + 1e-4) + 1e-9
            node.high = np.minimum(node.high, z + reach)
            if self.needs_low:
                node.low = np.maximum(node.low, z - reach)

    def _set_ranges_around(self, node: Node, x: np.ndarray, radius: np.ndarray) -> None:
        """Shrink ranges to x +- radius; an undecided column that cannot be zero is in."""
        node.is_in |= x - radius > 1e-6
        self._set_ranges(node, x - radius, x + radius)

    def _multiplier(self, node: Node, split: Split) -> float:
        """Return the price at which about as many columns pay as the limit leaves room for."""
        last = split.terms[split.taken[-1]] if len(split.taken) else 0.0
        following = split.terms[split.others[0]] if len(split.others) else 0.0
        between = max(-0.5 * float(last + following), 0.0)
        return 0.5 * (node.multiplier + between) if np.isfinite(between) else node.multiplier

    def _next_diagonal(self, node: Node, Q: np.ndarray, d: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return a better diagonal for the relaxation whose minimum is at y.

        The bound grows with d_j at the rate w_j^2 (1 / share_j - 1) / 2, where share_j is
        how much of its price the column pays. Columns that are in leave by a Schur
        complement: their curvature is of no use to the price.
        """
        is_open = ~node.is_in | (self.model.top > 0)  # on a grid, levels have a price too
        chosen, inner = np.flatnonzero(is_open), np.flatnonzero(~is_open)
        ridge = RIDGE * float(np.trace(Q)) + 1e-14
        S = _schur(Q, chosen, inner, ridge) + ridge * np.eye(len(chosen))
        start, n_steps = 0.95 * d[chosen], 3
        if start.min() <= 0.0 or cholesky(S - np.diag(start)) is None:
            start = np.full(len(chosen), 0.5 * max(np.linalg.eigvalsh(S)[0], 0.5 * ridge))
            n_steps = 25
        price = self.model.price[node.columns[chosen]] + node.multiplier
        x, hi, lo = y[chosen], node.hi[chosen], node.lo[chosen]
        weight = np.empty(len(chosen))
        for a in range(len(chosen)):
            _, knot = envelope(start[a], lo[a], hi[a], price[a])
            share = min(x[a] / knot, 1.0) if knot > 0 else 1.0
            gain = 0.5 * x[a] ** 2 * (1.0 / share - 1.0) if share > 1e-12 else 0.0
            weight[a] = gain * start[a] + 0.01 * price[a] + 1e-12
        better = np.zeros(len(d))
        better[chosen] = choose_diagonal(S, weight, start, n_steps)
        return better
