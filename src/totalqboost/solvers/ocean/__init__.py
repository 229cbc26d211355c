"""Quantum and other annealers: the master problem for any sampler of D-Wave's Ocean.

Builders turn a :class:`~totalqboost.MasterProblem` into a model and its samples back into
weights; solvers put a sampler in the place of local search. Importing this package imports
none of Ocean: what is missing is named when it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from totalqboost.solvers.ocean.bqm import BQMModel, build_bqm
from totalqboost.solvers.ocean.calling import SamplerError, is_sampler
from totalqboost.solvers.ocean.cqm import CQMModel, build_cqm
from totalqboost.solvers.ocean.extras import needs
from totalqboost.solvers.ocean.nonlinear import NonlinearModel, build_nonlinear
from totalqboost.solvers.ocean.planning import Plan, plan
from totalqboost.solvers.ocean.second_order import SecondOrderModel
from totalqboost.solvers.ocean.solvers import BQMSolver, CQMSolver, NonlinearSolver, solver_for

if TYPE_CHECKING:
    from totalqboost.solvers.ocean.samplers import LocalSearchSampler, TabuSearchSampler

__all__ = [
    "BQMModel",
    "BQMSolver",
    "CQMModel",
    "CQMSolver",
    "LocalSearchSampler",
    "NonlinearModel",
    "NonlinearSolver",
    "Plan",
    "SamplerError",
    "SecondOrderModel",
    "TabuSearchSampler",
    "build_bqm",
    "build_cqm",
    "build_nonlinear",
    "is_sampler",
    "plan",
    "solver_for",
]


if not TYPE_CHECKING:  # or any name would pass as one of these

    def __getattr__(name: str) -> Any:
        """Import the samplers of our own when asked for: they are subclasses of dimod's."""
        if name not in ("LocalSearchSampler", "TabuSearchSampler"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        with needs("annealing"):
            from totalqboost.solvers.ocean import samplers
        return getattr(samplers, name)
