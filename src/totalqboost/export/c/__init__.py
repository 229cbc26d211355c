"""C: an ensemble as one header of C99 without dependencies, for devices of a few kilobytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from totalqboost.ensemble import Ensemble
from totalqboost.export.c import comments
from totalqboost.export.c.forms import Plan, ifs, packed, packed_bits, table
from totalqboost.export.c.inputs import Float32, Input
from totalqboost.export.c.weights import Weights, integer_weights
from totalqboost.export.model import Sum, check_identifier, exportable, sum_of
from totalqboost.learners import CategorySet, Both

__all__ = ["to_c"]

WORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "union unsigned void volatile while asm bool catch class constexpr decltype delete explicit "
    "export false friend mutable namespace new noexcept nullptr operator private protected public "
    "static_assert template this throw true try typeid typename using virtual wchar_t alignas "
    "alignof and bitand bitor compl not or xor main x s i v".split()
)
INPUTS = ("float32", "int16", "uint8")
AIMS = ("size", "speed")
WIDTHS = {"auto": (8, 16, 32), "int8": (8,), "int16": (16,), "int32": (32,)}


def to_c(
    model: Any,
    *,
    name: str = "model",
    input: str = "float32",
    optimize: str = "size",
    weights: str = "auto",
    notes: Mapping[str, Any] | None = None,
) -> str:
    """Return a model as a C99 header."""
    check_identifier(name, reserved=WORDS)
    _check("input", input, INPUTS)
    _check("optimize", optimize, AIMS)
    _check("weights", weights, tuple(WIDTHS))
    ensemble = exportable(model)
    scores = sum_of(ensemble)
    own = Float32(name, ensemble.features)
    plan = _plan(name, own, ensemble, scores, optimize, weights)
    body = _sums(plan, optimize)
    return "\n".join(_header(plan, ensemble, body, notes or {})) + "\n"


def _check(argument: str, value: Any, known: Sequence[str]) -> None:
    if value not in known:
        raise ValueError(f"{argument} must be one of {list(known)}, got {value!r}")


def _plan(
    name: str, own: Input, ensemble: Ensemble, scores: Sum, optimize: str, weights: str
) -> Plan:
    """Choose the smallest integers that are proved to keep every label, or the widest."""
    found: list[tuple[int, Weights]] = []
    for bits in WIDTHS[weights]:
        made = integer_weights(scores, ensemble.features, *_limits(bits, own, scores, optimize))
        found.append((bits, made))
        if made.proof.holds:
            break
    best = [pair for pair in found if pair[1].proof.holds]
    best = best or [pair for pair in found if pair[1].proof.but_ties] or found[-1:]
    bits, made = best[0]
    return Plan(name, own, scores.terms, made, bits, ensemble.is_multiclass and ensemble.is_shared)


def _limits(bits: int, own: Input, scores: Sum, optimize: str) -> tuple[int, int]:
    """Return how large sums and jumps may become."""
    if bits == 8:
        return 2**15 - 1, 2**7 - 1
    if bits == 16:
        return 2**15 - 1, 2**15 - 1
    if optimize == "size" and len(scores.intercept) == 1 and isinstance(own, Float32):
        most = 2 ** (packed_bits(scores.terms) - 1) - 1
        return most, most
    return 2**30, 2**30


def _sums(plan: Plan, optimize: str) -> list[str]:
    if optimize == "speed":
        return [*ifs(plan), "", *_predict(plan)]
    found = packed(plan) if plan.n_scores == 1 and plan.bits == 32 and isinstance(plan.input, Float32) else None
    return found if found is not None else [*table(plan), "", *_predict(plan)]


def _predict(plan: Plan) -> list[str]:
    x = f"const {plan.input.c_type} *x"
    head = f"static inline int {plan.name}_predict({x})"
    if plan.n_scores == 1:
        return []
    return [
        head,
        "{",
        f"    {plan.sum_type} s[{plan.n_scores}];",
        "    int best = 0;",
        "    int c;",
        f"    {plan.name}_scores(x, s);",
        f"    for (c = 1; c < {plan.n_scores}; c++) {{",
        "        if (s[c] > s[best]) {",
        "            best = c;",
        "        }",
        "    }",
        "    return best;",
        "}",
    ]


# -- the header ------------------------------------------------------------------------------


def _header(plan: Plan, ensemble: Ensemble, body: list[str], notes: Mapping[str, Any]) -> list[str]:
    guard = f"TOTALQBOOST_{plan.macro}_H"
    prelude = plan.input.prelude(_has_categories(plan), False)
    constants = {
        "N_FEATURES": str(len(ensemble.features)),
        "N_CLASSES": str(ensemble.n_classes),
        "LABELS": "{" + ", ".join(map(comments.c_string, ensemble.classes)) + "}",
    }
    taken = [f"{plan.macro}_{key}" for key in constants]
    return [
        *comments.boxed(_about(plan, ensemble, notes)),
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        "#include <stdint.h>",
        *(["#include <string.h>"] if prelude else []),
        "",
        *_flash(plan, body),
        *(f"#define {plan.macro}_{key} {value}" for key, value in constants.items()),
        *comments.category_macros(plan.macro, ensemble, taken),
        "",
        *prelude,
        *([""] if prelude else []),
        *body,
        "",
        "#endif",
    ]


def _has_categories(plan: Plan) -> bool:
    parts = [
        part
        for term in plan.terms
        for part in (term.condition.parts if isinstance(term.condition, Both) else [term.condition])
    ]
    return any(isinstance(part, CategorySet) for part in parts)


def _flash(plan: Plan, body: Sequence[str]) -> list[str]:
    """Return how tables are declared and read: on AVR they stay in flash."""
    text = "\n".join(body)
    if f"{plan.macro}_FLASH" not in text:
        return []
    readers = {"8": "byte", "16": "word", "32": "dword"}
    kinds = [k for k in ("U8", "U16", "U32", "I8", "I16", "I32") if f"{plan.macro}_{k}(" in text]
    macro = plan.macro
    avr = [
        f"#define {macro}_{kind}(p) (({'u' if kind[0] == 'U' else ''}int{kind[1:]}_t)"
        f"pgm_read_{readers[kind[1:]]}(p))"
        for kind in kinds
    ]
    return [
        "#if defined(__AVR__)",
        "#include <avr/pgmspace.h>",
        f"#define {macro}_FLASH PROGMEM",
        *avr,
        "#else",
        f"#define {macro}_FLASH",
        *(f"#define {macro}_{kind}(p) (*(p))" for kind in kinds),
        "#endif",
        "",
    ]


def _about(plan: Plan, ensemble: Ensemble, notes: Mapping[str, Any]) -> list[str]:
    return [
        f"{plan.name}: {len(ensemble.learners)} weak classifiers.",
        "",
        *comments.about_model(ensemble),
        "",
        f"{plan.name}_predict(x) returns the number of a class:",
        *comments.about_classes(ensemble),
        "It looks at:",
        *comments.about_features(ensemble),
        "",
        *comments.about_notes(notes),
    ]
