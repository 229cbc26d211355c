"""One SQL expression gives the labels of the library, in SQLite and in DuckDB."""

from __future__ import annotations

import re
import sqlite3

import duckdb
import numpy as np
import pandas as pd
import pytest
from export_inputs import NASTY, ensembles, labels_of, models, raw_columns, tricky_rows
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from totalqboost import Ensemble, Stump, export
from totalqboost.ensemble.answers import probabilities_of
from totalqboost.export.sql import _decimal, _dyadic, _is_easy
from totalqboost.learners import CategorySet, Feature, Missing


def kind_of(feature):
    labels = feature.categories
    return "VARCHAR" if labels and isinstance(labels[0], str) else "DOUBLE PRECISION"


class SQLite:
    """A table in SQLite."""

    dialect = "sqlite"

    def __init__(self, model, columns):
        self.base = sqlite3.connect(":memory:")
        kinds = [f"{quoted(f.name)} {kind_of(f)}" for f in model.features]
        self.base.execute(f"CREATE TABLE rows ({', '.join(kinds)})")
        marks = ", ".join("?" * len(kinds))
        self.base.executemany(
            f"INSERT INTO rows VALUES ({marks})", zip(*columns.values(), strict=True)
        )

    def values(self, expression, source="rows"):
        return [row[0] for row in self.base.execute(f"SELECT {expression} FROM {source}")]


class DuckDB:
    """A table in DuckDB; numbers that are missing are NaN in every second row, else NULL."""

    dialect = "duckdb"

    def __init__(self, model, columns):
        self.base = duckdb.connect()
        self.base.execute("SET preserve_insertion_order = true; SET threads = 1")
        kinds = [f"{quoted(f.name)} {kind_of(f)}" for f in model.features]
        self.base.execute(f"CREATE TABLE rows ({', '.join(kinds)}, place INTEGER)")
        own = {f"c{j}": array_of(columns[f.name], kind_of(f)) for j, f in enumerate(model.features)}
        n = len(next(iter(own.values())))
        arrays = {**own, "place": np.arange(n)}
        chosen = ", ".join(
            f"CASE WHEN {c} IS NULL AND place % 2 = 0 THEN CAST('NaN' AS DOUBLE) ELSE {c} END"
            if kind_of(f) != "VARCHAR"
            else f"CAST({c} AS VARCHAR)"
            for c, f in zip(own, model.features, strict=True)
        )
        self.base.register("arrays", pd.DataFrame(arrays))
        self.base.execute(f"INSERT INTO rows SELECT {chosen}, place FROM arrays")

    def values(self, expression, source="rows"):
        order = " ORDER BY place" if source == "rows" else ""
        found = self.base.execute(f"SELECT {expression} FROM {source}{order}").fetchall()
        return [row[0] for row in found]


def array_of(values, kind):
    if kind == "VARCHAR":
        return np.array(values, dtype=object)
    return np.array([np.nan if v is None else v for v in values], dtype=float)


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


BASES = [SQLite, DuckDB]


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("model", models())
def test_labels_are_those_of_the_library(model, base):
    X = tricky_rows(model, 100_000)
    table = base(model, raw_columns(model, X))
    expression = export.to_sql(model, dialect=base.dialect)
    assert table.values(expression) == labels_of(model, X).tolist()


@pytest.mark.parametrize("base", BASES)
@settings(max_examples=30, deadline=None)
@given(ensembles())
def test_all_outputs_agree_whatever_the_model(base, model):
    assume("" not in model.feature_names)
    X = tricky_rows(model, 60)
    table = base(model, raw_columns(model, X))
    assert table.values(export.to_sql(model, dialect=base.dialect)) == labels_of(model, X).tolist()
    scores = model.scores(X)
    both = scores if model.is_multiclass else np.column_stack([-scores, scores])
    probability = probabilities_of(scores, model.loss, model.n_classes)
    for k in {0, model.n_classes - 1}:
        given = {"of": model.classes[k], "dialect": base.dialect}
        found = table.values(export.to_sql(model, "score", **given))
        np.testing.assert_array_equal(found, both[:, k])  # sums of dyadic numbers are exact
        found = table.values(export.to_sql(model, "probability", **given))
        np.testing.assert_allclose(found, probability[:, k], rtol=0, atol=1e-12)


@pytest.mark.parametrize("base", BASES)
def test_the_standard_dialect_is_read_by_both(base):
    model = models()[0]
    X = tricky_rows(model, 500)
    X[:, [0, 2]] = np.nan_to_num(X[:, [0, 2]], nan=0.5)  # it has no NaN
    table = base(model, raw_columns(model, X))
    assert table.values(export.to_sql(model)) == labels_of(model, X).tolist()


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("name", [name for name in NASTY if name])
def test_a_query_quotes_its_table_and_columns(base, name):
    model = Ensemble((Stump(0, 1.5),), (1.0,), 0.0, NASTY[:2], (name,))
    table = base(model, {name: [1.0, 2.0]})
    table.base.execute(f"ALTER TABLE rows RENAME TO {quoted(name + '2')}")
    query = export.to_sql(model, table=name + "2", dialect=base.dialect)
    rows = table.base.execute(query).fetchall()
    assert [row[-1] for row in rows] == list(NASTY[:2])
    assert rows[0][0] == 1.0


def test_a_column_that_is_not_there_is_an_error_in_sqlite():
    model = Ensemble((Stump(0, 1.5),), (1.0,), features=("age",))
    base = sqlite3.connect(":memory:")
    base.execute("CREATE TABLE rows (height REAL)")
    with pytest.raises(sqlite3.OperationalError, match="no such column"):
        base.execute(export.to_sql(model, table="rows", dialect="sqlite"))


def test_columns_of_integers_text_and_enums_are_read():
    features = (Feature("n"), Feature("city", ("Bern", "Basel", None)), Feature("new", (0, 1)))
    stumps = (Stump(0, 1.0), CategorySet(1, (0, 2)), CategorySet(2, (1,)), Missing(0))
    model = Ensemble(stumps, (1.0, 2.0, 4.0, 8.0), features=features)
    base = duckdb.connect()
    base.execute("CREATE TYPE city AS ENUM ('Bern', 'Basel', 'Chur')")
    base.execute("CREATE TABLE rows (n INTEGER, city city, new BOOLEAN)")
    base.execute("INSERT INTO rows VALUES (1, 'Bern', true), (2, 'Chur', false), (NULL, NULL, 1)")
    score = export.to_sql(model, "score", dialect="duckdb")
    assert base.execute(f"SELECT {score} FROM rows").fetchall() == [(-3.0,), (-13.0,), (13.0,)]


@settings(max_examples=300, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_sqlite_reads_the_number_that_is_meant(x):
    text = _decimal(x) if _is_easy(x) else _dyadic(x)
    assert sqlite3.connect(":memory:").execute(f"SELECT {text}").fetchone()[0] == x


def test_numbers_are_written_so_that_sqlite_reads_them_exactly():
    rng = np.random.default_rng(0)
    base = sqlite3.connect(":memory:")
    many = rng.normal(size=(300, 100)).tolist()
    for numbers in many:
        found = base.execute(f"SELECT {', '.join(map(_decimal, numbers))}").fetchone()
        assert list(found) == numbers


@pytest.mark.parametrize(
    ("model", "options", "sentence"),
    [
        (Ensemble((), ()), {"dialect": "oracle"}, "dialect must be one of ansi, sqlite, duckdb"),
        (Ensemble((), ()), {"output": "odds"}, "output must be one of label, score, probability"),
        (Ensemble((), ()), {"output": "score", "of": 2}, r"of must be one of the classes \(-1, 1"),
        (Ensemble((), (), classes="abc"), {"output": "score"}, "of must be one of .* got None"),
        (Ensemble((), (), loss="mine"), {"output": "probability"}, "loss is one of .* 'mine'"),
        (
            Ensemble((), (), classes="abc"),
            {"output": "probability", "of": "a"},
            "loss is one of multinomial",
        ),
        (Ensemble((), (), classes=("a", 1)), {}, "classes must be all text or all numbers"),
        (Ensemble((), (), classes=(0, 2**60)), {}, r"classes must be below 2\*\*53"),
        (Ensemble((), (), classes=("a", "\0")), {}, "must not contain the character 0"),
        (Ensemble((), ()), {"table": ""}, "names in SQL must be text that is not empty"),
        (Ensemble((Stump(0, 1.0),), (1.0,), features=("",)), {}, "names in SQL must be text"),
        (
            Ensemble([Stump(0, float(t)) for t in range(901)], [1.0] * 901),
            {"dialect": "sqlite"},
            "SQLite takes at most 900 weak classifiers",
        ),
    ],
)
def test_what_sql_cannot_say_is_refused(model, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        export.to_sql(model, **options)


def test_the_largest_expression_for_sqlite_is_read():
    model = Ensemble([Stump(0, float(t)) for t in range(900)], [1.0] * 900)
    table = SQLite(export.exportable(model), {"x0": [-1.0, 500.5, None]})
    assert table.values(export.to_sql(model, "score", dialect="sqlite")) == [-900.0, 102.0, -900.0]


def test_labels_are_quoted_once():
    text = export.to_sql(Ensemble((), (), classes=("it's", "x")))
    assert re.search(r"'it''s'", text)
