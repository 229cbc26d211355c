"""Checks of what a user types: one sentence that names the argument, the value and the fix."""

from __future__ import annotations

import sys
from numbers import Integral, Real
from typing import Any

import numpy as np

__all__ = [
    "as_floats",
    "check_flag",
    "check_integer",
    "check_jobs",
    "check_number",
    "check_share",
    "short",
]


def short(value: Any) -> str:
    """Return a value for a sentence, the beginning of a long one."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def as_floats(name: str, values: Any) -> np.ndarray:
    """Return an array of numbers."""
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must hold numbers, got {short(values)}") from None


def check_number(name: str, value: Any) -> float:
    """Return a finite number >= 0 as a float."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not (is_number and 0 <= value <= sys.float_info.max):
        raise ValueError(f"{name} must be a finite number >= 0, got {short(value)}")
    return float(value)


def check_integer(name: str, value: Any, least: int, alternative: str = "") -> int:
    """Return an integer of at least this size; a complaint says what else it may be."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}{alternative}, got {short(value)}")
    return int(value)


def check_share(name: str, value: Any) -> float:
    """Return a number between 0 and 1, neither of them, as a float."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not (is_number and 0 < value < 1):
        raise ValueError(f"{name} must be a number between 0 and 1, got {value!r}")
    return float(value)


def check_flag(name: str, value: Any) -> None:
    """Raise unless the value is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}")


def check_jobs(value: Any) -> None:
    """Raise unless the value is a number of threads, or None."""
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if value is not None and not (is_integer and value != 0):
        raise ValueError(f"n_jobs must be an integer other than 0, or None, got {value!r}")
