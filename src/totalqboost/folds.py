"""Folds: which rows are trained on and which are held out, in numbers of the examples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from totalqboost.examples import Examples

__all__ = ["Fold", "check_groups", "split"]

DEFAULT = 5  # folds, as in scikit-learn


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows to train on and rows held out."""

    train: np.ndarray
    test: np.ndarray


def split(cv: Any, examples: Examples, groups: np.ndarray | None = None) -> list[Fold]:
    """Return the folds of a number, a splitter of scikit-learn, or pairs of rows.

    The rows of the user's table are split; those of weight zero, which the examples do not
    have, are then left out.
    """
    from sklearn.model_selection import check_cv  # which takes its time

    labels = examples.table_labels
    splitter = check_cv(_checked(cv, len(labels)), labels, classifier=True)
    X = examples.X if len(examples) == len(labels) else np.zeros((len(labels), 1))
    place = np.full(len(labels), -1)
    place[examples.rows] = np.arange(len(examples))
    folds = []
    for number, pair in enumerate(splitter.split(X, labels, groups)):
        train, test = (place[rows][place[rows] >= 0] for rows in pair)
        if len(np.unique(examples.y[train])) < 2:
            raise ValueError(f"the training rows of fold {number} of cv are all of one class")
        if len(test) == 0:
            raise ValueError(f"fold {number} of cv holds out no row")
        folds.append(Fold(train, test))
    return folds


def check_groups(groups: Any, n_rows: int) -> np.ndarray | None:
    """Return the groups of the rows as an array, if there are any."""
    if groups is None:
        return None
    array = np.asarray(groups)
    if array.shape != (n_rows,):
        raise ValueError(f"groups must have shape ({n_rows},), got {array.shape}")
    return array


def _checked(cv: Any, n_rows: int) -> Any:
    if cv is None:
        return DEFAULT
    is_number = isinstance(cv, Integral) and not isinstance(cv, bool)
    if is_number or (hasattr(cv, "split") and not isinstance(cv, str)):
        return cv
    if isinstance(cv, bool | str) or not isinstance(cv, Iterable):
        raise ValueError(f"cv must be a number of folds, a splitter or folds, got {cv!r}")
    pairs = [tuple(_row_numbers(part, n_rows) for part in pair) for pair in cv]
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise ValueError("cv must have pairs of rows to train on and rows to hold out")
    return pairs


def _row_numbers(part: Any, n_rows: int) -> np.ndarray:
    """Return row numbers, or the places where a mask is true."""
    rows = np.asarray(part)
    if rows.dtype == bool and rows.shape == (n_rows,):
        return np.flatnonzero(rows)
    is_integer = rows.ndim == 1 and (rows.dtype.kind in "iu" or rows.size == 0)
    if not is_integer or np.any((rows < 0) | (rows >= n_rows)):
        raise ValueError(f"cv must hold row numbers from 0 to {n_rows - 1}, or masks of all rows")
    return rows.astype(int)
