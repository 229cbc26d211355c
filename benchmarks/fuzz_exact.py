"""Does the exact solver ever claim too much? Tiny random problems against brute force.

Every problem has at most nine columns, so every support can be refitted (and with fixed-point
weights, every level tried). Counted as violations: a bound above the optimum, an objective
that is not the optimum although the status says so, and a `certify` above the optimum. All
four losses, prices per column, free columns, opposite and equal columns, limits, nu down to
zero, bounds of trees that were stopped early, trees that begin with the empty ensemble and
start again at once, and trees that use what is meant for thousands of different rows.
"""

from __future__ import annotations

from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np
from common import parse_arguments, save, say, table, verdict
from optimality import brute_force

from totalqboost import MasterProblem, losses
from totalqboost.solvers import BranchAndBound, certify
from totalqboost.solvers.exact import bounding
from totalqboost.solvers.exact.search import Search
from totalqboost.solving import Solution, Status

SLACK = 1e-9  # rounding of the refits that the bounds are compared with
CLAIMED = 1e-6  # relative: an objective above the optimum by more is not the optimum
KINDS = ("tree", "second tree", "moments", "stopped early", "certify", "fixed-point weights")


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
    if rng.random() < 0.15:
        cost[rng.random(n) < 0.4] = 0.0
    is_limited = rng.random() < 0.35
    return MasterProblem(
        A,
        nu=float(rng.choice([0.0, 1e-6, 1e-4, 1e-2, 2e-2])),
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


def from_scratch(problem: MasterProblem, starts_again: bool) -> Solution:
    """Return the solution of a search without an incumbent, in one tree or in two."""
    search = Search(BranchAndBound(max_nodes=5000), problem)
    search.n_first = 0 if starts_again else 10**9
    search.open_root()
    while search.is_running():
        search.branch()
    return search.solution()


def with_moments(problem: MasterProblem) -> Solution:
    """Return the solution of a search that treats its few rows as if they were many.

    From thousands of different rows on, nodes are bounded by moments of their ancestors. So
    many rows take more columns than brute force can do.
    """
    with patch.multiple(bounding, MANY_ROWS=0, ENOUGH=np.inf):
        return from_scratch(problem, starts_again=False)


def claims_too_much(found: Solution, optimum: float) -> bool:
    """Tell whether a bound is above the optimum, or an optimum is none."""
    is_wrong = found.objective > optimum + CLAIMED * abs(optimum) + SLACK
    return found.bound > optimum + SLACK or (found.status is Status.OPTIMAL and is_wrong)


def run_problem(seed: int) -> dict[str, Any]:
    """Return the kinds of claims that failed on one problem, and whether it was solved."""
    rng = np.random.default_rng(seed)
    violated = []
    if seed % 5 == 0:
        problem, n_bits = make_problem(seed, 3), int(rng.integers(1, 4))
        step = rng.uniform(0.03, 0.6, problem.n_columns)
        optimum = best_level(problem, step, n_bits)
        found = BranchAndBound(n_bits=n_bits, step=tuple(step)).solve(problem)
        if claims_too_much(found, optimum) or found.objective < optimum - SLACK:
            violated.append("fixed-point weights")
        return {"violated": violated, "is_solved": found.status is Status.OPTIMAL, "gap": found.gap}
    problem = make_problem(seed, 9 if seed % 7 == 0 else 6)
    found = BranchAndBound(max_nodes=5000).solve(problem)
    # With nu = 0 the best weights may be infinite: then any finite refit is above the optimum.
    others = {"second tree": from_scratch(problem, starts_again=True)}
    if problem.loss.name == "exponential":
        others["moments"] = with_moments(problem)
    optimum = min(brute_force(problem), found.objective)
    optimum = min(optimum, *(other.objective for other in others.values()))
    for kind, solution in {"tree": found, **others}.items():
        if claims_too_much(solution, optimum):
            violated.append(kind)
    if BranchAndBound(max_nodes=int(rng.integers(1, 6))).solve(problem).bound > optimum + SLACK:
        violated.append("stopped early")
    guess = rng.exponential(1.0, problem.n_columns) * (rng.random(problem.n_columns) < 0.5)
    for w in (found.w, guess):
        if certify(problem, w) > optimum + SLACK:
            violated.append("certify")
    return {"violated": violated, "is_solved": found.status is Status.OPTIMAL, "gap": found.gap}


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
    n_problems = 100 if arguments.quick else arguments.problems
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
