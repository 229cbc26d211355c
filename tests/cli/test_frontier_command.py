"""``totalqboost frontier``: what it writes, chooses and says, and what Ctrl-C leaves."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import PROGRAM, error_of, run

from totalqboost import Ensemble, datasets
from totalqboost import frontier as find_frontier
from totalqboost.cli import frontier as command
from totalqboost.cli import honest
from totalqboost.solving import Interrupted

FRONTIER = ("frontier", "data.csv", "--target", "y", "--max-learners", 4)


def table(n_rows: int, seed: int = 0) -> pd.DataFrame:
    X, y = datasets.make_twonorm(n_rows, seed=seed)
    names = [f"x{j}" for j in range(X.shape[1])]
    return pd.DataFrame(X.round(3), columns=names).assign(y=np.where(y > 0, "yes", "no"))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty working directory with rows to train on and to measure on."""
    monkeypatch.chdir(tmp_path)
    table(120).to_csv("data.csv", index=False)
    table(80, seed=1).to_csv("valid.csv", index=False)
    return tmp_path


def as_folds(y: np.ndarray, n_folds: int, seed: int = 0):
    return [(np.flatnonzero(~m), np.flatnonzero(m)) for m in honest.folds(y, n_folds, seed)]


def test_page_model_and_what_is_printed_agree():
    result = run(*FRONTIER, "--cv", 3, "--model", "model.json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    page = Path("frontier.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "by 3-fold cross-validation" in page
    assert "measured by 3-fold cross-validation" in " ".join(result.stdout.split())
    frame = table(120)
    X, y = frame.drop(columns="y"), frame["y"].to_numpy()
    front = find_frontier(X, y, max_learners=4, cv=as_folds(y, 3))
    best = front.best(rule="paired")
    assert Ensemble.load("model.json") == best.ensemble
    (marked,) = [line for line in result.stdout.splitlines() if re.match(r"│ +\* ", line)]
    cells = [cell.strip("* ") for cell in marked.split("│")[1:-1]]
    assert cells[0] == str(best.n_learners)
    assert cells[1] == f"{100 * best.train_error:.1f} %"
    assert cells[2] == f"{100 * best.valid_error:.1f} % ± {100 * best.valid_error_se:.1f}"
    assert cells[3] == f"{best.valid_log_loss:.3f} ± {best.valid_log_loss_se:.3f}"
    assert result.stdout.endswith(
        "The frontier is in frontier.html.\nThe chosen ensemble is in model.json.\n"
    )


def test_numbers_and_pictures_by_the_suffix():
    assert run(*FRONTIER, "--valid", "valid.csv", "--out", "f.csv", "-q").output == ""
    numbers = pd.read_csv("f.csv")
    assert numbers["n_learners"].tolist() == [0, 1, 2, 3, 4]
    frame, valid = table(120), table(80, seed=1)
    front = find_frontier(
        frame.drop(columns="y"), frame["y"], valid.drop(columns="y"), valid["y"], max_learners=4
    )
    np.testing.assert_allclose(numbers["valid_error"], [point.valid_error for point in front])
    for suffix, beginning in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        out = Path(f"picture{suffix}")
        assert run(*FRONTIER, "--valid", "valid.csv", "--out", out, "-q").exit_code == 0
        assert out.read_bytes().startswith(beginning)


@pytest.mark.parametrize("rule", ["paired", "1se", "min", "ric"])
def test_rules_choose_the_size(rule):
    options = ("--valid", "valid.csv", "--rule", rule, "--model", "m.json", "--max-learners", 8)
    result = run(*FRONTIER, *options)
    assert result.exit_code == 0, result.output
    frame, valid = table(120), table(80, seed=1)
    front = find_frontier(
        frame.drop(columns="y"), frame["y"], valid.drop(columns="y"), valid["y"], max_learners=8
    )
    assert Ensemble.load("m.json") == front.best(rule=rule).ensemble
    assert f"* is chosen: {command.RULES[rule]}." in result.stdout


@pytest.mark.parametrize("how", [("--cv", 3, "--seed", 4), ("--valid", "valid.csv")])
def test_the_command_on_the_page_saves_the_same_ensemble(how):
    options = (*how, "--drop", "x3", "--l1-penalty", 0.05)
    assert run(*FRONTIER, *options).exit_code == 0
    page = Path("frontier.html").read_text(encoding="utf-8")
    found = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    for size in (2, 4):
        (entry,) = [entry for entry in found["sizes"] if entry["n"] == size]
        words = shlex.split(entry["command"])[1:]
        assert run(*words, "--overwrite").exit_code == 0
        saved = Ensemble.load("model.json")
        assert [float(f"{w:.5g}") for w in saved.weights] == [
            w[3] for w in entry["ensemble"]["learners"]
        ]
    assert Path("frontier.html").read_text(encoding="utf-8") == page


def test_a_size_is_chosen_by_the_user():
    options = ("--valid", "valid.csv", "--size", 3)
    result = run(*FRONTIER, *options, "--model", "m.json")
    assert result.exit_code == 0, result.output
    assert Ensemble.load("m.json").n_learners == 3
    assert "* is chosen: the size asked for." in result.stdout
    assert "The chosen ensemble is in m.json." in result.stdout
    assert not Path("frontier.html").exists()
    for out in ("f.html", "f.png"):
        assert run(*FRONTIER, *options, "--out", out).exit_code == 0
    assert "The size asked for: size 3" in Path("f.html").read_text(encoding="utf-8")


def test_a_size_that_is_no_better_is_not_there():
    frame = pd.DataFrame({"x": [0, 1, 0, 1] * 5, "y": list("abab") * 5})
    frame.to_csv("data.csv", index=False)
    said = error_of(*FRONTIER, "--valid", "data.csv", "--size", 4, "--model", "m.json")
    assert said.startswith("--size: there is no ensemble of 4 learners; sizes are [0, 1")


def test_weights_count_on_validation_rows():
    valid = table(80, seed=1).assign(w=np.arange(80) % 3)
    valid.to_csv("valid.csv", index=False)
    table(120).assign(w=1).to_csv("data.csv", index=False)
    options = ("--valid", "valid.csv", "--weight-column", "w", "--size", 3, "--model", "m.json")
    result = run(*FRONTIER, *options, "--out", "f.csv")
    assert result.exit_code == 0, result.output
    X = valid.drop(columns=["y", "w"]).to_numpy()
    wrong = Ensemble.load("m.json").predict(X) != valid["y"].to_numpy()
    error = pd.read_csv("f.csv")["valid_error"][3]
    assert error == pytest.approx(np.average(wrong, weights=valid["w"]))
    assert error != pytest.approx(np.mean(wrong))
    valid.drop(columns="w").to_csv("valid.csv", index=False)
    assert "valid.csv has no column 'w' (--weight-column)" in error_of(*FRONTIER, *options)


def test_tables_are_read_as_by_fit():
    table(120).to_csv("data.csv", index=False, sep=";", decimal=",")
    text = table(80, seed=1).to_csv(index=False, sep="\t").encode("utf-16")
    command = [PROGRAM, *map(str, FRONTIER), "--valid", "-", "--out", "f.csv"]
    done = subprocess.run(command, input=text, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert len(pd.read_csv("f.csv")) == 5
    assert b"on the 80 rows of standard input" in b" ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--out", "f.txt"), "--out must end in .html, .png, .svg, .pdf, .csv, got 'f.txt'"),
        (("--out", "no/f.html"), "there is no folder no"),
        (("--out", "data.csv"), "it is the input"),
        (("--model", "valid.csv", "--valid", "valid.csv"), "it is the input"),
        (("--model", "frontier.html"), "--out and --model must differ"),
        (("--size", 5), "--size must be at most --max-learners 4, got 5"),
        (("--rule", "best"), "--rule must be one of paired, 1se, min, ric, got 'best'"),
        (("--cv", 3, "--valid", "valid.csv"), "--cv and --valid are alternatives"),
        (("--cv", 100), "--cv must be at most "),
        (("--valid", "none.csv"), "cannot read none.csv"),
        (("--valid", "bad.csv"), "bad.csv has no column 'x0'"),
        (("--valid", "labels.csv"), "labels.csv: column 'y' has labels 'maybe', but those of"),
        (("--target", "z"), "data.csv has no column 'z' (--target)"),
        (("--l1-penalty", "bic"), "--l1-penalty must be a number >= 0 or auto, got bic"),
        (("--loss", "hinge"), "--loss must be one of"),
        (("--jobs", 0), "--jobs"),
        (("--model", "old.json"), "old.json exists already; add --overwrite"),
        (("--out", "old.csv"), "old.csv exists already; add --overwrite"),
    ],
)
def test_bad_input_is_named_before_the_work_and_existing_files_last(
    folder, monkeypatch, options, complaint
):
    monkeypatch.setattr(command, "find_frontier", None)
    Path("bad.csv").write_text("a,y\n1,yes\n")
    table(5).assign(y="maybe").to_csv("labels.csv", index=False)
    for name in ("old.json", "old.csv"):
        Path(name).write_text("precious")
    if "exists" not in complaint:
        Path("frontier.html").write_text("old")
    files = {path: path.read_bytes() for path in folder.iterdir()}
    assert complaint in error_of(*FRONTIER, *options)
    assert files == {path: path.read_bytes() for path in folder.iterdir()}


def test_overwrite_replaces_both_files():
    for name in ("frontier.html", "m.json"):
        Path(name).write_text("old")
    options = ("--valid", "valid.csv", "--model", "m.json")
    assert "exists already" in error_of(*FRONTIER, *options)
    assert run(*FRONTIER, *options, "--overwrite").exit_code == 0
    assert Ensemble.load("m.json").n_learners > 0


# -- Ctrl-C ------------------------------------------------------------------------------


def test_interrupt_without_a_result_says_so(monkeypatch):
    for stop in (KeyboardInterrupt(), Interrupted(None)):

        def interrupt(*args, stop=stop, **extra):
            raise stop

        monkeypatch.setattr(command, "find_frontier", interrupt)
        result = run(*FRONTIER)
        assert result.exit_code == 130
        assert "nothing was saved" in result.stderr
        assert not Path("frontier.html").exists()


def test_interrupt_keeps_what_was_found(monkeypatch):
    frame = table(120)
    found = find_frontier(frame.drop(columns="y"), frame["y"], max_learners=2)

    def interrupt(*args, **extra):
        raise Interrupted(found)

    monkeypatch.setattr(command, "find_frontier", interrupt)
    result = run(*FRONTIER, "--model", "m.json")
    assert result.exit_code == 130
    said = "Interrupted; what was found until then, sizes up to 2, is in frontier.html."
    assert said in result.stderr
    assert "The search was interrupted" in Path("frontier.html").read_text(encoding="utf-8")
    assert Ensemble.load("m.json") in [point.ensemble for point in found]


def test_interrupt_before_the_first_learner_saves_nothing(monkeypatch):
    found = find_frontier(table(120).drop(columns="y"), table(120)["y"], max_learners=1)

    def interrupt(*args, **extra):
        raise Interrupted(replace(found, points=found.points[:1]))

    monkeypatch.setattr(command, "find_frontier", interrupt)
    result = run(*FRONTIER)
    assert result.exit_code == 130
    assert "nothing was saved" in result.stderr
    assert not Path("frontier.html").exists()


def test_interrupt_in_the_last_search_keeps_the_larger_frontier(monkeypatch):
    def find(*args, **settings):
        found = find_frontier(*args, **settings)
        if "cv" in settings:
            raise Interrupted(replace(found, points=found.points[:3]))
        return found

    monkeypatch.setattr(command, "find_frontier", find)
    result = run(*FRONTIER)
    assert "sizes up to 4, is in frontier.html" in result.stderr
    page = Path("frontier.html").read_text(encoding="utf-8")
    assert "totalqboost frontier data.csv" not in page  # the whole search finds other ensembles


def test_interrupt_between_folds_keeps_the_frontier_of_all_rows(monkeypatch):
    def find(*args, **settings):
        if "cv" in settings:
            raise KeyboardInterrupt
        return find_frontier(*args, **settings)

    monkeypatch.setattr(command, "find_frontier", find)
    result = run(*FRONTIER, "--out", "f.csv")
    assert result.exit_code == 130
    numbers = pd.read_csv("f.csv")
    assert numbers["n_learners"].tolist() == [0, 1, 2, 3, 4]
    assert numbers["valid_error"].isna().all()
    assert "(training rows)" in result.stdout


def test_ctrl_c_on_a_terminal_keeps_the_sizes_so_far():
    X, y = datasets.make_ringnorm(20_000)
    pd.DataFrame(X).add_prefix("x").assign(y=y).to_csv("data.csv", index=False)
    terminal, its_end = pty.openpty()
    options = ("--max-learners", "200", "--valid", "data.csv", "--out", "f.csv")
    process = subprocess.Popen(
        [PROGRAM, "frontier", "data.csv", "--target", "y", *options], stderr=its_end
    )
    os.close(its_end)
    watchdog = threading.Timer(200, process.kill)
    watchdog.start()
    shown, is_sent = io.BytesIO(), False
    try:
        while chunk := _read(terminal):
            shown.write(chunk)
            if not is_sent and re.search(rb"[3-9] weak classifiers", shown.getvalue()):
                process.send_signal(signal.SIGINT)
                is_sent = True
        assert process.wait() == 130, shown.getvalue()
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()
        os.close(terminal)
    assert b"Interrupted; what was found until then" in b" ".join(shown.getvalue().split())
    assert 3 <= pd.read_csv("f.csv")["n_learners"].max() < 200


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # what Linux answers at the end
        return b""
