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
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from totalqboost.kernels.softmax import softmax_terms

__all__ = ["GROUP_PRICE", "Counts", "fit_per_class", "fit_shared"]

GROUP_PRICE = 0.5  # of nu is mu; the least test error and log-loss of 0.25, 0.5, 1 and 2
CORNER = 1e-6  # norms are rounded where they are smaller


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
        g = np.empty_like(F)
        loss = softmax_terms(F, self.weight, g, np.empty_like(F))
        of_b = -g.sum(axis=0) if self.has_intercept else np.zeros(len(b))
        return loss, -(self.answers.T @ g), of_b


def fit_per_class(
    counts: Counts, mu: float, W: np.ndarray, b: np.ndarray, precision: float = 1e-7
) -> tuple[np.ndarray, np.ndarray]:
    """Return weights (n_stumps, n_classes) and intercepts of least loss, from a start."""

    def value(x: np.ndarray) -> tuple[float, np.ndarray]:
        W = x[:-n_classes].reshape(shape)
        loss, of_W, of_b = counts.loss(W, x[-n_classes:])
        norms = np.sqrt(np.sum(W * W, axis=1) + CORNER**2)
        slope = of_W + mu * W / norms[:, None]
        return loss + mu * float(norms.sum()), np.concatenate([slope.ravel(), of_b])

    shape, n_classes = W.shape, len(b)
    x = _least(value, np.concatenate([W.ravel(), b]), precision=precision)
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
    precision: float = 1e-7,
) -> np.ndarray:
    options = {"maxiter": 1000, "maxfun": 2000, "maxcor": 20, "gtol": precision}
    options["ftol"] = 1e-4 * precision
    found = minimize(value, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    x: np.ndarray = found.x
    return x
