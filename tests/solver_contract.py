"""What every solver of the master problem must keep: a protocol is a test suite.

Subclass :class:`SolverContract` in a test module, parametrise ``solver`` over solver objects,
and all of it runs for each of them. :class:`FitContract` is the same for whole fits, where
``solver`` should also stand within each of :data:`WRAPPERS`; :class:`WrapperContract` is what a
wrapper must forward, and is parametrised over ``wrap``.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize

from totalqboost import TotalQBoostClassifier, losses
from totalqboost.datasets import make_ringnorm
from totalqboost.losses import MarginLoss
from totalqboost.master import MasterProblem
from totalqboost.refit import refit
from totalqboost.solvers import LocalSearch
from totalqboost.solvers.compose import PlainSolver, StartPool, Wrapper
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


class Squareplus(MarginLoss):
    """A loss of the user's own: l(z) = (sqrt(z^2 + 4) - z) / 2."""

    name = "squareplus"

    def value(self, z):
        return (np.sqrt(z * z + 4.0) - z) / 2.0

    def weight(self, z):
        return (1.0 - z / np.sqrt(z * z + 4.0)) / 2.0

    def curvature(self, z):
        return 2.0 / (z * z + 4.0) ** 1.5

    def conjugate(self, u):
        inside = np.clip(u * (1.0 - u), 0.0, None)
        return np.where((u >= 0) & (u <= 1), -2.0 * np.sqrt(inside), np.inf)


LOSSES = [*losses.names(), Squareplus()]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: getattr(loss, "name", loss))


def random_problem(seed, n=6, m=60, nu=1e-3, lam=0.01, **settings):
    """Return independent columns of different quality under random sample weights."""
    rng = np.random.default_rng(seed)
    accuracy = rng.uniform(0.45, 0.75, size=(n, 1))
    A = np.where(rng.random((n, m)) < accuracy, 1, -1).astype(np.int8)
    settings.setdefault("sample_weight", 0.1 + rng.random(m))
    return MasterProblem(A, nu=nu, lam=lam, **settings)


def correlated_problem(seed, n=9, m=60, nu=1e-4, lam=0.01, **settings):
    """Return noisy copies of three columns, among them a duplicate and an opposite."""
    rng = np.random.default_rng(seed)
    base = np.where(rng.random((3, m)) < 0.65, 1, -1)
    noise = np.where(rng.random((n, m)) < 0.12, -1, 1)
    A = (base[np.arange(n) % 3] * noise).astype(np.int8)
    A[n - 1], A[n - 2] = A[0], -A[1]
    return MasterProblem(A, nu=nu, lam=lam, **settings)


def multiclass_problem(seed, n=5, m=18, n_classes=3, nu=1e-3, lam=0.004, **settings):
    """Return columns phi_j(x_i) v_jl Y_il over rows (i, l), after free intercepts per class."""
    rng = np.random.default_rng(seed)
    Y = np.where(np.eye(n_classes)[rng.integers(n_classes, size=m)] > 0, 1, -1)
    votes = np.where(np.eye(n_classes) > 0, 1, -1)
    constants = [sign * vote * Y for vote in votes for sign in (1, -1)]
    columns = []
    for _ in range(n):
        vote = rng.choice([-1, 1], size=n_classes)
        phi = np.where(rng.random(m) < 0.2, -1, 1) * np.sign((vote * Y).sum(axis=1) + 0.1)
        columns.append(phi[:, None] * vote * Y)
    A = np.array([*constants, *columns]).reshape(2 * n_classes + n, -1)
    cost = np.r_[np.zeros(2 * n_classes), settings.pop("cost", np.ones(n))]
    return MasterProblem(A, nu=nu, lam=lam, cost=cost, **settings)


def with_features(problem, seed, n_features=3, scale=0.02, **settings):
    """Return the problem with fees, and with features that its columns of positive cost read."""
    rng = np.random.default_rng(seed)
    n, is_priced = problem.n_columns, problem.cost > 0
    reads = np.zeros((n, n_features), dtype=bool)
    reads[np.arange(n), rng.integers(n_features, size=n)] = True
    reads |= rng.random(reads.shape) < 0.1  # some columns read two
    settings.setdefault("fee", scale * rng.random(n) * (rng.random(n) < 0.5) * is_priced)
    settings.setdefault("feature_price", scale * rng.integers(0, 3, size=n_features))
    return replace(problem, reads=reads & is_priced[:, None], **settings)


def best_of_all_supports(problem):
    """Return the optimal objective: a tight refit on every support within the limits."""
    priced = np.flatnonzero(problem.cost > 0)
    largest = len(priced) if problem.max_learners is None else problem.max_learners
    best = np.inf
    for size in range(min(largest, len(priced)) + 1):
        for chosen in combinations(priced, size):
            support = np.sort(np.concatenate([np.array(chosen, dtype=int), problem.free]))
            w = refit(problem, support, tol=1e-10)
            if problem.is_feasible(w):
                best = min(best, problem.objective(w))
    return best


def with_intercept(loss="exponential", nu=0.5):
    """Return good columns and a free intercept of either sign, which must not pay this nu."""
    rng = np.random.default_rng(6)
    y = np.where(np.arange(60) < 42, 1, -1)
    columns = np.where(rng.random((4, 60)) < 0.9, 1, -1)
    columns[2:, 42:] = -1  # two that an intercept must put right
    A = np.vstack([y, -y, columns]).astype(np.int8)
    return MasterProblem(A, nu=nu, lam=0.01, loss=loss, cost=np.array([0, 0, 1, 1, 1, 1.0]))


def best_with_intercept(problem):
    """Return the optimum as the paper would state it: b is free, nu is paid by the others."""
    y, B = problem.A[0].astype(float), problem.A[2:].astype(float)
    best = np.inf
    for size in range(len(B) + 1):
        for chosen in map(list, combinations(range(len(B)), size)):

            def value(x, chosen=chosen):
                z = x[0] * y + x[1:] @ B[chosen]
                return problem.loss.value(z).mean() + problem.nu * x[1:].sum()

            bounds = [(None, None)] + [(0.0, None)] * size
            found = minimize(value, np.zeros(1 + size), bounds=bounds, options={"ftol": 1e-14})
            best = min(best, found.fun + problem.lam * size)
    return best


def some_starts(problem, seed):
    """Return weights of six columns: at random, the l1 optimum, the best of two columns."""
    rng = np.random.default_rng(seed)
    at_random = rng.random(6) * (rng.random(6) < 0.5)
    return [at_random, *(refit(problem, np.array(s), tol=1e-9) for s in (range(6), [0, 3]))]


def check(problem, solution):
    """Assert what holds for every answer, and return its weights."""
    w = solution.w
    assert w.shape == (problem.n_columns,)
    assert w.dtype == float
    assert np.isfinite(w).all()
    assert (w >= 0).all()
    if problem.max_learners is not None:
        assert problem.cardinality(w) <= problem.max_learners
    if problem.max_features is not None:
        assert problem.n_features_read(w) <= problem.max_features
    assert solution.objective == pytest.approx(problem.objective(w), rel=1e-12, abs=1e-12)
    assert solution.objective <= problem.objective(np.zeros(problem.n_columns)) + 1e-15
    assert solution.bound <= solution.objective
    assert solution.n_evaluations >= 0
    assert isinstance(solution.status, Status)
    assert isinstance(solution.note, str)
    return w


@cache
def _small_problem(seed, loss):
    problem = random_problem(seed, n=4, m=30, loss=loss, lam=[0.003, 0.03][seed])
    return problem, best_of_all_supports(problem)


@cache
def _feature_problem(loss, limit):
    cost = np.array([0, 0, 1, 2, 1, 0.5])
    problem = correlated_problem(1, n=6, m=40, lam=0.005, cost=cost, loss=loss)
    problem = with_features(problem, 1, scale=0.01, max_features=limit)
    return problem, best_of_all_supports(problem)


@cache
def _multiclass_problem(seed, limit):
    problem = multiclass_problem(seed, n=4, loss=["logistic", "exponential"][seed])
    problem = with_features(problem, seed, scale=0.005, max_features=limit)
    return problem, best_of_all_supports(problem)


class SolverContract:
    """Tests that every solver passes; the fixture ``solver`` comes from the subclass."""

    @every_loss
    def test_answer_is_feasible_and_its_objective_is_that_of_the_problem(self, solver, loss):
        problem = random_problem(1, n=5, m=30, loss=loss)
        w = check(problem, solver.solve(problem))
        assert problem.cardinality(w) > 0  # these columns do pay

    @every_loss
    @pytest.mark.parametrize("seed", [0, 1])
    def test_never_below_the_optimum_over_all_supports(self, solver, loss, seed):
        problem, best = _small_problem(seed, loss)
        solution = solver.solve(problem)
        check(problem, solution)
        assert solution.objective >= best - 1e-9
        assert solution.objective <= best + 0.1 * (problem.risk(np.zeros(4)) - best)  # and useful

    def test_a_start_of_the_wrong_shape_is_an_error_that_names_it(self, solver):
        problem = random_problem(0, n=4, m=30)
        for start in (np.zeros(3), np.zeros(5), np.zeros((4, 1))):
            with pytest.raises(ValueError, match=r"start must (have shape \(4,\)|hold 4 )"):
                solver.solve(problem, start)

    @pytest.mark.parametrize("seed", range(4))
    def test_never_worse_than_its_start(self, solver, seed):
        problem = random_problem(seed, lam=0.02)
        for start in some_starts(problem, seed):
            solution = solver.solve(problem, start=start, rng=np.random.default_rng(seed))
            check(problem, solution)
            assert solution.objective <= problem.objective(start) + 1e-14

    def test_an_optimal_start_stays_optimal(self, solver):
        problem = random_problem(3, n=5, m=30, lam=0.02)
        best = best_of_all_supports(problem)
        supports = [np.array(s, dtype=int) for k in range(6) for s in combinations(range(5), k)]
        start = min((refit(problem, s, tol=1e-11) for s in supports), key=problem.objective)
        solution = solver.solve(problem, start=start)
        assert solution.objective == pytest.approx(best, abs=1e-10)

    def test_start_is_left_alone(self, solver):
        problem = random_problem(5)
        start = np.array([0.5, 0.0, 0.2, 0.0, 0.0, 0.1])
        before = start.copy()
        solver.solve(problem, start=start)
        np.testing.assert_array_equal(start, before)

    def test_a_start_beyond_the_limit_is_cut_down(self, solver):
        problem = random_problem(6, lam=0.0, max_learners=2)
        start = refit(problem, np.arange(6), tol=1e-8)
        assert problem.cardinality(start) > 2
        w = check(problem, solver.solve(problem, start=start))
        assert problem.cardinality(w) == 2

    @every_loss
    def test_same_seed_same_answer(self, solver, loss):
        problem = random_problem(7, n=4, m=30, loss=loss)
        first, second = (solver.solve(problem, rng=np.random.default_rng(11)) for _ in range(2))
        np.testing.assert_array_equal(first.w, second.w)
        assert first.objective == second.objective
        assert first.n_evaluations == second.n_evaluations

    def test_the_default_generator_does_not_change_from_call_to_call(self, solver):
        problem = correlated_problem(8)
        np.testing.assert_array_equal(solver.solve(problem).w, solver.solve(problem).w)

    def test_no_columns_give_the_empty_ensemble(self, solver):
        problem = MasterProblem(np.empty((0, 5)), lam=0.01)
        w = check(problem, solver.solve(problem))
        assert len(w) == 0
        check(problem, solver.solve(problem, start=np.empty(0)))

    @pytest.mark.parametrize(("lam", "kept"), [(0.0, 1), (0.001, 1), (0.5, 0)])
    def test_one_column_is_kept_where_it_pays(self, solver, lam, kept):
        problem = MasterProblem(np.array([[1, 1, 1, -1]]), nu=1e-6, lam=lam)
        w = check(problem, solver.solve(problem))
        # three of four right: the weight of AdaBoost is log(3) / 2
        assert w[0] == pytest.approx(kept * np.log(3) / 2, abs=1e-3)

    def test_a_single_row(self, solver):
        problem = MasterProblem(np.array([[1], [-1], [1]]), nu=0.01, lam=0.001)
        w = check(problem, solver.solve(problem))
        # exp(-w) + 0.01 w is least at w = log(100), however it is shared out
        assert w.sum() == pytest.approx(np.log(100), abs=1e-3)
        assert w[1] == 0.0

    def test_without_a_penalty_the_answer_is_the_l1_optimum(self, solver):
        problem = random_problem(9, lam=0.0, nu=1e-3)
        l1 = problem.objective(refit(problem, np.arange(6), tol=1e-10))
        solution = solver.solve(problem)
        check(problem, solution)
        assert solution.objective == pytest.approx(l1, abs=1e-8)

    @pytest.mark.parametrize("with_start", [False, True])
    @pytest.mark.parametrize("lam", [100.0, 1e300])
    def test_a_huge_penalty_empties_the_ensemble(self, solver, with_start, lam):
        problem = random_problem(10, lam=lam)
        start = np.full(6, 0.2) if with_start else None
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)  # no sum may overflow
            w = check(problem, solver.solve(problem, start=start))
        np.testing.assert_array_equal(w, 0.0)

    def test_a_huge_nu_empties_the_ensemble(self, solver):
        problem = random_problem(10, nu=50.0, lam=0.0)
        w = check(problem, solver.solve(problem))
        np.testing.assert_array_equal(w, 0.0)

    def test_free_columns_are_used_under_any_penalty(self, solver):
        signs = np.where(np.random.default_rng(0).random(50) < 0.7, 1, -1)
        others = random_problem(11, m=50).A
        A = np.vstack([signs, -signs, others]).astype(np.int8)
        problem = MasterProblem(A, nu=1e-6, lam=100.0, cost=np.array([0, 0, *np.ones(6)]))
        w = check(problem, solver.solve(problem))
        assert problem.cardinality(w) == 0
        share = (signs > 0).mean()
        assert w[0] - w[1] == pytest.approx(0.5 * np.log(share / (1 - share)), abs=1e-3)

    @pytest.mark.parametrize("loss", ["exponential", "logistic"])
    def test_free_columns_pay_no_nu(self, solver, loss):
        problem = with_intercept(loss)
        best = best_with_intercept(problem)
        solution = solver.solve(problem)
        w = check(problem, solution)
        assert abs(w[0] - w[1]) > 0.05  # the intercept is used
        risk = problem.loss.value(w @ problem.A.astype(float)).mean()
        priced = 0.5 * w[2:].sum() + 0.01 * np.count_nonzero(w[2:])
        assert solution.objective == pytest.approx(risk + priced, abs=1e-7)
        assert best - 1e-7 <= solution.objective <= best + 0.01

    @pytest.mark.parametrize("seed", range(3))
    def test_free_columns_never_below_the_optimum(self, solver, seed):
        cost = np.array([0, 0, 1, 2, 1, 0.5])
        problem = correlated_problem(seed, n=6, lam=0.02, cost=cost)
        best = best_of_all_supports(problem)
        solution = solver.solve(problem)
        check(problem, solution)
        assert best - 1e-9 <= solution.objective <= best + 0.02

    @pytest.mark.parametrize("limit", [0, 1, 2])
    @pytest.mark.parametrize("lam", [0.0, 0.01])
    def test_the_limit_on_learners_is_kept(self, solver, limit, lam):
        problem = random_problem(12, n=5, m=40, lam=lam, max_learners=limit)
        best = best_of_all_supports(problem)
        solution = solver.solve(problem)
        w = check(problem, solution)
        assert problem.cardinality(w) <= limit
        assert best - 1e-9 <= solution.objective <= best + 0.05
        if lam == 0.0:
            assert problem.cardinality(w) == limit  # every column of these helps

    def test_a_limit_beyond_the_number_of_columns_is_no_limit(self, solver):
        limited = random_problem(13, n=4, m=40, max_learners=99)
        free = random_problem(13, n=4, m=40)
        assert solver.solve(limited).objective == pytest.approx(
            solver.solve(free).objective, abs=1e-9
        )

    def test_free_columns_do_not_count_against_the_limit(self, solver):
        cost = np.array([0, 0, 1, 1, 1])
        problem = random_problem(14, n=5, m=40, lam=0.0, cost=cost, max_learners=1)
        w = check(problem, solver.solve(problem))
        support = np.flatnonzero(w > 0)
        assert np.count_nonzero(support >= 2) == 1
        assert (w[:2] > 0).any()

    def test_of_equal_columns_one_is_enough(self, solver):
        column = np.where(np.random.default_rng(1).random(60) < 0.7, 1, -1)
        problem = MasterProblem(np.array([column] * 4), nu=1e-4, lam=0.01)
        w = check(problem, solver.solve(problem))
        assert problem.cardinality(w) == 1

    def test_of_opposite_columns_the_better_is_kept(self, solver):
        column = np.where(np.random.default_rng(2).random(60) < 0.7, 1, -1)
        problem = MasterProblem(np.array([-column, column]), nu=1e-4, lam=0.01)
        w = check(problem, solver.solve(problem))
        assert w[0] == 0.0
        assert w[1] > 0.0

    def test_separable_data_give_finite_weights(self, solver):
        A = np.array([[1] * 20, [1] * 12 + [-1] * 8, [-1] * 4 + [1] * 16])
        problem = MasterProblem(A, nu=1e-6, lam=0.01)
        w = check(problem, solver.solve(problem))
        np.testing.assert_array_equal(w > 0, [True, False, False])
        assert w[0] == pytest.approx(np.log(1e6), rel=0.05)

    @pytest.mark.parametrize("seed", range(3))
    def test_the_order_of_rows_does_not_matter(self, solver, seed):
        problem = random_problem(seed, m=50)
        order = np.random.default_rng(seed).permutation(50)
        shuffled = replace(
            problem, A=problem.A[:, order], sample_weight=problem.sample_weight[order]
        )
        assert solver.solve(shuffled).objective == pytest.approx(
            solver.solve(problem).objective, abs=1e-8
        )

    @pytest.mark.parametrize("seed", range(3))
    def test_repeated_rows_count_like_weights(self, solver, seed):
        problem = random_problem(seed, m=20, sample_weight=np.arange(20) % 4 + 1.0)
        repeated = MasterProblem(
            np.repeat(problem.A, np.arange(20) % 4 + 1, axis=1), problem.nu, problem.lam
        )
        assert solver.solve(repeated).objective == pytest.approx(
            solver.solve(problem).objective, abs=1e-8
        )

    def test_rows_without_weight_do_not_matter(self, solver):
        problem = random_problem(4, m=30, sample_weight=np.ones(30))
        junk = random_problem(5, m=10).A
        weight = np.concatenate([np.ones(30), np.zeros(10)])
        longer = MasterProblem(
            np.hstack([problem.A, junk]), problem.nu, problem.lam, sample_weight=weight
        )
        assert solver.solve(longer).objective == pytest.approx(
            solver.solve(problem).objective, abs=1e-8
        )

    # -- fees, features, many classes --------------------------------------------------------

    @pytest.mark.parametrize("limit", [None, 0, 1, 2])
    @pytest.mark.parametrize("loss", ["exponential", "logistic"])
    def test_features_never_below_the_optimum_and_within_their_limit(self, solver, loss, limit):
        problem, best = _feature_problem(loss, limit)
        solution = solver.solve(problem)
        check(problem, solution)
        assert solution.bound <= best + 1e-9
        assert best - 1e-9 <= solution.objective <= best + 0.03

    @pytest.mark.parametrize("limit", [None, 1])
    @pytest.mark.parametrize("seed", range(2))
    def test_many_classes_never_below_the_optimum(self, solver, seed, limit):
        problem, best = _multiclass_problem(seed, limit)
        solution = solver.solve(problem)
        check(problem, solution)
        assert solution.bound <= best + 1e-9
        assert best - 1e-9 <= solution.objective <= best + 0.03

    def test_intercepts_of_many_classes_are_used_under_any_price(self, solver):
        problem = multiclass_problem(3, lam=100.0, loss="logistic")
        l1 = problem.objective(refit(problem, problem.free, tol=1e-9))
        w = check(problem, solver.solve(problem))
        assert problem.cardinality(w) == 0
        assert problem.objective(w) == pytest.approx(l1, abs=1e-5)

    @pytest.mark.parametrize("limit", [None, 1])
    def test_with_features_never_worse_than_its_start(self, solver, limit):
        problem = with_features(random_problem(2), 2, max_features=limit)
        supports = [np.flatnonzero(problem.reads[:, g]) for g in range(3)]
        for support in [*supports, np.arange(6)]:
            start = refit(problem, support, tol=1e-9)
            solution = solver.solve(problem, start=start)
            check(problem, solution)
            if problem.is_feasible(start):
                assert solution.objective <= problem.objective(start) + 1e-14

    def test_a_fee_is_paid_whatever_lam(self, solver):
        problem = random_problem(4, n=4, m=40, lam=0.0)
        w = check(problem, solver.solve(problem))
        dear = replace(problem, fee=np.where(w == w.max(), 5.0, 0.0))
        found = check(dear, solver.solve(dear))
        assert w.max() > 0
        assert found[np.argmax(w)] == 0.0
        assert dear.cardinality(found) > 0

    @pytest.mark.parametrize("price", [0.0, 5.0])
    def test_a_feature_that_costs_too_much_is_read_by_nobody(self, solver, price):
        problem = random_problem(15, n=5, m=50, lam=1e-4)
        best = int(np.argmax(check(problem, solver.solve(problem))))
        reads = (np.arange(5) != best)[:, None] == [False, True]
        problem = replace(problem, reads=reads, feature_price=[price, 0.0])
        w = check(problem, solver.solve(problem))
        assert (w[best] > 0) == (price == 0.0)
        assert (np.delete(w, best) > 0).any()

    def test_prices_of_zero_change_nothing(self, solver):
        problem = random_problem(16, n=5, m=40)
        zeros = replace(
            problem, fee=np.zeros(5), reads=np.eye(5), feature_price=np.zeros(5), max_features=5
        )
        np.testing.assert_array_equal(solver.solve(problem).w, solver.solve(zeros).w)


every_built_in_loss = pytest.mark.parametrize("loss", losses.names())


class BuiltInLossContract(SolverContract):
    """The contract for the built-in losses, of solvers that refuse one of the user's own."""

    @every_built_in_loss
    def test_answer_is_feasible_and_its_objective_is_that_of_the_problem(self, solver, loss):
        super().test_answer_is_feasible_and_its_objective_is_that_of_the_problem(solver, loss)

    @every_built_in_loss
    @pytest.mark.parametrize("seed", [0, 1])
    def test_never_below_the_optimum_over_all_supports(self, solver, loss, seed):
        super().test_never_below_the_optimum_over_all_supports(solver, loss, seed)

    @every_built_in_loss
    def test_same_seed_same_answer(self, solver, loss):
        super().test_same_seed_same_answer(solver, loss)


def polished(problem, solution):
    """Return an answer with the weights of a refit, as the engine makes of it (lines 12-13)."""
    assert solution.is_discrete
    support = np.union1d(np.flatnonzero(solution.w > 0), problem.free)
    w = refit(problem, support, solution.w, tol=1e-10)
    return replace(solution, w=w, objective=problem.objective(w))


@dataclass(frozen=True)
class Polished(MasterSolver):
    """A solver whose answers stay on a grid, with lines 12-13 after it."""

    solver: MasterSolver

    def solve(self, problem, start=None, rng=None):
        solution = self.solver.solve(problem, start, rng)
        return solution if problem.n_columns == 0 else polished(problem, solution)


def on_grid(solution, w):
    """Return the point of the answer's grid that is nearest to weights."""
    return solution.grid.step * solution.grid.levels(w)


class GridContract(SolverContract):
    """The contract of solvers that answer with a point of a grid, to be refitted by the caller.

    What the contract says about continuous weights holds after the refit; what it says about
    starts holds for their nearest points.
    """

    @pytest.mark.parametrize("seed", range(4))
    def test_never_worse_than_its_start(self, solver, seed):
        problem = random_problem(seed, lam=0.02)
        for start in some_starts(problem, seed):
            first = replace(solver, max_evaluations=1).solve(problem, start=start)  # no time
            solution = solver.solve(problem, start=start, rng=np.random.default_rng(seed))
            check(problem, solution)
            assert solution.objective <= problem.objective(on_grid(first, start)) + 1e-14

    def test_an_optimal_start_stays_optimal(self, solver):
        problem = random_problem(3, n=5, m=30, lam=0.02)
        best = best_of_all_supports(problem)
        supports = [np.array(s, dtype=int) for k in range(6) for s in combinations(range(5), k)]
        start = min((refit(problem, s, tol=1e-11) for s in supports), key=problem.objective)
        solution = polished(problem, solver.solve(problem, start=start))
        assert solution.objective == pytest.approx(best, abs=1e-9)

    @pytest.mark.parametrize(("lam", "kept"), [(0.0, 1), (0.001, 1), (0.5, 0)])
    def test_one_column_is_kept_where_it_pays(self, solver, lam, kept):
        super().test_one_column_is_kept_where_it_pays(Polished(solver), lam, kept)

    def test_a_single_row(self, solver):
        super().test_a_single_row(Polished(solver))

    def test_without_a_penalty_the_answer_is_the_l1_optimum(self, solver):
        super().test_without_a_penalty_the_answer_is_the_l1_optimum(Polished(solver))

    def test_free_columns_are_used_under_any_penalty(self, solver):
        super().test_free_columns_are_used_under_any_penalty(Polished(solver))

    @pytest.mark.parametrize("loss", ["exponential", "logistic"])
    def test_free_columns_pay_no_nu(self, solver, loss):
        super().test_free_columns_pay_no_nu(Polished(solver), loss)

    def test_a_limit_beyond_the_number_of_columns_is_no_limit(self, solver):
        super().test_a_limit_beyond_the_number_of_columns_is_no_limit(Polished(solver))

    def test_separable_data_give_finite_weights(self, solver):
        super().test_separable_data_give_finite_weights(Polished(solver))

    @pytest.mark.parametrize("seed", range(3))
    def test_the_order_of_rows_does_not_matter(self, solver, seed):
        super().test_the_order_of_rows_does_not_matter(Polished(solver), seed)

    @pytest.mark.parametrize("seed", range(3))
    def test_repeated_rows_count_like_weights(self, solver, seed):
        super().test_repeated_rows_count_like_weights(Polished(solver), seed)

    def test_rows_without_weight_do_not_matter(self, solver):
        super().test_rows_without_weight_do_not_matter(Polished(solver))

    def test_intercepts_of_many_classes_are_used_under_any_price(self, solver):
        super().test_intercepts_of_many_classes_are_used_under_any_price(Polished(solver))

    @pytest.mark.parametrize("limit", [None, 1])
    def test_with_features_never_worse_than_its_start(self, solver, limit):
        problem = with_features(random_problem(2), 2, max_features=limit)
        for support in [np.flatnonzero(problem.reads[:, g]) for g in range(3)]:
            start = refit(problem, support, tol=1e-9)
            first = replace(solver, max_evaluations=1).solve(problem, start=start)
            solution = solver.solve(problem, start=start)
            check(problem, solution)
            if problem.is_feasible(start):
                assert solution.objective <= problem.objective(on_grid(first, start)) + 1e-14

    @every_loss
    def test_the_answer_is_a_point_of_its_grid(self, solver, loss):
        for start in (None, np.full(6, 0.3)):
            problem = random_problem(2, loss=loss)
            solution = solver.solve(problem, start)
            assert solution.is_discrete
            assert problem.cardinality(solution.w) > 0
            levels = solution.w / solution.grid.step
            np.testing.assert_allclose(levels, np.rint(levels), atol=1e-9)
            assert levels.max() < 2**solution.grid.n_bits


# -- wrappers ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Forwarding(Wrapper):
    """A wrapper that changes nothing."""

    solver: MasterSolver


@dataclass(frozen=True)
class Foreign:
    """A user's own object, which knows nothing of sessions."""

    inner: MasterSolver

    def solve(self, problem, start, rng):
        return self.inner.solve(problem, start, rng)


POOL = [np.full(n, 0.1) for n in range(12)]  # for problems of any size

WRAPPERS = {
    "wrapper": Forwarding,
    "empty-pool": lambda solver: StartPool(solver, []),
    "pool": lambda solver: StartPool(solver, POOL),
    "two": lambda solver: Forwarding(StartPool(solver, [])),
}
EVERY_WRAPPER = {**WRAPPERS, "foreign": lambda solver: PlainSolver(Foreign(solver))}


@dataclass
class Recorder(MasterSolver):
    """A solver that notes what it is asked, and stops at a certain call if told to."""

    stop_at: int = 10**9
    error: type = Interrupted
    log: list = field(default_factory=list)

    def solve(self, problem, start=None, rng=None):
        self.log.append(("solve", problem.n_columns))
        solution = LocalSearch().solve(problem, start, rng)
        if len(self.log) > self.stop_at:
            raise self.error(solution)
        return solution

    def session(self, problem):
        self.log.append(("session", problem.n_columns))
        return RecorderSession(self)


class RecorderSession(SolverSession):
    solver: Recorder

    def finish(self, problem, w, rng):
        self.solver.log.append(("finish", problem.n_columns))
        return Solution(w, problem.objective(w), bound=0.01, note="finished")


def life(solver, problems):
    """Return the answers of a session to problems that grow, and its last word."""
    rng = np.random.default_rng(0)
    session = solver.session(problems[0])
    answers = [solve(session, problem, None, rng) for problem in problems]
    return answers, finish(session, problems[-1], answers[-1].w, rng)


class WrapperContract:
    """What a wrapper must hand on; ``wrap`` is parametrised over :data:`WRAPPERS`."""

    problems = [random_problem(2, n=n, m=40) for n in (3, 4, 5)]  # noqa: RUF012

    def test_a_session_is_opened_once_asked_in_turn_and_finished(self, wrap):
        recorder = Recorder()
        answers, last = life(wrap(recorder), self.problems)
        assert recorder.log[0] == ("session", 3)
        asked = [size for what, size in recorder.log if what == "solve"]
        assert sorted(set(asked)) == asked[:: len(asked) // 3] == [3, 4, 5]
        assert recorder.log[-1] == ("finish", 5)
        assert (last.bound, last.note) == (0.01, "finished")
        for problem, answer in zip(self.problems, answers, strict=True):
            check(problem, answer)

    def test_a_solve_outside_of_a_fit_opens_no_session(self, wrap):
        recorder = Recorder()
        check(self.problems[0], wrap(recorder).solve(self.problems[0]))
        assert {what for what, _ in recorder.log} == {"solve"}

    def test_the_start_and_the_generator_are_handed_on(self, wrap):
        @dataclass
        class Listener(MasterSolver):
            heard: list

            def solve(self, problem, start=None, rng=None):
                self.heard.append((start, rng))
                return Solution(start, problem.objective(start))

        problem, rng = self.problems[0], np.random.default_rng(5)
        start = np.array([0.1, 0.0, 0.2])
        listener = Listener([])
        wrap(listener).solve(problem, start, rng)
        wrap(listener).session(problem).solve(problem, start, rng)
        for heard, generator in listener.heard:
            np.testing.assert_array_equal(heard, start)
            assert generator is rng

    def test_an_interruption_passes_with_its_result(self, wrap):
        problem = self.problems[0]
        with pytest.raises(Interrupted) as caught:
            wrap(Recorder(stop_at=0)).solve(problem)
        assert problem.is_feasible(caught.value.result.w)

    def test_a_failure_passes(self, wrap):
        with pytest.raises(SolverError):
            wrap(Recorder(stop_at=0, error=SolverError)).solve(self.problems[0])


# -- fits ----------------------------------------------------------------------------------

X, Y = make_ringnorm(80, seed=4)


@pytest.mark.parametrize("exchange", [False, True], ids=["rounds", "search"])
class FitContract:
    """What holds for a whole fit with any solver, alone and within wrappers."""

    def fit(self, solver, exchange, **settings):
        settings = {"max_rounds": 5, "random_state": 3, "exchange": exchange, **settings}
        return TotalQBoostClassifier(0.01, solver=solver, **settings).fit(X, Y)

    def test_a_fit_gives_an_ensemble_that_predicts(self, solver, exchange):
        clf = self.fit(solver, exchange)
        assert clf.n_learners_ >= 1
        assert clf.score(X, Y) > 0.6
        assert isinstance(clf.solution_.status, Status)
        assert clf.solution_.bound <= clf.solution_.objective + 1e-12

    def test_a_fit_repeats(self, solver, exchange):
        first, second = (self.fit(solver, exchange) for _ in range(2))
        np.testing.assert_array_equal(first.decision_function(X), second.decision_function(X))
        assert first.solution_.n_evaluations == second.solution_.n_evaluations

    def test_a_fit_keeps_the_limit(self, solver, exchange):
        assert self.fit(solver, exchange, max_learners=2).n_learners_ <= 2
