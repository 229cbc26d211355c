"""A bound for any given solution without the tree: what the root alone can prove."""

from __future__ import annotations

import numpy as np

from totalqboost.kernels.loss_codes import CUSTOM
from totalqboost.master import MasterProblem
from totalqboost.refit import refit
from totalqboost.solvers.exact.search import Search
from totalqboost.solvers.exact.tree import BranchAndBound

__all__ = ["certify"]


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
