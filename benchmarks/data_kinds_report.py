"""What data_kinds.py found, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from common import table
from generalization_report import absent, best_at_every_size, ranked, span, versus_table
from generalization_values import Record, Values
from models import OWN
from ranks import against

TITLES = {"error": "test error (%)", "log_loss": "log-loss"}
DEFAULTS = {
    "classes": "ours, joint",
    "pairs": "ours, chosen",
}  # what is compared; of the other kinds "ours"
HEADERS = {
    "classes": "Many classes",
    "missing": "Missing values",
    "injected": "Values removed on purpose",
    "categories": "Categories",
    "identity": "Categories and an identifier of 300 levels that says nothing",
    "prices": "Feature prices",
    "pairs": "Conjunctions of two conditions",
}


def default(kind: str) -> str:
    return DEFAULTS.get(kind, "ours")


def is_ours(name: str) -> bool:
    return name.startswith("ours")


def contenders(values: Values, sizes: Sequence[int], me: str) -> list[str]:
    """Return who has run on nearly all that ours has run on."""
    return values.present(list(values.results["values"]), sizes, me)


def counted(values: Values, sizes: Sequence[Any]) -> str:
    """Return how many tables there are, and how many splits of each."""
    stacks = [values.stacked(who, sizes, "error") for who in values.results["values"]]
    counts = (~np.isnan(stacks)).any(axis=(0, 1)).sum(axis=1)
    return f"{len(counts)} tables, splits of each: {span(counts.min(), counts.max())}."


# -- at equal size --------------------------------------------------------------------------


def equal_size(values: Values, sizes: Sequence[int], me: str) -> list[str]:
    """Return ranks of all, and whether a rival has a better one than ours."""
    lines = []
    names = contenders(values, sizes, me)
    for measure, title in TITLES.items():
        lines_of, ranks = ranked(values, names, sizes, measure, title)
        among = [{w: r for w, r in rank.items() if w == me or not is_ours(w)} for rank in ranks]
        lines += [*lines_of, "", best_at_every_size(me, among, sizes, f"{title}, rivals only,"), ""]
    others = [who for who in names if who != me]
    found = values.common(names, sizes, "error")
    versus = against(found[me].mean(axis=0), {w: found[w].mean(axis=0) for w in others})
    return [*lines, versus_table(f"test error (%): {me} minus", versus, "error"), ""]


def per_set(values: Values, sizes: Sequence[int], me: str) -> list[str]:
    """Return the error of every set, mean over sizes, the least in bold."""
    names = contenders(values, sizes, me)
    found = np.array([values.stacked(w, sizes, "error") for w in names])
    rows = []
    for i, data in enumerate(values.names):
        cells = found[:, :, i]
        is_there = ~np.isnan(cells).any(axis=(0, 1))
        if is_there.any():
            means = cells[:, :, is_there].mean(axis=(1, 2))
            best = means.min() + 0.005
            rows.append([data, *(f"**{m:.2f}**" if m <= best else f"{m:.2f}" for m in means)])
    return [table(["error (%), mean over sizes", *names], rows), ""]


# -- kinds of their own ---------------------------------------------------------------------


def _groups(values: Values) -> dict[str, list[int]]:
    """Return the tables of each way to remove values: "data, way, share" without the data."""
    groups: dict[str, list[int]] = {}
    for i, name in enumerate(values.names):
        groups.setdefault(name.split(", ", 1)[1], []).append(i)
    return groups


def injected(values: Values, sizes: Sequence[int], me: str) -> list[str]:
    """Return mean errors of each way to remove values, at each size."""
    names = contenders(values, sizes, me)
    found = np.array([values.stacked(w, sizes, "error") for w in names])
    is_there = ~np.isnan(found).any(axis=(0, 1))
    groups = _groups(values)
    rows = []
    for who, cells in zip(names, found, strict=True):
        row = [who]
        for members in groups.values():
            kept = is_there[members]
            means = [float(at_size[members][kept].mean()) for at_size in cells]
            row.append(" / ".join(f"{m:.1f}" for m in means))
        rows.append(row)
    said = " / ".join(str(k) for k in sizes)
    return [table([f"error (%), k = {said}", *groups], rows), ""]


def identity(values: Values, without: Values, sizes: Sequence[int]) -> list[str]:
    """Return the errors of the same tables with and without the identifier."""
    rows = []
    chosen = [without.names.index(name) for name in values.names if name in without.names]
    for who in values.results["values"]:
        with_it = values.stacked(who, sizes, "error")
        plain = without.stacked(who, sizes, "error")[:, chosen]
        is_there = ~(np.isnan(with_it) | np.isnan(plain)).any(axis=0)
        if is_there.any():
            cells = [
                f"{p[is_there].mean():.2f} → {w[is_there].mean():.2f}"
                for p, w in zip(plain, with_it, strict=True)
            ]
            change = float((with_it - plain)[:, is_there].mean())
            rows.append([who, *cells, f"{change:+.2f}", int(is_there.any(axis=1).sum())])
    header = ["error (%), without → with it", *(f"k = {k}" for k in sizes)]
    return [table([*header, "change", "tables"], rows), ""]


def prices(values: Values) -> list[str]:
    """Return the number of features and the error of every price and limit."""
    rows = []
    for who in values.results["values"]:
        cells, means = [], []
        for i in range(len(values.names)):
            found = [np.nanmean(values.array(who, OWN, m)[i]) for m in ("features", "error")]
            cells.append(f"{found[0]:.1f}; {found[1]:.1f}")
            means.append(found)
        features, error = np.mean(means, axis=0)
        stumps = float(np.nanmean(values.array(who, OWN, "cuts")))
        rows.append([who, *cells, f"{features:.1f}; {error:.1f}", f"{stumps:.1f}"])
    header = ["features; test error (%)", *values.names, "mean", "stumps"]
    return [table(header, rows), ""]


def seconds(results: Record) -> str:
    """Return the CPU time of a call for all sizes."""
    said = ", ".join(f"{name} {s:.1f}" for name, s in results["seconds"].items())
    return f"CPU seconds of a call for all sizes, inner cross-validation included: {said}."


# -- page -----------------------------------------------------------------------------------


def section(kind: str, content: Record) -> list[str]:
    results = content["results"][kind]
    values, sizes = Values(results), content["configuration"]["sizes"][kind]
    me = default(kind)
    lines = [f"### {HEADERS[kind]}", "", counted(values, sizes or [OWN]), ""]
    if kind == "prices":
        return [*lines, *prices(values)]
    if kind == "injected":
        lines += injected(values, sizes, me)
    if kind == "identity":
        plain = content["results"].get("categories")
        lines += identity(values, Values(plain), sizes) if plain else []
    else:
        lines += equal_size(values, sizes, me)
    if kind != "injected":
        lines += per_set(values, sizes, me)
    lines += [seconds(results), ""]
    missing = results["absent"] or results["missing"] or results["fewer_splits"]
    return [*lines, *absent(results), ""] if missing else lines


def render(content: Record) -> str:
    """Return all tables as Markdown."""
    configuration = content["configuration"]
    lines = [
        f"At most {configuration['rows']:,} training rows, at most {configuration['max_test']:,} "
        "test rows. A table is one observation, the mean over its splits.",
        "",
    ]
    for kind, results in content["results"].items():
        if results["values"]:
            lines += section(kind, content)
    return "\n".join(lines).rstrip()
