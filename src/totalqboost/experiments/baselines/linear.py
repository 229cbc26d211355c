"""LPBoost's master problem: the largest soft margin, a linear program."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from totalqboost.experiments.baselines.generation import MasterPoint

__all__ = ["LinearMaster", "soft_margin"]

LP_TOL = 1e-7  # HiGHS's own tolerance


def soft_margin(z: np.ndarray, c: np.ndarray, nu: float) -> float:
    """Return max_rho rho - sum_i c_i max(0, rho - z_i) / nu: the mean of the lowest nu margins."""
    order = np.argsort(z, kind="stable")
    below = np.minimum(np.cumsum(c[order]), nu)
    return float(z[order] @ np.diff(below, prepend=0.0)) / nu


class LinearMaster:
    """LPBoost's master problem, by HiGHS, warm-started from one solve to the next.

    At the optimum d_i = 0 where z_i > rho and d_i = c_i / nu where z_i < rho: all but a few
    examples stay where they were. The linear program is solved over the others (those
    nearest to rho), and examples whose bound turns out wrong join until there are none: the
    optimum is that of the full program.
    """

    def __init__(self, c: np.ndarray, nu: float):
        self.c, self.nu, self.cap = c, nu, c / nu
        self._d = np.minimum(c, self.cap)
        self._slack = np.zeros(len(c))  # z - rho

    def solve(self, A: np.ndarray) -> MasterPoint:
        """Return the optimum over the rows of A, which must be those of before and more."""
        d, cap = self._d, self.cap
        distance = np.abs(self._slack)
        n_near = min(2 * (len(A) + 20), len(d))
        free = (d > 0) & (d < cap)
        free |= distance <= np.partition(distance, n_near - 1)[n_near - 1]
        while True:
            fixed = np.where(free, 0.0, d)
            d[free], w, rho = _solve_lp(A[:, free], cap[free], A @ fixed, 1.0 - fixed.sum())
            z = w @ A
            self._slack = z - rho
            wrong = np.where(d > 0, self._slack > LP_TOL, self._slack < -LP_TOL) & ~free
            if not wrong.any():
                break
            free |= wrong
        value = soft_margin(z, self.c, self.nu)
        return MasterPoint(w, d.copy(), value, A @ d)


def _solve_lp(
    A: np.ndarray, cap: np.ndarray, fixed_edges: np.ndarray, mass: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """Minimise gamma over A d + fixed_edges <= gamma, sum(d) = mass, 0 <= d <= cap.

    Returns d, the multipliers w of the edges (they sum to one), and that of the mass, rho.
    """
    t, k = A.shape
    answer = linprog(
        np.append(np.zeros(k), 1.0),
        A_ub=np.column_stack([A, -np.ones(t)]),
        b_ub=-fixed_edges,
        A_eq=np.append(np.ones(k), 0.0)[np.newaxis],
        b_eq=[mass],
        bounds=np.column_stack([np.append(np.zeros(k), -np.inf), np.append(cap, np.inf)]),
        method="highs-ds",
        options={"presolve": False},  # takes longer than it saves
    )
    if answer.status != 0:
        raise RuntimeError(f"HiGHS did not solve LPBoost's master problem: {answer.message}")
    w = np.maximum(-answer.ineqlin.marginals, 0.0)
    w[w < 1e-9] = 0.0
    return np.clip(answer.x[:k], 0.0, cap), w / w.sum(), float(answer.eqlin.marginals[0])
