"""Benchmark: resumable records, failures, statistics against hand computation, and the command line."""

import contextlib
import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

import genlabel
from genlabel._progress import LambdaCallback, RunPlan, TrialResult
from genlabel.cli import app
from genlabel.data.datasets import load_openml, load_table
from genlabel.data.tables import Table
from genlabel.data.tables.table import drop_rare_classes
from genlabel.evaluation.comparison import compare
from genlabel.evaluation.records import open_store
from genlabel.evaluation.records.schema import Fit
from genlabel_paper.benchmark import (
    METHODS,
    as_markdown,
    complete_datasets,
    dataset_means,
    default_methods,
    holm,
    mean_ranks,
    report,
    run_benchmark,
    statement,
    wilcoxon_holm,
    wins,
)
from genlabel_paper.benchmark.schema import BENCHMARK
from genlabel_paper.exports import load_records
from genlabel_paper.paired import WinTieLoss

FOLDER = Path(genlabel.__file__).parent
MIRROR = Path(__file__).parents[4] / "shared" / "data" / "openml_mirror"
needs_mirror = pytest.mark.skipif(not MIRROR.is_dir(), reason="needs a cache of OpenML in ../shared/data/openml_mirror")
CHEAP = {"prior": DummyClassifier(), "linear": LogisticRegression(), "trees": RandomForestClassifier(5)}
SCORES = ["accuracy", "log_loss", "brier", "calibration_error"]


def load(number: int) -> Table:
    """Return dataset 1, 2, ... of two or three classes; dataset 2 has a class of two rows."""
    rng = np.random.default_rng(number)
    y = np.repeat(["a", "b", "c"], [20, 20, 2 if number == 2 else 20])
    X = rng.normal(size=(len(y), 2)) + 2 * np.unique(y, return_inverse=True)[1][:, None]
    return Table(f"set-{number}", pd.DataFrame(X, columns=["u", "v"]), pd.Series(y))


class Failing(ClassifierMixin, BaseEstimator):
    """Classifier whose fit fails."""

    def fit(self, X: Any, y: Any) -> "Failing":
        raise RuntimeError("out of\nluck")


class Nan(DummyClassifier):
    """Classifier with NaN probabilities."""

    def predict_proba(self, X: Any) -> Any:
        return np.full((len(X), len(self.classes_)), np.nan)


class Chooser(DummyClassifier):
    """Classifier with `best_params_`, like a search."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Chooser":
        self.best_params_ = {
            "rate": np.float64(0.5),
            "count": np.int64(3),
            "density": None,
            "pair": (1, 2.5),
            "odd": np.inf,
        }
        return super().fit(X, y)


def comparable(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.drop(columns=["seconds", "predict_seconds"]).sort_values("id").reset_index(drop=True)


def make_records(scores: dict[str, list[float]], metric: str = "log_loss", splits: int = 1) -> pd.DataFrame:
    """Return records with the given means over three splits, whose scores differ by -1, 0 and 1 from the mean."""
    rows = [
        {
            "dataset": number,
            "name": f"set-{number}",
            "split": split,
            "method": method,
            metric: value + split - splits // 2,
        }
        for method, values in scores.items()
        for number, value in enumerate(values, 1)
        for split in range(splits)
    ]
    return pd.DataFrame(rows)


def make_complete_records(scores: dict[str, list[float]]) -> pd.DataFrame:
    """Return records with all columns."""
    frame = make_records(scores)
    return frame.assign(accuracy=1 - frame["log_loss"] / 10, brier=0.2, calibration_error=0.1, seconds=1.0)


# Running


def test_scores_equal_a_comparison(tmp_path: Path) -> None:
    frame = run_benchmark([1, 2], CHEAP, n_splits=2, seed=3, records=tmp_path / "r.sqlite", load=load).frame
    assert len(frame) == 2 * 2 * 3
    for number in (1, 2):
        table = drop_rare_classes(load(number))
        expected = compare(table, CHEAP, n_splits=2, seed=3).set_index(["method", "split"])
        subset = frame[frame["dataset"] == number].set_index(["method", "split"])
        pd.testing.assert_frame_equal(
            subset.loc[expected.index, ["log_loss", "accuracy"]], expected[["log_loss", "accuracy"]]
        )
        assert set(zip(subset["n"], subset["d"], subset["k"], strict=True)) == {(*table.X.shape, table.y.nunique())}
    assert {versions["genlabel"] for versions in frame["versions"]} == {genlabel.__version__}


def test_loaded_records_equal_the_returned_ones(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "r.sqlite"
    result = run_benchmark(
        [1], {"chooser": Chooser()}, records=path, load=load, settings={"epochs": 5, "network": (4, 3)}
    )
    assert result.settings == {"seed": 0, "test_size": 0.3, "epochs": 5, "network": [4, 3]}
    parameters = {"rate": 0.5, "count": 3, "density": None, "pair": [1, 2.5], "odd": "inf"}
    assert result.frame["parameters"].tolist() == [parameters] * 2
    loaded = load_records(path, BENCHMARK)
    pd.testing.assert_frame_equal(loaded.frame, result.frame)
    assert (loaded.settings, loaded.failures) == (result.settings, {})


def test_only_new_fits_are_run(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    loaded: list[int] = []

    def load_and_count(number: int) -> Table:
        loaded.append(number)
        return load(number)

    starts: list[RunPlan] = []

    def run_again(ids: list[int], n_splits: int, names: list[str]) -> pd.DataFrame:
        methods = {name: CHEAP[name] for name in names}
        callback = LambdaCallback(on_run_start=starts.append)
        return run_benchmark(ids, methods, n_splits, records=path, load=load_and_count, callback=callback).frame

    first = run_again([1], 1, ["prior"])
    assert run_again([1], 1, ["prior"]).equals(first)
    more = run_again([1, 3, 1], 2, ["prior", "trees"])
    assert starts == [(1, 0, 0), (0, 1, 0), (7, 1, 0)]
    assert loaded == [1, 1, 3]
    expected = run_benchmark([1, 3], {name: CHEAP[name] for name in ("prior", "trees")}, records=None, load=load).frame
    pd.testing.assert_frame_equal(comparable(more), comparable(expected))
    assert len(run_again([1], 1, ["trees"])) == 1


@pytest.mark.long  # tests of the records start processes too
def test_two_processes_give_the_scores_of_one() -> None:
    tables = {number: load(number) for number in (1, 2, 3)}
    serial, parallel = (
        run_benchmark(tables, CHEAP, 1, records=None, load=tables.__getitem__, n_jobs=jobs).frame for jobs in (1, 2)
    )
    pd.testing.assert_frame_equal(comparable(serial), comparable(parallel))


def test_only_an_edited_method_is_fitted_again(tmp_path: Path) -> None:
    path, starts = tmp_path / "r.sqlite", []
    before = run_benchmark([1], CHEAP, records=path, load=load).frame
    edited = CHEAP | {"trees": RandomForestClassifier(7)}
    after = run_benchmark(
        [1], edited, records=path, load=load, callback=LambdaCallback(on_run_start=starts.append)
    ).frame
    assert starts == [(2, 4, 2)]
    unchanged = before["fingerprint"].to_numpy() == after["fingerprint"].to_numpy()
    assert unchanged.tolist() == [True, True, False] * 2
    assert before["seconds"][unchanged].equals(after["seconds"][unchanged])
    assert len(load_records(path, BENCHMARK).frame) == 6
    failing = run_benchmark([1], CHEAP | {"trees": Failing()}, records=path, load=load)
    assert set(failing.frame["method"]) == {"prior", "linear"}
    assert len(failing.failures) == 2
    restored = run_benchmark([1], edited, records=path, load=load)
    pd.testing.assert_frame_equal(restored.frame, after)
    assert restored.failures == {}


SLOW = """
import sys, time
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from genlabel.data.datasets import load_table
from genlabel_paper.benchmark import run_benchmark

class Slow(DummyClassifier):
    def fit(self, X, y, sample_weight=None):
        time.sleep(0.1)
        return super().fit(X, y)

def main(path):
    methods = {"slow": Slow(), "linear": LogisticRegression(max_iter=1000)}
    return run_benchmark([1, 2], methods, 3, records=path, load=lambda number: load_table("iris"))

if __name__ == "__main__":
    main(sys.argv[1])
"""


@pytest.mark.long
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_killed_run_keeps_its_records_and_resumes(tmp_path: Path) -> None:
    """The tests of the runner kill several processes as well."""
    script, path = tmp_path / "slow.py", tmp_path / "r.sqlite"
    script.write_text(SLOW)
    environment = os.environ | {"PYTHONPATH": str(FOLDER.parent), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(script), str(path)]
    with subprocess.Popen(command, env=environment) as process:
        while process.poll() is None and not (path.exists() and path.stat().st_size and count(path) > 3):
            time.sleep(0.01)
        process.kill()
    before = load_records(path, BENCHMARK).frame
    assert 3 < len(before) < 12
    subprocess.run(command, env=environment, check=True)
    after = load_records(path, BENCHMARK).frame
    assert len(after) == 12
    repeated = after[after["id"].isin(before["id"])].reset_index(drop=True)
    pd.testing.assert_frame_equal(repeated, before)  # the seconds too
    spec = importlib.util.spec_from_file_location("slow", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pd.testing.assert_frame_equal(comparable(after), comparable(module.main(tmp_path / "undisturbed.sqlite").frame))


def count(path: Path) -> int:
    with contextlib.suppress(OSError, ValueError):
        return len(load_records(path, BENCHMARK).frame)
    return 0


@pytest.mark.parametrize(
    "changed, keyword",
    [
        ({"seed": 1}, "seed=1"),
        ({"test_size": 0.4}, "test_size=0.4"),
        ({"settings": {"epochs": 6}}, "epochs=6"),
        ({"settings": {}}, "epochs=None"),
    ],
)
def test_other_settings_are_refused_without_restart(tmp_path: Path, changed: dict[str, Any], keyword: str) -> None:
    path = tmp_path / "r.sqlite"
    options = {"settings": {"epochs": 5}}
    run_benchmark([1], CHEAP, 1, records=path, load=load, **options)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=keyword):
        run_benchmark([1], CHEAP, 1, records=path, load=load, **(options | changed))
    assert path.read_bytes() == before
    restarted = run_benchmark(
        [1], {"prior": DummyClassifier()}, 1, records=path, load=load, restart=True, **(options | changed)
    )
    assert len(load_records(path, BENCHMARK).frame) == len(restarted.frame) == 1


def test_failures_are_recorded_and_retried(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    trials: list[TrialResult] = []
    loaded: list[int] = []

    def load_all_but_3(number: int) -> Table:
        loaded.append(number)
        if number == 3:
            raise OSError("no OpenML dataset 3")
        return load(number)

    methods = {"failing": Failing(), "nan": Nan(), "prior": DummyClassifier()}
    callback = LambdaCallback(on_trial_end=trials.append)
    result = run_benchmark([3, 1], methods, 1, records=path, load=load_all_but_3, callback=callback)
    assert result.frame[["dataset", "method"]].to_numpy().tolist() == [[1, "prior"]]
    assert len(trials) == 6
    assert loaded == [3, 1]
    assert result.failures == {
        Fit(3, "failing", 0): "OSError: no OpenML dataset 3",
        Fit(3, "nan", 0): "OSError: no OpenML dataset 3",
        Fit(3, "prior", 0): "OSError: no OpenML dataset 3",
        Fit(1, "failing", 0): "RuntimeError: out of luck",
        Fit(1, "nan", 0): "ValueError: nan predicts probabilities that are not finite",
    }
    assert load_records(path, BENCHMARK).failures == result.failures
    fixed = {name: DummyClassifier() for name in methods}
    repeated = run_benchmark([3, 1], fixed, 1, records=path, load=load)
    assert len(repeated.frame) == 6
    assert load_records(path, BENCHMARK).failures == {}


def test_run_without_successful_fits_has_no_report() -> None:
    result = run_benchmark([1], {"failing": Failing()}, records=None, load=load)
    assert result.frame.empty
    with pytest.raises(ValueError, match="split"):
        report(result.frame)


@pytest.mark.parametrize(
    "options, keyword",
    [
        ({"n_splits": 0}, "n_splits=0"),
        ({"test_size": 2}, "test_size=2"),
        ({"seed": -1}, "seed=-1"),
        ({"ids": [0]}, "ids=0"),
    ],
)
def test_invalid_input_creates_no_file(tmp_path: Path, options: dict[str, Any], keyword: str) -> None:
    with pytest.raises(ValueError, match=keyword):
        run_benchmark(**({"ids": [1], "methods": CHEAP, "load": load} | options), records=tmp_path / "r.sqlite")
    assert not (tmp_path / "r.sqlite").exists()


def test_default_methods_have_the_given_network_and_epochs() -> None:
    methods = default_methods((8,), epochs=3)
    assert list(methods) == list(METHODS) == [
        "default", "paper", "vanilla", "mixup", "paper mixup", "stacked density", "logistic", "boosting",
    ]  # fmt: skip
    for name in ("default", "paper", "vanilla", "mixup", "paper mixup"):
        assert methods[name].network == (8,)
        assert methods[name].get_params()["training__epochs"] == 3


@needs_mirror
def test_openml_datasets_of_the_mirror_run() -> None:
    methods = {"linear": LogisticRegression(max_iter=5000), "prior": DummyClassifier()}
    load_set = partial(load_openml, data_home=MIRROR)
    frame = run_benchmark([61, 48, 187], methods, 1, records=None, load=load_set).frame
    assert len(frame) == 6
    assert set(frame["name"]) == {"iris", "tae", "wine"}
    assert wins(frame, "linear", "prior") == WinTieLoss(3, 0, 0)


# Statistics


def test_wins_are_counted_on_means_with_ties() -> None:
    # Differences b - a: 0.1, 0.001, 0.002, -0.5, -0.0021.
    records = make_records({"a": [0.5, 0.5, 0.5, 1.0, 0.5021], "b": [0.6, 0.501, 0.502, 0.5, 0.5]}, splits=3)
    assert wins(records, "a", "b", tie=0.0025) == WinTieLoss(1, 3, 1)
    assert wins(records, "a", "b", tie=0.0015) == WinTieLoss(2, 1, 2)
    assert wins(records, "a", "b").worse == 2
    assert wins(records, "b", "a").better == 2
    points = make_records({"a": [0.9, 0.8, 0.7, 0.6], "b": [0.89, 0.795, 0.704, 0.606]}, "accuracy")
    assert wins(points, "a", "b", "accuracy") == WinTieLoss(1, 2, 1)
    with pytest.raises(ValueError, match="method='c'"):
        wins(records, "a", "c")
    with pytest.raises(ValueError, match="metric='loss'"):
        wins(records, "a", "b", "loss")


def test_incomplete_datasets_are_left_out() -> None:
    records = make_records({"a": [1.0, 2.0, 3.0], "b": [2.0, 1.0, 4.0], "c": [1.0, 1.0, 1.0]}, splits=3)
    incomplete = records[~((records["dataset"] == 3) & (records["method"] == "b") & (records["split"] == 1))]
    complete, left_out = complete_datasets(incomplete)
    assert left_out == [3]
    assert complete["dataset"].unique().tolist() == [1, 2]
    assert wins(incomplete, "a", "b") == WinTieLoss(1, 0, 1)
    assert wins(incomplete, "a", "c") == WinTieLoss(0, 1, 2)
    without_one = records[~((records["dataset"] == 2) & (records["method"] == "a"))]
    assert wins(without_one, "a", "b") == WinTieLoss(2, 0, 0)
    assert dataset_means(without_one, "log_loss", ["c", "b"]).to_numpy().tolist() == [[1, 2], [1, 1], [1, 4]]


def test_mean_ranks_equal_a_hand_calculation() -> None:
    records = make_records({"a": [1.0, 1.0, 3.0], "b": [2.0, 1.0, 2.0], "c": [3.0, 5.0, 1.0]}, splits=3)
    # Rows of ranks: 1 2 3; 1.5 1.5 3; 3 2 1.
    assert mean_ranks(records).round(6).to_dict() == {"a": 1.833333, "b": 1.833333, "c": 2.333333}
    records = records.assign(accuracy=records["log_loss"])
    assert mean_ranks(records, "accuracy").round(6).to_dict() == {"a": 2.166667, "b": 2.166667, "c": 1.666667}


@pytest.mark.parametrize(
    "p, adjusted",
    [
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.5, 0.9], [1.0, 1.0]),
        ([0.02, 0.02, 0.02], [0.06, 0.06, 0.06]),
        ([0.2], [0.2]),
        ([], []),
    ],
)
def test_holm_equals_a_hand_calculation(p: list[float], adjusted: list[float]) -> None:
    np.testing.assert_allclose(holm(p), adjusted)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.001, 0.5))
def test_holm_agrees_with_the_step_down_procedure(p: list[float], level: float) -> None:
    """Holm (1979): go through the p-values from the smallest, and stop at the first above level / (m - i)."""
    rejected = set()
    for step, index in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        if p[index] * (len(p) - step) > level:
            break
        rejected.add(index)
    assert {index for index, value in enumerate(holm(p)) if value <= level} == rejected


def test_wilcoxon_equals_a_hand_calculation() -> None:
    """Six differences of one sign: 2 of 64 equally likely sign patterns are as extreme; 4 if the smallest differs."""
    base = np.array([0.10, 0.20, 0.30, 0.40, 0.50, 0.60])
    differences = np.array([0.01, 0.02, 0.03, 0.04, 0.05, 0.06])
    records = make_records(
        {
            "a": list(base),
            "b": list(base + differences),
            "c": list(base + differences * [-1, 1, 1, 1, 1, 1]),
            "d": list(base),
        }
    )
    tests = wilcoxon_holm(records, "a")
    np.testing.assert_allclose(tests.loc[["b", "c", "d"], "p"], [2 / 64, 4 / 64, 1.0])
    np.testing.assert_allclose(tests.loc[["b", "c", "d"], "holm"], [6 / 64, 8 / 64, 1.0])


def test_wilcoxon_equals_scipy_on_the_means() -> None:
    rng = np.random.default_rng(0)
    scores = {name: list(rng.normal(shift, 1, 80)) for name, shift in (("a", 0.0), ("b", 0.4), ("c", -0.1))}
    tests = wilcoxon_holm(make_records(scores, splits=3), "a")
    for name in ("b", "c"):
        expected = stats.wilcoxon(np.array(scores["a"]), np.array(scores[name])).pvalue
        assert tests.loc[name, "p"] == pytest.approx(expected)


def test_statement_gives_shares_and_p_value() -> None:
    line = statement("default", "mixup", "accuracy", WinTieLoss(30, 10, 10), 0.0123)
    assert line == (
        "default has higher accuracy than mixup on 60 % of 50 datasets, lower on 20 %; p = 0.012 (Wilcoxon, Holm)"
    )


def test_report_shows_losses_and_wins() -> None:
    scores = {"default": [0.1, 0.2, 0.9], "vanilla": [0.2, 0.3, 0.4], "mixup": [0.3, 0.3, 0.5]}
    sections = report(make_complete_records(scores), settings={"seed": 0, "test_size": 0.3})
    titles = [section.title for section in sections]
    assert titles == [
        "Means over the datasets",
        "Cost and accidents",
        "default against the others: log-loss",
        "default against the others: accuracy",
        "Where default loses most to vanilla: log-loss",
    ]
    means = sections[0].rows
    assert means is not None
    assert means["log-loss"].to_dict() == {"default": "0.4000", "vanilla": "0.3000", "mixup": "0.3667"}
    assert sections[0].lines[-1] == "settings: seed 0, test size 0.3"
    counts = sections[2].rows
    assert counts is not None
    assert counts.loc["mixup", ["wins", "ties", "losses"]].tolist() == ["2", "0", "1"]
    assert "default has lower log-loss than vanilla on 67 % of 3 datasets, higher on 33 %" in sections[2].lines[0]
    worst = sections[4].rows
    assert worst is not None
    assert worst.to_numpy().tolist() == [["set-3", "0.9000", "0.4000", "+0.5000"]]
    text = as_markdown(sections)
    assert "| default | 96.00 | 0.4000 |" in text
    assert text.count("## ") == 5


def test_report_groups_datasets_by_kind() -> None:
    scores = {"default": [0.1, 0.2, 0.9], "vanilla": [0.2, 0.3, 0.4]}
    records = make_complete_records(scores)
    sizes = pd.DataFrame({"n": [100, 400, 400], "d": [3, 9, 9], "k": [2, 2, 2]}, index=sorted(set(records["dataset"])))
    (kinds,) = [part.rows for part in report(records.join(sizes, on="dataset")) if "by kind of dataset" in part.title]
    assert kinds is not None
    assert kinds.loc["(datasets)"].to_dict() == {
        "d <= 5": "1",
        "d > 5": "2",
        "k = 2": "3",
        "n < 300": "1",
        "n >= 300": "2",
    }
    assert kinds.loc["vanilla"].tolist() == ["100 / 0", "50 / 50", "67 / 33", "100 / 0", "50 / 50"]


def test_report_names_incomplete_datasets_and_needs_no_reference() -> None:
    records = make_complete_records({"a": [0.1, 0.2, 0.3], "b": [0.2, 0.3, 0.1]}).iloc[:-1]
    means, cost = report(records)
    assert cost.rows is not None
    assert list(cost.rows.columns) == ["fit (s)"]
    assert "left out, because a split of a method is missing: 1 (3)" in means.lines
    assert len(report(records, reference="a")) == 4


# The command line


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["benchmark", *arguments], prog_name="genlabel")


def ignore_network(make: Any) -> Any:
    """Return a factory that ignores the network."""
    return lambda **_: make()


def replace_methods(monkeypatch: pytest.MonkeyPatch, methods: dict[str, Any]) -> None:
    """Replace the methods in their module and in the package, which may have imported them."""
    monkeypatch.setattr("genlabel_paper.benchmark.methods.METHODS", methods)
    monkeypatch.setattr("genlabel_paper.benchmark.METHODS", methods)


@pytest.fixture
def cheap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Prepare the command in an empty folder, with cheap methods and synthetic datasets."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GENLABEL_DATA_HOME", raising=False)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "none"))
    methods = {"default": LogisticRegression(), "mixup": RandomForestClassifier(5), "vanilla": DummyClassifier()}
    makers = {name: partial(clone, method) for name, method in methods.items()}
    replace_methods(monkeypatch, {name: ignore_network(make) for name, make in makers.items()})
    monkeypatch.setattr("genlabel.data.datasets.load_openml", lambda number, data_home: load(number))
    return tmp_path


def test_command_prints_the_report_and_writes_it(cheap: Path) -> None:
    result = invoke("1", "2", "--n-splits", "1", "-o", "out/summary.md")
    assert result.exit_code == 0, result.output
    records = load_records("build/benchmark.sqlite", BENCHMARK).frame
    assert len(records) == 6
    assert "6 of 6 fits" in result.stderr
    assert re.search(r"(fits/s|s a fit), 0 s left", result.stderr)
    assert "\x1b" not in result.output
    for name, mean in dataset_means(records, "log_loss").mean().items():
        (line,) = [line for line in result.stdout.splitlines() if line.split()[:1] == [name] and "%" not in line][:1]
        assert f"{mean:.4f}" in line
    assert "default has lower log-loss than vanilla on 100 % of 2 datasets" in result.stdout
    assert "times: the time of a fit of default over that of the method" in result.stdout
    assert "settings: seed 0, test size 0.3, network mlp, epochs auto" in result.stdout
    assert "## default against the others: log-loss" in (cheap / "out/summary.md").read_text()
    repeated = invoke("1", "2", "--n-splits", "1")
    assert repeated.exit_code == 0
    assert "fits recorded: 6; to do: 0" in repeated.stderr


def test_report_only_never_trains(cheap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    invoke("1", "2", "3", "--n-splits", "1", "--records", "r.sqlite")
    before = (cheap / "r.sqlite").read_bytes()

    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("training started")

    for target in (
        "genlabel_paper.benchmark.run_benchmark",
        "genlabel_paper.benchmark.default_methods",
        "genlabel.data.datasets.load_openml",
    ):
        monkeypatch.setattr(target, fail)
    result = invoke("--report-only", "--records", "r.sqlite", "--figure", "p.png")
    assert Path("p.png").read_bytes().startswith(b"\x89PNG")
    assert result.exit_code == 0, result.output
    assert "OpenML datasets: 3; splits of each: 1" in result.stdout
    fewer = invoke("1", "2", "--report-only", "--records", "r.sqlite", "--methods", "default,mixup")
    assert "OpenML datasets: 2; splits of each: 1" in fewer.stdout
    assert "vanilla" not in fewer.stdout
    assert (cheap / "r.sqlite").read_bytes() == before


def test_command_reports_each_failure_once_and_continues(cheap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load_all_but_2(number: int, data_home: Path | None) -> Table:
        if number == 2:
            raise OSError("no OpenML dataset 2")
        return load(number)

    monkeypatch.setattr("genlabel.data.datasets.load_openml", load_all_but_2)
    result = invoke("1", "2", "3", "--n-splits", "1")
    assert result.exit_code == 1, result.output
    assert result.stderr.count("failed: 2, default: OSError: no OpenML dataset 2") == 1
    assert result.stdout.count("failed: 2, default and 2 more: OSError: no OpenML dataset 2") == 1
    assert "OpenML datasets: 2" in result.stdout
    assert "failed: 3 of the fits, see above; the same command tries them again" in result.stdout
    reported = invoke("--report-only")
    assert reported.exit_code == 0
    assert reported.stdout.startswith("6 of 9 fits recorded\n")
    assert reported.stdout.count("failed: 2") == 1
    fewer = invoke("2", "3", "--methods", "default,mixup", "--n-splits", "2", "--report-only")
    assert fewer.stdout.startswith("2 of 8 fits recorded\n")
    failed = invoke("2", "--records", "none.sqlite")
    assert failed.exit_code == 1
    assert "failed: 6 of the fits" in failed.stdout


def count_recorded(*arguments: str) -> str:
    return str(invoke(*arguments, "--report-only").stdout.splitlines()[0])


def test_report_counts_recorded_and_requested_fits(cheap: Path) -> None:
    """Two methods on dataset 1, the third on datasets 1 and 2, and two splits of it on dataset 3."""
    for arguments in (("1", "--methods", "default,mixup"), ("1", "2", "--methods", "vanilla")):
        assert invoke(*arguments, "--n-splits", "1").exit_code == 0
    assert invoke("3", "--methods", "vanilla", "--n-splits", "2").exit_code == 0
    assert count_recorded() == "6 of 6 fits recorded"
    assert count_recorded("1", "2") == "4 of 4 fits recorded"
    assert count_recorded("2", "1", "2") == "4 of 4 fits recorded"
    assert count_recorded("--methods", "vanilla") == "4 of 4 fits recorded"
    assert count_recorded("--n-splits", "1") == "5 of 5 fits recorded"
    assert count_recorded("1", "2", "--methods", "default,vanilla") == "3 of 4 fits recorded"
    assert count_recorded("1", "7") == "3 of 6 fits recorded"
    assert count_recorded("--n-splits", "3") == "6 of 11 fits recorded"
    assert count_recorded("1", "7", "--methods", "mixup", "--n-splits", "2") == "1 of 4 fits recorded"


def test_failures_of_other_splits_are_not_reported(cheap: Path) -> None:
    fixed = {"seed": 0, "test_size": 0.3, "network": "mlp", "epochs": "auto"}
    assert invoke("1", "--n-splits", "1").exit_code == 0
    with open_store("build/benchmark.sqlite", BENCHMARK, settings=fixed) as store:
        store.request([Fit(1, "mixup", 1)])
        store.write_failure(Fit(1, "mixup", 1), "OSError: no luck")
    assert "failed: 1, mixup: OSError: no luck" in invoke("1", "--report-only").stdout
    assert "no luck" not in invoke("1", "--n-splits", "1", "--report-only").stdout


def test_report_names_methods_of_mixed_settings(cheap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert invoke("1", "--n-splits", "1").exit_code == 0
    assert "different settings" not in invoke("--report-only").stdout
    edited = METHODS | {"default": ignore_network(DummyClassifier), "mixup": ignore_network(DummyClassifier)}
    replace_methods(monkeypatch, edited)
    assert invoke("2", "--n-splits", "1", "--methods", "default,mixup").exit_code == 0
    (line,) = [line for line in invoke("--report-only").stdout.splitlines() if "different settings" in line]
    assert "are mixed: default (2), mixup (2);" in line
    assert "different settings" not in invoke("2", "--report-only").stdout


def test_ids_are_read_from_a_file_or_the_manifest(cheap: Path) -> None:
    (cheap / "ids.txt").write_text("1, 2 # two\n\n3\n")
    assert "9 of 9 fits" in invoke("--ids-file", "ids.txt", "--n-splits", "1").stderr
    rows = ["1,x,150,4,2", "2,x,99,4,2", "3,x,150,21,2", "4,x,2001,4,2", "5,x,150,4,", "6,x,2000,20,3"]
    (cheap / "home").mkdir()
    (cheap / "home/manifest.csv").write_text("id,name,n,d,k\n" + "\n".join(rows) + "\n")
    result = invoke("--data-home", "home", "--n-splits", "1", "--records", "r.sqlite", "--methods", "default, vanilla")
    assert result.exit_code == 0, result.output
    assert sorted(load_records("r.sqlite", BENCHMARK).frame["dataset"].unique()) == [1, 6]
    assert sorted(load_records("r.sqlite", BENCHMARK).frame["method"].unique()) == ["default", "vanilla"]
    wide = ["--min-rows", "1", "--max-rows", "9999", "--max-features", "99", "--records", "w.sqlite"]
    invoke("--data-home", "home", "--n-splits", "1", *wide)
    assert sorted(load_records("w.sqlite", BENCHMARK).frame["dataset"].unique()) == [1, 2, 3, 4, 6]


@pytest.mark.parametrize(
    "arguments, keyword",
    [
        ([], "manifest.csv"),
        (["--data-home", "here"], "'here'"),
        (["1", "--methods", "mixup,magic"], "--methods 'magic'"),
        (["1", "--network", "x"], "--network 'x'"),
        (["1", "--jobs", "0"], "--jobs 0"),
        (["1", "--test-size", "2"], "--test-size 2.0"),
        (["1", "--n-splits", "0"], "--n-splits"),
        (["--ids-file", "nowhere.txt"], "'nowhere.txt'"),
        (["--ids-file", "words.txt"], "'iris'"),
        (["--report-only"], "'build/benchmark.sqlite'"),
        (["--report-only", "--restart"], "--restart"),
        (["--figure", "benchmark.xyz"], "'.xyz'"),
        (["1", "-o", "words.txt/x.md"], "words.txt"),
        (["1", "--records", "words.txt"], "'words.txt'"),
        (["1", "--records", "home"], "'home'"),
        (["--report-only", "--records", "old.jsonl"], "'.jsonl'"),
        (["1", "--dask", "localhost"], "tcp://"),
    ],
)
def test_invalid_input_is_one_error_line(cheap: Path, arguments: list[str], keyword: str) -> None:
    (cheap / "words.txt").write_text("61 iris\n")
    (cheap / "old.jsonl").write_text('{"genlabel benchmark": 1}\n')
    (cheap / "home").mkdir()
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.splitlines()[-1].startswith("Error: ")
    assert keyword in result.stderr.splitlines()[-1]
    assert not (cheap / "build").exists()


def test_command_refuses_other_settings(cheap: Path) -> None:
    invoke("1", "--n-splits", "1")
    refused = invoke("1", "--n-splits", "1", "--epochs", "5")
    assert refused.exit_code == 2
    assert "--epochs 5" in refused.stderr
    assert invoke("1", "--n-splits", "1", "--epochs", "5", "--restart").exit_code == 0
    assert load_records("build/benchmark.sqlite", BENCHMARK).settings["epochs"] == 5


def test_export_gives_the_report_of_the_store(cheap: Path) -> None:
    assert invoke("1", "2", "--n-splits", "2", "--export", "out/benchmark.json").exit_code == 0
    stored, exported = (
        invoke("--report-only", "--records", name) for name in ("build/benchmark.sqlite", "out/benchmark.json")
    )
    assert stored.stdout == exported.stdout
    assert stored.stdout.startswith("12 of 12 fits recorded\n")
    refused = invoke("1", "--records", "out/benchmark.json")
    assert refused.exit_code == 2
    assert "'out/benchmark.json'" in refused.stderr


def test_second_run_on_a_store_is_refused(cheap: Path) -> None:
    fixed = {"seed": 0, "test_size": 0.3, "network": "mlp", "epochs": 100}
    with open_store("build/benchmark.sqlite", BENCHMARK, settings=fixed):
        result = invoke("1")
    assert result.exit_code == 2
    assert "'build/benchmark.sqlite'" in result.stderr
    assert load_records("build/benchmark.sqlite", BENCHMARK).frame.empty


def test_interrupt_names_the_records(cheap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("genlabel_paper.benchmark.run_benchmark", interrupt)
    result = invoke("1")
    assert result.exit_code == 130
    assert "build/benchmark.sqlite" in result.stderr


def test_help_lists_the_options() -> None:
    options = invoke("--help").stdout
    for name in (
        "ids-file",
        "data-home",
        "max-features",
        "methods",
        "jobs",
        "records",
        "restart",
        "report-only",
        "figure",
        "output",
    ):
        assert f"--{name}" in options


def test_bundled_datasets_can_be_run() -> None:
    frame = run_benchmark([1], CHEAP, 1, records=None, load=lambda _: load_table("wine")).frame
    assert frame["name"].unique().tolist() == ["wine"]
    assert frame[SCORES].notna().all(axis=None)
