"""Labels of partitions: read where they are, joined on the driver, a number for each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from totalqboost.examples import check_classes, missing_labels, read_labels

__all__ = ["PartLabels", "joined_labels", "labels_in"]


@dataclass(frozen=True, eq=False)
class PartLabels:
    """The different labels of a partition, which of them each row has, and rows without one."""

    found: np.ndarray
    codes: np.ndarray
    missing: np.ndarray

    def __len__(self) -> int:
        return len(self.codes)


def labels_in(part: Any) -> PartLabels:
    """Return the labels of a partition."""
    labels, gaps = read_labels(part, "y") if len(part) else (np.zeros(0, int), np.zeros(0, bool))
    missing = np.flatnonzero(gaps)
    if len(missing):
        return PartLabels(labels[:0], np.zeros(len(labels), np.uint8), missing)
    try:
        found, codes = np.unique(labels, return_inverse=True)
    except TypeError:  # of several types, which the driver complains about
        found = np.array(list(dict.fromkeys(labels.tolist())), dtype=object)
        codes = np.zeros(len(labels), int)
    return PartLabels(found, codes.astype(np.min_scalar_type(max(len(found) - 1, 0))), missing)


def joined_labels(parts: Sequence[PartLabels]) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes of all partitions, sorted, and the number of each row's class."""
    starts = np.cumsum([0, *map(len, parts)])
    gaps = [start + part.missing for start, part in zip(starts[:-1], parts, strict=True)]
    missing = np.concatenate([np.zeros(0, int), *gaps])
    if len(missing):
        raise missing_labels("y", len(missing), int(starts[-1]), int(missing[0]))
    found = _together([part.found for part in parts if len(part)])
    classes, _ = check_classes(np.repeat(found, 3))  # each once would look like no classes
    codes = [np.searchsorted(classes, part.found)[part.codes] for part in parts if len(part)]
    return classes, np.concatenate(codes).astype(np.int64)


def _together(found: Sequence[np.ndarray]) -> np.ndarray:
    """Return all labels; NumPy would make text of numbers beside it."""
    if not found:
        raise ValueError("y must hold a label for each row, got no row")
    if len({own.dtype.kind in "biuf" for own in found}) > 1:
        return np.concatenate([own.astype(object) for own in found])
    return np.concatenate(found)
