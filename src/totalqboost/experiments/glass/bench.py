"""The rows of a detector: to train on, for thresholds, and fresh ones; coded once for all kinds."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from totalqboost import datasets
from totalqboost.dictionaries import Stumps
from totalqboost.dictionaries.base import Oracle
from totalqboost.examples import Examples
from totalqboost.experiments.haar import HaarFeatures
from totalqboost.learners import Feature

__all__ = ["GlassBench", "GlassSettings", "prepared_bench"]

N_ROOTS = 60  # features of which all of the synthetic ones are noisy copies
BLOCK = 5000  # rows that are generated at a time


@dataclass(frozen=True)
class GlassSettings:
    """Everything that the results depend on besides the images.

    Attributes
    ----------
    n_features : int
        Haar-like features, others for each seed; or columns of the synthetic set.
    n_train, n_valid : int
        Rows to train on and rows for thresholds; all others are fresh.
    n_learners : int
        Size of every ensemble.
    stage_sizes : tuple of int
        Those of the cascade in stages.
    recalls : tuple of float
        At which false positives are counted.
    confidence : float
        Of thresholds by the binomial bound.
    max_bins : int
        Thresholds per feature are the borders of so many bins.
    n_rows : int
        0: Fashion-MNIST. Else rows of the synthetic set of rare events.
    positive_rate : float
        Share of events in the synthetic set.
    """

    n_features: int = 2000
    n_train: int = 10_000
    n_valid: int = 20_000
    n_learners: int = 20
    stage_sizes: tuple[int, ...] = (2, 3, 5, 10)
    recalls: tuple[float, ...] = (0.90, 0.95, 0.99)
    confidence: float = 0.95
    max_bins: int = 128
    n_rows: int = 0
    positive_rate: float = 0.05


class GlassBench:
    """One seed: features, labels of all kinds, and the codes of the training rows.

    Parameters
    ----------
    settings : GlassSettings
        Sizes.
    seed : int
        Which features, and which rows are trained on.
    path : path, optional
        Where Fashion-MNIST is.
    """

    def __init__(self, settings: GlassSettings, seed: int, path: Any = None):
        self.settings, self.seed = settings, seed
        n, m = settings.n_train, settings.n_train + settings.n_valid
        X, kinds = rare_events(settings, seed) if settings.n_rows else clothes(settings, seed, path)
        if len(kinds) <= m:
            raise ValueError(f"n_train + n_valid must leave fresh rows of {len(kinds)}, got {m}")
        self.X_train, self.X_valid, self.X_fresh = X[:n], X[n:m], X[m:]
        self._kinds = kinds[:n], kinds[n:m], kinds[m:]
        self.dictionary = Coded(self.X_train, settings.max_bins)

    def labels(self, kind: int) -> tuple[np.ndarray, ...]:
        """Return -1 and +1 for the rows of each part; +1 is the kind to detect."""
        return tuple(np.where(k == kind, np.int8(1), np.int8(-1)) for k in self._kinds)

    def examples(self, kind: int) -> Examples:
        """Return the training rows."""
        y = self.labels(kind)[0]
        n_features = self.X_train.shape[1]
        return Examples(
            self.X_train,
            y,
            np.full(len(y), 1.0 / len(y)),
            np.array([-1, 1]),
            tuple(Feature(f"x{j}") for j in range(n_features)),
            float(len(y)),
            np.arange(len(y)),
            y,
        )


class Coded:
    """A dictionary of stumps that codes its rows once, for labels that change."""

    def __init__(self, X: np.ndarray, max_bins: int):
        self.X, self.stumps = X, Stumps(max_bins=max_bins)
        self._oracle = self.stumps.prepare(X, np.ones(len(X), dtype=np.int8), -1)

    def prepare(
        self,
        X: np.ndarray,
        y: np.ndarray,
        n_jobs: int | None = None,
        features: Sequence[Feature] | None = None,
        weight: np.ndarray | None = None,
    ) -> Oracle:
        """Return the oracle; other rows than those of the beginning are coded anew."""
        if X is not self.X:
            return self.stumps.prepare(X, y, n_jobs, features, weight)
        oracle = copy(self._oracle)
        oracle.y = np.asarray(y, dtype=np.int8)
        return oracle


@lru_cache(maxsize=1)
def prepared_bench(settings: GlassSettings, seed: int, path: Any = None) -> GlassBench:
    """Return the bench, kept for the next kind and method."""
    return GlassBench(settings, seed, path)


def clothes(settings: GlassSettings, seed: int, path: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Return Haar-like features of Fashion-MNIST in random order, test images among the fresh."""
    first, first_kinds, last, last_kinds = datasets.load_fashion_mnist(path)
    order = np.random.default_rng(seed).permutation(len(first))
    images = np.concatenate([first[order], last])
    haar = HaarFeatures(settings.n_features, random_state=seed).fit(images)
    return haar.transform(images), np.concatenate([first_kinds[order], last_kinds])


def rare_events(settings: GlassSettings, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return events (kind 1) among negatives (0), at any size, in single precision.

    ``make_rare_event`` with ``N_ROOTS`` features; every column is one of them with noise of its
    own, more of it in later columns, so that most of ten thousand are of little use.
    """
    rng = np.random.default_rng(seed)
    X = np.empty((settings.n_rows, settings.n_features), dtype=np.float32, order="F")
    kinds = np.empty(settings.n_rows, dtype=np.int64)
    noise = np.linspace(0.5, 4.0, settings.n_features, dtype=np.float32)
    for start in range(0, settings.n_rows, BLOCK):
        n = min(BLOCK, settings.n_rows - start)
        own_seed = int(rng.integers(2**31))
        roots, y = datasets.make_rare_event(n, settings.positive_rate, own_seed, N_ROOTS)
        roots, rows = roots.astype(np.float32), slice(start, start + n)
        for j in range(settings.n_features):
            own = rng.standard_normal(n, dtype=np.float32)
            X[rows, j] = roots[:, j % N_ROOTS] + noise[j] * own
        kinds[rows] = y > 0
    return X, kinds


def quick(settings: GlassSettings) -> GlassSettings:
    """Return settings that take seconds, to see that it runs."""
    n_rows = min(settings.n_rows, 6000)
    return replace(settings, n_features=200, n_train=2000, n_valid=2000, n_rows=n_rows)
