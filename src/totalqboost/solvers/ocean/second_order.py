"""The second-order model of the risk at a point, and what builders of models check.

At a point a, with s = A u, u = c (-l'(z)) and G = A diag(c l''(z)) A', z = A' a,

    R(w) = risk(a) - s (w - a) + kappa / 2 (w - a)' G (w - a)

approximates the risk. kappa >= 1 is the trust factor: the larger, the more a step away from
a costs, and the nearer to it the model's minimum lies. For the squared loss G does not depend
on a, and with kappa = 1 the model is the risk itself, everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from totalqboost.fixed_point import as_floats
from totalqboost.master import MasterProblem
from totalqboost.refit import refit

__all__ = ["SecondOrderModel", "checked_weights", "indicator_step"]


@dataclass(frozen=True, eq=False)
class SecondOrderModel:
    """R(w) + nu sum_j w_j = offset + linear w + 1/2 w' hessian w, without the cardinality.

    Attributes
    ----------
    problem : MasterProblem
        What is approximated.
    at : array of shape (n_columns,)
        The point a.
    kappa : float
        The trust factor.

    Examples
    --------
    >>> import numpy as np
    >>> from totalqboost import MasterProblem
    >>> A = np.where(np.random.default_rng(0).random((6, 40)) < 0.6, 1, -1)
    >>> problem = MasterProblem(A, nu=1e-3, lam=0.01)
    >>> from totalqboost.solvers.ocean import SecondOrderModel
    >>> w = np.full(6, 0.1)
    >>> SecondOrderModel(problem, w).hessian.shape
    (6, 6)
    """

    problem: MasterProblem
    at: np.ndarray
    kappa: float = 1.0

    @classmethod
    def of(cls, problem: MasterProblem, at: np.ndarray | None, kappa: float) -> SecondOrderModel:
        """Return the model at a point, by default the l1 optimum over all columns."""
        is_number = isinstance(kappa, Real) and not isinstance(kappa, bool)
        if not (is_number and 0 < kappa < np.inf):
            raise ValueError(f"kappa must be a finite number > 0, got {kappa!r}")
        if at is None:
            at = refit(problem, np.arange(problem.n_columns), tol=1e-6)
        return cls(problem, checked_weights("at", at, problem.n_columns), float(kappa))

    @cached_property
    def _slopes(self) -> tuple[np.ndarray, np.ndarray]:
        """The edges s, and c l'' per row."""
        u, q = self.problem.weights_and_curvature(self.at)
        return self.problem.edges(u), q

    @property
    def edges(self) -> np.ndarray:
        """s, the negative gradient of the risk at the point."""
        return self._slopes[0]

    @cached_property
    def hessian(self) -> np.ndarray:
        """kappa G, in double precision: the builders promise an exact model."""
        A, q = self.problem.A, self._slopes[1]
        rows = [self.problem.edges(q * column) for column in A]
        return self.kappa * np.array(rows).reshape(len(A), len(A))

    @cached_property
    def linear(self) -> np.ndarray:
        return self.problem.nus - self.edges - self.hessian @ self.at

    @cached_property
    def offset(self) -> float:
        a = self.at
        return float(self.problem.risk(a) + self.edges @ a + 0.5 * a @ self.hessian @ a)

    def value(self, w: np.ndarray) -> float:
        """Return what the model expects of w: R(w) + nu sum w and all prices."""
        w = np.asarray(w, dtype=float)
        smooth = float(self.offset + self.linear @ w + 0.5 * w @ self.hessian @ w)
        return smooth + self.problem.price(w)

    def lower_bound(self, top: np.ndarray) -> float:
        """Return a lower bound of the smooth part over 0 <= w <= top: its tangent at a."""
        slope = self.problem.nus - self.edges
        value = self.problem.risk(self.at) + self.problem.nus @ self.at
        return float(value + np.minimum(slope * (0.0 - self.at), slope * (top - self.at)).sum())


def indicator_step(model: SecondOrderModel) -> np.ndarray:
    """Return the weight that each column has if it is kept: one bit must say it all.

    A column with a weight at the point keeps it. Another gets the step that minimises the
    model along it, and at least a tenth of the typical weight, for what it is worth next
    to the others does not show there.
    """
    at = model.at
    typical = float(np.median(at[at > 0])) if (at > 0).any() else 1.0
    curvature = np.maximum(np.diag(model.hessian), np.finfo(float).tiny)
    newton = (model.edges - model.problem.nus) / curvature
    return np.where(at > 0, at, np.clip(newton, 0.1 * typical, max(typical, 1.0)))


def checked_weights(name: str, w: Any, n_columns: int) -> np.ndarray:
    """Return weights that a caller gave as an array of their own."""
    weights = as_floats(w)
    if weights.shape != (n_columns,) or not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(f"{name} must hold {n_columns} finite weights >= 0, got {w!r}")
    return weights
