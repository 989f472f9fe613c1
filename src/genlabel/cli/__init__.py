"""The command line: a module for each command, which parses options, calls the library and prints.

Heavy imports wait until a command runs. Other packages add commands by entry points of the group "genlabel.commands".
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.metadata import entry_points
from io import TextIOWrapper
from typing import Annotated

import typer

from genlabel.cli.compare import compare
from genlabel.cli.datasets import datasets
from genlabel.cli.diagnose import diagnose
from genlabel.cli.explain import explain
from genlabel.cli.export import export
from genlabel.cli.fit import fit
from genlabel.cli.options import running_command
from genlabel.cli.predict import predict
from genlabel.cli.train_images import train_images

BROKEN_PIPE_CODE = 141
"""Exit code that a shell gives of a program in front of `head`: 128 + SIGPIPE."""

app = typer.Typer(
    name="genlabel",
    help="Mixup whose labels come from learned class densities.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (compare, diagnose, fit, predict, explain, export, datasets, train_images):
    app.command()(command)


def main() -> None:
    """Run the command line, with the commands of other packages."""
    add_commands()
    try:
        app(prog_name="genlabel")
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # click makes it exit code 1
            raise SystemExit(BROKEN_PIPE_CODE) from None
        raise
    except OSError as error:  # the standard output cannot be written, for instance because a disk is full
        if "--debug" in sys.argv:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        typer.echo(f"Error: the standard output cannot be written ({error.strerror or error}); free its disk", err=True)
        raise SystemExit(2) from None


@cache
def add_commands() -> None:
    """Add the commands of other packages, once."""
    for entry in entry_points(group="genlabel.commands"):
        app.command(entry.name)(entry.load())


def _show_version(wanted: bool) -> None:
    if wanted:
        from genlabel import __version__

        typer.echo(f"genlabel {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Mixup whose labels come from learned class densities."""
    token = running_command.set(context.invoked_subcommand)
    context.call_on_close(lambda: running_command.reset(token))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # print question marks instead of failing after a long run
