"""Every builder against ``MasterProblem.objective``, by enumeration of all states."""

from __future__ import annotations

import io
from itertools import product

import dimod
import numpy as np
import pytest
from dwave.optimization import Model
from solver_contract import Squareplus, random_problem, with_features

from totalqboost import MasterProblem, losses
from totalqboost.refit import refit
from totalqboost.solvers import build_bqm, build_cqm, build_nonlinear
from totalqboost.solvers.ocean import SecondOrderModel
from totalqboost.solvers.ocean.search import relaxed

COST = np.array([1.0, 0.0, 0.5, 2.0, 1.0])  # of the first n columns: one is free


def problem_of(n, loss="squared", **settings):
    return random_problem(n, n=n, m=40, loss=loss, cost=COST[:n], **settings)


def grid(n, n_bits):
    """Return all levels, one row per state."""
    return np.array(list(product(range(2**n_bits), repeat=n)), dtype=float)


def least_energies(model):
    """Return the least energy over the auxiliary bits for each vector of weights."""
    found = dimod.ExactSolver().sample(model.bqm)
    least: dict[tuple, float] = {}
    for w, energy in zip(model.decode(found), found.record.energy, strict=True):
        key = tuple(w)
        least[key] = min(energy, least.get(key, np.inf))
    return least


# -- binary quadratic model --------------------------------------------------------------------


@pytest.mark.parametrize(("n", "n_bits"), [(2, 3), (3, 2), (4, 2), (4, 3), (5, 2)])
def test_bqm_equals_the_objective_of_the_squared_loss_at_every_state(n, n_bits):
    problem = problem_of(n, lam=0.03)
    at = np.random.default_rng(n).random(n)  # any point will do: the model is exact
    model = build_bqm(problem, at, "binary", n_bits=n_bits)
    assert model.n_variables == n * n_bits + (n - 1)  # the free column has no auxiliary bit
    least = least_energies(model)
    assert len(least) == 2 ** (n * n_bits)
    for w, energy in least.items():
        assert energy == pytest.approx(problem.objective(np.array(w)), abs=1e-12)


@pytest.mark.parametrize("n", [1, 3, 5])
def test_indicator_bqm_equals_the_objective_of_the_squared_loss(n):
    problem = problem_of(n, lam=0.03)
    model = build_bqm(problem)
    assert model.n_variables == n
    least = least_energies(model)
    assert len(least) == 2**n
    for w, energy in least.items():
        assert energy == pytest.approx(problem.objective(np.array(w)), abs=1e-12)


def test_one_bit_of_a_common_size_is_qboost_of_neven_et_al():
    # mean (y - sum_j w_j h_j / N)^2 + lam sum_j w_j, w in {0, 1}, as their paper states it
    rng = np.random.default_rng(0)
    y, H = rng.choice([-1, 1], 30), rng.choice([-1, 1], (4, 30))
    problem = MasterProblem(H * y, nu=0.0, lam=0.02, loss="squared")
    model = build_bqm(problem, step=1 / 4)
    for bits in product((0, 1), repeat=4):
        theirs = np.mean((y - np.array(bits) @ H / 4) ** 2) + 0.02 * sum(bits)
        sample = {f"z{j}": bit for j, bit in enumerate(bits)}
        assert model.bqm.energy(sample) == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("loss", [*losses.names(), Squareplus()], ids=str)
@pytest.mark.parametrize("kappa", [1.0, 3.0])
def test_bqm_of_any_loss_is_the_second_order_model(loss, kappa):
    problem = problem_of(3, loss)
    at = np.array([0.2, 0.0, 0.4])
    model = build_bqm(problem, at, "binary", n_bits=2, step=0.2, kappa=kappa)
    z = problem.A.T @ at
    c = problem.sample_weight
    for w, energy in least_energies(model).items():
        d = problem.A.T @ (np.array(w) - at)
        terms = problem.loss.value(z) - problem.loss.weight(z) * d
        terms = terms + kappa / 2 * problem.loss.curvature(z) * d**2
        assert energy == pytest.approx(c @ terms + problem.penalty(np.array(w)), abs=1e-12)


def test_the_second_order_model_touches_the_risk_at_its_point():
    problem = problem_of(4, "exponential", lam=0.0)
    at = refit(problem, np.arange(4), tol=1e-9)
    direction = np.array([0.3, -0.1, 0.2, 0.4])
    errors = []
    for h in (1e-1, 1e-2):
        w = at + h * direction
        errors.append(abs(SecondOrderModel.of(problem, at, 1.0).value(w) - problem.objective(w)))
    assert errors[1] < 2e-3 * errors[0]  # of third order


@pytest.mark.parametrize("encoding", ["indicator", "binary"])
@pytest.mark.parametrize("limit", [0, 1, 2])
@pytest.mark.parametrize("lam", [0.0, 0.02, 5.0])
def test_the_limit_of_a_bqm_is_exact(encoding, limit, lam):
    problem = problem_of(4 if encoding == "indicator" else 3, lam=lam, max_learners=limit)
    model = build_bqm(problem, None, encoding, n_bits=2)
    empty = problem.objective(np.zeros(problem.n_columns))
    n_feasible = 0
    for w, energy in least_energies(model).items():
        if problem.is_feasible(np.array(w)):
            n_feasible += 1
            assert energy == pytest.approx(problem.objective(np.array(w)), abs=1e-11)
        else:
            assert energy > empty  # never the minimum
    assert n_feasible > 0


def test_a_limit_that_does_not_bind_adds_nothing():
    limited, free = problem_of(4, max_learners=3), problem_of(4)
    models = [build_bqm(problem, np.zeros(4), step=0.1).bqm for problem in (limited, free)]
    assert models[0] == models[1]


def test_reads_are_mapped_by_label_in_any_order_and_vartype():
    problem = problem_of(3)
    model = build_bqm(problem, None, "binary", n_bits=2)
    sample = {"q0_0": 1, "q0_1": 1, "q1_0": 0, "q1_1": 0, "q2_0": 0, "q2_1": 1}
    sample |= {"z0": 1, "z1": 0, "z2": 1}
    labels = list(reversed(list(sample)))
    shuffled = ([[sample[v] for v in labels]], labels)
    np.testing.assert_allclose(model.decode(shuffled)[0] / model.step, [3, 0, 2])
    spins = dimod.SampleSet.from_samples([sample], "BINARY", 0.0).change_vartype("SPIN")
    np.testing.assert_allclose(model.decode(spins)[0] / model.step, [3, 0, 2])


def test_missing_variables_are_named():
    model = build_bqm(problem_of(3))
    with pytest.raises(ValueError, match=r"'z1' is missing and 1 more"):
        model.decode({"z0": 1})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"encoding": "unary"}, r"encoding must be one of .* got 'unary'"),
        ({"encoding": "binary", "n_bits": 0}, "n_bits must be an integer from 1 to 12, got 0"),
        ({"step": 0.0}, "step must be a finite number > 0, or 3 of them, got 0.0"),
        ({"kappa": 0.0}, "kappa must be a finite number > 0, got 0"),
        ({"kappa": "a"}, "kappa must be a finite number > 0, got 'a'"),
        ({"at": np.zeros(2)}, r"at must hold 3 finite weights >= 0, got array\(\[0., 0.\]\)"),
        ({"at": np.array([0.0, -1.0, 0.0])}, "at must hold 3 finite weights >= 0"),
        ({"at": np.nan}, "at must hold 3 finite weights >= 0, got nan"),
    ],
)
def test_bad_arguments_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        build_bqm(problem_of(3), **settings)


@pytest.mark.parametrize("build", [build_bqm, build_cqm, build_nonlinear])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_bits": None}, "n_bits must be an integer from 1 to 12, got None"),
        ({"n_bits": "auto"}, "n_bits must be an integer from 1 to 12, got 'auto'"),
        ({"n_bits": 2.7}, r"n_bits must be an integer from 1 to 12, got 2\.7"),
        ({"n_bits": True}, "n_bits must be an integer from 1 to 12, got True"),
        ({"step": [1, 2]}, r"step must be a finite number > 0, or 3 of them, got \[1, 2\]"),
        ({"step": -1}, "step must be a finite number > 0, or 3 of them, got -1"),
        ({"step": "a"}, "step must be a finite number > 0, or 3 of them, got 'a'"),
    ],
    ids=str,
)
def test_bad_grids_are_named_by_every_builder(build, settings, message):
    with pytest.raises(ValueError, match=message):
        build(problem_of(3), **settings)


def test_whole_numbers_may_come_as_floats_with_rounding():
    model = build_cqm(problem_of(3), n_bits=2)
    levels = model.decode({"k0": 1.0000001, "k1": 0.0, "k2": 2.9999999})[0] / model.step
    np.testing.assert_allclose(levels, [1, 0, 3])


# -- constrained quadratic model ---------------------------------------------------------------


@pytest.mark.parametrize(("n", "n_bits"), [(3, 2), (4, 2), (5, 1), (2, 3)])
@pytest.mark.parametrize("limit", [None, 1])
def test_cqm_equals_the_objective_of_the_squared_loss_at_every_state(n, n_bits, limit):
    problem = problem_of(n, lam=0.03, max_learners=limit)
    model = build_cqm(problem, n_bits=n_bits)
    found = dimod.ExactCQMSolver().sample_cqm(model.cqm)
    least: dict[tuple, float] = {}
    for w, energy, is_feasible in zip(
        model.decode(found), found.record.energy, found.record.is_feasible, strict=True
    ):
        if is_feasible:
            least[tuple(w)] = min(energy, least.get(tuple(w), np.inf))
    feasible = [w for w in grid(n, n_bits) * model.step if problem.is_feasible(w)]
    assert set(least) == {tuple(w) for w in feasible}
    for w in feasible:
        assert least[tuple(w)] == pytest.approx(problem.objective(w), abs=1e-12)


def test_cqm_of_another_loss_has_the_minimum_of_its_second_order_model():
    problem = problem_of(3, "exponential", lam=0.02)
    at = np.array([0.3, 0.1, 0.0])
    model = build_cqm(problem, at, n_bits=2, kappa=2.0)
    found = dimod.ExactCQMSolver().sample_cqm(model.cqm).filter(lambda d: d.is_feasible).first
    values = [SecondOrderModel.of(problem, at, 2.0).value(w) for w in grid(3, 2) * model.step]
    assert found.energy == pytest.approx(min(values), abs=1e-12)


# -- nonlinear model ---------------------------------------------------------------------------


def states_of(model, n_constraints):
    """Return the objective and the feasibility of every state of a model."""
    values, feasible = [], []
    with model.lock():
        for i in range(model.states.size()):
            values.append(float(model.objective.state(i)))
            constraints = [bool(c.state(i)) for c in model.iter_constraints()]
            assert len(constraints) == n_constraints
            feasible.append(all(constraints))
    return np.array(values), np.array(feasible)


@pytest.mark.parametrize("loss", losses.names())
@pytest.mark.parametrize(("n", "n_bits"), [(2, 3), (3, 3), (5, 2)])
@pytest.mark.parametrize("limit", [None, 2])
def test_nonlinear_model_is_the_objective_at_every_state(loss, n, n_bits, limit):
    problem = problem_of(n, loss, lam=0.02, max_learners=limit)
    built = build_nonlinear(problem, n_bits=n_bits)
    w = grid(n, n_bits) * built.step
    expected = np.array([problem.objective(row) for row in w])
    is_feasible = np.array([problem.is_feasible(row) for row in w])
    built.put(w)
    file = io.BytesIO()
    built.model.into_file(file)
    file.seek(0)
    reloaded = Model.from_file(file)
    reloaded.states.resize(len(w))
    decision = next(reloaded.iter_decisions())
    for i, levels in enumerate(grid(n, n_bits)):
        decision.set_state(i, levels)
    for model in (built.model, reloaded):
        values, feasible = states_of(model, 0 if limit is None else 1)
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(feasible, is_feasible)
        np.testing.assert_allclose(built.decode(model), w)


def test_nonlinear_model_merges_equal_rows_without_a_change_of_the_objective():
    small = problem_of(3, "exponential")
    problem = MasterProblem(np.tile(small.A, 30), small.nu, small.lam, small.cost)
    assert problem.merged().n_rows < problem.n_rows
    built = build_nonlinear(problem, n_bits=2)
    w = grid(3, 2) * built.step
    built.put(w)
    values, _ = states_of(built.model, 0)
    np.testing.assert_allclose(values, [problem.objective(row) for row in w], atol=1e-12)


def test_a_loss_of_the_users_own_has_no_nonlinear_model():
    with pytest.raises(ValueError, match=r"loss must be 'exponential'.* got Squareplus\(\)"):
        build_nonlinear(problem_of(3, Squareplus()))


# -- free columns --------------------------------------------------------------------------------


def with_intercept(loss, nu=0.5):
    """Return a problem with a free intercept of either sign, and a nu that it must not pay."""
    others = random_problem(3, n=2, m=40)
    signs = np.where(np.arange(40) < 29, 1, -1)
    A = np.vstack([signs, -signs, others.A])
    return MasterProblem(A, nu=nu, lam=0.02, loss=loss, cost=np.array([0.0, 0.0, 1.0, 1.0]))


@pytest.mark.parametrize("encoding", ["indicator", "binary"])
def test_free_columns_pay_no_nu_in_a_bqm(encoding):
    problem = with_intercept("squared")
    model = build_bqm(problem, np.zeros(4), encoding, n_bits=2, step=0.3)
    for w, energy in least_energies(model).items():
        assert energy == pytest.approx(problem.objective(np.array(w)), abs=1e-12)


def test_free_columns_pay_no_nu_in_a_cqm():
    problem = with_intercept("squared")
    model = build_cqm(problem, np.zeros(4), n_bits=1, step=0.3)
    found = dimod.ExactCQMSolver().sample_cqm(model.cqm)
    for w, energy in zip(model.decode(found), found.record.energy, strict=True):
        assert energy == pytest.approx(problem.objective(w), abs=1e-12)


@pytest.mark.parametrize("loss", losses.names())
def test_free_columns_pay_no_nu_in_a_nonlinear_model(loss):
    problem = with_intercept(loss)
    built = build_nonlinear(problem, n_bits=2, step=0.3)
    w = grid(4, 2) * built.step
    built.put(w)
    expected = [problem.objective(row) for row in w]
    np.testing.assert_allclose(states_of(built.model, 0)[0], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("loss", [*losses.names(), Squareplus()], ids=str)
def test_free_columns_pay_no_nu_in_the_second_order_model(loss):
    problem = with_intercept(loss)
    at = np.array([0.4, 0.0, 0.2, 0.0])
    model = SecondOrderModel.of(problem, at, 1.0)
    assert model.value(at) == pytest.approx(problem.objective(at), abs=1e-12)
    for j, is_free in enumerate([True, True, False, False]):
        step = 1e-6 * np.eye(4)[j]
        slope = (model.value(at + step) - model.value(at) - problem.lam * (j == 3)) / 1e-6
        expected = (0.0 if is_free else 0.5) - problem.edges(problem.dual_weights(at))[j]
        assert slope == pytest.approx(expected, abs=1e-5)


def test_the_first_point_charges_the_price_to_priced_columns_alone():
    """lam w_j stands in for lam [w_j > 0]; a free column has no price."""
    problem = with_intercept("exponential", nu=1e-3)
    expected = refit(problem.changed(nu=1e-3 + problem.lam), np.arange(4), tol=1e-9)
    np.testing.assert_allclose(relaxed(problem), expected, atol=1e-4)
    share = 29 / 40
    huge = relaxed(problem.changed(lam=100.0))
    assert huge[0] - huge[1] == pytest.approx(0.5 * np.log(share / (1 - share)), abs=1e-4)


# -- features ----------------------------------------------------------------------------------

FEATURES = [(None, 0.03), (0, 0.0), (1, 0.03), (2, 0.0)]
every_limit_of_features = pytest.mark.parametrize(("limit", "scale"), FEATURES)


def with_three_features(n, limit, scale, **settings):
    problem = problem_of(n, lam=0.02, **settings)
    return with_features(problem, 5, scale=scale, max_features=limit)


@every_limit_of_features
@pytest.mark.parametrize("max_learners", [None, 1])
@pytest.mark.parametrize(("encoding", "n"), [("indicator", 5), ("binary", 3)])
def test_a_bqm_pays_for_features_and_keeps_their_limit(encoding, n, max_learners, limit, scale):
    problem = with_three_features(n, limit, scale, max_learners=max_learners)
    assert problem.has_groups or limit == 2  # two columns may read two features at most
    model = build_bqm(problem, None, encoding, n_bits=2)
    empty = problem.objective(np.zeros(n))
    least = least_energies(model)
    assert len(least) == 2 ** (n if encoding == "indicator" else 2 * n)
    for w, energy in least.items():
        if problem.is_feasible(np.array(w)):
            assert energy == pytest.approx(problem.objective(np.array(w)), abs=1e-11)
        else:
            assert energy > empty


@every_limit_of_features
@pytest.mark.parametrize("n_bits", [1, 2])
def test_a_cqm_pays_for_features_and_keeps_their_limit(n_bits, limit, scale):
    problem = with_three_features(3, limit, scale)
    model = build_cqm(problem, n_bits=n_bits)
    least: dict[tuple, float] = {}
    found = dimod.ExactCQMSolver().sample_cqm(model.cqm)
    feasible = found.filter(lambda row: row.is_feasible)
    for w, energy in zip(model.decode(feasible), feasible.record.energy, strict=True):
        least[tuple(w)] = min(energy, least.get(tuple(w), np.inf))
    states = model.step * grid(3, n_bits)
    assert set(least) == {tuple(w) for w in states if problem.is_feasible(w)}
    for w, energy in least.items():
        assert energy == pytest.approx(problem.objective(np.array(w)), abs=1e-11)


@every_limit_of_features
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_a_nonlinear_model_pays_for_features_and_keeps_their_limit(loss, limit, scale):
    problem = with_three_features(4, limit, scale, loss=loss)
    model = build_nonlinear(problem, n_bits=1)
    states = model.step * grid(4, 1)
    model.put(states)
    model.model.lock()
    for i, w in enumerate(states):
        assert model.model.objective.state(i) == pytest.approx(problem.objective(w), abs=1e-12)
        is_feasible = all(bool(each.state(i)) for each in model.model.iter_constraints())
        assert is_feasible == problem.is_feasible(w)
