"""When a fit calls its sampler, how often at most, and what the dry run says about it."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import dimod
import numpy as np
import pytest
from dwave.samplers import SimulatedAnnealingSampler
from dwave.system import DWaveSampler, LeapHybridCQMSampler, LeapHybridNLSampler
from nonlinear_sampler import CoordinateSampler
from solver_contract import Recorder, check, random_problem

from totalqboost import TotalQBoostClassifier, frontier
from totalqboost.datasets import make_ringnorm, make_twonorm
from totalqboost.solvers import (
    BQMSolver,
    CQMSolver,
    LocalSearch,
    NonlinearSolver,
    SamplerError,
    plan,
)
from totalqboost.solvers.ocean.schedule import most_solves
from totalqboost.solving import MasterSolver, SolverError, SolverSession, Status

X, Y = make_twonorm(200, seed=3)
SETTINGS = {"max_rounds": 7, "patience": None, "exchange": False}


class Counting(dimod.ExactSolver):
    """An exact sampler that remembers how many columns it was asked about, and the reads."""

    def __init__(self):
        super().__init__()
        self.sizes = []

    def sample(self, bqm, **parameters):
        self.sizes.append(bqm.num_variables - 2)  # without the two constants
        return super().sample(bqm)


class Random(dimod.Sampler):
    """Reads that lead a fit astray: other rounds, other exchanges than local search."""

    parameters = {"seed": []}  # noqa: RUF012
    properties = {}  # noqa: RUF012

    def __init__(self):
        self.n_calls = 0

    def sample(self, bqm, seed=0):
        self.n_calls += 1
        bits = np.random.default_rng(seed).integers(0, 2, size=(4, bqm.num_variables))
        return dimod.SampleSet.from_samples_bqm((bits, list(bqm.variables)), bqm)


# -- which problems ----------------------------------------------------------------------------


@pytest.mark.parametrize("anneal_every", [2, "final"])
def test_a_solve_outside_of_a_fit_always_calls(anneal_every):
    sampler = Counting()
    problem = random_problem(0, n=5)
    solution = BQMSolver(sampler, anneal_every=anneal_every, n_calls=1).solve(problem)
    check(problem, solution)
    assert len(sampler.sizes) == 1


@pytest.mark.parametrize(
    ("anneal_every", "expected"),
    [
        (1, [1, 2, 3, 4, 5, 6, 7]),
        (3, [3, 6, 7]),
        (7, [7]),  # the last round: not asked twice about one problem
        (9, [7]),
        ("final", [7]),
    ],
)
def test_the_sampler_is_called_in_every_kth_round_and_once_at_the_end(anneal_every, expected):
    sampler = Counting()
    solver = BQMSolver(sampler, anneal_every=anneal_every, n_calls=1)
    TotalQBoostClassifier(0.02, solver=solver, **SETTINGS).fit(X, Y)
    assert sampler.sizes == expected


def test_rounds_between_are_solved_by_local_search():
    solver = BQMSolver(SimulatedAnnealingSampler(), anneal_every=3)
    clf = TotalQBoostClassifier(0.02, solver=solver, **SETTINGS).fit(X, Y)
    is_sampled = [record.status is Status.SAMPLED for record in clf.trace_]
    assert is_sampled == [False, False, True, False, False, True, False]


@pytest.mark.parametrize("anneal_every", [1, 3, "final"])
def test_a_search_over_the_whole_dictionary_calls_once(anneal_every):
    sampler = Random()
    solver = BQMSolver(sampler, anneal_every=anneal_every, n_calls=1)
    clf = TotalQBoostClassifier(0.01, solver=solver, max_rounds=4)
    assert plan(clf, X, Y).max_calls == 1
    clf.fit(X, Y)
    assert sampler.n_calls == 1
    assert (clf.solution_.status, clf.solution_.note) == (Status.SAMPLED, "1 call of Random")


def test_rounds_without_the_penalty_are_followed_by_one_call():
    sampler = Counting()
    solver = BQMSolver(sampler, n_calls=1, anneal_every="final")
    settings = {**SETTINGS, "max_rounds": 5, "plain_rounds": 9}
    TotalQBoostClassifier(0.02, solver=solver, **settings).fit(X, Y)
    assert sampler.sizes == [5]


def test_the_final_call_takes_part_in_the_result():
    class Late(SolverSession):
        def finish(self, problem, w, rng):
            return LocalSearch().solve(problem, w, rng)

    class Better(MasterSolver):
        """Answers rounds with nothing, and the last problem well."""

        def solve(self, problem, start=None, rng=None):
            return LocalSearch(max_evaluations=1).solve(problem, None, rng)

        def session(self, problem):
            return Late(self)

    settings = {"max_rounds": 8, "patience": None, "exchange": False}
    clf = TotalQBoostClassifier(0.01, solver=Better(), **settings).fit(X, Y)
    assert clf.solution_.objective < clf.trace_[-1].objective - 1e-4


@pytest.mark.parametrize(("anneal_every", "n_calls"), [(1, 3), (2, 2), (3, 1), ("final", 1)])
def test_the_frontier_calls_by_size_and_once_at_the_end(anneal_every, n_calls):
    sampler = Random()
    solver = BQMSolver(sampler, anneal_every=anneal_every, n_calls=1)
    front = frontier(X, Y, max_learners=3, solver=solver)
    assert sampler.n_calls == n_calls
    assert [point.n_learners for point in front] == [0, 1, 2, 3]


@pytest.mark.parametrize(("anneal_every", "kept"), [("final", [0, 1, 2]), (2, [0, 1])])
def test_a_frontier_keeps_the_sizes_done_when_the_sampler_fails(anneal_every, kept):
    class Failing(SimulatedAnnealingSampler):
        def sample(self, bqm, **parameters):
            raise ConnectionError("the service is down")

    solver = BQMSolver(Failing(), anneal_every=anneal_every)
    with pytest.raises(SolverError, match="the service is down") as caught:
        frontier(X, Y, max_learners=3, solver=solver)
    assert [point.n_learners for point in caught.value.result] == kept


def test_the_last_size_of_the_frontier_gets_the_final_answer():
    recorder = Recorder()
    frontier(X, Y, max_learners=3, solver=recorder)
    assert [what for what, _ in recorder.log] == ["session", *["solve"] * 3, "finish"]


# -- how many calls ----------------------------------------------------------------------------


@pytest.mark.parametrize("anneal_every", [1, 2, 3, 5, "final"])
@pytest.mark.parametrize("exchange", [False, True])
def test_no_fit_makes_more_calls_than_the_plan_allows(anneal_every, exchange):
    for seed, plain_rounds in ((0, 0), (1, 4), (2, 0)):
        sampler = Random()
        solver = BQMSolver(sampler, anneal_every=anneal_every, n_calls=2, polish="refit")
        clf = TotalQBoostClassifier(
            0.01,
            solver=solver,
            max_rounds=9,
            exchange=exchange,
            plain_rounds=plain_rounds,
            patience=None if seed else 4,
            random_state=seed,
        )
        examples = make_ringnorm(120, seed=seed)
        planned = plan(clf, *examples)
        assert sampler.n_calls == 0
        clf.fit(*examples)
        assert 1 <= sampler.n_calls <= planned.max_calls
        assert planned.n_calls <= planned.max_calls


def test_a_sampler_can_need_more_calls_than_the_dry_run_expects():
    """The reason for the bound: local search in its place may converge earlier."""
    X, Y = make_ringnorm(200, seed=1)
    sampler = Random()
    solver = BQMSolver(sampler, n_calls=1, polish="refit")
    clf = TotalQBoostClassifier(0.02, solver=solver, max_rounds=40, patience=3, exchange=False)
    planned = plan(clf, X, Y)
    clf.fit(X, Y)
    assert planned.n_calls < sampler.n_calls <= planned.max_calls == 40


@pytest.mark.parametrize("every", [1, 2, 3, 4, 7, 8, "final"])
def test_the_bound_on_problems_is_that_of_the_worst_length_of_a_fit(every):
    def n_solves(n_problems):
        k = 10**9 if every == "final" else every
        asked = [number for number in range(1, n_problems + 1) if number % k == 0]
        return len({*asked, n_problems})  # and the last

    assert most_solves(every, 8) == max(n_solves(n) for n in range(1, 9))
    assert most_solves(every, 0) == 0


@pytest.mark.parametrize("anneal_every", [1, 2, "final"])
def test_a_budget_of_calls_is_kept_and_local_search_goes_on(anneal_every):
    sampler = Counting()
    solver = BQMSolver(sampler, anneal_every=anneal_every, n_calls=3, patience=3, max_calls=2)
    clf = TotalQBoostClassifier(0.02, solver=solver, **SETTINGS)
    planned = plan(clf, X, Y)
    assert planned.max_calls == planned.n_calls == 2
    clf.fit(X, Y)
    assert len(sampler.sizes) == 2
    assert len(clf.trace_) == 7
    if anneal_every == 1:
        statuses = [record.status for record in clf.trace_]
        assert statuses == [Status.SAMPLED] + [Status.FELL_BACK] * 6
        assert clf.solution_.status is Status.FELL_BACK
    clf.fit(X, Y)  # the budget is that of one fit
    assert len(sampler.sizes) == 4


def test_the_note_says_how_a_problem_was_solved():
    problem, rng = random_problem(0), np.random.default_rng(0)
    session = BQMSolver(Counting(), n_calls=2, patience=2, max_calls=2).session(problem)
    assert session.solve(problem, None, rng).note == "2 calls of Counting"
    told = "local search, because max_calls=2 are used up"
    for late in (session.solve(problem, None, rng), session.finish(problem, np.zeros(6), rng)):
        assert (late.status, late.note) == (Status.FELL_BACK, told)


def test_calls_that_fail_count_against_the_budget():
    class Broken(Counting):
        def sample(self, bqm, **parameters):
            super().sample(bqm)
            raise ConnectionError("the service is down")

    sampler = Broken()
    solver = BQMSolver(sampler, max_calls=3, fallback="local")
    with pytest.warns(RuntimeWarning, match="the service is down"):
        TotalQBoostClassifier(0.02, solver=solver, **SETTINGS).fit(X, Y)
    assert len(sampler.sizes) == 3


# -- dry run -----------------------------------------------------------------------------------


@pytest.mark.parametrize("anneal_every", [1, 3, "final"])
def test_the_dry_run_counts_the_problems_that_a_fit_gives_to_the_sampler(anneal_every):
    sampler = Counting()
    solver = BQMSolver(sampler, anneal_every=anneal_every, n_calls=1)
    clf = TotalQBoostClassifier(0.02, solver=solver, **SETTINGS)
    planned = plan(clf, X, Y)
    assert sampler.sizes == []  # dry
    assert planned.n_rounds == 7
    expected = {1: 7, 3: 2 + 1, "final": 1}[anneal_every]
    assert planned.n_calls == planned.n_solves == planned.max_calls == expected
    clf.fit(X, Y)
    assert len(sampler.sizes) == expected


def test_without_a_penalty_nothing_is_asked():
    planned = plan(TotalQBoostClassifier(0.0, solver=Counting(), **SETTINGS), X, Y)
    assert (planned.n_calls, planned.max_calls, planned.n_variables) == (0, 0, 0)


def test_the_dry_run_reports_variables_and_qubits():
    settings = {"max_rounds": 10, "patience": None, "exchange": False}
    clf = TotalQBoostClassifier(0.02, solver=SimulatedAnnealingSampler, **settings)
    planned = plan(clf, X, Y)
    assert planned.n_variables == 12  # ten stumps and the two constants
    assert planned.n_interactions == 12 * 11 // 2
    assert 12 < planned.qubits["Pegasus P16"] < 60
    assert 12 < planned.qubits["Zephyr Z12"] < 60
    text = str(planned)
    assert f"qubits, Zephyr Z12          {planned.qubits['Zephyr Z12']}" in text
    assert f"calls of it, at most        {planned.max_calls}" in text
    assert "interactions                66" in text

    deep = BQMSolver(SimulatedAnnealingSampler, encoding="binary", n_bits=12)
    planned = plan(clf, X, Y, solver=deep)
    assert planned.n_variables == 12 * 12 + 10
    clf.set_params(max_rounds=16)
    planned = plan(clf, *make_ringnorm(300, seed=0), solver=deep)
    assert planned.n_variables == 16 * 13 + 2 * 12
    assert planned.qubits["Pegasus P16"] is None
    assert "qubits, Pegasus P16         does not fit" in str(planned)


def test_a_nonlinear_model_has_nodes_and_no_qubits():
    clf = TotalQBoostClassifier(0.02, solver=CoordinateSampler(), n_bits=2, **SETTINGS)
    planned = plan(clf, X, Y)
    assert planned.qubits == {}
    assert f"nodes                       {planned.n_interactions}" in str(planned)
    assert "interactions" not in str(planned)


def test_without_the_package_the_dry_run_says_how_to_get_the_qubits():
    code = """
import sys
sys.modules["dwave.graphs"] = None
from dwave.samplers import SimulatedAnnealingSampler
from totalqboost import TotalQBoostClassifier
from totalqboost.datasets import make_twonorm
from totalqboost.solvers import plan
clf = TotalQBoostClassifier(solver=SimulatedAnnealingSampler, max_rounds=2, exchange=False)
print(plan(clf, *make_twonorm(100, seed=0)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = done.stdout.splitlines()[-1]
    assert last == 'qubits                      to see them, pip install "totalqboost[dwave]"'


@pytest.mark.parametrize(
    ("factory", "kind"),
    [
        (DWaveSampler, BQMSolver),
        (LeapHybridCQMSampler, CQMSolver),
        (partial(LeapHybridNLSampler, profile="mine"), NonlinearSolver),
    ],
    ids=["bqm", "cqm", "nonlinear"],
)
def test_a_class_given_directly_is_planned_without_being_called(factory, kind, monkeypatch):
    def fail(self, **config):
        raise AssertionError("called")

    made = getattr(factory, "func", factory)
    monkeypatch.setattr(made, "__init__", fail)
    clf = TotalQBoostClassifier(0.02, solver=factory, **SETTINGS)
    planned = plan(clf, X, Y)
    assert planned.max_calls == 7 * kind(factory).n_calls
    assert planned.is_nonlinear == (kind is NonlinearSolver)


def test_a_function_that_fails_tells_how_to_plan_without_it():
    def processor():
        raise ConnectionError("no network")

    message = r"no network; to plan without it say what it makes, e\.g\. solver=BQMSolver"
    with pytest.raises(SamplerError, match=message):
        plan(TotalQBoostClassifier(solver=processor), X, Y)
    plan(TotalQBoostClassifier(solver=BQMSolver(processor), **SETTINGS), X, Y)


@pytest.mark.parametrize("solver", ["local", LocalSearch(), 3, dict], ids=str)
def test_the_plan_of_what_is_no_sampler_names_the_argument(solver):
    with pytest.raises(TypeError, match="solver must be a sampler"):
        plan(TotalQBoostClassifier(solver=solver), X, Y)


def test_a_dry_run_neither_prints_nor_certifies(capsys, monkeypatch):
    import totalqboost.estimator as module

    def fail(*arguments):
        raise AssertionError("certified")

    monkeypatch.setattr(module.solvers, "certify", fail)
    clf = TotalQBoostClassifier(
        0.02, solver=SimulatedAnnealingSampler, verbose=1, certify=True, **SETTINGS
    )
    plan(clf, X, Y)
    assert capsys.readouterr().out == ""
    assert clf.verbose == 1
