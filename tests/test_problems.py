"""Files of master problems: exact round trips, and one sentence about every bad file."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import re
import subprocess
import sys
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from totalqboost import (
    MasterProblem,
    ProblemFileError,
    files,
    load_problem,
    losses,
    problems,
    save_problem,
    solvers,
)
from totalqboost.solvers import TabuSearch

PAGE = Path(__file__).parents[1] / "docs" / "problems.md"
PLAIN = {
    "format": "totalqboost-problem",
    "schema_version": 1,
    "A": ["++-+-", "+-+--"],
    "nu": 0.001,
    "lam": 0.01,
}
ENDINGS = ("json", "npz")


def write(path: Path, **changes: object) -> Path:
    """Write a small problem with some fields changed, or left out (...)."""
    fields = {name: value for name, value in {**PLAIN, **changes}.items() if value is not ...}
    if path.suffix == ".npz":
        np.savez(path, **fields)
    else:
        path.write_text(json.dumps(fields))
    return path


def complaint_of(path: Path) -> str:
    """Return what is said about a bad file, without the name of the file."""
    with pytest.raises(ProblemFileError) as caught:
        load_problem(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


def assert_same(first: MasterProblem, second: MasterProblem) -> None:
    assert (first.reads is None) == (second.reads is None)
    names = ("A", "cost", "sample_weight", "fee", "reads", "feature_price")
    for name in names if first.reads is not None else names[:4]:
        one, other = getattr(first, name), getattr(second, name)
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    for name in ("nu", "lam", "loss", "max_learners", "max_features"):
        assert getattr(first, name) == getattr(second, name)


@st.composite
def some_problem(draw) -> MasterProblem:
    n, m = draw(st.integers(0, 9)), draw(st.integers(1, 19))
    amount = st.floats(0, 1e100) | st.sampled_from([0.0, 1.0, 5e-324, 0.1])
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    weight = draw(st.none() | st.lists(amount, min_size=m, max_size=m).filter(any))
    cost = draw(st.none() | st.lists(amount, min_size=n, max_size=n))
    is_free = np.zeros(n, dtype=bool) if cost is None else np.array(cost) == 0
    features = {}
    if draw(st.booleans()):
        n_features = draw(st.integers(0, 4))
        features = {
            "reads": (rng.random((n, n_features)) < 0.4) & ~is_free[:, None],
            "feature_price": draw(st.lists(amount, min_size=n_features, max_size=n_features)),
            "max_features": draw(st.none() | st.integers(0, 4)),
        }
    return MasterProblem(
        np.where(rng.random((n, m)) < 0.5, 1, -1),
        nu=draw(amount),
        lam=draw(amount),
        cost=cost,
        loss=draw(st.sampled_from(losses.names())),
        sample_weight=weight,
        max_learners=draw(st.none() | st.integers(0, 12)),
        fee=draw(st.none() | st.just(rng.random(n) * ~is_free)),
        **features,
    )


# -- round trips ---------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ENDINGS)
@given(problem=some_problem())
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_round_trip_is_exact(tmp_path, ending, problem):
    path = tmp_path / f"problem.{ending}"
    save_problem(path, problem)
    loaded = load_problem(path)
    assert_same(loaded, problem)
    before = path.read_bytes()
    save_problem(path, loaded)
    assert path.read_bytes() == before


def test_both_formats_hold_the_same_problem(tmp_path):
    rng = np.random.default_rng(0)
    A = np.where(rng.random((7, 1000)) < 0.6, 1, -1)
    problem = MasterProblem(A, 1e-3, 0.02, rng.random(7), sample_weight=rng.random(1000))
    for ending in ENDINGS:
        save_problem(tmp_path / f"p.{ending}", problem)
    assert_same(load_problem(tmp_path / "p.json"), load_problem(tmp_path / "p.npz"))


def test_signs_of_an_npz_file_take_one_bit_each(tmp_path):
    A = np.where(np.random.default_rng(0).random((50, 8000)) < 0.5, 1, -1)
    save_problem(tmp_path / "p.npz", MasterProblem(A))
    assert (tmp_path / "p.npz").stat().st_size < 1.05 * A.size / 8


def test_ending_decides_when_saving_and_content_when_loading(tmp_path):
    problem = MasterProblem(np.array([[1, -1]]))
    save_problem(tmp_path / "P.NPZ", problem)
    assert (tmp_path / "P.NPZ").read_bytes().startswith(b"PK")
    assert_same(load_problem((tmp_path / "P.NPZ").rename(tmp_path / "p.json")), problem)
    for name in ("problem", "problem.txt"):
        with pytest.raises(ValueError, match=r"path must end in \.json or \.npz, got '"):
            save_problem(tmp_path / name, problem)


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_absent_has_its_default(tmp_path, ending):
    A = np.array([[1, 1, -1, 1, -1], [1, -1, 1, -1, -1]])
    given_A = PLAIN["A"] if ending == "json" else A
    path = write(tmp_path / f"p.{ending}", A=given_A)
    assert_same(load_problem(path), MasterProblem(A, nu=0.001, lam=0.01))


def test_null_is_absent(tmp_path):
    names = problems.OPTIONAL
    nulls = write(tmp_path / "p.json", **dict.fromkeys(names))
    assert_same(load_problem(nulls), load_problem(write(tmp_path / "q.json")))


def test_features_are_numbers_in_json_and_a_matrix_in_npz(tmp_path):
    given = {"fee": [0.0, 0.5], "feature_price": [1.0, 0.0, 2.0], "max_features": 1}
    text = write(tmp_path / "p.json", **given, reads=[[2, 0], []])
    matrix = np.array([[1, 0, 1], [0, 0, 0]], dtype=bool)
    A = np.array([[1, 1, -1, 1, -1], [1, -1, 1, -1, -1]])
    arrays = write(tmp_path / "p.npz", **given, A=A, reads=matrix)
    expected = MasterProblem(A, 0.001, 0.01, reads=matrix, **given)
    assert_same(load_problem(text), expected)
    assert_same(load_problem(arrays), expected)
    few = load_problem(write(tmp_path / "q.json", reads=[[1], [0]], max_features=1))
    np.testing.assert_array_equal(few.reads, [[False, True], [True, False]])
    np.testing.assert_array_equal(few.feature_price, [0.0, 0.0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fee": [1.0]}, "fee must be a list of 2 numbers, got 1"),
        ({"reads": [[0]]}, "reads must be a list of 2 lists of feature numbers, got [[0]]"),
        (
            {"A": ["+-"] * 1000, "reads": [[2_999_000]] * 1000},
            "reads must be about at most 100,000 features with 1,000 columns, got 2,999,001",
        ),
        ({"reads": [[0], 1]}, "reads[1] must be a list like [0, 2], got 1"),
        ({"reads": [[0], [-1]]}, "reads[1] must be an integer >= 0, got -1"),
        ({"reads": [[0], [True]]}, "reads[1] must be an integer >= 0, got True"),
        (
            {"reads": [[0], [2]], "feature_price": [1, 1]},
            "reads must hold numbers below the length of feature_price, 2, got 2",
        ),
        ({"reads": [[], []], "feature_price": 3}, "feature_price must be a list of numbers, got 3"),
        ({"max_features": 1}, "reads must be given with feature_price or max_features, got None"),
        ({"reads": [[], []], "max_features": -1}, "max_features must be an integer >= 0, got -1"),
    ],
)
def test_wrong_features_are_named(tmp_path, changes, message):
    assert message in complaint_of(write(tmp_path / "p.json", **changes))


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float64])
def test_a_may_be_numbers(tmp_path, dtype):
    A = np.array([[1, 1, -1, 1, -1], [1, -1, 1, -1, -1]], dtype=dtype)
    expected = load_problem(write(tmp_path / "p.json"))
    assert_same(load_problem(write(tmp_path / "q.json", A=A.tolist())), expected)
    assert_same(load_problem(write(tmp_path / "q.npz", A=A)), expected)


def test_example_of_the_page_is_a_problem_and_its_answer(tmp_path):
    text = PAGE.read_text(encoding="utf-8")
    example = re.search(r"^```json\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[1]
    (tmp_path / "problem.json").write_text(example)
    problem = load_problem(tmp_path / "problem.json")
    for name in ("local", "tabu"):
        solution = solvers.get(name).solve(problem)
        assert f"objective {solution.objective:.6g})" in text
        assert np.flatnonzero(solution.w).tolist() == [0, 2, 4]


def test_page_names_every_field():
    text = PAGE.read_text(encoding="utf-8")
    for name in problems.FIELDS:
        assert f"\n| `{name}` | " in text


# -- what cannot be saved ------------------------------------------------------------------


class Mine(losses.Exponential):
    """A loss of somebody's own, even under a known name."""

    name = "exponential"


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_loss_of_your_own_is_refused_and_the_old_file_kept(tmp_path, ending):
    path = tmp_path / f"p.{ending}"
    path.write_text("old")
    with pytest.raises(ValueError, match=r"loss must be one of \['exponential', .*got Mine\(\)"):
        save_problem(path, MasterProblem(np.array([[1, -1]]), loss=Mine()))
    assert path.read_text() == "old"


def test_signs_that_are_none_are_refused(tmp_path):
    problem = MasterProblem(np.array([[1, -1]], dtype=np.int8))
    problem.A[0, 1] = 0
    with pytest.raises(ValueError, match="A must contain only -1 and"):
        save_problem(tmp_path / "p.json", problem)


@pytest.mark.parametrize("ending", ENDINGS)
def test_disk_that_fills_up_keeps_the_old_file(tmp_path, monkeypatch, ending):
    def fail(handle):
        raise OSError(28, "No space left on device")

    path = tmp_path / f"p.{ending}"
    path.write_text("old")
    monkeypatch.setattr("totalqboost.files.os.fsync", fail)
    with pytest.raises(OSError, match="No space"):
        save_problem(path, MasterProblem(np.array([[1, -1]])))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


# -- bad files -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"format": "totalqboost-ensemble"}, "not a master problem; format must be 'totalqb"),
        ({"format": ...}, "not a master problem"),
        ({"schema_version": 2}, "schema_version must be 1, the one this version reads, got 2"),
        ({"schema_version": "1"}, "schema_version must be 1, the one this version reads, got '1'"),
        ({"schema_version": True}, "got True"),
        ({"schema_version": ...}, "got None"),
        ({"A": ...}, "A is missing"),
        ({"lam": ...}, "lam is missing"),
        ({"nu": None}, "nu is missing"),
        ({"lam": ..., "lambda": 1}, "'lambda' is no field; there are format, schema_version, A, "),
        ({"A": "+-"}, "A must be a list with one string per column, got '+-'"),
        ({"A": ["++-", 7]}, "A[1] must be a string of + and -, got 7"),
        ({"A": ["++-", "++"]}, "A[1] must have 3 signs, got 2"),
        ({"A": ["++-", "+0-"]}, "A[1][1] must be one of + and -, got '0'"),
        ({"A": ["++\u2212"]}, "A[0][2] must be one of + and -, got '\u2212'"),
        ({"A": [[1, -1], [1, 0]]}, "A[1][1] must be one of 1 and -1, got 0"),
        ({"A": [[1, [1]]]}, "A[0][1] must be one of 1 and -1, got [1]"),
        ({"A": []}, "n_rows is missing, and A has no column to tell it"),
        ({"A": [""]}, "A must have at least one row of examples"),
        ({"n_rows": 4}, "A[0] must have 4 signs, got 5"),
        ({"n_rows": 0}, "n_rows must be an integer >= 1, got 0"),
        ({"A": [], "n_rows": 10**30}, ""),
        ({"nu": -1}, "nu must be a finite number >= 0, got -1"),
        ({"nu": "1"}, "nu must be a finite number >= 0, got '1'"),
        ({"lam": float("nan")}, "lam must be a finite number >= 0, got nan"),
        ({"lam": float("inf")}, "lam must be a finite number >= 0, got inf"),
        ({"lam": 10**400}, "lam must be a finite number >= 0, got 1000000000"),
        ({"lam": True}, "lam must be a finite number >= 0, got True"),
        ({"cost": [1]}, "cost must be a list of 2 numbers, got 1"),
        ({"cost": 1}, "cost must be a list of 2 numbers, got no list"),
        ({"cost": [1, -2]}, "cost[1] must be a finite number >= 0, got -2"),
        ({"sample_weight": [1, 1, 1, None, 1]}, "sample_weight[3] must be a finite number >= 0"),
        ({"sample_weight": [0] * 5}, "sample_weight must not be zero for every row"),
        ({"sample_weight": [1] * 6}, "sample_weight must be a list of 5 numbers, got 6"),
        ({"loss": "hinge"}, "loss must be one of ['exponential', 'logistic', 'smoothed_hinge', "),
        ({"loss": ["squared"]}, "got ['squared']"),
        ({"max_learners": -1}, "max_learners must be an integer >= 0, got -1"),
        ({"max_learners": 1.5}, "max_learners must be an integer >= 0, got 1.5"),
        ({"max_learners": False}, "max_learners must be an integer >= 0, got False"),
    ],
)
def test_bad_field_of_a_json_file_is_named(tmp_path, changes, complaint):
    assert complaint in complaint_of(write(tmp_path / "p.json", **changes))


BITS = np.array([[0b11010000], [0b10100000]], dtype=np.uint8)


def test_bits_are_read_first_example_first(tmp_path):
    path = write(tmp_path / "p.npz", A=BITS, n_rows=5)
    assert_same(load_problem(path), load_problem(write(tmp_path / "p.json")))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"A": BITS}, "n_rows is missing; A as bits does not tell it"),
        ({"A": BITS, "n_rows": 9}, "A as bits must have shape (columns, 2) for 9 rows, got (2, 1)"),
        ({"A": BITS[0], "n_rows": 5}, "A as bits must have shape (columns, 1) for 5 rows"),
        (
            {"A": BITS, "n_rows": 10**18},
            "n_rows must be at most 20,000,000, got 1000000000000000000",
        ),
        ({"A": np.array([1, -1])}, "A must be an array of two dimensions (columns, rows)"),
        ({"A": np.array([[1, 2]])}, "of -1 and 1, or of bits"),
        ({"A": np.array([["+", "-"]])}, "of -1 and 1, or of bits"),
        ({"A": np.array([[1, -1]]), "n_rows": 3}, "A[0] must have 3 signs, got 2"),
        ({"A": np.zeros((0, 5), dtype=int)}, "n_rows is missing"),
        ({"A": np.array(["+-"], dtype=object)}, "Object arrays cannot be loaded"),
        ({"format": np.array(["a", "b"])}, "not a master problem"),
        ({"schema_version": np.array([1, 1])}, "schema_version must be 1"),
        ({"loss": np.array(["squared"])}, "loss must be one of"),
        ({"nu": np.ones(2)}, "nu must be a finite number >= 0, got array("),
        ({"lam": 1j}, "lam must be a finite number >= 0, got 1j"),
        ({"cost": np.ones((2, 1))}, "cost must be a list of 2 numbers, got no list"),
        ({"sample_weight": np.array([1, np.inf])}, "sample_weight[1] must be a finite number"),
        ({"sample_weight": np.array([1, -1])}, "sample_weight[1] must be a finite number >= 0"),
        ({"sample_weight": np.array([True, True])}, "sample_weight must be a list of 2 numbers"),
        ({"sample_weight": np.ones((2, 1))}, "sample_weight must be a list of 2 numbers"),
        ({"max_learners": 2.0}, "max_learners must be an integer >= 0, got 2.0"),
        ({"thing": 1}, "'thing' is no field"),
    ],
)
def test_bad_field_of_an_npz_file_is_named(tmp_path, changes, complaint):
    changes = {"A": np.array([[1, -1], [-1, -1]]), **changes}
    assert complaint in complaint_of(write(tmp_path / "p.npz", **changes))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[1, 2]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b"PK",
        b"PK\x03\x04 and no more",
        b"A,nu,lam\n",
    ],
)
def test_foreign_file_is_one_sentence(tmp_path, content):
    path = tmp_path / "p.json"
    path.write_bytes(content)
    said = complaint_of(path)
    causes = ("this is not", "can be read neither", "is damaged", "brackets are nested too deeply")
    assert any(cause in said for cause in causes)


def test_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_problem(tmp_path / "none.json")


@pytest.fixture(scope="module", params=ENDINGS)
def whole(request, tmp_path_factory) -> bytes:
    """The content of a file with every field."""
    rng = np.random.default_rng(1)
    A = np.where(rng.random((4, 30)) < 0.5, 1, -1)
    path = tmp_path_factory.mktemp("whole") / f"p.{request.param}"
    save_problem(path, MasterProblem(A, 0.1, 0.2, rng.random(4), "squared", rng.random(30), 3))
    return path.read_bytes()


@given(data=st.data())
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damage_is_a_known_error_or_none(tmp_path, whole, data):
    """Cut the file, or change some of its bytes: it is read, or refused as it should be."""
    content = bytearray(whole)
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    else:
        for _ in range(data.draw(st.integers(1, 3))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "p"
    path.write_bytes(content)
    with contextlib.suppress(ProblemFileError):
        load_problem(path)


def test_a_true_is_no_sign_and_a_key_stands_once(tmp_path):
    path = write(tmp_path / "p.json")
    text = path.read_text()
    path.write_text(json.dumps({**json.loads(text), "A": [[True, -1], [1, 1]], "n_rows": 2}))
    assert "A[0][0] must be one of 1 and -1, got True" in complaint_of(path)
    path.write_text(text.replace("{", '{"nu": 7, ', 1))
    assert complaint_of(path) == "the key 'nu' occurs twice in one object"


def test_a_byte_order_mark_before_json_is_passed_over(tmp_path):
    path = write(tmp_path / "p.json")
    expected = load_problem(path).A
    path.write_bytes(codecs.BOM_UTF8 + path.read_bytes())
    np.testing.assert_array_equal(load_problem(path).A, expected)


def test_an_array_stands_once_in_an_archive(tmp_path):
    path = write(tmp_path / "p.npz", A=np.ones((2, 3), np.int8), n_rows=3)
    with zipfile.ZipFile(path, "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of zipfile
        archive.writestr("nu.npy", archive.read("nu.npy"))
    assert "it holds nu.npy twice" in complaint_of(path)


def test_what_is_read_of_features_has_a_limit(tmp_path):
    many = np.zeros((2, 60_000_000), dtype=bool)
    path = write(tmp_path / "p.npz", A=np.ones((2, 3), np.int8), n_rows=3, reads=many)
    assert "reads must have at most 100,000,000 entries, got 120,000,000" in complaint_of(path)
    text = write(tmp_path / "p.json").read_text()
    content = {**json.loads(text), "A": ["+-"] * 107, "n_rows": 2}
    content = {
        k: v for k, v in content.items() if k in ("format", "schema_version", "A", "nu", "lam")
    }
    content["reads"] = [[9_999_999], *([[0]] * 106)]
    path = tmp_path / "p.json"
    path.write_text(json.dumps(content))
    assert "reads must be about at most 934,579 features with 107 columns" in complaint_of(path)


def loaded(path):
    """The problem of a file, and the most bytes that reading it took."""
    tracemalloc.start()
    try:
        problem = load_problem(path)
        return problem, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("bits", [True, False])
def test_a_large_array_is_read_in_little_more_memory_than_it_needs(tmp_path, bits):
    signs = np.ones((4, 3_000_000), dtype=np.int8)
    A = np.packbits(signs > 0, axis=1) if bits else signs
    path = write(tmp_path / "p.npz", A=A, n_rows=signs.shape[1], cost=np.ones(4))
    problem, peak = loaded(path)
    assert problem.A.shape == signs.shape
    assert peak < 5.5 * signs.size  # weights of the rows are of eight bytes, for four columns two


def test_weights_of_an_array_are_checked_in_little_more_memory_than_they_need(tmp_path):
    n = 1_000_000
    path = write(tmp_path / "p.npz", A=np.ones((1, n), np.int8), sample_weight=np.full(n, 2.0))
    problem, peak = loaded(path)
    assert (problem.sample_weight == 1 / n).all()
    assert peak < 40 * n  # a list of Python's numbers takes 32 bytes each beside the arrays


def test_a_small_file_of_too_large_arrays_is_not_unpacked(tmp_path, monkeypatch):
    path = write(tmp_path / "p.npz", A=np.ones((2, 50_000), dtype=np.int8), n_rows=50_000)
    monkeypatch.setattr(problems, "MOST_BYTES", 90_000)
    assert "it must hold at most 90,000 bytes, got 10" in complaint_of(path)
    bits = np.packbits(np.ones((2, 50_000), dtype=bool), axis=1)
    path = write(tmp_path / "p.npz", A=bits, n_rows=50_000)
    assert "A must have at most 90,000 signs" in complaint_of(path)


def write_stream(path, shape, dtype, content=(), name="A", **fields):
    """Write a problem whose large array is never held: its header and what follows, deflated."""
    write(path, **{**fields, name: ...})
    header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
    archive = zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED)
    with archive, archive.open(f"{name}.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for block in content:
            file.write(block)
    return path


PEAK = """
import resource, sys
from totalqboost import ProblemFileError, load_problem
def most():
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = most()
try:
    load_problem(sys.argv[1])
except ProblemFileError as error:
    print(most() - before, error)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no resource module")
def test_a_small_file_of_very_many_rows_is_refused_in_little_memory(tmp_path):
    ones = [b"\1" * 10**6] * 200
    path = write_stream(tmp_path / "p.npz", (1, 2 * 10**8), np.int8, ones)
    assert path.stat().st_size < 250_000
    command = [sys.executable, "-c", PEAK, str(path)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    n_bytes, said = output.split(maxsplit=1)
    assert said == f"{path}: n_rows must be at most 20,000,000, got 200000000\n"
    assert int(n_bytes) < 10**7


@pytest.mark.parametrize(
    ("shape", "dtype", "name", "message"),
    [
        ((1, 130_000_000), "f8", "A", "n_rows must be at most 20,000,000, got 130000000"),
        ((1, 130_000_000), "u1", "A", "n_rows must be at most 20,000,000, got 1039999993"),
        ((10_000, 100_000), "u1", "A", "A must have at most 1,073,741,824 signs, got (10000, "),
        ((1_000_000, 4), "i1", "A", "A must have at most 10,000 columns, got 1,000,000"),
        ((2,) * 29, "i1", "A", "A must have at most 20,000,000 entries, got 536,870,912"),
        ((2,) * 29, "i1", "nu", "nu must have at most 1,000 entries, got 536,870,912"),
        ((), "U100000000", "loss", "loss must have at most 1,000 bytes, got 400,000,000"),
        ((30_000_000,), "f8", "sample_weight", "sample_weight must have at most 20,000,000"),
        ((30_000_000,), "f8", "feature_price", "feature_price must have at most 10,000,000"),
        ((30_000_000,), "f8", "thing", "'thing' is no field"),
    ],
)
def test_what_is_too_large_is_refused_by_its_header(tmp_path, shape, dtype, name, message):
    """The arrays themselves are missing: nobody looks for them."""
    given = {"A": np.ones((1, 3), np.int8)} if name != "A" else {}
    path = write_stream(tmp_path / "p.npz", shape, dtype, name=name, **given)
    assert message in complaint_of(path)


def test_an_array_without_a_header_is_refused(tmp_path):
    path = write(tmp_path / "p.npz", A=np.ones((1, 3), np.int8))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("cost", b"1")
    assert "this NPZ file is damaged: EOF" in complaint_of(path)


def test_rows_have_a_limit_also_where_columns_are_few(tmp_path, monkeypatch):
    monkeypatch.setattr(problems, "MOST_ROWS", 1000)
    signs = np.ones((2, 1001), dtype=np.int8)
    bits = np.packbits(signs > 0, axis=1)
    for name, A, n_rows in (("p.npz", signs, None), ("p.npz", bits, 1001), ("p.json", [], 1001)):
        fields = {"A": A} if n_rows is None else {"A": A, "n_rows": n_rows}
        path = write(tmp_path / name, **fields)
        assert "n_rows must be at most 1,000, got 1001" in complaint_of(path)


@pytest.mark.parametrize(
    ("name", "A", "n_rows"),
    [
        ("p.npz", np.ones((20_000_000, 1), dtype=np.int8), 1),
        ("p.npz", np.zeros((1_000_000, 25), dtype=np.uint8), 200),
        ("p.json", ["+"] * 10_001, 1),
    ],
)
def test_columns_have_a_limit(tmp_path, name, A, n_rows):
    path = write(tmp_path / name, A=A, n_rows=n_rows)
    assert f"A must have at most 10,000 columns, got {len(A):,}" in complaint_of(path)


@pytest.mark.parametrize("name", ["p.json", "p.npz"])
def test_what_is_no_file_or_far_too_large_is_not_read(tmp_path, name):
    path = tmp_path / name
    path.touch()
    os.truncate(path, 30 * 2**30)  # takes no room on disk
    assert "it must have at most 1,073,741,824 bytes, got 32,212,254,720" in complaint_of(path)
    path.unlink()
    os.mkfifo(path)  # to open it would be to wait
    assert complaint_of(path).endswith("it must be a file")


def test_a_file_of_very_many_values_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST_VALUES", 1000)
    path = write(tmp_path / "p.json", A=[[1, -1] * 400, [-1, 1] * 400])
    assert "it must hold at most 1,000 values" in complaint_of(path)


def test_a_number_of_a_feature_that_is_a_mistake_is_said_to_be_one(tmp_path):
    path = write(tmp_path / "p.json", A=["++", "+-"], reads=[[10**9], [0]])
    assert "reads must hold numbers of features up to 10,000,000, got 1000000000" in (
        complaint_of(path)
    )


def test_a_limit_beyond_the_integers_of_a_machine_is_none(tmp_path):
    problem = load_problem(write(tmp_path / "p.json", A=["++--", "+-+-"], max_learners=2**63))
    assert TabuSearch(max_evaluations=50).solve(problem).objective <= 1.0
