"""TotalQBoostClassifier: scikit-learn's manners, clear errors, nothing lost."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks
from solver_contract import Squareplus

from totalqboost import Interrupted, Status, TotalQBoostClassifier, losses
from totalqboost.boosting import Round, Searched
from totalqboost.datasets import load, make_ringnorm, make_twonorm
from totalqboost.dictionaries import FittedClassifiers, Stumps
from totalqboost.master import FREE_NU
from totalqboost.solvers import LocalSearch, TabuSearch


def expected_failures(estimator):
    """Return the checks that may fail, with the reason: none, but for one without an intercept.

    That check gives one class all the weight, and wants 87 % of new rows to get its label: the
    intercept's work. A stump that has all rows of weight on one side is as good on the training
    rows, and labels 82 % so. scikit-learn's LogisticRegression, LinearSVC, RidgeClassifier and
    SGDClassifier fail the check too if they have no intercept.
    """
    if estimator.fit_intercept:
        return {}
    return {"check_class_weight_classifiers": "wants the work of an intercept"}


@parametrize_with_checks(
    [
        TotalQBoostClassifier(),
        TotalQBoostClassifier(solver=TabuSearch(max_evaluations=200)),
        TotalQBoostClassifier(fit_intercept=False, loss="exponential"),
        TotalQBoostClassifier(max_features=2, multiclass="shared"),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_finds_nothing_to_complain_about(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # else one check skips itself
    check(estimator)


def data(n_rows=200, seed=0, n_features=5):
    return make_ringnorm(n_rows, seed=seed, n_features=n_features)


PAPER = {"loss": "exponential", "l1_penalty": 1e-6}


def quick(**settings):
    """Return an estimator that needs little time."""
    return TotalQBoostClassifier(**{"max_rounds": 8, **settings})


# -- in company --------------------------------------------------------------------------


def test_it_learns():
    X, y = make_twonorm(900, seed=1)
    clf = TotalQBoostClassifier(max_learners=12).fit(X[:600], y[:600])
    assert clf.score(X[600:], y[600:]) > 0.85
    assert clf.n_learners_ == 12


def test_works_in_a_pipeline():
    X, y = data()
    scaled = make_pipeline(StandardScaler(), quick()).fit(X, y)
    plain = quick().fit(X, y)
    np.testing.assert_array_equal(scaled.predict(X), plain.predict(X))  # stumps see ranks only


def test_works_in_a_grid_search():
    X, y = data()
    search = GridSearchCV(quick(), {"cardinality_penalty": [0.01, 10.0]}, cv=3).fit(X, y)
    assert search.best_params_ == {"cardinality_penalty": 0.01}
    assert search.best_estimator_.n_learners_ > 0


def test_works_in_cross_validation():
    X, y = data(300)
    scores = cross_val_score(quick(max_learners=5), X, np.where(y > 0, "in", "out"), cv=3)
    assert scores.shape == (3,)
    assert scores.min() > 0.6


def test_a_clone_has_the_same_settings_and_no_model():
    solver = LocalSearch(n_perturbations=1)
    clf = quick(solver=solver, dictionary=Stumps(max_bins=9), loss=losses.Logistic()).fit(*data())
    copy = clone(clf)
    assert copy.get_params() == clf.get_params()
    assert not hasattr(copy, "ensemble_")


def test_a_pickle_predicts_the_same_and_does_not_hold_the_data():
    X, y = data(3000)
    clf = quick().fit(X, y)
    text = pickle.dumps(clf)
    np.testing.assert_array_equal(
        pickle.loads(text).decision_function(X[:50]), clf.decision_function(X[:50])
    )
    assert len(text) < 20_000  # the data have 120,000 bytes, their columns 24,000


def test_fit_does_not_change_its_settings_or_its_data():
    X, y = data()
    weight = np.ones(len(y))
    before = X.copy(), y.copy(), weight.copy()
    clf = quick()
    settings = dict(clf.get_params())
    clf.fit(X, y, weight)
    assert clf.get_params() == settings
    for array, old in zip((X, y, weight), before, strict=True):
        np.testing.assert_array_equal(array, old)


# -- labels and names --------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [("no", "yes"), (False, True), (0, 1), (1, 2), (1.0, 2.0), (-1, 1)],
    ids=str,
)
def test_labels_of_any_type(labels):
    X, y = data()
    plain = quick().fit(X, y)
    named = np.array(labels)[(y > 0).astype(int)]
    clf = quick().fit(X, named)
    assert clf.classes_.tolist() == list(labels)
    assert clf.classes_.dtype == named.dtype
    np.testing.assert_array_equal(clf.decision_function(X), plain.decision_function(X))
    predicted = clf.predict(X)
    assert predicted.dtype == named.dtype
    np.testing.assert_array_equal(predicted == labels[1], plain.predict(X) > 0)


def test_labels_of_pandas():
    X, y = data()
    text = pd.Series(np.where(y > 0, "ham", "spam"))
    for labels in (text, text.astype("category"), text.astype("string"), text.tolist()):
        clf = quick(max_rounds=2).fit(X, labels)
        assert list(clf.classes_) == ["ham", "spam"]
        assert set(clf.predict(X)) <= {"ham", "spam"}


def test_the_ensemble_carries_labels_and_names():
    X, y = data(n_features=2)
    frame = pd.DataFrame(X, columns=["width", "height"])
    clf = quick(loss="logistic").fit(frame, np.where(y > 0, "in", "out"))
    ensemble = clf.ensemble_
    assert ensemble.classes == ("in", "out")
    assert ensemble.feature_names == ("width", "height")
    assert ensemble.loss == "logistic"
    assert "width" in str(ensemble) or "height" in str(ensemble)
    np.testing.assert_array_equal(ensemble.predict(X), clf.predict(frame))
    assert quick().fit(X, y).ensemble_.feature_names == ("x0", "x1")


def test_names_of_features_are_remembered_and_checked():
    X, y = data(n_features=3)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    clf = quick(max_rounds=2).fit(frame, y)
    assert clf.feature_names_in_.tolist() == ["a", "b", "c"]
    assert clf.n_features_in_ == 3
    with pytest.raises(ValueError, match=r"(?s)feature names should match.*unseen.*d"):
        clf.predict(frame.rename(columns={"c": "d"}))
    with pytest.raises(ValueError, match=r"(?s)feature names.*missing.*b"):
        clf.predict(frame.drop(columns="b"))
    with pytest.raises(ValueError, match=r"(?s)feature names.*same order"):
        clf.predict(frame[["b", "a", "c"]])


@pytest.mark.parametrize("width", [2, 4])
def test_another_number_of_features_is_refused(width):
    X, y = data(n_features=3)
    clf = quick(max_rounds=2).fit(X, y)
    with pytest.raises(ValueError, match=f"X has {width} features, but .* expecting 3 features"):
        clf.predict(np.zeros((2, width)))


# -- bad input ---------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinities_are_refused(bad):
    X, y = data()
    clf = quick(max_rounds=2).fit(X, y)
    X = X.copy()
    X[3, 1] = bad
    with pytest.raises(ValueError, match=f"column 1 of X must not contain infinity, got {bad}"):
        quick().fit(X, y)
    with pytest.raises(ValueError, match=f"column 1 of X must not contain infinity, got {bad}"):
        clf.predict(X)
    X[3, 1] = np.nan
    assert quick(max_rounds=2).fit(X, y).predict(X).shape == y.shape


def test_nan_among_labels_is_refused():
    X, y = data()
    y = y.astype(float)
    y[0] = np.nan
    with pytest.raises(ValueError, match="Input y contains NaN"):
        quick().fit(X, y)


@pytest.mark.parametrize("label", ["only", 7])
def test_one_class_only_is_named(label):
    X, _ = data()
    with pytest.raises(ValueError, match=f"two classes, got one class only: .*{label}"):
        quick().fit(X, [label] * len(X))


def test_more_than_two_classes_are_told_apart():
    X, _ = data()
    y = np.array(["red", "green", "blue", "white"])[(X[:, 0] > 0) + 2 * (X[:, 1] > 0)]
    clf = quick().fit(X, y)
    assert clf.classes_.tolist() == ["blue", "green", "red", "white"]
    assert clf.predict_proba(X).shape == clf.decision_function(X).shape == (len(X), 4)
    assert clf.score(X, y) > 0.9


def test_continuous_targets_are_refused():
    X, _ = data()
    with pytest.raises(ValueError, match="continuous"):
        quick().fit(X, np.linspace(0.1, 0.9, len(X)))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_empty_data_are_refused(shape):
    with pytest.raises(ValueError, match=r"Found array with 0 (sample|feature)"):
        quick().fit(np.empty(shape), np.ones(shape[0]))


def test_data_of_different_lengths_are_refused():
    X, y = data()
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        quick().fit(X, y[:-1])


def test_constant_features_are_no_error():
    X, y = data(n_features=3)
    clf = quick().fit(np.hstack([np.ones((len(X), 1)), X]), y)
    assert clf.feature_importances_[0] == 0.0
    plain = quick().fit(X, y)
    np.testing.assert_array_equal(
        clf.decision_function(np.hstack([np.ones((len(X), 1)), X])), plain.decision_function(X)
    )


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_only_constant_features_predict_the_larger_class(fit_intercept):
    X, y = np.ones((30, 2)), np.repeat([0, 1], [10, 20])
    clf = quick(fit_intercept=fit_intercept, **PAPER).fit(X, y)
    np.testing.assert_array_equal(clf.predict(X), 1)
    assert clf.n_learners_ == (0 if fit_intercept else 1)
    assert clf.predict_proba(X)[0, 1] == pytest.approx(2 / 3, abs=1e-3)


def test_rows_of_weight_zero_do_not_count():
    X, y = data(200)
    weight = np.random.default_rng(0).random(200) * (np.arange(200) < 150)
    # the rows left out even have a third label's worth of nonsense in them
    strange = X.copy()
    strange[150:] = 1e9
    first = quick().fit(strange, y, weight)
    second = quick().fit(X[:150], y[:150], weight[:150])
    np.testing.assert_array_equal(first.decision_function(X), second.decision_function(X))


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.where(np.arange(200) < 100, 1.0, -1.0), "sample_weight must be finite and >= 0"),
        (np.full(200, np.nan), "sample_weight must be finite"),
        (np.ones(199), "sample_weight"),
        (np.zeros(200), "sample_weight must not be zero for every row"),
    ],
    ids=["negative", "nan", "length", "zero"],
)
def test_bad_sample_weights_are_refused(weight, message):
    X, y = data(200)
    with pytest.raises(ValueError, match=message):
        quick().fit(X, y, weight)


def test_one_class_among_the_rows_that_count_is_refused():
    X, y = data(200)
    with pytest.raises(ValueError, match="two classes among the rows of positive sample_weight"):
        quick().fit(X, y, (y > 0).astype(float))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cardinality_penalty": -1.0}, r"cardinality_penalty must be .*>= 0, got -1\.0"),
        ({"cardinality_penalty": np.nan}, "cardinality_penalty must be .* got nan"),
        ({"cardinality_penalty": "big"}, "cardinality_penalty must be .* got 'big'"),
        ({"l1_penalty": -1e-9}, "l1_penalty must be .* got -1e-09"),
        ({"l1_penalty": np.inf}, "l1_penalty must be .* got inf"),
        ({"tol": -1}, "tol must be .* got -1"),
        ({"max_rounds": 0}, "max_rounds must be an integer >= 1, got 0"),
        ({"max_rounds": 2.5}, r"max_rounds must be an integer >= 1, got 2\.5"),
        ({"max_rounds": None}, "max_rounds must be an integer >= 1, got None"),
        ({"max_learners": 0}, "max_learners must be an integer >= 1, got 0"),
        ({"max_learners": True}, "max_learners must be an integer >= 1, got True"),
        ({"plain_rounds": -1}, "plain_rounds must be an integer >= 0, got -1"),
        ({"patience": 0}, "patience must be an integer >= 1, got 0"),
        ({"exchange": 3}, "exchange must be True or False, got 3"),
        ({"fit_intercept": "yes"}, "fit_intercept must be True or False, got 'yes'"),
        ({"solver": "tabu", "n_bits": 99}, "n_bits must be None or an integer .* got 99"),
        ({"n_bits": "deep"}, "n_bits must be None or an integer from 2 to 12, got 'deep'"),
        ({"n_bits": True}, "n_bits must be None or an integer .* got True"),
        ({"n_bits": 1}, "n_bits must be None or an integer from 2 to 12, got 1"),
        ({"loss": "hinge"}, r"loss must be one of \['exponential', .*'squared'\].* got 'hinge'"),
        ({"solver": "annealing"}, r"solver must be one of \['exact', .* got 'annealing'"),
        ({"dictionary": "trees"}, r"one of \['columns', 'pairs', 'stumps'\].* got 'trees'"),
    ],
    ids=str,
)
def test_bad_settings_are_named(settings, message):
    X, y = data(50)
    with pytest.raises(ValueError, match=message):
        quick(**settings).fit(X, y)


@pytest.mark.parametrize(
    ("name", "thing"),
    [
        ("loss", 3),
        ("loss", losses.Exponential),
        ("solver", None),
        ("solver", LocalSearch),
        ("dictionary", 3.5),
        ("dictionary", Stumps),
    ],
    ids=str,
)
def test_things_that_are_no_part_are_refused(name, thing):
    X, y = data(50)
    with pytest.raises(TypeError, match=f"{name} must be one of"):
        quick(**{name: thing}).fit(X, y)


def test_nothing_can_be_predicted_before_fit():
    X, _ = data(10)
    for method in ("predict", "predict_proba", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(quick(), method)(X)
    with pytest.raises(NotFittedError):
        list(quick().staged_predict(X))
    with pytest.raises((NotFittedError, AttributeError)):
        _ = quick().feature_importances_


BAD_FITS = {
    "one class": lambda X, y: (X, np.ones(len(X))),
    "infinity": lambda X, y: (np.full_like(X, np.inf), y),
    "a label missing": lambda X, y: (X, [None, *y[1:]]),
    "zero weights": lambda X, y: (X, y, np.zeros(len(X))),
    "other features and one class": lambda X, y: (X[:, :2], np.ones(len(X))),
}


@pytest.mark.parametrize("bad", BAD_FITS.values(), ids=BAD_FITS)
def test_a_refused_fit_loses_nothing(bad):
    """A model fitted before still predicts as it did."""
    X, y = data(100)
    text = np.where(y > 0, "in", "out")
    clf = quick(max_rounds=3).fit(X, text)
    before, classes = clf.predict(X), clf.classes_.copy()
    with pytest.raises(ValueError, match=r"."):
        clf.fit(*bad(X, text))
    np.testing.assert_array_equal(clf.classes_, classes)
    assert clf.n_features_in_ == 5
    np.testing.assert_array_equal(clf.predict(X), before)


@pytest.mark.parametrize("loss", losses.names())
def test_separable_data_give_finite_weights(loss):
    X = np.arange(40.0).reshape(-1, 1)
    y = np.where(X[:, 0] > 19, 1, -1)
    clf = quick(loss=loss).fit(X, y)
    weights = np.array(clf.ensemble_.weights)
    assert len(weights) == 1
    assert np.isfinite(weights).all()
    assert clf.score(X, y) == 1.0
    assert np.isfinite(clf.predict_proba(X)).all()


def test_separable_data_without_any_l1_penalty_give_finite_weights():
    X = np.arange(40.0).reshape(-1, 1)
    y = np.where(X[:, 0] > 19, 1, -1)
    clf = quick(l1_penalty=0.0).fit(X, y)
    assert np.isfinite(clf.ensemble_.weights).all()
    assert clf.score(X, y) == 1.0


def test_two_rows_are_enough():
    clf = quick().fit([[0.0], [1.0]], ["a", "b"])
    assert clf.predict([[0.2], [0.9]]).tolist() == ["a", "b"]


# -- predictions -------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [*losses.names(), Squareplus()], ids=str)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_probabilities_sum_to_one_and_agree_with_the_labels(loss, fit_intercept):
    X, y = data(150)
    clf = quick(loss=loss, fit_intercept=fit_intercept).fit(X, np.where(y > 0, "in", "out"))
    proba = clf.predict_proba(X)
    assert proba.shape == (150, 2)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-15)
    assert ((proba >= 0) & (proba <= 1)).all()
    np.testing.assert_array_equal(clf.classes_[proba.argmax(axis=1)], clf.predict(X))
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(clf.predict_log_proba(X), np.log(proba))


def test_probabilities_are_those_of_the_link():
    X, y = data(150)
    exponential, logistic = (quick(loss=loss).fit(X, y) for loss in ("exponential", "logistic"))
    for clf, factor in ((exponential, 2.0), (logistic, 1.0)):
        expected = 1 / (1 + np.exp(-factor * clf.decision_function(X)))
        np.testing.assert_allclose(clf.predict_proba(X)[:, 1], expected, rtol=1e-12)


def test_probabilities_are_near_the_frequencies():
    X, y = make_twonorm(4000, seed=2, n_features=2)
    clf = quick(max_learners=8).fit(X[:2000], y[:2000])
    proba = clf.predict_proba(X[2000:])[:, 1]
    assert proba.mean() == pytest.approx((y[2000:] > 0).mean(), abs=0.03)
    sure = proba > 0.9
    assert sure.sum() > 100
    assert (y[2000:][sure] > 0).mean() > 0.85


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_types_and_orders_of_data_are_accepted(dtype, order):
    X, y = data(150)
    X = np.asarray(X, dtype=dtype, order=order)
    clf = quick().fit(X, y)
    expected = quick().fit(X.astype(float).copy(), y)
    np.testing.assert_array_equal(clf.predict(X), expected.predict(X.astype(float)))


@pytest.mark.parametrize("exchange", [False, True])
def test_staged_predictions_end_with_the_model(exchange):
    X, y = data()
    clf = quick(exchange=exchange, loss="exponential").fit(X, y)
    stages = list(clf.staged_predict(X))
    assert len(stages) == len(clf.trace_) == clf.n_iter_
    assert set(np.unique(stages)) <= set(clf.classes_)
    if exchange:  # a stage per size, of which the price chose one
        assert [record.cardinality for record in clf.trace_] == list(range(1, len(stages) + 1))
        np.testing.assert_array_equal(stages[clf.n_learners_ - 1], clf.predict(X))
    else:  # a stage per round
        np.testing.assert_array_equal(stages[-1], clf.predict(X))
    scores = list(clf.staged_decision_function(X))
    for record, f in zip(clf.trace_, scores, strict=True):
        # an intercept pays next to nothing, which counts as risk
        assert np.exp(-y * f).mean() == pytest.approx(record.risk, abs=1e-7)


# -- what a fit leaves -------------------------------------------------------------------


def test_importances_are_shares_of_the_weights():
    X, y = data()
    clf = quick().fit(X, y)
    importances = clf.feature_importances_
    assert importances.shape == (5,)
    assert importances.sum() == pytest.approx(1.0)
    expected = np.zeros(5)
    for learner, weight in zip(clf.ensemble_.learners, clf.ensemble_.weights, strict=True):
        expected[learner.feature] += weight
    np.testing.assert_allclose(importances, expected / expected.sum())


def test_importances_of_an_empty_ensemble_are_zero():
    X, y = data(100)
    clf = quick(cardinality_penalty=50.0).fit(X, y)
    assert clf.n_learners_ == 0
    np.testing.assert_array_equal(clf.feature_importances_, 0.0)


def test_the_intercept_is_not_counted_as_a_learner():
    X, y = make_twonorm(400, seed=0, n_features=4)
    rare = (y < 0) | (np.arange(400) % 5 == 0)
    X, y = X[rare], y[rare]
    free = quick(max_learners=3).fit(X, y)
    assert free.n_learners_ == len(free.ensemble_.learners) == 3
    assert free.ensemble_.intercept != 0.0
    paper = quick(max_learners=3, fit_intercept=False).fit(X, y)
    assert paper.ensemble_.intercept == 0.0


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_higher_penalty_keeps_fewer_learners(fit_intercept):
    X, y = data(300)
    sizes = [
        quick(cardinality_penalty=c, fit_intercept=fit_intercept, max_rounds=20)
        .fit(X, y)
        .n_learners_
        for c in (0.001, 0.02, 0.1, 2.0)
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1] == 0


def test_the_solution_has_a_bound_and_a_gap():
    X, y = data()
    clf = quick().fit(X, y)
    assert 0 < clf.solution_.bound < clf.solution_.objective
    assert 0 < clf.solution_.gap < 1
    assert clf.status_ in ("converged", "max_rounds", "patience")
    assert clf.solution_.status == clf.status_


def test_sample_weights_count_like_repeated_rows():
    X, y = data(120)
    weight = np.random.default_rng(0).integers(1, 4, size=120)
    weighted = quick().fit(X, y, sample_weight=weight)
    repeated = quick().fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))
    assert weighted.ensemble_.learners == repeated.ensemble_.learners


def test_verbose_prints_a_line_per_round(capsys):
    X, y = data(100)
    clf = quick(verbose=1, exchange=False).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(clf.trace_)
    for number, line in enumerate(lines, start=1):
        assert line.startswith("[TotalQBoost] round")
        assert f"round {number:3d}" in line
        for word in ("edge", "objective", "risk", "learners", "gap"):
            assert word in line
    quick().fit(X, y)
    assert capsys.readouterr().out == ""


def test_verbose_tells_how_far_the_search_is(capsys):
    X, y = data(100)
    quick(verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert lines
    for line in lines:
        assert line.startswith("[TotalQBoost] search up to")
        assert "objective" in line


@pytest.mark.parametrize(("exchange", "kind"), [(False, Round), (True, Searched)])
def test_on_event_is_called_beside_verbose(exchange, kind, capsys):
    X, y = data(100)
    seen = []
    clf = quick(verbose=1, exchange=exchange).fit(X, y, on_event=seen.append)
    assert {type(event) for event in seen} == {kind}
    if not exchange:
        assert tuple(seen) == clf.trace_
    assert len(capsys.readouterr().out.splitlines()) == len(seen)


# -- parts -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"solver": LocalSearch(n_perturbations=1)},
        {"solver": TabuSearch(max_evaluations=100)},
        {"solver": "tabu", "n_bits": 3},
        {"solver": TabuSearch(n_bits="auto")},
        {"loss": losses.Logistic()},
        {"loss": Squareplus()},
        {"dictionary": Stumps(max_bins=4)},
    ],
    ids=str,
)
def test_objects_are_accepted_where_names_are(settings):
    X, y = data(150)
    clf = quick(max_rounds=4, **settings).fit(X, y)
    assert clf.n_learners_ > 0
    assert clf.score(X, y) > 0.6


def test_columns_of_signs_are_a_dictionary():
    rng = np.random.default_rng(0)
    X = rng.choice([-1.0, 1.0], size=(100, 6))
    y = np.where(X[:, 0] + X[:, 2] + X[:, 5] > 0, "up", "down")
    clf = quick(dictionary="columns").fit(X, y)
    assert clf.score(X, y) == 1.0
    assert {h.feature for h in clf.ensemble_.learners} == {0, 2, 5}
    with pytest.raises(ValueError, match=r"only -1 and \+1"):
        quick(dictionary="columns").fit(X * 2, y)


def test_fitted_classifiers_are_a_dictionary():
    X, y = data(200)
    trees = [
        DecisionTreeClassifier(max_depth=3, max_features=1, random_state=s).fit(X, y)
        for s in range(5)
    ]
    clf = quick(dictionary=FittedClassifiers(trees)).fit(X, y)
    assert clf.n_learners_ > 0
    assert clf.score(X, y) >= max(tree.score(X, y) for tree in trees) - 0.05
    np.testing.assert_array_equal(clf.feature_importances_, 0.0)
    assert clone(clf).fit(X, y).n_learners_ == clf.n_learners_


def test_a_small_budget_of_learners_is_kept():
    X, y = data(300)
    for limit in (1, 3):
        assert quick(max_learners=limit, cardinality_penalty=0.0).fit(X, y).n_learners_ == limit


@pytest.mark.parametrize("state", [None, 0, 7, np.int64(3), np.random.RandomState(5)], ids=str)
def test_every_form_of_random_state_is_accepted(state):
    X, y = data(100)
    assert quick(random_state=state).fit(X, y).n_learners_ > 0


def test_the_same_state_gives_the_same_model():
    X, y = data(150)
    for make in (lambda: None, lambda: 3, lambda: np.random.RandomState(3)):
        first, second = (quick(random_state=make()).fit(X, y) for _ in range(2))
        np.testing.assert_array_equal(first.decision_function(X), second.decision_function(X))
        assert first.ensemble_ == second.ensemble_


def test_bad_random_states_are_refused():
    X, y = data(50)
    for state in (-1, "seed", object()):
        with pytest.raises((ValueError, TypeError)):
            quick(random_state=state).fit(X, y)


def test_the_number_of_jobs_does_not_change_the_model(monkeypatch):
    from totalqboost.dictionaries import stumps

    monkeypatch.setattr(stumps, "PARALLEL_FROM", 0)
    X, y = data(150)
    first, second = (quick(n_jobs=n).fit(X, y) for n in (None, 2))
    assert first.ensemble_ == second.ensemble_


# -- the search --------------------------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("penalty", [0.01, 0.0])
def test_the_search_is_never_worse_than_the_rounds(penalty, fit_intercept):
    X, y = data(150)
    settings = {"cardinality_penalty": penalty, "max_learners": 4, "fit_intercept": fit_intercept}
    paper = quick(exchange=False, **settings).fit(X, y)
    search = quick(**settings).fit(X, y)
    assert search.solution_.objective <= paper.solution_.objective + 1e-9
    assert search.status_ is search.solution_.status is Status.CONVERGED
    assert search.n_learners_ <= 4


def test_a_price_chooses_among_the_sizes_of_the_search():
    X, y = data(150)
    clf = TotalQBoostClassifier(0.01, **PAPER).fit(X, y)
    for record in clf.trace_:
        assert clf.solution_.objective <= record.objective + 1e-9
        z = y * record.ensemble.decision_function(X)
        l1 = 1e-6 * sum(record.ensemble.weights) + FREE_NU * abs(record.ensemble.intercept)
        value = np.exp(-z).mean() + l1 + 0.01 * record.cardinality
        assert record.objective == pytest.approx(value, abs=1e-7)


def test_a_solver_other_than_local_has_the_last_word():
    X, y = load("heart")
    X, y = X[:, :4], y
    settings = {"max_learners": 2, "cardinality_penalty": 0.01, "max_rounds": 6, **PAPER}
    local = TotalQBoostClassifier(**settings).fit(X, y)
    exact = TotalQBoostClassifier(**settings, solver="exact").fit(X, y)
    assert exact.solution_.status is Status.OPTIMAL
    assert exact.solution_.objective <= local.solution_.objective + 1e-9
    assert exact.solution_.bound > local.solution_.bound


@pytest.mark.parametrize("penalty", [0.01, 1e300])
def test_an_enormous_price_raises_no_warning(penalty):
    X, y = data(100)
    for exchange in (False, True):
        for solver in ("local", "tabu"):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                clf = quick(cardinality_penalty=penalty, exchange=exchange, solver=solver)
                clf.set_params(max_rounds=2).fit(X, y)
            assert (clf.n_learners_ == 0) == (penalty > 1)


def test_a_free_intercept_pays_no_nu():
    X, y = data(60)
    y = np.where(np.arange(60) < 45, 1, -1)
    for exchange in (False, True):
        clf = quick(l1_penalty=0.6, exchange=exchange).fit(X, y)
        assert clf.n_learners_ == 0
        assert clf.ensemble_.intercept == pytest.approx(np.log(3), abs=1e-4)
        np.testing.assert_allclose(clf.predict_proba(X)[:, 1], 0.75, atol=1e-4)


# -- weights and names -------------------------------------------------------------------


def test_weights_whose_sum_overflows_count_like_others():
    X, y = data(100)
    proportions = np.random.default_rng(0).integers(1, 4, size=100) + 0.5  # not counts
    expected = quick().fit(X, y, sample_weight=proportions)
    for scale in (1e300, 4e307):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            clf = quick().fit(X, y, sample_weight=scale * proportions)
        assert clf.ensemble_.learners == expected.ensemble_.learners
        np.testing.assert_allclose(clf.ensemble_.weights, expected.ensemble_.weights, rtol=1e-4)


@pytest.mark.parametrize("names", [[0, 1, 2], ["a", "a", "b"], [0, 0, 0]], ids=str)
def test_frames_with_integer_or_repeated_names_are_taken_by_position(names):
    X, y = data(100, n_features=3)
    frame = pd.DataFrame(X, columns=names)
    clf = quick().fit(frame, y)
    expected = quick().fit(X, y)
    assert clf.ensemble_.learners == expected.ensemble_.learners
    assert clf.ensemble_.feature_names == tuple(map(str, names))
    np.testing.assert_array_equal(clf.predict(frame), expected.predict(X))


# -- interruption ------------------------------------------------------------------------


class InterruptsAt:
    """A callback that presses Ctrl-C at its n-th call."""

    def __init__(self, n):
        self.n = n

    def __call__(self, event):
        self.n -= 1
        if self.n == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("penalty", [0.0, 0.01])
def test_an_interrupted_fit_leaves_a_fitted_estimator(penalty):
    X, y = data()
    clf = quick(cardinality_penalty=penalty, exchange=False)
    with pytest.raises(KeyboardInterrupt, match="interrupted; the best so far is kept") as caught:
        clf.fit(X, np.where(y > 0, "in", "out"), on_event=InterruptsAt(3))
    assert isinstance(caught.value, Interrupted)
    assert str(caught.value.result.ensemble.learners) == str(clf.ensemble_.learners)
    assert caught.value.result.ensemble.weights == clf.ensemble_.weights
    assert clf.status_ is Status.INTERRUPTED
    assert clf.n_iter_ == len(clf.trace_) == 3
    assert 1 <= clf.n_learners_ <= 3
    assert clf.score(X, np.where(y > 0, "in", "out")) > 0.6
    assert len(list(clf.staged_predict(X))) == 3
    assert pickle.loads(pickle.dumps(clf)).n_learners_ == clf.n_learners_


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("moment", [1, 2, 7, 20, 45])
def test_an_interrupted_search_leaves_a_fitted_estimator(moment, fit_intercept):
    X, y = data()
    clf = quick(cardinality_penalty=0.002, fit_intercept=fit_intercept)
    with pytest.raises(Interrupted):
        clf.fit(X, y, on_event=InterruptsAt(moment))
    assert clf.status_ is Status.INTERRUPTED
    assert clf.n_learners_ == clf.ensemble_.n_learners <= 8
    if moment > 2:
        assert clf.score(X, y) > 0.6
    assert clf.solution_.objective >= clf.solution_.bound
    assert pickle.loads(pickle.dumps(clf)).ensemble_ == clf.ensemble_
    clf.fit(X, y)
    assert clf.status_ is Status.CONVERGED


def test_fit_warns_of_nothing():
    X, y = data(150)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for loss in losses.names():
            quick(loss=loss).fit(X, y).predict_proba(X)


@pytest.mark.parametrize("loss", losses.names())
@pytest.mark.parametrize("settings", [{"cardinality_penalty": 0.02}, {"max_learners": 3}])
def test_certify_tightens_the_bound_and_changes_nothing_else(loss, settings):
    X, y = load("heart")
    settings = {"loss": loss, "max_rounds": 12, "exchange": False, **settings}
    plain = TotalQBoostClassifier(**settings).fit(X, y)
    sure = TotalQBoostClassifier(certify=True, **settings).fit(X, y)
    assert sure.solution_.objective == plain.solution_.objective
    assert plain.solution_.bound <= sure.solution_.bound <= sure.solution_.objective
    if loss == "exponential" and "cardinality_penalty" in settings:
        assert sure.solution_.gap < 0.5 * plain.solution_.gap


def test_the_exact_solver_proves_its_answer_over_the_generated_columns():
    X, y = load("heart")
    clf = TotalQBoostClassifier(0.03, solver="exact", max_rounds=10).fit(X, y)
    assert clf.solution_.gap < 1e-6


# -- separable data ----------------------------------------------------------------------


def test_separated_classes_without_a_price_of_weight_are_warned_about():
    X = np.arange(40.0)[:, None]
    y = X[:, 0] > 19
    with pytest.warns(ConvergenceWarning, match="l1_penalty=1e-06 hardly limits its weights"):
        quick(l1_penalty=1e-6).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf = quick().fit(X, y)
    assert max(clf.ensemble_.weights) < 5
    assert clf.score(X, y) == 1.0
