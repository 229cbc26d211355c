"""Runs of experiments on a cluster: the rows of a local run, whatever happens to workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing

import pytest
from cluster_parts import PROGRAM, SMALL, TASKS, content
from command_line import PROGRAM as COMMAND
from command_line import error_of, interrupted
from command_line import run as call

from totalqboost.cluster.connect import ClusterError, connected
from totalqboost.experiments.glass import GlassSettings, GlassTask, run_glass
from totalqboost.experiments.rows import read_rows
from totalqboost.experiments.runner import run


@pytest.fixture(scope="module")
def client():
    with connected(workers=2) as client:
        yield client


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    run(folder, TASKS, SMALL, 1)
    return content(folder)


def test_rows_of_two_workers_are_those_of_one_process(client, whole, tmp_path):
    run(tmp_path, TASKS, SMALL, client=client)
    assert content(tmp_path) == whole


def test_a_killed_worker_costs_time_and_no_row(client, whole, tmp_path):
    victims = list(client.run(os.getpid).values())[:1]

    def kill(*done):
        if victims:
            os.kill(victims.pop(), signal.SIGKILL)

    run(tmp_path, TASKS, SMALL, on_task=kill, client=client)
    assert not victims
    assert content(tmp_path) == whole


def test_a_lost_scheduler_is_a_sentence_and_what_was_done_is_kept(whole, tmp_path):
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True)
    with process, closing(process.stdout):
        address = process.stdout.readline().strip()
        with pytest.raises(ClusterError) as failed, connected(address) as client:
            run(tmp_path, TASKS, SMALL, on_task=lambda *done: process.kill(), client=client)
    assert f"the scheduler {address} was lost" in str(failed.value)
    assert client.scheduler is None  # closed
    kept = read_rows(tmp_path / "rows.jsonl")
    assert 0 < len(kept) < len(whole)
    run(tmp_path, TASKS, SMALL, 1)
    assert content(tmp_path) == whole


def test_the_command_takes_a_scheduler_and_shows_where_to_watch(client, whole, tmp_path):
    options = ["--datasets", "thyroid,flare solar", "--max-rounds", 5, "--penalties", 3]
    address = client.scheduler.address
    result = call("reproduce", *options, "--scheduler", address, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "cluster of 2 workers; watch it at http://127.0.0.1:" in result.stderr
    assert content(tmp_path) == whole


def test_the_command_says_in_a_sentence_that_nobody_answers(tmp_path):
    said = error_of("reproduce", "--scheduler", "abc://x", "--out", tmp_path / "new")
    assert said.startswith("the scheduler abc://x cannot be reached")
    assert "kept" not in said
    assert not (tmp_path / "new").exists()


def test_the_command_takes_one_cluster(tmp_path):
    said = error_of("reproduce", "--scheduler", "tcp://a:1", "--workers", 2, "--out", tmp_path)
    assert said == "--scheduler has workers of its own; leave out --workers"


def test_ctrl_c_keeps_what_the_workers_did(whole, tmp_path):
    options = ["--datasets", "thyroid,flare solar", "--max-rounds", 5, "--penalties", 3]
    done = tmp_path / "done.jsonl"
    code, _, errors = interrupted(
        [COMMAND, "reproduce", *options, "--workers", 1, "--out", tmp_path],
        lambda: done.exists() and done.stat().st_size > 0,
    )
    assert code == 130
    assert errors.splitlines()[-1] == (
        f"interrupted; what is done is kept in {tmp_path}, the same command goes on"
    )
    assert "Traceback" not in errors
    run(tmp_path, TASKS, SMALL, 1)
    assert content(tmp_path) == whole


def test_detectors_of_two_workers_are_those_of_one_process(client, tmp_path):
    settings = GlassSettings(
        n_features=20, n_train=400, n_valid=400, n_rows=1200, positive_rate=0.3, recalls=(0.8,)
    )
    tasks = [GlassTask(seed, 1, "UCG") for seed in (0, 1)]
    here = run_glass(tmp_path / "here", tasks, settings)
    there = run_glass(tmp_path / "there", tasks, settings, client=client)
    assert len(here) == 2

    def untimed(rows):
        return sorted(str({**row, "seconds": 0}) for row in rows)

    assert untimed(there) == untimed(here)
