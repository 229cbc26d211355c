"""Checks of the built site; ``make -C docs check`` runs them, the ordinary suite does not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1]
sys.path[:0] = [str(DOCS / "_ext"), str(DOCS.parent / "tests")]


@pytest.fixture(scope="session")
def site() -> Path:
    """The folder of the built site."""
    folder = DOCS / "_build" / "html"
    if not (folder / "index.html").exists():
        pytest.fail("there is no site yet: run make -C docs html")
    return folder
