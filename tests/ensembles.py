"""Ensembles of all kinds for tests, and tables for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from totalqboost import Constant, Ensemble, Stump
from totalqboost.learners import CategorySet, Feature, Learner, Missing

CITIES = ("Basel", "Bern", "Genf", "Zug", None)
FEATURES = (
    Feature("age", has_missing=True),
    Feature("city", CITIES, True),
    Feature("dose"),
    Feature("unused"),
    Feature("is_new", (False, True)),
)


def mixed_learners(seed: int, n: int = 14) -> tuple[Learner, ...]:
    """Cuts with missing values on either side, "missing", sets of categories, constants."""
    rng = np.random.default_rng(seed)

    def one(kind: int) -> Learner:
        polarity = int(rng.choice([-1, 1]))
        if kind == 0:
            size = int(rng.integers(1, 4))
            codes = tuple(sorted(rng.choice(5, size, replace=False).tolist()))
            return CategorySet(1, codes, polarity)
        if kind == 1:
            return Missing(0, polarity)
        if kind == 2:
            return CategorySet(4, (1,), polarity)
        if kind == 3:
            return Constant(polarity)
        feature = int(rng.choice([0, 2]))
        return Stump(feature, float(rng.normal()), polarity, bool(rng.integers(2)))

    return tuple(one(kind) for kind in rng.permutation(n) % 7)


def mixed_ensemble(seed: int, n_classes: int = 2, n: int = 14) -> Ensemble:
    """An ensemble of such learners."""
    rng = np.random.default_rng(seed + 100)
    learners = mixed_learners(seed, n)
    if n_classes == 2:
        positive = tuple((rng.random(n) + 0.01).tolist())
        return Ensemble(learners, positive, 0.3, ("no", "yes"), FEATURES, "logistic")
    weights = tuple(map(tuple, rng.normal(size=(n, n_classes)).tolist()))
    intercept = tuple(rng.normal(size=n_classes).tolist())
    classes = tuple("abcdefghijklmnopqrstuvwxyz"[:n_classes])
    return Ensemble(learners, weights, intercept, classes, FEATURES, "multinomial")


def mixed_frame(seed: int, n: int = 60) -> Any:
    """A table as people have it: text, gaps, booleans, a city that training has not seen."""
    rng = np.random.default_rng(seed)
    age, dose = rng.normal(size=n), rng.normal(size=n)
    age[rng.random(n) < 0.3] = np.nan
    dose[rng.random(n) < 0.1] = np.nan
    cities, whatever = np.array([*CITIES, "Chur"]), np.array(["whatever", None])
    return pd.DataFrame(
        {
            "age": age,
            "city": rng.choice(cities, n),
            "dose": dose,
            "unused": rng.choice(whatever, n),
            "is_new": rng.random(n) < 0.5,
        }
    )


def internal(frame: Any) -> np.ndarray:
    """The same table as learners look at it, written out."""
    codes = {label: float(code) for code, label in enumerate(CITIES)}
    return np.column_stack(
        [
            frame["age"],
            [codes.get(None if pd.isna(city) else city, -1.0) for city in frame["city"]],
            frame["dose"],
            np.zeros(len(frame)),
            frame["is_new"].astype(float),
        ]
    )
