"""Tables of the user: columns of a file become checked features, labels and weights."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from totalqboost.cli.errors import BadInput, columns, listed
from totalqboost.cli.reading import Content, Format, is_comma_number, read_content
from totalqboost.examples import check_examples

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Table", "TrainingRows", "read_table"]


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
        y = self.labels(target)
        weight = None if weight_column is None else self.weights(weight_column)
        rows = TrainingRows(self._other_columns([target, weight_column, *drop]), y, weight)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of many classes: see the error
                check_examples(rows.X, rows.y, rows.weight)
        except ValueError as error:
            roles = f"y is column {target!r}"
            if weight_column is not None:
                roles += f", sample_weight is column {weight_column!r}"
            raise BadInput(f"{self.name} ({roles}): {error}") from error
        if weight is None or (weight > 0).all():
            return rows
        used = weight > 0  # folds must not count on the others
        return TrainingRows(rows.X[used], y[used], weight[used])

    def _other_columns(self, apart: Sequence[str | None]) -> pd.DataFrame:
        names = [name for name in self.frame.columns if name not in apart]
        if not names:
            raise BadInput(f"{self.name} has no column left to learn from")
        return self.features(names, "encode them as numbers", "fill them", can_drop=True)

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

        chosen = self.frame[list(names)]
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
        row = int(is_text.to_numpy().argmax())
        value = column[row]
        found = f"first {value!r} in {self.content.place(row)}"
        if is_comma_number(str(value)):
            found += "; if the comma is the decimal point, add --decimal ,"
        return found

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
        return self.features([name], "weights must be numbers", "fill them")[name].to_numpy()


def read_table(path: Path, format: Format | None = None) -> Table:
    """Read a file with a line of column names and at least one row."""
    return Table(read_content(path, format or Format()))


def _or_drop(names: Sequence[str], can_drop: bool) -> str:
    """Return how to leave the columns out, ready for the command line."""
    if not can_drop:
        return ""
    import shlex

    options = " ".join(f"--drop {shlex.quote(name)}" for name in names[:10])
    return f", or leave out with {options}{' ...' if len(names) > 10 else ''}"
