"""A cache of kernels that is damaged, locked or full: the kernel is compiled, and works."""

from __future__ import annotations

import importlib.util
import logging
import pickle
import sys

import numba
import pytest

from totalqboost.kernels import cache
from totalqboost.kernels.cache import KernelCache

pytestmark = pytest.mark.skipif(
    numba.config.DISABLE_JIT, reason="nothing is compiled, nothing is kept"
)
SOURCE = "def double(x):\n    return 2 * x\n"


@pytest.fixture
def double(tmp_path, monkeypatch):
    """Return a maker of the same function, as if in processes one after the other."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    source = tmp_path / "doubling.py"
    source.write_text(SOURCE, encoding="ascii")

    def make():
        spec = importlib.util.spec_from_file_location("doubling", source)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "doubling", module)  # the cache asks for it by name
        spec.loader.exec_module(module)
        function = numba.njit(module.double)
        function._cache = KernelCache(module.double)
        return function

    return make


def files(tmp_path, ending):
    return sorted((tmp_path / "cache").rglob(f"*.{ending}"))


def n_loaded(function):
    return sum(function.stats.cache_hits.values())


def test_a_kernel_is_kept_and_found_again(double, tmp_path):
    assert double()(21) == 42
    assert len(files(tmp_path, "nbi")) == len(files(tmp_path, "nbc")) == 1
    again = double()
    assert again(21) == 42
    assert n_loaded(again) == 1


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("content", [b"", b"not a pickle", None], ids=["empty", "other", "cut off"])
def test_a_damaged_file_is_compiled_anew_and_replaced(double, tmp_path, caplog, ending, content):
    double()(21)
    (path,) = files(tmp_path, ending)
    path.write_bytes(path.read_bytes()[:-30] if content is None else content)
    with caplog.at_level(logging.WARNING, logger="totalqboost"):
        damaged = double()
        assert damaged(21) == 42
    assert n_loaded(damaged) == 0
    (record,) = caplog.records
    assert "cannot be used" in record.getMessage()
    assert str(path.parent) in record.getMessage()
    repaired = double()
    assert repaired(21) == 42
    assert n_loaded(repaired) == 1


def test_a_file_of_another_signature_is_not_believed(double, tmp_path):
    # Two processes that compile two signatures at once may number both files 1.
    function = double()
    assert (function(21), function(0.25)) == (42, 0.5)
    one, other = files(tmp_path, "nbc")
    one.write_bytes(other.read_bytes())
    again = double()
    assert repr((again(21), again(0.25))) == "(42, 0.5)"  # not 42.0, from the other file


def test_a_full_disk_is_said_and_is_not_an_error(double, tmp_path, caplog, monkeypatch):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    function = double()
    monkeypatch.setattr(function._cache._cache_file, "_open_for_write", full)
    with caplog.at_level(logging.WARNING, logger="totalqboost"):
        assert (function(21), function(0.25)) == (42, 0.5)
    (record,) = caplog.records  # once: then it is not tried again
    assert "No space left on device" in record.getMessage()


def test_files_of_another_release_of_numba_are_passed_over(double, tmp_path, caplog):
    double()(21)
    (path,) = files(tmp_path, "nbi")
    path.write_bytes(pickle.dumps("0.1") + b"what this release cannot read")
    assert double()(21) == 42
    assert caplog.records == []


def test_a_kernel_is_compiled_anew_when_any_kernel_has_changed(double, tmp_path, monkeypatch):
    double()(21)
    monkeypatch.setattr(cache, "sources", lambda: (("newton.py", 1.0, 2),))
    again = double()
    assert again(21) == 42
    assert n_loaded(again) == 0
    later = double()
    assert later(21) == 42
    assert n_loaded(later) == 1


def test_the_way_of_compiling_is_a_part_of_the_sources():
    names = {name for name, *_ in cache.sources()}
    assert {"newton.py", "jit.py", "linking.py", "exact/bounds.py"} <= names
