"""Solvers within an experiment: where they start, what they prove, and Ctrl-C."""

from __future__ import annotations

import numpy as np
import pytest
from solver_contract import random_problem

from totalqboost.solvers import BranchAndBound, LocalSearch
from totalqboost.solvers.compose import StartPool
from totalqboost.solving import Interrupted, MasterSolver, Solution


class Cut(MasterSolver):
    """A solver that Ctrl-C cuts short at a certain call."""

    def __init__(self, when):
        self.when = when

    def solve(self, problem, start=None, rng=None):
        self.when -= 1
        solution = LocalSearch().solve(problem, start, rng)
        if self.when == 0:
            raise Interrupted(solution)
        return solution


@pytest.mark.parametrize("when", [1, 2])
def test_an_interrupted_answer_is_no_result(when):
    problem = random_problem(0)
    pool = [np.zeros(problem.n_columns)]
    whole = StartPool(Cut(3), pool).solve(problem)
    with pytest.raises(Interrupted) as caught:
        StartPool(Cut(when), pool).solve(problem)
    # but it is kept, as good as what was found until then
    found = caught.value.result
    assert problem.is_feasible(found.w)
    assert found.objective >= whole.objective - 1e-12


def test_both_proofs_of_a_pool_count():
    class Prover(MasterSolver):
        def solve(self, problem, start=None, rng=None):
            solution = LocalSearch().solve(problem, start, rng)
            bound = 0.1 if start is None else 0.2
            return Solution(solution.w, solution.objective, bound)

    problem = random_problem(0)
    start = BranchAndBound().solve(problem).w
    assert StartPool(Prover(), [start]).solve(problem).bound == 0.2
    assert StartPool(Prover(), []).solve(problem).bound == 0.1
