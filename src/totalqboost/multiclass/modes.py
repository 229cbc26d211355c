"""How the stumps of a search get their last weights, of three classes or more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from totalqboost.dictionaries.classes import ClassOracle
from totalqboost.ensemble import Ensemble, Points
from totalqboost.learners import Learner
from totalqboost.multiclass.integers import integers_per_class
from totalqboost.multiclass.joint import JointExchange, JointSearch, Weighed
from totalqboost.multiclass.weights import GROUP_PRICE, Counts, fit_per_class, fit_shared
from totalqboost.threads import one_blas_thread

__all__ = ["MODES", "MULTINOMIAL", "ClassWeights", "check_mode"]

MODES = ("joint", "per_class", "shared")
MULTINOMIAL = "multinomial"  # name of the loss
# Of nu is the price of norms; tried were 0.5, 1 and 1.5 (log-loss lower by 0.015 than with 0.5).
JOINT_PRICE = 1.0
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
    extra : float
        Price of each of the extras of a stump.
    """

    mode: str
    oracle: ClassOracle
    weight: np.ndarray
    nu: float
    has_intercept: bool = True
    extra: float = 0.0

    def __call__(self, ensembles: Sequence[Ensemble]) -> list[Ensemble]:
        """Return the ensembles with other weights; stumps that get none are left out."""
        ensembles = [self._of_all_classes(ensemble) for ensemble in ensembles]
        with one_blas_thread():
            if self.mode == "joint":
                return self._joint(ensembles)
            return [self._reweighed(ensemble) for ensemble in ensembles]

    def _of_all_classes(self, ensemble: Ensemble) -> Ensemble:
        """Return the ensemble; one without a stump does not tell how many classes it is of."""
        n_classes = self.oracle.n_classes
        if ensemble.n_classes == n_classes:
            return ensemble
        return Ensemble((), (), (0.0,) * n_classes, tuple(range(n_classes)), loss=MULTINOMIAL)

    def in_integers(self, ensemble: Ensemble, n_bits: int, is_quick: bool = False) -> Ensemble:
        """Return the ensemble with integers times one scale for its weights, of the same mode."""
        is_shared = self.mode == "shared"
        factor = {"joint": JOINT_PRICE, "per_class": GROUP_PRICE, "shared": 1.0}[self.mode]
        W, b, scale = integers_per_class(
            self._counts(ensemble.learners),
            factor * self.nu,
            n_bits,
            ensemble.class_weights,
            ensemble.class_intercepts,
            is_shared,
            is_quick,
        )
        kept = np.flatnonzero(W.any(axis=1))
        order = kept[np.argsort(-np.abs(W[kept]).sum(axis=1), kind="stable")].tolist()
        learners = tuple(ensemble.learners[j] for j in order)
        points = Points(tuple(tuple(W[j].tolist()) for j in order), tuple(b.tolist()), scale)
        weights = tuple(ensemble.weights[j] for j in order)
        return replace(ensemble, learners=learners, weights=weights).of_points(points)

    def _counts(self, learners: Sequence[Learner]) -> Counts:
        """Return the training rows as these stumps see them."""
        oracle = self.oracle
        columns = [oracle.base.column(h) for h in learners]
        answers = np.array(columns, dtype=np.int8).reshape(-1, len(oracle.labels)).T
        return Counts.of(answers, oracle.labels, self.weight, oracle.n_classes, self.has_intercept)

    def _reweighed(self, ensemble: Ensemble) -> Ensemble:
        counts = self._counts(ensemble.learners)
        W, b = START * ensemble.class_weights, START * ensemble.class_intercepts
        if self.mode == "shared":
            votes = np.where(W >= 0.0, 1.0, -1.0)
            w, b = fit_shared(counts, self.nu, votes, np.abs(W).mean(axis=1), b)
            W = w[:, None] * votes
        else:
            W, b = fit_per_class(counts, GROUP_PRICE * self.nu, W, b)
        return _sorted(ensemble, ensemble.learners, W, b)

    def _joint(self, ensembles: Sequence[Ensemble]) -> list[Ensemble]:
        """Search all sizes up to the largest, then polish those that were asked for."""
        mu = JOINT_PRICE * self.nu
        slots = JointExchange(self.oracle, self.weight, mu, self.has_intercept, self.extra)
        search = JointSearch(slots)
        starts = [
            Weighed(e.learners, START * e.class_weights, START * e.class_intercepts, np.inf)
            for e in ensembles
        ]
        sizes = [ensemble.n_learners for ensemble in ensembles]
        search.search(starts, max(sizes, default=0))
        found = {size: search.polished(size) for size in sorted(set(sizes))}
        return [
            _sorted(e, found[size].learners, found[size].W, found[size].b)
            for e, size in zip(ensembles, sizes, strict=True)
        ]


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
