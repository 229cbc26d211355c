"""Saved detectors on the command line: predict, info and export; what is not for them is said."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from c_programs import compiled
from c_programs import run as run_program
from command_line import error_of, run

from totalqboost import Cascade, Ensemble, Stump
from totalqboost.cascade import Guarantee, Stage
from totalqboost.ensemble import Training
from totalqboost.learners import CategorySet, Feature

NAMES = ("age", "dose", "size")
FIRST = Ensemble(
    (Stump(0, 40.0), Stump(1, 1.5, -1)),
    (0.7, 0.25),
    -0.1,
    ("healthy", "ill"),
    NAMES,
    "logistic",
    training=Training(900, 3, objective=0.5, bound=0.45),
)
SECOND = replace(
    FIRST, learners=(Stump(2, 3.0), Stump(0, 60.0)), weights=(0.5, 0.3), training=Training(400, 3)
)
PROMISE = Guarantee(0.9, 0.95, 100, 5)
SOFT = Cascade((Stage(FIRST, (-0.5, 0.25)),), PROMISE)
STAGED = Cascade((Stage(FIRST, (-np.inf, -0.1)), Stage(SECOND, (-np.inf, 0.1))), PROMISE)


def frame(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(20, 80, n), rng.uniform(0, 3, n), rng.uniform(0, 6, n)])
    return pd.DataFrame(X.astype(np.float32).astype(float), columns=list(NAMES))


@pytest.fixture(params=["soft", "staged"])
def detector(request, tmp_path):
    own = SOFT if request.param == "soft" else STAGED
    own.save(tmp_path / "detector.json")
    return own, tmp_path / "detector.json"


def test_predict_writes_labels_margins_and_costs(detector, tmp_path):
    own, path = detector
    rows = frame().assign(other="x")[["size", "other", "dose", "age"]]
    rows.to_csv(tmp_path / "rows.csv", index=False)
    result = run("predict", path, tmp_path / "rows.csv", "--out", tmp_path / "out.csv")
    assert result.exit_code == 0, result.output
    found = pd.read_csv(tmp_path / "out.csv")
    assert list(found) == ["label", "margin", "learners"]
    margins, n_evaluated = own.evaluate(frame())
    assert found["label"].tolist() == own.predict(frame()).tolist()
    np.testing.assert_allclose(found["margin"], margins)
    assert found["learners"].tolist() == n_evaluated.tolist()
    assert set(found["label"]) == {"healthy", "ill"}


def test_true_labels_give_recall_and_false_positives(detector, tmp_path):
    own, path = detector
    found = own.predict(frame())
    truth = found.copy()
    ill, healthy = np.flatnonzero(found == "ill"), np.flatnonzero(found == "healthy")
    truth[ill[:2]], truth[healthy[:1]] = "healthy", "ill"
    frame().assign(state=truth).to_csv(tmp_path / "rows.csv", index=False)
    said = run("predict", path, tmp_path / "rows.csv", "--target", "state").stderr
    assert "Error 1.0 % (3 of 300 rows)." in said
    assert f"(1 of {len(ill) - 1} positives missed)" in said
    assert f"(2 of {len(healthy) + 1}), at most" in said
    assert "with confidence 0.95" in said


def test_probabilities_are_refused(detector, tmp_path):
    frame().to_csv(tmp_path / "rows.csv", index=False)
    sentence = error_of("predict", detector[1], tmp_path / "rows.csv", "--proba")
    assert "--proba is for models, and this is a detector" in sentence


def test_info_shows_thresholds_and_the_promise(detector):
    own, path = detector
    said = run("info", path).stdout
    assert "'ill' is detected" in said
    assert "at least 0.9 with confidence 0.95" in said
    assert "3 used of 3" in said if own is STAGED else "2 used of 3" in said
    assert "rejected below" in said
    assert ("Stage 2 of 2" in said) == (own is STAGED)
    assert "900 rows, 3 features" in said
    assert ("400 rows, 3 features" in said) == (own is STAGED)
    for least in ("-0.5", "+0.25") if own is SOFT else ("–", "-0.1", "+0.1"):
        assert least in said


@pytest.mark.parametrize("aim", ["size", "speed"])
def test_the_header_detects_the_same(detector, aim, tmp_path):
    own, path = detector
    out = tmp_path / "found.h"
    result = run("export", path, "--to", "c", "--optimize", aim, "--name", "model", "--out", out)
    assert result.exit_code == 0, result.output
    header = out.read_text()
    assert header == own.to_c("model", optimize=aim)
    assert f" * recall: {PROMISE}\n" in header
    assert " * training data: 900 rows, 3 features\n" in header
    X = frame(4000).to_numpy(np.float32)
    labels = np.frombuffer(run_program(compiled(tmp_path, header, 3), X), dtype=np.uint8)
    np.testing.assert_array_equal(labels == 1, own.predict(X) == "ill")


def test_stages_of_integers_share_one_scale(tmp_path):
    """A feature with missing values in one stage only must not move the scale of the other."""
    gaps = (Feature("age"), Feature("dose", has_missing=True), Feature("size"))
    own = Cascade(
        tuple(replace(s, ensemble=replace(s.ensemble, features=gaps)) for s in STAGED.stages)
    )
    own.save(tmp_path / "detector.json")
    rows = frame(2000)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    options = ("--input", "int16", "--rows", tmp_path / "rows.csv", "--name", "model")
    header = run("export", tmp_path / "detector.json", "--to", "c", *options).stdout
    before = (
        "int16_t q[3]; int ask(const float *x) { model_quantize(x, q); return model_predict(q); }"
    )
    program = compiled(tmp_path, header, 3, call="ask(x)", before=before)
    X = rows.to_numpy(np.float32)
    labels = np.frombuffer(run_program(program, X), dtype=np.uint8)
    differ = (labels == 1) != (own.predict(X) == "ill")
    assert differ.mean() < 0.002  # inputs are rounded to 16 bits
    ages = re.findall(r"_place\(from\[0\], (.*)\);", header)
    assert len(ages) == 2
    assert len(set(ages)) == 1
    assert len(set(re.findall(r"q = (-\d+);", header))) == 2  # the least, and what is missing


def test_the_report_knows_detectors(detector):
    result = run("export", detector[1], "--to", "c", "--report")
    assert result.exit_code == 0, result.output
    assert "detector_predict(const float *x)" in result.stdout
    assert "Cortex-M0" in result.stderr


def test_json_is_the_file(detector, tmp_path):
    assert run("export", detector[1], "--to", "json").stdout == detector[1].read_text()
    assert json.loads(detector[1].read_text())["guarantee"]["n_missed"] == 5


@pytest.mark.parametrize("form", ["onnx", "sql", "python", "scorecard"])
def test_other_forms_say_what_is_possible(form, detector, tmp_path):
    sentence = error_of("export", detector[1], "--to", form, "--out", tmp_path / "out")
    assert f"--to {form} is for models, and this is a detector" in sentence
    assert "--to c and --to json keep them" in sentence
    assert not (tmp_path / "out").exists()


def test_wrong_options_name_themselves(detector):
    assert "--probabilities must not be given for a cascade" in error_of(
        "export", detector[1], "--to", "c", "--probabilities"
    )
    assert "--name must be letters" in error_of("export", detector[1], "--to", "c", "--name", "a b")


def test_a_damaged_detector_is_named(tmp_path):
    path = tmp_path / "detector.json"
    for change, complaint in (
        ({"stages": []}, "stages must be at least one, got none"),
        ({"schema_version": 9}, "schema_version 9 is not supported"),
        ({"guarantee": {"min_recall": 2}}, "guarantee: min_recall must be a number between 0"),
    ):
        path.write_text(json.dumps({**SOFT.to_dict(), **change}))
        assert complaint in error_of("info", path)


def test_categories_are_read_as_they_are_written(tmp_path):
    city = Feature("city", ("01", "2"))
    own = Ensemble((CategorySet(0, (0,)),), (1.0,), 0.0, (0, 1), (city,), "logistic")
    Cascade((Stage(own, (0.5,)),)).save(tmp_path / "detector.json")
    (tmp_path / "rows.csv").write_text("city\n01\n2\n3\n")
    said = run("predict", tmp_path / "detector.json", tmp_path / "rows.csv").stdout
    assert [line.split(",")[0] for line in said.splitlines()] == ["label", "1", "0", "0"]


# -- the promise -----------------------------------------------------------------------------


def test_the_promise_is_saved_and_does_not_count_in_comparisons(tmp_path):
    SOFT.save(tmp_path / "detector.json")
    assert Cascade.load(tmp_path / "detector.json").guarantee == PROMISE
    assert replace(SOFT, guarantee=None) == SOFT
    content = replace(SOFT, guarantee=None).to_dict()
    assert "guarantee" not in content
    assert Cascade.from_dict(content).guarantee is None


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ((1.0, 0.95, 100, 5), "min_recall must be a number between 0 and 1, got 1.0"),
        ((0.9, 0, 100, 5), "confidence must be a number between 0 and 1, got 0"),
        ((0.9, 0.9, -1, 5), "n_positives must be an integer >= 0, got -1"),
        ((0.9, 0.9, 4, 5), "n_missed must be at most 4, got 5"),
    ],
)
def test_a_wrong_promise_is_refused(given, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}"):
        Guarantee(*given)
