"""Ensemble: the immutable result of boosting. It predicts, prints and serialises."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from totalqboost import losses
from totalqboost.explanation import Explanation
from totalqboost.files import write_text
from totalqboost.kernels.scoring import score_stumps
from totalqboost.learners import Constant, Feature, Learner, Stump
from totalqboost.tables import Table, counted

__all__ = ["Ensemble", "EnsembleFileError", "distinct_names"]

FORMAT = "totalqboost-ensemble"
SCHEMA_VERSION = 1
MAX = sys.float_info.max  # a JSON integer may be larger than any float


class EnsembleFileError(ValueError):
    """A file that is not a readable TotalQBoost ensemble; the message says why."""


def distinct_names(X: Any) -> list[str]:
    """Return the names by which the columns of X can be found.

    There are none unless X is a data frame whose columns have distinct strings for names.
    """
    names = list(getattr(X, "columns", []))
    is_named = len(set(names)) == len(names) and all(isinstance(name, str) for name in names)
    return names if is_named else []


@dataclass(frozen=True)
class Ensemble:
    """f(x) = intercept + sum_k weight_k h_k(x); class 1 where f(x) > 0.

    Attributes
    ----------
    learners : tuple of Learner
        The weak classifiers that were kept, heaviest first.
    weights : tuple of float
        Their weights, all positive.
    intercept : float
        Constant part that costs nothing (0 if the constant counts as a learner).
    classes : tuple
        The two labels; the second is +1.
    features : tuple of Feature
        The columns of X; names alone will do.
    loss : str
        Name of the loss it was trained with; it decides how scores become probabilities.

    Examples
    --------
    >>> from totalqboost import Ensemble, Stump
    >>> model = Ensemble((Stump(0, 1.5),), (0.7,), 0.1, ("no", "yes"), ("age", "height"))
    >>> print(model)
    1 weak classifier, intercept +0.1
      weight  feature  'yes' if
         0.7  age      > 1.5
    """

    learners: tuple[Learner, ...]
    weights: tuple[float, ...]
    intercept: float = 0.0
    classes: tuple[Any, Any] = (-1, 1)
    features: tuple[Feature, ...] = ()
    loss: str = "exponential"

    def __post_init__(self) -> None:
        if len(self.learners) != len(self.weights):
            raise ValueError(
                f"weights must have one value per learner ({len(self.learners)}), "
                f"got {len(self.weights)}"
            )
        if not all(math.isfinite(w) and w > 0 for w in self.weights):
            raise ValueError(f"weights must be finite and > 0, got {self.weights}")
        if not math.isfinite(self.intercept):
            raise ValueError(f"intercept must be finite, got {self.intercept!r}")
        for name in ("learners", "weights", "classes"):
            object.__setattr__(self, name, tuple(getattr(self, name)))  # lists would stay mutable
        features = tuple(Feature(f) if isinstance(f, str) else f for f in self.features)
        object.__setattr__(self, "features", features)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of X."""
        return tuple(feature.name for feature in self.features)

    @classmethod
    def from_columns(
        cls, learners: Sequence[Learner], w: np.ndarray, is_free: np.ndarray
    ) -> Ensemble:
        """Keep the columns of positive weight; free constants become the intercept."""
        intercept = 0.0
        kept: list[tuple[float, Learner]] = []
        for learner, weight, free in zip(learners, w, is_free, strict=True):
            if free and isinstance(learner, Constant):
                intercept += float(weight) * learner.polarity
            elif weight > 0:
                kept.append((float(weight), learner))
        kept.sort(key=lambda item: -item[0])
        return cls(tuple(h for _, h in kept), tuple(x for x, _ in kept), intercept)

    def with_names(
        self, classes: Iterable[Any], features: Sequence[Feature | str], loss: str
    ) -> Ensemble:
        """Return the same ensemble with labels, features and the name of its loss."""
        first, second = (c.item() if isinstance(c, np.generic) else c for c in classes)
        own: Any = tuple(features)  # names become features
        return replace(self, classes=(first, second), features=own, loss=loss)

    def scaled(self, factor: float) -> Ensemble:
        """Return the ensemble of scores times a factor: other probabilities, the same labels."""
        weights = tuple(factor * weight for weight in self.weights)
        return replace(self, weights=weights, intercept=factor * self.intercept)

    @property
    def n_learners(self) -> int:
        """Number of weak classifiers; the intercept is not one of them."""
        return len(self.learners)

    @cached_property
    def _arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """Stumps as arrays for the kernel; constants are added to the intercept."""
        stumps = [
            (h, w) for h, w in zip(self.learners, self.weights, strict=True) if isinstance(h, Stump)
        ]
        constant = self.intercept + sum(
            w * h.polarity
            for h, w in zip(self.learners, self.weights, strict=True)
            if isinstance(h, Constant)
        )
        return (
            np.array([h.feature for h, _ in stumps], dtype=np.int64),
            np.array([h.threshold for h, _ in stumps], dtype=float),
            np.array([h.polarity * w for h, w in stumps], dtype=float),
            float(constant),
        )

    def decision_function(self, X: Any) -> np.ndarray:
        """Return f(x) per row of X; columns of a data frame are found by name if they can be."""
        X = self.checked_rows(X)
        scores = np.empty(len(X))
        score_stumps(X, *self._arrays, scores)
        for learner, weight in zip(self.learners, self.weights, strict=True):
            if not isinstance(learner, Stump | Constant):
                scores += weight * learner.predict(X)
        return scores

    def checked_rows(self, X: Any, name: str = "X") -> np.ndarray:
        """Return X as an array with the columns that the stumps look for.

        Columns of a data frame are found by name if they can be; ``name`` is for errors.
        """
        X = self._in_order(X, name)
        if X.ndim != 2 or (self.feature_names and X.shape[1] != len(self.feature_names)):
            raise ValueError(
                f"{name} must have {len(self.feature_names)} columns {self.feature_names}, "
                f"got shape {X.shape}"
            )
        features = self._arrays[0]
        if X.shape[1] <= features.max(initial=-1):
            raise ValueError(
                f"{name} must have more than {features.max()} columns, got {X.shape[1]}"
            )
        if X.dtype not in (np.float64, np.float32):
            X = X.astype(float)
        for feature in np.unique(features):
            if not np.isfinite(X[:, feature]).all():
                raise ValueError(f"{name} must not contain NaN or infinity (column {feature})")
        return X

    def _in_order(self, X: Any, name: str) -> np.ndarray:
        """Return the columns of a data frame in the order of ``feature_names``."""
        if self.feature_names and distinct_names(X):
            missing = [column for column in self.feature_names if column not in X.columns]
            if missing:
                raise ValueError(
                    f"{name} must have the columns {self.feature_names}, missing {missing}"
                )
            X = X[list(self.feature_names)]
        return np.asarray(X)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the label of each row of X."""
        return np.asarray(self.classes)[(self.decision_function(X) > 0).astype(int)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the two classes, by the link of the loss.

        Only the name of the loss is kept, so that a loss of your own gives no probabilities here:
        apply its ``link`` to ``decision_function``, or ask the classifier.

        Examples
        --------
        >>> from totalqboost import Ensemble, Stump
        >>> model = Ensemble((Stump(0, 1.5),), (0.7,), 0.1, loss="logistic")
        >>> model.predict_proba([[1.0], [2.0]]).round(3)
        array([[0.646, 0.354],
               [0.31 , 0.69 ]])
        """
        if self.loss not in losses.names():
            raise ValueError(
                f"loss must be one of {losses.names()} for probabilities, got {self.loss!r}; "
                "apply the link of that loss to decision_function(X)"
            )
        positive = self._positive(self.decision_function(X))
        return np.column_stack([1.0 - positive, positive])

    def _positive(self, scores: np.ndarray) -> np.ndarray:
        """Return the probability of the second class, NaN if the loss is not one of ours."""
        if self.loss not in losses.names():
            return np.full(len(scores), np.nan)
        return losses.get(self.loss).link(scores)

    def explain(self, x: Any, background: Any = None) -> Explanation:
        """Return what each weak classifier and each feature contributes to the scores of rows.

        The score is a sum of functions of one feature each, so that the Shapley value of a
        feature is a plain difference: with weights w_k and stumps h_k,

            phi_j = sum over the stumps k of feature j of w_k (h_k(x) - mean of h_k),

        the mean over the background. These are exact SHAP values of the score (those that the
        package ``shap`` computes for ``decision_function`` with an independent masker), not
        estimates: no sampling, no subsets.

        Parameters
        ----------
        x : array of shape (n_features,) or (n_rows, n_features), Series or data frame
            The row or rows to explain.
        background : array of shape (n_background, n_features) or data frame, optional
            Rows to compare with, usually the training data. Without them each stump is compared
            with the middle of its two answers, 0: it contributes its vote w_k h_k(x), which is
            the SHAP value for a background that every stump halves.

        Examples
        --------
        >>> from totalqboost import Ensemble, Stump
        >>> stumps = (Stump(0, 40.0), Stump(1, 1.8, -1), Stump(0, 60.0))
        >>> model = Ensemble(
        ...     stumps, (0.9, 0.5, 0.3), 0.1, ("no", "yes"), ("age", "height"), "logistic"
        ... )
        >>> print(model.explain([52.0, 1.9]))
        score +0.2: 'yes', probability of 'yes' 0.550, base value +0.1
          contribution  feature  value  part  'yes' if  votes
                  +0.6  age         52  +0.9  > 40      'yes'
                                        -0.3  > 60      'no'
                  -0.5  height     1.9  -0.5  <= 1.8    'no'
        >>> background = [[20.0, 1.7], [30.0, 1.6], [50.0, 1.9], [70.0, 1.7]]
        >>> model.explain([52.0, 1.9], background).feature_contributions.round(3)
        array([[ 0.75, -0.75]])
        """
        X = self.checked_rows(_as_rows(x), "x")
        middle = np.array([h.polarity if isinstance(h, Constant) else 0.0 for h in self.learners])
        if background is not None:
            rows = self.checked_rows(background, "background")
            if not len(rows):
                raise ValueError("background must have at least one row, got none")
            middle = self._votes(rows).mean(axis=0)
        votes, weights, scores = self._votes(X), np.array(self.weights), self.decision_function(X)
        return Explanation(
            contributions=weights * (votes - middle),
            base_value=self.intercept + float(weights @ middle),
            scores=scores,
            probabilities=self._positive(scores),
            votes=votes,
            X=X,
            learners=self.learners,
            features=self._described(X.shape[1]),
            classes=self.classes,
        )

    def _votes(self, X: np.ndarray) -> np.ndarray:
        """Return h(x), shape (n_rows, n_learners)."""
        votes = np.empty((len(X), self.n_learners), dtype=np.int8)
        for k, learner in enumerate(self.learners):
            votes[:, k] = learner.predict(X)
        return votes

    def _described(self, n_features: int) -> tuple[Feature, ...]:
        return self.features or tuple(Feature(f"x{j}") for j in range(n_features))

    # -- for people --------------------------------------------------------------------

    def __repr__(self) -> str:
        features = {h.feature for h in self.learners if isinstance(h, Stump)}
        first, second = self.classes
        return (
            f"<Ensemble: {counted(self.n_learners, 'weak classifier')} on "
            f"{counted(len(features), 'feature')}, {first!r} or {second!r}, {self.loss} loss>"
        )

    def __str__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()

    def _table(self) -> Table:
        largest = max((h.feature for h in self.learners if isinstance(h, Stump)), default=0)
        features = self._described(largest + 1)
        rows = [
            (f"{w:.4g}", *h.describe(features))
            for h, w in zip(self.learners, self.weights, strict=True)
        ]
        title = f"{counted(self.n_learners, 'weak classifier')}, intercept {self.intercept:+.4g}"
        header = ("weight", "feature", f"{self.classes[1]!r} if")
        return Table(title, header, rows, "rll", self.weights)

    # -- files -------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the ensemble as plain values, ready for JSON."""
        learners = []
        for learner, weight in zip(self.learners, self.weights, strict=True):
            if isinstance(learner, Stump):
                entry: dict[str, Any] = {
                    "kind": "stump",
                    "feature": learner.feature,
                    "threshold": learner.threshold,
                }
            elif isinstance(learner, Constant):
                entry = {"kind": "constant"}
            else:
                raise TypeError(
                    f"an ensemble with a {type(learner).__name__} learner cannot be saved as "
                    "JSON; only stumps and constants can"
                )
            learners.append({**entry, "polarity": learner.polarity, "weight": weight})
        return {
            "format": FORMAT,
            "schema_version": SCHEMA_VERSION,
            "classes": [_plain_label(label) for label in self.classes],
            "feature_names": list(self.feature_names),
            "loss": self.loss,
            "intercept": self.intercept,
            "learners": learners,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the ensemble to a JSON file, all or nothing."""
        write_text(path, json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n")

    @classmethod
    def from_dict(cls, content: Any) -> Ensemble:
        """Return the ensemble that ``to_dict`` described; every value is checked."""
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise EnsembleFileError("this is not a TotalQBoost ensemble")
        version = content.get("schema_version")
        if isinstance(version, bool) or version != SCHEMA_VERSION:
            raise EnsembleFileError(
                f"schema_version {version!r} is not supported, this version reads {SCHEMA_VERSION}"
            )
        classes = _checked(content, "classes", list)
        names = _checked(content, "feature_names", list)
        is_plain = all(isinstance(label, str | int | float) for label in classes)
        if len(classes) != 2 or not is_plain or classes[0] == classes[1]:
            raise EnsembleFileError(f"classes must be two different labels, got {classes!r}")
        if not all(isinstance(name, str) for name in names):
            raise EnsembleFileError("feature_names must be a list of strings")
        entries = _checked(content, "learners", list)
        pairs = [_learner(entry, len(names)) for entry in entries]
        return cls(
            tuple(learner for learner, _ in pairs),
            tuple(weight for _, weight in pairs),
            _number(content, "intercept"),
            (classes[0], classes[1]),
            tuple(Feature(name) for name in names),
            _checked(content, "loss", str),
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Ensemble:
        """Read an ensemble from a JSON file; a damaged or foreign file is a clear error."""
        try:
            with open(path, encoding="utf-8") as file:
                content = json.load(file)
            return cls.from_dict(content)
        except (ValueError, RecursionError) as e:  # of decoding, of JSON, or our own
            raise EnsembleFileError(f"{os.fspath(path)}: cannot be read as a model: {e}") from e


def _as_rows(x: Any) -> Any:
    """Return one row as a table of one row; a Series keeps its names."""
    if np.ndim(x) != 1:
        return x
    return x.to_frame().T if hasattr(x, "index") and hasattr(x, "to_frame") else np.asarray(x)[None]


def _plain_label(label: Any) -> Any:
    label = label.item() if isinstance(label, np.generic) else label
    if not isinstance(label, str | int | float):
        raise TypeError(
            f"class labels must be strings or numbers to be saved as JSON, got {label!r}"
        )
    return label


def _checked(content: dict[str, Any], key: str, kind: type) -> Any:
    value = content.get(key)
    if not isinstance(value, kind):
        raise EnsembleFileError(f"{key} must be a {kind.__name__}, got {value!r}")
    return value


def _number(content: dict[str, Any], key: str) -> float:
    value = content.get(key)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is None or not is_number or not abs(value) <= MAX:
        raise EnsembleFileError(f"{key} must be a finite number, got {value!r}")
    return float(value)


def _learner(entry: Any, n_features: int) -> tuple[Learner, float]:
    if not isinstance(entry, dict):
        raise EnsembleFileError(f"a learner must be an object, got {entry!r}")
    polarity, weight = entry.get("polarity"), _number(entry, "weight")
    if isinstance(polarity, bool) or polarity not in (-1, 1):
        raise EnsembleFileError(f"polarity must be -1 or 1, got {polarity!r}")
    if weight <= 0:
        raise EnsembleFileError(f"weight must be > 0, got {weight!r}")
    if entry.get("kind") == "constant":
        return Constant(polarity), weight
    if entry.get("kind") != "stump":
        raise EnsembleFileError(f"kind must be 'stump' or 'constant', got {entry.get('kind')!r}")
    feature = entry.get("feature")
    if isinstance(feature, bool) or not isinstance(feature, int) or not 0 <= feature < n_features:
        raise EnsembleFileError(f"feature must be from 0 to {n_features - 1}, got {feature!r}")
    return Stump(feature, _number(entry, "threshold"), polarity), weight
