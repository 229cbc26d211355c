"""Everybody who takes part in generalization.py, as functions of training rows and sizes.

A contender returns models by name and size. The size OWN stands for the one that the method
chooses by itself, from the training rows alone. One call may answer for several names, as one
cross-validation of a booster serves both ways to charge it and every rule for its size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from models import OWN, Contender, Found, Model
from rivals import (
    Booster,
    abess,
    adaboost,
    coarse_columns,
    gradient_boosting,
    l1_path,
    lightgbm,
    xgboost,
)
from search import by_column_generation, by_frontier
from stump_models import StumpModel, Task, of_ensemble
from tree_models import cart, ebm, figs, gosdt
from tuned_boosters import RULES, Option, run, tune

from totalqboost import TotalQBoostClassifier, TotalQBoostClassifierCV
from totalqboost.frontier import FrontierPoint

RATES = (0.1, 0.3, 0.6, 1.0)
FEW_RATES = (0.3, 1.0)  # of scikit-learn's boosters, whose rounds are slow
N_ROUNDS, FEW_ROUNDS = 200, 60
FIXED_RATE, FIXED_SIZE = 0.3, 20  # what nobody tunes
RISK_THRESHOLDS = 15  # per feature, for FasterRisk
FINE_GRID = 60  # penalties of the l1 path
LIGHTGBM = partial(lightgbm, min_rows=20)  # as it comes


# -- ours -----------------------------------------------------------------------------------


def ours(task: Task, sizes: Sequence[int]) -> Found:
    (models,) = by_frontier(task, sizes).values()
    return {"ours": dict(models)}


def ours_exponential(task: Task, sizes: Sequence[int]) -> Found:
    """The paper's loss and its tiny nu, with a free intercept."""
    (models,) = by_frontier(replace(task, loss="exponential", nu=1e-6), sizes).values()
    return {"ours, exponential": {k: _doubled(model) for k, model in models.items()}}


def _doubled(model: StumpModel) -> StumpModel:
    """Half the log odds minimise the exponential loss."""
    weights = {cut: 2.0 * weight for cut, weight in model.weights.items()}
    return StumpModel(weights, 2.0 * model.constant)


def column_generation(task: Task, sizes: Sequence[int]) -> Found:
    (models,) = by_column_generation(task, sizes).values()
    return {"column generation": dict(models)}


def ours_fit(task: Task, sizes: Sequence[int]) -> Found:
    """What a user gets who sets nothing."""
    model = TotalQBoostClassifier(random_state=0).fit(task.X, task.y)
    return {"ours, fit()": {OWN: of_ensemble(model.ensemble_)}}


def ours_cv(task: Task, sizes: Sequence[int]) -> Found:
    """The frontier by cross-validation, and the size that its default rule chooses."""
    model = TotalQBoostClassifierCV(random_state=0).fit(task.X, task.y)
    points = points_at(model, sizes)
    return {"ours CV": {size: of_ensemble(point.ensemble) for size, point in points.items()}}


def points_at(model: TotalQBoostClassifierCV, sizes: Sequence[int]) -> dict[Any, FrontierPoint]:
    """Return the largest points within the sizes, and the one of the size that it chose."""
    found: dict[Any, FrontierPoint] = {}
    for size, k in [(OWN, model.n_learners_), *zip(sizes, sizes, strict=True)]:
        within = [point for point in model.frontier_ if point.n_learners <= k]
        found[size] = max(within, key=lambda point: point.n_learners)
    return found


# -- boosters -------------------------------------------------------------------------------


def _options(*boosters: Booster, rates: Sequence[float] = RATES) -> list[Option]:
    return [(booster, rate) for booster in boosters for rate in rates]


def tuned(
    name: str, options: Sequence[Option], n_rounds: int, task: Task, sizes: Sequence[int]
) -> Found:
    """The settings by cross-validation for each size; then each rule's own size."""
    fitted = tune(options, task, n_rounds)
    found: Found = {
        name: {k: fitted.at(k, "stumps") for k in sizes},
        f"{name}, by rounds": {k: fitted.at(k, "rounds") for k in sizes},
    }
    for rule, choose in RULES.items():
        found[f"{name} CV, {rule}"] = {OWN: fitted.chosen(choose)}
    return found


def fixed(task: Task, sizes: Sequence[int]) -> Found:
    """Twenty stumps of LightGBM at rate 0.3, by either charge, all else as it comes."""
    found = run((LIGHTGBM, FIXED_RATE), task, N_ROUNDS)
    return {
        "LightGBM, 20 rounds": {OWN: found.model(FIXED_SIZE, "rounds")},
        "LightGBM, 20 stumps": {OWN: found.model(FIXED_SIZE, "stumps")},
    }


def constant(task: Task, sizes: Sequence[int]) -> Found:
    share = float(np.mean(task.y > 0))
    return {"constant": {OWN: StumpModel({}, float(np.log(share / (1.0 - share))))}}


# -- selectors ------------------------------------------------------------------------------


def by_abess(task: Task, sizes: Sequence[int]) -> Found:
    return {"abess": dict(abess(task, sizes)["abess"])}


def by_l1_path(task: Task, sizes: Sequence[int]) -> Found:
    return {"l1 path": dict(l1_path(task, sizes, n_penalties=FINE_GRID)["l1 path"])}


def fasterrisk(task: Task, sizes: Sequence[int]) -> Found:
    """Integer points on k columns; its first model counts.

    Its release needs NumPy 1 and pins old versions of all else; it works without the pins.
    """
    from fasterrisk.fasterrisk import RiskScoreOptimizer

    cuts, columns = coarse_columns(task, RISK_THRESHOLDS)
    found: dict[Any, Model] = {}
    for k in sizes:
        optimizer = RiskScoreOptimizer(
            X=(columns > 0).astype(float),
            y=task.y.astype(float),
            k=min(k, len(cuts)),
            parent_size=5,
            child_size=5,
            maxAttempts=20,
            num_ray_search=10,
        )
        optimizer.optimize()
        multiplier, intercept, points = optimizer.get_models(model_index=0)
        halves = np.asarray(points, dtype=float) / multiplier / 2.0  # 0 and 1 become -1 and +1
        weights = {cut: float(w) for cut, w in zip(cuts, halves, strict=True) if w}
        found[k] = StumpModel(weights, float(intercept) / multiplier + float(halves.sum()))
    return {"FasterRisk": found}


OURS: dict[str, Contender] = {
    "ours path": ours,
    "ours CV": ours_cv,
    "ours fit": ours_fit,
    "ours exponential": ours_exponential,
    "column generation": column_generation,
}
PEERS: dict[str, Contender] = {
    "constant": constant,
    "LightGBM fixed": fixed,
    "LightGBM": partial(tuned, "LightGBM", _options(LIGHTGBM, lightgbm), N_ROUNDS),
    "XGBoost": partial(tuned, "XGBoost", _options(xgboost), N_ROUNDS),
    "GradientBoosting": partial(
        tuned, "GradientBoosting", _options(gradient_boosting, rates=FEW_RATES), FEW_ROUNDS
    ),
    "AdaBoost": partial(tuned, "AdaBoost", _options(adaboost, rates=(1.0,)), FEW_ROUNDS),
    "abess": by_abess,
    "l1 path": by_l1_path,
    "EBM": ebm,
    "CART": cart,
    "FIGS": figs,
    "GOSDT": gosdt,
    "FasterRisk": fasterrisk,
}
CONTENDERS = OURS | PEERS
# Of the slow ones; the others run on all.
N_SPLITS = {"FasterRisk": 2, "GOSDT": 3}
