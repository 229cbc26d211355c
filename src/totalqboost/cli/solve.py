"""``totalqboost solve``: one master problem through one solver, or several side by side."""

from __future__ import annotations

import importlib
import json
import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from totalqboost import solvers
from totalqboost.cli import options
from totalqboost.cli.errors import BadInput, check_name, reading
from totalqboost.cli.outputs import check_output, writing
from totalqboost.cli.show import counted, live_line, print_table
from totalqboost.files import write_text
from totalqboost.interruption import unwrapped_interruption
from totalqboost.kernels.jit import compilation_time
from totalqboost.master import MasterProblem
from totalqboost.problems import ProblemFileError, load_problem
from totalqboost.solvers.ocean.named import SAMPLERS, named_solver
from totalqboost.solving import (
    Interrupted,
    MasterSolver,
    Solution,
    SolverError,
    SolverSession,
    Status,
)
from totalqboost.solving import solve as solve_checked

__all__ = ["solve"]

FORMAT = "totalqboost-solutions"
SCHEMA_VERSION = 1
OPTIONS = {
    "n_jobs": "--jobs",
    "n_starts": "--starts",
}  # the others are called as their parameter is
N_WARM = 14  # columns of the problem on which code is compiled
PATIENCE = 2.0  # seconds until a line tells how it goes


@dataclass(frozen=True)
class Answer:
    """What a solver said about the problem, and how long it took."""

    solver: str
    solution: Solution
    cardinality: int
    n_features: int | None  # that are read, if the problem says which
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; a bound that is not known is null."""
        solution = self.solution
        features = {} if self.n_features is None else {"n_features": self.n_features}
        return {
            "solver": self.solver,
            "objective": solution.objective,
            "bound": solution.bound if math.isfinite(solution.bound) else None,
            "gap": solution.gap if math.isfinite(solution.gap) else None,
            "cardinality": self.cardinality,
            **features,
            "n_evaluations": solution.n_evaluations,
            "seconds": round(self.seconds, 6),
            "status": solution.status,
            "note": solution.note,
            "w": solution.w.tolist(),
        }


def solve(
    problem: Annotated[
        Path, typer.Argument(metavar="PROBLEM", help="JSON or NPZ file, see docs/problems.md.")
    ],
    solver: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help=f"Of {', '.join([*solvers.names(), *SAMPLERS])}, or MODULE:NAME, a sampler or "
            "solver of your own; several, comma-separated, are compared.",
        ),
    ] = "local",
    n_bits: Annotated[
        str | None,
        typer.Option(metavar="N", help="Bits of discrete weights, or auto."),
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Stop after this time.")
    ] = None,
    max_nodes: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Stop after so many nodes of the tree.")
    ] = None,
    gap: Annotated[
        float | None, typer.Option(help="Stop at this relative distance from the bound.")
    ] = None,
    starts: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Searches that go side by side.")
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(help="Threads for large problems, several starts; -1 is all; same result."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the solver.")] = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the result as JSON.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON, not as tables.")
    ] = False,
    overwrite: options.Overwrite = False,
) -> None:
    """Solve one master problem and show objective, bound and kept columns.

    Limits apply to the solvers that know them. Ctrl-C shows the best so far where the solver
    has it. An objective without a bound is a good answer, with a gap of 0 it is a proven one.

    \b
      totalqboost solve problem.json --solver exact --time-limit 60
      totalqboost solve problem.npz --solver exact,local,tabu --out solution.json
    """
    names = list(dict.fromkeys(name.strip() for name in solver.split(",")))
    limits = {
        "n_bits": _bits(n_bits),
        "time_limit": _limit("--time-limit", time_limit),
        "max_nodes": max_nodes,
        "gap": _limit("--gap", gap),
        "n_starts": starts,
        "n_jobs": jobs,
    }
    options.check_jobs(jobs)
    _check_names(names)
    with reading(problem, ProblemFileError):
        content = load_problem(problem)
    chosen = _solvers(names, {name: v for name, v in limits.items() if v is not None})
    if out is not None:
        check_output(out, overwrite, inputs=[problem])
    answers, is_complete = _run(content, problem, chosen, seed)
    text = _as_json(problem, seed, answers)
    if answers and out is not None:
        with writing(out):
            write_text(out, text)
    if answers and as_json:
        typer.echo(text, nl=False)
    elif answers:
        _report(content, problem, answers)
        if out is not None:
            typer.echo(f"Saved in {out}.")
    if not is_complete:
        typer.echo(_interruption(names, answers), err=True)
        raise typer.Exit(130)


# -- options -------------------------------------------------------------------------------


def _bits(text: str | None) -> int | str | None:
    if text is None or text == "auto":
        return text
    if not text.isdecimal() or int(text) < 1:
        raise BadInput(f"--n-bits must be an integer >= 1 or auto, got {text!r}")
    return int(text)


def _limit(option: str, value: float | None) -> float | None:
    if value is not None and not 0 <= value < math.inf:
        raise BadInput(f"{option} must be a number >= 0, got {value}")
    return value


def _check_names(names: list[str]) -> None:
    for name in names:
        if ":" not in name:
            check_name("--solver", name, [*_names(), "MODULE:NAME"])
        elif not all(part.strip() for part in name.split(":", 1)):
            raise BadInput(f"--solver must be MODULE:NAME for one of your own, got {name!r}")


def _solvers(names: list[str], limits: dict[str, Any]) -> dict[str, MasterSolver]:
    """Return the solvers, each with the limits that it knows; one that none knows is an error."""
    chosen = {name: _get(name) for name in names}
    for limit in limits:
        if not any(_has(solver, limit) for solver in chosen.values()):
            knowing = [name for name in _names() if _knows(name, limit)]
            who = f"known to {', '.join(knowing)}" if knowing else "known to no solver"
            option = OPTIONS.get(limit, f"--{limit.replace('_', '-')}")
            raise BadInput(f"{option} is not known to {', '.join(names)}, it is {who}")
    return {name: _limited(name, solver, limits) for name, solver in chosen.items()}


def _names() -> list[str]:
    return [*solvers.names(), *SAMPLERS]


def _get(name: str) -> Any:
    try:
        if ":" in name:
            return _of_your_own(name)
        return named_solver(name) if name in SAMPLERS else solvers.get(name)
    except ImportError as error:  # it says which extra to install
        raise BadInput(f"--solver {name}: {error}") from error


def _of_your_own(name: str) -> Any:
    """Return the solver for MODULE:NAME: a sampler, what makes one, or a solver."""
    module, _, thing = name.partition(":")
    folder = os.getcwd()
    sys.path.insert(0, folder)  # as with ``python -m``
    try:
        found = importlib.import_module(module)
    except Exception as error:  # whatever a module of the user's does
        raise BadInput(
            f"--solver {name}: importing {module} failed: {type(error).__name__}: {error}"
        ) from error
    finally:
        sys.path.remove(folder)
    try:
        return solvers.get(getattr(found, thing))
    except (AttributeError, TypeError, ValueError, SolverError) as error:
        raise BadInput(f"--solver {name}: {error}") from error


def _knows(name: str, limit: str) -> bool:
    try:
        return _has(_get(name), limit)
    except BadInput:  # its extra is not installed
        return False


def _has(solver: Any, name: str) -> bool:
    return is_dataclass(solver) and name in {field.name for field in fields(solver)}


def _limited(name: str, solver: Any, limits: dict[str, Any]) -> MasterSolver:
    known = {key: value for key, value in limits.items() if _has(solver, key)}
    if not known:
        return solver
    if ":" in name and "n_bits" in known and _has(solver, "encoding"):
        known["encoding"] = "binary"  # bits per column, as with the named samplers
    try:
        return replace(solver, **known)
    except (ValueError, TypeError) as error:
        raise BadInput(f"--solver {name}: {error}") from error


# -- work ----------------------------------------------------------------------------------


def _run(
    problem: MasterProblem, path: Path, chosen: dict[str, MasterSolver], seed: int
) -> tuple[list[Answer], bool]:
    """Return the solvers' answers, and whether all came to their end."""
    answers: list[Answer] = []
    for name, solver in chosen.items():
        try:
            with (
                unwrapped_interruption(),
                live_line(f"{name}: searching", after=PATIENCE) as update,
            ):
                answers.append(_answer(problem, name, solver, seed, update))
        except KeyboardInterrupt:
            return answers, False
        except ValueError as error:  # what the solver has against the problem
            raise BadInput(f"{name} cannot solve {path}: {error}") from error
        except SolverError as error:
            raise BadInput(str(error)) from error
        if answers[-1].solution.status is Status.INTERRUPTED:  # the best that it had
            return answers, False
    return answers, True


def _answer(
    problem: MasterProblem, name: str, solver: Any, seed: int, update: Callable[[str], None]
) -> Answer:
    _warm_up(problem, name, solver, seed)
    if _has(solver, "on_progress"):
        solver = replace(solver, on_progress=lambda progress: update(f"{name}: {progress}"))
    began, compiling = time.perf_counter(), [0.0]
    try:
        with compilation_time(compiling.append):  # of what the warm-up did not meet
            session = SolverSession(solver)
            solution = solve_checked(session, problem, None, np.random.default_rng(seed))
    except Interrupted as stop:
        solution = replace(stop.result, status=Status.INTERRUPTED)
    seconds = time.perf_counter() - began - sum(compiling)
    n_features = None if problem.reads is None else problem.n_features_read(solution.w)
    return Answer(name, solution, problem.cardinality(solution.w), n_features, seconds)


def _warm_up(problem: MasterProblem, name: str, solver: Any, seed: int) -> None:
    """Compile or load the code on a small problem of the kind: no part of the solver's time."""
    if ":" in name:  # may be a service that costs money
        return
    if _has(solver, "time_limit"):
        solver = replace(solver, time_limit=None)  # compilation may take longer
    for lam in (0.005, 0.02):  # an exact solver has to branch: at the one or the other, by loss
        solver.solve(_stand_in(problem, lam), rng=np.random.default_rng(seed))


def _stand_in(problem: MasterProblem, lam: float) -> MasterProblem:
    """Return a problem of a few columns that asks for all the code that the given one may need.

    Columns are drawn, not taken from the problem, of which a corner may be too easy.
    """
    n, m = N_WARM, 2500 if problem.n_rows >= 2000 else 60  # many rows have code of their own
    has_free = bool((problem.cost == 0).any())
    A = np.where(np.random.default_rng(0).random((n, m)) < 0.6, 1, -1)
    cost = np.where(has_free & (np.arange(n) < 2), 0.0, 1.0)
    A[1] = -A[0] if has_free else A[1]  # the two signs of an intercept
    reads = None if problem.reads is None else np.eye(n, dtype=bool) & (cost > 0)[:, None]
    return MasterProblem(
        A,
        nu=1e-3,
        lam=lam,
        cost=cost,
        loss=problem.loss,
        max_learners=None if problem.max_learners is None else n // 2,
        reads=reads,
        feature_price=None if reads is None else np.full(n, 1e-3),
        max_features=None if problem.max_features is None else n // 2,
    )


# -- what people and programs read ---------------------------------------------------------


def _as_json(path: Path, seed: int, answers: list[Answer]) -> str:
    content = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "problem": str(path),
        "seed": seed,
        "solutions": [answer.to_dict() for answer in answers],
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _report(problem: MasterProblem, path: Path, answers: list[Answer]) -> None:
    limits = [
        f", at most {limit} {what}"
        for limit, what in ((problem.max_learners, "kept"), (problem.max_features, "features read"))
        if limit is not None
    ]
    typer.echo(
        f"{path}: {counted(problem.n_columns, 'column')}, {counted(problem.n_rows, 'row')}, "
        f"{problem.loss.name} loss, nu {problem.nu:g}, lam {problem.lam:g}{''.join(limits)}."
    )
    best = min(answers, key=lambda answer: answer.solution.objective)
    if len(answers) > 1:
        print_table(_comparison(answers, best))
    else:
        print_table(_facts(best))
    print_table(_columns(problem, best))


def _facts(answer: Answer) -> Table:
    solution = answer.solution
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, value in (
        ("solver", answer.solver),
        ("objective", f"{solution.objective:.9g}"),
        ("bound", _bound(solution, 9)),
        ("gap", _gap(solution.gap)),
        ("cardinality", str(answer.cardinality)),
        *([] if answer.n_features is None else [("features", str(answer.n_features))]),
        ("evaluations", str(solution.n_evaluations)),
        ("time", f"{answer.seconds:.2f} s"),
        ("status", ", ".join(filter(None, [solution.status, solution.note]))),
    ):
        table.add_row(name, value)
    return table


def _comparison(answers: list[Answer], best: Answer) -> Table:
    """Return one line per solver; how far each is above the best objective of them all."""
    lowest = best.solution.objective
    table = Table(title="Solvers", title_justify="left", title_style="bold")
    table.add_column("solver", overflow="fold")
    for heading in ("objective", "above\nbest", "bound", "gap", "kept", "work", "time\n(s)"):
        table.add_column(heading, justify="right")
    for answer in answers:
        solution = answer.solution
        above = (solution.objective - lowest) / max(abs(lowest), np.finfo(float).tiny)
        table.add_row(
            answer.solver,
            f"{solution.objective:.6g}",
            _gap(above),
            _bound(solution),
            _gap(solution.gap),
            str(answer.cardinality),
            str(solution.n_evaluations),
            f"{answer.seconds:.2f}",
        )
    return table


def _columns(problem: MasterProblem, answer: Answer) -> Table:
    """Return the kept columns, heaviest first."""
    w = answer.solution.w
    kept = np.argsort(-w, kind="stable")[: np.count_nonzero(w)]
    title = f"{counted(len(kept), 'column')} kept by {answer.solver}"
    table = Table(title=title, title_justify="left", title_style="bold")
    has_fees = bool(problem.fee.any())
    extra = ["fee"] * has_fees + ["reads"] * (problem.reads is not None)
    for heading in ("column", "weight", "cost", *extra):
        table.add_column(heading, justify="right")
    for j in kept:
        cells = [str(j), f"{w[j]:#.6g}", f"{problem.cost[j]:g}" if problem.cost[j] else "free"]
        cells += [f"{problem.fee[j]:g}"] if has_fees else []
        if problem.reads is not None:
            cells.append(", ".join(map(str, np.flatnonzero(problem.reads[j]))))
        table.add_row(*cells)
    return table


def _interruption(names: list[str], answers: list[Answer]) -> str:
    if not answers:
        return f"Interrupted; {names[0]} has no answer before its end."
    if len(answers) == len(names):
        return f"Interrupted; this is the best that {names[-1]} found until then."
    return f"Interrupted; only {', '.join(answer.solver for answer in answers)} came to an answer."


def _bound(solution: Solution, digits: int = 6) -> str:
    return f"{solution.bound:.{digits}g}" if math.isfinite(solution.bound) else "none"


def _gap(gap: float) -> str:
    if not math.isfinite(gap):
        return "none"
    return "0" if abs(gap) < 1e-12 else f"{100 * gap:.2g} %"  # smaller is rounding
