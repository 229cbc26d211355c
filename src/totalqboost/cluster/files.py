"""Tables in many Parquet files: data frames of Dask, and passes over their partitions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

from totalqboost.cluster.connect import check_installed
from totalqboost.cluster.faults import told_plainly

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["in_order", "read_parquet"]

SUFFIXES = (".parquet", ".pq", ".parq")
NOTHING = "no Parquet file is there: {}"
WAITING = 2  # partitions under way for each thread of the workers


def read_parquet(source: str) -> Any:
    """Return the data frame of a folder of Parquet files, of a pattern, or of one file.

    The address may be one that Dask knows, such as s3://bucket/folder; workers read it too.
    """
    check_installed()
    import dask.dataframe as dd

    try:
        frame = dd.read_parquet(source, parquet_file_extension=SUFFIXES)
    except (ImportError, OSError, ValueError) as error:
        why = str(error).rpartition("Original Message: ")[2].splitlines()[0]
        if isinstance(error, FileNotFoundError) or "parquet_file_extension" in why:
            raise ValueError(NOTHING.format(source)) from error
        raise ValueError(f"cannot read {source}: {why}") from error
    if not len(frame.columns):
        raise ValueError(NOTHING.format(source))
    if all(isinstance(name, str) for name in frame.columns):
        return frame
    return frame.rename(columns={name: str(name) for name in frame.columns})


def in_order(
    client: Client, function: Callable[..., Any], *beside: Sequence[Any]
) -> Generator[Any, None, None]:
    """Yield what a function says of every partition and what stands beside it, in their order.

    Few results wait for the caller, however many partitions there are.
    """
    from dask import delayed

    most = WAITING * sum(client.nthreads().values())
    call = delayed(function, pure=False)
    waiting: deque[Any] = deque()
    with told_plainly(client):
        for items in zip(*beside, strict=True):
            waiting.append(client.compute(call(*items)))
            if len(waiting) >= most:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
