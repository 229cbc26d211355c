"""Errors on rows that a model has not seen: by cross-validation, or on rows held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from totalqboost.cli.errors import BadInput
from totalqboost.ensemble import Ensemble
from totalqboost.held_out import LEAST_PROBABILITY

__all__ = [
    "Errors",
    "codes_of",
    "errors_of",
    "folds",
    "held_out",
    "judged",
    "judged_rows",
    "judged_sums",
    "mean_errors",
]


@dataclass(frozen=True)
class Errors:
    """Share of wrong labels and mean log-loss, weighted if rows are, with standard errors."""

    error: float
    error_se: float
    log_loss: float
    log_loss_se: float
    n_rows: int


def codes_of(y: np.ndarray, classes: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Return the number of the class of each row."""
    index = {label: code for code, label in enumerate(np.asarray(classes).tolist())}
    return np.array([index[label] for label in y.tolist()], dtype=int)


def errors_of(codes: np.ndarray, probability: np.ndarray, weight: np.ndarray) -> Errors:
    """Compare probabilities, a column for each class, with the truth."""
    return mean_errors(judged(codes, probability), weight)


def judged(codes: np.ndarray, probability: np.ndarray) -> np.ndarray:
    """Return for each row whether the label is wrong, 0 or 1, and the log-loss: (n_rows, 2)."""
    wrong = probability.argmax(axis=1) != codes
    of_truth = probability[np.arange(len(codes)), codes]
    return np.column_stack([wrong, -np.log(np.maximum(of_truth, LEAST_PROBABILITY))])


def mean_errors(values: np.ndarray, weight: np.ndarray) -> Errors:
    """Return the means of what was judged."""
    error, error_se = _mean(values[:, 0], weight)
    log_loss, log_loss_se = _mean(values[:, 1], weight)
    return Errors(error, error_se, log_loss, log_loss_se, len(values))


def _mean(values: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Return the weighted mean and its standard error."""
    share = weight / weight.sum()
    mean = float(share @ values)
    return mean, float(np.sqrt((share**2) @ (values - mean) ** 2))


def folds(y: np.ndarray, n_folds: int, seed: int) -> list[np.ndarray]:
    """Return the masks of ``n_folds`` folds: rows are dealt out at random, class by class."""
    _, counts = np.unique(y, return_counts=True)
    most = int(np.sort(counts)[-2])  # with more folds, the rows left may be of one class
    which = "smaller" if len(counts) == 2 else "second largest"
    if most < 2:
        raise BadInput(f"--cv needs at least 2 rows of two classes, the {which} one has 1")
    if n_folds > most:
        raise BadInput(
            f"--cv must be at most {most}, the number of rows of the {which} class, got {n_folds}"
        )
    fold = np.empty(len(y), dtype=int)
    fold[_by_class(y, seed)] = np.arange(len(y)) % n_folds
    return [fold == number for number in range(n_folds)]


def held_out(y: np.ndarray, share: float, seed: int) -> list[np.ndarray]:
    """Return the mask of that share of the rows, chosen at random, of each class alike."""
    steps = np.floor(share * np.arange(len(y) + 1) + 0.5)
    mask = np.zeros(len(y), dtype=bool)
    mask[_by_class(y, seed)] = np.diff(steps) > 0
    if len(np.unique(y[~mask])) < 2 or not mask.any():
        raise BadInput(f"--test-size {share:g} leaves too few of the {len(y)} rows on one side")
    return [mask]


def _by_class(y: np.ndarray, seed: int) -> np.ndarray:
    """Return the rows in random order, those of one class together."""
    order = np.random.default_rng(seed).permutation(len(y))
    _, codes = np.unique(y, return_inverse=True)
    return order[np.argsort(codes[order], kind="stable")]


# -- one partition of many, on a worker -------------------------------------------------------


def judged_sums(
    ensembles: Sequence[Ensemble], X: Any, codes: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Return the weighted sums of wrong labels and of log-losses: (n_ensembles, 2)."""
    if not len(codes):
        return np.zeros((len(ensembles), 2))
    return np.array([weight @ judged(codes, own.predict_proba(X)) for own in ensembles])


def judged_rows(ensemble: Ensemble, X: Any, codes: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return what is judged of the rows of a mask."""
    if not mask.any():
        return np.zeros((0, 2))
    return judged(codes[mask], ensemble.predict_proba(X)[mask])
