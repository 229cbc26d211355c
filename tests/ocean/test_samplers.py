"""Our searches as dimod samplers: dimod's own suite, and optima of small models."""

from __future__ import annotations

import unittest

import dimod
import numpy as np
import pytest

from totalqboost.solvers.ocean import LocalSearchSampler, TabuSearchSampler

SAMPLERS = [LocalSearchSampler, TabuSearchSampler]
every_sampler = pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda s: s.__name__)


@dimod.testing.load_sampler_bqm_tests(LocalSearchSampler)
@dimod.testing.load_sampler_bqm_tests(TabuSearchSampler)
class TestDimodsOwnSuite(unittest.TestCase):
    """Filled by the decorators."""

    def test_the_interface_is_that_of_a_sampler(self):
        for sampler in SAMPLERS:
            dimod.testing.assert_sampler_api(sampler())


def random_bqm(seed, vartype, n=12):
    """Return a dense model with biases of both signs: it has many local minima."""
    rng = np.random.default_rng(seed)
    row, col = np.triu_indices(n, 1)
    couplings = rng.normal(size=len(row))
    return dimod.BQM.from_numpy_vectors(rng.normal(size=n), (row, col, couplings), 0.5, vartype)


@every_sampler
@pytest.mark.parametrize("vartype", ["SPIN", "BINARY"])
def test_small_models_are_solved(sampler, vartype):
    for seed in range(5):
        bqm = random_bqm(seed, vartype)
        found = sampler().sample(bqm, num_reads=5, seed=seed)
        dimod.testing.assert_response_energies(found, bqm)
        assert found.first.energy == pytest.approx(dimod.ExactSolver().sample(bqm).first.energy)


@every_sampler
def test_a_seed_reproduces_and_more_reads_do_not_change_the_first(sampler):
    bqm = random_bqm(3, "SPIN", n=60)
    short = {"num_perturbations": 0} if sampler is LocalSearchSampler else {"num_moves": 20}

    def reads(num_reads, seed):
        return sampler().sample(bqm, num_reads=num_reads, seed=seed, **short).record.sample

    np.testing.assert_array_equal(reads(3, 5), reads(3, 5))
    np.testing.assert_array_equal(reads(3, 5), reads(6, 5)[:3])
    assert (reads(3, 5) != reads(3, 6)).any()


@every_sampler
def test_initial_states_are_where_the_search_begins(sampler):
    bqm = random_bqm(1, "BINARY", n=14)
    best = dimod.ExactSolver().sample(bqm).first
    nothing = {"num_perturbations": 0} if sampler is LocalSearchSampler else {"num_moves": 0}
    found = sampler().sample(bqm, initial_states=best.sample, seed=0, **nothing)
    assert len(found) == 1
    assert found.first.sample == best.sample


@every_sampler
def test_an_unknown_parameter_is_a_warning_as_in_dimod(sampler):
    with pytest.warns(dimod.exceptions.SamplerUnknownArgWarning):
        sampler().sample(dimod.BQM({"a": 1.0}, {}, "SPIN"), bogus=1)


def test_more_moves_are_never_worse_and_few_are_not_enough():
    bqm = random_bqm(7, "SPIN", n=60)
    energies = [
        TabuSearchSampler().sample(bqm, num_reads=4, num_moves=moves, seed=2).record.energy
        for moves in (5, 2000)
    ]
    assert (energies[1] <= energies[0] + 1e-9).all()
    assert energies[1].mean() < energies[0].mean() - 1.0


@pytest.mark.parametrize(
    ("sampler", "settings", "message"),
    [
        (TabuSearchSampler, {"tenure": -3}, "tenure must be an integer >= 0, got -3"),
        (TabuSearchSampler, {"num_moves": -1}, "num_moves must be an integer >= 0, got -1"),
        (TabuSearchSampler, {"num_moves": 1.5}, r"num_moves must be an integer >= 0, got 1\.5"),
        (
            LocalSearchSampler,
            {"num_perturbations": -1},
            "num_perturbations must be an integer >= 0, got -1",
        ),
    ],
    ids=str,
)
def test_bad_budgets_are_named(sampler, settings, message):
    with pytest.raises(ValueError, match=message):
        sampler().sample(random_bqm(0, "SPIN"), **settings)
