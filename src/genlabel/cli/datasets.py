"""`genlabel datasets`: the tables that other commands can name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table as Grid
from rich.text import Text

from genlabel.cli.console import Debug, one_line_errors, print_grid, print_line

if TYPE_CHECKING:
    import pandas as pd


def datasets(
    search: Annotated[str | None, typer.Option(metavar="TEXT", help="Only those that have this in a column.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON list, for machines.")] = False,
    debug: Debug = False,
) -> None:
    """List the tables that compare, diagnose and fit can name: built-in, synthetic, and OpenML sets at hand.

    Those of OpenML are in the folder that the environment variable GENLABEL_DATA_HOME names. Nothing is downloaded; a
    set that is not listed can be named too (openml:61), and is downloaded when it is used. Exit codes: 0 done, also if
    nothing is found; 2 something is wrong with the input.
    """
    with one_line_errors(debug=debug):
        from genlabel.data.datasets import list_tables

        found = list_tables()
        at_hand = bool((found["source"] == "OpenML, cached").any())
        if search is not None:
            found = found[found.apply(lambda row: search.lower() in " ".join(map(str, row)).lower(), axis=1)]
    if as_json:
        typer.echo(json.dumps(json.loads(found.to_json(orient="records")), indent=2))
        return
    _print(found)
    if not at_hand:
        print_line("OpenML sets: none at hand; GENLABEL_DATA_HOME names a folder with a manifest.csv and their cache")
    if len(found):
        print_line(f"use one by its name: genlabel compare {found['name'].iloc[0]}")


def _print(found: pd.DataFrame) -> None:
    grid = Grid(box=box.SIMPLE_HEAD, caption=f"{len(found)} table{'s' * (len(found) != 1)}")
    for name in found.columns:
        grid.add_column(name, justify="right" if name in ("rows", "columns", "classes") else "left")
    for row in found.itertuples(index=False):
        grid.add_row(*(Text(str(value)) for value in row))
    print_grid(grid)
