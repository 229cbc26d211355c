"""What can be drawn: groups of strategies as in the paper's figure, each strategy, the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from totalqboost.experiments.frontiers import GROUPS
from totalqboost.experiments.rows import STRATEGIES

__all__ = ["ABOUT", "ALL_GROUPS", "SERIES", "Series"]


@dataclass(frozen=True)
class Series:
    """One entry of the legend; ``symbol`` is a name of Plotly's, ``shown`` its first state."""

    key: str
    label: str
    kind: str  # "group", "strategy" or "paper"
    symbol: str
    shown: bool = False


ABOUT = {
    "A": "L1CG, grid of ν",
    "B": "UCG, stopped early",
    "C": "CPCG, grid of λ",
    "D": "CPCG, hot start",
    "E": "subset selection",
    "adaboost": "AdaBoost",
    "lpboost": "LPBoost",
    "erlpboost": "ERLPBoost",
}
_SYMBOLS = {
    "A": "triangle-up",
    "B": "circle",
    "C": "square",
    "D": "diamond",
    "E": "triangle-down",
    "adaboost": "cross",
    "lpboost": "x",
    "erlpboost": "star",
}
SERIES = (
    Series("convex", "convex: A, B", "group", "circle", shown=True),
    Series("cp", "cardinality-penalized: C, D, E", "group", "diamond", shown=True),
    *(
        Series(name, f"{name} {about}" if len(name) == 1 else about, "strategy", _SYMBOLS[name])
        for name, about in ABOUT.items()
    ),
    Series("paper-convex", "convex", "paper", "circle-open", shown=True),
    Series("paper-cp", "cardinality-penalized", "paper", "diamond-open", shown=True),
)
ALL_GROUPS: Mapping[str, tuple[str, ...]] = {**GROUPS, **{name: (name,) for name in STRATEGIES}}
