"""Images of Fashion-MNIST, from files that are on this machine already."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path

import numpy as np

from totalqboost.datasets.shipped import DataFileError

__all__ = ["load_fashion_mnist"]

DEBIAN = Path("/usr/share/datasets/fashion-mnist")
INSTALL = "sudo apt install dataset-fashion-mnist"
PARTS = ("train", "t10k")


def load_fashion_mnist(
    path: str | os.PathLike[str] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return 60,000 training and 10,000 test images of clothes, ten kinds (Xiao et al. 2017).

    Nothing is downloaded. Debian and Ubuntu have a package, ``dataset-fashion-mnist``.

    Parameters
    ----------
    path : path, optional
        Folder of the four idx files, as they are or with ``.gz``; by default that of the package.

    Returns
    -------
    X_train, y_train, X_test, y_test : arrays of uint8
        Images of shape (28, 28), and their kinds, 0 to 9.

    Examples
    --------
    >>> from totalqboost.datasets import load_fashion_mnist
    >>> X_train, y_train, X_test, y_test = load_fashion_mnist()  # doctest: +SKIP
    >>> X_train.shape  # doctest: +SKIP
    (60000, 28, 28)
    """
    folder = DEBIAN if path is None else Path(path)
    if not folder.is_dir():
        raise DataFileError(
            f"there is no folder {folder}; install Fashion-MNIST with {INSTALL}, or say where "
            "its idx files are"
        )
    arrays = []
    for part in PARTS:
        images = read_idx(_found(folder, f"{part}-images-idx3-ubyte"))
        labels = read_idx(_found(folder, f"{part}-labels-idx1-ubyte"))
        if images.ndim != 3 or labels.shape != images.shape[:1]:
            raise DataFileError(
                f"{folder} must hold one label for each image, got shapes {images.shape} and "
                f"{labels.shape}"
            )
        arrays += [images, labels]
    return arrays[0], arrays[1], arrays[2], arrays[3]


def read_idx(path: str | os.PathLike[str]) -> np.ndarray:
    """Return the array of bytes in an idx file: 0, 0, 8, the number of dimensions, their sizes."""
    path = Path(path)
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if path.suffix == ".gz" else content
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataFileError(f"{path} is damaged: {error}") from error
    n_dimensions = content[3] if content[:3] == b"\0\0\x08" and len(content) > 3 else 0
    start = 4 + 4 * n_dimensions
    if not n_dimensions or len(content) < start:
        raise DataFileError(f"{path} is not an idx file of bytes")
    shape = tuple(int(n) for n in np.frombuffer(content[4:start], dtype=">u4"))
    values = np.frombuffer(content, dtype=np.uint8, offset=start)
    if values.size != np.prod(shape, dtype=object):
        raise DataFileError(f"{path} is damaged: shape {shape} with {values.size} values")
    return values.reshape(shape)


def _found(folder: Path, name: str) -> Path:
    for file in (folder / name, folder / f"{name}.gz"):
        if file.exists():
            return file
    raise DataFileError(
        f"there is no {name} or {name}.gz in {folder}; install Fashion-MNIST with {INSTALL}"
    )
