"""Three classes or more: stumps shared between classes, and their weights for each class."""

from __future__ import annotations

from totalqboost.multiclass.modes import MODES, MULTINOMIAL, ClassWeights, check_mode
from totalqboost.multiclass.scores import (
    class_numbers,
    losses_of,
    margins,
    probabilities,
    winners,
)

__all__ = [
    "MODES",
    "MULTINOMIAL",
    "ClassWeights",
    "check_mode",
    "class_numbers",
    "losses_of",
    "margins",
    "probabilities",
    "winners",
]
