"""The records of our own study say what the documents say of them."""

from pathlib import Path

import pytest

from genlabel.suite import read_header, read_records, set_means, wins

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "results" / "suite.jsonl"
pytestmark = pytest.mark.skipif(not RECORDS.exists(), reason="needs the source tree")


def test_the_study_is_whole() -> None:
    records = read_records(RECORDS)
    assert read_header(RECORDS) == {"seed": 0, "test_size": 0.3, "network": "mlp", "epochs": 100}
    methods = {"default", "paper", "vanilla", "mixup", "label model", "logistic", "boosting"}
    assert set(records["method"]) == methods
    assert len(records) == records["id"].nunique() * 3 * len(methods)
    assert records["id"].nunique() >= 150
    assert records["d"].max() <= 20
    assert records["n"].between(90, 2000).all()  # rows of classes that are too small were dropped


@pytest.mark.parametrize(
    "other, least, most", [("mixup", 0.80, 0.15), ("vanilla", 0.65, 0.25), ("boosting", 0.65, 0.20)]
)
def test_the_default_has_the_lower_log_loss(other: str, least: float, most: float) -> None:
    found = wins(read_records(RECORDS), "default", other, "log_loss")
    assert found.left_out == 0
    assert found.better >= least * found.sets
    assert found.worse <= most * found.sets


def test_the_default_has_the_higher_accuracy() -> None:
    records = read_records(RECORDS)
    against_mixup = wins(records, "default", "mixup", "accuracy")
    assert against_mixup.better >= 2 * against_mixup.worse
    against_vanilla = wins(records, "default", "vanilla", "accuracy")
    assert against_vanilla.worse <= 0.25 * against_vanilla.sets
    means = set_means(records, "accuracy").mean()
    assert means["default"] >= means["vanilla"]
    assert means["default"] >= means["boosting"] - 0.3


def test_the_documents_print_the_means_of_the_records() -> None:
    records = read_records(RECORDS)
    means = {metric: set_means(records, metric).mean() for metric in ("accuracy", "log_loss")}
    for document in (ROOT / "README.md", ROOT / "docs" / "label-models.md"):
        text = document.read_text()
        for method in means["accuracy"].index:
            row = next(line for line in text.splitlines() if line.startswith(f"| {method} |"))
            assert f"{means['accuracy'][method]:.2f}" in row, (document.name, method)
            assert f"{means['log_loss'][method]:.4f}" in row, (document.name, method)


def test_the_default_costs_at_most_three_mixup_searches() -> None:
    """Seconds of whole fits on a CPU, search and label model included."""
    records = read_records(ROOT / "results" / "suite-cpu.jsonl")
    assert set(records["device"]) == {"cpu"}
    seconds = set_means(records, "seconds")
    ratio = seconds["default"] / seconds["mixup"]
    assert len(ratio) == 156
    assert ratio.median() <= 3
    assert seconds["default"].sum() <= 3 * seconds["mixup"].sum()
    assert f"{ratio.median():.2f} times" in (ROOT / "docs" / "label-models.md").read_text()
