"""``totalqboost export``: every form, files that are not lost, and wrong use in one sentence."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys

import numpy as np
import onnx
import pytest
from command_line import error_of, run
from ensembles import mixed_ensemble, mixed_frame

from totalqboost import Ensemble, Stump, export
from totalqboost.cli.export import FORMS, KNOWN_TO

TEXT = [form for form in FORMS if form != "onnx"]


@pytest.fixture
def model(tmp_path):
    mixed_ensemble(3).save(tmp_path / "model.json")
    return tmp_path / "model.json"


def expected(form, ensemble):
    made = getattr(export, f"to_{form}")(ensemble)
    return made if made.endswith("\n") else made + "\n"


@pytest.mark.parametrize("form", TEXT)
def test_text_goes_to_standard_output(model, form):
    result = run("export", model, "--to", form)
    assert result.exit_code == 0, result.output
    assert result.stdout == expected(form, Ensemble.load(model))
    assert result.stderr == ""
    assert os.listdir(model.parent) == ["model.json"]


@pytest.mark.parametrize("form", TEXT)
def test_text_goes_to_a_file(model, form):
    out = model.parent / "out.md"
    result = run("export", model, "--to", form, "--out", out)
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert result.stderr.startswith(f"Written to {out} (")
    assert out.read_text(encoding="utf-8") == expected(form, Ensemble.load(model))
    assert sorted(os.listdir(model.parent)) == ["model.json", "out.md"]


def test_onnx_goes_to_a_file_beside_the_model(model):
    assert run("export", model, "--to", "onnx", "--opset", "17").exit_code == 0
    made = onnx.load(model.with_suffix(".onnx"))
    assert made.opset_import[0].version == 17
    assert [i.name for i in made.graph.input] == ["age", "city", "dose", "is_new"]
    out = model.parent / "other.onnx"
    options = ("--matrix", "--input", "float64", "--output", out)
    assert run("export", model, "--to", "onnx", *options).exit_code == 0
    assert [i.name for i in onnx.load(out).graph.input] == ["X"]


def test_sql_can_be_run(model):
    query = run("export", model, "--to", "sql", "--table", "rows", "--dialect", "sqlite").stdout
    frame = mixed_frame(0, 40)
    base = sqlite3.connect(":memory:")
    frame.to_sql("rows", base, index=False)
    found = [row[-1] for row in base.execute(query)]
    assert found == Ensemble.load(model).predict(frame).tolist()
    score = run("export", model, "--to", "sql", "--value", "score", "--of", "no").stdout
    assert score == export.to_sql(Ensemble.load(model), "score", of="no") + "\n"


def test_labels_that_are_numbers_can_be_named(tmp_path):
    ensemble = Ensemble((Stump(0, 1.0),), (1.0,), 0.0, (0, 1), ("a",), "logistic")
    ensemble.save(tmp_path / "model.json")
    result = run(
        "export", tmp_path / "model.json", "--to", "sql", "--value", "probability", "--of", 0
    )
    assert result.stdout == export.to_sql(ensemble, "probability", of=0) + "\n"


@pytest.mark.parametrize(
    ("name", "start"), [("a.md", b"# "), ("a.html", b"<!DOC"), ("a.PNG", b"\x89PNG")]
)
def test_a_scorecard_is_what_its_ending_says(model, name, start):
    frame = mixed_frame(0, 50)
    frame.to_csv(model.parent / "rows.csv", index=False)
    options = ("--rows", model.parent / "rows.csv", "--points", 5, "--title", "My card")
    out = model.parent / name
    assert run("export", model, "--to", "scorecard", "--out", out, *options).exit_code == 0
    content = out.read_bytes()
    assert content.startswith(start)
    if name != "a.PNG":
        assert b"On 50 rows" in content
        assert b"My card" in content


def test_names_and_inputs_reach_the_exporters(model):
    python = run("export", model, "--to", "python", "--name", "risk").stdout
    assert python == export.to_python(Ensemble.load(model), "risk")
    options = {"name": "risk", "input": "float32", "optimize": "speed", "probabilities": True}
    words = ["--name", "risk", "--input", "float32", "--optimize", "speed", "--probabilities"]
    header = run("export", model, "--to", "c", *words).stdout
    assert header == export.to_c(Ensemble.load(model), **options)


def test_a_report_stands_beside_the_header(model, monkeypatch):
    from totalqboost.export import targets

    monkeypatch.setattr(targets, "report", lambda header, name: f"{name}: {len(header)}")
    header = export.to_c(Ensemble.load(model), name="risk")
    result = run("export", model, "--to", "c", "--name", "risk", "--report")
    assert (result.stdout, result.stderr) == (header, f"risk: {len(header)}\n")
    out = model.parent / "risk.h"
    result = run("export", model, "--to", "c", "--name", "risk", "--report", "--out", out)
    assert result.stdout == f"risk: {len(header)}\n"


def test_an_existing_file_is_kept_unless_told(model):
    out = model.parent / "model.h"
    out.write_text("mine")
    sentence = error_of("export", model, "--to", "python", "--out", out)
    assert sentence == f"{out} exists already; add --overwrite to replace it"
    assert out.read_text() == "mine"
    for flag in ("--overwrite", "--force"):
        out.write_text("mine")
        assert run("export", model, "--to", "python", "--out", out, flag).exit_code == 0
        assert out.read_text(encoding="utf-8") != "mine"
    sentence = error_of("export", model, "--to", "json", "--out", model, "--overwrite")
    assert sentence == f"cannot write {model}: it is the input"
    (model.parent / "model.onnx").write_text("mine")
    assert "model.onnx exists already" in error_of("export", model, "--to", "onnx")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--to", "pmml"], "--to must be one of c, onnx, sql, python, json, scorecard, got 'pmml'"),
        (["--to", "onnx", "--opset", 3], "--opset must be from 13 to "),
        (["--to", "onnx", "--input", "int8"], "--input must be one of float32, float64"),
        (["--to", "c", "--name", "a b"], "--name must be letters, digits and _"),
        (["--to", "python", "--name", "for"], "--name must not be a word of the language"),
        (["--to", "sql", "--dialect", "x"], "--dialect must be one of ansi, sqlite, duckdb"),
        (["--to", "sql", "--value", "x"], "--value must be one of label, score, probability"),
        (["--to", "sql", "--of", "x"], "--of must be one of 'no', 'yes', got 'x'"),
        (["--to", "scorecard", "--points", 0], "--points must be None or from 1 to 1000"),
        (["--to", "scorecard", "--out", "a.pdf"], "--out of a scorecard must end in .md, .html"),
        (["--to", "json", "--out", "no/folder.json"], "there is no folder no"),
        (["--to", "scorecard", "--rows", "none.csv"], "cannot read none.csv"),
    ],
)
def test_wrong_use_is_one_sentence_and_no_file(model, words, sentence, monkeypatch):
    monkeypatch.chdir(model.parent)
    assert sentence in error_of("export", model, *words)
    assert os.listdir(model.parent) == ["model.json"]


VALUES = {"--probabilities": [], "--report": [], "--matrix": []}


@pytest.mark.parametrize("option", KNOWN_TO)
def test_an_option_of_another_form_is_refused(model, option):
    other = next(form for form in FORMS if form not in KNOWN_TO[option])
    sentence = error_of("export", model, "--to", other, option, *VALUES.get(option, ["7"]))
    assert (
        sentence == f"{option} is for --to {' and '.join(KNOWN_TO[option])}, not for --to {other}"
    )


def test_a_file_that_is_no_model_is_refused(tmp_path):
    (tmp_path / "model.json").write_text("{}")
    assert "cannot be read as a model" in error_of(
        "export", tmp_path / "model.json", "--to", "json"
    )


def test_text_does_not_depend_on_the_locale(tmp_path):
    model = Ensemble((Stump(0, 1.0),), (1.0,), 0.0, ("größe", "☃"), ("größe",))
    model.save(tmp_path / "model.json")
    code = "from totalqboost.cli import main; main()"
    words = ["export", str(tmp_path / "model.json"), "--to", "scorecard"]
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1", "LC_ALL": "C"}
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode("utf-8") == export.to_scorecard(model)


def test_help_teaches():
    text = run("export", "--help").output
    assert all(f"\n  {form} " in text for form in FORMS)
    assert "totalqboost export model.json --to c --out model.h --report" in text
    assert np.all([option in text for option in KNOWN_TO])
