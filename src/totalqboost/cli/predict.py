"""``totalqboost predict``: apply a saved model to a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from totalqboost import losses
from totalqboost.cascade import Cascade
from totalqboost.cascade.certificates import certificate_of
from totalqboost.cli import options
from totalqboost.cli.answers import Question
from totalqboost.cli.cluster import Scheduler, WorkerProcesses
from totalqboost.cli.errors import BadInput
from totalqboost.cli.many import is_many
from totalqboost.cli.models import load_model, text_columns
from totalqboost.cli.outputs import check_place, check_unused, print_text, writing
from totalqboost.cli.predict_many import Told, predict_many
from totalqboost.cli.reading import Format
from totalqboost.cli.show import counted, percent
from totalqboost.cli.table import read_table
from totalqboost.ensemble import Ensemble
from totalqboost.files import write_text

__all__ = ["predict"]

CONFIDENCE = 0.95  # of bounds, where the detector says nothing else


def predict(
    model: options.Model,
    data: options.Data,
    out: Annotated[
        Path | None, typer.Option(help="Where to write the predictions. Default: stdout.")
    ] = None,
    proba: Annotated[
        bool,
        typer.Option(
            "--proba", help="Add the probability of the second class, or of each of several."
        ),
    ] = False,
    target: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column of true labels, to report the error rate."),
    ] = None,
    sep: options.Sep = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    scheduler: Scheduler = None,
    workers: WorkerProcesses = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Write the label and score of every row of a table.

    Rows keep their order. Columns are found by name: only the features that the model uses
    are needed, other columns are ignored. Cells may be empty, and categories new. A model of
    more than two classes has a score for each of them. A label that spreadsheets would take for
    a formula, such as =1+1, gets an apostrophe before it. A detector has a margin instead, >= 0
    for what it detects, and the number of weak classifiers that it asked.

    Many Parquet files are read part by part, by the workers of a Dask cluster if you name one;
    --out is a CSV file if its name has an ending such as .csv, else a folder of Parquet files.

    \b
      totalqboost predict model.json new.csv
      totalqboost predict model.json new.csv --proba --out predictions.csv
      totalqboost predict model.json test.csv --target y --out predictions.csv
      cat new.csv | totalqboost predict model.json - --sep ';' > predictions.csv
      totalqboost predict model.json 'parts/*.parquet' --out predictions --workers 4
    """
    format = Format.of(sep, decimal, encoding)
    own = load_model(model)
    if proba:
        _check_loss(own)
    question = Question(own, proba, target)
    if is_many(data, scheduler, workers):
        told = predict_many(question, data, format, out, overwrite, (scheduler, workers))
    else:
        told = _predict_one(question, Path(data), format, out, overwrite, model)
    if out is not None:
        typer.echo(f"{counted(told.n_rows, 'prediction')} written to {out}.", err=True)
    if target is not None:
        share = percent(told.n_wrong / told.n_rows)
        rows = counted(told.n_rows, "row")
        typer.echo(f"Error {share} ({told.n_wrong} of {rows}).", err=True)
        if isinstance(own, Cascade):
            typer.echo(_certified(own, told), err=True)


def _predict_one(
    question: Question, data: Path, format: Format, out: Path | None, overwrite: bool, model: Path
) -> Told:
    """Write the answers to the rows of one file."""
    if out is not None:
        check_place(out, inputs=[model, data])
    table = read_table(data, format, text_columns(question.model))
    answers = question.answered(table)
    if out is not None:
        check_unused(out, overwrite)
        with writing(out):
            write_text(out, answers.csv())
    else:
        print_text(answers.csv())
    return Told.of(answers)


def _check_loss(model: Ensemble | Cascade) -> None:
    if isinstance(model, Cascade):
        raise BadInput(
            "--proba is for models, and this is a detector: it stops before all is summed, and "
            "its thresholds are made for recall; leave --proba out for its margins"
        )
    if len(model.classes) == 2 and model.loss not in losses.names():
        raise BadInput(
            f"--proba does not know the loss {model.loss!r} of this model; "
            f"known are {', '.join(losses.names())}"
        )


def _certified(cascade: Cascade, told: Told) -> str:
    """Return recall and false positives with their bounds."""
    sure = CONFIDENCE if cascade.guarantee is None else cascade.guarantee.confidence
    margin, learners, truth = (np.concatenate(own) for own in zip(*told.detected, strict=True))
    is_positive = (truth == cascade.classes[1]).astype(bool)
    found = certificate_of(margin, learners, is_positive, sure)
    return f"If nobody has used these rows before: {found}."
