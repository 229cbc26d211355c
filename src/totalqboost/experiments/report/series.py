"""What can be drawn: groups of strategies as in the paper's figure, each strategy, the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

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


STRATEGY_SERIES = (
    Series("A", "L1CG, grid of ν", "strategy", "triangle-up"),
    Series("B", "UCG, stopped early", "strategy", "circle"),
    Series("C", "CPCG, grid of λ", "strategy", "square"),
    Series("D", "CPCG, hot start", "strategy", "diamond"),
    Series("D0", "D without answers of E", "strategy", "hourglass"),
    Series("E", "subset selection", "strategy", "triangle-down"),
    Series("adaboost", "AdaBoost", "strategy", "cross"),
    Series("lpboost", "LPBoost", "strategy", "x"),
    Series("erlpboost", "ERLPBoost", "strategy", "star"),
    Series("elimination", "backward elimination", "strategy", "pentagon"),
    Series("random", "random columns", "strategy", "hexagon"),
)
ABOUT = {series.key: series.label for series in STRATEGY_SERIES}
SERIES = (
    Series("convex", "convex (A, B)", "group", "circle", shown=True),
    Series("cp", "penalized (C, D, E)", "group", "diamond", shown=True),
    *(replace(s, label=f"{s.key} {s.label}") if len(s.key) < 3 else s for s in STRATEGY_SERIES),
    Series("paper-convex", "paper: convex", "paper", "circle-open", shown=True),
    Series("paper-cp", "paper: penalized", "paper", "diamond-open", shown=True),
)
ALL_GROUPS: Mapping[str, tuple[str, ...]] = {**GROUPS, **{name: (name,) for name in STRATEGIES}}
