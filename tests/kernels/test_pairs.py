"""The kernel of conjunctions, against NumPy over all second conditions."""

from __future__ import annotations

import numpy as np
import pytest

from totalqboost.kernels.histogram import (
    BY_EDGE,
    BY_EXPONENTIAL_DECREASE,
    BY_NEWTON_DECREASE,
    price_of_cut,
)
from totalqboost.kernels.pairs import best_conjunctions


@pytest.mark.parametrize("rule", [BY_EDGE, BY_EXPONENTIAL_DECREASE, BY_NEWTON_DECREASE])
@pytest.mark.parametrize("seed", range(4))
def test_the_best_second_condition_of_each_feature(seed, rule):
    rng = np.random.default_rng(seed)
    n_codes = np.array([1, 2, 5, 9])
    codes = np.array([rng.integers(0, k, 50) for k in n_codes], dtype=np.uint8)
    inside = rng.random(50) < 0.6
    h = rng.random(50)
    g = h * rng.choice([-1, 1], 50)
    prices, edges = np.full((4, 2, 1), -np.inf), np.zeros((4, 2, 1))
    keys = np.full((4, 2, 1), -1)
    given = codes, n_codes, np.flatnonzero(inside), g, h, g.sum(), h.sum()
    best_conjunctions(*given, rule, 0.01, 1e-9, prices, keys, edges)
    assert (keys[0] == -1).all()
    for f in range(1, 4):
        for direction in range(2):
            found = []
            for cut in range(n_codes[f] - 1):
                is_right = (
                    (codes[f] > cut) & inside if direction == 0 else (codes[f] > cut) | ~inside
                )
                left = ~is_right
                sums = g[left].sum(), h[left].sum(), g.sum(), h.sum()
                found.append(price_of_cut(rule, *sums, 0.01, 1e-9)[0])
            assert prices[f, direction, 0] == pytest.approx(max(found), abs=1e-9)
            key = int(keys[f, direction, 0])
            assert found[key // 2] == pytest.approx(max(found), abs=1e-8)
            is_right = codes[f] > key // 2
            is_right = is_right & inside if direction == 0 else is_right | ~inside
            sign = 1 if key % 2 == 0 else -1
            expected = sign * (np.where(is_right, g, -g).sum())
            assert edges[f, direction, 0] == pytest.approx(expected, abs=1e-9)
