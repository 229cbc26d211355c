"""How kernels are compiled: a cache that is never an error, one notice, no interference."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import numba
import pytest

from totalqboost.kernels import jit


def double(x):
    return 2 * x


def compilation_of(function):
    """An event as numba sends it when it starts to compile."""
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=function)})


def pretend_module(monkeypatch, module):
    monkeypatch.setattr(double, "__module__", module)
    return compilation_of(double)


def test_a_kernel_computes_what_its_function_does():
    assert jit.kernel(double)(21) == 42


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled, nothing is kept")
def test_a_missing_cache_folder_is_not_an_error(monkeypatch):
    def no_folder(function):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(jit, "KernelCache", no_folder)
    monkeypatch.setitem(jit.cache, "works", True)
    assert jit.kernel(double)(21) == 42
    assert not jit.cache["works"]


def announcements(notice, monkeypatch, caplog, *modules):
    with caplog.at_level(logging.INFO, logger="totalqboost"):
        for module in modules:
            event = pretend_module(monkeypatch, f"totalqboost.kernels.{module}")
            notice.on_start(event)
            notice.on_end(event)
    return [record.getMessage() for record in caplog.records]


def test_the_compilation_of_our_kernels_is_announced_once(monkeypatch, caplog):
    monkeypatch.setitem(jit.cache, "works", True)
    modules = ("histogram", "newton", "exact.bounds", "neighbourhood", "cells", "scoring")
    said = announcements(jit._CompilationNotice(), monkeypatch, caplog, *modules)
    # Not that it is for the last time: another command may need further kernels.
    assert said == ["totalqboost: compiling kernels: double, ... (kept for later runs)"]


def test_a_run_without_a_cache_does_not_promise_one(monkeypatch, caplog):
    monkeypatch.setitem(jit.cache, "works", False)
    (message,) = announcements(jit._CompilationNotice(), monkeypatch, caplog, "newton")
    assert "kept for later runs" not in message
    assert "NUMBA_CACHE_DIR" in message


@pytest.mark.parametrize("module", ["sklearn.tree", "totalqboosters", None])
def test_the_compilation_of_others_is_none_of_our_business(monkeypatch, caplog, module):
    # A function made by exec() may have no module; numba users do make them so.
    event = pretend_module(monkeypatch, module)
    notice = jit._CompilationNotice()
    with caplog.at_level(logging.INFO, logger="totalqboost"):
        notice.on_start(event)
    assert caplog.records == []
