"""Haar-like features: differences of sums over rectangles, from integral images."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from totalqboost.parameters import check_integer
from totalqboost.settings import generator

__all__ = ["HaarFeatures", "integral_images"]

# Cells of a feature by kind: two, three or four rectangles of one size, with these signs.
KINDS = (
    np.array([[1, -1]]),
    np.array([[1], [-1]]),
    np.array([[1, -2, 1]]),
    np.array([[1], [-2], [1]]),
    np.array([[1, -1], [-1, 1]]),
)
LEAST_AREA = 4  # of a rectangle, in pixels
BLOCK = 4096  # images at a time


class HaarFeatures(TransformerMixin, BaseEstimator):
    """Thousands of Haar-like features at random places and scales (Viola and Jones 2001).

    A feature is a sum over 2, 3 or 4 adjacent rectangles of one size with signs that add up to
    zero. It is a sparse combination of at most 9 values of the integral image, so that all
    features of all images are one sparse product; integers below 2^24 are exact in float32.

    Parameters
    ----------
    n_features : int, default=2000
        How many; less if the images are too small for so many.
    random_state : int, RandomState or None, default=None
        Which ones. None is the same as 0.

    Attributes
    ----------
    rectangles_ : array of int, shape (n_features, 5)
        Kind, row, column, height and width of one rectangle of each.
    image_shape_ : tuple of int
        Rows and columns of the images.

    Examples
    --------
    >>> import numpy as np
    >>> from totalqboost.experiments.haar import HaarFeatures
    >>> images = np.random.default_rng(0).integers(0, 256, (5, 8, 8), dtype=np.uint8)
    >>> HaarFeatures(100).fit_transform(images).shape
    (5, 100)
    """

    def __init__(self, n_features: int = 2000, random_state: Any = None):
        self.n_features = n_features
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> HaarFeatures:
        """Choose the features; only the shape of the images X (n, rows, columns) matters."""
        n_wanted = check_integer("n_features", self.n_features, 1)
        self.image_shape_ = _checked(X).shape[1:]
        rng = generator(self.random_state)
        every = _all_rectangles(*self.image_shape_)
        if not len(every):
            raise ValueError(f"X must have images of 4 pixels or more, got {self.image_shape_}")
        self.rectangles_ = every[rng.permutation(len(every))[:n_wanted]]
        self._corners = _corners(self.rectangles_, self.image_shape_)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the features of images, float32, columns contiguous."""
        check_is_fitted(self, "rectangles_")
        images = _checked(X)
        if images.shape[1:] != self.image_shape_:
            raise ValueError(
                f"X must have images of shape {self.image_shape_}, got {images.shape[1:]}"
            )
        values = np.empty((len(self.rectangles_), len(images)), dtype=np.float32)
        for start in range(0, len(images), BLOCK):
            block = integral_images(images[start : start + BLOCK])
            values[:, start : start + BLOCK] = self._corners @ block.reshape(len(block), -1).T
        return values.T

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return names that say what a feature is: kind, place and size."""
        check_is_fitted(self, "rectangles_")
        names = [
            f"{'x'.join(map(str, KINDS[k].shape))} cells of {h}x{w} at {r},{c}"
            for k, r, c, h, w in self.rectangles_.tolist()
        ]
        return np.array(names, dtype=object)


def integral_images(images: np.ndarray) -> np.ndarray:
    """Return sums over all pixels above and left, with a first row and column of zeros."""
    n, height, width = images.shape
    sums = np.zeros((n, height + 1, width + 1), dtype=np.int64)
    np.cumsum(images, axis=1, out=sums[:, 1:, 1:])
    np.cumsum(sums[:, 1:, 1:], axis=2, out=sums[:, 1:, 1:])
    return sums


def _checked(X: Any) -> np.ndarray:
    images = np.asarray(X)
    if images.ndim != 3 or images.dtype.kind not in "iub":
        raise ValueError(
            "X must be images of whole numbers, shape (n_images, rows, columns), got "
            f"{images.dtype} of shape {images.shape}"
        )
    return images


def _all_rectangles(height: int, width: int) -> np.ndarray:
    """Return kind, row, column, height and width of every feature that fits."""
    parts = []
    for kind, cells in enumerate(KINDS):
        n_rows, n_columns = cells.shape
        sizes = [
            (h, w)
            for h in range(1, height // n_rows + 1)
            for w in range(1, width // n_columns + 1)
            if h * w >= LEAST_AREA
        ]
        for h, w in sizes:
            r, c = np.mgrid[0 : height - n_rows * h + 1, 0 : width - n_columns * w + 1]
            part = np.empty((r.size, 5), dtype=np.int32)
            part[:, 0], part[:, 1], part[:, 2] = kind, r.ravel(), c.ravel()
            part[:, 3], part[:, 4] = h, w
            parts.append(part)
    return np.concatenate([np.empty((0, 5), dtype=np.int32), *parts])


def _corners(rectangles: np.ndarray, shape: tuple[int, ...]) -> Any:
    """Return what each feature takes of each value of the integral image, a sparse matrix."""
    width = shape[1] + 1
    feature, place, factor = [], [], []
    for kind, cells in enumerate(KINDS):
        own = np.flatnonzero(rectangles[:, 0] == kind)
        _, r, c, h, w = rectangles[own].T
        for (i, j), sign in np.ndenumerate(cells):
            # The sum over a cell: lower right + upper left - upper right - lower left corner.
            for down, right in ((0, 0), (0, 1), (1, 0), (1, 1)):
                feature.append(own)
                place.append((r + (i + down) * h) * width + c + (j + right) * w)
                factor.append(np.full(len(own), sign * (1 if down == right else -1)))
    entries = (np.concatenate(factor), (np.concatenate(feature), np.concatenate(place)))
    matrix = sparse.csr_matrix(
        entries, shape=(len(rectangles), (shape[0] + 1) * width), dtype=np.int64
    )
    matrix.eliminate_zeros()
    return matrix
