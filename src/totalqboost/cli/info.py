"""``totalqboost info``: show what a saved model does."""

from __future__ import annotations

from rich.table import Table

from totalqboost.cascade import Cascade
from totalqboost.cli import options
from totalqboost.cli.models import load_model
from totalqboost.cli.show import print_detector, print_ensemble, print_table
from totalqboost.ensemble import Ensemble
from totalqboost.ensemble.printing import listed

__all__ = ["info"]


def info(
    model: options.Model,
) -> None:
    """Show a saved model: its classes, its training and every weak classifier.

    The score of a row is the intercept plus the weight of each weak classifier that votes
    for the second class, minus the weight of each that votes for the first; the sign of the
    score decides. Of more than two classes each has a score: its intercept plus its weight
    of each weak classifier whose condition holds, minus that of each other; the highest decides.
    A detector rejects a row as soon as the score so far is below the threshold in its line.

    \b
      totalqboost info model.json
    """
    own = load_model(model)
    found = _about_detector(own) if isinstance(own, Cascade) else _about_model(own)
    facts = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    facts.add_row("detector" if isinstance(own, Cascade) else "model", str(model))
    for name, words in found.items():
        facts.add_row(name, words)
    print_table(facts)
    if isinstance(own, Cascade):
        print_detector(own)
    else:
        print_ensemble(own)


def _about_model(ensemble: Ensemble) -> dict[str, str]:
    return {
        "classes": _classes(ensemble),
        "weak classifiers": str(ensemble.n_learners),
        "intercept": _intercept(ensemble),
        "loss": ensemble.loss,
        "features": _features(ensemble),
        **_training(ensemble),
    }


def _about_detector(cascade: Cascade) -> dict[str, str]:
    other, wanted = map(repr, cascade.classes)
    ensembles = [stage.ensemble for stage in cascade.stages]
    found = {
        "classes": f"{wanted} is detected, {other} is what is rejected on the way",
        "weak classifiers": ", ".join(str(own.n_learners) for own in ensembles)
        + (f" in {len(ensembles)} stages" if len(ensembles) > 1 else ""),
        "loss": ensembles[0].loss,
        "features": _features(cascade),
    }
    if cascade.guarantee is not None:
        found["recall"] = str(cascade.guarantee)
    if len(ensembles) == 1:
        return found | _training(ensembles[0])
    rows = [_training(own).get("training data", "unknown") for own in ensembles]
    return found | {"training data": "; ".join(rows)}


def _training(ensemble: Ensemble) -> dict[str, str]:
    return {} if ensemble.training is None else ensemble.training.words(ensemble.loss)


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


def _features(model: Ensemble | Cascade) -> str:
    used = [model.features[j] for j in model.used_features]
    facts = [f"{len(used)} used of {len(model.features)}"]
    if n_categorical := sum(feature.categories is not None for feature in used):
        facts.append(f"{n_categorical} of categories")
    if n_gaps := sum(feature.has_missing for feature in used):
        facts.append(f"{n_gaps} with missing values in training")
    return ", ".join(facts)
