"""Commands agree with each other and with what they write: rare classes, scores on the card, counts, pipes."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from genlabel.cli import app

QUICK = ("--method", "vanilla", "--network", "logistic", "--epochs", "2")
COMMANDS = {
    "fit": (*QUICK, "-o", "m", "--force"),
    "diagnose": ("--cv", "2"),
    "compare": ("--n-splits", "1", "--network", "logistic", "--epochs", "2", "--jobs", "1"),
}
WRONG_PLURAL = re.compile(
    r"(?<![\d.,])1 (?:\w+ )?(?:rows|columns|features|classes|values|splits|folds|groups|epochs|points|samples|tables)\b"
)


@pytest.fixture(autouse=True)
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_table(sizes: dict[str, int], columns: int = 2, path: str = "d.csv") -> pd.DataFrame:
    """Write a table whose classes have these numbers of rows."""
    rng, y = np.random.default_rng(0), np.repeat(list(sizes), list(sizes.values()))
    shift = np.unique(y, return_inverse=True)[1][:, None]
    frame = pd.DataFrame(rng.normal(size=(len(y), columns)) + shift, columns=[f"x{i}" for i in range(columns)])
    frame = frame.assign(label=y)
    frame.to_csv(path, index=False)
    return frame


def run(*words: Any, code: int = 0, **options: Any) -> Any:
    result = CliRunner().invoke(app, list(map(str, words)), prog_name="genlabel", **options)
    assert result.exit_code == code, result.output
    return result


def notes_of(command: str, *options: str, word: str) -> set[str]:
    result = run(command, "d.csv", "--target", "label", *COMMANDS[command], *options)
    return {line for line in result.stdout.splitlines() if line.startswith("note: ") and word in line}


@pytest.mark.parametrize("rare", [{"c": 1}, {"c": 3, "d": 1}])
def test_all_commands_treat_rare_classes_alike(rare: dict[str, int]) -> None:
    write_table({"a": 24, "b": 20, **rare})
    for options, word in (((), "too few to be measured"), (("--min-class-size", "4"), "left out")):
        notes = [notes_of(command, *options, word=word) for command in COMMANDS]
        assert len(notes[0]) == 1
        assert notes[0] == notes[1] == notes[2]


@pytest.mark.parametrize("method", [("--method", "stacked"), QUICK])
def test_the_card_and_the_command_give_the_same_share(method: tuple[str, ...]) -> None:
    write_table({"a": 30, "b": 30})
    for test_size, costs in (("0", ()), ("0.3", ()), ("0.3", ("--threshold", "0.3", "--pos-label", "a"))):
        options = ("-o", "m", "--force", "--test-size", test_size, *costs)
        output = run("fit", "d.csv", "--target", "label", *method, *options).stdout
        card = Path("m/README.md").read_text(encoding="utf-8")
        (printed,) = re.findall(r"right on ([\d.]+) %", output)
        (in_card,) = re.findall(r"Right on \*\*([\d.]+)%\*\*", card)
        assert printed == in_card
        other = re.findall(r"this model, held-out rows \| [\d.]+ \| ([\d.]+)%", card)
        assert not costs or not other or "without the costs" in card


def test_counts_agree_with_their_nouns() -> None:
    write_table({"a": 12, "b": 12}, columns=1)
    texts = [run(name, "d.csv", "--target", "label", *options).output for name, options in COMMANDS.items()]
    texts.append(run("compare", "d.csv", "--target", "label", *COMMANDS["compare"], "--report", "r.html").output)
    texts += [Path("r.html").read_text(encoding="utf-8"), Path("m/README.md").read_text(encoding="utf-8")]
    write_table({"a": 1}, columns=1, path="one.csv")
    texts.append(run("predict", "m", "one.csv").output)
    texts.append(run("explain", "m", "d.csv", "--first", "23").output)
    assert [WRONG_PLURAL.findall(text) for text in texts] == [[]] * len(texts)


def test_a_rarely_found_class_is_named_with_a_remedy() -> None:
    rng = np.random.default_rng(1)
    y = np.array(["fraud"] * 40 + ["ok"] * 360)
    frame = pd.DataFrame(rng.normal(size=(400, 3)), columns=list("abc"))
    frame.loc[y == "fraud", "a"] += 1.5
    frame.assign(label=y).to_csv("d.csv", index=False)
    output = run("fit", "d.csv", "--target", "label", *QUICK, "--epochs", "60", "-o", "m").stdout
    recall = float(re.findall(r"fraud (\d+) %", output)[-1])
    assert ("rarely found: fraud" in output) == (recall < 20)
    assert ("Rarely found: **fraud**" in Path("m/README.md").read_text()) == (recall < 20)
    assert recall < 20


def test_names_are_suggested_and_messages_have_no_lists() -> None:
    write_table({"fraud": 12, "ok": 12})
    threshold = ["--threshold", "0.3", "--pos-label", "fruad"]
    for options in (["--class-weight", "fruad=3"], ["--cost", "fruad=3"], threshold):
        message = run("fit", "d.csv", "--target", "label", *QUICK, *options, code=2).stderr
        assert "did you mean 'fraud'" in message
        assert "[" not in message
    both = run("fit", "d.csv", "--target", "label", *QUICK, "--cost", "ok=2", "--threshold", "0.3", code=2).stderr
    assert "--cost" in both
    assert "--threshold" in both


def test_each_renamed_column_is_suggested() -> None:
    frame = write_table({"a": 12, "b": 12})
    run("fit", "d.csv", "--target", "label", *COMMANDS["fit"])
    frame.rename(columns={"x0": "X0", "x1": "x1s"}).to_csv("renamed.csv", index=False)
    message = run("predict", "m", "renamed.csv", code=2).stderr
    assert "'X0' if it is 'x0'" in message
    assert "'x1s' if it is 'x1'" in message


@pytest.mark.parametrize("command", [["compare", "-", "--target", "y"], ["predict", "m", "-"], ["explain", "m", "-"]])
def test_an_empty_standard_input_is_called_so(command: list[str], workdir: Path) -> None:
    write_table({"a": 12, "b": 12})
    run("fit", "d.csv", "--target", "label", *COMMANDS["fit"])
    message = run(*command, code=2, input=b"").stderr
    assert "the standard input" in message
    assert "/" not in message


def test_a_closed_pipe_ends_a_command_as_it_ends_coreutils() -> None:
    frame = write_table({"a": 12, "b": 12})
    run("fit", "d.csv", "--target", "label", *COMMANDS["fit"])
    pd.concat([frame] * 2000).to_csv("long.csv", index=False)
    program = [sys.executable, "-m", "genlabel", "predict", "m", "long.csv"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("prediction,")
        process.stdout.close()
        errors = process.stderr.read()
    assert process.returncode == 141
    assert "Error" not in errors
    assert "Traceback" not in errors
