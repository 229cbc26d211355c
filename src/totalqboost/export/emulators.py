"""Programs for small processors, run here: how many instructions or cycles a prediction takes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from totalqboost.export.targets import Target

__all__ = ["count", "passes", "run"]

SECONDS = 300
CONDITIONS = ("eq", "ne", "cs", "cc", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le")

# The function is called for each row; what runs between its first instruction and the return to
# main is counted.
ARM_MAIN = """#include <stdint.h>
int call(const %(type)s *x);
static const %(word)s rows[%(size)d] = {%(rows)s};
static union { %(word)s words[%(n)d]; %(type)s values[%(n)d]; } x;
volatile int answer;
int main(void);
int main(void)
{
    for (int r = 0; r < %(n_rows)d; r++) {
        for (int j = 0; j < %(n)d; j++) {
            ((volatile %(word)s *)x.words)[j] = rows[r * %(n)d + j];
        }
        answer = call(x.values);
    }
    return 0;
}
"""
ARM_START = """#include <stdint.h>
extern int main(void);
extern uint32_t stack_top;
void reset(void);
static void leave(uint32_t why)
{
    register uint32_t operation __asm("r0") = 0x18U; /* SYS_EXIT */
    register uint32_t reason __asm("r1") = why;
    __asm volatile("bkpt 0xab" : : "r"(operation), "r"(reason) : "memory");
}
static void fault(void)
{
    leave(0x20023U); /* a run-time error */
}
void reset(void)
{
#if defined(__ARM_FP)
    *(volatile uint32_t *)0xe000ed88U |= 0xf00000U; /* switch the floating-point unit on */
#endif
    if (main() != 0) {
        fault();
    }
    leave(0x20026U); /* the application is done */
    for (;;) {
    }
}
__attribute__((section(".vectors"), used)) static const void *const vectors[] = {
    &stack_top, (const void *)reset, (const void *)fault, (const void *)fault};
"""
ARM_LAYOUT = """MEMORY
{
    flash (rx) : ORIGIN = 0x00000000, LENGTH = 256K
    ram (rwx) : ORIGIN = 0x20000000, LENGTH = 16K
}
SECTIONS
{
    .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) } > flash
    .ARM.exidx : { *(.ARM.exidx*) } > flash
    .data : { *(.data*) } > ram AT > flash
    .bss : { *(.bss*) *(COMMON) } > ram
    stack_top = ORIGIN(ram) + LENGTH(ram);
}
"""
TEST = """#define %(macro)s_SELF_TEST
#include "model.h"
int main(void) { return (%(name)s_self_test() == 0) ? 0 : 1; }
"""
AVR_TEST = """#define %(macro)s_SELF_TEST
#include <avr/io.h>
#include <avr/sleep.h>
#include "model.h"
int main(void)
{
    UCSR0B = _BV(TXEN0);
    UDR0 = (%(name)s_self_test() == 0) ? '0' : '1';
    UDR0 = '\\n';
    sleep_enable();
    sleep_cpu();
    return 0;
}
"""
AVR_MAIN = """#include <stdint.h>
#include <avr/io.h>
#include <avr/interrupt.h>
#include <avr/pgmspace.h>
#include <avr/sleep.h>
#include <stdlib.h>
int call(const %(type)s *x);
static const %(word)s rows[%(size)d] PROGMEM = {%(rows)s};
static union { %(word)s words[%(n)d]; %(type)s values[%(n)d]; } x;
volatile int answer;
static volatile uint16_t overflows;
ISR(TIMER1_OVF_vect) { overflows++; }
static void send(uint32_t value)
{
    char text[12];
    ultoa(value, text, 10);
    for (char *c = text; *c; c++) {
        UDR0 = *c;
    }
    UDR0 = '\\n';
}
__attribute__((noinline)) static int nothing(const %(type)s *v)
{
    __asm volatile("" : : "r"(v) : "memory");
    return 0;
}
int main(void)
{
    uint32_t total = 0;
    UCSR0B = _BV(TXEN0);
    TCCR1B = _BV(CS10);
    TIMSK1 = _BV(TOIE1);
    for (int which = 0; which < 2; which++) {
        total = 0;
        for (int r = 0; r < %(n_rows)d; r++) {
            memcpy_P(x.words, rows + r * %(n)d, sizeof x);
            overflows = 0;
            TCNT1 = 0;
            sei();
            answer = which ? call(x.values) : nothing(x.values);
            cli();
            total += TCNT1 + 65536UL * overflows;
        }
        send(total);
    }
    sleep_enable();
    sleep_cpu();
    return 0;
}
"""


def run(command: Sequence[str], folder: Path) -> str:
    """Return what a command prints; its complaint is the error."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, errors="replace"
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout + (done.stderr if command[0] == "simavr" else "")  # where its UART writes


def count(
    folder: Path,
    target: Target,
    sources: Sequence[Path],
    kind: str,
    X: np.ndarray,
    flags: Sequence[str] = (),
) -> float:
    """Return the instructions or cycles of ``call(x)``, the mean of the rows."""
    bits = {"float": np.uint32, "double": np.uint64}
    words = X.view(bits[kind]) if kind in bits else X
    word = {"float": "uint32_t", "double": "uint64_t"}.get(kind, kind)
    suffix = {"float": "UL", "double": "ULL"}.get(kind, "")
    values = {
        "type": kind,
        "word": word,
        "size": words.size,
        "rows": ", ".join(f"{v}{suffix}" for v in words.ravel().tolist()),
        "n": X.shape[1],
        "n_rows": len(X),
    }
    text = (AVR_MAIN if target.is_avr else ARM_MAIN) % values
    (folder / "main.c").write_text(text, encoding="utf-8")
    own = [*map(str, sources), "main.c"]
    built = (*target.flags, "-std=gnu99", "-Os", *flags)
    if target.is_avr:
        run([target.compiler, *built, *own, "-lm", "-o", "main.elf"], folder)
        empty, total = (int(n) for n in re.findall(r"(\d+)\.", _simavr(folder, target))[:2])
        return (total - empty) / len(X)
    _link(folder, target, built, own)
    return _traced(folder, target) / len(X)


def _simavr(folder: Path, target: Target) -> str:
    return run(["simavr", "-m", target.machine, "-f", "16000000", "main.elf"], folder)


def passes(folder: Path, target: Target, name: str) -> bool:
    """Whether the self-test of the header in the folder passes on the emulated processor."""
    text = (AVR_TEST if target.is_avr else TEST) % {"macro": name.upper(), "name": name}
    (folder / "main.c").write_text(text, encoding="utf-8")
    flags = (*target.flags, "-std=gnu99", "-Os")
    if target.is_avr:
        run([target.compiler, *flags, "main.c", "-o", "main.elf"], folder)
        return re.search(r"0\.", _simavr(folder, target)) is not None
    _link(folder, target, flags, ["main.c"])
    done = subprocess.run(
        [*_qemu(target), "-kernel", "main.elf"], cwd=folder, capture_output=True, timeout=SECONDS
    )
    return done.returncode == 0


# -- Arm: a trace of every instruction -------------------------------------------------------


def _traced(folder: Path, target: Target) -> int:
    """Return the instructions or cycles that main.elf spends in ``call``."""
    one = ["-accel", "tcg,one-insn-per-tb=on"] if _version() >= (8, 1) else ["-singlestep"]
    trace = ["-d", "exec,nochain", "-D", "trace.log"]
    run([*_qemu(target), *one, *trace, "-kernel", "main.elf"], folder)
    symbols = _symbols(run([target.tool("nm"), "-S", "main.elf"], folder))
    inside = list(_inside(folder / "trace.log", symbols["call"], symbols["main"]))
    if target.unit == "instructions":
        return len(inside)
    lines = _disassembly(run([target.tool("objdump"), "-d", "main.elf"], folder))
    return _m0_cycles(inside, lines)


def _link(folder: Path, target: Target, flags: Sequence[str], sources: Sequence[str]) -> None:
    """Make main.elf of sources and what starts a program on a bare processor."""
    (folder / "start.c").write_text(ARM_START, encoding="utf-8")
    (folder / "layout.ld").write_text(ARM_LAYOUT, encoding="utf-8")
    link = ("-nostartfiles", "-Wl,-T,layout.ld", "-fno-tree-loop-distribute-patterns")
    own = [*sources, "start.c", "-lm", "-lc", "-lgcc", "-lnosys", "-o", "main.elf"]
    run([target.compiler, *flags, *link, *own], folder)


def _qemu(target: Target) -> list[str]:
    quiet = ["-nographic", "-monitor", "none", "-serial", "none"]
    return ["qemu-system-arm", "-M", target.machine, *quiet, "-semihosting"]


def _version() -> tuple[int, int]:
    first = run(["qemu-system-arm", "--version"], Path("."))
    found = re.search(r"version (\d+)\.(\d+)", first)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _symbols(text: str) -> dict[str, tuple[int, int]]:
    """Return the first and the last address of each function."""
    found = {}
    for line in text.splitlines():
        parts = line.split()
        if len(parts) == 4:
            address = int(parts[0], 16) & ~1
            found[parts[3]] = (address, address + int(parts[1], 16) - 1)
    return found


def _inside(path: Path, called: tuple[int, int], main: tuple[int, int]) -> Iterator[int]:
    """Yield the addresses of instructions from the call on until main goes on."""
    is_inside = False
    with open(path, encoding="utf-8") as file:
        for line in file:
            if not line.startswith("Trace"):
                continue
            address = int(line.split("[")[1].split("/")[1], 16)
            is_inside = address == called[0] or (is_inside and not main[0] <= address <= main[1])
            if is_inside:
                yield address


def _disassembly(text: str) -> dict[int, tuple[int, str, str]]:
    """Return the length, name and operands of the instruction at each address."""
    found = {}
    pattern = re.compile(r"^ *([0-9a-f]+):\t([0-9a-f ]+?)\s*\t(\S+)(?:\t([^@;\n]*))?", re.MULTILINE)
    for address, code, name, operands in pattern.findall(text):
        length = len(code.replace(" ", "")) // 2
        found[int(address, 16)] = (length, name.split(".")[0], operands or "")
    return found


def _m0_cycles(addresses: Sequence[int], lines: dict[int, tuple[int, str, str]]) -> int:
    """Return the cycles of instructions on a Cortex-M0 (its reference manual, table 3-1)."""
    total = 0
    for address, after in zip(addresses, [*addresses[1:], -1], strict=True):
        length, name, operands = lines[address]
        n_registers = _n_registers(operands)
        is_taken = after != address + length
        if name in ("push", "stmia", "ldmia"):
            total += 1 + n_registers
        elif name == "pop":
            total += 1 + n_registers + (3 if "pc" in operands else 0)
        elif name.startswith(("ldr", "str")):
            total += 2
        elif name in ("bl", "blx"):
            total += 4 if name == "bl" else 3
        elif name in ("bx", "b") or (name.startswith("b") and name[1:] in CONDITIONS):
            total += 3 if is_taken else 1
        else:
            total += 3 if "pc" in operands.split(",")[0] else 1
    return total


def _n_registers(operands: str) -> int:
    """Return how many registers a list such as {r0, r4-r7} has."""
    found = re.search(r"\{([^}]*)\}", operands)
    number = 0
    for part in found[1].split(",") if found else ():
        ends = [int(digits) for digits in re.findall(r"r(\d+)", part)]
        number += ends[1] - ends[0] + 1 if len(ends) == 2 else 1
    return number
