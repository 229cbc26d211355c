"""Bad input: what ends a command with one sentence and exit code 2."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["BadInput", "check_name", "columns", "listed", "reading", "reason"]


class BadInput(Exception):  # noqa: N818  (the user's error, not the program's)
    """Input that a user can mend; the message says how."""


def check_name(option: str, name: str, known: Sequence[str]) -> None:
    """Make sure that the name given to an option is a known one."""
    if name not in known:
        raise BadInput(f"{option} must be one of {', '.join(known)}, got {name!r}")


def listed(names: Sequence[object], limit: int = 10) -> str:
    """Return the names in quotes, the first few of many."""
    text = ", ".join(repr(name) for name in names[:limit])
    return f"{text} and {len(names) - limit} more" if len(names) > limit else text


def columns(names: Sequence[str]) -> str:
    """Return "column 'a'", "columns 'a', 'b'"."""
    return f"column{'s' if len(names) > 1 else ''} {listed(names)}"


def reason(error: OSError) -> str:
    """Return what the operating system said, without number and path."""
    if error.errno == errno.EBADF:  # of a stream that the shell has closed
        return "it is closed"
    return (error.strerror or str(error)).lower()


@contextlib.contextmanager
def reading(path: Path, *errors: type[Exception]) -> Iterator[None]:
    """Turn what is wrong with a file into a sentence; ``errors`` say it themselves."""
    try:
        yield
    except OSError as error:
        raise BadInput(f"cannot read {error.filename or path}: {reason(error)}") from error
    except errors as error:
        raise BadInput(str(error)) from error
