"""Run the blocks of Markdown pages, as somebody would who copies them.

``python tests/pages.py docs/start.md`` runs pages in a new empty folder, with what is installed:
so continuous integration can follow a page in a new environment.
"""

from __future__ import annotations

import contextlib
import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>```+) *(?P<language>\w*)[^`]*$")
COMMENT = re.compile(r"^<!-- *(.*?) *-->$")


@dataclass(frozen=True)
class Block:
    language: str
    source: str
    line: int  # of the first line of the source, counted from 1
    mark: str  # the comment on the line above, without its brackets


def read_blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a Markdown text, in order."""
    lines = iter(enumerate(text.splitlines(), start=1))
    mark = ""
    for number, line in lines:
        fence = FENCE.match(line)
        if fence:
            body = []
            for _, inner in lines:
                if inner.strip() == fence["ticks"]:
                    break
                body.append(inner)
            else:
                raise ValueError(f"the block that opens on line {number} is never closed")
            source = textwrap.dedent("\n".join(body)) + "\n"
            yield Block(fence["language"], source, number + 1, mark)
            mark = ""
        elif line.strip():
            comment = COMMENT.match(line.strip())
            mark = comment[1] if comment else ""


def run_python(block: Block, namespace: dict[str, Any], page: Path) -> None:
    """Run a block so that tracebacks point into the page."""
    if re.search(r"^>>> ", block.source, re.MULTILINE):
        run_doctest(block, namespace, page)
    else:
        padding = "\n" * (block.line - 1)
        exec(compile(padding + block.source, str(page), "exec"), namespace)


def run_doctest(block: Block, namespace: dict[str, Any], page: Path) -> None:
    parser = doctest.DocTestParser()
    test = parser.get_doctest(block.source, namespace, page.name, str(page), block.line - 1)
    report: list[str] = []
    runner = doctest.DocTestRunner(
        verbose=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    )
    runner.run(test, out=report.append, clear_globs=False)
    namespace.update(test.globs)  # a doctest works on a copy
    assert not runner.failures, "".join(report)


def run_commands(block: Block, page: Path) -> None:
    """Run the commands of an sh block; all must be ours, or the block must say no-run."""
    for line in block.source.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        where = f"{page.name}:{block.line}: `{line.strip()}`"
        assert words[0] == "totalqboost", f"{where} is never run; put <!-- no-run --> above it"
        script = shutil.which("totalqboost", path=str(Path(sys.executable).parent))
        assert script, f"{where} needs the console script; install the package first"
        done = subprocess.run(
            [script, *words[1:]],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, f"{where} failed:\n{done.stdout}{done.stderr}"


def run_page(page: Path, commands: bool) -> None:
    """Run a page's blocks in the current folder."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in read_blocks(page.read_text(encoding="utf-8")):
        if block.mark == "no-run" or block.mark.startswith("ci:"):
            continue
        if block.language == "python":
            run_python(block, namespace, page)
        elif block.language == "sh" and commands:
            run_commands(block, page)


def main() -> None:
    """Run the pages that the command line names, commands included."""
    os.environ["MPLBACKEND"] = "Agg"  # pictures are saved, not shown
    for name in sys.argv[1:]:
        page = Path(name).resolve()
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            run_page(page, commands=True)
        print(f"{name}: every block ran and printed what the page shows")


if __name__ == "__main__":
    main()
