"""Predictions for collections of Dask: lazy, and those of the rows in memory."""

from __future__ import annotations

import pickle

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from cluster_data import frames, table
from dask.callbacks import Callback

from totalqboost import TotalQBoostClassifier

METHODS = ("predict", "predict_proba", "decision_function", "predict_log_proba")


class Count(Callback):
    """Count the tasks that are run."""

    def __init__(self):
        self.n_tasks = 0

    def _pretask(self, key, graph, state):
        self.n_tasks += 1


@pytest.fixture(scope="module", params=[2, 3])
def fitted(request):
    X, y = table(n_classes=request.param)
    return TotalQBoostClassifier(0, max_learners=3, exchange=False).fit(X, y), X


@pytest.fixture(scope="module", params=[2, 3])
def fitted_to_numbers(request):
    X, y = table(n_classes=request.param)
    X = X[["size", "age"]].to_numpy()
    return TotalQBoostClassifier(0, max_learners=3, exchange=False).fit(X, y), X


def assert_equal(lazy, whole):
    assert lazy.dtype == whole.dtype
    assert lazy.ndim == whole.ndim
    assert lazy.shape[1:] == whole.shape[1:]
    np.testing.assert_array_equal(lazy.compute(scheduler="sync"), whole)


@pytest.mark.parametrize("method", METHODS)
def test_answers_to_a_data_frame_are_those_in_memory(fitted, method):
    model, X = fitted
    data, _ = frames(X, X["size"])
    lazy = getattr(model, method)(data)
    assert np.isnan(lazy.shape[0])
    assert_equal(lazy, getattr(model, method)(X))


def test_a_category_that_only_one_partition_has_and_training_had_not(fitted):
    model, X = fitted
    X = X.copy()
    X.loc[X.index[-5:], "kind"] = "never seen"  # all in the last of four
    data, _ = frames(X, X["size"])
    assert_equal(model.predict_proba(data), model.predict_proba(X))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("chunks", [(70, 2), (100, 1), (240, 2)])
def test_answers_to_an_array_are_those_in_memory(fitted_to_numbers, method, chunks):
    model, X = fitted_to_numbers
    lazy = getattr(model, method)(da.from_array(X, chunks=chunks))
    assert lazy.shape[0] == len(X)
    assert_equal(lazy, getattr(model, method)(X))


def test_answers_to_an_array_of_unknown_length_are_those_in_memory(fitted_to_numbers):
    model, X = fitted_to_numbers
    data = da.from_array(X, chunks=(70, 2))
    kept = data[data[:, 0] > 0.5]
    lazy = model.predict(kept)
    assert np.isnan(lazy.shape[0])
    assert_equal(lazy, model.predict(X[X[:, 0] > 0.5]))


@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_computed_before_it_is_asked_for(fitted, method):
    model, X = fitted
    data, _ = frames(X, X["size"])
    with Count() as count, dask.config.set(scheduler="sync"):
        lazy = getattr(model, method)(data)
        assert count.n_tasks == 0
        lazy.compute()
        assert count.n_tasks > 0


@pytest.mark.parametrize("method", METHODS)
def test_partitions_without_rows_are_no_rows_of_the_answer(fitted, method):
    model, X = fitted
    data, _ = frames(X, X["size"])
    keep = X.index < 70  # of four partitions of 60 rows the first, and some of the second
    lazy = getattr(model, method)(data.map_partitions(lambda part: part[part.index < 70]))
    assert_equal(lazy, getattr(model, method)(X[keep]))


def test_categories_that_are_new_are_answered_as_in_memory(fitted):
    model, X = fitted
    other = X.assign(kind=X["kind"].replace({"x": "new"}))
    data, _ = frames(other, X["size"])
    assert_equal(model.decision_function(data), model.decision_function(other))


def test_columns_in_another_order_are_the_complaint_in_memory(fitted):
    model, X = fitted
    other = X[["kind", "age", "size"]]
    data, _ = frames(other, X["size"])
    with pytest.raises(ValueError, match="feature names") as here:
        model.predict(other)
    with pytest.raises(ValueError, match="feature names") as there:
        model.predict(data)  # before anything is computed
    assert str(there.value) == str(here.value)


def test_files_stay_partitions_of_the_answer(fitted, tmp_path):
    model, X = fitted
    for number, part in enumerate(np.array_split(np.arange(len(X)), 6)):
        X.iloc[part].to_parquet(tmp_path / f"{number}.parquet")
    data = dd.read_parquet(tmp_path)
    lazy = model.predict(data[["size", "age", "kind"]])
    assert lazy.numblocks[0] == data.npartitions == 6
    assert_equal(lazy, model.predict(X))


def test_only_the_ensemble_travels(fitted):
    model, X = fitted
    data, _ = frames(X, X["size"])
    lazy = model.predict(data)
    own = [pickle.dumps(task) for key, task in dict(lazy.dask).items() if "_predicted" in str(key)]
    assert own
    assert max(map(len, own)) < len(pickle.dumps(model.ensemble_)) + 3_000
    assert not any(b"trace_" in task or b"Round" in task for task in own)


@pytest.mark.parametrize("is_array", [False, True])
def test_the_accuracy_is_that_of_rows_in_memory(fitted_to_numbers, is_array):
    clf, X = fitted_to_numbers
    y, weight = clf.predict(X[::-1]), np.arange(len(X), dtype=float)
    data = da.from_array(X, chunks=(50, 2))
    labels = da.from_array(y, chunks=50)
    if not is_array:
        data = dd.from_pandas(pd.DataFrame(X), npartitions=3)
        labels = dd.from_pandas(pd.Series(y), npartitions=3)
    assert clf.score(data, labels) == clf.score(X, y)
    assert clf.score(data, y, weight) == pytest.approx(clf.score(X, y, weight))
    with pytest.raises(ValueError, match="y must have one value per row of X"):
        clf.score(data, y[1:])
