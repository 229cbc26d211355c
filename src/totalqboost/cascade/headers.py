"""A cascade as one header of C."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from totalqboost.cascade.certificates import Guarantee
from totalqboost.ensemble import Ensemble
from totalqboost.ensemble.rows import table_of

__all__ = ["header_of"]

TYPES = {"float32": "float", "int16": "int16_t", "uint8": "uint8_t"}
SCALED = (
    "that is the library's, on the numbers themselves, and not promised of integers on scales: "
    "count on fresh rows"
)


def header_of(
    stages: Sequence[tuple[Ensemble, Sequence[float]]],
    name: str,
    guarantee: Guarantee | None = None,
    **options: Any,
) -> str:
    """Return the header; what no threshold of a stage rejects passes it.

    A soft cascade is one function. Stages are functions of their own, and one more that asks them
    in turn.
    """
    from totalqboost.export import exportable
    from totalqboost.export.c import has_missing, to_c
    from totalqboost.export.c.scales import ranges_of

    for option in ("rejections", "detector", "probabilities", "early_exit"):
        if options.get(option):
            raise ValueError(
                f"{option} must not be given for a cascade, which has its own thresholds and "
                f"stops early by itself, got {options[option]!r}"
            )
    is_integer = options.get("input", "float32") != "float32"
    has_scales = is_integer and any(options.get(o) is not None for o in ("rows", "ranges"))
    if guarantee is not None:
        promise = f"{guarantee}; {SCALED}" if has_scales else guarantee
        options["notes"] = {"recall": promise, **(options.get("notes") or {})}
    if len(stages) == 1:
        model, rejections = stages[0]
        return to_c(model, name=name, rejections=rejections, detector=True, **options)
    models = [exportable(model) for model, _ in stages]
    if options.get("missing") is None:  # the same of all, which read the same x
        options["missing"] = any(map(has_missing, models))
    rows = options.pop("rows", None)
    X = None if rows is None else _checked(models, rows)
    if X is not None and is_integer and options.get("ranges") is None:
        options["ranges"] = ranges_of(models, options["input"], options["missing"], X)
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
    n_features = max(1, *(len(model.features) for model in models))
    pairs = [(model, own) for model, (_, own) in zip(models, stages, strict=True)]
    about = [] if X is None else [f"/* {_about_rows(pairs, X, options)} */", ""]
    tests = [own for own, part in zip(names, parts, strict=True) if f"{own}_self_test(" in part]
    whole = _together(parts, name, names, kind, n_features, tests)
    return "\n".join([*about, *_asking(name, tests), *parts, whole])


def _checked(models: Sequence[Ensemble], rows: Any) -> np.ndarray:
    """Return the rows of a user as numbers and codes."""
    used = sorted({j for model in models for j in model.used_features})
    return table_of(rows, models[0].features, used, "rows")


def _about_rows(
    stages: Sequence[tuple[Ensemble, Sequence[float]]], X: np.ndarray, options: dict[str, Any]
) -> str:
    """Return on how many of the given rows the whole says something else than the library."""
    from totalqboost.export.c.orders import stages_of
    from totalqboost.export.c.scales import input_of
    from totalqboost.export.c.sentences import about_labels
    from totalqboost.export.c.vectors import passing

    here, there = np.ones(len(X), dtype=bool), np.ones(len(X), dtype=bool)
    kind, missing = options.get("input", "float32"), options["missing"]
    for model, rejections in stages:
        own = input_of("", model, kind, missing, ranges=options.get("ranges"))
        limits = stages_of(model, rejections, True)
        here &= passing(model, limits, X)
        there &= passing(model, limits, own.quantized(X), own)
    return about_labels(here != there)


def _asking(name: str, tests: Sequence[str]) -> list[str]:
    """Return the macros with which the test of the whole asks for those of stages."""
    if not tests:
        return []
    how = f"/* Define {name.upper()}_SELF_TEST for {name}_self_test(), which must return 0. */"
    inner = [f"#define {own.upper()}_SELF_TEST" for own in tests]
    return [how, f"#if defined({name.upper()}_SELF_TEST)", *inner, "#endif", ""]


def _together(
    parts: Sequence[str],
    name: str,
    names: Sequence[str],
    kind: str,
    n_features: int,
    tests: Sequence[str],
) -> str:
    """Return the functions that call those of all stages."""
    guard = f"{name.upper()}_H"
    asked = "\n        && ".join(f"({own}_predict(x) != 0)" for own in names)
    makers = [n for n, part in zip(names, parts, strict=True) if f"{n}_quantize(" in part]
    quantize = [
        "/* Makes x of the numbers themselves. */",
        f"static inline void {name}_quantize(const float *from, {kind} *x)",
        "{",
        *(f"    {own}_quantize(from, x);" for own in makers),
        "}",
        "",
    ]
    test = [
        "",
        f"#if defined({name.upper()}_SELF_TEST)",
        "/* The number of rows that get another answer of a stage than they should. */",
        f"static inline int {name}_self_test(void)",
        "{",
        f"    return {' + '.join(f'{own}_self_test()' for own in tests)};",
        "}",
        "#endif",
    ]
    lines = [
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        f"#define {name.upper()}_N_FEATURES {n_features}",
        "",
        *(quantize if makers else []),
        "/* 1 if x passes all stages, which are asked in turn. */",
        f"static inline int {name}_predict(const {kind} *x)",
        "{",
        f"    return ({asked}) ? 1 : 0;",
        "}",
        *(test if tests else []),
        "",
        f"#endif /* {guard} */",
        "",
    ]
    return "\n".join(lines)
