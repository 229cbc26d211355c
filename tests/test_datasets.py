"""Generators of data: shapes, classes, moments, seeds."""

from __future__ import annotations

import numpy as np
import pytest

from totalqboost import datasets
from totalqboost.datasets import make_rare_event, make_ringnorm, make_twonorm, make_waveform

GENERATORS = {
    "ringnorm": make_ringnorm,
    "twonorm": make_twonorm,
    "waveform": make_waveform,
    "rare event": make_rare_event,
}
every_generator = pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)


@every_generator
def test_labels_are_signs_and_numbers_are_finite(make):
    X, y = make(300)
    assert X.shape[0] == y.shape[0] == 300
    assert X.dtype == float
    assert set(np.unique(y)) == {-1, 1}
    assert np.isfinite(X).all()


@every_generator
def test_a_seed_repeats_the_data_and_another_does_not(make):
    X, y = make(200, seed=3)
    again = make(200, seed=3)
    np.testing.assert_array_equal(X, again[0])
    np.testing.assert_array_equal(y, again[1])
    assert not np.array_equal(X, make(200, seed=4)[0])
    assert not np.array_equal(y, make(200, seed=4)[1])


@every_generator
def test_classes_come_in_no_order(make):
    _, y = make(2000, seed=1)
    positive = np.flatnonzero(y > 0)
    assert abs(positive.mean() - 1000) < 700  # not all first, not all last


@every_generator
def test_generators_leave_the_global_state_alone(make):
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    make(50)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


def test_every_generator_is_exported():
    for name in ("make_ringnorm", "make_twonorm", "make_waveform", "make_rare_event"):
        assert name in datasets.__all__


# -- sizes of the paper ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "shape"),
    [(make_ringnorm, (7400, 20)), (make_twonorm, (7400, 20)), (make_waveform, (5000, 21))],
)
def test_the_default_size_is_that_of_the_paper(make, shape):
    assert make()[0].shape == shape


@pytest.mark.parametrize("make", [make_ringnorm, make_twonorm])
def test_half_of_the_rows_are_positive(make):
    for n_rows in (100, 101):
        X, y = make(n_rows, n_features=3)
        assert X.shape == (n_rows, 3)
        assert abs(np.count_nonzero(y > 0) - n_rows / 2) <= 0.5


def test_the_number_of_positive_rows_can_be_given():
    _, y = make_ringnorm(7400, n_positive=3664)
    assert np.count_nonzero(y > 0) == 3664
    for n_positive in (-1, 11):
        with pytest.raises(ValueError, match="n_positive"):
            make_ringnorm(10, n_positive=n_positive)


def test_a_third_of_the_waves_is_positive():
    _, y = make_waveform(3000)
    assert np.count_nonzero(y > 0) == 1000


def test_the_number_of_rows_per_pair_of_waves_can_be_given():
    _, y = make_waveform(5000, n_per_pair=(1657, 1647, 1696))
    assert np.count_nonzero(y > 0) == 1647
    for bad in ((1, 2), (1, 2, 3), (-1, 5, 6)):
        with pytest.raises(ValueError, match="n_per_pair must be three counts with the sum 10"):
            make_waveform(10, n_per_pair=bad)


# -- moments: five standard errors of the mean of so many numbers ------------------------


@pytest.fixture(scope="module")
def ringnorm():
    return make_ringnorm(20_000, seed=5, n_features=8)


def test_ringnorm_has_one_wide_cloud_in_the_middle(ringnorm):
    X, y = ringnorm
    wide, narrow = X[y > 0], X[y < 0]
    error = 5 / np.sqrt(10_000)
    np.testing.assert_allclose(wide.mean(axis=0), 0.0, atol=2 * error)
    np.testing.assert_allclose(wide.std(axis=0), 2.0, atol=2 * error)
    np.testing.assert_allclose(narrow.mean(axis=0), 2 / np.sqrt(8), atol=error)
    np.testing.assert_allclose(narrow.std(axis=0), 1.0, atol=error)
    assert np.abs(np.corrcoef(wide.T) - np.eye(8)).max() < error


def test_twonorm_has_two_clouds_of_the_same_width():
    X, y = make_twonorm(20_000, seed=5, n_features=8)
    error = 5 / np.sqrt(10_000)
    for sign in (1, -1):
        cloud = X[y == sign]
        np.testing.assert_allclose(cloud.mean(axis=0), sign * 2 / np.sqrt(8), atol=error)
        np.testing.assert_allclose(cloud.std(axis=0), 1.0, atol=error)


def test_the_best_possible_error_of_twonorm_is_as_documented():
    X, y = make_twonorm(20_000, seed=6)
    assert np.mean(np.sign(X.sum(axis=1)) != y) == pytest.approx(0.0228, abs=0.005)


def test_the_best_possible_error_of_ringnorm_is_as_documented():
    X, y = make_ringnorm(20_000, seed=6)
    shift = 2 / np.sqrt(20)
    log_ratio = -0.125 * (X**2).sum(1) - 20 * np.log(2) + 0.5 * ((X - shift) ** 2).sum(1)
    assert np.mean(np.sign(log_ratio) != y) == pytest.approx(0.013, abs=0.004)


def test_waves_have_their_peaks_where_the_book_has_them():
    X, y = make_waveform(30_000, seed=7)
    # class +1 mixes waves 1 and 3, peaks of height 6 at points 11 and 7, half of each
    mean = X[y > 0].mean(axis=0)
    points = np.arange(1, 22)
    waves = [np.maximum(6.0 - np.abs(points - peak), 0.0) for peak in (11, 15, 7)]
    np.testing.assert_allclose(mean, (waves[0] + waves[2]) / 2, atol=0.15)
    other = (waves[0] + waves[1]) / 4 + (waves[1] + waves[2]) / 4
    np.testing.assert_allclose(X[y < 0].mean(axis=0), other, atol=0.15)
    # point 1 is noise in every wave but the third; point 21 only in the second
    np.testing.assert_allclose(X[y > 0][:, -1].std(), 1.0, atol=0.05)


# -- rare events -------------------------------------------------------------------------


@pytest.mark.parametrize(("n_rows", "rate", "expected"), [(5000, 0.01, 50), (100, 1e-6, 1)])
def test_the_rate_of_events_is_as_asked(n_rows, rate, expected):
    X, y = make_rare_event(n_rows, rate, n_features=7)
    assert np.count_nonzero(y > 0) == expected
    assert X.shape == (n_rows, 7)


def test_events_and_hard_negatives_look_alike_at_the_gate():
    X, y = make_rare_event(20_000, 0.1, seed=1, n_features=8, hard_share=0.2)
    gate = X[:, :2].mean(axis=1)
    assert gate[y > 0].mean() == pytest.approx(3.0, abs=0.1)
    passed = np.mean(gate[y < 0] > 1.5)
    assert passed == pytest.approx(0.2, abs=0.03)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"positive_rate": 0.0}, "positive_rate must be between 0 and 1, got 0.0"),
        ({"positive_rate": 1.0}, "positive_rate must be between 0 and 1, got 1.0"),
        ({"hard_share": -0.1}, r"hard_share must be in \[0, 1\], got -0.1"),
        ({"n_features": 4}, "n_features must be >= 5, got 4"),
        ({"n_rows": 1}, "n_rows must be >= 2, got 1"),
    ],
    ids=str,
)
def test_bad_settings_of_rare_events_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        make_rare_event(**settings)
