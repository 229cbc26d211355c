"""How kernels are compiled: one decorator, a cache that is never an error, one notice."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numba
from numba.core import event

logger = logging.getLogger("totalqboost")

# Sums may be reassociated (that is what makes them vectorise); infinities and NaN stay legal.
_FASTMATH = {"reassoc", "contract", "nsz", "arcp"}

# What the kernels of a module are for, in the words of a user.
TRAINING = "training"
PURPOSES = {
    "scoring": "predictions",
    "moves": "local search",
    "neighbourhood": "tabu search",
    "exact": "the exact solver",
    "cells": "branch and price",
}
SHORT = {"predictions", "local search"}
NOT_KEPT = "in every run: there is no folder to keep them in; name one in NUMBA_CACHE_DIR"
cache = {"works": True}


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a kernel, without holding the GIL, and cache it on disk where possible.

    Numba looks for a writable cache beside the package, then in the user's cache folder
    (or in ``NUMBA_CACHE_DIR``). Where none can be written the kernel is compiled anew in
    each process.
    """
    return _compiled(function, nogil=True)


def short_kernel(function: Callable[..., Any]) -> Any:
    """Compile a kernel of microseconds: passing the GIL to another thread would take longer."""
    return _compiled(function, nogil=False)


def _compiled(function: Callable[..., Any], nogil: bool) -> Any:
    options: dict[str, Any] = {"nogil": nogil, "fastmath": _FASTMATH}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba's answer to "no folder for the cache"
        cache["works"] = False
        return numba.njit(cache=False, **options)(function)


class _CompilationNotice(event.Listener):
    """Say what is compiled (not loaded) and that it is kept: why this run is slow, the next not.

    Once per purpose; what comes on top of an announced purpose in no time is not worth a line.
    """

    def __init__(self) -> None:
        self.said: set[str] = set()

    def on_start(self, event: Any) -> None:
        function = getattr(event.data["dispatcher"], "py_func", None)
        module = getattr(function, "__module__", None) or ""
        if not module.startswith("totalqboost."):
            return
        purpose = next((PURPOSES[part] for part in module.split(".") if part in PURPOSES), TRAINING)
        if purpose in self.said or (self.said and purpose in SHORT):
            return
        self.said.add(purpose)
        name = getattr(function, "__name__", "kernel")
        logger.warning(
            "totalqboost: compiling kernels for %s: %s, ... (%s)",
            purpose,
            name,
            "once; kept for later runs" if cache["works"] else NOT_KEPT,
        )

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


event.register("numba:compile", _CompilationNotice())
