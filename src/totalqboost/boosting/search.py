"""Beyond Algorithm 1: the whole dictionary searched, for one price or for every size.

Order of calls: :class:`SizeSearch` finds the best ensemble of every size; the one of least
objective, or each of them, joins H, and the solver has the last word on the columns of H, unless
it is one whose moves the search has made already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from totalqboost.boosting.bounds import PRECISE
from totalqboost.boosting.drafts import Improvable, cheapest_on_all_rows, on_all_rows
from totalqboost.boosting.engine import Engine
from totalqboost.boosting.fees import Fees
from totalqboost.boosting.result import BoostingResult, Event, Round
from totalqboost.boosting.sizes import SizeSearch, unsigned
from totalqboost.boosting.support import Snapshot, Support
from totalqboost.boosting.votes import ensemble_of
from totalqboost.ensemble import Ensemble
from totalqboost.interruption import unwrapped_interruption
from totalqboost.refit import refit_value
from totalqboost.solving import (
    Interrupted,
    Solution,
    SolverError,
    Status,
    better_of,
    finish,
    solve,
)
from totalqboost.threads import one_blas_thread

__all__ = ["SizePoint", "every_size", "found_sizes", "search"]

NO_BOUND = 0.0  # of a size: losses and prices are not negative


def search(engine: Engine, max_learners: int, on_event: Event | None = None) -> BoostingResult:
    """Return the best ensemble at the engine's price, of at most ``max_learners`` learners.

    Ctrl-C raises :class:`Interrupted` and a solver that fails :class:`SolverError`, both with
    the best ensemble so far.
    """
    lam = engine.terms.lam
    sizes = SizeSearch(_first(engine), on_event)
    try:
        with unwrapped_interruption():
            chosen = _cheapest(sizes, lam, max_learners)
            whole = _whole(engine, sizes)
            if whole is not None:
                found = list(sizes.sizes(max_learners))
                chosen = cheapest_on_all_rows(whole, found, lam, sizes.tell)
            if engine.far is not None:
                return _far_result(engine, chosen, _trace(sizes, engine, max_learners))
            _narrow(engine, sizes, max_learners)
            engine.adopt(*unsigned(engine, chosen))
            if engine.session.adds_to_search:
                _ask(engine)
            result = engine.finish(Status.CONVERGED, _trace(sizes, engine, max_learners))
            return result if whole is None else _unbounded(engine, result)
    except KeyboardInterrupt:
        result = _partial(sizes, engine, max_learners, Status.INTERRUPTED)
        raise Interrupted(result) from None
    except SolverError as error:
        try:
            error.result = _partial(sizes, engine, max_learners, Status.SOLVER_FAILED)
        except SolverError:  # rows are lost: what was found on those of the search is left
            error.result = _partial(sizes, sizes.engine, max_learners, Status.SOLVER_FAILED)
        raise


def _cheapest(sizes: SizeSearch, lam: float, max_learners: int) -> Snapshot:
    """Search sizes until the cheapest at this price is not at the end of those searched."""
    with one_blas_thread():
        is_done = sizes.aim(lam, max_learners)
        chosen = sizes.cheapest(lam, max_learners)
        while not is_done and sizes.may_extend(max_learners):
            sizes.extend(max_learners)
            chosen = sizes.cheapest(lam, max_learners)
            is_done = sizes.covers(len(chosen.learners))
    return chosen


def _ask(engine: Engine) -> None:
    """Ask the solver about the columns of H; one that rounds its start may do worse than it."""
    found = engine.w
    engine.solve()
    if engine.problem.objective(found) < engine.problem.objective(engine.w):
        engine.w = found


def _first(engine: Engine) -> Engine:
    """Return the engine to search with first: that of some of the rows, if rows are very many."""
    return engine if engine.draft is None else engine.draft()


def _whole(engine: Engine, sizes: SizeSearch) -> Improvable | None:
    """Return what improves ensembles on all rows; None if the search has looked at all."""
    if engine.far is not None:
        return engine.far()
    if sizes.engine is engine:
        return None
    return Support(engine.oracle, engine.terms, capacity=1)


def _on_all_rows(engine: Engine, sizes: SizeSearch, max_learners: int) -> Sequence[Snapshot]:
    """Return the best ensembles of all sizes, improved on all rows; each better than the last."""
    found, whole = list(sizes.sizes(max_learners)), _whole(engine, sizes)
    if whole is None:
        return found
    better: list[Snapshot] = []
    for snapshot in on_all_rows(whole, found, sizes.tell):
        if not better or snapshot.value < better[-1].value:
            better.append(snapshot)
    return better


def _unbounded(engine: Engine, result: BoostingResult) -> BoostingResult:
    """Return the result without its bound if H has no other columns than the kept ones."""
    if engine.session.adds_to_search:
        return result
    return replace(result, solution=replace(result.solution, bound=-np.inf))


def _far_result(engine: Engine, chosen: Snapshot, trace: tuple[Round, ...]) -> BoostingResult:
    """Return an ensemble whose columns are elsewhere."""
    learners, weights = unsigned(engine, chosen)
    objective = chosen.value + engine.terms.lam * len(chosen.learners)
    status = Status.CONVERGED
    solution = Solution(weights, objective, n_evaluations=1, status=status)
    return BoostingResult(tuple(learners), trace, solution, status, _ensemble(engine, chosen), None)


def _far_point(engine: Engine, snapshot: Snapshot) -> SizePoint:
    n_free = len(engine.constants)
    l1 = engine.terms.nu * float(np.abs(snapshot.w[n_free:]).sum())
    risk = snapshot.value - l1 - Fees(engine.oracle, engine.terms).total(snapshot.learners)
    return SizePoint(_ensemble(engine, snapshot), risk, snapshot.value, NO_BOUND, snapshot)


def _narrow(engine: Engine, sizes: SizeSearch, max_learners: int) -> None:
    """Let H hold the first generated columns only; others were starts of the search."""
    first = sizes.engine
    first.narrow(max_learners)
    if first is not engine and engine.session.adds_to_search:
        engine.adopt(first.H.learners, np.zeros(len(first.H)))


def _partial(
    sizes: SizeSearch, engine: Engine, max_learners: int, status: Status
) -> BoostingResult:
    engine.pad()
    engine.adopt(*unsigned(engine, sizes.cheapest(engine.terms.lam, max_learners)))
    return engine.finish(status, _trace(sizes, engine, max_learners))


def _trace(sizes: SizeSearch, engine: Engine, max_learners: int) -> tuple[Round, ...]:
    rounds = []
    for snapshot in sizes.sizes(max_learners):
        n = len(snapshot.learners)
        if n == 0:
            continue
        l1 = engine.terms.nu * float(np.abs(snapshot.w[sizes.support.n_fixed :]).sum())
        objective = snapshot.value + engine.terms.lam * n
        risk = snapshot.value - l1 - sizes.support.fees.total(snapshot.learners)
        rounds.append(Round(n, objective, risk, _ensemble(engine, snapshot)))
    return tuple(rounds)


def _ensemble(engine: Engine, snapshot: Snapshot) -> Ensemble:
    learners, weights = unsigned(engine, snapshot)
    is_free = np.zeros(len(learners), dtype=bool)
    is_free[: len(engine.constants)] = True
    return ensemble_of(learners, weights, is_free)


@dataclass(frozen=True)
class SizePoint:
    """The best ensemble of one size; ``bound`` is a lower bound over the columns of H.

    ``snapshot`` is a start for a search with another l1 price.
    """

    ensemble: Ensemble
    risk: float
    objective: float
    bound: float
    snapshot: Snapshot

    @property
    def n_learners(self) -> int:
        return self.ensemble.n_learners


def every_size(
    engine: Engine,
    max_learners: int,
    on_event: Event | None = None,
    starts: Sequence[Snapshot] = (),
) -> list[SizePoint]:
    """Return the best ensembles of all sizes up to ``max_learners``, each better than the last.

    ``starts`` are those found with another l1 price, if there are any. Ctrl-C raises
    :class:`Interrupted` with the points so far; so does :class:`SolverError`.
    """
    sizes = SizeSearch(_first(engine), on_event)
    points: list[SizePoint] = []
    try:
        with unwrapped_interruption():
            _search_sizes(sizes, max_learners, starts)
            found = _on_all_rows(engine, sizes, max_learners)
            if engine.far is not None:
                for snapshot in found:
                    _append(points, _far_point(engine, snapshot))
                return points
            _narrow(engine, sizes, max_learners)
            _collect(engine, found, points, is_bounded=sizes.engine is engine)
    except KeyboardInterrupt:
        rest: list[SizePoint] = []
        _collect_partial(sizes, engine, max_learners, rest)
        done = {point.n_learners: point for point in points}
        raise Interrupted([done.get(point.n_learners, point) for point in rest]) from None
    except SolverError as error:
        if not points:  # the oracle has failed: its rows are lost, the columns are here
            try:
                _collect_partial(sizes, engine, max_learners, points)
            except SolverError:
                points.clear()
                _collect_partial(sizes, sizes.engine, max_learners, points)
        error.result = points
        raise
    return points


def found_sizes(
    engine: Engine, max_learners: int, starts: Sequence[Snapshot] = ()
) -> list[tuple[Snapshot, Ensemble]]:
    """Return what a narrow search finds: no solver's word, no bounds, no full precision."""
    sizes = SizeSearch(_first(engine), max_width=1)
    _search_sizes(sizes, max_learners, starts)
    found = _on_all_rows(engine, sizes, max_learners)
    if engine.terms.n_bits is None:
        return [(snapshot, _ensemble(engine, snapshot)) for snapshot in found]
    engine.narrow(0)
    return [(snapshot, _in_integers(engine, snapshot)) for snapshot in found]


def _in_integers(engine: Engine, snapshot: Snapshot) -> Ensemble:
    engine.adopt(*unsigned(engine, snapshot))
    engine.discretise(is_quick=True)
    return engine.ensemble()


def _search_sizes(sizes: SizeSearch, max_learners: int, starts: Sequence[Snapshot]) -> None:
    with one_blas_thread():
        if starts:
            sizes.follow(starts, max_learners)
        while sizes.may_extend(max_learners):
            sizes.extend(max_learners)


def _collect_partial(
    sizes: SizeSearch, engine: Engine, max_learners: int, points: list[SizePoint]
) -> None:
    """Append the points of a search that was cut short, as they are."""
    engine.pad()
    engine.narrow(max_learners)
    _collect(engine, list(sizes.sizes(max_learners)), points, is_asked=False)


def _collect(
    engine: Engine,
    found: Sequence[Snapshot],
    points: list[SizePoint],
    is_asked: bool = True,
    is_bounded: bool = True,
) -> None:
    """Append the points; the solver is asked about each size if it can add something."""
    session, is_asked = engine.session, is_asked and engine.session.adds_to_search
    for snapshot in found:
        engine.adopt(*unsigned(engine, snapshot))
    l1_bound = engine.l1_bound() if is_bounded else NO_BOUND  # of all sizes
    for snapshot in found:
        engine.adopt(*unsigned(engine, snapshot))
        size, w = len(snapshot.learners), engine.w
        problem = engine.problem.changed(max_learners=size)
        bound = -np.inf
        if is_asked and size:
            solution = solve(session, problem, w, engine.rng)
            if snapshot is found[-1]:
                last = finish(session, problem, solution.w, engine.rng)
                solution = solution if last is None else better_of(problem, last, solution.w)
            if solution.is_discrete:  # as in `_ask`
                precise, _ = refit_value(problem, engine.support(solution.w), solution.w, PRECISE)
                solution = replace(solution, w=precise, objective=problem.objective(precise))
                solution = better_of(problem, solution, w)
            w, bound = solution.w, solution.bound
        engine.w, _ = refit_value(problem, engine.support(w), w, tol=PRECISE)
        engine.discretise()
        objective = problem.objective(engine.w)  # a frontier has no price per learner
        bound = min(max(bound, l1_bound), objective)
        risk = problem.risk(engine.w)
        point = SizePoint(engine.ensemble(), risk, objective, bound, snapshot)
        _append(points, point)


def _append(points: list[SizePoint], point: SizePoint) -> None:
    """Append a point that is better than all before it; a refit may have made it smaller."""
    if points and points[-1].objective <= point.objective:
        return
    while points and points[-1].n_learners >= point.n_learners:
        points.pop()
    points.append(point)
