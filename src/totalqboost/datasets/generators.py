"""Artificial problems of any size; every function returns X and y in {-1, +1}."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["make_rare_event", "make_ringnorm", "make_twonorm", "make_waveform"]

Data = tuple[np.ndarray, np.ndarray]


def make_ringnorm(
    n_rows: int = 7400, seed: int = 0, n_features: int = 20, *, n_positive: int | None = None
) -> Data:
    """Return two normal clouds around nearly the same place, one twice as wide (Breiman 1996).

    Class +1 is N(0, 4 I), class -1 is N(a, I) with a = 2 / sqrt(n_features) in every
    coordinate. The best possible error at 20 features is about 1.3 %. Half of the rows are
    positive unless ``n_positive`` says how many.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    seed : int
        Of the generator.
    n_features : int
        Number of columns.
    n_positive : int, optional
        How many rows are of class +1.

    Examples
    --------
    >>> from totalqboost.datasets import make_ringnorm
    >>> X, y = make_ringnorm(100, seed=0)
    >>> X.shape, int((y == 1).sum())
    ((100, 20), 50)
    """
    rng = np.random.default_rng(seed)
    y = _labels(rng, n_rows, n_positive)
    shift = 2.0 / np.sqrt(n_features)
    noise = rng.standard_normal((n_rows, n_features))
    return np.where(y[:, None] > 0, 2.0 * noise, shift + noise), y


def make_twonorm(n_rows: int = 7400, seed: int = 0, n_features: int = 20) -> Data:
    """Return two unit normal clouds at +a and -a, a = 2 / sqrt(n_features) (Breiman 1996).

    The best possible error at 20 features is about 2.3 %.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    seed : int
        Of the generator.
    n_features : int
        Number of columns.

    Examples
    --------
    >>> from totalqboost.datasets import make_twonorm
    >>> X, y = make_twonorm(100, seed=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((100, 20), [-1, 1])
    """
    rng = np.random.default_rng(seed)
    y = _labels(rng, n_rows)
    shift = 2.0 / np.sqrt(n_features)
    return y[:, None] * shift + rng.standard_normal((n_rows, n_features)), y


def make_waveform(
    n_rows: int = 5000, seed: int = 0, *, n_per_pair: Sequence[int] | None = None
) -> Data:
    """Return noisy mixtures of two of three triangular waves at 21 points (CART, 1984).

    x = t h_a + (1 - t) h_b + N(0, I) with t uniform. Class +1 mixes waves 1 and 3, class
    -1 the other two pairs, about a third and two thirds of the rows, or as many rows of the
    pairs (1, 2), (1, 3) and (2, 3) as ``n_per_pair`` says.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    seed : int
        Of the generator.
    n_per_pair : sequence of int, optional
        How many rows mix each pair of waves.

    Examples
    --------
    >>> from totalqboost.datasets import make_waveform
    >>> X, y = make_waveform(100, seed=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((100, 21), [-1, 1])
    """
    rng = np.random.default_rng(seed)
    points = np.arange(1, 22)
    waves = np.array([np.maximum(6.0 - np.abs(points - peak), 0.0) for peak in (11, 15, 7)])
    pairs = np.array([(0, 1), (0, 2), (1, 2)])
    kinds = np.arange(n_rows) % 3
    if n_per_pair is not None:
        if len(n_per_pair) != 3 or min(n_per_pair) < 0 or sum(n_per_pair) != n_rows:
            raise ValueError(
                f"n_per_pair must be three counts with the sum {n_rows}, got {tuple(n_per_pair)}"
            )
        kinds = np.repeat(np.arange(3), n_per_pair)
    kind = rng.permutation(kinds)
    t = rng.random((n_rows, 1))
    X = t * waves[pairs[kind, 0]] + (1 - t) * waves[pairs[kind, 1]]
    return X + rng.standard_normal((n_rows, 21)), np.where(kind == 1, 1, -1)


def make_rare_event(
    n_rows: int = 100_000,
    positive_rate: float = 0.001,
    seed: int = 0,
    n_features: int = 20,
    *,
    hard_share: float = 0.05,
) -> Data:
    """Return a few events of three kinds among negatives that are mostly easy to dismiss.

    The first two features are the gate, the others the detail, in three blocks. Every feature
    is normal and independent of the others given what the row is:

    ==================  =============  ==================================================
    row                 gate           detail
    ==================  =============  ==================================================
    event of kind k     N(3, 1)        N(1.5, 1) in block k, N(0.5, 1) in the other blocks
    easy negative       N(0, 1)        N(0, 4)
    hard negative       N(3, 1)        N(0, 1)
    ==================  =============  ==================================================

    Two stumps on the gate dismiss nearly all easy negatives and keep nearly all events; hard
    negatives, ``hard_share`` of the negatives, look like events there and take many stumps on
    the detail. So the average row is cheap for a cascade, and dear for one large ensemble.

    ``round(positive_rate * n_rows)`` rows, but at least one, are events, equally many of each
    kind up to one. Nobody can be perfect, and more features make it easier.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    positive_rate : float
        Share of events.
    seed : int
        Of the generator.
    n_features : int
        Number of columns.
    hard_share : float
        Share of the negatives that look like events at first.

    Examples
    --------
    >>> from totalqboost.datasets import make_rare_event
    >>> X, y = make_rare_event(1000, positive_rate=0.05, seed=0)
    >>> X.shape, int((y == 1).sum())
    ((1000, 20), 50)
    """
    if not 0 < positive_rate < 1:
        raise ValueError(f"positive_rate must be between 0 and 1, got {positive_rate}")
    if not 0 <= hard_share <= 1:
        raise ValueError(f"hard_share must be in [0, 1], got {hard_share}")
    if n_features < 5:
        raise ValueError(f"n_features must be >= 5, got {n_features}")
    if n_rows < 2:
        raise ValueError(f"n_rows must be >= 2, got {n_rows}")
    n_positive = min(max(round(positive_rate * n_rows), 1), n_rows - 1)
    n_hard = round(hard_share * (n_rows - n_positive))
    easy, hard = 3, 4  # 0, 1, 2 are the kinds of events
    centers = np.zeros((5, n_features))
    centers[[0, 1, 2, hard], :2] = 3.0
    centers[:3, 2:] = 0.5
    for event, block in enumerate(np.array_split(np.arange(2, n_features), 3)):
        centers[event, block] = 1.5
    widths = np.ones((5, n_features))
    widths[easy, 2:] = 2.0

    rng = np.random.default_rng(seed)
    kinds = np.full(n_rows, easy)
    kinds[:n_positive] = np.arange(n_positive) % 3
    kinds[n_positive : n_positive + n_hard] = hard
    kind = rng.permutation(kinds)
    noise = rng.standard_normal((n_rows, n_features))
    return centers[kind] + widths[kind] * noise, np.where(kind < easy, 1, -1)


def _labels(rng: np.random.Generator, n_rows: int, n_positive: int | None = None) -> np.ndarray:
    """Return as many -1 as +1 in random order, or a given number of +1."""
    if n_positive is None:
        return rng.permutation(np.where(np.arange(n_rows) % 2 == 0, 1, -1))
    if not 0 <= n_positive <= n_rows:
        raise ValueError(f"n_positive must be in [0, {n_rows}], got {n_positive}")
    return rng.permutation(np.where(np.arange(n_rows) < n_positive, 1, -1))
