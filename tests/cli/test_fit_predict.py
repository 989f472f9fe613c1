"""Test `genlabel fit` and `genlabel predict`: a raw table, a saved model, predictions of another raw table."""

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, log_loss, recall_score
from typer.testing import CliRunner

import genlabel
from genlabel.cli import app
from genlabel.data.tables import Table, TableReadSpec, drop_leaks, read_table
from genlabel.data.tables.table import select_rows
from genlabel.estimators.typicality import TYPICALITY_THRESHOLD
from genlabel.evaluation.table_models import (
    _fit,
    _hold_out,
    fit_table,
    make_classifier,
    measure_columns,
    predict_table,
)
from genlabel.persistence.files import ARRAYS, CARD, TREE

N = 90
QUICK = ("--method", "vanilla", "--network", "logistic", "--epochs", "2")
ONCE = ("--test-size", "0")


def raw_table(n: int = N, seed: int = 0) -> pd.DataFrame:
    """A typical raw table: everything is text."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.4
    number = rng.normal(size=n) + 2 * y
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D")
    frame = pd.DataFrame(
        {
            "row": np.arange(n).astype(str),
            "number": [f"{value:.6f}" for value in number],
            "price": [f"${1000 + 300 * value:,.2f}" for value in number + rng.normal(size=n)],
            "weight": [f"{5 + value:.3f}".replace(".", ",") for value in rng.normal(size=n)],
            "share": [f"{value}%" for value in rng.integers(0, 99, n)],
            "when": day.strftime("%d %b %Y"),
            "us": day.strftime("%m/%d/%Y"),
            "town": rng.choice(["Ulm", "Bern", "Wien"], n),
            "code": rng.choice(["01", "02", "x1"], n),
            "member": rng.choice(["True", "False"], n),
            "paid": np.where(y, "yes", "no"),
        }
    )
    frame.loc[3, "town"] = frame.loc[4, "number"] = ""
    frame.loc[5, "number"] = "-9"
    return frame


def write(frame: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    elif path.suffix == ".xlsx":
        frame.to_excel(path, index=False)
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep={".csv": ",", ".tsv": "\t", ".txt": ";"}[path.suffix])
    return path


def invoke(*arguments: str, standard_input: bytes | None = None) -> Any:
    return CliRunner().invoke(app, list(arguments), prog_name="genlabel", input=standard_input)


def run(*arguments: str, standard_input: bytes | None = None) -> Any:
    result = invoke(*arguments, standard_input=standard_input)
    assert result.exit_code == 0, result.output
    return result


def error_line(*arguments: str, standard_input: bytes | None = None) -> str:
    """Run a command that fails and return its error line."""
    result = invoke(*arguments, standard_input=standard_input)
    assert result.exit_code == 2, result.output
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    return line


def read(path: Path, sep: str = ",") -> pd.DataFrame:
    """Read predictions; numbers are exact to the last bit."""
    frame = pd.read_csv(path, sep=sep, dtype=str, keep_default_na=False)
    return frame.apply(lambda column: column if column.name in ("prediction", "unusual_values") else column.map(float))


def table_of(path: Path) -> Table:
    return drop_leaks(read_table(path, "paid", na_values=["-9"]))


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A folder with a model that the command saved, and the same model in memory."""
    folder = tmp_path_factory.mktemp("fitted")
    path = write(raw_table(), folder / "d.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = fit_table(table_of(path), make_classifier("vanilla", "logistic", 2), test_size=0, seed=1)
        run(
            "fit",
            str(path),
            "--target",
            "paid",
            "-o",
            str(folder / "m"),
            *QUICK,
            *ONCE,
            "--seed",
            "1",
            "--na-values=-9",
        )
    run("predict", str(folder / "m"), str(path), "-o", str(folder / "out.csv"))
    return folder, result.model


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".txt", ".jsonl", ".xlsx", ".parquet"])
def test_a_single_row_is_read_as_in_the_whole_table(tmp_path: Path, ending: str) -> None:
    pytest.importorskip({".xlsx": "openpyxl", ".parquet": "pyarrow"}.get(ending, "pandas"))
    frame = raw_table().drop(columns="weight") if ending == ".csv" else raw_table()
    table = read_table(write(frame, tmp_path / f"d{ending}"), "paid", na_values=["-9"])
    spec = TableReadSpec.from_plain(json.loads(json.dumps(TableReadSpec.of(table).to_plain())))
    assert spec == TableReadSpec.of(table)
    for i in (0, 3, 4, 5):
        single_row = write(frame[i : i + 1].sample(frac=1, axis=1, random_state=i), tmp_path / f"one{ending}")
        X = spec.features_of(spec.read(single_row))
        for name in table.X.columns:
            expected, actual = table.X[name][i], X[name].iloc[0]
            same = pd.isna(actual) if pd.isna(expected) else type(expected)(actual) == expected
            assert same, (name, i, expected, actual)


def test_another_process_predicts_bit_identically(fitted: tuple[Path, Any]) -> None:
    folder, model = fitted
    new = write(raw_table(40, seed=5), folder / "new.csv")
    arguments = ["predict", str(folder / "m"), str(new), "-o", str(folder / "new-out.csv"), "--intervals"]
    environment = os.environ | {"PYTHONPATH": str(Path(genlabel.__file__).parents[1])}
    subprocess.run([sys.executable, "-m", "genlabel", *arguments], env=environment, check=True, capture_output=True)
    predictions = read(folder / "new-out.csv")
    X = TableReadSpec.of(table_of(folder / "d.csv")).features_of(
        pd.read_csv(new, dtype=str, keep_default_na=False, na_values="")
    )
    expected = model.predict_proba(X)
    low, high = model[-1].predict_proba_interval(model[:-1].transform(X))
    np.testing.assert_array_equal(predictions[["probability_no", "probability_yes"]], expected)
    np.testing.assert_array_equal(predictions[["lower_probability_no", "lower_probability_yes"]], low)
    np.testing.assert_array_equal(predictions[["upper_probability_no", "upper_probability_yes"]], high)
    np.testing.assert_array_equal(predictions["typicality"], model[-1].typicality(model[:-1].transform(X)))
    assert predictions["prediction"].tolist() == model.predict(X).tolist()


@pytest.mark.parametrize("ending", [".tsv", ".csv.gz", ".jsonl", ".parquet", ".feather"])
def test_output_formats_have_equal_predictions(fitted: tuple[Path, Any], ending: str) -> None:
    folder, _ = fitted
    arguments = ["predict", str(folder / "m"), str(folder / "d.csv")]
    if ending in (".parquet", ".feather"):
        pytest.importorskip("pyarrow")
    readers: dict[str, Callable[[Any], pd.DataFrame]] = {
        ".parquet": pd.read_parquet,
        ".feather": pd.read_feather,
        ".jsonl": lambda path: pd.DataFrame([json.loads(line) for line in path.read_text().splitlines()]),
        ".tsv": lambda path: read(path, "\t"),
    }
    run(*arguments, "-o", str(folder / f"same{ending}"))
    predictions = readers.get(ending, read)(folder / f"same{ending}")
    pd.testing.assert_frame_equal(predictions, read(folder / "out.csv"), check_exact=True, check_dtype=False)


def test_row_order_and_id_columns_are_unchanged(fitted: tuple[Path, Any]) -> None:
    folder, _ = fitted
    frame = raw_table(30, seed=7)
    frame["row"] = [f"00{i}" for i in range(30)]
    content = frame.to_csv(index=False).encode()
    arguments = ["predict", str(folder / "m"), "-", "-o", str(folder / "piped.csv")]
    run(*arguments, "--id", "row", "--id", "code", standard_input=content)
    predictions = pd.read_csv(folder / "piped.csv", dtype=str, keep_default_na=False)
    assert predictions.columns.tolist() == [
        "row",
        "code",
        "prediction",
        "probability_no",
        "probability_yes",
        "typicality",
        "unusual_values",
    ]
    assert predictions[["row", "code"]].equals(frame[["row", "code"]].astype(predictions["row"].dtype))
    run(*arguments, "--keep-columns", standard_input=content)
    all_columns = pd.read_csv(folder / "piped.csv", dtype=str, keep_default_na=False)
    assert all_columns.columns.tolist()[:11] == frame.columns.tolist()
    assert all_columns["town"].tolist() == frame["town"].tolist()
    reversed_rows = frame[::-1].to_csv(index=False).encode()
    run(*arguments, "--id", "row", standard_input=reversed_rows)
    reversed_predictions = pd.read_csv(folder / "piped.csv", dtype=str, keep_default_na=False)
    assert reversed_predictions["prediction"].tolist() == predictions["prediction"].tolist()[::-1]


def test_a_shuffled_index_does_not_change_predictions(fitted: tuple[Path, Any]) -> None:
    pytest.importorskip("pyarrow")
    folder, _ = fitted
    frame = raw_table(30, seed=7)
    shuffled = np.random.default_rng(0).permutation(30)  # the index after a shuffle or a filter
    outputs = []
    for name, index in (("plain", np.arange(30)), ("numbered", shuffled)):
        path, out = folder / f"{name}.parquet", folder / f"{name}-out.csv"
        frame.set_axis(index).to_parquet(path)
        run("predict", str(folder / "m"), str(path), "--id", "row", "-o", str(out))
        outputs.append(out.read_bytes())
        rows = read_table(path, "paid").rows
        assert rows is not None
        assert rows.tolist() == list(range(30))
    assert outputs[0] == outputs[1]


def test_new_and_unusual_values_are_counted_in_one_line(fitted: tuple[Path, Any]) -> None:
    folder, _ = fitted
    frame = raw_table(30, seed=8)
    frame.loc[[0, 1], "town"] = ["Rome", "Bari"]
    frame.loc[[2, 3, 4], "share"] = ""
    frame.loc[5, "member"], frame.loc[6, "price"] = "maybe", "dear"
    frame.loc[7, ["number", "when", "us", "town", "code"]] = ["1e6", "", "", "", "2"]
    arguments = ["predict", str(folder / "m"), str(write(frame, folder / "odd.csv")), "-o", str(folder / "odd-out.csv")]
    lines = run(*arguments).stderr.splitlines()
    expected = {
        "town": "2 ('Rome' in row 0, 'Bari' in row 1, counted from 0)",
        "code": "1 ('2' in row 7, counted from 0)",
        "number": "1, such as 1000000 in row 7",
        "share": ": 3",
        "member": "1 ('maybe' in row 5, counted from 0)",
        "price": "1 ('dear' in row 6, counted from 0)",
    }
    for column, count in expected.items():
        assert len([line for line in lines if f"'{column}'" in line and count in line]) == 1
    assert len(lines) == len(set(lines))
    predictions = read(folder / "odd-out.csv")
    named = predictions["unusual_values"]
    assert named[named != ""].index.tolist() == [0, 1, 7]
    assert all(part in named[7] for part in ("number = 1000000", "code = '2'"))
    unusual = int(((predictions["typicality"] <= TYPICALITY_THRESHOLD) | (named != "")).sum())
    assert [line for line in lines if line.startswith(f"{unusual} of 30 rows ")]


def test_scores_equal_scikit_learn(fitted: tuple[Path, Any]) -> None:
    folder, model = fitted
    frame = raw_table(50, seed=9)
    known = frame["paid"].copy()
    frame.loc[[0, 1], "paid"] = ["", "perhaps"]
    result = run("predict", str(folder / "m"), str(write(frame, folder / "t.csv")), "-o", str(folder / "o.csv"))
    predictions = read(folder / "o.csv")[2:]
    accuracy = 100 * accuracy_score(known[2:], predictions["prediction"])
    loss = log_loss(known[2:], predictions[[f"probability_{name}" for name in model.classes_]])
    line = f"accuracy {accuracy:.2f} %, log-loss {loss:.4f} on 48 rows of known classes; 2 have no class, or one that"
    assert line in result.stderr
    without = run("predict", str(folder / "m"), str(write(frame.drop(columns="paid"), folder / "t.csv")))
    assert "accuracy" not in without.stderr


@pytest.mark.parametrize("labels", [["maybe"], ["maybe", "yes"], ["yes", ""], [""]])
def test_labels_that_training_did_not_have_are_named(labels: list[str], tmp_path: Path) -> None:
    frame = decisive_table()
    data, folder = write(frame, tmp_path / "d.csv"), tmp_path / "m"
    run("fit", str(data), "--target", "y", "-o", str(folder), "--method", "stacked", "--test-size", "0")
    new = write(frame[: len(labels)].assign(y=labels), tmp_path / "new.csv")
    lines = run("predict", str(folder), str(new)).stderr.splitlines()
    named = [line for line in lines if "'y'" in line and "'maybe' in row 0" in line]
    assert len(named) == ("maybe" in labels)
    assert len([line for line in lines if "log-loss" in line]) == ("yes" in labels)


def test_errors_of_predict_name_the_cause(fitted: tuple[Path, Any], tmp_path: Path) -> None:
    folder, _ = fitted
    model, data = str(folder / "m"), str(folder / "d.csv")
    misspelt = str(write(raw_table().rename(columns={"town": "Twon"}), tmp_path / "t.csv"))
    assert "'town'" in error_line("predict", model, misspelt)
    assert "'Twon'" in error_line("predict", model, misspelt)
    two_missing = str(write(raw_table().drop(columns=["town", "share"]), tmp_path / "t.csv"))
    assert "'share', 'town'" in error_line("predict", model, two_missing)
    assert "'.xls'" in error_line("predict", model, data, "-o", str(tmp_path / "o.xls"))
    assert "is the table itself" in error_line("predict", model, data, "-o", data)
    assert "'row'" in error_line("predict", model, data, "--id", "rows")
    assert "'nowhere.csv'" in error_line("predict", model, "nowhere.csv")
    assert "folder" in error_line("predict", str(tmp_path / "nothing"), data)
    with_prediction = str(write(raw_table().assign(prediction="x"), tmp_path / "t.csv"))
    assert "'prediction'" in error_line("predict", model, with_prediction, "--keep-columns")
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for name in (TREE, ARRAYS, CARD):
        (damaged / name).write_bytes((folder / "m" / name).read_bytes())
    content = bytearray((damaged / ARRAYS).read_bytes())
    content[len(content) // 2] ^= 1
    (damaged / ARRAYS).write_bytes(content)
    assert "checksum" in error_line("predict", str(damaged), data)
    (damaged / TREE).write_bytes((damaged / TREE).read_bytes()[:-100])
    assert "damaged" in error_line("predict", str(damaged), data)


def test_only_force_replaces_a_model_folder(tmp_path: Path) -> None:
    data, folder = str(write(raw_table(), tmp_path / "d.csv")), tmp_path / "m"
    folder.mkdir()
    (folder / "diary.txt").write_text("mine")
    arguments = ["fit", data, "--target", "paid", "-o", str(folder), *QUICK, *ONCE]
    assert "not a model" in error_line(*arguments, "--force")
    (folder / "diary.txt").unlink()
    run(*arguments)
    before = (folder / TREE).read_bytes()
    assert "--force" in error_line(*arguments)
    assert (folder / TREE).read_bytes() == before
    run(*arguments, "--force", "--seed", "3")
    assert (folder / TREE).read_bytes() != before
    assert "is a file" in error_line(*arguments[:5], data)
    assert "network" in error_line(*arguments, "--method", "stacked", "--force")
    assert "'paid'" in error_line("fit", data, "--target", "pait", "-o", str(tmp_path / "other"))
    assert not (tmp_path / "other").exists()


def test_fit_prints_table_holdout_scores_and_choices(tmp_path: Path) -> None:
    data, folder = str(write(raw_table(), tmp_path / "d.csv")), tmp_path / "m"
    result = run("fit", data, "--target", "paid", "-o", str(folder), *QUICK)
    assert result.stderr.startswith(f"loading {data} ...\nfirst fit ...\n")
    assert "note: left out column 'row': its values are row numbers (--force-include 'row' uses it)" in result.stdout
    assert "% of 18 rows that a first fit did not see" in result.stdout
    assert "the most frequent class: 66.7 %" in result.stdout
    assert "that of the class priors 0.6" in result.stdout
    assert "chosen: learning rate" in result.stdout
    assert f"its card is {folder / CARD}" in result.stdout
    assert "18 rows that a first fit did not see" in (folder / CARD).read_text()
    plain = json.loads(run("fit", data, "--target", "paid", "-o", str(folder), *QUICK, "--json", "--force").stdout)
    assert plain["held_out"]["rows"] == 18
    assert plain["held_out"]["class_priors"]["accuracy"] == pytest.approx(0.667, abs=0.001)
    assert f"right on {100 * plain['held_out']['accuracy']:.1f} % of 18" in result.stdout
    assert f"log-loss {plain['held_out']['log_loss']:.3f}, that of the class priors" in result.stdout
    assert plain["intervals"] is True


def test_undefined_scores_of_one_held_out_class_are_omitted(tmp_path: Path) -> None:
    frame, y = numeric_table(60)
    y[-12:] = 1
    frame.assign(day=np.arange(60), y=y).to_csv(tmp_path / "d.csv", index=False)
    arguments = ("fit", str(tmp_path / "d.csv"), "--target", "y", "--time", "day", "-o", str(tmp_path / "m"), *QUICK)
    held_out = json.loads(run(*arguments, "--json").stdout, parse_constant=pytest.fail)["held_out"]
    assert held_out["rows"] == held_out["cases"] == 12
    assert held_out["auc"] is None
    assert held_out["balanced_accuracy"] == held_out["accuracy"]
    assert "AUC" not in (tmp_path / "m" / CARD).read_text()


# Awkward tables


def numeric_table(n: int, seed: int = 0, classes: int = 2, share: float = 0.5) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % classes) if classes > 2 else (rng.random(n) < share).astype(int)
    X = rng.normal(size=(n, 3)) + 2 * np.column_stack([np.cos(y), np.sin(y), np.zeros(n)])
    return pd.DataFrame(X.round(4), columns=list("abc")), y


def categories() -> pd.DataFrame:
    frame, y = numeric_table(80)
    rng = np.random.default_rng(1)
    bands = pd.cut(frame["a"], 4, labels=["low", "mid", "high", "top"]).astype(str)
    return pd.DataFrame({"band": bands, "many": rng.choice([f"v{i}" for i in range(30)], 80), "y": y})


def gaps() -> pd.DataFrame:
    frame, y = numeric_table(80)
    return frame.mask(np.random.default_rng(2).random(frame.shape) < 0.3).assign(empty=np.nan, y=y)


def few_positives() -> pd.DataFrame:
    frame, y = numeric_table(150, seed=3, share=0.05)
    return frame.assign(y=np.where(y, "yes", "no"))


def many_classes() -> pd.DataFrame:
    frame, y = numeric_table(110, classes=22)
    return frame.assign(y=[f"kind {c}" for c in y])


def fifty_rows() -> pd.DataFrame:
    frame, y = numeric_table(50, classes=3)
    return frame.assign(y=y)


def one_sample() -> pd.DataFrame:
    frame, y = numeric_table(70)
    names = np.where(y, "b", "a").astype(object)
    names[7] = "alone"
    return frame.assign(y=names)


def dates() -> pd.DataFrame:
    frame, y = numeric_table(80)
    days = pd.Timestamp("2023-03-01") + pd.to_timedelta((20 * frame["a"] + 100).round(), "D")
    return pd.DataFrame({"day": days.dt.strftime("%d.%m.%Y"), "b": frame["b"], "y": y})


KINDS = [categories, gaps, few_positives, many_classes, fifty_rows, one_sample, dates]


@pytest.mark.parametrize("kind", [*KINDS, "semicolons"], ids=lambda kind: getattr(kind, "__name__", kind))
def test_awkward_tables_are_fitted_and_predicted(tmp_path: Path, kind: Any) -> None:
    frame = fifty_rows() if kind == "semicolons" else kind()
    path = tmp_path / "d.csv"
    if kind == "semicolons":
        frame.to_csv(path, index=False, sep=";", decimal=",")
    else:
        frame.to_csv(path, index=False)
    options = ("--epochs", "2") if kind is fifty_rows else QUICK
    options = options if kind in (one_sample, few_positives) else (*options, *ONCE)
    fitted = run("fit", str(path), "--target", "y", "-o", str(tmp_path / "m"), *options)
    assert ("right on " in fitted.stdout) != ("no rows were held out" in fitted.stdout)
    assert ("class 'alone' has a single row" in fitted.stdout) == (kind is one_sample)
    features = pd.read_csv(path, dtype=str, keep_default_na=False, sep=";" if kind == "semicolons" else ",")
    features.drop(columns="y").to_csv(path, index=False, sep=";" if kind == "semicolons" else ",")
    predicted = run("predict", str(tmp_path / "m"), str(path), "-o", str(tmp_path / "o.csv"), "--intervals")
    assert "note: missing" not in predicted.stderr
    predictions = read(tmp_path / "o.csv")
    assert len(predictions) == len(frame)
    names = [name for name in predictions if name.startswith("probability_")]
    assert sorted(names) == sorted(f"probability_{name}" for name in frame["y"].unique())
    np.testing.assert_allclose(predictions[names].sum(axis=1), 1.0, atol=1e-9)
    best = predictions[names].idxmax(axis=1).str.removeprefix("probability_")
    assert best.tolist() == predictions["prediction"].astype(str).tolist()
    assert predictions["typicality"].between(0, 1).all()


# Costs, thresholds and class weights


def test_costs_are_stored_with_the_model_and_predict_replaces_them(tmp_path: Path) -> None:
    data, folder = write(raw_table(), tmp_path / "d.csv"), str(tmp_path / "m")
    arguments = ["fit", str(data), "--target", "paid", "-o", folder, *QUICK, *ONCE, "--force"]
    predict = ["predict", folder, str(data), "-o", str(tmp_path / "o.csv")]
    plain = None
    for stored, given, lowest in [
        ((), (), 0.5),
        (("--threshold", "0.3", "--pos-label", "yes"), (), 0.3),
        (("--cost", "yes=4"), (), 0.2),
        (("--cost", "balanced"), (), (raw_table()["paid"] == "yes").mean()),
        (("--cost", "yes=4"), ("--threshold", "0.6", "--pos-label", "no"), 0.4),
        (("--cost", "yes=4"), ("--cost", "no=3"), 0.75),
    ]:
        run(*arguments, *stored)
        result = run(*predict, *given)
        predictions = read(tmp_path / "o.csv")
        assert (
            predictions["prediction"].tolist()
            == np.where(predictions["probability_yes"] >= lowest, "yes", "no").tolist()
        )
        assert ("prediction: " in result.stderr) == bool(stored or given)
        accuracy = 100 * accuracy_score(raw_table()["paid"], predictions["prediction"])
        assert f"accuracy {accuracy:.2f} %" in result.stderr
        plain = predictions["probability_yes"] if plain is None else plain
        np.testing.assert_array_equal(predictions["probability_yes"], plain)


def test_class_weights_change_the_training(tmp_path: Path) -> None:
    data, folder = write(raw_table(), tmp_path / "d.csv"), tmp_path / "m"
    arguments = ["fit", str(data), "--target", "paid", "-o", str(folder), *QUICK, *ONCE, "--force"]
    counts = raw_table()["paid"].value_counts()
    for values, ratio in [(["balanced"], counts["no"] / counts["yes"]), (["yes=3"], 3.0), (["yes=3", "no=2"], 1.5)]:
        run(*arguments, *(word for value in values for word in ("--class-weight", value)))
        weight = genlabel.load_model(folder).class_weight_
        assert weight[1] / weight[0] == pytest.approx(ratio)


def test_held_out_recall_is_that_of_the_predictions_by_cost() -> None:
    X, y = numeric_table(80)
    table, method = Table("t", X, pd.Series(np.where(y > 0, "yes", "no"), name="y")), make_classifier("stacked")
    train, test = _hold_out(table, 0.3, 0) or ([], [])
    model = _fit(select_rows(table, np.isin(np.arange(80), train)), method, 0, None, {"yes": 3.0})
    held_out = fit_table(table, method, test_size=0.3, costs={"yes": 3.0}).held_out
    assert held_out is not None
    labels, predicted = table.y.iloc[test], model.predict(table.X.iloc[test])
    expected = recall_score(labels, predicted, labels=["no", "yes"], average=None)
    assert list(held_out.recall.values()) == pytest.approx(expected.tolist())
    assert held_out.scores["accuracy"] == pytest.approx(accuracy_score(labels, predicted))


# Empty columns


def decisive_table(n: int = 120) -> pd.DataFrame:
    """A column decides nearly everything and is often empty; another one has no effect."""
    rng = np.random.default_rng(0)
    y = rng.random(n) < 0.4
    boat = np.where(y ^ (rng.random(n) < 0.03), rng.choice(["A", "B"], n), "")
    frame = pd.DataFrame({"boat": boat, "noise": rng.choice(["u", "v"], n), "age": rng.normal(size=n) + 0.3 * y})
    return frame.assign(y=np.where(y, "yes", "no"))


def test_predict_names_an_empty_column_that_mattered(tmp_path: Path) -> None:
    data, folder = write(decisive_table(), tmp_path / "d.csv"), tmp_path / "m"
    result = run("fit", str(data), "--target", "y", "-o", str(folder), "--method", "stacked", "--test-size", "0.4")
    effect = json.loads(json.dumps(genlabel.load_model(folder).extra["column_effects"]))["boat"]
    assert effect[1] > 0.9
    assert f"missing: boat {100 * effect[2]:.1f} %" in result.stdout
    frame = decisive_table().drop(columns="y")

    def notes(rows: pd.DataFrame) -> list[str]:
        stderr = run("predict", str(folder), str(write(rows, tmp_path / "new.csv"))).stderr
        return [line for line in stderr.splitlines() if "is empty here" in line]

    (note,) = notes(frame.assign(boat=""))
    for share in (100 - 100 * (frame["boat"] == "").mean(), 100 * effect[1], 100 * effect[2]):
        assert f"{share:.1f} %" in note or f"{share:.0f} %" in note
    assert notes(frame) == []
    assert notes(frame.assign(boat="")[:2]) == []  # two rows without a boat are usual
    (note,) = notes(frame.assign(noise=""))  # it has no effect
    noise = genlabel.load_model(folder).extra["column_effects"]["noise"]
    assert f"{noise[4]:.3f} instead of {noise[3]:.3f}" in note
    run("fit", str(data), "--target", "y", "-o", str(folder), *QUICK, *ONCE, "--force")  # effects are not known
    assert "'boat'" in notes(frame.assign(boat=""))[0]


def test_predict_tells_the_joint_effect_of_empty_columns(tmp_path: Path) -> None:
    """Each of two copies of a column is idle without the other; the note has the scores without both."""
    rng = np.random.default_rng(0)
    y = rng.random(120) < 0.5
    first = (2.5 * y + rng.normal(size=120)).round(3)
    frame = pd.DataFrame({"first": first, "second": first, "other": rng.normal(size=120).round(3)})
    data = write(frame.assign(y=np.where(y, "yes", "no")), tmp_path / "d.csv")
    for keep in ("--training-rows", "--no-training-rows"):
        folder = tmp_path / keep
        run("fit", str(data), "--target", "y", "-o", str(folder), "--method", "stacked", keep)
        new = write(frame.assign(first="", second=""), tmp_path / "new.csv")
        lines = run("predict", str(folder), str(new)).stderr.splitlines()
        (note,) = [line for line in lines if "'first'" in line or "'second'" in line]
        assert "'first', 'second'" in note
        if keep == "--training-rows":
            model = genlabel.load_model(folder)
            rows = model.training_rows
            for X in (rows.X, rows.X.assign(first=np.nan, second=np.nan)):
                assert f"{100 * accuracy_score(rows.y, model.predict(X)):.1f} %" in note
                assert f"{log_loss(rows.y, model.predict_proba(X)):.3f}" in note


def test_effects_of_columns_equal_scores_of_blank_rows() -> None:
    frame = decisive_table()
    table = Table("t", frame.drop(columns="y").replace("", None), frame["y"])
    model = _fit(select_rows(table, np.arange(120) < 60), make_classifier("stacked"), 0, None, None)
    rows, y = np.arange(60, 120), (frame["y"][60:] == "yes").to_numpy().astype(int)
    effects = measure_columns(TableReadSpec.of(table), table, model, rows, y)
    assert effects["boat"].missing == (frame["boat"] == "").mean()
    for name, effect in effects.items():
        blank = table.X[60:].assign(**{name: None})
        assert effect.accuracy == accuracy_score(frame["y"][60:], model.predict(table.X[60:]))
        assert effect.accuracy_if_blank == accuracy_score(frame["y"][60:], model.predict(blank))
        losses = [log_loss(frame["y"][60:], model.predict_proba(X)) for X in (table.X[60:], blank)]
        assert [effect.loss, effect.loss_if_blank] == pytest.approx(losses)


def test_options_of_classes_name_what_is_wrong(fitted: tuple[Path, Any], tmp_path: Path) -> None:
    folder, _ = fitted
    arguments = ["fit", str(folder / "d.csv"), "--target", "paid", "-o", str(tmp_path / "m"), *QUICK, *ONCE]
    for options, words in [
        (["--cost", "maybe=2"], "'yes'"),
        (["--class-weight", "yes"], "CLASS=NUMBER"),
        (["--class-weight", "yes=0"], "above 0"),
        (["--threshold", "0.2"], "--pos-label"),
        (["--pos-label", "yes"], "--threshold"),
        (["--threshold", "0.2", "--pos-label", "yes", "--cost", "yes=2"], "--cost"),
        (["--device", "abacus"], "--device"),
    ]:
        assert words in error_line(*arguments, *options)
    assert not (tmp_path / "m").exists()


# Held-out rows


def test_search_folds_respect_groups() -> None:
    rng = np.random.default_rng(0)
    person = rng.integers(0, 30, 240)
    X = pd.DataFrame(rng.normal(size=(30, 3))[person] + 0.01 * rng.normal(size=(240, 3)), columns=list("abc"))
    y = pd.Series(np.where(rng.random(30) < 0.5, "yes", "no")[person])  # only the person determines the class
    method = make_classifier("vanilla", (32,), 30)
    ungrouped, grouped = (
        fit_table(Table("t", X, y, groups=groups), method, test_size=0.3) for groups in (None, pd.Series(person))
    )
    assert ungrouped.held_out is not None
    assert grouped.held_out is not None
    assert ungrouped.model[-1].best_score_ > 0.95
    assert grouped.model[-1].best_score_ < 0.8
    assert ungrouped.held_out.scores["accuracy"] > 0.95
    assert grouped.held_out.scores["accuracy"] < 0.8
    assert grouped.held_out.cases < ungrouped.held_out.cases == ungrouped.held_out.rows


def test_held_out_rows_respect_time_groups_and_rare_classes() -> None:
    frame, y = numeric_table(60)
    y[:2] = 5
    table = Table("t", frame, pd.Series(y))
    train, test = _hold_out(table, 0.2, 0) or ([], [])
    assert len(test) == 12
    assert {0, 1} <= set(train)
    assert sorted([*train, *test]) == list(range(60))
    time = pd.Series(np.random.default_rng(0).permutation(60.0 * np.arange(60)))
    train, test = _hold_out(Table("t", frame, pd.Series(y), time=time), 0.2, 0) or ([], [])
    assert time[train].max() < time[test].min()
    assert {row for row in (0, 1) if time[row] < time[test].min()} == {0, 1} & set(train)
    groups = pd.Series(np.arange(60) // 4)
    outcomes = set()
    for seed in range(8):
        train, test = _hold_out(Table("t", frame, pd.Series(y), groups=groups), 0.2, seed) or ([], [])
        assert not set(groups[train]) & set(groups[test])
        assert not {0, 1} & set(test)
        assert ({0, 1} <= set(train)) == (groups[0] not in set(groups[test]))
        outcomes.add(0 in set(train))
    assert outcomes == {True, False}


def test_predict_uses_the_bin_edges_of_fit(tmp_path: Path) -> None:
    frame, _ = numeric_table(80)
    price = (200 + 50 * frame["a"] + 5 * frame["b"]).round(2)
    path = tmp_path / "d.csv"
    frame.assign(price=price).to_csv(path, index=False)
    arguments = ("-o", str(tmp_path / "m"), *QUICK, *ONCE)
    run("fit", str(path), "--target", "price", "--bins", "3", *arguments)
    table = read_table(path, "price", bins=3)
    spec = TableReadSpec.of(table)
    classes = np.unique(table.y)
    part = frame.assign(price=price)[5:9]
    assert spec.classes_of(part, classes).tolist() == np.searchsorted(classes, table.y[5:9]).tolist()
    assert "80 rows of known classes" in run("predict", str(tmp_path / "m"), str(path)).stderr


def test_a_model_saved_in_python_accepts_features(fitted: tuple[Path, Any], tmp_path: Path) -> None:
    folder, model = fitted
    X = table_of(folder / "d.csv").X
    X.to_csv(tmp_path / "features.csv", index=False)
    genlabel.save_model(model, tmp_path / "m")
    run("predict", str(tmp_path / "m"), str(tmp_path / "features.csv"), "-o", str(tmp_path / "o.csv"))
    np.testing.assert_allclose(read(tmp_path / "o.csv")["probability_yes"], model.predict_proba(X)[:, 1], rtol=1e-9)


def test_large_files_are_predicted_in_chunks(fitted: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _ = fitted
    model = genlabel.load_model(folder / "m")
    X = TableReadSpec.of(table_of(folder / "d.csv")).features_of(pd.read_csv(folder / "d.csv", dtype=str))
    whole, counts = predict_table(model, X), []
    monkeypatch.setattr("genlabel.evaluation.table_models.CHUNK_ROWS", 40)
    chunked = predict_table(model, X, on_rows=counts.append)
    assert counts == [40, 40, 10]
    pd.testing.assert_frame_equal(chunked, whole, rtol=1e-12)
    with pytest.raises(ValueError, match="rows"):
        predict_table(model, X[:0])


def test_piped_output_is_utf_8(fitted: tuple[Path, Any]) -> None:
    folder, _ = fitted
    frame = raw_table(8).assign(row=[f"Łódź {i}" for i in range(8)])
    arguments = ["predict", str(folder / "m"), "-", "--id", "row"]
    result = CliRunner(charset="ascii").invoke(app, arguments, input=frame.to_csv(index=False).encode())
    assert result.exit_code == 0, result.output
    lines = result.stdout_bytes.decode("utf-8").splitlines()
    assert [line.split(",")[0] for line in lines] == ["row", *frame["row"]]


@pytest.mark.parametrize("date_format, clock", [("%Y-%m-%d %H:%M", "10:30"), ("%m/%d/%Y", "")])
def test_unusual_dates_are_shown_as_dates(date_format: str, clock: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    days = pd.Series(pd.date_range("2020-01-01", periods=90, freq="37h")).sample(
        frac=1, random_state=0, ignore_index=True
    )
    y = rng.choice(["no", "yes"], 90)
    frame = pd.DataFrame({"when": days.dt.strftime(date_format), "x": rng.normal(size=90), "y": y})
    folder, new = tmp_path / "m", frame[:3].assign(when=pd.Timestamp(f"2050-03-01 {clock}").strftime(date_format))
    run("fit", str(write(frame, tmp_path / "d.csv")), "--target", "y", "-o", str(folder), "--method", "stacked")
    path = str(write(new, tmp_path / "new.csv"))
    stderr = run("predict", str(folder), path, "-o", str(tmp_path / "out.csv")).stderr
    (line,) = [line for line in stderr.splitlines() if "'when'" in line]
    cells = pd.read_csv(tmp_path / "out.csv")["unusual_values"]
    for text in (line, *cells, run("explain", str(folder), path).stdout):
        assert "2050-03-01" in text
        assert clock in text
        assert "2020-01-01" in text
        assert "(day)" not in text


@pytest.mark.parametrize("n", [2, 4, 7])
def test_very_small_tables_are_fitted_and_say_what_they_cannot_tell(n: int, tmp_path: Path) -> None:
    frame = decisive_table().assign(y=["yes" if i % 3 == 0 else "no" for i in range(120)])[:n]
    data, folder = write(frame, tmp_path / "d.csv"), tmp_path / "m"
    result = run("fit", str(data), "--target", "y", "-o", str(folder), "--method", "stacked")
    assert "nothing was held out" in result.stdout
    stderr = run("predict", str(folder), str(data)).stderr
    assert f"lowest typicality is {1 / (1 + n):.2f}" in stderr
