"""Fixed-point weights: the grid, its levels, and what counts as a number of bits."""

from __future__ import annotations

import numpy as np
import pytest

from totalqboost.fixed_point import (
    MAX_BITS,
    ROOM,
    check_bits,
    check_depth,
    grid_step,
    nearest_levels,
    top_level,
)


@pytest.mark.parametrize("n_bits", [1, 3, MAX_BITS])
def test_the_grid_holds_more_than_the_largest_weight_of_each_kind(n_bits):
    w = np.array([0.5, 4.0, 2.0, 0.0])
    step = grid_step(w, np.array([False, True, False, False]), n_bits)
    np.testing.assert_allclose(step * top_level(n_bits), ROOM * np.array([2.0, 4.0, 2.0, 2.0]))


def test_a_grid_without_weights_still_has_a_step():
    np.testing.assert_allclose(grid_step(np.zeros(2), np.zeros(2, bool), 1), ROOM)
    assert grid_step(np.empty(0), np.empty(0, bool), 3).shape == (0,)


def test_the_nearest_levels_are_the_nearest_of_all():
    rng = np.random.default_rng(0)
    w, step = 3.0 * rng.random(50), 0.1 + rng.random(50)
    grid = np.arange(8)
    expected = [np.argmin(np.abs(x - s * grid)) for x, s in zip(w, step, strict=True)]
    np.testing.assert_array_equal(nearest_levels(w, step, 3), expected)


def test_levels_stay_above_the_lowest():
    w = np.array([0.0, 0.01, 9.0])
    assert nearest_levels(w, np.ones(3), 2).tolist() == [0, 0, 3]
    assert nearest_levels(w, np.ones(3), 2, lowest=w > 0).tolist() == [0, 1, 3]


@pytest.mark.parametrize("n_bits", [0, MAX_BITS + 1, 2.0, True, "many", None])
def test_what_is_no_number_of_bits_is_named(n_bits):
    message = rf"an integer from 1 to {MAX_BITS}, got {n_bits!r}"
    with pytest.raises(ValueError, match=message):
        check_bits(n_bits)
    with pytest.raises(ValueError, match=f"'auto' or {message}"):
        check_depth(n_bits)


def test_only_a_depth_may_be_chosen_by_the_solver():
    check_depth("auto")
    check_depth(np.int64(3))
    with pytest.raises(ValueError, match="got 'auto'"):
        check_bits("auto")
