"""Times and memory: the frontier, default fits and large data against AdaBoost and LightGBM.

Every ratio is taken within one run: CPU time of one core, all sides warmed up and run in turns,
the best of several repeats. ``--baseline PATH`` compares the frontier with that of another
source tree of this package (its root, for example a worktree of an older commit), which runs in
a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

# Before the first import of NumPy: times are those of one core.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import numpy as np
from common import (
    RESULTS,
    Coded,
    algorithm_1,
    first_columns,
    interleave,
    load_before,
    save,
    say,
    table,
    verdict,
)
from peak_memory import CASES

from totalqboost import MasterProblem, TotalQBoostClassifier, frontier
from totalqboost.datasets import load, make_ringnorm, make_twonorm
from totalqboost.dictionaries import Stumps
from totalqboost.losses import Exponential
from totalqboost.solvers import TabuSearch

N_ROUNDS = 100  # of AdaBoost and LightGBM
FRONTIER_ROWS = 5920
LIMITS = {
    "frontier / baseline": 1 / 8,
    "exponent": 1.5,
    "default fit / AdaBoost": 1.0,
    "default fit / LightGBM, larger": 8.0,
    "20 learners / LightGBM, after coding": 2.5,
    "trusted, microseconds": 5.0,
    "UCG / AdaBoost": 0.3,
}
FRONTIER = """
import json, sys, time
from totalqboost import frontier
from totalqboost.datasets import make_twonorm
rows, learners, repeats = json.loads(sys.argv[1])
X, y = make_twonorm(rows, seed=0)
frontier(X[:500], y[:500], max_learners=5, loss="exponential", l1_penalty=1e-6)
seconds = []
for _ in range(repeats):
    began = time.process_time()
    frontier(X, y, max_learners=learners, loss="exponential", l1_penalty=1e-6)
    seconds.append(time.process_time() - began)
print(min(seconds))
"""


def best_seconds(tasks: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Return the CPU seconds of each task, the best of some repeats."""
    times = interleave(tasks, repeats, clock=time.process_time)
    for name, seconds in times.items():
        say(f"{name}: {min(seconds):.3f} CPU s")
    return {name: min(seconds) for name, seconds in times.items()}


# -- the frontier ---------------------------------------------------------------------------


def measure_frontier(sizes: tuple[int, ...], repeats: int, baseline: Path | None) -> dict[str, Any]:
    """Return seconds to some sizes, the exponents between them, and those of the baseline."""
    X, y = make_twonorm(FRONTIER_ROWS, seed=0)
    tasks = {
        str(k): partial(frontier, X, y, max_learners=k, loss="exponential", l1_penalty=1e-6)
        for k in sizes
    }
    seconds = best_seconds(tasks, repeats)
    times = np.array(list(seconds.values()))
    steps = np.diff(np.log(times)) / np.diff(np.log(sizes))
    found: dict[str, Any] = {
        "seconds": seconds,
        "exponents": steps,
        "exponent": np.log(times[-1] / times[0]) / np.log(sizes[-1] / sizes[0]),
    }
    if baseline is not None:
        largest = sizes[-1]
        settings = json.dumps([FRONTIER_ROWS, largest, min(repeats, 3)])
        answer = subprocess.run(
            [sys.executable, "-c", FRONTIER, settings],
            env={**os.environ, "PYTHONPATH": str(baseline.resolve() / "src")},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        found["baseline"] = float(answer.stdout.split()[-1])
        found["ratio"] = seconds[str(largest)] / found["baseline"]
        say(f"baseline: {found['baseline']:.3f} CPU s, ratio {found['ratio']:.3f}")
    return found


# -- whole fits -----------------------------------------------------------------------------


def lightgbm_stumps(X: np.ndarray, y: np.ndarray) -> None:
    from lightgbm import LGBMClassifier

    settings = {"num_leaves": 2, "n_jobs": 1, "verbose": -1}
    LGBMClassifier(n_estimators=N_ROUNDS, **settings).fit(X, y)


def adaboost_stumps(X: np.ndarray, y: np.ndarray) -> None:
    from sklearn.ensemble import AdaBoostClassifier

    AdaBoostClassifier(n_estimators=N_ROUNDS, random_state=0).fit(X, y)


def ucg(X: np.ndarray, y: np.ndarray) -> None:
    """100 rounds of column generation in the paper's form, coding of features included."""
    algorithm_1(Stumps().prepare(X, y.astype(np.int8)), max_rounds=N_ROUNDS)


def default_fit(X: np.ndarray, y: np.ndarray) -> None:
    TotalQBoostClassifier().fit(X, y)


def measure_fits(larger: tuple[int, int], repeats: int) -> dict[str, Any]:
    """Return seconds of default fits, UCG, AdaBoost and LightGBM."""
    small = make_twonorm(FRONTIER_ROWS, seed=0)
    ringnorm = make_ringnorm(FRONTIER_ROWS, seed=0)
    large = large_data(*larger)
    tasks: dict[str, Callable[[], Any]] = {
        "default fit, twonorm": partial(default_fit, *small),
        "AdaBoost, twonorm": partial(adaboost_stumps, *small),
        "LightGBM, twonorm": partial(lightgbm_stumps, *small),
        "UCG, ringnorm": partial(ucg, *ringnorm),
        "AdaBoost, ringnorm": partial(adaboost_stumps, *ringnorm),
        "default fit, larger": partial(default_fit, *large),
        "LightGBM, larger": partial(lightgbm_stumps, *large),
    }
    return best_seconds(tasks, repeats)


# -- large data, after coding ---------------------------------------------------------------


def large_data(n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Return float32 noise with a weak signal, made in chunks."""
    rng = np.random.default_rng(0)
    X = np.empty((n_rows, n_features), dtype=np.float32)
    for start in range(0, n_rows, 10_000):
        rng.standard_normal(dtype=np.float32, out=X[start : start + 10_000])
    score = X[:, :10].sum(axis=1) + rng.standard_normal(n_rows)
    return X, np.where(score > 0, 1, -1).astype(np.int8)


def measure_after_coding(n_rows: int, n_features: int, repeats: int) -> dict[str, Any]:
    """Return seconds of 20 learners and of LightGBM's rounds, and what coding took."""
    import lightgbm

    X, y = large_data(n_rows, n_features)
    settings: dict[str, Any] = {"num_leaves": 2, "max_bin": 255, "num_threads": 1, "verbose": -1}
    settings |= {"objective": "binary"}
    made: dict[str, Any] = {}

    def code() -> None:
        made["ours"] = Stumps(max_bins=256).prepare(X, y)

    def construct() -> None:
        labels = (y > 0).astype(np.float32)
        made["LightGBM"] = lightgbm.Dataset(X, labels, params=settings).construct()

    def learners() -> None:
        dictionary = Coded(made["ours"])
        TotalQBoostClassifier(0, max_learners=20, dictionary=dictionary).fit(X, y)

    def rounds() -> None:
        booster = lightgbm.Booster(settings, made["LightGBM"])
        for _ in range(N_ROUNDS):
            booster.update()

    coding = interleave({"ours": code, "LightGBM": construct}, 1, 0, clock=time.process_time)
    seconds = best_seconds({"20 learners": learners, "LightGBM": rounds}, repeats)
    return {"coding": {who: times[0] for who, times in coding.items()}, "seconds": seconds}


# -- small parts ----------------------------------------------------------------------------


def measure_trusted(count: int) -> float:
    """Return the microseconds of making a MasterProblem of trusted parts."""
    A = np.ones((50, FRONTIER_ROWS), dtype=np.int8)
    cost, loss = np.ones(50), Exponential()
    weight = np.full(FRONTIER_ROWS, 1.0 / FRONTIER_ROWS)

    def make() -> None:
        for _ in range(count):
            MasterProblem.trusted(A, 1e-6, 0.0, cost, loss, weight)

    return 1e6 * best_seconds({f"{count} trusted problems": make}, 5).popitem()[1] / count


def measure_tabu(n_moves: int, repeats: int) -> list[dict[str, Any]]:
    """Return moves per second of whole solves: starts, restarts and refits included.

    The last problem is separable; refits take long there.
    """
    german, labels = load("german")
    problems = {
        "ringnorm, 100 columns × 5,920 rows": first_columns(*make_ringnorm(5920, seed=0), 100),
        "german, 60 columns × 800 rows": first_columns(german[:800], labels[:800], 60),
        "separable, 60 columns × 800 rows": first_columns(*make_ringnorm(800, seed=0), 60),
    }
    tasks: dict[str, Callable[[], Any]] = {}
    for name, problem in problems.items():
        for moves in ("levels", "bits"):
            solver = TabuSearch(n_bits=6, moves=moves, max_evaluations=n_moves)
            tasks[f"{name}, {moves}"] = partial(solver.solve, problem.changed(lam=0.005))
    times = best_seconds(tasks, repeats)
    return [{"problem": name, "per_second": n_moves / s} for name, s in times.items()]


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


def ratios(results: dict[str, Any]) -> dict[str, float]:
    """Return what has a limit."""
    fits, coded = results["fits"], results["coded"]["seconds"]
    found = {
        "exponent": results["frontier"]["exponent"],
        "default fit / AdaBoost": fits["default fit, twonorm"] / fits["AdaBoost, twonorm"],
        "default fit / LightGBM, larger": fits["default fit, larger"] / fits["LightGBM, larger"],
        "20 learners / LightGBM, after coding": coded["20 learners"] / coded["LightGBM"],
        "trusted, microseconds": results["trusted_microseconds"],
        "UCG / AdaBoost": fits["UCG, ringnorm"] / fits["AdaBoost, ringnorm"],
    }
    if "ratio" in results["frontier"]:
        found["frontier / baseline"] = results["frontier"]["ratio"]
    return {name: float(value) for name, value in found.items()}


def render(content: dict[str, Any]) -> str:
    """Return the tables of results as Markdown."""
    results, shapes = content["results"], content["configuration"]["shapes"]
    limited = [
        (name, f"{value:.3g}", f"≤ {LIMITS[name]:.3g}", verdict(value <= LIMITS[name]))
        for name, value in results["ratios"].items()
    ]
    shape = {name: f"{n_rows:,} × {n_features:,}" for name, (n_rows, n_features) in shapes.items()}
    parts = [
        "**Ratios of CPU time on one core, and other numbers that have a limit**\n",
        table(["", "measured", "limit", "met"], limited),
        f"\n**The frontier on twonorm, {FRONTIER_ROWS:,} × 20**\n",
        _frontier_table(results["frontier"]),
        f"\n**Whole fits; boosters make {N_ROUNDS} stumps; larger is {shape['larger']}**\n",
        table(["", "CPU s"], [(name, f"{s:.3f}") for name, s in results["fits"].items()]),
        f"\n**Features coded already, {shape['coded']}**\n",
        _coded_table(results["coded"]),
        "\n**Tabu search, 6 bits, whole solves**\n",
        _tabu_table(results["tabu"]),
        "\n**Peak memory of a fit beyond the caller's X, uint8 codes**\n",
        _memory_table(results["memory"]),
    ]
    return "\n".join(parts)


def _frontier_table(found: dict[str, Any]) -> str:
    rows = [(f"to {size} learners", f"{s:.3f}") for size, s in found["seconds"].items()]
    if "baseline" in found:
        rows.append(
            (f"to {list(found['seconds'])[-1]} learners, baseline", f"{found['baseline']:.3f}")
        )
    steps = ", ".join(f"{step:.2f}" for step in found["exponents"])
    return table(["", "CPU s"], rows) + f"\n\n- Exponents between these sizes: {steps}."


def _coded_table(found: dict[str, Any]) -> str:
    rows = [(name, f"{s:.3f}") for name, s in found["seconds"].items()]
    coding = ", ".join(f"{who} {s:.1f} s" for who, s in found["coding"].items())
    return table(["", "CPU s"], rows) + f"\n\n- Coding the features once: {coding}."


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


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--baseline", type=Path, help="root of another source tree")
    parser.add_argument("--out", type=Path, help="folder of the JSON file")
    arguments = parser.parse_args()
    if arguments.out is None:
        arguments.out = RESULTS / "quick" if arguments.quick else RESULTS
    return arguments


def main() -> None:
    arguments = parse()
    quick, busy = arguments.quick, load_before()
    repeats = 1 if quick else arguments.repeats
    sizes = (3, 6) if quick else (12, 25, 50)
    shapes = {
        "larger": (2_000, 10) if quick else (50_000, 50),
        "coded": (2_000, 50) if quick else (100_000, 1_000),
        "memory": (20_000, 20) if quick else (400_000, 50),
    }
    n_moves = 500 if quick else 20_000
    results: dict[str, Any] = {
        "frontier": measure_frontier(sizes, repeats, arguments.baseline),
        "fits": measure_fits(shapes["larger"], repeats),
        "coded": measure_after_coding(*shapes["coded"], min(repeats, 3)),
        "trusted_microseconds": measure_trusted(1_000 if quick else 20_000),
        "tabu": measure_tabu(n_moves, min(repeats, 3)),
        "memory": measure_memory(*shapes["memory"]),
    }
    results["ratios"] = ratios(results)
    configuration = {
        "repeats": repeats,
        "load_before": busy,
        "shapes": shapes,
        "tabu_moves": n_moves,
        "baseline": arguments.baseline is not None,
    }
    print(render(save("speed", arguments, configuration, results, ("lightgbm",))))


if __name__ == "__main__":
    main()
