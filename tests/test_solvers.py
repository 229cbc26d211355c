"""Solvers of the master problem: the contract for all, quality, budgets, arguments."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, replace

import numpy as np
import pytest
from solver_contract import (
    EVERY_WRAPPER,
    WRAPPERS,
    FitContract,
    GridContract,
    Recorder,
    SolverContract,
    WrapperContract,
    X,
    Y,
    best_of_all_supports,
    check,
    correlated_problem,
    life,
    random_problem,
)

from totalqboost import TotalQBoostClassifier, losses, solvers
from totalqboost.datasets import make_ringnorm, make_twonorm, make_waveform
from totalqboost.dictionaries import Stumps
from totalqboost.fixed_point import MAX_BITS
from totalqboost.master import MasterProblem
from totalqboost.refit import refit
from totalqboost.solvers import BranchAndBound, LocalSearch, TabuSearch
from totalqboost.solvers.compose import PlainSolver
from totalqboost.solving import (
    Interrupted,
    MasterSolver,
    Solution,
    SolverError,
    SolverSession,
    Status,
    finish,
    solve,
)

# Smaller budgets than the defaults: the contract is kept by any.
SOLVERS = {
    "local": LocalSearch(n_perturbations=10),
    "tabu-levels": TabuSearch(max_evaluations=600),
    "tabu-levels-mst2": TabuSearch(restart="mst2", max_evaluations=600),
    "tabu-bits": TabuSearch(moves="bits", max_evaluations=900),
    "tabu-bits-mst2": TabuSearch(moves="bits", restart="mst2", max_evaluations=900),
    "tabu-auto": TabuSearch(n_bits="auto", max_evaluations=800),
    "local-starts": LocalSearch(n_perturbations=4, n_starts=2),
    "tabu-starts": TabuSearch(max_evaluations=300, n_starts=2),
}
DISCRETE = {
    f"tabu-{moves}-{restart}": TabuSearch(8, moves, restart, discrete=True, max_evaluations=2_000)
    for moves in ("levels", "bits")
    for restart in ("mst2", "iterated")
}
every_solver = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)


every_wrapper = pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)


@every_solver
class TestEverySolver(SolverContract):
    """The contract, for each solver in turn."""


@pytest.mark.parametrize("solver", DISCRETE.values(), ids=DISCRETE)
class TestEveryDiscreteSolver(GridContract):
    """The contract of the grid, for each solver whose answers stay on one."""


WRAPPED = {name: wrap(LocalSearch(n_perturbations=3)) for name, wrap in EVERY_WRAPPER.items()}


@pytest.mark.parametrize("solver", WRAPPED.values(), ids=WRAPPED)
class TestEveryWrapper(SolverContract):
    """The contract, for each wrapper around one solver."""


@every_wrapper
class TestForwarding(WrapperContract):
    """What a wrapper must hand on."""


FITTED = {
    f"{name}-{around}": wrap(solver)
    for name, solver in {
        **SOLVERS,
        "exact": BranchAndBound(max_nodes=200),
        "tabu-discrete": DISCRETE["tabu-bits-mst2"],
    }.items()
    for around, wrap in {"alone": lambda solver: solver, **EVERY_WRAPPER}.items()
}


@pytest.mark.parametrize("solver", FITTED.values(), ids=FITTED)
class TestFits(FitContract):
    """Whole fits, for each solver alone and within each wrapper."""


# -- sessions ----------------------------------------------------------------------------


@every_wrapper
def test_the_proof_of_the_exact_solver_survives_a_wrapper(wrap):
    problems = [random_problem(2, n=n, m=40) for n in (3, 5)]
    exact, wrapped = (
        life(solver, problems) for solver in (BranchAndBound(), wrap(BranchAndBound()))
    )
    for (_, last), name in ((exact, "alone"), (wrapped, "wrapped")):
        assert last.status is Status.OPTIMAL, name
        assert last.gap < 1e-7, name
    assert wrapped[1].objective == pytest.approx(exact[1].objective, rel=1e-8)


both_fits = pytest.mark.parametrize("exchange", [False, True], ids=["rounds", "search"])


@both_fits
@every_wrapper
def test_the_proof_of_the_exact_solver_survives_a_fit_within_a_wrapper(wrap, exchange):
    settings = {"solver": wrap(BranchAndBound()), "max_rounds": 5, "exchange": exchange}
    clf = TotalQBoostClassifier(0.01, **settings).fit(X, Y)
    assert clf.solution_.status is Status.OPTIMAL
    assert clf.solution_.gap < 1e-6


@both_fits
@every_wrapper
def test_a_fit_opens_one_session_and_finishes_it(wrap, exchange):
    recorder = Recorder()
    settings = {"solver": wrap(recorder), "max_rounds": 4, "exchange": exchange}
    TotalQBoostClassifier(0.01, **settings).fit(X, Y)
    asked = [what for what, _ in recorder.log]
    assert asked.count("session") == asked.count("finish") == 1
    assert (asked[0], asked[-1]) == ("session", "finish")


@both_fits
@every_wrapper
@pytest.mark.parametrize("error", [Interrupted, SolverError])
def test_a_fit_that_is_stopped_keeps_what_was_done(wrap, error, exchange):
    solver = wrap(Recorder(1 if exchange else 4, error))
    clf = TotalQBoostClassifier(0.01, solver=solver, max_rounds=9, exchange=exchange)
    with pytest.raises(error) as caught:
        clf.fit(X, Y)
    assert caught.value.result.solution.w.shape == clf.solution_.w.shape
    assert clf.n_learners_ >= 1
    assert clf.score(X, Y) > 0.6


@every_wrapper
def test_an_interrupted_proof_carries_the_best_so_far(wrap):
    def press(progress):
        raise KeyboardInterrupt

    problem = random_problem(2, n=8, m=40)
    with pytest.raises(Interrupted) as caught:
        wrap(BranchAndBound(on_progress=press)).solve(problem)
    solution = caught.value.result
    check(problem, solution)
    assert solution.status is Status.INTERRUPTED


def test_an_interrupted_tabu_search_carries_the_best_so_far(monkeypatch):
    n_refits = []

    def press(problem, *arguments, **settings):
        n_refits.append(1)
        if len(n_refits) == 4:
            raise KeyboardInterrupt
        return refit(problem, *arguments, **settings)

    monkeypatch.setattr("totalqboost.solvers.tabu.refit", press)
    problem = random_problem(2, n=8, m=40)
    with pytest.raises(Interrupted) as caught:
        TabuSearch().solve(problem)
    solution = caught.value.result
    check(problem, solution)
    assert solution.status is Status.INTERRUPTED
    assert problem.cardinality(solution.w) > 0
    assert solution.n_evaluations > 0


def test_an_interruption_at_the_start_of_a_pool_keeps_the_first_answer():
    problem = random_problem(0)
    pool = [np.full(6, 0.3)]
    with pytest.raises(Interrupted) as caught:
        solvers.StartPool(Recorder(stop_at=1), pool).solve(problem)
    solution = caught.value.result
    check(problem, solution)
    assert solution.objective <= LocalSearch().solve(problem).objective
    assert solution.status is Status.INTERRUPTED


def test_the_answer_of_a_pool_is_never_worse_than_any_of_it():
    problem = random_problem(0, n=3, max_learners=2)
    good = refit(problem, np.array([0, 2]), tol=1e-9)
    pool = [np.full(3, 9.0), np.full(3, 0.1), good, np.zeros(4)]  # two of them do not fit
    solution = solvers.StartPool(Says(np.zeros(3)), pool).solve(problem)
    assert solution.objective <= problem.objective(good)


def test_both_bounds_of_a_pool_count():
    class Prover(MasterSolver):
        def solve(self, problem, start=None, rng=None):
            return Solution(np.zeros(6), 1.0, bound=0.1 if start is None else 0.2, n_evaluations=1)

    pooled = solvers.StartPool(Prover(), [np.full(6, 9.0)]).solve(random_problem(0))
    assert (pooled.bound, pooled.n_evaluations) == (0.2, 2)
    alone = solvers.StartPool(Prover(), []).solve(random_problem(0))
    assert (alone.bound, alone.n_evaluations) == (0.1, 1)


@dataclass
class Says(MasterSolver):
    """A solver that answers with given weights, and lies about what they are worth."""

    w: np.ndarray
    objective: float = -1.0

    def solve(self, problem, start=None, rng=None):
        return Solution(self.w, self.objective)

    def session(self, problem):
        return SaysSession(self)


class SaysSession(SolverSession):
    def finish(self, problem, w, rng):
        return Solution(self.solver.w, self.solver.objective)


def test_no_solver_is_trusted_with_its_own_objective():
    problem, rng = random_problem(0, n=3), np.random.default_rng(0)
    w = np.array([0.3, 0.0, 0.1])
    session = Says(w).session(problem)
    for solution in (solve(session, problem, None, rng), finish(session, problem, 2 * w, rng)):
        assert solution.objective == problem.objective(solution.w) > 0


def test_the_last_word_is_never_worse_than_the_weights_before_it():
    problem, rng = random_problem(0, n=3), np.random.default_rng(0)
    good = refit(problem, np.arange(3), tol=1e-9)
    session = Says(np.full(3, 5.0)).session(problem)
    solution = finish(session, problem, good, rng)
    np.testing.assert_array_equal(solution.w, good)
    assert solution.objective == problem.objective(good)


@pytest.mark.parametrize(
    "w",
    [[0.3, 0.1], [0.3, 0.0, -1e-9], [0.3, np.nan, 0.0], [np.inf, 0.0, 0.0], [0.1, 0.2, 0.3]],
    ids=str,
)
def test_weights_that_cannot_be_used_are_an_error_that_names_the_solver(w):
    problem, rng = random_problem(0, n=3, max_learners=2), np.random.default_rng(0)
    session = Says(np.array(w)).session(problem)
    message = "Says must return 3 finite weights >= 0, at most 2 of them > 0"
    with pytest.raises(ValueError, match=message):
        solve(session, problem, None, rng)
    with pytest.raises(ValueError, match=message):
        finish(session, problem, np.zeros(3), rng)


@pytest.mark.parametrize(
    ("solver", "refit_of"),
    [(LocalSearch(), "descent.refit_value"), (TabuSearch(max_evaluations=300), "tabu.refit")],
    ids=["local", "tabu"],
)
@pytest.mark.parametrize("loss", losses.names())
def test_a_search_that_finds_nothing_returns_its_start(solver, refit_of, loss, monkeypatch):
    """The promise must not rest on the quality of the search: here every refit is useless."""

    def spoil(problem, support, *arguments, **settings):
        w = np.zeros(problem.n_columns)
        w[support] = 9.0
        return (w, 0.0) if refit_of.endswith("value") else w

    problem = random_problem(1, loss=loss, lam=0.02)
    start = refit(problem, np.array([0, 3]), tol=1e-9)
    empty = np.zeros(6)
    assert problem.objective(start) < problem.objective(empty)
    monkeypatch.setattr(f"totalqboost.solvers.{refit_of}", spoil)
    monkeypatch.setattr("totalqboost.solvers.walk.tabu_walk", lambda *arguments: 0.0)
    assert solver.solve(problem, start).objective <= problem.objective(start)
    assert solver.solve(problem).objective <= problem.objective(empty)
    worse = np.full(6, 9.0)
    assert solver.solve(problem, worse).objective <= problem.objective(empty)


# -- quality -----------------------------------------------------------------------------


def stump_problem(seed):
    """Return up to ten stumps of a benchmark problem, two of three chosen greedily."""
    rng = np.random.default_rng(seed)
    make = [make_ringnorm, make_twonorm, make_waveform][seed % 3]
    X, y = make(int(rng.integers(60, 300)), seed=seed)
    oracle = Stumps().prepare(X, y)
    u = np.full(len(y), 1 / len(y))
    taken, columns = set(), []
    for _ in range(int(rng.integers(5, 10))):
        offered = oracle.best(u, taken, n=1 if rng.random() < 0.65 else 30)[-1]
        taken.add(offered.learner)
        columns.append(offered.column)
        edge = np.clip(offered.edge, -0.99, 0.99)
        u = u * np.exp(-np.arctanh(edge) * offered.column)
        u /= u.sum()
    is_free = rng.random() < 0.5
    A = np.vstack([y, -y, columns] if is_free else columns)
    cost = np.append([0.0, 0.0], np.ones(len(columns))) if is_free else None
    return MasterProblem(
        A, nu=10.0 ** rng.uniform(-6, -3), lam=10.0 ** rng.uniform(-3.5, -1), cost=cost
    )


def small_instances():
    """Return 40 problems of at most ten columns with their optimal objectives."""
    rng = np.random.default_rng(2024)
    problems = [stump_problem(seed) for seed in range(20)]
    for seed in range(10):
        nu, lam = 10.0 ** rng.uniform(-6, -2), 10.0 ** rng.uniform(-3, -1)
        n = int(rng.integers(4, 9))
        problems.append(random_problem(seed, n=n, m=int(rng.integers(30, 150)), nu=nu, lam=lam))
        problems.append(correlated_problem(seed, n=n, nu=nu, lam=lam))
    return [(problem, best_of_all_supports(problem)) for problem in problems]


@pytest.fixture(scope="module")
def instances():
    return small_instances()


@pytest.mark.parametrize(
    ("solver", "share"),
    [(LocalSearch(), 0.95), (TabuSearch(n_bits="auto"), 0.9)],
    ids=["local", "tabu-auto"],
)
def test_the_optimum_is_found_on_nearly_all_small_problems(instances, solver, share):
    gaps = np.array([solver.solve(problem).objective - best for problem, best in instances])
    assert gaps.min() >= -1e-8  # no answer is better than the best of all supports
    assert (gaps <= 1e-6).mean() >= share


def test_a_limit_is_used_as_well_as_a_penalty():
    misses = 0
    for seed in range(12):
        problem = replace(stump_problem(seed), lam=0.0, max_learners=1 + seed % 4)
        best = best_of_all_supports(problem)
        solution = LocalSearch().solve(problem)
        check(problem, solution)
        assert solution.objective >= best - 1e-8
        misses += solution.objective > best + 1e-6
    assert misses <= 1


def test_local_search_is_never_worse_than_the_first_k_columns():
    X, y = make_ringnorm(400, seed=3)
    oracle = Stumps().prepare(X, y)
    columns = [c.column for c in oracle.best(np.full(400, 1 / 400), n=25)]
    for limit in (1, 3, 6):
        problem = MasterProblem(np.array(columns), max_learners=limit)
        early = problem.objective(refit(problem, np.arange(limit), tol=1e-9))
        assert LocalSearch().solve(problem).objective <= early + 1e-12


@pytest.mark.parametrize("seed", [20, 41, 78, 156])
def test_columns_that_pay_only_together_are_found(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    A = np.where(rng.random((12, 30)) < 0.62, 1, -1)
    problem = MasterProblem(A, nu=1e-4, lam=0.05)
    search = LocalSearch(n_perturbations=3)
    found = search.solve(problem).objective
    assert found == pytest.approx(BranchAndBound().solve(problem).objective, rel=1e-7)
    monkeypatch.setattr("totalqboost.solvers.local.Descent.oscillate", lambda self, w: w)
    assert search.solve(problem).objective > 1.01 * found  # single moves do not get there


def test_a_warm_start_takes_fewer_evaluations():
    problem = random_problem(0, n=20, m=150, lam=0.005)
    cold = LocalSearch().solve(problem)
    warm = LocalSearch().solve(problem, start=cold.w)
    assert warm.n_evaluations < 0.5 * cold.n_evaluations
    assert warm.objective <= cold.objective


def test_more_perturbations_are_never_worse():
    for seed in range(5):
        problem = correlated_problem(seed, n=12, m=80)
        few, many = (LocalSearch(n_perturbations=n).solve(problem) for n in (0, 20))
        assert many.objective <= few.objective + 1e-12


# -- fixed-point weights -----------------------------------------------------------------


def depth_of(problem, tol):
    continuous = refit(problem, np.arange(problem.n_columns), tol=1e-8)
    return TabuSearch(n_bits="auto", tol=tol)._depth(problem, continuous)[0]


def test_a_smaller_tolerance_asks_for_more_bits():
    problem = random_problem(2, n=8, m=200, nu=1e-4)
    depths = [depth_of(problem, tol) for tol in (1e-1, 1e-3, 1e-5)]
    assert depths == sorted(depths)
    assert 2 <= depths[0] < depths[2] <= MAX_BITS


def test_the_depth_chosen_represents_the_optimum_without_the_penalty():
    problem = random_problem(3, n=6, m=120, nu=1e-4, lam=0.0)
    optimum = problem.objective(refit(problem, np.arange(6), tol=1e-10))
    for tol in (1e-2, 1e-4):
        bits = depth_of(problem, tol)
        # the grid of that depth over the range of the weights holds a point within tol
        largest = 1.6 * refit(problem, np.arange(6), tol=1e-10).max()
        step = largest / (2**bits - 1)
        w = step * np.rint(refit(problem, np.arange(6), tol=1e-10) / step)
        assert problem.objective(w) <= optimum + 2 * tol


@pytest.mark.parametrize("moves", ["levels", "bits"])
@pytest.mark.parametrize("n_bits", [1, 3, MAX_BITS])
def test_every_depth_gives_a_valid_answer(moves, n_bits):
    problem = random_problem(4, n=5, m=40)
    solution = TabuSearch(n_bits=n_bits, moves=moves, max_evaluations=300).solve(problem)
    w = check(problem, solution)
    assert problem.cardinality(w) > 0
    assert solution.objective >= best_of_all_supports(problem) - 1e-9


@pytest.mark.parametrize("tenure", [1, 3, 50])
def test_every_tenure_gives_a_valid_answer(tenure):
    problem = random_problem(4, n=5, m=40)
    w = check(problem, TabuSearch(tenure=tenure, max_evaluations=300).solve(problem))
    assert problem.cardinality(w) > 0


# -- budgets -----------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [1, 5, 30, 250])
@pytest.mark.parametrize(
    "solver",
    [
        LocalSearch(),
        TabuSearch(),
        TabuSearch(moves="bits"),
        TabuSearch(moves="bits", restart="mst2"),
        TabuSearch(moves="bits", restart="mst2", moves_per_start=20),
        TabuSearch(moves="bits", restart="iterated", moves_per_start=20),
        TabuSearch(n_bits="auto"),
        TabuSearch(moves="bits", restart="mst2", discrete=True),
    ],
    ids=["local", "levels", "bits", "mst2", "mst2-short", "short", "auto", "discrete"],
)
@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_the_budget_of_evaluations_is_not_exceeded(solver, budget, loss):
    problem = random_problem(5, n=12, m=80, lam=0.002, loss=loss)
    solution = replace(solver, max_evaluations=budget).solve(problem)
    check(problem, solution)
    assert solution.n_evaluations <= budget


def test_the_choice_of_a_depth_leaves_moves_for_the_search():
    problem = random_problem(6, n=40, m=100, lam=0.002)
    solver = TabuSearch(n_bits="auto", tol=1e-9, max_evaluations=800)
    w = check(problem, solver.solve(problem))
    assert problem.cardinality(w) > 0


def test_a_spent_budget_is_reported():
    problem = random_problem(5, n=12, m=80, lam=0.002)
    assert LocalSearch(max_evaluations=3).solve(problem).status is Status.BUDGET_SPENT
    assert LocalSearch().solve(problem).status is Status.LOCAL_OPTIMUM
    assert TabuSearch().solve(problem).status is Status.BUDGET_SPENT


@every_solver
def test_a_larger_budget_is_never_worse(solver):
    for seed in range(3):
        problem = correlated_problem(seed, n=10)
        values = [
            replace(solver, max_evaluations=budget).solve(problem).objective
            for budget in (40, 1200)
        ]
        assert values[1] <= values[0] + 1e-12


# -- arguments ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"moves": "jumps"}, r"moves must be 'levels' or 'bits', got 'jumps'"),
        ({"restart": "mst3"}, r"restart must be 'mst2' or 'iterated', got 'mst3'"),
        ({"discrete": 1}, r"discrete must be True or False, got 1"),
        ({"n_bits": 0}, r"n_bits must be 'auto' or an integer from 1 to 12, got 0"),
        ({"n_bits": 13}, r"n_bits must be 'auto' or an integer from 1 to 12, got 13"),
        ({"n_bits": 2.5}, r"n_bits must be .* got 2\.5"),
        ({"n_bits": "many"}, r"n_bits must be .* got 'many'"),
        ({"max_evaluations": 0}, r"max_evaluations must be an integer >= 1, got 0"),
        ({"moves_per_start": 10**30}, r"moves_per_start must be at most 10,000,000, got 1000"),
    ],
)
def test_bad_settings_of_tabu_search_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        TabuSearch(**settings)


@pytest.mark.parametrize("restart", ["mst2", "iterated"])
def test_a_tenure_longer_than_the_walk_is_as_long(restart):
    problem = correlated_problem(0)
    walks = dict(restart=restart, max_evaluations=400, moves_per_start=50)
    huge, long = (TabuSearch(tenure=n, **walks).solve(problem) for n in (10**30, 50))
    np.testing.assert_array_equal(huge.w, long.w)


@pytest.mark.parametrize("kind", [LocalSearch, TabuSearch])
def test_settings_cannot_be_changed_afterwards(kind):
    with pytest.raises(FrozenInstanceError):
        kind().max_evaluations = 5


def test_names_lead_to_solvers():
    assert solvers.names() == ["exact", "local", "tabu"]
    assert solvers.get("local") == LocalSearch()
    assert solvers.get("tabu", n_bits=4) == TabuSearch(n_bits=4)
    own = LocalSearch(n_perturbations=3)
    assert solvers.get(own) is own


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"one of \['exact', 'local', 'tabu'\].* got 'annealing'"):
        solvers.get("annealing")


@pytest.mark.parametrize("thing", [3, None, LocalSearch, object()])
def test_what_cannot_solve_is_refused(thing):
    with pytest.raises(TypeError, match=r"solver must be one of \['exact', 'local', 'tabu'\]"):
        solvers.get(thing)


class Plain:
    def solve(self, problem, start, rng):
        return LocalSearch().solve(problem, start, rng)


def test_any_object_that_solves_is_taken_as_it_is():
    solver = solvers.get(Plain())
    assert isinstance(solver, PlainSolver)
    problem = random_problem(0)
    check(problem, solver.solve(problem))
    with pytest.raises(TypeError, match=r"make an object of it, Plain\(\)"):
        solvers.get(Plain)
    with pytest.raises(TypeError, match=r"make an object of it, TabuSearch\(\)"):
        solvers.get(TabuSearch)
    with pytest.raises(TypeError, match=r"make an object of it, BQMSolver\(sampler\)"):
        solvers.get(solvers.BQMSolver)
