"""From ``import totalqboost`` to a fitted model: new installation, later ones, and no cache.

Each measurement is a process of its own, on one core. A fresh folder in NUMBA_CACHE_DIR stands for
a new installation; the same folder again for the following runs. For "no cache" the package is
copied to a place where neither the package's folder nor the user's can take a cache.

Seconds are those of the processor, which others on the machine disturb less than those of the
clock; both are kept. What they do disturb, they disturb in the import of scikit-learn too, which
is measured in turns: the ratio to it is the number to compare between machines.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import load_before, parse_arguments, save, say, summary, table, verdict

import totalqboost

PEER = "import sklearn.base, sklearn.utils.multiclass, sklearn.utils.validation"
TIMED = """
import time
began = time.process_time(), time.perf_counter()
{statement}
print(time.process_time() - began[0], time.perf_counter() - began[1])
"""
FIT = """
from totalqboost import TotalQBoostClassifier
from totalqboost.datasets import make_twonorm
X, y = make_twonorm(500, seed=0)
TotalQBoostClassifier({settings}).fit(X, y).predict(X)
"""
FITS = {"default": "", "tabu search": "solver='tabu'"}
NOTICE = "compiling kernels"
N_COLD = 2  # new installations: each compiles everything
COLD_LIMIT, WARM_LIMIT = 6.0, 1.5  # seconds


class Run(NamedTuple):
    """What one process took, of the processor and by the clock, and said on standard error."""

    cpu: float
    clock: float
    said: str


def run(statement: str, environment: dict[str, str] | None = None) -> Run:
    """Time statements in a process of their own."""
    done = subprocess.run(
        [sys.executable, "-c", TIMED.format(statement=statement)],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **(environment or {})},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the process failed:\n{done.stderr}")
    cpu, clock = done.stdout.split()[-2:]
    return Run(float(cpu), float(clock), done.stderr)


def beside_the_peer(statement: str, environment: dict[str, str], repeats: int) -> dict[str, Any]:
    """Return what statements take, by themselves and over the import of scikit-learn."""
    pairs = [(run(PEER), run(statement, environment)) for _ in range(repeats)]
    return {
        "cpu": summary([own.cpu for _, own in pairs]),
        "clock": summary([own.clock for _, own in pairs]),
        "ratio": float(np.median([own.cpu / peer.cpu for peer, own in pairs])),
        "notices": max(own.said.count(NOTICE) for _, own in pairs),
    }


def measure_imports(repeats: int) -> dict[str, Any]:
    """Return seconds of importing scikit-learn alone, and the package (which imports it)."""
    beside_the_peer("import totalqboost", {}, 1)  # warms the file system's cache
    return {
        "scikit-learn": beside_the_peer(PEER, {}, repeats),
        "totalqboost": beside_the_peer("import totalqboost", {}, repeats),
    }


def measure_fits(settings: str, repeats: int) -> dict[str, Any]:
    """Return seconds from import to prediction with cold kernel caches and then a warm one."""
    statement = FIT.format(settings=settings)
    cold: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(min(N_COLD, repeats)):
            environment = {"NUMBA_CACHE_DIR": f"{folder}/{turn}"}
            cold.append(beside_the_peer(statement, environment, 1))
        warm = beside_the_peer(statement, environment, repeats)
    return {"cold": min(cold, key=lambda one: one["cpu"]["best"]), "warm": warm}


def measure_without_cache() -> dict[str, Any]:
    """Return seconds where no folder can hold the cache; regular files stand in their way."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        package = folder / "site" / "totalqboost"
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(totalqboost.__file__).parent, package, ignore=ignore)
        for room in [package, *(path for path in package.rglob("*") if path.is_dir())]:
            (room / "__pycache__").write_text("not a folder", encoding="ascii")
        block = folder / "block"
        block.write_text("not a folder", encoding="ascii")
        inside = str(block / "below")
        environment = {
            "PYTHONPATH": str(package.parent),
            "PYTHONDONTWRITEBYTECODE": "1",
            "NUMBA_CACHE_DIR": inside,
            "HOME": inside,
            "XDG_CACHE_HOME": inside,
        }
        found = beside_the_peer(FIT.format(settings=""), environment, 1)
        left = [path for path in folder.rglob("*.nb?")]
    return {**found, "cache_files": len(left)}


def render(content: dict[str, Any]) -> str:
    """Return the tables of results as Markdown."""
    imports, fits = content["results"]["imports"], content["results"]["fits"]
    bare = content["results"]["no_cache"]
    rows = [
        _row("import of scikit-learn's base alone", imports["scikit-learn"]),
        _row("import totalqboost", imports["totalqboost"]),
    ]
    for name, fit in fits.items():
        rows.append(_row(f"import to predictions, {name}: cold", fit["cold"], COLD_LIMIT))
        rows.append(_row(f"the same, warm: {name}", fit["warm"], WARM_LIMIT))
    rows.append(_row("import to predictions, no cache possible", bare, COLD_LIMIT))
    notices = [(fit["cold"]["notices"], fit["warm"]["notices"]) for fit in fits.values()]
    is_said = all(pair == (1, 0) for pair in notices)
    return (
        table(["500 rows", "s", "× import of scikit-learn", "aim, s", "met"], rows)
        + f"\n\n- One line says that kernels are compiled, when cold only: {verdict(is_said)}."
        + f"\n- Without any place for a cache the fit works: {verdict(bare['cache_files'] == 0)}."
    )


def _row(name: str, found: dict[str, Any], limit: float | None = None) -> tuple[str, ...]:
    seconds, ratio = f"{found['cpu']['best']:.2f}", f"{found['ratio']:.1f}"
    if limit is None:
        return name, seconds, ratio, "", ""
    return name, seconds, ratio, f"< {limit:g}", verdict(found["cpu"]["best"] < limit)


def main() -> None:
    arguments = parse_arguments(__doc__, repeats=7)
    load = load_before()
    repeats = 1 if arguments.quick else arguments.repeats
    results: dict[str, Any] = {"imports": measure_imports(repeats)}
    say(f"import: {results['imports']['totalqboost']['ratio']:.2f} of scikit-learn's")
    results["fits"] = {}
    # Kernels compile anew for each: one is enough to see that it runs.
    for name, settings in list(FITS.items())[: 1 if arguments.quick else None]:
        results["fits"][name] = fit = measure_fits(settings, repeats)
        say(f"{name}: cold {fit['cold']['ratio']:.1f}, warm {fit['warm']['ratio']:.2f}")
    results["no_cache"] = measure_without_cache()
    configuration = {"repeats": repeats, "rows": 500, "load_before": load}
    print(render(save("startup", arguments, configuration, results)))


if __name__ == "__main__":
    main()
