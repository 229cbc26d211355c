"""``totalqboost predict``: apply a saved model to a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from totalqboost import losses
from totalqboost.cascade import Cascade
from totalqboost.cascade.certificates import certificate_of
from totalqboost.cli import options
from totalqboost.cli.errors import BadInput, listed
from totalqboost.cli.models import feature_columns, load_model, text_columns
from totalqboost.cli.outputs import check_place, check_unused, print_text, writing
from totalqboost.cli.reading import Format
from totalqboost.cli.show import counted, percent
from totalqboost.cli.table import Table, read_table
from totalqboost.ensemble import Ensemble
from totalqboost.ensemble.answers import winners
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
    overwrite: options.Overwrite = False,
) -> None:
    """Write the label and score of every row of a table.

    Rows keep their order. Columns are found by name: only the features that the model uses
    are needed, other columns are ignored. Cells may be empty, and categories new. A model of
    more than two classes has a score for each of them. A label that spreadsheets would take for
    a formula, such as =1+1, gets an apostrophe before it. A detector has a margin instead, >= 0
    for what it detects, and the number of weak classifiers that it asked.

    \b
      totalqboost predict model.json new.csv
      totalqboost predict model.json new.csv --proba --out predictions.csv
      totalqboost predict model.json test.csv --target y --out predictions.csv
      cat new.csv | totalqboost predict model.json - --sep ';' > predictions.csv
    """
    format = Format.of(sep, decimal, encoding)
    own = load_model(model)
    if proba:
        _check_loss(own)
    if out is not None:
        check_place(out, inputs=[model, data])
    table = read_table(data, format, text_columns(own))
    truth = None if target is None else _known_labels(table, target, own)
    X = feature_columns(table, own)
    if out is not None:
        check_unused(out, overwrite)
    columns, labels = _detected(own, X) if isinstance(own, Cascade) else _scored(own, X, proba)
    text = _as_csv(columns)
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
        if isinstance(own, Cascade):
            typer.echo(_certified(own, columns, truth), err=True)


def _known_labels(table: Table, target: str, model: Ensemble | Cascade) -> np.ndarray:
    truth = table.labels(target).astype(object)
    unknown = [label for label in dict.fromkeys(truth) if label not in model.classes]
    if unknown:
        raise BadInput(
            f"{table.name}: column {target!r} has labels {listed(unknown, 5)}, "
            f"but the classes of the model are {listed(model.classes)}"
        )
    return truth


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


def _scored(ensemble: Ensemble, X: Any, proba: bool) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return labels with scores, and with probabilities if they are asked for."""
    classes, scores = ensemble.classes, ensemble.decision_function(X)
    labels = np.array(classes, dtype=object)[winners(scores)]
    columns = {"label": labels}
    if scores.ndim == 1:
        columns["score"] = scores
    else:
        columns |= {f"score_{label}": scores[:, k] for k, label in enumerate(classes)}
    if proba:
        probability = ensemble.predict_proba(X)
        told = range(1, 2) if scores.ndim == 1 else range(len(classes))
        columns |= {f"probability_{classes[k]}": probability[:, k] for k in told}
    return columns, labels


def _detected(cascade: Cascade, X: Any) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return labels with margins, and with what they cost."""
    margins, n_evaluated = cascade.evaluate(X)
    labels = np.array(cascade.classes, dtype=object)[(margins >= 0).astype(int)]
    return {"label": labels, "margin": margins, "learners": n_evaluated}, labels


def _certified(cascade: Cascade, columns: dict[str, np.ndarray], truth: np.ndarray) -> str:
    """Return recall and false positives with their bounds."""
    sure = CONFIDENCE if cascade.guarantee is None else cascade.guarantee.confidence
    is_positive = (truth == cascade.classes[1]).astype(bool)
    found = certificate_of(columns["margin"], columns["learners"], is_positive, sure)
    return f"If nobody has used these rows before: {found}."


def _as_csv(columns: dict[str, np.ndarray]) -> str:
    import pandas as pd

    safe = np.array([_safe(label) for label in columns["label"]], dtype=object)
    return pd.DataFrame({**columns, "label": safe}).to_csv(index=False, lineterminator="\n")


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
