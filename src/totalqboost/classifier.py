"""EnsembleClassifier: an ensemble with the manners of a fitted scikit-learn classifier."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from totalqboost.cluster.collections import check_row_count, columns_of
from totalqboost.cluster.prediction import computed, lazily
from totalqboost.examples import check_columns, check_prediction_rows
from totalqboost.explanation import Explanation
from totalqboost.multiclass import probabilities, winners
from totalqboost.solving import Interrupted, SolverError
from totalqboost.tabular import is_collection

__all__ = ["EnsembleClassifier"]


class EnsembleClassifier(ClassifierMixin, BaseEstimator):
    """What a fitted ensemble can do, whoever fitted it."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> EnsembleClassifier:
        """Find the ensemble; each classifier has a way of its own."""
        raise NotImplementedError

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Leave the model of an earlier fit as it was if this one finds nothing."""
        before = self.__dict__.copy()
        try:
            yield
        except BaseException as error:
            is_kept = isinstance(error, Interrupted | SolverError) and error.result is not None
            if not is_kept:
                self.__dict__ = before
            raise

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the score f(x) of each row; positive means ``classes_[1]``.

        Of more than two classes, one score for each, shape (n_rows, n_classes).
        """
        if is_collection(X):
            return self._lazily("decision_function", X)
        X = self._checked(X)
        return self.ensemble_.scores(X)

    def predict(self, X: Any) -> np.ndarray:
        """Return the label of each row."""
        if is_collection(X):
            return self._lazily("predict", X)
        scores = self.decision_function(X)  # checks that there is a fitted model
        return self.classes_[winners(scores)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the classes: by the link of the loss, or by softmax."""
        if is_collection(X):
            return self._lazily("predict_proba", X)
        return probabilities(self.decision_function(X), self.loss_)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of ``predict_proba``."""
        if is_collection(X):
            return self._lazily("predict_log_proba", X)
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on rows with known labels; of Dask collections it is computed."""
        if not is_collection(X):
            return float(super().score(X, y, sample_weight))
        labels, y, weight = computed(self.predict(X), y, sample_weight)
        check_row_count("y", len(y), len(labels))
        return float(np.average(labels == np.ravel(y), weights=weight))

    def explain(self, X: Any, background: Any = None, label: Any = None) -> Explanation:
        """Return what each weak classifier contributes to the scores of rows.

        See :meth:`totalqboost.Ensemble.explain`; sums over the stumps of a feature are exact
        SHAP values against the background.
        """
        check_is_fitted(self, "ensemble_")
        return self.ensemble_.explain(X, background, label)

    @property
    def feature_importances_(self) -> np.ndarray:
        """Share of each feature in the weights of the ensemble; sums to one."""
        check_is_fitted(self, "ensemble_")
        importance = np.zeros(self.n_features_in_)
        for learner, weight in zip(self.ensemble_.learners, self.ensemble_.strengths, strict=True):
            for feature in learner.features:
                importance[feature] += weight
        total = importance.sum()
        return importance / total if total > 0 else importance

    def _lazily(self, method: str, X: Any) -> Any:
        """Return an array of Dask; every partition is predicted where it is."""
        check_is_fitted(self, "ensemble_")
        check_columns(self, columns_of(X))
        own = EnsembleClassifier()
        names = ("ensemble_", "classes_", "loss_", "n_features_in_", "feature_names_in_")
        own.__dict__ = {name: self.__dict__[name] for name in names if name in self.__dict__}
        n_classes = len(self.classes_)
        like = {"predict": self.classes_[:0], "decision_function": np.zeros((0, n_classes))}
        if n_classes == 2:
            like["decision_function"] = np.zeros(0)
        return lazily(getattr(own, method), X, like.get(method, np.zeros((0, n_classes))))

    def _checked(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "ensemble_")
        return check_prediction_rows(X, self, self.ensemble_.features)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = True
        tags.input_tags.allow_nan = True
        # The tag for strings asks that nested objects be taken too: we refuse them by name.
        tags.input_tags.categorical = True
        tags.input_tags.sparse = True
        return tags
