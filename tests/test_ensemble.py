"""The ensemble: scores, labels, the printed table, and files that cannot be trusted."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

from totalqboost import (
    Constant,
    Ensemble,
    EnsembleFileError,
    Stump,
    TotalQBoostClassifier,
    losses,
)
from totalqboost import files as files_module
from totalqboost.datasets import make_twonorm
from totalqboost.learners import Fitted

MODEL = Ensemble(
    (Stump(0, 1.5), Constant(-1), Stump(2, -0.25, -1)),
    (0.7, 0.3, 1 / 3),
    0.1,
    ("no", "yes"),
    ("age", "height", "weight"),
    "logistic",
)


def random_ensemble(seed, n_features=4, n_learners=9):
    rng = np.random.default_rng(seed)
    learners = [
        Stump(int(rng.integers(n_features)), float(rng.normal()), int(rng.choice([-1, 1])))
        if rng.random() < 0.8
        else Constant(int(rng.choice([-1, 1])))
        for _ in range(n_learners)
    ]
    return Ensemble(tuple(learners), tuple(rng.random(n_learners) + 0.01), float(rng.normal()))


# -- scores ------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("seed", range(3))
def test_scores_are_the_weighted_votes(dtype, order, seed):
    ensemble = random_ensemble(seed + 10)
    X = np.asarray(np.random.default_rng(seed).normal(size=(50, 4)), dtype=dtype, order=order)
    slow = ensemble.intercept + sum(
        w * h.predict(X) for h, w in zip(ensemble.learners, ensemble.weights, strict=True)
    )
    np.testing.assert_allclose(ensemble.decision_function(X), slow, atol=1e-12)


@pytest.mark.parametrize("X", [[[1, 2], [3, 0]], np.array([[1, 2], [3, 0]], dtype=np.int8)])
def test_integers_and_lists_are_scored(X):
    ensemble = Ensemble((Stump(0, 1.5), Stump(1, 1.5)), (1.0, 0.25))
    np.testing.assert_array_equal(ensemble.decision_function(X), [-0.75, 0.75])


def test_a_slice_of_a_matrix_is_scored():
    X = np.random.default_rng(0).normal(size=(20, 8))
    ensemble = random_ensemble(1)
    np.testing.assert_array_equal(
        ensemble.decision_function(X[::2, 1:5]), ensemble.decision_function(X[::2, 1:5].copy())
    )


def test_no_rows_give_no_scores():
    assert MODEL.decision_function(np.empty((0, 3))).shape == (0,)
    assert MODEL.predict(np.empty((0, 3))).shape == (0,)


def test_the_empty_ensemble_scores_its_intercept():
    np.testing.assert_array_equal(Ensemble((), (), -2.0).decision_function(np.ones((3, 5))), -2.0)


def test_fitted_classifiers_vote_too():
    X = np.random.default_rng(0).normal(size=(60, 2))
    tree = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, X[:, 0] * X[:, 1] > 0)
    ensemble = Ensemble((Fitted(0, tree, True), Stump(1, 0.0)), (0.5, 0.2), 0.1)
    votes = np.where(tree.predict(X), 0.5, -0.5) + np.where(X[:, 1] > 0, 0.2, -0.2) + 0.1
    np.testing.assert_allclose(ensemble.decision_function(X), votes, atol=1e-14)


def test_a_stump_compares_single_precision_as_the_scores_do():
    low = np.nextafter(np.float32(1.0), np.float32(2.0))
    high = np.nextafter(low, np.float32(2.0))
    stump = Stump(0, (float(low) + float(high)) / 2)
    X = np.array([[low], [high]], dtype=np.float32)
    np.testing.assert_array_equal(stump.predict(X), [-1, 1])
    np.testing.assert_array_equal(Ensemble((stump,), (1.0,)).decision_function(X), [-1, 1])


@pytest.mark.parametrize("shape", [(4,), (4, 2), (4, 4), (2, 3, 4)])
def test_another_number_of_features_is_refused(shape):
    with pytest.raises(ValueError, match=r"X must have 3 columns .*'age'.* got shape"):
        MODEL.decision_function(np.zeros(shape))


def test_a_feature_outside_the_data_is_refused():
    """Compiled code must never read beyond the rows it was given."""
    ensemble = Ensemble((Stump(5, 0.0),), (1.0,))
    with pytest.raises((ValueError, IndexError)):
        ensemble.decision_function(np.zeros((3, 2)))


@pytest.mark.parametrize("classes", [("no", "yes"), (0, 1), (False, True), (-0.5, 2.5), (3, 7)])
def test_labels_follow_the_sign_of_the_score(classes):
    ensemble = Ensemble((Stump(0, 0.0),), (1.0,), 0.0, classes)
    labels = ensemble.predict(np.array([[-1.0], [1.0]]))
    assert labels.tolist() == list(classes)


def test_a_score_of_zero_is_the_first_class():
    assert Ensemble((), (), 0.0, ("a", "b")).predict(np.zeros((1, 1))).tolist() == ["a"]


# -- probabilities -----------------------------------------------------------------------


@pytest.mark.parametrize("loss", losses.names())
def test_probabilities_follow_from_the_link_of_the_named_loss(loss):
    X = np.random.default_rng(3).normal(size=(40, 4))
    ensemble = replace(random_ensemble(2), loss=loss)
    probabilities = ensemble.predict_proba(X)
    expected = losses.get(loss).link(ensemble.decision_function(X))
    np.testing.assert_array_equal(probabilities[:, 1], expected)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-15)
    assert len(np.unique(probabilities)) > 3


@pytest.mark.parametrize(
    ("loss", "odds"), [("logistic", np.exp(0.6)), ("exponential", np.exp(1.2))]
)
def test_scores_of_two_losses_are_log_odds(loss, odds):
    ensemble = Ensemble((Stump(0, 0.0),), (0.5,), 0.1, loss=loss)
    negative, positive = ensemble.predict_proba([[1.0]])[0]
    assert positive / negative == pytest.approx(odds, rel=1e-12)


def test_the_classifier_and_its_ensemble_agree_on_probabilities():
    X, y = make_twonorm(120, seed=0, n_features=4)
    for loss in ("logistic", "squared"):
        model = TotalQBoostClassifier(0.01, loss=loss, max_learners=4).fit(X, y)
        np.testing.assert_array_equal(model.predict_proba(X), model.ensemble_.predict_proba(X))


def test_probabilities_survive_the_file(tmp_path):
    MODEL.save(tmp_path / "model.json")
    X = np.random.default_rng(0).normal(size=(5, 3))
    loaded = Ensemble.load(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict_proba(X), MODEL.predict_proba(X))


def test_a_loss_of_ones_own_has_no_probabilities():
    ensemble = replace(MODEL, loss="squareplus")
    with pytest.raises(
        ValueError, match=r"one of \['exponential', .*got 'squareplus'; apply the l"
    ):
        ensemble.predict_proba(np.zeros((1, 3)))
    assert ensemble.predict(np.zeros((1, 3))).tolist() == ["no"]


# -- construction ------------------------------------------------------------------------


def test_columns_of_zero_weight_are_dropped_and_free_constants_become_the_intercept():
    learners = [Constant(1), Constant(-1), Stump(0, 1.0), Stump(1, 2.0), Stump(0, 3.0, -1)]
    w = np.array([0.5, 0.2, 0.3, 0.0, 0.9])
    is_free = np.array([True, True, False, False, False])
    ensemble = Ensemble.from_columns(learners, w, is_free)
    assert ensemble.learners == (Stump(0, 3.0, -1), Stump(0, 1.0))  # heaviest first
    assert ensemble.weights == (0.9, 0.3)
    assert ensemble.intercept == pytest.approx(0.3)
    assert ensemble.n_learners == 2


def test_a_constant_that_costs_something_is_a_learner():
    ensemble = Ensemble.from_columns([Constant(-1)], np.array([0.4]), np.array([False]))
    assert ensemble.n_learners == 1
    assert ensemble.intercept == 0.0


def test_names_are_given_afterwards():
    ensemble = Ensemble((Stump(0, 1.0),), (1.0,)).with_names(
        np.array(["a", "b"]), ["x"], "logistic"
    )
    assert ensemble.classes == ("a", "b")
    assert all(type(c) is str for c in ensemble.classes)
    assert (ensemble.feature_names, ensemble.loss) == (("x",), "logistic")


@pytest.mark.parametrize("weights", [(), (1.0, 2.0)])
def test_every_learner_has_one_weight(weights):
    with pytest.raises(ValueError, match=r"one value per learner \(1\)"):
        Ensemble((Stump(0, 0.0),), weights)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_weights_and_intercept_must_be_finite(bad):
    with pytest.raises(ValueError, match="finite"):
        Ensemble((Stump(0, 0.0),), (bad,))
    with pytest.raises(ValueError, match="finite"):
        Ensemble((), (), bad)


def test_an_ensemble_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        MODEL.intercept = 3.0
    with pytest.raises(FrozenInstanceError):
        MODEL.learners[0].threshold = 3.0
    assert isinstance(MODEL.learners, tuple)
    assert isinstance(MODEL.weights, tuple)
    assert hash(MODEL) == hash(replace(MODEL))


def test_scoring_does_not_change_what_compares_equal():
    other = replace(MODEL)
    MODEL.decision_function(np.zeros((1, 3)))
    assert other == MODEL


# -- for people --------------------------------------------------------------------------


def test_it_prints_as_a_table():
    assert str(MODEL).splitlines() == [
        "3 weak classifiers, intercept +0.1",
        "  weight  feature     'yes' if",
        "     0.7  age         > 1.5",
        "     0.3  (constant)  never",
        "  0.3333  weight      <= -0.25",
    ]


def test_without_names_features_are_numbered():
    assert str(Ensemble((Stump(12, 0.5),), (1.0,))).splitlines()[-1] == "       1  x12      > 0.5"


def test_the_empty_ensemble_prints_its_intercept():
    assert str(Ensemble((), (), -0.5)) == "0 weak classifiers, intercept -0.5"


def test_its_repr_is_one_line():
    assert repr(MODEL) == (
        "<Ensemble: 3 weak classifiers on 2 features, 'no' or 'yes', logistic loss>"
    )
    one = "<Ensemble: 1 weak classifier on 1 feature, -1 or 1, exponential loss>"
    assert repr(Ensemble((Stump(4, 0.0),), (1.0,))) == one


def test_it_is_a_table_in_a_notebook():
    ensemble = replace(MODEL, features=("<script>alert(1)</script>", "h", "a & b"))
    page = ensemble._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "a &amp; b" in page
    assert page.count("<tr>") == 4
    assert "0 weak classifiers" in Ensemble((), ())._repr_html_()


# -- files -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "classes", [("no", "yes"), (0, 1), (False, True), (-0.5, 1e300), ("ß", "\n"), (-3, 2**60)]
)
def test_a_saved_ensemble_is_read_back_exactly(tmp_path, classes):
    awkward = (0.1 + 0.2, 5e-324, 1.7e308)
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
    assert content["schema_version"] == 1
    assert content["learners"][0] == {
        "kind": "stump",
        "feature": 0,
        "threshold": 1.5,
        "polarity": 1,
        "weight": 0.7,
    }


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
    "a later version": (("schema_version",), 2),
    "a version in words": (("schema_version",), "1"),
    "a version that is true": (("schema_version",), True),
    "no classes": (("classes",), REMOVED),
    "one class": (("classes",), ["yes"]),
    "three classes": (("classes",), [1, 2, 3]),
    "a class that is null": (("classes",), [None, 1]),
    "a class that is a list": (("classes",), [[1], 1]),
    "twice the same class": (("classes",), ["yes", "yes"]),
    "no feature names": (("feature_names",), REMOVED),
    "feature names as a string": (("feature_names",), "abc"),
    "a feature name that is a number": (("feature_names", 1), 7),
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
    "no threshold": ((*FIRST, "threshold"), REMOVED),
    "a threshold that is null": ((*FIRST, "threshold"), None),
    "an infinite threshold": ((*FIRST, "threshold"), float("inf")),
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
    if keys:
        named = [key for key in keys if isinstance(key, str)][-1]
        foreign = named == "format"
        assert (named in str(caught.value)) or foreign or named == "learners"


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
    assert np.isfinite(ensemble.decision_function(X)).all() or max(ensemble.weights) > 1e300
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
    ("feature_names", 2),
]


@given(st.sampled_from(PLACES), VALUES)
@example(("intercept",), -(10**400))
def test_any_value_in_any_place_is_refused_or_harmless(tmp_path_factory, keys, value):
    content = json.dumps(set_value(MODEL.to_dict(), keys, value)).encode()
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


def test_a_data_frame_is_read_by_the_names_of_its_columns():
    frame = pd.DataFrame({"age": [0.0, 9.0], "height": [5.0, 5.0], "weight": [1.0, 2.0]})
    model = Ensemble((Stump(0, 4.0),), (1.0,), features=("age", "height", "weight"))
    np.testing.assert_array_equal(model.decision_function(frame), [-1.0, 1.0])
    np.testing.assert_array_equal(model.decision_function(frame.iloc[:, ::-1]), [-1.0, 1.0])
    with pytest.raises(ValueError, match=r"missing \['height'\]"):
        model.decision_function(frame.drop(columns="height"))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_number_that_is_none_is_refused_where_it_is_looked_at(bad):
    model = Ensemble((Stump(1, 4.0),), (1.0,))
    with pytest.raises(ValueError, match="NaN or infinity"):
        model.decision_function(np.array([[0.0, bad]]))
    np.testing.assert_array_equal(model.decision_function(np.array([[bad, 5.0]])), [1.0])
