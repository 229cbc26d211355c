"""Integers times one scale: a discrete search over the weights of an ensemble, not rounding."""

from __future__ import annotations

from totalqboost.integers.search import Found, Objective, least_scale, search_integers
from totalqboost.integers.two_classes import TwoClasses

__all__ = ["Found", "Objective", "TwoClasses", "least_scale", "search_integers"]
