"""What an ensemble pays beyond its size: extras of its learners, and the features it looks at.

All ensembles of one size pay the same price per learner, so that a search may leave it out; fees
it may not. They are those of :class:`totalqboost.master.MasterProblem`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from totalqboost.boosting.columns import Terms
from totalqboost.dictionaries.base import Candidates, Oracle
from totalqboost.learners import Learner

__all__ = ["Fees", "NewcomerFees", "SlotFees"]


class NewcomerFees(NamedTuple):
    """Per candidate: its fee, that where a feature becomes free, and its feature."""

    kept: np.ndarray
    freed: np.ndarray
    features: np.ndarray


class SlotFees(NamedTuple):
    """Per slot: what dropping it gives back, and the feature that it alone looks at, or -1."""

    back: np.ndarray
    last: np.ndarray
    again: np.ndarray  # price of that feature


class Fees:
    """The fees of ensembles of an oracle's learners."""

    def __init__(self, oracle: Oracle, terms: Terms):
        self.oracle, self.extra = oracle, terms.extra
        self.limit = terms.max_features
        price = terms.feature_price
        self.price = np.zeros(oracle.n_features) if price is None else price
        self.has_features = price is not None or self.limit is not None
        self.is_free = not self.has_features and not self.extra > 0.0
        self._nothing = NewcomerFees(*np.zeros((3, 0)))  # of as many candidates as there were last

    def total(self, learners: Sequence[Learner]) -> float:
        """Return what the learners pay together."""
        if self.is_free:
            return 0.0
        return self.extra * self._extras(learners) + self._of_features(read(learners))

    def _extras(self, learners: Iterable[Learner]) -> int:
        return sum(self.oracle.n_extras(h) for h in learners) if self.extra > 0.0 else 0

    def _of_features(self, features: Iterable[int]) -> float:
        return float(sum(self.price[f] for f in features)) if self.has_features else 0.0

    def allows(self, learners: Sequence[Learner]) -> bool:
        """Tell whether they look at no more features than they may."""
        return self.limit is None or len(read(learners)) <= self.limit

    def of_newcomers(self, candidates: Candidates, learners: Sequence[Learner]) -> NewcomerFees:
        """Return what candidates would pay beside the learners."""
        if self.is_free:
            return self._no_fees(len(candidates.features))
        extras, features = self.extra * candidates.extras, candidates.features
        if not self.has_features:
            return NewcomerFees(extras, extras, features)
        used = read(learners)
        is_new = ~np.isin(features, [-1, *used])
        kept = extras + np.where(is_new, self.price[features], 0.0)
        if self.limit is None or len(used) < self.limit:
            return NewcomerFees(kept, kept, features)
        full = np.where(is_new, np.inf, kept)
        return NewcomerFees(full, kept if len(used) == self.limit else full, features)

    def _no_fees(self, n: int) -> NewcomerFees:
        if len(self._nothing.kept) != n:
            zeros = np.zeros(n)
            self._nothing = NewcomerFees(zeros, zeros, np.full(n, -1))
        return self._nothing

    def of_slots(self, learners: Sequence[Learner]) -> SlotFees:
        """Return what the learners would give back, each if it were dropped alone."""
        if self.is_free:
            nothing = np.zeros(len(learners))
            return SlotFees(nothing, np.full(len(learners), -1), nothing)
        back = np.array([self.extra * self._extras([h]) for h in learners])
        last = np.full(len(learners), -1)
        if self.has_features:
            counts = Counter(f for h in learners for f in h.features)
            for j, h in enumerate(learners):
                alone = [f for f in h.features if counts[f] == 1]
                back[j] += self._of_features(alone)
                last[j] = alone[0] if alone else -1
        again = np.where(last >= 0, self.price[last] if self.has_features else 0.0, 0.0)
        return SlotFees(back, last, again)


def read(learners: Iterable[Learner]) -> set[int]:
    """Return the features that the learners look at."""
    return {feature for learner in learners for feature in learner.features}
