"""Searches from many starts, and a tree in parts, on one and on two workers: how much faster?

Each solver answers one problem in one thread, in two threads and on two Dask workers, in turns;
all answers must be the same to the last digit. Beside them stands what several starts find: the
objective of one start against that of all. The processor time of every part is kept, exchange by
exchange: what the search would take on more workers follows from it.

    python benchmarks/spread_search.py
    python benchmarks/spread_search.py --quick
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any
from unittest.mock import patch

import joblib
import numpy as np
from common import (
    first_columns,
    interleave,
    load_before,
    parse_arguments,
    save,
    say,
    summary,
    table,
)

from totalqboost import MasterProblem, datasets
from totalqboost.cluster.connect import connected
from totalqboost.solvers import BranchAndBound, LocalSearch, TabuSearch, local, tabu
from totalqboost.solvers.exact import subtrees
from totalqboost.solving import MasterSolver, Solution

WORKERS = 2
SIMULATED = (2, 4, 8)
WHERE = ("one thread", "two threads", "two workers")
PARTS: dict[str, ModuleType] = {"tabu": tabu, "local": local, "exact": subtrees}


def problem_of(name: str, n_columns: int, lam: float) -> MasterProblem:
    """Return the columns of plain boosting on a data set, with a price."""
    return replace(first_columns(*datasets.load(name), n_columns), lam=lam)


def solvers_of(is_quick: bool) -> dict[str, tuple[MasterProblem, MasterSolver]]:
    if is_quick:
        small = problem_of("thyroid", 12, 0.01)
        return {
            "tabu": (small, TabuSearch(n_starts=4, max_evaluations=200)),
            "local": (small, LocalSearch(n_starts=4, n_perturbations=4)),
            "exact": (small, BranchAndBound(n_subtrees=2)),
        }
    large, middle = problem_of("image", 100, 0.002), problem_of("german", 60, 0.002)
    return {
        "tabu": (large, TabuSearch(n_starts=8, max_evaluations=20_000)),
        "local": (middle, LocalSearch(n_starts=8)),
        "exact": (middle, BranchAndBound(n_subtrees=8, max_nodes=2_000)),
    }


def parts_of(name: str, solve: Callable[[], Any], n: int) -> list[list[float]]:
    """Return the processor seconds of the parts of a search, a list for each exchange."""
    module, seconds = PARTS[name], list[float]()
    part = module._part

    def timed(*arguments: Any) -> Any:
        began = time.thread_time()
        found = part(*arguments)
        seconds.append(time.thread_time() - began)
        return found

    with patch.object(module, "_part", timed):
        solve()
    return [seconds[i : i + n] for i in range(0, len(seconds), n)]


def measured(name: str, problem: MasterProblem, solver: Any, repeats: int) -> dict[str, Any]:
    """Return times, answers and parts of one solver; its cluster is the default one."""
    answers: dict[str, Solution] = {}

    def here() -> None:
        answers[WHERE[0]] = solver.solve(problem)

    def threads() -> None:
        answers[WHERE[1]] = replace(solver, n_jobs=WORKERS).solve(problem)

    def workers() -> None:
        with joblib.parallel_config("dask"):
            answers[WHERE[2]] = solver.solve(problem)

    seconds = interleave(dict(zip(WHERE, (here, threads, workers), strict=True)), repeats)
    n = solver.n_subtrees if name == "exact" else solver.n_starts
    single = replace(solver, **{"n_subtrees" if name == "exact" else "n_starts": 1})
    began = time.process_time()
    parts = parts_of(name, here, n)
    whole = time.process_time() - began
    one = answers[WHERE[0]]
    return {
        "columns": problem.n_columns,
        "rows": problem.n_rows,
        "starts": n,
        "seconds": {where: summary(seconds[where]) for where in WHERE},
        "is_same": all(
            np.array_equal(one.w, other.w)
            and (one.bound, one.status) == (other.bound, other.status)
            for other in answers.values()
        ),
        "objective": one.objective,
        "objective_of_one": single.solve(problem).objective,
        "bound": one.bound,
        "status": one.status,
        "evaluations": one.n_evaluations,
        "processor_seconds": whole,
        "parts": parts,
    }


def main() -> None:
    arguments = parse_arguments(__doc__, repeats=3)
    repeats = 1 if arguments.quick else arguments.repeats
    load, found = load_before(), {}
    with connected(workers=WORKERS):
        for name, (problem, solver) in solvers_of(arguments.quick).items():
            found[name] = measured(name, problem, solver, repeats)
            say(f"{name}: {found[name]['seconds']}")
    configuration = {"repeats": repeats, "load_before": load}
    print(render(save("spread_search", arguments, configuration, found, ("dask",))))
    sys.exit(not all(one["is_same"] for one in found.values()))


def shared_out(one: dict[str, Any], n_workers: int) -> float:
    """Return seconds on so many workers: longest parts first, all wait at every exchange."""
    total = float(one["processor_seconds"] - sum(map(sum, one["parts"])))
    for parts in one["parts"]:
        busy = [0.0] * n_workers
        for seconds in sorted(parts, reverse=True):
            busy[busy.index(min(busy))] += seconds
        total += max(busy)
    return total


def render(content: dict[str, Any], part: str = "") -> str:
    rows, notes = [], []
    for name, one in content["results"].items():
        best = [one["seconds"][where]["best"] for where in WHERE]
        rows.append(
            [
                f"{name}, {one['columns']} columns, {one['rows']} rows",
                one["starts"],
                *(f"{seconds:.2f}" for seconds in best),
                f"{best[0] / best[2]:.2f}",
                *(f"{one['processor_seconds'] / shared_out(one, n):.2f}" for n in SIMULATED),
            ]
        )
        notes.append(
            f"- {name}: objective of one {one['objective_of_one']:.6f}, of all "
            f"{one['objective']:.6f}; the same answer everywhere: "
            f"{'yes' if one['is_same'] else '**no**'}."
        )
    header = ["solver", "starts or parts", *(f"{where}, s" for where in WHERE)]
    header += ["times faster on two", *(f"on {n}, simulated" for n in SIMULATED)]
    return f"{table(header, rows)}\n\n" + "\n".join(notes)


if __name__ == "__main__":
    main()
