"""Tables as people have them, at random: a strategy of cases to fit and to predict for.

Most are small, for a bug seldom needs many rows; a few have a thousand categories.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from scipy import sparse

__all__ = ["ANY_FORM", "Case", "cases"]

Draw = Callable[[st.SearchStrategy[Any]], Any]
WORDS = ["red", "green", "blue", "Ärger", "a b", "x,y", "0", "1.5", "nan", "None", "", " ", "-"]
PLAIN_WORDS = ["red", "green", "blue", "grey", "a b", "x,y", 'q"t', "ß"]
EXTREME = [0.0, -0.0, 1.0, -1.0, 0.1, 0.1 + 2**-54, 1e8, 1e8 + 1, -1e8, 1e-308, -1e-308, 5e-324]
EXTREME += [1e308, -1e308, 1.7976931348623157e308, -1.7976931348623157e308, 2.0**53, 1e16]
NUMBERS = st.one_of(
    st.sampled_from(EXTREME), st.floats(allow_nan=False, allow_infinity=False), st.integers(-3, 3)
)
SINGLE = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 0.1, 1e8, 3e38, -3e38, 1e-45, 1e-38]),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
)


@dataclass
class Case:
    """What a user does: a table, labels and settings, and rows to predict for."""

    X: Any
    y: Any
    new: Any
    weight: Any
    settings: dict[str, Any]
    n_classes: int
    kinds: list[str] = field(default_factory=list)
    goes_to_csv: bool = False  # and comes back as it was

    def __repr__(self) -> str:
        parts = [f"{self.settings}", f"kinds={self.kinds}", f"y={self.y!r}"]
        parts += [f"weight={self.weight!r}", f"X=\n{self.X!r}", f"new=\n{self.new!r}"]
        return "Case(" + ",\n".join(parts) + ")"


@dataclass
class Values:
    """Values of a column for the rows of both tables, with how often they are missing."""

    rng: np.random.Generator
    n_rows: int
    n_new: int

    def some(self, pool: list[Any], more: list[Any]) -> tuple[list[Any], list[Any]]:
        """Return values of the pool, and for prediction also others."""
        train = [pool[i] for i in self.rng.integers(0, len(pool), self.n_rows)]
        both = [*pool, *more]
        return train, [both[i] for i in self.rng.integers(0, len(both), self.n_new)]


def series(values: list[Any], dtype: Any) -> pd.Series:
    return pd.Series(values, dtype=dtype)


def pools(values: st.SearchStrategy[Any], most: int = 6) -> st.SearchStrategy[list[Any]]:
    return st.lists(values, min_size=1, max_size=most)


# -- columns -------------------------------------------------------------------------------------


@st.composite
def number_columns(draw: Draw, values: Values) -> Any:
    kind = draw(st.sampled_from(["float64", "float32", "Float64", "object"]))
    pool = list(draw(pools(SINGLE if kind == "float32" else NUMBERS, 8)))
    gap = draw(st.sampled_from(["none", "both", "new only"]))
    missing: list[Any] = [pd.NA if kind == "Float64" else None]
    more = list(draw(pools(SINGLE, 2))) + (missing if gap != "none" else [])
    train, new = values.some(pool + (missing if gap == "both" else []), more)
    if kind == "object":
        return series(train, object), series(new, object)
    return series(train, kind), series(new, kind)


@st.composite
def integer_columns(draw: Draw, values: Values) -> Any:
    kind = draw(st.sampled_from(["int64", "int8", "uint8", "Int64", "uint64"]))
    low = 0 if kind.startswith("u") else -5
    high = 2**53 + 3 if kind in ("int64", "uint64", "Int64") else 9
    whole = st.one_of(st.integers(low, 9), st.just(high))
    gap: list[Any] = [pd.NA] if kind == "Int64" and draw(st.booleans()) else []
    train, new = values.some([*draw(pools(whole)), *gap], [1])
    if draw(st.booleans()):
        return series(train, kind), series([*new[1:], None], object)  # missing at prediction only
    return series(train, kind), series(new, kind)


@st.composite
def bool_columns(draw: Draw, values: Values) -> Any:
    kind = draw(st.sampled_from(["bool", "boolean", "object"]))
    gap: list[Any] = [] if kind == "bool" or draw(st.booleans()) else [None]
    train, new = values.some([True, False, *gap], [])
    return series(train, kind), series(new, kind)


@st.composite
def text_columns(draw: Draw, values: Values) -> Any:
    kind = draw(st.sampled_from(["object", "string", "str"]))
    word = st.one_of(st.sampled_from(WORDS), st.text(max_size=3))
    gap: list[Any] = [None] if draw(st.booleans()) else []
    train, new = values.some([*draw(pools(word)), *gap], [*draw(pools(word, 2)), None])
    dtype = object if kind == "str" else kind
    return series(train, dtype), series(new, object if draw(st.booleans()) else dtype)


@st.composite
def category_columns(draw: Draw, values: Values) -> Any:
    labels = draw(
        st.one_of(
            st.lists(st.sampled_from(PLAIN_WORDS), min_size=1, unique=True),
            st.lists(st.integers(-3, 20), min_size=1, max_size=8, unique=True),
            st.lists(st.sampled_from([0.5, 1.0, 2.0, 1e8, 1e-308]), min_size=1, unique=True),
            st.just([f"c{i}" for i in range(1000)]),
            st.just([True, False]),
        )
    )
    gap: list[Any] = [None] if draw(st.booleans()) else []
    is_ordered = draw(st.booleans())
    used = labels[: draw(st.integers(1, 1000))]
    train, new = values.some([*used, *gap], [None, *labels[-2:]])
    dtype = pd.CategoricalDtype(labels, ordered=is_ordered)
    other = pd.CategoricalDtype([*labels[::-1], "new"] if isinstance(labels[0], str) else labels)
    if draw(st.booleans()) and isinstance(labels[0], str):
        new = [*new[1:], "new"]
    return series(train, dtype), series(new, draw(st.sampled_from([dtype, other, object])))


@st.composite
def identifier_columns(draw: Draw, values: Values) -> Any:
    """Return as many categories as rows; others at prediction."""
    names = [f"id{i}" for i in range(values.n_rows + values.n_new)]
    dtype = draw(st.sampled_from(["object", "category"]))
    return series(names[: values.n_rows], dtype), series(names[-values.n_new :], dtype)


@st.composite
def many_columns(draw: Draw, values: Values) -> Any:
    """Return a thousand categories, where there are as many rows; some are new at prediction."""
    used = [f"c{i % 1000}" for i in values.rng.permutation(values.n_rows)]
    new = [f"c{i}" for i in values.rng.integers(0, 1100, values.n_new)]
    dtype = draw(st.sampled_from(["object", "category", "string"]))
    return series(used, dtype), series(new, dtype)


@st.composite
def constant_columns(draw: Draw, values: Values) -> Any:
    value = draw(st.sampled_from([0.0, 1e308, 5e-324, "same", True, 7, None]))
    dtype = draw(st.sampled_from([object, "category"])) if isinstance(value, str) else None
    if value is None:
        dtype = draw(st.sampled_from([object, float, "category", "Int64"]))
    other = None if draw(st.booleans()) and dtype in (object, float) else value
    return series([value] * values.n_rows, dtype), series([other] * values.n_new, dtype)


@st.composite
def refused_columns(draw: Draw, values: Values) -> Any:
    """Return what is no column of numbers or categories."""
    odd = draw(st.sampled_from(["inf", "date", "mixed", "complex", "list", "huge"]))
    one = {
        "inf": [1.0, np.inf],
        "date": [pd.Timestamp("2020-01-01"), pd.Timestamp("2021-01-01")],
        "mixed": [1.0, "many"],
        "complex": [1j, 2.0],
        "list": [[1], [2, 3]],
        "huge": [10**400, 1],
    }[odd]
    # Older pandas cannot guess a type for 10**400.
    dtype = object if odd in ("list", "huge") else None
    return (
        series([one[i % 2] for i in range(values.n_rows)], dtype),
        series([one[i % 2] for i in range(values.n_new)], dtype),
    )


@st.composite
def plain_columns(draw: Draw, values: Values) -> Any:
    """Return what a CSV file gives back as it was: numbers, words and gaps."""
    if draw(st.booleans()):
        pool = list(draw(pools(st.one_of(st.sampled_from(EXTREME), st.integers(-3, 3)), 8)))
        gap: list[Any] = [None] if draw(st.booleans()) else []
        train, new = values.some([*pool, *gap], [0.25, None])
        return series(train, float), series(new, float)
    pool = draw(st.lists(st.sampled_from(PLAIN_WORDS), min_size=1, unique=True))
    train, new = values.some([*pool, *([None] if draw(st.booleans()) else [])], ["new", None])
    train[0] = pool[0]  # a column without a word is one of numbers
    return series(train, object), series(new, object)


KINDS = {
    "number": number_columns,
    "integer": integer_columns,
    "bool": bool_columns,
    "text": text_columns,
    "category": category_columns,
    "identifier": identifier_columns,
    "many": many_columns,
    "constant": constant_columns,
    "refused": refused_columns,
}
LIMITS = {"f2": (-6e4, 6e4), "u1": (0, 255), "b?": (0, 1)}  # by kind and size of a type
LIMITS |= {"i8": (-(2.0**53), 2.0**53), "i4": (-(2.0**30), 2.0**30)}
ANY_FORM: tuple[str, ...]
ANY_FORM = ("frame", "polars", "array", "frame", "plain", "arrow frame", "frame", "objects")
ANY_FORM += ("array", "frame", "polars", "plain", "frame", "arrow frame", "arrow")
LONG = 1_100  # rows of the few tables that have a thousand categories
ORDERED = ("number", "integer", "bool", "array")
USUAL = [kind for kind in KINDS if kind not in ("many", "refused")] * 4
USUAL += ["number", "text", "category"] * 4 + ["refused"]


# -- tables --------------------------------------------------------------------------------------


@st.composite
def frames(draw: Draw, values: Values, is_plain: bool, is_long: bool) -> Any:
    """Return two frames of the same columns, and what the columns are."""
    kinds = draw(
        st.lists(st.sampled_from(["plain"] if is_plain else USUAL), min_size=1, max_size=5)
    )
    kinds = ["many", *kinds[:2]] if is_long else kinds
    maker = {**KINDS, "plain": plain_columns}
    columns = [draw(maker[kind](values)) for kind in kinds]
    if draw(st.booleans()):
        columns.append(columns[draw(st.integers(0, len(columns) - 1))])  # the same again
        kinds = [*kinds, "duplicate"]
    names: list[Any] = [f"c{j}" for j in range(len(columns))]
    style = (
        "distinct" if is_plain else draw(st.sampled_from(["distinct"] * 4 + ["same", "numbers"]))
    )
    if style == "same":
        names[-1] = names[0]
    elif style == "numbers":
        names = list(range(len(columns)))
    X, new = (pd.concat(list(part), axis=1) for part in zip(*columns, strict=True))
    X.columns = new.columns = pd.Index(names)
    return X, new, kinds


def of_polars(frame: pd.DataFrame, has_null: bool) -> Any:
    """Return a frame of polars; gaps are null, or NaN where that is a number."""
    import polars as pl

    types: dict[str, Any]
    types = {"float32": pl.Float32, "int8": pl.Int8, "uint8": pl.UInt8, "uint64": pl.UInt64}
    columns = []
    for j, name in enumerate(_distinct(frame)):
        column, values = frame.iloc[:, j], _with_gaps(frame.iloc[:, j], has_null)
        dtype = types.get(str(column.dtype))
        if isinstance(column.dtype, pd.CategoricalDtype):
            labels = column.dtype.categories.tolist()
            is_text = labels and all(isinstance(label, str) for label in labels)
            dtype = pl.Enum(labels) if is_text and column.dtype.ordered else dtype
            dtype = pl.Categorical if is_text and not column.dtype.ordered else dtype
        try:
            columns.append(pl.Series(name, values, dtype, strict=False))
        except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
            columns.append(pl.Series(name, values, pl.Object))
    return pl.DataFrame(columns)


def of_arrow(frame: pd.DataFrame, is_table: bool) -> Any:
    """Return a table of pyarrow, or a frame of pandas whose columns are; what can be one."""
    import pyarrow as pa

    types = {"float32": pa.float32(), "int8": pa.int8(), "uint8": pa.uint8(), "uint64": pa.uint64()}
    columns: dict[str, Any] = {}
    for j, name in enumerate(_distinct(frame)):
        column = frame.iloc[:, j]
        try:
            found = pa.array(_with_gaps(column, True), types.get(str(column.dtype)))
        except (pa.ArrowException, OverflowError, TypeError):
            columns[name] = pa.nulls(len(frame)) if is_table else column
            continue
        if isinstance(column.dtype, pd.CategoricalDtype) and pa.types.is_string(found.type):
            found = found.dictionary_encode()
        columns[name] = found if is_table else pd.Series(pd.arrays.ArrowExtensionArray(found))
    return pa.table(columns) if is_table else pd.DataFrame(columns)


def _distinct(frame: pd.DataFrame) -> list[str]:
    return [f"c{j}" for j in range(frame.shape[1])]


def _with_gaps(column: pd.Series, has_null: bool) -> list[Any]:
    """Return plain values; gaps are None, or NaN where they are wanted to be that."""
    gap = np.nan if not has_null and column.dtype.kind == "f" else None
    is_gap = column.isna().to_numpy(dtype=bool)
    return [gap if g else v for v, g in zip(column.tolist(), is_gap, strict=True)]


@st.composite
def arrays(draw: Draw, values: Values) -> Any:
    """Return two arrays or sparse matrices of numbers."""
    n_columns = draw(st.integers(1, 5))
    dtype = draw(st.sampled_from(["f8", "f4", ">f8", ">f4", "i8", "i4", "u1", "?", "f2", ">i4"]))
    pool = np.array([0, *draw(pools(SINGLE, 8))])
    gap = draw(st.booleans()) and np.dtype(dtype).kind == "f"
    tables = []
    for n in (values.n_rows, values.n_new):
        table = values.rng.choice(pool, (n, n_columns))
        low, high = LIMITS.get(np.dtype(dtype).kind + dtype[-1], (-np.inf, np.inf))
        with np.errstate(under="ignore"):
            table = np.clip(table, low, high).astype(dtype)
        if gap:
            table[values.rng.random(table.shape) < 0.2] = np.nan
        tables.append(table)
    form = draw(st.sampled_from(["C", "F", "strided", "read-only", "masked", "sparse", "sparse"]))
    return *(_formed(draw, table, form, values.rng) for table in tables), [form, dtype]


def _formed(draw: Draw, table: np.ndarray, form: str, rng: np.random.Generator) -> Any:
    if form == "F":
        return np.asfortranarray(table)
    if form == "strided":
        wide = np.repeat(np.repeat(table, 2, axis=0), 2, axis=1)
        return wide[::2, ::2]
    if form == "read-only":
        table.flags.writeable = False
    if form == "masked":
        return np.ma.array(table, mask=rng.random(table.shape) < 0.2)
    if form == "sparse":
        own = table.astype(table.dtype.newbyteorder("="))
        own = own.astype("f4") if own.dtype == np.float16 else own
        maker = draw(st.sampled_from([sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix]))
        made = maker(own * (rng.random(own.shape) < 0.5).astype(own.dtype))
        return made.asformat(draw(st.sampled_from(["csr", "csc", "coo", "lil", "dok", "bsr"])))
    return table


# -- labels, weights, settings -------------------------------------------------------------------


@st.composite
def labels(draw: Draw, values: Values, n_classes: int) -> Any:
    """Return labels of all classes, some perhaps in one row only."""
    codes = values.rng.integers(0, n_classes, values.n_rows)
    if draw(st.booleans()):
        codes = np.where(values.rng.random(values.n_rows) < 0.9, 0, codes)
    codes[values.rng.permutation(values.n_rows)[:n_classes]] = np.arange(n_classes)
    kind = draw(st.sampled_from(["int", "text", "object", "float", "category", "bool"]))
    names = np.array(["no", "yes", "maybe", "née", "x,y"])
    if kind == "bool" and n_classes == 2:
        return codes == 1
    if kind == "text":
        return names[codes]
    if kind == "object":
        return pd.Series(names[codes].astype(object))
    if kind == "category":
        return pd.Series(pd.Categorical(names[codes]))
    return (codes - 1).astype(float) if kind == "float" else 3 * codes - 2


@st.composite
def weights(draw: Draw, values: Values, y: Any) -> Any:
    """Return weights, zeros among them; mostly not all of a class."""
    kind = draw(st.sampled_from(["none", "none", "counts", "shares", "tiny"]))
    n = values.n_rows
    if kind == "none":
        return None
    weight = values.rng.random(n) * (values.rng.random(n) < 0.9)
    if kind == "counts":
        weight = np.floor(4 * weight).astype(int)
    if draw(st.sampled_from([True] * 9 + [False])):
        _, first = np.unique(np.asarray(y), return_index=True)
        weight[first] = 1
    return weight * (1e-300 if kind == "tiny" else 1)


@st.composite
def settings_of(draw: Draw, kinds: list[str], n_classes: int) -> Any:
    """Return arguments of the classifier; kinds are those of the columns."""
    some, n_features = st.sampled_from, len(kinds)
    chosen: dict[str, Any] = {
        "max_learners": draw(st.integers(1, 4)),
        "cardinality_penalty": draw(some(["auto", "auto", 0.0, 1e-3, "bic"])),
        "l1_penalty": draw(some(["auto", "auto", 1e-3, 1e-6])),
        "loss": draw(some(["logistic", "logistic", "exponential", "squared", "smoothed_hinge"])),
        "fit_intercept": draw(some([True, True, False])),
        "exchange": draw(some([True, False, False])),  # which takes most of the time
        "solver": draw(some(["local"] * 39 + ["tabu"])),
        "multiclass": draw(some(["joint", "per_class", "shared"])),
        "class_weight": draw(some([None, None, "balanced"])),
        "max_features": draw(some([None, None, 1, 2])),
        "random_state": draw(some(range(8))),
    }
    if draw(some([False, False, True])):
        costs = st.lists(some([0.0, 0.5, 2.0]), min_size=n_features, max_size=n_features)
        chosen["feature_costs"] = draw(st.one_of(some([0.0, 1.0]), costs))
    if n_classes == 2 and draw(some([False, True])):
        ways = st.lists(some([-1, 0, 1]), min_size=n_features, max_size=n_features)
        chosen["monotonic_cst"] = draw(ways)
        if draw(some([True] * 5 + [False])):  # categories have no order
            pairs = zip(chosen["monotonic_cst"], kinds, strict=True)
            chosen["monotonic_cst"] = [way if kind in ORDERED else 0 for way, kind in pairs]
    if draw(some([False] * 7 + [True])):
        which = st.lists(st.integers(0, n_features - 1), unique=True)
        chosen["categorical_features"] = draw(st.one_of(st.none(), which))
    return chosen


@st.composite
def cases(draw: Draw, forms: Sequence[str] = ANY_FORM) -> Any:
    """Return a table of any kind, with labels, weights and settings."""
    n_classes = draw(st.sampled_from([2, 2, 2, 3, 4, 5]))
    n_rows = draw(st.one_of(st.integers(n_classes, 40), st.sampled_from([n_classes, 60])))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    form = draw(st.sampled_from(forms))
    is_long = form not in ("plain", "array") and draw(st.sampled_from([False] * 29 + [True]))
    values = Values(rng, LONG if is_long else n_rows, draw(st.integers(1, 8)))
    if form == "array":
        X, new, kinds = draw(arrays(values))
    else:
        X, new, kinds = draw(frames(values, form == "plain", is_long))
        if form == "polars":
            has_null = draw(st.booleans())
            X, new = of_polars(X, has_null), of_polars(new, has_null)
        if form in ("arrow", "arrow frame"):
            X, new = (of_arrow(table, form == "arrow") for table in (X, new))
        if form == "objects":
            X, new = X.to_numpy(dtype=object), new.to_numpy(dtype=object)
    of_columns = ["array"] * X.shape[1] if form == "array" else kinds
    chosen = draw(settings_of(of_columns, n_classes))
    if is_long:  # where the search takes seconds
        chosen |= {"exchange": draw(st.sampled_from([False] * 7 + [True])), "solver": "local"}
    y = draw(labels(values, n_classes))
    weight = draw(weights(values, y))
    return Case(X, y, new, weight, chosen, n_classes, [form, *kinds], form == "plain")
