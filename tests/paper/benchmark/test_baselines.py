"""Baselines of other packages: default parameters, any labels, and a reason where one cannot run."""

import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from typer.testing import CliRunner

from genlabel.cli import app
from genlabel.data.datasets import load_table
from genlabel.data.tables import Table, make_splits
from genlabel.evaluation.records import fingerprint
from genlabel.evaluation.records.schema import Fit
from genlabel_paper.benchmark import (
    BASELINES,
    METHODS,
    Baseline,
    BaselineClassifier,
    cost_ratios,
    count_worse_than_prior,
    dataset_means,
    report,
    run_benchmark,
    why_unavailable,
)
from genlabel_paper.benchmark.schema import BENCHMARK
from genlabel_paper.exports import load_records

REASONS = {name: why_unavailable(name) for name in BASELINES}
ABSENT = Baseline("Absent", "no_such_package.Classifier", "no-such-package")
MODULE = """
from sklearn.dummy import DummyClassifier

class Forgetful(DummyClassifier):
    def fit(self, X, y):
        return super().fit(X[y != 1], y[y != 1])
"""


def available_baselines(by_log_loss: bool = True) -> list[Any]:
    """Return the names of the baselines; only those with the package's own choices if `by_log_loss` is False."""
    return [
        pytest.param(name, marks=pytest.mark.skipif(reason is not None, reason=f"{name}: {reason}"))
        for name, reason in REASONS.items()
        if by_log_loss or BASELINES[name].has_defaults
    ]


def sample(rare: tuple[int, ...]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return two classes of 40 rows, further ones of `rare` rows, a constant column and a binary one."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(2 + len(rare)), [40, 40, *rare])
    X = rng.normal(size=(len(y), 4)) + 3 * y[:, None]
    X[:, 0], X[:, 1] = 1.0, X[:, 1] > 1.5
    return X, y


# The registry


def test_baselines_are_not_methods() -> None:
    assert not set(BASELINES) & set(METHODS)
    with_defaults = {name for name, baseline in BASELINES.items() if baseline.has_defaults}
    packages = {"catboost", "lightgbm", "xgboost", "forest", "realmlp", "tabm", "tabicl", "tabpfn", "tabpfn-v1", "ebm"}
    native = {"catboost-native", "lightgbm-native", "xgboost-native"}
    assert packages | native | {"perpetual", "xrfm"} == with_defaults
    assert len({baseline.title for baseline in BASELINES.values()}) == len(BASELINES)


@pytest.mark.parametrize("name", BASELINES)
def test_unavailable_baseline_has_a_reason(name: str) -> None:
    reason, baseline = REASONS[name], BASELINES[name]
    if reason is None:
        assert callable(baseline.load())
        return
    assert ("pip install" in reason) or ("weights" in reason)
    with pytest.raises(ImportError, match=f"baseline='{name}'") as caught:
        BaselineClassifier(name).fit([[0.0], [1.0]], [0, 1])
    assert reason in str(caught.value)


def test_reasons_name_the_missing_part() -> None:
    assert REASONS["forest"] is None
    hint = 'install it with pip install "genlabel[baselines]"'
    assert ABSENT.why_unavailable() == f"no-such-package is not installed; {hint}"
    lacking = Baseline(
        "Lacking", "sklearn.dummy.DummyClassifier", "scikit-learn", missing_weights=lambda: "no weights here"
    )
    assert lacking.why_unavailable() == "no weights here"
    broken = replace(lacking, missing_weights=lambda: ABSENT.load())
    assert broken.why_unavailable() == f"scikit-learn cannot be imported (No module named 'no_such_package'); {hint}"
    moved = replace(lacking, missing_weights=lambda: object().path)  # type: ignore[attr-defined]
    assert "(AttributeError" in str(moved.why_unavailable())
    with pytest.raises(ValueError, match="baseline='boost'"):
        why_unavailable("boost")


@pytest.mark.parametrize("name", available_baselines())
def test_only_declared_parameters_are_set(name: str) -> None:
    baseline = BASELINES[name]
    without_threads = {"tabpfn", "tabpfn-v1", "logistic-tuned", "boosting-tuned"}
    assert any(value == 1 for value in baseline.settings.values()) or name in without_threads
    defaults, params = baseline.load()().get_params(), baseline.make(7).get_params()
    changed = {key for key, value in params.items() if key not in defaults or repr(defaults[key]) != repr(value)}
    assert params[baseline.seed] == 7
    assert changed <= {*baseline.settings, *baseline.scoring, baseline.seed, baseline.categories}
    assert {"val_metric_name"} <= set(baseline.scoring) <= {"val_metric_name", "use_ls"} or not baseline.scoring


def test_fingerprint_covers_the_settings_of_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    prints = {name: fingerprint(estimator=BaselineClassifier(name)) for name in BASELINES}
    assert len(set(prints.values())) == len(BASELINES)
    monkeypatch.setitem(BASELINES, "forest", replace(BASELINES["forest"], settings={"n_jobs": 1, "max_depth": 3}))
    assert fingerprint(estimator=BaselineClassifier("forest")) != prints["forest"]
    assert fingerprint(estimator=BaselineClassifier("catboost")) == prints["catboost"]


@pytest.mark.parametrize("name", BASELINES)
def test_device_is_passed_to_packages_with_that_parameter(name: str) -> None:
    gpu, cpu = BASELINES[name].settings_on("cuda"), BASELINES[name].settings_on("cpu")
    assert gpu == (cpu | {"device": "cuda"} if "device" in cpu else cpu)
    prints = {fingerprint(estimator=BaselineClassifier(name, device=device)) for device in ("cpu", "cuda")}
    assert len(prints) == 2
    assert fingerprint(estimator=BaselineClassifier(name)) in prints


# The classifier


@pytest.mark.filterwarnings("ignore")  # warnings of other packages
@pytest.mark.long
@pytest.mark.parametrize("name", available_baselines(by_log_loss=False))
def test_baselines_accept_any_labels_and_print_nothing(
    name: str, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Integer and string labels in the same order are the same problem; the same seed gives the same model."""
    monkeypatch.chdir(tmp_path)
    X, y = sample(rare=(1, 2))
    disabled = logging.root.manager.disable
    results = []
    for labels in (np.array([-3, 5, 7, 100]), np.array(["no", "perhaps", "there", "yes"])):
        model = clone(BaselineClassifier(name, random_state=0)).fit(X, labels[y])
        assert model.classes_.tolist() == labels.tolist()
        proba = model.predict_proba(X[:50])
        assert proba.shape == (50, 4)
        np.testing.assert_allclose(proba.sum(1), 1, atol=1e-5)
        assert set(model.predict(X)) <= set(labels)
        results.append(proba)
    np.testing.assert_array_equal(*results)
    assert (model.predict(X[:80]) == labels[y[:80]]).mean() > 0.9
    assert list(model.versions_) == [BASELINES[name].package]
    assert capfd.readouterr() == ("", "")
    assert logging.root.manager.disable == disabled
    assert list(tmp_path.iterdir()) == []


def test_unlearned_class_has_probability_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is imported by `clone`, before the time of a fit starts."""
    (tmp_path / "forgetful_baseline.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(BASELINES, "forgetful", Baseline("Forgetful", "forgetful_baseline.Forgetful", "scikit-learn"))
    model = BaselineClassifier("forgetful")
    assert "forgetful_baseline" not in sys.modules
    copy = clone(model)
    assert "forgetful_baseline" in sys.modules
    proba = copy.fit(np.zeros((4, 1)), list("abbc")).predict_proba(np.zeros((1, 1)))
    assert proba.tolist() == [[0.5, 0.0, 0.5]]


# Records


def load(number: int) -> Table:
    return load_table("iris" if number == 1 else "wine")


def test_unavailable_baseline_is_a_recorded_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BASELINES, "absent", ABSENT)
    methods = {name: BaselineClassifier(name) for name in ("absent", "forest")}
    result = run_benchmark([1, 2], methods, 1, records=None, load=load)
    assert result.frame["method"].tolist() == ["forest", "forest"]
    assert set(result.failures) == {Fit(1, "absent", 0), Fit(2, "absent", 0)}
    assert all("no-such-package" in text for text in result.failures.values())
    assert {versions["scikit-learn"] for versions in result.frame["versions"]} == {sys.modules["sklearn"].__version__}


def test_record_has_times_and_the_log_loss_of_the_priors() -> None:
    table = load(2)
    frame = run_benchmark([2], {"forest": BaselineClassifier("forest")}, 2, seed=3, records=None, load=load).frame
    assert (frame[["seconds", "predict_seconds"]] > 0).all(axis=None)
    for (train, test), row in zip(make_splits(table, 2, 0.3, 3), frame.to_dict("records"), strict=True):
        prior = DummyClassifier(strategy="prior").fit(table.X.iloc[train], table.y.iloc[train])
        expected = log_loss(table.y.iloc[test], prior.predict_proba(table.X.iloc[test]))
        assert row["shares_log_loss"] == pytest.approx(expected)
        assert row["log_loss"] < expected


# The report


def make_records() -> pd.DataFrame:
    """Return records of two methods on three datasets: "a" has one accident, one near accident and one good fit."""
    scores = {"a": ([1.111, 1.099, 0.2], [6.0, 2.0, 9.0]), "b": ([0.9, 0.8, 0.3], [1.0, 2.0, 3.0])}
    return pd.concat(
        pd.DataFrame({"dataset": [1, 2, 3], "method": name, "log_loss": losses, "seconds": seconds})
        for name, (losses, seconds) in scores.items()
    ).assign(
        split=0, name="t", accuracy=0.5, brier=0.2, calibration_error=0.1, shares_log_loss=1.0, predict_seconds=0.25
    )


def test_accidents_and_costs_equal_a_hand_count() -> None:
    records = make_records()
    assert count_worse_than_prior(records).to_dict() == {"a": 1, "b": 0}
    assert cost_ratios(records, "a").loc["b"].to_dict() == {"median": 3.0, "total": 17 / 6}
    with pytest.raises(ValueError, match="reference='c'"):
        cost_ratios(records, "c")


def test_report_has_accidents_and_costs() -> None:
    _, cost, log_losses, _ = report(make_records(), reference="a")
    assert cost.rows is not None
    assert cost.rows.loc["a"].tolist() == ["6", "0.25", "1", "1", "1"]
    assert cost.rows.loc["b"].tolist() == ["2", "0.25", "0", "3", "2.83"]
    assert "accidents: of 3 fits, those with a log-loss more than 10 % above the class priors'" in cost.lines
    assert "a has lower log-loss than b on 33 % of 3 datasets, higher on 67 %" in log_losses.lines[0]
    older = make_records().drop(columns=["shares_log_loss", "predict_seconds"])
    mixed = make_records().assign(shares_log_loss=[np.nan, *[1.0] * 5], predict_seconds=np.nan)
    for records in (older, mixed):
        rows = report(records, reference="a")[1].rows
        assert rows is not None
        assert list(rows.columns) == ["fit (s)", "times, median", "in total"]


# The command line


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["benchmark", *arguments], prog_name="genlabel")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Prepare an empty folder, one cheap method, two available baselines and an unavailable one."""
    monkeypatch.chdir(tmp_path)
    methods = {"default": lambda **_: LogisticRegression(max_iter=5000)}
    monkeypatch.setattr("genlabel_paper.benchmark.methods.METHODS", methods)
    monkeypatch.setattr("genlabel_paper.benchmark.METHODS", methods)  # the package may have imported it
    for name in [name for name in BASELINES if name != "forest"]:
        monkeypatch.delitem(BASELINES, name)
    monkeypatch.setitem(BASELINES, "absent", ABSENT)
    monkeypatch.setitem(
        BASELINES, "aimed", replace(BASELINES["forest"], title="Aimed", scoring={"criterion": "log_loss"})
    )
    monkeypatch.setattr("genlabel.data.datasets.load_openml", lambda number, data_home: load(number))
    return tmp_path


def test_list_has_methods_and_baselines(folder: Path) -> None:
    result = invoke("--list")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "methods: default",
        "baseline: forest (random forest): can run here",
        f"baseline: absent (Absent): {ABSENT.why_unavailable()}",
        "baseline: aimed (Aimed): can run here",
    ]
    assert list(folder.iterdir()) == []


def test_available_baselines_run_and_others_are_skipped(folder: Path) -> None:
    result = invoke("1", "2", "--baselines", "--n-splits", "1")
    assert result.exit_code == 0, result.output
    assert f"skipped: absent: {ABSENT.why_unavailable()}" in result.stderr.splitlines()
    records = load_records("build/benchmark.sqlite", BENCHMARK).frame
    assert records.groupby("method").size().to_dict() == {"default": 2, "forest": 2}
    for name, mean in dataset_means(records, "log_loss").mean().items():
        (line,) = [line for line in result.stdout.splitlines() if line.split()[:1] == [name] and "%" not in line][:1]
        assert f"{mean:.4f}" in line
    named = invoke("1", "--methods", "forest", "--n-splits", "1", "--records", "f.sqlite")
    assert named.exit_code == 0
    assert load_records("f.sqlite", BENCHMARK).frame["method"].tolist() == ["forest"]
    aimed = invoke("1", "--methods", "aimed", "--n-splits", "1", "--records", "a.sqlite")
    assert aimed.exit_code == 0
    assert load_records("a.sqlite", BENCHMARK).frame["method"].tolist() == ["aimed"]
    both = invoke("1", "--methods", "forest", "--baselines", "--n-splits", "1", "--records", "f.sqlite")
    assert "fits recorded: 1; to do: 0" in both.stderr
    assert invoke("--report-only", "--methods", "default,forest").exit_code == 0


@pytest.mark.parametrize(
    "arguments, keyword",
    [
        (["1", "--methods", "default,absent"], "--methods 'absent'"),
        (
            ["1", "--methods", "magic"],
            "--methods 'magic'",
        ),
        (["--report-only", "--baselines"], "--baselines"),
    ],
)
def test_invalid_input_is_one_error_line(folder: Path, arguments: list[str], keyword: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert keyword in result.stderr.splitlines()[-1]
    assert list(folder.iterdir()) == []
