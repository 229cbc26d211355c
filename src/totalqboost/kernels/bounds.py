"""Bounds of a node of the exact solver, once a quadratic lower bound of its risk is known.

On a node, risk(w) >= risk(x) - s'(w - x) + (w - x)' Q (w - x) / 2. With a diagonal D <= Q the
right side falls apart into columns (the lemma in `totalqboost.solvers.exact.expansion`).
Kernels here choose D, evaluate the bound at any point with all rounding taken off, decide
columns by it and shrink ranges.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from totalqboost.kernels.jit import kernel
from totalqboost.kernels.relaxation import (
    column_terms,
    envelope,
    exponential_ratio,
    minimise_penalised,
)

EPS = float(np.finfo(np.float64).eps)
BLOCK = 256  # examples at a time: they stay in cache
SHRINK = 0.95
MAX_TRIES = 40
RIDGE = 1e-9  # of the trace: keeps the inverse accurate to about 1e-6
WELL = 1e-4  # least ratio in the diagonal of a Cholesky factor that needs no ridge


class Quadratic(NamedTuple):
    """risk(w) >= risk - s'(w - x) + (w - x)' Q (w - x) / 2 on the node; sums over n_rows."""

    risk: float
    weight: float  # sum of |u|: the size of s before cancellation
    nu: float
    s: np.ndarray
    Q: np.ndarray
    x: np.ndarray
    n_rows: int


class Ranges(NamedTuple):
    """What is decided: weights are in [lo, hi], those of undecided columns zero or there."""

    price: np.ndarray
    is_in: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    step: np.ndarray  # of fixed-point weights, 0 for continuous ones
    room: int  # undecided columns that may come in


@kernel
def is_number(x):
    """Tell whether x is finite; ``math.isfinite`` is x - x == 0, which reassociation breaks."""
    return -np.inf < x < np.inf


# -- definite matrices -------------------------------------------------------------------


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
def invert_factor(L, R):
    """Write the transpose of the inverse of a lower factor: row b of R is column b of 1 / L."""
    k = L.shape[0]
    for b in range(k):
        R[b, :b] = 0.0
        R[b, b] = 1.0 / L[b, b]
        for a in range(b + 1, k):
            total = 0.0
            for t in range(b, a):
                total -= L[a, t] * R[b, t]
            R[b, a] = total / L[a, a]


@kernel
def invert(L, R, V):
    """Write the inverse of L L' into V; R is scratch space."""
    k = L.shape[0]
    invert_factor(L, R)
    for a in range(k):
        for b in range(a + 1):
            total = 0.0
            for t in range(a, k):
                total += R[a, t] * R[b, t]
            V[a, b] = total
            V[b, a] = total


@kernel
def solve_factored(L, b, x):
    """Write the solution of L L' x = b."""
    k = L.shape[0]
    for a in range(k):
        total = b[a]
        for t in range(a):
            total -= L[a, t] * x[t]
        x[a] = total / L[a, a]
    for a in range(k - 1, -1, -1):
        x[a] /= L[a, a]
        for t in range(a):
            x[t] -= L[a, t] * x[a]


@kernel
def exact_gram(A, columns, q, Q):
    """Write Q_ab = sum_i q_i A[columns_a, i] A[columns_b, i] for q >= 0, in double precision.

    Bounds rest on this one; `newton.gram` is faster and in single precision.
    """
    k, m = columns.shape[0], A.shape[1]
    half, part = np.empty((k, BLOCK)), np.empty((k, k))
    Q[:] = 0.0
    for first in range(0, m, BLOCK):
        size = min(BLOCK, m - first)
        half[:] = 0.0
        for i in range(size):
            root = math.sqrt(q[first + i])
            for a in range(k):
                half[a, i] = root * A[columns[a], first + i]
        np.dot(half, half.T, part)
        Q += part


@kernel
def trace(Q):
    """Return the sum of the diagonal."""
    total = 0.0
    for a in range(Q.shape[0]):
        total += Q[a, a]
    return total


@kernel
def rounding(Q, n_rows):
    """Return a bound of the spectral norm of all rounding in Q and in its Cholesky factor.

    An entry of Q is a float64 sum of n_rows terms, off by at most n_rows eps Q_jj, so the
    matrix is off by at most n_rows eps trace(Q); the factor adds about len(Q) eps trace(Q)
    (Higham, "Accuracy and stability of numerical algorithms", theorem 10.3).
    """
    return 4.0 * (n_rows + 2 * Q.shape[0] + 10) * EPS * trace(Q)


@kernel
def certify_diagonal(Q, d, n_rows):
    """Return d, shrunk until Q - diag(d) is proven semidefinite, less the rounding, and whether.

    Entries may come out slightly negative, which is harmless. Zeros if nothing is proven.
    """
    slack = rounding(Q, n_rows)
    d = d.copy()
    L = np.empty_like(Q)
    for _ in range(MAX_TRIES):
        if factor(Q, d - slack, L):
            return d - 2.0 * slack, True
        d *= SHRINK
    return np.zeros_like(d), False


@kernel
def barrier(L, weight, d, mu):
    """Return sum_j weight_j log d_j + mu logdet(L L')."""
    total = 0.0
    for a in range(d.shape[0]):
        total += weight[a] * math.log(d[a]) + 2.0 * mu * math.log(L[a, a])
    return total


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
    gradient, step = np.empty(k), np.empty(k)
    none = np.zeros(k)
    for _ in range(n_steps):
        invert(here, scratch, V)
        for a in range(k):
            gradient[a] = weight[a] / d[a] - mu * V[a, a]
        for a in range(k):
            for b in range(k):
                V[a, b] = mu * V[a, b] * V[a, b]
            V[a, a] += weight[a] / d[a] / d[a]
        if not factor(V, none, scratch):
            break
        solve_factored(scratch, gradient, step)
        largest, rise = 0.9, 0.0
        for a in range(k):
            largest = max(largest, -step[a] / d[a])
            rise += step[a] * gradient[a]
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


# -- the bound at a point ----------------------------------------------------------------


@kernel
def split(model, ranges, y, d, g, inside, terms):
    """Return the bound of the lemma at y with the diagonal d, rounded down.

    Writes the gradient g, the least value of each column inside its range, and its term in
    the bound. Every sum of n float64 terms is off by at most n eps times the sum of their
    absolute values; a gradient that may be off is taken at its low end, since weights are
    >= 0. At most ``room`` undecided columns are taken, the most useful ones.
    """
    x, Q, is_in = model.x, model.Q, ranges.is_in
    k = x.shape[0]
    unit = 4.0 * (model.n_rows + 2 * k + 16) * EPS
    reach, largest = 0.0, 0.0
    for j in range(k):
        reach += y[j] + x[j]
        largest = max(largest, Q[j, j])
    tangent, back, curve, lift, fixed = 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(k):
        bend = 0.0
        for b in range(k):
            bend += Q[j, b] * (y[b] - x[b])
        slope = model.s[j] - bend
        error = unit * (model.weight + model.nu + abs(d[j]) * y[j] + largest * reach)
        g[j] = model.nu - slope - d[j] * y[j] - error
        tangent += slope * y[j]
        back -= model.s[j] * (y[j] - x[j])
        curve += 0.5 * (y[j] - x[j]) * bend
        lift += 0.5 * d[j] * y[j] * y[j]
        if is_in[j]:
            fixed += ranges.price[j]
    column_terms(g, d, ranges.lo, ranges.hi, ranges.step, inside)
    size = abs(model.risk) + abs(tangent) + abs(back) + abs(curve) + abs(lift) + fixed
    size += (model.weight + largest * reach) * reach
    paid = 0.0
    for j in range(k):
        if is_in[j]:
            terms[j] = inside[j]
            paid += terms[j]
        else:
            terms[j] = min(inside[j] + ranges.price[j], 0.0)
        if is_number(terms[j]):
            size += abs(terms[j])
    if ranges.room < 0:
        return np.inf  # more columns are in than the limit allows
    paid += best_terms(terms, is_in, ranges.room)
    return model.risk + tangent + back + curve + lift + fixed - unit * size + paid


@kernel
def best_terms(terms, is_in, room):
    """Return the sum of the terms of the undecided columns that there is room for."""
    total, n_useful = 0.0, 0
    for j in range(terms.shape[0]):
        if not is_in[j] and terms[j] < 0.0:
            total += terms[j]
            n_useful += 1
    if n_useful <= room:
        return total
    useful = np.sort(terms[~is_in])
    return useful[:room].sum()


@kernel
def minimise_relaxation(model, ranges, d, toll, y):
    """Return the minimum of the relaxation of the quadratic, from y."""
    x, Q, is_in, lo, hi = model.x, model.Q, ranges.is_in, ranges.lo, ranges.hi
    k = x.shape[0]
    slope, knot, curve = np.zeros(k), np.zeros(k), np.zeros(k)
    start, g, out, H = np.empty(k), np.empty(k), np.empty(k), Q.copy()
    for j in range(k):
        least = lo[j]
        if not is_in[j]:
            curve[j] = max(d[j], 0.0)
            slope[j], knot[j] = envelope(curve[j], lo[j], hi[j], toll[j])
            least = 0.0
        start[j] = min(max(y[j], least), hi[j])
        H[j, j] -= curve[j]
    for j in range(k):
        bend = 0.0
        for b in range(k):
            bend += Q[j, b] * (start[b] - x[b])
        g[j] = model.nu - model.s[j] + bend - curve[j] * start[j]
    minimise_penalised(H, g, start, is_in, curve, lo, hi, slope, knot, 1e-12, out)
    return out


@kernel
def next_diagonal(model, ranges, d, y, toll):
    """Return a better diagonal for the relaxation whose minimum is at y.

    The bound grows with d_j at the rate w_j^2 (1 / share_j - 1) / 2, where share_j is how
    much of its price the column pays. Columns that are in leave by a Schur complement: their
    curvature is of no use to the price. On a grid, levels have a price too.
    """
    Q, is_in, lo, hi = model.Q, ranges.is_in, ranges.lo, ranges.hi
    k = Q.shape[0]
    on_grid = ranges.step.max() > 0.0
    place, n_open, n_in = np.empty(k, np.int64), 0, 0
    for j in range(k):  # those that are in first: their rows of the factor are eliminated
        if is_in[j] and not on_grid:
            place[n_in] = j
            n_in += 1
    for j in range(k):
        if not is_in[j] or on_grid:
            place[n_in + n_open] = j
            n_open += 1
    better = np.zeros(k)
    if n_open == 0:
        return better
    ridge = RIDGE * trace(Q) + 1e-14
    M = np.empty((k, k))
    for a in range(k):
        for b in range(k):
            M[a, b] = Q[place[a], place[b]]
        M[a, a] += ridge
    for t in range(n_in):
        if not M[t, t] > 0.0:
            return better
        for a in range(t + 1, k):
            share = M[a, t] / M[t, t]
            for b in range(t + 1, k):
                M[a, b] -= share * M[t, b]
    S = M[n_in:, n_in:].copy()
    start, L, n_steps = np.empty(n_open), np.empty((n_open, n_open)), 3
    is_inside = True
    for a in range(n_open):
        start[a] = 0.95 * d[place[n_in + a]]
        is_inside = is_inside and start[a] > 0.0
    if not is_inside or not factor(S, start, L):
        start[:] = 0.5 * max(least_eigenvalue(S, trace(S)), 0.5 * ridge)
        n_steps = 25
    weight = np.empty(n_open)
    for a in range(n_open):
        j = place[n_in + a]
        _, knot = envelope(start[a], lo[j], hi[j], toll[j])
        share = min(y[j] / knot, 1.0) if knot > 0.0 else 1.0
        gain = 0.5 * y[j] ** 2 * (1.0 / share - 1.0) if share > 1e-12 else 0.0
        weight[a] = gain * start[a] + 0.01 * toll[j] + 1e-12
    chosen = choose_diagonal(S, weight, start, n_steps)
    for a in range(n_open):
        better[place[n_in + a]] = chosen[a]
    return better


@kernel
def next_multiplier(multiplier, terms, is_in, room):
    """Return the price at which about as many columns pay as the limit leaves room for."""
    useful = np.sort(terms[~is_in])
    last = useful[room - 1] if 0 < room <= useful.shape[0] else 0.0
    following = useful[room] if 0 <= room < useful.shape[0] else 0.0
    between = max(-0.5 * (last + following), 0.0)
    return 0.5 * (multiplier + between) if is_number(between) else multiplier


@kernel
def improve(model, ranges, d, is_priced, multiplier, is_limited, cutoff, n_diagonals):
    """Try diagonals and their minima; return the best bound, its point, diagonal, multiplier."""
    k = d.shape[0]
    g, inside, terms = np.empty(k), np.empty(k), np.empty(k)
    y, best_d = model.x.copy(), np.zeros(k)
    best = split(model, ranges, y, best_d, g, inside, terms)
    for i in range(n_diagonals):
        toll = ranges.price + np.where(is_priced, multiplier, 0.0)
        if i > 0:
            d = next_diagonal(model, ranges, d, y, toll)
        d = certify_diagonal(model.Q, d, model.n_rows)[0]
        if i > 0 or d.max() > 0.0:
            there = minimise_relaxation(model, ranges, d, toll, y)
            value = split(model, ranges, there, d, g, inside, terms)
            if not is_number(value):
                break
            if is_limited or multiplier > 0.0:
                multiplier = next_multiplier(multiplier, terms, ranges.is_in, ranges.room)
            if value >= best:
                is_stuck = value - best < 0.01 * (cutoff - value)
                best, y, best_d = value, there, d
                if i > 1 and is_stuck:
                    break
        if best >= cutoff:
            break
    return best, y, best_d, multiplier


# -- shrinking a node --------------------------------------------------------------------


@kernel
def least_weight(price, room, nu, steepest):
    """Return a weight below which a column does not pay its price.

    In an optimal solution dropping column j does not help and the gradient of its weight is
    zero. So risk (cosh w_j - 1) + nu (sinh w_j - w_j) >= price_j with the exponential loss,
    and max l'' w_j^2 / 2 >= price_j with the others. ``room`` is an upper limit of the risk
    and the price of the column together, ``steepest`` is max l'' or 0 for the exponential.
    """
    if steepest > 0.0:
        return math.sqrt(2.0 * price / steepest) * (1.0 - 1e-9)
    ratio = price / max(max(room - price, 0.0) + nu, 1e-300)
    return math.acosh(1.0 + ratio) * (1.0 - 1e-9) if ratio < 1e12 else 20.0 * (1.0 - 1e-9)


@kernel
def limit_weights(ranges, cutoff, nu, steepest, stays):
    """Raise lower limits to the least useful weights; False if the node has no solution left."""
    price, is_in, lo, hi, step = ranges.price, ranges.is_in, ranges.lo, ranges.hi, ranges.step
    room = cutoff
    for j in range(lo.shape[0]):
        if is_in[j]:
            room -= price[j]
    for j in range(lo.shape[0]):
        stays[j] = True
        if step[j] > 0.0:
            least = step[j]
        else:
            least = least_weight(price[j], room + (price[j] if is_in[j] else 0.0), nu, steepest)
        if not is_in[j]:
            lo[j] = max(lo[j], least)
            stays[j] = hi[j] >= max(lo[j], 1e-12)
            continue
        if price[j] > 0.0:
            lo[j] = max(lo[j], least)
        if lo[j] > hi[j] + 1e-9 * (1.0 + hi[j]):
            return False
        lo[j] = min(lo[j], hi[j])  # rounding
    return True


@kernel
def cut_ranges(g, d, budget, below, above):
    """Write the range of weights with g x + d x^2 / 2 <= budget, as far as one is known."""
    for j in range(g.shape[0]):
        below[j], above[j] = -np.inf, np.inf
        square = g[j] * g[j] + 2.0 * d[j] * budget[j]
        if d[j] > 1e-9 and square >= 0.0 and is_number(square):
            root = math.sqrt(square)
            below[j], above[j] = (-g[j] - root) / d[j], (root - g[j]) / d[j]
        elif d[j] >= 0.0 and g[j] > 0.0:
            above[j] = budget[j] / g[j]


@kernel
def shrink(ranges, below, above):
    """Shrink ranges, with a margin for rounding, to multiples of the step where there is one."""
    is_in, lo, hi, step = ranges.is_in, ranges.lo, ranges.hi, ranges.step
    for j in range(lo.shape[0]):
        if is_number(above[j]):
            top = above[j] + 1e-7 * abs(above[j]) + 1e-9
            if step[j] > 0.0:
                top = math.floor(top / step[j]) * step[j]
            hi[j] = min(hi[j], top)
        if is_in[j] and is_number(below[j]):
            bottom = below[j] - 1e-7 * abs(below[j]) - 1e-9
            if step[j] > 0.0:
                bottom = math.ceil(bottom / step[j]) * step[j]
            lo[j] = max(lo[j], bottom)


@kernel
def reduced(value, inside, terms, ranges, without, within):
    """Write the bound if a column is out, and if it is in, of a bound with these terms.

    Without a column the bound loses its term; under a limit, one that is out frees a place
    for the next best, and one that comes in takes the last place.
    """
    is_in, room = ranges.is_in, ranges.room
    last, following, n_taken = 0.0, 0.0, 0
    useful = np.sort(terms[~is_in])
    if room < useful.shape[0]:
        following = useful[room]
        last = useful[room - 1] if room > 0 else -np.inf
    for j in range(terms.shape[0]):
        if is_in[j]:
            without[j], within[j] = np.inf, value
            continue
        without[j], beside = value, value - last
        if terms[j] <= last and n_taken < room:
            n_taken += 1
            without[j], beside = value + following - terms[j], value - terms[j]
        within[j] = beside + ranges.price[j] + inside[j]


@kernel
def fix(model, ranges, y, d, cutoff, stays):
    """Decide columns by their reduced costs and cut ranges; False if the node is closed.

    ``stays`` is False for columns that are out already, and becomes so for others.
    """
    k = d.shape[0]
    g, inside, terms = np.empty(k), np.empty(k), np.empty(k)
    without, within = np.empty(k), np.empty(k)
    value = split(model, ranges, y, d, g, inside, terms)
    if not is_number(value):
        return True
    reduced(value, inside, terms, ranges, without, within)
    budget = cutoff - within + inside  # of what a column may add inside its range
    if not decide(ranges, without, within, cutoff, stays):
        return False
    below, above = np.empty(k), np.empty(k)
    cut_ranges(g, d, budget, below, above)
    shrink(ranges, below, above)
    return True


@kernel
def decide(ranges, without, within, cutoff, stays):
    """Decide columns by the bounds without and with them; False if neither is possible."""
    for j in range(stays.shape[0]):
        if ranges.is_in[j]:
            continue
        stays[j] = stays[j] and within[j] < cutoff
        if without[j] >= cutoff:
            ranges.is_in[j] = True
            if not stays[j]:
                return False
    return True


@kernel
def shells(model, ranges, d, toll, kappa, etas, radii, cutoff, without, within):
    """Bound the node by the growth of the exponential loss with the distance from x.

    Q here is risk E[aa'], the curvature at x, and D <= Q. With r^2 = (w - x)' E[aa'] (w - x),

        risk(w) >= risk - s'(w - x) + risk r^2 q(kappa r)

    (see `totalqboost.solvers.exact.skewness`). For any eta the bound V(eta) of the lemma with
    2 eta Q for Q gives F(w) >= V(eta) + risk (r^2 q(kappa r) - eta r^2), where the last term is
    concave in r^2: on a shell of radii the lower of its values at the two ends. Each shell takes
    the eta that suits it best. Writes the bounds without and with each column; returns the
    bound, the radius beyond which nothing is below ``cutoff``, and the eta of the worst shell.
    """
    k, n_etas, n_shells = d.shape[0], etas.shape[0], radii.shape[0] - 1
    g, inside, terms = np.empty(k), np.empty(k), np.empty(k)
    values = np.empty(n_etas)
    outs, ins = np.empty((n_etas, k)), np.empty((n_etas, k))
    y = model.x.copy()
    for e in range(n_etas):
        scaled = Quadratic(
            model.risk,
            model.weight,
            model.nu,
            model.s,
            2.0 * etas[e] * model.Q,
            model.x,
            model.n_rows,
        )
        part = (2.0 * etas[e] * (1.0 - 1e-9)) * d
        if etas[e] > 0.0:
            y = minimise_relaxation(scaled, ranges, part, toll, y)
        values[e] = split(scaled, ranges, y, part, g, inside, terms)
        reduced(values[e], inside, terms, ranges, outs[e], ins[e])
    bound, radius, worst = np.inf, 0.0, 0.0
    without[:], within[:] = np.inf, np.inf
    out, within_one = np.empty(k), np.empty(k)
    for a in range(n_shells):
        best, best_eta = -np.inf, 0.0
        out[:], within_one[:] = -np.inf, -np.inf
        for e in range(n_etas):
            if not is_number(values[e]):
                continue
            rise = growth(kappa, radii[a], etas[e])
            if is_number(radii[a + 1]):
                rise = min(rise, growth(kappa, radii[a + 1], etas[e]))
            elif etas[e] > 0.0:
                continue
            rise *= model.risk
            if values[e] + rise > best:
                best, best_eta = values[e] + rise, etas[e]
            for j in range(k):
                out[j] = max(out[j], outs[e, j] + rise)
                within_one[j] = max(within_one[j], ins[e, j] + rise)
        if best < cutoff:
            radius = radii[a + 1]
        if best < bound:
            bound, worst = best, best_eta
        for j in range(k):
            without[j] = min(without[j], out[j])
            within[j] = min(within[j], within_one[j])
    return bound, radius, worst


@kernel
def growth(kappa, r, eta):
    """Return r^2 q(kappa r) - eta r^2, rounded down."""
    return r * r * (exponential_ratio(kappa * r) * (1.0 - 1e-6) - eta * (1.0 + 1e-9))


@kernel
def confine(model, ranges, y, d, cutoff, E, R):
    """Shrink ranges to the ellipsoid that the curvature left by d proves.

    (w - y)' E (w - y) <= excess = cutoff - bound, E = (Q - D) / 2 less its rounding. Where E
    is nearly singular, a ridge adds at most its size times the squared width of the node.
    Writes E and the transposed inverse R of its factor; returns the bound and the excess, an
    infinite one where nothing is proven.
    """
    Q, is_in, lo, hi, k = model.Q, ranges.is_in, ranges.lo, ranges.hi, d.shape[0]
    g, inside, terms = np.empty(k), np.empty(k), np.empty(k)
    value = split(model, ranges, y, d, g, inside, terms)
    excess = cutoff - value
    if not is_number(excess) or excess <= 0.0:
        return value, np.inf
    slack = rounding(Q, model.n_rows)
    squares = 0.0
    for a in range(k):
        low = lo[a] if is_in[a] else 0.0
        width = max(hi[a] - y[a], y[a] - low)
        squares += width * width
        for b in range(k):
            E[a, b] = 0.5 * Q[a, b]
        E[a, a] -= 0.5 * d[a] + slack
    L, none = np.empty((k, k)), np.zeros(k)
    if not is_well_factored(E, L):
        if not is_number(squares):
            return value, np.inf
        ridge = RIDGE * trace(Q) + 1e-3 * excess / max(squares, 1e-12)
        for a in range(k):
            E[a, a] += ridge
        excess += ridge * squares
        if not factor(E, none, L):
            return value, np.inf
    invert_factor(L, R)
    below, above = np.empty(k), np.empty(k)
    for a in range(k):
        total = 0.0
        for t in range(a, k):
            total += R[a, t] * R[a, t]
        radius = math.sqrt(excess * total) * (1.0 + 1e-4)
        below[a], above[a] = y[a] - radius, y[a] + radius
        is_in[a] = is_in[a] or below[a] > 1e-6  # one that cannot be zero is in
    shrink(ranges, below, above)
    return value, excess


@kernel
def is_well_factored(E, L):
    """Write the Cholesky factor of E; tell whether there is one with a tame diagonal."""
    if not factor(E, np.zeros(E.shape[0]), L):
        return False
    least, largest = np.inf, 0.0
    for a in range(E.shape[0]):
        least, largest = min(least, L[a, a]), max(largest, L[a, a])
    return least >= WELL * largest


@kernel
def confine_margins(A, columns, R, excess, z, x, y, needs_low, low, high):
    """Shrink the ranges of the margins to the ellipsoid of `confine`."""
    k, m = columns.shape[0], z.shape[0]
    B, half = np.empty((k, BLOCK)), np.empty((k, BLOCK))
    T = np.ascontiguousarray(R.T)
    for first in range(0, m, BLOCK):
        size = min(BLOCK, m - first)
        for a in range(k):
            for i in range(size):
                B[a, i] = A[columns[a], first + i]
            for i in range(size, BLOCK):
                B[a, i] = 0.0
        np.dot(T, B, half)
        for i in range(size):
            squares, at = 0.0, z[first + i]
            for a in range(k):
                squares += half[a, i] * half[a, i]
                at += (y[a] - x[a]) * B[a, i]
            reach = math.sqrt(excess * squares) * (1.0 + 1e-4) + 1e-9
            high[first + i] = min(high[first + i], at + reach)
            if needs_low:
                low[first + i] = max(low[first + i], at - reach)
