"""Fixed-point weights: w_j = step_j * (an integer of n_bits), as tabu search and annealers have."""

from __future__ import annotations

import numpy as np

from totalqboost.master import MasterProblem
from totalqboost.refit import refit
from totalqboost.solvers.exact.model import Model
from totalqboost.solvers.exact.node import Node
from totalqboost.solvers.tabu import ROOM

__all__ = ["grid_step", "nearest_levels", "split_levels"]


def grid_step(problem: MasterProblem, n_bits: int) -> np.ndarray:
    """Return the step of each weight, chosen as `TabuSearch` chooses it at its first start.

    One range for priced columns and one for free ones: ROOM times the largest weight of the
    l1 solution.
    """
    weights = refit(problem.merged(), np.arange(problem.n_columns), tol=1e-6)
    step = np.ones(problem.n_columns)
    for mask in (problem.cost > 0, problem.cost == 0):
        largest = float(weights[mask].max(initial=0.0))
        step[mask] = ROOM * (largest if largest > 0 else 1.0) / (2**n_bits - 1)
    return step


def nearest_levels(model: Model, w: np.ndarray) -> np.ndarray:
    """Return weights on the grid near w, improved one level at a time."""
    problem, step = model.problem, model.step
    levels = np.clip(np.rint(w / step), 0, model.top)
    value = problem.objective(levels * step)
    improved = True
    while improved:
        improved = False
        for j in range(len(levels)):
            for to in {levels[j] - 1, levels[j] + 1, 0.0} - {levels[j]}:
                trial = levels.copy()
                trial[j] = to
                if not 0 <= to <= model.top or not problem.is_feasible(trial * step):
                    continue
                new = problem.objective(trial * step)
                if new < value - 1e-12:
                    levels, value, improved = trial, new, True
    return levels * step


def split_levels(model: Model, node: Node) -> list[Node]:
    """Return the two halves of a node whose columns are all in: low and high levels of one."""
    step = model.step[node.columns]
    j = int(np.argmax((node.hi - node.lo) / step))
    lowest, highest = np.rint(node.lo[j] / step[j]), np.rint(node.hi[j] / step[j])
    level = np.clip(np.floor(node.w[j] / step[j]), lowest, highest - 1)
    low, high = node.child(j, True), node.child(j, True)
    low.hi[j] = level * step[j]
    high.lo[j] = (level + 1) * step[j]
    return [low, high]
