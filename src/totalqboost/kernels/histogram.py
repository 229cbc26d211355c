"""The stump oracle's inner loop: histograms of boosting weights, then a scan of the cuts.

For each feature, examples fall into bins by their rank code; the histogram holds the sums
of g = u y and of h (the curvature) per bin. A cut after bin b sends larger codes right.
"""

from __future__ import annotations

import math

import numpy as np

from totalqboost.kernels.jit import kernel

BY_EDGE = 0  # sum_i u_i y_i h(x_i): the most violated dual constraint, line 7
BY_EXPONENTIAL_DECREASE = 1  # f - Z: exact decrease together with a free intercept
BY_NEWTON_DECREASE = 2  # second-order decrease together with a free intercept


@kernel
def leaf_value(g, h, tie):
    """Return what is left of the exponential risk h of a leaf with the best constant: h - Z.

    The leaf's weights of the two classes are (h + g)/2 and (h - g)/2, and Z = 2 sqrt(W+ W-).
    A class of no more weight than rounding (``tie``) is absent: the root would magnify it.
    """
    minority = 0.5 * (h - abs(g))
    return h - 2.0 * math.sqrt(minority * (h - minority)) if minority > tie else h


@kernel
def price_of_cut(rule, left_g, left_h, total_g, total_h, nu, tie):
    """Return price and sign of the weight of one cut; see :class:`dictionaries.base.Oracle`."""
    right_g, right_h = total_g - left_g, total_h - left_h
    if rule == BY_EDGE:
        edge = right_g - left_g
        return abs(edge), edge >= 0.0
    is_positive = right_g * left_h >= left_g * right_h
    if rule == BY_EXPONENTIAL_DECREASE:
        return leaf_value(left_g, left_h, tie) + leaf_value(right_g, right_h, tie), is_positive
    price = 0.5 * total_g * total_g / total_h if total_h > 0.0 else 0.0
    spread = left_h * right_h
    if spread > 0.0:
        slope = right_g - left_g - (right_h - left_h) * total_g / total_h
        size = max(abs(slope) - nu, 0.0)
        price += size * size * total_h / (8.0 * spread)
    return price, is_positive


@kernel
def prices_of_cuts(rule, left_g, left_h, total_g, total_h, nu, tie, prices, signs):
    """Write price and sign of the weight of many cuts, given the sums on their -1 sides."""
    for t in range(left_g.shape[0]):
        prices[t], is_positive = price_of_cut(rule, left_g[t], left_h[t], total_g, total_h, nu, tie)
        signs[t] = 1 if is_positive else -1


@kernel
def is_beaten(rule, left_g, left_h, total_g, total_h, nu, price):
    """Tell, without a root or a division, that a cut cannot have more than this price."""
    right_g, right_h = total_g - left_g, total_h - left_h
    if rule == BY_EXPONENTIAL_DECREASE:  # sqrt(a) + sqrt(b) >= sqrt(a + b)
        spare = total_h - price
        return (
            spare > 0.0
            and left_h * left_h - left_g * left_g + right_h * right_h - right_g * right_g
            >= spare * spare
        )
    if rule == BY_NEWTON_DECREASE:  # times 8 H H_L H_R; nu counts only below
        slope = (right_g - left_g) * total_h - (right_h - left_h) * total_g
        spread = left_h * right_h
        return slope * slope + 4.0 * total_g * total_g * spread <= 8.0 * total_h * price * spread
    return abs(right_g - left_g) <= price


@kernel
def fill_histogram(codes, g, h, hist):
    """Add g and h of every example to its bin."""
    for i in range(codes.shape[0]):
        b = codes[i]
        hist[b, 0] += g[i]
        hist[b, 1] += h[i]


@kernel
def write_best_cuts(hist, bins, polarity, rule, nu, blocked, tie, prices, keys, edges):
    """Write the best cuts of one feature, given its histogram; see :func:`best_cuts`."""
    n_best = prices.shape[0]
    total_g, total_h = 0.0, 0.0
    for b in range(bins):
        total_g += hist[b, 0]
        total_h += hist[b, 1]
    left_g, left_h = 0.0, 0.0
    block = 0
    is_full, least = keys[n_best - 1] >= 0, prices[n_best - 1] + tie
    for cut in range(bins - 1):
        left_g += hist[cut, 0]
        left_h += hist[cut, 1]
        if is_full and is_beaten(rule, left_g, left_h, total_g, total_h, nu, least):
            continue
        value, is_positive = price_of_cut(rule, left_g, left_h, total_g, total_h, nu, tie)
        edge = total_g - 2.0 * left_g  # of polarity +1
        for side in range(2):
            if polarity == (1 if side == 1 else -1):
                continue  # the other sign would break the monotone constraint
            key = 2 * cut + side
            while block < blocked.shape[0] and blocked[block] < key:
                block += 1
            if block < blocked.shape[0] and blocked[block] == key:
                continue
            price = value
            if is_positive != (side == 0):
                if rule != BY_EDGE:
                    continue  # a weight below zero would be needed
                price = -value
            place = n_best
            while place > 0 and (keys[place - 1] < 0 or price > prices[place - 1] + tie):
                place -= 1
            if place == n_best:
                continue
            for q in range(n_best - 1, place, -1):
                prices[q] = prices[q - 1]
                keys[q] = keys[q - 1]
                edges[q] = edges[q - 1]
            prices[place] = price
            keys[place] = key
            edges[place] = edge if side == 0 else -edge
            is_full, least = keys[n_best - 1] >= 0, prices[n_best - 1] + tie


@kernel
def best_cuts(
    codes,
    n_codes,
    polarity,
    g,
    h,
    rule,
    nu,
    blocked_start,
    blocked,
    tie,
    first,
    last,
    prices,
    keys,
    edges,
):
    """Write the best cuts of features first..last-1, best first, at most prices.shape[1] each.

    A key is 2 cut + (0 for polarity +1, 1 for -1). ``blocked`` lists the keys that may not
    be offered, sorted, feature f's from blocked_start[f] on. A later cut replaces an
    earlier one only if its price is larger by more than ``tie``. Free places keep key -1.
    ``polarity`` is the only one that a feature may have, 0 if both.
    """
    most = 0
    for f in range(first, last):
        most = max(most, n_codes[f])
    hist = np.empty((most, 2))
    for f in range(first, last):
        bins = n_codes[f]
        hist[:bins] = 0.0
        fill_histogram(codes[f], g, h, hist)
        write_best_cuts(
            hist,
            bins,
            polarity[f],
            rule,
            nu,
            blocked[blocked_start[f] : blocked_start[f + 1]],
            tie,
            prices[f],
            keys[f],
            edges[f],
        )


@kernel
def best_cuts_of_bins(
    bins, offsets, polarity, rule, nu, blocked_start, blocked, tie, prices, keys, edges
):
    """Do what :func:`best_cuts` does, given histograms: those of feature f from offsets[f] on."""
    for f in range(prices.shape[0]):
        hist = bins[offsets[f] : offsets[f + 1]]
        write_best_cuts(
            hist,
            hist.shape[0],
            polarity[f],
            rule,
            nu,
            blocked[blocked_start[f] : blocked_start[f + 1]],
            tie,
            prices[f],
            keys[f],
            edges[f],
        )
