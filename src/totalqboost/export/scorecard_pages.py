"""A scorecard as Markdown, as a page that can be printed, and as a picture."""

from __future__ import annotations

import io
import math
import re
import textwrap
import warnings
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from totalqboost.export.scorecard import Card, Level, Rule

__all__ = ["html", "markdown", "png"]

EXTRA = 'a picture needs the package matplotlib; install it with pip install "totalqboost[export]"'
BOX = "☐"


def instruction(card: Card) -> str:
    """Return what to do with the card."""
    if card.is_multiclass:
        return "Add the points of every line that holds, in every column."
    return "Add the points of every line that holds."


def totals(level: Level) -> str:
    """Return "3", "4 to 7"."""
    return f"{level.low}" if level.low == level.high else f"{level.low} to {level.high}"


def risk(level: Level) -> str:
    """Return "12 %", "3 to 9 %"; nobody knows a risk below 1 % or above 99 %."""
    if level.risks is None:
        return ""
    first, last = map(_percent, level.risks)
    return f"{first} %" if first == last else f"{first} to {last} %"


def _percent(probability: float) -> str:
    if 0.01 <= probability <= 0.99:
        return f"{100 * probability:.0f}"
    return "< 1" if probability < 0.01 else "> 99"


def odds(card: Card) -> str:
    """Return what a point is worth where there are more than two classes."""
    if card.loss != "multinomial" or card.unit > 50:
        return ""
    return f"Each point between two totals multiplies the odds by {math.exp(card.unit):.3g}."


def _head(card: Card) -> list[str]:
    return list(card.classes) if card.is_multiclass else ["Points"]


def _cells(rule: Rule) -> list[str]:
    return [str(points) for points in rule.points]


# -- Markdown --------------------------------------------------------------------------------


def markdown(card: Card) -> str:
    """Return the card as Markdown."""
    n = len(_head(card))
    rows = [[BOX, _plain(rule.text), *_cells(rule)] for rule in card.rules]
    if card.start:
        rows.insert(0, ["", "Always", *map(str, card.start)])
    rows.append([" ", "**Total**", *[""] * n])
    header = [" ", "If", *map(_plain, _head(card))]
    parts = [
        f"# {_plain(card.title)}",
        instruction(card),
        _table(header, rows, "ll" + "r" * n),
        _plain(card.verdict()),
    ]
    if card.is_multiclass:
        parts += [odds(card)] if odds(card) else []
    else:
        parts.append(_levels(card))
    return "\n\n".join([*parts, *map(_plain, card.notes)]) + "\n"


def _levels(card: Card) -> str:
    levels = card.levels()
    if levels[0].risks is None:
        return _table(["Total", "Answer"], [[totals(e), _plain(e.answer)] for e in levels], "rl")
    rows = [[totals(level), _plain(risk(level)), _plain(level.answer)] for level in levels]
    return _table(["Total", f"Risk of {_plain(card.classes[1])}", "Answer"], rows, "rrl")


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> str:
    rule = "|" + "|".join("---:" if side == "r" else "---" for side in align) + "|"
    lines = [f"| {' | '.join(cells)} |" for cells in [header, *rows]]
    return "\n".join([lines[0], rule, *lines[1:]])


def _plain(text: str) -> str:
    """Return text that Markdown and the HTML in it take for text."""
    text = re.sub(r"([\\`*_\[\]|#~$!])", r"\\\1", text)
    return re.sub(r"<(?=\S)", "&lt;", re.sub(r"&(?=[\\#\w])", "&amp;", text))


# -- HTML ------------------------------------------------------------------------------------

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
@page {{ size: A4; margin: 15mm; }}
body {{ font: 15px/1.45 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; color: #1a202c;
  background: #fff; max-width: 46em; margin: 2em auto; padding: 0 1em; }}
h1 {{ font-size: 1.5em; margin: 0 0 .3em; overflow-wrap: anywhere; }}
table {{ border-collapse: collapse; width: 100%; margin: 1em 0; break-inside: auto; }}
tr {{ break-inside: avoid; }}
th, td {{ padding: .4em .6em; border-bottom: 1px solid #cbd5e0; text-align: left;
  vertical-align: top; overflow-wrap: anywhere; }}
thead th {{ border-bottom: 2px solid #2d3748; font-weight: 600; }}
.n {{ text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; width: 1%; }}
.box {{ width: 1%; font-size: 1.2em; line-height: 1.1; }}
.total td {{ font-weight: 600; border-bottom: none; padding-top: .7em; }}
.total .write {{ border: 1.5px solid #2d3748; min-width: 3.5em; }}
.bar {{ width: 40%; }}
.bar div {{ height: .9em; margin-top: .25em; background: #2b6cb0; print-color-adjust: exact;
  -webkit-print-color-adjust: exact; }}
.bar .no {{ background: #a0aec0; }}
.first td {{ border-top: 2px solid #2d3748; }}
.verdict {{ font-size: 1.1em; font-weight: 600; }}
.notes {{ color: #4a5568; font-size: .87em; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{instruction}</p>
{rules}
<p class="verdict">{verdict}</p>
{levels}<p class="notes">{notes}</p>
</body>
</html>
"""


def html(card: Card) -> str:
    """Return the card as a page of its own, for a screen or a sheet of paper."""
    head = "".join(f'<th class="n">{escape(name)}</th>' for name in _head(card))
    lines = [
        _line(BOX, rule.text, [f'<td class="n">{cell}</td>' for cell in _cells(rule)])
        for rule in card.rules
    ]
    if card.start:
        own = [f'<td class="n">{points}</td>' for points in card.start]
        lines.insert(0, _line("", "Always", own))
    write = '<td class="n write">&nbsp;</td>' * len(_head(card))
    lines.append(f'<tr class="total"><td class="box"></td><td>Total</td>{write}</tr>')
    rules = (
        f'<table><thead><tr><th class="box"></th><th>If</th>{head}</tr></thead>\n<tbody>\n'
        + "\n".join(lines)
        + "\n</tbody></table>"
    )
    extra = f"<p>{escape(odds(card))}</p>\n" if card.is_multiclass else _level_table(card)
    return PAGE.format(
        title=escape(card.title),
        instruction=escape(instruction(card)),
        rules=rules,
        verdict=escape(card.verdict()),
        levels=extra,
        notes=escape(" ".join(card.notes)).replace(" %", "&nbsp;%"),
    )


def _line(box: str, text: str, cells: Sequence[str]) -> str:
    return f'<tr><td class="box">{box}</td><td>{escape(text)}</td>{"".join(cells)}</tr>'


def _level_table(card: Card) -> str:
    levels = card.levels()
    has_risk = levels[0].risks is not None
    risks = f'<th class="n">Risk of {escape(card.classes[1])}</th><th></th>' if has_risk else ""
    lines = [_level_line(card, level) for level in levels]
    return (
        f'<table><thead><tr><th class="n">Total</th>{risks}<th>Answer</th></tr></thead>\n<tbody>\n'
        + "\n".join(lines)
        + "\n</tbody></table>\n"
    )


def _level_line(card: Card, level: Level) -> str:
    cells = f'<td class="n">{totals(level)}</td>'
    if level.risks is not None:
        width, side = 50.0 * sum(level.risks), "" if level.answer == card.classes[1] else "no"
        bar = f'<div class="{side}" style="width:{width:.0f}%"></div>'
        cells += f'<td class="n">{escape(risk(level))}</td><td class="bar">{bar}</td>'
    is_first = level.low == card.cutoff and level.low > 0
    mark = ' class="first"' if is_first else ""
    return f"<tr{mark}>{cells}<td>{escape(level.answer)}</td></tr>"


# -- a picture -------------------------------------------------------------------------------

WIDTH, LINE, CELL, EDGE = 7.0, 0.27, 0.85, 0.35  # inches
MOST_LETTERS = 12  # of a label over a column
DARK, GREY, BLUE = "#2d3748", "#a0aec0", "#2b6cb0"
LETTERS = {14: 42, 10: 62, 8: 78}  # of a line, by the size of the font


def png(card: Card) -> bytes:
    """Return the card as a picture."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(EXTRA) from error
    lines = _wrapped(_picture_lines(card))
    width = WIDTH + CELL * max(0, len(_head(card)) - 3)
    figure = Figure(figsize=(width, LINE * (len(lines) + 2)))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    axes.set_xlim(0.0, width)
    axes.set_ylim(len(lines) + 1.0, -1.0)
    for y, line in enumerate(lines):
        _draw(axes, float(y), line, width - EDGE)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a letter that the font does not have
        figure.savefig(file, format="png", dpi=150, facecolor="white", metadata={"Software": None})
    return file.getvalue()


def _picture_lines(card: Card) -> list[dict[str, Any]]:
    """Return the lines of the picture: text, cells at the right, a bar, and how they look."""
    lines: list[dict[str, Any]] = [{"text": card.title, "size": 14, "bold": True}, {}]
    lines += [{"text": instruction(card)}, {}, {"cells": _head(card), "under": True, "bold": True}]
    if card.start:
        lines.append({"text": "Always", "cells": [str(points) for points in card.start]})
    lines += [{"text": f"{BOX}  {rule.text}", "cells": _cells(rule)} for rule in card.rules]
    lines += [{"text": "Total", "cells": ["____"] * len(_head(card)), "bold": True}, {}]
    lines += [{"text": card.verdict(), "bold": True}, {}]
    if card.is_multiclass:
        lines += [{"text": odds(card)}, {}] if odds(card) else []
    else:
        lines += [*_picture_levels(card), {}]
    return lines + [{"text": note, "size": 8} for note in card.notes]


def _picture_levels(card: Card) -> list[dict[str, Any]]:
    levels = card.levels()
    name = f"Risk of {card.classes[1]}" if levels[0].risks is not None else ""
    lines: list[dict[str, Any]] = [{"text": "Total", "middle": name, "under": True, "bold": True}]
    for level in levels:
        bar = None if level.risks is None else sum(level.risks) / 2
        colour = BLUE if level.answer == card.classes[1] else GREY
        own = {"text": totals(level), "middle": risk(level), "answer": level.answer}
        lines.append({**own, "bar": bar, "colour": colour})
    return lines


def _wrapped(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return lines that are not longer than the picture is wide."""
    found: list[dict[str, Any]] = []
    for line in lines:
        most = LETTERS[line.get("size", 10)] - (12 if "cells" in line else 0)
        parts = textwrap.wrap(line.get("text", ""), most) or [""]
        found.append({**line, "text": parts[0]})
        look: dict[str, Any] = {key: line[key] for key in ("size", "bold") if key in line}
        indent = "     " if "cells" in line else ""
        found += [{**look, "text": indent + part} for part in parts[1:]]
    return found


def _draw(axes: Any, y: float, line: dict[str, Any], right: float) -> None:
    look = {
        "fontsize": line.get("size", 10),
        "fontweight": "bold" if line.get("bold") else "normal",
        "color": DARK,
        "va": "center",
        "parse_math": False,
        "fontfamily": "DejaVu Sans",
    }
    axes.text(EDGE, y, line["text"], **look)
    for k, cell in enumerate(reversed(line.get("cells", ()))):
        axes.text(right - CELL * k, y, _short(cell, MOST_LETTERS), ha="right", **look)
    if "middle" in line:
        axes.text(2.8, y, _short(line["middle"], 24), ha="right", **look)
    if line.get("bar") is not None:
        axes.barh(y, 2.1 * line["bar"], 0.55, left=3.15, color=line["colour"])
    if "answer" in line:
        axes.text(5.45, y, _short(line["answer"], 15), **look)
    if line.get("under"):
        axes.plot([EDGE, right], [y + 0.5, y + 0.5], color=DARK, linewidth=1.2)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
