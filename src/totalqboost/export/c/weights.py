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

__all__ = ["Proof", "Weights", "integer_rejections", "integer_weights", "rounding_of"]

MOST_STATES = 4096  # of features that conjunctions tie together
MOST_HALF = 2**16  # sums of half of the weak classifiers, for two classes
MOST_CELLS = 2**16  # the same times the number of classes, for more
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
    scores: Sum,
    features: Sequence[Feature],
    most: int,
    most_jump: int | None = None,
    is_near: bool = False,
) -> Weights:
    """Return integers for the weights, none of whose sums is further from 0 than ``most``.

    The largest scale comes first; the first that is proved to keep every label is taken.
    ``most_jump`` limits single jumps. ``is_near`` wants scores near the true ones, not labels
    only: a scale for exact weights counts if the intercept is exact too.
    """
    w = np.array([term.values for term in scores.terms]).reshape(-1, len(scores.intercept))
    b = np.array(scores.intercept)
    total = float((np.abs(w).sum(axis=0) + np.abs(b)).max())
    room = most - len(w) - 1  # for rounding
    largest = room / total if total > 0 else 1.0
    if most_jump is not None and len(w) and np.abs(w).max() > 0:
        largest = min(largest, (most_jump - 0.5) / (2 * float(np.abs(w).max())))
    halves = _halves(scores.terms, features, len(b))
    proofs = None if halves is None else (_TwoClasses if len(b) == 1 else _Classes)(halves, w, b)
    found: list[Weights] = []
    exact = _exact_scale(w, b, largest, is_near)
    for attempt in [exact, *(largest * (1 - STEP * t) for t in range(TRIES))]:
        if attempt is None:
            continue
        made = _rounded(w, b, attempt, proofs)
        if made.proof.holds:
            return made
        found.append(made)
        if proofs is None:
            break
    return next((made for made in found if made.proof.but_ties), found[0])


def _exact_scale(w: np.ndarray, b: np.ndarray, largest: float, is_near: bool) -> float | None:
    """Return a scale that needs no rounding, if weights are multiples of one number.

    Jumps are twice a weight, so half of that number will do, unless the start must be exact too
    and is an odd number of halves.
    """
    sizes = np.unique(np.abs(w[w != 0]))
    if not len(sizes):
        return None
    for divisor in range(1, 65):
        steps = w * divisor / sizes[0]
        if np.abs(steps - np.round(steps)).max() < 1e-9 * np.abs(steps).max():
            for scale in (float(divisor / sizes[0] / 2), float(divisor / sizes[0])):
                start = scale * (b - w.sum(axis=0))
                if not is_near or np.abs(start - np.round(start)).max() < 1e-9 * _size(steps):
                    return scale if scale <= largest else None
    return None


def _size(steps: np.ndarray) -> float:
    return float(np.abs(steps).sum(axis=0).max())


def _rounded(
    w: np.ndarray, b: np.ndarray, scale: float, proofs: _TwoClasses | _Classes | None
) -> Weights:
    jumps = np.round(2 * w * scale).astype(np.int64)
    ideal = scale * (b - w.sum(axis=0))
    start, proof = np.floor(ideal + 0.5).astype(np.int64), Proof(False, False)
    if proofs is not None:
        proof, start = proofs.prove(jumps, ideal)
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
    most = MOST_HALF if n_scores == 1 else MOST_CELLS // n_scores
    return None if max(sizes) > most else sides


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


def _sums(answers: Answers, values: np.ndarray, base: float = 0.0) -> np.ndarray:
    """Return all sums of a half, of base + values where conditions hold: (n, n_scores)."""
    total = np.zeros((1, values.shape[1]), dtype=values.dtype)
    for group, rows in answers:
        own = (rows - values.dtype.type(base)) @ values[group]
        total = (total[:, None] + own[None]).reshape(-1, values.shape[1])
    return total


def _scores(halves: Halves, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums of w where conditions hold and -w where they do not, of each half."""
    left, right = (_sums(half, 2 * w, 0.5) for half in halves)
    return left, right


def _integers(halves: Halves, jumps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    left, right = (_sums(half, jumps) for half in halves)
    return left, right


# -- proofs ----------------------------------------------------------------------------------


def rounding_of(w: np.ndarray, b: np.ndarray) -> float:
    """Return how far sums of doubles in two orders may be apart; 0 where all are exact."""
    values = np.concatenate([w.ravel(), b])
    total = float((np.abs(w).sum(axis=0) + np.abs(b)).max())
    exponent = 52 - (math.frexp(total)[1] if total else 0)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.ldexp(values, exponent)
        if np.isfinite(scaled).all() and (scaled == np.round(scaled)).all():
            return 0.0
    return 4 * (len(w) + 2) * float(np.finfo(float).eps) * total


class _Line:
    """Scores of all pairs of half sums on a line, to be cut; integers are looked up beside them."""

    def __init__(self, left: np.ndarray, right: np.ndarray):
        self.order = np.argsort(left, kind="stable")
        self.left, self.right = left[self.order], right

    def cut(self, place: float, is_open: bool) -> np.ndarray:
        """Return how many of the left go with each of the right below a place, or up to it."""
        return np.searchsorted(self.left, place - self.right, "left" if is_open else "right")

    def extremes(
        self, at: np.ndarray, left: np.ndarray, right: np.ndarray
    ) -> tuple[int | None, int | None]:
        """Return the greatest integer sum below a cut and the least above it."""
        own = left[self.order]
        some, others = at > 0, at < len(own)
        below = above = None
        if some.any():
            below = int((np.maximum.accumulate(own)[at[some] - 1] + right[some]).max())
        if others.any():
            lowest = np.minimum.accumulate(own[::-1])[::-1]
            above = int((lowest[at[others]] + right[others]).min())
        return below, above


class _TwoClasses:
    """Proofs of "score > 0": what does not depend on the integers is found once."""

    def __init__(self, halves: Halves, w: np.ndarray, b: np.ndarray):
        left, right = _scores(halves, w)
        self.halves = halves
        self.line = _Line(left[:, 0], right[:, 0])
        cut, tie = -float(b[0]), rounding_of(w, b)
        self.above = self.line.cut(cut + tie, False)  # beyond are those of class 1, surely
        self.below = self.line.cut(cut - tie, False)  # up to there those of class 0

    def prove(self, jumps: np.ndarray, ideal: np.ndarray) -> tuple[Proof, np.ndarray]:
        """Return what holds, and the start that makes it so."""
        left, right = (sums[:, 0] for sums in _integers(self.halves, jumps))
        default = np.floor(ideal + 0.5).astype(np.int64)
        low, high = self.line.extremes(self.above, left, right)
        _, lower = self.line.extremes(self.below, left, right)
        start = _start(low, lower, default)
        if start is not None:
            return Proof(True, True), start
        start = _start(low, high, default)
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


class _Classes:
    """Proofs of "the first of the highest scores": of every pair of classes."""

    def __init__(self, halves: Halves, w: np.ndarray, b: np.ndarray):
        left, right = _scores(halves, w)
        self.halves = halves
        self.pairs = []
        for a, c in _pairs(len(b)):
            if np.array_equal(w[:, a], w[:, c]) and b[a] == b[c]:
                continue  # equal in doubles too: the first wins
            line = _Line(left[:, a] - left[:, c], right[:, a] - right[:, c])
            cut, tie = float(b[c] - b[a]), 2 * rounding_of(w[:, [a, c]], b[[a, c]])
            self.pairs.append((a, c, line, line.cut(cut - tie, True), line.cut(cut + tie, True)))

    def prove(self, jumps: np.ndarray, ideal: np.ndarray) -> tuple[Proof, np.ndarray]:
        """Return what holds under rounded starts."""
        start = np.floor(ideal + 0.5).astype(np.int64)
        left, right = _integers(self.halves, jumps)
        holds = True
        for a, c, line, surely, maybe in self.pairs:
            own = left[:, a] - left[:, c], right[:, a] - right[:, c]
            base = int(start[a] - start[c])
            low, high = line.extremes(surely, *own)
            if not _is_right(low, high, base):
                return Proof(False, False), start
            holds &= _is_right(line.extremes(maybe, *own)[0], high, base)
        return Proof(holds, True), start


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
        cut = threshold - base - rounding_of(w[:n], np.array([base]))
        halves = _halves(scores.terms[:n], features, 1)
        ideal = made.start[0] + made.scale * (threshold - base + float(w[:n].sum()))
        limit = math.ceil(ideal) if math.isfinite(ideal) else made.extremes[1] + 1
        if halves is not None:
            line = _Line(*(sums[:, 0] for sums in _scores(halves, w[:n])))
            left, right = (sums[:, 0] for sums in _integers(halves, jumps[:n]))
            low, high = line.extremes(line.cut(cut, True), left + made.start[0], right)
            limit = limit if low is None else max(limit, low + 1)
            limit = limit if high is None else min(limit, high)
            is_exact &= low is None or low < limit
        is_exact &= halves is not None
        low_end, high_end = made.extremes
        found.append(min(max(limit, low_end), high_end + 1))
    return found, is_exact
