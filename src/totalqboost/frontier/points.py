"""Frontier: ensembles of every size with their errors, and how to choose one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from totalqboost.ensemble import Ensemble
from totalqboost.held_out import HeldOut, Measure
from totalqboost.penalties import cardinality_price
from totalqboost.selection import RULES, choose

__all__ = ["Frontier", "FrontierPoint"]


@dataclass(frozen=True)
class FrontierPoint:
    """The ensemble of one size.

    Attributes
    ----------
    n_learners : int
        Its size; the intercept is not counted.
    risk, objective, bound : float
        Mean loss, mean loss with the l1 term, and a lower bound of the latter over the columns
        that the search generated (all ensembles of them of this size).
    train_error, valid_error : float
        Shares of rows, NaN if unknown. The rows of the latter, and of all that begins with
        ``valid``, were not trained on: validation rows, or with ``cv`` each fold's own.
    valid_error_se, valid_log_loss, valid_log_loss_se, valid_auc, valid_auc_se : float
        Further measures, NaN if unknown; ``se`` are standard errors.
    l1_penalty : float
        The price of weight that it was trained with.
    penalty : float
        The cardinality penalty at which the last learner just pays for itself: the decrease of
        the objective per learner since the point before.
    ensemble : Ensemble
        The model.
    """

    n_learners: int
    risk: float
    objective: float
    bound: float
    train_error: float
    valid_error: float
    penalty: float
    ensemble: Ensemble
    valid_error_se: float = np.nan
    valid_log_loss: float = np.nan
    valid_log_loss_se: float = np.nan
    valid_auc: float = np.nan
    valid_auc_se: float = np.nan
    l1_penalty: float = np.nan


@dataclass(frozen=True)
class Frontier:
    """Ensembles of growing size with their risk and errors.

    ``front[k]`` is the ensemble's point of exactly k learners, ``len(front)`` the number of
    points. ``n_rows`` and ``n_columns`` are the numbers of training rows and of weak classifiers
    to choose from; ``held_out`` has what the ensembles say about rows they were not trained on,
    and ``scores`` the mean of a score to choose by, if one was asked for.
    """

    points: tuple[FrontierPoint, ...]
    n_rows: float
    n_columns: int = 1
    held_out: HeldOut | None = field(default=None, repr=False, compare=False)
    scores: Measure | None = field(default=None, repr=False, compare=False)

    def __iter__(self) -> Iterator[FrontierPoint]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, n_learners: int) -> FrontierPoint:
        return self.at(n_learners)

    def at(self, n_learners: int) -> FrontierPoint:
        """Return the point of exactly this size."""
        for point in self.points:
            if point.n_learners == n_learners:
                return point
        sizes = [point.n_learners for point in self.points]
        raise KeyError(f"there is no ensemble of {n_learners!r} learners; sizes are {sizes}")

    def best(
        self,
        max_learners: int | None = None,
        rule: str | Callable[[Frontier], int] = "min",
    ) -> FrontierPoint:
        """Return the point that a rule chooses, by validation error (else training error).

        Parameters
        ----------
        max_learners : int, optional
            Largest size to consider.
        rule : {"min", "1se", "paired", "ric"} or callable
            "min" is the least error. "1se" takes the smallest ensemble whose error is within
            one standard error of the least one; "paired" the smallest that has, row by row,
            no more than one standard error of excess over the best, which is sharper since
            rows that are hard for both cancel. "ric" needs no further rows: the least objective
            when each learner costs ln(M)/n (Foster and George's risk inflation criterion). A
            callable gets the frontier and returns a size. Ties go to the smaller ensemble.
        """
        if callable(rule):
            return self.at(rule(self))
        if rule not in RULES:
            names = ", ".join(repr(name) for name in RULES)
            raise ValueError(f"rule must be one of {names} or a callable, got {rule!r}")
        n_within = sum(
            max_learners is None or point.n_learners <= max_learners for point in self.points
        )
        if n_within == 0:
            raise ValueError(f"max_learners must be >= 0, got {max_learners!r}")
        within = self.points[:n_within]
        if rule == "ric":
            price = cardinality_price("ric", self.n_rows, self.n_columns)
            return min(within, key=lambda point: point.objective + price * point.n_learners)
        held_out = None if self.held_out is None else self.held_out.first(n_within)
        scores = None if self.scores is None else self.scores.first(n_within)
        return within[choose(rule, self._errors(within), held_out, scores)]

    def _errors(self, points: Sequence[FrontierPoint]) -> Measure:
        """Return the errors to choose by, and their standard errors."""
        errors = np.array([self._error(point) for point in points])
        known = np.array([point.valid_error_se for point in points])
        binomial = np.sqrt(errors * (1.0 - errors) / self.n_rows)
        return Measure(errors, np.where(np.isnan(known), binomial, known))

    def _error(self, point: FrontierPoint) -> float:
        return point.train_error if np.isnan(point.valid_error) else point.valid_error

    def to_frame(self) -> Any:
        """Return the numbers as a pandas DataFrame, one row per size."""
        import pandas as pd

        names = [f.name for f in fields(FrontierPoint) if f.name != "ensemble"]
        return pd.DataFrame([{name: getattr(p, name) for name in names} for p in self.points])

    def plot(self, path: str | os.PathLike[str] | None = None, ax: Any = None) -> Any:
        """Draw error against size and mark ``best(rule="1se")``; return the axes.

        The picture is saved if ``path`` is given.
        """
        from matplotlib.figure import Figure

        if ax is None:
            ax = Figure(figsize=(7, 4), layout="constrained").add_subplot()
        sizes = [p.n_learners for p in self.points]
        curves = [("training", "train_error", "0.6"), ("validation", "valid_error", "C0")]
        for label, name, colour in curves:
            errors = np.array([getattr(p, name) for p in self.points])
            if not np.isnan(errors).all():
                ax.plot(sizes, 100 * errors, "o-", ms=3.5, color=colour, label=label)
        chosen = self.best(rule="1se")
        error = 100 * self._error(chosen)
        text = f"chosen: {chosen.n_learners} learners, {error:.1f} %"
        ax.plot(chosen.n_learners, error, "o", ms=11, mfc="none", mew=2, color="C3", label=text)
        ax.set(xlabel="weak classifiers in the ensemble", ylabel="error (%)")
        ax.set_ylim(bottom=0)
        ax.grid(alpha=0.3)
        ax.legend(frameon=False)
        if path is not None:
            ax.figure.savefig(path, dpi=150)
        return ax
