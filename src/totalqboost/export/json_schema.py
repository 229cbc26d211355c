"""An ensemble as JSON, and the schema that tells other languages how to read it."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from totalqboost.export.model import exportable

__all__ = ["ensemble_schema", "to_json"]


def to_json(model: Any) -> str:
    """Return the text that ``Ensemble.save`` writes and ``Ensemble.load`` reads.

    ``ensemble_schema()`` describes it, docs/export.md has the rules that a schema cannot state.

    Parameters
    ----------
    model : Ensemble or fitted classifier
        What to export.

    Examples
    --------
    >>> from totalqboost import Ensemble, Stump, export
    >>> text = export.to_json(Ensemble((Stump(0, 40.0),), (0.7,), 0.1, ("no", "yes"), ("age",)))
    >>> Ensemble.from_dict(json.loads(text)).predict([[52.0]])
    array(['yes'], dtype='<U3')
    """
    return json.dumps(exportable(model).to_dict(), indent=1, allow_nan=False) + "\n"


def ensemble_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of an ensemble, version 2 of the format.

    Examples
    --------
    >>> from totalqboost import export
    >>> export.ensemble_schema()["$id"]
    'urn:totalqboost:ensemble:2'
    """
    text = files("totalqboost.export").joinpath("ensemble.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
