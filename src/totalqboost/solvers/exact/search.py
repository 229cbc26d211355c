"""One run of branch and bound: incumbent, open nodes, bound, progress."""

from __future__ import annotations

import heapq
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from totalqboost.interruption import Interruption
from totalqboost.master import MasterProblem
from totalqboost.refit import refit_value
from totalqboost.solvers.exact.bounding import Bounder
from totalqboost.solvers.exact.grid import descend_levels, model_of, split_levels
from totalqboost.solvers.exact.model import Model
from totalqboost.solvers.exact.node import Node
from totalqboost.solvers.exact.reach import MAX_ROWS, Reach, weight_limits
from totalqboost.solvers.local import LocalSearch
from totalqboost.solving import Solution, Status
from totalqboost.threads import Workers

if TYPE_CHECKING:
    from totalqboost.solvers.exact.tree import BranchAndBound

__all__ = ["EXACT", "Progress", "Search"]

EXACT = 1e-8  # relative gap that counts as none: the rounding of bounds is about this size
ROUNDED = 1e-6  # relative gap of a leaf that may be left to rounding, in the bound not hidden
ROOT_ROUNDS = 20
NODE_ROUNDS = 1
BATCH = 8  # open nodes taken at once: the same however many threads share them
PARALLEL_FROM = 1_000_000  # rows x columns^2: below this, threads cost more than they save
REPORT = 20  # nodes from one report to the next
MAX_OPEN = 20_000  # open nodes, of up to some hundred kB each
N_EAGER = 50  # first nodes whose columns are all tried as an incumbent; then every 32nd
RESTART = 8  # examples per node after which limits of all margins cost less than the tree did


@dataclass(frozen=True)
class Progress:
    """State of a running branch and bound.

    Attributes
    ----------
    n_nodes, n_open : int
        Nodes that were bounded, and nodes that wait.
    objective, bound : float
        The best so far, and the lower bound.
    seconds : float
        Since the start.

    Examples
    --------
    >>> import numpy as np
    >>> from totalqboost import MasterProblem
    >>> A = np.where(np.random.default_rng(0).random((6, 40)) < 0.6, 1, -1)
    >>> problem = MasterProblem(A, nu=1e-3, lam=0.01)
    >>> from totalqboost.solvers import BranchAndBound
    >>> steps = []
    >>> _ = BranchAndBound(on_progress=steps.append).solve(problem)
    >>> steps[0].bound <= steps[0].objective
    True
    """

    n_nodes: int
    n_open: int
    objective: float
    bound: float
    seconds: float

    @property
    def gap(self) -> float:
        """Relative distance of the objective to the bound."""
        return Solution(np.empty(0), self.objective, self.bound).gap

    def __str__(self) -> str:
        return (
            f"{self.n_nodes} nodes, {self.n_open} open, objective {self.objective:.7f}, "
            f"bound {self.bound:.7f}, gap {self.gap:.2%}"
        )


class Search:
    """One run: incumbent, open nodes and counters."""

    def __init__(
        self,
        settings: BranchAndBound,
        problem: MasterProblem,
        interruption: Interruption | None = None,
        model: Model | None = None,
        max_open: int = MAX_OPEN,
    ):
        self.settings = settings
        self.problem = problem
        self.max_open = max_open
        self.interruption = interruption or Interruption()
        self.began = time.perf_counter()
        self.model = model or model_of(problem, settings.n_bits, settings.step)
        self.bounder = Bounder(self.model, settings.techniques)
        n, m = self.model.problem.A.shape
        is_large = m * n**2 >= PARALLEL_FROM
        self.workers = Workers(settings.n_jobs if is_large else None)
        self.n_nodes = 0
        self.n_reported = 0
        self.n_pushed = 0
        self.heap: list[tuple[float, int, Node]] = []
        self.dive: list[Node] = []  # what is left of a node that is finished depth first
        self.pending = 0.0  # bound of what is neither on the heap nor closed; losses are >= 0
        self.rounded = np.inf  # lowest bound of leaves that rounding keeps from being closed
        self.floor = 0.0  # what the tree had proven when it was started again
        self.root: Node | None = None  # what a new tree would start from; None from then on
        self.n_first = m // RESTART  # nodes of the first tree
        self.status: Status | None = None
        self.given: np.ndarray | None = None
        self.w = np.zeros(n)
        self.objective = problem.objective(np.zeros(problem.n_columns))

    # -- incumbent ---------------------------------------------------------------------

    @property
    def cutoff(self) -> float:
        """What a solution must be below to be worth finding."""
        return self.objective - max(self.settings.gap, EXACT) * abs(self.objective)

    def find_incumbent(self, start: np.ndarray | None, rng: np.random.Generator | None) -> None:
        """Start from local search, and from the weights that were given."""
        problem = self.model.problem
        if self.model.is_grid and start is not None:  # one that is on the grid stays as it is
            self.offer(start[self.model.kept])
        self.offer(LocalSearch().solve(problem, rng=rng).w)
        if start is not None:
            self.offer(LocalSearch().solve(problem, start=start[self.model.kept], rng=rng).w)
            if not self.model.is_grid and self.problem.is_feasible(start):
                self.given = start

    def offer(self, w: np.ndarray) -> None:
        """Take w as the incumbent if it is better; on a grid, the levels near it."""
        if self.model.is_grid:
            w = descend_levels(self.model, w)
        objective = self.model.problem.objective(w)
        if self.model.problem.is_feasible(w) and objective < self.objective:
            self.w, self.objective = w, objective

    def _round(self, node: Node) -> np.ndarray:
        """Offer and return the refit on the columns that the relaxation of a node uses most."""
        problem = self.model.problem
        order = np.argsort(-np.where(node.is_in, np.inf, node.w), kind="stable")
        large = node.w[node.w > 0]
        least = 0.5 * np.median(large) if len(large) else 0.0
        n_used = int(np.count_nonzero(node.is_in | (node.w > least)))
        used = node.columns[order[:n_used]]
        priced = self._within_limits(used[problem.cost[used] > 0])
        support, start = np.union1d(priced, problem.free), self._spread(node, node.w)
        w = refit_value(problem, support, start, tol=1e-11)[0]
        self.offer(w)
        return w

    def _within_limits(self, columns: np.ndarray) -> np.ndarray:
        """Return the first of the columns that may be kept together."""
        model = self.model
        if len(model.feature_price):
            read, stays = model.reads[:0].any(axis=0), np.ones(len(columns), dtype=bool)
            for i, j in enumerate(columns):
                stays[i] = np.count_nonzero(read | model.reads[j]) <= model.problem.groups.limit
                read = read | (model.reads[j] & stays[i])
            columns = columns[stays]
        return columns[: model.limit]

    def _spread(self, node: Node, values: np.ndarray) -> np.ndarray:
        """Return weights of all columns from those of a node."""
        w = np.zeros(self.model.problem.n_columns)
        w[node.columns] = values
        return w

    # -- tree --------------------------------------------------------------------------

    def open_root(self) -> None:
        """Limit all weights, strengthen the root and put it on the heap."""
        model = self.model
        n, m = model.problem.A.shape
        multiplier = self._first_multiplier()
        l1 = refit_value(model.problem, np.arange(n), tol=1e-11)[0]
        # What is proven should the root be interrupted.
        self.pending = max(0.0, model.problem.dual_bound(model.problem.dual_weights(l1)))
        if self._is_late():
            self.status = self._why_late()
            return
        hi = weight_limits(model, self.cutoff, multiplier) if n else np.empty(0)
        node = Node.root(model, model.snap(hi), self.w, multiplier)
        # Where weights have no useful limits, only a precise point has a bound: the l1 optimum.
        self.bounder.bound_at(node, self.cutoff, l1)
        has_reach = self.settings.techniques.reach
        if has_reach and m > MAX_ROWS and not node.is_closed:  # the tree will not start again
            self._reach(node).confine_weights()
        self.n_nodes = 1
        self.bounder.look(node, self.cutoff, ROOT_ROUNDS)
        self._keep(node)
        self.pending = np.inf
        self.root = node if has_reach and m <= MAX_ROWS else None
        self.report(force=True)

    def _restart(self, root: Node) -> None:
        """Start the tree again from a root with tighter ranges, which take long to find."""
        self.root = None
        node = root.copy()
        if not self._reach(node).confine():
            return
        if not node.is_closed:
            self.bounder.look(node, self.cutoff, ROOT_ROUNDS)
        self.floor = self.pending = self.bound()  # holds while there is no tree
        self.heap, self.dive, self.rounded = [], [], np.inf
        self._keep(node)
        self.pending = np.inf
        self.report(force=True)

    def _reach(self, node: Node) -> Reach:
        return Reach(self.bounder, node, self.cutoff, self._is_late, self.workers)

    def _is_late(self) -> bool:
        """Tell whether to stop: no time is left, or Ctrl-C was pressed."""
        limit = self.settings.time_limit
        return self.interruption.is_set or (limit is not None and self._seconds() > limit)

    def _why_late(self) -> Status:
        return Status.INTERRUPTED if self.interruption.is_set else Status.TIME_LIMIT

    def _first_multiplier(self) -> float:
        """Return what the last column that the limit allows is worth, in second order."""
        problem = self.model.problem
        if not self.model.is_limited or not (self.w > 0).any():
            return 0.0
        support = np.flatnonzero(self.w > 0)
        u, q = problem.weights_and_curvature(self.w)
        B = problem.A[support].astype(float)
        V = np.linalg.inv((B * q) @ B.T + (1e-6 * q.sum() + 1e-12) * np.eye(len(support)))
        drop = self.w[support] ** 2 / (2.0 * np.diag(V))
        is_priced = problem.cost[support] > 0
        gain = np.maximum(problem.edges(u) - problem.nus, 0.0) ** 2 / (2.0 * q.sum() + 1e-12)
        least = float(drop[is_priced].min()) if is_priced.any() else 0.0
        return max(0.5 * (least + float(gain.max())) - problem.lam, 0.0)

    def is_running(self) -> bool:
        """Tell whether there is something to do and budget to do it."""
        settings = self.settings
        if self.status:
            return False
        if not self.dive and (not self.heap or self.heap[0][0] >= self.cutoff):
            done = Status.OPTIMAL if settings.gap <= EXACT else Status.GAP_REACHED
            is_close = self.rounded >= self.objective - ROUNDED * abs(self.objective)
            self.status = done if is_close else Status.ROUNDING_LIMIT
        elif self.n_nodes >= settings.max_nodes:
            self.status = Status.NODE_LIMIT
        elif self._is_late():
            self.status = self._why_late()
        return not self.status

    def branch(self) -> None:
        """Look at the data of the next open nodes, or decide one of their columns both ways."""
        if self.root is not None and self.n_nodes >= self.n_first:
            self._restart(self.root)
            return
        nodes = self._take()
        self.workers.map(self._examine, nodes)
        for node in nodes:
            self._keep(node)
        self.pending = np.inf
        self.report()

    def _take(self) -> list[Node]:
        """Take the next open nodes; return them, or their children if the data were looked at."""
        self.pending = self._lowest()  # before they are nowhere
        size = max(min(BATCH, (self.settings.max_nodes - self.n_nodes) // 2), 1)
        taken: list[Node] = []
        while len(taken) < size and self.dive:
            taken.append(self.dive.pop())
        while not self.dive and len(taken) < size and self.heap and self.heap[0][0] < self.cutoff:
            taken.append(heapq.heappop(self.heap)[2])
        nodes: list[Node] = []
        for node in taken:
            nodes += self._children(node) if node.is_fresh else [node]
        self.n_nodes += sum(not node.is_known for node in nodes)
        return nodes

    def _lowest(self) -> float:
        """Return the lowest bound of all open nodes."""
        lowest = self.heap[0][0] if self.heap else np.inf
        return min(lowest, min((node.bound for node in self.dive), default=np.inf))

    def _children(self, node: Node) -> list[Node]:
        """Decide the undecided column with the largest weight; if there is none, split levels.

        A feature that the column reads and that nobody has paid yet is decided first.
        """
        if node.is_in.all():
            return split_levels(self.model, node)
        j = int(np.argmax(np.where(node.is_in, -1.0, node.w)))
        unpaid = np.flatnonzero(self.model.reads[node.columns[j]] & ~node.paid)
        if len(unpaid):
            return [node.feature_child(self.model, unpaid[0], side) for side in (False, True)]
        return [node.child(j, False), node.child(j, True)]

    def _examine(self, node: Node) -> None:
        """Bound a node: a child by what its parent knew, by its data if that is not enough."""
        if self._is_late():
            return
        bounder, cutoff, parent = self.bounder, self.cutoff, node.bound
        is_due = node.is_known
        if not node.is_known:
            bounder.inherit(node, cutoff)
            node.is_known = True
            is_due = bounder.is_due(node)
        if is_due and not node.is_closed:
            bounder.look(node, cutoff, NODE_ROUNDS)
        node.bound = max(node.bound, parent)

    def _keep(self, node: Node) -> None:
        """Put a node on the heap unless it is closed or a leaf."""
        if node.is_closed:
            return
        if node.is_fresh and self.bounder.is_leaf(node):  # convex, solved as far as float64 goes
            # On a grid, a leaf has one level of each weight.
            w = self._spread(node, node.lo) if self.model.is_grid else self._round(node)
            self.offer(w)
            self.bounder.bound_leaf(node, self.cutoff, w)
            if not node.is_closed:
                self.rounded = min(self.rounded, node.bound)
            return
        if node.is_fresh and (self.n_pushed % 32 == 0 or self.n_pushed < N_EAGER):
            self._round(node)
        if node.bound >= self.cutoff:
            return
        self.n_pushed += 1
        if len(self.heap) >= self.max_open:  # memory: finish some node first
            self.dive.append(node)
            return
        heapq.heappush(self.heap, (node.bound, self.n_pushed, node))

    def push(self, nodes: list[Node]) -> None:
        """Put open nodes that another search has bounded on the heap."""
        for node in nodes:
            self.n_pushed += 1
            if node.bound < self.cutoff:
                heapq.heappush(self.heap, (node.bound, self.n_pushed, node))

    def open_nodes(self) -> list[Node]:
        """Return all that is open, the lowest bounds first."""
        return self.dive + [node for _, _, node in sorted(self.heap, key=lambda entry: entry[:2])]

    # -- reporting ---------------------------------------------------------------------

    def _seconds(self) -> float:
        return time.perf_counter() - self.began

    def seconds_left(self) -> float | None:
        """Return what is left of the time limit, if there is one."""
        limit = self.settings.time_limit
        return None if limit is None else max(limit - self._seconds(), 1e-3)

    def bound(self) -> float:
        """Return the lower bound that is proven now."""
        tree = min(self._lowest(), self.pending, self.rounded)
        return float(min(max(tree, self.floor), self.cutoff))

    def report(self, force: bool = False) -> None:
        """Tell how far the search is, every few nodes."""
        settings = self.settings
        if not force and self.n_nodes - self.n_reported < REPORT:
            return
        self.n_reported = self.n_nodes
        progress = Progress(
            self.n_nodes,
            len(self.heap) + len(self.dive),
            self.objective,
            self.bound(),
            self._seconds(),
        )
        if settings.verbose:
            print(progress, file=sys.stderr)
        if settings.on_progress is not None:
            settings.on_progress(progress)

    def solution(self) -> Solution:
        """Return the incumbent, scored by the problem itself, and the bound."""
        found = [self.model.expand(self.w)]
        if self.given is not None:
            found.append(self.given)  # equal up to rounding: never worse than the start
        w = min(found, key=self.problem.objective)
        assert self.status is not None  # the search has ended
        return Solution(w, self.problem.objective(w), self.bound(), self.n_nodes, self.status)
