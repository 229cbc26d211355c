"""Collections of Dask without a cluster: a worker in this process, gone when the work is done."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psutil
import pytest
from cluster_data import frames, on_a_full_disk, table
from distributed import Client
from distributed.client import _get_global_client

from totalqboost import TotalQBoostClassifier
from totalqboost.cluster.collections import cluster_client
from totalqboost.cluster.connect import ClusterError


def model():
    return TotalQBoostClassifier(0, max_learners=2, exchange=False)


def listening():
    sockets = psutil.Process().net_connections("inet")
    return {s.laddr for s in sockets if s.status == psutil.CONN_LISTEN}


def state():
    """Return what is open: clients, sockets and threads, but for one that Dask keeps."""
    clients = {own.id for own in Client._instances if own.scheduler is not None}
    threads = {t.name for t in threading.enumerate()} - {"Dask-Offload_0"}
    return clients, listening(), threads


def test_a_fit_leaves_nothing_open():
    before = state()
    X, y = table()
    found = model().fit(*frames(X, y))
    assert found.ensemble_.learners == model().fit(X, y).ensemble_.learners
    assert _get_global_client() is None
    assert state() == before


def test_a_fit_that_fails_leaves_nothing_open():
    before = state()
    X, y = table()
    data, labels = frames(X, y)
    with pytest.raises(ClusterError, match="No space left on device"):
        model().fit(data.map_partitions(on_a_full_disk, meta=X[:0]), labels)
    with pytest.raises(ValueError, match="as many partitions as X"):
        model().fit(frames(X, y)[0], frames(X, y, 3)[1])
    assert _get_global_client() is None
    assert state() == before


def test_it_is_for_this_process_and_shows_no_dashboard():
    before = listening()
    with cluster_client() as client:
        assert client.scheduler.address.startswith("inproc://")
        assert {address.ip for address in listening() - before} == {"127.0.0.1"}
        assert list(client.cluster.scheduler.http_application.applications) == []


def test_two_fits_at_once_do_not_close_the_cluster_of_each_other():
    tables = [table(seed=seed) for seed in (1, 2)]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda own: model().fit(*frames(*own)), tables))
    for own, (X, y) in zip(found, tables, strict=True):
        np.testing.assert_allclose(own.ensemble_.weights, model().fit(X, y).ensemble_.weights)
