"""Samplers that fail: one clear error, and what was done until then is kept."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from unittest.mock import Mock

import dimod
import numpy as np
import pytest
from dwave.samplers import SimulatedAnnealingSampler
from dwave.system import LeapHybridCQMSampler, LeapHybridNLSampler, LeapHybridSampler
from nonlinear_sampler import CoordinateSampler
from solver_contract import Squareplus, check, random_problem

from totalqboost import TotalQBoostClassifier, solvers
from totalqboost.datasets import make_ringnorm
from totalqboost.solvers import BQMSolver, CQMSolver, NonlinearSolver, SamplerError
from totalqboost.solving import Status

X, Y = make_ringnorm(200, seed=1)


class Failing(dimod.ExactSolver):
    """An exact sampler that fails in one way, after some calls that do not."""

    def __init__(self, answer, after=0):
        super().__init__()
        self.answer = answer
        self.left = after

    def sample(self, bqm, **parameters):
        self.left -= 1
        return super().sample(bqm) if self.left >= 0 else self.answer(bqm)


class FailingNonlinear(CoordinateSampler):
    """The same for nonlinear models, whose answer is in their states."""

    def __init__(self, answer, after=0):
        self.answer = answer
        self.left = after

    def sample(self, model, **parameters):
        self.left -= 1
        return super().sample(model, **parameters) if self.left >= 0 else self.answer(model)


def raises(bqm):
    raise ConnectionError("the service is down")


def times_out(bqm):
    raise TimeoutError


def nothing(bqm):
    return None


def no_reads(bqm):
    return dimod.SampleSet.from_samples(
        ([[0] * bqm.num_variables], list(bqm.variables)), "BINARY", 0.0
    ).slice(0)


def wrong_variables(bqm):
    return dimod.SampleSet.from_samples([{"a": 1, "b": 0}], "BINARY", 0.0)


def no_reads_and_no_variables(bqm):
    return dimod.SampleSet.from_samples([], "BINARY", [])


def wrong_values(bqm):
    return dimod.SampleSet.from_samples([dict.fromkeys(bqm.variables, -3)], "INTEGER", 0.0)


def twos(bqm):
    return dimod.SampleSet.from_samples([dict.fromkeys(bqm.variables, 2)], "INTEGER", 0.0)


def halves(bqm):
    return dimod.SampleSet.from_samples([dict.fromkeys(bqm.variables, 0.5)], "REAL", 0.0)


def fails_when_read(bqm):
    """Return a sample set whose answer is still on its way, and never comes."""

    class Late:
        def done(self):
            return True

    def hook(future):
        raise ConnectionError("polling failed")

    return dimod.SampleSet.from_future(Late(), hook)


def no_states(model):
    model.states.resize(0)
    return model


def a_future_without_a_result(model):
    return Mock(result=lambda: None)


def a_future_that_fails(model):
    future = Future()
    future.set_exception(ConnectionError("polling failed"))
    return future


OUTSIDE = "samples must hold whole numbers from 0 to 1, got {} for 'z0'"
FAILURES = [
    (Failing, raises, "ConnectionError: the service is down"),
    (Failing, times_out, "TimeoutError"),
    (Failing, nothing, "ValueError: it returned nothing"),
    (Failing, no_reads, "it returned no samples"),
    (Failing, no_reads_and_no_variables, "it returned no samples"),
    (Failing, wrong_variables, ".* variables of the model; 'z0' is missing and 5 more"),
    (Failing, wrong_values, f"ValueError: {OUTSIDE.format(-3)}"),
    (Failing, twos, f"ValueError: {OUTSIDE.format(2)}"),
    (Failing, halves, f"ValueError: {OUTSIDE.format(0.5)}"),
    (Failing, fails_when_read, "ConnectionError: polling failed"),
    (FailingNonlinear, raises, "ConnectionError: the service is down"),
    (FailingNonlinear, times_out, "TimeoutError"),
    (FailingNonlinear, nothing, "ValueError: it returned nothing and left the states"),
    (FailingNonlinear, a_future_without_a_result, "ValueError: it returned nothing and left"),
    (FailingNonlinear, no_states, "it returned no samples"),
    (FailingNonlinear, a_future_that_fails, "ConnectionError: polling failed"),
]
SOLVERS = {Failing: BQMSolver, FailingNonlinear: NonlinearSolver}
every_failure = pytest.mark.parametrize(
    ("sampler", "answer", "message"),
    FAILURES,
    ids=[f"{SOLVERS[sampler].kind}-{answer.__name__}" for sampler, answer, _ in FAILURES],
)


@every_failure
def test_a_failure_names_the_sampler_and_the_cause(sampler, answer, message):
    with pytest.raises(SamplerError, match=f"{sampler.__name__} failed: {message}"):
        SOLVERS[sampler](sampler(answer)).solve(random_problem(0))


@every_failure
def test_local_search_steps_in_only_if_asked_and_says_so(sampler, answer, message):
    problem = random_problem(0)
    with pytest.warns(RuntimeWarning, match=message):
        solution = SOLVERS[sampler](sampler(answer), fallback="local").solve(problem)
    check(problem, solution)
    assert solution.status is Status.FELL_BACK
    assert solution.note.startswith(f"local search, because {sampler.__name__} failed")


@pytest.mark.parametrize("value", [-1, 4, 1.5, np.nan])
def test_integers_outside_their_range_are_refused(value):
    class Wrong(dimod.ExactCQMSolver):
        def sample_cqm(self, cqm, **parameters):
            return dimod.SampleSet.from_samples([dict.fromkeys(cqm.variables, value)], "REAL", 0.0)

    with pytest.raises(SamplerError, match="samples must hold whole numbers from 0 to 3, got"):
        CQMSolver(Wrong(), n_bits=2).solve(random_problem(0))


def test_a_nonlinear_sampler_that_answers_with_the_state_it_was_given_has_answered():
    solution = NonlinearSolver(FailingNonlinear(lambda model: model)).solve(random_problem(0))
    assert solution.status is Status.SAMPLED
    assert solution.note == "1 call of FailingNonlinear"


def test_an_answer_that_does_not_come_is_not_waited_for_beyond_the_timeout():
    released = threading.Event()
    with pytest.raises(SamplerError, match=r"TimeoutError: no answer within 0\.1 s"):
        BQMSolver(Failing(lambda bqm: released.wait(10)), timeout=0.1).solve(random_problem(0))
    released.set()


def test_the_timeout_guards_a_factory_too():
    released = threading.Event()

    def hangs():
        released.wait(10)

    with pytest.raises(SamplerError, match="hangs could not be created: TimeoutError: no answer"):
        BQMSolver(hangs, timeout=0.1).solve(random_problem(0))
    released.set()


def test_a_sampler_that_cannot_list_its_parameters_is_a_failure():
    class Mute(dimod.ExactSolver):
        @property
        def parameters(self):
            raise ConnectionError("the service is down")

        @parameters.setter
        def parameters(self, value):
            pass

    message = "Mute did not say what parameters it knows: ConnectionError: the service is down"
    for attempt in (
        lambda: BQMSolver(Mute()),
        lambda: BQMSolver(Mute).solve(random_problem(0)),
    ):
        with pytest.raises(SamplerError, match=message):
            attempt()


def test_a_timeout_does_not_change_an_answer_in_time():
    problem = random_problem(0)
    solutions = [
        BQMSolver(SimulatedAnnealingSampler(), timeout=timeout).solve(problem)
        for timeout in (None, 60)
    ]
    np.testing.assert_array_equal(solutions[0].w, solutions[1].w)
    with pytest.raises(SamplerError, match="the service is down"):
        BQMSolver(Failing(raises), timeout=60).solve(problem)


@pytest.fixture
def without_token(monkeypatch, tmp_path):
    for name in ("DWAVE_API_TOKEN", "DWAVE_CONFIG_FILE", "DWAVE_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("factory", "kind"),
    [
        (LeapHybridSampler, BQMSolver),
        (LeapHybridCQMSampler, CQMSolver),
        (LeapHybridNLSampler, NonlinearSolver),
    ],
)
def test_a_missing_token_is_one_clear_error(without_token, factory, kind):
    expected = r"could not be created: .*[Tt]oken.*`dwave setup` or .* DWAVE_API_TOKEN"
    for attempt in (
        lambda: solvers.get(factory),
        lambda: kind(factory).solve(random_problem(0)),
        lambda: TotalQBoostClassifier(solver=factory).fit(X, Y),
    ):
        with pytest.raises(SamplerError, match=expected):
            attempt()


def test_with_a_missing_token_local_search_steps_in_if_asked(without_token):
    problem = random_problem(0)
    with pytest.warns(RuntimeWarning, match="could not be created"):
        solution = NonlinearSolver(LeapHybridNLSampler, fallback="local").solve(problem)
    assert problem.cardinality(check(problem, solution)) > 0


# -- in a fit --------------------------------------------------------------------------------------

SETTINGS = {"max_rounds": 8, "patience": None, "exchange": False}


def test_the_fit_so_far_is_kept():
    solver = BQMSolver(Failing(raises, after=4), n_calls=1)
    clf = TotalQBoostClassifier(0.005, solver=solver, **SETTINGS)
    with pytest.raises(SamplerError, match="the service is down"):
        clf.fit(X, Y)
    assert clf.status_ == clf.solution_.status == Status.SOLVER_FAILED
    assert len(clf.trace_) == 4
    assert clf.n_learners_ >= 2
    shorter = TotalQBoostClassifier(
        0.005, solver=BQMSolver(Failing(raises, after=4), n_calls=1), **SETTINGS
    ).set_params(max_rounds=4)
    np.testing.assert_allclose(
        clf.decision_function(X), shorter.fit(X, Y).decision_function(X), atol=1e-6
    )


def test_a_failure_after_a_search_keeps_what_it_found():
    clf = TotalQBoostClassifier(0.005, solver=BQMSolver(Failing(raises)), max_rounds=8)
    with pytest.raises(SamplerError):
        clf.fit(X, Y)
    assert clf.status_ is Status.SOLVER_FAILED
    local = TotalQBoostClassifier(0.005, max_rounds=8).fit(X, Y)
    assert clf.solution_.objective == pytest.approx(local.solution_.objective, abs=1e-9)


def test_a_failure_before_the_first_round_leaves_an_earlier_model_as_it_was():
    clf = TotalQBoostClassifier(0.005, **SETTINGS).fit(X, Y)
    before = clf.decision_function(X)
    clf.set_params(solver=BQMSolver(Failing(raises)))
    with pytest.raises(SamplerError):
        clf.fit(X, Y)
    np.testing.assert_array_equal(clf.decision_function(X), before)
    assert clf.status_ != Status.SOLVER_FAILED


def test_a_fit_with_fallback_goes_on_and_the_trace_says_so():
    solver = BQMSolver(Failing(raises, after=3), n_calls=1, fallback="local")
    clf = TotalQBoostClassifier(0.005, solver=solver, **SETTINGS)
    with pytest.warns(RuntimeWarning, match="the service is down; local search instead"):
        clf.fit(X, Y)
    assert clf.status_ == Status.MAX_ROUNDS
    statuses = [record.status for record in clf.trace_]
    assert statuses == [Status.SAMPLED] * 3 + [Status.FELL_BACK] * 5


def test_a_final_call_that_fails_keeps_all_rounds():
    solver = BQMSolver(Failing(raises), anneal_every="final")
    clf = TotalQBoostClassifier(0.005, solver=solver, **SETTINGS)
    with pytest.raises(SamplerError):
        clf.fit(X, Y)
    assert len(clf.trace_) == 8
    assert clf.status_ == Status.SOLVER_FAILED
    assert clf.score(X, Y) > 0.7


def not_a_sampler():
    return "a string"


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        (
            BQMSolver(lambda: dimod.ExactSolver(), parameters={"num_raeds": 3}),
            "ExactSolver has no parameter 'num_raeds'",
        ),
        (BQMSolver(lambda: raises(None)), "could not be created: ConnectionError"),
        (BQMSolver(lambda: dimod.ExactCQMSolver()), "needs a sampler of bqm models, got ExactCQM"),
        (BQMSolver(not_a_sampler), r"not_a_sampler\(\) must return a sampler, got 'a string'"),
    ],
    ids=["parameter", "factory", "kind", "no sampler"],
)
def test_what_shows_only_at_the_end_keeps_all_rounds(solver, message):
    clf = TotalQBoostClassifier(0.005, solver=replace(solver, anneal_every="final"), **SETTINGS)
    with pytest.raises(SamplerError, match=message):
        clf.fit(X, Y)
    assert len(clf.trace_) == 8
    assert clf.status_ == Status.SOLVER_FAILED
    assert clf.score(X, Y) > 0.7


def test_a_misspelt_parameter_is_no_case_for_the_fallback():
    solver = BQMSolver(lambda: dimod.ExactSolver(), parameters={"num_raeds": 3}, fallback="local")
    with pytest.raises(SamplerError, match="has no parameter 'num_raeds'"):
        solver.solve(random_problem(0))


def test_what_a_class_shows_is_checked_before_a_fit():
    class Strict(dimod.ExactSolver):
        def sample(self, bqm, num_reads=1):
            return super().sample(bqm)

    with pytest.raises(ValueError, match=r"Strict has no parameter 'seed'; it knows \['num_reads'"):
        BQMSolver(Strict, parameters={"seed": 3})
    with pytest.raises(TypeError, match="BQMSolver needs a sampler of bqm models, got ExactCQM"):
        BQMSolver(dimod.ExactCQMSolver)
    with pytest.raises(TypeError, match="got LeapHybridSampler: use BQMSolver"):
        NonlinearSolver(partial(LeapHybridSampler, profile="mine"))


def test_a_loss_without_a_model_is_refused_before_the_first_round():
    rounds = []
    solver = NonlinearSolver(CoordinateSampler(), anneal_every="final")
    clf = TotalQBoostClassifier(0.005, loss=Squareplus(), solver=solver, **SETTINGS)
    with pytest.raises(ValueError, match="loss must be 'exponential'"):
        clf.fit(X, Y, on_event=rounds.append)
    assert rounds == []


def test_the_final_call_leaves_its_status_in_the_solution():
    solver = BQMSolver(SimulatedAnnealingSampler(), anneal_every="final", n_calls=1)
    clf = TotalQBoostClassifier(0.005, solver=solver, **SETTINGS).fit(X, Y)
    assert clf.solution_.status is Status.SAMPLED
    assert clf.status_ == Status.MAX_ROUNDS
    assert {record.status for record in clf.trace_} == {Status.LOCAL_OPTIMUM}


def test_a_final_call_that_falls_back_says_so_in_the_solution():
    solver = BQMSolver(Failing(raises), anneal_every="final", fallback="local")
    clf = TotalQBoostClassifier(0.005, solver=solver, **SETTINGS)
    with pytest.warns(RuntimeWarning, match="the service is down; local search instead"):
        clf.fit(X, Y)
    assert clf.solution_.status is Status.FELL_BACK
    assert clf.status_ == Status.MAX_ROUNDS
