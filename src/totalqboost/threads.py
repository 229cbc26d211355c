"""Threads for kernels, which do not hold the GIL: how many, and work shared out in order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits  # comes with scikit-learn

__all__ = ["Workers", "n_threads", "one_blas_thread", "share_out"]

Item = TypeVar("Item")
Result = TypeVar("Result")


def n_threads(n_jobs: int | None) -> int:
    """Return the number of threads for scikit-learn's ``n_jobs``: None is 1, -1 is all."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0; None is 1, -1 is all")
    if n_jobs is None:
        return 1
    return n_jobs if n_jobs > 0 else max(1, (available or 1) + 1 + n_jobs)


def share_out(n_items: int, n_threads: int, work: Callable[[int, int], None]) -> None:
    """Do ``work(first, last)`` for parts of the items that together are all of them.

    Each part has items of its own: what comes out does not depend on the number of threads.
    """
    if n_threads == 1:
        work(0, n_items)
        return
    limits = np.linspace(0, n_items, 4 * n_threads + 1).astype(int).tolist()
    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(work, limits[:-1], limits[1:]))


class Workers:
    """Up to ``n_jobs`` threads; with one, the caller's own does the work."""

    def __init__(self, n_jobs: int | None = None):
        n = n_threads(n_jobs)
        self._pool = ThreadPoolExecutor(n) if n > 1 else None

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Return the results in the order of the items."""
        if self._pool is None:
            return [function(item) for item in items]
        return list(self._pool.map(function, items))

    def close(self) -> None:
        """Wait for what is under way; drop what is not."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def one_blas_thread() -> AbstractContextManager[Any]:
    """Return a context in which BLAS has one thread.

    For matrices of some dozen rows more of them only wait for each other, and how they share
    a sum would decide its last digits.
    """
    return threadpool_limits(limits=1, user_api="blas")
