"""How sure the results are: optimization success, and comparisons over several splits.

Validation errors of random splits of one data set are not independent, because their training
sets overlap; a plain paired t-test over splits is far too sure of itself. Here the variance
is corrected after Nadeau and Bengio (Inference for the Generalization Error, Machine Learning
52, 2003): 1/n becomes 1/n + n_valid/n_train. Wilcoxon's test has no such correction.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from totalqboost.experiments.frontiers import GROUPS, TIE, Curves, Point, group_points
from totalqboost.experiments.rows import Row

__all__ = [
    "LEVEL",
    "PAPER_SHARES",
    "Comparison",
    "Difference",
    "SizeDifference",
    "WorseShare",
    "compare",
    "corrected_error",
    "detectable",
    "excess_risk",
    "mean_curves",
    "optimization_success",
    "paired_difference",
    "worse_share",
]

Points = tuple[Point, ...]

LEVEL = 0.05  # what a corrected p-value must not exceed to count as real

# -- optimization success -------------------------------------------------------------------

Measure = Literal["risk", "train_error", "valid_error"]

# (strategy, the one it is compared with, measure) → how often it is worse, section 5.1
PAPER_SHARES: Mapping[tuple[str, str, Measure], float] = {
    ("E", "B", "risk"): 0.0161,
    ("E", "B", "train_error"): 0.0205,
    ("D", "E", "risk"): 0.2381,
    ("D", "E", "train_error"): 0.1301,
}


@dataclass(frozen=True, slots=True)
class WorseShare:
    """How often one strategy is worse than another at coinciding cardinalities.

    Beside it how often it is better, and the mean difference: of the strategy minus the other one.
    """

    n_worse: int
    n_coinciding: int
    n_better: int
    difference: float

    @property
    def share(self) -> float | None:
        """The share of coinciding cardinalities, None if there are none."""
        return self.n_worse / self.n_coinciding if self.n_coinciding else None


def worse_share(
    rows: Iterable[Row], strategy: str, other: str, measure: Measure, tolerance: float = 1e-6
) -> WorseShare:
    """Count the cardinalities at which a strategy is worse than another one.

    Cardinalities coincide within a data set and split; at each, the least value that either
    strategy attains counts. Empty ensembles do not.

    Parameters
    ----------
    rows : iterable of Row
        Data sets and splits are counted together, as in the paper.
    strategy, other : str
        As in "how often is E worse than B".
    measure : {"risk", "train_error", "valid_error"}
        What to compare.
    tolerance : float
        Worse means above ``other * (1 + tolerance)``, better the same the other way round. The
        default is far below one row of any data set of the paper, and above the accuracy of a
        refit.
    """
    least: defaultdict[str, dict[tuple[str, int, int], float]] = defaultdict(dict)
    for row in rows:
        if row.n_learners > 0:
            key, value = (row.dataset, row.split, row.n_learners), getattr(row, measure)
            values = least[row.strategy]
            values[key] = min(value, values.get(key, value))
    ours, theirs = least[strategy], least[other]
    pairs = [(ours[key], theirs[key]) for key in sorted(ours.keys() & theirs.keys())]
    n_worse = sum(a > b * (1 + tolerance) for a, b in pairs)
    n_better = sum(b > a * (1 + tolerance) for a, b in pairs)
    mean = sum(a - b for a, b in pairs) / max(1, len(pairs))
    return WorseShare(n_worse, len(pairs), n_better, mean)


def optimization_success(
    rows: Iterable[Row], n_hot: int | None = None
) -> dict[tuple[str, str, Measure], WorseShare]:
    """Return the four comparisons of ``PAPER_SHARES``, E with B and D with E, on these rows.

    ``n_hot`` is T'. Ensembles of B's later rounds hold columns that E was never offered, and
    are left out.
    """
    is_later = (lambda row: False) if n_hot is None else (lambda row: (row.round or 0) > n_hot)
    rows = [row for row in rows if not (row.strategy == "B" and is_later(row))]
    return {key: worse_share(rows, *key) for key in PAPER_SHARES}


def excess_risk(rows: Iterable[Row], strategy: str, other: str) -> dict[str, tuple[float, ...]]:
    """Return by how much a strategy's risk exceeds another's at equal cardinality.

    Data set → one number per split: the mean of (risk / other's risk - 1) over cardinalities
    that both have; of several ensembles of one cardinality, the one of least risk counts.
    """
    found: defaultdict[str, list[float]] = defaultdict(list)
    groups = {"ours": (strategy,), "theirs": (other,)}
    for (dataset, _), curves in group_points(rows, groups, choose_by="risk").items():
        theirs = {p.n_learners: p.row.risk for p in curves["theirs"] if p.row is not None}
        ratios = [
            p.row.risk / max(theirs[p.n_learners], TIE) - 1.0
            for p in curves["ours"]
            if p.row is not None and p.n_learners in theirs
        ]
        if ratios:
            found[dataset].append(float(np.mean(ratios)))
    return {dataset: tuple(values) for dataset, values in found.items()}


# -- means over splits ----------------------------------------------------------------------


def mean_curves(curves: Mapping[tuple[str, int], Curves], min_splits: int = 1) -> dict[str, Curves]:
    """Return mean errors: data set → group → points by growing cardinality.

    Parameters
    ----------
    curves : mapping
        What ``group_points`` returns.
    min_splits : int
        Leave out cardinalities that fewer splits have. Means over different splits differ by
        how hard the splits are: before gains are read from means, ask for most of the splits.
    """
    found: dict[str, dict[str, defaultdict[int, list[Point]]]] = {}
    for (dataset, _), groups in curves.items():
        for name, points in groups.items():
            sizes = found.setdefault(dataset, {}).setdefault(name, defaultdict(list))
            for point in points:
                sizes[point.n_learners].append(point)
    return {
        dataset: {
            name: tuple(
                _mean_point(size, sizes[size])
                for size in sorted(sizes)
                if len(sizes[size]) >= min_splits
            )
            for name, sizes in groups.items()
        }
        for dataset, groups in found.items()
    }


def _mean_point(n_learners: int, points: Sequence[Point]) -> Point:
    errors, n = [point.error for point in points], len(points)
    ratios = [point.row.n_valid / point.row.n_train for point in points if point.row is not None]
    error = corrected_error(errors, float(np.mean(ratios)) if ratios else 0.0)
    return Point(n_learners, float(np.mean(errors)), None, error, n)


def corrected_error(values: Sequence[float], valid_ratio: float) -> float | None:
    """Return the standard error of a mean over splits, None for a single one.

    Corrected for training sets that overlap, see above; ``valid_ratio`` is n_valid/n_train, or 0
    where splits are independent.
    """
    n = len(values)
    if n < 2:
        return None
    return float(np.std(values, ddof=1)) * math.sqrt(1.0 / n + valid_ratio)


# -- paired tests ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean difference of errors over splits; negative if the first group is better.

    ``standard_error`` (None for a single split) is corrected for overlapping training sets.
    """

    mean: float
    standard_error: float | None
    p_value: float
    n_splits: int

    def is_sure(self, n_tests: int) -> bool:
        """Tell whether it is real at LEVEL after Bonferroni's correction for so many tests."""
        return self.p_value * n_tests <= LEVEL


def paired_difference(differences: Sequence[float], valid_ratio: float) -> Difference:
    """Test whether differences over splits are zero in the mean, from both sides.

    The corrected resampled t-test. Few splits, or differences that hardly vary, would make
    any t-test claim too much; so the p-value is never below that of the sign test if all n
    non-zero differences agree, 2^(1 − n). Fewer than six splits prove nothing at 5 %.

    Parameters
    ----------
    differences : sequence of float
        One per split, not empty. Zeros count in the mean and the variance.
    valid_ratio : float
        Validation rows per training row. 0 gives the plain t-test, for independent data.

    Examples
    --------
    >>> paired_difference([0.0, 0.0, 0.0], valid_ratio=0.25).p_value
    1.0
    >>> paired_difference([-0.02, -0.02], valid_ratio=0.25).p_value
    0.5
    """
    d = np.asarray(differences, dtype=float)
    if d.ndim != 1 or not d.size:
        raise ValueError("differences must be a sequence of at least one number")
    d = np.where(np.abs(d) <= TIE, 0.0, d)
    n, mean = len(d), float(d.mean())
    if n == 1:
        return Difference(mean, None, 1.0, n)
    standard_error = corrected_error(d.tolist(), valid_ratio) or 0.0
    t = abs(mean) / standard_error if standard_error > 0 else np.inf
    p_value = 2.0 * float(stats.t.sf(t, n - 1))
    return Difference(mean, standard_error, max(p_value, _least_p(int(np.count_nonzero(d)))), n)


def detectable(difference: Difference, power: float = 0.8, level: float = LEVEL) -> float | None:
    """Return how large a true difference must be for the test to find it with this probability.

    (t_{1 - level/2} + t_power) standard errors, with n - 1 degrees of freedom; None where so
    few splits prove nothing. What is smaller may be there and not be seen.
    """
    if difference.standard_error is None or _least_p(difference.n_splits) > level:
        return None
    df = difference.n_splits - 1
    quantiles = stats.t.ppf(1 - level / 2, df) + stats.t.ppf(power, df)
    return float(quantiles) * difference.standard_error


def _least_p(n: int) -> float:
    """Return the p-value of the sign test if n splits agree."""
    return min(1.0, 2.0 ** (1 - n))


@dataclass(frozen=True, slots=True)
class SizeDifference:
    """The difference at one cardinality, with its p-value corrected over all cardinalities.

    ``p_adjusted`` is 1 where too few splits have the cardinality to prove anything.
    """

    n_learners: int
    difference: Difference
    p_adjusted: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Validation errors of one group minus those of another on one data set, over splits.

    The groups are CP and convex methods, unless ``compare`` was told others.

    Attributes
    ----------
    sizes : tuple of SizeDifference
        At each cardinality that both groups have in some split.
    overall : Difference or None
        Of the means over a split's coinciding cardinalities: one test, no correction needed.
        None if no cardinality coincides.
    best : Difference or None
        Of the least errors at coinciding cardinalities, which is what generalization gains are
        about. Both are chosen on the validation rows, among equally many ensembles: a least
        error over more sizes would be lower for being chosen from more.
    """

    dataset: str
    n_splits: int
    sizes: tuple[SizeDifference, ...]
    overall: Difference | None
    best: Difference | None

    @property
    def better(self) -> tuple[int, ...]:
        """Cardinalities at which CP is really better."""
        return tuple(s.n_learners for s in self._real() if s.difference.mean < 0)

    @property
    def worse(self) -> tuple[int, ...]:
        """Cardinalities at which CP is really worse."""
        return tuple(s.n_learners for s in self._real() if s.difference.mean > 0)

    def _real(self) -> tuple[SizeDifference, ...]:
        return tuple(size for size in self.sizes if size.p_adjusted <= LEVEL)


def compare(
    rows: Iterable[Row],
    ours: tuple[str, ...] = GROUPS["cp"],
    theirs: tuple[str, ...] = GROUPS["convex"],
) -> dict[str, Comparison]:
    """Compare two groups of strategies on every data set, over its splits.

    At each cardinality the ensemble of least training risk counts: the choice must not look at
    the rows that the test is about. By validation error, as in the paper's figure, it would
    favour CP, which has three experiments to choose from against two.
    """
    pairs: defaultdict[str, list[tuple[Points, Points]]] = defaultdict(list)
    groups = {"ours": ours, "theirs": theirs}
    for (dataset, _), curves in group_points(rows, groups, choose_by="risk").items():
        if curves["ours"] and curves["theirs"]:
            pairs[dataset].append((curves["ours"], curves["theirs"]))
    return {dataset: _compare_splits(dataset, splits) for dataset, splits in pairs.items()}


def _size_differences(
    by_size: Mapping[int, list[float]], ratio: float
) -> tuple[SizeDifference, ...]:
    """Return the tests by growing cardinality, their p-values corrected for being many.

    Neighbouring cardinalities share most learners, so their tests are positively dependent:
    Benjamini and Hochberg's false discovery rate holds then, and keeps some power.
    Cardinalities of too few splits to prove anything stay out of the correction (Tarone,
    Biometrics 46, 1990), so that they do not weaken the others.
    """
    tests = {size: paired_difference(by_size[size], ratio) for size in sorted(by_size)}
    able = [size for size, test in tests.items() if _least_p(test.n_splits) <= LEVEL]
    adjusted: dict[int, float] = {}
    if able:
        p_values = stats.false_discovery_control([tests[size].p_value for size in able])
        adjusted = dict(zip(able, p_values.tolist(), strict=True))
    return tuple(SizeDifference(s, test, adjusted.get(s, 1.0)) for s, test in tests.items())


def _compare_splits(dataset: str, splits: list[tuple[Points, Points]]) -> Comparison:
    ratio = _valid_ratio(splits)
    by_size: defaultdict[int, list[float]] = defaultdict(list)
    means, bests = [], []
    for ours, theirs in splits:
        pairs = _coinciding(ours, theirs)
        for size, (our, their) in pairs.items():
            by_size[size].append(our - their)
        if pairs:
            our_errors, their_errors = zip(*pairs.values(), strict=True)
            means.append(float(np.mean(our_errors) - np.mean(their_errors)))
            bests.append(min(our_errors) - min(their_errors))
    return Comparison(
        dataset,
        len(splits),
        _size_differences(by_size, ratio),
        paired_difference(means, ratio) if means else None,
        paired_difference(bests, ratio) if bests else None,
    )


def _coinciding(ours: Points, theirs: Points) -> dict[int, tuple[float, float]]:
    """Return both errors at each cardinality that both have."""
    errors = {point.n_learners: point.error for point in theirs}
    return {p.n_learners: (p.error, errors[p.n_learners]) for p in ours if p.n_learners in errors}


def _valid_ratio(splits: list[tuple[Points, Points]]) -> float:
    """Return validation rows per training row, the mean over splits."""
    rows = [ours[0].row for ours, _ in splits]
    return float(np.mean([row.n_valid / row.n_train for row in rows if row is not None]))
