"""Examples: the one place where tables, labels and weights of the user are checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_X_y, column_or_1d, validate_data

from totalqboost.ensemble import Ensemble
from totalqboost.learners import Feature
from totalqboost.master import normalised
from totalqboost.parameters import check_number
from totalqboost.tabular import (
    as_table,
    column_names,
    dense_column,
    distinct_names,
    encode,
    is_missing,
    read_table,
    seen_only,
    unmasked,
)

__all__ = [
    "Examples",
    "Labelled",
    "RemoteTable",
    "as_signs",
    "check_classes",
    "check_columns",
    "check_examples",
    "check_features",
    "check_labels",
    "check_prediction_rows",
    "check_validation",
    "check_weights",
    "missing_labels",
    "note_columns",
    "read_labels",
]

MAX_COUNT = 2**31  # a weight that is larger counts nothing
# X has been read before scikit-learn sees it; missing values are welcome, infinity is refused.
READ: dict[str, Any] = {
    "dtype": [np.float64, np.float32],
    "accept_sparse": "csc",
    "ensure_all_finite": False,
}


class RemoteTable(ABC):
    """A table whose rows are elsewhere; ``table[rows]`` are some of them."""

    shape: tuple[int, int]

    @abstractmethod
    def __getitem__(self, rows: np.ndarray) -> RemoteTable: ...

    @abstractmethod
    def scores(self, ensemble: Ensemble) -> np.ndarray:
        """Return the scores of an ensemble that was trained on these rows."""

    @abstractmethod
    def weight_above(self, feature: int, threshold: float, weight: np.ndarray) -> float:
        """Return the weight of the rows where a feature is above a threshold of the training."""


@dataclass(frozen=True, eq=False)
class Examples:
    """Rows to learn from or to measure errors on, checked.

    Attributes
    ----------
    X : array, sparse CSC matrix or RemoteTable of shape (n_rows, n_features)
        Double or single precision: numbers, NaN where one is missing, and codes of categories.
    y : array of shape (n_rows,)
        Two classes are signs (int8), +1 for ``classes[1]``; more are their numbers (int64).
    weight : array of shape (n_rows,)
        Sample weights, all positive; they sum to one.
    classes : array of shape (n_classes,)
        The labels, sorted.
    features : tuple of Feature
        Name and kind of each column.
    n_effective : float
        The number of equal rows that tell as much; prices that have names depend on it.
    rows : array of int
        Their numbers in the table of the user, where rows of weight zero may stand between.
    table_labels : array
        The labels of all rows of that table, as in y.
    is_named : bool
        Can columns be found by name: did a data frame give them distinct strings?
    """

    X: Any
    y: np.ndarray
    weight: np.ndarray
    classes: np.ndarray
    features: tuple[Feature, ...]
    n_effective: float
    rows: np.ndarray
    table_labels: np.ndarray
    is_named: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """One per feature: those of the columns of a data frame, else x0, x1, ..."""
        return tuple(feature.name for feature in self.features)

    @property
    def n_classes(self) -> int:
        """Number of different labels."""
        return len(self.classes)

    def __len__(self) -> int:
        return len(self.y)

    def scores(self, ensemble: Ensemble) -> np.ndarray:
        """Return the scores of an ensemble on all rows."""
        X = self.X
        return X.scores(ensemble) if isinstance(X, RemoteTable) else ensemble.scores(X)

    def weight_above(self, feature: int, threshold: float) -> float:
        """Return the weight of the rows where a feature is above a threshold; all have one."""
        X = self.X
        if isinstance(X, RemoteTable):
            return X.weight_above(feature, threshold, self.weight)
        return float(self.weight[dense_column(X, feature) > threshold].sum())

    def at(self, rows: np.ndarray) -> Examples:
        """Return some of the rows, their weights made to sum to one."""
        share = self.weight[rows].sum()
        return replace(
            self,
            X=self.X[rows],
            y=self.y[rows],
            weight=self.weight[rows] / share,
            n_effective=round(self.n_effective * share, 9),
            rows=self.rows[rows],
        )


def check_examples(
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    class_weight: Any = None,
    categorical_features: Any = "from_dtype",
    estimator: BaseEstimator | None = None,
    accept_sparse: bool = False,
    max_classes: int | None = None,
) -> Examples:
    """Return training examples; rows of weight zero are left out.

    Parameters
    ----------
    X : array-like or data frame of shape (n_rows, n_features)
        Numbers, text and categories; NaN, None and their like are missing values.
    y : array-like of shape (n_rows,)
        Two classes or more; labels of any type that scikit-learn accepts for classes.
    sample_weight : array-like of shape (n_rows,), optional
        Finite and >= 0. Whole numbers count repeated rows; of others only the proportions
        matter.
    class_weight : dict or "balanced", optional
        Factors of the weights by class, as in scikit-learn.
    categorical_features : "from_dtype", array-like or None, default="from_dtype"
        Which columns are categories: those of text and of a type that says so; or their
        positions, their names, or a mask; or none.
    estimator : BaseEstimator, optional
        Gets the attributes n_features_in_ and feature_names_in_.
    accept_sparse : bool, default=False
        Whether a sparse matrix is taken, as ``Examples.X`` in CSC form, or refused.
    max_classes : int, optional
        2 for callers that know no more.
    """
    table, features = read_table(X, categorical_features, accept_sparse=accept_sparse)
    if estimator is not None:
        own = _without_repeated_names(as_table(X, "X", accept_sparse))
        validate_data(estimator, own, y, skip_check_array=True)
    table, y = check_X_y(
        table, check_labels(y, "y"), ensure_min_samples=2, estimator=estimator, **READ
    )
    labelled = check_weights(*check_classes(y, max_classes), sample_weight, class_weight)
    if len(labelled.rows) < len(labelled.labels):
        table, features = seen_only(table[labelled.rows], features)
    return labelled.examples(table, features, bool(distinct_names(X)))


@dataclass(frozen=True, eq=False)
class Labelled:
    """Labels and weights of the rows of a table, checked.

    Attributes
    ----------
    labels, weight : arrays
        Of all rows; weights sum to one.
    classes : array
        The labels, sorted.
    n_effective : float
        See :class:`Examples`.
    rows : array of int
        Those of positive weight.
    """

    labels: np.ndarray
    weight: np.ndarray
    classes: np.ndarray
    n_effective: float
    rows: np.ndarray

    def examples(self, table: Any, features: tuple[Feature, ...], is_named: bool) -> Examples:
        """Return the rows of positive weight, which the table holds, as examples."""
        return Examples(
            table,
            self.labels[self.rows],
            self.weight[self.rows],
            self.classes,
            features,
            self.n_effective,
            self.rows,
            self.labels,
            is_named,
        )


def check_weights(
    classes: np.ndarray, codes: np.ndarray, sample_weight: Any, class_weight: Any
) -> Labelled:
    """Return labels with weights, given the number of the class of each row."""
    labels = as_signs(codes) if len(classes) == 2 else codes
    weight = normalised(sample_weight, len(codes))
    factors = _class_factors(class_weight, classes, codes, weight)
    n_effective = _effective_rows(sample_weight, weight, factors)
    weight = normalised(weight * factors, len(codes))
    rows = np.flatnonzero(weight > 0)
    _check_all_classes(classes, codes[rows])
    return Labelled(labels, weight, classes, n_effective, rows)


def note_columns(estimator: BaseEstimator, table: Any) -> None:
    """Let an estimator have the attributes n_features_in_ and feature_names_in_ of a table."""
    validate_data(estimator, _without_repeated_names(table), skip_check_array=True)


def check_columns(estimator: BaseEstimator, table: Any) -> None:
    """Complain about a table that has not the columns of a fitted estimator, in their order."""
    validate_data(estimator, _without_repeated_names(table), reset=False, skip_check_array=True)


def check_prediction_rows(
    X: Any, estimator: BaseEstimator, features: tuple[Feature, ...]
) -> np.ndarray:
    """Return rows for a fitted estimator; scikit-learn wants its names in the same order."""
    table = as_table(X, "X", accept_sparse=True)
    check_columns(estimator, table)
    table = encode(table, features, by_name=False)
    return check_array(table, estimator=estimator, input_name="X", **READ)


def check_features(X: Any, examples: Examples, name: str = "X") -> np.ndarray:
    """Return a further table as an array with the columns of the training examples.

    Columns are found by name if both are data frames with distinct strings for names, else by
    position.
    """
    table = encode(X, examples.features, name, by_name=examples.is_named)
    return check_array(table, input_name=name, **READ)


def check_validation(
    X: Any, y: Any, examples: Examples, X_name: str = "X_valid", y_name: str = "y_valid"
) -> Examples:
    """Return further rows, with labels, of the same features and classes as the examples."""
    X = check_features(X, examples, X_name)
    labels = check_labels(y, y_name).tolist()
    if len(labels) != X.shape[0]:
        raise ValueError(f"{y_name} must have one label per row ({X.shape[0]}), got {len(labels)}")
    index = {label: code for code, label in enumerate(examples.classes.tolist())}
    unknown = [label for label in labels if label not in index]
    if unknown:
        raise ValueError(
            f"{y_name} must hold labels of y, {examples.classes.tolist()}, got {unknown[0]!r}"
        )
    codes = np.array([index[label] for label in labels], dtype=np.int64)
    own = as_signs(codes) if examples.n_classes == 2 else codes
    return replace(
        examples,
        X=X,
        y=own,
        weight=normalised(None, len(own)),
        n_effective=len(own),
        rows=np.arange(len(own)),
        table_labels=own,
    )


# -- labels ----------------------------------------------------------------------------------


def as_signs(codes: np.ndarray) -> np.ndarray:
    """Return the numbers of two classes as -1 and +1."""
    return np.where(codes == 1, np.int8(1), np.int8(-1))


def check_labels(y: Any, name: str) -> np.ndarray:
    """Return labels as an array of one type; every row must have one."""
    labels, gaps = read_labels(y, name)
    if gaps.any():
        raise missing_labels(name, int(gaps.sum()), len(gaps), int(gaps.argmax()))
    return labels


def read_labels(y: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return labels as an array of one type, and which rows have none."""
    if y is None:
        raise ValueError(f"{name} must hold a label for each row, got None")
    labels = column_or_1d(unmasked(y) if np.ma.is_masked(y) else y, warn=True)
    gaps = is_missing(labels)
    if labels.dtype != object or gaps.any():
        return labels, gaps
    plain = np.array(labels.tolist())  # numbers and truth values that pandas has wrapped
    return plain if plain.ndim == 1 and plain.dtype.kind in "biu" else labels, gaps


def missing_labels(name: str, n_missing: int, n_rows: int, first: int) -> ValueError:
    """Return the complaint about rows without a label."""
    return ValueError(
        f"{name} must have a label in every row: Input {name} contains NaN or None, "
        f"{n_missing} of {n_rows}, the first in row {first}; remove these rows"
    )


def check_classes(y: np.ndarray, most: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes, sorted, and for each row the number of its class."""
    try:
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in y.tolist()})
        if len(kinds) == 1:
            raise
        raise TypeError(f"y must hold labels of one type, got {' and '.join(kinds)}") from error
    if len(classes) < 2:
        raise ValueError(
            "y must have at least two classes, got one class only: "
            f"{classes.tolist()[0]!r}. Classifier can't train when only one class is present."
        )
    if most is not None and len(classes) > most:
        raise ValueError(
            "Only binary classification is supported here, got y with "
            f"{len(classes)} classes: {classes[:5].tolist()}"
        )
    return classes, codes.astype(np.int64)


def _check_all_classes(classes: np.ndarray, codes: np.ndarray) -> None:
    """Complain about classes without a row of positive weight."""
    absent = np.setdiff1d(np.arange(len(classes)), codes)
    if len(absent):
        all_of_them = "two" if len(classes) == 2 else f"all {len(classes)}"
        raise ValueError(
            f"y must have {all_of_them} classes among the rows of positive sample_weight, "
            f"got no row of {classes[absent].tolist()}"
        )


def _class_factors(
    class_weight: Any, classes: np.ndarray, codes: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Return what the weight of each row is multiplied by; "balanced" makes classes equal."""
    if class_weight is None:
        return np.ones(len(codes))
    if isinstance(class_weight, str) and class_weight == "balanced":
        of_class = np.bincount(codes, weight, len(classes))
        if not np.all(of_class > 0):
            return np.ones(len(codes))  # an empty class, which is complained about later
        return np.asarray(1.0 / (len(classes) * of_class[codes]))
    if not isinstance(class_weight, dict):
        raise ValueError(f"class_weight must be 'balanced', a dict or None, got {class_weight!r}")
    unknown = [label for label in class_weight if label not in classes.tolist()]
    if unknown:
        raise ValueError(f"class_weight must name labels of y, {classes.tolist()}, got {unknown}")
    for value in class_weight.values():
        if not check_number("class_weight", value) > 0:
            raise ValueError(f"class_weight must have weights > 0, got {value!r}")
    factors = np.array([float(class_weight.get(label, 1.0)) for label in classes.tolist()])
    return factors[codes]


def _effective_rows(given: Any, weight: np.ndarray, factors: np.ndarray) -> float:
    """Return (sum c)^2 / sum c^2 over rows.

    Whole numbers are counts, as in scikit-learn: a row of weight 3 is three rows.
    """
    total = weight.sum()
    counts = None if given is None else np.asarray(given, dtype=float)
    if counts is not None and np.all((counts == np.floor(counts)) & (counts < MAX_COUNT)):
        of_one = total / counts.sum()  # weight of one of the equal rows
        return round(float((weight @ factors) ** 2 / (of_one * weight @ factors**2)), 9)
    own = weight * factors
    return round(float(own.sum() ** 2 / (own @ own)), 9)


# -- tables ----------------------------------------------------------------------------------


def _without_repeated_names(table: Any) -> Any:
    """Return what scikit-learn takes shape and names from: not a frame that repeats one."""
    names = column_names(table)
    return table if len(set(names)) == len(names) else np.broadcast_to(0.0, table.shape)
