"""Stumps shared between classes: histograms per class, and the votes read off them.

Rows are pairs (example i, class l) in the order i n_classes + l. A cut sends examples of larger
codes right; with the sums G and H of g = u y and of the curvature per class and side it has

    e_l = (G_R - G_L) - ((H_R - H_L) / H) G        V_l = 4 H_L H_R / H

when every class has an intercept of its own. Votes are the signs of e_l, and the decrease with
one weight for all classes is (sum_l |e_l| - nu)^2 / (2 sum_l V_l).
"""

from __future__ import annotations

import numpy as np

from totalqboost.kernels.jit import kernel
from totalqboost.kernels.newton import loss_at


@kernel
def fill_class_histogram(codes, g, h, hist):
    """Add g and h of every example and class to the bin of the example."""
    n_classes = hist.shape[2]
    for i in range(codes.shape[0]):
        b, start = codes[i], i * n_classes
        for label in range(n_classes):
            hist[b, 0, label] += g[start + label]
            hist[b, 1, label] += h[start + label]


@kernel
def price_of_votes(by_edge, left, total, nu):
    """Return the price of a cut with the best votes; left and total hold G and H per class."""
    edge, spread = 0.0, 0.0
    for label in range(total.shape[1]):
        left_g, left_h = left[0, label], left[1, label]
        total_g, total_h = total[0, label], total[1, label]
        slope = total_g - 2.0 * left_g
        if by_edge:
            edge += abs(slope)
        elif total_h > 0.0:
            right_h = total_h - left_h
            edge += abs(slope - (right_h - left_h) * total_g / total_h)
            spread += 4.0 * left_h * right_h / total_h
    if by_edge:
        return edge
    size = max(edge - nu, 0.0)
    return 0.5 * size * size / spread if spread > 0.0 else 0.0


@kernel
def best_shared_cuts(
    codes, n_codes, g, h, n_classes, by_edge, nu, blocked, offsets, tie, first, last, prices, cuts
):
    """Write the best cuts of features first..last-1, best first, at most prices.shape[1] each.

    ``blocked`` tells which cuts may not be offered, feature f's from offsets[f] on. A later
    cut replaces an earlier one only if its price is larger by more than ``tie``. Free places
    keep cut -1.
    """
    n_best = prices.shape[1]
    hist = np.empty((n_codes.max(), 2, n_classes))
    left, total = np.empty((2, n_classes)), np.empty((2, n_classes))
    for f in range(first, last):
        bins = n_codes[f]
        hist[:bins] = 0.0
        fill_class_histogram(codes[f], g, h, hist)
        total[:], left[:] = 0.0, 0.0
        for b in range(bins):
            total += hist[b]
        for cut in range(bins - 1):
            left += hist[cut]
            if blocked[offsets[f] + cut]:
                continue
            price = price_of_votes(by_edge, left, total, nu)
            place = n_best
            while place > 0 and (cuts[f, place - 1] < 0 or price > prices[f, place - 1] + tie):
                place -= 1
            if place == n_best:
                continue
            for q in range(n_best - 1, place, -1):
                prices[f, q] = prices[f, q - 1]
                cuts[f, q] = cuts[f, q - 1]
            prices[f, place] = price
            cuts[f, place] = cut


@kernel
def shared_cut_sums(codes, rows, offsets, first, last, Q, total, sums, votes):
    """Write sum_il v_sl h_s(x_i) Q[il] for all cuts s of the features first..last-1.

    Votes v_s are the signs of the sums of Q's first column per class, turned so that the first
    class has +1. ``total`` holds the sums of Q over the rows of each class.
    """
    n_classes, width = total.shape
    running = np.empty((n_classes, width), np.float32)
    bins = np.empty((0, n_classes, width), np.float32)
    for f in range(first, last):
        start, n_cuts = offsets[f], offsets[f + 1] - offsets[f]
        if n_cuts > bins.shape[0]:
            bins = np.empty((n_cuts, n_classes, width), np.float32)
        bins[:n_cuts] = 0.0
        own = codes[f]
        for r in range(rows.shape[0]):
            example = rows[r] // n_classes
            code, label = own[example], rows[r] - example * n_classes
            if code < n_cuts:
                for t in range(width):
                    bins[code, label, t] += Q[r, t]
        running[:] = total
        for cut in range(n_cuts):
            s = start + cut
            sums[s] = 0.0
            turn = 1
            for label in range(n_classes):
                for t in range(width):
                    running[label, t] -= np.float32(2.0) * bins[cut, label, t]
                vote = 1 if running[label, 0] >= 0.0 else -1
                if label == 0:
                    turn = vote
                votes[s, label] = vote * turn
                for t in range(width):
                    sums[s, t] += np.float32(vote * turn) * running[label, t]


@kernel
def shift_shared_cut(order, start, cut, low, high, moves, y, z, c, code):
    """Find the best cut of a shared stump between low and high, all weights as they are.

    Row order[t] has the t-th smallest code, those of code b begin at start[b]. Raising the cut
    past an example lowers its score for class l by moves[l], lowering it raises it. Returns the
    cut and the change of the risk.
    """
    n_classes = moves.shape[0]
    best, place = 0.0, cut
    for direction in range(2):
        change = 0.0
        at = cut
        while at < high if direction == 0 else at > low:
            b = at + 1 if direction == 0 else at
            for t in range(start[b], start[b + 1]):
                for label in range(n_classes):
                    i = order[t] * n_classes + label
                    move = -y[i] * moves[label] if direction == 0 else y[i] * moves[label]
                    change += c[i] * (loss_at(code, z[i] + move)[0] - loss_at(code, z[i])[0])
            at += 1 if direction == 0 else -1
            if change < best:
                best, place = change, at
    return place, best
