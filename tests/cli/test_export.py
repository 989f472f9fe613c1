"""Test `genlabel export`: the file of a saved model predicts what `genlabel predict` does."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from genlabel.cli import app

onnxruntime = pytest.importorskip("onnxruntime", reason="needs the packages onnx and onnxruntime")


def run(*words: Any, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of amounts and towns with gaps, and a model of it."""
    folder, rng = tmp_path_factory.mktemp("export"), np.random.default_rng(0)
    y = rng.random(120) < 0.4
    amount = [f"${1000 + 300 * value:,.2f}" for value in rng.normal(size=120) + 3 * y]
    frame = pd.DataFrame({"amount": amount, "town": rng.choice(["Ulm", "Bern", ""], 120)})
    frame.assign(paid=np.where(y, "yes", "no")).to_csv(folder / "data.csv", index=False)
    quick = ["--test-size", "0", "--method", "vanilla", "--network", "logistic", "--epochs", "2"]
    run("fit", folder / "data.csv", "--target", "paid", "-o", folder / "m", *quick)
    return folder


def predict(path: Path, table: pd.DataFrame) -> np.ndarray:
    """Predict as a program without genlabel does."""
    session = onnxruntime.InferenceSession(str(path))
    columns = json.loads(session.get_modelmeta().custom_metadata_map["columns"])
    assert columns == {"numbers": ["amount"], "text": ["town"]}
    amount = table["amount"].str.replace(r"[$,]", "", regex=True).astype(float).to_numpy()[:, None]
    inputs = {"numbers": amount, "text": table[["town"]].fillna("(missing)").to_numpy(str)}
    return np.exp(session.run(["log_proba"], inputs)[0])


def test_the_file_predicts_what_the_command_predicts(folder: Path) -> None:
    data, out = folder / "data.csv", folder / "out.csv"
    run("predict", folder / "m", data, "-o", out)
    expected = pd.read_csv(out)[["probability_no", "probability_yes"]].to_numpy()
    exact, small = folder / "m.onnx", folder / "small.onnx"
    assert "amount" in run("export", folder / "m", "-o", exact)
    np.testing.assert_allclose(predict(exact, pd.read_csv(data)), expected, atol=1e-6)
    assert "%" in run("export", folder / "m", "-o", small, "--compress", data)
    assert 0 < np.abs(predict(small, pd.read_csv(data)) - expected).mean() < 0.1


def test_a_file_is_replaced_by_force_alone(folder: Path) -> None:
    path = folder / "there.onnx"
    path.write_text("mine")
    assert "--force" in run("export", folder / "m", "-o", path, code=2)
    assert ".onnx" in run("export", folder / "m", "-o", folder / "m.bin", code=2)
    assert not (folder / "m.bin").exists()
    assert path.read_text() == "mine"
    run("export", folder / "m", "-o", path, "--force", "--dtype", "float32")
    assert path.stat().st_size > 100


def test_what_is_no_model_is_an_error(folder: Path) -> None:
    assert "Error" in run("export", folder, "-o", folder / "none.onnx", code=2)
    assert not (folder / "none.onnx").exists()


def test_a_threshold_decides_the_class_index(folder: Path) -> None:
    options = ["--target", "paid", "--method", "vanilla", "--network", "logistic", "--epochs", "2", "--test-size", "0"]
    run("fit", folder / "data.csv", *options, "-o", folder / "t", "--threshold", "0.3", "--pos-label", "yes")
    output = run("export", folder / "t", "-o", folder / "t.onnx")
    assert "class_index" in output
    assert "0.3" in output
    run("predict", folder / "t", folder / "data.csv", "-o", folder / "t.csv")
    table = pd.read_csv(folder / "data.csv")
    amount = table["amount"].str.replace(r"[$,]", "", regex=True).astype(float).to_numpy()[:, None]
    inputs = {"numbers": amount, "text": table[["town"]].fillna("(missing)").to_numpy(str)}
    index = onnxruntime.InferenceSession(str(folder / "t.onnx")).run(["class_index"], inputs)[0]
    assert np.array(["no", "yes"])[index].tolist() == pd.read_csv(folder / "t.csv")["prediction"].tolist()
