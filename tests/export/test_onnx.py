"""ONNX models give the labels of the library in onnxruntime."""

from __future__ import annotations

import builtins
import json

import numpy as np
import onnx
import onnxruntime
import pytest
from ensembles import mixed_ensemble
from export_inputs import ensembles, labels_of, models, raw_columns, tricky_rows
from hypothesis import assume, given, settings

from totalqboost import Constant, Ensemble, Stump, export
from totalqboost.ensemble.answers import probabilities_of
from totalqboost.export.onnx import FIRST_OPSET, LAST_OPSET
from totalqboost.learners import CategorySet, Feature

TYPES = ["float32", "float64"]
NEWEST = min(LAST_OPSET, onnx.defs.onnx_opset_version())


def session_of(model, **options):
    text = export.to_onnx(model, **options).SerializeToString()
    quiet = onnxruntime.SessionOptions()
    quiet.intra_op_num_threads = 1
    quiet.log_severity_level = 3
    return onnxruntime.InferenceSession(text, quiet, providers=["CPUExecutionProvider"])


def columns_of(model, X, dtype):
    """The rows as one array per column that the model looks at."""
    given = raw_columns(model, X)
    found = {}
    for j in model.used_features:
        feature = model.features[j]
        values, labels = given[feature.name], feature.categories or ()
        if any(isinstance(label, str) for label in labels):
            array = np.array([str(v) if v is not None else "" for v in values], dtype=object)
        else:
            array = np.array([np.nan if v is None else v for v in values], dtype=dtype)
        found[feature.name] = array[:, None]
    return found


def outputs_of(session, given):
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, given), strict=True))


@pytest.mark.parametrize("input", TYPES)
@pytest.mark.parametrize("model", models())
def test_labels_are_those_of_the_library(model, input):
    X = tricky_rows(model, 100_000, input)
    found = outputs_of(session_of(model, input=input, columns=False), {"X": X})
    assert found["label"].tolist() == labels_of(model, X).tolist()
    scores = np.atleast_2d(model.scores(X).T).T
    np.testing.assert_allclose(
        found["scores"], scores, rtol=0, atol=1e-12 if "64" in input else 1e-5
    )
    expected = probabilities_of(model.scores(X), model.loss, model.n_classes)
    np.testing.assert_allclose(found["probabilities"], expected, rtol=0, atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(ensembles())
def test_codes_agree_whatever_the_model(model):
    for input in TYPES:
        X = tricky_rows(model, 60, input)
        found = outputs_of(session_of(model, input=input, columns=False), {"X": X})
        assert found["label"].tolist() == labels_of(model, X).tolist()
        expected = probabilities_of(model.scores(X), model.loss, model.n_classes)
        np.testing.assert_allclose(found["probabilities"], expected, rtol=0, atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(ensembles())
def test_columns_agree_whatever_the_model(model):
    assume("" not in model.feature_names)
    assume(not any({"", None} <= set(f.categories or ()) for f in model.features))
    assume(model.used_features)
    for input in TYPES:
        X = tricky_rows(model, 60, input)
        found = session_of(model, input=input, columns=True)
        labels = found.run(None, columns_of(model, X, input))[0]
        assert labels.tolist() == labels_of(model, X).tolist()


@pytest.mark.parametrize("input", TYPES)
def test_nan_is_the_missing_category_among_codes(input):
    feature = Feature("city", ("Bern", None, "Basel"))
    for codes in ((0, 1), (0,)):
        model = Ensemble((CategorySet(0, codes),), (1.0,), 0.0, (0, 1), (feature,))
        X = np.array([[1], [np.nan], [-1]], dtype=input)
        found = outputs_of(session_of(model, input=input, columns=False), {"X": X})
        assert found["label"].tolist() == [int(1 in codes)] * 2 + [0]


def test_categories_are_given_as_text_by_default():
    model = mixed_ensemble(4)
    session = session_of(model)
    assert {i.name: i.type for i in session.get_inputs()} == {
        "age": "tensor(float)",
        "city": "tensor(string)",
        "dose": "tensor(float)",
        "is_new": "tensor(float)",
    }
    X = tricky_rows(model, 200, "float32")
    labels = session.run(["label"], columns_of(model, X, "float32"))[0]
    assert labels.tolist() == labels_of(model, X).tolist()


@pytest.mark.parametrize("opset", range(FIRST_OPSET, NEWEST + 1))
def test_every_opset_is_read(opset):
    for model in models():
        for columns in (False, True):
            made = export.to_onnx(model, opset=opset, columns=columns)
            assert made.opset_import[0].version == opset
            session = session_of(model, opset=opset, columns=columns)
            X = tricky_rows(model, 20, "float32")
            given = columns_of(model, X, "float32") if columns else {"X": X}
            assert session.run(None, given)[0].tolist() == labels_of(model, X).tolist()


@pytest.mark.parametrize(
    ("classes", "kind"),
    [(("a", "b"), "string"), ((-1, 1), "int64"), ((False, True), "bool"), ((0.5, 1.5), "double")],
)
def test_labels_keep_their_type(classes, kind):
    session = session_of(Ensemble((Stump(0, 1.0),), (1.0,), 0.0, classes))
    assert session.get_outputs()[0].type == f"tensor({kind})"
    X = np.array([[0.0], [2.0]], dtype=np.float32)
    assert session.run(["label"], {"X": X})[0].tolist() == list(classes)


@pytest.mark.parametrize("columns", [False, True, None])
@pytest.mark.parametrize("learners", [(), (Constant(-1),)])
def test_a_model_of_constants_has_as_many_labels_as_rows(learners, columns):
    features = (Feature("city", ("Bern", "Basel")), Feature("age"))
    model = Ensemble(learners, [1.0] * len(learners), 0.25, ("no", "yes"), features)
    session = session_of(model, columns=columns)
    found = session.run(["label"], {"X": np.full((3, 2), np.nan, np.float32)})[0]
    assert found.tolist() == ["no" if learners else "yes"] * 3


def test_outputs_have_names_of_their_own():
    model = Ensemble((Stump(0, 1.0), Stump(1, 1.0)), (1.0, 0.5), features=("label", "/0"))
    session = session_of(model, columns=True)
    assert [o.name for o in session.get_outputs()] == ["label_", "scores", "probabilities"]
    given = {name: np.full((1, 1), 2.0, np.float32) for name in model.feature_names}
    assert session.run(["label_"], given)[0].tolist() == [1]


def test_probabilities_can_be_left_out_and_need_a_known_loss():
    model = Ensemble((Stump(0, 1.0),), (1.0,))
    names = [o.name for o in export.to_onnx(model, probabilities=False).graph.output]
    assert names == ["label", "scores"]
    other = Ensemble((Stump(0, 1.0),), (1.0,), loss="squareplus")
    assert [o.name for o in export.to_onnx(other).graph.output] == ["label", "scores"]


def test_the_model_says_what_it_is():
    made = export.to_onnx(mixed_ensemble(4))
    about = {entry.key: json.loads(entry.value) for entry in made.metadata_props}
    assert about["features"] == ["age", "city", "dose", "unused", "is_new"]
    assert about["classes"] == ["no", "yes"]
    assert made.doc_string.startswith("14 weak classifiers")
    assert made.SerializeToString() == export.to_onnx(mixed_ensemble(4)).SerializeToString()
    onnx.checker.check_model(made, full_check=True)


STUMP = Ensemble((Stump(0, 1.0),), (1.0,))


@pytest.mark.parametrize(
    ("model", "options", "sentence"),
    [
        (STUMP, {"opset": 12}, rf"opset must be from {FIRST_OPSET} to \d+, got 12"),
        (STUMP, {"opset": 999}, r"opset must be from .*, got 999"),
        (STUMP, {"opset": "18"}, r"opset must be from .*, got '18'"),
        (STUMP, {"input": "float16"}, "input must be one of float32, float64, got 'float16'"),
        (Ensemble((), ()), {}, "model must have columns"),
        (Ensemble((Stump(0, 1.0),), (1.0,), 0.0, ("a", 1)), {}, "all text or all numbers"),
        (Ensemble((Stump(0, 1.0),), (1.0,), 0.0, (1, 2**70)), {}, "must fit 64 bits"),
        (
            Ensemble((Stump(0, 1.0),), (1.0,), features=("",)),
            {"columns": True},
            "names of columns must not be empty",
        ),
        (
            Ensemble((CategorySet(0, (0,)),), (1.0,), features=(Feature("a", ("", None)),)),
            {},
            "categories of 'a' must differ .* use columns=False",
        ),
        (
            Ensemble((CategorySet(0, (0,)),), (1.0,), features=(Feature("a", (1, 1 + 1e-9)),)),
            {},
            "categories of 'a' must differ",
        ),
        (
            Ensemble((Stump(0, 1.0), Stump(1, 0.0)), (1.0, 1.0), features=("a", "a")),
            {"columns": True},
            "to_onnx with columns finds columns by name",
        ),
    ],
)
def test_what_onnx_cannot_say_is_refused(model, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        export.to_onnx(model, **options)


def test_a_missing_package_is_named(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] == "onnx":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r'pip install "totalqboost\[export\]"'):
        export.to_onnx(STUMP)
