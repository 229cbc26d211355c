"""Where rows are very many: a search on some of them, whose findings are improved on all.

Which of two cuts is better shows on 100,000 rows as it does on all, but for differences that are
too small to matter: an ensemble of k stumps fitted to n rows loses about k/n of log-loss for the
places of its cuts and as much for its weights. On all rows weights are fitted again and cuts move
to their best places nearby, so that little of this is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np

from totalqboost.boosting.support import Snapshot
from totalqboost.master import normalised

__all__ = ["Drawn", "Improvable", "cheapest_on_all_rows", "drawn_rows", "on_all_rows"]

Tell = Callable[[Snapshot], None]

SEARCH_ROWS = 100_000  # that a search looks at
MOST_CODES = 200_000_000  # rows x features that are drawn, at most
N_LOOKS = 8  # sizes that are looked at before their neighbours
N_REFINEMENTS = 3  # of the cuts of an ensemble, on all rows


class Improvable(Protocol):
    """An ensemble on all rows, such as :class:`totalqboost.boosting.support.Support`."""

    def restore(self, snapshot: Snapshot) -> None:
        """Go to an ensemble, and bring its weights to their optimum."""

    def refine(self) -> int:
        """Move kept learners to their best neighbours; return how many moved."""

    def snapshot(self) -> Snapshot:
        """Return the ensemble as it is."""


class Drawn(NamedTuple):
    """Examples that stand for all, ascending, and their weights, which sum to one."""

    rows: np.ndarray
    weight: np.ndarray


def drawn_rows(y: np.ndarray, weight: np.ndarray, n_features: int) -> Drawn | None:
    """Return the rows to search on; None: all of them.

    Half of them are shared out among classes as they come, half evenly: of a rare class all may
    be taken. Within a class heavy rows are drawn more often. Weights make up for both.
    """
    if len(y) <= SEARCH_ROWS or n_features * SEARCH_ROWS > MOST_CODES:
        return None
    rng = np.random.default_rng(0)
    classes, sizes = np.unique(y, return_counts=True)
    wanted = chances(sizes / len(y) + 1 / len(classes), SEARCH_ROWS, sizes)
    rows, weights = [], []
    for label, n in zip(classes, wanted, strict=True):
        own = rng.permutation(np.flatnonzero(y == label))
        chance = chances(weight[own], n, np.ones(len(own)))
        upto = np.cumsum(chance) + rng.random()
        is_drawn = np.floor(upto) > np.floor(upto - chance)  # evenly, so that n are drawn
        is_drawn |= chance >= 1.0
        rows.append(own[is_drawn])
        weights.append(weight[own[is_drawn]] / chance[is_drawn])
    kept = np.concatenate(rows)
    order = np.argsort(kept)
    return Drawn(kept[order], normalised(np.concatenate(weights)[order], len(kept)))


def chances(share: np.ndarray, total: float, most: np.ndarray) -> np.ndarray:
    """Return numbers in proportion to shares, none above its most, that sum to the total."""
    out = np.minimum(share * (total / share.sum()), most)
    while True:
        is_open = out < most
        left = total - out[~is_open].sum()
        if not is_open.any():
            return out
        new = np.minimum(share[is_open] * (left / share[is_open].sum()), most[is_open])
        if np.allclose(new, out[is_open], rtol=1e-12):
            return out
        out[is_open] = new


def cheapest_on_all_rows(
    support: Improvable, found: Sequence[Snapshot], lam: float, tell: Tell
) -> Snapshot:
    """Return the one of least objective at a price per learner, improved on all rows.

    On the rows of a search large ensembles look better than they are, and the price is that of
    all rows. The objective falls with size and rises again: some sizes are looked at, then
    their neighbours.
    """
    known: dict[int, Snapshot] = {}

    def objective(place: int) -> float:
        if place not in known:
            support.restore(replace(found[place], value=np.inf, M=None))
            known[place] = support.snapshot()
            tell(known[place])
        return known[place].value + lam * len(known[place].learners)

    last = len(found) - 1
    if not lam > 0.0:
        return next(on_all_rows(support, [found[last]], tell))
    step = max(1, len(found) // N_LOOKS)
    best = min([*range(0, last, step), last], key=objective)
    while step > 1:
        step = (step + 1) // 2
        best = min([best, max(0, best - step), min(last, best + step)], key=objective)
    return next(on_all_rows(support, [known[best]], tell))


def on_all_rows(support: Improvable, found: Iterable[Snapshot], tell: Tell) -> Iterator[Snapshot]:
    """Yield what a search on some rows found, improved on all rows; tell of every step."""
    for snapshot in found:
        support.restore(replace(snapshot, value=np.inf, M=None))
        for _ in range(N_REFINEMENTS):
            tell(support.snapshot())
            if not support.refine():
                break
        yield support.snapshot()
