"""Tables as people have them, as floats and features."""

import datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from totalqboost.learners import Feature
from totalqboost.tabular import MAX_CATEGORIES, encode, read_table, seen_only

NAN = np.nan
MIXED = {
    "number": ([1.5, None, 2, 3], None, [1.5, NAN, 2, 3]),
    "text": (["y", "x", None, "y"], ("x", "y", None), [1, 0, 2, 1]),
    "level": (
        pd.Categorical(["lo", "hi", "lo", None], ["lo", "mid", "hi"]),
        ("lo", "hi", None),
        [0, 1, 0, 2],
    ),
    "count": (pd.array([1, None, 3, 4], dtype="Int64"), None, [1, NAN, 3, 4]),
    "whole": (pd.array([1, 2, 3, 4], dtype="UInt8"), None, [1, 2, 3, 4]),
    "share": (pd.array([0.5, None, 1, 2], dtype="Float32"), None, [0.5, NAN, 1, 2]),
    "maybe": (pd.array([True, None, False, True], dtype="boolean"), None, [1, NAN, 0, 1]),
    "is_it": ([True, False, True, True], None, [1, 0, 1, 1]),
    "wrapped": (pd.Series([1, None, 2.5, True], dtype=object), None, [1, NAN, 2.5, 1]),
    "flags": (pd.Series([True, None, False, np.nan], dtype=object), None, [1, NAN, 0, NAN]),
    "exact": (
        pd.Series([Decimal("1.5"), Fraction(1, 4), Decimal("nan"), np.float32(2)], dtype=object),
        None,
        [1.5, 0.25, NAN, 2],
    ),
    "group": (pd.cut([1, 2, 3, 4], [0, 2, 4]), ("(0, 2]", "(2, 4]"), [0, 0, 1, 1]),
    "string": (pd.array(["v", None, "u", "u"], dtype="string"), ("u", "v", None), [1, 2, 0, 0]),
    "digits": (["10", "9", "9", "10"], ("10", "9"), [0, 1, 1, 0]),
    "empty": ([None] * 4, None, [NAN] * 4),
    "no text": (pd.array([None] * 4, dtype="string"), (None,), [0] * 4),
    "same": ([7] * 4, None, [7] * 4),
    "tag": (pd.Series([b"a", "b", None, b"a"], dtype=object), ("a", "b", None), [0, 1, 2, 0]),
}


@pytest.mark.parametrize("name", MIXED)
def test_each_kind_of_column_becomes_numbers_or_codes(name):
    values, categories, expected = MIXED[name]
    table, features = read_table(pd.DataFrame({name: values}))
    assert table[:, 0] == pytest.approx(expected, nan_ok=True)
    has_missing = bool(np.isnan(expected).any()) or None in (categories or ())
    assert features == (Feature(name, categories, has_missing),)


def mixed_frame():
    return pd.DataFrame({name: values for name, (values, _, _) in MIXED.items()})


def test_a_mixed_frame_is_read_like_its_columns():
    table, features = read_table(mixed_frame())
    for j, (values, _, _) in enumerate(MIXED.values()):
        alone, (feature,) = read_table(pd.DataFrame({features[j].name: values}))
        assert np.array_equal(table[:, [j]], alone, equal_nan=True)
        assert features[j] == feature


@pytest.mark.parametrize("form", ["frame", "reordered", "objects", "lists"])
def test_further_data_is_coded_like_training_data(form):
    frame = mixed_frame()
    table, features = read_table(frame)
    further = {
        "frame": frame,
        "reordered": frame[frame.columns[::-1]],
        "objects": frame.to_numpy(),
        "lists": frame.to_numpy().tolist(),
    }[form]
    assert np.array_equal(encode(further, features), table, equal_nan=True)


def test_what_training_has_not_seen_is_minus_one():
    features = (Feature("a", ("x", "y")), Feature("b", ("x", None), True), Feature("c"))
    frame = pd.DataFrame({"a": ["z", None, "y"], "b": ["z", None, "x"], "c": [None, 1, 2]})
    coded = encode(frame, features)
    assert np.array_equal(coded, [[-1, -1, NAN], [-1, 1, 1], [1, 0, 2]], equal_nan=True)


@pytest.mark.parametrize(
    ("labels", "values", "codes"),
    [
        (("1", "2", "x"), [1, 2, 3], [0, 1, -1]),
        (("1", "2", "x"), [1.0, NAN, 2.0], [0, -1, 1]),
        ((1, 2.5), ["1", "2.5", "x"], [0, 1, -1]),
        ((False, True), [0, 1, 1], [0, 1, 1]),
        (("False", "True"), [False, True, True], [0, 1, 1]),
        ((1, "1"), [1, "1", "01"], [0, 1, 0]),
    ],
)
def test_a_number_and_its_spelling_are_one_category(labels, values, codes):
    frame = pd.DataFrame({"a": pd.Series(values)})
    assert encode(frame, (Feature("a", labels),))[:, 0].tolist() == codes


# -- no copies -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("gap", [0.5, NAN])
def test_floats_are_not_copied(dtype, order, gap):
    table = np.array([[1.0, gap], [3.0, 4.0]], dtype=dtype, order=order)
    table.flags.writeable = False
    read, features = read_table(table)
    assert read is table
    assert encode(table, features) is table
    assert [feature.has_missing for feature in features] == [False, bool(np.isnan(gap))]
    framed, _ = read_table(pd.DataFrame(table, copy=False))
    assert np.shares_memory(framed, table)
    masked, _ = read_table(np.ma.masked_array(table))
    assert np.shares_memory(masked, table)


def test_a_mapped_file_is_not_copied(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((4, 2)))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    table, features = read_table(mapped)
    assert np.shares_memory(table, mapped)
    assert np.shares_memory(encode(mapped, features), mapped)


@pytest.mark.parametrize("dtype", [">f8", ">f4", "<f4", "f2", "i1", "u8", ">i4", "?", "O", "g"])
def test_other_numbers_become_floats_of_this_machine(dtype):
    table = np.array([[0, 1], [1, 0]]).astype(dtype)
    read, features = read_table(table)
    assert read.tolist() == [[0, 1], [1, 0]]
    assert read.dtype in (np.float32, np.float64)
    assert read.dtype.isnative
    assert encode(table, features).tolist() == read.tolist()
    assert not any(feature.has_missing for feature in features)


def test_masked_values_are_missing():
    mask = [[0, 1], [0, 0]]
    for data in ([[1, 2], [3, 4]], [[1.0, 2.0], [3.0, 4.0]], [[1, "a"], [3, "b"]]):
        array = np.ma.masked_array(np.array(data, dtype=object), mask)
        array = array if data[0][1] == "a" else array.astype(type(data[0][0]))
        table, features = read_table(array)
        assert features[1].has_missing
        assert np.array_equal(encode(array, features), table, equal_nan=True)
    assert np.array_equal(table, [[1, 1], [3, 0]])  # text: the gap is the last category
    assert features[1].categories == ("b", None)


# -- text in arrays ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "table",
    [
        np.array([["1.5", "a"], ["2", "b"]]),
        np.array([["1.5", "a"], ["2", "b"]], dtype="S"),
        np.array([[1.5, "a"], ["2", "b"]], dtype=object),
        [[1.5, "a"], [2, "b"]],
        [["1.5", "a"], ["2", "b"]],
    ],
)
def test_text_in_an_array_is_a_number_if_all_of_its_column_are(table):
    read, features = read_table(table)
    assert read.tolist() == [[1.5, 0], [2, 1]]
    assert features == (Feature("x0"), Feature("x1", ("a", "b")))


# -- other frames --------------------------------------------------------------------------


def assert_agrees_with_pandas(frame, plain):
    table, features = read_table(frame)
    expected, of_pandas = read_table(plain)
    assert np.array_equal(table, expected, equal_nan=True)
    assert features == of_pandas
    assert np.array_equal(encode(plain, features), table, equal_nan=True)
    assert np.array_equal(encode(frame, of_pandas), table, equal_nan=True)


PLAIN = {
    "a": [1, None, 3],
    "b": ["x", None, "y"],
    "c": [True, None, False],
    "d": ["u", "v", "u"],
    "f": [1.0, float("nan"), None],
    "g": [None, None, None],
}


def test_polars_frames_are_read():
    pl = pytest.importorskip("polars")
    enum = pl.Series(["lo", None, "hi"], dtype=pl.Enum(["lo", "mid", "hi"]))
    text = pl.Series(PLAIN["d"], dtype=pl.Categorical)
    frame = pl.DataFrame({**PLAIN, "d": text, "e": enum})
    gaps = pl.DataFrame({"a": pl.Series([None], dtype=pl.String)})
    assert read_table(gaps)[1][0].categories == (None,)
    level = pd.Categorical(["lo", None, "hi"], ["lo", "mid", "hi"])
    plain = pd.DataFrame({**PLAIN, "e": level})
    assert_agrees_with_pandas(frame, plain)
    table, features = read_table(frame)
    assert np.array_equal(encode(frame[:, ::-1], features), table, equal_nan=True)
    for bad in ([[1], [2]], [{"a": 1}], [datetime.date(2020, 1, 1)], [datetime.timedelta(1)]):
        with pytest.raises(TypeError, match=r"column 'w' \(position 0\) of X holds"):
            read_table(pl.DataFrame({"w": bad}))
    with pytest.raises(TypeError, match=r"X is a lazy frame; use X.collect\(\)"):
        read_table(frame.lazy())


def test_arrow_tables_and_frames_backed_by_arrow_are_read():
    pa = pytest.importorskip("pyarrow")
    columns = {name: pa.array(values) for name, values in PLAIN.items()}
    columns["d"] = columns["d"].dictionary_encode()
    table = pa.table(columns)
    gaps = pa.table({"a": pa.array([None], pa.string())})
    assert read_table(gaps)[1][0].categories == (None,)
    assert_agrees_with_pandas(table, pd.DataFrame(PLAIN))
    assert_agrees_with_pandas(table.to_pandas(types_mapper=pd.ArrowDtype), pd.DataFrame(PLAIN))
    dates = [datetime.date(2020, 1, 1)], [datetime.timedelta(1)]
    for bad in ([[1], [2]], [["a"], ["b"]], [{"a": "b"}], *dates):
        with pytest.raises(TypeError, match=r"column 'w' \(position 0\) of X holds"):
            read_table(pa.table({"w": pa.array(bad)}))
        frame = pa.table({"w": pa.array(bad)}).to_pandas(types_mapper=pd.ArrowDtype)
        with pytest.raises(TypeError, match=r"column 'w' \(position 0\) of X holds"):
            read_table(frame)


def test_a_sparse_matrix_is_refused_or_kept_sparse():
    dense = np.array([[0, 1.5, 0], [NAN, 0, 2]])
    for matrix in (sparse.csr_matrix(dense), sparse.coo_array(dense), sparse.csc_matrix(dense)):
        with pytest.raises(TypeError, match=r"sparse data is not supported here; use X.toarray"):
            read_table(matrix)
        table, features = read_table(matrix, accept_sparse=True)
        assert table.format == "csc"
        assert np.array_equal(table.toarray(), dense, equal_nan=True)
        assert [feature.has_missing for feature in features] == [True, False, False]
    with pytest.raises(ValueError, match="column 2 of X must not contain infinity, got inf"):
        read_table(sparse.csr_matrix([[0, 1, np.inf]]), accept_sparse=True)
    with pytest.raises(ValueError, match="categorical_features must be None if X is sparse"):
        read_table(matrix, [0], accept_sparse=True)
    assert read_table(sparse.csc_matrix([[0, 1]]), accept_sparse=True)[0].dtype == float


# -- what is said of others ----------------------------------------------------------------

WHEN = pd.date_range("2020", periods=2)


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        (pd.DataFrame({"w": WHEN}), TypeError, r"\(pd.to_datetime\(df\['w'\], utc"),
        (pd.DataFrame({"w": WHEN.tz_localize("UTC")}), TypeError, r"column 'w' \(position 0\)"),
        (pd.DataFrame({"w": WHEN - WHEN[0]}), TypeError, r"df\['w'\]\).dt.total_seconds\(\)"),
        (pd.DataFrame({"w": WHEN.to_list()}, dtype=object), TypeError, "holds dates"),
        (pd.DataFrame({"w": WHEN.to_period()}), TypeError, "column 'w' .* of type Period"),
        (np.array([[WHEN[0]]], "M8[D]"), TypeError, r"X\[:, 0\].astype\('datetime64\[D\]'\)"),
        (pd.DataFrame({"a": [1, 2], "w": [1.0, np.inf]}), ValueError, r"'w' \(position 1\).* inf"),
        (pd.DataFrame({"w": [1, -np.inf]}, dtype=object), ValueError, "'w'.* infinity, got -inf"),
        (pd.DataFrame({"w": [10**400, 1]}, dtype=object), ValueError, "'w'.* infinity, got inf"),
        (pd.DataFrame({"w": ["a", "b"], "x": [1, np.inf]}), ValueError, "'x' .*infinity"),
        (np.array([[1.0, NAN, -np.inf]]), ValueError, "column 2 of X must not .*, got -inf"),
        (np.array([[1, np.longdouble("1e400")]]), ValueError, "column 1 of X .*, got inf"),
        (pd.DataFrame({"w": pd.Categorical([np.inf])}), ValueError, "'w'.* infinity, got inf"),
        (pd.DataFrame({"w": [1, "?"]}), ValueError, r"'w' .*must hold numbers, got '\?' in row 1;"),
        (pd.DataFrame({"w": [1, "1_0"]}), ValueError, "got '1_0' in row 1"),
        ([[1], ["?"]], ValueError, "column 0 of X must hold numbers, got .* categorical_features"),
        (pd.DataFrame({"w": [[1], [2]]}), TypeError, "'w'.* type list; each argument must be a"),
        (np.array([[1, {}]], dtype=object), TypeError, "type dict; each argument must be a string"),
        (np.array([[1, 2j]]), ValueError, "Complex data not supported: column 0 of X"),
        (np.array([[1, 2j]], dtype=object), ValueError, "Complex data not supported: column 1"),
        ([1, 2], ValueError, "Expected 2D array, got 1D array instead. Reshape your data"),
        (np.zeros(2, dtype=[("a", float)]), TypeError, r"use pandas.DataFrame\(X\)"),
    ],
)
def test_other_values_are_refused_by_name(table, error, message):
    with pytest.raises(error, match=message):
        read_table(table)


def test_a_column_of_numbers_stays_one():
    _, features = read_table(pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}))
    assert encode(pd.DataFrame({"a": ["3"], "b": ["x"]}), features).tolist() == [[3, 0]]
    with pytest.raises(ValueError, match=r"'a' .* got '\?' in row 0, where training had numbers"):
        encode(pd.DataFrame({"a": ["?"], "b": ["x"]}), features)
    with pytest.raises(ValueError, match=r"column 'a' .*0\) of X_new must not contain inf"):
        encode(pd.DataFrame({"a": [np.inf], "b": ["x"]}), features, "X_new")


def test_columns_that_are_not_used_may_be_anything():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"], "c": [0.0, 1.0]})
    table, features = read_table(frame)
    further = pd.DataFrame({"c": [NAN, 3.0], "a": [[], {}]})
    assert np.array_equal(encode(further, features, used={2})[:, 2], [NAN, 3], equal_nan=True)
    with pytest.raises(ValueError, match=r"must have the columns .* missing \['b'\]"):
        encode(further, features, used={1, 2})
    numbers = table.copy()
    numbers[:, 0] = np.inf
    assert np.array_equal(encode(numbers, (Feature("a"),) * 3, used=[1, 2]), numbers)
    with pytest.raises(ValueError, match="must have 3 columns like the training data, got 2"):
        encode(further.to_numpy(), features)


# -- categorical_features ------------------------------------------------------------------


@pytest.mark.parametrize("given", [["a", "b"], [0, 1], [True, True, False], np.array([0, 1])])
def test_categories_by_name_position_or_mask(given):
    frame = pd.DataFrame({"a": [3, 1, None], "b": ["x", "y", "x"], "c": [1, 2, 3]})
    table, features = read_table(frame, given)
    assert [feature.categories for feature in features] == [(1, 3, None), ("x", "y"), None]
    assert table.tolist() == [[1, 0, 1], [0, 1, 2], [2, 0, 3]]
    assert all(type(label) in (int, str, type(None)) for label in features[0].categories)


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_dates_are_categories_if_the_user_says_so(zone):
    frame = pd.DataFrame({"when": WHEN.tz_localize(zone)})
    table, (feature,) = read_table(frame, ["when"])
    assert table[:, 0].tolist() == [0, 1]
    assert [label[:10] for label in feature.categories] == ["2020-01-01", "2020-01-02"]
    assert encode(frame[::-1], (feature,))[:, 0].tolist() == [1, 0]
    array = np.array([["2020-01-02"], ["2020-01-01"]], dtype="M8[ns]")
    assert read_table(array, [0])[0].tolist() == [[1], [0]]
    assert read_table(array, [0])[1][0].categories[0].startswith("2020-01-01")


def test_no_categories_at_all():
    frame = pd.DataFrame({"a": pd.Categorical([3, 1])})
    assert read_table(frame)[1] == (Feature("a", (1, 3)),)
    for none in (None, [], [False]):
        table, features = read_table(frame, none)
        assert table.tolist() == [[3], [1]]
        assert features == (Feature("a"),)
        with pytest.raises(ValueError, match=r"'t'.*'x' in row 0; name the column in categorical"):
            read_table(pd.DataFrame({"t": ["x"]}), none)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("a", "must be 'from_dtype', None, or a list .* got 'a'"),
        ([2], r"must be positions from 0 to 1, got \[2\]"),
        ([-1], r"must .* got \[-1\]"),
        (["z"], r"must name columns of X, got 'z'; X has"),
        ([True], r"as a mask must have one value per column \(2\), got 1"),
        ([0.5], r"must be names, positions or a mask, got \[0.5\]"),
        (["a", 1], "must be names, positions or a mask"),
        ([[0]], r"must be a list of names, positions or a mask, got \[\[0\]\]"),
    ],
)
def test_bad_categorical_features_are_refused(given, message):
    with pytest.raises(ValueError, match=f"categorical_features {message}"):
        read_table(pd.DataFrame({"a": [1], "b": [2]}), given)


def test_names_need_a_frame_that_has_them():
    for table in (np.zeros((2, 2)), pd.DataFrame(np.zeros((2, 2)), columns=["a", "a"])):
        with pytest.raises(ValueError, match="must be positions or a mask if X has no names"):
            read_table(table, ["a"])


def test_the_number_of_categories_has_a_limit():
    names = np.array([f"id{i}" for i in range(MAX_CATEGORIES + 1)])
    _, (feature,) = read_table(pd.DataFrame({"id": names[:-1]}))
    assert len(feature.categories) == MAX_CATEGORIES
    with pytest.raises(ValueError, match=r"'id' .* 65536 categories, and 65535 are the most"):
        read_table(pd.DataFrame({"id": names}))


def test_rows_left_out_have_not_been_seen():
    frame = pd.DataFrame({"t": ["b", "a", None, "c"], "x": [1, NAN, 2, 3], "s": ["u"] * 4})
    table, features = read_table(frame)
    rows = [0, 3]
    part, own = seen_only(table[rows], features)
    expected, alone = read_table(frame.iloc[rows])
    assert own == alone
    assert part.tolist() == expected.tolist()


# -- any table -----------------------------------------------------------------------------

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_infinity=False),
    st.text(max_size=3),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=8), st.lists(VALUES, min_size=1, max_size=4))
def test_categories_of_any_values_are_found_again(values, others):
    frame = pd.DataFrame({"a": pd.Series(values, dtype=object)})
    table, (feature,) = read_table(frame, ["a"])
    codes = table[:, 0].astype(int)
    assert set(codes) == set(range(len(feature.categories)))
    for value, code in zip(values, codes, strict=True):
        label = feature.categories[code]
        is_gap = value is None or value != value
        assert (label is None) if is_gap else (label == value)
    assert np.array_equal(encode(frame, (feature,)), table)
    assert np.array_equal(encode(frame.to_numpy(), (feature,)), table)
    further = encode(pd.DataFrame({"a": pd.Series(others, dtype=object)}), (feature,))
    assert further.min() >= -1
    assert further.max() < len(feature.categories)
