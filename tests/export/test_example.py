"""The example of docs/devices.md builds and runs on an emulated board."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from totalqboost import Ensemble, Stump

EXAMPLE = Path(__file__).parents[2] / "examples" / "cortex_m"


BOARDS = {"cortex-m3": "mps2-an385", "cortex-m0": "microbit"}


@pytest.fixture
def folder(tmp_path):
    """A copy of the example, and in it a model, rows with a line of names, and others without."""
    tools = ("arm-none-eabi-gcc", "qemu-system-arm", "make")
    gone = [tool for tool in tools if shutil.which(tool) is None]
    if gone and os.environ.get("CI") != "true":
        pytest.skip(f"{gone[0]} is not installed")
    copy = shutil.copytree(EXAMPLE, tmp_path / "example")
    stumps = (Stump(0, 1.5), Stump(1, -0.5, -1))
    for name, polarity in (("mine", 1), ("other", -1)):
        own = [Stump(h.feature, h.threshold, h.polarity * polarity) for h in stumps]
        Ensemble(own, (2.0, 1.0), 0.1, ("no", "yes"), ("a", "b")).save(copy / f"{name}.json")
    np.savetxt(copy / "mine.csv", [[1.0, 0.0], [2.0, 0.0], [1.0, -1.0]], delimiter=",")
    (copy / "other.csv").write_text("id,b,a\n7,0.0,1.0\n8,0.0,2.0\n")
    (copy / "bad.csv").write_text("a,b\n1.0,cold\n")
    for file in copy.iterdir():
        os.utime(file, (0, 0))  # older than all that is made of them
    return copy


def make(folder, model, rows, cpu="cortex-m3", machine=None):
    own = [f"PYTHON={sys.executable}", f"CPU={cpu}", f"MACHINE={machine or BOARDS[cpu]}"]
    command = ["make", "run", *own, f"MODEL={model}", f"ROWS={rows}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240)
    return done.returncode, done.stdout + done.stderr


def test_a_board_says_what_the_library_says(folder):
    status, printed = make(folder, "mine.json", "mine.csv")
    assert status == 0, printed
    assert "self-test: passed\nrow 00: class no\nrow 01: class yes\nrow 02: class no\n" in printed
    assert "all as on the desk" in printed
    status, printed = make(folder, "mine.json", "mine.csv", machine="microbit")
    assert status != 0
    assert "fault: the image does not run on this processor" in printed
    # other choices, and files that are older than the image
    status, printed = make(folder, "other.json", "other.csv", "cortex-m0")
    assert status == 0, printed
    assert "self-test: passed\nrow 00: class yes\nrow 01: class no\nall as" in printed


def test_rows_that_are_no_numbers_are_one_sentence(folder):
    status, printed = make(folder, "mine.json", "bad.csv")
    assert status != 0
    assert "error: bad.csv: 'cold' in row 1 is no finite number\n" in printed
    assert "Traceback" not in printed
