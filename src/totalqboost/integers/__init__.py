"""Integers times one scale: a discrete search over the weights of an ensemble, not rounding."""

from __future__ import annotations

from totalqboost.integers.search import Found, Objective, least_scale, search_integers
from totalqboost.integers.two_classes import TwoClasses, integer_weights

__all__ = ["Found", "Objective", "TwoClasses", "integer_weights", "least_scale", "search_integers"]
