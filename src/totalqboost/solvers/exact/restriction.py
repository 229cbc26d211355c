"""Quadratics whose columns go out: with those weights at zero, each is one of the others."""

from __future__ import annotations

import numpy as np

from totalqboost.kernels.exact.bounds import Underestimator, fold, principal
from totalqboost.kernels.exact.definite import EPS
from totalqboost.kernels.exact.moments import Anchor

__all__ = ["folded", "restricted"]


def folded(
    model: Underestimator | Anchor, stay: np.ndarray, go: np.ndarray
) -> tuple[np.ndarray, float, float, float, float]:
    """Return what a quadratic keeps of columns whose weights are zero: Qv, s'v and v'Qv, v = -x.

    And the size of slopes from then on, and the rounding of s'v and v'Qv.
    """
    bend, slope, curve = fold(model.Q, model.s, model.x, stay, go)
    moved = float(model.x[go].sum())
    size = model.weight + float(model.Q.diagonal().max(initial=0.0)) * moved
    unit = 8.0 * (model.n_rows + 2 * len(model.x) + 16) * EPS
    return bend, slope, curve, size, unit * size * moved


def restricted(model: Underestimator, stays: np.ndarray) -> Underestimator:
    """Return a quadratic where some weights are zero, as one of the others.

    With v = -x for those that go, s'v and v'Qv / 2 join the constant, Qv the gradient. The
    rounding of both is taken off the constant and added to the size of s.
    """
    stay, go = np.flatnonzero(stays), np.flatnonzero(~stays)
    bend, slope, curve, size, slack = folded(model, stay, go)
    unit = 8.0 * (model.n_rows + 2 * len(stays) + 16) * EPS
    return model._replace(
        risk=model.risk - slope + 0.5 * curve - unit * abs(model.risk) - slack,
        weight=size,
        nu=model.nu[stay],
        s=model.s[stay] - bend,
        Q=principal(model.Q, stay),
        x=model.x[stay],
    )
