"""Predictions for many Parquet files: part by part, in order, never all in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from totalqboost.cli.answers import Answers, Question
from totalqboost.cli.errors import BadInput
from totalqboost.cli.many import known_columns, opened, parquet_frame, plainly
from totalqboost.cli.outputs import check_place, check_unused, print_text, writing
from totalqboost.cli.reading import Format
from totalqboost.cluster.collections import partitions_of
from totalqboost.cluster.files import in_order
from totalqboost.files import replacing

__all__ = ["Told", "predict_many"]

PART, PART_PATTERN = "part-{:05d}.parquet", "part-?????.parquet"


@dataclass
class Told:
    """What is said of predictions when all are written.

    ``detected`` holds margins, costs and true labels of a detector, which its bounds need.
    """

    n_rows: int = 0
    n_wrong: int = 0
    detected: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list)

    @classmethod
    def of(cls, answers: Answers) -> Told:
        """Return what there is to say of some rows."""
        told = cls()
        told.add(answers)
        return told

    def add(self, answers: Answers) -> None:
        """Count further rows."""
        self.n_rows += len(answers)
        if answers.truth is None:
            return
        self.n_wrong += int((answers.labels != answers.truth).sum())
        if "margin" in answers.columns:
            own = answers.columns
            self.detected.append((own["margin"], own["learners"], answers.truth))


def predict_many(
    question: Question,
    data: str,
    format: Format,
    out: Path | None,
    overwrite: bool,
    cluster: tuple[str | None, int | None],
) -> Told:
    """Write the answers to the rows of many files, in their order."""
    frame = _needed(question, data, parquet_frame(data, format))
    _check_out(out, overwrite)
    told = Told()
    with opened(*cluster, quiet=False) as client, plainly(f"{data}: "), _writer(out) as write:
        _, parts = partitions_of(frame)
        names = [f"{data} (part {number})" for number in range(1, len(parts) + 1)]
        for answers in in_order(client, question.answered_part, parts, names):
            if answers is not None:
                write(answers)
                told.add(answers)
    if not told.n_rows:
        raise BadInput(f"{data} has no rows")
    return told


def _needed(question: Question, data: str, frame: Any) -> Any:
    """Return the columns that the model looks at, and the truth."""
    own, table = question.model, known_columns(data, frame)
    names = [own.features[j].name for j in own.used_features]
    table.require(names, "needed by the model")
    target = [] if question.target is None else [question.target]
    table.require(target, "--target")
    needed = list(dict.fromkeys([*names, *target]))
    return frame[needed or list(frame.columns)[:1]]


def _check_out(out: Path | None, overwrite: bool) -> None:
    """Make sure that nothing is lost by writing the file or the folder."""
    if out is None:
        return
    if not _is_folder(out):
        check_place(out)
        check_unused(out, overwrite)
        return
    if out.is_file() or not out.parent.is_dir():
        raise BadInput(f"cannot write the folder {out}: its place is taken, or has no folder")
    if any(not path.match(PART_PATTERN) for path in out.glob("*")):
        raise BadInput(f"the folder {out} holds other files; name another one")
    if any(out.glob("*")) and not overwrite:
        raise BadInput(f"{out} exists already; add --overwrite to replace it")


def _is_folder(out: Path) -> bool:
    """Tell whether many files are asked for: a name without an ending."""
    return out.is_dir() or not out.suffix


@contextmanager
def _writer(out: Path | None) -> Iterator[Callable[[Answers], None]]:
    """Give what writes the answers to the next rows."""
    n_written = 0

    def count() -> int:
        nonlocal n_written
        n_written += 1
        return n_written - 1

    if out is None:
        yield lambda answers: print_text(answers.csv(header=count() == 0))
    elif _is_folder(out):
        with writing(out):
            out.mkdir(exist_ok=True)
            for old in out.glob("*"):
                old.unlink()

        def write(answers: Answers) -> None:
            path = out / PART.format(count())
            with writing(path), replacing(path) as file:
                answers.frame.to_parquet(file, index=False)

        yield write
    else:
        with writing(out), replacing(out) as file:
            yield lambda answers: _write_text(file, answers.csv(header=count() == 0))


def _write_text(file: Any, text: str) -> None:
    file.write(text.encode("utf-8"))
