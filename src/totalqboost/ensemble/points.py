"""Points: weights and intercept as integers times a scale."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, NamedTuple

__all__ = ["Points", "points_of", "snapped"]

NO_MULTIPLE = 1e-6  # of a step: a weight that is farther from a whole number of them is none
MOST_POINTS = 2**31 - 1  # of a weight or an intercept


class Points(NamedTuple):
    """An ensemble in integers: a score is ``scale`` times a sum of whole numbers.

    Attributes
    ----------
    weights : tuple of int, or tuple of tuples of K int
        In the order of ``Ensemble.learners``; > 0 of two classes, of any sign of more.
    intercept : int, or tuple of K int
        In the same unit.
    scale : float
        What one point is worth; > 0, so that labels follow from the integers alone.

    Examples
    --------
    >>> from totalqboost import TotalQBoostClassifier, datasets
    >>> X, y = datasets.load("flare solar")
    >>> clf = TotalQBoostClassifier(0, max_learners=2, n_bits=4).fit(X, y)
    >>> max(clf.ensemble_.points.weights) <= 7
    True
    """

    weights: tuple[Any, ...]
    intercept: Any
    scale: float

    def numbers(self) -> tuple[tuple[Any, ...], Any]:
        """Return the weights and the intercept that they stand for."""
        weights = tuple(_times(own, self.scale) for own in self.weights)
        return weights, _times(self.intercept, self.scale)


def points_of(weights: tuple[Any, ...], intercept: Any, scale: float) -> Points:
    """Return how many times the scale weights and intercept are."""
    return Points(tuple(_steps(own, scale) for own in weights), _steps(intercept, scale), scale)


def snapped(
    weights: tuple[Any, ...], intercept: Any, scale: Any
) -> tuple[tuple[Any, ...], Any, float]:
    """Return weights and intercept as exact multiples of the scale; raise if they are not near."""
    if not (isinstance(scale, Real) and math.isfinite(scale) and float(scale) > 0):
        raise ValueError(f"scale must be None or a finite number > 0, got {scale!r}")
    scale = float(scale)
    multiples = tuple(_multiples("weights", given, scale) for given in weights)
    return multiples, _multiples("intercept", intercept, scale), scale


def _multiples(name: str, given: Any, scale: float) -> Any:
    """Return a number, or several, as the nearest multiples of the scale."""
    if isinstance(given, tuple):
        return tuple(_multiples(name, value, scale) for value in given)
    number = given / scale
    n = round(number) if abs(number) <= MOST_POINTS else 0
    if abs(number - n) > NO_MULTIPLE or (n == 0) != (given == 0):
        raise ValueError(f"{name} must be whole multiples of scale={scale!r}, got {given!r}")
    return n * scale


def _steps(given: Any, scale: float) -> Any:
    """Return how many times the scale a number is, or several are."""
    return (
        tuple(round(v / scale) for v in given) if isinstance(given, tuple) else round(given / scale)
    )


def _times(points: Any, scale: float) -> Any:
    return tuple(p * scale for p in points) if isinstance(points, tuple) else points * scale
