"""Ways to train twenty stumps: each returns an ensemble for one kind of one bench."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from totalqboost.cascade.training import Trainer
from totalqboost.ensemble import Ensemble
from totalqboost.estimator import TotalQBoostClassifier
from totalqboost.experiments.baselines.corrective import adaboost
from totalqboost.experiments.glass.bench import GlassBench
from totalqboost.learners import Constant, Learner, Stump

__all__ = ["METHODS", "trainer"]

MOST_ROUNDS = 3  # per stump: rounds that choose a stump again cost nothing at prediction
RATES = (0.3, 0.5, 1.0)  # of LightGBM, the best on validation rows
PAPER: dict[str, Any] = {"cardinality_penalty": 0.0, "l1_penalty": 1e-6, "loss": "exponential"}


def trainer(bench: GlassBench, kind: int, **settings: Any) -> Trainer:
    """Return what trains ensembles on rows of the bench."""
    base = TotalQBoostClassifier(
        **{"class_weight": "balanced", "dictionary": bench.dictionary, **settings}
    )
    return Trainer(base, bench.examples(kind))


def _trained(bench: GlassBench, kind: int, **settings: Any) -> Ensemble:
    train = trainer(bench, kind, **settings)
    return train(bench.X_train, bench.labels(kind)[0], None)


def ucg(bench: GlassBench, kind: int) -> Ensemble:
    """Plain totally corrective boosting, stopped early."""
    rounds = bench.settings.n_learners
    return _trained(bench, kind, exchange=False, max_rounds=rounds, **PAPER)


def cp(bench: GlassBench, kind: int) -> Ensemble:
    """Twice as many columns of plain boosting, then the best choice of twenty among them."""
    k = bench.settings.n_learners
    rounds = {"max_rounds": 2 * k, "plain_rounds": 2 * k}
    return _trained(bench, kind, exchange=False, max_learners=k, **rounds, **PAPER)


def cp_exchange(bench: GlassBench, kind: int) -> Ensemble:
    """Stumps traded for better ones of the whole dictionary."""
    return _trained(bench, kind, max_learners=bench.settings.n_learners, **PAPER)


def logistic(bench: GlassBench, kind: int) -> Ensemble:
    """What CascadeClassifier trains: the logistic loss, with exchange."""
    return _trained(bench, kind, max_learners=bench.settings.n_learners)


def boosted(bench: GlassBench, kind: int) -> Ensemble:
    """AdaBoost until it has twenty different stumps; constants do not count."""
    y, k = bench.labels(kind)[0], bench.settings.n_learners
    c = np.where(y > 0, 0.5 / (y > 0).sum(), 0.5 / (y < 0).sum())
    oracle = bench.dictionary.prepare(bench.X_train, y)
    best = None
    for stage in adaboost(oracle, c, MOST_ROUNDS * k):
        pairs = zip(stage.ensemble.learners, stage.ensemble.weights, strict=True)
        found = _without_constants(list(pairs))
        if found.n_learners > k:
            break
        best = found
    assert best is not None
    return best.with_names((-1, 1), bench.examples(kind).features, "exponential")


def _without_constants(pairs: list[tuple[Learner, float]]) -> Ensemble:
    """Return the ensemble whose constants are the intercept."""
    kept = [(h, w) for h, w in pairs if not isinstance(h, Constant)]
    intercept = sum(h.polarity * w for h, w in pairs if isinstance(h, Constant))
    return Ensemble(tuple(h for h, _ in kept), tuple(w for _, w in kept), float(intercept))


def lightgbm(bench: GlassBench, kind: int) -> Ensemble:
    """LightGBM's trees of one split until there are twenty different ones."""
    import lightgbm as lgb

    y, y_valid, _ = bench.labels(kind)
    weight = np.where(y > 0, 0.5 / (y > 0).mean(), 0.5 / (y < 0).mean())
    data = lgb.Dataset(bench.X_train, (y > 0).astype(float), weight=weight, free_raw_data=False)
    ensembles = []
    for rate in RATES:
        options = {
            "objective": "binary",
            "num_leaves": 2,
            "learning_rate": rate,
            "num_threads": 1,
            "verbose": -1,
        }
        model = lgb.train(options, data, MOST_ROUNDS * bench.settings.n_learners)
        ensemble = _stumps_of(model.dump_model()["tree_info"], bench.settings.n_learners)
        ensembles.append(ensemble.with_names((-1, 1), bench.examples(kind).features, "logistic"))
    return max(ensembles, key=lambda e: _auc(e.scores(bench.X_valid), y_valid > 0))


def _stumps_of(trees: list[dict[str, Any]], most: int) -> Ensemble:
    """Return the first trees as stumps, as many as have no more different splits than allowed."""
    weights: dict[tuple[int, float], float] = {}
    intercept = 0.0
    for tree in trees:
        root = tree["tree_structure"]
        if "split_feature" not in root:
            intercept += root["leaf_value"]
            continue
        split = int(root["split_feature"]), float(root["threshold"])
        if split not in weights and len(weights) == most:
            break
        low, high = root["left_child"]["leaf_value"], root["right_child"]["leaf_value"]
        weights[split] = weights.get(split, 0.0) + (high - low) / 2
        intercept += (high + low) / 2
    pairs = [(Stump(*split, 1 if w > 0 else -1), abs(w)) for split, w in weights.items() if w]
    pairs.sort(key=lambda pair: -pair[1])
    return Ensemble(tuple(h for h, _ in pairs), tuple(w for _, w in pairs), intercept)


def _auc(scores: np.ndarray, is_positive: np.ndarray) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(is_positive, scores))


METHODS: dict[str, Callable[[GlassBench, int], Ensemble]] = {
    "AdaBoost": boosted,
    "UCG": ucg,
    "CP": cp,
    "CP + exchange": cp_exchange,
    "logistic": logistic,
    "LightGBM": lightgbm,
}
