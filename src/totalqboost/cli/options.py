"""Options that several commands have: the same words mean the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from totalqboost import losses, solvers
from totalqboost.cli.errors import BadInput, check_name
from totalqboost.fixed_point import MAX_BITS

__all__ = [
    "Bits",
    "Categorical",
    "Data",
    "Decimal",
    "Drop",
    "Encoding",
    "FeatureCost",
    "Jobs",
    "LossName",
    "MaxFeatures",
    "Model",
    "Monotone",
    "Multiclass",
    "Overwrite",
    "Quiet",
    "RunFolder",
    "Seed",
    "Sep",
    "SolverName",
    "Target",
    "WeightColumn",
    "check_cluster_jobs",
    "check_jobs",
    "check_parts",
    "folder",
]

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="CSV file with a line of column names, Parquet file (.parquet), - for standard "
        "input, or a folder, a pattern or an address (s3://...) of Parquet files.",
    ),
]
Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="Model file that fit has saved, or a detector.")
]
Target = Annotated[
    str, typer.Option(metavar="COLUMN", help="Column of labels: two or more classes, of any type.")
]
Categorical = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="The numbers of this column are names of categories. Can be repeated. Columns of "
        "text are categories anyway.",
    ),
]
Drop = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="Leave out a column. Can be repeated.")
]
WeightColumn = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Column of example weights, >= 0.")
]
Sep = Annotated[
    str | None,
    typer.Option(
        metavar="CHARACTER",
        help="What separates the columns of a CSV file: ';', '|', tab, ... Found out if all "
        "lines agree, else ','.",
    ),
]
Decimal = Annotated[
    str | None,
    typer.Option(
        metavar="CHARACTER",
        help="The decimal point of a CSV file, '.' or ','. A ',' is found out where it cannot "
        "mean thousands.",
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Encoding of a CSV file: utf-8 (or utf-16 if the file says so) by default, often "
        "latin-1 or cp1252 in old files.",
    ),
]
MaxFeatures = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="K", help="Look at this many columns at most, with any number of stumps."
    ),
]
FeatureCost = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=COST",
        help="What it costs to look at a column, paid once however many weak classifiers do. "
        "A cost of 2 is the price of two weak classifiers (--penalty, or auto where there is "
        "none). Can be repeated; all=COST is for every column that is not named.",
    ),
]
Monotone = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=+1|-1",
        help="The score of the second class in sorted order may only rise (+1) or only fall (-1) "
        "with this column. Can be repeated. For two classes.",
    ),
]
Multiclass = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="For more than two classes: joint (a weight per class, stumps chosen for them), "
        "per_class (the weights fitted afterwards) or shared (one weight and a vote, + or -, per "
        "class: the fewest numbers).",
    ),
]
Bits = Annotated[
    int | None,
    typer.Option(
        min=2,
        max=MAX_BITS,
        metavar="N",
        help="Train integers for weights, of this many bits with the sign, times one scale: for "
        "devices and scorecards. 8 costs no accuracy, 4 a little. Default: real numbers.",
    ),
]
LossName = Annotated[
    str | None,
    typer.Option(metavar="NAME", help=f"One of {', '.join(losses.names())}. Default: logistic."),
]
SolverName = Annotated[
    str, typer.Option(metavar="NAME", help=f"One of {', '.join(solvers.names())}.")
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the solver and of the folds.")]
Jobs = Annotated[
    int | None, typer.Option(help="Threads for large data, -1 for all. The result is the same.")
]


def folder(name: str | Path) -> Path:
    """Return the folder of this name; to pathlib no name would be the current folder."""
    if not str(name):
        raise BadInput("--out must name a folder, got ''; the current one is .")
    return Path(name)


RunFolder = Annotated[
    Path,
    typer.Option(
        metavar="FOLDER", parser=folder, help="Folder of the run; continued if it exists."
    ),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace the file --out if it exists.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


def check_parts(loss: str, solver: str, jobs: int | None) -> None:
    """Refuse names of parts that there are not, and no threads."""
    check_name("--loss", loss, losses.names())
    check_name("--solver", solver, solvers.names())
    check_jobs(jobs)


def check_cluster_jobs(jobs: int | None) -> None:
    """Refuse threads of this machine where workers do the work."""
    if jobs is not None:
        raise BadInput("--jobs is for one file in memory; here the workers share the work")


def check_jobs(jobs: int | None) -> None:
    """Refuse a number of threads that is none."""
    if jobs == 0:
        raise BadInput("--jobs must be a number of threads, or -1 for all, got 0")
