"""Does any table break the classifier? Random frames, arrays and sparse matrices.

Tables of numbers of all types and sizes, text, categories, truth values, constant, repeated and
empty columns, names that repeat or are numbers, categories and gaps that only prediction sees,
labels of two to five classes, some of one row, weights with zeros, and settings at random. Each is
fitted, and then all ways of asking the model must agree (`tests/frame_rules.py` has the rules); or
it is refused by a ValueError or TypeError that names the column.
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from common import parse_arguments, save, say, table, verdict
from frame_rules import RULES, fit_or_refusal, refusal_is_clear, strict
from frames import Case, cases
from hypothesis import HealthCheck, Phase, given, seed, settings

BATCH = 100  # tables of one seed
CLEAR, FITTED = "a refusal names the column", "fit, or a clear refusal"


class Counts:
    """What happened to the tables so far."""

    def __init__(self) -> None:
        self.n_tables = self.n_fits = 0
        self.refusals: Counter[str] = Counter()
        self.violations: Counter[str] = Counter()
        self.found: list[dict[str, Any]] = []

    def look(self, case: Case, number: int) -> None:
        """Fit a table and try all rules."""
        self.n_tables += 1
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
    @given(cases())
    def look(case: Case) -> None:
        counts.look(case, number)

    look()


def render(content: dict[str, Any]) -> str:
    """Return the table of results as Markdown."""
    results = content["results"]
    broken = results["violations"]
    lines = table(["rule", "violations"], [(r, broken.get(r, 0)) for r in (FITTED, CLEAR, *RULES)])
    refused = sum(results["refusals"].values())
    return (
        f"{lines}\n\n- {results['tables']} tables: {results['fits']} fits, {refused} refusals; "
        f"no violation: {verdict(not broken)}."
    )


def main() -> None:
    arguments = parse_arguments(__doc__, frames=10_000, first=0, seconds=10**9)
    n_tables = 10 if arguments.quick else arguments.frames
    counts, began, number = Counts(), time.monotonic(), arguments.first
    while counts.n_tables < n_tables and time.monotonic() - began < arguments.seconds:
        run_batch(counts, number, min(BATCH, n_tables - counts.n_tables))
        number += 1
        say(
            f"{counts.n_tables} tables, {counts.n_fits} fits, {counts.refusals.total()} refusals, "
            f"{counts.violations.total()} violations, {time.monotonic() - began:.0f} s"
        )
    configuration = {"first_seed": arguments.first, "tables_per_seed": BATCH}
    print(render(save("frame_fuzz", arguments, configuration, counts.results())))


if __name__ == "__main__":
    main()
