"""A program that has not begun: Ctrl-C while it loads packages, streams that are closed.

What this module itself imports is loaded before Ctrl-C is one line: as little as can be.
"""

from __future__ import annotations

import os
import signal
import sys

__all__ = ["end_quietly", "end_start", "open_streams", "start_quietly"]

program = {"is_ours": False}  # not one that imports the package


def start_quietly() -> None:
    """Make Ctrl-C one line while the program loads packages; for no other program.

    An exception would pass through the imports of others, who may catch or wrap it.
    """
    called = (sys.argv or [""])[0]  # "-m" as long as this package is looked for
    name = os.path.splitext(os.path.basename(called))[0]
    is_ours = name == "totalqboost" or (called == "-m" and "totalqboost" in sys.orig_argv)
    is_parent = called in sys.orig_argv  # workers for parallel folds are told our name
    is_heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_ours and is_parent and is_heard:
        program["is_ours"] = True
        signal.signal(signal.SIGINT, _end)


def end_start() -> None:
    """Make Ctrl-C an exception again."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def end_quietly() -> None:
    """Let Ctrl-C do nothing to our program once it has done its work and said so."""
    if program["is_ours"]:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def open_streams() -> None:
    """Open what a shell has closed (``>&-``), so that no other file gets its number.

    Reading and writing still fail as on what is closed; what is said on standard error is lost.
    """
    closed = (("stdin", os.O_WRONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY))
    for name, access in closed:
        if getattr(sys, name) is None:
            number = os.open(os.devnull, access)  # the lowest that is free
            os.set_inheritable(number, True)  # for workers
            mode, errors = "r" if name == "stdin" else "w", "backslashreplace"  # as Python's stderr
            stream = os.fdopen(number, mode, encoding="utf-8", errors=errors)
            setattr(sys, name, stream)


def _end(number: int, frame: object) -> None:
    if sys.stderr is not None:  # closed by a shell, it may be another file by now
        os.write(2, b"Interrupted.\n")
    os._exit(130)
