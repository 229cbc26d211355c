"""Agreement with the paper's points: means, spread, and only what coincides."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from totalqboost.experiments.frontiers import paper_points
from totalqboost.experiments.rows import Row

# Benchmarks are no package.
PATH = Path(__file__).parents[2] / "benchmarks" / "agreement.py"
spec = importlib.util.spec_from_file_location("agreement", PATH)
sys.modules["agreement"] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
agreement = module.agreement


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
    assert found.deviations is None


def test_the_distance_is_counted_in_spreads_between_splits():
    p = paper_points()["ringnorm"]["convex"][5]
    rows = [row(0, p.n_learners, p.error + 0.01), row(1, p.n_learners, p.error + 0.03)]
    found = agreement(rows)["ringnorm"]
    assert found.ours - found.paper == pytest.approx(0.02)
    assert found.deviations == pytest.approx(-0.02 / (0.01 * 2**0.5))


def test_sizes_that_a_split_lacks_do_not_count():
    p, q = paper_points()["ringnorm"]["convex"][5:7]
    rows = [row(0, p.n_learners, 0.3), row(0, q.n_learners, 0.9), row(1, p.n_learners, 0.1)]
    found = agreement(rows)["ringnorm"]
    assert (found.n_sizes, found.ours) == (1, pytest.approx(0.2))


def test_a_data_set_without_coinciding_sizes_is_left_out():
    assert agreement([row(0, 5000, 0.3)]) == {}
    assert agreement([row(0, 10, 0.3, "C")]) == {}  # not of the group
