"""The engine: the state of a search for an ensemble, and the verbs that move it.

    generate   price the dictionary, take the best column into H           lines 3-8
    refit      all columns of H, without the price of columns              plain column generation
    solve      the restricted master problem, then refit what is kept      lines 10-14
    adopt      take over an ensemble that was found elsewhere
    discretise integers for final weights, on the columns that they keep
    finish     the solver's last word, full precision, a bound             line 17
    record     what there is to tell about a round                         line 15

Algorithm 1, the search over all sizes, the strategies of the experiments and the incumbent of
branch and price are loops over these.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from totalqboost.boosting.bounds import PRECISE, L1Bounds, l1_bound
from totalqboost.boosting.columns import GeneratedColumns, Terms
from totalqboost.boosting.drafts import Improvable
from totalqboost.boosting.result import BoostingResult, Round
from totalqboost.boosting.votes import ensemble_of
from totalqboost.dictionaries.base import Candidate, Oracle
from totalqboost.ensemble import Ensemble
from totalqboost.integers import integer_weights
from totalqboost.learners import Learner
from totalqboost.master import MasterProblem
from totalqboost.refit import GrowingRefit, refit
from totalqboost.solving import Interrupted, MasterSolver, Solution, Status, finish, solve

__all__ = ["Engine", "next_column"]


class Engine:
    """Oracle, H, the solver's session and the present weights w of H.

    Parameters
    ----------
    oracle : Oracle
        Offers columns.
    terms : Terms
        What is minimised.
    solver : MasterSolver
        Line 10.
    tol : float
        eps: dual constraints violated by less count as satisfied (eq. 9), and the precision
        of the refits of a round. Edges are means over rows here and sums in the paper: its
        eps is that of m rows times m.
    rng : numpy Generator, optional
        Source of randomness, handed to the solver.
    draft : callable, optional
        Makes the engine over some of the rows on which a search of the whole dictionary looks
        around first, where rows are very many.
    far : callable, optional
        Makes the ensemble on all rows, where they are too many for this process: then the engine
        has some of the rows only, and what it finds gets its weights elsewhere.
    """

    def __init__(
        self,
        oracle: Oracle,
        terms: Terms,
        solver: MasterSolver,
        tol: float = 5e-4,
        rng: np.random.Generator | None = None,
        draft: Callable[[], Engine] | None = None,
        far: Callable[[], Improvable] | None = None,
    ):
        self.oracle, self.terms, self.tol = oracle, terms, tol
        self.draft, self.far = draft, far
        self.rng = np.random.default_rng(0) if rng is None else rng
        self.H = GeneratedColumns(terms, oracle.n_features)
        for constant in self.constants:
            for signed in (constant, constant.negated()):  # type: ignore[attr-defined]
                self.H.add(signed, oracle.column(signed), cost=0.0)
        self.problem: MasterProblem = self.H.problem()
        self.session = solver.session(self.problem)
        self.w = self._l1 = refit(self.problem, self.problem.free, tol=tol)
        self.scale: float | None = None  # of which w are multiples, once they are integers
        self.is_pending = terms.is_penalised  # does w still have to meet the penalty?
        self.last: Solution | None = None  # the solver's last answer
        self.n_evaluations = 0
        self._refit_all = GrowingRefit(tol)
        self.refitted_value = np.inf  # of the last refit of all columns: risk and l1 term

    @property
    def constants(self) -> tuple[Learner, ...]:
        """The learners of positive sign that are free."""
        return self.oracle.constants if self.terms.free_intercept else ()

    def generate(self, any_edge: bool = False) -> Candidate | None:
        """Take the best column outside H into H, and return it.

        None if there is no other, or, unless ``any_edge``, none whose dual constraint is violated.
        """
        u, curvature = self.problem.weights_and_curvature(self.w)
        self.oracle.told(self.H.learners, self.w)
        # Where columns are priced together with a free intercept and the best of them violates
        # nothing, the paper's own price, the edge, has the last word.
        rules = [curvature, None] if self.terms.free_intercept else [None]
        for rule in rules:
            nu, extra = self.problem.nu, self.terms.extra
            candidate = next_column(self.oracle, self.H, u, rule, nu, extra)
            is_taken = any_edge and rule is None
            if candidate is not None and (is_taken or candidate.edge > nu + self.tol):
                self._add(candidate.learner, candidate.column)
                return candidate
        return None

    def _add(self, learner: Learner, column: np.ndarray) -> None:
        extra = self.terms.extra
        fee = extra * self.oracle.n_extras(learner) if extra > 0.0 else 0.0
        self.H.add(learner, column, fee=fee)
        self.problem = self.H.problem()
        self.w = np.append(self.w, 0.0)

    def refit(self) -> None:
        """Give all columns of H their weights, whatever the penalty says."""
        self.w, self.refitted_value = self._refit_all(self.problem, self.w)
        self._l1 = self.w
        self.n_evaluations += 1
        self.last = None
        self.is_pending = self.terms.is_penalised

    def solve(self) -> None:
        """Solve the restricted master problem, keep w_k > 0 and refit (lines 10-14).

        Weights that know nothing of the penalty are no start.
        """
        start = None if self.is_pending else self.w
        try:
            solution = solve(self.session, self.problem, start, self.rng)
        except Interrupted as stop:
            self.w, self.is_pending = stop.result.w, False
            raise
        w = refit(self.problem, self.support(solution.w), solution.w, self.tol)
        # Weights of a grid make way (lines 12-14); others may be more precise than a refit.
        is_better = solution.is_discrete or self.problem.objective(w) <= solution.objective
        self.w = w if is_better else solution.w
        self.n_evaluations += solution.n_evaluations
        self.last, self.is_pending = solution, False

    def adopt(self, learners: Sequence[Learner], weights: np.ndarray) -> None:
        """Take over an ensemble of the dictionary; its columns join H."""
        place = {learner: j for j, learner in enumerate(self.H.learners)}
        for learner in learners:
            if learner not in place:
                place[learner] = len(place)
                self._add(learner, self.oracle.column(learner))
        self.w = np.zeros(len(self.H))
        self.w[[place[learner] for learner in learners]] = weights
        self.is_pending, self.scale = False, None

    def narrow(self, n_columns: int) -> None:
        """Forget all but the first generated columns of H, and all weights."""
        before, n_kept = self.problem, len(self.problem.free) + n_columns
        learners = self.H.learners[:n_kept]
        self.H = GeneratedColumns(self.terms, self.oracle.n_features)
        for j, learner in enumerate(learners):
            self.H.add(learner, before.A[j], before.cost[j], before.fee[j])
        self.problem = self.H.problem()
        self.w = self._l1 = np.zeros(len(self.H))

    def finish(self, status: Status, trace: Sequence[Round] = ()) -> BoostingResult:
        """Ask the solver for its last word, refit to full precision, bound the optimum over H."""
        last = None
        is_whole = status not in (Status.INTERRUPTED, Status.SOLVER_FAILED)
        if is_whole and self.terms.is_penalised and len(self.H) > len(self.problem.free):
            last = finish(self.session, self.problem, self.w, self.rng)
        if last is not None:
            self.w, self.n_evaluations = last.w, self.n_evaluations + last.n_evaluations
        self.pad()
        return self._result(status, trace, last)

    def _result(
        self, status: Status, trace: Sequence[Round], last: Solution | None
    ) -> BoostingResult:
        problem = self.problem
        if self.is_pending:
            self.w = _within_limit(problem, self.w)
        precise = refit(problem, self.support(self.w), self.w, tol=PRECISE)
        if problem.objective(precise) <= problem.objective(self.w):
            self.w = precise
        self.discretise()
        bound = self.l1_bound()
        objective = problem.objective(self.w)
        solution = Solution(self.w, objective, min(bound, objective), self.n_evaluations, status)
        if last is not None:
            bound = min(max(bound, last.bound), objective)
            solution = replace(solution, bound=bound, status=last.status, note=last.note)
        return BoostingResult(
            tuple(self.H.learners), tuple(trace), solution, status, self.ensemble(), problem
        )

    def discretise(self, is_quick: bool = False) -> None:
        """Put integers times one scale in the place of final weights, if terms ask for them."""
        n_bits = self.terms.n_bits
        if n_bits is not None:
            self.w, self.scale = integer_weights(self.problem, self.w, n_bits, is_quick)

    def l1_bound(self) -> float:
        """Return a lower bound of the objective over H, whatever is kept: that of lam = 0."""
        start = np.append(self._l1, np.zeros(self.problem.n_columns - len(self._l1)))
        bound, self._l1 = l1_bound(self.problem, start)
        return bound

    def pad(self) -> None:
        """Make w as long as H: an interruption may have come between the two."""
        self.problem = self.H.problem()
        self.w = np.append(self.w, np.zeros(len(self.H) - len(self.w)))

    def ensemble(self) -> Ensemble:
        """Return the columns of positive weight."""
        ensemble = ensemble_of(self.H.learners, self.w, self.problem.cost == 0)
        return replace(ensemble, scale=self.scale)

    def record(self, number: int, candidate: Candidate, began: float) -> Round:
        """Return what there is to tell about a round that added a column."""
        problem, w = self.problem, self.w
        u = problem.dual_weights(w)
        risk = problem.risk(w)
        grid = None if self.last is None else self.last.grid
        return Round(
            number=number,
            objective=risk + problem.penalty(w),
            risk=risk,
            ensemble=self.ensemble(),
            seconds=time.perf_counter() - began,
            learner=candidate.learner,
            edge=candidate.edge,
            n_violated=int(np.count_nonzero(problem.edges(u) > problem.nus + self.tol)),
            n_evaluations=1 if self.last is None else self.last.n_evaluations,
            status=None if self.last is None else self.last.status,
            n_bits=None if grid is None else grid.n_bits,
            weight_range=None if grid is None else grid.range_of(problem.cost > 0),
            weights=w,
            bounds=L1Bounds(self.H),
        )

    def support(self, w: np.ndarray) -> np.ndarray:
        """Return the kept columns and the free ones."""
        return np.union1d(np.flatnonzero(w > 0), self.problem.free)


def next_column(
    oracle: Oracle,
    H: GeneratedColumns,
    u: np.ndarray,
    curvature: np.ndarray | None = None,
    nu: float = 0.0,
    extra: float = 0.0,
) -> Candidate | None:
    """Return the best column at u whose values are not yet in H, if there is any (line 7).

    A column equal to one of H under another name is passed over for good.
    """
    while offered := oracle.best(u, H.blacklist, n=1, curvature=curvature, nu=nu, extra=extra):
        if H.is_new(offered[0].column):
            return offered[0]
        H.blacklist.add(offered[0].learner)
    return None


def _within_limit(problem: MasterProblem, w: np.ndarray) -> np.ndarray:
    """Return the weights cut to the heaviest that the limits allow, refitted.

    For rounds without the penalty that were interrupted: no solver has seen their columns.
    """
    priced = np.flatnonzero((w > 0) & (problem.cost > 0))
    kept = np.zeros(len(w))
    for j in priced[np.argsort(-w[priced], kind="stable")]:
        kept[j] = w[j]
        if not problem.is_feasible(kept):
            kept[j] = 0.0
    return refit(problem, np.union1d(np.flatnonzero(kept), problem.free), w)
