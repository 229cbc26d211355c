"""Rows of experiments: one measured ensemble per row, one JSON object per line.

A run appends lines to ``rows.jsonl``; a finished one is kept as ``rows.jsonl.gz``. Everything
that figures, tables and statistics say follows from these rows.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, fields
from numbers import Real
from pathlib import Path
from typing import Any, TypeVar

from totalqboost.ensemble import Ensemble
from totalqboost.files import MOST_VALUES, parse_json, read_bytes
from totalqboost.parameters import check_integer, short

__all__ = ["PAPER_STRATEGIES", "STRATEGIES", "Row", "RunError", "read_lines", "read_rows"]

T = TypeVar("T")
PAPER_STRATEGIES = ("A", "B", "C", "D", "E")
BASELINES = ("adaboost", "lpboost", "erlpboost", "elimination", "random")
STRATEGIES = (*PAPER_STRATEGIES, *BASELINES, "D0")
MOST = 10**9  # of anything that a row counts
MOST_LINE = 10**6  # bytes; the ensemble of a hundred learners takes a hundredth of it
MOST_BYTES = 2 * 10**8  # ten times the rows of 20 splits of the paper's data sets


class RunError(ValueError):
    """A run that cannot be read or continued; the message says which file, where and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One ensemble of one strategy on one split of one data set.

    Parameters
    ----------
    dataset : str
        Name of the data set.
    split : int
        Number of the split into training and validation rows.
    strategy : str
        One of ``STRATEGIES``.
    penalty : float or None
        ν for A, B, LPBoost and ERLPBoost, λ for C, D, D0 and E, None for other baselines.
    round : int or None
        Where every intermediate ensemble is a row (B, baselines): which one. Of subsets that
        no solver chose (elimination, random): how many columns were left or drawn.
    n_learners : int
        Cardinality of the ensemble.
    risk : float
        Mean training loss.
    objective, bound : float
        What was minimised, and a lower bound of it (None if there is none).
    train_error, valid_error : float
        Shares of misclassified rows.
    n_train, n_valid : int
        Numbers of rows behind the errors.
    seconds : float
        Time the ensemble took.
    ensemble : mapping, optional
        The ensemble itself, as JSON.
    """

    dataset: str
    split: int
    strategy: str
    penalty: float | None
    round: int | None
    n_learners: int
    risk: float
    objective: float
    bound: float | None
    train_error: float
    valid_error: float
    n_train: int
    n_valid: int
    seconds: float
    ensemble: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if not _is_name(self.dataset):
            raise ValueError(f"dataset must be a name, got {short(self.dataset)}")
        if self.strategy not in STRATEGIES:
            raise ValueError(
                f"strategy must be one of {', '.join(STRATEGIES)}, got {short(self.strategy)}"
            )
        for name, least in COUNTS.items():
            self._set(name, check_count(name, getattr(self, name), least))
        for name, limits in NUMBERS.items():
            self._set(name, check_within(name, getattr(self, name), *limits))
        if self.round is not None:
            self._set("round", check_count("round", self.round, 0))
        if self.bound is not None:
            self._set("bound", check_within("bound", self.bound, -math.inf, math.inf))
        if self.penalty is not None or self.strategy in PAPER_STRATEGIES:
            self._set("penalty", check_within("penalty", self.penalty, 0.0, math.inf))
        if not (self.ensemble is None or isinstance(self.ensemble, Mapping)):
            raise ValueError(f"ensemble must be an object, got {short(self.ensemble)}")

    def _set(self, name: str, value: float) -> None:
        object.__setattr__(self, name, value)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Row:
        """Return the row that a JSON object describes."""
        check_keys(content, REQUIRED, FIELDS)
        return cls(**content)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that ``from_dict`` reads; without an ensemble it has no key."""
        content = {name: getattr(self, name) for name in FIELDS}
        if self.ensemble is None:
            del content["ensemble"]
        return content

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells a row from others; prices of another machine may differ in last digits."""
        penalty = None if self.penalty is None else f"{self.penalty:.10g}"
        return self.dataset, self.split, self.strategy, self.round, penalty


FIELDS = tuple(field.name for field in fields(Row))
REQUIRED = tuple(field.name for field in fields(Row) if field.default is MISSING)
COUNTS = {"split": 0, "n_learners": 0, "n_train": 1, "n_valid": 1}  # the least that each may be
NUMBERS = {
    "risk": (0.0, math.inf),
    "objective": (-math.inf, math.inf),
    "train_error": (0.0, 1.0),
    "valid_error": (0.0, 1.0),
    "seconds": (0.0, float(MOST)),
}


def _is_name(value: Any) -> bool:
    """Tell whether a value is a text that can be written: JSON knows halves of characters."""
    return isinstance(value, str) and value.isprintable() and bool(value)


def check_keys(content: Any, required: Collection[str], known: Collection[str]) -> None:
    """Raise unless a value of JSON is an object with these keys."""
    if not isinstance(content, Mapping):
        raise ValueError(f"a row must be an object, got {short(content)}")
    if missing := [name for name in required if name not in content]:
        raise ValueError(f"a row needs {', '.join(missing)}")
    if unknown := [str(name) for name in content if name not in known]:
        raise ValueError(f"a row has no {', '.join(unknown)}")


def check_count(name: str, value: Any, least: int, most: int = MOST) -> int:
    """Return an integer between two others; one of JSON may have thousands of digits."""
    if check_integer(name, value, least) > most:
        raise ValueError(f"{name} must be at most {most:,}, got {short(value)}")
    return int(value)


def check_within(name: str, value: Any, least: float, most: float = MOST) -> float:
    """Return a finite number between two others, which may be infinite, as a float."""
    try:
        number = float(value) if isinstance(value, Real) else math.nan
    except OverflowError:  # an integer of JSON may be larger than any float
        number = math.inf
    if isinstance(value, bool) or not math.isfinite(number) or not least <= number <= most:
        limits = [f">= {least:g}"] if math.isfinite(least) else []
        limits += [f"<= {most:g}"] if math.isfinite(most) else []
        wanted = " and ".join(limits)
        raise ValueError(
            f"{name} must be a finite number {wanted}".rstrip() + f", got {short(value)}"
        )
    return number


# -- files ----------------------------------------------------------------------------------


def read_rows(path: str | os.PathLike[str]) -> list[Row]:
    """Return the rows of a ``.jsonl`` or ``.jsonl.gz`` file.

    What follows the last line break was cut off while it was written, and is left out: whoever
    appends to the file must cut it off first.

    Raises
    ------
    RunError
        If a line is damaged, or repeats another one: the message names the file, the line and
        what is wrong.
    """
    return read_lines(path, _row, lambda row: row.key)


def read_lines(
    path: str | os.PathLike[str], row_of: Callable[[Any], T], key_of: Callable[[T], Any]
) -> list[T]:
    """Do the same for lines of any kind; ``row_of`` checks what a line holds."""
    rows: dict[Any, T] = {}
    content, name = _content(Path(path)), os.fspath(path)
    if sum(content.count(sign) for sign in b",[{") > MOST_VALUES:
        raise RunError(f"{name} must hold at most {MOST_VALUES:,} values")
    for number, line in enumerate(io.BytesIO(content), start=1):
        if not line.endswith(b"\n"):
            break
        row = _read(f"{name}, line {number}", line[:-1], row_of)
        key = key_of(row)
        if key in rows:
            at = list(rows).index(key) + 1
            raise RunError(f"{name}, line {number}: the same as line {at}; delete one")
        rows[key] = row
    return list(rows.values())


def _content(path: Path) -> bytes:
    try:
        content = read_bytes(path, MOST_BYTES)
    except ValueError as error:
        raise RunError(f"{path}: {error}") from error
    if path.suffix != ".gz":
        return content
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            rows = file.read(MOST_BYTES + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise RunError(f"{path} is damaged: {str(error).rstrip('.')}") from error
    if len(rows) > MOST_BYTES:  # a small file may unpack to more than any memory
        raise RunError(f"{path} must hold at most {MOST_BYTES:,} bytes of rows")
    return rows


def _row(content: Any) -> Row:
    row = Row.from_dict(content)
    if row.ensemble is not None:
        Ensemble.from_dict(dict(row.ensemble))  # checks it
    return row


def _read(place: str, line: bytes, row_of: Callable[[Any], T]) -> T:
    if len(line) > MOST_LINE:
        raise RunError(f"{place}: must have at most {MOST_LINE:,} bytes")
    try:
        return row_of(parse_json(line))
    except json.JSONDecodeError as error:
        what = f"not a JSON object ({error.msg} at character {error.pos + 1})"
    except UnicodeDecodeError:
        what = "not UTF-8 text"
    except ValueError as error:
        what = str(error)
    raise RunError(f"{place}: {what}")
