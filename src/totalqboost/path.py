"""The frontier of error against size: one small ensemble for every number of learners.

Sizes grow by one: price the dictionary at the present ensemble, take the best column in,
let the solver rearrange within the limit, and exchange kept columns with the whole
dictionary until nothing improves. Each size starts from the one before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from totalqboost import dictionaries, losses, solvers
from totalqboost.boosting import next_column
from totalqboost.columns import GeneratedColumns
from totalqboost.dictionaries.base import Dictionary
from totalqboost.ensemble import Ensemble
from totalqboost.exchange import exchange
from totalqboost.losses import Loss
from totalqboost.refit import refit
from totalqboost.solving import MasterSolver, SolverError, finish, solve

__all__ = ["Frontier", "FrontierPoint", "frontier"]


@dataclass(frozen=True)
class FrontierPoint:
    """The ensemble of one size.

    ``penalty`` is the cardinality penalty at which the last learner just pays for itself:
    the decrease of the risk it brought. Errors are shares of rows, NaN if unknown.
    """

    n_learners: int
    risk: float
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

        names = ["n_learners", "risk", "train_error", "valid_error", "penalty"]
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
    max_learners: int = 30,
    loss: str | Loss = "exponential",
    dictionary: str | Dictionary = "stumps",
    solver: str | MasterSolver = "local",
    l1_penalty: float = 1e-6,
    tol: float = 5e-4,
    n_exchanges: int = 20,
    fit_intercept: bool = True,
    random_state: int = 0,
    n_jobs: int | None = None,
    on_size: Callable[[FrontierPoint], None] | None = None,
) -> Frontier:
    """Return small ensembles of every size up to ``max_learners``.

    Parameters
    ----------
    X, y : arrays
        Training examples and their labels, two classes.
    X_valid, y_valid : arrays, optional
        Rows on which to measure the validation error.
    max_learners : int
        Largest size.
    on_size : callable, optional
        Called with each :class:`FrontierPoint` as it is found.
    loss, dictionary, solver, l1_penalty, tol, n_exchanges, fit_intercept, n_jobs
        As in :class:`totalqboost.TotalQBoostClassifier`.

    Examples
    --------
    >>> from totalqboost import frontier
    >>> from totalqboost.datasets import make_twonorm
    >>> X, y = make_twonorm(600, seed=1)
    >>> front = frontier(X[:400], y[:400], X[400:], y[400:], max_learners=3)
    >>> [point.n_learners for point in front]
    [0, 1, 2, 3]
    """
    if not isinstance(max_learners, Integral) or max_learners < 1:
        raise ValueError(f"max_learners must be >= 1, got {max_learners!r}")
    if not 0 <= l1_penalty < np.inf:
        raise ValueError(f"l1_penalty must be finite and >= 0, got {l1_penalty!r}")
    names = [str(name) for name in getattr(X, "columns", [])]
    X, y, X_valid, y_valid = _checked(X, y, X_valid, y_valid, names)
    classes = np.unique(y)
    signs = np.where(y == classes[1], 1, -1).astype(np.int8)
    loss, given = losses.get(loss), solvers.get(solver)
    oracle = dictionaries.get(dictionary).prepare(X, signs, n_jobs=n_jobs)
    rng = np.random.default_rng(random_state)
    H = GeneratedColumns(len(y), max_learners, loss, l1_penalty, 0.0)
    if fit_intercept:
        for constant in oracle.constants():
            H.add(constant, cost=0.0)

    names = names or [f"x{j}" for j in range(X.shape[1])]
    points: list[FrontierPoint] = []
    problem = H.problem()
    session = given.session(problem)
    w = refit(problem, problem.free, tol=1e-8)
    while True:
        candidate = None
        if len(points) < max_learners:
            candidate = next_column(oracle, problem, w, H, tol, fit_intercept)
        failure: SolverError | None = None
        # Of other solvers with ``finish`` the last size has had the answer already.
        if candidate is None and points:
            try:
                last = finish(session, problem, w, rng)
                w = w if last is None else last.w
            except SolverError as error:  # this size is solved without it
                failure = error
        ensemble = Ensemble.from_columns(H.learners, w, problem.cost == 0)
        ensemble = ensemble.with_names(classes, names, loss.name)
        point = FrontierPoint(
            n_learners=ensemble.n_learners,
            risk=problem.risk(w),
            train_error=_error(ensemble, X, y),
            valid_error=np.nan if X_valid is None else _error(ensemble, X_valid, y_valid),
            penalty=points[-1].risk - problem.risk(w) if points else np.nan,
            ensemble=ensemble,
        )
        points.append(point)
        if on_size is not None:
            on_size(point)
        done = Frontier(tuple(points), len(y if y_valid is None else y_valid))
        if failure is not None:
            failure.result = done
            raise failure
        if candidate is None:
            return done
        H.add(candidate)
        H.max_learners = len(points)
        problem = H.problem()
        w = np.append(w, 0.0)
        support = np.concatenate([np.flatnonzero(w > 0), problem.free, [len(w) - 1]])
        w = refit(problem, np.unique(support), w, tol=1e-8)
        try:
            w = solve(session, problem, w, rng).w
            for sweep in exchange(H, w, oracle, session, rng, n_exchanges, fit_intercept):
                w = sweep[0]
        except SolverError as error:
            error.result = done
            raise
        problem = H.problem()


def _checked(X: Any, y: Any, X_valid: Any, y_valid: Any, names: list[str]) -> tuple[Any, ...]:
    """Return training and validation examples as arrays, the latter None if there are none."""
    if (X_valid is None) != (y_valid is None):
        raise ValueError("X_valid and y_valid must be given together")
    X, y = _examples(X, y, "X", "y")
    classes = np.unique(y)
    if len(classes) != 2:
        raise ValueError(f"y must have two classes, got {len(classes)}")
    if X_valid is not None:
        if names and hasattr(X_valid, "columns"):
            X_valid = X_valid[names]
        X_valid, y_valid = _examples(X_valid, y_valid, "X_valid", "y_valid")
        if not np.isin(y_valid, classes).all():
            raise ValueError(f"y_valid must hold the labels of y, {classes.tolist()}")
    return X, y, X_valid, y_valid


def _examples(X: Any, y: Any, X_name: str, y_name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the examples as arrays, checked."""
    X, y = np.asarray(X, dtype=float), np.asarray(y)
    if X.ndim != 2:
        raise ValueError(f"{X_name} must have two dimensions, got shape {X.shape}")
    if not np.isfinite(X).all():
        raise ValueError(f"{X_name} must not contain NaN or infinity")
    if y.shape != (len(X),):
        raise ValueError(f"{y_name} must have one label per row ({len(X)}), got shape {y.shape}")
    return X, y


def _error(ensemble: Ensemble, X: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean(ensemble.predict(X) != y))
