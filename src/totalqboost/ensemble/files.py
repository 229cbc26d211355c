"""Ensembles as plain values for JSON, and back with every value checked."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from totalqboost.ensemble.training import Training
from totalqboost.learners import Both, CategorySet, Constant, Feature, Learner, Missing, Stump
from totalqboost.parameters import short

if TYPE_CHECKING:
    from totalqboost.ensemble.model import Ensemble

__all__ = ["EnsembleFileError", "content_of", "fields_of"]

FORMAT = "totalqboost-ensemble"
SCHEMA_VERSION = 2
KINDS = ("stump", "missing", "categories", "both", "constant")
CONDITIONS = KINDS[:3]
MAX = sys.float_info.max  # a JSON integer may be larger than any float


class EnsembleFileError(ValueError):
    """A file that is not a readable TotalQBoost ensemble; the message says why.

    Examples
    --------
    >>> from totalqboost import Ensemble, EnsembleFileError
    >>> path = getfixture("tmp_path") / "model.json"
    >>> _ = path.write_text("{}")
    >>> try:
    ...     Ensemble.load(path)
    ... except EnsembleFileError as error:
    ...     print("not a TotalQBoost ensemble" in str(error))
    True
    """


# -- writing ---------------------------------------------------------------------------------


def content_of(model: Ensemble) -> dict[str, Any]:
    """Return the ensemble as plain values."""
    learners = []
    for learner, weight in zip(model.learners, model.weights, strict=True):
        weights = {"weights": list(weight)} if model.is_multiclass else {"weight": weight}
        learners.append({**_entry(learner), **weights})
    scale = {} if model.scale is None else {"scale": model.scale}  # others have no such key
    training = {} if model.training is None else {"training": model.training.content()}
    return {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "classes": [_plain_label(label, "class") for label in model.classes],
        "features": [_feature_entry(feature) for feature in model.features],
        "loss": model.loss,
        "intercept": list(model.intercept) if model.is_multiclass else model.intercept,
        **scale,
        **training,
        "learners": learners,
    }


def _entry(learner: Learner) -> dict[str, Any]:
    own: dict[str, Any]
    match learner:
        case Stump(feature, threshold, polarity, missing_above):
            own = {"kind": "stump", "feature": feature, "threshold": threshold}
            return {**own, "polarity": polarity, "missing_above": bool(missing_above)}
        case Missing(feature, polarity):
            return {"kind": "missing", "feature": feature, "polarity": polarity}
        case CategorySet(feature, codes, polarity):
            own = {"kind": "categories", "feature": feature, "codes": [int(c) for c in codes]}
            return {**own, "polarity": polarity}
        case Both(first, second, polarity):
            own = {"kind": "both", "first": _entry(first), "second": _entry(second)}
            return {**own, "polarity": polarity}
        case Constant(polarity):
            return {"kind": "constant", "polarity": polarity}
    raise TypeError(
        f"an ensemble with a {type(learner).__name__} learner cannot be saved as JSON; only "
        "stumps, sets of categories and constants can"
    )


def _feature_entry(feature: Feature) -> dict[str, Any]:
    """Return a feature; what most of them have is left out."""
    entry: dict[str, Any] = {"name": feature.name}
    if feature.categories is not None:
        labels = [None if c is None else _plain_label(c, "category") for c in feature.categories]
        entry["categories"] = labels
    if feature.has_missing:
        entry["has_missing"] = True
    if feature.monotone:
        entry["monotone"] = int(feature.monotone)
    return entry


def _plain_label(label: Any, kind: str) -> Any:
    label = label.item() if isinstance(label, np.generic) else label
    if not isinstance(label, str | int | float):
        raise TypeError(
            f"{kind} labels must be strings or numbers to be saved as JSON, got {short(label)}"
        )
    return label


# -- reading ---------------------------------------------------------------------------------


def fields_of(content: Any) -> dict[str, Any]:
    """Return the fields of the ensemble that plain values describe."""
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        if isinstance(content, dict) and content.get("format") == "totalqboost-cascade":
            raise EnsembleFileError(
                "it is a detector, which totalqboost.Cascade.load reads, with predict and to_c"
            )
        raise EnsembleFileError("this is not a TotalQBoost ensemble")
    version = content.get("schema_version")
    if isinstance(version, bool) or version not in (1, SCHEMA_VERSION):
        raise EnsembleFileError(
            f"schema_version {version!r} is not supported, this version reads 1 and "
            f"{SCHEMA_VERSION}"
        )
    classes = _classes(content, version)
    features = _features_1(content) if version == 1 else _features(content)
    entries = _checked(content, "learners", list)
    return {
        "learners": tuple(_learner(entry, features) for entry in entries),
        "weights": tuple(_weights(entry, len(classes)) for entry in entries),
        "intercept": _per_class(content, "intercept", len(classes))
        if len(classes) > 2
        else _number(content, "intercept"),
        "classes": classes,
        "features": features,
        "loss": _checked(content, "loss", str),
        "scale": None if content.get("scale") is None else _number(content, "scale"),
        "training": _training(content.get("training")),
    }


def _training(content: Any) -> Training | None:
    """Return what is known of the training; older files say nothing, newer ones perhaps more."""
    try:
        return None if content is None else Training.of_content(content)
    except ValueError as e:
        raise EnsembleFileError(f"training: {e}") from e


def _classes(content: dict[str, Any], version: int) -> tuple[Any, ...]:
    classes = _checked(content, "classes", list)
    is_plain = all(map(_is_label, classes))
    is_enough = len(classes) == 2 or (len(classes) > 2 and version > 1)
    if not is_enough or not is_plain or len(set(classes)) < len(classes):
        number = "two" if version == 1 else "two or more"
        raise EnsembleFileError(f"classes must be {number} different labels, got {short(classes)}")
    if len(set(map(str, classes))) < len(classes):  # a table of answers could not tell them apart
        raise EnsembleFileError(f"classes must be written differently, got {short(classes)}")
    return tuple(classes)


def _features_1(content: dict[str, Any]) -> tuple[Feature, ...]:
    names = _checked(content, "feature_names", list)
    if not all(isinstance(name, str) for name in names):
        raise EnsembleFileError("feature_names must be a list of strings")
    return tuple(map(Feature, names))


def _features(content: dict[str, Any]) -> tuple[Feature, ...]:
    return tuple(_feature(entry) for entry in _checked(content, "features", list))


def _feature(entry: Any) -> Feature:
    if not isinstance(entry, dict):
        raise EnsembleFileError(f"an entry of features must be an object, got {short(entry)}")
    categories, has_missing = entry.get("categories"), entry.get("has_missing", False)
    monotone = entry.get("monotone", 0)
    if categories is not None:
        is_plain = isinstance(categories, list) and all(
            label is None or _is_label(label) for label in categories
        )
        if not is_plain or len(set(categories)) < len(categories):
            raise EnsembleFileError(
                f"categories must be a list of different labels or null, got {short(categories)}"
            )
        categories = tuple(categories)
    if not isinstance(has_missing, bool):
        raise EnsembleFileError(f"has_missing must be true or false, got {short(has_missing)}")
    if isinstance(monotone, bool) or monotone not in (-1, 0, 1):
        raise EnsembleFileError(f"monotone must be -1, 0 or 1, got {short(monotone)}")
    return Feature(_checked(entry, "name", str), categories, has_missing, int(monotone))


def _learner(entry: Any, features: tuple[Feature, ...]) -> Learner:
    if not isinstance(entry, dict):
        raise EnsembleFileError(f"a learner must be an object, got {short(entry)}")
    kind, polarity = entry.get("kind"), entry.get("polarity")
    if not isinstance(kind, str) or kind not in KINDS:
        raise EnsembleFileError(f"kind must be one of {list(KINDS)}, got {short(kind)}")
    if isinstance(polarity, bool) or polarity not in (-1, 1):
        raise EnsembleFileError(f"polarity must be -1 or 1, got {short(polarity)}")
    if kind == "constant":
        return Constant(int(polarity))
    if kind == "both":
        first, second = (_condition(entry, name, features) for name in ("first", "second"))
        return Both(first, second, int(polarity))
    feature: Any = entry.get("feature")
    if not _is_index(feature, len(features)):
        raise EnsembleFileError(
            f"feature must be from 0 to {len(features) - 1}, got {short(feature)}"
        )
    categories = features[feature].categories
    if (categories is None) == (kind == "categories"):
        what = "numbers" if categories is None else "categories"
        raise EnsembleFileError(f"feature {feature} has {what}, so kind must not be {kind!r}")
    if kind == "missing":
        return Missing(feature, int(polarity))
    if kind == "categories":
        return CategorySet(feature, _codes(entry, len(categories or ())), int(polarity))
    missing_above = entry.get("missing_above", False)
    if not isinstance(missing_above, bool):
        raise EnsembleFileError(f"missing_above must be true or false, got {short(missing_above)}")
    return Stump(feature, _number(entry, "threshold"), int(polarity), missing_above)


def _condition(entry: dict[str, Any], name: str, features: tuple[Feature, ...]) -> Learner:
    own = _checked(entry, name, dict)
    if own.get("kind") not in CONDITIONS:
        raise EnsembleFileError(
            f"{name} must be a condition of kind {list(CONDITIONS)}, got {short(own.get('kind'))}"
        )
    return _learner(own, features)


def _codes(entry: dict[str, Any], n_categories: int) -> tuple[int, ...]:
    codes = _checked(entry, "codes", list)
    is_valid = all(_is_index(code, n_categories) for code in codes)
    if not is_valid or codes != sorted(set(codes)) or not codes:
        raise EnsembleFileError(
            f"codes must be some of the numbers from 0 to {n_categories - 1}, ascending, "
            f"got {short(codes)}"
        )
    return tuple(codes)


def _weights(entry: dict[str, Any], n_classes: int) -> Any:
    if n_classes > 2:
        weights = _per_class(entry, "weights", n_classes)
        if not any(weights):
            raise EnsembleFileError("weights of a learner must not all be 0")
        return weights
    weight = _number(entry, "weight")
    if weight <= 0:
        raise EnsembleFileError(f"weight must be > 0, got {short(weight)}")
    return weight


def _per_class(content: dict[str, Any], key: str, n_classes: int) -> tuple[float, ...]:
    values = _checked(content, key, list)
    if len(values) != n_classes:
        raise EnsembleFileError(
            f"{key} must have one value per class ({n_classes}), got {len(values)}"
        )
    return tuple(_number({key: value}, key) for value in values)


def _is_label(value: Any) -> bool:
    return isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))


def _is_index(value: Any, n: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < n


def _checked(content: dict[str, Any], key: str, kind: type) -> Any:
    value = content.get(key)
    if not isinstance(value, kind):
        raise EnsembleFileError(f"{key} must be a {kind.__name__}, got {short(value)}")
    return value


def _number(content: dict[str, Any], key: str) -> float:
    value = content.get(key)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is None or not is_number or not abs(value) <= MAX:
        raise EnsembleFileError(f"{key} must be a finite number, got {short(value)}")
    return float(value)
