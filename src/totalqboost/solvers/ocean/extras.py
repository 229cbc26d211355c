"""Optional packages: imported where they are needed, with a message that says what to install."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["needs"]


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Say which extra brings a package that cannot be imported in the block."""
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f"{error.name or 'a package'} is not installed; "
            f'install it with pip install "totalqboost[{extra}]"',
            name=error.name,
        ) from error
