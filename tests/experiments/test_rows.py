"""Rows and their files: what is kept, what is refused, and what a damaged file says."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from totalqboost import Ensemble, Stump
from totalqboost.experiments import rows
from totalqboost.experiments.rows import Row, RunError, read_rows
from totalqboost.learners import Feature

CONTENT = {
    "dataset": "breast cancer",
    "split": 3,
    "strategy": "C",
    "penalty": 0.005,
    "round": None,
    "n_learners": 7,
    "risk": 0.123456789012345,
    "objective": 0.158456789012345,
    "bound": None,
    "train_error": 0.25,
    "valid_error": 0.3,
    "n_train": 210,
    "n_valid": 53,
    "seconds": 0.01,
}
ROW = Row.from_dict(CONTENT)
ENSEMBLE = Ensemble((Stump(0, 1.5),), (0.5,), features=(Feature("ü"),)).to_dict()
ROWS = [
    ROW,
    replace(ROW, strategy="B", penalty=1e-6, round=12, bound=0.1),
    replace(ROW, strategy="lpboost", penalty=None, round=1, ensemble=ENSEMBLE),
]


# -- rows -------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", ROWS)
def test_dict_and_row_are_the_same_thing(row):
    assert Row.from_dict(row.to_dict()) == row
    assert Row.from_dict(json.loads(json.dumps(row.to_dict()))) == row


def test_dict_has_the_documented_keys():
    assert ROW.to_dict() == CONTENT
    assert list(ROW.to_dict()) == list(CONTENT)
    assert "ensemble" in ROWS[2].to_dict()


def test_numpy_scalars_become_plain_numbers():
    row = replace(ROW, n_learners=np.int64(4), risk=np.float32(0.5), round=np.int32(2), seconds=1)
    assert [type(v) for v in (row.n_learners, row.risk, row.round, row.seconds)] == [
        int,
        float,
        int,
        float,
    ]
    json.dumps(row.to_dict())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dataset": ""}, "dataset must be a name, got ''"),
        ({"dataset": "\ud800"}, r"dataset must be a name, got '\\ud800'"),  # no file can hold it
        ({"n_learners": 10**400}, r"n_learners must be at most 1,000,000,000, got 10+\.\.\."),
        ({"round": 10**10}, "round must be at most 1,000,000,000, got 10000000000"),
        ({"strategy": "F"}, "strategy must be one of A, B, C, D, E, adaboost, .*, got 'F'"),
        ({"strategy": ["A"]}, r"strategy must be one of .*, got \['A'\]"),
        ({"split": -1}, "split must be an integer >= 0, got -1"),
        ({"split": 1.0}, "split must be an integer >= 0, got 1.0"),
        ({"n_learners": True}, "n_learners must be an integer >= 0, got True"),
        ({"n_valid": 0}, "n_valid must be an integer >= 1, got 0"),
        ({"round": -1}, "round must be an integer >= 0, got -1"),
        ({"penalty": None}, "penalty must be a finite number >= 0, got None"),
        ({"penalty": -0.1}, "penalty must be a finite number >= 0, got -0.1"),
        ({"risk": float("nan")}, "risk must be a finite number >= 0, got nan"),
        ({"risk": "0.1"}, "risk must be a finite number >= 0, got '0.1'"),
        ({"objective": float("inf")}, "objective must be a finite number, got inf"),
        ({"bound": float("-inf")}, "bound must be a finite number, got -inf"),
        ({"valid_error": 30.0}, "valid_error must be a finite number >= 0 and <= 1, got 30.0"),
        ({"seconds": -1}, r"seconds must be a finite number >= 0 and <= 1e\+09, got -1"),
        ({"ensemble": [1]}, r"ensemble must be an object, got \[1\]"),
        ({"colour": 1, "taste": 2}, "a row has no colour, taste"),
    ],
)
def test_bad_value_is_refused_in_one_sentence(change, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        Row.from_dict(CONTENT | change)


def test_missing_keys_are_named():
    with pytest.raises(ValueError, match=r"^a row needs dataset, risk$"):
        Row.from_dict({key: CONTENT[key] for key in CONTENT if key not in ("dataset", "risk")})


# -- files ------------------------------------------------------------------------------------


def write_rows(path, rows):
    content = "".join(json.dumps(row.to_dict()) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
def test_written_rows_are_read_back(tmp_path, name):
    write_rows(tmp_path / name, ROWS)
    assert read_rows(tmp_path / name) == ROWS
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_file_without_lines_has_no_rows(tmp_path):
    write_rows(tmp_path / "rows.jsonl", [])
    assert read_rows(tmp_path / "rows.jsonl") == []


@pytest.mark.parametrize("kept", [1, 40, -1])
def test_line_cut_off_by_a_crash_is_dropped(tmp_path, kept):
    write_rows(tmp_path / "rows.jsonl", ROWS)
    lines = (tmp_path / "rows.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "rows.jsonl").write_bytes(lines[0] + lines[1] + lines[2][:kept])
    assert read_rows(tmp_path / "rows.jsonl") == ROWS[:2]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"dataset": "ban', "line 2: not a JSON object \\(.* at character 13\\)"),
        (b"", "line 2: not a JSON object"),
        (b"[1, 2]", r"line 2: a row must be an object, got \[1, 2\]"),
        (b"\xff\xfe", "line 2: not UTF-8 text"),
        (b"\0\0\0", "line 2: not a JSON object"),
        (b"{}", "line 2: a row needs dataset, split, "),
        (b"[" * 100_000, "line 2: brackets are nested too deeply"),
        (b'{"split": 1, "split": 2}', "line 2: the key 'split' occurs twice in one object"),
        (
            json.dumps(CONTENT | {"risk": 10**400}).encode(),
            r"line 2: risk must be a finite number >= 0, got 10+\.\.\.",
        ),
        (json.dumps(CONTENT | {"risk": -1}).encode(), "line 2: risk must be a finite number >= 0"),
    ],
)
@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
def test_damaged_line_is_named(tmp_path, name, line, message):
    path = tmp_path / name
    good = json.dumps(CONTENT).encode()
    content = b"\n".join([good, line, good, b""])
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    with pytest.raises(RunError, match=message) as caught:
        read_rows(path)
    assert str(caught.value).startswith(f"{path}, line 2: ")
    assert "\n" not in str(caught.value)


def test_a_small_file_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "rows.jsonl.gz"
    write_rows(path, ROWS)
    monkeypatch.setattr(rows, "MOST_BYTES", 10_000)
    assert read_rows(path) == ROWS
    path.write_bytes(gzip.compress(bytes(10**7)))
    tracemalloc.start()
    with pytest.raises(RunError, match=r"rows\.jsonl\.gz must hold at most 10,000 bytes of rows"):
        read_rows(path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 10**6


def test_rows_of_very_many_empty_lists_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "rows.jsonl"
    write_rows(path, ROWS)
    content = path.read_bytes()
    n_values = sum(content.count(sign) for sign in (b",", b"[", b"{"))
    monkeypatch.setattr(rows, "MOST_VALUES", n_values)
    assert read_rows(path) == ROWS
    many = ",".join(["[]"] * 1000)
    path.write_bytes(content + f'{{"ensemble": {{"learners": [{many}]}}}}\n'.encode())
    with pytest.raises(RunError, match=rf"must hold at most {n_values:,} values"):
        read_rows(path)


@pytest.mark.parametrize(
    "damage", [lambda c: c[:-12], lambda c: b"rows", lambda c: c[:20] + c[25:]]
)
def test_damaged_compressed_file_is_named(tmp_path, damage):
    path = tmp_path / "rows.jsonl.gz"
    write_rows(path, ROWS)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(RunError, match=r"rows\.jsonl\.gz is damaged: ") as caught:
        read_rows(path)
    assert "\n" not in str(caught.value)
