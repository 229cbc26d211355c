"""Write the reference of the command line from the commands themselves."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reference_pages import write_if_changed


def commands() -> Iterator[tuple[str, Any]]:
    """Yield every command with its full name, the program itself first."""
    import typer

    from totalqboost.cli.app import app

    def walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        yield name, command
        for child in getattr(command, "commands", {}).values():
            yield from walk(f"{name} {child.name}", child)

    yield from walk("totalqboost", typer.main.get_command(app))


def usage_of(name: str, command: Any) -> str:
    context = command.make_context(name, [], resilient_parsing=True)
    return " ".join([name, *command.collect_usage_pieces(context)])


def parameters_of(name: str, command: Any) -> str:
    """Return what ``--help`` says of each argument and option, as a list of definitions."""
    context = command.make_context(name, [], resilient_parsing=True)
    records = [parameter.get_help_record(context) for parameter in command.params]
    return "\n".join(
        f"``{term}``\n   {escaped(' '.join(said.split()))}\n"
        for term, said in filter(None, records)
    )


def escaped(text: str) -> str:
    """Return text for reStructuredText; what stands between backticks becomes code."""
    plain_and_code = text.split("`")
    for k, part in enumerate(plain_and_code):
        if k % 2:
            plain_and_code[k] = f"``{part}``"
        else:
            plain_and_code[k] = re.sub(r"([\\*|])", r"\\\1", part)
    return "".join(plain_and_code)


def prose_of(command: Any) -> str:
    """Return the help of a command; a part that begins with backspace stays as it is."""
    parts = []
    for part in inspect.cleandoc(command.help or "").split("\n\n"):
        if part.startswith("\b"):
            body = "\n".join(f"   {line.strip()}" for line in part.splitlines()[1:])
            parts.append(f".. code-block:: text\n\n{body}")
        else:
            parts.append(escaped(" ".join(part.split())))
    return "\n\n".join(parts)


def section_of(name: str, command: Any) -> str:
    return (
        f"{name}\n{'-' * len(name)}\n\n{prose_of(command)}\n\n"
        f".. code-block:: text\n\n   {usage_of(name, command)}\n\n{parameters_of(name, command)}"
    )


def write_page(app: Any) -> None:
    title = "The command line"
    body = f"{title}\n{'=' * len(title)}\n\nEvery command and every option, from the program.\n\n"
    body += "\n\n".join(section_of(name, command) for name, command in commands())
    folder = Path(app.srcdir) / "reference"
    folder.mkdir(exist_ok=True)
    write_if_changed(folder / "cli.rst", body)


def setup(app: Any) -> dict[str, Any]:
    write_page(app)  # at once: Sphinx looks for its sources before the first event
    return {"parallel_read_safe": True}
