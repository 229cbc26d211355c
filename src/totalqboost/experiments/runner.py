"""Running strategies on splits of data sets, on all cores, so that nothing done is lost.

A task is one strategy on one split of one data set. At its end its rows are appended to
``rows.jsonl``, one line each, and when they are on disk the task to ``done.jsonl``. A task that
was cut short, or that has fewer rows than it had, is run again from its beginning (it is
deterministic) and only the rows that are missing are added, so an interrupted run ends with the
rows of one that was not. Only the process that holds the folder's lock writes; others compute, and
end with it. They are processes of this machine, by joblib, or the workers of a cluster.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import signal
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from joblib._parallel_backends import LokyBackend
from joblib.externals.loky.process_executor import TerminatedWorkerError
from sklearn.utils.parallel import Parallel, delayed

from totalqboost import datasets
from totalqboost.cluster.tasks import completed
from totalqboost.experiments.bench import prepared
from totalqboost.experiments.folder import CONFIG, read_config
from totalqboost.experiments.lock import locked
from totalqboost.experiments.rows import MOST_BYTES, Row, RunError, read_rows
from totalqboost.experiments.settings import Settings
from totalqboost.experiments.strategies import rows_of
from totalqboost.files import parse_json, read_bytes, write_text
from totalqboost.interruption import held_back
from totalqboost.notices import warn
from totalqboost.parameters import check_integer, short

if TYPE_CHECKING:
    from totalqboost.cluster.connect import Client

__all__ = ["Task", "append_lines", "check_run", "cut_torn_line", "note_versions", "run", "tasks_of"]

FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)  # no room on disk, in a file, for this user
PACKAGES = ("totalqboost", "numpy", "scipy", "scikit-learn", "numba")
LINE = b'{"'  # how every line of a run begins
MOST_TASKS = 200_000
MOST_DONE = 200 * MOST_TASKS  # bytes


@dataclass(frozen=True)
class Task:
    """One strategy on one split of one data set."""

    dataset: str
    split: int
    strategy: str


def tasks_of(
    datasets: Iterable[str], splits: Iterable[int], strategies: Iterable[str]
) -> list[Task]:
    """Return all tasks, split by split, so that an early stop leaves whole splits."""
    datasets, strategies = list(datasets), list(strategies)
    return [Task(d, split, s) for split in splits for d in datasets for s in strategies]


def run(
    folder: str | os.PathLike[str],
    tasks: list[Task],
    settings: Settings,
    n_jobs: int = 1,
    on_task: Callable[[Task, int, int], None] | None = None,
    client: Client | None = None,
) -> list[Row]:
    """Run the tasks that are not done yet; return all rows of the folder.

    Parameters
    ----------
    folder : path
        Where the run lives; made if missing, continued if not.
    tasks : list of Task
        What to run.
    settings : Settings
        Must be those of the run that the folder holds.
    n_jobs : int
        Processes; the rows do not depend on it.
    on_task : callable, optional
        Called with (task, number done, number of tasks) after each task.
    client : distributed.Client, optional
        Workers of its cluster run the tasks, instead of processes; the rows are the same.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tasks = list(dict.fromkeys(tasks))
    with locked(folder) as check_lock:
        if (folder / "rows.jsonl.gz").exists() and not (folder / "rows.jsonl").exists():
            raise RunError(
                f"{folder} holds a finished run, compressed; choose another folder, or "
                "decompress rows.jsonl.gz to go on"
            )
        check_run(folder, settings)
        for name in ("rows.jsonl", "done.jsonl"):
            cut_torn_line(folder / name)
        read_rows(folder / "rows.jsonl")  # a damaged file must stop us before any work
        _run_open(folder, tasks, settings, n_jobs, on_task, client, check_lock)
        return read_rows(folder / "rows.jsonl")


def _run_open(
    folder: Path,
    tasks: list[Task],
    settings: Settings,
    n_jobs: int,
    on_task: Callable[[Task, int, int], None] | None,
    client: Client | None,
    check_lock: Callable[[], None],
) -> None:
    """Run the tasks that are not done yet, and keep their rows."""
    finished = _finished(folder)
    open_tasks = [task for task in tasks if task not in finished]
    if open_tasks:
        note_versions(folder)
    known = {row.key for row in read_rows(folder / "rows.jsonl")}
    began = time.perf_counter()
    n_done = len(tasks) - len(open_tasks)
    n_workers = n_jobs if client is None else len(client.nthreads())
    results = _results(_units(open_tasks), settings, n_jobs, client)

    def end() -> None:
        with warnings.catch_warnings():  # joblib tells what is cut short; so do we
            warnings.simplefilter("ignore")
            results.close()
        _add_time(folder, settings, time.perf_counter() - began, n_workers)

    try:
        for unit in results:
            for task, rows in unit:
                check_lock()
                keyed = {row.key: row for row in rows}  # equal prices, equal rows
                new = [row.to_dict() for key, row in keyed.items() if key not in known]
                append_lines(folder / "rows.jsonl", new)
                append_lines(folder / "done.jsonl", [{**asdict(task), "rows": len(keyed)}])
                n_done += 1
                if on_task is not None:
                    on_task(task, n_done, len(tasks))
    except BaseException as error:
        with suppress(OSError, RunError):  # what went wrong first is what there is to say
            end()
        if not isinstance(error, TerminatedWorkerError):
            raise
        raise RunError(
            "a worker process was ended by others, for lack of memory perhaps; what is done is "
            "kept, and the same command goes on"
        ) from error
    end()


def _units(tasks: list[Task]) -> list[list[Task]]:
    """Return what one process does at a time: a task, or E and then D, which needs E's answers.

    Split by split, the data sets with most rows first: the last units to end are short ones.
    """
    n_rows = {name: len(datasets.load(name)[1]) for name in {task.dataset for task in tasks}}
    units: dict[tuple[int, int, str, str], list[Task]] = {}
    for task in tasks:
        kind = "DE" if task.strategy in ("D", "E") else task.strategy
        key = (task.split, -n_rows[task.dataset], task.dataset, kind)
        units.setdefault(key, []).append(task)
    for unit in units.values():
        unit.sort(key=lambda task: task.strategy, reverse=True)
    return [units[key] for key in sorted(units, key=lambda key: key[:3])]


def _results(
    units: list[list[Task]], settings: Settings, n_jobs: int, client: Client | None
) -> Generator[list[tuple[Task, list[Row]]], None, None]:
    """Return what comes out of units, as they end."""
    if client is not None:
        return completed(client, partial(_rows, settings), units)
    with held_back(n_jobs):
        return Parallel(n_jobs=n_jobs, backend=_Processes(), return_as="generator_unordered")(
            delayed(_rows)(settings, unit) for unit in units
        )


class _Processes(LokyBackend):
    """Processes that end with the one that started them, also if they never got any work."""

    def configure(self, *args: Any, **settings: Any) -> int:
        begun = {"initializer": _begin, "initargs": (os.getpid(),)}
        n_jobs: int = super().configure(*args, **settings, **begun)
        return n_jobs


def _begin(driver: int) -> None:
    """Prepare a process of this run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that waits
    _end_with(driver)


def _rows(settings: Settings, unit: list[Task]) -> list[tuple[Task, list[Row]]]:
    """Return the rows of tasks."""
    found = []
    for task in unit:
        bench = prepared(task.dataset, task.split, settings)
        rows = rows_of(bench, task.strategy, keep_ensembles=task.split == 0)
        found.append((task, [Row.from_dict(row) for row in rows]))
    return found


def _end_with(driver: int) -> None:
    """Let this process end soon after the one that waits for it, even if that was killed.

    It may have been killed before we began: then our parent is already another process.
    """
    parent = os.getppid() if os.name == "nt" else driver  # there a launcher may be in between

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)  # nobody is there to hear more

    threading.Thread(target=watch, daemon=True).start()


def append_lines(path: Path, contents: list[dict[str, Any]]) -> None:
    """Append a line for each, and wait until they are on disk; all or nothing."""
    lines = "".join(json.dumps(content, allow_nan=False) + "\n" for content in contents)
    size = path.stat().st_size
    try:
        with open(path, "ab") as file:
            file.write(lines.encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:  # a full disk
        with suppress(OSError):  # else the next run cuts the line off
            os.truncate(path, size)
        raise _no_room(path, error) from error


def _no_room(path: Path, error: OSError) -> RunError:
    """Return what to say of a full disk; what else the system says stays as it is."""
    if error.errno not in FULL:
        raise error
    what = (error.strerror or str(error)).lower()
    return RunError(
        f"cannot write to {path}: {what}; what is done is kept, and the same command goes on "
        "when there is room"
    )


def cut_torn_line(path: Path) -> None:
    """Remove what a crash left of a last line, or make an empty file.

    What does not begin like a line of ours was written by somebody else, and stays.
    """
    try:
        content = read_bytes(path, MOST_BYTES) if path.exists() else b""
    except ValueError as error:
        raise RunError(f"{path}: {error}") from error
    whole = content[: content.rfind(b"\n") + 1]
    torn = content[len(whole) :].strip(b"\0")  # which some disks leave
    if torn[: len(LINE)] != LINE[: len(torn)]:
        raise RunError(f"{path} ends with what is no line of a run; choose another folder")
    if not path.exists() or len(whole) < len(content):
        try:
            with open(path, "r+b" if path.exists() else "xb") as file:
                file.truncate(len(whole))
        except OSError as error:
            raise _no_room(path, error) from error


def _finished(folder: Path) -> set[Task]:
    """Return the tasks that are done and have all of their rows; others are run again."""
    rows = read_rows(folder / "rows.jsonl")
    there = Counter(Task(row.dataset, row.split, row.strategy) for row in rows)
    finished = set()
    try:
        content = read_bytes(folder / "done.jsonl", MOST_DONE)
        if content.count(b"\n") > MOST_TASKS:
            raise ValueError(f"it must have at most {MOST_TASKS:,} lines")
        for line in content.splitlines():
            task, n_rows = _read_task(parse_json(line))
            if there[task] >= n_rows:
                finished.add(task)
    except ValueError as error:  # not UTF-8, not JSON, not a task
        raise RunError(f"{folder / 'done.jsonl'} is damaged: {error}") from error
    return finished


def _read_task(entry: Any) -> tuple[Task, int]:
    """Return a task and the number of its rows; runs of 0.2 did not count them."""
    names = {field.name for field in fields(Task)}
    if not isinstance(entry, dict) or entry.keys() - {"rows"} != names:
        raise ValueError(
            f"a line must have {', '.join(sorted(names))} and rows, got {short(entry)}"
        )
    n_rows = check_integer("rows", entry.get("rows", 1), 0)
    for name in ("dataset", "strategy"):
        if not isinstance(entry[name], str):
            raise ValueError(f"{name} must be a name, got {short(entry[name])}")
    split = check_integer("split", entry["split"], 0)
    return Task(entry["dataset"], split, entry["strategy"]), n_rows


def check_run(folder: Path, settings: Any) -> None:
    """Write the settings of a new run; refuse to mix two kinds of rows in one folder."""
    path, rows = folder / CONFIG, folder / "rows.jsonl"
    if not path.exists():
        if rows.exists() and rows.stat().st_size:
            raise RunError(
                f"{folder} holds rows without {CONFIG}, so their settings are not known; choose "
                "another folder"
            )
        _write_config(path, _new_config(settings))
        return
    held = read_config(path).get("settings")
    if not isinstance(held, dict):
        raise RunError(f"{path} is damaged: it must hold settings")
    ours = json.loads(json.dumps(asdict(settings)))
    for name in sorted(held.keys() | ours.keys()):
        if name not in ours or held.get(name) != ours[name]:
            wanted = f"not {ours[name]!r}" if name in ours else "which this version does not know"
            raise RunError(
                f"{folder} holds a run with {name} = {short(held.get(name))}, {wanted}; "
                "choose another folder"
            )


def _new_config(settings: Any) -> dict[str, Any]:
    """Return what stands beside the rows of a new run."""
    return {
        "settings": asdict(settings),
        "versions": _versions(),
        "machine": {
            "processor": platform.machine(),
            "system": platform.system(),
            "python": platform.python_version(),
            "cores": os.cpu_count(),
        },
        "wall_seconds": 0.0,
    }


def _versions() -> dict[str, str]:
    return {name: version(name) for name in PACKAGES}


def note_versions(folder: Path) -> None:
    """Keep in mind that rows are added with other versions than a run began with."""
    path = folder / CONFIG
    config, now = read_config(path), _versions()
    began, later = config.get("versions", {}), config.get("later_versions", [])
    changed = ", ".join(
        f"{name} {began[name]}, now {now[name]}"
        for name in now
        if name in began and began[name] != now[name]
    )
    if changed and now not in later:
        _write_config(path, {**config, "later_versions": [*later, now]})
        warn(f"{folder} began with {changed}: rows may differ in their last digits")


def _add_time(folder: Path, settings: Any, seconds: float, n_jobs: int) -> None:
    path = folder / CONFIG
    content = read_config(path) if path.exists() else _new_config(settings)  # somebody deleted it
    content["wall_seconds"] = round(content.get("wall_seconds", 0.0) + seconds, 3)
    content["jobs"] = n_jobs
    _write_config(path, content)


def _write_config(path: Path, content: dict[str, Any]) -> None:
    try:
        write_text(path, json.dumps(content, indent=1) + "\n")
    except OSError as error:
        raise _no_room(path, error) from error
