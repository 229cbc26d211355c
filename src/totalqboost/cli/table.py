"""Tables of the user: columns of a file become checked features, labels and weights."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from totalqboost.cli.errors import BadInput, columns, listed
from totalqboost.cli.reading import Content, Format, read_content
from totalqboost.examples import check_examples

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Table", "TrainingRows", "read_table"]

# What a text in a column of numbers may be, and what to do then.
HINTS = {
    r"\s*|[?*.-]+": "; if that means a missing value, fill it",
    r"\s*[+-]?\d+,\d+\s*": "; if the comma is the decimal point, add --decimal ,",
    r"\s*[+-]?\d+\.\d+\s*": "; if the point is the decimal point, give --decimal .",
    r"\s*[+-]?\d{1,3}(\D\d{3})+(\D\d*)?\s*": "; if its parts are thousands, join them",
}


@dataclass(frozen=True)
class TrainingRows:
    """What a model is trained on, in the words of the file."""

    X: pd.DataFrame
    y: np.ndarray
    weight: np.ndarray | None


@dataclass(frozen=True)
class Table:
    """The columns of a file; every complaint names the file, the column and the first bad row."""

    content: Content

    @property
    def name(self) -> str:
        """How to speak of the file."""
        return self.content.name

    @property
    def frame(self) -> pd.DataFrame:
        """The columns."""
        return self.content.frame

    def training_rows(
        self, target: str, weight_column: str | None, drop: Sequence[str]
    ) -> TrainingRows:
        """Return the training examples: all columns but the named ones are features."""
        self.require(drop, "--drop")
        for option, names in (("--drop", drop), ("--weight-column", [weight_column])):
            if target in names:
                raise BadInput(f"--target and {option} must differ, got {target!r} for both")
        y = self.labels(target)
        weight = None if weight_column is None else self.weights(weight_column)
        used = np.full(len(y), True) if weight is None else weight > 0  # folds count on these
        self._check_classes(target, y[used], "" if used.all() else " among the rows of weight > 0")
        X = self._other_columns([target, weight_column, *drop])
        rows = TrainingRows(X[used], y[used], None if weight is None else weight[used])
        try:
            check_examples(rows.X, rows.y, rows.weight)
        except ValueError as error:
            raise BadInput(f"{self.name} (y is column {target!r}): {error}") from error
        return rows

    def _check_classes(self, target: str, y: np.ndarray, where: str) -> None:
        """Complain about labels that are not of two classes, before any word on the features."""
        import pandas as pd

        labels = pd.unique(y).tolist()
        if len(labels) != 2:
            found = "one label" if len(labels) == 1 else f"{len(labels)} different labels"
            raise BadInput(
                f"{self.name}: column {target!r} has {found}{where}, {listed(labels, 5)}, and "
                "must have two; make two classes of them, or name another column as --target"
            )

    def _other_columns(self, apart: Sequence[str | None]) -> pd.DataFrame:
        names = [name for name in self.frame.columns if name not in apart]
        if names and self._is_row_number(names[0]):
            warnings.warn(
                f"{self.name}: the first column has no name and numbers the rows; it is left out",
                stacklevel=2,
            )
            names = names[1:]
        if not names:
            raise BadInput(f"{self.name} has no column left to learn from")
        return self.features(names, "encode them as numbers", "fill them", can_drop=True)

    def _is_row_number(self, name: str) -> bool:
        """Tell whether a column is the index that data frames are saved with."""
        column = self.frame[name]
        is_first = name == self.frame.columns[0] and name.startswith("Unnamed: ")
        return bool(is_first and column.dtype.kind == "i" and column.is_unique)

    def require(self, names: Sequence[str], role: str) -> None:
        """Make sure that the columns are there."""
        missing = [name for name in names if name not in self.frame.columns]
        if missing:
            raise BadInput(
                f"{self.name} has no column {listed(missing)} ({role}); "
                f"its columns are {listed(list(self.frame.columns), 20)}"
                f"{self.content.other_separator()}"
            )

    def features(
        self, names: Sequence[str], encode: str, fill: str, can_drop: bool = False
    ) -> pd.DataFrame:
        """Return the columns as finite numbers; a complaint says what to do about others."""
        from pandas.api.types import is_numeric_dtype

        chosen = self.frame[list(names)].apply(_with_gaps)
        text = [name for name in names if not is_numeric_dtype(chosen[name].dtype)]
        if text:
            raise BadInput(
                f"{self.name}: not numbers in {columns(text)} ({self._first_text(text[0])}); "
                f"{encode}{_or_drop(text, can_drop)}"
            )
        X = chosen.astype(float)
        finite = np.isfinite(X.to_numpy())
        gaps = [name for name, fine in zip(names, finite.all(axis=0), strict=True) if not fine]
        if gaps:
            self.content.check_lengths()
            first = int(np.argmin(finite[:, list(names).index(gaps[0])]))
            raise BadInput(
                f"{self.name}: missing or infinite values in {columns(gaps)} "
                f"(first in {self.content.place(first)}); {fill}{_or_drop(gaps, can_drop)}"
            )
        return X

    def _first_text(self, name: str) -> str:
        """Return the first value of a column that is no number, and where it is."""
        import pandas as pd

        column = self.frame[name].reset_index(drop=True)
        is_text = pd.to_numeric(column, errors="coerce").isna() & column.notna()
        if not is_text.any():  # all are numbers, of another decimal point
            is_text = column.astype(str).str.contains(".", regex=False)
        row = int(is_text.to_numpy().argmax())
        value = column[row]
        hints = (hint for form, hint in HINTS.items() if re.fullmatch(form, str(value)))
        return f"first {value!r} in {self.content.place(row)}{next(hints, '')}"

    def labels(self, target: str) -> np.ndarray:
        """Return the column of labels; every row must have one."""
        self.require([target], "--target")
        column = self.frame[target]
        is_empty = column.isna().to_numpy()
        if is_empty.any():
            self.content.check_lengths()
            raise BadInput(
                f"{self.name}: {is_empty.sum()} of {len(column)} rows have no label in column "
                f"{target!r} (first in {self.content.place(int(is_empty.argmax()))}); "
                "fill them, or remove the rows"
            )
        y = column.to_numpy()
        if y.dtype.kind == "f" and not np.all(np.mod(y, 1) == 0):
            y = y.astype(str).astype(object)  # fractions are names here, not quantities
        return y

    def weights(self, name: str) -> np.ndarray:
        """Return the column of example weights, as numbers."""
        self.require([name], "--weight-column")
        weight = self.features([name], "weights must be numbers", "fill them")[name].to_numpy()
        if (weight < 0).any() or not weight.any():
            found = f"the least is {weight.min():g}" if weight.any() else "all are 0"
            raise BadInput(
                f"{self.name}: column {name!r} must hold weights >= 0, some above 0; {found}"
            )
        return weight


def read_table(path: Path, format: Format | None = None) -> Table:
    """Read a file with a line of column names and at least one row."""
    return Table(read_content(path, format or Format()))


def _with_gaps(column: pd.Series) -> pd.Series:
    """Return a column, True and False with gaps as numbers; pandas takes them for objects."""
    known = column.dropna()
    is_logical = column.dtype == object and known.map(type).eq(bool).all()
    return column.astype(float) if is_logical else column


def _or_drop(names: Sequence[str], can_drop: bool) -> str:
    """Return how to leave the columns out, ready for the command line."""
    if not can_drop:
        return ""
    import shlex

    options = " ".join(f"--drop {shlex.quote(name)}" for name in names[:10])
    return f", or leave out with {options}{' ...' if len(names) > 10 else ''}"
