"""What a running branch and bound reports."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from totalqboost.solving import Solution

__all__ = ["Progress"]


@dataclass(frozen=True)
class Progress:
    """State of a running branch and bound."""

    n_nodes: int
    n_open: int
    objective: float
    bound: float
    seconds: float

    @property
    def gap(self) -> float:
        """Relative distance of the objective to the bound."""
        return Solution(np.empty(0), self.objective, self.bound).gap

    def __str__(self) -> str:
        return (
            f"{self.n_nodes} nodes, {self.n_open} open, objective {self.objective:.7f}, "
            f"bound {self.bound:.7f}, gap {self.gap:.2%}"
        )
