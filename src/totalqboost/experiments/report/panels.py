"""The data behind the page: per data set its points, means, frontiers and ensembles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from totalqboost.ensemble import Ensemble, Shape
from totalqboost.experiments.figures import min_splits
from totalqboost.experiments.folder import Run
from totalqboost.experiments.frontiers import (
    GROUPS,
    Curves,
    Point,
    group_points,
    paper_points,
    pareto_frontier,
)
from totalqboost.experiments.report.ensembles import (
    choose,
    deciles_of,
    offered,
    read_ensemble,
    shapes,
)
from totalqboost.experiments.report.series import ALL_GROUPS
from totalqboost.experiments.rows import STRATEGIES, Row
from totalqboost.experiments.statistics import mean_curves
from totalqboost.learners import Stump

__all__ = ["ensemble_entry", "panels", "shown_first"]


def panels(run: Run) -> list[dict[str, Any]]:
    """Return what the page draws, as plain values, one entry per data set.

    Rows are stored by columns and pointed at by their position: a run of twenty splits has
    tens of thousands of them.
    """
    n_splits = len(run.splits)
    means = mean_curves(group_points(run.rows, ALL_GROUPS, "risk")) if n_splits > 1 else {}
    least = min_splits(n_splits)
    by_split = group_points(run.rows)
    paper = paper_points()
    return [
        _panel(name, run.of(name), means.get(name, {}), least, by_split, paper.get(name, {}))
        for name in run.datasets
    ]


def shown_first(panels: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the panel whose ensemble is shown first, None if no panel has one.

    The one of fewest learners, but of at least three: a single one is no ensemble.
    """
    sizes = {
        index: panel["ensembles"][panel["chosen"]]["n"]
        for index, panel in enumerate(panels)
        if panel["chosen"] is not None
    }
    return min(sizes, key=lambda index: (sizes[index] < 3, sizes[index], index), default=None)


def _panel(
    name: str,
    rows: Sequence[Row],
    means: Curves,
    least: int,
    by_split: Mapping[tuple[str, int], Curves],
    paper: Curves,
) -> dict[str, Any]:
    rows = [row for row in rows if row.n_learners > 0]  # empty ensembles are not drawn
    looked_into = offered(rows)
    position = {id(row): index for index, row in enumerate(rows)}
    ensemble_of = {id(row): index for index, row in enumerate(looked_into)}
    splits = sorted({row.split for row in rows})
    deciles = deciles_of(name)
    drawn_means = {k: tuple(p for p in ps if p.n_splits >= least) for k, ps in means.items()}
    drawn = drawn_means or by_split.get((name, min(splits, default=0)), {})
    return {
        "name": name,
        "caption": _caption(rows),
        "summary": _summary(drawn),
        "n_valid": {row.split: row.n_valid for row in rows},
        "rows": {
            "strategy": [STRATEGIES.index(row.strategy) for row in rows],
            "split": [row.split for row in rows],
            "n": [row.n_learners for row in rows],
            "risk": [_short(row.risk) for row in rows],
            "train": [_percent(row.train_error) for row in rows],
            "wrong": [round(row.valid_error * row.n_valid) for row in rows],
            "penalty": [None if row.penalty is None else _short(row.penalty) for row in rows],
            "round": [row.round for row in rows],
            "ensemble": [ensemble_of.get(id(row)) for row in rows],
        },
        "groups": {
            split: {
                group: _positions(points, position)
                for group, points in by_split.get((name, split), {}).items()
            }
            for split in splits
        },
        "means": {key: _curve(points) for key, points in drawn_means.items() if points},
        "by_size": {key: {p.n_learners: _mean(p) for p in ps} for key, ps in means.items()},
        "paper": {group: _curve(points) for group, points in paper.items()},
        "ensembles": [
            {"index": index, **_ensemble(row, deciles)} for index, row in enumerate(looked_into)
        ],
        "chosen": choose(looked_into),
    }


def _caption(rows: Sequence[Row]) -> str:
    sizes = sorted({row.n_valid for row in rows})
    if not sizes:
        return "no ensembles"
    numbers = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]}–{sizes[-1]}"
    return f"{numbers} validation rows"


def _summary(curves: Curves) -> str:
    """Return in words what a chart shows at first, for those who do not see it.

    Only sizes that both groups have: the least of many errors is not comparable to that of few.
    """
    convex, cp = ({p.n_learners: p.error for p in curves.get(name, ())} for name in GROUPS)
    both = sorted(convex.keys() & cp.keys())
    told = sorted({both[0], both[len(both) // 2], both[-1]}) if both else []
    return " ".join(
        f"With {_learners_of(n)}: convex {100 * convex[n]:.1f} %, "
        f"cardinality-penalized {100 * cp[n]:.1f} %."
        for n in told
    )


def _learners_of(n: int) -> str:
    return "1 learner" if n == 1 else f"{n} learners"


def _positions(points: Sequence[Point], position: Mapping[int, int]) -> dict[str, list[int]]:
    """Return where the rows of the points stand, and which of the points are the frontier."""
    return {"rows": [position[id(point.row)] for point in points], "frontier": _frontier(points)}


def _mean(point: Point) -> list[float | None]:
    """Return the error, its standard error if there is one, and how many splits are behind it."""
    error = point.standard_error
    return [_percent(point.error), None if error is None else _percent(error), point.n_splits]


def _curve(points: Sequence[Point]) -> dict[str, Any]:
    return {
        "n": [point.n_learners for point in points],
        "error": [_percent(point.error) for point in points],
        "frontier": _frontier(points),
    }


def _frontier(points: Iterable[Point]) -> list[int]:
    """Return the positions of the Pareto-efficient ones among the points."""
    points = list(points)
    efficient = {id(point) for point in pareto_frontier(points)}
    return [index for index, point in enumerate(points) if id(point) in efficient]


# -- ensembles ------------------------------------------------------------------------------


def _ensemble(row: Row, deciles: Mapping[int, Sequence[float]]) -> dict[str, Any]:
    entry = ensemble_entry(read_ensemble(row), deciles)
    which = {"split": row.split, "strategy": row.strategy, "n": row.n_learners}
    made = f"strategy {_how(row)}, split {row.split}"
    return {"title": ensemble_title(row), "made": made, **which, **entry}


def ensemble_entry(ensemble: Ensemble, deciles: Mapping[int, Sequence[float]]) -> dict[str, Any]:
    """Return what a page shows of an ensemble: its learners and shapes, as plain values.

    Two classes have one score, so one curve per shape; more have one each.
    """
    constant, functions = shapes(ensemble)
    is_single = not ensemble.is_multiclass
    intercept = _short(ensemble.intercept) if is_single else _each(ensemble.intercept)
    return {
        "classes": _labels(ensemble.classes),
        "intercept": intercept,
        "constant": _each(constant),
        "learners": _learners(ensemble),
        "shapes": [_shape(shape, deciles) for shape in functions],
    }


def _shape(shape: Shape, deciles: Mapping[int, Sequence[float]]) -> dict[str, Any]:
    """Return cuts or categories, and between or at them the height of each curve."""
    categories, levels, has_gaps = None, shape.levels, shape.feature.has_missing
    if shape.is_categorical:
        _, categories, levels = shape.bars()
    return {
        "feature": shape.feature.name,
        "x": _each(shape.cuts, 6),
        "categories": categories,
        "curves": [_each(column) for column in levels.T],
        "missing": _each(shape.other) if has_gaps and not shape.is_categorical else None,
        "deciles": [] if shape.is_categorical else _each(deciles.get(shape.number, ()), 6),
    }


def ensemble_title(row: Row) -> str:
    """Return a line that tells one ensemble of a split from the others.

    The error's standard error is that of a share of validation rows.
    """
    error = row.valid_error
    doubt = math.sqrt(error * (1 - error) / row.n_valid)
    size = _learners_of(row.n_learners)
    return f"{size}, error {100 * error:.1f}\xa0±\xa0{100 * doubt:.1f}\xa0% ({row.strategy})"


def _how(row: Row) -> str:
    """Return the strategy and its price or round."""
    how = row.strategy
    if row.strategy in ("C", "D", "D0", "E"):
        how += f", λ\xa0=\xa0{row.penalty:.2g}"
    elif row.strategy == "A":
        how += f", ν\xa0=\xa0{row.penalty:.2g}"
    elif row.round is not None:
        how += f", round {row.round}"
    return how


def _learners(ensemble: Ensemble) -> list[list[Any]]:
    """Return [feature, direction, threshold, weight or weights] of each, heaviest first."""
    entries: list[list[Any]] = []
    for learner, weight in zip(ensemble.learners, ensemble.weights, strict=True):
        own = _each(weight) if ensemble.is_multiclass else _short(weight)
        what, when = learner.describe(ensemble.features)
        if isinstance(learner, Stump) and not when.endswith("missing"):
            sign = ">" if learner.polarity > 0 else "≤"
            entries.append([what, sign, _short(learner.threshold, 6), own])
        else:
            entries.append([what, when, None, own])
    return entries


def _labels(classes: tuple[Any, ...]) -> list[str]:
    """Return the names of the classes; those of the paper's data sets are signs."""
    return ["−1", "+1"] if classes == (-1, 1) else [str(label) for label in classes]


def _each(values: Iterable[float], digits: int = 5) -> list[float]:
    return [_short(value, digits) for value in values]


def _short(value: float, digits: int = 5) -> float:
    return float(f"{value:.{digits}g}")


def _percent(share: float) -> float:
    return round(100 * share, 4)
