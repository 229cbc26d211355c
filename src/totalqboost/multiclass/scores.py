"""What scores mean: labels, probabilities, margins and losses, of two classes or more."""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax, softmax

from totalqboost.ensemble.answers import winners
from totalqboost.losses import Loss

__all__ = ["class_numbers", "losses_of", "margins", "probabilities", "winners"]


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
