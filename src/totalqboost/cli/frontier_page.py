"""The frontier as one HTML page: it holds all it needs, and no more than that."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from totalqboost.cli.show import counted, percent, spread
from totalqboost.frontier import FrontierPoint

__all__ = ["Found", "render"]

LEGEND = {
    "measured": '<svg width="26" height="14"><path class="band" d="M0 1H26V13H0Z"/>'
    '<path class="line" d="M0 7H26"/><circle class="dot" cx="13" cy="7" r="3"/></svg>',
    "only training": '<svg width="26" height="14"><path class="line" d="M0 7H26"/>'
    '<circle class="dot" cx="13" cy="7" r="3"/></svg>',
    "training": '<svg width="26" height="14"><path class="training" d="M0 7H26"/></svg>',
    "chosen": '<svg width="16" height="14"><circle class="chosen" cx="8" cy="7" r="6"/></svg>',
}


@dataclass(frozen=True)
class Found:
    """A frontier and what is to be said about it.

    ``measured`` says on what the errors were measured that are not the training's ("" if there
    are none), ``rule`` why the chosen size was chosen, and ``command`` how to find it again.
    """

    points: Sequence[FrontierPoint]
    train_log_loss: Sequence[float]
    chosen: int
    data: str
    target: str
    n_rows: int
    feature_names: tuple[str, ...]
    deciles: tuple[tuple[float, ...], ...]
    measured: str
    rule: str
    command: tuple[str, ...] = ()
    is_complete: bool = True

    @property
    def best(self) -> FrontierPoint:
        """The chosen point."""
        return self.points[self.chosen]


def render(found: Found) -> str:
    """Return the page as text."""
    from totalqboost.experiments.report.page import asset as shared

    best, content = found.best, _content(found)
    words = {
        "title": f"{found.data}: error by size",
        "data": found.data,
        "target": found.target,
        "lead": _lead(found),
        "summary": f"Chosen: {counted(best.n_learners, 'weak classifier')}.",
        "back": f"Back to the chosen {best.n_learners}",
        "how": _how(content["sizes"][found.chosen]["ensemble"]["classes"]),
    }
    markup = {
        "notice": "" if found.is_complete else _notice(),
        "tiles": _tiles(found),
        "legend": _legend(found),
        "table": _table(found),
        "style": shared("page.css") + _asset("frontier.css"),
        "script": shared("parts.js") + _asset("frontier.js"),
        "content": json.dumps(content, allow_nan=False).replace("<", "\\u003c"),
    }
    safe = {name: escape(text) for name, text in words.items()}
    return Template(_asset("frontier.html")).substitute(safe, **markup)


def _asset(name: str) -> str:
    return files("totalqboost.cli").joinpath("assets", name).read_text(encoding="utf-8")


def _how(classes: Sequence[str]) -> str:
    """Return how answers become a class."""
    if len(classes) > 2:
        return (
            "it has a weight for each class, which is added to the score of that class if the "
            "answer is yes, else subtracted. The class of the highest score, with its intercept, "
            "is the answer."
        )
    return (
        f"its weight goes to class {classes[1]} if the answer is yes, else to {classes[0]}. The "
        "sum with the intercept is the score, its sign the answer."
    )


# -- for the charts ------------------------------------------------------------------------


def _content(found: Found) -> dict[str, Any]:
    from totalqboost.experiments.report.panels import ensemble_entry

    deciles = dict(enumerate(found.deciles))
    return {
        "chosen": found.chosen,
        "sizes": [
            {
                "n": point.n_learners,
                **{name: _known(getattr(point, field)) for name, field in FIELDS.items()},
                "train_log_loss": _known(loss),
                "command": _command(found, point),
                "ensemble": ensemble_entry(point.ensemble, deciles),
            }
            for point, loss in zip(found.points, found.train_log_loss, strict=True)
        ],
    }


FIELDS = {
    "error": "valid_error",
    "error_se": "valid_error_se",
    "log_loss": "valid_log_loss",
    "log_loss_se": "valid_log_loss_se",
    "auc": "valid_auc",
    "auc_se": "valid_auc_se",
    "train_error": "train_error",
    "penalty": "penalty",
}


def _known(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _command(found: Found, point: FrontierPoint) -> str:
    if not found.command or not point.n_learners:
        return ""
    size = ["--size", str(point.n_learners), "--model", "model.json"]
    return shlex.join([*found.command, *size])


# -- words and tables ----------------------------------------------------------------------


def _lead(found: Found) -> str:
    sizes = f"{found.points[0].n_learners} to {found.points[-1].n_learners}"
    rows = f"{counted(found.n_rows, 'row')}, {counted(len(found.feature_names), 'feature')}"
    where = f"Errors were measured {found.measured}." if found.measured else "Errors: training."
    return f"The best ensembles found of {sizes} decision stumps ({rows}). {where}"


def _notice() -> str:
    return '<p class="notice">The search was interrupted: sizes may be missing, or better.</p>'


def _tiles(found: Found) -> str:
    best = found.best
    error, se = best.valid_error, best.valid_error_se
    loss, loss_se = best.valid_log_loss, best.valid_log_loss_se
    tiles = [("Chosen size", str(best.n_learners), found.rule)]
    if math.isfinite(error):
        tiles.append(
            ("Error", percent(error), f"± {100 * se:.1f}; training {percent(best.train_error)}")
        )
    else:
        tiles.append(("Training error", percent(best.train_error), "on rows not seen it is higher"))
    if math.isfinite(loss):
        tiles.append(("Log loss", f"{loss:.3f}", f"± {loss_se:.3f}"))
    if math.isfinite(best.valid_auc):
        tiles.append(("AUC", f"{best.valid_auc:.3f}", f"± {best.valid_auc_se:.3f}"))
    return "\n".join(
        f"<div><dt>{name}</dt><dd><b>{escape(value)}</b> <span>{escape(note)}</span></dd></div>"
        for name, value, note in tiles
    )


def _legend(found: Found) -> str:
    entries = [("only training", "training rows")]
    if found.measured:
        entries = [("measured", "rows not seen ± standard error"), ("training", "training rows")]
    entries.append(("chosen", "chosen size"))
    return "".join(f"<li>{LEGEND[key]}{escape(words)}</li>" for key, words in entries)


def _table(found: Found) -> str:
    heads = ["Size", "Training error", "Error", "Log loss", "AUC", "ν"]
    lines = [
        f"<caption>{escape(found.rule.capitalize())}: size {found.best.n_learners}</caption>",
        "<thead><tr>"
        + "".join(f'<th scope="col" class="num">{head}</th>' for head in heads)
        + "</tr></thead><tbody>",
    ]
    for index, p in enumerate(found.points):
        cells = [
            percent(p.train_error),
            spread(100 * p.valid_error, 100 * p.valid_error_se, 1, " %"),
            spread(p.valid_log_loss, p.valid_log_loss_se, 3),
            spread(p.valid_auc, p.valid_auc_se, 3),
            f"{p.l1_penalty:.3g}",
        ]
        mark = ' class="best"' if index == found.chosen else ""
        row = "".join(f'<td class="num">{cell}</td>' for cell in cells)
        lines.append(f'<tr{mark}><th scope="row" class="num">{p.n_learners}</th>{row}</tr>')
    return "<table>\n" + "\n".join(lines) + "\n</tbody></table>"
