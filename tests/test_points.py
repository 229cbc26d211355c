"""Ensembles in integers: exact multiples of one scale, in scores, files and prints."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from totalqboost import Constant, Ensemble, EnsembleFileError, Stump
from totalqboost.ensemble import Points
from totalqboost.learners import CategorySet, Feature, Missing

SCALE = 0.1  # three times this is not 0.3
TWO = Ensemble(
    (Stump(0, 1.5), Stump(1, 0.5, -1), Stump(0, 2.5)),
    (3 * SCALE, 2 * SCALE, SCALE),
    -2 * SCALE,
    ("no", "yes"),
    ("age", "height"),
    "logistic",
    SCALE,
)
MANY = Ensemble(
    (Stump(0, 1.5), Missing(1), CategorySet(2, (0, 2))),
    ((0.3, -0.1, 0.0), (0.0, 0.7, -0.7), (0.1, 0.1, -0.2)),
    (0.1, 0.0, -0.4),
    ("cat", "dog", "owl"),
    (Feature("age"), Feature("height", has_missing=True), Feature("city", ("a", "b", "c"))),
    "multinomial",
    SCALE,
)


def test_points_are_the_integers_behind_the_weights():
    assert TWO.points == Points((3, 2, 1), -2, SCALE)
    assert MANY.points == Points(((3, -1, 0), (0, 7, -7), (1, 1, -2)), (1, 0, -4), SCALE)
    assert replace(TWO, scale=None).points is None


def test_weights_are_exact_multiples_of_the_scale():
    assert TWO.weights == (3 * SCALE, 2 * SCALE, SCALE)
    near = replace(TWO, weights=(0.3, 0.2, 0.1))  # 0.3 is not 3 * 0.1
    assert near == TWO


def test_an_integer_sum_of_zero_is_a_score_of_zero():
    # In floats the sum is above 0: the label would be another than that of the integers.
    model = Ensemble(
        (Stump(0, 0.0), Stump(1, 0.0), Stump(2, 0.0)), (0.2, 0.7, 0.9), scale=0.1, classes=(0, 1)
    )
    row = [[1.0, 1.0, -1.0]]
    assert model.decision_function(row)[0] == 0.0
    assert model.predict(row)[0] == 0
    assert replace(model, scale=None).predict(row)[0] == 1


@pytest.mark.parametrize("model", [TWO, MANY], ids=["two classes", "three classes"])
def test_scores_are_the_scale_times_integers(model):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (50, len(model.features))).astype(float)
    votes = np.array([learner.predict(X) for learner in model.learners])
    whole = votes.T @ np.array(model.points.weights) + np.array(model.points.intercept)
    np.testing.assert_array_equal(model.scores(X), SCALE * whole)


@pytest.mark.parametrize("model", [TWO, MANY], ids=["two classes", "three classes"])
def test_a_factor_changes_the_scale_only(model):
    scaled = model.scaled(1.7)
    assert scaled.points == model.points._replace(scale=1.7 * SCALE)
    np.testing.assert_allclose(scaled.class_weights, 1.7 * model.class_weights)


@pytest.mark.parametrize("model", [TWO, MANY], ids=["two classes", "three classes"])
def test_a_file_keeps_the_integers(tmp_path, model):
    model.save(tmp_path / "model.json")
    assert Ensemble.load(tmp_path / "model.json") == model


def test_ensembles_of_other_weights_have_no_scale_in_their_file():
    content = replace(TWO, scale=None).to_dict()
    assert "scale" not in content
    assert Ensemble.from_dict(content).scale is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scale": 0.07}, "weights must be whole multiples of scale=0.07"),
        ({"scale": 1e-300}, "weights must be whole multiples of scale=1e-300"),
        ({"scale": 1e9}, "weights must be whole multiples"),
        ({"scale": 0.0}, "scale must be None or a finite number > 0, got 0.0"),
        ({"scale": -1}, "scale must be None or a finite number > 0"),
        ({"scale": "fine"}, "scale must be a finite number, got 'fine'"),
        ({"intercept": 0.25}, "intercept must be whole multiples of scale=0.1, got 0.25"),
    ],
)
def test_a_file_whose_weights_are_no_multiples_is_refused(tmp_path, change, message):
    path = tmp_path / "model.json"
    path.write_text(json.dumps(TWO.to_dict() | change), encoding="utf-8")
    with pytest.raises(EnsembleFileError, match=message):
        Ensemble.load(path)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 0, -0.1, "0.1"])
def test_a_scale_is_a_number_above_zero(bad):
    with pytest.raises(ValueError, match="scale must be None or a finite number > 0, got"):
        replace(TWO, scale=bad)


def test_an_ensemble_of_an_intercept_has_points():
    assert Ensemble((), (), 0.6, scale=0.2).points == Points((), 3, 0.2)


def test_a_constant_counts_in_integers_too():
    model = Ensemble((Constant(-1), Stump(0, 0.0)), (0.2, 0.1), scale=0.1)
    np.testing.assert_array_equal(model.scores(np.array([[1.0]])), [-0.1])


def test_points_are_printed_as_integers():
    assert str(TWO).splitlines() == [
        "3 weak classifiers, intercept -2, in points of 0.1",
        "  points  feature  'yes' if",
        "       3  age      > 1.5",
        "       2  height   <= 0.5",
        "       1  age      > 2.5",
    ]
    text = str(MANY)
    assert "points of 0.1 are added if the condition holds, else subtracted" in text
    assert "-7" in text
