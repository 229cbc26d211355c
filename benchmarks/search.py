"""Who finds the lowest training objective with k stumps? Ours, peers, and the best known.

Every cell is a data set (the paper's twelve and five of KEEL, 80 % of the rows), a form (free
intercept, or the paper's: the constant counts as a learner), a loss (exponential with
nu = 1e-6, logistic with nu = 4/n) and a size k. What is compared is risk + nu * sum of weights,
computed anew from everybody's thresholds and weights (stump_models.py).

What a contender found on a data set is kept in --folder and not computed again; ``--again ours``
does so for our own, ``--again all`` or names of contenders for others. ``--long`` also searches
from many starts and keeps the least value of every cell in best_known.json. fastsparsegams is
not among the extras, for it has few wheels: ``pip install fastsparsegams`` where it works.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

# Before the first import of NumPy: times are those of one core.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import fetch
import numpy as np
from common import RESULTS, error_percent, save, say, table, verdict
from multistart import multistart
from rivals import N_THRESHOLDS, ONLY_LOGISTIC, PEERS, RATES, Answers
from stump_models import Cut, StumpModel, Task, of_ensemble

from totalqboost import TotalQBoostClassifier, datasets, frontier
from totalqboost.files import write_text

SIZES = (5, 10, 20, 30, 50)
FORMS = {"intercept": True, "paper": False}
KEEL = ("ionosphere", "magic", "phoneme", "sonar", "spambase")  # of those that fetch.py knows
LOSSES: dict[str, Callable[[int], float]] = {
    "exponential": lambda n_rows: 1e-6,
    "logistic": lambda n_rows: 4.0 / n_rows,
}
N_COLUMNS = 100  # of the hot start
TOLERANCE = 1e-5  # relative: two refits of one set of stumps differ by less
CLOSE = 0.01  # relative distance from the best known that counts as close
CLOSE_SHARE = 0.95
FRONTIER = "frontier"

Record = dict[str, Any]


# -- ours -----------------------------------------------------------------------------------


def _settings(task: Task) -> dict[str, Any]:
    return {"loss": task.loss, "l1_penalty": task.nu, "fit_intercept": task.has_intercept}


def by_frontier(task: Task, sizes: Sequence[int]) -> Answers:
    """The frontier's point of size k, or its last one if it ends earlier."""
    points = frontier(task.X, task.y, max_learners=max(sizes), **_settings(task))
    found = {}
    for k in sizes:
        within = [point for point in points if point.n_learners <= k]
        found[k] = of_ensemble(max(within, key=lambda point: point.n_learners).ensemble)
    return {FRONTIER: found}


def _fit(task: Task, **settings: Any) -> StumpModel:
    model = TotalQBoostClassifier(cardinality_penalty=0, **_settings(task), **settings)
    return of_ensemble(model.fit(task.X, task.y).ensemble_)


def by_fit(task: Task, sizes: Sequence[int]) -> Answers:
    return {"fit": {k: _fit(task, max_learners=k) for k in sizes}}


def by_hot_start(task: Task, sizes: Sequence[int]) -> Answers:
    """Algorithm 1 that meets the limit after 100 columns, as in the paper's experiment E."""
    settings = {"plain_rounds": N_COLUMNS, "max_rounds": N_COLUMNS, "exchange": False}
    return {"hot start": {k: _fit(task, max_learners=k, **settings) for k in sizes}}


def by_column_generation(task: Task, sizes: Sequence[int]) -> Answers:
    """Plain column generation, stopped at k columns."""
    plain: dict[str, Any] = {"exchange": False, "tol": 0.0, "patience": None}
    return {"column generation": {k: _fit(task, max_rounds=k, **plain) for k in sizes}}


OURS: dict[str, Callable[[Task, Sequence[int]], Answers]] = {
    FRONTIER: by_frontier,
    "fit": by_fit,
    "hot start": by_hot_start,
    "column generation": by_column_generation,
}
CONTENDERS = OURS | PEERS
ONE_SIZE_A_TIME = {"fit", "hot start", "column generation", "abess"}


# -- data -----------------------------------------------------------------------------------


class Arena:
    """One data set: 80 % of the rows to train on, the others for the error."""

    def __init__(self, name: str):
        load = fetch.load if name in fetch.names() else datasets.load
        X, y = load(name)
        X = np.asarray(X, dtype=np.float32).astype(float)  # what peers see of it
        order = np.random.default_rng(0).permutation(len(y))
        n_valid = round(0.2 * len(y))
        self.name = name
        self.X, self.y = np.ascontiguousarray(X[order[n_valid:]]), y[order[n_valid:]]
        self.X_valid, self.y_valid = X[order[:n_valid]], y[order[:n_valid]]

    def task(self, form: str, loss: str) -> Task:
        return Task(self.X, self.y, loss, LOSSES[loss](len(self.y)), FORMS[form])

    def records(self, task: Task, answers: Answers, seconds: float) -> list[Record]:
        """Return what is kept of the answers: everything is computed anew here."""
        found = []
        for who, models in answers.items():
            for k, model in models.items():
                size = task.size(model)
                if size > k:
                    raise AssertionError(f"{who} has {size} learners on {self.name}, not {k}")
                predicted = np.where(model.scores(self.X_valid) > 0, 1, -1)
                found.append(
                    {
                        "who": who,
                        "size": k,
                        "learners": size,
                        "objective": task.objective(model),
                        "valid_error": error_percent(predicted, self.y_valid),
                        "seconds": seconds,
                        "cuts": list(model.weights),
                    }
                )
        return found


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its children that have ended."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


# -- running --------------------------------------------------------------------------------


def compete(arena: Arena, form: str, loss: str, name: str, sizes: Sequence[int]) -> Record:
    """Return the records of one contender in one form with one loss, or why there are none."""
    task = arena.task(form, loss)
    records: list[Record] = []
    groups = [(k,) for k in sizes] if name in ONE_SIZE_A_TIME else [tuple(sizes)]
    try:
        for group in groups:
            began = cpu_seconds()
            answers = CONTENDERS[name](task, group)
            records += arena.records(task, answers, cpu_seconds() - began)
    except Exception as error:
        if name in OURS:
            raise
        reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        say(f"{arena.name}, {form}, {loss}: {name} gave no answer ({reason})")
        return {"absent": reason, "records": []}
    objectives = ", ".join(f"{r['objective']:.4g}" for r in records if r["who"] == name)
    say(f"{arena.name}, {form}, {loss}: {name} {objectives} ({records[-1]['seconds']:.1f} s)")
    return {"records": records}


def run_data_set(name: str, sizes: Sequence[int], folder: Path, again: set[str]) -> Record:
    """Run every contender that has no result in the folder yet; return all results."""
    path = folder / f"{name.replace(' ', '_')}.json"
    done: Record = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    arena: Arena | None = None
    for form in FORMS:
        for loss in LOSSES:
            for who in CONTENDERS:
                key = f"{form}|{loss}|{who}"
                is_out = who in ONLY_LOGISTIC and loss != "logistic"
                if is_out or (key in done and who not in again):
                    continue
                arena = arena or Arena(name)
                done[key] = compete(arena, form, loss, who, sizes)
                write_text(path, json.dumps(done))
    return done


def flat(name: str, done: Record) -> list[Record]:
    """Return the records of a data set with the names of their cells."""
    found = []
    for key, content in done.items():
        form, loss, _ = key.split("|")
        cell = {"data": name, "form": form, "loss": loss}
        found += [cell | record for record in content["records"]]
    return found


def warm_up() -> None:
    """Compile the kernels: that is measured by startup.py."""
    X, y = datasets.make_twonorm(200, seed=0)
    for has_intercept in FORMS.values():
        for loss in LOSSES:
            for contender in OURS.values():
                contender(Task(X, y, loss, 1e-3, has_intercept), (2,))


def absences(name: str, done: Record) -> list[str]:
    return [f"{name}|{key}: {c['absent']}" for key, c in done.items() if "absent" in c]


def cell_of(record: Record) -> str:
    return "|".join(str(record[key]) for key in ("data", "form", "loss", "size"))


# -- best known -----------------------------------------------------------------------------


def read_best_known(path: Path) -> dict[str, Record]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def keep_best(path: Path, known: dict[str, Record], records: Sequence[Record]) -> None:
    """Lower the best known values where a record is below them, and write them."""
    for record in records:
        cell, value = cell_of(record), float(record["objective"])
        if cell not in known or value < known[cell]["objective"] * (1 - 1e-9):
            known[cell] = {"objective": value, "who": record["who"]}
    write_text(path, json.dumps(dict(sorted(known.items())), indent=0) + "\n")


def run_long(
    name: str, sizes: Sequence[int], n_starts: int, records: Sequence[Record]
) -> list[Record]:
    """Return the records of the search from many starts on one data set.

    What the others found are starts too.
    """
    arena = Arena(name)
    found = []
    for form in FORMS:
        for loss in LOSSES:
            task = arena.task(form, loss)
            starts: dict[int, list[list[Cut]]] = {k: [] for k in sizes}
            for record in records:
                if (record["form"], record["loss"]) == (form, loss):
                    starts[record["size"]].append([(int(j), float(t)) for j, t in record["cuts"]])
            began = cpu_seconds()
            answers = {"multistart": multistart(task, starts, n_starts)}
            kept = arena.records(task, answers, cpu_seconds() - began)
            found += [{"data": name, "form": form, "loss": loss} | record for record in kept]
            objectives = ", ".join(f"{record['objective']:.4g}" for record in kept)
            say(f"{name}, {form}, {loss}: multistart {objectives} ({kept[-1]['seconds']:.0f} s)")
    return found


# -- reporting ------------------------------------------------------------------------------


def judge(records: Sequence[Record], known: dict[str, Record]) -> Record:
    """Return the cells in which somebody is below the frontier, and its distances."""
    cells: dict[str, list[Record]] = {}
    for record in records:
        cells.setdefault(cell_of(record), []).append(record)
    lost, distances = [], {}
    for cell, rivals in cells.items():
        mine = next(r["objective"] for r in rivals if r["who"] == FRONTIER)
        for rival in rivals:
            if rival["objective"] < mine * (1 - TOLERANCE):
                excess = mine / rival["objective"] - 1
                lost.append({"cell": cell, "who": rival["who"], "excess": excess})
        if cell in known:
            distances[cell] = mine / min(known[cell]["objective"], mine) - 1
    return {"cells": len(cells), "lost": lost, "distances": distances}


def summarise(records: Sequence[Record]) -> list[Record]:
    """Return for every contender how its objective and time compare with the frontier's."""
    mine = {cell_of(r): r for r in records if r["who"] == FRONTIER}
    found = []
    for who in dict.fromkeys(r["who"] for r in records):
        own = [r for r in records if r["who"] == who]
        ratios = [r["objective"] / mine[cell_of(r)]["objective"] for r in own]
        errors = [r["valid_error"] - mine[cell_of(r)]["valid_error"] for r in own]
        found.append(
            {
                "who": who,
                "cells": len(own),
                "lower": sum(ratio < 1 - TOLERANCE for ratio in ratios),
                "median_ratio": float(np.median(ratios)),
                "least_ratio": float(np.min(ratios)),
                "mean_error_difference": float(np.mean(errors)),
                "seconds": _total_seconds(own),
            }
        )
    return found


def _total_seconds(records: Sequence[Record]) -> float:
    """Return all CPU time; what was found in one call has one time, written at every size."""
    calls = {(r["data"], r["form"], r["loss"], r["seconds"]): r["seconds"] for r in records}
    return float(sum(calls.values()))


def render(content: Record) -> str:
    """Return the table of results as Markdown."""
    results = content["results"]
    rows = [
        (
            s["who"],
            s["cells"],
            s["lower"],
            f"{s['median_ratio']:.3f}",
            f"{s['least_ratio']:.3f}",
            f"{s['mean_error_difference']:+.2f}",
            f"{s['seconds']:.0f}",
        )
        for s in results["summaries"]
    ]
    header = ["objective with k learners", "cells", "below the frontier", "median of its ratio"]
    header += ["least ratio", "validation error minus the frontier's", "CPU s"]
    judged = results["judged"]
    lost, distances = judged["lost"], judged["distances"]
    names = sorted({loss["cell"] for loss in lost})
    lines = [table(header, rows), ""]
    lines.append(
        f"- The frontier is not above anybody in any of {judged['cells']} cells: "
        f"{verdict(not lost)}."
    )
    for cell in names:
        lower = [x for x in lost if x["cell"] == cell]
        least = max(lower, key=lambda x: x["excess"])
        lines.append(f"  - {cell}: {least['who']} is lower; ours is {least['excess']:.3%} above.")
    if distances:
        share = float(np.mean([d <= CLOSE for d in distances.values()]))
        worst = max(distances, key=lambda cell: distances[cell])
        lines.append(
            f"- Within {CLOSE:.0%} of the best known in {share:.1%} of {len(distances)} cells, "
            f"wanted in {CLOSE_SHARE:.0%}: {verdict(share >= CLOSE_SHARE)}; farthest is {worst}, "
            f"{distances[worst]:.2%} above."
        )
    if results["absent"]:
        lines.append(
            f"- No answer in {len(results['absent'])} runs of peers: "
            + "; ".join(sorted({a.split("|")[-1] for a in results["absent"]}))
            + "."
        )
    lines.append(
        "- Boosters run at learning rates "
        + " and ".join(str(rate) for rate in content["configuration"]["learning_rates"])
        + '; the better counts. "Refitted" are their first k distinct stumps with the best '
        "weights."
    )
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--datasets", nargs="+", help="names; default all")
    parser.add_argument("--quick", action="store_true", help="one small data set, sizes 5 and 10")
    parser.add_argument("--long", action="store_true", help="search from many starts too")
    parser.add_argument("--starts", type=int, default=20, help="of --long")
    parser.add_argument("--without", nargs="+", default=[], help="contenders to leave out")
    parser.add_argument("--again", nargs="+", default=[], help="contenders to run once more")
    parser.add_argument("--folder", type=Path, help="where results of data sets are kept")
    parser.add_argument("--out", type=Path, help="folder of the JSON files")
    arguments = parser.parse_args()
    if arguments.out is None:
        arguments.out = RESULTS / "quick" if arguments.quick else RESULTS
    if arguments.folder is None:
        arguments.folder = Path("runs/search/quick" if arguments.quick else "runs/search")
    names = [*datasets.names(), *KEEL]
    unknown = set(arguments.datasets or []) - set(names)
    if unknown:
        parser.error(f"--datasets must be among {', '.join(names)}, got {', '.join(unknown)}")
    arguments.datasets = arguments.datasets or (["thyroid"] if arguments.quick else names)
    groups = {"all": set(CONTENDERS), "ours": set(OURS)}
    arguments.again = set().union(*(groups.get(name, {name}) for name in arguments.again))
    if arguments.quick:
        arguments.again = set(CONTENDERS)
    for left_out in arguments.without:
        CONTENDERS.pop(left_out, None)
    arguments.again -= set(arguments.without)
    unknown = arguments.again - set(CONTENDERS)
    if unknown:
        parser.error(f"--again must be ours, all or among {', '.join(CONTENDERS)}, got {unknown}")
    return arguments


def main() -> None:
    arguments = parse()
    sizes = SIZES[:2] if arguments.quick else SIZES
    arguments.folder.mkdir(parents=True, exist_ok=True)
    arguments.out.mkdir(parents=True, exist_ok=True)
    best_path = arguments.out / "best_known.json"
    known = read_best_known(best_path)
    records: list[Record] = []
    absent: list[str] = []
    warm_up()
    for name in arguments.datasets:
        done = run_data_set(name, sizes, arguments.folder, arguments.again)
        mine = flat(name, done)
        records += mine
        absent += absences(name, done)
        longer = run_long(name, sizes, arguments.starts, mine) if arguments.long else []
        keep_best(best_path, known, [*mine, *longer])
    results = {
        "judged": judge(records, known),
        "summaries": summarise(records),
        "absent": absent,
        "records": [{k: v for k, v in r.items() if k != "cuts"} for r in records],
    }
    configuration = {
        "data": arguments.datasets,
        "sizes": sizes,
        "learning_rates": RATES,
        "thresholds_of_selectors": N_THRESHOLDS,
    }
    packages = ("abess", "xgboost", "lightgbm", "fastsparsegams")
    print(render(save("search", arguments, configuration, results, packages)))


if __name__ == "__main__":
    main()
