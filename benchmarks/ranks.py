"""Comparison of several methods over many data sets: ranks, tests, critical differences.

Demšar (Statistical Comparisons of Classifiers over Multiple Data Sets, JMLR 7, 2006): one value
per data set, so that splits of one set do not count as evidence of their own; Friedman's test for
all methods, Nemenyi's critical difference for the picture, Wilcoxon's signed ranks with Holm's
correction for one method against the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

LEVEL = 0.05


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for testing many of them, by Holm's step-down method.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p)
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(steps, 1.0)
    return [float(value) for value in adjusted]


@dataclass(frozen=True)
class Versus:
    """One method against another: negative differences are good for the first."""

    name: str
    mean: float
    standard_error: float
    wins: int
    ties: int
    losses: int
    p_value: float
    p_adjusted: float


def mean_ranks(values: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return the mean rank of every method over the sets; rank 1 has the least value.

    >>> mean_ranks({"a": [1.0, 2.0], "b": [2.0, 2.0]})
    {'a': 1.25, 'b': 1.75}
    """
    table = np.array(list(values.values()))
    ranks = stats.rankdata(table, axis=0).mean(axis=1)
    return dict(zip(values, map(float, ranks), strict=True))


def friedman(values: Mapping[str, Sequence[float]]) -> float:
    """Return the p-value of "all methods are equal"."""
    return float(stats.friedmanchisquare(*values.values()).pvalue)


def critical_difference(n_methods: int, n_sets: int) -> float:
    """Return by how much mean ranks must differ after Nemenyi's test.

    >>> round(critical_difference(4, 14), 2)  # Demšar's example has 1.25
    1.25
    """
    q = float(stats.studentized_range.ppf(1.0 - LEVEL, n_methods, np.inf)) / np.sqrt(2.0)
    return q * float(np.sqrt(n_methods * (n_methods + 1) / (6.0 * n_sets)))


def against(
    mine: Sequence[float], others: Mapping[str, Sequence[float]], tie: float = 1e-9
) -> list[Versus]:
    """Test one method against each of the others over sets, from both sides.

    Wilcoxon's test after Pratt, who ranks the zeros too; p-values are corrected after Holm.
    """
    found = []
    for name, theirs in others.items():
        d = np.asarray(mine, dtype=float) - np.asarray(theirs, dtype=float)
        d = np.where(np.abs(d) <= tie, 0.0, d)
        p = float(stats.wilcoxon(d, zero_method="pratt").pvalue) if np.any(d) else 1.0
        error = float(d.std(ddof=1) / np.sqrt(len(d))) if len(d) > 1 else np.nan
        counts = int(np.sum(d < 0)), int(np.sum(d == 0)), int(np.sum(d > 0))
        found.append((name, float(d.mean()), error, *counts, p))
    adjusted = holm([row[-1] for row in found])
    return [Versus(*row, p) for row, p in zip(found, adjusted, strict=True)]


# -- picture --------------------------------------------------------------------------------


def groups(ranks: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """Return the longest runs of ascending ranks that the critical difference cannot part.

    >>> groups([1.0, 1.5, 3.0], 1.0)
    [(0, 1)]
    """
    runs: list[tuple[int, int]] = []
    for first in range(len(ranks)):
        last = max(j for j in range(first, len(ranks)) if ranks[j] - ranks[first] <= difference)
        if last > first and not (runs and runs[-1][1] >= last):
            runs.append((first, last))
    return runs


def draw(
    panels: Mapping[str, Mapping[str, float]], difference: float, path: Path, bold: str
) -> None:
    """Draw mean ranks, one panel each: bars join methods that do not differ significantly."""
    from matplotlib.figure import Figure

    n_methods = max(len(ranks) for ranks in panels.values())
    figure = Figure(figsize=(8.0, len(panels) * (1.0 + 0.16 * n_methods)), layout="constrained")
    axes = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
    for ax, (title, ranks) in zip(axes, panels.items(), strict=True):
        _draw_panel(ax, title, ranks, difference, bold)
    figure.savefig(path, dpi=150)


def _draw_panel(
    ax: Any, title: str, ranks: Mapping[str, float], difference: float, bold: str
) -> None:
    ordered = sorted(ranks.items(), key=lambda item: item[1])
    n = len(ordered)
    half = (n + 1) // 2
    runs = groups([rank for _, rank in ordered], difference)
    depth = 0.25 * (len(runs) + 1)
    for i, (name, rank) in enumerate(ordered):
        on_left = i < half
        y = -depth - 0.5 * (i if on_left else n - 1 - i) - 0.3
        x = 0.6 if on_left else n + 0.4
        weight = "bold" if name == bold else "normal"
        ax.plot([rank, rank, x], [0, y, y], color="0.35", lw=0.8)
        text, side = f"{name} {rank:.2f}", "right" if on_left else "left"
        ax.text(x, y, f" {text} ", ha=side, va="center", fontsize=8, weight=weight)
    for level, (first, last) in enumerate(runs):
        ends = [ordered[first][1] - 0.04, ordered[last][1] + 0.04]
        ax.plot(ends, [-0.2 - 0.25 * level] * 2, color="C0", lw=3, solid_capstyle="round")
    ax.plot([1, n], [0, 0], color="k", lw=1)
    for rank in range(1, n + 1):
        ax.plot([rank, rank], [0, 0.12], color="k", lw=1)
        ax.text(rank, 0.2, str(rank), ha="center", va="bottom", fontsize=7)
    ax.plot([1, 1 + difference], [0.95, 0.95], color="k", lw=1.5)
    ax.text(1 + difference / 2, 1.0, f"CD {difference:.2f}", ha="center", va="bottom", fontsize=7)
    ax.set_title(title, fontsize=9, loc="right")
    ax.set_xlim(-0.25 * n, 1.25 * n + 1)
    ax.set_ylim(-depth - 0.5 * half - 0.2, 1.5)
    ax.axis("off")
