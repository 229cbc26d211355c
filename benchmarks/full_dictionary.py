"""Certified optima over the whole dictionary of stumps: branch and price on small data sets.

For each data set, sizes grow until the time limit is hit. The ensembles themselves are in the
results, and in docs/certificates.md.
"""

from __future__ import annotations

from typing import Any

from common import load_before, parse_arguments, save, say, table

from totalqboost import BranchAndPrice, CertifiedEnsemble, datasets
from totalqboost.solving import Status

SETS = ("flare solar", "breast cancer", "thyroid", "heart", "diabetes", "german")


def main() -> None:
    arguments = parse_arguments(__doc__, max_learners=8, time_limit=60)
    sets, largest = (SETS[:2], 3) if arguments.quick else (SETS, arguments.max_learners)
    load = load_before()
    found = []
    for name in sets:
        X, y, features = datasets.load(name, return_names=True)
        for k in range(1, largest + 1):
            result = BranchAndPrice(time_limit=arguments.time_limit).solve(X, y, k)
            found.append(describe(name, k, len(y), features, result))
            say(f"{name}, k = {k}: {result.status}, gap {result.gap:.1e}, {result.seconds:.1f} s")
            if result.status is not Status.OPTIMAL:
                break
    configuration = {"time_limit": arguments.time_limit, "load_before": load}
    print(render(save("full_dictionary", arguments, configuration, {"problems": found})))


def describe(
    name: str, k: int, n_rows: int, features: tuple[str, ...], result: CertifiedEnsemble
) -> dict[str, Any]:
    """Return one row of the results."""
    return {
        "dataset": name,
        "rows": n_rows,
        "cuts": result.n_cuts,
        "k": k,
        "status": result.status,
        "objective": result.objective,
        "bound": result.bound,
        "gap": result.gap,
        "branches": result.n_branches,
        "refits": result.n_refits,
        "seconds": result.seconds,
        "ensemble": str(result.ensemble.with_names((-1, 1), features, "exponential")),
    }


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
            "optimal" if entry["status"] == Status.OPTIMAL else f"{100 * entry['gap']:.1f} %",
            entry["branches"],
            entry["refits"],
            f"{entry['seconds']:.1f}",
        ]
        for entry in problems
    ]
    header = ["Data set", "Rows", "Cuts", "k", "Risk", "Gap", "Branches", "Refits", "Seconds"]
    parts = [table(header, rows)]
    for name in dict.fromkeys(entry["dataset"] for entry in problems):
        solved = [e for e in problems if e["dataset"] == name and e["status"] == Status.OPTIMAL]
        if solved and solved[-1]["k"] >= 3:
            best = solved[-1]
            parts.append(
                f"The best {best['k']} stumps for {name}, of all that there are:\n\n"
                f"```\n{best['ensemble']}\n```"
            )
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
