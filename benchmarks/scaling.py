"""Rows on a cluster: time, memory and bytes over the wire, beside LightGBM on the same workers.

Rows are generated on the workers, in two shapes: long (10^7 x 20, or --rows) and wide (10^5 x
10^4, the paper's size). Both libraries fit the same collection on the same cluster of processes on
this machine, first with one worker, then with two: ours 20 weak classifiers by the search with
exchange, LightGBM's DaskLGBMClassifier 100 stumps. Bytes are those that the loopback device
carried, so run it on a quiet machine; those of the questions to workers stand beside what the
formula of docs/scaling.md says. The others are partitions on their way to where they are coded,
and blocks that Dask moves from worker to worker to keep all of them busy.
Of more than 5 million rows no column comes to the driver; with more than one worker a third run
fetches them, as it is done with fewer rows. ``--shape long`` or ``wide`` runs one of them and keeps
the other's results.
"""

from __future__ import annotations

import argparse
import json
import pickle
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import psutil
from common import RESULTS, load_before, save, say, table
from sklearn.metrics import roc_auc_score

from totalqboost import TotalQBoostClassifier, settings
from totalqboost.cluster.connect import connected
from totalqboost.cluster.rows import ClusterRows

NAME = "scaling"
LEARNERS, STUMPS, MAX_BINS = 20, 100, 256
SHAPES = {"long": (10_000_000, 20, 20), "wide": (100_000, 10_000, 40)}  # rows, features, parts
QUICK = {"long": (60_000, 5, 4), "wide": (30_000, 30, 3)}
MOST_BYTES = 8e9
FLOAT = 8
NEAR = "ours, columns on the driver"
VERBS = ("totals", "slopes", "turned", "model", "patterns", "column", "codes", "picked")


# -- data ------------------------------------------------------------------------------------


def part(seed: int, n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of noise in which a third of the features, at most 12, tell the classes apart."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    n_signals = max(2, min(12, n_features // 3))
    strength = np.linspace(1.0, 0.3, n_signals, dtype=np.float32)
    score = X[:, :n_signals] @ strength + rng.standard_normal(n_rows, dtype=np.float32)
    return X, (score > 0.5).astype(np.int8)


def collections(n_rows: int, n_features: int, n_parts: int) -> tuple[Any, Any]:
    """Return X and y as arrays of Dask whose parts are made where they are needed."""
    import dask.array as da
    from dask import delayed

    size = n_rows // n_parts
    parts = [delayed(part, nout=2)(seed, size, n_features) for seed in range(n_parts)]
    X = [da.from_delayed(x, (size, n_features), np.float32) for x, _ in parts]
    y = [da.from_delayed(labels, (size,), np.int8) for _, labels in parts]
    return da.concatenate(X), da.concatenate(y)


# -- what is measured ------------------------------------------------------------------------


class Memory:
    """The largest sum of resident memory of this process and its children, while it is open."""

    def __enter__(self) -> Memory:
        self.n_bytes, self._is_open = 0, True
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_open = False
        self._thread.join()

    def _watch(self) -> None:
        me = psutil.Process()
        while self._is_open:
            total = 0
            for process in [me, *me.children(recursive=True)]:
                try:
                    total += process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue  # it has ended since
            self.n_bytes = max(self.n_bytes, total)
            time.sleep(0.2)


def carried() -> int:
    """Return the bytes that the loopback device has carried."""
    return int(psutil.net_io_counters(pernic=True)["lo"].bytes_recv)


class Watch:
    """Calls, seconds and bytes by formula of the verbs of rows on a cluster."""

    def __init__(self, n_workers: int):
        self.n_workers = n_workers
        self.calls: Counter[str] = Counter()
        self.seconds = dict.fromkeys(VERBS, 0.0)
        self.wire, self.formula = 0, 0.0
        self.largest: Counter[str] = Counter()  # bytes of an answer
        self.asked: list[tuple[str, float, float]] = []  # verb, begin, end

    @contextmanager
    def on(self) -> Iterator[Watch]:
        """Watch every call until the end."""
        before = {verb: getattr(ClusterRows, verb) for verb in VERBS}
        for verb, method in before.items():
            setattr(ClusterRows, verb, self._watched(verb, method))
        try:
            yield self
        finally:
            for verb, method in before.items():
                setattr(ClusterRows, verb, method)

    def _watched(self, verb: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def watched(rows: ClusterRows, *arguments: Any) -> Any:
            known = len(rows._bits), rows._totals is not None
            wire, began = carried(), time.perf_counter()
            answer = method(rows, *arguments)
            if (verb == "column" and len(rows._bits) == known[0]) or (
                verb == "totals" and known[1]
            ):
                return answer  # the driver had it
            self.seconds[verb] += time.perf_counter() - began
            self.calls[verb] += 1
            self.asked.append((verb, began, time.perf_counter()))
            self.wire += carried() - wire
            sent = 2 * len(rows.blocks) * len(pickle.dumps(arguments)) if verb != "picked" else 0
            self.formula += sent + self.bytes_of(verb, rows, answer)
            self.largest[verb] = max(self.largest[verb], size_of(answer))
            return answer

        return watched

    def searched(self) -> tuple[float, float]:
        """Return when the search on some rows began and ended; the driver needs nobody for it."""
        places = [i for i, (verb, _, _) in enumerate(self.asked) if verb == "picked"]
        if not places or places[0] + 1 == len(self.asked):
            return 0.0, 0.0
        return self.asked[places[0]][2], self.asked[places[0] + 1][1]

    def bytes_of(self, verb: str, rows: ClusterRows, answer: Any) -> float:
        """Return what an answer carries: sums and patterns once per worker, columns a bit a row.

        What comes from the driver or to it passes the scheduler, here on the same device: it counts
        twice.
        """
        if verb in ("totals", "slopes", "turned", "model"):
            return (self.n_workers + 1) * answer.size * FLOAT
        if verb == "patterns":
            return (self.n_workers + 1) * size_of(answer)
        return 2 * (len(rows) / 8 if verb == "column" else answer.nbytes)


def size_of(answer: Any) -> int:
    """Return the bytes of an array, or of several; nothing has none."""
    parts = answer if isinstance(answer, tuple) else (answer,)
    return sum(part.nbytes for part in parts if part is not None)


def ours(X: Any, y: Any, n_workers: int) -> tuple[dict[str, Any], Any]:
    """Fit ours; return what it took, and the model."""
    watch = Watch(n_workers)
    with Memory() as memory, watch.on():
        wire, began = carried(), time.perf_counter()
        model = TotalQBoostClassifier(0, max_learners=LEARNERS).fit(X, y)
        seconds, wire = time.perf_counter() - began, carried() - wire
    first, last = watch.searched()
    found = {
        "seconds": seconds,
        "prepared": first - began,
        "searched": last - first,
        "waiting": sum(watch.seconds.values()),
        "bytes": memory.n_bytes,
        "wire": wire,
        "asked": watch.wire,
        "formula": watch.formula,
        "calls": dict(watch.calls),
        "largest": dict(watch.largest),
        "verb_seconds": watch.seconds,
        "learners": model.n_learners_,
    }
    return found, model.decision_function


def lightgbms(X: Any, y: Any, client: Any) -> tuple[dict[str, Any], Any]:
    """Fit LightGBM's stumps; return what it took, and the model."""
    from lightgbm import DaskLGBMClassifier

    how: dict[str, Any] = {"num_leaves": 2, "max_bin": MAX_BINS - 1, "verbose": -1}
    model = DaskLGBMClassifier(client=client, n_estimators=STUMPS, **how)
    with Memory() as memory:
        wire, began = carried(), time.perf_counter()
        model.fit(X, y)
        seconds, wire = time.perf_counter() - began, carried() - wire
    local = model.to_local()
    found = {"seconds": seconds, "bytes": memory.n_bytes, "wire": wire, "learners": STUMPS}
    return found, lambda fresh: local.predict_proba(fresh)[:, 1]


def near(X: Any, y: Any, n_workers: int) -> tuple[dict[str, Any], Any]:
    """Fit ours as if the driver had room for its columns."""
    with patch.object(settings, "FAR_ROWS", len(X)):
        return ours(X, y, n_workers)


def measure(
    shape: tuple[int, int, int], n_workers: int, keep: Callable[[dict[str, Any]], Any]
) -> dict[str, Any]:
    """Run both on a cluster of their own; keep what is done before the next begins."""
    from lightgbm.basic import LightGBMError

    n_rows, n_features, n_parts = shape
    fresh, truth = part(10**6, max(20_000, n_rows // 50), n_features)
    with connected(workers=n_workers) as client:
        TotalQBoostClassifier(0, max_learners=2).fit(*collections(50_000, 3, 2))  # compiles
        X, y = collections(n_rows, n_features, n_parts)
        mine, score = ours(X, y, n_workers)
        mine["auc"] = float(roc_auc_score(truth, score(fresh)))
        say(f"ours, {n_workers} workers: {mine['seconds']:.0f} s, {mine['calls']}")
        found = {"ours": mine}
        keep(found)
        if n_workers > 1 and n_rows > settings.FAR_ROWS:
            found[NEAR], score = near(X, y, n_workers)
            found[NEAR]["auc"] = float(roc_auc_score(truth, score(fresh)))
            say(f"{NEAR}: {found[NEAR]['seconds']:.0f} s, {found[NEAR]['calls']}")
            keep(found)
        try:
            theirs, score = lightgbms(X, y, client)
        except LightGBMError as error:  # such as a worker that had no memory left
            say(f"LightGBM, {n_workers} workers, failed: {error}")
            return {**found, "LightGBM": {"failed": str(error)}}
        theirs["auc"] = float(roc_auc_score(truth, score(fresh)))
        say(f"LightGBM, {n_workers} workers: {theirs['seconds']:.0f} s")
    return {**found, "LightGBM": theirs}


# -- tables ----------------------------------------------------------------------------------


def render(content: dict[str, Any], part: str = "") -> str:
    parts = []
    for shape, results in content["results"].items():
        n_rows, n_features, _ = content["configuration"]["shapes"][shape]
        said = _said(results, shape == "long")
        parts.append(f"**{n_rows:,} × {n_features:,}**\n\n{_table(results)}\n\n{said}")
    return "\n\n".join(parts)


def _table(results: dict[str, Any]) -> str:
    head = ["", "workers", "stumps", "seconds", "GB, all processes", "MB on the wire", "AUC"]
    rows = [
        (
            name,
            n_workers,
            f"{side['learners']}",
            f"{side['seconds']:.0f}",
            f"{side['bytes'] / 1e9:.2f}",
            f"{side['wire'] / 1e6:,.0f}",
            f"{side['auc']:.4f}",
        )
        for n_workers, sides in results.items()
        for name, side in sides.items()
        if "failed" not in side
    ]
    return table(head, rows)


def _said(results: dict[str, Any], is_long: bool) -> str:
    lines = []
    for n_workers, sides in results.items():
        mine, theirs = sides["ours"], sides.get("LightGBM", {"failed": "it did not end"})
        calls = mine["calls"]
        lines.append(
            f"{n_workers} worker{'s' if int(n_workers) > 1 else ''}: "
            f"{ratio(mine, theirs)}, "
            f"{mine['waiting'] / mine['seconds']:.0%} of it waiting for workers; "
            f"{calls.get('slopes', 0)} passes over the dictionary, "
            f"{calls.get('turned', 0)} to move cuts, {calls.get('patterns', 0)} to merge rows, "
            f"{calls.get('column', 0)} columns fetched; "
            f"{mine['asked'] / 1e6:,.0f} MB for all of these, "
            f"{mine['asked'] / mine['formula']:.2f} of what the formula says."
        )
    if "1" in results and "2" in results:
        one, two = (results[n]["ours"]["seconds"] for n in ("1", "2"))
        lines.append(f"Two workers take {two / one:.2f} of the time of one.")
    peak = max(sides["ours"]["bytes"] for sides in results.values())
    if is_long:
        lines.append(f"Ours below 8 GB: {'yes' if peak < MOST_BYTES else '**no**'}.")
    return "\n".join(f"- {line}" for line in lines)


def ratio(mine: dict[str, Any], theirs: dict[str, Any]) -> str:
    if "failed" in theirs:
        return f"LightGBM failed ({theirs['failed']}); ours"
    return f"time {mine['seconds'] / theirs['seconds']:.2f} of LightGBM's"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shape", choices=list(SHAPES), help="default both")
    parser.add_argument("--rows", type=int, help="of the long shape, default 10,000,000")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--out", type=Path, help="folder of the JSON file")
    parser.add_argument("--quick", action="store_true", help="small shapes, to see that it runs")
    arguments = parser.parse_args()
    shapes = QUICK if arguments.quick else SHAPES
    if arguments.rows:
        shapes = shapes | {"long": (arguments.rows, *shapes["long"][1:])}
    arguments.out = arguments.out or (RESULTS / "quick" if arguments.quick else RESULTS)
    path, results = arguments.out / f"{NAME}.json", {}
    if path.exists() and arguments.shape:
        results = json.loads(path.read_text(encoding="utf-8"))["results"]
    load = load_before()
    configuration = {"shapes": shapes, "load_before": load}
    for shape in [arguments.shape] if arguments.shape else list(shapes):
        results[shape] = {}
        for n in arguments.workers:

            def keep(found: dict[str, Any], own: str = shape, n: int = n) -> dict[str, Any]:
                results[own][str(n)] = found
                return save(NAME, arguments, configuration, results, ("dask", "lightgbm"))

            content = keep(measure(shapes[shape], n, keep))
    print(render(content))


if __name__ == "__main__":
    main()
