"""The prices that have names: what "auto", "aic", "bic" and "ric" are in numbers.

The objective is a mean over rows, so that every price falls as 1/n. With the logistic loss,
2 n times the mean loss is the deviance; a criterion that adds c to the deviance for each
parameter is a price of c / (2 n).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from totalqboost.parameters import check_number

__all__ = [
    "cardinality_price",
    "check_cardinality_penalty",
    "check_l1_penalty",
    "extra_price",
    "l1_price",
]

# Chosen by test error with the logistic loss: see docs/generalization.md.
AUTO_L1 = 4.0
AUTO_PRICE = 0.5
EXTRA = 2.0  # of a category beyond the first, and of missing values that go their own way
FEW_ROWS = 40  # fewer count as so many: weight must not cost more than any classifier can gain
PRICES = ("auto", "aic", "bic", "ric")


def check_l1_penalty(value: Any) -> None:
    """Raise unless the value is "auto" or a number."""
    if isinstance(value, str) and value != "auto":
        raise ValueError(f"l1_penalty must be 'auto' or a number >= 0, got {value!r}")
    if not isinstance(value, str):
        check_number("l1_penalty", value)


def check_cardinality_penalty(value: Any) -> None:
    """Raise unless the value is one of the names or a number."""
    if isinstance(value, str) and value not in PRICES:
        names = ", ".join(repr(name) for name in PRICES)
        raise ValueError(f"cardinality_penalty must be a number >= 0 or {names}, got {value!r}")
    if not isinstance(value, str):
        check_number("cardinality_penalty", value)


def l1_price(value: float | str, n_rows: float) -> float:
    """Return nu; ``n_rows`` is the effective number of rows, (sum c)^2 / sum c^2."""
    return AUTO_L1 / max(n_rows, FEW_ROWS) if isinstance(value, str) else float(value)


def extra_price(n_rows: float) -> float:
    """Return what a learner pays for each of its extras."""
    return EXTRA / max(n_rows, FEW_ROWS)


def cardinality_price(value: float | str, n_rows: float, n_columns: int) -> float:
    """Return lambda.

    "auto" is half of Akaike's price, "aic" Akaike's (2 a parameter), "bic" Schwarz' (ln n),
    "ric" Foster and George's risk inflation criterion (2 ln M, M the number of weak classifiers
    to choose from, a classifier and its opposite counted once).
    """
    if not isinstance(value, str):
        return float(value)
    n_rows = max(n_rows, FEW_ROWS)
    twice = {
        "auto": 2.0 * AUTO_PRICE,
        "aic": 2.0,
        "bic": np.log(n_rows),
        "ric": 2.0 * np.log(max(n_columns, 2)),
    }
    return float(twice[value]) / (2.0 * n_rows)
