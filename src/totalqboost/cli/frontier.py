"""``totalqboost frontier``: ensembles of every size, their errors, and the one to take."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table as Lines

from totalqboost.boosting import FoldDone, Progress, Searched
from totalqboost.cli import options
from totalqboost.cli.cluster import Scheduler, WorkerProcesses
from totalqboost.cli.errors import BadInput, check_name, listed
from totalqboost.cli.fit import penalty_of
from totalqboost.cli.frontier_page import Found, render
from totalqboost.cli.honest import folds
from totalqboost.cli.many import Rows, is_many, training_rows
from totalqboost.cli.outputs import check_place, check_unused, writing
from totalqboost.cli.reading import STDIN, Format, name_of
from totalqboost.cli.show import counted, live_line, percent, print_ensemble, print_table, spread
from totalqboost.cli.table import Table, read_table
from totalqboost.cli.training import TrainingRows
from totalqboost.cli.wishes import Wishes
from totalqboost.cluster.connect import ClusterError
from totalqboost.files import write_bytes, write_text
from totalqboost.frontier import Frontier, FrontierPoint
from totalqboost.frontier import frontier as find_frontier
from totalqboost.frontier.measured import with_held_out
from totalqboost.interruption import unwrapped_interruption
from totalqboost.solving import Interrupted

__all__ = ["frontier"]

DEFAULT_FOLDS = 5
DEFAULT_OUT = Path("frontier.html")
DEFAULT_LEARNERS = 30
RULES = {
    "paired": "the smallest that is not clearly worse than the best, row by row",
    "1se": "the smallest within one standard error of the least error",
    "min": "the least error",
    "ric": "the risk inflation criterion",
}
PICTURES = (".png", ".svg", ".pdf")
SUFFIXES = (".html", *PICTURES, ".csv")
REPEATED = (  # options that decide what is found
    *("valid", "cv", "max_learners", "weight_column", "sep", "decimal", "encoding"),
    *("max_features", "multiclass", "bits", "l1_penalty", "loss", "solver", "seed"),
    *("scheduler", "workers"),
)
REPEATED_OFTEN = ("drop", "categorical", "feature_cost", "monotone")
SHOWN_SIZES = (1, 2, 3, 5, 7, 10, 15, 20, 25, 30, 40, 50, 75, 100)


@dataclass(frozen=True)
class ToTrain:
    """Rows to train on, and those to measure errors on if there are others."""

    train: Rows
    valid: TrainingRows | None


def frontier(
    context: typer.Context,
    data: options.Data,
    target: options.Target,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="An interactive page (.html), a picture (.png, .svg, .pdf) or the numbers (.csv). "
            f"Default: {DEFAULT_OUT}, or none with --size and --model.",
        ),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also save the ensemble that is chosen.")
    ] = None,
    max_learners: Annotated[
        int, typer.Option(min=1, metavar="K", help="Size of the largest ensemble.")
    ] = DEFAULT_LEARNERS,
    size: Annotated[
        int | None,
        typer.Option(min=1, metavar="K", help="Choose the ensemble of this size, not by a rule."),
    ] = None,
    cv: Annotated[
        int | None,
        typer.Option(
            min=2,
            metavar="K",
            help=f"Measure errors by K-fold cross-validation. Default: {DEFAULT_FOLDS}, or none "
            "with --valid.",
        ),
    ] = None,
    valid: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Measure errors on the rows of this file instead."),
    ] = None,
    rule: Annotated[
        str, typer.Option(metavar="NAME", help="How to choose the size: paired, 1se, min or ric.")
    ] = "paired",
    drop: options.Drop = None,
    categorical: options.Categorical = None,
    max_features: options.MaxFeatures = None,
    feature_cost: options.FeatureCost = None,
    monotone: options.Monotone = None,
    multiclass: options.Multiclass = "joint",
    bits: options.Bits = None,
    weight_column: options.WeightColumn = None,
    sep: options.Sep = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    l1_penalty: Annotated[
        str | None,
        typer.Option(metavar="PRICE", help="Price of a unit of weight: a number, or auto."),
    ] = None,
    loss: options.LossName = None,
    solver: options.SolverName = "local",
    seed: options.Seed = 0,
    jobs: Annotated[
        int | None, typer.Option(help="Folds at the same time, -1 for all. The result is the same.")
    ] = None,
    scheduler: Scheduler = None,
    workers: WorkerProcesses = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    quiet: options.Quiet = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the files of --out and --model.")
    ] = False,
) -> None:
    """Train the best small ensemble of every size, and show what each is worth.

    More weak classifiers fit the training rows better, and at some size no longer the others.
    The page draws error and log loss against the size, on rows that the ensembles have not
    seen, with bands of one standard error; point at a size to read its ensemble. One size is
    chosen (--rule): by default the smallest that is not clearly worse than the best.

    The page is one file that works without network. Ctrl-C keeps the sizes found so far. Many
    Parquet files are read part by part, by the workers of a Dask cluster if you name one.

    \b
      totalqboost frontier data.csv --target y --open
      totalqboost frontier data.csv --target y --cv 10 --max-learners 15 --model model.json
      totalqboost frontier data.csv --target y --size 7 --model model.json
      totalqboost frontier train.csv --target y --valid test.csv --rule 1se --out frontier.png
      totalqboost frontier data.csv --target y --out frontier.csv
      totalqboost frontier data.csv --target y --max-features 4 --feature-cost mri=20
      totalqboost frontier 'parts/*.parquet' --target y --max-learners 10 --workers 4
    """
    check_name("--rule", rule, list(RULES))
    loss = loss or "logistic"
    options.check_parts(loss, solver, jobs)
    wishes = Wishes.of(max_features, feature_cost, monotone, multiclass)
    if size is not None and size > max_learners:
        raise BadInput(f"--size must be at most --max-learners {max_learners}, got {size}")
    if out is None and (size is None or model is None or show):
        out = DEFAULT_OUT
    _check_files(data, valid, cv, out, model)
    settings: dict[str, Any] = {
        "max_learners": max_learners,
        "l1_penalty": penalty_of("--l1-penalty", l1_penalty, ("auto",), "auto"),
        "loss": loss,
        "solver": solver,
        "n_bits": bits,
        "random_state": seed,
        "n_jobs": jobs,
    }
    format = Format.of(sep, decimal, encoding)
    roles, cluster = (target, weight_column, drop or [], categorical or []), (scheduler, workers)
    if is_many(data, *cluster):
        options.check_cluster_jobs(jobs)
    typed = {**context.params, "data": data, "valid": valid}  # older releases of typer hold texts
    with training_rows(data, format, roles, cluster, quiet) as train:
        settings |= wishes.settings(target, train) | train.settings
        others = None
        if valid is not None:
            table = read_table(valid, format, train.text_columns)
            others = _valid_rows(table, target, weight_column, train)
        else:
            settings["cv"] = _folds(train, cv or DEFAULT_FOLDS, seed)
        for path in (out, model):
            if path is not None:
                check_unused(path, overwrite)
        _frontier(ToTrain(train, others), settings, typed, out, model)


def _frontier(
    rows: ToTrain,
    settings: Mapping[str, Any],
    typed: Mapping[str, Any],
    out: Path | None,
    model: Path | None,
) -> None:
    """Search, write and report."""
    size, quiet = typed["size"], typed["quiet"]
    front, stop = _find(rows, settings, quiet)
    choice = typed["rule"] if size is None else (lambda front: size)
    best = _chosen(front, choice)
    found = _described(front, best, rows, typed, is_complete=stop is None)
    if out is not None:
        _write(out, front, found, choice)
    if model is not None:
        with writing(model):
            best.ensemble.save(model)
    if not quiet:
        _report(front, found, out, model)
    if typed["show"] and out is not None and out.suffix.lower() == ".html":
        webbrowser.open(out.resolve().as_uri())
    if stop is not None:
        why, code = stop
        typer.echo(
            f"{why}; what was found until then, sizes up to {front.points[-1].n_learners}, "
            f"is in {out or model}.",
            err=True,
        )
        raise typer.Exit(code)


# -- options and files ---------------------------------------------------------------------


def _check_files(
    data: str, valid: Path | None, cv: int | None, out: Path | None, model: Path | None
) -> None:
    """Complain about what was typed, before any file is read."""
    if cv is not None and valid is not None:
        raise BadInput("--cv and --valid are alternatives; give one of them")
    if valid == STDIN and Path(data) == STDIN:
        raise BadInput("--valid and the data cannot both be standard input")
    if out is not None and out.suffix.lower() not in SUFFIXES:
        raise BadInput(f"--out must end in {', '.join(SUFFIXES)}, got {str(out)!r}")
    if model is not None and out is not None and model.resolve() == out.resolve():
        raise BadInput(f"--out and --model must differ, got {str(out)!r} for both")
    inputs = [Path(data), *([] if valid is None else [valid])]
    for path in (out, model):
        if path is not None:
            check_place(path, inputs)


def _valid_rows(table: Table, target: str, weight_column: str | None, train: Rows) -> TrainingRows:
    """Return further rows of the same columns and classes."""
    names = train.names
    table.require(names, "a feature of the training data")
    y = table.labels(target)
    unknown = sorted(set(y.tolist()) - set(train.classes), key=str)
    if unknown:
        raise BadInput(
            f"{table.name}: column {target!r} has labels {listed(unknown, 5)}, "
            f"but those of the training data are {listed(train.classes)}"
        )
    X = table.like({name: name in train.categorical for name in names})
    if weight_column is None:
        return TrainingRows(X, y, None)
    weight = table.weights(weight_column)
    used = weight > 0
    return TrainingRows(X[used], y[used], weight[used])


def _folds(train: Rows, n_folds: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the folds as scikit-learn takes them: rows to train on, rows to measure on."""
    numbers = train.numbers
    return [(numbers[~mask], numbers[mask]) for mask in folds(train.labels, n_folds, seed)]


# -- the work ------------------------------------------------------------------------------


def _find(
    rows: ToTrain, settings: Mapping[str, Any], quiet: bool
) -> tuple[Frontier, tuple[str, int] | None]:
    """Return the frontier, and why it is not complete, with the exit code for that.

    What was found before Ctrl-C, or before a cluster was lost, is kept: for this, a frontier
    without cross-validation comes first, which takes a tenth of the time.
    """
    found: list[Frontier] = []
    stop = "Interrupted", 130
    try:
        with unwrapped_interruption(), live_line("preparing", quiet) as update:
            if "cv" in settings:
                plain = {name: value for name, value in settings.items() if name != "cv"}
                found = [_search(rows, {**plain, "solver": "local"}, update)]
            return _weighted(_search(rows, settings, update), rows.valid), None
    except (KeyboardInterrupt, ClusterError) as error:
        if isinstance(error, Interrupted | ClusterError) and error.result is not None:
            found = [error.result, *found]
        found = [front for front in found if len(front) and front.points[-1].n_learners]
        if isinstance(error, ClusterError):
            if not found:
                raise
            stop = f"error: {error}", 2
    if not found:
        typer.echo("Interrupted before there was a result; nothing was saved.", err=True)
        raise typer.Exit(130)
    most = max(found, key=lambda front: front.points[-1].n_learners)  # of equals the measured one
    return _weighted(most, rows.valid), stop


def _weighted(front: Frontier, valid: TrainingRows | None) -> Frontier:
    """Return the frontier with the weights of the validation rows in its errors."""
    if valid is None or valid.weight is None or front.held_out is None:
        return front
    share = valid.weight / valid.weight.sum()
    return with_held_out(front, replace(front.held_out, weight=share))


def _chosen(front: Frontier, choice: Any) -> FrontierPoint:
    """Return the point of a rule or of a size."""
    try:
        return front.best(rule=choice)
    except KeyError as error:  # a size no better than a smaller one is left out
        raise BadInput(f"--size: {error.args[0]}") from error


def _search(rows: ToTrain, settings: Mapping[str, Any], update: Callable[[str], None]) -> Frontier:
    """Search every size; the line on the screen follows."""
    train, valid = rows.train, rows.valid
    others = (None, None) if valid is None else (valid.X, valid.y)

    def show(event: Progress) -> None:
        if isinstance(event, Searched):
            update(f"all rows: searching   {counted(event.n_learners, 'weak classifier')}")
        elif isinstance(event, FoldDone):
            update(f"cross-validation: {event.n_done} of {counted(event.n_folds, 'fold')} done")

    if "cv" in settings:
        update("cross-validation: the first fold")
    return find_frontier(
        train.X, train.y, *others, sample_weight=train.weight, on_event=show, **settings
    )


def _described(
    front: Frontier,
    best: FrontierPoint,
    rows: ToTrain,
    typed: Mapping[str, Any],
    is_complete: bool,
) -> Found:
    """Return the frontier in the words of the user."""
    points = tuple(front)
    is_measured = any(np.isfinite(point.valid_error) for point in points)
    measured = ""
    if is_measured and rows.valid is not None:
        measured = f"on the {counted(len(rows.valid.y), 'row')} of {name_of(typed['valid'])}"
    elif is_measured:
        measured = f"by {typed['cv'] or DEFAULT_FOLDS}-fold cross-validation"
    rule = RULES[typed["rule"]] if typed["size"] is None else "the size asked for"
    return Found(
        points=points,
        train_log_loss=[loss for _, loss in rows.train.errors([p.ensemble for p in points])],
        chosen=next(i for i, point in enumerate(points) if point is best),
        data=name_of(typed["data"]),
        target=typed["target"],
        n_rows=len(rows.train),
        feature_names=tuple(rows.train.names),
        deciles=rows.train.deciles(),
        measured=measured,
        rule=rule + ("" if is_measured else " (training rows)"),
        command=_command(typed) if is_complete else (),
        is_complete=is_complete,
    )


def _command(typed: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what to type for the same frontier, of which --size takes one ensemble."""
    words = ["totalqboost", "frontier", str(typed["data"]), "--target", typed["target"]]
    defaults = {
        "max_learners": DEFAULT_LEARNERS,
        "multiclass": "joint",
        "solver": "local",
        "seed": 0,
    }
    for option in REPEATED:
        if typed[option] not in (None, defaults.get(option)):
            words += [f"--{option.replace('_', '-')}", str(typed[option])]
    for option in REPEATED_OFTEN:
        for name in typed[option] or []:
            words += [f"--{option.replace('_', '-')}", name]
    return tuple(words)


# -- what is written and said --------------------------------------------------------------


def _write(out: Path, front: Frontier, found: Found, choice: Any) -> None:
    with writing(out):
        if out.suffix.lower() == ".html":
            write_text(out, render(found))
        elif out.suffix.lower() == ".csv":
            write_text(out, front.to_frame().to_csv(index=False, lineterminator="\n"))
        else:
            write_bytes(out, _picture(front, choice, out.suffix.lower()[1:]))


def _picture(front: Frontier, choice: Any, kind: str) -> bytes:
    """Draw error and log-loss by size, with bands of one standard error."""
    import io

    from matplotlib.figure import Figure

    from totalqboost.plots import FrontierDisplay

    is_known = front.held_out is not None or front.points[0].ensemble.loss == "logistic"
    metrics = ["error", "log_loss"] if is_known else ["error"]
    figure = Figure(figsize=(4.5 * len(metrics), 3.8), layout="constrained")
    axes = figure.subplots(1, len(metrics), squeeze=False)[0]
    for place, metric in zip(axes, metrics, strict=True):
        FrontierDisplay.from_frontier(front, metric, rule=choice, ax=place)
    stream = io.BytesIO()
    figure.savefig(stream, format=kind, dpi=150)
    return stream.getvalue()


def _report(front: Frontier, found: Found, out: Path | None, model: Path | None) -> None:
    """Print the sizes, the chosen ensemble, and where everything is."""
    lines = Lines(title=f"Error by size, measured {found.measured or 'on the training rows'}")
    for heading in ("learners", "training", "error", "log loss"):
        lines.add_column(heading, justify="right", no_wrap=True)
    for point in front:
        if point.n_learners in (*SHOWN_SIZES, found.best.n_learners, front.points[-1].n_learners):
            is_best = point is found.best
            lines.add_row(
                f"{'* ' if is_best else ''}{point.n_learners}",
                percent(point.train_error),
                spread(100 * point.valid_error, 100 * point.valid_error_se, 1, " %"),
                spread(point.valid_log_loss, point.valid_log_loss_se, 3),
                style="bold" * is_best,
            )
    print_table(lines)
    typer.echo(f"* is chosen: {found.rule}.")
    print_ensemble(found.best.ensemble)
    files = {"The frontier": out, "The chosen ensemble": model}
    for what, path in files.items():
        if path is not None:
            typer.echo(f"{what} is in {path}.")
