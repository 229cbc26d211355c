"""Ensembles in files: exact on the way back, and clear about damage."""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from command_line import error_of
from hypothesis import example, given
from hypothesis import strategies as st

from totalqboost import (
    Cascade,
    CascadeFileError,
    Constant,
    Ensemble,
    EnsembleFileError,
    Stump,
)
from totalqboost import files as files_module
from totalqboost.learners import CategorySet, Feature, Fitted, Missing

CITY = Feature("city", ("Basel", 7, 2.5, True, None), True)
MODEL = Ensemble(
    (
        Stump(0, 1.5),
        Constant(-1),
        Stump(2, -0.25, -1, missing_above=True),
        Missing(2, -1),
        CategorySet(3, (0, 2, 4)),
    ),
    (0.7, 0.3, 1 / 3, 0.2, 0.1),
    0.1,
    ("no", "yes"),
    (Feature("age", monotone=1), Feature("height"), Feature("weight", has_missing=True), CITY),
    "logistic",
)
MANY = replace(
    MODEL,
    weights=tuple((0.1 * k, -1 / 3, 0.0) for k in range(5)),
    intercept=(0.1 + 0.2, -1e-310, 0.0),
    classes=("a", "b", "c"),
    loss="multinomial",
)
# As the first version wrote it.
OLD = {
    "format": "totalqboost-ensemble",
    "schema_version": 1,
    "classes": ["no", "yes"],
    "feature_names": ["age", "height"],
    "loss": "logistic",
    "intercept": 0.1,
    "learners": [
        {"kind": "stump", "feature": 1, "threshold": 1.5, "polarity": -1, "weight": 0.7},
        {"kind": "constant", "polarity": 1, "weight": 0.25},
    ],
}


def test_half_of_a_character_is_no_class(tmp_path):
    content = {**MODEL.to_dict(), "classes": ["\ud800", "b"]}
    path = tmp_path / "m.json"
    path.write_text(json.dumps(content))
    with pytest.raises(EnsembleFileError, match="a text holds half of a character"):
        Ensemble.load(path)
    path.write_text(json.dumps({**content, "classes": ["\U0001f600", "b"]}))  # in two halves
    assert Ensemble.load(path).classes == ("\U0001f600", "b")


@pytest.mark.parametrize(
    "classes", [("no", "yes"), (0, 1), (False, True), (-0.5, 1e300), ("ß", "\n"), (-3, 2**60)]
)
def test_a_saved_ensemble_is_read_back_exactly(tmp_path, classes):
    awkward = (0.1 + 0.2, 5e-324, 9.9e149)
    ensemble = Ensemble(
        (Stump(0, -1e-310), Stump(2, 1 / 3, -1), Constant(1)),
        awkward,
        -0.1,
        classes,
        ("Größe", "b", ""),
        "squared",
    )
    path = tmp_path / "model.json"
    ensemble.save(path)
    loaded = Ensemble.load(path)
    assert loaded == ensemble
    assert [type(c) for c in loaded.classes] == [type(c) for c in classes]
    X = np.random.default_rng(0).normal(size=(20, 3))
    np.testing.assert_array_equal(loaded.decision_function(X), ensemble.decision_function(X))


@pytest.mark.parametrize("classes", [np.array([0, 1]), np.array(["a", "b"]), np.array([0.5, 1.5])])
def test_labels_of_numpy_are_saved_as_plain_values(tmp_path, classes):
    path = tmp_path / "model.json"
    replace(MODEL, classes=tuple(classes)).save(path)
    assert Ensemble.load(path).classes == tuple(classes.tolist())


def test_the_file_says_what_it_is(tmp_path):
    path = tmp_path / "model.json"
    MODEL.save(str(path))
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["format"] == "totalqboost-ensemble"
    assert content["schema_version"] == 2
    assert content["learners"] == [
        {
            "kind": "stump",
            "feature": 0,
            "threshold": 1.5,
            "polarity": 1,
            "missing_above": False,
            "weight": 0.7,
        },
        {"kind": "constant", "polarity": -1, "weight": 0.3},
        {
            "kind": "stump",
            "feature": 2,
            "threshold": -0.25,
            "polarity": -1,
            "missing_above": True,
            "weight": 1 / 3,
        },
        {"kind": "missing", "feature": 2, "polarity": -1, "weight": 0.2},
        {"kind": "categories", "feature": 3, "codes": [0, 2, 4], "polarity": 1, "weight": 0.1},
    ]
    assert content["features"] == [
        {"name": "age", "monotone": 1},
        {"name": "height"},
        {"name": "weight", "has_missing": True},
        {"name": "city", "categories": ["Basel", 7, 2.5, True, None], "has_missing": True},
    ]


@pytest.mark.parametrize("model", [MODEL, MANY], ids=["two", "many"])
def test_all_kinds_are_read_back_exactly(tmp_path, model):
    path = tmp_path / "model.json"
    model.save(path)
    loaded = Ensemble.load(path)
    assert loaded == model
    labels = loaded.features[3].categories
    assert [type(label) for label in labels] == [str, int, float, bool, type(None)]
    frame = {
        "age": [1.0, 2.0, None],
        "height": [0.0, 0.0, 0.0],
        "weight": [None, -1.0, 1.0],
        "city": ["Basel", None, "Bern"],
    }
    X = pd.DataFrame(frame)
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert len(np.unique(loaded.decision_function(X))) >= 3


def test_a_file_of_the_first_version_is_read():
    expected = Ensemble(
        (Stump(1, 1.5, -1), Constant(1)),
        (0.7, 0.25),
        0.1,
        ("no", "yes"),
        ("age", "height"),
        "logistic",
    )
    assert Ensemble.from_dict(OLD) == expected


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("feature_names", "abc"),
        ("feature_names", [1, 2]),
        ("feature_names", None),
        ("classes", ["a", "b", "c"]),
        ("features", None),
    ],
)
def test_damage_in_a_file_of_the_first_version_is_named(key, value):
    content = {**OLD, key: value}
    if key == "features":
        del content["feature_names"]  # a file of the second version that says it is of the first
        key = "feature_names"
    with pytest.raises(EnsembleFileError, match=key):
        Ensemble.from_dict(content)


@pytest.mark.parametrize("classes", [["1", 1], [True, "True"], ["0.5", 0.5]])
def test_classes_that_no_table_of_answers_tells_apart_are_refused(classes):
    with pytest.raises(EnsembleFileError, match="classes must be written differently, got"):
        Ensemble.from_dict({**MODEL.to_dict(), "classes": classes})


def test_category_labels_of_numpy_are_saved_as_plain_values():
    feature = Feature("city", (np.str_("Basel"), np.int64(3), np.float64(0.5)))
    model = Ensemble((CategorySet(0, (1,)),), (1.0,), features=(feature,))
    assert json.dumps(model.to_dict()["features"][0]["categories"]) == '["Basel", 3, 0.5]'


def test_category_labels_that_json_does_not_know_cannot_be_saved():
    model = Ensemble((CategorySet(0, (0,)),), (1.0,), features=(Feature("a", ((1, 2),)),))
    with pytest.raises(TypeError, match=r"category labels must be strings or numbers .* \(1, 2\)"):
        model.to_dict()


def test_an_ensemble_of_fitted_classifiers_cannot_be_saved(tmp_path):
    path = tmp_path / "model.json"
    ensemble = Ensemble((Fitted(0, object()),), (1.0,))
    with pytest.raises(TypeError, match="Fitted learner cannot be saved as JSON"):
        ensemble.save(path)
    assert not path.exists()


def test_labels_that_json_does_not_know_cannot_be_saved(tmp_path):
    path = tmp_path / "model.json"
    with pytest.raises(TypeError, match="class labels must be strings or numbers"):
        replace(MODEL, classes=(None, 1)).save(path)
    assert not path.exists()


def set_value(content, keys, value):
    """Return a deep copy of content with the value under keys replaced, or removed if REMOVED."""
    content = json.loads(json.dumps(content))
    target = content
    for key in keys[:-1]:
        target = target[key]
    if value is REMOVED:
        del target[keys[-1]]
    else:
        target[keys[-1]] = value
    return content


REMOVED = object()
FIRST = ("learners", 0)
DAMAGE = {
    "a list": ([], []),
    "no format": (("format",), REMOVED),
    "another format": (("format",), "xgboost"),
    "no version": (("schema_version",), REMOVED),
    "a later version": (("schema_version",), 3),
    "a version in words": (("schema_version",), "1"),
    "a version that is true": (("schema_version",), True),
    "no classes": (("classes",), REMOVED),
    "one class": (("classes",), ["yes"]),
    "three classes of one weight": (("classes",), [1, 2, 3]),
    "a class that is NaN": (("classes",), [float("nan"), 1]),
    "classes that are NaN": (("classes",), [float("nan"), float("nan")]),
    "a class that is null": (("classes",), [None, 1]),
    "a class that is a list": (("classes",), [[1], 1]),
    "twice the same class": (("classes",), ["yes", "yes"]),
    "no features": (("features",), REMOVED),
    "features as a string": (("features",), "abc"),
    "a feature that is a string": (("features", 1), "height"),
    "a feature without a name": (("features", 1, "name"), REMOVED),
    "a feature name that is a number": (("features", 1, "name"), 7),
    "monotone in words": (("features", 0, "monotone"), "up"),
    "monotone 2": (("features", 0, "monotone"), 2),
    "monotone true": (("features", 0, "monotone"), True),
    "has_missing in words": (("features", 2, "has_missing"), "yes"),
    "has_missing 1": (("features", 2, "has_missing"), 1),
    "categories as a string": (("features", 3, "categories"), "abcde"),
    "a category that is a list": (("features", 3, "categories", 0), []),
    "a category that is NaN": (("features", 3, "categories", 0), float("nan")),
    "twice the same category": (("features", 3, "categories", 0), 7),
    "no loss": (("loss",), REMOVED),
    "a loss that is a number": (("loss",), 3),
    "no intercept": (("intercept",), REMOVED),
    "an intercept in words": (("intercept",), "0.1"),
    "an intercept that is true": (("intercept",), True),
    "an intercept that is NaN": (("intercept",), float("nan")),
    "an intercept beyond float": (("intercept",), 10**400),
    "no learners": (("learners",), REMOVED),
    "learners as an object": (("learners",), {}),
    "a learner that is a number": (FIRST, 5),
    "no kind": ((*FIRST, "kind"), REMOVED),
    "an unknown kind": ((*FIRST, "kind"), "tree"),
    "no feature": ((*FIRST, "feature"), REMOVED),
    "a feature beyond the last": ((*FIRST, "feature"), 3),
    "a negative feature": ((*FIRST, "feature"), -1),
    "a feature that is no integer": ((*FIRST, "feature"), 1.0),
    "a feature that is true": ((*FIRST, "feature"), True),
    "a feature as long as a book": ((*FIRST, "feature"), "x" * 100_000),
    "no threshold": ((*FIRST, "threshold"), REMOVED),
    "a threshold that is null": ((*FIRST, "threshold"), None),
    "an infinite threshold": ((*FIRST, "threshold"), float("inf")),
    "missing_above 1": ((*FIRST, "missing_above"), 1),
    "missing_above in words": ((*FIRST, "missing_above"), "no"),
    "a stump of categories": ((*FIRST, "feature"), 3),
    "missing of categories": (("learners", 3, "feature"), 3),
    "categories of numbers": (("learners", 4, "feature"), 0),
    "no codes": (("learners", 4, "codes"), REMOVED),
    "codes as a number": (("learners", 4, "codes"), 1),
    "a set without codes": (("learners", 4, "codes"), []),
    "a code beyond the last": (("learners", 4, "codes"), [0, 5]),
    "a negative code": (("learners", 4, "codes"), [-1, 0]),
    "codes that descend": (("learners", 4, "codes"), [2, 0]),
    "a code twice": (("learners", 4, "codes"), [2, 2]),
    "a code that is true": (("learners", 4, "codes"), [True]),
    "no weight": ((*FIRST, "weight"), REMOVED),
    "a weight that is NaN": ((*FIRST, "weight"), float("nan")),
    "a weight of zero": ((*FIRST, "weight"), 0.0),
    "a negative weight": ((*FIRST, "weight"), -0.5),
    "a weight beyond float": ((*FIRST, "weight"), 10**400),
    "no polarity": ((*FIRST, "polarity"), REMOVED),
    "polarity 2": ((*FIRST, "polarity"), 2),
    "polarity 0": ((*FIRST, "polarity"), 0),
    "a polarity that is true": ((*FIRST, "polarity"), True),
    "a polarity in words": ((*FIRST, "polarity"), "1"),
}


@pytest.mark.parametrize(("keys", "value"), DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_value_is_a_clear_error(tmp_path, keys, value):
    content = set_value(MODEL.to_dict(), keys, value) if keys else value
    path = tmp_path / "damaged.json"
    path.write_text(json.dumps(content))
    with pytest.raises(EnsembleFileError) as caught:
        Ensemble.load(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 500 + len(str(path))  # a sentence
    if keys:
        named = [key for key in keys if isinstance(key, str)][-1]
        foreign = named == "format" or keys == ("classes",)
        assert (named in str(caught.value)) or foreign or named == "learners"


MANY_DAMAGE = {
    "one intercept": (("intercept",), 0.1),
    "two intercepts": (("intercept",), [0.1, 0.2]),
    "an intercept in words": (("intercept", 1), "0.1"),
    "an infinite intercept": (("intercept", 1), float("inf")),
    "no weights": ((*FIRST, "weights"), REMOVED),
    "weights of two classes": ((*FIRST, "weights"), [0.1, 0.2]),
    "a weight in words": ((*FIRST, "weights", 0), "0.1"),
    "a weight that is true": ((*FIRST, "weights", 0), True),
    "a weight that is NaN": ((*FIRST, "weights", 0), float("nan")),
    "a weight beyond float": ((*FIRST, "weights", 0), 10**400),
    "weights of zero": ((*FIRST, "weights"), [0.0, 0.0, 0.0]),
    "a class twice": (("classes", 0), "b"),
    "a class fewer": (("classes",), ["a", "b"]),
}


@pytest.mark.parametrize(("keys", "value"), MANY_DAMAGE.values(), ids=MANY_DAMAGE)
def test_damage_of_many_classes_is_a_clear_error(keys, value):
    with pytest.raises(EnsembleFileError) as caught:
        Ensemble.from_dict(set_value(MANY.to_dict(), keys, value))
    named = [key for key in keys if isinstance(key, str)][-1]
    assert named in str(caught.value) or keys == ("classes",)


RAW = json.dumps(MODEL.to_dict()).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        RAW[: len(RAW) // 2],
        RAW[:-1],
        RAW + b"}",
        b"feature,threshold\n1,2\n",
        b"\x80\x04\x95pickle",
        b"\xff\xfe\x00\x01",
        bytes(range(256)),
        b"null",
        b"3",
        b'"totalqboost-ensemble"',
        b"[" * 100_000,
        RAW.replace(b"0.7", b"1" * 5000),
        RAW.replace(b"0.7", b"1e999"),
    ],
    ids=[
        "empty",
        "brace",
        "half",
        "but one",
        "one more",
        "csv",
        "pickle",
        "utf-16",
        "binary",
        "null",
        "number",
        "string",
        "deep",
        "digits",
        "overflow",
    ],
)
def test_a_file_that_is_no_ensemble_is_a_clear_error(tmp_path, content):
    path = tmp_path / "damaged.json"
    path.write_bytes(content)
    with pytest.raises(EnsembleFileError) as caught:
        Ensemble.load(path)
    assert str(path) in str(caught.value)


def load_or_refuse(path, content):
    """Load what is in the file: either a model that works or an EnsembleFileError."""
    path.write_bytes(content)
    try:
        ensemble = Ensemble.load(path)
    except EnsembleFileError:
        return
    X = np.zeros((2, max(1, len(ensemble.feature_names))))
    assert np.isfinite(ensemble.decision_function(X)).all()
    assert isinstance(str(ensemble), str)
    assert "weak classifier" in ensemble._repr_html_()


@given(st.lists(st.tuples(st.integers(0, len(RAW) - 1), st.integers(0, 255)), max_size=4))
def test_flipped_bytes_are_refused_or_harmless(tmp_path_factory, flips):
    content = bytearray(RAW)
    for place, value in flips:
        content[place] = value
    load_or_refuse(tmp_path_factory.mktemp("fuzz") / "model.json", bytes(content))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
PLACES = [
    *[(key,) for key in MODEL.to_dict()],
    *[(*FIRST, key) for key in MODEL.to_dict()["learners"][0]],
    ("classes", 0),
    *[("features", 3, key) for key in MODEL.to_dict()["features"][3]],
    ("features", 3, "categories", 1),
    *[("learners", 4, key) for key in MODEL.to_dict()["learners"][4]],
]


@given(st.sampled_from(PLACES), VALUES)
@example(("intercept",), -(10**400))
def test_any_value_in_any_place_is_refused_or_harmless(tmp_path_factory, keys, value):
    content = json.dumps(set_value(MODEL.to_dict(), keys, value)).encode()
    load_or_refuse(tmp_path_factory.mktemp("fuzz") / "model.json", content)


@given(st.sampled_from([("intercept",), ("intercept", 0), ("learners", 0, "weights")]), VALUES)
def test_any_value_for_many_classes_is_refused_or_harmless(tmp_path_factory, keys, value):
    content = json.dumps(set_value(MANY.to_dict(), keys, value)).encode()
    load_or_refuse(tmp_path_factory.mktemp("fuzz") / "model.json", content)


def test_a_missing_file_is_the_usual_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        Ensemble.load(tmp_path / "nothing.json")


# -- writing -----------------------------------------------------------------------------


def test_a_failing_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model.json"
    MODEL.save(path)
    before = path.read_bytes()

    def fail(handle):
        raise OSError("disk full")

    monkeypatch.setattr(files_module.os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        replace(MODEL, intercept=9.0).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.json"]  # and nothing else


def test_values_that_json_does_not_know_leave_the_old_file(tmp_path):
    path = tmp_path / "model.json"
    MODEL.save(path)
    broken = replace(MODEL, learners=(Stump(0, np.inf), *MODEL.learners[1:]))
    with pytest.raises(ValueError, match="JSON"):
        broken.save(path)
    assert Ensemble.load(path) == MODEL
    assert os.listdir(tmp_path) == ["model.json"]


def test_a_write_replaces_the_old_file(tmp_path):
    path = tmp_path / "model.json"
    path.write_text("something else, and longer than the model would be" * 100)
    MODEL.save(path)
    assert Ensemble.load(path) == MODEL


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_files_have_the_usual_permissions(tmp_path):
    usual = tmp_path / "usual"
    usual.write_text("")
    MODEL.save(tmp_path / "model.json")
    modes = {stat.S_IMODE(os.stat(tmp_path / name).st_mode) for name in ("usual", "model.json")}
    assert len(modes) == 1


def test_a_folder_that_does_not_exist_is_the_usual_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        MODEL.save(tmp_path / "nowhere" / "model.json")


@pytest.mark.parametrize(
    ("weights", "intercept", "classes", "sum_"),
    [
        ((9e149, 2e149), 0.0, (0, 1), "1.1e+150"),
        ((1.7e308, 1.7e308), 0.0, (0, 1), "inf"),
        ((0.5, 0.5), -1.7e308, (0, 1), "1.7e+308"),
        (((1, 0, -2e150), (0, 1, 1)), 0.0, (0, 1, 2), "2e+150"),
    ],
)
def test_weights_whose_scores_nothing_can_work_with_are_refused(weights, intercept, classes, sum_):
    message = re.escape(f"weights and intercept must add up to at most 1e+150, got {sum_}")
    with pytest.raises(ValueError, match=message):
        Ensemble((Stump(0, 0.5), Stump(0, 0.7)), weights, intercept, classes)


@pytest.mark.parametrize("command", ["info", "predict"])
def test_what_is_no_model_file_or_far_too_large_is_not_read(tmp_path, command):
    path = tmp_path / "model.json"
    path.touch()
    os.truncate(path, 30 * 2**30)  # takes no room on disk
    arguments = [command, path] if command == "info" else [command, path, tmp_path / "rows.csv"]
    said = "cannot be read as a model, a JSON file that save or totalqboost fit has written: "
    with pytest.raises(EnsembleFileError, match="at most 100,000,000 bytes"):
        Ensemble.load(path)
    assert f"{said}it must have at most 100,000,000 bytes, got 32," in error_of(*arguments)
    path.unlink()
    os.mkfifo(path)  # to open it would be to wait
    assert f"{said}it must be a file" in error_of(*arguments)
    with pytest.raises(CascadeFileError, match="must be a file"):
        Cascade.load(path)
