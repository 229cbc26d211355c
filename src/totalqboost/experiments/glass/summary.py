"""What the rows of the detector say: false positives against AdaBoost, and stumps per negative."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from totalqboost.experiments.glass.run import STAGES
from totalqboost.tables import Table, counted

__all__ = ["Change", "changes", "summary_of"]

COUNTS = ("empirical", "bound", "soft", "stages")
Change = tuple[float, float, float]


def change(ours: Sequence[float], theirs: Sequence[float], kinds: Sequence[int]) -> Change:
    """Return how many per cent fewer false positives, and an interval of 95 % over kinds.

    The mean of log ratios over seeds gives one number for each kind; kinds are what is drawn, so
    that the interval is Student's over them.
    """
    by_kind: defaultdict[int, list[float]] = defaultdict(list)
    for a, b, kind in zip(ours, theirs, kinds, strict=True):
        by_kind[kind].append(np.log((a + 0.5) / (b + 0.5)))
    logs = np.array([np.mean(values) for values in by_kind.values()])
    middle = logs.mean()
    half = np.nan
    if len(logs) > 1:
        half = stats.t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))
    low, high = 100 * (1 - np.exp(middle + half)), 100 * (1 - np.exp(middle - half))
    return 100 * (1 - np.exp(middle)), low, high


def changes(
    rows: list[dict[str, Any]], method: str, other: str, recall: str, count: str
) -> Change | None:
    """Return the change from one method to another where both have been run."""
    key = f"{count}_false"
    ours, theirs = (
        {
            (r["seed"], r["kind"]): r["at"][recall][key]
            for r in rows
            if r["method"] == name and key in r["at"].get(recall, {})
        }
        for name in (method, other)
    )
    both = sorted(ours.keys() & theirs.keys())
    if not both:
        return None
    return change([ours[b] for b in both], [theirs[b] for b in both], [kind for _, kind in both])


def summary_of(rows: list[dict[str, Any]]) -> list[Table]:
    """Return the tables of a run: one threshold, pairs of methods, cascades."""
    recalls = sorted({recall for row in rows for recall in row["at"]}, key=float)
    methods = list(dict.fromkeys(r["method"] for r in rows))
    runs = {(r["seed"], r["kind"]) for r in rows}
    n_kinds, n_seeds = len({kind for _, kind in runs}), len({seed for seed, _ in runs})
    title = f"{counted(n_kinds, 'kind')}, {counted(n_seeds, 'seed')}"
    return [
        _false_positives(rows, [m for m in methods if m != STAGES], recalls, title),
        _pairs(rows, recalls),
        _cascades(rows, methods, recalls),
    ]


def _of(rows: list[dict[str, Any]], method: str, recall: str, key: str) -> np.ndarray:
    own = [r["at"].get(recall, {}) for r in rows if r["method"] == method]
    return np.array([a[key] for a in own if key in a], dtype=float)


def _false_positives(
    rows: list[dict[str, Any]], methods: list[str], recalls: list[str], title: str
) -> Table:
    lines = []
    for method in methods:
        cells = [method, str(sum(r["method"] == method for r in rows))]
        for recall in recalls:
            false = _of(rows, method, recall, "empirical_false")
            found = _of(rows, method, recall, "empirical_recall")
            has_run = len(false) > 0  # an edited row may have another recall
            cells += [f"{false.mean():,.0f}", f"{found.mean():.3f}"] if has_run else ["", ""]
        lines.append(cells)
    header = ["method", "runs", *(h for r in recalls for h in (f"false at {r}", "recall"))]
    head = f"False positives on fresh rows, thresholds from validation rows ({title})"
    return Table(head, header, lines, "l" + "r" * (len(header) - 1))


def _pairs(rows: list[dict[str, Any]], recalls: list[str]) -> Table:
    pairs = [
        ("UCG", "AdaBoost"),
        ("CP", "UCG"),
        ("CP + exchange", "UCG"),
        ("CP + exchange", "AdaBoost"),
        ("logistic", "UCG"),
        ("logistic", "AdaBoost"),
        ("logistic", "LightGBM"),
    ]
    lines = []
    for method, other in pairs:
        found = [changes(rows, method, other, recall, "empirical") for recall in recalls]
        if all(f is not None for f in found):
            lines.append([method, other, *(_shown(f) for f in found if f is not None)])
    header = ["method", "against", *(f"at {recall}" for recall in recalls)]
    head = "Fewer false positives, per cent, with 95 % intervals over kinds"
    return Table(head, header, lines, "ll" + "r" * len(recalls))


def _shown(found: Change) -> str:
    if np.isnan(found[1]):  # of one kind there is no interval
        return f"{found[0]:.1f}"
    return f"{found[0]:.1f} [{found[1]:.1f}, {found[2]:.1f}]"


def _cascades(rows: list[dict[str, Any]], methods: list[str], recalls: list[str]) -> Table:
    lines = []
    for method in methods:
        for count in COUNTS[1:]:
            for recall in recalls:
                false = _of(rows, method, recall, f"{count}_false")
                if not len(false):
                    continue
                found = _of(rows, method, recall, f"{count}_recall")
                stumps = _of(rows, method, recall, f"{count}_stumps")
                lines.append(
                    [
                        method,
                        {"bound": "one threshold"}.get(count, count),
                        recall,
                        f"{false.mean():,.0f}",
                        f"{stumps.mean():.1f}" if len(stumps) else "",
                        f"{found.mean():.4f}",
                        f"{(found < float(recall)).sum()} of {len(found)}",
                    ]
                )
    header = ["method", "detector", "at", "false", "stumps/negative", "recall", "below target"]
    head = "Detectors with a guaranteed recall, by the binomial bound"
    return Table(head, header, lines, "lllrrrr")
