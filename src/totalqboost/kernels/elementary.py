"""exp and log1p that compilers turn into vector instructions.

They are right to what rounding of their argument leaves.

Calls of the C library's functions are made one number at a time, and take most of the time of
an evaluation of the risk.
"""

from __future__ import annotations

import math

import numpy as np

from totalqboost.kernels.jit import kernel
from totalqboost.kernels.loss_codes import MAX_EXPONENT

MIN_EXPONENT = -700.0  # smaller numbers would not be normal
LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
FIRST_POWER = -1022
POWERS = np.ldexp(1.0, np.arange(FIRST_POWER, 1024))
EXP_TERMS = tuple(1.0 / math.factorial(n) for n in range(12, -1, -1))
LOG_TERMS = tuple(1.0 / n for n in range(27, 0, -2))


@kernel
def fast_exp(x):
    """Return exp(x) for x between MIN_EXPONENT and MAX_EXPONENT, and at these for others.

    exp(x) = 2^n exp(r), |r| <= ln(2) / 2, by twelve terms of the series of exp(r). A NaN counts
    as the largest: a loss that is not known must not look small.
    """
    x = x if x < MAX_EXPONENT else MAX_EXPONENT
    x = x if x > MIN_EXPONENT else MIN_EXPONENT
    n = math.floor(x * LOG2_E + 0.5)
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    p = EXP_TERMS[0]
    for term in EXP_TERMS[1:]:
        p = p * r + term
    return p * POWERS[int(n) - FIRST_POWER]


@kernel
def fast_log1p(e):
    """Return log(1 + e) for 0 <= e <= 1: 2 atanh(t), t = e / (2 + e), by fourteen terms."""
    t = e / (2.0 + e)
    s = t * t
    p = LOG_TERMS[0]
    for term in LOG_TERMS[1:]:
        p = p * s + term
    return 2.0 * t * p
