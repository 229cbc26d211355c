"""Dask collections as training examples: looked at, coded on the workers, and kept there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from totalqboost.cluster.blocks import Block, Layout, stacked
from totalqboost.cluster.collections import Partitions, partitions
from totalqboost.cluster.faults import told_plainly
from totalqboost.cluster.labels import joined_labels, labels_in
from totalqboost.cluster.oracle import ClusterClassOracle, ClusterOracle
from totalqboost.cluster.rows import ClusterRows, tree
from totalqboost.cluster.scanning import (
    Seen,
    check_length,
    merged,
    rows_of,
    seen_column_cuts,
    seen_features,
    seen_in,
)
from totalqboost.dictionaries import Stumps
from totalqboost.dictionaries.base import Dictionary, Oracle
from totalqboost.dictionaries.classes import ClassOracle
from totalqboost.dictionaries.special import (
    BinTotals,
    Categories,
    NumbersWithMissing,
    SpecialFeature,
    codes_of_categories,
    codes_with_missing,
)
from totalqboost.dictionaries.stumps import StumpOracle, polarities
from totalqboost.ensemble import Ensemble
from totalqboost.examples import (
    Examples,
    Labelled,
    RemoteTable,
    as_signs,
    check_weights,
)
from totalqboost.learners import Feature, Stump
from totalqboost.losses import Loss
from totalqboost.tabular import distinct_names, encode

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["ClusterTable", "check_cluster_examples"]

MAX_BINS = 256  # of a feature by default: one byte a row
SUMMARY = 8  # values of a summary for each bin
BLOCK_ROWS = 2**19  # rows of a block, unless a partition has more
BLOCK_VALUES = 2**27  # and values


class ClusterTable(RemoteTable):
    """A table whose rows are on workers.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    parts : Partitions
        Where rows come from.
    seen : Future
        Of :class:`Seen`.
    features : tuple of Feature
        What columns are.
    sizes : list of int
        Rows of positive weight in each partition.
    classes, factors : arrays
        The labels, sorted, and what weights of rows of each class are multiplied by so that all
        sum to one.
    """

    def __init__(
        self,
        client: Client,
        parts: Partitions,
        seen: Future,
        features: tuple[Feature, ...],
        sizes: Sequence[int],
        classes: np.ndarray,
        factors: np.ndarray,
    ):
        self.client, self.parts, self.seen = client, parts, seen
        self.features, self.sizes = features, sizes
        self.classes, self.factors = classes, factors
        self.shape = (int(sum(sizes)), len(features))
        self._coded: dict[int, tuple[ClusterRows, list[np.ndarray]]] = {}
        self._oracles: dict[int, tuple[ClusterOracle, StumpOracle | None]] = {}

    def __getitem__(self, rows: np.ndarray) -> PickedRows:
        return PickedRows(self, rows)

    def oracle(self, dictionary: Dictionary, examples: Examples, loss: Loss) -> Oracle:
        """Return the oracle of a dictionary over these rows."""
        features = examples.features
        if not isinstance(dictionary, Stumps):
            raise ValueError(
                f"dictionary must be 'stumps' for collections of Dask, got {dictionary!r}"
            )
        max_bins = dictionary.max_bins or MAX_BINS
        rows, thresholds = self._rows(max_bins)
        totals = rows.totals()
        special = {}
        for f, feature in enumerate(features):
            own = self._special(f, feature, thresholds[f], totals[rows.layout.bins_of(f)])
            if own is not None:
                special[f] = own
        n_scores = 1 if examples.n_classes == 2 else examples.n_classes
        y = examples.y if n_scores == 1 else np.ones(len(examples), dtype=np.int8)
        base = ClusterOracle(
            rows, y, examples.weight, thresholds, polarities(features), special, loss, n_scores
        )
        near: StumpOracle | None = base.nearby()
        self._oracles[max_bins] = base, near
        if n_scores == 1:
            return near or base
        if near is not None:
            return ClassOracle(near, examples.y, examples.n_classes)
        return ClusterClassOracle(base, examples.y, examples.n_classes)

    def _special(
        self, f: int, feature: Feature, thresholds: np.ndarray, totals: np.ndarray
    ) -> SpecialFeature | None:
        known = BinTotals(totals[:, 0].astype(np.int64), totals[:, 1])
        none = np.zeros(0, dtype=np.uint16)
        if feature.categories is not None:
            return Categories(f, none, known)
        return NumbersWithMissing(f, none, thresholds, known) if feature.has_missing else None

    def _rows(self, max_bins: int) -> tuple[ClusterRows, list[np.ndarray]]:
        """Return the rows coded with at most so many bins, on the workers."""
        if max_bins not in self._coded:
            with told_plainly(self.client):
                cuts = self.client.submit(seen_column_cuts, self.seen, max_bins).result()
                self._coded[max_bins] = self._code(max_bins, cuts), cuts
        return self._coded[max_bins]

    def _code(self, max_bins: int, thresholds: list[np.ndarray]) -> ClusterRows:
        from dask import delayed

        pairs = zip(self.features, thresholds, strict=True)
        layout = Layout(np.array([_n_bins(feature, cuts) for feature, cuts in pairs]))
        own = self.features, layout, self.classes, self.factors
        coding = self.client.submit(coding_of, self.seen, max_bins, *own, pure=False)
        blocks, sizes = [], []
        for first, last in _grouped(self.sizes, len(self.features)):
            triples = [
                [self.parts.X[i], self.parts.y[i], self.parts.weight[i]] for i in range(first, last)
            ]
            blocks.append(delayed(code_block, pure=False)(coding, triples))
            sizes.append(int(sum(self.sizes[first:last])))
        return ClusterRows(self.client, layout, self.client.compute(blocks), sizes)

    def scores(self, ensemble: Ensemble, rows: np.ndarray | None = None) -> np.ndarray:
        """See :class:`RemoteTable`; the columns of the ensemble come to the driver."""
        total = np.zeros(
            (self.shape[0] if rows is None else len(rows), *np.shape(ensemble.intercept))
        )
        total += np.array(ensemble.intercept)
        for learner, weight in zip(ensemble.learners, ensemble.weights, strict=True):
            column = self.column(learner)
            column = column if rows is None else column[rows]
            total += column if weight == 1.0 else np.multiply.outer(column, np.array(weight))
        return total

    def weight_above(self, feature: int, threshold: float, weight: np.ndarray) -> float:
        """See :class:`RemoteTable`; workers have added up the weights of bins."""
        stump = Stump(feature, threshold)
        oracle, _ = self._oracle_of(stump)
        own = oracle.rows.totals()[oracle.rows.layout.bins_of(feature), 1]
        return float(own[oracle.answers(stump).signs > 0].sum())

    def column(self, learner: Any) -> np.ndarray:
        """Return the answers of a learner of one of the dictionaries to all rows."""
        oracle, near = self._oracle_of(learner)
        if near is not None:
            return near.column(learner) * near.y
        return oracle.rows.column(oracle.answers(learner))

    def _oracle_of(self, learner: Any) -> tuple[ClusterOracle, StumpOracle | None]:
        for oracle, near in self._oracles.values():
            if oracle.knows(learner):
                return oracle, near
        raise ValueError(f"{learner!r} is not of a dictionary of these rows")


class PickedRows(RemoteTable):
    """Some rows of a table on workers."""

    def __init__(self, table: ClusterTable, rows: np.ndarray):
        self.table, self.rows = table, rows
        self.shape = (len(rows), table.shape[1])

    def __getitem__(self, rows: np.ndarray) -> PickedRows:
        return PickedRows(self.table, self.rows[rows])

    def scores(self, ensemble: Ensemble) -> np.ndarray:
        """See :class:`RemoteTable`."""
        return self.table.scores(ensemble, self.rows)

    def weight_above(self, feature: int, threshold: float, weight: np.ndarray) -> float:
        """See :class:`RemoteTable`."""
        is_above = self.table.column(Stump(feature, threshold))[self.rows] > 0
        return float(weight[is_above].sum())


# -- coding, on the workers ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Coding:
    """How rows become codes, labels and weights."""

    features: tuple[Feature, ...]
    thresholds: list[np.ndarray]
    layout: Layout
    classes: np.ndarray
    factors: np.ndarray

    def coded(self, X: Any, y: Any, weight: Any) -> Block:
        """Return the rows of positive weight of one partition as a block."""
        labels = np.searchsorted(self.classes, np.asarray(y).ravel())
        check_length("y", labels, X)
        own = np.ones(len(labels)) if weight is None else np.asarray(weight, dtype=float).ravel()
        kept = np.flatnonzero(own > 0)
        labels, own = labels[kept], own[kept] * self.factors[labels[kept]]
        is_small = self.layout.is_small
        small = np.empty((int(is_small.sum()), len(kept)), np.uint8)
        large = np.empty((int((~is_small).sum()), len(kept)), np.uint16)
        if len(kept):
            array = encode(rows_of(X, kept), self.features, by_name=False)
            for f, feature in enumerate(self.features):
                small_one, row = self.layout.place(f)
                target = small if small_one else large
                target[row] = codes_of(array[:, f], feature, self.thresholds[f])
        signs = as_signs(labels) if len(self.classes) == 2 else labels.astype(np.int32)
        return Block(self.layout, small, large, signs, own)


def coding_of(
    seen: Seen,
    max_bins: int,
    features: tuple[Feature, ...],
    layout: Layout,
    classes: np.ndarray,
    factors: np.ndarray,
) -> Coding:
    """Return how rows become codes; made where it is used, for it has all thresholds."""
    return Coding(features, seen_column_cuts(seen, max_bins), layout, classes, factors)


def codes_of(x: np.ndarray, feature: Feature, thresholds: np.ndarray) -> np.ndarray:
    """Return the codes of one column."""
    if feature.categories is not None:
        return codes_of_categories(x, len(feature.categories))
    if feature.has_missing:
        return codes_with_missing(x, thresholds)
    return np.searchsorted(thresholds, x)


def code_block(coding: Coding, triples: Sequence[Sequence[Any]]) -> Block:
    """Return the rows of some partitions as one block."""
    return stacked(coding.layout, [coding.coded(*triple) for triple in triples])


def _n_bins(feature: Feature, thresholds: np.ndarray) -> int:
    if feature.categories is not None:
        return len(feature.categories) + 1
    return len(thresholds) + (2 if feature.has_missing else 1)


def _grouped(sizes: Sequence[int], n_features: int) -> Iterator[tuple[int, int]]:
    """Yield consecutive partitions that make a block; how does not depend on the workers."""
    most = min(BLOCK_ROWS, BLOCK_VALUES // n_features)
    first, n_rows = 0, 0
    for i, size in enumerate(sizes):
        if n_rows and n_rows + size > most:
            yield first, i
            first, n_rows = i, 0
        n_rows += size
    yield first, len(sizes)


# -- examples --------------------------------------------------------------------------------


def check_cluster_examples(
    client: Client,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    class_weight: Any = None,
    categorical_features: Any = "from_dtype",
    max_bins: int = MAX_BINS,
) -> Examples:
    """Return training examples of a collection; as ``check_examples`` does of a table.

    Labels and weights come to the driver, features do not.
    """
    from dask import delayed

    with told_plainly(client):
        parts = partitions(X, y, sample_weight)
    size = SUMMARY * max(max_bins, MAX_BINS)
    with told_plainly(client):
        looked = [
            delayed(seen_in, pure=False)(x, w, categorical_features, size)
            for x, w in zip(parts.X, parts.weight, strict=True)
        ]
        # One graph: what was seen in a few partitions is merged before the next ones are read.
        seen = client.compute(tree(delayed(merged, pure=False), looked))
        labels = client.gather(client.compute([delayed(labels_in)(part) for part in parts.y]))
        features = client.submit(seen_features, seen).result()
        given = None
        if sample_weight is not None:
            own = [delayed(np.asarray)(part) for part in parts.weight]
            given = np.concatenate(client.gather(client.compute(own))).ravel()
    if not features:
        raise ValueError("X must have rows of positive sample_weight, got none")
    classes, codes = joined_labels(labels)
    labelled = check_weights(classes, codes, given, class_weight)
    if given is not None and np.count_nonzero(given > 0) > len(labelled.rows):
        raise ValueError(  # workers would keep rows that the driver does not count
            "sample_weight must not hold weights that are nothing beside the others, got "
            f"{given[given > 0].min():g} beside {given.max():g}; set them to 0"
        )
    limits = np.cumsum([0, *map(len, labels)])
    sizes = np.diff(np.searchsorted(labelled.rows, limits)).tolist()
    factors = class_factors(labelled, codes, given)
    table = ClusterTable(client, parts, seen, features, sizes, classes, factors)
    return labelled.examples(table, features, bool(distinct_names(X)))


def class_factors(labelled: Labelled, codes: np.ndarray, given: np.ndarray | None) -> np.ndarray:
    """Return by what the weight of a row of each class is multiplied."""
    kept, first = np.unique(codes[labelled.rows], return_index=True)
    rows = labelled.rows[first]
    factors = np.zeros(len(labelled.classes))
    factors[kept] = labelled.weight[rows] / (1.0 if given is None else given[rows])
    return factors
