"""The command line: parse, call the library, print. Heavy imports wait until a command runs."""

from __future__ import annotations

from typing import Annotated

import typer

from genlabel.cli.compare import compare
from genlabel.cli.suite import suite

__all__ = ["app", "main"]

app = typer.Typer(
    name="genlabel",
    help="Mixup whose labels come from learned class densities.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(compare)
app.command()(suite)


def main() -> None:
    """Run the command line."""
    app(prog_name="genlabel")


def _show_version(wanted: bool) -> None:
    if wanted:
        from genlabel import __version__

        typer.echo(f"genlabel {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Mixup whose labels come from learned class densities."""
