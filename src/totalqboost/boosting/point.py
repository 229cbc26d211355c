"""A point of the search: weights with all that belongs to them, and steps that improve them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from totalqboost.boosting.columns import Terms
from totalqboost.kernels.loss_codes import CUSTOM
from totalqboost.kernels.newton import loss_terms
from totalqboost.kernels.swaps import MAX_STEPS, quasi_newton

__all__ = ["Point", "Slots", "Steps"]


class Slots(NamedTuple):
    """Columns by rows of examples, what each pays per unit of weight, and its least weight."""

    AT: np.ndarray
    nu: np.ndarray
    least: np.ndarray


class Steps(NamedTuple):
    """When steps end: after n that lower the value little, at a gain below ``close``, or when
    ``target`` is out of reach.
    """

    n: int
    close: float
    target: float = np.inf


class Point:
    """Weights w with the margins z, u = -c l'(z) and q = c l''(z) that belong to them."""

    def __init__(self, terms: Terms, w: np.ndarray, z: np.ndarray):
        self.terms, self.w, self.z = terms, w, z
        self.u, self.q = np.empty_like(z), np.empty_like(z)
        self.risk = self._evaluate(z)

    def _evaluate(self, z: np.ndarray) -> float:
        """Write u and q at the margins z; return the risk."""
        loss, c = self.terms.loss, self.terms.sample_weight
        if loss.code != CUSTOM:
            return loss_terms(loss.code, z, c, self.u, self.q)
        self.u[:], self.q[:] = c * loss.weight(z), c * loss.curvature(z)
        return float(c @ loss.value(z))

    def descend(
        self, slots: Slots, M: np.ndarray, value: float, steps: Steps
    ) -> tuple[float, float]:
        """Move by steps with the inverse Gram matrix M; return value and last decrement."""
        if self.terms.loss.code == CUSTOM:
            value, decrement = self.plain_descend(slots, M, value, steps)
        else:
            value, decrement = quasi_newton(
                slots.AT,
                self.w,
                slots.least,
                self.z,
                self.terms.sample_weight,
                self.terms.loss.code,
                slots.nu,
                M,
                value,
                self.u,
                self.q,
                *steps,
            )
        self.risk = value - float(slots.nu @ np.abs(self.w))
        return value, decrement

    def plain_descend(
        self, slots: Slots, M: np.ndarray, value: float, steps: Steps
    ) -> tuple[float, float]:
        """Do what the kernel does, for a loss that is not compiled."""
        A, nu = slots.AT[:, : len(self.w)], slots.nu
        curvature, decrement = self.q.sum(), 0.0
        n_counted = 0
        for step in range(MAX_STEPS):
            if n_counted == steps.n:
                break
            g = self.u @ A - nu * np.sign(self.w)
            now = self.q.sum()
            factor = curvature / now if step > 0 and now > 0.0 else 1.0
            d = np.maximum(factor * (M @ g), slots.least - self.w)
            decrement = 0.5 * float(g @ d)
            if decrement < steps.close or value - 2.0 * decrement > steps.target:
                break
            for _ in range(6):
                z = self.z + A @ d
                new = self._evaluate(z) + float(nu @ np.abs(self.w + d))
                if new <= value:
                    break
                d = 0.4 * d
            if not new <= value:
                self._evaluate(self.z)
                break
            n_counted += new > 0.8 * value
            self.z, self.w, value = z, self.w + d, new
        return value, decrement
