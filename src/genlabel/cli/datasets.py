"""`genlabel datasets`: the tables that other commands can name."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich import box
from rich.table import Table as Grid
from rich.text import Text

from genlabel._console import open_console
from genlabel._text import count_of
from genlabel.cli import options
from genlabel.reporting.terminal import print_line


def datasets(
    search: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only datasets with this text in a column of the list.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON list instead of text.")] = False,
    debug: options.Debug = False,
) -> None:
    """List the datasets that compare, diagnose and fit can name: built-in, synthetic, and local OpenML datasets.

    Local OpenML datasets are in the folder of the environment variable GENLABEL_DATA_HOME. Nothing is downloaded; a
    dataset that is not listed can be named too (openml:61), and is downloaded when it is used. Exit codes: 0 success,
    also if the list is empty; 2 invalid input.
    """
    with options.one_line_errors(debug=debug):
        from genlabel.data.datasets import list_tables

        tables = list_tables()
        has_local = bool((tables["source"] == "OpenML, cached").any())
        if search is not None:
            rows = tables.astype(str).agg(" ".join, axis=1).str.lower()
            tables = tables[rows.str.contains(search.lower(), regex=False)]
    if as_json:
        typer.echo(json.dumps(json.loads(tables.to_json(orient="records")), indent=2))
        return
    grid = Grid(box=box.SIMPLE_HEAD, caption=count_of(len(tables), "table"))
    for name in tables.columns:
        grid.add_column(name, justify="right" if name in ("rows", "columns", "classes") else "left")
    for row in tables.itertuples(index=False):
        grid.add_row(*(Text(str(value)) for value in row))
    open_console().print(grid)
    if not has_local:
        print_line(
            "OpenML datasets: none is local; GENLABEL_DATA_HOME names the folder of a cache, which scikit-learn's "
            "fetch_openml, or using one by its name (openml:61), fills"
        )
    if len(tables):
        print_line(f"use one by its name: genlabel compare {tables['name'].iloc[0]}")
