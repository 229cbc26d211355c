"""Weighted stumps whoever chose them, and the objective that search.py compares them by.

The objective is written here once more, in plain NumPy from thresholds and weights, so that no
contender's own number is trusted, ours included.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from totalqboost import Ensemble, MasterProblem, losses
from totalqboost.learners import Constant, Stump
from totalqboost.refit import refit

Cut = tuple[int, float]  # feature, threshold


@dataclass(frozen=True)
class StumpModel:
    """f(x) = constant + sum of weight * (+1 if x[feature] > threshold else -1)."""

    weights: dict[Cut, float] = field(default_factory=dict)  # of either sign
    constant: float = 0.0

    def scores(self, X: np.ndarray) -> np.ndarray:
        f = np.full(len(X), self.constant)
        for (feature, threshold), weight in self.weights.items():
            f += np.where(X[:, feature] > threshold, weight, -weight)
        return f


def of_ensemble(ensemble: Ensemble) -> StumpModel:
    """Return the same function of x; opposite stumps on one cut are added up."""
    weights: dict[Cut, float] = {}
    constant = ensemble.intercept
    for learner, weight in zip(ensemble.learners, ensemble.weights, strict=True):
        if isinstance(learner, Stump):
            cut = (learner.feature, float(learner.threshold))
            weights[cut] = weights.get(cut, 0.0) + weight * learner.polarity
        elif isinstance(learner, Constant):
            constant += weight * learner.polarity
        else:
            raise TypeError(f"a stump or a constant is needed, got {learner!r}")
    return StumpModel(weights, constant)


@dataclass(frozen=True, eq=False)
class Task:
    """Training rows and what is to be minimised: mean loss + nu * sum of absolute weights.

    With ``has_intercept`` the constant is free; without (the paper's form) it counts as a
    learner and pays nu.
    """

    X: np.ndarray
    y: np.ndarray  # -1 and +1
    loss: str
    nu: float
    has_intercept: bool

    def size(self, model: StumpModel) -> int:
        """Return the number of learners that count."""
        n_stumps = sum(weight != 0 for weight in model.weights.values())
        return n_stumps + (model.constant != 0 and not self.has_intercept)

    def objective(self, model: StumpModel) -> float:
        """Return risk + nu * sum of absolute weights, the intercept free of nu."""
        z = self.y * model.scores(self.X)
        if self.loss == "exponential":
            values = np.exp(np.minimum(-z, 700.0))
        else:
            values = np.logaddexp(0.0, -z)
        total = float(np.sum(np.abs(list(model.weights.values()))))
        if not self.has_intercept:
            total += abs(model.constant)
        return float(np.mean(values)) + self.nu * total

    def refit(self, cuts: Sequence[Cut], has_constant: bool | None = None) -> StumpModel:
        """Return the best weights, of either sign, on these cuts.

        ``has_constant`` says whether there is a constant; by default if it is free.
        """
        has_constant = self.has_intercept if has_constant is None else has_constant
        columns = [self.y] if has_constant else []
        columns += [np.where(self.X[:, j] > t, self.y, -self.y) for j, t in cuts]
        if not columns:
            return StumpModel()
        half = np.array(columns, dtype=np.int8)
        cost = np.ones(len(half))
        if self.has_intercept:
            cost[0] = 0.0
        problem = MasterProblem(
            np.vstack([half, -half]), nu=self.nu, cost=np.tile(cost, 2), loss=losses.get(self.loss)
        )
        w = refit(problem, np.arange(2 * len(half)), tol=1e-9)
        signed = w[: len(half)] - w[len(half) :]
        constant = float(signed[0]) if has_constant else 0.0
        return StumpModel(dict(zip(cuts, map(float, signed[has_constant:]), strict=True)), constant)

    def best_refit(self, cuts: Iterable[Cut], k: int) -> StumpModel:
        """Return the best weights on the first k distinct cuts.

        Where the constant counts, k - 1 cuts with the constant are tried too.
        """
        chosen = list(dict.fromkeys(cuts))[:k]
        models = [self.refit(chosen)]
        if not self.has_intercept:
            models.append(self.refit(chosen[: k - 1], has_constant=True))
        return min(models, key=self.objective)
