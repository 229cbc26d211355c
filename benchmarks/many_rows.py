"""Where rows are very many: a search on 100,000 of them against a search on all.

Both are the default estimator with at most 20 weak classifiers; beyond 100,000 rows it searches on
some of them, then fits weights and moves cuts on all. Here that is switched off for one of the two.
Objectives are those of all training rows; errors and log-losses those of as many fresh rows.

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
LEARNERS = 20
FEATURES = 20
Data = tuple[np.ndarray, np.ndarray]

SETS = {
    "noise and 6 signals": lambda n, seed: part(seed, n, FEATURES),
    "twonorm": lambda n, seed: make_twonorm(n, seed),
    "ringnorm": lambda n, seed: make_ringnorm(n, seed),
    "waveform": lambda n, seed: make_waveform(n, seed),
    "one event in a thousand": lambda n, seed: make_rare_event(n, seed=seed),
}


def measured(train: Data, fresh: Data, search_rows: int) -> dict[str, float]:
    """Fit with a search on at most so many rows."""
    model = TotalQBoostClassifier(0, max_learners=LEARNERS, random_state=0)
    with patch.object(drafts, "SEARCH_ROWS", search_rows):
        began = time.process_time()
        model.fit(*train)
        seconds = time.process_time() - began
    return {
        "seconds": seconds,
        "objective": model.solution_.objective,
        "error": float(np.mean(model.predict(fresh[0]) != fresh[1])),
        "log_loss": float(log_loss(fresh[1], model.predict_proba(fresh[0])[:, 1])),
    }


def render(content: dict[str, Any], part: str = "") -> str:
    configuration = content["configuration"]
    head = ["", "seconds, all", "some", "objective, some / all", "error, all", "some"]
    head += ["log-loss, all", "some"]
    rows = []
    for name, runs in content["results"].items():
        of = {
            (side, what): float(np.mean([run[side][what] for run in runs]))
            for side in ("all", "some")
            for what in runs[0][side]
        }
        ratio = np.mean([run["some"]["objective"] / run["all"]["objective"] for run in runs])
        rows.append(
            (
                name,
                f"{of['all', 'seconds']:.0f}",
                f"{of['some', 'seconds']:.1f}",
                f"{ratio:.4f}",
                *(f"{of[side, 'error']:.2%}" for side in ("all", "some")),
                *(f"{of[side, 'log_loss']:.5f}" for side in ("all", "some")),
            )
        )
    said = f"{configuration['rows']:,} rows, means of {configuration['seeds']} seeds."
    return f"{table(head, rows)}\n\n{said}"


def main() -> None:
    arguments = parse_arguments(__doc__, rows=400_000, seeds=3)
    some = drafts.SEARCH_ROWS
    if arguments.quick:
        arguments.rows, arguments.seeds, some = 4000, 1, 1000
    load = load_before()
    TotalQBoostClassifier(0, max_learners=2).fit(*make_twonorm(500))  # compiles
    results: dict[str, list[dict[str, Any]]] = {}
    for name, make in SETS.items():
        for seed in range(arguments.seeds):
            train, fresh = make(arguments.rows, seed), make(arguments.rows, 1000 + seed)
            run = {
                "all": measured(train, fresh, len(train[1])),
                "some": measured(train, fresh, some),
            }
            results.setdefault(name, []).append(run)
            say(f"{name}, seed {seed}: {run}")
    configuration = {"rows": arguments.rows, "seeds": arguments.seeds, "load_before": load}
    print(render(save(NAME, arguments, configuration, results)))


if __name__ == "__main__":
    main()
