"""The files that the library writes are what docs/formats.md and its schemas promise."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import run
from jsonschema import Draft202012Validator, ValidationError

from totalqboost import CascadeClassifier, MasterProblem, TotalQBoostClassifier, save_problem
from totalqboost.datasets import make_rare_event
from totalqboost.experiments.rows import FIELDS, REQUIRED, STRATEGIES

SCHEMAS = Path(__file__).parents[1] / "docs" / "schemas"


def schema(name: str) -> dict:
    content = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(content)
    return content


def check(name: str, content: object) -> None:
    Draft202012Validator(schema(name)).validate(content)


@pytest.fixture
def problem():
    A = np.where(np.random.default_rng(0).random((6, 30)) < 0.6, 1, -1)
    reads = np.eye(6, dtype=bool) & (np.arange(6) > 0)
    return MasterProblem(
        A, nu=1e-3, lam=0.01, cost=[0, 1, 1, 1, 2, 1], reads=reads, feature_price=[0.01] * 6
    )


def test_saved_problem_and_its_answers_follow_their_schemas(problem, tmp_path):
    save_problem(tmp_path / "problem.json", problem)
    check("problem", json.loads((tmp_path / "problem.json").read_text(encoding="utf-8")))
    out = tmp_path / "answers.json"
    run("solve", str(tmp_path / "problem.json"), "--solver", "local,exact", "--out", str(out))
    check("solutions", json.loads(out.read_text(encoding="utf-8")))


def test_misspelt_field_of_a_problem_breaks_the_schema():
    content = {"format": "totalqboost-problem", "schema_version": 1, "A": ["+-"], "nu": 0, "lam": 0}
    check("problem", content)
    with pytest.raises(ValidationError):
        check("problem", content | {"max_learner": 2})


def test_saved_cascade_follows_its_schema(tmp_path):
    X, y = make_rare_event(4000, positive_rate=0.1, seed=0, n_features=6)
    base = TotalQBoostClassifier(max_learners=3, class_weight="balanced")
    CascadeClassifier(base, min_recall=0.9).fit(X, y).save(tmp_path / "detector.json")
    check("cascade", json.loads((tmp_path / "detector.json").read_text(encoding="utf-8")))


def test_run_follows_the_schemas_of_rows_and_configuration(tmp_path):
    out = tmp_path / "run"
    done = run(
        *("reproduce", "--datasets", "flare solar", "--strategies", "B,E", "--max-rounds", "5"),
        *("--penalties", "3", "--jobs", "1", "--out", str(out)),
    )
    assert done.exit_code == 0, done.output
    check("configuration", json.loads((out / "config.json").read_text(encoding="utf-8")))
    lines = (out / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    assert lines
    for line in lines:
        check("rows", json.loads(line))


def test_schema_of_rows_names_what_the_reader_knows():
    content = schema("rows")
    assert set(content["properties"]) == set(FIELDS)
    assert set(content["required"]) == set(REQUIRED)
    assert set(content["properties"]["strategy"]["enum"]) == set(STRATEGIES)
