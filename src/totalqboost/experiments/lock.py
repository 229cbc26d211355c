"""One process at a time writes into the folder of a run."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from totalqboost.experiments.rows import RunError

__all__ = ["LOCK", "locked"]

LOCK = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[Callable[[], None]]:
    """Hold the lock of a folder; a folder that another process writes into is an error.

    Gives a function that raises if the lock's file has been deleted, for then others take it.
    The operating system gives the lock back when its owner ends, however that happens: the file
    that a killed process leaves behind stops nobody. It tells who the owner is.
    """
    path = folder / LOCK
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise RunError(f"{path} must be a file, which a run makes; delete what is there")

    def check() -> None:
        try:
            is_ours = os.path.samestat(os.fstat(file.fileno()), os.stat(path))
        except FileNotFoundError:
            is_ours = False
        if not is_ours:
            raise RunError(
                f"{path} was deleted, so another process may write too; what is done is kept, "
                "and the same command goes on"
            )

    with open(path, "a+", encoding="utf-8", errors="replace") as file:
        if not _is_taken(file):
            file.seek(0)
            owner = file.read(200).strip() or "another process"
            raise RunError(
                f"{folder} is being written by {owner}; wait for it or choose another folder"
            )
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield check


def _is_taken(file: Any) -> bool:
    """Take the lock of an open file unless somebody else has it.

    A file system without locks is an error of its own: nobody else is to be waited for.
    """
    try:
        if os.name == "nt":  # pragma: no cover
            import msvcrt

            file.seek(1000)  # a byte beyond the text, so that others can read who it is
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl

            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        what = (error.strerror or str(error)).lower()
        raise RunError(
            f"cannot lock {file.name}: {what}; choose a folder on another disk"
        ) from error
    return True
