"""Algorithm 1: what it adds, keeps, records, and when it stops."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from boosting_runs import (
    FAST,
    Counting,
    EmptyHanded,
    InterruptedOracle,
    Refuses,
    Watched,
    every_column,
    ring,
    run,
    weights_over,
)
from sklearn.base import clone

from totalqboost import TotalQBoostClassifier, datasets, losses
from totalqboost.boosting import columns
from totalqboost.boosting.bounds import L1Bounds
from totalqboost.datasets import make_ringnorm, make_twonorm
from totalqboost.dictionaries import Columns, Stumps, stumps
from totalqboost.learners import Stump
from totalqboost.master import MasterProblem
from totalqboost.refit import refit
from totalqboost.solvers import LocalSearch, TabuSearch
from totalqboost.solving import Interrupted, MasterSolver, Solution, SolverError, Status

# -- the blacklist (line 7) --------------------------------------------------------------


@pytest.mark.parametrize("free_intercept", [False, True])
def test_rejected_column_is_never_offered_again(free_intercept):
    X, y = ring()
    oracle = Watched(Stumps(max_bins=16).prepare(X, y))
    result = run(
        X,
        y,
        lam=0.05,
        oracle=oracle,
        solver=EmptyHanded(),
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
        values = {tuple(doubled[:, h.feature]) for h in result.learners}
        assert len(values) == len(result.learners) >= 3


# -- the exits (line 4) ------------------------------------------------------------------


def test_an_exhausted_dictionary_ends_the_rounds():
    X = np.array([[0.0], [0.0], [1.0], [1.0]])
    y = np.array([-1, 1, 1, 1])
    # two stumps and two constants, and no penalty small enough to satisfy their constraints
    result = run(X, y, lam=10.0, solver=EmptyHanded(), max_rounds=50, tol=0.0, nu=0.0)
    assert result.status is Status.CONVERGED
    assert len(result.trace) == 2  # the others have negative edges
    result = run(
        np.array([[1.0, -1.0], [1.0, 1.0], [-1.0, -1.0]]),
        np.array([1, 1, -1]),
        lam=10.0,
        solver=EmptyHanded(),
        dictionary=Columns(),
        max_rounds=50,
    )
    assert result.status is Status.CONVERGED
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
    assert result.status is Status.CONVERGED
    _, A = every_column(X, y, with_constants=not free_intercept, max_bins=12)
    w = weights_over(result.learners, result.trace[-1].ensemble)
    edges = A @ result.problem.dual_weights(w)
    inside = {tuple(row) for row in result.problem.A.tolist()}  # also under other names
    outside = [tuple(row) not in inside for row in A.tolist()]
    assert any(outside)
    assert edges[outside].max() <= nu + tol + 1e-12
    if lam == 0.0:
        assert edges.max() <= nu + tol + 1e-9


@pytest.mark.parametrize("free_intercept", [False, True])
@pytest.mark.parametrize("lam", [0.002, 0.05, 10.0])
def test_a_penalty_goes_on_until_every_column_was_seen(lam, free_intercept):
    """With lam > 0 the paper abandons eq. (9): line 4 is left with the empty dictionary."""
    X, y = ring(120, 2)
    settings = dict(
        lam=lam, max_rounds=500, dictionary=Stumps(max_bins=8), free_intercept=free_intercept
    )
    _, A = every_column(X, y, max_bins=8)  # the constants are columns, or free
    result = run(X, y, exhaust=True, **settings)
    assert result.status is Status.CONVERGED
    assert {tuple(row) for row in result.problem.A.tolist()} == {tuple(row) for row in A.tolist()}
    early = run(X, y, **settings)
    assert early.status is Status.CONVERGED
    assert len(early.trace) < len(result.trace)


def test_unseen_columns_that_violate_nothing_can_lower_the_objective():
    X, y = datasets.load("flare solar")
    settings = dict(lam=0.001, dictionary=Stumps(), solver=LocalSearch(), tol=5e-4 / len(y))
    early, whole = (run(X, y, exhaust=exhaust, **settings) for exhaust in (False, True))
    assert early.status is whole.status is Status.CONVERGED
    assert whole.solution.objective < early.solution.objective - 1e-4


def test_a_limit_on_learners_goes_on_like_a_price():
    X, y = ring(80, 1)
    _, A = every_column(X, y, max_bins=6)
    result = run(X, y, max_learners=2, exhaust=True, dictionary=Stumps(max_bins=6))
    assert len(result.trace) == len({tuple(row) for row in A.tolist()})
    assert result.ensemble.n_learners <= 2


def test_without_a_penalty_eq_9_ends_the_rounds_in_any_case():
    X, y = ring(120, 2)
    one, other = (
        run(X, y, nu=0.01, dictionary=Stumps(max_bins=8), exhaust=exhaust)
        for exhaust in (False, True)
    )
    assert one.status is other.status is Status.CONVERGED
    assert one.learners == other.learners
    np.testing.assert_array_equal(one.solution.w, other.solution.w)


def test_an_unfinished_dictionary_ends_at_the_limit_on_rounds():
    X, y = ring()
    result = run(X, y, lam=0.05, max_rounds=9, exhaust=True)
    assert result.status is Status.MAX_ROUNDS
    assert len(result.trace) == 9


def test_the_limit_on_rounds_is_kept():
    X, y = ring()
    result = run(X, y, max_rounds=7)
    assert result.status is Status.MAX_ROUNDS
    assert len(result.trace) == 7
    assert result.problem.n_columns == 7


def test_no_rounds_give_the_empty_ensemble():
    X, y = ring(60)
    result = run(X, y, max_rounds=0)
    assert result.trace == ()
    assert result.ensemble.n_learners == 0
    assert result.solution.objective == pytest.approx(1.0)


@pytest.mark.parametrize("nu", [1e-6, 0.3])
def test_no_rounds_with_an_intercept_give_the_log_odds(nu):
    X, y = ring(60)
    y = np.where(np.arange(60) < 45, 1, -1)
    result = run(X, y, max_rounds=0, nu=nu, free_intercept=True)
    assert result.ensemble.intercept == pytest.approx(0.5 * np.log(3), abs=1e-4)


def test_a_free_intercept_pays_no_nu_where_no_column_is_worth_its_own():
    X, y = ring(60)
    y = np.where(np.arange(60) < 45, 1, -1)
    result = run(X, y, nu=0.6, free_intercept=True)
    assert result.status is Status.CONVERGED
    assert result.ensemble.n_learners == 0
    assert result.ensemble.intercept == pytest.approx(0.5 * np.log(3), abs=1e-4)
    assert result.solution.gap < 1e-6  # and the bound knows it


def test_a_large_tolerance_stops_at_once():
    X, y = ring()
    result = run(X, y, tol=2.0)
    assert result.status is Status.CONVERGED
    assert result.trace == ()


def test_patience_ends_stagnation():
    X, y = ring()
    result = run(X, y, lam=10.0, solver=EmptyHanded(), patience=4, max_rounds=50)
    assert result.status is Status.PATIENCE
    assert len(result.trace) == 4
    patient = run(X, y, lam=0.02, patience=3, max_rounds=60)
    kept = [frozenset(record.ensemble.learners) for record in patient.trace]
    if patient.status is Status.PATIENCE:
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
    assert result.status is Status.CONVERGED
    _, A = every_column(X, y, max_bins=8)
    full = MasterProblem(A, nu=nu, loss=loss)
    best = full.objective(refit(full, np.arange(len(A)), tol=1e-8))
    assert result.solution.objective >= best - 1e-7
    # a dual point that violates by tol leaves at most tol * sum of weights
    assert result.solution.objective <= best + 1e-5 * (1 + result.solution.w.sum())


@pytest.mark.parametrize("nu", [1e-3, 0.02])
def test_without_a_penalty_the_free_intercept_is_solved_too(nu):
    X, y = ring(80, 2, seed=2)
    result = run(
        X, y, nu=nu, tol=1e-5, max_rounds=300, free_intercept=True, dictionary=Stumps(max_bins=8)
    )
    assert result.status is Status.CONVERGED
    _, A = every_column(X, y, max_bins=8)
    full = MasterProblem(A, nu=nu, cost=[*[1.0] * (len(A) - 2), 0.0, 0.0])  # constants are last
    best = full.objective(refit(full, np.arange(len(A)), tol=1e-8))
    assert result.solution.objective == pytest.approx(best, abs=1e-4)


def test_without_a_penalty_the_solver_is_not_asked():
    X, y = ring()
    assert len(run(X, y, solver=Refuses(), max_rounds=5).trace) == 5


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

    def risk(extra):
        problem = MasterProblem(np.vstack([constants, *extra]), loss=loss)
        return problem.risk(refit(problem, np.arange(problem.n_columns), tol=1e-8))

    nothing, best = risk([]), min(risk([column]) for column in A)
    share = (nothing - result.trace[0].risk) / (nothing - best)
    assert share > (0.999 if loss == "exponential" else 0.8)


# -- the trace ---------------------------------------------------------------------------

TRACED = {
    "ucg": {"lam": 0.0},
    "ucg, intercept": {"lam": 0.0, "nu": 0.01, "free_intercept": True},
    "penalty": {"lam": 0.01},
    "limit": {"lam": 0.0, "max_learners": 3},
    "intercept": {"lam": 0.01, "free_intercept": True},
    "plain rounds": {"lam": 0.01, "plain_rounds": 6},
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


def test_records_agree_with_the_ensembles_they_hold(traced):
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
        w = weights_over(result.learners[:n], record.ensemble)
        assert (w >= 0).all()
        assert record.number == t
        assert record.learner == result.learners[n - 1]
        assert record.objective == pytest.approx(problem.objective(w), rel=1e-8)
        assert record.risk == pytest.approx(problem.risk(w), rel=1e-10)
        assert record.cardinality == record.ensemble.n_learners == problem.cardinality(w)
        u = problem.dual_weights(w)
        l1 = refit(problem, np.arange(n), tol=1e-10)
        optimum = problem.risk(l1) + problem.nus @ l1
        assert record.dual_bound == pytest.approx(optimum, abs=2e-5)  # weights of 1e-6 cost little
        assert record.dual_bound <= optimum + 1e-12
        assert record.duality_gap == record.objective - record.dual_bound
        expected = np.count_nonzero(problem.edges(u) > problem.nus + settings["tol"])
        assert record.n_violated == expected
        assert record.edge > settings["nu"] + settings["tol"]
        assert record.n_evaluations >= 1
        is_plain = t < settings.get("plain_rounds", 0) or not (
            settings["lam"] or settings.get("max_learners")
        )
        assert (record.status is None) == is_plain
        assert record.seconds >= 0


def test_the_duality_gap_is_at_least_the_price_of_the_columns_kept(traced):
    """Theorem 2."""
    *_, settings, result = traced
    for record in result.trace:
        assert record.duality_gap >= settings["lam"] * record.cardinality - 1e-12
    solution = result.solution
    cardinality = result.problem.cardinality(solution.w)
    assert solution.objective - solution.bound >= settings["lam"] * cardinality - 1e-12


def test_the_duality_gap_is_the_price_where_the_penalty_changes_nothing():
    """The equality of Theorem 2: with a price so small the l1 optimum keeps all its columns."""
    X, y = datasets.load("heart")
    settings = dict(l1_penalty=1e-3, exchange=False, max_rounds=8, solver="exact", tol=1e-9)
    for lam in (0.0, 1e-7):
        for record in TotalQBoostClassifier(lam, **settings).fit(X, y).trace_:
            assert record.duality_gap == pytest.approx(lam * record.cardinality, abs=1e-8)


@pytest.mark.parametrize("name", ["twonorm", "ringnorm"])
def test_the_duality_gap_vanishes_without_a_price_however_small_the_l1_penalty(name):
    """Violations of 1e-8 are a hundredth of nu; the gap of a round was up to 5e-4."""
    X, y = datasets.load(name)
    clf = TotalQBoostClassifier.paper_form(cardinality_penalty=0.0, max_rounds=10).fit(X, y)
    assert max(record.duality_gap for record in clf.trace_) < 1e-7


@pytest.mark.parametrize("name", ["heart", "thyroid", "flare solar"])
def test_without_a_price_the_duality_gap_is_what_the_tolerance_of_refits_leaves(name):
    """By convexity: each unit of weight, ours and the optimum's, may be off by tol."""
    X, y = datasets.load(name)
    form = TotalQBoostClassifier.paper_form(cardinality_penalty=0.0)
    for tol in (5e-4, 5e-4 / len(y), 1e-10):
        clf = clone(form).set_params(tol=tol).fit(X, y)
        for record in clf.trace_:
            w = record.weights
            l1 = refit(
                record.bounds.problem.columns(slice(len(w))), np.arange(len(w)), w, tol=1e-10
            )
            assert -1e-12 <= record.duality_gap <= tol * (w.sum() + l1.sum()) + 1e-6


@pytest.mark.parametrize("l1_penalty", [1e-9, 1e-8])
def test_the_bound_of_rounds_survives_a_tiny_l1_penalty_beside_a_free_intercept(l1_penalty):
    """What moves some edges inside the dual moves others out; once was not enough."""
    X, y = datasets.load("flare solar")
    form = dict(loss="exponential", l1_penalty=l1_penalty, exchange=False, tol=1e-9)
    clf = TotalQBoostClassifier(0, max_rounds=12, **form).fit(X, y)
    assert max(record.duality_gap for record in clf.trace_) < 1e-5


def test_a_fit_computes_no_bounds_of_rounds_until_somebody_asks(monkeypatch):
    asked = []
    near = L1Bounds.near
    monkeypatch.setattr(L1Bounds, "near", lambda *args: asked.append(args) or near(*args))
    X, y = datasets.load("heart")
    clf = TotalQBoostClassifier(0.01, exchange=False, max_rounds=4).fit(X, y)
    assert not asked
    bounds = [record.dual_bound for record in clf.trace_]
    assert bounds == [record.dual_bound for record in clf.trace_]
    assert len(asked) == len(clf.trace_) == 4  # once each


def test_bounds_of_rounds_do_not_depend_on_when_they_are_asked_for():
    X, y = datasets.load("heart")
    clf = TotalQBoostClassifier(0.01, exchange=False, max_rounds=20)
    on_the_way = []
    clf.fit(X, y, on_event=lambda record: on_the_way.append(record.dual_bound))
    backwards = [record.dual_bound for record in reversed(clone(clf).fit(X, y).trace_)]
    assert backwards[::-1] == on_the_way
    assert clone(clf).fit(X, y).solution_.bound == clf.solution_.bound


def test_saved_rounds_have_their_bounds_and_no_columns():
    X, y = datasets.load("twonorm")
    clf = TotalQBoostClassifier(0.001, exchange=False, max_rounds=5).fit(X, y)
    saved = pickle.dumps(clf)
    assert len(saved) < 5 * len(y)  # a byte for each row and column
    loaded = pickle.loads(saved)
    assert [r.dual_bound for r in loaded.trace_] == [r.dual_bound for r in clf.trace_]
    again = pickle.loads(pickle.dumps(loaded))
    assert [r.duality_gap for r in again.trace_] == [r.duality_gap for r in clf.trace_]
    assert replace(loaded.trace_[-1], number=1).dual_bound == clf.trace_[-1].dual_bound


def test_only_a_penalty_keeps_constraints_violated(traced):
    *_, settings, result = traced
    if settings["lam"] == 0.0 and "max_learners" not in settings:
        assert {record.n_violated for record in result.trace} == {0}


def test_the_bound_is_below_the_optimum_over_the_columns(traced):
    *_, settings, result = traced
    l1 = refit(result.problem, np.arange(result.problem.n_columns), tol=1e-9)
    optimum = result.problem.risk(l1) + result.problem.nus @ l1
    for record in result.trace:
        # fewer columns have a higher optimum: each bound is that of its own round
        price = settings["lam"] * record.cardinality
        assert record.dual_bound <= record.objective - price + 1e-12
    assert result.trace[-1].dual_bound <= optimum + 1e-9
    assert result.solution.bound <= optimum + 1e-9
    assert result.solution.bound == pytest.approx(optimum, abs=1e-4)


def test_the_final_solution_is_no_worse_than_the_last_round(traced):
    *_, settings, result = traced
    if settings.get("plain_rounds", 0) <= len(result.trace):
        assert result.solution.objective <= result.trace[-1].objective + 1e-12
    solution = result.solution
    assert solution.objective == pytest.approx(result.problem.objective(solution.w), rel=1e-12)
    assert result.problem.is_feasible(solution.w)
    assert solution.status is result.status


def test_the_ensemble_holds_the_columns_of_positive_weight(traced):
    X, y, weight, settings, result = traced
    ensemble = result.ensemble
    cost = result.problem.cost
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


def test_on_event_sees_every_round_in_order():
    X, y = ring(100)
    seen = []
    result = run(X, y, lam=0.01, max_rounds=6, on_event=seen.append)
    assert [record.number for record in seen] == list(range(1, len(result.trace) + 1))
    assert tuple(seen) == result.trace


# -- plain rounds first ------------------------------------------------------------------


def test_plain_rounds_generate_their_columns_without_the_penalty():
    X, y = ring()
    plain = run(X, y, max_rounds=8)
    solver = Counting()
    mixed = run(X, y, lam=0.08, plain_rounds=8, max_rounds=12, solver=solver)
    assert [r.learner for r in mixed.trace[:8]] == [r.learner for r in plain.trace]
    for one, other in zip(plain.trace[:7], mixed.trace[:7], strict=True):
        assert one.ensemble == other.ensemble
    # the penalised solve begins with the last of them, from nothing
    assert [n for n, _ in solver.calls] == [8, 9, 10, 11, 12]
    assert solver.calls[0][1] is None
    assert all(start is not None for _, start in solver.calls[1:])
    assert mixed.trace[7].cardinality < plain.trace[7].cardinality


def test_one_plain_round_is_none():
    X, y = ring(100)
    ensembles = [run(X, y, lam=0.02, plain_rounds=t, max_rounds=6).ensemble for t in (0, 1)]
    assert ensembles[0].learners == ensembles[1].learners


@pytest.mark.parametrize("limit", [None, 2])
def test_the_penalty_is_applied_even_if_all_rounds_are_plain(limit):
    X, y = ring()
    solver = Counting()
    result = run(
        X, y, lam=0.08, plain_rounds=100, max_rounds=10, solver=solver, max_learners=limit
    )  # fmt: skip
    assert [n for n, _ in solver.calls] == [10]
    assert result.ensemble.n_learners < max(record.cardinality for record in result.trace)
    if limit is not None:
        assert result.ensemble.n_learners <= limit


def test_the_penalty_is_applied_if_columns_run_out_within_the_plain_rounds():
    X, y = ring(80, 1)
    result = run(X, y, lam=0.05, plain_rounds=400, max_rounds=400, dictionary=Stumps(max_bins=6))
    assert result.status is Status.CONVERGED
    assert result.ensemble.n_learners < max(record.cardinality for record in result.trace)
    assert result.solution.objective <= result.trace[-1].objective + 1e-12


def test_plain_rounds_that_converge_are_followed_by_rounds_with_the_penalty():
    X, y = make_twonorm(200, seed=1, n_features=2)
    oracle = Stumps(max_bins=6).prepare(X, y)
    result = run(X, y, lam=0.05, oracle=oracle, plain_rounds=60, max_rounds=60)
    u = result.problem.dual_weights(result.solution.w)
    left = oracle.best(u, set(result.learners))
    assert result.status is not Status.CONVERGED or not left or left[0].edge <= 1e-6 + 5e-4


def test_plain_rounds_end_by_eq_9_and_the_penalty_by_the_dictionary():
    """Experiment D where plain column generation makes fewer than T' columns."""
    X, y = make_twonorm(200, seed=1, n_features=2)
    settings = dict(dictionary=Stumps(max_bins=6), nu=0.02, max_rounds=60)
    plain = run(X, y, **settings)
    assert plain.status is Status.CONVERGED
    n_plain = len(plain.trace)
    solver = Counting()
    result = run(X, y, lam=0.05, plain_rounds=50, exhaust=True, solver=solver, **settings)
    assert result.learners[:n_plain] == plain.learners
    assert result.status is Status.CONVERGED
    _, A = every_column(X, y, max_bins=6)
    n_columns = len({tuple(row) for row in A.tolist()})
    assert len(result.trace) == n_columns > n_plain + 1
    # once over all plain columns, then in every round
    assert [n for n, _ in solver.calls] == list(range(n_plain, n_columns + 1))
    assert all(start is not None for _, start in solver.calls[1:])


def test_subset_selection_solves_once():
    """Experiment E: T' = T."""
    X, y = ring()
    solver = Counting()
    run(X, y, lam=0.02, plain_rounds=10, max_rounds=10, solver=solver)
    assert [n for n, _ in solver.calls] == [10]


def test_plain_rounds_without_a_penalty_change_nothing():
    X, y = ring(100)
    one, other = (run(X, y, plain_rounds=t, max_rounds=8) for t in (0, 5))
    np.testing.assert_array_equal(one.solution.w, other.solution.w)


# -- limits ------------------------------------------------------------------------------


@pytest.mark.parametrize("free_intercept", [False, True])
@pytest.mark.parametrize("limit", [0, 1, 4])
@pytest.mark.parametrize("lam", [0.0, 0.01])
def test_the_limit_on_learners_is_never_exceeded(limit, lam, free_intercept):
    X, y = ring()
    result = run(
        X, y, lam=lam, max_learners=limit, max_rounds=10, free_intercept=free_intercept
    )  # fmt: skip
    assert result.ensemble.n_learners <= limit
    assert all(record.cardinality <= limit for record in result.trace)
    if lam == 0.0:
        assert result.ensemble.n_learners == limit  # with so few, every one helps


# -- interruption ------------------------------------------------------------------------


def interrupt_at(number):
    def on_event(record):
        if record.number == number:
            raise KeyboardInterrupt

    return on_event


@pytest.mark.parametrize("free_intercept", [False, True])
@pytest.mark.parametrize(
    "settings", [{}, {"lam": 0.01}, {"lam": 0.01, "plain_rounds": 10}], ids=str
)
def test_an_interrupted_run_keeps_the_rounds_done(settings, free_intercept):
    X, y = ring()
    settings = {"free_intercept": free_intercept, **settings}
    with pytest.raises(Interrupted, match="interrupted; the best so far is kept") as caught:
        run(X, y, max_rounds=20, on_event=interrupt_at(4), **settings)
    result = caught.value.result
    assert result.status is result.solution.status is Status.INTERRUPTED
    assert len(result.trace) == 4
    whole = run(X, y, max_rounds=4, **settings)
    assert [r.learner for r in result.trace] == [r.learner for r in whole.trace]
    assert result.solution.objective == pytest.approx(whole.solution.objective, abs=1e-9)
    assert result.ensemble.n_learners >= 1
    assert result.problem.is_feasible(result.solution.w)
    assert np.isfinite(result.ensemble.decision_function(X)).all()


def test_an_interrupted_solver_loses_only_its_round():
    class InterruptedSolver(Counting):
        def solve(self, problem, start=None, rng=None):
            if len(self.calls) == 3:
                raise KeyboardInterrupt
            return super().solve(problem, start, rng)

    X, y = ring()
    with pytest.raises(Interrupted) as caught:
        run(X, y, lam=0.01, max_rounds=20, solver=InterruptedSolver())
    result = caught.value.result
    assert len(result.trace) == 3
    assert result.solution.objective <= result.trace[-1].objective + 1e-12
    assert result.ensemble.n_learners >= 1


def test_a_solver_that_is_interrupted_with_an_answer_ends_the_run_with_it():
    class InterruptedSolver(Counting):
        def solve(self, problem, start=None, rng=None):
            solution = super().solve(problem, start, rng)
            if len(self.calls) == 3:
                raise Interrupted(solution)
            return solution

    X, y = ring()
    with pytest.raises(Interrupted) as caught:
        run(X, y, lam=0.01, max_rounds=20, solver=InterruptedSolver())
    result = caught.value.result
    assert len(result.trace) == 2
    assert result.status is Status.INTERRUPTED
    whole = run(X, y, lam=0.01, max_rounds=3)
    assert result.learners == whole.learners
    assert result.solution.objective == pytest.approx(whole.solution.objective, abs=1e-9)


def test_an_interrupted_oracle_loses_nothing():
    X, y = ring()
    oracle = InterruptedOracle(Stumps().prepare(X, y), 6)
    with pytest.raises(Interrupted) as caught:
        run(X, y, oracle=oracle, max_rounds=20)
    assert len(caught.value.result.trace) == 5
    assert caught.value.result.ensemble.n_learners == 5


def test_an_interruption_before_the_first_round_gives_the_empty_ensemble():
    X, y = ring(60)
    with pytest.raises(Interrupted) as caught:
        run(X, y, oracle=InterruptedOracle(Stumps().prepare(X, y), 1))
    assert caught.value.result.ensemble.n_learners == 0


def test_an_interruption_is_a_keyboard_interrupt():
    assert issubclass(Interrupted, KeyboardInterrupt)


class StopsAtOnce(LocalSearch):
    """A solver that is interrupted whenever it is called."""

    def solve(self, problem, start=None, rng=None):
        raise KeyboardInterrupt


@pytest.mark.parametrize("plain_rounds", [5, 10])
def test_an_interrupted_first_solve_keeps_within_the_limit(plain_rounds):
    X, y = ring(120)
    with pytest.raises(Interrupted) as caught:
        run(X, y, solver=StopsAtOnce(), plain_rounds=plain_rounds, max_learners=3)
    assert 1 <= caught.value.result.ensemble.n_learners <= 3


@pytest.mark.parametrize("call", range(2, 12))
def test_an_interruption_while_a_column_is_added_loses_nothing(call, monkeypatch):
    calls = []
    fingerprint = columns._fingerprint

    def interrupted(column):
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return fingerprint(column)

    monkeypatch.setattr(columns, "_fingerprint", interrupted)
    X, y = ring(120)
    with pytest.raises(Interrupted) as caught:
        run(X, y, lam=0.01, dictionary=Stumps())
    result = caught.value.result
    assert len(result.solution.w) == len(result.learners) == result.problem.n_columns


# -- solvers that fail -------------------------------------------------------------------


def test_a_solver_that_fails_leaves_the_rounds_done():
    class Fails(Counting):
        def solve(self, problem, start=None, rng=None):
            if len(self.calls) == 3:
                raise SolverError("no connection")
            return super().solve(problem, start, rng)

    X, y = ring()
    with pytest.raises(SolverError, match="no connection") as caught:
        run(X, y, lam=0.01, max_rounds=20, solver=Fails())
    result = caught.value.result
    assert result.status is Status.SOLVER_FAILED
    assert len(result.trace) == 3
    assert result.ensemble.n_learners >= 1


class TooMany(MasterSolver):
    def solve(self, problem, start=None, rng=None):
        return Solution(np.ones(problem.n_columns), 0.0)


class NotNumbers(MasterSolver):
    def solve(self, problem, start=None, rng=None):
        return Solution(np.full(problem.n_columns, np.nan), 0.0)


class TooShort(MasterSolver):
    def solve(self, problem, start=None, rng=None):
        return Solution(np.zeros(problem.n_columns - 1), 0.0)


@pytest.mark.parametrize("solver", [TooMany(), NotNumbers(), TooShort()])
def test_weights_that_cannot_be_used_are_an_error_of_the_solver(solver):
    X, y = ring(60)
    with pytest.raises(ValueError, match=rf"{type(solver).__name__} must return \d+ finite"):
        run(X, y, solver=solver, max_learners=1)


# -- repeatability -----------------------------------------------------------------------


@pytest.mark.parametrize("solver", [FAST, TabuSearch(max_evaluations=200)], ids=["local", "tabu"])
def test_same_seed_same_result(solver):
    X, y = ring(150, 4)
    first, second = (
        run(X, y, lam=0.005, solver=solver, max_rounds=8, rng=np.random.default_rng(7))
        for _ in range(2)
    )
    assert first.learners == second.learners
    np.testing.assert_array_equal(first.solution.w, second.solution.w)


@pytest.mark.parametrize("free_intercept", [False, True])
def test_threads_do_not_change_the_result(monkeypatch, free_intercept):
    monkeypatch.setattr(stumps, "PARALLEL_FROM", 0)
    X, y = ring(150, 4)
    X = np.hstack([X, X])  # ties between copies
    first, second = (
        run(X, y, lam=0.005, max_rounds=8, n_jobs=n, free_intercept=free_intercept) for n in (1, 2)
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
    settings = {"lam": 0.01, "max_rounds": 6, "dictionary": Stumps()}
    repeated = run(np.repeat(X, weight, axis=0), np.repeat(y, weight), **settings)
    weighted = run(X, y, sample_weight=weight.astype(float), **settings)
    assert weighted.ensemble.learners == repeated.ensemble.learners
    np.testing.assert_allclose(weighted.ensemble.weights, repeated.ensemble.weights, rtol=1e-6)


def test_the_scale_of_sample_weights_does_not_matter():
    X, y = ring(100, 3)
    results = [
        run(X, y, lam=0.01, max_rounds=6, sample_weight=np.full(100, scale))
        for scale in (1.0, 1e-6, 1e6, 1e307)  # the last ones add up to infinity
    ]
    for other in results[1:]:
        assert other.learners == results[0].learners
        np.testing.assert_allclose(other.solution.w, results[0].solution.w, rtol=1e-6, atol=1e-9)
