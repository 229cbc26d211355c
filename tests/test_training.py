"""What a model knows of its training: in files, in every export, and checked on the way."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from command_line import run

from totalqboost import (
    Ensemble,
    EnsembleFileError,
    Stump,
    TotalQBoostClassifier,
    TotalQBoostClassifierCV,
    export,
    frontier,
)
from totalqboost.branch_price import BranchAndPrice
from totalqboost.ensemble import Training

FACTS = Training(80, 3, 0.5, 0.4, "dictionary", 0.01, 0.02, 6, True, 0.5)
MODEL = Ensemble(
    (Stump(0, 1.5), Stump(2, 0.5, -1)),
    (0.5, 0.25),
    0.25,
    ("no", "yes"),
    ("a", "b", "c"),
    "logistic",
    0.25,
    FACTS,
)
WORDS = FACTS.words("logistic")


def rows(n=80, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return X, X[:, 0] + X[:, 1] + 0.5 * X[:, 2] ** 2 > 0.3


# -- who writes it ---------------------------------------------------------------------------


def test_a_fit_notes_its_data_its_objective_and_its_bound():
    X, y = rows()
    clf = TotalQBoostClassifier(max_learners=3, certify=True).fit(X, y)
    facts = clf.ensemble_.training
    assert (facts.n_rows, facts.n_features, facts.max_learners) == (80, 3, 3)
    assert (facts.objective, facts.bound) == (clf.solution_.objective, clf.solution_.bound)
    assert facts.gap == pytest.approx(clf.solution_.gap)
    assert (facts.l1_penalty, facts.cardinality_penalty) == (
        clf.l1_penalty_,
        clf.cardinality_penalty_,
    )
    assert facts.scope == "generated"


def test_the_exact_solver_leaves_its_proof_in_the_model():
    X, y = rows(40)
    clf = TotalQBoostClassifier(max_learners=2, solver="exact").fit(X, y)
    assert clf.ensemble_.training.gap < 1e-6
    assert "gap 0: it is the best" in clf.ensemble_.training.words("logistic")["certificate"]


def test_integers_that_are_proved_are_noted():
    X, y = rows(40)
    clf = TotalQBoostClassifier(max_learners=2, n_bits=4, certify=True).fit(X, y)
    proved = clf.integers_ is not None and clf.integers_.status == "optimal"
    assert proved
    assert clf.ensemble_.training.is_best_of_integers


def test_every_point_of_a_frontier_has_its_own():
    X, y = rows()
    front = frontier(X, y, max_learners=3, l1_penalty=0.01)
    for point in front:
        facts = point.ensemble.training
        assert (facts.n_rows, facts.n_features, facts.l1_penalty) == (80, 3, 0.01)
        assert (facts.objective, facts.bound) == (point.objective, point.bound)
        assert facts.max_learners == point.n_learners
        assert facts.factor == 1.0


def test_calibration_is_noted():
    X, y = rows()
    clf = TotalQBoostClassifierCV(max_learners=2, cv=2).fit(X, y)
    point = clf.frontier_.best()
    assert clf.ensemble_.training.factor == point.calibration != 1.0
    assert clf.ensemble_.training.objective == point.objective


def test_of_more_classes_only_the_data_are_known():
    X, _ = rows()
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    clf = TotalQBoostClassifier(max_learners=2).fit(X, y)
    facts = clf.ensemble_.training
    assert (facts.n_rows, facts.objective, facts.bound) == (80, None, None)
    assert list(facts.words("multinomial")) == ["training data"]


def test_branch_and_price_proves_over_the_dictionary():
    X, y = rows(30)
    found = BranchAndPrice().solve(np.round(X), np.where(y, 1, -1), 2)
    facts = found.ensemble.training
    assert (facts.scope, facts.objective, facts.max_learners) == ("dictionary", found.objective, 2)
    assert facts.bound == min(found.bound, found.objective)
    assert "no ensemble of at most 2 of the whole dictionary" in facts.words("x")["certificate"]


# -- the ensemble ----------------------------------------------------------------------------


def test_it_changes_neither_equality_nor_labels():
    bare = replace(MODEL, training=None)
    assert bare == MODEL
    assert hash(bare) == hash(MODEL)
    X, _ = rows()
    np.testing.assert_array_equal(bare.decision_function(X), MODEL.decision_function(X))
    assert str(bare) == str(MODEL)


def test_scaled_weights_are_noted():
    assert MODEL.scaled(0.5).training == replace(FACTS, factor=0.25)
    assert replace(MODEL, training=None).scaled(0.5).training is None


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"n_rows": 0}, "n_rows must be an integer >= 1, got 0"),
        ({"n_features": True}, "n_features must be an integer >= 0, got True"),
        ({"objective": np.inf}, "objective must be a finite number or None, got inf"),
        ({"objective": None}, "bound must not be above the objective, None, got 0.4"),
        ({"bound": 0.6}, "bound must not be above the objective, 0.5, got 0.6"),
        ({"bound": "0.4"}, "bound must be a finite number or None, got '0.4'"),
        ({"scope": "all"}, r"scope must be one of \['generated', 'dictionary'\], got 'all'"),
        ({"l1_penalty": -1.0}, "l1_penalty must be a finite number >= 0, got -1.0"),
        ({"max_learners": 1.5}, "max_learners must be an integer >= 0, got 1.5"),
        ({"is_best_of_integers": 1}, "is_best_of_integers must be True or False, got 1"),
        ({"factor": np.nan}, "factor must be a finite number >= 0, got nan"),
    ],
)
def test_wrong_facts_are_refused(changes, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}"):
        replace(FACTS, **changes)
    content = MODEL.to_dict()
    content["training"] |= changes
    if None not in changes.values():
        with pytest.raises(EnsembleFileError, match=f"^training: {sentence}"):
            Ensemble.from_dict(content)


def test_training_is_of_its_type():
    with pytest.raises(TypeError, match=r"^training must be a Training or None, got 'much'"):
        replace(MODEL, training="much")
    with pytest.raises(EnsembleFileError, match=r"^training: training must be an object, got 3"):
        Ensemble.from_dict({**MODEL.to_dict(), "training": 3})


# -- files and exports -----------------------------------------------------------------------


def test_it_is_saved_and_read_back(tmp_path):
    MODEL.save(tmp_path / "model.json")
    assert Ensemble.load(tmp_path / "model.json").training == FACTS
    content = MODEL.to_dict()
    assert content["schema_version"] == 2
    assert content["training"]["bound"] == 0.4
    assert Training(80, 3).content() == {"n_rows": 80, "n_features": 3}


def test_files_without_it_load_and_those_with_more_too():
    content = MODEL.to_dict()
    assert Ensemble.from_dict({**content, "training": None}).training is None
    content["training"] |= {"weather": "fair", "factor": None}
    assert Ensemble.from_dict(content).training == replace(FACTS, factor=1.0)
    del content["training"]
    assert Ensemble.from_dict(content).training is None
    assert "training" not in Ensemble.from_dict(content).to_dict()


def test_numbers_of_numpy_are_plain_in_the_file():
    facts = Training(np.int64(80), np.int32(3), np.float64(0.5), np.float64(0.25), factor=1)
    assert json.loads(json.dumps(facts.content())) == {
        "n_rows": 80,
        "n_features": 3,
        "objective": 0.5,
        "bound": 0.25,
    }


def test_every_form_shows_it():
    for text in (export.to_c(MODEL), export.to_python(MODEL), export.to_sql(MODEL, table="rows")):
        comment = [line.lstrip(" */#-") for line in text.splitlines()]
        for name, words in WORDS.items():
            assert f"{name}: {words}" in comment
    assert set(WORDS) == {"training data", "objective", "certificate", "integers", "calibration"}
    assert json.loads(export.to_json(MODEL))["training"] == FACTS.content()
    document = export.to_onnx(MODEL).doc_string
    assert f"certificate: {WORDS['certificate']}" in document
    card = export.to_scorecard(MODEL)
    assert "Trained on 80 rows, 3 features." in card
    assert "The integers are proved to be the best for these rules and this scale." in card
    assert "Trained on" not in export.to_scorecard(replace(MODEL, training=None))


def test_fit_saves_it_and_info_and_export_show_it(tmp_path):
    X, y = rows()
    lines = ["a,b,c,y", *(",".join(map(str, [*row, own])) for row, own in zip(X, y, strict=True))]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    model = tmp_path / "model.json"
    options = ("--target", "y", "--max-learners", 2, "--out", model, "--quiet")
    assert run("fit", tmp_path / "rows.csv", *options).exit_code == 0
    facts = Ensemble.load(model).training
    assert (facts.n_rows, facts.n_features) == (80, 3)
    shown = run("info", model).stdout
    assert "80 rows, 3 features" in shown
    assert f"{facts.objective:.6g}, the mean logistic loss" in shown
    assert "certificate" in shown
    header = run("export", model, "--to", "c").stdout
    assert f" * objective: {facts.objective:.6g}, the mean logistic loss" in header
