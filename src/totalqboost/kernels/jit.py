"""How kernels are compiled: one decorator, a cache that is never an error, one notice."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numba
from numba.core import event

from totalqboost.kernels.cache import KernelCache
from totalqboost.kernels.linking import KernelCompiler

logger = logging.getLogger("totalqboost")

# Sums may be reassociated (that is what makes them vectorise); infinities and NaN stay legal.
_FASTMATH = {"reassoc", "contract", "nsz", "arcp"}

KEPT = "kept for later runs"
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
    # Nobody calls kernels through pointers of C: the wrapper for it would compile for nothing.
    options: dict[str, Any] = {"nogil": nogil, "fastmath": _FASTMATH, "no_cfunc_wrapper": True}
    compiled = numba.njit(pipeline_class=KernelCompiler, **options)(function)
    if compiled is function:  # NUMBA_DISABLE_JIT
        return function
    try:
        compiled._cache = KernelCache(function)  # what cache=True does with numba's own
    except RuntimeError:  # numba's answer to "no folder for the cache"
        cache["works"] = False
    return compiled


class _CompilationNotice(event.Listener):
    """Say that kernels are compiled (not loaded) and kept: why this run is slow, the next not.

    One line per process; a later run may need other kernels and say it again.
    """

    def __init__(self) -> None:
        self.is_said = False

    def on_start(self, event: Any) -> None:
        function = getattr(event.data["dispatcher"], "py_func", None)
        module = getattr(function, "__module__", None) or ""
        if self.is_said or not module.startswith("totalqboost."):
            return
        self.is_said = True
        name = getattr(function, "__name__", "kernel")
        kept = KEPT if cache["works"] else NOT_KEPT
        logger.warning("totalqboost: compiling kernels: %s, ... (%s)", name, kept)

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


event.register("numba:compile", _CompilationNotice())


def compilation_time(found: Callable[[float], Any]) -> AbstractContextManager[Any]:
    """Call a function with the seconds that compilation took, when the block ends."""
    return event.install_timer("numba:compile", found)
