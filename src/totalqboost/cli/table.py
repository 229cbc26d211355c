"""Tables of the user: columns of a file become checked features, labels and weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from totalqboost.cli.errors import BadInput, columns, listed
from totalqboost.cli.reading import Content, Format, read_content
from totalqboost.cli.training import TrainingRows
from totalqboost.examples import check_examples
from totalqboost.notices import warn

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Table", "check_number_of_labels", "check_roles", "read_table"]

MANY = 20  # labels, too many if hardly two rows have the same
GAP = r"\s*|[?*.-]+"  # texts that stand for a missing value among numbers
# What a text in a column of numbers may be, and what to do then.
HINTS = {
    r"\s*[+-]?\d+,\d+\s*": "; if the comma is the decimal point, add --decimal ,",
    r"\s*[+-]?\d+\.\d+\s*": "; if the point is the decimal point, give --decimal .",
    r"\s*[+-]?\d{1,3}(\D\d{3})+(\D\d*)?\s*": "; if its parts are thousands, join them",
}
DATE = r"\s*(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/.])\d{1,2}\3\d{2,4})([T ].*)?\s*"


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
        self,
        target: str,
        weight_column: str | None,
        drop: Sequence[str],
        categorical: Sequence[str] = (),
    ) -> TrainingRows:
        """Return the training examples: all columns but the named ones are features."""
        import pandas as pd

        self.require(drop, "--drop")
        self.require(categorical, "--categorical")
        check_roles(target, weight_column, drop, categorical)
        y = self.labels(target)
        weight = None if weight_column is None else self.weights(weight_column)
        used = np.full(len(y), True) if weight is None else weight > 0  # folds count on these
        where = "" if used.all() else " among the rows of weight > 0"
        check_number_of_labels(self.name, target, pd.unique(y[used]).tolist(), used.sum(), where)
        X = self._other_columns([target, weight_column, *drop], categorical)
        rows = TrainingRows(X[used], y[used], None if weight is None else weight[used])
        try:
            check_examples(rows.X, rows.y, rows.weight)
        except (ValueError, TypeError) as error:
            raise BadInput(f"{self.name} (y is column {target!r}): {error}") from error
        return rows

    def _other_columns(
        self, apart: Sequence[str | None], categorical: Sequence[str]
    ) -> pd.DataFrame:
        names = [name for name in self.frame.columns if name not in apart]
        if names and self._is_row_number(names[0]):
            warn(f"{self.name}: the first column has no name and numbers the rows; it is left out")
            names = names[1:]
        if not names:
            raise BadInput(f"{self.name} has no column left to learn from")
        self._check_dates([name for name in names if name not in categorical])
        texts = [name for name in names if self._is_text(name)]
        numbers = [name for name in names if name not in (*texts, *categorical)]
        X = self.numbers(numbers, _or_categorical)
        for name in names:
            if name not in numbers:
                X[name] = self.frame[name].astype("category")
        return X[names]

    def _is_text(self, name: str) -> bool:
        """Tell whether a column holds names of things, not numbers and what may be numbers."""
        column = self.frame[name]
        if _is_number(column):
            return False
        texts = column.dropna().astype(str)
        texts = texts[~texts.str.fullmatch(GAP)]
        forms = "|".join(f"({form})" for form in HINTS)
        may_be_number = _is_readable(texts) | texts.str.fullmatch(forms)
        return bool(len(texts) and 2 * may_be_number.sum() < len(texts))

    def _check_dates(self, names: Sequence[str]) -> None:
        """Complain about columns of dates, which are neither numbers nor categories."""
        for name in names:
            column = self.frame[name]
            texts = column.dropna().astype(str)
            is_date = column.dtype.kind == "M" or (
                not _is_number(column) and len(texts) and texts.str.fullmatch(DATE).all()
            )
            if is_date:
                raise BadInput(
                    f"{self.name}: dates in column {name!r} (first {texts.iloc[0]!r}); put a "
                    "number in their place, such as the days since a certain date or the month"
                    f"{_or_categorical([name])}"
                )

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

    def numbers(self, names: Sequence[str], others: Callable[[Sequence[str]], str]) -> pd.DataFrame:
        """Return columns as numbers with gaps; ``others`` says what else can be done with text."""
        import pandas as pd

        chosen = self.frame[list(names)].apply(self._with_gaps)
        text = [name for name in names if not _is_number(chosen[name])]
        if text:
            raise BadInput(
                f"{self.name}: not numbers in {columns(text)} ({self._first_text(text[0])})"
                f"{others(text)}"
            )
        X = chosen.astype(float) if len(names) else pd.DataFrame(index=self.frame.index)
        infinite = np.isinf(X.to_numpy())
        wrong = [name for name, bad in zip(names, infinite.any(axis=0), strict=True) if bad]
        if wrong:
            first = int(np.argmax(infinite[:, list(names).index(wrong[0])]))
            raise BadInput(
                f"{self.name}: infinite values in {columns(wrong)} (first in "
                f"{self.content.place(first)}); put a large number in their place, or nothing, "
                "which is a missing value"
            )
        if X.isna().to_numpy().any():
            self.content.check_lengths()
        return X

    def like(self, known: Mapping[str, bool]) -> pd.DataFrame:
        """Return columns as a model knows them: numbers, or categories where it says so."""
        numbers = [name for name, is_category in known.items() if not is_category]
        X = self.numbers(numbers, lambda text: "; the model needs numbers")
        for name, is_category in known.items():
            if is_category:
                X[name] = self.frame[name]
        return X[list(known)]

    def _with_gaps(self, column: pd.Series) -> pd.Series:
        """Return a column, as numbers if all of it are numbers and signs of missing values."""
        import pandas as pd

        if _is_number(column):
            return column
        known = column.dropna()
        if known.map(type).eq(bool).all():  # True and False with gaps are objects to pandas
            return column.astype(float)
        texts = known.astype(str)
        is_sign = texts.str.fullmatch(GAP)
        if not (is_sign | _is_readable(texts)).all() or not is_sign.any():
            return column
        warn(
            f"{self.name}: {listed(texts[is_sign].unique().tolist())} in column {column.name!r} "
            "is taken for a missing value"
        )
        return pd.to_numeric(column, errors="coerce")

    def _first_text(self, name: str) -> str:
        """Return the first value of a column that is no number, and where it is."""
        import pandas as pd

        column = self.frame[name].reset_index(drop=True)
        is_text = pd.to_numeric(column, errors="coerce").isna() & column.notna()
        is_text &= ~column.astype(str).str.fullmatch(GAP)
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
        weight = self.numbers([name], lambda text: "; weights must be numbers")[name].to_numpy()
        gaps = np.isnan(weight)
        if gaps.any():
            raise BadInput(
                f"{self.name}: missing values in column {name!r} (first in "
                f"{self.content.place(int(gaps.argmax()))}); every row needs a weight"
            )
        if (weight < 0).any() or not weight.any():
            found = f"the least is {weight.min():g}" if weight.any() else "all are 0"
            raise BadInput(
                f"{self.name}: column {name!r} must hold weights >= 0, some above 0; {found}"
            )
        return weight


def read_table(path: Path, format: Format | None = None, text_columns: Sequence[str] = ()) -> Table:
    """Read a file with a line of column names and at least one row.

    ``text_columns`` are read as they are written, even if all are numbers.
    """
    return Table(read_content(path, format or Format(), text_columns))


def check_roles(
    target: str, weight_column: str | None, drop: Sequence[str], categorical: Sequence[str]
) -> None:
    """Complain about a column that is the target and something else."""
    roles: list[tuple[str, Sequence[str | None]]] = [
        ("--drop", drop),
        ("--weight-column", [weight_column]),
        ("--categorical", categorical),
    ]
    for option, names in roles:
        if target in names:
            raise BadInput(f"--target and {option} must differ, got {target!r} for both")


def check_number_of_labels(
    name: str, target: str, labels: Sequence[object], n_rows: int, where: str = ""
) -> None:
    """Complain about labels that are of one class, before any word on the features."""
    if len(labels) < 2:
        raise BadInput(
            f"{name}: column {target!r} has one label{where}, {listed(labels)}, and "
            "must have two or more; name another column as --target"
        )
    if len(labels) > MANY and 2 * len(labels) > n_rows:
        raise BadInput(
            f"{name}: column {target!r} has {len(labels)} different labels in {n_rows} "
            f"rows{where}, {listed(labels, 5)}, and must hold classes; make fewer of them, or "
            "name another column as --target"
        )


def _is_number(column: Any) -> bool:
    from pandas.api.types import is_numeric_dtype

    return bool(is_numeric_dtype(column.dtype))


def _is_readable(texts: pd.Series) -> pd.Series:
    import pandas as pd

    return pd.to_numeric(texts, errors="coerce").notna()


def _or_categorical(names: Sequence[str]) -> str:
    """Return what to type for columns that are no numbers."""
    import shlex

    def options(option: str) -> str:
        words = " ".join(f"{option} {shlex.quote(name)}" for name in names[:10])
        return f"{words}{' ...' if len(names) > 10 else ''}"

    return (
        f"; if these are categories, add {options('--categorical')}, or leave out with "
        f"{options('--drop')}"
    )
