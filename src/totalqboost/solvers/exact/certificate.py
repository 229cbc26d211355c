"""A bound for any given solution without the tree: what the root alone can prove."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from totalqboost.fixed_point import MOST_BITS
from totalqboost.kernels.loss_codes import CUSTOM
from totalqboost.master import MasterProblem
from totalqboost.refit import refit
from totalqboost.solvers.exact.search import Search
from totalqboost.solvers.exact.tree import BranchAndBound
from totalqboost.solving import Solution

__all__ = ["certify", "certify_integers"]


def certify(problem: MasterProblem, w: np.ndarray | None = None) -> float:
    """Return a lower bound of the optimal objective, cheap enough to follow every fit.

    Parameters
    ----------
    problem : MasterProblem
        With a price per column, a limit on their number, or both.
    w : array of shape (n_columns,), optional
        A good solution: the bound is found among solutions better than this one, and is
        the tighter the better it is. Local search finds one if none is given.

    Returns
    -------
    float
        Never above the optimum, and at least the dual bound of the l1 problem. The relative
        gap of w is ``(problem.objective(w) - bound) / problem.objective(w)``.

    Examples
    --------
    >>> import numpy as np
    >>> from totalqboost import MasterProblem
    >>> from totalqboost.solvers import LocalSearch, certify
    >>> rng = np.random.default_rng(0)
    >>> problem = MasterProblem(np.where(rng.random((8, 50)) < 0.6, 1, -1), lam=0.02)
    >>> solution = LocalSearch().solve(problem)
    >>> bool(certify(problem, solution.w) <= solution.objective)
    True
    """
    l1 = refit(problem, np.arange(problem.n_columns), tol=1e-10)
    bound = problem.dual_bound(problem.dual_weights(l1))
    if w is not None:
        bound = max(bound, problem.dual_bound(problem.dual_weights(w)))
    if problem.loss.code == CUSTOM:
        return bound
    search = Search(BranchAndBound(max_nodes=1), problem)
    if w is not None and problem.is_feasible(w):
        search.offer(np.asarray(w, dtype=float)[search.model.kept])
    else:
        search.find_incumbent(None, None)
    search.open_root()
    return max(bound, search.bound())


def certify_integers(
    problem: MasterProblem,
    w: np.ndarray,
    scale: float,
    n_bits: int,
    max_nodes: int = 2_000,
    solver: BranchAndBound | None = None,
) -> Solution:
    """Return what the exact solver says about integers times a scale.

    It is asked for the best integers of the columns that w keeps and of the same scale: of its
    answer, ``objective`` is never above that of w, and ``status`` is "optimal" if it proves that
    there are no better ones. Other scales are not looked at.

    Parameters
    ----------
    problem : MasterProblem
        Of a loss that the exact solver knows.
    w : array of shape (n_columns,)
        Integers times the scale.
    scale : float
        What one is worth.
    n_bits : int
        Of the signed integers; intercepts have 16.
    max_nodes : int
        Budget.
    solver : BranchAndBound, optional
        Settings to use instead.

    Examples
    --------
    >>> import numpy as np
    >>> from totalqboost import MasterProblem
    >>> A = np.where(np.random.default_rng(0).random((6, 40)) < 0.6, 1, -1)
    >>> problem = MasterProblem(A, nu=1e-3, lam=0.01)
    >>> from totalqboost.solvers import certify_integers
    >>> w = np.array([0.1, 0.0, 0.2, 0.0, 0.0, 0.0])  # 1 and 2 times 0.1
    >>> found = certify_integers(problem, w, scale=0.1, n_bits=4)
    >>> str(found.status), found.objective <= problem.objective(w)
    ('optimal', True)
    """
    support = np.union1d(np.flatnonzero(w > 0), problem.free)
    own = problem.columns(support)
    depth = np.where(own.cost == 0, MOST_BITS - 1, n_bits - 1)
    solver = BranchAndBound(max_nodes=max_nodes) if solver is None else solver
    solver = replace(solver, n_bits=tuple(depth.tolist()), step=float(scale))
    found = solver.solve(own, w[support])
    full = np.zeros(problem.n_columns)
    full[support] = scale * np.rint(found.w / scale)
    return replace(found, w=full, objective=problem.objective(full))
