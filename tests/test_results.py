"""The records of our own study say what the documents say of them."""

from pathlib import Path

import pytest

from genlabel.bench import Bench
from genlabel.datasets import load_openml
from genlabel.records import SUITE, load_records, read_records
from genlabel.suite import complete_sets, default_suite, set_means, wins
from genlabel.suite.run import describe_set

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "results" / "suite.json"
pytestmark = pytest.mark.skipif(not RECORDS.exists(), reason="needs the source tree")


def test_the_study_is_whole() -> None:
    records, _, settings, _ = load_records(RECORDS, SUITE)
    assert settings == {"seed": 0, "test_size": 0.3, "network": "mlp", "epochs": 100}
    methods = {"default", "paper", "vanilla", "mixup", "label model", "logistic", "boosting"}
    assert set(records["method"]) == methods
    assert len(records) == records["dataset"].nunique() * 3 * len(methods)
    assert records["dataset"].nunique() >= 150
    assert records["d"].max() <= 20
    assert records["n"].between(90, 2000).all()  # rows of classes that are too small were dropped


@pytest.mark.parametrize("name", ["suite.json", "suite-cpu.json"])
def test_the_records_were_made_with_the_settings_of_today(name: str) -> None:
    """A method whose settings are edited must be trained again, or the edit be known to change nothing."""
    records, _, settings, _ = load_records(RECORDS.with_name(name), SUITE)
    methods = default_suite(settings["network"], settings["epochs"])
    bench = Bench(methods, 3, settings["test_size"], settings["seed"], load_openml, describe_set)
    today = records["method"].map({method: bench.fingerprint(method) for method in methods})
    assert (records["fingerprint"] == today).all()


@pytest.mark.parametrize(
    "other, least, most", [("mixup", 0.80, 0.15), ("vanilla", 0.65, 0.25), ("boosting", 0.65, 0.20)]
)
def test_the_default_has_the_lower_log_loss(other: str, least: float, most: float) -> None:
    records = read_records(RECORDS, SUITE)
    found = wins(records, "default", other, "log_loss")
    assert complete_sets(records)[1] == []
    assert found.better >= least * found.sets
    assert found.worse <= most * found.sets


def test_the_default_has_the_higher_accuracy() -> None:
    records = read_records(RECORDS, SUITE)
    against_mixup = wins(records, "default", "mixup", "accuracy")
    assert against_mixup.better >= 2 * against_mixup.worse
    against_vanilla = wins(records, "default", "vanilla", "accuracy")
    assert against_vanilla.worse <= 0.25 * against_vanilla.sets
    means = set_means(records, "accuracy").mean()
    assert means["default"] >= means["vanilla"]
    assert means["default"] >= means["boosting"] - 0.3


def test_the_documents_print_the_means_of_the_records() -> None:
    records = read_records(RECORDS, SUITE)
    means = {metric: set_means(records, metric).mean() for metric in ("accuracy", "log_loss")}
    for document in (ROOT / "README.md", ROOT / "docs" / "label-models.md"):
        text = document.read_text()
        for method in means["accuracy"].index:
            row = next(line for line in text.splitlines() if line.startswith(f"| {method} |"))
            assert f"{means['accuracy'][method]:.2f}" in row, (document.name, method)
            assert f"{means['log_loss'][method]:.4f}" in row, (document.name, method)


def test_the_default_costs_at_most_three_mixup_searches() -> None:
    """Seconds of whole fits on a CPU, search and label model included."""
    records = read_records(ROOT / "results" / "suite-cpu.json", SUITE)
    assert set(records["device"]) == {"cpu"}
    seconds = set_means(records, "seconds")
    ratio = seconds["default"] / seconds["mixup"]
    assert len(ratio) == 156
    assert ratio.median() <= 3
    assert seconds["default"].sum() <= 3 * seconds["mixup"].sum()
    assert f"{ratio.median():.2f} times" in (ROOT / "docs" / "label-models.md").read_text()
