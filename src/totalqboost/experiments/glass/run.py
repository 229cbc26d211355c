"""Running the detector's methods: one row per seed, kind and method; what is done is kept."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from totalqboost.cascade.bounds import allowed_misses, positives_needed
from totalqboost.cascade.model import Cascade
from totalqboost.cascade.stages import Rows, Wish, soft_cascade, staged_cascade
from totalqboost.cluster.tasks import completed
from totalqboost.ensemble import Ensemble
from totalqboost.experiments.glass.bench import GlassBench, GlassSettings, prepared_bench
from totalqboost.experiments.glass.methods import METHODS, trainer
from totalqboost.experiments.lock import locked
from totalqboost.experiments.rows import RunError, check_count, check_keys, check_within, read_lines
from totalqboost.experiments.runner import append_lines, check_run, cut_torn_line, note_versions
from totalqboost.parameters import check_share, short

if TYPE_CHECKING:
    from totalqboost.cluster.connect import Client

__all__ = ["STAGES", "GlassTask", "read_results", "run_glass"]

STAGES = "stages"  # a cascade after Viola and Jones: it has no single ensemble
ROUNDING = 1e-9
ROWS = "glass.jsonl"
LAST_KIND = 9  # of clothes
COUNTED = ("empirical", "bound", "soft")  # detectors that are made of an ensemble


@dataclass(frozen=True)
class GlassTask:
    """One method for one kind and seed."""

    seed: int
    kind: int
    method: str


def run_glass(
    folder: str | os.PathLike[str],
    tasks: list[GlassTask],
    settings: GlassSettings,
    path: Any = None,
    on_task: Callable[[GlassTask, int, int], None] | None = None,
    client: Client | None = None,
) -> list[dict[str, Any]]:
    """Run the tasks that are not done yet; return all rows of the folder.

    With a client the workers of its cluster run them; images must be there too.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tasks = list(dict.fromkeys(tasks))
    with locked(folder) as check_lock:
        check_run(folder, settings)
        cut_torn_line(folder / ROWS)
        done = {_task_of(row) for row in read_results(folder)}
        missing = [task for task in tasks if task not in done]
        if missing:
            note_versions(folder)
        work = partial(_work, settings, path)
        rows = map(work, missing) if client is None else completed(client, work, missing)
        for number, row in enumerate(rows, start=len(tasks) - len(missing) + 1):
            check_lock()
            append_lines(folder / ROWS, [row])
            if on_task is not None:
                on_task(_task_of(row), number, len(tasks))
        return read_results(folder)


def _work(settings: GlassSettings, path: Any, task: GlassTask) -> dict[str, Any]:
    return row_of(prepared_bench(settings, task.seed, path), task)


def _task_of(row: Mapping[str, Any]) -> GlassTask:
    return GlassTask(row["seed"], row["kind"], row["method"])


def read_results(folder: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Return the rows of a folder; a line that is damaged or stands twice is named."""
    path = Path(folder) / ROWS
    if not path.exists():
        raise RunError(f"{folder} holds no run of the detector: there is no {ROWS} in it")
    return read_lines(path, _checked, _task_of)


def _checked(row: Any) -> dict[str, Any]:
    """Return a row of a file if what others read in it is there, and nothing else."""
    is_staged = isinstance(row, dict) and row.get("method") == STAGES
    names = ["seed", "kind", "method", "seconds", "at", *([] if is_staged else ["n_learners"])]
    check_keys(row, names, [*names, "ensemble"])
    check_count("seed", row["seed"], 0)
    check_count("kind", row["kind"], 0, LAST_KIND)
    if row["method"] not in (*METHODS, STAGES):
        raise ValueError(f"method must be one of {', '.join((*METHODS, STAGES))}")
    check_within("seconds", row["seconds"], 0)
    if not is_staged:
        check_count("n_learners", row["n_learners"], 0)
    if "ensemble" in row:
        _check_ensemble(row["ensemble"], row.get("n_learners"))
    if not isinstance(row["at"], dict) or not row["at"]:
        raise ValueError(f"at must hold a recall, got {short(row['at'])}")
    for recall, counts in row["at"].items():
        _check_counts(recall, counts, (STAGES,) if is_staged else COUNTED)
    found: dict[str, Any] = row
    return found


def _check_counts(recall: str, counts: Any, kinds: tuple[str, ...]) -> None:
    """Raise unless all that is counted at a recall is there."""
    is_share = False
    with suppress(ValueError):  # spelled as we do, else one recall could have two columns
        is_share = recall == f"{check_share('recall', float(recall)):g}"
    if not is_share:
        raise ValueError(f"at must hold recalls between 0 and 1 like 0.9, got {short(recall)}")
    names = {f"{kind}_{what}" for kind in kinds for what in ("false", "recall")}
    names |= {f"{kinds[-1]}_stumps", "n_negatives"}
    if not isinstance(counts, dict) or counts.keys() != names:
        raise ValueError(f"at {recall} must hold {', '.join(sorted(names))}, got {short(counts)}")
    for name, value in counts.items():
        check_within(name, value, 0, *([1] if name.endswith("_recall") else []))


def _check_ensemble(ensemble: Any, n_learners: Any) -> None:
    """Raise unless an ensemble is what ``_plain`` writes."""
    is_ours = isinstance(ensemble, dict) and ensemble.keys() == {"intercept", "stumps"}
    stumps = ensemble["stumps"] if is_ours else None
    if not isinstance(stumps, list) or len(stumps) != n_learners:
        what = f"intercept and {short(n_learners)} stumps"
        raise ValueError(f"ensemble must hold {what}, got {short(ensemble)}")
    check_within("intercept", ensemble["intercept"], -math.inf, math.inf)
    for stump in stumps:
        if not isinstance(stump, list) or len(stump) != 3:
            raise ValueError(f"a stump must be feature, threshold and weight, got {short(stump)}")
        check_count("feature", stump[0], 0)
        check_within("threshold", stump[1], -math.inf, math.inf)
        check_within("weight", stump[2], -math.inf, math.inf)


def row_of(bench: GlassBench, task: GlassTask) -> dict[str, Any]:
    """Train, set thresholds and count on fresh rows."""
    began = time.perf_counter()
    head = {"seed": task.seed, "kind": task.kind, "method": task.method}
    if task.method == STAGES:
        recall = bench.settings.recalls[len(bench.settings.recalls) // 2]  # trained for each
        at = {f"{recall:g}": _staged(bench, task.kind, recall)}
        return {**head, "seconds": time.perf_counter() - began, "at": at}
    ensemble = METHODS[task.method](bench, task.kind)
    seconds = time.perf_counter() - began
    at = {f"{r:g}": _measured(bench, task.kind, ensemble, r) for r in bench.settings.recalls}
    return {
        **head,
        "n_learners": ensemble.n_learners,
        "seconds": seconds,
        "at": at,
        "ensemble": _plain(ensemble),
    }


def _measured(
    bench: GlassBench, kind: int, ensemble: Ensemble, recall: float
) -> Mapping[str, float]:
    """Return what one threshold does, empirical or by the binomial bound, and a soft cascade."""
    y, y_valid, y_fresh = bench.labels(kind)
    positives = bench.X_valid[y_valid > 0]
    scores, fresh = np.sort(ensemble.scores(positives)), ensemble.scores(bench.X_fresh)
    n, n_missed = len(scores), _misses(bench, len(positives), recall)
    at = {
        **_counts("empirical", fresh - scores[int((1 - recall) * n)] >= -ROUNDING, y_fresh),
        **_counts("bound", fresh - scores[n_missed] >= -ROUNDING, y_fresh),
    }
    rows, wish = Rows(bench.X_train, y, positives), Wish(recall, n_missed)
    costs = np.zeros(bench.X_train.shape[1])
    cascade, _ = soft_cascade(rows, lambda *_: ensemble, wish, costs)
    return {**at, **_cascaded("soft", cascade, bench.X_fresh, y_fresh)}


def _staged(bench: GlassBench, kind: int, recall: float) -> Mapping[str, float]:
    y, y_valid, y_fresh = bench.labels(kind)
    positives = bench.X_valid[y_valid > 0]
    n_cuts = len(bench.settings.stage_sizes)
    wish = Wish(recall, _misses(bench, len(positives), recall, n_cuts))
    train = trainer(bench, kind, dictionary=bench.dictionary.stumps)
    rows, sizes = Rows(bench.X_train, y, positives), bench.settings.stage_sizes
    cascade, _ = staged_cascade(rows, train, wish, sizes, None)
    return _cascaded("stages", cascade, bench.X_fresh, y_fresh)


def _misses(bench: GlassBench, n: int, recall: float, n_cuts: int = 1) -> int:
    n_missed = allowed_misses(n, recall, bench.settings.confidence)
    if n_missed + 1 < n_cuts:
        needed = positives_needed(recall, bench.settings.confidence, n_cuts)
        raise RunError(
            f"{n} validation positives are too few for a recall of {recall:g}: {needed} are needed"
        )
    return n_missed


def _counts(name: str, found: np.ndarray, y: np.ndarray) -> dict[str, float]:
    return {
        f"{name}_false": int(found[y < 0].sum()),
        f"{name}_recall": float(found[y > 0].mean()),
        "n_negatives": int((y < 0).sum()),
    }


def _cascaded(name: str, cascade: Cascade, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    margins, n_evaluated = cascade.margins(X)
    stumps = float(n_evaluated[y < 0].mean())
    return {**_counts(name, margins >= 0, y), f"{name}_stumps": stumps}


def _plain(ensemble: Ensemble) -> dict[str, Any]:
    """Return the stumps and weights; names of thousands of features would fill the disk."""
    pairs = zip(ensemble.learners, ensemble.weights, strict=True)
    stumps = [[h.feature, h.threshold, h.polarity * w] for h, w in pairs]  # type: ignore[attr-defined]
    return {"intercept": ensemble.intercept, "stumps": stumps}
