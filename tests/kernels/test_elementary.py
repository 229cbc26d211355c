"""exp and log1p of our own against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from totalqboost.kernels.elementary import MIN_EXPONENT, fast_exp, fast_log1p
from totalqboost.kernels.loss_codes import MAX_EXPONENT


def test_exp_is_right_to_what_rounding_its_argument_leaves():
    for x in [*np.linspace(MIN_EXPONENT, MAX_EXPONENT, 997), *np.linspace(-2.0, 2.0, 401), 0.0]:
        assert fast_exp(x) == pytest.approx(np.exp(x), rel=4e-16 * (1 + abs(x)))


@pytest.mark.parametrize(
    ("x", "at"),
    [
        (1e3, MAX_EXPONENT),
        (np.inf, MAX_EXPONENT),
        (np.nan, MAX_EXPONENT),  # a loss that is not known must not look small
        (-1e3, MIN_EXPONENT),
        (-np.inf, MIN_EXPONENT),
    ],
)
def test_exp_stays_within_its_limits(x, at):
    assert fast_exp(x) == pytest.approx(np.exp(at), rel=1e-12)


def test_log1p_between_zero_and_one():
    for e in [*np.linspace(0.0, 1.0, 401), *np.logspace(-300, 0, 301)]:
        assert fast_log1p(e) == pytest.approx(np.log1p(e), rel=1e-14)
