"""``totalqboost reproduce``: the paper's experiments as a command."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from totalqboost import datasets, losses, solvers
from totalqboost.cli import options
from totalqboost.cli.cluster import Scheduler, WorkerProcesses, cluster_of
from totalqboost.cli.errors import BadInput, check_name, listed, reason
from totalqboost.cli.show import counted
from totalqboost.cluster.connect import ClusterError
from totalqboost.experiments.folder import check_settings
from totalqboost.experiments.rows import RunError
from totalqboost.experiments.runner import Task, run, tasks_of
from totalqboost.experiments.settings import Settings
from totalqboost.experiments.strategies import STRATEGIES
from totalqboost.interruption import unwrapped_interruption

if TYPE_CHECKING:
    from totalqboost.cluster.connect import Client

__all__ = ["keeping", "reproduce"]

MOST_SPLITS = 1_000
MOST_STEPS = 10_000  # of a grid, or rounds
OPTIONS = {  # of settings
    "max_rounds": "--max-rounds",
    "tol": "--tol",
    "n_bits": "--n-bits",
    "n_penalties": "--penalties",
    "hot_share": "--hot-share",
    "n_folds": "--folds",
    "time_limit": "--time-limit",
}


def reproduce(
    context: typer.Context,
    out: options.RunFolder = Path("runs/paper"),
    data: Annotated[
        str, typer.Option("--datasets", metavar="NAMES", help="Comma-separated, or all.")
    ] = "all",
    strategies: Annotated[
        str, typer.Option(metavar="NAMES", help=f"Comma-separated, of {', '.join(STRATEGIES)}.")
    ] = "A,B,C,D,E",
    splits: Annotated[
        int, typer.Option(min=1, max=MOST_SPLITS, help="Number of random splits.")
    ] = 1,
    solver: Annotated[
        str,
        typer.Option(
            help=f"Solver of the master problems: {', '.join(solvers.names())}; "
            "tabu is the paper's."
        ),
    ] = "local",
    n_penalties: Annotated[
        int,
        typer.Option(
            "--penalties", min=3, max=MOST_STEPS, help="Length of the grids of nu and lambda."
        ),
    ] = Settings.n_penalties,
    max_rounds: Annotated[
        int, typer.Option(min=1, max=MOST_STEPS, help="T of the paper.")
    ] = Settings.max_rounds,
    tol: Annotated[
        float, typer.Option(min=0.0, help="Epsilon of the paper, whose risk is a sum over rows.")
    ] = Settings.tol,
    n_bits: Annotated[int, typer.Option(min=1, help="Bits of tabu's weights.")] = Settings.n_bits,
    hot_share: Annotated[
        float, typer.Option(min=0.01, max=1.0, help="T' as a share of T, if B makes as many.")
    ] = Settings.hot_share,
    loss: Annotated[str, typer.Option(help="Loss of the margin.")] = Settings.loss,
    intercept: Annotated[
        bool, typer.Option("--intercept", help="A free intercept instead of the paper's form.")
    ] = False,
    folds: Annotated[int, typer.Option(min=0, help="k-fold instead of random splits.")] = 0,
    time_limit: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Per master problem, for exact; the rows then depend on the machine.",
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(help="Processes; -1 is one per core.")] = -1,
    scheduler: Scheduler = None,
    workers: WorkerProcesses = None,
) -> None:
    """Run the paper's experiments A to E, and baselines, on its twelve data sets.

    \b
      A  column generation with an l1 penalty, for a grid of penalties
      B  plain column generation; every round is an ensemble (early stopping)
      C  TotalQBoost, for a grid of cardinality penalties
      D  the same, hot-started with columns of B
      E  one subset of B's columns per penalty
      adaboost, lpboost, erlpboost: baselines
      elimination, random: columns of B, chosen by no solver
      D0: D without the answers of E to start from; `all` takes everything

    The settings are the paper's (TotalQBoostClassifier.paper_form) but for the solver: local
    is faster than tabu, the paper's.

    Everything is on this machine, without network, unless you name the scheduler of a Dask
    cluster; the rows are the same. Ctrl-C keeps what is done, and the same command goes on from
    there. Look at the result with `totalqboost report FOLDER`.

    \b
      totalqboost reproduce
      totalqboost reproduce --datasets heart,thyroid --strategies B,E --splits 5 --out runs/small
      totalqboost reproduce --scheduler tcp://10.0.0.1:8786 --splits 20
      totalqboost reproduce glass
    """
    if context.invoked_subcommand is not None:
        return
    check_name("--loss", loss, losses.names())
    if jobs == 0:
        raise BadInput("--jobs must not be 0; -1 is one process per core")
    if folds == 1:
        raise BadInput("--folds must be 0 or at least 2, got 1")
    settings = Settings(
        solver=_known(solver, solvers.names(), "--solver"),
        max_rounds=max_rounds,
        tol=tol,
        n_bits=n_bits,
        n_penalties=n_penalties,
        hot_share=hot_share,
        fit_intercept=intercept,
        loss=loss,
        n_folds=folds,
        time_limit=time_limit,
    )
    _check_solver(settings)
    try:
        check_settings(asdict(settings))  # what a run notes must be what it can read
    except ValueError as error:
        name, rest = str(error).split(" ", 1)
        raise BadInput(f"{OPTIONS.get(name, name)} {rest}") from error
    if folds and splits > folds:
        raise BadInput(f"--splits must be at most --folds ({folds}), got {splits}")
    tasks = tasks_of(
        _names(data, datasets.names(), "--datasets"),
        range(splits),
        _names(strategies, list(STRATEGIES), "--strategies"),
    )
    with keeping(out), cluster_of(scheduler, workers) as client:
        n_rows = _run(out, tasks, settings, jobs, client)
    typer.echo(f"{counted(n_rows, 'row')} in {out}. Next: totalqboost report {out}")


@contextmanager
def keeping(out: Path) -> Iterator[None]:
    """Say in one sentence why a run ended, and that what is done is kept."""
    try:
        with unwrapped_interruption():
            yield
    except (RunError, datasets.DataFileError) as error:
        raise BadInput(str(error)) from error
    except ClusterError as error:
        kept = f"; what is done is kept in {out}, the same command goes on" if out.exists() else ""
        raise BadInput(f"{error}{kept}") from error
    except OSError as error:
        place = error.filename or out
        raise BadInput(f"cannot write to {place}: {reason(error)}; choose another --out") from error
    except KeyboardInterrupt:
        typer.echo(
            f"interrupted; what is done is kept in {out}, the same command goes on", err=True
        )
        raise typer.Exit(130) from None


def _check_solver(settings: Settings) -> None:
    """Make sure that the solver takes these settings, before any folder is made."""
    try:
        solver = solvers.get(settings.solver, settings.n_bits)
    except ValueError as error:
        raise BadInput(f"--n-bits: {error}") from error
    if settings.time_limit is None:
        return
    if not isinstance(solver, solvers.BranchAndBound):
        raise BadInput(f"--time-limit: the solver {settings.solver} has none; exact does")
    if not settings.time_limit > 0:  # false for NaN too
        raise BadInput(f"--time-limit must be > 0 seconds, got {settings.time_limit:g}")


def _run(out: Path, tasks: list[Task], settings: Settings, jobs: int, client: Client | None) -> int:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not sys.stderr.isatty()) as progress:
        bar = progress.add_task("starting", total=len(tasks))

        def show(task: Task, n_done: int, n_tasks: int) -> None:
            text = f"{task.dataset}, split {task.split}, {task.strategy}"
            progress.update(bar, completed=n_done, description=text)

        return len(run(out, tasks, settings, jobs, show, client))


def _names(text: str, known: Sequence[str], option: str) -> list[str]:
    if text.strip() == "all":
        return list(known)
    return [_known(name.strip(), known, option) for name in text.split(",")]


def _known(name: str, known: Sequence[str], option: str) -> str:
    plain = {k.replace(" ", "").lower(): k for k in known}
    key = name.replace(" ", "").replace("_", "").replace("-", "").lower()
    if key not in plain:
        raise BadInput(f"{option} must be among {listed(known, 20)}, got {name!r}")
    return plain[key]
