"""How far does branch and bound get, and how far from the optimum are the heuristics?

Master problems over the first n columns of plain column generation on all twelve data sets, with
the price chosen for about k kept columns: exponential loss with nu = 1e-4 and the constant priced
like any column (the paper's form), and logistic loss with nu = 4 / rows and a free intercept. Each
is run once to the time limit; the state at the early mark is taken from the same run. Finished
problems are kept in certificates.jsonl beside the results, so a run can be stopped and goes on
where it was. Rows of the results that a run does not cover stay as they are.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, load_before, save, say, table, verdict

from totalqboost import MasterProblem, datasets, dictionaries, losses
from totalqboost.experiments.bench import validation_rows
from totalqboost.learners import Learner
from totalqboost.refit import refit_value
from totalqboost.solvers import BranchAndBound, LocalSearch, Progress, TabuSearch
from totalqboost.solvers.ocean.named import named_solver
from totalqboost.solving import Status

LOSSES = ("exponential", "logistic")
N_COLUMNS = (15, 30)
SIZES = (3, 5, 8, 12, 20, 30)
HARD = ("ringnorm", "twonorm")
OPTIMAL = 1e-6  # relative gap that counts as optimal, for heuristics
HEURISTICS = ("local search", "tabu search", "simulated annealing", "early stopping")

Key = tuple[str, str, int, int]  # loss, data set, columns, columns to keep


# -- problems -------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def generated(loss: str, dataset: str, n: int) -> MasterProblem | None:
    """Return the problem over the first n columns of plain column generation, if there are."""
    X, y = datasets.load(dataset)
    is_valid = validation_rows(len(y), 0, 0)
    X, y = X[~is_valid], y[~is_valid].astype(np.int8)
    nu = 1e-4 if loss == "exponential" else 4.0 / len(y)
    columns = [] if loss == "exponential" else [y, -y]
    cost = np.zeros(len(columns))
    oracle = dictionaries.get("stumps").prepare(X, y)
    taken: set[Learner] = set()
    problem, w = None, np.zeros(len(columns))
    u = np.full(len(y), 1.0 / len(y)) * losses.get(loss).weight(np.zeros(1))[0]
    for _ in range(n):
        if problem is not None or columns:
            problem = MasterProblem(np.array(columns), nu, 0.0, cost, losses.get(loss))
            w, _ = refit_value(problem, np.arange(len(w)), w, tol=1e-10)
            u = problem.dual_weights(w)
        offered = oracle.best(u, taken)
        if not offered or offered[0].edge <= nu + 1e-9:
            return None
        taken.add(offered[0].learner)
        columns.append(offered[0].column)
        cost, w = np.append(cost, 1.0), np.append(w, 0.0)
    return MasterProblem(np.array(columns), nu, 1.0, cost, losses.get(loss))


def make_problem(loss: str, dataset: str, n: int, size: int) -> MasterProblem | None:
    """Return the problem with a price at which about ``size`` of n columns are kept."""
    problem = generated(loss, dataset, n) if size < n else None
    if problem is None:
        return None
    search, merged = LocalSearch(n_perturbations=3), problem.merged()
    low, high = 1e-6, 0.5
    for _ in range(14):
        lam = float(np.sqrt(low * high))
        kept = problem.cardinality(search.solve(merged.changed(lam=lam)).w)
        if kept == size:
            break
        low, high = (lam, high) if kept > size else (low, lam)
    return problem.changed(lam=lam)


def early_stopping(problem: MasterProblem) -> float:
    """Return the best objective of the first k columns, over all k."""
    w, best = np.zeros(problem.n_columns), np.inf
    for k in range(len(problem.free), problem.n_columns + 1):
        w, _ = refit_value(problem, np.arange(k), w, tol=1e-8)
        best = min(best, problem.objective(w))
    return best


def simulated_annealing(problem: MasterProblem) -> float | None:
    """Return what simulated annealing of quadratic models reaches, if it is installed."""
    if find_spec("dwave.samplers") is None:
        return None
    return named_solver("simulated-annealing").solve(problem).objective


# -- measuring ------------------------------------------------------------------------------


def run_problem(key: Key, early: float, limit: float, threads: int) -> dict[str, Any] | None:
    """Return what branch and bound and the heuristics reach on one problem."""
    problem = make_problem(*key)
    if problem is None:
        return None
    states: list[Progress] = []
    solver = BranchAndBound(
        max_nodes=10**9, time_limit=limit, n_jobs=threads, on_progress=states.append
    )
    began = time.perf_counter()
    solution = solver.solve(problem)
    seconds = time.perf_counter() - began
    before = [state for state in states if state.seconds <= early]
    solved = solution.status is Status.OPTIMAL
    early_gap = before[-1].gap if before else 1.0
    objectives = {
        "local search": LocalSearch().solve(problem).objective,
        "tabu search": TabuSearch().solve(problem).objective,
        "simulated annealing": simulated_annealing(problem),
        "early stopping": early_stopping(problem),
    }
    return {
        "key": list(key),
        "rows": problem.merged().n_rows,
        "lam": problem.lam,
        "kept": problem.cardinality(solution.w),
        "objective": solution.objective,
        "root_gap": states[0].gap if states else 1.0,
        "gap": max(solution.gap, 0.0),
        "early_gap": max(solution.gap, 0.0) if seconds <= early else early_gap,
        "is_solved": solved,
        "is_solved_early": solved and seconds <= early,
        "nodes": solution.n_evaluations,
        "seconds": seconds,
        "threads": threads,
        "heuristics": objectives,
    }


def warm_up() -> None:
    """Compile or load all kernels before anything is timed."""
    rng = np.random.default_rng(0)
    problem = MasterProblem(np.where(rng.random((12, 2500)) < 0.6, 1, -1), nu=1e-4, lam=0.01)
    small = MasterProblem(np.where(rng.random((20, 120)) < 0.55, 1, -1), nu=1e-4, lam=0.004)
    BranchAndBound(max_nodes=60).solve(small)  # enough for the tree to start again
    for solver in (BranchAndBound(max_nodes=20), LocalSearch(), TabuSearch()):
        solver.solve(problem)


def measure(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Run all problems that are not in the file of finished ones yet."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "certificates.jsonl"
    limits = [arguments.early, arguments.time_limit]
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    records = [json.loads(line) for line in lines]
    records = [record for record in records if record["limits"] == limits]
    done = {tuple(record["key"]) for record in records}
    wanted = [
        (loss, dataset, n, size)
        for n in arguments.columns
        for loss in arguments.losses
        for dataset in arguments.datasets
        for size in arguments.sizes
        if not arguments.finished or (loss, dataset, n, size) in done
    ]
    with (
        ProcessPoolExecutor(arguments.jobs, initializer=warm_up) as pool,
        path.open("a", encoding="utf-8") as file,
    ):
        tasks = {
            pool.submit(run_problem, key, limits[0], limits[1], arguments.threads): key
            for key in wanted
            if key not in done
        }
        for i, task in enumerate(as_completed(tasks)):
            record = task.result() or {"key": list(tasks[task]), "skipped": True}
            record["limits"] = limits
            file.write(json.dumps(record) + "\n")
            file.flush()
            records.append(record)
            say(f"{i + 1} of {len(tasks)}: {describe(record)}")
    chosen = set(wanted)
    records = [r for r in records if tuple(r["key"]) in chosen and not r.get("skipped")]
    return sorted(records, key=lambda r: r["key"])


def describe(record: dict[str, Any]) -> str:
    name = "{}, {}, n = {}, k = {}".format(*record["key"])
    if record.get("skipped"):
        return f"{name}: not so many columns"
    return f"{name}: gap {record['gap']:.2%}, {record['nodes']} nodes, {record['seconds']:.1f} s"


# -- reporting ------------------------------------------------------------------------------


def summarise(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per loss, number of columns and data set."""
    rows = []
    for group in sorted({(r["key"][0], r["key"][2], r["key"][1]) for r in records}):
        loss, n, dataset = group
        some = [r for r in records if r["key"][:3] == [loss, dataset, n]]
        rows.append(
            {
                "loss": loss,
                "columns": n,
                "dataset": dataset,
                "limits": some[0]["limits"],
                "problems": len(some),
                "solved_early": sum(r["is_solved_early"] for r in some),
                "solved": sum(r["is_solved"] for r in some),
                "worst_early_gap": max(r["early_gap"] for r in some),
                "worst_gap": max(r["gap"] for r in some),
                "median_nodes": float(np.median([r["nodes"] for r in some])),
                "median_seconds": float(np.median([r["seconds"] for r in some])),
                "threads": max(r["threads"] for r in some),
            }
        )
    return rows


def left_as_they_are(path: Path, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of earlier results about losses and columns that ``rows`` do not cover."""
    if not path.exists():
        return []
    results = json.loads(path.read_text(encoding="utf-8"))["results"]
    covered = {(row["loss"], row["columns"]) for row in rows}
    before = [*results["summaries"], *results["older"]]
    return [row for row in before if (row["loss"], row["columns"]) not in covered]


def judge(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return how far each heuristic is from the optimum, where it is certified."""
    certified = [r for r in records if r["is_solved"]]
    rows = []
    for name in HEURISTICS:
        gaps = [
            max(r["heuristics"][name] - r["objective"], 0.0) / r["objective"]
            for r in certified
            if r["heuristics"][name] is not None
        ]
        if gaps:
            rows.append(
                {
                    "heuristic": name,
                    "problems": len(gaps),
                    "optimal": int(np.sum(np.array(gaps) <= OPTIMAL)),
                    "mean_gap": float(np.mean(gaps)),
                    "worst_gap": float(np.max(gaps)),
                }
            )
    return rows


def table_of(rows: list[dict[str, Any]], early: float, limit: float) -> str:
    """Return one table of summaries, all with the same limits of time."""
    header = ["columns", f"solved in {early:g} s", f"in {limit:g} s", f"worst gap at {early:g} s"]
    header += [f"at {limit:g} s", "median nodes", "median s", "threads"]
    lines = [
        (
            f"{r['columns']}, {r['loss']}, {r['dataset']}",
            f"{r['solved_early']}/{r['problems']}",
            f"{r['solved']}/{r['problems']}",
            f"{r['worst_early_gap']:.2%}",
            f"{r['worst_gap']:.2%}",
            f"{r['median_nodes']:.0f}",
            f"{r['median_seconds']:.1f}",
            r["threads"],
        )
        for r in sorted(rows, key=lambda r: (r["columns"], r["loss"], r["dataset"]))
    ]
    return table(header, lines)


def render(content: dict[str, Any]) -> str:
    """Return the tables of results as Markdown."""
    results, configuration = content["results"], content["configuration"]
    limits = configuration["early"], configuration["time_limit"]
    heuristics = [
        (
            r["heuristic"],
            r["problems"],
            f"{r['optimal'] / r['problems']:.1%}",
            f"{r['mean_gap']:.1e}",
            f"{r['worst_gap']:.1e}",
        )
        for r in results["heuristics"]
    ]
    header = ["heuristic", "certified problems", "optimal", "mean gap", "worst gap"]
    parts = [table_of(results["summaries"], *limits), table(header, heuristics), targets(content)]
    if results["older"]:
        parts.append("Rows of an earlier version of the solver, which this run did not repeat:")
    for early, limit in sorted({tuple(row["limits"]) for row in results["older"]}):
        rows = [row for row in results["older"] if row["limits"] == [early, limit]]
        parts.append(table_of(rows, early, limit))
    return "\n\n".join(parts)


def targets(content: dict[str, Any]) -> str:
    """Return the targets, and whether they are met."""
    small = [r for r in content["results"]["summaries"] if r["columns"] <= 30]
    lines = []
    for loss in sorted({r["loss"] for r in small}):
        easy = [r for r in small if r["loss"] == loss and r["dataset"] not in HARD]
        hard = [r for r in small if r["loss"] == loss and r["dataset"] in HARD]
        n_open = sum(r["problems"] - r["solved_early"] for r in easy)
        lines.append(
            f"- {loss} loss, all but {' and '.join(HARD)}: {n_open} not solved at the early "
            f"mark; none: {verdict(n_open == 0)}."
        )
        if hard:
            worst = max(r["worst_gap"] for r in hard)
            lines.append(f"- {loss} loss, {' and '.join(HARD)}: worst gap {worst:.1%}.")
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few problems, to see that it runs")
    parser.add_argument("--out", type=Path, help="folder of the results")
    parser.add_argument("--datasets", nargs="+", default=list(datasets.names()))
    parser.add_argument("--losses", nargs="+", default=list(LOSSES))
    parser.add_argument("--columns", nargs="+", type=int, default=list(N_COLUMNS))
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--time-limit", type=float, default=20.0)
    parser.add_argument("--early", type=float, default=5.0)
    parser.add_argument("--finished", action="store_true", help="only report what is done")
    parser.add_argument("--jobs", type=int, default=1, help="problems side by side")
    parser.add_argument("--threads", type=int, default=2, help="threads per problem")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.datasets, arguments.columns = ["heart", "german"], [15]
        arguments.sizes, arguments.time_limit, arguments.early = [3], 5.0, 2.0
    if arguments.out is None:
        arguments.out = RESULTS / "quick" if arguments.quick else RESULTS
    return arguments


def main() -> None:
    arguments = parse()
    load = load_before()
    records = measure(arguments)
    names = ("losses", "datasets", "columns", "sizes", "early", "time_limit", "jobs", "threads")
    configuration = {name: getattr(arguments, name) for name in names}
    configuration |= {"load_before": load}
    rows = summarise(records)
    results = {
        "summaries": rows,
        "older": left_as_they_are(arguments.out / "certificates.json", rows),
        "heuristics": judge(records),
        "problems": records,
    }
    print(render(save("certificates", arguments, configuration, results)))


if __name__ == "__main__":
    main()
