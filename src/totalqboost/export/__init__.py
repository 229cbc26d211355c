"""Exports: an ensemble as a file for other programs, and for people.

Every function takes an :class:`totalqboost.Ensemble`, or a fitted classifier that has one, and
gives the same labels as ``Ensemble.predict``. What cannot be exported is refused in one sentence.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from totalqboost.export.model import exportable

if TYPE_CHECKING:
    from totalqboost.export.c import to_c
    from totalqboost.export.json_schema import ensemble_schema, to_json
    from totalqboost.export.onnx import to_onnx
    from totalqboost.export.python import to_python
    from totalqboost.export.scorecard import to_scorecard
    from totalqboost.export.sql import to_sql

# Imported when asked for, to keep the start of the package short.
_PLACES = {
    "ensemble_schema": "totalqboost.export.json_schema",
    "to_c": "totalqboost.export.c",
    "to_json": "totalqboost.export.json_schema",
    "to_onnx": "totalqboost.export.onnx",
    "to_python": "totalqboost.export.python",
    "to_scorecard": "totalqboost.export.scorecard",
    "to_sql": "totalqboost.export.sql",
}

__all__ = [
    "ensemble_schema",
    "exportable",
    "to_c",
    "to_json",
    "to_onnx",
    "to_python",
    "to_scorecard",
    "to_sql",
]


if not TYPE_CHECKING:  # or any name would pass as one of these

    def __getattr__(name: str) -> Any:
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_PLACES[name]), name)
