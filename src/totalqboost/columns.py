"""H: the columns generated so far, and the restricted master problem over them."""

from __future__ import annotations

import hashlib

import numpy as np

from totalqboost.dictionaries.base import Candidate
from totalqboost.learners import Learner
from totalqboost.losses import Loss
from totalqboost.master import MasterProblem

__all__ = ["GeneratedColumns"]


class GeneratedColumns:
    """A growing set of columns, with the settings that turn it into a MasterProblem.

    ``blacklist`` holds every learner that the oracle must not offer again: all that are in
    H, kept or not (line 7 of Algorithm 1), and those whose column equals one in H.
    """

    def __init__(
        self,
        n_rows: int,
        capacity: int,
        loss: Loss,
        nu: float,
        lam: float,
        max_learners: int | None = None,
        sample_weight: np.ndarray | None = None,
    ):
        # Memory that is never written is never taken, up to what the system will promise.
        self._buffer = np.empty((min(capacity, 256), n_rows), dtype=np.int8)
        self._cost: list[float] = []
        self._seen: set[bytes] = set()
        self.loss = loss
        weight = np.ones(n_rows) if sample_weight is None else np.asarray(sample_weight, float)
        self.sample_weight = weight / weight.sum()
        self.nu, self.lam = nu, lam
        self.max_learners = max_learners  # may be changed between problems
        self.learners: list[Learner] = []
        self.blacklist: set[Learner] = set()

    def __len__(self) -> int:
        return len(self.learners)

    def problem(self) -> MasterProblem:
        """Return the restricted master problem over the columns so far."""
        A, cost = self._buffer[: len(self)], np.array(self._cost[: len(self)])
        return MasterProblem(
            A, self.nu, self.lam, cost, self.loss, self.sample_weight, self.max_learners
        )

    def is_new(self, column: np.ndarray) -> bool:
        """Tell whether no column of H has the same values."""
        return _fingerprint(column) not in self._seen

    def add(self, candidate: Candidate, cost: float = 1.0) -> None:
        """Add a column to H (line 8).

        The learner comes last: it alone decides how long H is, so that an interruption at any
        moment leaves a whole number of columns. The same holds below.
        """
        if len(self) == len(self._buffer):
            self._buffer = np.concatenate([self._buffer, np.empty_like(self._buffer)])
        self._buffer[len(self)] = candidate.column
        self._cost[len(self) :] = [cost]
        self._seen.add(_fingerprint(candidate.column))
        self.blacklist.add(candidate.learner)
        self.learners.append(candidate.learner)

    def withdraw(self) -> None:
        """Take the last column back; it may be offered again."""
        seen = _fingerprint(self._buffer[len(self) - 1])
        self.blacklist.discard(self.learners.pop())
        self._seen.discard(seen)

    def replace(self, j: int) -> None:
        """Put the last column in the place of column j, which may be offered again.

        H does not grow by exchanges: with many rows a column is worth saving.
        """
        seen, old = _fingerprint(self._buffer[j]), self.learners[j]
        self._buffer[j] = self._buffer[len(self) - 1]
        self._cost[j] = self._cost[len(self) - 1]
        self.learners[j] = self.learners.pop()
        self._seen.discard(seen)
        self.blacklist.discard(old)


def _fingerprint(column: np.ndarray) -> bytes:
    return hashlib.blake2b(np.packbits(column > 0).tobytes(), digest_size=16).digest()
