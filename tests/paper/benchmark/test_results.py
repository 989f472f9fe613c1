"""Committed records of the benchmark: complete, and as the documents describe them."""

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from genlabel.data.datasets import load_openml
from genlabel.evaluation.runner import FitRunner
from genlabel_paper.benchmark import (
    BaselineClassifier,
    complete_datasets,
    count_worse_than_prior,
    dataset_means,
    default_methods,
    wins,
)
from genlabel_paper.benchmark.run import describe_table
from genlabel_paper.benchmark.schema import BENCHMARK
from genlabel_paper.exports import load_records

ROOT = Path(__file__).parents[3]
RECORDS = ROOT / "results" / "benchmark.json"
pytestmark = pytest.mark.skipif(not RECORDS.exists(), reason="needs the source tree")


BASELINE_NAMES = ("catboost", "lightgbm", "forest", "xgboost")


def todays_methods(settings: dict[str, Any]) -> dict[str, Any]:
    return default_methods(settings["network"], settings["epochs"]) | {
        name: BaselineClassifier(name) for name in BASELINE_NAMES
    }


def test_study_is_complete() -> None:
    records, _, settings, _ = load_records(RECORDS, BENCHMARK)
    assert settings == {"seed": 0, "test_size": 0.3, "network": "mlp", "epochs": "auto"}
    methods = {"default", "vanilla", "mixup", "stacked density", "boosting", *BASELINE_NAMES}
    assert set(records["method"]) == methods
    assert set(records["split"]) == {0, 1}
    assert len(records) == 2 * records["dataset"].nunique() * len(methods)
    assert records["dataset"].nunique() >= 150
    assert records["d"].max() <= 20
    assert records["n"].between(90, 2000).all()  # rows of classes that are too small were dropped


def test_records_have_the_current_fingerprints() -> None:
    """Retrain a method after an edit of its settings, unless the edit changes no number."""
    records, _, settings, _ = load_records(RECORDS, BENCHMARK)
    methods = todays_methods(settings)
    bench = FitRunner(methods, 1, settings["test_size"], settings["seed"], load_openml, describe_table)
    today = records["method"].map({method: bench.fingerprint(method) for method in set(records["method"])})
    assert (records["fingerprint"] == today).all()


def test_page_has_the_counts_of_lower_log_losses() -> None:
    """tests/test_readme_numbers.py checks the table of README and the other numbers of the start pages."""
    records = load_records(RECORDS, BENCHMARK).frame
    assert complete_datasets(records)[1] == []
    text = (ROOT / "docs" / "stacked-density.md").read_text()
    for other in ("vanilla", "mixup", *BASELINE_NAMES, "boosting", "stacked density"):
        counts = wins(records, "default", other, "log_loss")
        assert counts.better > counts.worse, other
        assert f"| {other} | {counts.better} / {counts.tie} / {counts.worse} |" in text, other


@pytest.mark.parametrize("other", ["tabm", "realmlp", "tabm-log-loss", "realmlp-log-loss"])
def test_page_has_the_shares_against_tabular_networks(other: str) -> None:
    records = load_records(RECORDS.with_name("benchmark-networks.json"), BENCHMARK).frame
    assert len(records) == 2 * 5 * records["dataset"].nunique()
    counts = wins(records, "default", other, "log_loss")
    accuracy, loss = (dataset_means(records, score)[other].mean() for score in ("accuracy", "log_loss"))
    row = f"| {other} | {accuracy:.2f} | {loss:.4f} | {count_worse_than_prior(records)[other]} |"
    share = f"{100 * counts.better / counts.sets:.0f} / {100 * counts.worse / counts.sets:.0f}"
    assert f"{row} {share} |" in (ROOT / "docs" / "stacked-density.md").read_text()


def test_default_is_the_same_in_both_studies() -> None:
    both = [load_records(RECORDS.with_name(f"benchmark{name}.json"), BENCHMARK).frame for name in ("", "-networks")]
    first, second = (frame[frame["method"] == "default"].set_index(["dataset", "split"])["log_loss"] for frame in both)
    assert first.sort_index().equals(second.sort_index())


def test_default_has_no_accident() -> None:
    assert count_worse_than_prior(load_records(RECORDS, BENCHMARK).frame)["default"] == 0


def test_default_has_the_lowest_log_loss_and_the_highest_accuracy() -> None:
    records = load_records(RECORDS, BENCHMARK).frame
    assert dataset_means(records, "log_loss").mean().idxmin() == "default"
    assert dataset_means(records, "accuracy").mean().idxmax() == "default"


def test_page_has_the_means_of_the_records() -> None:
    records = load_records(RECORDS, BENCHMARK).frame
    means = {metric: dataset_means(records, metric).mean() for metric in ("accuracy", "log_loss")}
    accidents = count_worse_than_prior(records)
    text = (ROOT / "docs" / "stacked-density.md").read_text()
    for method in means["accuracy"].index:
        row = f"| {method} | {means['accuracy'][method]:.2f} | {means['log_loss'][method]:.4f} | {accidents[method]} |"
        assert row in text, method
    gap = means["log_loss"]["vanilla"] - means["log_loss"]["default"]
    assert f"come within {gap:.3f} nats of it in the mean" in text


def test_default_costs_at_most_three_times_mixup_and_catboost() -> None:
    """Compare seconds of whole fits on a CPU in the same run, with search and stacked density."""
    records = load_records(RECORDS, BENCHMARK).frame
    assert set(records["device"]) == {"cpu"}
    seconds = dataset_means(records, "seconds")
    text = " ".join((ROOT / "docs" / "stacked-density.md").read_text().split())
    for other in ("mixup", "catboost"):
        ratio = seconds["default"] / seconds[other]
        assert len(ratio) == 156
        assert ratio.median() <= 3
        assert seconds["default"].sum() <= 3 * seconds[other].sum()
        assert f"{ratio.median():.2f} times {other}" in text


def test_default_is_as_good_as_the_full_search() -> None:
    """Compare on the first split, which both studies have: the mean difference is within two standard errors."""
    old = load_records(RECORDS.with_name("benchmark-full.json"), BENCHMARK).frame
    before = old[(old["method"] == "default") & (old["split"] == 0)].set_index("dataset")["log_loss"]
    new = load_records(RECORDS, BENCHMARK).frame
    difference = new[(new["method"] == "default") & (new["split"] == 0)].set_index("dataset")["log_loss"] - before
    assert len(difference) == 156
    assert difference.mean() <= 2 * difference.std() / len(difference) ** 0.5
    assert (difference < -0.002).sum() >= (difference > 0.002).sum()


def test_page_has_the_accidents_of_fifteen_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    report = runpy.run_path(str(ROOT / "benchmarks" / "high_losses.py"))["report"](
        json.loads((ROOT / "results" / "accidents.json").read_text())
    )
    text = (ROOT / "docs" / "stacked-density.md").read_text()
    assert "2340 fits a method" in report
    for line in report.splitlines()[1:5]:
        name, mean, count, share = re.findall(r"^  (.*?) +mean (\S+); accidents (\d+), (\S+ %)", line)[0]
        assert f"| {name} | {mean} | {count} ({share}) |" in text
    for line in report.splitlines()[5:]:
        other, *parts = re.findall(
            r"against (.*?): lower on (\d+) .*, within 0.002 on (\d+) %, higher on (\d+) ", line
        )[0]
        assert re.search(rf"\| {other} \|.*\| {' / '.join(parts)} \|", text), line
