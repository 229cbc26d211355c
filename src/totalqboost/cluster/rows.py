"""The rows of a data set on the workers of a cluster, as their driver sees them.

Blocks are futures: if a worker is lost, Dask makes its blocks again from where the data came from.
Sums over blocks are formed in a fixed tree, whichever worker does what, so that a repeated run has
the same digits.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from totalqboost.cluster.blocks import Answers, Block, Kept, Layout, Point, Slot
from totalqboost.cluster.faults import told_plainly
from totalqboost.cluster.patterns import Patterns, merged, patterns_of

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["ClusterRows", "tree"]

FAN_IN = 8  # blocks, or sums of them, that are added by one task
MOST_BITS = 2**28  # bytes of columns that the driver remembers
MOST_CODES = 2  # features whose codes it remembers


class ClusterRows:
    """Blocks on workers, and the verbs of :class:`Block` over all of them.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    layout : Layout
        Of the codes.
    blocks : sequence of Future
        Of :class:`Block`, in the order of the rows.
    sizes : sequence of int
        Their numbers of rows.
    """

    def __init__(
        self, client: Client, layout: Layout, blocks: Sequence[Future], sizes: Sequence[int]
    ):
        self.client, self.layout, self.blocks = client, layout, list(blocks)
        self.starts = np.concatenate([[0], np.cumsum(np.asarray(sizes, dtype=np.int64))])
        self._totals: np.ndarray | None = None
        self._bits: OrderedDict[tuple[int, bytes], np.ndarray] = OrderedDict()
        self._codes: OrderedDict[int, np.ndarray] = OrderedDict()

    def __len__(self) -> int:
        return int(self.starts[-1])

    # -- sums --------------------------------------------------------------------------

    def totals(self) -> np.ndarray:
        """See :class:`Block`."""
        if self._totals is None:
            self._totals = self._sum(Block.totals)
        return self._totals

    def slopes(self, point: Point) -> np.ndarray:
        """See :class:`Block`."""
        return self._sum(Block.slopes, point)

    def turned(self, point: Point, kept: Sequence[Kept]) -> np.ndarray:
        """See :class:`Block`."""
        return self._sum(Block.turned, point, kept)

    def model(self, point: Point, slots: Sequence[Slot]) -> np.ndarray:
        """See :class:`Block`."""
        return self._sum(Block.model, point, slots)

    def patterns(self, slots: Sequence[Slot]) -> Patterns | None:
        """Return the different rows of some columns, merged; None if they are too many."""
        found: Patterns | None = self._merge(merged, patterns_of, slots)
        return found

    def _sum(self, verb: Callable[..., np.ndarray], *arguments: Any) -> np.ndarray:
        total: np.ndarray = self._merge(_added, verb, *arguments)
        return total

    def _merge(
        self, merge: Callable[[Sequence[Any]], Any], verb: Callable[..., Any], *arguments: Any
    ) -> Any:
        """Ask all blocks, and merge their answers on the workers."""
        with told_plainly(self.client):
            parts = self._ask(verb, *arguments)
            return tree(partial(self.client.submit, merge, pure=False), parts).result()

    def _ask(self, verb: Callable[..., Any], *arguments: Any) -> list[Future]:
        """Ask all blocks."""
        ask = self.client.submit
        return [ask(verb, block, *arguments, pure=False) for block in self.blocks]

    # -- rows --------------------------------------------------------------------------

    def column(self, answers: Answers) -> np.ndarray:
        """Return the answers of a weak classifier to all rows as signs; a bit a row travels."""
        key = answers.feature, answers.signs.tobytes()
        if key not in self._bits:
            with told_plainly(self.client):
                parts = self.client.gather(self._ask(Block.column, answers))
            sizes = np.diff(self.starts)
            bits = [np.unpackbits(p, count=n) for p, n in zip(parts, sizes, strict=True)]
            self._bits[key] = np.packbits(np.concatenate(bits))
            while len(self._bits) > max(1, MOST_BITS // max(1, len(self) // 8)):
                self._bits.popitem(last=False)
        self._bits.move_to_end(key)
        signs = np.unpackbits(self._bits[key], count=len(self)).view(np.int8)
        return 2 * signs - 1

    def codes(self, feature: int) -> np.ndarray:
        """Return the codes of one feature, one or two bytes a row."""
        if feature not in self._codes:
            with told_plainly(self.client):
                parts = self.client.gather(self._ask(Block.codes, feature))
            self._codes[feature] = np.concatenate(parts)
            while len(self._codes) > MOST_CODES:
                self._codes.popitem(last=False)
        self._codes.move_to_end(feature)
        return self._codes[feature]

    def picked(self, rows: np.ndarray) -> np.ndarray:
        """Return all codes of some rows, ascending: (n_features, n_rows)."""
        ask, asked = self.client.submit, []
        for block, own in self._shared_out(rows):
            if len(own):
                asked.append(ask(Block.picked, self.blocks[block], own, pure=False))
        with told_plainly(self.client):
            parts = self.client.gather(asked)
        return np.concatenate([np.empty((len(self.layout.n_bins), 0), np.uint16), *parts], axis=1)

    def subset(self, rows: np.ndarray, share: float) -> ClusterRows:
        """Return some of the rows, ascending, as blocks of their own on the workers."""
        blocks, sizes = [], []
        for block, own in self._shared_out(rows):
            mask = np.zeros(int(self.starts[block + 1] - self.starts[block]), dtype=bool)
            mask[own] = True
            bits = np.packbits(mask)
            made = self.client.submit(_subset, self.blocks[block], bits, share, pure=False)
            blocks.append(made)
            sizes.append(len(own))
        return ClusterRows(self.client, self.layout, blocks, sizes)

    def _shared_out(self, rows: np.ndarray) -> list[tuple[int, np.ndarray]]:
        """Return for each block which of the rows are its own, by their places in it."""
        limits = np.searchsorted(rows, self.starts)
        return [
            (block, rows[limits[block] : limits[block + 1]] - self.starts[block])
            for block in range(len(self.blocks))
        ]


def tree(merge: Callable[[list[Any]], Any], parts: Sequence[Any]) -> Any:
    """Return the task of all parts merged, neighbours first, some at a time.

    Neighbours are mostly on one worker: few sums travel, whatever the number of parts.
    """
    parts = list(parts)
    while len(parts) > 1:
        groups = [parts[i : i + FAN_IN] for i in range(0, len(parts), FAN_IN)]
        parts = [merge(group) for group in groups]
    return parts[0]


def _added(parts: Sequence[np.ndarray]) -> np.ndarray:
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


def _subset(block: Block, bits: np.ndarray, share: float) -> Block:
    return block.subset(np.flatnonzero(np.unpackbits(bits, count=len(block))), share)
