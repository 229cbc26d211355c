"""Cascades as plain values for JSON, and back with every value checked."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

from totalqboost.cascade.certificates import Guarantee
from totalqboost.ensemble import Ensemble

__all__ = ["FORMAT", "CascadeFileError", "content_of", "guarantee_of", "stages_of"]

FORMAT = "totalqboost-cascade"
SCHEMA_VERSION = 1
MAX = sys.float_info.max


class CascadeFileError(ValueError):
    """A file that is not a readable TotalQBoost cascade; the message says why.

    Examples
    --------
    >>> from totalqboost import Cascade, CascadeFileError
    >>> path = getfixture("tmp_path") / "detector.json"
    >>> _ = path.write_text("{}")
    >>> try:
    ...     Cascade.load(path)
    ... except CascadeFileError as error:
    ...     print("not a TotalQBoost cascade" in str(error))
    True
    """


def content_of(
    stages: Sequence[tuple[Ensemble, Sequence[float]]], guarantee: Guarantee | None
) -> dict[str, Any]:
    """Return ensembles and their thresholds as plain values; null is one that rejects nothing."""
    entries = [
        {
            "ensemble": ensemble.to_dict(),
            "rejections": [t if math.isfinite(t) else None for t in rejections],
        }
        for ensemble, rejections in stages
    ]
    promise = {} if guarantee is None else {"guarantee": guarantee.content()}
    return {"format": FORMAT, "schema_version": SCHEMA_VERSION, **promise, "stages": entries}


def stages_of(content: Any) -> list[tuple[Ensemble, tuple[float, ...]]]:
    """Return the ensembles and thresholds that plain values describe."""
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise CascadeFileError("this is not a TotalQBoost cascade")
    version = content.get("schema_version")
    if isinstance(version, bool) or version != SCHEMA_VERSION:
        raise CascadeFileError(
            f"schema_version {version!r} is not supported, this version reads {SCHEMA_VERSION}"
        )
    entries = content.get("stages")
    if not isinstance(entries, list):
        raise CascadeFileError(f"stages must be a list, got {entries!r}")
    return [_stage(entry) for entry in entries]


def guarantee_of(content: dict[str, Any]) -> Guarantee | None:
    """Return what the detector was promised to find; older files do not say."""
    own = content.get("guarantee")
    try:
        return None if own is None else Guarantee.of_content(own)
    except ValueError as e:
        raise CascadeFileError(f"guarantee: {e}") from e


def _stage(entry: Any) -> tuple[Ensemble, tuple[float, ...]]:
    if not isinstance(entry, dict):
        raise CascadeFileError(f"a stage must be an object, got {entry!r}")
    rejections = entry.get("rejections")
    if not isinstance(rejections, list):
        raise CascadeFileError(f"rejections must be a list, got {rejections!r}")
    ensemble = Ensemble.from_dict(entry.get("ensemble"))
    return ensemble, tuple(_threshold(value) for value in rejections)


def _threshold(value: Any) -> float:
    if value is None:
        return -math.inf
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not abs(value) <= MAX:
        raise CascadeFileError(f"rejections must be finite numbers or null, got {value!r}")
    return float(value)
