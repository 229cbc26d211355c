"""What the package brings along: the paper's twelve data sets, its figure and its table.

Ten sets are files, built by ``tools/build_datasets.py``; ringnorm and waveform are drawn from
their generators. ``SOURCES.md`` beside this file tells where each comes from.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal, overload

import numpy as np

from totalqboost.datasets.generators import Data, make_ringnorm, make_waveform

__all__ = ["DataFileError", "load", "names", "paper_figure", "paper_table"]


class DataFileError(ValueError):
    """A shipped file that is missing or damaged; the message says which and why.

    Examples
    --------
    >>> from totalqboost.datasets import DataFileError
    >>> issubclass(DataFileError, ValueError)
    True
    """


@dataclass(frozen=True)
class Counts:
    """What a data set must hold."""

    n_features: int
    n_negative: int
    n_positive: int

    @property
    def n_rows(self) -> int:
        return self.n_negative + self.n_positive

    def __str__(self) -> str:
        return f"{self.n_rows} x {self.n_features} ({self.n_negative} / {self.n_positive})"


COUNTS = {
    "banana": Counts(2, 2924, 2376),
    "breast cancer": Counts(9, 186, 77),
    "diabetes": Counts(8, 500, 268),
    "flare solar": Counts(9, 50, 94),
    "german": Counts(20, 700, 300),
    "heart": Counts(13, 150, 120),
    "image": Counts(18, 898, 1188),
    "ringnorm": Counts(20, 3736, 3664),
    "splice": Counts(60, 1647, 1344),
    "thyroid": Counts(5, 150, 65),
    "twonorm": Counts(20, 3697, 3703),
    "waveform": Counts(21, 3353, 1647),
}
WAVEFORM_PAIRS = (1657, 1647, 1696)  # rows of each mixture, the middle one being class +1


def names() -> tuple[str, ...]:
    """Return the names of the paper's twelve data sets.

    Examples
    --------
    >>> from totalqboost import datasets
    >>> len(datasets.names()), datasets.names()[0]
    (12, 'banana')
    """
    return tuple(COUNTS)


@overload
def load(name: str, return_names: Literal[False] = False) -> Data: ...


@overload
def load(
    name: str, return_names: Literal[True]
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]: ...


def load(
    name: str, return_names: bool = False
) -> Data | tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Return X (float64) and y in {-1, +1} of one of the paper's data sets.

    Needs no network. Case, spaces, hyphens and underscores in the name do not matter. With
    ``return_names`` the names of the features come third.

    Parameters
    ----------
    name : str
        One of :func:`names`.
    return_names : bool
        Whether to return the names of the features too.

    Examples
    --------
    >>> X, y = load("breast cancer")
    >>> X.shape, int((y == 1).sum())
    ((263, 9), 77)
    """
    name = _known(name)
    if name in DRAWN:
        X, y = DRAWN[name]()
        features = tuple(f"x{feature}" for feature in range(X.shape[1]))
    else:
        X, y, features = _read(name)
    return (X, y, features) if return_names else (X, y)


def paper_figure() -> dict[str, Any]:
    """Return every point of the paper's figure, by data set.

    ``convex`` holds experiments A and B, ``cp`` C, D and E, each as [cardinality, error in %];
    ``n_validation`` is the number of rows behind the errors.

    Examples
    --------
    >>> from totalqboost import datasets
    >>> sorted(datasets.paper_figure()["heart"])
    ['convex', 'cp', 'n_validation']
    """
    return _read_json("paper_figure.json")


def paper_table() -> dict[str, Any]:
    """Return the paper's table of sparsity and generalization gains, ``rows`` and remarks.

    Examples
    --------
    >>> from totalqboost import datasets
    >>> "rows" in datasets.paper_table()
    True
    """
    return _read_json("paper_table.json")


def file_name(name: str) -> str:
    """Return the name of the file that holds a data set."""
    return f"{name.replace(' ', '_')}.csv.gz"


# -- drawn ----------------------------------------------------------------------------------


def _draw_ringnorm() -> Data:
    """Return a draw with the class counts and the four decimals of the published sample."""
    counts = COUNTS["ringnorm"]
    X, y = make_ringnorm(counts.n_rows, seed=0, n_positive=counts.n_positive)
    return X.round(4) + 0.0, y  # + 0.0 turns -0.0 into 0.0


def _draw_waveform() -> Data:
    """Return a draw with the class counts and the two decimals of the published sample."""
    X, y = make_waveform(sum(WAVEFORM_PAIRS), seed=0, n_per_pair=WAVEFORM_PAIRS)
    return X.round(2) + 0.0, y


DRAWN = {"ringnorm": _draw_ringnorm, "waveform": _draw_waveform}


# -- read -----------------------------------------------------------------------------------


def _known(name: str) -> str:
    """Return our spelling of a name."""

    def squeeze(text: str) -> str:
        return re.sub(r"[\s_-]", "", text).casefold()

    spellings = {squeeze(known): known for known in COUNTS}
    if squeeze(str(name)) not in spellings:
        raise ValueError(f"data set must be one of {', '.join(COUNTS)}, got {name!r}")
    return spellings[squeeze(str(name))]


def _read(name: str) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Return X, y and the names of the features from a file, if they are what they must be."""
    expected = COUNTS[name]
    try:
        text = gzip.decompress(_content("data", file_name(name))).decode("ascii")
        header, *lines = text.split("\n")[:-1]
        if len(lines) != expected.n_rows:
            raise ValueError(f"{len(lines)} rows, not {expected.n_rows}")
        table = np.loadtxt(lines, delimiter=",", ndmin=2)
        X, labels = np.ascontiguousarray(table[:, :-1]), table[:, -1]
        found = Counts(X.shape[1], int((labels == -1).sum()), int((labels == 1).sum()))
        if found != expected:
            raise ValueError(f"{found}, not {expected}")
        if not np.isfinite(X).all():
            raise ValueError("features that are not finite")
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise _damaged(file_name(name), error) from error
    return X, labels.astype(np.int64), tuple(header.split(",")[:-1])


def _read_json(file: str) -> dict[str, Any]:
    try:
        return json.loads(_content("paper", file))
    except (OSError, ValueError) as error:
        raise _damaged(file, error) from error


def _content(folder: str, file: str) -> bytes:
    return files(__package__).joinpath(folder, file).read_bytes()


def _damaged(file: str, error: Exception) -> DataFileError:
    return DataFileError(
        f"the shipped file {file} is missing or damaged ({error}); reinstall totalqboost"
    )
