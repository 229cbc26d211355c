"""Training: what is known of how an ensemble was found, for files and for people."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, dataclass, fields, replace
from numbers import Real
from typing import Any

from totalqboost.parameters import check_flag, check_integer, check_number
from totalqboost.tables import counted

__all__ = ["Training"]

# What a bound holds for.
SCOPES = {
    "generated": "no ensemble of the weak classifiers that the search generated",
    "dictionary": "no ensemble of the whole dictionary",
}
ROUNDING = 1e-6  # relative: bounds and objectives are sums of floats
PROVED = 1e-6  # relative gap that counts as none


@dataclass(frozen=True)
class Training:
    """The shape of the training data, the objective, and the certificate if there is one.

    Nothing of it changes a label. Objective and bound are those of the weights that the search
    found, before a ``factor``.

    Attributes
    ----------
    n_rows, n_features : int
        Shape of the training data; rows of weight 0 are not counted.
    objective : float, optional
        Mean loss and all prices, of two classes.
    bound : float, optional
        What no ensemble within ``scope`` is below, at the same prices and limits.
    scope : {"generated", "dictionary"}
        Whose ensembles the bound is about: those of the weak classifiers that the search has
        generated, or all of the dictionary.
    l1_penalty, cardinality_penalty : float, optional
        Price of a unit of weight, and of a weak classifier.
    max_learners : int, optional
        The limit on their number.
    is_best_of_integers : bool
        Whether weights are proved to be the best integers for their weak classifiers and scale.
    factor : float
        What weights were multiplied by after the search, to make probabilities honest.

    Examples
    --------
    >>> from totalqboost.ensemble import Training
    >>> facts = Training(569, 30, objective=0.125, bound=0.12, l1_penalty=0.007)
    >>> print(facts.words("logistic")["objective"])
    0.125, the mean logistic loss and all prices (0.007 per unit of weight)
    >>> print(facts.words("logistic")["certificate"])
    no ensemble of the weak classifiers that the search generated is below 0.12 (gap 4 %)
    """

    n_rows: int
    n_features: int
    objective: float | None = None
    bound: float | None = None
    scope: str = "generated"
    l1_penalty: float | None = None
    cardinality_penalty: float | None = None
    max_learners: int | None = None
    is_best_of_integers: bool = False
    factor: float = 1.0

    def __post_init__(self) -> None:
        check_flag("is_best_of_integers", self.is_best_of_integers)
        checked: dict[str, Any] = {
            "n_rows": check_integer("n_rows", self.n_rows, 1),
            "n_features": check_integer("n_features", self.n_features, 0),
            "factor": check_number("factor", self.factor),
            "is_best_of_integers": bool(self.is_best_of_integers),
        }
        for name in ("l1_penalty", "cardinality_penalty"):
            if (value := getattr(self, name)) is not None:
                checked[name] = check_number(name, value)
        if self.max_learners is not None:
            checked["max_learners"] = check_integer("max_learners", self.max_learners, 0)
        for name in ("objective", "bound"):
            if (value := getattr(self, name)) is not None:
                checked[name] = _finite(name, value)
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.scope not in SCOPES:
            raise ValueError(f"scope must be one of {list(SCOPES)}, got {self.scope!r}")
        if self.bound is not None and self._is_above(self.bound):
            raise ValueError(
                f"bound must not be above the objective, {self.objective}, got {self.bound}"
            )

    def _is_above(self, bound: float) -> bool:
        """Whether the bound is wrong, not only rounded."""
        own = self.objective
        return own is None or bound > own + ROUNDING * abs(own)

    @property
    def gap(self) -> float:
        """(objective - bound) / abs(objective), infinite if there is no bound."""
        if self.objective is None or self.bound is None:
            return math.inf
        return max(self.objective - self.bound, 0.0) / max(abs(self.objective), sys.float_info.min)

    def times(self, factor: float) -> Training:
        """Return the same for weights that were multiplied by one more factor."""
        return replace(self, factor=factor * self.factor)

    def of_data(self) -> Training:
        """Return what is left if the weights are other ones: the shape of the data."""
        return Training(self.n_rows, self.n_features)

    def words(self, loss: str) -> dict[str, str]:
        """Return what people are told, by name; ``loss`` is that of the ensemble."""
        found = {
            "training data": f"{counted(self.n_rows, 'row')}, {counted(self.n_features, 'feature')}"
        }
        if self.objective is not None:
            found["objective"] = f"{self.objective:.6g}, the mean {loss} loss{self._prices()}"
        if self.bound is not None:
            is_closed = self.gap <= PROVED
            gap = "gap 0: it is the best" if is_closed else f"gap {100 * self.gap:.2g} %"
            limit = "" if self.max_learners is None else f" of at most {self.max_learners}"
            who = SCOPES[self.scope].replace("ensemble", f"ensemble{limit}", 1)
            found["certificate"] = f"{who} is below {self.bound:.6g} ({gap})"
        if self.is_best_of_integers:
            found["integers"] = "proved to be the best for these weak classifiers and this scale"
        if self.factor != 1.0:
            found["calibration"] = f"weights are those of the search times {self.factor:.6g}"
        return found

    def _prices(self) -> str:
        prices = {"unit of weight": self.l1_penalty, "weak classifier": self.cardinality_penalty}
        told = [f"{price:.4g} per {what}" for what, price in prices.items() if price]
        return f" and all prices ({', '.join(told)})" if told else " and all prices"

    # -- files -------------------------------------------------------------------------

    def content(self) -> dict[str, Any]:
        """Return plain values; what is at its default is left out."""
        defaults = {f.name: f.default for f in fields(self)}
        return {name: v for name, v in asdict(self).items() if v != defaults[name]}

    @classmethod
    def of_content(cls, content: Any) -> Training:
        """Return the facts of plain values, checked; null is as good as nothing."""
        if not isinstance(content, dict):
            raise ValueError(f"training must be an object, got {content!r}")
        given: dict[str, Any] = {"n_rows": None, "n_features": None}
        given |= {f.name: content[f.name] for f in fields(cls) if content.get(f.name) is not None}
        return cls(**given)


def _finite(name: str, value: Any) -> float:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not (is_number and abs(value) <= sys.float_info.max):
        raise ValueError(f"{name} must be a finite number or None, got {value!r}")
    return float(value)
