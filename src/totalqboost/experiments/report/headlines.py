"""The key figures of the page: what a newcomer asks first, each with its uncertainty.

How many learners are saved, how much the error changes, and where that is sure. A figure whose
uncertainty is unknown is not shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from totalqboost.experiments.folder import Run
from totalqboost.experiments.frontiers import Point, group_points
from totalqboost.experiments.rows import Row
from totalqboost.experiments.statistics import LEVEL, Comparison, Difference, paired_difference

__all__ = ["MIN_SPLITS", "Estimate", "Headline", "estimate", "headlines", "savings"]

MIN_DATASETS = 3  # so many vary enough to tell what to expect of another one
MOST_NAMES = 3  # of data sets in a tile; the table has them all
MIN_SPLITS = 6  # fewer prove nothing at LEVEL, see paired_difference


@dataclass(frozen=True)
class Estimate:
    """A mean over data sets and its 95 % interval; ``over`` tells what it varies over."""

    mean: float
    low: float
    high: float
    over: str

    @property
    def reach(self) -> float:
        """How far the interval and zero are apart at most: half the axis that shows both."""
        return max(abs(self.low), abs(self.high)) or 1.0


@dataclass(frozen=True)
class Headline:
    """A key figure in words; ``estimate`` is drawn if there is one."""

    title: str
    value: str
    doubt: str
    estimate: Estimate | None = None


def headlines(run: Run, comparisons: Mapping[str, Comparison]) -> list[Headline]:
    """Return the key figures that the run can be sure enough of to name their uncertainty."""
    errors = {name: c.overall for name, c in comparisons.items() if c.overall is not None}
    found = [_saved(estimate(savings(run.rows))), _error(estimate(errors))]
    known = [headline for headline in found if headline is not None]
    return [*known, _sure(errors, len(run.splits))] if known else []


# -- estimates ------------------------------------------------------------------------------


def estimate(by_dataset: Mapping[str, Difference]) -> Estimate | None:
    """Return the mean over data sets with a t-interval, None if nothing tells how sure it is.

    Three data sets or more: what to expect of another data set, so the interval is over data
    sets. Fewer: what to expect of another split of these.
    """
    differences = list(by_dataset.values())
    n = len(differences)
    if n >= MIN_DATASETS:
        error, freedom = stats.sem([d.mean for d in differences]), n - 1
        over = f"{n} data sets"
    else:
        errors = [d.standard_error for d in differences if d.standard_error is not None]
        if not errors or len(errors) < n:
            return None
        n_splits = min(d.n_splits for d in differences)
        error, freedom = np.sqrt(np.sum(np.square(errors))) / n, n_splits - 1
        over = f"{n_splits} splits"
    mean = float(np.mean([d.mean for d in differences]))
    half = float(stats.t.ppf(1 - LEVEL / 2, freedom) * error)
    return Estimate(mean, mean - half, mean + half, over)


def savings(rows: Iterable[Row]) -> dict[str, Difference]:
    """Return by data set which share of learners CP saves at equal training risk.

    Risk and not validation error: the least of many noisy errors is reached by chance, and the
    sooner the more ensembles a group has. A split counts by the mean over its CP ensembles.
    """
    shares: defaultdict[str, list[float]] = defaultdict(list)
    ratios: defaultdict[str, list[float]] = defaultdict(list)
    for (dataset, _), curves in group_points(rows, choose_by="risk").items():
        found = _savings_of(curves["cp"], curves["convex"])
        if found:
            row = curves["cp"][0].row
            assert row is not None
            shares[dataset].append(float(np.mean(found)))
            ratios[dataset].append(row.n_valid / row.n_train)
    return {
        name: paired_difference(values, float(np.mean(ratios[name])))
        for name, values in shares.items()
    }


def _savings_of(cp: Sequence[Point], convex: Sequence[Point]) -> list[float]:
    """Return 1 − k/n of each CP point of k learners, n what convex methods need for its risk.

    Between two sizes of convex ensembles their risk is interpolated. A CP point below all their
    risks has no n and is left out, which is in favour of convex methods.
    """
    if not convex:
        return []
    sizes = [point.n_learners for point in convex]
    risks = np.minimum.accumulate([_risk(point) for point in convex])
    reached = [point for point in cp if _risk(point) >= risks[-1]]
    needed = np.interp([-_risk(point) for point in reached], -risks, sizes)
    return [1.0 - p.n_learners / n for p, n in zip(reached, needed.tolist(), strict=True)]


def _risk(point: Point) -> float:
    assert point.row is not None
    return point.row.risk


# -- words ----------------------------------------------------------------------------------


def _saved(found: Estimate | None) -> Headline | None:
    title = "Learners needed for the same training loss"
    if found is None:
        return None
    change = Estimate(-found.mean, -found.high, -found.low, found.over)  # left is better
    return _in_words(title, change, "\xa0%", 0, ("fewer", "more"))


def _error(found: Estimate | None) -> Headline | None:
    title = "Error on unseen rows at the same size"
    return None if found is None else _in_words(title, found, "\xa0points", 2, ("lower", "higher"))


def _in_words(
    title: str, found: Estimate, unit: str, digits: int, words: tuple[str, str]
) -> Headline:
    """Return the figure in words, the first of which is for values below zero.

    A figure whose interval contains zero is no finding, and stands in the small print.
    """
    low, mean, high = (words[value > 0] for value in (found.low, found.mean, found.high))
    ends = [f"{abs(100 * value):.{digits}f}" for value in (found.low, found.high)]
    if low == high:  # said once, and from the smaller amount to the larger
        between = " to ".join(sorted(ends, key=float)) + f"{unit} {low}"
    else:
        between = f"{ends[0]}{unit} {low} to {ends[1]}{unit} {high}"
    value = f"{abs(100 * found.mean):.{digits}f}{unit} {mean}"
    doubt = f"95\xa0% interval {between}, {found.over}"
    if found.low < 0 < found.high:
        return Headline(title, "no difference shown", f"{value}; {doubt}", found)
    return Headline(title, value, doubt, found)


def _sure(errors: Mapping[str, Difference], n_splits: int) -> Headline:
    """Return on how many data sets the error at equal size differs, after a correction."""
    title = "Data sets where that error is shown to differ"
    if n_splits < MIN_SPLITS:
        splits = "1 split proves" if n_splits == 1 else f"{n_splits} splits prove"
        doubt = f"{splits} nothing at the 5\xa0% level; {MIN_SPLITS} or more can"
        return Headline(title, "not known yet", doubt)
    sure = [name for name, d in errors.items() if d.is_sure(len(errors))]
    lower = _counted([name for name in sure if errors[name].mean < 0], "lower")
    higher = _counted([name for name in sure if errors[name].mean > 0], "higher")
    tests = "one test" if len(errors) == 1 else f"{len(errors)} tests"
    doubt = f"{lower}, {higher}; 5\xa0% level, corrected for {tests}"
    return Headline(title, f"{len(sure)} of {len(errors)}", doubt)


def _counted(names: Sequence[str], word: str) -> str:
    listed = f" ({', '.join(names)})" if 0 < len(names) <= MOST_NAMES else ""
    return f"{len(names)} {word}{listed}"
