"""Weights and intercepts, checked: a number of two classes, one for each of more."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np

__all__ = ["check_scores", "checked_intercept", "checked_weights"]

MOST_SCORE = 1e150  # leaves room to squares, and to sums over rows


def checked_weights(given: Any, n_classes: int) -> Any:
    """Return the weights of one learner: a number > 0, or one per class."""
    if n_classes == 2:
        if not (isinstance(given, Real) and math.isfinite(given) and float(given) > 0):
            raise ValueError(f"weights must be finite and > 0, got {given!r}")
        return given
    weights = _one_per_class("weights", given, n_classes)
    if not any(weights):
        raise ValueError("weights of a learner must not all be 0: leave the learner out")
    return weights


def checked_intercept(given: Any, n_classes: int) -> Any:
    """Return the intercept: a number, or one per class, for which 0 will do."""
    if n_classes > 2:
        is_default = isinstance(given, Real) and given == 0
        return _one_per_class("intercept", (0.0,) * n_classes if is_default else given, n_classes)
    if not (isinstance(given, Real) and math.isfinite(given)):
        raise ValueError(f"intercept must be finite, got {given!r}")
    return given


def check_scores(weights: tuple[Any, ...], intercept: Any) -> None:
    """Raise ValueError if a score may be too large to work with."""
    sizes = np.abs(np.array([*weights, intercept], dtype=float))
    with np.errstate(over="ignore"):
        largest = float(sizes.sum(axis=0).max())
    if largest > MOST_SCORE:
        raise ValueError(
            f"weights and intercept must add up to at most {MOST_SCORE:g}, got {largest:g}"
        )


def _one_per_class(name: str, given: Any, n_classes: int) -> tuple[float, ...]:
    values = tuple(given) if isinstance(given, Iterable) else (given,)
    if len(values) != n_classes:
        raise ValueError(f"{name} must have one value per class ({n_classes}), got {given!r}")
    if not all(isinstance(value, Real) and math.isfinite(value) for value in values):
        raise ValueError(f"{name} must be finite, got {given!r}")
    return tuple(map(float, values))
