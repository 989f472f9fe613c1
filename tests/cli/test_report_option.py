"""Test `--report` of `genlabel compare` and `genlabel diagnose`."""

import json
import re
import shlex
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

from genlabel.cli import app
from genlabel.evaluation import comparison
from genlabel.evaluation.comparison import PRIOR_BASELINE


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a table of noise, an id and a duplicate row; its diagnosis ends early."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 3)).round(3), columns=["key", "a", "b"])
    table["color"], table["kind"] = rng.choice(["red", "blue"], 60), rng.permutation(["low", "mid's", "top"] * 20)
    table = pd.concat([table, table[:1]])
    table["key"] = np.arange(len(table)) + 1
    table.to_csv(tmp_path / "my table.csv", index=False)
    monkeypatch.chdir(tmp_path)
    methods = {
        "plain training": LogisticRegression(),
        "mixup": LogisticRegression(C=0.1),
        PRIOR_BASELINE: DummyClassifier(),
    }
    monkeypatch.setattr(comparison, "default_methods", lambda *_: methods)
    return tmp_path


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, [*arguments], prog_name="genlabel")


def test_compare_writes_a_page_with_the_diagnosis(workdir: Path) -> None:
    arguments = ["compare", "my table.csv", "--target", "kind", "--n-splits", "2", "--jobs", "1", "--seed", "3"]
    result = invoke(*arguments, "--report", "new/page.html")
    assert result.exit_code == 0, result.output
    data = json.loads((workdir / "new/page.json").read_text(encoding="utf-8"))
    assert sorted(shlex.split(data["command"])) == sorted(["genlabel", *arguments, "--report", "new/page.html"])
    assert data["diagnosis"]["verdict"]["word"] == "not trusted"
    assert data["diagnosis"]["table"]["rows"] == data["table"]["rows"] == 61
    assert any(note.startswith("rows that equal an earlier row: 1") for note in data["table"]["notes"])
    assert any(note.startswith("left out column 'key'") for note in data["table"]["notes"])
    assert f"s): {data['diagnosis']['verdict']['sentence']}" in result.stdout
    assert "wrote compare-my table.png, new/page.html, new/page.json" in result.stdout
    printed = json.loads(invoke(*arguments, "--json").stdout)
    assert printed["methods"] == data["comparison"]["methods"]
    assert set(printed["verdict"]) < set(data["comparison"]["verdict"])  # the page knows the diagnosis too
    page = unescape((workdir / "new/page.html").read_text(encoding="utf-8"))
    assert all(line in page and line in result.stdout for line in printed["verdict"])
    assert re.sub(r"</?span[^>]*>", "", page).count(printed["next"]) == 1
    assert f"next: {printed['next']}" in result.stdout
    assert shlex.split(printed["next"])[:4] == ["genlabel", "fit", "my table.csv", "--target"]


def test_diagnose_writes_a_page(workdir: Path) -> None:
    result = invoke("diagnose", "my table.csv", "--target", "kind", "--cv", "2", "--report", "page.html", "--json")
    assert result.exit_code == 0, result.output
    data = json.loads((workdir / "page.json").read_text(encoding="utf-8"))
    assert data["diagnosis"] == json.loads(result.stdout)["diagnosis"]
    assert "comparison" not in data
    assert data["diagnosis"]["verdict"]["sentence"] in unescape(Path("page.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize("command", ["compare", "diagnose"])
@pytest.mark.parametrize("path, message", [("page.txt", ".html"), ("my table.csv/p.html", "cannot be written")])
def test_an_unwritable_report_is_reported_before_training(workdir: Path, command: str, path: str, message: str) -> None:
    result = invoke(command, "my table.csv", "--target", "kind", "--report", path)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "loading" not in result.stderr


@pytest.mark.parametrize("command", ["compare", "diagnose"])
def test_the_table_is_not_overwritten(workdir: Path, command: str) -> None:
    table = pd.read_csv("my table.csv")
    table.to_json("t.json", orient="records")
    (workdir / "frames").mkdir()
    table.to_csv("frames/pairs.csv", index=False)
    clashes = [("t.json", "--report", "t.html"), ("frames/pairs.csv", "--csv", "frames/pairs.csv")]
    clashes[1] = ("frames/pairs.csv", "--csv", "frames") if command == "diagnose" else clashes[1]
    for source, option, path in clashes:
        before = Path(source).read_bytes()
        result = invoke(command, source, "--target", "kind", option, path)
        assert result.exit_code == 2
        assert "the table itself" in result.stderr
        assert Path(source).read_bytes() == before
