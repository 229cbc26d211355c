"""Ctrl-C for work that must not be left half way, and for a program that has not begun."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = [
    "Interruption",
    "end_quietly",
    "end_start",
    "held_back",
    "is_interruption",
    "start_quietly",
    "unwrapped_interruption",
]


program = {"is_ours": False}  # not one that imports the package


class Interruption:
    """Ctrl-C as a flag: neither locks of threads nor kernels are left half way.

    In the main thread, unless someone else handles Ctrl-C. A second one is raised as always.
    """

    def __init__(self) -> None:
        self.is_set = False
        self._before: Any = None

    def __enter__(self) -> Interruption:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._hear)
        return self

    def __exit__(self, *error: Any) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _hear(self, number: int, frame: Any) -> None:
        if self.is_set:
            raise KeyboardInterrupt
        self.is_set = True


def is_interruption(error: BaseException | None) -> bool:
    """Tell whether Ctrl-C is behind an error: numba and NumPy wrap one that comes inside them."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        is_new = error.__suppress_context__  # raised "from" its cause, or from None
        error = error.__cause__ if is_new else error.__context__
    return error is not None


@contextmanager
def unwrapped_interruption() -> Iterator[None]:
    """Raise a Ctrl-C that came inside a kernel as what it is, for those who keep what is done."""
    try:
        yield
    except Exception as error:
        if is_interruption(error):
            raise KeyboardInterrupt from error
        raise


@contextmanager
def held_back(n_jobs: int | None) -> Iterator[None]:
    """Hold Ctrl-C back while processes are started: they inherit that, and never hear it.

    It is for the process that waits for them; workers would say that they were interrupted.
    """
    if n_jobs in (None, 1) or not hasattr(signal, "pthread_sigmask"):  # no workers, Windows
        yield
        return
    from multiprocessing import resource_tracker  # not where the program starts

    from joblib.externals.loky.backend import resource_tracker as lokys

    for tracker in (resource_tracker, lokys):  # started later, they would let Ctrl-C in
        tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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


def _end(number: int, frame: Any) -> None:
    os.write(2, b"Interrupted.\n")
    os._exit(130)
