"""Master problems as files, JSON or NPZ: instances for any solver, from any language.

A JSON file is an object that can be written by hand; docs/problems.md has the whole format::

    {"format": "totalqboost-problem", "schema_version": 1,
     "A": ["++-", "+-+"], "nu": 0.001, "lam": 0.01}

An NPZ file has the same fields as arrays, for problems of many rows; it needs no pickle.
"""

from __future__ import annotations

import io
import json
import math
import os
import zipfile
from collections import Counter
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib.format import read_array_header_1_0, read_array_header_2_0, read_magic

from totalqboost import losses
from totalqboost.files import parse_json, read_bytes, write_bytes, write_text
from totalqboost.master import MasterProblem
from totalqboost.parameters import check_integer, check_number, short

__all__ = ["ProblemFileError", "load_problem", "save_problem"]

FORMAT = "totalqboost-problem"
SCHEMA_VERSION = 1
REQUIRED = ("A", "nu", "lam")
OPTIONAL = (
    *("n_rows", "cost", "loss", "sample_weight", "max_learners"),
    *("fee", "reads", "feature_price", "max_features"),
)
FIELDS = ("format", "schema_version", *REQUIRED, *OPTIONAL)
MOST_FILE = 2**30  # bytes
MOST_BYTES = 2**30  # of all arrays; a small compressed file may hold far more than memory does
MOST_ROWS = 20_000_000  # each takes dozens of bytes, whatever the number of columns
MOST_COLUMNS = 10_000  # solvers take memory and time that grow with their square
MOST_READS = 100_000_000  # pairs of a column and a feature
MOST_FEATURES = 10_000_000  # a larger number of a feature is a mistake
MOST_ENTRIES = {"cost": MOST_COLUMNS, "fee": MOST_COLUMNS, "sample_weight": MOST_ROWS}  # of arrays
MOST_ENTRIES |= {"reads": MOST_READS, "feature_price": MOST_FEATURES, "A": MOST_ROWS}
FEW = 1000  # entries, or bytes of texts
LONGEST_HEADER = 2**14  # bytes that tell an array's type and shape; NumPy takes 10,000
SIGNS = np.zeros(256, dtype=np.int8)  # what a character of A means, 0 for nothing
SIGNS[ord("+")], SIGNS[ord("-")] = 1, -1


class ProblemFileError(ValueError):
    """A file that is not a readable master problem; the message says which, where and why.

    Examples
    --------
    >>> from totalqboost import ProblemFileError, load_problem
    >>> path = getfixture("tmp_path") / "problem.json"
    >>> _ = path.write_text("{}")
    >>> try:
    ...     load_problem(path)
    ... except ProblemFileError as error:
    ...     print("problem.json" in str(error))
    True
    """


# -- saving ----------------------------------------------------------------------------


def save_problem(path: str | os.PathLike[str], problem: MasterProblem) -> None:
    """Write a master problem to a ``.json`` or ``.npz`` file, all or nothing.

    ``load_problem`` gives back the same problem to the last bit. The same problem gives the
    same bytes.

    Parameters
    ----------
    path : path
        The file; its ending decides the format.
    problem : MasterProblem
        Its loss must be one of ``losses.names()``.

    Examples
    --------
    >>> import numpy as np
    >>> from totalqboost import MasterProblem, load_problem, save_problem
    >>> folder = getfixture("tmp_path")
    >>> problem = MasterProblem(np.array([[1, 1, -1], [1, -1, 1]]), nu=1e-3, lam=0.01)
    >>> save_problem(folder / "problem.json", problem)
    >>> load_problem(folder / "problem.json").A
    array([[ 1,  1, -1],
           [ 1, -1,  1]], dtype=int8)
    """
    ending = Path(path).suffix.lower()
    if ending not in (".json", ".npz"):
        raise ValueError(f"path must end in .json or .npz, got {os.fspath(path)!r}")
    fields = _fields(problem)
    if ending == ".json":
        fields = {
            name: v.tolist() if isinstance(v, np.ndarray) else v for name, v in fields.items()
        }
        fields["A"] = [_as_text(row) for row in problem.A]
        if problem.reads is not None:
            fields["reads"] = [np.flatnonzero(row).tolist() for row in problem.reads]
        write_text(path, json.dumps(fields, indent=1, allow_nan=False) + "\n")
        return
    given = {name: value for name, value in fields.items() if value is not None}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{**given, "A": np.packbits(problem.A > 0, axis=1)})
    write_bytes(path, buffer.getvalue())


def _fields(problem: MasterProblem) -> dict[str, Any]:
    """Return what both formats hold, but for A; None stands for a default."""
    name = problem.loss.name
    if name not in losses.names() or losses.get(name) != problem.loss:
        raise ValueError(
            f"loss must be one of {losses.names()} to be saved by its name, got {problem.loss!r}"
        )
    if not (np.abs(problem.A) == 1).all():
        raise ValueError("A must contain only -1 and +1")
    limit = problem.max_learners
    is_uniform = (problem.sample_weight == 1.0 / problem.n_rows).all()
    return {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "n_rows": problem.n_rows,
        "A": None,
        "nu": problem.nu,
        "lam": problem.lam,
        "cost": None if (problem.cost == 1.0).all() else problem.cost,
        "loss": name,
        "sample_weight": None if is_uniform else problem.sample_weight,
        "max_learners": None if limit is None else int(limit),
        **_feature_fields(problem),
    }


def _feature_fields(problem: MasterProblem) -> dict[str, Any]:
    """Return fees and what is known of features; a file without them has none of these fields."""
    limit = problem.max_features
    fields = {
        "fee": problem.fee if problem.fee.any() else None,
        "reads": problem.reads,
        "feature_price": problem.feature_price,
        "max_features": None if limit is None else int(limit),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _as_text(row: np.ndarray) -> str:
    return np.where(row > 0, b"+", b"-").tobytes().decode("ascii")


# -- loading ---------------------------------------------------------------------------


def load_problem(path: str | os.PathLike[str]) -> MasterProblem:
    """Read a master problem from a JSON or NPZ file; every field is checked.

    Parameters
    ----------
    path : path
        A file that ``save_problem`` wrote, or one by hand.

    Raises
    ------
    ProblemFileError
        If the file is damaged or foreign, or a field is missing, unknown or wrong.
    OSError
        If the file cannot be read at all.

    Examples
    --------
    >>> from totalqboost import load_problem
    >>> path = getfixture("tmp_path") / "problem.json"
    >>> head = '{"format": "totalqboost-problem", "schema_version": 1, '
    >>> _ = path.write_text(head + '"A": ["++-", "+-+"], "nu": 0.001, "lam": 0.01}')
    >>> load_problem(path).n_columns
    2
    """
    try:
        content = read_bytes(path, MOST_FILE)
        fields = _read_npz(content) if content.startswith(b"PK") else _read_json(content)
        return _problem(fields)
    except (ValueError, OverflowError, MemoryError) as error:  # ours, or what MasterProblem says
        raise ProblemFileError(f"{os.fspath(path)}: {error}") from error


def _read_json(content: bytes) -> Any:
    try:
        return parse_json(content)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:  # others say what JSON it is
        raise ProblemFileError(f"this can be read neither as JSON nor as NPZ: {error}") from error


def _read_npz(content: bytes) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:  # what it says before it is unpacked
            n_bytes = sum(member.file_size for member in file.infolist())
            names = Counter(name.removesuffix(".npy") for name in file.namelist())
            if twice := [name for name, n in names.items() if n > 1]:
                raise ValueError(f"it holds {twice[0]}.npy twice")
            if n_bytes > MOST_BYTES:
                raise ValueError(f"it must hold at most {MOST_BYTES:,} bytes, got {n_bytes:,}")
            for name, member in zip(names, file.infolist(), strict=True):
                with file.open(member) as stream:
                    _check_header(name, stream)
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[name] if name in FIELDS else np.zeros(0) for name in file.files}
    except ProblemFileError:
        raise
    except Exception as error:  # of zipfile, zlib, struct, tokenize: a dozen kinds
        raise ProblemFileError(f"this NPZ file is damaged: {error}") from error
    return {name: a.item() if a.ndim == 0 else a for name, a in arrays.items()}


def _check_header(name: str, stream: IO[bytes]) -> None:
    """Raise what the type and shape of an array tell: unpacked it may take gigabytes."""
    start = io.BytesIO(stream.read(LONGEST_HEADER))
    is_first = read_magic(start) == (1, 0)
    shape, _, dtype = (read_array_header_1_0 if is_first else read_array_header_2_0)(start)
    if name == "A" and len(shape) == 2 and dtype.kind in "iuf":
        _check_columns(shape[0])
        n_rows = 8 * shape[1] - 7 if dtype == np.uint8 else shape[1]  # at least, if A is bits
        _check_rows(n_rows)
        _check_signs(shape[0] * n_rows, shape)
    elif name in FIELDS:
        is_numbers = dtype.kind in "biuf"
        most, unit = (MOST_ENTRIES.get(name, FEW), "entries") if is_numbers else (FEW, "bytes")
        if (n := math.prod(shape) * (1 if is_numbers else dtype.itemsize)) > most:
            raise ProblemFileError(f"{name} must have at most {most:,} {unit}, got {n:,}")


def _problem(fields: Any) -> MasterProblem:
    """Return the problem that the fields of a file describe."""
    if not isinstance(fields, dict) or not _is(fields.get("format"), FORMAT):
        raise ProblemFileError(f"this is not a master problem; format must be {FORMAT!r}")
    version = fields.get("schema_version")
    if not _is(version, SCHEMA_VERSION):
        raise ProblemFileError(
            f"schema_version must be {SCHEMA_VERSION}, the one this version reads, "
            f"got {short(version)}"
        )
    if unknown := [name for name in fields if name not in FIELDS]:
        raise ProblemFileError(f"{unknown[0]!r} is no field; there are {', '.join(FIELDS)}")
    if missing := [name for name in REQUIRED if fields.get(name) is None]:
        raise ProblemFileError(f"{missing[0]} is missing")
    A = _columns(fields["A"], _count(fields, "n_rows", 1))
    checked: dict[str, Any] = {
        "nu": check_number("nu", fields["nu"]),
        "lam": check_number("lam", fields["lam"]),
        "cost": _numbers(fields, "cost", A.shape[0]),
        "loss": _loss(fields),
        "sample_weight": _numbers(fields, "sample_weight", A.shape[1]),
        "max_learners": _count(fields, "max_learners", 0),
        "fee": _numbers(fields, "fee", A.shape[0]),
        **_features(fields, A.shape[0]),
    }
    return MasterProblem(A, **checked)


def _is(value: Any, wanted: str | int) -> bool:
    """Tell whether a value of a file is this one: of the same type, no array, not True for 1."""
    return type(value) is type(wanted) and value == wanted


def _columns(A: Any, n_rows: int | None) -> np.ndarray:
    """Return the matrix A from strings of signs, from lists or an array of ±1, or from bits."""
    _check_rows(n_rows or 0)
    if isinstance(A, list):
        _check_columns(len(A))
    if isinstance(A, np.ndarray) and A.dtype == np.uint8:
        return _unpacked(A, n_rows)
    if isinstance(A, np.ndarray):
        # Column by column: A may be large, and a copy of it too much.
        is_signs = A.ndim == 2 and A.dtype.kind in "if" and all((np.abs(a) == 1).all() for a in A)
        if not is_signs:
            raise ProblemFileError(
                "A must be an array of two dimensions (columns, rows) of -1 and 1, or of bits "
                f"as numpy.packbits makes them, got {A.dtype} of shape {A.shape}"
            )
        columns: Any = A.astype(np.int8, copy=False)
    elif isinstance(A, list):
        columns = [_column(f"A[{j}]", column) for j, column in enumerate(A)]
    else:
        raise ProblemFileError(f"A must be a list with one string per column, got {short(A)}")
    if n_rows is None and not len(columns):
        raise ProblemFileError("n_rows is missing, and A has no column to tell it")
    n_rows = len(columns[0]) if n_rows is None else n_rows
    _check_rows(n_rows)
    for j, column in enumerate(columns):
        if len(column) != n_rows:
            raise ProblemFileError(f"A[{j}] must have {n_rows} signs, got {len(column)}")
    return np.asarray(columns, dtype=np.int8).reshape(len(columns), n_rows)


def _check_columns(n_columns: int) -> None:
    if n_columns > MOST_COLUMNS:
        raise ProblemFileError(f"A must have at most {MOST_COLUMNS:,} columns, got {n_columns:,}")


def _check_signs(n_signs: int, shape: tuple[int, ...]) -> None:
    if n_signs > MOST_BYTES:
        raise ProblemFileError(f"A must have at most {MOST_BYTES:,} signs, got {shape}")


def _check_rows(n_rows: int) -> None:
    if n_rows > MOST_ROWS:
        raise ProblemFileError(f"n_rows must be at most {MOST_ROWS:,}, got {short(n_rows)}")


def _unpacked(bits: np.ndarray, n_rows: int | None) -> np.ndarray:
    if n_rows is None:
        raise ProblemFileError("n_rows is missing; A as bits does not tell it")
    n_bytes = (n_rows + 7) // 8
    if bits.ndim != 2 or bits.shape[1] != n_bytes:
        raise ProblemFileError(
            f"A as bits must have shape (columns, {n_bytes}) for {n_rows} rows, got {bits.shape}"
        )
    _check_signs(n_rows * len(bits), bits.shape)
    signs = np.unpackbits(bits, axis=1, count=n_rows).view(np.int8)
    signs *= 2
    signs -= 1
    return signs


def _column(name: str, column: Any) -> np.ndarray:
    """Return one column of a JSON file: a string like "+-+", or a list like [1, -1, 1]."""
    if isinstance(column, str):
        signs = SIGNS[np.frombuffer(column.encode("ascii", "replace"), dtype=np.uint8)]
    elif isinstance(column, list):
        signs = np.array([x if _is_sign(x) else 0 for x in column], dtype=np.int8)
    else:
        raise ProblemFileError(f"{name} must be a string of + and -, got {short(column)}")
    if not signs.all():
        i = int(np.argmin(np.abs(signs)))
        allowed = "+ and -" if isinstance(column, str) else "1 and -1"
        raise ProblemFileError(f"{name}[{i}] must be one of {allowed}, got {short(column[i])}")
    return signs


def _is_sign(x: Any) -> bool:
    return type(x) in (int, float) and x in (-1, 1)  # True is no sign


def _features(fields: dict[str, Any], n_columns: int) -> dict[str, Any]:
    """Return who reads which feature, what features cost, and how many may be read."""
    price, n_features = fields.get("feature_price"), None
    if price is not None:
        if not isinstance(price, list | np.ndarray):
            raise ProblemFileError(f"feature_price must be a list of numbers, got {short(price)}")
        n_features = len(price)
        price = _numbers(fields, "feature_price", n_features)
    return {
        "reads": _reads(fields.get("reads"), n_columns, n_features),
        "feature_price": price,
        "max_features": _count(fields, "max_features", 0),
    }


def _reads(reads: Any, n_columns: int, n_features: int | None) -> Any:
    """Return the features of each column as a matrix; lists of a JSON file hold their numbers."""
    if reads is None or isinstance(reads, np.ndarray):
        return reads  # MasterProblem looks at arrays
    if not isinstance(reads, list) or len(reads) != n_columns:
        raise ProblemFileError(
            f"reads must be a list of {n_columns} lists of feature numbers, got {short(reads)}"
        )
    for j, features in enumerate(reads):
        if not isinstance(features, list):
            raise ProblemFileError(f"reads[{j}] must be a list like [0, 2], got {short(features)}")
        for g in features:
            check_integer(f"reads[{j}]", g, 0)
    most = max((g for features in reads for g in features), default=-1)
    if n_features is None:
        n_features = most + 1
    if most > MOST_FEATURES:
        raise ProblemFileError(
            f"reads must hold numbers of features up to {MOST_FEATURES:,}, got {most}"
        )
    if most >= n_features:
        raise ProblemFileError(
            f"reads must hold numbers below the length of feature_price, {n_features}, got {most}"
        )
    if n_columns * n_features > MOST_READS:  # a short list may ask for more than memory holds
        raise ProblemFileError(
            f"reads must be about at most {MOST_READS // n_columns:,} features with {n_columns:,} "
            f"columns, got {n_features:,}"
        )
    matrix = np.zeros((n_columns, n_features), dtype=bool)
    for row, features in zip(matrix, reads, strict=True):
        row[features] = True
    return matrix


def _loss(fields: dict[str, Any]) -> losses.Loss:
    name = fields.get("loss")
    name = "exponential" if name is None else name
    if not isinstance(name, str) or name not in losses.names():
        raise ProblemFileError(f"loss must be one of {losses.names()}, got {short(name)}")
    return losses.get(name)


def _numbers(fields: dict[str, Any], name: str, size: int) -> np.ndarray | None:
    values = fields.get(name)
    if values is None:
        return None
    is_array = isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iuf"
    if not (is_array or isinstance(values, list)) or len(values) != size:
        got = f"{len(values)}" if is_array or isinstance(values, list) else "no list"
        raise ProblemFileError(f"{name} must be a list of {size} numbers, got {got}")
    if not is_array:
        values = [check_number(f"{name}[{i}]", x) for i, x in enumerate(values)]
    found = np.asarray(values, dtype=float)
    for i in np.flatnonzero(~(np.isfinite(found) & (found >= 0)))[:1]:
        check_number(f"{name}[{i}]", found[i].item())
    return found


def _count(fields: dict[str, Any], name: str, least: int) -> int | None:
    value = fields.get(name)
    return None if value is None else check_integer(name, value, least)
