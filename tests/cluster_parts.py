"""What tests of the cluster share; its functions are imported by workers too."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

from cluster_data import frames, table

from totalqboost import TotalQBoostClassifier
from totalqboost.experiments.rows import read_rows
from totalqboost.experiments.runner import tasks_of
from totalqboost.experiments.settings import Settings
from totalqboost.learners import Learner

SMALL = Settings(max_rounds=5, n_penalties=3)
TASKS = tasks_of(["thyroid", "flare solar"], [0], "ABCDE")

# A cluster in a process of its own, which can be killed.
PROGRAM = """
import time
from distributed import LocalCluster

if __name__ == "__main__":
    cluster = LocalCluster(
        n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    )
    print(cluster.scheduler_address, flush=True)
    time.sleep(600)
"""


def content(folder: Path) -> list[str]:
    """Return the rows of a run without what differs from run to run."""
    rows = [row.to_dict() for row in read_rows(folder / "rows.jsonl")]
    return sorted(json.dumps({**row, "seconds": 0}, sort_keys=True) for row in rows)


def fitted(is_collection: bool = True) -> list[Learner]:
    """Fit; if a worker runs this with a collection, its only thread must be free for it."""
    X, y = table()
    model = TotalQBoostClassifier(0, max_learners=2, exchange=False)
    return list(model.fit(*(frames(X, y) if is_collection else (X, y))).ensemble_.learners)


def squared(x: int) -> int:
    if x < 0:
        raise ArithmeticError(f"no square of {x}")
    return x * x


def fill_disk(x: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def die(x: int) -> None:
    os._exit(1)
