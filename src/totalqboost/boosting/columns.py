"""H: the columns generated so far, and the restricted master problem over them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from totalqboost.learners import Learner
from totalqboost.losses import Loss
from totalqboost.master import MasterProblem

__all__ = ["GeneratedColumns", "Terms"]


@dataclass(frozen=True, eq=False)
class Terms:
    """What is minimised, whatever the columns.

    Attributes
    ----------
    loss : Loss
        Loss of the margin.
    sample_weight : array
        c, summing to one.
    nu, lam : float
        Weights of the l1 term and of the cardinality.
    max_learners : int, optional
        Hard limit on the number of kept columns.
    free_intercept : bool
        The two constant classifiers are in H at cost 0, and columns are priced by what they
        bring together with them.
    extra : float
        Price of each of a learner's ``extras``, in units of the objective.
    feature_price : array, optional
        What each feature costs, however many kept learners look at it, in units of the objective.
    max_features : int, optional
        Hard limit on the number of features that kept learners look at.
    n_bits : int, optional
        Final weights are integers of so many bits times one scale; real numbers by default.
    """

    loss: Loss
    sample_weight: np.ndarray
    nu: float = 1e-6
    lam: float = 0.0
    max_learners: int | None = None
    free_intercept: bool = False
    extra: float = 0.0
    feature_price: np.ndarray | None = None
    max_features: int | None = None
    n_bits: int | None = None

    @property
    def is_penalised(self) -> bool:
        """Whether there is anything for line 10 to decide."""
        is_limited = self.max_learners is not None or self.max_features is not None
        return self.lam > 0 or is_limited or self.feature_price is not None

    @property
    def has_features(self) -> bool:
        """Whether it matters which features learners look at."""
        return self.feature_price is not None or self.max_features is not None


class GeneratedColumns:
    """A growing set of columns; with the terms it makes a MasterProblem.

    ``blacklist`` holds every learner that the oracle must not offer again: all that are in
    H, kept or not (line 7 of Algorithm 1), and those whose column equals one in H.
    """

    def __init__(self, terms: Terms, n_features: int):
        self.terms, self.n_features = terms, n_features
        self._buffer = np.empty((16, len(terms.sample_weight)), dtype=np.int8)
        self._cost, self._fee = np.empty(16), np.empty(16)
        self._seen: set[bytes] = set()
        self.learners: list[Learner] = []
        self.blacklist: set[Learner] = set()

    def __len__(self) -> int:
        return len(self.learners)

    def problem(self) -> MasterProblem:
        """Return the restricted master problem over the columns so far."""
        n, t = len(self), self.terms
        return MasterProblem.trusted(
            self._buffer[:n],
            t.nu,
            t.lam,
            self._cost[:n],
            t.loss,
            t.sample_weight,
            t.max_learners,
            self._fee[:n] if t.extra > 0.0 else None,
            self._reads() if t.has_features else None,
            t.feature_price,
            t.max_features,
        )

    def _reads(self) -> np.ndarray:
        """Return which column looks at which feature; those that are free look at none."""
        reads = np.zeros((len(self), self.n_features), dtype=bool)
        for j, learner in enumerate(self.learners):
            reads[j, list(learner.features)] = True
        return reads

    def is_new(self, column: np.ndarray) -> bool:
        """Tell whether no column of H has the same values."""
        return _fingerprint(column) not in self._seen

    def add(
        self, learner: Learner, column: np.ndarray, cost: float = 1.0, fee: float = 0.0
    ) -> None:
        """Add a column to H (line 8).

        The learner comes last: it alone decides how long H is, so that an interruption at any
        moment leaves a whole number of columns.
        """
        n = len(self)
        if n == len(self._buffer):
            self._buffer = np.concatenate([self._buffer, np.empty_like(self._buffer)])
            self._cost = np.concatenate([self._cost, np.empty_like(self._cost)])
            self._fee = np.concatenate([self._fee, np.empty_like(self._fee)])
        self._buffer[n] = column
        self._cost[n], self._fee[n] = cost, fee
        self._seen.add(_fingerprint(column))
        self.blacklist.add(learner)
        self.learners.append(learner)


def _fingerprint(column: np.ndarray) -> bytes:
    return hashlib.blake2b(np.packbits(column > 0).tobytes(), digest_size=16).digest()
