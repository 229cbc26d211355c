"""Dictionaries of the user's own: lists of learners, and learners made as boosting asks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from sklearn.model_selection import cross_val_predict
from sklearn.tree import DecisionTreeClassifier

from totalqboost import TotalQBoostClassifier, datasets, frontier
from totalqboost.dictionaries import ExplicitOracle, FittedClassifiers, Proposals, Stumps
from totalqboost.learners import Constant, Fitted, Stump


def data(n_rows=300):
    X, y = datasets.load("banana")
    return X[:n_rows], y[:n_rows]


@dataclass(frozen=True)
class Trees(Proposals):
    """A small tree, trained on the boosting weights."""

    max_leaf_nodes: int = 4

    def propose(self, X, y, u):
        tree = DecisionTreeClassifier(max_leaf_nodes=self.max_leaf_nodes, random_state=0)
        return [Fitted(0, tree.fit(X, y, sample_weight=u))]


@dataclass(frozen=True)
class BestStumps(Proposals):
    """What the oracle of stumps would offer first."""

    def propose(self, X, y, u):
        return [candidate.learner for candidate in Stumps().prepare(X, y).best(u, n=5)]


def test_what_was_proposed_stays_on_offer_and_comes_once():
    X, y = data()
    oracle = Trees().prepare(X, y)
    rng = np.random.default_rng(0)
    weights = [rng.random(len(y)) for _ in range(4)]
    for u in (*weights, weights[0]):
        oracle.best(u)
    assert len(oracle.learners) == 4
    assert [learner.index for learner in oracle.learners] == [0, 1, 2, 3]
    found = oracle.best(weights[0], n=10)
    assert len(found) == 4
    for candidate in found:
        np.testing.assert_array_equal(candidate.column, y * candidate.learner.predict(X))
        np.testing.assert_array_equal(candidate.column, oracle.column(candidate.learner))
        assert candidate.edge == pytest.approx((weights[0] * candidate.column).sum())
    edges = [candidate.edge for candidate in found]
    assert edges == sorted(edges, reverse=True)
    assert oracle.best(weights[0], {c.learner for c in found}) == []


def test_the_same_weights_are_asked_about_once():
    X, y = data(80)
    n_asked = 0

    class Counted(Trees):
        def propose(self, X, y, u):
            nonlocal n_asked
            n_asked += 1
            return super().propose(X, y, u)

    oracle = Counted().prepare(X, y)
    for u in (np.ones(80), np.ones(80), np.arange(1.0, 81.0)):
        oracle.best(u, curvature=u)
    assert n_asked == 2


def test_a_part_of_the_rows_knows_nothing_of_the_others():
    X, y = data()
    oracle = Trees().prepare(X, y)
    oracle.best(np.ones(len(y)))
    rows = np.arange(0, len(y), 3)
    (of_part,) = oracle.subset(rows).best(np.ones(len(rows)))
    (alone,) = Trees().prepare(X[rows], y[rows]).best(np.ones(len(rows)))
    np.testing.assert_array_equal(of_part.learner.predict(X), alone.learner.predict(X))
    assert len(oracle.subset(rows).learners) == 0


def test_stumps_that_are_proposed_boost_like_stumps():
    X, y = data()
    settings = {"cardinality_penalty": 0, "max_learners": 3, "exchange": False}
    of_proposals = TotalQBoostClassifier(dictionary=BestStumps(), **settings).fit(X, y)
    of_stumps = TotalQBoostClassifier(dictionary=Stumps(), **settings).fit(X, y)
    assert of_proposals.n_learners_ == 3
    assert all(isinstance(h, Stump) for h in of_proposals.ensemble_.learners)
    assert of_proposals.solution_.objective < 1.1 * of_stumps.solution_.objective


@pytest.mark.parametrize("exchange", [True, False])
def test_trees_find_what_stumps_cannot(exchange):
    X, y = datasets.load("banana")
    clf = TotalQBoostClassifier(dictionary=Trees(8), max_learners=6, exchange=exchange)
    clf.fit(X[:600], y[:600])
    assert clf.n_learners_ <= 6
    assert clf.score(X[600:], y[600:]) > 0.82
    stumps = TotalQBoostClassifier().fit(X[:600], y[:600])
    assert stumps.score(X[600:], y[600:]) < 0.76


def test_cross_validation_makes_its_own():
    X, y = data()
    front = frontier(X, y, dictionary=Trees(8), cv=3, max_learners=3)
    clf = TotalQBoostClassifier(0, dictionary=Trees(8), max_learners=3)
    labels = cross_val_predict(clf, X, y, cv=3)
    assert front[3].valid_error == pytest.approx((labels != y).mean(), abs=0.05)
    assert front[3].valid_error > front[3].train_error


def test_constants_are_not_taken_and_answers_are_checked():
    X, y = data(40)

    class Odd(Proposals):
        def propose(self, X, y, u):
            return [Constant(1), self.learner]

    dictionary = Odd()
    dictionary.learner = Stump(0, float(X[:, 0].mean()))
    assert [c.learner for c in dictionary.prepare(X, y).best(np.ones(40), n=5)] == [
        dictionary.learner
    ]
    classifier = DecisionTreeClassifier().fit(X, y)
    classifier.predict = lambda X: np.zeros(3)
    dictionary.learner = Fitted(0, classifier)
    with pytest.raises(ValueError, match=r"must predict -1 or \+1, one value per row"):
        dictionary.prepare(X, y).best(np.ones(40))


def test_the_number_of_columns_is_for_ric():
    X, y = data(100)
    few, many = Trees(), replace(Trees(), max_leaf_nodes=4)
    object.__setattr__(many, "n_columns", 1000)
    prices = [
        TotalQBoostClassifier("ric", dictionary=d).fit(X, y).cardinality_penalty_
        for d in (few, many)
    ]
    assert prices == pytest.approx([np.log(2) / 100, np.log(1000) / 100])


@pytest.mark.parametrize("wish", [{"feature_costs": 2.0}, {"max_features": 1}])
def test_learners_of_a_list_pay_for_the_features_that_they_say(wish):
    X, y = data()
    stumps = [Stump(f, t, s) for f in (0, 1) for t in np.linspace(-2, 2, 20) for s in (1, -1)]

    class Listed:
        def prepare(self, X, y, n_jobs=None, features=None, weight=None):
            return ExplicitOracle(stumps, np.array([h.predict(X) for h in stumps]), y, X.shape[1])

    clf = TotalQBoostClassifier(dictionary=Listed(), max_learners=6, **wish).fit(X, y)
    plain = TotalQBoostClassifier(dictionary=Listed(), max_learners=6).fit(X, y)
    assert plain.ensemble_.used_features == (0, 1)
    if "max_features" in wish:
        assert len(clf.ensemble_.used_features) == 1
    else:
        n_used = len(clf.ensemble_.used_features)
        assert clf.solution_.objective <= plain.solution_.objective + 2 * 2 * 0.5 / len(y) + 1e-9
        learners = clf.n_learners_ * clf.cardinality_penalty_
        assert clf.solution_.objective >= learners + n_used * 2 * 0.5 / len(y)


def test_fitted_classifiers_know_how_many_features_there_are():
    X, y = data()
    trees = [DecisionTreeClassifier(max_depth=d).fit(X, y) for d in (1, 2, 3)]
    assert FittedClassifiers(trees).prepare(X, y).n_features == 2
    clf = TotalQBoostClassifier(dictionary=FittedClassifiers(trees), feature_costs=1.0)
    assert clf.fit(X, y).n_learners_ > 0


@pytest.mark.parametrize("dictionary", [FittedClassifiers([]), "columns", Trees()])
def test_directions_are_refused_where_nothing_heeds_them(dictionary):
    X = np.where(data()[0] > 0, 1.0, -1.0)
    clf = TotalQBoostClassifier(dictionary=dictionary, monotonic_cst=[1, 0])
    with pytest.raises(ValueError, match="monotonic_cst needs a dictionary of stumps"):
        clf.fit(X, data()[1])
