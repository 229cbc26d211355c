"""All one-weight moves at once: s = A u scores every neighbour of a weight vector.

Moving w_j by d turns the exponential risk f into e^-d P_j + e^d N_j with
P_j = (f + s_j) / 2 and N_j = (f - s_j) / 2, so one product with u prices every bit flip
and every level of every weight. Other losses have the model f - s_j d + Q d^2 / 2, where Q is
the sum of curvatures (columns are signs); their best few moves are then evaluated exactly.
A holds one row of int8 signs per weak classifier.
"""

from __future__ import annotations

import math

import numpy as np

from totalqboost.kernels.groups import (
    admit,
    count_readers,
    dismiss,
    group_change,
    group_price,
)
from totalqboost.kernels.jit import kernel
from totalqboost.kernels.loss_codes import EXPONENTIAL
from totalqboost.kernels.newton import correlate, loss_at, loss_terms, margins

N_BEST = 5  # moves that a rank may choose from
LEAST_CURVATURE = 1e-12


@kernel
def weigh(A, w, c, z, u):
    """Write u = c exp(-z), z = sum_j w_j A[j]; return the sum of u."""
    margins(A, np.arange(A.shape[0]), w, z)
    total = 0.0
    for i in range(A.shape[1]):
        e = c[i] * math.exp(min(-z[i], 80.0))  # within float32
        u[i] = e
        total += e
    return total


@kernel
def value_after(P, N, nu, d):
    """Return the risk and l1 term after a weight has moved by d; finite for any d."""
    e = math.exp(min(abs(d), 700.0))
    up, down = (e, 1.0 / e) if d > 0.0 else (1.0 / e, e)
    return down * P + up * N + nu * d


@kernel
def best_level(level, step, top, f, s, nu, to_zero):
    """Return the level of one weight that is best for the risk and nu, or 0 if to_zero.

    N z^2 + nu z - P = 0 with z = e^d gives the best shift d of the weight; the objective is
    convex in d, so the best level is one of its two neighbours.
    """
    if to_zero:
        return 0
    P, N = max(0.5 * (f + s), 1e-12), max(0.5 * (f - s), 1e-12)
    shift = math.log(2.0 * P / (math.sqrt(nu * nu + 4.0 * P * N) + nu))  # without cancellation
    low = min(max(level + math.floor(shift / step), 0), top)
    high = min(low + 1, top)
    d_low, d_high = (low - level) * step, (high - level) * step
    if value_after(P, N, nu, d_low) <= value_after(P, N, nu, d_high):
        return low
    return high


@kernel
def best_level_of(code, level, step, top, f, s, total, nu):
    """Return the level of one weight that is best for nu and the risk or its model."""
    if code == EXPONENTIAL:
        return best_level(level, step, top, f, s, nu, False)
    shift = (s - nu) / (total * step)
    return int(min(max(level + np.rint(min(max(shift, -1e6), 1e6)), 0), top))


@kernel
def risk_after(code, f, s, total, d):
    """Return the risk, or that of the model, after a weight has moved by d."""
    if code != EXPONENTIAL:
        return f - s * d + 0.5 * total * d * d
    e = math.exp(min(abs(d), 700.0))
    up, down = (e, 1.0 / e) if d > 0.0 else (1.0 / e, e)
    return 0.5 * ((f + s) * down + (f - s) * up)


@kernel
def fixed_part(levels, step, nu, price):
    """Return the l1 term and the prices of the kept columns, and how many have a price."""
    fixed, kept = 0.0, 0
    for j in range(levels.shape[0]):
        fixed += nu[j] * step[j] * levels[j]
        if levels[j] > 0 and price[j] >= 0.0:
            fixed += price[j]
            kept += 1
    return fixed, kept


@kernel
def insert(values, moves, value, column, kind, level):
    """Put a move into its place in the list of the best, whose last it beats."""
    place = values.shape[0] - 1
    while place > 0 and values[place - 1] > value:
        values[place] = values[place - 1]
        for part in range(3):
            moves[place, part] = moves[place - 1, part]
        place -= 1
    values[place] = value
    moves[place, 0], moves[place, 1], moves[place, 2] = column, kind, level


@kernel
def best_neighbours(
    code, levels, f, s, total, fixed, room, nu, price, groups, counts, spare, step, growth, by_bits,
    tabu_until, t, aspired, values, moves,
):  # fmt: skip
    """Write the best moves (column, kind, level) with their values, infinite where there is none.

    A tabu move must be below ``aspired``; a column may enter only where there is room, and read
    at most ``spare`` features that no other does.
    ``growth`` holds e^d of every bit: no exponentials for them inside the walk.
    """
    top = (1 << growth.shape[1]) - 1
    values[:] = np.inf
    for j in range(levels.shape[0]):
        to = -1
        enters, n_new = 0.0, 0  # what features add if the column changes sides
        if groups.first[j + 1] > groups.first[j]:
            is_kept = levels[j] > 0
            enters, n_new = group_change(groups, counts, j if is_kept else -1, -1 if is_kept else j)
        for kind in range(growth.shape[1] if by_bits else 2):
            if by_bits:
                to = levels[j] ^ (1 << kind)
            elif to == 0:
                continue  # zero already is the best level
            elif kind == 1:
                to = 0
            else:
                to = best_level_of(code, levels[j], step[j], top, f, s[j], total, nu[j])
            change = 0
            if price[j] >= 0.0:
                change = (1 if to > 0 else 0) - (1 if levels[j] > 0 else 0)
            if to == levels[j] or change > room or (change > 0 and n_new > spare):
                continue
            d = (to - levels[j]) * step[j]
            if by_bits and code == EXPONENTIAL:
                e = growth[j, kind]
                up, down = (e, 1.0 / e) if d > 0.0 else (1.0 / e, e)
                value = 0.5 * ((f + s[j]) * down + (f - s[j]) * up)
            else:
                value = risk_after(code, f, s[j], total, d)
            value += fixed + nu[j] * d + change * price[j] + (enters if change != 0 else 0.0)
            may_move = tabu_until[j, kind if by_bits else 0] <= t or value < aspired
            if may_move and value < values[N_BEST - 1]:
                insert(values, moves, value, j, kind, to)


@kernel
def evaluate(
    code, A, c, z, f, s, total, levels, step, by_bits, tabu_until, t, aspired, values, moves,
):  # fmt: skip
    """Put true values in the place of those of the model, best first; tabu moves must aspire."""
    model, drafts = values.copy(), moves.copy()
    values[:] = np.inf
    for e in range(N_BEST):
        if model[e] == np.inf:
            break
        j, kind, to = drafts[e, 0], drafts[e, 1], drafts[e, 2]
        d = (to - levels[j]) * step[j]
        risk = 0.0
        for i in range(z.shape[0]):
            risk += c[i] * loss_at(code, z[i] + d * A[j, i])[0]
        value = risk + (model[e] - risk_after(code, f, s[j], total, d))
        if tabu_until[j, kind if by_bits else 0] <= t or value < aspired:
            insert(values, moves, value, j, kind, to)


@kernel
def move_weights(signs, d, u):
    """Bring u up to date after a weight has moved by d; return the sum of u."""
    grow = np.float32(math.exp(max(min(d, 80.0), -80.0)))  # within float32
    shrink = np.float32(1.0) / grow
    total = np.float32(0.0)
    for i in range(u.shape[0]):
        x = u[i] * (shrink if signs[i] > 0 else grow)
        u[i] = x
        total += x
    return float(total)


@kernel
def weigh_any(code, z, c, u, q):
    """Write u of a loss other than the exponential; return the risk and the sum of curvatures."""
    f = loss_terms(code, z, c, u, q)
    return f, max(q.sum(), LEAST_CURVATURE)


@kernel
def bit_growth(step, n_bits):
    """Return e^d for the shift d of every bit of every weight."""
    growth = np.empty((step.shape[0], n_bits))
    for j in range(step.shape[0]):
        for bit in range(n_bits):
            growth[j, bit] = math.exp(min(step[j] * (1 << bit), 700.0))
    return growth


@kernel
def aspiration(code, here, best, target, descends, is_descending):
    """Return the value below which a tabu move is allowed; see ``tabu_walk``."""
    # Better by more than the rounding of single precision.
    rounding = 1e-5 * abs(best) if code == EXPONENTIAL else 1e-9
    if not descends:
        return min(best, target) - rounding
    return here - rounding if is_descending else -np.inf


@kernel
def tabu_walk(
    code, A, c, nu, price, groups, step, n_bits, by_bits, limit, descends, levels, target, tenures,
    ranks, best_levels,
):  # fmt: skip
    """Walk over fixed-point weights w_j = step_j * levels_j in place.

    Move t takes the ranks[t]-th best neighbour (0 is the best) that is not tabu, and forbids its
    variable for tenures[t] moves. A neighbour flips one bit, or sets one weight to its best level
    or to zero. Tabu moves are allowed if they beat the best value so far and ``target``
    (aspiration); or, where the walk ``descends``, only after such a value was reached, as long
    as they go further down (local search). Writes the best levels met and returns their value.
    """
    n, m = A.shape
    u, s, z, q = np.empty(m, np.float32), np.empty(n, np.float32), np.empty(m), np.empty(m)
    tabu_until = np.zeros((n, n_bits), np.int64)  # by bits, or for the column in the first
    every = np.arange(n)
    values, moves = np.empty(N_BEST), np.empty((N_BEST, 3), np.int64)
    growth = bit_growth(step, n_bits)
    counts = np.empty(groups.price.shape[0], np.int64)
    n_read = count_readers(groups, levels > 0, counts)
    best, f, total = np.inf, 0.0, 0.0
    is_descending = False
    for t in range(tenures.shape[0] + 1):
        if t % 1000 == 0:  # float32 products drift: start again from the weights
            f = weigh(A, step * levels, c, z, u)
        if code != EXPONENTIAL:
            f, total = weigh_any(code, z, c, u, q)
        fixed, kept = fixed_part(levels, step, nu, price)
        fixed += group_price(groups, counts)
        here = f + fixed
        if kept <= limit and n_read <= groups.limit and here < best - 1e-9:
            best = here
            best_levels[:] = levels
            if best < target:
                target = best
                is_descending = descends
        if t == tenures.shape[0]:
            break
        correlate(A, every, u, s)
        room, spare = max(limit - kept, 0), max(groups.limit - n_read, 0)
        aspired = aspiration(code, here, best, target, descends, is_descending)
        best_neighbours(
            code, levels, f, s, total, fixed, room, nu, price, groups, counts, spare, step, growth,
            by_bits, tabu_until, t, aspired, values, moves,
        )  # fmt: skip
        if code != EXPONENTIAL:
            evaluate(
                code, A, c, z, f, s, total, levels, step, by_bits, tabu_until, t, aspired, values,
                moves,
            )  # fmt: skip
        is_descending = is_descending and values[0] < aspired
        rank = min(ranks[t], max(np.count_nonzero(values < np.inf) - 1, 0))
        if values[rank] == np.inf:
            continue  # every neighbour is tabu: wait
        j, kind, to = moves[rank, 0], moves[rank, 1], moves[rank, 2]
        d = (to - levels[j]) * step[j]
        if not is_descending:
            # A weight that was only adjusted may be adjusted again soon.
            stay = tenures[t] if by_bits or (to > 0) != (levels[j] > 0) else 1
            tabu_until[j, kind if by_bits else 0] = t + 1 + stay
        if to > 0 and levels[j] == 0:
            n_read += admit(groups, counts, j)
        elif to == 0:
            n_read -= dismiss(groups, counts, j)
        levels[j] = to
        if code == EXPONENTIAL:
            f = move_weights(A[j], d, u)
        else:
            for i in range(m):
                z[i] += d * A[j, i]
    return best
