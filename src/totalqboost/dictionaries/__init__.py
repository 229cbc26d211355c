"""Dictionaries of weak classifiers: where the columns of H come from."""

from __future__ import annotations

from totalqboost.dictionaries.base import Candidate, Dictionary, Oracle
from totalqboost.dictionaries.explicit import Columns, FittedClassifiers
from totalqboost.dictionaries.stumps import Stumps

__all__ = [
    "Candidate",
    "Columns",
    "Dictionary",
    "FittedClassifiers",
    "Oracle",
    "Stumps",
    "get",
    "names",
]

_DICTIONARIES = {"stumps": Stumps, "columns": Columns}


def names() -> list[str]:
    """Return the names of the built-in dictionaries."""
    return sorted(_DICTIONARIES)


def get(dictionary: str | Dictionary) -> Dictionary:
    """Return the dictionary of that name, or the object itself if it has ``prepare``."""
    if isinstance(dictionary, str):
        if dictionary not in _DICTIONARIES:
            raise ValueError(
                f"dictionary must be one of {names()} or an object with prepare(X, y), "
                f"got {dictionary!r}"
            )
        return _DICTIONARIES[dictionary]()
    if isinstance(dictionary, type) or not hasattr(dictionary, "prepare"):
        raise TypeError(
            f"dictionary must be one of {names()} or an object with prepare(X, y), "
            f"got {dictionary!r}"
        )
    return dictionary
