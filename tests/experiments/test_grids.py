"""Grids of penalties: from where nothing pays to where everything does, at every size."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from totalqboost.experiments.grids import eliminated_risks, lower_envelope, penalty_grid
from totalqboost.master import MasterProblem
from totalqboost.refit import refit_value


def chosen_sizes(risks, grid):
    return [int(np.argmin(risks + lam * np.arange(len(risks)))) for lam in grid]


def test_the_lower_envelope_of_a_sequence_has_growing_slopes():
    corners = lower_envelope(np.array([5.0, 4.0, 2.0, 1.9, 1.5, 1.6]))
    assert corners.tolist() == [0, 2, 4]


def test_a_convex_curve_has_a_penalty_for_every_size():
    risks = 0.7 ** np.arange(10)
    assert chosen_sizes(risks, penalty_grid(risks, 10)) == list(range(10))


@pytest.mark.parametrize("n_penalties", [3, 7, 40])
def test_grids_fall_and_have_the_length_asked_for(n_penalties):
    risks = np.array([1.0, 0.9, 0.9, 0.5, 0.45, 0.3, 0.25, 0.24, 0.235])
    grid = penalty_grid(risks, n_penalties)
    assert len(grid) == n_penalties
    assert (np.diff(grid) < 0).all()
    assert chosen_sizes(risks, grid)[0] == 0
    assert chosen_sizes(risks, grid)[-1] == 8


def test_many_corners_are_thinned_evenly_on_a_log_scale():
    risks = 1.0 / (1.0 + np.arange(65))
    sizes = chosen_sizes(risks, penalty_grid(risks, 8))
    assert sizes == [0, 1, 2, 4, 8, 16, 32, 64]


def test_a_grid_exists_when_no_column_helps():
    assert len(penalty_grid(np.array([1.0, 1.0]), 5)) == 5


def test_eliminated_risks_fall_and_are_near_the_best_of_each_size():
    rng = np.random.default_rng(0)
    A = np.where(rng.random((6, 80)) < 0.62, 1, -1).astype(np.int8)
    problem = MasterProblem(A, nu=1e-6, lam=0.0)
    risks = eliminated_risks(problem)
    best = [
        min(refit_value(problem, np.array(s, dtype=int), tol=1e-8)[1] for s in subsets)
        for subsets in (list(combinations(range(6), k)) for k in range(7))
    ]
    assert (np.diff(risks) <= 1e-9).all()
    assert (risks >= np.array(best) - 1e-6).all()
    assert risks == pytest.approx(best, rel=0.02)
