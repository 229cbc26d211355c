"""What people see: the ensemble as a table, and a live line while they wait."""

from __future__ import annotations

import contextlib
import math
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from totalqboost.cascade import Cascade
from totalqboost.cascade.model import NEVER
from totalqboost.ensemble import Ensemble
from totalqboost.ensemble.printing import table_of

__all__ = [
    "counted",
    "live_line",
    "percent",
    "print_detector",
    "print_ensemble",
    "print_table",
    "spread",
]

MOST_COLUMNS = 5  # of weights of classes: more do not fit 80 characters


def counted(n: int, thing: str) -> str:
    """Return "1 round", "2 rounds"."""
    return f"{n} {thing}{'' if n == 1 else 's'}"


def percent(share: float) -> str:
    """Return a share for a table."""
    return f"{100 * share:.1f} %"


def spread(value: float, se: float, digits: int, unit: str = "") -> str:
    """Return a number with its standard error, a dash if it is not known."""
    if not math.isfinite(value):
        return "–"
    return f"{value:.{digits}f}{unit}" + (f" ± {se:.{digits}f}" if math.isfinite(se) else "")


def print_table(table: Table) -> None:
    """Print a table as it is: names in it are no markup."""
    Console(markup=False, highlight=False, emoji=False).print(table)


def print_ensemble(ensemble: Ensemble) -> None:
    """Print the weak classifiers, heaviest first."""
    shown = table_of(ensemble, MOST_COLUMNS)
    if not ensemble.learners:
        best = int(ensemble.class_intercepts.argmax())  # of equal ones the first
        title = shown.title.partition(":")[0]
        typer.echo(f"{title}: the answer is always {ensemble.classes[best]!r}")
        return
    _print_learners(ensemble, shown.title)


def print_detector(cascade: Cascade) -> None:
    """Print the weak classifiers of each stage in turn, with the scores that they must reach."""
    n_stages = len(cascade.stages)
    for number, stage in enumerate(cascade.stages, 1):
        title = table_of(stage.ensemble).title
        scale = stage.ensemble.scale or 1.0
        least = ["–" if t == NEVER else f"{t / scale:+.4g}" for t in stage.rejections]
        which = f"Stage {number} of {n_stages}: " if n_stages > 1 else ""
        _print_learners(stage.ensemble, f"{which}{title}", {"rejected below": least})


def _print_learners(
    ensemble: Ensemble, title: str, more: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Print a line for each weak classifier; ``more`` are further columns."""
    shown = table_of(ensemble, MOST_COLUMNS)
    header, rows = list(shown.header), shown.rows
    if not ensemble.is_multiclass:
        header[-1] = f"votes {ensemble.classes[1]!r} if, else {ensemble.classes[0]!r}"
        if ensemble.scale is None:  # integers need no digits
            pairs = zip(ensemble.weights, rows, strict=True)
            rows = [(f"{weight:#.4g}", *cells[1:]) for weight, cells in pairs]
    table = Table(title=title, title_justify="left", title_style="bold")
    others = more or {}
    for name, side in zip([*header, *others], shown.align + "r" * len(others), strict=True):
        if side == "r":
            table.add_column(name, justify="right", no_wrap=True)
        else:
            table.add_column(name, overflow="fold")
    for place, cells in enumerate(rows):
        table.add_row(*cells, *(column[place] for column in others.values()))
    print_table(table)


@contextlib.contextmanager
def live_line(
    text: str, quiet: bool = False, after: float = 0.0
) -> Iterator[Callable[[str], None]]:
    """Show one line on stderr that the caller keeps up to date; none if nobody looks.

    The line appears ``after`` so many seconds: what is done by then needs no line.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda text: None
        return
    columns = (SpinnerColumn("line"), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as line:
        task = line.add_task(text, total=None, visible=after <= 0)
        timer = threading.Timer(after, lambda: line.update(task, visible=True))
        timer.start()
        try:
            yield lambda text: line.update(task, description=text)
        finally:
            timer.cancel()
