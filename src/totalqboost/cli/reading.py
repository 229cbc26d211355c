"""Files of tables: CSV as people have it, compressed or not, Parquet, and standard input."""

from __future__ import annotations

import codecs
import csv
import io
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from totalqboost.cli.errors import BadInput, columns, reason

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "STDIN",
    "Content",
    "Format",
    "name_of",
    "read_content",
]

STDIN = Path("-")
SEPARATORS = {",": "','", ";": "';'", "\t": "tab", "|": "'|'"}  # and how to type them
BOMS = {  # that of UTF-32 begins with that of UTF-16
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
NOT_FOR_FILES = ("idna", "punycode")  # encodings of single names
PACKED = {rb"\x1f\x8b": "gzip", rb"BZh[1-9]1AY&SY": "bz2", rb"\xfd7zXZ\0": "lzma"}
EXCEL_SEP = rb"(\xef\xbb\xbf)?sep=([^\w\s]|\t)(?=\r?\n)"
SAMPLE = 20  # records that the separator is told from
FOREIGN = {
    b"PAR1": "a Parquet file; let its name end in .parquet",
    b"PK\x03\x04": "an Excel workbook or an archive; save the table as CSV",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; save the table as CSV",
    b"\x28\xb5\x2f\xfd": "packed by zstd; unpack it first",
}
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
            encoding = _encoding(encoding)
        return cls(sep, decimal, encoding)


def _encoding(name: str) -> str:
    """Return the usual name of an encoding of text."""
    try:
        known = codecs.lookup(name).name
        "a".encode(known)  # a LookupError if it is of bytes, such as hex
        if known not in NOT_FOR_FILES:
            return known
    except (LookupError, UnicodeError):
        pass
    raise BadInput(
        "--encoding must be the name of one, such as utf-8, latin-1, cp1252 or utf-16, "
        f"got {name!r}"
    )


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
        names = next(self.rows(), (0, []))[1]
        return [names[0].lstrip("\ufeff"), *names[1:]] if names else []

    def check_lengths(self, may_end_in_sep: bool = True) -> None:
        """Complain about the first row that is longer or shorter than the line of names."""
        n = len(self.header)
        for line, fields in self.rows():
            is_ended = len(fields) == n + 1 and not fields[-1]
            if len(fields) == n or (is_ended and may_end_in_sep):
                continue
            where = f"line {line} has {len(fields)} fields, the line of names {n}"
            if len(fields) < n:
                where += f" (column {self.header[len(fields)]!r} is the first to be missing)"
            elif is_ended:
                where += " (it ends in a separator)"
            help = f"mend the line, or give another --sep than {SEPARATORS.get(self.sep, self.sep)}"
            raise BadInput(f"{self.name}: {where}; {help}")

    def check_separator(self) -> None:
        """Complain about a separator that finds one column where there are more."""
        if len(self.header) != 1:
            return
        for sep, typed in {**SEPARATORS, " ": "' '"}.items():
            if sep in self.header[0] and (sep != " " or _fits(replace(self, sep=sep))):
                raise BadInput(
                    f"{self.name} has one column only, {self.header[0]!r}, if "
                    f"{SEPARATORS.get(self.sep, repr(self.sep))} separates them; add --sep {typed}"
                )

    def check_names(self) -> None:
        """Refuse a second column of one name: pandas renames it, and labels become a feature."""
        twice = [name for name, n in Counter(self.header).items() if name and n > 1]
        if twice:
            raise BadInput(f"{self.name} repeats the names of {columns(twice)}; rename one of each")

    def unclosed_quote(self) -> BadInput:
        """Return what to say of a quote that is never closed: the last record has it."""
        csv.field_size_limit(len(self.raw) + 1)  # that record may be most of the file
        line = [line for line, _ in self.rows()][-1]
        return BadInput(
            f"{self.name}: a quote in line {line} is never closed; close it, or double it if it "
            "belongs to the text"
        )

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


def name_of(path: Path | str) -> str:
    """Return how to speak of a file, or of the address of many."""
    return "standard input" if str(path) == str(STDIN) else str(path)


def read_content(path: Path, format: Format, text_columns: Sequence[str] = ()) -> Content:
    """Read a file of columns with names, by its suffix and what the user says of it."""
    name = name_of(path)
    if path.suffix.lower() in (".parquet", ".pq"):
        return Content(name, _read_parquet(path, format))
    text = _text(name, _bytes(path), format)
    text.check_separator()
    text.check_names()
    return Content(name, _read_csv(text, format, text_columns), text)


def _bytes(path: Path) -> bytes:
    """Return what a file holds, unpacked if it is packed, whatever its name."""
    import lzma
    import zlib
    from importlib import import_module

    try:
        raw = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
        for beginning, module in PACKED.items():
            if re.match(beginning, raw):
                unpacked: bytes = import_module(module).decompress(raw)
                return unpacked
    except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error) as error:
        said = reason(error) if isinstance(error, OSError) else str(error).lower()
        raise BadInput(f"cannot read {name_of(path)}: {said}") from error
    except MemoryError as error:
        raise BadInput(
            f"cannot read {name_of(path)}: it takes more memory than there is"
        ) from error
    return raw


def _text(name: str, raw: bytes, format: Format) -> Text:
    """Find out encoding and separator as far as the user has not named them."""
    if not raw.strip():
        raise BadInput(f"{name} is empty")
    for beginning, what in FOREIGN.items():
        if raw.startswith(beginning):
            raise BadInput(f"{name} is not a CSV file: it is {what}")
    encoding, sep = format.encoding, format.sep
    if encoding is None:
        encoding = next((e for bom, e in BOMS.items() if raw.startswith(bom)), "utf-8")
    _check_zeros(name, raw, encoding)
    if excel := re.match(EXCEL_SEP, raw):
        raw = raw[excel.end() :]  # a blank line stays, so that lines keep their numbers
        sep = sep or excel[2].decode()
    if sep is not None:
        return Text(name, raw, encoding, sep)
    tried = [Text(name, raw, encoding, sep) for sep in SEPARATORS]
    fitting = [text for text in tried if _fits(text)] or [t for t in tried if len(t.header) > 1]
    return fitting[0] if len(fitting) == 1 else tried[0]


def _check_zeros(name: str, raw: bytes, encoding: str) -> None:
    """Complain about zero bytes outside of UTF-16 and UTF-32, and about these without a mark."""
    order = "be" if raw.startswith(b"\0") else "le"
    if encoding in ("utf-16", "utf-32"):
        if not raw.startswith(tuple(BOMS)):
            raise BadInput(
                f"{name} does not begin with a byte order mark; add --encoding {encoding}-{order}"
            )
    elif b"\0" in raw[:4096] and not encoding.startswith(("utf-16", "utf-32")):
        raise BadInput(
            f"{name} is not a CSV file: it holds zero bytes; if it is UTF-16 text, "
            f"add --encoding utf-16-{order}"
        )


def _fits(text: Text) -> bool:
    """Tell whether the first records all have as many fields as there are names, two or more."""
    lengths = {len(fields) for _, fields in islice(text.rows(), SAMPLE)}
    return len(lengths) == 1 and lengths != {1}


def _read_csv(text: Text, format: Format, as_text: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    try:
        try:
            frame = _parsed(text, format, "error", as_text)
        except pd.errors.ParserWarning:  # rows are longer than the line of names
            text.check_lengths()
            frame = _parsed(text, format, "ignore", as_text)  # by a separator at their end only
    except pd.errors.EmptyDataError as error:
        raise BadInput(f"{text.name} is empty") from error
    except UnicodeError as error:
        try:
            text.raw.decode(text.encoding)
        except UnicodeDecodeError as bad:
            raise text.complaint(bad) from error
        raise BadInput(f"{text.name} is not {text.encoding.upper()} text: {error}") from error
    except pd.errors.ParserError as error:
        if "EOF inside string" in str(error):
            raise text.unclosed_quote() from error
        text.check_lengths(may_end_in_sep=False)
        raise BadInput(f"{text.name} is not a CSV file: {error}") from error
    if frame.empty:
        raise BadInput(f"{text.name} has no rows, only a line of column names")
    if format.decimal is None and text.sep != ",":
        frame = _with_decimal_commas(text, frame, as_text)
    unnamed = [name for name, given in zip(frame, text.header, strict=False) if not given.strip()]
    return frame.drop(columns=[name for name in unnamed if frame[name].isna().all()])


def _parsed(
    text: Text, format: Format, on_warning: Literal["error", "ignore"], as_text: Sequence[str]
) -> pd.DataFrame:
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
            dtype=dict.fromkeys(as_text, str),
        )


def _with_decimal_commas(text: Text, frame: pd.DataFrame, as_text: Sequence[str]) -> pd.DataFrame:
    """Return the table read anew if numbers such as '1,5' tell that commas are decimal.

    They are not if a number has a decimal point. A point that may stand for either, as in
    1.000, is the user's to explain.
    """
    from pandas.api.types import is_float_dtype, is_numeric_dtype

    texts = [name for name in frame if not is_numeric_dtype(frame[name].dtype)]
    floats = [name for name in frame if is_float_dtype(frame[name].dtype)]
    if not texts or any((frame[name].dropna() % 1 != 0).any() for name in floats):
        return frame
    commas = _parsed(text, Format(decimal=","), "ignore", as_text)
    mended = [
        name
        for name in texts
        if is_numeric_dtype(commas[name].dtype)
        and any(re.fullmatch(NOT_THOUSANDS, value) for value in frame[name].dropna())
    ]
    if not mended:
        return frame
    lost = [name for name in floats if not is_numeric_dtype(commas[name].dtype)]
    if lost:
        raise BadInput(
            f"{text.name}: numbers have decimal commas in {columns(mended)}, and points in "
            f"{columns(lost)}; remove the points if they separate thousands, or give --decimal"
        )
    return commas


def _read_parquet(path: Path, format: Format) -> pd.DataFrame:
    import pandas as pd

    if format != Format():
        raise BadInput(f"--sep, --decimal and --encoding are for CSV files, {path} is Parquet")
    raw = _bytes(path)
    if find_spec("pyarrow") is None:
        raise BadInput(f'{path} needs pyarrow; install with pip install "totalqboost[parquet]"')
    try:
        frame = pd.read_parquet(io.BytesIO(raw), engine="pyarrow")
    except (ValueError, OSError) as error:  # pyarrow's ArrowInvalid, or a damaged page
        raise BadInput(f"{path} is not a Parquet file: {error}") from error
    if frame.empty:
        raise BadInput(f"{path} has no rows")
    return frame.rename(columns=str).reset_index(drop=True)
