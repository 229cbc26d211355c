"""Speed and memory: against AdaBoost, against the machine's own limits, and in moves per second.

Every ratio is taken within one run, with all sides warmed up and run in turns. Five parts:
UCG against AdaBoost, the neighbourhood kernel, the stump oracle, tabu search, peak memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import (
    interleave,
    load_before,
    n_cores,
    parse_arguments,
    repeated,
    save,
    say,
    summary,
    table,
    verdict,
)
from peak_memory import CASES
from threadpoolctl import threadpool_limits

from totalqboost import MasterProblem, TotalQBoostClassifier
from totalqboost.boosting import boost
from totalqboost.datasets import load, make_ringnorm
from totalqboost.dictionaries import Stumps
from totalqboost.kernels.neighbourhood import correlate
from totalqboost.losses import Exponential
from totalqboost.solvers import LocalSearch, TabuSearch

N_ROUNDS = 100
OURS = ("edge", "Z")  # names of our own pricing rules
RATIO_LIMIT = 0.3
LARGE_COPY = 256 * 2**20  # bytes: far beyond the caches
SMALL_COPY = 512 * 2**10  # bytes: source and target together fit a second-level cache


# -- (a) UCG against AdaBoost ---------------------------------------------------------------


def measure_boosting(repeats: int) -> dict[str, Any]:
    """Return the seconds of 100 rounds of UCG, coding of features included, and of AdaBoost."""
    from sklearn.ensemble import AdaBoostClassifier

    X, y = make_ringnorm(5920, seed=0)
    signs = y.astype(np.int8)

    rounds: dict[str, int] = {"AdaBoost": N_ROUNDS}

    def ucg(name: str, free_intercept: bool) -> None:
        result = boost(
            X,
            signs,
            Stumps(),
            LocalSearch(),
            Exponential(),
            lam=0.0,
            max_rounds=N_ROUNDS,
            free_intercept=free_intercept,
        )
        rounds[name] = len(result.trace)

    def fit() -> None:
        rounds["UCG, as an estimator"] = estimator.fit(X, y).n_iter_

    estimator = TotalQBoostClassifier(
        cardinality_penalty=0, fit_intercept=False, max_rounds=N_ROUNDS, patience=None
    )
    adaboost = AdaBoostClassifier(n_estimators=N_ROUNDS, random_state=0)
    tasks: dict[str, Callable[[], Any]] = {
        "UCG": partial(ucg, "UCG", False),
        "UCG, as an estimator": fit,
        "UCG, free intercept": partial(ucg, "UCG, free intercept", True),
        "AdaBoost": partial(adaboost.fit, X, y),
    }
    seconds = {name: summary(times) for name, times in interleave(tasks, repeats).items()}
    rival = seconds["AdaBoost"]
    for name, times in seconds.items():
        times["rounds"] = rounds[name]
        times["ratio_of_best"] = times["best"] / rival["best"]
        times["ratio_of_medians"] = times["median"] / rival["median"]
        say(f"{name}: {times['median']:.3f} s, ratio {times['ratio_of_medians']:.3f}")
    return seconds


# -- (b) the neighbourhood kernel -----------------------------------------------------------


def measure_copies(repeats: int) -> dict[str, float]:
    """Return GB/s read and written by plain copies, the machine's roofline."""
    large = [np.ones(LARGE_COPY, dtype=np.uint8) for _ in range(2)]
    small = [np.ones(SMALL_COPY, dtype=np.uint8) for _ in range(2)]
    parts = np.array_split(np.arange(LARGE_COPY), n_cores())
    slices = [slice(int(part[0]), int(part[-1]) + 1) for part in parts]

    def on_all_cores() -> None:
        with ThreadPoolExecutor(len(slices)) as pool:
            list(pool.map(lambda s: np.copyto(large[1][s], large[0][s]), slices))

    tasks = {
        "large, one core": (partial(np.copyto, large[1], large[0]), 2 * LARGE_COPY),
        "large, all cores": (on_all_cores, 2 * LARGE_COPY),
        "in cache": (repeated(partial(np.copyto, small[1], small[0]), 500), 1000 * SMALL_COPY),
    }
    times = interleave({name: task for name, (task, _) in tasks.items()}, repeats)
    return {name: n_bytes / min(times[name]) / 1e9 for name, (_, n_bytes) in tasks.items()}


def measure_kernel(repeats: int) -> list[dict[str, Any]]:
    """Return microseconds of s = A u at n = 100, m = 6,000, ours and BLAS."""
    n, m = 100, 6000
    rng = np.random.default_rng(0)
    A = rng.choice(np.array([-1, 1], dtype=np.int8), (n, m))
    tasks: dict[str, tuple[Callable[[], Any], int]] = {}
    for dtype in (np.float32, np.float64):
        u, out = rng.random(m).astype(dtype), np.empty(n, dtype)
        real = A.astype(dtype)
        name = np.dtype(dtype).name
        tasks[f"correlate, int8 × {name}"] = (partial(correlate, A, u, out), A.nbytes)
        tasks[f"BLAS, {name}"] = (partial(np.dot, real, u, out), real.nbytes)
    count = 200
    with threadpool_limits(1):
        times = interleave({k: repeated(t, count) for k, (t, _) in tasks.items()}, 3 * repeats)
    return [
        {
            "kernel": name,
            "microseconds": 1e6 * min(times[name]) / count,
            "gigabytes_per_second": n_bytes * count / min(times[name]) / 1e9,
        }
        for name, (_, n_bytes) in tasks.items()
    ]


# -- (c) the stump oracle -------------------------------------------------------------------


def large_data(n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Return float32 noise with a weak signal, made in chunks."""
    rng = np.random.default_rng(0)
    X = np.empty((n_rows, n_features), dtype=np.float32)
    for start in range(0, n_rows, 10_000):
        rng.standard_normal(dtype=np.float32, out=X[start : start + 10_000])
    score = X[:, :10].sum(axis=1) + rng.standard_normal(n_rows)
    return X, np.where(score > 0, 1, -1).astype(np.int8)


def measure_oracle(n_rows: int, n_features: int, repeats: int) -> dict[str, Any]:
    """Return seconds of one pricing of all stumps, and of one round of XGBoost and LightGBM.

    One core is measured to the end before anything is made for all cores: LightGBM's number
    of threads is one setting for the whole process.
    """
    X, y = large_data(n_rows, n_features)
    u = np.random.default_rng(1).random(n_rows)
    u /= u.sum()
    coding: dict[str, float] = {}
    calls = []
    for n_threads, cores in ((1, "one core"), (n_cores(), "all cores")):
        makers = {
            "stumps": partial(Stumps(max_bins=256).prepare, X, y, n_jobs=n_threads),
            "XGBoost": partial(xgboost_round, X, y, n_threads),
            "LightGBM": partial(lightgbm_round, X, y, n_threads),
        }
        made = {}
        for name, make in makers.items():
            made[name], coding[f"{name}, {cores}"] = timed(make)
            say(f"coding, {name}, {cores}: {coding[f'{name}, {cores}']:.1f} s")
        tasks: dict[str, Callable[[], Any]] = {
            f"edge, {cores}": partial(made["stumps"].best, u),
            f"Z, {cores}": partial(made["stumps"].best, u, curvature=u),
            f"XGBoost, one round, {cores}": made["XGBoost"],
            f"LightGBM, one round, {cores}": made["LightGBM"],
        }
        for name, times in interleave(tasks, repeats).items():
            calls.append(_call(name, min(times), n_rows * n_features, name.startswith(OURS)))
            say(f"{name}: {min(times):.3f} s")
    return {"coding_seconds": coding, "calls": calls}


def _call(name: str, seconds: float, cells: int, is_ours: bool) -> dict[str, Any]:
    """Return one row of the table. A cell is one code of one feature of one row.

    From memory comes the code, one byte. The two weights of the row, 16 bytes, are read for
    every feature, but from a cache: they count as loaded, not as moved from memory.
    """
    record = {"task": name, "seconds": seconds, "nanoseconds_per_cell": 1e9 * seconds / cells}
    if is_ours:
        record["from_memory"] = cells / seconds / 1e9
        record["loaded"] = 17 * cells / seconds / 1e9
    return record


def timed(make: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a call returns, and its seconds."""
    began = time.perf_counter()
    made = make()
    return made, time.perf_counter() - began


def xgboost_round(X: np.ndarray, y: np.ndarray, n_threads: int) -> Callable[[], Any]:
    """Code the features and return a task that adds one stump."""
    import xgboost

    labels = (y > 0).astype(np.float32)
    data = xgboost.QuantileDMatrix(X, labels, max_bin=256, nthread=n_threads)
    settings = {"max_depth": 1, "max_bin": 256, "nthread": n_threads, "eta": 0.1}
    settings |= {"objective": "binary:logistic", "tree_method": "hist"}
    booster = xgboost.Booster(settings, [data])
    rounds = iter(range(10**6))
    return lambda: booster.update(data, next(rounds))


def lightgbm_round(X: np.ndarray, y: np.ndarray, n_threads: int) -> Callable[[], Any]:
    """Code the features and return a task that adds one stump."""
    import lightgbm

    labels = (y > 0).astype(np.float32)
    settings = {"num_leaves": 2, "max_bin": 255, "num_threads": n_threads, "verbose": -1}
    settings |= {"force_col_wise": True, "objective": "binary"}
    data = lightgbm.Dataset(X, labels, params=settings).construct()
    return lightgbm.Booster(settings, data).update


# -- (d) tabu search ------------------------------------------------------------------------


def master_problem(X: np.ndarray, y: np.ndarray, n: int) -> MasterProblem:
    """Return the problem over the first n columns of UCG."""
    result = boost(
        X, y.astype(np.int8), Stumps(), LocalSearch(), Exponential(), max_rounds=n, tol=1e-9
    )
    assert result.problem is not None
    assert result.problem.n_columns == n
    return replace(result.problem, lam=0.005)


def tabu_problems() -> dict[str, MasterProblem]:
    """Return a large, a small and a separable problem; refits take long on the last."""
    german, labels = load("german")
    return {
        "ringnorm, 100 columns × 5,920 rows": master_problem(*make_ringnorm(5920, seed=0), 100),
        "german, 60 columns × 800 rows": master_problem(german[:800], labels[:800], 60),
        "separable, 60 columns × 800 rows": master_problem(*make_ringnorm(800, seed=0), 60),
    }


def measure_tabu(n_moves: int, repeats: int) -> list[dict[str, Any]]:
    """Return moves per second of whole solves: starts, restarts and refits included."""
    tasks = {}
    for name, problem in tabu_problems().items():
        for moves in ("levels", "bits"):
            solver = TabuSearch(n_bits=6, moves=moves, max_evaluations=n_moves)
            tasks[f"{name}, {moves}"] = partial(solver.solve, problem)
    times = interleave(tasks, repeats)
    return [{"problem": name, "per_second": n_moves / min(s)} for name, s in times.items()]


# -- (e) memory -----------------------------------------------------------------------------


def measure_memory(n_rows: int, n_features: int) -> list[dict[str, Any]]:
    """Return peak memory of fits, each in a process of its own."""
    script = Path(__file__).with_name("peak_memory.py")
    found = []
    for case in CASES:
        command = [sys.executable, str(script), case]
        command += ["--rows", str(n_rows), "--features", str(n_features)]
        answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        found.append(json.loads(answer))
        say(f"memory, {case}: {found[-1]['bytes_per_row']:.0f} bytes a row")
    return found


# -- reporting ------------------------------------------------------------------------------


def render(content: dict[str, Any]) -> str:
    """Return the tables of results as Markdown."""
    results = content["results"]
    shape = " × ".join(content["configuration"]["oracle"])
    parts = [
        "**Up to 100 rounds on ringnorm, 5,920 × 20**\n",
        _boosting_table(results["boosting"]),
        "\n**Neighbourhood kernel s = A u, 100 columns × 6,000 rows, one core**\n",
        _kernel_table(results["kernel"], results["copies"]),
        f"\n**Pricing all stumps, {shape}, uint8 codes**\n",
        _oracle_table(results["oracle"], results["copies"]),
        "\n**Tabu search, 6 bits, whole solves**\n",
        _tabu_table(results["tabu"]),
        "\n**Peak memory of a fit beyond the caller's X, uint8 codes**\n",
        _memory_table(results["memory"]),
    ]
    return "\n".join(parts)


def _boosting_table(seconds: dict[str, dict[str, float]]) -> str:
    keys = ("best", "median", "ratio_of_best", "ratio_of_medians")
    rows = [
        [name, str(times["rounds"]), *(f"{times[key]:.3f}" for key in keys)]
        for name, times in seconds.items()
    ]
    ratio = seconds["UCG"]["ratio_of_medians"]
    note = f"\n\n- UCG takes at most {RATIO_LIMIT} of AdaBoost: {verdict(ratio <= RATIO_LIMIT)}."
    header = ["", "rounds", "best s", "median s", "best / AdaBoost", "median / AdaBoost"]
    return table(header, rows) + note


def _kernel_table(kernels: list[dict[str, Any]], copies: dict[str, float]) -> str:
    cached = copies["in cache"]
    rows = [
        (
            k["kernel"],
            f"{k['microseconds']:.1f}",
            f"{k['gigabytes_per_second']:.1f}",
            f"{k['gigabytes_per_second'] / cached:.0%}",
        )
        for k in kernels
    ]
    rows += [
        (f"copy, {name}", "", f"{speed:.1f}", f"{speed / cached:.0%}")
        for name, speed in copies.items()
    ]
    return table(["", "µs", "GB/s of A (copy: read + written)", "of a copy in cache"], rows)


def _oracle_table(oracle: dict[str, Any], copies: dict[str, float]) -> str:
    rows = []
    for call in oracle["calls"]:
        cells = [call["task"], f"{call['seconds']:.3f}", f"{call['nanoseconds_per_cell']:.2f}"]
        if "loaded" in call:
            roofline = copies["large, " + call["task"].split(", ")[-1]]
            cells += [f"{call['from_memory']:.1f}", f"{call['from_memory'] / roofline:.0%}"]
            cells += [f"{call['loaded']:.1f}"]
        rows.append([*cells, "", "", ""][:6])
    header = ["", "s a call", "ns a cell", "GB/s of codes", "of a large copy"]
    coding = ", ".join(f"{name} {s:.1f} s" for name, s in oracle["coding_seconds"].items())
    return (
        table([*header, "GB/s with weights, from cache"], rows)
        + f"\n\n- Coding the features once: {coding}."
        + "\n- A round of a booster also updates its scores and weights."
    )


def _tabu_table(found: list[dict[str, Any]]) -> str:
    rows = [(t["problem"], f"{t['per_second']:,.0f}") for t in found]
    return table(["problem and kind of moves", "moves a second"], rows)


def _memory_table(found: list[dict[str, Any]]) -> str:
    rows = [
        (
            f"{f['case']} ({f['rows']} × {f['features']})",
            f["rounds"],
            f"{f['bytes_per_row']:.0f}",
            f["limit_per_row"],
            verdict(f["bytes_per_row"] <= f["limit_per_row"]),
            f"{f['seconds']:.1f}",
        )
        for f in found
    ]
    limit = "features + rounds + 64"
    return table(["", "rounds", "bytes a row", limit, "within", "s"], rows)


def main() -> None:
    arguments = parse_arguments(__doc__, repeats=7)
    quick, busy = arguments.quick, load_before()
    repeats = 2 if quick else arguments.repeats
    oracle_shape = (20_000, 200) if quick else (100_000, 1_000)
    memory_shape = (50_000, 20) if quick else (400_000, 50)
    n_moves = 2_000 if quick else 20_000
    results = {
        "boosting": measure_boosting(repeats),
        "copies": measure_copies(repeats),
        "kernel": measure_kernel(repeats),
        "tabu": measure_tabu(n_moves, min(repeats, 3)),
        "oracle": measure_oracle(*oracle_shape, min(repeats, 5)),
        "memory": measure_memory(*memory_shape),
    }
    configuration = {
        "repeats": repeats,
        "load_before": busy,
        "oracle": [f"{size:,}" for size in oracle_shape],
        "tabu_moves": n_moves,
        "memory": memory_shape,
    }
    packages = ("xgboost", "lightgbm")
    print(render(save("speed", arguments, configuration, results, packages)))


if __name__ == "__main__":
    main()
