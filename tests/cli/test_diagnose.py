"""Test `genlabel diagnose`: the diagnosis of the library, and the leaks of the table."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from genlabel import diagnose
from genlabel.cli import app
from genlabel.evaluation.diagnosis.diagnose import SENTENCES

SHORT = ("--cv", "2", "--seed", "3")


def rows(n: int = 60) -> pd.DataFrame:
    """Three classes in a line, so that mixed samples of the outer two intrude into the third."""
    rng = np.random.default_rng(0)
    y = rng.permutation(n) % 3
    return pd.DataFrame(
        {
            "key": rng.permutation(n) + 1,
            "a": (3 * y + rng.normal(size=n)).round(3),
            "b": rng.normal(size=n).round(3),
            "color": rng.choice(["red", "blue"], n),
            "kind": np.array(["low", "mid", "top"])[y],
        }
    )


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["diagnose", *arguments], prog_name="genlabel")


@pytest.fixture(scope="module")
def diagnosed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The output folder and the JSON of a table with a missing label and a duplicate row."""
    folder = tmp_path_factory.mktemp("diagnosed")
    table = rows()
    table.loc[0, "kind"] = None
    copied = pd.concat([table[:31], table[30:]])
    copied["key"] = np.arange(len(copied)) + 1
    copied.to_csv(folder / "t.csv", index=False)
    arguments = ("--target", "kind", *SHORT, "-o", str(folder / "p.png"), "--csv", str(folder / "frames"), "--json")
    result = invoke(str(folder / "t.csv"), *arguments)
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith(f"loading {folder / 't.csv'} ...\ndiagnose: ")
    return folder, json.loads(result.stdout)


def test_the_diagnosis_equals_the_library(
    diagnosed: tuple[Path, dict[str, Any]],
) -> None:
    folder, result = diagnosed
    table = pd.read_csv(folder / "t.csv")[1:]
    X = pd.get_dummies(table[["a", "b", "color"]], dtype=float)
    groups = [*range(30), 29, *range(30, 59)]  # row 31 of the file duplicates row 30
    expected = diagnose(X.to_numpy(), table["kind"].to_numpy(), groups=groups, cv=2, random_state=3)
    assert result["diagnosis"]["verdict"] == expected.to_dict()["verdict"]
    assert result["diagnosis"]["experiment"] == expected.to_dict()["experiment"]
    assert result["rows"] == 60
    assert result["leaks"] == [
        "left out column 'key': its values are row numbers (--force-include 'key' uses it)",
        "rows that equal an earlier row: 1; equal rows stay on one side of every split",
    ]
    assert (folder / "p.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in (folder / "frames").iterdir()) == [
        "experiment.csv",
        "lambda.csv",
        "mixed_samples.csv",
        "pairs.csv",
    ]


def test_row_numbers_refer_to_the_file(diagnosed: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = diagnosed
    table, mixed_samples = pd.read_csv(folder / "t.csv"), pd.read_csv(folder / "frames" / "mixed_samples.csv")
    for side in ("1", "2"):
        assert table["kind"][mixed_samples[f"row_{side}"]].tolist() == mixed_samples[f"class_{side}"].tolist()
    assert mixed_samples["row_1"].max() == 60


def test_leaks_are_printed_below_the_verdict(tmp_path: Path) -> None:
    table = rows()
    table["kind"] = np.random.default_rng(1).permutation(table["kind"])
    table.to_csv(tmp_path / "t.csv", index=False)
    result = invoke(str(tmp_path / "t.csv"), "--target", "kind", *SHORT)
    assert result.exit_code == 0, result.output
    verdict, leak = result.stdout.splitlines()[2:4]
    assert verdict in SENTENCES.values()
    assert leak.startswith("  in the table: left out column 'key'")
    assert "columns of text, a feature for each value (1): color (2 values)" in result.stdout
    timely = invoke(str(tmp_path / "t.csv"), "--target", "kind", *SHORT, "--time", "key")
    assert "note: the folds of a diagnosis ignore time" in timely.stdout


def test_invalid_input_is_reported_before_loading(tmp_path: Path) -> None:
    rows().to_csv(tmp_path / "t.csv", index=False)
    for arguments, message in (
        (("--target", "kindd"), "did you mean 'kind'?"),
        (("--target", "kind", "-o", "p.gif"), "ends in '.gif'"),
        (("--target", "kind", "--csv", str(tmp_path / "t.csv")), "cannot be written"),
    ):
        result = invoke(str(tmp_path / "t.csv"), *arguments)
        assert result.exit_code == 2
        assert message in result.stderr
        assert "loading" not in result.stderr
