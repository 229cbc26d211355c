"""Other people's stumps: one adapter for each rival of search.py.

A booster is run for many rounds at several learning rates. "As it is" are its first k rounds
with its own weights; "refitted" are its first k distinct stumps with the best weights for the
objective of the task. A selector chooses k columns of a coarse dictionary (at most 63 quantile
thresholds a feature), whose weights are always refitted.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
from stump_models import Cut, StumpModel, Task

RATES = (1.0, 0.3)
ROUNDS_PER_LEARNER = 3  # boosters choose stumps again and again
N_THRESHOLDS = 63
N_PENALTIES = 12  # of the l1 path

Answers = dict[str, dict[int, StumpModel]]  # by the name of the contender and by size


# -- boosters -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Term:
    """One round: what it adds to the score below and above its threshold."""

    feature: int
    threshold: float
    below: float
    above: float

    @property
    def cut(self) -> Cut:
        return self.feature, self.threshold


@dataclass(frozen=True)
class Boosted:
    """A score before the first round, and the rounds."""

    base: float
    terms: list[Term]

    def first(self, n_rounds: int) -> StumpModel:
        """Return the model after some rounds: a round is a stump and a constant."""
        weights: dict[Cut, float] = {}
        constant = self.base
        for term in self.terms[:n_rounds]:
            weights[term.cut] = weights.get(term.cut, 0.0) + (term.above - term.below) / 2
            constant += (term.above + term.below) / 2
        return StumpModel(weights, constant)


Booster = Callable[[Task, int, float], Boosted]


def by_boosting(
    name: str, booster: Booster, rates: Sequence[float], task: Task, sizes: Sequence[int]
) -> Answers:
    """Return the best models of all learning rates, as they are and refitted."""
    n_rounds = ROUNDS_PER_LEARNER * max(sizes)
    runs = [booster(task, n_rounds, rate) for rate in rates]
    plain, refitted = {}, {}
    for k in sizes:
        n_stumps = k if task.has_intercept else k - 1
        plain[k] = min((run.first(n_stumps) for run in runs), key=task.objective)
        models = [task.best_refit([term.cut for term in run.terms], k) for run in runs]
        refitted[k] = min(models, key=task.objective)
    return {name: plain, f"{name}, refitted": refitted}


def _log_odds(task: Task) -> float:
    """Return the best constant score: it is half as large for the exponential loss."""
    share = np.mean(task.y > 0)
    return float(np.log(share / (1 - share))) * (0.5 if task.loss == "exponential" else 1.0)


def _exponential(labels: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return gradient and curvature of the exponential loss for labels 0 and 1."""
    signs = 2.0 * labels - 1.0
    values = np.exp(np.minimum(-signs * scores, 50.0))
    return -signs * values, values


def gradient_boosting(task: Task, n_rounds: int, rate: float) -> Boosted:
    from sklearn.ensemble import GradientBoostingClassifier

    loss = "exponential" if task.loss == "exponential" else "log_loss"
    model = GradientBoostingClassifier(
        loss=loss, max_depth=1, n_estimators=n_rounds, learning_rate=rate, random_state=0
    )
    model.fit(task.X, task.y)
    trees = [row[0].tree_ for row in model.estimators_ if row[0].tree_.node_count == 3]
    terms = []
    for tree in trees:
        below, above = (float(rate * tree.value[leaf, 0, 0]) for leaf in (1, 2))
        terms.append(Term(int(tree.feature[0]), float(tree.threshold[0]), below, above))
    return Boosted(_log_odds(task), terms)


def adaboost(task: Task, n_rounds: int, rate: float) -> Boosted:
    from sklearn.ensemble import AdaBoostClassifier

    model = AdaBoostClassifier(n_estimators=n_rounds, learning_rate=rate, random_state=0)
    model.fit(task.X, task.y)
    scale = 0.5 if task.loss == "exponential" else 1.0  # its weights are log odds
    terms = []
    for estimator, weight in zip(model.estimators_, model.estimator_weights_, strict=False):
        tree = estimator.tree_
        if tree.node_count == 3:
            votes = np.where(tree.value[1:, 0, 1] > tree.value[1:, 0, 0], 1.0, -1.0)
            below, above = (float(scale * weight * vote) for vote in votes)
            terms.append(Term(int(tree.feature[0]), float(tree.threshold[0]), below, above))
    return Boosted(0.0, terms)


def xgboost(task: Task, n_rounds: int, rate: float, min_weight: float = 0.0) -> Boosted:
    """``min_weight`` is the least curvature of the loss in a leaf."""
    from xgboost import XGBClassifier

    base = _log_odds(task)
    model = XGBClassifier(
        objective=_exponential if task.loss == "exponential" else "binary:logistic",
        base_score=1.0 / (1.0 + np.exp(-base)),  # a probability
        n_estimators=n_rounds,
        max_depth=1,
        learning_rate=rate,
        tree_method="exact",
        min_child_weight=min_weight,
        n_jobs=1,
    )
    model.fit(task.X, (task.y > 0).astype(int))
    dumped = model.get_booster().get_dump(dump_format="json")
    trees = [json.loads(text) for text in dumped]
    return Boosted(base, [_xgboost_term(tree) for tree in trees if "split" in tree])


def _xgboost_term(tree: dict[str, Any]) -> Term:
    """XGBoost sends x < c left, in float32; ours sends x > t right."""
    threshold = np.nextafter(np.float32(tree["split_condition"]), np.float32(-np.inf))
    leaf = {child["nodeid"]: float(child["leaf"]) for child in tree["children"]}
    feature = int(tree["split"].removeprefix("f"))
    return Term(feature, float(threshold), leaf[tree["yes"]], leaf[tree["no"]])


def lightgbm(task: Task, n_rounds: int, rate: float, min_rows: int = 1) -> Boosted:
    """``min_rows`` is the least number of rows in a leaf."""
    from lightgbm import LGBMClassifier

    logging.getLogger("lightgbm").setLevel(logging.ERROR)
    model = LGBMClassifier(
        objective=_exponential if task.loss == "exponential" else "binary",
        n_estimators=n_rounds,
        num_leaves=2,
        learning_rate=rate,
        min_child_samples=min_rows,
        n_jobs=1,
        verbose=-1,
    )
    model.fit(task.X, (task.y > 0).astype(int))
    trees = [tree["tree_structure"] for tree in model.booster_.dump_model()["tree_info"]]
    return Boosted(0.0, [_lightgbm_term(tree) for tree in trees if "threshold" in tree])


def _lightgbm_term(tree: dict[str, Any]) -> Term:
    below, above = (float(tree[side]["leaf_value"]) for side in ("left_child", "right_child"))
    return Term(int(tree["split_feature"]), float(tree["threshold"]), below, above)


# -- selectors of columns -------------------------------------------------------------------


def coarse_columns(task: Task, n_thresholds: int = N_THRESHOLDS) -> tuple[list[Cut], np.ndarray]:
    """Return cuts at quantiles and their answers, -1.0 and +1.0, one column each."""
    shares = np.arange(1, n_thresholds + 1) / (n_thresholds + 1)
    cuts = []
    for j, x in enumerate(task.X.T):
        thresholds = np.unique(np.quantile(x, shares, method="lower"))
        cuts += [(j, float(t)) for t in thresholds if t < x.max()]
    answers = [np.where(task.X[:, j] > t, 1.0, -1.0) for j, t in cuts]
    return cuts, np.asfortranarray(np.column_stack(answers))


def _heaviest(cuts: list[Cut], weights: np.ndarray) -> list[Cut]:
    """Return the cuts of nonzero weight, heaviest first."""
    order = np.argsort(-np.abs(weights), kind="stable")
    return [cuts[j] for j in order if weights[j] != 0]


def abess(task: Task, sizes: Sequence[int]) -> Answers:
    from abess.linear import LogisticRegression

    cuts, columns = coarse_columns(task)
    found = {}
    for k in sizes:
        model = LogisticRegression(support_size=min(k, len(cuts)), fit_intercept=task.has_intercept)
        model.fit(columns, (task.y > 0).astype(int))
        found[k] = task.best_refit(_heaviest(cuts, np.ravel(model.coef_)), k)
    return {"abess": found}


def l1_path(task: Task, sizes: Sequence[int], n_penalties: int = N_PENALTIES) -> Answers:
    """The heaviest k of the sparsest solution on the path that has k columns or more."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import l1_min_c

    cuts, columns = coarse_columns(task)
    least = l1_min_c(columns, task.y, loss="log", fit_intercept=task.has_intercept)
    path: list[list[Cut]] = []
    for penalty in least * np.logspace(0.2, 2.5, n_penalties):
        model = LogisticRegression(
            solver="liblinear",
            l1_ratio=1.0,
            C=penalty,
            fit_intercept=task.has_intercept,
            intercept_scaling=100.0,  # liblinear penalises the intercept too
            random_state=0,
        )
        path.append(_heaviest(cuts, model.fit(columns, task.y).coef_[0]))
        if len(path[-1]) >= max(sizes):
            break
    found = {}
    for k in sizes:
        enough = next((chosen for chosen in path if len(chosen) >= k), path[-1])
        found[k] = task.best_refit(enough, k)
    return {"l1 path": found}


def fastsparsegams(task: Task, sizes: Sequence[int]) -> Answers:
    """In a process of its own: its exponential mode is known to crash."""
    cuts, columns = coarse_columns(task)
    arguments = (columns, task.y, task.loss, max(sizes), task.has_intercept)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        supports = pool.submit(_fastsparsegams_path, *arguments).result()
    path = [_heaviest(cuts, weights) for weights in supports]
    found = {}
    for k in sizes:
        models = [task.best_refit(chosen, k) for chosen in path if len(chosen) <= k]
        found[k] = min(models or [task.refit([])], key=task.objective)
    return {"fastsparsegams": found}


def _fastsparsegams_path(
    columns: np.ndarray, y: np.ndarray, loss: str, largest: int, has_intercept: bool
) -> list[np.ndarray]:
    """Return the weights of every solution on the path."""
    from fastsparsegams import fit

    if loss == "exponential":
        columns = np.asfortranarray(columns > 0, dtype=float)  # 0 and 1 is all it takes
    model = fit(
        columns,
        y.astype(float),
        loss=loss.capitalize(),
        penalty="L0",
        algorithm="CDPSI",
        max_support_size=largest,
        intercept=has_intercept,
    )
    return list(model.coeffs[0].toarray().T)


PEERS: dict[str, Callable[[Task, Sequence[int]], Answers]] = {
    "GradientBoosting": partial(by_boosting, "GradientBoosting", gradient_boosting, RATES),
    "AdaBoost": partial(by_boosting, "AdaBoost", adaboost, RATES),
    "XGBoost": partial(by_boosting, "XGBoost", xgboost, RATES),
    "LightGBM": partial(by_boosting, "LightGBM", lightgbm, RATES),
    "abess": abess,
    "fastsparsegams": fastsparsegams,
    "l1 path": l1_path,
}
ONLY_LOGISTIC = {"l1 path"}
