"""Representatives of cardinalities and Pareto frontiers, on examples small enough to see."""

from __future__ import annotations

import random

import pytest

from totalqboost import datasets
from totalqboost.experiments.frontiers import (
    Point,
    group_points,
    paper_points,
    pareto_frontier,
    representatives,
)
from totalqboost.experiments.rows import Row


def row(strategy, n_learners, valid_error, risk=0.5, dataset="banana", split=0, **more):
    values = {
        "penalty": 0.01 if len(strategy) == 1 else None,
        "round": None,
        "objective": 0.6,
        "bound": None,
        "train_error": 0.2,
        "n_train": 800,
        "n_valid": 200,
        "seconds": 0.0,
    }
    return Row(
        dataset=dataset,
        split=split,
        strategy=strategy,
        n_learners=n_learners,
        risk=risk,
        valid_error=valid_error,
        **(values | more),
    )


def pairs(points):
    return [(point.n_learners, point.error) for point in points]


# -- representatives --------------------------------------------------------------------------


def test_least_validation_error_represents_a_cardinality():
    rows = [row("B", 3, 0.30), row("A", 3, 0.25), row("A", 1, 0.4), row("B", 3, 0.28)]
    points = representatives(rows)
    assert pairs(points) == [(1, 0.4), (3, 0.25)]
    assert points[1].row is rows[1]


def test_least_risk_represents_a_cardinality_if_asked():
    rows = [row("C", 3, 0.30, risk=0.4), row("D", 3, 0.25, risk=0.5)]
    assert pairs(representatives(rows, choose_by="risk")) == [(3, 0.30)]
    rows = [row("C", 3, 0.30, train_error=0.1), row("D", 3, 0.25, train_error=0.2)]
    assert pairs(representatives(rows, choose_by="train_error")) == [(3, 0.30)]


def test_order_of_rows_does_not_matter():
    rows = [
        row("D", 3, 0.25, risk=0.5),
        row("C", 3, 0.25, risk=0.5, penalty=0.02),
        row("C", 3, 0.25, risk=0.5, penalty=0.01),
        row("E", 3, 0.25, risk=0.6),
    ]
    for _ in range(10):
        random.shuffle(rows)
        (point,) = representatives(rows)
        assert (point.row.strategy, point.row.penalty) == ("C", 0.01)


def test_empty_ensembles_are_left_out():
    assert pairs(representatives([row("C", 0, 0.1), row("C", 2, 0.2)])) == [(2, 0.2)]
    assert representatives([]) == ()


def test_unknown_choice_is_refused():
    with pytest.raises(ValueError, match=r"choose_by must be 'valid_error', .*, got 'luck'"):
        representatives([row("A", 1, 0.1)], choose_by="luck")


# -- groups -----------------------------------------------------------------------------------


def test_groups_are_formed_per_data_set_and_split():
    rows = [
        row("A", 1, 0.4),
        row("B", 1, 0.3),
        row("C", 1, 0.5),
        row("E", 2, 0.2),
        row("D", 2, 0.1),
        row("adaboost", 1, 0.0),
        row("B", 1, 0.2, split=1),
        row("C", 5, 0.6, dataset="heart"),
    ]
    curves = group_points(rows)
    assert {key: {g: pairs(p) for g, p in c.items()} for key, c in curves.items()} == {
        ("banana", 0): {"convex": [(1, 0.3)], "cp": [(1, 0.5), (2, 0.1)]},
        ("banana", 1): {"convex": [(1, 0.2)], "cp": []},
        ("heart", 0): {"convex": [], "cp": [(5, 0.6)]},
    }


def test_any_strategies_can_form_a_group():
    rows = [row("adaboost", 1, 0.4), row("B", 1, 0.3), row("A", 1, 0.2)]
    curves = group_points(rows, groups={"B": ("B",), "baseline": ("adaboost",)})
    assert {g: pairs(p) for g, p in curves["banana", 0].items()} == {
        "B": [(1, 0.3)],
        "baseline": [(1, 0.4)],
    }


# -- frontiers --------------------------------------------------------------------------------


def test_frontier_keeps_what_nothing_dominates():
    points = [Point(6, 0.1), Point(2, 0.3), Point(3, 0.3), Point(4, 0.35), Point(5, 0.1)]
    assert pairs(pareto_frontier(points)) == [(2, 0.3), (5, 0.1)]
    assert pareto_frontier([]) == ()


def test_of_equal_cardinalities_the_lower_error_stays():
    assert pairs(pareto_frontier([Point(2, 0.4), Point(2, 0.3)])) == [(2, 0.3)]


def test_rounding_does_not_make_a_point_efficient():
    points = [Point(2, 0.1 + 0.2), Point(3, 0.3)]  # 0.30000000000000004 and 0.3
    assert pairs(pareto_frontier(points)) == [(2, 0.1 + 0.2)]


def test_frontier_agrees_with_the_definition_on_random_points():
    rng = random.Random(0)
    for _ in range(50):
        points = [Point(rng.randint(1, 9), rng.randint(0, 9) / 10) for _ in range(12)]
        efficient = {
            p
            for p in points
            if not any(
                q.n_learners <= p.n_learners and q.error <= p.error and q != p for q in points
            )
        }
        frontier = pareto_frontier(points)
        assert set(frontier) == efficient
        assert list(frontier) == sorted(efficient, key=lambda p: p.n_learners)


# -- the paper's figure -------------------------------------------------------------------------


def test_paper_points_are_those_of_the_figure():
    points, figure = paper_points(), datasets.paper_figure()
    assert tuple(points) == tuple(figure)
    for name, groups in points.items():
        for group, curve in groups.items():
            assert [[p.n_learners, round(100 * p.error, 4)] for p in curve] == figure[name][group]
    # one representative per cardinality, so the figure's points have been chosen already
    sizes = [[p.n_learners for p in curve] for g in points.values() for curve in g.values()]
    assert all(len(set(curve)) == len(curve) for curve in sizes)


def test_banana_frontier_of_the_paper_by_eye():
    frontier = pareto_frontier(paper_points()["banana"]["cp"])
    assert [(p.n_learners, round(100 * p.error, 2)) for p in frontier] == [
        (3, 28.77),
        (4, 27.92),
        (11, 27.26),
        (12, 26.89),
        (13, 26.70),
        (33, 25.85),
    ]
