"""The paper's experiments on many splits: times, optimization success, agreement, gains.

Runs are kept in --folder and resumed with the same command: `local` and `tabu` (A to E on one
split, for the times; with tabu search then D0), `splits` (A to E and D0 on --splits splits) and
`baselines` (on --baseline-splits splits). ``--only`` runs one of them and writes no table;
``--put-by`` keeps what is done of a long run, compressed, and a run in a new folder begins with
what was put by.

The rows of the last two are kept, compressed, in benchmarks/results/reproduction: `totalqboost
report` makes a page of them. The tables of docs/reproduction.md follow from the rows: ``--report``
measures nothing, counts and draws them again, then `python benchmarks/table.py` writes the page.
``--again`` runs all strategies of some data sets anew, in one run on one machine, puts their rows
in the place of those that are kept, and counts again; ``--strategies`` only these strategies.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from common import RESULTS, add_workers, cluster_of, load_before, save, say, write_results
from reproduction_report import render
from reproduction_values import MARGINS, OWN, SIZES, best_row, seconds_of, success, values_of

from totalqboost import datasets
from totalqboost.experiments.figures import save_figure
from totalqboost.experiments.folder import read_run
from totalqboost.experiments.rows import STRATEGIES, Row
from totalqboost.experiments.runner import Task, run, tasks_of
from totalqboost.experiments.settings import Settings
from totalqboost.files import write_bytes, write_text

__all__ = ["main", "render"]  # table.py asks for render

NAME = "reproduction"
KEPT = RESULTS / NAME
FIGURE = Path(__file__).parents[1] / "docs" / "images" / "reproduction.png"
UNFINISHED = KEPT / "unfinished"
FILES = ("config.json", "rows.jsonl", "done.jsonl")
PAPER = "ABCDE"
BASELINES = (*OWN, "elimination", "random")
UNSEEDED = "D0"
ONE_SPLIT = ("local", "tabu")
RUNS = (*ONE_SPLIT, "splits", "baselines")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--baseline-splits", type=int, default=20)
    add_workers(parser)
    parser.add_argument("--folder", type=Path, help="default runs/reproduction")
    parser.add_argument("--out", type=Path, help="folder of the JSON file")
    parser.add_argument("--quick", action="store_true", help="two small data sets, two splits")
    parser.add_argument("--only", choices=RUNS, help="one run; times of local, tabu are kept")
    parser.add_argument("--report", action="store_true", help="count the kept rows again")
    parser.add_argument("--again", nargs="+", choices=datasets.names(), metavar="NAME")
    parser.add_argument("--strategies", nargs="+", choices=STRATEGIES, help="of --again")
    parser.add_argument("--put-by", action="store_true", help="keep an unfinished run for later")
    arguments = parser.parse_args()
    if arguments.report:
        print(render(report()))
        return
    arguments.datasets, arguments.settings = datasets.names(), Settings()
    if arguments.quick:
        arguments.datasets, arguments.splits = ("thyroid", "heart"), 2
        arguments.baseline_splits = 2
        arguments.settings = Settings(max_rounds=10, n_penalties=3)
    arguments.out = arguments.out or (RESULTS / "quick" if arguments.quick else RESULTS)
    name = "runs/quick/reproduction" if arguments.quick else "runs/reproduction"
    arguments.folder = arguments.folder or Path(name)
    if arguments.put_by:
        for run_name in RUNS:
            put_by(arguments.folder / run_name, UNFINISHED / run_name)
        return
    if arguments.again:
        print(render(measure_again(arguments)))
        return
    if arguments.only:
        load = load_before()
        found = run_named(arguments, arguments.only)
        times = found["times"]
        print(f"{arguments.only}: {times['wall']:.0f} s, {times['computing']:.0f} s of one core")
        if arguments.only in ONE_SPLIT and not arguments.quick:
            time_again(arguments.only, found, arguments.settings.n_hot, load)
        return
    print(render(measure(arguments)))


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run all of it, or what is missing, and write the results."""
    load = load_before()
    one, tabu, whole, baselines = (run_named(arguments, name) for name in RUNS)
    rows = [*whole["rows"], *baselines["rows"]]
    seconds = seconds_of(rows)
    if not arguments.quick:
        keep(arguments.folder / "splits" / "config.json", rows)
        save_figure(whole["rows"], FIGURE)
        rows = list(read_run(KEPT).rows)  # so that --report counts the same
    n_hot = arguments.settings.n_hot
    results = {
        "times": {"local": one["times"], "tabu": tabu["times"]},
        "tabu_success": success(tabu["rows"], n_hot),
        "seconds": seconds,
        **values_of(rows, n_hot),
    }
    configuration = {
        "splits": arguments.splits,
        "baseline_splits": arguments.baseline_splits,
        "load_before": load,
    }
    return save(NAME, arguments, configuration, results)


def measure_again(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run some data sets anew and put their rows in the place of those that are kept."""
    strategies = sorted(set(arguments.strategies or STRATEGIES))
    tasks = tasks_of(arguments.again, range(arguments.splits), strategies)
    folder, wanted = arguments.folder / "again", set(tasks)
    rows = run_tasks(arguments, folder, tasks, arguments.settings)
    rows = [row for row in rows if Task(row.dataset, row.split, row.strategy) in wanted]
    replaced = {(task.dataset, task.strategy) for task in tasks}
    others = (row for row in read_run(KEPT).rows if (row.dataset, row.strategy) not in replaced)
    keep(folder / "config.json", [*others, *rows])
    return report()


def report() -> dict[str, Any]:
    """Count and draw the kept rows again; times of whole runs stay those that were measured."""
    path = RESULTS / f"{NAME}.json"
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    kept = read_run(KEPT)
    save_figure([row for row in kept.rows if row.strategy in PAPER], FIGURE)
    content["results"].update(values_of(kept.rows, kept.n_hot))
    whole = [row for row in kept.rows if row.strategy not in OWN]  # of others not all stages
    content["results"]["seconds"] |= seconds_of(whole)
    content["configuration"]["is_older"] = is_older(kept.config)
    write_results(path, content)
    return content


def time_again(name: str, found: dict[str, Any], n_hot: int, load: float | None) -> None:
    """Put the times of a run of one split in the place of those that were measured before."""
    path = RESULTS / f"{NAME}.json"
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    content["results"]["times"][name] = found["times"] | {"load_before": load}
    if name == "tabu":
        content["results"]["tabu_success"] = success(found["rows"], n_hot)
    write_results(path, content)


def is_older(config: Mapping[str, Any]) -> bool:
    """Return whether rows were made with settings that are not those of today's runs."""
    today = json.loads(json.dumps(asdict(Settings())))
    return dict(config.get("settings", {})) != today


def run_named(arguments: argparse.Namespace, name: str) -> dict[str, Any]:
    """Run, or resume, one of the runs; return its rows and times."""
    of_run = {"splits": (*PAPER, UNSEEDED), "baselines": BASELINES}
    strategies: Iterable[str] = of_run.get(name, PAPER)
    n_splits = {"splits": arguments.splits, "baselines": arguments.baseline_splits}.get(name, 1)
    settings = replace(arguments.settings, solver="tabu" if name == "tabu" else "local")
    folder = arguments.folder / name
    if not arguments.quick and not folder.exists():
        take_up(UNFINISHED / name, folder)
    tasks = tasks_of(arguments.datasets, range(n_splits), strategies)
    rows = run_tasks(arguments, folder, tasks, settings)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    times = {
        "wall": config["wall_seconds"],
        "computing": sum(row.seconds for row in rows),
        "splits": n_splits,
        "ensembles": len(rows),
    }
    if name == "tabu":  # not in the times of A to E, so in a folder of its own
        tasks = tasks_of(arguments.datasets, range(n_splits), [UNSEEDED])
        rows += run_tasks(arguments, folder.with_name("tabu_unseeded"), tasks, settings)
    return {"rows": [row for row in rows if row.split < n_splits], "times": times}


def run_tasks(
    arguments: argparse.Namespace, folder: Path, tasks: list[Task], settings: Settings
) -> list[Row]:
    """Run tasks, or go on with them, and return the rows of all; tell how far it is."""

    def progress(task: Task, n_done: int, n_tasks: int) -> None:
        if n_done % 20 == 0 or n_done == n_tasks:
            say(f"{folder.name}: {n_done} of {n_tasks} ({task.dataset}, split {task.split})")

    with cluster_of(arguments) as client:
        return run(folder, tasks, settings, arguments.jobs, progress, client)


# -- runs that take days -------------------------------------------------------------------


def put_by(folder: Path, kept: Path) -> None:
    """Keep what is done of a run, compressed."""
    if not (folder / "done.jsonl").exists():
        return
    kept.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        content = gzip.compress((folder / name).read_bytes(), mtime=0)
        write_bytes(kept / f"{name}.gz", content)
    say(f"{kept}: {len((folder / 'done.jsonl').read_text().splitlines())} tasks are done")


def take_up(kept: Path, folder: Path) -> None:
    """Begin a run with what was put by, if anything was."""
    if not kept.exists():
        return
    folder.mkdir(parents=True)
    for name in FILES:
        write_bytes(folder / name, gzip.decompress((kept / f"{name}.gz").read_bytes()))


# -- rows that are kept ---------------------------------------------------------------------


def keep(config: Path, rows: list[Row]) -> None:
    """Write the rows and the settings of the run; of ensembles only those of C, D and E."""
    KEPT.mkdir(parents=True, exist_ok=True)
    plain = sorted(
        (row if row.strategy in PAPER[2:] else replace(row, ensemble=None) for row in needed(rows)),
        key=lambda r: (r.dataset, r.split, r.strategy, -(r.penalty or 0.0), r.round or 0),
    )
    lines = "".join(short_line(row) for row in plain)
    write_bytes(KEPT / "rows.jsonl.gz", gzip.compress(lines.encode("utf-8"), mtime=0))
    content = json.loads(config.read_text(encoding="utf-8"))
    content.pop("wall_seconds", None)  # of a run that was killed and resumed it is not the whole
    write_text(KEPT / "config.json", json.dumps(content, indent=1) + "\n")


def needed(rows: list[Row]) -> list[Row]:
    """Return the rows that tables and figure are made of: of other boosters not all stages."""
    found: list[Row] = []
    stages: dict[tuple[str, int, str, float | None], list[Row]] = {}
    for row in rows:
        if row.strategy in OWN:
            margin = row.penalty if row.strategy in MARGINS else None
            stages.setdefault((row.dataset, row.split, row.strategy, margin), []).append(row)
        else:
            found.append(row)
    for (_, _, strategy, _), members in stages.items():
        best = (best_row(members, strategy, size) for size in SIZES)
        found += {id(row): row for row in best if row is not None}.values()
    return found


def short_line(row: Row) -> str:
    """Return a row as a line of JSON with seven digits per number."""
    content = {
        name: float(f"{value:.7g}") if isinstance(value, float) else value
        for name, value in row.to_dict().items()
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n"


if __name__ == "__main__":
    main()
