"""Bytes and cycles of 20 stumps on small processors: our headers beside other generators of C.

Flash is code and constants with all that is linked in from libraries. Cycles are those of simavr on
AVR and the reference manual's for every instruction that QEMU executes on a Cortex-M0; instructions
on Cortex-M3 and M4F; nanoseconds of the processor that runs this, without waiting for others. Test
rows are counted whose label is not that of ``Ensemble.predict``.
Compilers and emulators are Debian's; what is missing leaves a gap in the table.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common import error_percent, parse_arguments, save, say, table
from devices_rivals import GENERATORS, Program, engine_nanoseconds

from totalqboost import Ensemble, TotalQBoostClassifier, datasets, export
from totalqboost.export.targets import DTYPES, TARGETS, measure

PICTURES = Path(__file__).parents[1] / "docs" / "images"
N_TRAIN = 2000
N_ROWS = 20  # that are run on devices
N_HOST = 1000
REPEATS = 2_000_000
PACKAGES = ("m2cgen", "tl2cgen", "treelite", "emlearn", "lightgbm", "onnxruntime")

FORMS: dict[str, dict[str, Any]] = {
    "float32, size, exact": {},
    "float32, size, int16 weights": {"weights": "int16"},
    "float32, size, exact, NaN is missing": {"missing": True},
    "float32, speed, exact": {"optimize": "speed"},
    "float32, speed, int16 weights": {"optimize": "speed", "weights": "int16"},
    "int16, size, int16 weights": {"input": "int16", "weights": "int16"},
    "int16, speed, int16 weights": {"input": "int16", "optimize": "speed", "weights": "int16"},
    "int16, speed, int8 weights": {"input": "int16", "optimize": "speed", "weights": "int8"},
    "uint8, size": {"input": "uint8"},
    "uint8, speed": {"input": "uint8", "optimize": "speed"},
}
TYPES = {"float32": "float", "int16": "int16_t", "uint8": "uint8_t"}

HOST = """
#include <stdio.h>
#include <stdint.h>
#include <time.h>
#include "model.h"
static %(type)s rows[%(n_rows)d * %(n)d];
static uint8_t labels[%(n_rows)d];
int main(void)
{
    struct timespec begin, end;
    long total = 0;
    if (fread(rows, sizeof rows, 1, stdin) != 1) return 1;
    for (int r = 0; r < %(n_rows)d; r++) labels[r] = (uint8_t)model_predict(rows + r * %(n)d);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    for (int k = 0, r = 0; k < %(repeats)d; k++) {
        total += model_predict(rows + r * %(n)d);
        r = (r + 1 == %(timed)d) ? 0 : r + 1;
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    fprintf(stderr, "%%f %%ld\\n", ((end.tv_sec - begin.tv_sec) * 1e9 + end.tv_nsec - begin.tv_nsec)
        / %(repeats)d, total);
    return fwrite(labels, 1, sizeof labels, stdout) != sizeof labels;
}
"""


def train(n_learners: int) -> tuple[Ensemble, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    X, y = datasets.load("waveform")
    X_train, y_train, X_test, y_test = X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN:], y[N_TRAIN:]
    model = TotalQBoostClassifier(
        cardinality_penalty=0.0, max_learners=n_learners, max_rounds=2 * n_learners
    )
    return model.fit(X_train, y_train).ensemble_, X_train, y_train, X_test, y_test


def on_host(program: Program, X: np.ndarray, repeats: int) -> tuple[np.ndarray, float]:
    """Return the labels of rows, and the nanoseconds of one."""
    own = {"type": program.kind, "n": X.shape[1], "n_rows": len(X), "repeats": repeats}
    own["timed"] = min(N_HOST, len(X))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "model.h").write_text(program.header, encoding="utf-8")
        (folder / "main.c").write_text(HOST % own, encoding="utf-8")
        names = ["main.c"]
        for k, text in enumerate(program.more):
            names.append(f"more{k}.c")
            (folder / names[-1]).write_text(text, encoding="utf-8")
        command = ["gcc", "-std=gnu99", "-O2", *names, "-lm", "-o", "main"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        done = subprocess.run(
            ["./main"], cwd=folder, input=X.tobytes(), capture_output=True, check=True
        )
    return np.frombuffer(done.stdout, dtype=np.uint8), float(done.stderr.split()[0])


def costs(program: Program, rows: np.ndarray) -> dict[str, Any]:
    """Return flash and counts on each target; rivals keep doubles, which AVR has none of."""
    found = {}
    for target in TARGETS:
        if target.is_avr and program.kind == "double":
            continue
        cost = measure(program.header, target, rows=rows, more=program.more)
        found[target.name] = {"flash": cost.flash, "ram": cost.ram, "count": cost.count}
    return found


def handed(program: Program, header: str, model: Ensemble, X: np.ndarray, X_train: Any) -> Any:
    """Return rows as a program takes them: of integers, on the scales of the training data."""
    if program.kind in ("float", "double"):
        return np.ascontiguousarray(X, dtype=DTYPES[program.kind])
    from totalqboost.export.c.scales import input_of

    kind = {"int16_t": "int16", "uint8_t": "uint8"}[program.kind]
    return input_of("model", model, kind, False, X_train).quantized(X)


def rivals(
    model: Ensemble, X_train: np.ndarray, y_train: np.ndarray, results: dict[str, Any]
) -> dict[str, Program]:
    made = {}
    for name, generate in GENERATORS.items():
        try:
            made[name] = generate(model, X_train, (y_train > 0).astype(int))
        except ImportError as error:
            results[name] = {"absent": f"{error.name} is not installed"}
    return made


def run_all(arguments: argparse.Namespace) -> dict[str, Any]:
    model, X_train, y_train, X_test, y_test = train(4 if arguments.quick else 20)
    X_test = X_test.astype(np.float32)
    repeats = 10_000 if arguments.quick else REPEATS
    results: dict[str, Any] = {}
    programs = {}
    for name, options in FORMS.items():
        kind = TYPES[options.get("input", "float32")]
        own = options if kind == "float" else {**options, "rows": X_train}
        programs[name] = Program(export.to_c(model, **own), kind)
    programs |= rivals(model, X_train, y_train, results)
    expected = (model.decision_function(X_test) > 0).astype(np.uint8)
    for name, program in programs.items():
        say(name)
        X = handed(program, program.header, model, X_test, X_train)
        found, nanoseconds = on_host(program, X, repeats)
        results[name] = {
            "differ": int((found != expected).sum()),
            "error": error_percent(np.where(found > 0, 1, -1), np.sign(y_test)),
            "nanoseconds": nanoseconds,
            "targets": costs(program, X[: 4 if arguments.quick else N_ROWS]),
        }
    engines = engine_nanoseconds(model, X_test[:N_HOST], repeats)
    return {
        "programs": results,
        "engines": engines,
        "n_learners": model.n_learners,
        "n_features": len(model.used_features),
        "n_test": len(X_test),
        "error": error_percent(model.predict(X_test), y_test),
    }


# -- tables ----------------------------------------------------------------------------------


def render(content: dict[str, Any]) -> str:
    results = content["results"]
    names = [target.name for target in TARGETS]
    units = {target.name: target.unit for target in TARGETS}
    header = [
        "",
        *(f"{name}: flash / {units[name]}" for name in names),
        "host, ns",
        "labels differ",
    ]
    rows = []
    for form, found in results["programs"].items():
        if "absent" in found:
            rows.append([form, found["absent"], *[""] * (len(header) - 2)])
            continue
        cells = [_cell(found["targets"].get(name)) for name in names]
        differ = "" if "emlearn" in form else f"{found['differ']} of {results['n_test']}"
        rows.append([form, *cells, f"{found['nanoseconds']:.1f}", differ])
    text = (
        f"{results['n_learners']} stumps on {results['n_features']} features of the waveforms, "
        f"test error {results['error']:.1f} %:\n\n{table(header, rows)}"
    )
    engines = [
        [name, value if isinstance(value, str) else f"{value:,.0f}"]
        for name, value in results["engines"].items()
    ]
    return f"{text}\n\nEngines on the same machine, one row at a time:\n\n" + table(
        ["", "ns a row"], engines
    )


def _cell(cost: dict[str, Any] | None) -> str:
    if cost is None or cost["flash"] is None:
        return "-"
    count = "-" if cost["count"] is None else f"{cost['count']:,.0f}"
    return f"{cost['flash']:,} / {count}"


# What the picture names, and where the names stand beside their points: in points, and aligned.
LABELS = {
    "float32, size, exact": (0, 9, "center"),
    "float32, speed, exact": (7, 3, "left"),
    "uint8, size": (7, -3, "left"),
    "uint8, speed": (7, -3, "left"),
    "m2cgen": (-7, -10, "right"),
    "tl2cgen": (-7, 4, "right"),
    "emlearn, inline (a forest)": (-8, -3, "right"),
}


def draw(results: dict[str, Any], path: Path) -> None:
    """Draw flash against cycles on the smallest processor, one point per program."""
    from matplotlib.figure import Figure

    axes = Figure(figsize=(7.5, 4.2), layout="constrained").add_subplot()
    for name, program in results["programs"].items():
        cost = program["targets"].get("Cortex-M0") or {}
        if not (cost.get("flash") and cost.get("count")):
            continue
        place = cost["count"], cost["flash"]
        axes.plot(*place, "o", color="C0" if name in FORMS else "C1")
        if name in LABELS:
            *shift, side = LABELS[name]
            axes.annotate(name, place, shift, textcoords="offset points", fontsize=9, ha=side)
    axes.set(xscale="log", yscale="log")
    axes.set(xlabel="cycles of one prediction on a Cortex-M0", ylabel="flash (bytes)")
    axes.grid(alpha=0.3)
    axes.figure.savefig(path, dpi=150)
    say(f"written: {path}")


def main() -> None:
    arguments = parse_arguments(__doc__)
    results = run_all(arguments)
    configuration = {"n_train": N_TRAIN, "n_rows": N_ROWS, "forms": FORMS}
    content = save("devices", arguments, configuration, results, PACKAGES)
    folder = arguments.out if arguments.quick else PICTURES
    draw(content["results"], folder / "devices.png")
    print(render(content))


if __name__ == "__main__":
    main()
