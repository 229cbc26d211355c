"""The mutants of benchmarks/mutants.py can still be applied."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def load_mutants():
    """Return benchmarks/mutants.py as a module; benchmarks are no package."""
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "benchmarks" / "mutants.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


mutants = load_mutants()


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_changes_the_code_and_leaves_it_python(mutant):
    path = ROOT / mutants.PACKAGE / mutant.file
    text = path.read_text(encoding="utf-8")
    mutated = mutant.mutate(text)
    assert mutated != text
    compile(mutated, mutant.file, "exec")


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda mutant: mutant.name)
def test_tests_of_a_mutant_exist(mutant):
    assert mutant.tests
    assert all((ROOT / test.split("::")[0]).exists() for test in mutant.tests)


@pytest.mark.parametrize("text", ["", "old old"])
def test_text_that_is_not_there_exactly_once_is_an_error(text):
    mutant = mutants.Mutant("name", "file.py", "old", "new", ())
    with pytest.raises(ValueError, match="must find its text once"):
        mutant.mutate(text)
