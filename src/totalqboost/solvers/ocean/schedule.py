"""Which problems of a fit a sampler is given, and how many calls that may take.

A sampler may be a service that costs money, so the schedule belongs to one fit: it counts the
rounds, knows whether the last problem has been asked about, and spends the budget of calls.
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

    def spend(self) -> None:
        self.n_spent += 1

    @property
    def left(self) -> float:
        return np.inf if self.limit is None else self.limit - self.n_spent


Anneal = Callable[[MasterProblem, np.ndarray | None, np.random.Generator, Budget], Solution]


class Schedule(SolverSession):
    """A solver for one fit: the sampler in every k-th round and at the end, else local search.

    Parameters
    ----------
    solver : MasterSolver
        Whose session this is.
    every : int or "final"
        k. With 1 the sampler gets every problem, those of exchange sweeps too.
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
        self.n_rounds = 0
        self.is_asked = False  # has the sampler seen the present problem?

    def solve(
        self,
        problem: MasterProblem,
        start: np.ndarray | None,
        rng: np.random.Generator,
    ) -> Solution:
        """Return the answer of the sampler if it is its turn, else that of local search."""
        if self._is_turn(problem):
            return self._ask(problem, start, rng)
        self.is_asked = False
        return LocalSearch().solve(problem, start, rng)

    def finish(
        self, problem: MasterProblem, w: np.ndarray, rng: np.random.Generator
    ) -> Solution | None:
        """Return the sampler's answer to the last problem of a fit; None: it has been asked."""
        return None if self.is_asked else self._ask(problem, w, rng)

    def _is_turn(self, problem: MasterProblem) -> bool:
        """Count rounds by priced columns: one more is a new round, as many are an exchange."""
        number = int(np.count_nonzero(problem.cost > 0))
        is_round, self.n_rounds = number > self.n_rounds, number
        if self.every == 1:
            return True
        return self.every != "final" and is_round and number % int(self.every) == 0

    def _ask(
        self, problem: MasterProblem, start: np.ndarray | None, rng: np.random.Generator
    ) -> Solution:
        self.is_asked = self.budget.left > 0
        if self.is_asked:
            return self.anneal(problem, start, rng, self.budget)
        solution = LocalSearch().solve(problem, start, rng)
        note = f"local search, because max_calls={self.budget.limit} are used up"
        return replace(solution, status=Status.FELL_BACK, note=note)


def most_solves(every: int | str, max_rounds: int, n_exchanges: int) -> int:
    """Return the largest number of problems that the sampler can get in a fit.

    One of each round and of each exchange sweep if it gets them all. Otherwise every k-th
    round and the last problem, which may be that of a k-th round if there are no exchanges.
    """
    if every == 1:
        return max_rounds + n_exchanges
    if every == "final":
        return 1
    k = int(every)
    return -(-max_rounds // k) if n_exchanges == 0 else max_rounds // k + 1
