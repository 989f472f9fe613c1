"""Test the comparison and its command: scores against scikit-learn, output, records and errors."""

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import StratifiedShuffleSplit
from typer.testing import CliRunner

import genlabel
from genlabel import GenerativeClassifier, GenLabelClassifier, MixupClassifier
from genlabel._progress import Callback, LambdaCallback, ProgressDisplay, RunPlan
from genlabel.cli import app
from genlabel.data.datasets import load_table
from genlabel.data.tables import Table, group_duplicates, table_pipeline
from genlabel.data.tables.table import drop_rare_classes
from genlabel.evaluation.comparison import SCORES, compare, default_methods, run_comparison, summarize
from genlabel.evaluation.records import open_store
from genlabel.evaluation.records.schema import COMPARISON
from genlabel.reporting.terminal import COLUMNS, chosen_lines, print_scores
from genlabel_paper.exports import load_records

FOLDER = Path(genlabel.__file__).parent
FAST = ["--n-splits", "2", "--epochs", "2", "--jobs", "1", "--density", "gaussian"]


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["compare", *arguments], prog_name="genlabel")


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def people(workdir: Path) -> Path:
    """A file with text, missing values and string labels, one of them missing."""
    rng = np.random.default_rng(0)
    label = np.array(["stays", "leaves"] * 40, dtype=object)
    frame = pd.DataFrame(
        {
            "age": np.where(label == "stays", 50, 30) + rng.integers(-12, 12, 80).astype(float),
            "town": rng.choice(["Ulm", "Bern", "Graz"], 80),
            "member": rng.choice([True, False], 80),
            "label": label,
        }
    )
    frame.loc[::7, "age"] = np.nan
    frame.loc[::5, "town"] = None
    frame.loc[3, "label"] = None
    frame.to_csv("people.csv", index=False)
    return workdir / "people.csv"


@pytest.fixture
def cheap(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder and two methods that are fast to fit."""
    methods = {"certain": Certain(), "linear": LogisticRegression()}
    monkeypatch.setattr("genlabel.evaluation.comparison.default_methods", lambda *_: methods)
    return workdir


class Certain(ClassifierMixin, BaseEstimator):
    """Give the first class probability 1."""

    def fit(self, X: Any, y: Any) -> "Certain":
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: Any) -> Any:
        return np.tile(np.eye(len(self.classes_))[0], (len(X), 1))


def small_table(*sizes: int) -> Table:
    y = np.repeat(list("abcdefgh")[: len(sizes)], sizes)
    X = np.random.default_rng(0).normal(size=(len(y), 2)) + np.unique(y, return_inverse=True)[1][:, None]
    return Table("small", pd.DataFrame(X, columns=["u", "v"]), pd.Series(y))


def test_scores_equal_scikit_learn_on_refitted_estimators() -> None:
    table = load_table("iris")
    table.X.iloc[::9, 1] = np.nan
    methods = {
        "plain training": MixupClassifier(mixer=None).set_params(training__epochs=5),
        "GenLabel": GenLabelClassifier(density="auto").set_params(training__epochs=5),
        "generative": GenerativeClassifier(),
        "own seed": MixupClassifier(random_state=99).set_params(training__learning_rate=0.1, training__epochs=5),
    }
    results = compare(table, methods, n_splits=2, test_size=0.4, seed=7)
    assert results.columns.tolist() == ["method", "split", *SCORES, "seconds", "params", "held_out"]
    assert results["method"].tolist() == [*methods] * 2
    cutter = StratifiedShuffleSplit(2, test_size=0.4, random_state=7)
    for split, (train, test) in enumerate(cutter.split(table.X, table.y)):
        for name, method in methods.items():
            if name in ("plain training", "GenLabel"):
                method.set_params(random_state=7 + split)
            model = table_pipeline(table.X, method).fit(table.X.iloc[train], table.y.iloc[train])
            row = results.query("split == @split and method == @name").iloc[0]
            proba = np.clip(model.predict_proba(table.X.iloc[test]), 1e-15, 1.0)
            assert row["accuracy"] == pytest.approx(
                accuracy_score(table.y.iloc[test], model.predict(table.X.iloc[test]))
            )
            assert row["log_loss"] == pytest.approx(log_loss(table.y.iloc[test], proba, labels=model.classes_))
            balanced = balanced_accuracy_score(table.y.iloc[test], model.predict(table.X.iloc[test]))
            assert row["balanced_accuracy"] == pytest.approx(balanced)
            area = roc_auc_score(table.y.iloc[test], proba / proba.sum(1, keepdims=True), multi_class="ovr")
            assert row["auc"] == pytest.approx(area)
            assert row["params"] == json.loads(json.dumps(getattr(model[-1], "best_params_", {})))
            assert row["seconds"] > 0


def test_comparison_is_reproducible_and_leaves_its_methods_unfitted() -> None:
    methods = {"mixup": MixupClassifier().set_params(training__epochs=2), "logistic": LogisticRegression()}
    steps: list[tuple[str, int]] = []
    first = compare(
        small_table(20, 20),
        methods,
        n_splits=2,
        callback=LambdaCallback(on_trial_end=lambda result: steps.append((result.trial.method, result.trial.split))),
    )
    assert steps == [("mixup", 0), ("logistic", 0), ("mixup", 1), ("logistic", 1)]
    assert not hasattr(methods["mixup"], "classes_")
    assert methods["mixup"].random_state is None
    again = compare(small_table(20, 20), methods, n_splits=2)
    pd.testing.assert_frame_equal(first.drop(columns="seconds"), again.drop(columns="seconds"))
    other_seed = compare(small_table(20, 20), methods, n_splits=2, seed=1)
    assert not first["log_loss"].equals(other_seed["log_loss"])


class Broken(Certain):
    """A classifier that fails in prediction."""

    def predict_proba(self, X: Any) -> Any:
        raise RuntimeError("broken model")


def test_a_failed_fit_is_reported() -> None:
    methods = {"certain": Certain(), "broken": Broken()}
    with pytest.raises(RuntimeError, match="RuntimeError"):
        compare(small_table(20, 20), methods, n_splits=2)
    result = run_comparison(small_table(20, 20), methods, n_splits=2)
    assert result.frame["method"].tolist() == ["certain"] * 2
    assert [(fit.method, fit.split) for fit in result.failures] == [("broken", 0), ("broken", 1)]


def test_records_belong_to_a_table_and_its_settings(tmp_path: Path) -> None:
    starts: list[RunPlan] = []

    def run(table: Table, method: Any, seed: int = 0) -> pd.DataFrame:
        path = tmp_path / "r.sqlite"
        return run_comparison(
            table, {"m": method}, 2, seed=seed, records=path, callback=LambdaCallback(on_run_start=starts.append)
        ).frame

    first = run(small_table(20, 20), LogisticRegression())
    pd.testing.assert_frame_equal(run(small_table(20, 20), LogisticRegression()), first)
    other_table = run(small_table(20, 21), LogisticRegression())
    assert set(other_table["fingerprint"]).isdisjoint(first["fingerprint"])
    run(small_table(20, 21), LogisticRegression(C=2.0))
    run(small_table(20, 21), LogisticRegression(C=2.0), seed=1)
    assert starts == [(2, 0, 0), (0, 2, 0), (2, 0, 2), (2, 0, 2), (2, 0, 2)]


def test_log_loss_is_finite() -> None:
    results = compare(small_table(20, 20), {"certain": Certain()}, n_splits=1, test_size=0.5)
    assert results["log_loss"].item() == pytest.approx(-np.log(1e-15) / 2)
    assert results["accuracy"].item() == 0.5


def test_summary_is_mean_and_standard_deviation() -> None:
    results = compare(small_table(20, 20), {"b": LogisticRegression(), "a": GenerativeClassifier()}, n_splits=3)
    summary = summarize(results)
    assert summary.index.tolist() == ["b", "a"]
    losses = results.loc[results["method"] == "a", "log_loss"].to_numpy()
    assert summary.loc["a", ("log_loss", "mean")] == pytest.approx(losses.sum() / 3)
    assert summary.loc["a", ("log_loss", "std")] == pytest.approx(np.sqrt(((losses - losses.mean()) ** 2).sum() / 2))


def test_training_rows_have_two_of_each_class() -> None:
    smallest_counts: list[int] = []

    class Counting(Certain):
        def fit(self, X: Any, y: Any) -> "Certain":
            smallest_counts.append(int(np.unique(y, return_counts=True)[1].min()) if len(set(y)) == 3 else 0)
            return super().fit(X, y)

    compare(small_table(37, 4, 4), {"counting": Counting()}, n_splits=30)
    assert len(smallest_counts) == 30
    assert min(smallest_counts) >= 2


@pytest.mark.parametrize("density, count", [("stacked", 7), ("gaussian", 7), ("kernel", 7), ("auto", 8)])
def test_default_methods(density: str, count: int) -> None:
    methods = default_methods((8,), density, 3)
    assert len(methods) == count
    assert list(methods)[:3] == ["plain training", "mixup", "GenLabel"]
    assert methods["plain training"].mixer is None
    assert methods["GenLabel"].density == density
    assert {methods[name].training.epochs for name in ("plain training", "mixup", "GenLabel")} == {3}
    assert {methods[name].network for name in ("plain training", "mixup", "GenLabel")} == {(8,)}


@pytest.mark.parametrize(
    "sizes, settings, message",
    [
        ((20, 3), {}, "two are needed"),
        ((20,), {}, "two are needed"),
        ((20, 20), {"test_size": 0.97}, "test_size=0.97"),
        ((60, 60), {"test_size": 0.97}, "test_size"),
        ((20, 20), {"test_size": 1.5}, "test_size=1.5"),
        ((20, 20), {"n_splits": 0}, "n_splits=0"),
        ((20, 20), {"seed": -1}, "seed=-1"),
    ],
)
def test_impossible_comparisons_raise(sizes: tuple[int, ...], settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compare(small_table(*sizes), {"generative": GenerativeClassifier()}, **settings)


def test_rare_classes_can_be_dropped() -> None:
    table = drop_rare_classes(small_table(20, 3, 20, 1))
    assert sorted(set(table.y)) == ["a", "c"]
    assert len(table.X) == len(table.y) == 40
    assert table.X.index.equals(table.y.index)
    assert table.notes == ["2 classes of fewer than 4 rows left out, 4 rows: 'b', 'd'"]


def test_compare_prints_the_numbers_it_writes(workdir: Path) -> None:
    result = invoke("iris", *FAST, "--csv", "out/results.csv", "--output", "out/figure.png")
    assert result.exit_code == 0, result.output
    written = pd.read_csv(workdir / "out/results.csv")
    assert len(written) == 14
    expected = compare(group_duplicates(load_table("iris")), default_methods(density="gaussian", epochs=2), n_splits=2)
    np.testing.assert_allclose(written["accuracy"], expected["accuracy"])
    np.testing.assert_allclose(written["log_loss"], expected["log_loss"])
    assert written["params"].tolist() == [json.dumps(params) for params in expected["params"]]
    for name, row in summarize(expected).iterrows():
        (line,) = [
            line
            for line in result.stdout.splitlines()
            if line.split() and line.startswith(f"  {name} ") and "±" in line
        ]
        assert f"{100 * row['accuracy', 'mean']:.1f} ± {100 * row['accuracy', 'std']:.1f}" in line
        assert f"{row['log_loss', 'mean']:.3f} ± {row['log_loss', 'std']:.3f}" in line
    assert (workdir / "out/figure.png").read_bytes().startswith(b"\x89PNG")
    assert "150 rows, 4 columns, 3 classes" in result.stdout
    setting = "stratified splits, groups on one side: 2, 30% of the rows held out, network mlp, seed 0, 2 epochs"
    assert setting in result.stdout
    assert "note: rows that equal an earlier row: 1; equal rows stay on one side of every split" in result.stdout
    (chosen,) = [line for line in result.stdout.splitlines() if line.startswith("GenLabel chose learning rate")]
    for params in expected[expected["method"] == "GenLabel"]["params"]:
        assert all(name.replace("_", " ") in chosen for name in params)
    assert "wrote out/figure.png, out/results.csv" in result.stdout
    outputs = ["--output", "out/figure.png", "--report", "out/it's.html", "--no-diagnosis"]
    again = invoke("iris", *FAST, *outputs)
    assert "fits recorded: 14; to do: 0" in again.stderr
    # Nothing is fitted again: the seconds come from the records.
    assert again.stdout.splitlines()[:-1] == result.stdout.splitlines()[:-1]
    assert "wrote out/figure.png, out/it's.html, out/it's.json" in again.stdout
    data = json.loads((workdir / "out/it's.json").read_text())
    assert data["comparison"]["ranking"] == [name for name in data["comparison"]["ranking"] if name in data["held_out"]]
    repeated = CliRunner().invoke(app, shlex.split(data["command"])[1:])
    assert repeated.stdout == again.stdout
    (file,) = (workdir / "build").glob("compare-iris-*.sqlite")
    assert len(load_records(file, COMPARISON).frame) == 14


@pytest.mark.long
def test_other_settings_have_another_records_file(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (people.parent / "other").mkdir()
    shutil.copy(people, people.parent / "other" / "people.csv")
    monkeypatch.setattr("genlabel.evaluation.comparison.default_methods", lambda *_: {"certain": Certain()})
    common = ["--target", "label", "--n-splits", "1", "--jobs", "1"]
    changes = [
        [],
        ["--network", "4"],
        ["--density", "auto"],
        ["--epochs", "5"],
        ["--seed", "1"],
        ["--min-class-size", "4"],
    ]
    changes += [
        ["--test-size", "0.4"],
        ["--target", "town"],
        ["--drop", "age"],
        ["--force-include", "age"],
        ["--with-paper-setting"],
    ]
    changes += [["--na-values", "Ulm"], ["--groups", "town"], ["--time", "age"]]
    runs = [["people.csv", *common, *changed] for changed in changes] + [["other/people.csv", *common]]
    for count, arguments in enumerate(runs, 1):
        result = invoke(*arguments)
        assert result.exit_code == 0, result.output
        assert "recorded" not in result.stderr
        files = sorted(path.name for path in (people.parent / "build").glob("*.sqlite"))
        assert len(files) == count
    assert all(re.fullmatch(r"compare-people-[0-9a-f]{6}\.sqlite", name) for name in files)
    assert "fits recorded: 1; to do: 0" in invoke(*runs[0]).stderr
    assert "fits recorded: 1; to do: 0" in invoke(str(people), *common, "--network", "mlp").stderr
    assert (
        "fits recorded: 1; to do: 1"
        in invoke("people.csv", "--target", "label", "--n-splits", "2", "--jobs", "1").stderr
    )


def test_stale_records_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    ProgressDisplay("loading").on_run_start(RunPlan(todo=5, cached=3, stale=2))
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "fits recorded: 3; to do: 5",
        "fits recorded with other settings or data, which will be done again: 2",
    ]


def test_a_locked_records_file_is_an_error(workdir: Path) -> None:
    with open_store("r.sqlite", COMPARISON):
        result = invoke("iris", *FAST, "--records", "r.sqlite")
    assert result.exit_code == 2
    assert "another run is writing 'r.sqlite'" in result.stderr


def test_failed_methods_are_reported_and_the_others_compared(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    methods = {"certain": Certain(), "broken": Broken()}
    monkeypatch.setattr("genlabel.evaluation.comparison.default_methods", lambda *_: methods)
    result = invoke("iris", "--n-splits", "2", "--jobs", "1")
    assert result.exit_code == 1
    assert "failed: iris, broken and 1 more: RuntimeError: broken model" in result.stdout
    assert "failed: 2 of the fits, see above; the same command tries them again" in result.stdout
    assert "certain" in result.stdout
    assert (workdir / "compare-iris.png").exists()


def test_choices_are_counted() -> None:
    params = [
        {"learning_rate": 0.1, "gamma": 0.0, "density": "gaussian"},
        {"learning_rate": 0.1, "gamma": 0.8, "density": "kernel"},
        {"learning_rate": 0.01, "gamma": 0.8, "density": "kernel"},
    ]
    frame = pd.DataFrame({"method": ["GenLabel"] * 3 + ["generative"], "params": [*params, {}]})
    line = "GenLabel chose learning rate 0.1 (2x), 0.01 (1x); gamma 0.8 (2x), 0.0 (1x); density kernel (2x)"
    assert chosen_lines(frame) == [line]
    averages = [{"average": (0.5, 0.2, 0.01)}, {"average": (0.7, 0.6, 0.03)}]
    frame = pd.DataFrame({"method": ["GenLabel"] * 2, "params": averages})
    assert chosen_lines(frame) == [
        "GenLabel chose weights in the combined prediction (they need not add up to 1): 0.60 network, "
        "0.40 stacked density, 0.02 class priors"
    ]


@pytest.mark.parametrize("width", [50, 60, 80, 120])
def test_a_narrow_terminal_omits_columns_with_a_note(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    rows = {"method": ["GenLabel", "GenLabel", "class priors"], **{score: [0.25, 0.75, 0.5] for score in SCORES}}
    summary = summarize(pd.DataFrame(rows).assign(seconds=1.0))
    print_scores(summary, ["GenLabel", "class priors"])
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    table = [line for line in lines if not line.startswith("this terminal")]
    assert max(map(len, table)) <= width
    assert "\u2026" not in "".join(table)
    (header,) = (line for line in table if "method" in line)
    titles = [title for title, *_ in COLUMNS]
    notes = [line for line in lines if line.startswith("this terminal is too narrow for: ")]
    omitted = notes[0].split(": ")[1].split(";")[0].split(", ") if notes else []
    assert [title for title in titles if title not in header] == omitted
    assert (omitted == []) == (width == 120)
    assert "s per fit" in header


@pytest.mark.parametrize("forced", ["FORCE_COLOR", "TTY_COMPATIBLE", "CLICOLOR_FORCE"])
def test_piped_output_has_no_escape_codes(cheap: Path, forced: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(forced, "1")
    monkeypatch.setenv("COLUMNS", "300")
    result = invoke("iris", *FAST)
    assert "\x1b" not in result.stdout + result.stderr
    assert "fits" not in result.stdout
    assert result.stderr.splitlines()[0] == "loading iris ..."
    assert "4 of 4 fits" in result.stderr


def test_a_file_with_text_and_missing_values(people: Path) -> None:
    once = [*FAST, "--n-splits", "1"]
    result = invoke("people.csv", "--target", "label", *once, "--network", "6,5", "--density", "auto", "--seed", "3")
    assert result.exit_code == 0, result.output
    assert "people: 79 rows, 3 columns, 2 classes" in result.stdout
    assert "network 6,5, seed 3" in result.stdout
    assert "note: rows dropped because 'label' is missing: 1" in result.stdout
    assert "generative (kernel)" in result.stdout
    assert "Traceback" not in result.output


def test_a_parquet_file(cheap: Path) -> None:
    pytest.importorskip("pyarrow")
    table = load_table("wine")
    table.X.assign(grower=table.y).to_parquet("wine.parquet")
    result = invoke("wine.parquet", "--target", "grower", *FAST)
    assert result.exit_code == 0, result.output
    assert "wine: 178 rows, 13 columns, 3 classes" in result.stdout


def test_warnings_are_printed_once(workdir: Path) -> None:
    table = small_table(30, 5)
    table.X.assign(label=table.y).to_csv("few.csv", index=False)
    result = invoke("few.csv", "--target", "label", *FAST, "--density", "stacked")
    assert result.exit_code == 0, result.output
    (note,) = [line for line in result.stdout.splitlines() if "folds, but class 'b'" in line]
    assert note.startswith("note: cv=6 folds")
    assert note.endswith("times)")
    assert "UserWarning" not in result.output


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["nothing"], "'nothing'"),
        (["nothing.csv", "--target", "y"], "'nothing.csv'"),
        (["people.csv"], "--target"),
        (["people.csv", "--target", "Label"], "--target 'Label'"),
        (["iris", "--target", "species"], "--target 'species'"),
        (["iris", "--network", "64,x"], "--network '64,x'"),
        (["iris", "--network", "0"], "--network '0'"),
        (["iris", "--density", "cauchy"], "'cauchy'"),
        (["iris", "--test-size", "2"], "--test-size 2.0"),
        (["iris", "--n-splits", "0"], "--n-splits"),
        (["iris", "--output", "figure.xyz"], "'.xyz'"),
        (["iris", "--csv", "people.csv/r.csv"], "people.csv"),
    ],
)
def test_bad_input_is_a_one_line_error(people: Path, arguments: list[str], message: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.splitlines()[-1].startswith("Error: ")
    assert message in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


def test_version_and_help() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout == f"genlabel {genlabel.__version__}\n"
    assert "compare" in CliRunner().invoke(app, ["--help"]).stdout
    options = invoke("--help").stdout
    for option in (
        "target",
        "na-values",
        "force-include",
        "target-is-categorical",
        "bins",
        "groups",
        "time",
        "with-paper-setting",
        "json",
        "debug",
        "network",
        "density",
        "n-splits",
        "test-size",
        "seed",
        "epochs",
        "output",
        "csv",
        "min-class-size",
        "jobs",
        "dask",
        "records",
        "restart",
    ):
        assert f"--{option}" in options


RUN_AND_LIST_IMPORTS = """
import json, sys
from typer.testing import CliRunner
from genlabel.cli import app
from genlabel_paper.benchmark.command import benchmark
app.command("benchmark")(benchmark)
for command in sys.argv[1:]:
    result = CliRunner().invoke(app, command.split())
    heavy = [name for name in ("torch", "sklearn", "scipy", "matplotlib") if name in sys.modules]
    print(json.dumps([result.exit_code, result.output, heavy]))
"""
INVALID_COMMANDS = {
    "compare nothing": "'nothing'",
    "compare nothing.csv --target y": "'nothing.csv'",
    "compare people.csv --target Label": "--target 'Label'",
    "compare iris --network x": "--network 'x'",
    "compare iris --report page.txt": "--report 'page.txt'",
    "compare iris --test-size 2": "--test-size 2.0",
    "compare iris --records people.csv": "'people.csv'",
    "benchmark --ids-file nowhere.txt": "'nowhere.txt'",
    "benchmark 61 --methods magic": "--methods 'magic'",
    "benchmark --data-home .": "OpenML",
    "benchmark --report-only --records none.sqlite": "'none.sqlite'",
}


def test_invalid_input_is_reported_before_the_heavy_imports(people: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(FOLDER.parent)}
    command = [sys.executable, "-c", RUN_AND_LIST_IMPORTS, *INVALID_COMMANDS]
    process = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=people.parent, check=True)
    for message, line in zip(INVALID_COMMANDS.values(), process.stdout.splitlines(), strict=True):
        code, output, heavy = json.loads(line)
        assert (code, heavy) == (2, [])
        assert message in output.replace("\n", " ")


LIST_IMPORTS_AT_PROGRESS = """
import sys
import genlabel.cli
import genlabel_paper.benchmark.command
def print_imports(title, *_, **__):
    print(title, [name for name in ("torch", "sklearn", "scipy", "matplotlib") if name in sys.modules])
    raise SystemExit
for name in ("genlabel.cli.compare", "genlabel_paper.benchmark.command"):
    sys.modules[name].ProgressDisplay = print_imports
genlabel.cli.app.command("benchmark")(genlabel_paper.benchmark.command.benchmark)
sys.argv = ["genlabel", *sys.argv[1].split()]
genlabel.cli.app()
"""


@pytest.mark.parametrize(
    "arguments, line", [("compare iris", "loading iris"), ("benchmark 61", "loading the datasets")]
)
def test_progress_is_shown_before_the_heavy_imports(workdir: Path, arguments: str, line: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(FOLDER.parent)}
    command = [sys.executable, "-c", LIST_IMPORTS_AT_PROGRESS, arguments]
    process = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=workdir, check=True)
    assert process.stdout == f"{line} []\n"


def read_terminal(terminal: int, into: list[bytes]) -> None:
    """Read until the other end closes, which is an error on Linux."""
    with contextlib.suppress(OSError):
        while part := os.read(terminal, 4096):
            into.append(part)


def test_a_progress_bar_is_shown_in_terminals_only(workdir: Path, start_command: Callable[..., Any]) -> None:
    pty = pytest.importorskip("pty")
    terminal, terminal_end = pty.openpty()
    chunks: list[bytes] = []
    with Path("table").open("w") as out:
        arguments = ["compare", "iris", *FAST, "--n-splits", "1"]
        process = start_command(arguments, out.fileno(), terminal_end, TERM="xterm", COLUMNS="120")
        os.close(terminal_end)
        reader = threading.Thread(target=read_terminal, args=(terminal, chunks))
        reader.start()
        process.join(60)
        reader.join(timeout=10)
    os.close(terminal)
    bar, table = b"".join(chunks).decode(), Path("table").read_text()
    assert process.exitcode == 0
    assert "\x1b" not in table
    assert "accuracy %" in table
    assert all(text in bar for text in ("loading iris", "7/7", "elapsed", "left"))


def test_unwritable_outputs_are_reported_before_training(workdir: Path) -> None:
    (workdir / "folder.png").mkdir()
    (workdir / "file").write_text("")
    for option, path in (
        ("--output", "folder.png"),
        ("--csv", "folder.png"),
        ("--output", "file/x.png"),
        ("--report", "file/x.html"),
    ):
        result = CliRunner().invoke(app, ["compare", "iris", option, path])
        assert result.exit_code == 2
        assert f"{option} '{path}' cannot be written" in result.stderr
        assert "fits" not in result.stderr
    assert not (workdir / "compare-iris.png").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_the_table_is_printed_even_if_writing_fails_later(cheap: Path) -> None:
    result = CliRunner().invoke(app, ["compare", "iris", *FAST, "--csv", "/dev/full"])
    assert result.exit_code == 2
    assert "linear" in result.stdout
    assert "No space left" in result.stderr


def test_an_interrupt_names_the_records(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("genlabel.evaluation.comparison.run_comparison", interrupt)
    result = CliRunner().invoke(app, ["compare", "iris"])
    assert result.exit_code == 130
    pattern = r"interrupted; .* build/compare-iris-[0-9a-f]{6}\.sqlite"
    assert re.search(pattern, result.stderr)


def test_the_epochs_of_every_fit_are_reported() -> None:
    epochs: dict[tuple[str, int], int] = {}

    class EpochCounter(Callback):
        def on_trial_start(self, trial: Any) -> None:
            self.key = trial.method, trial.split

        def on_epoch_end(self, epoch: int, logs: Any) -> None:
            epochs[self.key] = epochs.get(self.key, 0) + 1

    methods = {
        "halved": MixupClassifier((8,), mixer=None).set_params(training__epochs=5),
        "searched": MixupClassifier.from_paper(training__epochs=3, search__restore_best=False),
        "fixed": MixupClassifier.from_paper(training__learning_rate=0.1, training__epochs=4),
    }
    compare(load_table("iris"), methods, n_splits=2, callback=EpochCounter())
    # A search without halving refits the chosen candidate; halving has trained it already.
    assert epochs == {
        (name, split): n for name, n in (("halved", 5), ("searched", 6), ("fixed", 4)) for split in (0, 1)
    }
