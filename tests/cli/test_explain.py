"""Test `genlabel explain`: contributions of the columns of a raw file, similar training rows, files, errors."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from genlabel import load_model
from genlabel.cli import app
from genlabel.evaluation.table_models import NewRows
from genlabel.persistence.files import CARD

N = 80


def raw_table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    late = rng.random(N) < 0.5
    frame = pd.DataFrame(
        {
            "customer": np.arange(N),
            "since": (pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 700, N), "D")).strftime("%m/%d/%Y"),
            "spent": [f"${value:,.2f}" for value in rng.gamma(2, 400, N) * (1 + ~late)],
            "town": rng.choice(["Bern", "Ulm", "Wien"], N),
            "calls": rng.poisson(1 + 2 * late).astype(str),
            "paid": np.where(late, "late", "in time"),
        }
    )
    frame.loc[3, "town"] = frame.loc[4, "calls"] = ""
    return frame


def run(*arguments: object, code: int = 0) -> Any:
    result = CliRunner().invoke(app, list(map(str, arguments)), prog_name="genlabel")
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the table and two models, one of which keeps no training rows."""
    folder = tmp_path_factory.mktemp("explain")
    raw_table().to_csv(folder / "d.csv", index=False)
    quick = ("--method", "vanilla", "--network", "logistic", "--epochs", "2", "--test-size", "0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run("fit", folder / "d.csv", "--target", "paid", "-o", folder / "m", *quick)
        run("fit", folder / "d.csv", "--target", "paid", "-o", folder / "bare", "--no-training-rows", *quick)
    return folder


def test_lines_and_values_are_those_of_the_columns_of_the_file(folder: Path) -> None:
    run("explain", folder / "m", folder / "d.csv", "--row", "3", "--row", "7", "-o", folder / "out.csv")
    lines = pd.read_csv(folder / "out.csv", dtype={"value": str}, keep_default_na=False)
    raw = raw_table().astype(str)
    names = ["since", "spent", "town", "calls"]  # one line for a date, although it makes several features
    as_written = lines["value"].str.split(" = ").str[0]
    assert sorted(zip(lines["row"], lines["column"], as_written, strict=True)) == sorted(
        (row, name, raw[name][row]) for row in (3, 7) for name in names
    )
    read_as = {
        "since": pd.to_datetime(raw["since"]).astype(str),
        "spent": raw["spent"].str.replace("[$,]", "", regex=True),
    }
    for row, name, value in lines.loc[lines["column"].isin(read_as), ["row", "column", "value"]].to_numpy():
        number = value.split(" = ")[1]
        assert number == read_as[name][row] or float(number) == float(read_as[name][row])
    model = load_model(folder / "m")
    proba = model.predict_proba(NewRows.of(model, folder / "d.csv").X.iloc[[3, 7]])
    total = lines.groupby("row")["contribution"].sum() + lines.groupby("row")["background"].first()
    np.testing.assert_allclose(total, proba.max(axis=1), atol=1e-10)
    assert lines["class"].tolist() == np.repeat(model.classes_[proba.argmax(axis=1)], 4).tolist()


def test_json_has_all_classes_and_the_nearest_training_rows(folder: Path) -> None:
    run("explain", folder / "m", folder / "d.csv", "--first", "2", "--scale", "log-odds", "-o", folder / "out.json")
    values = json.loads((folder / "out.json").read_text())
    assert [row["row"] for row in values["rows"]] == [0, 1]
    for row in values["rows"]:
        near = row["nearest_training_rows"]
        assert (near[0]["training_row"], near[0]["distance"]) == (row["row"], pytest.approx(0.0, abs=1e-6))
        assert {line["class"] for line in near} == {"late", "in time"}
        for name in ("late", "in time"):
            total = sum(column["contributions"][name] for column in row["columns"])
            assert total == pytest.approx(row["output"][name] - values["background_output"][name])


def test_terminal_shows_the_values_of_the_file_and_says_how_many_rows_are_left(folder: Path) -> None:
    result = run("explain", folder / "m", folder / "d.csv", "--first", "2")
    raw = raw_table()
    assert all(raw[name][row] in result.stdout for name in ("since", "spent", "town") for row in (0, 1))
    assert str(N - 2) in result.stderr
    chosen = run("explain", folder / "m", folder / "d.csv", "--row", "1", "--class", "late")
    assert "'late'" in chosen.stdout


def test_a_model_without_training_rows_takes_them_from_the_table(folder: Path) -> None:
    assert load_model(folder / "bare").training_rows is None
    assert "explain" in (folder / "m" / CARD).read_text()
    assert "explain" not in (folder / "bare" / CARD).read_text()
    assert "--train" in run("explain", folder / "bare", folder / "d.csv", code=2).stderr
    for model in ("m", "bare"):
        run("explain", folder / model, folder / "d.csv", "--train", folder / "d.csv", "-o", folder / f"{model}.csv")
    assert (folder / "m.csv").read_bytes() == (folder / "bare.csv").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "keyword"),
    [
        (("--row", "80"), "80"),
        (("--row", "-1"), "-1"),
        (("--class", "never"), "never"),
        (("--class", "never", "-o", "out.csv"), "never"),
        (("-o", "out.txt"), "out.txt"),
        (("--train", "gone.csv"), "gone.csv"),
        (("--train", "new.csv"), "new.csv"),
    ],
)
def test_bad_options_are_named_in_one_line(
    folder: Path, arguments: tuple[str, ...], keyword: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    raw_table().drop(columns="paid").to_csv("new.csv", index=False)
    result = run("explain", "m", "d.csv", *arguments, code=2)
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert keyword in line


def test_a_missing_column_is_named(folder: Path) -> None:
    raw_table().drop(columns="town").to_csv(folder / "less.csv", index=False)
    assert "'town'" in run("explain", folder / "m", folder / "less.csv", code=2).stderr
