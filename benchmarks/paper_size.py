"""The paper's application: 100,000 examples of 10,000 features, 20 learners beside LightGBM.

Made-up rare events (one row in fifty) of float32 features. CPU time of one core, both sides in one
run: coding the features (LightGBM: constructing its data set), then 20 learners of ours by the
search with exchange and 100 stumps of LightGBM's; and the memory that our fit takes at its peak
beyond the caller's table.
"""

from __future__ import annotations

import os
import time
from typing import Any

# Before the first import of NumPy: times are those of one core.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from common import Coded, load_before, parse_arguments, save, say, table, verdict
from peak_memory import PeakMemory
from sklearn.metrics import roc_auc_score

from totalqboost import TotalQBoostClassifier
from totalqboost.datasets import make_ringnorm
from totalqboost.dictionaries import Stumps

LEARNERS, STUMPS, MAX_BINS = 20, 100, 255
N_SIGNALS = 40  # features that matter
RARE = 0.02
CHUNK = 5_000
MOST_BYTES = 2.5e9
LIMITS = {"with coding": 1.0, "without": 2.0}


def rare_events(n_rows: int, n_features: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return float32 noise, made in chunks; the rare class has shifted features."""
    rng = np.random.default_rng(seed)
    X = np.empty((n_rows, n_features), dtype=np.float32)
    for start in range(0, n_rows, CHUNK):
        rng.standard_normal(dtype=np.float32, out=X[start : start + CHUNK])
    is_rare = rng.random(n_rows) < RARE
    shift = np.linspace(1.0, 0.2, N_SIGNALS, dtype=np.float32)
    X[is_rare, :N_SIGNALS] += shift
    return X, is_rare.astype(np.int8)


def seconds_of(task: Any) -> tuple[float, Any]:
    began = time.process_time()
    made = task()
    return time.process_time() - began, made


def ours(X: np.ndarray, y: np.ndarray) -> tuple[dict[str, float], TotalQBoostClassifier]:
    """Return seconds, bytes at the peak, and the fitted classifier."""

    def code() -> Any:
        return Stumps(max_bins=MAX_BINS).prepare(X, np.where(y > 0, 1, -1))

    def fit(oracle: Any) -> TotalQBoostClassifier:
        settings: dict[str, Any] = {"max_learners": LEARNERS, "dictionary": Coded(oracle)}
        return TotalQBoostClassifier(0, **settings).fit(X, y)

    with PeakMemory() as memory:
        coding, oracle = seconds_of(code)
        say(f"ours: coded in {coding:.1f} s")
        fitting, model = seconds_of(lambda: fit(oracle))
    say(f"ours: fitted in {fitting:.1f} s, {memory.n_bytes / 1e9:.2f} GB")
    return {"coding": coding, "fitting": fitting, "bytes": memory.n_bytes}, model


def lightgbms(X: np.ndarray, y: np.ndarray) -> tuple[dict[str, float], Any]:
    import lightgbm

    settings: dict[str, Any] = {
        "num_leaves": 2,
        "max_bin": MAX_BINS,
        "num_threads": 1,
        "verbose": -1,
    }
    settings |= {"objective": "binary"}

    def construct() -> Any:
        return lightgbm.Dataset(X, y, params=settings).construct()

    with PeakMemory() as memory:
        coding, data = seconds_of(construct)
        say(f"LightGBM: coded in {coding:.1f} s")
        fitting, booster = seconds_of(lambda: lightgbm.train(settings, data, STUMPS))
    say(f"LightGBM: fitted in {fitting:.1f} s, {memory.n_bytes / 1e9:.2f} GB")
    return {"coding": coding, "fitting": fitting, "bytes": memory.n_bytes}, booster


def measure(n_rows: int, n_features: int) -> dict[str, Any]:
    X, y = rare_events(n_rows, n_features, 0)
    fresh, truth = rare_events(n_rows // 5, n_features, 1)
    mine, model = ours(X, y)
    theirs, booster = lightgbms(X, y)
    mine["auc"] = float(roc_auc_score(truth, model.decision_function(fresh)))
    theirs["auc"] = float(roc_auc_score(truth, booster.predict(fresh)))
    mine["learners"], theirs["learners"] = model.n_learners_, STUMPS
    whole = [side["coding"] + side["fitting"] for side in (mine, theirs)]
    ratios = {"with coding": whole[0] / whole[1], "without": mine["fitting"] / theirs["fitting"]}
    return {"ours": mine, "LightGBM": theirs, "ratios": ratios}


def render(content: dict[str, Any]) -> str:
    results, shape = content["results"], content["configuration"]["shape"]
    rows = [
        (
            name,
            f"{side['learners']:.0f}",
            f"{side['coding']:.1f}",
            f"{side['fitting']:.1f}",
            f"{side['bytes'] / 1e9:.2f}",
            f"{side['auc']:.4f}",
        )
        for name in ("ours", "LightGBM")
        for side in [results[name]]
    ]
    head = ["", "stumps", "coding, s", "fitting, s", "GB at the peak", "AUC on new rows"]
    ratios = [
        f"time {name} {ratio:.2f} (at most {LIMITS[name]:g}: {verdict(ratio <= LIMITS[name])})"
        for name, ratio in results["ratios"].items()
    ]
    peak = results["ours"]["bytes"]
    said = f"{'; '.join(ratios)}; memory below 2.5 GB: {verdict(peak < MOST_BYTES)}."
    return f"{shape[0]:,} × {shape[1]:,}\n\n{table(head, rows)}\n\nOurs over LightGBM's: {said}"


def main() -> None:
    arguments = parse_arguments(__doc__, rows=100_000, features=10_000)
    shape = (2_000, 50) if arguments.quick else (arguments.rows, arguments.features)
    load = load_before()
    warm = make_ringnorm(200, seed=0)  # compile
    TotalQBoostClassifier(0, max_learners=3, dictionary=Stumps(max_bins=MAX_BINS)).fit(*warm)
    configuration = {"shape": shape, "load_before": load, "rare": RARE, "signals": N_SIGNALS}
    results = measure(*shape)
    print(render(save("paper_size", arguments, configuration, results, ("lightgbm",))))


if __name__ == "__main__":
    main()
