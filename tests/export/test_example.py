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


@pytest.mark.parametrize(
    ("cpu", "machine"), [("cortex-m3", "mps2-an385"), ("cortex-m0", "microbit")]
)
def test_a_board_says_what_the_library_says(tmp_path, cpu, machine):
    tools = ("arm-none-eabi-gcc", "qemu-system-arm", "make")
    gone = [tool for tool in tools if shutil.which(tool) is None]
    if gone and os.environ.get("CI") != "true":
        pytest.skip(f"{gone[0]} is not installed")
    folder = shutil.copytree(EXAMPLE, tmp_path / "example")
    model = Ensemble(
        (Stump(0, 1.5), Stump(1, -0.5, -1)), (2.0, 1.0), 0.1, ("no", "yes"), ("a", "b")
    )
    model.save(folder / "mine.json")
    np.savetxt(folder / "mine.csv", [[1.0, 0.0], [2.0, 0.0], [1.0, -1.0]], delimiter=",")
    own = [f"PYTHON={sys.executable}", f"CPU={cpu}", f"MACHINE={machine}"]
    command = ["make", "run", *own, "MODEL=mine.json", "ROWS=mine.csv"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240)
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    assert "self-test: passed\nrow 00: class no\nrow 01: class yes\nrow 02: class no\n" in printed
    assert "all as on the desk" in printed
