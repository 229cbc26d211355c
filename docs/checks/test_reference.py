"""The reference is complete: every public name, every parameter, every option."""

from __future__ import annotations

import inspect
import zlib
from pathlib import Path

import pytest
from command_pages import commands
from numpydoc.docscrape import ClassDoc, FunctionDoc
from reference_pages import Name, public_names

NAMES = list(public_names())
CALLABLES = [name for name in NAMES if callable(name.value)]


def inventory(site: Path) -> set[str]:
    """Return the names that the site documents."""
    content = (site / "objects.inv").read_bytes()
    body = zlib.decompress(content.split(b"\n", 4)[4]).decode()
    return {line.split(" ", 1)[0] for line in body.splitlines() if " py:" in line}


def test_every_public_name_has_a_page(site):
    known = inventory(site)
    assert [name.path for name in NAMES if name.path not in known] == []


def documented(value: object) -> tuple[list[str], set[str]]:
    """Return the documented parameters, and the attributes; those of base classes count too."""
    owners = value.__mro__ if inspect.isclass(value) else (value,)
    parameters: list[str] = []
    attributes: set[str] = set()
    for owner in owners:
        if not getattr(owner, "__module__", "").startswith("totalqboost"):
            continue
        scrape = ClassDoc(owner) if inspect.isclass(owner) else FunctionDoc(owner)
        parameters += parts(scrape["Parameters"] + scrape["Other Parameters"])
        attributes.update(parts(scrape["Attributes"]))
    return parameters, attributes


def parts(entries: list) -> list[str]:
    """Return the single names of entries such as "X, y"."""
    return [part.strip().lstrip("*") for entry in entries for part in entry.name.split(",")]


def signature_of(value: object) -> list[str]:
    if inspect.isclass(value) and issubclass(value, BaseException | str):
        return []  # made by the library, or an enumeration
    return [
        name
        for name in inspect.signature(value).parameters
        if name not in ("self", "args", "kwargs")
    ]


@pytest.mark.parametrize("name", CALLABLES, ids=lambda name: name.path)
def test_documented_parameters_are_those_of_the_signature(name: Name):
    if inspect.isclass(name.value) and getattr(name.value, "_is_protocol", False):
        return
    wanted = signature_of(name.value)
    parameters, attributes = documented(name.value)
    unknown = [p for p in parameters if p not in wanted and p not in attributes]
    missing = [p for p in wanted if p not in parameters and p not in attributes]
    assert unknown == []
    assert missing == []


@pytest.mark.parametrize("name", CALLABLES, ids=lambda name: name.path)
def test_public_name_has_an_example(name: Name):
    text = inspect.getdoc(name.value) or ""
    if inspect.isclass(name.value):
        text += "".join(inspect.getdoc(member) or "" for member in vars(name.value).values())
    assert ">>> " in text


@pytest.mark.parametrize("name", NAMES, ids=lambda name: name.path)
def test_public_name_has_a_summary(name: Name):
    assert (inspect.getdoc(name.value) or "").strip()


@pytest.mark.parametrize(("name", "command"), list(commands()), ids=lambda value: str(value)[:40])
def test_every_option_is_described(name, command, site):
    page = (site / "reference" / "cli.html").read_text(encoding="utf-8")
    context = command.make_context(name, [], resilient_parsing=True)
    assert command.help
    for parameter in command.params:
        record = parameter.get_help_record(context)
        assert record is not None, parameter.name
        assert record[1].strip(), f"{name}: {record[0]} has no help"
        for spelling in parameter.opts if parameter.param_type_name == "option" else ():
            assert spelling in page, spelling
