"""The frontier of error against size."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from boosting_runs import problem_of, run

from totalqboost import Frontier, Interrupted, SolverError, frontier, losses
from totalqboost.boosting import Searched
from totalqboost.datasets import load, make_ringnorm, make_twonorm
from totalqboost.dictionaries import Columns, FittedClassifiers, Stumps
from totalqboost.frontier import FrontierPoint
from totalqboost.master import MasterProblem
from totalqboost.refit import refit
from totalqboost.solvers import LocalSearch
from totalqboost.solving import MasterSolver

PAPER = {"loss": "exponential", "l1_penalty": 1e-6}
SETTINGS = {"max_learners": 5, **PAPER}


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
    front = frontier(X, y, **{**SETTINGS, "loss": loss}, fit_intercept=fit_intercept)
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
        is_wrong = point.ensemble.predict(X) != y
        assert point.train_error == pytest.approx(np.mean(is_wrong), abs=1e-12)
        is_wrong = point.ensemble.predict(X_valid) != y_valid
        assert point.valid_error == pytest.approx(np.mean(is_wrong), abs=1e-12)
    assert front.points[-1].train_error < front.points[0].train_error


def test_equal_numbers_of_wrong_rows_are_equal_errors():
    """Or rounding would decide between two sizes."""
    X, y = load("flare solar")
    front = frontier(X[:100], y[:100], X[100:], y[100:], max_learners=12)
    counts = {np.sum(p.ensemble.predict(X[100:]) != y[100:]): set() for p in front}
    for p in front:
        counts[np.sum(p.ensemble.predict(X[100:]) != y[100:])].add(p.valid_error)
    assert len(counts) < len(front)
    assert {len(errors) for errors in counts.values()} == {1}


def test_a_penalty_is_what_the_last_learner_brought(front):
    for before, after in zip(front.points, front.points[1:], strict=False):
        assert after.penalty == pytest.approx(before.objective - after.objective, abs=1e-12)
        assert after.penalty > 0


def test_every_size_is_at_least_as_good_as_the_best_single_stump(split):
    X, y, *_ = split
    front = frontier(X, y, **PAPER, max_learners=1, dictionary=Stumps(max_bins=8))
    oracle = Stumps(max_bins=8).prepare(X, y)
    columns = [c.column for c in oracle.best(np.full(len(y), 1 / len(y)), n=1000)]
    risks = []
    for column in columns:
        problem = MasterProblem(np.array([y, -y, column]))
        risks.append(problem.risk(refit(problem, np.arange(3), tol=1e-8)))
    assert front.points[1].risk == pytest.approx(min(risks), abs=1e-6)


def test_the_frontier_is_no_worse_than_plain_column_generation(front, split):
    X, y, *_ = split
    for point in front.points[1:]:
        settings = {"dictionary": Stumps(), "free_intercept": True}
        plain = run(X, y, max_rounds=point.n_learners, **settings)
        assert point.objective <= plain.solution.objective + 1e-9


def test_the_frontier_ends_where_the_dictionary_does():
    X = np.array([[0.0], [0.0], [1.0], [1.0], [1.0]])
    y = np.array([0, 0, 1, 1, 0])
    front = frontier(X, y, max_learners=9, **PAPER)
    assert [point.n_learners for point in front] == [0, 1]


def test_without_validation_rows_there_is_no_validation_error(split):
    X, y, *_ = split
    front = frontier(X, y, **{**SETTINGS, "max_learners": 2})
    assert all(np.isnan(point.valid_error) for point in front)


def test_on_event_hears_of_every_size(split):
    seen = []
    X, y, *_ = split
    front = frontier(X, y, **SETTINGS, on_event=seen.append)
    assert {type(event) for event in seen} == {Searched}
    for point in front.points[1:]:
        values = [event.objective for event in seen if event.n_learners == point.n_learners]
        assert min(values) == pytest.approx(point.objective, rel=1e-5)


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
    front = frontier(X, y, max_learners=8, solver=solver, **PAPER)
    assert [point.n_learners for point in front] == list(range(9))


# -- objectives and bounds ---------------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("loss", losses.names())
def test_points_carry_their_objective_and_a_bound_below_it(split, loss, fit_intercept):
    X, y, *_ = split
    nu = 4 / len(y)
    settings = {**SETTINGS, "loss": loss, "l1_penalty": nu}
    front = frontier(X, y, **settings, fit_intercept=fit_intercept)
    objectives = [point.objective for point in front]
    assert objectives == sorted(set(objectives), reverse=True)
    for point in front:
        problem, w = problem_of(X, y, point.ensemble, nu=nu, loss=loss)
        assert point.objective == pytest.approx(problem.objective(w), abs=1e-8)
        assert point.risk == pytest.approx(problem.risk(w), abs=1e-10)
        assert np.isfinite(point.bound)
        assert point.bound <= point.objective
        # no weights of the same columns are better, for that is what a bound of H says
        assert point.bound <= problem.objective(refit(problem, np.arange(len(w)), tol=1e-9)) + 1e-9


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_exact_solver_closes_the_gap_of_every_size(fit_intercept):
    X, y = make_ringnorm(60, seed=3, n_features=2)
    settings = {"max_learners": 3, "dictionary": Stumps(max_bins=4), "l1_penalty": 0.01}
    front = frontier(X, y, **settings, fit_intercept=fit_intercept, solver="exact")
    default = frontier(X, y, **settings, fit_intercept=fit_intercept)
    assert len(front) == len(default) >= 3
    for point, other in zip(front.points[1:], default.points[1:], strict=True):
        assert point.objective - point.bound <= 1e-4 * point.objective
        assert point.bound <= other.objective
        assert point.objective <= other.objective + 1e-9


# -- sample weights ----------------------------------------------------------------------


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_sample_weights_count_like_repeated_rows(fit_intercept):
    X, y = make_ringnorm(100, seed=1, n_features=3)
    X = np.round(X)  # few cuts: all are looked at, whatever the number of rows
    weight = np.random.default_rng(1).integers(0, 4, size=100)
    settings = {**SETTINGS, "fit_intercept": fit_intercept, "l1_penalty": 0.01}
    weighted = frontier(X, y, sample_weight=weight, **settings)
    repeated = frontier(np.repeat(X, weight, axis=0), np.repeat(y, weight), **settings)
    for one, other in zip(weighted, repeated, strict=True):
        assert one.n_learners == other.n_learners
        assert one.objective == pytest.approx(other.objective, rel=1e-6)
        assert one.train_error == pytest.approx(other.train_error, abs=1e-9)


def test_equal_sample_weights_change_nothing(front, split):
    y = split[1]
    for scale in (2.5, 1e307):  # the sum of the latter is infinite
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            other = frontier(*split, sample_weight=np.full(len(y), scale), **SETTINGS)
        for one, same in zip(front, other, strict=True):
            assert one.objective == pytest.approx(same.objective, rel=1e-9)
            assert one.train_error == pytest.approx(same.train_error, abs=1e-12)
            assert one.valid_error == same.valid_error


def test_bad_sample_weights_are_named(split):
    X, y, *_ = split
    for weight, message in ((np.zeros(len(y)), "zero"), (-np.ones(len(y)), ">= 0")):
        with pytest.raises(ValueError, match=message):
            frontier(X, y, sample_weight=weight, **SETTINGS)


# -- interruption ------------------------------------------------------------------------


class InterruptsAt:
    """A callback that presses Ctrl-C at its n-th call."""

    def __init__(self, n):
        self.n = n

    def __call__(self, event):
        self.n -= 1
        if self.n == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("moment", [1, 2, 3, 5, 9, 14, 25, 40])
def test_ctrl_c_keeps_the_points_found_so_far(split, moment, fit_intercept):
    X, y, X_valid, y_valid = split
    with pytest.raises(Interrupted) as caught:
        frontier(
            *split, **SETTINGS, fit_intercept=fit_intercept, on_event=InterruptsAt(moment)
        )  # fmt: skip
    front = caught.value.result
    assert isinstance(front, Frontier)
    assert len(front) >= (1 if moment == 1 else min(moment, 6) // 2)
    sizes = [point.n_learners for point in front]
    assert sizes == sorted(set(sizes))
    assert sizes[-1] <= 5
    for point in front:
        z = y * point.ensemble.decision_function(X)
        assert point.risk == pytest.approx(np.exp(-z).mean(), rel=1e-9)
        assert point.bound <= point.objective
        is_wrong = point.ensemble.predict(X_valid) != y_valid
        assert point.valid_error == pytest.approx(np.mean(is_wrong), abs=1e-12)
    assert front.best().n_learners in sizes


def test_ctrl_c_before_the_search_passes():
    with pytest.raises(KeyboardInterrupt):
        frontier(*make_twonorm(50, seed=0), dictionary=InterruptedDictionary())


class InterruptedDictionary:
    def prepare(self, X, y, n_jobs=None, features=None, weight=None):
        raise KeyboardInterrupt


class FailsAt(MasterSolver):
    """A solver whose n-th call ends with an error or an interruption."""

    def __init__(self, n, error):
        self.n, self.error = n, error

    def solve(self, problem, start=None, rng=None):
        self.n -= 1
        if self.n == 0:
            raise self.error
        return LocalSearch().solve(problem, start, rng)


@pytest.mark.parametrize("error", [SolverError("no connection"), KeyboardInterrupt()])
@pytest.mark.parametrize("call", [1, 2, 4])
def test_a_solver_that_fails_leaves_the_sizes_done(split, call, error):
    X, y, *_ = split
    with pytest.raises((SolverError, KeyboardInterrupt)) as caught:
        frontier(X, y, **SETTINGS, solver=FailsAt(call, error))
    front = caught.value.result
    assert isinstance(front, Frontier)
    assert 1 <= len(front) <= 6
    assert front.points[0].n_learners == 0


# -- other dictionaries ------------------------------------------------------------------


def test_weights_of_given_classifiers_stay_positive():
    """-h is not in such a dictionary, so that no weight may change its sign."""
    from sklearn.tree import DecisionTreeClassifier

    X, y = make_ringnorm(150, seed=2, n_features=4)
    rng = np.random.default_rng(0)
    trees = []
    for _ in range(20):
        rows, columns = rng.integers(0, 150, 60), rng.permutation(4)[:2]
        Z = np.zeros_like(X)
        Z[:, columns] = X[:, columns]
        trees.append(DecisionTreeClassifier(max_depth=2, random_state=0).fit(Z[rows], y[rows]))
    for fit_intercept in (False, True):
        front = frontier(
            X, y, dictionary=FittedClassifiers(trees), fit_intercept=fit_intercept, **SETTINGS
        )
        assert len(front) == 6
        for point in front:
            assert all(weight > 0 for weight in point.ensemble.weights)
            z = y * point.ensemble.decision_function(X)
            assert point.risk == pytest.approx(np.exp(-z).mean(), rel=1e-9)


# -- labels, names and errors ------------------------------------------------------------


@pytest.mark.parametrize("names", [[0, 1, 2], [7, "a", 1.5], ["a", "a", "b"], [0, 0, 0]], ids=str)
def test_frames_with_integer_or_repeated_names_are_taken_by_position(names):
    X, y = make_ringnorm(80, seed=0, n_features=3)
    frame = pd.DataFrame(X, columns=names)
    front = frontier(frame, y, frame, y, max_learners=3)
    plain = frontier(X, y, X, y, max_learners=3)
    assert [p.objective for p in front] == [p.objective for p in plain]
    assert [p.valid_error for p in front] == [p.valid_error for p in plain]
    assert front.points[-1].ensemble.feature_names == tuple(map(str, names))


def test_columns_of_named_frames_are_found_by_name():
    X, y = make_ringnorm(80, seed=0, n_features=3)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    front = frontier(frame, y, frame[["c", "a", "b"]], y, max_learners=3)
    assert [p.valid_error for p in front] == [p.train_error for p in front]


@pytest.mark.parametrize("labels", [("no", "yes"), (False, True), (3, 8)], ids=str)
def test_labels_of_any_type(front, split, labels):
    X, y, X_valid, y_valid = split
    named, named_valid = (np.array(labels)[(v > 0).astype(int)] for v in (y, y_valid))
    other = frontier(X, named, X_valid, named_valid, **SETTINGS)
    assert [p.risk for p in other] == [p.risk for p in front]
    assert [p.valid_error for p in other] == [p.valid_error for p in front]
    assert other.points[-1].ensemble.classes == labels


BAD_INPUT = {
    "one class": ({"y": np.ones(50)}, "y must have at least two classes, got one"),
    "a label missing": ({"y": [None] + [0, 1] * 24 + [1]}, "y must have a label in every row"),
    "fractions": ({"y": np.arange(50) % 2 + 0.5}, "continuous"),
    "no learners": ({"max_learners": 0}, "max_learners must be an integer >= 1, got 0"),
    "unknown loss": ({"loss": "hinge"}, "loss must be one of"),
    "unknown solver": ({"solver": "annealing"}, "solver must be one of"),
    "unknown dictionary": ({"dictionary": "trees"}, "dictionary must be one of"),
    "negative penalty": ({"l1_penalty": -1.0}, r"must be .*>= 0, got -1\.0"),
    "infinity": ({"X": np.full((50, 2), np.inf)}, "column 0 of X must not contain infinity"),
    "too few rows": ({"X": np.zeros((49, 2))}, "inconsistent|rows|length|shape"),
    "one dimension": ({"X": np.zeros(50)}, "2D|two dimensions|shape"),
    "no y_valid": ({"X_valid": np.zeros((5, 2))}, "y_valid"),
    "other features": ({"X_valid": np.zeros((5, 3)), "y_valid": np.ones(5)}, "columns|features"),
    "infinity in X_valid": (
        {"X_valid": np.full((5, 2), np.inf), "y_valid": np.ones(5)},
        "column 0 of X_valid must not contain infinity",
    ),
}


@pytest.mark.parametrize(("change", "message"), BAD_INPUT.values(), ids=BAD_INPUT)
def test_bad_input_is_named(change, message):
    X, y = make_twonorm(50, seed=0, n_features=2)
    with pytest.raises(ValueError, match=message):
        frontier(**{"X": X, "y": y, "max_learners": 1, **change})


# -- choosing ----------------------------------------------------------------------------


def made_up(valid_errors, train_errors=None, n_rows=100):
    train_errors = valid_errors if train_errors is None else train_errors
    points = [
        FrontierPoint(size, 1.0 - 0.1 * size, 1.0 - 0.1 * size, 0.0, train, valid, 0.1, None)
        for size, (train, valid) in enumerate(zip(train_errors, valid_errors, strict=True))
    ]
    return Frontier(tuple(points), n_rows)


def test_the_best_has_the_least_validation_error():
    front = made_up([0.5, 0.3, 0.1, 0.2], train_errors=[0.5, 0.4, 0.3, 0.0])
    assert front.best("min").n_learners == 2
    assert front.best("min", max_learners=1).n_learners == 1
    assert front.best("min", max_learners=0).n_learners == 0


def test_without_validation_the_training_error_decides():
    front = made_up([np.nan] * 4, train_errors=[0.5, 0.2, 0.1, 0.3])
    assert front.best("min").n_learners == 2


def test_ties_go_to_the_smaller_ensemble():
    assert made_up([0.5, 0.2, 0.2, 0.2]).best("min").n_learners == 1


def test_one_standard_error_takes_the_smallest_that_is_nearly_as_good():
    front = made_up([0.5, 0.13, 0.12, 0.1], n_rows=100)  # sqrt(0.1 * 0.9 / 100) = 0.03
    assert front.best("min").n_learners == 3
    assert front.best(rule="1se").n_learners == 1
    assert made_up([0.5, 0.13, 0.12, 0.1], n_rows=10_000).best(rule="1se").n_learners == 3


def test_bad_choices_are_refused(front):
    with pytest.raises(ValueError, match="max_learners must be an integer >= 0, got -1"):
        front.best(max_learners=-1)
    with pytest.raises(ValueError, match=r"rule must be one of .* or a callable, got 'max'"):
        front.best(rule="max")


# -- tables and pictures -----------------------------------------------------------------


def test_the_numbers_are_a_frame(front):
    frame = front.to_frame()
    names = ["n_learners", "risk", "objective", "bound", "train_error", "valid_error", "penalty"]
    names += ["valid_error_se", "valid_log_loss", "valid_log_loss_se", "valid_auc", "valid_auc_se"]
    assert list(frame.columns) == [*names, "l1_penalty", "calibration"]
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
    assert any(label.startswith("validation") for label in labels) == with_valid
    assert any("chosen" in label for label in labels)


def test_the_picture_goes_into_given_axes(front):
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    assert front.plot(ax=axes) is axes
    curve = axes.get_lines()[0]
    assert curve.get_xdata().tolist() == list(range(6))
    np.testing.assert_allclose(curve.get_ydata(), [100 * p.valid_error for p in front])
