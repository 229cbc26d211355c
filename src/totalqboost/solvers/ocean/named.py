"""Samplers by name, for the command line: those that run on this machine."""

from __future__ import annotations

from typing import Any

from totalqboost.solvers.ocean.extras import needs
from totalqboost.solvers.ocean.solvers import BQMSolver

__all__ = ["SAMPLERS", "named_solver"]

# Name → class in dwave.samplers, and the parameters that make its runs repeatable.
SAMPLERS: dict[str, tuple[str, dict[str, Any]]] = {
    "simulated-annealing": ("SimulatedAnnealingSampler", {}),
    "path-integral": ("PathIntegralAnnealingSampler", {}),
    "dwave-tabu": ("TabuSampler", {"timeout": None, "num_restarts": 20}),
    "random": ("RandomSampler", {}),
}


def named_solver(name: str) -> BQMSolver:
    """Return the solver of binary quadratic models with the sampler of that name."""
    with needs("annealing"):
        from dwave import samplers
    kind, parameters = SAMPLERS[name]
    return BQMSolver(getattr(samplers, kind), parameters=parameters, encoding="binary", n_bits=3)
