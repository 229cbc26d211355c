"""Small models of any kind, as generalization.py measures them: log odds and a size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from stump_models import StumpModel, Task

OWN = "own"  # the size that a method chooses by itself


class Model(Protocol):
    """What can be measured: log odds of the second class."""

    def scores(self, X: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True)
class SplitModel:
    """Any function of rows that gives log odds, and how many splits it has."""

    function: Callable[[np.ndarray], np.ndarray]
    n_splits: int

    def scores(self, X: np.ndarray) -> np.ndarray:
        return self.function(X)


Found = dict[str, dict[Any, Model]]  # name -> size or OWN -> model
Contender = Callable[[Task, Sequence[int]], Found]


def n_cuts(model: Model) -> int:
    """Return the number of distinct stumps, or of splits."""
    if isinstance(model, SplitModel):
        return model.n_splits
    assert isinstance(model, StumpModel)
    return sum(weight != 0 for weight in model.weights.values())


def log_odds(p: np.ndarray) -> np.ndarray:
    p = np.clip(p, 1e-6, 1.0 - 1e-6)
    return np.log(p / (1.0 - p))
