"""Samplers in the place of local search: quality, randomness, parameters, dispatch."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from functools import partial
from itertools import combinations, product
from pathlib import Path

import dimod
import numpy as np
import pytest
from dwave.samplers import (
    PathIntegralAnnealingSampler,
    RandomSampler,
    SimulatedAnnealingSampler,
    TabuSampler,
)
from sklearn.base import clone
from solver_contract import Squareplus, check, random_problem

from totalqboost import MasterProblem, TotalQBoostClassifier, frontier, losses, solvers
from totalqboost.boosting import Engine, Rounds, Terms, boost
from totalqboost.datasets import make_ringnorm, make_twonorm, make_waveform
from totalqboost.dictionaries import Stumps
from totalqboost.refit import refit_value
from totalqboost.solvers import BQMSolver, CQMSolver, LocalSearch, NonlinearSolver
from totalqboost.solvers.ocean import LocalSearchSampler, TabuSearchSampler
from totalqboost.solvers.ocean.calling import check_parameters
from totalqboost.solvers.ocean.search import relaxed
from totalqboost.solving import Status

X, Y = make_twonorm(200, seed=3)
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "samplers.json"


# -- quality -------------------------------------------------------------------------------------


def stump_problem(seed, n=12):
    """Return the first columns of column generation, with a penalty at which some pay."""
    make = (make_ringnorm, make_twonorm, make_waveform)[seed % 3]
    examples, y = make(200, seed=seed)
    oracle = Stumps().prepare(examples, y.astype(np.int8))
    terms = Terms(losses.Exponential(), np.full(200, 1 / 200), 1e-6)
    engine = Engine(oracle, terms, LocalSearch(), 5e-4, np.random.default_rng(0))
    result = boost(engine, Rounds(max_rounds=n))
    risk = [record.risk for record in result.trace]
    problem = result.problem
    return MasterProblem(problem.A, nu=1e-6, lam=(risk[3] - risk[-1]) / (n - 4))


def brute_force(problem):
    """Return the optimum: continuous weights on each of the 4096 supports."""
    best = np.inf
    for size in range(problem.n_columns + 1):
        for support in combinations(range(problem.n_columns), size):
            value = refit_value(problem, np.array(support, dtype=int), tol=1e-7)[1]
            best = min(best, value + problem.lam * size)
    return best


@pytest.fixture(scope="module")
def instances():
    problems = [stump_problem(seed) for seed in range(6)]
    return [(problem, brute_force(problem)) for problem in problems]


# All fifty problems are in benchmarks/samplers.py. The brute force is over continuous weights,
# which no grid of two bits can beat.
def test_annealing_of_two_bits_is_within_half_a_per_cent_of_brute_force(instances):
    solver = BQMSolver(SimulatedAnnealingSampler(), encoding="binary", n_bits=2)
    gaps = [solver.solve(problem).objective / best - 1 for problem, best in instances]
    assert min(gaps) > -1e-7
    assert np.mean(gaps) < 0.005


@pytest.mark.skipif(not RESULTS.exists(), reason="benchmarks are no part of this copy")
def test_the_saved_benchmark_shows_it_on_fifty_problems():
    content = json.loads(RESULTS.read_text(encoding="utf-8"))
    settings = content["configuration"]
    assert (settings["small_problems"], settings["small_columns"]) == (50, 12)
    assert settings["small_bits"] == 2
    (row,) = [
        row
        for row in content["results"]["small"]
        if (row["solver"], row["polish"]) == ("simulated annealing", "descend")
    ]
    assert row["problems"] == 50
    assert row["mean_gap"] < 0.005
    assert max(row["polishes"] for row in content["results"]["small"]) <= settings["polishes"]


def test_reads_of_the_model_are_better_starts_than_random_ones(instances):
    settings = {"encoding": "binary", "n_bits": 3, "polish": "refit", "n_polished": 2}
    annealed, random = (
        np.mean([BQMSolver(s, **settings).solve(p).objective / best for p, best in instances])
        for s in (SimulatedAnnealingSampler(), RandomSampler())
    )
    assert annealed < random - 0.01


def test_for_the_squared_loss_one_exact_call_finds_the_optimum_of_the_grid():
    problem = random_problem(1, n=5, m=60, loss="squared", lam=0.03)
    solver = BQMSolver(dimod.ExactSolver(), encoding="binary", n_bits=2, n_calls=1, polish="refit")
    model = solver.build(problem, relaxed(problem))  # the grid of the first call
    grid = np.array(list(product(range(4), repeat=5))) * model.step
    assert solver.solve(problem).objective <= min(problem.objective(w) for w in grid)


# -- randomness and parameters -------------------------------------------------------------------


@pytest.mark.parametrize(
    "sampler",
    [
        SimulatedAnnealingSampler(),
        PathIntegralAnnealingSampler(),
        TabuSampler(),
        RandomSampler(),
        TabuSearchSampler(),
        LocalSearchSampler(),
    ],
    ids=lambda sampler: type(sampler).__name__,
)
def test_a_seed_reproduces_with_every_local_sampler(sampler):
    problem = stump_problem(1)
    settings = {"encoding": "binary", "n_bits": 2, "polish": "refit", "n_calls": 2}
    solver = BQMSolver(sampler, parameters={"num_reads": 5}, **settings)
    first, second = (solver.solve(problem, rng=np.random.default_rng(4)) for _ in range(2))
    check(problem, first)
    np.testing.assert_array_equal(first.w, second.w)
    assert type(sampler).__name__ in first.note


class Listening(dimod.ExactSolver):
    """An exact sampler that takes the parameters of others and remembers them."""

    def __init__(self, **parameters):
        super().__init__()
        self.parameters = {name: [] for name in parameters}
        self.calls = []

    def sample(self, bqm, **parameters):
        self.calls.append(parameters)
        return super().sample(bqm)


def test_parameters_reach_the_sampler_and_defaults_fill_what_it_knows():
    sampler = Listening(num_reads=1, seed=1, beta_range=1)
    BQMSolver(sampler, parameters={"beta_range": (1, 2)}).solve(random_problem(0))
    assert all(call["beta_range"] == (1, 2) for call in sampler.calls)
    assert all(call["num_reads"] == 50 for call in sampler.calls)
    assert len({call["seed"] for call in sampler.calls}) == len(sampler.calls) > 1
    assert "num_sweeps" not in sampler.calls[0]


def test_a_tabu_sampler_gets_a_budget_in_moves_not_in_milliseconds():
    names = dict.fromkeys(TabuSampler().parameters, 1)
    sampler = Listening(**names)
    BQMSolver(sampler).solve(random_problem(0))
    assert sampler.calls[0]["timeout"] is None
    assert sampler.calls[0]["num_restarts"] < 100


@pytest.mark.parametrize("sampler", [SimulatedAnnealingSampler(), TabuSampler(), RandomSampler()])
def test_an_unknown_parameter_is_an_error_that_lists_the_known_ones(sampler):
    name = type(sampler).__name__
    with pytest.raises(ValueError, match=rf"{name} has no parameter 'num_raeds'; .*'num_reads'"):
        BQMSolver(sampler, parameters={"num_raeds": 3})


def test_an_unknown_parameter_of_a_factory_is_found_at_the_first_call():
    solver = BQMSolver(SimulatedAnnealingSampler, parameters={"num_raeds": 3})  # takes **kwargs
    with pytest.raises(ValueError, match="has no parameter 'num_raeds'"):
        solver.solve(random_problem(0))


def test_parameters_that_only_the_method_names_are_known():
    known = check_parameters(PathIntegralAnnealingSampler(), "bqm", {"Gamma": 1.0})
    assert "Gamma" in known
    assert "Gamma" not in PathIntegralAnnealingSampler().parameters


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_calls": 0}, "n_calls must be an integer >= 1, got 0"),
        ({"n_polished": 1.5}, "n_polished must be an integer >= 1, got 1.5"),
        ({"anneal_every": "last"}, "anneal_every must be an integer >= 1 or 'final', got 'last'"),
        ({"polish": "no"}, "polish must be 'descend' or 'refit', got 'no'"),
        ({"fallback": "tabu"}, "fallback must be None or 'local', got 'tabu'"),
        ({"timeout": 0}, "timeout must be a number of seconds > 0 .* or None .*, got 0"),
        ({"timeout": "5"}, "timeout must be a number of seconds > 0 .*, got '5'"),
        ({"timeout": np.inf}, "timeout must be a number of seconds > 0 .*, got inf"),
        ({"timeout": 1e12}, "timeout must be a number of seconds > 0 .*, got 1000000000000.0"),
        ({"parameters": None}, "parameters must be a mapping such as .*, got None"),
        ({"max_calls": 0}, "max_calls must be an integer >= 1 or None, got 0"),
        ({"encoding": "unary"}, "encoding must be one of .* got 'unary'"),
        ({"n_bits": 13}, "n_bits must be an integer from 1 to 12, got 13"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        BQMSolver(SimulatedAnnealingSampler(), **settings)


def test_a_sampler_of_another_kind_is_refused():
    with pytest.raises(TypeError, match="CQMSolver needs a sampler of cqm models, got Exact"):
        CQMSolver(dimod.ExactSolver())
    with pytest.raises(TypeError, match="BQMSolver needs a sampler of bqm models, got ExactCQM"):
        BQMSolver(dimod.ExactCQMSolver())
    with pytest.raises(TypeError, match=r"sampler must be a sampler or a function.* got 3"):
        BQMSolver(3)
    with pytest.raises(TypeError, match=r"NonlinearSolver .* got ExactCQMSolver: use CQMSolver"):
        NonlinearSolver(dimod.ExactCQMSolver())
    with pytest.raises(TypeError, match="got SimulatedAnnealingSampler: use BQMSolver"):
        NonlinearSolver(SimulatedAnnealingSampler())


@pytest.mark.parametrize("start", [np.ones(2), "abc", [1, 2, np.nan, 0, 0, 0]], ids=str)
def test_a_start_that_does_not_fit_is_named(start):
    with pytest.raises(ValueError, match="start must hold 6 finite weights >= 0, got"):
        BQMSolver(dimod.ExactSolver()).solve(random_problem(0), start=start)


@pytest.mark.parametrize("n_bits", [0, -1, 2.7, 1000, None, "foo"])
@pytest.mark.parametrize("sampler", [SimulatedAnnealingSampler(), dimod.ExactCQMSolver()])
def test_bad_depths_of_a_sampler_are_named(sampler, n_bits):
    message = f"n_bits must be 'auto' or an integer from 1 to 12, got {n_bits!r}"
    with pytest.raises(ValueError, match=message):
        solvers.get(sampler, n_bits=n_bits)


def test_a_depth_of_an_estimator_is_that_of_its_integers_too():
    clf = TotalQBoostClassifier(solver=SimulatedAnnealingSampler(), n_bits=4, max_rounds=5)
    assert max(clf.fit(X, Y).ensemble_.points.weights) <= 7


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        (BQMSolver, r"solver must be one of .*: make an object of it, BQMSolver\(sampler\)"),
        (LocalSearch, r"solver must be one of .*: make an object of it, LocalSearch\(\)"),
        (None, "solver must be one of .* or a sampler of D-Wave's Ocean, got None"),
    ],
    ids=["ocean class", "class", "none"],
)
def test_what_is_no_solver_is_named(solver, message):
    with pytest.raises(TypeError, match=message):
        TotalQBoostClassifier(solver=solver).fit(X, Y)


# -- dispatch ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (SimulatedAnnealingSampler(), BQMSolver),
        (SimulatedAnnealingSampler, BQMSolver),
        (partial(TabuSampler), BQMSolver),
        (dimod.ExactCQMSolver(), CQMSolver),
        (dimod.ExactCQMSolver, CQMSolver),
    ],
    ids=["object", "class", "partial", "cqm object", "cqm class"],
)
def test_samplers_and_factories_find_their_solver(given, kind):
    assert type(solvers.get(given, n_bits=2)) is kind


def test_a_factory_is_called_once():
    made = []

    def factory():
        made.append(dimod.ExactSolver())
        return made[-1]

    solver = solvers.get(factory)
    for seed in range(2):
        solver.solve(random_problem(seed))
    assert len(made) == 1


def test_what_makes_no_sampler_is_refused():
    with pytest.raises(TypeError, match=r"dict\(\) must return a sampler, got \{\}"):
        solvers.get(dict)


@pytest.mark.parametrize(
    "solver",
    [SimulatedAnnealingSampler, BQMSolver(TabuSearchSampler, parameters={"num_reads": 3})],
    ids=["class", "solver"],
)
def test_an_estimator_with_a_factory_clones_and_pickles(solver):
    clf = TotalQBoostClassifier(0.02, solver=solver, max_rounds=5)
    clf.fit(X, Y)
    copies = [clone(clf).fit(X, Y), pickle.loads(pickle.dumps(clf))]
    copies.append(pickle.loads(pickle.dumps(clone(clf))).fit(X, Y))
    for copy in copies:
        np.testing.assert_array_equal(copy.decision_function(X), clf.decision_function(X))


def test_the_estimator_fits_with_any_sampler_and_is_repeatable():
    clf = TotalQBoostClassifier(0.01, solver=SimulatedAnnealingSampler(), max_rounds=12)
    first = clf.fit(X, Y).solution_
    assert clf.score(X, Y) > 0.9
    assert first.status is Status.SAMPLED
    assert "SimulatedAnnealingSampler" in first.note
    second = clf.fit(X, Y).solution_
    np.testing.assert_array_equal(first.w, second.w)
    local = TotalQBoostClassifier(0.01, max_rounds=12).fit(X, Y).solution_
    assert first.objective <= local.objective + 1e-9  # the last word is never worse


def test_qboost_is_a_preset():
    clf = TotalQBoostClassifier(
        0.01,
        loss="squared",
        solver=SimulatedAnnealingSampler(),
        max_rounds=20,
        exchange=False,
    ).fit(X, Y)
    assert clf.score(X, Y) > 0.85
    local = TotalQBoostClassifier(0.01, loss="squared", max_rounds=20, exchange=False).fit(X, Y)
    assert clf.solution_.objective <= 1.02 * local.solution_.objective
    assert clf.n_learners_ < 20


def test_a_loss_of_the_users_own_can_be_annealed():
    problem = random_problem(2, n=6, loss=Squareplus())
    assert problem.cardinality(check(problem, BQMSolver(dimod.ExactSolver()).solve(problem))) > 0


def test_importing_the_package_imports_nothing_of_ocean():
    code = (
        "import sys, totalqboost, totalqboost.solvers.ocean as ocean;"
        "totalqboost.solvers.BQMSolver, ocean.build_nonlinear;"
        "print([m for m in sys.modules if m.split('.')[0] in ('dimod', 'dwave', 'minorminer')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_a_missing_package_names_the_extra():
    code = """
import sys
sys.modules["dimod"] = sys.modules["dwave.optimization"] = None
import totalqboost.solvers.ocean as ocean
from totalqboost import MasterProblem
p = MasterProblem([[1, -1]])
for use in (
    lambda: ocean.build_bqm(p),
    lambda: ocean.build_cqm(p),
    lambda: ocean.TabuSearchSampler,
    lambda: ocean.build_nonlinear(p),
):
    try:
        use()
    except ImportError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    told = '{} is not installed; install it with pip install "totalqboost[{}]"'
    expected = [told.format("dimod", "annealing")] * 3
    expected.append(told.format("dwave.optimization", "dwave"))
    assert done.stdout.splitlines() == expected, done.stderr


def test_the_frontier_takes_samplers_too():
    """Its problems have a limit and no penalty: the limit is in the model."""
    settings = {"max_learners": 3}
    annealed = frontier(X, Y, solver=SimulatedAnnealingSampler, **settings)
    local = frontier(X, Y, **settings)
    assert [point.n_learners for point in annealed] == [0, 1, 2, 3]
    assert annealed.points[-1].risk == pytest.approx(local.points[-1].risk, rel=0.02)
