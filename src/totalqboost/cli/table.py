"""Tables of the user: a CSV file becomes checked features, labels and weights."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from totalqboost.cli.errors import BadInput, listed, reason
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
    """A CSV file that was read, and where from: every complaint names the file."""

    path: Path
    frame: pd.DataFrame

    def training_rows(
        self, target: str, weight_column: str | None, drop: Sequence[str]
    ) -> TrainingRows:
        """Return the training examples: all columns but the named ones are features."""
        self.require(drop, "--drop")
        y = self.labels(target)
        weight = None if weight_column is None else self.weights(weight_column)
        rows = TrainingRows(self._other_columns([target, weight_column, *drop]), y, weight)
        try:
            check_examples(rows.X, rows.y, rows.weight)
        except ValueError as error:
            roles = f"y is column {target!r}"
            if weight_column is not None:
                roles += f", sample_weight is column {weight_column!r}"
            raise BadInput(f"{self.path} ({roles}): {error}") from error
        return rows

    def _other_columns(self, apart: Sequence[str | None]) -> pd.DataFrame:
        names = [name for name in self.frame.columns if name not in apart]
        if not names:
            raise BadInput(f"{self.path} has no column left to learn from")
        return self.features(names, "encode them as numbers", "fill them", can_drop=True)

    def require(self, names: Sequence[str], role: str) -> None:
        """Make sure that the columns are there."""
        missing = [name for name in names if name not in self.frame.columns]
        if missing:
            raise BadInput(
                f"{self.path} has no column {listed(missing)} ({role}); "
                f"its columns are {listed(list(self.frame.columns), 20)}"
            )

    def features(
        self, names: Sequence[str], encode: str, fill: str, can_drop: bool = False
    ) -> pd.DataFrame:
        """Return the columns as finite numbers; a complaint says what to do about others."""
        from pandas.api.types import is_numeric_dtype

        columns = self.frame[list(names)]
        text = [name for name in names if not is_numeric_dtype(columns[name].dtype)]
        if text:
            raise BadInput(
                f"{self.path}: not numbers in {_columns(text)}; {encode}{_or_drop(text, can_drop)}"
            )
        X = columns.astype(float)
        finite = np.isfinite(X.to_numpy()).all(axis=0)
        gaps = [name for name, fine in zip(names, finite, strict=True) if not fine]
        if gaps:
            raise BadInput(
                f"{self.path}: missing or infinite values in {_columns(gaps)}; "
                f"{fill}{_or_drop(gaps, can_drop)}"
            )
        return X

    def labels(self, target: str) -> np.ndarray:
        """Return the column of labels; every row must have one."""
        self.require([target], "--target")
        column = self.frame[target]
        n_empty = int(column.isna().sum())
        if n_empty:
            raise BadInput(
                f"{self.path}: {n_empty} of {len(column)} rows have no label in column {target!r}"
            )
        y = column.to_numpy()
        if y.dtype.kind == "f" and not np.all(np.mod(y, 1) == 0):
            y = y.astype(str).astype(object)  # fractions are names here, not quantities
        return y

    def weights(self, name: str) -> np.ndarray:
        """Return the column of example weights, as numbers."""
        self.require([name], "--weight-column")
        return self.features([name], "weights must be numbers", "fill them")[name].to_numpy()


def read_table(path: Path) -> Table:
    """Read a CSV file with a line of column names and at least one row."""
    import pandas as pd

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # it drops fields
            frame = pd.read_csv(path, low_memory=False, index_col=False)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {reason(error)}") from error
    except pd.errors.EmptyDataError as error:
        raise BadInput(f"{path} is empty") from error
    except pd.errors.ParserWarning as error:
        raise BadInput(
            f"{path} is not a CSV file: its rows are longer than the line of names"
        ) from error
    except (pd.errors.ParserError, UnicodeError, EOFError) as error:
        raise BadInput(f"{path} is not a CSV file: {error}") from error
    if frame.empty:
        raise BadInput(f"{path} has no rows, only a line of column names")
    _require_distinct_names(path)
    return Table(path, frame)


def _require_distinct_names(path: Path) -> None:
    """Refuse a second column of one name: pandas renames it, and labels become a feature."""
    import pandas as pd

    if not path.is_file():
        return  # a pipe can be read only once
    header = pd.read_csv(path, header=None, nrows=1, dtype=str).iloc[0].dropna()
    twice = header[header.duplicated()].unique().tolist()
    if twice:
        raise BadInput(f"{path} repeats the names of {_columns(twice)}; rename one of each")


def _columns(names: Sequence[str]) -> str:
    return f"column{'s' if len(names) > 1 else ''} {listed(names)}"


def _or_drop(names: Sequence[str], can_drop: bool) -> str:
    """Return how to leave the columns out, ready for the command line."""
    if not can_drop:
        return ""
    import shlex

    options = " ".join(f"--drop {shlex.quote(name)}" for name in names[:10])
    return f", or leave out with {options}{' ...' if len(names) > 10 else ''}"
