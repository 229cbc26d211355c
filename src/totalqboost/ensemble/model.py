"""The ensemble itself: weights and weak classifiers, scores and labels."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from totalqboost.ensemble import files, printing
from totalqboost.ensemble.answers import known_losses, probabilities_of, winners
from totalqboost.ensemble.explaining import explanation_of
from totalqboost.ensemble.files import EnsembleFileError
from totalqboost.ensemble.points import Points, points_of, snapped
from totalqboost.ensemble.rows import dense_columns, table_of
from totalqboost.ensemble.scoring import Scorer
from totalqboost.ensemble.training import Training
from totalqboost.ensemble.weights import check_scores, checked_intercept, checked_weights
from totalqboost.explanation import Explanation
from totalqboost.files import MOST_MODEL, parse_json, read_bytes, write_text
from totalqboost.learners import Both, CategorySet, Constant, Feature, Learner, Missing, Stump
from totalqboost.tables import counted

__all__ = ["Ensemble"]


@dataclass(frozen=True)
class Ensemble:
    """f(x) = intercept + sum_k weight_k h_k(x); class 1 where f(x) > 0.

    Of K >= 3 classes each has a score of that form, with an intercept and weights of its own; the
    class of the highest score is the answer.

    Attributes
    ----------
    learners : tuple of Learner
        The weak classifiers that were kept, heaviest first.
    weights : tuple of float, or tuple of tuples of K floats
        Their weights, all positive; for K >= 3 classes one for each class, of any sign.
    intercept : float, or tuple of K floats
        Constant part that costs nothing (0 if the constant counts as a learner).
    classes : tuple
        The labels; the second of two is +1.
    features : tuple of Feature
        The columns of X; names alone will do.
    loss : str
        Name of the loss it was trained with; it decides how scores become probabilities.
    scale : float, optional
        Weights and intercept are whole multiples of it, ``points``; None if they are any numbers.
    training : Training, optional
        What is known of the training, for files and headers; it does not count in comparisons.

    Examples
    --------
    >>> from totalqboost import Ensemble, Stump
    >>> model = Ensemble((Stump(0, 1.5),), (0.7,), 0.1, ("no", "yes"), ("age", "height"))
    >>> print(model)
    1 weak classifier, intercept +0.1
      weight  feature  'yes' if
         0.7  age      > 1.5

    Three classes share weak classifiers:

    >>> model = Ensemble(
    ...     (Stump(0, 1.5), Stump(1, 0.5)),
    ...     ((0.7, -0.2, -0.5), (0.0, 0.4, -0.4)),
    ...     (0.1, 0.0, -0.1),
    ...     ("cat", "dog", "owl"),
    ...     ("age", "height"),
    ...     "multinomial",
    ... )
    >>> print(model)
    2 weak classifiers for 3 classes: weights are added if the condition holds, else subtracted
      feature      condition  'cat'  'dog'  'owl'
      (intercept)              +0.1     +0   -0.1
      age          > 1.5       +0.7   -0.2   -0.5
      height       > 0.5         +0   +0.4   -0.4
    >>> model.decision_function([[2.0, 0.0]]).round(3)
    array([[ 0.8, -0.6, -0.2]])
    """

    learners: tuple[Learner, ...]
    weights: tuple[Any, ...]
    intercept: Any = 0.0
    classes: tuple[Any, ...] = (-1, 1)
    features: tuple[Feature, ...] = ()
    loss: str = "exponential"
    scale: float | None = None
    training: Training | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name in ("learners", "weights", "classes"):
            object.__setattr__(self, name, tuple(getattr(self, name)))  # lists would stay mutable
        if len(self.classes) < 2:
            raise ValueError(f"classes must be two labels or more, got {self.classes}")
        if len(self.learners) != len(self.weights):
            raise ValueError(
                f"weights must have one value per learner ({len(self.learners)}), "
                f"got {len(self.weights)}"
            )
        weights = tuple(checked_weights(given, self.n_classes) for given in self.weights)
        intercept = checked_intercept(self.intercept, self.n_classes)
        scale = self.scale
        if scale is not None:
            weights, intercept, scale = snapped(weights, intercept, scale)
        check_scores(weights, intercept)
        for name, value in (("weights", weights), ("intercept", intercept), ("scale", scale)):
            object.__setattr__(self, name, value)
        features = tuple(Feature(f) if isinstance(f, str) else f for f in self.features)
        object.__setattr__(self, "features", features)
        if not isinstance(self.training, Training | None):
            raise TypeError(f"training must be a Training or None, got {self.training!r}")

    @property
    def n_learners(self) -> int:
        """Number of weak classifiers; the intercept is not one of them."""
        return len(self.learners)

    @property
    def n_comparisons(self) -> int:
        """Number of conditions that are looked at: two for a conjunction, none for a constant."""
        counts = {Both: 2, Constant: 0}
        return sum(counts.get(type(learner), 1) for learner in self.learners)

    @property
    def n_classes(self) -> int:
        """Number of labels."""
        return len(self.classes)

    @property
    def is_multiclass(self) -> bool:
        """Whether there are more than two classes, each with a score of its own."""
        return self.n_classes > 2

    @property
    def is_shared(self) -> bool:
        """Whether each weak classifier has one weight, and for each class only a vote, + or -."""
        return not self.is_multiclass or all(len(set(map(abs, w))) == 1 for w in self.weights)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of X."""
        return tuple(feature.name for feature in self.features)

    @cached_property
    def used_features(self) -> tuple[int, ...]:
        """The columns that some weak classifier looks at; nothing is known of fitted ones."""
        return tuple(sorted({j for learner in self.learners for j in learner.features}))

    @cached_property
    def class_weights(self) -> np.ndarray:
        """What each weak classifier adds to the score of each class, (n_learners, n_classes).

        That of the first of two classes is minus the score of the second.
        """
        weights = np.array(self.weights, dtype=float)
        if self.is_multiclass:
            return weights.reshape(-1, self.n_classes)
        return np.column_stack([-weights, weights])

    @property
    def class_intercepts(self) -> np.ndarray:
        """The intercepts of the score of each class, (n_classes,)."""
        own = self.intercept if self.is_multiclass else (-self.intercept, self.intercept)
        return np.array(own, dtype=float)

    @property
    def points(self) -> Points | None:
        """Weights and intercept as integers, with what one of them is worth; None without a scale.

        ``scale * points.weights`` are the weights and ``scale * points.intercept`` the intercept,
        exactly, and scores are computed as ``scale`` times a sum of integers. So an export that
        adds integers gives the same labels, ties included, and rounds nothing.

        Examples
        --------
        >>> from totalqboost import Ensemble, Stump
        >>> model = Ensemble((Stump(0, 1.5), Stump(1, 0.5)), (0.75, 0.25), -0.5, scale=0.25)
        >>> model.points
        Points(weights=(3, 1), intercept=-2, scale=0.25)
        """
        return None if self.scale is None else points_of(self.weights, self.intercept, self.scale)

    @property
    def strengths(self) -> np.ndarray:
        """How far each weak classifier moves scores: its weight, or the mean of their sizes."""
        return np.abs(self.class_weights).mean(axis=1)

    # -- makers ------------------------------------------------------------------------

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
        labels = tuple(c.item() if isinstance(c, np.generic) else c for c in classes)
        own: Any = tuple(features)  # names become features
        return replace(self, classes=labels, features=own, loss=loss)

    def with_training(
        self, shape: tuple[int, int], objective: float, bound: float, **others: Any
    ) -> Ensemble:
        """Return the same ensemble with what is known of its training; see :class:`Training`.

        Objectives of more than two classes are left out: those of searches are of other weights.
        So is a bound that is infinite, which says nothing.
        """
        if not self.is_multiclass and math.isfinite(objective):
            others["objective"] = objective
            others["bound"] = min(bound, objective) if math.isfinite(bound) else None
        return replace(self, training=Training(*shape, **others))

    def scaled(self, factor: float) -> Ensemble:
        """Return the ensemble of scores times a factor: other probabilities, the same labels."""
        training = None if self.training is None else self.training.times(factor)
        return replace(self._rescaled(factor), training=training)

    def _rescaled(self, factor: float) -> Ensemble:
        if (points := self.points) is not None:
            return self.of_points(points._replace(scale=factor * points.scale))
        if self.is_multiclass:
            weights = tuple(tuple(factor * w for w in own) for own in self.weights)
            intercept = tuple(factor * b for b in self.intercept)
            return replace(self, weights=weights, intercept=intercept)
        weights = tuple(factor * weight for weight in self.weights)
        return replace(self, weights=weights, intercept=factor * self.intercept)

    def of_points(self, points: Points) -> Ensemble:
        """Return the ensemble with integers times a scale for weights and intercept."""
        weights, intercept = points.numbers()
        return replace(self, weights=weights, intercept=intercept, scale=points.scale)

    # -- scores ------------------------------------------------------------------------

    @cached_property
    def _scorer(self) -> Scorer:
        """The scores in units of ``scale``, if there is one: floats add integers exactly."""
        points = self.points
        given, own = (self.weights, self.intercept) if points is None else points[:2]
        n_scores = self.n_classes if self.is_multiclass else 1
        weights = np.array(given, dtype=float).reshape(-1, n_scores)
        return Scorer(self.learners, weights, np.array(own, dtype=float).reshape(n_scores))

    def narrowed(self) -> Ensemble:
        """Return the same ensemble for tables of the columns that it looks at, and no others.

        Examples
        --------
        >>> from totalqboost import Ensemble, Stump
        >>> model = Ensemble((Stump(2, 1.5),), (0.7,), features=("age", "height", "dose"))
        >>> model.narrowed().feature_names, model.narrowed().learners
        (('dose',), (Stump(feature=0, threshold=1.5, polarity=1),))
        """
        return self._narrowed

    @cached_property
    def _narrowed(self) -> Ensemble:
        if not self._says_features:
            raise TypeError("learners must be stumps or sets of categories to be told from others")
        places = {j: place for place, j in enumerate(self.used_features)}
        learners = tuple(_moved(learner, places) for learner in self.learners)
        features = tuple(self.features[j] for j in places) if self.features else ()
        return replace(self, learners=learners, features=features)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return f(x) per row of X, of more than two classes one value for each.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_rows, n_features)
            As in training: text where that had categories, NaN or None for what is missing.
            Columns of a data frame are found by name if they can be.

        Returns
        -------
        array of shape (n_rows,) or (n_rows, n_classes)
        """
        model, rows = self.matched(X, "X")
        return model.scores(rows)

    def scores(self, X: Any) -> np.ndarray:
        """Return f(x) per row of a table in the form that learners look at.

        That of ``Examples.X`` and of ``checked_rows``: floats, categories as codes. Nothing is
        checked. Of sparse rows only the columns that matter become dense.
        """
        if sparse.issparse(X):
            model, X = self.matched(X, "X")
            return model.scores(X)
        scores = self._scorer.scores(X)
        if self.scale is not None:
            scores *= self.scale
        return scores if self.is_multiclass else scores[:, 0]

    def checked_rows(self, X: Any, name: str = "X") -> np.ndarray:
        """Return a table of the user in the form that learners look at.

        Numbers, NaN where they are missing, and codes of categories, -1 for those that training
        has not seen. Columns of a data frame are found by name if they can be; columns that no
        learner looks at are not checked. ``name`` is for errors.
        """
        X = X.toarray() if sparse.issparse(X) else X
        return table_of(X, self.features, self._needed(X), name)

    def matched(self, X: Any, name: str = "X") -> tuple[Ensemble, np.ndarray]:
        """Return the ensemble that fits checked rows, and these: of sparse ones few columns."""
        if not sparse.issparse(X) or not self._says_features:
            return self, self.checked_rows(X, name)
        return self._narrowed, dense_columns(X, self.features, self.used_features, name)

    @property
    def _says_features(self) -> bool:
        """Whether all weak classifiers are of kinds that look at their features only."""
        known = Stump | Missing | CategorySet | Both | Constant
        return all(isinstance(learner, known) for learner in self.learners)

    def _needed(self, X: Any) -> tuple[int, ...] | range:
        if self._says_features:
            return self.used_features
        return range(len(self.features) or np.shape(X)[-1])

    def predict(self, X: Any) -> np.ndarray:
        """Return the label of each row of X."""
        return np.asarray(self.classes)[winners(self.decision_function(X))]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the classes, by the link of the loss.

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
        known = known_losses(self.n_classes)
        if self.loss not in known:
            raise ValueError(
                f"loss must be one of {known} for probabilities, got {self.loss!r}; "
                "apply the link of that loss to decision_function(X)"
            )
        return probabilities_of(self.decision_function(X), self.loss, self.n_classes)

    # -- explanations ------------------------------------------------------------------

    def explain(self, x: Any, background: Any = None, label: Any = None) -> Explanation:
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
        label : object, optional
            The class whose score is explained. By default the second of two classes, and of more
            the one that is predicted, row by row.

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
        return explanation_of(self, x, background, label)

    # -- for people --------------------------------------------------------------------

    def __repr__(self) -> str:
        labels = printing.listed([repr(label) for label in self.classes], "or")
        return (
            f"<Ensemble: {counted(self.n_learners, 'weak classifier')} on "
            f"{counted(len(self.used_features), 'feature')}, {labels}, {self.loss} loss>"
        )

    def __str__(self) -> str:
        return printing.table_of(self).text()

    def _repr_html_(self) -> str:
        return printing.table_of(self).html()

    # -- files -------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the ensemble as plain values, ready for JSON."""
        return files.content_of(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the ensemble to a JSON file, all or nothing."""
        write_text(path, json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n")

    @classmethod
    def from_dict(cls, content: Any) -> Ensemble:
        """Return the ensemble that ``to_dict`` described; every value is checked."""
        return cls(**files.fields_of(content))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Ensemble:
        """Read an ensemble from a JSON file; a damaged or foreign file is a clear error."""
        try:
            return cls.from_dict(parse_json(read_bytes(path, MOST_MODEL)))
        except ValueError as e:  # of decoding, of JSON, or our own
            raise EnsembleFileError(
                f"{os.fspath(path)}: cannot be read as a model, a JSON file that save or "
                f"totalqboost fit has written: {e}"
            ) from e


def _moved(learner: Learner, places: Mapping[int, int]) -> Learner:
    """Return a learner that finds its features in other columns."""
    if isinstance(learner, Stump | Missing | CategorySet):
        return replace(learner, feature=places[learner.feature])
    if isinstance(learner, Both):
        return Both(_moved(learner.first, places), _moved(learner.second, places), learner.polarity)
    return learner
