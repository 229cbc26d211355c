"""Trainer: ensembles of a cascade on rows that have been checked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from totalqboost.ensemble import Ensemble
from totalqboost.estimator import TotalQBoostClassifier
from totalqboost.examples import Examples

__all__ = ["Trainer"]


class Trainer:
    """Trains ensembles on rows that have been checked, with the settings of an estimator."""

    def __init__(self, base: TotalQBoostClassifier, examples: Examples):
        self.base, self.examples = base, examples

    @property
    def loss(self) -> Any:
        """The loss of the ensembles."""
        return self.base.loss_

    def __call__(self, X: Any, y: np.ndarray, size: int | None) -> Ensemble:
        own = _factors(self.base.class_weight, self.examples.classes, y)
        examples = replace(
            self.examples,
            X=X.tocsc() if sparse.issparse(X) else X,
            y=y,
            weight=own / own.sum(),
            n_effective=round(float(own.sum() ** 2 / (own @ own)), 9),
            rows=np.arange(len(y)),
            table_labels=y,
        )
        if size is not None:
            self.base.set_params(max_learners=size)
        self.base.fit_examples(examples)
        return self.base.ensemble_


def _factors(class_weight: Any, classes: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the weight of each row; "balanced" counts the classes of these rows."""
    if class_weight is None:
        return np.ones(len(y))
    is_positive = y > 0
    if isinstance(class_weight, str):
        share = is_positive.mean()
        return np.where(is_positive, 0.5 / share, 0.5 / (1.0 - share))
    negative, positive = (float(class_weight.get(label, 1.0)) for label in classes.tolist())
    return np.where(is_positive, positive, negative)
