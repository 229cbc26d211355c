"""What a solver of the master problem is, and what it answers: line 10 of Algorithm 1.

A solver is a record of settings with ``solve``. For one fit it opens a *session*, which holds
all that changes from call to call: checks, budgets, what it was asked before. The engine talks
to sessions only::

    session = solver.session(problem)            # once per fit, with the first problem
    session.solve(problem, start, rng)           # in every round that needs it
    session.finish(problem, w, rng)              # once, at the end

A wrapper (:mod:`totalqboost.solvers.compose`) is a solver around another one, and forwards all
three.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from totalqboost.fixed_point import Grid
from totalqboost.master import MasterProblem

__all__ = [
    "Interrupted",
    "MasterSolver",
    "Solution",
    "SolverError",
    "SolverSession",
    "Status",
    "better_of",
    "solve",
]


class Status(StrEnum):
    """Why a search ended. Details, if there are any, are in a note beside it.

    Examples
    --------
    >>> from totalqboost import Status
    >>> Status.OPTIMAL, str(Status.OPTIMAL)
    (<Status.OPTIMAL: 'optimal'>, 'optimal')
    """

    OPTIMAL = "optimal"
    GAP_REACHED = "gap reached"
    LOCAL_OPTIMUM = "local optimum"
    CONVERGED = "converged"
    PATIENCE = "patience"
    MAX_ROUNDS = "max_rounds"
    BUDGET_SPENT = "budget spent"
    NODE_LIMIT = "node limit"
    TIME_LIMIT = "time limit"
    ROUNDING_LIMIT = "rounding limit"
    SAMPLED = "sampled"
    FELL_BACK = "fell back"
    INTERRUPTED = "interrupted"
    SOLVER_FAILED = "solver failed"


@dataclass(frozen=True, eq=False)
class Solution:
    """Weights with their objective and, where known, a lower bound of the optimum.

    Attributes
    ----------
    w : array
        Weight per column, zero for those not kept.
    objective : float
        ``problem.objective(w)``.
    bound : float
        Lower bound of the optimal objective, -inf if none is known.
    n_evaluations : int
        Work done, in the solver's own unit (refits, scored neighbourhoods, nodes).
    status : Status
        Why the solver stopped.
    note : str
        What there is to say beyond that, e.g. how often a sampler was called.
    grid : Grid, optional
        Depth and range of fixed-point weights, if the solver searched any.
    is_discrete : bool
        Whether ``w`` still are weights of that grid, for the caller to refit (lines 12-13 of
        Algorithm 1).
    """

    w: np.ndarray
    objective: float
    bound: float = -np.inf
    n_evaluations: int = 0
    status: Status = Status.LOCAL_OPTIMUM
    note: str = ""
    grid: Grid | None = None
    is_discrete: bool = False

    @property
    def gap(self) -> float:
        """Relative distance to the bound: ``(objective - bound) / |objective|``."""
        if self.objective == self.bound:
            return 0.0
        return (self.objective - self.bound) / max(abs(self.objective), np.finfo(float).tiny)


class SolverError(RuntimeError):
    """A solver could not answer, e.g. a remote service failed.

    The fit stops, puts what was done until then into ``result``, and lets the error pass.

    Examples
    --------
    >>> from totalqboost import MasterSolver, SolverError, TotalQBoostClassifier, datasets
    >>> class Offline(MasterSolver):
    ...     def solve(self, problem, start=None, rng=None):
    ...         raise SolverError("the service does not answer")
    >>> X, y = datasets.load("flare solar")
    >>> try:
    ...     TotalQBoostClassifier(0.01, solver=Offline(), exchange=False).fit(X, y)
    ... except SolverError as error:
    ...     print(error)
    the service does not answer
    """

    result: Any = None


class Interrupted(KeyboardInterrupt):
    """Ctrl-C. ``result`` is what was done until then, of the type that the call returns.

    Examples
    --------
    >>> from totalqboost import Interrupted, TotalQBoostClassifier, datasets
    >>> X, y = datasets.load("flare solar")
    >>> clf = TotalQBoostClassifier(0.01, exchange=False)
    >>> def stop(event):
    ...     raise KeyboardInterrupt  # as if somebody had pressed Ctrl-C
    >>> try:
    ...     clf.fit(X, y, on_event=stop)
    ... except Interrupted as stopped:
    ...     print(stopped.result.status)
    interrupted
    """

    def __init__(self, result: Any):
        super().__init__("interrupted; the best so far is kept")
        self.result = result


class MasterSolver(ABC):
    """Settings of a solver of the master problem; subclass it and write ``solve``.

    Examples
    --------
    >>> import numpy as np
    >>> from totalqboost import MasterProblem, MasterSolver, Solution
    >>> class KeepNothing(MasterSolver):
    ...     def solve(self, problem, start=None, rng=None):
    ...         w = np.zeros(problem.n_columns) if start is None else start
    ...         return Solution(w, problem.objective(w))
    >>> problem = MasterProblem(np.array([[1, 1, -1]]), lam=0.01)
    >>> KeepNothing().solve(problem).objective
    1.0
    """

    @abstractmethod
    def solve(
        self,
        problem: MasterProblem,
        start: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> Solution:
        """Return weights at least as good as ``start`` (the empty ensemble if None).

        A solver whose answers are of a grid compares them with the nearest point of it.
        On Ctrl-C it may raise :class:`Interrupted` with the best solution so far.
        """

    @property
    def name(self) -> str:
        """What messages call it."""
        return type(self).__name__

    def session(self, problem: MasterProblem) -> SolverSession:
        """Return what solves the problems of one fit; ``problem`` is the first of them."""
        return SolverSession(self)


class SolverSession:
    """The solver of one fit: by default the solver itself, with nothing to add at the end.

    Parameters
    ----------
    solver : MasterSolver
        Whose settings it has.

    Examples
    --------
    >>> import numpy as np
    >>> from totalqboost import MasterProblem
    >>> A = np.where(np.random.default_rng(0).random((6, 40)) < 0.6, 1, -1)
    >>> problem = MasterProblem(A, nu=1e-3, lam=0.01)
    >>> from totalqboost.solvers import LocalSearch
    >>> session = LocalSearch().session(problem)
    >>> found = session.solve(problem, None, np.random.default_rng(0))
    >>> problem.is_feasible(found.w)
    True
    """

    adds_to_search = True  # can it better the answer of a search over the whole dictionary?

    def __init__(self, solver: MasterSolver):
        self.solver = solver

    def solve(
        self, problem: MasterProblem, start: np.ndarray | None, rng: np.random.Generator
    ) -> Solution:
        """Return an answer to one problem; see :meth:`MasterSolver.solve`."""
        return self.solver.solve(problem, start, rng)

    def finish(
        self, problem: MasterProblem, w: np.ndarray, rng: np.random.Generator
    ) -> Solution | None:
        """Return a last word on the final problem, whose weights are w; None: nothing to add."""
        return None


def solve(
    session: SolverSession,
    problem: MasterProblem,
    start: np.ndarray | None,
    rng: np.random.Generator,
) -> Solution:
    """Return the answer, re-scored; weights that cannot be used are an error.

    Parameters
    ----------
    session : SolverSession
        Of the solver.
    problem : MasterProblem
        What to solve.
    start : array or None
        Weights to begin with.
    rng : Generator
        Where randomness comes from.

    Examples
    --------
    >>> import numpy as np
    >>> from totalqboost import MasterProblem
    >>> A = np.where(np.random.default_rng(0).random((6, 40)) < 0.6, 1, -1)
    >>> problem = MasterProblem(A, nu=1e-3, lam=0.01)
    >>> from totalqboost.solvers import LocalSearch
    >>> from totalqboost.solving import solve
    >>> found = solve(LocalSearch().session(problem), problem, None, np.random.default_rng(0))
    >>> found.objective == problem.objective(found.w)
    True
    """
    return _rescored(session, problem, session.solve(problem, start, rng))


def finish(
    session: SolverSession, problem: MasterProblem, w: np.ndarray, rng: np.random.Generator
) -> Solution | None:
    """Return the session's last word, re-scored, with the weights w if those are better."""
    solution = session.finish(problem, w, rng)
    if solution is None:
        return None
    return better_of(problem, _rescored(session, problem, solution), w)


def better_of(problem: MasterProblem, solution: Solution, w: np.ndarray) -> Solution:
    """Return the solution, with the weights w in the place of its own if they are better.

    Parameters
    ----------
    problem : MasterProblem
        What both answer.
    solution : Solution
        One answer.
    w : array of shape (n_columns,)
        Another.

    Examples
    --------
    >>> import numpy as np
    >>> from totalqboost import MasterProblem
    >>> A = np.where(np.random.default_rng(0).random((6, 40)) < 0.6, 1, -1)
    >>> problem = MasterProblem(A, nu=1e-3, lam=0.01)
    >>> from totalqboost.solvers import LocalSearch
    >>> from totalqboost.solving import better_of
    >>> found = LocalSearch().solve(problem)
    >>> better_of(problem, found, np.zeros(6)) is found
    True
    """
    objective = problem.objective(w)
    if problem.is_feasible(w) and objective < solution.objective:
        return replace(solution, w=w, objective=objective, bound=min(solution.bound, objective))
    return solution


def _rescored(session: SolverSession, problem: MasterProblem, solution: Solution) -> Solution:
    w = np.asarray(solution.w, dtype=float)
    if not problem.is_feasible(w):
        limit, features = problem.max_learners, problem.max_features
        raise ValueError(
            f"{session.solver.name} must return {problem.n_columns} finite weights >= 0"
            + ("" if limit is None else f", at most {limit} of them > 0")
            + ("" if features is None else f", that read at most {features} features")
        )
    return replace(solution, w=w, objective=problem.objective(w))
