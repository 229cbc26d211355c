"""What can be exported: an ensemble of known weak classifiers, as a sum in a fixed order."""

from __future__ import annotations

import keyword
import math
import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from totalqboost.ensemble import Ensemble
from totalqboost.learners import Both, CategorySet, Constant, Feature, Missing, Stump

__all__ = [
    "Sum",
    "Term",
    "ascii_text",
    "check_identifier",
    "check_names",
    "exportable",
    "float32_below",
    "one_line",
    "scaled_sum",
    "sum_of",
    "summary",
    "training_words",
]

CONDITIONS = Stump | Missing | CategorySet


@dataclass(frozen=True)
class Term:
    """Part of the scores: the values are added where the condition holds, else subtracted.

    Attributes
    ----------
    condition : Stump, Missing, CategorySet or Both
        Of polarity +1, so that it holds where it answers +1; parts of a conjunction keep theirs.
    values : tuple of float
        One for each score, of any sign.
    """

    condition: Stump | Missing | CategorySet | Both
    values: tuple[float, ...]


@dataclass(frozen=True)
class Sum:
    """The scores: the intercept, then the terms in the order in which they are summed.

    Two classes have one score, and the second is the answer where it is > 0; K >= 3 classes have
    K, and the first of the highest is the answer.
    """

    intercept: tuple[float, ...]
    terms: tuple[Term, ...]


def exportable(model: Any) -> Ensemble:
    """Return the ensemble of a model, ready for export.

    Parameters
    ----------
    model : Ensemble, or a fitted classifier or search that has one
        Its weak classifiers must be stumps, sets of categories, "missing", conjunctions of these
        and constants; its labels text or numbers.

    Returns
    -------
    Ensemble
        Of plain Python numbers; every column has a name (x0, x1, ... if nothing is known of it).

    Examples
    --------
    >>> from totalqboost import Ensemble, Stump
    >>> exportable(Ensemble((Stump(1, 0.5),), (0.7,))).feature_names
    ('x0', 'x1')
    """
    ensemble = _unwrapped(model)
    n_features = max(ensemble.used_features, default=-1) + 1
    features = ensemble.features or tuple(Feature(f"x{j}") for j in range(n_features))
    if n_features > len(features):
        raise ValueError(
            f"features must have an entry for each of the {n_features} columns that the weak "
            f"classifiers look at, got {len(features)}"
        )
    classes = tuple(_label(label, "classes") for label in ensemble.classes)
    if len(set(classes)) < len(classes):
        raise ValueError(f"classes must be different labels, got {classes}")
    return replace(
        ensemble,
        learners=tuple(_learner(h, features) for h in ensemble.learners),
        weights=tuple(map(_plain_weight, ensemble.weights)),
        intercept=_plain_weight(ensemble.intercept),
        classes=classes,
        features=tuple(_feature(feature) for feature in features),
    )


def sum_of(ensemble: Ensemble) -> Sum:
    """Return the scores of an exportable ensemble as a sum, in the order of ``Ensemble.scores``.

    Constants belong to the intercept. Sums in another order may differ by a rounding error, and
    so would the label of a row whose score is 0.
    """
    return _sum(ensemble, ensemble.weights, ensemble.intercept)


def scaled_sum(ensemble: Ensemble) -> tuple[Sum, float]:
    """Return the sum that the library computes, and what scores are in units of it.

    An ensemble of integer weights (``points``) is a sum of integers times a scale; others have
    the scale 1. Labels follow from the sum alone.
    """
    points = ensemble.points
    if points is None:
        return sum_of(ensemble), 1.0
    return _sum(ensemble, points.weights, points.intercept), points.scale


def _sum(ensemble: Ensemble, weights: Any, own: Any) -> Sum:
    pairs = [
        (h, np.atleast_1d(np.array(w, dtype=float)))
        for h, w in zip(ensemble.learners, weights, strict=True)
    ]
    intercept = np.atleast_1d(np.array(own, dtype=float))
    constants = [h.polarity * w for h, w in pairs if isinstance(h, Constant)]
    total = intercept + sum(constants, np.zeros_like(intercept))
    terms = [
        Term(replace(h, polarity=1), tuple((h.polarity * w).tolist()))
        for h, w in pairs
        if isinstance(h, CONDITIONS | Both)
    ]
    terms.sort(key=lambda term: _rank(term.condition))  # stable
    return Sum(tuple(total.tolist()), tuple(terms))


def _rank(condition: Stump | Missing | CategorySet | Both) -> int:
    match condition:
        case Stump(missing_above=False):
            return 0
        case Stump() | Missing():
            return 1
        case CategorySet():
            return 2
    return 3


# -- checks ----------------------------------------------------------------------------------


def _unwrapped(model: Any) -> Ensemble:
    if isinstance(model, Ensemble):
        return model
    kind = type(model).__name__
    if hasattr(model, "cascade_") or (hasattr(model, "stages") and hasattr(model, "to_c")):
        raise TypeError(
            f"model must not be a detector, whose rejections would be lost, got a {kind}; use its "
            "own to_c, the form that keeps them"
        )
    own = getattr(model, "ensemble_", None)
    if isinstance(own, Ensemble):
        return own
    if hasattr(model, "best_estimator_"):  # of a search
        return _unwrapped(model.best_estimator_)
    raise TypeError(
        "model must be an Ensemble or a fitted classifier that has one, got "
        f"{'an' if kind[:1] in 'AEIOU' else 'a'} {kind}{_mend(model)}"
    )


def _mend(model: Any) -> str:
    if hasattr(model, "steps"):
        return "; give its last step, [-1], whose columns are those that the steps before it make"
    return "; call fit first" if hasattr(model, "fit") else ""


def _learner(learner: Any, features: tuple[Feature, ...]) -> Any:
    """Return a learner of plain values, or say why it cannot be exported."""
    match learner:
        case Both(first, second, polarity):
            if not isinstance(first, CONDITIONS) or not isinstance(second, CONDITIONS):
                raise _foreign(second if isinstance(first, CONDITIONS) else first)
            parts = _learner(first, features), _learner(second, features)
            return Both(*parts, int(polarity))
        case Constant(polarity):
            return Constant(int(polarity))
        case Stump() | Missing() | CategorySet():
            return _condition(learner, features[learner.feature])
    raise _foreign(learner)


def _condition(learner: Stump | Missing | CategorySet, feature: Feature) -> Any:
    own, polarity = int(learner.feature), int(learner.polarity)
    is_categorical = feature.categories is not None
    if is_categorical != isinstance(learner, CategorySet):
        what = "categories" if is_categorical else "numbers"
        raise ValueError(
            f"feature {feature.name!r} has {what}, so a {type(learner).__name__} cannot look at it"
        )
    match learner:
        case Missing():
            return Missing(own, polarity)
        case CategorySet(codes=codes):
            known = len(feature.categories or ())
            if not all(0 <= code < known for code in codes):
                raise ValueError(
                    f"codes of feature {feature.name!r} must be from 0 to {known - 1}, got {codes}"
                )
            return CategorySet(own, tuple(int(code) for code in codes), polarity)
        case Stump(threshold=threshold, missing_above=above):
            if not math.isfinite(threshold):
                raise ValueError(
                    f"thresholds must be finite to be exported, got {threshold} for feature "
                    f"{feature.name!r}"
                )
            return Stump(own, float(threshold), polarity, bool(above))


def _foreign(learner: Any) -> TypeError:
    return TypeError(
        f"a {type(learner).__name__} learner cannot be exported: only stumps, sets of categories, "
        "missing values, pairs of these and constants can"
    )


def _feature(feature: Feature) -> Feature:
    if not isinstance(feature.name, str):
        raise TypeError(f"names of features must be text to be exported, got {feature.name!r}")
    _check_unicode(feature.name)
    if feature.categories is None:
        return feature
    labels = tuple(
        None if label is None else _label(label, "categories") for label in feature.categories
    )
    return replace(feature, categories=labels)


def _label(label: Any, argument: str) -> Any:
    label = label.item() if isinstance(label, np.generic) else label
    if isinstance(label, float) and not math.isfinite(label):
        raise ValueError(f"{argument} must not contain NaN or infinity, got {label!r}")
    if not isinstance(label, str | int | float):
        raise TypeError(f"{argument} must be text or numbers to be exported, got {label!r}")
    if isinstance(label, str):
        _check_unicode(label)
    return label


def _check_unicode(text: str) -> None:
    """Refuse halves of characters, which no file can hold."""
    if any("\ud800" <= c <= "\udfff" for c in text):
        raise ValueError(f"names and labels must be valid Unicode to be exported, got {text!r}")


def _plain_weight(weight: Any) -> Any:
    return tuple(map(float, weight)) if isinstance(weight, tuple) else float(weight)


# -- names and text --------------------------------------------------------------------------


def check_identifier(
    name: str, argument: str = "name", reserved: frozenset[str] = frozenset()
) -> str:
    """Return a name that C and Python take for a name, or say why it is none.

    Examples
    --------
    >>> check_identifier("2nd model")
    Traceback (most recent call last):
    ...
    ValueError: name must be letters, digits and _, not begin with a digit, got '2nd model'
    """
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(
            f"{argument} must be letters, digits and _, not begin with a digit, got {name!r}"
        )
    if keyword.iskeyword(name) or name in reserved:
        raise ValueError(f"{argument} must not be a word of the language, got {name!r}")
    return name


def check_names(ensemble: Ensemble, target: str) -> None:
    """Refuse columns of the same name where a form finds its columns by name."""
    used = [ensemble.features[j].name for j in ensemble.used_features]
    twice = sorted({name for name in used if ensemble.feature_names.count(name) > 1})
    if twice:
        raise ValueError(
            f"{target} finds columns by name, so names must be different, got {twice[0]!r} twice"
        )


def summary(ensemble: Ensemble) -> list[str]:
    """Return the lines of a comment that shows the model: its weak classifiers and training."""
    features = tuple(_shown(feature) for feature in ensemble.features)
    text = str(replace(ensemble, features=features))
    facts = [f"{name}: {words}" for name, words in training_words(ensemble).items()]
    return [one_line(line) for line in [*text.splitlines(), *facts]]


def training_words(ensemble: Ensemble) -> dict[str, str]:
    """Return what is known of the training: shape of the data, objective, certificate."""
    return {} if ensemble.training is None else ensemble.training.words(ensemble.loss)


def _shown(feature: Feature) -> Feature:
    """Return a feature whose name and labels stay on one line."""
    labels = feature.categories
    if labels is not None:
        labels = tuple(one_line(c) if isinstance(c, str) else c for c in labels)
    return replace(feature, name=one_line(feature.name), categories=labels)


def one_line(text: Any) -> str:
    r"""Return text that stays on one line: what cannot be printed is escaped.

    Examples
    --------
    >>> print(one_line("two\nlines"))
    two\nlines
    """
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in str(text)
    )


def ascii_text(text: Any) -> str:
    r"""Return text for a comment of C or a like language: one line of ASCII that cannot end it.

    Examples
    --------
    >>> print(ascii_text("Größe */ ??/"))
    Gr\xf6\xdfe * / ? ?/
    """
    plain = str(text).encode("unicode_escape").decode("ascii")
    plain = plain.replace("*/", "* /").replace("/*", "/ *")
    plain = re.sub(r"\?(?=\?)", "? ", plain)  # C once read ??/ as a backslash
    return f"{plain} " if plain.endswith("\\") else plain  # which would join two lines


def float32_below(threshold: float) -> float:
    """Return the largest single-precision number <= threshold: x > it where x > threshold.

    Exactly so for every x of single precision, infinities too.

    Examples
    --------
    >>> float32_below(0.1) < 0.1 < float32_below(0.1) + 1e-8
    True
    """
    with np.errstate(over="ignore"):
        near = np.float32(threshold)
    if float(near) > threshold:
        near = np.nextafter(near, np.float32(-np.inf))
    return float(near)
