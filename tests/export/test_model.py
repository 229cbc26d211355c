"""What can be exported, and what is refused in one sentence."""

from __future__ import annotations

import numpy as np
import pytest
from ensembles import mixed_ensemble
from export_inputs import NASTY, ensembles, models, tricky_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from totalqboost import (
    Cascade,
    CascadeClassifier,
    Constant,
    Ensemble,
    Stump,
    TotalQBoostClassifier,
    export,
)
from totalqboost.cascade import Stage
from totalqboost.export.model import (
    ascii_text,
    check_identifier,
    float32_below,
    one_line,
    sum_of,
    summary,
)
from totalqboost.learners import Both, CategorySet, Feature, Fitted, Missing

EXPORTERS = ["to_python", "to_sql", "to_onnx", "to_json", "to_scorecard"]


def test_a_fitted_classifier_stands_for_its_ensemble():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    clf = TotalQBoostClassifier(max_learners=2).fit(X, X[:, 0] > 0)
    assert export.exportable(clf) == export.exportable(clf.ensemble_)
    assert export.to_python(clf) == export.to_python(clf.ensemble_)


def test_what_is_no_model_is_refused():
    with pytest.raises(TypeError, match=r"got a TotalQBoostClassifier; call fit first$"):
        export.exportable(TotalQBoostClassifier())
    with pytest.raises(TypeError, match=r"must be an Ensemble or a fitted classifier .* a dict$"):
        export.exportable({})


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (Ensemble((Stump(0, np.inf),), (1.0,)), "thresholds must be finite .* 'x0'"),
        (Ensemble((Stump(0, np.nan),), (1.0,)), "thresholds must be finite"),
        (Ensemble((Fitted(0, None),), (1.0,)), "a Fitted learner cannot be exported"),
        (Ensemble((Both(Stump(0, 1.0), Constant()),), (1.0,)), "a Constant learner cannot"),
        (Ensemble((Stump(1, 0.0),), (1.0,), features=("a",)), "each of the 2 columns"),
        (Ensemble((), (), classes=(float("nan"), 1)), "classes must not contain NaN"),
        (Ensemble((), (), classes=((1, 2), 1)), "classes must be text or numbers"),
        (Ensemble((), (), classes=("a", "a")), "classes must be different"),
        (
            Ensemble((Stump(0, 1.0),), (1.0,), features=(Feature("a", ("x",)),)),
            "feature 'a' has categories, so a Stump cannot",
        ),
        (Ensemble((CategorySet(0, (0,)),), (1.0,)), "has numbers, so a CategorySet cannot"),
        (
            Ensemble((CategorySet(0, (3,)),), (1.0,), features=(Feature("a", ("x",)),)),
            "codes of feature 'a' must be from 0 to 0",
        ),
    ],
)
@pytest.mark.parametrize("name", EXPORTERS)
def test_what_cannot_be_exported_is_refused(name, model, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence) as caught:
        getattr(export, name)(model)
    assert "\n" not in str(caught.value)


def test_an_unknown_exporter_is_an_attribute_error():
    with pytest.raises(AttributeError, match="to_pmml"):
        export.to_pmml  # noqa: B018


@pytest.mark.parametrize("model", models())
def test_the_sum_is_that_of_the_library(model):
    X = tricky_rows(model, 2000)
    total = sum_of(export.exportable(model))
    scores = np.tile(np.array(total.intercept), (len(X), 1))
    for term in total.terms:
        scores += np.outer(term.condition.predict(X), term.values)
    np.testing.assert_allclose(scores.squeeze(), model.scores(X), rtol=0, atol=1e-14)


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(width=32, allow_nan=False))
def test_single_precision_is_never_on_the_other_side(threshold, x):
    cut = float32_below(threshold)
    with np.errstate(over="ignore"):
        above = np.nextafter(np.float32(cut), np.float32(np.inf))
    near = [np.float32(cut), above, np.float32(x)]
    for value in map(float, near):
        assert (value > cut) == (value > threshold)


@given(st.text())
def test_text_in_comments_stays_in_them(text):
    assert len(one_line(text).splitlines()) <= 1
    plain = ascii_text(text)
    assert plain.isascii()
    assert len(plain.splitlines()) <= 1
    assert "*/" not in plain
    assert "/*" not in plain
    assert "??" not in plain
    assert not plain.endswith("\\")


@settings(max_examples=30, deadline=None)
@given(ensembles())
def test_the_summary_is_a_table_of_lines(model):
    lines = summary(export.exportable(model))
    assert len(lines) <= 2 + 1 + model.n_learners
    assert all(len(line.splitlines()) <= 1 for line in lines)


@pytest.mark.parametrize("name", ["", "2nd", "a-b", "größe", "x y", "class", "a\n", None, "a;"])
def test_what_is_no_identifier_is_refused(name):
    with pytest.raises(ValueError, match=r"^name must "):
        check_identifier(name)


def test_equal_names_are_refused_where_they_matter():
    model = Ensemble((Stump(0, 0.0), Stump(1, 0.0)), (1.0, 2.0), features=("a", "a", "b", "b"))
    for name in ("to_python", "to_sql"):
        with pytest.raises(ValueError, match=f"{name} finds columns by name, .* got 'a' twice"):
            getattr(export, name)(model)
    export.to_python(Ensemble((Stump(2, 0.0),), (1.0,), features=("a", "a", "b")))


def test_names_and_labels_of_all_kinds_are_there():
    assert len(set(NASTY)) == len(NASTY)
    kinds = {type(h) for model in models() for h in model.learners}
    assert kinds == {Stump, Missing, CategorySet, Both, Constant}
    assert mixed_ensemble(0).features[0].has_missing


def test_a_search_stands_for_its_best_and_a_pipeline_is_sent_to_its_last_step():
    X = np.random.default_rng(0).normal(size=(60, 2))
    search = GridSearchCV(TotalQBoostClassifier(), {"max_learners": [2]}, cv=2)
    search.fit(X, X[:, 0] > 0)
    assert export.exportable(search) == export.exportable(search.best_estimator_)
    with pytest.raises(TypeError, match=r"got a Pipeline; give its last step, \[-1\]"):
        export.exportable(make_pipeline(StandardScaler(), search.best_estimator_))


@pytest.mark.parametrize("name", [*EXPORTERS, "to_c"])
def test_a_detector_is_sent_to_its_own_header(name):
    model = Ensemble((Stump(0, 0.0),), (1.0,), features=("a",))
    cascade = Cascade((Stage(model, (0.5,)),))
    detector = CascadeClassifier()
    detector.cascade_, detector.ensemble_ = cascade, model
    for one in (cascade, detector):
        with pytest.raises(TypeError, match=r"must not be a detector, .* use its own to_c"):
            getattr(export, name)(one)
