"""Losses l(z) of the margin z = y f(x): value, boosting weight, curvature and conjugate.

Every loss is a convex function of the margin. The dual variable of an example is the
negative slope of its loss, u_i = -l'(z_i) (eq. 6 of the paper), and the dual problem needs
the Fenchel conjugate l*(-u) (eq. 7).

To use a loss of your own, subclass :class:`MarginLoss` and write four methods::

    class Squareplus(MarginLoss):
        name = "squareplus"
        def value(self, z): return (np.sqrt(z * z + 4.0) - z) / 2.0
        def weight(self, z): return (1.0 - z / np.sqrt(z * z + 4.0)) / 2.0
        def curvature(self, z): return 2.0 / (z * z + 4.0) ** 1.5
        def conjugate(self, u): ...

and pass an instance wherever a loss is asked for (docs/extend.md has the conjugate, and how to
check it). ``curvature`` may be any positive
approximation of l''; it steers the search, the value alone decides.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol, runtime_checkable

import numpy as np
from scipy.special import expit, xlog1py, xlogy

from totalqboost.kernels.loss_codes import (
    CUSTOM,
    EXPONENTIAL,
    FLAT,
    LOGISTIC,
    MAX_EXPONENT,
    SMOOTHED_HINGE,
    SQUARED,
)

__all__ = [
    "Exponential",
    "Logistic",
    "Loss",
    "MarginLoss",
    "SmoothedHinge",
    "Squared",
    "get",
    "names",
]


@runtime_checkable
class Loss(Protocol):
    """What the rest of the package asks of a loss; all methods map arrays to arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from totalqboost.losses import Logistic
    >>> loss, z = Logistic(), np.array([0.0])
    >>> loss.value(z).round(2).tolist(), loss.weight(z).tolist()
    ([0.69], [0.5])
    """

    name: str
    code: int
    log_odds: float | None

    @abstractmethod
    def value(self, z: np.ndarray) -> np.ndarray:
        """Return l(z)."""

    @abstractmethod
    def weight(self, z: np.ndarray) -> np.ndarray:
        """Return -l'(z), the boosting weight of eq. (6)."""

    @abstractmethod
    def curvature(self, z: np.ndarray) -> np.ndarray:
        """Return l''(z), or a positive approximation of it."""

    @abstractmethod
    def conjugate(self, u: np.ndarray) -> np.ndarray:
        """Return l*(-u) = sup over z of -u z - l(z); infinite outside its domain."""

    def link(self, f: np.ndarray) -> np.ndarray:
        """Return the probability of class +1 at score f."""


class MarginLoss(Loss):
    """Base class of losses: equality by type, and the link that follows from the slope."""

    name: str = "custom"
    code: int = CUSTOM
    log_odds: float | None = None  # of a score of 1, where scores are log-odds but for a factor

    def __init_subclass__(cls) -> None:
        """A subclass of a built-in loss is another loss: kernels must not take it for that."""
        super().__init_subclass__()
        cls.code = cls.__dict__.get("code", CUSTOM)
        cls.name = cls.__dict__.get("name", cls.__name__.lower())
        cls.log_odds = cls.__dict__.get("log_odds")

    def link(self, f: np.ndarray) -> np.ndarray:
        """Return P(y = +1) at score f.

        The score that minimises p l(f) + (1 - p) l(-f) satisfies
        p = l'(-f) / (l'(f) + l'(-f)), whatever the loss.
        """
        f = np.asarray(f, dtype=float)
        for_positive, for_negative = self.weight(f), self.weight(-f)
        total = for_positive + for_negative
        safe = np.where(total > 0, total, 1.0)
        return np.clip(np.where(total > 0, for_negative / safe, 0.5), 0.0, 1.0)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), tuple(sorted(vars(self).items()))))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Exponential(MarginLoss):
    """l(z) = exp(-z), the loss of AdaBoost and of the paper's experiments.

    The exponent is cut at 700 so that hopeless margins stay finite.
    """

    name = "exponential"
    code = EXPONENTIAL
    log_odds = 2.0

    def value(self, z: np.ndarray) -> np.ndarray:
        out = np.array(z, dtype=float)
        np.negative(out, out=out)  # in place: rows may be many
        np.minimum(out, MAX_EXPONENT, out=out)
        return np.exp(out, out=out)

    def weight(self, z: np.ndarray) -> np.ndarray:
        return self.value(z)

    def curvature(self, z: np.ndarray) -> np.ndarray:
        return self.value(z)

    def conjugate(self, u: np.ndarray) -> np.ndarray:
        u = np.asarray(u, dtype=float)
        positive = np.maximum(u, 0.0)
        return np.where(u >= 0, xlogy(positive, positive) - positive, np.inf)

    def link(self, f: np.ndarray) -> np.ndarray:
        return expit(2.0 * np.asarray(f, dtype=float))


class Logistic(MarginLoss):
    """l(z) = log(1 + exp(-z))."""

    name = "logistic"
    code = LOGISTIC
    log_odds = 1.0

    def value(self, z: np.ndarray) -> np.ndarray:
        return np.logaddexp(0.0, -np.asarray(z, dtype=float))

    def weight(self, z: np.ndarray) -> np.ndarray:
        return expit(-np.asarray(z, dtype=float))

    def curvature(self, z: np.ndarray) -> np.ndarray:
        z = np.asarray(z, dtype=float)
        return expit(z) * expit(-z)

    def conjugate(self, u: np.ndarray) -> np.ndarray:
        u = np.asarray(u, dtype=float)
        inside = np.clip(u, 0.0, 1.0)
        # log1p: 1 - u rounds off what a bound next to zero consists of.
        entropy = xlogy(inside, inside) + xlog1py(1.0 - inside, -inside)
        return np.where((u >= 0) & (u <= 1), entropy, np.inf)

    def link(self, f: np.ndarray) -> np.ndarray:
        return expit(np.asarray(f, dtype=float))


class Squared(MarginLoss):
    """l(z) = (1 - z)^2, the loss of QBoost; its weights are negative beyond margin 1."""

    name = "squared"
    code = SQUARED

    def value(self, z: np.ndarray) -> np.ndarray:
        return (1.0 - np.asarray(z, dtype=float)) ** 2

    def weight(self, z: np.ndarray) -> np.ndarray:
        return 2.0 * (1.0 - np.asarray(z, dtype=float))

    def curvature(self, z: np.ndarray) -> np.ndarray:
        return np.full(np.shape(z), 2.0)

    def conjugate(self, u: np.ndarray) -> np.ndarray:
        u = np.asarray(u, dtype=float)
        return u * u / 4.0 - u


class SmoothedHinge(MarginLoss):
    """The hinge max(0, 1 - z) with its corner rounded over the margins 0 to 1.

    l(z) = 0 for z >= 1, (1 - z)^2 / 2 between 0 and 1, and 1/2 - z below 0.
    """

    name = "smoothed_hinge"
    code = SMOOTHED_HINGE

    def value(self, z: np.ndarray) -> np.ndarray:
        z = np.asarray(z, dtype=float)
        inside = np.clip(1.0 - z, 0.0, 1.0)
        return 0.5 * inside * inside + np.maximum(-z, 0.0)

    def weight(self, z: np.ndarray) -> np.ndarray:
        return np.clip(1.0 - np.asarray(z, dtype=float), 0.0, 1.0)

    def curvature(self, z: np.ndarray) -> np.ndarray:
        z = np.asarray(z, dtype=float)
        # A little where there is none: steps and prices need something to divide by.
        return np.where((z >= 0.0) & (z <= 1.0), 1.0, FLAT)

    def conjugate(self, u: np.ndarray) -> np.ndarray:
        u = np.asarray(u, dtype=float)
        return np.where((u >= 0) & (u <= 1), u * u / 2.0 - u, np.inf)


_LOSSES: dict[str, type[MarginLoss]] = {
    loss.name: loss for loss in (Exponential, Logistic, Squared, SmoothedHinge)
}


def names() -> list[str]:
    """Return the names of the built-in losses.

    Examples
    --------
    >>> from totalqboost import losses
    >>> losses.names()
    ['exponential', 'logistic', 'smoothed_hinge', 'squared']
    """
    return sorted(_LOSSES)


def get(loss: str | Loss) -> Loss:
    """Return the loss of that name, or the object itself if it already is a loss.

    Parameters
    ----------
    loss : str or Loss
        A name of :func:`names`, or an object.

    Examples
    --------
    >>> from totalqboost import losses
    >>> losses.get("logistic").name
    'logistic'
    """
    if isinstance(loss, str):
        if loss not in _LOSSES:
            raise ValueError(f"loss must be one of {names()} or a Loss object, got {loss!r}")
        return _LOSSES[loss]()
    if isinstance(loss, Loss) and not isinstance(loss, type):
        return loss
    raise TypeError(
        f"loss must be one of {names()} or an object with value, weight, curvature, "
        f"conjugate and link (subclass totalqboost.losses.MarginLoss), got {loss!r}"
    )
