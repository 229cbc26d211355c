"""Algorithm 1 of the paper, TotalQBoost: column generation with a cardinality penalty.

    Require: loss l, examples (x, y), dictionary {h}, nu, lam, tolerance eps, maximum T
     1  u_i = c_i; H empty; t = 0
     2  while t < T
     3      price the dictionary {h} with the current u
     4      if {h} - H is empty or no h outside H has an edge above nu + eps (eq. 9)
     5          break
     7      select the best h outside H
     8      H = {H, h}
    10      solve the restricted master problem with the cardinality penalty
    12      keep the columns with w_k > 0
    13      refit their weights: l1-regularised risk, continuous
    15      t = t + 1; u_i = -c_i l'(y_i H_i w)
    17  return the columns with w_k > 0

With lam = 0 and no limit, line 10 is skipped and this is ordinary l1 column generation
(L1CG); with a tiny nu it is the totally corrective UCG. ``hot_start`` runs that for the
first T' columns (experiment D).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from totalqboost.columns import GeneratedColumns
from totalqboost.dictionaries.base import Candidate, Dictionary, Oracle
from totalqboost.ensemble import Ensemble
from totalqboost.exchange import SweepInterrupted, exchange
from totalqboost.learners import Learner
from totalqboost.losses import Loss
from totalqboost.master import MasterProblem
from totalqboost.refit import GrowingRefit, refit
from totalqboost.solving import MasterSolver, Solution, SolverError, SolverSession, finish, solve

__all__ = [
    "BoostingInterrupted",
    "BoostingResult",
    "Round",
    "boost",
    "boost_oracle",
    "next_column",
]


@dataclass(frozen=True)
class Round:
    """What happened in one round of boosting.

    Attributes
    ----------
    learner : Learner
        The column that was added to H.
    edge : float
        Its edge when it was chosen.
    objective, risk : float
        Of the weights at the end of the round, on the columns generated so far.
    cardinality : int
        Number of kept columns, free ones not counted.
    dual_bound : float
        Lower bound of the l1 problem over the columns so far, from this round's u.
    duality_gap : float
        objective - dual_bound; at least lam * cardinality by Theorem 2.
    n_violated : int
        Columns of H whose dual constraint is violated by more than eps: those that the
        cardinality penalty keeps out.
    n_evaluations : int
        Work of the solver in this round.
    seconds : float
        Duration of the round.
    weights : array
        One weight per column of H so far: every intermediate ensemble can be rebuilt.
    status : str
        Why the solver stopped; empty in rounds without the penalty.
    """

    learner: Learner
    edge: float
    objective: float
    risk: float
    cardinality: int
    dual_bound: float
    duality_gap: float
    n_violated: int
    n_evaluations: int
    seconds: float
    weights: np.ndarray
    status: str = ""


@dataclass(frozen=True)
class BoostingResult:
    """What boosting returns: the final ensemble, and how it came about.

    ``learners`` are those of the final columns; ``generated`` those of the columns in the
    order of the rounds, before exchanges replaced some of them. ``status`` tells why boosting
    ended, and ``solution.status`` the same, or what a solver that is asked once more at the
    end said then.
    """

    learners: tuple[Learner, ...]
    generated: tuple[Learner, ...]
    cost: np.ndarray
    trace: tuple[Round, ...]
    solution: Solution
    status: str
    problem: MasterProblem | None = None

    @property
    def ensemble(self) -> Ensemble:
        """The columns of positive weight (line 17)."""
        return Ensemble.from_columns(self.learners, self.solution.w, self.cost == 0)

    def staged(self) -> list[Ensemble]:
        """Return the ensemble after each round."""
        return [
            Ensemble.from_columns(self.generated[:n], record.weights, self.cost[:n] == 0)
            for record in self.trace
            for n in [len(record.weights)]
        ]


class BoostingInterrupted(KeyboardInterrupt):
    """Ctrl-C during boosting; ``result`` holds what was done until then."""

    def __init__(self, result: BoostingResult):
        super().__init__(f"interrupted after {len(result.trace)} rounds; the ensemble is kept")
        self.result = result


def boost(
    X: np.ndarray,
    y: np.ndarray,
    dictionary: Dictionary,
    solver: MasterSolver,
    loss: Loss,
    n_jobs: int | None = None,
    **settings: object,
) -> BoostingResult:
    """Run Algorithm 1 on examples X with labels y in {-1, +1}.

    See :func:`boost_oracle` for the other settings; use that function to run several
    times on the same data, which then is coded only once.
    """
    oracle = dictionary.prepare(X, y, n_jobs=n_jobs)
    return boost_oracle(oracle, len(y), solver, loss, **settings)  # type: ignore[arg-type]


def boost_oracle(
    oracle: Oracle,
    n_rows: int,
    solver: MasterSolver,
    loss: Loss,
    *,
    nu: float = 1e-6,
    lam: float = 0.0,
    max_rounds: int = 100,
    tol: float = 5e-4,
    hot_start: int = 0,
    patience: int | None = None,
    max_learners: int | None = None,
    free_intercept: bool = False,
    sample_weight: np.ndarray | None = None,
    n_exchanges: int = 0,
    rng: np.random.Generator | None = None,
    on_round: Callable[[int, Round], None] | None = None,
    on_sweep: Callable[[int, int, float], None] | None = None,
) -> BoostingResult:
    """Run Algorithm 1 with a prepared oracle.

    Parameters
    ----------
    oracle : Oracle
        Offers columns.
    n_rows : int
        Number of training examples.
    solver : MasterSolver
        Line 10. Not called while lam = 0 and there is no limit.
    loss : Loss
        Loss of the margin.
    nu, lam : float
        Weights of the l1 term and of the cardinality.
    max_rounds : int
        T, the largest number of columns generated.
    tol : float
        eps: dual constraints violated by less count as satisfied (eq. 9).
    hot_start : int
        T', the number of first columns generated without the penalty; they count to T.
    patience : int, optional
        Stop after this many rounds in which the kept set did not change.
    max_learners : int, optional
        Hard limit on the number of kept columns.
    free_intercept : bool
        Put the two constant classifiers into H at cost 0, and price columns by what they
        bring together with them.
    sample_weight : array, optional
        Weight c_i per example.
    n_exchanges : int
        After Algorithm 1, try at most this many sweeps of exchanges with the whole
        dictionary; see :mod:`totalqboost.exchange`. 0 is the paper's algorithm.
    rng : numpy Generator, optional
        Source of randomness, handed to the solver.
    on_round : callable, optional
        Called with (round number, Round) after each round.
    on_sweep : callable, optional
        Called with (sweep number, exchanges made, objective) after each sweep of exchanges.
    """
    rng = np.random.default_rng(0) if rng is None else rng
    penalised = lam > 0 or max_learners is not None
    H = GeneratedColumns(n_rows, max_rounds + 3, loss, nu, lam, max_learners, sample_weight)
    if free_intercept:
        for constant in oracle.constants():
            H.add(constant, cost=0.0)

    # line 1
    problem = H.problem()
    session = solver.session(problem)
    w = refit(problem, problem.free, tol=tol)
    refit_all = GrowingRefit(tol)
    trace: list[Round] = []
    status = "max_rounds"
    pending = penalised  # does the penalty still have to be applied to w?
    generated: tuple[Learner, ...] = ()  # columns in the order of the rounds, if it is lost
    unchanged = n_extra = 0
    try:
        while len(trace) < max_rounds:  # line 2
            began = time.perf_counter()
            candidate = next_column(oracle, problem, w, H, tol, free_intercept)
            if candidate is None and pending and trace:  # the hot start has converged early
                w, n_extra, _ = _solve(session, problem, None, rng, tol)
                pending = False
                continue
            if candidate is None:  # lines 4-5
                status = "converged"
                break
            H.add(candidate)  # line 8
            problem = H.problem()
            kept_before = np.append(w > 0, False)
            w = np.append(w, 0.0)
            n_columns = len(trace) + 1
            if not penalised or (pending and n_columns < hot_start):
                w, n_evaluations, said = refit_all(problem, w), 1, ""
            else:
                # The weights of the hot start know nothing of the penalty: start anew.
                start = None if n_columns == hot_start else w
                w, n_evaluations, said = _solve(session, problem, start, rng, tol)  # lines 10-14
                pending = False
            record = _record(problem, w, candidate, n_evaluations, said, tol, began)  # line 15
            trace.append(record)
            if on_round is not None:
                on_round(len(trace), record)
            unchanged = unchanged + 1 if np.array_equal(w > 0, kept_before) else 0
            if patience is not None and unchanged >= patience:
                status = "patience"
                break
        if pending and trace:
            w, n_extra, _ = _solve(session, problem, None, rng, tol)
            pending = False
        if n_exchanges > 0 and penalised:
            generated = tuple(H.learners)
            sweeps = exchange(H, w, oracle, session, rng, n_exchanges, free_intercept)
            for number, (w, n_exchanged, n_more) in enumerate(sweeps, start=1):
                n_extra += n_more
                if on_sweep is not None:
                    on_sweep(number, n_exchanged, H.problem().objective(w))
        last = finish(session, H.problem(), w, rng) if penalised and trace else None
        if last is not None:
            w, n_extra = last.w, n_extra + last.n_evaluations
        return _result(H, w, trace, generated, n_extra, status, last)
    except KeyboardInterrupt as interruption:
        w = interruption.w if isinstance(interruption, SweepInterrupted) else w
        w = np.append(w, np.zeros(len(H) - len(w)))
        if pending:
            w = _within_limit(H.problem(), w, tol)
        raise BoostingInterrupted(_result(H, w, trace, generated, n_extra, "interrupted")) from None
    except SolverError as error:
        w = np.append(w, np.zeros(len(H) - len(w)))
        if pending:
            w = _within_limit(H.problem(), w, tol)
        error.result = _result(H, w, trace, generated, n_extra, "solver failed")
        raise


def _within_limit(problem: MasterProblem, w: np.ndarray, tol: float) -> np.ndarray:
    """Return the weights cut to the heaviest that ``max_learners`` allows, refitted.

    For an interrupted hot start: its columns have not met the solver, which may take long.
    """
    priced = np.flatnonzero((w > 0) & (problem.cost > 0))
    kept = priced[np.argsort(-w[priced], kind="stable")[: problem.max_learners]]
    return refit(problem, np.union1d(kept, problem.free), w, tol)


def next_column(
    oracle: Oracle,
    problem: MasterProblem,
    w: np.ndarray,
    H: GeneratedColumns,
    tol: float,
    free_intercept: bool,
) -> Candidate | None:
    """Return the best column outside H with a violated dual constraint, if any (lines 3-7).

    A column equal to one of H under another name is passed over. Where columns are priced
    together with a free intercept and the best of them violates nothing, the paper's own
    price, the edge, has the last word.
    """
    u, curvature = problem.weights_and_curvature(w)
    for prices in [curvature, None] if free_intercept else [None]:
        while True:
            offered = oracle.best(u, H.blacklist, n=1, curvature=prices)
            if not offered or offered[0].edge <= problem.nu + tol:
                break
            if H.is_new(offered[0].column):
                return offered[0]
            H.blacklist.add(offered[0].learner)
    return None


def _solve(
    session: SolverSession,
    problem: MasterProblem,
    start: np.ndarray | None,
    rng: np.random.Generator,
    tol: float,
) -> tuple[np.ndarray, int, str]:
    """Solve the restricted master problem, keep w_k > 0 and refit (lines 10-14)."""
    solution = solve(session, problem, start, rng)
    support = np.union1d(np.flatnonzero(solution.w > 0), problem.free)
    refitted = refit(problem, support, solution.w, tol)
    if problem.objective(refitted) > problem.objective(solution.w):
        refitted = solution.w
    return refitted, solution.n_evaluations, solution.status


def _record(
    problem: MasterProblem,
    w: np.ndarray,
    candidate: Candidate,
    n_evaluations: int,
    status: str,
    tol: float,
    began: float,
) -> Round:
    risk = problem.risk(w)
    u = problem.dual_weights(w)
    objective = risk + problem.penalty(w)
    bound = problem.dual_bound(u)
    return Round(
        learner=candidate.learner,
        edge=candidate.edge,
        objective=objective,
        risk=risk,
        cardinality=problem.cardinality(w),
        dual_bound=bound,
        duality_gap=objective - bound,
        n_violated=int(np.count_nonzero(problem.edges(u) > problem.nus + tol)),
        n_evaluations=n_evaluations,
        seconds=time.perf_counter() - began,
        weights=w,
        status=status,
    )


def _result(
    H: GeneratedColumns,
    w: np.ndarray,
    trace: list[Round],
    generated: tuple[Learner, ...],
    n_extra: int,
    status: str,
    last: Solution | None = None,
) -> BoostingResult:
    """Refit to full precision and bound the optimum over H by the dual of the l1 problem.

    ``last`` is what the solver had to say about the same problem in the end.
    """
    problem = H.problem()
    support = np.union1d(np.flatnonzero(w > 0), problem.free)
    precise = refit(problem, support, w, tol=1e-10)
    if problem.objective(precise) <= problem.objective(w):
        w = precise
    l1 = refit(problem, np.arange(problem.n_columns), w, tol=1e-10)
    bound = problem.dual_bound(problem.dual_weights(l1))
    n_evaluations = sum(record.n_evaluations for record in trace) + n_extra
    solution = Solution(w, problem.objective(w), bound, n_evaluations, status)
    if last is not None:
        solution = replace(solution, bound=max(bound, last.bound), status=last.status)
    learners = tuple(H.learners)
    return BoostingResult(
        learners, generated or learners, problem.cost, tuple(trace), solution, status, problem
    )
