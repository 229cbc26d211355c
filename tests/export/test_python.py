"""Python modules that need nothing give the labels of the library."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from ensembles import mixed_ensemble, mixed_frame
from export_inputs import ensembles, labels_of, models, raw_columns, tricky_rows
from hypothesis import given, settings
from pandas._libs.parsers import STR_NA_VALUES

from totalqboost import Ensemble, Stump, export
from totalqboost.ensemble.answers import probabilities_of
from totalqboost.export.python import GAPS
from totalqboost.learners import CategorySet, Feature


def module_of(model, name="predict"):
    text = export.to_python(model, name)
    namespace = {"__name__": "exported"}
    exec(compile(text, "exported.py", "exec"), namespace)
    return namespace


def rows_of(model, X):
    return list(zip(*raw_columns(model, X).values(), strict=True))


@pytest.mark.parametrize("model", models())
def test_labels_are_those_of_the_library(model):
    X = tricky_rows(model, 100_000)
    predict = module_of(model)["predict"]
    assert [predict(row) for row in rows_of(model, X)] == labels_of(model, X).tolist()


@settings(max_examples=80, deadline=None)
@given(ensembles())
def test_labels_agree_whatever_the_model(model):
    X = tricky_rows(model, 100)
    module = module_of(model)
    rows = rows_of(model, X)
    assert [module["predict"](row) for row in rows] == labels_of(model, X).tolist()
    named = [dict(zip(model.feature_names, row, strict=True)) for row in rows]
    scores = np.array([module["predict_scores"](row) for row in named])
    np.testing.assert_array_equal(scores, model.scores(X))  # sums of dyadic numbers are exact
    expected = probabilities_of(model.scores(X), model.loss, model.n_classes)
    found = [module["predict_proba"](row) for row in rows]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_rows_of_a_frame_are_read_as_the_library_reads_them(n_classes):
    model, frame = mixed_ensemble(3, n_classes), mixed_frame(5)
    predict = module_of(model)["predict"]
    expected = model.predict(frame).tolist()
    assert [predict(row) for row in frame.to_dict("records")] == expected
    assert [predict(row) for row in frame.itertuples(index=False)] == expected


def test_a_number_and_its_spelling_are_one_category():
    features = (Feature("a", (1, 2.5, "7", "x")),)
    model = Ensemble((CategorySet(0, (0, 2)),), (1.0,), 0.0, ("no", "yes"), features)
    values = [1, 1.0, "1", "1.0", 2.5, "2.5", 7, 7.0, "7", "x", "y", None, float("nan"), "nan"]
    frame = pd.DataFrame({"a": pd.Series(values, dtype=object)})
    predict = module_of(model)["predict"]
    assert [predict([value]) for value in values] == model.predict(frame).tolist()


def test_a_loss_of_another_name_has_no_probabilities():
    module = module_of(Ensemble((Stump(0, 1.0),), (1.0,), loss="squareplus"))
    assert "predict_proba" not in module
    assert module["predict"]([2.0]) == 1


def test_rows_of_another_length_are_refused():
    model = Ensemble((Stump(0, 1.0),), (1.0,), features=("a", "b"))
    with pytest.raises(ValueError, match="row must have 2 values, got 1"):
        module_of(model)["predict"]([1.0])


def test_functions_have_the_name_that_is_asked_for():
    module = module_of(Ensemble((Stump(0, 1.0),), (1.0,)), "risk")
    assert module["risk"]([2.0]) == 1
    assert module["risk_scores"]([2.0]) == 1.0
    for name in ("math", "1x", "for", "_values", "FEATURES", "int", "float", "len", "hasattr"):
        with pytest.raises(ValueError, match="name must "):
            export.to_python(Ensemble((), ()), name)


def run(folder, model, csv, name="predict"):
    """Run a module as a program, without site-packages."""
    (folder / "model.py").write_text(export.to_python(model, name), encoding="utf-8")
    command = [sys.executable, "-I", "-S", folder / "model.py"]
    return subprocess.run(command, input=csv, capture_output=True)


AGE = Ensemble((Stump(0, 1.5, 1, True),), (1.0,), 0.0, ("no", "yes"), ("age", "b"))


@pytest.mark.parametrize(
    ("csv", "labels"),
    [
        (b"age,b\n2,x\nNA,3\n,3\n?,3\n1,3\n", "yes yes yes yes no"),
        (b"\xef\xbb\xbfage,b\r\n2,1\r\n", "yes"),
        (b"b;age\n2;1\n1;2\n", "no yes"),
        (b"b\tage\nx\tTrue\n", "no"),
    ],
)
def test_tables_are_read_as_people_have_them(tmp_path, csv, labels):
    done = run(tmp_path, AGE, csv, "row")  # a name that the module uses itself
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().split() == labels.split()


@pytest.mark.parametrize(
    ("csv", "sentence"),
    [
        (b"age,b\n2,1\nold,1\n", "line 3: 'old' in column 'age' is no number"),
        (b"age;b\n1,5;1\n", "line 2: '1,5' in column 'age' is no number"),
        (b"age,b\n1_0,1\n", "line 2: '1_0' in column 'age' is no number"),
        (b"years,b\n1,1\n", "the line of names has no column 'age'"),
        (b"", "the line of names has no column 'age'"),
        (b"age,b\n1,1,1\n", "line 2 has more fields than the line of names"),
        (b"age,b\n\xff,1\n", "'utf-8' codec can't decode byte 0xff in position 6: invalid"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path, csv, sentence):
    done = run(tmp_path, AGE, csv)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().startswith(f"error: {sentence}")
    assert done.stderr.count(b"\n") == 1


def test_gaps_are_those_of_pandas():
    assert set(GAPS) == STR_NA_VALUES


def test_the_module_runs_alone(tmp_path):
    model, frame = mixed_ensemble(3), mixed_frame(6, 20)
    frame["is_new"] = frame["is_new"].astype(int)
    done = run(tmp_path, model, frame.to_csv(index=False).encode())
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().split() == model.predict(frame).tolist()
