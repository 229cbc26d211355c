"""Numbers as small integers: a scale for each feature, and the function that applies it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from totalqboost.ensemble import Ensemble
from totalqboost.export.c.inputs import Float32, Input, Integer
from totalqboost.learners import Stump

__all__ = ["input_of", "quantize", "ranges_of"]

BITS = {"int16": 16, "uint8": 8}
MIDDLE = (5, 95)  # per cent of values between which a scale of a single cut lies


def input_of(
    name: str,
    ensemble: Ensemble,
    kind: str,
    has_missing: bool,
    X: np.ndarray | None = None,
    ranges: Any = None,
) -> Input:
    """Return floats, or integers: on scales of ranges or rows, else the numbers themselves."""
    if kind == "float32":
        return Float32(name, ensemble.features, has_missing)
    plain = Integer(name, ensemble.features, bits=BITS[kind], has_missing=has_missing)
    numeric = [j for j in ensemble.used_features if ensemble.features[j].categories is None]
    for j in set(ensemble.used_features) - set(numeric):
        feature = ensemble.features[j]
        if len(feature.categories or ()) > plain.high:
            raise ValueError(
                f"input must hold the codes of the {len(feature.categories or ())} categories of "
                f"feature {feature.name!r}, got {kind!r}"
            )
    limits = _given(ensemble, ranges)
    if X is not None and ranges is None:
        limits = ranges_of([ensemble], kind, has_missing, X)
    steps = plain.high - plain.least
    scales = {j: _scale(*limits[j], steps) for j in numeric if j in limits}
    own = replace(plain, scales=scales)
    return _around_zero(own, ensemble) if ranges is None and plain.least < 0 else own


def _around_zero(own: Integer, ensemble: Ensemble) -> Integer:
    """Return scales that put a cut of each feature at 0, which processors compare with for free.

    What is pushed over an end of the integers is on the same side of all cuts as that end.
    """
    for j, (_, factor) in own.scales.items():
        cuts = _cuts([ensemble], j)
        if not cuts:  # it is asked only whether the value is missing
            continue
        low = float(np.float32(cuts[len(cuts) // 2].threshold + (own.least - 0.5) / factor))
        moved = replace(own, scales={**own.scales, j: (low, factor)})
        if all(own.least <= moved.cut(cut) < own.high for cut in cuts):
            own = moved
    return own


def _given(ensemble: Ensemble, ranges: Any) -> dict[int, tuple[float, float]]:
    """Return the ranges of the user by the number of the feature."""
    if ranges is None:
        return {}
    if not isinstance(ranges, Mapping):
        raise TypeError(f"ranges must map features to (low, high), got {type(ranges).__name__}")
    names = {feature.name: j for j, feature in enumerate(ensemble.features)}
    found = {}
    for key, limits in ranges.items():
        place = names.get(key, key)
        if not isinstance(place, int) or not 0 <= place < len(ensemble.features):
            raise ValueError(f"ranges must name features of the model, got {key!r}")
        low, high = map(float, limits)
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ValueError(f"ranges must be finite with low < high, got {limits!r} for {key!r}")
        found[place] = (low, high)
    return found


def ranges_of(
    models: Sequence[Ensemble], kind: str, has_missing: bool, X: np.ndarray
) -> dict[int, tuple[float, float]]:
    """Return the range of each feature that is no integer already: one scale for all models.

    Nobody asks where between two cuts, or how far beyond the last, a number is: the range is that
    of the cuts, and every integer helps to tell numbers near them apart.
    """
    own = Integer("", models[0].features, bits=BITS[kind], has_missing=has_missing)
    steps = own.high - own.least
    found = {}
    for j in sorted({j for model in models for j in model.used_features}):
        known, cuts = X[np.isfinite(X[:, j]), j], _cuts(models, j)
        are_integers = (known == np.round(known)) & (known >= own.least) & (known <= own.high)
        if own.features[j].categories is None and not (len(known) and are_integers.all()):
            found[j] = _range([cut.threshold for cut in cuts], known, steps)
    return found


def _cuts(models: Sequence[Ensemble], feature: int) -> list[Stump]:
    """Return the stumps of a feature, alone or in pairs, by ascending threshold."""
    learners = [h for model in models for h in model.learners]
    parts = [part for h in learners for part in getattr(h, "parts", (h,))]
    own = [part for part in parts if isinstance(part, Stump) and part.feature == feature]
    return sorted(own, key=lambda cut: cut.threshold)


def _range(cuts: Sequence[float], known: np.ndarray, steps: int) -> tuple[float, float]:
    """Return where the integers begin and end, the first and the last cut between two of them.

    Half of 16 bits are enough; the other half is room to move a cut to 0.
    """
    first, last = (cuts[0], cuts[-1]) if cuts else (0.0, 0.0)
    used = steps - 1 if steps < 256 else steps // 2
    if last > first:
        width = (last - first) / used
    else:
        low, high = np.percentile(known, MIDDLE) if len(known) else (0.0, 1.0)
        width = float(high - low) / used
    width = width if width > 0.0 and math.isfinite(width) else 1.0
    return first - 0.5 * width, first + (steps - 0.5) * width


def _scale(low: float, high: float, steps: int) -> tuple[float, float]:
    span = high - low if high > low else 1.0
    return float(np.float32(low)), float(np.float32(steps / span))


def quantize(own: Integer, ensemble: Ensemble) -> list[str]:
    """Return the function that makes integers of floats, for programs that have floats."""
    if not own.scales:
        return []
    name, kind = own.name, own.c_type
    gone = ["    if (value != value) {", f"        q = {own.low}; /* missing */", "    } else "]
    first = "".join(gone[-1:]) if own.has_missing else "    "
    lines = [
        f"static inline {kind} {name}_place(float value, float low, float factor)",
        "{",
        "    const float place = ((value - low) * factor) + 0.5F;",
        f"    {kind} q = {own.least};",
        *(gone[:2] if own.has_missing else []),
        f"{first}if (place >= {own.high - own.least}.0F) {{",
        f"        q = {own.high};",
        "    } else if (place >= 0.0F) {",
        f"        q = ({kind})((int32_t)place + ({own.least}));",
        "    } else {",
        f"        q = {own.least};",
        "    }",
        "    return q;",
        "}",
        "",
        "/* Makes x of the numbers themselves. */",
        f"static inline void {name}_quantize(const float *from, {kind} *x)",
        "{",
    ]
    for j in ensemble.used_features:
        if ensemble.features[j].categories is not None:
            inside = f"(from[{j}] >= 0.0F) && (from[{j}] < {own.high}.0F)"
            found = f"({inside}) ? ({kind})from[{j}] : {own.high}"
            code = own.missing_code(j)
            if code is not None:
                found = f"(from[{j}] != from[{j}]) ? {code} : ({found})"
            lines.append(f"    x[{j}] = {found};")
        else:
            low, factor = own.scales.get(j, (float(own.least), 1.0))
            lines.append(f"    x[{j}] = {name}_place(from[{j}], {_float(low)}, {_float(factor)});")
    return [*lines, "}"]


def _float(value: float) -> str:
    """Return a literal of single precision that reads back as the same number."""
    text = repr(float(np.float32(value)))
    return f"({text}F)" if text.startswith("-") else f"{text}F"
