"""Breiman's artificial problems; every function returns X and y in {-1, +1}."""

from __future__ import annotations

import numpy as np

__all__ = ["make_ringnorm", "make_twonorm", "make_waveform"]

Data = tuple[np.ndarray, np.ndarray]


def make_ringnorm(n_rows: int = 7400, seed: int = 0, n_features: int = 20) -> Data:
    """Return two normal clouds around nearly the same place, one twice as wide (Breiman 1996).

    Class +1 is N(0, 4 I), class -1 is N(a, I) with a = 2 / sqrt(n_features) in every
    coordinate. The best possible error at 20 features is about 1.3 %.
    """
    rng = np.random.default_rng(seed)
    y = _labels(rng, n_rows)
    shift = 2.0 / np.sqrt(n_features)
    noise = rng.standard_normal((n_rows, n_features))
    return np.where(y[:, None] > 0, 2.0 * noise, shift + noise), y


def make_twonorm(n_rows: int = 7400, seed: int = 0, n_features: int = 20) -> Data:
    """Return two unit normal clouds at +a and -a, a = 2 / sqrt(n_features) (Breiman 1996).

    The best possible error at 20 features is about 2.3 %.
    """
    rng = np.random.default_rng(seed)
    y = _labels(rng, n_rows)
    shift = 2.0 / np.sqrt(n_features)
    return y[:, None] * shift + rng.standard_normal((n_rows, n_features)), y


def make_waveform(n_rows: int = 5000, seed: int = 0) -> Data:
    """Return noisy mixtures of two of three triangular waves at 21 points (CART, 1984).

    x = t h_a + (1 - t) h_b + N(0, I) with t uniform. Class +1 mixes waves 1 and 3, class
    -1 the other two pairs, about a third and two thirds of the rows.
    """
    rng = np.random.default_rng(seed)
    points = np.arange(1, 22)
    waves = np.array([np.maximum(6.0 - np.abs(points - peak), 0.0) for peak in (11, 15, 7)])
    pairs = np.array([(0, 1), (0, 2), (1, 2)])
    kind = rng.permutation(np.arange(n_rows) % 3)
    t = rng.random((n_rows, 1))
    X = t * waves[pairs[kind, 0]] + (1 - t) * waves[pairs[kind, 1]]
    return X + rng.standard_normal((n_rows, 21)), np.where(kind == 1, 1, -1)


def _labels(rng: np.random.Generator, n_rows: int) -> np.ndarray:
    """Return as many -1 as +1 in random order."""
    return rng.permutation(np.where(np.arange(n_rows) % 2 == 0, 1, -1))
