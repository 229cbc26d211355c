"""Ensembles to look into: which ones the page offers, and their shape functions.

A sum of stumps is a sum of step functions, one per feature (a generalised additive model):
f(x) = constant + sum_j s_j(x_j). The s_j say all that there is to say about the ensemble.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from totalqboost import datasets
from totalqboost.ensemble import Ensemble, Shape, shape_of
from totalqboost.experiments.frontiers import GROUPS, Point, group_points, pareto_frontier
from totalqboost.experiments.rows import Row
from totalqboost.learners import Constant

__all__ = ["choose", "deciles_of", "offered", "read_ensemble", "shapes"]


def shapes(ensemble: Ensemble) -> tuple[np.ndarray, tuple[Shape, ...]]:
    """Return the constant and the shape functions, the one that moves the score most first.

    The constant has a value for each score: one for two classes, else one for each class.
    """
    first = 0 if ensemble.is_multiclass else 1  # of two classes the score of the second
    constant = ensemble.class_intercepts[first:].copy()
    for learner, weights in zip(ensemble.learners, ensemble.class_weights, strict=True):
        if isinstance(learner, Constant):
            constant += learner.polarity * weights[first:]
    found = (shape_of(ensemble, j) for j in ensemble.used_features)
    return constant, tuple(sorted(found, key=lambda shape: (-shape.span, shape.number)))


# -- which ones -----------------------------------------------------------------------------


def offered(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return the rows of one data set whose ensembles can be looked into, by split and size.

    Those on the Pareto frontiers of the groups on each split, as far as they were kept.
    """
    kept = [row for row in rows if row.ensemble is not None and row.n_learners > 0]
    # A baseline has a frontier of its own.
    others = {row.strategy for row in kept} - {name for group in GROUPS.values() for name in group}
    groups = {**GROUPS, **{name: (name,) for name in others}}
    points = [
        point
        for curves in group_points(kept, groups).values()
        for curve in curves.values()
        for point in pareto_frontier(curve)
    ]
    found = [point.row for point in points if point.row is not None]
    return tuple(sorted(found, key=lambda row: (row.split, row.n_learners, row.strategy)))


def choose(rows: Sequence[Row]) -> int | None:
    """Return the index of the ensemble to show first, None if there is none.

    Of the first split: the smallest cardinality-penalized ensemble (else of any kind) whose
    validation error is within one standard error of the least one.
    """
    if not rows:
        return None
    first = [row for row in rows if row.split == rows[0].split]
    candidates = [row for row in first if row.strategy in GROUPS["cp"]] or first
    frontier = pareto_frontier(Point(row.n_learners, row.valid_error, row) for row in candidates)
    best = frontier[-1]
    assert best.row is not None
    limit = best.error + math.sqrt(best.error * (1 - best.error) / best.row.n_valid)
    chosen = next(point.row for point in frontier if point.error <= limit)
    return next(index for index, row in enumerate(rows) if row is chosen)


# -- what they look at ----------------------------------------------------------------------


def deciles_of(dataset: str) -> Mapping[int, Sequence[float]]:
    """Return the deciles of each feature; none unless the package ships the data set."""
    if dataset not in datasets.names():
        return defaultdict(tuple)
    X, _ = datasets.load(dataset)
    return dict(enumerate(np.quantile(X, np.linspace(0, 1, 11), axis=0).T.tolist()))


def read_ensemble(row: Row) -> Ensemble:
    """Return the ensemble of a row."""
    assert row.ensemble is not None
    return Ensemble.from_dict(dict(row.ensemble))
