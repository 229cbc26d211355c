"""Where columns come from: arrays, lists, and data frames of any make, none of them imported."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

__all__ = [
    "NUMERIC",
    "as_table",
    "column_names",
    "dense_column",
    "dense_numbers",
    "distinct_names",
    "is_collection",
    "is_frame",
    "raw_column",
    "select",
    "unmasked",
]

NUMERIC = "biuf"  # kinds of dtype: bool, integers, floats
WIDEST = {"b": bool, "i": np.int64, "u": np.uint64, "f": np.float64}


def column_names(X: Any) -> list[Any]:
    """Return the names of the columns of a data frame; an array has none."""
    names = getattr(X, "column_names", None)  # of pyarrow, whose columns are the data
    return list(getattr(X, "columns", []) if names is None else names)


def distinct_names(X: Any) -> list[str]:
    """Return the names by which the columns of X can be found.

    There are none unless X is a data frame whose columns have distinct strings for names.
    """
    names = column_names(X)
    is_named = len(set(names)) == len(names) and all(isinstance(name, str) for name in names)
    return names if is_named else []


def is_frame(X: Any) -> bool:
    """Tell whether columns have names and types of their own."""
    return hasattr(X, "columns") or hasattr(X, "column_names")


def is_collection(X: Any) -> bool:
    """Tell whether a table is an array or a data frame of Dask."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr")


def is_polars(X: Any) -> bool:
    """Tell whether a table is a frame of polars."""
    return type(X).__module__.startswith("polars")


def as_table(X: Any, name: str, accept_sparse: bool = False) -> Any:
    """Return a data frame as it is, a sparse matrix as CSC, else an array of two dimensions."""
    if sparse.issparse(X):
        if not accept_sparse:
            raise TypeError(
                f"{name} is a sparse matrix, and sparse data is not supported here; "
                f"use {name}.toarray()"
            )
        return X if X.format == "csc" else X.tocsc()
    if is_collection(X):
        raise TypeError(
            f"{name} is a collection of Dask, which is not supported here; use {name}.compute()"
        )
    if hasattr(X, "collect") and not hasattr(X, "shape"):
        raise TypeError(f"{name} is a lazy frame; use {name}.collect()")
    if is_frame(X):
        return X
    array: np.ndarray = X if isinstance(X, np.ma.MaskedArray) else np.asarray(X)
    if array.dtype.kind in "US" and not hasattr(X, "dtype"):
        array = np.asarray(X, dtype=object)  # numbers beside text have become text
    if array.dtype.names is not None:
        raise TypeError(f"{name} is a structured array; use pandas.DataFrame({name})")
    if array.ndim != 2:
        raise ValueError(
            f"{name}: Expected 2D array, got {array.ndim}D array instead. Reshape your data with "
            "array.reshape(-1, 1) if it is one feature, or array.reshape(1, -1) if it is one row"
        )
    return array


def dense_column(X: Any, j: int) -> np.ndarray:
    """Return one column of an array or of a sparse matrix."""
    column: np.ndarray = X[:, [j]].toarray().ravel() if sparse.issparse(X) else X[:, j]
    return column


def dense_numbers(table: Any) -> np.ndarray | None:
    """Return a table of plain numbers as one array, without a copy if it is one; else None.

    Masked values are NaN.
    """
    if isinstance(table, np.ndarray):
        if table.dtype.kind not in NUMERIC:
            return None
        return unmasked(table)
    dtypes = list(table.dtypes) if hasattr(table, "iloc") else []
    if not dtypes or not all(isinstance(d, np.dtype) and d.kind in NUMERIC for d in dtypes):
        return None
    is_one = len(set(dtypes)) == 1
    return np.asarray(table.to_numpy() if is_one else table.to_numpy(dtype=float))


def select(X: Any, names: Sequence[str]) -> Any:
    """Return some columns of a data frame, found by name."""
    return X.select(list(names)) if hasattr(X, "select") else X[list(names)]


def declared_order(table: Any, j: int) -> list[Any] | None:
    """Return the categories that the type of column j declares, in order, if it declares any."""
    return raw_column(table[:0] if isinstance(table, np.ndarray) else table.iloc[:0], j)[1]


def raw_column(table: Any, j: int) -> tuple[np.ndarray, list[Any] | None]:
    """Return column j as an array, and its categories in order if its type says it has any.

    The list is empty if they have no order: a type of text says so too, even if all is missing.
    Missing values are None, NaN, or tell by their type.
    """
    if isinstance(table, np.ma.MaskedArray):
        return unmasked(table[:, j]), None
    if isinstance(table, np.ndarray):
        return table[:, j], None
    if hasattr(table, "iloc"):
        return _of_pandas(table.iloc[:, j])
    if hasattr(table, "to_series"):
        return _of_polars(table.to_series(j))
    return _of_arrow(table.column(j))


def unmasked(values: Any) -> np.ndarray:
    """Return an array without a mask; masked values are NaN or None."""
    if not np.ma.is_masked(values):
        return np.asarray(values)
    if values.dtype.kind in NUMERIC:
        wide = values if values.dtype.kind == "f" else values.astype(float)
        return np.asarray(wide.filled(np.nan))
    plain = np.array(values.data, dtype=object)
    plain[np.ma.getmaskarray(values)] = None
    return plain


def _of_pandas(series: Any) -> tuple[np.ndarray, list[Any] | None]:
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        return series.to_numpy(dtype=object if dtype.kind in "mM" else None), None
    if hasattr(dtype, "categories"):
        return series.to_numpy(dtype=object), dtype.categories.tolist()
    kind = getattr(dtype, "kind", "O")
    if kind in NUMERIC:
        if series.hasnans:
            return series.to_numpy(dtype=float, na_value=np.nan), None
        return series.to_numpy(dtype=WIDEST[kind]), None
    is_text = re.match(r"str\b|(large_)?string|dictionary", str(dtype)) is not None
    return series.to_numpy(dtype=object), [] if is_text else None


def _of_polars(series: Any) -> tuple[np.ndarray, list[Any] | None]:
    kind = str(series.dtype)
    if kind.startswith("Enum"):
        return _objects(series.to_list()), list(series.dtype.categories)
    if kind.startswith(("Categorical", "String")):
        return _objects(series.to_list()), []
    if kind.startswith(("List", "Array", "Struct")):
        return _objects(series.to_list()), None
    return series.to_numpy(), None


def _of_arrow(column: Any) -> tuple[np.ndarray, list[Any] | None]:
    kind = str(column.type)
    if re.match(r"(large_)?string|dictionary", kind):
        return _objects(column.to_pylist()), []
    if kind.startswith(("list", "struct", "large_list", "fixed_size_list", "map")):
        return _objects(column.to_pylist()), None
    return column.to_numpy(), None


def _objects(values: list[Any]) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):  # array[:] = values would look into lists
        array[row] = value
    return array
