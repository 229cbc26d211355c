"""Dictionaries too large to list: weak classifiers are made as boosting asks for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from totalqboost.dictionaries.base import Candidate
from totalqboost.dictionaries.explicit import ExplicitOracle, refuse_monotone
from totalqboost.learners import Constant, Feature, Fitted, Learner

__all__ = ["Proposals", "ProposedOracle"]


class Proposals(ABC):
    """A dictionary that makes weak classifiers for given boosting weights; write ``propose``.

    What was proposed stays on offer, so that ensembles can trade their weak classifiers for all
    that were ever made.

    Attributes
    ----------
    n_columns : int
        How many weak classifiers there are in all, as far as one can tell; only the price "ric"
        asks for it.
    """

    n_columns: int = 2

    @abstractmethod
    def propose(self, X: np.ndarray, y: np.ndarray, u: np.ndarray) -> Iterable[Learner]:
        """Return weak classifiers h, some of which have a large sum_i u_i y_i h(x_i).

        The answer may depend on the arguments alone. Labels y are -1 and +1; weights u are
        positive for losses that fall everywhere. The number of a ``Fitted`` does not matter.
        """

    def prepare(
        self,
        X: Any,
        y: np.ndarray,
        n_jobs: int | None = None,
        features: Sequence[Feature] | None = None,
        weight: np.ndarray | None = None,
    ) -> ProposedOracle:
        """See :class:`totalqboost.dictionaries.base.Dictionary`."""
        refuse_monotone(features, "proposals")
        return ProposedOracle(self, X, y)


class ProposedOracle(ExplicitOracle):
    """The columns of all that was proposed so far; it grows whenever it is asked."""

    def __init__(self, dictionary: Proposals, X: Any, y: np.ndarray):
        super().__init__([], np.empty((0, len(y)), np.int8), y, X.shape[1])
        self.n_columns = dictionary.n_columns
        self.dictionary, self.X = dictionary, X
        self._seen: set[bytes] = set()
        self._asked: np.ndarray | None = None

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
        if self._asked is None or not np.array_equal(u, self._asked):
            self._take(self.dictionary.propose(self.X, self.y, u))
            self._asked = np.array(u)
        return super().best(u, exclude, n, curvature, nu, extra)

    def subset(self, rows: np.ndarray) -> ProposedOracle:
        """Return an oracle that begins anew, and has seen nothing of the other rows."""
        return ProposedOracle(self.dictionary, self.X[rows], self.y[rows])

    def _take(self, learners: Iterable[Learner]) -> None:
        """Add the columns of what is new."""
        columns: list[np.ndarray] = []
        made: list[Learner] = []
        for learner in learners:
            signs = np.asarray(learner.predict(self.X))
            if signs.shape != self.y.shape or not np.isin(signs, (-1, 1)).all():
                raise ValueError(f"{learner!r} must predict -1 or +1, one value per row")
            key = np.packbits(signs > 0).tobytes()
            if key in self._seen or isinstance(learner, Constant):
                continue
            self._seen.add(key)
            if isinstance(learner, Fitted):  # known by its number
                learner = replace(learner, index=len(self.learners) + len(made))
            columns.append(signs * self.y)
            made.append(learner)
        if made:
            A = np.concatenate([self.A, np.array(columns, dtype=np.int8)])
            self._hold([*self.learners, *made], A)
