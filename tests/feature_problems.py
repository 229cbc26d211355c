"""Small problems with fees, feature prices and limits, and their optima by enumeration."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from solver_contract import (
    best_of_all_supports,
    correlated_problem,
    multiclass_problem,
    random_problem,
    with_features,
)

from totalqboost import MasterProblem, losses

COSTS = [0.0, 0.5, 1.0, 2.0]


def some_problem(seed: int) -> MasterProblem:
    """Return one of many kinds: a third has columns of many classes; the seed decides all."""
    rng = np.random.default_rng(seed)
    settings: dict[str, Any] = {
        "loss": losses.names()[seed // 3 % 4],
        "lam": float(rng.choice([0.0, 0.003, 0.02])),
        "nu": float(rng.choice([1e-6, 1e-4, 1e-2])),
        "max_learners": int(rng.integers(0, 5)) if rng.random() < 0.3 else None,
    }
    if seed % 3 == 0:
        cost = rng.choice(COSTS, size=7, p=[0.1, 0.2, 0.5, 0.2])
        problem = random_problem(seed, n=7, m=int(rng.integers(10, 60)), cost=cost, **settings)
    elif seed % 3 == 1:
        problem = correlated_problem(seed, n=7, m=int(rng.integers(10, 60)), **settings)
    else:
        n_classes, m = int(rng.integers(3, 5)), int(rng.integers(8, 25))
        cost = rng.choice(COSTS[1:], size=6)
        problem = multiclass_problem(seed, n=6, m=m, n_classes=n_classes, cost=cost, **settings)
    return with_features(
        problem,
        seed,
        n_features=int(rng.integers(1, 6)),
        scale=float(10 ** rng.uniform(-3.5, -1.3)),
        max_features=int(rng.integers(0, 4)) if rng.random() < 0.4 else None,
    )


@cache
def every_support(seed: int) -> tuple[MasterProblem, float]:
    """Return a problem and its optimum."""
    problem = some_problem(seed)
    optimum: float = best_of_all_supports(problem)
    return problem, optimum
