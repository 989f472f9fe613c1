"""What the commands that write a report share: the option, its checks, the command as it could be typed again."""

from __future__ import annotations

import shlex
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from genlabel.cli.console import check_not_overwriting_input, check_outputs

ENDINGS = (".html", ".htm")

ReportPath = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.html",
        help="Also write a page with all of it that opens in any browser and needs nothing else; the numbers go to "
        "FILE.json.",
    ),
]


def check_report(path: Path | None, source: str) -> None:
    """Raise unless the page and its numbers can be written there, and not over the table that is read."""
    if path is None:
        return
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"report={str(path)!r} ends in {path.suffix!r}; end it in {' or '.join(ENDINGS)}")
    for file in (path, numbers_of(path)):
        check_not_overwriting_input(source, report=file)
        check_outputs(report=file)


def numbers_of(path: Path) -> Path:
    """Return where the numbers of a page go.

    >>> numbers_of(Path("out.html")).name
    'out.json'
    """
    return path.with_suffix(".json")


def command_line(context: typer.Context) -> str:
    """Return the command that is running, as it could be typed again: what was given, not what is the default."""
    words = ["genlabel", str(context.info_name)]
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            words += _words(parameter, context.params[name])
    return shlex.join(words)


def _words(parameter: Any, value: Any) -> list[str]:
    values = list(value) if isinstance(value, list | tuple) else [value]
    texts = [str(one.value if isinstance(one, Enum) else one) for one in values]
    if parameter.param_type_name == "argument":
        return texts
    option = parameter.opts[0]
    if isinstance(value, bool):
        return [option if value else parameter.secondary_opts[0]]
    return [word for text in texts for word in (option, text)]
