"""The summary of what benchmarks over splits measured, and its values as arrays.

A data set is one observation: its value is the mean over the splits that all compared have.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

DECIMALS = {"error": 2, "log_loss": 4, "auc": 4, "calibration": 4, "cuts": 0, "features": 0}
SIGNS = {name: -1.0 if name == "auc" else 1.0 for name in DECIMALS}  # less is better

Record = dict[str, Any]


# -- summary --------------------------------------------------------------------------------


def summary(
    lines: Sequence[Record], arguments: argparse.Namespace, contenders: Iterable[str]
) -> Record:
    """Return the values of the chosen splits, the last line of each kind counting.

    The values of the splits of a set stand in one string, so that a set is one line of JSON.
    """
    latest = {(x["data"], x["split"], x["contender"]): x for x in lines if _counts(x, arguments)}
    n_splits = len(arguments.splits)
    cells: dict[str, dict[str, dict[str, dict[str, list[str]]]]] = {}
    seconds: dict[str, list[float]] = {}
    absent: dict[str, dict[str, int]] = {}
    for (data, split, contender), line in latest.items():
        if "absent" in line:
            reasons = absent.setdefault(contender, {})
            reasons[line["absent"]] = reasons.get(line["absent"], 0) + 1
        seconds.setdefault(contender, []).append(line.get("seconds", np.nan))
        for record in line.get("records", []):
            sizes = cells.setdefault(record["who"], {}).setdefault(str(record["size"]), {})
            for name in [measure for measure in DECIMALS if measure in record]:
                row = sizes.setdefault(name, {}).setdefault(data, ["-"] * n_splits)
                row[arguments.splits.index(split)] = f"{record[name]:.{DECIMALS[name]}f}"
    studies = {x["data"]: x["records"] for x in lines if x["contender"] == "study"}
    return {
        "data": [name for name in arguments.datasets if any(key[0] == name for key in latest)],
        "splits": arguments.splits,
        "values": _joined(cells),
        "seconds": {
            name: float(np.nanmean(s))
            for name, s in seconds.items()
            if np.any(s) and not np.all(np.isnan(s))
        },
        "absent": absent,
        "missing": [name for name in contenders if name not in seconds],
        "fewer_splits": _fewer_splits(latest, n_splits),
        "studies": studies,
    }


def _fewer_splits(latest: Iterable[tuple[str, int, str]], n_splits: int) -> dict[str, list[int]]:
    """Return the least and the most splits of a set, of contenders that lack some."""
    keys = list(latest)
    data = {key[0] for key in keys}
    found = {}
    for name in dict.fromkeys(key[2] for key in keys):
        counts = [sum(key[0] == x and key[2] == name for key in keys) for x in data]
        if min(counts) < n_splits:
            found[name] = [min(counts), max(counts)]
    return found


def _counts(line: Record, arguments: argparse.Namespace) -> bool:
    return (
        line["data"] in arguments.datasets
        and line["split"] in arguments.splits
        and line.get("rows") == arguments.rows
    )


def _joined(cells: Any) -> Any:
    if isinstance(cells, list):
        return " ".join(cells)
    return {key: _joined(value) for key, value in cells.items()}


# -- values ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Values:
    """The values of a summary as arrays of sets and splits; NaN where there is none."""

    results: Record

    @property
    def names(self) -> list[str]:
        return list(self.results["data"])

    def has(self, who: str, size: Any = None) -> bool:
        sizes = self.results["values"].get(who, {})
        return bool(sizes) if size is None else str(size) in sizes

    def array(self, who: str, size: Any, measure: str) -> np.ndarray:
        shape = (len(self.names), len(self.results["splits"]))
        found = np.full(shape, np.nan)
        sets = self.results["values"].get(who, {}).get(str(size), {}).get(measure, {})
        for i, name in enumerate(self.names):
            if name in sets:
                found[i] = [np.nan if x == "-" else float(x) for x in sets[name].split()]
        return found

    def stacked(self, who: str, sizes: Sequence[Any], measure: str) -> np.ndarray:
        """Return sizes x sets x splits, signed so that less is better."""
        return SIGNS[measure] * np.array([self.array(who, k, measure) for k in sizes])

    def common(
        self, names: Iterable[str], sizes: Sequence[Any], measure: str
    ) -> dict[str, np.ndarray]:
        """Return sizes x sets for each name: means over the splits that all of them have.

        Sets without any such split are left out.
        """
        stacks = {who: self.stacked(who, sizes, measure) for who in names}
        is_there = np.all([~np.isnan(s).any(axis=0) for s in stacks.values()], axis=0)
        kept = is_there.any(axis=1)
        counts = is_there[kept].sum(axis=1)
        return {
            who: np.where(is_there, s, 0.0)[:, kept].sum(axis=2) / counts
            for who, s in stacks.items()
        }

    def present(self, names: Iterable[str], sizes: Sequence[Any], me: str) -> list[str]:
        """Return the names that have run on nearly all that the one of ours has run on."""
        found = {w: ~np.isnan(self.stacked(w, sizes, "error")) for w in (me, *names)}
        enough = 0.9 * found[me].sum()
        return [who for who in names if (found[who] & found[me]).sum() >= enough]
