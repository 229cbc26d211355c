"""Solvers around other solvers: a wrapper forwards the whole life of the one inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from totalqboost.master import MasterProblem
from totalqboost.solving import MasterSolver, Solution, SolverSession, solve

__all__ = ["PlainSolver", "StartPool", "Wrapper", "WrapperSession"]


class Wrapper(MasterSolver):
    """A solver around another one, ``solver``; a subclass overrides what it changes."""

    solver: MasterSolver

    def solve(
        self,
        problem: MasterProblem,
        start: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> Solution:
        rng = np.random.default_rng(0) if rng is None else rng
        return self.session(problem).solve(problem, problem.checked_start(start), rng)

    def session(self, problem: MasterProblem) -> SolverSession:
        return WrapperSession(self, self.solver.session(problem))


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


@dataclass(frozen=True)
class PlainSolver(MasterSolver):
    """Any object with ``solve(problem, start, rng)``, made a solver of ours."""

    inner: Any

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

    Its answer is then never worse than any of the pool that fits the problem.
    """

    solver: MasterSolver
    pool: Sequence[np.ndarray]

    def session(self, problem: MasterProblem) -> SolverSession:
        return _PoolSession(self, self.solver.session(problem))


class _PoolSession(WrapperSession):
    solver: StartPool

    def solve(
        self, problem: MasterProblem, start: np.ndarray | None, rng: np.random.Generator
    ) -> Solution:
        solution = self.inner.solve(problem, start, rng)
        pool = [w for w in self.solver.pool if problem.is_feasible(w)]
        if start is not None or not pool:
            return solution
        best = min(pool, key=problem.objective)
        other = solve(self.inner, problem, best, rng)
        work = solution.n_evaluations + other.n_evaluations
        bound = max(solution.bound, other.bound)  # of the same problem
        better = min(solution, other, key=lambda s: s.objective)
        return replace(better, bound=min(bound, better.objective), n_evaluations=work)
