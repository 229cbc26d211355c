"""Column generation for totally corrective baselines, and what a baseline reports per round."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from totalqboost.boosting import GeneratedColumns, Terms, next_column
from totalqboost.dictionaries.base import Oracle
from totalqboost.ensemble import Ensemble
from totalqboost.learners import Learner
from totalqboost.losses import Exponential

__all__ = ["MasterPoint", "Stage", "ensemble_of", "totally_corrective"]


@dataclass(frozen=True)
class Stage:
    """The ensemble after one round.

    Attributes
    ----------
    ensemble : Ensemble
        Distinct columns of positive weight.
    objective : float
        What the baseline minimises: the exponential risk, or minus the soft margin (less
        KL / eta for ERLPBoost).
    bound : float
        Lower bound of the objective over the whole dictionary, -inf if none is known.
    """

    ensemble: Ensemble
    objective: float
    bound: float


@dataclass(frozen=True)
class MasterPoint:
    """A solution over the columns so far: weights w and the distribution d.

    ``value`` is reached by w (a lower bound), ``edges`` are those of the columns under d,
    and max(edges) + ``divergence`` is an upper bound, where divergence = KL(d, c) / eta.
    """

    w: np.ndarray
    d: np.ndarray
    value: float
    edges: np.ndarray
    divergence: float = 0.0

    @property
    def gap(self) -> float:
        return float(self.edges.max()) + self.divergence - self.value


def totally_corrective(
    oracle: Oracle,
    c: np.ndarray,
    max_rounds: int,
    master: Callable[[np.ndarray], MasterPoint],
    tol: float,
) -> Iterator[Stage]:
    """Column generation; stops when the best column can raise the value by at most tol."""
    H = GeneratedColumns(Terms(Exponential(), c, nu=0.0), oracle.n_features)
    present = np.flatnonzero(c)
    d = c.copy()
    upper = np.inf
    candidate = next_column(oracle, H, d)
    while candidate is not None and len(H) < max_rounds:
        H.add(candidate.learner, candidate.column)
        point = master(H.problem().A[:, present].astype(float))
        d[present] = point.d
        candidate = next_column(oracle, H, d)
        edge = max(point.edges.max(), -np.inf if candidate is None else candidate.edge)
        upper = min(upper, float(edge) + point.divergence)
        yield Stage(ensemble_of(H.learners, point.w), -point.value, -upper)
        if upper - point.value <= tol:
            return


def ensemble_of(learners: list[Learner], w: np.ndarray) -> Ensemble:
    """Return the ensemble of the columns of positive weight; a constant counts as one."""
    return Ensemble.from_columns(learners, w, np.zeros(len(w), dtype=bool))
