"""A tree in parts that are searched side by side; they tell each other what they found.

The driver takes the open nodes with the lowest bounds and deals them out; every part searches
below its nodes for some nodes, on its own, and hands back what is then open. Incumbents are
exchanged in between. Number and size of the parts are fixed, and the parts are put together in
order: the tree is the same whoever searches them. A part closes nodes by an incumbent that the
driver knows or gets to know, so the bound is as valid as that of one tree.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from totalqboost.solvers.exact.model import Model
from totalqboost.solvers.exact.node import Node
from totalqboost.solvers.exact.search import MAX_OPEN, N_EAGER, Search
from totalqboost.solvers.side_by_side import Run, side_by_side
from totalqboost.threads import one_blas_thread

if TYPE_CHECKING:
    from totalqboost.solvers.exact.tree import BranchAndBound

__all__ = ["branching"]

TAKEN = 8  # open nodes that a part begins with
PART = 32  # nodes that it makes before it reports


@dataclass(frozen=True, eq=False)
class Found:
    """What a part hands back."""

    nodes: list[Node]  # still open
    w: np.ndarray
    objective: float
    n_nodes: int
    rounded: float


@contextmanager
def branching(search: Search) -> Iterator[Callable[[], None]]:
    """Give what brings a search forward by some nodes, in one tree or in parts."""
    settings = search.settings
    if settings.n_subtrees == 1:
        yield search.branch
        return
    with side_by_side(settings.n_jobs, search.model) as run:

        def branch() -> None:
            left = settings.max_nodes - search.n_nodes
            is_whole = search.root is None and not search.dive  # and is not started again
            if is_whole and len(search.heap) >= settings.n_subtrees <= left:
                _branch_side_by_side(search, run)
            else:
                search.branch()

        yield branch


def _branch_side_by_side(search: Search, run: Run) -> None:
    """Search the lowest open nodes in parts, and take over what they found."""
    settings, n = search.settings, search.settings.n_subtrees
    search.pending = search.heap[0][0]  # before they are nowhere
    n_taken = min(n * TAKEN, len(search.heap))
    nodes = [heapq.heappop(search.heap)[2] for _ in range(n_taken)]
    part = min(PART, (settings.max_nodes - search.n_nodes) // n)
    quiet = replace(settings, n_subtrees=1, n_jobs=None, verbose=0, on_progress=None)
    own = replace(quiet, max_nodes=part, time_limit=search.seconds_left())
    items = [(own, nodes[i::n], search.w, search.objective, MAX_OPEN // n) for i in range(n)]
    for found in run(_part, items):
        search.n_nodes += found.n_nodes
        search.rounded = min(search.rounded, found.rounded)
        if found.objective < search.objective:
            search.w, search.objective = found.w, found.objective
        search.push(found.nodes)
    search.pending = np.inf
    search.report()


def _part(
    model: Model,
    settings: BranchAndBound,
    nodes: list[Node],
    w: np.ndarray,
    objective: float,
    max_open: int,
) -> Found:
    """Search below some nodes for a while."""
    search = Search(settings, model.problem, model=model, max_open=max_open)
    search.w, search.objective, search.pending = w, objective, np.inf
    search.n_pushed = N_EAGER
    search.push(nodes)
    with one_blas_thread():
        while search.is_running():
            search.branch()
    return Found(search.open_nodes(), search.w, search.objective, search.n_nodes, search.rounded)
