"""Limits of weights and margins of a node from tangents, one for each of them.

A convex problem per column and per example: about as much work as a node for every eight
examples. So only the root has it, and only when its tree turns out to be long; where there are
too many examples for that, it has limits of weights from the start. All nodes inherit them, and
the curvature that is certain grows as ranges shrink: ellipsoids that start wide stay wide.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from totalqboost.kernels.definite import exact_gram
from totalqboost.kernels.loss_codes import SQUARED
from totalqboost.kernels.newton import loss_terms, margins
from totalqboost.kernels.reach import Center, reaches, relaxed_cost
from totalqboost.kernels.relaxation import relax
from totalqboost.kernels.shrinking import shrink
from totalqboost.solvers.exact.bounding import Bounder
from totalqboost.solvers.exact.node import Node
from totalqboost.threads import Workers

__all__ = ["MAX_ROWS", "confine_by_tangents", "confine_weights"]

MAX_ROWS = 3000  # examples above which moments are the better use of the time
MAX_PASSES = 8  # over all weights: limits of some make those of others tighter
WORTHWHILE = 0.05  # mean of log(before / after) from which another pass pays
LARGE = 50.0  # median limit of weights above which margins are hardly limited at all
MANY_COLUMNS = 64  # with more, weights without useful limits take longer than they are worth
CHUNK = 16  # directions between two looks at the clock


def confine_by_tangents(
    bounder: Bounder, node: Node, cutoff: float, is_late: Callable[[], bool], workers: Workers
) -> bool:
    """Shrink the ranges of weights and margins of a node; False if it was not worth the time.

    Margins are left alone if weights turn out to have no useful limits.
    """
    if len(node.columns) > MANY_COLUMNS and np.median(node.hi) > LARGE:
        return False
    if not confine_weights(bounder, node, cutoff, is_late, workers):
        return False
    center = _center(bounder, node, cutoff)
    if center is None or np.median(node.hi) > LARGE or bounder.code == SQUARED:
        return True
    return _confine_margins(bounder, node, cutoff, center, is_late, workers)


def confine_weights(
    bounder: Bounder, node: Node, cutoff: float, is_late: Callable[[], bool], workers: Workers
) -> bool:
    """Shrink the ranges of weights of a node; False if there was no time for all."""
    for _ in range(MAX_PASSES):
        center = _center(bounder, node, cutoff)
        if center is None:
            break
        before, units = node.hi.copy(), bounder.model.units[np.ix_(node.columns, node.columns)]
        tops = _reaches(bounder, node, cutoff, center, units, is_late, workers)
        if tops is None:
            return False
        tops = np.maximum(tops, 0.0)  # of w_j, which is 0 where its opposite has a weight
        shrink(node.ranges(bounder.model), np.full(len(tops), -np.inf), tops)
        change = np.log(np.clip(before, 1e-9, 1e9)) - np.log(np.clip(node.hi, 1e-9, 1e9))
        if not change.mean() > WORTHWHILE:
            break
    return True


def _center(bounder: Bounder, node: Node, cutoff: float) -> Center | None:
    """Return the minimum of the relaxation without curvature; None if nothing is to be done."""
    if not bounder.admit(node, cutoff) or bounder.is_leaf(node):
        return None
    if node.ranges(bounder.model).room < 0:
        return None  # more columns are in than the limit allows
    rows, columns = node.rows, node.columns
    nu = bounder.model.problem.nus[columns]
    k, m = len(columns), len(rows.c)
    x, H, none = node.w.copy(), np.empty((k, k)), np.zeros(k)
    toll, room = bounder.prices(node), bounder.room(node, cutoff)
    arguments = (rows.A, columns, rows.c, bounder.code)
    relax(*arguments, nu, none, node.lo, node.hi, toll, node.is_in, x, room, 1e-9, 60, H, False)
    z, u, q = np.empty(m), np.empty(m), np.empty(m)
    margins(rows.A, columns, x, z)
    risk = loss_terms(bounder.code, z, rows.c, u, q)
    value = float(risk + relaxed_cost(nu, node.ranges(bounder.model), toll, x))
    exact_gram(rows.A, columns, np.maximum(q, 0.0), H)
    H += (1e-8 * np.trace(H) / k + 1e-14) * np.eye(k)
    if not room - value > 0.0 or not np.isfinite(H).all():
        return None  # the node is all but closed
    return Center(x, H, np.linalg.inv(H), value, room - value)


def _confine_margins(
    bounder: Bounder,
    node: Node,
    cutoff: float,
    center: Center,
    is_late: Callable[[], bool],
    workers: Workers,
) -> bool:
    signs = np.ascontiguousarray(node.rows.A[node.columns].T, dtype=float)
    tops = _reaches(bounder, node, cutoff, center, signs, is_late, workers)
    if tops is None:
        return False
    # What is added is the rounding of sums and of the quotient.
    node.high = np.minimum(node.high, tops + 1e-9 * (1.0 + np.abs(tops)))
    if bounder.needs_low:
        tops = _reaches(bounder, node, cutoff, center, -signs, is_late, workers)
        if tops is None:
            return False
        node.low = np.maximum(node.low, -tops - 1e-9 * (1.0 + np.abs(tops)))
    return True


def _reaches(
    bounder: Bounder,
    node: Node,
    cutoff: float,
    center: Center,
    directions: np.ndarray,
    is_late: Callable[[], bool],
    workers: Workers,
) -> np.ndarray | None:
    """Return how far solutions reach in each direction, or None if there is no time for it."""
    rows, ranges, toll = node.rows, node.ranges(bounder.model), bounder.prices(node)
    nu = bounder.model.problem.nus[node.columns]
    tops = np.empty(len(directions))

    def fill(first: int) -> bool:
        part = slice(first, first + CHUNK)
        if is_late():
            return False
        reaches(
            rows.A,
            node.columns,
            rows.c,
            bounder.code,
            nu,
            ranges,
            toll,
            cutoff,
            center,
            directions[part],
            tops[part],
        )
        return True

    return tops if all(workers.map(fill, range(0, len(tops), CHUNK))) else None
