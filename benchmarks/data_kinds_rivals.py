"""Other people's stumps in data_kinds.py, with their own handling of each kind of data.

A booster is run for many rounds; a round has one tree, or one for each class. Size k are its
first rounds with at most k distinct cuts (at least one round, although it may have more): a cut
is what is asked of a row, so that choosing it again, or for another class, is free. Of learning
rates and the least number of rows in a leaf, each size takes those with the least log-loss in
inner cross-validation.
"""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Protocol

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedKFold

RATES = (0.1, 0.3, 1.0)
LEAVES = (3, 20)  # least number of rows in a leaf
N_FOLDS = 3
MOST_ROUNDS = 120  # of two classes
MOST_TREES = 240  # of more

Cut = tuple[Hashable, ...]  # feature and question


class Model(Protocol):
    """What data_kinds.py measures."""

    def probabilities(self, X: pd.DataFrame) -> np.ndarray: ...

    @property
    def n_cuts(self) -> int: ...

    @property
    def n_features(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Probabilities:
    """A function of rows, and how much of a table it looks at."""

    probabilities: Callable[[pd.DataFrame], np.ndarray]
    n_cuts: int
    n_features: int


@dataclass(frozen=True, eq=False)
class Run:
    """The cuts of each round, and the probabilities after some rounds."""

    rounds: list[set[Cut]]
    after: Callable[[pd.DataFrame, int], np.ndarray]

    def n_rounds(self, k: int) -> int:
        """Return how many rounds size k pays for."""
        seen: set[Cut] = set()
        for n, cuts in enumerate(self.rounds):
            seen |= cuts
            if len(seen) > k:
                return max(n, 1)
        return len(self.rounds)

    def model(self, k: int) -> Probabilities:
        n = self.n_rounds(k)
        cuts = set().union(*self.rounds[:n])
        return Probabilities(lambda X: self.after(X, n), len(cuts), len({cut[0] for cut in cuts}))


Booster = Callable[[pd.DataFrame, np.ndarray, float, int], Run]  # learning rate, rows in a leaf


def n_rounds(y: np.ndarray) -> int:
    """Return how many rounds are run, those with a tree for each class fewer."""
    n_classes = int(y.max()) + 1
    return MOST_ROUNDS if n_classes == 2 else max(20, MOST_TREES // n_classes)


def _with_missing(X: pd.DataFrame) -> set[int]:
    """Return the columns in which it matters to which side missing values go."""
    return set(np.flatnonzero(X.isna().any().to_numpy()).tolist())


# -- boosters -------------------------------------------------------------------------------


def lightgbm(X: pd.DataFrame, y: np.ndarray, rate: float, leaf: int) -> Run:
    from lightgbm import LGBMClassifier

    logging.getLogger("lightgbm").setLevel(logging.ERROR)
    model = LGBMClassifier(
        n_estimators=n_rounds(y),
        num_leaves=2,
        learning_rate=rate,
        min_child_samples=leaf,
        min_data_per_group=5 * leaf,  # 100 as it comes
        n_jobs=1,
        verbose=-1,
    )
    model.fit(X, y)
    dumped = model.booster_.dump_model()
    missing = _with_missing(X)
    cuts = [_lightgbm_cuts(info["tree_structure"], missing) for info in dumped["tree_info"]]
    rounds = _by_rounds(cuts, dumped["num_tree_per_iteration"])
    return Run(rounds, lambda X, n: model.predict_proba(X, num_iteration=n))


def _lightgbm_cuts(tree: dict[str, Any], missing: set[int]) -> set[Cut]:
    if "threshold" not in tree:
        return set()
    feature = int(tree["split_feature"])
    side = tree["default_left"] if feature in missing else None
    return {(feature, tree["decision_type"], str(tree["threshold"]), side)}


def xgboost(X: pd.DataFrame, y: np.ndarray, rate: float, leaf: int) -> Run:
    return _xgboost(X, y, rate, leaf, n_rounds(y), {})


def xgboost_vector(X: pd.DataFrame, y: np.ndarray, rate: float, leaf: int) -> Run:
    """One tree for all classes, with a vector in each leaf."""
    return _xgboost(X, y, rate, leaf, MOST_ROUNDS, {"multi_strategy": "multi_output_tree"})


def _xgboost(
    X: pd.DataFrame, y: np.ndarray, rate: float, leaf: int, rounds: int, settings: dict[str, Any]
) -> Run:
    from xgboost import XGBClassifier

    model = XGBClassifier(
        n_estimators=rounds,
        max_depth=1,
        learning_rate=rate,
        tree_method="hist",
        enable_categorical=True,
        min_child_weight=leaf / 20,  # 1 as it comes
        n_jobs=1,
        **settings,
    )
    model.fit(X, y)
    content = json.loads(model.get_booster().save_raw("json"))["learner"]["gradient_booster"]
    missing = _with_missing(X)
    cuts = [_xgboost_cuts(tree, missing) for tree in content["model"]["trees"]]
    per_round = max(1, len(cuts) // rounds)
    return Run(
        _by_rounds(cuts, per_round), lambda X, n: model.predict_proba(X, iteration_range=(0, n))
    )


def _xgboost_cuts(tree: dict[str, Any], missing: set[int]) -> set[Cut]:
    if tree["left_children"][0] < 0:
        return set()
    feature = int(tree["split_indices"][0])
    side = tree["default_left"][0] if feature in missing else None
    return {(feature, tree["split_conditions"][0], tuple(tree["categories"]), side)}


def hist_gradient_boosting(X: pd.DataFrame, y: np.ndarray, rate: float, leaf: int) -> Run:
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        max_iter=n_rounds(y) // 2,  # its rounds are slow
        max_leaf_nodes=2,
        learning_rate=rate,
        min_samples_leaf=leaf,
        categorical_features="from_dtype",
        early_stopping=False,
        random_state=0,
    )
    model.fit(X, y)
    predictors = model._predictors
    missing = bool(_with_missing(X))
    rounds = [set().union(*(_hist_cuts(t, missing) for t in trees)) for trees in predictors]

    def after(X: pd.DataFrame, n: int) -> np.ndarray:
        part = copy.copy(model)
        part._predictors = predictors[:n]
        found: np.ndarray = part.predict_proba(X)
        return found

    return Run(rounds, after)


def _hist_cuts(predictor: Any, missing: bool) -> set[Cut]:
    node = predictor.nodes[0]
    if node["is_leaf"]:
        return set()
    feature, side = int(node["feature_idx"]), bool(node["missing_go_to_left"]) and missing
    if node["is_categorical"]:
        return {(feature, predictor.raw_left_cat_bitsets[node["bitset_idx"]].tobytes(), side)}
    return {(feature, float(node["num_threshold"]), side)}


def _by_rounds(cuts: Sequence[set[Cut]], per_round: int) -> list[set[Cut]]:
    return [set().union(*cuts[i : i + per_round]) for i in range(0, len(cuts), per_round)]


# -- the choice of settings -----------------------------------------------------------------


def losses(probabilities: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the log-loss of each row, probabilities held 1e-4 away from 0."""
    return -np.log(np.maximum(probabilities[np.arange(len(y)), y], 1e-4))


def tuned(
    booster: Booster,
    X: pd.DataFrame,
    y: np.ndarray,
    sizes: Sequence[int],
    rates: Sequence[float] = RATES,
    leaves: Sequence[int] = LEAVES,
) -> dict[int, Model]:
    """Return a model for every size, with the settings of least loss out of fold."""
    options = list(product(rates, leaves))
    total = np.zeros((len(options), len(sizes)))
    for inside, outside in StratifiedKFold(N_FOLDS, shuffle=True, random_state=0).split(X, y):
        for i, option in enumerate(options):
            run = booster(X.iloc[inside], y[inside], *option)
            for j, k in enumerate(sizes):
                p = run.model(k).probabilities(X.iloc[outside])
                total[i, j] += losses(p, y[outside]).sum()
    chosen = total.argmin(axis=0)
    runs = {i: booster(X, y, *options[i]) for i in set(chosen.tolist())}
    return {k: runs[i].model(k) for k, i in zip(sizes, chosen.tolist(), strict=True)}


def cart(X: pd.DataFrame, y: np.ndarray, sizes: Sequence[int]) -> dict[int, Model]:
    """Trees with k splits; the least number of rows in a leaf by cross-validation."""
    from sklearn.model_selection import GridSearchCV
    from sklearn.tree import DecisionTreeClassifier

    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=0)
    found: dict[int, Model] = {}
    for k in sizes:
        tree = DecisionTreeClassifier(max_leaf_nodes=k + 1, random_state=0)
        search = GridSearchCV(tree, {"min_samples_leaf": [1, 3, 10]}, cv=folds).fit(X, y)
        best = search.best_estimator_.tree_
        features = set(best.feature[best.feature >= 0].tolist())
        found[k] = Probabilities(search.predict_proba, int(best.n_leaves) - 1, len(features))
    return found


def figs(X: pd.DataFrame, y: np.ndarray, sizes: Sequence[int]) -> dict[int, Model]:
    """Sums of trees with k splits together."""
    from imodels import FIGSClassifier

    found: dict[int, Model] = {}
    for k in sizes:
        np.random.seed(0)  # noqa: NPY002 - it breaks ties by the global generator
        model = FIGSClassifier(max_rules=k, random_state=0).fit(X.to_numpy(), y)
        n_features = int(np.count_nonzero(model.feature_importances_))
        found[k] = Probabilities(_figs_function(model), int(model.complexity_), n_features)
    return found


def _figs_function(model: Any) -> Callable[[pd.DataFrame], np.ndarray]:
    return lambda X: np.asarray(model.predict_proba(X.to_numpy()))
