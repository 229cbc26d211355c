"""Collections that are a little odd: the ensembles and the complaints of memory."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client

from totalqboost import TotalQBoostClassifier
from totalqboost.boosting import scores
from totalqboost.cluster import oracle, tables
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
