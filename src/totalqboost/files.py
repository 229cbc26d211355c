"""Files that users exchange: written all or not at all, and read with care."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

__all__ = [
    "MOST_MODEL",
    "MOST_VALUES",
    "parse_json",
    "read_bytes",
    "replacing",
    "write_bytes",
    "write_text",
]

MOST_VALUES = 2 * 10**7  # of JSON: an empty list of two bytes takes thirty times that memory
MOST_MODEL = 10**8  # bytes


def read_bytes(path: str | os.PathLike[str], most: int) -> bytes:
    """Return the content of a file; one that is none, or larger, is a ValueError."""
    path = Path(path)
    if path.exists() and not (path.is_file() or path.is_dir()):  # to read a pipe is to wait
        raise ValueError("it must be a file")
    if (size := path.stat().st_size) > most:
        raise ValueError(f"it must have at most {most:,} bytes, got {size:,}")
    return path.read_bytes()


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file so that a reader sees the old content or the new, never half of it."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Do the same for a file of bytes."""
    with replacing(path) as file:
        file.write(content)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Give a file to write to, which takes its name when all is written."""
    path = Path(path).resolve()  # a link stays a link, its target is replaced
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)  # mkstemp makes private files; give the usual permissions
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def parse_json(content: bytes) -> Any:
    """Return the values of a JSON text; editors may have put a byte order mark before it.

    Raises
    ------
    ValueError
        Also where JSON would be read as something else than what is written: a key that an
        object has twice, brackets deeper than Python can follow, halves of characters. And where
        there are so many values that reading them would take gigabytes.
    """
    if len(content) > MOST_VALUES and sum(content.count(sign) for sign in b",[{") > MOST_VALUES:
        raise ValueError(f"it must hold at most {MOST_VALUES:,} values")
    try:
        values = json.loads(content.decode("utf-8-sig"), object_pairs_hook=_object)
        if b"\\ud" in content.lower():  # most are whole characters, in two parts
            json.dumps(values, ensure_ascii=False).encode("utf-8")
        return values
    except UnicodeEncodeError:
        raise ValueError("a text holds half of a character") from None
    except RecursionError:
        raise ValueError("brackets are nested too deeply") from None
    except ValueError as error:
        if "int_max_str_digits" in str(error):  # Python's advice is for programmers
            raise ValueError("a number has thousands of digits") from None
        raise


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {twice!r} occurs twice in one object")
    return found
