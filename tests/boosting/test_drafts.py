"""Where rows are very many: searches on some, answers on all."""

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
    assert len(np.unique(drawn.rows)) == len(drawn.rows) <= 400
    assert (np.diff(drawn.rows) > 0).all()
    counts = np.bincount(y[drawn.rows])
    assert counts.tolist() == [233, 96, 70]  # 200 x (share + 1/3)
    assert drawn.weight.sum() == pytest.approx(1.0)
    kept = weight[drawn.rows] * np.array([5000 / 233, 900 / 96, 100 / 70])[y[drawn.rows]]
    np.testing.assert_allclose(drawn.weight, kept / kept.sum())


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


def test_a_solver_that_adds_to_the_search_sees_the_generated_columns(few):
    X, y = datasets.make_twonorm(1000)
    model = TotalQBoostClassifier(0, max_learners=3, solver="exact").fit(X, y)
    assert len(model.result_.learners) > model.n_learners_ + 2  # and the two constants


def test_what_an_interrupted_search_found_is_kept(few):
    X, y = datasets.make_twonorm(1000)

    def stop(event):
        if event.n_learners == 2:
            raise KeyboardInterrupt

    model = TotalQBoostClassifier(0, max_learners=6)
    with pytest.raises(Interrupted):
        model.fit(X, y, on_event=stop)
    assert model.n_learners_ == 2
    assert (model.predict(X) == y).mean() > 0.6
