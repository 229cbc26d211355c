"""Rows to train on in many Parquet files: columns stay on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from totalqboost import TotalQBoostClassifier
from totalqboost.cli.cluster import cluster_of
from totalqboost.cli.errors import BadInput
from totalqboost.cli.honest import Errors, judged_rows, judged_sums, mean_errors
from totalqboost.cli.reading import STDIN, Content, Format
from totalqboost.cli.table import Table, check_number_of_labels, check_roles, read_table
from totalqboost.cli.training import TrainingRows
from totalqboost.cluster.collections import cluster_client, partitions
from totalqboost.cluster.connect import ClusterError
from totalqboost.cluster.files import in_order, read_parquet
from totalqboost.cluster.labels import joined_labels, labels_in
from totalqboost.cluster.scanning import deciles_of, merged, seen_in
from totalqboost.ensemble import Ensemble

if TYPE_CHECKING:
    from totalqboost.cluster.connect import Client

__all__ = [
    "ManyRows",
    "Rows",
    "is_many",
    "known_columns",
    "opened",
    "parquet_frame",
    "plainly",
    "training_rows",
]

SUFFIXES = (".parquet", ".pq")
ROLES = ("--target", "--weight-column", "--drop", "--categorical")
SUMMARY = 1000  # values that deciles are read from


@dataclass(frozen=True, eq=False)
class ManyRows:
    """The same verbs as those of :class:`TrainingRows`, over partitions.

    Attributes
    ----------
    name : str
        How to speak of the files.
    client : Client
        Of the cluster.
    X, y : collections of Dask
        Features and labels.
    weight : array, optional
        Of all rows; those of weight 0 count for nothing.
    parts : tuple of lists
        The partitions of X, and of each the numbers of its labels.
    found : array
        The different labels, sorted.
    categorical : list of str
        The features that are categories.
    settings : dict
        What the estimator must be told about them.
    """

    name: str
    client: Client
    X: Any
    y: Any
    weight: np.ndarray | None
    parts: tuple[list[Any], list[np.ndarray]]
    found: np.ndarray
    categorical: list[str]
    settings: dict[str, Any]

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def codes(self) -> np.ndarray:
        """The number of the class of each row."""
        return np.concatenate(self.parts[1])

    @property
    def numbers(self) -> np.ndarray:
        """The rows that count."""
        return np.flatnonzero(self._weights > 0)

    @property
    def labels(self) -> np.ndarray:
        """Of these the numbers of their classes."""
        return self.codes[self.numbers]

    @property
    def classes(self) -> list[Any]:
        """The labels, sorted."""
        labels: list[Any] = self.found.tolist()
        return labels

    @property
    def names(self) -> list[str]:
        """Those of the features."""
        return list(self.X.columns)

    @property
    def text_columns(self) -> list[str]:
        """The features whose categories are texts."""
        return [name for name in self.categorical if not _is_number(self.X._meta[name])]

    def deciles(self) -> tuple[tuple[float, ...], ...]:
        """Return those of each column of numbers, nearly."""
        n = len(self.parts[0])
        how = [None] * n, [self.settings["categorical_features"]] * n, [SUMMARY] * n
        return deciles_of(merged(list(in_order(self.client, seen_in, self.parts[0], *how))))

    def errors(self, ensembles: Sequence[Ensemble]) -> list[tuple[float, float]]:
        """Return share of wrong labels and log-loss of each ensemble, in one pass."""
        share = self._weights / self._weights.sum()
        own = [list(ensembles)] * len(self.parts[0])
        sums = in_order(self.client, judged_sums, own, *self.parts, self._split(share))
        return [(float(error), float(loss)) for error, loss in sum(sums)]

    def measured(
        self,
        make: Callable[[], TotalQBoostClassifier],
        masks: Sequence[np.ndarray],
        on_fit: Callable[[int], None],
    ) -> Errors:
        """Fit a model for each mask to the other rows; compare what they say with the truth."""
        rows, values = self.numbers, np.full((len(self.codes), 2), np.nan)
        for number, mask in enumerate(masks, start=1):
            on_fit(number)
            is_tested = np.zeros(len(values), dtype=bool)
            is_tested[rows[mask]] = True
            self._check_classes_left(~is_tested & (self._weights > 0))
            model = make().fit(self.X, self.y, np.where(is_tested, 0.0, self._weights))
            own = [model.ensemble_] * len(self.parts[0])
            judged = in_order(self.client, judged_rows, own, *self.parts, self._split(is_tested))
            values[is_tested] = np.concatenate(list(judged))
        seen = ~np.isnan(values[:, 0])
        return mean_errors(values[seen], self._weights[seen])

    def _check_classes_left(self, is_left: np.ndarray) -> None:
        few = np.setdiff1d(self.codes, self.codes[is_left])
        if len(few):
            raise BadInput(
                f"{self.name}: the class {self.classes[few[0]]!r} has too few rows: all of them "
                "are held out at once; leave the class out, or measure with fewer folds"
            )

    @property
    def _weights(self) -> np.ndarray:
        return np.ones(len(self.codes)) if self.weight is None else self.weight

    def _split(self, values: np.ndarray) -> list[np.ndarray]:
        """Return an array of rows in the lengths of the partitions."""
        return np.split(values, np.cumsum([len(own) for own in self.parts[1]])[:-1])


Rows: TypeAlias = TrainingRows | ManyRows


def is_many(data: str, scheduler: str | None, workers: int | None) -> bool:
    """Tell whether data is read by workers: it is asked for, or it is not one file of here."""
    is_pattern = any(sign in data for sign in "*?[") and not Path(data).exists()
    is_asked = scheduler is not None or workers is not None
    return is_asked or "://" in data or is_pattern or Path(data).is_dir()


@contextmanager
def training_rows(
    data: str,
    format: Format,
    roles: tuple[str, str | None, Sequence[str], Sequence[str]],
    cluster: tuple[str | None, int | None],
    quiet: bool,
) -> Iterator[Rows]:
    """Give the training examples of a file, or of many; a cluster is closed at the end.

    ``roles`` are those of columns: target, weights, left out, categorical.
    """
    if not is_many(data, *cluster):
        yield read_table(Path(data), format, roles[3]).training_rows(*roles)
        return
    frame = parquet_frame(data, format)
    for option, names in zip(ROLES, roles, strict=True):
        own = [names] if isinstance(names, str) else names or []
        known_columns(data, frame).require(own, option)
    check_roles(*roles)
    with opened(*cluster, quiet) as client, plainly(f"{data} (y is column {roles[0]!r}): "):
        yield _many_rows(data, client, frame, *roles)


def known_columns(data: str, frame: Any) -> Table:
    """Return a table that knows the columns, and no row."""
    return Table(Content(data, frame._meta))


@contextmanager
def opened(scheduler: str | None, workers: int | None, quiet: bool) -> Iterator[Client]:
    """Give the client of the cluster that is asked for, or of threads in this process."""
    with plainly(), cluster_of(scheduler, workers, quiet) as asked:
        if asked is not None:
            yield asked
            return
        with cluster_client() as client, client.as_current():
            yield client


@contextmanager
def plainly(about: str = "") -> Iterator[None]:
    """Turn what a cluster or its data is not fit for into bad input."""
    try:
        yield
    except ClusterError as error:
        raise BadInput(str(error)) from error
    except (ValueError, TypeError) as error:
        if not about:
            raise
        raise BadInput(f"{about}{error}") from error


def parquet_frame(data: str, format: Format) -> Any:
    """Return the files as one data frame of Dask."""
    if Path(data) == STDIN or (Path(data).is_file() and not data.lower().endswith(SUFFIXES)):
        raise BadInput(
            f"--workers and --scheduler read Parquet files (.parquet), got {data}; save the table "
            "as Parquet, or leave them out"
        )
    if format != Format():
        raise BadInput(f"--sep, --decimal and --encoding are for CSV files, {data} is Parquet")
    with plainly():
        try:
            return read_parquet(data)
        except ValueError as error:
            raise BadInput(str(error)) from error


def _many_rows(
    data: str,
    client: Client,
    frame: Any,
    target: str,
    weight_column: str | None,
    drop: Sequence[str],
    categorical: Sequence[str],
) -> ManyRows:
    apart = [name for name in (target, weight_column, *drop) if name is not None]
    X, y = frame.drop(columns=apart), frame[target]
    if not len(X.columns):
        raise BadInput(f"{data} has no column left to learn from")
    texts = [name for name in X.columns if not _is_number(X._meta[name])]
    own = [name for name in X.columns if name in (*texts, *categorical)]
    parts = partitions(X, y)
    labels = list(in_order(client, labels_in, parts.y))
    classes, codes = joined_labels(labels)
    weight = None
    if weight_column is not None:
        weights = partitions(X, frame[weight_column]).y
        weight = np.concatenate(list(in_order(client, np.asarray, weights))).astype(float)
    used = codes if weight is None else codes[weight > 0]
    where = "" if len(used) == len(codes) else " among the rows of weight > 0"
    check_number_of_labels(data, target, classes[np.unique(used)].tolist(), len(used), where)
    split = np.split(codes, np.cumsum([*map(len, labels)])[:-1])
    settings = {"categorical_features": own if categorical else "from_dtype"}
    return ManyRows(data, client, X, y, weight, (parts.X, split), classes, own, settings)


def _is_number(column: Any) -> bool:
    from pandas.api.types import is_numeric_dtype

    return bool(is_numeric_dtype(column.dtype))
