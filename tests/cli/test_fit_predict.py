"""`genlabel fit` and `genlabel predict`: from a raw table to a kept model to predictions of another raw table."""

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
from sklearn.metrics import accuracy_score, log_loss
from typer.testing import CliRunner

import genlabel
from genlabel.cli import app
from genlabel.data.tables import Table, TableReadSpec, drop_leaks, read_table
from genlabel.evaluation.table_models import _hold_out, fit_table, make_classifier, predict_table
from genlabel.persistence.files import ARRAYS, CARD, TREE

N = 90
QUICK = ("--method", "vanilla", "--network", "logistic", "--epochs", "2")
ONCE = ("--test-size", "0")


def raw(n: int = N, seed: int = 0) -> pd.DataFrame:
    """A table as people have them: everything is text."""
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


def invoke(*words: str, standard_input: bytes | None = None) -> Any:
    return CliRunner().invoke(app, list(words), prog_name="genlabel", input=standard_input)


def done(*words: str, standard_input: bytes | None = None) -> Any:
    result = invoke(*words, standard_input=standard_input)
    assert result.exit_code == 0, result.output
    return result


def told(*words: str, standard_input: bytes | None = None) -> str:
    """The one line of a refusal."""
    result = invoke(*words, standard_input=standard_input)
    assert result.exit_code == 2, result.output
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    return line


def read(path: Path, sep: str = ",") -> pd.DataFrame:
    """Predictions, with numbers to the last bit."""
    frame = pd.read_csv(path, sep=sep, dtype=str)
    return frame.apply(lambda column: column.map(float) if column.name != "prediction" else column)


def table_of(path: Path) -> Table:
    return drop_leaks(read_table(path, "paid", na_values=["-9"]))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A model in a folder that the command has written, and the one in memory."""
    folder = tmp_path_factory.mktemp("kept")
    path = write(raw(), folder / "d.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = fit_table(table_of(path), make_classifier("vanilla", "logistic", 2), test_size=0, seed=1)
        done(
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
    done("predict", str(folder / "m"), str(path), "-o", str(folder / "out.csv"))
    return folder, fitted.model


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".txt", ".jsonl", ".xlsx", ".parquet"])
def test_each_row_alone_is_read_as_it_was_among_the_others(tmp_path: Path, ending: str) -> None:
    pytest.importorskip({".xlsx": "openpyxl", ".parquet": "pyarrow"}.get(ending, "pandas"))
    frame = raw().drop(columns="weight") if ending == ".csv" else raw()
    table = read_table(write(frame, tmp_path / f"d{ending}"), "paid", na_values=["-9"])
    plan = TableReadSpec.from_plain(json.loads(json.dumps(TableReadSpec.of(table).to_plain())))
    assert plan == TableReadSpec.of(table)
    for i in (0, 3, 4, 5):
        one = write(frame[i : i + 1].sample(frac=1, axis=1, random_state=i), tmp_path / f"one{ending}")
        X = plan.features_of(plan.read(one))
        for name in table.X.columns:
            expected, found = table.X[name][i], X[name].iloc[0]
            same = pd.isna(found) if pd.isna(expected) else type(expected)(found) == expected
            assert same, (name, i, expected, found)


def test_another_process_predicts_the_same_to_the_last_bit(kept: tuple[Path, Any]) -> None:
    folder, model = kept
    new = write(raw(40, seed=5), folder / "new.csv")
    words = ["predict", str(folder / "m"), str(new), "-o", str(folder / "new-out.csv"), "--intervals"]
    environment = os.environ | {"PYTHONPATH": str(Path(genlabel.__file__).parents[1])}
    subprocess.run([sys.executable, "-m", "genlabel", *words], env=environment, check=True, capture_output=True)
    found = read(folder / "new-out.csv")
    X = TableReadSpec.of(table_of(folder / "d.csv")).features_of(
        pd.read_csv(new, dtype=str, keep_default_na=False, na_values="")
    )
    expected = model.predict_proba(X)
    low, high = model[-1].predict_proba_interval(model[:-1].transform(X))
    np.testing.assert_array_equal(found[["probability_no", "probability_yes"]], expected)
    np.testing.assert_array_equal(found[["low_no", "low_yes"]], low)
    np.testing.assert_array_equal(found[["high_no", "high_yes"]], high)
    np.testing.assert_array_equal(found["typicality"], model[-1].typicality(model[:-1].transform(X)))
    assert found["prediction"].tolist() == model.predict(X).tolist()


@pytest.mark.parametrize("ending", [".tsv", ".csv.gz", ".jsonl", ".parquet", ".feather"])
def test_every_output_holds_the_same(kept: tuple[Path, Any], ending: str) -> None:
    folder, _ = kept
    words = ["predict", str(folder / "m"), str(folder / "d.csv")]
    if ending in (".parquet", ".feather"):
        pytest.importorskip("pyarrow")
    readers: dict[str, Callable[[Any], pd.DataFrame]] = {
        ".parquet": pd.read_parquet,
        ".feather": pd.read_feather,
        ".jsonl": lambda path: pd.DataFrame([json.loads(line) for line in path.read_text().splitlines()]),
        ".tsv": lambda path: read(path, "\t"),
    }
    done(*words, "-o", str(folder / f"same{ending}"))
    found = readers.get(ending, read)(folder / f"same{ending}")
    pd.testing.assert_frame_equal(found, read(folder / "out.csv"), check_exact=True, check_dtype=False)


def test_rows_stay_in_order_and_their_columns_stay_as_written(kept: tuple[Path, Any]) -> None:
    folder, _ = kept
    frame = raw(30, seed=7)
    frame["row"] = [f"00{i}" for i in range(30)]
    content = frame.to_csv(index=False).encode()
    words = ["predict", str(folder / "m"), "-", "-o", str(folder / "piped.csv")]
    done(*words, "--id", "row", "--id", "code", standard_input=content)
    found = pd.read_csv(folder / "piped.csv", dtype=str, keep_default_na=False)
    assert found.columns.tolist() == ["row", "code", "prediction", "probability_no", "probability_yes", "typicality"]
    assert found[["row", "code"]].equals(frame[["row", "code"]].astype(found["row"].dtype))
    done(*words, "--keep-columns", standard_input=content)
    every = pd.read_csv(folder / "piped.csv", dtype=str, keep_default_na=False)
    assert every.columns.tolist()[:11] == frame.columns.tolist()
    assert every["town"].tolist() == frame["town"].tolist()
    backwards = frame[::-1].to_csv(index=False).encode()
    done(*words, "--id", "row", standard_input=backwards)
    turned = pd.read_csv(folder / "piped.csv", dtype=str, keep_default_na=False)
    assert turned["prediction"].tolist() == found["prediction"].tolist()[::-1]


def test_rows_of_a_file_that_numbers_them_otherwise_keep_their_predictions(kept: tuple[Path, Any]) -> None:
    pytest.importorskip("pyarrow")
    folder, _ = kept
    frame = raw(30, seed=7)
    shuffled = np.random.default_rng(0).permutation(30)  # an index as a shuffle or a filter leaves it
    found = []
    for name, index in (("plain", np.arange(30)), ("numbered", shuffled)):
        path, out = folder / f"{name}.parquet", folder / f"{name}-out.csv"
        frame.set_axis(index).to_parquet(path)
        done("predict", str(folder / "m"), str(path), "--id", "row", "-o", str(out))
        found.append(out.read_bytes())
        rows = read_table(path, "paid").rows
        assert rows is not None
        assert rows.tolist() == list(range(30))
    assert found[0] == found[1]


def test_new_values_are_reported_once_with_a_count(kept: tuple[Path, Any]) -> None:
    folder, _ = kept
    frame = raw(30, seed=8)
    frame.loc[[0, 1], "town"] = ["Rome", "Bari"]
    frame.loc[[2, 3, 4], "share"] = ""
    frame.loc[5, "member"], frame.loc[6, "price"] = "maybe", "dear"
    frame.loc[7, ["number", "when", "us", "town", "code"]] = ["1e6", "", "", "", "2"]
    result = done("predict", str(folder / "m"), str(write(frame, folder / "odd.csv")))
    notes = [line.removeprefix("note: ") for line in result.stderr.splitlines() if line.startswith("note: ")]
    assert "values of 'town' that training did not have: 2 ('Rome', 'Bari'); they count as rare" in notes
    assert "values of 'code' that training did not have: 1 ('2'); they count as rare" in notes
    assert "missing values of 'share', which had none in training: 3" in notes
    assert "values of 'member' that are not truth values and count as missing: 1 ('maybe')" in notes
    assert "values of 'price' that are not numbers and count as missing: 1 ('dear')" in notes
    assert len(notes) == len(set(notes))
    assert len(result.stdout.splitlines()) == 31
    low = int(result.stderr.split("0.05 or less): ")[1].split(" of 30")[0])  # of 90 rows, 0.01 is out of reach
    assert 1 <= low < 30


def test_scores_are_those_of_scikit_learn(kept: tuple[Path, Any]) -> None:
    folder, model = kept
    frame = raw(50, seed=9)
    known = frame["paid"].copy()
    frame.loc[[0, 1], "paid"] = ["", "perhaps"]
    result = done("predict", str(folder / "m"), str(write(frame, folder / "t.csv")), "-o", str(folder / "o.csv"))
    found = read(folder / "o.csv")[2:]
    accuracy = 100 * accuracy_score(known[2:], found["prediction"])
    loss = log_loss(known[2:], found[[f"probability_{name}" for name in model.classes_]])
    line = f"accuracy {accuracy:.2f} %, log-loss {loss:.4f} on 48 rows of known classes; 2 have no class, or one that"
    assert line in result.stderr
    without = done("predict", str(folder / "m"), str(write(frame.drop(columns="paid"), folder / "t.csv")))
    assert "accuracy" not in without.stderr


def test_errors_of_predict_say_what_helps(kept: tuple[Path, Any], tmp_path: Path) -> None:
    folder, _ = kept
    model, data = str(folder / "m"), str(folder / "d.csv")
    misspelt = str(write(raw().rename(columns={"town": "Twon"}), tmp_path / "t.csv"))
    assert "lacks the column 'town'" in told("predict", model, misspelt)
    assert "rename 'Twon'" in told("predict", model, misspelt)
    two = str(write(raw().drop(columns=["town", "share"]), tmp_path / "t.csv"))
    assert "lacks 2 columns, 'share', 'town'" in told("predict", model, two)
    assert "ends in '.xls'" in told("predict", model, data, "-o", str(tmp_path / "o.xls"))
    assert "is the table itself" in told("predict", model, data, "-o", data)
    assert "did you mean 'row'?" in told("predict", model, data, "--id", "rows")
    assert "no file 'nowhere.csv'" in told("predict", model, "nowhere.csv")
    assert "folder" in told("predict", str(tmp_path / "nothing"), data)
    again = str(write(raw().assign(prediction="x"), tmp_path / "t.csv"))
    assert "columns of predictions, 'prediction'" in told("predict", model, again, "--keep-columns")
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for name in (TREE, ARRAYS, CARD):
        (damaged / name).write_bytes((folder / "m" / name).read_bytes())
    content = bytearray((damaged / ARRAYS).read_bytes())
    content[len(content) // 2] ^= 1
    (damaged / ARRAYS).write_bytes(content)
    assert "checksum differs" in told("predict", str(damaged), data)
    (damaged / TREE).write_bytes((damaged / TREE).read_bytes()[:-100])
    assert "damaged" in told("predict", str(damaged), data)


def test_a_folder_is_replaced_only_if_it_is_a_model_and_forced(tmp_path: Path) -> None:
    data, folder = str(write(raw(), tmp_path / "d.csv")), tmp_path / "m"
    folder.mkdir()
    (folder / "diary.txt").write_text("mine")
    words = ["fit", data, "--target", "paid", "-o", str(folder), *QUICK, *ONCE]
    assert "not a model of genlabel" in told(*words, "--force")
    (folder / "diary.txt").unlink()
    done(*words)
    before = (folder / TREE).read_bytes()
    assert "--force replaces it" in told(*words)
    assert (folder / TREE).read_bytes() == before
    done(*words, "--force", "--seed", "3")
    assert (folder / TREE).read_bytes() != before
    assert "is a file" in told(*words[:5], data)
    assert "methods with a network" in told(*words, "--method", "stacked", "--force")
    assert "did you mean 'paid'" in told("fit", data, "--target", "pait", "-o", str(tmp_path / "other"))
    assert not (tmp_path / "other").exists()


def test_fit_prints_table_holdout_scores_and_choices(tmp_path: Path) -> None:
    data, folder = str(write(raw(), tmp_path / "d.csv")), tmp_path / "m"
    result = done("fit", data, "--target", "paid", "-o", str(folder), *QUICK)
    assert result.stderr.startswith(f"loading {data} ...\nfirst fit ...\n")
    assert "note: left out column 'row': its values are row numbers (--force-include 'row' uses it)" in result.stdout
    assert "held out: 18 rows that a first fit did not see: accuracy" in result.stdout
    assert "(class priors: 66.7 %, 0.6" in result.stdout
    assert "chosen: learning rate" in result.stdout
    assert f"its card is {folder / CARD}" in result.stdout
    assert "18 rows that a first fit did not see" in (folder / CARD).read_text()
    plain = json.loads(done("fit", data, "--target", "paid", "-o", str(folder), *QUICK, "--json", "--force").stdout)
    assert plain["held_out"]["rows"] == 18
    assert plain["held_out"]["class_priors"]["accuracy"] == pytest.approx(0.667, abs=0.001)
    assert f"accuracy {100 * plain['held_out']['accuracy']:.1f} % (" in result.stdout
    assert f"), log-loss {plain['held_out']['log_loss']:.3f} (class priors" in result.stdout
    assert plain["intervals"] is True


def test_undefined_scores_of_one_held_out_class_are_omitted(tmp_path: Path) -> None:
    frame, y = cut(60)
    y[-12:] = 1
    frame.assign(day=np.arange(60), y=y).to_csv(tmp_path / "d.csv", index=False)
    words = ("fit", str(tmp_path / "d.csv"), "--target", "y", "--time", "day", "-o", str(tmp_path / "m"), *QUICK)
    found = json.loads(done(*words, "--json").stdout, parse_constant=pytest.fail)["held_out"]
    assert found["rows"] == found["cases"] == 12
    assert found["auc"] is None
    assert found["balanced_accuracy"] == found["accuracy"]
    assert "AUC" not in (tmp_path / "m" / CARD).read_text()


# Tables of the kinds that people have


def cut(n: int, seed: int = 0, classes: int = 2, share: float = 0.5) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % classes) if classes > 2 else (rng.random(n) < share).astype(int)
    X = rng.normal(size=(n, 3)) + 2 * np.column_stack([np.cos(y), np.sin(y), np.zeros(n)])
    return pd.DataFrame(X.round(4), columns=list("abc")), y


def categories() -> pd.DataFrame:
    frame, y = cut(80)
    rng = np.random.default_rng(1)
    bands = pd.cut(frame["a"], 4, labels=["low", "mid", "high", "top"]).astype(str)
    return pd.DataFrame({"band": bands, "many": rng.choice([f"v{i}" for i in range(30)], 80), "y": y})


def gaps() -> pd.DataFrame:
    frame, y = cut(80)
    return frame.mask(np.random.default_rng(2).random(frame.shape) < 0.3).assign(empty=np.nan, y=y)


def few_positives() -> pd.DataFrame:
    frame, y = cut(150, seed=3, share=0.05)
    return frame.assign(y=np.where(y, "yes", "no"))


def many_classes() -> pd.DataFrame:
    frame, y = cut(110, classes=22)
    return frame.assign(y=[f"kind {c}" for c in y])


def fifty_rows() -> pd.DataFrame:
    frame, y = cut(50, classes=3)
    return frame.assign(y=y)


def one_sample() -> pd.DataFrame:
    frame, y = cut(70)
    names = np.where(y, "b", "a").astype(object)
    names[7] = "alone"
    return frame.assign(y=names)


def dates() -> pd.DataFrame:
    frame, y = cut(80)
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
    how = ("--epochs", "2") if kind is fifty_rows else QUICK
    how = how if kind in (one_sample, few_positives) else (*how, *ONCE)
    fitted = done("fit", str(path), "--target", "y", "-o", str(tmp_path / "m"), *how)
    assert "held out: " in fitted.stdout
    assert ("class 'alone' has a single row" in fitted.stdout) == (kind is one_sample)
    features = pd.read_csv(path, dtype=str, keep_default_na=False, sep=";" if kind == "semicolons" else ",")
    features.drop(columns="y").to_csv(path, index=False, sep=";" if kind == "semicolons" else ",")
    told = done("predict", str(tmp_path / "m"), str(path), "-o", str(tmp_path / "o.csv"), "--intervals")
    assert "note: missing" not in told.stderr
    found = read(tmp_path / "o.csv")
    assert len(found) == len(frame)
    names = [name for name in found if name.startswith("probability_")]
    assert sorted(names) == sorted(f"probability_{name}" for name in frame["y"].unique())
    np.testing.assert_allclose(found[names].sum(axis=1), 1.0, atol=1e-9)
    best = found[names].idxmax(axis=1).str.removeprefix("probability_")
    assert best.tolist() == found["prediction"].astype(str).tolist()
    assert found["typicality"].between(0, 1).all()


# What is held out


def test_the_folds_of_the_search_keep_groups_on_one_side() -> None:
    rng = np.random.default_rng(0)
    who = rng.integers(0, 30, 240)
    X = pd.DataFrame(rng.normal(size=(30, 3))[who] + 0.01 * rng.normal(size=(240, 3)), columns=list("abc"))
    y = pd.Series(np.where(rng.random(30) < 0.5, "yes", "no")[who])  # who it is tells the class, and nothing else does
    method = make_classifier("vanilla", (32,), 30)
    mixed, apart = (
        fit_table(Table("t", X, y, groups=groups), method, test_size=0.3) for groups in (None, pd.Series(who))
    )
    assert mixed.held_out is not None
    assert apart.held_out is not None
    assert mixed.model[-1].best_score_ > 0.95
    assert apart.model[-1].best_score_ < 0.8
    assert mixed.held_out.scores["accuracy"] > 0.95
    assert apart.held_out.scores["accuracy"] < 0.8
    assert apart.held_out.cases < mixed.held_out.cases == mixed.held_out.rows


def test_held_out_rows_are_later_or_of_other_groups_and_never_of_a_rare_class() -> None:
    frame, y = cut(60)
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
    seen = set()
    for seed in range(8):
        train, test = _hold_out(Table("t", frame, pd.Series(y), groups=groups), 0.2, seed) or ([], [])
        assert not set(groups[train]) & set(groups[test])
        assert not {0, 1} & set(test)
        assert ({0, 1} <= set(train)) == (groups[0] not in set(groups[test]))
        seen.add(0 in set(train))
    assert seen == {True, False}


def test_bins_are_read_again_where_they_were_cut(tmp_path: Path) -> None:
    frame, _ = cut(80)
    price = (200 + 50 * frame["a"] + 5 * frame["b"]).round(2)
    path = tmp_path / "d.csv"
    frame.assign(price=price).to_csv(path, index=False)
    words = ("-o", str(tmp_path / "m"), *QUICK, *ONCE)
    done("fit", str(path), "--target", "price", "--bins", "3", *words)
    table = read_table(path, "price", bins=3)
    plan = TableReadSpec.of(table)
    classes = np.unique(table.y)
    part = frame.assign(price=price)[5:9]
    assert plan.classes_of(part, classes).tolist() == np.searchsorted(classes, table.y[5:9]).tolist()
    assert "80 rows of known classes" in done("predict", str(tmp_path / "m"), str(path)).stderr


def test_a_model_of_a_program_takes_features_as_they_are(kept: tuple[Path, Any], tmp_path: Path) -> None:
    folder, model = kept
    X = table_of(folder / "d.csv").X
    X.to_csv(tmp_path / "features.csv", index=False)
    genlabel.save_model(model, tmp_path / "m")
    done("predict", str(tmp_path / "m"), str(tmp_path / "features.csv"), "-o", str(tmp_path / "o.csv"))
    np.testing.assert_allclose(read(tmp_path / "o.csv")["probability_yes"], model.predict_proba(X)[:, 1], rtol=1e-9)


def test_large_files_are_predicted_in_parts(kept: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _ = kept
    model = genlabel.load_model(folder / "m")
    X = TableReadSpec.of(table_of(folder / "d.csv")).features_of(pd.read_csv(folder / "d.csv", dtype=str))
    whole, rows = predict_table(model, X), []
    monkeypatch.setattr("genlabel.evaluation.table_models.CHUNK_ROWS", 40)
    parts = predict_table(model, X, on_rows=rows.append)
    assert rows == [40, 40, 10]
    pd.testing.assert_frame_equal(parts, whole, rtol=1e-12)
    with pytest.raises(ValueError, match="X has no rows"):
        predict_table(model, X[:0])


def test_a_pipe_is_utf_8_whatever_the_terminal_shows(kept: tuple[Path, Any]) -> None:
    folder, _ = kept
    frame = raw(8).assign(row=[f"Łódź {i}" for i in range(8)])
    words = ["predict", str(folder / "m"), "-", "--id", "row"]
    result = CliRunner(charset="ascii").invoke(app, words, input=frame.to_csv(index=False).encode())
    assert result.exit_code == 0, result.output
    found = result.stdout_bytes.decode("utf-8").splitlines()
    assert [line.split(",")[0] for line in found] == ["row", *frame["row"]]
