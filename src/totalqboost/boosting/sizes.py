"""The best ensemble of every size that a search over the whole dictionary finds.

Beyond the paper: Algorithm 1 chooses among the columns that it generated, this search among all.
Sizes are walked up (add the best column, exchange, refine) and down (drop the weakest, exchange,
refine), up to milestones that do not depend on how many sizes are asked for: a longer search
begins with all of a shorter one. Plain column generation offers its first k columns for every
size k. So no ensemble is worse than plain column generation stopped at its size, nor, but on
large data, than what a shorter search found. Where rows are many and one price is asked for,
sizes that it will not choose are passed in haste.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from totalqboost.boosting.engine import Engine
from totalqboost.boosting.fees import Fees
from totalqboost.boosting.result import Event, Searched
from totalqboost.boosting.support import CLOSE, Snapshot, Support
from totalqboost.dictionaries.base import Oracle
from totalqboost.learners import Learner
from totalqboost.refit import refit_value

__all__ = ["SizeSearch", "signed", "unsigned"]

FIRST, SECOND = 12, 25  # milestones, in sizes; from then on they double
SURPLUS = 2  # columns are generated for each that a milestone may keep
BEYOND = 5  # a walk goes this fraction of a milestone beyond it, to come back
WALK = 1e-4  # relative gain that a swap must bring on the way
POLISH = 1e-6  # and at the end
NEAR = 1e-3  # relative difference of two objectives that makes them different ensembles
BETTER = 1e-7  # relative difference of two objectives that counts
N_LOOKS = 2  # at the sizes around the one that a price wants
FAR = 0.01  # relative difference of objectives that precision cannot bridge
FEW = 6  # sizes that are small enough to try every slot with several newcomers
MAX_WIDTH = 3  # ensembles of one size that walks start from, where rows are few
WIDTH_WORK = 100_000  # rows x (features + 20) x width
SMALL_WORK = 150_000  # rows x (features + 20) up to which surplus columns are eliminated
MANY_ROWS = 2_000  # beyond so many, a search at a low price looks at sizes near the wanted only
LARGE_WORK = 1_000_000  # rows x (features + 20) from which there is no second walk


class Haste(NamedTuple):
    """How a walk hurries to the size that a price wants; see :meth:`SizeSearch.aim`."""

    n_passes: int  # of a descent, and failures in it
    n_failures: int
    stride: int  # in sizes, between refinements of cuts
    n_next: int  # sizes on each side of the wanted one that are polished
    close: float  # precision of objectives


MANY, LARGE = Haste(2, 6, 4, 2, CLOSE), Haste(1, 3, 8, 0, 1e-6)


class SizeSearch:
    """The best ensembles so far, by size, and the walks that improve them."""

    def __init__(self, engine: Engine, on_event: Event | None = None, max_width: int = MAX_WIDTH):
        self.engine, self.on_event = engine, on_event
        self.support = Support(engine.oracle, engine.terms, FIRST + FEW)
        self.pool = {
            0: [self.support.snapshot()]
        }  # by size, best first; whatever happens, there is an answer
        self.n_done = 0  # milestones
        self.limit = 0  # sizes that walks may reach
        work = len(engine.oracle.y) * (engine.oracle.n_features + 20)
        self.width = max(1, min(max_width, WIDTH_WORK // work))
        self.is_small = work < SMALL_WORK  # more starts cost little
        self.is_many = len(engine.oracle.y) > MANY_ROWS
        self.is_large = work > LARGE_WORK  # one walk has to do
        self._tried: set[tuple[str, Snapshot]] = set()  # starts of walks, never taken twice

    @property
    def top(self) -> int:
        """The largest size that the search has covered."""
        return 0 if self.n_done == 0 else milestone(self.n_done - 1)

    def may_extend(self, max_learners: int) -> bool:
        """Tell whether there is more to search: sizes, and ensembles that large."""
        return self.top < max_learners and (self.n_done == 0 or max(self.pool) >= self.top)

    def covers(self, size: int) -> bool:
        """Tell whether walks have gone beyond a size, and far enough to come back to it."""
        return size < self.top and (self.top >= SECOND or not self.is_small)

    def extend(self, max_learners: int) -> None:
        """Search up to the next milestone; sizes beyond ``max_learners`` are not polished."""
        top = milestone(self.n_done)
        self.limit = beyond(top)
        if self.is_large:
            self._generate(min(top, max_learners))
            self._walk_up(top)
        else:  # starts do not depend on max_learners, for walks come back to smaller sizes
            self._generate(SURPLUS * top if self.is_small else top)
            self.support.consider(self.engine.H.learners)
            if self.is_small:
                self._eliminate()
            if self.n_done == 0:
                self._beam()
            self._walk_up(self.limit)
            self._walk_down()
            self._walk_up(top)
        self.n_done += 1
        for size in range(1, min(top, max_learners) + 1):
            self._polish(size)

    def aim(self, lam: float, max_learners: int) -> bool:
        """Search near the size that a price wants, if that is large; tell whether it is.

        One walk passes the smaller sizes in haste, and only those around it are polished: where
        rows are many and the price is low, a search of all sizes takes several times as long.
        """
        if not (self.is_many and lam > 0 and max_learners > SECOND):
            return False
        haste = LARGE if self.is_large else MANY
        self.support.close = haste.close
        self._hurry(lam, max_learners, haste)
        if len(self.cheapest(lam, max_learners).learners) <= SECOND:
            self.support.close = CLOSE
            self.pool = {0: self.pool[0]}  # the search of all sizes does better without these
            self.support.restore(self.best[0])
            return False
        self._compare(max_learners)
        if not self.is_large:
            self.support.consider(self.engine.H.learners)
        for _ in range(N_LOOKS):
            before = self.cheapest(lam, max_learners)
            wanted = len(before.learners)
            self._walk_down(wanted - haste.n_next)
            for size in range(wanted - haste.n_next, min(wanted + haste.n_next, max_learners) + 1):
                self._polish(size)
            if self.cheapest(lam, max_learners) is before:
                break
        return True

    def _hurry(self, lam: float, max_learners: int, haste: Haste) -> None:
        """Walk up until the size that the price wants is well behind."""
        support = self.support
        self.limit = max_learners if self.is_large else beyond(max_learners)
        for size in range(self.limit):
            if size >= beyond(len(self.cheapest(lam, max_learners).learners)):
                break
            support.restore(self.best[size])
            if not self._add():
                break
            support.descend(WALK, haste.n_passes, haste.n_failures)
            if (size < FEW or size % haste.stride == 0) and support.refine():
                support.descend(WALK, haste.n_passes, haste.n_failures)
            self._offer(support.snapshot())

    def _compare(self, max_learners: int) -> None:
        """Offer the first k columns of plain column generation where they may be better."""
        engine = self.engine
        for size in range(1, min(max(self.pool), max_learners) + 1):
            if engine.generate() is None:
                break
            engine.refit()
            if engine.refitted_value < (1 + FAR) * self.best[size].value:
                self._offer_columns()

    def follow(self, starts: Sequence[Snapshot], max_learners: int) -> None:
        """Search near ensembles that were found with another l1 price.

        They take the place of generated columns and of the first walk: a seventh of the time,
        and as good an end.
        """
        self.limit = max_learners
        for start in starts:
            self.support.restore(replace(start, value=np.inf, M=None))
            self._improve()
        self._walk_up(max_learners)
        self._walk_down()
        while self.top < max_learners:
            self.n_done += 1

    def sizes(self, max_learners: int) -> Iterator[Snapshot]:
        """Yield the ensembles of growing size, as long as each is better than all smaller ones."""
        least = np.inf
        for size, snapshot in sorted(self.best.items()):
            if size <= max_learners and snapshot.value < least:
                least = snapshot.value
                yield snapshot

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
            if len(engine.w) - len(engine.problem.free) <= self.limit:
                self._offer_columns()

    def _offer_columns(self) -> None:
        """Offer all columns of H, at full precision."""
        engine = self.engine
        w, value = refit_value(engine.problem, np.arange(len(engine.w)), engine.w, tol=1e-9)
        self._offer(signed(engine, w, value))

    def _eliminate(self) -> None:
        """Drop the weakest of all generated columns, one by one."""
        engine, support = self.engine, self.support
        support.restore(signed(engine, engine.w, np.inf))
        while support.size > 1:
            n_surplus = min(support.size // 10, support.size - self.limit)
            support.drop(support.weakest(max(1, n_surplus)))
            if support.size <= self.limit:
                self._offer(support.snapshot())

    @property
    def best(self) -> dict[int, Snapshot]:
        """The best ensemble of each size."""
        return {size: members[0] for size, members in self.pool.items()}

    def _offer(self, snapshot: Snapshot) -> None:
        """Take an ensemble into the pool of its size if it is good, and other than the better."""
        size, value = len(snapshot.learners), snapshot.value
        if not self.support.fees.allows(snapshot.learners):
            return
        members = self.pool.get(size, [])
        better = [m for m in members if (1 - BETTER) * m.value <= value]
        worse = [m for m in members[len(better) :] if m.value > (1 + NEAR) * value]
        if not better or better[-1].value < (1 - NEAR) * value:
            self.pool[size] = [*better, snapshot, *worse][: self.width]
        self.tell(snapshot)

    def tell(self, snapshot: Snapshot) -> None:
        """Say where the search is."""
        if self.on_event is not None:
            self.on_event(Searched(len(snapshot.learners), self.limit, snapshot.value))

    def _starts(self, walk: str, size: int) -> Iterator[Snapshot]:
        """Go to each ensemble of a size from which this walk has not been made yet."""
        for start in list(self.pool.get(size, [])):
            if (walk, start) not in self._tried:
                self._tried.add((walk, start))
                self.support.restore(start)
                yield start

    # -- walks -------------------------------------------------------------------------

    def _walk_up(self, top: int) -> None:
        for size in range(top):
            for _ in self._starts("up", size):
                if self._add():
                    self._improve()

    def _walk_down(self, last: int = 1) -> None:
        for size in range(max(self.pool), last, -1):
            for _ in self._starts("down", size):
                self.support.drop(self.support.weakest())
                self._improve()

    def _beam(self) -> None:
        """Grow several ensembles side by side while they are small.

        Columns that pay only together are out of reach of single exchanges.
        """
        members = [self.best[0]]
        for _ in range(FEW):
            grown: dict[frozenset[Learner], Snapshot] = {}
            for member in members:
                self.support.restore(member)
                for learner in self._newcomers(2 * self.width + 1):
                    self.support.restore(member)
                    if not self.support.holds(learner):
                        self.support.add(learner)
                        grown[frozenset(self.support.learners)] = self.support.snapshot()
            members = sorted(grown.values(), key=lambda snapshot: snapshot.value)[: 2 * self.width]
            for member in members[: self.width]:
                self.support.restore(member)
                self._improve()

    def _add(self) -> bool:
        """Add the best column, if there is one that helps."""
        support = self.support
        scores = support.scan()
        learner = scores.addition
        if learner is None or scores.addition_gain < BETTER * support.value:
            return False
        if support.holds(learner):
            return False
        support.add(learner)
        return True

    def _improve(self) -> None:
        self.support.descend(WALK)
        if self.support.refine():
            self.support.descend(WALK)
        self._offer(self.support.snapshot())

    def _polish(self, size: int) -> None:
        for _ in self._starts("polish", size):
            if size <= FEW and not self.is_large:
                self._leave_one_out(8 if size <= FEW // 2 else 3)
            self.support.descend(POLISH)
            for _ in range(3):
                if not self.support.refine():
                    break
                self.support.descend(POLISH)
            self._offer(self.support.snapshot())
        self._tried.update(("polish", member) for member in self.pool.get(size, []))

    def _leave_one_out(self, n_newcomers: int) -> None:
        """Drop each slot in turn, and try the best few newcomers in its place."""
        support = self.support
        for j in range(support.n_fixed, support.n_slots):
            best = support.snapshot()
            support.drop(j)
            without = support.snapshot()
            for learner in self._newcomers(n_newcomers):
                if support.holds(learner):
                    continue
                support.add(learner)
                if support.objective < (1 - BETTER) * best.value:
                    best = support.snapshot()
                support.restore(without)
            support.restore(best)

    def _newcomers(self, n: int) -> list[Learner]:
        """Return the best n columns to add, by gain among candidates and by price among all."""
        support, engine = self.support, self.engine
        if self.width == 1:  # pricing all takes long
            return support.additions(n)
        at, nu = support.at, engine.terms.nu
        curvature = at.q if engine.terms.free_intercept else None
        support.tell()
        priced = engine.oracle.best(at.u, (), n, curvature, nu, engine.terms.extra)
        learners = [turned(c.learner, engine.oracle)[0] for c in priced]
        learners = list(dict.fromkeys([*support.additions(n), *learners]))
        return [h for h in learners if support.fees.allows([*support.learners, h])]


def beyond(size: int) -> int:
    """Return the size that a walk goes to so that it can come back to this one."""
    return size + max(size // BEYOND, 3)


def milestone(n: int) -> int:
    """Return the n-th size up to which the search goes before it looks back."""
    return FIRST if n == 0 else SECOND * 2 ** (n - 1)


def turned(learner: Any, oracle: Oracle) -> tuple[Learner, float]:
    """Return a learner of positive sign and the sign it had, where weights have signs."""
    if oracle.has_opposite(learner) and not learner.is_positive:
        return learner.negated(), -1.0
    return learner, 1.0


def signed(engine: Engine, w: np.ndarray, value: float) -> Snapshot:
    """Return an ensemble over H as a snapshot: learners of positive sign, signed weights.

    ``value`` is the objective without fees.
    """
    n_free = 2 * len(engine.constants)  # of both signs, and the first ones of H
    learners, weights = [], list(w[:n_free:2] - w[1:n_free:2])
    for learner, weight in zip(engine.H.learners[n_free:], w[n_free:], strict=True):
        if weight > 0:
            positive, sign = turned(learner, engine.oracle)
            learners.append(positive)
            weights.append(sign * weight)
    value += Fees(engine.oracle, engine.terms).total(learners)
    return Snapshot(tuple(learners), np.array(weights), value)


def unsigned(engine: Engine, snapshot: Snapshot) -> tuple[list[Learner], np.ndarray]:
    """Return learners and weights >= 0 of a snapshot, as columns of H have them."""
    learners = [*engine.constants, *snapshot.learners]
    learners = [
        h.negated() if weight < 0 else h  # type: ignore[attr-defined]
        for h, weight in zip(learners, snapshot.w, strict=True)
    ]
    return learners, np.abs(snapshot.w)
