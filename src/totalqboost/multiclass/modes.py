"""How the stumps of a search get their last weights, of three classes or more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from totalqboost.dictionaries.classes import ClassOracle
from totalqboost.ensemble import Ensemble
from totalqboost.learners import Learner
from totalqboost.multiclass.joint import JointExchange
from totalqboost.multiclass.weights import GROUP_PRICE, Counts, fit_per_class, fit_shared

__all__ = ["MODES", "MULTINOMIAL", "ClassWeights", "check_mode"]

MODES = ("joint", "per_class", "shared")
MULTINOMIAL = "multinomial"  # name of the loss
NOTHING = 1e-4  # a stump of smaller weights says nothing
START = 0.5  # scores of a class against all others, as scores to compare classes by


def check_mode(value: Any) -> None:
    """Raise unless the value is the name of a way to weigh stumps."""
    if value not in MODES:
        names = ", ".join(repr(name) for name in MODES)
        raise ValueError(f"multiclass must be one of {names}, got {value!r}")


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
            return _sorted(ensemble, ensemble.learners, w[:, None] * votes, b)
        learners, mu = ensemble.learners, GROUP_PRICE * self.nu
        if self.mode == "joint" and learners:
            found = self._exchange.improved(learners, W, b)
            learners, W, b = found.learners, found.W, found.b
        else:
            W, b = fit_per_class(counts, mu, W, b)
        return _sorted(ensemble, learners, W - W.mean(axis=1, keepdims=True), b)

    @cached_property
    def _exchange(self) -> JointExchange:
        mu = GROUP_PRICE * self.nu
        return JointExchange(self.oracle, self.weight, mu, self.has_intercept)


def _sorted(
    ensemble: Ensemble, learners: Sequence[Learner], W: np.ndarray, b: np.ndarray
) -> Ensemble:
    """Return the ensemble with these weights, strongest stumps first."""
    size = np.abs(W).mean(axis=1)
    order = [j for j in np.argsort(-size, kind="stable").tolist() if size[j] > NOTHING]
    return replace(
        ensemble,
        learners=tuple(learners[j] for j in order),
        weights=tuple(tuple(W[j].tolist()) for j in order),
        intercept=tuple((b - b.mean()).tolist()),
    )
