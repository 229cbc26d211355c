"""The paper's experiments on many splits: times, optimization success, agreement, gains.

Runs are kept in --folder and resumed: `local` and `tabu` (one split, for the times), `splits`
(A to E on --splits splits) and `baselines` (on --baseline-splits splits). The rows of the last
two are kept, compressed, in benchmarks/results/reproduction: `totalqboost report` makes a page
of them. The tables of docs/reproduction.md follow from the rows (python benchmarks/table.py).
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from agreement import agreement
from common import RESULTS, load_before, save, say, table, verdict

from totalqboost import datasets
from totalqboost.experiments.figures import save_figure
from totalqboost.experiments.frontiers import group_points
from totalqboost.experiments.rows import Row
from totalqboost.experiments.runner import Task, run, tasks_of
from totalqboost.experiments.settings import Settings
from totalqboost.experiments.statistics import (
    PAPER_SHARES,
    compare,
    optimization_success,
)
from totalqboost.files import write_bytes, write_text

KEPT = RESULTS / "reproduction"
FIGURE = Path(__file__).parents[1] / "docs" / "images" / "reproduction.png"
PAPER = "ABCDE"
BASELINES = ("adaboost", "lpboost", "erlpboost")
SIZES = (5, 10, 20, 40)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--baseline-splits", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--folder", type=Path, help="default runs/reproduction")
    parser.add_argument("--out", type=Path, help="folder of the JSON file")
    parser.add_argument("--quick", action="store_true", help="one small data set, two splits")
    arguments = parser.parse_args()
    arguments.datasets, arguments.settings = datasets.names(), Settings()
    if arguments.quick:
        arguments.datasets, arguments.splits = ("thyroid",), 2
        arguments.settings = Settings(max_rounds=10, n_penalties=3)
    arguments.out = arguments.out or (RESULTS / "quick" if arguments.quick else RESULTS)
    name = "runs/quick/reproduction" if arguments.quick else "runs/reproduction"
    arguments.folder = arguments.folder or Path(name)
    load = load_before()
    one = run_named(arguments, "local", PAPER, 1)
    tabu = run_named(arguments, "tabu", PAPER, 1, "tabu")
    whole = run_named(arguments, "splits", PAPER, arguments.splits)
    baselines = run_named(arguments, "baselines", BASELINES, arguments.baseline_splits)
    rows = [*whole["rows"], *baselines["rows"]]
    if not arguments.quick:
        keep(arguments.folder / "splits" / "config.json", rows)
        save_figure(whole["rows"], FIGURE)
    results = {
        "times": {name: found["times"] for name, found in (("local", one), ("tabu", tabu))},
        "success": success(whole["rows"]),
        "tabu_success": success(tabu["rows"]),
        "agreement": agreed(whole["rows"]),
        "generalization": generalization(whole["rows"]),
        "baselines": errors_at_sizes(rows, arguments.baseline_splits),
    }
    configuration = {
        "splits": arguments.splits,
        "baseline_splits": arguments.baseline_splits,
        "load_before": load,
    }
    print(render(save("reproduction", arguments, configuration, results)))


def run_named(
    arguments: argparse.Namespace,
    name: str,
    strategies: Iterable[str],
    n_splits: int,
    solver: str = "local",
) -> dict[str, Any]:
    """Run, or resume, one of the runs; return its rows and times."""
    folder = arguments.folder / name
    tasks = tasks_of(arguments.datasets, range(n_splits), strategies)

    def progress(task: Task, n_done: int, n_tasks: int) -> None:
        if n_done % 20 == 0 or n_done == n_tasks:
            say(f"{name}: {n_done} of {n_tasks} ({task.dataset}, split {task.split})")

    rows = run(folder, tasks, replace(arguments.settings, solver=solver), arguments.jobs, progress)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    times = {
        "wall": config["wall_seconds"],
        "computing": sum(row.seconds for row in rows),
        "splits": n_splits,
        "ensembles": len(rows),
    }
    return {"rows": [row for row in rows if row.split < n_splits], "times": times}


def keep(config: Path, rows: list[Row]) -> None:
    """Write the rows and the settings of the run; of ensembles only those of C, D and E."""
    KEPT.mkdir(parents=True, exist_ok=True)
    plain = sorted(
        (row if row.strategy in "CDE" else replace(row, ensemble=None) for row in rows),
        key=lambda r: (r.dataset, r.split, r.strategy, -(r.penalty or 0.0), r.round or 0),
    )
    lines = "".join(short_line(row) for row in plain)
    write_bytes(KEPT / "rows.jsonl.gz", gzip.compress(lines.encode("utf-8"), mtime=0))
    content = json.loads(config.read_text(encoding="utf-8"))
    content.pop("wall_seconds", None)  # of a run that was killed and resumed it is not the whole
    write_text(KEPT / "config.json", json.dumps(content, indent=1) + "\n")


def short_line(row: Row) -> str:
    """Return a row as a line of JSON with seven digits per number."""
    content = {
        name: float(f"{value:.7g}") if isinstance(value, float) else value
        for name, value in row.to_dict().items()
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n"


# -- what the rows say ----------------------------------------------------------------------


def success(rows: list[Row]) -> list[dict[str, Any]]:
    """Return how often E is worse than B, and D than E, beside the paper's shares."""
    return [
        {
            "strategy": key[0],
            "other": key[1],
            "measure": key[2],
            "worse": found.n_worse,
            "coinciding": found.n_coinciding,
            "paper": PAPER_SHARES[key],
        }
        for key, found in optimization_success(rows, n_hot=Settings().n_hot).items()
    ]


def agreed(rows: list[Row]) -> list[dict[str, Any]]:
    """Return our mean errors of A and B beside the paper's points."""
    return [
        {
            "dataset": found.dataset,
            "sizes": found.n_sizes,
            "ours": found.ours,
            "paper": found.paper,
            "spread": found.spread,
            "deviations": found.deviations,
        }
        for found in agreement(rows).values()
    ]


def generalization(rows: list[Row]) -> list[dict[str, Any]]:
    """Return validation errors of C, D, E minus those of A, B, with their tests."""
    found = []
    for dataset, comparison in compare(rows).items():
        overall = comparison.overall
        found.append(
            {
                "dataset": dataset,
                "overall": overall and vars_of(overall),
                "best": vars_of(comparison.best),
                "sizes": len(comparison.sizes),
                "better": list(comparison.better),
                "worse": list(comparison.worse),
            }
        )
    return found


def vars_of(difference: Any) -> dict[str, float]:
    """Return a difference as plain numbers."""
    return {
        "mean": difference.mean,
        "standard_error": difference.standard_error,
        "p": difference.p_value,
    }


def errors_at_sizes(rows: list[Row], n_splits: int) -> list[dict[str, Any]]:
    """Return mean errors of each method's best ensemble by risk of at most 5, 10, ... learners.

    LPBoost and ERLPBoost have three soft margins; the one of least validation error over all
    splits and sizes stands for each data set, which favours them.
    """
    rows = [row for row in rows if row.split < n_splits and row.n_learners > 0]
    found = []
    groups = {"convex": ("A", "B"), "cp": ("C", "D", "E"), **{name: (name,) for name in BASELINES}}
    for dataset in sorted({row.dataset for row in rows}):
        entry: dict[str, Any] = {"dataset": dataset}
        for name, strategies in groups.items():
            members = [r for r in rows if r.dataset == dataset and r.strategy in strategies]
            by_penalty = name in ("lpboost", "erlpboost")
            margins: list[float | None] = [None]
            if by_penalty:
                margins = list(dict.fromkeys(r.penalty for r in members))
            candidates = [
                mean_errors([r for r in members if margin is None or r.penalty == margin])
                for margin in margins
            ]
            entry[name] = min(candidates, key=lambda errors: sum(errors))
        found.append(entry)
    return found


def mean_errors(rows: list[Row]) -> list[float]:
    """Return mean validation errors at the sizes: of the last point at or below each."""
    curves = group_points(rows, {"all": tuple({row.strategy for row in rows})}, "risk")
    means = []
    for size in SIZES:
        errors = []
        for groups in curves.values():
            points = [p for p in groups["all"] if p.n_learners <= size and p.row is not None]
            if points:
                errors.append(min(points, key=lambda p: p.row.risk).error)  # type: ignore[union-attr]
        means.append(sum(errors) / len(errors))
    return means


# -- tables ---------------------------------------------------------------------------------


def render(content: dict[str, Any]) -> str:
    """Return the tables as Markdown."""
    results = content["results"]
    parts = [
        _times(results["times"]),
        _success(results["success"], results["tabu_success"]),
        _agreement(results["agreement"]),
        _generalization(results["generalization"]),
    ]
    if results["baselines"]:
        parts.append(_baselines(results["baselines"], content["configuration"]))
    return "\n\n".join(parts)


def _times(found: dict[str, Any]) -> str:
    limits = {"local": 300, "tabu": 1800}
    rows = [
        ["the paper: 1,800 machines, 16 cores each", "one week", "4,838,400 h", "", ""],
    ]
    for name, times in found.items():
        limit = limits[name]
        rows.append(
            [
                f"`totalqboost reproduce --solver {name}`",
                _duration(times["wall"]),
                f"{times['computing'] / 3600:.2f} h",
                f"{limit // 60} min",
                verdict(times["wall"] < limit),
            ]
        )
    header = ["A to E, twelve data sets, one split", "Time", "Core time", "Target", "Met"]
    return "### Times\n\n" + table(header, rows)


def _duration(seconds: float) -> str:
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"


def _success(local: list[dict[str, Any]], tabu: list[dict[str, Any]]) -> str:
    measures = {"risk": "empirical risk", "train_error": "training error"}
    rows = [
        [
            f"{ours['strategy']} worse than {ours['other']}, {measures[ours['measure']]}",
            _share(ours),
            f"{ours['worse']} of {ours['coinciding']}",
            _share(other),
            f"{100 * ours['paper']:.2f} %",
        ]
        for ours, other in zip(local, tabu, strict=True)
    ]
    header = ["At coinciding cardinalities", "Local", "Count", "Tabu, one split", "The paper"]
    return "### Optimization success\n\n" + table(header, rows)


def _share(found: dict[str, Any]) -> str:
    return f"{100 * found['worse'] / found['coinciding']:.2f} %" if found["coinciding"] else "-"


def _agreement(found: list[dict[str, Any]]) -> str:
    rows = [
        [
            entry["dataset"],
            entry["sizes"],
            f"{100 * entry['ours']:.2f}",
            f"{100 * entry['spread']:.2f}",
            f"{100 * entry['paper']:.2f}",
            f"{entry['deviations']:+.1f}",
            verdict(abs(entry["deviations"]) <= 2),
        ]
        for entry in found
    ]
    header = [
        "Convex (A, B)",
        "Sizes",
        "Ours, mean %",
        "Spread",
        "The paper",
        "Spreads",
        "Within 2",
    ]
    return "### Agreement with the paper's points\n\n" + table(header, rows)


def _generalization(found: list[dict[str, Any]]) -> str:
    rows = []
    for entry in found:
        overall, best = entry["overall"], entry["best"]
        rows.append(
            [
                entry["dataset"],
                _points(overall),
                f"{overall['p']:.3f}",
                entry["sizes"],
                _ranges(entry["better"]),
                _ranges(entry["worse"]),
                _points(best),
                f"{best['p']:.3f}",
            ]
        )
    header = ["CP minus convex", "Equal size", "p", "Sizes", "Better at", "Worse at", "Best", "p"]
    return "### Validation error at equal size, percentage points\n\n" + table(header, rows)


def _points(difference: dict[str, float]) -> str:
    return f"{100 * difference['mean']:+.2f} ± {100 * difference['standard_error']:.2f}"


def _ranges(sizes: list[int]) -> str:
    """Return 3, 5-8 for 3, 5, 6, 7, 8."""
    runs: list[list[int]] = []
    for size in sizes:
        if runs and size == runs[-1][-1] + 1:
            runs[-1].append(size)
        else:
            runs.append([size])
    return ", ".join(f"{r[0]}-{r[-1]}" if len(r) > 1 else f"{r[0]}" for r in runs) or "-"


def _baselines(found: list[dict[str, Any]], configuration: dict[str, Any]) -> str:
    names = ("convex", "cp", *BASELINES)
    titles = ("A, B", "C, D, E", "AdaBoost", "LPBoost", "ERLPBoost")
    rows = []
    for entry in found:
        cells = [[100 * error for error in entry[name]] for name in names]
        text = [" / ".join(f"{error:.1f}" for error in errors) for errors in cells]
        rows.append([entry["dataset"], *text])
    sizes = " / ".join(str(size) for size in SIZES)
    title = (
        f"### Validation error (%) with at most {sizes} learners, "
        f"{_splits(configuration['baseline_splits'])}\n\n"
    )
    return title + table(["Data set", *titles], rows)


def _splits(n: int) -> str:
    return "one split" if n == 1 else f"mean of {n} splits"


if __name__ == "__main__":
    main()
