"""Multistart tabu search over fixed-point weights: the solver of the paper's experiments.

The weights are w_j = step_j * (an integer of n_bits), as quantum hardware would hold them
("Discrete Weight Variables" in section 3). A tabu search goes from a starting point, then from a
new one that is made of the old (:mod:`totalqboost.solvers.restarts`), and so on until the budget
is spent. One product A u scores all neighbours of a point: one evaluation. Several such searches
may go side by side and tell each other their best points: the paper's distributed solver.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import numpy as np

from totalqboost.fixed_point import MAX_BITS, Grid, check_depth
from totalqboost.interruption import unwrapped_interruption
from totalqboost.master import MasterProblem
from totalqboost.notices import warn
from totalqboost.parameters import check_flag, check_integer, check_jobs, check_number, short
from totalqboost.refit import refit
from totalqboost.solvers.restarts import construct, perturb
from totalqboost.solvers.side_by_side import parts_of, side_by_side
from totalqboost.solvers.walk import Walk
from totalqboost.solving import Interrupted, MasterSolver, Solution, Status, better_of

__all__ = ["TabuSearch"]

LONGEST = 10**7  # of a walk, whose tenures stand in memory
CHOICES = {"moves": ("levels", "bits"), "restart": ("mst2", "iterated")}


@dataclass(frozen=True)
class TabuSearch(MasterSolver):
    """Multistart tabu search over fixed-point weights.

    Parameters
    ----------
    n_bits : int or "auto"
        Depth of the weights. "auto" deepens until the discrete optimum without the
        cardinality penalty reaches the continuous one within ``tol``, and warns if it cannot.
    moves : {"levels", "bits"}
        A move sets one weight to its best level or to zero ("levels"), or flips one bit,
        as in the paper ("bits").
    restart : {"mst2", "iterated"}
        How a starting point follows from the last search. "mst2" is the second multistart
        strategy of [1]_, which the paper cites: from the point where the search ended, a
        constructive step over a share of the variables and steepest ascent; and a local search
        whenever a tabu search has found a new best point. "iterated" is [2]_: from the best
        point, a random number of moves drawn from the five best; the better one, and the default.
    discrete : bool
        Whether the answer is the best point of the grid: line 10 of Algorithm 1 as the paper
        has it, a continuous refit only before (for the range) and after (lines 12-13, by the
        caller). By default every start is refitted, starts compete by their
        continuous values, the range follows them, and the answer is continuous.
    max_evaluations : int
        Budget in points whose whole neighbourhood is scored, by one product each.
    moves_per_start : int, optional
        Length of one tabu search, at most ten million; by default 10 times the number of
        columns, at least 100.
    tenure : int, optional
        How long a variable that entered or left stays tabu: min(20, a quarter of the
        variables) by default; "iterated" adds up to half of it at random.
    tol : float
        Used by ``n_bits="auto"``; in the unit of the mean loss, like the objective.
    n_starts : int
        Searches side by side, each with the whole budget and randomness of its own. After every
        quarter of it all go on from the best point of any.
    n_jobs : int, optional
        How many of them at a time, as joblib counts: threads, or the processes or Dask workers
        of ``joblib.parallel_config``. The result is the same.

    References
    ----------
    .. [1] G. Palubeckis, "Multistart tabu search strategies for the unconstrained binary
       quadratic optimization problem", Annals of Operations Research 131 (2004), 259-282.
    .. [2] G. Palubeckis, "Iterated tabu search for the unconstrained binary quadratic
       optimization problem", Informatica 17 (2006), 279-296.
    """

    n_bits: int | str = 6
    moves: str = "levels"
    restart: str = "iterated"
    discrete: bool = False
    max_evaluations: int = 5_000
    moves_per_start: int | None = None
    tenure: int | None = None
    tol: float = 5e-4
    n_starts: int = 1
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                either = " or ".join(map(repr, choices))
                raise ValueError(f"{name} must be {either}, got {getattr(self, name)!r}")
        check_flag("discrete", self.discrete)
        check_depth(self.n_bits)
        for name in ("max_evaluations", "n_starts"):
            check_integer(name, getattr(self, name), 1)
        check_number("tol", self.tol)
        check_jobs(self.n_jobs)
        for name in ("tenure", "moves_per_start"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), 1, " or None")
        if (self.moves_per_start or 0) > LONGEST:
            length = short(self.moves_per_start)
            raise ValueError(f"moves_per_start must be at most {LONGEST:,}, got {length}")

    def solve(
        self,
        problem: MasterProblem,
        start: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
    ) -> Solution:
        """Return the best weights found; never worse than ``start`` or the empty ensemble.

        If ``discrete``, that is the start as it stands on the grid.
        """
        rng = np.random.default_rng(0) if rng is None else rng
        search = _Search(self, problem, problem.checked_start(start))
        if problem.n_columns == 0:
            return replace(search.best, status=Status.LOCAL_OPTIMUM, note="no columns")
        try:
            with unwrapped_interruption():
                search.choose_grid()
                if self.n_starts == 1:
                    search.go_on(self.max_evaluations, rng)
                else:
                    _go_on_side_by_side(search, rng)
        except KeyboardInterrupt:
            raise Interrupted(search.solution(Status.INTERRUPTED)) from None
        return search.solution(Status.BUDGET_SPENT)

    def _length(self, problem: MasterProblem) -> int:
        """Return the moves of one walk."""
        return min(self.moves_per_start or max(100, 10 * problem.n_columns), LONGEST)

    def _tenures(self, walk: Walk, n_moves: int, rng: np.random.Generator) -> np.ndarray:
        tenure = self.tenure if self.tenure is not None else max(1, min(20, walk.n_variables // 4))
        tenure = min(tenure, n_moves)  # a longer one is the same
        if self.restart == "mst2":
            return np.full(n_moves, tenure)
        return tenure + rng.integers(0, max(1, tenure // 2) + 1, size=n_moves)

    def _depth(self, problem: MasterProblem, continuous: np.ndarray) -> tuple[int, int]:
        """Return the number of bits to use, and the moves spent on finding it."""
        if self.n_bits != "auto":
            return int(self.n_bits), 0
        n_moves = 2 * problem.n_columns
        risk_only = problem.unpriced()
        goal = risk_only.objective(continuous) + self.tol
        used, n_bits = 0, 1
        while n_bits < MAX_BITS and used + n_moves <= self.max_evaluations // 2:
            n_bits += 1  # half of the moves are for the search itself
            walk = Walk(risk_only, Grid.over(continuous, problem.cost == 0, n_bits), False)
            tenures = 1 + np.random.default_rng(0).integers(0, 2, size=n_moves)
            found = walk.run(walk.grid.levels(continuous), -np.inf, tenures)
            used += n_moves
            if walk.value(found) <= goal:
                return n_bits, used
        n_bits = max(n_bits, 2)
        remedy = "tol" if n_bits == MAX_BITS else "tol or max_evaluations"
        warn(
            f"n_bits='auto' gives up at {n_bits} bits: the optimum of continuous weights is not "
            f"reached within tol={self.tol!r}; raise {remedy}",
            RuntimeWarning,
        )
        return n_bits, used


class _Search:
    """The state of one search: its grid, where it stands, the best point, the moves used."""

    def __init__(self, settings: TabuSearch, problem: MasterProblem, start: np.ndarray | None):
        self.settings, self.problem, self.start = settings, problem, start
        self.used, self.limit, self.n_walks = 0, 0, 0
        self.grid: Grid | None = None
        self.best = Solution(np.zeros(problem.n_columns), np.inf)
        self._compare(self.best.w)
        if start is not None:
            self._compare(start)

    def _compare(self, w: np.ndarray) -> None:
        self.best = better_of(self.problem, self.best, w)

    def choose_grid(self) -> None:
        """Choose depth and range by the continuous weights of all columns, and those of the start.

        A discrete search goes on from the nearest point of that grid.
        """
        problem = self.merged = self.problem.merged()
        continuous = refit(problem, np.arange(problem.n_columns), self.start, tol=1e-6)
        self.n_bits, self.used = self.settings._depth(problem, continuous)
        self.seen = np.maximum(continuous, self.best.w)
        if self.settings.discrete and problem.cardinality(self.best.w):
            self.seen = self.best.w  # weights of the kept columns, which the penalty has met
        self.grid = Grid.over(self.seen, problem.cost == 0, self.n_bits)
        self.here = self.best.w  # where the last walk has ended
        self.least = np.inf  # value of the best point of any grid
        if self.settings.discrete:
            rounded = self.grid.step * self.grid.levels(self.best.w)
            empty = np.zeros(problem.n_columns)
            self.best = Solution(empty, problem.objective(empty), grid=self.grid, is_discrete=True)
            self._compare(rounded)

    def go_on(self, limit: int, rng: np.random.Generator) -> None:
        """Search until so many evaluations are used."""
        self.limit = limit
        while self.used < limit:
            self.next_start(rng)

    def next_start(self, rng: np.random.Generator) -> None:
        """Make a starting point, walk from there, keep what is better."""
        settings, problem = self.settings, self.merged
        left = self.limit - self.used
        assert self.grid is not None
        walk = Walk(problem, self.grid, settings.moves == "bits")
        is_mst2 = settings.restart == "mst2"
        levels = self.grid.levels(self.here if is_mst2 else self.best.w)
        if self.n_walks > 0:
            left -= (construct if is_mst2 else perturb)(walk, levels, rng, left)
        n_moves = min(settings._length(problem), left)
        target = self.least if is_mst2 else self.best.objective
        tenures = settings._tenures(walk, n_moves, rng)
        found = walk.run(levels, target, tenures, descends=is_mst2)
        self.used, self.n_walks = self.limit - left + n_moves, self.n_walks + 1
        self.here = walk.step * levels
        self.least = min(self.least, walk.value(found) if walk.is_within(found) else np.inf)
        w = walk.step * found
        if not settings.discrete:
            support = np.union1d(np.flatnonzero(found > 0), problem.free)
            w = refit(problem, support, w, tol=1e-8)
        self._compare(w)
        if w is self.best.w or not settings.discrete:
            self.best = replace(self.best, grid=self.grid)
        if settings.discrete:
            w = self.best.w
        # The range follows the weights, at once where it is so wide that no column fits.
        self.seen = np.maximum((0.5 if problem.cardinality(w) else 0.125) * self.seen, w)
        self.grid = Grid.over(self.seen, problem.cost == 0, self.n_bits)

    def solution(self, status: Status) -> Solution:
        """Return the best weights; with their grid, or the last one if they are continuous."""
        return replace(self.best, n_evaluations=self.used, status=status)

    def of(self, problem: MasterProblem | None, merged: MasterProblem | None) -> _Search:
        """Return a copy that knows these problems; one that travels light knows none."""
        search = copy.copy(self)
        search.problem, search.merged = problem, merged  # type: ignore[assignment]
        return search


def _go_on_side_by_side(search: _Search, rng: np.random.Generator) -> None:
    """Go on with copies of a search; take over the best of them after every part."""
    settings, shared = search.settings, (search.problem, search.merged)
    total = search.used
    with side_by_side(settings.n_jobs, *shared) as run:
        for part in parts_of(settings.max_evaluations - search.used):
            light, limit = search.of(None, None), search.used + part
            starts = enumerate(rng.spawn(settings.n_starts))
            found = run(_part, [(light, limit, own, i) for i, own in starts])
            total += settings.n_starts * part
            best = min(found, key=lambda one: one.best.objective)  # the first of equals
            search.__dict__.update(best.of(*shared).__dict__, used=limit)
    search.used = total


def _part(
    problem: MasterProblem,
    merged: MasterProblem,
    search: _Search,
    limit: int,
    rng: np.random.Generator,
    number: int,
) -> _Search:
    """Return a copy of a search that went on; only the first one begins where it stands."""
    own = search.of(problem, merged)
    own.n_walks += number > 0
    own.go_on(limit, rng)
    return own.of(None, None)
