"""Haar-like features against plain sums, and images from idx files."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from totalqboost import TotalQBoostClassifier
from totalqboost.datasets import DataFileError, load_fashion_mnist
from totalqboost.experiments.haar import KINDS, HaarFeatures


def images(n=6, height=9, width=7, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, height, width), dtype=np.uint8)


def naive(image, rectangle):
    kind, r, c, h, w = rectangle
    total = 0
    for (i, j), sign in np.ndenumerate(KINDS[kind]):
        cell = image[r + i * h : r + (i + 1) * h, c + j * w : c + (j + 1) * w]
        assert cell.shape == (h, w)
        total += int(sign) * int(cell.astype(int).sum())
    return total


def test_features_are_sums_over_rectangles():
    X = images()
    haar = HaarFeatures(10_000).fit(X)  # all that fit
    values = haar.transform(X)
    assert values.dtype == np.float32
    assert len(np.unique(haar.rectangles_, axis=0)) == len(haar.rectangles_) == values.shape[1]
    assert set(haar.rectangles_[:, 0]) == set(range(len(KINDS)))
    expected = [[naive(image, rectangle) for rectangle in haar.rectangles_] for image in X]
    np.testing.assert_array_equal(values, expected)


def test_light_on_all_pixels_changes_nothing():
    X = images()
    haar = HaarFeatures(300).fit(X)
    np.testing.assert_array_equal(haar.transform(X), haar.transform(X.astype(int) + 100))


def test_the_seed_decides_and_names_tell_features_apart():
    X = images()
    one, same, other = (HaarFeatures(50, seed).fit(X) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.rectangles_, same.rectangles_)
    assert (one.rectangles_ != other.rectangles_).any()
    assert len(set(one.get_feature_names_out())) == 50
    assert clone(one).n_features == 50


def test_works_in_a_pipeline():
    X = images(80)
    y = X[:, :4].sum(axis=(1, 2)) > X[:, 5:].sum(axis=(1, 2))
    model = make_pipeline(HaarFeatures(200), TotalQBoostClassifier(max_learners=5)).fit(X, y)
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize(
    ("X", "complaint"),
    [
        (np.zeros((3, 16)), "X must be images of whole numbers"),
        (np.zeros((3, 4, 4)), "X must be images of whole numbers"),
        (np.zeros((3, 1, 1), int), "images of 4 pixels or more"),
    ],
)
def test_what_is_no_image_is_refused(X, complaint):
    with pytest.raises(ValueError, match=complaint):
        HaarFeatures().fit(X)


def test_images_of_another_shape_are_refused():
    haar = HaarFeatures(5).fit(images())
    with pytest.raises(ValueError, match=r"images of shape \(9, 7\), got \(7, 9\)"):
        haar.transform(images(height=7, width=9))


# -- idx files -----------------------------------------------------------------------------


def idx(array):
    head = b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(np.uint8).tobytes()


def write(folder, n_train=5, n_test=3):
    arrays = []
    for part, n, seed in (("train", n_train, 1), ("t10k", n_test, 2)):
        X, y = images(n, 28, 28, seed), np.arange(n) % 10
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(X)))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(idx(y))
        arrays += [X, y]
    return arrays


def test_images_are_read(tmp_path):
    arrays = write(tmp_path)
    for read, written in zip(load_fashion_mnist(tmp_path), arrays, strict=True):
        np.testing.assert_array_equal(read, written)


def test_missing_files_say_how_to_get_them(tmp_path):
    with pytest.raises(DataFileError, match="sudo apt install dataset-fashion-mnist"):
        load_fashion_mnist(tmp_path / "nowhere")
    with pytest.raises(DataFileError, match=r"no train-images-idx3-ubyte or .*apt install"):
        load_fashion_mnist(tmp_path)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is not an idx file"),
        (b"\0\0\x0d\x01", "is not an idx file"),
        (b"\0\0\x08\x03\0\0", "is not an idx file"),
        (idx(np.zeros((5, 28, 28)))[:-1], "is damaged: shape"),
        (idx(np.zeros((6, 28, 28))), "one label for each image"),
    ],
)
def test_damaged_files_are_refused(tmp_path, content, complaint):
    write(tmp_path)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(content)
    with pytest.raises(DataFileError, match=complaint):
        load_fashion_mnist(tmp_path)


def test_a_torn_archive_is_refused(tmp_path):
    write(tmp_path)
    path = tmp_path / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataFileError, match=r"t10k-images-idx3-ubyte\.gz is damaged"):
        load_fashion_mnist(tmp_path)
