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

    for option in ("rejections", "detector", "probabilities", "early_exit"):
        if options.get(option):
            raise ValueError(
                f"{option} must not be given for a cascade, which has its own thresholds and "
                f"stops early by itself, got {options[option]!r}"
            )
    if guarantee is not None:
        options["notes"] = {"recall": guarantee, **(options.get("notes") or {})}
    if len(stages) == 1:
        model, rejections = stages[0]
        return to_c(model, name=name, rejections=rejections, detector=True, **options)
    models = [exportable(model) for model, _ in stages]
    if options.get("missing") is None:  # the same of all, which read the same x
        options["missing"] = any(map(has_missing, models))
    if options.get("rows") is not None and options.get("input", "float32") != "float32":
        options["ranges"] = options.get("ranges") or _ranges(models, options["rows"])
        options["rows"] = None
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
    return "\n".join([*parts, _together(parts, name, names, kind, n_features)])


def _ranges(models: Sequence[Ensemble], rows: Any) -> dict[int, tuple[float, float]]:
    """Return the range of each feature in rows: one scale for all stages, whatever their cuts."""
    features = models[0].features
    used = sorted({j for model in models for j in model.used_features})
    X = table_of(rows, features, used, "rows")
    found = {}
    for j in used:
        known = X[np.isfinite(X[:, j]), j]
        if features[j].categories is None and len(known):
            low, high = float(known.min()), float(known.max())
            found[j] = (low, high if high > low else low + 1.0)
    return found


def _together(
    parts: Sequence[str], name: str, names: Sequence[str], kind: str, n_features: int
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
        "",
        f"#endif /* {guard} */",
        "",
    ]
    return "\n".join(lines)
