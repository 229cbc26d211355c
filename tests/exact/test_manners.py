"""Manners of the exact solver: budgets, Ctrl-C, progress, errors, settings."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from exact_problems import hard_problem, interrupted
from solver_contract import (
    Squareplus,
    random_problem,
)

from totalqboost import solvers
from totalqboost.refit import refit
from totalqboost.solvers import BranchAndBound, LocalSearch
from totalqboost.solvers.exact.bounding import Bounder
from totalqboost.solving import Solution, Status


def test_budget_in_nodes_gives_a_valid_bound_and_says_so():
    problem = hard_problem()
    solution = BranchAndBound(max_nodes=5).solve(problem)
    assert solution.status is Status.NODE_LIMIT
    assert solution.n_evaluations <= 6
    assert 0 < solution.bound < solution.objective


def test_a_gap_stops_early():
    problem = hard_problem()
    solution = BranchAndBound(gap=0.2).solve(problem)
    assert solution.status is Status.GAP_REACHED
    assert solution.gap <= 0.2 + 1e-12


def test_time_limit_is_kept():
    solution = BranchAndBound(time_limit=1e-6).solve(hard_problem())
    assert solution.status is Status.TIME_LIMIT
    assert solution.bound < solution.objective


@pytest.mark.parametrize("n_reports", [1, 3])
def test_ctrl_c_returns_the_incumbent_with_its_bound(n_reports):
    problem, seen = hard_problem(), []

    def interrupt(progress):
        seen.append(progress)
        if len(seen) == n_reports:
            raise KeyboardInterrupt

    solution = interrupted(BranchAndBound(on_progress=interrupt), problem)
    assert solution.objective == pytest.approx(seen[-1].objective)
    assert solution.bound == seen[-1].bound
    assert solution.gap == pytest.approx(seen[-1].gap)


def test_ctrl_c_inside_a_node_keeps_the_bound_valid(monkeypatch):
    problem = hard_problem()
    calls = []
    strengthen = Bounder.strengthen

    def pressed(self, node, cutoff, n_rounds):
        calls.append(node.bound)
        if len(calls) == 6:
            raise KeyboardInterrupt
        strengthen(self, node, cutoff, n_rounds)

    monkeypatch.setattr(Bounder, "strengthen", pressed)
    solution = interrupted(BranchAndBound(), problem)
    assert solution.bound <= calls[-1]  # the node that was being worked on is not closed


def test_ctrl_c_in_the_root_leaves_the_bound_of_the_l1_problem(monkeypatch):
    def pressed(self, node, cutoff, w):
        raise KeyboardInterrupt

    monkeypatch.setattr(Bounder, "bound_at", pressed)
    problem = hard_problem()
    solution = interrupted(BranchAndBound(), problem)
    l1 = refit(problem, np.arange(problem.n_columns), tol=1e-11)
    assert solution.bound == pytest.approx(problem.dual_bound(problem.dual_weights(l1)))
    assert solution.bound > 0.0


def test_progress_is_reported_and_printed(capsys):
    seen = []
    solver = BranchAndBound(max_nodes=60, on_progress=seen.append, verbose=1)
    solver.solve(hard_problem())
    assert [p.n_nodes for p in seen] == sorted(p.n_nodes for p in seen)
    assert [p.bound for p in seen] == sorted(p.bound for p in seen)
    assert len(seen) >= 3
    assert "gap" in capsys.readouterr().err


def test_a_custom_loss_is_refused_in_one_sentence():
    with pytest.raises(ValueError, match="loss must be 'exponential', 'logistic', 'squared'"):
        BranchAndBound().solve(random_problem(0, loss=Squareplus()))


@pytest.mark.parametrize(
    "settings",
    [
        {"gap": -0.1},
        {"gap": 1.0},
        {"gap": "small"},
        {"max_nodes": 0},
        {"max_nodes": 10.5},
        {"time_limit": 0.0},
        {"time_limit": float("nan")},
        {"n_bits": 13},
        {"n_bits": "auto"},
        {"n_bits": True},
        {"n_jobs": 0},
        {"n_jobs": 1.5},
        {"n_jobs": True},
        {"time_limit": True},
    ],
)
def test_bad_arguments_are_named(settings):
    (name,) = settings
    with pytest.raises(ValueError, match=f"{name} must be .*, got {settings[name]!r}"):
        BranchAndBound(**settings)


def test_bad_step_is_named():
    with pytest.raises(ValueError, match=r"step must be a finite number > 0, .* got 0.0"):
        BranchAndBound(n_bits=3, step=0.0).solve(random_problem(0))
    with pytest.raises(
        ValueError, match=r"step must be a finite number > 0, or \d+ of them, got \(0.1, 0.2\)"
    ):
        BranchAndBound(n_bits=3, step=(0.1, 0.2)).solve(random_problem(0))
    with pytest.raises(ValueError, match=r"step .* got 0.1 without n_bits; give both"):
        BranchAndBound(step=0.1)


def test_settings_are_frozen_and_equal_whatever_watches():
    assert BranchAndBound() == BranchAndBound(on_progress=print)
    with pytest.raises(FrozenInstanceError):
        BranchAndBound().gap = 0.1


def test_the_name_exact_gives_this_solver():
    assert solvers.get("exact") == BranchAndBound()
    assert "exact" in solvers.names()


def test_a_solution_of_local_search_is_a_start():
    problem = hard_problem()
    start = LocalSearch().solve(problem).w
    solution = BranchAndBound(max_nodes=1).solve(problem, start=start)
    assert isinstance(solution, Solution)
    assert solution.objective <= problem.objective(start)
