"""Errors on rows that a model has not seen: by cross-validation, or on rows held out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from totalqboost import TotalQBoostClassifier
from totalqboost.cli.errors import BadInput
from totalqboost.cli.table import TrainingRows
from totalqboost.held_out import LEAST_PROBABILITY

__all__ = ["Errors", "codes_of", "errors_of", "folds", "held_out", "measure"]


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
    wrong = probability.argmax(axis=1) != codes
    of_truth = probability[np.arange(len(codes)), codes]
    loss = -np.log(np.maximum(of_truth, LEAST_PROBABILITY))
    error, error_se = _mean(wrong.astype(float), weight)
    log_loss, log_loss_se = _mean(loss, weight)
    return Errors(error, error_se, log_loss, log_loss_se, len(wrong))


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


def measure(
    make: Callable[[], TotalQBoostClassifier],
    rows: TrainingRows,
    masks: Sequence[np.ndarray],
    on_fit: Callable[[int], None],
) -> Errors:
    """Fit a model for each mask to the other rows; compare what they say with the truth."""
    weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight
    classes = np.unique(rows.y)
    probability = np.full((len(rows.y), len(classes)), np.nan)
    for number, mask in enumerate(masks, start=1):
        on_fit(number)
        model = make().fit(rows.X[~mask], rows.y[~mask], weight[~mask])
        probability[mask] = 0.0  # of a class that has no other row
        known = codes_of(model.classes_, classes)
        probability[np.ix_(mask, known)] = model.predict_proba(rows.X[mask])
    seen = ~np.isnan(probability[:, 0])
    return errors_of(codes_of(rows.y, classes)[seen], probability[seen], weight[seen])
