"""Whose small model is best on rows it has not seen? Ours and peers at equal size, and by choice.

Two-class data sets (the paper's twelve and those of KEEL that fetch.py knows), paired stratified
splits, at most 500 training rows. Splits 0 to 9 report; constants were chosen on splits 100 and
later. Every (set, split, contender) is one line of results.jsonl in --folder as soon as it is
done, and is not computed again: stop with Ctrl-C and go on with the same command. ``--again``
computes contenders once more; of two lines the later counts. Contenders whose package is missing
are skipped and can be added later.

``--report`` measures nothing: it writes the summary of what is in the folder to
benchmarks/results/generalization.json and the picture of the ranks. Then ``table.py`` writes the
tables of docs/generalization.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Before the first import of NumPy: times are those of one core.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import fetch
import numpy as np
from common import RESULTS, add_workers, as_done, save, say
from contenders import CONTENDERS, N_SPLITS, OURS, PEERS
from generalization_report import draw_ranks, render
from generalization_values import Record, summary
from models import Contender, Model, n_cuts
from search import cpu_seconds
from stump_models import Task
from user_studies import STUDIES

from totalqboost import datasets

__all__ = ["main", "render"]  # table.py asks for render

SIZES = (3, 5, 8, 12, 20)
N_REPORTING = 10  # splits 0 to 9
MAX_TEST = 5000
CLIP = 1e-4  # probabilities are held this far from 0 and 1 in the log-loss
N_BINS = 10  # of the calibration error
PACKAGES = ("lightgbm", "xgboost", "abess", "imodels", "gosdt", "interpret-core")
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "generalization.png"

Job = tuple[str, int, str, int]  # data set, split, contender, most training rows


# -- data -----------------------------------------------------------------------------------


def names() -> list[str]:
    return [*datasets.names(), *fetch.names()]


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return features, rounded to what all peers can see of them, and labels -1 and +1."""
    X, y = fetch.load(name) if name in fetch.names() else datasets.load(name)
    return np.asarray(X, dtype=np.float32).astype(float), np.asarray(y)


@dataclass(frozen=True, eq=False)
class Split:
    """Rows to train on and rows to test on."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    def task(self) -> Task:
        return Task(self.X, self.y, "logistic", 4.0 / len(self.y), True)


def split_rows(name: str, y: np.ndarray, number: int, max_rows: int) -> tuple[np.ndarray, ...]:
    """Return training and test rows: 80 % at most, the same share of every class in each."""
    rng = np.random.default_rng([14, number, zlib.crc32(name.encode())])
    share = min(0.8, max_rows / len(y))
    train, test = [], []
    for label in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == label))
        n_train = round(share * len(rows))
        train.append(rows[:n_train])
        test.append(rows[n_train:])
    return rng.permutation(np.concatenate(train)), rng.permutation(np.concatenate(test))[:MAX_TEST]


def make_split(name: str, number: int, max_rows: int) -> Split:
    X, y = load(name)
    train, test = split_rows(name, y, number, max_rows)
    return Split(np.ascontiguousarray(X[train]), y[train], X[test], y[test])


# -- measures -------------------------------------------------------------------------------


def measures(scores: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return error (%), log-loss, AUC and expected calibration error of log odds."""
    from sklearn.metrics import roc_auc_score

    is_plus = y > 0
    p = 1.0 / (1.0 + np.exp(-np.clip(scores, -500.0, 500.0)))
    clipped = np.clip(p, CLIP, 1.0 - CLIP)
    return {
        "error": 100.0 * float(np.mean((scores > 0) != is_plus)),
        "log_loss": float(-np.mean(np.log(np.where(is_plus, clipped, 1.0 - clipped)))),
        "auc": float(roc_auc_score(is_plus, scores)),
        "calibration": calibration_error(p, is_plus),
    }


def calibration_error(p: np.ndarray, is_plus: np.ndarray) -> float:
    """Return the mean distance of probability and share of +1 over bins of equal width."""
    bins = np.minimum((p * N_BINS).astype(int), N_BINS - 1)
    gaps = np.bincount(bins, weights=p - is_plus, minlength=N_BINS)
    return float(np.abs(gaps).sum() / len(p))


def measure(split: Split, who: str, size: Any, model: Model) -> Record:
    content = {"who": who, "size": size, "cuts": n_cuts(model)}
    return content | measures(model.scores(split.X_test), split.y_test)


# -- running --------------------------------------------------------------------------------


def compete(job: Job, contender: Contender) -> Record:
    """Return the line of one contender on one split, or why there is none."""
    data, number, name, max_rows = job
    line: Record = {"data": data, "split": number, "contender": name, "rows": max_rows}
    split = make_split(data, number, max_rows)
    began = cpu_seconds()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = contender(split.task(), SIZES)
    except ImportError:
        return line | {"missing": True}
    except Exception as error:
        if name not in PEERS:
            raise
        return line | {"absent": f"{type(error).__name__}: {error}".splitlines()[0]}
    line["seconds"] = round(cpu_seconds() - began, 3)
    records = [
        measure(split, who, size, model)
        for who, models in found.items()
        for size, model in models.items()
    ]
    return line | {"records": records}


def _compete(task: tuple[Job, Contender]) -> Record:
    return compete(*task)


def study(name: str) -> Record:
    """Return the line of a study that has its own data."""
    return {"data": name, "split": 0, "contender": "study", "records": STUDIES[name]()}


def todo(arguments: argparse.Namespace, done: set[Job]) -> Iterator[Job]:
    """Yield what has no line yet, split by split, so that what is there is balanced."""
    for number in arguments.splits:
        for data in arguments.datasets:
            for name in arguments.contenders:
                is_slow = number < N_REPORTING and number >= N_SPLITS.get(name, N_REPORTING)
                job = (data, number, name, arguments.rows)
                if not is_slow and (job not in done or name in arguments.again):
                    yield job


def read_lines(folder: Path) -> list[Record]:
    """Return the lines of the folder; one that was cut off while being written is left out."""
    path = folder / "results.jsonl"
    text_of_all = path.read_text(encoding="utf-8") if path.exists() else ""
    if text_of_all and not text_of_all.endswith("\n"):
        with open(path, "ab") as file:
            file.write(b"\n")  # what comes next is a line of its own
    lines = []
    for text in text_of_all.splitlines():
        try:
            lines.append(json.loads(text))
        except ValueError:
            say(f"{path}: a broken line is left out")
    return lines


def keep(folder: Path, line: Record) -> None:
    """Append a line in one piece, also beside another process that does the same."""
    if line.get("missing"):
        return
    with open(folder / "results.jsonl", "ab", buffering=0) as file:
        file.write(f"{json.dumps(line)}\n".encode())


def warm_up(contenders: Mapping[str, Contender]) -> None:
    """Compile our kernels before their time counts."""
    X, y = datasets.make_twonorm(200, seed=0)
    for name, contender in contenders.items():
        if name not in PEERS:
            with contextlib.suppress(ImportError):
                contender(Task(X, y, "logistic", 0.02, True), (2,))


def run_all(arguments: argparse.Namespace, contenders: Mapping[str, Contender]) -> None:
    """Run what is left to do, in this process, in several or on a cluster."""
    lines = read_lines(arguments.folder)
    done = {(x["data"], x["split"], x["contender"], x.get("rows", 0)) for x in lines}
    jobs = list(todo(arguments, done))
    say(f"{len(jobs)} to do, {len(done)} lines in {arguments.folder}")
    missing: set[str] = set()
    warm_up({job[2]: contenders[job[2]] for job in jobs})
    tasks = ((job, contenders[job[2]]) for job in jobs if job[2] not in missing)
    for line in as_done(_compete, tasks, arguments):
        _finish(arguments.folder, line, missing)
    if arguments.studies:
        for name in STUDIES:
            if (name, 0, "study", 0) not in done or "studies" in arguments.again:
                try:
                    keep(arguments.folder, study(name))
                except ImportError as error:
                    say(f"{name} is skipped: {error}")


def _finish(folder: Path, line: Record, missing: set[str]) -> None:
    name = line["contender"]
    if line.get("missing"):
        if name not in missing:
            say(f"{name} is skipped: its package is not installed")
        missing.add(name)
        return
    keep(folder, line)
    errors = [f"{r['error']:.1f}" for r in line.get("records", [])]
    answer = line.get("absent") or f"{' '.join(errors)} ({line['seconds']:.1f} s)"
    say(f"{time.strftime('%H:%M:%S')} {line['split']} {line['data']}: {name} {answer}")


# -- command line ---------------------------------------------------------------------------


def options(description: str | None, name: str, splits: Sequence[int]) -> argparse.ArgumentParser:
    """Return a parser with the options of every benchmark over splits."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    add = parser.add_argument
    add("--quick", action="store_true", help="one small data set and split, sizes as always")
    add("--report", action="store_true", help="write the summary of the folder, measure nothing")
    add("--datasets", nargs="+", choices=names(), metavar="NAME", help="default all")
    said = f"default {splits[0]} to {splits[-1]}"
    add("--splits", nargs="+", type=int, default=list(splits), help=said)
    add("--rows", type=int, default=500, help="most training rows, default 500")
    add("--again", nargs="+", default=[], help="contenders, or studies, to run once more")
    add_workers(parser, jobs=1)
    add("--folder", type=Path, help=f"where lines are kept, default runs/{name}")
    add("--out", type=Path, help="folder of the JSON file")
    return parser


def complete(arguments: argparse.Namespace, name: str) -> None:
    """Fill in what was not given; --quick decides some of it."""
    folder, out = Path("runs") / name, RESULTS
    arguments.datasets = arguments.datasets or names()
    if arguments.quick:
        folder, out = folder / "quick", out / "quick"
        arguments.datasets, arguments.splits = ["thyroid"], arguments.splits[:1]
        arguments.again, arguments.studies = arguments.contenders, False
    arguments.folder = arguments.folder or folder
    arguments.out = arguments.out or out


def parse() -> argparse.Namespace:
    parser = options(__doc__, "generalization", range(N_REPORTING))
    said = f"ours, peers or among {', '.join(CONTENDERS)}"
    parser.add_argument("--contenders", nargs="+", help=said)
    arguments = parser.parse_args()
    arguments.studies = arguments.contenders is None or "studies" in arguments.again
    groups = {"ours": list(OURS), "peers": [n for n in CONTENDERS if n not in OURS]}
    arguments.again = _members(arguments.again, groups | {"studies": ["studies"]}, parser)
    chosen = arguments.contenders or (arguments.again if arguments.again else ["ours", "peers"])
    arguments.contenders = [n for n in _members(chosen, groups, parser) if n != "studies"]
    complete(arguments, "generalization")
    return arguments


def _members(
    chosen: Sequence[str], groups: dict[str, list[str]], parser: argparse.ArgumentParser
) -> list[str]:
    """Return the contenders of names and groups."""
    found = [n for name in chosen for n in groups.get(name, [name])]
    unknown = [n for n in found if n not in CONTENDERS and n != "studies"]
    if unknown:
        known = ", ".join([*groups, *CONTENDERS])
        parser.error(f"a contender must be among {known}, got {', '.join(unknown)}")
    return list(dict.fromkeys(found))


def results_of(arguments: argparse.Namespace, contenders: Mapping[str, Contender]) -> Record | None:
    """Run what is left to do; return the summary if one is asked for."""
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if not arguments.report:
        try:
            run_all(arguments, contenders)
        except KeyboardInterrupt:
            sys.exit(f"stopped; what is done is kept in {arguments.folder}")
    if not (arguments.report or arguments.quick):
        return None
    return summary(read_lines(arguments.folder), arguments, contenders)


def main() -> None:
    arguments = parse()
    results = results_of(arguments, CONTENDERS)
    if results is None:
        return
    configuration = {"rows": arguments.rows, "max_test": MAX_TEST, "sizes": SIZES, "clip": CLIP}
    content = save("generalization", arguments, configuration, results, PACKAGES)
    if not arguments.quick:
        draw_ranks(content, PICTURE)
    print(render(content))


if __name__ == "__main__":
    main()
