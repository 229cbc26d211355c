"""Collections that are a little odd: the ensembles and the complaints of memory."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client

from totalqboost import TotalQBoostClassifier
from totalqboost.boosting import scores
from totalqboost.cluster import oracle, scanning, tables
from totalqboost.cluster.training import training_examples
from totalqboost.dictionaries import Stumps
from totalqboost.dictionaries.base import Shift
from totalqboost.learners import Stump
from totalqboost.losses import Logistic

N_ROWS = 700


@pytest.fixture(scope="module")
def client():
    how = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": None}
    with Client(**how, processes=False) as client:
        yield client


@pytest.fixture(autouse=True)
def far(monkeypatch):
    """Let few rows be treated as many."""
    monkeypatch.setattr(scores, "SCORE_ROWS", 200)
    monkeypatch.setattr(oracle, "SCORE_ROWS", 200)
    monkeypatch.setattr(tables, "BLOCK_ROWS", 150)


def data():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(np.round(rng.normal(size=(N_ROWS, 2)), 1), columns=["low", "high"])
    score = X["low"] - 0.7 * X["high"] + 0.6 * rng.normal(size=N_ROWS)
    return X, (score > 0).astype(int)


def parted(values, n_parts=4):
    if isinstance(values, pd.DataFrame | pd.Series):
        return dd.from_pandas(values, npartitions=n_parts, sort=False)
    return da.from_array(values, chunks=(-(-len(values) // n_parts), *values.shape[1:]))


def model(**settings):
    return TotalQBoostClassifier(0, **{"max_learners": 2, **settings})


def assert_same(one, other):
    assert other.learners == one.learners
    np.testing.assert_allclose(other.weights, one.weights, atol=1e-10)
    assert other.features == one.features


def test_a_kept_learner_of_weight_zero_stays_where_it_is(client):
    X, y = data()
    with training_examples(parted(X), parted(y)) as examples:
        loss = Logistic()
        own = examples.X.oracle(Stumps(), examples, loss)
        stumps = [Stump(0, float(own.thresholds[0][9])), Stump(1, float(own.thresholds[1][9]))]
        own.told(stumps, np.array([0.0, 0.5]))
        z = 0.5 * own.column(stumps[1])
        weight = examples.weight
        rest = z, weight * loss.weight(z), weight, loss, 0.0
        assert own.refined(stumps[0], Shift(0.0, *rest)) is None
        assert own.refined(stumps[1], Shift(0.5, *rest)) is not None


def test_what_is_no_table_or_has_no_columns_is_refused(client):
    _, y = data()
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        model().fit(parted(y.to_numpy()), parted(y))
    with pytest.raises(ValueError, match="at least one column"):
        model().fit(da.zeros((N_ROWS, 0)), parted(y))


def test_predictions_for_what_is_no_table_are_refused_at_once():
    X, y = data()
    clf = model(max_learners=1).fit(X.to_numpy(), y)
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        clf.predict(parted(y.to_numpy()))


@pytest.mark.parametrize("n_rows", [N_ROWS - 1, 2 * N_ROWS])
def test_labels_and_weights_of_other_lengths_are_refused(client, n_rows):
    X, y = (values.to_numpy() for values in data())
    other = da.zeros(n_rows, chunks=100)
    for values in (other, np.zeros(n_rows)):
        with pytest.raises(ValueError, match="y must have one value per row of X"):
            model().fit(parted(X), values)
    with pytest.raises(ValueError, match="sample_weight must have one value per row of X"):
        model().fit(parted(X), parted(y), other)


def test_labels_must_be_given_and_in_one_column(client):
    X, _ = data()
    with pytest.raises(ValueError, match="y must hold a label for each row, got None"):
        model().fit(parted(X), None)
    with pytest.raises(ValueError, match="y should be a 1d array, got 2 columns"):
        model().fit(parted(X), parted(X))
    with pytest.raises(ValueError, match="y should be a 1d array, got 2 columns"):
        model().fit(parted(X.to_numpy()), parted(X.to_numpy()))


def test_labels_in_chunks_of_unknown_length_may_stand_beside_known_ones(client):
    X, y = data()
    here = model(max_learners=1).fit(X.to_numpy(), y)
    labels = parted(y).to_dask_array()
    there = model(max_learners=1).fit(parted(X.to_numpy()), labels)
    assert_same(here.ensemble_, there.ensemble_)


def test_categories_of_all_partitions_together_are_limited(client, monkeypatch):
    monkeypatch.setattr(scanning, "MAX_CATEGORIES", 300)
    X, y = data()
    X["id"] = [f"row {i}" for i in range(N_ROWS)]
    with pytest.raises(ValueError, match="column 'id' of X has more than 300 categories"):
        model().fit(parted(X), parted(y))


def test_a_part_without_a_column_of_the_others_is_refused(client, tmp_path):
    X, y = data()
    X.assign(y=y).to_parquet(tmp_path / "0.parquet")
    X[["low"]].assign(y=y).to_parquet(tmp_path / "1.parquet")
    frame = dd.read_parquet(tmp_path)
    with pytest.raises(ValueError, match=r"does not have the columns of the others .*high"):
        model().fit(frame[["low", "high"]], frame["y"])


def test_weights_that_are_nothing_beside_the_others_are_refused(client):
    X, y = data()
    weight = pd.Series(np.where(np.arange(N_ROWS) % 2, 1e300, 1e-300))
    with pytest.raises(ValueError, match="nothing beside the others, got 1e-300 beside 1e"):
        model().fit(parted(X), parted(y), parted(weight))


def test_a_kept_row_of_a_weight_that_is_small_counts_as_in_memory(client):
    X, y = data()
    weight = pd.Series(np.where(np.arange(N_ROWS) % 2, 1e-9, 1.0))
    here = model(max_learners=1).fit(X, y, weight)
    there = model(max_learners=1).fit(parted(X), parted(y), parted(weight))
    assert_same(here.ensemble_, there.ensemble_)
