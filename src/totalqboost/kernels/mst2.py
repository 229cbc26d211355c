"""A new start from an old point: SELECT_VARIABLES and STEEPEST_ASCENT of MST2.

Palubeckis, "Multistart tabu search strategies for the unconstrained binary quadratic
optimization problem", Annals of Operations Research 131 (2004), 259-282, has a quadratic function
of bits x. There the coefficients after a substitution are what flips gain: d_i + sum of d_ik over
the flipped k is the gain of i after those flips. So the procedures need nothing but gains, and
hold for any objective:

    select   flip a share of the variables one by one, each drawn by what it gains now
    ascend   of these, decide one by one which stay flipped: the one for which the gain with all
             undecided ones at their old values, plus the gain with all of them flipped, is furthest
             from zero, and by its sign

A variable is one bit of one weight; or, by levels, whether a column is kept, where a column that
enters takes its best level. Each step costs one product A u. The loops are in
:mod:`totalqboost.solvers.restarts`.
"""

from __future__ import annotations

import numpy as np

from totalqboost.kernels.groups import count_readers, group_change
from totalqboost.kernels.jit import kernel
from totalqboost.kernels.neighbourhood import LEAST_CURVATURE, best_level_of, risk_after
from totalqboost.kernels.newton import correlate, loss_terms

PREFERENCE = 5000.0  # lambda of the paper: how much more a variable that gains is preferred


@kernel
def flipped(code, level, bit, by_bits, step, top, f, s, total, nu):
    """Return the level after a flip: of one bit, or of whether the column is kept."""
    if by_bits:
        return level ^ (1 << bit)
    if level > 0:
        return 0
    return max(1, best_level_of(code, level, step, top, f, s, total, nu))


@kernel
def flip_gains(
    code, levels, f, s, total, nu, price, groups, limit, step, n_bits, by_bits, counts, gains, to
):
    """Write what the flip of each variable gains and the level that it leads to.

    The gain is -inf where a column may not enter because of a limit.
    """
    top = (1 << n_bits) - 1
    n_read = count_readers(groups, levels > 0, counts)
    kept = 0
    for j in range(levels.shape[0]):
        kept += 1 if levels[j] > 0 and price[j] >= 0.0 else 0
    for j in range(levels.shape[0]):
        enters, n_new = 0.0, 0
        if groups.first[j + 1] > groups.first[j]:
            is_kept = levels[j] > 0
            enters, n_new = group_change(groups, counts, j if is_kept else -1, -1 if is_kept else j)
        for bit in range(gains.shape[1]):
            new = flipped(code, levels[j], bit, by_bits, step[j], top, f, s[j], total, nu[j])
            to[j, bit] = new
            change = 0
            if price[j] >= 0.0:
                change = (1 if new > 0 else 0) - (1 if levels[j] > 0 else 0)
            if change > 0 and (kept >= limit or n_read + n_new > groups.limit):
                gains[j, bit] = -np.inf
                continue
            d = (new - levels[j]) * step[j]
            gain = f - risk_after(code, f, s[j], total, d) - nu[j] * d
            gains[j, bit] = gain - change * price[j] - (enters if change != 0 else 0.0)


@kernel
def preference(gain, least, most):
    """Return how likely a variable of this gain is drawn, in any unit."""
    if gain == -np.inf:
        return 0.0
    if least == most:
        return 1.0
    if gain > 0.0:
        return 1.0 + PREFERENCE * (gain / most)
    return 1.0 - gain / least if least < 0.0 else 0.0


@kernel
def draw(gains, is_taken, chance):
    """Return the place of a variable not taken, at random by its gain; -1 if there is none."""
    least, most = np.inf, -np.inf
    for k in range(gains.shape[0]):
        if not is_taken[k] and gains[k] > -np.inf:
            least, most = min(least, gains[k]), max(most, gains[k])
    total, last = 0.0, -1
    for k in range(gains.shape[0]):
        if not is_taken[k] and gains[k] > -np.inf:
            total += preference(gains[k], least, most)
            last = k
    rest = chance * total
    for k in range(gains.shape[0]):
        if not is_taken[k] and gains[k] > -np.inf:
            rest -= preference(gains[k], least, most)
            if rest < 0.0:
                return k
    return last


@kernel
def look(code, A, c, z, u, q, s):
    """Write s = A u; return the risk and the sum of curvatures."""
    f = loss_terms(code, z, c, u, q)
    correlate(A, np.arange(A.shape[0]), u, s)
    return f, max(q.sum(), LEAST_CURVATURE)


@kernel
def shift(A, z, levels, step, j, to):
    """Set one level, and bring the margins up to date."""
    d = (to - levels[j]) * step[j]
    levels[j] = to
    for i in range(z.shape[0]):
        z[i] += d * A[j, i]


@kernel
def most_decided(gains_low, gains_high, is_open):
    """Return the undecided variable with the clearest answer, and whether it flips.

    ``gains_low`` are those of flips while all undecided ones have their old values,
    ``gains_high`` those of going back after all were flipped. Where limits forbid one of the two
    the answer is the other, but not before all who may choose have chosen. They never forbid
    both: what leaves may leave, and what has entered may go back.
    """
    best, place, flips = -np.inf, -1, False
    last, forced, answer = -np.inf, -1, False
    for k in range(is_open.shape[0]):
        if not is_open[k]:
            continue
        low, high = gains_low[k], gains_high[k]
        if low > -np.inf and high > -np.inf:
            score = abs(low - high)
            if score > best:
                best, place = score, k
                flips = low > high or (low == high and low >= 0.0)
        elif max(low, high) > last or forced < 0:
            last, forced, answer = max(low, high), k, low > -np.inf
    if place >= 0:
        return place, flips
    return forced, answer
