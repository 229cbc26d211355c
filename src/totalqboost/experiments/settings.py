"""Settings of a run: everything that the rows depend on besides the data."""

from __future__ import annotations

import math
from dataclasses import dataclass

from totalqboost import paper

__all__ = ["FORM", "Settings"]

FORM = paper.paper_form()  # solver and tol apart, which stand here by name and in its own unit


@dataclass(frozen=True)
class Settings:
    """The paper's choices (section 5); every one is an option.

    Attributes
    ----------
    solver : str
        Solver of the restricted master problem in C, D and E; "tabu" is the paper's.
    max_rounds : int
        T.
    tol : float
        epsilon, on the paper's scale: that of a risk which is a sum over rows.
    exhaust : bool
        With a penalty go on until the dictionary has no unseen column, as the paper does.
    nu : float
        The "negligibly small but nonzero" l1 weight of B to E.
    n_bits : int
        Depth of the weights of discrete solvers.
    n_penalties : int
        Length of the grids of nu (A) and lambda (C, D, E).
    hot_share : float
        T' = this share of T, rounded up, or all columns of plain column generation (B) if
        they are fewer.
    fit_intercept : bool
        False: the constant classifier counts as a learner.
    loss : str
        Loss of the margin.
    n_folds : int
        0 for the paper's random splits, else the number of folds.
    time_limit : float or None
        Seconds per master problem, for solvers that have such a limit. With one, the rows
        depend on the speed of the machine.
    """

    solver: str = "local"
    max_rounds: int = FORM["max_rounds"]
    tol: float = paper.EPSILON
    exhaust: bool = FORM["exhaust"]
    nu: float = FORM["l1_penalty"]
    n_bits: int = paper.N_BITS
    n_penalties: int = 20
    hot_share: float = 0.75
    fit_intercept: bool = FORM["fit_intercept"]
    loss: str = FORM["loss"]
    n_folds: int = 0
    time_limit: float | None = None

    @property
    def n_hot(self) -> int:
        """T', unless plain column generation makes fewer columns."""
        return max(1, math.ceil(self.hot_share * self.max_rounds))
