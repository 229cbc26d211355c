"""The ensemble as a table for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from totalqboost.learners import Feature
from totalqboost.tables import Table, counted

if TYPE_CHECKING:
    from totalqboost.ensemble.model import Ensemble

__all__ = ["listed", "table_of"]

MOST_LABELS = 6  # in a list
MOST_COLUMNS = 12  # classes that get a column each


def listed(items: Sequence[str], word: str = "and", most: int = MOST_LABELS) -> str:
    """Return "a, b and c"; of many the first, and how many others there are.

    Examples
    --------
    >>> listed(["a", "b", "c"], "or")
    'a, b or c'
    >>> listed(list("abcdefgh"), most=3)
    'a, b and 6 others'
    """
    if len(items) > most:
        items = [*items[: most - 1], f"{len(items) - most + 1} others"]
    return f" {word} ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def table_of(model: Ensemble, most_columns: int = MOST_COLUMNS) -> Table:
    """Return the weak classifiers, heaviest first.

    Of more than two classes each has a column of weights, if they are not too many.
    """
    n_features = max(model.used_features, default=-1) + 1
    features = model.features or tuple(Feature(f"x{j}") for j in range(n_features))
    cells = [learner.describe(features) for learner in model.learners]
    if not model.is_multiclass:
        return _of_two(model, cells)
    if model.is_shared and model.learners:
        return _of_votes(model, cells)
    return _of_classes(model, cells) if model.n_classes <= most_columns else _of_many(model, cells)


def _of_two(model: Ensemble, cells: Sequence[tuple[str, str]]) -> Table:
    weights, intercept, (word, unit) = _units(model)[:, 1], _intercepts(model)[1], _words(model)
    rows = [(f"{w:.4g}", *cell) for w, cell in zip(weights, cells, strict=True)]
    title = f"{counted(model.n_learners, 'weak classifier')}, intercept {_signed(intercept)}{unit}"
    header = (word, "feature", f"{model.classes[1]!r} if")
    return Table(title, header, rows, "rll", model.weights)


def _words(model: Ensemble) -> tuple[str, str]:
    """Return what weights are called, and what they are counted in if they are integers."""
    if model.scale is None:
        return "weight", ""
    return "points", f", in points of {model.scale:.4g}"


def _units(model: Ensemble) -> np.ndarray:
    """Return the weights per class, as integers if they are multiples of a scale."""
    weights = model.class_weights
    return weights if model.scale is None else np.rint(weights / model.scale)


def _intercepts(model: Ensemble) -> np.ndarray:
    own = model.class_intercepts
    return own if model.scale is None else np.rint(own / model.scale)


def _of_votes(model: Ensemble, cells: Sequence[tuple[str, str]]) -> Table:
    """One weight per weak classifier, and the classes it votes for if its condition holds."""
    rows = [
        (f"{abs(weights[0]):.4g}", *cell, _voted(model, weights))
        for cell, weights in zip(cells, _units(model), strict=True)
    ]
    word, unit = _words(model)
    title = f"{_counts(model)}, intercepts {_amounts(model, _intercepts(model))}{unit}"
    header = (word, "feature", "condition", "votes for (else against)")
    return Table(title, header, rows, "rlll", model.strengths.tolist())


def _voted(model: Ensemble, weights: np.ndarray) -> str:
    """Return the classes of positive weight, or those of negative weight if they are fewer."""
    labels = [repr(label) for label in model.classes]
    voted = [label for label, w in zip(labels, weights, strict=True) if w > 0]
    others = [label for label, w in zip(labels, weights, strict=True) if not w > 0]
    if not others:
        return "all"
    if not voted or len(others) < len(voted) - 1:
        return f"all but {listed(others)}" if voted else "none"
    return listed(voted)


def _of_classes(model: Ensemble, cells: Sequence[tuple[str, str]]) -> Table:
    """A column of weights for each class."""
    rows = [
        (*cell, *map(_signed, weights)) for cell, weights in zip(cells, _units(model), strict=True)
    ]
    first = ("(intercept)", "", *map(_signed, _intercepts(model)))
    what = "weights" if model.scale is None else f"points of {model.scale:.4g}"
    title = f"{_counts(model)}: {what} are added if the condition holds, else subtracted"
    header = ("feature", "condition", *map(repr, model.classes))
    return Table(title, header, [first, *rows], "ll" + "r" * model.n_classes)


def _of_many(model: Ensemble, cells: Sequence[tuple[str, str]]) -> Table:
    """The classes that each weak classifier speaks most for and most against."""
    rows = [
        (*cell, *_extremes(model, weights))
        for cell, weights in zip(cells, _units(model), strict=True)
    ]
    first = ("(intercept)", "", *_extremes(model, _intercepts(model)))
    title = (
        f"{_counts(model)}: the largest of {model.n_classes} weights each{_words(model)[1]}, added "
        "if the condition holds, else subtracted"
    )
    header = ("feature", "condition", "most for", "most against")
    return Table(title, header, [first, *rows], "llll")


def _extremes(model: Ensemble, values: np.ndarray) -> tuple[str, str]:
    """Return the three largest and the three least values, if they are above and below 0."""
    order = np.argsort(-values, kind="stable")
    most, least = order[values[order] > 0][:3], order[values[order] < 0][::-1][:3]
    return _amounts(model, values, most.tolist()), _amounts(model, values, least.tolist())


def _counts(model: Ensemble) -> str:
    return f"{counted(model.n_learners, 'weak classifier')} for {model.n_classes} classes"


def _amounts(model: Ensemble, values: np.ndarray, numbers: Iterable[int] | None = None) -> str:
    numbers = range(model.n_classes) if numbers is None else numbers
    parts = [f"{model.classes[number]!r} {_signed(values[number])}" for number in numbers]
    return listed(parts, most=MOST_COLUMNS)


def _signed(value: float) -> str:
    return f"{value:+.4g}"
