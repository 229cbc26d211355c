"""``totalqboost export``: a saved model for other programs, and for people."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from totalqboost import export as exports
from totalqboost.cascade import Cascade
from totalqboost.cli import options
from totalqboost.cli.errors import BadInput, check_name, listed
from totalqboost.cli.models import feature_columns, load_model, text_columns
from totalqboost.cli.outputs import check_output, print_text, writing
from totalqboost.cli.reading import Format
from totalqboost.cli.table import read_table
from totalqboost.ensemble import Ensemble
from totalqboost.files import write_bytes

__all__ = ["export"]

FORMS = ("c", "onnx", "sql", "python", "json", "scorecard")
FORMS_OF_DETECTORS = ("c", "json")
CARDS = {".md": "markdown", ".html": "html", ".htm": "html", ".png": "png"}
# Options → the forms that know them.
KNOWN_TO = {
    "--name": ("c", "python"),
    "--input": ("c", "onnx"),
    "--optimize": ("c",),
    "--probabilities": ("c",),
    "--report": ("c",),
    "--opset": ("onnx",),
    "--matrix": ("onnx",),
    "--value": ("sql",),
    "--of": ("sql",),
    "--table": ("sql",),
    "--dialect": ("sql",),
    "--points": ("scorecard",),
    "--title": ("scorecard",),
    "--rows": ("c", "scorecard"),
}
# What the functions call an argument → the option.
OPTION_OF = {"output": "--value", "format": "--out"}


def export(
    model: options.Model,
    to: Annotated[str, typer.Option(metavar="FORM", help=f"One of {', '.join(FORMS)}.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "--output",
            help="Where to write it. Default: standard output, for onnx the name of the model with "
            "the ending .onnx. A scorecard is Markdown, or what the ending .html or .png says.",
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", "--force", help="Replace the file if it exists.")
    ] = False,
    name: Annotated[
        str | None,
        typer.Option(
            help="c: prefix of all names (model, detector). python: the function (predict)."
        ),
    ] = None,
    input: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE",
            help="Type of the numbers. c: float32 (default), int16, uint8. onnx: float32 "
            "(default), float64.",
        ),
    ] = None,
    optimize: Annotated[
        str | None, typer.Option(metavar="AIM", help="c: size (default) or speed.")
    ] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="c: add a function for probabilities.")
    ] = False,
    report: Annotated[
        bool,
        typer.Option(
            "--report",
            help="c: print flash, RAM and instructions on devices, with the compilers and "
            "emulators that are found.",
        ),
    ] = False,
    opset: Annotated[int | None, typer.Option(help="onnx: version of the operators.")] = None,
    matrix: Annotated[
        bool,
        typer.Option(
            "--matrix", help="onnx: one input for all columns, in which categories are codes."
        ),
    ] = False,
    value: Annotated[
        str | None, typer.Option(help="sql: label (default), score or probability.")
    ] = None,
    of: Annotated[
        str | None,
        typer.Option(metavar="LABEL", help="sql: the class of the score or the probability."),
    ] = None,
    table: Annotated[
        str | None, typer.Option(help="sql: write a query of this table, not an expression.")
    ] = None,
    dialect: Annotated[
        str | None, typer.Option(help="sql: ansi (default), sqlite or duckdb.")
    ] = None,
    points: Annotated[
        int | None,
        typer.Option(help="scorecard: points of the heaviest rule, if they must be rounded (10)."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="scorecard: the heading.")] = None,
    rows: Annotated[
        Path | None,
        typer.Option(
            metavar="DATA",
            help="c, scorecard: a table; the export says on how many of its rows labels differ "
            "from those of the model where numbers are rounded.",
        ),
    ] = None,
    sep: options.Sep = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
) -> None:
    """Write a saved model for other programs, or for people.

    \b
    c          one header of C99 without dependencies, for a sensor or a phone
    onnx       a model for ONNX runtimes (extra: totalqboost[export])
    sql        one expression of the columns of a table
    python     a module that needs nothing but Python
    json       the model itself, with a published schema
    scorecard  points for each rule, to be printed and added up by hand

    Labels are those of the model; a scorecard whose points had to be rounded says how often they
    are not. What cannot be exported is refused before anything is written. A detector can be
    written as c, with all its rejections, and as json.

    \b
      totalqboost export model.json --to c --out model.h --report
      totalqboost export model.json --to onnx
      totalqboost export model.json --to sql --table patients --dialect duckdb
      totalqboost export model.json --to scorecard --rows data.csv --out card.html
    """
    given = {
        "--name": name,
        "--input": input,
        "--optimize": optimize,
        "--probabilities": probabilities or None,
        "--report": report or None,
        "--opset": opset,
        "--matrix": matrix or None,
        "--value": value,
        "--of": of,
        "--table": table,
        "--dialect": dialect,
        "--points": points,
        "--title": title,
        "--rows": rows,
    }
    check_name("--to", to, FORMS)
    _check_options(to, given)
    format = Format.of(sep, decimal, encoding)
    own = load_model(model)
    if isinstance(own, Cascade):
        _check_form_of_detector(to)
    if to == "onnx" and out is None:
        out = model.with_suffix(".onnx")
    if out is not None:
        check_output(out, overwrite, [model] if rows is None else [model, rows])
    with _refusing():
        for ensemble in _ensembles(own):
            exports.exportable(ensemble)
    frame = None if rows is None else _frame(rows, format, own)
    with _refusing():
        content = (
            _detector(to, own, given, frame)
            if isinstance(own, Cascade)
            else _content(to, own, given, frame, out)
        )
    _write(content, out)
    if report:
        default = "detector" if isinstance(own, Cascade) else "model"
        _report(content, name or default, on_stdout=out is not None)


def _check_form_of_detector(to: str) -> None:
    if to not in FORMS_OF_DETECTORS:
        raise BadInput(
            f"--to {to} is for models, and this is a detector, whose rejections would be lost; "
            f"--to {' and --to '.join(FORMS_OF_DETECTORS)} keep them"
        )


def _ensembles(model: Ensemble | Cascade) -> list[Ensemble]:
    if isinstance(model, Cascade):
        return [stage.ensemble for stage in model.stages]
    return [model]


def _check_options(to: str, given: dict[str, Any]) -> None:
    """Refuse options that the form does not know."""
    for option, value in given.items():
        if value is not None and to not in KNOWN_TO[option]:
            forms = " and ".join(KNOWN_TO[option])
            raise BadInput(f"{option} is for --to {forms}, not for --to {to}")


def _frame(rows: Path, format: Format, model: Ensemble | Cascade) -> Any:
    table = read_table(rows, format, text_columns(model))
    return feature_columns(table, model)


def _content(
    to: str, ensemble: Ensemble, given: dict[str, Any], frame: Any, out: Path | None
) -> str | bytes:
    """Return what is written of a model."""

    def chosen(*names: str) -> dict[str, Any]:
        return _chosen(given, *names)

    match to:
        case "c":
            own = chosen("name", "input", "optimize", "probabilities")
            header: str = exports.to_c(ensemble, rows=frame, **own)
            return header
        case "onnx":
            columns = False if given["--matrix"] else None
            made = exports.to_onnx(ensemble, columns=columns, **chosen("input", "opset"))
            return bytes(made.SerializeToString())
        case "sql":
            own = chosen("table", "dialect")
            output, of = given["--value"] or "label", _label(ensemble, given["--of"])
            return f"{exports.to_sql(ensemble, output, of=of, **own).rstrip()}\n"
        case "python":
            return str(exports.to_python(ensemble, **chosen("name")))
        case "json":
            return str(exports.to_json(ensemble))
    own = {"rows": frame, **chosen("points", "title")}
    card: str | bytes = exports.to_scorecard(ensemble, _card_format(out), **own)
    return card


def _detector(to: str, cascade: Cascade, given: dict[str, Any], frame: Any) -> str:
    """Return what is written of a detector."""
    if to == "json":
        return json.dumps(cascade.to_dict(), indent=1, allow_nan=False) + "\n"
    own = _chosen(given, "name", "input", "optimize", "probabilities")
    return cascade.to_c(rows=frame, **own)


def _chosen(given: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return the arguments that were given."""
    return {n: given[f"--{n}"] for n in names if given[f"--{n}"] is not None}


def _label(ensemble: Ensemble, of: str | None) -> Any:
    """Return the class that was named."""
    if of is None:
        return None
    found = [label for label in ensemble.classes if str(label) == of]
    if not found:
        raise BadInput(f"--of must be one of {listed(ensemble.classes)}, got {of!r}")
    return found[0]


def _card_format(out: Path | None) -> str:
    if out is None:
        return "markdown"
    if out.suffix.lower() not in CARDS:
        raise BadInput(f"--out of a scorecard must end in {', '.join(CARDS)}, got {out}")
    return CARDS[out.suffix.lower()]


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """Turn what an exporter refuses into a sentence that names options."""
    try:
        yield
    except (TypeError, ValueError, ImportError) as error:
        raise BadInput(re.sub(r"^(\w+)(?= must )", _option, str(error))) from error


def _option(match: re.Match[str]) -> str:
    word = match[1]
    option = OPTION_OF.get(word, f"--{word}")
    return option if option in {*KNOWN_TO, *OPTION_OF.values()} else word


def _write(content: str | bytes, out: Path | None) -> None:
    plain = content.encode("utf-8") if isinstance(content, str) else content
    if out is None:
        print_text(plain)
        return
    with writing(out):
        write_bytes(out, plain)
    typer.echo(f"Written to {out} ({len(plain):,} bytes).", err=True)


def _report(header: str | bytes, name: str, on_stdout: bool) -> None:
    """Print what the header costs on devices."""
    from totalqboost.export import targets

    typer.echo(targets.report(str(header), name=name), err=not on_stdout)
