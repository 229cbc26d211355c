"""The same task in other libraries, as their users would type it: docs/migration.md.

Every library gets the same training rows and is asked for at most eight conditions. Libraries
that need other releases of NumPy and scikit-learn run in an environment of their own:
``--apart .venv-apart/bin/python`` names its interpreter (``pip install fasterrisk
fastsparsegams`` there). Without it they are left out. A library that is not installed is left
out too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, load_before, save, say, table
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import AdaBoostClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from tree_models import count_splits

from totalqboost import TotalQBoostClassifier, datasets

SIZE = 8
N_THRESHOLDS = 9  # of a feature, for libraries that want columns of 0 and 1
FEW_THRESHOLDS = 3  # with more, GOSDT does not end in minutes
APART = ("fasterrisk", "fastsparsegams")
PACKAGES = ("lightgbm", "xgboost", "imodels", "gosdt")

Data = tuple[np.ndarray, np.ndarray, np.ndarray]  # training rows, their labels 0 and 1, test rows
Answer = tuple[np.ndarray, int]  # probabilities of the test rows, number of conditions


# -- what users type -----------------------------------------------------------------------


def ours(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> Answer:
    clf = TotalQBoostClassifier(0, max_learners=SIZE).fit(X, y)
    return clf.predict_proba(X_test)[:, 1], clf.n_learners_


def ours_points(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> Answer:
    clf = TotalQBoostClassifier(0, max_learners=SIZE, n_bits=4).fit(X, y)
    return clf.predict_proba(X_test)[:, 1], clf.n_learners_


def adaboost(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> Answer:
    clf = AdaBoostClassifier(n_estimators=SIZE, random_state=0).fit(X, y)
    cuts = {(tree.tree_.feature[0], tree.tree_.threshold[0]) for tree in clf.estimators_}
    return clf.predict_proba(X_test)[:, 1], len(cuts)


def lightgbm(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> Answer:
    from lightgbm import LGBMClassifier

    clf = LGBMClassifier(
        num_leaves=2, n_estimators=SIZE, learning_rate=0.5, n_jobs=1, verbosity=-1
    ).fit(X, y)
    trees = [tree["tree_structure"] for tree in clf.booster_.dump_model()["tree_info"]]
    cuts = {(tree["split_feature"], tree["threshold"]) for tree in trees if "threshold" in tree}
    return np.asarray(clf.predict_proba(X_test))[:, 1], len(cuts)


def xgboost(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> Answer:
    from xgboost import XGBClassifier

    clf = XGBClassifier(max_depth=1, n_estimators=SIZE, learning_rate=0.5, n_jobs=1).fit(X, y)
    trees = map(json.loads, clf.get_booster().get_dump(dump_format="json"))
    cuts = {(tree["split"], tree["split_condition"]) for tree in trees if "split" in tree}
    return clf.predict_proba(X_test)[:, 1], len(cuts)


def imodels_figs(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> Answer:
    from imodels import FIGSClassifier

    clf = FIGSClassifier(max_rules=SIZE, random_state=0).fit(X, y)
    return clf.predict_proba(X_test)[:, 1], int(clf.complexity_)


def gosdt(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> Answer:
    from gosdt import GOSDTClassifier

    cuts = quantiles(X, FEW_THRESHOLDS)
    clf = GOSDTClassifier(regularization=0.01, depth_budget=4, time_limit=5, verbose=False)
    clf.fit(columns(X, cuts), y)
    probabilities = np.asarray(clf.predict_proba(columns(X_test, cuts)))[:, 1]
    return probabilities, count_splits(clf.trees_[0].tree)


def quantiles(X: np.ndarray, n: int = N_THRESHOLDS) -> list[tuple[int, float]]:
    """Return n quantiles of every feature as thresholds."""
    levels = np.linspace(0, 1, n + 2)[1:-1]
    per_feature = [np.unique(np.quantile(x, levels)) for x in X.T]
    return [(j, float(t)) for j, thresholds in enumerate(per_feature) for t in thresholds]


def columns(X: np.ndarray, cuts: list[tuple[int, float]]) -> np.ndarray:
    return np.column_stack([X[:, j] > t for j, t in cuts])


LIBRARIES: dict[str, tuple[str | None, Callable[..., Answer]]] = {
    "TotalQBoost": (None, ours),
    "TotalQBoost, points up to 7": (None, ours_points),
    "scikit-learn AdaBoost": (None, adaboost),
    "LightGBM, stumps": ("lightgbm", lightgbm),
    "XGBoost, stumps": ("xgboost", xgboost),
    "imodels FIGS": ("imodels", imodels_figs),
    "GOSDT": ("gosdt", gosdt),
}

# Runs in the other environment, with NumPy and the library alone.
SCRIPT = """
import json, sys, time
import numpy as np
library, path, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
data = np.load(path)
X, y, X_test = data["X"].astype(float), 2.0 * data["y"] - 1, data["X_test"].astype(float)
began = time.perf_counter()
if library == "fasterrisk":
    from fasterrisk.fasterrisk import RiskScoreOptimizer, RiskScoreClassifier
    optimizer = RiskScoreOptimizer(X=X, y=y, k=size)
    optimizer.optimize()
    multiplier, intercept, points = optimizer.get_models(model_index=0)
    clf = RiskScoreClassifier(multiplier, intercept, points)
    p, n = clf.predict_prob(X_test), int(np.count_nonzero(points))
else:
    from fastsparsegams import fit
    model = fit(np.asfortranarray(X), y, loss="Logistic", penalty="L0", algorithm="CDPSI",
                max_support_size=size)
    weights = model.coeffs[0].toarray()
    last = max(k for k in range(weights.shape[1]) if np.count_nonzero(weights[:, k]) <= size)
    score = X_test @ weights[:, last] + model.intercepts[0][last]
    p, n = 1 / (1 + np.exp(-score)), int(np.count_nonzero(weights[:, last]))
print("ANSWER" + json.dumps([np.asarray(p).tolist(), n, time.perf_counter() - began]))
"""
NAMES_APART = {"fasterrisk": "FasterRisk, points up to 5", "fastsparsegams": "fastsparsegams"}


def apart(python: Path, library: str, X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> Any:
    """Return probabilities, size and seconds of a library in an environment of its own."""
    cuts = quantiles(X)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(path, X=columns(X, cuts), y=y, X_test=columns(X_test, cuts))
        command = [str(python), "-c", SCRIPT, library, str(path), str(SIZE)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{library} failed:\n{done.stderr}")
    line = next(line for line in done.stdout.splitlines() if line.startswith("ANSWER"))
    probabilities, n, seconds = json.loads(line.removeprefix("ANSWER"))
    return np.array(probabilities), n, seconds


# -- measuring -----------------------------------------------------------------------------


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    found = {name: datasets.load(name) for name in ("diabetes", "heart", "german")}
    found = {name: (X, (y > 0).astype(int)) for name, (X, y) in found.items()}
    return found | {"breast cancer (scikit-learn's)": load_breast_cancer(return_X_y=True)}


def measure(fit: Callable[..., Any], given: Data, y_test: np.ndarray) -> dict[str, float]:
    began = time.perf_counter()
    probabilities, n, *seconds = fit(*given)
    taken = seconds[0] if seconds else time.perf_counter() - began
    return {
        "error": 100.0 * float(np.mean((probabilities > 0.5) != y_test)),
        "log_loss": float(log_loss(y_test, np.clip(probabilities, 1e-6, 1 - 1e-6))),
        "size": n,
        "seconds": taken,
    }


def mean_of(rows: list[dict[str, float]]) -> dict[str, float]:
    return {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}


def render(content: dict[str, Any]) -> str:
    results = content["results"]
    names = list(next(iter(results["tables"].values())))
    rows = []
    for name in names:
        cells = [results["tables"][data][name] for data in results["tables"]]
        rows.append(
            [
                name,
                *(f"{cell['error']:.1f}" for cell in cells),
                *(f"{np.mean([cell[key] for cell in cells]):{form}}" for key, form in KEYS.items()),
            ]
        )
    header = ["test error (%)", *results["tables"], *("log-loss", "conditions", "seconds")]
    absent = "; ".join(f"{name}: {why}" for name, why in results["absent"].items())
    repeats = content["configuration"]["splits"]
    text = table(header, rows) + (
        f"\n\nMeans of {repeats} stratified splits, 70 % of the rows for training. Log-loss, "
        "conditions (different pairs of a feature and a threshold, or inner nodes) and seconds of "
        "a fit are means over the tables too. The first fit of a process, which compiles or "
        "imports, is not counted."
    )
    own = content["configuration"].get("apart")
    if own:
        packages = ", ".join(f"{name} {number}" for name, number in own.items())
        text += f" In an environment of their own: {packages}."
    return text + (f" Left out: {absent}." if absent else "")


KEYS = {"log_loss": ".3f", "size": ".1f", "seconds": ".2f"}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one split of one table")
    parser.add_argument("--out", type=Path, help="folder of the JSON file")
    parser.add_argument("--splits", type=int, default=5, help="default 5")
    parser.add_argument("--apart", type=Path, help="Python with fasterrisk and fastsparsegams")
    arguments = parser.parse_args()
    if arguments.out is None:
        arguments.out = RESULTS / "quick" if arguments.quick else RESULTS
    load = load_before()
    repeats = 1 if arguments.quick else arguments.splits
    absent = {
        name: "not installed"
        for name, (package, _) in LIBRARIES.items()
        if package and find_spec(package) is None
    }
    if arguments.apart is None:
        reason = "needs an environment of its own (--apart)"
        absent |= {NAMES_APART[library]: reason for library in APART}
    found: dict[str, dict[str, dict[str, float]]] = {}
    for data, (X, y) in list(tables().items())[: 1 if arguments.quick else None]:
        rows: dict[str, list[dict[str, float]]] = {}
        for seed in range(repeats):
            X_train, X_test, y_train, y_test = train_test_split(
                X, y, test_size=0.3, stratify=y, random_state=seed
            )
            given: Data = (X_train, y_train, X_test)
            for name, (_, fit) in LIBRARIES.items():
                if name not in absent:
                    if not found and seed == 0:
                        fit(*given)  # compiles or imports
                    rows.setdefault(name, []).append(measure(fit, given, y_test))
            for library in APART if arguments.apart else ():
                fit = partial(apart, arguments.apart, library)
                rows.setdefault(NAMES_APART[library], []).append(measure(fit, given, y_test))
        found[data] = {name: mean_of(measured) for name, measured in rows.items()}
        say(f"{data}: { ({name: round(one['error'], 1) for name, one in found[data].items()}) }")
    configuration = {"splits": repeats, "size": SIZE, "load_before": load}
    if arguments.apart:
        configuration["apart"] = versions_apart(arguments.apart)
    results = {"tables": found, "absent": absent}
    print(render(save("migration", arguments, configuration, results, PACKAGES)))


def versions_apart(python: Path) -> dict[str, str]:
    code = "from importlib.metadata import version as v; import json, sys; " + (
        f"print(json.dumps({{name: v(name) for name in {(*APART, 'numpy', 'scikit-learn')!r}}}))"
    )
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


if __name__ == "__main__":
    main()
