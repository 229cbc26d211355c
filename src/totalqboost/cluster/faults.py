"""What goes wrong on a cluster, in one sentence each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from totalqboost.cluster.connect import OPEN, ClusterError

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["told_plainly"]


@contextmanager
def told_plainly(client: Client) -> Iterator[None]:
    """Turn what Dask raises into one sentence; errors of the data stay as they are."""
    from concurrent.futures import CancelledError as LocalCancelledError

    from distributed import CancelledError, KilledWorker
    from distributed.client import ClosedClientError
    from distributed.comm.core import CommClosedError

    try:
        yield
    except KilledWorker as error:
        raise ClusterError(
            f"workers that took up a part of the data died, {_times(error)}, the last one at "
            f"{_address(error)}; give workers more memory, or make partitions smaller"
        ) from error
    except (CancelledError, LocalCancelledError) as error:
        if not _is_there(client):
            raise ClusterError(_lost(client)) from error
        raise ClusterError(
            "a part of the data was lost with its worker and cannot be made again: data that was "
            "scattered, or persisted and then changed, exists once; read it from files, or from "
            "a graph"
        ) from error
    except (CommClosedError, ClosedClientError) as error:
        raise ClusterError(_lost(client)) from error
    except KeyError as error:
        raise ValueError(
            "a part of the data cannot be made, or does not have the columns of the others "
            f"(KeyError: {error}); give all parts, or files, the same columns"
        ) from error
    except OSError as error:
        if isinstance(error, TimeoutError) and not _is_there(client):
            raise ClusterError(_lost(client)) from error
        raise ClusterError(
            f"a worker cannot read or write: {error.strerror or error}; check that it sees what "
            "it reads, and that its disk has room"
        ) from error


def _is_there(client: Client) -> bool:
    return client.status == OPEN


def _lost(client: Client) -> str:
    address = getattr(client.scheduler, "address", "")  # a client that was closed has none
    scheduler = f"the scheduler {address}".rstrip()
    return f"the connection to {scheduler} is lost; start it again and fit anew"


def _times(error: Any) -> str:
    allowed = getattr(error, "allowed_failures", None)
    return "again and again" if allowed is None else f"{allowed + 1} times"


def _address(error: Any) -> str:
    return str(getattr(getattr(error, "last_worker", None), "address", "an unknown address"))
