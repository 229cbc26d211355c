"""One column: what its values are, and how they become numbers or codes of categories."""

from __future__ import annotations

import contextlib
import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from numbers import Complex, Integral, Real
from typing import Any

import numpy as np

from totalqboost.tabular.frames import NUMERIC

__all__ = ["MAX_CATEGORIES", "Column", "Place", "infinite", "is_missing"]

MAX_CATEGORIES = 65_535
EXACT = 2**53  # below it floats tell integers apart

NUMBER, TEXT, DATE, COMPLEX, OTHER, GAP = "number", "text", "date", "complex", "other", "gap"
GAPS = {"NoneType", "NAType", "NaTType", "MaskedConstant"}  # None, and what stands for it
OF_DTYPE = dict.fromkeys(NUMERIC, NUMBER) | {"U": TEXT, "S": TEXT, "M": DATE, "m": DATE}
OF_DTYPE |= {"c": COMPLEX}


@dataclass(frozen=True)
class Place:
    """How errors speak of a column; it has a name if it is one of a data frame."""

    table: str
    position: int
    name: str | None = None
    is_polars: bool = False

    def __str__(self) -> str:
        if self.name is None:
            return f"column {self.position} of {self.table}"
        return f"column {self.name!r} (position {self.position}) of {self.table}"

    @property
    def code(self) -> str:
        """How to write the column in Python."""
        return f"{self.table}[:, {self.position}]" if self.name is None else f"df[{self.name!r}]"


@dataclass(frozen=True, eq=False)
class Column:
    """The values of a column.

    Attributes
    ----------
    values : array
        Numbers, text or objects.
    order : list, optional
        The categories it is declared to have; an empty list if their order is not known.
    place : Place
        Where it stands.
    """

    values: np.ndarray
    order: list[Any] | None
    place: Place

    @cached_property
    def _kinds(self) -> dict[str, type]:
        """What its values are, with a type for an example; gaps are left out."""
        if self.values.dtype.kind != "O":
            return {OF_DTYPE.get(self.values.dtype.kind, OTHER): self.values.dtype.type}
        types = set(map(type, self.values[~self._is_gap].tolist()))
        return {_kind(type_): type_ for type_ in types}

    @cached_property
    def _is_gap(self) -> np.ndarray:
        return is_missing(self.values)

    @property
    def is_categorical(self) -> bool:
        """Tell whether the type says so.

        Text does in a data frame. An array has one type for all, and text that reads as numbers
        counts as numbers there.
        """
        if self.order is not None:
            return True
        if set(self._kinds) != {TEXT}:
            return False
        return self.place.name is not None or not self._is_readable()

    def _is_readable(self) -> bool:
        try:
            self.numbers()
        except ValueError:
            return False
        return True

    # -- numbers -----------------------------------------------------------------------

    def numbers(self, advice: str = "") -> np.ndarray:
        """Return floats, NaN where a value is missing; ``advice`` is for text that is none."""
        found = self.values
        if self.values.dtype.kind not in NUMERIC:
            self._refuse_what_is_no_number()
            found = self._converted(advice)
        with np.errstate(over="ignore"):
            found = found.astype(float)
        if np.isinf(found).any():
            raise infinite(self.place, float(found[np.isinf(found)][0]))
        return found

    def _converted(self, advice: str) -> np.ndarray:
        """Return objects as floats: at once if they are numbers, text one by one."""
        known = np.flatnonzero(~self._is_gap)
        found = np.full(len(self.values), np.nan)
        if TEXT not in self._kinds:
            try:
                found[known] = self.values[known].astype(float)
                return found
            except OverflowError:
                pass  # an integer, to be named below
        for row in known.tolist():
            found[row] = self._number(row, advice)
        return found

    def _number(self, row: int, advice: str) -> float:
        value = _plain(self.values[row])
        try:
            if isinstance(value, str) and "_" in value:
                raise ValueError  # which Python takes for a number with groups of digits
            return float(value)
        except OverflowError:
            raise infinite(self.place, math.inf if value > 0 else -math.inf) from None
        except ValueError:
            raise ValueError(
                f"{self.place} must hold numbers, got {value!r} in row {row}{advice}"
            ) from None

    def _refuse_what_is_no_number(self) -> None:
        kinds, code = self._kinds, self.place.code
        if DATE in kinds:
            # Counted from a fixed day: the first of the data would be another one in new data.
            days = f"(pd.to_datetime({code}, utc=True) - pd.Timestamp(0, tz='UTC')).dt.days"
            seconds = f"pd.to_timedelta({code}).dt.total_seconds()"
            if self.place.is_polars:
                days = f"{code}.dt.epoch('d')"
                seconds = f"{code}.dt.total_seconds()"
            elif self.place.name is None:
                days = f"{code}.astype('datetime64[D]').astype(float)"
                seconds = f"{code} / np.timedelta64(1, 's')"
            raise TypeError(
                f"{self.place} holds dates or durations; turn them into numbers, e.g. dates with "
                f"{days} and durations with {seconds}"
            )
        if COMPLEX in kinds:
            raise ValueError(
                f"Complex data not supported: {self.place} holds complex numbers; use the real "
                "and the imaginary part as two columns"
            )
        if OTHER in kinds:
            raise self._nested()

    def _nested(self) -> TypeError:
        kind = self._kinds[OTHER]
        return TypeError(
            f"{self.place} holds values of type {kind.__name__}; each argument must be a string "
            "or a number, so make columns of numbers or text of them"
        )

    # -- categories --------------------------------------------------------------------

    @cached_property
    def _distinct(self) -> tuple[list[Any], np.ndarray]:
        """The labels that occur, and for each row which of them it has, -1 if it is missing."""
        place = np.full(len(self.values), -1)
        is_known = ~self._is_gap
        if self.values.dtype.kind in NUMERIC:
            found, place[is_known] = np.unique(self.values[is_known], return_inverse=True)
            labels = [_label(value) for value in found]
        else:
            kind = self._kinds.get(OTHER)
            if kind is not None and kind.__hash__ is None:
                raise self._nested()
            index: dict[Any, int] = {}
            is_date = self.values.dtype.kind in "mM"  # which would become integers
            known = (self.values.astype(str) if is_date else self.values)[is_known].tolist()
            if set(map(type, known)) != {str}:
                known = list(map(_label, known))
            place[is_known] = [index.setdefault(label, len(index)) for label in known]
            labels = list(index)
        for label in labels:
            if isinstance(label, float) and math.isinf(label):
                raise infinite(self.place, label)
        return labels, place

    def categories(self) -> tuple[Any, ...]:
        """Return the labels that occur, in their declared order or sorted; None is a gap."""
        labels, place = self._distinct
        if self.order:
            seen = set(labels)
            labels = [label for label in map(_label, self.order) if label in seen]
            labels = list(dict.fromkeys(labels))
        else:
            labels = sorted(labels, key=lambda label: (isinstance(label, str), label))
        gap = [None] if (place < 0).any() else []
        if len(labels) + len(gap) > MAX_CATEGORIES:
            raise ValueError(
                f"{self.place} has {len(labels)} categories, and {MAX_CATEGORIES} are the most; "
                "leave it out if it identifies rows, or make groups of them"
            )
        return (*labels, *gap)

    def codes(self, categories: Sequence[Any]) -> np.ndarray:
        """Return for each row the number of its category, -1.0 if it is none of them."""
        index = {label: float(code) for code, label in enumerate(categories)}
        labels, place = self._distinct
        found = [_find(label, index) for label in labels]
        return np.array([*found, index.get(None, -1.0)])[place]


def infinite(place: Place, value: float) -> ValueError:
    """Return what to say of a value that is infinite."""
    return ValueError(
        f"{place} must not contain infinity, got {value!r}; replace it by a large number, or by "
        "NaN, which is a missing value"
    )


def is_missing(values: np.ndarray) -> np.ndarray:
    """Return where a value is None, NaN, or of a type that stands for them."""
    if values.dtype.kind != "O":
        return np.isnan(values) if values.dtype.kind in "fcmM" else np.zeros(len(values), bool)
    types = set(map(type, values.tolist()))
    gaps = {type_ for type_ in types if type_.__name__ in GAPS}
    may_be_nan = {type_ for type_ in types - gaps if _kind(type_) == NUMBER}
    if not gaps and not may_be_nan:
        return np.zeros(len(values), bool)
    if types - may_be_nan <= {type(None)}:
        with contextlib.suppress(OverflowError):
            return np.isnan(values.astype(float))
    return np.array(
        [type(v) in gaps or (type(v) in may_be_nan and v != v) for v in values.tolist()], dtype=bool
    )


def _kind(type_: type) -> str:
    if issubclass(type_, str | bytes):
        return TEXT
    if issubclass(type_, Real | np.bool_ | Decimal):
        return NUMBER
    if issubclass(type_, datetime.date | datetime.timedelta | np.datetime64 | np.timedelta64):
        return DATE
    return COMPLEX if issubclass(type_, Complex) else OTHER


def _plain(value: Any) -> Any:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def _label(value: Any) -> Any:
    """Return a category as a value that JSON knows."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real | Decimal):
        number = float(value)
        return int(number) if number.is_integer() and abs(number) < EXACT else number
    return str(_plain(value))


def _find(label: Any, index: dict[Any, float]) -> float:
    """Return the code of a category; a number and its spelling are one."""
    if label in index:
        return index[label]
    if not isinstance(label, str):
        return index.get(str(label), -1.0)
    for answer in (True, False):  # 1 and 0 are other labels, though equal to them
        if label == str(answer) and any(known is answer for known in index):
            return index[answer]
    try:
        return index.get(float(label), -1.0)
    except ValueError:
        return -1.0
