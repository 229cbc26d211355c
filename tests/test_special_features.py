"""Missing values, categories and monotone features: the oracle against brute force."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from totalqboost.boosting import Engine, Terms, every_size
from totalqboost.boosting.fees import Fees
from totalqboost.dictionaries import Stumps
from totalqboost.dictionaries.base import Shift
from totalqboost.dictionaries.classes import ClassOracle
from totalqboost.learners import CategorySet, Constant, Feature, Missing, Stump, Votes
from totalqboost.losses import Logistic
from totalqboost.solvers import LocalSearch

LABELS = ("a", "b", "c", "d", "e")
KINDS = (
    Feature("number"),
    Feature("gaps", has_missing=True),
    Feature("letter", categories=LABELS),
    Feature("up", monotone=1),
)
EXTRA = 0.004


def table(seed, m=60):
    """Return numbers, numbers with gaps, codes of categories and a monotone feature."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 5, size=(m, 4)).astype(float)
    X[rng.random(m) < 0.3, 1] = np.nan
    score = X[:, 0] - 2 + np.where(np.isnan(X[:, 1]), 1.0, 0.5) + np.isin(X[:, 2], [1, 3])
    y = np.where(score + rng.normal(size=m) > 0.5, 1, -1)
    return X, y


def every_learner(X):
    """Return all learners of the table, with their extras."""
    found = []
    for f, kind in enumerate(KINDS):
        x = X[:, f]
        if kind.categories is not None:
            present = np.unique(x).astype(int).tolist()
            for size in range(1, len(present) // 2 + 1):
                for codes in combinations(present, size):
                    found.append((CategorySet(f, codes), size - 1))
            continue
        values = np.unique(x[~np.isnan(x)])
        for threshold in (values[1:] + values[:-1]) / 2:
            is_above = 2 * np.sum(x > threshold) > np.sum(~np.isnan(x))
            found.append((Stump(f, float(threshold), 1, bool(kind.has_missing and is_above)), 0))
            if kind.has_missing:
                found.append((Stump(f, float(threshold), 1, not is_above), 1))
        if kind.has_missing:
            found.append((Missing(f), 1))
    both = [(h, n) for h, n in found if KINDS[h.features[0]].monotone == 0]
    return found + [(h.negated(), n) for h, n in both]


def newton_price(column, u, q, y, nu):
    """Return the decrease of the second-order model with a free intercept, for weights >= 0."""
    h = column * y
    G, H = (u * y).sum(), q.sum()
    slope = (u * y * h).sum() - (q * h).sum() * G / H
    spread = H - (q * h).sum() ** 2 / H
    size = max(slope - nu, 0.0)
    return 0.5 * G * G / H + (0.5 * size**2 / spread if spread > 1e-12 else 0.0)


@pytest.mark.parametrize("seed", range(6))
def test_columns_are_the_answers_of_their_learners(seed):
    X, y = table(seed)
    oracle = Stumps().prepare(X, y, features=KINDS)
    for learner, extras in every_learner(X):
        np.testing.assert_array_equal(oracle.column(learner), y * learner.predict(X))
        assert oracle.n_extras(learner) == extras, learner


@pytest.mark.parametrize("extra", [0.0, EXTRA, 0.05])
@pytest.mark.parametrize("seed", range(8))
def test_the_best_column_is_the_best_of_all(seed, extra):
    X, y = table(seed)
    rng = np.random.default_rng(seed)
    u, q = rng.random(len(y)) / len(y), rng.random(len(y)) / len(y)
    oracle, nu = Stumps().prepare(X, y, features=KINDS), 0.002
    offered = oracle.best(u, curvature=q, nu=nu, extra=extra)[0]
    best = max(newton_price(oracle.column(h), u, q, y, nu) - extra * n for h, n in every_learner(X))
    mine = newton_price(offered.column, u, q, y, nu) - extra * oracle.n_extras(offered.learner)
    assert offered.price == pytest.approx(mine)
    assert mine == pytest.approx(best, rel=0.02)  # sets of several categories are a heuristic
    if extra == 0.0:
        assert mine == pytest.approx(best)
    assert offered.edge == pytest.approx(u @ offered.column)


@pytest.mark.parametrize("seed", range(6))
def test_the_largest_edge_is_the_largest_of_all(seed):
    X, y = table(seed)
    u = np.random.default_rng(seed).random(len(y))
    oracle = Stumps().prepare(X, y, features=KINDS)
    columns = [oracle.column(h) for h, _ in every_learner(X)] + [y, -y]
    offered = oracle.best(u)[0]
    assert offered.edge == pytest.approx(max(u @ column for column in columns))


def test_excluded_learners_are_not_offered_again():
    X, y = table(0)
    oracle = Stumps().prepare(X, y, features=KINDS)
    u = np.full(len(y), 1.0 / len(y))
    seen = set()
    for _ in range(15):
        (candidate,) = oracle.best(u, exclude=seen, curvature=u)
        assert candidate.learner not in seen
        seen.add(candidate.learner)


def test_monotone_features_have_one_sign_only():
    X, y = table(1)
    oracle = Stumps().prepare(X, -y, features=KINDS)  # which goes against the constraint
    u = np.random.default_rng(1).random(len(y))
    for curvature in (None, u):
        for candidate in oracle.best(u, n=40, curvature=curvature):
            if candidate.learner.features == (3,):
                assert candidate.learner.polarity == 1
    assert not oracle.has_opposite(Stump(3, 0.5))
    assert oracle.has_opposite(Stump(0, 0.5))


@pytest.mark.parametrize("with_constant", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_sums_of_candidates_are_those_of_their_columns(seed, with_constant):
    X, y = table(seed)
    oracle = Stumps().prepare(X, y, features=KINDS)
    wanted = [CategorySet(2, (0, 2)), Stump(1, 2.5, 1, True)]
    candidates = oracle.candidates(with_constant, wanted)
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.permutation(len(y))[:50])
    Q = rng.random((50, 8)).astype(np.float32)
    sums = candidates.sums(Q, rows)
    n = len(sums)
    assert len(candidates.extras) == len(candidates.features) == len(candidates.is_signed) == n
    learners = [candidates.learner(s) for s in range(n)]
    for s, learner in enumerate(learners):
        np.testing.assert_allclose(sums[s], learner.predict(X)[rows] @ Q, rtol=1e-4, atol=1e-4)
        is_constant = isinstance(learner, Constant)
        assert candidates.features[s] == (-1 if is_constant else learner.features[0])
        assert candidates.extras[s] == (0 if is_constant else oracle.n_extras(learner))
        assert candidates.is_signed[s] == oracle.has_opposite(learner)
    assert CategorySet(2, (0, 2)) in learners
    values = rng.normal(size=len(y))
    expected = [values @ learner.predict(X) for learner in learners]
    np.testing.assert_allclose(candidates.edges(values), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_a_subset_is_the_oracle_of_its_rows(seed):
    X, y = table(seed, m=80)
    rows = np.sort(np.random.default_rng(seed).permutation(80)[:50])
    part = Stumps().prepare(X, y, features=KINDS).subset(rows)
    for learner in (Missing(1), CategorySet(2, (1, 3)), Stump(1, 1.5, -1, True), Stump(0, 2.5)):
        np.testing.assert_array_equal(part.column(learner), y[rows] * learner.predict(X[rows]))
    u = np.full(50, 0.02)
    whole = Stumps().prepare(X[rows], y[rows], features=KINDS)
    assert part.best(u, curvature=u)[0].price == pytest.approx(whole.best(u, curvature=u)[0].price)


@pytest.mark.parametrize("seed", range(6))
def test_refined_categories_lower_the_objective(seed):
    X, y = table(seed)
    oracle, loss = Stumps().prepare(X, y, features=KINDS), Logistic()
    before = CategorySet(2, (0,), 1)
    c = np.full(len(y), 1.0 / len(y))
    for weight in (0.8, -0.8):
        z = weight * oracle.column(before)
        shift = Shift(weight, z, c * loss.weight(z), c, loss, EXTRA)
        after = oracle.refined(before, shift)

        def value(learner, weight=weight):
            risk = c @ loss.value(weight * oracle.column(learner))
            return risk + EXTRA * oracle.n_extras(learner)

        neighbours = [
            CategorySet(2, tuple(sorted(set(before.codes) ^ {code}))) for code in range(1, 5)
        ]
        least = min(value(h) for h in neighbours)
        if after is None:
            assert least >= value(before) - 1e-12
        else:
            assert value(after) == pytest.approx(least)


def fees_by_hand(oracle, learners, price):
    used = {f for h in learners for f in h.features}
    return EXTRA * sum(oracle.n_extras(h) for h in learners) + sum(price[f] for f in used)


@pytest.mark.parametrize("limit", [None, 2])
def test_fees_of_newcomers_and_slots_are_differences(limit):
    X, y = table(3)
    oracle = Stumps().prepare(X, y, features=KINDS)
    price = np.array([0.1, 0.2, 0.4, 0.8])
    c = np.full(len(y), 1.0 / len(y))
    fees = Fees(oracle, Terms(Logistic(), c, extra=EXTRA, feature_price=price, max_features=limit))
    slots = [Stump(0, 1.5), Missing(1), Stump(0, 2.5)]
    assert fees.total(slots) == pytest.approx(fees_by_hand(oracle, slots, price))
    candidates = oracle.candidates(False)
    candidates.sums(np.zeros((len(y), 8), np.float32), np.arange(len(y)))
    newcomers, of_slots = fees.of_newcomers(candidates, slots), fees.of_slots(slots)
    for s in range(len(candidates.features)):
        learner = candidates.learner(s)
        if fees.allows([*slots, learner]):
            grown = fees.total([*slots, learner]) - fees.total(slots)
            assert newcomers.kept[s] == pytest.approx(grown)
        else:
            assert newcomers.kept[s] == np.inf
        for j in range(3):
            swapped = [h for i, h in enumerate(slots) if i != j] + [learner]
            is_last = of_slots.last[j] >= 0
            paid = newcomers.freed[s] if is_last else newcomers.kept[s]
            if is_last and newcomers.features[s] == of_slots.last[j]:
                paid += of_slots.again[j]
            if fees.allows(swapped):
                change = fees.total(swapped) - fees.total(slots)
                assert paid - of_slots.back[j] == pytest.approx(change)
            else:
                assert paid == np.inf


@pytest.mark.parametrize("limit", [None, 1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_points_of_a_search_pay_their_fees_and_keep_limits(seed, limit):
    X, y = table(seed, m=120)
    oracle = Stumps().prepare(X, y, features=KINDS)
    c, price = np.full(120, 1.0 / 120), np.array([0.01, 0.02, 0.0, 0.03])
    terms = Terms(Logistic(), c, 0.01, 0.0, 5, True, EXTRA, price, limit)
    points = every_size(Engine(oracle, terms, LocalSearch()), 5)
    assert len(points) > 2
    for point in points:
        learners = point.ensemble.learners
        used = {f for h in learners for f in h.features}
        assert limit is None or len(used) <= limit
        z = y * point.ensemble.decision_function(X)
        l1 = 0.01 * sum(point.ensemble.weights)
        value = c @ Logistic().value(z) + l1 + fees_by_hand(oracle, learners, price)
        assert point.objective == pytest.approx(value, abs=1e-6)
        assert all(h.polarity == 1 for h in learners if h.features == (3,))
    assert [p.objective for p in points] == sorted((p.objective for p in points), reverse=True)


# -- many classes ------------------------------------------------------------------------

PLAIN = (*KINDS[:3], Feature("other"))


def class_oracle(seed, m=60, n_classes=3):
    X, _ = table(seed, m)
    labels = np.random.default_rng(seed).integers(0, n_classes, m)
    base = Stumps().prepare(X, np.ones(m, dtype=np.int8), features=PLAIN)
    return X, ClassOracle(base, labels, n_classes)


def class_price(h, u, q, y, nu):
    """Return the decrease of a learner with its best votes and an intercept per class."""
    g = (u * y).reshape(len(h), -1)
    q = q.reshape(len(h), -1)
    e = h @ g - (h @ q) / q.sum(axis=0) * g.sum(axis=0)
    spread = q.sum(axis=0) - (h @ q) ** 2 / q.sum(axis=0)
    return 0.5 * max(np.abs(e).sum() - nu, 0.0) ** 2 / max(spread.sum(), 1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_shared_sets_are_the_best_of_all(seed):
    X, oracle = class_oracle(seed)
    rng = np.random.default_rng(seed)
    u, q = rng.random((2, len(oracle.y))) / len(oracle.y)
    offered = oracle.best(u, curvature=q, nu=0.001, extra=EXTRA)[0]
    prices = [
        class_price(h.predict(X), u, q, oracle.y, 0.001) - EXTRA * n
        for h, n in every_learner(X)
    ]  # fmt: skip
    assert offered.price == pytest.approx(max(prices), rel=0.02)
    own = class_price(offered.learner.learner.predict(X), u, q, oracle.y, 0.001)
    assert offered.price == pytest.approx(own - EXTRA * oracle.n_extras(offered.learner))
    expected = oracle.y * offered.learner.predict(X).ravel()
    np.testing.assert_array_equal(offered.column, expected)


@pytest.mark.parametrize("with_constant", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_sums_of_shared_candidates_are_those_of_their_columns(seed, with_constant):
    X, oracle = class_oracle(seed)
    candidates = oracle.candidates(with_constant)
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.permutation(len(oracle.y))[:150])
    Q = rng.normal(size=(150, 8)).astype(np.float32)
    kept = [Votes(CategorySet(2, (1,)), (1, 1, -1))]
    sums = candidates.sums(Q, rows, kept)
    n_zero = 0
    for s in range(len(sums)):
        learner = candidates.learner(s)
        assert learner.votes[0] == 1
        if learner.learner == kept[0].learner:
            n_zero += 1
            assert not sums[s].any()
            continue
        expected = learner.predict(X).ravel()[rows] @ Q
        np.testing.assert_allclose(sums[s], expected, rtol=1e-3, atol=1e-3)
        assert candidates.extras[s] == oracle.n_extras(learner) * (learner.features != ())
    assert n_zero > 0
    values = rng.normal(size=len(oracle.y))
    edges = candidates.edges(values)
    for s, edge in enumerate(edges):
        learner = candidates.learner(s)
        expected = (
            0.0 if learner.learner == kept[0].learner else values @ learner.predict(X).ravel()
        )
        assert edge == pytest.approx(expected, rel=1e-4, abs=1e-4)
