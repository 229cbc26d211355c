"""The paper's own form: its scale of eps, its exits, one preset for all of it."""

from __future__ import annotations

import numpy as np
import pytest
from boosting_runs import every_column
from sklearn.base import clone

from totalqboost import Status, TotalQBoostClassifier, datasets, frontier, paper
from totalqboost.examples import check_examples
from totalqboost.experiments.bench import Bench
from totalqboost.experiments.settings import Settings
from totalqboost.experiments.strategies import rows_of
from totalqboost.solvers import TabuSearch


@pytest.fixture(scope="module")
def flares():
    return datasets.load("flare solar")


def plain(**changes):
    """Return the paper's form without a penalty: plain column generation."""
    return TotalQBoostClassifier.paper_form(0, **changes)


def same(one, other):
    assert one.ensemble_.learners == other.ensemble_.learners
    np.testing.assert_allclose(one.ensemble_.weights, other.ensemble_.weights, rtol=1e-6)


# -- eps (eq. 9) ---------------------------------------------------------------------------


def test_no_constraint_of_the_sum_of_losses_is_violated_by_more_than_eps(flares):
    """Equation (9) by brute force, on the paper's scale: u is not divided by m."""
    X, y = flares
    clf = plain().fit(X, y)
    assert clf.status_ is Status.CONVERGED
    _, A = every_column(X, y)
    edges = A @ np.exp(-y * clf.trace_[-1].ensemble.scores(X))
    assert edges.max() <= len(y) * paper.NU + 5e-4
    loose = plain(tol=5e-4).fit(X, y)
    edges = A @ np.exp(-y * loose.trace_[-1].ensemble.scores(X))
    assert edges.max() > len(y) * paper.NU + 5e-4  # the same number for a mean allows more


def test_the_papers_tolerance_is_its_number_over_the_rows(flares):
    X, y = flares
    same(plain().fit(X, y), plain(tol=5e-4 / len(y)).fit(X, y))
    assert paper.tolerance(5e-4, 100) == pytest.approx(5e-6)


def tolerance(X, y, weight=None):
    """Return eps of the engine that a fit makes."""
    settings = plain()._check_parameters()
    return settings.engine(check_examples(X, y, weight), np.random.default_rng(0)).tol


def test_counts_are_rows_and_proportions_are_not(flares):
    X, y = flares
    counts = np.random.default_rng(0).integers(0, 4, len(y))
    repeated = tolerance(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    assert repeated == pytest.approx(5e-4 / counts.sum())
    assert tolerance(X, y, counts) == pytest.approx(repeated)
    assert tolerance(X, y, np.full(len(y), 0.37)) == pytest.approx(5e-4 / len(y))


def test_of_many_classes_every_row_counts_once_per_class():
    X = np.random.default_rng(0).normal(size=(90, 2))
    assert tolerance(X, np.arange(90) % 3) == pytest.approx(5e-4 / (3 * 90))


def test_the_papers_tolerance_is_known_wherever_tol_is(flares):
    X, y = flares
    one, other = (frontier(X, y, max_learners=3, tol=tol) for tol in ("paper", 5e-4 / len(y)))
    assert one[3].ensemble == other[3].ensemble


@pytest.mark.parametrize("tol", ["papers", "auto", None, -1e-9, np.nan])
def test_a_tolerance_that_is_none_is_named(flares, tol):
    with pytest.raises(ValueError, match=r"^tol must be"):
        TotalQBoostClassifier(tol=tol).fit(*flares)


def test_exhaust_must_be_a_flag(flares):
    with pytest.raises(ValueError, match="exhaust must be True or False, got 'yes'"):
        TotalQBoostClassifier(exhaust="yes").fit(*flares)


# -- the preset ----------------------------------------------------------------------------


def test_the_preset_is_what_section_5_says():
    clf = TotalQBoostClassifier.paper_form(0.01)
    assert clf.cardinality_penalty == 0.01
    assert (clf.loss, clf.l1_penalty, clf.tol, clf.max_rounds) == (
        "exponential",
        1e-6,
        "paper",
        100,
    )
    assert not clf.fit_intercept
    assert not clf.exchange
    assert clf.exhaust
    assert clf.patience is None
    assert clf.n_bits is None  # the answer is continuous: lines 12-13
    assert isinstance(clf.solver, TabuSearch)
    assert (clf.solver.n_bits, clf.solver.moves) == (6, "bits")
    assert (clf.solver.restart, clf.solver.discrete) == ("mst2", True)


def test_the_preset_takes_changes_and_can_be_cloned():
    clf = TotalQBoostClassifier.paper_form("aic", solver="local", max_rounds=7, verbose=1)
    assert (clf.cardinality_penalty, clf.solver, clf.max_rounds, clf.verbose) == (
        "aic", "local", 7, 1
    )  # fmt: skip
    assert clone(clf).get_params() == clf.get_params()
    assert clone(TotalQBoostClassifier.paper_form(0.01)).solver == paper.tabu_search()
    with pytest.raises(TypeError, match="n_rounds"):
        TotalQBoostClassifier.paper_form(0.01, n_rounds=7)


def test_the_preset_does_not_end_before_the_dictionary(flares):
    X, y = flares
    _, A = every_column(X, y)
    n_columns = len({tuple(row) for row in A.tolist()})
    assert n_columns < paper.T
    clf = TotalQBoostClassifier.paper_form(0.01).fit(X, y)
    assert clf.status_ is Status.CONVERGED
    assert clf.n_iter_ == n_columns
    assert plain().fit(X, y).n_iter_ < n_columns  # without a price eq. (9) ends it
    default = TotalQBoostClassifier.paper_form(0.01, exhaust=False).fit(X, y)
    assert default.n_iter_ < n_columns


def test_the_solver_of_the_preset_decides_with_bits(flares):
    clf = TotalQBoostClassifier.paper_form(0.02).fit(*flares)
    local = TotalQBoostClassifier.paper_form(0.02, solver="local").fit(*flares)
    assert clf.solution_.objective == pytest.approx(local.solution_.objective, rel=1e-3)
    assert 0 < clf.n_learners_ < 8


# -- in the experiments --------------------------------------------------------------------


def test_settings_of_the_experiments_are_those_of_the_preset():
    clf, settings = TotalQBoostClassifier.paper_form(0.01), Settings()
    assert (settings.loss, settings.nu, settings.max_rounds) == (
        clf.loss, clf.l1_penalty, clf.max_rounds
    )  # fmt: skip
    assert settings.exhaust == clf.exhaust
    assert settings.fit_intercept == clf.fit_intercept
    assert settings.tol == paper.EPSILON
    assert settings.solver == "local"
    assert Bench("thyroid", 0, Settings(solver="tabu")).solver() == clf.solver
    assert Bench("thyroid", 0, Settings(solver="tabu", n_bits=4)).solver().n_bits == 4


def test_strategy_c_is_the_preset():
    bench = Bench("flare solar", 0, Settings(n_penalties=4))
    rows = list(rows_of(bench, "C", keep_ensembles=False))
    for row in rows:
        clf = TotalQBoostClassifier.paper_form(row["penalty"], solver="local")
        clf.fit(bench.X, bench.y)
        assert clf.solution_.objective == pytest.approx(row["objective"], rel=1e-9)
        assert clf.n_learners_ == row["n_learners"]


@pytest.mark.parametrize(("name", "least"), [("image", 100), ("heart", 55), ("thyroid", 13)])
def test_plain_column_generation_goes_as_far_as_the_papers(name, least):
    """With eps for a mean, image ended after 39 rounds, heart after 28 and thyroid after 9."""
    bench = Bench(name, 0, Settings())
    assert len(bench.plain.trace) >= least
    loose = Bench(name, 0, Settings(tol=5e-4 * len(bench.y)))
    assert len(loose.plain.trace) < least / 1.4


def test_hot_starts_go_on_to_the_end_of_the_dictionary():
    bench = Bench("flare solar", 0, Settings())
    assert len(bench.plain.trace) < bench.settings.n_hot
    _, A = every_column(bench.X, bench.y)
    n_columns = len({tuple(row) for row in A.tolist()})
    start = np.zeros(bench.plain_problem.n_columns)
    result = bench.boost(bench.generator("D", 0), lam=float(bench.lambdas[9]), start=start)
    assert len(result.trace) + bench.plain_rounds == len(result.learners) == n_columns
    assert result.status is Status.CONVERGED
