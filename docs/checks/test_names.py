"""Names in pages exist: of Python, of commands and options, of files."""

from __future__ import annotations

import builtins
import importlib
import inspect
import pkgutil
import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from command_pages import commands
from reference_pages import public_names

import totalqboost

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
FENCED = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"(?<!`)`([^`\n]+(?:\n[^`\n]+)?)`(?!`)")
CAMEL = re.compile(r"\b[A-Z][a-z0-9]+(?:[A-Z][A-Za-z0-9]*)+\b|\b[A-Z]{2,}[a-z][A-Za-z]+\b")
FOLDERS = ("benchmarks/", "docs/", "examples/", "src/", "tests/", "tools/")
# Names of other libraries that pages mention.
FOREIGN = {
    *("AdaBoostClassifier", "BoostedRulesClassifier", "DWaveCliqueSampler", "DWaveSampler"),
    *("EmbeddingComposite", "FIGSClassifier", "GOSDTClassifier", "HistGradientBoosting"),
    *("HistGradientBoostingClassifier", "LeapHybridCQMSampler", "LeapHybridNLSampler"),
    *("FasterRisk", "SolverContract"),  # a library, and a test suite in tests/
    *("RiskScoreOptimizer", "SLIMClassifier", "SimulatedAnnealingSampler", "RandomState"),
}


@cache
def known_names() -> set[str]:
    """Return every name that any module of the library defines."""
    found: set[str] = set(dir(builtins))
    for module in pkgutil.walk_packages(totalqboost.__path__, "totalqboost."):
        if module.name.endswith("__main__"):
            continue
        loaded = importlib.import_module(module.name)
        for name, value in vars(loaded).items():
            found.add(name)
            if inspect.isclass(value):
                found.update(vars(value))
    return found


@cache
def known_arguments() -> set[str]:
    """Return every argument of every public name and of their methods."""
    found: set[str] = set()
    for name in public_names():
        values = [name.value]
        if inspect.isclass(name.value):
            values += [v for v in vars(name.value).values() if inspect.isfunction(v)]
        for value in values:
            if callable(value) and not (
                inspect.isclass(value) and issubclass(value, BaseException)
            ):
                found.update(inspect.signature(value).parameters)
    return found


@cache
def known_options() -> dict[str, set[str]]:
    return {
        name: {spelling for p in command.params for spelling in (*p.opts, *p.secondary_opts)}
        | {"-h", "--help"}
        for name, command in commands()
    }


def spans(page: Path) -> list[str]:
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    return [" ".join(span.split()) for span in INLINE.findall(text)]


def of_scripts() -> set[str]:
    """Return the options that scripts of benchmarks declare."""
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "benchmarks").glob("*.py"))
    return set(re.findall(r'"(--[a-z][a-z-]*)"', text)) | {
        "--" + name.replace("_", "-") for name in re.findall(r"(\w+)=\d+\)?", text)
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_classes_named_in_a_page_exist(page):
    own = set(re.findall(r"^class (\w+)", page.read_text(encoding="utf-8"), re.MULTILINE))
    named = {name for span in spans(page) for name in CAMEL.findall(span)}
    assert sorted(named - known_names() - FOREIGN - own) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_named_in_a_page_exist(page):
    wrong = []
    blocks = re.findall(
        r"^```sh\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    lines = [part for line in lines for part in line.split("#")[0].split("&&")]
    for line in [*lines, *spans(page)]:
        words = line.split()
        if not words or words[0] != "totalqboost" or len(words) == 1:
            continue
        words = shlex.split(line)
        command = (
            " ".join(words[:3]) if " ".join(words[:3]) in known_options() else " ".join(words[:2])
        )
        command = "totalqboost" if words[1].startswith("-") else command
        if command not in known_options():
            wrong.append(line)
            continue
        options = {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        wrong += [f"{line}: {option}" for option in sorted(options - known_options()[command])]
    every = set().union(*known_options().values(), of_scripts())
    for span in spans(page):
        if re.fullmatch(r"--[a-z][a-z-]*( \S+)?", span) and span.split()[0] not in every:
            wrong.append(span)
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_arguments_named_in_a_page_exist(page):
    named = {name for span in spans(page) for name in re.findall(r"^(\w+)=[^=]", span)}
    assert sorted(named - known_arguments() - OTHER_ARGUMENTS) == []


# Arguments of other libraries in spans of their own.
OTHER_ARGUMENTS = {"num_leaves", "max_depth", "n_estimators", "learning_rate", "multi_strategy"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_named_in_a_page_exist(page):
    named = {span for span in spans(page) if span.startswith(FOLDERS) and " " not in span}
    assert sorted(name for name in named if not (ROOT / name).exists()) == []
