"""CascadeClassifier: a detector of few weak classifiers whose recall is guaranteed."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from totalqboost.cascade.bounds import allowed_misses, positives_needed
from totalqboost.cascade.certificates import Certificate, Guarantee, certificate_of
from totalqboost.cascade.model import Cascade
from totalqboost.cascade.stages import Rows, Wish, soft_cascade, source_of, staged_cascade
from totalqboost.cascade.training import Trainer
from totalqboost.estimator import TotalQBoostClassifier
from totalqboost.examples import (
    Examples,
    check_examples,
    check_features,
    check_prediction_rows,
    check_validation,
)
from totalqboost.notices import warn
from totalqboost.parameters import check_integer, check_share
from totalqboost.settings import generator
from totalqboost.wishes import check_wishes

__all__ = ["CascadeClassifier"]

KINDS = ("soft", "stages")


class CascadeClassifier(ClassifierMixin, BaseEstimator):
    """A detector of ``classes_[1]`` whose recall is guaranteed and whose negatives are cheap.

    Weak classifiers are asked one after the other, and most negatives are rejected after a few.
    Thresholds come from held-out positives: with probability ``confidence`` over their draw, the
    whole detector, all rejections together, finds at least the share ``min_recall`` of the
    positives to come. They have to be drawn like those.

    Parameters
    ----------
    estimator : TotalQBoostClassifier, optional
        What trains ensembles; by default
        ``TotalQBoostClassifier(max_learners=20, class_weight="balanced")``. Its
        ``feature_costs``, in units of one weak classifier, count in the order in which weak
        classifiers are asked.
    kind : {"soft", "stages"}, default="soft"
        "soft": one ensemble, and after each weak classifier a threshold below which a row is
        rejected. "stages": ensembles of ``stage_sizes``, each trained on the negatives that those
        before it let pass, with one threshold each (Viola and Jones 2001).
    min_recall : float, default=0.95
        The share of positives that has to be found.
    confidence : float, default=0.95
        How sure that has to be.
    stage_sizes : sequence of int, default=(2, 3, 5, 10)
        Weak classifiers of each stage; only for ``kind="stages"``.
    held_out : float, default=0.3
        Share of the rows of each class that thresholds are set on, if ``fit`` gets no other rows
        for that.
    random_state : int, RandomState or None, default=None
        Which rows are held out. None is the same as 0.

    Attributes
    ----------
    cascade_ : Cascade
        The model; ``save`` it as JSON.
    ensemble_ : Ensemble
        For ``kind="soft"`` its ensemble, learners in the order in which they are asked.
    n_learners_ : int
        Number of weak classifiers.
    n_positives_, n_missed_ : int
        Held-out positives, and how many of them the guarantee lets thresholds give up.
    mean_learners_evaluated_, false_positive_rate_ : float
        Weak classifiers that are asked per held-out negative, and the share of these that is
        detected; NaN if none was held out.
    classes_, n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> from totalqboost import CascadeClassifier
    >>> from totalqboost.datasets import make_rare_event
    >>> X, y = make_rare_event(20_000, positive_rate=0.05, seed=0)
    >>> detector = CascadeClassifier(min_recall=0.95).fit(X, y)
    >>> detector.n_positives_, detector.n_missed_
    (300, 8)
    >>> detector.mean_learners_evaluated_ < 10
    True
    >>> X_new, y_new = make_rare_event(20_000, positive_rate=0.05, seed=1)
    >>> detector.certify(X_new, y_new).recall >= 0.95
    True
    """

    def __init__(
        self,
        estimator: TotalQBoostClassifier | None = None,
        *,
        kind: str = "soft",
        min_recall: float = 0.95,
        confidence: float = 0.95,
        stage_sizes: Sequence[int] = (2, 3, 5, 10),
        held_out: float = 0.3,
        random_state: Any = None,
    ):
        self.estimator = estimator
        self.kind = kind
        self.min_recall = min_recall
        self.confidence = confidence
        self.stage_sizes = stage_sizes
        self.held_out = held_out
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        X_valid: Any = None,
        y_valid: Any = None,
        negatives: Any = None,
    ) -> CascadeClassifier:
        """Train the detector and set its thresholds.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            As in :meth:`TotalQBoostClassifier.fit`.
        y : array-like of shape (n_samples,)
            Two classes; the second in sorted order is to be detected.
        X_valid, y_valid : optional
            Rows to set thresholds on. Then all rows of X are trained on.
        negatives : table, iterable of tables or callable, optional
            More negatives for ``kind="stages"``, block by block: those that pass the stages so
            far are trained on, as many as there were in the beginning. A generator goes on where
            the stage before has stopped; a callable is called for each stage and returns an
            iterable. They may be endless: after 100,000 rows in a row that do not pass, no more
            are read for this stage, with a warning.

        Returns
        -------
        self
        """
        with self._all_or_nothing():
            return self._fit(X, y, X_valid, y_valid, negatives)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        before = self.__dict__.copy()
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    def _fit(self, X: Any, y: Any, X_valid: Any, y_valid: Any, negatives: Any) -> CascadeClassifier:
        base = self._check_parameters(negatives)
        examples = check_examples(
            X,
            y,
            class_weight=base.class_weight,
            categorical_features=base.categorical_features,
            estimator=self,
            accept_sparse=True,
            max_classes=2,
        )
        if sparse.issparse(examples.X):  # rows are picked
            examples = replace(examples, X=sparse.csr_matrix(examples.X))
        if X_valid is None:
            train, valid = self._split(examples)
        else:
            train, valid = examples, check_validation(X_valid, y_valid, examples)
        is_positive = valid.y > 0
        self.n_positives_ = int(is_positive.sum())
        wish = self._wish(self.n_positives_, X_valid is not None)
        trainer = Trainer(base, examples)
        rows = Rows(train.X, train.y, valid.X[is_positive])
        if self.kind == "soft":
            wishes = check_wishes(base.feature_costs, base.max_features, base.monotonic_cst)
            costs = wishes.prices(examples.features)
            costs = np.zeros(len(examples.features)) if costs is None else costs
            self.cascade_, self.n_missed_ = soft_cascade(rows, trainer, wish, costs)
            self.ensemble_ = self.cascade_.stages[0].ensemble
        else:
            self.__dict__.pop("ensemble_", None)  # of an earlier fit
            fresh = None
            if negatives is not None:
                fresh = source_of(negatives, lambda b: check_features(b, examples, "negatives"))
            self.cascade_, self.n_missed_ = staged_cascade(
                rows, trainer, wish, self.stage_sizes, fresh
            )
        promise = self.min_recall, self.confidence, self.n_positives_, self.n_missed_
        self.cascade_ = replace(self.cascade_, guarantee=Guarantee(*promise))
        self.classes_, self.loss_ = examples.classes, trainer.loss
        self.n_learners_ = self.cascade_.n_learners
        self._measure(valid.X[~is_positive])
        return self

    # -- use ---------------------------------------------------------------------------

    def decision_function(self, X: Any) -> np.ndarray:
        """Return by how much each row passes the last threshold it came to.

        >= 0 for what is detected: the last score less its threshold. Negative for what is
        rejected: how much was missing where that happened, after whichever weak classifier.
        """
        return self._evaluated(X)[0]

    def predict(self, X: Any) -> np.ndarray:
        """Return the label of each row: ``classes_[1]`` for what is detected."""
        margins = self.decision_function(X)
        return self.classes_[(margins >= 0).astype(int)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the classes, by the link of the loss at the last score.

        That of a detected row is what the ensemble says (with ``kind="stages"`` the last one,
        among the rows that come to it). A rejected row is cut short; it gets less than a row at
        the threshold. They do not decide labels: a detector takes what is improbable too if the
        recall demands it.
        """
        threshold = self._checked_cascade().stages[-1].threshold
        positive = self.loss_.link(self.decision_function(X) + threshold)
        return np.column_stack([1.0 - positive, positive])

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def learners_evaluated(self, X: Any) -> np.ndarray:
        """Return how many weak classifiers each row takes."""
        return self._evaluated(X)[1]

    def certify(self, X: Any, y: Any, confidence: float | None = None) -> Certificate:
        """Return what the detector does on fresh rows, with exact bounds (Clopper-Pearson).

        Parameters
        ----------
        X, y
            Rows that were used neither to train nor to set thresholds.
        confidence : float, optional
            That of the bounds; by default that of the detector.
        """
        sure = self.confidence if confidence is None else confidence
        check_share("confidence", sure)
        margins, n_evaluated = self._evaluated(X)
        y = np.asarray(y)
        if y.shape != margins.shape:
            raise ValueError(f"y must have one label per row ({len(margins)}), got {y.shape}")
        unknown = y[~np.isin(y, self.classes_)]
        if len(unknown):
            raise ValueError(
                f"y must hold labels of training, {self.classes_.tolist()}, got {unknown[0]!r}"
            )
        if not (y == self.classes_[1]).any():
            raise ValueError(
                f"y must have rows of {self.classes_.tolist()[1]!r}, the class that is detected, "
                f"got none in {len(y)}"
            )
        return certificate_of(margins, n_evaluated, y == self.classes_[1], sure)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the detector as JSON, to be read by ``Cascade.load``."""
        self._checked_cascade().save(path)

    def to_c(self, name: str = "detector", **options: Any) -> str:
        """Return the detector as one header of C99; see :meth:`totalqboost.Cascade.to_c`."""
        return self._checked_cascade().to_c(name, **options)

    def _checked_cascade(self) -> Cascade:
        check_is_fitted(self, "cascade_")
        return self.cascade_

    def _evaluated(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        cascade = self._checked_cascade()
        rows: Any = check_prediction_rows(X, self, cascade.stages[0].ensemble.features)
        return cascade.margins(rows.tocsr() if sparse.issparse(rows) else rows)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.sparse = True
        return tags

    # -- parts of fit ------------------------------------------------------------------

    def _check_parameters(self, negatives: Any) -> TotalQBoostClassifier:
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {list(KINDS)}, got {self.kind!r}")
        for name in ("min_recall", "confidence", "held_out"):
            check_share(name, getattr(self, name))
        for size in _checked_sizes(self.stage_sizes):
            check_integer("stage_sizes", size, 1)
        if negatives is not None and self.kind == "soft":
            raise ValueError("negatives are for kind='stages', got them with kind='soft'")
        if self.estimator is None:
            return TotalQBoostClassifier(max_learners=20, class_weight="balanced")
        if not isinstance(self.estimator, TotalQBoostClassifier):
            raise ValueError(
                "estimator must be a TotalQBoostClassifier or None, got a "
                f"{type(self.estimator).__name__}"
            )
        base: TotalQBoostClassifier = clone(self.estimator)
        is_exponential = (
            base.loss == "exponential" or getattr(base.loss, "name", "") == "exponential"
        )
        if base.class_weight is not None and base.fit_intercept and is_exponential:
            # min over b of P e^-b + N e^b is 2 sqrt(P N): weights of classes leave a factor.
            warn(
                f"class_weight={base.class_weight!r} has no effect on which weak classifiers are "
                "chosen: with the exponential loss the intercept makes up for it; use "
                "loss='logistic', or fit_intercept=False"
            )
        return base

    def _split(self, examples: Examples) -> tuple[Examples, Examples]:
        """Return rows to train on and rows for thresholds, of each class the same share."""
        rng = generator(self.random_state)
        held = np.zeros(len(examples), dtype=bool)
        for sign in (-1, 1):
            rows = rng.permutation(np.flatnonzero(examples.y == sign))
            n_held = min(max(1, math.ceil(self.held_out * len(rows) - 1e-9)), len(rows) - 1)
            held[rows[:n_held]] = True
        return examples.at(np.flatnonzero(~held)), examples.at(np.flatnonzero(held))

    def _wish(self, n: int, is_given: bool) -> Wish:
        """Return the misses that are allowed, or say how many positives that would take."""
        n_cuts = 1 if self.kind == "soft" else len(self.stage_sizes)
        n_missed = allowed_misses(n, self.min_recall, self.confidence)
        if n_missed + 1 >= n_cuts:
            return Wish(self.min_recall, n_missed)
        needed = positives_needed(self.min_recall, self.confidence, n_cuts)
        cuts = f" with {n_cuts} stages" if n_cuts > 1 else ""
        where = "X_valid" if is_given else f"held_out={self.held_out:g}"
        fix = f"give y_valid {needed} positives or more"
        if not is_given:
            fix = f"give y {math.ceil(needed / self.held_out)} positives or more, or {fix}"
        raise ValueError(
            f"min_recall={self.min_recall:g} at confidence={self.confidence:g}{cuts} needs at "
            f"least {needed} held-out positives, got {n} ({where}); {fix}, or lower min_recall "
            "or confidence"
        )

    def _measure(self, negatives: Any) -> None:
        """Note what the detector does to held-out negatives."""
        self.mean_learners_evaluated_ = self.false_positive_rate_ = np.nan
        if negatives.shape[0]:
            margins, n_evaluated = self.cascade_.margins(negatives)
            self.mean_learners_evaluated_ = float(n_evaluated.mean())
            self.false_positive_rate_ = float((margins >= 0).mean())


def _checked_sizes(sizes: Any) -> list[Any]:
    if isinstance(sizes, str) or not hasattr(sizes, "__len__") or not len(sizes):
        raise ValueError(f"stage_sizes must be a sequence of integers >= 1, got {sizes!r}")
    return list(sizes)
