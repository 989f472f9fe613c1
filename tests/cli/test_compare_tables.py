"""Test `genlabel compare` on misleading tables, with methods that are fast to fit."""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

from genlabel.cli import app

N = 400


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    methods = {
        "nearest": make_pipeline(StandardScaler(), KNeighborsClassifier(1)),
        "tree": DecisionTreeClassifier(),
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression()),
        "class priors": DummyClassifier(strategy="prior"),
    }
    monkeypatch.setattr("genlabel.evaluation.comparison.default_methods", lambda *_: methods)
    return tmp_path


def frame(n: int = N, seed: int = 0, gap: float = 0.8, share: float = 0.5) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    y = rng.random(n) < share
    X = rng.normal(size=(n, 3)) + gap * y[:, None]
    return pd.DataFrame(X, columns=list("abc")).round(4).assign(label=np.where(y, "yes", "no"))


def invoke(*arguments: str, standard_input: bytes | None = None) -> Any:
    repeats = [] if "--n-splits" in arguments else ["--n-splits", "6"]
    command = ["compare", *arguments, *repeats, "--jobs", "1"]
    return CliRunner().invoke(app, command, prog_name="genlabel", input=standard_input)


def scores(*arguments: str, method: str, standard_input: bytes | None = None) -> dict[str, Any]:
    result = invoke(*arguments, "--json", standard_input=standard_input)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    return report | {
        name: report["methods"][method][name]["mean"] for name in ("accuracy", "log_loss", "balanced_accuracy")
    }


def test_an_id_that_sorts_the_target_is_left_out(workdir: Path) -> None:
    table = frame()
    table.to_csv("without.csv", index=False)
    table = table.sort_values("label", ignore_index=True)
    table.insert(0, "patient", np.arange(1, N + 1))
    table.sample(frac=1, random_state=0).to_csv("with.csv", index=False)
    without, with_id = (scores(f"{name}.csv", "--target", "label", method="tree") for name in ("without", "with"))
    forced = scores("with.csv", "--target", "label", "--force-include", "patient", method="tree")
    assert forced["accuracy"] > 0.95
    assert with_id["accuracy"] < without["accuracy"] + 0.04  # another order of rows gives other splits
    assert with_id["notes"] == [
        "left out column 'patient': its values are row numbers (--force-include 'patient' uses it)"
    ]
    assert with_id["features"] == ["a", "b", "c"]


def test_duplicate_rows_do_not_change_scores(workdir: Path) -> None:
    table = frame()
    table.to_csv("once.csv", index=False)
    pd.concat([table, table.sample(frac=0.7, random_state=0)]).sample(frac=1, random_state=1).to_csv(
        "twice.csv", index=False
    )
    once, twice = (scores(f"{name}.csv", "--target", "label", method="nearest") for name in ("once", "twice"))
    assert twice["accuracy"] == pytest.approx(once["accuracy"], abs=0.04)
    assert twice["notes"] == ["rows that equal an earlier row: 280; equal rows stay on one side of every split"]
    assert "groups on one side" in twice["splits"]


def test_a_continuous_target_is_an_error(workdir: Path) -> None:
    table = frame()
    table.assign(price=(300 + 50 * table["a"]).astype(int)).to_csv("t.csv", index=False)
    refused = invoke("t.csv", "--target", "price")
    assert refused.exit_code == 2
    (line,) = [line for line in refused.stderr.splitlines() if line.startswith("Error: ")]
    assert "--target-is-categorical" in line
    assert "--bins 3" in line
    binned = scores("t.csv", "--target", "price", "--bins", "3", method="logistic regression")
    assert len(binned["classes"]) == 3
    categorical = invoke("t.csv", "--target", "price", "--target-is-categorical", "--min-class-size", "4")
    assert categorical.exit_code == 0, categorical.output
    assert len([line for line in categorical.stdout.splitlines() if "left out" in line]) == 1


@pytest.mark.long
def test_a_class_named_na_is_a_class(workdir: Path) -> None:
    table = frame()
    table.loc[:49, "label"] = "NA"
    table.to_csv("t.csv", index=False)
    result = scores("t.csv", "--target", "label", method="logistic regression")
    assert result["classes"]["NA"] == 50
    assert any("'NA' in the target 'label' is taken as a class of 50 rows" in note for note in result["notes"])
    without = scores("t.csv", "--target", "label", "--na-values", "NA", method="logistic regression")
    assert set(without["classes"]) == {"yes", "no"}
    assert "rows dropped because 'label' is missing: 50" in without["notes"]


def test_rare_positives_have_informative_scores(workdir: Path) -> None:
    frame(800, share=0.05, gap=0.3).to_csv("t.csv", index=False)
    result = invoke("t.csv", "--target", "label")
    for title in ("log-loss", "accuracy %", "balanced %", "AUC", "Brier"):
        assert title in result.stdout
    assert "*" not in result.stdout
    assert "always guessing the largest class (95." in result.stdout
    assert "class priors" in result.stdout


@pytest.mark.long
def test_money_percents_and_dates_are_features(workdir: Path) -> None:
    table = frame()
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, N), "D")
    wide = pd.DataFrame(
        {
            "amount": [f"{1000 * value + 5000:,.0f}" for value in table["a"]],
            "cost": [f"${20 + 3 * value:.2f}" for value in table["b"]],
            "share": [f"{50 + 10 * value:.0f}%" for value in table["c"]],
            "when": days.strftime("%m/%d/%Y"),
            "member": rng.random(N) < 0.5,
            "town": rng.choice(["Ulm", "Bern"], N),
            "label": table["label"],
        }
    )
    wide.to_csv("t.csv", index=False)
    table.to_csv("plain.csv", index=False)
    result, plain = (
        scores(f"{name}.csv", "--target", "label", method="logistic regression") for name in ("t", "plain")
    )
    assert result["log_loss"] == pytest.approx(plain["log_loss"], abs=0.05)
    kinds = {column["name"]: column["kind"] for column in result["columns"]}
    assert kinds == {
        "amount": "amount",
        "cost": "amount",
        "share": "amount",
        "when": "date",
        "member": "boolean",
        "town": "text",
    }
    printed = invoke("t.csv", "--target", "label").stdout
    assert "columns of numbers written as text (3): amount, cost, share" in printed
    assert "columns of dates (1): when (day, month, weekday)" in printed
    assert "columns of yes and no (1): member" in printed
    assert "columns of text, a feature for each value (1): town (2 values)" in printed


def test_splits_respect_groups_and_time(workdir: Path) -> None:
    rng = np.random.default_rng(0)
    person = rng.integers(0, 40, N)
    table = pd.DataFrame(rng.normal(size=(40, 3))[person] + 0.01 * rng.normal(size=(N, 3)), columns=list("abc"))
    table = table.assign(who=[f"p{i}" for i in person], label=np.where(rng.random(40) < 0.5, "yes", "no")[person])
    table.to_csv("t.csv", index=False)
    arguments = ["t.csv", "--target", "label"]
    ungrouped, grouped = (
        scores(*arguments, *more, method="nearest") for more in (["--drop", "who"], ["--groups", "who"])
    )
    assert ungrouped["accuracy"] > 0.97
    assert grouped["accuracy"] < 0.75
    assert grouped["features"] == ["a", "b", "c"]
    days = pd.date_range("2024-01-01", periods=N, freq="6h").strftime("%Y-%m-%d %H:%M")
    frame().assign(when=days).sample(frac=1, random_state=0).to_csv("t.csv", index=False)
    later = scores(*arguments, "--time", "when", method="logistic regression")
    assert "splits by time, earlier rows predict later ones: 6" in later["splits"]
    assert later["features"] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "packed", [pytest.param(False, id="plain"), pytest.param(True, id="packed", marks=pytest.mark.long)]
)
def test_standard_input(workdir: Path, packed: bool) -> None:
    content = frame().to_csv(index=False, sep=";").encode()
    piped = gzip.compress(content) if packed else content
    result = scores("-", "--target", "label", method="logistic regression", standard_input=piped)
    Path("t.csv").write_bytes(content)
    assert result["table"] == "stdin"
    assert result["log_loss"] == scores("t.csv", "--target", "label", method="logistic regression")["log_loss"]
    assert (workdir / "compare-stdin.png").exists()
    again = invoke("-", "--target", "label", standard_input=piped)
    assert "fits recorded: 24; to do: 0" in again.stderr


@pytest.mark.parametrize(
    "arguments", [["--drop", "aa"], ["--force-include", "aa"], ["--groups", "aa"], ["--time", "aa"], ["--target", "aa"]]
)
def test_a_misspelled_column_gets_a_suggestion(workdir: Path, arguments: list[str]) -> None:
    frame().to_csv("t.csv", index=False)
    result = invoke("t.csv", "--target", "label", *arguments)
    assert result.exit_code == 2
    assert f"{arguments[0]} 'aa'" in result.stderr
    assert "did you mean 'a'?" in result.stderr


def test_an_unwritable_figure_is_reported_before_training(workdir: Path) -> None:
    frame().to_csv("t.csv", index=False)
    (workdir / "compare-t.png").mkdir()
    result = invoke("t.csv", "--target", "label")
    assert result.exit_code == 2
    assert "--output 'compare-t.png' cannot be written" in result.stderr
    assert "fits" not in result.stderr


def test_a_traceback_needs_the_debug_option(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame().to_csv("t.csv", index=False)

    def fail(*_: Any, **__: Any) -> None:
        raise TypeError("internal error")

    monkeypatch.setattr("genlabel.evaluation.comparison.run_comparison", fail)
    failed = invoke("t.csv", "--target", "label")
    assert failed.exit_code == 3
    assert failed.stderr.splitlines()[-1].startswith("Error: TypeError: internal error")
    debugged = invoke("t.csv", "--target", "label", "--debug")
    assert isinstance(debugged.exception, TypeError)
    invalid = invoke("t.csv", "--target", "nothing", "--debug")
    assert isinstance(invalid.exception, ValueError)


@pytest.mark.parametrize("name", ["a$\\frac$b", "[red]loud[/red]", "two words & <b>more</b>", "ünïcode"])
def test_special_characters_in_names(workdir: Path, name: str) -> None:
    frame(60).rename(columns={"a": name}).assign(label=lambda t: f"{name} " + t["label"]).to_csv("t.csv", index=False)
    stem = os.fsdecode(name.replace("/", "_").encode())  # also where names of files are ASCII
    Path("t.csv").rename(f"{stem}.csv")
    result = invoke(f"{stem}.csv", "--target", "label", "--n-splits", "2")
    assert result.exit_code == 0, result.output
    assert f"columns of numbers (3): {name}, b, c" in result.stdout
    assert (workdir / f"compare-{stem}.png").read_bytes().startswith(b"\x89PNG")


def test_an_interrupted_run_resumes(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame().to_csv("t.csv", index=False)
    fitted: list[int] = []
    plain_fit = DecisionTreeClassifier.fit

    def stop(self: Any, *data: Any, **more: Any) -> Any:
        fitted.append(1)
        if len(fitted) == 12:
            raise KeyboardInterrupt
        return plain_fit(self, *data, **more)

    monkeypatch.setattr("genlabel.data.tables.leaks._single_column_recall", lambda *_: 0.0)
    monkeypatch.setattr(DecisionTreeClassifier, "fit", stop)
    first = invoke("t.csv", "--target", "label", "--n-splits", "15")
    assert first.exit_code == 130
    assert "run the same command to resume" in first.stderr
    second = invoke("t.csv", "--target", "label", "--n-splits", "15")
    assert second.exit_code == 0
    assert "fits recorded: 45; to do: 15" in second.stderr


def test_output_survives_an_ascii_terminal(workdir: Path, start_command: Callable[..., Any]) -> None:
    table = frame(80)
    table.columns = ["größe", "b", "c", "label"]
    table["größe"] = "$" + table["größe"].abs().astype(str)
    name = os.fsdecode(b"na\xefve.csv")  # a name in another encoding than that of the locale
    table.to_csv(name, index=False)
    fast = ["--n-splits", "1", "--epochs", "2", "--jobs", "1", "--density", "gaussian"]
    with Path("out").open("w") as out, Path("err").open("w") as err:
        arguments = ["compare", name, "--target", "label", *fast]
        process = start_command(arguments, out.fileno(), err.fileno(), encoding="ascii")
        process.join(60)
    assert process.exitcode == 0, Path("err").read_text()
    text = Path("out").read_bytes().decode("ascii")
    assert "+/-" in text
    assert "gr??e" in text or "gr?e" in text or "gr??" in text
