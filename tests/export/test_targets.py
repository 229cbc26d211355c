"""Headers on emulated processors, and what is said where tools are missing."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
from export_inputs import tricky_rows

from totalqboost import Ensemble, Stump
from totalqboost.export.c import to_c
from totalqboost.export.targets import TARGETS, measure, passes, report
from totalqboost.learners import CategorySet, Feature, Missing

NEEDED = ("arm-none-eabi-gcc", "qemu-system-arm", "avr-gcc", "simavr")


def needs(*commands: str) -> None:
    """Skip where a tool is missing; where CI installs it, it must be there."""
    gone = [command for command in commands if shutil.which(command) is None]
    if gone and os.environ.get("CI") != "true":
        pytest.skip(f"{gone[0]} is not installed")
    assert not gone


def stumps(n: int = 20) -> Ensemble:
    rng = np.random.default_rng(0)
    learners = [Stump(int(rng.integers(12)), float(rng.normal())) for _ in range(n)]
    return Ensemble(learners, rng.random(n) + 0.05, 0.1, features=[f"x{j}" for j in range(12)])


def mixed() -> Ensemble:
    learners = (Stump(0, 0.25, 1, True), Missing(2, -1), CategorySet(1, (0, 2)), Stump(2, -1.5))
    columns = (Feature("a", has_missing=True), Feature("b", (*"xyz",)), Feature("c"))
    weights = np.random.default_rng(1).normal(size=(4, 3))
    return Ensemble(learners, weights.tolist(), (0.1, 0.0, 0.2), "pqr", columns, "multinomial")


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("optimize", ["size", "speed"])
def test_labels_agree_on_the_device(target, optimize):
    needs(target.compiler, target.emulator)
    for model in (stumps(), mixed()):
        X = tricky_rows(model, 12 if target.is_avr else 1500, np.float32, infinite=False)
        is_plain = model.n_classes == 2
        header = to_c(model, optimize=optimize, test_rows=np.nan_to_num(X) if is_plain else None)
        assert passes(header, target)


@pytest.mark.parametrize("target", [TARGETS[0], TARGETS[-1]], ids=lambda target: target.name)
@pytest.mark.parametrize(
    "options",
    [
        {"weights": "int32"},
        {"input": "int16", "optimize": "speed"},
        {"input": "uint8", "optimize": "speed"},
    ],
    ids=["words", "int16", "uint8"],
)
def test_shorter_forms_agree_on_the_device(target, options):
    needs(target.compiler, target.emulator)
    rng = np.random.default_rng(2)
    learners = [Stump(j, float(rng.integers(1, 200))) for j in range(12)]
    model = Ensemble(learners, rng.integers(3, 30, 12) / 4.0, 0.25, features=[*"abcdefghijkl"])
    X = rng.integers(0, 256, (12, 12)).astype(float)
    X[np.arange(12), np.arange(12)] = [h.threshold + k % 2 for k, h in enumerate(learners)]
    header = to_c(model, test_rows=X, **options)
    assert ("_TOP(" in header) == ("input" not in options)
    assert passes(header, target)


def test_a_wrong_port_fails_on_the_device():
    needs(*NEEDED)
    header = to_c(stumps(), weights="int16").replace("_sum(x) < 0", "_sum(x) > 0")
    assert not any(passes(header, target) for target in (TARGETS[0], TARGETS[-1]))


def test_twenty_stumps_cost_no_more_than_they_did():
    needs(*NEEDED)
    header = to_c(stumps(), weights="int16")
    costs = [measure(header, target) for target in (TARGETS[0], TARGETS[-1])]
    assert costs[0].flash <= 220
    assert costs[0].ram <= 16
    assert 300 < costs[0].count <= 477
    assert costs[1].flash <= 292
    assert 800 < costs[1].count <= 1354


def test_twenty_stumps_above_0_keep_every_label_at_the_same_cost():
    needs(*NEEDED)
    learners = tuple(Stump(h.feature, abs(h.threshold)) for h in stumps().learners)
    weights = tuple(1.0 + 0.01 * np.random.default_rng(0).random(20))  # many sums are near 0
    header = to_c(replace(stumps(), learners=learners, weights=weights, intercept=0.0))
    assert "_TOP(" in header  # the table of words
    assert "Labels are those of the library for every input" in header
    costs = [measure(header, target) for target in (TARGETS[0], TARGETS[-1])]
    assert costs[0].flash <= 220
    assert costs[1].flash <= 292


def test_what_is_missing_is_named_with_its_command(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda command: None)
    text = report(to_c(stumps()))
    assert "arm-none-eabi-gcc is not installed: apt-get install gcc-arm-none-eabi" in text
    assert "avr-gcc is not installed: apt-get install gcc-avr avr-libc" in text
    assert text.count("is not installed") == 2


def test_wrong_rows_and_headers_are_refused():
    needs(*NEEDED)
    with pytest.raises(ValueError, match=r"^header must be one of to_c with the name 'other'"):
        measure(to_c(stumps()), TARGETS[0], name="other")
    with pytest.raises(ValueError, match=r"^rows must have 12 columns"):
        measure(to_c(stumps()), TARGETS[0], rows=np.zeros((2, 3)))
