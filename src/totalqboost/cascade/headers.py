"""A cascade as one header of C."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from totalqboost.ensemble import Ensemble

__all__ = ["header_of"]

TYPES = {"float32": "float", "int16": "int16_t", "uint8": "uint8_t"}


def header_of(stages: Sequence[tuple[Ensemble, Sequence[float]]], name: str, **options: Any) -> str:
    """Return the header; what no threshold of a stage rejects passes it.

    A soft cascade is one function. Stages are functions of their own, and one more that asks them
    in turn.
    """
    from totalqboost.export.c import to_c

    for option in ("rejections", "detector", "probabilities", "early_exit"):
        if options.get(option):
            raise ValueError(
                f"{option} must not be given for a cascade, which has its own thresholds and "
                f"stops early by itself, got {options[option]!r}"
            )
    if len(stages) == 1:
        model, rejections = stages[0]
        return to_c(model, name=name, rejections=rejections, detector=True, **options)
    names = [f"{name}_stage{number}" for number in range(1, len(stages) + 1)]
    parts = [
        to_c(model, name=own, rejections=rejections, detector=True, **options)
        for (model, rejections), own in zip(stages, names, strict=True)
    ]
    # All of them are one file.
    parts = [
        part.replace(f" * {own}.h: ", f" * {name}.h, stage {number} of {len(names)}: ", 1)
        for number, (part, own) in enumerate(zip(parts, names, strict=True), 1)
    ]
    kind = TYPES[options.get("input", "float32")]
    asked = "\n        && ".join(f"({own}_predict(x) != 0)" for own in names)
    guard = f"{name.upper()}_H"
    last = [
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        "/* 1 if x passes all stages, which are asked in turn. */",
        f"static inline int {name}_predict(const {kind} *x)",
        "{",
        f"    return ({asked}) ? 1 : 0;",
        "}",
        "",
        f"#endif /* {guard} */",
        "",
    ]
    return "\n".join([*parts, "\n".join(last)])
