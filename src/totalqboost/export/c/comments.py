"""Text of people in a header: comments that nothing can end, strings, and names of macros."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from totalqboost.ensemble import Ensemble
from totalqboost.export.model import ascii_text
from totalqboost.learners import label_text

__all__ = [
    "about_classes",
    "about_features",
    "about_model",
    "about_notes",
    "boxed",
    "c_string",
    "category_macros",
]

WIDTH = 100


def boxed(lines: Iterable[str]) -> list[str]:
    """Return a block comment of lines whose text is safe already."""
    return ["/*", *(f" * {line}".rstrip() for line in lines), " */"]


def c_string(text: Any) -> str:
    r"""Return a string literal of UTF-8.

    Examples
    --------
    >>> print(c_string('größe "??/"'))
    "gr\303\266\303\237e \"\?\?/\""
    """
    plain = set(range(0x20, 0x7F)) - set(b'"\\?')
    data = str(text).encode("utf-8", "replace")
    letters = [
        chr(b) if b in plain else f"\\{chr(b)}" if b in b'"\\?' else f"\\{b:03o}" for b in data
    ]
    return '"' + "".join(letters) + '"'


def about_model(model: Ensemble) -> list[str]:
    """Return the model as a table, safe in a comment."""
    safe = [_safe(line) for line in str(model).splitlines()]
    wide = [line if len(line) <= 4 * WIDTH else line[: 4 * WIDTH] + " ..." for line in safe]
    return wide


def _safe(text: Any) -> str:
    """Return one line of a comment; a backslash at its end would join it to the next."""
    line = ascii_text(text).rstrip()
    return line + "." if line.endswith("\\") else line


def about_notes(notes: Mapping[str, Any]) -> list[str]:
    """Return what the user adds, one line each."""
    return [_safe(f"{key}: {value}") for key, value in notes.items()]


def about_classes(model: Ensemble) -> list[str]:
    """Return which number stands for which label."""
    return [_safe(f"  {number}  {label!r}") for number, label in enumerate(model.classes)]


def about_features(model: Ensemble, gone: str = "") -> list[str]:
    """Return the elements of x that are looked at; ``gone`` stands for a missing category too."""
    return [
        _safe(f"  x[{j}]  {model.features[j].name}" + _kind(model, j, gone))
        for j in model.used_features
    ]


def _kind(model: Ensemble, j: int, gone: str) -> str:
    labels = model.features[j].categories
    if labels is None:
        return ""
    if None not in labels:
        return " (code of a category)"
    return f" (code of a category; a missing one is {labels.index(None)}{gone})"


def category_macros(prefix: str, model: Ensemble, taken: Sequence[str]) -> list[str]:
    """Return a macro for the code of each category of the features that are looked at."""
    lines: list[str] = []
    names = set(taken)
    for j in model.used_features:
        feature = model.features[j]
        for code, label in enumerate(feature.categories or ()):
            macro = _distinct(
                f"{prefix}_{_capitals(feature.name)}_{_capitals(label_text(label))}", names
            )
            shown = _safe(f"{feature.name}: {label_text(label)}")
            lines.append(f"#define {macro} {code} /* {shown} */")
    return lines


def _capitals(text: str) -> str:
    return re.sub(r"[^A-Z0-9]+", "_", text.upper()).strip("_") or "X"


def _distinct(name: str, names: set[str]) -> str:
    found, number = name, 2
    while found in names:
        found, number = f"{name}_{number}", number + 1
    names.add(found)
    return found
