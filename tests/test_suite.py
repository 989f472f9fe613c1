"""The suite: a kill loses nothing, failures are told and tried again, statistics are those of a pencil."""

import contextlib
import importlib.util
import json
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
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

import genlabel
from genlabel.cli import app
from genlabel.comparison import compare, drop_rare
from genlabel.datasets import Table, load_openml, load_table
from genlabel.suite import (
    Wins,
    as_markdown,
    complete_sets,
    default_suite,
    holm,
    mean_ranks,
    open_records,
    read_header,
    read_records,
    report,
    run_suite,
    set_means,
    statement,
    wilcoxon_holm,
    wins,
)

FOLDER = Path(genlabel.__file__).parent
MIRROR = Path(__file__).parents[2] / "shared" / "data" / "openml_mirror"
needs_mirror = pytest.mark.skipif(not MIRROR.is_dir(), reason="needs a cache of OpenML in ../shared/data/openml_mirror")
CHEAP = {"prior": DummyClassifier(), "linear": LogisticRegression(), "trees": RandomForestClassifier(5)}
SCORES = ["accuracy", "log_loss", "brier", "calibration_error"]


def load(number: int) -> Table:
    """Sets 1, 2, ... of two or three classes, one of them with a class of two rows."""
    rng = np.random.default_rng(number)
    y = np.repeat(["a", "b", "c"], [20, 20, 2 if number == 2 else 20])
    X = rng.normal(size=(len(y), 2)) + 2 * np.unique(y, return_inverse=True)[1][:, None]
    return Table(f"set-{number}", pd.DataFrame(X, columns=["u", "v"]), pd.Series(y))


class Failing(ClassifierMixin, BaseEstimator):
    """Cannot be fitted."""

    def fit(self, X: Any, y: Any) -> "Failing":
        raise RuntimeError("out of\nluck")


class Nan(DummyClassifier):
    """Gives no numbers."""

    def predict_proba(self, X: Any) -> Any:
        return np.full((len(X), len(self.classes_)), np.nan)


class Chooser(DummyClassifier):
    """Has chosen something, as a search does."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Chooser":
        self.best_params_ = {
            "rate": np.float64(0.5),
            "count": np.int64(3),
            "density": None,
            "pair": (1, 2.5),
            "odd": np.inf,
        }
        return super().fit(X, y)


def sorted_cells(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.drop(columns="seconds").sort_values(["id", "split", "method"]).reset_index(drop=True)


def made(scores: dict[str, list[float]], metric: str = "log_loss", splits: int = 1) -> pd.DataFrame:
    """Records with the given means; split s is off by +-s, which the mean does not see if there are three."""
    rows = [
        {"id": number, "name": f"set-{number}", "split": split, "method": method, metric: value + split - splits // 2}
        for method, values in scores.items()
        for number, value in enumerate(values, 1)
        for split in range(splits)
    ]
    return pd.DataFrame(rows)


def full(scores: dict[str, list[float]]) -> pd.DataFrame:
    """Records with all columns."""
    frame = made(scores)
    return frame.assign(accuracy=100 - 10 * frame["log_loss"], brier=0.2, calibration_error=0.1, seconds=1.0)


# Running


def test_numbers_are_those_of_a_comparison(tmp_path: Path) -> None:
    found = run_suite([1, 2], CHEAP, repeats=2, seed=3, records=tmp_path / "r.jsonl", load=load)
    assert len(found) == 2 * 2 * 3
    for number in (1, 2):
        table = drop_rare(load(number))
        expected = compare(table, CHEAP, repeats=2, seed=3).set_index(["method", "split"])
        own = found[found["id"] == number].set_index(["method", "split"])
        np.testing.assert_allclose(own.loc[expected.index, "log_loss"], expected["log_loss"], rtol=1e-6)
        np.testing.assert_allclose(own.loc[expected.index, "accuracy"], expected["accuracy"], rtol=1e-6)
        assert set(zip(own["n"], own["d"], own["k"], strict=True)) == {(*table.X.shape, table.y.nunique())}
    assert set(found["version"]) == {genlabel.__version__}


def test_records_are_lines_and_are_read_as_they_are_returned(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "r.jsonl"
    found = run_suite([1], {"chooser": Chooser()}, records=path, load=load, settings={"epochs": 5, "network": (4, 3)})
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0] == {"genlabel suite": 1, "seed": 0, "test_size": 0.3, "epochs": 5, "network": [4, 3]}
    assert read_header(path) == {"seed": 0, "test_size": 0.3, "epochs": 5, "network": [4, 3]}
    assert [line["split"] for line in lines[1:]] == [0, 1]
    assert lines[1]["params"] == {"rate": 0.5, "count": 3, "density": None, "pair": [1, 2.5], "odd": "inf"}
    pd.testing.assert_frame_equal(read_records(path), found)


def test_nothing_is_repeated_and_more_can_be_asked(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    asked: list[int] = []

    def loading(number: int) -> Table:
        asked.append(number)
        return load(number)

    starts: list[tuple[int, int]] = []

    def again(ids: list[int], repeats: int, names: list[str]) -> pd.DataFrame:
        methods = {name: CHEAP[name] for name in names}
        note = lambda todo, done: starts.append((todo, done))  # noqa: E731
        return run_suite(ids, methods, repeats, records=path, load=loading, on_start=note)

    first = again([1], 1, ["prior"])
    assert again([1], 1, ["prior"]).equals(first)
    more = again([1, 3, 1], 2, ["prior", "trees"])
    assert starts == [(1, 0), (0, 1), (7, 1)]
    assert asked == [1, 1, 3]
    whole = run_suite([1, 3], {name: CHEAP[name] for name in ("prior", "trees")}, records=tmp_path / "s", load=load)
    pd.testing.assert_frame_equal(sorted_cells(more), sorted_cells(whole))
    assert len(again([1], 1, ["trees"])) == 1


def test_many_processes_give_the_numbers_of_one(tmp_path: Path) -> None:
    one = run_suite([1, 2, 3], CHEAP, records=tmp_path / "one", load=load)
    two = run_suite([1, 2, 3], CHEAP, records=tmp_path / "two", load=load, n_jobs=2)
    pd.testing.assert_frame_equal(sorted_cells(one), sorted_cells(two))


SLOW = """
import sys, time
import numpy as np, pandas as pd
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from genlabel.datasets import load_table
from genlabel.suite import run_suite

class Slow(DummyClassifier):
    def fit(self, X, y, sample_weight=None):
        time.sleep(0.1)
        return super().fit(X, y)

def main(path, jobs=1):
    methods = {"slow": Slow(), "linear": LogisticRegression(max_iter=1000)}
    return run_suite([1, 2, 3, 4], methods, 3, records=path, n_jobs=jobs, load=lambda number: load_table("iris"))

if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_kill_loses_nothing_and_repeats_nothing(tmp_path: Path, jobs: int) -> None:
    script, path = tmp_path / "slow.py", tmp_path / "r.jsonl"
    script.write_text(SLOW)
    environment = os.environ | {"PYTHONPATH": str(FOLDER.parent), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(script), str(path), str(jobs)]
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    while process.poll() is None and not (path.exists() and path.read_bytes().count(b"\n") > 4):
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # its workers would wait five minutes for more to do
    before = path.read_text().splitlines()
    assert 4 < len(before) < 25
    subprocess.run(command, env=environment, check=True)
    after = path.read_text().splitlines()
    assert after[: len(before)] == before
    assert len(after) == 25
    spec = importlib.util.spec_from_file_location("slow", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pd.testing.assert_frame_equal(
        sorted_cells(read_records(path)), sorted_cells(module.main(tmp_path / "undisturbed.jsonl"))
    )


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_line_that_was_cut_short_is_ignored_and_mended(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "r.jsonl"
    whole = run_suite([1], CHEAP, records=path, load=load)
    text = path.read_text()
    path.write_text(text[:-cut])
    kept = read_records(path)
    assert len(kept) == len(whole) - (cut > 1)
    assert path.read_text() == text[:-cut]
    again = run_suite([1], CHEAP, records=path, load=load)
    pd.testing.assert_frame_equal(sorted_cells(again), sorted_cells(whole))
    lines = path.read_text().splitlines()
    assert len(lines) == 7
    assert all(json.loads(line) for line in lines)
    assert lines[:-1] == text.splitlines()[:-1]


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"seed": 1}, r"made with seed=0, not with seed=1; use the same.*--fresh"),
        ({"test_size": 0.4}, "made with test_size=0.3, not with test_size=0.4"),
        ({"settings": {"epochs": 6}}, "made with epochs=5, not with epochs=6"),
        ({"settings": {}}, "made with epochs=5, not with epochs=None"),
    ],
)
def test_other_settings_do_not_mix(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    path = tmp_path / "r.jsonl"
    own = {"settings": {"epochs": 5}}
    run_suite([1], CHEAP, records=path, load=load, **own)
    before = path.read_text()
    with pytest.raises(ValueError, match=message):
        run_suite([1], CHEAP, records=path, load=load, **(own | changed))
    assert path.read_text() == before
    fresh = run_suite([1], {"prior": DummyClassifier()}, records=path, load=load, fresh=True, **(own | changed))
    assert len(read_records(path)) == len(fresh) == 2


def test_failures_are_recorded_and_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    told: list[dict[str, Any]] = []

    def missing(number: int) -> Table:
        if number == 3:
            raise OSError("OpenML set 3 is not there")
        return load(number)

    methods = {"failing": Failing(), "nan": Nan(), "prior": DummyClassifier()}
    found = run_suite([3, 1], methods, 1, records=path, load=missing, on_record=told.append)
    assert found[["id", "method"]].to_numpy().tolist() == [[1, "prior"]]
    assert len(told) == 6
    errors = read_records(path, errors=True).set_index(["id", "method"])["error"].to_dict()
    assert errors == {
        (3, "failing"): "OSError: OpenML set 3 is not there",
        (3, "nan"): "OSError: OpenML set 3 is not there",
        (3, "prior"): "OSError: OpenML set 3 is not there",
        (1, "failing"): "RuntimeError: out of luck",
        (1, "nan"): "ValueError: nan gives probabilities that are no numbers",
    }
    healed = {name: DummyClassifier() for name in methods}
    again = run_suite([3, 1], healed, 1, records=path, load=load)
    assert len(again) == 6
    assert read_records(path, errors=True).empty


def test_a_run_without_a_fit_that_succeeds(tmp_path: Path) -> None:
    found = run_suite([1], {"failing": Failing()}, records=tmp_path / "r.jsonl", load=load)
    assert found.empty
    with pytest.raises(ValueError, match="there is no set on which every method has every split"):
        report(found)


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "is empty"),
        ("hello\nworld\n", "line 1 of .* is no record"),
        ('{"id": 1}\n', "line 1 of .* is no line of a suite"),
        ('{"genlabel suite": 1}\n{"id": \n{"id": 2}\n', "line 2 of .* is no record"),
        ('{"genlabel suite": 1}\n7\n{"id": 2}\n', "line 2 of .* is no line of a suite"),
    ],
)
def test_files_that_are_no_records(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_records(path)
    if text:
        with pytest.raises(ValueError, match=message):
            open_records(path, {})
        assert path.read_text() == text


@pytest.mark.parametrize(
    "asked, message",
    [
        ({"repeats": 0}, "repeats=0"),
        ({"test_size": 2}, "test_size=2"),
        ({"seed": -1}, "seed=-1"),
        ({"ids": [0]}, "ids=0 must be"),
    ],
)
def test_bad_input_begins_no_file(tmp_path: Path, asked: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run_suite(**({"ids": [1], "methods": CHEAP, "load": load} | asked), records=tmp_path / "r.jsonl")
    assert not (tmp_path / "r.jsonl").exists()


def test_the_methods_of_the_suite() -> None:
    methods = default_suite((8,), epochs=3)
    assert list(methods) == ["default", "paper", "vanilla", "mixup", "label model", "logistic", "boosting"]
    for name in ("default", "paper", "vanilla", "mixup"):
        assert methods[name].network == (8,)
        assert methods[name].epochs == 3


@needs_mirror
def test_sets_of_the_mirror(tmp_path: Path) -> None:
    methods = {"linear": LogisticRegression(max_iter=5000), "prior": DummyClassifier()}
    found = run_suite(
        [61, 48, 187], methods, 1, records=tmp_path / "r", load=partial(load_openml, data_home=MIRROR), n_jobs=2
    )
    assert len(found) == 6
    assert set(found["name"]) == {"iris", "tae", "wine"}
    assert wins(found, "linear", "prior") == Wins(3, 0, 0)


# Statistics


def test_wins_are_counted_on_means_with_ties() -> None:
    # Differences b - a: 0.1, 0.001, 0.002, -0.5, -0.0021.
    records = made({"a": [0.5, 0.5, 0.5, 1.0, 0.5021], "b": [0.6, 0.501, 0.502, 0.5, 0.5]}, splits=3)
    assert wins(records, "a", "b", same=0.0025) == Wins(1, 3, 1)
    assert wins(records, "a", "b", same=0.0015) == Wins(2, 1, 2)
    assert wins(records, "a", "b").worse == 2
    assert wins(records, "b", "a").better == 2
    points = made({"a": [90.0, 80.0, 70.0, 60.0], "b": [89.0, 79.5, 70.4, 60.6]}, "accuracy")
    assert wins(points, "a", "b", "accuracy") == Wins(1, 2, 1)
    with pytest.raises(ValueError, match="method='c' is not known; choose one of 'a', 'b'"):
        wins(records, "a", "c")
    with pytest.raises(ValueError, match="metric='loss' is not known"):
        wins(records, "a", "b", "loss")


def test_sets_that_are_not_complete_are_left_out() -> None:
    records = made({"a": [1.0, 2.0, 3.0], "b": [2.0, 1.0, 4.0], "c": [1.0, 1.0, 1.0]}, splits=3)
    short = records[~((records["id"] == 3) & (records["method"] == "b") & (records["split"] == 1))]
    complete, left_out = complete_sets(short)
    assert left_out == [3]
    assert complete["id"].unique().tolist() == [1, 2]
    assert wins(short, "a", "b") == Wins(1, 0, 1, left_out=1)
    assert wins(short, "a", "c") == Wins(0, 1, 2, left_out=0)
    gone = records[~((records["id"] == 2) & (records["method"] == "a"))]
    assert wins(gone, "a", "b") == Wins(2, 0, 0, left_out=1)
    assert set_means(gone, "log_loss", ["c", "b"]).to_numpy().tolist() == [[1, 2], [1, 1], [1, 4]]


def test_ranks_by_hand() -> None:
    records = made({"a": [1.0, 1.0, 3.0], "b": [2.0, 1.0, 2.0], "c": [3.0, 5.0, 1.0]}, splits=3)
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
def test_holm_by_hand(p: list[float], adjusted: list[float]) -> None:
    np.testing.assert_allclose(holm(p), adjusted)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.001, 0.5))
def test_holm_rejects_what_the_step_down_test_rejects(p: list[float], level: float) -> None:
    """Holm (1979): go through the p-values from the smallest, and stop at the first above level / (m - i)."""
    rejected = set()
    for step, index in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        if p[index] * (len(p) - step) > level:
            break
        rejected.add(index)
    assert {index for index, value in enumerate(holm(p)) if value <= level} == rejected


def test_wilcoxon_by_hand() -> None:
    """Six differences of one sign: 2 of 64 equally likely signs are as far out. One of the smallest size: 4."""
    base = np.array([0.10, 0.20, 0.30, 0.40, 0.50, 0.60])
    gaps = np.array([0.01, 0.02, 0.03, 0.04, 0.05, 0.06])
    records = made(
        {"a": list(base), "b": list(base + gaps), "c": list(base + gaps * [-1, 1, 1, 1, 1, 1]), "d": list(base)}
    )
    tests = wilcoxon_holm(records, "a")
    np.testing.assert_allclose(tests.loc[["b", "c", "d"], "p"], [2 / 64, 4 / 64, 1.0])
    np.testing.assert_allclose(tests.loc[["b", "c", "d"], "holm"], [6 / 64, 8 / 64, 1.0])


def test_wilcoxon_is_scipys_on_the_means() -> None:
    rng = np.random.default_rng(0)
    scores = {name: list(rng.normal(shift, 1, 80)) for name, shift in (("a", 0.0), ("b", 0.4), ("c", -0.1))}
    tests = wilcoxon_holm(made(scores, splits=3), "a")
    for name in ("b", "c"):
        expected = stats.wilcoxon(np.array(scores["a"]), np.array(scores[name])).pvalue
        assert tests.loc[name, "p"] == pytest.approx(expected)


def test_statement() -> None:
    line = statement("default", "mixup", "accuracy", Wins(30, 10, 10), 0.0123)
    assert line == (
        "default has higher accuracy than mixup on 60 % of 50 sets, lower on 20 %; p = 0.012 (Wilcoxon, Holm)"
    )


def test_report_publishes_losses_beside_wins() -> None:
    scores = {"default": [0.1, 0.2, 0.9], "vanilla": [0.2, 0.3, 0.4], "mixup": [0.3, 0.3, 0.5]}
    sections = report(full(scores), settings={"seed": 0, "test_size": 0.3})
    titles = [section.title for section in sections]
    assert titles == [
        "Means over the sets",
        "default against the others: log-loss",
        "default against the others: accuracy",
        "Time",
        "Where default loses most to vanilla: log-loss",
    ]
    means = sections[0].rows
    assert means is not None
    assert means["log-loss"].to_dict() == {"default": "0.4000", "vanilla": "0.3000", "mixup": "0.3667"}
    assert sections[0].lines[-1] == "settings: seed 0, test size 0.3"
    counted = sections[1].rows
    assert counted is not None
    assert counted.loc["mixup", ["wins", "ties", "losses"]].tolist() == ["2", "0", "1"]
    assert "default has lower log-loss than vanilla on 67 % of 3 sets, higher on 33 %" in sections[1].lines[0]
    worst = sections[4].rows
    assert worst is not None
    assert worst.to_numpy().tolist() == [["set-3", "0.9000", "0.4000", "+0.5000"]]
    text = as_markdown(sections)
    assert "| default | 96.00 | 0.4000 |" in text
    assert text.count("## ") == 5


def test_report_says_what_is_left_out_and_needs_no_reference() -> None:
    records = full({"a": [0.1, 0.2, 0.3], "b": [0.2, 0.3, 0.1]}).iloc[:-1]
    (means,) = report(records)
    assert "left out, because not every method has every split: 1 (3)" in means.lines
    assert len(report(records, reference="a")) == 3


# The command line


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["suite", *arguments], prog_name="genlabel", env={"COLUMNS": "160"})


@pytest.fixture
def cheap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The command in an empty folder, with cheap methods and made-up sets."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GENLABEL_DATA_HOME", raising=False)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "none"))
    methods = {"default": LogisticRegression(), "mixup": RandomForestClassifier(5), "vanilla": DummyClassifier()}
    monkeypatch.setattr("genlabel.suite.default_suite", lambda network, epochs: methods)
    monkeypatch.setattr("genlabel.datasets.load_openml", lambda number, data_home: load(number))
    return tmp_path


def test_command_prints_the_report_and_writes_it(cheap: Path) -> None:
    result = invoke("1", "2", "--repeats", "1", "-o", "out/summary.md")
    assert result.exit_code == 0, result.output
    records = read_records("build/suite.jsonl")
    assert len(records) == 6
    assert "6 of 6 fits" in result.stderr
    assert re.search(r"(fits/s|s a fit), 0 s left", result.stderr)
    assert "\x1b" not in result.output
    for name, mean in set_means(records, "log_loss").mean().items():
        (line,) = [line for line in result.stdout.splitlines() if line.split()[:1] == [name] and "%" not in line][:1]
        assert f"{mean:.4f}" in line
    assert "default has lower log-loss than vanilla on 100 % of 2 sets" in result.stdout
    assert "times as long as one of mixup" in result.stdout
    assert "settings: seed 0, test size 0.3, network mlp, epochs 100" in result.stdout
    assert "## default against the others: log-loss" in (cheap / "out/summary.md").read_text()
    again = invoke("1", "2", "--repeats", "1")
    assert again.exit_code == 0
    assert "fits on record: 6; to do: 0" in again.stderr


def test_report_only_never_trains(cheap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    invoke("1", "2", "3", "--repeats", "1", "--records", "r.jsonl")
    before = (cheap / "r.jsonl").read_bytes()

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("it trains")

    for what in ("genlabel.suite.run_suite", "genlabel.suite.default_suite", "genlabel.datasets.load_openml"):
        monkeypatch.setattr(what, never)
    result = invoke("--report-only", "--records", "r.jsonl", "--picture", "p.png")
    assert Path("p.png").read_bytes().startswith(b"\x89PNG")
    assert result.exit_code == 0, result.output
    assert "OpenML sets: 3; splits of each: 1" in result.stdout
    fewer = invoke("1", "2", "--report-only", "--records", "r.jsonl", "--methods", "default,mixup")
    assert "OpenML sets: 2; splits of each: 1" in fewer.stdout
    assert "vanilla" not in fewer.stdout
    assert (cheap / "r.jsonl").read_bytes() == before


def test_failures_are_told_once_and_the_command_goes_on(cheap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(number: int, data_home: Path | None) -> Table:
        if number == 2:
            raise OSError("OpenML set 2 is not there")
        return load(number)

    monkeypatch.setattr("genlabel.datasets.load_openml", missing)
    result = invoke("1", "2", "3", "--repeats", "1")
    assert result.exit_code == 0, result.output
    assert result.stderr.count("failed: 2: OSError: OpenML set 2 is not there") == 1
    assert "failed: 2: OSError: OpenML set 2 is not there" in result.stdout
    assert "OpenML sets: 2" in result.stdout


def test_ids_come_from_a_file_or_the_manifest(cheap: Path) -> None:
    (cheap / "ids.txt").write_text("1, 2 # two\n\n3\n")
    assert "9 of 9 fits" in invoke("--ids-file", "ids.txt", "--repeats", "1").stderr
    rows = ["1,x,150,4,2", "2,x,99,4,2", "3,x,150,21,2", "4,x,2001,4,2", "5,x,150,4,", "6,x,2000,20,3"]
    (cheap / "home").mkdir()
    (cheap / "home/manifest.csv").write_text("id,name,n,d,k\n" + "\n".join(rows) + "\n")
    result = invoke("--data-home", "home", "--repeats", "1", "--records", "r.jsonl", "--methods", "default, vanilla")
    assert result.exit_code == 0, result.output
    assert read_records("r.jsonl")["id"].unique().tolist() == [1, 6]
    assert read_records("r.jsonl")["method"].unique().tolist() == ["default", "vanilla"]
    wide = ["--min-rows", "1", "--max-rows", "9999", "--max-features", "99", "--records", "w.jsonl"]
    invoke("--data-home", "home", "--repeats", "1", *wide)
    assert read_records("w.jsonl")["id"].unique().tolist() == [1, 2, 3, 4, 6]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "no OpenML ids are given, and there is no manifest.csv in the data home; give ids"),
        (["--data-home", "here"], "there is no manifest.csv in 'here'"),
        (["1", "--methods", "mixup,magic"], "methods='magic' is not known; choose among 'default', 'mixup'"),
        (["1", "--network", "x"], "network='x' is not known"),
        (["1", "--jobs", "0"], "jobs=0 must be at least 1"),
        (["1", "--test-size", "2"], "test_size=2.0 must be a number in"),
        (["1", "--repeats", "0"], "--repeats"),
        (["--ids-file", "nowhere.txt"], "there is no file 'nowhere.txt'"),
        (["--ids-file", "words.txt"], "has 'iris', which is no OpenML id"),
        (["--report-only"], "there is no file of records 'build/suite.jsonl'"),
        (["--report-only", "--fresh"], "--fresh removes the records that --report-only reads"),
        (["--picture", "suite.xyz"], "ends in '.xyz'; end it in one of .png"),
        (["1", "-o", "words.txt/x.md"], "words.txt"),
    ],
)
def test_bad_input_ends_in_one_line(cheap: Path, arguments: list[str], message: str) -> None:
    (cheap / "words.txt").write_text("61 iris\n")
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.splitlines()[-1].startswith("Error: ")
    assert message in result.stderr.splitlines()[-1]
    assert not (cheap / "build").exists()


def test_other_settings_are_refused_by_the_command(cheap: Path) -> None:
    invoke("1", "--repeats", "1")
    refused = invoke("1", "--repeats", "1", "--epochs", "5")
    assert refused.exit_code == 2
    assert "were made with epochs=100, not with epochs=5" in refused.stderr
    assert invoke("1", "--repeats", "1", "--epochs", "5", "--fresh").exit_code == 0
    assert read_header("build/suite.jsonl")["epochs"] == 5


def test_an_interrupt_says_how_to_go_on(cheap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("genlabel.suite.run_suite", interrupt)
    result = invoke("1")
    assert result.exit_code == 130
    assert "interrupted; what ended is kept in build/suite.jsonl, the same command goes on" in result.stderr


def test_help_names_the_options() -> None:
    options = invoke("--help").stdout
    for name in (
        "ids-file",
        "data-home",
        "max-features",
        "methods",
        "jobs",
        "records",
        "fresh",
        "report-only",
        "picture",
        "output",
    ):
        assert f"--{name}" in options


def test_tables_of_the_library_can_be_run(tmp_path: Path) -> None:
    found = run_suite([1], CHEAP, 1, records=tmp_path / "r", load=lambda _: load_table("wine"))
    assert found["name"].unique().tolist() == ["wine"]
    assert found[SCORES].notna().all(axis=None)
