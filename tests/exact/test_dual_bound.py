"""The dual bound holds in exact arithmetic: its point satisfies all constraints there."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from solver_contract import random_problem

from totalqboost.master import MasterProblem
from totalqboost.refit import refit


@pytest.mark.parametrize("cost", [None, [0.0, 1.0, 1.0]], ids=["priced", "free"])
def test_no_column_prices_out_in_exact_arithmetic(cost, monkeypatch):
    """A sum of floats is off by its rounding, in either direction; the bound must not be."""
    least_conjugate, points = MasterProblem._least_conjugate, []

    def noted(self, u, largest):
        points.append((u, largest))
        return least_conjugate(self, u, largest)

    monkeypatch.setattr(MasterProblem, "_least_conjugate", noted)
    for seed in range(12):
        problem = random_problem(seed, n=3, m=150, nu=1e-2, cost=cost)
        problem.dual_bound(problem.dual_weights(refit(problem, np.arange(3), tol=1e-12)))
        u, factor = points[-1]
        weights = [Fraction(float(value)) * Fraction(float(factor)) for value in u]
        for column, nu in zip(problem.A, problem.nus, strict=True):
            edge = sum(int(sign) * weight for sign, weight in zip(column, weights, strict=True))
            assert edge <= Fraction(float(nu))
