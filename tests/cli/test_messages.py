"""Messages of the command line are about options: they have no Python in them."""

import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from genlabel.cli import app
from genlabel.cli.options import in_options, running_command

PYTHON = re.compile(r"\b[a-z_]+=|\b(True|False|None)\b|\b\w+\(\w*\)|\['|[a-z]_[a-z]")
"""Arguments, constants, calls, lists, and names with underscores."""


def table(folder: Path) -> Path:
    rows = pd.DataFrame({"size": range(60), "code": ["u", "v", "w"] * 20, "y": ["no", "yes"] * 30})
    rows["price"], rows["constant"], rows["rare"] = rows["size"] * 1.5, 1, ["one", *["two"] * 59]
    rows.to_csv(folder / "d.csv", index=False)
    return folder / "d.csv"


COMMANDS: dict[str, Callable[[str], list[str]]] = {
    "no target": lambda file: ["fit", file],
    "other target": lambda file: ["fit", file, "--target", "z"],
    "quantity": lambda file: ["fit", file, "--target", "price"],
    "two readings": lambda file: ["fit", file, "--target", "price", "--bins", "3", "--target-is-categorical"],
    "equal numbers": lambda file: ["fit", file, "--target", "constant", "--bins", "3"],
    "bins of strings": lambda file: ["fit", file, "--target", "y", "--bins", "3"],
    "one class": lambda file: ["fit", file, "--target", "constant"],
    "rare class": lambda file: ["compare", file, "--target", "rare"],
    "other column": lambda file: ["diagnose", file, "--target", "y", "--drop", "cod"],
    "forced column": lambda file: ["fit", file, "--target", "y", "--force-include", "cod"],
    "time": lambda file: ["compare", file, "--target", "y", "--time", "code"],
    "network": lambda file: ["fit", file, "--target", "y", "--network", "deep"],
    "device": lambda file: ["fit", file, "--target", "y", "--device", "abacus"],
    "test size": lambda file: ["compare", file, "--target", "y", "--test-size", "2"],
    "large test": lambda file: ["compare", file, "--target", "y", "--test-size", "0.98"],
    "jobs": lambda file: ["compare", file, "--target", "y", "--jobs", "0"],
    "figure": lambda file: ["compare", file, "--target", "y", "--output", "a.txt"],
    "report": lambda file: ["compare", file, "--target", "y", "--report", "a.txt"],
    "built-in": lambda file: ["fit", "iris", "--na-values", "-9", "--na-values", "-8"],
    "target of a built-in": lambda file: ["fit", "iris", "--target", "y"],
    "unknown table": lambda file: ["fit", "irises"],
    "unknown dataset": lambda file: ["fit", "openml:nothing"],
    "no file": lambda file: ["fit", "there/nothing.csv", "--target", "y"],
    "folder": lambda file: ["fit", file, "--target", "y", "-o", str(Path(file).parent)],
    "method": lambda file: ["fit", file, "--target", "y", "--method", "stacked", "--epochs", "3"],
    "no model": lambda file: ["predict", str(Path(file).parent), file],
    "no folder": lambda file: ["predict", file, file],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_messages_have_no_python(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GENLABEL_DATA_HOME", "nowhere")
    result = CliRunner().invoke(app, COMMANDS[name](str(table(tmp_path))), prog_name="genlabel")
    assert result.exit_code == 2
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    shown = re.sub(r"'[^']*'|openml:\w+|breast_cancer|GENLABEL_DATA_HOME", "", line.replace(str(tmp_path), ""))
    assert PYTHON.findall(shown) == []


def test_only_options_of_the_running_command_are_translated() -> None:
    text = "cv=6 folds; raise time_limit, time_limit=3; the column 'test_size' is target_is_categorical=True"
    running_command.set("fit")
    expected = "cv=6 folds; raise --time-limit, --time-limit 3; the column 'test_size' is --target-is-categorical"
    assert in_options(text) == expected
    running_command.set("diagnose")
    assert in_options("cv=6 folds; raise time_limit") == "--cv 6 folds; raise time_limit"
    running_command.set(None)
