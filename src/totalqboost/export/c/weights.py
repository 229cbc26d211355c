"""Integers instead of weights, and the proof that they change no label.

Scores are sums over weak classifiers, and what the weak classifiers can answer together is
limited: of the cuts of one feature, those above the value say one thing and those below it the
other. The sums that can be reached are therefore few enough, or the sums of two halves are, to
look at all of them: a label changes if one pair of half sums has a score on one side of zero and
an integer score on the other. Sorting one half by score and keeping running extremes of its
integers finds that in O(m log m) for halves of m sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from totalqboost.export.model import Sum, Term
from totalqboost.learners import Both, Feature, Stump

__all__ = ["Proof", "Weights", "integer_rejections", "integer_weights"]

MOST_STATES = 4096  # of features that conjunctions tie together
MOST_HALF = 2**20  # sums of half of the weak classifiers
MOST_CELLS = 2**22  # the same times the number of classes
TRIES = 24  # scales, each a little smaller than the one before
STEP = 0.017


@dataclass(frozen=True)
class Proof:
    """What is known of labels under integer weights.

    Attributes
    ----------
    holds : bool
        Whether they are those of ``Ensemble.predict`` for every input.
    but_ties : bool
        Whether they are but for scores that are 0 up to a rounding error of the sum.
    """

    holds: bool
    but_ties: bool


@dataclass(frozen=True)
class Weights:
    """Scores as integers: the start, plus the jumps of the terms whose conditions hold.

    Attributes
    ----------
    start : tuple of int
        One for each score.
    jumps : tuple of tuples of int
        For each term one for each score.
    scale : float
        How many make a score of 1.
    error : float
        No score is further from the true one, times the scale, than this many.
    proof : Proof
        Whether that changes labels.
    """

    start: tuple[int, ...]
    jumps: tuple[tuple[int, ...], ...]
    scale: float
    error: float
    proof: Proof

    @property
    def extremes(self) -> tuple[int, int]:
        """The least and the greatest score on the way, whatever the input."""
        jumps = np.array(self.jumps, dtype=np.int64).reshape(-1, len(self.start))
        low = np.array(self.start) + np.minimum(jumps, 0).sum(axis=0)
        high = np.array(self.start) + np.maximum(jumps, 0).sum(axis=0)
        return int(low.min()), int(high.max())


def integer_weights(
    scores: Sum, features: Sequence[Feature], most: int, most_jump: int | None = None
) -> Weights:
    """Return integers for the weights, none of whose sums is further from 0 than ``most``.

    The largest scale comes first; the first that is proved to keep every label is taken.
    ``most_jump`` limits single jumps.
    """
    w = np.array([term.values for term in scores.terms]).reshape(-1, len(scores.intercept))
    b = np.array(scores.intercept)
    total = float((np.abs(w).sum(axis=0) + np.abs(b)).max())
    room = most - len(w) - 1  # for rounding
    largest = room / total if total > 0 else 1.0
    if most_jump is not None and len(w) and np.abs(w).max() > 0:
        largest = min(largest, (most_jump - 0.5) / (2 * float(np.abs(w).max())))
    halves = _halves(scores.terms, features, len(b))
    found: list[Weights] = []
    for attempt in [_exact_scale(w, b, largest), *(largest * (1 - STEP * t) for t in range(TRIES))]:
        if attempt is None:
            continue
        made = _rounded(w, b, attempt, halves)
        if made.proof.holds:
            return made
        found.append(made)
        if halves is None:
            break
    return next((made for made in found if made.proof.but_ties), found[0])


def _exact_scale(w: np.ndarray, b: np.ndarray, largest: float) -> float | None:
    """Return a scale that needs no rounding, if weights are multiples of one number."""
    sizes = np.unique(np.abs(w[w != 0]))
    if not len(sizes):
        return None
    for divisor in range(1, 65):
        steps = w * divisor / sizes[0]
        if np.abs(steps - np.round(steps)).max() < 1e-9 * np.abs(steps).max():
            scale = float(divisor / sizes[0] / 2)
            return scale if scale <= largest else None
    return None


def _rounded(w: np.ndarray, b: np.ndarray, scale: float, halves: Halves | None) -> Weights:
    jumps = np.round(2 * w * scale).astype(np.int64)
    ideal = scale * (b - w.sum(axis=0))
    start = np.floor(ideal + 0.5).astype(np.int64)
    proof = Proof(False, False)
    if halves is not None and len(b) == 1:
        proof, start = _prove_two(halves, w, b, jumps, ideal)
    elif halves is not None:
        proof = _prove_classes(halves, w, b, jumps, start)
    off = np.abs(jumps - 2 * w * scale).sum(axis=0) + np.abs(start - ideal)
    rows = tuple(tuple(row) for row in jumps.tolist())
    return Weights(tuple(start.tolist()), rows, scale, float(off.max()), proof)


# -- what can be reached ---------------------------------------------------------------------

Answers = list[tuple[list[int], np.ndarray]]  # terms, and rows of what they can say together
Halves = tuple[Answers, Answers]


def _halves(terms: Sequence[Term], features: Sequence[Feature], n_scores: int) -> Halves | None:
    """Return all that groups of terms can answer, in two halves of about as many sums each."""
    groups = [(group, _answers([terms[k] for k in group], features)) for group in _groups(terms)]
    sides: Halves = ([], [])
    sizes = [1, 1]
    for group, answers in sorted(groups, key=lambda item: -len(item[1])):
        side = int(sizes[0] > sizes[1])
        sides[side].append((group, answers))
        sizes[side] *= len(answers)
    return None if max(sizes) > min(MOST_HALF, MOST_CELLS // n_scores) else sides


def _groups(terms: Sequence[Term]) -> list[list[int]]:
    """Return the terms that share features, directly or through conjunctions."""
    groups: list[tuple[set[int], list[int]]] = []
    for k, term in enumerate(terms):
        own, members = set(term.condition.features), [k]
        apart = []
        for features, others in groups:
            if features & own:
                own |= features
                members = others + members
            else:
                apart.append((features, others))
        groups = [*apart, (own, members)]
    return [sorted(members) for _, members in groups]


def _answers(terms: Sequence[Term], features: Sequence[Feature]) -> np.ndarray:
    """Return the distinct rows of answers, 1 where a condition holds, shape (n, n_terms)."""
    own = sorted({j for term in terms for j in term.condition.features})
    values = [_values(terms, j, features[j]) for j in own]
    if math.prod(map(len, values)) > MOST_STATES:
        if len(terms) > 20:  # more than can be looked at; the caller gives up
            return np.ones((MOST_HALF + 1, 0), dtype=np.int8)
        return np.array(list(product((0, 1), repeat=len(terms))), dtype=np.int8)
    X = np.zeros((math.prod(map(len, values)), max(own, default=-1) + 1))
    X[:, own] = np.array(list(product(*values))).reshape(len(X), len(own))
    answers = np.column_stack([term.condition.predict(X) > 0 for term in terms])
    return np.unique(answers.astype(np.int8), axis=0)


def _values(terms: Sequence[Term], j: int, feature: Feature) -> list[float]:
    """Return one value of a feature for each way to answer the conditions on it."""
    if feature.categories is not None:
        return [float(code) for code in range(-1, len(feature.categories))]
    parts = [part for term in terms for part in _parts(term) if part.features == (j,)]
    cuts = {part.threshold for part in parts if isinstance(part, Stump)}
    return [*sorted(cuts), math.inf, math.nan]


def _parts(term: Term) -> tuple[Any, ...]:
    condition = term.condition
    return condition.parts if isinstance(condition, Both) else (condition,)


def _sums(answers: Answers, w: np.ndarray, jumps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all sums of a half: of weights, and of integers, shape (n, n_scores) each."""
    f, F = np.zeros((1, w.shape[1])), np.zeros((1, w.shape[1]), dtype=np.int64)
    for group, rows in answers:
        f = (f[:, None] + ((2 * rows - 1.0) @ w[group])[None]).reshape(-1, w.shape[1])
        F = (F[:, None] + (rows @ jumps[group])[None]).reshape(-1, w.shape[1])
    return f, F


# -- proofs ----------------------------------------------------------------------------------


def _rounding(w: np.ndarray, b: np.ndarray) -> float:
    """Return how far sums of doubles in two orders may be apart; 0 where all are exact."""
    values = np.concatenate([w.ravel(), b])
    total = float((np.abs(w).sum(axis=0) + np.abs(b)).max())
    exponent = 52 - (math.frexp(total)[1] if total else 0)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.ldexp(values, exponent)
        if np.isfinite(scaled).all() and (scaled == np.round(scaled)).all():
            return 0.0
    return 4 * (len(w) + 2) * float(np.finfo(float).eps) * total


def _between(
    left: tuple[np.ndarray, np.ndarray],
    right: tuple[np.ndarray, np.ndarray],
    cut: float,
    is_open: bool,
) -> tuple[int | None, int | None]:
    """Return the greatest integer sum of scores <= cut and the least of those above it.

    With ``is_open`` of scores < cut, and of those from it on.
    """
    order = np.argsort(left[0], kind="stable")
    f, F = left[0][order], left[1][order]
    highest, lowest = np.maximum.accumulate(F), np.minimum.accumulate(F[::-1])[::-1]
    at = np.searchsorted(f, cut - right[0], "left" if is_open else "right")
    some, others = at > 0, at < len(f)
    below = (highest[at[some] - 1] + right[1][some]).max() if some.any() else None
    above = (lowest[at[others]] + right[1][others]).min() if others.any() else None
    return (None if below is None else int(below)), (None if above is None else int(above))


def _prove_two(
    halves: Halves, w: np.ndarray, b: np.ndarray, jumps: np.ndarray, ideal: np.ndarray
) -> tuple[Proof, np.ndarray]:
    """Return what holds of "score > 0", and the start that makes it so."""
    left, right = ((f[:, 0], F[:, 0]) for f, F in (_sums(half, w, jumps) for half in halves))
    cut, tie = -float(b[0]), _rounding(w, b)
    default = np.floor(ideal + 0.5).astype(np.int64)
    low, _ = _between(left, right, cut + tie, False)  # class 0, or may be by rounding
    _, high = _between(left, right, cut - tie, False)
    start = _start(low, high, default)
    if start is not None:
        return Proof(True, True), start
    start = _start(low, _between(left, right, cut + tie, False)[1], default)
    if start is not None:
        return Proof(False, True), start
    return Proof(False, False), default


def _start(low: int | None, high: int | None, default: np.ndarray) -> np.ndarray | None:
    """Return the start nearest to the default with low + start <= 0 < high + start."""
    if low is not None and high is not None and low >= high:
        return None
    start = default
    if low is not None:
        start = np.minimum(start, -low)
    if high is not None:
        start = np.maximum(start, 1 - high)
    return start


def _prove_classes(
    halves: Halves, w: np.ndarray, b: np.ndarray, jumps: np.ndarray, start: np.ndarray
) -> Proof:
    """Return what holds of "the first of the highest scores": of every pair of classes."""
    (f_left, F_left), (f_right, F_right) = (_sums(half, w, jumps) for half in halves)
    but_ties = holds = True
    for a, c in _pairs(len(b)):
        own, own_b = (w[:, [a]] - w[:, [c]]), b[[a]] - b[[c]]
        if not own.any() and not own_b.any() and not (jumps[:, a] - jumps[:, c]).any():
            continue  # equal in doubles too: the first wins
        tie = _rounding(w[:, [a, c]], b[[a, c]]) * 2
        left = f_left[:, a] - f_left[:, c], F_left[:, a] - F_left[:, c]
        right = f_right[:, a] - f_right[:, c], F_right[:, a] - F_right[:, c]
        base = int(start[a] - start[c])
        low, high = _between(left, right, -float(own_b[0]) - tie, True)
        but_ties &= _is_right(low, high, base)
        if tie:
            low, _ = _between(left, right, -float(own_b[0]) + tie, True)
        holds &= _is_right(low, high, base)
    return Proof(holds and but_ties, but_ties)


def _is_right(low: int | None, high: int | None, base: int) -> bool:
    return (low is None or low + base < 0) and (high is None or high + base >= 0)


def _pairs(n: int) -> Iterator[tuple[int, int]]:
    return ((a, c) for a in range(n) for c in range(a + 1, n))


def integer_rejections(
    scores: Sum,
    features: Sequence[Feature],
    made: Weights,
    partial: Sequence[tuple[int, float]],
    thresholds: Sequence[float],
) -> tuple[list[int | None], bool]:
    """Return the integers below which partial scores are rejected, and whether that is exact.

    ``partial`` has for each threshold the number of terms that are summed so far, and the
    intercept with the constants so far. None never rejects.
    """
    w = np.array([term.values for term in scores.terms]).reshape(-1, 1)
    jumps = np.array(made.jumps, dtype=np.int64).reshape(-1, 1)
    found: list[int | None] = []
    is_exact = True
    for (n, base), threshold in zip(partial, thresholds, strict=True):
        if threshold == -math.inf:
            found.append(None)
            continue
        # A threshold is a score that some row has: sums that are equal but for rounding pass.
        cut = threshold - base - _rounding(w[:n], np.array([base]))
        halves = _halves(scores.terms[:n], features, 1)
        ideal = made.start[0] + made.scale * (threshold - base + float(w[:n].sum()))
        limit = math.ceil(ideal) if math.isfinite(ideal) else made.extremes[1] + 1
        if halves is not None:
            sums = [_sums(half, w[:n], jumps[:n]) for half in halves]
            left, right = (
                (f[:, 0], F[:, 0] + made.start[0] * at) for at, (f, F) in enumerate(sums)
            )
            low, high = _between(left, right, cut, True)
            limit = limit if low is None else max(limit, low + 1)
            limit = limit if high is None else min(limit, high)
            is_exact &= low is None or low < limit
        is_exact &= halves is not None
        found.append(limit)
    return found, is_exact
