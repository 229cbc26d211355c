"""JSON of ensembles obeys its schema, and the schema refuses what the loader refuses."""

from __future__ import annotations

import copy
import json

import jsonschema
import pytest
from ensembles import mixed_ensemble
from export_inputs import ensembles, labels_of, models, tricky_rows
from hypothesis import given, settings

from totalqboost import Ensemble, EnsembleFileError, export

CHECK = jsonschema.Draft202012Validator(export.ensemble_schema())


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(export.ensemble_schema())


@pytest.mark.parametrize("model", models())
def test_labels_are_those_of_the_library(model):
    X = tricky_rows(model, 100_000)
    again = Ensemble.from_dict(json.loads(export.to_json(model)))
    assert (labels_of(again, X) == labels_of(model, X)).all()


@settings(max_examples=80, deadline=None)
@given(ensembles())
def test_every_model_obeys_the_schema(model):
    text = export.to_json(model)
    assert text.isascii()
    CHECK.validate(json.loads(text))
    assert Ensemble.from_dict(json.loads(text)) == model


def test_it_is_the_file_of_the_library(tmp_path):
    model = mixed_ensemble(0)
    model.save(tmp_path / "model.json")
    assert (tmp_path / "model.json").read_text(encoding="utf-8") == export.to_json(model)


def content(n_classes=2):
    """A model with a weak classifier of every kind: 0 stump, 1 missing, 2 categories, 3 both."""
    own = {**models()[n_classes > 2].to_dict(), "training": {"n_rows": 80, "n_features": 3}}
    kinds = ["stump", "missing", "categories", "both", "constant"]
    learners = [next(h for h in own["learners"] if h["kind"] == kind) for kind in kinds]
    return copy.deepcopy({**own, "learners": learners})


def changed(path, value, n_classes=2):
    """The model with one value changed, or taken away if it is ``...``."""
    found = content(n_classes)
    at = found
    for key in path[:-1]:
        at = at[key]
    if value is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return found


BROKEN = [
    (["format"], "other"),
    (["schema_version"], 3),
    (["schema_version"], True),
    *[([key], ...) for key in ("classes", "features", "loss", "intercept", "learners")],
    *[([key], None) for key in ("classes", "features", "loss", "intercept", "learners")],
    (["classes"], ["a"]),
    (["classes"], ["a", "a"]),
    (["classes"], ["a", None]),
    (["classes"], ["a", ["b"]]),
    (["classes"], ["a", "b", "c"]),
    (["intercept"], "0"),
    (["intercept"], True),
    (["intercept"], 10**400),
    (["intercept"], [0.0, 0.0]),
    (["scale"], 0.0),
    (["scale"], -1.0),
    (["scale"], "1"),
    (["training"], 3),
    (["training", "n_rows"], 0),
    (["training", "n_rows"], "80"),
    (["training", "n_features"], ...),
    (["training", "objective"], "0.5"),
    (["training", "objective"], 10**400),
    (["training", "scope"], "all"),
    (["training", "l1_penalty"], -1.0),
    (["training", "max_learners"], 1.5),
    (["training", "is_best_of_integers"], 1),
    (["training", "factor"], -1.0),
    (["features", 0], "age"),
    (["features", 0, "name"], 3),
    (["features", 0, "name"], ...),
    (["features", 0, "has_missing"], 1),
    (["features", 0, "monotone"], 2),
    (["features", 0, "monotone"], True),
    (["features", 1, "categories"], "abc"),
    (["features", 1, "categories", 0], "Bern"),
    (["features", 1, "categories", 0], ["Bern"]),
    (["learners", 0], None),
    (["learners", 0, "kind"], "tree"),
    (["learners", 0, "kind"], ...),
    (["learners", 0, "polarity"], 0),
    (["learners", 0, "polarity"], True),
    (["learners", 0, "polarity"], ...),
    (["learners", 0, "feature"], -1),
    (["learners", 0, "feature"], 0.5),
    (["learners", 0, "feature"], True),
    (["learners", 0, "threshold"], "1"),
    (["learners", 0, "threshold"], 10**400),
    (["learners", 0, "threshold"], ...),
    (["learners", 0, "missing_above"], 0),
    (["learners", 0, "weight"], 0.0),
    (["learners", 0, "weight"], -1.0),
    (["learners", 0, "weight"], ...),
    (["learners", 1, "feature"], ...),
    (["learners", 2, "codes"], []),
    (["learners", 2, "codes"], [1, 1]),
    (["learners", 2, "codes"], [-1]),
    (["learners", 2, "codes"], 1),
    (["learners", 3, "first"], ...),
    (["learners", 3, "first", "kind"], "both"),
    (["learners", 3, "second", "kind"], "constant"),
    (["learners", 4, "polarity"], 2),
]
BROKEN_OF_MANY = [
    (["intercept"], 0.0),
    (["intercept", 1], None),
    (["learners", 0, "weights"], 1.0),
    (["learners", 0, "weights"], [0.0, 0.0, 0.0, 0.0]),
    (["learners", 0, "weights"], [1.0, 2.0]),
    (["learners", 0, "weights", 0], "1"),
]
# Relations between values: a schema cannot state them, docs/export.md does.
ONLY_LOADER = [
    (["learners", 0, "feature"], 5),
    (["learners", 0, "feature"], 1),
    (["learners", 2, "codes"], [2, 0]),
    (["learners", 2, "codes"], [0, 99]),
    (["training", "bound"], 0.5),
]


def test_what_is_whole_passes_both():
    for n_classes in (2, 4):
        CHECK.validate(content(n_classes))
        Ensemble.from_dict(content(n_classes))
    other = changed(["features", 0, "categories"], None)  # no categories, and new keys
    CHECK.validate({**other, "comment": "mine"})
    Ensemble.from_dict({**other, "comment": "mine"})


@pytest.mark.parametrize(
    ("path", "value", "n_classes"),
    [(*case, 2) for case in BROKEN] + [(*case, 4) for case in BROKEN_OF_MANY],
)
def test_what_is_broken_passes_neither(path, value, n_classes):
    broken = changed(path, value, n_classes)
    assert not CHECK.is_valid(broken)
    with pytest.raises(ValueError):  # noqa: PT011 (an EnsembleFileError, or that of a scale)
        Ensemble.from_dict(broken)


@pytest.mark.parametrize(("path", "value"), ONLY_LOADER)
def test_relations_are_the_loaders(path, value):
    broken = changed(path, value)
    assert CHECK.is_valid(broken)
    with pytest.raises(EnsembleFileError):
        Ensemble.from_dict(broken)
