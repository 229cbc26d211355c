"""An ensemble as a Python module that needs nothing: neither this package nor any other."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any

from totalqboost.ensemble import Ensemble
from totalqboost.export.model import (
    Term,
    check_identifier,
    check_names,
    exportable,
    scaled_sum,
    summary,
)
from totalqboost.learners import Both, CategorySet, Missing, Stump

__all__ = ["to_python"]

INSIDE = frozenset({"FEATURES", "CLASSES", "math", "main", *dir(builtins)})

HEAD = '''\
import math

FEATURES = {features!r}
CLASSES = {classes!r}


def {name}(row):
    """Return the label of a row.

    A row is a mapping from names to values (only those in FEATURES that are looked at are
    needed), or a sequence of values in the order of FEATURES. None or NaN is a missing value.
    """
    scores = {name}_scores(row)
    return CLASSES[{winner}]


def {name}_scores(row):
    """Return {what}."""
'''

TWO = "int(scores > 0)"
MANY = "max(range(len(CLASSES)), key=scores.__getitem__)"  # the first of the highest

PROBABILITIES = '''

def {name}_proba(row):
    """Return the probabilities of the classes, in the order of CLASSES."""
    f = {name}_scores(row)
'''
LINKS = {
    "logistic": "    p = _sigmoid(f)\n    return [1.0 - p, p]\n",
    "exponential": "    p = _sigmoid(2.0 * f)\n    return [1.0 - p, p]\n",
    "squared": "    p = min(max((1.0 + f) / 2.0, 0.0), 1.0)\n    return [1.0 - p, p]\n",
    "smoothed_hinge": (
        "    a, b = min(max(1.0 - f, 0.0), 1.0), min(max(1.0 + f, 0.0), 1.0)\n"
        "    return [1.0 - b / (a + b), b / (a + b)]\n"
    ),
    "multinomial": (
        "    exps = [math.exp(score - max(f)) for score in f]\n"
        "    return [e / sum(exps) for e in exps]\n"
    ),
}
SIGMOID = """

def _sigmoid(f):
    e = math.exp(-abs(f))
    return 1.0 / (1.0 + e) if f >= 0 else e / (1.0 + e)
"""

READ = """

def _values(row):
    if hasattr(row, "keys"):
        return {places}
    if len(row) != len(FEATURES):
        raise ValueError(f"row must have {{len(FEATURES)}} values, got {{len(row)}}")
    return row


def _number(value):
    return math.nan if value is None else float(value)
"""

CATEGORY = '''

def _category(value, known):
    """Return the label in the spelling of the training data: "1", 1 and 1.0 are one."""
    if value is None or value != value:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value in known:
        return value
    if not isinstance(value, str):
        return str(value)
    try:
        return float(value)
    except ValueError:
        return value
'''

MAIN = '''

_USED = {used!r}
_NUMBERS = {numbers!r}
_GAPS = {gaps!r}


def main():
    """Read a CSV file with a line of names from standard input, print a label for each row."""
    import csv
    import sys

    try:
        labels = _labels(sys.stdin.buffer.read().decode("utf-8-sig"))
    except (ValueError, csv.Error) as error:
        print(f"error: {{error}}", file=sys.stderr)
        sys.exit(2)
    for label in labels:
        print(label)


def _labels(_text):
    return [{name}(_row) for _row in _rows(_text)]


def _rows(text):
    table = _table(text)
    for row in table:
        if None in row:
            raise ValueError(f"line {{table.line_num}} has more fields than the line of names")
        try:
            yield {{key: _cell(key, row[key]) for key in _USED}}
        except ValueError as error:
            raise ValueError(f"line {{table.line_num}}: {{error}}") from error


def _table(text):
    """Return the rows of a CSV file, whichever of , ; | and tab stands between its columns."""
    import csv
    import io

    seps = (",", ";", "\\t", "|")
    tables = [csv.DictReader(io.StringIO(text, newline=""), delimiter=sep) for sep in seps]
    names = [table.fieldnames or () for table in tables]
    found = [sum(key in own for key in _USED) for own in names]
    best = found.index(max(found))
    gone = [key for key in _USED if key not in names[best]]
    if gone:
        raise ValueError(f"the line of names has no column {{gone[0]!r}}")
    return tables[best]


def _cell(key, value):
    if value is None or value in _GAPS:
        return None
    if key not in _NUMBERS:
        return value
    if not value.strip() or not value.strip("?*.-"):
        return None
    if value.lower() in ("true", "false"):
        return float(value.lower() == "true")
    try:
        return float(value.replace("_", "?"))  # Python reads 1_0 as 10
    except ValueError:
        raise ValueError(f"{{value!r}} in column {{key!r}} is no number") from None


if __name__ == "__main__":
    main()
'''
# What pandas, and so the command line, takes for a missing value.
GAPS = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)


def to_python(model: Any, name: str = "predict") -> str:
    """Return a Python module with the functions ``predict(row)`` and ``predict_scores(row)``.

    And ``predict_proba(row)``, if the loss is one of the library's own. The module needs Python
    and nothing else. Run as a program it labels the rows of a CSV file; what cannot be read is one
    sentence, and the exit code 2.

    Parameters
    ----------
    model : Ensemble or fitted classifier
        What to export.
    name : str
        Of the function that returns the label; the others are called after it.

    Examples
    --------
    >>> from totalqboost import Ensemble, Stump, export
    >>> model = Ensemble((Stump(0, 40.0),), (0.7,), 0.1, ("no", "yes"), ("age",))
    >>> module = {}
    >>> exec(export.to_python(model), module)
    >>> module["predict"]({"age": 52}), module["predict"]([None])
    ('yes', 'no')
    """
    ensemble = exportable(model)
    check_identifier(name, reserved=INSIDE)
    if name.startswith("_"):
        raise ValueError(f"name must not begin with _, which the module does itself, got {name!r}")
    check_names(ensemble, "to_python")
    many = ensemble.is_multiclass
    head = HEAD.format(
        features=ensemble.feature_names,
        classes=ensemble.classes,
        name=name,
        winner=MANY if many else TWO,
        what="a score for each of CLASSES; the highest wins"
        if many
        else "the score: > 0 is the second of CLASSES",
    )
    parts = ["".join(f"# {line}".rstrip() + "\n" for line in summary(ensemble)), head]
    parts.append("".join(f"    {line}\n" for line in _scores(ensemble)))
    link = LINKS.get(ensemble.loss)
    if link is not None and many == (ensemble.loss == "multinomial"):
        parts.append(PROBABILITIES.format(name=name) + link)
        parts.append(SIGMOID if "_sigmoid" in link else "")
    used = (f"{j}: row[{ensemble.features[j].name!r}]" for j in ensemble.used_features)
    parts.append(READ.format(places=f"{{{', '.join(used)}}}"))
    if any(ensemble.features[j].categories is not None for j in ensemble.used_features):
        parts.append(CATEGORY)
    looked_at = [ensemble.features[j] for j in ensemble.used_features]
    parts.append(
        MAIN.format(
            name=name,
            used=tuple(feature.name for feature in looked_at),
            numbers=tuple(f.name for f in looked_at if f.categories is None),
            gaps=GAPS,
        )
    )
    return "".join(parts)


def _scores(ensemble: Ensemble) -> Iterator[str]:
    """Yield the lines of the function that returns scores."""
    yield "row = _values(row)"
    for j in ensemble.used_features:
        labels = ensemble.features[j].categories
        if labels is None:
            yield f"x{j} = _number(row[{j}])"
        else:
            yield f"x{j} = _category(row[{j}], {_set(labels)})"
    total, scale = scaled_sum(ensemble)
    if ensemble.is_multiclass:
        yield f"f = {list(total.intercept)!r}"
        for term in total.terms:
            yield from _added(ensemble, term)
        yield "return f" if scale == 1.0 else f"return [{scale!r} * score for score in f]"
        return
    yield f"f = {total.intercept[0]!r}"
    for term in total.terms:
        value, condition = term.values[0], _condition(ensemble, term.condition)
        yield f"f += {value!r} if {condition} else {-value!r}"
    yield "return f" if scale == 1.0 else f"return {scale!r} * f"


def _added(ensemble: Ensemble, term: Term) -> Iterator[str]:
    yield f"h = 1.0 if {_condition(ensemble, term.condition)} else -1.0"
    for k, value in enumerate(term.values):
        if value:
            yield f"f[{k}] += {value!r} * h"


def _condition(ensemble: Ensemble, condition: Any) -> str:
    """Return an expression that is true where the condition answers +1."""
    x = f"x{condition.features[0]}"
    match condition:
        case Stump(threshold=t, missing_above=above):
            text = f"not {x} <= {t!r}" if above else f"{x} > {t!r}"  # false where x is NaN
        case Missing():
            text = f"{x} != {x}"
        case CategorySet(feature=j, codes=codes):
            labels = ensemble.features[j].categories or ()
            text = f"{x} in {_set([labels[code] for code in codes])}"
        case Both(first=first, second=second):
            text = f"({_condition(ensemble, first)}) and ({_condition(ensemble, second)})"
    return text if condition.polarity > 0 else f"not ({text})"


def _set(labels: Any) -> str:
    return f"{{{', '.join(map(repr, labels))}}}" if labels else "()"
