"""The five strategies of the paper (section 4), each a few lines over the same ``boost``.

Beside them, on the same dictionary and the same splits: D without the seed that E gives it (D0),
AdaBoost, LPBoost and ERLPBoost, and subsets of B's columns that no solver chose.

A strategy turns a bench into ensembles, one by one; ``run`` measures them and yields rows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import count
from typing import Any

import numpy as np

from totalqboost.ensemble import Ensemble
from totalqboost.experiments.baselines import BASELINES, SOFT_MARGINS, baseline_stages
from totalqboost.experiments.baselines.subsets import backward_elimination, random_subsets
from totalqboost.experiments.bench import Bench
from totalqboost.kernels.jit import compilation_time
from totalqboost.master import MasterProblem
from totalqboost.refit import refit
from totalqboost.solving import Solution

__all__ = ["STRATEGIES", "Outcome", "rows_of"]


@dataclass(frozen=True)
class Outcome:
    """An ensemble that a strategy produced, before it is measured on validation rows."""

    ensemble: Ensemble
    risk: float
    objective: float
    bound: float | None
    penalty: float | None
    round: int | None = None


def l1_column_generation(bench: Bench) -> Iterator[Outcome]:
    """Run A: a run to eps-convergence for each nu."""
    for index, nu in enumerate(bench.nus):
        result = bench.boost(bench.generator("A", index), nu=float(nu))
        yield _outcome(result.ensemble, result.problem, result.solution, float(nu))


def plain_column_generation(bench: Bench) -> Iterator[Outcome]:
    """Run B: one run with tiny nu, all intermediate ensembles."""
    trace, staged = bench.plain.trace, bench.plain.staged()
    for number, (record, ensemble) in enumerate(zip(trace, staged, strict=True), start=1):
        nu = bench.settings.nu
        yield Outcome(ensemble, record.risk, record.objective, record.dual_bound, nu, number)


def penalised_column_generation(bench: Bench) -> Iterator[Outcome]:
    """Run C: TotalQBoost from the empty ensemble for each lambda."""
    for index, lam in enumerate(bench.lambdas):
        result = bench.boost(bench.generator("C", index), lam=float(lam))
        yield _outcome(result.ensemble, result.problem, result.solution, float(lam))


def hot_started(bench: Bench, is_seeded: bool = True) -> Iterator[Outcome]:
    """Run D: start from the T' columns of B and from the best of E's answers, then go on.

    The paper starts from the columns alone; that is D0, which searches them by itself. With E's
    answers D is worse than E only where later columns lead it astray, so how often it is says
    nothing about the solver.
    """
    answers = subset_solutions(bench) if is_seeded else first_solutions(bench, "D0")
    for index, (lam, answer) in enumerate(zip(bench.lambdas, answers, strict=True)):
        result = bench.boost(bench.generator("D", index), lam=float(lam), start=answer.w)
        yield _outcome(result.ensemble, result.problem, result.solution, float(lam))


def subset_selection(bench: Bench) -> Iterator[Outcome]:
    """Run E: choose among the T' columns of B, once for each lambda."""
    learners = bench.plain.learners[: bench.plain_problem.n_columns]
    for lam, solution in zip(bench.lambdas, subset_solutions(bench), strict=True):
        problem = bench.plain_problem.changed(lam=float(lam))
        ensemble = Ensemble.from_columns(learners, solution.w, problem.cost == 0)
        yield _outcome(ensemble, problem, solution, float(lam))


def baseline(name: str, bench: Bench) -> Iterator[Outcome]:
    """Run a baseline: all intermediate ensembles, for each soft margin if it has one."""
    for nu in (None,) if name == "adaboost" else SOFT_MARGINS:
        stages = baseline_stages(
            name, bench.oracle, bench.y, max_rounds=bench.settings.max_rounds, nu=nu or 1.0
        )
        for number, stage in enumerate(stages, start=1):
            z = bench.y * stage.ensemble.decision_function(bench.X)
            risk = float(bench.loss.value(z).mean())
            bound = stage.bound if math.isfinite(stage.bound) else None
            yield Outcome(stage.ensemble, risk, stage.objective, bound, nu, number)


def eliminated(bench: Bench) -> Iterator[Outcome]:
    """Drop the T' columns of B one by one, the least useful first."""
    for n_left, w, _ in backward_elimination(bench.plain_problem, tol=1e-10):
        if n_left:
            yield _of_columns(bench, w, n_left)


def randomly_chosen(bench: Bench) -> Iterator[Outcome]:
    """Draw one, two, ... of the T' columns of B by chance."""
    generators = (bench.generator("random", n) for n in count(1))
    for n_drawn, w in random_subsets(bench.plain_problem, generators):
        yield _of_columns(bench, w, n_drawn)


def _of_columns(bench: Bench, w: np.ndarray, number: int) -> Outcome:
    problem = bench.plain_problem
    learners = bench.plain.learners[: problem.n_columns]
    ensemble = Ensemble.from_columns(learners, w, problem.cost == 0)
    return Outcome(ensemble, problem.risk(w), problem.objective(w), None, None, number)


def first_solutions(bench: Bench, strategy: str) -> tuple[Solution, ...]:
    """Return the solver's answers for the T' columns of B, each lambda by itself."""
    problems = enumerate(subset_problems(bench))
    return tuple(
        _polished(problem, bench.solver().solve(problem, None, bench.generator(strategy, index)))
        for index, problem in problems
    )


@lru_cache(maxsize=1)
def subset_solutions(bench: Bench) -> tuple[Solution, ...]:
    """Return the solutions of E, falling lambda.

    Each also starts from the best of those before it; then, rising again, from whichever
    answer to another lambda is better than its own.
    """
    bound = bench.plain_problem.dual_bound(
        bench.plain_problem.dual_weights(
            refit(bench.plain_problem, np.arange(bench.plain_problem.n_columns), tol=1e-10)
        )
    )
    problems, solutions = subset_problems(bench), list(first_solutions(bench, "E"))
    for index, problem in enumerate(problems):
        before = [solution.w for solution in solutions[:index]]
        if before:
            other, rng = min(before, key=problem.objective), bench.generator("E before", index)
            solutions[index] = _searched_again(bench, problem, solutions[index], other, rng)
    for index, problem in reversed(list(enumerate(problems))):
        own, rng = solutions[index], bench.generator("E again", index)
        other = min((solution.w for solution in solutions), key=problem.objective)
        if problem.objective(other) < own.objective:
            solutions[index] = _searched_again(bench, problem, own, other, rng)
    return tuple(
        replace(_polished(problem, solution), bound=max(bound, solution.bound))
        for problem, solution in zip(problems, solutions, strict=True)
    )


def subset_problems(bench: Bench) -> list[MasterProblem]:
    """Return the problems of E, falling lambda."""
    return [bench.plain_problem.changed(lam=float(lam)) for lam in bench.lambdas]


def _searched_again(
    bench: Bench,
    problem: MasterProblem,
    own: Solution,
    start: np.ndarray,
    rng: np.random.Generator,
) -> Solution:
    """Return the best of a solution, another start and what the solver finds from there.

    All with continuous weights: an answer on a grid is refitted before it is compared, and a
    start does not fit into the grid.
    """
    found = _polished(problem, bench.solver().solve(problem, start, rng))
    better = min(own, found, key=lambda solution: solution.objective)
    if (value := problem.objective(start)) < better.objective:
        better = replace(better, w=start, objective=value)
    bound = min(max(own.bound, found.bound), better.objective)
    work = own.n_evaluations + found.n_evaluations
    return replace(better, bound=bound, n_evaluations=work)


def _polished(problem: MasterProblem, solution: Solution) -> Solution:
    """Refit to the precision of float64, so that risks at equal sizes can be compared."""
    support = np.union1d(np.flatnonzero(solution.w > 0), problem.free)
    w = refit(problem, support, solution.w, tol=1e-10)
    value = problem.objective(w)
    return replace(solution, w=w, objective=value) if value <= solution.objective else solution


STRATEGIES: dict[str, Callable[[Bench], Iterator[Outcome]]] = {
    "A": l1_column_generation,
    "B": plain_column_generation,
    "C": penalised_column_generation,
    "D": hot_started,
    "E": subset_selection,
    **{name: partial(baseline, name) for name in BASELINES},
    "elimination": eliminated,
    "random": randomly_chosen,
    "D0": partial(hot_started, is_seeded=False),
}


def rows_of(bench: Bench, strategy: str, keep_ensembles: bool) -> Iterator[dict[str, Any]]:
    """Yield one row per ensemble of the strategy on the bench."""
    for outcome, seconds in _timed(STRATEGIES[strategy](bench)):
        row = {
            "dataset": bench.dataset,
            "split": bench.split,
            "strategy": strategy,
            "penalty": outcome.penalty,
            "round": outcome.round,
            "n_learners": outcome.ensemble.n_learners,
            "risk": outcome.risk,
            "objective": outcome.objective,
            "bound": outcome.bound,
            "train_error": _error(outcome.ensemble, bench.X, bench.y),
            "valid_error": _error(outcome.ensemble, bench.X_valid, bench.y_valid),
            "n_train": len(bench.y),
            "n_valid": len(bench.y_valid),
            "seconds": round(seconds, 4),
        }
        if keep_ensembles:
            named = outcome.ensemble.with_names((-1, 1), bench.names, bench.loss.name)
            row["ensemble"] = named.to_dict()
        yield row


def _timed(outcomes: Iterator[Outcome]) -> Iterator[tuple[Outcome, float]]:
    """Yield outcomes with the seconds that each took, without those of compilation."""
    while True:
        began, compiling = time.perf_counter(), [0.0]
        with compilation_time(compiling.append):
            outcome = next(outcomes, None)
        if outcome is None:
            return
        yield outcome, max(time.perf_counter() - began - sum(compiling), 0.0)


def _outcome(
    ensemble: Ensemble, problem: MasterProblem | None, solution: Solution, penalty: float
) -> Outcome:
    assert problem is not None
    risk = problem.risk(solution.w)
    return Outcome(ensemble, risk, solution.objective, solution.bound, penalty)


def _error(ensemble: Ensemble, X: np.ndarray, y: np.ndarray) -> float:
    signs = np.where(ensemble.decision_function(X) > 0, 1, -1)
    return float(np.mean(signs != y))
