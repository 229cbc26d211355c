"""The frontier of error against size: one small ensemble for every number of learners."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from totalqboost.boosting import Event, SizePoint, every_size
from totalqboost.dictionaries.base import Dictionary
from totalqboost.ensemble import Ensemble
from totalqboost.examples import Examples, check_examples, check_validation
from totalqboost.losses import Loss
from totalqboost.parameters import check_integer
from totalqboost.settings import check_settings, generator
from totalqboost.solving import Interrupted, MasterSolver, SolverError

__all__ = ["Frontier", "FrontierPoint", "frontier"]


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
        Shares of rows, NaN if unknown.
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


@dataclass(frozen=True)
class Frontier:
    """Ensembles of growing size with their risk and errors.

    ``n_rows`` is the number of rows that the errors to choose by were measured on.
    """

    points: tuple[FrontierPoint, ...]
    n_rows: int

    def __iter__(self) -> Iterator[FrontierPoint]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    def best(self, max_learners: int | None = None, rule: str = "min") -> FrontierPoint:
        """Return the point of least validation error (else training error) within the size.

        Parameters
        ----------
        max_learners : int, optional
            Largest size to consider.
        rule : {"min", "1se"}
            "1se" takes the smallest ensemble whose error is within one standard error of
            the least one. Ties go to the smaller ensemble.
        """
        if rule not in ("min", "1se"):
            raise ValueError(f"rule must be 'min' or '1se', got {rule!r}")
        within = [p for p in self.points if max_learners is None or p.n_learners <= max_learners]
        if not within:
            raise ValueError(f"max_learners must be >= 0, got {max_learners!r}")
        limit = min(self._error(point) for point in within)
        if rule == "1se":
            limit += np.sqrt(limit * (1.0 - limit) / self.n_rows)
        return next(point for point in within if self._error(point) <= limit)

    def _error(self, point: FrontierPoint) -> float:
        return point.train_error if np.isnan(point.valid_error) else point.valid_error

    def to_frame(self) -> Any:
        """Return the numbers as a pandas DataFrame, one row per size."""
        import pandas as pd

        names = ["n_learners", "risk", "objective", "bound", "train_error", "valid_error"]
        names.append("penalty")
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


def frontier(
    X: Any,
    y: Any,
    X_valid: Any = None,
    y_valid: Any = None,
    *,
    sample_weight: Any = None,
    max_learners: int = 30,
    loss: str | Loss = "logistic",
    dictionary: str | Dictionary = "stumps",
    solver: str | MasterSolver = "local",
    l1_penalty: float | str = "auto",
    tol: float = 5e-4,
    fit_intercept: bool = True,
    random_state: int = 0,
    n_jobs: int | None = None,
    on_event: Event | None = None,
) -> Frontier:
    """Return small ensembles of every size up to ``max_learners``.

    Each is the best of its size that a search over the whole dictionary finds, never worse than
    plain column generation stopped at that size, and the same that
    ``TotalQBoostClassifier(0, max_learners=...)`` finds with the same limit.

    Parameters
    ----------
    X, y : arrays
        Training examples and their labels, two classes.
    X_valid, y_valid : arrays, optional
        Rows on which to measure the validation error.
    sample_weight : array, optional
        Weight of each training example; the training error is weighted too.
    max_learners : int
        Largest size. A size that is no better than a smaller one is left out.
    solver : str or MasterSolver
        One other than "local" is asked about every size, over the columns that the search
        generated. With "exact" that gives each size a bound.
    on_event : callable, optional
        Called with :class:`totalqboost.boosting.Searched` as the search goes on.
    loss, dictionary, l1_penalty, tol, fit_intercept, random_state, n_jobs
        As in :class:`totalqboost.TotalQBoostClassifier`.

    Raises
    ------
    Interrupted
        On Ctrl-C; its ``result`` is the frontier found so far.
    SolverError
        If the solver fails; its ``result`` is the frontier of the sizes done.

    Examples
    --------
    >>> from totalqboost import frontier
    >>> from totalqboost.datasets import make_twonorm
    >>> X, y = make_twonorm(600, seed=1)
    >>> front = frontier(X[:400], y[:400], X[400:], y[400:], max_learners=3)
    >>> [point.n_learners for point in front]
    [0, 1, 2, 3]
    """
    check_integer("max_learners", max_learners, 1)
    settings = check_settings(
        loss, dictionary, solver, l1_penalty, 0.0, max_learners, tol, fit_intercept, n_jobs
    )
    if (X_valid is None) != (y_valid is None):
        raise ValueError("X_valid and y_valid must be given together")
    examples = check_examples(X, y, sample_weight)
    valid = None if X_valid is None else check_validation(X_valid, y_valid, examples)
    engine = settings.engine(examples, generator(random_state))
    try:
        found = every_size(engine, max_learners, on_event)
    except (Interrupted, SolverError) as stop:
        stop.result = _measured(stop.result, examples, valid, settings.loss)
        raise
    return _measured(found, examples, valid, settings.loss)


def _measured(
    found: list[SizePoint], examples: Examples, valid: Examples | None, loss: Loss
) -> Frontier:
    """Name the ensembles and measure their errors."""
    points: list[FrontierPoint] = []
    for size in found:
        ensemble = size.ensemble.with_names(examples.classes, examples.names, loss.name)
        before = points[-1] if points else None
        n = ensemble.n_learners
        points.append(
            FrontierPoint(
                n_learners=n,
                risk=size.risk,
                objective=size.objective,
                bound=size.bound,
                train_error=_error(ensemble, examples),
                valid_error=np.nan if valid is None else _error(ensemble, valid),
                penalty=np.nan
                if before is None
                else (before.objective - size.objective) / (n - before.n_learners),
                ensemble=ensemble,
            )
        )
    return Frontier(tuple(points), len(examples if valid is None else valid))


def _error(ensemble: Ensemble, examples: Examples) -> float:
    is_wrong = (ensemble.decision_function(examples.X) > 0) != (examples.y > 0)
    return float(examples.weight[is_wrong].sum())  # equal numbers of equal rows are equal
