"""``totalqboost report``: a run as one HTML page, and as pictures."""

from __future__ import annotations

import webbrowser
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from totalqboost.cli.errors import BadInput, reading
from totalqboost.cli.outputs import check_output, writing
from totalqboost.files import write_text

__all__ = ["report"]

EXTRA = ("plotly", "jinja2")
PAGE = "report.html"


def report(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder that reproduce has filled, runs/NAME.")
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help=f"The page; RUN/{PAGE} by default.")
    ] = None,
    png: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Also write the figure as a picture into a folder."),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the files of --out and --png.")
    ] = False,
) -> None:
    """Make one HTML page of a run: figure, gains, run times, ensembles, beside the paper's.

    The page holds all it needs and asks no network. An unfinished run makes a page too; the
    page inside the folder of the run is replaced whenever the command is run again.

    \b
      totalqboost report runs/NAME
      totalqboost report runs/NAME --out page.html --png pictures --open
    """
    missing = [name for name in EXTRA if find_spec(name) is None]
    if missing:
        raise BadInput(
            f'the report needs {", ".join(missing)}; install with pip install "totalqboost[report]"'
        )
    from totalqboost.experiments.figures import FIGURE, save_figure
    from totalqboost.experiments.folder import FILES, read_run
    from totalqboost.experiments.report import render
    from totalqboost.experiments.rows import RunError

    page = run / PAGE if out is None else out
    with reading(run, RunError):
        content = read_run(run)
        check_output(page, overwrite or out is None, inputs=[run / name for name in FILES])
        if png is not None:
            with writing(png):
                png.mkdir(parents=True, exist_ok=True)
            check_output(png / FIGURE, overwrite)
        text = render(content)
    with writing(page):
        write_text(page, text)
    typer.echo(f"Page written to {page} ({len(text.encode()) / 1e6:.1f} MB).")
    if png is not None:
        with writing(png / FIGURE):
            save_figure(content.rows, png / FIGURE)
        typer.echo(f"Figure written to {png / FIGURE}.")
    if show:
        webbrowser.open(page.resolve().as_uri())
