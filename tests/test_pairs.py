"""Conjunctions of two conditions: the learner, the oracle, fits and files."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import sparse

from totalqboost import (
    Ensemble,
    TotalQBoostClassifier,
    TotalQBoostClassifierCV,
    frontier,
    losses,
)
from totalqboost.dictionaries import Pairs, get
from totalqboost.dictionaries.base import Shift
from totalqboost.kernels.histogram import BY_NEWTON_DECREASE, price_of_cut
from totalqboost.learners import Both, CategorySet, Constant, Feature, Missing, Stump

FEATURES = (Feature("age", has_missing=True), Feature("city", ("a", "b", "c")), Feature("dose"))


def interaction(seed=0, m=300):
    """Return labels that depend on a product of two features, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 4))
    y = np.where((X[:, 0] > 0.2) & (X[:, 2] <= 0.5), 1, -1)
    y[rng.random(m) < 0.05] *= -1
    return X, y


# -- the learner -------------------------------------------------------------------------


def test_a_conjunction_answers_and_describes_itself():
    pair = Both.of(CategorySet(1, (0, 1)), Stump(0, 40.0))
    assert pair == Both(Stump(0, 40.0), CategorySet(1, (0, 1)))
    assert pair.features == (0, 1)
    X = np.array([[50.0, 0, 0], [50, 2, 0], [30, 1, 0], [np.nan, 1, 0]])
    np.testing.assert_array_equal(pair.predict(X), [1, -1, -1, -1])
    np.testing.assert_array_equal(pair.negated().predict(X), [-1, 1, 1, 1])
    assert pair.describe(FEATURES) == ("age, city", "age > 40 and city in {a, b}")
    assert pair.negated().describe(FEATURES)[1] == "not (age > 40 and city in {a, b})"
    missing = Both.of(Missing(0), Stump(2, 1.0, -1))
    assert missing.describe(FEATURES)[1] == "age missing and dose <= 1"
    between = Both.of(Stump(2, 1.0), Stump(2, 2.0, -1))
    assert between.describe(FEATURES) == ("dose", "dose > 1 and dose <= 2")
    assert between.features == (2,)


def ensemble():
    pairs = (
        Both.of(Stump(0, 40.0, 1, True), CategorySet(1, (0, 1))),
        Both.of(Missing(0, -1), Stump(2, 1.0, -1), -1),
        Stump(2, 3.0),
    )
    return Ensemble(pairs, (0.5, 0.3, 0.2), 0.1, ("no", "yes"), FEATURES, "logistic")


def test_an_ensemble_with_conjunctions_is_scored_printed_and_saved(tmp_path):
    model = ensemble()
    assert model.n_learners == 3
    assert model.n_comparisons == 5
    assert Ensemble((Constant(1),), (1.0,)).n_comparisons == 0
    model.save(tmp_path / "model.json")
    assert Ensemble.load(tmp_path / "model.json") == model
    X = np.array([[50.0, 0, 0], [np.nan, 2, 4], [30, 1, 2], [np.nan, 1, 0]])
    expected = 0.1 + sum(
        w * h.predict(X) for h, w in zip(model.learners, model.weights, strict=True)
    )
    np.testing.assert_allclose(model.scores(X), expected)
    np.testing.assert_allclose(model.narrowed().scores(X), expected)
    assert "age > 40 or missing and city in {a, b}" in str(model)
    assert "age" in str(model.explain([[50.0, "a", 2.0]]))


@pytest.mark.parametrize("part", [{"kind": "constant", "polarity": 1}, {"kind": "both"}, 3, None])
def test_a_file_with_another_kind_of_condition_is_refused(part):
    content = json.loads(json.dumps(ensemble().to_dict()))
    content["learners"][0]["first"] = part
    with pytest.raises(ValueError, match="first must be"):
        Ensemble.from_dict(content)


def test_a_sum_by_feature_of_conjunctions_is_refused():
    with pytest.raises(TypeError, match="one feature each, got a Both"):
        _ = ensemble().explain([[50.0, "a", 2.0]]).feature_contributions


# -- the oracle --------------------------------------------------------------------------


def price(learner, X, y, u, q):
    h = learner.predict(X) > 0
    g = u * y
    sums = g[~h].sum(), q[~h].sum(), g.sum(), q.sum()
    return price_of_cut(BY_NEWTON_DECREASE, *sums, 0.0, 1e-12)


def test_the_best_conjunction_of_a_small_table_is_found():
    """By brute force over all pairs of stumps; first conditions are enough on so few features."""
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(10):
        X = rng.integers(0, 3, size=(60, 3)).astype(float)
        y, u, q = rng.choice([-1, 1], 60), rng.random(60), rng.random(60)
        oracle = Pairs().prepare(X, y)
        stumps = [Stump(f, t, p) for f in range(3) for t in (0.5, 1.5) for p in (1, -1)]
        pairs = [Both.of(a, b) for i, a in enumerate(stumps) for b in stumps[:i]]
        best = max(price(h, X, y, u, q)[0] for h in [*pairs, *stumps])
        found = oracle.best(u, (), 1, q)[0]
        assert found.price == pytest.approx(price(found.learner, X, y, u, q)[0], rel=1e-9)
        assert found.edge == pytest.approx(float(u @ (y * found.learner.predict(X))))
        np.testing.assert_array_equal(found.column, y * found.learner.predict(X))
        assert price(found.learner, X, y, u, q)[1] or found.learner.polarity < 0
        hits += found.price >= best - 1e-9
    assert hits == 10


def test_prices_edges_and_columns_are_those_of_the_learner_for_all_kinds_of_features():
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.normal(size=120), rng.integers(0, 3, 120), rng.normal(size=120)])
    X[::5, 0] = np.nan
    y, u, q = rng.choice([-1, 1], 120), rng.random(120), rng.random(120)
    oracle = Pairs().prepare(X, y, None, FEATURES)
    kinds = set()
    for extra in (0.0, 0.01):
        for candidate in oracle.best(u, (), 60, q, extra=extra):
            h = candidate.learner
            fee = extra * oracle.n_extras(h)
            assert candidate.price == pytest.approx(price(h, X, y, u, q)[0] - fee, rel=1e-9)
            assert candidate.edge == pytest.approx(float(u @ (y * h.predict(X))))
            np.testing.assert_array_equal(candidate.column, y * h.predict(X))
            if isinstance(h, Both):
                kinds |= {type(part) for part in h.parts}
                assert oracle.n_extras(h) >= 1
    assert {Stump, CategorySet} <= kinds
    excluded = [c.learner for c in oracle.best(u, (), 20, q)]
    assert not set(excluded) & {c.learner for c in oracle.best(u, excluded, 20, q)}


def test_candidates_have_the_sums_of_their_learners():
    X, y = interaction()
    oracle = Pairs().prepare(X, y)
    wanted = Both.of(Stump(1, float(oracle.base.thresholds[1][7])), Stump(3, 0.0), -1)
    wanted = Both.of(wanted.first, Stump(3, float(oracle.base.thresholds[3][9])), -1)
    grid = oracle.candidates(False, [wanted])
    rng = np.random.default_rng(0)
    rows = np.sort(rng.permutation(300)[:250])
    Q = rng.normal(size=(250, 8)).astype(np.float32)
    Q[:, 1] = 0.2
    sums = grid.sums(Q, rows)
    assert len(sums) == len(grid.features) == len(grid.is_signed) == len(grid.extras)
    learners = [grid.learner(s) for s in range(len(sums))]
    assert wanted.negated() in learners
    for s in range(0, len(sums), 11):
        np.testing.assert_allclose(sums[s], learners[s].predict(X[rows]) @ Q, atol=1e-3)


def test_a_moved_cut_lowers_the_risk():
    X, y = interaction()
    oracle = Pairs().prepare(X, y)
    loss, c = losses.get("logistic"), np.full(300, 1 / 300)
    t0, t2 = oracle.base.thresholds[0], oracle.base.thresholds[2]
    start = Both.of(Stump(0, float(t0[120])), Stump(2, float(t2[200]), -1))
    z = 0.8 * oracle.column(start)
    moved = oracle.refined(start, Shift(0.8, z, c * loss.weight(z), c, loss))
    assert moved is not None
    assert c @ loss.value(0.8 * oracle.column(moved)) < c @ loss.value(z)


# -- fits --------------------------------------------------------------------------------


def test_an_interaction_needs_one_conjunction():
    X, y = interaction()
    model = TotalQBoostClassifier(dictionary="pairs", max_learners=1).fit(X, y)
    (learner,) = model.ensemble_.learners
    assert isinstance(learner, Both)
    assert learner.features == (0, 2)
    assert model.score(X, y) > 0.9
    assert model.score(X, y) > TotalQBoostClassifier(max_learners=2).fit(X, y).score(X, y)
    S = TotalQBoostClassifier(dictionary=Pairs(), max_learners=1).fit(sparse.csr_matrix(X), y)
    assert S.ensemble_ == model.ensemble_
    np.testing.assert_array_equal(S.predict(sparse.csr_matrix(X)), model.predict(X))


def test_sizes_are_never_worse_than_smaller_ones_and_fees_are_paid():
    X, y = interaction(3)
    front = frontier(X, y, max_learners=4, dictionary="pairs", feature_costs=1.0, max_features=3)
    objectives = [point.objective for point in front]
    assert objectives == sorted(objectives, reverse=True)
    assert all(len(point.ensemble.used_features) <= 3 for point in front)


def test_cross_validation_chooses_between_stumps_and_pairs():
    X, y = interaction(1)
    model = TotalQBoostClassifierCV(3, cv=3, dictionary=["stumps", "pairs"]).fit(X, y)
    assert model.score(X, y) > 0.9
    assert any(isinstance(h, Both) for h in model.ensemble_.learners)
    rng = np.random.default_rng(0)
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=300) > 0, 1, -1)  # one feature decides
    model = TotalQBoostClassifierCV(3, cv=3, dictionary=["stumps", "pairs"]).fit(X, y)
    assert model.ensemble_.n_comparisons <= 2


def test_a_monotone_feature_is_in_no_conjunction():
    X, y = interaction(2)
    model = TotalQBoostClassifier(
        dictionary="pairs", max_learners=3, monotonic_cst=[1, 0, 0, 0]
    ).fit(X, y)
    for learner in model.ensemble_.learners:
        assert not (isinstance(learner, Both) and 0 in learner.features)
        assert learner.features != (0,) or learner.polarity > 0


def test_more_than_two_classes_are_refused():
    X, _ = interaction()
    with pytest.raises(ValueError, match="dictionary must be 'stumps' or 'columns'"):
        TotalQBoostClassifier(dictionary="pairs").fit(X, np.arange(300) % 3)


def test_the_name_is_known():
    assert get("pairs") == Pairs()
    with pytest.raises(ValueError, match="max_bins"):
        Pairs(max_bins=1)
