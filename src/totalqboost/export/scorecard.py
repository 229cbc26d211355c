"""An ensemble as a scorecard: whole points for each rule, and what a total means."""

from __future__ import annotations

import math
from bisect import bisect
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from itertools import groupby
from typing import Any

import numpy as np

from totalqboost import losses
from totalqboost.ensemble import Ensemble
from totalqboost.export.model import (
    Sum,
    Term,
    exportable,
    one_line,
    scaled_sum,
    training_words,
)
from totalqboost.learners import Both, CategorySet, Feature, Missing, Stump, label_text
from totalqboost.tables import counted

__all__ = ["Card", "Level", "Rule", "card_of", "to_scorecard"]

FORMATS = ("markdown", "html", "png")
POINTS = 10  # of the heaviest rule, where points have to be rounded
MOST_POINTS = 1000
MOST_LEVELS = 16  # totals that have a line each
# Risks between two of these share a line where totals are many.
BANDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
DIGITS = 15  # decimal numbers of so many digits are different doubles, in the same order


@dataclass(frozen=True)
class Rule:
    """A line of the card: what has to hold, and the points for it, one number per score."""

    condition: Any
    text: str
    points: tuple[int, ...]


@dataclass(frozen=True)
class Level:
    """What totals from ``low`` to ``high`` mean: an answer, and risks if the loss knows them."""

    low: int
    high: int
    answer: str
    risks: Any = None


@dataclass(frozen=True)
class Card:
    """A scorecard.

    Attributes
    ----------
    title : str
        Its heading.
    classes : tuple of str
        The labels.
    rules : tuple of Rule
        Points are added where a rule holds. Two classes have one total, more have one each.
    start : tuple of int
        The points that each of more than two classes begins with.
    cutoff : int
        Of two classes the second is the answer from this total on; of more the first of those
        with the highest total.
    unit, origin : float
        A total t is the score origin + unit t of two classes; of more, one point is a score of
        ``unit``.
    loss : str
        Turns scores into risks.
    notes : tuple of str
        What a reader should know.
    """

    title: str
    classes: tuple[str, ...]
    rules: tuple[Rule, ...]
    start: tuple[int, ...]
    cutoff: int
    unit: float
    origin: float
    loss: str
    notes: tuple[str, ...] = ()

    @property
    def is_multiclass(self) -> bool:
        """Whether there are more than two classes."""
        return len(self.classes) > 2

    @property
    def highest(self) -> int:
        """The highest total of two classes."""
        return sum(rule.points[0] for rule in self.rules)

    def numbers(self, X: np.ndarray) -> np.ndarray:
        """Return which class the card says rows of the internal table are of."""
        totals = np.tile(np.array(self.start or (0,)), (len(X), 1))
        for rule in self.rules:
            totals += np.outer(rule.condition.predict(X) > 0, rule.points)
        if self.is_multiclass:
            return totals.argmax(axis=1)
        return np.asarray(totals[:, 0] >= self.cutoff).astype(int)

    def levels(self) -> list[Level]:
        """Return the lines of the table of totals of two classes.

        Each total has a line if they are few, else all that have the same answer and a like risk.
        """
        found: list[Level] = []
        is_short = self.highest < MOST_LEVELS
        for low, high in self._ranges(is_short):
            answer = self.classes[low >= self.cutoff]
            risks = self._risk(low), self._risk(high)
            found.append(Level(low, high, answer, None if risks[0] is None else risks))
        return found

    def _ranges(self, is_short: bool) -> Iterator[tuple[int, int]]:
        """Yield the first and the last of the totals that share a line."""
        for _, group in groupby(range(self.highest + 1), None if is_short else self._band):
            own = list(group)
            yield own[0], own[-1]

    def _band(self, total: int) -> tuple[bool, int]:
        risk = self._risk(total)
        return total >= self.cutoff, 0 if risk is None else bisect(BANDS, risk)

    def _risk(self, total: int) -> float | None:
        """Return the probability of the second class, if the loss knows it."""
        if self.loss not in losses.names():
            return None
        score = np.array([self.origin + self.unit * total])
        return float(losses.get(self.loss).link(score)[0])

    def verdict(self) -> str:
        """Return how totals become an answer."""
        if self.is_multiclass:
            return "The highest total is the answer; of equal ones the one that stands first."
        first, second = self.classes
        if self.cutoff > self.highest:
            return f"Every total means {first}."
        if self.cutoff <= 0:
            return f"Every total means {second}."
        return f"A total of {self.cutoff} or more means {second}, less means {first}."


def to_scorecard(
    model: Any,
    format: str = "markdown",
    *,
    points: int | None = None,
    rows: Any = None,
    title: str | None = None,
) -> Any:
    """Return a scorecard that can be printed: points for each rule, and what their total means.

    The weights of a model that was trained with ``n_bits`` are the points, and the card gives the
    labels of the model for values of up to 15 digits: thresholds have as many as that takes.
    Weights of other models are rounded, and the card says so.

    Parameters
    ----------
    model : Ensemble or fitted classifier
        What to export.
    format : {"markdown", "html", "png"}
        Text, a page that can be printed, or the bytes of a picture.
    points : int, optional
        Of the heaviest rule, where points are rounded; 10 by default.
    rows : array or data frame, optional
        The card says for how many of these rows its label differs from that of the model, and
        where points are rounded, they are chosen for that number to be small.
    title : str, optional
        The heading.

    Examples
    --------
    >>> from totalqboost import Ensemble, Stump, export
    >>> stumps = (Stump(0, 40.0), Stump(1, 1.8, -1), Stump(0, 60.0))
    >>> model = Ensemble(
    ...     stumps, (0.75, 0.5, 0.25), -0.5, ("no", "yes"), ("age", "height"), "logistic", 0.25
    ... )
    >>> print(export.to_scorecard(model))
    # Scorecard: no or yes
    <BLANKLINE>
    Add the points of every line that holds.
    <BLANKLINE>
    |   | If | Points |
    |---|---|---:|
    | ☐ | age > 40 | 3 |
    | ☐ | age > 60 | 1 |
    | ☐ | height ≤ 1.8 | 2 |
    |   | **Total** |  |
    <BLANKLINE>
    A total of 5 or more means yes, less means no.
    <BLANKLINE>
    | Total | Risk of yes | Answer |
    |---:|---:|---|
    | 0 | 12 % | no |
    | 1 | 18 % | no |
    | 2 | 27 % | no |
    | 3 | 38 % | no |
    | 4 | 50 % | no |
    | 5 | 62 % | yes |
    | 6 | 73 % | yes |
    <BLANKLINE>
    Points are the integer weights of the model, none is rounded.
    <BLANKLINE>
    """
    if format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {format!r}")
    card = card_of(model, points=points, rows=rows, title=title)
    from totalqboost.export import scorecard_pages as pages

    if format == "png":
        return pages.png(card)
    return pages.html(card) if format == "html" else pages.markdown(card)


def card_of(
    model: Any, *, points: int | None = None, rows: Any = None, title: str | None = None
) -> Card:
    """Return the scorecard of a model; see :func:`to_scorecard`."""
    ensemble = exportable(model)
    is_number = isinstance(points, int) and not isinstance(points, bool)
    if points is not None and not (is_number and 1 <= points <= MOST_POINTS):
        raise ValueError(f"points must be None or from 1 to {MOST_POINTS}, got {points!r}")
    X = None if rows is None else ensemble.checked_rows(rows, "rows")
    total, scale = scaled_sum(ensemble)
    total = _merged(total)
    amounts, base = _amounts(total)
    if ensemble.points is not None:
        unit = float(math.gcd(*map(int, [*amounts.ravel(), *(base if len(base) > 1 else [])])) or 1)
        card = _card(ensemble, total, amounts, base, unit, scale)
        notes = ["Points are the integer weights of the model, none is rounded."]
    else:
        tries = [
            _card(ensemble, total, amounts, base, unit, 1.0)
            for unit in _units(amounts, points or POINTS)
        ]
        card = min(tries, key=lambda tried: _difference(ensemble, tried, X))
        notes = [_rounding(card, total)]
    if X is not None:
        notes.append(_measured(int(_difference(ensemble, card, X)), len(X)))
    elif ensemble.points is None:
        notes.append("How often labels differ from those of the model was not measured.")
    notes += _about_training(ensemble)
    heading = title or f"Scorecard: {' or '.join(card.classes)}"
    return replace(card, title=one_line(heading), notes=tuple(notes))


def _merged(total: Sum) -> Sum:
    """Return the sum with one term for each condition."""
    values: dict[Any, np.ndarray] = {}
    for term in total.terms:
        values[term.condition] = values.get(term.condition, 0.0) + np.array(term.values)
    merged = (Term(condition, tuple(own.tolist())) for condition, own in values.items())
    return Sum(total.intercept, tuple(term for term in merged if any(term.values)))


def _amounts(total: Sum) -> tuple[np.ndarray, np.ndarray]:
    """Return what is added where a condition holds, >= 0, and the scores where none holds.

    A term adds v where it holds and -v elsewhere: -v always and 2 v where it holds. Of two
    classes a negative one is turned round. Of more, all may be moved by the same amount.
    """
    values = np.array([term.values for term in total.terms]).reshape(-1, len(total.intercept))
    base = np.array(total.intercept)
    if len(base) == 1:
        return 2.0 * np.abs(values), base - np.abs(values).sum(axis=0)
    amounts, base = 2.0 * values, base - values.sum(axis=0)
    return amounts - amounts.min(axis=1, keepdims=True, initial=np.inf), base - base.min()


def _units(amounts: np.ndarray, points: int) -> list[float]:
    """Return what a point may be worth if the heaviest rule has about so many points."""
    largest = float(amounts.max(initial=0.0))
    if largest == 0.0:
        return [1.0]
    found = []
    for most in range(points, max(1, points // 2) - 1, -1):
        whole = np.rint(amounts * (most / largest))
        unit = float((amounts * whole).sum() / (whole**2).sum())  # least squares
        found.append(max(unit, largest / (points + 0.49)))  # not one point more
    errors = [float(((amounts - unit * np.rint(amounts / unit)) ** 2).sum()) for unit in found]
    return [found[k] for k in np.argsort(errors, kind="stable")]


def _card(
    ensemble: Ensemble,
    total: Sum,
    amounts: np.ndarray,
    base: np.ndarray,
    unit: float,
    scale: float,
) -> Card:
    """Return the card on which a point is worth ``unit`` times ``scale``."""
    whole = np.rint(amounts / unit).astype(int)
    cuts = cut_words([term.condition for term in total.terms])
    rules = [
        _rule(ensemble, term, tuple(row.tolist()), cuts)
        for term, row in zip(total.terms, whole, strict=True)
        if row.any()
    ]
    rules.sort(key=lambda rule: (rule.condition.features, _place(rule.condition)))
    start, cutoff, origin = (), 0, 0.0
    if len(base) == 1:
        # Rounded weights are those of another ensemble: its score where no rule holds.
        lost = Fraction(amounts.sum() / 2) - Fraction(unit) * int(whole.sum()) / 2
        none = Fraction(base[0]) + lost
        cutoff = math.floor(-none / Fraction(unit)) + 1  # the first total of a score > 0
        origin = float(none) * scale
    else:
        start = tuple(np.rint(base / unit).astype(int).tolist())
    classes = tuple(one_line(label) for label in ensemble.classes)
    return Card("", classes, tuple(rules), start, cutoff, unit * scale, origin, ensemble.loss)


def _rule(ensemble: Ensemble, term: Term, points: tuple[int, ...], cuts: Cuts) -> Rule:
    condition: Any = term.condition
    if len(term.values) == 1 and term.values[0] < 0:
        condition = condition.negated()
    return Rule(condition, wording(condition, ensemble.features, cuts), points)


def _place(condition: Any) -> float:
    return float(condition.threshold) if isinstance(condition, Stump) else math.inf


def _difference(ensemble: Ensemble, card: Card, X: np.ndarray | None) -> float:
    """Return for how many rows the card has another label than the model."""
    if X is None:
        return 0.0
    scores = ensemble.scores(X)
    own = scores.argmax(axis=1) if ensemble.is_multiclass else (scores > 0).astype(int)
    return float((own != card.numbers(X)).sum())


def _rounding(card: Card, total: Sum) -> str:
    n_lost = len(total.terms) - len(card.rules)
    lost = f"; {counted(n_lost, 'rule')} of less than half a point left out" if n_lost else ""
    return f"Points are rounded to whole numbers{lost}."


def _measured(n_wrong: int, n_rows: int) -> str:
    if not n_wrong:
        return f"On {counted(n_rows, 'row')} the card and the model give the same labels."
    share = 100.0 * n_wrong / n_rows
    return (
        f"On {counted(n_rows, 'row')} the card gives another label than the model for {n_wrong} "
        f"({share:.2g} %)."
    )


def _about_training(ensemble: Ensemble) -> list[str]:
    """Return what the model was made of, and a proof if there is one; prices are not for paper."""
    words = training_words(ensemble)
    told = [f"Trained on {words['training data']}."] if words else []
    if "integers" in words:
        told.append("The integers are proved to be the best for these rules and this scale.")
    return told


# -- words -----------------------------------------------------------------------------------

# What lies above a threshold of a feature, and what does not: "> 40", "≤ 40".
Cuts = dict[tuple[int, float], tuple[str, str]]


def cut_words(conditions: Sequence[Any]) -> Cuts:
    """Return the words of all thresholds; two of one feature never have the same."""
    parts = [part for c in conditions for part in (c.parts if isinstance(c, Both) else (c,))]
    places = sorted({(h.feature, h.threshold) for h in parts if isinstance(h, Stump)})
    words = {place: _cut(place[1]) for place in places}
    shared = Counter((place[0], own) for place, own in words.items())
    for (feature, threshold), own in words.items():
        if shared[feature, own] > 1:
            words[feature, threshold] = f"> {threshold!r}", f"≤ {threshold!r}"
    return words


def _cut(threshold: float) -> tuple[str, str]:
    """Return the shortest words that say of every decimal number of 15 digits what x > t does.

    The largest such number whose double is <= t stands after ">", or the next one after "≥":
    readings of 0.3 are above 0.29999999999999993, which is "≥ 0.3".
    """
    if abs(threshold) < 1e-290:  # doubles are sparse there
        return f"> {_short(threshold)}", f"≤ {_short(threshold)}"
    digits = Context(prec=DIGITS, rounding=ROUND_FLOOR)
    below = digits.plus(Decimal(threshold))
    if float(digits.next_plus(below)) <= threshold:
        below = digits.next_plus(below)
    first, second = (_short(value) for value in (below, digits.next_plus(below)))
    if len(second) < len(first):
        return f"≥ {second}", f"< {second}"
    return f"> {first}", f"≤ {first}"


def _short(value: Decimal | float) -> str:
    """Return a number without zeros at its end; a power of ten only if it is far from 1."""
    exact = Decimal(str(value)).normalize()
    return f"{exact:f}" if exact == 0 or -6 < exact.adjusted() < DIGITS else f"{exact:e}"


def wording(condition: Any, features: Sequence[Feature], cuts: Cuts) -> str:
    """Return when a rule holds, in words for people."""
    is_plain = condition.polarity > 0
    if isinstance(condition, Both):
        text = " and ".join(wording(part, features, cuts) for part in condition.parts)
        return text if is_plain else f"not both: {text}"
    feature = features[condition.feature]
    name = one_line(feature.name)
    match condition:
        case Missing():
            return f"{name} is {'missing' if is_plain else 'known'}"
        case Stump(threshold=threshold, missing_above=above):
            is_told = feature.has_missing and above == is_plain
            cut = cuts[condition.feature, threshold][not is_plain]
            return f"{name} {cut}{' or missing' if is_told else ''}"
        case CategorySet(codes=codes):
            return f"{name} {_listed(feature.categories or (), codes, is_plain)}"
    raise AssertionError(condition)


def _listed(known: Sequence[Any], codes: Sequence[int], is_plain: bool) -> str:
    labels = [one_line(label_text(known[code])) for code in codes]
    if len(labels) == 1:
        return f"is {'' if is_plain else 'not '}{labels[0]}"
    text = ", ".join(labels)
    return f"is one of {text}" if is_plain else f"is none of {text}"
