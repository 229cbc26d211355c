"""Quadratics whose columns go out: with those weights at zero, each is one of the others.

With v = -x for those that go, s'v and v'Qv / 2 join the constant, Qv the gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from totalqboost.kernels.exact.bounds import Underestimator
from totalqboost.kernels.exact.definite import EPS
from totalqboost.kernels.exact.moments import Anchor

__all__ = ["restricted", "without_columns"]


def _folded(
    model: Underestimator | Anchor, stays: np.ndarray
) -> tuple[dict[str, Any], np.ndarray, float, float, float, float]:
    """Return what stays of a quadratic as it is, Qv, s'v, v'Qv, the size of slopes from then on,
    and the rounding of s'v and v'Qv.
    """
    v, Q = -model.x[~stays], model.Q[:, ~stays]
    bend, slope, curve = Q[stays] @ v, float(model.s[~stays] @ v), float(v @ Q[~stays] @ v)
    moved = -float(v.sum())
    size = model.weight + float(model.Q.diagonal().max(initial=0.0)) * moved
    slack = 8.0 * (model.n_rows + 2 * len(stays) + 16) * EPS * size * moved
    kept = {"nu": model.nu[stays], "x": model.x[stays], "Q": model.Q[np.ix_(stays, stays)]}
    return kept, bend, slope, curve, size, slack


def restricted(model: Underestimator, stays: np.ndarray) -> Underestimator:
    """Return a quadratic where some weights are zero, as one of the others.

    Rounding is taken off the constant and added to the size of s.
    """
    kept, bend, slope, curve, size, slack = _folded(model, stays)
    slack += 8.0 * (model.n_rows + 2 * len(stays) + 16) * EPS * abs(model.risk)
    risk = model.risk - slope + 0.5 * curve - slack
    return model._replace(risk=risk, weight=size, s=model.s[stays] - bend, **kept)


def without_columns(anchor: Anchor, stays: np.ndarray) -> Anchor:
    """Return an anchor where some weights are zero, as one of the others."""
    kept, bend, slope, curve, size, slack = _folded(anchor, stays)
    return anchor._replace(
        weight=size,
        s=anchor.s[stays],
        drop=anchor.drop + slope,
        lift=anchor.lift - 2.0 * float(anchor.bend[~stays] @ anchor.x[~stays]) + curve,
        bend=anchor.bend[stays] + bend,
        slack=anchor.slack + slack,
        **kept,
    )
