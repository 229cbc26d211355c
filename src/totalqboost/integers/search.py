"""The search: integers q and one scale s of least objective F(s q).

For given integers the best scale is a convex problem of one variable. Near the optimum w* over
real numbers F is a quadratic form, and what is asked for is a direction q near that of w*:

    min over s of (s q - w*)' H (s q - w*) = w*'H w* - (q'H w*)^2 / q'H q

Order of calls:

    starts    for many scales, w*/s rounded: as such, and one weight after the other, where those
              that are left make up for the rounding of those before (Babai's nearest plane)
    walk      from each of them, in the quadratic form: one or two integers move by one, or one
              goes to zero, and the scale with them; it costs nothing per row of examples
    descend   from the best of what was found: the same moves, ranked by the quadratic form at the
              present point, and compared by the objective itself
    kick      moves that are worse are made, and descended from

Nothing is random.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

__all__ = ["Found", "Objective", "least_scale", "search_integers"]

SCALES = np.geomspace(0.5, 2.0, 49)  # of the finest scale that holds the largest weight
N_WALKS = 24  # starts of walks, of few weights
MANY = 64  # weights, from which on pairs are those of weights that depend on each other
N_PARTNERS = 8  # of each weight
N_QUICK = 4  # the same in haste
N_DESCENTS = 4  # ends of walks that are descended from
N_EXACT = 12  # moves that the objective itself compares
N_KICKS = 6  # moves that are made though they are worse
MAX_STEPS = 300  # of one walk or descent
FARTHEST = 1e12  # factor of a scale, where nothing keeps weights from growing
CLOSE = 1e-9  # relative gain below which a move is none
RIDGE = 1e-9  # of the curvature, where it has directions without any


class Objective(Protocol):
    """What is minimised, a function F of real weights w."""

    top: np.ndarray  # largest integer of each weight
    is_signed: np.ndarray  # whether a weight may be negative

    def values(self, W: np.ndarray) -> np.ndarray:
        """Return F of each row of W, infinite where a limit is exceeded."""

    def slopes(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return gradient and Hessian, of the smooth part of F."""

    def along(self, w: np.ndarray) -> Callable[[float], tuple[float, float]]:
        """Return slope and curvature of F(t w) as a function of t > 0."""


class Found(NamedTuple):
    """Integers, their scale, and the objective of their products."""

    q: np.ndarray
    scale: float
    value: float


def search_integers(objective: Objective, w: np.ndarray, is_quick: bool = False) -> Found:
    """Return the best integers and scale near the weights w, the optimum over real numbers.

    In haste, as for the folds of a cross-validation, there are few walks, one descent, no kicks.
    """
    nothing = _rescaled(objective, np.zeros(len(w), dtype=np.int64), 1.0)
    if not w.any():
        return nothing
    starts = _walked(objective, w, N_QUICK if is_quick else N_WALKS)
    starts = starts[:1] if is_quick else starts[:N_DESCENTS]
    found = [nothing, *(_descend(objective, start) for start in starts)]
    best = min(found, key=lambda one: one.value)
    while not is_quick:
        others = [_descend(objective, start) for start in _kicks(objective, best)]
        better = min(others, key=lambda one: one.value, default=best)
        if not better.value < best.value - CLOSE * abs(best.value):
            break
        best = better
    return best


# -- scales ------------------------------------------------------------------------------------


def least_scale(slopes: Callable[[float], tuple[float, float]], start: float) -> float:
    """Return where a convex function of t > 0 is least: Newton steps, halving where they fail."""
    low, high, t = 0.0, np.inf, start
    for i in range(80):
        slope, curvature = slopes(t)  # both infinite, or no number, where losses overflow
        low, high = (t, high) if slope < 0 else (low, t)
        new = t - slope / curvature if 0 < curvature < np.inf else np.nan
        is_far = i > 4 and low == 0.0  # steps of the exponential loss are short there
        if is_far or not low < new < high:
            new = 0.5 * (low + high) if high < np.inf else 2.0 * t
        if not new < FARTHEST or abs(new - t) <= 1e-10 * t:
            break
        t = new
    return t


def _rescaled(objective: Objective, q: np.ndarray, scale: float) -> Found:
    """Return the integers with the better of this scale and the best one."""
    scales = [scale]
    if q.any():
        scales.append(scale * least_scale(objective.along(scale * q), 1.0))
    values = objective.values(np.outer(scales, q))
    best = int(np.argmin(values))
    return Found(q, scales[best], float(values[best]))


# -- starts and walks --------------------------------------------------------------------------


def _walked(objective: Objective, w: np.ndarray, n_walks: int) -> list[Found]:
    """Return the ends of walks in the quadratic form around w, and w rounded, the best first."""
    finest = float((np.abs(w) / objective.top).max())
    H = objective.slopes(w)[1]
    form = _Form(objective, -H @ w, H)  # of the gradient at 0
    points = w / (finest * SCALES)[:, None]
    rounded = _kept(objective, np.rint(points))
    order = np.argsort(np.diag(H), kind="stable")
    starts = [rounded, *(_nearest(objective, points, H, o) for o in (order, order[::-1]))]
    Q = _distinct(np.vstack(starts).astype(np.int64))
    n_walks = max(2, min(n_walks, N_WALKS * MANY // len(w)))
    Q = Q[np.argsort([form.value(q) for q in Q], kind="stable")[:n_walks]]
    Q = _distinct(np.array([form.walk(q) for q in Q] + [rounded[len(SCALES) // 2]], dtype=np.int64))
    found = [_rescaled(objective, q, form.scale(q)) for q in Q]
    return sorted(found, key=lambda one: one.value)


def _distinct(Q: np.ndarray) -> np.ndarray:
    """Return each of some rows of integers once, and none of zeros."""
    Q = np.unique(Q, axis=0)
    return Q[Q.any(axis=1)]


def _kept(objective: Objective, Q: np.ndarray) -> np.ndarray:
    """Return integers within their limits."""
    return np.clip(Q, np.where(objective.is_signed, -objective.top, 0), objective.top)


def _nearest(
    objective: Objective, points: np.ndarray, H: np.ndarray, order: np.ndarray
) -> np.ndarray:
    """Round one coordinate after the other; those that are left make up for it (Babai)."""
    n = len(order)
    own = H[np.ix_(order, order)]
    ridge = RIDGE * max(float(np.trace(own)) / n, 1e-300)
    try:
        R = np.linalg.cholesky(own + ridge * np.eye(n)).T
    except np.linalg.LinAlgError:
        return _kept(objective, np.rint(points))
    Q = np.zeros_like(points)
    for i in range(n - 1, -1, -1):
        later = order[i + 1 :]
        offset = (points[:, later] - Q[:, later]) @ R[i, i + 1 :] / R[i, i]
        Q[:, order[i]] = np.rint(points[:, order[i]] + offset)
        Q = _kept(objective, Q)
    return Q


# -- moves -------------------------------------------------------------------------------------


class _Steps(NamedTuple):
    """Moves: q_i by a and, if b is not 0, q_j by b."""

    i: np.ndarray
    a: np.ndarray
    j: np.ndarray
    b: np.ndarray

    def after(self, q: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Return the integers after some of the moves."""
        Q = np.tile(q, (len(places), 1))
        rows = np.arange(len(places))
        Q[rows, self.i[places]] += self.a[places]
        Q[rows, self.j[places]] += self.b[places]
        return Q


class _Form:
    """A quadratic form g'w + w'Hw / 2 of weights, seen from integers times a scale."""

    def __init__(self, objective: Objective, g: np.ndarray, H: np.ndarray):
        self.g, self.H = g, H
        self.low, self.high = np.where(objective.is_signed, -objective.top, 0), objective.top
        n = len(g)
        i, j = _pairs(H)
        one = np.ones(len(i), dtype=np.int64)
        each, unit = np.arange(n), np.ones(n, dtype=np.int64)
        self.pairs = _Steps(  # the last n are for moves to zero
            np.concatenate([i, i, i, i, each, each, each]),
            np.concatenate([one, one, -one, -one, unit, -unit, unit]),
            np.concatenate([j, j, j, j, each, each, each]),
            np.concatenate([one, -one, one, -one, 0 * unit, 0 * unit, 0 * unit]),
        )
        i, a, j, b = self.pairs
        self.gd = a * g[i] + b * g[j]
        self.dHd = a * a * H[i, i] + b * b * H[j, j] + 2.0 * a * b * H[i, j]

    def scale(self, q: np.ndarray) -> float:
        """Return the best scale of some integers, or one that is none."""
        scale = -float(self.g @ q) / max(float(q @ self.H @ q), 1e-300)
        return scale if scale > 0.0 else 1e-3

    def value(self, q: np.ndarray) -> float:
        """Return the least value over all scales."""
        gain = max(-float(self.g @ q), 0.0)
        return -0.5 * gain * gain / max(float(q @ self.H @ q), 1e-300)

    def moves(self, q: np.ndarray) -> tuple[_Steps, np.ndarray, np.ndarray]:
        """Return all moves, where they lead: the best scale and the value, infinite if nowhere."""
        n, g, H = len(q), self.g, self.H
        i, a, j, b = self.pairs
        a = a.copy()
        a[-n:] = -q
        gd, dHd = self.gd.copy(), self.dHd.copy()
        gd[-n:], dHd[-n:] = -q * g, q * q * np.diag(H)
        Hq = H @ q
        gain = -(float(g @ q) + gd)
        norm = np.maximum(float(q @ Hq) + 2.0 * (a * Hq[i] + b * Hq[j]) + dHd, 1e-300)
        to_i, to_j = q[i] + a, np.where(b != 0, q[j] + b, self.low[j])
        inside = (self.low[i] <= to_i) & (to_i <= self.high[i])
        inside &= (self.low[j] <= to_j) & (to_j <= self.high[j]) & (gain > 0.0) & (norm > 1e-300)
        scales = np.where(inside, gain / norm, 0.0)
        values = np.where(inside, -0.5 * gain * scales, np.inf)
        return _Steps(i, a, j, b), scales, values

    def walk(self, q: np.ndarray) -> np.ndarray:
        """Return the integers at the end of a walk downhill."""
        value = self.value(q)
        for _ in range(MAX_STEPS):
            steps, _, values = self.moves(q)
            best = int(np.argmin(values))
            if not values[best] < value - CLOSE * abs(value):
                break
            q, value = steps.after(q, np.array([best]))[0], float(values[best])
        return q


def _pairs(H: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all pairs of weights; of many, each with those that it depends on most."""
    n = len(H)
    if n <= MANY:
        return np.triu_indices(n, 1)
    size = np.sqrt(np.maximum(np.diag(H), 1e-300))
    dependence = np.abs(H) / np.outer(size, size)
    np.fill_diagonal(dependence, 0.0)
    partners = np.argsort(-dependence, axis=1, kind="stable")[:, :N_PARTNERS]
    pairs = np.column_stack([np.repeat(np.arange(n), N_PARTNERS), partners.ravel()])
    i, j = np.unique(np.sort(pairs, axis=1), axis=0).T
    return i, j


def _descend(objective: Objective, start: Found) -> Found:
    """Make the best move as long as there is one that helps."""
    here = start
    for _ in range(MAX_STEPS):
        Q, scales, values = _moves(objective, here)
        if not len(values) or not values[0] < here.value - CLOSE * abs(here.value):
            return here
        here = _rescaled(objective, Q[0], float(scales[0]))
    return here


def _kicks(objective: Objective, here: Found) -> list[Found]:
    """Return what the best moves lead to, though it is worse."""
    Q, scales, _ = _moves(objective, here)
    return [_rescaled(objective, q, float(s)) for q, s in zip(Q[:N_KICKS], scales, strict=False)]


def _moves(objective: Objective, here: Found) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return integers, scale and objective of the best moves, the best first."""
    w = here.scale * here.q
    g, H = objective.slopes(w)
    steps, scales, values = _Form(objective, g - H @ w, H).moves(here.q)
    # What moves to zero save, the price of a column, is not in the form: the best of them too.
    zeros = len(values) - len(w) + np.flatnonzero(here.q)
    best = np.union1d(_least(values, np.arange(len(values))), _least(values, zeros))
    Q, scales = steps.after(here.q, best), scales[best]
    exact = objective.values(Q * scales[:, None])
    order = np.argsort(exact, kind="stable")
    return Q[order], scales[order], exact[order]


def _least(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the places of the least values that are finite."""
    places = places[np.isfinite(values[places])]
    return places[np.argsort(values[places], kind="stable")[:N_EXACT]]
