"""Samplers as solvers: the contract that every solver of the master problem keeps."""

from __future__ import annotations

import dimod
import pytest
from dwave.samplers import SimulatedAnnealingSampler, TabuSampler
from nonlinear_sampler import CoordinateSampler
from solver_contract import SolverContract, Squareplus, random_problem

from totalqboost import losses
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


every_loss = pytest.mark.parametrize("loss", losses.names())


@pytest.mark.parametrize(
    "solver",
    [
        NonlinearSolver(CoordinateSampler(), n_bits=3),
        NonlinearSolver(CoordinateSampler, n_bits=2, polish="refit", n_calls=4),
    ],
    ids=["descend", "refit-only"],
)
class TestNonlinear(SolverContract):
    """The contract for the built-in losses; one of the user's own is refused, see below."""

    @every_loss
    def test_answer_is_feasible_and_its_objective_is_that_of_the_problem(self, solver, loss):
        super().test_answer_is_feasible_and_its_objective_is_that_of_the_problem(solver, loss)

    @every_loss
    @pytest.mark.parametrize("seed", [0, 1])
    def test_never_below_the_optimum_over_all_supports(self, solver, loss, seed):
        super().test_never_below_the_optimum_over_all_supports(solver, loss, seed)

    @every_loss
    def test_same_seed_same_answer(self, solver, loss):
        super().test_same_seed_same_answer(solver, loss)


def test_a_loss_of_the_users_own_is_refused_by_the_nonlinear_solver_before_any_call():
    class Untouched(CoordinateSampler):
        def sample(self, model, **parameters):
            raise AssertionError("called")

    message = r"loss must be 'exponential'.* got Squareplus\(\); BQMSolver and CQMSolver take any"
    with pytest.raises(ValueError, match=message):
        NonlinearSolver(Untouched()).solve(random_problem(0, loss=Squareplus()))
