"""Stumps shared between classes: columns, votes and prices, against a search through all."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from totalqboost import losses
from totalqboost.dictionaries.base import Shift
from totalqboost.dictionaries.classes import ClassOracle, class_signs
from totalqboost.dictionaries.stumps import Stumps
from totalqboost.learners import Constant, Stump, Votes


def small(n_classes=3, m=24, n_features=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.integers(5, size=(m, n_features)).astype(float)
    labels = rng.integers(n_classes, size=m)
    labels[:n_classes] = np.arange(n_classes)
    return ClassOracle(Stumps().prepare(X, np.ones(m, np.int8)), labels, n_classes), X


def every_column(oracle):
    """All stumps with all votes."""
    votes = list(itertools.product((1, -1), repeat=oracle.n_classes))
    for f, thresholds in enumerate(oracle.base.thresholds):
        for threshold in thresholds:
            for v in votes:
                yield Votes(Stump(f, float(threshold)), v)


def weights(oracle, seed=1):
    rng = np.random.default_rng(seed)
    return rng.random(len(oracle.y)), 0.1 + rng.random(len(oracle.y))


def test_signs_are_positive_for_the_class_of_a_row():
    assert class_signs(np.array([1, 0]), 3).tolist() == [-1, 1, -1, 1, -1, -1]


def test_a_column_is_the_answer_for_every_class_times_the_sign():
    oracle, X = small()
    for learner in list(every_column(oracle))[::7]:
        expected = oracle.y * learner.predict(X).ravel()
        assert oracle.column(learner).tolist() == expected.tolist()
        assert oracle.column(learner.negated()).tolist() == (-expected).tolist()


@pytest.mark.parametrize("n_classes", [3, 4])
def test_the_best_edge_is_that_of_all_stumps_with_all_votes(n_classes):
    oracle, _ = small(n_classes)
    u, _ = weights(oracle)
    best = oracle.best(u)[0]
    edges = {h: oracle.column(h) @ u for h in every_column(oracle)}
    constants = [oracle.column(Votes(Constant(1), v)) @ u for v in _all_votes(n_classes)]
    assert best.edge == pytest.approx(max([*edges.values(), *constants]))
    assert best.price == pytest.approx(best.edge)
    assert oracle.column(best.learner).tolist() == best.column.tolist()


def _all_votes(n_classes):
    return itertools.product((1, -1), repeat=n_classes)


@pytest.mark.parametrize("nu", [0.0, 0.5])
def test_the_best_decrease_is_that_of_the_stump_whose_best_votes_gain_most(nu):
    """With an intercept per class, eliminated, votes go with the signs of what is left."""
    oracle, _ = small(4)
    u, q = weights(oracle)
    n = oracle.n_classes
    found = {}
    for h in every_column(oracle):
        column = oracle.column(h) * oracle.y
        edge = spread = 0.0
        for label in range(n):
            mine = np.arange(len(u)) % n == label
            a, weight = column[mine].astype(float), q[mine]
            a = a - (weight @ a) / weight.sum()
            edge += a @ (u * oracle.y)[mine]
            spread += weight @ a**2
        found.setdefault(h.learner, []).append((edge, max(edge - nu, 0.0) ** 2 / (2 * spread)))
    by_votes = {stump: max(pairs)[1] for stump, pairs in found.items()}
    best = oracle.best(u, curvature=q, nu=nu, n=3)
    expected = sorted(by_votes.values(), reverse=True)[:3]
    assert [c.price for c in best] == pytest.approx(expected)
    assert best[0].learner.learner == max(by_votes, key=by_votes.get)


def test_a_stump_is_excluded_with_any_votes():
    oracle, _ = small()
    u, q = weights(oracle)
    first = oracle.best(u, curvature=q)[0].learner
    other = Votes(first.learner, tuple(-v for v in first.votes))
    second = oracle.best(u, [other], curvature=q)[0].learner
    assert second.learner != first.learner


def test_constants_span_all_intercepts():
    oracle, _ = small()
    columns = np.array([oracle.column(h) * oracle.y for h in oracle.constants])
    assert np.linalg.matrix_rank(columns) == 3
    assert columns[:, :3].tolist() == [[1, -1, -1], [-1, 1, -1], [-1, -1, 1]]


def test_a_subset_of_examples_has_all_their_classes():
    oracle, _ = small()
    rows = np.array([3, 5, 8])
    part = oracle.subset(rows)
    learner = next(every_column(oracle))
    expected = oracle.column(learner).reshape(-1, 3)[rows].ravel()
    assert part.column(learner).tolist() == expected.tolist()
    assert part.y.tolist() == oracle.y.reshape(-1, 3)[rows].ravel().tolist()


def test_candidates_have_the_sums_of_their_own_columns():
    oracle, X = small()
    rng = np.random.default_rng(2)
    rows = np.sort(rng.permutation(len(oracle.y))[:50])
    Q = rng.normal(size=(50, 3)).astype(np.float32)
    grid = oracle.candidates(with_constant=True)
    sums = grid.sums(Q, rows)
    for s in range(len(sums)):
        learner = grid.learner(s)
        assert learner.votes[0] == 1
        answers = learner.predict(X).ravel()[rows]
        np.testing.assert_allclose(sums[s], answers @ Q, atol=2e-5)
        others = [
            Votes(learner.learner, v).predict(X).ravel()[rows] @ Q[:, 0] for v in _all_votes(3)
        ]
        assert abs(sums[s, 0]) == pytest.approx(max(others), abs=2e-5)


def test_a_stump_that_is_kept_is_no_newcomer():
    oracle, _ = small()
    Q = np.random.default_rng(3).normal(size=(len(oracle.y), 2)).astype(np.float32)
    rows = np.arange(len(oracle.y))
    grid = oracle.candidates(with_constant=False)
    grid.sums(Q, rows)
    kept = grid.learner(4)
    sums = grid.sums(Q, rows, [Votes(kept.learner, (1, 1, 1))])
    assert not sums[4].any()
    assert sums[3].any()


@pytest.mark.parametrize("name", losses.names())
def test_refining_lowers_the_risk_and_ends(name):
    oracle, _ = small(3, 60, seed=5)
    loss = losses.get(name)
    c = np.full(len(oracle.y), 1.0 / len(oracle.y))
    learner, weight, rest = next(every_column(oracle)), 0.3, np.zeros(len(oracle.y))
    risks = []
    for _ in range(20):
        z = rest + weight * oracle.column(learner)
        risks.append(c @ loss.value(z))
        other = oracle.refined(learner, Shift(weight, z, c * loss.weight(z), c, loss))
        if other is None:
            break
        learner = other
    assert 2 <= len(risks) < 20
    assert np.all(np.diff(risks) < 0)
    votes = [
        c @ loss.value(weight * oracle.column(Votes(learner.learner, v))) for v in _all_votes(3)
    ]
    assert risks[-1] == pytest.approx(min(votes))  # no votes of this stump are better
