"""``totalqboost fit``: train an ensemble on a table."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from totalqboost import TotalQBoostClassifier
from totalqboost.boosting import Progress, Round, Searched
from totalqboost.cli import honest, options
from totalqboost.cli.cluster import Scheduler, WorkerProcesses
from totalqboost.cli.errors import BadInput
from totalqboost.cli.honest import Errors
from totalqboost.cli.many import Rows, is_many, training_rows
from totalqboost.cli.outputs import check_place, check_unused, writing
from totalqboost.cli.reading import Format
from totalqboost.cli.show import counted, live_line, percent, print_ensemble, spread
from totalqboost.cli.wishes import Wishes
from totalqboost.cluster.connect import ClusterError
from totalqboost.interruption import unwrapped_interruption
from totalqboost.solving import Interrupted, Status

__all__ = ["fit", "penalty_of"]

DEFAULT_ROUNDS = 100
PRICES = ("auto", "aic", "bic", "ric")
PAPER: dict[str, Any] = {"fit_intercept": False, "exchange": False, "patience": None}
PAPER_LOSS, PAPER_L1 = "exponential", 1e-6
ENDINGS: dict[str, str] = {
    Status.CONVERGED: "converged",
    Status.MAX_ROUNDS: "the limit of --max-rounds",
    Status.PATIENCE: "no further progress",
}


def fit(
    data: options.Data,
    target: options.Target,
    out: Annotated[Path, typer.Option(help="Where to save the model.")] = Path("model.json"),
    penalty: Annotated[
        str | None,
        typer.Option(
            metavar="PRICE",
            help="Price of a weak classifier: each must lower the mean loss by at least this "
            "much. A number, or one of auto (0.5/n for n rows), aic, bic, ric. Default: auto.",
        ),
    ] = None,
    max_learners: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Use at most this many weak classifiers, instead of a price for each.",
        ),
    ] = None,
    l1_penalty: Annotated[
        str | None,
        typer.Option(
            metavar="PRICE",
            help="Price of a unit of weight: it keeps weights moderate and probabilities "
            "honest. A number, or auto (4/n for n rows). Default: auto.",
        ),
    ] = None,
    cv: Annotated[
        int | None,
        typer.Option(
            min=2,
            metavar="K",
            help="Also measure the error on rows not seen, by K-fold cross-validation.",
        ),
    ] = None,
    test_size: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="The same on a share of the rows held out, e.g. 0.2."),
    ] = None,
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
    loss: options.LossName = None,
    solver: options.SolverName = "local",
    max_rounds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Largest size that is searched; with --paper, the number of rounds. Default: "
            f"{DEFAULT_ROUNDS}, or --max-learners if that is larger.",
        ),
    ] = None,
    paper: Annotated[
        bool,
        typer.Option(
            "--paper",
            help="Run the paper's Algorithm 1 as published: exponential loss, l1 penalty "
            f"{PAPER_L1:g}, no free intercept, no exchanges at the end, no early stopping.",
        ),
    ] = False,
    seed: options.Seed = 0,
    jobs: options.Jobs = None,
    scheduler: Scheduler = None,
    workers: WorkerProcesses = None,
    quiet: options.Quiet = False,
    overwrite: options.Overwrite = False,
) -> None:
    """Train a small ensemble on a table and save it.

    Every column except the target is a feature: numbers, or text, which names categories. Empty
    cells are missing values. By default each weak classifier has a price (--penalty), and the
    search decides how many are worth it; or say how many you can afford (--max-learners). To see
    all sizes at once and choose, use `totalqboost frontier`. If columns cost something to measure,
    say what (--feature-cost), or how many you can afford (--max-features).

    The training error flatters the model. Add --cv 5 (or --test-size 0.2 for large data) for
    an error on rows it has not seen. The model saved is always the one of all rows.

    Many Parquet files are read part by part, and need not fit into memory. Workers of a Dask
    cluster share the work if you name its scheduler, or are started here (--workers).

    Ctrl-C stops the training and saves the ensemble so far.

    \b
      totalqboost fit data.csv --target y --cv 5
      totalqboost fit data.csv --target y --max-learners 10 --out small.json
      totalqboost fit data.csv --target y --drop id --categorical zip --penalty bic --overwrite
      totalqboost fit data.csv --target y --feature-cost mri=20 --feature-cost all=1
      totalqboost fit data.csv --target y --max-learners 10 --bits 8
      totalqboost fit data.csv --target y --max-features 3 --monotone age=+1
      totalqboost fit sales.csv --target y --sep ';' --decimal , --encoding latin-1
      zcat data.csv.gz | totalqboost fit - --target y
      totalqboost fit 'parts/*.parquet' --target y --max-learners 10 --workers 4
      totalqboost fit s3://bucket/parts --target y --scheduler tcp://10.0.0.1:8786
    """
    loss = loss or (PAPER_LOSS if paper else "logistic")
    options.check_parts(loss, solver, jobs)
    wishes = Wishes.of(max_features, feature_cost, monotone, multiclass)
    settings = {
        "cardinality_penalty": _price_per_learner(penalty, max_learners),
        "l1_penalty": penalty_of(
            "--l1-penalty", l1_penalty, ("auto",), PAPER_L1 if paper else "auto"
        ),
        "max_learners": max_learners,
        "loss": loss,
        "solver": solver,
        "n_bits": bits,
        "max_rounds": max_rounds or max(DEFAULT_ROUNDS, max_learners or 0),
        "random_state": seed,
        "n_jobs": jobs,
        **(PAPER if paper else {}),
    }
    _check_measurement(cv, test_size)
    format = Format.of(sep, decimal, encoding)
    check_place(out, inputs=[Path(data)])
    roles, cluster = (target, weight_column, drop or [], categorical or []), (scheduler, workers)
    if is_many(data, *cluster):
        options.check_cluster_jobs(jobs)
    with training_rows(data, format, roles, cluster, quiet) as examples:
        settings |= wishes.settings(target, examples) | examples.settings
        masks = _masks(examples.labels, cv, test_size, seed)
        check_unused(out, overwrite)
        _fit(settings, examples, masks, out, quiet)


def _fit(
    settings: dict[str, Any], examples: Rows, masks: list[np.ndarray], out: Path, quiet: bool
) -> None:
    """Train, save, measure and report."""
    classifier = TotalQBoostClassifier(**settings)
    is_complete = _train(classifier, examples, out, quiet)
    with writing(out):
        classifier.ensemble_.save(out)
    if not is_complete:
        typer.echo(_interruption(classifier, out), err=True)
        raise typer.Exit(130)
    measured = _measure(lambda: TotalQBoostClassifier(**settings), examples, masks, out, quiet)
    if not quiet:
        _report(classifier, examples, measured, masks)
        typer.echo(f"Saved in {out}{', trained on all rows' if masks else ''}.")


# -- options -------------------------------------------------------------------------------


def _price_per_learner(penalty: str | None, max_learners: int | None) -> float | str:
    if penalty is not None and max_learners is not None:
        raise BadInput("--penalty and --max-learners are alternatives; give one of them")
    return penalty_of("--penalty", penalty, PRICES, "auto" if max_learners is None else 0.0)


def penalty_of(
    option: str, text: str | None, names: tuple[str, ...], default: float | str
) -> float | str:
    """Return a price: one of the names, or a number >= 0."""
    if text is None:
        return default
    if text in names:
        return text
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise BadInput(f"{option} must be a number >= 0 or {' | '.join(names)}, got {text}")
    return value


def _check_measurement(cv: int | None, test_size: float | None) -> None:
    if cv is not None and test_size is not None:
        raise BadInput("--cv and --test-size are alternatives; give one of them")
    if test_size is not None and not 0 < test_size < 1:
        raise BadInput(f"--test-size must be a share between 0 and 1, got {test_size:g}")


def _masks(y: np.ndarray, cv: int | None, test_size: float | None, seed: int) -> list[np.ndarray]:
    """Return which rows are held out, in each of the models that measure the error."""
    if cv is not None:
        return honest.folds(y, cv, seed)
    return [] if test_size is None else honest.held_out(y, test_size, seed)


# -- the work ------------------------------------------------------------------------------


def _train(classifier: TotalQBoostClassifier, examples: Rows, out: Path, quiet: bool) -> bool:
    """Fit; return False if it was interrupted after some rounds."""
    try:
        with unwrapped_interruption(), live_line("preparing", quiet) as update:

            def show(event: Progress) -> None:
                if isinstance(event, Searched):
                    stage = f"searching sizes up to {event.max_learners}"
                    size = event.n_learners
                elif isinstance(event, Round):
                    stage = f"round {event.number} of at most {classifier.max_rounds}"
                    size = event.cardinality
                else:
                    return
                update(
                    f"{stage}   objective {event.objective:.5f}   "
                    f"{counted(size, 'weak classifier')}"
                )

            classifier.fit(examples.X, examples.y, examples.weight, on_event=show)
    except KeyboardInterrupt as stop:
        if isinstance(stop, Interrupted) and stop.result is not None:
            return False
        typer.echo("Interrupted before the first round ended; nothing was saved.", err=True)
        raise typer.Exit(130) from None
    except ClusterError as error:
        if error.result is None:
            raise
        with writing(out):
            classifier.ensemble_.save(out)
        kept = f"{counted(classifier.n_learners_, 'weak classifier')}, is saved in {out}"
        raise BadInput(f"{error}; the ensemble so far, {kept}") from error
    return True


def _measure(
    make: Callable[[], TotalQBoostClassifier],
    examples: Rows,
    masks: list[np.ndarray],
    out: Path,
    quiet: bool,
) -> Errors | None:
    """Return the errors on rows not seen, None if nobody asked or will look."""
    if not masks or quiet:
        return None
    try:
        with (
            unwrapped_interruption(),
            live_line("measuring the error on rows not seen") as update,
        ):

            def show(number: int) -> None:
                update(f"measuring the error on rows not seen   model {number} of {len(masks)}")

            return examples.measured(make, masks, show)
    except KeyboardInterrupt:
        typer.echo(
            f"Interrupted while measuring the error on rows not seen; the model is saved in {out}.",
            err=True,
        )
        raise typer.Exit(130) from None


# -- what is said --------------------------------------------------------------------------


def _is_search(classifier: TotalQBoostClassifier) -> bool:
    """Tell whether the fit went through sizes, not rounds: one that has a price or a limit."""
    has_end = classifier.max_learners is not None or classifier.cardinality_penalty_ > 0
    return bool(classifier.exchange and has_end)


def _extent(classifier: TotalQBoostClassifier) -> str:
    """Return how far the fit went: a search covers sizes, Algorithm 1 makes rounds."""
    if _is_search(classifier):
        return (
            f"a search of sizes up to {max((r.cardinality for r in classifier.trace_), default=0)}"
        )
    return counted(classifier.n_iter_, "round")


def _interruption(classifier: TotalQBoostClassifier, out: Path) -> str:
    return (
        f"Interrupted after {_extent(classifier)}; the ensemble so far, "
        f"{counted(classifier.n_learners_, 'weak classifier')}, is saved in {out}."
    )


def _report(
    classifier: TotalQBoostClassifier,
    examples: Rows,
    measured: Errors | None,
    masks: list[np.ndarray],
) -> None:
    """Print the ensemble and its errors."""
    print_ensemble(classifier.ensemble_)
    if not classifier.n_learners_ and classifier.cardinality_penalty_ > 0:
        or_cost = "" if classifier.feature_costs is None else " or lower costs of features"
        typer.echo(f"No weak classifier is worth its price. Try a lower --penalty{or_cost}.")
    ((error, log_loss),) = examples.errors([classifier.ensemble_])
    typer.echo(
        f"{'Training' if examples.weight is None else 'Weighted training'} error "
        f"{percent(error)} of {counted(len(examples), 'row')}, log loss {log_loss:.3f}, "
        f"after {_extent(classifier)} "
        f"({ENDINGS.get(classifier.status_, classifier.status_)})."
    )
    if measured is None:
        return
    how = "Cross-validated" if len(masks) > 1 else "Test"
    models = (
        f"{len(masks)} models, each tested on rows it has not seen"
        if len(masks) > 1
        else f"a model of the other {counted(int((~masks[0]).sum()), 'row')}"
    )
    typer.echo(
        f"{how} error {spread(100 * measured.error, 100 * measured.error_se, 1, ' %')} of "
        f"{counted(measured.n_rows, 'row')}, log loss "
        f"{spread(measured.log_loss, measured.log_loss_se, 3)} ({models})."
    )
