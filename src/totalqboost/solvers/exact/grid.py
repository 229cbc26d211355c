"""Fixed-point weights: w_j = step_j * (an integer of n_bits), as tabu search and annealers have."""

from __future__ import annotations

import numpy as np

from totalqboost.fixed_point import checked_step, grid_step
from totalqboost.master import MasterProblem
from totalqboost.refit import refit
from totalqboost.solvers.exact.model import Model
from totalqboost.solvers.exact.node import Node

__all__ = ["descend_levels", "model_of", "split_levels"]


def model_of(
    problem: MasterProblem,
    n_bits: int | tuple[int, ...] | None,
    step: float | tuple[float, ...] | None,
) -> Model:
    """Return the model of a problem, over fixed-point weights if ``n_bits`` is given."""
    if n_bits is None:
        return Model.of(problem)
    n = problem.n_columns
    bits = np.broadcast_to(n_bits, n) if np.size(n_bits) in (1, n) else None
    if bits is None:
        raise ValueError(f"n_bits must be one number or {n}, one per column, got {n_bits!r}")
    if step is None:  # as `TabuSearch` chooses it at its first start
        weights = refit(problem.merged(), np.arange(n), tol=1e-6)
        steps = grid_step(weights, problem.cost == 0, int(bits.max(initial=1)))
    else:
        steps = checked_step(step, n)
    return Model.of(problem, steps, (1 << bits.astype(np.int64)) - 1)


def descend_levels(model: Model, w: np.ndarray) -> np.ndarray:
    """Return weights on the grid near w, improved one level at a time."""
    problem, step = model.problem, model.step
    levels = np.clip(np.rint(w / step), 0, model.top)
    value = problem.objective(levels * step)
    improved = True
    while improved:
        improved = False
        for j in range(len(levels)):
            for by in (-1.0, 1.0, -levels[j]):
                while by:  # a level that helps is followed by two more, by four, and so on
                    trial = levels.copy()
                    trial[j] += by
                    if not 0 <= trial[j] <= model.top[j] or not problem.is_feasible(trial * step):
                        break
                    new = problem.objective(trial * step)
                    if not new < value - 1e-12:
                        break
                    levels, value, improved = trial, new, True
                    by *= 2.0
    return levels * step


def split_levels(model: Model, node: Node) -> list[Node]:
    """Return the halves of a node whose columns are all in: low and high levels of one.

    Of two opposite columns one has no weight, so that there may be no high half.
    """
    step = model.step[node.columns]
    j = int(np.argmax((node.hi - node.lo) / step))
    lowest, highest = np.rint(node.lo[j] / step[j]), np.rint(node.hi[j] / step[j])
    level = np.clip(np.floor(node.w[j] / step[j]), lowest, highest - 1)
    low, high = node.child(j, True), node.child(j, True)
    low.hi[j] = level * step[j]
    high.lo[j] = (level + 1) * step[j]
    other = node.columns == model.opposite[node.columns[j]]
    high.hi[other] = 0.0
    return [low] if (high.lo[other] > 0).any() else [low, high]
