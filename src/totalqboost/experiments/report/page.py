"""The page: one HTML file that holds all it needs, Plotly's program included."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

from totalqboost import datasets
from totalqboost.experiments.figures import min_splits
from totalqboost.experiments.folder import Run
from totalqboost.experiments.gains import gain_spreads
from totalqboost.experiments.report.headlines import MIN_SPLITS, headlines
from totalqboost.experiments.report.panels import panels, shown_first
from totalqboost.experiments.report.series import ALL_GROUPS, SERIES
from totalqboost.experiments.report.tables import (
    PAPER_CORE_HOURS,
    difference_lines,
    gain_lines,
    share_lines,
    time_lines,
)
from totalqboost.experiments.rows import PAPER_STRATEGIES, STRATEGIES
from totalqboost.experiments.statistics import compare

__all__ = ["render"]

ASSETS = "assets"


def render(run: Run) -> str:
    """Return the page as text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from plotly.offline import get_plotlyjs

    environment = Environment(
        loader=PackageLoader(__package__, ASSETS),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(duration=duration, p_value=p_value, percent=percent, points=points)
    drawn = panels(run)
    present = {row.strategy for row in run.rows}
    series = [s for s in SERIES if s.kind != "strategy" or s.key in present]
    comparisons = compare(run.rows)
    first = shown_first(drawn)
    data = {
        "panels": drawn,
        "first": first,
        "groups": ALL_GROUPS,
        "strategies": STRATEGIES,
        "series": [{"key": s.key, "kind": s.kind, "symbol": s.symbol} for s in series],
    }
    return environment.get_template("page.html").render(
        run=run,
        series=series,
        panels=drawn,
        first=first,
        headlines=headlines(run, comparisons),
        gains=gain_lines(run) if len(run.splits) == 1 else {},
        spreads=gain_spreads(run.rows) if len(run.splits) > 1 else [],
        differences=difference_lines(run.datasets, comparisons),
        shares=share_lines(run),
        times=time_lines(run),
        paper_seconds=_paper_seconds(run),
        all_datasets=set(run.datasets) == set(datasets.names()),
        wall_seconds=wall_seconds(run.config),
        enough_splits=MIN_SPLITS,
        min_splits=min_splits(len(run.splits)),
        paper_core_hours=PAPER_CORE_HOURS,
        config=list(flatten(run.config)),
        style=asset("page.css"),
        script=asset("parts.js") + asset("page.js"),
        plotly=pack(get_plotlyjs()),
        data=pack(json.dumps(data, separators=(",", ":"), allow_nan=False)),
    )


def _paper_seconds(run: Run) -> float | None:
    """Return the time of a split of what the paper ran, None if some of it is missing."""
    seconds = {line.strategy: line.seconds for line in time_lines(run)}
    found = [seconds.get(name) for name in PAPER_STRATEGIES]
    return None if None in found else sum(s for s in found if s is not None)


def asset(name: str) -> str:
    """Return a text file of the page, as it is."""
    return files(__package__).joinpath(ASSETS, name).read_text(encoding="utf-8")


def pack(text: str) -> str:
    """Return the text compressed and in letters that are safe inside HTML."""
    return base64.b64encode(gzip.compress(text.encode("utf-8"), mtime=0)).decode("ascii")


def flatten(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the values of nested mappings with their dotted names, as text."""
    for key, value in content.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        elif isinstance(value, list | tuple):
            yield f"{prefix}{key}", ", ".join(map(str, value))
        else:
            yield f"{prefix}{key}", str(value)


# -- numbers for people ---------------------------------------------------------------------


def wall_seconds(config: Mapping[str, Any]) -> float | None:
    """Return how long the run took by the clock, if that was noted."""
    seconds = config.get("wall_seconds")
    return float(seconds) if isinstance(seconds, int | float) and seconds > 0 else None


def duration(seconds: float) -> str:
    """Return a duration in the units that people use for it.

    >>> duration(4.25), duration(252), duration(7320)
    ('4.2 s', '4 min 12 s', '2 h 2 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def percent(share: float, digits: int = 2) -> str:
    """Return a share in percent."""
    return f"{100 * share:.{digits}f}\xa0%"


def points(difference: float) -> str:
    """Return a difference of shares in percentage points, with its sign."""
    return f"{100 * difference:+.2f}".replace("-", "−")


def p_value(p: float) -> str:
    """Return a p-value with as many digits as it deserves.

    >>> p_value(0.0004), p_value(0.0312), p_value(0.5)
    ('< 0.001', '0.031', '0.50')
    """
    if p < 0.001:
        return "< 0.001"
    return f"{p:.3f}" if p < 0.1 else f"{p:.2f}"
