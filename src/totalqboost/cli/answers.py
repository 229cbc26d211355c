"""What a model says of the rows of a table: labels, scores and their text.

Workers of a cluster do this for their own rows, so that nothing here needs a terminal.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from totalqboost.cascade import Cascade
from totalqboost.cli.errors import BadInput, listed
from totalqboost.cli.models import feature_columns
from totalqboost.cli.reading import Content
from totalqboost.cli.table import Table
from totalqboost.ensemble import Ensemble
from totalqboost.ensemble.answers import winners

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Answers", "Question"]


@dataclass(frozen=True, eq=False)
class Answers:
    """What was said of some rows: columns of the output, labels, and the truth if it is known."""

    columns: dict[str, np.ndarray]
    labels: np.ndarray
    truth: np.ndarray | None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def frame(self) -> pd.DataFrame:
        """The columns."""
        import pandas as pd

        return pd.DataFrame(self.columns)

    def csv(self, header: bool = True) -> str:
        """Return the columns as text."""
        safe = np.array([_safe(label) for label in self.columns["label"]], dtype=object)
        # Python's writer quotes no bare \r (until 3.13): where there is one, all text is quoted.
        is_broken = any("\r" in str(cell) for cell in (*self.columns, *dict.fromkeys(safe)))
        text: str = self.frame.assign(label=safe).to_csv(
            index=False,
            header=header,
            lineterminator="\n",
            quoting=csv.QUOTE_NONNUMERIC if is_broken else csv.QUOTE_MINIMAL,
        )
        return text


@dataclass(frozen=True)
class Question:
    """A model, and what is asked of it."""

    model: Ensemble | Cascade
    proba: bool
    target: str | None

    def answered(self, table: Table) -> Answers:
        """Return the answers to the rows of a table."""
        own, target = self.model, self.target
        truth = None if target is None else _known_labels(table, target, own)
        X = feature_columns(table, own)
        if isinstance(own, Cascade):
            return Answers(*_detected(own, X), truth)
        return Answers(*_scored(own, X, self.proba), truth)

    def answered_part(self, part: Any, name: str) -> Answers | None:
        """Return the answers to one partition of many; None if it has no row."""
        if not len(part):
            return None
        return self.answered(Table(Content(name, part.reset_index(drop=True))))


def _known_labels(table: Table, target: str, model: Ensemble | Cascade) -> np.ndarray:
    truth = table.labels(target).astype(object)
    unknown = [label for label in dict.fromkeys(truth) if label not in model.classes]
    if unknown:
        raise BadInput(
            f"{table.name}: column {target!r} has labels {listed(unknown, 5)}, "
            f"but the classes of the model are {listed(model.classes)}"
        )
    return truth


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


def _safe(label: object) -> object:
    """Return a label that no spreadsheet runs as a formula: with an apostrophe before it.

    One sign alone, such as + or -, is no formula, nor is a number.
    """
    is_formula = isinstance(label, str) and len(label) > 1 and label[0] in "=+-@\t\r\n"
    if not is_formula:
        return label
    try:
        float(str(label))
    except ValueError:
        return f"'{label}"
    return label
