"""Warnings that name the line of the user's program, however deep in the package they arise."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

__all__ = ["warn"]

INSIDE = str(Path(__file__).parent) + os.sep


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the nearest caller outside the package; its program has no other than itself."""
    level, frame = 1, sys._getframe()
    while frame.f_code.co_filename.startswith(INSIDE) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
