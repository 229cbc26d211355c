"""Samplers that fail: one clear error, and what was done until then is kept."""

from __future__ import annotations

import time

import dimod
import numpy as np
import pytest
from dwave.samplers import SimulatedAnnealingSampler
from dwave.system import LeapHybridCQMSampler, LeapHybridNLSampler, LeapHybridSampler
from solver_contract import check, random_problem

from totalqboost import TotalQBoostClassifier, solvers
from totalqboost.datasets import make_ringnorm
from totalqboost.solvers import BQMSolver, CQMSolver, NonlinearSolver, SamplerError

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


def wrong_values(bqm):
    return dimod.SampleSet.from_samples([dict.fromkeys(bqm.variables, -3)], "INTEGER", 0.0)


def fails_when_read(bqm):
    """Return a sample set whose answer is still on its way, and never comes."""

    class Late:
        def done(self):
            return True

    def hook(future):
        raise ConnectionError("polling failed")

    return dimod.SampleSet.from_future(Late(), hook)


FAILURES = [
    (raises, "Failing failed: ConnectionError: the service is down"),
    (times_out, "Failing failed: TimeoutError"),
    (nothing, "Failing failed: ValueError: it returned nothing"),
    (no_reads, "Failing failed: it returned no samples"),
    (wrong_variables, "Failing failed: .* variables of the model; 'z0' is missing and 5 more"),
    (wrong_values, "Failing failed: it returned values outside the range"),
    (fails_when_read, "Failing failed: ConnectionError: polling failed"),
]
every_failure = pytest.mark.parametrize(
    ("answer", "message"), FAILURES, ids=[answer.__name__ for answer, _ in FAILURES]
)


@every_failure
def test_a_failure_names_the_sampler_and_the_cause(answer, message):
    with pytest.raises(SamplerError, match=message):
        BQMSolver(Failing(answer)).solve(random_problem(0))


@every_failure
def test_local_search_steps_in_only_if_asked_and_says_so(answer, message):
    problem = random_problem(0)
    with pytest.warns(RuntimeWarning, match=message):
        solution = BQMSolver(Failing(answer), fallback="local").solve(problem)
    check(problem, solution)
    assert solution.status.startswith("local search, because Failing failed")


def test_an_answer_that_does_not_come_is_not_waited_for_beyond_the_timeout():
    def hangs(bqm):
        time.sleep(5)

    began = time.perf_counter()
    with pytest.raises(SamplerError, match=r"TimeoutError: no answer within 0\.1 s"):
        BQMSolver(Failing(hangs), timeout=0.1).solve(random_problem(0))
    assert time.perf_counter() - began < 4


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
    expected = r"could not be created: .*[Tt]oken"
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

SETTINGS = {"max_rounds": 8, "patience": None, "n_exchanges": 0}


def test_the_fit_so_far_is_kept():
    solver = BQMSolver(Failing(raises, after=4), n_calls=1)
    clf = TotalQBoostClassifier(0.005, solver=solver, **SETTINGS)
    with pytest.raises(SamplerError, match="the service is down"):
        clf.fit(X, Y)
    assert clf.status_ == "solver failed"
    assert len(clf.trace_) == 4
    assert clf.n_learners_ >= 2
    shorter = TotalQBoostClassifier(
        0.005, solver=BQMSolver(Failing(raises, after=4), n_calls=1), **SETTINGS
    ).set_params(max_rounds=4)
    np.testing.assert_allclose(
        clf.decision_function(X), shorter.fit(X, Y).decision_function(X), atol=1e-6
    )


def test_a_failure_in_an_exchange_keeps_a_model_that_predicts():
    calls = []

    def fail(bqm):
        calls.append(bqm)
        raise ConnectionError("the service is down")

    settings = {"max_rounds": 8, "patience": None, "n_exchanges": 5}
    solver = BQMSolver(Failing(fail, after=8), n_calls=1)
    clf = TotalQBoostClassifier(0.005, solver=solver, **settings)
    with pytest.raises(SamplerError):
        clf.fit(X, Y)
    assert len(clf.trace_) == 8
    assert calls
    assert clf.solution_.objective <= clf.trace_[-1].objective + 1e-9


def test_a_failure_before_the_first_round_leaves_an_earlier_model_as_it_was():
    clf = TotalQBoostClassifier(0.005, **SETTINGS).fit(X, Y)
    before = clf.decision_function(X)
    clf.set_params(solver=BQMSolver(Failing(raises)))
    with pytest.raises(SamplerError):
        clf.fit(X, Y)
    np.testing.assert_array_equal(clf.decision_function(X), before)
    assert clf.status_ != "solver failed"


def test_a_fit_with_fallback_goes_on_and_the_trace_says_so():
    solver = BQMSolver(Failing(raises, after=3), n_calls=1, fallback="local")
    clf = TotalQBoostClassifier(0.005, solver=solver, **SETTINGS)
    with pytest.warns(RuntimeWarning, match="the service is down; local search instead"):
        clf.fit(X, Y)
    assert clf.status_ == "max_rounds"
    fell_back = ["because" in record.status for record in clf.trace_]
    assert fell_back == [False] * 3 + [True] * 5


def test_a_final_call_that_fails_keeps_all_rounds():
    solver = BQMSolver(Failing(raises), anneal_every="final")
    clf = TotalQBoostClassifier(0.005, solver=solver, **SETTINGS)
    with pytest.raises(SamplerError):
        clf.fit(X, Y)
    assert len(clf.trace_) == 8
    assert clf.status_ == "solver failed"
    assert clf.score(X, Y) > 0.7
