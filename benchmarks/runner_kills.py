"""A run of experiments, killed and short of disk space at random moments: is a row lost?

Each trial starts ``totalqboost reproduce`` on two small data sets in a new folder, ends it by
SIGKILL after a random time, or gives its files a random largest size, and starts the same command
again until it comes to its end (it may be killed several times). Then the rows must be those of a
run that nobody disturbed: none lost, none twice. At the end no process of a killed run may be
left: workers end with the one that was killed.

    python benchmarks/runner_kills.py            # 100 kills and 20 full disks
    python benchmarks/runner_kills.py --quick    # 3 and 2
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, save, say

COMMAND = (
    *(sys.executable, "-m", "totalqboost", "reproduce"),
    *("--datasets", "heart,breast cancer", "--max-rounds", "12", "--penalties", "4"),
)
MOST_STARTS = 20  # of one trial
SOON = 60.0  # seconds after which all workers have ended


def content(folder: Path) -> Counter[str]:
    """Return the rows of a run without their times, and how often each is there."""
    lines = (folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]  # as they are: the library refuses to read twins
    return Counter(json.dumps({**row, "seconds": 0}, sort_keys=True) for row in rows)


def start(folder: Path, jobs: int, largest: int | None = None) -> subprocess.Popen[bytes]:
    def limited() -> None:
        if largest is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))

    arguments = [*COMMAND, "--jobs", str(jobs), "--out", str(folder)]
    return subprocess.Popen(
        arguments,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=limited,
        start_new_session=True,  # its workers are known by its number
    )


def kill_once(folder: Path, jobs: int, after: float) -> int | None:
    """Start the command and kill it after some seconds; return its number, None if it had ended.

    Its workers are not waited for: they may still run when the next command starts.
    """
    process = start(folder, jobs)
    try:
        _, said = process.communicate(timeout=after)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return process.pid
    check(process, said)
    return None


def is_left(session: int) -> bool:
    """Tell whether a process that a killed run had started is still there."""
    try:
        os.killpg(session, 0)
    except ProcessLookupError:
        return False
    return True


def fill_once(folder: Path, jobs: int, largest: int) -> str:
    """Start the command with files of at most so many bytes; return what it said."""
    _, said = start(folder, jobs, largest).communicate()
    return said.decode()


def whole_run(folder: Path, jobs: int) -> float:
    began = time.perf_counter()
    process = start(folder, jobs)
    _, said = process.communicate()
    check(process, said)
    return time.perf_counter() - began


def check(process: subprocess.Popen[bytes], said: bytes) -> None:
    """Raise if a run that nobody disturbed did not come to its end."""
    if process.returncode != 0:
        raise RuntimeError(said.decode())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="3 kills, 2 full disks")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--full-disks", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="folder of the JSON file")
    arguments = parser.parse_args()
    arguments.out = arguments.out or (RESULTS / "quick" if arguments.quick else RESULTS)
    if arguments.quick:
        arguments.kills, arguments.full_disks = 3, 2
    found = run_all(arguments)
    print(render(save("runner_kills", arguments, {"command": list(COMMAND[3:])}, found)))
    sys.exit(any(found[name] for name in ("lost", "twice", "tracebacks", "left")))


def render(content: dict[str, Any]) -> str:
    """Return what was done and what was lost, as a sentence."""
    found = content["results"]
    return (
        f"{found['kills']} kills, {found['full_disks']} full disks: {found['lost']} rows lost, "
        f"{found['twice']} twice, {found['tracebacks']} tracebacks, {found['left']} killed runs "
        "with workers left."
    )


def run_all(arguments: Namespace) -> dict[str, int]:
    rng = np.random.default_rng(arguments.seed)
    found = {"kills": 0, "full_disks": 0, "lost": 0, "twice": 0, "tracebacks": 0, "left": 0}
    with tempfile.TemporaryDirectory() as scratch:
        whole_run(Path(scratch) / "first", 2)  # compiles kernels
        seconds = whole_run(Path(scratch) / "whole", 2)
        expected = content(Path(scratch) / "whole")
        size = (Path(scratch) / "whole" / "rows.jsonl").stat().st_size
        trial, killed = 0, list[int]()
        while found["kills"] < arguments.kills or found["full_disks"] < arguments.full_disks:
            trial += 1
            folder, jobs = Path(scratch) / str(trial), int(rng.integers(1, 3))
            if found["full_disks"] * max(arguments.kills, 1) <= found["kills"] * max(
                arguments.full_disks, 1
            ):
                said = fill_once(folder, jobs, int(rng.integers(100, size)))
                found["full_disks"] += "cannot write" in said
                found["tracebacks"] += "Traceback" in said
            for _ in range(int(rng.integers(1, MOST_STARTS))):
                if found["kills"] >= arguments.kills:
                    break
                began = time.perf_counter()
                session = kill_once(folder, jobs, float(rng.uniform()) * seconds)
                if session is None:  # it was faster than the first: kill the next ones sooner
                    seconds = min(seconds, time.perf_counter() - began)
                    break
                killed.append(session)
                found["kills"] += 1
            whole_run(folder, jobs)
            there = content(folder)
            found["lost"] += sum((expected - there).values())
            found["twice"] += sum((there - expected).values())
            say(f"trial {trial}: {found}")
        end = time.monotonic() + SOON
        while time.monotonic() < end and any(is_left(session) for session in killed):
            time.sleep(1.0)
        found["left"] = sum(is_left(session) for session in killed)
    return found


if __name__ == "__main__":
    main()
