"""Problems, roots and tolerances that tests of the exact solver share."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from solver_contract import (
    best_of_all_supports,
    correlated_problem,
    random_problem,
)

from totalqboost import losses
from totalqboost.solvers.exact.node import Node
from totalqboost.solvers.exact.reach import weight_limits
from totalqboost.solving import Interrupted, Status

LOSSES = losses.names()
every_loss = pytest.mark.parametrize("loss", LOSSES)
SLACK = 1e-9  # rounding of the refits that the bounds are compared with


def tiny_problem(seed):
    """Return one of many kinds of small problems; the seed decides everything."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 8)), int(rng.integers(3, 50))
    make = random_problem if n < 4 or rng.random() < 0.5 else correlated_problem
    return make(
        seed,
        n=n,
        m=m,
        nu=float(rng.choice([1e-6, 1e-4, 1e-2])),
        lam=0.0 if rng.random() < 0.2 else float(10 ** rng.uniform(-4, -1)),
        loss=LOSSES[seed % 4],
        cost=rng.choice([0.0, 0.5, 1.0, 2.0], size=n) if rng.random() < 0.3 else None,
        max_learners=int(rng.integers(0, n + 1)) if rng.random() < 0.4 else None,
    )


@cache
def tiny_problems():
    """Return 160 small problems with their optima."""
    problems = [tiny_problem(seed) for seed in range(160)]
    return [(problem, best_of_all_supports(problem)) for problem in problems]


def hard_problem():
    """Return a problem that takes about a hundred nodes."""
    return correlated_problem(3, n=24, m=300, nu=1e-6, lam=0.004)


def interrupted(solver, problem):
    """Return what the interruption of a solver carries."""
    with pytest.raises(Interrupted) as raised:
        solver.solve(problem)
    assert raised.value.result.status is Status.INTERRUPTED
    return raised.value.result


def root_of(model, cutoff):
    return Node.root(model, weight_limits(model, cutoff, 0.0), np.zeros(model.problem.n_columns))
