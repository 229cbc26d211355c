"""The tables of the page: gains, optimization success, certainty and run times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from scipy import stats

from totalqboost.datasets import paper_table
from totalqboost.experiments.figures import drawn_curves
from totalqboost.experiments.folder import Run
from totalqboost.experiments.gains import gain_table
from totalqboost.experiments.report.series import ABOUT
from totalqboost.experiments.rows import Row
from totalqboost.experiments.statistics import (
    LEVEL,
    PAPER_SHARES,
    Comparison,
    Difference,
    WorseShare,
    optimization_success,
    worse_share,
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
    """Entries of one rank of one data set, ours and the paper's; percents, None if absent.

    For one split, which is treated like the paper's; several have a spread.
    """

    id: str
    ours: Mapping[str, Any] | None
    paper: Mapping[str, Any] | None


def gain_lines(run: Run) -> dict[str, list[GainLine]]:
    """Return the table of gains by data set, ours beside the paper's; [] without any gain."""
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
    """Error of CP minus that of convex methods at equal sizes: shares, with a 95 % interval.

    It is sure if it survives Bonferroni's correction for all data sets.
    """

    dataset: str
    difference: Difference
    low: float
    high: float
    n_sizes: int
    n_better: int
    n_worse: int
    is_sure: bool


def difference_lines(
    names: Sequence[str], comparisons: Mapping[str, Comparison]
) -> list[DifferenceLine]:
    """Return the lines of the data sets that have several splits and sizes that coincide."""
    lines = []
    n_tests = sum(comparison.overall is not None for comparison in comparisons.values())
    for name in names:
        comparison = comparisons.get(name)
        found = None if comparison is None else comparison.overall
        if comparison is None or found is None or found.standard_error is None:
            continue
        half = float(stats.t.ppf(1 - LEVEL / 2, found.n_splits - 1)) * found.standard_error
        sizes = (len(comparison.sizes), len(comparison.better), len(comparison.worse))
        is_sure = found.is_sure(n_tests)
        low, high = found.mean - half, found.mean + half
        lines.append(DifferenceLine(name, found, low, high, *sizes, is_sure))
    return lines


@dataclass(frozen=True)
class ShareLine:
    """How often ``strategy`` is worse than ``other`` at coinciding cardinalities."""

    strategy: str
    other: str
    measure: str
    ours: WorseShare
    paper: float | None  # None where another line is the one to compare


def share_lines(run: Run) -> list[ShareLine]:
    """Return the paper's four comparisons on the rows of the run, and D0's where it was run.

    The paper's D began without E's answers, as D0 does.
    """
    found: dict[tuple[str, str, Any], WorseShare] = {
        **optimization_success(run.rows, n_hot=run.n_hot)
    }
    paper = {**PAPER_SHARES}
    if any(row.strategy == "D0" for row in run.rows):
        for measure in ("risk", "train_error"):
            found["D0", "E", measure] = worse_share(run.rows, "D0", "E", measure)
            paper["D0", "E", measure] = paper.pop(("D", "E", measure))
    return [
        ShareLine(strategy, other, MEASURES[measure], share, paper.get((strategy, other, measure)))
        for (strategy, other, measure), share in found.items()
    ]


@dataclass(frozen=True)
class TimeLine:
    """Processor time of one strategy on one split of all data sets.

    Of each data set the median split counts: a machine that slept or was busy spoils the others.
    None where only some stages were kept, whose times are not those of all.
    """

    strategy: str
    about: str
    n_ensembles: int
    seconds: float | None


def time_lines(run: Run) -> list[TimeLine]:
    """Return the times of the strategies that were run."""
    rows: defaultdict[str, list[Row]] = defaultdict(list)
    for row in run.rows:
        rows[row.strategy].append(row)
    return [
        TimeLine(name, about, len(rows[name]), _seconds(rows[name]))
        for name, about in ABOUT.items()
        if rows[name]
    ]


def _seconds(rows: Sequence[Row]) -> float | None:
    splits: defaultdict[str, defaultdict[int, float]] = defaultdict(lambda: defaultdict(float))
    stages: defaultdict[tuple[str, int, float | None], list[int]] = defaultdict(list)
    for row in rows:
        splits[row.dataset][row.split] += row.seconds
        if row.round is not None:
            stages[row.dataset, row.split, row.penalty].append(row.round)
    if any(max(rounds) - min(rounds) >= len(rounds) for rounds in stages.values()):
        return None
    return sum(median(seconds.values()) for seconds in splits.values())
