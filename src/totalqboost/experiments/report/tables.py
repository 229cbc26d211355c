"""The tables of the page: gains, optimization success, certainty and run times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy import stats

from totalqboost.datasets import paper_table
from totalqboost.experiments.figures import drawn_curves
from totalqboost.experiments.folder import Run
from totalqboost.experiments.gains import gain_table
from totalqboost.experiments.report.series import ABOUT
from totalqboost.experiments.statistics import (
    LEVEL,
    PAPER_SHARES,
    Comparison,
    Difference,
    WorseShare,
    optimization_success,
)

__all__ = [
    "PAPER_CORE_HOURS",
    "DifferenceLine",
    "GainLine",
    "ShareLine",
    "TimeLine",
    "difference_lines",
    "gain_lines",
    "share_lines",
    "time_lines",
]

MEASURES = {
    "risk": "empirical risk",
    "train_error": "training error",
    "valid_error": "validation error",
}
PAPER_CORES = 1_800 * 16
PAPER_CORE_HOURS = PAPER_CORES * 7 * 24


@dataclass(frozen=True)
class GainLine:
    """Entries of one rank of one data set, ours and the paper's; percents, None if absent."""

    id: str
    ours: Mapping[str, Any] | None
    paper: Mapping[str, Any] | None


def gain_lines(run: Run) -> dict[str, list[GainLine]]:
    """Return the table of gains by data set, ours beside the paper's; [] without any gain.

    One split is treated like the paper's; several count by their mean errors.
    """
    ours = gain_table(drawn_curves(run.rows))
    table: dict[str, list[GainLine]] = {}
    for name in run.datasets:
        mine = {gain.id: gain.to_dict() for gain in ours if gain.dataset == name}
        theirs = {row["id"]: row for row in paper_table()["rows"] if row["dataset"] == name}
        ranks = sorted({*mine, *theirs}, key=lambda rank: (rank != "*", rank))
        table[name] = [GainLine(rank, mine.get(rank), theirs.get(rank)) for rank in ranks]
    return table


@dataclass(frozen=True)
class DifferenceLine:
    """Error of CP minus that of convex methods at equal sizes: shares, with a 95 % interval."""

    dataset: str
    difference: Difference
    low: float
    high: float
    n_sizes: int
    n_better: int
    n_worse: int

    @property
    def is_sure(self) -> bool:
        return self.difference.p_value <= LEVEL


def difference_lines(
    names: Sequence[str], comparisons: Mapping[str, Comparison]
) -> list[DifferenceLine]:
    """Return the lines of the data sets that have several splits and sizes that coincide."""
    lines = []
    for name in names:
        comparison = comparisons.get(name)
        found = None if comparison is None else comparison.overall
        if comparison is None or found is None or found.standard_error is None:
            continue
        half = float(stats.t.ppf(1 - LEVEL / 2, found.n_splits - 1)) * found.standard_error
        sizes = (len(comparison.sizes), len(comparison.better), len(comparison.worse))
        lines.append(DifferenceLine(name, found, found.mean - half, found.mean + half, *sizes))
    return lines


@dataclass(frozen=True)
class ShareLine:
    """How often ``strategy`` is worse than ``other`` at coinciding cardinalities."""

    strategy: str
    other: str
    measure: str
    ours: WorseShare
    paper: float


def share_lines(run: Run) -> list[ShareLine]:
    """Return the paper's four comparisons on the rows of the run."""
    found = optimization_success(run.rows, n_hot=run.n_hot)
    return [
        ShareLine(strategy, other, MEASURES[measure], share, PAPER_SHARES[strategy, other, measure])
        for (strategy, other, measure), share in found.items()
    ]


@dataclass(frozen=True)
class TimeLine:
    """Processor time of one strategy over all data sets and splits."""

    strategy: str
    about: str
    n_ensembles: int
    seconds: float


def time_lines(run: Run) -> list[TimeLine]:
    """Return the times of the strategies that were run."""
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    for row in run.rows:
        seconds[row.strategy].append(row.seconds)
    return [
        TimeLine(name, about, len(seconds[name]), sum(seconds[name]))
        for name, about in ABOUT.items()
        if seconds[name]
    ]
