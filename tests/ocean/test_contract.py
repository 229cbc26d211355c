"""Samplers as solvers: the contract that every solver of the master problem keeps."""

from __future__ import annotations

import dimod
import pytest
from dwave.samplers import SimulatedAnnealingSampler, TabuSampler
from solver_contract import SolverContract

from totalqboost.solvers import BQMSolver, CQMSolver
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
