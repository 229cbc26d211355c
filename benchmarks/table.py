"""Write the tables of the pages in docs from benchmarks/results; measures nothing.

Text between the markers ``<!-- benchmark: NAME -->`` and ``<!-- end -->`` is replaced, the rest
of a page is left alone. ``<!-- benchmark: NAME PART -->`` is one of the parts of a benchmark that
has several; its part "origin" says where the numbers come from. Long tables are folded, but for
those of ``OPEN``: a reader opens the others that matter. ``--check`` changes nothing and fails if a
page is out of date.
"""

from __future__ import annotations

import argparse
import html
import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

from common import RESULTS

from totalqboost.files import write_text

DOCS = Path(__file__).parents[1] / "docs"
MOST_OPEN = 9  # rows of a table that is not folded
OPEN = {("reproduction", "gains"), ("reproduction", "generalization")}  # what a page is about
TABLE = re.compile(r"(?:^\|.*\n?)+", re.MULTILINE)
SECTION = re.compile(r"<!-- benchmark: (\w+)( \w+)? -->\n.*?<!-- end -->", re.DOTALL)


def section(name: str, part: str = "") -> str:
    """Return one generated section, markers included."""
    path = RESULTS / f"{name}.json"
    if not path.exists():
        body = f"Not measured yet: run `python benchmarks/{name}.py`."
    else:
        content = json.loads(path.read_text(encoding="utf-8"))
        render = importlib.import_module(name).render
        if part == "origin":
            body = origin(content)
        elif part:
            body = render(content, part)
        else:
            body = f"{render(content)}\n\n{origin(content)}"
    if (name, part) not in OPEN:
        body = TABLE.sub(lambda match: folded(match[0]), body)
    return f"<!-- benchmark: {f'{name} {part}'.strip()} -->\n\n{body}\n\n<!-- end -->"


def folded(table: str) -> str:
    """Return a table as it is, or a long one behind a line that opens it."""
    header, _, *rows = table.strip().splitlines()
    if len(rows) <= MOST_OPEN:
        return table
    columns = [cell.strip() for cell in header.strip("|").split("|") if cell.strip()]
    said = f"Table of {len(rows)} rows: {', '.join(columns)}".replace("\\|", "|")
    return f"<details><summary>{html.escape(said)}</summary>\n\n{table.strip()}\n\n</details>\n"


def origin(content: dict[str, Any]) -> str:
    """Return where the numbers come from: command, machine, versions."""
    machine, versions = content["machine"], content["versions"]
    packages = ", ".join(f"{name} {number}" for name, number in versions.items())
    load = content["configuration"].get("load_before")
    busy = "" if load is None else f" (load average {load} before the start)"
    return (
        f"<sub>`{content['command']}` on {machine['cpu']}, {machine['cores']} cores{busy}, "
        f"{machine['system']}, Python {machine['python']}; {packages}.</sub>"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the tables of the pages in docs.")
    parser.add_argument("pages", nargs="*", help="such as benchmarks; default all")
    parser.add_argument("--check", action="store_true", help="fail if a page is out of date")
    arguments = parser.parse_args()
    for page in sorted(DOCS.glob("*.md")):
        old = page.read_text(encoding="utf-8")
        names = [match[1] + (match[2] or "") for match in SECTION.finditer(old)]
        if not names or (arguments.pages and page.stem not in arguments.pages):
            continue
        new = SECTION.sub(lambda match: section(match[1], (match[2] or "").strip()), old)
        if not arguments.check:
            write_text(page, new)
            print(f"{page}: {', '.join(names)}")
        elif new != old:
            sys.exit(f"{page} is out of date: run python benchmarks/table.py")


if __name__ == "__main__":
    main()
