"""Table: rows of words and numbers for people, as text in a terminal, as HTML in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["Table", "counted"]

STYLE = {"l": "text-align:left", "r": "text-align:right;white-space:nowrap"}
COLOURS = ("#c05621", "#2b6cb0")  # of negative and of positive bars
BAR_WIDTH = 80  # pixels of the longest bar


@dataclass(frozen=True)
class Table:
    """A title over a table of cells that are ready to be shown.

    Attributes
    ----------
    title : str
        One line.
    header : sequence of str
        Names of the columns.
    rows : sequence of sequences of str
        The cells.
    align : str
        One letter per column, "l" or "r": words stand left, numbers right.
    bars : sequence of float or None
        One signed number per row, drawn beside it in HTML; None draws nothing. May be empty.

    Examples
    --------
    >>> print(Table("Fruit", ("name", "kg"), [("apple", "0.2"), ("melon", "12")], "lr").text())
    Fruit
      name    kg
      apple  0.2
      melon   12
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    align: str
    bars: Sequence[float | None] = ()

    def text(self) -> str:
        """Return the title and, if there are rows, the table in aligned columns."""
        if not self.rows:
            return self.title
        lines = [self.header, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join([self.title, *(f"  {self._line(line, widths)}" for line in lines)])

    def _line(self, cells: Sequence[str], widths: Sequence[int]) -> str:
        padded = [
            cell.rjust(width) if align == "r" else cell.ljust(width)
            for cell, width, align in zip(cells, widths, self.align, strict=True)
        ]
        return "  ".join(padded).rstrip()

    def html(self) -> str:
        """Return an HTML table; whatever the cells hold is shown as text."""
        title = f'<div style="text-align:left;padding:0.3em 0.6em">{escape(self.title)}</div>'
        if not self.rows:
            return title
        bars = self._bars()
        head = _row("th", self.header, self.align, "<th></th>" if self.bars else "")
        body = "".join(
            _row("td", cells, self.align, bar) for cells, bar in zip(self.rows, bars, strict=True)
        )
        # Colours and fonts are the notebook's, light or dark.
        table = f'<table style="margin:0"><thead>{head}</thead><tbody>{body}</tbody></table>'
        return f'<div style="overflow-x:auto">{title}{table}</div>'

    def _bars(self) -> list[str]:
        """Return a cell with a bar for each row, or nothing if the table has none."""
        if not self.bars:
            return [""] * len(self.rows)
        longest = max((abs(value) for value in self.bars if value is not None), default=0.0)
        return [_bar(value, longest) for value in self.bars]


def counted(n: int, noun: str) -> str:
    """Return "1 row", "2 rows"."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _row(tag: str, cells: Sequence[str], align: str, bar: str) -> str:
    texts = (
        f'<{tag} style="{STYLE[side]};padding:0.1em 0.6em">{escape(cell)}</{tag}>'
        for cell, side in zip(cells, align, strict=True)
    )
    return f"<tr>{''.join(texts)}{bar}</tr>"


def _bar(value: float | None, longest: float) -> str:
    if value is None or longest == 0.0:
        return "<td></td>"
    width = round(BAR_WIDTH * abs(value) / longest)
    style = f"width:{width}px;height:0.7em;background:{COLOURS[value > 0]}"
    return f'<td style="text-align:left"><div style="{style}"></div></td>'
