"""Fixed-point weights: w_j = step_j * (an integer of n_bits), as tabu search and annealers have."""

from __future__ import annotations

import numpy as np

from totalqboost.master import MasterProblem
from totalqboost.refit import refit
from totalqboost.solvers.exact.model import Model
from totalqboost.solvers.exact.node import Node
from totalqboost.solvers.tabu import ROOM

__all__ = ["grid_step", "model_of", "nearest_levels", "split_levels"]


def model_of(
    problem: MasterProblem, n_bits: int | None, step: float | tuple[float, ...] | None
) -> Model:
    """Return the model of a problem, over fixed-point weights if ``n_bits`` is given."""
    if n_bits is None:
        return Model.of(problem)
    if step is None:
        steps = grid_step(problem, n_bits)
    else:
        given = np.asarray(step, dtype=float)
        if given.shape not in ((), (problem.n_columns,)):
            raise ValueError(
                f"step must be a number or {problem.n_columns} of them, one per column, got "
                f"shape {given.shape}"
            )
        if not (np.isfinite(given).all() and (given > 0).all()):
            raise ValueError(f"step must be finite and > 0, got {step!r}")
        steps = np.broadcast_to(given, (problem.n_columns,))
    return Model.of(problem, steps, 2**n_bits - 1)


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
