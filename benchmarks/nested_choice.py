"""Does a price on learners help once everything is chosen on the training rows alone?

The tables of the paper, and ours of the same form, choose sizes on the validation rows. Here an
inner validation chooses them: early stopping's number of rounds without a price (strategy B), and
the price (strategy E, the best subset of B's columns), each where its error on held-out training
rows is least, the smaller ensemble at ties. The ensemble of that choice, trained on all training
rows, then meets the validation rows, once.

Two forms: the exponential loss as in the paper, and the logistic loss with the estimator's default
l1 price 4/n and its free intercept; beside the latter the estimator as it comes, which chooses
nothing. Splits are those of reproduction.py. Every (form, data set, split) is one line of
records.jsonl in --folder as soon as it is done: the same command goes on. The records are kept
beside the tables too, and a run in a new folder begins with them; with ``--again`` it measures all
of them anew. ``--report`` measures nothing: it counts what is in the folder, or what was kept if
there is no folder, of the splits that all data sets have.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, add_workers, as_done, load_before, save, say, table, write_results
from reproduction_report import p_equals
from scipy import stats

from totalqboost import TotalQBoostClassifier, datasets, dictionaries
from totalqboost.experiments.bench import Bench
from totalqboost.experiments.frontiers import dataset_names
from totalqboost.experiments.lock import locked
from totalqboost.experiments.report.page import p_value
from totalqboost.experiments.runner import append_lines, check_run, cut_torn_line, note_versions
from totalqboost.experiments.settings import Settings
from totalqboost.experiments.statistics import LEVEL, detectable, paired_difference
from totalqboost.experiments.strategies import STRATEGIES
from totalqboost.penalties import l1_price

NAME = "nested_choice"
FORMS = {
    "exponential": "Exponential loss, the paper's form",
    "logistic": "Logistic loss, the estimator's default l1 price",
}
NAMES = {"zero": "λ = 0", "priced": "λ chosen", "default": "default λ"}
ZERO, PRICED = "B", "E"
N_FOLDS = 5
N_SPLITS = 10
N_PRICES = 10  # to choose among
ENOUGH = 1000  # held-out rows: folds beyond are not run


# -- one split ------------------------------------------------------------------------------


def settings_of(form: str, settings: Settings, n_rows: int) -> Settings:
    """Return the run's settings in one of the two forms."""
    if form == "exponential":
        return settings
    nu = l1_price("auto", n_rows)
    return replace(settings, loss="logistic", nu=nu, fit_intercept=True)


def make_bench(form: str, dataset: str, split: int, settings: Settings) -> Bench:
    bench = Bench(dataset, split, settings)
    changed = settings_of(form, settings, len(bench.y))
    return bench if changed == settings else Bench(dataset, split, changed)


def part_of(form: str, bench: Bench, held_out: np.ndarray) -> Bench:
    """Return a bench of some training rows, the others being its validation rows.

    It has the prices of the whole: one of them is to be chosen.
    """
    part = copy.copy(bench)
    for name in list(vars(part)):  # what was computed of all rows is not of these
        if isinstance(getattr(type(part), name, None), cached_property):
            del part.__dict__[name]
    part.X_valid, part.y_valid = bench.X[held_out], bench.y[held_out]
    part.X, part.y = bench.X[~held_out], bench.y[~held_out]
    part.settings = settings_of(form, bench.settings, len(part.y))
    part.oracle = dictionaries.get("stumps").prepare(part.X, part.y)
    part.__dict__["lambdas"] = bench.lambdas
    return part


def inner_folds(n_rows: int, split: int) -> Iterator[np.ndarray]:
    """Yield masks of held-out rows: five folds, or as many of them as hold enough rows."""
    fold = np.random.default_rng([split, N_FOLDS]).permutation(n_rows) % N_FOLDS
    for number in range(min(N_FOLDS, math.ceil(ENOUGH * N_FOLDS / n_rows))):
        yield fold == number


def path_of(bench: Bench, strategy: str) -> list[tuple[int, int]]:
    """Return size and number of wrong validation rows along the rounds, or the prices."""
    found = []
    for outcome in STRATEGIES[strategy](bench):
        signs = np.where(outcome.ensemble.decision_function(bench.X_valid) > 0, 1, -1)
        found.append((outcome.ensemble.n_learners, int(np.sum(signs != bench.y_valid))))
    return found


def chosen(paths: list[list[tuple[int, int]]]) -> int:
    """Return the place of least error over the inner folds; of equal ones, the smallest sizes.

    A run that ended early stays where it ended.
    """
    length = max(len(path) for path in paths)
    padded = np.array([path + path[-1:] * (length - len(path)) for path in paths])
    sizes, wrong = padded.sum(axis=0).T
    return int(np.lexsort((np.arange(length), sizes, wrong))[0])


def record_of(form: str, dataset: str, split: int, settings: Settings) -> dict[str, Any]:
    """Choose on the training rows, and count on the validation rows."""
    began = time.perf_counter()
    bench = make_bench(form, dataset, split, settings)
    parts = [part_of(form, bench, held_out) for held_out in inner_folds(len(bench.y), split)]
    found: dict[str, Any] = {
        "form": form,
        "dataset": dataset,
        "split": split,
        "n_train": len(bench.y),
        "n_valid": len(bench.y_valid),
        "n_folds": len(parts),
    }
    for name, strategy in (("zero", ZERO), ("priced", PRICED)):
        place = chosen([path_of(part, strategy) for part in parts])
        whole = path_of(bench, strategy)
        size, wrong = whole[min(place, len(whole) - 1)]
        found[name] = {"learners": size, "wrong": wrong}
    if form == "logistic":
        clf = TotalQBoostClassifier().fit(bench.X, bench.y)
        wrong = int(np.sum(clf.predict(bench.X_valid) != bench.y_valid))
        found["default"] = {"learners": clf.n_learners_, "wrong": wrong}
    found["seconds"] = round(time.perf_counter() - began, 2)
    return found


# -- runs -----------------------------------------------------------------------------------


def run(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Compute what the folder does not have yet; return all records."""
    folder, settings = arguments.folder, arguments.settings
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "records.jsonl"
    with locked(folder) as check_lock:
        check_run(folder, settings)
        cut_torn_line(path)
        if is_new and not arguments.again:
            append_lines(path, kept_records(arguments.out / f"{NAME}.json", settings))
        done = {_key(record) for record in read_records(folder)}
        tasks = [
            (form, dataset, split)
            for split in range(arguments.splits)
            for dataset in sorted(arguments.datasets, key=_n_rows)[::-1]
            for form in FORMS
        ]
        missing = [task for task in tasks if task not in done]
        if missing:
            note_versions(folder)
        results = as_done(partial(_work, settings), missing, arguments)
        for number, record in enumerate(results, start=1):
            check_lock()
            append_lines(path, [record])
            form, dataset, split = _key(record)
            say(f"{number} of {len(missing)}: {form}, {dataset}, split {split}")
    wanted = set(tasks)
    return [record for record in read_records(folder) if _key(record) in wanted]


def kept_records(path: Path, settings: Settings) -> list[dict[str, Any]]:
    """Return what an earlier run with the same settings has measured."""
    if not path.exists():
        return []
    content = json.loads(path.read_text(encoding="utf-8"))
    is_same = content["configuration"]["settings"] == json.loads(json.dumps(asdict(settings)))
    return list(content["results"]["records"]) if is_same else []


def of_whole_splits(records: list[dict[str, Any]], datasets: Collection[str]) -> list[Any]:
    """Return the records of the splits that all data sets have in both forms."""
    n_done = Counter(record["split"] for record in records)
    return [r for r in records if n_done[r["split"]] == len(FORMS) * len(datasets)]


def _work(settings: Settings, task: tuple[str, str, int]) -> dict[str, Any]:
    return record_of(*task, settings)


def _n_rows(dataset: str) -> int:
    return len(datasets.load(dataset)[1])


def _key(record: dict[str, Any]) -> tuple[str, str, int]:
    return record["form"], record["dataset"], record["split"]


def read_records(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "records.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


# -- what they say --------------------------------------------------------------------------


def summary(records: list[dict[str, Any]], form: str) -> list[dict[str, Any]]:
    """Return errors, sizes and their difference for each data set."""
    mine = [record for record in records if record["form"] == form]
    return [
        _summary(name, [record for record in mine if record["dataset"] == name])
        for name in dataset_names(record["dataset"] for record in mine)
    ]


def _summary(name: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    entry: dict[str, Any] = {"dataset": name, "splits": len(records)}
    errors = {}
    for who in ("zero", "priced", "default"):
        if all(who in record for record in records):
            errors[who] = [record[who]["wrong"] / record["n_valid"] for record in records]
            learners = float(np.mean([record[who]["learners"] for record in records]))
            entry[who] = {"error": float(np.mean(errors[who])), "learners": learners}
    ratio = float(np.mean([record["n_valid"] / record["n_train"] for record in records]))
    for who, key in (("priced", "difference"), ("default", "default_difference")):
        if who in errors:
            entry[key] = _difference(np.subtract(errors[who], errors["zero"]).tolist(), ratio)
    entry["seconds"] = float(np.mean([record["seconds"] for record in records]))
    return entry


def _difference(differences: list[float], ratio: float) -> dict[str, Any]:
    difference = paired_difference(differences, ratio)
    return {
        "mean": difference.mean,
        "standard_error": difference.standard_error,
        "p": difference.p_value,
        "detectable": detectable(difference),
    }


def render(content: dict[str, Any], part: str | None = None) -> str:
    """Return the table of one form, or both, as Markdown."""
    forms = FORMS if part is None else (part,)
    tables = [(form, content["results"][form]) for form in forms]
    text = "\n\n".join(f"**{FORMS[form]}**\n\n{_table(found)}" for form, found in tables if found)
    last = list(FORMS)[-1]
    return f"{text}\n\n{_between(content['results'])}" if last in forms else text


def between(results: dict[str, list[dict[str, Any]]]) -> dict[str, tuple[float, float]]:
    """Return how the mean errors of the two forms differ, data sets being the sample.

    And p, corrected for two tests (Bonferroni); nothing where data sets are few.
    """
    first, second = ({e["dataset"]: e for e in results[form]} for form in FORMS)
    found = {}
    for who in ("zero", "priced"):
        d = [second[s][who]["error"] - first[s][who]["error"] for s in second if s in first]
        if len(d) >= 3:
            p = float(stats.ttest_1samp(d, 0.0).pvalue)
            found[who] = 100 * float(np.mean(d)), min(1.0, 2 * p)
    return found


def _between(results: dict[str, list[dict[str, Any]]]) -> str:
    told = ", ".join(
        f"{points:+.2f} points with {NAMES[who]} ({p_equals(p)})"
        for who, (points, p) in between(results).items()
    )
    if not told:
        return ""
    return f"Minus the first table, data sets being the sample, corrected for two tests: {told}."


def _table(found: list[dict[str, Any]]) -> str:
    has_default = all("default" in entry for entry in found)
    rows = []
    for entry in found:
        difference = entry["difference"]
        cells = [entry["dataset"], *_cells(entry["zero"]), *_cells(entry["priced"])]
        rows.append([*cells, _points(difference), p_value(difference["p"])])
        if has_default:
            rows[-1] += _cells(entry["default"])
    header = ["Error %", "λ = 0", "learners", "λ chosen", "learners", "Difference", "p"]
    if has_default:
        header += ["default λ", "learners"]
    return f"{table(header, rows)}\n\n{_sentence(found)}"


def _cells(found: dict[str, float]) -> list[str]:
    return [f"{100 * found['error']:.2f}", f"{found['learners']:.1f}"]


def _points(difference: dict[str, Any]) -> str:
    error = difference["standard_error"]
    return f"{100 * difference['mean']:+.2f}" + ("" if error is None else f" ± {100 * error:.2f}")


def _sentence(found: list[dict[str, Any]]) -> str:
    """Return the answer: what survives a correction for all data sets, and the means."""
    real = [entry for entry in found if entry["difference"]["p"] * len(found) <= LEVEL]
    named = ", ".join(f"{e['dataset']} ({100 * e['difference']['mean']:+.2f})" for e in real)
    errors = [100 * entry["difference"]["mean"] for entry in found]
    zero, priced = ([entry[who]["learners"] for entry in found] for who in ("zero", "priced"))
    n_splits = max(entry["splits"] for entry in found)
    return (
        f"{n_splits} splits. Mean difference over the data sets {np.mean(errors):+.2f} points"
        f"{_over_sets(errors)}, with {np.mean(priced):.1f} learners instead of {np.mean(zero):.1f}"
        f"{_over_sets(np.subtract(priced, zero))}; real after a correction for {len(found)} data "
        f"sets: {named or 'none'}. Mean error over the data sets: {_mean_errors(found)}."
        f"{_default_sentence(found)}"
    )


def _default_sentence(found: list[dict[str, Any]]) -> str:
    """Return how the estimator as it comes differs from λ = 0, if it was run."""
    if not all("default" in entry for entry in found):
        return ""
    differences = {entry["dataset"]: entry["default_difference"] for entry in found}
    errors = [100 * difference["mean"] for difference in differences.values()]
    default, zero = ([entry[who]["learners"] for entry in found] for who in ("default", "zero"))
    real = [name for name, one in differences.items() if one["p"] * len(found) <= LEVEL]
    largest = max(differences, key=lambda name: abs(differences[name]["mean"]))
    return (
        f" Default λ minus λ = 0: {np.mean(errors):+.2f} points{_over_sets(errors)}, with "
        f"{np.mean(default):.1f} learners instead of {np.mean(zero):.1f}"
        f"{_over_sets(np.subtract(default, zero))}; largest on {largest} "
        f"({_points(differences[largest])}); real after a correction for {len(found)} data sets: "
        f"{', '.join(real) or 'none'}."
    )


def _over_sets(differences: Any) -> str:
    """Return how sure a mean over data sets is, in brackets; nothing where there are few."""
    if len(differences) < 3:
        return ""
    return f" ({p_equals(float(stats.ttest_1samp(differences, 0.0).pvalue))})"


def _mean_errors(found: list[dict[str, Any]]) -> str:
    return ", ".join(
        f"{name} {100 * np.mean([entry[who]['error'] for entry in found]):.2f} %"
        for who, name in NAMES.items()
        if all(who in entry for entry in found)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--splits", type=int, default=N_SPLITS)
    add_workers(parser)
    parser.add_argument("--folder", type=Path, help="default runs/nested_choice")
    parser.add_argument("--out", type=Path, help="folder of the JSON file")
    parser.add_argument("--quick", action="store_true", help="two small data sets, two splits")
    parser.add_argument("--report", action="store_true", help="count what is in the folder")
    parser.add_argument("--again", action="store_true", help="measure what was kept anew, too")
    arguments = parser.parse_args()
    arguments.datasets, arguments.settings = datasets.names(), Settings(n_penalties=N_PRICES)
    name = f"runs/{NAME}"
    if arguments.quick:
        arguments.datasets, arguments.splits = ("thyroid", "heart"), 2
        arguments.settings, name = (
            Settings(max_rounds=10, n_penalties=4),
            f"runs/quick/{NAME}",
        )
    arguments.folder = arguments.folder or Path(name)
    arguments.out = arguments.out or (RESULTS / "quick" if arguments.quick else RESULTS)
    if arguments.report and not arguments.folder.exists():
        print(render(report(arguments.out / f"{NAME}.json")))
        return
    load = load_before()
    records = read_records(arguments.folder) if arguments.report else run(arguments)
    configuration = {"settings": asdict(arguments.settings), "load_before": load}
    results = counted(records, arguments.datasets)
    print(render(save(NAME, arguments, configuration, results)))


def counted(records: list[dict[str, Any]], datasets: Collection[str]) -> dict[str, Any]:
    """Return what the records say, and the records."""
    whole = of_whole_splits(records, datasets)
    results: dict[str, Any] = {form: summary(whole, form) for form in FORMS}
    return results | {"records": sorted(records, key=_key)}


def report(path: Path) -> dict[str, Any]:
    """Count the kept records again; where they were measured stays as it is."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    records = content["results"]["records"]
    content["results"] = counted(records, {record["dataset"] for record in records})
    write_results(path, content)
    return content


if __name__ == "__main__":
    main()
