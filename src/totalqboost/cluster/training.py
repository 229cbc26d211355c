"""Examples to train on, wherever their rows are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from totalqboost.cluster.collections import cluster_client, columns_of
from totalqboost.cluster.connect import connected
from totalqboost.cluster.tables import MAX_BINS, check_cluster_examples
from totalqboost.dictionaries import Stumps
from totalqboost.dictionaries.base import Dictionary
from totalqboost.examples import Examples, check_examples, note_columns
from totalqboost.tabular import is_collection

__all__ = ["training_examples"]


@contextmanager
def training_examples(
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    class_weight: Any = None,
    categorical_features: Any = "from_dtype",
    estimator: Any = None,
    dictionaries: Sequence[Dictionary] = (),
) -> Iterator[Examples]:
    """Give checked examples: of a table, or of a collection of Dask, whose rows stay on workers.

    A cluster that is opened for them is closed at the end.
    """
    if not is_collection(X):
        yield check_examples(
            X,
            y,
            sample_weight,
            class_weight=class_weight,
            categorical_features=categorical_features,
            estimator=estimator,
            accept_sparse=True,
        )
        return
    if estimator is not None:
        note_columns(estimator, columns_of(X))
    bins = [d.max_bins or MAX_BINS for d in dictionaries if isinstance(d, Stumps)]
    with cluster_client() as client, connected(client=client):
        yield check_cluster_examples(
            client,
            X,
            y,
            sample_weight,
            class_weight=class_weight,
            categorical_features=categorical_features,
            max_bins=max([MAX_BINS, *bins]),
        )
