"""Algorithm 1: what it adds, keeps, records, and when it stops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from totalqboost import losses
from totalqboost.boosting import BoostingInterrupted, boost, boost_oracle, next_column
from totalqboost.columns import GeneratedColumns
from totalqboost.datasets import make_ringnorm, make_twonorm
from totalqboost.dictionaries import Columns, Stumps, stumps
from totalqboost.dictionaries.stumps import cut_points
from totalqboost.exchange import exchange
from totalqboost.learners import Constant, Stump
from totalqboost.master import MasterProblem
from totalqboost.solving import Solution
from totalqboost.refit import refit
from totalqboost.solvers import LocalSearch, TabuSearch

FAST = LocalSearch(n_perturbations=3, n_warm_perturbations=1)


def run(X, y, lam=0.0, solver=FAST, loss="exponential", dictionary=None, **settings):
    dictionary = Stumps(max_bins=32) if dictionary is None else dictionary
    return boost(X, y, dictionary, solver, losses.get(loss), lam=lam, **settings)


def ring(n_rows=240, n_features=5, seed=0):
    return make_ringnorm(n_rows, seed=seed, n_features=n_features)


def every_column(X, y, with_constants=True, max_bins=65536):
    """Return all columns y h(x) of the dictionary of stumps, and their learners."""
    learners = [
        Stump(f, float(t), polarity)
        for f in range(X.shape[1])
        for t in cut_points(X[:, f], max_bins)
        for polarity in (1, -1)
    ]
    if with_constants:
        learners += [Constant(1), Constant(-1)]
    return learners, np.array([y * h.predict(X) for h in learners])


class OnceOnly:
    """An oracle that notes what it offered and what it was told to leave out."""

    def __init__(self, oracle):
        self.oracle = oracle
        self.calls = []

    def best(self, u, exclude=(), n=1, curvature=None):
        offered = self.oracle.best(u, exclude, n, curvature)
        self.calls.append((set(exclude), [c.learner for c in offered]))
        return offered

    def constants(self):
        return self.oracle.constants()


class EmptyHanded:
    """A solver that keeps nothing."""

    def solve(self, problem, start=None, rng=None):
        w = np.zeros(problem.n_columns)
        return Solution(w, problem.objective(w), n_evaluations=1)


# -- the blacklist (line 7) --------------------------------------------------------------


@pytest.mark.parametrize("free_intercept", [False, True])
def test_rejected_column_is_never_offered_again(free_intercept):
    X, y = ring()
    oracle = OnceOnly(Stumps(max_bins=16).prepare(X, y))
    result = boost_oracle(
        oracle,
        len(y),
        EmptyHanded(),
        losses.get("exponential"),
        lam=0.05,
        max_rounds=12,
        free_intercept=free_intercept,
    )
    rejected = [record.learner for record in result.trace]
    assert len(rejected) == 12
    assert len(set(rejected)) == 12
    assert result.ensemble.n_learners == 0
    for t, (excluded, _) in enumerate(oracle.calls[:12]):
        assert set(rejected[:t]) <= excluded


def test_a_kept_column_is_never_offered_again():
    X, y = ring()
    result = run(X, y, lam=0.002, max_rounds=25)
    learners = [record.learner for record in result.trace]
    assert len(set(learners)) == len(learners)
    assert result.learners == tuple(learners)


def test_equal_columns_under_other_names_are_passed_over():
    rng = np.random.default_rng(0)
    H = rng.choice([-1.0, 1.0], size=(60, 5))
    y = np.where(H[:, :3].sum(axis=1) > 0, 1, -1)
    doubled = H[:, [0, 0, 1, 1, 2, 2, 3, 4, 4]]
    # a solver that keeps nothing leaves every edge as it is, that of the copies too
    for solver, lam in ((EmptyHanded(), 0.05), (FAST, 0.0)):
        result = run(doubled, y, lam=lam, solver=solver, dictionary=Columns(), tol=1e-6)
        columns = {tuple(doubled[:, h.feature]) for h in result.learners}
        assert len(columns) == len(result.learners) >= 3


# -- the exits (line 4) ------------------------------------------------------------------


def test_an_exhausted_dictionary_ends_the_rounds():
    X = np.array([[0.0], [0.0], [1.0], [1.0]])
    y = np.array([-1, 1, 1, 1])
    # two stumps and two constants, and no penalty small enough to satisfy their constraints
    result = run(X, y, lam=10.0, solver=EmptyHanded(), max_rounds=50, tol=0.0, nu=0.0)
    assert result.status == "converged"
    assert len(result.trace) == 2  # the others have negative edges
    result = run(
        np.array([[1.0, -1.0], [1.0, 1.0], [-1.0, -1.0]]),
        np.array([1, 1, -1]),
        lam=10.0,
        solver=EmptyHanded(),
        dictionary=Columns(),
        max_rounds=50,
    )
    assert result.status == "converged"
    assert len(result.trace) == 2  # both columns are in H: nothing is left


@pytest.mark.parametrize("free_intercept", [False, True])
@pytest.mark.parametrize("lam", [0.0, 0.02])
def test_at_convergence_no_column_outside_violates_its_constraint(lam, free_intercept):
    """Equation (9), by brute force over the dictionary."""
    X, y = ring(120, 2)
    nu, tol = 0.01, 0.005
    result = run(
        X,
        y,
        lam=lam,
        nu=nu,
        tol=tol,
        max_rounds=500,
        dictionary=Stumps(max_bins=12),
        free_intercept=free_intercept,
    )
    assert result.status == "converged"
    _, A = every_column(X, y, with_constants=not free_intercept, max_bins=12)
    u = result.problem.dual_weights(result.trace[-1].weights)
    edges = A @ u
    inside = {tuple(row) for row in result.problem.A.tolist()}  # also under other names
    outside = [tuple(row) not in inside for row in A.tolist()]
    assert any(outside)
    assert edges[outside].max() <= nu + tol + 1e-12
    if lam == 0.0:
        assert edges.max() <= nu + tol + 1e-9


def test_the_limit_on_rounds_is_kept():
    X, y = ring()
    result = run(X, y, max_rounds=7)
    assert result.status == "max_rounds"
    assert len(result.trace) == 7
    assert result.problem.n_columns == 7


def test_no_rounds_give_the_empty_ensemble():
    X, y = ring(60)
    result = run(X, y, max_rounds=0)
    assert result.trace == ()
    assert result.ensemble.n_learners == 0
    assert result.solution.objective == pytest.approx(1.0)


def test_no_rounds_with_an_intercept_give_the_log_odds():
    X, y = ring(60)
    y = np.where(np.arange(60) < 45, 1, -1)
    result = run(X, y, max_rounds=0, free_intercept=True)
    assert result.ensemble.intercept == pytest.approx(0.5 * np.log(3), abs=1e-4)


def test_a_large_tolerance_stops_at_once():
    X, y = ring()
    result = run(X, y, tol=2.0)
    assert result.status == "converged"
    assert result.trace == ()


def test_patience_ends_stagnation():
    X, y = ring()
    result = run(X, y, lam=10.0, solver=EmptyHanded(), patience=4, max_rounds=50)
    assert result.status == "patience"
    assert len(result.trace) == 4
    patient = run(X, y, lam=0.02, patience=3, max_rounds=60)
    kept = [frozenset(np.flatnonzero(r.weights > 0).tolist()) for r in patient.trace]
    if patient.status == "patience":
        assert len(set(kept[-4:])) == 1
    for t in range(len(kept) - 4):
        assert len(set(kept[t : t + 4])) > 1  # earlier there was no reason to stop


# -- lam = 0: l1 column generation -------------------------------------------------------


@pytest.mark.parametrize("loss", losses.names())
def test_without_a_penalty_the_whole_dictionary_is_solved(loss):
    """L1CG: at convergence the objective is optimal over all columns, within the tolerance."""
    X, y = ring(80, 2, seed=1)
    nu = 0.02
    result = run(X, y, loss=loss, nu=nu, tol=1e-5, max_rounds=300, dictionary=Stumps(max_bins=8))
    assert result.status == "converged"
    _, A = every_column(X, y, max_bins=8)
    full = MasterProblem(A, nu=nu, loss=loss)
    best = full.objective(refit(full, np.arange(len(A)), tol=1e-8))
    assert result.solution.objective >= best - 1e-7
    # a dual point that violates by tol leaves at most tol * sum of weights
    assert result.solution.objective <= best + 1e-5 * (1 + result.solution.w.sum())


def test_without_a_penalty_the_free_intercept_is_solved_too():
    X, y = ring(80, 2, seed=2)
    result = run(
        X, y, nu=0.02, tol=1e-5, max_rounds=300, free_intercept=True, dictionary=Stumps(max_bins=8)
    )
    assert result.status == "converged"
    _, A = every_column(X, y, max_bins=8)
    full = MasterProblem(A, nu=0.02)
    best = full.objective(refit(full, np.arange(len(A)), tol=1e-8))
    assert result.solution.objective == pytest.approx(best, abs=1e-4)


def test_without_a_penalty_the_solver_is_not_asked():
    class Refuses:
        def solve(self, problem, start=None, rng=None):
            raise AssertionError("line 10 has nothing to do without a penalty")

    X, y = ring()
    assert len(run(X, y, solver=Refuses(), max_rounds=5, n_exchanges=3).trace) == 5


def test_all_intermediate_ensembles_of_ucg_are_available():
    X, y = ring()
    result = run(X, y, nu=1e-8, max_rounds=20)
    staged = result.staged()
    assert len(staged) == len(result.trace) == 20
    for t, (ensemble, record) in enumerate(zip(staged, result.trace, strict=True), start=1):
        assert {*ensemble.learners} <= {*result.learners[:t]}
        f = ensemble.decision_function(X)
        assert np.exp(-y * f).mean() == pytest.approx(record.risk, rel=1e-9)
        assert ensemble.n_learners == record.cardinality
    assert {*staged[-1].learners} == {*result.ensemble.learners}


@pytest.mark.parametrize("free_intercept", [False, True])
@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_the_risk_of_ucg_never_increases(loss, free_intercept):
    X, y = ring()
    result = run(X, y, nu=1e-9, loss=loss, max_rounds=30, free_intercept=free_intercept)
    risks = [record.risk for record in result.trace]
    assert np.diff(risks).max() <= 1e-7
    assert risks[-1] < 0.8 * risks[0]


def test_the_first_column_has_the_largest_edge_under_uniform_weights():
    X, y = ring(100, 3)
    result = run(X, y, max_rounds=1, dictionary=Stumps())
    learners, A = every_column(X, y)
    edges = A @ np.full(100, 1 / 100)
    first = result.trace[0]
    assert first.edge == pytest.approx(edges.max(), abs=1e-12)
    assert edges[learners.index(first.learner)] == pytest.approx(edges.max(), abs=1e-12)


@pytest.mark.parametrize("make", [make_twonorm, make_ringnorm])
@pytest.mark.parametrize("loss", losses.names())
def test_the_first_column_beside_an_intercept_is_nearly_the_best_for_every_loss(loss, make):
    """Exact for the exponential loss, to second order for the others."""
    X, y = make(150, seed=3, n_features=3)
    result = run(
        X, y, loss=loss, max_rounds=1, free_intercept=True, dictionary=Stumps(max_bins=8)
    )  # fmt: skip
    constants = np.array([y, -y])
    _, A = every_column(X, y, with_constants=False, max_bins=8)

    def risk(columns):
        problem = MasterProblem(np.vstack([constants, *columns]), loss=loss)
        return problem.risk(refit(problem, np.arange(problem.n_columns), tol=1e-8))

    nothing, best = risk([]), min(risk([column]) for column in A)
    share = (nothing - result.trace[0].risk) / (nothing - best)
    assert share > (0.999 if loss == "exponential" else 0.8)


# -- the trace ---------------------------------------------------------------------------

TRACED = {
    "ucg": {"lam": 0.0},
    "penalty": {"lam": 0.01},
    "limit": {"lam": 0.0, "max_learners": 3},
    "intercept": {"lam": 0.01, "free_intercept": True},
    "hot start": {"lam": 0.01, "hot_start": 6},
    "logistic": {"lam": 0.003, "loss": "logistic", "free_intercept": True},
    "squared": {"lam": 0.01, "loss": "squared"},
    "smoothed hinge": {"lam": 0.005, "loss": "smoothed_hinge"},
    "tabu": {"lam": 0.01, "solver": TabuSearch(max_evaluations=300)},
}


@pytest.fixture(scope="module", params=TRACED.values(), ids=TRACED)
def traced(request):
    X, y = ring(150, 4, seed=4)
    weight = np.random.default_rng(0).random(150) + 0.5
    settings = {"nu": 1e-3, "tol": 1e-3, "max_rounds": 12, **request.param}
    return X, y, weight, settings, run(X, y, sample_weight=weight, **settings)


def test_records_agree_with_the_weights_they_hold(traced):
    X, y, weight, settings, result = traced
    n_free = 2 if settings.get("free_intercept") else 0
    assert result.trace
    for t, record in enumerate(result.trace, start=1):
        n = n_free + t
        problem = MasterProblem(
            np.array([y * h.predict(X) for h in result.learners[:n]]),
            nu=settings["nu"],
            lam=settings["lam"],
            cost=np.array([0.0] * n_free + [1.0] * t),
            loss=settings.get("loss", "exponential"),
            sample_weight=weight,
        )
        w = record.weights
        assert w.shape == (n,)
        assert (w >= 0).all()
        assert record.learner == result.learners[n - 1]
        assert record.objective == pytest.approx(problem.objective(w), rel=1e-10)
        assert record.risk == pytest.approx(problem.risk(w), rel=1e-10)
        assert record.objective == pytest.approx(record.risk + problem.penalty(w), rel=1e-12)
        assert record.cardinality == problem.cardinality(w)
        u = problem.dual_weights(w)
        assert record.dual_bound == pytest.approx(problem.dual_bound(u), rel=1e-9, abs=1e-12)
        assert record.duality_gap == record.objective - record.dual_bound
        expected = np.count_nonzero(problem.edges(u) > settings["nu"] + settings["tol"])
        assert record.n_violated == expected
        assert record.edge > settings["nu"] + settings["tol"]
        assert record.n_evaluations >= 1
        assert record.seconds >= 0


def test_the_duality_gap_is_at_least_the_price_of_the_columns_kept(traced):
    """Theorem 2."""
    *_, settings, result = traced
    for record in result.trace:
        assert record.duality_gap >= settings["lam"] * record.cardinality - 1e-12
    solution = result.solution
    cardinality = result.problem.cardinality(solution.w)
    assert solution.objective - solution.bound >= settings["lam"] * cardinality - 1e-12


def test_only_a_penalty_keeps_constraints_violated(traced):
    *_, settings, result = traced
    if settings["lam"] == 0.0 and "max_learners" not in settings:
        assert {record.n_violated for record in result.trace} == {0}


def test_the_bound_is_below_the_optimum_over_the_columns(traced):
    *_, result = traced
    l1 = refit(result.problem, np.arange(result.problem.n_columns), tol=1e-9)
    optimum = result.problem.risk(l1) + result.problem.nu * l1.sum()
    for record in result.trace:
        # fewer columns have a higher optimum: each bound is that of its own round
        assert record.dual_bound <= record.risk + result.problem.nu * record.weights.sum() + 1e-12
    assert result.trace[-1].dual_bound <= optimum + 1e-9
    assert result.solution.bound <= optimum + 1e-9
    assert result.solution.bound == pytest.approx(optimum, abs=1e-4)


def test_the_final_solution_is_no_worse_than_the_last_round(traced):
    *_, settings, result = traced
    if settings.get("hot_start", 0) <= len(result.trace):
        assert result.solution.objective <= result.trace[-1].objective + 1e-12
    solution = result.solution
    assert solution.objective == pytest.approx(result.problem.objective(solution.w), rel=1e-12)
    assert result.problem.is_feasible(solution.w)
    assert solution.status == result.status


def test_the_ensemble_holds_the_columns_of_positive_weight(traced):
    X, y, weight, settings, result = traced
    ensemble = result.ensemble
    cost = result.cost
    kept = [
        h for h, x, c in zip(result.learners, result.solution.w, cost, strict=True) if x * c > 0
    ]
    assert {*ensemble.learners} == {*kept}
    assert list(ensemble.weights) == sorted(ensemble.weights, reverse=True)
    z = y * ensemble.decision_function(X)
    loss = losses.get(settings.get("loss", "exponential"))
    risk = (weight / weight.sum()) @ loss.value(z)
    assert risk == pytest.approx(result.problem.risk(result.solution.w), rel=1e-9)


@pytest.mark.parametrize("free_intercept", [False, True])
@pytest.mark.parametrize("lam", [0.003, 0.03])
def test_the_objective_never_increases_from_round_to_round(lam, free_intercept):
    X, y = ring()
    result = run(X, y, lam=lam, max_rounds=25, free_intercept=free_intercept)
    objectives = [record.objective for record in result.trace]
    assert np.diff(objectives).max() <= 1e-12
    assert objectives[-1] < objectives[0]


def test_on_round_sees_every_record_in_order():
    X, y = ring(100)
    seen = []
    result = run(X, y, lam=0.01, max_rounds=6, on_round=lambda *pair: seen.append(pair))
    assert [number for number, _ in seen] == list(range(1, len(result.trace) + 1))
    assert tuple(record for _, record in seen) == result.trace


# -- hot start ---------------------------------------------------------------------------


class Counting:
    """A solver that notes the problems it was given."""

    def __init__(self, solver=FAST):
        self.solver = solver
        self.calls = []

    def solve(self, problem, start=None, rng=None):
        self.calls.append((problem.n_columns, start))
        return self.solver.solve(problem, start, rng)


def test_a_hot_start_generates_its_columns_without_the_penalty():
    X, y = ring()
    plain = run(X, y, max_rounds=8)
    solver = Counting()
    hot = run(X, y, lam=0.08, hot_start=8, max_rounds=12, solver=solver)
    assert [r.learner for r in hot.trace[:8]] == [r.learner for r in plain.trace]
    for cold_record, hot_record in zip(plain.trace[:7], hot.trace[:7], strict=True):
        np.testing.assert_array_equal(hot_record.weights, cold_record.weights)
    # the penalised solve begins with the last of them, from nothing
    assert [n for n, _ in solver.calls] == [8, 9, 10, 11, 12]
    assert solver.calls[0][1] is None
    assert all(start is not None for _, start in solver.calls[1:])
    assert hot.trace[7].cardinality < plain.trace[7].cardinality


def test_a_hot_start_of_zero_or_one_is_none():
    X, y = ring(100)
    ensembles = [run(X, y, lam=0.02, hot_start=t, max_rounds=6).ensemble for t in (0, 1)]
    assert ensembles[0].learners == ensembles[1].learners


@pytest.mark.parametrize("limit", [None, 2])
def test_the_penalty_is_applied_even_if_the_rounds_end_within_the_hot_start(limit):
    X, y = ring()
    solver = Counting()
    result = run(
        X, y, lam=0.08, hot_start=100, max_rounds=10, solver=solver, max_learners=limit
    )  # fmt: skip
    assert [n for n, _ in solver.calls] == [10]
    assert result.ensemble.n_learners < max(record.cardinality for record in result.trace)
    if limit is not None:
        assert result.ensemble.n_learners <= limit


def test_the_penalty_is_applied_if_columns_run_out_within_the_hot_start():
    X, y = ring(80, 1)
    result = run(X, y, lam=0.05, hot_start=400, max_rounds=400, dictionary=Stumps(max_bins=6))
    assert result.status == "converged"
    assert result.ensemble.n_learners < max(record.cardinality for record in result.trace)
    assert result.solution.objective <= result.trace[-1].objective + 1e-12


def test_subset_selection_solves_once():
    """Experiment E: T' = T."""
    X, y = ring()
    solver = Counting()
    run(X, y, lam=0.02, hot_start=10, max_rounds=10, solver=solver)
    assert [n for n, _ in solver.calls] == [10]


def test_a_hot_start_without_a_penalty_changes_nothing():
    X, y = ring(100)
    plain, hot = (run(X, y, hot_start=t, max_rounds=8) for t in (0, 5))
    np.testing.assert_array_equal(plain.solution.w, hot.solution.w)


# -- limits and exchange -----------------------------------------------------------------


@pytest.mark.parametrize("free_intercept", [False, True])
@pytest.mark.parametrize("limit", [0, 1, 4])
@pytest.mark.parametrize("lam", [0.0, 0.01])
def test_the_limit_on_learners_is_never_exceeded(limit, lam, free_intercept):
    X, y = ring()
    result = run(
        X,
        y,
        lam=lam,
        max_learners=limit,
        max_rounds=10,
        n_exchanges=2,
        free_intercept=free_intercept,
    )
    assert result.ensemble.n_learners <= limit
    assert all(record.cardinality <= limit for record in result.trace)
    if lam == 0.0:
        assert result.ensemble.n_learners == limit  # with so few, every one helps


@pytest.mark.parametrize("free_intercept", [False, True])
@pytest.mark.parametrize("settings", [{"lam": 0.01}, {"max_learners": 4}], ids=["lam", "limit"])
def test_exchange_never_increases_the_objective(free_intercept, settings):
    for make in (make_ringnorm, make_twonorm):
        X, y = make(200, seed=5, n_features=6)
        settings = {"max_rounds": 12, "free_intercept": free_intercept, **settings}
        paper = run(X, y, **settings)
        after = run(X, y, n_exchanges=10, **settings)
        assert after.solution.objective <= paper.solution.objective + 1e-12
        assert [r.learner for r in after.trace] == [r.learner for r in paper.trace]


def exchanging(seed, **settings):
    """Run few rounds and many exchanges, on data where the first columns are not the best."""
    X, y = ring(300, 8, seed=seed)
    return run(X, y, max_learners=5, max_rounds=6, dictionary=Stumps(), **settings)


def test_exchange_brings_in_columns_that_the_rounds_did_not_generate():
    gains = []
    for seed in range(4):
        sweeps = []
        paper = exchanging(seed)
        after = exchanging(seed, n_exchanges=10, on_sweep=lambda *s, seen=sweeps: seen.append(s))
        gains.append(paper.solution.objective - after.solution.objective)
        n_exchanged = sum(n for _, n, _ in sweeps)
        assert after.generated == paper.learners
        assert len(set(after.learners)) == len(after.learners) == len(paper.learners)
        assert (set(after.learners) != set(paper.learners)) == (n_exchanged > 0)
        before, staged = paper.staged(), after.staged()  # exchanges leave the rounds as they were
        assert [e.learners for e in staged] == [e.learners for e in before]
        assert [number for number, _, _ in sweeps] == list(range(1, len(sweeps) + 1))
        objectives = [objective for _, _, objective in sweeps]
        assert objectives == sorted(objectives, reverse=True)
    assert max(gains) > 1e-3


def test_exchange_stops_when_nothing_is_better():
    X, y = ring(150, 3)
    dictionary = Stumps(max_bins=6)
    oracle = dictionary.prepare(X, y)
    result = boost_oracle(
        oracle, 150, FAST, losses.get("exponential"), max_learners=3, max_rounds=60, n_exchanges=20
    )
    H = GeneratedColumns(150, 200, losses.get("exponential"), 1e-6, 0.0, 3)
    w = []
    for learner, weight in zip(result.ensemble.learners, result.ensemble.weights, strict=True):
        column = y * learner.predict(X)
        candidate = replace(oracle.constants()[0], learner=learner, column=column)
        H.add(candidate)
        w.append(weight)
    sweeps = list(exchange(H, np.array(w), oracle, FAST, np.random.default_rng(0), 5, False))
    after = sweeps[-1][0]
    assert H.problem().objective(after) <= result.solution.objective + 1e-9
    assert sweeps[-1][1] == 0
    assert len(sweeps) < 5
    # what was tried and not taken leaves no trace
    assert len(H) == len(after) == H.problem().n_columns


# -- interruption ------------------------------------------------------------------------


def interrupt_at(round_number):
    def on_round(number, record):
        if number == round_number:
            raise KeyboardInterrupt

    return on_round


@pytest.mark.parametrize("free_intercept", [False, True])
@pytest.mark.parametrize("settings", [{}, {"lam": 0.01}, {"lam": 0.01, "hot_start": 10}], ids=str)
def test_an_interrupted_run_keeps_the_rounds_done(settings, free_intercept):
    X, y = ring()
    settings = {"free_intercept": free_intercept, **settings}
    with pytest.raises(BoostingInterrupted, match="interrupted after 4 rounds") as caught:
        run(X, y, max_rounds=20, on_round=interrupt_at(4), **settings)
    result = caught.value.result
    assert result.status == result.solution.status == "interrupted"
    assert len(result.trace) == 4
    whole = run(X, y, max_rounds=4, **settings)
    assert [r.learner for r in result.trace] == [r.learner for r in whole.trace]
    assert result.solution.objective == pytest.approx(whole.solution.objective, abs=1e-9)
    assert result.ensemble.n_learners >= 1
    assert result.problem.is_feasible(result.solution.w)
    assert np.isfinite(result.ensemble.decision_function(X)).all()


def test_an_interrupted_solver_loses_only_its_round():
    class Interrupted(Counting):
        def solve(self, problem, start=None, rng=None):
            if len(self.calls) == 3:
                raise KeyboardInterrupt
            return super().solve(problem, start, rng)

    X, y = ring()
    with pytest.raises(BoostingInterrupted) as caught:
        run(X, y, lam=0.01, max_rounds=20, solver=Interrupted())
    result = caught.value.result
    assert len(result.trace) == 3
    assert result.solution.objective <= result.trace[-1].objective + 1e-12
    assert result.ensemble.n_learners >= 1


def test_a_solver_that_says_interrupted_ends_the_run_with_its_answer():
    class Interrupted(Counting):
        def solve(self, problem, start=None, rng=None):
            solution = super().solve(problem, start, rng)
            return replace(solution, status="interrupted" if len(self.calls) == 3 else "")

    X, y = ring()
    with pytest.raises(BoostingInterrupted) as caught:
        run(X, y, lam=0.01, max_rounds=20, solver=Interrupted())
    assert len(caught.value.result.trace) == 3
    assert caught.value.result.status == "interrupted"


def test_an_interrupted_oracle_loses_nothing():
    class Interrupted(OnceOnly):
        def best(self, u, exclude=(), n=1, curvature=None):
            if len(self.calls) == 5:
                raise KeyboardInterrupt
            return super().best(u, exclude, n, curvature)

    X, y = ring()
    oracle = Interrupted(Stumps().prepare(X, y))
    with pytest.raises(BoostingInterrupted) as caught:
        boost_oracle(oracle, len(y), FAST, losses.get("exponential"), max_rounds=20)
    assert len(caught.value.result.trace) == 5
    assert caught.value.result.ensemble.n_learners == 5


@pytest.mark.parametrize("seed", range(3))
def test_an_interrupted_exchange_keeps_a_usable_result(seed):
    def interrupt(sweep, n_exchanged, objective):
        raise KeyboardInterrupt

    with pytest.raises(BoostingInterrupted) as caught:
        exchanging(seed, n_exchanges=10, on_sweep=interrupt)
    result = caught.value.result
    assert len(result.trace) == 6
    assert result.ensemble.n_learners <= 5
    assert result.solution.objective <= result.trace[-1].objective + 1e-12
    assert len(result.solution.w) == len(result.learners) == result.problem.n_columns


def test_an_interrupted_exchange_keeps_the_exchanges_done():
    gains = []
    for seed in range(4):
        objectives = []

        def interrupt(sweep, n_exchanged, objective, seen=objectives):
            seen.append(objective)
            if sweep == 2:
                raise KeyboardInterrupt

        try:
            result = exchanging(seed, n_exchanges=10, on_sweep=interrupt)
        except BoostingInterrupted as interruption:
            result = interruption.result
            gains.append(result.trace[-1].objective - objectives[0])
        assert result.solution.objective <= objectives[0] + 1e-9
    assert max(gains) > 1e-3


def test_an_interruption_before_the_first_round_gives_the_empty_ensemble():
    class Interrupted(OnceOnly):
        def best(self, u, exclude=(), n=1, curvature=None):
            raise KeyboardInterrupt

    X, y = ring(60)
    with pytest.raises(BoostingInterrupted) as caught:
        boost_oracle(Interrupted(Stumps().prepare(X, y)), 60, FAST, losses.get("exponential"))
    assert caught.value.result.ensemble.n_learners == 0


def test_an_interruption_is_a_keyboard_interrupt():
    assert issubclass(BoostingInterrupted, KeyboardInterrupt)


# -- repeatability -----------------------------------------------------------------------


@pytest.mark.parametrize("solver", [FAST, TabuSearch(max_evaluations=200)], ids=["local", "tabu"])
def test_same_seed_same_result(solver):
    X, y = ring(150, 4)
    results = [
        run(
            X,
            y,
            lam=0.005,
            solver=solver,
            max_rounds=8,
            n_exchanges=2,
            rng=np.random.default_rng(7),
        )
        for _ in range(2)
    ]
    assert results[0].learners == results[1].learners
    np.testing.assert_array_equal(results[0].solution.w, results[1].solution.w)


@pytest.mark.parametrize("free_intercept", [False, True])
def test_threads_do_not_change_the_result(monkeypatch, free_intercept):
    monkeypatch.setattr(stumps, "PARALLEL_FROM", 0)
    X, y = ring(150, 4)
    X = np.hstack([X, X])  # ties between copies
    first, second = (
        run(X, y, lam=0.005, max_rounds=8, n_exchanges=2, n_jobs=n, free_intercept=free_intercept)
        for n in (1, 2)
    )
    assert first.learners == second.learners
    np.testing.assert_array_equal(first.solution.w, second.solution.w)
    assert all(h.feature < 4 for h in first.learners if isinstance(h, Stump))


def test_the_order_of_rows_does_not_change_the_objective():
    X, y = ring(150, 4)
    order = np.random.default_rng(0).permutation(150)
    first, second = (run(X[i], y[i], lam=0.01, max_rounds=8) for i in (np.arange(150), order))
    assert first.solution.objective == pytest.approx(second.solution.objective, abs=1e-8)


def test_sample_weights_count_like_repeated_rows():
    X, y = ring(100, 3)
    weight = np.random.default_rng(1).integers(1, 4, size=100)
    repeated = run(
        np.repeat(X, weight, axis=0),
        np.repeat(y, weight),
        lam=0.01,
        max_rounds=6,
        dictionary=Stumps(),
    )
    weighted = run(
        X, y, lam=0.01, max_rounds=6, sample_weight=weight.astype(float), dictionary=Stumps()
    )
    assert weighted.ensemble.learners == repeated.ensemble.learners
    np.testing.assert_allclose(weighted.ensemble.weights, repeated.ensemble.weights, rtol=1e-6)


def test_the_scale_of_sample_weights_does_not_matter():
    X, y = ring(100, 3)
    results = [
        run(X, y, lam=0.01, max_rounds=6, sample_weight=np.full(100, scale))
        for scale in (1.0, 1e-6, 1e6)
    ]
    for other in results[1:]:
        assert other.learners == results[0].learners
        np.testing.assert_allclose(other.solution.w, results[0].solution.w, rtol=1e-6, atol=1e-9)


# -- the columns H -----------------------------------------------------------------------


def test_generated_columns_grow_beyond_their_first_capacity():
    X, y = ring(50, 3)
    H = GeneratedColumns(50, 2, losses.get("exponential"), 1e-6, 0.0)
    offered = Stumps().prepare(X, y).best(np.full(50, 0.02), n=9)
    for candidate in offered:
        H.add(candidate)
    assert len(H) == 9
    np.testing.assert_array_equal(H.problem().A, [c.column for c in offered])
    assert H.blacklist == {c.learner for c in offered}


def test_a_withdrawn_column_may_come_again():
    X, y = ring(50, 3)
    first, second = Stumps().prepare(X, y).best(np.full(50, 0.02), n=2)
    H = GeneratedColumns(50, 10, losses.get("exponential"), 1e-6, 0.0)
    H.add(first)
    H.add(second)
    assert not H.is_new(second.column)
    H.withdraw()
    assert H.is_new(second.column)
    assert H.blacklist == {first.learner}
    np.testing.assert_array_equal(H.problem().A, [first.column])


def test_next_column_respects_the_tolerance_of_its_constraint():
    X, y = ring(100, 3)
    oracle = Stumps().prepare(X, y)
    H = GeneratedColumns(100, 10, losses.get("exponential"), 0.01, 0.0)
    problem = H.problem()
    best = oracle.best(np.full(100, 0.01))[0]
    w = np.zeros(0)
    found = next_column(oracle, problem, w, H, best.edge - 0.01 - 1e-9, False)
    assert found.learner == best.learner
    assert next_column(oracle, problem, w, H, best.edge - 0.01 + 1e-9, False) is None


# -- found in review ---------------------------------------------------------------------


class StopsAtOnce(LocalSearch):
    """A solver that is interrupted whenever it is called."""

    def solve(self, problem, start=None, rng=None):
        raise KeyboardInterrupt


@pytest.mark.parametrize("hot_start", [5, 10])
def test_an_interrupted_first_solve_keeps_within_the_limit(hot_start):
    X, y = ring(120)
    oracle = Stumps().prepare(X, y)
    with pytest.raises(BoostingInterrupted) as caught:
        boost_oracle(
            oracle,
            120,
            StopsAtOnce(),
            losses.get("exponential"),
            hot_start=hot_start,
            max_learners=3,
        )
    assert 1 <= caught.value.result.ensemble.n_learners <= 3


@pytest.mark.parametrize("call", range(2, 12))
def test_an_interruption_while_a_column_is_added_loses_nothing(call, monkeypatch):
    from totalqboost import columns

    calls = []
    fingerprint = columns._fingerprint

    def interrupted(column):
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return fingerprint(column)

    monkeypatch.setattr(columns, "_fingerprint", interrupted)
    X, y = ring(120)
    with pytest.raises(BoostingInterrupted) as caught:
        boost_oracle(Stumps().prepare(X, y), 120, FAST, losses.get("exponential"), lam=0.01)
    result = caught.value.result
    assert len(result.solution.w) == len(result.learners) == result.problem.n_columns


class InterruptedOracle:
    """An oracle that is interrupted at its n-th call."""

    def __init__(self, oracle, n):
        self.oracle, self.n = oracle, n

    def best(self, *args, **options):
        self.n -= 1
        if self.n == 0:
            raise KeyboardInterrupt
        return self.oracle.best(*args, **options)


def test_an_interruption_within_a_sweep_keeps_weights_and_columns_together():
    X, y = ring(300, 4)
    n_kept = 0
    for n in range(8, 24):
        oracle = InterruptedOracle(Stumps().prepare(X, y), n)
        try:
            result = boost_oracle(
                oracle,
                300,
                FAST,
                losses.get("exponential"),
                max_learners=5,
                max_rounds=6,
                n_exchanges=20,
            )
        except BoostingInterrupted as interruption:
            result = interruption.result
            n_kept += 1
        scores = result.ensemble.decision_function(X)
        assert np.exp(-y * scores).mean() == pytest.approx(
            result.problem.risk(result.solution.w), rel=1e-9
        )
        assert result.solution.objective <= result.trace[-1].objective + 1e-9
    assert n_kept > 3


def test_a_hot_start_that_converges_goes_on_with_the_penalty():
    X, y = make_twonorm(200, seed=1, n_features=2)
    oracle = Stumps(max_bins=6).prepare(X, y)
    loss = losses.get("exponential")
    result = boost_oracle(oracle, 200, FAST, loss, lam=0.05, hot_start=60, max_rounds=60)
    u = result.problem.dual_weights(result.solution.w)
    left = oracle.best(u, set(result.learners))
    assert result.status != "converged" or not left or left[0].edge <= 1e-6 + 5e-4


class TooMany:
    def solve(self, problem, start=None, rng=None):
        return Solution(np.ones(problem.n_columns), 0.0)


class NotNumbers:
    def solve(self, problem, start=None, rng=None):
        return Solution(np.full(problem.n_columns, np.nan), 0.0)


@pytest.mark.parametrize("solver", [TooMany(), NotNumbers()])
def test_weights_that_cannot_be_used_are_an_error_of_the_solver(solver):
    X, y = ring(60)
    oracle = Stumps().prepare(X, y)
    with pytest.raises(ValueError, match=rf"{type(solver).__name__}.solve must return"):
        boost_oracle(oracle, 60, solver, losses.get("exponential"), max_learners=1)
