"""A client of a cluster: what it reaches, what it says if it cannot, and that it is closed."""

from __future__ import annotations

import asyncio
import builtins
import os
import time

import psutil
import pytest
from cluster_parts import die, fill_disk, fitted, squared
from distributed import Client

from totalqboost.cluster import connect, tasks
from totalqboost.cluster.connect import ClusterError, connected, dashboard_link
from totalqboost.cluster.tasks import completed


@pytest.fixture(scope="module")
def client():
    with connected(workers=2) as client:
        yield client


def test_workers_are_processes_of_one_thread(client):
    assert list(client.nthreads().values()) == [1, 1]
    numbers = client.run(os.getpid).values()
    assert len({os.getpid(), *numbers}) == 3


def test_nothing_listens_on_other_interfaces(client):
    listening = []
    for number in (os.getpid(), *client.run(os.getpid).values()):
        sockets = psutil.Process(number).net_connections("inet")
        listening += [s.laddr.ip for s in sockets if s.status == psutil.CONN_LISTEN]
    assert len(listening) >= 3  # the scheduler, and each worker
    assert set(listening) == {"127.0.0.1"}


def test_the_link_of_the_dashboard_is_of_this_machine(client):
    assert dashboard_link(client).startswith("http://127.0.0.1:")


def test_results_come_as_they_are_done(client):
    assert sorted(completed(client, squared, range(20))) == [x * x for x in range(20)]


def test_an_exception_of_the_function_is_raised_as_it_is(client):
    with pytest.raises(ArithmeticError, match="no square of -1"):
        list(completed(client, squared, [-1]))
    assert list(completed(client, squared, [3])) == [9]


def test_a_fit_in_a_task_makes_room_for_its_own_tasks():
    with connected(workers=1) as client:
        found = client.submit(fitted).result(timeout=120)
    assert found == fitted(is_collection=False)


def test_a_full_disk_of_a_worker_is_a_sentence(client):
    with pytest.raises(ClusterError) as failed:
        list(completed(client, fill_disk, [0]))
    assert str(failed.value).startswith("the worker tcp://127.0.0.1:")
    assert "No space left on device" in str(failed.value)


def test_a_task_that_kills_every_worker_is_given_up():
    with connected(workers=1) as client:
        client.cluster.scheduler.allowed_failures = 0
        with pytest.raises(ClusterError, match="several workers that ran it had died"):
            list(completed(client, die, [0]))


def test_what_is_not_done_is_dropped_with_the_iterator(client):
    results = completed(client, time.sleep, [0.01] * 200)
    next(results)
    results.close()
    scheduler = client.cluster.scheduler
    deadline = time.monotonic() + 60
    while scheduler.tasks and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not scheduler.tasks


def test_a_client_of_the_user_stays_open(client):
    with connected(client=client) as same:
        assert same is client
    assert client.run(squared, 2)


def test_a_client_is_closed_though_the_work_has_failed(client):
    with pytest.raises(ArithmeticError), connected(client.scheduler.address) as own:
        list(completed(own, squared, [-1]))
    assert own is not client
    assert own.scheduler is None
    with pytest.raises(ClusterError, match="client must be open"), connected(client=own):
        pass


def test_another_release_on_a_worker_is_a_sentence(client, monkeypatch):
    whole = connect.version
    monkeypatch.setattr(connect, "version", lambda p: "0.1" if p == "numba" else whole(p))
    with pytest.raises(ClusterError) as failed, connected(client=client):
        pass
    assert "and the driver 0.1; install the same releases on both" in str(failed.value)


def test_another_release_on_a_worker_that_joins_later_is_a_sentence(client, monkeypatch):
    ours = {**connect.releases(), "totalqboost": "0.0.1"}
    monkeypatch.setattr(tasks, "releases", lambda: ours)
    with pytest.raises(ClusterError, match=r"has totalqboost .* and the driver 0\.0\.1"):
        list(completed(client, squared, [1]))


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("tcp://127.0.0.1:1", "Timed out"),
        ("abc://nowhere", "unknown address scheme"),
        ("tls://127.0.0.1:1", "TLS"),
    ],
)
def test_a_scheduler_that_does_not_answer_is_a_sentence(address, why, monkeypatch):
    monkeypatch.setattr(connect, "TIMEOUT", 0.5)
    with pytest.raises(ClusterError) as failed, connected(address):
        pass
    assert str(failed.value).startswith(f"the scheduler {address} cannot be reached ({why}")


def test_a_scheduler_without_workers_is_a_sentence(monkeypatch):
    from distributed import LocalCluster

    monkeypatch.setattr(connect, "TIMEOUT", 0.5)
    place = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with (
        LocalCluster(n_workers=0, **place) as cluster,
        pytest.raises(ClusterError, match=r"no worker has joined the scheduler .*dask worker tcp"),
        connected(cluster.scheduler_address),
    ):
        pass


def test_a_cluster_that_grows_with_its_work_is_waited_for():
    from distributed import Client, LocalCluster

    place = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(n_workers=0, **place) as cluster, Client(cluster) as client:
        cluster.adapt(minimum=0, maximum=1, interval="100ms")
        with connected(client=client):
            assert len(client.nthreads()) == 1


def test_without_dask_the_extra_is_named(monkeypatch):
    whole = builtins.__import__

    def without(name, *rest):
        if name.startswith("distributed"):
            raise ImportError("No module named 'distributed'")
        return whole(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    wanted = r'pip install "totalqboost\[dask\]"'
    with pytest.raises(ClusterError, match=wanted), connected(workers=1):
        pass


@pytest.mark.parametrize("given", [{}, {"scheduler": "tcp://a:1", "workers": 2}])
def test_one_cluster_is_asked_for(given):
    wanted = "exactly one of scheduler, workers and client"
    with pytest.raises(ValueError, match=wanted), connected(**given):
        pass


@pytest.mark.parametrize("given", [{"workers": 0}, {"client": "tcp://a:1"}])
def test_a_wrong_argument_is_named(given):
    with pytest.raises(ValueError, match=f"{next(iter(given))} must be"), connected(**given):
        pass


def test_an_asynchronous_client_is_refused():
    async def opened():
        how = {"n_workers": 0, "processes": False, "dashboard_address": None}
        async with Client(**how, asynchronous=True) as client:
            with pytest.raises(ValueError, match="must not be asynchronous"):
                connected(client=client).__enter__()

    asyncio.run(opened())
