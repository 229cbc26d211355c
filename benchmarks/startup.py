"""From ``import totalqboost`` to a fitted model: new installation, later ones, and no cache.

Each measurement is a process of its own. A fresh folder in NUMBA_CACHE_DIR stands for a new
installation; the same folder again for the following runs. For "no cache" the package is
copied to a place where neither the package's folder nor the user's can take a cache.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common import load_before, parse_arguments, save, say, summary, table, verdict

import totalqboost

PEER = "import sklearn.base, sklearn.utils.multiclass, sklearn.utils.validation"
IMPORT = """
import time
began = time.perf_counter()
{statement}
print(time.perf_counter() - began)
"""
FIT = """
import time
began = time.perf_counter()
import numpy as np
from totalqboost import TotalQBoostClassifier
from totalqboost.datasets import make_twonorm
X, y = make_twonorm(500, seed=0)
TotalQBoostClassifier({settings}).fit(X, y).predict(X)
print(time.perf_counter() - began)
"""
FITS = {"default": "", "tabu search": "solver='tabu'"}
NOTICE = "compiling kernels"
IMPORT_LIMIT, COLD_LIMIT, WARM_LIMIT = 1.0, 20.0, 2.0  # seconds


def run(code: str, environment: dict[str, str] | None = None) -> tuple[float, str]:
    """Return the seconds that a process prints, and what it says on standard error."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the process failed:\n{done.stderr}")
    return float(done.stdout.split()[-1]), done.stderr


def measure_imports(repeats: int) -> dict[str, Any]:
    """Return seconds of importing scikit-learn alone, and the package (which imports it)."""
    statements = {"scikit-learn": PEER, "totalqboost": "import totalqboost"}
    seconds: dict[str, list[float]] = {name: [] for name in statements}
    for turn in range(repeats + 1):
        for name, statement in statements.items():
            elapsed, _ = run(IMPORT.format(statement=statement))
            if turn > 0:  # the first turn warms the file system's cache
                seconds[name].append(elapsed)
    found: dict[str, Any] = {name: summary(times) for name, times in seconds.items()}
    found["difference"] = float(
        np.median(seconds["totalqboost"]) - np.median(seconds["scikit-learn"])
    )
    return found


def measure_fits(settings: str, repeats: int) -> dict[str, Any]:
    """Return seconds from import to prediction with a cold and then a warm kernel cache."""
    code = FIT.format(settings=settings)
    with tempfile.TemporaryDirectory() as folder:
        environment = {"NUMBA_CACHE_DIR": folder}
        cold, said = run(code, environment)
        answers = [run(code, environment) for _ in range(repeats)]
    return {
        "cold": cold,
        "cold_notices": said.count(NOTICE),
        "warm": summary([seconds for seconds, _ in answers]),
        "warm_notices": max(text.count(NOTICE) for _, text in answers),
    }


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
        seconds, said = run(FIT.format(settings=""), environment)
        left = [path for path in folder.rglob("*.nb?")]
    return {"seconds": seconds, "notices": said.count(NOTICE), "cache_files": len(left)}


def render(content: dict[str, Any]) -> str:
    """Return the tables of results as Markdown."""
    imports, fits = content["results"]["imports"], content["results"]["fits"]
    bare = content["results"]["no_cache"]
    rows = [
        ("import of scikit-learn's base alone", f"{imports['scikit-learn']['median']:.2f}", "", ""),
        ("import totalqboost", f"{imports['totalqboost']['median']:.2f}", "", ""),
        _row("import beyond scikit-learn's", imports["difference"], IMPORT_LIMIT),
    ]
    for name, fit in fits.items():
        rows.append(_row(f"import to predictions, {name}: cold", fit["cold"], COLD_LIMIT))
        rows.append(_row(f"the same, warm: {name}", fit["warm"]["median"], WARM_LIMIT))
    rows.append(_row("import to predictions, no cache possible", bare["seconds"], COLD_LIMIT))
    notices = [(fit["cold_notices"], fit["warm_notices"]) for fit in fits.values()]
    is_said = all(pair == (1, 0) for pair in notices)
    return (
        table(["500 rows", "s", "limit", "met"], rows)
        + f"\n\n- One line says that kernels are compiled, when cold only: {verdict(is_said)}."
        + f"\n- Without any place for a cache the fit works: {verdict(bare['cache_files'] == 0)}."
    )


def _row(name: str, seconds: float, limit: float) -> tuple[str, str, str, str]:
    return name, f"{seconds:.2f}", f"< {limit:g}", verdict(seconds < limit)


def main() -> None:
    arguments = parse_arguments(__doc__, repeats=7)
    load = load_before()
    repeats = 1 if arguments.quick else arguments.repeats
    results: dict[str, Any] = {"imports": measure_imports(repeats)}
    say(f"import beyond scikit-learn's: {results['imports']['difference']:.2f} s")
    results["fits"] = {}
    # Kernels compile anew for each: one is enough to see that it runs.
    for name, settings in list(FITS.items())[: 1 if arguments.quick else None]:
        results["fits"][name] = fit = measure_fits(settings, repeats)
        say(f"{name}: cold {fit['cold']:.1f} s, warm {fit['warm']['median']:.2f} s")
    results["no_cache"] = measure_without_cache()
    configuration = {"repeats": repeats, "rows": 500, "load_before": load}
    print(render(save("startup", arguments, configuration, results)))


if __name__ == "__main__":
    main()
