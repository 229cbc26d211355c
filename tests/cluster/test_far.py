"""Rows that are too many for the driver: weights are fitted by the workers, columns stay there."""

import numpy as np
import pandas as pd
import pytest
from cluster_data import frames, table
from sklearn.exceptions import ConvergenceWarning

from totalqboost import TotalQBoostClassifier, TotalQBoostClassifierCV, frontier, settings
from totalqboost.boosting import drafts, scores
from totalqboost.cluster import oracle, patterns
from totalqboost.cluster.blocks import Answers, Block, Layout, Point, Slot
from totalqboost.cluster.connect import connected
from totalqboost.cluster.oracle import ClusterOracle
from totalqboost.cluster.patterns import Model, Patterns, merged, patterns_of
from totalqboost.cluster.rows import ClusterRows
from totalqboost.cluster.support import newton_step
from totalqboost.losses import Exponential, Logistic, Squared


@pytest.fixture(scope="module", autouse=True)
def client():
    with connected(workers=2) as client:
        yield client


@pytest.fixture(autouse=True)
def far(monkeypatch):
    """Let 240 rows be too many, of which a search looks at 160."""
    monkeypatch.setattr(drafts, "SEARCH_ROWS", 160)
    monkeypatch.setattr(settings, "FAR_ROWS", 0)
    monkeypatch.setattr(scores, "SCORE_ROWS", 100)
    monkeypatch.setattr(oracle, "SCORE_ROWS", 100)


@pytest.fixture
def no_columns(monkeypatch):
    def refused(*_):
        raise AssertionError("a column came to the driver")

    monkeypatch.setattr(ClusterRows, "column", refused)
    monkeypatch.setattr(ClusterRows, "codes", refused)


def assert_same(one, other, atol=1e-8):
    assert other.learners == one.learners
    np.testing.assert_allclose(other.weights, one.weights, rtol=0, atol=atol)
    np.testing.assert_allclose(other.intercept, one.intercept, rtol=0, atol=atol)


@pytest.mark.parametrize("loss", ["logistic", "exponential", "squared"])
def test_the_ensemble_is_that_of_memory_and_no_column_travels(loss, no_columns):
    X, y = table()
    model = TotalQBoostClassifier(0, loss=loss, max_learners=4)
    here = model.fit(X, y)
    ensemble, objective = here.ensemble_, here.solution_.objective
    there = model.fit(*frames(X, y))
    assert_same(ensemble, there.ensemble_)
    assert there.solution_.objective == pytest.approx(objective, rel=1e-9)
    assert there.solution_.bound <= there.solution_.objective


def test_where_different_rows_are_too_many_workers_sum(monkeypatch, no_columns):
    X, y = table()
    model = TotalQBoostClassifier(0, max_learners=4)
    here = model.fit(X, y).ensemble_
    monkeypatch.setattr(ClusterOracle, "patterns", lambda *_: None)
    assert_same(here, model.fit(*frames(X, y)).ensemble_)


def test_neighbouring_cuts_at_a_low_price_have_the_weights_of_memory():
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"a": np.round(rng.normal(size=400), 1)})
    is_one = np.sin(3 * X["a"]) + X["a"] + 0.7 * rng.normal(size=400) > 0
    y = pd.Series(np.where(is_one, "class1", "class0"))
    model = TotalQBoostClassifier(0, loss="exponential", l1_penalty=1e-4, max_learners=8)
    here = model.fit(X, y).ensemble_
    assert_same(here, model.fit(*frames(X, y)).ensemble_, atol=1e-5)  # its optimum is flat


def test_algorithm_1_looks_at_all_rows():
    X, y = table()
    model = TotalQBoostClassifier(0.01, exchange=False, max_rounds=6)
    here = model.fit(X, y).ensemble_
    assert_same(here, model.fit(*frames(X, y)).ensemble_)


@pytest.mark.parametrize(
    "how", [{"max_learners": 10}, {"max_learners": 4, "monotonic_cst": {"size": -1, "age": 1}}]
)
def test_weights_are_those_of_memory_to_the_last_digits(how, no_columns):
    X, y = table()
    model = TotalQBoostClassifier(0, **how)
    here = model.fit(X, y).ensemble_
    assert_same(here, model.fit(*frames(X, y)).ensemble_)


def test_prices_and_limits_hold(no_columns):
    X, y = table()
    model = TotalQBoostClassifier(
        "auto", max_learners=5, max_features=2, monotonic_cst={"size": 1}, feature_costs=0.5
    )
    here = model.fit(X, y).ensemble_
    assert_same(here, model.fit(*frames(X, y)).ensemble_)


def test_weights_and_no_intercept_are_as_in_memory(no_columns):
    X, y = table()
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    model = TotalQBoostClassifier(0, max_learners=3, fit_intercept=False, class_weight="balanced")
    here = model.fit(X, y, weight).ensemble_
    assert_same(here, model.fit(*frames(X, y), weight).ensemble_)


def test_a_frontier_has_the_sizes_of_memory():  # its training errors need columns
    X, y = table()
    here, there = (frontier(*data, max_learners=4) for data in ((X, y), frames(X, y)))
    assert [p.n_learners for p in there.points] == [p.n_learners for p in here.points]
    for one, other in zip(here.points, there.points, strict=True):
        assert_same(one.ensemble, other.ensemble)
        assert other.risk == pytest.approx(one.risk, rel=1e-8)
        assert other.bound <= other.objective


def test_folds_choose_as_in_memory():
    X, y = table()
    here, there = (
        TotalQBoostClassifierCV(max_learners=3, cv=2, random_state=0).fit(*data)
        for data in ((X, y), frames(X, y))
    )
    assert_same(here.ensemble_, there.ensemble_)


@pytest.mark.filterwarnings("ignore", category=ConvergenceWarning)
@pytest.mark.parametrize(
    ("n_classes", "how"), [(2, {"n_bits": 6}), (2, {"solver": "exact"}), (3, {})]
)
def test_integers_solvers_and_many_classes_are_for_the_driver(n_classes, how):
    X, y = table(n_classes=n_classes)
    model = TotalQBoostClassifier(0, max_learners=3, **how)
    here = model.fit(X, y).ensemble_
    assert_same(here, model.fit(*frames(X, y)).ensemble_)


def block_of(rng, n_rows, n_scores=1):
    """Return rows of two features with three codes each, and what three columns ask."""
    codes = rng.integers(0, 3, (2, n_rows)).astype(np.uint8)
    y = rng.choice([-1, 1], n_rows) if n_scores == 1 else rng.integers(0, 3, n_rows)
    weight, none = rng.uniform(size=n_rows), np.zeros((0, n_rows), np.uint16)
    block = Block(Layout(np.array([3, 3])), codes, none, y, weight)
    answers = [Answers(f, np.array([1, -1, 1], np.int8)) for f in (0, 1)]
    votes = rng.choice([-1.0, 1.0], (3, n_scores))
    return block, [Slot(None, votes[0]), *map(Slot, answers, votes[1:])]


def at(w, slots, loss):
    """Return the ensemble of weights w as workers know it."""
    (_, votes), *others = slots
    tables = {
        a.feature: np.outer(a.signs, wj * v) for (a, v), wj in zip(others, w[1:], strict=True)
    }
    return Point(tables, w[0] * votes, loss)


@pytest.mark.parametrize("loss", [Logistic(), Exponential(), Squared()])
def test_merged_patterns_have_the_sums_of_all_rows(loss):
    rng = np.random.default_rng(0)
    block, slots = block_of(rng, 60)
    w = rng.normal(size=3)
    # An empty part, and parts that have only some of the patterns.
    parts = [block.subset(np.arange(a, b), 1.0) for a, b in ((0, 0), (0, 5), (5, 60))]
    found = merged([patterns_of(part, slots) for part in parts])
    risk, slopes, gram = found.model(w, loss)
    sums = block.model(at(w, slots, loss), slots)
    np.testing.assert_allclose([risk, *slopes, *gram.ravel()], sums, rtol=1e-12, atol=1e-12)
    assert len(found.keys) == len(set(found.keys.tolist())) <= 8


def test_too_many_patterns_are_none(monkeypatch):
    block, slots = block_of(np.random.default_rng(0), 60)
    one = patterns_of(block, slots)
    other = Patterns(one.keys + np.uint64(100), one.weight)
    monkeypatch.setattr(patterns, "MOST_PATTERNS", len(one.keys) - 1)
    assert patterns_of(block, slots) is None
    assert merged([one, None]) is None
    monkeypatch.setattr(patterns, "MOST_PATTERNS", 2 * len(one.keys) - 1)
    assert patterns_of(block, slots) is not None
    assert merged([one, other]) is None


@pytest.mark.parametrize("loss", [Logistic(), Exponential(), Squared()])
@pytest.mark.parametrize("n_scores", [1, 3])
def test_sums_of_a_block_are_those_of_its_rows(loss, n_scores):
    rng = np.random.default_rng(0)
    block, slots = block_of(rng, 40, n_scores)
    codes, y, weight = block.small, block.y, block.weight
    votes, answers = np.array([slot.votes for slot in slots]), [slot.answers for slot in slots[1:]]
    w = rng.normal(size=3)
    sums = block.model(at(w, slots, loss), slots)
    risk, slopes, gram = 0.0, np.zeros(3), np.zeros((3, 3))
    for i in range(40):
        for t in range(n_scores):
            sign = y[i] if n_scores == 1 else (1 if y[i] == t else -1)
            h = np.array([1, *(a.signs[codes[f, i]] for f, a in enumerate(answers))])
            a = sign * h * votes[:, t]
            z = np.array([a @ w])
            risk += weight[i] / n_scores * loss.value(z)[0]
            slopes += weight[i] / n_scores * loss.weight(z)[0] * a
            gram += weight[i] / n_scores * loss.curvature(z)[0] * np.outer(a, a)
    np.testing.assert_allclose(sums, [risk, *slopes, *gram.ravel()], rtol=1e-12, atol=1e-12)


def test_a_step_solves_the_quadratic_model_with_its_l1_term():
    rng = np.random.default_rng(1)
    root = rng.normal(size=(6, 6))
    model = Model(1.0, rng.normal(size=6), root @ root.T + 0.1 * np.eye(6))
    w, nus = rng.normal(size=6), np.full(6, 0.3)
    least = np.array([-np.inf] * 3 + [0.0] * 3)
    w = np.maximum(w, least)
    step, gain = newton_step(model, w, nus, least)
    x = w + step
    slope = -model.slopes + model.gram @ step

    def value(x):
        d = x - w
        return -model.slopes @ d + 0.5 * d @ model.gram @ d + nus @ np.abs(x)

    assert gain == pytest.approx(value(w) - value(x))
    for j in range(6):
        if x[j] != 0.0:
            assert slope[j] + nus[j] * np.sign(x[j]) == pytest.approx(0.0, abs=1e-8)
        else:
            assert slope[j] + nus[j] >= -1e-8
            assert slope[j] - nus[j] <= 1e-8 or least[j] == 0.0
