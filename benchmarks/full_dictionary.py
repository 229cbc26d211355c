"""Certified optima over the whole dictionary of stumps: branch and price on small data sets.

For each data set, sizes grow until the time limit is hit. The ensembles themselves are in the
results, and in docs/certificates.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from common import RESULTS, load_before, save, say, table

from totalqboost import BranchAndPrice, datasets

SETS = ("flare solar", "breast cancer", "thyroid", "heart", "diabetes", "german")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--datasets", default=",".join(SETS), help="comma-separated")
    parser.add_argument("--max-learners", type=int, default=8)
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds per problem")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    arguments.quick = False
    load = load_before()
    found = []
    for name in arguments.datasets.split(","):
        X, y, features = datasets.load(name, return_names=True)
        for k in range(1, arguments.max_learners + 1):
            result = BranchAndPrice(time_limit=arguments.time_limit).solve(X, y, k)
            named = result.ensemble.with_names((-1, 1), features, "exponential")
            found.append(
                {
                    "dataset": name,
                    "rows": len(y),
                    "cuts": result.n_cuts,
                    "k": k,
                    "status": result.status,
                    "objective": result.objective,
                    "bound": result.bound,
                    "gap": result.gap,
                    "branches": result.n_branches,
                    "refits": result.n_refits,
                    "seconds": result.seconds,
                    "ensemble": str(named),
                }
            )
            say(f"{name}, k = {k}: {result.status}, gap {result.gap:.1e}, {result.seconds:.1f} s")
            if result.status != "optimal":
                break
    configuration = {"time_limit": arguments.time_limit, "load_before": load}
    print(render(save("full_dictionary", arguments, configuration, {"problems": found})))


def render(content: dict[str, Any]) -> str:
    """Return the table and the largest certified ensemble of each data set as Markdown."""
    problems = content["results"]["problems"]
    rows = [
        [
            entry["dataset"],
            entry["rows"],
            entry["cuts"],
            entry["k"],
            f"{entry['objective']:.6f}",
            "optimal" if entry["status"] == "optimal" else f"{100 * entry['gap']:.1f} %",
            entry["branches"],
            entry["refits"],
            f"{entry['seconds']:.1f}",
        ]
        for entry in problems
    ]
    header = ["Data set", "Rows", "Cuts", "k", "Risk", "Gap", "Branches", "Refits", "Seconds"]
    parts = [table(header, rows)]
    for name in dict.fromkeys(entry["dataset"] for entry in problems):
        solved = [e for e in problems if e["dataset"] == name and e["status"] == "optimal"]
        if solved and solved[-1]["k"] >= 3:
            best = solved[-1]
            parts.append(
                f"The best {best['k']} stumps for {name}, of all that there are:\n\n"
                f"```\n{best['ensemble']}\n```"
            )
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
