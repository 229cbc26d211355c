"""Kernels of the exchange with the whole dictionary, each against a slow NumPy twin."""

from __future__ import annotations

import numpy as np
import pytest
from boosting_runs import engine_for

from totalqboost import losses
from totalqboost.boosting.point import Point, Steps
from totalqboost.boosting.support import Support
from totalqboost.datasets import make_ringnorm
from totalqboost.dictionaries import Stumps
from totalqboost.kernels.loss_codes import EXPONENTIAL, LOGISTIC, SMOOTHED_HINGE, SQUARED
from totalqboost.kernels.newton import loss_at
from totalqboost.kernels.swaps import (
    NONE,
    add_columns,
    cut_edges,
    cut_sums,
    penalty,
    quasi_newton,
    score_swaps,
    shift_cut,
    slot_edges,
    sums_above_cuts,
    swapped_model,
    weigh_rows,
)

CODES = {
    "exponential": EXPONENTIAL,
    "logistic": LOGISTIC,
    "squared": SQUARED,
    "smoothed_hinge": SMOOTHED_HINGE,
}
every_loss = pytest.mark.parametrize("name", sorted(CODES))


def random_slots(seed, m=60, p=4, capacity=6):
    """Return slots AT with room to spare, labels, sample weights, and weights of the slots."""
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], size=m)
    c = 0.2 + rng.random(m)
    AT = rng.choice([-1.0, 1.0], size=(m, capacity), p=[0.4, 0.6]).astype(np.float32)
    return AT, y, c / c.sum(), rng.normal(scale=0.5, size=p)


# -- products ----------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0, 1, 4])
def test_add_columns_adds_the_weighted_slots(p):
    AT, _, _, _ = random_slots(0)
    rng = np.random.default_rng(p)
    d, z = rng.normal(size=p), rng.normal(size=60)
    expected = z + AT[:, :p].astype(float) @ d
    add_columns(AT, d, z)
    np.testing.assert_allclose(z, expected, atol=1e-12)


@pytest.mark.parametrize("p", [0, 1, 4])
def test_slot_edges_are_the_products_of_the_first_slots(p):
    AT, _, _, _ = random_slots(1)
    u = np.random.default_rng(p).normal(size=60)
    out = np.full(6, np.nan)
    slot_edges(AT, p, u, out)
    np.testing.assert_allclose(out[:p], AT[:, :p].T.astype(float) @ u, atol=1e-12)
    assert np.isnan(out[p:]).all()


@pytest.mark.parametrize("p", [0, 4])
def test_weigh_rows_writes_the_right_hand_sides_of_the_rows(p):
    AT, y, _, _ = random_slots(2)
    rng = np.random.default_rng(p)
    u, q, rows = rng.normal(size=60), rng.random(60), np.sort(rng.permutation(60)[:37])
    Q = np.full((37, 8), 7.0, np.float32)
    weigh_rows(AT, p, y, u, q, rows, 2.5, Q)
    np.testing.assert_allclose(Q[:, 0], 2.5 * (y * u)[rows], rtol=1e-6)
    expected = 2.5 * (y * q)[rows, None] * AT[rows, :p]
    np.testing.assert_allclose(Q[:, 1 : p + 1], expected, rtol=1e-6)
    np.testing.assert_array_equal(Q[:, p + 1 :], 7.0)  # the padding is left as it is


@pytest.mark.parametrize("width", [1, 8])
def test_cut_sums_are_the_signed_sums_of_every_cut(width):
    rng = np.random.default_rng(width)
    n_codes = [5, 1, 2, 9]  # the second feature has one value, and no cut
    codes = np.array([rng.integers(0, n, size=70) for n in n_codes]).astype(np.uint8)
    offsets = np.concatenate([[0], np.cumsum(np.array(n_codes) - 1)])
    rows = np.sort(rng.permutation(70)[:51])
    Q = rng.normal(size=(51, width)).astype(np.float32)
    sums = np.full((offsets[-1], width), np.nan, np.float32)
    cut_sums(codes, rows, offsets, 0, 4, Q, Q.sum(axis=0), sums)
    for f in range(4):
        for cut in range(n_codes[f] - 1):
            h = np.where(codes[f, rows] > cut, 1.0, -1.0)
            np.testing.assert_allclose(sums[offsets[f] + cut], h @ Q, atol=1e-4)


def test_edges_of_cuts_are_the_signed_sums_of_one_right_hand_side():
    rng = np.random.default_rng(0)
    n_codes = [5, 1, 2, 9]
    codes = np.array([rng.integers(0, n, size=70) for n in n_codes]).astype(np.uint8)
    offsets = np.concatenate([[0], np.cumsum(np.array(n_codes) - 1)])
    v = rng.normal(size=70).astype(np.float32)
    edges = np.full(offsets[-1], np.nan, np.float32)
    cut_edges(codes, offsets, 0, 1, v, edges)
    assert np.isfinite(edges[:4]).all()
    assert np.isnan(edges[4:]).all()
    cut_edges(codes, offsets, 1, 4, v, edges)
    for f in range(4):
        for cut in range(n_codes[f] - 1):
            h = np.where(codes[f] > cut, 1.0, -1.0)
            assert edges[offsets[f] + cut] == pytest.approx(h @ v, abs=1e-4)


@pytest.mark.parametrize("n_cuts", [0, 1, 5])
def test_sums_above_cuts_have_what_is_missing_on_both_sides(n_cuts):
    rng = np.random.default_rng(n_cuts)
    bins, is_above = rng.normal(size=(n_cuts + 2, 3)), rng.random(n_cuts) < 0.5
    out = np.empty((2 * n_cuts + 1, 3))
    sums_above_cuts(bins, is_above, out)
    above = [bins[cut + 1 : -1].sum(axis=0) for cut in range(n_cuts)]
    usual = [own + bins[-1] * is_in for own, is_in in zip(above, is_above, strict=True)]
    other = [own + bins[-1] * ~is_in for own, is_in in zip(above, is_above, strict=True)]
    np.testing.assert_allclose(out, [*usual, *other, bins[-1]], atol=1e-12)


def test_cut_sums_leave_other_features_alone():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, size=(3, 20)).astype(np.uint8)
    Q = rng.normal(size=(20, 8)).astype(np.float32)
    sums = np.full((6, 8), np.nan, np.float32)
    cut_sums(codes, np.arange(20), np.array([0, 2, 4, 6]), 1, 2, Q, Q.sum(axis=0), sums)
    assert np.isfinite(sums[2:4]).all()
    assert np.isnan(sums[[0, 1, 4, 5]]).all()


# -- scores ------------------------------------------------------------------------------


def random_scores(seed, n=40, p=4):
    """Return candidates and slots as dense matrices, with everything that a score needs."""
    rng = np.random.default_rng(seed)
    AT, _, _, w = random_slots(seed, m=80, p=p)
    newcomers = rng.choice([-1.0, 1.0], size=(n, 80), p=[0.45, 0.55])
    u, q = rng.normal(size=80) / 80, rng.random(80) / 80
    G = (AT[:, :p].T * q) @ AT[:, :p].astype(float)
    M = np.linalg.inv(G)
    sums = np.zeros((n, 8))
    sums[:, 0] = newcomers @ u
    sums[:, 1 : p + 1] = (newcomers * q) @ AT[:, :p]
    return newcomers, AT, u, q, w, M, sums


def gain_of_addition(edge, own, nu, is_signed, fee=0.0):
    size = (abs(edge) if is_signed else edge) - nu
    return max(0.5 * max(size, 0.0) ** 2 / own - fee, 0.0)


def gain_of_swap(edge, own, r, w, diagonal, nu, is_signed):
    """See the head of kernels/swaps.py."""
    top = edge + r * w / diagonal
    size = (abs(top) if is_signed else max(top, 0.0)) - nu
    gained = 0.5 * size * abs(size) / (own + r * r / diagonal)
    return gained - 0.5 * w * w / diagonal


class SomeFees:
    """Fees of 40 candidates of five features; slot 2 alone looks at feature 3."""

    def __init__(self, seed, scale):
        rng = np.random.default_rng(100 + seed)
        self.kept, self.freed = scale * rng.random((2, 40))
        self.features = rng.integers(0, 5, 40)
        self.last = np.array([-1, -1, 3, -1])
        self.again = np.where(self.last >= 0, scale * rng.random(), 0.0)

    def of_swap(self, s, j):
        if self.last[j] < 0:
            return self.kept[s]
        return self.freed[s] + self.again[j] * (self.features[s] == self.last[j])

    def arguments(self):
        return self.kept, self.freed, self.features, self.last, self.again


@pytest.mark.parametrize("scale", [0.0, 0.003])
@pytest.mark.parametrize("is_signed", [False, True, None])
@pytest.mark.parametrize("nu", [0.0, 0.01])
@pytest.mark.parametrize("n_fixed", [0, 1])
@pytest.mark.parametrize("seed", range(3))
def test_scores_are_the_best_of_all_newcomers(seed, n_fixed, nu, is_signed, scale):
    _, _, _, q, w, M, sums = random_scores(seed)
    p, total = 4, q.sum()
    fees = SomeFees(seed, scale)
    rng = np.random.default_rng(seed)
    signed = rng.random(40) < 0.5 if is_signed is None else np.full(40, is_signed)
    R = sums[:, 1 : p + 1] @ M
    own = total - (R * sums[:, 1 : p + 1]).sum(axis=1)
    gains, newcomers = np.full(p, np.nan), np.full(p, -7)
    addition, gain = score_swaps(
        sums.astype(np.float32),
        R.astype(np.float32),
        p,
        n_fixed,
        signed,
        *fees.arguments(),
        nu,
        w,
        M,
        total,
        2e-3,
        gains,
        newcomers,
    )
    additions = [
        gain_of_addition(sums[s, 0], own[s], nu, signed[s], fees.kept[s]) for s in range(len(sums))
    ]  # fmt: skip
    assert gain == pytest.approx(max(additions), rel=1e-4)
    assert additions[addition] == pytest.approx(max(additions), rel=1e-4)
    for j in range(n_fixed, p):
        swaps = [
            gain_of_swap(sums[s, 0], own[s], R[s, j], w[j], M[j, j], nu, signed[s])
            - fees.of_swap(s, j)
            for s in range(len(sums))
        ]
        if newcomers[j] == NONE:  # nothing is worth nu
            assert max(swaps) <= -0.5 * w[j] ** 2 / M[j, j] + 1e-9
            continue
        scale = 0.5 * w[j] ** 2 / M[j, j] + max(swaps)
        assert gains[j] == pytest.approx(max(swaps), abs=1e-4 * abs(scale))
        assert swaps[newcomers[j]] == pytest.approx(max(swaps), abs=1e-4 * abs(scale))
    assert (newcomers[:n_fixed] == NONE).all()


@pytest.mark.parametrize("seed", range(3))
def test_the_gain_of_a_swap_is_that_of_the_second_order_model(seed):
    """The formulas against the minimum of the model itself, weights of either sign."""
    newcomers, AT, u, q, w, M, sums = random_scores(seed)
    p = 4
    A = AT[:, :p].astype(float)
    z_now = A @ w

    def model_value(B):
        """Minimise -u'(B x - z) + (B x - z)' q (B x - z) / 2 over x."""
        x = np.linalg.solve((B.T * q) @ B, B.T @ (u + q * z_now))
        shift = B @ x - z_now
        return -u @ shift + 0.5 * q @ shift**2

    # at an optimum of the slots, where the formulas hold
    u = u - q * (A @ (M @ (A.T @ u)))
    sums[:, 0] = newcomers @ u
    R = sums[:, 1 : p + 1] @ M
    own = q.sum() - (R * sums[:, 1 : p + 1]).sum(axis=1)
    for s in range(0, len(newcomers), 5):
        for j in range(p):
            B = A.copy()
            B[:, j] = newcomers[s]
            expected = -model_value(B)
            found = gain_of_swap(sums[s, 0], own[s], R[s, j], w[j], M[j, j], 0.0, True)
            assert found == pytest.approx(expected, abs=1e-9)
        expected = -model_value(np.column_stack([A, newcomers[s]]))
        assert gain_of_addition(sums[s, 0], own[s], 0.0, True) == pytest.approx(expected, abs=1e-9)


def test_columns_that_the_slots_hold_already_are_no_addition():
    _, AT, _, q, w, M, _ = random_scores(0)
    p = 4
    held = AT[:, :p].T.astype(float)
    sums = np.zeros((p, 8))
    sums[:, 0] = 1.0  # however large its edge
    sums[:, 1 : p + 1] = (held * q) @ AT[:, :p]
    R = sums[:, 1 : p + 1] @ M
    gains, chosen = np.zeros(p), np.zeros(p, np.int64)
    addition, gain = score_swaps(
        sums.astype(np.float32),
        R.astype(np.float32),
        p,
        0,
        np.full(len(sums), True),
        *SomeFees(0, 0.0).arguments(),
        0.0,
        w,
        M,
        q.sum(),
        2e-3,
        gains,
        chosen,
    )
    assert (addition, gain) == (NONE, 0.0)
    # in the place of another slot it would be there twice; in its own, it changes nothing
    assert all(chosen[j] in (NONE, j) for j in range(p))


# -- swaps made true ---------------------------------------------------------------------


@pytest.mark.parametrize("nu", [0.0, 0.003])
@pytest.mark.parametrize("j", [0, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_swapped_model_agrees_with_a_dense_solve(seed, j, nu):
    newcomers, AT, u, q, w, M, _ = random_scores(seed)
    p, column = 4, newcomers[seed].astype(np.float32)
    A = AT[:, :p].astype(float)
    u = u - q * (A @ (M @ (A.T @ u)))  # an optimum of the slots
    out, delta = np.full((p, p), np.nan), np.full(p, np.nan)
    gain = swapped_model(AT, p, j, column, M, u, q, w, nu, out, delta)
    B = A.copy()
    B[:, j] = column
    G = (B.T * q) @ B
    np.testing.assert_allclose(out @ G, np.eye(p), atol=1e-6)
    # the model's minimum: the newcomer alone pays nu, the others are at their optimum
    z_now = A @ w
    linear = B.T @ (u + q * z_now)
    candidates = []
    for sign in (-1.0, 1.0):
        x = np.linalg.solve(G, linear - sign * nu * (np.arange(p) == j))
        if sign * x[j] >= 0:
            shift = B @ x - z_now
            candidates.append((u @ shift - 0.5 * q @ shift**2 - nu * abs(x[j]), x))
    expected, x = max(candidates, key=lambda pair: pair[0])
    assert gain == pytest.approx(expected, abs=1e-9)
    moved = w + delta
    moved[j] = delta[j]
    np.testing.assert_allclose(moved, x, atol=1e-7)


def test_a_swap_for_a_column_that_is_held_already_is_hopeless():
    _, AT, u, q, w, M, _ = random_scores(1)
    out, delta = np.empty((4, 4)), np.empty(4)
    held = AT[:, 1].copy()
    assert swapped_model(AT, 4, 3, held, M, u, q, w, 0.0, out, delta) == -np.inf


# -- quasi-Newton steps ------------------------------------------------------------------


def test_penalty_is_the_weighted_sum_of_absolute_values():
    assert penalty(np.array([0.1, 0.5, 0.0]), np.array([-2.0, 1.0, 9.0])) == pytest.approx(0.7)
    assert penalty(np.empty(0), np.empty(0)) == 0.0


def a_support(name, is_signed, free_intercept, nu=1e-3):
    """Return a support of four learners that has not settled."""
    X, y = make_ringnorm(90, seed=3, n_features=3)
    terms = {"loss": name, "nu": nu, "free_intercept": free_intercept}
    engine = engine_for(X, y, dictionary=Stumps(max_bins=8), **terms)
    support = Support(engine.oracle, engine.terms, 8)
    for s in (3, 8, 14, 19):
        support.add(support.candidates.learner(s))
    rng = np.random.default_rng(0)
    w = support.w + rng.normal(scale=0.3, size=support.n_slots)
    if not is_signed:
        support.least = np.where(np.arange(len(w)) < support.n_fixed, -np.inf, 0.0)
        w = np.maximum(w, support.least)
    support._move_to(w)
    support._invert()
    support.value = support.at.risk + float(support.nu @ np.abs(w))
    return support


@every_loss
@pytest.mark.parametrize("is_signed", [False, True])
@pytest.mark.parametrize("free_intercept", [False, True])
@pytest.mark.parametrize(
    ("n_steps", "close", "target"),
    [(1, 0.0, np.inf), (6, 0.0, np.inf), (6, 1e-4, np.inf), (6, 0.0, 0.2)],
)
def test_quasi_newton_takes_the_steps_of_its_twin(
    name, is_signed, free_intercept, n_steps, close, target
):
    support = a_support(name, is_signed, free_intercept)
    terms, at = support.terms, support.at
    twin = Point(terms, at.w.copy(), at.z.copy())
    point = Point(terms, at.w.copy(), at.z.copy())
    steps = Steps(n_steps, close, target)
    expected = twin.plain_descend(support.slots, support.M, support.value, steps)
    found = quasi_newton(
        support.AT,
        point.w,
        support.least,
        point.z,
        terms.sample_weight,
        terms.loss.code,
        support.nu,
        support.M,
        support.value,
        point.u,
        point.q,
        *steps,
    )
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-12)
    np.testing.assert_allclose(point.w, twin.w, atol=1e-6)
    np.testing.assert_allclose(point.z, twin.z, atol=1e-6)
    np.testing.assert_allclose(point.u, twin.u, atol=1e-8)
    # what it leaves belongs together
    A = support.AT[:, : support.n_slots].astype(float)
    np.testing.assert_allclose(point.z, A @ point.w, atol=1e-9)
    fresh = Point(terms, point.w, point.z)
    assert found[0] == pytest.approx(fresh.risk + support.nu @ np.abs(point.w), rel=1e-12)
    np.testing.assert_allclose(point.u, fresh.u, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(point.q, fresh.q, rtol=1e-12, atol=1e-15)
    assert found[0] <= support.value
    assert (point.w >= support.least).all()


# -- losses and cuts ---------------------------------------------------------------------


@every_loss
def test_the_loss_of_one_margin_is_that_of_the_losses(name):
    z = np.array([-700.0, -30.0, -1.5, -0.0, 0.0, 0.3, 1.0, 1.7, 30.0, 800.0])
    found = [loss_at(CODES[name], float(x))[0] for x in z]
    np.testing.assert_allclose(found, losses.get(name).value(z), rtol=1e-13)


def best_cut(codes, cut, low, high, move, y, z, c, loss):
    """Return the best cut and the change of the risk, by scoring every ensemble."""
    h = np.where(codes > cut, 1.0, -1.0)
    rest = z - 0.5 * move * y * h
    before = c @ loss.value(z)
    changes = {}
    for other in range(low, high + 1):
        h = np.where(codes > other, 1.0, -1.0)
        changes[other] = c @ loss.value(rest + 0.5 * move * y * h) - before
    best = min(changes.values())
    return changes, (cut, 0.0) if best >= 0 else (None, best)


@every_loss
@pytest.mark.parametrize("move", [-0.9, 0.05, 0.6])
@pytest.mark.parametrize("seed", range(4))
def test_shift_cut_finds_the_best_of_all_cuts(name, move, seed):
    rng = np.random.default_rng(seed)
    m, n_codes = 90, 12
    codes = rng.integers(0, n_codes, size=m)
    codes[codes == 5] = 4  # a code that no row has
    order = np.argsort(codes, kind="stable").astype(np.int32)
    start = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=n_codes))])
    y = rng.choice([-1, 1], size=m).astype(np.int8)
    z, c = rng.normal(size=m), rng.random(m) / m
    loss = losses.get(name)
    u = c * loss.weight(z)
    for cut, low, high in ((4, 0, 10), (4, 2, 7), (0, 0, 10), (10, 0, 10), (6, 6, 6)):
        place, change = shift_cut(
            order, start, cut, low, high, move, y, z, u, c, CODES[name]
        )  # fmt: skip
        changes, (_, best) = best_cut(codes, cut, low, high, move, y, z, c, loss)
        assert change == pytest.approx(best, abs=1e-12)
        assert changes[place] == pytest.approx(best, abs=1e-12)
        assert low <= place <= high
        if change == 0.0:
            assert place == cut
