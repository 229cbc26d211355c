"""Continuous weights on a fixed support: projected Newton for the l1-regularised risk.

    minimise  sum_i c_i l(z_i) + sum_j nu_j x_j,   z = sum_j x_j A[columns_j],   x >= 0

(line 13 of Algorithm 1). Each step minimises the second-order model over x >= 0 by an
active-set method with a Cholesky factor, then searches along the line on the true
objective. The Hessian A diag(q) A' is kept as long as it contracts the gradient well
(a chord step costs one pass over the data, a Hessian costs len(columns) of them).
"""

from __future__ import annotations

import math

import numpy as np

from totalqboost.kernels.elementary import fast_exp, fast_log1p
from totalqboost.kernels.groups import admit, group_price
from totalqboost.kernels.jit import kernel
from totalqboost.kernels.loss_codes import (
    EXPONENTIAL,
    FLAT,
    LOGISTIC,
    MAX_EXPONENT,
    SMOOTHED_HINGE,
    SQUARED,
)

BLOCK = 512  # examples per block of the Gram matrix: the block stays in the first cache

MERGE_BLOCK = 4096  # rows whose patterns are made at a time
HASH = np.uint64(0x9E3779B97F4A7C15)  # Knuth's multiplier, 2^64 over the golden ratio


@kernel
def margins(A, columns, x, z):
    """Write z = sum_j x_j A[columns_j]."""
    m = A.shape[1]
    z[:] = 0.0
    for a in range(columns.shape[0]):
        r = columns[a]
        xa = x[a]
        if xa != 0.0:
            for i in range(m):
                z[i] += xa * A[r, i]


@kernel
def sum_of(v):
    """Return the sum of a vector; its method compiles longer."""
    total = 0.0
    for i in range(v.shape[0]):
        total += v[i]
    return total


@kernel
def correlate(A, columns, u, out):
    """Write out_a = sum_i A[columns_a, i] u_i; four columns share each load of u.

    Weights of single precision are summed in single precision.
    """
    k, m = columns.shape[0], A.shape[1]
    number = u.dtype.type
    k4 = k - k % 4
    for a in range(0, k4, 4):
        r0, r1, r2, r3 = columns[a], columns[a + 1], columns[a + 2], columns[a + 3]
        s0 = s1 = s2 = s3 = number(0)
        for i in range(m):
            x = u[i]
            s0 += number(A[r0, i]) * x
            s1 += number(A[r1, i]) * x
            s2 += number(A[r2, i]) * x
            s3 += number(A[r3, i]) * x
        out[a] = s0
        out[a + 1] = s1
        out[a + 2] = s2
        out[a + 3] = s3
    for a in range(k4, k):
        r0 = columns[a]
        s0 = number(0)
        for i in range(m):
            s0 += number(A[r0, i]) * u[i]
        out[a] = s0


@kernel
def gram(A, columns, others, q, out, is_own=False):
    """Write out[a, b] = sum_i q_i A[columns_a, i] A[others_b, i], summed in float32 blocks.

    The result steers steps and scores, it never decides: single precision is enough. Two
    columns meet four others at a time, so that each number loaded is used more than once;
    padding to whole groups is zero. ``is_own`` says that columns and others are the same: half of
    the matrix is enough then.
    """
    k, n, m = columns.shape[0], others.shape[0], A.shape[1]
    zero = np.float32(0.0)
    left = np.zeros((k + 1, BLOCK), np.float32)
    right = np.zeros((n + 3, BLOCK), np.float32)
    weight = np.zeros(BLOCK, np.float32)
    sums = np.zeros((k + 1, n + 3))
    for start in range(0, m, BLOCK):
        length = min(BLOCK, m - start)
        # Slices, and one thing per loop: else no vector instructions, and three times the time.
        part = q[start : start + length]
        for i in range(length):
            # Numbers below float32's normal range would cost fifty times the time.
            weight[i] = np.float32(part[i]) if part[i] > 1e-30 else zero
        for a in range(k):
            row = A[columns[a], start : start + length]
            for i in range(length):
                left[a, i] = np.float32(row[i])
            for i in range(length):
                left[a, i] *= weight[i]
        for b in range(n):
            row = A[others[b], start : start + length]
            for i in range(length):
                right[b, i] = np.float32(row[i])
        for a in range(0, k, 2):
            for b in range(a - a % 4 if is_own else 0, n, 4):
                s0 = s1 = s2 = s3 = zero
                t0 = t1 = t2 = t3 = zero
                for i in range(length):
                    x, y = left[a, i], left[a + 1, i]
                    s0 += x * right[b, i]
                    s1 += x * right[b + 1, i]
                    s2 += x * right[b + 2, i]
                    s3 += x * right[b + 3, i]
                    t0 += y * right[b, i]
                    t1 += y * right[b + 1, i]
                    t2 += y * right[b + 2, i]
                    t3 += y * right[b + 3, i]
                sums[a, b] += s0
                sums[a, b + 1] += s1
                sums[a, b + 2] += s2
                sums[a, b + 3] += s3
                sums[a + 1, b] += t0
                sums[a + 1, b + 1] += t1
                sums[a + 1, b + 2] += t2
                sums[a + 1, b + 3] += t3
    for a in range(k):
        for b in range(n):
            out[a, b] = sums[b, a] if is_own and b < a else sums[a, b]


@kernel
def own_gram(A, columns, q, out):
    """Write the Gram matrix of the columns with themselves."""
    gram(A, columns, columns, q, out, True)


@kernel
def loss_at(code, z):
    """Return l(z), -l'(z) and a lower limit of l'' at z (zero where l'' jumps)."""
    if code == EXPONENTIAL:
        e = math.exp(min(-z, MAX_EXPONENT))
        return e, e, e
    if code == LOGISTIC:
        e = math.exp(-abs(z))
        p = e / (1.0 + e) if z >= 0.0 else 1.0 / (1.0 + e)
        return max(-z, 0.0) + math.log1p(e), p, p * (1.0 - p)
    if code == SMOOTHED_HINGE:
        r = min(max(1.0 - z, 0.0), 1.0)
        return 0.5 * r * r + max(-z, 0.0), r, 1.0 if 0.0 < z < 1.0 else 0.0
    return (1.0 - z) ** 2, 2.0 * (1.0 - z), 2.0


@kernel
def loss_terms(code, z, c, u, q):
    """Write u = c (-l'(z)) and q = c l''(z); return the risk sum_i c_i l(z_i)."""
    risk = 0.0
    m = z.shape[0]
    if code == EXPONENTIAL:
        for i in range(m):
            e = c[i] * fast_exp(-z[i])
            u[i] = e
            q[i] = e
            risk += e
    elif code == LOGISTIC:
        for i in range(m):  # two loops: each is made of vector instructions
            q[i] = fast_exp(-abs(z[i]))
        for i in range(m):
            e = q[i]
            other = 1.0 / (1.0 + e)
            p = e * other if z[i] >= 0.0 else other
            u[i] = c[i] * p
            q[i] = c[i] * e * other * other
            risk += c[i] * (0.5 * (abs(z[i]) - z[i]) + fast_log1p(e))
    elif code == SQUARED:
        for i in range(m):
            r = 1.0 - z[i]
            u[i] = 2.0 * c[i] * r
            q[i] = 2.0 * c[i]
            risk += c[i] * r * r
    elif code == SMOOTHED_HINGE:
        for i in range(m):
            r = min(max(1.0 - z[i], 0.0), 1.0)
            u[i] = c[i] * r
            q[i] = c[i] if 0.0 <= z[i] <= 1.0 else FLAT * c[i]
            risk += c[i] * (0.5 * r * r + max(-z[i], 0.0))
    return risk


@kernel
def solve_spd(H, free, k, rhs, x, L):
    """Solve H[free, free] x = rhs by Cholesky in the first k rows of L; False if not definite."""
    for a in range(k):
        for b in range(a + 1):
            total = H[free[a], free[b]]
            for t in range(b):
                total -= L[a, t] * L[b, t]
            if a == b:
                if total <= 0.0:
                    return False
                L[a, a] = math.sqrt(total)
            else:
                L[a, b] = total / L[b, b]
    for a in range(k):
        total = rhs[a]
        for t in range(a):
            total -= L[a, t] * x[t]
        x[a] = total / L[a, a]
    for a in range(k - 1, -1, -1):
        total = x[a]
        for t in range(a + 1, k):
            total -= L[t, a] * x[t]
        x[a] = total / L[a, a]
    return True


@kernel
def minimise_model(H, g, x, least, y, L):
    """Write y >= least that minimises g'(y - x) + (y - x)' H (y - x) / 2, by active sets.

    Starts at x and never climbs, so y - x is a descent direction even if stopped early.
    Returns whether H was definite on all the sets of free weights that came up.
    """
    k = x.shape[0]
    free, is_free = np.empty(k, np.int64), np.empty(k, np.int64)
    rhs, step = np.empty(k), np.empty(k)
    r = np.empty(k)  # gradient of the model at y
    for j in range(k):  # loops, not array expressions: they compile many times faster
        y[j] = x[j]
        r[j] = g[j]
        is_free[j] = x[j] > least[j] or g[j] < 0.0
    for _ in range(3 * k + 5):
        size = k - k  # not 0: a literal would compile what it is handed to once more
        for j in range(k):
            if is_free[j]:
                free[size] = j
                rhs[size] = -r[j]
                size += 1
        if size > 0:
            if not solve_spd(H, free, size, rhs, step, L):
                return False
            alpha = 1.0
            for a in range(size):
                j = free[a]
                if y[j] + step[a] < least[j]:
                    alpha = min(alpha, (y[j] - least[j]) / -step[a])
            for a in range(size):
                j = free[a]
                move = alpha * step[a]
                if y[j] + step[a] < least[j] and y[j] + move <= least[j] + 1e-14:
                    move = least[j] - y[j]
                    is_free[j] = False
                y[j] += move
                for b in range(k):
                    r[b] += H[j, b] * move  # H is symmetric
            if alpha < 1.0:
                continue
        done = True
        for j in range(k):
            if not is_free[j] and r[j] < -1e-12:
                is_free[j] = True
                done = False
        if done:
            break
    return True


@kernel
def add_ridge(H, ridge):
    """Add a number to the diagonal."""
    for j in range(H.shape[0]):
        H[j, j] += ridge


@kernel
def line_search(A, columns, x, p, least, c, nu, code, objective, decrease, y, z, u, q):
    """Halve the step p until the objective at y = x + alpha p falls; y, z, u, q are those there.

    Returns the value, whether it is low enough, and whether the step is too small to show in it.
    """
    alpha = 1.0
    value, flat = objective, False
    # Rounding adds up over rows: where few of them differ, their errors are the same.
    rounding = (1e-15 + 1e-17 * z.shape[0]) * objective
    for _ in range(30):
        total = 0.0
        for j in range(x.shape[0]):
            y[j] = max(x[j] + alpha * p[j], least[j])
            total += nu[j] * y[j]
        margins(A, columns, y, z)
        value = loss_terms(code, z, c, u, q) + total
        # Where the decrease drowns in rounding, the gradient judges the step.
        flat = 0.0 < decrease < 1e-10 * objective
        flat = flat and abs(value - objective) <= rounding
        if flat or value < objective - 1e-4 * alpha * decrease:
            return value, True, flat
        alpha *= 0.5
    return value, False, flat


@kernel
def newton_refit(A, columns, x, least, c, nu, code, tol, max_iter, H, has_hessian, target):
    """Minimise the l1-regularised risk over x >= least (0, or -inf), in place; warm start at x.

    Returns the objective, the largest violation of the optimality conditions and the
    number of steps. Stops when the violation is at most tol, or when the model says that
    even twice the expected decrease will not reach ``target``. H is scratch space that
    holds a first Hessian if has_hessian.
    """
    k, m = columns.shape[0], A.shape[1]
    z, u = np.empty(m), np.empty(m)
    q = u if code == EXPONENTIAL else np.empty(m)  # l'' = -l': examples may be many, memory counts
    g, y, p = np.empty(k), np.empty(k), np.empty(k)
    L = np.empty((k, k))
    z[:] = 0.0
    at_zero = loss_terms(code, z, c, u, q)
    margins(A, columns, x, z)
    objective = loss_terms(code, z, c, u, q)
    for j in range(k):
        objective += nu[j] * x[j]
    if not objective <= at_zero:  # a start worse than no weights at all helps nobody
        x[:] = 0.0
        z[:] = 0.0
        objective = loss_terms(code, z, c, u, q)
        has_hessian = False
    before = violation = np.inf
    flat = False  # was the last step too small to show in the objective?
    fresh = False  # was H computed at the current point?
    for iteration in range(max_iter):
        correlate(A, columns, u, g)
        violation = 0.0
        for j in range(k):
            g[j] = nu[j] - g[j]
            violation = max(violation, abs(g[j]) if x[j] > least[j] else -g[j])
        if violation <= tol or (flat and violation > 0.9 * before):
            return objective, violation, iteration
        if not has_hessian or violation > 0.5 * before:
            gram(A, columns, columns, q, H, True)
            add_ridge(H, 1e-7 * sum_of(q) + 1e-12)
            has_hessian = fresh = True
        before = violation
        ridge = 1e-6 * sum_of(q) + 1e-12
        while not minimise_model(H, g, x, least, y, L):  # single precision lost the definiteness
            add_ridge(H, ridge)
            ridge *= 10.0
        decrease = 0.0
        for j in range(k):
            p[j] = y[j] - x[j]
            decrease -= g[j] * p[j]
        if objective - decrease > target:
            return objective, violation, iteration
        value, improved, flat = line_search(
            A, columns, x, p, least, c, nu, code, objective, decrease, y, z, u, q
        )
        if improved:
            objective = value
            fresh = False
            for j in range(k):
                x[j] = y[j]
        elif fresh:
            break  # no further descent in float64
        else:
            has_hessian = False
            margins(A, columns, x, z)
            loss_terms(code, z, c, u, q)
    return objective, violation, max_iter


@kernel
def first_improvement(
    A, c, nu, code, price, groups, w, value, columns, G, scores, drops, adds, hopeless, least, out
):
    """Refit after each scored move in turn and stop at the first that improves.

    ``columns`` are the columns of the present refit and G their Gram matrix with all columns,
    from which the Hessian of every move is put together (the diagonal of a Gram matrix of
    signs is the sum of q). A move counts if it lowers ``value`` by more than ``least``; its
    weights are then in ``out``. Scores above ``hopeless`` end the list, after three moves.
    Returns the new value, infinite if there is none, and the number of refits.
    """
    k = columns.shape[0]
    counts = np.empty(groups.price.shape[0], np.int64)
    for rank in range(scores.shape[0]):
        if scores[rank] == np.inf or (scores[rank] > hopeless and rank >= 3):
            return np.inf, rank
        size = 0
        support, place = np.empty(k + 1, np.int64), np.empty(k + 1, np.int64)
        fixed = 0.0
        counts[:] = 0
        for a in range(k):
            if columns[a] != drops[rank]:
                support[size] = columns[a]
                place[size] = a
                fixed += price[columns[a]]
                admit(groups, counts, columns[a])
                size += 1
        n_old = size
        if adds[rank] >= 0:
            support[size] = adds[rank]
            fixed += price[adds[rank]]
            admit(groups, counts, adds[rank])
            size += 1
        fixed += group_price(groups, counts)
        H, x, nus = np.empty((size, size)), np.empty(size), np.empty(size)
        total = G[0, columns[0]] if k > 0 else c.sum()
        for a in range(n_old):
            x[a] = w[support[a]]
            for b in range(size):
                H[a, b] = G[place[a], support[b]]
        if size > n_old:
            x[n_old] = 0.0
            for a in range(n_old):
                H[n_old, a] = H[a, n_old]
            H[n_old, n_old] = total
        for a in range(size):
            H[a, a] += 1e-7 * total + 1e-12
            nus[a] = nu[support[a]]
        trial, _, _ = newton_refit(
            A, support[:size], x, np.zeros(size), c, nus, code, 1e-6, 100, H, k > 0, value - fixed
        )
        counts[:] = 0
        for a in range(size):
            if x[a] > 0.0:
                trial += price[support[a]]
                admit(groups, counts, support[a])
        trial += group_price(groups, counts)
        if trial < value - least:
            out[:] = 0.0
            for a in range(size):
                out[support[a]] = x[a]
            return trial, rank + 1
    return np.inf, scores.shape[0]


@kernel
def merge_rows(A, support, c, keys, weights, slots):
    """Write the different sign patterns of rows on the support, and the weight of each.

    Bit t of a key is set where column support[t] is +1. ``slots`` is the table of a hash, a power
    of two in size, filled with -1. Returns the number of patterns in the order in which they
    first occur, -1 if there are more than ``keys`` has room for.
    """
    m, mask, n_found = c.shape[0], slots.shape[0] - 1, 0
    own = np.empty(MERGE_BLOCK, np.uint64)
    for start in range(0, m, MERGE_BLOCK):
        end = min(start + MERGE_BLOCK, m)
        own[:] = 0
        for t in range(support.shape[0]):
            column, bit = A[support[t]], np.uint64(1) << np.uint64(t)
            for i in range(start, end):
                if column[i] > 0:
                    own[i - start] |= bit
        for i in range(start, end):
            key = own[i - start]
            place = np.int64((key * HASH) >> np.uint64(20)) & mask
            while slots[place] >= 0 and keys[slots[place]] != key:
                place = (place + 1) & mask
            if slots[place] < 0:
                if n_found == keys.shape[0]:
                    return -1
                slots[place] = n_found
                keys[n_found], weights[n_found] = key, 0.0
                n_found += 1
            weights[slots[place]] += c[i]
    return n_found
