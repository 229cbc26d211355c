"""A fit on a cluster that is not here, by simulation from measured constants.

A fit codes the rows, searches on 100,000 of them on the driver, then makes passes over all rows, in
which workers move cuts and fit weights. Events of one pass: workers take their blocks one after the
other, sums of eight neighbours are added as soon as they are there, the last goes to the driver.
Workers differ in speed, some are slow for a while, some are lost: then their blocks are made again
from files and done by others. Constants are those of benchmarks/results/scaling.json, and the
simulation is first run for the cluster that was measured, so that both can be compared. Network and
losses are assumptions, named in the table.
"""

from __future__ import annotations

import heapq
import json
import math
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, parse_arguments, save, table

FAN_IN, FLOAT, BINS = 8, 8, 256  # as in totalqboost.cluster.rows
LEARNERS = 20
FIGURE = Path(__file__).parents[1] / "docs" / "images" / "scaling.png"
PASSES = ("turned", "patterns", "model")  # over all rows
DRIVER_ROW = 25  # bytes of the driver for a row: label, weight, numbers of rows


@dataclass(frozen=True)
class Constants:
    """Seconds of one core, and assumptions about network and machines.

    Attributes
    ----------
    per_value : float
        For one row and weak classifier of a pass, margins included.
    per_code : float
        For one value of the data: looked at, summed up, coded.
    search : float
        Of the driver, for one feature, or weak classifier, of the search on some of the rows.
    passes : float
        Over all rows, in one fit.
    answer : float
        Bytes of the largest sum, or of merged rows, that a pass brings.
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
    per_code: float
    search: float
    passes: float
    answer: float = LEARNERS * BINS * FLOAT
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


def simulate(plan: Plan, constants: Constants, rng: np.random.Generator) -> dict[str, float]:
    """Return seconds of one pass, and of its parts."""
    sums, n_lost = _block_times(plan, constants, rng)
    tasks = constants.per_task * (plan.n_blocks + plan.n_blocks / (FAN_IN - 1))
    owner = np.arange(plan.n_blocks) * plan.n_workers // plan.n_blocks
    ready = _reduced(sums, owner, constants)
    network = ready - float(sums.max()) + constants.latency + constants.answer / constants.bandwidth
    return {
        "pass": max(float(sums.max()), tasks) + network,
        "workers": float(sums.max()),
        "network": network,
        "scheduler": tasks,
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
    work = rows * LEARNERS * constants.per_value
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


def _reduced(times: np.ndarray, owner: np.ndarray, constants: Constants) -> float:
    """Return when the last sum is there; one that changes workers has to travel."""
    travel = constants.latency + constants.answer / constants.bandwidth
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


def measured(scaling: dict[str, Any]) -> tuple[Constants, list[dict[str, float]]]:
    """Return the constants of a run of scaling.py, and what passes of all runs took.

    The run of fewest workers gives the constants: what the others take is foretold.
    """
    n_rows, n_features, _ = scaling["configuration"]["shapes"]["long"]
    known, runs = None, []
    for n_workers, sides in scaling["results"]["long"].items():
        mine, n = sides["ours"], int(n_workers)
        passes = sum(mine["calls"].get(verb, 0) for verb in PASSES)
        if mine["calls"].get("column", 0) or not passes:
            continue
        seconds = sum(mine["verb_seconds"][verb] for verb in PASSES) / passes
        runs.append({"workers": n, "rows": n_rows, "measured": seconds, "fit": mine["seconds"]})
        known = known or Constants(
            per_value=seconds * n / (n_rows * LEARNERS),
            per_code=mine["prepared"] * n / (n_rows * n_features),
            search=mine["searched"] / (n_features + LEARNERS),
            passes=passes,
            answer=float(max(mine["largest"].get(verb, 0) for verb in PASSES)),
        )
    return known or ANY, runs


def summary(plan: Plan, constants: Constants, n_runs: int, seed: int = 0) -> dict[str, float]:
    """Return means over simulated passes, and the 95th percentile of the whole."""
    rng = np.random.default_rng(seed)
    runs = [simulate(plan, constants, rng) for _ in range(n_runs)]
    found = {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
    found["p95"] = float(np.quantile([run["pass"] for run in runs], 0.95))
    return found


ANY = Constants(2e-9, 1e-8, 0.2, 80)  # of no machine in particular, to see that it runs
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
    keys = ("coding", "search", "pass", "p95", "workers", "network", "scheduler")
    rows = []
    for name, found in results["plans"].items():
        rest = f"{found['lost']:.2f}", f"{found['fit'] / 60:.3g}", f"{found['driver_gb']:,.3g}"
        rows.append((name, *(f"{found[k]:.3g}" for k in keys), *rest))
    head = ["data and cluster", "coding, s", "search, s", "a pass, s", "95 %", "workers", "network"]
    head += ["scheduler", "workers lost", "fit, minutes", "GB of the driver"]
    checks = [
        f"{check['rows']:,} rows, {check['workers']} worker{'s' if check['workers'] > 1 else ''}: "
        f"{check['simulated']:.2f} s simulated, {check['measured']:.2f} s measured"
        for check in results["checks"]
    ]
    known = results["constants"]
    said = (
        f"One core takes {1e9 * known['per_code']:.0f} ns to look at a value and to code it, and "
        f"{1e9 * known['per_value']:.1f} ns for a row and weak classifier of a pass. A fit makes "
        f"{known['passes']:.0f} passes. A pass: {'; '.join(checks)}. Edges of a sample of 10⁷ rows "
        f"are off by at most {sampling_error(10**7, 256_000):.1e} for all 256,000 cuts at once, of "
        f"10⁵ rows by {sampling_error(10**5, 256_000):.1e}, but once in a thousand times."
    )
    assumed = (
        "Assumed: 10 Gbit/s and 1 ms between machines, speeds that differ by 10 %, one worker in "
        "fifty three times slower in a pass, a loss in 500 hours of a worker, 0.5 ms of the "
        "scheduler a task."
    )
    return f"{table(head, rows)}\n\n{said}\n\n{assumed}"


def planned(plan: Plan, constants: Constants, n_runs: int) -> dict[str, float]:
    """Return what a fit takes."""
    found = summary(plan, constants, n_runs)
    found["coding"] = plan.n_rows * plan.n_features * constants.per_code / plan.n_workers
    found["search"] = constants.search * (plan.n_features + LEARNERS)
    found["fit"] = found["coding"] + found["search"] + constants.passes * found["pass"]
    found["driver_gb"] = plan.n_rows * DRIVER_ROW / 1e9
    return found


CURVES = {"10⁷ × 20": (10**7, 20), "10⁸ × 100": (10**8, 100), "10⁹ × 1,000": (10**9, 1000)}


def curves(constants: Constants, n_runs: int) -> dict[str, list[tuple[int, float]]]:
    """Return minutes of a fit by the number of workers, as long as they all have a block."""
    found: dict[str, list[tuple[int, float]]] = {}
    for name, (n_rows, n_features) in CURVES.items():
        for n_workers in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000):
            plan = Plan(n_rows, n_features, n_workers)
            if n_workers <= plan.n_blocks:
                minutes = planned(plan, constants, n_runs)["fit"] / 60
                found.setdefault(name, []).append((n_workers, minutes))
    return found


def draw(results: dict[str, Any], path: Path) -> None:
    """Draw time against workers, and what was measured."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for name, points in results["curves"].items():
        axes.plot(*zip(*points, strict=True), marker=".", label=f"{name}, simulated")
    if results["measured"]:
        axes.plot(
            *zip(*results["measured"], strict=True), "k*", markersize=11, label="10⁷ × 20, measured"
        )
    axes.set(xscale="log", yscale="log", xlabel="workers, one core each", ylabel="minutes of a fit")
    axes.grid(alpha=0.3, which="both")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    arguments = parse_arguments(__doc__, runs=100)
    folder = RESULTS if (RESULTS / "scaling.json").exists() else RESULTS / "quick"
    path = Path(folder) / "scaling.json"
    constants, checks = ANY, list[dict[str, float]]()
    if path.exists():
        constants, checks = measured(json.loads(path.read_text(encoding="utf-8")))
    if not checks and not arguments.quick:
        sys.exit("there is nothing to begin with: run python benchmarks/scaling.py --shape long")
    here = replace(constants, latency=2e-4, spread=0.0, slow_share=0.0, losses_per_hour=0.0)
    for check in checks:
        plan = Plan(int(check["rows"]), LEARNERS, int(check["workers"]))
        check["simulated"] = simulate(plan, here, np.random.default_rng(0))["pass"]
    n_runs = 3 if arguments.quick else arguments.runs
    plans = {
        name: planned(plan, constants, n_runs if plan.n_blocks < 5000 else n_runs // 10 + 1)
        for name, plan in PLANS.items()
    }
    results = {
        "constants": asdict(constants),
        "checks": checks,
        "plans": plans,
        "curves": curves(constants, max(3, n_runs // 10)),
        "measured": [(check["workers"], check["fit"] / 60) for check in checks],
    }
    if not arguments.quick:
        draw(results, FIGURE)
    print(render(save("cluster_simulation", arguments, {"runs": arguments.runs}, results)))


if __name__ == "__main__":
    main()
