"""What a kernel calls is its own copy: the same digits, whichever kernels were loaded before.

Numba links the functions that a kernel calls into it, and optimises them again there: a sum may
be added up in another order than in the function by itself. All these copies have one name, and
the one that a process happens to load first is used by all. So the last digits of a result would
depend on what ran before, and on whether a kernel was compiled or came from the cache.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

__all__ = ["KernelCompiler"]


class _Library(JITCodeLibrary):
    """The machine code of one kernel, which calls nothing outside but C."""

    def _finalize_final_module(self) -> None:
        """Hide the copies from other kernels, after a module to link into those was kept."""
        self._shared_module = self._final_module.clone()
        relink(self._shared_module, "external", "linkonce_odr")
        relink(self._final_module, "linkonce_odr", "internal")
        super()._finalize_final_module()


def relink(module: Any, old: str, new: str) -> None:
    """Change the linkage of all functions that a module defines."""
    for function in module.functions:
        if not function.is_declaration and function.linkage.name == old:
            function.linkage = new


class KernelCompiler(Compiler):
    """Numba's compiler, with libraries that keep their copies to themselves."""

    def _compile_core(self) -> Any:
        codegen = self.state.targetctx.codegen()
        self.state.library = _Library(codegen, self.state.func_id.func_qualname)
        self.state.library.enable_object_caching()
        return super()._compile_core()
