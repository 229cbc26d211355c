"""Kernels of stumps shared between classes, each against a slow NumPy twin."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from totalqboost import losses
from totalqboost.kernels.classes import (
    best_shared_cuts,
    fill_class_histogram,
    price_of_votes,
    shared_cut_sums,
    shift_shared_cut,
)
from totalqboost.kernels.joint import NONE, add_to_bins, score_joint_swaps, score_newcomer
from totalqboost.kernels.softmax import row_losses, softmax_terms

SIZES = pytest.mark.parametrize(("m", "n_classes"), [(40, 3), (25, 5)])


def random_rows(m, n_classes, n_features=4, n_codes=6, seed=0):
    """Return codes of features, and slopes and curvatures of examples and classes."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(n_codes, size=(n_features, m)).astype(np.uint8)
    codes[:, :n_codes] = np.arange(n_codes)  # every code is there
    return codes, rng.normal(size=m * n_classes), 0.1 + rng.random(m * n_classes)


def slow_price(signs, g, h, n_classes, by_edge, nu):
    """Price a cut by its definition, with weights of classes that solve least squares."""
    g, h = g.reshape(-1, n_classes), h.reshape(-1, n_classes)
    if by_edge:
        return np.abs(signs @ g).sum()
    edges, spreads = [], []
    for label in range(n_classes):
        mean = (h[:, label] @ signs) / h[:, label].sum()
        edges.append((signs - mean) @ g[:, label])
        spreads.append(h[:, label] @ (signs - mean) ** 2)
    return max(np.abs(edges).sum() - nu, 0.0) ** 2 / (2.0 * np.sum(spreads))


@SIZES
def test_the_histogram_has_the_sums_of_every_class(m, n_classes):
    codes, g, h = random_rows(m, n_classes)
    hist = np.zeros((6, 2, n_classes))
    fill_class_histogram(codes[0], g, h, hist)
    for b in range(6):
        mine = codes[0] == b
        np.testing.assert_allclose(hist[b, 0], g.reshape(m, -1)[mine].sum(axis=0))
        np.testing.assert_allclose(hist[b, 1], h.reshape(m, -1)[mine].sum(axis=0))


@SIZES
@pytest.mark.parametrize("by_edge", [True, False])
def test_the_price_of_a_cut_is_that_of_its_definition(m, n_classes, by_edge):
    codes, g, h = random_rows(m, n_classes)
    left = np.array([v.reshape(m, -1)[codes[0] <= 2].sum(axis=0) for v in (g, h)])
    total = np.array([v.reshape(m, -1).sum(axis=0) for v in (g, h)])
    signs = np.where(codes[0] > 2, 1.0, -1.0)
    expected = slow_price(signs, g, h, n_classes, by_edge, 0.3)
    assert price_of_votes(by_edge, left, total, 0.3) == pytest.approx(expected)


@SIZES
@pytest.mark.parametrize("by_edge", [True, False])
def test_the_best_cuts_are_those_of_a_search_through_all(m, n_classes, by_edge):
    codes, g, h = random_rows(m, n_classes)
    n_codes, offsets = np.full(4, 6), np.arange(0, 25, 5)
    blocked = np.zeros(21, dtype=np.bool_)
    blocked[[1, 7]] = True
    prices, cuts = np.full((4, 2), -np.inf), np.full((4, 2), -1)
    best_shared_cuts(
        codes, n_codes, g, h, n_classes, by_edge, 0.1, blocked, offsets, 0.0, 0, 4, prices, cuts
    )
    for f in range(4):
        slow = {
            cut: slow_price(np.where(codes[f] > cut, 1.0, -1.0), g, h, n_classes, by_edge, 0.1)
            for cut in range(5)
            if not blocked[5 * f + cut]
        }
        order = sorted(slow, key=lambda cut, slow=slow: -slow[cut])[:2]
        assert cuts[f].tolist() == order
        np.testing.assert_allclose(prices[f], [slow[cut] for cut in order])


@SIZES
def test_sums_of_cuts_have_the_votes_of_their_edges(m, n_classes):
    codes, _, _ = random_rows(m, n_classes)
    rng = np.random.default_rng(1)
    rows = np.sort(rng.permutation(m * n_classes)[: m * n_classes // 2])
    Q = rng.normal(size=(len(rows), 4)).astype(np.float32)
    label = rows % n_classes
    total = np.array([Q[label == k].sum(axis=0) for k in range(n_classes)])
    sums, votes = np.empty((20, 4), np.float32), np.empty((20, n_classes), np.int8)
    shared_cut_sums(codes, rows, np.arange(0, 25, 5), 0, 4, Q, total, sums, votes)
    for f in range(4):
        for cut in range(5):
            signs = np.where(codes[f][rows // n_classes] > cut, 1, -1)
            edges = np.array([signs[label == k] @ Q[label == k, 0] for k in range(n_classes)])
            expected = np.where(edges >= 0, 1, -1)
            expected = expected * expected[0]
            assert votes[5 * f + cut].tolist() == expected.tolist()
            slow = (signs * expected[label]) @ Q
            np.testing.assert_allclose(sums[5 * f + cut], slow, atol=2e-5)


@pytest.mark.parametrize("name", losses.names())
def test_a_shared_cut_moves_to_the_place_of_least_risk(name):
    m, n_classes = 30, 3
    codes, _, c = random_rows(m, n_classes, seed=3)
    rng = np.random.default_rng(4)
    loss, code = losses.get(name), codes[0]
    y = rng.choice([-1, 1], size=m * n_classes).astype(np.int8)
    z, votes, weight, cut = rng.normal(size=m * n_classes), np.array([1.0, -1.0, 1.0]), 0.4, 2
    order = np.argsort(code, kind="stable").astype(np.int32)
    start = np.concatenate([[0], np.cumsum(np.bincount(code, minlength=6))])

    def risk(place):
        moved = np.where(code > place, 1, -1) - np.where(code > cut, 1, -1)
        return c @ loss.value(z + y * np.outer(moved, weight * votes).ravel())

    risks = [risk(place) for place in range(5)]
    moves = 2.0 * weight * votes
    found, change = shift_shared_cut(order, start, cut, 0, 4, moves, y, z, c, loss.code)
    assert found == int(np.argmin(risks))
    assert change == pytest.approx(min(risks) - risks[cut], abs=1e-12)


# -- weights for every class -------------------------------------------------------------


def random_slots(m=50, n_classes=3, p=4, seed=0):
    rng = np.random.default_rng(seed)
    answers = rng.choice([-1, 1], size=(m, p)).astype(np.int8)
    answers[:, 0] = 1
    g = 0.1 * rng.normal(size=(m, n_classes))
    q = 0.05 + rng.random((m, n_classes))
    grams = np.array([(answers * own[:, None]).T @ answers for own in q.T]) + 1e-9 * np.eye(p)
    return answers, g, q, np.linalg.inv(grams), rng.normal(scale=0.3, size=(p, n_classes))


def slow_gain(column, answers, g, q, W, slot, mu):
    """Solve the second-order model of every class with the column added, slot a left out."""
    gain, weights = 0.0, []
    for label in range(g.shape[1]):
        kept = [a for a in range(answers.shape[1]) if a != slot or slot == 0]
        A = np.column_stack([answers[:, kept], column]).astype(float)
        gram = A.T @ (A * q[:, label, None])
        before = np.append(W[kept, label], 0.0)
        # the slot that leaves takes its weight along
        slope = A.T @ g[:, label]
        if slot:
            slope = slope + A.T @ (q[:, label] * answers[:, slot] * W[slot, label])
        step = np.linalg.solve(gram, slope)
        old = np.linalg.solve(gram[:-1, :-1], slope[:-1])
        gain += 0.5 * slope @ step - 0.5 * slope[:-1] @ old
        weights.append((before + step)[-1])
    factors = np.linspace(0.0, 1.0, 100_001)  # that shrinks all weights of the newcomer
    return np.max(gain * (2 * factors - factors**2) - mu * factors * np.linalg.norm(weights))


def test_a_newcomer_gains_what_the_model_of_each_class_says():
    answers, g, q, M, W = random_slots()
    g -= answers @ np.linalg.lstsq(answers.astype(float), g, rcond=None)[0]
    g = np.array([g[:, k] - q[:, k] * (answers @ (M[k] @ (answers.T @ g[:, k]))) for k in range(3)])
    g = g.T  # no slot has a slope
    column = np.random.default_rng(5).choice([-1, 1], size=50)
    sums = np.array(
        [[column @ g[:, k], *((column * q[:, k]) @ answers)] for k in range(3)], np.float32
    )
    diagonal = np.einsum("laa->la", M)
    least = np.column_stack([q.sum(axis=0), 1e-9 * q.sum(axis=0)]).astype(np.float32)
    gains, norms = np.empty(4), np.empty(4)
    push, inverse = (W.T / diagonal).astype(np.float32), (1.0 / diagonal).astype(np.float32)
    score_newcomer(sums, M.astype(np.float32), push, inverse, least, 0.05, gains, norms)
    for slot in range(4):
        assert gains[slot] == pytest.approx(
            slow_gain(column, answers, g, q, W, slot, 0.05), abs=2e-4
        )


def test_bins_have_slopes_and_gram_rows():
    answers, g, q, _, _ = random_slots()
    codes = np.random.default_rng(1).integers(5, size=80).astype(np.uint8)
    rows = np.sort(np.random.default_rng(2).permutation(80)[:50])
    bins = np.zeros((4, 3, 5), np.float32)
    add_to_bins(codes, rows, answers, g.astype(np.float32), q.astype(np.float32), bins)
    for b in range(4):
        mine = codes[rows] == b
        np.testing.assert_allclose(bins[b, :, 0], g[mine].sum(axis=0), atol=1e-5)
        np.testing.assert_allclose(bins[b, :, 1:], q[mine].T @ answers[mine], atol=1e-4)


def test_the_best_joint_swaps_are_those_of_a_search_through_all_cuts():
    answers, g, q, M, W = random_slots()
    codes, _, _ = random_rows(50, 3)
    diagonal = np.einsum("laa->la", M)
    least = np.column_stack([q.sum(axis=0), 2e-3 * q.sum(axis=0)]).astype(np.float32)
    arrays = (M, W.T / diagonal, 1.0 / diagonal)
    M, push, inverse = (part.astype(np.float32) for part in arrays)
    best, newcomers = np.zeros(4), np.full(4, NONE)
    small = g.astype(np.float32), q.astype(np.float32)
    rows, offsets = np.arange(50), np.arange(0, 25, 5)
    score_joint_swaps(
        codes, rows, offsets, 0, 4, answers, *small, M, push, inverse, least, 0.01, best, newcomers
    )
    gains, norms = np.empty(4), np.empty(4)
    slow = []
    for s in range(20):
        signs = np.where(codes[s // 5] > s % 5, 1, -1)
        sums = np.array(
            [[signs @ g[:, k], *((signs * q[:, k]) @ answers)] for k in range(3)], np.float32
        )
        score_newcomer(sums, M, push, inverse, least, 0.01, gains, norms)
        slow.append(gains.copy())
    assert newcomers.tolist() == np.argmax(slow, axis=0).tolist()
    np.testing.assert_allclose(best, np.max(slow, axis=0), rtol=1e-3)


def test_softmax_terms_are_loss_slopes_and_curvatures():
    rng = np.random.default_rng(0)
    F = rng.normal(scale=3.0, size=(20, 4))
    F[0, 1], F[1] = 800.0, -900.0
    target = rng.random((20, 4)) * (rng.random((20, 4)) < 0.4)
    weight = target.sum(axis=1)
    g, q, own = np.empty_like(F), np.empty_like(F), np.empty(20)
    loss = softmax_terms(F, target, g, q)
    expected = weight * logsumexp(F, axis=1) - np.sum(target * F, axis=1)
    p = softmax(F, axis=1)
    assert loss == pytest.approx(expected.sum())
    np.testing.assert_allclose(g, target - weight[:, None] * p, atol=1e-12)
    np.testing.assert_allclose(q, weight[:, None] * p * (1 - p), atol=1e-12)
    assert row_losses(F, target, own) == pytest.approx(expected.sum())
    np.testing.assert_allclose(own, expected, atol=1e-10)
