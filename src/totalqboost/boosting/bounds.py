"""Lower bounds of the objective over the first columns of H: those of the l1 problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from totalqboost.boosting.columns import GeneratedColumns
from totalqboost.master import MasterProblem
from totalqboost.refit import refit

__all__ = ["KnownBound", "L1Bounds", "l1_bound"]

PRECISE = 1e-10  # violation of the optimality conditions that a final answer may have


def l1_bound(problem: MasterProblem, near: np.ndarray) -> tuple[float, np.ndarray]:
    """Return a lower bound of the objective, whatever is kept, and the l1 optimum behind it.

    By Theorem 1 the dual is that of lam = 0. The optimum is looked for near some weights.
    """
    w = refit(problem, np.arange(problem.n_columns), near, tol=PRECISE)
    return problem.dual_bound(problem.dual_weights(w)), w


@dataclass(frozen=True)
class KnownBound:
    """The bound of a round that was saved, without the columns behind it."""

    value: float

    def near(self, w: np.ndarray) -> float:
        """Return the bound."""
        return self.value


class L1Bounds:
    """The bound of a round, for those who ask: it costs a refit of all columns.

    H only grows, so the columns of a round are the first ones, whenever somebody asks. They stay
    in memory with the rounds, a byte for each column and row, and are not saved with them. A bound
    does not depend on which others were asked for.
    """

    def __init__(self, H: GeneratedColumns):
        self.H = H

    @property
    def problem(self) -> MasterProblem:
        """The master problem over all columns so far."""
        return self.H.problem()

    def __deepcopy__(self, memo: Any) -> L1Bounds:
        return self  # ``dataclasses.asdict`` of a round need not copy the columns

    def near(self, w: np.ndarray) -> float:
        """Return the bound over as many columns as there are weights, which are a start."""
        return l1_bound(self.problem.columns(slice(len(w))), w)[0]
