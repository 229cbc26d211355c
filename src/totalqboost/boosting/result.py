"""What boosting tells on the way, and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from totalqboost.boosting.bounds import KnownBound, L1Bounds
from totalqboost.ensemble import Ensemble
from totalqboost.learners import Learner
from totalqboost.master import MasterProblem
from totalqboost.solving import Solution, Status

__all__ = ["BoostingResult", "Event", "FoldDone", "Progress", "Round", "Searched"]


@dataclass(frozen=True)
class Round:
    """One round of boosting, or one size of a search over the whole dictionary.

    Attributes
    ----------
    number : int
        Of the round, from 1; or the size.
    objective, risk : float
        Of the ensemble at the end of the round.
    ensemble : Ensemble
        The ensemble at the end of the round.
    seconds : float
        Duration of the round; 0 for a size.
    learner : Learner, optional
        The column that was added to H; None for a size.
    edge : float
        Its edge when it was chosen.
    n_violated : int
        Columns of H whose dual constraint is violated by more than the tolerance: those that
        the cardinality penalty keeps out.
    n_evaluations : int
        Work of the solver in this round.
    status : Status, optional
        Why the solver stopped; None in rounds without the penalty.
    n_bits : int, optional
        Depth of the fixed-point weights that the solver searched; None if it searched none.
    weight_range : float, optional
        The largest weight that they can hold, on the grid of the answer. An intercept has a range
        of its own.
    weights : array, optional
        Of the columns so far, at the end of the round; none for a size or if the round was saved.
    bounds : L1Bounds or KnownBound, optional
        Where ``dual_bound`` comes from; None for a size.
    """

    number: int
    objective: float
    risk: float
    ensemble: Ensemble
    seconds: float = 0.0
    learner: Learner | None = None
    edge: float = np.nan
    n_violated: int = 0
    n_evaluations: int = 0
    status: Status | None = None
    n_bits: int | None = None
    weight_range: float | None = None
    weights: np.ndarray | None = field(default=None, repr=False, compare=False)
    bounds: L1Bounds | KnownBound | None = field(default=None, repr=False, compare=False)

    @cached_property
    def dual_bound(self) -> float:
        """Lower bound of the objective over the columns so far, computed when it is asked for.

        The optimum of the l1 problem, to which the dual of the paper belongs with and without
        the penalty (Theorem 1). -inf for a size.
        """
        if self.bounds is None or self.weights is None:
            return -np.inf
        return self.bounds.near(self.weights)

    def __getstate__(self) -> dict[str, Any]:
        """Travel with the bound, without the columns behind it, which are as large as the data."""
        known = KnownBound(self.dual_bound) if self.bounds else None
        return {**self.__dict__, "weights": np.empty(0), "bounds": known}

    @property
    def cardinality(self) -> int:
        """Number of kept columns, free ones not counted."""
        return self.ensemble.n_learners

    @property
    def duality_gap(self) -> float:
        """objective - dual_bound; at least lam * cardinality by Theorem 2.

        With lam = 0 it is what the refit of the round left undone: ``tol`` limits it, not rounding.
        """
        return self.objective - self.dual_bound


@dataclass(frozen=True)
class Searched:
    """A step of the search over the whole dictionary: the size it is at, and of how many.

    Attributes
    ----------
    n_learners, max_learners : int
        The size it is at, and the largest.
    objective : float
        The least of this size so far.

    Examples
    --------
    >>> from totalqboost import TotalQBoostClassifier, datasets
    >>> X, y = datasets.load("flare solar")
    >>> seen = []
    >>> _ = TotalQBoostClassifier(0, max_learners=2).fit(X, y, on_event=seen.append)
    >>> type(seen[0]).__name__
    'Searched'
    """

    n_learners: int
    max_learners: int
    objective: float


@dataclass(frozen=True)
class FoldDone:
    """A fold of a cross-validation has ended: how many have, and of how many.

    Attributes
    ----------
    n_done, n_folds : int
        How many have ended, and of how many.

    Examples
    --------
    >>> from totalqboost.boosting import FoldDone
    >>> FoldDone(2, 5).n_folds
    5
    """

    n_done: int
    n_folds: int


Progress = Round | Searched | FoldDone
Event = Callable[[Progress], None]


@dataclass(frozen=True)
class BoostingResult:
    """The final ensemble, and how it was found.

    ``learners`` are those of the columns of H, which ``solution.w`` weighs. ``status`` tells
    why boosting ended, and ``solution.status`` the same, or what the solver said in the end.
    ``problem`` is the restricted master problem over H.

    Attributes
    ----------
    learners : tuple of Learner
        Of the columns of H.
    trace : tuple of Round
        What happened in each round.
    solution : Solution
        The weights of the columns.
    status : Status
        Why boosting ended.
    ensemble : Ensemble
        The model.
    problem : MasterProblem, optional
        The restricted master problem over H.

    Examples
    --------
    >>> from totalqboost import TotalQBoostClassifier, datasets
    >>> X, y = datasets.load("flare solar")
    >>> result = TotalQBoostClassifier(0, max_learners=2).fit(X, y).result_
    >>> len(result.learners) == len(result.solution.w)
    True
    """

    learners: tuple[Learner, ...]
    trace: tuple[Round, ...]
    solution: Solution
    status: Status
    ensemble: Ensemble
    problem: MasterProblem | None = None

    def staged(self) -> list[Ensemble]:
        """Return the ensemble after each round."""
        return [record.ensemble for record in self.trace]
