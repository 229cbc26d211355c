"""``totalqboost fit``: train an ensemble on a CSV file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from totalqboost import TotalQBoostClassifier, losses, solvers
from totalqboost.boosting import Round, Searched
from totalqboost.cli.errors import BadInput, check_name
from totalqboost.cli.outputs import check_output, writing
from totalqboost.cli.show import counted, live_line, percent, print_ensemble
from totalqboost.cli.table import TrainingRows, read_table
from totalqboost.solving import Interrupted, Status

__all__ = ["fit"]

DEFAULT_PENALTY = 0.005
DEFAULT_ROUNDS = 100
PAPER: dict[str, Any] = {"fit_intercept": False, "exchange": False, "patience": None}
ENDINGS: dict[str, str] = {
    Status.CONVERGED: "converged",
    Status.MAX_ROUNDS: "the limit of --max-rounds",
    Status.PATIENCE: "no further progress",
}


def fit(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="CSV file with a line of column names.")
    ],
    target: Annotated[
        str, typer.Option(metavar="COLUMN", help="Column of labels: two classes, of any type.")
    ],
    out: Annotated[Path, typer.Option(help="Where to save the model.")] = Path("model.json"),
    penalty: Annotated[
        float | None,
        typer.Option(
            help="Price of a weak classifier: each must lower the mean loss by at least this "
            f"much. Default: {DEFAULT_PENALTY}.",
        ),
    ] = None,
    max_learners: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Use at most this many weak classifiers, instead of a price for each.",
        ),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Leave out a column. Can be repeated."),
    ] = None,
    weight_column: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of example weights, >= 0.")
    ] = None,
    loss: Annotated[
        str, typer.Option(metavar="NAME", help=f"One of {', '.join(losses.names())}.")
    ] = "exponential",
    solver: Annotated[
        str, typer.Option(metavar="NAME", help=f"One of {', '.join(solvers.names())}.")
    ] = "local",
    max_rounds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Largest number of rounds of boosting. Default: "
            f"{DEFAULT_ROUNDS}, or --max-learners if that is larger.",
        ),
    ] = None,
    paper: Annotated[
        bool,
        typer.Option(
            "--paper",
            help="Run the paper's Algorithm 1 as published: no free intercept, no exchanges at "
            "the end, no early stopping.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the solver.")] = 0,
    jobs: Annotated[
        int | None, typer.Option(help="Threads for large data, -1 for all. The result is the same.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file --out if it exists.")
    ] = False,
) -> None:
    """Train a small ensemble on a CSV file and save it.

    Every column except the target is a feature and must hold numbers. Limit the number of
    weak classifiers (--max-learners) or set a price for each (--penalty). Ctrl-C stops the
    training and saves the ensemble so far.

    \b
      totalqboost fit data.csv --target y --out model.json
      totalqboost fit data.csv --target y --max-learners 10 --out small.json
      totalqboost fit data.csv --target y --drop id --penalty 0.01 --overwrite
    """
    check_name("--loss", loss, losses.names())
    check_name("--solver", solver, solvers.names())
    if jobs == 0:
        raise BadInput("--jobs must be a number of threads, or -1 for all, got 0")
    classifier = TotalQBoostClassifier(
        _penalty(penalty, max_learners),
        max_learners=max_learners,
        loss=loss,
        solver=solver,
        max_rounds=max_rounds or max(DEFAULT_ROUNDS, max_learners or 0),
        random_state=seed,
        n_jobs=jobs,
        **(PAPER if paper else {}),
    )
    check_output(out, overwrite, inputs=[data])
    examples = read_table(data).training_rows(target, weight_column, drop or [])
    is_complete = _train(classifier, examples, quiet)
    with writing(out):
        classifier.ensemble_.save(out)
    if not is_complete:
        typer.echo(_interruption(classifier, out), err=True)
        raise typer.Exit(130)
    if not quiet:
        _report(classifier, examples, out)


def _penalty(penalty: float | None, max_learners: int | None) -> float:
    if penalty is None:
        return DEFAULT_PENALTY if max_learners is None else 0.0
    if max_learners is not None:
        raise BadInput("--penalty and --max-learners are alternatives; give one of them")
    if not 0 <= penalty < math.inf:
        raise BadInput(f"--penalty must be a number >= 0, got {penalty}")
    return penalty


def _train(classifier: TotalQBoostClassifier, examples: TrainingRows, quiet: bool) -> bool:
    """Fit; return False if it was interrupted after some rounds."""
    try:
        with live_line("preparing", quiet) as update:

            def show(event: Round | Searched) -> None:
                if isinstance(event, Searched):
                    stage = f"searching sizes up to {event.max_learners}"
                    size = event.n_learners
                else:
                    stage = f"round {event.number} of at most {classifier.max_rounds}"
                    size = event.cardinality
                update(
                    f"{stage}   objective {event.objective:.5f}   "
                    f"{counted(size, 'weak classifier')}"
                )

            classifier.fit(examples.X, examples.y, examples.weight, on_event=show)
    except KeyboardInterrupt as stop:
        if isinstance(stop, Interrupted) and classifier.trace_:
            return False
        typer.echo("Interrupted before the first round ended; nothing was saved.", err=True)
        raise typer.Exit(130) from None
    return True


def _interruption(classifier: TotalQBoostClassifier, out: Path) -> str:
    return (
        f"Interrupted after {counted(classifier.n_iter_, 'round')}; the ensemble so far, "
        f"{counted(classifier.n_learners_, 'weak classifier')}, is saved in {out}."
    )


def _report(classifier: TotalQBoostClassifier, examples: TrainingRows, out: Path) -> None:
    """Print the ensemble, its training error and where it is saved."""
    print_ensemble(classifier.ensemble_)
    if not classifier.n_learners_ and classifier.cardinality_penalty_ > 0:
        typer.echo("No weak classifier is worth its price. Try a lower --penalty.")
    wrong = classifier.ensemble_.predict(examples.X.to_numpy()) != examples.y
    typer.echo(
        f"{'Training' if examples.weight is None else 'Weighted training'} error "
        f"{percent(np.average(wrong, weights=examples.weight))} "
        f"of {counted(len(wrong), 'row')}, after {counted(classifier.n_iter_, 'round')} "
        f"({ENDINGS.get(classifier.status_, classifier.status_)})."
    )
    typer.echo(f"Saved in {out}.")
