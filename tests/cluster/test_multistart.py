"""Searches side by side: the same answer in one thread, in several, in processes, on a cluster."""

from __future__ import annotations

from dataclasses import replace

import joblib
import numpy as np
import pytest
from solver_contract import correlated_problem

from totalqboost import MasterProblem, TotalQBoostClassifier, TotalQBoostClassifierCV, datasets
from totalqboost.cluster.connect import connected
from totalqboost.solvers import BranchAndBound, LocalSearch, TabuSearch
from totalqboost.solvers.exact import subtrees
from totalqboost.solving import Status

TABU = TabuSearch(n_starts=5, max_evaluations=120, moves_per_start=20)
PAPERS = replace(TABU, discrete=True, moves="bits", restart="mst2")
LOCAL = LocalSearch(n_starts=5, n_perturbations=6)
EXACT = BranchAndBound(n_subtrees=3)
NAMES = {"tabu": TABU, "paper's tabu": PAPERS, "local": LOCAL, "exact": EXACT}
SOLVERS = pytest.mark.parametrize("solver", NAMES.values(), ids=NAMES)


@pytest.fixture(scope="module")
def client():
    with connected(workers=2) as client:
        yield client


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Let a tree of some hundred nodes be exchanged several times."""
    monkeypatch.setattr(subtrees, "PART", 8)
    monkeypatch.setattr(subtrees, "TAKEN", 2)


def problem(max_learners=None):
    return correlated_problem(3, n=24, m=300, nu=1e-6, lam=0.004, max_learners=max_learners)


def same(one, other):
    return np.array_equal(one.w, other.w) and (
        one.objective,
        one.bound,
        one.status,
        one.n_evaluations,
    ) == (other.objective, other.bound, other.status, other.n_evaluations)


@SOLVERS
def test_the_answer_does_not_depend_on_threads_or_workers(solver, client):
    alone = solver.solve(problem())
    assert same(replace(solver, n_jobs=3).solve(problem()), alone)
    with joblib.parallel_config("dask"):
        assert same(solver.solve(problem()), alone)


def test_a_cluster_of_one_worker_gives_the_same_answer():
    with connected(workers=1), joblib.parallel_config("dask"):
        assert joblib.effective_n_jobs(None) == 1
        assert same(TABU.solve(problem()), replace(TABU, n_jobs=1).solve(problem()))


@pytest.mark.parametrize("solver", [TABU, EXACT], ids=["tabu", "exact"])
def test_the_answer_does_not_depend_on_processes(solver):
    with joblib.parallel_config("loky"):
        found = replace(solver, n_jobs=2).solve(problem())
    assert same(found, solver.solve(problem()))


@SOLVERS
def test_the_answer_is_never_worse_than_its_start(solver):
    start = np.zeros(24)
    start[:4] = 0.3
    at_start = problem(5).objective(start)
    found = solver.solve(problem(5), start)
    assert np.count_nonzero(found.w) <= 5
    assert found.objective <= at_start or found.is_discrete


@pytest.mark.parametrize("solver", [TABU, LOCAL], ids=["tabu", "local"])
def test_randomness_is_that_of_the_generator(solver):
    hard = correlated_problem(5, n=60, m=200, nu=1e-6, lam=0.002)
    one, again = (solver.solve(hard, rng=np.random.default_rng(7)) for _ in range(2))
    assert same(one, again)
    rng = np.random.default_rng(7)
    first, second = solver.solve(hard, rng=rng), solver.solve(hard, rng=rng)
    assert same(first, one)
    assert second.n_evaluations > 0


def test_every_start_has_the_whole_budget():
    assert TABU.solve(problem()).n_evaluations == TABU.n_starts * TABU.max_evaluations


def test_starts_go_on_from_the_best_of_all(monkeypatch):
    from totalqboost.solvers import tabu

    seen = []
    part = tabu._part

    def watched(problem, merged, search, *rest):
        seen.append(search.best.objective)
        return part(problem, merged, search, *rest)

    monkeypatch.setattr(tabu, "_part", watched)
    found = TABU.solve(problem())
    rounds = np.array(seen).reshape(-1, TABU.n_starts)
    assert (rounds == rounds[:, :1]).all()  # all begin a part with the same point
    assert (np.diff(rounds[:, 0]) <= 0).all()
    assert rounds[1, 0] < rounds[0, 0]
    assert found.objective <= rounds[-1, 0]


@pytest.mark.parametrize("n_subtrees", [2, 3, 7])
def test_a_tree_in_parts_proves_what_one_tree_proves(n_subtrees):
    one = BranchAndBound().solve(problem())
    found = BranchAndBound(n_subtrees=n_subtrees).solve(problem())
    assert one.status is found.status is Status.OPTIMAL
    assert found.objective == pytest.approx(one.objective, rel=1e-8)
    assert found.bound <= one.objective
    assert found.gap < 1e-7


def test_a_tree_in_parts_is_spread(monkeypatch):
    parts = []
    part = subtrees._part
    monkeypatch.setattr(subtrees, "_part", lambda *a: parts.append(part(*a)) or parts[-1])
    found = EXACT.solve(problem())
    assert len(parts) > 2 * EXACT.n_subtrees  # several exchanges
    assert found.n_evaluations > sum(p.n_nodes for p in parts) > 0


def test_a_tree_in_parts_keeps_to_its_budget_and_its_bound_holds():
    optimum = BranchAndBound().solve(problem()).objective
    found = replace(EXACT, max_nodes=90).solve(problem())
    assert found.status is Status.NODE_LIMIT
    assert found.n_evaluations <= 90 + EXACT.n_subtrees
    assert found.bound <= optimum <= found.objective * (1 + 1e-8)


def test_a_tree_in_parts_ends_in_time():
    found = BranchAndBound(n_subtrees=2, time_limit=1e-3).solve(problem())
    assert found.status is Status.TIME_LIMIT
    assert found.bound <= found.objective


def test_a_problem_is_sent_once(client, monkeypatch):
    n_pickled = []
    reduce = MasterProblem.__reduce_ex__

    def counted(self, protocol):
        n_pickled.append(1)
        return reduce(self, protocol)

    monkeypatch.setattr(MasterProblem, "__reduce_ex__", counted)
    with joblib.parallel_config("dask"):
        TABU.solve(problem())
        assert len(n_pickled) == 2  # as it is, and with equal rows merged
        EXACT.solve(problem())
        assert len(n_pickled) == 3  # within the model of the tree


def test_a_fit_may_use_the_cluster(client):
    X, y = datasets.load("heart")
    clf = TotalQBoostClassifier.paper_form(0.02, solver=TABU, max_rounds=4)
    here = str(clf.fit(X, y).ensemble_)
    with joblib.parallel_config("dask"):
        assert str(clf.fit(X, y).ensemble_) == here


def test_folds_may_use_the_cluster_and_their_solvers_too(client):
    X, y = datasets.load("heart")
    clf = TotalQBoostClassifierCV(max_learners=2, cv=2, solver=TABU)
    here = clf.fit(X, y)
    with joblib.parallel_config("dask"):
        there = TotalQBoostClassifierCV(max_learners=2, cv=2, solver=TABU).fit(X, y)
    assert str(there.ensemble_) == str(here.ensemble_)


@pytest.mark.parametrize("kind", [TabuSearch, LocalSearch])
def test_a_wrong_number_of_starts_is_named(kind):
    with pytest.raises(ValueError, match="n_starts must be an integer >= 1, got 0"):
        kind(n_starts=0)


def test_a_wrong_number_of_parts_is_named():
    with pytest.raises(ValueError, match="n_subtrees must be an integer >= 1, got 0"):
        BranchAndBound(n_subtrees=0)
