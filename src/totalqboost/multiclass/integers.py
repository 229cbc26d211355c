"""Integers for the weights per class: the objective of :mod:`.weights` for a discrete search."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import softmax

from totalqboost.fixed_point import top_integers
from totalqboost.integers import search_integers
from totalqboost.multiclass.weights import Counts

__all__ = ["ManyClasses", "integers_per_class"]

MOST_WORK = 2e8  # rows x (weights)^2 up to which the Hessian is computed anew


def integers_per_class(
    counts: Counts,
    price: float,
    n_bits: int,
    W: np.ndarray,
    b: np.ndarray,
    is_shared: bool,
    is_quick: bool = False,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return integers for the weights and for the intercepts, and their scale."""
    votes = np.where(W >= 0.0, 1, -1) if is_shared else None
    objective = ManyClasses(counts, price, n_bits, W.shape, votes)
    found = search_integers(objective, objective.packed(W, b), is_quick)
    W, b = objective.unpacked(found.q)
    return W.astype(np.int64), b.astype(np.int64), found.scale


class ManyClasses:
    """Multinomial loss with the price of weight, as a function of one vector.

    Parameters
    ----------
    counts : Counts
        Rows of examples.
    price : float
        Of the norms of the weights of a stump, or of its weight if there are votes.
    n_bits : int
        Of the signed integers.
    shape : (int, int)
        Number of stumps and of classes.
    votes : array of that shape, optional
        Signs: each stump has one weight >= 0, times these.
    """

    def __init__(
        self,
        counts: Counts,
        price: float,
        n_bits: int,
        shape: tuple[int, int],
        votes: np.ndarray | None = None,
    ):
        self.counts, self.price, self.shape, self.votes = counts, price, shape, votes
        n_stumps, n_classes = shape
        self.n_weights = n_stumps if votes is not None else n_stumps * n_classes
        n = self.n_weights + n_classes * counts.has_intercept
        is_intercept = np.arange(n) >= self.n_weights
        self.top = top_integers(n_bits, is_intercept)
        self.is_signed = is_intercept | (votes is None)
        self._hessian: np.ndarray | None = None

    def packed(self, W: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return weights and intercepts as one vector."""
        own = W.ravel() if self.votes is None else np.abs(W).mean(axis=1)
        return np.concatenate([own, b]) if self.counts.has_intercept else own

    def unpacked(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the weights (n_stumps, n_classes) and the intercepts of a vector."""
        own, b = x[: self.n_weights], x[self.n_weights :]
        W = own.reshape(self.shape) if self.votes is None else own[:, None] * self.votes
        return W, b if self.counts.has_intercept else np.zeros(self.shape[1], dtype=x.dtype)

    def values(self, W: np.ndarray) -> np.ndarray:
        """Return the objective of each row."""
        return np.array([self._value(*self.unpacked(x)) for x in W])

    def _value(self, W: np.ndarray, b: np.ndarray) -> float:
        return self.counts.loss(W, b)[0] + self._price(W)

    def _price(self, W: np.ndarray) -> float:
        norms = np.abs(W[:, 0]) if self.votes is not None else np.sqrt(np.sum(W * W, axis=1))
        return self.price * float(norms.sum())

    def slopes(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return gradient and Hessian; where that takes long, the first one again."""
        W, b = self.unpacked(w)
        _, of_W, of_b = self.counts.loss(W, b)
        work = len(self.counts.answers) * float(len(w)) ** 2
        if self._hessian is None or work <= MOST_WORK:
            self._hessian = self._curvature(W, b)
        if self.votes is not None:
            of_W = np.sum(of_W * self.votes, axis=1) + self.price
        else:
            norms = np.sqrt(np.sum(W * W, axis=1))[:, None]
            of_W = of_W + self.price * np.divide(W, norms, out=np.zeros_like(W), where=norms > 0)
        own = of_W.ravel()
        g = np.concatenate([own, of_b]) if self.counts.has_intercept else own
        return g, self._hessian

    def _curvature(self, W: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the Hessian of the loss; that of the norms is left out, it is small."""
        counts, (n_stumps, n_classes) = self.counts, self.shape
        p = softmax(counts.answers @ W + b, axis=1)
        X = np.column_stack([counts.answers, np.ones(len(p))])  # the last for intercepts
        total = counts.weight.sum(axis=1)
        H = np.empty((n_stumps + 1, n_classes, n_stumps + 1, n_classes))
        for k in range(n_classes):
            for other in range(k, n_classes):
                q = total * p[:, k] * ((k == other) - p[:, other])
                H[:, k, :, other] = H[:, other, :, k] = (X * q[:, None]).T @ X
        if self.votes is None:
            n = self.n_weights + n_classes * counts.has_intercept
            return H.reshape((n_stumps + 1) * n_classes, -1)[:n, :n]
        V = self.votes.astype(float)
        inner = np.einsum("ik,ikjl,jl->ij", V, H[:-1, :, :-1], V)
        if not counts.has_intercept:
            return inner
        across = np.einsum("ik,ikl->il", V, H[:-1, :, -1])
        return np.block([[inner, across], [across.T, H[-1, :, -1]]])

    def along(self, w: np.ndarray) -> Callable[[float], tuple[float, float]]:
        """Return slope and curvature of the objective at t w."""
        W, b = self.unpacked(w)
        F, weight = self.counts.answers @ W + b, self.counts.weight
        own, total = float(np.sum(weight * F)), weight.sum(axis=1)
        price = self._price(W)

        def slopes(t: float) -> tuple[float, float]:
            p = softmax(t * F, axis=1)
            mean = np.sum(p * F, axis=1)
            return price + float(total @ mean) - own, float(
                total @ (np.sum(p * F * F, axis=1) - mean**2)
            )

        return slopes
