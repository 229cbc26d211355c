"""Exchange with the whole dictionary: second-order gains of every swap, and swaps made true.

An ensemble holds p slots: columns a_l = y h_l (row-major in AT, one row per example), signed
weights w, margins z = AT w. With u = -c l'(z), q = c l''(z), G = AT' diag(q) AT and M the
inverse of G, a newcomer s with edge e_s, Gram row x_s and R_s = x_s M has

    V_s = G_ss - x_s R_s                                              (what the slots leave of it)
    add s         (|e_s| - nu)^2 / (2 V_s)
    swap l -> s   (|e_s + R_sl w_l / M_ll| - nu)^2 / (2 (V_s + R_sl^2 / M_ll)) - w_l^2 / (2 M_ll)

as the decrease of the objective when all weights follow. One pass over the codes gives e_s and
x_s of every cut (:func:`cut_sums`). Scores are in single precision: they propose, and the
objective in double precision decides.
"""

from __future__ import annotations

import math

import numpy as np

from totalqboost.kernels.jit import kernel, short_kernel
from totalqboost.kernels.loss_codes import EXPONENTIAL, LOGISTIC, MAX_EXPONENT
from totalqboost.kernels.newton import loss_at, loss_terms, sum_of

NONE = -1
MAX_STEPS = 30


@kernel
def add_columns(AT, d, z):
    """Add sum_l d_l AT[:, l] to z."""
    p = d.shape[0]
    for i in range(z.shape[0]):
        total = 0.0
        for a in range(p):
            total += AT[i, a] * d[a]
        z[i] += total


@kernel
def slot_edges(AT, p, u, out):
    """Write out_l = sum_i AT[i, l] u_i for the first p slots."""
    out[:p] = 0.0
    for i in range(u.shape[0]):
        for a in range(p):
            out[a] += u[i] * AT[i, a]


@kernel
def weigh_rows(AT, p, y, u, q, rows, scale, Q):
    """Write the right-hand sides of a pass: y u, then q h_l per slot, times ``scale``."""
    for r in range(rows.shape[0]):
        i = rows[r]
        Q[r, 0] = scale * y[i] * u[i]
        weight = np.float32(scale * y[i] * q[i])
        for a in range(p):
            Q[r, 1 + a] = weight * np.float32(AT[i, a])


@kernel
def cut_edges(codes, offsets, first, last, v, edges):
    """Do what :func:`cut_sums` does with one right-hand side; four rows do not wait for another."""
    n = v.shape[0]
    whole = n - n % 4
    for f in range(first, last):
        parts = np.zeros((4, 256))
        for i in range(0, whole, 4):
            for t in range(4):
                parts[t, codes[f, i + t]] += v[i + t]
        for i in range(whole, n):
            parts[0, codes[f, i]] += v[i]
        running = parts.sum()
        for cut in range(offsets[f], offsets[f + 1]):
            for t in range(4):
                running -= 2.0 * parts[t, cut - offsets[f]]
            edges[cut] = running


@kernel
def cut_sums(codes, rows, offsets, first, last, Q, total, sums):
    """Write sum_i h_s(x_i) Q[i] for all cuts s of the features first..last-1.

    h_s = +1 for codes above the cut; ``offsets`` say where a feature's cuts begin in ``sums``
    and ``total`` is the sum of Q over its rows. Every feature's histogram is made in place.
    """
    width = Q.shape[1]
    running = np.empty(width, np.float32)
    for f in range(first, last):
        start, n_cuts = offsets[f], offsets[f + 1] - offsets[f]
        bins = sums[start : start + n_cuts]
        bins[:] = 0.0
        own = codes[f]
        for r in range(rows.shape[0]):
            code = own[rows[r]]
            if code < n_cuts:
                for t in range(width):
                    bins[code, t] += Q[r, t]
        for t in range(width):  # loops, not array expressions: they compile many times faster
            running[t] = total[t]
        for cut in range(n_cuts):
            for t in range(width):
                running[t] -= np.float32(2.0) * bins[cut, t]
                bins[cut, t] = running[t]


@kernel
def bin_sums(codes, rows, Q, bins):
    """Add Q[r] of every row to its bin."""
    for r in range(rows.shape[0]):
        code = codes[rows[r]]
        for t in range(Q.shape[1]):
            bins[code, t] += Q[r, t]


@short_kernel
def sums_above_cuts(bins, is_above, out):
    """Write sums above each cut, the last bin on its side, then on the other, and that bin alone.

    ``is_above`` tells for each cut whether the last bin, of what is missing, counts as above it.
    """
    n_cuts = is_above.shape[0]
    missing, total = bins[n_cuts + 1], out[2 * n_cuts]
    total[:] = 0.0
    for c in range(n_cuts + 1):
        for t in range(bins.shape[1]):
            total[t] += bins[c, t]
            if c < n_cuts:
                out[c, t] = total[t]
    for c in range(n_cuts):
        for t in range(bins.shape[1]):
            above = total[t] - out[c, t]
            out[c, t] = above + missing[t] if is_above[c] else above
            out[n_cuts + c, t] = above if is_above[c] else above + missing[t]
    total[:] = missing


@kernel
def score_swaps(
    sums,
    R,
    p,
    n_fixed,
    is_signed,
    fees,
    freed,
    features,
    last,
    again,
    nu,
    w,
    M,
    total,
    least,
    gains,
    newcomers,
):
    """Find the best newcomer for each slot and the best addition.

    ``sums`` holds e_s and x_s, ``R`` = x_s M, ``total`` = G_ss. The first n_fixed slots stay.
    Denominators below ``least`` total belong to columns that the slots hold already. A newcomer
    pays ``fees``; in the place of a slot that alone looks at feature ``last`` (-1: there are
    others) it pays ``freed``, and ``again`` if it looks at that feature too. Writes gain and
    newcomer per slot, the fee of the slot not counted, and returns newcomer and gain of an
    addition.
    """
    single = np.float32
    inverse, push = np.empty(p, np.float32), np.empty(p, np.float32)
    for a in range(p):
        inverse[a] = 1.0 / M[a, a]
        push[a] = w[a] / M[a, a]
    best, reach = np.zeros(p, np.float32), np.empty(p, np.float32)
    fee = np.zeros(p, np.float32)
    has_last, before = False, single(0.0)
    for a in range(p):
        has_last = has_last or last[a] >= 0
    newcomers[:] = NONE
    addition, best_addition = NONE, single(0.0)
    limit, price = single(least * total), single(nu)
    for s in range(sums.shape[0]):
        edge, own = sums[s, 0], single(total)
        for a in range(p):
            own -= R[s, a] * sums[s, 1 + a]
        own = max(own, single(0.0))
        signed, twice = is_signed[s], single(2.0 * fees[s])
        size = (abs(edge) if signed else edge) - price
        if own > limit and size > single(0.0) and size * size > (best_addition + twice) * own:
            addition, best_addition = s, size * size / own - twice
        if twice != before or has_last:
            fee[:] = twice
            before = twice
        if has_last:
            for a in range(p):
                if last[a] >= 0:
                    fee[a] = 2.0 * (freed[s] + (again[a] if features[s] == last[a] else 0.0))
        is_better = False
        for a in range(p):  # without a division, so that most newcomers cost little
            top = edge + R[s, a] * push[a]
            top = (abs(top) if signed else max(top, single(0.0))) - price
            below = own + R[s, a] * R[s, a] * inverse[a]
            reach[a] = top * abs(top) - (best[a] + fee[a]) * below
            is_better |= reach[a] > single(0.0)
        if is_better:
            for a in range(n_fixed, p):
                if reach[a] > single(0.0):
                    below = own + R[s, a] * R[s, a] * inverse[a]
                    if below > limit:
                        best[a] += reach[a] / below
                        newcomers[a] = s
    for a in range(p):
        gains[a] = 0.5 * (best[a] - w[a] * push[a])
    return addition, 0.5 * best_addition


@kernel
def penalty(nu, w):
    """Return sum_l nu_l |w_l|."""
    total = 0.0
    for a in range(w.shape[0]):
        total += nu[a] * abs(w[a])
    return total


@kernel
def quasi_newton(AT, w, least, z, c, code, nu, M, value, u, q, n_steps, close, target):
    """Move w, z, u, q by steps M g with line search; return the value and the last decrement.

    M stays as it is but for a factor, the fall of the curvature since it was made. Weights stay
    above ``least`` (-inf or 0). Steps that lower the value by a fifth, as they do where classes
    separate, are not counted, up to MAX_STEPS. Gives up where not even twice the decrement
    reaches ``target``.
    """
    p, m = w.shape[0], z.shape[0]
    g, d, trial = np.empty(p), np.empty(p), np.empty(m)
    curvature = sum_of(q)
    decrement = 0.0
    n_counted = 0
    for step in range(MAX_STEPS):
        if n_counted == n_steps:
            break
        slot_edges(AT, p, u, g)
        for a in range(p):
            g[a] -= nu[a] * (1.0 if w[a] > 0.0 else -1.0 if w[a] < 0.0 else 0.0)
        now = sum_of(q)
        factor = curvature / now if step > 0 and now > 0.0 else 1.0
        decrement = 0.0
        for a in range(p):
            total = 0.0
            for b in range(p):
                total += M[a, b] * g[b]
            d[a] = max(factor * total, least[a] - w[a])
            decrement += 0.5 * g[a] * d[a]
        if decrement < close or value - 2.0 * decrement > target:
            break
        new = np.inf
        for _ in range(6):
            for i in range(m):
                trial[i] = z[i]
            add_columns(AT, d, trial)
            for a in range(p):
                g[a] = w[a] + d[a]
            new = loss_terms(code, trial, c, u, q) + penalty(nu, g)
            if new <= value:
                break
            for a in range(p):
                d[a] *= 0.4
        if not new <= value:
            loss_terms(code, z, c, u, q)
            break
        for i in range(m):
            z[i] = trial[i]
        for a in range(p):
            w[a] = g[a]
        n_counted += new > 0.8 * value
        value = new
    return value, decrement


@kernel
def swapped_model(AT, p, j, column, M, u, qref, w, nu, out_M, delta):
    """Model the swap of slot j for ``column``: inverse, shift of the weights and gain.

    Writes the new inverse to out_M and the change of the other weights to delta; delta_j is
    the newcomer's weight. Returns the gain, -inf if the slots hold the column already.
    """
    m = column.shape[0]
    weighted = np.empty(m)
    edge, own = 0.0, 0.0
    for i in range(m):
        weighted[i] = column[i] * qref[i]
        edge += column[i] * u[i]
        own += qref[i]
    x, b = np.empty(p), np.empty(p)
    slot_edges(AT, p, weighted, x)
    pivot, r = M[j, j], 0.0
    for a in range(p):
        r += x[a] * M[a, j]
    rest = own
    for a in range(p):
        total = -M[a, j] * r / pivot
        for t in range(p):
            total += M[a, t] * x[t]
        b[a] = total
        if a != j:
            rest -= x[a] * total
    if rest < 1e-6 * own:
        return -np.inf
    b[j] = -1.0
    edge += r * w[j] / pivot
    sign = 1.0 if edge > 0.0 else -1.0
    size = max(abs(edge) - nu, 0.0)
    weight = sign * size / rest
    for a in range(p):
        for t in range(p):
            out_M[a, t] = M[a, t] - M[a, j] * M[t, j] / pivot + b[a] * b[t] / rest
    for a in range(p):
        out_M[a, j] = out_M[j, a] = -b[a] / rest
        delta[a] = -M[a, j] * w[j] / pivot - b[a] * weight
    delta[j] = weight
    return 0.5 * size * size / rest - 0.5 * w[j] * w[j] / pivot


@kernel
def shift_cut(order, start, cut, low, high, move, y, z, u, c, code):
    """Find the best cut of one stump between low and high, all weights as they are.

    Row order[t] has the t-th smallest code, those of code b begin at start[b]. Raising the cut
    past a row lowers its score by ``move`` (twice the weight), lowering it raises it; u holds
    -c l'(z). Returns the cut and the change of the risk.
    """
    best, place = 0.0, cut
    grow, shrink = math.expm1(min(move, MAX_EXPONENT)), math.expm1(min(-move, MAX_EXPONENT))
    for direction in range(2):
        change = 0.0
        at = cut
        while at < high if direction == 0 else at > low:
            b = at + 1 if direction == 0 else at
            for t in range(start[b], start[b + 1]):
                i = order[t]
                is_lower = (y[i] > 0) == (direction == 0)  # does the margin fall?
                factor = grow if is_lower else shrink
                if code == EXPONENTIAL:
                    change += u[i] * factor
                elif code == LOGISTIC:  # log(1 + e^(m - z)) - log(1 + e^-z), u / c = 1 / (1 + e^z)
                    change += c[i] * math.log1p(u[i] / c[i] * factor) if u[i] > 0.0 else 0.0
                else:
                    after = loss_at(code, z[i] - move if is_lower else z[i] + move)[0]
                    change += c[i] * (after - loss_at(code, z[i])[0])
            at += 1 if direction == 0 else -1
            if change < best:
                best, place = change, at
    return place, best
