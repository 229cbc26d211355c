"""Dictionaries of weak classifiers: where the columns of H come from."""

from __future__ import annotations

from totalqboost.dictionaries.base import Candidate, Dictionary, Oracle
from totalqboost.dictionaries.explicit import Columns, ExplicitOracle, FittedClassifiers
from totalqboost.dictionaries.pairs import Pairs
from totalqboost.dictionaries.proposals import Proposals
from totalqboost.dictionaries.stumps import Stumps

__all__ = [
    "Candidate",
    "Columns",
    "Dictionary",
    "ExplicitOracle",
    "FittedClassifiers",
    "Oracle",
    "Pairs",
    "Proposals",
    "Stumps",
    "get",
    "names",
]

_DICTIONARIES = {"stumps": Stumps, "columns": Columns, "pairs": Pairs}


def names() -> list[str]:
    """Return the names of the built-in dictionaries.

    Examples
    --------
    >>> from totalqboost import dictionaries
    >>> dictionaries.names()
    ['columns', 'pairs', 'stumps']
    """
    return sorted(_DICTIONARIES)


def get(dictionary: str | Dictionary) -> Dictionary:
    """Return the dictionary of that name, or the object itself if it has ``prepare``.

    Parameters
    ----------
    dictionary : str or Dictionary
        A name of :func:`names`, or an object.

    Examples
    --------
    >>> from totalqboost import dictionaries
    >>> dictionaries.get("stumps")
    Stumps(max_bins=None)
    """
    if isinstance(dictionary, str) and dictionary in _DICTIONARIES:
        return _DICTIONARIES[dictionary]()
    if not isinstance(dictionary, str | type) and hasattr(dictionary, "prepare"):
        return dictionary
    kind = ValueError if isinstance(dictionary, str) else TypeError
    raise kind(
        f"dictionary must be one of {names()} or an object with prepare(X, y), got {dictionary!r}"
    )
