"""Where rows are very many: a search on some of them, whose findings are improved on all.

Which of two cuts is better shows on 100,000 rows as it does on all, but for differences that are
too small to matter: an ensemble of k stumps fitted to n rows loses about k/n of log-loss for the
places of its cuts and as much for its weights. On all rows weights are fitted again and cuts move
to their best places nearby, so that little of this is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np

from totalqboost.boosting.support import Snapshot
from totalqboost.master import normalised

__all__ = ["Drawn", "Improvable", "drawn_rows", "on_all_rows"]

SEARCH_ROWS = 100_000  # that a search looks at
MOST_CODES = 200_000_000  # rows x features that are drawn, at most
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
    be taken. Weights make up for it.
    """
    if len(y) <= SEARCH_ROWS or n_features * SEARCH_ROWS > MOST_CODES:
        return None
    rng = np.random.default_rng(0)
    classes, sizes = np.unique(y, return_counts=True)
    wanted = SEARCH_ROWS / 2 * (sizes / len(y) + 1 / len(classes))
    rows, factor = [], np.empty(len(y))
    for label, size, n in zip(classes, sizes, wanted, strict=True):
        own = np.flatnonzero(y == label)
        drawn = own if n >= size else rng.choice(own, int(n), replace=False, shuffle=False)
        rows.append(drawn)
        factor[drawn] = size / len(drawn)
    kept = np.sort(np.concatenate(rows))
    return Drawn(kept, normalised(weight[kept] * factor[kept], len(kept)))


def on_all_rows(support: Improvable, found: Iterable[Snapshot]) -> Iterator[Snapshot]:
    """Yield what a search on some rows found, improved on all rows."""
    for snapshot in found:
        support.restore(replace(snapshot, value=np.inf, M=None))
        for _ in range(N_REFINEMENTS):
            if not support.refine():
                break
        yield support.snapshot()
