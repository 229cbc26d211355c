"""C headers say what the library says, compiled by a real compiler."""

from __future__ import annotations

import numpy as np
import pytest
from c_programs import SANITIZED, compiled, labels
from export_inputs import ensembles, numbers_of, tricky_rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from totalqboost import Ensemble, Stump
from totalqboost.export.c import to_c

FEW = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def random_stumps(seed: int, n: int = 20, n_features: int = 21) -> Ensemble:
    rng = np.random.default_rng(seed)
    learners = [
        Stump(int(rng.integers(n_features)), float(rng.normal()), int(rng.choice([-1, 1])))
        for _ in range(n)
    ]
    names = [f"x{j}" for j in range(n_features)]
    return Ensemble(learners, rng.random(n) + 0.05, 0.1, ("no", "yes"), names, "logistic")


def agree(folder, model, header, X=None, **options):
    X = tricky_rows(model, 2000, np.float32) if X is None else X
    program = compiled(folder, header, X.shape[1], **options)
    wrong = np.flatnonzero(labels(program, X) != numbers_of(model, X))
    assert len(wrong) == 0, f"{X[wrong[0]]}\n{header}"


@FEW
@given(ensembles(), st.sampled_from(["size", "speed"]))
def test_every_model_keeps_its_labels(tmp_path, model, optimize):
    agree(tmp_path, model, to_c(model, optimize=optimize))


@pytest.mark.parametrize("optimize", ["size", "speed"])
def test_twenty_stumps_agree_on_a_hundred_thousand_rows(tmp_path, optimize):
    model = random_stumps(0)
    header = to_c(model, optimize=optimize)
    agree(tmp_path, model, header, tricky_rows(model, 100_000, np.float32), flags=("-O2",))


@pytest.mark.parametrize("compiler", ["gcc", "g++"])
def test_nothing_is_undefined(tmp_path, compiler):
    model = random_stumps(1)
    agree(tmp_path, model, to_c(model), compiler=compiler, flags=SANITIZED)
