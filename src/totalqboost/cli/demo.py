"""``totalqboost demo``: the main job from beginning to end, on generated data."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from totalqboost import TotalQBoostClassifier, datasets
from totalqboost.boosting import Progress, Searched
from totalqboost.cli import options
from totalqboost.cli.errors import check_name
from totalqboost.cli.outputs import check_output, writing
from totalqboost.cli.show import counted, live_line, percent, print_ensemble, print_table
from totalqboost.ensemble import Ensemble
from totalqboost.files import write_text
from totalqboost.frontier import Frontier, FrontierPoint, frontier

__all__ = ["demo"]

GENERATORS: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "waveform": datasets.make_waveform,
    "ringnorm": datasets.make_ringnorm,
    "twonorm": datasets.make_twonorm,
}
SHOWN_SIZES = (1, 2, 3, 5, 7, 10, 15, 20, 25, 30, 40, 50, 75, 100)
FILES = ("model.json", "frontier.png", "train.csv", "validation.csv")
DEFAULT_FOLDER = Path("totalqboost-demo")


@dataclass(frozen=True)
class Split:
    """Training and validation rows."""

    X: np.ndarray
    y: np.ndarray
    X_valid: np.ndarray
    y_valid: np.ndarray


def demo(
    out: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER", parser=options.folder, help="Folder for what the demo makes."
        ),
    ] = DEFAULT_FOLDER,
    data: Annotated[
        str, typer.Option(metavar="NAME", help=f"One of {', '.join(GENERATORS)}.")
    ] = "waveform",
    max_learners: Annotated[int, typer.Option(min=1, help="Size of the largest ensemble.")] = 30,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files in a folder of your own.")
    ] = False,
) -> None:
    """Train ensembles of every size on generated data.

    Needs no file and no network. Shows the error against the size, beside boosting that is
    simply stopped early, chooses a small ensemble, and saves it with its data and a picture
    for the next commands.

    \b
      totalqboost demo
      totalqboost demo --data ringnorm --out ring
    """
    check_name("--data", data, list(GENERATORS))
    _check_folder(out, overwrite or out == DEFAULT_FOLDER)
    split = _split(*GENERATORS[data]())
    n_rows, n_features = split.X.shape
    typer.echo(
        f"{data}: {n_rows} rows to train on, {len(split.y_valid)} for validation, "
        f"{n_features} features."
    )
    front = _train(split, max_learners)
    plain = early_stopping(split, max_learners)
    chosen = front.best(rule="paired")
    print_table(_comparison(front, plain, chosen, split))
    typer.echo("* is chosen: the smallest within one standard error of the best, row by row.")
    print_ensemble(chosen.ensemble)
    _save(out, split, front, plain)
    _say_next(out)


def _check_folder(folder: Path, overwrite: bool) -> None:
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        check_output(folder / name, overwrite)


def _split(X: np.ndarray, y: np.ndarray) -> Split:
    """Keep four fifths for training; three decimals, so that files hold the very same data."""
    X, n = np.round(X, 3), len(y) * 4 // 5
    return Split(X[:n], y[:n], X[n:], y[n:])


def _train(split: Split, max_learners: int) -> Frontier:
    with live_line("preparing") as update:

        def show(event: Progress) -> None:
            if isinstance(event, Searched):
                update(f"{counted(event.n_learners, 'weak classifier')}, searching")

        return frontier(
            split.X,
            split.y,
            split.X_valid,
            split.y_valid,
            max_learners=max_learners,
            on_event=show,
        )


def early_stopping(split: Split, max_learners: int) -> dict[int, Ensemble]:
    """Return the ensembles of totally corrective boosting without a price, by their size."""
    classifier = TotalQBoostClassifier(0, max_rounds=max_learners).fit(split.X, split.y)
    staged = classifier.result_.staged()
    return {ensemble.n_learners: ensemble for ensemble in staged}


def _comparison(
    front: Frontier, plain: dict[int, Ensemble], chosen: FrontierPoint, split: Split
) -> Table:
    table = Table(title="Error by size: TotalQBoost, and plain boosting stopped early")
    table.add_column("learners", justify="right")
    for heading in ("training", "validation", "plain: training", "plain: validation"):
        table.add_column(heading, justify="right")
    for point in front:
        size = point.n_learners
        if size not in (*SHOWN_SIZES, chosen.n_learners, front.points[-1].n_learners):
            continue
        errors = [percent(point.train_error), percent(point.valid_error)]
        if size in plain:
            errors.append(percent(_error(plain[size], split.X, split.y)))
            errors.append(percent(_error(plain[size], split.X_valid, split.y_valid)))
        is_chosen = point is chosen
        table.add_row(f"{'* ' if is_chosen else ''}{size}", *errors, style="bold" * is_chosen)
    return table


def _error(ensemble: Ensemble, X: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean(ensemble.predict(X) != y))


def _save(
    folder: Path,
    split: Split,
    front: Frontier,
    plain: dict[int, Ensemble],
) -> None:
    with writing(folder):
        front.best(rule="paired").ensemble.save(folder / "model.json")
        _write_csv(folder / "train.csv", split.X, split.y)
        _write_csv(folder / "validation.csv", split.X_valid, split.y_valid)
        _draw(folder / "frontier.png", split, front, plain)


def _write_csv(path: Path, X: np.ndarray, y: np.ndarray) -> None:
    import pandas as pd

    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]).assign(y=y)
    write_text(path, frame.to_csv(index=False))


def _draw(path: Path, split: Split, front: Frontier, plain: dict[int, Ensemble]) -> None:
    """Draw the frontier, with plain boosting beside it."""
    from matplotlib.figure import Figure

    axes = front.plot(ax=Figure(figsize=(7, 4), layout="constrained").add_subplot())
    errors = [100 * _error(ensemble, split.X_valid, split.y_valid) for ensemble in plain.values()]
    axes.plot(list(plain), errors, "--", color="C1", label="validation, plain boosting", zorder=1)
    axes.legend(frameon=False)
    axes.figure.savefig(path, dpi=150)


def _say_next(folder: Path) -> None:
    program = _program()
    model, train, valid = (
        shlex.quote(str(folder / name)) for name in ("model.json", "train.csv", "validation.csv")
    )
    typer.echo(
        f"Saved in {folder}: {', '.join(FILES)}.\n"
        "Next, try\n"
        f"  {program} info {model}\n"
        f"  {program} predict {model} {valid} --target y\n"
        f"  {program} fit {train} --target y --max-learners 10 --out small.json\n"
        f"  {program} frontier {train} --target y --out frontier.html"
    )


def _program() -> str:
    """Return what to type for this program, on the search path or not."""
    if shutil.which("totalqboost"):
        return "totalqboost"
    called = Path(sys.argv[0])
    return shlex.quote(str(called)) if called.stem == "totalqboost" else "python -m totalqboost"
