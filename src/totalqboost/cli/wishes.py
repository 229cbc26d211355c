"""What is asked of single features on the command line: costs, how many, which way they go."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from totalqboost.cli.errors import BadInput, check_name, listed
from totalqboost.cli.many import Rows
from totalqboost.multiclass import MODES

__all__ = ["Wishes"]

EVERY = "all"
WAYS = {"+1": 1, "1": 1, "-1": -1}


@dataclass(frozen=True)
class Wishes:
    """As they were typed, checked as far as that goes without the table."""

    max_features: int | None
    costs: dict[str, float]
    ways: dict[str, int]
    multiclass: str

    @classmethod
    def of(
        cls,
        max_features: int | None,
        costs: Sequence[str] | None,
        ways: Sequence[str] | None,
        multiclass: str,
    ) -> Wishes:
        """Read the options."""
        check_name("--multiclass", multiclass, MODES)
        return cls(
            max_features,
            {name: _cost(text) for name, text in _pairs("--feature-cost", costs, "COST")},
            {name: _way(text) for name, text in _pairs("--monotone", ways, "+1 or -1")},
            multiclass,
        )

    def settings(self, target: str, rows: Rows) -> dict[str, Any]:
        """Return the arguments of the estimator for these rows."""
        names = rows.names
        _check_features("--feature-cost", [n for n in self.costs if n != EVERY], names)
        _check_features("--monotone", list(self.ways), names)
        for name in self.ways:
            if name in rows.categorical:
                raise BadInput(f"--monotone: column {name!r} holds categories, which have no order")
        n_classes = len(rows.classes)
        if self.ways and n_classes > 2:
            raise BadInput(
                f"--monotone is for two classes, column {target!r} has {n_classes}: a feature may "
                "raise one class and lower another"
            )
        rest = self.costs.get(EVERY, 0.0)
        costs = {name: self.costs.get(name, rest) for name in names}
        return {
            "max_features": self.max_features,
            "feature_costs": costs if self.costs else None,
            "monotonic_cst": self.ways or None,
            "multiclass": self.multiclass,
        }


def _pairs(option: str, texts: Sequence[str] | None, value: str) -> list[tuple[str, str]]:
    """Return names and values of NAME=VALUE; a name may have signs of equality too."""
    found: list[tuple[str, str]] = []
    for text in texts or []:
        name, is_there, said = text.rpartition("=")
        if not is_there:
            raise BadInput(f"{option} must be NAME={value}, got {text!r}")
        if name in dict(found):
            raise BadInput(f"{option} must name a column once, got {name!r} twice")
        found.append((name, said))
    return found


def _cost(text: str) -> float:
    try:
        cost = float(text)
    except ValueError:
        cost = math.nan
    if not 0 <= cost < math.inf:
        raise BadInput(f"--feature-cost must be NAME=COST with a number >= 0, got {text!r}")
    return cost


def _way(text: str) -> int:
    if text not in WAYS:
        raise BadInput(f"--monotone must be NAME=+1 or NAME=-1, got {text!r}")
    return WAYS[text]


def _check_features(option: str, names: Sequence[str], known: Sequence[str]) -> None:
    unknown = [name for name in names if name not in known]
    if unknown:
        raise BadInput(
            f"{option}: no feature is called {listed(unknown)}; they are {listed(known, 20)}"
        )
