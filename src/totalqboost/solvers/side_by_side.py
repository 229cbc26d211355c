"""Parts of one search side by side: in threads, processes or the workers of a Dask cluster.

Which of them is joblib's business: threads, unless the caller says
``joblib.parallel_config("loky")`` or ``"dask"``. What comes out depends on the parts and their
order only, never on who did them or when.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from totalqboost.interruption import held_back

__all__ = ["EXCHANGES", "Run", "parts_of", "side_by_side"]

EXCHANGES = 4  # parts of a search from many starts; all go on from the best of the last part

Run = Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], list[Any]]


@contextmanager
def side_by_side(n_jobs: int | None, *shared: Any) -> Iterator[Run]:
    """Give ``run(function, items)``: the list of ``function(*shared, *item)``, in order of items.

    What is shared goes to the workers of a cluster once, however often ``run`` is called.
    """
    from joblib import Parallel, delayed  # not where the program starts

    # One part at a time: joblib would put short ones together, and leave workers without any.
    how: dict[str, Any] = {"prefer": "threads", "batch_size": 1, "return_as": "generator"}
    with Parallel(n_jobs=n_jobs, **how) as parallel:
        sent = _sent(n_jobs, shared)

        def run(function: Callable[..., Any], items: Sequence[tuple[Any, ...]]) -> list[Any]:
            with held_back(n_jobs):
                results = parallel(delayed(function)(*sent, *item) for item in items)
            return list(results)

        yield run


def _sent(n_jobs: int | None, shared: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what stands for objects in calls: what a cluster calls them when it has them.

    joblib alone would send them with every call of ``run``, or with every item. The work of a
    single worker it does itself.
    """
    from joblib import effective_n_jobs
    from joblib.parallel import get_active_backend

    backend, _ = get_active_backend()
    is_cluster = type(backend).__name__ == "DaskDistributedBackend"
    if not is_cluster or effective_n_jobs(n_jobs) == 1:
        return shared
    # Without hash: inside a worker, Dask loses objects that it knows by their content.
    return tuple(backend.client.scatter(list(shared), broadcast=True, hash=False))


def parts_of(total: int) -> list[int]:
    """Return a budget in parts, some only if it is small."""
    limits = np.linspace(0, total, EXCHANGES + 1).astype(int)
    return [int(part) for part in np.diff(limits) if part > 0]
