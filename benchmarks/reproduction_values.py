"""What the rows of the paper's experiments say, as plain numbers for tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from agreement import Agreement, agreement, together

from totalqboost.experiments.frontiers import (
    Curves,
    dataset_names,
    group_points,
    paper_points,
)
from totalqboost.experiments.gains import gain_spreads, gains_by_split
from totalqboost.experiments.rows import STRATEGIES, Row
from totalqboost.experiments.statistics import (
    LEVEL,
    PAPER_SHARES,
    Difference,
    WorseShare,
    compare,
    corrected_error,
    detectable,
    excess_risk,
    optimization_success,
    worse_share,
)

SIZES = (5, 10, 20, 40)
MARGINS = ("lpboost", "erlpboost")  # have soft margins to choose among
OWN = ("adaboost", *MARGINS)  # minimise something of their own, not the risk of A to E
METHODS: dict[str, tuple[str, ...]] = {
    "convex": ("A", "B"),
    "cp": ("C", "D", "E"),
    **{name: (name,) for name in ("elimination", "random", *OWN)},
}
PAIRS = (
    ("D", "E"),
    ("D0", "E"),
    ("C", "E"),
    ("elimination", "E"),
    ("random", "E"),
    ("E", "B"),
    ("elimination", "B"),
)


def values_of(rows: Sequence[Row], n_hot: int | None) -> dict[str, Any]:
    """Return everything that the rows of all strategies say."""
    return {
        "n_splits": splits_of(rows),
        "success": success(rows, n_hot),
        "gains": gains(rows),
        "gain_counts": gain_counts(rows),
        "group_sizes": group_sizes(rows),
        "agreement": {what: agreed(rows, what) for what in ("convex", "cp", "difference")},
        "generalization": generalization(rows),
        "effort": effort(rows),
        "baselines": errors_at_sizes(rows),
        "one_margin": one_margin(rows),
    }


def splits_of(rows: Iterable[Row]) -> dict[str, int]:
    """Return the number of splits of each strategy."""
    splits: defaultdict[str, set[int]] = defaultdict(set)
    for row in rows:
        splits[row.strategy].add(row.split)
    return {name: len(splits[name]) for name in STRATEGIES if name in splits}


def seconds_of(rows: Sequence[Row]) -> dict[str, float]:
    """Return the seconds that a split of all data sets takes on one core, by strategy.

    Of each data set the median split counts: a machine that sleeps spoils the others' times.
    """
    splits: defaultdict[tuple[str, str], defaultdict[int, float]]
    splits = defaultdict(lambda: defaultdict(float))
    for row in rows:
        splits[row.strategy, row.dataset][row.split] += row.seconds
    found = dict.fromkeys(splits_of(rows), 0.0)
    for (strategy, _), seconds in splits.items():
        found[strategy] += float(np.median(list(seconds.values())))
    return found


# -- optimization ---------------------------------------------------------------------------


def success(rows: Sequence[Row], n_hot: int | None) -> list[dict[str, Any]]:
    """Return how often E is worse than B, and D than E, beside the paper's shares.

    D is seeded with E's answers, the paper's D is not: D0 stands beside it.
    """
    found = optimization_success(rows, n_hot=n_hot)
    entries = [_share(key, share, PAPER_SHARES[key]) for key, share in found.items()]
    for entry in entries:
        if (entry["strategy"], entry["measure"]) == ("E", "train_error"):
            entry["largest"] = largest_part(rows, n_hot, entry)
    for measure in ("risk", "train_error"):
        share = worse_share(rows, "D0", "E", measure)
        paper = PAPER_SHARES["D", "E", measure]
        entries.append(_share(("D0", "E", measure), share, paper))
    return entries


def largest_part(
    rows: Sequence[Row], n_hot: int | None, entry: dict[str, Any]
) -> tuple[str, float] | None:
    """Return the data set that has most of a mean difference, and how much of it."""
    sets: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        sets[row.dataset].append(row)
    parts: dict[str, float] = {}
    for name, members in sets.items():
        key = entry["strategy"], entry["other"], entry["measure"]
        share = optimization_success(members, n_hot)[key]
        parts[name] = share.difference * share.n_coinciding / max(1, entry["coinciding"])
    return max(parts.items(), key=lambda part: abs(part[1]), default=None)


def _share(key: tuple[str, str, str], found: WorseShare, paper: float) -> dict[str, Any]:
    return {
        "strategy": key[0],
        "other": key[1],
        "measure": key[2],
        "worse": found.n_worse,
        "better": found.n_better,
        "difference": found.difference,
        "coinciding": found.n_coinciding,
        "paper": paper,
    }


def effort(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return what one strategy's error and risk are above another's at equal size."""
    found = []
    n_sets = len({row.dataset for row in rows})
    for ours, theirs in PAIRS:
        risks = excess_risk(rows, ours, theirs)
        for dataset, comparison in compare(rows, (ours,), (theirs,)).items():
            if comparison.overall is None:
                continue
            found.append(
                {
                    "dataset": dataset,
                    "ours": ours,
                    "theirs": theirs,
                    "error": difference_values(comparison.overall, n_sets),
                    "risk": float(np.mean(risks[dataset])),
                }
            )
    return found


# -- the paper's table and points -----------------------------------------------------------


def gains(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the gains beside the paper's; "perfect": where the gain is the whole error.

    That is how many validation rows the splits have on which C, D, E make no error, and A, B do.
    """
    n_valid = {(row.dataset, row.split): row.n_valid for row in rows}
    perfect: defaultdict[str, list[int]] = defaultdict(list)
    for key, curves in group_points(rows).items():
        least = [min((p.error for p in curves[name]), default=1.0) for name in ("cp", "convex")]
        if least[0] == 0.0 < least[1]:
            perfect[key[0]].append(n_valid[key])
    return [
        asdict(spread) | {"perfect": sorted(perfect[spread.dataset])}
        for spread in gain_spreads(rows)
    ]


def gain_counts(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    """Return on how many splits of all data sets there is a gain, and a reversed one.

    At all sizes, as in the paper, and at those only that both groups have on a split: convex
    boosting has an ensemble of every size, a grid of prices has not.
    """
    whole = group_points(rows)
    common = {key: _at_common_sizes(curves) for key, curves in whole.items()}
    found = {}
    for where, curves in (("all", whole), ("common", common)):
        for is_reversed in (False, True):
            gains = gains_by_split(curves, is_reversed=is_reversed).values()
            found[f"{where}, reversed" if is_reversed else where] = {
                what: sum(v > 0 for gain in gains for v in getattr(gain, what))
                for what in ("sparsity", "generalization")
            } | {"splits": sum(len(gain.sparsity) for gain in gains)}
    return found


def _at_common_sizes(curves: Curves) -> Curves:
    sizes = [{point.n_learners for point in points} for points in curves.values()]
    both = set.intersection(*sizes)
    return {
        name: tuple(point for point in points if point.n_learners in both)
        for name, points in curves.items()
    }


def group_sizes(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Return how many sizes a group has, mean over data sets: of a split of ours, in the paper."""
    sets: defaultdict[str, list[Curves]] = defaultdict(list)
    for (dataset, _), curves in group_points(rows).items():
        sets[dataset].append(curves)
    papers = paper_points()
    return {
        group: {
            "ours": float(
                np.mean([np.mean([len(one[group]) for one in found]) for found in sets.values()])
            ),
            "paper": float(
                np.mean([len({p.n_learners for p in papers[name][group]}) for name in sets])
            ),
        }
        for group in ("convex", "cp")
    }


def agreed(rows: Sequence[Row], what: Any) -> dict[str, Any]:
    """Return our mean errors beside the paper's points, and the tests over all data sets."""
    found = agreement(rows, what)
    tested = together(found.values())
    return {
        "datasets": [_agreement(found[name]) for name in dataset_names(found)],
        "together": tested and {name: getattr(tested, name) for name in tested.__slots__},
    }


def _agreement(found: Agreement) -> dict[str, Any]:
    names = (*found.__slots__, "distance", "p_value")
    return {name: getattr(found, name) for name in names}


# -- validation errors ----------------------------------------------------------------------


def generalization(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return validation errors of C, D, E minus those of A, B, with their tests."""
    found = compare(rows)
    return [
        {
            "dataset": name,
            "overall": difference_values(found[name].overall, len(found)),
            "best": difference_values(found[name].best, len(found)),
            "sizes": sum(size.difference.n_splits for size in found[name].sizes)
            / max(1, found[name].n_splits),
            "better": list(found[name].better),
            "worse": list(found[name].worse),
        }
        for name in dataset_names(found)
    ]


def difference_values(difference: Difference | None, n_tests: int = 1) -> dict[str, Any] | None:
    """Return a difference as plain numbers, with what its splits could find, of many tests."""
    if difference is None:
        return None
    return {
        "mean": difference.mean,
        "standard_error": difference.standard_error,
        "p": difference.p_value,
        "n_splits": difference.n_splits,
        "detectable": detectable(difference, level=LEVEL / n_tests),
    }


def errors_at_sizes(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return errors of each method's best ensemble of at most 5, 10, ... learners.

    Best is by what the method minimises: A to E and subsets by the risk, which their objectives
    share, AdaBoost by the same, LPBoost by minus its soft margin, ERLPBoost by minus the one that
    an entropy regularises. The latter two have three soft margins; the one of least validation
    error over all splits and sizes stands for each data set, which favours them. Only splits that
    all of these strategies have count.
    """
    rows = compared_rows(rows)
    found = []
    for dataset in dataset_names(row.dataset for row in rows):
        entry: dict[str, Any] = {"dataset": dataset}
        for method, strategies in METHODS.items():
            members = [r for r in rows if r.dataset == dataset and r.strategy in strategies]
            candidates = [_errors(members, method, nu) for nu in _margins(members, method)]
            sizes = min(
                candidates, key=lambda c: sum(size["mean"] or 0.0 for size in c), default=None
            )
            entry[method] = sizes
        found.append(entry)
    return found


def one_margin(rows: Sequence[Row]) -> dict[str, list[dict[str, Any]]]:
    """Return mean errors at each of the sizes if all data sets have one and the same soft margin.

    Of each method, by growing margin.
    """
    rows = compared_rows(rows)
    found: dict[str, list[dict[str, Any]]] = {}
    for method in MARGINS:
        sets: defaultdict[str, list[Row]] = defaultdict(list)
        for row in rows:
            if row.strategy == method:
                sets[row.dataset].append(row)
        margins = {nu for members in sets.values() for nu in _margins(members, method) if nu}
        found[method] = []
        for nu in sorted(margins):
            errors = [_errors(members, method, nu) for members in sets.values()]
            sizes = [[one["mean"] for one in each] for each in zip(*errors, strict=True)]
            means = [None if None in size else float(np.mean(size)) for size in sizes]
            found[method].append({"margin": nu, "means": means})
    return found


def compared_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of the methods that are compared, of the splits that all of them have."""
    compared = {name for strategies in METHODS.values() for name in strategies}
    rows = [row for row in rows if row.strategy in compared]
    common = common_splits(rows)
    return [row for row in rows if row.split in common]


def common_splits(rows: Sequence[Row]) -> set[int]:
    """Return the splits on which every strategy that was run at all was run."""
    splits: defaultdict[str, set[int]] = defaultdict(set)
    for row in rows:
        splits[row.strategy].add(row.split)
    return set.intersection(*splits.values()) if splits else set()


def _margins(rows: Sequence[Row], method: str) -> list[float | None]:
    if method not in MARGINS:
        return [None] if rows else []
    return list(dict.fromkeys(row.penalty for row in rows))


def _errors(rows: Sequence[Row], method: str, nu: float | None) -> list[dict[str, Any]]:
    """Return mean and corrected standard error over splits at each of the sizes."""
    splits: defaultdict[int, list[Row]] = defaultdict(list)
    for row in rows:
        if nu is None or row.penalty == nu:
            splits[row.split].append(row)
    found = []
    for size in SIZES:
        chosen = [best_row(members, method, size) for members in splits.values()]
        found.append(_mean([row for row in chosen if row is not None]))
    return found


def best_row(rows: Iterable[Row], method: str, size: int) -> Row | None:
    """Return the ensemble of at most so many learners that the method itself likes best."""
    measure = "objective" if method in OWN else "risk"
    fitting = [row for row in rows if 0 < row.n_learners <= size]
    return min(fitting, key=lambda row: (getattr(row, measure), row.n_learners), default=None)


def _mean(rows: Sequence[Row]) -> dict[str, Any]:
    errors, n = [row.valid_error for row in rows], len(rows)
    if not rows:  # no ensemble is that small
        return {"mean": None, "standard_error": None, "learners": None, "n_splits": 0}
    ratio = float(np.mean([row.n_valid / row.n_train for row in rows]))
    return {
        "mean": float(np.mean(errors)),
        "standard_error": corrected_error(errors, ratio),
        "learners": float(np.mean([row.n_learners for row in rows])),
        "n_splits": n,
    }
