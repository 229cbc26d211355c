"""Answers: what scores say of labels and of probabilities, by the name of the loss."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from totalqboost import losses

__all__ = ["known_losses", "probabilities_of", "winners"]

MULTINOMIAL = "multinomial"  # the loss of more than two classes


def winners(scores: np.ndarray) -> np.ndarray:
    """Return the number of the class that the scores of each row choose."""
    return (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)


def known_losses(n_classes: int) -> list[str]:
    """Return the losses whose scores become probabilities."""
    return [MULTINOMIAL] if n_classes > 2 else losses.names()


def probabilities_of(scores: np.ndarray, loss: str, n_classes: int) -> np.ndarray:
    """Return the probabilities of the classes, NaN if the loss is not one of ours."""
    if loss not in known_losses(n_classes):
        return np.full((len(scores), n_classes), np.nan)
    if n_classes > 2:
        return np.asarray(softmax(scores, axis=1))
    positive = losses.get(loss).link(scores)
    return np.column_stack([1.0 - positive, positive])
