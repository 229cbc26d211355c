"""``totalqboost info``: show what a saved model does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from totalqboost.cli.models import load_model, used_features
from totalqboost.cli.show import print_ensemble, print_table

__all__ = ["info"]


def info(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file that fit has saved.")],
) -> None:
    """Show a saved model: its classes and every weak classifier.

    The score of a row is the intercept plus the weight of each weak classifier that votes
    for the second class, minus the weight of each that votes for the first; the sign of the
    score decides.

    \b
      totalqboost info model.json
    """
    ensemble = load_model(model)
    n_used, n_features = len(used_features(ensemble)), len(ensemble.feature_names)
    facts = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    facts.add_row("model", str(model))
    facts.add_row("classes", f"{ensemble.classes[0]!r} (score <= 0), {ensemble.classes[1]!r} (> 0)")
    facts.add_row("weak classifiers", str(ensemble.n_learners))
    facts.add_row("intercept", f"{ensemble.intercept:+.6g}")
    facts.add_row("loss", ensemble.loss)
    facts.add_row("features", f"{n_used} used of {n_features}")
    print_table(facts)
    print_ensemble(ensemble)
