"""Solvers of the restricted master problem (line 10 of Algorithm 1)."""

from __future__ import annotations

from typing import Any

from totalqboost.master import MasterSolver
from totalqboost.solvers.local import LocalSearch
from totalqboost.solvers.tabu import TabuSearch

__all__ = ["LocalSearch", "TabuSearch", "get", "names"]

_SOLVERS: dict[str, Any] = {"local": LocalSearch, "tabu": TabuSearch}


def names() -> list[str]:
    """Return the names of the built-in solvers."""
    return sorted(_SOLVERS)


def get(solver: str | MasterSolver, n_bits: int | str = 6) -> MasterSolver:
    """Return the solver of that name, or the object itself if it has ``solve``.

    ``n_bits`` is the depth of fixed-point weights, for named solvers that use them.
    """
    if isinstance(solver, str):
        if solver not in _SOLVERS:
            raise ValueError(
                f"solver must be one of {names()} or an object with solve(problem, start, rng), "
                f"got {solver!r}"
            )
        return TabuSearch(n_bits=n_bits) if solver == "tabu" else _SOLVERS[solver]()
    if isinstance(solver, type) or not hasattr(solver, "solve"):
        raise TypeError(
            f"solver must be one of {names()} or an object with solve(problem, start, rng), "
            f"got {solver!r}"
        )
    return solver
