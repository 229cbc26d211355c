"""Headers at work: compiled with a real compiler, run on rows, for tests."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion", "-Wshadow")
SANITIZED = ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all")

# Rows of the header's type from stdin, labels as bytes to stdout.
MAIN = """
#include <stdio.h>
#include "model.h"
%(before)s
int main(void)
{
    static %(type)s x[%(n)d];
    while (fread(x, sizeof x[0], %(n)d, stdin) == %(n)d) {
        %(answer)s;
    }
    return 0;
}
"""


def compiled(
    folder: Path,
    header: str,
    n_features: int,
    kind: str = "float",
    flags: Sequence[str] = ("-O1",),
    compiler: str = "gcc",
    call: str = "model_predict(x)",
    before: str = "",
    write: tuple[str, str, int] | None = None,
) -> Path:
    """Return a program that labels rows; any warning is an error.

    ``call`` gives the label; with ``write`` (statement, address, number) values are written.
    """
    assert shutil.which(compiler), f"{compiler} must be installed for tests of C"
    (folder / "model.h").write_text(header)
    is_plus = compiler.endswith("++")
    source = folder / ("main.cpp" if is_plus else "main.c")
    answer = f"putchar({call})"
    if write is not None:
        statement, address, number = write
        answer = f"{statement}; fwrite({address}, sizeof(uint16_t), {number}, stdout)"
    own = {"type": kind, "n": max(n_features, 1), "answer": answer, "before": before}
    source.write_text(MAIN % own)
    strict = ("-std=c++11", *STRICT[1:]) if is_plus else STRICT
    program = folder / "program"
    command = [compiler, *strict, *flags, str(source), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + header
    return program


def run(program: Path, X: np.ndarray, *emulator: str) -> bytes:
    """Return what a program writes, given rows."""
    done = subprocess.run([*emulator, str(program)], input=X.tobytes(), capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def labels(program: Path, X: np.ndarray, *emulator: str) -> np.ndarray:
    """Return what a program says to each row."""
    return np.frombuffer(run(program, X, *emulator), dtype=np.uint8)
