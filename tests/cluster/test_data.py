"""Rows on the workers of a real cluster: the ensembles of memory, however rows are parted."""

from itertools import pairwise

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask import delayed
from distributed import Client, LocalCluster

from totalqboost import TotalQBoostClassifier, TotalQBoostClassifierCV, frontier
from totalqboost.boosting import drafts, scores, sizes
from totalqboost.cluster import oracle, tables
from totalqboost.cluster.rows import ClusterRows
from totalqboost.dictionaries import Stumps

N_ROWS = 700


@pytest.fixture(scope="module")
def client():
    how = {"n_workers": 3, "threads_per_worker": 1, "host": "127.0.0.1"}
    with LocalCluster(**how, dashboard_address=None) as cluster, Client(cluster) as client:
        yield client


@pytest.fixture(autouse=True)
def far(monkeypatch):
    """Let few rows be treated as many: scores look at some of them, and searches hurry."""
    monkeypatch.setattr(scores, "SCORE_ROWS", 200)
    monkeypatch.setattr(oracle, "SCORE_ROWS", 200)
    monkeypatch.setattr(tables, "BLOCK_ROWS", 150)
    monkeypatch.setattr(sizes, "LARGE_WORK", 0)
    monkeypatch.setattr(sizes, "WIDTH_WORK", 0)
    monkeypatch.setattr(sizes, "FIRST", 4)


def numbers(n_classes=2):
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(N_ROWS, 4)), 1)
    score = X[:, 0] - 0.7 * X[:, 1] + 0.6 * rng.normal(size=N_ROWS)
    y = np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))
    return X, y


def mixed(n_classes=2):
    """Numbers with gaps, categories of text, and integers."""
    rng = np.random.default_rng(1)
    X, y = numbers(n_classes)
    df = pd.DataFrame(X[:, :2], columns=["low", "high"])
    df["place"] = np.where(
        y == 1, rng.choice(["a", "b", "c"], N_ROWS), rng.choice(["b", "d"], N_ROWS)
    )
    df["count"] = rng.integers(0, 4, N_ROWS)
    df.loc[rng.random(N_ROWS) < 0.2, "high"] = np.nan
    df.loc[rng.random(N_ROWS) < 0.1, "place"] = None
    return df, pd.Series(np.array(["no", "yes", "perhaps"])[y])


def parted(values, n_parts):
    if isinstance(values, pd.DataFrame | pd.Series):
        return dd.from_pandas(values, npartitions=n_parts, sort=False)
    return da.from_array(values, chunks=(-(-len(values) // n_parts), *values.shape[1:]))


def assert_same(one, other, tolerance=1e-10):
    assert other.learners == one.learners
    np.testing.assert_allclose(other.weights, one.weights, atol=tolerance)
    np.testing.assert_allclose(other.intercept, one.intercept, atol=tolerance)
    assert other.features == one.features


@pytest.mark.parametrize("n_parts", [1, 7])
def test_arrays_give_the_ensemble_of_memory(client, n_parts):
    X, y = numbers()
    here = TotalQBoostClassifier(0, max_learners=3).fit(X, y)
    there = TotalQBoostClassifier(0, max_learners=3).fit(parted(X, n_parts), parted(y, n_parts))
    assert_same(here.ensemble_, there.ensemble_)
    assert there.n_features_in_ == 4
    assert there.solution_.objective == pytest.approx(here.solution_.objective, abs=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_frames_with_gaps_and_categories_give_the_ensemble_of_memory(client, n_classes):
    X, y = mixed(n_classes)
    here = TotalQBoostClassifier(0, max_learners=3).fit(X, y)
    there = TotalQBoostClassifier(0, max_learners=3).fit(parted(X, 5), parted(y, 5))
    assert_same(here.ensemble_, there.ensemble_)
    assert there.feature_names_in_.tolist() == list(X.columns)
    assert there.classes_.tolist() == here.classes_.tolist()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_search_on_some_rows_is_that_of_memory(client, n_classes, monkeypatch):
    monkeypatch.setattr(drafts, "SEARCH_ROWS", 300)
    X, y = mixed(n_classes)
    weight = pd.Series(np.random.default_rng(2).integers(0, 3, N_ROWS))
    model = TotalQBoostClassifier(0, max_learners=4)
    here = model.fit(X, y, weight).ensemble_
    assert_same(here, model.fit(parted(X, 5), parted(y, 5), parted(weight, 5)).ensemble_)


@pytest.mark.parametrize("multiclass", ["per_class", "shared"])
def test_all_kinds_of_many_classes_are_those_of_memory(client, multiclass):
    X, y = mixed(3)
    model = TotalQBoostClassifier(0, max_learners=2, multiclass=multiclass)
    here = model.fit(X, y).ensemble_
    assert_same(here, model.fit(parted(X, 3), parted(y, 3)).ensemble_)


def test_the_paper_s_algorithm_and_its_price_are_those_of_memory(client):
    X, y = numbers()
    model = TotalQBoostClassifier.paper_form(0.02, solver="local", max_rounds=8)
    here = model.fit(X, y)
    trace = [record.objective for record in here.trace_]
    assert_same(here.ensemble_, model.fit(parted(X, 4), parted(y, 4)).ensemble_)
    assert [record.objective for record in model.trace_] == pytest.approx(trace, abs=1e-12)


def test_weights_and_class_weights_count_as_in_memory(client):
    X, y = mixed()
    weight = pd.Series(np.random.default_rng(2).integers(0, 3, N_ROWS))
    model = TotalQBoostClassifier(0, max_learners=2, class_weight="balanced", exchange=False)
    here = model.fit(X, y, weight).ensemble_
    there = model.fit(parted(X, 4), parted(y, 4), parted(weight, 4)).ensemble_
    assert_same(here, there)
    assert here.training.n_rows == there.training.n_rows == int((weight > 0).sum())


def test_feature_costs_limits_and_directions_are_those_of_memory(client):
    X, y = numbers()
    model = TotalQBoostClassifier(
        feature_costs=[1, 2, 3, 4], max_features=2, monotonic_cst=[1, -1, 0, 0], max_learners=3
    )
    here = model.fit(X, y).ensemble_
    assert_same(here, model.fit(parted(X, 4), parted(y, 4)).ensemble_)


def test_frontier_and_cross_validation_are_those_of_memory(client):
    X, y = numbers()
    here = frontier(X, y, max_learners=3)
    there = frontier(parted(X, 3), parted(y, 3), max_learners=3)
    for one, other in zip(here, there, strict=True):
        assert_same(one.ensemble, other.ensemble)
        assert other.train_error == pytest.approx(one.train_error)
    model = TotalQBoostClassifierCV(2, cv=3)
    one = model.fit(X, y).ensemble_
    errors = model.cv_results_["mean_test_error"]
    assert_same(one, model.fit(parted(X, 3), parted(y, 3)).ensemble_)
    np.testing.assert_allclose(model.cv_results_["mean_test_error"], errors)


def test_empty_partitions_and_partitions_of_one_class_change_nothing(client):
    X, y = mixed()
    X, y = (values.iloc[np.argsort(y.to_numpy(), kind="stable")] for values in (X, y))
    model = TotalQBoostClassifier(0, max_learners=2)
    here = model.fit(X, y).ensemble_
    limits = [0, 0, 100, 100, 300, N_ROWS, N_ROWS]
    parts = [slice(first, last) for first, last in pairwise(limits)]
    assert y.iloc[parts[1]].nunique() == 1
    frames, labels = (
        dd.from_delayed([delayed(values.iloc[part]) for part in parts], meta=values.iloc[:0])
        for values in (X, y)
    )
    there = model.fit(frames, labels)
    assert_same(here, there.ensemble_)


def test_hundreds_of_partitions_change_nothing(client):
    X, y = mixed(2)
    model = TotalQBoostClassifier(0, max_learners=3)
    here = model.fit(X, y).ensemble_
    assert_same(here, model.fit(parted(X, 300), parted(y, 300)).ensemble_)


def test_a_category_of_one_partition_only_is_a_category_of_all(client):
    X, y = mixed()
    X.loc[650:, "place"] = "z"
    X.loc[:99, "place"] = None  # a partition that does not tell what it holds
    model = TotalQBoostClassifier(0, max_learners=2)
    here = model.fit(X, y).ensemble_
    assert_same(here, model.fit(parted(X, 7), parted(y, 7)).ensemble_)
    assert "z" in here.features[2].categories


def test_categories_keep_the_order_that_their_type_declares(client):
    X, y = mixed()
    X["place"] = pd.Categorical(X["place"], ["d", "c", "b", "a", "unused"])
    model = TotalQBoostClassifier(0, max_learners=2, exchange=False)
    here = model.fit(X, y).ensemble_
    assert_same(here, model.fit(parted(X, 4), parted(y, 4)).ensemble_)
    assert here.features[2].categories[:2] == ("d", "c")


def test_a_fit_repeats_itself_to_the_last_digit(client):
    X, y = mixed()
    X, y = parted(X, 5), parted(y, 5)
    one, other = (TotalQBoostClassifier(0, max_learners=2).fit(X, y).ensemble_ for _ in range(2))
    assert one == other


def test_labels_and_weights_may_stay_on_the_driver(client):
    X, y = numbers()
    model = TotalQBoostClassifier(0, max_learners=2, exchange=False)
    here = model.fit(X, y, y + 1).ensemble_
    assert_same(here, model.fit(parted(X, 3), y, y + 1).ensemble_)


def test_bins_are_those_of_the_dictionary(client):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(400, 2))
    y = (X[:, 0] > 0.1).astype(int)
    clf = TotalQBoostClassifier(0, max_learners=1, dictionary=Stumps(4))
    clf.fit(parted(X, 4), parted(y, 4))
    here = TotalQBoostClassifier(0, max_learners=1, dictionary=Stumps(4)).fit(X, y)
    assert_same(here.ensemble_, clf.ensemble_)


def test_without_a_client_a_worker_of_this_process_does_it():
    X, y = numbers()
    model = TotalQBoostClassifier(0, max_learners=2, exchange=False)
    here = model.fit(X, y).ensemble_
    assert_same(here, model.fit(parted(X, 3), parted(y, 3)).ensemble_)


def test_dictionaries_other_than_stumps_are_refused(client):
    X, y = numbers()
    with pytest.raises(ValueError, match="dictionary must be 'stumps' for collections of Dask"):
        TotalQBoostClassifier(dictionary="pairs").fit(parted(X, 2), parted(y, 2))


def test_few_rows_are_searched_on_the_driver(client, monkeypatch):
    monkeypatch.setattr(oracle, "SCORE_ROWS", N_ROWS)
    asked = []
    monkeypatch.setattr(ClusterRows, "slopes", lambda *_: asked.append(1))
    X, y = mixed(3)
    model = TotalQBoostClassifier(0, max_learners=2)
    here = model.fit(X, y).ensemble_
    assert_same(here, model.fit(parted(X, 3), parted(y, 3)).ensemble_)
    assert not asked
