"""Known ways to break the code; the tests named beside each of them must notice.

A mutant is one substitution of text in a copy of src. ``killed`` means that one of its tests
fails; the same tests must pass on the copy without the mutant. tests/test_mutants.py makes sure
that the text to replace occurs exactly once, so that the list keeps up with the code.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "src/totalqboost"
PASSED, FAILED = 0, 1  # exit codes of pytest; all others are errors


@dataclass(frozen=True)
class Mutant:
    """Replace ``old`` by ``new`` in a file of the package; ``tests`` must then fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def mutate(self, text: str) -> str:
        """Return the text with the mutant in it."""
        count = text.count(self.old)
        if count != 1:
            raise ValueError(
                f"mutant '{self.name}' must find its text once in {self.file}, "
                f"found it {count} times: bring benchmarks/mutants.py up to date"
            )
        return text.replace(self.old, self.new)


MUTANTS = (
    Mutant(
        "a solver's own objective is trusted",
        "solving.py",
        "    return _rescored(session, problem, session.solve(problem, start, rng))",
        "    return session.solve(problem, start, rng)",
        ("tests/test_master.py", "tests/test_solvers.py", "tests/boosting"),
    ),
    Mutant(
        "dual bound without slack for rounding",
        "master.py",
        "return 4.0 * self.n_rows * float(np.finfo(float).eps)",
        "return 0.0 * self.n_rows * float(np.finfo(float).eps)",
        ("tests/test_master.py",),
    ),
    Mutant(
        "ranges of margins from weights too narrow",
        "solvers/exact/bounding.py",
        "radius = 0.5 * float((node.hi - lo).sum())",
        "radius = 0.4 * float((node.hi - lo).sum())",
        ("tests/exact/test_parts.py",),
    ),
    Mutant(
        "tabu tenure off by one for a user's own loss",
        "solvers/walk.py",
        "tabu_until[variables[e]] = t + 1 + (1 if is_adjusted else tenures[t])",
        "tabu_until[variables[e]] = t + (1 if is_adjusted else tenures[t])",
        ("tests/kernels/test_tabu_walk.py", "tests/test_solvers.py"),
    ),
    Mutant(
        "branch and price prunes what could win",
        "branch_price/leaves.py",
        "return self.best.objective - SLACK",
        "return self.best.objective - 0.03",
        ("tests/test_branch_price.py",),
    ),
    Mutant(
        "exact solver may be worse than its start",
        "solvers/exact/search.py",
        "found.append(self.given)  # equal up to rounding",
        "pass  # equal up to rounding",
        ("tests/exact",),
    ),
    Mutant(
        "export: thresholds are rounded to the nearest single-precision number",
        "export/model.py",
        "    if float(near) > threshold:",
        "    if float(near) > np.inf:",
        ("tests/export/test_model.py", "tests/export/test_onnx.py"),
    ),
    Mutant(
        "export: NaN is a large number in DuckDB",
        "export/sql.py",
        'if self.dialect == "duckdb":',
        'if self.dialect == "postgres":',
        ("tests/export/test_sql.py",),
    ),
    Mutant(
        "export: quotes in SQL text end it",
        "export/sql.py",
        """label.replace("'", "''")""",
        "label",
        ("tests/export/test_sql.py",),
    ),
    Mutant(
        "export: missing values go below every threshold in Python",
        "export/python.py",
        'f"not {x} <= {t!r}" if above else',
        'f"{x} > {t!r}" if above else',
        ("tests/export/test_python.py",),
    ),
    Mutant(
        "export: a scorecard forgets what rounding took",
        "export/scorecard.py",
        "none = Fraction(base[0]) + lost",
        "none = Fraction(base[0])",
        ("tests/export/test_scorecard.py",),
    ),
)


@contextmanager
def copy_of_src() -> Iterator[Path]:
    """Yield a folder with a copy of src; dates are kept, so compiled kernels stay valid."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src", Path(folder) / "src")
        yield Path(folder)


def run_tests(folder: Path, tests: Sequence[str]) -> tuple[int, str]:
    """Return pytest's exit code and last line for tests of the package in a folder."""
    command = [sys.executable, "-m", "pytest", "--quiet", "-x", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *tests],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(folder / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode not in (PASSED, FAILED):
        raise RuntimeError(f"pytest ended with {done.returncode}:\n{done.stdout[-3000:]}")
    return done.returncode, done.stdout.rstrip().splitlines()[-1]


def is_killed(mutant: Mutant) -> bool:
    """Tell whether the tests of a mutant fail with it."""
    with copy_of_src() as folder:
        path = folder / PACKAGE / mutant.file
        path.write_text(mutant.mutate(path.read_text(encoding="utf-8")), encoding="utf-8")
        return run_tests(folder, mutant.tests)[0] == FAILED


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", help="part of the name of the mutants to run")
    parser.add_argument("--quick", action="store_true", help="only see that all can be applied")
    arguments = parser.parse_args()
    chosen = [m for m in MUTANTS if arguments.only is None or arguments.only in m.name]
    for mutant in chosen:
        mutant.mutate((ROOT / PACKAGE / mutant.file).read_text(encoding="utf-8"))
    if arguments.quick:
        print(f"{len(chosen)} mutants can be applied")
        return
    tests = list(dict.fromkeys(test for mutant in chosen for test in mutant.tests))
    with copy_of_src() as folder:
        code, summary = run_tests(folder, tests)
    if code == FAILED:
        sys.exit(f"the tests fail without any mutant: {summary}")
    survived = []
    for mutant in chosen:
        verdict = "killed" if is_killed(mutant) else "SURVIVED"
        print(f"{verdict}: {mutant.name} ({mutant.file})", flush=True)
        if verdict != "killed":
            survived.append(mutant.name)
    if survived:
        sys.exit(f"{len(survived)} of {len(chosen)} mutants survived")


if __name__ == "__main__":
    main()
