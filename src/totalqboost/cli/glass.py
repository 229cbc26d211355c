"""``totalqboost reproduce glass``: the detector of the paper's last section as a command."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from totalqboost.cli import options
from totalqboost.cli.cluster import Scheduler, WorkerProcesses, cluster_of
from totalqboost.cli.errors import BadInput, listed
from totalqboost.cli.reproduce import keeping
from totalqboost.cli.show import counted
from totalqboost.experiments.glass import (
    METHODS,
    GlassSettings,
    GlassTask,
    run_glass,
    summary_of,
)
from totalqboost.experiments.glass.bench import quick as quick_settings
from totalqboost.experiments.glass.run import STAGES

__all__ = ["glass"]

ALL = [*METHODS, STAGES]
MISSING = 'it is not installed; pip install "totalqboost[peers]"'


def glass(
    out: options.RunFolder = Path("runs/glass"),
    images: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Fashion-MNIST's idx files; else Debian's package."),
    ] = None,
    kinds: Annotated[
        str, typer.Option(metavar="NUMBERS", help="Kinds of clothes to detect, 0 to 9, or all.")
    ] = "all",
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds.")] = 3,
    methods: Annotated[str, typer.Option(metavar="NAMES", help="Comma-separated, or all.")] = "all",
    features: Annotated[int, typer.Option(min=1, help="Columns.")] = GlassSettings.n_features,
    train: Annotated[int, typer.Option(min=10, help="Training rows.")] = GlassSettings.n_train,
    valid: Annotated[
        int, typer.Option(min=10, help="Rows for thresholds.")
    ] = GlassSettings.n_valid,
    synthetic: Annotated[
        int,
        typer.Option(
            metavar="ROWS", min=0, help="Rows of a generated set of rare events, not images."
        ),
    ] = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes, to see that it runs.")
    ] = False,
    scheduler: Scheduler = None,
    workers: WorkerProcesses = None,
) -> None:
    """Train detectors of 20 stumps in several ways and count their false positives.

    Haar-like features of Fashion-MNIST, one kind of clothes against the others. Thresholds come
    from validation rows, false positives are counted on fresh ones. Ctrl-C keeps what is done, and
    the same command goes on from there.

    \b
      sudo apt install dataset-fashion-mnist
      totalqboost reproduce glass
      totalqboost reproduce glass --quick --out runs/glass-quick
      totalqboost reproduce glass --synthetic 100000 --features 10000 --train 60000 --out runs/rare
    """
    settings = GlassSettings(n_features=features, n_train=train, n_valid=valid, n_rows=synthetic)
    settings = quick_settings(settings) if quick else settings
    if synthetic and settings.n_train + settings.n_valid >= synthetic:
        what = f"{settings.n_train} and {settings.n_valid}{' of --quick' if quick else ''}"
        raise BadInput(f"--train and --valid must leave fresh rows of {synthetic}, got {what}")
    if quick:
        settings = replace(settings, recalls=(0.8, 0.9))  # few positives
    wanted = [1] if synthetic else _kinds(kinds)
    tasks = [
        GlassTask(seed, kind, method)
        for seed in range(1 if quick else seeds)
        for kind in (wanted[:2] if quick else wanted)
        for method in _methods(methods)
    ]
    say = _say if sys.stderr.isatty() else None
    with keeping(out), cluster_of(scheduler, workers) as client:
        rows = run_glass(out, tasks, settings, images, say, client)
    for table in summary_of(rows):
        typer.echo(table.text() + "\n")
    if not any(task.method == "LightGBM" for task in tasks) and methods.strip() == "all":
        typer.echo(f"LightGBM is left out: {MISSING}", err=True)
    typer.echo(f"{counted(len(rows), 'row')} in {out}.")


def _say(task: GlassTask, n_done: int, n_tasks: int) -> None:
    text = f"{n_done} of {n_tasks}: seed {task.seed}, kind {task.kind}, {task.method}"
    typer.echo(text, err=True)


def _kinds(text: str) -> list[int]:
    if text.strip() == "all":
        return list(range(10))
    known = {str(kind): kind for kind in range(10)}
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise BadInput(f"--kinds must be numbers from 0 to 9, or all, got {unknown[0]!r}")
    return [known[name] for name in dict.fromkeys(names)]


def _methods(text: str) -> list[str]:
    has_lightgbm = find_spec("lightgbm") is not None
    if text.strip() == "all":
        return [name for name in ALL if has_lightgbm or name != "LightGBM"]
    plain = {name.replace(" ", "").lower(): name for name in ALL}
    names = text.replace(" ", "").lower().split(",")
    unknown = [name for name in names if name not in plain]
    if unknown:
        raise BadInput(f"--methods must be among {listed(ALL)}, or all, got {unknown[0]!r}")
    if "lightgbm" in names and not has_lightgbm:
        raise BadInput(f"--methods: {MISSING}")
    return [plain[name] for name in dict.fromkeys(names)]
