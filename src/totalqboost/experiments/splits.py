"""Splits of a data set into training and validation rows."""

from __future__ import annotations

import numpy as np

__all__ = ["fold_split", "paper_split"]


def paper_split(n_rows: int, seed: int) -> np.ndarray:
    """Return the mask of validation rows: each row with probability 0.2, as in the paper."""
    return np.random.default_rng(seed).random(n_rows) < 0.2


def fold_split(n_rows: int, n_folds: int, fold: int) -> np.ndarray:
    """Return the mask of the rows of one of n_folds folds, dealt out at random once."""
    if not 0 <= fold < n_folds:
        raise ValueError(f"fold must be from 0 to {n_folds - 1}, got {fold!r}")
    return np.random.default_rng(0).permutation(n_rows) % n_folds == fold
