"""Boosted stumps whose settings, and on request whose size, inner cross-validation chooses.

A booster is run once per fold and option (a learning rate, and what else may be chosen). Every
prefix of a run is a model, so that one run serves all sizes and both ways to charge them: by
rounds, or by distinct stumps, where the model of size k is the longest prefix with at most k of
them (rounds that choose a stump again are free).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from rivals import Boosted, Booster
from sklearn.model_selection import StratifiedKFold
from stump_models import Cut, StumpModel, Task

LARGEST = 30  # stumps that a method may choose by itself
N_FOLDS = 5
CHARGES = ("stumps", "rounds")


@dataclass(frozen=True)
class Run:
    """One run of a booster, with the best constant in place of what it has before round 1."""

    boosted: Boosted
    constant: float

    def rounds(self, k: int, charge: str) -> int:
        """Return how many rounds size k pays for."""
        if charge == "rounds":
            return min(k, len(self.boosted.terms))
        seen: set[Cut] = set()
        for n, term in enumerate(self.boosted.terms):
            seen.add(term.cut)
            if len(seen) > k:
                return n
        return len(self.boosted.terms)

    def model(self, k: int, charge: str) -> StumpModel:
        n = self.rounds(k, charge)
        return self.boosted.first(n) if n else StumpModel({}, self.constant)

    def staged(self, X: np.ndarray) -> np.ndarray:
        """Return the scores after 0, 1, 2, ... rounds, one row each."""
        scores = np.empty((len(self.boosted.terms) + 1, len(X)))
        f = np.full(len(X), self.boosted.base)
        scores[0] = self.constant
        for n, term in enumerate(self.boosted.terms):
            f = f + np.where(X[:, term.feature] > term.threshold, term.above, term.below)
            scores[n + 1] = f
        return scores


Option = tuple[Booster, float]  # with its learning rate


def run(option: Option, task: Task, n_rounds: int) -> Run:
    booster, rate = option
    share = float(np.mean(task.y > 0))
    return Run(booster(task, n_rounds, rate), float(np.log(share / (1.0 - share))))


@dataclass(frozen=True)
class Tuned:
    """Losses of all rows out of fold, and the runs on all rows; the first axis are the options."""

    losses: dict[str, np.ndarray]  # charge -> options x sizes 0..LARGEST x rows
    runs: list[Run]

    def best_options(self, charge: str) -> np.ndarray:
        """Return the option of least loss out of fold for every size."""
        return self.losses[charge].mean(axis=2).argmin(axis=0)

    def at(self, k: int, charge: str) -> StumpModel:
        return self.runs[self.best_options(charge)[k]].model(k, charge)

    def chosen(self, rule: Callable[[np.ndarray], int], charge: str = "stumps") -> StumpModel:
        """Return the model whose size a rule chooses from the losses of sizes and rows."""
        best = self.best_options(charge)
        return self.at(rule(self.losses[charge][best, np.arange(LARGEST + 1)]), charge)


def tune(options: Sequence[Option], task: Task, n_rounds: int) -> Tuned:
    """Cross-validate every option at every size; folds are the same for all boosters."""
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=0)
    shape = (len(options), LARGEST + 1, len(task.y))
    scores = {charge: np.empty(shape) for charge in CHARGES}
    for inside, outside in folds.split(task.X, task.y):
        part = replace(task, X=np.ascontiguousarray(task.X[inside]), y=task.y[inside])
        for i, option in enumerate(options):
            found = run(option, part, n_rounds)
            staged = found.staged(task.X[outside])
            for charge in CHARGES:
                for k in range(LARGEST + 1):
                    scores[charge][i, k, outside] = staged[found.rounds(k, charge)]
    losses = {charge: np.logaddexp(0.0, -task.y * s) for charge, s in scores.items()}
    return Tuned(losses, [run(option, task, n_rounds) for option in options])


# -- rules for the size, from losses of sizes (rows) and examples (columns) -----------------


def least(losses: np.ndarray) -> int:
    """Return the size of least mean loss."""
    return int(losses.mean(axis=1).argmin())


def one_standard_error(losses: np.ndarray) -> int:
    """Return the smallest size within one standard error of the least mean loss."""
    means, best = losses.mean(axis=1), least(losses)
    error = losses[best].std(ddof=1) / np.sqrt(losses.shape[1])
    return int(np.flatnonzero(means <= means[best] + error)[0])


def paired(losses: np.ndarray) -> int:
    """Return the smallest size whose mean excess over the best is within its standard error."""
    excess = losses - losses[least(losses)]
    errors = excess.std(axis=1, ddof=1) / np.sqrt(losses.shape[1])
    return int(np.flatnonzero(excess.mean(axis=1) <= errors)[0])


RULES: dict[str, Callable[[np.ndarray], int]] = {
    "1-SE": one_standard_error,
    "paired": paired,
    "least": least,
}
