"""Does the exact solver ever claim too much? Tiny random problems against brute force.

Every problem has at most nine columns, so every support can be refitted (and with fixed-point
weights, every level tried). Counted as violations: a bound above the optimum, an objective
that is not the optimum although the status says so, and a `certify` above the optimum. All
four losses, prices per column, free columns, opposite and equal columns, limits, nu down to
zero, and bounds of trees that were stopped early.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from common import parse_arguments, save, say, table, verdict
from optimality import brute_force

from totalqboost import MasterProblem, losses
from totalqboost.solvers import BranchAndBound, certify

SLACK = 1e-9  # rounding of the refits that the bounds are compared with
CLAIMED = 1e-6  # relative: an objective above the optimum by more is not the optimum
KINDS = ("tree", "stopped early", "certify", "fixed-point weights")


def columns(rng: np.random.Generator, n: int, m: int) -> np.ndarray:
    """Return random columns, or noisy copies of a few; some equal, some opposite."""
    A = np.where(rng.random((n, m)) < rng.uniform(0.4, 0.9, (n, 1)), 1, -1)
    if rng.random() < 0.5:
        hidden = A[rng.integers(0, n, n) % 3 % n]
        A = np.where(rng.random((n, m)) < 0.15, -hidden, hidden)
    if n > 2 and rng.random() < 0.3:
        A[-1] = A[0] * rng.choice([-1, 1])
    return A.astype(np.int8)


def make_problem(seed: int, most: int) -> MasterProblem:
    """Return one random problem; the seed decides everything."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, most + 1)), int(rng.integers(2, 60))
    A, cost = columns(rng, n, m), np.ones(n)
    if rng.random() < 0.3:
        cost = rng.choice([0.5, 1.0, 2.0], n)
    if n > 2 and rng.random() < 0.3:
        A[1], cost[:2] = -A[0], 0.0  # an intercept
    is_limited = rng.random() < 0.35
    return MasterProblem(
        A,
        nu=float(rng.choice([0.0, 1e-6, 1e-4, 1e-2])),
        lam=0.0 if rng.random() < 0.15 else float(10 ** rng.uniform(-4, -0.7)),
        cost=cost,
        loss=losses.get(losses.names()[seed % 4]),
        sample_weight=rng.uniform(0.1, 2.0, m),
        max_learners=int(rng.integers(0, n + 1)) if is_limited else None,
    )


def best_level(problem: MasterProblem, step: np.ndarray, n_bits: int) -> float:
    grid = product(range(2**n_bits), repeat=problem.n_columns)
    weights = (np.array(levels) * step for levels in grid)
    return min(problem.objective(w) for w in weights if problem.is_feasible(w))


def run_problem(seed: int) -> dict[str, Any]:
    """Return the kinds of claims that failed on one problem, and whether it was solved."""
    rng = np.random.default_rng(seed)
    violated = []
    if seed % 5 == 0:
        problem, n_bits = make_problem(seed, 3), int(rng.integers(1, 4))
        step = rng.uniform(0.03, 0.6, problem.n_columns)
        optimum = best_level(problem, step, n_bits)
        found = BranchAndBound(n_bits=n_bits, step=tuple(step)).solve(problem)
        is_wrong = found.status == "optimal" and found.objective > optimum + CLAIMED * optimum
        if found.bound > optimum + SLACK or is_wrong or found.objective < optimum - SLACK:
            violated.append("fixed-point weights")
        return {"violated": violated, "is_solved": found.status == "optimal", "gap": found.gap}
    problem = make_problem(seed, 9 if seed % 7 == 0 else 6)
    found = BranchAndBound(max_nodes=5000).solve(problem)
    # With nu = 0 the best weights may be infinite: then any finite refit is above the optimum.
    optimum = min(brute_force(problem), found.objective)
    if found.bound > optimum + SLACK:
        violated.append("tree")
    if found.status == "optimal" and found.objective > optimum + CLAIMED * abs(optimum) + SLACK:
        violated.append("tree")
    if BranchAndBound(max_nodes=int(rng.integers(1, 6))).solve(problem).bound > optimum + SLACK:
        violated.append("stopped early")
    guess = rng.exponential(1.0, problem.n_columns) * (rng.random(problem.n_columns) < 0.5)
    for w in (found.w, guess):
        if certify(problem, w) > optimum + SLACK:
            violated.append("certify")
    return {"violated": violated, "is_solved": found.status == "optimal", "gap": found.gap}


def render(content: dict[str, Any]) -> str:
    """Return the table of results as Markdown."""
    results = content["results"]
    rows = [(kind, results["violations"][kind]) for kind in KINDS]
    lines = table(["claim", "violations"], rows)
    total = sum(results["violations"].values())
    return (
        f"{lines}\n\n- {results['problems']} problems, {results['solved']} solved to optimality; "
        f"no violation: {verdict(total == 0)}."
    )


def main() -> None:
    arguments = parse_arguments(__doc__, problems=10_000, first=0)
    n_problems = 200 if arguments.quick else arguments.problems
    violations, solved, seeds = dict.fromkeys(KINDS, 0), 0, []
    for i in range(n_problems):
        record = run_problem(arguments.first + i)
        solved += record["is_solved"]
        for kind in record["violated"]:
            violations[kind] += 1
            seeds.append(arguments.first + i)
            say(f"problem {arguments.first + i}: {kind}")
        if (i + 1) % 100 == 0:
            say(f"{i + 1} problems, {solved} solved, {sum(violations.values())} violations")
    results = {
        "problems": n_problems,
        "solved": solved,
        "violations": violations,
        "violated_seeds": seeds,
    }
    configuration = {"slack": SLACK, "claimed_within": CLAIMED, "first_seed": arguments.first}
    print(render(save("fuzz_exact", arguments, configuration, results)))


if __name__ == "__main__":
    main()
