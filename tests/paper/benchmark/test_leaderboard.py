"""Leaderboard: records of others are checked, and counted on the fits that both have."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from typer.testing import CliRunner

from genlabel.cli import app
from genlabel.data.datasets import load_table
from genlabel.data.tables import Table
from genlabel_paper.benchmark import as_markdown, run_benchmark, wins
from genlabel_paper.benchmark.leaderboard import add_record, leaderboard, load_leaderboard
from genlabel_paper.benchmark.schema import BENCHMARK
from genlabel_paper.exports import export_records, load_records

ROOT = Path(__file__).parents[3]


def load(number: int) -> Table:
    return load_table("iris" if number == 1 else "wine")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make the records of a reference with two methods, and those of another method."""
    ours = {"default": LogisticRegression(max_iter=5000), "prior": DummyClassifier()}
    for name, methods, ids in (("ours", ours, [1, 2]), ("mine", {"mine": GaussianNB()}, [2])):
        result = run_benchmark(ids, methods, 2, records=None, load=load)
        export_records(result.frame, tmp_path / f"{name}.json", BENCHMARK, result.settings)
    return tmp_path


def invoke(folder: Path, *arguments: str) -> Any:
    options = ["--records", str(folder / "ours.json"), "--leaderboard", str(folder / "board"), *arguments]
    return CliRunner().invoke(app, ["benchmark", *options], prog_name="genlabel", env={"COLUMNS": "160"})


def test_record_is_added_and_printed(folder: Path) -> None:
    result = invoke(folder, "--add-record", str(folder / "mine.json"), "-o", str(folder / "page.md"))
    assert result.exit_code == 0, result.output
    assert load_leaderboard(folder / "board")["method"].unique().tolist() == ["mine"]
    assert "| mine | 1 |" in (folder / "page.md").read_text()
    assert invoke(folder, "--add-record", str(folder / "mine.json")).exit_code == 2


def test_scores_are_differences_on_common_fits(folder: Path) -> None:
    frames = [load_records(folder / f"{name}.json", BENCHMARK).frame for name in ("ours", "mine")]
    mine = frames[1][frames[1]["split"] == 1]  # one split of one of the two datasets
    table = leaderboard(pd.concat([frames[0], mine])).rows
    assert table is not None
    theirs = frames[0].query("method == 'default' and dataset == 2 and split == 1")
    assert float(table.at["mine", "log-loss"]) == pytest.approx(
        mine["log_loss"].item() - theirs["log_loss"].item(), abs=1e-4
    )
    assert table["datasets"].to_dict() == {"default": "2", "mine": "1", "prior": "2"}
    counts = wins(frames[0], "prior", "default")
    assert table.loc["prior", ["lower", "same", "higher"]].tolist() == [
        str(n) for n in (counts.better, counts.tie, counts.worse)
    ]
    order = table["log-loss"].astype(float)
    assert order.is_monotonic_increasing


@pytest.mark.parametrize(
    "key, value, keyword",
    [
        ("log_loss", [-0.1, 0.2], "log_loss"),
        ("accuracy", [1.5, 0.9], "accuracy"),
        ("shares_log_loss", [0.5, 0.5], "shares_log_loss"),
        ("cells", [2, "prior"], "prior"),
        ("cells", [3, "mine"], "not a fit"),
        ("seed", 1, "seed"),
    ],
)
def test_faulty_record_is_refused(key: str, value: Any, keyword: str, folder: Path) -> None:
    export = json.loads((folder / "mine.json").read_text())
    line = export["lines"][0]
    target = export["settings"] if key == "seed" else line if key == "cells" else line["metrics"]
    assert key in target
    target[key] = value
    (folder / "mine.json").write_text(json.dumps(export))
    with pytest.raises(ValueError, match=keyword):
        add_record(folder / "mine.json", folder / "board", load_records(folder / "ours.json", BENCHMARK))
    assert not (folder / "board").exists()


def test_folder_is_needed(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["benchmark", "--add-record", str(tmp_path / "a.json")], prog_name="genlabel")
    assert result.exit_code == 2
    assert "--leaderboard" in result.stderr


@pytest.mark.skipif(not (ROOT / "results").is_dir(), reason="needs the source tree")
def test_page_has_the_leaderboard_of_the_records() -> None:
    ours = load_records(ROOT / "results" / "benchmark.json", BENCHMARK).frame
    table = as_markdown([leaderboard(pd.concat([ours, load_leaderboard(ROOT / "results" / "leaderboard")]))])
    assert np.isin([line for line in table.splitlines() if line.startswith("|")], _page_lines()).all()


def _page_lines() -> list[str]:
    return (ROOT / "docs" / "leaderboard.md").read_text().splitlines()
