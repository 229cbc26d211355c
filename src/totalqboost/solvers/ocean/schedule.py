"""Which problems of a fit a sampler is given, and how many calls that may take.

A sampler may be a service that costs money, so the schedule belongs to one fit: it counts the
problems, knows whether the last one has been asked about, and spends the budget of calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from totalqboost.master import MasterProblem
from totalqboost.solvers.local import LocalSearch
from totalqboost.solving import MasterSolver, Solution, SolverSession, Status

__all__ = ["Budget", "Schedule", "most_solves"]


@dataclass
class Budget:
    """Calls that a fit may still make; None: as many as it likes."""

    limit: int | None
    n_spent: int = 0

    @property
    def left(self) -> float:
        return np.inf if self.limit is None else self.limit - self.n_spent


Anneal = Callable[[MasterProblem, np.ndarray | None, np.random.Generator, Budget], Solution]


class Schedule(SolverSession):
    """The solver of one fit: the sampler for every k-th problem and the last, else local search.

    Parameters
    ----------
    solver : MasterSolver
        Whose session this is.
    every : int or "final"
        k. With 1 the sampler gets every problem.
    max_calls : int, optional
        When they are used up, local search goes on.
    anneal : callable
        Solves a problem by the sampler.
    """

    def __init__(
        self, solver: MasterSolver, every: int | str, max_calls: int | None, anneal: Anneal
    ):
        super().__init__(solver)
        self.every = every
        self.budget = Budget(max_calls)
        self.anneal = anneal
        self.n_problems = 0
        self.problem: MasterProblem | None = None  # the present one
        self.answer: Solution | None = None  # of the sampler to it, if it was asked

    def solve(
        self,
        problem: MasterProblem,
        start: np.ndarray | None,
        rng: np.random.Generator,
    ) -> Solution:
        """Return the answer of the sampler if it is its turn, else that of local search."""
        if problem is not self.problem:  # a wrapper may ask twice
            self.n_problems += 1
        self.problem, self.answer = problem, None
        if self.every != "final" and self.n_problems % int(self.every) == 0:
            return self._ask(problem, start, rng)
        return LocalSearch().solve(problem, start, rng)

    def finish(self, problem: MasterProblem, w: np.ndarray, rng: np.random.Generator) -> Solution:
        """Return the sampler's answer to the last problem of a fit, which it may have given."""
        if self.answer is not None:
            return replace(self.answer, n_evaluations=0)  # they have been counted
        return self._ask(problem, w, rng)

    def _ask(
        self, problem: MasterProblem, start: np.ndarray | None, rng: np.random.Generator
    ) -> Solution:
        if self.budget.left > 0:
            self.answer = self.anneal(problem, start, rng, self.budget)
            return self.answer
        solution = LocalSearch().solve(problem, start, rng)
        note = f"local search, because max_calls={self.budget.limit} are used up"
        return replace(solution, status=Status.FELL_BACK, note=note)


def most_solves(every: int | str, n_problems: int) -> int:
    """Return how many of the problems of a fit the sampler gets: every k-th and the last."""
    return min(1, n_problems) if every == "final" else -(-n_problems // int(every))
