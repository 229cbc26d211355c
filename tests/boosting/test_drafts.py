"""Where rows are very many: searches on some, answers on all."""

import importlib

import numpy as np
import pytest

from totalqboost import (
    Interrupted,
    TotalQBoostClassifier,
    TotalQBoostClassifierCV,
    datasets,
    frontier,
)
from totalqboost.boosting import drafts
from totalqboost.boosting.drafts import drawn_rows
from totalqboost.dictionaries import Stumps

search_module = importlib.import_module("totalqboost.boosting.search")


@pytest.fixture
def few(monkeypatch):
    """Let searches look at 400 rows."""
    monkeypatch.setattr(drafts, "SEARCH_ROWS", 400)


def labels(*sizes):
    return np.random.default_rng(1).permutation(np.repeat(np.arange(len(sizes)), sizes))


def test_few_rows_are_searched_as_they_are(few):
    assert drawn_rows(labels(200, 200), np.ones(400) / 400, 3) is None


def test_so_many_features_are_not_drawn(few, monkeypatch):
    monkeypatch.setattr(drafts, "MOST_CODES", 1000)
    assert drawn_rows(labels(300, 300), np.ones(600) / 600, 3) is None


def test_weights_make_up_for_classes_drawn_more_often(few):
    y = labels(5000, 900, 100)
    weight = np.random.default_rng(2).uniform(size=len(y))
    drawn = drawn_rows(y, weight / weight.sum(), 3)
    assert (np.diff(drawn.rows) > 0).all()  # none twice
    counts = np.bincount(y[drawn.rows])
    np.testing.assert_allclose(counts, [233, 97, 70], atol=1.5)  # 200 x (share + 1/3)
    assert drawn.weight.sum() == pytest.approx(1.0)
    own = np.bincount(y, weight / weight.sum())
    np.testing.assert_allclose(np.bincount(y[drawn.rows], drawn.weight), own, rtol=0.05)


def test_heavy_rows_are_drawn_for_sure(few):
    y, weight = labels(3000, 3000), np.ones(6000)
    weight[:50] = 500.0
    drawn = drawn_rows(y, weight / weight.sum(), 3)
    assert set(range(50)) <= set(drawn.rows.tolist())
    share = 50 * 500.0 / weight.sum()
    assert drawn.weight[drawn.rows < 50].sum() == pytest.approx(share, rel=0.02)
    assert len(drawn.rows) == pytest.approx(400, abs=4)


def test_what_a_rare_class_does_not_need_goes_to_the_others(few):
    drawn = drawn_rows(labels(5000, 20, 20), np.ones(5040) / 5040, 3)
    assert len(drawn.rows) == pytest.approx(400, abs=3)


def test_numbers_in_proportion_have_a_most():
    found = drafts.chances(np.array([1.0, 1.0, 8.0]), 10.0, np.array([9.0, 0.5, 4.0]))
    np.testing.assert_allclose(found, [5.5, 0.5, 4.0])
    np.testing.assert_allclose(drafts.chances(np.ones(2), 9.0, np.array([2.0, 3.0])), [2.0, 3.0])


def test_of_a_rare_class_all_are_taken(few):
    y = labels(5000, 20)
    drawn = drawn_rows(y, np.ones(5020) / 5020, 3)
    assert np.isin(np.flatnonzero(y == 1), drawn.rows).all()


@pytest.mark.parametrize("name", ["ringnorm", "waveform"])
def test_the_answer_is_nearly_that_of_a_search_on_all_rows(name, monkeypatch):
    X, y = datasets.load(name)
    model = TotalQBoostClassifier(0, max_learners=8)
    whole = model.fit(X, y).solution_.objective
    monkeypatch.setattr(drafts, "SEARCH_ROWS", 2000)
    assert model.fit(X, y).solution_.objective < 1.03 * whole


def test_the_objective_is_that_of_all_rows(few):
    X, y = datasets.make_twonorm(2000)
    model = TotalQBoostClassifier(0, max_learners=4, l1_penalty=0.0).fit(X, y)
    z = y * model.decision_function(X)
    assert model.solution_.objective == pytest.approx(np.log1p(np.exp(-z)).mean(), rel=1e-9)


def test_sizes_of_a_frontier_are_fitted_to_all_rows(few):
    X, y = datasets.make_twonorm(2000)
    points = frontier(X, y, max_learners=5).points
    assert [point.n_learners for point in points[-3:]] == [3, 4, 5]
    for point in points:
        z = y * point.ensemble.scores(X)
        assert point.risk == pytest.approx(np.log1p(np.exp(-z)).mean(), rel=1e-9)


def test_three_classes_and_folds_are_searched_on_some_rows_too(few):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=1500), [-0.5, 0.5])
    model = TotalQBoostClassifierCV(max_learners=4, cv=2, random_state=0).fit(X, y)
    assert (model.predict(X) == y).mean() > 0.75


@pytest.mark.parametrize("price", [0.02, "bic"])
def test_the_price_of_all_rows_decides_the_size(price, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 5)).round(2)
    y = np.where(np.sign(X[:, 0]) + np.sign(X[:, 1]) + rng.normal(size=6000) > 0, 1, -1)
    model = TotalQBoostClassifier(price, max_learners=20)
    whole = model.fit(X, y)
    size, objective = whole.n_learners_, whole.solution_.objective
    monkeypatch.setattr(drafts, "SEARCH_ROWS", 600)
    some = model.fit(X, y)
    assert abs(some.n_learners_ - size) <= 1
    assert some.solution_.objective < 1.01 * objective


def test_steps_on_all_rows_are_told(few):
    X, y = datasets.make_twonorm(1000)
    told = []
    model = TotalQBoostClassifier(0, max_learners=3, l1_penalty=0.0)
    model.fit(X, y, on_event=told.append)
    assert told[-1].n_learners == 3
    assert told[-1].objective == pytest.approx(model.solution_.objective, rel=0.05)
    assert told[-1].objective >= model.solution_.objective


def test_no_bound_is_claimed_for_columns_that_were_not_kept(few):
    X, y = datasets.make_twonorm(1000)
    model = TotalQBoostClassifier(0, max_learners=3).fit(X, y)
    assert model.solution_.bound == -np.inf
    assert model.ensemble_.training.bound is None
    certified = TotalQBoostClassifier(0, max_learners=3, certify=True).fit(X, y).solution_
    assert 0.0 < certified.bound < certified.objective


def test_an_oracle_that_cannot_be_sampled_is_searched_on_all_rows(few, monkeypatch):
    X, y = datasets.make_twonorm(1000)
    oracle = Stumps().prepare(X, y)

    class Plain:
        def __getattr__(self, name):
            if name == "sampled":
                raise AttributeError(name)
            return getattr(oracle, name)

    class Dictionary:
        def prepare(self, *_):
            return Plain()

    found = TotalQBoostClassifier(0, max_learners=3, dictionary=Dictionary()).fit(X, y)
    monkeypatch.setattr(drafts, "SEARCH_ROWS", 1000)
    whole = TotalQBoostClassifier(0, max_learners=3).fit(X, y)
    assert found.ensemble_.learners == whole.ensemble_.learners


def test_a_solver_that_adds_to_the_search_sees_the_generated_columns(few):
    X, y = datasets.make_twonorm(1000)
    model = TotalQBoostClassifier(0, max_learners=3, solver="exact").fit(X, y)
    assert len(model.result_.learners) > model.n_learners_ + 2  # and the two constants


@pytest.mark.parametrize("moment", ["on some rows", "on all rows"])
def test_what_an_interrupted_search_found_is_kept(few, moment, monkeypatch):
    X, y = datasets.make_twonorm(1000)
    if moment == "on all rows":

        def stopped(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(search_module, "cheapest_on_all_rows", stopped)

    def stop(event):
        if event.n_learners == 2 and moment == "on some rows":
            raise KeyboardInterrupt

    model = TotalQBoostClassifier(0, max_learners=6, l1_penalty=0.0)
    with pytest.raises(Interrupted):
        model.fit(X, y, on_event=stop)
    assert model.n_learners_ == (2 if moment == "on some rows" else 6)
    z = y * model.decision_function(X)
    assert model.solution_.objective == pytest.approx(np.log1p(np.exp(-z)).mean(), rel=1e-9)
