"""Training risk at equal size: ours against abess, XGBoost, LightGBM and AdaBoost.

Everybody chooses stumps on the same rows; then everybody's stumps get the same refit (free
intercept, exponential loss, tiny nu), so the sum of exp(-margin) compares the choice alone. A
stump that was chosen twice counts once: boosters run on until they have k distinct ones.
abess chooses among 63 quantile thresholds a feature (all exact thresholds would be 118,380
columns of 5,920 rows); the others use their own candidates.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from common import error_percent, load_before, parse_arguments, save, say, table, verdict

from totalqboost import Ensemble, MasterProblem, TotalQBoostClassifier, frontier
from totalqboost.datasets import make_ringnorm, make_twonorm
from totalqboost.learners import Constant, Stump
from totalqboost.refit import refit

SIZES = (5, 10, 20, 30)
N_ROWS, N_TRAIN = 7400, 5920
NU = 1e-6
N_BINS = 64  # of abess
OURS = ("TotalQBoost", "TotalQBoost frontier")

Chooser = Callable[[np.ndarray, np.ndarray, int], list[Stump]]


# -- the same refit for all -----------------------------------------------------------------


def refit_stumps(stumps: list[Stump], X: np.ndarray, y: np.ndarray) -> tuple[Ensemble, float]:
    """Return the best ensemble on these stumps, of either sign, and its sum of exp(-margin)."""
    learners = [Constant(1), Constant(-1)]
    for stump in stumps:
        learners += [Stump(stump.feature, stump.threshold, sign) for sign in (1, -1)]
    A = np.array([y * h.predict(X) for h in learners], dtype=np.int8)
    cost = np.array([0.0, 0.0] + [1.0] * (len(learners) - 2))
    problem = MasterProblem(A, nu=NU, cost=cost)
    w = refit(problem, np.arange(len(learners)), tol=1e-9)
    return Ensemble.from_columns(learners, w, cost == 0), len(y) * problem.risk(w)


def first_distinct(stumps: Iterable[Stump], k: int) -> list[Stump]:
    """Return the first k stumps that differ in feature or threshold."""
    distinct = dict.fromkeys(Stump(h.feature, h.threshold) for h in stumps)
    return list(distinct)[:k]


# -- who chooses ----------------------------------------------------------------------------


def ours(X: np.ndarray, y: np.ndarray, k: int) -> list[Stump]:
    model = TotalQBoostClassifier(max_learners=k, cardinality_penalty=0).fit(X, y)
    return list(model.ensemble_.learners)


def abess(X: np.ndarray, y: np.ndarray, k: int) -> list[Stump]:
    from abess.linear import LogisticRegression

    cuts = np.quantile(X, np.arange(1, N_BINS) / N_BINS, axis=0)
    candidates = [Stump(f, float(t)) for f in range(X.shape[1]) for t in cuts[:, f]]
    columns = np.column_stack([X[:, h.feature] > h.threshold for h in candidates]).astype(float)
    model = LogisticRegression(support_size=k).fit(columns, (y > 0).astype(int))
    return [candidates[j] for j in np.flatnonzero(model.coef_)]


def xgboost_stumps(tree_method: str) -> Callable[[np.ndarray, np.ndarray, int], list[Stump]]:
    def choose(X: np.ndarray, y: np.ndarray, n_rounds: int) -> list[Stump]:
        from xgboost import XGBClassifier

        model = XGBClassifier(
            n_estimators=n_rounds,
            max_depth=1,
            learning_rate=1.0,
            tree_method=tree_method,
            n_jobs=1,
        )
        model.fit(X, (y > 0).astype(int))
        trees = [json.loads(text) for text in model.get_booster().get_dump(dump_format="json")]
        return [_xgboost_stump(tree) for tree in trees if "split" in tree]

    return choose


def _xgboost_stump(tree: dict[str, Any]) -> Stump:
    """XGBoost sends x < c left, in float32; ours sends x > t right."""
    below = np.nextafter(np.float32(tree["split_condition"]), np.float32(-np.inf))
    return Stump(int(tree["split"].removeprefix("f")), float(below))


def lightgbm_stumps(X: np.ndarray, y: np.ndarray, n_rounds: int) -> list[Stump]:
    from lightgbm import LGBMClassifier

    model = LGBMClassifier(
        n_estimators=n_rounds, num_leaves=2, learning_rate=1.0, n_jobs=1, verbose=-1
    )
    model.fit(X, (y > 0).astype(int))
    trees = [tree["tree_structure"] for tree in model.booster_.dump_model()["tree_info"]]
    return [Stump(t["split_feature"], float(t["threshold"])) for t in trees if "threshold" in t]


def adaboost(X: np.ndarray, y: np.ndarray, n_rounds: int) -> list[Stump]:
    from sklearn.ensemble import AdaBoostClassifier

    model = AdaBoostClassifier(n_estimators=n_rounds, random_state=0).fit(X, y)
    trees = [estimator.tree_ for estimator in model.estimators_]
    return [Stump(int(t.feature[0]), float(t.threshold[0])) for t in trees if t.feature[0] >= 0]


SUBSETS: dict[str, Chooser] = {"TotalQBoost": ours, "abess": abess}  # given the size
BOOSTERS: dict[str, Chooser] = {  # given the number of rounds
    "XGBoost exact": xgboost_stumps("exact"),
    "XGBoost hist": xgboost_stumps("hist"),
    "LightGBM": lightgbm_stumps,
    "AdaBoost": adaboost,
}


# -- measuring ------------------------------------------------------------------------------


class Arena:
    """One split of one data set, and the records of all who compete on it."""

    def __init__(self, name: str, make: Callable[..., Any], seed: int):
        X, y = make(N_ROWS, seed=seed)
        X = X.astype(np.float32).astype(float)  # XGBoost and scikit-learn see float32
        order = np.random.default_rng(seed).permutation(N_ROWS)
        self.name, self.seed = name, seed
        self.X, self.y = X[order[:N_TRAIN]], y[order[:N_TRAIN]]
        self.X_valid, self.y_valid = X[order[N_TRAIN:]], y[order[N_TRAIN:]]
        self.records: list[dict[str, Any]] = []

    def enter(self, who: str, size: int, stumps: list[Stump], seconds: float) -> None:
        """Refit a competitor's stumps and record what came out."""
        stumps = first_distinct(stumps, size)
        model, total = refit_stumps(stumps, self.X, self.y)
        error = error_percent(model.predict(self.X_valid), self.y_valid)
        record = {"data": self.name, "seed": self.seed, "who": who, "size": size}
        record |= {"distinct": len(stumps), "sum_exp": total, "valid_error": error}
        self.records.append(record | {"seconds": seconds})
        say(f"{self.name} {who:22s} {size:2d}: {total:8.1f}  {error:5.2f} %  {seconds:.2f} s")

    def choose_subsets(self, sizes: tuple[int, ...]) -> None:
        for who, choose in SUBSETS.items():
            choose(self.X[:500], self.y[:500], 2)  # warm-up
            for k in sizes:
                began = time.perf_counter()
                stumps = choose(self.X, self.y, k)
                self.enter(who, k, stumps, time.perf_counter() - began)

    def choose_frontier(self, sizes: tuple[int, ...]) -> None:
        began = time.perf_counter()
        points = frontier(self.X, self.y, max_learners=max(sizes))
        seconds = time.perf_counter() - began
        for point in points:
            if point.n_learners in sizes:
                stumps = list(point.ensemble.learners)
                self.enter("TotalQBoost frontier", point.n_learners, stumps, seconds)

    def choose_by_boosting(self, sizes: tuple[int, ...]) -> None:
        for who, choose in BOOSTERS.items():
            chosen = choose(self.X, self.y, 3 * max(sizes))
            for k in sizes:
                last = first_distinct(chosen, k)[-1]
                plain = [Stump(h.feature, h.threshold) for h in chosen]
                began = time.perf_counter()
                stumps = choose(self.X, self.y, plain.index(last) + 1)
                self.enter(who, k, stumps, time.perf_counter() - began)


def compete(name: str, make: Callable[..., Any], seed: int, sizes: tuple[int, ...]) -> list[Any]:
    """Return the records of all competitors on one split."""
    arena = Arena(name, make, seed)
    arena.choose_subsets(sizes)
    arena.choose_frontier(sizes)
    arena.choose_by_boosting(sizes)
    return arena.records


def beaten_by(records: list[dict[str, Any]], ours_name: str) -> list[dict[str, Any]]:
    """Return the records of rivals whose sum of exp(-margin) is below ours."""
    mine = {(r["data"], r["size"]): r["sum_exp"] for r in records if r["who"] == ours_name}
    rivals = [r for r in records if r["who"] not in OURS]
    return [r for r in rivals if r["sum_exp"] < mine[r["data"], r["size"]] - 1e-6]


# -- reporting ------------------------------------------------------------------------------


def render(content: dict[str, Any]) -> str:
    """Return the tables of results as Markdown."""
    records = content["results"]["records"]
    sizes = content["configuration"]["sizes"]
    parts = []
    for name in dict.fromkeys(r["data"] for r in records):
        header = [f"{name}, {N_TRAIN} × 20"]
        for title in ("Σexp", "error %", "s"):
            header += [f"{title} at {sizes[0]}", *(str(k) for k in sizes[1:])]
        rows = [_row(records, name, who, sizes) for who in dict.fromkeys(r["who"] for r in records)]
        parts += [table(header, rows), ""]
    for who in OURS:
        better = content["results"]["beaten_by"][who]
        parts.append(f"- {who} has the lowest Σexp at every size: {verdict(not better)}.")
        parts += [
            f"  - {r['data']} at {r['size']}: {r['who']} is lower, {r['sum_exp']:.1f}."
            for r in better
        ]
    parts.append("- Seconds of the frontier are for all sizes in one call.")
    return "\n".join(parts)


def _row(records: list[dict[str, Any]], name: str, who: str, sizes: list[int]) -> list[str]:
    found = {r["size"]: r for r in records if r["data"] == name and r["who"] == who}
    row = [who]
    for key, form in (("sum_exp", ".0f"), ("valid_error", ".1f"), ("seconds", ".2f")):
        row += [format(found[k][key], form) if k in found else "" for k in sizes]
    return row


def main() -> None:
    arguments = parse_arguments(__doc__, seed=0)
    load = load_before()
    logging.getLogger("lightgbm").setLevel(logging.ERROR)
    sizes = SIZES[:2] if arguments.quick else SIZES
    records = compete("twonorm", make_twonorm, arguments.seed, sizes)
    records += compete("ringnorm", make_ringnorm, arguments.seed, sizes)
    results = {"beaten_by": {who: beaten_by(records, who) for who in OURS}, "records": records}
    configuration = {
        "sizes": sizes,
        "rows": {"training": N_TRAIN, "validation": N_ROWS - N_TRAIN},
        "seed": arguments.seed,
        "load_before": load,
        "nu": NU,
        "abess_thresholds_per_feature": N_BINS - 1,
        "boosters": "depth 1, learning rate 1, one thread, else their defaults",
    }
    packages = ("abess", "xgboost", "lightgbm")
    print(render(save("rivals", arguments, configuration, results, packages)))


if __name__ == "__main__":
    main()
