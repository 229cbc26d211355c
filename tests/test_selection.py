"""Cross-validation over sizes and prices, and the rules that choose."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    PredefinedSplit,
    RepeatedStratifiedKFold,
    StratifiedKFold,
)
from sklearn.utils.estimator_checks import parametrize_with_checks

from totalqboost import (
    Frontier,
    Interrupted,
    MasterSolver,
    SolverError,
    TotalQBoostClassifier,
    TotalQBoostClassifierCV,
    frontier,
    losses,
)
from totalqboost.boosting import FoldDone, Searched
from totalqboost.datasets import load, make_ringnorm
from totalqboost.dictionaries import Stumps
from totalqboost.held_out import Measure
from totalqboost.selection import choose

SETTINGS = {"max_learners": 5, "cv": 3}


@pytest.fixture(scope="module")
def data():
    return make_ringnorm(240, seed=0, n_features=5)


@pytest.fixture(scope="module")
def front(data):
    return frontier(*data, **SETTINGS)


@pytest.fixture(scope="module")
def fitted(data):
    return TotalQBoostClassifierCV(**SETTINGS).fit(*data)


@parametrize_with_checks(
    [
        TotalQBoostClassifierCV(max_learners=2),
        TotalQBoostClassifierCV(max_learners=3, class_weight="balanced", max_features=2, cv=2),
    ],
)
def test_scikit_learn_finds_nothing_to_complain_about(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # else one check skips itself
    check(estimator)


# -- the frontier ----------------------------------------------------------------------------


def test_every_size_is_there_with_its_measures(front):
    assert [point.n_learners for point in front] == list(range(6))
    for point in front:
        assert point.ensemble.n_learners == point.n_learners
        for name in ("error", "error_se", "log_loss", "log_loss_se", "auc"):
            assert np.isfinite(getattr(point, f"valid_{name}"))
        assert front[point.n_learners] is front.at(point.n_learners) is point
    with pytest.raises(KeyError, match="no ensemble of 99 learners; sizes are"):
        front[99]


def test_the_ensembles_are_trained_on_all_rows_with_the_price_of_their_size(front, data):
    X, y = data
    for point in front.points[1:]:
        alone = frontier(X, y, max_learners=5, l1_penalty=point.l1_penalty)
        assert point.objective == pytest.approx(alone[point.n_learners].objective, rel=5e-3)


def test_one_price_is_that_of_the_plain_frontier(data):
    X, y = data
    chosen = frontier(X, y, **SETTINGS, l1_penalty=0.01)
    plain = frontier(X, y, max_learners=5, l1_penalty=0.01)
    for one, other in zip(chosen, plain, strict=True):
        assert one.ensemble == other.ensemble.scaled(one.calibration)
        assert one.objective == other.objective
        z = y * one.ensemble.decision_function(X)
        assert one.risk == pytest.approx(np.logaddexp(0.0, -z).mean(), rel=1e-9)


def test_rows_are_scored_by_folds_that_have_not_seen_them(data):
    """Labels that mean nothing cannot be predicted, whatever the training error says."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 8))
    y = rng.integers(0, 2, 120)
    points = frontier(X, y, max_learners=10, cv=5).points
    assert points[-1].train_error < 0.3
    assert points[-1].valid_error > 0.38


def test_out_of_fold_errors_are_those_of_frontiers_on_the_other_folds(data):
    X, y = data
    folds = list(StratifiedKFold(3).split(X, y))
    front = frontier(X, y, max_learners=3, cv=folds, l1_penalty=0.02)
    losses = []
    for train, test in folds:
        other = frontier(X[train], y[train], max_learners=3, l1_penalty=0.02)
        losses.append(
            log_loss(y[test], 1 / (1 + np.exp(-other[3].ensemble.decision_function(X[test]))))
        )
    assert front[3].valid_log_loss == pytest.approx(np.mean(losses), rel=0.03)


def test_the_price_of_a_size_has_the_least_log_loss(fitted):
    table = pd.DataFrame(fitted.cv_results_)
    assert len(table) == 6 * len(table["param_l1_penalty"].unique())
    for size, rows in table.groupby("n_learners"):
        if size == 0:
            continue
        point = fitted.frontier_[size]
        best = rows.loc[rows["is_chosen"]].iloc[0]
        assert best["param_l1_penalty"] == pytest.approx(point.l1_penalty)
        assert best["mean_test_log_loss"] == rows["mean_test_log_loss"].min()
        assert best["mean_test_error"] == pytest.approx(point.valid_error)  # labels are the same


def test_weights_and_rows_of_weight_zero(data):
    X, y = data
    weight = np.where(np.arange(240) % 4 == 0, 0.0, 1.0)
    folds = list(StratifiedKFold(3).split(X, y))
    front = frontier(X, y, max_learners=3, cv=folds, sample_weight=weight)
    assert len(front.held_out.y) == np.count_nonzero(weight)


def test_groups_stay_together_and_count_as_one(data):
    X, y = data
    groups = np.arange(240) // 8
    front = frontier(X, y, max_learners=3, cv=GroupKFold(4), groups=groups)
    assert len(np.unique(front.held_out.cluster)) == 30
    for group in range(30):
        rows = front.held_out.cluster == group
        assert len(np.unique(front.held_out.fold[rows])) == 1


def test_repeated_folds_do_not_shrink_errors(data):
    X, y = data
    many = RepeatedStratifiedKFold(n_splits=3, n_repeats=3, random_state=0)
    once = frontier(X, y, max_learners=2, cv=3, l1_penalty=0.02)
    often = frontier(X, y, max_learners=2, cv=many, l1_penalty=0.02)
    assert len(often.held_out.y) == 720
    assert often[2].valid_log_loss_se > 0.7 * once[2].valid_log_loss_se


def test_bins_can_be_chosen(data):
    X, y = data
    clf = TotalQBoostClassifierCV(
        3, cv=3, l1_penalty=[0.02], dictionary=[Stumps(), Stumps(4)], rule="min"
    ).fit(X, y)
    assert set(clf.cv_results_["param_dictionary"]) == {0, 1}
    with pytest.raises(ValueError, match="dictionary must be one dictionary"):
        frontier(X, y, dictionary=[Stumps(), Stumps(4)])


@pytest.mark.parametrize("dictionary", [[], (), [Stumps(), "stump"], "stump"])
def test_the_frontier_and_the_classifier_say_the_same_of_bad_dictionaries(data, dictionary):
    said = set()
    for call in (
        TotalQBoostClassifierCV(dictionary=dictionary).fit,
        partial(frontier, cv=3, dictionary=dictionary),
    ):
        with pytest.raises(ValueError, match="dictionary must be") as caught:
            call(*data)
        said.add(str(caught.value))
    assert len(said) == 1


def test_the_number_of_jobs_does_not_matter(data, fitted):
    clf = TotalQBoostClassifierCV(**SETTINGS, n_jobs=2).fit(*data)
    assert clf.ensemble_.learners == fitted.ensemble_.learners
    # The oldest Numba rounds otherwise in a process that has just compiled its kernels.
    for name in ("mean_test_error", "mean_test_log_loss"):
        np.testing.assert_allclose(clf.cv_results_[name], fitted.cv_results_[name], rtol=1e-7)


def test_on_event_hears_of_folds_and_sizes(data):
    seen = []
    TotalQBoostClassifierCV(2, cv=3).fit(*data, on_event=seen.append)
    folds = [event for event in seen if isinstance(event, FoldDone)]
    assert [(fold.n_done, fold.n_folds) for fold in folds] == [(1, 3), (2, 3), (3, 3)]
    assert any(isinstance(event, Searched) for event in seen)


def test_ctrl_c_in_the_last_search_keeps_the_sizes_so_far(data):
    class Stop:
        n = 0

        def __call__(self, event):
            self.n += isinstance(event, Searched)
            if self.n == 12:
                raise KeyboardInterrupt

    clf = TotalQBoostClassifierCV(5, cv=3)
    with pytest.raises(Interrupted):
        clf.fit(*data, on_event=Stop())
    assert clf.score(*data) > 0.5


# -- rules -----------------------------------------------------------------------------------


def test_rules_choose():
    error = Measure(np.array([0.5, 0.2, 0.15, 0.13, 0.14]), np.full(5, 0.03))
    assert choose("min", error, None, None) == 3
    assert choose("1se", error, None, None) == 2
    score = Measure(np.array([0.5, 0.9, 0.91, 0.6, 0.6]), np.full(5, 0.02))
    assert choose("min", error, None, score) == 2
    assert choose("1se", error, None, score) == 1


def test_paired_rows_see_smaller_differences(front):
    """Of two ensembles that are wrong on the same rows, the better one is better for sure."""
    sizes = [front.best(rule=rule).n_learners for rule in ("1se", "paired", "min")]
    assert sizes == sorted(sizes)


def test_the_risk_inflation_criterion_needs_no_other_rows(data):
    X, y = data
    front = frontier(X, y, max_learners=8)
    chosen = front.best(rule="ric")
    price = np.log(5 * 239) / 240
    values = [point.objective + price * point.n_learners for point in front]
    assert chosen is front.points[int(np.argmin(values))]
    same = TotalQBoostClassifier("ric", max_learners=8).fit(X, y)
    assert same.ensemble_ == chosen.ensemble


def test_a_callable_chooses(data):
    clf = TotalQBoostClassifierCV(4, cv=3, rule=lambda front: 2).fit(*data)
    assert clf.n_learners_ == 2
    assert clf.frontier_.best(rule=lambda front: 1).n_learners == 1


@pytest.mark.parametrize("scoring", ["balanced_accuracy", "roc_auc", "neg_brier_score"])
def test_any_scorer_chooses(data, scoring):
    clf = TotalQBoostClassifierCV(4, cv=3, scoring=scoring, rule="min").fit(*data)
    scores = clf.cv_results_["mean_test_score"]
    assert clf.frontier_.scores.mean.max() == pytest.approx(np.nanmax(scores))
    assert clf.n_learners_ == int(np.argmax(clf.frontier_.scores.mean))


def test_scorers_get_what_a_fitted_classifier_would_say(data):
    class Own(losses.Logistic):
        name = "own"

        def link(self, z):
            return 0.5 + 0.0 * z

    X, y = data
    labels = np.where(y > 0, "yes", "no")
    seen = []

    def score(model, rows, truth):
        seen.append(model.predict_proba(rows))
        assert model.classes_.tolist() == ["no", "yes"]
        assert set(model.predict(rows)) | set(truth) <= {"no", "yes"}
        expected = np.where(model.decision_function(rows) > 0, "yes", "no")
        assert model.predict(rows).tolist() == expected.tolist()
        return float(np.mean(model.predict(rows) == truth))

    clf = TotalQBoostClassifierCV(2, cv=3, loss=Own(), l1_penalty=0.02, scoring=score)
    clf.fit(X, labels)
    assert len(seen) == 3 * 3  # folds, sizes
    assert all((probabilities == 0.5).all() for probabilities in seen)
    assert clf.cv_results_["mean_test_score"] == pytest.approx(
        1.0 - clf.cv_results_["mean_test_error"]
    )


def test_an_exponential_path_is_not_judged_by_log_loss():
    X, y = load("heart")
    clf = TotalQBoostClassifierCV(
        6, cv=3, loss="exponential", l1_penalty=[1e-6, 0.05], rule="min"
    ).fit(X, y)
    table = pd.DataFrame(clf.cv_results_)
    for _, rows in table.groupby("n_learners"):
        assert rows["mean_test_error"][rows["is_chosen"]].iloc[0] == rows["mean_test_error"].min()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rule": "best"}, "rule must be one of"),
        ({"max_learners": 0}, "max_learners must be an integer >= 1"),
        ({"cv": True}, "cv must be a number of folds"),
        ({"cv": 1}, "1"),
        ({"l1_penalty": "small"}, "l1_penalty must be 'auto' or a number"),
        ({"l1_penalty": []}, "l1_penalty must be 'auto', a number or some numbers"),
        ({"l1_penalty": [0.1, -1]}, "l1_penalty must be a finite number >= 0"),
        ({"dictionary": []}, "dictionary must be"),
        ({"n_jobs": 0}, "n_jobs must be"),
    ],
)
def test_bad_input_is_named(data, change, message):
    with pytest.raises(ValueError, match=message):
        TotalQBoostClassifierCV(**{"max_learners": 2, "cv": 3, **change}).fit(*data)


def test_cv_and_validation_rows_are_alternatives(data):
    X, y = data
    with pytest.raises(ValueError, match="cv and X_valid are alternatives"):
        frontier(X, y, X, y, cv=3)


# -- folds -----------------------------------------------------------------------------------


def test_folds_may_be_masks(data):
    X, y = data
    mask = np.arange(240) % 3 == 0
    masks = frontier(X, y, max_learners=2, cv=[(~mask, mask)], l1_penalty=0.02)
    rows = [(np.flatnonzero(~mask), np.flatnonzero(mask))]
    numbers = frontier(X, y, max_learners=2, cv=rows, l1_penalty=0.02)
    assert len(masks.held_out.y) == 80
    np.testing.assert_array_equal(masks.held_out.scores, numbers.held_out.scores)


def test_splitters_see_the_rows_of_the_table(data):
    X, y = data
    weight = np.where(np.arange(240) < 30, 0.0, 1.0)
    fold = np.arange(240) % 3
    front = frontier(
        X, y, max_learners=2, cv=PredefinedSplit(fold), sample_weight=weight, l1_penalty=0.02
    )
    assert len(front.held_out.y) == 210
    assert [np.sum(front.held_out.fold == f) for f in range(3)] == [70, 70, 70]
    np.testing.assert_array_equal(front.held_out.y[:70], y[30:][fold[30:] == 0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cv": [([0, 1, 999], [2])]}, "cv must hold row numbers from 0 to 239"),
        ({"cv": [([-1, 0, 1], [2])]}, "cv must hold row numbers from 0 to 239"),
        ({"cv": []}, "cv must have pairs of rows"),
        ({"cv": 5.0}, "cv must be a number of folds"),
        ({"cv": "five"}, "cv must be a number of folds"),
        ({"cv": [(np.arange(200), [])]}, "fold 0 of cv holds out no row"),
        ({"cv": 3, "groups": np.arange(7)}, "groups must have shape"),
        ({"cv": 3, "scoring": "nope"}, "nope"),
        ({"cv": 3, "scoring": ["roc_auc"]}, "scoring must be the name of a scorer"),
        ({"cv": 3, "scoring": lambda *_: np.nan}, "scoring must give a number"),
        ({"groups": np.arange(240)}, "groups is of use with cv only"),
        ({"scoring": "roc_auc"}, "scoring is of use with cv only"),
    ],
)
def test_bad_folds_are_named(data, change, message):
    X, y = data
    with pytest.raises(ValueError, match=message):
        frontier(X, y, max_learners=2, **change)


def test_no_number_of_folds_is_five(data):
    clf = TotalQBoostClassifierCV(2, cv=None, l1_penalty=[0.02]).fit(*data)
    assert len(np.unique(clf.frontier_.held_out.fold)) == 5


def test_folds_without_a_score_do_not_count(data):
    """The AUC of rows of one class is NaN, which is no reason to choose no learner."""
    X, y = data
    order = np.argsort(y, kind="stable")
    clf = TotalQBoostClassifierCV(3, cv=KFold(3), scoring="roc_auc", rule="min", l1_penalty=[0.02])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf.fit(X[order], y[order])
    assert clf.n_learners_ > 0


# -- what a fit that fails leaves ----------------------------------------------------------------


def test_a_fit_that_finds_nothing_leaves_the_earlier_model(data, fitted):
    X, y = data
    clf = clone(fitted).fit(X, y)
    expected = clf.predict(X)

    def stop(event):
        raise KeyboardInterrupt

    with pytest.raises(ValueError, match="n_splits=999"):
        clf.set_params(cv=999).fit(X[:, :2], y)
    np.testing.assert_array_equal(clf.predict(X), expected)
    with pytest.raises(Interrupted) as caught:
        clf.set_params(cv=3).fit(X[:, :2], y, on_event=stop)
    assert caught.value.result is None
    np.testing.assert_array_equal(clf.predict(X), expected)


class Fails(MasterSolver):
    def solve(self, problem, start=None, rng=None):
        raise SolverError("no answer")


def test_a_solver_that_fails_leaves_a_frontier(data):
    with pytest.raises(SolverError) as caught:
        frontier(*data, max_learners=3, cv=3, solver=Fails())
    assert isinstance(caught.value.result, Frontier)


def test_separated_classes_without_a_price_are_warned_about():
    X = np.arange(40.0)[:, None]
    y = X[:, 0] > 19
    for fit in (
        partial(frontier, max_learners=2, l1_penalty=0.0),
        partial(frontier, max_learners=2, l1_penalty=0.0, cv=3),
        TotalQBoostClassifierCV(2, l1_penalty=0.0, rule="min").fit,
    ):
        with pytest.warns(ConvergenceWarning, match="hardly limits its weights") as caught:
            fit(X, y)
        assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize("mode", ["joint", "per_class", "shared"])
def test_three_classes_without_an_intercept(mode):
    """The ensemble of no stumps is one of three classes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
    model = TotalQBoostClassifierCV(max_learners=3, cv=2, fit_intercept=False, multiclass=mode)
    assert model.fit(X, y).decision_function(X).shape == (60, 3)
    front = frontier(X, y, max_learners=2, fit_intercept=False)
    assert front[0].ensemble.predict(X).tolist() == [0] * 60
