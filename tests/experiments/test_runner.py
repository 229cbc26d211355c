"""Runs of experiments: same rows whatever the jobs, and after any interruption."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from totalqboost.experiments import runner
from totalqboost.experiments.bench import Bench
from totalqboost.experiments.lock import locked
from totalqboost.experiments.rows import RunError, read_rows
from totalqboost.experiments.runner import run, tasks_of
from totalqboost.experiments.settings import Settings

SMALL = Settings(max_rounds=8, n_penalties=4)
TASKS = tasks_of(["thyroid", "flare solar"], [0], "ABCDE")

CHILD = """
import sys
from totalqboost.experiments.runner import run, tasks_of
from totalqboost.experiments.settings import Settings
tasks = tasks_of(["thyroid", "flare solar"], [0], "ABCDE")
run(sys.argv[1], tasks, Settings(max_rounds=8, n_penalties=4), 1)
"""


FULL = """
import resource, sys
limit = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
"""


# Between starting a worker and giving it work, with the lock that idle workers need to end.
STARTED = """
import os, pathlib, signal, sys
from joblib.externals.loky.process_executor import ProcessPoolExecutor
start = ProcessPoolExecutor._adjust_process_count
def killed(self):
    start(self)
    pathlib.Path(sys.argv[1], "workers").write_text(" ".join(map(str, self._processes)))
    os.kill(os.getpid(), signal.SIGKILL)
ProcessPoolExecutor._adjust_process_count = killed
"""


def children(parent, name):
    """Return the numbers of the processes of this name that a process has started."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            is_child = status.read_text().rpartition(")")[2].split()[1] == str(parent)
            if is_child and name in (status.parent / "cmdline").read_text():
                found.append(int(status.parent.name))
    return found


def wait_for(condition, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")


def content(folder):
    """Return the rows of a run without what differs from run to run."""
    rows = [row.to_dict() for row in read_rows(folder / "rows.jsonl")]
    for row in rows:
        del row["seconds"]
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    run(folder, TASKS, SMALL, 1)
    return content(folder)


def test_rows_do_not_depend_on_the_number_of_jobs(whole, tmp_path):
    run(tmp_path, TASKS, SMALL, 2)
    assert content(tmp_path) == whole


def test_a_killed_run_resumes_to_the_rows_of_a_whole_one(whole, tmp_path):
    process = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)])
    rows = tmp_path / "rows.jsonl"
    while process.poll() is None and (not rows.exists() or rows.read_bytes().count(b"\n") < 9):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    with rows.open("ab") as file:
        file.write(b'{"dataset": "thyr')  # as if the crash had come in the middle of a line
    assert len(read_rows(rows)) >= 9
    run(tmp_path, TASKS, SMALL, 1)
    assert content(tmp_path) == whole


@pytest.mark.parametrize("limit", [300, 9_000])
def test_a_full_disk_stops_the_run_and_loses_nothing(whole, tmp_path, limit):
    process = subprocess.run(
        [sys.executable, "-c", FULL + CHILD, str(tmp_path), str(limit)],
        capture_output=True,
        text=True,
    )
    assert process.returncode == 1
    assert "RunError: cannot write to" in process.stderr
    assert "file too large; what is done is kept" in process.stderr
    run(tmp_path, TASKS, SMALL, 1)
    assert content(tmp_path) == whole


def test_two_processes_do_not_write_into_one_folder(tmp_path):
    with locked(tmp_path), pytest.raises(RunError) as refused:
        run(tmp_path, TASKS[:1], SMALL, 1)
    assert f"being written by process {os.getpid()} on " in str(refused.value)
    assert "wait for it or choose another folder" in str(refused.value)
    assert not (tmp_path / "rows.jsonl").exists()
    run(tmp_path, TASKS[:1], SMALL, 1)  # the file of the lock is there, its owner has gone
    assert read_rows(tmp_path / "rows.jsonl")


def test_workers_end_with_a_driver_that_was_killed(whole, tmp_path):
    process = subprocess.Popen([sys.executable, "-c", CHILD.replace(", 1)", ", 2)"), str(tmp_path)])
    rows = tmp_path / "rows.jsonl"
    wait_for(lambda: rows.exists() and rows.stat().st_size)  # workers are at work
    workers = children(process.pid, "LokyProcess")
    assert workers
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_for(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))
    run(tmp_path, TASKS, SMALL, 1)
    assert content(tmp_path) == whole


def test_workers_without_work_end_with_a_driver_that_was_killed(whole, tmp_path):
    child = [sys.executable, "-c", STARTED + CHILD.replace(", 1)", ", 2)"), str(tmp_path)]
    assert subprocess.run(child).returncode == -signal.SIGKILL
    workers = (tmp_path / "workers").read_text().split()
    assert len(workers) == 2
    wait_for(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))
    run(tmp_path, TASKS, SMALL, 1)
    assert content(tmp_path) == whole


def test_a_worker_that_is_killed_ends_the_run_and_loses_nothing(whole, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD.replace(", 1)", ", 2)"), str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
    )
    rows = tmp_path / "rows.jsonl"
    wait_for(lambda: rows.exists() and rows.stat().st_size)
    os.kill(children(process.pid, "LokyProcess")[0], signal.SIGKILL)  # as for lack of memory
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "RunError: a worker process was ended by others" in said
    run(tmp_path, TASKS, SMALL, 1)
    assert content(tmp_path) == whole


def test_a_worker_ends_though_its_driver_was_killed_before_it_began(tmp_path):
    late = """
import sys, time
from totalqboost.experiments.runner import _end_with
_end_with(int(sys.argv[1]))
time.sleep(120)
"""
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], stdout=-1)
    worker = subprocess.run([sys.executable, "-c", late, gone.stdout.strip()], timeout=100)
    assert worker.returncode == 1


def test_a_finished_run_is_not_run_again(whole, tmp_path):
    run(tmp_path, TASKS[:2], SMALL, 1)
    before = (tmp_path / "rows.jsonl").read_bytes()
    done = []
    run(tmp_path, TASKS[:2], SMALL, 1, lambda *task: done.append(task))
    assert done == []
    assert (tmp_path / "rows.jsonl").read_bytes() == before


def test_a_task_whose_rows_are_gone_is_run_again(whole, tmp_path):
    run(tmp_path, TASKS[:2], SMALL, 1)
    path = tmp_path / "rows.jsonl"
    before = path.read_bytes().splitlines(keepends=True)
    for left in (before[:3], []):
        path.write_bytes(b"".join(left))
        rows = run(tmp_path, TASKS[:2], SMALL, 1)
        assert len(rows) == len(before)
        assert len(path.read_bytes().splitlines()) == len(before)
    path.unlink()
    assert len(run(tmp_path, TASKS[:2], SMALL, 1)) == len(before)


def test_prices_that_differ_in_their_last_digit_are_the_same_row(tmp_path):
    """As those of another machine may: the rest of a task is added, not all of it again."""
    run(tmp_path, TASKS[2:3], SMALL, 1)
    path = tmp_path / "rows.jsonl"
    before = path.read_text().splitlines()
    rows = [json.loads(line) for line in before[:-1]]
    for row in rows:
        row["penalty"] = float(np.nextafter(row["penalty"], 1.0))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert len(run(tmp_path, TASKS[2:3], SMALL, 1)) == len(before)


@pytest.mark.skipif(os.name == "nt", reason="the locks of Windows are others")
def test_a_file_system_without_locks_is_said_to_be_one(tmp_path, monkeypatch):
    import fcntl

    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(RunError, match=r"cannot lock .*: no locks available; choose a folder"):
        run(tmp_path, TASKS[:1], SMALL, 1)


def test_a_line_longer_than_any_row_is_refused(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"[" + b"[]," * 400_000 + b"[]]\n")
    with pytest.raises(RunError, match="line 1: must have at most 1,000,000 bytes"):
        read_rows(path)


def test_tasks_that_are_named_twice_are_run_once(tmp_path):
    tasks = tasks_of(["thyroid"], [0], ["B"])
    n_rows = len(run(tmp_path / "once", tasks, SMALL))
    assert len(run(tmp_path / "twice", tasks * 2, SMALL)) == n_rows
    assert content(tmp_path / "twice") == content(tmp_path / "once")


def test_rows_that_stand_twice_are_refused(tmp_path):
    run(tmp_path, tasks_of(["thyroid"], [0], ["B"]), SMALL)
    path = tmp_path / "rows.jsonl"
    n_rows = path.read_bytes().count(b"\n")
    path.write_bytes(path.read_bytes() * 2)
    message = rf"rows.jsonl, line {n_rows + 1}: the same as line 1; delete one$"
    with pytest.raises(RunError, match=message):
        read_rows(path)


def test_rows_without_settings_are_not_continued(tmp_path):
    run(tmp_path, tasks_of(["thyroid"], [0], ["B"]), SMALL)
    (tmp_path / "config.json").unlink()
    with pytest.raises(RunError, match=r"holds rows without config\.json"):
        run(tmp_path, tasks_of(["thyroid"], [0], ["B"]), Settings(max_rounds=3))
    assert not (tmp_path / "config.json").exists()


@pytest.mark.parametrize("text", ['[{"precious": 1}]', "a note", "\0\0 x"])
def test_what_others_wrote_is_not_cut_off(tmp_path, text):
    (tmp_path / "done.jsonl").write_text(text)
    with pytest.raises(RunError, match=r"done\.jsonl ends with what is no line of a run"):
        run(tmp_path, tasks_of(["thyroid"], [0], ["B"]), SMALL)
    assert (tmp_path / "done.jsonl").read_text() == text


@pytest.mark.parametrize("name", ["rows.jsonl", "done.jsonl", "config.json"])
def test_a_file_larger_than_any_run_is_not_read(tmp_path, name):
    run(tmp_path, tasks_of(["thyroid"], [0], ["B"]), SMALL)
    os.truncate(tmp_path / name, 30 * 2**30)  # takes no room on disk
    with pytest.raises(RunError, match=rf"{name}.*must have at most [0-9,]+ bytes, got 32,212"):
        run(tmp_path, tasks_of(["thyroid"], [0], ["B"]), SMALL)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)  # to open it would be to wait
    with pytest.raises(RunError, match=rf"{name}.*must be a file"):
        run(tmp_path, tasks_of(["thyroid"], [0], ["B"]), SMALL)


def test_a_list_of_more_tasks_than_any_run_has_is_refused(tmp_path, monkeypatch):
    run(tmp_path, tasks_of(["thyroid"], [0], ["B"]), SMALL)
    monkeypatch.setattr(runner, "MOST_TASKS", 100)
    with open(tmp_path / "done.jsonl", "a") as file:
        file.write("{}\n" * 100)
    with pytest.raises(RunError, match=r"done.jsonl is damaged: it must have at most 100 lines"):
        run(tmp_path, tasks_of(["thyroid"], [0], ["B"]), SMALL)


def test_a_lock_that_is_deleted_ends_the_run(tmp_path):
    def delete(task, n_done, n_tasks):
        (tmp_path / ".lock").unlink(missing_ok=True)

    with pytest.raises(RunError, match=r"lock was deleted, so another process may write too"):
        run(tmp_path, tasks_of(["thyroid"], [0, 1], ["B"]), SMALL, on_task=delete)
    rows = run(tmp_path, tasks_of(["thyroid"], [0, 1], ["B"]), SMALL)
    assert len({row.key for row in rows}) == len(rows)


def test_settings_that_are_deleted_during_a_run_are_written_again(tmp_path):
    tasks = tasks_of(["thyroid"], [0, 1], ["B"])
    run(tmp_path, tasks, SMALL, on_task=lambda *_: (tmp_path / "config.json").unlink(True))
    assert json.loads((tmp_path / "config.json").read_text())["settings"]["max_rounds"] == 8
    n_lines = (tmp_path / "rows.jsonl").read_bytes().count(b"\n")
    assert len(run(tmp_path, tasks, SMALL)) == n_lines


def test_a_folder_that_is_moved_during_a_run_is_said_to_be_gone(tmp_path):
    """And not that its settings cannot be written, which comes of it."""
    folder, moved = tmp_path / "run", tmp_path / "moved"

    def move(task, n_done, n_tasks):
        if folder.exists():
            folder.rename(moved)

    with pytest.raises(RunError, match=r"\.lock was deleted"):
        run(folder, tasks_of(["thyroid"], [0, 1], ["B"]), SMALL, on_task=move)


def test_other_versions_are_told_once_and_noted(tmp_path):
    tasks = tasks_of(["thyroid"], [0, 1], ["B"])
    run(tmp_path, tasks[:1], SMALL)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    now, config["versions"]["numpy"] = config["versions"].copy(), "1.0.0"
    path.write_text(json.dumps(config))
    with pytest.warns(
        UserWarning, match=rf"began with numpy 1\.0\.0, now {now['numpy']}: rows may"
    ):
        run(tmp_path, tasks, SMALL)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(tmp_path, tasks, SMALL)
    config = json.loads(path.read_text())
    assert config["versions"]["numpy"] == "1.0.0"
    assert config["later_versions"] == [now]


def test_versions_that_add_no_row_are_not_noted(tmp_path):
    run(tmp_path, TASKS[:1], SMALL)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    config["versions"] = {"numpy": "1.0.0"}
    path.write_text(json.dumps(config))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(tmp_path, TASKS[:1], SMALL)
        config["versions"] = {}  # nothing is known of the beginning
        path.write_text(json.dumps(config))
        run(tmp_path, TASKS[:2], SMALL)
    assert "later_versions" not in json.loads(path.read_text())


def test_settings_that_nobody_knows_are_refused(tmp_path):
    run(tmp_path, TASKS[:1], SMALL)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    config["settings"]["future"] = 3
    path.write_text(json.dumps(config))
    with pytest.raises(RunError, match="a run with future = 3, which this version does not know"):
        run(tmp_path, TASKS[:1], SMALL)


@pytest.mark.skipif(os.name == "nt", reason="a process is stopped by a signal")
def test_a_second_command_is_refused_while_a_first_one_runs(whole, tmp_path):
    first = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)])
    lock = tmp_path / ".lock"
    while not (lock.exists() and lock.read_text()):
        time.sleep(0.01)
    first.send_signal(signal.SIGSTOP)  # so that it does not end before the second has begun
    command = ("-m", "totalqboost", "reproduce", "--datasets", "thyroid", "--out", str(tmp_path))
    second = subprocess.run([sys.executable, *command], capture_output=True, text=True)
    first.send_signal(signal.SIGCONT)
    assert first.wait() == 0
    assert second.returncode == 2
    assert f"is being written by process {first.pid} on " in " ".join(second.stderr.split())
    assert content(tmp_path) == whole


def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "mine").write_text("precious")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(tmp_path / "mine")
    with pytest.raises(RunError, match="must be a file, which a run makes"):
        run(tmp_path / "run", tasks_of(["thyroid"], [0], ["B"]), SMALL)
    assert (tmp_path / "mine").read_text() == "precious"


def test_other_settings_need_another_folder(tmp_path):
    run(tmp_path, TASKS[:1], SMALL, 1)
    with pytest.raises(RunError, match="max_rounds = 8, not 9; choose another folder"):
        run(tmp_path, TASKS[:1], Settings(max_rounds=9, n_penalties=4), 1)


def test_a_damaged_rows_file_is_an_error_and_stays_as_it_is(tmp_path):
    run(tmp_path, TASKS[:1], SMALL, 1)
    path = tmp_path / "rows.jsonl"
    damaged = b"no row\n" + path.read_bytes()
    path.write_bytes(damaged)
    with pytest.raises(RunError, match=r"rows\.jsonl"):
        run(tmp_path, TASKS, SMALL, 1)
    assert path.read_bytes() == damaged


def test_subset_selection_never_loses_to_early_stopping_at_equal_size(whole):
    rows = [json.loads(row) for row in whole]
    nu = SMALL.nu
    n_met = 0
    for e in (row for row in rows if row["strategy"] == "E"):
        for b in (row for row in rows if row["strategy"] == "B"):
            if (e["dataset"], e["n_learners"]) == (b["dataset"], b["n_learners"]):
                n_met += 1
                assert e["risk"] <= b["risk"] + 1e3 * nu
    assert n_met > 2


def test_penalties_fall_from_where_nothing_pays():
    bench = Bench("thyroid", 0, SMALL)
    assert (bench.lambdas[1:] <= bench.lambdas[:-1]).all()
    result = bench.boost(bench.generator("C", 0), lam=float(1.5 * bench.lambdas[0]))
    assert result.ensemble.n_learners <= 1


def test_baselines_run_in_the_same_runner(tmp_path):
    tasks = tasks_of(["thyroid"], [0], ["adaboost", "lpboost", "erlpboost"])
    rows = run(tmp_path, tasks, SMALL, 1)
    rounds = [row.round for row in rows if row.strategy == "adaboost"]
    assert rounds == list(range(1, 9))
    for name in ("lpboost", "erlpboost"):
        assert {row.penalty for row in rows if row.strategy == name} == {0.1, 0.3, 0.5}
    for row in rows:
        assert row.n_learners <= row.round  # a stump chosen again is one learner
        if row.strategy == "adaboost":
            assert row.objective == pytest.approx(row.risk, rel=1e-6)
