"""Options of commands that can run on a cluster, and its client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from totalqboost.cli.errors import BadInput
from totalqboost.cli.show import counted
from totalqboost.cluster.connect import connected, dashboard_link

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from totalqboost.cluster.connect import Client

__all__ = ["Scheduler", "WorkerProcesses", "cluster_of"]

Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Run on the workers of this Dask scheduler, such as tcp://10.0.0.1:8786 (extra dask).",
    ),
]
WorkerProcesses = Annotated[
    int | None,
    typer.Option(
        "--workers", min=1, help="Run on this many Dask workers, started here (extra dask)."
    ),
]


def cluster_of(
    scheduler: str | None, workers: int | None, quiet: bool = False
) -> AbstractContextManager[Client | None]:
    """Return a context with the client of the cluster that is asked for, None without one."""
    if scheduler is not None and workers is not None:
        raise BadInput("--scheduler has workers of its own; leave out --workers")
    if scheduler is None and workers is None:
        return nullcontext()
    return _watched(scheduler, workers, quiet)


@contextmanager
def _watched(scheduler: str | None, workers: int | None, quiet: bool) -> Iterator[Client]:
    with connected(scheduler, workers) as client:
        link = dashboard_link(client)
        if not quiet:
            watch = "" if link is None else f"; watch it at {link}"
            typer.echo(f"cluster of {counted(len(client.nthreads()), 'worker')}{watch}", err=True)
        yield client
