"""Static figures: error against size on every data set, ours beside the paper's."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from totalqboost.experiments.frontiers import (
    GROUPS,
    Curves,
    Point,
    dataset_names,
    group_points,
    paper_points,
    pareto_frontier,
)
from totalqboost.experiments.rows import Row
from totalqboost.experiments.statistics import mean_curves

__all__ = ["FIGURE", "drawn_curves", "min_splits", "save_figure"]

FIGURE = "error_against_size.png"
N_COLUMNS = 3
MOST = 6.0  # times our least error: what is above is of ensembles that are far too small
COLOURS = {"convex": "#1f5fa8", "cp": "#c2410c"}
PALE = {"convex": "#7d97b5", "cp": "#d19a7c"}
MARKERS = {"convex": "o", "cp": "D"}
LABELS = {"convex": "convex (A, B)", "cp": "cardinality-penalized (C, D, E)"}


def save_figure(rows: Sequence[Row], path: str | os.PathLike[str], dpi: int = 150) -> None:
    """Draw a panel per data set, as in the paper's figure, and save the picture.

    As there, the axes leave out errors far above the others.
    """
    from matplotlib.figure import Figure

    curves, n_splits = drawn_curves(rows), len({row.split for row in rows})
    names = dataset_names(curves)
    n_lines = -(-len(names) // N_COLUMNS)
    figure = Figure(figsize=(11, 2.5 * n_lines + 0.9), layout="constrained")
    grid = figure.subplots(n_lines, N_COLUMNS, squeeze=False)
    paper = paper_points()
    for axes, name in zip(grid.flat, names, strict=False):
        _draw_panel(axes, curves[name], paper.get(name, {}))
        axes.set_title(name, loc="left", fontsize=10, fontweight="bold")
    for axes in list(grid.flat)[len(names) :]:
        axes.set_axis_off()
    figure.supxlabel("weak classifiers", fontsize=10)
    figure.supylabel("validation error (%)", fontsize=10)
    handles = {
        label: handle
        for axes in grid.flat
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    how = f", mean of {n_splits} splits ± standard error" if n_splits > 1 else ""
    labels = [f"{label}{how}" if "paper" not in label else label for label in handles]
    figure.legend(
        list(handles.values()),
        labels,
        loc="outside upper center",
        ncols=2,
        frameon=False,
        fontsize=9,
    )
    figure.savefig(path, dpi=dpi)


def drawn_curves(
    rows: Sequence[Row], groups: Mapping[str, tuple[str, ...]] = GROUPS
) -> dict[str, Curves]:
    """Return the points to draw: data set → group → points by growing cardinality.

    One split is drawn as in the paper: at each cardinality the least validation error of a
    group. Of several splits it is means with standard errors; of each split the ensemble of
    least training risk counts, because means of errors that were chosen for being small
    would be too small.
    """
    n_splits = len({row.split for row in rows})
    if n_splits > 1:
        return mean_curves(group_points(rows, groups, "risk"), min_splits(n_splits))
    return {name: curves for (name, _), curves in group_points(rows, groups).items()}


def min_splits(n_splits: int) -> int:
    """Return how many splits must have a cardinality for a mean to be drawn.

    Half of them, but two: a single one has no standard error.
    """
    return max(2, (n_splits + 1) // 2)


def _draw_panel(axes: Any, ours: Curves, paper: Curves) -> None:
    for group, points in paper.items():
        marks = {"marker": MARKERS[group], "ms": 2.8, "mew": 0.7, "mfc": "none"}
        _draw_curve(axes, points, f"the paper, {LABELS[group]}", PALE[group], ":", 0.8, **marks)
    for group, points in ours.items():
        marks = {"marker": MARKERS[group], "ms": 3.2, "mew": 0}
        _draw_curve(axes, points, LABELS[group], COLOURS[group], "-", 1.3, **marks)
    axes.grid(alpha=0.25, lw=0.6)
    axes.tick_params(labelsize=8)
    axes.set_xlim(left=0)
    least = min((100 * p.error for points in ours.values() for p in points), default=0.0)
    if 0.0 < MOST * least < axes.get_ylim()[1]:
        axes.set_ylim(top=MOST * least)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_curve(
    axes: Any,
    points: Sequence[Point],
    label: str,
    colour: str,
    style: str,
    width: float,
    **marks: Any,
) -> None:
    """Draw the points, with standard errors if they have any, and their Pareto frontier."""
    if not points:
        return
    sizes = [point.n_learners for point in points]
    errors = [100 * point.error for point in points]
    bars = [100 * (point.standard_error or 0.0) for point in points]
    if any(bars):  # as a shade: whiskers would cross the points of the others
        low = [error - bar for error, bar in zip(errors, bars, strict=True)]
        high = [2 * bar for bar in bars]
        axes.bar(sizes, high, 1.0, low, color=colour, alpha=0.15, lw=0, zorder=0)
    axes.plot(sizes, errors, ls="none", color=colour, label=label, **marks)
    frontier = pareto_frontier(points)
    axes.step(
        [point.n_learners for point in frontier],
        [100 * point.error for point in frontier],
        where="post",
        ls=style,
        lw=width,
        color=colour,
    )
