"""Solvers around other solvers: a wrapper forwards the whole life of the one inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np

from totalqboost.master import MasterProblem
from totalqboost.solving import (
    Interrupted,
    MasterSolver,
    Solution,
    SolverSession,
    Status,
    better_of,
    solve,
)

__all__ = ["PlainSolver", "Solves", "StartPool", "Wrapper", "WrapperSession"]


class Wrapper(MasterSolver):
    """A solver around another one, ``solver``; a subclass overrides ``around``.

    Examples
    --------
    >>> import numpy as np
    >>> from totalqboost import MasterProblem
    >>> A = np.where(np.random.default_rng(0).random((6, 40)) < 0.6, 1, -1)
    >>> problem = MasterProblem(A, nu=1e-3, lam=0.01)
    >>> from dataclasses import dataclass
    >>> from totalqboost.solvers import LocalSearch, Wrapper
    >>> @dataclass(frozen=True)
    ... class Logged(Wrapper):  # one that overrides ``around`` could do more
    ...     solver: LocalSearch
    >>> Logged(LocalSearch()).solve(problem).objective == LocalSearch().solve(problem).objective
    True
    """

    solver: MasterSolver

    def solve(
        self,
        problem: MasterProblem,
        start: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> Solution:
        rng = np.random.default_rng(0) if rng is None else rng
        inner = SolverSession(self.solver)  # one problem, no fit: its ``solve`` as it is
        return self.around(inner).solve(problem, problem.checked_start(start), rng)

    def session(self, problem: MasterProblem) -> SolverSession:
        return self.around(self.solver.session(problem))

    def around(self, inner: SolverSession) -> SolverSession:
        """Return the wrapper's session around one of the solver inside."""
        return WrapperSession(self, inner)


class WrapperSession(SolverSession):
    """A session around another one, ``inner``, to which it hands everything on."""

    def __init__(self, solver: MasterSolver, inner: SolverSession):
        super().__init__(solver)
        self.inner = inner
        self.adds_to_search = inner.adds_to_search

    def solve(
        self, problem: MasterProblem, start: np.ndarray | None, rng: np.random.Generator
    ) -> Solution:
        return self.inner.solve(problem, start, rng)

    def finish(
        self, problem: MasterProblem, w: np.ndarray, rng: np.random.Generator
    ) -> Solution | None:
        return self.inner.finish(problem, w, rng)


@runtime_checkable
class Solves(Protocol):
    """What a user's own object must have to be a solver, if it is no ``MasterSolver``."""

    def solve(
        self, problem: MasterProblem, start: np.ndarray | None, rng: np.random.Generator | None
    ) -> Solution: ...


@dataclass(frozen=True)
class PlainSolver(MasterSolver):
    """Any object with ``solve(problem, start, rng)``, made a solver of ours."""

    inner: Solves

    @property
    def name(self) -> str:
        return type(self.inner).__name__

    def solve(
        self,
        problem: MasterProblem,
        start: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> Solution:
        return self.inner.solve(problem, start, rng)


@dataclass(frozen=True, eq=False)
class StartPool(Wrapper):
    """A solver that, where it has no start of its own, also starts from the best of a pool.

    Its answer is then never worse than any of the pool that fits the problem; if its answers are
    of a grid, than the best of the pool there.

    Parameters
    ----------
    solver : MasterSolver
        What solves.
    pool : sequence of arrays
        Weights to start from.

    Examples
    --------
    >>> import numpy as np
    >>> from totalqboost import MasterProblem
    >>> A = np.where(np.random.default_rng(0).random((6, 40)) < 0.6, 1, -1)
    >>> problem = MasterProblem(A, nu=1e-3, lam=0.01)
    >>> from totalqboost.solvers import LocalSearch, StartPool
    >>> found = LocalSearch().solve(problem)
    >>> again = StartPool(LocalSearch(), [found.w]).solve(problem)
    >>> again.objective <= found.objective
    True
    """

    solver: MasterSolver
    pool: Sequence[np.ndarray]

    def around(self, inner: SolverSession) -> SolverSession:
        return _PoolSession(self, inner)


class _PoolSession(WrapperSession):
    solver: StartPool

    def solve(
        self, problem: MasterProblem, start: np.ndarray | None, rng: np.random.Generator
    ) -> Solution:
        pool = [w for w in self.solver.pool if problem.is_feasible(w)]
        solution = solve(self.inner, problem, start, rng)
        if start is not None or not pool:
            return solution
        best = min(pool, key=problem.objective)
        if not solution.is_discrete:  # its grid need not hold a start
            solution = better_of(problem, solution, best)
        try:
            return _joined(solution, solve(self.inner, problem, best, rng))
        except Interrupted as interruption:
            joined = _joined(solution, interruption.result)
            raise Interrupted(replace(joined, status=Status.INTERRUPTED)) from None


def _joined(one: Solution, other: Solution) -> Solution:
    """Return the better of two answers to one problem, with the bound and the work of both."""
    better = min(one, other, key=lambda solution: solution.objective)
    bound = min(max(one.bound, other.bound), better.objective)
    return replace(better, bound=bound, n_evaluations=one.n_evaluations + other.n_evaluations)
