"""What the README and the docs show is what the code does: their blocks are run.

Blocks run in the order they stand in, per file in one namespace and one empty folder: Python
blocks (as doctests where they have prompts) and, in some pages, the ``totalqboost`` commands of
sh blocks. ``<!-- no-run -->`` above a block excuses it; the blocks under ``<!-- ci: … -->``
are run by ``.ci/run``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pages import run_page

from totalqboost import datasets

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]

# Their commands run too; those of the other pages need files or hours that tests do not have.
WITH_COMMANDS = {"README.md", "start.md", "for-devices.md"}


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")  # pictures are saved, not shown
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_runs(page, empty_folder):
    run_page(page, commands=page.name in WITH_COMMANDS)


@pytest.mark.parametrize("name", ["test", "demo"])
def test_readme_has_one_command_for_ci(name):
    text = README.read_text(encoding="utf-8")
    found = re.findall(rf"^<!-- ci: {name} -->\n```sh\n(.+)\n```$", text, re.MULTILINE)
    assert len(found) == text.count(f"ci: {name}") == 1


def test_readme_is_short_and_its_links_lead_somewhere():
    text = README.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
    assert [link for link in links if not (ROOT / link).exists()] == []
    assert len(text.splitlines()) < 40


def test_the_commands_from_csv_to_c_make_a_header_that_compiles(empty_folder):
    text = README.read_text(encoding="utf-8")
    commands = re.findall(r"`(totalqboost (?:fit|export) .+?)`", text)
    assert len(commands) == 2
    X, y = datasets.load("thyroid")
    np.savetxt("train.csv", np.c_[X, y], delimiter=",", header="a,b,c,d,e,y", comments="")
    here = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for command in commands:
        subprocess.run(command, shell=True, check=True, capture_output=True, env=here)
    program = '#include "model.h"\nint main(void) { static float x[5]; return model_predict(x); }'
    Path("main.c").write_text(program, encoding="utf-8")
    strict = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror"]
    subprocess.run(["gcc", *strict, "main.c", "-o", "main"], check=True)


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
    with pytest.raises(AssertionError, match=r"Expected:\n +3\n *Got:\n +2"):
        run_page(page, commands=False)


def test_command_that_is_not_run_must_say_so(empty_folder):
    with pytest.raises(AssertionError, match=r"page.md:4: `make all` is never run"):
        run_page(write_page(empty_folder, "```sh\n# a comment\nmake all\n```"), commands=True)
    run_page(write_page(empty_folder, "<!-- no-run -->\n```sh\nmake all\n```"), commands=True)


def test_block_that_is_never_closed_is_an_error(empty_folder):
    with pytest.raises(ValueError, match="line 3 is never closed"):
        run_page(write_page(empty_folder, "```python\nx = 1"), commands=False)
