"""The best ensemble of at most k stumps out of the whole dictionary, with a certificate.

    min over w >= 0, card(w) <= k   sum_i c_i l(z_i) + nu sum_j w_j

over all stumps of the data, not over generated columns. Order of calls: boosting with
exchanges gives a first ensemble; then sets of k - 2 cuts are branched on, depth first, and for
each a compiled sweep prices every pair of further cuts by the cell bound (see
:mod:`totalqboost.kernels.cells`), which no weights can beat. Only sets whose bound is below
the best objective are refitted, and closed by a dual bound of their own. A branch is cut off
when the cells of all cuts that may still come do not get below the best objective.

A cut is a stump of either polarity; so is its weight of either sign.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from numbers import Integral

import numpy as np

from totalqboost import losses
from totalqboost.boosting import boost_oracle
from totalqboost.dictionaries.stumps import StumpOracle, Stumps
from totalqboost.ensemble import Ensemble
from totalqboost.kernels.cells import cell_risk, price_cuts, price_pairs
from totalqboost.kernels.loss_codes import CUSTOM
from totalqboost.learners import Constant, Learner, Stump
from totalqboost.losses import Loss
from totalqboost.master import MasterProblem
from totalqboost.refit import refit
from totalqboost.solvers import LocalSearch, certify
from totalqboost.solving import MasterSolver

__all__ = ["BranchAndPrice", "CertifiedEnsemble", "PriceProgress"]

SLACK = 1e-8  # above the rounding of a cell bound; what is closer to the optimum than this is it
MAX_RELAXED = 200  # columns of a relaxation that takes seconds
ROOM = 4096  # pairs found in one call of the kernel
SWEEP = 200_000_000  # cuts x rows x features of one call: some tenths of a second


@dataclass(frozen=True)
class PriceProgress:
    """How far the search is: first cuts done and in all, branches, refits, best objective."""

    n_done: int
    n_cuts: int
    n_branches: int
    n_refits: int
    objective: float

    def __str__(self) -> str:
        return (
            f"{self.n_done} of {self.n_cuts} first cuts, {self.n_branches} branches, "
            f"{self.n_refits} refits, objective {self.objective:.6f}"
        )


class _Stopped(Exception):  # noqa: N818
    """The budget is spent; the message says which."""


@dataclass(frozen=True)
class CertifiedEnsemble:
    """The best ensemble found, and a lower bound on what any ensemble of its size can reach.

    Attributes
    ----------
    ensemble : Ensemble
        At most ``max_learners`` stumps.
    objective, bound : float
        Of the ensemble, and a lower bound over the whole dictionary.
    n_cuts, n_branches, n_refits : int
        Cuts of the dictionary, sets of cuts that were priced, sets that were refitted.
    status : str
        "optimal", "time limit", "node limit" or "interrupted".
    seconds : float
        Duration.
    """

    ensemble: Ensemble
    objective: float
    bound: float
    n_cuts: int
    n_branches: int
    n_refits: int
    status: str
    seconds: float

    @property
    def gap(self) -> float:
        """(objective - bound) / abs(objective)."""
        return (self.objective - self.bound) / max(abs(self.objective), 1e-300)


@dataclass(frozen=True)
class BranchAndPrice:
    """Exact search over a whole dictionary of stumps, for small data and small ensembles.

    With n cuts of the data the work grows like n^(k - 1) times the size of the data: seconds
    for 30 cuts and k = 6 or for 400 cuts and k = 3.

    Parameters
    ----------
    dictionary : Stumps
        ``Stumps(max_bins=...)`` makes fewer cuts, and then proves less.
    solver : MasterSolver
        Solves the restricted master problems on the way to the first ensemble.
    loss : str or Loss
        A built-in loss.
    nu : float
        Weight of the l1 term.
    fit_intercept : bool
        True: a free intercept. False: the constant counts as a learner, as in the paper.
    max_branches : int, optional
        Budget in sets of k - 2 cuts.
    time_limit : float, optional
        Seconds. With fewer than 100 cuts, a bound of what is left takes a few more.
    on_progress : callable, optional
        Called with a :class:`PriceProgress` now and then.

    Examples
    --------
    >>> from totalqboost import datasets
    >>> X, y = datasets.load("flare solar")
    >>> found = BranchAndPrice().solve(X, y, max_learners=3)
    >>> found.status, found.gap < 1e-6
    ('optimal', True)
    """

    dictionary: Stumps = field(default_factory=Stumps)
    solver: MasterSolver = field(default_factory=LocalSearch)
    loss: str | Loss = "exponential"
    nu: float = 1e-6
    fit_intercept: bool = True
    max_branches: int | None = None
    time_limit: float | None = None
    on_progress: Callable[[PriceProgress], None] | None = field(default=None, compare=False)

    def solve(
        self,
        X: np.ndarray,
        y: np.ndarray,
        max_learners: int,
        sample_weight: np.ndarray | None = None,
    ) -> CertifiedEnsemble:
        """Return the best ensemble of at most ``max_learners`` stumps, labels -1 and +1."""
        loss = losses.get(self.loss)
        if loss.code == CUSTOM:
            raise ValueError(f"loss must be one of {losses.names()}, got {self.loss!r}")
        if not isinstance(self.dictionary, Stumps):
            raise TypeError(f"dictionary must be Stumps, got {self.dictionary!r}")
        if not isinstance(max_learners, Integral) or max_learners < 1:
            raise ValueError(f"max_learners must be a whole number >= 1, got {max_learners!r}")
        X, y = np.asarray(X, dtype=float), np.asarray(y)
        _check_data(X, y, sample_weight)
        began = time.perf_counter()
        oracle = self.dictionary.prepare(X, y)
        search = _Search(self, oracle, loss, sample_weight, began)
        search.try_learners(self._first(oracle, loss, max_learners, sample_weight))
        status = search.run(max_learners)
        if status != "optimal":
            search.raise_bound(max_learners)
        return search.result(status)

    def _first(
        self, oracle: StumpOracle, loss: Loss, k: int, sample_weight: np.ndarray | None
    ) -> list[Learner]:
        """Return the stumps of a good ensemble: boosting, then exchanges."""
        result = boost_oracle(
            oracle,
            len(oracle.y),
            self.solver,
            loss,
            nu=self.nu,
            max_rounds=30 + 2 * k,
            max_learners=k,
            free_intercept=self.fit_intercept,
            sample_weight=sample_weight,
            n_exchanges=20,
        )
        return list(result.ensemble.learners)


class _Search:
    """Data in the form the kernels want, the incumbent, and the tree."""

    def __init__(
        self,
        settings: BranchAndPrice,
        oracle: StumpOracle,
        loss: Loss,
        sample_weight: np.ndarray | None,
        began: float,
    ):
        self.settings, self.loss, self.began = settings, loss, began
        c = np.ones(len(oracle.y)) if sample_weight is None else np.asarray(sample_weight, float)
        c = c / c.sum()
        codes = np.stack([_codes(oracle, f) for f in range(len(oracle.thresholds))])
        # Equal examples are one example with a weight for each class.
        rows, place = np.unique(codes.T, axis=0, return_inverse=True)
        place = place.ravel()
        self.rank = np.ascontiguousarray(rows.T, dtype=np.int64)
        self.order = np.argsort(self.rank, axis=1, kind="stable")
        self.plus = np.bincount(place, c * (oracle.y > 0), len(rows))
        self.minus = np.bincount(place, c * (oracle.y < 0), len(rows))
        thresholds = oracle.thresholds
        n_cuts = [len(t) for t in thresholds]
        self.offsets = np.concatenate([[0], np.cumsum(n_cuts)]).astype(np.int64)
        self.thresholds = thresholds
        self.feature = np.repeat(np.arange(len(n_cuts)), n_cuts)
        self.objective, self.columns, self.w = math.inf, np.zeros(0, dtype=np.intp), np.zeros(0)
        self.bound = math.inf  # of all sets that are closed, or were left when time was out
        self.waiting = math.inf  # of sets whose turn has not come
        self.is_left = False  # is what was left when time was out in the bound?
        self.n_branches = self.n_refits = 0
        self.later = self._later()
        self.A = self._columns()
        self.weight = np.concatenate([self.plus[self.plus > 0], self.minus[self.minus > 0]])

    @property
    def n_cuts(self) -> int:
        return int(self.offsets[-1])

    # -- the tree ---------------------------------------------------------------------

    def run(self, max_learners: int) -> str:
        """Close every set of at most max_learners cuts; return why it stopped."""
        k = min(max_learners, self.n_cuts)
        try:
            if self.settings.fit_intercept:
                self._close(k, "free")
            else:  # the constant is a learner: sets with it and one cut less, and sets without it
                self.waiting = self._finest_bound()  # in case the first half is not finished
                self._close(min(k, max_learners - 1), "counted")
                self.waiting = math.inf
                self._close(k, "none")
        except (_Stopped, KeyboardInterrupt) as stop:
            if not self.is_left:  # stopped where no branch could say what it leaves
                self.waiting = self._finest_bound()
            self.bound = min(self.bound, self.waiting)
            return str(stop) if isinstance(stop, _Stopped) else "interrupted"
        return "optimal"

    def _close(self, k: int, constant: str) -> None:
        """Close all sets of k cuts with or without a constant."""
        cell = np.zeros(len(self.plus), dtype=np.int64)
        if k <= 1:
            self._close_single(k, constant)
        elif k == 2:
            self._close_pairs([], cell, constant)
        else:
            self._branch([], cell, k - 2, constant)

    def _branch(self, prefix: list[int], cell: np.ndarray, depth: int, constant: str) -> None:
        """Close all sets that continue the prefix with ``depth`` cuts and two more."""
        first = prefix[-1] + 1 if prefix else 0
        for j in range(first, self.n_cuts - depth - 1):
            # The least that any set going on with cuts from j on can reach; it grows with j.
            bound = self._cells_bound(cell, self.later[j])
            if bound >= self.objective - SLACK:
                return
            try:
                self._check_budget()
                if not prefix and self.settings.on_progress is not None:
                    self.settings.on_progress(
                        PriceProgress(
                            j, self.n_cuts, self.n_branches, self.n_refits, self.objective
                        )
                    )
                finer = self._cut(cell, j)
                if depth > 1:
                    self._branch([*prefix, j], finer, depth - 1, constant)
                else:
                    self._close_pairs([*prefix, j], finer, constant)
            except (_Stopped, KeyboardInterrupt):
                self.bound = min(self.bound, bound)
                self.is_left = not prefix
                raise

    def _close_pairs(self, prefix: list[int], cell: np.ndarray, constant: str) -> None:
        self.n_branches += 1
        for pairs, bounds in self._priced(prefix, cell):
            for pair, bound in zip(pairs.tolist(), bounds.tolist(), strict=True):
                self._visit([*prefix, *pair], bound, constant)

    def _priced(
        self, prefix: list[int], cell: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the pairs of cuts behind the prefix that may beat the incumbent."""
        start = prefix[-1] + 1 if prefix else 0
        room = ROOM
        stride = max(SWEEP // self.order.size, 1)
        while start < self.n_cuts - 1:
            self._check_time()
            found, bounds = np.empty((room, 2), dtype=np.int64), np.empty(room)
            before = start
            size, start = price_pairs(
                self.loss.code,
                self.order,
                self.rank,
                self.plus,
                self.minus,
                cell,
                int(cell.max()) + 1,
                start,
                start + stride,
                self.offsets,
                self.objective - SLACK,
                found,
                bounds,
            )
            if size == 0 and start == before:  # one cut alone has more pairs than room
                room *= 2
            yield found[:size], bounds[:size]

    def _close_single(self, k: int, constant: str) -> None:
        cell = np.zeros(len(self.plus), dtype=np.int64)
        bounds = np.full(self.n_cuts, np.inf)
        price_cuts(
            self.loss.code, self.order, self.rank, self.plus, self.minus, cell, 1, 0,
            self.offsets, bounds,
        )  # fmt: skip
        self._visit([], cell_risk(self.loss.code, self.plus.sum(), self.minus.sum()), constant)
        if k == 1:
            for j, bound in enumerate(bounds.tolist()):
                self._visit([j], bound, constant)

    def _cut(self, cell: np.ndarray, j: int) -> np.ndarray:
        """Return the cells after one more cut, numbered without gaps."""
        f = self.feature[j]
        return _numbered(2 * cell + (self.rank[f] > j - self.offsets[f]))

    def _later(self) -> list[np.ndarray]:
        """Return, for each j, the cells that the cuts from j on make together."""
        cells = [np.zeros(len(self.plus), dtype=np.int64)]
        for j in range(self.n_cuts - 1, -1, -1):
            cells.append(self._cut(cells[-1], j))
        return cells[::-1]

    def _cells_bound(self, cell: np.ndarray, other: np.ndarray) -> float:
        """Return the cell bound of two partitions together."""
        both = _numbered(cell * (int(other.max()) + 1) + other)
        p, n = np.bincount(both, self.plus), np.bincount(both, self.minus)
        code = self.loss.code
        return sum(cell_risk(code, a, b) for a, b in zip(p.tolist(), n.tolist(), strict=True))

    def _finest_bound(self) -> float:
        """Return the cell bound of all cuts together, valid for every set of cuts."""
        return self._cells_bound(np.zeros_like(self.later[0]), self.later[0]) - SLACK

    def raise_bound(self, max_learners: int) -> None:
        """Raise the bound of a search that was stopped by that of a relaxation, if affordable.

        All cuts are the columns of one master problem with a limit; its root has a bound.
        """
        if len(self.A) > MAX_RELAXED:
            return
        cost = np.ones(len(self.A))
        cost[-2:] = 0.0 if self.settings.fit_intercept else 1.0  # the constants
        problem = MasterProblem(
            self.A,
            self.settings.nu,
            0.0,
            loss=self.loss,
            sample_weight=self.weight,
            cost=cost,
            max_learners=max_learners,
        )
        w = np.zeros(len(self.A))
        w[self.columns] = self.w
        try:
            self.bound = max(self.bound, certify(problem, w))
        except KeyboardInterrupt:
            return  # the bound of the search has to do

    def _check_budget(self) -> None:
        s = self.settings
        if s.max_branches is not None and self.n_branches >= s.max_branches:
            raise _Stopped("node limit")
        self._check_time()

    def _check_time(self) -> None:
        s = self.settings
        if s.time_limit is not None and time.perf_counter() - self.began > s.time_limit:
            raise _Stopped("time limit")

    # -- leaves -----------------------------------------------------------------------

    def _columns(self) -> np.ndarray:
        """Return A: each cut with both polarities in turn, then the two constants."""
        sign = np.empty((self.n_cuts + 1, len(self.plus)), dtype=np.int8)
        for j in range(self.n_cuts):
            f = self.feature[j]
            sign[j] = np.where(self.rank[f] > j - self.offsets[f], 1, -1)
        sign[-1] = 1
        # Two rows per example, one for each class that it has.
        A = np.concatenate([sign[:, self.plus > 0], -sign[:, self.minus > 0]], axis=1)
        return np.stack([A, -A], axis=1).reshape(-1, A.shape[1])

    def _learner(self, column: int) -> Learner:
        j, polarity = column // 2, 1 if column % 2 == 0 else -1
        if j == self.n_cuts:
            return Constant(polarity)
        f = int(self.feature[j])
        return Stump(f, float(self.thresholds[f][j - self.offsets[f]]), polarity)

    def try_learners(self, learners: list[Learner]) -> None:
        """Take an ensemble as the incumbent."""
        is_constant = [isinstance(learner, Constant) for learner in learners]
        cuts = [
            int(self.offsets[h.feature] + np.searchsorted(self.thresholds[h.feature], h.threshold))
            for h in learners
            if isinstance(h, Stump)
        ]
        has_constant = self.settings.fit_intercept or any(is_constant)
        self._refit(cuts, math.inf, "free" if has_constant else "none")

    def _visit(self, cuts: list[int], bound: float, constant: str) -> None:
        """Refit one set of cuts unless its bound says that it cannot win."""
        if bound < self.objective - SLACK:
            self._refit(cuts, bound - SLACK, constant)

    def _refit(self, cuts: list[int], bound: float, constant: str) -> None:
        if constant != "none":
            cuts = [*cuts, self.n_cuts]
        columns = np.array([2 * j + sign for j in cuts for sign in (0, 1)], dtype=np.intp)
        problem = MasterProblem(
            self.A[columns], self.settings.nu, 0.0, loss=self.loss, sample_weight=self.weight
        )
        w = refit(problem, np.arange(len(columns)), tol=1e-11)
        self.n_refits += 1
        value = problem.objective(w)
        if bound < math.inf:  # a set of the tree: what is the least it could have reached?
            self.bound = min(self.bound, max(bound, support_bound(problem, w)))
        if value < self.objective:
            self.objective, self.columns, self.w = value, columns, w

    def result(self, status: str) -> CertifiedEnsemble:
        learners = [self._learner(int(column)) for column in self.columns]
        is_free = [self.settings.fit_intercept and isinstance(h, Constant) for h in learners]
        return CertifiedEnsemble(
            Ensemble.from_columns(learners, self.w, np.array(is_free, dtype=bool)),
            self.objective,
            min(self.bound, self.objective - SLACK),
            self.n_cuts,
            self.n_branches,
            self.n_refits,
            status,
            time.perf_counter() - self.began,
        )


def _check_data(X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None) -> None:
    if X.ndim != 2 or not np.isfinite(X).all():
        raise ValueError("X must be a table of finite numbers: no NaN, no infinity")
    if y.shape != (len(X),):
        raise ValueError(f"y must have one label per row of X ({len(X)}), got shape {y.shape}")
    labels = np.unique(y)
    if not np.array_equal(labels, [-1, 1]):
        raise ValueError(f"y must have the labels -1 and 1, both, got {labels[:5].tolist()}")
    if sample_weight is None:
        return
    c = np.asarray(sample_weight, dtype=float)
    if c.shape != y.shape or not (np.isfinite(c).all() and (c >= 0).all() and c.sum() > 0):
        raise ValueError(f"sample_weight must be {len(y)} finite numbers >= 0, not all of them 0")


def _codes(oracle: StumpOracle, feature: int) -> np.ndarray:
    group, row = oracle.place[feature]
    return group.codes[row].astype(np.int64)


def _numbered(labels: np.ndarray) -> np.ndarray:
    """Return the labels as 0, 1, 2, ... without gaps."""
    return np.unique(labels, return_inverse=True)[1].ravel().astype(np.int64)


def support_bound(problem: MasterProblem, w: np.ndarray) -> float:
    """Return a lower bound of the l1 problem from a nearly optimal w.

    The dual weights at w violate the constraints A u <= nu a little. They are projected on
    the violated ones in the metric of the curvature (a Newton step of the dual), and the
    dual bound of what comes out is valid whatever the projection did.
    """
    u, q = problem.weights_and_curvature(w)
    for _ in range(3):
        excess = problem.edges(u) - problem.nus
        tight = np.flatnonzero((excess > 0) | (w > 0))
        if len(tight) == 0 or np.abs(excess[tight]).max() < 1e-17:
            break
        A = problem.A[tight].astype(float)
        step, *_ = np.linalg.lstsq((A * q) @ A.T, excess[tight], rcond=1e-12)
        u = np.maximum(u - q * (step @ A), 0.0)
    return problem.dual_bound(u)
