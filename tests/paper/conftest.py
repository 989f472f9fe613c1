"""Fixtures of the reproduction: its commands in the command line, and an experiment as terminal output."""

from collections.abc import Callable
from io import StringIO

import pytest
from rich.console import Console

from genlabel.cli import add_commands
from genlabel_paper.report.experiment import Experiment
from genlabel_paper.report.results import Rendering
from genlabel_paper.report.terminal import print_rendering


@pytest.fixture(scope="session", autouse=True)
def paper_commands() -> None:
    """Add the commands of genlabel_paper to the command line, as `genlabel` does on start."""
    add_commands()


@pytest.fixture(scope="session")
def as_text() -> Callable[[Experiment, Rendering, int], str]:
    def write(experiment: Experiment, shown: Rendering, width: int) -> str:
        file = StringIO()
        print_rendering(experiment, shown, Console(file=file, width=width, color_system=None, legacy_windows=False))
        return "\n".join(line.rstrip() for line in file.getvalue().rstrip().split("\n"))

    return write
