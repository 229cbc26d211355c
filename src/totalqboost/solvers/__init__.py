"""Solvers of the restricted master problem (line 10 of Algorithm 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from totalqboost.solvers.compose import PlainSolver, Solves, StartPool, Wrapper
from totalqboost.solvers.exact import (
    BranchAndBound,
    Progress,
    Techniques,
    certify,
    certify_integers,
)
from totalqboost.solvers.local import LocalSearch
from totalqboost.solvers.tabu import TabuSearch
from totalqboost.solving import MasterSolver

if TYPE_CHECKING:
    from totalqboost.solvers.ocean import (
        BQMSolver,
        CQMSolver,
        NonlinearSolver,
        SamplerError,
        build_bqm,
        build_cqm,
        build_nonlinear,
        plan,
    )

__all__ = [
    "BQMSolver",
    "BranchAndBound",
    "CQMSolver",
    "LocalSearch",
    "NonlinearSolver",
    "Progress",
    "SamplerError",
    "StartPool",
    "TabuSearch",
    "Techniques",
    "Wrapper",
    "build_bqm",
    "build_cqm",
    "build_nonlinear",
    "certify",
    "certify_integers",
    "get",
    "names",
    "plan",
]

# In ``solvers.ocean``; imported when asked for, to keep the start of the package short.
_OCEAN = (
    "BQMSolver",
    "CQMSolver",
    "NonlinearSolver",
    "SamplerError",
    "build_bqm",
    "build_cqm",
    "build_nonlinear",
    "plan",
)

_SOLVERS: dict[str, Any] = {"exact": BranchAndBound, "local": LocalSearch, "tabu": TabuSearch}


if not TYPE_CHECKING:  # or any name would pass as one of these

    def __getattr__(name: str) -> Any:
        if name not in _OCEAN:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from totalqboost.solvers import ocean

        return getattr(ocean, name)


def names() -> list[str]:
    """Return the names of the built-in solvers.

    Examples
    --------
    >>> from totalqboost import solvers
    >>> solvers.names()
    ['exact', 'local', 'tabu']
    """
    return sorted(_SOLVERS)


def get(solver: Any, n_bits: int | str = 6) -> MasterSolver:
    """Return the solver of that name, or the object itself if it is one.

    Any object with ``solve(problem, start, rng)`` will do. A sampler of D-Wave's Ocean, or a
    function or class that returns one, gets the solver that suits it. ``n_bits`` is the depth of
    fixed-point weights, for solvers that use them.

    Parameters
    ----------
    solver : str, MasterSolver or sampler
        A name of :func:`names`, or an object.
    n_bits : int or "auto"
        Depth of fixed-point weights.

    Examples
    --------
    >>> from totalqboost import solvers
    >>> solvers.get("local").name
    'LocalSearch'
    """
    if isinstance(solver, str):
        if solver not in _SOLVERS:
            raise ValueError(
                f"solver must be one of {names()} or an object with solve(problem, start, rng), "
                f"got {solver!r}"
            )
        return TabuSearch(n_bits=n_bits) if solver == "tabu" else _SOLVERS[solver]()
    if isinstance(solver, MasterSolver):
        return solver
    if isinstance(solver, Solves) and not isinstance(solver, type):
        return PlainSolver(solver)
    hint = ""
    if not isinstance(solver, Solves):
        from totalqboost.solvers.ocean import is_sampler, solver_for

        if callable(solver) or is_sampler(solver):
            return solver_for(solver, n_bits)
    elif isinstance(solver, type):
        argument = "sampler" if solver.__name__ in _OCEAN else ""
        hint = f": make an object of it, {solver.__name__}({argument})"
    raise TypeError(
        f"solver must be one of {names()}, an object with solve(problem, start, rng) or a "
        f"sampler of D-Wave's Ocean, got {solver!r}{hint}"
    )
