"""What do annealers add? Samplers against local search at equal numbers of polishes.

Instances are the columns of plain column generation on the paper's twelve data sets. A polish
is what turns a proposal into an answer: the continuous refit of its support ("refit"), or that
and the add, drop and swap moves of local search ("descend"). Every arm has the same limit on
polishes; a sampler whose reads are all alike uses fewer. Random reads are the control: what
they reach is the merit of the polish, not of the sampler.
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from common import parse_arguments, save, say, table, verdict
from dwave.samplers import (
    PathIntegralAnnealingSampler,
    RandomSampler,
    SimulatedAnnealingSampler,
    TabuSampler,
)

from totalqboost import MasterProblem, datasets
from totalqboost.experiments.bench import Bench
from totalqboost.experiments.settings import Settings
from totalqboost.master import MasterSolver
from totalqboost.refit import refit_value
from totalqboost.solvers import BQMSolver, BranchAndBound, LocalSearch, TabuSearch

IMAGE = Path(__file__).parents[1] / "docs" / "images" / "samplers.png"
N_CALLS, N_POLISHED = 4, 8  # of a BQMSolver: 32 polishes and one of the starting point
SMALL_COLUMNS, SMALL_BITS = 12, 2
MAX_NODES = 200
SHARE = 1 / 3
OPTIMAL = 1e-6
SAMPLERS = {
    "simulated annealing": SimulatedAnnealingSampler(),
    "path-integral annealing": PathIntegralAnnealingSampler(),
    "dwave tabu": TabuSampler(),
    "random reads": RandomSampler(),
}
ENCODINGS = {"1 bit": ("indicator", 1), "3 bits": ("binary", 3)}


def sampler_arm(name: str, encoding: str, n_bits: int, polish: str) -> BQMSolver:
    """Return a solver that spends all its calls."""
    return BQMSolver(
        SAMPLERS[name],
        encoding=encoding,
        n_bits=n_bits,
        polish=polish,
        n_calls=N_CALLS,
        patience=N_CALLS,
        n_polished=N_POLISHED,
        # The slowest by far: a fifth of the reads of the others.
        parameters={"num_reads": 10} if name.startswith("path") else {},
    )


def arms() -> dict[tuple[str, str], MasterSolver]:
    """Return all solvers that are compared, by name and polish."""
    n = N_CALLS * N_POLISHED
    found: dict[tuple[str, str], MasterSolver] = {
        # Three descents come before the perturbations.
        ("local search", "descend"): LocalSearch(n_perturbations=n - 2),
        ("tabu search", "refit"): TabuSearch(max_evaluations=100 * n, moves_per_start=100),
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


def solve(solver: MasterSolver, problem: MasterProblem, seed: int) -> tuple[float, float]:
    """Return the objective, scored anew, and the seconds of the processor; NaN: it failed."""
    began = time.process_time()
    try:
        solution = solver.solve(problem, rng=np.random.default_rng(seed))
    except np.linalg.LinAlgError as error:
        say(f"warning: {type(solver).__name__} failed: {error}")
        return np.nan, np.nan
    seconds = time.process_time() - began
    if not problem.is_feasible(solution.w):
        raise AssertionError(f"{solver} returned an infeasible solution")
    return problem.objective(solution.w), seconds


def summarise(gaps: list[float], seconds: list[float]) -> dict[str, float]:
    values = np.array(gaps)[np.isfinite(gaps)]
    return {
        "problems": len(values),
        "failed": len(gaps) - len(values),
        "optimal": int(np.sum(values <= OPTIMAL)),
        "mean_gap": float(np.maximum(values, 0.0).mean()),
        "worst_gap": float(values.max()),
        "seconds": float(np.nanmedian(seconds)),
    }


def small_part(n_problems: int) -> list[dict[str, Any]]:
    """Return the gaps to brute force with up to twelve columns and two bits."""
    names = datasets.names()
    solvers: dict[tuple[str, str], MasterSolver] = {
        ("local search", "descend"): LocalSearch(n_perturbations=N_CALLS * N_POLISHED - 2)
    }
    for sampler in SAMPLERS:
        for polish in ("refit", "descend"):
            solvers[sampler, polish] = sampler_arm(sampler, "binary", SMALL_BITS, polish)
    gaps: dict[tuple[str, str], list[float]] = {key: [] for key in solvers}
    seconds: dict[tuple[str, str], list[float]] = {key: [] for key in solvers}
    for seed in range(n_problems):
        name, split = names[seed % len(names)], seed // len(names)
        problem = problem_of(name, split, SMALL_COLUMNS)
        optimum = brute_force(problem)
        for key, solver in solvers.items():
            value, took = solve(solver, problem, seed)
            gaps[key].append(value / optimum - 1)
            seconds[key].append(took)
        say(f"{seed + 1} of {n_problems} small problems ({name})")
    return [
        {"solver": key[0], "polish": key[1], **summarise(gaps[key], seconds[key])}
        for key in solvers
    ]


def large_part(n_columns: int) -> list[dict[str, Any]]:
    """Return the gaps to the best known objective on all data sets."""
    solvers = arms()
    values: dict[tuple[str, str], list[float]] = {key: [] for key in solvers}
    seconds: dict[tuple[str, str], list[float]] = {key: [] for key in solvers}
    best: list[float] = []
    for name in datasets.names():
        problem = problem_of(name, 0, n_columns)
        for key, solver in solvers.items():
            value, took = solve(solver, problem, len(best))
            values[key].append(value)
            seconds[key].append(took)
        best.append(float(np.nanmin([values[key][-1] for key in solvers])))
        say(f"{name}, {problem.n_columns} columns, {problem.n_rows} rows")
    return [
        {
            "solver": key[0],
            "polish": key[1],
            **summarise([v / b - 1 for v, b in zip(values[key], best, strict=True)], seconds[key]),
        }
        for key in solvers
    ]


# -- results --------------------------------------------------------------------------------


def render(content: dict[str, Any]) -> str:
    """Return the tables of results as Markdown."""
    header = ["solver", "polish", "mean gap", "worst gap", "at the best", "median CPU s"]
    parts = []
    configuration = content["configuration"]
    for key, title in (
        (
            "small",
            f"Up to {configuration['small_columns']} columns, {configuration['small_bits']} bits, "
            "gap to brute force:",
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
    parts.append(
        "Simulated annealing within 0.5 % of brute force on average: "
        + verdict(target["mean_gap"] <= 0.005)
        + "."
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
    axes.set_xlim(left=0.8 * floor)
    axes.set_yticks([-k for k in range(len(names))], names)
    n_problems = rows[0]["problems"]
    axes.set_xlabel(
        f"mean gap to the best known objective (%), {n_problems} problems; left edge: none"
    )
    axes.grid(alpha=0.3)
    axes.legend(frameon=True, title="polish")
    axes.figure.savefig(path, dpi=150)
    say(f"written: {path}")


def main() -> None:
    arguments = parse_arguments(__doc__, problems=50, columns=30)
    n_small = 2 if arguments.quick else arguments.problems
    n_columns = 10 if arguments.quick else arguments.columns
    for solver in arms().values():  # compile before anything is timed
        solve(solver, problem_of("thyroid", 1, 6), 0)
    results = {"small": small_part(n_small), "large": large_part(n_columns)}
    configuration = {
        "small_problems": n_small,
        "small_columns": SMALL_COLUMNS,
        "small_bits": SMALL_BITS,
        "large_columns": n_columns,
        "share": SHARE,
        "calls": N_CALLS,
        "polishes": N_CALLS * N_POLISHED + 1,
        "reads": 50,
        "sweeps": 200,
    }
    packages = ("dimod", "dwave-samplers")
    content = save("samplers", arguments, configuration, results, packages)
    draw(content, arguments.out / "samplers.png" if arguments.quick else IMAGE)
    print(render(content))


if __name__ == "__main__":
    main()
