"""What goes wrong on a cluster costs time, or is one sentence, and what was found is kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import pairwise

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pytest
from cluster_data import failing, frames, on_a_full_disk, parts, table
from cluster_parts import PROGRAM

from totalqboost import TotalQBoostClassifier, frontier
from totalqboost.boosting import Round, Searched, scores
from totalqboost.cluster import connect, oracle
from totalqboost.cluster.connect import ClusterError, connected
from totalqboost.solving import Status

QUICK = {"max_learners": 3, "exchange": False}


@pytest.fixture(autouse=True)
def far(monkeypatch):
    """Let few rows be searched on the workers, not on the driver."""
    monkeypatch.setattr(scores, "SCORE_ROWS", 100)
    monkeypatch.setattr(oracle, "SCORE_ROWS", 100)


@pytest.fixture(scope="module")
def client():
    with connected(workers=3) as client:
        yield client


@pytest.fixture
def doomed():
    """A cluster of the test's own: how soon a killed worker is replaced is Dask's affair."""
    with connected(workers=3) as client:
        yield client


def model(**settings):
    return TotalQBoostClassifier(0, **{**QUICK, **settings})


def assert_same(one, other):
    assert one.learners == other.learners
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-6)


class Kill:
    """At the n-th event, kill workers as a machine that fails would."""

    def __init__(self, client, n_workers, at=1):
        self.client, self.n_workers, self.at = client, n_workers, at

    def __call__(self, event):
        assert isinstance(event, Round | Searched)
        self.at -= 1
        if self.at == 0:
            for number in list(self.client.run(os.getpid).values())[: self.n_workers]:
                os.kill(number, signal.SIGKILL)


# -- workers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("exchange", [False, True])
def test_a_killed_worker_costs_time_and_not_the_result(doomed, exchange):
    X, y = table()
    whole = model(exchange=exchange, max_learners=2).fit(X, y)
    kill = Kill(doomed, 1)
    found = model(exchange=exchange, max_learners=2).fit(*frames(X, y), on_event=kill)
    assert kill.at <= 0
    assert_same(found.ensemble_, whole.ensemble_)


def test_two_fits_at_once_are_those_of_one_after_the_other(client):
    tables = [table(seed=seed) for seed in (1, 2)]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda own: model().fit(*frames(*own)), tables))
    for own, (X, y) in zip(found, tables, strict=True):
        assert_same(own.ensemble_, model().fit(X, y).ensemble_)


@pytest.mark.parametrize(("n_classes", "exchange"), [(2, False), (3, True)])
def test_data_that_cannot_be_made_again_is_a_sentence_and_what_was_found_is_kept(
    doomed, n_classes, exchange
):
    X, y = table(n_classes=n_classes)
    scattered = doomed.scatter(parts(X))
    kill = Kill(doomed, 3, at=2 if exchange else 3)
    own = model(exchange=exchange, max_learners=5)
    with pytest.raises(ClusterError) as failed:
        own.fit(dd.from_delayed(scattered, meta=X[:0]), y.to_numpy(), on_event=kill)
    assert "was lost with its worker and cannot be made again" in str(failed.value)
    assert own.status_ is Status.SOLVER_FAILED
    assert own.trace_
    assert own.ensemble_.n_learners >= 1
    assert (own.predict(X) == y).mean() > 0.5


def test_the_sizes_of_a_frontier_that_were_found_are_kept(doomed):
    X, y = table()
    scattered = doomed.scatter(parts(X))
    with pytest.raises(ClusterError) as failed:
        frontier(
            dd.from_delayed(scattered, meta=X[:0]),
            y.to_numpy(),
            max_learners=5,
            on_event=Kill(doomed, 3, at=2),
        )
    assert failed.value.result.points[-1].n_learners >= 1


def test_data_lost_before_the_first_round_leaves_the_model_as_it_was(client):
    X, y = table()
    own = model().fit(X, y)
    before = own.ensemble_
    scattered = client.scatter(parts(X))
    lost = dd.from_delayed(scattered, meta=X[:0])
    client.cancel(scattered)
    with pytest.raises(ClusterError, match="cannot be made again"):
        own.fit(lost, y.to_numpy())
    assert own.ensemble_ is before


def test_a_full_disk_of_a_worker_is_a_sentence(client):
    X, y = table()
    data, labels = frames(X, y)
    with pytest.raises(ClusterError) as failed:
        model().fit(data.map_partitions(on_a_full_disk, meta=X[:0]), labels)
    assert "a worker cannot read or write: No space left on device" in str(failed.value)


def test_another_release_on_a_worker_is_a_sentence(client, monkeypatch):
    whole = connect.version
    monkeypatch.setattr(connect, "version", lambda p: "0.1" if p == "numba" else whole(p))
    with pytest.raises(ClusterError, match=r"and the driver 0\.1; install the same releases"):
        model().fit(*frames(*table()))


# -- the scheduler -----------------------------------------------------------------------------


def test_a_lost_scheduler_is_a_sentence_and_what_was_found_is_kept():
    X, y = table()
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True)
    events = []

    def kill(event):
        events.append(event)
        if len(events) == 2:
            process.kill()

    own = model(max_learners=5)
    with process, closing(process.stdout):
        address = process.stdout.readline().strip()
        with connected(address), pytest.raises(ClusterError) as failed:
            own.fit(*frames(X, y), on_event=kill)
    assert f"the connection to the scheduler {address} is lost" in str(failed.value)
    assert len(own.trace_) == 2


def test_a_cluster_that_is_closed_is_a_sentence_and_what_was_found_is_kept():
    events = []
    own = model(max_learners=5)
    with connected(workers=1) as client:

        def close(event):
            events.append(event)
            if len(events) == 2:
                client.close()

        with pytest.raises(
            ClusterError, match=r"^the connection to the scheduler( tcp\S+)? is lost"
        ):
            own.fit(*frames(*table()), on_event=close)
    assert len(own.trace_) == 2


# -- errors of the data ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (
            TimeoutError("read of x timed out"),
            ClusterError,
            "cannot read or write: read of x timed",
        ),
        (ConnectionError("db gone"), ClusterError, "cannot read or write: db gone"),
        (KeyError("my lookup"), ValueError, "cannot be made, or .* \\(KeyError: 'my lookup'\\)"),
    ],
)
def test_an_error_of_a_part_is_told_with_its_words(client, error, kind, said):
    X, y = table()
    data, labels = frames(X, y)
    with pytest.raises(kind, match=said):
        model().fit(data.map_partitions(failing, error, meta=X[:0]), labels)


def test_parts_with_columns_in_another_order_are_refused(client):
    X, y = table()
    own = [dask.delayed(x) for x in (X[:100], X[100:].iloc[:, ::-1])]
    data = dd.from_delayed(own, meta=X[:0], verify_meta=False)
    with pytest.raises(ValueError, match="same columns in the same order in all partitions"):
        model().fit(data, y.to_numpy())


@pytest.mark.parametrize(
    ("weight", "said"),
    [
        (1.0, r"one value per row of X, got shape \(\)"),
        (np.ones((240, 2)), r"one value per row of X, got shape \(240, 2\)"),
        (da.ones((240, 1)), r"one value per row of X, got shape \(240, 1\)"),
        (np.full(240, "much"), "sample_weight must hold numbers, got "),
    ],
)
def test_weights_that_are_none_are_refused(client, weight, said):
    with pytest.raises(ValueError, match=said):
        model().fit(*frames(*table()), sample_weight=weight)


def infinite(X, y):
    return X.assign(age=X["age"].mask(X.index == 100, np.inf)), y


def unlabelled(X, y):
    return X, y.where((y.index < 100) | (y.index > 110))


def of_one_class(X, y):
    return X, y.where(y == "class0", "class0")


def of_two_types(X, y):
    return X, y.mask(y.index > 150, 1)


def of_dates(X, y):
    return X.assign(day=np.datetime64("2020-01-01")), y


@pytest.mark.parametrize("spoil", [infinite, unlabelled, of_one_class, of_two_types, of_dates])
def test_bad_data_is_the_sentence_of_the_fit_in_memory(client, spoil):
    X, y = spoil(*table())
    with pytest.raises((ValueError, TypeError)) as here:
        model().fit(X, y)
    with pytest.raises(here.type) as there, dask.config.set({"dataframe.convert-string": False}):
        model().fit(*frames(X, y))
    assert str(there.value) == str(here.value)


def test_a_column_of_numbers_and_text_is_named(client):
    X, y = table()
    first, *others = parts(X)
    pieces = [first.assign(kind=1.0), *others]
    data = dd.from_delayed([dask.delayed(piece) for piece in pieces], meta=X[:0], verify_meta=False)
    with pytest.raises(TypeError, match="column 'kind' of X holds numbers in some partitions"):
        model().fit(data, y.to_numpy())


def test_labels_in_other_partitions_than_the_rows_are_counted(client):
    X, y = table()
    with pytest.raises(ValueError, match=r"y must have as many partitions as X \(4\), got 3"):
        model().fit(frames(X, y)[0], frames(X, y, 3)[1])


def test_labels_in_partitions_of_other_lengths_are_counted(client):
    X, y = table()
    data = dd.from_delayed([dask.delayed(part) for part in parts(X)], meta=X[:0])
    limits = [0, 50, 120, 180, 240]
    pieces = [y[a:b] for a, b in pairwise(limits)]
    labels = dd.from_delayed([dask.delayed(piece) for piece in pieces], meta=y[:0])
    with pytest.raises(ValueError, match="y must have as many rows as X"):
        model().fit(data, labels)


def test_too_few_labels_are_counted(client):
    X, y = table()
    with pytest.raises(ValueError, match=r"y must have one value per row of X \(240\), got 239"):
        model().fit(frames(X, y)[0], y.to_numpy()[1:])
