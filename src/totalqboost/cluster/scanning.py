"""The first look at partitions: kinds of columns, categories, quantiles, labels.

Every partition is looked at by itself, and what was seen merges in the order of the partitions, so
that a column is what it would be in one table. Partitions may be empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from totalqboost.cluster.summary import Summary
from totalqboost.learners import Feature
from totalqboost.parameters import as_floats, short
from totalqboost.tabular import (
    MAX_CATEGORIES,
    as_table,
    column_names,
    declared_order,
    read_table,
)

__all__ = ["Seen", "check_length", "deciles_of", "merged", "seen_column_cuts", "seen_in"]


@dataclass(frozen=True, eq=False)
class SeenColumn:
    """What the rows of some partitions say of a column.

    Attributes
    ----------
    name : str
        As in the frame, else x0, x1, ...
    categories : tuple, optional
        The labels that occur; None if the column holds numbers.
    order : list, optional
        The order that the type declares, empty if it has none.
    has_missing, is_empty : bool
        Whether values are missing, and whether all are.
    numbers : Summary
        Of the values, if they are numbers.
    """

    name: str
    categories: tuple[Any, ...] | None
    order: tuple[Any, ...]
    has_missing: bool
    is_empty: bool
    numbers: Summary

    def merged(self, other: SeenColumn) -> SeenColumn:
        """Return what both say together."""
        if self.is_empty or other.is_empty:
            one, more = (other, self) if self.is_empty else (self, other)
            has_missing = self.has_missing or other.has_missing
            categories = one.categories
            if categories is not None and more.has_missing and None not in categories:
                categories = (*categories, None)
            return SeenColumn(
                one.name, categories, one.order, has_missing, one.is_empty, one.numbers
            )
        if (self.categories is None) != (other.categories is None):
            raise TypeError(
                f"column {self.name!r} of X holds numbers in some partitions and text in others; "
                "give it one type, e.g. with X.astype, or name it in categorical_features"
            )
        categories = None
        if self.categories is not None and other.categories is not None:
            categories = _union(self.categories, other.categories, self.order)
            if len(categories) > MAX_CATEGORIES:
                raise ValueError(
                    f"column {self.name!r} of X has more than {MAX_CATEGORIES} categories; leave "
                    "it out if it identifies rows, or make groups of them"
                )
        return SeenColumn(
            self.name,
            categories,
            self.order,
            self.has_missing or other.has_missing,
            False,
            self.numbers.merged(other.numbers),
        )

    def thinned(self) -> SeenColumn:
        """Return the same with a summary of the size that it may have."""
        return replace(self, numbers=self.numbers.thinned())

    def feature(self) -> Feature:
        """Return the feature that the column is."""
        return Feature(self.name, self.categories, self.has_missing)


@dataclass(frozen=True, eq=False)
class Seen:
    """What some partitions hold: columns, and the number of rows."""

    columns: list[SeenColumn]
    n_rows: int


def seen_in(table: Any, weight: Any, categorical_features: Any, size: int) -> Seen | None:
    """Look at one partition; rows of weight zero do not count. None if it has no row."""
    table = as_table(table, "X")
    if weight is not None:
        check_length("sample_weight", weight, table)
        table = rows_of(table, np.flatnonzero(as_floats("sample_weight", weight) > 0))
    if not table.shape[0]:
        return None
    array, features = read_table(table, categorical_features)
    nothing = Summary(np.zeros(0), np.zeros(0, dtype=np.int64), size)
    columns = []
    for j, feature in enumerate(features):
        is_number = feature.categories is None
        is_empty = bool(np.isnan(array[:, j]).all()) if is_number else feature.categories == (None,)
        numbers = Summary.of(array[:, j], size) if is_number else nothing
        order = tuple(declared_order(table, j) or ())
        own = feature.name, feature.categories, order, feature.has_missing, is_empty, numbers
        columns.append(SeenColumn(*own))
    return Seen(columns, len(array))


def merged(parts: Sequence[Seen | None]) -> Seen | None:
    """Return what partitions say together, in their order."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    names = [[column.name for column in part.columns] for part in known]
    for other in names:
        if other != names[0]:
            raise ValueError(
                "X must have the same columns in the same order in all partitions, got "
                f"{short(names[0])} and {short(other)}"
            )
    columns = [  # one after the other: unthinned they are large
        reduce(SeenColumn.merged, same).thinned()
        for same in zip(*(part.columns for part in known), strict=True)
    ]
    return Seen(columns, sum(part.n_rows for part in known))


def seen_column_cuts(seen: Seen, max_bins: int) -> list[np.ndarray]:
    """Return the thresholds of all columns; categories have none."""
    return [
        np.zeros(0) if column.categories is not None else column.numbers.cuts(max_bins)
        for column in seen.columns
    ]


def deciles_of(seen: Seen | None) -> tuple[tuple[float, ...], ...]:
    """Return those of the columns of numbers, as near as their summaries are; else none."""
    if seen is None:
        return ()
    return tuple(_deciles(column.numbers) for column in seen.columns)


def _deciles(numbers: Summary) -> tuple[float, ...]:
    if not len(numbers.values):
        return ()
    upto = np.cumsum(numbers.counts)
    places = np.searchsorted(upto, np.linspace(0, 1, 11) * upto[-1])
    return tuple(map(float, numbers.values[np.minimum(places, len(upto) - 1)]))


def seen_features(seen: Seen | None) -> tuple[Feature, ...]:
    """Return the features that the columns are; none if there was no row."""
    if seen is None:
        return ()
    return tuple(column.feature() for column in seen.columns)


def check_length(name: str, values: Any, table: Any) -> None:
    """Complain about labels or weights of a partition that belong to other rows."""
    if len(values) != table.shape[0]:
        raise ValueError(
            f"{name} must have as many rows as X in every partition, got {len(values)} for "
            f"{table.shape[0]} rows; make both from one data frame"
        )


def rows_of(table: Any, rows: np.ndarray) -> Any:
    """Return some rows of an array or of a data frame of pandas."""
    if len(rows) == table.shape[0]:
        return table
    return table.iloc[rows] if column_names(table) else table[rows]


def _union(a: tuple[Any, ...], b: tuple[Any, ...], order: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the labels of both in the order that a column of all of them would have."""
    found = set(a) | set(b)
    gap = (None,) if None in found else ()
    found.discard(None)
    if order:
        place = {label: i for i, label in enumerate(order)}  # types of partitions may differ
        rank = [(place.get(x, len(place)), isinstance(x, str), x) for x in found]
        return (*(label for *_, label in sorted(rank)), *gap)
    return (*sorted(found, key=lambda label: (isinstance(label, str), label)), *gap)
