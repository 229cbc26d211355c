"""Features that kept columns read: each is paid once, and their number may be limited.

The columns that read a feature are its group. ``counts`` holds how many kept columns read each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from totalqboost.kernels.jit import kernel

NO_LIMIT = 1 << 62


class Groups(NamedTuple):
    """Column j reads the features which[first[j] : first[j + 1]]."""

    first: np.ndarray
    which: np.ndarray
    price: np.ndarray  # per feature
    limit: int  # of features read


@kernel
def count_readers(groups, kept, counts):
    """Write how many of the columns that ``kept`` marks read each feature; return the features."""
    counts[:] = 0
    n_read = 0
    for j in range(groups.first.shape[0] - 1):
        if kept[j]:
            n_read += admit(groups, counts, j)
    return n_read


@kernel
def admit(groups, counts, j):
    """Count column j in; return how many features it is the first to read."""
    n_new = 0
    for t in range(groups.first[j], groups.first[j + 1]):
        g = groups.which[t]
        n_new += 1 if counts[g] == 0 else 0
        counts[g] += 1
    return n_new


@kernel
def dismiss(groups, counts, j):
    """Count column j out; return how many features it was the last to read."""
    n_lost = 0
    for t in range(groups.first[j], groups.first[j + 1]):
        g = groups.which[t]
        counts[g] -= 1
        n_lost += 1 if counts[g] == 0 else 0
    return n_lost


@kernel
def group_change(groups, counts, drop, add):
    """Return what a move adds to the price of features and to their number; -1 is no column."""
    price, number = 0.0, 0
    if drop >= 0:
        number -= dismiss(groups, counts, drop)
        for t in range(groups.first[drop], groups.first[drop + 1]):
            if counts[groups.which[t]] == 0:
                price -= groups.price[groups.which[t]]
    if add >= 0:
        for t in range(groups.first[add], groups.first[add + 1]):
            if counts[groups.which[t]] == 0:
                price += groups.price[groups.which[t]]
                number += 1
    if drop >= 0:
        admit(groups, counts, drop)
    return price, number


@kernel
def group_price(groups, counts):
    """Return the price of all features that are read."""
    total = 0.0
    for g in range(groups.price.shape[0]):
        if counts[g] > 0:
            total += groups.price[g]
    return total
