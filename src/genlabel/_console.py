"""Consoles whose escape codes reach terminals only."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

FILE_WIDTH = 120
"""Characters of a line of a table where the output is not a terminal."""


def open_console(stderr: bool = False, file_width: int = FILE_WIDTH, **options: Any) -> Console:
    """Return a console of rich on the output or the error stream.

    Files and pipes get plain lines of `file_width`, also where FORCE_COLOR, which many CI systems set, would make rich
    take them for terminals: scripts read the messages.
    """
    from rich.console import Console

    is_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    width = None if is_terminal else file_width
    return Console(stderr=stderr, highlight=False, force_terminal=is_terminal, width=width, **options)
