"""Are the rows of a cluster those of one machine, also if a worker is killed on the way?

The paper's strategies A to E on its twelve data sets, once in processes here and once on Dask
workers, of which --kills are ended by SIGKILL while they work. Rows are compared to the last
digit, but for their times.

    python benchmarks/cluster_rows.py                              # twelve data sets, two splits
    python benchmarks/cluster_rows.py --max-rounds 8 --penalties 3 # the same, smaller
    python benchmarks/cluster_rows.py --quick                      # two tiny data sets
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from common import load_before, parse_arguments, save, say

from totalqboost import datasets
from totalqboost.cluster.connect import connected, dashboard_link
from totalqboost.experiments.rows import Row
from totalqboost.experiments.runner import Task, run, tasks_of
from totalqboost.experiments.settings import Settings

STRATEGIES = "ABCDE"


def content(rows: list[Row]) -> Counter[str]:
    """Return rows without their times, and how often each is there."""
    return Counter(json.dumps({**row.to_dict(), "seconds": 0}, sort_keys=True) for row in rows)


def main() -> None:
    default = Settings()
    arguments = parse_arguments(
        __doc__,
        splits=2,
        workers=2,
        kills=1,
        max_rounds=default.max_rounds,
        penalties=default.n_penalties,
    )
    names = list(datasets.names())
    if arguments.quick:
        names, arguments.max_rounds, arguments.penalties = ["thyroid", "flare solar"], 5, 3
    settings = Settings(max_rounds=arguments.max_rounds, n_penalties=arguments.penalties)
    tasks = tasks_of(names, range(arguments.splits), STRATEGIES)
    load = load_before()
    with tempfile.TemporaryDirectory() as scratch:
        began = time.perf_counter()
        here = run(Path(scratch) / "here", tasks, settings, arguments.workers)
        seconds = {"processes": time.perf_counter() - began}
        there, seconds["cluster"] = on_cluster(Path(scratch) / "there", tasks, settings, arguments)
    lost = sum((content(here) - content(there)).values())
    other = sum((content(there) - content(here)).values())
    configuration = {
        name: getattr(arguments, name)
        for name in ("splits", "workers", "kills", "max_rounds", "penalties")
    }
    found = {"rows": len(here), "missing": lost, "others": other, "seconds": seconds}
    configuration = {**configuration, "datasets": names, "load_before": load}
    print(render(save("cluster_rows", arguments, configuration, found, ("dask", "distributed"))))
    sys.exit(lost + other > 0)


def render(saved: dict[str, Any], part: str = "") -> str:
    how, found = saved["configuration"], saved["results"]
    seconds = found["seconds"]
    return (
        f"{len(how['datasets'])} data sets × {how['splits']} splits, A to E with at most "
        f"{how['max_rounds']} rounds and {how['penalties']} penalties: {found['rows']:,} rows. On "
        f"{how['workers']} workers, of which {how['kills']} was killed, {found['missing']} of them "
        f"are missing and {found['others']} differ. {seconds['processes']:.0f} s in "
        f"{how['workers']} processes, {seconds['cluster']:.0f} s on the cluster."
    )


def on_cluster(
    folder: Path, tasks: list[Task], settings: Settings, arguments: Any
) -> tuple[list[Row], float]:
    """Return the rows of a cluster, and the seconds that they took."""
    with connected(workers=arguments.workers) as client:
        say(f"watch the cluster at {dashboard_link(client)}")
        victims = list(client.run(os.getpid).values())[: arguments.kills]

        def progress(task: Task, n_done: int, n_tasks: int) -> None:
            if victims and 4 * n_done >= n_tasks:
                os.kill(victims.pop(), signal.SIGKILL)
                say(f"{n_done} of {n_tasks}: a worker was killed")

        began = time.perf_counter()
        rows = run(folder, tasks, settings, on_task=progress, client=client)
        return rows, time.perf_counter() - began


if __name__ == "__main__":
    main()
