"""Solvers within an experiment: where they start, what they prove, and Ctrl-C."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from solver_contract import random_problem

from totalqboost.experiments.strategies import StartPool
from totalqboost.solving import Solution
from totalqboost.solvers import BranchAndBound, LocalSearch


@dataclass(frozen=True)
class Cut:
    """A solver that Ctrl-C cuts short at a certain call."""

    when: int
    calls: list[int]

    def solve(self, problem, start=None, rng=None):
        self.calls.append(1)
        solution = LocalSearch().solve(problem, start, rng)
        return replace(solution, status="interrupted" if len(self.calls) == self.when else "done")


@pytest.mark.parametrize("when", [1, 2])
def test_an_interrupted_answer_is_no_result(when):
    problem = random_problem(0)
    pool = [np.zeros(problem.n_columns)]
    assert StartPool(Cut(3, []), pool).solve(problem).status == "done"
    with pytest.raises(KeyboardInterrupt):
        StartPool(Cut(when, []), pool).solve(problem)


def test_both_proofs_of_a_pool_count():
    @dataclass(frozen=True)
    class Prover:
        def solve(self, problem, start=None, rng=None):
            solution = LocalSearch().solve(problem, start, rng)
            bound = 0.1 if start is None else 0.2
            return Solution(solution.w, solution.objective, bound)

    problem = random_problem(0)
    start = BranchAndBound().solve(problem).w
    assert StartPool(Prover(), [start]).solve(problem).bound == 0.2
    assert StartPool(Prover(), []).solve(problem).bound == 0.1
