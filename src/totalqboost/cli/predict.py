"""``totalqboost predict``: apply a saved model to a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from totalqboost import losses
from totalqboost.cli import options
from totalqboost.cli.errors import BadInput, listed
from totalqboost.cli.models import feature_columns, load_model, text_columns
from totalqboost.cli.outputs import check_place, check_unused, print_text, writing
from totalqboost.cli.reading import Format
from totalqboost.cli.show import counted, percent
from totalqboost.cli.table import Table, read_table
from totalqboost.ensemble import Ensemble
from totalqboost.files import write_text

__all__ = ["predict"]


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file saved by fit.")],
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
    overwrite: options.Overwrite = False,
) -> None:
    """Write the label and score of every row of a table.

    Rows keep their order. Columns are found by name: only the features that the model uses
    are needed, other columns are ignored. Cells may be empty, and categories new. A model of
    more than two classes has a score for each of them. A label that spreadsheets would take for
    a formula, such as =1+1, gets an apostrophe before it.

    \b
      totalqboost predict model.json new.csv
      totalqboost predict model.json new.csv --proba --out predictions.csv
      totalqboost predict model.json test.csv --target y --out predictions.csv
      cat new.csv | totalqboost predict model.json - --sep ';' > predictions.csv
    """
    format = Format.of(sep, decimal, encoding)
    ensemble = load_model(model)
    if proba:
        _check_loss(ensemble)
    if out is not None:
        check_place(out, inputs=[model, data])
    table = read_table(data, format, text_columns(ensemble))
    truth = None if target is None else _known_labels(table, target, ensemble)
    X = feature_columns(table, ensemble)
    if out is not None:
        check_unused(out, overwrite)
    scores = ensemble.decision_function(X)
    chosen = scores.argmax(axis=1) if scores.ndim > 1 else (scores > 0).astype(int)
    labels = np.array(ensemble.classes, dtype=object)[chosen]
    text = _as_csv(ensemble, labels, scores, ensemble.predict_proba(X) if proba else None)
    if out is None:
        print_text(text)
    else:
        with writing(out):
            write_text(out, text)
        typer.echo(f"{counted(len(labels), 'prediction')} written to {out}.", err=True)
    if truth is not None:
        wrong = labels != truth
        typer.echo(
            f"Error {percent(wrong.mean())} ({wrong.sum()} of {counted(len(wrong), 'row')}).",
            err=True,
        )


def _known_labels(table: Table, target: str, ensemble: Ensemble) -> np.ndarray:
    truth = table.labels(target).astype(object)
    unknown = [label for label in dict.fromkeys(truth) if label not in ensemble.classes]
    if unknown:
        raise BadInput(
            f"{table.name}: column {target!r} has labels {listed(unknown, 5)}, "
            f"but the classes of the model are {listed(ensemble.classes)}"
        )
    return truth


def _check_loss(ensemble: Ensemble) -> None:
    if len(ensemble.classes) == 2 and ensemble.loss not in losses.names():
        raise BadInput(
            f"--proba does not know the loss {ensemble.loss!r} of this model; "
            f"known are {', '.join(losses.names())}"
        )


def _as_csv(
    ensemble: Ensemble, labels: np.ndarray, scores: np.ndarray, probability: np.ndarray | None
) -> str:
    import pandas as pd

    classes = ensemble.classes
    columns = {"label": np.array([_safe(label) for label in labels], dtype=object)}
    if scores.ndim == 1:
        columns["score"] = scores
    else:
        columns |= {f"score_{label}": scores[:, k] for k, label in enumerate(classes)}
    if probability is not None:
        told = range(1, 2) if scores.ndim == 1 else range(len(classes))
        columns |= {f"probability_{classes[k]}": probability[:, k] for k in told}
    return pd.DataFrame(columns).to_csv(index=False, lineterminator="\n")


def _safe(label: object) -> object:
    """Return a label that no spreadsheet runs as a formula: with an apostrophe before it.

    One sign alone, such as + or -, is no formula, nor is a number.
    """
    is_formula = isinstance(label, str) and len(label) > 1 and label[0] in "=+-@\t\r"
    if not is_formula:
        return label
    try:
        float(str(label))
    except ValueError:
        return f"'{label}"
    return label
