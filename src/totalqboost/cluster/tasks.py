"""One function over many items on the workers of a cluster; results as they come.

joblib's Dask backend is not used here: it waits for ever for a task that no worker survives, and
for one that was lost with the scheduler.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from totalqboost.cluster.connect import ClusterError, difference, releases

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["completed"]

Item = TypeVar("Item")
Result = TypeVar("Result")

# In a worker of several threads: what tasks keep for the next one is not made for two at once.
ONE_AT_A_TIME = threading.Lock()


def completed(
    client: Client, function: Callable[[Item], Result], items: Iterable[Item]
) -> Generator[Result, None, None]:
    """Yield the results in the order in which they come.

    A task whose worker is lost is run again on another one. An exception of the function is
    raised as it is; what the cluster cannot do is a :class:`ClusterError`. What is still to be
    done when the caller stops is dropped.
    """
    from distributed import CancelledError, as_completed
    from distributed.scheduler import KilledWorker

    here, address = releases(), client.scheduler.address
    futures = [client.submit(_called, function, item, here, pure=False) for item in items]
    try:
        for future in as_completed(futures):
            yield future.result()
            futures.remove(future)  # the cluster may forget it
    except KilledWorker as error:
        raise ClusterError(
            "a task was given up after several workers that ran it had died; give workers more "
            f"memory, or look into their logs ({error.last_worker.address} was the last)"
        ) from error
    except (CancelledError, OSError) as error:  # workers tell of theirs in a ClusterError
        futures.clear()
        raise ClusterError(f"the scheduler {address} was lost, or has dropped the work") from error
    except ModuleNotFoundError as error:  # what the function is made of
        raise ClusterError(
            f"a worker cannot do the work ({error}); install the same releases everywhere"
        ) from error
    finally:
        if futures:
            client.cancel(futures, force=True)


def _called(function: Callable[[Item], Result], item: Item, driver: Mapping[str, str]) -> Result:
    """Return the function's result on a worker, which may have joined since the others."""
    differs = difference(driver, releases())
    if differs:
        raise ClusterError(f"the worker {_address()} {differs}")
    with ONE_AT_A_TIME:
        try:
            return function(item)
        except OSError as error:  # of its machine, not of the driver's
            raise ClusterError(f"the worker {_address()} cannot go on: {error}") from error


def _address() -> str:
    from distributed import get_worker

    return get_worker().address
