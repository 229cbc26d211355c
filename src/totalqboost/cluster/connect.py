"""A client of a Dask cluster: one that runs, or one of our own on this machine.

What is opened here is closed here, also if the work fails. Workers execute what the driver sends,
so their releases of what decides numbers must be the driver's.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from totalqboost.interruption import held_back
from totalqboost.parameters import check_integer, short
from totalqboost.solving import SolverError

if TYPE_CHECKING:
    from distributed import Client as Client  # for others to name

__all__ = [
    "HERE",
    "OPEN",
    "ClusterError",
    "check_installed",
    "connected",
    "dashboard_link",
    "difference",
    "releases",
]

TIMEOUT = 10  # seconds for a scheduler or a first worker to answer
GROWING = 120  # for a first worker of a cluster that can start some
OPEN = "running"  # what Dask calls it
HERE = "127.0.0.1"
PACKAGES = ("totalqboost", "numpy", "scipy", "scikit-learn", "numba")


class ClusterError(SolverError):
    """The cluster cannot do the work; the message says what to do.

    A fit keeps what it had found, as with a solver that fails.

    Examples
    --------
    >>> from totalqboost.cluster import ClusterError, connected
    >>> try:
    ...     with connected("tcp://127.0.0.1:1"):
    ...         pass
    ... except ClusterError as error:
    ...     print(str(error)[:51])
    the scheduler tcp://127.0.0.1:1 cannot be reached (
    """


@contextmanager
def connected(
    scheduler: str | None = None, workers: int | None = None, client: Client | None = None
) -> Iterator[Client]:
    """Give a client of a cluster; exactly one argument says of which.

    Parameters
    ----------
    scheduler : str, optional
        Address of a running scheduler, such as "tcp://10.0.0.1:8786". The client is closed at
        the end; scheduler and workers go on.
    workers : int, optional
        Start that many worker processes of one thread on this machine, which nobody else can
        reach. They end at the end.
    client : distributed.Client, optional
        A client of yours, which stays open.

    Yields
    ------
    distributed.Client
        Open until the end of the ``with`` block. Its workers have the driver's releases.

    Examples
    --------
    >>> from totalqboost.cluster import connected
    >>> with connected(workers=1) as client:  # doctest: +SKIP
    ...     clf.fit(X, y)  # arrays or data frames of Dask
    """
    if sum(given is not None for given in (scheduler, workers, client)) != 1:
        raise ValueError("exactly one of scheduler, workers and client must be given")
    check_installed()
    if client is not None:
        yield _checked(_running(client))
    elif scheduler is not None:
        _check_reachable(scheduler)
        with _client_of(scheduler) as opened:
            yield _checked(opened)
    else:
        with _cluster(check_integer("workers", workers, 1)) as cluster, _client_of(cluster) as own:
            yield _checked(own)


def dashboard_link(client: Client) -> str | None:
    """Return where to watch the cluster, None if its scheduler shows nothing."""
    try:
        link: str | None = client.dashboard_link
    except KeyError:  # a scheduler without a dashboard has no port for it
        return None
    return link or None


def releases() -> dict[str, str]:
    """Return the releases here of what decides numbers: the same give the same rows."""
    found = {"python": ".".join(platform.python_version_tuple()[:2])}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return found


def difference(here: Mapping[str, str], there: Mapping[str, str]) -> str | None:
    """Return how the releases of a worker differ from the driver's, None if they do not."""
    for name, release in here.items():
        if there[name] != release:
            return (
                f"has {name} {there[name]} and the driver {release}; "
                "install the same releases on both"
            )
    return None


def check_installed() -> None:
    """Raise if Dask is not installed; the sentence names the extra."""
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise ClusterError(
            f'a cluster needs Dask ({error}); pip install "totalqboost[dask]"'
        ) from error


def _running(client: Any) -> Client:
    from distributed import Client

    if not isinstance(client, Client):
        raise ValueError(f"client must be a distributed.Client, got {short(client)}")
    if client.asynchronous:
        raise ValueError("client must not be asynchronous; open one without asynchronous=True")
    if client.status != OPEN:
        raise ClusterError(f"client must be open, got one that is {client.status}")
    return client


@contextmanager
def _cluster(n_workers: int) -> Iterator[Any]:
    """Start processes that listen on this machine only."""
    from distributed import LocalCluster

    listening = {"host": HERE, "worker_dashboard_address": f"{HERE}:0"}
    try:
        with held_back(n_workers + 1):  # Ctrl-C is for the driver
            cluster = LocalCluster(
                n_workers=n_workers,
                threads_per_worker=1,
                processes=True,
                dashboard_address=f"{HERE}:0",
                silence_logs=logging.CRITICAL,  # a lost worker is the scheduler's business
                **listening,
            )
    except (OSError, RuntimeError) as error:
        raise ClusterError(f"{n_workers} workers cannot be started here: {error}") from error
    with cluster:
        yield cluster


@contextmanager
def _client_of(scheduler: Any) -> Iterator[Client]:
    """Open a client and close it; what it loses is told in a sentence, not in logs."""
    from distributed import Client
    from distributed.utils import silence_logging_cmgr

    with silence_logging_cmgr(logging.CRITICAL):
        client = Client(scheduler, timeout=TIMEOUT)
        try:
            yield client
        finally:
            client.close()


def _check_reachable(scheduler: str) -> None:
    """Raise unless someone answers: a client that nobody answers tries to the end of its life."""
    from distributed.core import connect
    from distributed.security import Security
    from distributed.utils import LoopRunner

    async def knock() -> None:
        how = Security().get_connection_args("client")
        await (await connect(scheduler, timeout=TIMEOUT, **how)).close()

    loop = LoopRunner()
    loop.start()
    try:
        loop.run_sync(knock)
    except (OSError, TypeError, ValueError) as error:  # no answer, no certificate, no address
        why = (str(error) or type(error).__name__).splitlines()[0]
        raise ClusterError(
            f"the scheduler {scheduler} cannot be reached ({why}); give --scheduler or scheduler= "
            "an address such as tcp://10.0.0.1:8786, and Dask its certificates if it begins with "
            "tls://"
        ) from error
    finally:
        loop.stop()


def _checked(client: Client) -> Client:
    """Return a client whose workers have the driver's releases; wait for the first one.

    A cluster that grows with its work needs a task to begin, and time.
    """
    timeout = TIMEOUT if client.cluster is None else GROWING
    try:
        if not client.nthreads():
            client.submit(releases, pure=False).exception(timeout=timeout)
    except TimeoutError:
        address = client.scheduler.address
        raise ClusterError(
            f"no worker has joined the scheduler {address} within {timeout} seconds; "
            f"start some: dask worker {address}"
        ) from None
    here = releases()
    for worker, there in sorted(client.run(releases, on_error="return").items()):
        if isinstance(there, BaseException):  # no TotalQBoost, or one that knows no clusters
            raise ClusterError(f"the worker {worker} cannot run TotalQBoost: {there}")
        differs = difference(here, there)
        if differs:
            raise ClusterError(f"the worker {worker} {differs}")
    return client
