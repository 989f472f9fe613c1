"""Test the commands on any table file: they succeed, or end with one error line."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st
from typer.testing import CliRunner

from genlabel.cli import app

CHEAP = ("--network", "logistic", "--epochs", "1")
ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet")


def invoke(*words: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return CliRunner().invoke(app, [str(word) for word in words], prog_name="genlabel")


def succeeded(result: Any, *also: int) -> bool:
    """Return whether a command succeeded; if it did not, check that it printed one error line."""
    assert result.exit_code in (0, 2, *also), f"{result.output}\n{result.stderr}\n{result.exception!r}"
    if result.exit_code == 2:
        lines = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
        assert len(lines) == 1, result.stderr
        assert "bug of genlabel" not in lines[0]
    return result.exit_code == 0


def write(table: Any, path: Path) -> bool:
    """Write a table with its labels; return whether the format can hold it."""
    try:
        frame = table.X.assign(label=np.asarray(table.y))
        if path.suffix == ".jsonl":
            frame.to_json(path, orient="records", lines=True)
        elif path.suffix == ".parquet":
            pytest.importorskip("pyarrow")
            frame.to_parquet(path)
        else:
            sep = "," if path.suffix == ".csv" else "\t"
            frame.to_csv(path, index=False, sep=sep, errors="surrogatepass", lineterminator="\n")
    except Exception:  # pandas and pyarrow cannot write everything
        return False
    return True


@pytest.fixture
def files(tables: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def of(ending: str) -> st.SearchStrategy[Any]:
        return tables(form="frame").map(lambda table: (table, tmp_path / f"t{ending}"))

    return of


@pytest.mark.parametrize("number, ending", list(enumerate(ENDINGS)))
def test_a_model_of_any_file_predicts_its_rows(number: int, ending: str, files: Any, check_examples: Any) -> None:
    def check(drawn: tuple[Any, Path]) -> None:
        table, path = drawn
        if not write(table, path):
            return
        fit = (
            "fit",
            path,
            "--target",
            "label",
            "--method",
            "vanilla",
            "-o",
            "m",
            "--test-size",
            "0",
            "--force",
            *CHEAP,
        )
        if not succeeded(invoke(*fit)) or not succeeded(invoke("predict", "m", path, "-o", "out.csv")):
            return
        predictions = pd.read_csv("out.csv")
        proba = predictions[[name for name in predictions.columns if name.startswith("probability_")]].to_numpy()
        assert proba.shape[1] >= 2
        assert np.isfinite(proba).all()
        np.testing.assert_allclose(proba.sum(1), 1.0, atol=1e-6)

    check_examples(files(ending), check, 40 + number, share=0.5)


def test_a_diagnosis_of_any_file_has_a_verdict(files: Any, check_examples: Any) -> None:
    def check(drawn: tuple[Any, Path]) -> None:
        table, path = drawn
        if write(table, path):
            result = invoke("diagnose", path, "--target", "label", "--cv", "2", "--json")
            assert not succeeded(result) or json.loads(result.stdout)["diagnosis"]["verdict"]

    check_examples(files(".csv"), check, 50, share=0.25)


def test_a_comparison_on_any_file_prints_json(files: Any, check_examples: Any) -> None:
    def check(drawn: tuple[Any, Path]) -> None:
        table, path = drawn
        if write(table, path):
            words = ("compare", path, "--target", "label", "--n-splits", "1", "--density", "gaussian", "--jobs", "1")
            result = invoke(*words, *CHEAP, "--json", "--restart", "--records", "r.sqlite", "--output", "c.png")
            assert not succeeded(result, 1) or json.loads(result.stdout)

    check_examples(files(".csv"), check, 60, share=0.25)
