"""Dictionaries: thresholds, and oracles against brute force over all their columns."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import minimize
from sklearn.tree import DecisionTreeClassifier

from totalqboost import dictionaries
from totalqboost.dictionaries import Columns, FittedClassifiers, Stumps, stumps
from totalqboost.dictionaries.stumps import cut_points
from totalqboost.kernels.histogram import (
    BY_EXPONENTIAL_DECREASE,
    BY_NEWTON_DECREASE,
    price_of_cut,
)
from totalqboost.learners import Constant, Stump

ALL = 65536


# -- thresholds --------------------------------------------------------------------------


def assert_separates(x, thresholds):
    """Assert one threshold in each gap between neighbouring distinct values."""
    values = np.unique(x).astype(float)
    assert len(thresholds) == len(values) - 1
    assert (values[:-1] <= thresholds).all()
    assert (thresholds < values[1:]).all()  # x > threshold tells the two apart


def test_thresholds_are_midway_between_neighbouring_distinct_values():
    x = np.array([3.0, 1.0, 1.0, 7.0, 3.0, -2.0])
    np.testing.assert_array_equal(cut_points(x, ALL), [-0.5, 2.0, 5.0])


def test_a_constant_feature_has_no_threshold():
    assert len(cut_points(np.full(5, 3.25), ALL)) == 0
    assert len(cut_points(np.array([0.0, -0.0]), ALL)) == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("start", [1.0, -1.0, 0.0, 1e30, 5e-40])
def test_adjacent_floats_are_told_apart(dtype, start):
    x = [dtype(start)]
    for _ in range(4):
        x.append(np.nextafter(x[-1], dtype(np.inf)))
    assert_separates(np.array(x), cut_points(np.array(x), ALL))


def test_denormal_numbers_are_told_apart():
    x = 5e-324 * np.arange(6)
    assert_separates(x, cut_points(x, ALL))


def test_huge_numbers_do_not_overflow():
    x = np.array([-1.7e308, 1.5e308, 1.7e308])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        thresholds = cut_points(x, ALL)
    np.testing.assert_allclose(thresholds, [-1e307, 1.6e308], rtol=1e-12)


@pytest.mark.filterwarnings("ignore:overflow")
@given(
    hnp.arrays(
        st.sampled_from([np.float32, np.float64]),
        st.integers(2, 12),
        elements={"allow_nan": False, "allow_infinity": False},
    )
)
def test_thresholds_separate_any_finite_numbers(x):
    assert_separates(x, cut_points(x, ALL))


@pytest.mark.parametrize("max_bins", [2, 3, 7, 16, 255])
def test_quantile_bins_are_few_and_even(max_bins):
    x = np.random.default_rng(0).normal(size=2000)
    thresholds = cut_points(x, max_bins)
    assert len(thresholds) == max_bins - 1
    assert np.isin(thresholds, cut_points(x, ALL)).all()
    counts = np.histogram(x, [-np.inf, *thresholds, np.inf])[0]
    assert counts.max() - counts.min() <= 2


def test_few_distinct_values_are_not_binned():
    x = np.repeat([1.0, 2.0, 5.0], [90, 5, 5])
    np.testing.assert_array_equal(cut_points(x, 3), [1.5, 3.5])


@pytest.mark.parametrize("common", [0.0, 30.0, 60.0])
def test_a_value_that_fills_most_bins_does_not_swallow_the_feature(common):
    """95 % of rows share one value; the others still must be cut off from it."""
    x = np.concatenate([np.full(950, common), np.arange(1.0, 51.0)])
    thresholds = cut_points(x, 8)
    assert 1 <= len(thresholds) <= 7
    above, below = x[x > common], x[x < common]
    if len(above):
        assert ((thresholds >= common) & (thresholds < above.min())).any()
    if len(below):
        assert ((thresholds >= below.max()) & (thresholds < common)).any()


# -- stumps against brute force ----------------------------------------------------------


def all_stumps(X):
    """Return every stump of the data: all features, thresholds and polarities."""
    return [
        Stump(f, float(t), polarity)
        for f in range(X.shape[1])
        for t in cut_points(X[:, f], ALL)
        for polarity in (1, -1)
    ]


def mixed_data(seed=0, m=320):
    """Return features with few, many (over 256) and one value, in no order."""
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            rng.integers(0, 5, size=m),
            rng.normal(size=m),
            np.full(m, 3.0),
            rng.integers(0, 40, size=m),
            rng.exponential(size=m),
            rng.integers(0, 2, size=m),
        ]
    )
    noise = rng.normal(size=m)
    y = np.where(X[:, 0] - 2 + X[:, 1] + noise > 0, 1, -1)
    return X, y, rng.random(m) + 0.01


def edge(stump, X, y, u):
    return float((u * y * stump.predict(X)).sum())


def z_decrease(stump, X, y, u):
    """Return the most that adding w h + b, w >= 0, takes off the exponential risk."""
    h = stump.predict(X).astype(float)

    def risk(x):
        e = u * np.exp(-y * (x[0] * h + x[1]))
        return e.sum(), -np.array([(e * y * h).sum(), (e * y).sum()])

    found = minimize(risk, [0.1, 0.0], jac=True, bounds=[(0, 30), (-30, 30)], tol=1e-14)
    return float(u.sum() - found.fun)


def newton_decrease(stump, X, y, u, q):
    """Return the same for the second-order model with slope -u and curvature q."""
    h = stump.predict(X).astype(float)
    B = np.vstack([h, np.ones(len(y))])
    slope = (B * (u * y)).sum(axis=1)
    hessian = (B * q) @ B.T
    step = np.linalg.solve(hessian, slope)
    if step[0] < 0:  # the weight stays at zero
        return 0.5 * slope[1] ** 2 / hessian[1, 1]
    return float(0.5 * slope @ step)


@pytest.mark.parametrize("seed", range(3))
def test_the_best_stump_has_the_largest_edge_of_all(seed):
    X, y, u = mixed_data(seed)
    u /= u.sum()
    best = Stumps().prepare(X, y).best(u)[0]
    edges = {stump: edge(stump, X, y, u) for stump in all_stumps(X)}
    edges[Constant(1)], edges[Constant(-1)] = (u * y).sum(), -(u * y).sum()
    assert best.edge == pytest.approx(max(edges.values()), abs=1e-12)
    assert best.price == best.edge
    assert edges[best.learner] == pytest.approx(best.edge, abs=1e-12)
    np.testing.assert_array_equal(best.column, y * best.learner.predict(X))


@pytest.mark.parametrize("seed", range(2))
def test_the_best_stump_with_an_intercept_lowers_the_exponential_risk_most(seed):
    X, y, u = mixed_data(seed, m=60)
    best = Stumps().prepare(X, y).best(u, curvature=u)[0]
    prices = [z_decrease(stump, X, y, u) for stump in all_stumps(X)]
    assert best.price == pytest.approx(max(prices), rel=1e-6)
    assert z_decrease(best.learner, X, y, u) == pytest.approx(best.price, rel=1e-6)
    assert best.edge == pytest.approx(edge(best.learner, X, y, u), abs=1e-12)


@pytest.mark.parametrize("seed", range(2))
def test_the_best_stump_with_an_intercept_lowers_the_second_order_model_most(seed):
    X, y, u = mixed_data(seed, m=60)
    q = np.random.default_rng(seed).random(60) + 0.05
    best = Stumps().prepare(X, y).best(u, curvature=q)[0]
    prices = [newton_decrease(stump, X, y, u, q) for stump in all_stumps(X)]
    assert best.price == pytest.approx(max(prices), rel=1e-9)
    assert newton_decrease(best.learner, X, y, u, q) == pytest.approx(best.price, rel=1e-9)


@pytest.mark.parametrize("by_newton", [False, True], ids=["Z", "Newton"])
def test_every_price_beside_an_intercept_is_the_decrease_with_a_weight_that_is_not_negative(
    by_newton,
):
    """Also where the classes have very different weights and the edge alone misleads."""
    X, y, u = mixed_data(3, m=40)
    u = np.where(y > 0, 6.0 * u, u)
    q = np.random.default_rng(1).random(40) + 0.05
    found = Stumps().prepare(X, y).best(u, n=1000, curvature=q if by_newton else u)
    assert len(found) == len(all_stumps(X)) // 2  # one polarity of each
    for candidate in found:
        if by_newton:
            expected = newton_decrease(candidate.learner, X, y, u, q)
        else:
            expected = z_decrease(candidate.learner, X, y, u)
        assert candidate.price == pytest.approx(expected, rel=1e-5)


def test_negative_weights_are_allowed_under_the_edge_rule():
    X, y, u = mixed_data(1)
    u = u - 0.4  # the squared loss beyond margin 1
    best = Stumps().prepare(X, y).best(u)[0]
    assert best.edge == pytest.approx(max(edge(s, X, y, u) for s in all_stumps(X)), abs=1e-12)


RULES = {"edge": None, "Z": lambda u: u, "Newton": lambda u: u * (1.0 - u)}
every_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)


@every_rule
def test_the_n_best_are_distinct_and_in_order(rule):
    X, y, u = mixed_data(2, m=80)
    oracle = Stumps().prepare(X, y)
    curvature = None if rule is None else rule(u)
    found = oracle.best(u, n=25, curvature=curvature)
    assert len(found) == 25
    assert len({c.learner for c in found}) == 25
    prices = [c.price for c in found]
    assert prices == sorted(prices, reverse=True)
    for n in (1, 7):
        shorter = oracle.best(u, n=n, curvature=curvature)
        assert [c.learner for c in shorter] == [c.learner for c in found[:n]]


def test_the_n_best_are_the_best_of_all():
    X, y, u = mixed_data(3, m=50)
    found = Stumps().prepare(X, y).best(u, n=10)
    edges = [edge(stump, X, y, u) for stump in [*all_stumps(X), Constant(1), Constant(-1)]]
    np.testing.assert_allclose([c.edge for c in found], sorted(edges)[-1:-11:-1], atol=1e-12)


@every_rule
def test_excluded_columns_are_never_offered(rule):
    X, y, u = mixed_data(4, m=30)
    X = X[:, [0, 2, 3, 5]]
    oracle = Stumps().prepare(X, y)
    curvature = None if rule is None else rule(u)
    excluded, offered = set(), []
    while found := oracle.best(u, excluded, curvature=curvature):
        assert found[0].learner not in excluded
        excluded.add(found[0].learner)
        offered.append(found[0].price)
        assert len(offered) <= len(all_stumps(X)) + 2
    np.testing.assert_allclose(offered, sorted(offered, reverse=True), atol=1e-12)
    if rule is None:
        assert excluded == {*all_stumps(X), Constant(1), Constant(-1)}
    else:  # one polarity of each cut: the other would need a negative weight
        cuts = {(s.feature, s.threshold) for s in excluded}
        assert len(excluded) == len(cuts) == len(all_stumps(X)) // 2


def test_a_blacklist_of_another_oracle_on_the_same_data_is_understood():
    X, y, u = mixed_data(5, m=60)
    first = Stumps().prepare(X, y).best(u, n=4)
    rest = Stumps().prepare(X, y).best(u, {c.learner for c in first[:3]})
    assert rest[0].learner == first[3].learner


def test_columns_are_offered_as_signs():
    X, y, u = mixed_data(6)
    for candidate in Stumps().prepare(X, y).best(u, n=12):
        assert candidate.column.dtype == np.int8
        np.testing.assert_array_equal(candidate.column, y * candidate.learner.predict(X))


def test_constants_are_offered_under_the_edge_rule():
    X = np.column_stack([np.arange(40.0), np.arange(40.0) % 7])
    y = np.where(np.isin(np.arange(40), [11, 24]), -1, 1)  # inside: no cut sets them apart
    oracle = Stumps().prepare(X, y)
    u = np.full(40, 1 / 40)
    best = oracle.best(u)[0]
    assert best.learner == Constant(1)
    assert best.edge == pytest.approx(36 / 40)
    np.testing.assert_array_equal(best.column, y)
    assert oracle.best(u, {Constant(1)})[0].learner != Constant(1)
    assert oracle.best(-u)[0].learner == Constant(-1)


def test_constants_for_a_free_intercept():
    X, y, _ = mixed_data(0, m=20)
    for oracle in (Stumps().prepare(X, y), FittedClassifiers([]).prepare(X, y)):
        np.testing.assert_array_equal(oracle.column(Constant(1)), y)
        np.testing.assert_array_equal(oracle.column(Constant(-1)), -y)


@every_rule
def test_a_constant_feature_is_never_cut(rule):
    X, y, u = mixed_data(7, m=40)
    curvature = None if rule is None else rule(u)
    found = Stumps().prepare(X, y).best(u, n=10_000, curvature=curvature)
    assert len(found) > 50
    assert 2 not in {c.learner.feature for c in found if isinstance(c.learner, Stump)}


@every_rule
def test_data_of_constant_features_offer_no_stump(rule):
    X, y, u = np.ones((6, 2)), np.array([1, 1, 1, 1, -1, -1]), np.full(6, 1 / 6)
    curvature = None if rule is None else rule(u)
    found = Stumps().prepare(X, y).best(u, n=5, curvature=curvature)
    expected = [Constant(1), Constant(-1)] if rule is None else []
    assert [c.learner for c in found] == expected


# -- ties, threads, codes ----------------------------------------------------------------


def test_ties_go_to_the_first_feature_and_then_to_the_first_threshold():
    x = np.array([0.0, 1.0, 2.0, 3.0])
    X = np.column_stack([x[::-1], x, x])
    y = np.array([-1, 1, -1, 1])
    found = Stumps().prepare(X, y).best(np.full(4, 0.25), n=6)
    edges = [c.edge for c in found]
    assert edges == [0.5] * 6
    assert [(c.learner.feature, c.learner.threshold, c.learner.polarity) for c in found] == [
        (0, 0.5, -1),
        (0, 2.5, -1),
        (1, 0.5, 1),
        (1, 2.5, 1),
        (2, 0.5, 1),
        (2, 2.5, 1),
    ]


@every_rule
@pytest.mark.parametrize("n_jobs", [2, 3, -1])
def test_threads_do_not_change_the_offer(monkeypatch, rule, n_jobs):
    X, y, u = mixed_data(8, m=280)
    X = np.hstack([X, X[:, ::-1]])  # every column twice: ties everywhere
    curvature = None if rule is None else rule(u)
    alone = Stumps().prepare(X, y, n_jobs=1)
    assert alone.n_threads == 1
    monkeypatch.setattr(stumps, "PARALLEL_FROM", 0)
    together = Stumps().prepare(X, y, n_jobs=n_jobs)
    assert together.n_threads == n_jobs or n_jobs < 0
    for exclude in (set(), {c.learner for c in alone.best(u, n=6)}):
        expected = alone.best(u, exclude, n=40, curvature=curvature)
        found = together.best(u, exclude, n=40, curvature=curvature)
        assert [c.learner for c in found] == [c.learner for c in expected]
        assert [c.price for c in found] == [c.price for c in expected]


def test_large_data_are_scanned_by_several_threads(monkeypatch):
    X, y, u = mixed_data(9, m=50)
    monkeypatch.setattr(stumps, "PARALLEL_FROM", X.size)
    seen = set()
    original = stumps.best_cuts

    def spy(*arguments):
        seen.add(threading.current_thread().name)
        return original(*arguments)

    monkeypatch.setattr(stumps, "best_cuts", spy)
    Stumps().prepare(X, y, n_jobs=2).best(u)
    assert threading.main_thread().name not in seen
    seen.clear()
    Stumps().prepare(X[1:], y[1:], n_jobs=2).best(u[1:])  # just below the limit
    assert seen == {threading.main_thread().name}


def test_codes_take_one_byte_up_to_256_values_and_two_beyond():
    m = 300
    X = np.column_stack([np.arange(m) % 256, np.arange(m) % 257, np.arange(m), np.arange(m) % 3])
    y = np.where(np.arange(m) % 2, 1, -1)
    oracle = Stumps().prepare(X.astype(float), y)
    kinds = {int(f): g.codes.dtype for g in oracle.groups for f in g.features}
    assert kinds == {0: np.uint8, 1: np.uint16, 2: np.uint16, 3: np.uint8}
    rng = np.random.default_rng(0)
    for _ in range(4):
        u = rng.random(m)
        best = oracle.best(u)[0]
        expected = max(edge(s, X, y, u) for s in [*all_stumps(X), Constant(1), Constant(-1)])
        assert best.edge == pytest.approx(expected, abs=1e-12)


def test_max_bins_keeps_every_code_in_one_byte():
    X, y, u = mixed_data(10)
    oracle = Stumps(max_bins=256).prepare(X, y)
    assert [g.codes.dtype for g in oracle.groups] == [np.uint8]
    few = Stumps(max_bins=4).prepare(X, y)
    assert max(len(t) for t in few.thresholds) == 3
    offered = {c.learner for c in few.best(u, n=1000)}
    thresholds = {f: set(few.thresholds[f].tolist()) for f in range(X.shape[1])}
    assert all(s.threshold in thresholds[s.feature] for s in offered if isinstance(s, Stump))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("place", range(4))
def test_single_precision_features_are_cut_where_they_differ(order, place):
    rng = np.random.default_rng(3)
    low = np.float32(1.0)
    ladder = [low]
    for _ in range(5):
        ladder.append(np.nextafter(ladder[-1], np.float32(2.0)))
    X = np.asarray(rng.choice(ladder, size=(40, 2)), dtype=np.float32, order=order)
    y = np.where(X[:, 0] > ladder[place], 1, -1)
    best = Stumps().prepare(X, y).best(np.full(40, 1 / 40))[0]
    assert best.edge == pytest.approx(1.0)
    np.testing.assert_array_equal(best.column, 1)
    np.testing.assert_array_equal(best.learner.predict(X), y)


# -- explicit columns --------------------------------------------------------------------


def sign_data(seed=0, m=40, n=6):
    rng = np.random.default_rng(seed)
    X = rng.choice([-1.0, 1.0], size=(m, n))
    return X, rng.choice([-1, 1], size=m), rng.random(m) + 0.01


@pytest.mark.parametrize("seed", range(3))
def test_given_columns_are_ranked_by_their_edge(seed):
    X, y, u = sign_data(seed)
    found = Columns().prepare(X, y).best(u, n=10)
    edges = (u * y) @ X
    order = np.argsort(-edges)
    assert [c.learner.feature for c in found] == order.tolist()
    np.testing.assert_allclose([c.edge for c in found], edges[order], atol=1e-12)
    for candidate in found:
        np.testing.assert_array_equal(candidate.column, y * X[:, candidate.learner.feature])
        np.testing.assert_array_equal(candidate.learner.predict(X), X[:, candidate.learner.feature])


@pytest.mark.parametrize("seed", range(2))
def test_given_columns_with_an_intercept_are_ranked_by_the_decrease(seed):
    X, y, u = sign_data(seed)
    oracle = Columns().prepare(X, y)
    stumps_of_columns = [Stump(j, 0.0, 1) for j in range(6)]
    useful = [z_decrease(s, X, y, u) for s in stumps_of_columns]
    best = oracle.best(u, curvature=u)[0]
    assert best.price == pytest.approx(max(useful), rel=1e-6)
    q = np.random.default_rng(seed).random(40) + 0.05
    best = oracle.best(u, curvature=q)[0]
    useful = [newton_decrease(s, X, y, u, q) for s in stumps_of_columns]
    assert best.price == pytest.approx(max(useful), rel=1e-9)


@pytest.mark.parametrize("nu", [0.0, 0.3])
@pytest.mark.parametrize("is_exponential", [True, False])
def test_prices_of_given_columns_are_those_of_one_column_at_a_time(is_exponential, nu):
    X, y, u = sign_data(8, n=50)
    q = u if is_exponential else np.random.default_rng(8).random(40) + 0.05
    rule = BY_EXPONENTIAL_DECREASE if is_exponential else BY_NEWTON_DECREASE
    found = Columns().prepare(X, y).best(u, n=50, curvature=q, nu=nu)
    assert len(found) == 50
    for candidate in found:
        left = X[:, candidate.learner.feature] < 0
        sums = ((u * y)[left].sum(), q[left].sum(), (u * y).sum(), q.sum())
        price, is_positive = price_of_cut(rule, *sums, nu, 1e-12)
        assert candidate.price == pytest.approx(price if is_positive else 0.0, abs=1e-12)
    prices = [candidate.price for candidate in found]
    assert prices == sorted(prices, reverse=True)
    assert prices[0] > prices[-1] == 0.0


@every_rule
def test_given_columns_and_stumps_agree_on_columns_of_signs(rule):
    """On signs, the stumps of polarity +1 and the given columns are the same functions."""
    X, y, u = sign_data(4)
    curvature = None if rule is None else rule(u)
    given_best = Columns().prepare(X, y).best(u, n=6, curvature=curvature)
    stump_best = [
        c
        for c in Stumps().prepare(X, y).best(u, n=100, curvature=curvature)
        if c.learner.polarity == 1 and isinstance(c.learner, Stump)
    ]
    for mine, other in zip(given_best, stump_best, strict=False):
        if mine.price == 0:
            break  # would need a negative weight; stumps then offer the other polarity
        assert mine.learner == other.learner
        assert mine.price == pytest.approx(other.price, rel=1e-9)
        assert mine.edge == pytest.approx(other.edge, abs=1e-12)


@every_rule
def test_excluded_given_columns_are_never_offered(rule):
    X, y, u = sign_data(5)
    oracle = Columns().prepare(X, y)
    curvature = None if rule is None else rule(u)
    excluded = set()
    for _ in range(6):
        (found,) = oracle.best(u, excluded, curvature=curvature)
        assert found.learner not in excluded
        excluded.add(found.learner)
    assert oracle.best(u, excluded, curvature=curvature) == []


def test_ties_among_given_columns_go_to_the_first():
    X, y, u = sign_data(6, n=2)
    X = np.column_stack([X[:, 1], X[:, 0], X[:, 0], X[:, 1]])
    found = Columns().prepare(X, y).best(u, n=4)
    features = [c.learner.feature for c in found]
    assert features in ([0, 3, 1, 2], [1, 2, 0, 3])


@pytest.mark.parametrize("bad", [0.0, 2.0, np.nan])
def test_columns_must_be_signs(bad):
    X, y, _ = sign_data(7)
    X[3, 2] = bad
    with pytest.raises(ValueError, match=r"X must contain only -1 and \+1"):
        Columns().prepare(X, y)


def test_fitted_classifiers_are_ranked_by_their_edge():
    X, y, u = mixed_data(11, m=80)
    labels = np.where(y > 0, "yes", "no")
    trees = [
        DecisionTreeClassifier(max_depth=d, random_state=d, max_features=1).fit(X, labels)
        for d in (1, 2, 3)
    ]
    found = FittedClassifiers(trees).prepare(X, y).best(u, n=5)
    answers = [np.where(tree.predict(X) == "yes", 1, -1) for tree in trees]
    edges = np.array([(u * y * a).sum() for a in answers])
    assert [c.learner.index for c in found] == np.argsort(-edges).tolist()
    for candidate in found:
        np.testing.assert_array_equal(candidate.column, y * answers[candidate.learner.index])
        assert candidate.edge == pytest.approx(edges[candidate.learner.index], abs=1e-12)


def test_a_fitted_classifier_of_one_class_is_refused():
    X, y, _ = mixed_data(12, m=20)
    tree = DecisionTreeClassifier().fit(X, np.zeros(20))
    with pytest.raises(ValueError, match="classifier 0 of the dictionary must have two classes"):
        FittedClassifiers([tree]).prepare(X, y)


def test_no_classifiers_offer_nothing():
    X, y, u = mixed_data(13, m=20)
    oracle = FittedClassifiers([]).prepare(X, y)
    assert oracle.best(u) == []


# -- names and errors --------------------------------------------------------------------


@pytest.mark.parametrize("max_bins", [1, 0, -3, 65537])
def test_max_bins_out_of_range_is_named(max_bins):
    with pytest.raises(ValueError, match=rf"max_bins must be between 2 and 65536.* {max_bins}"):
        Stumps(max_bins=max_bins)


def test_names_lead_to_dictionaries():
    assert dictionaries.names() == ["columns", "pairs", "stumps"]
    assert dictionaries.get("stumps") == Stumps()
    assert dictionaries.get("columns") == Columns()
    own = Stumps(max_bins=8)
    assert dictionaries.get(own) is own


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"one of \['columns', 'pairs', 'stumps'\].* got 'trees'"):
        dictionaries.get("trees")


@pytest.mark.parametrize("thing", [3, None, object(), Stumps])
def test_what_cannot_prepare_is_refused(thing):
    with pytest.raises(TypeError, match=r"one of \['columns', 'pairs', 'stumps'\]"):
        dictionaries.get(thing)
