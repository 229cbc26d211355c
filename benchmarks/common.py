"""What all benchmarks share: arguments, splits, timing, machine, tables and saved results."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from totalqboost.boosting import BoostingResult, Engine, Rounds, Terms, boost
from totalqboost.cluster.connect import connected, dashboard_link
from totalqboost.cluster.tasks import completed
from totalqboost.dictionaries import Stumps
from totalqboost.dictionaries.base import Oracle
from totalqboost.files import write_text
from totalqboost.losses import Exponential
from totalqboost.master import MasterProblem, normalised
from totalqboost.solvers import LocalSearch

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("totalqboost", "numpy", "scipy", "scikit-learn", "numba")


def parse_arguments(description: str | None, **numbers: int) -> argparse.Namespace:
    """Return the command line: --quick, --out, and one integer option per keyword."""
    first = (description or "").splitlines()[0]
    parser = argparse.ArgumentParser(description=first)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small sizes, to see that it runs; results go to benchmarks/results/quick",
    )
    parser.add_argument("--out", type=Path, help="folder of the JSON file")
    for name, default in numbers.items():
        option = "--" + name.replace("_", "-")
        parser.add_argument(option, type=int, default=default, help=f"default {default}")
    arguments = parser.parse_args()
    if arguments.out is None:
        arguments.out = RESULTS / "quick" if arguments.quick else RESULTS
    return arguments


def say(message: str) -> None:
    """Report progress, apart from the results."""
    print(message, file=sys.stderr, flush=True)


# -- many tasks --------------------------------------------------------------------------


def add_workers(parser: argparse.ArgumentParser, jobs: int = -1) -> None:
    """Add what says who runs many tasks: --jobs, --workers or --scheduler."""
    said = f"processes; -1 is one per core; default {jobs}"
    parser.add_argument("--jobs", type=int, default=jobs, help=said)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--workers", type=int, help="run on this many Dask workers, started here")
    where.add_argument(
        "--scheduler", help="run on the workers of this Dask scheduler, which need this folder too"
    )


@contextmanager
def cluster_of(arguments: argparse.Namespace) -> Iterator[Any]:
    """Give the client of the cluster that the command line asks for, None without one."""
    if arguments.scheduler is None and arguments.workers is None:
        yield None
        return
    with connected(arguments.scheduler, arguments.workers) as client:
        say(f"cluster of {len(client.nthreads())} workers; watch it at {dashboard_link(client)}")
        yield client


def as_done(
    function: Callable[[Any], Any], tasks: Iterable[Any], arguments: argparse.Namespace
) -> Iterator[Any]:
    """Yield the results of many tasks as they come, from processes or from a cluster."""
    with cluster_of(arguments) as client:
        if client is not None:
            yield from completed(client, function, tasks)
            return
        calls = (delayed(function)(task) for task in tasks)
        yield from Parallel(n_jobs=arguments.jobs, return_as="generator_unordered")(calls)


# -- machine and results ------------------------------------------------------------------


class Coded:
    """A dictionary whose features are coded already."""

    def __init__(self, oracle: Oracle):
        self.oracle = oracle

    def prepare(
        self, X: Any, y: Any, n_jobs: int | None = None, features: Any = None, weight: Any = None
    ) -> Oracle:
        return self.oracle


def machine() -> dict[str, Any]:
    """Return what a reader must know to compare times."""
    return {
        "cpu": _cpu(),
        "cores": n_cores(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def n_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def load_before() -> float | None:
    """Return the load average, and warn if others use the machine: times would not be ours."""
    if not hasattr(os, "getloadavg"):
        return None
    load = round(os.getloadavg()[0], 1)
    if load > 0.5:
        say(f"warning: load average {load}; the machine is not quiet, times will be too long")
    return load


def _cpu() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or "unknown"
    names = [line.split(":", 1)[1].strip() for line in text.splitlines() if "model name" in line]
    return names[0] if names else platform.processor() or "unknown"


def versions(names: Sequence[str] = ()) -> dict[str, str]:
    """Return the versions of our packages and of the named ones."""
    found = {}
    for name in (*PACKAGES, *names):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def save(
    name: str,
    arguments: argparse.Namespace,
    configuration: dict[str, Any],
    results: dict[str, Any],
    packages: Sequence[str] = (),
) -> dict[str, Any]:
    """Write NAME.json, all or nothing and without a date, and return its content."""
    content = {
        "command": f"python benchmarks/{name}.py" + (" --quick" if arguments.quick else ""),
        "configuration": configuration,
        "machine": machine(),
        "versions": versions(packages),
        "results": results,
    }
    write_results(arguments.out / f"{name}.json", content)
    return content


def write_results(path: Path, content: dict[str, Any]) -> None:
    """Write what ``save`` has put together, or what is counted anew from kept measurements."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(_rounded(content), indent=1, ensure_ascii=False) + "\n")
    say(f"written: {path}")


def _rounded(value: Any) -> Any:
    """Return plain values with six significant digits: what is beyond is noise in a diff."""
    if isinstance(value, dict):
        return {str(key): _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_rounded(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return float(f"{value:.6g}") if isinstance(value, float) else value


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a Markdown table; the first column is text, the others align right."""
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(3, *(len(row[c]) for row in cells)) for c in range(len(header))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = []
    for row in (cells[0], rule, *cells[1:]):
        padded = [row[0].ljust(widths[0])]
        padded += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("| " + " | ".join(padded) + " |")
    return "\n".join(lines)


def verdict(is_met: bool) -> str:
    """Return how a target is reported."""
    return "yes" if is_met else "**no**"


# -- data and time ------------------------------------------------------------------------


def split(n_rows: int, seed: int, share: float = 0.2) -> np.ndarray:
    """Return a mask: each row goes to validation with probability ``share``."""
    return np.random.default_rng(1000 + seed).random(n_rows) < share


def error_percent(predicted: np.ndarray, y: np.ndarray) -> float:
    """Return the share of wrong labels, in percent."""
    return 100.0 * float(np.mean(np.asarray(predicted) != np.asarray(y)))


def algorithm_1(oracle: Oracle, tol: float = 5e-4, **settings: Any) -> BoostingResult:
    """Run Algorithm 1 with the default solver and the exponential loss, nothing after it.

    ``settings`` are fields of Rounds and of Terms; without a price or a limit this is UCG.
    """
    rounds = {key: settings.pop(key) for key in ("max_rounds", "plain_rounds") if key in settings}
    terms = Terms(Exponential(), normalised(None, len(oracle.y)), **settings)
    return boost(Engine(oracle, terms, LocalSearch(), tol), Rounds(**rounds))


def first_columns(X: np.ndarray, y: np.ndarray, n: int) -> MasterProblem:
    """Return the problem over the first n columns of UCG, which may end with fewer."""
    oracle = Stumps().prepare(X, np.asarray(y, dtype=np.int8))
    problem = algorithm_1(oracle, tol=1e-9, max_rounds=n).problem
    assert problem is not None
    return problem


def interleave(
    tasks: Mapping[str, Callable[[], Any]],
    repeats: int,
    warm_up: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Return the seconds of each task, run in turns so that all meet the same disturbances."""
    for _ in range(warm_up):
        for task in tasks.values():
            task()
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            began = clock()
            task()
            seconds[name].append(clock() - began)
    return seconds


def repeated(task: Callable[[], Any], count: int) -> Callable[[], None]:
    """Return a task that runs another ``count`` times, for those too short to time once."""

    def run() -> None:
        for _ in range(count):
            task()

    return run


def summary(seconds: Sequence[float]) -> dict[str, float]:
    """Return best and median: the best is the machine undisturbed, the median what one meets."""
    return {"best": float(np.min(seconds)), "median": float(np.median(seconds))}
