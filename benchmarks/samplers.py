"""What do annealers add? Samplers against local search at equal numbers of polishes.

Instances are the columns of plain column generation on the paper's twelve data sets. A polish
is what turns a proposal into an answer: the continuous refit of its support ("refit"), or that
and the add, drop and swap moves of local search ("descend"). Every arm has the same limit on
polishes, which are counted; a sampler whose reads are all alike uses fewer. What it takes to
find proposals (reads of a sampler, refits on the way to the next start of local search) shows
in the time alone. Random reads are the control: what they reach is the merit of the polish,
not of the sampler.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import combinations, count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from common import parse_arguments, save, say, table, verdict

from totalqboost import MasterProblem, datasets
from totalqboost.experiments.bench import Bench
from totalqboost.experiments.settings import Settings
from totalqboost.refit import refit, refit_value
from totalqboost.solvers import BQMSolver, BranchAndBound, LocalSearch, TabuSearch, descent
from totalqboost.solvers.ocean.calling import DEFAULTS
from totalqboost.solving import MasterSolver

IMAGE = Path(__file__).parents[1] / "docs" / "images" / "samplers.png"
N_CALLS, N_POLISHED = 4, 8  # of a BQMSolver, which polishes its starting point too
LIMIT = 1 + N_CALLS * N_POLISHED
PATH_INTEGRAL_READS = 10  # by far the slowest: a fifth of the reads of the others
SMALL_COLUMNS, SMALL_BITS = 12, 2
MAX_NODES = 200
SHARE = 1 / 3
OPTIMAL = 1e-6
TARGET = 0.005
SAMPLERS = {  # classes of dwave.samplers, which table.py does not need
    "simulated annealing": "SimulatedAnnealingSampler",
    "path-integral annealing": "PathIntegralAnnealingSampler",
    "dwave tabu": "TabuSampler",
    "random reads": "RandomSampler",
}
ENCODINGS = {"1 bit": ("indicator", 1), "3 bits": ("binary", 3)}


def sampler_arm(name: str, encoding: str, n_bits: int, polish: str) -> BQMSolver:
    """Return a solver that spends all its calls."""
    return BQMSolver(
        getattr(import_module("dwave.samplers"), SAMPLERS[name])(),
        encoding=encoding,
        n_bits=n_bits,
        polish=polish,
        n_calls=N_CALLS,
        patience=N_CALLS,
        n_polished=N_POLISHED,
        parameters={"num_reads": PATH_INTEGRAL_READS} if name.startswith("path") else {},
    )


def local_arm() -> LocalSearch:
    """Return local search with more perturbations than it may descend from: see ``counting``."""
    return LocalSearch(n_perturbations=LIMIT)


@contextmanager
def counting(solver: MasterSolver) -> Iterator[list[int]]:
    """Count the polishes of a solver, and give local search no more descents than the limit.

    Beyond it a descent returns its start at an infinite price, which is never taken.
    """
    used = [0]

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **settings: Any) -> Any:
            used[0] += 1
            return method(*arguments, **settings)

        return call

    descend = descent.Descent.descend

    def descend_if_allowed(search: Any, w: np.ndarray) -> tuple[np.ndarray, float]:
        if used[0] == LIMIT:
            return w, np.inf
        used[0] += 1
        return descend(search, w)

    with ExitStack() as stack:
        if isinstance(solver, LocalSearch):
            stack.enter_context(patch.object(descent.Descent, "descend", descend_if_allowed))
        elif isinstance(solver, TabuSearch):
            stack.enter_context(patch("totalqboost.solvers.tabu.refit", counted(refit)))
        elif isinstance(solver, BQMSolver):
            stack.enter_context(patch.object(BQMSolver, "_polish", counted(BQMSolver._polish)))
        yield used
    assert used[0] <= LIMIT, f"{solver} polished {used[0]} times"


def arms() -> dict[tuple[str, str], MasterSolver]:
    """Return all solvers that are compared, by name and polish."""
    found: dict[tuple[str, str], MasterSolver] = {
        ("local search", "descend"): local_arm(),
        # One polish is that of the continuous weights which give the grid its range.
        ("tabu search", "refit"): TabuSearch(
            max_evaluations=100 * (LIMIT - 1), moves_per_start=100
        ),
        (f"exact, {MAX_NODES} nodes", "none"): BranchAndBound(max_nodes=MAX_NODES),
    }
    for sampler in SAMPLERS:
        for depth, (encoding, n_bits) in ENCODINGS.items():
            for polish in ("refit", "descend"):
                found[f"{sampler}, {depth}", polish] = sampler_arm(
                    sampler, encoding, n_bits, polish
                )
    return found


# -- problems -------------------------------------------------------------------------------


def problem_of(dataset: str, split: int, n_columns: int) -> MasterProblem:
    """Return the first columns of plain column generation under a penalty.

    The penalty is the mean fall of the risk from a third of the columns to the last.
    """
    plain = Bench(dataset, split, Settings(max_rounds=n_columns)).plain
    assert plain.problem is not None
    risk = [record.risk for record in plain.trace]
    k = max(1, round(SHARE * len(risk))) - 1
    lam = (risk[k] - risk[-1]) / max(1, len(risk) - 1 - k)
    problem = replace(plain.problem, lam=max(lam, 1e-6), max_learners=None)
    return problem.merged()


def brute_force(problem: MasterProblem) -> float:
    """Return the optimum over continuous weights on every support."""
    best = np.inf
    for size in range(problem.n_columns + 1):
        for support in combinations(range(problem.n_columns), size):
            value = refit_value(problem, np.array(support, dtype=np.intp), tol=1e-7)[1]
            best = min(best, value + problem.lam * size)
    return best


# -- measuring ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """One solver on one problem: objective scored anew, NaN if it failed, and what it took."""

    value: float
    seconds: float = np.nan  # of the processor
    polishes: float = np.nan


def solve(solver: MasterSolver, problem: MasterProblem, seed: int) -> Run:
    """Run a solver on a problem and count its polishes."""
    began = time.process_time()
    try:
        with counting(solver) as used:
            solution = solver.solve(problem, rng=np.random.default_rng(seed))
    except np.linalg.LinAlgError as error:
        say(f"warning: {type(solver).__name__} failed: {error}")
        return Run(np.nan)
    seconds = time.process_time() - began
    if not problem.is_feasible(solution.w):
        raise AssertionError(f"{solver} returned an infeasible solution")
    return Run(problem.objective(solution.w), seconds, used[0])


def summarise(key: tuple[str, str], runs: list[Run], best: list[float]) -> dict[str, Any]:
    gaps = np.array([run.value / value - 1 for run, value in zip(runs, best, strict=True)])
    known = np.maximum(gaps[np.isfinite(gaps)], 0.0)  # less is rounding
    return {
        "solver": key[0],
        "polish": key[1],
        "problems": len(known),
        "failed": len(gaps) - len(known),
        "optimal": int(np.sum(known <= OPTIMAL)),
        "mean_gap": float(known.mean()),
        "worst_gap": float(known.max()),
        "polishes": float(np.nanmean([run.polishes for run in runs])),
        "seconds": float(np.nanmedian([run.seconds for run in runs])),
    }


def small_problems(n_problems: int) -> Iterator[tuple[str, MasterProblem]]:
    """Yield problems of exactly twelve columns; a data set that has not so many is passed over."""
    n_found = 0
    for split in count():
        for name in datasets.names():
            problem = problem_of(name, split, SMALL_COLUMNS)
            if problem.n_columns == SMALL_COLUMNS and n_found < n_problems:
                n_found += 1
                yield name, problem
        if n_found == n_problems:
            return


def small_part(n_problems: int) -> list[dict[str, Any]]:
    """Return the gaps to brute force with twelve columns and two bits."""
    solvers: dict[tuple[str, str], MasterSolver] = {("local search", "descend"): local_arm()}
    for sampler in SAMPLERS:
        for polish in ("refit", "descend"):
            solvers[sampler, polish] = sampler_arm(sampler, "binary", SMALL_BITS, polish)
    runs: dict[tuple[str, str], list[Run]] = {key: [] for key in solvers}
    best: list[float] = []
    for name, problem in small_problems(n_problems):
        for key, solver in solvers.items():
            runs[key].append(solve(solver, problem, len(best)))
        best.append(brute_force(problem))
        say(f"{len(best)} of {n_problems} small problems ({name})")
    return [summarise(key, runs[key], best) for key in solvers]


def large_part(n_columns: int, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the gaps to the best known objective on the data sets."""
    solvers = arms()
    runs: dict[tuple[str, str], list[Run]] = {key: [] for key in solvers}
    best: list[float] = []
    for name in names:
        problem = problem_of(name, 0, n_columns)
        for key, solver in solvers.items():
            runs[key].append(solve(solver, problem, len(best)))
        best.append(float(np.nanmin([runs[key][-1].value for key in solvers])))
        say(f"{name}, {problem.n_columns} columns, {problem.n_rows} rows")
    return [summarise(key, runs[key], best) for key in solvers]


# -- results --------------------------------------------------------------------------------


def render(content: dict[str, Any]) -> str:
    """Return the tables of results as Markdown."""
    header = [
        "solver",
        "polish",
        "mean gap",
        "worst gap",
        "at the best",
        "polishes",
        "median CPU s",
    ]
    parts = []
    configuration = content["configuration"]
    for key, title in (
        (
            "small",
            f"{configuration['small_problems']} problems of {configuration['small_columns']} "
            f"columns, {configuration['small_bits']} bits, gap to brute force:",
        ),
        ("large", f"Up to {configuration['large_columns']} columns, gap to the best known:"),
    ):
        rows = [
            (
                r["solver"],
                r["polish"],
                f"{100 * r['mean_gap']:.3f} %",
                f"{100 * r['worst_gap']:.2f} %",
                f"{r['optimal']} of {r['problems']}"
                + (f", {r['failed']} failed" if r["failed"] else ""),
                f"{r['polishes']:.1f}" if r["polishes"] else "",
                f"{r['seconds']:.2f}",
            )
            for r in content["results"][key]
        ]
        parts += [title, table(header, rows)]
    target = next(
        r
        for r in content["results"]["small"]
        if (r["solver"], r["polish"]) == ("simulated annealing", "descend")
    )
    is_met = verdict(target["mean_gap"] <= TARGET)
    parts.append(
        "BQMSolver with simulated annealing, polished by local moves as it is by default, within "
        f"0.5 % of brute force on average, on {target['problems']} problems: "
        f"{is_met} ({100 * target['mean_gap']:.3f} %)."
    )
    return "\n\n".join(parts)


def draw(content: dict[str, Any], path: Path) -> None:
    """Draw the mean gaps of the large part, one line per solver."""
    from matplotlib.figure import Figure

    rows = content["results"]["large"]
    names = list(dict.fromkeys(r["solver"] for r in rows))
    axes = Figure(figsize=(8, 4.2), layout="constrained").add_subplot()
    floor = 1e-3
    labels = {"refit": "refit only", "descend": "refit and local moves", "none": "exact method"}
    for (polish, label), colour, marker in zip(
        labels.items(), ("0.55", "C0", "C2"), "soD", strict=True
    ):
        here = [r for r in rows if r["polish"] == polish]
        gaps = [max(floor, 100 * r["mean_gap"]) for r in here]
        places = [-names.index(r["solver"]) for r in here]
        axes.plot(gaps, places, marker, ms=8, color=colour, label=label)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlim(left=0.8 * floor)
    axes.set_yticks([-k for k in range(len(names))], names)
    n_problems = rows[0]["problems"]
    axes.set_xlabel(
        f"mean gap to the best known objective (%), {n_problems} problems; left edge: none"
    )
    axes.grid(alpha=0.3)
    axes.figure.legend(loc="outside upper center", ncols=3, frameon=False)
    axes.figure.savefig(path, dpi=150)
    say(f"written: {path}")


def main() -> None:
    arguments = parse_arguments(__doc__, problems=50, columns=30)
    n_small = 1 if arguments.quick else arguments.problems
    n_columns = 8 if arguments.quick else arguments.columns
    names = datasets.names()[:2] if arguments.quick else datasets.names()
    first = problem_of("thyroid", 1, 6)
    for solver in arms().values():  # compile before anything is timed
        solve(solver, first, 0)
    results = {"small": small_part(n_small), "large": large_part(n_columns, names)}
    configuration = {
        "small_problems": n_small,
        "small_columns": SMALL_COLUMNS,
        "small_bits": SMALL_BITS,
        "large_columns": n_columns,
        "share": SHARE,
        "calls": N_CALLS,
        "polishes": LIMIT,
        "reads": {
            name: PATH_INTEGRAL_READS if name.startswith("path") else DEFAULTS["num_reads"]
            for name in SAMPLERS
        },
        "sweeps": DEFAULTS["num_sweeps"],
    }
    packages = ("dimod", "dwave-samplers")
    content = save("samplers", arguments, configuration, results, packages)
    draw(content, arguments.out / "samplers.png" if arguments.quick else IMAGE)
    print(render(content))


if __name__ == "__main__":
    main()
