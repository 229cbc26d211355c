"""Examples: the one place where tables, labels and weights of the user are checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_array, check_X_y, column_or_1d, validate_data

from totalqboost.ensemble import distinct_names
from totalqboost.learners import Feature
from totalqboost.master import normalised
from totalqboost.parameters import check_number

__all__ = [
    "Examples",
    "check_examples",
    "check_features",
    "check_prediction_rows",
    "check_validation",
]

FLOATS = [np.float64, np.float32]
MAX_COUNT = 2**31  # a weight that is larger counts nothing


@dataclass(frozen=True, eq=False)
class Examples:
    """Rows to learn from or to measure errors on, checked.

    Attributes
    ----------
    X : array of shape (n_rows, n_features)
        Finite numbers in double or single precision.
    y : array of int8, shape (n_rows,)
        Labels as signs: +1 stands for ``classes[1]``.
    weight : array of shape (n_rows,)
        Sample weights, all positive; they sum to one.
    classes : array of shape (2,)
        The labels, sorted.
    features : tuple of Feature
        Name and kind of each column.
    n_effective : float
        The number of equal rows that tell as much; prices that have names depend on it.
    rows : array of int
        Their numbers in the table of the user, where rows of weight zero may stand between.
    table_signs : array of int8
        The labels of all rows of that table, as signs.
    is_named : bool
        Can columns be found by name: did a data frame give them distinct strings?
    """

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    classes: np.ndarray
    features: tuple[Feature, ...]
    n_effective: float
    rows: np.ndarray
    table_signs: np.ndarray
    is_named: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """One per feature: those of the columns of a data frame, else x0, x1, ..."""
        return tuple(feature.name for feature in self.features)

    def __len__(self) -> int:
        return len(self.y)

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
    estimator: BaseEstimator | None = None,
) -> Examples:
    """Return training examples; rows of weight zero are left out.

    Parameters
    ----------
    X : array-like or data frame of shape (n_rows, n_features)
        Numbers without NaN or infinity.
    y : array-like of shape (n_rows,)
        Two classes; labels of any type that scikit-learn accepts for classes.
    sample_weight : array-like of shape (n_rows,), optional
        Finite and >= 0. Whole numbers count repeated rows; of others only the proportions
        matter.
    class_weight : dict or "balanced", optional
        Factors of the weights by class, as in scikit-learn.
    estimator : BaseEstimator, optional
        Gets the attributes n_features_in_ and feature_names_in_.
    """
    names, is_named = _column_names(X), bool(distinct_names(X))
    X = _without_repeated_names(X)
    if estimator is None:
        X, y = check_X_y(X, y, dtype=FLOATS, ensure_min_samples=2)
    else:
        X, y = validate_data(estimator, X, y, dtype=FLOATS, ensure_min_samples=2)
    classes, signs = _signs(y)
    table_signs = signs
    weight = normalised(sample_weight, len(signs))
    factors = _class_factors(class_weight, y, classes, weight)
    n_effective = _effective_rows(sample_weight, weight, factors)
    weight = normalised(weight * factors, len(signs))
    used = weight > 0
    if not used.all():
        X, signs, weight = X[used], signs[used], weight[used]
    if len(np.unique(signs)) < 2:
        raise ValueError(
            "y must have two classes among the rows of positive sample_weight, got "
            f"{len(np.unique(signs))} class"
        )
    names = names or tuple(f"x{j}" for j in range(X.shape[1]))
    features = tuple(Feature(name) for name in names)
    rows = np.flatnonzero(used)
    return Examples(X, signs, weight, classes, features, n_effective, rows, table_signs, is_named)


def check_prediction_rows(X: Any, estimator: BaseEstimator) -> np.ndarray:
    """Return rows for a fitted estimator; scikit-learn wants its names in the same order."""
    return validate_data(estimator, _without_repeated_names(X), reset=False, dtype=FLOATS)


def check_features(X: Any, examples: Examples, name: str = "X") -> np.ndarray:
    """Return a further table as an array with the columns of the training examples.

    Columns are found by name if both are data frames with distinct strings for names, else by
    position.
    """
    if examples.is_named and (names := distinct_names(X)):
        missing = [column for column in examples.names if column not in names]
        if missing:
            raise ValueError(
                f"{name} must have the columns of the training data, missing {missing}"
            )
        X = X[list(examples.names)]
    X = check_array(_without_repeated_names(X), dtype=FLOATS, input_name=name)
    if X.shape[1] != len(examples.names):
        raise ValueError(
            f"{name} must have {len(examples.names)} columns like the training data, "
            f"got {X.shape[1]}"
        )
    return X


def check_validation(
    X: Any, y: Any, examples: Examples, X_name: str = "X_valid", y_name: str = "y_valid"
) -> Examples:
    """Return further rows, with labels, of the same features and classes as the examples."""
    X = check_features(X, examples, X_name)
    y = column_or_1d(y, warn=True)
    if len(y) != len(X):
        raise ValueError(f"{y_name} must have one label per row ({len(X)}), got {len(y)}")
    if not np.isin(y, examples.classes).all():
        raise ValueError(f"{y_name} must hold labels of y, {examples.classes.tolist()}")
    signs = np.where(y == examples.classes[1], np.int8(1), np.int8(-1))
    weight = normalised(None, len(y))
    return Examples(
        X,
        signs,
        weight,
        examples.classes,
        examples.features,
        len(y),
        np.arange(len(y)),
        signs,
        examples.is_named,
    )


def _signs(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the two classes and the labels as -1 and +1."""
    check_classification_targets(y)
    classes = np.unique(y)
    if len(classes) > 2:
        raise ValueError(
            "Only binary classification is supported. The type of the target is "
            f"{type_of_target(y, input_name='y')}, with {len(classes)} classes: "
            f"{classes[:5].tolist()}"
        )
    if len(classes) < 2:
        raise ValueError(
            "y must have two classes, got one class only: "
            f"{classes.tolist()[0]!r}. Classifier can't train when only one class is present."
        )
    return classes, np.where(y == classes[1], np.int8(1), np.int8(-1))


def _class_factors(
    class_weight: Any, y: np.ndarray, classes: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Return what the weight of each row is multiplied by; "balanced" makes classes equal."""
    if class_weight is None:
        return np.ones(len(y))
    is_second = y == classes[1]
    if isinstance(class_weight, str) and class_weight == "balanced":
        second = weight[is_second].sum()
        if not 0 < second < weight.sum():
            return np.ones(len(y))  # one class only, which is complained about later
        return 0.5 / np.where(is_second, second, weight.sum() - second)
    if not isinstance(class_weight, dict):
        raise ValueError(f"class_weight must be 'balanced', a dict or None, got {class_weight!r}")
    unknown = [label for label in class_weight if label not in classes.tolist()]
    if unknown:
        raise ValueError(f"class_weight must name labels of y, {classes.tolist()}, got {unknown}")
    for value in class_weight.values():
        if not check_number("class_weight", value) > 0:
            raise ValueError(f"class_weight must have weights > 0, got {value!r}")
    of_class = [float(class_weight.get(label, 1.0)) for label in classes.tolist()]
    return np.where(is_second, of_class[1], of_class[0])


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


def _column_names(X: Any) -> tuple[str, ...]:
    return tuple(str(name) for name in getattr(X, "columns", []))


def _without_repeated_names(X: Any) -> Any:
    """Return a data frame with repeated names, which scikit-learn refuses, as an array."""
    names = _column_names(X)
    return X if len(set(names)) == len(names) else np.asarray(X)
