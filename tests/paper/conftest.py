"""Fixtures of the reproduction: its commands in the command line, and an experiment as terminal output."""

from collections.abc import Callable
from io import StringIO

import pytest
from rich.console import Console

from genlabel.cli import add_commands
from genlabel_paper.report.experiment import Experiment
from genlabel_paper.report.pieces import Shown
from genlabel_paper.report.text import print_shown


@pytest.fixture(scope="session", autouse=True)
def paper_commands() -> None:
    """Add the commands of genlabel_paper to the command line, as `genlabel` does on start."""
    add_commands()


@pytest.fixture(scope="session")
def as_text() -> Callable[[Experiment, Shown, int], str]:
    def write(experiment: Experiment, shown: Shown, width: int) -> str:
        file = StringIO()
        print_shown(experiment, shown, Console(file=file, width=width, color_system=None, legacy_windows=False))
        return "\n".join(line.rstrip() for line in file.getvalue().rstrip().split("\n"))

    return write
