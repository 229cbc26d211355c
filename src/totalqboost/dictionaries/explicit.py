"""Dictionaries given outright: the columns of a matrix, or a list of fitted classifiers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from scipy import sparse

from totalqboost.dictionaries.base import Candidate, Shift, price_rule
from totalqboost.kernels.histogram import prices_of_cuts
from totalqboost.kernels.newton import correlate
from totalqboost.learners import Constant, Feature, Fitted, Learner, Stump

BLOCK = 256  # columns

__all__ = ["Columns", "ExplicitOracle", "FittedClassifiers", "refuse_monotone"]


@dataclass(frozen=True)
class Columns:
    """The columns of X are the weak classifiers: every entry must be -1 or +1.

    Examples
    --------
    >>> import numpy as np
    >>> from totalqboost import TotalQBoostClassifier
    >>> answers = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]] * 5)  # of two weak classifiers
    >>> y = answers[:, 0]
    >>> clf = TotalQBoostClassifier(0, dictionary="columns", max_learners=1).fit(answers, y)
    >>> clf.ensemble_.used_features
    (0,)
    """

    def prepare(
        self,
        X: np.ndarray,
        y: np.ndarray,
        n_jobs: int | None = None,
        features: Sequence[Feature] | None = None,
        weight: np.ndarray | None = None,
    ) -> ExplicitOracle:
        if sparse.issparse(X):
            raise TypeError(
                "X is a sparse matrix, which the dictionary 'columns' has no use for: "
                "-1 and +1 are not zero; use X.toarray()"
            )
        refuse_monotone(features, "columns")
        X = np.asarray(X)
        if not np.isin(X, (-1, 1)).all():
            raise ValueError("X must contain only -1 and +1 with the dictionary 'columns'")
        # A column of signs is the stump that cuts it at 0.
        learners = [Stump(j, 0.0, 1) for j in range(X.shape[1])]
        return ExplicitOracle(learners, X.T.astype(np.int8), y)


@dataclass(frozen=True)
class FittedClassifiers:
    """A list of fitted binary classifiers, each with ``predict`` and ``classes_``.

    Parameters
    ----------
    classifiers : sequence
        Fitted ones; their places in it are their names.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from totalqboost import TotalQBoostClassifier, datasets
    >>> from totalqboost.dictionaries import FittedClassifiers
    >>> X, y = datasets.load("flare solar")
    >>> trees = [DecisionTreeClassifier(max_depth=d, random_state=0).fit(X, y) for d in (1, 2, 3)]
    >>> clf = TotalQBoostClassifier(0, dictionary=FittedClassifiers(trees), max_learners=1)
    >>> clf.fit(X, y).n_learners_
    1
    """

    classifiers: Sequence[Any]

    def prepare(
        self,
        X: np.ndarray,
        y: np.ndarray,
        n_jobs: int | None = None,
        features: Sequence[Feature] | None = None,
        weight: np.ndarray | None = None,
    ) -> ExplicitOracle:
        refuse_monotone(features, "fitted classifiers")
        learners: list[Learner] = []
        for index, classifier in enumerate(self.classifiers):
            classes = getattr(classifier, "classes_", np.array([-1, 1]))
            if len(classes) != 2:
                raise ValueError(
                    f"classifier {index} of the dictionary must have two classes, "
                    f"got {len(classes)}"
                )
            learners.append(Fitted(index, classifier, classes[1]))
        signs = np.array([h.predict(X) for h in learners], dtype=np.int8).reshape(-1, X.shape[0])
        return ExplicitOracle(learners, signs, y, X.shape[1])


def refuse_monotone(features: Sequence[Feature] | None, what: str) -> None:
    """Complain about directions that weak classifiers of this kind would not heed."""
    if any(feature.monotone for feature in features or ()):
        raise ValueError(f"monotonic_cst needs a dictionary of stumps, got one of {what}")


class ExplicitOracle:
    """Prices every column of a given matrix by one product.

    Parameters
    ----------
    learners : sequence of Learner
        The weak classifiers, h and -h both where both are meant.
    signs : array of shape (n_learners, n_rows)
        h(x_i), -1 or +1.
    y : array of shape (n_rows,)
        Labels, -1 or +1.
    n_features : int, optional
        Columns of the table, for features that have prices; by default as many as learners.

    Examples
    --------
    >>> import numpy as np
    >>> from totalqboost.dictionaries import ExplicitOracle
    >>> from totalqboost.learners import Stump
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([-1, 1, 1])
    >>> stumps = [Stump(0, 1.5), Stump(0, 2.5)]
    >>> oracle = ExplicitOracle(stumps, np.array([h.predict(X) for h in stumps]), y)
    >>> oracle.best(np.ones(3) / 3)[0].learner.threshold
    1.5
    """

    def __init__(
        self,
        learners: Sequence[Learner],
        signs: np.ndarray,
        y: np.ndarray,
        n_features: int | None = None,
    ):
        self.y = np.asarray(y, dtype=np.int8)
        self.n_columns = len(learners)
        self.n_features = self.n_columns if n_features is None else n_features
        self._hold(list(learners), np.ascontiguousarray(signs * self.y, dtype=np.int8))

    def _hold(self, learners: list[Learner], A: np.ndarray) -> None:
        """Offer these learners, whose rows of A are y_i h(x_i)."""
        self.learners, self.A = learners, A
        self.is_signed = np.zeros(len(A), dtype=bool)  # unless -h was given too
        self.extras = np.zeros(len(A), dtype=int)
        self.features = np.array([(*h.features, -1)[0] for h in learners], dtype=int)
        self._index = {learner: j for j, learner in enumerate(learners)}

    def best(
        self,
        u: np.ndarray,
        exclude: Collection[Learner] = (),
        n: int = 1,
        curvature: np.ndarray | None = None,
        nu: float = 0.0,
        extra: float = 0.0,
    ) -> list[Candidate]:
        """See :class:`totalqboost.dictionaries.base.Oracle`."""
        u = np.asarray(u, dtype=float)
        edges = self._product(u)
        tie = 1e-12 * float(np.abs(u).sum())
        price = edges if curvature is None else self._decrease(u, edges, curvature, nu, tie)
        quantum = tie or 1.0
        order = np.argsort(-np.round(price / quantum), kind="stable")
        allowed = (j for j in order if self.learners[j] not in exclude)
        return [
            Candidate(self.learners[j], self.A[j], float(edges[j]), float(price[j]))
            for j in islice(allowed, n)
        ]

    def told(self, learners: Sequence[Learner], weights: np.ndarray) -> None:
        """See :class:`totalqboost.dictionaries.base.Oracle`; weights of rows say all here."""

    @property
    def constants(self) -> tuple[Learner, ...]:
        """See :class:`totalqboost.dictionaries.base.Oracle`."""
        return (Constant(1),)

    def n_extras(self, learner: Learner) -> int:
        """Return 0."""
        return 0

    @property
    def is_symmetric(self) -> bool:
        """Return False; see :meth:`has_opposite`."""
        return False

    def has_opposite(self, learner: Learner) -> bool:
        """Return False: -h may have been given too, but need not."""
        return False

    def column(self, learner: Learner) -> np.ndarray:
        """Return y_i h(x_i)."""
        if isinstance(learner, Constant):
            return learner.polarity * self.y
        return self.A[self._index[learner]]

    def candidates(self, with_constant: bool, wanted: Collection[Learner] = ()) -> ExplicitOracle:
        """Return the oracle itself: all columns are candidates. Constants are no part of it."""
        return self

    def subset(self, rows: np.ndarray) -> ExplicitOracle:
        """See :class:`totalqboost.dictionaries.base.Oracle`."""
        y = self.y[rows]
        return ExplicitOracle(self.learners, self.A[:, rows] * y, y, self.n_features)

    def sampled(self, rows: np.ndarray) -> ExplicitOracle:
        """See :class:`totalqboost.dictionaries.base.SampledOracle`."""
        return self.subset(rows)

    def learner(self, s: int) -> Learner:
        return self.learners[s]

    def sums(self, Q: np.ndarray, rows: np.ndarray, kept: Collection[Learner] = ()) -> np.ndarray:
        """See :class:`totalqboost.dictionaries.base.Candidates`."""
        signed = Q * self.y[rows, None].astype(np.float32)
        out = np.empty((len(self.A), Q.shape[1]), np.float32)
        for j in range(0, len(self.A), BLOCK):  # float32 copies of parts only
            np.dot(self.A[j : j + BLOCK][:, rows].astype(np.float32), signed, out[j : j + BLOCK])
        return out

    def edges(self, values: np.ndarray, over: float = 1.0) -> np.ndarray:
        """See :class:`totalqboost.dictionaries.base.Candidates`."""
        return self._product(values / over * self.y)

    def refined(self, learner: Learner, shift: Shift) -> Learner | None:
        """Return None: given columns have no neighbours."""
        return None

    def _product(self, u: np.ndarray) -> np.ndarray:
        out = np.empty(len(self.A))
        correlate(self.A, np.arange(len(self.A)), u, out)
        return out

    def _decrease(
        self, u: np.ndarray, edges: np.ndarray, curvature: np.ndarray, nu: float, tie: float
    ) -> np.ndarray:
        """Return the decrease with a free intercept; a column is a cut between its two signs."""
        rule = price_rule(u, curvature)
        g, h = float((u * self.y).sum()), float(curvature.sum())
        left_g, left_h = 0.5 * (g - edges), 0.5 * (h - self._product(curvature * self.y))
        prices = np.empty(len(edges))
        signs = np.empty(len(prices), dtype=np.int8)
        prices_of_cuts(rule, left_g, left_h, g, h, nu, tie, prices, signs)
        return np.where(signs > 0, prices, 0.0)
