"""Does any table break the classifier? Random frames, arrays and sparse matrices.

Frames of pandas (backed by NumPy and by Arrow) and of polars, tables of pyarrow, arrays and sparse
matrices: numbers of all types and sizes, text, categories, some a thousand, truth values, constant,
repeated and empty columns, names that repeat or are numbers, categories and gaps that only
prediction sees, labels of two to five classes, some of one row, weights with zeros, and settings
at random. Each is fitted, and then all ways of asking the model must agree (`tests/frame_rules.py`
has the rules); or it is refused by a ValueError or TypeError that names the column.

Results are written after each batch, so that a run can be stopped; ``--first N`` goes on from
seed N and adds to what is there.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy
sys.path.append(str(Path(__file__).parents[1] / "tests"))

from common import parse_arguments, save, say
from frame_rules import RULES, fit_or_refusal, refusal_is_clear, strict
from frames import ANY_FORM, Case, cases
from hypothesis import HealthCheck, Phase, given, seed, settings

BATCH = 50  # tables of one seed, which are of one form
PACKAGES = ("pandas", "polars", "pyarrow", "hypothesis")
CLEAR, FITTED = "a refusal names the column", "fit, or a clear refusal"


class Counts:
    """What happened to the tables so far; ``before`` are the results that are there already."""

    def __init__(self, before: dict[str, Any] | None = None) -> None:
        told = before or {}
        self.n_tables, self.n_fits = told.get("tables", 0), told.get("fits", 0)
        self.seconds: float = told.get("seconds", 0.0)
        self.forms: Counter[str] = Counter(told.get("forms"))
        self.kinds: Counter[str] = Counter(told.get("columns"))
        self.refusals: Counter[str] = Counter(told.get("refusals"))
        self.violations: Counter[str] = Counter(told.get("violations"))
        self.found: list[dict[str, Any]] = told.get("violated", [])

    def look(self, case: Case, number: int) -> None:
        """Fit a table and try all rules."""
        self.n_tables += 1
        form, *kinds = case.kinds
        self.forms["sparse" if "sparse" in kinds else form] += 1
        self.kinds.update(kinds if form != "array" else [])
        tried = FITTED
        try:
            model, said = fit_or_refusal(case)
            if model is None:
                self.refusals[re.sub(r"'[^']*'|\d+", "...", said)[:60]] += 1
                if not refusal_is_clear(said):
                    self._note(CLEAR, number, case, said)
                return
            self.n_fits += 1
            for tried, holds in RULES.items():  # noqa: B007
                with strict():
                    holds(case, model)
        except Exception as error:
            self._note(tried, number, case, repr(error))

    def _note(self, rule: str, number: int, case: Case, said: str) -> None:
        self.violations[rule] += 1
        self.found.append({"seed": number, "rule": rule, "said": said[:500]})
        say(f"seed {number}: {rule}: {said}\n{case}")

    def results(self) -> dict[str, Any]:
        """Return the counts as plain values."""
        return {
            "tables": self.n_tables,
            "fits": self.n_fits,
            "seconds": round(self.seconds),
            "forms": dict(self.forms.most_common()),
            "columns": dict(self.kinds.most_common()),
            "refusals": dict(self.refusals.most_common()),
            "violations": dict(self.violations),
            "violated": self.found,
        }


def run_batch(counts: Counts, number: int, n_tables: int) -> None:
    """Look at the tables of a seed."""

    @seed(number)
    @settings(
        max_examples=n_tables,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases([ANY_FORM[number % len(ANY_FORM)]]))
    def look(case: Case) -> None:
        counts.look(case, number)

    look()


def render(content: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    results = content["results"]
    broken, refused = results["violations"], sum(results["refusals"].values())
    forms = ", ".join(f"{form} {count:,}" for form, count in results["forms"].items())
    columns = ", ".join(f"{kind} {count:,}" for kind, count in results["columns"].items())
    found = ", ".join(f"{rule} {count}" for rule, count in broken.items())
    return (
        f"{results['tables']:,} random tables: {results['fits']:,} fits and {refused:,} refusals. "
        f"Rules ({'; '.join((FITTED, CLEAR, *RULES))}) that were broken: **{found or 'none'}**. "
        f"By form: {forms}. Columns of frames, by kind: {columns}."
    )


def known(path: Path, first: int) -> dict[str, Any] | None:
    """Return the results to add to, if the run goes on from a seed."""
    if first == 0 or not path.exists():
        return None
    content = json.loads(path.read_text(encoding="utf-8"))
    if content["configuration"]["next_seed"] != first:
        sys.exit(
            f"--first must be {content['configuration']['next_seed']}, the next seed of {path}"
        )
    results: dict[str, Any] = content["results"]
    return results


def main() -> None:
    arguments = parse_arguments(__doc__, frames=10_000, first=0, seconds=10**9)
    n_tables = 10 if arguments.quick else arguments.frames
    counts = Counts(known(arguments.out / "frame_fuzz.json", arguments.first))
    began, number = time.monotonic(), arguments.first
    while counts.n_tables < n_tables and time.monotonic() - began < arguments.seconds:
        start = time.monotonic()
        run_batch(counts, number, min(BATCH, n_tables - counts.n_tables))
        number += 1
        counts.seconds += time.monotonic() - start
        configuration = {"next_seed": number, "tables_per_seed": BATCH}
        content = save("frame_fuzz", arguments, configuration, counts.results(), PACKAGES)
        say(
            f"{counts.n_tables} tables, {counts.n_fits} fits, {counts.refusals.total()} refusals, "
            f"{counts.violations.total()} violations, {counts.seconds:.0f} s"
        )
    print(render(content))


if __name__ == "__main__":
    main()
