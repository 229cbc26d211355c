"""Do our validation errors agree with the paper's points?

The paper has one random split per data set, so all its points of a data set share that
split's luck. Ours have several: their spread tells how far a single split may be from the
mean of all splits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from totalqboost.experiments.frontiers import GROUPS, group_points, paper_points
from totalqboost.experiments.rows import Row

__all__ = ["Agreement", "agreement"]


@dataclass(frozen=True, slots=True)
class Agreement:
    """One data set's mean error over coinciding cardinalities, ours and the paper's.

    Attributes
    ----------
    ours, paper : float
        Mean validation errors over the cardinalities, shares; ours is also over splits.
    spread : float or None
        Standard deviation of ours between splits, None for a single split.
    n_sizes, n_splits : int
        Coinciding cardinalities, and splits.
    """

    dataset: str
    ours: float
    paper: float
    spread: float | None
    n_sizes: int
    n_splits: int

    @property
    def deviations(self) -> float | None:
        """How many spreads the paper's split is from our mean; above 2 it is unusual."""
        return (self.paper - self.ours) / self.spread if self.spread else None


def agreement(rows: Iterable[Row], group: str = "convex") -> dict[str, Agreement]:
    """Compare a group of strategies with the paper's points of that group, per data set.

    Of several ensembles of one cardinality the one of least validation error counts, as in
    the paper's figure; only cardinalities that every split and the paper have count.
    """
    splits: defaultdict[str, list[dict[int, float]]] = defaultdict(list)
    for (dataset, _), curves in group_points(rows, GROUPS, "valid_error").items():
        splits[dataset].append({point.n_learners: point.error for point in curves[group]})
    published = paper_points()
    found = {}
    for dataset, errors in splits.items():
        paper = {point.n_learners: point.error for point in published[dataset][group]}
        sizes = sorted(set(paper).intersection(*errors))
        if not sizes:
            continue
        means = [float(np.mean([split[size] for size in sizes])) for split in errors]
        found[dataset] = Agreement(
            dataset,
            ours=float(np.mean(means)),
            paper=float(np.mean([paper[size] for size in sizes])),
            spread=float(np.std(means, ddof=1)) if len(means) > 1 else None,
            n_sizes=len(sizes),
            n_splits=len(errors),
        )
    return found
