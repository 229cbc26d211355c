"""Kernels call their own copies of other kernels, not the one that was loaded first."""

from __future__ import annotations

import re

import numba
import numpy as np
import pytest

from totalqboost.kernels.jit import kernel
from totalqboost.kernels.newton import correlate

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")


def sums(compile_, correlate):
    """Return what two kernels make of some numbers, and the way in which the second is called."""

    def twice(A, u, out):
        correlate(A, np.arange(4), u, out)  # too long a function to be copied into both places
        correlate(A, np.arange(6), out[:3].copy(), out)
        return out

    outer = compile_(twice)
    found = outer(np.arange(18.0).reshape(6, 3), np.ones(3), np.zeros(6))
    (text,) = outer.inspect_llvm().values()
    return found, re.findall(r"^define (?:dso_local )?(\w+) .*correlate", text, flags=re.MULTILINE)


def test_what_a_kernel_calls_is_its_own_and_seen_by_no_other(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    found, linkage = sums(kernel, kernel(correlate.py_func))
    assert linkage == ["internal"]
    A = np.arange(18.0).reshape(6, 3)
    np.testing.assert_allclose(found, A @ A[:3].sum(1))


def test_what_is_called_by_a_function_of_numba_may_be_any_copy():
    """As long as this holds our own way to link is needed."""
    _, linkage = sums(numba.njit, numba.njit(correlate.py_func))
    assert linkage == ["linkonce_odr"]
