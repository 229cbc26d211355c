"""What a header costs on devices: flash, memory, and instructions where an emulator is found.

Cross compilers and emulators are looked for, never required: what is missing is named with the
command that installs it.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from totalqboost.export import emulators
from totalqboost.tables import Table

__all__ = ["TARGETS", "Cost", "Target", "measure", "report"]

FLAGS = ("-std=c99", "-Os", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections")
CALL = """#include "model.h"
int call(const %(type)s *x);
int call(const %(type)s *x) { return %(name)s_predict(x); }
"""


@dataclass(frozen=True)
class Target:
    """A processor: how to compile for it, and how to run programs for it here.

    Attributes
    ----------
    name : str
        As people call it.
    compiler : str
        The command; that of the tools beside it begins alike.
    flags : tuple of str
        Which processor.
    packages : str
        What Debian must install for the compiler.
    emulator : str
        The command that runs programs.
    emulator_packages : str
        What Debian must install for it.
    machine : str
        The emulated board.
    """

    name: str
    compiler: str
    flags: tuple[str, ...]
    packages: str
    emulator: str
    emulator_packages: str
    machine: str

    @property
    def is_avr(self) -> bool:
        """Whether it is the small one, which runs in another emulator."""
        return self.compiler.startswith("avr")

    @property
    def unit(self) -> str:
        """What is counted."""
        return "cycles" if self.is_avr or self.machine == "microbit" else "instructions"

    def tool(self, name: str) -> str:
        """Return a command that belongs to the compiler, such as size."""
        return self.compiler.removesuffix("gcc") + name


def _arm(name: str, machine: str, *flags: str) -> Target:
    own = ("-mthumb", *flags)
    packages = "gcc-arm-none-eabi"
    return Target(
        name, "arm-none-eabi-gcc", own, packages, "qemu-system-arm", "qemu-system-arm", machine
    )


TARGETS = (
    _arm("Cortex-M0", "microbit", "-mcpu=cortex-m0"),
    _arm("Cortex-M3", "mps2-an385", "-mcpu=cortex-m3"),
    _arm("Cortex-M4F", "mps2-an386", "-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"),
    Target(
        "AVR",
        "avr-gcc",
        ("-mmcu=atmega328p",),
        "gcc-avr avr-libc",
        "simavr",
        "simavr",
        "atmega328p",
    ),
)


@dataclass(frozen=True)
class Cost:
    """What a header costs on one target.

    Attributes
    ----------
    target : Target
        Where.
    flash : int or None
        Bytes of code and constants, with all that is linked in from libraries.
    ram : int or None
        Bytes of variables and of the stack frames of the header's functions.
    count : float or None
        Instructions or cycles of a prediction, the mean of some rows, the call included.
    missing : tuple of str
        What must be installed to know the rest.
    """

    target: Target
    flash: int | None = None
    ram: int | None = None
    count: float | None = None
    missing: tuple[str, ...] = ()


def report(
    header: str,
    *,
    name: str = "model",
    rows: Any = None,
    targets: Sequence[Target] = TARGETS,
) -> str:
    """Return a table of what a header of :func:`to_c` costs on each target, for people.

    Parameters
    ----------
    header : str
        The header.
    name : str
        The name that it was given.
    rows : array of shape (n_rows, n_features), optional
        What x holds, to count instructions on; else rows at random.
    targets : sequence of Target
        Where.
    """
    costs = [measure(header, target, name=name, rows=rows) for target in targets]
    cells = [
        (
            cost.target.name,
            _shown(cost.flash),
            _shown(cost.ram),
            _shown(cost.count),
            cost.target.unit if cost.count is not None else "",
        )
        for cost in costs
    ]
    titles = ("target", "flash", "RAM", "a prediction", "")
    table = Table("Bytes of flash and RAM:", titles, cells, "lrrrl").text()
    lines = [line for cost in costs for line in cost.missing]
    return "\n".join([table, *dict.fromkeys(lines)])


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def measure(
    header: str,
    target: Target,
    *,
    name: str = "model",
    rows: Any = None,
    more: Sequence[str] = (),
    flags: Sequence[str] = (),
) -> Cost:
    """Return what a header costs on one target; ``more`` are further files of C, as text."""
    if shutil.which(target.compiler) is None:
        need = f"{target.compiler} is not installed: apt-get install {target.packages}"
        return Cost(target, missing=(need,))
    kind, n_features = _signature(header, name)
    with tempfile.TemporaryDirectory(prefix="totalqboost-") as place:
        folder = Path(place)
        (folder / "model.h").write_text(header, encoding="utf-8")
        own = {"type": kind, "name": name}
        texts = [CALL % own, *more]
        sources = [folder / f"part{k}.c" for k in range(len(texts))]
        for path, text in zip(sources, texts, strict=True):
            path.write_text(text, encoding="utf-8")
        flash, ram = _size(folder, target, sources, flags)
        if shutil.which(target.emulator) is None:
            need = (
                f"{target.emulator} is not installed, {target.unit} are not counted: "
                f"apt-get install {target.emulator_packages}"
            )
            return Cost(target, flash, ram, missing=(need,))
        X = _rows(rows, kind, n_features)
        count = emulators.count(folder, target, sources, kind, X, flags)
    return Cost(target, flash, ram, count)


def _signature(header: str, name: str) -> tuple[str, int]:
    """Return the type of x and the number of its elements."""
    kind = re.search(rf"int {re.escape(name)}_predict\(const (\w+) \*x\)", header)
    number = re.search(rf"#define {re.escape(name.upper())}_N_FEATURES (\d+)", header)
    if kind is None or number is None:
        raise ValueError(f"header must be one of to_c with the name {name!r}")
    return kind[1], int(number[1])


def _rows(rows: Any, kind: str, n_features: int) -> np.ndarray:
    dtype = {"float": np.float32, "int16_t": np.int16, "uint8_t": np.uint8}[kind]
    if rows is None:
        rng = np.random.default_rng(0)
        return (rng.normal(size=(20, n_features)) * (1 if kind == "float" else 30)).astype(dtype)
    X = np.asarray(rows)
    if X.ndim != 2 or X.shape[1] != n_features:
        raise ValueError(f"rows must have {n_features} columns, got shape {X.shape}")
    return X.astype(dtype)


def _size(
    folder: Path, target: Target, sources: Sequence[Path], flags: Sequence[str]
) -> tuple[int, int]:
    """Return flash and RAM of the function alone, linked with what it needs of libraries."""
    program = folder / "call.elf"
    start = ("-nostartfiles", "-Wl,-e,call", "-Wl,-u,call", "-fstack-usage")
    files = [str(path) for path in sources]
    own = (*target.flags, *FLAGS, *flags, *start)
    emulators.run([target.compiler, *own, *files, "-lm", "-o", str(program)], folder)
    lines = emulators.run([target.tool("size"), str(program)], folder).splitlines()
    text, data, bss = map(int, lines[1].split()[:3])
    frames = sum(
        int(line.split("\t")[1])
        for path in folder.glob("*.su")
        for line in path.read_text(encoding="utf-8").splitlines()
    )
    return text + data, data + bss + frames

