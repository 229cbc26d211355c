"""The detector's experiment: rows that go on, counts that can be checked, and the command."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest
from command_line import error_of, run

from totalqboost.experiments import rows as experiment_rows
from totalqboost.experiments.glass import METHODS, GlassSettings, GlassTask, run_glass
from totalqboost.experiments.glass import run as run_module
from totalqboost.experiments.glass.bench import GlassBench, rare_events
from totalqboost.experiments.glass.methods import _stumps_of
from totalqboost.experiments.glass.run import STAGES, read_results
from totalqboost.experiments.glass.summary import change, changes, summary_of
from totalqboost.experiments.rows import RunError
from totalqboost.learners import Stump

SMALL = GlassSettings(
    n_features=70,
    n_train=1500,
    n_valid=2500,
    n_learners=4,
    stage_sizes=(1, 3),
    recalls=(0.8, 0.9),
    n_rows=6000,
    positive_rate=0.1,
)
TASKS = [GlassTask(0, 1, method) for method in [*METHODS, STAGES] if method != "LightGBM"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("glass")
    run_glass(folder, TASKS, SMALL)
    return folder


def test_every_method_gives_a_row_whose_counts_are_right(folder):
    rows = read_results(folder)
    assert [row["method"] for row in rows] == [task.method for task in TASKS]
    X, kinds = rare_events(SMALL, 0)
    fresh, valid = X[4000:], X[1500:4000][kinds[1500:4000] == 1]
    for row in rows[:-1]:
        assert row["n_learners"] <= 4
        at = row["at"]["0.9"]
        votes = [(j, t, w) for j, t, w in row["ensemble"]["stumps"]]

        def scores(table, votes=votes, b=row["ensemble"]["intercept"]):
            return b + sum(np.where(table[:, j] > t, w, -w) for j, t, w in votes)

        least = np.sort(scores(valid))[int(0.1 * len(valid))] - 1e-9
        found = scores(fresh) >= least
        assert at["empirical_false"] == found[kinds[4000:] == 0].sum()
        assert at["empirical_recall"] == pytest.approx(found[kinds[4000:] == 1].mean())
        assert at["bound_recall"] >= at["empirical_recall"]
        assert 1 <= at["soft_stumps"] <= 4
    assert set(rows[-1]["at"]) == {"0.9"}
    assert 1 <= rows[-1]["at"]["0.9"]["stages_stumps"] <= 4


def test_a_run_goes_on_where_it_was_cut(folder, tmp_path, monkeypatch):
    text = (folder / "glass.jsonl").read_text()
    first, *_ = text.splitlines(keepends=True)
    (tmp_path / "glass.jsonl").write_text(first + '{"seed": 0, "ki')
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    asked = []
    for name in METHODS:
        monkeypatch.setitem(METHODS, name, spy(name, METHODS[name], asked))
    run_glass(tmp_path, TASKS[:3], SMALL)
    assert asked == [task.method for task in TASKS[1:3]]
    for new, old in zip(read_results(tmp_path), read_results(folder)[:3], strict=True):
        assert new["at"] == old["at"]
    with pytest.raises(RunError, match="holds a run with n_features = 70, not 60"):
        run_glass(tmp_path, TASKS, GlassSettings(n_features=60))


def spy(name, method, asked):
    def call(bench, kind):
        asked.append(name)
        return method(bench, kind)

    return call


ROW = b'{"seed": 0, "kind": 1, "method": "CP", "n_learners": 2, "seconds": 1.5, "at": %s}'
COUNTS = (
    b'{"empirical_false": 3, "empirical_recall": 0.9, "bound_false": 4, "bound_recall": 0.9, '
    b'"soft_false": 4, "soft_recall": 0.9, "soft_stumps": 1.5, "n_negatives": 9}'
)
WHOLE = ROW % (b'{"0.9": %s}' % COUNTS)
STUMPS = b"[[4, 0.5, -1.0], [7, 1, 0.5]]"
ENSEMBLE = b', "ensemble": {"intercept": 0.25, "stumps": %s}}' % STUMPS


def test_a_row_that_is_whole_is_read(tmp_path):
    (tmp_path / "glass.jsonl").write_bytes(WHOLE + b"\n")
    assert read_results(tmp_path)[0]["n_learners"] == 2
    (tmp_path / "glass.jsonl").write_bytes(WHOLE[:-1] + ENSEMBLE + b'\n{"seed": 1, "ki')
    (row,) = read_results(tmp_path)  # what a crash cut off is left out
    assert len(row["ensemble"]["stumps"]) == 2


@pytest.mark.parametrize(
    "line",
    [
        b'{"seed": 0}',
        b"[1, 2]",
        b"\xff\xfe",
        b"[" * 100_000,
        ROW % b"[]",
        ROW % b'{"0.9": 1}',
        ROW % b'{"high": {}}',
        ROW % b"{}",
        ROW % b"null",
        ROW % b'{"%s": {}}' % (b"x" * 10_000),
        WHOLE.replace(b'"n_negatives"', b'"stages_false": 1, "n_negatives"'),
        ROW % b'{"0.9": {}}',
        WHOLE.replace(b'"0.9"', b'"nan"'),
        WHOLE.replace(b'"0.9"', b'"high"'),
        WHOLE.replace(b'"soft_stumps": 1.5, ', b""),
        WHOLE.replace(b'false": 3', b'false": 1e999'),
        WHOLE.replace(b'learners": 2', b'learners": "x"'),
        WHOLE.replace(b'seconds": 1.5', b'seconds": null'),
        WHOLE.replace(b'kind": 1', b'kind": [1]'),
        WHOLE.replace(b'seed": 0', b'seed": 0, "seed": 0'),
        WHOLE.replace(b"CP", b"magic"),
        WHOLE.replace(b'learners": 2', b'learners": 1%s' % (b"0" * 400)),
        WHOLE.replace(b'kind": 1', b'kind": 1%s' % (b"0" * 400)),
        WHOLE.replace(b'kind": 1', b'kind": 10'),
        WHOLE.replace(b'seed": 0', b'seed": 10000000000'),
        WHOLE.replace(b'recall": 0.9', b'recall": 1.5'),
        WHOLE.replace(b'"0.9"', b'"0.90"'),
        WHOLE.replace(b'"at"', b'"colour": 1, "at"'),
        WHOLE.replace(b'"CP"', b'"stages"'),
        WHOLE[:-1] + b', "ensemble": %s}' % (b"[%s[]]" % (b"[]," * 1000)),
        WHOLE[:-1] + ENSEMBLE.replace(b"[4, 0.5, -1.0]", b"[]"),
        WHOLE[:-1] + ENSEMBLE.replace(b"[4, 0.5, -1.0]", b"[4.5, 0.5, -1.0]"),
        WHOLE[:-1] + ENSEMBLE.replace(b"-1.0", b"1e999"),
        WHOLE[:-1] + ENSEMBLE.replace(b"[4, 0.5, -1.0], ", b""),
        WHOLE[:-1] + ENSEMBLE.replace(b"0.25", b"null"),
    ],
)
def test_a_damaged_row_is_named(tmp_path, line):
    (tmp_path / "glass.jsonl").write_bytes(line + b"\n")
    with pytest.raises(RunError, match=r"glass\.jsonl, line 1: ") as caught:
        read_results(tmp_path)
    assert len(str(caught.value)) < len(str(tmp_path)) + 300


def test_a_row_that_stands_twice_is_refused(tmp_path):
    other = WHOLE.replace(b'seed": 0', b'seed": 1')
    (tmp_path / "glass.jsonl").write_bytes(b"\n".join([WHOLE, other, WHOLE, other, b""]))
    with pytest.raises(RunError, match=r"jsonl, line 3: the same as line 1; delete one"):
        read_results(tmp_path)


def test_a_file_of_very_many_values_is_refused_before_its_lines_are_read(tmp_path, monkeypatch):
    (tmp_path / "glass.jsonl").write_bytes(WHOLE + b"\n" + b"[]," * 1000 + b"\n")
    monkeypatch.setattr(experiment_rows, "MOST_VALUES", 500)
    with pytest.raises(RunError, match=r"glass\.jsonl must hold at most 500 values"):
        read_results(tmp_path)
    monkeypatch.setattr(experiment_rows, "MOST_LINE", len(WHOLE) - 1)
    (tmp_path / "glass.jsonl").write_bytes(WHOLE + b"\n")
    with pytest.raises(RunError, match=r"glass\.jsonl, line 1: must have at most \d+ bytes"):
        read_results(tmp_path)


def test_a_lock_that_is_deleted_ends_the_run(folder, tmp_path, monkeypatch):
    rows = {(row["seed"], row["method"]): row for row in read_results(folder)}
    monkeypatch.setattr(run_module, "_work", lambda _, path, task: rows[task.seed, task.method])

    def delete(task, n_done, n_tasks):
        (tmp_path / ".lock").unlink(missing_ok=True)

    with pytest.raises(RunError, match=r"lock was deleted, so another process may write too"):
        run_glass(tmp_path, TASKS[:3], SMALL, on_task=delete)
    assert len(read_results(tmp_path)) == 1
    assert len(run_glass(tmp_path, [*TASKS[:3], *TASKS[:3]], SMALL)) == 3  # each of them once


@pytest.mark.filterwarnings("error")
def test_methods_at_other_recalls_have_empty_cells(folder):
    first, second, *_ = read_results(folder)
    second = {**second, "at": {"0.5": second["at"]["0.9"]}}
    text = summary_of([first, second])[0].text()
    assert "nan" not in text
    assert "false at 0.5" in text


def test_rows_are_coded_once_for_all_labels():
    bench = GlassBench(SMALL, 0)
    y = bench.labels(1)[0]
    oracle = bench.dictionary.prepare(bench.X_train, y)
    anew = bench.dictionary.stumps.prepare(bench.X_train, y)
    u = np.random.default_rng(0).random(len(y))
    assert oracle.best(u)[0].learner == anew.best(u)[0].learner
    assert oracle.groups[0].codes is bench.dictionary.prepare(bench.X_train, -y).groups[0].codes


def test_trees_of_one_split_become_stumps():
    def tree(feature, threshold, low, high):
        leaves = {"left_child": {"leaf_value": low}, "right_child": {"leaf_value": high}}
        split = {"split_feature": feature, "threshold": threshold, **leaves}
        return {"tree_structure": split}

    trees = [tree(0, 1.5, -1.0, 3.0), tree(1, 0.5, 1.0, 0.0), tree(0, 1.5, 0.0, 1.0)]
    trees += [{"tree_structure": {"leaf_value": 0.25}}, tree(2, 9.0, 0.0, 1.0)]
    ensemble = _stumps_of(trees, 2)
    assert ensemble.learners == (Stump(0, 1.5, 1), Stump(1, 0.5, -1))
    assert ensemble.weights == (2.5, 0.5)
    np.testing.assert_allclose(
        ensemble.decision_function([[1.0, 0.0, 0.0], [2.0, 1.0, 0.0]]), [0.25, 4.25]
    )


def test_changes_are_paired_over_kinds():
    found, low, high = change([80, 60, 70], [100, 75, 87.5], [0, 1, 2])
    assert found == pytest.approx(20.0, abs=0.2)
    assert low <= found <= high
    half = change([50, 200], [100, 100], [4, 4])  # seeds of one kind: no interval
    assert half[0] == pytest.approx(0.0, abs=0.5)
    assert np.isnan(half[1])


def test_the_summary_tells_all_methods(folder):
    rows = read_results(folder)
    text = "\n".join(table.text() for table in summary_of(rows))
    for task in TASKS:
        assert task.method in text
    assert changes(rows, "UCG", "LightGBM", "0.9", "empirical") is None


def test_the_command_runs_and_bad_input_is_one_sentence(tmp_path):
    options = ("--synthetic", 6000, "--quick", "--methods", "ucg,AdaBoost", "--out", tmp_path)
    sizes = ("--train", 2000, "--valid", 2000)
    result = run("reproduce", "glass", *options, *sizes)
    assert result.exit_code == 0, result.output
    assert "Fewer false positives" in result.stdout
    assert len((tmp_path / "glass.jsonl").read_text().splitlines()) == 2
    assert json.loads((tmp_path / "config.json").read_text())["settings"]["n_rows"] == 6000
    assert "--kinds must be numbers from 0 to 9" in error_of("reproduce", "glass", "--kinds", "x")
    assert "--methods must be among" in error_of("reproduce", "glass", "--methods", "svm")
    nowhere = ("--images", tmp_path / "nowhere", "--out", tmp_path / "new")
    assert "apt install" in error_of("reproduce", "glass", *nowhere)
    assert "must leave fresh rows" in error_of("reproduce", "glass", "--synthetic", 100)
    assert "must leave fresh rows" in error_of("reproduce", "glass", "--quick", "--synthetic", 3000)


def test_lightgbm_is_left_out_where_it_is_not_installed(monkeypatch):
    from totalqboost.cli import glass

    monkeypatch.setattr(glass, "find_spec", lambda name: None)
    assert "LightGBM" not in glass._methods("all")
    said = error_of("reproduce", "glass", "--methods", "LightGBM")
    assert said.startswith("--methods: it is not installed; pip install")


def test_the_benchmark_says_which_rows_it_took(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    glass = importlib.import_module("glass")
    own = {"n_features": 200, "n_train": 2000, "n_valid": 2000, "n_rows": 6000}
    content = {"configuration": own, "results": {"tables": []}}
    text = glass.render(content)
    assert "all others of 6,000 made-up ones; no image was looked at." in text
    own["n_rows"] = 0
    assert "all others of 70,000. The paper reports 15 to 45 %" in glass.render(content)
