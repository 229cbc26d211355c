"""How far solutions of a node reach, against a general optimiser."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from totalqboost import losses
from totalqboost.kernels.exact.reach import Center, farthest, reaches
from totalqboost.kernels.exact.relaxation import Data, Ranges

NU = np.array([1e-3, 1e-9, 1e-3, 1e-3, 1e-2])
SPARE = 0.05


class Case:
    """A node of a small problem, and its relaxation in NumPy."""

    def __init__(self, seed, loss, k=5, m=70):
        rng = np.random.default_rng(seed)
        self.A = np.where(rng.random((k, m)) < 0.6, 1, -1).astype(np.int8)
        self.c = rng.random(m) + 0.1
        self.c /= self.c.sum()
        self.loss, self.columns = losses.get(loss), np.arange(k)
        is_in = np.arange(k) == 1
        price = rng.uniform(0.005, 0.02, k)
        lo, hi = np.full(k, 0.02), rng.uniform(0.8, 2.0, k)
        self.ranges = Ranges(price, is_in, lo, hi, np.zeros(k), k)
        self.fixed = price[is_in].sum()
        self.slopes = NU + np.where(is_in, 0.0, price / hi)
        self.box = list(zip(np.where(is_in, lo, 0.0), hi, strict=True))
        x = minimize(self.value, np.full(k, 0.1), jac=self.gradient, bounds=self.box, tol=1e-12).x
        curvature = self.c * self.loss.curvature(x @ self.A)
        H = (self.A * curvature) @ self.A.T + 1e-6 * np.eye(k)
        self.center = Center(x, H, np.linalg.inv(H), self.value(x), SPARE)
        self.cutoff = self.value(x) + SPARE + self.fixed

    def value(self, w):
        return self.c @ self.loss.value(w @ self.A) + self.slopes @ w

    def gradient(self, w):
        return self.slopes - self.A @ (self.c * self.loss.weight(w @ self.A))

    def reach(self, e):
        """Return the largest e'w with a relaxed value below the cutoff."""
        room = self.cutoff - self.fixed
        found = minimize(
            lambda w: -(e @ w),
            self.center.x,
            jac=lambda w: -e,
            bounds=self.box,
            constraints={
                "type": "ineq",
                "fun": lambda w: room - self.value(w),
                "jac": lambda w: -self.gradient(w),
            },
            method="SLSQP",
            options={"maxiter": 500, "ftol": 1e-12},
        )
        assert self.value(found.x) <= room + 1e-7  # a point of the node, the farthest or not
        return -found.fun

    def arguments(self):
        data = Data(self.A, self.columns, self.c, self.loss.code)
        return data, NU, self.ranges, self.ranges.price, self.cutoff, self.center


@pytest.mark.parametrize("loss", losses.names())
@pytest.mark.parametrize("seed", range(4))
def test_the_bound_is_above_the_farthest_point_and_not_by_far(seed, loss):
    case = Case(seed, loss)
    rng = np.random.default_rng(seed)
    k = len(case.columns)
    directions = [*np.eye(k), *(-np.eye(k)), *case.A[:, :6].T, rng.normal(size=k)]
    for e in directions:
        e = np.ascontiguousarray(e, dtype=float)
        bound, truth = farthest(*case.arguments(), e), case.reach(e)
        at = e @ case.center.x
        assert bound >= truth - 1e-6
        assert bound - at <= 1.3 * (truth - at) + 0.02


@pytest.mark.parametrize("spare", [1e-4, 10.0])
def test_it_holds_whatever_is_known_of_the_center(spare):
    case = Case(7, "exponential")
    k = len(case.columns)
    x = np.full(k, 0.3)
    case.center = Center(x, np.eye(k), np.eye(k), 0.5, spare)
    for e in np.eye(k):
        assert farthest(*case.arguments(), e) >= case.reach(e) - 1e-6


def test_many_directions_are_bounded_one_by_one():
    case = Case(3, "logistic")
    weights, rows = np.eye(len(case.columns))[1:4], case.A[:, 5:9].T.astype(float)
    for directions in (weights, rows, -rows):
        tops = np.empty(len(directions))
        reaches(*case.arguments(), np.ascontiguousarray(directions), tops)
        expected = [farthest(*case.arguments(), e) for e in np.ascontiguousarray(directions)]
        np.testing.assert_allclose(tops, expected, rtol=1e-12)
