"""When column generation ends: what the scale of eps and the exit under the penalty cost.

Two choices of line 4 of Algorithm 1. The paper's eps belongs to a risk that is a sum over rows; the
same number for a mean ends plain column generation (strategy B) earlier. And with a penalty the
paper goes on until the dictionary has no unseen column, where one may also stop when none outside H
violates its dual constraint (strategy C, with both exits, for the penalties of the experiments).

The first table has nu on the paper's scale too.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from common import load_before, parse_arguments, save, say, table

from totalqboost import datasets, paper
from totalqboost.boosting import BoostingResult
from totalqboost.experiments.bench import Bench
from totalqboost.experiments.settings import Settings
from totalqboost.experiments.strategies import rows_of
from totalqboost.solvers import LocalSearch

SMALL = ("breast cancer", "flare solar")  # dictionaries of fewer than T columns
N_PERTURBATIONS = 100  # of a search for what the columns are worth
SAME = 1e-9  # objectives that differ by less are equal
UNITS = {"mean": "ε", "sum": "ε/m", "both": "ε/m, ν/m"}


def main() -> None:
    arguments = parse_arguments(__doc__, splits=5)
    splits = range(1 if arguments.quick else arguments.splits)
    sets = ("thyroid", "flare solar") if arguments.quick else datasets.names()
    n_penalties = 4 if arguments.quick else Settings.n_penalties
    load = load_before()
    results: dict[str, Any] = {"eps": [], "exit": []}
    for name in sets:
        results["eps"].append(tolerances(name, splits))
        say(f"{name}: {results['eps'][-1]}")
    for name in SMALL:
        results["exit"].append(both_exits(name, splits, n_penalties))
        say(f"{name}: {results['exit'][-1]}")
    configuration = {"splits": len(splits), "penalties": n_penalties, "load_before": load}
    print(render(save("exits", arguments, configuration, results)))


def tolerances(name: str, splits: Sequence[int]) -> dict[str, Any]:
    """Return the rounds of B and its least validation error for eps of a mean and of a sum.

    The latter with nu of a mean, as in the experiments, and of a sum.
    """
    found: dict[str, Any] = {"dataset": name}
    for unit in UNITS:
        rounds, risks, errors = [], [], []
        for split in splits:
            bench = Bench(name, split, Settings())
            factor = len(bench.y) if unit == "mean" else 1  # Settings have the paper's unit of eps
            nu = paper.NU / len(bench.y) if unit == "both" else paper.NU
            bench.settings = Settings(tol=paper.EPSILON * factor, nu=nu)
            rows = list(rows_of(bench, "B", keep_ensembles=False))
            rounds.append(len(rows))
            risks.append(rows[-1]["risk"])
            errors.append(100 * min(row["valid_error"] for row in rows))
        found |= {f"rounds_{unit}": rounds, f"risk_{unit}": risks, f"error_{unit}": errors}
    return found


def both_exits(name: str, splits: Sequence[int], n_penalties: int) -> dict[str, Any]:
    """Return how the objectives of C differ between the exits, over all splits and penalties."""
    early, late = (Settings(n_penalties=n_penalties, exhaust=exhaust) for exhaust in (False, True))
    rounds: dict[bool, list[int]] = {False: [], True: []}
    values: dict[bool, list[float]] = {False: [], True: []}
    anew: dict[bool, list[float]] = {False: [], True: []}
    seconds = {False: 0.0, True: 0.0}
    for split in splits:
        bench = Bench(name, split, early)
        lambdas = bench.lambdas[1:]  # the first keeps nothing
        for settings in (early, late):
            bench.settings = settings
            for index, lam in enumerate(lambdas):
                began = time.perf_counter()
                result = bench.boost(bench.generator("C", index), lam=float(lam))
                seconds[settings.exhaust] += time.perf_counter() - began
                rounds[settings.exhaust].append(len(result.trace))
                values[settings.exhaust].append(result.solution.objective)
                anew[settings.exhaust].append(searched_anew(result))
    gain = relative_gain(values)
    return {
        "dataset": name,
        "problems": len(gain),
        "better": int(np.sum(gain > SAME)),
        "better_anew": int(np.sum(relative_gain(anew) > SAME)),
        "worse": int(np.sum(gain < -SAME)),
        "mean_gain": float(gain.mean()),
        "largest_gain": float(gain.max()),
        "largest_loss": float(max(0.0, -gain.min())),
        "rounds_early": float(np.mean(rounds[False])),
        "rounds_late": float(np.mean(rounds[True])),
        "seconds_early": seconds[False],
        "seconds_late": seconds[True],
    }


def searched_anew(result: BoostingResult) -> float:
    """Return the objective of the columns of H without the history of the rounds."""
    assert result.problem is not None
    solver = LocalSearch(n_perturbations=N_PERTURBATIONS)
    found = solver.solve(result.problem, None, np.random.default_rng(0))
    return min(found.objective, result.solution.objective)


def relative_gain(values: dict[bool, list[float]]) -> np.ndarray:
    """Return by how much of its value the objective falls if every column is seen."""
    return 1.0 - np.array(values[True]) / np.array(values[False])


def render(content: dict[str, Any]) -> str:
    """Return all tables as Markdown."""
    results, configuration = content["results"], content["configuration"]
    eps = [
        [
            entry["dataset"],
            *(f"{np.mean(entry[f'rounds_{unit}']):.1f}" for unit in UNITS),
            *(f"{np.mean(entry[f'risk_{unit}']):.4f}" for unit in UNITS),
            *(f"{np.mean(entry[f'error_{unit}']):.2f}" for unit in UNITS),
        ]
        for entry in results["eps"]
    ]
    header = ["Data set"]
    for title in ("Rounds", "Risk", "Least error"):
        header += [f"{title}, {unit}" for unit in UNITS.values()]
    exits = [
        [
            entry["dataset"],
            entry["problems"],
            entry["better"],
            entry["worse"],
            entry["better_anew"],
            f"{100 * entry['mean_gain']:.3f} %",
            f"{100 * entry['largest_gain']:.2f} %",
            f"{entry['rounds_early']:.0f}",
            f"{entry['rounds_late']:.0f}",
            f"{entry['seconds_late'] / entry['seconds_early']:.1f}",
        ]
        for entry in results["exit"]
    ]
    names = ["Data set", "Problems", "Better", "Worse", "Better, anew", "Mean gain", "Largest"]
    names += ["Rounds, eq. (9)", "Rounds, all seen", "Time, times"]
    n = configuration["splits"]
    return "\n\n".join(
        [
            f"Plain column generation (B), means over {n} splits of the experiments; risk at the "
            "end and least validation error over the rounds in percent, with ε = 5e-4 for the mean "
            "loss, for the sum as in the paper (ε/m), and the latter with ν = 1e-6 for the sum too "
            "(ν/m):",
            table(header, eps),
            f"TotalQBoost with a penalty (C), {configuration['penalties'] - 1} penalties on {n} "
            "splits: in how many problems the objective is better, or worse, if it goes on until "
            'every column was seen, and by how much of its value. "Anew": the same if the columns '
            "of both are searched once more, from nothing, so that only the columns differ:",
            table(names, exits),
        ]
    )


if __name__ == "__main__":
    main()
