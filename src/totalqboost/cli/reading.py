"""Files of tables: CSV as people have it, compressed or not, Parquet, and standard input."""

from __future__ import annotations

import codecs
import csv
import io
import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from totalqboost.cli.errors import BadInput, columns, reason

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "STDIN",
    "Content",
    "Format",
    "is_comma_number",
    "name_of",
    "read_content",
]

STDIN = Path("-")
SEPARATORS = {",": "','", ";": "';'", "\t": "tab", "|": "'|'"}  # and how to type them
BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
SAMPLE = 20  # records that the separator is told from
FOREIGN = {
    b"PAR1": "a Parquet file; let its name end in .parquet",
    b"PK\x03\x04": "an Excel workbook or an archive; save the table as CSV",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; save the table as CSV",
}
WITH_COMMA = r"\s*[+-]?\d+(,\d+)?\s*"
NOT_THOUSANDS = r"\s*[+-]?\d+,(\d{1,2}|\d{4,})\s*"  # 1,5 is a decimal, 1,500 may be either


@dataclass(frozen=True)
class Format:
    """What the user says about CSV files; None is to be found out."""

    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None

    @classmethod
    def of(cls, sep: str | None, decimal: str | None, encoding: str | None) -> Format:
        """Return the options, checked."""
        if sep is not None:
            sep = {"tab": "\t", "\\t": "\t"}.get(sep, sep)
            if len(sep) != 1 or sep.isalnum() or sep in '"\r\n':
                raise BadInput(f"--sep must be one character such as ';', or tab, got {sep!r}")
        if decimal not in (None, ".", ","):
            raise BadInput(f"--decimal must be '.' or ',', got {decimal!r}")
        if encoding is not None:
            try:
                codecs.lookup(encoding)
            except LookupError:
                raise BadInput(
                    "--encoding must be the name of one, such as utf-8, latin-1, cp1252 or "
                    f"utf-16, got {encoding!r}"
                ) from None
        return cls(sep, decimal, encoding)


@dataclass(frozen=True)
class Content:
    """The columns of a file, and where in the file a row stands: complaints tell it."""

    name: str
    frame: pd.DataFrame
    text: Text | None = None  # None for Parquet

    def place(self, row: int) -> str:
        """Return where the row of the frame is."""
        if self.text is None:
            return f"row {row + 1}"
        return f"line {next(islice(self.text.rows(), row + 1, None), (0, []))[0]}"

    def other_separator(self) -> str:
        """Return what to type if the names look as if another character separated them."""
        names = "".join(self.frame.columns)
        other = [s for s in SEPARATORS if self.text and s != self.text.sep and s in names]
        return f"; if that is the separator, add --sep {SEPARATORS[other[0]]}" if other else ""

    def check_lengths(self) -> None:
        """Complain about a row that is shorter than the line of names, if there is one."""
        if self.text is not None:
            self.text.check_lengths()


@dataclass(frozen=True)
class Text:
    """The bytes of a CSV file, and how to read them."""

    name: str
    raw: bytes
    encoding: str
    sep: str

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the records that pandas sees, names first, with the line each begins on."""
        stream = io.TextIOWrapper(
            io.BytesIO(self.raw), encoding=self.encoding, errors="replace", newline=""
        )
        reader = csv.reader(stream, delimiter=self.sep)
        line = 1
        while True:
            try:
                fields = next(reader, None)
            except csv.Error:
                return  # e.g. a field of megabytes: pandas has its say
            if fields is None:
                return
            if len(fields) > 1 or any(field.strip() for field in fields):
                yield line, fields
            line = reader.line_num + 1

    @cached_property
    def header(self) -> list[str]:
        """The names of the columns."""
        return next(self.rows(), (0, []))[1]

    def check_lengths(self) -> None:
        """Complain about the first row that is longer or shorter than the line of names."""
        n = len(self.header)
        for line, fields in self.rows():
            if len(fields) == n or (len(fields) == n + 1 and not fields[-1]):
                continue
            where = f"line {line} has {len(fields)} fields, the line of names {n}"
            if len(fields) < n:
                where += f" (column {self.header[len(fields)]!r} is the first to be missing)"
            help = f"mend the line, or give another --sep than {SEPARATORS.get(self.sep, self.sep)}"
            raise BadInput(f"{self.name}: {where}; {help}")

    def check_separator(self) -> None:
        """Complain about a separator that finds one column where there are more."""
        if len(self.header) != 1:
            return
        for sep, typed in SEPARATORS.items():
            if sep in self.header[0]:
                raise BadInput(
                    f"{self.name} has one column only, {self.header[0]!r}, if "
                    f"{SEPARATORS.get(self.sep, repr(self.sep))} separates them; add --sep {typed}"
                )

    def check_names(self) -> None:
        """Refuse a second column of one name: pandas renames it, and labels become a feature."""
        names = [name for name in self.header if name]
        twice = list(dict.fromkeys(name for name in names if names.count(name) > 1))
        if twice:
            raise BadInput(f"{self.name} repeats the names of {columns(twice)}; rename one of each")

    def complaint(self, error: UnicodeDecodeError) -> BadInput:
        """Return what to say of bytes that are no text in the encoding."""
        start = error.start
        line = self.raw.count(b"\n", 0, start) + 1
        begun = self.raw[self.raw.rfind(b"\n", 0, start) + 1 : start].decode("latin-1")
        n = max(len(next(csv.reader([begun], delimiter=self.sep), [])), 1)
        where = f" (column {self.header[n - 1]!r})" if line > 1 and n <= len(self.header) else ""
        return BadInput(
            f"{self.name} is not {self.encoding.upper()} text: line {line}{where} has the byte "
            f"0x{self.raw[start]:02X}; if the file is in another encoding, name it: "
            "--encoding latin-1"
        )


def name_of(path: Path) -> str:
    """Return how to speak of a file."""
    return "standard input" if path == STDIN else str(path)


def read_content(path: Path, format: Format) -> Content:
    """Read a file of columns with names, by its suffix and what the user says of it."""
    name = name_of(path)
    if path.suffix.lower() in (".parquet", ".pq"):
        return Content(name, _read_parquet(path, format))
    text = _text(name, _bytes(path), format)
    text.check_separator()
    text.check_names()
    return Content(name, _read_csv(text, format), text)


def _bytes(path: Path) -> bytes:
    """Return what a file holds, unpacked."""
    import bz2
    import gzip
    import lzma

    open_file: Any = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}.get(path.suffix, open)
    try:
        if path == STDIN:
            return sys.stdin.buffer.read()
        with open_file(path, "rb") as file:
            return file.read()
    except (OSError, EOFError, lzma.LZMAError) as error:
        said = reason(error) if isinstance(error, OSError) else str(error).lower()
        raise BadInput(f"cannot read {path}: {said}") from error


def _text(name: str, raw: bytes, format: Format) -> Text:
    """Find out encoding and separator as far as the user has not named them."""
    if not raw.strip():
        raise BadInput(f"{name} is empty")
    for beginning, what in FOREIGN.items():
        if raw.startswith(beginning):
            raise BadInput(f"{name} is not a CSV file: it is {what}")
    encoding = format.encoding
    if encoding is None:
        encoding = next((e for bom, e in BOMS.items() if raw.startswith(bom)), "utf-8")
    if b"\0" in raw[:4096] and not encoding.lower().startswith(("utf-16", "utf_16", "utf-32")):
        raise BadInput(
            f"{name} is not a CSV file: it holds zero bytes; if it is UTF-16 text, "
            "add --encoding utf-16"
        )
    if format.sep is not None:
        return Text(name, raw, encoding, format.sep)
    tried = [Text(name, raw, encoding, sep) for sep in SEPARATORS]
    fitting = [text for text in tried if _fits(text)] or [t for t in tried if len(t.header) > 1]
    return fitting[0] if len(fitting) == 1 else tried[0]


def _fits(text: Text) -> bool:
    """Tell whether the first records all have as many fields as there are names, two or more."""
    lengths = {len(fields) for _, fields in islice(text.rows(), SAMPLE)}
    return len(lengths) == 1 and lengths != {1}


def _read_csv(text: Text, format: Format) -> pd.DataFrame:
    import pandas as pd

    try:
        try:
            frame = _parsed(text, format, "error")
        except pd.errors.ParserWarning:  # rows are longer than the line of names
            text.check_lengths()
            frame = _parsed(text, format, "ignore")  # by a separator at their end only
    except pd.errors.EmptyDataError as error:
        raise BadInput(f"{text.name} is empty") from error
    except UnicodeError as error:
        try:
            text.raw.decode(text.encoding)
        except UnicodeDecodeError as bad:
            raise text.complaint(bad) from error
        raise BadInput(f"{text.name} is not {text.encoding.upper()} text: {error}") from error
    except pd.errors.ParserError as error:
        text.check_lengths()
        raise BadInput(f"{text.name} is not a CSV file: {error}") from error
    if frame.empty:
        raise BadInput(f"{text.name} has no rows, only a line of column names")
    if format.decimal is None and text.sep != ",":
        _mend_decimals(text, frame)
    return frame


def _parsed(text: Text, format: Format, on_warning: Literal["error", "ignore"]) -> pd.DataFrame:
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter(on_warning, pd.errors.ParserWarning)
        return pd.read_csv(
            io.BytesIO(text.raw),
            sep=text.sep,
            decimal=format.decimal or ".",
            encoding=text.encoding,
            low_memory=False,
            index_col=False,
        )


def _mend_decimals(text: Text, frame: pd.DataFrame) -> None:
    """Turn columns such as '1,5' into numbers if no number of the table has a decimal point."""
    from pandas.api.types import is_float_dtype, is_numeric_dtype

    numbers = [name for name in frame if is_numeric_dtype(frame[name].dtype)]
    fractions = (frame[name].dropna() % 1 for name in numbers if is_float_dtype(frame[name].dtype))
    if len(numbers) == frame.shape[1] or any((part != 0).any() for part in fractions):
        return
    commas = _parsed(text, Format(decimal=","), "ignore")
    for name in set(frame) - set(numbers):
        is_number = is_numeric_dtype(commas[name].dtype)
        if is_number and any(re.fullmatch(NOT_THOUSANDS, v) for v in frame[name].dropna()):
            frame[name] = commas[name]


def _read_parquet(path: Path, format: Format) -> pd.DataFrame:
    import pandas as pd

    if format != Format():
        raise BadInput(f"--sep, --decimal and --encoding are for CSV files, {path} is Parquet")
    if find_spec("pyarrow") is None:
        raise BadInput(f'{path} needs pyarrow; install with pip install "totalqboost[parquet]"')
    raw = _bytes(path)
    try:
        frame = pd.read_parquet(io.BytesIO(raw), engine="pyarrow")
    except (ValueError, OSError) as error:  # pyarrow's ArrowInvalid, or a damaged page
        raise BadInput(f"{path} is not a Parquet file: {error}") from error
    if frame.empty:
        raise BadInput(f"{path} has no rows")
    return frame.rename(columns=str).reset_index(drop=True)


def is_comma_number(value: str) -> bool:
    """Tell whether a text is a number but for its decimal comma."""
    return "," in value and re.fullmatch(WITH_COMMA, value) is not None
