"""Bad input: what ends a command with one sentence and exit code 2."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["BadInput", "listed", "reason"]


class BadInput(Exception):  # noqa: N818  (the user's error, not the program's)
    """Input that a user can mend; the message says how."""


def listed(names: Sequence[object], limit: int = 10) -> str:
    """Return the names in quotes, the first few of many."""
    text = ", ".join(repr(name) for name in names[:limit])
    return f"{text} and {len(names) - limit} more" if len(names) > limit else text


def reason(error: OSError) -> str:
    """Return what the operating system said, without number and path."""
    return (error.strerror or str(error)).lower()
