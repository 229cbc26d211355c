"""fit, frontier and predict on many Parquet files: what they give for one, and what they refuse."""

from __future__ import annotations

import builtins
import sys

import pandas as pd
import pytest
from cluster_data import parts, table
from command_line import error_of, interrupted, run

from totalqboost import Ensemble
from totalqboost.boosting import scores
from totalqboost.cluster import connect, oracle
from totalqboost.cluster.connect import ClusterError, connected

# The command fit, which makes a file when the search has come some way.
STOPPED = """
import contextlib, pathlib
from totalqboost.cli import main
import totalqboost.cli.fit as fit

said = []

def say(text):
    said.append(text)
    if len(said) == 6:
        pathlib.Path({}).touch()

@contextlib.contextmanager
def live_line(*arguments):
    yield say

fit.live_line = live_line
main()
"""
SMALL = ("--target", "y", "--max-learners", 2)


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory):
    """Tables in one file and in four, one of them without rows."""
    folder = tmp_path_factory.mktemp("tables")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (folder / "parts").mkdir()
        X, y = table()
        whole = X.assign(y=y, weight=X.index % 3, id=X.index)
        whole.to_parquet("whole.parquet")
        whole.to_csv("whole.csv", index=False)
        for number, part in enumerate([*parts(whole, 3), whole[:0]]):
            part.to_parquet(f"parts/{number}.parquet")
        yield folder


@pytest.fixture(scope="module")
def client():
    with connected(workers=2) as client:
        yield client


def fitted(out, *arguments):
    result = run("fit", *arguments, "--out", out, "--overwrite")
    assert result.exit_code == 0, result.output
    return result


def said_of(result):
    return [line for line in result.stdout.splitlines() if "error" in line]


def test_a_folder_gives_the_model_and_the_errors_of_one_file(place):
    more = ("--drop", "id", "--weight-column", "weight", "--cv", 2)
    one = fitted("one.json", "whole.parquet", *SMALL, *more)
    many = fitted("many.json", "parts", *SMALL, *more)
    assert said_of(many) == said_of(one)
    assert Ensemble.load("many.json") == Ensemble.load("one.json")


def test_a_pattern_and_a_scheduler_give_the_model_of_one_file(client):
    more = ("--drop", "weight", "--drop", "id", "--test-size", 0.3, "--categorical", "size")
    one = fitted("one.json", "whole.parquet", *SMALL, *more)
    address = client.scheduler.address
    many = fitted("many.json", "parts/*.parquet", *SMALL, *more, "--scheduler", address)
    assert "cluster of 2 workers; watch it at http://127.0.0.1:" in many.stderr
    assert said_of(many) == said_of(one)
    assert Ensemble.load("many.json").learners == Ensemble.load("one.json").learners


def test_a_frontier_of_a_folder_is_that_of_one_file(place):
    for data in ("whole.parquet", "parts"):
        more = ("--drop", "id", "--drop", "weight", "--cv", 2, "--quiet")
        result = run("frontier", data, *SMALL, *more, "--out", f"sizes_{data[:5]}.csv")
        assert result.exit_code == 0, result.output
    one, many = pd.read_csv("sizes_whole.csv"), pd.read_csv("sizes_parts.csv")
    pd.testing.assert_frame_equal(many, one, rtol=1e-6)


def test_the_page_of_a_folder_is_written(place):
    more = ("--drop", "id", "--drop", "weight", "--valid", "whole.parquet")
    result = run("frontier", "parts", *SMALL, *more, "--out", "page.html", "--model", "best.json")
    assert result.exit_code == 0, result.output
    assert "measured on the 240 rows of whole.parquet" in " ".join(result.stdout.split())
    assert Ensemble.load("best.json").n_learners > 0


def test_predictions_are_one_csv_or_parquet_parts(place):
    fitted("model.json", "whole.parquet", *SMALL, "--drop", "id")
    more = ("--proba", "--target", "y")
    one = run("predict", "model.json", "whole.parquet", *more, "--out", "one.csv")
    many = run("predict", "model.json", "parts", *more, "--out", "many.csv")
    assert many.exit_code == 0, many.output
    assert many.stderr == one.stderr.replace("one.csv", "many.csv")
    assert (place / "many.csv").read_text() == (place / "one.csv").read_text()
    assert (
        run("predict", "model.json", "parts").stdout
        == run("predict", "model.json", "whole.parquet").stdout
    )
    result = run("predict", "model.json", "parts", *more, "--out", "answers")
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in (place / "answers").iterdir()) == [
        f"part-0000{number}.parquet" for number in range(3)
    ]
    pd.testing.assert_frame_equal(pd.read_parquet("answers"), pd.read_csv("one.csv"))
    assert "add --overwrite" in error_of("predict", "model.json", "parts", "--out", "answers")
    (place / "answers" / "mine.txt").write_text("do not lose me")
    again = ("predict", "model.json", "parts", "--out", "answers", "--overwrite")
    assert "holds other files" in error_of(*again)


def test_workers_here_predict_too(client):
    fitted("model.json", "whole.parquet", *SMALL, "--drop", "id")
    address = client.scheduler.address
    result = run("predict", "model.json", "parts", "--scheduler", address)
    assert result.stdout == run("predict", "model.json", "whole.parquet").stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("none/*.parquet", *SMALL), "no Parquet file is there: none/*.parquet"),
        (("parts", "--target", "z"), "parts has no column 'z' (--target); its columns are 'size'"),
        (("parts", *SMALL, "--drop", "z"), "parts has no column 'z' (--drop)"),
        (("parts", *SMALL, "--drop", "y"), "--target and --drop must differ, got 'y' for both"),
        (("parts", *SMALL, "--jobs", 2), "--jobs is for one file in memory"),
        (("parts", *SMALL, "--sep", ";"), "--sep, --decimal and --encoding are for CSV files"),
        (("whole.csv", *SMALL, "--workers", 2), "--workers and --scheduler read Parquet files"),
        (("-", *SMALL, "--workers", 2), "--workers and --scheduler read Parquet files"),
        (("parts", "--target", "id"), "column 'id' has 240 different labels in 240 rows"),
        (("parts", *SMALL, "--feature-cost", "z=1"), "--feature-cost: no feature is called 'z'"),
        (("parts", *SMALL, "--monotone", "kind=+1"), "column 'kind' holds categories"),
        (
            ("parts", *SMALL, "--workers", 2, "--scheduler", "tcp://127.0.0.1:1"),
            "--scheduler has workers of its own; leave out --workers",
        ),
    ],
)
def test_what_cannot_be_is_a_sentence(arguments, sentence):
    assert sentence in error_of("fit", *arguments, "--out", "new.json")


def test_a_scheduler_that_does_not_answer_is_a_sentence(monkeypatch):
    monkeypatch.setattr(connect, "TIMEOUT", 0.5)
    for command in (("fit",), ("frontier",), ("predict", "model.json")):
        if command == ("predict", "model.json"):
            fitted("model.json", "whole.parquet", *SMALL)
            more = ()
        else:
            more = SMALL
        said = error_of(*command, "parts", *more, "--scheduler", "tcp://127.0.0.1:1")
        assert "the scheduler tcp://127.0.0.1:1 cannot be reached" in said


def test_bad_values_in_a_part_are_told_with_the_files(place):
    (place / "bad").mkdir()
    X, y = table()
    X.assign(y=y, age=float("inf")).to_parquet("bad/0.parquet")
    said = error_of("fit", "bad", *SMALL, "--out", "new.json")
    assert said.startswith("bad (y is column 'y'): ")
    assert "'age'" in said


def test_a_model_that_needs_other_columns_is_a_sentence(place):
    fitted("model.json", "whole.parquet", *SMALL, "--drop", "id")
    (place / "other").mkdir()
    pd.DataFrame({"other": [1.0]}).to_parquet("other/0.parquet")
    assert "(needed by the model)" in error_of("predict", "model.json", "other")


def test_without_dask_the_extra_is_named(monkeypatch):
    whole = builtins.__import__

    def without(name, *rest):
        if name.startswith(("dask", "distributed")):
            raise ImportError(f"No module named {name!r}")
        return whole(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    assert 'pip install "totalqboost[dask]"' in error_of("fit", "parts", *SMALL)


def test_what_was_found_before_a_cluster_is_lost_is_saved(monkeypatch, place):
    from totalqboost.cluster.rows import ClusterRows

    asked, whole = [], ClusterRows.slopes

    def slopes(self, point):
        asked.append(point)
        if len(asked) == 4:
            raise ClusterError("the scheduler is lost")
        return whole(self, point)

    monkeypatch.setattr(ClusterRows, "slopes", slopes)
    monkeypatch.setattr(oracle, "SCORE_ROWS", 100)  # else so few rows are searched on the driver
    monkeypatch.setattr(scores, "SCORE_ROWS", 100)
    said = error_of("fit", "parts", *SMALL, "--drop", "id", "--out", "lost.json")
    assert said.startswith("the scheduler is lost; the ensemble so far, ")
    assert Ensemble.load("lost.json").n_learners >= 1


def test_ctrl_c_saves_the_ensemble_so_far(place):
    X, y = table(4000)
    (place / "large").mkdir()
    for number, part in enumerate(parts(X.assign(y=y))):
        part.to_parquet(place / f"large/{number}.parquet")
    stop = place / "stop.txt"
    code = STOPPED.format(repr(str(stop)))
    command = [sys.executable, "-c", code, "fit", "large", "--target", "y", "--out", "stop.json"]
    status, _, errors = interrupted([*command, "--penalty", 0.0001], stop.exists)
    assert status == 130, errors
    assert "Interrupted after a search of sizes" in errors.splitlines()[-1]
    assert "Traceback" not in errors
    assert Ensemble.load("stop.json") is not None


def test_a_pattern_without_quotes_is_noticed(place):
    said = error_of("fit", "parts/0.parquet", "parts/1.parquet", "--target", "y")
    assert "put a pattern of files in quotes" in said
    assert "quotes" not in error_of("fit", "whole.csv", "more.csv", "--target", "y")


def test_files_of_other_columns_are_refused(place):
    (place / "others").mkdir()
    whole = pd.read_parquet("whole.parquet")
    whole.to_parquet("others/0.parquet")
    whole.drop(columns="age").to_parquet("others/1.parquet")
    said = error_of("fit", "others", *SMALL, "--out", "no.json")
    assert "does not have the columns of the others" in said
