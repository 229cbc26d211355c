"""Ours and rivals on the data people have: many classes, missing values, categories, prices, pairs.

Each kind of data has its tables and contenders (data_kinds_contenders.py). Models of equal size
are compared on paired stratified splits, at most 1,200 rows train and up to 5,000 of the others
test. Every (table, split, contender) is one line of results.jsonl in --folder as soon as it is
done, and is not computed again: stop with Ctrl-C and go on with the same command. ``--again``
computes contenders once more; of two lines the later counts.

``--report`` measures nothing: it writes the summary of what is in the folder to
benchmarks/results/data_kinds.json. Then ``table.py`` writes the tables of docs/data.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from argparse import Namespace
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

# Before the first import of NumPy: times are those of one core.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from common import RESULTS, add_workers, as_done, save, say
from data_kinds_contenders import FEATURE_COSTS, KINDS, MAX_FEATURES
from data_kinds_report import render
from data_kinds_rivals import LEAVES, N_FOLDS, RATES, losses
from data_kinds_tables import Table
from generalization import MAX_TEST, keep, read_lines, split_rows
from generalization_values import Record, summary
from search import cpu_seconds

__all__ = ["main", "render"]  # table.py asks for render

N_SPLITS = 3
MAX_ROWS = 1200
PACKAGES = ("pandas", "lightgbm", "xgboost")
QUICK = {
    "classes": "wine",
    "missing": "hepatitis",
    "injected": "heart, by label, 30 %",
    "categories": "breast cancer",
    "identity": "credit approval",
    "prices": "sonar",
    "pairs": "heart",
}

Job = tuple[str, str, int, str]  # kind, table, split, contender


@lru_cache(maxsize=1)  # contenders of one split come one after the other
def load(kind: str, data: str, number: int) -> Table:
    return KINDS[kind].load(data, number)


def compete(job: Job) -> Record:
    """Return the line of one contender on one split, or why there is none."""
    kind, data, number, name = job
    line: Record = {"kind": kind, "data": data, "split": number, "contender": name}
    line["rows"] = MAX_ROWS
    table = load(kind, data, number)
    train, test = split_rows(data, table.y, number, MAX_ROWS)
    X, y = table.X.iloc[train].reset_index(drop=True), table.y[train]
    X_test, y_test = table.X.iloc[test].reset_index(drop=True), table.y[test]
    began = cpu_seconds()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = KINDS[kind].contenders[name](X, y, KINDS[kind].sizes)
    except ValueError as error:
        if name.startswith("ours"):
            raise
        return line | {"absent": shortened(error)}
    line["seconds"] = round(cpu_seconds() - began, 3)
    records = []
    for who, models in found.items():
        for size, model in models.items():
            p = np.asarray(model.probabilities(X_test), dtype=float)
            record = {"who": who, "size": size, "cuts": model.n_cuts, "features": model.n_features}
            record["error"] = 100.0 * float(np.mean(p.argmax(axis=1) != y_test))
            records.append(record | {"log_loss": float(losses(p, y_test).mean())})
    return line | {"records": records}


def shortened(error: ValueError) -> str:
    """Return what is refused, without the numbers of this split."""
    return str(error).splitlines()[0].split(" but actually")[0]


def todo(arguments: Namespace, done: set[Job]) -> Iterator[Job]:
    """Yield what has no line yet, split by split, so that what is there is balanced."""
    for number in arguments.splits:
        for kind in arguments.kinds:
            for data in [QUICK[kind]] if arguments.quick else KINDS[kind].names:
                for name in KINDS[kind].contenders:
                    job = (kind, data, number, name)
                    is_wanted = not arguments.contenders or name in arguments.contenders
                    if is_wanted and (job not in done or name in arguments.again):
                        yield job


def run_all(arguments: Namespace) -> None:
    lines = read_lines(arguments.folder)
    done = {(x["kind"], x["data"], x["split"], x["contender"]) for x in lines}
    jobs = list(todo(arguments, done))
    say(f"{len(jobs)} to do, {len(done)} lines in {arguments.folder}")
    for line in as_done(compete, jobs, arguments):
        keep(arguments.folder, line)
        errors = [f"{r['error']:.1f}" for r in line.get("records", [])]
        answer = line.get("absent") or f"{' '.join(errors)} ({line['seconds']:.1f} s)"
        what = f"{line['split']} {line['kind']}, {line['data']}: {line['contender']}"
        say(f"{time.strftime('%H:%M:%S')} {what} {answer}")


def results_of(arguments: Namespace) -> Record:
    """Return the summary of each kind."""
    found = {}
    for kind in arguments.kinds:
        lines = [line for line in read_lines(arguments.folder) if line["kind"] == kind]
        names, contenders = KINDS[kind].names, KINDS[kind].contenders
        splits = [n for n in arguments.splits if any(line["split"] == n for line in lines)]
        about = Namespace(datasets=names, splits=splits, rows=MAX_ROWS)
        found[kind] = summary(lines, about, contenders)
    return found


def parse() -> Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--quick", action="store_true", help="one small table of each kind, one split")
    add("--report", action="store_true", help="write the summary of the folder, measure nothing")
    add("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS), help="default all")
    add("--contenders", nargs="+", default=[], metavar="NAME", help="default all")
    add("--splits", nargs="+", type=int, default=list(range(N_SPLITS)), help="default 0 to 2")
    add("--again", nargs="+", default=[], metavar="NAME", help="contenders to run once more")
    add_workers(parser, jobs=1)
    add("--folder", type=Path, help="where lines are kept, default runs/data_kinds")
    add("--out", type=Path, help="folder of the JSON file")
    arguments = parser.parse_args()
    folder, out = Path("runs") / "data_kinds", RESULTS
    if arguments.quick:
        folder, out, arguments.splits = folder / "quick", out / "quick", arguments.splits[:1]
    arguments.folder = arguments.folder or folder
    arguments.out = arguments.out or out
    return arguments


def main() -> None:
    arguments = parse()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if not arguments.report:
        try:
            run_all(arguments)
        except KeyboardInterrupt:
            sys.exit(f"stopped; what is done is kept in {arguments.folder}")
    if arguments.report or arguments.quick:
        configuration = {
            "rows": MAX_ROWS,
            "max_test": MAX_TEST,
            "sizes": {kind: KINDS[kind].sizes for kind in arguments.kinds},
            "rates": RATES,
            "leaves": LEAVES,
            "folds": N_FOLDS,
            "feature_costs": FEATURE_COSTS,
            "max_features": MAX_FEATURES,
        }
        results = results_of(arguments)
        print(render(save("data_kinds", arguments, configuration, results, PACKAGES)))


if __name__ == "__main__":
    main()
