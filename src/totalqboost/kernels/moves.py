"""Second-order scores of the moves of local search: add, drop and swap a column.

With S the kept columns, G = A diag(q) A', V = inverse of G_SS, B = V G_S., s the edges,
r = s - nu (nu per column) and sigma_l = G_ll - G_lS B_l, re-optimising all weights after the
move changes the objective by about
    add l      -r_l^2 / (2 sigma_l) + price_l
    drop j      w_j^2 / (2 V_jj) - price_j
    swap j, l   w_j^2 / (2 V_jj) - (r_l + B_jl w_j / V_jj)^2 / (2 (sigma_l + B_jl^2 / V_jj))
                + price_l - price_j
and what the features that come to be read cost, less those that nobody reads any more.
"""

from __future__ import annotations

import math

import numpy as np

from totalqboost.kernels.groups import group_change
from totalqboost.kernels.jit import kernel


@kernel
def invert_spd(M, V):
    """Write the inverse of the symmetric positive definite M, by its Cholesky factor."""
    k = M.shape[0]
    L = np.zeros((k, k))
    for a in range(k):
        for b in range(a + 1):
            total = M[a, b]
            for t in range(b):
                total -= L[a, t] * L[b, t]
            if a == b:
                L[a, a] = math.sqrt(max(total, 1e-300))
            else:
                L[a, b] = total / L[b, b]
    W = np.zeros((k, k))  # inverse of L, row by row
    for a in range(k):
        W[a, a] = 1.0 / L[a, a]
        for b in range(a):
            total = 0.0
            for t in range(b, a):
                total -= L[a, t] * W[t, b]
            W[a, b] = total / L[a, a]
    for a in range(k):
        for b in range(a + 1):
            total = 0.0
            for t in range(a, k):
                total += W[t, a] * W[t, b]
            V[a, b] = total
            V[b, a] = total


@kernel
def insert_move(scores, drops, adds, score, drop, add):
    """Put a move into its place among the best, the last of which goes."""
    place = scores.shape[0] - 1
    while place > 0 and scores[place - 1] > score:
        scores[place] = scores[place - 1]
        drops[place] = drops[place - 1]
        adds[place] = adds[place - 1]
        place -= 1
    scores[place], drops[place], adds[place] = score, drop, add


@kernel
def rank_moves(G, kept, w, s, total, nu, price, may_add, groups, counts, spare, n_best):
    """Return scores, dropped and added columns of the best moves, best first; -1 is none.

    G has a row per kept column (in the order of ``kept``) and a column per column of the
    problem; ``total`` is the sum of q, the diagonal of G; ``price`` is what a column pays, or
    negative for a column that may not be moved (a free one: the refit sees to it). ``counts``
    are the readers of each feature, and ``spare`` how many more may be read.
    """
    has_groups = groups.which.shape[0] > 0
    k, n = G.shape
    V, M = np.empty((k, k)), np.empty((k, k))
    for a in range(k):
        for b in range(k):
            M[a, b] = G[a, kept[b]]
        M[a, a] += 1e-6 * total + 1e-300
    invert_spd(M, V)
    is_kept = np.zeros(n, np.bool_)
    for a in range(k):
        is_kept[kept[a]] = True
    scores = np.full(n_best, np.inf)
    drops = np.full(n_best, -1, np.int64)
    adds = np.full(n_best, -1, np.int64)
    B = np.empty(k)
    for j in range(n + 1):
        if j < n and (is_kept[j] or price[j] < 0.0):
            continue
        r, sigma = 0.0, 0.0
        if j < n:  # columns to add; j == n stands for adding none
            r, sigma = s[j] - nu[j], total
            for a in range(k):
                B[a] = 0.0
                for b in range(k):
                    B[a] += V[a, b] * G[b, j]
            for a in range(k):
                sigma -= G[a, j] * B[a]
            sigma = max(sigma, 1e-6 * total + 1e-300)
        for a in range(-1, k):  # columns to drop; a == -1 stands for dropping none
            if a < 0:
                if j == n or not may_add or r <= 0.0:
                    continue
                score = price[j] - 0.5 * r * r / sigma
            else:
                if price[kept[a]] < 0.0:
                    continue
                wa, va = w[kept[a]], V[a, a]
                score = 0.5 * wa * wa / va - price[kept[a]]
                if j < n:
                    gain = r + B[a] * wa / va
                    if gain <= 0.0:
                        continue
                    score += price[j] - 0.5 * gain * gain / (sigma + B[a] * B[a] / va)
            if has_groups:
                change, number = group_change(
                    groups, counts, kept[a] if a >= 0 else -1, j if j < n else -1
                )
                score += change
                if number > max(spare, 0):
                    continue
            if score < scores[n_best - 1]:
                drop, add = kept[a] if a >= 0 else -1, j if j < n else -1
                insert_move(scores, drops, adds, score, drop, add)
    return scores, drops, adds
