"""Ctrl-C inside a compiled kernel comes as a SystemError that has it as its cause."""

from __future__ import annotations

import signal
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import make_classification
from solver_contract import random_problem

from totalqboost import BranchAndPrice, Interrupted, TotalQBoostClassifier, frontier
from totalqboost.cli import _say_unraisable
from totalqboost.interruption import held_back, unwrapped_interruption
from totalqboost.solvers import LocalSearch, TabuSearch, walk
from totalqboost.solving import SolverError

X, Y = make_classification(120, 5, random_state=0)


def interrupt(*arguments, **settings):
    """Raise what numba raises when Ctrl-C comes as a kernel hands over its result."""
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt as stop:
        raise SystemError("returned a result with an exception set") from stop


class Once:
    """Interrupt at the n-th call."""

    def __init__(self, n):
        self.n = n

    def __call__(self, *arguments):
        self.n -= 1
        if self.n == 0:
            interrupt()


class InterruptedSolver(LocalSearch):
    def solve(self, problem, start=None, rng=None):
        if problem.n_columns > 4:
            interrupt()
        return super().solve(problem, start, rng)


def test_processes_started_while_it_is_held_back_never_hear_it():
    with held_back(2):
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1)"])
    process.send_signal(signal.SIGINT)
    assert process.wait() == 0


def test_what_was_held_back_is_heard_afterwards():
    done = []

    def work():
        with held_back(2):
            signal.raise_signal(signal.SIGINT)
            done.append("the work")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["the work"]


def test_only_an_interruption_is_unwrapped():
    with pytest.raises(KeyboardInterrupt), unwrapped_interruption():
        interrupt()
    with pytest.raises(ZeroDivisionError), unwrapped_interruption():
        raise ZeroDivisionError
    with pytest.raises(SolverError), unwrapped_interruption():
        raise SolverError("no answer") from ValueError()


def answer():
    try:
        interrupt()
    except SystemError:
        raise ZeroDivisionError from None


def test_an_answer_to_an_interruption_is_none():
    with pytest.raises(ZeroDivisionError), unwrapped_interruption():
        answer()


@pytest.mark.parametrize("exchange", [True, False])
def test_a_fit_keeps_what_it_has(exchange):
    clf = TotalQBoostClassifier(0.001, exchange=exchange, l1_penalty=0.01)
    with pytest.raises(Interrupted):
        clf.fit(X, Y, on_event=Once(3))
    assert clf.ensemble_.n_learners > 0


def test_a_fit_keeps_what_it_has_when_the_solver_is_interrupted():
    solver = InterruptedSolver()
    clf = TotalQBoostClassifier(0.001, solver=solver, exchange=False, l1_penalty=0.01)
    with pytest.raises(Interrupted):
        clf.fit(X, Y)
    assert clf.ensemble_.n_learners > 0


def test_a_frontier_keeps_the_sizes_so_far():
    with pytest.raises(Interrupted) as caught:
        frontier(X, Y, max_learners=5, l1_penalty=0.01, on_event=Once(4))
    assert len(caught.value.result) > 1


def test_branch_and_price_keeps_a_valid_bound():
    search = BranchAndPrice(fit_intercept=False, on_progress=Once(1))
    with pytest.raises(Interrupted) as caught:
        search.solve(X, 2 * Y - 1, 3)
    found = caught.value.result
    assert found.bound <= found.objective < 1.0


def test_tabu_search_keeps_the_best_so_far(monkeypatch):
    problem = random_problem(0)
    monkeypatch.setattr(walk.Walk, "run", interrupt)
    with pytest.raises(Interrupted) as caught:
        TabuSearch().solve(problem)
    assert np.isfinite(caught.value.result.objective)


class HalfMade:
    """What Ctrl-C leaves behind: its destructor fails."""

    def __del__(self):
        raise AttributeError("half made")


@pytest.mark.parametrize(("module", "is_said"), [("llvmlite.binding.ffi", False), ("x", True)])
def test_what_is_half_made_in_the_compiler_is_not_spoken_of(module, is_said, capsys, monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", _say_unraisable)
    monkeypatch.setattr(HalfMade.__del__, "__module__", module)
    HalfMade()
    assert ("half made" in capsys.readouterr().err) == is_said
