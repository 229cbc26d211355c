"""Small tables as collections of Dask, and functions of their graphs; workers import them too."""

from __future__ import annotations

import errno
import os
import time
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

N_PARTS = 4


def table(n_rows: int = 240, n_classes: int = 2, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    """Return numbers with ties, categories and missing values, and labels that depend on them."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "size": np.round(rng.normal(size=n_rows), 1),
            "age": np.round(rng.normal(size=n_rows), 1),
            "kind": rng.choice(["x", "y", "z"], n_rows),
        }
    )
    score = X["size"] + 1.5 * (X["kind"] == "x") + 0.5 * X["age"] + 0.5 * rng.normal(size=n_rows)
    X.loc[rng.random(n_rows) < 0.2, "age"] = np.nan
    limits = np.quantile(score, np.arange(1, n_classes) / n_classes)
    y = pd.Series(np.digitize(score, limits), name="y").map("class{}".format)
    return X, y


def frames(X: pd.DataFrame, y: pd.Series, n_parts: int = N_PARTS) -> tuple[Any, Any]:
    """Return them as data frames of Dask."""
    import dask.dataframe as dd

    return (
        dd.from_pandas(X, npartitions=n_parts, sort=False),
        dd.from_pandas(y, npartitions=n_parts, sort=False),
    )


def parts(X: Any, n_parts: int = N_PARTS) -> list[Any]:
    """Return the rows in parts."""
    limits = np.linspace(0, len(X), n_parts + 1).astype(int)
    return [X[first:last] for first, last in pairwise(limits)]


def on_a_full_disk(part: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def failing(part: Any, error: Exception) -> Any:
    raise error


def slowly(part: Any) -> Any:
    time.sleep(0.05)
    return part
