"""Protocols of dictionaries: where the columns of H come from."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from totalqboost.learners import Learner

__all__ = ["Candidate", "Dictionary", "Oracle"]


@dataclass(frozen=True)
class Candidate:
    """A column on offer.

    Attributes
    ----------
    learner : Learner
        The weak classifier h.
    column : array of int8
        y_i h(x_i) per training example: a row of ``MasterProblem.A``.
    edge : float
        sum_i u_i y_i h(x_i), the left side of its dual constraint (eq. 5).
    price : float
        What it was chosen by: the edge, or the decrease together with a free intercept.
    """

    learner: Learner
    column: np.ndarray
    edge: float
    price: float


class Oracle(Protocol):
    """Line 7 of Algorithm 1: the best columns for given boosting weights."""

    def best(
        self,
        u: np.ndarray,
        exclude: Collection[Learner] = (),
        n: int = 1,
        curvature: np.ndarray | None = None,
    ) -> list[Candidate]:
        """Return up to n columns not in ``exclude``, best first; ties go to the first one.

        Without ``curvature`` columns are priced by their edge, the most violated dual
        constraint. With ``curvature`` (c_i l''(z_i)) they are priced by the decrease of the
        risk that they bring together with the best shift of a free intercept: exactly, by
        Schapire and Singer's Z, if the curvature equals u (the exponential loss), else to
        second order.
        """

    def constants(self) -> list[Candidate]:
        """Return the two constant classifiers, for use as a free intercept."""


class Dictionary(Protocol):
    """Settings of a family of weak classifiers; ``prepare`` binds it to data."""

    def prepare(self, X: np.ndarray, y: np.ndarray, n_jobs: int | None = None) -> Oracle:
        """Return the oracle for examples X with labels y in {-1, +1}."""
