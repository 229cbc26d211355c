"""Does a detector keep the recall it promises? Thresholds set in several ways, on fresh rows.

A few ensembles are trained; for each, thresholds are set again and again on other held-out
positives, and the recall of the whole detector is measured on many thousands more. A way to
set thresholds is honest if it misses the recall for no more than 1 - confidence of the draws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from common import parse_arguments, save, say, table, verdict
from scipy.stats import binom

from totalqboost import TotalQBoostClassifier
from totalqboost.cascade.bounds import allowed_misses
from totalqboost.cascade.model import partial_scores
from totalqboost.cascade.stages import block_counts
from totalqboost.cascade.traces import Traces
from totalqboost.datasets import make_rare_event

CONFIDENCE = 0.95
RECALLS = (0.90, 0.95, 0.99)
N_HELD_OUT = (100, 500, 2000)
N_FEATURES = 12
STAGES = (2, 5, 13)  # learners of three stages, of twenty
ROUNDING = 1e-9

Scores = np.ndarray  # (n_learners, n_rows): partial scores of positives
Draw = Callable[[Scores, Scores, float], np.ndarray]


def empirical(train: Scores, held: Scores, recall: float) -> np.ndarray:
    """Thresholds that keep the recall on the held-out rows: one, of the whole score."""
    return _last(held, np.sort(held[-1])[int((1 - recall) * held.shape[1])])


def empirical_minima(train: Scores, held: Scores, recall: float) -> np.ndarray:
    """The same, and after each learner the least score of the positives that are kept."""
    return _with_minima(held, empirical(train, held, recall)[-1])


def binomial(train: Scores, held: Scores, recall: float) -> np.ndarray:
    """One threshold, by the binomial bound."""
    return _last(held, np.sort(held[-1])[_misses(held, recall)])


def binomial_minima(train: Scores, held: Scores, recall: float) -> np.ndarray:
    """The same, and minima over the held-out positives that are kept: losses add up."""
    return _with_minima(held, binomial(train, held, recall)[-1])


def soft(train: Scores, held: Scores, recall: float) -> np.ndarray:
    """A trace of training rows whose level is chosen by the binomial bound (the library)."""
    traces = Traces(train, recall)
    return traces.thresholds(float(np.sort(traces.levels(held))[_misses(held, recall)]))


def _last(held: Scores, threshold: float) -> np.ndarray:
    return np.append(np.full(len(held) - 1, -np.inf), threshold)


def _with_minima(held: Scores, threshold: float) -> np.ndarray:
    kept = held[:, held[-1] >= threshold]
    return np.append(kept[:-1].min(axis=1), threshold)


def _misses(held: Scores, recall: float) -> int:
    return allowed_misses(held.shape[1], recall, CONFIDENCE)


# -- stages: scores that begin anew ----------------------------------------------------------


def staged_empirical(train: Scores, held: Scores, recall: float) -> np.ndarray:
    """Each stage keeps its root of the recall on the held-out rows that are left."""
    cuts, share = [], recall ** (1 / len(held))
    for k in range(len(held)):
        cuts.append(float(np.sort(held[k])[int((1 - share) * held.shape[1])]))
        held = held[:, held[k] >= cuts[-1]]
    return np.array(cuts)


def staged(train: Scores, held: Scores, recall: float) -> np.ndarray:
    """Each stage gives away some of Tukey's blocks (the library)."""
    cuts = []
    for k, n_blocks in enumerate(block_counts(_misses(held, recall) + 1, len(held))):
        order = np.argsort(held[k], kind="stable")
        cuts.append(float(held[k][order[n_blocks - 1]]))
        held = held[:, order[n_blocks:]]
    return np.array(cuts)


def _of_stages(partial: Scores, intercept: float) -> Scores:
    """Return the scores of three stages: sums of the votes of some learners each."""
    votes = np.diff(partial, axis=0, prepend=intercept)
    return np.array([part.sum(axis=0) for part in np.split(votes, np.cumsum(STAGES)[:-1])])


WAYS: dict[str, tuple[str, Draw]] = {
    "one threshold, empirical": ("soft", empirical),
    "soft cascade, empirical": ("soft", empirical_minima),
    "one threshold, binomial bound": ("soft", binomial),
    "soft cascade, bound for the last threshold only": ("soft", binomial_minima),
    'soft cascade, bound for the whole (`kind="soft"`)': ("soft", soft),
    "stages, empirical": ("stages", staged_empirical),
    'stages, bound for the whole (`kind="stages"`)': ("stages", staged),
}
KEPT = ("one threshold, binomial bound", *(name for name in WAYS if "kind=" in name))


def positives(n: int, seed: int) -> np.ndarray:
    X, y = make_rare_event(round(n / 0.9) + 2, 0.9, seed, N_FEATURES)
    return X[y > 0][:n]


def measure(n_models: int, n_draws: int, n_fresh: int) -> list[dict[str, Any]]:
    """Return for each way, recall and number of held-out positives how often it falls short."""
    below: dict[tuple[str, float, int], list[float]] = {}
    for seed in range(n_models):
        X, y = make_rare_event(3000, 0.2, seed, N_FEATURES)
        model = TotalQBoostClassifier(max_learners=20, class_weight="balanced").fit(X, y)
        ensemble, rng = model.ensemble_, np.random.default_rng(seed)
        parts = {"train": X[y > 0], "pool": positives(n_fresh, 1000 + seed)}
        parts["fresh"] = positives(n_fresh, 2000 + seed)
        scores = {name: partial_scores(ensemble, rows) for name, rows in parts.items()}
        if ensemble.n_learners != sum(STAGES):
            continue
        kinds = {
            "soft": scores,
            "stages": {k: _of_stages(s, ensemble.intercept) for k, s in scores.items()},
        }
        for n in N_HELD_OUT:
            for recall in RECALLS:
                if allowed_misses(n, recall, CONFIDENCE) + 1 < len(STAGES):
                    continue
                for _ in range(n_draws):
                    drawn = rng.choice(n_fresh, n, replace=False)
                    for name, (kind, way) in WAYS.items():
                        own = kinds[kind]
                        cuts = way(own["train"], own["pool"][:, drawn], recall)
                        accepts = (own["fresh"] >= cuts[:, None] - ROUNDING).all(axis=0)
                        below.setdefault((name, recall, n), []).append(float(accepts.mean()))
        say(f"model {seed + 1} of {n_models}")
    return [
        {
            "way": name,
            "recall": recall,
            "n_held_out": n,
            "n": len(found),
            "below": int(sum(f < recall for f in found)),
            "mean": float(np.mean(found)),
        }
        for (name, recall, n), found in below.items()
    ]


def render(content: dict[str, Any]) -> str:
    """Return the table of a page in docs."""
    rows = content["results"]["rows"]
    columns = list(dict.fromkeys((r["recall"], r["n_held_out"]) for r in rows))
    lines, worst = [], 0.0
    for name in dict.fromkeys(r["way"] for r in rows):
        own = {(r["recall"], r["n_held_out"]): r for r in rows if r["way"] == name}
        shares = [100 * own[c]["below"] / own[c]["n"] for c in columns]
        is_kept = all(
            own[c]["below"] <= binom.ppf(0.999, own[c]["n"], 1 - CONFIDENCE) for c in columns
        )
        lines.append([name, *(f"{share:.1f} %" for share in shares), verdict(is_kept)])
        worst = max(worst, *shares)
    header = ["Draws that miss the recall", *(f"{r:g}, n = {n}" for r, n in columns), "≤ 5 %"]
    n = rows[0]["n"]
    return (
        f"{table(header, lines)}\n\n{n} draws of held-out positives for each cell; n is the number "
        "of held-out positives. Yes: no cell is above 5 % beyond chance (99.9 %)."
    )


def main() -> None:
    arguments = parse_arguments(__doc__, models=8, draws=50)
    n_models, n_draws, n_fresh = arguments.models, arguments.draws, 40_000
    if arguments.quick:
        n_models, n_draws, n_fresh = 2, 10, 10_000
    rows = measure(n_models, n_draws, n_fresh)
    configuration = {"n_models": n_models, "n_draws": n_draws, "confidence": CONFIDENCE}
    print(render(save("recall", arguments, configuration, {"rows": rows})))


if __name__ == "__main__":
    main()
