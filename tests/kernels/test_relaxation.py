"""Kernels of the exact solver, each against a slow NumPy twin."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize

from totalqboost import losses
from totalqboost.kernels.exact.curvature import (
    curvature_floor,
    exponential_ratio,
    tangent_ratio,
)
from totalqboost.kernels.exact.relaxation import (
    Data,
    Ranges,
    envelope,
    minimise_penalised,
    penalties,
    relax,
    relaxed_value,
)
from totalqboost.kernels.loss_codes import EXPONENTIAL, LOGISTIC, SMOOTHED_HINGE, SQUARED
from totalqboost.kernels.newton import loss_at

CODES = {
    "exponential": EXPONENTIAL,
    "logistic": LOGISTIC,
    "squared": SQUARED,
    "smoothed_hinge": SMOOTHED_HINGE,
}
every_loss = pytest.mark.parametrize("name", sorted(CODES))
every_seed = pytest.mark.parametrize("seed", range(3))


@every_loss
@pytest.mark.parametrize("z", [-30.0, -2.0, -0.3, 0.4, 0.999, 3.0, 40.0])
def test_loss_at_is_the_loss_with_its_derivatives(name, z):
    loss = losses.get(name)
    value, weight, curvature = loss_at(CODES[name], z)
    assert value == pytest.approx(float(loss.value(np.array(z))), rel=1e-12, abs=1e-300)
    assert weight == pytest.approx(float(loss.weight(np.array(z))), rel=1e-12, abs=1e-300)
    h = 1e-4
    slope = (loss.weight(np.array(z - h)) - loss.weight(np.array(z + h))) / (2 * h)
    assert curvature <= float(slope) * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("x", [0.0, 1e-9, 1e-3, 0.0199, 0.0201, 1.0, 30.0, 1e200])
def test_exponential_ratio_is_never_above_the_integral(x):
    exact = quad(lambda s: (1 - s) * np.exp(-s * min(x, 1e3)), 0, 1)[0]
    if x <= 1e3:
        assert exponential_ratio(x) == pytest.approx(exact, rel=1e-7)
    assert exponential_ratio(x) <= exact + 1e-12


@every_loss
def test_tangent_ratio_is_a_lower_bound_of_the_integral(name):
    loss = losses.get(name)
    rng = np.random.default_rng(0)
    for _ in range(60):
        z, t = rng.normal(scale=4, size=2)
        gap = float(loss.value(np.array(t)) - loss.value(np.array(z)))
        gap += float(loss.weight(np.array(z))) * (t - z)
        found = tangent_ratio(CODES[name], z, t)
        assert found <= gap / (t - z) ** 2 + 1e-12
        assert found >= 0.0


@every_loss
def test_curvature_floor_holds_on_the_whole_range(name):
    """The lemma of the bound: a parabola below the loss, anywhere in the range."""
    loss = losses.get(name)
    rng = np.random.default_rng(1)
    m = 60
    z = rng.normal(scale=3, size=m)
    low, high = z - rng.exponential(3, m), z + rng.exponential(3, m)
    high[::7] = z[::7]  # ranges that end at the point, and beyond it
    low[1::7] = z[1::7] + 0.5
    high[1::7] = z[1::7] + 2.0
    c, floor = rng.random(m), np.empty(m)
    curvature_floor(CODES[name], z, low, high, c, floor)
    assert (floor >= 0).all()
    for share in np.linspace(0, 1, 41):
        t = low + share * (high - low)
        tangent = c * (loss.value(z) - loss.weight(z) * (t - z))
        assert (c * loss.value(t) >= tangent + floor * (t - z) ** 2 - 1e-12).all()


def test_an_infinite_range_has_no_curvature_but_for_the_squared_loss():
    z, c, out = np.array([0.3]), np.array([1.0]), np.empty(1)
    for name, code in CODES.items():
        curvature_floor(code, z, np.array([-np.inf]), np.array([np.inf]), c, out)
        assert out[0] == (1.0 if name == "squared" else 0.0)


@pytest.mark.parametrize("d", [0.0, 0.1, 2.0])
@pytest.mark.parametrize("lo", [0.0, 0.4])
@pytest.mark.parametrize("price", [0.0, 0.02, 1.0])
def test_envelope_is_the_convex_hull_of_the_penalty(d, lo, price):
    hi = 1.5
    slope, knot = envelope(d, lo, hi, price)
    x = np.linspace(max(lo, 1e-9), hi, 2000)
    assert slope == pytest.approx(np.min(0.5 * d * x + price / x), abs=1e-3)
    assert lo <= knot <= hi
    assert slope * knot <= 0.5 * d * knot**2 + price + 1e-12


def random_node(rng, k, m):
    A = np.where(rng.random((k, m)) < 0.6, 1, -1).astype(np.int8)
    c = rng.random(m)
    is_in = rng.random(k) < 0.3
    lo = np.where(is_in, 0.1, 0.05)
    hi = 0.5 + rng.random(k)
    return A, c / c.sum(), is_in, lo, hi


def relaxation(A, c, loss, linear, d, lo, hi, price, is_in, x):
    """The relaxation of a node, from its definition."""
    curve = np.where(is_in, 0.0, d)
    total = c @ loss.value(x @ A) + linear @ x - 0.5 * curve @ (x * x)
    for j in np.flatnonzero(~is_in):
        slope, knot = envelope(d[j], lo[j], hi[j], price[j])
        total += slope * x[j] if x[j] <= knot else 0.5 * d[j] * x[j] ** 2 + price[j]
    return total


@every_loss
@every_seed
def test_relax_finds_the_minimum_of_the_relaxation(name, seed):
    rng = np.random.default_rng(seed)
    loss, k = losses.get(name), 5
    A, c, is_in, lo, hi = random_node(rng, k, 40)
    d, price, linear = np.full(k, 0.02), rng.random(k) * 0.05, np.full(k, 1e-3)
    x = np.zeros(k)
    arguments = (linear, d, lo, hi, price, is_in)
    data, ranges = Data(A, np.arange(k), c, CODES[name]), Ranges(price, is_in, lo, hi, 0 * lo, k)
    relax(data, linear, d, ranges, price, x, np.inf, 0.0, 100, np.empty((k, k)), False)
    assert (x <= hi + 1e-12).all()
    assert (x[is_in] >= lo[is_in]).all()
    value = relaxation(A, c, loss, *arguments, x)
    rest = relaxed_value(x, linear, penalties(ranges, d, price))
    assert c @ loss.value(x @ A) + rest == pytest.approx(value)
    bounds = [(lo[j] if is_in[j] else 0.0, hi[j]) for j in range(k)]
    for start in (x, np.where(is_in, lo, 0.0), hi):
        found = minimize(
            lambda y: relaxation(A, c, loss, *arguments, y), start, bounds=bounds, tol=1e-12
        )
        assert value <= found.fun + 1e-7


@every_seed
def test_the_penalised_model_is_minimised(seed):
    rng = np.random.default_rng(seed)
    k = 6
    root = rng.normal(size=(k, k + 3))
    H, g = root @ root.T / k, rng.normal(size=k)
    is_in, d = rng.random(k) < 0.4, np.full(k, 0.05)
    lo, hi, price = np.full(k, 0.05), np.full(k, 1.2), np.full(k, 0.1)
    slope, knot = np.array([envelope(*t) for t in zip(d, lo, hi, price, strict=True)]).T
    x, y = np.where(is_in, 0.3, 0.0), np.empty(k)
    ranges = Ranges(price, is_in, lo, hi, np.zeros(k), k)
    minimise_penalised(H, g, x, penalties(ranges, d, price), 1e-20, y)

    def model(v):
        line = np.where(v <= knot, slope * v, 0.5 * d * v * v + price)
        return g @ (v - x) + 0.5 * (v - x) @ H @ (v - x) + line[~is_in].sum()

    bounds = [(0.05 if inside else 0.0, 1.2) for inside in is_in]
    best = min(minimize(model, start, bounds=bounds, tol=1e-13).fun for start in (x, hi, y))
    assert model(y) <= best + 1e-8
