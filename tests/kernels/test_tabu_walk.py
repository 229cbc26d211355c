"""The tabu walk over fixed-point weights, step by step against an enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from solver_contract import Squareplus, with_features

from totalqboost import fixed_point
from totalqboost.kernels.neighbourhood import tabu_walk
from totalqboost.master import MasterProblem
from totalqboost.solvers.walk import Walk

both_kinds = pytest.mark.parametrize("by_bits", [False, True], ids=["levels", "bits"])


class Grid:
    """A small problem with weights step_j * (an integer of n_bits)."""

    loss = "exponential"

    def __init__(
        self, seed, n=4, m=30, n_bits=3, lam=0.02, nu=1e-3, limit=None, free=(), **features
    ):
        rng = np.random.default_rng(seed)
        accuracy = rng.uniform(0.5, 0.75, size=(n, 1))
        A = np.where(rng.random((n, m)) < accuracy, 1, -1)
        cost = np.ones(n)
        cost[list(free)] = 0.0
        self.problem = MasterProblem(
            A, nu, lam, cost, self.loss, rng.random(m) + 0.1, max_learners=limit
        )
        if features:
            self.problem = with_features(self.problem, seed, **features)
        self.price = np.where(cost > 0, self.problem.prices, -1.0)
        self.step = rng.uniform(0.03, 0.12, size=n)
        self.n, self.n_bits = n, n_bits
        self.limit = n if limit is None else limit

    def value(self, levels):
        return self.problem.objective(self.step * levels)

    def walk(self, levels, tenures, ranks=None, target=-np.inf, by_bits=False, descends=False):
        """Return the best value and levels on the walk, and where it ended."""
        levels = np.array(levels, dtype=np.int64)
        best = np.full(self.n, -7, dtype=np.int64)
        tenures = np.asarray(tenures, dtype=np.int64)
        ranks = np.zeros(len(tenures), np.int64) if ranks is None else np.asarray(ranks)
        value = tabu_walk(
            self.problem.loss.code,
            self.problem.A,
            self.problem.sample_weight,
            self.problem.nus,
            self.price,
            self.problem.groups,
            self.step,
            self.n_bits,
            by_bits,
            self.limit,
            descends,
            levels,
            target,
            tenures,
            ranks,
            best,
        )
        return value, best, levels

    def positions(self, levels, tenures, **settings):
        """Return the levels after 0, 1, ... moves: the walk is deterministic."""
        return [
            self.walk(levels, tenures[:t], **settings)[2].tolist() for t in range(len(tenures) + 1)
        ]

    def neighbours(self, levels, by_bits):
        """Return every neighbour within the limit, best first."""
        found = []
        for j in range(self.n):
            if by_bits:
                options = [levels[j] ^ (1 << bit) for bit in range(self.n_bits)]
            else:
                # the best level by the risk and nu alone, or none at all
                best = min(range(2**self.n_bits), key=lambda x: self.smooth_value(levels, j, x))
                options = {0, best} - {levels[j]}
            for option in options:
                neighbour = np.array(levels)
                neighbour[j] = option
                kept = np.count_nonzero((neighbour > 0) & (self.price >= 0))
                before = np.count_nonzero((np.array(levels) > 0) & (self.price >= 0))
                if kept <= max(self.limit, before) and not self.reads_too_many(neighbour, levels):
                    found.append(neighbour.tolist())
        return sorted(found, key=lambda x: self.value(np.array(x)))

    def reads_too_many(self, levels, before):
        limit, read = self.problem.max_features, self.problem.n_features_read
        if limit is None:
            return False
        return read(levels) > limit and read(levels) > read(np.array(before))

    def smooth_value(self, levels, j, level):
        w = self.step * levels
        w[j] = self.step[j] * level
        return self.problem.risk(w) + self.problem.nus @ w

    def scored_value(self, levels, neighbour):
        """Return what the walk takes a neighbour for before it evaluates it."""
        return self.value(np.array(neighbour))


class AnyLossGrid(Grid):
    """The walk for losses other than the exponential, which takes levels from a model.

    It looks at the five best neighbours of the model: here there are not more.
    """

    def __init__(self, seed, loss, n=2, in_numpy=False, **settings):
        self.loss, self.in_numpy = loss, in_numpy
        super().__init__(seed, n=n, **settings)

    def walk(self, levels, tenures, ranks=None, target=-np.inf, by_bits=False, descends=False):
        walk = Walk(self.problem, fixed_point.Grid(self.n_bits, self.step), by_bits)
        levels = np.array(levels, dtype=np.int64)
        best = levels.copy()
        tenures = np.asarray(tenures, dtype=np.int64)
        ranks = np.zeros(len(tenures), np.int64) if ranks is None else np.asarray(ranks)
        if self.in_numpy:
            walk._run_custom(levels, target, tenures, ranks, descends, best)
        else:
            best = walk.run(levels, target, tenures, ranks, descends)
        return self.value(best), best, levels

    def scored_value(self, levels, neighbour):
        j = int(np.flatnonzero(np.array(levels) != np.array(neighbour))[0])
        w, new = self.step * levels, self.step * neighbour
        risk = self.problem.risk(w) + self.problem.nus @ w
        risk += self.smooth_value(levels, j, neighbour[j])
        return risk + self.problem.penalty(new) - self.problem.nus @ new

    def smooth_value(self, levels, j, level):
        """Return the second-order model along one weight, up to a constant."""
        u, q = self.problem.weights_and_curvature(self.step * levels)
        d = self.step[j] * (level - levels[j])
        slope = self.problem.nus[j] - self.problem.A[j].astype(float) @ u
        return slope * d + 0.5 * q.sum() * d * d


STARTS = [[0, 0, 0, 0], [3, 0, 7, 1], [7, 7, 7, 7]]


# -- the value ---------------------------------------------------------------------------


@both_kinds
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_moves", [0, 1, 25])
def test_the_value_is_the_objective_at_the_best_levels(by_bits, seed, n_moves):
    grid = Grid(seed, free=[1] if seed == 2 else ())
    value, best, _ = grid.walk([2, 0, 5, 1], np.full(n_moves, 2), by_bits=by_bits)
    assert value == pytest.approx(grid.value(best), rel=1e-5)
    assert value <= grid.value(np.array([2, 0, 5, 1])) * (1 + 1e-6)
    assert ((best >= 0) & (best < 8)).all()


@both_kinds
def test_the_best_levels_are_the_best_of_all_positions(by_bits):
    grid = Grid(3)
    tenures = np.full(20, 3)
    value, best, _ = grid.walk([0, 0, 0, 0], tenures, by_bits=by_bits)
    values = [grid.value(np.array(p)) for p in grid.positions([0] * 4, tenures, by_bits=by_bits)]
    assert grid.value(best) == pytest.approx(min(values), rel=1e-6)
    assert value == pytest.approx(min(values), rel=1e-5)


@both_kinds
def test_single_precision_does_not_drift_on_a_long_walk(by_bits):
    grid = Grid(4, m=12)
    value, best, _ = grid.walk([0, 0, 0, 0], np.full(1100, 1), by_bits=by_bits)
    assert value == pytest.approx(grid.value(best), rel=1e-5)


def test_no_moves_leave_everything_where_it_is():
    grid = Grid(0)
    value, best, end = grid.walk([1, 2, 0, 4], [])
    assert best.tolist() == end.tolist() == [1, 2, 0, 4]
    assert value == pytest.approx(grid.value(best), rel=1e-6)


# -- the choice of a move ----------------------------------------------------------------


@both_kinds
@pytest.mark.parametrize("start", STARTS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_the_first_move_goes_to_the_best_neighbour(by_bits, start, seed):
    grid = Grid(seed)
    neighbours = grid.neighbours(start, by_bits)
    _, _, end = grid.walk(start, [1], by_bits=by_bits)
    assert end.tolist() == neighbours[0]


@both_kinds
@pytest.mark.parametrize("rank", [1, 3, 4])
def test_a_rank_chooses_among_the_five_best(by_bits, rank):
    grid = Grid(1, n=6)
    start = [3, 0, 7, 1, 0, 2]
    neighbours = grid.neighbours(start, by_bits)
    _, _, end = grid.walk(start, [1], ranks=[rank], by_bits=by_bits)
    assert end.tolist() == neighbours[rank]


@both_kinds
def test_a_walk_must_move_even_if_every_neighbour_is_worse(by_bits):
    grid = Grid(2)
    _, optimum, _ = grid.walk([0] * 4, np.full(60, 2), by_bits=by_bits)
    _, best, end = grid.walk(optimum, [1], by_bits=by_bits)
    assert end.tolist() != optimum.tolist()
    assert best.tolist() == optimum.tolist()


@both_kinds
@pytest.mark.parametrize("nu", [1e3, 1e8])
def test_a_huge_nu_takes_every_weight_to_zero(by_bits, nu):
    """The best shift tends to minus infinity; its formula must not cancel to log(0)."""
    grid = Grid(0, nu=nu, lam=0.0)
    grid.problem.A[1] = -1  # a column that is always wrong
    _, best, _ = grid.walk([3, 7, 1, 2], np.full(20, 1), by_bits=by_bits)
    assert best.tolist() == [0, 0, 0, 0]


# -- the limit ---------------------------------------------------------------------------


@both_kinds
@pytest.mark.parametrize("limit", [0, 1, 2])
def test_the_walk_never_keeps_more_than_the_limit(by_bits, limit):
    grid = Grid(5, limit=limit, lam=0.0)
    start = [0, 3, 0, 0] if limit else [0] * 4
    for position in grid.positions(start, np.full(15, 1), by_bits=by_bits):
        assert np.count_nonzero(position) <= limit


@both_kinds
def test_free_columns_do_not_count_against_the_limit(by_bits):
    grid = Grid(6, limit=1, lam=0.0, free=[0, 3])
    ends = grid.positions([0] * 4, np.full(20, 1), by_bits=by_bits)
    assert all(np.count_nonzero(p[1:3]) <= 1 for p in ends)
    assert any(p[0] > 0 or p[3] > 0 for p in ends)
    assert any(np.count_nonzero(p) > 1 for p in ends)


@both_kinds
def test_a_full_grid_may_still_change_its_weights(by_bits):
    grid = Grid(7, limit=2, lam=0.0)
    start = [1, 0, 1, 0]
    neighbours = grid.neighbours(start, by_bits)
    assert all(np.count_nonzero(p) <= 2 for p in neighbours)
    _, _, end = grid.walk(start, [1], by_bits=by_bits)
    assert end.tolist() == neighbours[0]


@both_kinds
def test_a_start_beyond_the_limit_is_never_the_best(by_bits):
    grid = Grid(7, limit=1, lam=0.5)  # a price that empties the ensemble
    value, best, _ = grid.walk([2, 2, 2, 0], np.full(30, 2), by_bits=by_bits)
    assert np.count_nonzero(best) <= 1
    assert value == pytest.approx(grid.value(best), rel=1e-5)


# -- tabu and aspiration -----------------------------------------------------------------


def slow_path(grid, start, tenures, target, by_bits, precision=1e-6):
    """Return the positions of the walk by its definition, in double precision."""
    path, levels, tabu_until = [list(start)], list(start), {}
    best = grid.value(np.array(start))
    for t, tenure in enumerate(tenures):
        for neighbour in grid.neighbours(levels, by_bits):
            value = grid.value(np.array(neighbour))
            variable = changed(levels, neighbour, by_bits)
            aspired = min(best, target) - precision  # by default that of float32
            aspires = max(value, grid.scored_value(levels, neighbour)) < aspired
            if tabu_until.get(variable, 0) <= t or aspires:
                j = variable[0] if by_bits else variable
                lasting = by_bits or (neighbour[j] > 0) != (levels[j] > 0)
                tabu_until[variable] = t + 1 + (tenure if lasting else 1)
                levels = neighbour
                best = min(best, value)
                break
        path.append(levels)
    return path


def changed(before, after, by_bits):
    """Return the variable that a move changed: a column, or a column and its bit."""
    j = int(np.flatnonzero(np.array(before) != np.array(after))[0])
    return (j, before[j] ^ after[j]) if by_bits else j


@both_kinds
@pytest.mark.parametrize("tenure", [1, 2, 5])
def test_a_variable_stays_tabu_for_its_tenure(by_bits, tenure):
    """A target that cannot be beaten leaves no occasion for aspiration."""
    for seed in range(4):
        grid = Grid(seed, n=5)
        tenures = np.full(12, tenure)
        path = grid.positions([0, 3, 0, 7, 1], tenures, target=-np.inf, by_bits=by_bits)
        assert path == slow_path(grid, [0, 3, 0, 7, 1], tenures, -np.inf, by_bits)


@both_kinds
def test_a_tabu_move_to_a_new_best_is_allowed(by_bits):
    n_used = 0
    for seed in range(12):
        grid = Grid(seed, n=3)
        tenures = np.full(10, 6)
        path = grid.positions([1, 0, 7], tenures, target=np.inf, by_bits=by_bits)
        expected = slow_path(grid, [1, 0, 7], tenures, np.inf, by_bits)
        assert path == expected
        n_used += expected != slow_path(grid, [1, 0, 7], tenures, -np.inf, by_bits)
    assert n_used > 0  # aspiration made a difference


@both_kinds
def test_a_return_to_the_best_point_is_not_a_new_best(by_bits):
    """Rounding in single precision must not lift the ban on the move back."""
    for seed in range(20):
        grid = Grid(seed, n=5, m=60)
        start = grid.walk([0] * 5, np.full(300, 3), target=np.inf, by_bits=by_bits)[1]
        path = grid.positions(start, np.full(5, 8), target=np.inf, by_bits=by_bits)
        better = [grid.value(np.array(p)) < grid.value(start) - 1e-7 for p in path]
        if not any(better):
            assert path[0] not in path[1:]


def test_aspiration_asks_for_a_value_below_the_target():
    """The best of earlier walks counts, not of this walk alone."""
    n_used = 0
    for seed in range(12):
        grid = Grid(seed, n=3)
        tenures = np.full(10, 6)
        value = grid.walk([1, 0, 7], tenures, target=np.inf, by_bits=True)[0]
        for target in (value - 0.01, value + 0.003):
            path = grid.positions([1, 0, 7], tenures, target=target, by_bits=True)
            assert path == slow_path(grid, [1, 0, 7], tenures, target, by_bits=True)
            n_used += path != slow_path(grid, [1, 0, 7], tenures, np.inf, by_bits=True)
    assert n_used > 0


@pytest.mark.parametrize("tenure", [1, 3])
def test_a_variable_is_free_again_after_its_tenure(tenure):
    # one bit: the only move is back and forth, and a tenure of k makes the walk wait k moves
    grid = Grid(8, n=1, n_bits=1)
    path = grid.positions([0], np.full(9, tenure), by_bits=True)
    moves = [t for t in range(9) if path[t] != path[t + 1]]
    assert moves[0] == 0
    assert set(np.diff(moves)) == {tenure + 1}


def test_everything_tabu_is_no_error():
    grid = Grid(9, n=1, n_bits=1)
    value, best, end = grid.walk([0], np.full(6, 100), by_bits=True)
    assert end.tolist() == [1]  # moved once, then waited
    values = [grid.value(np.array([level])) for level in (0, 1)]
    assert value == pytest.approx(min(values), rel=1e-5)
    assert best.tolist() == [int(np.argmin(values))]


def slow_descents(grid, start, tenures, target, by_bits, precision):
    """Return the positions of a walk with local searches in the place of aspiration."""
    path, levels, tabu_until = [list(start)], list(start), {}
    best, is_descending = np.inf, False
    for t, tenure in enumerate(tenures):
        here = grid.value(np.array(levels))
        if here < min(best, target) - 1e-9:
            is_descending = True
        best = min(best, here)
        neighbours = grid.neighbours(levels, by_bits)
        down = [n for n in neighbours if grid.value(np.array(n)) < here - precision]
        down = [
            n
            for n in down
            if tabu_until.get(changed(levels, n, by_bits), 0) <= t
            or grid.scored_value(levels, n) < here - precision
        ]
        is_descending = is_descending and bool(down)
        if is_descending:
            levels = down[0]
        else:
            free = [n for n in neighbours if tabu_until.get(changed(levels, n, by_bits), 0) <= t]
            if free:
                variable = changed(levels, free[0], by_bits)
                j = variable[0] if by_bits else variable
                lasting = by_bits or (free[0][j] > 0) != (levels[j] > 0)
                tabu_until[variable] = t + 1 + (tenure if lasting else 1)
                levels = free[0]
        path.append(levels)
    return path


@both_kinds
@pytest.mark.parametrize("loss", [None, "logistic", Squareplus()], ids=str)
def test_a_new_best_is_followed_by_a_local_search_that_knows_no_tabu(by_bits, loss):
    n_used = 0
    for seed in range(10):
        grid = Grid(seed, n=3, n_bits=2) if loss is None else AnyLossGrid(seed, loss, n_bits=2)
        start, tenures = np.random.default_rng(seed).integers(0, 4, grid.n), np.full(12, 4)
        value = grid.value(grid.walk(start, tenures, by_bits=by_bits, target=np.inf)[1])
        for target in (np.inf, value + 0.01, -np.inf):
            settings = {"target": target, "by_bits": by_bits, "descends": True}
            path = grid.positions(start, tenures, **settings)
            precision = 1e-9 if loss else 1e-5 * grid.value(start)
            assert path == slow_descents(grid, start, tenures, target, by_bits, precision)
            n_used += path != slow_path(grid, start, tenures, -np.inf, by_bits)
    assert n_used > 0


# -- losses other than the exponential -------------------------------------------------------

# Not the smoothed hinge: its curvature jumps at 0, where rounding would decide.
OTHER_LOSSES = ["logistic", "squared", Squareplus()]


@both_kinds
@pytest.mark.parametrize("descends", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_compiled_walks_are_those_of_numpy(loss, descends, by_bits):
    features = [{}, {"n_features": 3, "max_features": 2}]
    for seed in range(6):
        settings = {"n": 6, "limit": [None, 3][seed % 2], **features[seed % 3 == 0]}
        compiled, slow = (
            AnyLossGrid(seed, loss, in_numpy=in_numpy, **settings) for in_numpy in (False, True)
        )
        tenures = np.random.default_rng(seed).integers(1, 6, size=40)
        ranks = np.random.default_rng(seed).integers(0, 5 if seed % 2 else 1, size=40)
        rules = {"target": [np.inf, -np.inf][seed % 2], "by_bits": by_bits, "descends": descends}
        found, expected = (
            grid.walk([0] * 6, tenures, ranks=ranks, **rules) for grid in (compiled, slow)
        )
        assert found[1].tolist() == expected[1].tolist()
        assert found[2].tolist() == expected[2].tolist()


every_other_loss = pytest.mark.parametrize("loss", OTHER_LOSSES, ids=str)


@both_kinds
@every_other_loss
@pytest.mark.parametrize("tenure", [1, 2, 5])
@pytest.mark.parametrize("target", [-np.inf, np.inf])
def test_the_walk_of_any_loss_is_that_of_its_definition(by_bits, loss, tenure, target):
    for seed in range(4):
        grid = AnyLossGrid(seed, loss, n_bits=2, free=[1] if seed == 3 else ())
        tenures = np.full(15, tenure)
        path = grid.positions([0, 3], tenures, target=target, by_bits=by_bits)
        assert path == slow_path(grid, [0, 3], tenures, target, by_bits, precision=1e-9)
        value, best, _ = grid.walk([0, 3], tenures, target=target, by_bits=by_bits)
        assert value == pytest.approx(min(grid.value(np.array(p)) for p in path), abs=1e-9)
        assert best.tolist() in path


@every_other_loss
@pytest.mark.parametrize("tenure", [1, 3])
def test_a_variable_of_any_loss_is_free_again_after_its_tenure(loss, tenure):
    grid = AnyLossGrid(8, loss, n=1, n_bits=1)
    path = grid.positions([0], np.full(9, tenure), by_bits=True)
    moves = [t for t in range(9) if path[t] != path[t + 1]]
    assert moves[0] == 0
    assert set(np.diff(moves)) == {tenure + 1}


@both_kinds
@pytest.mark.parametrize("rank", [1, 2])
def test_a_rank_chooses_among_the_best_for_any_loss(by_bits, rank):
    grid = AnyLossGrid(1, "logistic", n_bits=2)
    neighbours = grid.neighbours([1, 2], by_bits)
    _, _, end = grid.walk([1, 2], [1], ranks=[rank], by_bits=by_bits)
    assert end.tolist() == neighbours[min(rank, len(neighbours) - 1)]


@both_kinds
def test_the_walk_of_any_loss_keeps_the_limit(by_bits):
    grid = AnyLossGrid(5, "logistic", limit=1, lam=0.0, n_bits=2)
    for position in grid.positions([0, 0], np.full(15, 1), by_bits=by_bits):
        assert np.count_nonzero(position) <= 1


# -- features --------------------------------------------------------------------------------


@both_kinds
@pytest.mark.parametrize("limit", [None, 1, 2])
@pytest.mark.parametrize("seed", range(6))
def test_moves_pay_for_features_and_keep_their_limit(seed, limit, by_bits):
    grid = Grid(seed, n_features=3, scale=0.05, max_features=limit)
    start = np.array([0, 3, 0, 0])
    if limit is not None and grid.problem.n_features_read(start) > limit:
        start[:] = 0
    for here in [start, grid.walk(start, [1] * 4, by_bits=by_bits)[2]]:
        end = grid.walk(here, [5], by_bits=by_bits)[2]
        expected = grid.value(np.array(grid.neighbours(here, by_bits)[0]))
        assert grid.value(end) == pytest.approx(expected, abs=1e-6)
        assert not grid.reads_too_many(end, here)
    value, best, _ = grid.walk(start, [2] * 60, by_bits=by_bits)
    assert value == pytest.approx(grid.value(best), abs=1e-5)
    assert grid.problem.is_feasible(grid.step * best)


@both_kinds
@pytest.mark.parametrize("limit", [None, 1])
@pytest.mark.parametrize("seed", range(6))
def test_any_loss_pays_for_features_and_keeps_their_limit(seed, limit, by_bits):
    grid = AnyLossGrid(seed, "logistic", n=3, n_features=2, scale=0.05, max_features=limit)
    value, best, _ = grid.walk(np.zeros(3), [2] * 60, by_bits=by_bits)
    assert grid.problem.is_feasible(grid.step * best)
    levels = np.stack(np.meshgrid(*[range(8)] * 3), axis=-1).reshape(-1, 3)
    feasible = [each for each in levels if grid.problem.is_feasible(grid.step * each)]
    assert value <= min(map(grid.value, feasible)) + 0.01
