"""Points and Pareto frontiers of error against cardinality, as in the paper's figure.

Experiments form groups: convex column generation (A, B) and cardinality penalization, CP
(C, D, E). Where a group has several ensembles of one cardinality, one represents it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from totalqboost import datasets
from totalqboost.experiments.rows import Row

__all__ = [
    "GROUPS",
    "Curves",
    "Point",
    "dataset_names",
    "group_points",
    "paper_points",
    "pareto_frontier",
    "representatives",
]

GROUPS: Mapping[str, tuple[str, ...]] = {"convex": ("A", "B"), "cp": ("C", "D", "E")}
TIE = 1e-9  # errors this close are equal: they are counts of rows, divided
ChooseBy = Literal["valid_error", "train_error", "risk"]


@dataclass(frozen=True, slots=True)
class Point:
    """One point of the figure, of one split or the mean of several.

    Attributes
    ----------
    n_learners : int
        The cardinality.
    error : float
        A share; of a mean, over the splits that have the cardinality.
    row : Row, optional
        What a split's point was read from, if that is known.
    standard_error : float, optional
        Of a mean over more than one split, corrected for training sets that overlap; see
        :mod:`totalqboost.experiments.statistics`.
    n_splits : int
        How many splits are behind it.
    """

    n_learners: int
    error: float
    row: Row | None = field(default=None, compare=False, repr=False)
    standard_error: float | None = None
    n_splits: int = 1


Curves = dict[str, tuple[Point, ...]]  # the points of each group, by cardinality


def group_points(
    rows: Iterable[Row],
    groups: Mapping[str, tuple[str, ...]] = GROUPS,
    choose_by: ChooseBy = "valid_error",
) -> dict[tuple[str, int], Curves]:
    """Return the points of each group of strategies, per data set and split.

    Parameters
    ----------
    rows : iterable of Row
        In any order: it does not matter.
    groups : mapping
        Name of a group → its strategies. Rows of other strategies are left out.
    choose_by : {"valid_error", "train_error", "risk"}
        How representatives are chosen, see :func:`representatives`.

    Returns
    -------
    dict
        (data set, split) → name of the group → its points; a group without rows has none.
    """
    found: dict[tuple[str, int], dict[str, list[Row]]] = {}
    for row in rows:
        for name, strategies in groups.items():
            if row.strategy in strategies:
                members = found.setdefault((row.dataset, row.split), {key: [] for key in groups})
                members[name].append(row)
    return {
        key: {name: representatives(found[key][name], choose_by) for name in groups}
        for key in sorted(found)
    }


def representatives(rows: Iterable[Row], choose_by: ChooseBy = "valid_error") -> tuple[Point, ...]:
    """Return one point per cardinality, by growing cardinality.

    The paper selects "according to the principle of Pareto efficiency": of ensembles of one
    cardinality, the one with the least validation error. That flatters a group with more
    ensembles to choose from; ``choose_by="risk"`` looks at training data only, and is the
    choice for comparisons over splits. Ties go to the lower risk. Empty ensembles are left
    out, as in the figure.
    """
    same_size: defaultdict[int, list[Row]] = defaultdict(list)
    for row in rows:
        if row.n_learners > 0:
            same_size[row.n_learners].append(row)
    best = (min(same_size[size], key=_preference(choose_by)) for size in sorted(same_size))
    return tuple(Point(row.n_learners, row.valid_error, row) for row in best)


def _preference(choose_by: ChooseBy) -> Any:
    """Return a sort key that leaves no tie to the order of the rows."""
    if choose_by not in ("valid_error", "train_error", "risk"):
        raise ValueError(
            f"choose_by must be 'valid_error', 'train_error' or 'risk', got {choose_by!r}"
        )

    def key(row: Row) -> tuple[Any, ...]:
        last = (row.strategy, row.penalty or 0.0, row.round or 0)
        return (getattr(row, choose_by), row.risk, *last)

    return key


def pareto_frontier(points: Iterable[Point]) -> tuple[Point, ...]:
    """Return the points that no other one matches or beats in both cardinality and error.

    >>> points = [Point(1, 0.4), Point(2, 0.2), Point(3, 0.3), Point(4, 0.1), Point(5, 0.1)]
    >>> [point.n_learners for point in pareto_frontier(points)]
    [1, 2, 4]
    """
    frontier: list[Point] = []
    for point in sorted(points, key=lambda point: (point.n_learners, point.error)):
        if not frontier or point.error < frontier[-1].error - TIE:
            frontier.append(point)
    return tuple(frontier)


def dataset_names(names: Iterable[str]) -> list[str]:
    """Return names of data sets in order: the paper's in its own, then others by name."""
    known = datasets.names()
    return sorted(set(names), key=lambda name: (known.index(name) if name in known else 99, name))


def paper_points() -> dict[str, Curves]:
    """Return the points of the paper's figure: data set → group → points, errors as shares."""
    return {
        dataset: {
            name: tuple(Point(int(size), error / 100) for size, error in sorted(content[name]))
            for name in GROUPS
        }
        for dataset, content in datasets.paper_figure().items()
    }
