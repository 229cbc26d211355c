"""Collections of Dask: what they are, and their partitions side by side.

Dask is imported inside functions only: who has no collection need not have it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from totalqboost.cluster.connect import HERE, check_installed
from totalqboost.tabular import column_names, is_collection

if TYPE_CHECKING:
    from distributed import Client

__all__ = [
    "Partitions",
    "check_row_count",
    "cluster_client",
    "columns_of",
    "partitions",
    "partitions_of",
]


@contextmanager
def cluster_client() -> Iterator[Client]:
    """Give the client that is open, or one of a worker in this process, with a thread per core.

    That one is nobody else's: it is closed at the end, and another thread may be at work then.
    A task that asks makes room for the tasks that it waits for.
    """
    check_installed()
    from distributed import Client, get_client, worker_client

    if _is_in_a_task():
        with worker_client() as client:
            yield client
        return
    try:
        client = get_client()
    except ValueError:
        client = None  # none is open
    if client is not None:
        yield client
        return
    with _cluster_here() as cluster, Client(cluster, set_as_default=False) as own:
        yield own


def _is_in_a_task() -> bool:
    from distributed import get_worker

    try:
        get_worker()
    except ValueError:
        return False
    return True


def _cluster_here() -> Any:
    """Return a cluster that nobody else can reach: messages never leave the process.

    Dask always serves its metrics; here on this machine only, and without a dashboard.
    """
    from dask.system import CPU_COUNT
    from distributed import Scheduler, SpecCluster, Worker

    own = {"protocol": "inproc://", "dashboard": False, "dashboard_address": f"{HERE}:0"}
    return SpecCluster(
        workers={0: {"cls": Worker, "options": {"nthreads": CPU_COUNT, **own}}},
        scheduler={"cls": Scheduler, "options": own},
        silence_logs=logging.CRITICAL,
    )


@dataclass(frozen=True, eq=False)
class Partitions:
    """The parts of a collection with those of labels and weights beside them, not yet computed."""

    X: list[Any]
    y: list[Any]
    weight: list[Any]  # None where there are none

    def __len__(self) -> int:
        return len(self.X)


def partitions_of(X: Any) -> tuple[list[float], list[Any]]:
    """Return sizes, NaN if they are not known, and partitions of a collection."""
    X = _whole_rows(X)
    parts = _parts(X)
    sizes = X.chunks[0] if hasattr(X, "rechunk") else [np.nan] * len(parts)
    return list(sizes), parts


def partitions(X: Any, y: Any, sample_weight: Any = None) -> Partitions:
    """Return the partitions of X, and those of y and of weights that belong to them."""
    X = _whole_rows(X)
    own = _parts(X)
    weight = [None] * len(own)
    if sample_weight is not None:
        if np.ndim(sample_weight) != 1:
            shape = np.shape(sample_weight)
            raise ValueError(f"sample_weight must have one value per row of X, got shape {shape}")
        weight = _beside(X, sample_weight, len(own), "sample_weight")
    return Partitions(own, _beside(X, y, len(own), "y"), weight)


def columns_of(X: Any) -> Any:
    """Return a small table that has the columns of a collection; complain if there are none."""
    if X.ndim != 2:
        raise ValueError(f"X: Expected 2D array, got {X.ndim}D array instead")
    if not X.shape[1]:
        raise ValueError("X must have at least one column, got 0 feature(s)")
    return X._meta if column_names(X) else np.broadcast_to(0.0, (1, X.shape[1]))


def _whole_rows(X: Any) -> Any:
    """Return the collection with all columns of a row in one partition."""
    columns_of(X)
    return X.rechunk({1: -1}) if hasattr(X, "rechunk") and len(X.chunks[1]) > 1 else X


def _parts(collection: Any) -> list[Any]:
    """Return the partitions, as many as the collection says.

    Dask reads several files as one partition if few of their columns are asked for, so that X and
    y of the same files would not fit together: only the choice of columns is optimised.
    """
    if hasattr(collection, "simplify"):
        parts: list[Any] = collection.simplify().to_delayed(optimize_graph=False)
        return parts
    parts = np.ravel(np.array(collection.to_delayed(), dtype=object)).tolist()
    return parts


def _beside(X: Any, values: Any, n_parts: int, name: str) -> list[Any]:
    """Return values of rows in the partitions of X."""
    if values is None:
        raise ValueError(f"{name} must hold a label for each row, got None")
    if not is_collection(values):
        return _split(X, np.asarray(values), name)
    if values.ndim > 1 and values.shape[1] != 1:
        raise ValueError(f"{name} should be a 1d array, got {values.shape[1]} columns instead")
    are_arrays = hasattr(X, "rechunk") and hasattr(values, "rechunk")
    if are_arrays and not np.isnan(X.shape[0] + values.shape[0]):
        check_row_count(name, values.shape[0], X.shape[0])
        values = values.rechunk({0: X.chunks[0]})
    if values.ndim > 1:
        values = values[:, 0] if hasattr(values, "rechunk") else values.iloc[:, 0]
    parts = _parts(values)
    if len(parts) != n_parts:
        raise ValueError(
            f"{name} must have as many partitions as X ({n_parts}), got {len(parts)}; make them "
            "alike with repartition or rechunk"
        )
    return parts


def _split(X: Any, values: np.ndarray, name: str) -> list[Any]:
    """Return parts of an array of the driver as long as the partitions of X."""
    sizes = _sizes(X)
    check_row_count(name, len(values), sum(sizes))
    return np.split(values, np.cumsum(sizes)[:-1])


def check_row_count(name: str, n_values: int, n_rows: int) -> None:
    if n_values != n_rows:
        raise ValueError(f"{name} must have one value per row of X ({n_rows}), got {n_values}")


def _sizes(X: Any) -> Sequence[int]:
    """Return the numbers of rows of the partitions; those of data frames are counted."""
    if hasattr(X, "rechunk") and not np.isnan(X.shape[0]):
        sizes: Sequence[int] = X.chunks[0]
        return sizes
    from dask import compute, delayed

    counted: Sequence[int] = compute(*[delayed(len)(part) for part in _parts(X)])
    return counted
