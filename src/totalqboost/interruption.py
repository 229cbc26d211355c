"""Ctrl-C for work that must not be left half way."""

from __future__ import annotations

import signal
import threading
from typing import Any

__all__ = ["Interruption", "is_interruption"]


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
        error = error.__cause__ or error.__context__
    return error is not None
