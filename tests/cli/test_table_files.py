"""Tables as people have them: what is found out, what is said about what cannot be read."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import PROGRAM, error_of, run

from totalqboost import Ensemble, Stump
from totalqboost.cli import reading
from totalqboost.cli.errors import BadInput
from totalqboost.cli.reading import Format
from totalqboost.cli.table import read_table

FRAME = pd.DataFrame({"größe": [1.5, 2.25, -3.0, 0.125], "b": [1, 2, 3, 4], "y": list("nyny")})


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty working directory with a model that looks at größe."""
    monkeypatch.chdir(tmp_path)
    Ensemble((Stump(0, 0.5),), (0.7,), 0.1, ("n", "y"), ("größe", "b")).save("model.json")
    return tmp_path


def read(content: bytes | str, name: str = "data.csv", **options: str | None) -> pd.DataFrame:
    content = content if isinstance(content, bytes) else content.encode()
    Path(name).write_bytes(content)
    format = {"sep": None, "decimal": None, "encoding": None, **options}
    return read_table(Path(name), Format.of(**format)).frame


def complaint(content: bytes | str, **options: str | None) -> str:
    with pytest.raises(BadInput) as caught:
        read(content, **options)
    return str(caught.value)


def fit_complaint(content: bytes | str, *options: str) -> str:
    content = content if isinstance(content, bytes) else content.encode()
    Path("data.csv").write_bytes(content)
    return error_of("fit", "data.csv", "--target", "y", *options)


# -- found out ---------------------------------------------------------------------------


@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("sep", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_separator_decimal_and_encoding_are_found_out(sep, decimal, encoding):
    text = FRAME.to_csv(index=False, sep=sep, decimal=decimal)
    if sep == decimal:  # numbers in quotes: here the user has to say it
        found = read(text.encode(encoding), decimal=decimal)
    else:
        found = read(text.encode(encoding))
    pd.testing.assert_frame_equal(found, FRAME)


def test_what_the_user_says_is_taken():
    text = FRAME.to_csv(index=False, sep=";", decimal=",").encode("cp1252")
    found = read(text, sep=";", decimal=",", encoding="cp1252")
    pd.testing.assert_frame_equal(found, FRAME)
    tabs = FRAME.to_csv(index=False, sep="\t")
    for name in ("tab", "\\t", "\t"):
        pd.testing.assert_frame_equal(read(tabs, sep=name), FRAME)


@pytest.mark.parametrize("order", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_a_missing_byte_order_is_asked_for(order):
    text = FRAME.to_csv(index=False).encode(order)
    said = complaint(text, encoding=order[:6])
    assert said == f"data.csv does not begin with a byte order mark; add --encoding {order}"
    pd.testing.assert_frame_equal(read(text, encoding=order), FRAME)


def test_commas_that_may_mean_thousands_are_not_guessed():
    text = "a;y\n1,500;x\n12,250;z\n"
    assert read(text)["a"].tolist() == ["1,500", "12,250"]
    assert read(text, decimal=",")["a"].tolist() == [1.5, 12.25]
    said = fit_complaint(text)
    assert "column 'a' (first '1,500' in line 2" in said
    assert "add --decimal ," in said


def test_commas_are_not_decimal_beside_decimal_points():
    found = read("a;b;y\n1,5;0.5;x\n2,5;1.5;z\n")
    assert found["a"].tolist() == ["1,5", "2,5"]


def test_decimal_commas_hold_for_the_whole_table():
    found = read("a;b;y\n1,500;1,5;x\n12,250;2;z\n")
    assert found["a"].tolist() == [1.5, 12.25]
    said = complaint("price;rate;y\n500;0,5;a\n1.000;0,25;b\n10.000;1,5;a\n")
    assert "decimal commas in column 'rate', and points in column 'price'" in said
    assert "separate thousands" in said
    assert read("a;b\n1.000;0,5\n", decimal=",")["b"].tolist() == [0.5]
    assert read("a;b\n1.000;0,5\n", decimal=".")["a"].tolist() == [1.0]


def test_unnamed_empty_columns_are_none():
    found = read("a,,y,\n1,,x,\n2,,z,\n")
    assert list(found.columns) == ["a", "y"]
    assert list(read("a,,y\n1,,x\n2,3,z\n").columns) == ["a", "Unnamed: 1", "y"]


def test_excels_line_about_the_separator_is_no_line_of_names():
    for beginning in (b"", b"\xef\xbb\xbf"):
        assert list(read(beginning + b"sep=;\r\na;y\r\n1;x\r\n2;z\r\n").columns) == ["a", "y"]
    assert "'u' in line 4" in fit_complaint("sep=;\na;y\n1;x\nu;z\n")


def test_text_is_not_taken_for_numbers():
    found = read("a;b;y\n1,5;Rome, Oslo;x\n;12-3,4;z\n")
    assert found["a"].tolist()[0] == 1.5
    assert np.isnan(found["a"].tolist()[1])
    assert found["b"].tolist() == ["Rome, Oslo", "12-3,4"]


def test_a_comma_wins_where_two_separators_fit():
    assert list(read("a;b,y\n1;2,x\n3;4,z\n").columns) == ["a;b", "y"]


def test_quotes_and_blank_lines_are_no_trouble():
    found = read('\n"a;1";y\n\n"3\n";"x;\n\nz"\n\n4;k\n')
    assert list(found.columns) == ["a;1", "y"]
    assert found["y"].tolist() == ["x;\n\nz", "k"]


def test_separators_at_the_end_of_rows_are_no_field():
    assert read("a,y\n1,x,\n2,z,\n")["y"].tolist() == ["x", "z"]


@pytest.mark.parametrize(("suffix", "pack"), [("gz", gzip), ("bz2", bz2), ("xz", lzma)])
def test_packed_files_are_unpacked(suffix, pack):
    text = FRAME.to_csv(index=False).encode()
    found = read(pack.compress(text), name=f"data.csv.{suffix}")
    pd.testing.assert_frame_equal(found, FRAME)
    for name in ("data.csv", f"DATA.{suffix.upper()}"):
        pd.testing.assert_frame_equal(read(pack.compress(text), name=name), FRAME)
    Path(f"bad.{suffix}").write_bytes(pack.compress(text)[:-9])
    assert f"cannot read bad.{suffix}: " in error_of("fit", f"bad.{suffix}", "--target", "y")


# -- named -------------------------------------------------------------------------------


def test_a_byte_that_is_no_text_is_found():
    said = complaint("city,größe,y\nRome,1,x\n\nKöln,2,z\n".encode("latin-1"))
    assert "line 1 has the byte 0xF6" in said
    said = complaint("a,city,y\n1,Rome,x\n\n2,Köln,z\n".encode("latin-1"))
    assert said.startswith("data.csv is not UTF-8 text: line 4 (column 'city') has the byte 0xF6")
    assert said.endswith("--encoding latin-1")
    found = read("city,y\nRome,x\nKöln,z\n".encode("latin-1"), encoding="latin-1")
    assert found["city"].tolist() == ["Rome", "Köln"]


def test_a_byte_far_down_is_found():
    text = "a,city\n" + "1,Rome\n" * 300_000 + "2,Köln\n"
    assert "line 300002 (column 'city')" in complaint(text.encode("latin-1"))


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("a;b;y\n1;2;x\n", {"sep": ","}, "one column only, 'a;b;y', if ',' separates them; add"),
        ("a;b;y\n1;2;x\n", {"sep": "tab"}, "if tab separates them; add --sep ';'"),
        ("a\tb\n1\t2\n", {"sep": ","}, "add --sep tab"),
        ("a b y\n1 2 x\n", {}, "one column only, 'a b y', if ',' separates them; add --sep ' '"),
        ("a,b\n1,2\n", {"sep": "|"}, "if '|' separates them; add --sep ','"),
    ],
)
def test_a_wrong_separator_is_named(text, options, said):
    assert said in complaint(text, **options)


def test_a_separator_that_cannot_be_told_is_suspected():
    said = fit_complaint("a;b,y\n1;2,x\n3;4,z\n", "--drop", "b")
    assert said.endswith("its columns are 'a;b', 'y'; if that is the separator, add --sep ';'")
    assert "--sep" not in fit_complaint("a,y\n1,x\n3,z\n", "--drop", "b")


def test_ragged_rows_are_found():
    said = complaint("a,b,y\n1,2,x\n\n1,2,3,x\n")
    assert said.startswith("data.csv: line 4 has 4 fields, the line of names 3; mend the line, or")
    assert "--sep" in said
    assert "line 3 has 4 fields" in complaint("a;b;y\n1;2;x\n1;2;x;4\n")
    said = fit_complaint("a,b,y\n1,2,x\n3,4,z\n5,6\n")
    assert "line 4 has 2 fields, the line of names 3 (column 'y' is the first to be miss" in said
    said = fit_complaint("y,a,b\nx,1,2\nz,3\n")
    assert "line 3 has 2 fields, the line of names 3 (column 'b' is the first to be miss" in said


def test_the_first_text_and_the_first_label_that_is_missing_are_found():
    said = fit_complaint('a,b,y\n1,"2\n",x\n\nu,3,z\n')
    assert "not numbers in column 'a' (first 'u' in line 5)" in said
    assert said.endswith(
        "; if these are categories, add --categorical a, or leave out with --drop a"
    )
    said = fit_complaint("a,b,y\n1,2,x\n\n1,-inf,z\ninf,5,z\n")
    assert "infinite values in columns 'a', 'b' (first in line 5); put a large number" in said
    said = fit_complaint("a,y\n1,x\n2,\n3,\n")
    assert "2 of 3 rows have no label in column 'y' (first in line 3)" in said


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("1,5", "; if the comma is the decimal point, add --decimal ,"),
        ("1,500,000", "; if its parts are thousands, join them"),
        ("1,500.25", "; if its parts are thousands, join them"),
        ("1.500.000", "; if its parts are thousands, join them"),
        ("Rome", ""),
    ],
)
def test_texts_that_may_be_numbers_get_a_hint(value, hint):
    said = fit_complaint(f'a,y\n1,x\n"{value}",z\n')
    assert f"(first {value!r} in line 3{hint}); if these are categories" in said


# -- kinds of columns ----------------------------------------------------------------------


def rows_of(text: str, **roles: object):
    names = {"target": "y", "weight_column": None, "drop": [], **roles}
    return read_table(_written(text), text_columns=roles.get("categorical", ())).training_rows(
        **names
    )


def test_columns_of_text_are_categories():
    rows = rows_of("town,n,y\nRome,1,x\n,2,z\nOslo,,z\n12a,4,x\n7,5,x\n")
    assert rows.X["town"].dtype == "category"
    assert rows.X["town"].tolist()[2:] == ["Oslo", "12a", "7"]
    assert rows.X["n"].tolist()[:2] == [1.0, 2.0]
    assert np.isnan(rows.X["n"].tolist()[2])
    assert rows.text_columns == ["town"]


@pytest.mark.parametrize("sign", ["?", "-", " ", "***", "."])
def test_a_sign_among_numbers_is_a_missing_value(sign):
    with pytest.warns(UserWarning, match="in column 'a' is taken for a missing value"):
        rows = rows_of(f'a,y\n1,x\n"{sign}",z\n2.5,z\n')
    assert rows.X["a"].tolist() == pytest.approx([1, np.nan, 2.5], nan_ok=True)


def test_truth_values_are_numbers_with_gaps():
    rows = rows_of("a,y\nTrue,x\n,z\nFalse,z\n")
    assert rows.X["a"].tolist() == pytest.approx([1, np.nan, 0], nan_ok=True)


def test_numbers_are_categories_if_the_user_says_so():
    text = "zip,n,y\n01234,1,x\n98765,2,z\n,3,z\n"
    assert rows_of(text).X["zip"].tolist()[:2] == [1234, 98765]
    rows = rows_of(text, categorical=["zip"])
    assert rows.X["zip"].tolist()[:2] == ["01234", "98765"]  # as they are written
    assert rows.X["zip"].dtype == "category"
    said = fit_complaint(text, "--categorical", "town")
    assert "has no column 'town' (--categorical)" in said
    assert "--target and --categorical must differ" in fit_complaint(text, "--categorical", "y")


@pytest.mark.parametrize("date", ["2020-01-31", "31.1.2020", "01/31/20", "2020-01-31T10:00:00Z"])
def test_dates_are_neither(date):
    text = f"when,y\n{date},x\n{date},z\n"
    said = fit_complaint(text)
    assert f"dates in column 'when' (first {date!r}); put a number in their place" in said
    assert said.endswith("--drop when")
    assert rows_of(text, categorical=["when"]).text_columns == ["when"]


def test_labels_that_are_no_classes_are_suspected():
    text = "a,y\n" + "".join(f"{i},{i}\n" for i in range(50))
    assert "column 'y' has 50 different labels in 50 rows, 0, 1, 2, 3, 4" in fit_complaint(text)
    assert len(set(rows_of("a,y\n" + "1,p\n2,q\n3,r\n").y)) == 3


def test_columns_are_read_as_the_model_knows_them():
    table = read_table(_written("a,b,c\n01,1,?\n,2,5\n"), text_columns=["a"])
    with pytest.warns(UserWarning, match=r"'\?' in column 'c' is taken for a missing value"):
        known = table.like({"c": False, "a": True})
    assert list(known) == ["c", "a"]
    assert known["a"].tolist()[0] == "01"
    assert known["c"].tolist() == pytest.approx([np.nan, 5], nan_ok=True)
    with pytest.raises(BadInput, match=r"not numbers in column .b. .*; the model needs numbers"):
        read_table(_written("b\nx\n")).like({"b": False})


def test_a_decimal_comma_too_many_is_suspected():
    said = fit_complaint("a;y\n1;x\n2.5;z\n", "--decimal", ",")
    assert "(first '2.5' in line 3; if the point is the decimal point, give --decimal .)" in said


@pytest.mark.parametrize("numbers", [range(4), range(1, 5), (7, 3, 12, 9)])
def test_the_index_of_a_data_frame_is_no_feature(numbers):
    FRAME.set_index(pd.Index(numbers)).to_csv("data.csv")
    with pytest.warns(UserWarning, match="the first column has no name and numbers the rows"):
        rows = read_table(Path("data.csv")).training_rows("y", None, [])
    assert list(rows.X.columns) == ["größe", "b"]
    fitted = run("fit", "data.csv", "--target", "y", "--out", "m.json")
    assert fitted.stderr.startswith("warning: data.csv: the first column has no name and numbers")
    fitted = run("fit", "data.csv", "--target", "y", "--out", "n.json", "--drop", "Unnamed: 0")
    assert fitted.stderr == ""
    assert Ensemble.load("m.json") == Ensemble.load("n.json")


def test_an_unnamed_column_of_values_is_a_feature():
    rows = read_table(_written(",y\n3,x\n3,z\n")).training_rows("y", None, [])
    assert list(rows.X.columns) == ["Unnamed: 0"]


def _written(text: str) -> Path:
    Path("data.csv").write_text(text)
    return Path("data.csv")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"PAR1\x15\x04", "it is a Parquet file; let its name end in .parquet"),
        (b"PK\x03\x04\x14\x00", "it is an Excel workbook"),
        (b"\x28\xb5\x2f\xfd\x00", "it is packed by zstd; unpack it first"),
        ("a,b\n1,2\n".encode("utf-16-le"), "if it is UTF-16 text, add --encoding utf-16-le"),
        ("a,b\n1,2\n".encode("utf-16-be"), "if it is UTF-16 text, add --encoding utf-16-be"),
        (b"a,y\n1,x\n2,z,\n", "line 3 has 3 fields, the line of names 2 (it ends in a separator)"),
        (b'a,y\n1,"x\n\n"\n2,"z\n3,x\n', "data.csv: a quote in line 5 is never closed; close it"),
        (b'a,y\n2,"z\n' + b"3,x\n" * 50_000, "a quote in line 2 is never closed"),
        (b"a,a\n1,2\n", "repeats the names of column 'a'"),
        (b"a;a\n1;2\n", "repeats the names of column 'a'"),
        (b" \n\n", "data.csv is empty"),
        (b"a,b\n", "has no rows"),
    ],
)
def test_what_is_no_table_is_named(content, said):
    assert said in complaint(content)


def test_a_model_for_predictions_gets_the_same_help():
    FRAME.to_csv("data.csv", index=False, sep=";", decimal=",", encoding="latin-1")
    said = error_of("predict", "model.json", "data.csv")
    assert "--encoding latin-1" in said
    predicted = run("predict", "model.json", "data.csv", "--encoding", "latin-1")
    assert pd.read_csv(io.StringIO(predicted.stdout))["label"].tolist() == ["y", "y", "n", "n"]
    said = error_of("predict", "model.json", "data.csv", "--encoding", "latin-1", "--sep", ",")
    assert "add --sep ';'" in said


@pytest.mark.parametrize(
    "name", ["base64", "rot13", "hex", "zlib", "idna", "punycode", "undefined"]
)
def test_encodings_that_are_not_of_files_are_refused(name):
    assert complaint("a,y\n1,x\n", encoding=name).endswith(f"got {name!r}")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--sep", "ab"), "--sep must be one character such as ';', or tab, got 'ab'"),
        (("--sep", "7"), "--sep must be one character"),
        (("--decimal", "'"), "--decimal must be '.' or ','"),
        (("--encoding", "latin-99"), "--encoding must be the name of one, such as utf-8"),
    ],
)
def test_options_are_checked_before_any_file_is_read(options, said):
    for command in (("fit", "none.csv", "--target", "y"), ("predict", "model.json", "none.csv")):
        assert said in error_of(*command, *options)


# -- standard input ----------------------------------------------------------------------


def test_standard_input_is_read():
    text = FRAME.to_csv(index=False, sep=";").encode("utf-16")
    command = [PROGRAM, "predict", "model.json", "-"]
    done = subprocess.run(command, input=text, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert [line.split(",")[0] for line in done.stdout.decode().split()[1:]] == list("yynn")
    done = subprocess.run(command, input=b"", capture_output=True)
    assert done.returncode == 2
    assert done.stderr == b"error: standard input is empty\n"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such pipes")
def test_a_named_pipe_is_read_once(folder):
    os.mkfifo("pipe")
    with subprocess.Popen([PROGRAM, "predict", "model.json", "pipe"], stdout=-1) as process:
        Path("pipe").write_bytes(FRAME.to_csv(index=False).encode())
        assert process.stdout is not None
        assert process.stdout.read().count(b"\n") == 5


# -- Parquet -----------------------------------------------------------------------------


@pytest.fixture
def parquet(folder):
    if find_spec("pyarrow") is None:
        sentence = "Parquet is tested with pyarrow, of the extra parquet"
        if os.environ.get("CI") == "true":
            pytest.fail(sentence)
        pytest.skip(sentence)
    FRAME.set_index(pd.Index([7, 8, 9, 10])).to_parquet("data.parquet")
    return Path("data.parquet")


def test_parquet_is_read_by_its_suffix(parquet):
    pd.testing.assert_frame_equal(read_table(parquet).frame, FRAME, check_dtype=False)
    assert run("predict", "model.json", parquet, "--target", "y").exit_code == 0
    assert "are for CSV files" in error_of("predict", "model.json", parquet, "--sep", ";")


def test_bad_parquet_is_named(parquet):
    FRAME.assign(b=["1", "x", "2", "3"]).to_parquet(parquet)
    said = error_of("fit", parquet, "--target", "y")
    assert "not numbers in column 'b' (first 'x' in row 2)" in said
    FRAME.assign(b=[1.0, 2.0, np.inf, 3.0]).to_parquet(parquet)
    assert "column 'b' (first in row 3)" in error_of("fit", parquet, "--target", "y")
    FRAME.assign(b=pd.date_range("2020", periods=4)).to_parquet(parquet)
    assert "dates in column 'b'" in error_of("fit", parquet, "--target", "y")
    Path("bad.parquet").write_bytes(b"PAR1 or not")
    assert "bad.parquet is not a Parquet file: " in error_of("fit", "bad.parquet", "--target", "y")
    said = error_of("fit", "none.parquet", "--target", "y")
    assert said == "cannot read none.parquet: no such file or directory"


def test_parquet_without_its_package_says_what_to_install(monkeypatch):
    monkeypatch.setattr(reading, "find_spec", lambda name: None)
    assert "no such file" in error_of("fit", "data.parquet", "--target", "y")
    Path("data.parquet").write_bytes(b"PAR1")
    said = error_of("fit", "data.parquet", "--target", "y")
    assert said == 'data.parquet needs pyarrow; install with pip install "totalqboost[parquet]"'
