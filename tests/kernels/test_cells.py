"""Cell bounds against plain NumPy: every cut and every pair of cuts one by one."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from totalqboost import losses
from totalqboost.kernels.cells import cell_risk, price_cuts, price_pairs

LOSSES = losses.names()


def instance(seed, m=25, n_features=3, n_values=5):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, n_values, (n_features, m))
    rank = np.stack([np.unique(x, return_inverse=True)[1] for x in X]).astype(np.int64)
    order = np.argsort(rank, axis=1, kind="stable")
    plus, minus = rng.random((2, m)) * (rng.random((2, m)) < 0.7)
    offsets = np.concatenate([[0], np.cumsum(rank.max(axis=1))]).astype(np.int64)
    cell = rng.integers(0, 2, m)
    return order, rank, plus, minus, cell, offsets


def side(rank, offsets, j):
    f = int(np.searchsorted(offsets, j, side="right")) - 1
    return rank[f] > j - offsets[f]


def plain_bound(code, plus, minus, labels):
    return sum(
        cell_risk(code, plus[labels == c].sum(), minus[labels == c].sum())
        for c in np.unique(labels)
    )


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("weights", [(0.3, 0.7), (0.5, 0.5), (1.0, 1e-3), (0.2, 0.0), (0.0, 0.0)])
def test_cell_risk_is_the_least_risk_of_one_score(name, weights):
    p, n = weights
    loss = losses.get(name)

    def risk(s):
        return p * loss.value(np.array([s]))[0] + n * loss.value(np.array([-s]))[0]

    least = min(minimize_scalar(risk, bounds=(-20, 20), method="bounded").fun, risk(0.0))
    assert cell_risk(loss.code, p, n) == pytest.approx(least, abs=1e-7)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("first", [0, 3, 7])
def test_every_cut_has_the_bound_of_its_cells(name, first):
    order, rank, plus, minus, cell, offsets = instance(1)
    code = losses.get(name).code
    bounds = np.full(offsets[-1], np.nan)
    least = price_cuts(code, order, rank, plus, minus, cell, 2, first, offsets, bounds)
    expected = [
        plain_bound(code, plus, minus, 2 * cell + side(rank, offsets, j))
        for j in range(offsets[-1])
    ]
    assert np.isnan(bounds[:first]).all()
    assert bounds[first:] == pytest.approx(expected[first:], abs=1e-12)
    assert least == bounds[first:].min()


@pytest.mark.parametrize("stride", [1, 3, 1000])
@pytest.mark.parametrize("room", [1000, 12])  # one cut has at most eleven pairs
def test_pairs_below_the_cutoff_are_found_once(room, stride):
    order, rank, plus, minus, cell, offsets = instance(2)
    code, n_cuts = losses.get("exponential").code, int(offsets[-1])
    bound = {
        (j, k): plain_bound(
            code, plus, minus, 4 * cell + 2 * side(rank, offsets, j) + side(rank, offsets, k)
        )
        for j, k in combinations(range(n_cuts), 2)
    }
    cutoff = float(np.median(list(bound.values())))
    found, start = [], 0
    pairs, values = np.empty((room, 2), np.int64), np.empty(room)
    while start < n_cuts - 1:
        stop = start + stride
        size, start = price_pairs(
            code, order, rank, plus, minus, cell, 2, start, stop, offsets, cutoff, pairs, values
        )
        assert start <= stop
        assert values[:size] == pytest.approx([bound[j, k] for j, k in pairs[:size]], abs=1e-12)
        found += [tuple(pair) for pair in pairs[:size].tolist()]
    assert len(found) == len(set(found))
    near = {pair for pair, value in bound.items() if abs(value - cutoff) < 1e-12}
    assert set(found) - near == {p for p, value in bound.items() if value < cutoff} - near
