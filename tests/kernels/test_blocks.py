"""Passes over blocks of coded rows against loops that a reader believes."""

import numpy as np
import pytest

from totalqboost.kernels.blocks import (
    add_histograms,
    add_scores,
    add_turned,
    loss_values,
    write_column,
)
from totalqboost.kernels.histogram import (
    BY_EDGE,
    BY_EXPONENTIAL_DECREASE,
    BY_NEWTON_DECREASE,
    best_cuts,
    best_cuts_of_bins,
)
from totalqboost.losses import Exponential, Logistic, SmoothedHinge, Squared


def coded(rng, n_features, n_rows, n_codes, dtype=np.uint8):
    return rng.integers(0, n_codes, (n_features, n_rows)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("n_rows", [0, 1, 2100])  # none, one, more than stay in the cache
def test_histograms_are_sums_per_code(dtype, n_rows):
    rng = np.random.default_rng(0)
    codes, offsets = coded(rng, 2, n_rows, 3, dtype), np.array([0, 3])
    values, out = rng.normal(size=(n_rows, 2)), np.ones((6, 2))
    add_histograms(codes, offsets, values, out)
    for f in range(2):
        for b in range(3):
            own = values[codes[f] == b].sum(axis=0)
            np.testing.assert_allclose(out[offsets[f] + b], 1.0 + own)


def test_scores_are_looked_up_by_code():
    rng = np.random.default_rng(1)
    codes, table = coded(rng, 1, 20, 4)[0], rng.normal(size=(4, 3))
    scores = np.ones((20, 3))
    add_scores(codes, table, scores)
    np.testing.assert_array_equal(scores, 1.0 + table[codes])


def test_a_column_is_the_answers_to_codes():
    rng = np.random.default_rng(2)
    codes, answers = coded(rng, 1, 20, 4)[0], np.array([1, -1, -1, 1], np.int8)
    out = np.empty(20, np.int8)
    write_column(codes, answers, out)
    np.testing.assert_array_equal(out, answers[codes])


LOSSES = pytest.mark.parametrize("loss", [Exponential(), Logistic(), Squared(), SmoothedHinge()])


@LOSSES
def test_values_are_those_of_the_loss(loss):
    z = np.random.default_rng(5).normal(size=(15, 2))
    out = np.empty_like(z)
    loss_values(loss.code, z, out)
    np.testing.assert_allclose(out, loss.value(z), atol=1e-14)


@LOSSES
def test_turned_answers_change_the_risk_by_that_of_other_margins(loss):
    rng = np.random.default_rng(4)
    codes, answers = coded(rng, 1, 30, 4)[0], np.array([1, -1, -1, 1], np.int8)
    is_near, weights = np.array([True, True, False, True]), rng.normal(size=2)
    z, c = rng.normal(size=(30, 2)), rng.uniform(size=(30, 2))
    signs, out = rng.choice([-1.0, 1.0], (30, 2)), np.zeros((4, 2))
    add_turned(loss.code, codes, answers, is_near, weights, signs, z, loss.value(z), c, out)
    moved = 2.0 * signs * np.outer(answers[codes], weights)
    change = c * (loss.value(z - moved) - loss.value(z))
    for b in range(4):
        own = change[codes == b].sum(axis=0) if is_near[b] else 0.0
        np.testing.assert_allclose(out[b], own, atol=1e-14)


@pytest.mark.parametrize("rule", [BY_EDGE, BY_EXPONENTIAL_DECREASE, BY_NEWTON_DECREASE])
def test_cuts_of_histograms_are_those_of_rows(rule):
    rng = np.random.default_rng(3)
    codes, n_codes = coded(rng, 3, 60, 5), np.array([5, 5, 5])
    h = rng.uniform(0.1, 1.0, 60)
    g = h * rng.choice([-1.0, 1.0], 60)
    bins = np.zeros((15, 2))
    add_histograms(codes, np.array([0, 5, 10]), np.column_stack([g, h]), bins)
    polarity, blocked = np.array([0, 1, -1]), np.array([2, 3])
    starts = np.array([0, 2, 2, 2])  # two keys of the first feature may not be offered
    found = []
    for _ in range(2):
        prices, edges = np.full((3, 2), -np.inf), np.zeros((3, 2))
        found.append((prices, np.full((3, 2), -1, dtype=np.int64), edges))
    how = rule, 0.01, starts, blocked, 1e-12
    best_cuts(codes, n_codes, polarity, g, h, *how, 0, 3, *found[0])
    best_cuts_of_bins(bins, np.array([0, 5, 10, 15]), polarity, *how, *found[1])
    for rows, histograms in zip(*found, strict=True):
        np.testing.assert_allclose(rows, histograms)
