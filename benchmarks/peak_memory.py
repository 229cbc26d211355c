"""Peak memory of one fit beyond the caller's X, in a process of its own; speed.py calls this.

Prints JSON. Kernels are compiled and called on small data first, so that code does not count.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from totalqboost import TotalQBoostClassifier
from totalqboost.dictionaries import Stumps

STATUS = Path("/proc/self/status")
# Settings beyond Stumps(max_bins=256), and the number of rounds T of each case.
CASES: dict[str, dict[str, Any]] = {
    "UCG, 100 rounds": {
        "cardinality_penalty": 0.0,
        "exchange": False,
        "fit_intercept": False,
        "max_rounds": 100,
        "tol": 0.0,
    },
    "default settings, at most 30 rounds": {"max_rounds": 30},
}


def make_data(n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Return float64 examples in C order, without temporary arrays of their size."""
    rng = np.random.default_rng(0)
    X = np.empty((n_rows, n_features))
    rng.standard_normal(out=X)
    signal = X[:, :8].sum(axis=1) + 3.0 * (X[:, 8] > 0.5) * X[:, 9]
    return X, np.where(signal + rng.standard_normal(n_rows) > 0, 1, -1)


class PeakMemory:
    """Growth of the resident set within a ``with`` block, in bytes.

    Linux can reset its own high-water mark; elsewhere the largest size ever is compared with
    the one before, which is right as long as nothing before was larger.
    """

    def __enter__(self) -> PeakMemory:
        gc.collect()
        self._resets = _reset_high_water()
        self._before = _status("VmRSS") if self._resets else _largest_ever()
        self.n_bytes = 0
        return self

    def __exit__(self, *_: object) -> None:
        peak = _status("VmHWM") if self._resets else _largest_ever()
        self.n_bytes = peak - self._before


def _reset_high_water() -> bool:
    try:
        ctypes.CDLL(None).malloc_trim(0)  # what is free already must not be reused unseen
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except (OSError, AttributeError):
        return False
    return STATUS.exists()


def _status(key: str) -> int:
    for line in STATUS.read_text(encoding="ascii").splitlines():
        if line.startswith(key + ":"):
            return 1024 * int(line.split()[1])
    raise KeyError(key)


def _largest_ever() -> int:
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else 1024 * largest


def measure(case: str, n_rows: int, n_features: int) -> dict[str, object]:
    """Return the peak of one fit, per row, beside the limit."""
    model = TotalQBoostClassifier(dictionary=Stumps(max_bins=256), **CASES[case])
    n_small = max(1000, 2 * 256)
    small_X, small_y = make_data(n_small, max(10, min(n_features, 12)))
    model.fit(small_X, small_y)
    X, y = make_data(n_rows, n_features)
    began = time.perf_counter()
    with PeakMemory() as peak:
        model.fit(X, y)
    seconds = time.perf_counter() - began
    n_rounds = model.n_iter_
    return {
        "case": case,
        "rows": n_rows,
        "features": n_features,
        "rounds": n_rounds,
        "learners": model.n_learners_,
        "bytes_per_row": peak.n_bytes / n_rows,
        "limit_per_row": n_features + n_rounds + 64,
        "seconds": seconds,
        "threads": threading.active_count(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Peak memory of one fit, as JSON.")
    parser.add_argument("case", choices=list(CASES))
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--features", type=int, default=50)
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.case, arguments.rows, arguments.features)))


if __name__ == "__main__":
    main()
