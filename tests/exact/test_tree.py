"""The tree of the exact solver: nodes that wait, second trees, threads, many rows."""

from __future__ import annotations

import signal
import threading
from dataclasses import fields
from itertools import product

import numpy as np
import pytest
from exact_problems import LOSSES, SLACK, hard_problem, interrupted, tiny_problems
from solver_contract import (
    best_of_all_supports,
    correlated_problem,
)

from totalqboost import losses
from totalqboost.kernels.exact.reach import farthest
from totalqboost.master import MasterProblem
from totalqboost.refit import refit
from totalqboost.solvers import BranchAndBound, LocalSearch
from totalqboost.solvers.exact import bounding, reach
from totalqboost.solvers.exact import search as search_module
from totalqboost.solvers.exact.bounding import Bounder
from totalqboost.solvers.exact.model import Model
from totalqboost.solvers.exact.reach import Reach
from totalqboost.solvers.exact.search import EXACT, Search
from totalqboost.solvers.exact.techniques import Techniques
from totalqboost.solving import Status
from totalqboost.threads import Workers


@pytest.fixture
def anchored(monkeypatch):
    """Let nodes know the moments of their parents however few rows there are; count them."""
    monkeypatch.setattr(bounding, "MANY_ROWS", 0)
    monkeypatch.setattr(bounding, "ENOUGH", np.inf)
    inherit, waiting = Bounder.inherit, []

    def counted(self, node, cutoff):
        inherit(self, node, cutoff)
        if not node.is_closed and node.anchor is not None:
            waiting.append(node)

    monkeypatch.setattr(Bounder, "inherit", counted)
    return waiting


def test_nodes_that_wait_for_their_turn_do_not_spoil_the_proof(anchored):
    for problem, best in tiny_problems():
        if problem.loss.name == "exponential":
            search = Search(BranchAndBound(), problem)  # its incumbent is the empty ensemble
            search.open_root()
            while search.is_running():
                search.branch()
            solution = search.solution()
            assert solution.bound <= best + SLACK
            assert solution.objective == pytest.approx(best, rel=2 * EXACT, abs=SLACK)
    assert len(anchored) > 10


@pytest.mark.parametrize(("lam", "limit"), [(0.03, None), (0.0, 4)])
def test_many_rows_against_brute_force(lam, limit):
    """Enough rows for all tables, and for children to know the moments of their parents."""
    rng = np.random.default_rng(1)
    A = np.where(rng.random((11, 4000)) < rng.uniform(0.53, 0.62, (11, 1)), 1, -1)
    problem = MasterProblem(A, nu=1e-4, lam=lam, max_learners=limit)
    assert Model.of(problem).problem.n_rows >= bounding.MANY_ROWS
    best = best_of_all_supports(problem.merged())
    for nodes in (1, 3, 10, 100_000):
        solution = BranchAndBound(max_nodes=nodes).solve(problem)
        assert solution.bound <= best + SLACK
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(best, rel=2 * EXACT, abs=SLACK)


@pytest.mark.parametrize("max_open", [0, 1, 5])
def test_few_open_nodes_change_nothing_but_the_order(max_open, monkeypatch):
    monkeypatch.setattr(search_module, "MAX_OPEN", max_open)
    seen = []
    problem = hard_problem()
    best = BranchAndBound(max_nodes=40, on_progress=seen.append).solve(problem)
    assert best.bound <= best.objective
    assert max(progress.n_open for progress in seen) <= max_open + problem.n_columns + 1
    for problem, optimum in tiny_problems()[:60]:
        search = Search(BranchAndBound(), problem)
        search.open_root()
        while search.is_running():
            assert search.bound() <= optimum + SLACK
            search.branch()
        assert search.solution().objective == pytest.approx(optimum, rel=2 * EXACT, abs=SLACK)


def test_the_same_tree_again_whatever_the_memory_holds_and_however_many_threads(monkeypatch):
    monkeypatch.setattr(search_module, "PARALLEL_FROM", 0)
    problem, runs = hard_problem(), []
    for n_jobs in (None, 1, 2, 3, -1):
        noise = [np.full(2**size, np.nan) for size in range(4, 16)]  # what np.empty will find
        del noise
        seen = []
        solver = BranchAndBound(max_nodes=60, n_jobs=n_jobs, on_progress=seen.append)
        solution = solver.solve(problem)
        steps = [(step.n_nodes, step.n_open, step.bound) for step in seen]
        runs.append((solution.n_evaluations, solution.bound, solution.w.tolist(), steps))
    assert runs[0][0] > 40
    for run in runs[1:]:
        assert run == runs[0]


@pytest.mark.parametrize(("n_jobs", "smallest"), [(None, 0), (2, 0), (2, 10**9)])
def test_threads_are_used_where_they_are_asked_for_and_pay(n_jobs, smallest, monkeypatch):
    monkeypatch.setattr(search_module, "PARALLEL_FROM", smallest)
    look, names = Bounder.look, []

    def noted(self, node, cutoff, n_rounds):
        names.append(threading.current_thread().name)
        look(self, node, cutoff, n_rounds)

    monkeypatch.setattr(Bounder, "look", noted)
    before = threading.active_count()
    BranchAndBound(max_nodes=60, n_jobs=n_jobs).solve(hard_problem())
    main = threading.current_thread().name
    assert names[0] == main  # the root
    assert (set(names) == {main}) == (n_jobs is None or smallest > 0)
    assert threading.active_count() == before


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("when", [3, 20, 41])
def test_a_batch_that_runs_out_of_time_leaves_a_valid_bound(when, n_jobs, monkeypatch):
    monkeypatch.setattr(search_module, "PARALLEL_FROM", 0)
    problem = hard_problem()
    best = BranchAndBound().solve(problem)
    looks = []

    def is_late(self):
        looks.append(1)
        return len(looks) > when

    monkeypatch.setattr(Search, "_is_late", is_late)
    solution = BranchAndBound(n_jobs=n_jobs).solve(problem)
    assert solution.status is Status.TIME_LIMIT
    assert 0 < solution.bound <= best.objective + SLACK


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("when", [1, 3])
def test_ctrl_c_is_heard_between_nodes(when, n_jobs, monkeypatch):
    monkeypatch.setattr(search_module, "PARALLEL_FROM", 0)
    problem, reports = hard_problem(), []

    def press(progress):
        reports.append(progress)
        if len(reports) == when:
            signal.raise_signal(signal.SIGINT)

    solution = interrupted(BranchAndBound(n_jobs=n_jobs, on_progress=press), problem)
    assert len(reports) == when
    assert 0 < solution.bound <= solution.objective
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_while_the_incumbent_is_sought_leaves_the_bound_of_the_l1_problem(monkeypatch):
    solve = LocalSearch.solve

    def pressed(self, *arguments, **settings):
        signal.raise_signal(signal.SIGINT)
        return solve(self, *arguments, **settings)

    monkeypatch.setattr(LocalSearch, "solve", pressed)
    solution = interrupted(BranchAndBound(), hard_problem())
    assert solution.n_evaluations == 0
    assert 0 < solution.bound < solution.objective


def test_errors_and_ctrl_c_in_a_thread_reach_the_caller(monkeypatch):
    monkeypatch.setattr(search_module, "PARALLEL_FROM", 0)
    problem, calls = hard_problem(), []
    look = Bounder.look

    def failing(self, node, cutoff, n_rounds):
        calls.append(1)
        if len(calls) > 5:
            raise error
        look(self, node, cutoff, n_rounds)

    monkeypatch.setattr(Bounder, "look", failing)
    error: BaseException = ZeroDivisionError("in a thread")
    with pytest.raises(ZeroDivisionError, match="in a thread"):
        BranchAndBound(n_jobs=2).solve(problem)
    calls.clear()
    error = KeyboardInterrupt()
    solution = interrupted(BranchAndBound(n_jobs=2), problem)
    assert -np.inf < solution.bound <= solution.objective


@pytest.fixture
def restarted(monkeypatch):
    """Start every tree again at its first branch; list the new roots, and if they are tighter."""
    monkeypatch.setattr(search_module, "RESTART", np.inf)
    confine, roots = Reach.confine, []

    def counted(self):
        node = self.node
        wide = node.high.copy()
        is_done = confine(self)
        roots.append((node.copy(), len(wide) != len(node.high) or (node.high < wide - 0.1).any()))
        return is_done

    monkeypatch.setattr(Reach, "confine", counted)
    return roots


@pytest.mark.parametrize("is_given", [True, False])
def test_a_second_tree_with_tighter_ranges_finds_and_proves_the_optimum(is_given, restarted):
    for problem, best in tiny_problems():
        search = Search(BranchAndBound(), problem)
        if is_given:
            search.find_incumbent(None, None)
        search.open_root()
        while search.is_running():
            search.branch()
            assert search.bound() <= best + SLACK
        assert search.objective == pytest.approx(best, rel=2 * EXACT, abs=SLACK)
    assert sum(is_tighter for _, is_tighter in restarted) > 5


@pytest.mark.parametrize("seed", range(6))
def test_a_second_tree_over_fixed_point_weights(seed, restarted):
    problem = correlated_problem(seed, n=4, m=40, lam=0.01, nu=1e-4, loss=LOSSES[seed % 4])
    solution = BranchAndBound(n_bits=2, step=0.3).solve(problem)
    levels = product(range(4), repeat=4)
    best = min(problem.objective(0.3 * np.array(level)) for level in levels)
    assert solution.objective == pytest.approx(best, rel=2 * EXACT)
    assert solution.bound <= best + SLACK


def test_no_better_solution_is_outside_what_tangents_leave(restarted, monkeypatch):
    monkeypatch.setattr(Search, "_round", lambda self, node: self.w)  # no better incumbent
    problem = Model.of(correlated_problem(11, n=10, m=90, lam=0.004, nu=1e-5)).problem
    n = problem.n_columns
    search = Search(BranchAndBound(), problem)
    search.open_root()  # with the empty ensemble: room for many better ones
    search.branch()
    ((root, is_tighter),) = restarted
    assert is_tighter
    rng = np.random.default_rng(0)
    solutions = [refit(problem, np.flatnonzero(rng.random(n) < 0.6)) for _ in range(200)]
    better = [w for w in solutions if problem.objective(w) < search.cutoff]
    better = [w for w in better if set(np.flatnonzero(w)) <= set(root.columns)]
    assert len(better) > 5
    for w in better:
        assert (w[root.columns] <= root.hi + 1e-9).all()
        assert (w[root.columns] @ problem.A[root.columns] <= root.high + 1e-9).all()


def half_a_tree():
    """Return a search in the middle of its first tree, which is due to start again."""
    search = Search(BranchAndBound(), hard_problem())
    search.find_incumbent(None, None)
    search.n_first = 10**9
    search.open_root()
    while search.n_nodes < 20:
        search.branch()
    search.n_first = 0
    return search


def test_a_second_tree_that_takes_too_long_leaves_the_first(monkeypatch):
    def confine(self):
        self.node.high = np.full_like(self.node.high, -1e9)  # half done: must not be used
        self.node.hi[:] = 0.0
        return False

    monkeypatch.setattr(Reach, "confine", confine)
    search, other = half_a_tree(), half_a_tree()
    before, n_open = search.bound(), len(search.heap)
    search.branch()
    assert search.root is None
    assert (search.bound(), len(search.heap)) == (before, n_open)
    other.n_first = 10**9
    for each in (search, other):
        while each.n_nodes < 60:
            each.branch()
    assert search.bound() == other.bound()


@pytest.mark.parametrize("where", ["confine", "_keep"])
def test_ctrl_c_while_the_tree_starts_again_keeps_the_bound(where, monkeypatch):
    search = half_a_tree()
    before = search.bound()

    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(Reach if where == "confine" else search, where, interrupt)
    with pytest.raises(KeyboardInterrupt):
        search.branch()
    assert search.bound() == before


def test_with_very_many_rows_the_root_limits_weights(monkeypatch):
    monkeypatch.setattr(search_module, "MAX_ROWS", 0)
    confine, n_calls = Reach.confine_weights, []

    def counted(self):
        n_calls.append(1)
        return confine(self)

    monkeypatch.setattr(Reach, "confine_weights", counted)
    for problem, best in tiny_problems():
        solution = BranchAndBound().solve(problem)
        assert solution.bound <= best + SLACK
        assert solution.objective == pytest.approx(best, rel=2 * EXACT, abs=SLACK)
    assert len(n_calls) > 20


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_margins_are_limited_on_both_sides_where_that_counts(loss, monkeypatch):
    """The limits of a node, chunk by chunk, against the kernel, row by row."""
    monkeypatch.setattr(Search, "_round", lambda self, node: self.w)  # nothing but empty is known
    rng = np.random.default_rng(4)
    A = np.where(rng.random((8, 300)) < 0.6, 1, -1)
    problem = MasterProblem(A, nu=1e-3, lam=0.01, loss=losses.get(loss))
    search = Search(BranchAndBound(), problem)
    search.open_root()
    node, bounder, cutoff = search.root.copy(), search.bounder, search.cutoff
    node.low, node.high = np.full_like(node.low, -np.inf), np.full_like(node.high, np.inf)
    confinement = Reach(bounder, node, cutoff, lambda: False, Workers())
    center = confinement._center()
    assert len(node.high) > reach.AT_ONCE
    low, high = node.low.copy(), node.high.copy()
    assert confinement._confine_margins(center)
    nu, ranges = problem.nus[node.columns], node.ranges(bounder.model)
    for i in range(len(node.high)):
        e = bounder.model.problem.A[node.columns, i].astype(float)
        arguments = (node.data(bounder.model), nu, ranges, bounder.prices(node), cutoff, center)
        top, bottom = (farthest(*arguments, sign * e) for sign in (1.0, -1.0))
        assert node.high[i] == pytest.approx(min(high[i], top), rel=1e-8, abs=1e-8)
        limit = max(low[i], -bottom) if loss == "logistic" else low[i]
        assert node.low[i] == pytest.approx(limit, rel=1e-8, abs=1e-8)


ALL_TECHNIQUES = [field.name for field in fields(Techniques)]


@pytest.mark.parametrize("name", [*ALL_TECHNIQUES, "all"])
def test_the_optimum_is_proven_without_any_technique(name):
    names = ALL_TECHNIQUES if name == "all" else [name]
    solver = BranchAndBound(techniques=Techniques(**dict.fromkeys(names, False)))
    for problem, best in tiny_problems()[: 40 if name == "all" else 80]:
        solution = solver.solve(problem)
        assert solution.bound <= best + SLACK
        assert solution.objective == pytest.approx(best, rel=2 * EXACT, abs=SLACK)


def test_techniques_make_the_tree_smaller():
    problem = hard_problem()
    with_all = BranchAndBound().solve(problem).n_evaluations
    for name in ("perspective", "fixing"):
        solver = BranchAndBound(techniques=Techniques(**{name: False}))
        assert solver.solve(problem).n_evaluations > with_all
