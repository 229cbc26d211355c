"""``totalqboost reproduce`` and ``report`` on runs: bad input, and Ctrl-C that loses nothing."""

from __future__ import annotations

import gzip
import json
import os
import re
import resource
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from command_line import PROGRAM, error_of, interrupted, run

from totalqboost.experiments import runner
from totalqboost.experiments.lock import locked
from totalqboost.experiments.rows import read_rows

# A second or two of work: time enough to be interrupted in.
SIZE = ("--splits", 2, "--penalties", 6, "--max-rounds", 25, "--jobs", 1)
DONE = b'{"dataset": "thyroid", "split": 0, "strategy": "B", "rows": %s}\n'
COMMAND = ("reproduce", "--datasets", "thyroid,flare_solar", "--strategies", "B,C,E", *SIZE)


def content(folder: Path) -> list[str]:
    """Return the rows of a run without what differs from run to run."""
    rows = [row.to_dict() for row in read_rows(folder / "rows.jsonl")]
    for row in rows:
        del row["seconds"]
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """The folder of a run that came to its end."""
    folder = tmp_path_factory.mktemp("finished")
    result = run(*COMMAND, "--out", folder)
    assert result.exit_code == 0, result.output
    assert re.fullmatch(
        rf"\d+ rows in {re.escape(str(folder))}\. Next: totalqboost report .*\n", result.stdout
    )
    return folder


@pytest.fixture
def folder(finished, tmp_path, monkeypatch) -> Path:
    """An empty working directory with a copy of that run in it, named run."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(finished, "run"))


# -- bad input -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--datasets", "iris"), "--datasets must be among 'banana', 'breast cancer', "),
        (("--datasets", "heart,iris"), "'waveform', got 'iris'"),
        (("--datasets", ""), "got ''"),
        (("--strategies", "B,Z"), "--strategies must be among 'A', 'B', 'C', 'D', 'E', "),
        (("--strategies", "B,Z"), "got 'Z'"),
        (("--solver", "magic"), "--solver must be among "),
        (("--splits", "0"), "--splits"),
        (("--splits", "4", "--folds", "3"), "--splits must be at most --folds (3), got 4"),
        (("--penalties", "2"), "--penalties"),
        (("--max-rounds", "0"), "--max-rounds"),
        (("--tol", "-1"), "--tol"),
        (("--tol", "inf"), "--tol must be a finite number >= 0, got inf"),
        (("--tol", "1e10"), "--tol must be at most 1,000,000,000, got 10000000000.0"),
        (("--max-rounds", "1" + 30 * "0"), "--max-rounds"),
        (("--penalties", "10001"), "--penalties"),
        (("--solver", "exact", "--time-limit", "2e9"), "--time-limit must be at most 1,000,000,"),
        (("--solver", "exact", "--time-limit", "inf"), "--time-limit must be a finite number"),
        (("--splits", "1000000000"), "--splits"),
        (("--tol", "nan"), "--tol"),
        (("--hot-share", "2"), "--hot-share"),
        (("--hot-share", "nan"), "--hot-share"),
        (("--n-bits", "0"), "--n-bits"),
        (("--rounds", "5"), "--rounds"),
    ],
)
def test_bad_option_is_named_and_no_folder_made(folder, options, complaint):
    assert complaint in error_of("reproduce", "--out", "new", *options)
    assert not Path("new").exists()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--loss", "hinge"), "--loss"),
        (("--jobs", "0"), "--jobs"),
        (("--time-limit", "5"), "the solver local has none; exact does"),
        (("--solver", "exact", "--time-limit", "0"), "--time-limit must be > 0"),
        (("--splits", "1", "--folds", "1"), "--folds"),
        (("--solver", "tabu", "--strategies", "E", "--n-bits", "99"), "n_bits|--n-bits"),
    ],
)
def test_bad_value_is_named_and_no_folder_made(folder, options, complaint):
    assert re.search(complaint, error_of(*COMMAND, "--out", "new", *options))
    assert not Path("new").exists()


@pytest.mark.parametrize(
    ("out", "complaint"),
    [
        ("file", "cannot write to file: file exists; choose another --out"),
        ("file/run", "cannot write to file/run: not a directory; choose another --out"),
    ],
)
def test_folder_that_cannot_be_made_is_one_sentence(folder, out, complaint):
    Path("file").write_text("precious")
    assert error_of(*COMMAND, "--out", out) == complaint
    assert Path("file").read_text() == "precious"


@pytest.mark.parametrize("command", [COMMAND, ("reproduce", "glass", "--quick"), ("demo",)])
def test_a_folder_without_a_name_is_refused_not_the_current_one(folder, command):
    said = error_of(*command, "--out", "")
    assert said == "--out must name a folder, got ''; the current one is ."
    assert [path.name for path in Path().iterdir()] == ["run"]


def test_folder_without_permission_is_one_sentence(folder, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(runner, "write_text", refuse)  # root may write everywhere
    said = error_of(*COMMAND, "--out", "new")
    assert said == "cannot write to new: permission denied; choose another --out"


@pytest.mark.parametrize(
    ("option", "value", "complaint"),
    [
        ("--max-rounds", 7, "run holds a run with max_rounds = 25, not 7; choose another folder"),
        ("--penalties", 4, "run holds a run with n_penalties = 6, not 4; choose another folder"),
        ("--solver", "tabu", "solver = 'local', not 'tabu'; choose another folder"),
    ],
)
def test_folder_of_other_settings_is_left_as_it_is(folder, option, value, complaint):
    before = files(folder)
    assert complaint in error_of(*COMMAND, "--out", folder, option, value)
    assert files(folder) == before


def test_run_with_the_older_exit_and_tolerance_is_left_as_it_is(folder):
    """Its tolerance was the same number in another unit: rows of both kinds must not mix."""
    config = json.loads((folder / "config.json").read_text())
    del config["settings"]["exhaust"]
    (folder / "config.json").write_text(json.dumps(config))
    before = files(folder)
    said = error_of(*COMMAND, "--out", folder)
    assert said == "run holds a run with exhaust = None, not True; choose another folder"
    assert files(folder) == before
    assert run("report", folder).exit_code == 0  # which rows alone make


def test_tabu_search_is_that_of_the_paper(tmp_path):
    options = ("--datasets", "flare solar", "--strategies", "E", "--solver", "tabu")
    size = ("--penalties", 3, "--max-rounds", 8, "--jobs", 1)
    result = run("reproduce", *options, *size, "--out", tmp_path / "tabu")
    assert result.exit_code == 0, result.output
    rows = read_rows(tmp_path / "tabu" / "rows.jsonl")
    assert len(rows) == 3
    config = json.loads((tmp_path / "tabu" / "config.json").read_text())
    assert (config["settings"]["solver"], config["settings"]["n_bits"]) == ("tabu", 6)


@pytest.mark.parametrize(
    ("name", "damage", "complaint"),
    [
        ("rows.jsonl", b"no row\n", "run/rows.jsonl, line 1: not a JSON object"),
        ("rows.jsonl", b"\xff\n", "run/rows.jsonl, line 1: not UTF-8 text"),
        ("rows.jsonl", b"{}\n", "run/rows.jsonl, line 1: a row needs dataset, split, "),
        ("done.jsonl", b"no task\n", "run/done.jsonl is damaged: "),
        ("done.jsonl", b"{}\n", "damaged: a line must have dataset, split, strategy and rows, got"),
        ("done.jsonl", b"null\n", "run/done.jsonl is damaged: a line must have dataset, "),
        ("done.jsonl", DONE % b'"many"', "damaged: rows must be an integer >= 0, got 'many'"),
        ("done.jsonl", DONE % b"1e999", "damaged: rows must be an integer >= 0, got inf"),
        ("done.jsonl", DONE % (b"1" * 5000), "damaged: a number has thousands of digits"),
        ("done.jsonl", b"[" * 100_000 + b"\n", "run/done.jsonl is damaged: brackets are nested"),
        ("config.json", b"{", "run/config.json is damaged: "),
    ],
)
def test_damaged_run_is_left_as_it_is(folder, name, damage, complaint):
    path = folder / name
    path.write_bytes(damage + path.read_bytes())
    before = files(folder)
    assert complaint in error_of(*COMMAND, "--out", folder)
    assert files(folder) == before
    if name != "done.jsonl":  # the report has no use for it
        assert complaint in error_of("report", folder)
        assert files(folder) == before


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("done.jsonl", b"\xff\n"),
        ("config.json", b"\xff"),
        ("config.json", b'{"settings": []}'),
        ("config.json", b'{"settings": {}, "jobs": "text"}'),
        ("config.json", b'{"settings": {}, "machine": null}'),
        ("config.json", b'{"settings": {}, "versions": 3}'),
    ],
)
def test_more_damage_is_one_sentence(folder, name, content):
    (folder / name).write_bytes(content)
    assert f"run/{name} is damaged: " in error_of(*COMMAND, "--out", folder)


def test_weights_that_overflow_are_damage(folder):
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    for row in rows:
        for learner in row.get("ensemble", {}).get("learners", ()):
            learner["weight"] = 1e308
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for command in (("report", folder), (*COMMAND, "--out", folder)):
        complaint = error_of(*command)
        assert complaint.startswith("run/rows.jsonl, line 1: weights and intercept must add up to ")


def test_a_damaged_ensemble_is_named_also_where_no_page_would_show_it(folder):
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    rows[1]["ensemble"]["learners"][0]["feature"] = 10**9
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for command in (("report", folder), (*COMMAND, "--out", folder)):
        assert error_of(*command).startswith("run/rows.jsonl, line 2: feature must be from 0 to ")


def test_a_folder_that_is_being_written_is_left_as_it_is(folder):
    with locked(folder):
        before = files(folder)
        complaint = error_of(*COMMAND, "--out", folder)
        assert files(folder) == before
    assert complaint.startswith(f"{folder} is being written by process {os.getpid()} on ")


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_full_disk_is_one_sentence_and_the_same_command_goes_on(folder, finished, jobs):
    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (9_000, 9_000))

    command = [str(word) for word in (PROGRAM, *COMMAND, "--jobs", jobs, "--out", "new")]
    result = subprocess.run(command, capture_output=True, text=True, preexec_fn=limited)
    assert (result.returncode, result.stdout) == (2, "")
    said = result.stderr.splitlines()[-1]  # kernels may be compiled before
    assert said.startswith("error: cannot write to new/rows.jsonl: file too large; ")
    assert "Traceback" not in result.stderr
    assert run(*COMMAND, "--jobs", 1, "--out", "new").exit_code == 0
    assert content(Path("new")) == content(finished)


@pytest.mark.parametrize(("closed", "status"), [("2>&-", 0), ("<&- >&-", 2)])
def test_a_run_needs_no_standard_streams(folder, finished, closed, status):
    """Its last line does; and none of its files or workers gets the number of a stream."""
    command = [PROGRAM, *COMMAND, "--jobs", 2, "--out", "new"]
    shell = ["sh", "-c", f'"$@" {closed}', "sh", *map(str, command)]
    done = subprocess.run(shell, capture_output=True, text=True, timeout=120)
    assert done.returncode == status, done.stderr
    if status:
        said = done.stderr.splitlines()[-1]  # kernels may be compiled before
        assert said == "error: cannot write to standard output: it is closed"
    assert content(Path("new")) == content(finished)


def test_compressed_rows_are_not_lost(folder):
    path = folder / "rows.jsonl"
    (folder / "rows.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    run(*COMMAND, "--out", folder)
    assert run("report", folder).exit_code == 0


def test_finished_run_is_not_run_again(folder, finished):
    (folder / "notes.txt").write_text("mine")
    before = (folder / "rows.jsonl").read_bytes()
    result = run(*COMMAND, "--out", folder)
    assert result.exit_code == 0
    assert f"{len(content(finished))} rows in run." in result.stdout
    assert (folder / "rows.jsonl").read_bytes() == before
    assert (folder / "notes.txt").read_text() == "mine"


def test_the_exact_solver_proves_what_it_reports(tmp_path):
    options = ("--datasets", "thyroid", "--strategies", "C,E", "--solver", "exact")
    size = ("--splits", 1, "--penalties", 3, "--max-rounds", 8, "--jobs", 1, "--time-limit", 20)
    result = run("reproduce", *options, *size, "--out", tmp_path / "exact")
    assert result.exit_code == 0, result.output
    rows = read_rows(tmp_path / "exact" / "rows.jsonl")
    proven = [row for row in rows if row.bound is not None and row.objective is not None]
    assert {row.strategy for row in proven} >= {"C", "E"}
    for row in proven:
        assert row.bound <= row.objective + 1e-12
    gaps = [1.0 - row.bound / row.objective for row in proven if row.strategy == "E"]
    assert max(gaps) < 1e-6


def test_names_may_be_written_in_several_ways(folder):
    names = ("--datasets", " Thyroid, Flare-Solar", "--strategies", "b")
    result = run("reproduce", *names, "--max-rounds", 2, "--jobs", 1, "--out", "new")
    assert result.exit_code == 0, result.output
    rows = read_rows("new/rows.jsonl")
    assert {(row.dataset, row.strategy) for row in rows} == {("thyroid", "B"), ("flare solar", "B")}


# -- Ctrl-C --------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_keeps_rows_and_the_same_command_goes_on(folder, finished, jobs):
    """A real SIGINT as soon as there is a row; then the rest, and the rows of a whole run."""
    rows = Path("new") / "rows.jsonl"
    command = [PROGRAM, *COMMAND, "--jobs", jobs, "--out", "new"]
    status, out, err = interrupted(
        command, lambda: rows.exists() and rows.read_bytes().count(b"\n") > 0
    )
    assert (status, out) == (130, ""), err
    assert err == "interrupted; what is done is kept in new, the same command goes on\n"
    kept = rows.read_bytes()
    assert kept.count(b"\n") > 0
    assert run(*COMMAND, "--jobs", 1, "--out", "new").exit_code == 0
    assert rows.read_bytes().startswith(kept[: kept.rfind(b"\n") + 1])
    assert content(Path("new")) == content(finished)


def has_loading_worker(out: str) -> bool:
    """Tell whether a process that a run into this folder has started is loading packages."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            if b"LokyProcess" in (process / "cmdline").read_bytes():
                parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
                is_ours = out.encode() in Path(f"/proc/{parent}/cmdline").read_bytes()
                if is_ours and b"_multiarray_umath" in (process / "maps").read_bytes():
                    return True
    return False


def test_ctrl_c_while_workers_start_is_one_line(tmp_path):
    """They load packages then, each of which would say that it was interrupted."""
    out = tmp_path / "run of workers"
    command = [PROGRAM, *COMMAND, "--jobs", 2, "--out", out]
    status, _, err = interrupted(command, lambda: has_loading_worker(str(out)))
    assert status == 130
    assert err == f"interrupted; what is done is kept in {out}, the same command goes on\n"


def test_ctrl_c_before_the_first_row_can_go_on(folder, finished):
    config = Path("new") / "config.json"
    status, _, err = interrupted([PROGRAM, *COMMAND, "--out", "new"], config.exists)
    assert status == 130, err
    assert err.startswith("interrupted; ")
    assert run(*COMMAND, "--out", "new").exit_code == 0
    assert content(Path("new")) == content(finished)


def test_unfinished_run_makes_a_report(folder):
    rows = folder / "rows.jsonl"
    rows.write_bytes(rows.read_bytes()[:-20])  # a line that is being written
    before = files(folder)
    result = run("report", folder)
    assert result.exit_code == 0, result.output
    assert {name: text for name, text in files(folder).items() if name in before} == before
    assert (folder / "report.html").exists()
