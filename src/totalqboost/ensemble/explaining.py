"""Explanations of an ensemble: what each weak classifier contributes to the scores of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from totalqboost.ensemble.answers import probabilities_of, winners
from totalqboost.ensemble.rows import as_rows
from totalqboost.explanation import Explanation
from totalqboost.learners import Constant, Feature

if TYPE_CHECKING:
    from totalqboost.ensemble.model import Ensemble

__all__ = ["explanation_of"]


def explanation_of(model: Ensemble, x: Any, background: Any, label: Any) -> Explanation:
    """Return the explanation of rows; see :meth:`Ensemble.explain`."""
    x = as_rows(x)
    own, rows = model.matched(x, "x")
    middle = np.array([h.polarity if isinstance(h, Constant) else 0.0 for h in model.learners])
    if background is not None:
        other, compared = model.matched(background, "background")
        if not len(compared):
            raise ValueError("background must have at least one row, got none")
        middle = _votes(other, compared).mean(axis=0)
    votes, scores = _votes(own, rows), own.scores(rows)
    of_class = scores if model.is_multiclass else np.column_stack([-scores, scores])
    chosen = winners(scores)
    labels = _explained(model, chosen, label)
    at = np.arange(len(rows))
    weights = model.class_weights[:, labels].T
    n_features = x.shape[1] if sparse.issparse(x) else rows.shape[1]
    return Explanation(
        contributions=weights * (votes - middle),
        base_values=model.class_intercepts[labels] + weights @ middle,
        scores=of_class[at, labels],
        probabilities=probabilities_of(scores, model.loss, model.n_classes)[at, labels],
        votes=votes,
        X=x.tocsr() if sparse.issparse(x) else rows,
        labels=labels,
        predicted=chosen,
        learners=model.learners,
        features=model.features or tuple(Feature(f"x{j}") for j in range(n_features)),
        classes=model.classes,
    )


def _explained(model: Ensemble, chosen: np.ndarray, label: Any) -> np.ndarray:
    """Return the number of the class that is explained, row by row."""
    if label is None:
        return chosen if model.is_multiclass else np.ones_like(chosen)
    if label not in model.classes:
        raise ValueError(f"label must be one of {model.classes} or None, got {label!r}")
    return np.full_like(chosen, model.classes.index(label))


def _votes(model: Ensemble, X: np.ndarray) -> np.ndarray:
    """Return h(x), shape (n_rows, n_learners)."""
    votes = np.empty((len(X), model.n_learners), dtype=np.int8)
    for k, learner in enumerate(model.learners):
        votes[:, k] = learner.predict(X)
    return votes
