"""Everybody who takes part in data_kinds.py: kinds of data, their tables, sizes and contenders.

To add a kind, add it to KINDS: names of tables, how to make one of them for a split, and
contenders, functions of training rows and sizes that return models by name and size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import data_kinds_tables as tables
import numpy as np
import pandas as pd
from data_kinds_rivals import (
    N_FOLDS,
    Booster,
    Model,
    Probabilities,
    cart,
    figs,
    hist_gradient_boosting,
    lightgbm,
    tuned,
    xgboost,
    xgboost_vector,
)
from data_kinds_tables import Table
from models import OWN

from totalqboost import Ensemble, TotalQBoostClassifier, frontier

FEATURE_COSTS = (0, 1, 2, 4, 8, 16)
MAX_FEATURES = (2, 4, 8)
FIXED_SIZE = 20

Form = Callable[[pd.DataFrame], pd.DataFrame]
Found = dict[str, dict[Any, Model]]  # name -> size or OWN -> model
Contender = Callable[[pd.DataFrame, np.ndarray, Sequence[int]], Found]


# -- ours -----------------------------------------------------------------------------------


def _same(X: pd.DataFrame) -> pd.DataFrame:
    return X


def model_of(ensemble: Ensemble, form: Form = _same) -> Probabilities:
    """Return an ensemble that sees a table in another form."""
    features = {feature for learner in ensemble.learners for feature in learner.features}
    return Probabilities(
        lambda X: ensemble.predict_proba(form(X)), ensemble.n_comparisons, len(features)
    )


def by_frontier(
    X: pd.DataFrame, y: np.ndarray, sizes: Sequence[int], form: Form = _same, **settings: Any
) -> dict[Any, Model]:
    """The ensemble of k comparisons on one frontier, or the largest below it."""
    points = list(frontier(form(X), y, max_learners=max(sizes), random_state=0, **settings))
    found: dict[Any, Model] = {}
    for k in sizes:
        within = [p.ensemble for p in points if p.ensemble.n_comparisons <= k]
        found[k] = model_of(max(within, key=lambda ensemble: ensemble.n_comparisons), form)
    return found


def ours(
    X: pd.DataFrame, y: np.ndarray, sizes: Sequence[int], name: str = "ours", **settings: Any
) -> Found:
    return {name: by_frontier(X, y, sizes, **settings)}


def ours_imputed(X: pd.DataFrame, y: np.ndarray, sizes: Sequence[int]) -> Found:
    """Medians of the training rows in place of missing values."""
    form = partial(tables.imputed, of=X)
    return {"ours, medians": by_frontier(X, y, sizes, form)}


def ours_one_hot(X: pd.DataFrame, y: np.ndarray, sizes: Sequence[int]) -> Found:
    columns = tables.one_hot(X).columns

    def form(X: pd.DataFrame) -> pd.DataFrame:
        return tables.one_hot(X).reindex(columns=columns, fill_value=0.0)

    return {"ours, one-hot": by_frontier(X, y, sizes, form)}


def ours_ordinal(X: pd.DataFrame, y: np.ndarray, sizes: Sequence[int]) -> Found:
    return {"ours, ordinal": by_frontier(X, y, sizes, tables.ordinal)}


def ours_chosen(X: pd.DataFrame, y: np.ndarray, sizes: Sequence[int]) -> Found:
    """Stumps or pairs, by cross-validation at every size."""
    offered = ["stumps", "pairs"]
    return {"ours, chosen": by_frontier(X, y, sizes, dictionary=offered, cv=N_FOLDS)}


def priced(X: pd.DataFrame, y: np.ndarray, sizes: Sequence[int]) -> Found:
    """The default fit with prices of features, and with limits on their number."""
    settings: dict[str, dict[str, Any]] = {
        f"feature_costs={cost}": {"feature_costs": cost} for cost in FEATURE_COSTS
    }
    settings |= {f"max_features={limit}": {"max_features": limit} for limit in MAX_FEATURES}
    found: Found = {}
    for name, setting in settings.items():
        model = TotalQBoostClassifier(random_state=0, **setting).fit(X, y)
        found[name] = {OWN: model_of(model.ensemble_)}
    return found


# -- rivals ---------------------------------------------------------------------------------


def rival(
    name: str, booster: Booster, X: pd.DataFrame, y: np.ndarray, sizes: Sequence[int]
) -> Found:
    return {name: dict(tuned(booster, X, y, sizes))}


def tree(X: pd.DataFrame, y: np.ndarray, sizes: Sequence[int]) -> Found:
    return {"CART": dict(cart(X, y, sizes))}


def sum_of_trees(X: pd.DataFrame, y: np.ndarray, sizes: Sequence[int]) -> Found:
    return {"FIGS": dict(figs(X, y, sizes))}


def fixed_lightgbm(X: pd.DataFrame, y: np.ndarray, sizes: Sequence[int]) -> Found:
    """Twenty stumps, their settings by cross-validation: how many features do they look at?"""
    models = tuned(lightgbm, X, y, [FIXED_SIZE])
    return {f"LightGBM, {FIXED_SIZE} stumps": {OWN: models[FIXED_SIZE]}}


BOOSTERS: dict[str, Contender] = {
    "LightGBM": partial(rival, "LightGBM", lightgbm),
    "XGBoost": partial(rival, "XGBoost", xgboost),
    "HistGradientBoosting": partial(rival, "HistGradientBoosting", hist_gradient_boosting),
}


# -- kinds ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """Tables of one kind, and who is compared on them."""

    names: tuple[str, ...]
    load: Callable[[str, int], Table]  # name, split
    sizes: tuple[int, ...]
    contenders: dict[str, Contender]


def _injected(name: str, split: int) -> Table:
    data, way, share = name.split(", ")
    return tables.injected(data, way, float(share.removesuffix(" %")) / 100.0, split)


INJECTED = tuple(
    f"{data}, {way}, {100 * share:.0f} %"
    for way in tables.WAYS
    for share in tables.SHARES
    for data in tables.COMPLETE
)
ON_MISSING: dict[str, Contender] = {"ours": ours, "ours, medians": ours_imputed, **BOOSTERS}
ON_CATEGORIES: dict[str, Contender] = {
    "ours": ours,
    "ours, one-hot": ours_one_hot,
    "ours, ordinal": ours_ordinal,
    **BOOSTERS,
}
SMALL = (5, 10, 20)
KINDS = {
    "classes": Kind(
        tuple(tables.CLASSES),
        lambda name, split: tables.CLASSES[name](),
        (5, 10, 20, 40),
        {
            "ours, joint": partial(ours, name="ours, joint", multiclass="joint"),
            "ours, per class": partial(ours, name="ours, per class", multiclass="per_class"),
            "ours, shared": partial(ours, name="ours, shared", multiclass="shared"),
            **BOOSTERS,
            "XGBoost, vectors": partial(rival, "XGBoost, vectors", xgboost_vector),
            "CART": tree,
        },
    ),
    "missing": Kind(
        tuple(tables.MISSING), lambda name, split: tables.MISSING[name](), SMALL, ON_MISSING
    ),
    "injected": Kind(INJECTED, _injected, SMALL, ON_MISSING),
    "categories": Kind(
        tuple(tables.CATEGORIES),
        lambda name, split: tables.CATEGORIES[name](),
        SMALL,
        ON_CATEGORIES,
    ),
    "identity": Kind(tables.WITH_IDENTITY, tables.with_identity, SMALL, ON_CATEGORIES),
    "prices": Kind(
        ("wdbc", "ionosphere", "magic", "spambase", "sonar"),
        lambda name, split: tables.complete(name),
        (),
        {"ours": priced, "LightGBM": fixed_lightgbm},
    ),
    "pairs": Kind(
        ("banana", "image", "ringnorm", "bupa", "heart", "pima", "phoneme", "ionosphere", "sonar"),
        lambda name, split: tables.complete(name),
        (4, 8, 16),
        {
            "ours, stumps": partial(ours, name="ours, stumps"),
            "ours, pairs": partial(ours, name="ours, pairs", dictionary="pairs"),
            "ours, chosen": ours_chosen,
            "LightGBM": BOOSTERS["LightGBM"],
            "CART": tree,
            "FIGS": sum_of_trees,
        },
    ),
}
