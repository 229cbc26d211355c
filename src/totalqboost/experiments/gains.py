"""What cardinality penalization gains over convex column generation: the paper's table.

*Sparsity gain* of a CP point: how many learners it saves against the sparsest convex point of
comparable error. *Generalization gain*: how far the best CP error lies below every convex one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from totalqboost.datasets import paper_table
from totalqboost.experiments.frontiers import TIE, Curves, Point, dataset_names, group_points
from totalqboost.experiments.rows import Row

__all__ = [
    "Gain",
    "GainSpread",
    "SplitGains",
    "Spread",
    "gain_spreads",
    "gain_table",
    "gains_by_split",
    "generalization_gain",
    "reference_cardinality",
    "sparsity_gains",
]


@dataclass(frozen=True, slots=True)
class Gain:
    """One entry of the table; errors and gains are shares.

    Entries of a data set are numbered by growing error, 1 being the least; "*" stands for a
    generalization gain. ``reference`` is the cardinality that a sparsity gain relates to.
    """

    dataset: str
    id: str
    n_learners: int
    error: float
    sparsity: float | None = None
    generalization: float | None = None
    reference: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the entry with the names, percents and decimals of ``paper_table()["rows"]``."""
        return {
            "dataset": self.dataset,
            "id": self.id,
            "error_pct": _percent(self.error),
            "cardinality": self.n_learners,
            "sparsity_gain_pct": _percent(self.sparsity),
            "generalization_gain_pct": _percent(self.generalization),
            "reference_cardinality": self.reference,
        }


def reference_cardinality(error: float, convex: Iterable[Point]) -> int | None:
    """Return how many learners convex methods need for this error, None if none reaches it.

    The paper does not state its rule; this one yields 28 of its 29 values. Take c, the sparsest
    convex point whose error is not above: c if the errors are equal, else c − 1, the last size
    before the convex curve goes below the error.
    """
    reaching = [point for point in convex if point.error <= error + TIE]
    if not reaching:
        return None
    sparsest = min(reaching, key=lambda point: (point.n_learners, point.error))
    equal = sparsest.error >= error - TIE
    return sparsest.n_learners if equal else sparsest.n_learners - 1


def sparsity_gains(
    cp: Iterable[Point], convex: Sequence[Point], dataset: str = ""
) -> tuple[Gain, ...]:
    """Return the CP points that save learners, by growing error, the sparsest at each error.

    As in the paper's table they need not be Pareto-efficient among CP points: a larger error
    relates to another convex point. Without a reference there is no gain: no convex point
    reaches the error, or one learner does better.
    """
    gains: list[Gain] = []
    for point in sorted(cp, key=lambda point: (point.error, point.n_learners)):
        reference = reference_cardinality(point.error, convex) or 0
        if point.n_learners < reference and not (gains and point.error <= gains[-1].error + TIE):
            name, size = str(len(gains) + 1), point.n_learners
            gain = 1.0 - size / reference
            gains.append(Gain(dataset, name, size, point.error, gain, reference=reference))
    return tuple(gains)


def generalization_gain(
    cp: Sequence[Point], convex: Sequence[Point], dataset: str = ""
) -> Gain | None:
    """Return the sparsest CP point of least error if no convex point reaches that error.

    The gain is the decrease relative to the least convex error at any cardinality.
    """
    if not cp or not convex:
        return None
    least = min(point.error for point in cp)
    convex_least = min(point.error for point in convex)
    if least >= convex_least - TIE:
        return None
    n_learners = min(point.n_learners for point in cp if point.error <= least + TIE)
    return Gain(dataset, "*", n_learners, least, generalization=1.0 - least / convex_least)


def gain_table(curves: Mapping[str, Curves], n_best: int = 5) -> tuple[Gain, ...]:
    """Return the paper's table: per data set the generalization gain and the top sparsity gains.

    Parameters
    ----------
    curves : mapping
        Data set → {"convex": points, "cp": points}: of one split, or means over splits.
    n_best : int
        How many sparsity gains to list per data set, those of least error.

    Examples
    --------
    >>> from totalqboost.experiments.frontiers import paper_points
    >>> for gain in gain_table({"diabetes": paper_points()["diabetes"]}):
    ...     print(f"{gain.id}: {gain.n_learners} learners, {gain.sparsity:.2%} sparser")
    1: 14 learners, 41.67% sparser
    2: 5 learners, 16.67% sparser
    """
    table: list[Gain] = []
    for dataset, groups in curves.items():
        cp, convex = groups["cp"], groups["convex"]
        star = generalization_gain(cp, convex, dataset)
        table += [] if star is None else [star]
        table += sparsity_gains(cp, convex, dataset)[:n_best]
    return tuple(table)


@dataclass(frozen=True, slots=True)
class SplitGains:
    """Gains on one data set, one number per split, 0 where a split has none; shares.

    Attributes
    ----------
    sparsity : tuple of float
        Mean of the sparsity gains that the paper's table would list of the split.
    generalization : tuple of float
        Its generalization gain.
    """

    dataset: str
    sparsity: tuple[float, ...]
    generalization: tuple[float, ...]


def gains_by_split(
    curves: Mapping[tuple[str, int], Curves], n_best: int = 5, is_reversed: bool = False
) -> dict[str, SplitGains]:
    """Return what the paper's table would say of every split, each taken as the paper's one.

    The rule looks for CP points that beat convex ones, on the validation rows, and so finds
    some by luck alone. ``is_reversed`` looks for convex points that beat CP ones instead: what
    it finds by the same rule is what luck (and the number of points to choose from) is worth.

    Parameters
    ----------
    curves : mapping
        What ``group_points`` returns, chosen by validation error as in the paper.
    n_best : int
        How many sparsity gains count per split, those of least error.
    is_reversed : bool
        Exchange the two groups.
    """
    found: dict[str, list[tuple[float, float]]] = {}
    for (dataset, _), groups in curves.items():
        cp, convex = groups["cp"], groups["convex"]
        if not cp or not convex:
            continue
        if is_reversed:
            cp, convex = convex, cp
        entries = gain_table({dataset: {"cp": cp, "convex": convex}}, n_best)
        sparsity = [gain.sparsity for gain in entries if gain.sparsity is not None]
        general = [gain.generalization for gain in entries if gain.generalization is not None]
        mean = sum(sparsity) / len(sparsity) if sparsity else 0.0
        found.setdefault(dataset, []).append((mean, sum(general)))
    return {
        dataset: SplitGains(dataset, *(tuple(v) for v in zip(*values, strict=True)))
        for dataset, values in found.items()
    }


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean, standard deviation between splits (None for one), how many are above zero; the ends."""

    mean: float
    spread: float | None
    splits: int
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class GainSpread:
    """Gains on one data set over splits beside the paper's, and those of the reversed rule."""

    dataset: str
    n_splits: int
    paper_sparsity: float
    paper_generalization: float
    sparsity: Spread
    generalization: Spread
    reversed_sparsity: Spread
    reversed_generalization: Spread


def gain_spreads(rows: Iterable[Row]) -> list[GainSpread]:
    """Return the gains of each split by the paper's own rule, beside the paper's."""
    curves = group_points(rows)
    ours, other_way = gains_by_split(curves), gains_by_split(curves, is_reversed=True)
    papers: dict[str, list[float]] = {}
    for entry in paper_table()["rows"]:
        if entry["sparsity_gain_pct"] is not None:
            papers.setdefault(entry["dataset"], []).append(entry["sparsity_gain_pct"] / 100)
    stars = paper_table()["generalization_gain_pct_from_caption"]
    return [
        GainSpread(
            name,
            len(ours[name].sparsity),
            float(np.mean(papers.get(name, [0.0]))),
            stars.get(name, 0.0) / 100,
            _spread(ours[name].sparsity),
            _spread(ours[name].generalization),
            _spread(other_way[name].sparsity),
            _spread(other_way[name].generalization),
        )
        for name in dataset_names(ours)
    ]


def _spread(values: Sequence[float]) -> Spread:
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
    n_positive = sum(v > 0 for v in values)
    return Spread(float(np.mean(values)), spread, n_positive, min(values), max(values))


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 2)
