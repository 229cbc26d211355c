"""A cascade as one header of C."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from totalqboost.ensemble import Ensemble

__all__ = ["header_of"]

TYPES = {"float32": "float", "int16": "int16_t", "uint8": "uint8_t"}


def header_of(stages: Sequence[tuple[Ensemble, Sequence[float]]], name: str, **options: Any) -> str:
    """Return the header; what passes a stage has a score above 0 there.

    A soft cascade is one function. Stages are functions of their own, and one more that asks them
    in turn.
    """
    from totalqboost.export.c import to_c

    for option in ("rejections", "probabilities", "early_exit"):
        if options.get(option):
            raise ValueError(
                f"{option} must not be given for a cascade, which has its own thresholds and "
                f"stops early by itself, got {options[option]!r}"
            )
    shifted = [_shifted(*stage) for stage in stages]
    if len(shifted) == 1:
        model, rejections = shifted[0]
        return to_c(model, name=name, rejections=rejections, **options)
    names = [f"{name}_stage{number}" for number in range(1, len(shifted) + 1)]
    # Inside a stage nothing is rejected before its end.
    parts = [to_c(m, name=n, **options) for (m, _), n in zip(shifted, names, strict=True)]
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


def _shifted(ensemble: Ensemble, rejections: Sequence[float]) -> tuple[Ensemble, list[float]]:
    """Return the same stage with its last threshold at 0, above which C says yes."""
    last = rejections[-1]
    return replace(ensemble, intercept=ensemble.intercept - last), [t - last for t in rejections]
