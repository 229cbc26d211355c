"""Samplers as solvers: the contract that every solver of the master problem keeps."""

from __future__ import annotations

import dimod
import pytest
from dwave.samplers import SimulatedAnnealingSampler, TabuSampler
from nonlinear_sampler import CoordinateSampler
from solver_contract import BuiltInLossContract, SolverContract, Squareplus, random_problem

from totalqboost.solvers import BQMSolver, CQMSolver, NonlinearSolver
from totalqboost.solvers.ocean import TabuSearchSampler

FEW = {"num_reads": 10, "num_sweeps": 50}

SOLVERS = {
    "indicator-annealing": BQMSolver(SimulatedAnnealingSampler(), parameters=FEW, n_calls=2),
    "binary-annealing": BQMSolver(
        SimulatedAnnealingSampler, parameters=FEW, n_calls=1, encoding="binary", n_bits=2
    ),
    "refit-only": BQMSolver(dimod.ExactSolver(), polish="refit", n_calls=3),
    "dwave-tabu": BQMSolver(TabuSampler(), parameters={"num_reads": 3}, n_calls=1),
    "our-tabu": BQMSolver(TabuSearchSampler(), parameters={"num_reads": 3}, n_calls=1),
    "cqm-exact": CQMSolver(dimod.ExactCQMSolver(), n_bits=1, n_calls=1),
}


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
class TestEverySampler(SolverContract):
    """The contract, for samplers of each kind."""


@pytest.mark.parametrize(
    "solver",
    [
        NonlinearSolver(CoordinateSampler(), n_bits=3),
        NonlinearSolver(CoordinateSampler, n_bits=2, polish="refit", n_calls=4),
    ],
    ids=["descend", "refit-only"],
)
class TestNonlinear(BuiltInLossContract):
    """The contract for the built-in losses; one of the user's own is refused, see below."""


def test_a_loss_of_the_users_own_is_refused_by_the_nonlinear_solver_before_any_call():
    class Untouched(CoordinateSampler):
        def sample(self, model, **parameters):
            raise AssertionError("called")

    message = r"loss must be 'exponential'.* got Squareplus\(\); BQMSolver and CQMSolver take any"
    with pytest.raises(ValueError, match=message):
        NonlinearSolver(Untouched()).solve(random_problem(0, loss=Squareplus()))
