"""Fixed-point weights w_j = step_j k_j, k_j an integer of n_bits: one rule for all solvers.

Tabu search, the grids of the exact solver and the models for annealers hold weights so
("Discrete Weight Variables" in section 3 of the paper). Trained ensembles may have signed integers
times one scale, for devices; see :mod:`totalqboost.integers`.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

__all__ = [
    "MAX_BITS",
    "MOST_BITS",
    "Grid",
    "as_floats",
    "check_bits",
    "check_depth",
    "check_integer_bits",
    "checked_step",
    "grid_step",
    "nearest_levels",
    "top_integers",
    "top_level",
]

MAX_BITS = 12
MOST_BITS = 16  # of a single column, such as an intercept that is wider than weights
ROOM = 1.6  # range of the grid, in units of the largest continuous weight


def top_level(n_bits: int) -> int:
    """Return the largest level, 2^n_bits - 1."""
    return (1 << n_bits) - 1


def grid_step(w: np.ndarray, is_free: np.ndarray, n_bits: int) -> np.ndarray:
    """Return the step of each weight: the grid 0, step, ... holds 1.6 times the largest of w.

    Free columns have a range of their own: an intercept may be much larger than a weight.
    """
    step = np.empty(len(w))
    for mask in (is_free, ~is_free):
        largest = float(w[mask].max(initial=0.0))
        step[mask] = ROOM * (largest if largest > 0 else 1.0) / top_level(n_bits)
    return step


@dataclass(frozen=True, eq=False)
class Grid:
    """The weights that fixed-point variables can hold: 0, step_j, ..., (2^n_bits - 1) step_j.

    Attributes
    ----------
    n_bits : int
        Depth of the weights.
    step : array
        Distance of two levels, per column.
    """

    n_bits: int
    step: np.ndarray

    @classmethod
    def over(cls, w: np.ndarray, is_free: np.ndarray, n_bits: int) -> Grid:
        """Return the grid with room for the weights w; see :func:`grid_step`."""
        return cls(n_bits, grid_step(w, is_free, n_bits))

    def range_of(self, columns: np.ndarray) -> float:
        """Return the largest weight that one of these columns, given by a mask, can have."""
        return float(self.step[columns].max(initial=0.0)) * top_level(self.n_bits)

    def levels(self, w: np.ndarray) -> np.ndarray:
        """Return the nearest levels; a kept column keeps at least one step."""
        return nearest_levels(w, self.step, self.n_bits, lowest=np.asarray(w) > 0)


def checked_step(step: Any, n_columns: int) -> np.ndarray:
    """Return the step per column as an array; a number stands for all columns."""
    steps = as_floats(step)
    if steps.shape == ():
        steps = np.full(n_columns, steps)
    if steps.shape != (n_columns,) or not (np.isfinite(steps).all() and (steps > 0).all()):
        raise ValueError(f"step must be a finite number > 0, or {n_columns} of them, got {step!r}")
    return steps


def as_floats(values: Any) -> np.ndarray:
    """Return an array, of NaN where there are no numbers: the caller's check finds it."""
    try:
        return np.array(values, dtype=float)
    except (TypeError, ValueError):
        return np.array(np.nan)


def nearest_levels(w: np.ndarray, step: np.ndarray, n_bits: int, lowest: Any = 0) -> np.ndarray:
    """Return the integers k for which step k is nearest to w, none below ``lowest``."""
    levels = np.clip(np.rint(np.asarray(w) / step), lowest, top_level(n_bits))
    return levels.astype(np.int64)


def check_bits(n_bits: Any, alternative: str = "", least: int = 1, most: int = MAX_BITS) -> None:
    """Raise ValueError unless n_bits is an integer from ``least`` to ``most``."""
    is_number = isinstance(n_bits, Integral) and not isinstance(n_bits, bool)
    if not (is_number and least <= n_bits <= most):
        raise ValueError(
            f"n_bits must be {alternative}an integer from {least} to {most}, got {n_bits!r}"
        )


def check_integer_bits(n_bits: Any) -> None:
    """Raise ValueError unless n_bits is None or a number of bits for signed integers."""
    if n_bits is not None:
        check_bits(n_bits, "None or ", least=2)


def top_integers(n_bits: int, is_intercept: np.ndarray) -> np.ndarray:
    """Return the largest signed integers of n_bits, for weights, and of 16 bits for intercepts.

    An intercept is added once, to a sum that has to be wide anyway.
    """
    depth = np.where(is_intercept, MOST_BITS - 1, n_bits - 1)
    return (1 << depth) - 1


def check_depth(n_bits: Any) -> None:
    """Raise ValueError unless n_bits is "auto" or an integer from 1 to MAX_BITS."""
    if not (isinstance(n_bits, str) and n_bits == "auto"):
        check_bits(n_bits, "'auto' or ")
