"""The frontier of error against size."""

from __future__ import annotations

import numpy as np
import pytest

from totalqboost import Frontier, frontier, losses
from totalqboost.datasets import load, make_ringnorm, make_twonorm
from totalqboost.dictionaries import Columns, Stumps
from totalqboost.master import MasterProblem
from totalqboost.path import FrontierPoint
from totalqboost.refit import refit
from totalqboost.solvers import LocalSearch

SETTINGS = {"max_learners": 5, "n_exchanges": 2, "solver": LocalSearch(n_warm_perturbations=1)}


@pytest.fixture(scope="module")
def split():
    X, y = make_ringnorm(360, seed=0, n_features=6)
    return X[:240], y[:240], X[240:], y[240:]


@pytest.fixture(scope="module")
def front(split):
    return frontier(*split, **SETTINGS)


# -- sizes, risks, errors ----------------------------------------------------------------


def test_there_is_one_ensemble_of_every_size(front):
    assert len(front) == 6
    assert [point.n_learners for point in front] == list(range(6))
    assert [point.ensemble.n_learners for point in front] == list(range(6))


def test_more_learners_never_have_a_higher_risk(front):
    risks = [point.risk for point in front]
    assert np.diff(risks).max() <= 1e-6
    assert risks[-1] < 0.8 * risks[0]


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_risks_are_those_of_the_ensembles(split, loss, fit_intercept):
    X, y, *_ = split
    front = frontier(X, y, loss=loss, fit_intercept=fit_intercept, **SETTINGS)
    assert [point.n_learners for point in front] == list(range(6))
    for point in front:
        z = y * point.ensemble.decision_function(X)
        assert point.risk == pytest.approx(losses.get(loss).value(z).mean(), rel=1e-9)
        assert point.ensemble.loss == loss
        if not fit_intercept:
            assert point.ensemble.intercept == 0.0
    assert np.diff([point.risk for point in front]).max() <= 1e-6


def test_errors_are_shares_of_wrong_rows(front, split):
    X, y, X_valid, y_valid = split
    for point in front:
        assert point.train_error == np.mean(point.ensemble.predict(X) != y)
        assert point.valid_error == np.mean(point.ensemble.predict(X_valid) != y_valid)
    assert front.points[-1].train_error < front.points[0].train_error


def test_a_penalty_is_what_the_last_learner_brought(front):
    for before, after in zip(front.points, front.points[1:], strict=False):
        assert after.penalty == pytest.approx(before.risk - after.risk, abs=1e-9)
        assert after.penalty > 0


def test_every_size_is_at_least_as_good_as_the_best_single_stump(split):
    X, y, *_ = split
    front = frontier(X, y, max_learners=1, dictionary=Stumps(max_bins=8), n_exchanges=1)
    oracle = Stumps(max_bins=8).prepare(X, y)
    columns = [c.column for c in oracle.best(np.full(len(y), 1 / len(y)), n=1000)]
    risks = []
    for column in columns:
        problem = MasterProblem(np.array([y, -y, column]))
        risks.append(problem.risk(refit(problem, np.arange(3), tol=1e-8)))
    assert front.points[1].risk == pytest.approx(min(risks), abs=1e-6)


def test_the_frontier_is_no_worse_than_plain_column_generation(front, split):
    from totalqboost.boosting import boost

    X, y, *_ = split
    plain = boost(
        X, y, Stumps(), LocalSearch(), losses.get("exponential"), max_rounds=5, free_intercept=True
    )
    for point, record in zip(front.points[1:], plain.trace, strict=True):
        assert point.risk <= record.risk + 1e-3


def test_the_frontier_ends_where_the_dictionary_does():
    X = np.array([[0.0], [0.0], [1.0], [1.0], [1.0]])
    y = np.array([0, 0, 1, 1, 0])
    front = frontier(X, y, max_learners=9)
    assert [point.n_learners for point in front] == [0, 1]


def test_without_validation_rows_there_is_no_validation_error(split):
    X, y, *_ = split
    front = frontier(X, y, **{**SETTINGS, "max_learners": 2})
    assert all(np.isnan(point.valid_error) for point in front)


def test_on_size_sees_every_point(split):
    seen = []
    X, y, *_ = split
    front = frontier(X, y, **{**SETTINGS, "max_learners": 3}, on_size=seen.append)
    assert tuple(seen) == front.points


def test_the_same_seed_gives_the_same_frontier(split):
    X, y, *_ = split
    first, second = (frontier(X, y, **SETTINGS, random_state=3) for _ in range(2))
    assert [p.ensemble for p in first] == [p.ensemble for p in second]


def test_columns_of_signs_are_a_dictionary():
    rng = np.random.default_rng(0)
    X = rng.choice([-1.0, 1.0], size=(80, 5))
    y = np.where(X[:, 1] + X[:, 2] + X[:, 4] > 0, 1, -1)
    front = frontier(X, y, dictionary=Columns(), max_learners=3)
    assert front.points[3].train_error == 0.0
    assert {h.feature for h in front.points[3].ensemble.learners} == {1, 2, 4}


@pytest.mark.parametrize("solver", ["local", "tabu"])
def test_no_size_is_missed_or_met_twice_with_any_solver(solver):
    X, y = load("flare solar")
    front = frontier(X, y, max_learners=8, n_exchanges=1, solver=solver)
    assert [point.n_learners for point in front] == list(range(9))


# -- labels and errors -------------------------------------------------------------------


@pytest.mark.parametrize("labels", [("no", "yes"), (False, True), (3, 8), (0.5, 1.5)], ids=str)
def test_labels_of_any_type(front, split, labels):
    X, y, X_valid, y_valid = split
    named, named_valid = (np.array(labels)[(v > 0).astype(int)] for v in (y, y_valid))
    other = frontier(X, named, X_valid, named_valid, **SETTINGS)
    assert [p.risk for p in other] == [p.risk for p in front]
    assert [p.valid_error for p in other] == [p.valid_error for p in front]
    assert other.points[-1].ensemble.classes == labels


BAD_INPUT = {
    "one class": ({"y": np.ones(50)}, "two classes, got 1"),
    "three classes": ({"y": np.arange(50) % 3}, "two classes, got 3"),
    "no learners": ({"max_learners": 0}, "max_learners must be >= 1, got 0"),
    "unknown loss": ({"loss": "hinge"}, "loss must be one of"),
    "unknown solver": ({"solver": "annealing"}, "solver must be one of"),
    "unknown dictionary": ({"dictionary": "trees"}, "dictionary must be one of"),
    "negative penalty": ({"l1_penalty": -1.0}, r"must be .*>= 0, got -1\.0"),
    "NaN": ({"X": np.full((50, 2), np.nan)}, "NaN"),
    "infinity": ({"X": np.full((50, 2), np.inf)}, "infinity|finite"),
    "too few rows": ({"X": np.zeros((49, 2))}, "inconsistent|rows|length|shape"),
    "one dimension": ({"X": np.zeros(50)}, "2D|two dimensions|shape"),
    "no y_valid": ({"X_valid": np.zeros((5, 2))}, "y_valid"),
    "other features": ({"X_valid": np.zeros((5, 3)), "y_valid": np.ones(5)}, "columns|features"),
    "NaN in X_valid": ({"X_valid": np.full((5, 2), np.nan), "y_valid": np.ones(5)}, "NaN"),
}


@pytest.mark.parametrize(("change", "message"), BAD_INPUT.values(), ids=BAD_INPUT)
def test_bad_input_is_named(change, message):
    X, y = make_twonorm(50, seed=0, n_features=2)
    with pytest.raises(ValueError, match=message):
        frontier(**{"X": X, "y": y, "max_learners": 1, "n_exchanges": 0, **change})


# -- choosing ----------------------------------------------------------------------------


def made_up(valid_errors, train_errors=None, n_rows=100):
    train_errors = valid_errors if train_errors is None else train_errors
    points = [
        FrontierPoint(size, 1.0 - 0.1 * size, train, valid, 0.1, None)
        for size, (train, valid) in enumerate(zip(train_errors, valid_errors, strict=True))
    ]
    return Frontier(tuple(points), n_rows)


def test_the_best_has_the_least_validation_error():
    front = made_up([0.5, 0.3, 0.1, 0.2], train_errors=[0.5, 0.4, 0.3, 0.0])
    assert front.best().n_learners == 2
    assert front.best(max_learners=1).n_learners == 1
    assert front.best(max_learners=0).n_learners == 0


def test_without_validation_the_training_error_decides():
    front = made_up([np.nan] * 4, train_errors=[0.5, 0.2, 0.1, 0.3])
    assert front.best().n_learners == 2


def test_ties_go_to_the_smaller_ensemble():
    assert made_up([0.5, 0.2, 0.2, 0.2]).best().n_learners == 1


def test_one_standard_error_takes_the_smallest_that_is_nearly_as_good():
    front = made_up([0.5, 0.13, 0.12, 0.1], n_rows=100)  # sqrt(0.1 * 0.9 / 100) = 0.03
    assert front.best().n_learners == 3
    assert front.best(rule="1se").n_learners == 1
    assert made_up([0.5, 0.13, 0.12, 0.1], n_rows=10_000).best(rule="1se").n_learners == 3


def test_bad_choices_are_refused(front):
    with pytest.raises(ValueError, match="max_learners must be >= 0, got -1"):
        front.best(max_learners=-1)
    with pytest.raises(ValueError, match="rule must be 'min' or '1se', got 'max'"):
        front.best(rule="max")


# -- tables and pictures -----------------------------------------------------------------


def test_the_numbers_are_a_frame(front):
    frame = front.to_frame()
    assert {"n_learners", "risk", "train_error", "valid_error", "penalty"} <= set(frame.columns)
    assert frame["n_learners"].tolist() == list(range(6))
    np.testing.assert_array_equal(frame["risk"], [p.risk for p in front])
    np.testing.assert_array_equal(frame["valid_error"], [p.valid_error for p in front])


@pytest.mark.parametrize("with_valid", [False, True])
def test_the_picture_is_written(tmp_path, split, with_valid):
    X, y, X_valid, y_valid = split
    rows = (X_valid, y_valid) if with_valid else (None, None)
    small = frontier(X, y, *rows, **{**SETTINGS, "max_learners": 2})
    path = tmp_path / "frontier.png"
    axes = small.plot(path)
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    labels = axes.get_legend_handles_labels()[1]
    assert "training" in labels
    assert ("validation" in labels) == with_valid
    assert any("chosen" in label for label in labels)


def test_the_picture_goes_into_given_axes(front):
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    assert front.plot(ax=axes) is axes
    curve = axes.get_lines()[0]
    assert curve.get_xdata().tolist() == list(range(6))
    np.testing.assert_allclose(curve.get_ydata(), [100 * p.train_error for p in front])
