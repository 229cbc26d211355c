"""By what sets of rows are priced, and what is offered at a price."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from totalqboost.kernels.histogram import BY_EDGE, prices_of_cuts
from totalqboost.learners import Learner
from totalqboost.master import absolute_sum

__all__ = ["Offer", "Pricing"]

ROUNDING = 1e-12  # share of all slopes below which prices are equal


class Offer(NamedTuple):
    """A weak classifier with its price and its edge."""

    price: float
    edge: float
    learner: Learner


class Pricing(NamedTuple):
    """The rule of the kernels, nu, what an extra costs, and what is no difference of prices."""

    rule: int
    nu: float
    extra: float
    tie: float

    @classmethod
    def by(cls, rule: int, g: np.ndarray, nu: float = 0.0, extra: float = 0.0) -> Pricing:
        """Return the pricing of columns where the slopes of rows are g."""
        return cls(rule, nu, extra, ROUNDING * absolute_sum(g))

    @property
    def quantum(self) -> float:
        """In units of which prices are compared; never zero."""
        return max(self.tie, 1e-300)

    def fee(self, n_extras: int | np.ndarray) -> float | np.ndarray:
        """Return what extras cost; edges, those of dual constraints, have no fees."""
        return 0.0 if self.rule == BY_EDGE else self.extra * n_extras

    def of_sets(
        self, inside: np.ndarray, total: np.ndarray, extras: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return prices and signs of sets, given sums of slope and curvature inside and of all."""
        prices, signs = np.empty(len(inside)), np.empty(len(inside), dtype=np.int8)
        outside = total - inside
        given = self.rule, outside[:, 0], outside[:, 1], *total, self.nu, self.tie
        prices_of_cuts(*given, prices, signs)
        return prices - self.fee(extras), signs
