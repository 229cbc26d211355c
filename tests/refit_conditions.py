"""The optimality conditions of the refit, from their definition."""

from __future__ import annotations

import numpy as np

from totalqboost.master import MasterProblem


def violation(problem: MasterProblem, support: np.ndarray, w: np.ndarray) -> float:
    """Return the largest violation of the optimality conditions of the refit at w."""
    gradient = (problem.nus - problem.A @ problem.dual_weights(w))[support]
    is_kept = np.asarray(w)[support] > 0
    return float(np.where(is_kept, np.abs(gradient), -gradient).max(initial=0.0))
