"""Curvature of a loss that is certain on a range of margins.

For any z and t, l(t) = l(z) + l'(z) (t - z) + R(t) (t - z)^2. Kernels here bound R from below.
"""

from __future__ import annotations

import math

from totalqboost.kernels.jit import kernel
from totalqboost.kernels.loss_codes import EXPONENTIAL, MAX_EXPONENT, SQUARED
from totalqboost.kernels.newton import loss_at


@kernel
def exponential_ratio(x):
    """Return (exp(-x) - 1 + x) / x^2 for x >= 0, rounded down: 1/2 at 0, falling."""
    if x < 0.02:  # an alternating series, cut after a negative term
        return 0.5 - x / 6.0 + x * x / 24.0 - x * x * x / 120.0
    if x > 1e150:
        return 0.0
    return (math.expm1(-x) + x) / (x * x) * (1.0 - 1e-11)


@kernel
def tangent_ratio(code, z, t):
    """Return a lower bound of R(t) = (l(t) - l(z) - l'(z) (t - z)) / (t - z)^2.

    The quotient with its rounding error taken off, or half the least curvature between z
    and t (at one of the ends, for l'' is unimodal), whichever is larger.
    """
    value, weight, curvature = loss_at(code, z)
    there, _, other = loss_at(code, t)
    least = 0.5 * min(curvature, other)
    h = t - z
    if abs(h) < 1e-8:
        return least
    gap = there - value + weight * h
    rounding = 1e-15 * (abs(there) + abs(value) + abs(weight * h))
    return max((gap - rounding) / (h * h), least)


@kernel
def curvature_floor(code, z, low, high, c, out):
    """Write c_i R_i with l(t) >= l(z_i) + l'(z_i)(t - z_i) + R_i (t - z_i)^2 on [low_i, high_i].

    R(t) = int_0^1 (1 - s) l''(z + s (t - z)) ds is unimodal in t on either side of z, so its
    least value over the range is at an end of it or at z, where it is l''(z) / 2.
    """
    for i in range(z.shape[0]):
        if code == SQUARED:
            ratio = 1.0
        elif code == EXPONENTIAL:
            beyond = max(high[i] - z[i], 0.0)
            ratio = math.exp(min(-z[i], MAX_EXPONENT)) * exponential_ratio(beyond)
        elif math.isinf(low[i]) or math.isinf(high[i]):
            ratio = 0.0
        else:
            _, _, curvature = loss_at(code, z[i])
            left, right = tangent_ratio(code, z[i], low[i]), tangent_ratio(code, z[i], high[i])
            ratio = min(0.5 * curvature, min(left, right))
        out[i] = c[i] * ratio
