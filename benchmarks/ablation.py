"""What is each technique of the exact solver worth? One at a time is switched off.

Problems are those of certificates.py, some of each kind. Nodes, seconds of the processor (one
thread) and the gap that is left at the limit of nodes, with all techniques and without each. Nodes
and gaps do not depend on the machine.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy

import time
from dataclasses import fields
from typing import Any

import numpy as np
from certificates import Key, make_problem, warm_up
from common import load_before, parse_arguments, save, say, table

from totalqboost import MasterProblem
from totalqboost.solvers import BranchAndBound
from totalqboost.solvers.exact import Techniques
from totalqboost.solving import Status

ALL = "all techniques"
NAMES = [field.name for field in fields(Techniques)]
PROBLEMS: list[Key] = [
    ("exponential", "heart", 15, 5),
    ("exponential", "thyroid", 15, 5),
    ("exponential", "diabetes", 30, 8),
    ("exponential", "german", 30, 12),
    ("exponential", "waveform", 30, 12),
    ("exponential", "ringnorm", 15, 5),
    ("exponential", "twonorm", 15, 8),
    ("exponential", "twonorm", 15, 12),
    ("logistic", "diabetes", 30, 8),
    ("logistic", "german", 30, 12),
    ("logistic", "waveform", 15, 8),
    ("logistic", "twonorm", 15, 8),
]
QUICK: list[Key] = [("exponential", "heart", 15, 5), ("logistic", "german", 15, 5)]


def run(problem: MasterProblem, techniques: Techniques, max_nodes: int) -> dict[str, Any]:
    """Return nodes, time and gap of one run."""
    solver = BranchAndBound(max_nodes=max_nodes, techniques=techniques)
    began = time.process_time()
    solution = solver.solve(problem)
    return {
        "nodes": solution.n_evaluations,
        "seconds": time.process_time() - began,
        "gap": max(solution.gap, 0.0),
        "is_solved": solution.status is Status.OPTIMAL,
    }


def measure(keys: list[Key], max_nodes: int) -> list[dict[str, Any]]:
    """Return one record per problem: a run with all techniques, and one without each."""
    records = []
    for key in keys:
        problem = make_problem(*key)
        assert problem is not None
        runs = {ALL: run(problem, Techniques(), max_nodes)}
        for name in NAMES:
            runs[name] = run(problem, Techniques(**{name: False}), max_nodes)
        records.append({"key": list(key), "runs": runs})
        said = ", ".join(f"{name} {_nodes(run)}" for name, run in runs.items())
        say(f"{describe(key)}: {said}")
    return records


def describe(key: Any) -> str:
    return "{}, {}, {} columns, {} kept".format(*key)


def ratio(records: list[dict[str, Any]], name: str, what: str) -> float:
    """Return how many times more it takes without a technique: a geometric mean."""
    pairs = [(r["runs"][name][what], r["runs"][ALL][what]) for r in records]
    return float(np.exp(np.mean([np.log(max(a, 1e-3) / max(b, 1e-3)) for a, b in pairs])))


def render(content: dict[str, Any]) -> str:
    """Return the tables of results as Markdown."""
    records, max_nodes = content["results"]["problems"], content["configuration"]["max_nodes"]
    header = ["switched off", f"solved in {max_nodes} nodes", "nodes", "time", "worst gap"]
    rows = []
    for name in (ALL, *NAMES):
        runs = [r["runs"][name] for r in records]
        is_all = name == ALL
        rows.append(
            (
                "nothing" if is_all else name,
                f"{sum(run['is_solved'] for run in runs)}/{len(runs)}",
                "1" if is_all else f"× {ratio(records, name, 'nodes'):.2f}",
                "1" if is_all else f"× {ratio(records, name, 'seconds'):.2f}",
                f"{max(run['gap'] for run in runs):.2%}",
            )
        )
    short = [name[:11] for name in NAMES]
    nodes = [
        (describe(r["key"]), *(_nodes(r["runs"][name]) for name in (ALL, *NAMES))) for r in records
    ]
    return f"{table(header, rows)}\n\n{table(['nodes', 'all', *short], nodes)}"


def _nodes(run: dict[str, Any]) -> str:
    return f"{run['nodes']}" if run["is_solved"] else f"{run['nodes']} ({run['gap']:.1%})"


def main() -> None:
    arguments = parse_arguments(__doc__, max_nodes=1000)
    load = load_before()
    warm_up()
    records = measure(QUICK if arguments.quick else PROBLEMS, arguments.max_nodes)
    configuration = {"max_nodes": arguments.max_nodes, "load_before": load}
    print(render(save("ablation", arguments, configuration, {"problems": records})))


if __name__ == "__main__":
    main()
