"""Where rows are very many: a search on 100,000 of them against a search on all.

Beyond 100,000 rows the estimators search on some of them, then fit weights and move cuts on all.
Here that is switched off for one of the two, in two forms: the best 20 weak classifiers, and the
default price, which decides the size itself (on fewer rows: a search on all takes long). Objectives
are those of all training rows; errors and log-losses those of as many fresh rows.

    python benchmarks/many_rows.py
    python benchmarks/many_rows.py --quick
"""

from __future__ import annotations

import time
from typing import Any
from unittest.mock import patch

import numpy as np
from common import load_before, parse_arguments, save, say, table
from scaling import part
from sklearn.metrics import log_loss

from totalqboost import TotalQBoostClassifier
from totalqboost.boosting import drafts
from totalqboost.datasets import make_rare_event, make_ringnorm, make_twonorm, make_waveform

NAME = "many_rows"
FEATURES = 20
FORMS: dict[str, dict[str, Any]] = {
    "20 stumps": {"cardinality_penalty": 0, "max_learners": 20},
    "default price": {},
}
SIDES = ("all", "some")
Data = tuple[np.ndarray, np.ndarray]

SETS = {
    "noise and 6 signals": lambda n, seed: part(seed, n, FEATURES),
    "twonorm": lambda n, seed: make_twonorm(n, seed),
    "ringnorm": lambda n, seed: make_ringnorm(n, seed),
    "waveform": lambda n, seed: make_waveform(n, seed),
    "one event in a thousand": lambda n, seed: make_rare_event(n, seed=seed),
}


def measured(train: Data, fresh: Data, search_rows: int, form: str) -> dict[str, float]:
    """Fit with a search on at most so many rows."""
    model = TotalQBoostClassifier(**FORMS[form])
    with patch.object(drafts, "SEARCH_ROWS", search_rows):
        began = time.process_time()
        model.fit(*train)
        seconds = time.process_time() - began
    return {
        "seconds": seconds,
        "stumps": model.n_learners_,
        "objective": model.solution_.objective,
        "error": float(np.mean(model.predict(fresh[0]) != fresh[1])),
        "log_loss": float(log_loss(fresh[1], model.predict_proba(fresh[0])[:, 1])),
    }


def render(content: dict[str, Any], part: str = "") -> str:
    parts = []
    for form, results in content["results"].items():
        told = content["configuration"]["forms"][form]
        said = f"**{form}**: {told['rows']:,} rows, means over seeds ({told['seeds']})."
        parts.append(f"{said}\n\n{_table(results)}")
    return "\n\n".join(parts)


def _table(results: dict[str, list[dict[str, Any]]]) -> str:
    head = ["", "seconds, all", "some", "stumps, all", "some", "objective, some / all"]
    head += ["error, all", "some", "log-loss, all", "some"]
    rows = []
    for name, runs in results.items():
        of = {
            (side, what): float(np.mean([run[side][what] for run in runs]))
            for side in SIDES
            for what in runs[0][side]
        }
        ratio = np.mean([run["some"]["objective"] / run["all"]["objective"] for run in runs])
        rows.append(
            (
                name,
                *(f"{of[side, 'seconds']:.1f}" for side in SIDES),
                *(f"{of[side, 'stumps']:.0f}" for side in SIDES),
                f"{ratio:.4f}",
                *(f"{of[side, 'error']:.2%}" for side in SIDES),
                *(f"{of[side, 'log_loss']:.5f}" for side in SIDES),
            )
        )
    return table(head, rows)


def main() -> None:
    arguments = parse_arguments(__doc__, rows=400_000, seeds=3, default_rows=150_000)
    some = drafts.SEARCH_ROWS
    if arguments.quick:
        arguments.rows, arguments.seeds, some = 4000, 1, 1000
        arguments.default_rows = 2000
    load = load_before()
    TotalQBoostClassifier(0, max_learners=2).fit(*make_twonorm(500))  # compiles
    forms = {
        "20 stumps": {"rows": arguments.rows, "seeds": arguments.seeds},
        "default price": {"rows": arguments.default_rows, "seeds": 1},
    }
    results = {form: runs_of(form, told, some) for form, told in forms.items()}
    print(render(save(NAME, arguments, {"forms": forms, "load_before": load}, results)))


def runs_of(form: str, told: dict[str, int], some: int) -> dict[str, list[dict[str, Any]]]:
    """Return what both sides found on every data set and seed."""
    results: dict[str, list[dict[str, Any]]] = {}
    n_rows = told["rows"]
    for name, make in SETS.items():
        for seed in range(told["seeds"]):
            train, fresh = make(n_rows, seed), make(n_rows, 1000 + seed)
            sizes = {"all": n_rows, "some": some}
            run = {side: measured(train, fresh, sizes[side], form) for side in SIDES}
            results.setdefault(name, []).append(run)
            say(f"{form}, {name}, seed {seed}: {run}")
    return results


if __name__ == "__main__":
    main()
