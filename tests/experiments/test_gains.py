"""Gains: the rule on hand-made curves, and the paper's own table from its own figure."""

from __future__ import annotations

import pytest

from totalqboost import datasets
from totalqboost.experiments.frontiers import Point, paper_points
from totalqboost.experiments.gains import (
    gain_table,
    gains_by_split,
    generalization_gain,
    reference_cardinality,
    sparsity_gains,
)

CONVEX = [Point(2, 0.40), Point(5, 0.30), Point(6, 0.35), Point(10, 0.20)]


# -- the rule ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "reference"),
    [
        (0.30, 5),  # equal errors: the sparsest convex point itself
        (0.25, 9),  # between: the last size before the curve goes below
        (0.35, 4),  # 5 learners are below 0.35, so the 6 learners at 0.35 do not count
        (0.50, 1),
        (0.20, 10),
        (0.19, None),  # no convex point is that good
        (0.1 + 0.2, 5),  # equal up to rounding
    ],
)
def test_reference_is_the_sparsest_comparable_convex_point(error, reference):
    assert reference_cardinality(error, CONVEX) == reference
    assert reference_cardinality(error, CONVEX[::-1]) == reference


def test_sparsity_gain_is_the_share_of_learners_saved():
    assert sparsity_gains([Point(3, 0.30)], CONVEX)[0].sparsity == pytest.approx(1 - 3 / 5)
    assert sparsity_gains([Point(3, 0.25)], CONVEX)[0].sparsity == pytest.approx(1 - 3 / 9)
    assert sparsity_gains([Point(12, 0.20)], CONVEX) == ()  # convex methods are sparser
    assert sparsity_gains([Point(10, 0.20)], CONVEX) == ()
    assert sparsity_gains([Point(3, 0.10)], CONVEX) == ()


def test_worse_than_a_single_learner_has_no_reference():
    assert sparsity_gains([Point(1, 0.5)], [Point(1, 0.4)]) == ()


def test_sparsity_gains_are_sorted_by_error_and_the_sparsest_at_each():
    cp = [Point(4, 0.30), Point(3, 0.30), Point(8, 0.20), Point(10, 0.2), Point(5, 0.30)]
    cp += [Point(1, 0.5), Point(7, 0.1)]  # no gain, no reference
    gains = sparsity_gains(cp, CONVEX, "banana")
    assert [(g.id, g.n_learners, g.error, g.reference) for g in gains] == [
        ("1", 8, 0.20, 10),
        ("2", 3, 0.30, 5),
    ]
    assert [g.sparsity for g in gains] == pytest.approx([0.2, 0.4])


def test_generalization_gain_is_relative_to_the_best_convex_error():
    cp = [Point(9, 0.15), Point(7, 0.15), Point(3, 0.18)]
    gain = generalization_gain(cp, CONVEX)
    assert (gain.id, gain.n_learners, gain.error) == ("*", 7, 0.15)
    assert gain.generalization == pytest.approx(0.25)


def test_no_generalization_gain_without_a_lower_error():
    assert generalization_gain([Point(1, 0.20)], CONVEX) is None
    assert generalization_gain([Point(1, 0.20 - 1e-12)], CONVEX) is None
    assert generalization_gain([], CONVEX) is None
    assert generalization_gain([Point(1, 0.1)], []) is None


def test_table_lists_the_star_first_and_no_more_than_asked():
    cp = [Point(7, 0.15), Point(8, 0.20), Point(3, 0.30), Point(1, 0.40)]
    table = gain_table({"banana": {"cp": cp, "convex": CONVEX}}, n_best=2)
    assert [gain.id for gain in table] == ["*", "1", "2"]
    assert table[0].to_dict() == {
        "dataset": "banana",
        "id": "*",
        "error_pct": 15.0,
        "cardinality": 7,
        "sparsity_gain_pct": None,
        "generalization_gain_pct": 25.0,
        "reference_cardinality": None,
    }
    assert table[1].to_dict()["sparsity_gain_pct"] == 20.0
    assert table[1].to_dict()["reference_cardinality"] == 10


# -- the paper's table from the paper's figure ------------------------------------------------


def ours_and_papers():
    ours = {(g.dataset, g.id): g.to_dict() for g in gain_table(paper_points())}
    papers = {(row["dataset"], row["id"]): row for row in datasets.paper_table()["rows"]}
    return ours, papers


def test_table_has_exactly_the_entries_of_the_papers():
    ours, papers = ours_and_papers()
    assert len(papers) == 33
    assert {key: entry["cardinality"] for key, entry in ours.items()} == {
        key: entry["cardinality"] for key, entry in papers.items()
    }


def test_28_of_the_papers_29_sparsity_gains_are_reproduced():
    ours, papers = ours_and_papers()
    papers = {key: entry for key, entry in papers.items() if key[1] != "*"}
    assert len(papers) == 29
    differing = {
        key: (entry["sparsity_gain_pct"], ours[key]["sparsity_gain_pct"])
        for key, entry in papers.items()
        if entry["sparsity_gain_pct"] != ours[key]["sparsity_gain_pct"]
    }
    # 2 learners at 25.91 %; the convex curve first goes below with 5 (24.35 %), so that the
    # rule relates to 4. The paper relates to 5 here, as it does only where errors are equal.
    assert differing == {("german", "1"): (60.0, 50.0)}


def test_all_generalization_gains_of_the_paper_are_reproduced():
    ours, _ = ours_and_papers()
    stars = {d: e["generalization_gain_pct"] for (d, i), e in ours.items() if i == "*"}
    assert stars == datasets.paper_table()["generalization_gain_pct_from_caption"]


def test_errors_are_those_of_the_table_but_for_two_that_differ_from_the_figure():
    ours, papers = ours_and_papers()
    differing = {
        key: (entry["error_pct"], ours[key]["error_pct"])
        for key, entry in papers.items()
        if entry["error_pct"] != ours[key]["error_pct"]
    }
    assert differing == {("twonorm", "*"): (3.1, 3.13), ("flare solar", "*"): (20.95, 20.69)}


def test_data_sets_without_gains_are_the_papers():
    with_gains = {gain.dataset for gain in gain_table(paper_points())}
    without = [name for name in paper_points() if name not in with_gains]
    assert without == datasets.paper_table()["no_gain_datasets"]


# -- over splits ------------------------------------------------------------------------------


def test_gains_of_each_split_are_the_tables_of_each_split():
    better = {"convex": CONVEX, "cp": [Point(3, 0.30), Point(8, 0.15)]}
    none = {"convex": CONVEX, "cp": [Point(12, 0.30)]}
    found = gains_by_split({("heart", 0): better, ("heart", 1): none})["heart"]
    assert found.sparsity == pytest.approx((1 - 3 / 5, 0.0))
    assert found.generalization == pytest.approx((1 - 0.15 / 0.20, 0.0))


def test_gains_the_other_way_round_exchange_the_groups():
    curves = {"convex": CONVEX, "cp": [Point(12, 0.30)]}
    found = gains_by_split({("heart", 0): curves}, is_reversed=True)["heart"]
    exchanged = {"convex": curves["cp"], "cp": curves["convex"]}
    assert found == gains_by_split({("heart", 0): exchanged})["heart"]
    assert found.sparsity[0] > 0.5
    assert found.generalization == pytest.approx((1 - 0.20 / 0.30,))


def test_a_split_with_one_group_alone_has_no_gains_to_count():
    assert gains_by_split({("heart", 0): {"convex": CONVEX, "cp": ()}}) == {}
