"""Small models that are not sums of stumps: CART, FIGS, GOSDT, and EBM with few cuts.

Size k means k splits (cuts for EBM). Probabilities of CART and GOSDT are the shares of their
leaves after Laplace's rule, (n+ + 1) / (n + 2), because a share of 0 or 1 has no log odds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from models import Found, Model, SplitModel, log_odds
from rivals import gradient_boosting
from stump_models import Cut, Task

GOSDT_CUTS = 12  # columns that it may split, the first of boosting
GOSDT_PENALTIES = (0.05, 0.03, 0.02, 0.015, 0.01, 0.007, 0.005)  # per leaf
GOSDT_DEPTH = 5
GOSDT_SECONDS = 3
EBM_RATES = (0.3, 1.0)
EBM_ROUNDS = (1, 2, 3, 5, 8, 13, 20)


def _by_leaves(leaves: Callable[[np.ndarray], np.ndarray], task: Task, n_splits: int) -> SplitModel:
    """Return a model with Laplace's shares of the training rows in every leaf."""
    inside = leaves(task.X)
    n_rows = np.bincount(inside)
    n_plus = np.bincount(inside, weights=task.y > 0, minlength=len(n_rows))
    values = log_odds((n_plus + 1.0) / (n_rows + 2.0))
    return SplitModel(lambda X: values[leaves(X)], n_splits)


def cart(task: Task, sizes: Sequence[int]) -> Found:
    from sklearn.tree import DecisionTreeClassifier

    found: dict[Any, Model] = {}
    for k in sizes:
        tree = DecisionTreeClassifier(max_leaf_nodes=k + 1, random_state=0).fit(task.X, task.y)
        found[k] = _by_leaves(tree.apply, task, int(tree.get_n_leaves()) - 1)
    return {"CART": found}


def figs(task: Task, sizes: Sequence[int]) -> Found:
    from imodels import FIGSClassifier

    found: dict[Any, Model] = {}
    for k in sizes:
        np.random.seed(0)  # noqa: NPY002 - it breaks ties by the global generator
        model = FIGSClassifier(max_rules=k, random_state=0).fit(task.X, (task.y > 0).astype(int))
        found[k] = SplitModel(_figs_function(model), int(model.complexity_))
    return {"FIGS": found}


def _figs_function(model: Any) -> Callable[[np.ndarray], np.ndarray]:
    return lambda X: log_odds(model.predict_proba(X)[:, 1])


# -- GOSDT ----------------------------------------------------------------------------------


def gosdt(task: Task, sizes: Sequence[int]) -> Found:
    """The largest optimal tree of at most k splits over the penalties that finish in time."""
    from gosdt import GOSDTClassifier, Status

    terms = gradient_boosting(task, 100, 0.3).terms
    cuts = list(dict.fromkeys(term.cut for term in terms))[:GOSDT_CUTS]
    columns = np.column_stack([task.X[:, j] > t for j, t in cuts])
    trees: list[tuple[int, Any]] = [(0, None)]
    for penalty in GOSDT_PENALTIES:
        model = GOSDTClassifier(
            regularization=penalty,
            allow_small_reg=True,
            depth_budget=GOSDT_DEPTH,
            time_limit=GOSDT_SECONDS,
        )
        model.fit(columns, (task.y > 0).astype(int))
        if model.result_.status != Status.CONVERGED:
            break
        trees.append((count_splits(model.trees_[0].tree), model.trees_[0].tree))
        if trees[-1][0] > max(sizes):
            break
    if len(trees) == 1:
        raise TimeoutError(f"no tree within {GOSDT_SECONDS} s")
    found: dict[Any, Model] = {}
    for k in sizes:
        n_splits, tree = max((t for t in trees if t[0] <= k), key=lambda t: t[0])
        found[k] = _by_leaves(_leaf_function(tree, cuts), task, n_splits)
    return {"GOSDT": found}


def count_splits(node: Any) -> int:
    if node is None or not hasattr(node, "left_child"):
        return 0
    return 1 + count_splits(node.left_child) + count_splits(node.right_child)


def _leaf_function(tree: Any, cuts: list[Cut]) -> Callable[[np.ndarray], np.ndarray]:
    """Return which leaf a row falls into: leaves are numbered from the left."""

    def leaves(X: np.ndarray) -> np.ndarray:
        found = np.zeros(len(X), dtype=np.int64)
        n_leaves = 0

        def descend(node: Any, rows: np.ndarray) -> None:
            nonlocal n_leaves
            if node is None or not hasattr(node, "left_child"):
                found[rows] = n_leaves
                n_leaves += 1
                return
            feature, threshold = cuts[node.feature]
            is_above = X[rows, feature] > threshold
            descend(node.left_child, rows[is_above])  # left is true
            descend(node.right_child, rows[~is_above])

        descend(tree, np.arange(len(X)))
        return found

    return leaves


# -- EBM ------------------------------------------------------------------------------------


def ebm(task: Task, sizes: Sequence[int]) -> Found:
    """Explainable boosting held to k cuts, which it has no parameter for.

    A round boosts every feature once, greedily; so it sees only the features that matter most
    in its own fit to all of them, and of all fits with at most k cuts the least training loss
    counts.
    """
    labels = (task.y > 0).astype(int)
    order = np.argsort(-np.asarray(_ebm_fit(task.X, labels, 0.3, 20).term_importances()))
    fits: list[tuple[float, SplitModel]] = []
    for n_features in sorted({min(m, len(order)) for m in (1, 2, 3, 4, 6, 8, 12, 20)}):
        chosen = np.sort(order[:n_features])
        for rate in EBM_RATES:
            for n_rounds in EBM_ROUNDS:
                model = _ebm_fit(task.X[:, chosen], labels, rate, n_rounds)
                split_model = SplitModel(_ebm_function(model, chosen), _n_cuts(model))
                if split_model.n_splits > max(sizes):
                    break
                loss = np.mean(np.logaddexp(0.0, -task.y * split_model.scores(task.X)))
                fits.append((float(loss), split_model))
    found: dict[Any, Model] = {}
    for k in sizes:
        within = [fit for fit in fits if fit[1].n_splits <= k]
        if within:
            found[k] = min(within, key=lambda fit: fit[0])[1]
    return {"EBM": found}


def _ebm_fit(X: np.ndarray, labels: np.ndarray, rate: float, n_rounds: int) -> Any:
    from interpret.glassbox import ExplainableBoostingClassifier

    model = ExplainableBoostingClassifier(
        interactions=0,
        max_leaves=2,
        max_bins=64,
        outer_bags=1,
        inner_bags=0,
        validation_size=0,
        early_stopping_rounds=0,
        smoothing_rounds=0,
        greedy_ratio=1e6,
        cyclic_progress=0,
        learning_rate=rate,
        max_rounds=n_rounds,
        feature_types=["continuous"] * X.shape[1],
        n_jobs=1,
        random_state=0,
    )
    return model.fit(X, labels)


def _n_cuts(model: Any) -> int:
    """Return at how many places the shape functions jump; the ends are for missing values."""
    jumps = [np.abs(np.diff(scores[1:-1])) > 1e-12 for scores in model.term_scores_]
    return int(sum(np.count_nonzero(jump) for jump in jumps))


def _ebm_function(model: Any, chosen: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    return lambda X: np.asarray(model.decision_function(X[:, chosen]), dtype=float)
