"""A long search from many starts, for the best known values of search.py.

Starts are the frontiers of random parts of the rows. Their stumps make a pool, from which the
local search chooses k; the best few sets of each size are then improved by swaps with every
stump of the dictionary until none helps. The swaps are written here once more in plain NumPy:
an independent opinion on what can be reached.
"""

from __future__ import annotations

import numpy as np
from stump_models import Cut, StumpModel, Task, of_ensemble

from totalqboost import MasterProblem, frontier, losses
from totalqboost.solvers import LocalSearch

N_POLISHED = 3  # sets of each size that are improved by swaps
N_TRIED = 8  # stumps that are refitted for every learner taken out
SHARE = 0.7  # of the rows in a start
MAX_POOL = 300


def multistart(
    task: Task, given: dict[int, list[list[Cut]]], n_starts: int
) -> dict[int, StumpModel]:
    """Return the best model of each size; sets of cuts may be given to start from."""
    rng = np.random.default_rng(0)
    sizes = sorted(given)
    sets = {k: list(given[k]) for k in sizes}
    for start in range(n_starts):
        n_rows = len(task.y) if start == 0 else round(SHARE * len(task.y))
        rows = rng.permutation(len(task.y))[:n_rows]
        for k, cuts in _frontier_cuts(task, rows, max(sizes), start).items():
            if k in sets:
                sets[k].append(cuts)
    pool = list(dict.fromkeys(cut for k in sizes for cuts in sets[k] for cut in cuts))[:MAX_POOL]
    best: dict[int, StumpModel] = {}
    swaps = Swaps(task)
    for k in sizes:
        models = [task.best_refit(cuts, k) for cuts in [*sets[k], *_others(best)]]
        models.append(_chosen(task, pool, min(models, key=task.objective), k))
        models.sort(key=task.objective)
        polished = [swaps.improved(model, rng) for model in models[:N_POLISHED]]
        best[k] = min(polished, key=task.objective)
    return best


def _others(best: dict[int, StumpModel]) -> list[list[Cut]]:
    return [list(model.weights) for model in best.values()]


def _frontier_cuts(task: Task, rows: np.ndarray, largest: int, seed: int) -> dict[int, list[Cut]]:
    """Return the cuts of every size on some of the rows; an early end stands for all after it."""
    points = frontier(
        task.X[rows],
        task.y[rows],
        max_learners=largest,
        loss=task.loss,
        l1_penalty=task.nu,
        fit_intercept=task.has_intercept,
        random_state=seed,
    )
    found = {point.n_learners: list(of_ensemble(point.ensemble).weights) for point in points}
    last: list[Cut] = []
    for k in range(largest + 1):
        last = found.setdefault(k, last)
    return found


def _chosen(task: Task, pool: list[Cut], start: StumpModel, k: int) -> StumpModel:
    """Return the local search's choice of k from the pool and the cuts of the start."""
    cuts = list(dict.fromkeys([*start.weights, *pool]))
    half = np.array(
        [task.y, *(np.where(task.X[:, j] > t, task.y, -task.y) for j, t in cuts)], dtype=np.int8
    )
    cost = np.ones(len(half))
    cost[0] = 0.0 if task.has_intercept else 1.0
    problem = MasterProblem(
        np.vstack([half, -half]),
        nu=task.nu,
        cost=np.tile(cost, 2),
        loss=losses.get(task.loss),
        max_learners=k,
    )
    signed = np.append(start.constant, [start.weights.get(cut, 0.0) for cut in cuts])
    w = np.concatenate([np.maximum(signed, 0.0), np.maximum(-signed, 0.0)])
    w = LocalSearch().solve(problem, w, np.random.default_rng(0)).w
    signed = w[: len(half)] - w[len(half) :]
    kept = [cut for cut, weight in zip(cuts, signed[1:], strict=True) if weight != 0]
    return task.refit(kept, has_constant=bool(task.has_intercept or signed[0] != 0))


class Swaps:
    """Improve a model by taking one stump out and the best of the whole dictionary in."""

    def __init__(self, task: Task):
        self.task = task
        self.order = np.argsort(task.X, axis=0, kind="stable")
        ordered = np.take_along_axis(task.X, self.order, axis=0)
        self.thresholds = (ordered[:-1] + ordered[1:]) / 2
        self.is_cut = (ordered[:-1] < ordered[1:]) & (self.thresholds < ordered[1:])

    def improved(self, model: StumpModel, rng: np.random.Generator) -> StumpModel:
        """Return a model that no swap improves."""
        value = self.task.objective(model)
        has_constant = model.constant != 0
        unchanged = 0
        queue = list(model.weights)
        while queue and unchanged < len(queue):
            out = queue.pop(0)
            kept = [cut for cut in model.weights if cut != out]
            trials = [
                self.task.refit([*kept, cut], has_constant)
                for cut in self.best_cuts(self.task.refit(kept, has_constant))
                if cut not in kept
            ]
            candidate = min(trials, key=self.task.objective, default=model)
            reached = self.task.objective(candidate)
            unchanged += 1
            if reached < value * (1 - 1e-6):
                model, value, unchanged = candidate, reached, 0
                cuts = list(model.weights)
                queue = [cuts[int(i)] for i in rng.permutation(len(cuts))]
            else:
                queue.append(out)
        return model

    def best_cuts(self, model: StumpModel) -> list[Cut]:
        """Return the cuts of largest second-order gain, one a feature.

        With gradient g and curvature h of a row, the stump c gains
        max(abs(g'c) - nu, 0)^2 / (2 h'(c - m)^2), where m is the mean of c that a free
        intercept takes away (0 in the paper's form).
        """
        task = self.task
        z = task.y * model.scores(task.X)
        slope = np.exp(-z) if task.loss == "exponential" else 1.0 / (1.0 + np.exp(z))
        curvature = slope if task.loss == "exponential" else slope * (1.0 - slope)
        n = len(z)
        g, h = task.y * slope / n, curvature / n
        G = g.sum() - 2.0 * np.cumsum(g[self.order], axis=0)[:-1]
        H = np.full(G.shape, h.sum())
        if task.has_intercept:
            below = np.cumsum(h[self.order], axis=0)[:-1]
            H = 4.0 * below * (h.sum() - below) / h.sum()
        gain = np.maximum(np.abs(G) - task.nu, 0.0) ** 2 / np.maximum(H, 1e-300)
        gain[~self.is_cut] = -1.0
        rows = gain.argmax(axis=0)
        best = gain.max(axis=0)
        features = [j for j in np.argsort(-best, kind="stable")[:N_TRIED] if best[j] > 0]
        return [(int(j), float(self.thresholds[rows[j], j])) for j in features]
