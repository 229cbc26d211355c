"""The application: its commands, and one way to end for every kind of bad input."""

from __future__ import annotations

import io
import os
import sys
import warnings
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from totalqboost import __version__
from totalqboost.cli.demo import demo
from totalqboost.cli.errors import BadInput, reason
from totalqboost.cli.export import export
from totalqboost.cli.fit import fit
from totalqboost.cli.frontier import frontier
from totalqboost.cli.glass import glass
from totalqboost.cli.info import info
from totalqboost.cli.predict import predict
from totalqboost.cli.report import report
from totalqboost.cli.reproduce import reproduce
from totalqboost.cli.solve import solve
from totalqboost.interruption import unwrapped_interruption

__all__ = ["app"]

# Click's class; newer releases of typer bring a copy of Click that has no public name.
UsageError = cast(type[typer.BadParameter], typer.BadParameter.__bases__[0])


def _stdout_fails() -> bool:
    """Tell whether standard output takes nothing more; Python is not to try again at its end."""
    try:
        os.write(sys.stdout.fileno(), b"\n")  # a flush has forgotten what it could not write
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


def _say_warning(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
    """Say a warning in one sentence; where it comes from and what is outdated helps no user."""
    if not issubclass(category, DeprecationWarning | PendingDeprecationWarning | FutureWarning):
        sentence = " ".join(str(message).split()).replace("l1_penalty=", "--l1-penalty ")
        typer.echo(f"warning: {sentence}", err=True)


class Commands(TyperGroup):
    """All commands; bad input ends them with one sentence on stderr and exit code 2."""

    has_ended = False  # by a command's own words

    def invoke(self, ctx: Any) -> Any:
        try:
            with unwrapped_interruption():
                return super().invoke(ctx)
        except typer.Exit:
            self.has_ended = True
            raise
        except KeyboardInterrupt:  # a command had no words for it; typer's depend on the release
            raise typer.Abort from None

    def main(self, *args: Any, **extra: Any) -> Any:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # a terminal may know ASCII only
                stream.reconfigure(errors="backslashreplace")
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _say_warning
                code = super().main(*args, **{**extra, "standalone_mode": False})
        except typer.Abort:
            typer.echo("Interrupted.", err=True)
            sys.exit(130)
        except BadInput as error:
            sentence = str(error)
        except UsageError as error:
            command = error.ctx.command_path if error.ctx else "totalqboost"
            sentence = error.format_message().rstrip(".")
            if "unexpected extra argument" in sentence and ".parquet" in sentence:
                sentence += "; put a pattern of files in quotes, such as 'parts/*.parquet'"
            sentence += f" (see {command} --help)"
        except OSError as error:
            if not _stdout_fails():
                raise
            sentence = f"cannot write to standard output: {reason(error)}"
        except Exception as error:
            from joblib.externals.loky.process_executor import TerminatedWorkerError

            if not isinstance(error, TerminatedWorkerError):
                raise
            sentence = "a worker process was ended by others, for lack of memory perhaps"
        else:
            if code == 130 and not self.has_ended:  # typer: Ctrl-C before there was a command
                typer.echo("Interrupted.", err=True)
            sys.exit(code if isinstance(code, int) else 0)
        typer.echo(f"error: {' '.join(sentence.split())}", err=True)
        sys.exit(2)


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    rich_markup_mode=None,  # plain help: paragraphs fit the terminal, examples stay as they are
    pretty_exceptions_enable=False,  # an unexpected error keeps its plain traceback
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"totalqboost {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def totalqboost(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    """Train the smallest boosted ensemble that does the job, and use it.

    Start with the demo; then bring a table of your own, a CSV or Parquet file with a line of
    column names: one column of labels, numbers or text in the others. Look at all sizes, or let
    the price per weak classifier decide; --cv gives an error that does not flatter:

    \b
      totalqboost demo
      totalqboost frontier data.csv --target y --out frontier.html --open
      totalqboost fit data.csv --target y --cv 5 --out model.json
      totalqboost info model.json
      totalqboost predict model.json new.csv --out predictions.csv
      totalqboost export model.json --to c --out model.h
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


for command in (fit, frontier, predict, info, export, demo, solve, report):
    app.command()(command)

experiments = typer.Typer(rich_markup_mode=None, add_completion=False)
experiments.callback(invoke_without_command=True)(reproduce)  # the paper's, if none is named
experiments.command()(glass)
app.add_typer(experiments, name="reproduce")
