"""Second-order scores of the moves of local search: add, drop and swap a column.

With S the kept columns, G = A diag(q) A', V = inverse of G_SS, B = V G_S., s the edges,
r = s - nu (nu per column) and sigma_l = G_ll - G_lS B_l, re-optimising all weights after the
move changes the objective by about
    add l      -r_l^2 / (2 sigma_l) + lam cost_l
    drop j      w_j^2 / (2 V_jj) - lam cost_j
    swap j, l   w_j^2 / (2 V_jj) - (r_l + B_jl w_j / V_jj)^2 / (2 (sigma_l + B_jl^2 / V_jj))
                + lam (cost_l - cost_j)
"""

from __future__ import annotations

import numpy as np

from totalqboost.kernels.newton import gram
from totalqboost.master import MasterProblem

__all__ = ["MoveModel"]


class MoveModel:
    """The second-order model of the risk at w, over ``support``: kept columns, then free ones.

    In it move all kept columns, and every free column that is not the opposite of one already
    there: a pair of constants is one intercept of either sign, also while it is zero.
    """

    def __init__(self, problem: MasterProblem, w: np.ndarray, support: np.ndarray):
        self.problem = problem
        u, q = problem.weights_and_curvature(w)
        self.slope = problem.edges(u) - problem.nus
        self.total = float(q.sum())  # the diagonal of G
        G = np.empty((len(support), problem.n_columns))
        gram(problem.A, support, np.arange(problem.n_columns), q, G)
        moves = w[support] > 0
        for a in np.flatnonzero(~moves):
            moves[a] = not (G[a, support[moves]] < -(1 - 1e-6) * self.total).any()
        self.rows, G = support[moves], G[moves]
        self.x = w[self.rows]
        ridge = (1e-6 * self.total + 1e-12) * np.eye(len(self.rows))
        self.V = np.linalg.inv(G[:, self.rows] + ridge)
        self.B = self.V @ G
        self.left = self.total - np.einsum("ij,ij->j", G, self.B)  # sigma

    def rank(self, may_add: bool, n_best: int) -> list[tuple[float, int, int]]:
        """Return score, dropped and added column of the best moves, best first; -1 is none."""
        problem, rows, n = self.problem, self.rows, self.problem.n_columns
        price, v = problem.lam * problem.cost, np.maximum(np.diag(self.V), 1e-300)
        gain = np.vstack([self.slope, self.slope + self.B * (self.x / v)[:, None]])
        curve = np.maximum(self.left, 1e-6 * self.total + 1e-300)
        curve = curve + np.vstack([np.zeros(n), self.B**2 / v[:, None]])
        scores = np.zeros((len(rows) + 1, n + 1))  # without a drop first, without an addition last
        scores[:, :n] = np.where(gain > 0, price - 0.5 * gain * gain / curve, np.inf)
        scores[1:] += (0.5 * self.x**2 / v - price[rows])[:, None]
        # Free columns are in every refit and never in a move.
        scores[:, np.append(rows, problem.free)] = np.inf
        scores[1:][problem.cost[rows] == 0] = np.inf
        scores[0, slice(None) if not may_add else n] = np.inf
        best = np.argsort(scores, axis=None, kind="stable")[:n_best]
        best = best[np.isfinite(scores.ravel()[best])]
        drop, add = np.divmod(best, n + 1)
        drops, adds = np.append(-1, rows)[drop], np.where(add < n, add, -1)
        return list(zip(scores[drop, add].tolist(), drops.tolist(), adds.tolist(), strict=True))

    def best_addition(self) -> tuple[int, float] | None:
        """Return the column that promises the largest fall of the risk, and its weight."""
        curve = np.maximum(self.left, 1e-3 * self.total)
        may_add = (self.problem.cost > 0) & (self.slope > 0)
        may_add[self.rows] = False
        if not may_add.any():
            return None
        j = int(np.argmax(np.where(may_add, self.slope**2 / curve, -np.inf)))
        return j, float(self.slope[j] / curve[j])

    def eliminated(self, n_drop: int) -> np.ndarray:
        """Return the columns whose loss costs least, dropped one after the other.

        Dropping j costs w_j^2 / 2 V_jj and moves the others by -V_.j w_j / V_jj.
        """
        x, V = self.x, self.V
        may_drop = self.problem.cost[self.rows] > 0
        n_drop = min(n_drop, int(np.count_nonzero(may_drop)))
        dropped = np.empty(n_drop, dtype=np.intp)
        for t in range(n_drop):
            loss = np.where(may_drop, x * x / np.maximum(np.diag(V), 1e-300), np.inf)
            j = dropped[t] = int(np.argmin(loss))
            x = x - V[:, j] * (x[j] / V[j, j])
            V = V - np.outer(V[:, j], V[j]) / V[j, j]
            may_drop[j] = False
        return self.rows[dropped]
