"""How tabu search wires its walks together: where each begins, its tenures, its target."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from solver_contract import random_problem

from totalqboost.solvers import TabuSearch, tabu
from totalqboost.solvers.walk import Walk

both_restarts = pytest.mark.parametrize("restart", ["iterated", "mst2"])


@pytest.fixture
def searched(monkeypatch):
    """Return a function that searches a problem and returns its walks and its restarts."""

    def search(restart, moves="bits", n=8, **settings):
        walks, restarts = [], []
        run = Walk.run

        def watched_run(self, levels, target, tenures, ranks=None, descends=False):
            begin = levels.copy()
            best = run(self, levels, target, tenures, ranks, descends)
            if ranks is None:  # the moves of a perturbation have ranks
                walks.append(
                    SimpleNamespace(
                        walk=self,
                        begin=begin,
                        end=self.step * levels,
                        best=best.copy(),
                        target=target,
                        tenures=tenures,
                        descends=descends,
                    )
                )
            return best

        def watched(name):
            restart_of = getattr(tabu, name)

            def watched_restart(walk, levels, rng, limit):
                before = levels.copy()
                used = restart_of(walk, levels, rng, limit)
                restarts.append(
                    SimpleNamespace(name=name, walk=walk, before=before, after=levels.copy())
                )
                return used

            return watched_restart

        monkeypatch.setattr(Walk, "run", watched_run)
        for name in ("construct", "perturb"):
            monkeypatch.setattr(tabu, name, watched(name))
        problem = random_problem(1, n=n, m=80, lam=0.01)
        solver = TabuSearch(
            4, moves, restart, True, max_evaluations=700, moves_per_start=90, **settings
        )
        solution = solver.solve(problem)
        assert len(walks) > 4
        assert len(restarts) == len(walks) - 1
        return walks, restarts, solution

    return search


def test_mst2_goes_on_from_where_the_last_walk_ended(searched):
    walks, restarts, _ = searched("mst2")
    assert {one.name for one in restarts} == {"construct"}
    moved = 0
    for before, restart, after in zip(walks, restarts, walks[1:], strict=False):
        expected = restart.walk.grid.levels(before.end)
        assert restart.before.tolist() == expected.tolist()
        assert restart.after.tolist() == after.begin.tolist()
        best = restart.walk.grid.levels(before.walk.step * before.best)
        moved += best.tolist() != expected.tolist()
    assert moved > 0  # the end of a walk is not its best point, so the two can be told apart


def test_iterated_search_goes_on_from_the_best_point(searched):
    walks, restarts, _ = searched("iterated")
    assert {one.name for one in restarts} == {"perturb"}
    points = [(one.walk.value(one.best), one.walk.step * one.best) for one in walks]
    for number, restart in enumerate(restarts, start=1):
        _, best = min(points[:number], key=lambda pair: pair[0])
        assert restart.before.tolist() == restart.walk.grid.levels(best).tolist()


@both_restarts
def test_a_local_search_follows_each_improvement_of_mst2_only(searched, restart):
    walks, *_ = searched(restart)
    assert {one.descends for one in walks} == {restart == "mst2"}


@pytest.mark.parametrize(("n", "moves", "tenure"), [(8, "bits", 8), (8, "levels", 2)])
def test_the_tenure_is_a_quarter_of_the_variables(searched, n, moves, tenure):
    walks, *_ = searched("mst2", moves, n)
    assert {int(t) for one in walks for t in one.tenures} == {tenure}


def test_the_tenure_is_at_most_20(searched):
    walks, *_ = searched("mst2", n=30)
    assert {int(t) for one in walks for t in one.tenures} == {20}


def test_tenures_of_iterated_search_are_up_to_half_of_it_longer(searched):
    walks, *_ = searched("iterated")
    assert {int(t) for one in walks for t in one.tenures} == set(range(8, 13))


def test_a_walk_of_mst2_is_to_beat_what_any_walk_has_found(searched):
    walks, *_ = searched("mst2")
    values = [one.walk.value(one.best) for one in walks]
    expected = [np.inf, *np.minimum.accumulate(values)[:-1]]
    np.testing.assert_allclose([one.target for one in walks], expected, rtol=1e-12)


@pytest.mark.parametrize("tol", ["paper", None, -1.0, float("nan"), True])
def test_a_bad_tolerance_is_one_sentence(tol):
    with pytest.raises(ValueError, match=r"^tol must be a finite number >= 0, got "):
        TabuSearch(n_bits="auto", tol=tol)
