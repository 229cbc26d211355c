"""What the README and the docs show is what the code does: their blocks are run.

Blocks run in the order they stand in, per file in one namespace and one empty folder: Python
blocks (as doctests where they have prompts) and, in the README, the ``totalqboost`` commands
of sh blocks. ``<!-- no-run -->`` above a block excuses it; the blocks under ``<!-- ci: … -->``
are run by ``.ci/run``.
"""

from __future__ import annotations

import doctest
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]

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


def run_python(block: Block, namespace: dict, page: Path) -> None:
    """Run a block so that tracebacks point into the page."""
    if re.search(r"^>>> ", block.source, re.MULTILINE):
        run_doctest(block, namespace, page)
    else:
        padding = "\n" * (block.line - 1)
        exec(compile(padding + block.source, str(page), "exec"), namespace)


def run_doctest(block: Block, namespace: dict, page: Path) -> None:
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
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, f"{where} failed:\n{done.stdout}{done.stderr}"


def run_page(page: Path, commands: bool) -> None:
    """Run a page's blocks in the current folder."""
    namespace = {"__name__": "__main__"}
    for block in read_blocks(page.read_text(encoding="utf-8")):
        if block.mark == "no-run" or block.mark.startswith("ci:"):
            continue
        if block.language == "python":
            run_python(block, namespace, page)
        elif block.language == "sh" and commands:
            run_commands(block, page)


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")  # pictures are saved, not shown
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_runs(page, empty_folder):
    run_page(page, commands=page == README)


@pytest.mark.parametrize("name", ["test", "demo"])
def test_readme_has_one_command_for_ci(name):
    text = README.read_text(encoding="utf-8")
    found = re.findall(rf"^<!-- ci: {name} -->\n```sh\n(.+)\n```$", text, re.MULTILINE)
    assert len(found) == text.count(f"ci: {name}") == 1


def write_page(folder: Path, *blocks: str) -> Path:
    page = folder / "page.md"
    page.write_text("# Title\n\n" + "\n\ntext\n\n".join(blocks), encoding="utf-8")
    return page


def test_blocks_share_a_namespace_and_a_folder(empty_folder):
    prompt = ">" * 3  # spelled so that pytest does not take this file for doctests
    page = write_page(
        empty_folder,
        "```python\nx = 1\n```",
        f"```python\n{prompt} x = x + 1\n{prompt} x\n2\n```",
        "- item\n\n  ```python\n  assert x == 2\n  open('x.txt', 'w').close()\n  ```",
        "<!-- no-run -->\n```python\nx = 1 / 0\n```",
        "```text\nnot python\n```",
        "```sh\nnot run\n```",
    )
    run_page(page, commands=False)
    assert (empty_folder / "x.txt").exists()


def test_failing_block_points_into_the_page(empty_folder):
    page = write_page(empty_folder, "```python\nx = 0\n1 / x\n```")
    with pytest.raises(ZeroDivisionError) as caught:
        run_page(page, commands=False)
    assert caught.traceback[-1].path == page
    assert caught.traceback[-1].lineno + 1 == 5


def test_failing_doctest_block_fails(empty_folder):
    prompt = ">" * 3
    page = write_page(empty_folder, f"```python\n{prompt} 1 + 1\n3\n```")
    with pytest.raises(AssertionError, match=r"Expected:\n +3\n +Got:\n +2"):
        run_page(page, commands=False)


def test_command_that_is_not_run_must_say_so(empty_folder):
    with pytest.raises(AssertionError, match=r"page.md:4: `make all` is never run"):
        run_page(write_page(empty_folder, "```sh\n# a comment\nmake all\n```"), commands=True)
    run_page(write_page(empty_folder, "<!-- no-run -->\n```sh\nmake all\n```"), commands=True)


def test_block_that_is_never_closed_is_an_error(empty_folder):
    with pytest.raises(ValueError, match="line 3 is never closed"):
        run_page(write_page(empty_folder, "```python\nx = 1"), commands=False)
