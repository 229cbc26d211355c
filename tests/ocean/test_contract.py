"""Samplers as solvers: the contract that every solver of the master problem keeps."""

from __future__ import annotations

from dataclasses import dataclass

import dimod
import numpy as np
import pytest
from dwave.samplers import RandomSampler, SimulatedAnnealingSampler, TabuSampler
from nonlinear_sampler import CoordinateSampler
from solver_contract import (
    EVERY_WRAPPER,
    WRAPPERS,
    BuiltInLossContract,
    FitContract,
    SolverContract,
    Squareplus,
    check,
    life,
    random_problem,
)

from totalqboost.refit import refit
from totalqboost.solvers import BQMSolver, CQMSolver, NonlinearSolver
from totalqboost.solvers.ocean import TabuSearchSampler
from totalqboost.solvers.ocean.planning import DryRun
from totalqboost.solving import Interrupted, MasterSolver, Status

FEW = {"num_reads": 10, "num_sweeps": 50}

SOLVERS = {
    "indicator-annealing": BQMSolver(SimulatedAnnealingSampler(), parameters=FEW, n_calls=2),
    "binary-annealing": BQMSolver(
        SimulatedAnnealingSampler, parameters=FEW, n_calls=1, encoding="binary", n_bits=2
    ),
    "refit-only": BQMSolver(dimod.ExactSolver(), polish="refit", n_calls=3),
    "dwave-tabu": BQMSolver(TabuSampler(), parameters={"num_reads": 3}, n_calls=1),
    "our-tabu": BQMSolver(TabuSearchSampler(), parameters={"num_reads": 3}, n_calls=1),
    "cqm-exact": CQMSolver(dimod.ExactCQMSolver(), n_bits=1, n_calls=1),
}


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
class TestEverySampler(SolverContract):
    """The contract, for samplers of each kind."""


@dataclass(frozen=True)
class InSession(MasterSolver):
    """A solver that is asked within a session, as in a fit."""

    solver: MasterSolver

    def solve(self, problem, start=None, rng=None):
        rng = np.random.default_rng(0) if rng is None else rng
        return self.solver.session(problem).solve(problem, start, rng)


RANDOM = BQMSolver(RandomSampler(), parameters={"num_reads": 5}, n_calls=1)
SCHEDULED = {
    "schedule": InSession(RANDOM),
    "final": InSession(BQMSolver(RandomSampler(), anneal_every="final")),
    "dry-run": DryRun(RANDOM),
    "scheduled-dry-run": InSession(DryRun(RANDOM)),
    "pool": WRAPPERS["pool"](RANDOM),
    "foreign": EVERY_WRAPPER["foreign"](RANDOM),
}


@pytest.mark.parametrize("solver", SCHEDULED.values(), ids=SCHEDULED)
class TestScheduled(SolverContract):
    """The contract, for schedules, dry runs and wrappers."""


FITTED = {
    f"{name}-{around}": wrap(solver)
    for name, solver in {
        "random": RANDOM,
        "annealing": SOLVERS["indicator-annealing"],
        "every-other": BQMSolver(RandomSampler(), anneal_every=2, n_calls=1),
        "final": BQMSolver(RandomSampler, anneal_every="final", n_calls=1),
        "cqm": SOLVERS["cqm-exact"],
        "nonlinear": NonlinearSolver(CoordinateSampler(), n_bits=2),
    }.items()
    for around, wrap in {"alone": lambda solver: solver, "dry": DryRun, **EVERY_WRAPPER}.items()
    if name in ("random", "final") or around in ("alone", "pool")
}


@pytest.mark.parametrize("solver", FITTED.values(), ids=FITTED)
class TestFits(FitContract):
    """Whole fits with samplers, alone, in dry runs and within wrappers."""


@pytest.mark.parametrize(
    "solver",
    [
        NonlinearSolver(CoordinateSampler(), n_bits=3),
        NonlinearSolver(CoordinateSampler, n_bits=2, polish="refit", n_calls=4),
    ],
    ids=["descend", "refit-only"],
)
class TestNonlinear(BuiltInLossContract):
    """The contract for the built-in losses; one of the user's own is refused, see below."""


def test_a_loss_of_the_users_own_is_refused_by_the_nonlinear_solver_before_any_call():
    class Untouched(CoordinateSampler):
        def sample(self, model, **parameters):
            raise AssertionError("called")

    message = r"loss must be 'exponential'.* got Squareplus\(\); BQMSolver and CQMSolver take any"
    with pytest.raises(ValueError, match=message):
        NonlinearSolver(Untouched()).solve(random_problem(0, loss=Squareplus()))


@pytest.mark.parametrize("wrap", EVERY_WRAPPER.values(), ids=EVERY_WRAPPER)
def test_an_interrupted_call_carries_the_best_so_far(wrap):
    class Pressed(RandomSampler):
        n_calls = 0

        def sample(self, bqm, **parameters):
            self.n_calls += 1
            if self.n_calls == 3:
                raise KeyboardInterrupt
            return super().sample(bqm, **parameters)

    problem = random_problem(2, n=8, m=40)
    with pytest.raises(Interrupted) as caught:
        wrap(BQMSolver(Pressed(), patience=4, polish="refit")).solve(problem)
    solution = caught.value.result
    check(problem, solution)
    assert solution.status is Status.INTERRUPTED
    assert problem.cardinality(solution.w) > 0


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_a_wrapper_keeps_the_schedule_of_a_sampler(wrap):
    problems = [random_problem(2, n=n, m=40) for n in (1, 2, 3)]
    answers, last = life(wrap(BQMSolver(RandomSampler(), anneal_every=2)), problems)
    local, sampled = Status.LOCAL_OPTIMUM, Status.SAMPLED
    assert [answer.status for answer in answers] == [local, sampled, local]
    assert last.status is sampled


@pytest.mark.parametrize("polish", ["descend", "refit"])
def test_a_sampler_that_finds_nothing_leaves_the_start(polish, monkeypatch):
    """The promise must not rest on the polish: here every refit is useless."""

    def spoil(problem, support, *arguments, **settings):
        w = np.zeros(problem.n_columns)
        w[support] = 9.0
        return w, 0.0

    problem = random_problem(1, lam=0.02)
    start = refit(problem, np.array([0, 3]), tol=1e-9)
    monkeypatch.setattr("totalqboost.solvers.descent.refit_value", spoil)
    solver = BQMSolver(RandomSampler(), polish=polish)
    assert solver.solve(problem, start).objective <= problem.objective(start)
    assert solver.solve(problem).objective <= problem.objective(np.zeros(6))
