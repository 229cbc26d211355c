"""``totalqboost info``: show what a saved model does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from totalqboost.cli.models import load_model
from totalqboost.cli.show import print_ensemble, print_table
from totalqboost.ensemble import Ensemble
from totalqboost.ensemble.printing import listed

__all__ = ["info"]


def info(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file that fit has saved.")],
) -> None:
    """Show a saved model: its classes, its training and every weak classifier.

    The score of a row is the intercept plus the weight of each weak classifier that votes
    for the second class, minus the weight of each that votes for the first; the sign of the
    score decides. Of more than two classes each has a score: its intercept plus its weight
    of each weak classifier whose condition holds, minus that of each other; the highest decides.

    \b
      totalqboost info model.json
    """
    ensemble = load_model(model)
    facts = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    facts.add_row("model", str(model))
    facts.add_row("classes", _classes(ensemble))
    facts.add_row("weak classifiers", str(ensemble.n_learners))
    facts.add_row("intercept", _intercept(ensemble))
    facts.add_row("loss", ensemble.loss)
    facts.add_row("features", _features(ensemble))
    if ensemble.training is not None:
        for name, words in ensemble.training.words(ensemble.loss).items():
            facts.add_row(name, words)
    print_table(facts)
    print_ensemble(ensemble)


def _classes(ensemble: Ensemble) -> str:
    if ensemble.is_multiclass:
        labels = listed([repr(label) for label in ensemble.classes], most=12)
        return f"{labels}; the highest score decides"
    return f"{ensemble.classes[0]!r} (score <= 0), {ensemble.classes[1]!r} (> 0)"


def _intercept(ensemble: Ensemble) -> str:
    if not ensemble.is_multiclass:
        return f"{ensemble.intercept:+.6g}"
    pairs = zip(ensemble.classes, ensemble.intercept, strict=True)
    return listed([f"{label!r} {value:+.6g}" for label, value in pairs], most=12)


def _features(ensemble: Ensemble) -> str:
    used = [ensemble.features[j] for j in ensemble.used_features]
    facts = [f"{len(used)} used of {len(ensemble.features)}"]
    if n_categorical := sum(feature.categories is not None for feature in used):
        facts.append(f"{n_categorical} of categories")
    if n_gaps := sum(feature.has_missing for feature in used):
        facts.append(f"{n_gaps} with missing values in training")
    return ", ".join(facts)
