"""An ensemble as one SQL expression."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from totalqboost.ensemble import Ensemble
from totalqboost.export.model import check_names, exportable, scaled_sum, summary
from totalqboost.learners import Both, CategorySet, Missing, Stump

__all__ = ["to_sql"]

DIALECTS = ("ansi", "sqlite", "duckdb")
OUTPUTS = ("label", "score", "probability")
MOST_TERMS = 900  # SQLite takes expressions of depth 1000
EXACT = 2**53  # below it floats tell integers apart
CHUNK = 50  # bits: a power of two that every parser reads exactly
# Of the score f of the second class; exp may overflow to infinity, and 1 / infinity is 0.
LINKS = {
    "logistic": "1.0e0 / (1.0e0 + EXP(-{f}))",
    "exponential": "1.0e0 / (1.0e0 + EXP(-2.0e0 * {f}))",
    "squared": "CASE WHEN {f} <= -1 THEN 0.0e0 WHEN {f} >= 1 THEN 1.0e0 "
    "ELSE (1.0e0 + {f}) / 2.0e0 END",
    "smoothed_hinge": "CASE WHEN {f} <= -1 THEN 0.0e0 WHEN {f} >= 1 THEN 1.0e0 "
    "WHEN {f} < 0 THEN (1.0e0 + {f}) / (2.0e0 + {f}) ELSE 1.0e0 / (2.0e0 - {f}) END",
}


def to_sql(
    model: Any,
    output: str = "label",
    *,
    of: Any = None,
    table: str | None = None,
    dialect: str = "ansi",
) -> str:
    """Return an SQL expression of the columns of a table: a label, a score or a probability.

    NULL is a missing value, and so is NaN where the database has it. A category that training has
    not seen is none of the known ones. Columns are found by name.

    Parameters
    ----------
    model : Ensemble or fitted classifier
        What to export.
    output : {"label", "score", "probability"}
        What the expression is; the last calls the function EXP.
    of : label, optional
        The class of the score or of the probability. By default the second of two; of more
        classes one must be named.
    table : str, optional
        Return a query that adds the expression to the columns of this table.
    dialect : {"ansi", "sqlite", "duckdb"}
        Who reads it. DuckDB has NaN; SQLite takes ``"name"`` for text if there is no such column,
        so that names are quoted in another way there.

    Examples
    --------
    >>> from totalqboost import Ensemble, Stump, export
    >>> model = Ensemble((Stump(0, 40.0),), (0.75,), 0.25, ("no", "yes"), ("age",), "logistic")
    >>> print(export.to_sql(model))
    CASE WHEN (0.25e0
     + CASE WHEN CAST("age" AS DOUBLE PRECISION) > 40 THEN 0.75 ELSE -0.75 END) > 0
     THEN 'yes' ELSE 'no' END
    """
    ensemble = exportable(model)
    if dialect not in DIALECTS:
        raise ValueError(f"dialect must be one of {', '.join(DIALECTS)}, got {dialect!r}")
    if output not in OUTPUTS:
        raise ValueError(f"output must be one of {', '.join(OUTPUTS)}, got {output!r}")
    check_names(ensemble, "to_sql")
    if dialect == "sqlite" and ensemble.n_learners > MOST_TERMS:
        raise ValueError(
            f"SQLite takes at most {MOST_TERMS} weak classifiers in an expression, got "
            f"{ensemble.n_learners}"
        )
    writer = Writer(ensemble, dialect)
    text = writer.label() if output == "label" else writer.number(output, _class(ensemble, of))
    if table is None:
        return text
    lines = "".join(f"-- {line}".rstrip() + "\n" for line in summary(ensemble))
    return f"{lines}SELECT *, {text} AS {writer.quoted(output)}\nFROM {writer.quoted(table)};\n"


def _class(ensemble: Ensemble, of: Any) -> int:
    if of is None and not ensemble.is_multiclass:
        return 1
    if of not in ensemble.classes:
        raise ValueError(f"of must be one of the classes {ensemble.classes}, got {of!r}")
    return ensemble.classes.index(of)


@dataclass(frozen=True)
class Writer:
    """Writes the expressions of one ensemble in one dialect."""

    ensemble: Ensemble
    dialect: str

    # -- answers -----------------------------------------------------------------------

    def label(self) -> str:
        """Return the expression of the label."""
        labels = self._labels(self.ensemble.classes, "classes")
        if not self.ensemble.is_multiclass:
            return f"CASE WHEN {self.total(0)} > 0\n THEN {labels[1]} ELSE {labels[0]} END"
        scores = self._score_names()
        cases = [
            f"WHEN {' AND '.join(f'{own} >= {other}' for other in scores[k + 1 :])} THEN {label}"
            for k, (own, label) in enumerate(zip(scores[:-1], labels[:-1], strict=True))
        ]  # the first of the highest: earlier ones are lower already
        return self._of_scores(f"CASE {' '.join(cases)} ELSE {labels[-1]} END")

    def number(self, output: str, k: int) -> str:
        """Return the expression of the score or the probability of class k."""
        if self.ensemble.is_multiclass:
            return self.score(k) if output == "score" else self._softmax(k)
        if output == "score":
            return self.score(0) if k else f"(-{self.score(0)})"
        link = LINKS.get(self.ensemble.loss)
        if link is None:
            raise self._no_probabilities(list(LINKS))
        f = self._score_names()[0]
        probability = link.replace("{f}", f)
        return self._of_scores(probability if k else f"1.0e0 - ({probability})")

    def _softmax(self, k: int) -> str:
        if self.ensemble.loss != "multinomial":
            raise self._no_probabilities(["multinomial"])
        scores = self._score_names()
        return self._of_scores(
            f"1.0e0 / ({' + '.join(f'EXP({score} - {scores[k]})' for score in scores)})"
        )

    def _no_probabilities(self, known: list[str]) -> ValueError:
        return ValueError(
            f"output='probability' needs a model whose loss is one of {', '.join(known)}, got "
            f"{self.ensemble.loss!r}"
        )

    def score(self, k: int) -> str:
        """Return score k."""
        scale = scaled_sum(self.ensemble)[1]
        return self.total(k) if scale == 1.0 else f"({self._number(scale)} * {self.total(k)})"

    def total(self, k: int) -> str:
        """Return the sum of score k, in parentheses, in the order of the library."""
        own = scaled_sum(self.ensemble)[0]
        lines = [_double(own.intercept[k])]
        for term in own.terms:
            value = term.values[k]
            if value:
                yes, no = self._number(value), self._number(-value)
                lines.append(f"CASE WHEN {self._holds(term.condition)} THEN {yes} ELSE {no} END")
        return "(" + "\n + ".join(lines) + ")"

    def _score_names(self) -> list[str]:
        """Return names for the scores in a subquery; no column of the table has them."""
        taken = {name.lower() for name in self.ensemble.feature_names}
        stem = "score"
        while any(name.startswith(stem) for name in taken):
            stem += "_"
        return [f"{stem}{k}" for k in range(len(scaled_sum(self.ensemble)[0].intercept))]

    def _of_scores(self, expression: str) -> str:
        """Return an expression of scores that are written once, in a subquery of one row."""
        names = self._score_names()
        scores = ",\n".join(f"{self.score(k)} AS {name}" for k, name in enumerate(names))
        return f"(SELECT {expression} FROM (SELECT\n{scores}) AS totalqboost)"

    # -- conditions --------------------------------------------------------------------

    def _holds(self, condition: Any) -> str:
        """Return a condition that is true where the learner answers +1, else false or NULL."""
        match condition:
            case Both(first=first, second=second):
                return f"({self._holds(first)}) AND ({self._holds(second)})"
            case Stump(feature=j, threshold=t, missing_above=above):
                x, is_up = self._column(j), condition.polarity > 0
                text = f"{x} {'>' if is_up else '<='} {self._number(t)}"
                return f"{text} OR {x} IS NULL" if above == is_up else text
            case Missing(feature=j):
                return f"{self._column(j)} IS {'' if condition.polarity > 0 else 'NOT '}NULL"
            case CategorySet(feature=j, codes=codes):
                return self._is_in(j, codes, condition.polarity > 0)
        raise AssertionError(condition)

    def _is_in(self, j: int, codes: Sequence[int], is_inside: bool) -> str:
        known = self.ensemble.features[j].categories or ()
        labels = [known[code] for code in codes]
        texts = self._labels([label for label in labels if label is not None], "categories")
        x, has_gap = self._column(j), None in labels
        word = "" if is_inside else "NOT "
        if not texts:
            return f"{x} IS {word}NULL" if has_gap else f"1 = {int(not is_inside)}"
        text = f"{x} {word}IN ({', '.join(texts)})"
        return f"{text} OR {x} IS NULL" if has_gap == is_inside else text

    # -- words -------------------------------------------------------------------------

    def _column(self, j: int) -> str:
        feature = self.ensemble.features[j]
        name = self.quoted(feature.name)
        known = [label for label in feature.categories or () if label is not None]
        if known and isinstance(known[0], str):
            return f"CAST({name} AS VARCHAR)"
        number = f"CAST({name} AS DOUBLE PRECISION)"
        if self.dialect == "duckdb":  # NaN = NaN there, and it is above all numbers
            return f"NULLIF({number}, CAST('NaN' AS DOUBLE PRECISION))"
        return number

    def _labels(self, labels: Sequence[Any], argument: str) -> list[str]:
        n_texts = sum(isinstance(label, str) for label in labels)
        if 0 < n_texts < len(labels):
            raise ValueError(
                f"{argument} must be all text or all numbers in SQL, got {list(labels)}"
            )
        if n_texts:
            return [_text(label) for label in labels]
        is_flag = argument == "classes" and all(isinstance(label, bool) for label in labels)
        if is_flag:
            return [str(label).upper() for label in labels]
        large = [label for label in labels if abs(label) > EXACT]
        if large:
            raise ValueError(f"{argument} must be below 2**53 in SQL, got {large[0]}")
        return [self._number(label) for label in labels]

    def _number(self, x: float) -> str:
        return _dyadic(x) if self.dialect == "sqlite" and not _is_easy(x) else _decimal(x)

    def quoted(self, name: str) -> str:
        """Return a name that is never taken for anything else."""
        if not isinstance(name, str) or not name or "\0" in name:
            raise ValueError(f"names in SQL must be text that is not empty, got {name!r}")
        mark = "`" if self.dialect == "sqlite" else '"'
        return f"{mark}{name.replace(mark, mark * 2)}{mark}"


def _text(label: str) -> str:
    if "\0" in label:
        raise ValueError(f"text in SQL must not contain the character 0, got {label!r}")
    return "'" + label.replace("'", "''") + "'"


def _decimal(x: float) -> str:
    """Return a number so close to x that a parser that rounds carelessly reads x.

    The shortest text that Python reads as x may lie almost half way to the next number; SQLite
    takes some of them for that.
    """
    if x == int(x) and abs(x) <= EXACT:
        return str(int(x))
    short = repr(float(x))
    is_exact = Decimal(short) == Decimal(x) and "e" not in short and len(short) <= 16
    return short if is_exact else f"{x:.18e}"


def _double(x: float) -> str:
    """Return a number that is no integer and no decimal fraction, so that sums are floats."""
    short = _decimal(x)
    return short if "e" in short else f"{float(x)!r}e0"


def _is_easy(x: float) -> bool:
    return x == 0 or 1e-20 < abs(x) < 1e20


def _dyadic(x: float) -> str:
    """Return x as a product of integers and powers of two, for parsers that lose digits."""
    mantissa, exponent = math.frexp(x)
    mantissa, exponent = mantissa * EXACT, exponent - 53
    word, factors = ("*", exponent) if exponent > 0 else ("/", -exponent)
    powers = [CHUNK] * (factors // CHUNK) + ([factors % CHUNK] if factors % CHUNK else [])
    return "(" + f" {word} ".join([f"{mantissa:.1f}", *(f"{2**p}.0" for p in powers)]) + ")"
