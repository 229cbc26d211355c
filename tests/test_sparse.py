"""Sparse matrices: the same stumps as those of the matrix made dense, at the price of the
non-zeros."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from totalqboost import TotalQBoostClassifier, TotalQBoostClassifierCV, frontier, losses
from totalqboost.dictionaries import Columns, FittedClassifiers, Stumps
from totalqboost.dictionaries import sparse as module
from totalqboost.dictionaries.base import Shift
from totalqboost.dictionaries.sparse import sparse_cut_points
from totalqboost.dictionaries.stumps import cut_points
from totalqboost.learners import Feature, Stump


def data(seed=0, m=200, n=8, density=0.3, n_classes=2):
    """Return a matrix of normal, whole, negative and constant columns, and labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n))
    X[:, 1] = np.round(2 * X[:, 1])
    X[:, 2] = -np.abs(X[:, 2])
    X[rng.random((m, n)) > density] = 0.0
    X[:, 3] = 1.5
    score = X[:, 0] + X[:, 1] - X[:, 2] + 0.4 * rng.normal(size=m)
    edges = np.quantile(score, np.arange(1, n_classes) / n_classes)
    return X, np.searchsorted(edges, score + 1e-9 * rng.normal(size=m))


def assert_same(one, other):
    assert one.learners == other.learners
    np.testing.assert_allclose(np.array(one.weights), np.array(other.weights), atol=1e-10)
    np.testing.assert_allclose(one.intercept, other.intercept, atol=1e-10)


# -- the oracle --------------------------------------------------------------------------


@given(
    st.lists(st.sampled_from([-2.0, -0.5, -0.0, 0.0, 1.0, 1.5, 7.0]), min_size=2, max_size=30),
    st.integers(0, 30),
    st.integers(2, 8),
)
def test_thresholds_are_those_of_the_dense_feature(values, n_more, max_bins):
    dense = np.concatenate([values, np.zeros(n_more)])
    found = sparse_cut_points(np.array(values), len(dense), max_bins)
    np.testing.assert_array_equal(found, cut_points(dense, max_bins))


@given(st.integers(0, 10_000), st.sampled_from([0.05, 0.3, 0.8, 1.0]), st.sampled_from([None, 5]))
@settings(max_examples=40, deadline=None)
def test_the_oracle_offers_what_the_dense_one_does(seed, density, max_bins):
    X, y = data(seed, 60, density=density)
    rng = np.random.default_rng(seed)
    features = [Feature(f"x{j}", monotone=int(rng.integers(-1, 2))) for j in range(X.shape[1])]
    signs, u, q = 2 * y - 1, rng.random(60), rng.random(60)
    dense = Stumps(max_bins).prepare(X, signs, None, features)
    own = Stumps(max_bins).prepare(sparse.csr_matrix(X), signs, None, features)
    rows = rng.integers(0, 60, 50)  # some of them twice
    for one, other, at in (
        (dense, own, np.arange(60)),
        (dense.subset(rows), own.subset(rows), rows),
    ):
        assert one.n_columns == other.n_columns
        for curvature in (None, u[at], q[at]):
            best = one.best(u[at], (), 4, curvature)
            found = other.best(u[at], (), 4, curvature)
            assert [c.learner for c in found] == [c.learner for c in best]
            for c, d in zip(found, best, strict=True):
                np.testing.assert_array_equal(c.column, d.column)
                assert c.edge == pytest.approx(d.edge, abs=1e-12)
            rest = other.best(u[at], [best[0].learner], 1, curvature)
            assert [c.learner for c in rest] == [
                c.learner for c in one.best(u[at], [best[0].learner], 1, curvature)
            ]


@pytest.mark.parametrize("with_constant", [True, False])
def test_candidates_and_their_sums_are_those_of_the_dense_grid(with_constant):
    X, y = data(3, 300, density=0.5)
    features = [Feature(f"x{j}", monotone=(j == 2) - (j == 5)) for j in range(X.shape[1])]
    dense = Stumps().prepare(X, 2 * y - 1, None, features)
    own = Stumps().prepare(sparse.csc_matrix(X), 2 * y - 1, None, features)
    wanted = [Stump(0, float(dense.thresholds[0][3])), Stump(5, float(dense.thresholds[5][-1]), -1)]
    one, other = (o.candidates(with_constant, wanted) for o in (dense, own))
    rows = np.sort(np.random.default_rng(0).permutation(300)[:200])
    Q = np.random.default_rng(1).normal(size=(200, 8)).astype(np.float32)
    np.testing.assert_allclose(other.sums(Q, rows), one.sums(Q, rows), atol=1e-3)
    for name in ("features", "is_signed", "extras"):
        np.testing.assert_array_equal(getattr(other, name), getattr(one, name))
    for s in range(0, len(one.features), 7):
        assert other.learner(s) == one.learner(s)
    assert set(wanted) <= {other.learner(s) for s in range(len(other.features))}


def test_of_many_features_the_promising_and_the_kept_ones_are_candidates(monkeypatch):
    monkeypatch.setattr(module, "MOST_FEATURES", 2)
    X, y = data(4, 200, n=12)
    oracle = Stumps().prepare(sparse.csc_matrix(X), 2 * y - 1)
    grid = oracle.candidates(False)
    Q = np.zeros((200, 8), np.float32)
    q = np.full(200, 0.2)
    slope = np.where(X[:, 7] > 0, 1.0, -0.1)  # feature 7 is the one to add
    Q[:, 0], Q[:, 1] = slope - slope.mean(), q
    sums = grid.sums(Q, np.arange(200), [Stump(9, float(oracle.thresholds[9][0]))])
    assert {7, 9} <= set(grid.features) < set(range(12))
    assert {0, 1, 2} & set(grid.features)  # best alone
    assert len(sums) == len(grid.features)
    s = int(np.argmax(np.abs(sums[:, 0])))
    assert grid.learner(s).feature == 7
    np.testing.assert_allclose(sums[s], grid.learner(s).predict(X) @ Q, rtol=1e-4)


def test_a_kept_cut_moves_to_the_same_place():
    X, y = data(5, 200, density=0.6)
    rng = np.random.default_rng(0)
    loss, c, signs = losses.get("logistic"), np.full(200, 1 / 200), 2 * y - 1
    z = rng.normal(size=200)
    shift = Shift(0.7, z, c * loss.weight(z), c, loss)
    dense, own = (Stumps().prepare(form, signs) for form in (X, sparse.csr_matrix(X)))
    moved = 0
    for threshold in dense.thresholds[0][::9]:
        stump = Stump(0, float(threshold))
        assert own.refined(stump, shift) == dense.refined(stump, shift)
        moved += dense.refined(stump, shift) is not None
    assert moved > 0


# -- fits --------------------------------------------------------------------------------


@pytest.mark.parametrize("density", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_a_fit_is_that_of_the_dense_matrix(density, dtype):
    X, y = data(6, 200, density=density)
    X = np.round(3 * X).astype(dtype) if dtype is np.int64 else X.astype(dtype)
    dense = TotalQBoostClassifier(max_learners=4).fit(X, y)
    for form in (sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix):
        own = TotalQBoostClassifier(max_learners=4).fit(form(X), y)
        assert_same(own.ensemble_, dense.ensemble_)
        np.testing.assert_array_equal(own.predict(form(X)), dense.predict(X))
        np.testing.assert_allclose(own.predict_proba(X), dense.predict_proba(form(X)), atol=1e-9)


def test_truth_values_and_zero_written_out_and_repeated_entries():
    X, y = data(7, 120)
    mask = X > 0.3
    dense = TotalQBoostClassifier(max_learners=4).fit(mask, y)
    assert_same(
        TotalQBoostClassifier(max_learners=4).fit(sparse.csr_matrix(mask), y).ensemble_,
        dense.ensemble_,
    )
    rows, columns = np.indices(X.shape)
    halves = np.concatenate([0.5 * X.ravel(), 0.5 * X.ravel()])
    at = np.tile(rows.ravel(), 2), np.tile(columns.ravel(), 2)
    written = sparse.coo_matrix((halves, at), X.shape)  # every zero, and every value twice
    csc = sparse.csc_matrix(X)
    csc.data[:] = csc.data
    before = written.copy()
    own = TotalQBoostClassifier(max_learners=4).fit(written, y)
    assert_same(own.ensemble_, TotalQBoostClassifier(max_learners=4).fit(X, y).ensemble_)
    assert (written != before).nnz == 0


def test_missing_values_among_the_non_zeros():
    X, y = data(8, 300)
    X[::7, 1] = np.nan
    X[y == 1, 4] = np.where(np.random.default_rng(0).random((y == 1).sum()) < 0.6, np.nan, 1.0)
    dense = TotalQBoostClassifier(max_learners=5).fit(X, y)
    own = TotalQBoostClassifier(max_learners=5).fit(sparse.csr_matrix(X), y)
    assert_same(own.ensemble_, dense.ensemble_)
    assert 4 in own.ensemble_.used_features
    np.testing.assert_array_equal(own.predict(sparse.csr_matrix(X)), dense.predict(X))


def test_missing_values_in_very_many_columns_are_refused(monkeypatch):
    monkeypatch.setattr(module, "MOST_CODES", 500)
    X, y = data(9, 300)
    X[0, [0, 1]] = np.nan
    with pytest.raises(ValueError, match=r"missing values in too many columns.*X\.toarray\(\)"):
        TotalQBoostClassifier().fit(sparse.csr_matrix(X), y)


def test_infinity_is_refused_by_column():
    X, y = data(10)
    X[3, 2] = np.inf
    with pytest.raises(ValueError, match="2"):
        TotalQBoostClassifier().fit(sparse.csr_matrix(X), y)


def test_frontier_and_cross_validation_and_wishes():
    X, y = data(11, 240)
    S = sparse.csr_matrix(X)
    wishes = {"feature_costs": 0.5, "monotonic_cst": [1, 0, -1, 0, 0, 0, 0, 0], "max_features": 3}
    for one, other in zip(
        frontier(X, y, max_learners=4, **wishes),
        frontier(S, y, max_learners=4, **wishes),
        strict=True,
    ):
        assert_same(other.ensemble, one.ensemble)
    valid = frontier(S[:200], y[:200], S[200:], y[200:], max_learners=3)
    assert np.isfinite(valid.points[-1].valid_error)
    weight = np.where(np.arange(240) % 9 == 0, 0.0, 1.0)  # rows that are left out
    dense = TotalQBoostClassifierCV(5, cv=3, scoring="roc_auc").fit(X, y, weight)
    own = TotalQBoostClassifierCV(5, cv=3, scoring="roc_auc").fit(S, y, weight)
    assert_same(own.ensemble_, dense.ensemble_)
    np.testing.assert_allclose(
        own.cv_results_["mean_test_log_loss"], dense.cv_results_["mean_test_log_loss"], atol=1e-9
    )


def test_more_than_two_classes():
    X, y = data(12, 200, density=0.7, n_classes=3)
    dense = TotalQBoostClassifier(max_learners=4).fit(X, y)
    own = TotalQBoostClassifier(max_learners=4).fit(sparse.csr_matrix(X), y)
    assert_same(own.ensemble_, dense.ensemble_)
    np.testing.assert_array_equal(own.predict(sparse.csc_matrix(X)), dense.predict(X))


def test_a_large_table_of_many_classes_is_refused(monkeypatch):
    monkeypatch.setattr(module, "MOST_CODES", 500)
    X, y = data(12, 200, n_classes=3)
    with pytest.raises(ValueError, match=r"too large for more than two classes.*X\.toarray\(\)"):
        TotalQBoostClassifier().fit(sparse.csr_matrix(X), y)


def test_a_table_that_would_be_huge_if_dense_is_learned_from():
    rng = np.random.default_rng(0)
    m, n, nnz = 10_000, 50_000, 20_000  # 4 GB if it were dense
    columns = rng.integers(0, n, nnz)
    columns[:7000], rows = 77, rng.integers(0, m, nnz)
    X = sparse.csr_matrix((rng.random(nnz), (rows, columns)), shape=(m, n))
    X.sum_duplicates()
    y = np.where(X[:, [77]].toarray().ravel() > 0.3, "yes", "no")
    model = TotalQBoostClassifier(max_learners=2).fit(X, y)
    assert model.ensemble_.used_features[:1] == (77,)
    assert model.score(X, y) == 1.0
    assert model.explain(X[:2]).contributions.shape[0] == 2


def test_other_dictionaries():
    X, y = data(13)
    with pytest.raises(TypeError, match=r"'columns'.*X\.toarray\(\)"):
        TotalQBoostClassifier(dictionary=Columns()).fit(sparse.csr_matrix(X), y)
    parts = [TotalQBoostClassifier(max_learners=1).fit(X[:, :k], y) for k in (8,)]
    model = TotalQBoostClassifier(dictionary=FittedClassifiers(parts)).fit(sparse.csr_matrix(X), y)
    assert model.score(sparse.csr_matrix(X), y) == parts[0].score(X, y)


def test_a_sparse_table_where_training_had_categories_is_refused():
    X, y = data(14)
    X[:, 1] = np.abs(X[:, 1])
    model = TotalQBoostClassifier(categorical_features=[1]).fit(X, y)
    with pytest.raises(TypeError, match=r"training had categories; use X\.toarray\(\)"):
        model.predict(sparse.csr_matrix(X))
