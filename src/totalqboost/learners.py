"""Weak classifiers: functions of one example with values in {-1, +1}.

They look at a table of floats. A numeric feature holds numbers, NaN where one is missing; a
categorical one holds codes of its categories, of which a missing value may be one, and -1 for a
category that training has not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

__all__ = [
    "Both",
    "CategorySet",
    "Constant",
    "Feature",
    "Fitted",
    "Learner",
    "Missing",
    "Stump",
    "Votes",
]


MOST_LABELS = 8  # of categories in a printed condition


def label_text(label: Any) -> str:
    """Return the label of a category as text, in quotes where it could be misread."""
    if label is None:
        return "missing"
    is_unclear = isinstance(label, str) and (label in ("", "missing") or label != label.strip())
    return repr(label) if is_unclear else str(label)


@dataclass(frozen=True)
class Feature:
    """A column of the table: its name, and what learners have to know of it.

    Attributes
    ----------
    name : str
        As in the data frame, else x0, x1, ...
    categories : tuple, optional
        The labels of a categorical feature in the order of their codes; None among them is a
        missing value.
    has_missing : bool
        Whether values were missing in training.
    monotone : int
        1 if scores may only rise with the feature, -1 if they may only fall, else 0.
    """

    name: str
    categories: tuple[Any, ...] | None = None
    has_missing: bool = False
    monotone: int = 0

    def shown(self, value: float) -> str:
        """Return a value of the table as people know it.

        Examples
        --------
        >>> from totalqboost.learners import Feature
        >>> Feature("age").shown(52.0)
        '52'
        >>> Feature("city", ("Bern", "Basel", None)).shown(1.0)
        'Basel'
        """
        if self.categories is None:
            return "missing" if value != value else f"{value:.6g}"
        if not 0 <= value < len(self.categories):
            return "not seen in training"
        return label_text(self.categories[int(value)])


class Learner(Protocol):
    """A weak classifier h; hashable, so that a set of them is a blacklist.

    Examples
    --------
    >>> import numpy as np
    >>> from totalqboost.learners import Stump
    >>> Stump(0, 1.5).predict(np.array([[1.0], [2.0]])).tolist()
    [-1, 1]
    """

    @property
    def features(self) -> tuple[int, ...]:
        """The features it looks at."""

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return h(x) in {-1, +1} as int8, one value per row of X."""

    def describe(self, features: Sequence[Feature]) -> tuple[str, str]:
        """Return (what is looked at, when the answer is +1) for a printed table."""

    @property
    def is_positive(self) -> bool:
        """Which of h and -h it is, where both are in a dictionary."""

    def __hash__(self) -> int: ...


def _signs(is_positive: np.ndarray, polarity: int) -> np.ndarray:
    return np.where(is_positive, np.int8(polarity), np.int8(-polarity))


@dataclass(frozen=True)
class Stump:
    """h(x) = polarity if x[feature] > threshold, else -polarity.

    A missing value counts as above the threshold if ``missing_above``, else as below.

    Parameters
    ----------
    feature : int
        Number of the column.
    threshold : float
        The condition is that the value is above it.
    polarity : int
        +1 or -1, the answer if the condition holds.
    missing_above : bool
        Whether a missing value counts as above.
    """

    feature: int
    threshold: float
    polarity: int = 1
    missing_above: bool = field(default=False, repr=False)

    @property
    def features(self) -> tuple[int, ...]:
        return (self.feature,)

    def predict(self, X: np.ndarray) -> np.ndarray:
        x = X[:, self.feature]
        # An array, not a scalar, which NumPy 1 would round to single precision with X.
        above = x > np.array([self.threshold], dtype=np.float64)
        if self.missing_above:
            above |= np.isnan(x)
        return _signs(above, self.polarity)

    def describe(self, features: Sequence[Feature]) -> tuple[str, str]:
        sign = ">" if self.polarity > 0 else "<="
        own = features[self.feature]
        is_told = own.has_missing and self.missing_above == (self.polarity > 0)
        return own.name, f"{sign} {self.threshold:.6g}{' or missing' if is_told else ''}"

    @property
    def is_positive(self) -> bool:
        return self.polarity > 0

    def negated(self) -> Stump:
        """Return -h."""
        return replace(self, polarity=-self.polarity)


@dataclass(frozen=True)
class Missing:
    """h(x) = polarity if x[feature] is missing, else -polarity.

    Parameters
    ----------
    feature : int
        Number of the column.
    polarity : int
        +1 or -1, the answer if the value is missing.
    """

    feature: int
    polarity: int = 1

    @property
    def features(self) -> tuple[int, ...]:
        return (self.feature,)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return _signs(np.isnan(X[:, self.feature]), self.polarity)

    def describe(self, features: Sequence[Feature]) -> tuple[str, str]:
        return features[self.feature].name, "missing" if self.polarity > 0 else "not missing"

    @property
    def is_positive(self) -> bool:
        return self.polarity > 0

    def negated(self) -> Missing:
        """Return -h."""
        return replace(self, polarity=-self.polarity)


@dataclass(frozen=True)
class CategorySet:
    """h(x) = polarity if the category of x[feature] is one of the codes, else -polarity.

    Codes ascend. A category that training has not seen is none of them.

    Parameters
    ----------
    feature : int
        Number of the column.
    codes : tuple of int
        Places in the list of its categories, ascending.
    polarity : int
        +1 or -1, the answer for one of them.
    """

    feature: int
    codes: tuple[int, ...]
    polarity: int = 1

    @property
    def features(self) -> tuple[int, ...]:
        return (self.feature,)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return _signs(np.isin(X[:, self.feature], self.codes), self.polarity)

    def describe(self, features: Sequence[Feature]) -> tuple[str, str]:
        own = features[self.feature]
        known = own.categories or ()
        labels = [known[code] if code < len(known) else code for code in self.codes]
        shown = [label_text(label) for label in labels]
        if len(shown) > MOST_LABELS:
            shown = [*shown[: MOST_LABELS - 1], f"... {len(shown) - MOST_LABELS + 1} more"]
        names = ", ".join(shown)
        if len(labels) == 1:
            return own.name, f"{'is' if self.polarity > 0 else 'is not'} {names}"
        return own.name, f"{'in' if self.polarity > 0 else 'not in'} {{{names}}}"

    @property
    def is_positive(self) -> bool:
        return self.polarity > 0

    def negated(self) -> CategorySet:
        """Return -h."""
        return replace(self, polarity=-self.polarity)


@dataclass(frozen=True)
class Both:
    """h(x) = polarity if both conditions answer +1, else -polarity.

    Conditions are stumps, sets of categories or missing values. :meth:`of` puts them in order,
    so that equal conjunctions are equal.

    Parameters
    ----------
    first, second : Stump, CategorySet or Missing
        The conditions.
    polarity : int
        +1 or -1, the answer if both hold.

    Examples
    --------
    >>> from totalqboost.learners import Both, Feature, Stump
    >>> Both.of(Stump(1, 2.0, -1), Stump(0, 40.0)).describe([Feature("age"), Feature("dose")])
    ('age, dose', 'age > 40 and dose <= 2')
    """

    first: Any
    second: Any
    polarity: int = 1

    @classmethod
    def of(cls, one: Learner, other: Learner, polarity: int = 1) -> Both:
        """Return the conjunction of two conditions, given in any order."""
        if one.features == other.features:
            is_ordered = repr(one) <= repr(other)
        else:
            is_ordered = one.features < other.features
        return cls(one, other, polarity) if is_ordered else cls(other, one, polarity)

    @property
    def parts(self) -> tuple[Any, ...]:
        """The conditions; one if they are the same."""
        return (self.first,) if self.first == self.second else (self.first, self.second)

    @property
    def features(self) -> tuple[int, ...]:
        return tuple(sorted({*self.first.features, *self.second.features}))

    def predict(self, X: np.ndarray) -> np.ndarray:
        holds = (self.first.predict(X) > 0) & (self.second.predict(X) > 0)
        return _signs(holds, self.polarity)

    def describe(self, features: Sequence[Feature]) -> tuple[str, str]:
        names, conditions = zip(*(h.describe(features) for h in self.parts), strict=True)
        told = " and ".join(map(" ".join, zip(names, conditions, strict=True)))
        own = ", ".join(dict.fromkeys(names))
        return own, told if self.polarity > 0 else f"not ({told})"

    @property
    def is_positive(self) -> bool:
        return self.polarity > 0

    def negated(self) -> Both:
        """Return -h."""
        return replace(self, polarity=-self.polarity)


@dataclass(frozen=True)
class Constant:
    """h(x) = polarity, whatever x: a stump whose threshold lies outside the data.

    Parameters
    ----------
    polarity : int
        +1 or -1, the answer.
    """

    polarity: int = 1

    @property
    def features(self) -> tuple[int, ...]:
        return ()

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.full(len(X), self.polarity, dtype=np.int8)

    def describe(self, features: Sequence[Feature]) -> tuple[str, str]:
        return "(constant)", "always" if self.polarity > 0 else "never"

    @property
    def is_positive(self) -> bool:
        return self.polarity > 0

    def negated(self) -> Constant:
        """Return -h."""
        return Constant(-self.polarity)


@dataclass(frozen=True)
class Votes:
    """A weak classifier shared between classes: for class l it answers h(x) votes[l].

    Only searches know it; the answer for all classes of a row is a row of K signs.

    Parameters
    ----------
    learner : Learner
        The weak classifier h.
    votes : tuple of int
        +1 or -1 for each class.

    Examples
    --------
    >>> import numpy as np
    >>> from totalqboost.learners import Stump, Votes
    >>> Votes(Stump(0, 1.5), (1, -1, -1)).predict(np.array([[2.0], [1.0]])).tolist()
    [[1, -1, -1], [-1, 1, 1]]
    """

    learner: Any
    votes: tuple[int, ...]

    @property
    def features(self) -> tuple[int, ...]:
        own: tuple[int, ...] = self.learner.features
        return own

    def predict(self, X: np.ndarray) -> np.ndarray:
        signs: np.ndarray = self.learner.predict(X)
        return np.outer(signs, np.array(self.votes, dtype=np.int8))

    def describe(self, features: Sequence[Feature]) -> tuple[str, str]:
        name, condition = self.learner.describe(features)
        return name, condition

    @property
    def is_positive(self) -> bool:
        return self.votes[0] > 0

    def negated(self) -> Votes:
        """Return -h."""
        return replace(self, votes=tuple(-vote for vote in self.votes))


@dataclass(frozen=True)
class Fitted:
    """A fitted binary classifier used as a weak classifier; ``positive`` is its +1 label.

    Parameters
    ----------
    index : int
        Its place in a list; learners of equal classifiers differ by it.
    classifier : object
        With ``predict`` for two labels.
    positive : label
        The label that is +1.
    """

    index: int
    classifier: Any = field(compare=False)
    positive: Any = field(compare=False, default=1)

    @property
    def features(self) -> tuple[int, ...]:
        return ()

    def predict(self, X: np.ndarray) -> np.ndarray:
        answer = np.asarray(self.classifier.predict(X)) == self.positive
        return np.where(answer, np.int8(1), np.int8(-1))

    def describe(self, features: Sequence[Feature]) -> tuple[str, str]:
        return f"classifier {self.index}", type(self.classifier).__name__

    @property
    def is_positive(self) -> bool:
        return True
