"""The command ``totalqboost``; this file alone works without the packages of the extra."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

from totalqboost.start import end_quietly, end_start, open_streams

__all__ = ["main"]

EXTRA = ("typer", "rich", "pandas", "matplotlib")


def main() -> None:
    """Run the command line, or say what to install for it."""
    open_streams()
    missing = [name for name in EXTRA if find_spec(name) is None]
    if missing:
        print(
            f"error: the command line needs {', '.join(missing)}; "
            'install with pip install "totalqboost[cli]"',
            file=sys.stderr,
        )
        raise SystemExit(2)
    try:
        from totalqboost.cli.app import app

        sys.unraisablehook = _say_unraisable
        end_start()
        app(prog_name="totalqboost")
    except KeyboardInterrupt:  # before or after a command, which has its own words for it
        print("Interrupted.", file=sys.stderr)
        raise SystemExit(130) from None
    finally:
        end_quietly()


def _say_unraisable(error: Any) -> None:
    """Say what Python ignores, but for what Ctrl-C left half made in the compiler's library."""
    module = getattr(error.object, "__module__", None) or ""
    if not module.startswith(("llvmlite", "numba")):
        sys.__unraisablehook__(error)
