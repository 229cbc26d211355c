"""A pass over the dictionary on a cluster that is not here, by simulation from measured constants.

Events of one pass: workers take their blocks one after the other, sums of eight neighbours are
added as soon as they are there, the last one goes to the driver. Workers differ in speed, some are
slow for a while, some are lost: then their blocks are made again from files and done by others.
Constants are those of benchmarks/results/scaling.json, and the simulation is first run for the
clusters that were measured, so that both can be compared. Network and losses are assumptions, named
in the table.
"""

from __future__ import annotations

import heapq
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, parse_arguments, save, table

FAN_IN, FLOAT, BINS = 8, 8, 256  # as in totalqboost.cluster.rows
LEARNERS = 20


@dataclass(frozen=True)
class Constants:
    """Seconds of one core, and assumptions about network and machines.

    Attributes
    ----------
    per_value : float
        For one row and feature of a histogram, margins included.
    per_driver_row : float
        Of the driver, for one row of the data and one pass: refits, swaps that are tried.
    per_task : float
        Of the scheduler, for one task.
    latency, bandwidth : float
        Seconds for a message, and bytes in a second.
    per_value_made : float
        For one value read from files and coded anew.
    spread : float
        Standard deviation of the logarithm of a worker's speed.
    slow_share, slow_factor : float
        How many workers are slow in a pass, and how slow.
    losses_per_hour : float
        Of one worker.
    """

    per_value: float
    per_driver_row: float
    per_task: float = 5e-4
    latency: float = 1e-3
    bandwidth: float = 1.25e9
    per_value_made: float = 3e-8
    spread: float = 0.1
    slow_share: float = 0.02
    slow_factor: float = 3.0
    losses_per_hour: float = 0.002


@dataclass(frozen=True)
class Plan:
    """Data and cluster."""

    n_rows: int
    n_features: int
    n_workers: int
    block_rows: int = 2**19

    @property
    def n_blocks(self) -> int:
        return max(1, math.ceil(self.n_rows / self.block_rows))

    @property
    def sum_bytes(self) -> int:
        """Of the sums of one block, or of all."""
        return self.n_features * BINS * 2 * FLOAT


def simulate(plan: Plan, constants: Constants, rng: np.random.Generator) -> dict[str, float]:
    """Return seconds of one pass, and of its parts."""
    sums, n_lost = _block_times(plan, constants, rng)
    tasks = constants.per_task * (plan.n_blocks + plan.n_blocks / (FAN_IN - 1))
    owner = np.arange(plan.n_blocks) * plan.n_workers // plan.n_blocks
    ready = _reduced(sums, owner, plan, constants)
    driver = constants.per_driver_row * plan.n_rows
    network = ready - float(sums.max()) + constants.latency + plan.sum_bytes / constants.bandwidth
    return {
        "pass": max(float(sums.max()), tasks) + network + driver,
        "workers": float(sums.max()),
        "network": network,
        "scheduler": tasks,
        "driver": driver,
        "lost": n_lost,
    }


def _block_times(
    plan: Plan, constants: Constants, rng: np.random.Generator
) -> tuple[np.ndarray, int]:
    """Return when the sums of each block are there, and how many workers were lost."""
    n = plan.n_workers
    speed = np.exp(constants.spread * rng.standard_normal(n))
    speed[rng.random(n) < constants.slow_share] *= constants.slow_factor
    rows = min(plan.block_rows, plan.n_rows / plan.n_blocks)
    work = rows * plan.n_features * constants.per_value
    again = rows * plan.n_features * constants.per_value_made
    queues = [list(part) for part in np.array_split(np.arange(plan.n_blocks), n)]
    dies = rng.exponential(3600.0 / max(constants.losses_per_hour, 1e-12), n)
    done, alive, orphans = np.zeros(plan.n_blocks), np.ones(n, dtype=bool), list[int]()
    events = [(0.0, worker) for worker in range(n)]  # when a worker is free
    heapq.heapify(events)
    idle: list[int] = []
    n_lost = 0
    while events:
        now, worker = heapq.heappop(events)
        if not alive[worker]:
            continue
        is_own = bool(queues[worker])
        if not is_own and not orphans:
            idle.append(worker)
            continue
        block = queues[worker].pop(0) if is_own else orphans.pop(0)
        end = now + speed[worker] * (work if is_own else work + again)
        if dies[worker] < end and alive.sum() > 1:  # what it had is made again elsewhere
            alive[worker], n_lost = False, n_lost + 1
            orphans += [block, *queues[worker]]
            queues[worker] = []
            for other in idle:
                heapq.heappush(events, (max(float(dies[worker]), now), other))
            idle = []
            continue
        done[block] = end
        heapq.heappush(events, (end, worker))
    return done, n_lost


def _reduced(times: np.ndarray, owner: np.ndarray, plan: Plan, constants: Constants) -> float:
    """Return when the last sum is there; one that changes workers has to travel."""
    travel = constants.latency + plan.sum_bytes / constants.bandwidth
    while len(times) > 1:
        groups = range(0, len(times), FAN_IN)
        later, owners = [], []
        for first in groups:
            own = owner[first : first + FAN_IN]
            moved = int(np.count_nonzero(own != own[0]))
            later.append(float(times[first : first + FAN_IN].max()) + moved * travel)
            owners.append(own[0])
        times, owner = np.array(later), np.array(owners)
    return float(times[0])


# -- constants and tables --------------------------------------------------------------------


def measured(scaling: dict[str, Any], shape: str = "long") -> tuple[Constants, list[Any]]:
    """Return the constants of a run of scaling.py, and what it measured per pass."""
    n_rows, n_features, _ = scaling["configuration"]["shapes"][shape]
    runs = []
    for n_workers, sides in scaling["results"][shape].items():
        mine = sides["ours"]
        passes = max(1, mine["calls"]["slopes"])
        runs.append((int(n_workers), mine["verb_seconds"]["slopes"] / passes, mine, passes))
    n_workers, seconds, mine, passes = runs[0]
    driver = (mine["seconds"] - mine["waiting"]) / passes
    known = Constants(
        per_value=seconds * n_workers / (n_rows * n_features), per_driver_row=driver / n_rows
    )
    plain = [(n, n_rows, n_features, s, passes) for n, s, _, passes in runs]
    return known, plain


def summary(plan: Plan, constants: Constants, n_runs: int, seed: int = 0) -> dict[str, float]:
    """Return means over simulated passes, and the 95th percentile of the whole."""
    rng = np.random.default_rng(seed)
    runs = [simulate(plan, constants, rng) for _ in range(n_runs)]
    found = {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
    found["p95"] = float(np.quantile([run["pass"] for run in runs], 0.95))
    return found


PLANS = {
    "10⁷ × 20, 2 workers": Plan(10**7, 20, 2),
    "10⁸ × 100, 10 workers": Plan(10**8, 100, 10),
    "10⁹ × 1,000, 100 workers": Plan(10**9, 1000, 100),
    "10⁹ × 1,000, 1,000 workers": Plan(10**9, 1000, 1000),
    "10¹¹ × 1,000, 10,000 workers": Plan(10**11, 1000, 10_000, 2**23),
}


def sampling_error(n_rows: int, n_columns: int, chance: float = 1e-3) -> float:
    """Return by how much no edge of a sample is off, but for that chance (Hoeffding)."""
    return math.sqrt(2.0 * math.log(2.0 * n_columns / chance) / n_rows)


def render(content: dict[str, Any], part: str = "") -> str:
    results = content["results"]
    keys = ("pass", "p95", "workers", "network", "scheduler", "driver")
    rows = []
    for name, found in results["plans"].items():
        sizes = f"{found['column_mb']:,.3g}", f"{found['driver_gb']:,.3g}"
        rows.append((name, *(f"{found[k]:.3g}" for k in keys), f"{found['lost']:.2f}", *sizes))
    head = ["data and cluster", "pass, s", "95 %", "workers", "network", "scheduler", "driver"]
    head += ["workers lost", "MB a column", "GB of the driver"]
    checks = [
        f"{check['rows']:,} rows, {check['workers']} worker{'s' if check['workers'] > 1 else ''}: "
        f"{check['simulated']:.2f} s simulated, {check['measured']:.2f} s measured"
        for check in results["checks"]
    ]
    known = results["constants"]
    said = (
        f"One core takes {1e9 * known['per_value']:.1f} ns for a row and feature of a pass, the "
        f"driver {1e9 * known['per_driver_row']:.0f} ns for a row. A pass of the workers: "
        f"{'; '.join(checks)}. Edges of a sample of 10⁷ rows are off by at most "
        f"{sampling_error(10**7, 256_000):.1e} for all 256,000 cuts at once, but once in a "
        "thousand times."
    )
    assumed = (
        "Assumed: 10 Gbit/s and 1 ms between machines, speeds that differ by 10 %, one worker in "
        "fifty three times slower in a pass, a loss in 500 hours of a worker, 0.5 ms of the "
        "scheduler a task."
    )
    return f"{table(head, rows)}\n\n{said}\n\n{assumed}"


def main() -> None:
    arguments = parse_arguments(__doc__, runs=100)
    folder = RESULTS if (RESULTS / "scaling.json").exists() else RESULTS / "quick"
    path = Path(folder) / "scaling.json"
    if path.exists():
        constants, runs = measured(json.loads(path.read_text(encoding="utf-8")))
    else:  # of no machine in particular, to see that it runs
        constants, runs = Constants(5e-9, 5e-8), []
    checks = []
    here = replace(constants, latency=2e-4, spread=0.0, slow_share=0.0, losses_per_hour=0.0)
    for n_workers, n_rows, n_features, seconds, _ in runs:
        found = simulate(Plan(n_rows, n_features, n_workers), here, np.random.default_rng(0))
        own = found["workers"] + found["network"]
        checks.append({"workers": n_workers, "rows": n_rows, "simulated": own, "measured": seconds})
    plans = {}
    for name, plan in PLANS.items():
        n_runs = 3 if arguments.quick else arguments.runs
        plans[name] = summary(plan, constants, n_runs if plan.n_blocks < 5000 else n_runs // 10 + 1)
        plans[name]["column_mb"] = plan.n_rows / 8e6
        plans[name]["driver_gb"] = plan.n_rows * (2 * LEARNERS + 10 * FLOAT) / 1e9
    results = {
        "constants": {"per_value": constants.per_value, "per_driver_row": constants.per_driver_row},
        "checks": checks,
        "plans": plans,
    }
    print(render(save("cluster_simulation", arguments, {"runs": arguments.runs}, results)))


if __name__ == "__main__":
    main()
