"""Best-first branch and bound: the exact solver.

Order of calls: ``solve`` finds an incumbent by local search, limits all weights
(`reach.weight_limits`), strengthens the root and then repeats "take the open nodes with the
lowest bounds, decide one column of each both ways, bound all children" (`bounding.Bounder`),
some at a time, in threads if there are any. A child that what its parent knew could bound waits
for its turn before its data are looked at. A tree that turns out to be long starts again from a
root with tighter ranges (`reach`). An open tree may be dealt out in parts (`subtrees`). A node is
closed when its bound shows that nothing in it is better than the incumbent by more than the
tolerance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from numbers import Real

import numpy as np

from totalqboost.fixed_point import MAX_BITS, MOST_BITS, check_bits
from totalqboost.interruption import Interruption, is_interruption
from totalqboost.kernels.loss_codes import CUSTOM
from totalqboost.master import MasterProblem
from totalqboost.parameters import check_integer, check_jobs, check_number
from totalqboost.solvers.exact.search import Progress, Search
from totalqboost.solvers.exact.subtrees import branching
from totalqboost.solvers.exact.techniques import Techniques
from totalqboost.solving import (
    Interrupted,
    MasterSolver,
    Solution,
    SolverSession,
    Status,
    better_of,
)
from totalqboost.threads import one_blas_thread

__all__ = ["BranchAndBound"]


@dataclass(frozen=True)
class BranchAndBound(MasterSolver):
    """The optimum, with proof: best-first branch and bound over the kept set.

    Parameters
    ----------
    gap : float
        Relative gap between objective and bound at which to stop; 0 asks for the optimum,
        up to a relative 1e-8.
    max_nodes : int
        Budget in nodes.
    time_limit : float, optional
        Seconds. Results then depend on the machine.
    n_bits : int or tuple of int, optional
        Depth of fixed-point weights, of all columns or one per column: the optimum over weights
        that are a multiple of a step, up to 2^n_bits - 1 of them. Continuous weights by default.
    step : float or tuple of float, optional
        The step of fixed-point weights, of all columns or one per column; by default chosen
        as `TabuSearch` chooses it.
    techniques : Techniques
        What may be used; all that pays by default. Without some of it, proofs take longer.
    n_jobs : int, optional
        Threads that bound nodes side by side; -1 takes all cores. The result is the same.
        Small problems (distinct examples times columns squared below a million) use one.
    n_subtrees : int
        Into how many parts an open tree is dealt out, again and again, to be searched side by
        side. ``n_jobs`` then says how many at a time, as joblib counts: threads, or the
        processes or Dask workers of ``joblib.parallel_config``. The tree depends on the number
        of parts, on nothing else.
    verbose : int
        1 prints progress to standard error.
    on_progress : callable, optional
        Called with a `Progress` at the root and every few nodes.

    Examples
    --------
    >>> import numpy as np
    >>> from totalqboost import MasterProblem
    >>> from totalqboost.solvers import BranchAndBound
    >>> rng = np.random.default_rng(0)
    >>> problem = MasterProblem(np.where(rng.random((8, 50)) < 0.6, 1, -1), lam=0.02)
    >>> solution = BranchAndBound().solve(problem)
    >>> solution.status, solution.gap < 1e-7
    (<Status.OPTIMAL: 'optimal'>, True)
    """

    gap: float = 0.0
    max_nodes: int = 100_000
    time_limit: float | None = None
    n_bits: int | tuple[int, ...] | None = None
    step: float | tuple[float, ...] | None = None
    techniques: Techniques = field(default_factory=Techniques)
    n_jobs: int | None = None
    n_subtrees: int = 1
    verbose: int = 0
    on_progress: Callable[[Progress], None] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if check_number("gap", self.gap) >= 1:
            raise ValueError(f"gap must be a number >= 0 and < 1, got {self.gap!r}")
        check_integer("max_nodes", self.max_nodes, 1)
        limit = self.time_limit
        if limit is not None and (
            isinstance(limit, bool) or not (isinstance(limit, Real) and limit > 0)
        ):
            raise ValueError(f"time_limit must be a number > 0 or None, got {limit!r}")
        if self.n_bits is not None:
            for depth in self.n_bits if isinstance(self.n_bits, tuple) else (self.n_bits,):
                check_bits(depth, most=MOST_BITS if isinstance(self.n_bits, tuple) else MAX_BITS)
        elif self.step is not None:
            raise ValueError(
                f"step is for fixed-point weights, got {self.step!r} without n_bits; give both"
            )
        check_jobs(self.n_jobs)
        check_integer("n_subtrees", self.n_subtrees, 1)

    def solve(
        self,
        problem: MasterProblem,
        start: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> Solution:
        """Return the optimum, or the best weights found and a bound if the budget ends first."""
        if problem.loss.code == CUSTOM:
            raise ValueError(
                "loss must be 'exponential', 'logistic', 'squared' or 'smoothed_hinge' for "
                f"BranchAndBound, got {problem.loss!r}"
            )
        start = problem.checked_start(start)
        with Interruption() as interruption, one_blas_thread():
            search = Search(self, problem, interruption)
            try:
                search.find_incumbent(start, rng)
                search.open_root()
                with branching(search) as branch:
                    while search.is_running():
                        branch()
            except BaseException as error:
                if not is_interruption(error):
                    raise
                search.status = Status.INTERRUPTED
            finally:
                search.workers.close()
        solution = search.solution()
        if solution.status is Status.INTERRUPTED:
            raise Interrupted(solution)
        return solution

    def session(self, problem: MasterProblem) -> SolverSession:
        return _ExactSession(self)


class _ExactSession(SolverSession):
    """Knows the last problem and its answer, so that it is not solved twice."""

    solver: BranchAndBound

    def __init__(self, solver: BranchAndBound):
        super().__init__(solver)
        self._last: tuple[MasterProblem, Solution] | None = None

    def solve(
        self, problem: MasterProblem, start: np.ndarray | None, rng: np.random.Generator
    ) -> Solution:
        """Return the optimum; a second start of a problem whose optimum is known is only scored."""
        last = self._answer(problem)
        if last is not None and last.status is Status.OPTIMAL:
            if start is None or self.solver.n_bits is not None:  # a start is not on the grid
                return last
            return better_of(problem, last, start)
        solution = self.solver.solve(problem, start, rng)
        self._last = (problem, solution)
        return solution

    def finish(self, problem: MasterProblem, w: np.ndarray, rng: np.random.Generator) -> Solution:
        """Return the answer to the last problem of a fit, exchanged columns included.

        With ``n_bits`` the bound is about fixed-point weights, and a fit refits its own.
        """
        solution = self._answer(problem) or self.solve(problem, w, rng)
        if self.solver.n_bits is None:
            return solution
        return replace(solution, bound=-np.inf, note="fixed-point weights")

    def _answer(self, problem: MasterProblem) -> Solution | None:
        """Return what was answered to this problem if it was the last one."""
        if self._last is None or not _is_same(self._last[0], problem):
            return None
        return self._last[1]


def _is_same(one: MasterProblem, other: MasterProblem) -> bool:
    if one is other:
        return True
    arrays = ("A", "cost", "sample_weight", "fee", "reads", "feature_price")
    settings = [
        (p.nu, p.lam, p.max_learners, p.max_features, p.loss.code, p.reads is None)
        for p in (one, other)
    ]
    return settings[0] == settings[1] and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays
    )
