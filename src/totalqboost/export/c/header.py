"""The header around the functions: what people read first, macros, and the test."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from totalqboost.ensemble import Ensemble
from totalqboost.export.c import comments
from totalqboost.export.c.forms import Plan
from totalqboost.export.c.inputs import Float32, Integer
from totalqboost.export.c.orders import Stages
from totalqboost.export.c.scales import quantize
from totalqboost.export.c.vectors import self_test
from totalqboost.tables import counted

__all__ = ["header"]

READERS = {"8": "byte", "16": "word", "32": "dword"}


def header(
    plan: Plan,
    ensemble: Ensemble,
    body: Sequence[str],
    sentences: Sequence[str],
    notes: Mapping[str, Any],
    tested: np.ndarray | None,
    stages: Stages | None = None,
) -> str:
    """Return the whole text."""
    guard = f"TOTALQBOOST_{plan.macro}_H"
    prelude = plan.input.prelude("\n".join(body)) if plan.terms else []
    scales = quantize(plan.input, ensemble) if isinstance(plan.input, Integer) else []
    test = [] if tested is None else self_test(plan, ensemble, tested, stages)
    lines = [
        *comments.boxed(_about(plan, ensemble, [*sentences, *_about_test(plan, test)], notes)),
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        "#include <stdint.h>",
        *(["#include <string.h>"] if isinstance(plan.input, Float32) else []),
        "",
        *_flash(plan, body),
        *_macros(plan, ensemble),
        "",
        *prelude,
        *([""] if prelude else []),
        *body,
        *(["", *scales] if scales else []),
        *test,
        "",
        f"#endif /* {guard} */",
    ]
    return "\n".join(lines) + "\n"


def _macros(plan: Plan, ensemble: Ensemble) -> list[str]:
    """Return what a program may want to know: sizes, labels, codes of categories."""
    constants = {
        "N_FEATURES": str(max(len(ensemble.features), 1)),
        "N_CLASSES": str(ensemble.n_classes),
        "LABELS": "{" + ", ".join(map(comments.c_string, ensemble.classes)) + "}",
    }
    if isinstance(plan.input, Integer) and plan.input.has_missing:
        constants["MISSING"] = f"({plan.input.low})"
    reserved = ("FLASH", "SELF_TEST", "TOP", "U8", "U16", "U32", "I8", "I16", "I32", *constants)
    taken = [f"{plan.macro}_{key}" for key in reserved]
    return [
        *(f"#define {plan.macro}_{key} {value}" for key, value in constants.items()),
        *comments.category_macros(plan.macro, ensemble, taken),
    ]


def _flash(plan: Plan, body: Sequence[str]) -> list[str]:
    """Return how tables are declared and read: on AVR they stay in flash."""
    text, macro = "\n".join(body), plan.macro
    if f"{macro}_FLASH" not in text:
        return []
    kinds = [k for k in ("U8", "U16", "U32", "I8", "I16", "I32") if f"{macro}_{k}(" in text]
    types = {kind: f"{'u' if kind[0] == 'U' else ''}int{kind[1:]}_t" for kind in kinds}
    has_top = f"{macro}_TOP(" in text  # the highest byte of a word; AVR is little-endian
    return [
        "#if defined(__AVR__)",
        "#include <avr/pgmspace.h>",
        f"#define {macro}_FLASH PROGMEM",
        *(
            f"#define {macro}_{kind}(p) (({types[kind]})pgm_read_{READERS[kind[1:]]}(p))"
            for kind in kinds
        ),
        *([f"#define {macro}_TOP(p) pgm_read_byte((const uint8_t *)(p) + 3)"] if has_top else []),
        "#else",
        f"#define {macro}_FLASH",
        *(f"#define {macro}_{kind}(p) (*(p))" for kind in kinds),
        *([f"#define {macro}_TOP(p) ((uint8_t)(*(p) >> 24))"] if has_top else []),
        "#endif",
        "",
    ]


# -- the comment at the top ------------------------------------------------------------------


def _about(
    plan: Plan, ensemble: Ensemble, sentences: Sequence[str], notes: Mapping[str, Any]
) -> list[str]:
    classes = f"{ensemble.n_classes} classes"
    use = (
        f"{plan.name}_predict(x) returns the number of the class, from 0 to "
        f"{ensemble.n_classes - 1}; x is {_about_input(plan)}."
    )
    return [
        f"{plan.name}.h: {counted(ensemble.n_learners, 'weak classifier')}, {classes}. Written by "
        "TotalQBoost; do not edit.",
        "",
        *_paragraph(use),
        *(line for sentence in sentences for line in _paragraph(sentence)),
        "",
        "Classes:",
        *comments.about_classes(ensemble),
        "Features that are looked at:",
        *comments.about_features(ensemble, _gone(plan)),
        *_about_scales(plan, ensemble),
        "",
        *comments.about_model(ensemble),
        *(["", *comments.about_notes(notes)] if notes else []),
    ]


def _about_test(plan: Plan, test: Sequence[str]) -> list[str]:
    """Return what to do with the test, if there is one."""
    how = f"Define {plan.macro}_SELF_TEST for {plan.name}_self_test(), which must return 0."
    return [how] if test else []


def _paragraph(text: str) -> list[str]:
    return textwrap.wrap(text, comments.WIDTH - 3)


def _gone(plan: Plan) -> str:
    """Return what else than its code may stand for a missing category."""
    if not isinstance(plan.input, Integer):
        return " or NaN"
    return f" or {plan.input.low}" if plan.input.bits == 16 else ""


def _about_input(plan: Plan) -> str:
    if not isinstance(plan.input, Integer):
        gone = "NaN where a number is missing" if plan.input.has_missing else "no number is NaN"
        return f"an array of floats, {gone}"
    gone = f", {plan.macro}_MISSING where a number is missing" if plan.input.has_missing else ""
    made = f", as {plan.name}_quantize makes them" if plan.input.scales else " (whole numbers)"
    return f"an array of {plan.input.c_type}{made}{gone}"


def _about_scales(plan: Plan, ensemble: Ensemble) -> list[str]:
    if not isinstance(plan.input, Integer) or not plan.input.scales:
        return []
    own = plan.input
    lines = [
        "Scales: x[j] = floor((value - low) * factor + 0.5)"
        + (f" + ({own.least})" if own.least else "")
        + f", from {own.least} to {own.high}",
    ]
    for j, (low, factor) in sorted(own.scales.items()):
        lines.append(f"  x[{j}]  low {low:.9g}, factor {factor:.9g}")
    return lines
