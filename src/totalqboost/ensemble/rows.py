"""Rows to score: the tables that people have, as an ensemble looks at them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from totalqboost.kernels.scoring import infinite_column
from totalqboost.learners import Feature
from totalqboost.tabular import encode

__all__ = ["as_rows", "dense_columns", "some_columns", "table_of"]

FLOATS = (np.float64, np.float32)
MOST_NAMES = 10  # in an error


def as_rows(x: Any) -> Any:
    """Return one row as a table of one row; a Series keeps its names."""
    if hasattr(x, "to_frame") and hasattr(x, "index"):
        return x.to_frame().T
    if isinstance(x, np.ndarray):
        return x[None] if x.ndim == 1 else x
    is_row = isinstance(x, Sequence) and not any(np.ndim(value) for value in x)
    return [x] if is_row and len(x) else x


def table_of(X: Any, features: Sequence[Feature], used: Sequence[int], name: str) -> np.ndarray:
    """Return rows in the form of the training data, as far as they are used.

    An array of floats without categories is returned as it is. Where features are not known, all
    are numbers.
    """
    is_array = isinstance(X, np.ndarray) and not isinstance(X, np.ma.MaskedArray)
    if is_array:
        _check_shape(X.shape, features, name)
    is_coded = any(features[j].categories is not None for j in used) if features else False
    if not is_array or X.dtype not in FLOATS or is_coded:
        return encode(X, features, name, used=frozenset(used))
    _check_columns(X, used, name)
    j = infinite_column(X, np.array(used, dtype=np.int64))
    if j >= 0:
        own = features[j].name if features else int(j)
        raise ValueError(
            f"{name} must not contain infinity (column {own!r}); replace it by a large number, or "
            "by NaN, which is a missing value"
        )
    return X


def dense_columns(
    X: Any, features: Sequence[Feature], used: Sequence[int], name: str
) -> np.ndarray:
    """Return the used columns of a sparse matrix, and no others."""
    _check_shape(X.shape, features, name)
    _check_columns(X, used, name)
    kept = some_columns(X, used)
    own = [features[j] if features else Feature(f"x{j}") for j in used]
    return table_of(kept, own, range(len(own)), name)


def some_columns(X: Any, used: Sequence[int]) -> np.ndarray:
    """Return some columns of a sparse matrix as an array."""
    columns: np.ndarray = X.tocsc()[:, list(used)].toarray()
    return columns


def _check_shape(shape: tuple[int, ...], features: Sequence[Feature], name: str) -> None:
    if len(shape) != 2 or (features and shape[1] != len(features)):
        names = [feature.name for feature in features[:MOST_NAMES]]
        shown = ", ".join(map(repr, names)) + (", ..." if len(features) > MOST_NAMES else "")
        wanted = f"{len(features)} columns ({shown})" if features else "two dimensions"
        raise ValueError(f"{name} must have {wanted}, got shape {shape}")


def _check_columns(X: Any, used: Sequence[int], name: str) -> None:
    if X.shape[1] <= max(used, default=-1):
        raise ValueError(f"{name} must have more than {max(used)} columns, got {X.shape[1]}")
