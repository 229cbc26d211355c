"""Leaves of the tree: the best weights of one set of cuts, and a bound below them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from totalqboost.branch_price.cuts import Cuts
from totalqboost.ensemble import Ensemble
from totalqboost.learners import Constant, Learner, Stump
from totalqboost.losses import Loss
from totalqboost.master import MasterProblem
from totalqboost.refit import refit

__all__ = ["SLACK", "Leaves", "support_bound"]

SLACK = 1e-8  # above the rounding of a cell bound; what is closer to the optimum than this is it


@dataclass(frozen=True, eq=False)
class Incumbent:
    """The best ensemble so far: columns of A with their weights."""

    objective: float
    columns: np.ndarray
    w: np.ndarray


class Leaves:
    """Refits sets of cuts; keeps the best one and the least bound of all that were refitted."""

    def __init__(self, cuts: Cuts, loss: Loss, nu: float, fit_intercept: bool):
        self.cuts, self.fit_intercept = cuts, fit_intercept
        A, weight = cuts.columns()
        cost = np.ones(len(A))
        cost[-2:] = 0.0 if fit_intercept else 1.0  # the constants
        self.problem = MasterProblem(A, nu, 0.0, cost, loss, weight)
        nothing = self.problem.objective(np.zeros(len(A)))
        self.best = Incumbent(nothing, np.zeros(0, dtype=np.intp), np.zeros(0))
        self.bound = math.inf
        self.n_refits = 0

    @property
    def cutoff(self) -> float:
        """A set whose cell bound is not below this cannot win."""
        return self.best.objective - SLACK

    def offer(self, learners: Iterable[Learner]) -> None:
        """Take the best weights of these learners for the incumbent if they are better."""
        learners = list(learners)
        numbers = {self.cuts.number(h) for h in learners if isinstance(h, Stump)}
        has_constant = self.fit_intercept or any(isinstance(h, Constant) for h in learners)
        self._refit(sorted(numbers), has_constant)

    def visit(self, numbers: Sequence[int], bound: float, has_constant: bool) -> None:
        """Close one set of cuts: by its cell bound if that is enough, else by a refit."""
        if bound < self.cutoff:
            problem, w = self._refit(numbers, has_constant)
            self.bound = min(self.bound, max(bound - SLACK, support_bound(problem, w)))

    def _refit(
        self, numbers: Sequence[int], has_constant: bool
    ) -> tuple[MasterProblem, np.ndarray]:
        cuts = [*numbers, len(self.cuts)] if has_constant else numbers
        columns = np.array([2 * j + sign for j in cuts for sign in (0, 1)], dtype=np.intp)
        problem = self.problem.columns(columns)
        w = refit(problem, np.arange(len(columns)), tol=1e-11)
        # One polarity per cut: what both have in common moves no margin and may cost.
        pairs = w.reshape(-1, 2)
        w = (pairs - pairs.min(axis=1, keepdims=True)).ravel()
        self.n_refits += 1
        value = problem.objective(w)
        if value < self.best.objective:
            self.best = Incumbent(value, columns, w)
        return problem, w

    def relaxation(self, max_learners: int) -> tuple[MasterProblem, np.ndarray]:
        """Return the problem of choosing among all columns, and the incumbent's weights."""
        w = np.zeros(self.problem.n_columns)
        w[self.best.columns] = self.best.w
        return self.problem.changed(max_learners=max_learners), w

    def ensemble(self) -> Ensemble:
        """Return the incumbent."""
        learners = [self.cuts.learner(int(column)) for column in self.best.columns]
        is_free = self.problem.cost[self.best.columns] == 0
        return Ensemble.from_columns(learners, self.best.w, is_free)


def support_bound(problem: MasterProblem, w: np.ndarray) -> float:
    """Return a lower bound of the l1 problem from a nearly optimal w.

    The dual weights at w violate the constraints A u <= nu (<= 0 for free columns) a little.
    They are projected on the violated ones in the metric of the curvature (a Newton step of
    the dual), and the dual bound of what comes out is valid whatever the projection did.
    """
    u, q = problem.weights_and_curvature(w)
    limits = np.where(problem.cost > 0, problem.nus, 0.0)
    for _ in range(3):
        excess = problem.edges(u) - limits
        tight = np.flatnonzero((excess > 0) | (w > 0))
        if len(tight) == 0 or np.abs(excess[tight]).max() < 1e-17:
            break
        A = problem.A[tight].astype(float)
        step, *_ = np.linalg.lstsq((A * q) @ A.T, excess[tight], rcond=1e-12)
        moved = u - q * (step @ A)
        has_value = np.isfinite(problem.loss.conjugate(moved / problem.sample_weight))
        u = np.where(has_value, moved, u)
    return problem.dual_bound(u)
