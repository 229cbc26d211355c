"""Agreement with the paper's points: means, spread, and only what coincides."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from totalqboost.experiments.frontiers import paper_points
from totalqboost.experiments.rows import Row

# Benchmarks are no package.
PATH = Path(__file__).parents[2] / "benchmarks" / "agreement.py"
spec = importlib.util.spec_from_file_location("agreement", PATH)
sys.modules["agreement"] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
agreement, together = module.agreement, module.together


def row(split, size, error, strategy="B", dataset="ringnorm"):
    return Row(
        dataset=dataset,
        split=split,
        strategy=strategy,
        penalty=1e-6,
        round=size,
        n_learners=size,
        risk=0.5,
        objective=0.5,
        bound=None,
        train_error=0.1,
        valid_error=error,
        n_train=80,
        n_valid=20,
        seconds=0.0,
    )


def test_the_papers_own_points_agree_with_themselves():
    points = paper_points()["ringnorm"]["convex"]
    rows = [row(split, p.n_learners, p.error) for split in (0, 1) for p in points]
    found = agreement(rows)["ringnorm"]
    assert found.ours == pytest.approx(found.paper)
    assert (found.n_sizes, found.n_splits) == (len({p.n_learners for p in points}), 2)
    assert found.spread == 0.0
    assert (found.distance, found.p_value) == (None, None)
    assert together([found]) is None


def test_the_distance_is_counted_in_spreads_between_splits():
    p = paper_points()["ringnorm"]["convex"][5]
    rows = [row(0, p.n_learners, p.error + 0.01), row(1, p.n_learners, p.error + 0.03)]
    found = agreement(rows)["ringnorm"]
    assert found.ours - found.paper == pytest.approx(0.02)
    spread = 0.01 * 2**0.5
    assert found.distance == pytest.approx(-0.02 / (spread * 1.5**0.5))  # of one more split
    assert found.p_value == pytest.approx(2 * stats.t.sf(2 / 3**0.5, 1))


def test_each_split_is_compared_where_it_and_the_paper_have_a_size():
    p, q = paper_points()["ringnorm"]["convex"][5:7]
    rows = [
        row(0, p.n_learners, p.error + 0.03),
        row(0, q.n_learners, q.error + 0.05),
        row(1, p.n_learners, p.error + 0.02),
        row(2, 5000, 0.3),  # shares no size
    ]
    found = agreement(rows)["ringnorm"]
    assert (found.n_sizes, found.n_splits) == (1.5, 2)
    assert found.ours - found.paper == pytest.approx(0.03)
    assert found.spread == pytest.approx(0.01 * 2**0.5)


def test_a_data_set_without_coinciding_sizes_is_left_out():
    assert agreement([row(0, 5000, 0.3)]) == {}
    assert agreement([row(0, 10, 0.3, "C")]) == {}  # not of the group


def test_points_of_cardinality_penalties_and_differences_are_compared_too():
    p = paper_points()["ringnorm"]
    convex = {point.n_learners: point.error for point in p["convex"]}
    cp = next(point for point in p["cp"] if point.n_learners in convex)
    size = cp.n_learners
    rows = []
    for split, luck in enumerate((0.01, 0.02, 0.06)):
        rows.append(row(split, size, convex[size] + luck))
        rows.append(row(split, size, cp.error + luck + 0.001 * split, "E"))
    assert agreement(rows, "cp")["ringnorm"].ours - cp.error == pytest.approx(0.031)
    difference = agreement(rows, "difference")["ringnorm"]
    assert difference.paper == pytest.approx(cp.error - convex[size])
    assert difference.ours - difference.paper == pytest.approx(0.001)
    assert difference.spread == pytest.approx(0.001)  # a split's luck cancels


def simulated(offset, seed):
    """Twelve data sets whose paper differs from 20 splits of ours by luck and by an offset."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(12):
        ours = rng.normal(0.2, 0.02, 20)
        paper = rng.normal(0.2 + 0.02 * offset, 0.02)
        spread = float(np.std(ours, ddof=1))
        found.append(module.Agreement("", float(ours.mean()), paper, spread, 10, 20))
    return together(found)


def test_the_test_of_agreement_fails_where_it_should_and_only_there():
    """An error of one point where splits vary by two is found; no error is not."""
    agreeing = [simulated(0.0, seed) for seed in range(400)]
    leaning = [simulated(agreeing[0].detectable, seed) for seed in range(400)]
    far = [simulated(2.5, seed) for seed in range(20)]
    for p in ("p_size", "p_lean"):
        assert np.mean([getattr(t, p) <= 0.05 for t in agreeing]) < 0.08
        assert all(getattr(t, p) < 0.01 for t in far)
    assert 0.7 < np.mean([t.p_lean <= 0.05 for t in leaning]) < 0.88
