"""Predictions for collections of Dask: computed where their rows are, when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from totalqboost.cluster.collections import partitions_of

__all__ = ["computed", "lazily"]


def lazily(predict: Callable[[Any], np.ndarray], X: Any, like: np.ndarray) -> Any:
    """Return the array of Dask of what a function says of every partition of X.

    ``like`` is an answer for no row: its type and shape are those of all answers.
    """
    import dask.array as da
    from dask import delayed

    function = delayed(_predicted)(predict, like)
    sizes, parts = partitions_of(X)
    answers = [
        da.from_delayed(function(part), (size, *like.shape[1:]), like.dtype)
        for part, size in zip(parts, sizes, strict=True)
    ]
    return da.concatenate(answers, axis=0, allow_unknown_chunksizes=True)


def computed(*values: Any) -> tuple[Any, ...]:
    """Return values that are not lazy any more."""
    from dask import compute

    return tuple(compute(value)[0] for value in values)  # arrays and frames do not mix well


class _predicted:  # noqa: N801
    """Call the function, but for a partition without rows."""

    def __init__(self, predict: Callable[[Any], np.ndarray], like: np.ndarray):
        self.predict, self.like = predict, like

    def __call__(self, part: Any) -> np.ndarray:
        return self.predict(part) if len(part) else self.like
