"""Helpers for tests of the command line: run a command here, or as a program of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sysconfig
import threading
import time
from collections.abc import Callable
from pathlib import Path

from typer.testing import CliRunner

from totalqboost.cli.app import app

PROGRAM = Path(sysconfig.get_path("scripts")) / "totalqboost"


def run(*args: object):
    """Run a command in this process; an unexpected error is raised, not reported."""
    arguments = [str(arg) for arg in args]
    return CliRunner(env={"COLUMNS": "80"}).invoke(app, arguments, catch_exceptions=False)


def error_of(*args: object) -> str:
    """Run a command that must fail as on bad input; return its one sentence."""
    result = run(*args)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert result.stderr.endswith("\n")
    return result.stderr.removeprefix("error: ").rstrip("\n")


def interrupted(command: list[object], is_time: Callable[[], bool]) -> tuple[int, str, str]:
    """Run a program, send Ctrl-C when it is time; return its exit code, stdout and stderr.

    As on a terminal the signal goes to the program and to all its children. What is said about
    kernels is left out of stderr: whether any are compiled depends on the tests that run beside.
    """
    process = subprocess.Popen(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    watchdog = threading.Timer(120, process.kill)
    watchdog.start()
    try:
        while process.poll() is None and not is_time():
            time.sleep(0.01)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate()
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()
    lines = err.splitlines(keepends=True)
    said = [line for line in lines if not line.startswith("totalqboost: compiling ")]
    return process.returncode, out, "".join(said)
