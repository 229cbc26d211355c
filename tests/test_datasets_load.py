"""Data sets that come with the package: what they hold, and what happens when they are broken."""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from totalqboost import datasets
from totalqboost.datasets import shipped

ROOT = Path(__file__).parents[1]
FOLDER = Path(shipped.__file__).parent

# rows, features, negatives, positives: the table of the benchmarks with unique patterns
TABLE = {
    "banana": (5300, 2, 2924, 2376),
    "breast cancer": (263, 9, 186, 77),
    "diabetes": (768, 8, 500, 268),
    "flare solar": (144, 9, 50, 94),
    "german": (1000, 20, 700, 300),
    "heart": (270, 13, 150, 120),
    "image": (2086, 18, 898, 1188),
    "ringnorm": (7400, 20, 3736, 3664),
    "splice": (2991, 60, 1647, 1344),
    "thyroid": (215, 5, 150, 65),
    "twonorm": (7400, 20, 3697, 3703),
    "waveform": (5000, 21, 3353, 1647),
}


# -- the twelve sets --------------------------------------------------------------------------


def test_there_are_twelve_names():
    assert datasets.names() == tuple(TABLE)


@pytest.mark.parametrize("name", TABLE)
def test_every_set_has_the_counts_of_the_table(name):
    X, y, features = datasets.load(name, return_names=True)
    assert X.dtype == np.float64
    assert X.flags.c_contiguous
    assert np.issubdtype(y.dtype, np.integer)
    assert y.shape == (len(X),)
    assert (*X.shape, (y == -1).sum(), (y == 1).sum()) == TABLE[name]
    assert np.isfinite(X).all()
    assert len(set(features)) == X.shape[1]
    assert all(re.fullmatch(r"[a-z]\w*", feature) for feature in features)
    assert (np.ptp(X, axis=0) > 0).all()  # no column is constant


@pytest.mark.parametrize("name", TABLE)
def test_no_row_repeats_with_its_label(name):
    X, y = datasets.load(name)
    assert len(np.unique(np.column_stack([X, y]), axis=0)) == len(y)


def test_values_are_those_of_the_sources():
    X, y = datasets.load("banana")
    np.testing.assert_array_equal(X[0], [1.617466, -0.919233])
    assert y[0] == -1
    X, y, features = datasets.load("diabetes", return_names=True)
    np.testing.assert_array_equal(X[0], [6, 148, 72, 35, 0, 33.6, 0.627, 50])
    assert y[0] == 1
    assert features[1] == "glucose"
    X, y = datasets.load("breast cancer")  # 40-49, premeno, 20-24, 0-2, no, 1, right, left_low, no
    np.testing.assert_array_equal(X[0], [40, 2, 20, 0, 1, 1, 1, 1, 1])
    X, y = datasets.load("image")
    assert X[:, 7].min() == -1.5894573e-8  # all digits
    X, y = datasets.load("twonorm")
    np.testing.assert_array_equal(X[0, :3], [-1.2036, -2.6240, 0.5963])
    assert X[y == 1].mean() == pytest.approx(2 / np.sqrt(20), abs=0.01)
    assert X[y == -1].mean() == pytest.approx(-2 / np.sqrt(20), abs=0.01)


def test_a_load_is_the_caller_s_own():
    X, y = datasets.load("thyroid")
    X[:], y[:] = 0, 0
    again, labels = datasets.load("thyroid")
    assert again.any()
    assert labels.all()


@pytest.mark.parametrize(
    "spelling", ["breast cancer", "breast_cancer", "Breast-Cancer", " BREAST  CANCER "]
)
def test_spelling_of_names_is_tolerant(spelling):
    X, _ = datasets.load(spelling)
    assert X.shape == (263, 9)


@pytest.mark.parametrize("name", ["bananas", "", "../banana", 3])
def test_unknown_name_is_told_the_known_ones(name):
    with pytest.raises(
        ValueError, match=r"one of banana, breast cancer, .*waveform, got "
    ) as error:
        datasets.load(name)
    assert repr(name) in str(error.value)


def test_drawn_sets_have_the_distribution_of_their_generators():
    X, y = datasets.load("ringnorm")
    assert X[y == 1].std() == pytest.approx(2, abs=0.02)
    assert X[y == -1].std() == pytest.approx(1, abs=0.01)
    assert X[y == -1].mean() == pytest.approx(2 / np.sqrt(20), abs=0.01)
    np.testing.assert_array_equal(X, X.round(4))
    X, y = datasets.load("waveform")
    np.testing.assert_array_equal(X, X.round(2))
    np.testing.assert_allclose(X[y == 1].mean(axis=0)[[6, 10]], [4, 4], atol=0.15)  # (6 + 2) / 2


def test_drawn_sets_stay_the_same_rows():
    # A new stream of random numbers in NumPy would change every result on these two sets.
    X, _ = datasets.load("ringnorm")
    np.testing.assert_array_equal(X[0, :3], [-0.1634, 0.4503, 0.1718])
    X, _ = datasets.load("waveform")
    np.testing.assert_array_equal(X[0, :3], [-2.4, 0.59, 1.33])


# -- files ------------------------------------------------------------------------------------


def test_shipped_data_are_small():
    files = sorted((FOLDER / "data").iterdir())
    assert [file.name for file in files] == sorted(
        shipped.file_name(name) for name in TABLE if name not in {"ringnorm", "waveform"}
    )
    assert sum(file.stat().st_size for file in files) < 2_000_000


def test_shipped_files_hold_no_time_and_no_file_name():
    for file in (FOLDER / "data").iterdir():
        flags_and_time = file.read_bytes()[3:8]
        assert flags_and_time == bytes(5), file


def test_every_set_has_its_source():
    text = (FOLDER / "SOURCES.md").read_text(encoding="utf-8")
    for name, (n_rows, n_features, n_negative, n_positive) in TABLE.items():
        (line,) = [line for line in text.splitlines() if line.startswith(f"| {name} |")]
        assert line.endswith(f"| {n_rows} × {n_features} ({n_negative} / {n_positive}) |")
        assert re.search(rf"^- \*\*.*\b{name}\b.*\*\*: ", text, re.MULTILINE)


def damage(monkeypatch, content):
    monkeypatch.setattr(shipped, "_content", lambda folder, file: content)


def thyroid_text():
    return gzip.decompress((FOLDER / "data" / "thyroid.csv.gz").read_bytes()).decode()


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace(",1\n", ",-1\n", 1),
        lambda text: text.replace(",1\n", ",7\n", 1),
        lambda text: text.replace(",1\n", ",nan\n", 1),
        lambda text: text.replace("107,", "nan,", 1),
        lambda text: text.replace("107,", "lots,", 1),
        lambda text: text.replace("107,", "", 1),
        lambda text: text + "1,2,3,4,5,0\n",
        lambda text: re.sub(r"^[^,]*,", "", text, flags=re.MULTILINE),
        lambda text: text.splitlines()[0],
        lambda text: "",
    ],
)
@pytest.mark.filterwarnings("error")
def test_wrong_content_is_reported_as_damage(monkeypatch, change):
    damage(monkeypatch, gzip.compress(change(thyroid_text()).encode()))
    with pytest.raises(
        datasets.DataFileError, match=r"thyroid\.csv\.gz is missing or damaged .*reinstall"
    ):
        datasets.load("thyroid")


def test_broken_compression_is_reported_as_damage(monkeypatch):
    content = (FOLDER / "data" / "thyroid.csv.gz").read_bytes()
    flipped = bytearray(content)
    flipped[len(flipped) // 2] ^= 255
    for broken in (content[:-20], bytes(flipped), b"", b"no gzip"):
        damage(monkeypatch, broken)
        with pytest.raises(datasets.DataFileError, match=r"thyroid\.csv\.gz is missing or damaged"):
            datasets.load("thyroid")


def test_missing_file_is_reported(monkeypatch):
    monkeypatch.setattr(shipped, "file_name", lambda name: "gone.csv.gz")
    with pytest.raises(datasets.DataFileError, match=r"gone\.csv\.gz is missing or damaged"):
        datasets.load("thyroid")


def test_data_load_from_a_zip_file(tmp_path):
    archive = tmp_path / "package.zip"
    with zipfile.ZipFile(archive, "w") as package:
        package.writestr("totalqboost/__init__.py", "")
        for file in FOLDER.rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                package.write(file, f"totalqboost/datasets/{file.relative_to(FOLDER).as_posix()}")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "from totalqboost import datasets; assert sys.argv[1] in datasets.__file__;"
        "print(*datasets.load('heart')[0].shape, len(datasets.paper_figure()))"
    )
    run = subprocess.run([sys.executable, "-c", code, archive], capture_output=True, text=True)
    assert run.stdout.split() == ["270", "13", "12"], run.stderr


# -- facts of the paper -----------------------------------------------------------------------


def test_paper_figure_has_points_for_every_set():
    figure = datasets.paper_figure()
    assert tuple(figure) == datasets.names()
    for panel in figure.values():
        assert panel["n_validation"] > 0
        for kind in ("convex", "cp"):
            cardinalities, errors = np.array(panel[kind]).T
            assert (np.diff(cardinalities) > 0).all()
            assert ((errors >= 0) & (errors <= 100)).all()


def test_paper_table_names_every_set_once_or_more():
    table = datasets.paper_table()
    named = {row["dataset"] for row in table["rows"]} | set(table["no_gain_datasets"])
    assert named == set(datasets.names())


def test_damaged_facts_are_reported(monkeypatch):
    damage(monkeypatch, json.dumps({"banana": 1}).encode()[:-1])
    with pytest.raises(datasets.DataFileError, match=r"paper_table\.json is missing or damaged"):
        datasets.paper_table()


# -- generators -------------------------------------------------------------------------------


def test_generators_halve_or_third_the_classes_by_default():
    assert (datasets.make_ringnorm(101, seed=1)[1] == 1).sum() == 51
    assert (datasets.make_twonorm(101, seed=1)[1] == 1).sum() == 51
    assert (datasets.make_waveform(300, seed=1)[1] == 1).sum() == 100


@pytest.mark.parametrize("n_positive", [0, 1, 40, 100])
def test_ringnorm_has_the_wanted_number_of_positives(n_positive):
    X, y = datasets.make_ringnorm(100, seed=2, n_positive=n_positive)
    assert X.shape == (100, 20)
    assert (y == 1).sum() == n_positive


def test_waveform_has_the_wanted_number_of_each_pair():
    X, y = datasets.make_waveform(60, seed=2, n_per_pair=(10, 20, 30))
    assert X.shape == (60, 21)
    assert (y == 1).sum() == 20


def test_impossible_class_counts_are_refused():
    with pytest.raises(ValueError, match=r"n_positive must be in \[0, 10\], got 11"):
        datasets.make_ringnorm(10, n_positive=11)
    with pytest.raises(ValueError, match=r"three counts with the sum 10, got \(1, 2, 3\)"):
        datasets.make_waveform(10, n_per_pair=(1, 2, 3))


def test_rare_events_are_as_rare_as_wanted():
    X, y = datasets.make_rare_event(5000, 0.01, seed=3, n_features=8)
    assert X.shape == (5000, 8)
    assert (y == 1).sum() == 50
    assert (y == -1).sum() == 4950
    assert (datasets.make_rare_event(100, 1e-6)[1] == 1).sum() == 1
    again, _ = datasets.make_rare_event(5000, 0.01, seed=3, n_features=8)
    np.testing.assert_array_equal(X, again)
    assert (again != datasets.make_rare_event(5000, 0.01, seed=4, n_features=8)[0]).any()


def test_two_stumps_dismiss_most_negatives_and_keep_most_events():
    X, y = datasets.make_rare_event(50_000, 0.01, seed=0, hard_share=0.05)
    kept = (X[:, 0] > 1) & (X[:, 1] > 1)
    assert kept[y == 1].mean() > 0.9
    assert kept[y == -1].mean() < 0.1
    hard = kept & (y == -1)  # the detail tells them from events, one feature alone does not
    detail = X[:, 2:].mean(axis=1)
    threshold = np.quantile(detail[y == 1], 0.1)
    assert (detail[hard] > threshold).mean() < 0.15
    assert all((X[hard, j] > np.quantile(X[y == 1, j], 0.1)).mean() > 0.4 for j in range(2, 20))


def test_without_hard_negatives_the_gate_is_enough():
    X, y = datasets.make_rare_event(20_000, 0.01, seed=0, hard_share=0)
    gate = X[:, 0] + X[:, 1]
    assert (gate[y == -1] > np.quantile(gate[y == 1], 0.1)).mean() < 0.01


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"positive_rate": 0}, r"positive_rate must be between 0 and 1, got 0"),
        ({"positive_rate": 1.5}, r"positive_rate must be between 0 and 1, got 1\.5"),
        ({"hard_share": -1}, r"hard_share must be in \[0, 1\], got -1"),
        ({"n_features": 4}, r"n_features must be >= 5, got 4"),
        ({"n_rows": 1}, r"n_rows must be >= 2, got 1"),
    ],
)
def test_impossible_rare_events_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        datasets.make_rare_event(**options)


# -- the scripts behind the data --------------------------------------------------------------


def tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not (ROOT / "tools").is_dir(), reason="a source distribution has no tools")
def test_build_script_knows_every_shipped_file():
    build = tool("build_datasets")
    for name, recipe in build.RECIPES.items():
        assert tuple(recipe.features.split()) == datasets.load(name, return_names=True)[2]
    assert sorted(map(shipped.file_name, build.RECIPES)) == sorted(
        file.name for file in (FOLDER / "data").iterdir()
    )
    assert build.compress("a,b\n") == build.compress("a,b\n")
    assert [build.shortest(x) for x in (3.0, -0.0, 0.1, -1.5894573e-08)] == [
        *("3", "0", "0.1", "-1.5894573e-08"),
    ]


@pytest.mark.skipif(not (ROOT / "tools").is_dir(), reason="a source distribution has no tools")
def test_reference_script_sees_through_scaling_and_nothing_else():
    compare = tool("check_reference").compare
    X, y = datasets.load("thyroid")
    order = np.random.default_rng(0).permutation(len(y))
    scaled = np.exp(X / X.max(axis=0))
    assert compare(X, y, scaled[order], y[order]) == (True, "same ranks, rows in another order")
    assert compare(X, y, scaled, y) == (True, "same ranks, same rows in order")
    rounded = X + 1e-7 * np.random.default_rng(1).random(X.shape)
    same, remark = compare(X, y, rounded, y)
    assert same
    assert "ties by rounding" in remark
    assert not compare(X, y, -X, y)[0]
    assert not compare(X, -y, X, y)[0]
    assert not compare(X, y, X // 2, y)[0]
    moved = X.copy()
    moved[0, 0] += 20
    assert not compare(X, y, moved, y)[0]
