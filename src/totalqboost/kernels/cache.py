"""The cache of compiled kernels: what is wrong with it costs time, never a fit."""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache, IndexDataCacheFile

__all__ = ["KernelCache"]

logger = logging.getLogger("totalqboost")


class KernelCache(FunctionCache):
    """Numba's cache of one function, which compiles anew where files are damaged or locked.

    Numba raises what reading or writing raised: a file that was cut off, one of another user,
    a full disk. It also trusts a file to hold the signature that its index names, and two
    processes that compile two signatures at once may give both the same file. And it asks only
    whether the file of the function itself has changed, not those of what it calls.
    """

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        stamp = (self._impl.locator.get_source_stamp(), sources())
        base = self._impl.filename_base
        self._cache_file = IndexDataCacheFile(self._cache_path, base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled function, None if there is none that can be used."""
        try:
            found = super().load_overload(sig, target_context)
            if found is None or tuple(found.signature.args) == tuple(sig):
                return found
            reason = "a file of another signature"
        except Exception as error:  # bytes that are not a pickle can raise anything
            reason = f"{type(error).__name__}: {error}"
        self._begin_again(reason)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled function where possible."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            self._give_up(error)

    def _begin_again(self, reason: str) -> None:
        """Empty the index: its files are written anew."""
        logger.warning(
            "totalqboost: compiling a kernel again, its cache in %s cannot be used (%s)",
            self.cache_path,
            reason,
        )
        try:
            self.flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        logger.warning(
            "totalqboost: a compiled kernel is not kept, %s cannot be written (%s)",
            self.cache_path,
            error,
        )
        self.disable()


@cache
def sources() -> tuple[tuple[str, float, int], ...]:
    """Return what tells one version of all kernels, and of how they are compiled, from another."""
    folder = Path(__file__).parent
    files = {path.relative_to(folder).as_posix(): path.stat() for path in folder.rglob("*.py")}
    return tuple((name, of.st_mtime, of.st_size) for name, of in sorted(files.items()))
