"""Conjunctions of two conditions, beside all stumps: "age > 40 and city in {a, b}".

First conditions are the best few stumps, each on both its sides; for each, one pass over the rows
inside prices every second condition. A conjunction compares twice, and pays for the second
comparison like for an extra (see :class:`Oracle`): where features do not interact it is not worth
its price.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from heapq import merge
from typing import Any

import numpy as np

from totalqboost.dictionaries.base import Candidate, Candidates, Shift, price_rule
from totalqboost.dictionaries.grid import Joined
from totalqboost.dictionaries.pricing import Offer, Pricing
from totalqboost.dictionaries.special import moved_cut, sums_by_bin
from totalqboost.dictionaries.stumps import StumpOracle, Stumps
from totalqboost.kernels.histogram import BY_EDGE, BY_NEWTON_DECREASE
from totalqboost.kernels.loss_codes import CUSTOM
from totalqboost.kernels.pairs import best_conjunctions
from totalqboost.learners import Both, Constant, Feature, Learner, Stump

__all__ = ["PairOracle", "Pairs"]

N_FIRST = 8  # stumps that are tried as first conditions
PER_FEATURE = 2  # of them, at most, of one feature
N_CANDIDATES = 32  # conjunctions that an exchange scores because they are best now, or best alone


@dataclass(frozen=True)
class Pairs:
    """All decision stumps, and conjunctions of two conditions.

    Parameters
    ----------
    max_bins : int, optional
        As in :class:`Stumps`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> oracle = Pairs().prepare(X, np.array([-1, -1, -1, 1]))
    >>> u = np.full(4, 0.25)
    >>> oracle.best(u, curvature=0.5 * u)[0].learner
    Both(first=Stump(feature=0, threshold=0.5, polarity=1), \
second=Stump(feature=1, threshold=0.5, polarity=1), polarity=1)
    """

    max_bins: int | None = None

    def __post_init__(self) -> None:
        Stumps(self.max_bins)

    def prepare(
        self,
        X: np.ndarray,
        y: np.ndarray,
        n_jobs: int | None = None,
        features: Sequence[Feature] | None = None,
        weight: np.ndarray | None = None,
    ) -> PairOracle:
        """Code the features by rank and return the oracle."""
        base = Stumps(self.max_bins).prepare(X, y, n_jobs, features, weight)
        return PairOracle(base.with_dense_codes())


class PairOracle:
    """The stumps of another oracle, and conjunctions of two of their conditions.

    Features that may go one way only take part in stumps, not in conjunctions.
    """

    def __init__(self, base: StumpOracle):
        self.base, self.y = base, base.y
        self.n_features = base.n_features
        self.n_columns = base.n_columns + 2 * base.n_columns * (base.n_columns - 1)

    def told(self, learners: Sequence[Learner], weights: np.ndarray) -> None:
        """See :class:`totalqboost.dictionaries.base.Oracle`; weights of rows say all here."""

    @property
    def constants(self) -> tuple[Learner, ...]:
        """See :class:`totalqboost.dictionaries.base.Oracle`."""
        return self.base.constants

    def subset(self, rows: np.ndarray) -> PairOracle:
        """See :class:`totalqboost.dictionaries.base.Oracle`."""
        return self._over(self.base.subset(rows))

    def sampled(self, rows: np.ndarray) -> PairOracle:
        """See :class:`totalqboost.dictionaries.base.SampledOracle`."""
        return self._over(self.base.sampled(rows))

    def _over(self, base: StumpOracle) -> PairOracle:
        other = copy(self)
        other.base, other.y = base, base.y
        return other

    def n_extras(self, learner: Learner) -> int:
        """Return one for the second comparison, and what the conditions have."""
        if isinstance(learner, Both):
            return 1 + sum(self.base.n_extras(part) for part in learner.parts)
        return self.base.n_extras(learner)

    @property
    def is_symmetric(self) -> bool:
        """See :class:`totalqboost.dictionaries.base.Oracle`."""
        return self.base.is_symmetric

    def has_opposite(self, learner: Learner) -> bool:
        """See :class:`totalqboost.dictionaries.base.Oracle`."""
        return self.base.has_opposite(learner)

    def column(self, learner: Learner) -> np.ndarray:
        """See :class:`totalqboost.dictionaries.base.Oracle`."""
        if not isinstance(learner, Both):
            return self.base.column(learner)
        holds = self._holds(learner.first) & self._holds(learner.second)
        return np.where(holds == (learner.polarity > 0), self.y, -self.y)

    def _holds(self, condition: Learner) -> np.ndarray:
        return self.base.column(condition) == self.y

    # -- pricing -----------------------------------------------------------------------

    def best(
        self,
        u: np.ndarray,
        exclude: Collection[Learner] = (),
        n: int = 1,
        curvature: np.ndarray | None = None,
        nu: float = 0.0,
        extra: float = 0.0,
    ) -> list[Candidate]:
        """See :class:`totalqboost.dictionaries.base.Oracle`; not all conjunctions are priced."""
        g = np.multiply(u, self.y, dtype=float)
        h = u if curvature is None else curvature
        found = self.base.best(u, exclude, n, curvature, nu, extra)
        pricing = Pricing.by(price_rule(u, curvature), g, nu, extra)
        for pair in self.best_pairs(g, h, pricing, n, exclude):
            found.append(Candidate(pair.learner, self.column(pair.learner), pair.edge, pair.price))
        found.sort(key=lambda c: -np.rint(c.price / pricing.quantum))
        return found[:n]

    def best_pairs(
        self,
        g: np.ndarray,
        h: np.ndarray,
        pricing: Pricing,
        n: int,
        exclude: Collection[Learner] = (),
    ) -> list[Offer]:
        """Return the best n conjunctions of those that are priced, best first."""
        firsts = list(self._firsts(g, h, pricing))
        cuts, sets = [np.zeros((0, 6))], list[Offer]()
        for number, first in enumerate(firsts):
            rows = np.flatnonzero(self._holds(first))
            own = self._cuts(rows, g, h, pricing)
            own[:, 0] -= pricing.fee(1 + self.base.n_extras(first))
            cuts.append(np.column_stack([own, np.full(len(own), number)]))
            sets += self._sets(first, rows, g, h, pricing)
        sets.sort(key=lambda pair: -pair.price)
        sorted_cuts = self._sorted(np.concatenate(cuts), firsts)
        best: dict[Learner, Offer] = {}
        for item in merge(sorted_cuts, sets, key=lambda pair: -pair.price):
            if len(best) == n:
                break
            pair: Any = item.learner
            if pair not in exclude and len(pair.parts) == 2:
                best.setdefault(pair, item)
        return list(best.values())

    def _sorted(self, cuts: np.ndarray, firsts: Sequence[Learner]) -> Iterator[Offer]:
        """Yield the conjunctions of a table of cuts, best first; most are never made."""
        for row in cuts[np.argsort(-cuts[:, 0], kind="stable")]:
            price, edge = row[:2].tolist()
            feature, key, turn, number = row[2:].astype(int).tolist()
            second = Stump(feature, float(self.base.thresholds[feature][key // 2]), turn)
            pair = Both.of(firsts[number], second, turn if key % 2 == 0 else -turn)
            yield Offer(price, edge, pair)

    def _firsts(self, g: np.ndarray, h: np.ndarray, pricing: Pricing) -> Iterator[Learner]:
        """Yield the best few stumps, not many of one feature, and their opposites."""
        u = g * self.y
        curvature = None if pricing.rule == BY_EDGE else h
        counts: Counter[int] = Counter()
        for candidate in self.base.best(u, (), 3 * N_FIRST, curvature, pricing.nu, pricing.extra):
            learner: Any = candidate.learner
            if isinstance(learner, Constant) or not self.has_opposite(learner):
                continue
            counts[learner.feature] += 1
            if counts[learner.feature] <= PER_FEATURE:
                yield learner
                yield learner.negated()
            if sum(min(count, PER_FEATURE) for count in counts.values()) == N_FIRST:
                return

    def _cuts(self, rows: np.ndarray, g: np.ndarray, h: np.ndarray, pricing: Pricing) -> np.ndarray:
        """Return the best cuts of each feature where the first condition holds.

        Columns are price, edge, feature, key, and the polarity of the condition.
        """
        by = pricing.rule, pricing.nu, pricing.tie
        parts = [np.zeros((0, 5))]
        for group in self.base.groups:
            shape = len(group.features), 2, 1
            prices, edges = np.full(shape, -np.inf), np.zeros(shape)
            keys = np.full(shape, -1, dtype=np.int64)
            given = group.codes, group.n_codes, rows, g, h, float(g.sum()), float(h.sum())
            best_conjunctions(*given, *by, prices, keys, edges)
            row, direction = np.nonzero((keys[:, :, 0] >= 0) & (group.polarity == 0)[:, None])
            at = row, direction, 0
            feature, turn = group.features[row], 1 - 2 * direction
            parts.append(np.column_stack([prices[at], edges[at], feature, keys[at], turn]))
        return np.concatenate(parts)

    def _sets(
        self, first: Any, rows: np.ndarray, g: np.ndarray, h: np.ndarray, pricing: Pricing
    ) -> Iterator[Offer]:
        """Yield the best conjunctions of one condition and a set of bins of special features."""
        total = np.array([g.sum(), h.sum()])
        for own in self.base.special.values():
            if self.base.polarity[own.feature]:
                continue
            codes = own.codes[rows]
            bins = np.column_stack([sums_by_bin(codes, v[rows], own.n_bins) for v in (g, h)])
            sets = own.sets(bins[:, 0], bins[:, 1])
            if not len(sets.extras):
                continue
            inside = sets.inside(bins)
            for turn, held in ((1, inside), (-1, bins.sum(axis=0) - inside)):
                prices, signs = pricing.of_sets(held, total, sets.extras)
                t = int(np.argmax(prices))
                condition: Any = sets.learner(t)
                second = condition if turn > 0 else condition.negated()
                pair = Both.of(first, second, int(signs[t]))
                edge = float(signs[t] * (2.0 * held[t, 0] - total[0]))
                others = self.n_extras(pair) - int(sets.extras[t])
                yield Offer(float(prices[t] - pricing.fee(others)), edge, pair)

    # -- exchange ----------------------------------------------------------------------

    def candidates(self, with_constant: bool, wanted: Collection[Learner] = ()) -> Candidates:
        """Return those of the stumps, and the conjunctions that are best now or best alone."""
        pairs = [learner for learner in wanted if isinstance(learner, Both)]
        return Joined(
            self.base.candidates(with_constant, wanted), PairGrid(self, not with_constant, pairs)
        )

    def refined(self, learner: Learner, shift: Shift) -> Learner | None:
        """Return the conjunction with one of its cuts moved, by exact change of the risk."""
        if not isinstance(learner, Both):
            return self.base.refined(learner, shift)
        if shift.loss.code == CUSTOM:
            return None
        first, second = learner.parts
        for moving, other in ((first, second), (second, first)):
            moved = self._moved(moving, self._holds(other), learner.polarity, shift)
            if moved is not None and moved != moving:
                return Both.of(moved, other, learner.polarity)
        return None

    def _moved(self, part: Learner, inside: np.ndarray, sign: int, shift: Shift) -> Learner | None:
        """Return a condition with its cut moved, where the other condition holds."""
        if not isinstance(part, Stump) or part.feature in self.base.special:
            return None
        thresholds = self.base.thresholds[part.feature]
        order, _ = self.base.sorted_rows(part.feature)
        order = order[inside[order]]
        counts = np.bincount(self.base.codes(part.feature)[order], minlength=len(thresholds) + 1)
        start = np.concatenate([[0], np.cumsum(counts)])
        cut = int(np.searchsorted(thresholds, part.threshold))
        stump = replace(part, polarity=sign * part.polarity)
        new = moved_cut(order, start, cut, len(thresholds), stump, shift, self.y)
        return replace(part, threshold=float(thresholds[new]))


class PairGrid:
    """Conjunctions that an exchange scores: those best at this pass, best alone, and wanted."""

    def __init__(self, oracle: PairOracle, has_curvature: bool, wanted: Sequence[Both]):
        self.oracle, self.has_curvature = oracle, has_curvature
        weight = oracle.base.weight
        slope = weight * oracle.y
        alone = self._best(slope - weight * slope.sum(), weight)
        self._fixed = list(dict.fromkeys([*(_positive(h) for h in wanted), *alone]))
        self._known = {pair: oracle.column(pair) for pair in self._fixed}
        self._choose(self._fixed)

    def _best(self, g: np.ndarray, h: np.ndarray) -> list[Both]:
        pricing = Pricing.by(BY_NEWTON_DECREASE if self.has_curvature else BY_EDGE, g)
        best = self.oracle.best_pairs(g, h, pricing, N_CANDIDATES)
        return list(dict.fromkeys(_positive(pair.learner) for pair in best))

    def _choose(self, learners: list[Both]) -> None:
        self.learners = learners
        self.is_signed = np.ones(len(learners), dtype=bool)
        self.extras = np.array([self.oracle.n_extras(h) for h in learners], dtype=int)
        self.features = np.array([h.features[0] for h in learners], dtype=int)

    def learner(self, s: int) -> Learner:
        """Return a conjunction of the last pass."""
        return self.learners[s]

    def sums(self, Q: np.ndarray, rows: np.ndarray, kept: Collection[Learner] = ()) -> np.ndarray:
        """See :class:`totalqboost.dictionaries.base.Candidates`."""
        g, h = np.zeros((2, len(self.oracle.y)))
        g[rows], h[rows] = Q[:, 0], Q[:, 1] if self.has_curvature else 1.0
        self._choose(list(dict.fromkeys([*self._fixed, *self._best(g, h)])))
        y = self.oracle.y[rows]
        signs = np.empty((len(self.learners), len(rows)), np.float32)
        for row, pair in zip(signs, self.learners, strict=True):
            column = self._known[pair] if pair in self._known else self.oracle.column(pair)
            np.multiply(column[rows], y, out=row)
        return signs @ Q

    def edges(self, values: np.ndarray, over: float = 1.0) -> np.ndarray:
        """See :class:`totalqboost.dictionaries.base.Candidates`."""
        signed = values / over * self.oracle.y
        return np.array([self.oracle.column(pair) @ signed for pair in self.learners])


def _positive(pair: Any) -> Both:
    return pair if pair.polarity > 0 else pair.negated()
