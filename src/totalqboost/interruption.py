"""Ctrl-C for work that must not be left half way."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Interruption", "held_back", "is_interruption", "unwrapped_interruption"]


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
