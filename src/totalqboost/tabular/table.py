"""Tables: what each column is, told once from training data, and the numbers learners look at."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from totalqboost.learners import Feature
from totalqboost.parameters import short
from totalqboost.tabular.columns import Column, Place, infinite
from totalqboost.tabular.frames import (
    as_table,
    column_names,
    dense_numbers,
    distinct_names,
    is_frame,
    is_polars,
    raw_column,
    select,
)

__all__ = ["encode", "read_table", "seen_only"]

FROM_DTYPE = "from_dtype"
BLOCK = 2**18  # values looked at together


def read_table(
    X: Any,
    categorical_features: Any = FROM_DTYPE,
    name: str = "X",
    *,
    accept_sparse: bool = False,
) -> tuple[np.ndarray, tuple[Feature, ...]]:
    """Return training data as floats, and what each column is.

    Parameters
    ----------
    X : array-like or data frame of shape (n_rows, n_features)
        A missing value is NaN, None, masked, or what the frame has for it.
    categorical_features : "from_dtype", array-like or None
        Which columns are categories: those of text and of a type that says so; or their
        positions, their names, or a mask; or none.
    name : str
        For errors.
    accept_sparse : bool
        Whether a sparse matrix is taken, or refused.

    Returns
    -------
    X : array of shape (n_rows, n_features)
        Numbers, NaN where they are missing, and codes of categories. The array of the user
        itself if it is of floats; a CSC matrix if X is sparse.
    features : tuple of Feature
    """
    table = as_table(X, name, accept_sparse)
    n_features = table.shape[1]
    names = [str(column) for column in column_names(table)]
    labels = names or [f"x{j}" for j in range(n_features)]
    chosen = _chosen(categorical_features, distinct_names(table), n_features)
    if sparse.issparse(table):
        if chosen:
            raise ValueError(f"categorical_features must be None if {name} is sparse")
        return _of_sparse(table, labels, name)
    dense = None if chosen else dense_numbers(table)
    if dense is not None:
        array = _floats(dense)
        gaps = _gaps(array, range(n_features), name, names)
        return array, tuple(Feature(n, None, gap) for n, gap in zip(labels, gaps, strict=True))
    array = np.empty(table.shape, order="F")
    features = []
    for j, label in enumerate(labels):
        column = _column(table, j, name, names)
        is_categorical = column.is_categorical if chosen is None else j in chosen
        categories = column.categories() if is_categorical else None
        if categories is None:
            array[:, j] = column.numbers(_advice(column.place))
            has_missing = bool(np.isnan(array[:, j]).any())
        else:
            array[:, j] = column.codes(categories)
            has_missing = None in categories
        features.append(Feature(label, categories, has_missing))
    return array, tuple(features)


def encode(
    X: Any,
    features: Sequence[Feature],
    name: str = "X",
    *,
    by_name: bool = True,
    used: Collection[int] | None = None,
) -> np.ndarray:
    """Return further data as floats, in the form of the training data.

    Parameters
    ----------
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        Of the same columns as the training data.
    features : sequence of Feature
        What the columns are; none of them means that all are numbers.
    name : str
        For errors.
    by_name : bool
        Find the columns of a data frame by name, if it has distinct ones.
    used : collection of int, optional
        The columns that matter; others may hold anything, and a data frame may lack them.

    Returns
    -------
    array of shape (n_rows, n_features)
        Categories that training has not seen are -1. A CSC matrix if X is sparse.
    """
    table = as_table(X, name, accept_sparse=True)
    is_distinct = len({feature.name for feature in features}) == len(features) > 0
    if by_name and is_distinct and distinct_names(table):
        table, places = _in_order(table, features, name, used)
    else:
        places = list(range(table.shape[1]))
        if features and len(places) != len(features):
            raise ValueError(
                f"{name} must have {len(features)} columns like the training data, "
                f"got {table.shape[1]}"
            )
    features = features or [Feature(f"x{j}") for j in places]
    if sparse.issparse(table):
        if any(feature.categories is not None for feature in features):
            raise TypeError(
                f"{name} is a sparse matrix, and training had categories; use {name}.toarray()"
            )
        return _of_sparse(table, [feature.name for feature in features], name)[0]
    names = [str(column) for column in column_names(table)]
    wanted = [j for j in places if used is None or j in used]
    dense = dense_numbers(table) if len(places) == len(features) else None
    if dense is not None and not any(features[j].categories is not None for j in wanted):
        array = _floats(dense)
        _gaps(array, wanted, name, names)
        return array
    array = np.full((table.shape[0], len(features)), np.nan, order="F")
    for position, j in enumerate(places):
        if used is None or j in used:
            array[:, j] = _coded(_column(table, position, name, names), features[j])
    return array


def seen_only(X: np.ndarray, features: Sequence[Feature]) -> tuple[np.ndarray, tuple[Feature, ...]]:
    """Return some rows of training data as if they were all: no others have been seen."""
    own, array = [], X
    for j, feature in enumerate(features):
        known = feature.categories
        if known is not None:
            codes, numbers = np.unique(X[:, j], return_inverse=True)
            if len(codes) < len(known):
                array = X.copy(order="F") if array is X else array
                array[:, j] = numbers
                known = tuple(known[int(code)] for code in codes)
            feature = replace(feature, categories=known, has_missing=None in known)
        elif feature.has_missing and not sparse.issparse(X):
            feature = replace(feature, has_missing=bool(np.isnan(X[:, j]).any()))
        own.append(feature)
    return array, tuple(own)


def _of_sparse(table: Any, names: Sequence[str], name: str) -> tuple[Any, tuple[Feature, ...]]:
    """Return a CSC matrix of floats, each column sorted; NaN among its values is missing."""
    if not table.has_canonical_format:
        table = table.copy()  # that of the user stays as it is
        table.sum_duplicates()
    values = _floats(table.data)
    columns = np.repeat(np.arange(table.shape[1]), np.diff(table.indptr))
    if np.isinf(values).any():
        first = int(np.isinf(values).argmax())
        raise infinite(Place(name, int(columns[first])), float(values[first]))
    gaps = np.bincount(columns[np.isnan(values)], minlength=table.shape[1]) > 0
    own = type(table)((values, table.indices, table.indptr), shape=table.shape)
    return own, tuple(Feature(n, None, bool(gap)) for n, gap in zip(names, gaps, strict=True))


def _chosen(given: Any, names: Sequence[str], n_features: int) -> set[int] | None:
    """Return the columns that the user says are categories, None if their types shall tell."""
    if given is None:
        return set()
    if isinstance(given, str):
        if given == FROM_DTYPE:
            return None
        raise ValueError(
            "categorical_features must be 'from_dtype', None, or a list of names, positions or "
            f"a mask, got {given!r}"
        )
    array = np.asarray(given)
    if array.ndim != 1:
        raise ValueError(
            f"categorical_features must be a list of names, positions or a mask, got {short(given)}"
        )
    if array.dtype.kind == "b":
        if len(array) != n_features:
            raise ValueError(
                "categorical_features as a mask must have one value per column "
                f"({n_features}), got {len(array)}"
            )
        return set(np.flatnonzero(array).tolist())
    if not len(array):
        return set()
    if array.dtype.kind in "iu":
        wrong = [int(j) for j in array if not 0 <= j < n_features]
        if wrong:
            raise ValueError(
                f"categorical_features must be positions from 0 to {n_features - 1}, got {wrong}"
            )
        return {int(j) for j in array}
    return _named(given, names)


def _named(given: Iterable[Any], names: Sequence[str]) -> set[int]:
    if not all(isinstance(name, str) for name in given):
        raise ValueError(
            f"categorical_features must be names, positions or a mask, got {list(given)!r}"
        )
    if not names:
        raise ValueError(
            "categorical_features must be positions or a mask if X has no names, or some twice, "
            f"got {list(given)!r}"
        )
    unknown = [name for name in given if name not in names]
    if unknown:
        known = ", ".join(repr(name) for name in names[:5])
        raise ValueError(
            f"categorical_features must name columns of X, got {unknown[0]!r}; X has {known}"
        )
    return {names.index(name) for name in given}


def _column(table: Any, j: int, name: str, names: Sequence[str]) -> Column:
    values, order = raw_column(table, j)
    own = names[j] if is_frame(table) else None
    return Column(values, order, Place(name, j, own, is_polars(table)))


def _coded(column: Column, feature: Feature) -> np.ndarray:
    """Return a column of further data as numbers or codes."""
    if feature.categories is not None:
        return column.codes(feature.categories)
    return column.numbers(", where training had numbers")


def _advice(place: Place) -> str:
    mend = "" if place.name is None else f", or use pandas.to_numeric({place.code}, 'coerce')"
    return f"; name the column in categorical_features if these are categories{mend}"


def _in_order(
    table: Any, features: Sequence[Feature], name: str, used: Collection[int] | None
) -> tuple[Any, list[int]]:
    """Return the columns that are there in the order of the features, and which they are."""
    own = [feature.name for feature in features]
    there = set(distinct_names(table))
    missing = [n for j, n in enumerate(own) if n not in there and (used is None or j in used)]
    if missing:
        raise ValueError(f"{name} must have the columns of the training data, missing {missing}")
    places = [j for j, n in enumerate(own) if n in there]
    return select(table, [own[j] for j in places]), places


def _floats(array: np.ndarray) -> np.ndarray:
    """Return an array of the machine's own single or double precision, itself if it is one."""
    if array.dtype in (np.float64, np.float32) and array.dtype.isnative:
        return array
    with np.errstate(over="ignore"):
        return array.astype(np.float32 if array.dtype == np.dtype(">f4") else np.float64)


def _gaps(array: np.ndarray, places: Iterable[int], name: str, names: Sequence[str]) -> list[bool]:
    """Return which of the columns have missing values; complain about infinity."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(array.sum()):
            return [False for _ in places]  # one infinity or NaN would be one in the sum
    has_nan, has_inf = np.zeros((2, array.shape[1]), dtype=bool)
    step = max(1, BLOCK // max(1, array.shape[1]))
    for start in range(0, len(array), step):
        block = array[start : start + step]
        if not np.isfinite(block).all():
            has_nan |= np.isnan(block).any(axis=0)
            has_inf |= np.isinf(block).any(axis=0)
    for j in places:
        if has_inf[j]:
            values = array[:, j]
            place = Place(name, j, names[j] if names else None)
            raise infinite(place, float(values[np.isinf(values)][0]))
    return [bool(has_nan[j]) for j in places]
