"""Statistics: shares counted by hand, tests against SciPy's and against simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from totalqboost.experiments.frontiers import Point, group_points, paper_points
from totalqboost.experiments.gains import gain_table
from totalqboost.experiments.rows import Row
from totalqboost.experiments.statistics import (
    PAPER_SHARES,
    compare,
    detectable,
    excess_risk,
    mean_curves,
    optimization_success,
    paired_difference,
    worse_share,
)


def row(strategy, n_learners, *, split=0, dataset="banana", **measured):
    values = {
        "penalty": 0.01 if len(strategy) == 1 else None,
        "round": None,
        "risk": 0.5,
        "objective": 0.6,
        "bound": None,
        "train_error": 0.2,
        "valid_error": 0.3,
        "n_train": 800,
        "n_valid": 200,
        "seconds": 0.0,
    }
    return Row(
        dataset=dataset,
        split=split,
        strategy=strategy,
        n_learners=n_learners,
        **(values | measured),
    )


# -- optimization success ---------------------------------------------------------------------


def test_worse_share_counts_coinciding_cardinalities():
    rows = [
        row("B", 1, risk=0.9),
        row("B", 2, risk=0.8),
        row("B", 2, risk=0.7),  # the better one of two rounds counts
        row("B", 3, risk=0.6),
        row("E", 1, risk=0.9),  # equal: not worse
        row("E", 2, risk=0.75),  # worse
        row("E", 2, risk=0.78),
        row("E", 4, risk=0.9),  # does not coincide
        row("E", 3, risk=0.5, split=1),  # another split
        row("B", 1, risk=0.5, dataset="heart"),
        row("E", 1, risk=0.4, dataset="heart"),
        row("D", 3, risk=0.99),
    ]
    found = worse_share(rows, "E", "B", "risk")
    assert (found.n_worse, found.n_coinciding) == (1, 3)
    assert found.n_better == worse_share(rows, "B", "E", "risk").n_worse
    assert found.difference == pytest.approx(-worse_share(rows, "B", "E", "risk").difference)
    assert found.share == pytest.approx(1 / 3)


def test_differences_within_the_tolerance_are_not_worse():
    rows = [row("B", 1, risk=0.5), row("E", 1, risk=0.5 * (1 + 1e-5))]
    assert worse_share(rows, "E", "B", "risk").n_worse == 1
    assert worse_share(rows, "E", "B", "risk", tolerance=1e-4).n_worse == 0
    assert worse_share(rows, "B", "E", "risk").n_worse == 0


def test_one_misclassified_row_is_worse_than_none():
    rows = [row("E", 9, train_error=0.0), row("D", 9, train_error=1 / 5920)]
    assert worse_share(rows, "D", "E", "train_error").n_worse == 1


def test_nothing_coincides_in_no_rows_and_in_empty_ensembles():
    empty = worse_share([row("E", 0, risk=1.0), row("B", 0, risk=0.9)], "E", "B", "risk")
    assert (empty.n_worse, empty.n_coinciding, empty.share) == (0, 0, None)
    assert (empty.n_better, empty.difference) == (0, 0.0)


def test_the_four_shares_of_the_paper_are_told_apart():
    rows = [
        row("B", 1, risk=0.5, train_error=0.2),
        row("E", 1, risk=0.4, train_error=0.3),
        row("D", 1, risk=0.45, train_error=0.1),
        row("B", 2, risk=0.3, train_error=0.2),
        row("E", 2, risk=0.2, train_error=0.2),
    ]
    shares = {key: found.share for key, found in optimization_success(iter(rows)).items()}
    assert shares == {
        ("E", "B", "risk"): 0.0,
        ("E", "B", "train_error"): 0.5,
        ("D", "E", "risk"): 1.0,
        ("D", "E", "train_error"): 0.0,
    }
    assert shares.keys() == PAPER_SHARES.keys()


def test_rounds_of_b_beyond_the_hot_start_have_columns_that_e_never_saw():
    late = replace(row("B", 2, risk=0.1), round=8)
    rows = [row("E", 2, risk=0.2), replace(row("B", 2, risk=0.3), round=3), late]
    assert optimization_success(rows)["E", "B", "risk"].n_worse == 1
    assert optimization_success(rows, n_hot=8)["E", "B", "risk"].n_worse == 1
    assert optimization_success(rows, n_hot=7)["E", "B", "risk"].n_worse == 0


# -- means ------------------------------------------------------------------------------------


def test_means_and_standard_errors_by_hand():
    curves = {
        ("banana", 0): {"cp": (Point(1, 0.1), Point(2, 0.4))},
        ("banana", 1): {"cp": (Point(1, 0.2),)},
        ("banana", 2): {"cp": (Point(1, 0.3),)},
        ("heart", 0): {"cp": ()},
    }
    means = mean_curves(curves)
    one, two = means["banana"]["cp"]
    assert (one.n_learners, one.n_splits) == (1, 3)
    assert one.error == pytest.approx(0.2)
    assert one.standard_error == pytest.approx(0.1 / np.sqrt(3))
    assert (two.n_learners, two.error, two.n_splits) == (2, 0.4, 1)
    assert two.standard_error is None
    assert means["heart"]["cp"] == ()
    assert mean_curves(curves, min_splits=2)["banana"]["cp"] == (one,)


def test_standard_errors_of_means_are_corrected_for_overlapping_splits():
    """As those of paired_difference: 1/n becomes 1/n + n_valid/n_train."""
    rows = [row("B", 2, split=split, valid_error=e) for split, e in enumerate((0.1, 0.2, 0.3))]
    (point,) = mean_curves(group_points(rows))["banana"]["convex"]
    ratio = rows[0].n_valid / rows[0].n_train
    assert ratio > 0
    assert point.standard_error == pytest.approx(0.1 * np.sqrt(1 / 3 + ratio))


def test_gains_can_be_read_from_means():
    once = {(name, 0): groups for name, groups in paper_points().items()}
    twice = once | {(name, 1): groups for (name, _), groups in once.items()}
    assert gain_table(mean_curves(twice)) == gain_table(paper_points())


# -- paired tests -----------------------------------------------------------------------------


def test_without_overlap_it_is_the_paired_t_test():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.3, 0.02, (2, 20))
    found = paired_difference(a - b, valid_ratio=0.0)
    assert found.p_value == pytest.approx(stats.ttest_rel(a, b).pvalue)
    assert found.mean == pytest.approx(np.mean(a - b))
    assert found.n_splits == 20


def test_overlap_widens_the_standard_error():
    d = [-0.03, -0.01, -0.02, -0.04, 0.0, -0.02, -0.03, -0.01]
    plain, corrected = (paired_difference(d, ratio) for ratio in (0.0, 0.25))
    assert corrected.standard_error == pytest.approx(plain.standard_error * np.sqrt(1 + 8 / 4))
    # t = -0.02 / (0.0130931 * sqrt(1/8 + 1/4)) = -2.49444, 7 degrees of freedom
    assert corrected.p_value == pytest.approx(0.04131, abs=1e-4)
    assert plain.p_value < corrected.p_value


@pytest.mark.parametrize("n", [2, 3, 5, 10])
def test_constant_differences_are_as_sure_as_the_sign_test(n):
    found = paired_difference([-0.01] * n, valid_ratio=0.25)
    assert found.p_value == stats.binomtest(n, n).pvalue


def test_hardly_varying_differences_of_few_splits_prove_nothing():
    found = paired_difference([0.0100, 0.0101, 0.0099], valid_ratio=0.25)
    assert found.p_value == 0.25


def test_zero_differences_prove_nothing():
    assert paired_difference([0.0] * 20, valid_ratio=0.25).p_value == 1.0
    assert paired_difference([1e-17, -1e-17, 1e-17], valid_ratio=0.25).p_value == 1.0
    assert paired_difference([0.0] * 19 + [0.01], valid_ratio=0.25).p_value == 1.0


def test_one_split_proves_nothing():
    found = paired_difference([-0.1], valid_ratio=0.25)
    assert (found.mean, found.standard_error, found.p_value) == (-0.1, None, 1.0)
    with pytest.raises(ValueError, match="at least one number"):
        paired_difference([], valid_ratio=0.25)


def test_correction_holds_its_level_where_the_plain_test_does_not():
    """Differences over splits of one sample share its error, with correlation 0.2."""
    rng = np.random.default_rng(1)
    n, rho, repeats = 20, 0.2, 1000
    rejected = {0.0: 0, 0.25: 0}
    for _ in range(repeats):
        d = np.sqrt(rho) * rng.normal() + np.sqrt(1 - rho) * rng.normal(size=n)
        for ratio in rejected:
            rejected[ratio] += paired_difference(d, ratio).p_value <= 0.05
    assert rejected[0.25] / repeats < 0.07
    assert rejected[0.0] / repeats > 0.2


# -- comparisons ------------------------------------------------------------------------------


def many_splits(n_splits=12):
    """CP better with 2 learners, worse with 4, alike with 3; 5 in two splits, 6 in one group."""
    rng = np.random.default_rng(0)
    effects = {2: -0.05, 3: 0.0, 4: 0.04}
    for split in range(n_splits):
        for size, effect in effects.items():
            base = 0.3 + 0.02 * rng.normal()
            noise = 0.01 * rng.normal() if effect else 0.01 * (-1) ** split
            yield row("B", size, split=split, valid_error=base)
            yield row("C", size, split=split, valid_error=base + effect + noise)
        if split < 2:
            yield row("A", 5, split=split, valid_error=0.3)
            yield row("E", 5, split=split, valid_error=0.1)
        yield row("B", 6, split=split, valid_error=0.3)


def test_real_differences_are_found_and_no_others():
    found = compare(many_splits())["banana"]
    assert found.n_splits == 12
    assert [size.n_learners for size in found.sizes] == [2, 3, 4, 5]
    assert found.better == (2,)
    assert found.worse == (4,)
    by_size = {size.n_learners: size for size in found.sizes}
    assert by_size[2].difference.mean == pytest.approx(-0.05, abs=0.01)
    assert by_size[3].difference.p_value == 1.0
    assert by_size[5].difference.n_splits == 2


def test_p_values_are_corrected_after_benjamini_and_hochberg():
    found = [size for size in compare(many_splits())["banana"].sizes if size.n_learners < 5]
    low, middle, high = sorted(found, key=lambda size: size.difference.p_value)
    assert high.p_adjusted == high.difference.p_value == 1.0
    assert middle.p_adjusted == pytest.approx(3 / 2 * middle.difference.p_value)
    assert low.p_adjusted == pytest.approx(min(3 * low.difference.p_value, middle.p_adjusted))


def test_cardinalities_of_few_splits_do_not_weaken_the_others():
    with_few = compare(many_splits())["banana"]
    without = compare(r for r in many_splits() if r.n_learners != 5)["banana"]
    assert [s for s in with_few.sizes if s.n_learners != 5] == list(without.sizes)
    assert with_few.sizes[-1].p_adjusted == 1.0


def test_ratio_of_rows_enters_the_test():
    found = compare(many_splits())["banana"].sizes[0].difference
    rows = [r for r in many_splits() if r.n_learners == 2]
    d = [c.valid_error - b.valid_error for b, c in zip(rows[::2], rows[1::2], strict=True)]
    assert found == paired_difference(d, valid_ratio=200 / 800)


def test_overall_and_best_differences_by_hand():
    rows = [
        row("B", 1, valid_error=0.30),
        row("B", 2, valid_error=0.20),
        row("C", 1, valid_error=0.28),
        row("C", 2, valid_error=0.24),
        row("C", 3, valid_error=0.15),
        row("B", 1, split=1, valid_error=0.30),
        row("C", 1, split=1, valid_error=0.27),
        row("B", 1, split=2, valid_error=0.30),  # no CP row: this split is left out
    ]
    found = compare(rows)["banana"]
    assert found.n_splits == 2
    assert found.overall.mean == pytest.approx(((-0.02 + 0.04) / 2 - 0.03) / 2)
    # C's third size coincides with none of B's: it does not count
    assert found.best.mean == pytest.approx((0.04 - 0.03) / 2)
    assert (found.better, found.worse) == ((), ())


def test_nothing_coincides():
    found = compare([row("B", 1), row("C", 2, valid_error=0.1)])["banana"]
    assert (found.sizes, found.overall, found.best) == ((), None, None)


def test_more_sizes_to_choose_from_are_no_advantage():
    """Pure noise: the least of 40 errors is below the least of 4, and that proves nothing."""
    rng = np.random.default_rng(0)
    rows = []
    for split in range(20):
        rows += [row("B", k, split=split, valid_error=rng.uniform(0.2, 0.3)) for k in range(1, 41)]
        rows += [
            row("C", k, split=split, valid_error=rng.uniform(0.2, 0.3)) for k in (5, 10, 20, 40)
        ]
    assert abs(compare(rows)["banana"].best.mean) < 0.012  # all sizes: 0.017


def test_any_two_strategies_can_be_compared():
    rows = [
        row("D", 3, valid_error=0.28),
        row("E", 3, valid_error=0.30),
        row("C", 3, valid_error=0.1),
    ]
    assert compare(rows, ("D",), ("E",))["banana"].overall.mean == pytest.approx(-0.02)
    assert compare(rows, ("elimination",), ("E",)) == {}


def test_a_difference_that_can_be_detected_is_detected_in_eight_of_ten_trials():
    rng = np.random.default_rng(0)
    n, repeats, found = 20, 1000, 0
    noise = paired_difference(rng.normal(size=n), 0.0)
    assert detectable(replace(noise, standard_error=None)) is None
    effect = detectable(replace(noise, standard_error=1 / np.sqrt(n)))
    for _ in range(repeats):
        found += paired_difference(rng.normal(effect, 1.0, size=n), 0.0).p_value <= 0.05
    assert 0.76 < found / repeats < 0.85


def test_excess_risk_is_relative_and_at_equal_size():
    rows = [
        row("E", 1, risk=0.5),
        row("E", 2, risk=0.4),
        row("E", 2, risk=0.45),
        row("elimination", 1, risk=0.55),
        row("elimination", 2, risk=0.4),
        row("elimination", 3, risk=0.1),
        row("E", 2, risk=0.4, split=1),
        row("elimination", 2, risk=0.5, split=1),
        row("elimination", 2, risk=0.5, split=2),  # no E
    ]
    assert excess_risk(rows, "elimination", "E")["banana"] == pytest.approx((0.05, 0.25))


def test_representatives_are_chosen_without_the_validation_rows():
    rows = [
        row("B", 1, valid_error=0.30),
        row("C", 1, risk=0.4, valid_error=0.32),
        row("D", 1, risk=0.5, valid_error=0.20),
    ]
    assert compare(rows)["banana"].overall.mean == pytest.approx(0.02)


def test_data_sets_are_compared_apart():
    rows = list(many_splits())
    hearts = [row("B", 2, dataset="heart"), row("C", 2, dataset="heart")]
    assert compare(rows + hearts)["banana"] == compare(rows)["banana"]
    assert list(group_points(rows + hearts))[-1] == ("heart", 0)
