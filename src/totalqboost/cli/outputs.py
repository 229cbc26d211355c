"""Output files: looked at before the work begins, so that no work is lost."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

from totalqboost.cli.errors import BadInput, reason

__all__ = ["check_output", "check_place", "check_unused", "print_text", "writing"]


def check_output(path: Path, overwrite: bool, inputs: Sequence[Path] = ()) -> None:
    """Make sure that the file can be written, and that nothing is lost by it."""
    check_place(path, inputs)
    check_unused(path, overwrite)


def check_place(path: Path, inputs: Sequence[Path] = ()) -> None:
    """Make sure that a file can be there at all, and that it is none of the inputs."""
    folder = path.parent
    if not folder.is_dir():
        raise BadInput(f"cannot write {path}: there is no folder {folder}")
    if path.exists():
        if not path.is_file():
            raise BadInput(f"cannot write {path}: it is not a file")
        if any(other.exists() and path.samefile(other) for other in inputs):
            raise BadInput(f"cannot write {path}: it is the input")


def check_unused(path: Path, overwrite: bool) -> None:
    """Make sure that nothing is lost by writing the file; the last complaint before the work."""
    if path.exists() and not overwrite:
        raise BadInput(f"{path} exists already; add --overwrite to replace it")
    with writing(path):
        handle, probe = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
        os.unlink(probe)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the operating system has against writing the file into a sentence."""
    try:
        yield
    except OSError as error:
        raise BadInput(f"cannot write {path}: {reason(error)}") from error


def print_text(text: str | bytes) -> None:
    """Write to standard output; a reader that went away is no error, a full disk is one."""
    try:
        typer.echo(text, nl=False)
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the rest of the text
        raise BadInput(f"cannot write to standard output: {reason(error)}") from error
