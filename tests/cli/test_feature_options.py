"""Options for features and classes: what is typed is what the estimator is told."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import error_of, run

from totalqboost import Ensemble, TotalQBoostClassifier, frontier

FIT = ("fit", "data.csv", "--target", "y", "--max-learners", 4)
FRONTIER = ("frontier", "data.csv", "--target", "y", "--max-learners", 4, "--valid", "data.csv")


def table(n_rows: int = 150) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 4)).round(2)
    score = X[:, 0] + X[:, 1] + 0.8 * X[:, 2] + 0.6 * rng.normal(size=n_rows)
    frame = pd.DataFrame(X, columns=["a", "b", "c=d", "e"])
    frame["city"] = rng.choice(["Bern", "Basel", "Chur"], n_rows)
    frame["kind"] = np.digitize(score, [-0.7, 0.7])
    return frame.assign(y=np.where(score > 0, "yes", "no"))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table().to_csv("data.csv", index=False)
    return tmp_path


TYPED = {
    "limit": (("--max-features", 2), {"max_features": 2}),
    "cost": (
        ("--feature-cost", "a=30", "--feature-cost", "c=d=2.5"),
        {"feature_costs": {"a": 30, "c=d": 2.5}},
    ),
    "all": (
        ("--feature-cost", "all=30", "--feature-cost", "a=0"),
        {"feature_costs": [0, 30, 30, 30, 30]},
    ),
    "monotone": (
        ("--monotone", "a=-1", "--monotone", "e=+1"),
        {"monotonic_cst": {"a": -1, "e": 1}},
    ),
    "bits": (("--bits", 4), {"n_bits": 4}),
}
every_option = pytest.mark.parametrize(("typed", "told"), TYPED.values(), ids=TYPED)


@every_option
def test_fit_hands_the_options_on(typed, told):
    result = run(*FIT, "--drop", "kind", *typed)
    assert result.exit_code == 0, result.output
    frame = table().drop(columns="kind")
    X, y = frame.drop(columns="y"), frame["y"]
    found = Ensemble.load("model.json")
    assert found == TotalQBoostClassifier(0, max_learners=4, **told).fit(X, y).ensemble_
    assert found != TotalQBoostClassifier(0, max_learners=4).fit(X, y).ensemble_


@every_option
def test_frontier_hands_the_options_on_and_repeats_them_on_the_page(typed, told):
    result = run(*FRONTIER, "--drop", "kind", "--size", 3, "--model", "m.json", *typed)
    assert result.exit_code == 0, result.output
    frame = table().drop(columns="kind")
    X, y = frame.drop(columns="y"), frame["y"]
    expected = frontier(X, y, X, y, max_learners=4, **told)[3].ensemble
    assert Ensemble.load("m.json") == expected
    assert run(*FRONTIER, "--drop", "kind", *typed).exit_code == 0
    page = Path("frontier.html").read_text(encoding="utf-8")
    found = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    (entry,) = [entry for entry in found["sizes"] if entry["n"] == 3]
    assert run(*shlex.split(entry["command"])[1:]).exit_code == 0
    assert Ensemble.load("model.json") == expected


@pytest.mark.parametrize("mode", ["joint", "per_class", "shared"])
def test_many_classes_have_the_weights_that_were_asked_for(mode):
    options = ("--target", "kind", "--drop", "y", "--max-learners", 3, "--multiclass", mode)
    assert run("fit", "data.csv", *options).exit_code == 0
    frame = table().drop(columns="y")
    clf = TotalQBoostClassifier(0, max_learners=3, multiclass=mode)
    assert (
        Ensemble.load("model.json") == clf.fit(frame.drop(columns="kind"), frame["kind"]).ensemble_
    )
    assert Ensemble.load("model.json").is_shared == (mode == "shared")


COMPLAINTS = [
    (("--feature-cost", "a"), "--feature-cost must be NAME=COST, got 'a'"),
    (("--feature-cost", "a=much"), "must be NAME=COST with a number >= 0, got 'much'"),
    (("--feature-cost", "a=-1"), "must be NAME=COST with a number >= 0, got '-1'"),
    (("--feature-cost", "a=nan"), "must be NAME=COST with a number >= 0, got 'nan'"),
    (("--feature-cost", "a=1", "--feature-cost", "a=2"), "a column once, got 'a' twice"),
    (("--feature-cost", "z=1"), "--feature-cost: no feature is called 'z'; they are 'a', 'b',"),
    (("--feature-cost", "y=1"), "--feature-cost: no feature is called 'y'; they are"),
    (("--drop", "a", "--monotone", "a=1"), "--monotone: no feature is called 'a'; they are 'b'"),
    (("--monotone", "a"), "--monotone must be NAME=+1 or -1, got 'a'"),
    (("--monotone", "a=2"), "--monotone must be NAME=+1 or NAME=-1, got '2'"),
    (("--monotone", "city=1"), "--monotone: column 'city' holds categories, which have no order"),
    (("--bits", "1"), "--bits"),
    (("--bits", "many"), "--bits"),
    (("--multiclass", "ovr"), "--multiclass must be one of joint, per_class, shared, got 'ovr'"),
]


@pytest.mark.parametrize(("typed", "said"), COMPLAINTS)
def test_what_cannot_be_is_said_in_one_sentence(typed, said):
    for command in (FIT, FRONTIER):
        assert said in error_of(*command, *typed)
    assert sorted(path.name for path in Path().iterdir()) == ["data.csv"]


def test_monotone_is_for_two_classes():
    said = error_of("fit", "data.csv", "--target", "kind", "--monotone", "a=1")
    assert "--monotone is for two classes, column 'kind' has 3" in said


def test_a_model_of_nothing_names_the_costs():
    result = run("fit", "data.csv", "--target", "y", "--feature-cost", "all=1e6")
    assert result.exit_code == 0, result.output
    assert "Try a lower --penalty or lower costs of features." in " ".join(result.stdout.split())
