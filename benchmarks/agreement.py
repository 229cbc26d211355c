"""Do our validation errors agree with the paper's points?

The paper has one random split per data set, so all its points of a data set share that split's
luck. If we do what the paper did, its split is one more draw beside ours: the distance of its
mean error from ours, in standard deviations of a new split, has Student's t distribution with
n - 1 degrees of freedom. Twelve such distances make one test: it fails if they are too large
together, or if all lean to one side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from scipy import stats

from totalqboost.experiments.frontiers import GROUPS, Curves, group_points, paper_points
from totalqboost.experiments.rows import Row

__all__ = ["Agreement", "Together", "agreement", "together"]

What = Literal["convex", "cp", "difference"]


@dataclass(frozen=True, slots=True)
class Agreement:
    """One data set's mean error over coinciding cardinalities, ours and the paper's.

    Attributes
    ----------
    ours, paper : float
        Mean validation errors over splits and, of each split, over the cardinalities that it
        shares with the paper; shares.
    spread : float or None
        Standard deviation of their difference between splits, None for a single split.
    n_sizes : float
        Coinciding cardinalities, a mean over splits.
    n_splits : int
        Splits that have any.
    """

    dataset: str
    ours: float
    paper: float
    spread: float | None
    n_sizes: float
    n_splits: int

    @property
    def distance(self) -> float | None:
        """(paper - ours) over the standard deviation of a new split; None if there is none."""
        if not self.spread:
            return None
        return (self.paper - self.ours) / (self.spread * (1 + 1 / self.n_splits) ** 0.5)

    @property
    def p_value(self) -> float | None:
        """How often a split like ours would be as far from our mean."""
        distance = self.distance
        return None if distance is None else 2 * float(stats.t.sf(abs(distance), self.n_splits - 1))


def agreement(rows: Iterable[Row], what: What = "convex") -> dict[str, Agreement]:
    """Compare our errors with the paper's points, per data set.

    Of several ensembles of one cardinality the one of least validation error counts, as in
    the paper's figure.

    Parameters
    ----------
    rows : iterable of Row
        Of several splits.
    what : {"convex", "cp", "difference"}
        Errors of A and B, of C, D and E, or the latter minus the former at equal size, where
        the luck of a split cancels and less disagreement would show.
    """
    splits: defaultdict[str, list[dict[int, float]]] = defaultdict(list)
    for (dataset, _), curves in group_points(rows, GROUPS, "valid_error").items():
        splits[dataset].append(_values(curves, what))
    published = paper_points()
    found = {}
    for dataset, errors in splits.items():
        paper = _values(published[dataset], what)
        shared = [sorted(split.keys() & paper.keys()) for split in errors]
        pairs = [
            (np.mean([split[size] for size in sizes]), np.mean([paper[size] for size in sizes]))
            for split, sizes in zip(errors, shared, strict=True)
            if sizes
        ]
        if not pairs:
            continue
        ours, theirs = np.array(pairs, dtype=float).T
        found[dataset] = Agreement(
            dataset,
            ours=float(ours.mean()),
            paper=float(theirs.mean()),
            spread=float(np.std(ours - theirs, ddof=1)) if len(pairs) > 1 else None,
            n_sizes=float(np.mean([len(sizes) for sizes in shared if sizes])),
            n_splits=len(pairs),
        )
    return found


def _values(curves: Curves, what: What) -> dict[int, float]:
    """Return by cardinality what is compared."""
    errors = {name: {p.n_learners: p.error for p in curves[name]} for name in GROUPS}
    if what != "difference":
        return errors[what]
    cp, convex = errors["cp"], errors["convex"]
    return {size: cp[size] - convex[size] for size in cp.keys() & convex.keys()}


@dataclass(frozen=True, slots=True)
class Together:
    """All data sets in two tests.

    Attributes
    ----------
    n : int
        Number of data sets.
    p_size : float
        That distances are as large as luck makes them (sum of squares, chi-squared).
    lean : float
        Mean distance: below 0 the paper's errors are lower than ours.
    p_lean : float
        That it is 0 (Stouffer).
    detectable : float
        The common lean, in standard deviations of a split, that the second test finds with
        probability 0.8.
    detectable_one : float
        How far one data set alone must lie for the first test to find it with that probability.
    """

    n: int
    p_size: float
    lean: float
    p_lean: float
    detectable: float
    detectable_one: float


def together(found: Iterable[Agreement]) -> Together | None:
    """Test the agreement on all data sets at once; None if there is no distance."""
    found = [one for one in found if one.distance is not None]
    scores = [_score(one) for one in found]
    if not scores:
        return None
    n, lean = len(scores), float(np.mean(scores))
    return Together(
        n,
        float(stats.chi2.sf(np.square(scores).sum(), n)),
        lean,
        2 * float(stats.norm.sf(abs(lean) * n**0.5)),
        float(stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) / n**0.5,
        _detectable_one(n, min(one.n_splits for one in found)),
    )


@lru_cache
def _detectable_one(n: int, n_splits: int, power: float = 0.8) -> float:
    """Return the shift of one of n distances that chi-squared finds, by simulation."""
    rng, freedom, n_draws = np.random.default_rng(0), n_splits - 1, 20_000
    normal, spread = rng.normal(size=n_draws), rng.chisquare(freedom, n_draws)
    others = rng.chisquare(n - 1, n_draws) if n > 1 else np.zeros(n_draws)
    for shift in np.arange(0.0, 50.0, 0.1):
        score = _as_normal(np.abs(normal + shift) / np.sqrt(spread / freedom), freedom)
        if np.mean(score**2 + others > stats.chi2.isf(0.05, n)) >= power:
            return float(shift)
    return float("inf")


def _score(one: Agreement) -> float:
    """Return the distance as a standard normal number of the same tail probability."""
    assert one.distance is not None
    return float(np.sign(one.distance) * _as_normal(np.abs(one.distance), one.n_splits - 1))


def _as_normal(t: Any, freedom: int) -> Any:
    """Return the standard normal number that is exceeded as often as t."""
    return stats.norm.isf(stats.t.sf(t, freedom))
