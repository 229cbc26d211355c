"""``totalqboost frontier``: what it writes, chooses and says, and what Ctrl-C leaves."""

from __future__ import annotations

import io
import os
import pty
import re
import signal
import subprocess
import threading
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
    assert "The frontier is in frontier.html; the chosen ensemble in model.json." in result.stdout


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


def test_the_command_on_the_page_trains_the_same_ensemble():
    options = ("--valid", "valid.csv", "--model", "m.json", "--drop", "x3")
    assert run(*FRONTIER, *options).exit_code == 0
    chosen = Ensemble.load("m.json")
    page = Path("frontier.html").read_text(encoding="utf-8")
    pattern = rf'"totalqboost (fit [^"]* --max-learners {chosen.n_learners} [^"]*)"'
    (words,) = re.findall(pattern, page)
    assert run(*words.split(), "--out", "same.json").exit_code == 0
    assert Ensemble.load("same.json").learners == chosen.learners
    np.testing.assert_allclose(Ensemble.load("same.json").weights, chosen.weights, rtol=1e-4)


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
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
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
