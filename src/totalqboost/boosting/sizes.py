"""The best ensemble of every size that a search over the whole dictionary finds.

Beyond the paper: Algorithm 1 chooses among the columns that it generated, this search among all.
Sizes are walked up (add the best column, exchange, refine) and down (drop the weakest, exchange,
refine), up to milestones that do not depend on how many sizes are asked for: a longer search
begins with all of a shorter one. Plain column generation offers its first k columns for every
size k. So no ensemble is worse than plain column generation stopped at its size, nor than what
a shorter search found.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from totalqboost.boosting.engine import Engine
from totalqboost.boosting.result import Event, Searched
from totalqboost.boosting.support import NONE, Snapshot, Support
from totalqboost.learners import Constant, Learner, Stump
from totalqboost.refit import refit_value

__all__ = ["SizeSearch", "signed", "unsigned"]

MILESTONES = (12, 25, 50, 100, 200, 400, 800)  # sizes
BEYOND = 5  # a walk goes this fraction of a milestone beyond it, to come back
WALK = 1e-4  # relative gain that a swap must bring on the way
POLISH = 1e-6  # and at the end
BETTER = 1e-7  # relative difference of two objectives that counts
FEW = 6  # sizes that are small enough to try every slot with several newcomers, on any data
TRIAL_WORK = 200_000  # size x rows x features up to which that is done too
EXCURSION_WORK = 100_000  # rows x (features + 20) of one round of excursions
MAX_EXCURSIONS = 4  # rounds


class SizeSearch:
    """The best ensembles so far, by size, and the walks that improve them."""

    def __init__(self, engine: Engine, on_event: Event | None = None):
        self.engine, self.on_event = engine, on_event
        self.support = Support(engine.oracle, engine.terms, MILESTONES[0] + FEW)
        self.best: dict[int, Snapshot] = {}
        self.n_done = 0  # milestones
        m, d = len(engine.oracle.y), engine.oracle.n_features
        self.n_excursions = min(MAX_EXCURSIONS, EXCURSION_WORK // (m * (d + 20)))
        self.most_trials = max(FEW, TRIAL_WORK // (m * d))
        self._tried: dict[tuple[str, int], Snapshot] = {}  # starts of walks, never taken twice
        self._offer(self.support.snapshot())

    @property
    def top(self) -> int:
        """The largest size that the search has covered."""
        return MILESTONES[self.n_done - 1] if self.n_done else 0

    def extend(self, max_learners: int) -> None:
        """Search up to the next milestone; sizes beyond ``max_learners`` are not polished."""
        top = MILESTONES[self.n_done]
        self._generate(top)
        self._walk_up(top + max(top // BEYOND, 3))
        self._walk_down()
        self._walk_up(top)
        for _ in range(self.n_excursions):
            self._excursions(top)
        self.n_done += 1
        for size in range(1, min(top, max_learners) + 1):
            self._polish(size)

    def sizes(self, max_learners: int) -> Iterator[Snapshot]:
        """Yield the ensembles of growing size, as long as each is better than all smaller ones."""
        least = np.inf
        for size in sorted(self.best):
            if size <= max_learners and self.best[size].value < least:
                least = self.best[size].value
                yield self.best[size]

    def cheapest(self, lam: float, max_learners: int) -> Snapshot:
        """Return the ensemble of least objective at a price per learner."""
        return min(self.sizes(max_learners), key=lambda s: s.value + lam * len(s.learners))

    # -- starts ------------------------------------------------------------------------

    def _generate(self, n_columns: int) -> None:
        """Generate columns without a price; the first k of them are an ensemble of size k."""
        engine = self.engine
        while len(engine.H) - len(engine.problem.free) < n_columns:
            if engine.generate() is None:
                break
            engine.refit()
            problem = engine.problem
            w, value = refit_value(problem, np.arange(len(engine.w)), engine.w, tol=1e-9)
            self._offer(signed(engine, w, value))

    def _offer(self, snapshot: Snapshot) -> None:
        size = len(snapshot.learners)
        if size not in self.best or snapshot.value < (1 - BETTER) * self.best[size].value:
            self.best[size] = snapshot
        if self.on_event is not None:
            top = MILESTONES[min(self.n_done, len(MILESTONES) - 1)]
            self.on_event(Searched(size, top, snapshot.value))

    def _start(self, walk: str, size: int) -> bool:
        """Go to the best ensemble of a size, unless this walk has been there before."""
        start = self.best.get(size)
        if start is None or self._tried.get((walk, size)) is start:
            return False
        self._tried[walk, size] = start
        self.support.restore(start)
        return True

    # -- walks -------------------------------------------------------------------------

    def _walk_up(self, top: int) -> None:
        for size in range(top):
            if self._start("up", size) and self._add():
                self._improve()

    def _walk_down(self) -> None:
        for size in range(max(self.best), 1, -1):
            if self._start("down", size):
                self.support.drop(self.support.weakest())
                self._improve()

    def _excursions(self, top: int) -> None:
        """From the best of each size, drop some slots at random and add as many, one by one."""
        support, rng = self.support, self.engine.rng
        for size in range(2, min(top, max(self.best)) + 1):
            if size not in self.best:
                continue
            support.restore(self.best[size])
            for _ in range(int(rng.integers(1, max(2, size // 4), endpoint=True))):
                support.drop(support.n_fixed + int(rng.integers(support.size)))
            while support.size < size and self._add():
                self._improve()

    def _add(self) -> bool:
        """Add the best column, if there is one that helps."""
        support = self.support
        scores = support.scan()
        if scores.addition == NONE or scores.addition_gain < BETTER * support.value:
            return False
        learner = support.candidates.learner(scores.addition)
        if learner in support.learners:
            return False
        support.add(learner)
        return True

    def _improve(self) -> None:
        self.support.descend(WALK)
        if self.support.refine():
            self.support.descend(WALK)
        self._offer(self.support.snapshot())

    def _polish(self, size: int) -> None:
        if not self._start("polish", size):
            return
        if size <= self.most_trials:
            self._leave_one_out(8 if size <= FEW // 2 else 3)
        self.support.descend(POLISH)
        for _ in range(3):
            if not self.support.refine():
                break
            self.support.descend(POLISH)
        self._offer(self.support.snapshot())
        self._tried["polish", size] = self.best[size]

    def _leave_one_out(self, n_newcomers: int) -> None:
        """Drop each slot in turn, and try the best few newcomers in its place."""
        support = self.support
        for j in range(support.n_fixed, support.n_slots):
            best = support.snapshot()
            support.drop(j)
            without = support.snapshot()
            for learner in self._newcomers(n_newcomers):
                if learner in support.learners:
                    continue
                support.add(learner)
                if support.value < (1 - BETTER) * best.value:
                    best = support.snapshot()
                support.restore(without)
            support.restore(best)

    def _newcomers(self, n: int) -> list[Learner]:
        """Return the best n columns to add, by gain among candidates and by price among all."""
        support, engine = self.support, self.engine
        at, nu = support.at, engine.terms.nu
        curvature = at.q if engine.terms.free_intercept else None
        priced = engine.oracle.best(at.u, (), n, curvature, nu)
        learners = [turned(c.learner, support.candidates.is_signed)[0] for c in priced]
        return list(dict.fromkeys([*support.additions(n), *learners]))


def turned(learner: Learner, is_signed: bool) -> tuple[Learner, float]:
    """Return a learner of positive sign and the sign it had, where weights have signs."""
    if is_signed and isinstance(learner, Stump | Constant) and learner.polarity < 0:
        return learner.negated(), -1.0
    return learner, 1.0


def signed(engine: Engine, w: np.ndarray, value: float) -> Snapshot:
    """Return an ensemble over H as a snapshot: learners of positive sign, signed weights."""
    is_free = engine.problem.cost == 0
    intercept, learners, weights = 0.0, [], []
    is_signed = engine.oracle.candidates(not engine.terms.free_intercept).is_signed
    for learner, weight, free in zip(engine.H.learners, w, is_free, strict=True):
        if free and isinstance(learner, Constant):
            intercept += weight * learner.polarity
        elif weight > 0:
            positive, sign = turned(learner, is_signed)
            learners.append(positive)
            weights.append(sign * weight)
    fixed = [intercept] if engine.terms.free_intercept else []
    return Snapshot(tuple(learners), np.array([*fixed, *weights]), value)


def unsigned(engine: Engine, snapshot: Snapshot) -> tuple[list[Learner], np.ndarray]:
    """Return learners and weights >= 0 of a snapshot, as columns of H have them."""
    learners: list[Learner] = list(snapshot.learners)
    if engine.terms.free_intercept:
        learners = [Constant(1), *learners]
    learners = [
        h.negated() if weight < 0 else h  # type: ignore[attr-defined]
        for h, weight in zip(learners, snapshot.w, strict=True)
    ]
    return learners, np.abs(snapshot.w)
