"""Moves of local search that give up whole features, where features have a price or a limit.

No single column brings a refund while another one reads the same feature. With S the kept
columns, D those of them that read feature g and V = inverse of G_SS, dropping D costs about

    x_D' (V_DD)^-1 x_D / 2 - prices of D - prices of the features that only D reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from totalqboost.kernels.groups import Groups

if TYPE_CHECKING:
    from totalqboost.solvers.descent import Descent

__all__ = ["FeatureMoves"]


class FeatureMoves:
    """Ranks features by what giving them up costs, for one descent."""

    def __init__(self, descent: Descent):
        self.descent = descent
        self.groups: Groups = descent.problem.groups
        self.reads = descent.problem.group_reads

    def without(self, w: np.ndarray, g: int) -> np.ndarray:
        """Return the weights with those of the columns that read feature g set to zero."""
        return np.where(self.reads[:, g], 0.0, w)

    def read(self, w: np.ndarray) -> np.ndarray:
        """Return the features that kept columns read."""
        return np.flatnonzero(self.reads[w > 0].any(axis=0))

    def improve(self, w: np.ndarray, value: float, least: float) -> tuple[np.ndarray, float] | None:
        """Return the first verified improvement by giving up a feature, if there is one."""
        descent = self.descent
        features, losses = self.losses(w)
        for g in features[np.argsort(losses, kind="stable")][: descent.settings.n_verified]:
            if descent.remaining <= 0:
                break
            there = self.without(w, g)
            trial, trial_value = descent.refit(descent.support(there), there)
            if trial_value < value - least:
                return trial, trial_value
        return None

    def cut(self, w: np.ndarray) -> np.ndarray:
        """Give up the features that are missed least until at most as many as allowed are read."""
        while len(self.read(w)) > self.groups.limit:
            if self.descent.remaining > 1:
                w, _ = self.descent.refit(self.descent.support(w), w)
            features, losses = self.losses(w)
            n_drop = max(1, (len(features) - self.groups.limit) // 4)
            if len(features) > self.groups.limit:
                for g in features[np.argsort(losses, kind="stable")[:n_drop]]:
                    w = self.without(w, g)
        return w

    def best_elimination(self) -> np.ndarray:
        """Return the best set on the way from all features to none, the least useful first."""
        descent, problem = self.descent, self.descent.problem
        w = best = np.zeros(problem.n_columns)
        best_value, support = np.inf, descent.columns
        while descent.remaining > 1:
            w, value = descent.refit(support, w)
            if value < best_value and problem.is_feasible(w):
                best, best_value = w, value
            features, losses = self.losses(w)
            if not len(features):
                break
            for g in features[np.argsort(losses, kind="stable")[: max(1, len(features) // 15)]]:
                w = self.without(w, g)
            support = descent.support(w)
        return best

    def losses(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the features that are read, and what giving up each of them costs."""
        rows, V = self.descent.inverse(w)
        x, reads = w[rows], self.reads[rows]
        counts = reads[x > 0].sum(axis=0)
        features = self.read(w)
        losses = np.empty(len(features))
        for i, g in enumerate(features):
            D = np.flatnonzero(reads[:, g] & (x > 0))
            is_last = (counts > 0) & (reads[D].sum(axis=0) == counts)
            refund = self.groups.price[is_last].sum()
            losses[i] = 0.5 * x[D] @ np.linalg.solve(V[np.ix_(D, D)], x[D])
            losses[i] -= self.descent.problem.prices[rows[D]].sum() + refund
        return features, losses
