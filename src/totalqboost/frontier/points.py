"""Frontier: ensembles of every size with their errors, and how to choose one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from totalqboost.ensemble import Ensemble
from totalqboost.held_out import HeldOut, Measure
from totalqboost.parameters import check_integer
from totalqboost.penalties import cardinality_price
from totalqboost.plots import FrontierDisplay, frontier_html, frontier_text
from totalqboost.selection import check_rule, choose

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
    calibration : float
        What its weights were multiplied by after training, with ``cv``: the factor of least
        out-of-fold log-loss. Objective and bound are those before, the risk that after.
    penalty : float
        The cardinality penalty at which the last learner just pays for itself: the decrease of
        the objective per learner since the next smaller ensemble of the same l1 price.
    ensemble : Ensemble
        The model.

    Examples
    --------
    >>> from totalqboost import datasets, frontier
    >>> front = frontier(*datasets.load("flare solar"), max_learners=2)
    >>> point = front[2]
    >>> point.n_learners, len(point.ensemble.learners)
    (2, 2)
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
    calibration: float = 1.0


@dataclass(frozen=True, repr=False)
class Frontier:
    """Ensembles of growing size with their risk and errors.

    ``front[k]`` is the ensemble's point of exactly k learners, ``len(front)`` the number of
    points. ``n_rows`` and ``n_columns`` are the numbers of training rows and of weak classifiers
    to choose from; ``held_out`` has what the ensembles say about rows they were not trained on,
    and ``scores`` the mean of a score to choose by, if one was asked for.

    Attributes
    ----------
    points : tuple of FrontierPoint
        By ascending size.
    n_rows : float
        Number of training rows, of weighted ones the effective number.
    n_columns : int
        Number of weak classifiers to choose from.
    held_out : HeldOut, optional
        What the ensembles say about rows that were held out.
    scores : Measure, optional
        A score of the user's own, by size.
    """

    points: tuple[FrontierPoint, ...]
    n_rows: float
    n_columns: int = 1
    held_out: HeldOut | None = field(default=None, compare=False)
    scores: Measure | None = field(default=None, compare=False)

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
        rule: str | Callable[[Frontier], int] = "paired",
        *,
        max_learners: int | None = None,
    ) -> FrontierPoint:
        """Return the point that a rule chooses, by validation error (else training error).

        Parameters
        ----------
        rule : {"paired", "1se", "min", "ric"} or callable
            "min" is the least error. "1se" takes the smallest ensemble whose error is within
            one standard error of the least one; "paired" the smallest that has, row by row,
            no more than one standard error of excess over the best, which is sharper since
            rows that are hard for both cancel (without validation rows it is "1se"). "ric"
            needs no further rows: the least objective when each learner costs ln(M)/n (Foster
            and George's risk inflation criterion; the risk stands for the objective where l1
            prices differ). A callable gets the frontier and returns a size. Ties go to the
            smaller ensemble.
        max_learners : int, optional
            Largest size to consider.
        """
        check_rule(rule)
        if max_learners is not None:
            check_integer("max_learners", max_learners, 0)
        n_within = sum(
            max_learners is None or point.n_learners <= max_learners for point in self.points
        )
        within = replace(
            self,
            points=self.points[:n_within],
            held_out=None if self.held_out is None else self.held_out.first(n_within),
            scores=None if self.scores is None else self.scores.first(n_within),
        )
        if not isinstance(rule, str):
            return within.at(rule(within))
        if rule == "ric":
            return within._least_inflated()
        place = choose(rule, within._errors(within.points), within.held_out, within.scores)
        return within.points[place]

    def _least_inflated(self) -> FrontierPoint:
        price = cardinality_price("ric", self.n_rows, self.n_columns)
        is_one_problem = len({point.l1_penalty for point in self.points}) == 1

        def value(point: FrontierPoint) -> float:
            fit = point.objective if is_one_problem else point.risk
            return fit + price * point.n_learners

        return min(self.points, key=value)

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

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        ax: Any = None,
        *,
        metric: str = "error",
        rule: str | Callable[[Frontier], int] | None = "paired",
    ) -> Any:
        """Draw error (or ``metric="log_loss"``, ``"auc"``) against size; return the axes.

        The size that ``best(rule=rule)`` chooses is marked, bands are standard errors, and the
        picture is saved if ``path`` is given. See
        :class:`totalqboost.plots.FrontierDisplay`.
        """
        if ax is None and path is not None:  # no window for a file
            from matplotlib.figure import Figure

            ax = Figure(figsize=(7, 4), layout="constrained").add_subplot()
        display = FrontierDisplay.from_frontier(self, metric, rule=rule, ax=ax)
        if path is not None:
            display.figure_.savefig(path, dpi=150)
        return display.ax_

    def __repr__(self) -> str:
        sizes = [point.n_learners for point in self.points]
        if not sizes:
            return "<Frontier: no ensembles>"
        least = 100 * min(self._error(point) for point in self.points)
        rows = "training" if np.isnan(self.points[-1].valid_error) else "validation"
        return f"<Frontier: {sizes[0]} to {sizes[-1]} learners, least {rows} error {least:.1f} %>"

    def __str__(self) -> str:
        return frontier_text(self)

    def _repr_html_(self) -> str:
        return frontier_html(self)
