"""Three classes or more, as users meet them; and weights per class, against plain optimisers."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.datasets import load_iris, load_wine
from sklearn.model_selection import train_test_split

from totalqboost import Ensemble, TotalQBoostClassifier, TotalQBoostClassifierCV, frontier
from totalqboost.dictionaries.classes import ClassOracle
from totalqboost.dictionaries.stumps import Stumps
from totalqboost.learners import Stump
from totalqboost.multiclass import MODES, margins, winners
from totalqboost.multiclass.joint import JointExchange, JointSearch
from totalqboost.multiclass.weights import Counts, fit_per_class, fit_shared

every_mode = pytest.mark.parametrize("mode", MODES)


def wine():
    X, y = load_wine(return_X_y=True)
    return train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)


def noisy(n_rows=200, n_classes=4, seed=0, n_features=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)).round(1)
    scores = np.column_stack([X[:, k % n_features] * (1 - k / 5) for k in range(n_classes)])
    return X, np.argmax(scores + rng.normal(scale=0.5, size=scores.shape), axis=1)


def fitted(mode="joint", **settings):
    X, X_test, y, y_test = wine()
    clf = TotalQBoostClassifier(0, max_learners=5, multiclass=mode, **settings).fit(X, y)
    return clf, X_test, y_test


# -- the classifier ----------------------------------------------------------------------


@every_mode
def test_three_classes_are_told_apart(mode):
    clf, X, y = fitted(mode)
    assert clf.n_learners_ == 5
    assert np.mean(clf.predict(X) != y) < 0.12
    scores, p = clf.decision_function(X), clf.predict_proba(X)
    assert scores.shape == p.shape == (len(X), 3)
    np.testing.assert_allclose(np.log(p), log_softmax(scores, axis=1), atol=1e-12)
    assert clf.predict(X).tolist() == clf.classes_[p.argmax(axis=1)].tolist()
    assert clf.feature_importances_.sum() == pytest.approx(1.0)
    assert set(np.flatnonzero(clf.feature_importances_)) == set(clf.ensemble_.used_features)


def test_shared_weights_are_one_number_and_votes():
    clf, _, _ = fitted("shared")
    assert clf.ensemble_.is_shared
    other, _, _ = fitted("per_class")
    assert not other.ensemble_.is_shared
    assert set(clf.ensemble_.learners) == set(other.ensemble_.learners)


@every_mode
def test_labels_may_be_text_and_files_keep_everything(mode, tmp_path):
    X, X_test, y, _ = wine()
    names = np.array(["red", "white", "rosé"])[y]
    clf = TotalQBoostClassifier(max_learners=4, multiclass=mode).fit(X, names)
    assert clf.classes_.tolist() == ["red", "rosé", "white"]
    clf.ensemble_.save(tmp_path / "model.json")
    loaded = Ensemble.load(tmp_path / "model.json")
    for other in (loaded, pickle.loads(pickle.dumps(clf))):
        assert other.predict(X_test).tolist() == clf.predict(X_test).tolist()
        np.testing.assert_array_equal(other.predict_proba(X_test), clf.predict_proba(X_test))


@every_mode
def test_the_same_seed_gives_the_same_model(mode):
    X, y = noisy()
    first, second = (
        TotalQBoostClassifier(max_learners=6, multiclass=mode, n_jobs=n).fit(X, y) for n in (1, 2)
    )
    assert first.ensemble_ == second.ensemble_


@every_mode
def test_stages_are_the_sizes_on_the_way(mode):
    clf, X, _ = fitted(mode)
    stages = list(clf.staged_predict(X))
    assert len(stages) == 5
    assert stages[-1].tolist() == clf.predict(X).tolist()
    assert [r.ensemble.n_learners for r in clf.trace_] == [1, 2, 3, 4, 5]
    last = [*clf.staged_decision_function(X)][-1]
    np.testing.assert_allclose(last, clf.decision_function(X), atol=2e-3)


def test_counts_as_weights_are_repeated_rows():
    X, y = noisy(120)
    counts = np.random.default_rng(0).integers(0, 3, size=120)
    counts[:4] = 1
    settings = {"max_learners": 4, "multiclass": "per_class", "cardinality_penalty": 0}
    weighted = TotalQBoostClassifier(**settings).fit(X, y, sample_weight=counts)
    repeated = TotalQBoostClassifier(**settings).fit(np.repeat(X, counts, 0), np.repeat(y, counts))
    assert weighted.l1_penalty_ == repeated.l1_penalty_
    assert weighted.solution_.objective == pytest.approx(repeated.solution_.objective, rel=1e-6)
    assert weighted.predict(X).tolist() == repeated.predict(X).tolist()


def test_prices_are_those_of_two_classes():
    X, y = noisy(150, 3)
    clf = TotalQBoostClassifier(max_learners=2).fit(X, y)
    assert clf.l1_penalty_ == pytest.approx(4 / 150)
    assert clf.cardinality_penalty_ == pytest.approx(0.5 / 150)


@every_mode
def test_without_an_intercept_there_is_none(mode):
    X, y = noisy()
    clf = TotalQBoostClassifier(max_learners=6, fit_intercept=False, multiclass=mode).fit(X, y)
    assert not np.any(clf.ensemble_.intercept)
    assert np.mean(clf.predict(X) == y) > 0.4


@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("solver", ["local", "tabu", "exact"])
def test_every_solver_chooses_shared_stumps(solver, exchange):
    X, y = load_iris(return_X_y=True)
    clf = TotalQBoostClassifier(
        0.01, solver=solver, exchange=exchange, max_rounds=5, multiclass="shared"
    ).fit(X, y)
    assert 1 <= clf.n_learners_ <= 5
    assert np.mean(clf.predict(X) != y) < 0.08
    assert clf.solution_.bound <= clf.solution_.objective + 1e-12


def test_the_exact_solver_proves_the_best_three_of_the_generated_columns():
    X, y = load_iris(return_X_y=True)
    clf = TotalQBoostClassifier(
        0, max_learners=3, solver="exact", multiclass="shared", max_rounds=12
    ).fit(X, y)
    assert clf.solution_.gap < 1e-3


def test_a_certificate_lies_below_the_objective_and_above_the_bound_without():
    X, y = load_iris(return_X_y=True)
    plain = TotalQBoostClassifier(0.02, max_learners=3).fit(X, y)
    proven = TotalQBoostClassifier(0.02, max_learners=3, certify=True).fit(X, y)
    assert plain.solution_.bound <= proven.solution_.bound <= proven.solution_.objective + 1e-12


@pytest.mark.parametrize("loss", ["exponential", "squared", "smoothed_hinge"])
def test_any_loss_chooses_stumps(loss):
    X, y = load_iris(return_X_y=True)
    clf = TotalQBoostClassifier(max_learners=3, loss=loss, multiclass="per_class").fit(X, y)
    assert np.mean(clf.predict(X) != y) < 0.1


def test_columns_of_signs_are_shared_too():
    X, y = noisy()
    signs = np.where(X > 0, 1, -1)
    clf = TotalQBoostClassifier(max_learners=4, dictionary="columns").fit(signs, y)
    assert all(h.threshold == 0.0 for h in clf.ensemble_.learners)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"multiclass": "ovr"}, "multiclass must be one of 'joint', 'per_class', 'shared'"),
        ({"monotonic_cst": [1, 0, 0, 0, 0]}, "monotonic_cst is for two classes, got 4"),
    ],
)
def test_what_cannot_be_is_refused(changes, complaint):
    X, y = noisy(40)
    with pytest.raises(ValueError, match=complaint):
        TotalQBoostClassifier(**changes).fit(X, y)


@every_mode
def test_a_limit_on_features_holds(mode):
    X, y = noisy()
    clf = TotalQBoostClassifier(max_learners=6, max_features=2, multiclass=mode).fit(X, y)
    assert len(clf.ensemble_.used_features) <= 2


@every_mode
def test_categories_and_gaps_are_shared_too(mode):
    rng = np.random.default_rng(0)
    kind = rng.choice(["a", "b", "c", "d"], size=300)
    x = rng.normal(size=300)
    y = np.select([kind == "a", x > 0.3], [0, 1], 2)
    gap = np.where(y == 2, np.nan, rng.normal(size=300))
    table = pd.DataFrame({"kind": pd.Categorical(kind), "x": x, "gap": gap})
    clf = TotalQBoostClassifier(0, max_learners=3, multiclass=mode).fit(table, y)
    assert np.mean(clf.predict(table) != y) < 0.03
    assert {"CategorySet", "Missing"} & {type(h).__name__ for h in clf.ensemble_.learners}


# -- frontier and cross-validation -------------------------------------------------------


@every_mode
def test_the_frontier_has_every_size(mode):
    X, X_test, y, y_test = wine()
    front = frontier(X, y, X_test, y_test, max_learners=4, multiclass=mode)
    assert [p.n_learners for p in front] == [0, 1, 2, 3, 4]
    last = front[4]
    assert last.train_error == pytest.approx(np.mean(last.ensemble.predict(X) != y))
    assert last.valid_error == pytest.approx(np.mean(last.ensemble.predict(X_test) != y_test))
    p = last.ensemble.predict_proba(X)
    assert last.risk == pytest.approx(-np.log(p[np.arange(len(y)), y]).mean())
    assert all(point.bound <= point.objective + 1e-12 for point in front)


def test_cross_validation_chooses_a_size():
    X, X_test, y, y_test = wine()
    clf = TotalQBoostClassifierCV(max_learners=4, cv=3).fit(X, y)
    assert 2 <= clf.n_learners_ <= 4
    assert np.mean(clf.predict(X_test) != y_test) < 0.2
    assert clf.frontier_.held_out.scores.shape[2] == 3
    assert clf.cv_results_["mean_test_auc"].max() > 0.95


def test_a_class_that_a_fold_does_not_train_on_is_no_error():
    X, y = noisy(60, 3)
    folds = [(np.flatnonzero(y != 2), np.flatnonzero(y == 2)), (np.arange(50), np.arange(50, 60))]
    clf = TotalQBoostClassifierCV(max_learners=2, cv=folds, l1_penalty=0.05).fit(X, y)
    assert clf.predict_proba(X).shape == (60, 3)


def test_a_score_can_choose():
    X, _, y, _ = wine()
    clf = TotalQBoostClassifierCV(max_learners=2, cv=3, scoring="roc_auc_ovr").fit(X, y)
    assert clf.frontier_.scores.mean[-1] > 0.9


# -- weights per class -------------------------------------------------------------------


def problem(n_rows=80, n_classes=3, n_stumps=4, seed=0):
    rng = np.random.default_rng(seed)
    answers = rng.choice([-1, 1], size=(n_rows, n_stumps)).astype(np.int8)
    answers[: n_rows // 2] = answers[0]  # rows to merge
    labels = rng.integers(n_classes, size=n_rows)
    weight = rng.random(n_rows)
    return answers, labels, weight / weight.sum()


def slow_loss(answers, labels, weight, W, b):
    F = answers @ W + b
    return -weight @ log_softmax(F, axis=1)[np.arange(len(labels)), labels]


def test_merged_rows_have_the_same_loss_and_slopes():
    answers, labels, weight = problem()
    counts = Counts.of(answers, labels, weight, 3)
    assert len(counts.answers) <= 16
    rng = np.random.default_rng(1)
    W, b = rng.normal(size=(4, 3)), rng.normal(size=3)
    loss, of_W, of_b = counts.loss(W, b)
    assert loss == pytest.approx(slow_loss(answers, labels, weight, W, b))
    for j in range(3):
        step = np.zeros(3)
        step[j] = 1e-6
        up = slow_loss(answers, labels, weight, W, b + step)
        down = slow_loss(answers, labels, weight, W, b - step)
        assert of_b[j] == pytest.approx((up - down) / 2e-6, abs=1e-7)
        W_step = np.zeros((4, 3))
        W_step[2, j] = 1e-6
        up = slow_loss(answers, labels, weight, W + W_step, b)
        down = slow_loss(answers, labels, weight, W - W_step, b)
        assert of_W[2, j] == pytest.approx((up - down) / 2e-6, abs=1e-7)


def test_weights_per_class_are_those_of_a_plain_optimiser():
    answers, labels, weight = problem()

    def value(x):
        W, b = x[:12].reshape(4, 3), x[12:]
        return slow_loss(answers, labels, weight, W, b) + 0.01 * np.linalg.norm(W, axis=1).sum()

    expected = minimize(value, 0.1 * np.ones(15), method="BFGS", options={"gtol": 1e-7})
    counts = Counts.of(answers, labels, weight, 3)
    W, b = fit_per_class(counts, 0.01, np.zeros((4, 3)), np.zeros(3))
    assert value(np.append(W, b)) <= expected.fun + 1e-6


def test_shared_weights_are_those_of_a_plain_optimiser():
    answers, labels, weight = problem()
    votes = np.random.default_rng(2).choice([-1.0, 1.0], size=(4, 3))

    def value(x):
        W = np.maximum(x[:4], 0.0)[:, None] * votes
        return slow_loss(answers, labels, weight, W, x[4:]) + 0.01 * np.maximum(x[:4], 0).sum()

    expected = minimize(value, 0.1 * np.ones(7), method="Nelder-Mead", options={"maxiter": 20_000})
    counts = Counts.of(answers, labels, weight, 3)
    w, b = fit_shared(counts, 0.01, votes, np.zeros(4), np.zeros(3))
    assert (w >= 0).all()
    assert value(np.append(w, b)) <= expected.fun + 1e-6


# -- joint selection ---------------------------------------------------------------------


def joint(n_rows=150, n_classes=3, mu=0.01, seed=0):
    X, y = noisy(n_rows, n_classes, seed, 3)
    X = np.round(2 * X) / 2  # few cuts
    oracle = ClassOracle(Stumps().prepare(X, np.ones(n_rows, np.int8)), y, n_classes)
    return JointExchange(oracle, np.full(n_rows, 1 / n_rows), mu), X, y


def test_the_joint_search_finds_the_best_pair_of_stumps():
    for seed in range(5):
        slots, X, y = joint(seed=seed)
        search = JointSearch(slots)
        search.search([], 3)
        found = search.polished(2)
        stumps = [Stump(f, t) for f in range(3) for t in slots.oracle.base.thresholds[f].tolist()]
        values = []
        for i, first in enumerate(stumps):
            for second in stumps[:i]:
                answers = np.column_stack([first.predict(X), second.predict(X)])
                counts = Counts.of(answers, y, slots.weight, 3)
                W, b = fit_per_class(counts, slots.mu, np.zeros((2, 3)), np.zeros(3), 1e-5)
                value = counts.loss(W, b)[0] + slots.mu * np.linalg.norm(W, axis=1).sum()
                values.append(value)
        assert found.value <= min(values) * (1 + 1e-4)


def test_a_swapped_model_has_the_inverse_of_the_new_slots():
    slots, _, _ = joint()
    search = JointSearch(slots)
    search.search([], 4)
    slots.restore(search.best[4])
    column = slots.oracle.base.column(Stump(1, 0.25))
    M, _ = slots._swapped(2, column)
    slots.A[:, 2] = column
    before = slots.F
    slots._invert()
    slots.F = before
    np.testing.assert_allclose(M, slots.M, rtol=1e-6, atol=1e-6)


def test_more_stumps_are_never_worse_and_values_are_true():
    slots, _, y = joint(300, 4)
    search = JointSearch(slots)
    search.search([], 6)
    values = [search.polished(size).value for size in range(7)]
    assert np.all(np.diff(values) < 0)
    found = search.best[6]
    answers = np.column_stack([slots.oracle.base.column(h) for h in found.learners])
    own = slow_loss(answers, y, slots.weight, found.W, found.b)
    price = slots.mu * np.linalg.norm(found.W, axis=1).sum()
    assert found.value == pytest.approx(own + price)


def test_joint_selection_is_no_worse_than_weights_per_class():
    X, y = noisy(300, 4)
    risks = {
        mode: frontier(X, y, max_learners=6, l1_penalty=1e-5, multiclass=mode)[6].risk
        for mode in ("joint", "per_class")
    }
    assert risks["joint"] <= risks["per_class"] + 1e-6


def test_margins_and_winners_of_many_classes():
    scores = np.array([[0.1, 0.5, -0.2], [1.0, 0.0, 0.0]])
    assert winners(scores).tolist() == [1, 0]
    assert margins(scores, np.array([1, 2])).tolist() == pytest.approx([0.4, -1.0])
