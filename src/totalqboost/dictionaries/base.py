"""Protocols of dictionaries: where the columns of H come from."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from totalqboost.kernels.histogram import (
    BY_EDGE,
    BY_EXPONENTIAL_DECREASE,
    BY_NEWTON_DECREASE,
)
from totalqboost.learners import Feature, Learner
from totalqboost.losses import Loss

__all__ = ["Candidate", "Candidates", "Dictionary", "Oracle", "Shift", "price_rule"]


@dataclass(frozen=True)
class Candidate:
    """A column on offer.

    Attributes
    ----------
    learner : Learner
        The weak classifier h.
    column : array of int8
        y_i h(x_i) per training example: a row of ``MasterProblem.A``.
    edge : float
        sum_i u_i y_i h(x_i), the left side of its dual constraint (eq. 5).
    price : float
        What it was chosen by: the edge, or the decrease together with a free intercept.

    Examples
    --------
    >>> import numpy as np
    >>> from totalqboost.dictionaries import Stumps
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([-1, 1, 1])
    >>> best = Stumps().prepare(X, y).best(np.ones(3) / 3)[0]
    >>> best.learner.threshold, best.column.tolist()
    (1.5, [1, 1, 1])
    """

    learner: Learner
    column: np.ndarray
    edge: float
    price: float


@dataclass(frozen=True, eq=False)
class Shift:
    """A kept learner's weight (of either sign) in an ensemble of margins z, u = -c l'(z)."""

    weight: float
    z: np.ndarray
    u: np.ndarray
    sample_weight: np.ndarray
    loss: Loss
    extra: float = 0.0  # what each of a learner's extras costs


class Candidates(Protocol):
    """Many columns of a dictionary that an exchange scores at once.

    What they are may depend on the last call of ``sums``, whose first column is the slope.

    Attributes
    ----------
    is_signed : array of bool
        Whether the opposite of a column is in the dictionary too, so that its weight may have
        either sign; ``learner`` returns the positive one then.
    extras : array of int
        The extras of each column; see :class:`Oracle`.
    features : array of int
        The feature each column looks at, -1 if none.
    """

    @property
    def is_signed(self) -> np.ndarray: ...

    @property
    def extras(self) -> np.ndarray: ...

    @property
    def features(self) -> np.ndarray: ...

    def sums(self, Q: np.ndarray, rows: np.ndarray, kept: Collection[Learner] = ()) -> np.ndarray:
        """Return sum_i h_s(x_i) Q[i] over the given rows, a row per column s.

        The first column of Q is y u: votes go with its sums. Learners that are ``kept`` already
        may have zeros.
        """

    def edges(self, values: np.ndarray, over: float = 1.0) -> np.ndarray:
        """Return sum_i h_s(x_i) values_i / over, all rows, of the columns of the last ``sums``.

        Values are the slopes y u at the ensemble that the oracle was told of.
        """

    def learner(self, s: int) -> Learner:
        """Return h_s."""


class Oracle(Protocol):
    """Line 7 of Algorithm 1: the best columns for given boosting weights.

    Examples
    --------
    >>> import numpy as np
    >>> from totalqboost.dictionaries import Stumps
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([-1, 1, 1])
    >>> oracle = Stumps().prepare(X, y)
    >>> oracle.n_features, float(oracle.best(np.ones(3) / 3)[0].edge)
    (1, 1.0)
    """

    y: np.ndarray
    n_features: int

    @property
    def constants(self) -> tuple[Learner, ...]:
        """The learners that are free where there is an intercept; they have a ``negated``."""

    @property
    def n_columns(self) -> int:
        """The number of weak classifiers; one and its opposite are one."""

    def told(self, learners: Sequence[Learner], weights: np.ndarray) -> None:
        """Hear of which ensemble the boosting weights are that come next.

        For oracles whose rows are elsewhere: they send these few numbers instead of weights of
        rows. Others need not listen.
        """

    def best(
        self,
        u: np.ndarray,
        exclude: Collection[Learner] = (),
        n: int = 1,
        curvature: np.ndarray | None = None,
        nu: float = 0.0,
        extra: float = 0.0,
    ) -> list[Candidate]:
        """Return up to n columns not in ``exclude``, best first; ties go to the first one.

        Without ``curvature`` columns are priced by their edge, the most violated dual
        constraint. With ``curvature`` (c_i l''(z_i)) they are priced by the decrease of the
        risk that they bring together with the best shift of a free intercept: exactly, by
        Schapire and Singer's Z, if the curvature equals u (the exponential loss), else to
        second order, less what ``nu`` takes of it. Then a column that has extras pays ``extra``
        for each.
        """

    def n_extras(self, learner: Learner) -> int:
        """Return for how much a learner has to pay beyond its place: categories after the first
        one, or a missing value that goes its own way.
        """

    @property
    def is_symmetric(self) -> bool:
        """Whether -h is in the dictionary with every h."""

    def has_opposite(self, learner: Learner) -> bool:
        """Tell whether -h is in the dictionary too: then a weight may have either sign."""

    def column(self, learner: Learner) -> np.ndarray:
        """Return y_i h(x_i) of a learner of this dictionary, or of a constant."""

    def candidates(self, with_constant: bool, wanted: Collection[Learner] = ()) -> Candidates:
        """Return the columns to score in an exchange: all, or a choice that stands for them.

        The choice holds as many as possible of those ``wanted``, the first ones first.
        """

    def subset(self, rows: np.ndarray) -> Oracle:
        """Return the oracle of some of the rows, which offers the same weak classifiers."""

    def refined(self, learner: Learner, shift: Shift) -> Learner | None:
        """Return the best neighbour of a kept learner, its weight as it is; None: itself."""


@runtime_checkable
class SampledOracle(Protocol):
    """An oracle that a search may try out on some rows first, where rows are very many."""

    def sampled(self, rows: np.ndarray) -> Oracle:
        """Return the oracle of some rows that stand for all; it has them in memory.

        Whatever learner it offers, the oracle of all rows knows.
        """


class Dictionary(Protocol):
    """Settings of a family of weak classifiers; ``prepare`` binds it to data.

    Examples
    --------
    >>> import numpy as np
    >>> from totalqboost.dictionaries import Stumps
    >>> oracle = Stumps(max_bins=16).prepare(np.arange(8.0)[:, None], np.array([-1, 1] * 4))
    >>> oracle.n_features
    1
    """

    def prepare(
        self,
        X: np.ndarray,
        y: np.ndarray,
        n_jobs: int | None = None,
        features: Sequence[Feature] | None = None,
        weight: np.ndarray | None = None,
    ) -> Oracle:
        """Return the oracle for examples X with labels y in {-1, +1}.

        Without ``features`` all columns of X are numbers, without ``weight`` all examples count
        the same.
        """


def price_rule(u: np.ndarray, curvature: np.ndarray | None) -> int:
    """Return the rule of the kernels by which :meth:`Oracle.best` prices columns."""
    if curvature is None:
        return BY_EDGE
    is_exponential = curvature is u or np.array_equal(curvature, u)
    return BY_EXPONENTIAL_DECREASE if is_exponential else BY_NEWTON_DECREASE
