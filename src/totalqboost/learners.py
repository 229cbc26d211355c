"""Weak classifiers: functions of one example with values in {-1, +1}."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

__all__ = ["Constant", "Fitted", "Learner", "Stump"]


class Learner(Protocol):
    """A weak classifier h; hashable, so that a set of them is a blacklist."""

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return h(x) in {-1, +1} as int8, one value per row of X."""

    def describe(self, names: list[str]) -> tuple[str, str]:
        """Return (what is looked at, when the answer is +1) for a printed table."""

    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class Stump:
    """h(x) = polarity if x[feature] > threshold, else -polarity."""

    feature: int
    threshold: float
    polarity: int = 1

    def predict(self, X: np.ndarray) -> np.ndarray:
        # An array, not a scalar, which NumPy 1 would round to single precision with X.
        above = X[:, self.feature] > np.array([self.threshold], dtype=np.float64)
        return np.where(above, np.int8(self.polarity), np.int8(-self.polarity))

    def describe(self, names: list[str]) -> tuple[str, str]:
        sign = ">" if self.polarity > 0 else "<="
        return names[self.feature], f"{sign} {self.threshold:.6g}"

    def negated(self) -> Stump:
        """Return -h."""
        return Stump(self.feature, self.threshold, -self.polarity)


@dataclass(frozen=True)
class Constant:
    """h(x) = polarity, whatever x: a stump whose threshold lies outside the data."""

    polarity: int = 1

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.full(len(X), self.polarity, dtype=np.int8)

    def describe(self, names: list[str]) -> tuple[str, str]:
        return "(constant)", "always" if self.polarity > 0 else "never"

    def negated(self) -> Constant:
        """Return -h."""
        return Constant(-self.polarity)


@dataclass(frozen=True)
class Fitted:
    """A fitted binary classifier used as a weak classifier; ``positive`` is its +1 label."""

    index: int
    classifier: Any = field(compare=False)
    positive: Any = field(compare=False, default=1)

    def predict(self, X: np.ndarray) -> np.ndarray:
        answer = np.asarray(self.classifier.predict(X)) == self.positive
        return np.where(answer, np.int8(1), np.int8(-1))

    def describe(self, names: list[str]) -> tuple[str, str]:
        return f"classifier {self.index}", type(self.classifier).__name__
