"""Studies of generalization.py with data and a form of their own.

"new user": 5-fold cross-validation of the default against 20 LightGBM stumps, as somebody sees
it who tries both for the first time. "time of CV": seconds of the cross-validated frontier as a
multiple of one frontier.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from totalqboost import TotalQBoostClassifier, datasets, frontier

N_FOLDS = 5
N_ROWS, N_FEATURES, LARGEST = 1000, 20, 20
N_REPEATS = 3

Rows = list[dict[str, Any]]


def new_user() -> Rows:
    """Return accuracy, log-loss (not clipped) and stumps on four data sets."""
    from sklearn.datasets import load_breast_cancer

    data = {name: datasets.load(name) for name in ("heart", "german", "diabetes")}
    X, y = load_breast_cancer(return_X_y=True)
    data["breast cancer (scikit-learn's)"] = X, np.where(y > 0, 1, -1)
    makers = {"ours": TotalQBoostClassifier, "LightGBM": _twenty_stumps}
    return [
        {"data": name, "who": who} | _five_fold(maker, X, y)
        for name, (X, y) in data.items()
        for who, maker in makers.items()
    ]


def _twenty_stumps() -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=20, num_leaves=2, learning_rate=0.3, n_jobs=1, verbose=-1)


def _five_fold(maker: Callable[[], Any], X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    from sklearn.metrics import log_loss
    from sklearn.model_selection import StratifiedKFold

    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=0)
    rows = []
    for train, test in folds.split(X, y):
        model = maker().fit(X[train], y[train])
        p = model.predict_proba(X[test])[:, 1]
        constant = np.full(len(test), np.mean(y[train] > 0))
        rows.append(
            (
                np.mean(model.predict(X[test]) == y[test]),
                log_loss(y[test], p),
                log_loss(y[test], constant),
                _n_stumps(model),
            )
        )
    keys = ("accuracy", "log_loss", "constant_log_loss", "stumps")
    return dict(zip(keys, map(float, np.mean(rows, axis=0)), strict=True))


def _n_stumps(model: Any) -> int:
    """Return the number of distinct stumps."""
    if hasattr(model, "ensemble_"):
        return int(model.ensemble_.n_learners)
    trees = [tree["tree_structure"] for tree in model.booster_.dump_model()["tree_info"]]
    return len({(t["split_feature"], t["threshold"]) for t in trees if "threshold" in t})


def time_of_cv() -> Rows:
    """Return the least CPU seconds of some runs, after one that compiles.

    The default of the cross-validated classifier has five folds and five l1 prices.
    """
    from totalqboost import TotalQBoostClassifierCV

    X, y = datasets.make_twonorm(N_ROWS, seed=0)
    X = X[:, :N_FEATURES]
    settings: dict[str, Any] = {"l1_penalty": 4.0 / N_ROWS, "loss": "logistic"}
    tasks: dict[str, Callable[[], Any]] = {
        "one frontier": lambda: frontier(X, y, max_learners=LARGEST, **settings),
        "5-fold CV over 5 penalties": lambda: TotalQBoostClassifierCV(LARGEST, n_jobs=1).fit(X, y),
    }
    return [{"who": name, "seconds": _least_seconds(task)} for name, task in tasks.items()]


def _least_seconds(task: Callable[[], Any]) -> float:
    task()
    seconds = []
    for _ in range(N_REPEATS):
        began = time.process_time()
        task()
        seconds.append(time.process_time() - began)
    return min(seconds)


STUDIES: dict[str, Callable[[], Rows]] = {"new user": new_user, "time of CV": time_of_cv}
