"""Weights per class: what the stumps of a search say about each of three classes or more.

A search chooses stumps with votes, one weight each; see :mod:`totalqboost.dictionaries.classes`.
Then the stumps h_1, ..., h_k that it kept get K weights each,

    minimise  sum_i c_i (log sum_l exp F_il - F_i,y_i) + mu sum_j |W_j|

where F_il = b_l + sum_j W_jl h_j(x_i), with the Euclidean norms |W_j| of the weights of a stump:
the multinomial logistic loss, and the price of weight for groups. "shared" leaves each stump its
votes and one weight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp, softmax

from totalqboost.dictionaries.classes import ClassOracle
from totalqboost.ensemble import Ensemble
from totalqboost.losses import Loss

__all__ = [
    "MODES",
    "MULTINOMIAL",
    "ClassWeights",
    "Counts",
    "check_mode",
    "class_numbers",
    "fit_per_class",
    "fit_shared",
    "losses_of",
    "margins",
    "probabilities",
    "winners",
]

MODES = ("per_class", "shared")
MULTINOMIAL = "multinomial"  # name of the loss
GROUP_PRICE = 0.5  # of nu is mu; the least test error and log-loss of 0.25, 0.5, 1 and 2
CORNER = 1e-6  # norms are rounded where they are smaller
NOTHING = 1e-4  # a stump of smaller norm says nothing
START = 0.5  # scores of a class against all others, as scores to compare classes by


def check_mode(value: Any) -> None:
    """Raise unless the value is the name of a way to weigh stumps."""
    if value not in MODES:
        names = ", ".join(repr(name) for name in MODES)
        raise ValueError(f"multiclass must be one of {names}, got {value!r}")


@dataclass(frozen=True, eq=False)
class Counts:
    """Rows on which all stumps agree, merged: their answers, and the weight of each class."""

    answers: np.ndarray  # (n_patterns, n_stumps), -1 and +1
    weight: np.ndarray  # (n_patterns, n_classes), sums to one
    has_intercept: bool = True

    @classmethod
    def of(
        cls,
        answers: np.ndarray,
        labels: np.ndarray,
        weight: np.ndarray,
        n_classes: int,
        has_intercept: bool = True,
    ) -> Counts:
        """Count rows of answers (n_rows, n_stumps) and labels, numbers from 0."""
        packed = np.packbits(answers > 0, axis=1)
        if packed.shape[1] == 0:
            packed = np.zeros((len(answers), 1), np.uint8)
        whole = np.ascontiguousarray(packed).view(np.dtype((np.void, packed.shape[1]))).ravel()
        _, first, place = np.unique(whole, return_index=True, return_inverse=True)
        total = np.bincount(
            place * n_classes + labels, weights=weight, minlength=len(first) * n_classes
        )
        return cls(answers[first].astype(float), total.reshape(-1, n_classes), has_intercept)

    def loss(self, W: np.ndarray, b: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the mean loss and its gradients with respect to weights and intercepts."""
        F = self.answers @ W + b
        rows = self.weight.sum(axis=1)
        top = logsumexp(F, axis=1)
        R = rows[:, None] * np.exp(F - top[:, None]) - self.weight
        of_b = R.sum(axis=0) if self.has_intercept else np.zeros(len(b))
        return float(rows @ top - np.sum(self.weight * F)), self.answers.T @ R, of_b


def fit_per_class(
    counts: Counts, mu: float, W: np.ndarray, b: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return weights (n_stumps, n_classes) and intercepts of least loss, from a start."""

    def value(x: np.ndarray) -> tuple[float, np.ndarray]:
        W = x[:-n_classes].reshape(shape)
        loss, of_W, of_b = counts.loss(W, x[-n_classes:])
        norms = np.sqrt(np.sum(W * W, axis=1) + CORNER**2)
        slope = of_W + mu * W / norms[:, None]
        return loss + mu * float(norms.sum()), np.concatenate([slope.ravel(), of_b])

    shape, n_classes = W.shape, len(b)
    x = _least(value, np.concatenate([W.ravel(), b]))
    return x[:-n_classes].reshape(shape), x[-n_classes:]


def fit_shared(
    counts: Counts, nu: float, votes: np.ndarray, w: np.ndarray, b: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return one weight per stump, to be multiplied by its votes, and intercepts."""

    def value(x: np.ndarray) -> tuple[float, np.ndarray]:
        w = x[: len(votes)]
        loss, of_W, of_b = counts.loss(w[:, None] * votes, x[len(votes) :])
        slope = np.sum(of_W * votes, axis=1) + nu
        return loss + nu * float(w.sum()), np.concatenate([slope, of_b])

    bounds = [(0.0, None)] * len(w) + [(None, None)] * len(b)
    x = _least(value, np.concatenate([w, b]), bounds)
    return x[: len(votes)], x[len(votes) :]


def _least(
    value: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: np.ndarray,
    bounds: Sequence[tuple[float | None, float | None]] | None = None,
) -> np.ndarray:
    options = {"maxiter": 1000, "maxfun": 2000, "maxcor": 20, "ftol": 1e-11, "gtol": 1e-7}
    found = minimize(value, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    x: np.ndarray = found.x
    return x


@dataclass(frozen=True, eq=False)
class ClassWeights:
    """Gives the stumps of an ensemble the weights of ``mode``.

    Parameters
    ----------
    mode : str
        One of MODES.
    oracle : ClassOracle
        Of the training rows.
    weight : array of shape (n_rows,)
        Sample weights; they sum to one.
    nu : float
        Price of weight, on the scale of the mean loss of rows.
    has_intercept : bool
        Whether each class has one.
    """

    mode: str
    oracle: ClassOracle
    weight: np.ndarray
    nu: float
    has_intercept: bool = True

    def __call__(self, ensemble: Ensemble) -> Ensemble:
        """Return the same stumps with other weights; those that get none are left out."""
        oracle = self.oracle
        columns = [oracle.base.column(h) for h in ensemble.learners]
        answers = np.array(columns, dtype=np.int8).reshape(-1, len(oracle.labels)).T
        counts = Counts.of(
            answers, oracle.labels, self.weight, oracle.n_classes, self.has_intercept
        )
        W, b = START * ensemble.class_weights, START * ensemble.class_intercepts
        if self.mode == "shared":
            votes = np.where(W >= 0.0, 1.0, -1.0)
            w, b = fit_shared(counts, self.nu, votes, np.abs(W).mean(axis=1), b)
            W = w[:, None] * votes
        else:
            W, b = fit_per_class(counts, GROUP_PRICE * self.nu, W, b)
            W = W - W.mean(axis=1, keepdims=True)  # says nothing about which class
        b = b - b.mean()
        return _sorted(ensemble, W, b)


def _sorted(ensemble: Ensemble, W: np.ndarray, b: np.ndarray) -> Ensemble:
    """Return the ensemble with these weights, strongest stumps first."""
    size = np.abs(W).mean(axis=1)
    order = [j for j in np.argsort(-size, kind="stable").tolist() if size[j] > NOTHING]
    return replace(
        ensemble,
        learners=tuple(ensemble.learners[j] for j in order),
        weights=tuple(tuple(W[j].tolist()) for j in order),
        intercept=tuple(b.tolist()),
    )


# -- what scores mean, of two classes or more ------------------------------------------------


def winners(scores: np.ndarray) -> np.ndarray:
    """Return the number of the class that the scores of each row choose."""
    return (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)


def class_numbers(y: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the numbers of classes, which are signs where there are two."""
    return (y > 0).astype(int) if n_classes == 2 else y


def probabilities(scores: np.ndarray, loss: Loss) -> np.ndarray:
    """Return the probabilities of all classes: by the link of the loss, or by softmax."""
    if scores.ndim == 2:
        return np.asarray(softmax(scores, axis=1))
    positive = loss.link(scores)
    return np.column_stack([1.0 - positive, positive])


def margins(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return how far the score of the right class is above all others."""
    if scores.ndim == 1:
        return y * scores
    rows, others = np.arange(len(y)), scores.copy()
    others[rows, y] = -np.inf
    own: np.ndarray = scores[rows, y] - others.max(axis=1)
    return own


def losses_of(scores: np.ndarray, y: np.ndarray, loss: Loss) -> np.ndarray:
    """Return the loss of each row; of more than two classes it is the multinomial one."""
    if scores.ndim == 1:
        return loss.value(y * scores)
    own: np.ndarray = -log_softmax(scores, axis=1)[np.arange(len(y)), y]
    return own
