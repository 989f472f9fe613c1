"""Trials: records are independent of the other cells of a trial, splits are clean, every cell of the study can run."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from genlabel.attacks import FGSM
from genlabel.data.datasets import load_openml
from genlabel.data.datasets.synthetic import SYNTHETIC
from genlabel_paper.experiments.table5 import PAPER as TABLE5
from genlabel_paper.runs import table_settings
from genlabel_paper.runs.cells import Cell, TrialKey, split_reading
from genlabel_paper.runs.data import TEST_SIZE, load_split
from genlabel_paper.runs.manifest import ROUNDED, manifest
from genlabel_paper.runs.schedules import SCHEDULES
from genlabel_paper.runs.settings import SETTINGS
from genlabel_paper.runs.trials import _fingerprint, fingerprint_cell, order, run_trial

MIRROR = Path(__file__).parents[3] / "shared" / "data" / "openml_mirror"
needs_mirror = pytest.mark.skipif(not MIRROR.is_dir(), reason="needs the OpenML mirror")

KNOWN = {name: setting.variants("mnist") or setting.variants("61") for name, setting in SETTINGS.items()}


@needs_mirror
@pytest.mark.parametrize("setting", ["logistic", "logistic-robust"])
def test_record_is_independent_of_other_cells(setting: str) -> None:
    cells = [Cell(setting, "817", method, 1, 2, alpha) for method, alpha in sorted(KNOWN[setting])]
    together = {record["key"]: record for record in run_trial(cells, data_home=MIRROR)}
    assert set(together) == set(cells)
    for cell in cells[::3]:
        (alone,) = run_trial([cell], data_home=MIRROR)
        assert alone["metrics"] == together[cell]["metrics"]
        assert alone["parameters"] == together[cell]["parameters"]


@needs_mirror
def test_attack_lowers_accuracy_and_selects_gamma() -> None:
    cells = [Cell("logistic-robust", "346", method, 0, 0) for method in ("vanilla", "mixup", "genlabel-gm")]
    records = {record["key"].method: record for record in run_trial(cells, data_home=MIRROR)}
    for record in records.values():
        assert record["metrics"]["robust_accuracy"] <= record["metrics"]["accuracy"]
    assert records["mixup"]["parameters"]["gamma"] == 0.0
    assert "gamma" not in records["vanilla"]["parameters"]


@needs_mirror
def test_alpha_changes_mixup() -> None:
    one, two = (run_trial([Cell("logistic", "61", "mixup", 0, 0, alpha)], MIRROR)[0] for alpha in (1.0, 2.0))
    assert one["metrics"]["log_loss"] != two["metrics"]["log_loss"]


@needs_mirror
@pytest.mark.parametrize("dataset", ["61", "223", "817", "40710"])
def test_splits_have_three_tenths_of_the_rows(dataset: str) -> None:
    first, again, other = (load_split(dataset, split, MIRROR) for split in (0, 0, 1))
    rows = len(first.y) + len(first.y_test)
    assert len(first.y_test) == pytest.approx(0.3 * rows, abs=1)
    np.testing.assert_array_equal(first.X, again.X)
    assert not np.array_equal(first.y_test, other.y_test)
    assert set(first.y_test) <= set(first.y)
    assert np.isfinite(first.X).all()
    assert np.isfinite(first.X_test).all()


@needs_mirror
@pytest.mark.parametrize("number", ["61", "36", "223", "312", "866", "907", "915", "949", "956", "1014"])
def test_manifest_has_the_sizes_of_the_datasets(number: str) -> None:
    table = load_openml(int(number), MIRROR, round_target=number in ROUNDED)
    counts = table.y.value_counts()
    largest = round(100.0 * float(counts.max()) / len(table.y), 2)
    expected = [table.name, len(table.y), table.X.shape[1], len(counts), largest]
    assert manifest().loc[number, ["name", "n", "d", "k", "largest"]].tolist() == expected


@pytest.mark.parametrize("name", SYNTHETIC)
def test_split_of_a_synthetic_dataset_is_a_new_draw(name: str) -> None:
    first, other = load_split(name, 0), load_split(name, 1)
    assert not np.array_equal(first.X, other.X)
    assert not np.array_equal(first.X[:10], first.X_test[:10])
    assert len(first.X_test) == (10_000 * len(set(first.y)) if name.startswith("cube") else len(first.X))


def test_missing_dataset_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def fetch(**options: object) -> None:
        calls.append(options)
        raise OSError("no network")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    for _ in range(2):
        with pytest.raises(OSError, match="1038"):
            run_trial([Cell("mlp-robust", "1038", "mixup", 0, 0)], data_home=tmp_path)
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("cells", "keyword"),
    [
        ([Cell("logistic", "61", "mixup", 0, 0), Cell("logistic", "61", "mixup", 0, 1)], "2 trials"),
        ([Cell("forest", "61", "mixup", 0, 0)], "forest"),
        ([Cell("mlp", "61", "adamixup", 0, 0)], "'adamixup'"),
        ([Cell("logistic", "61", "vanilla", 0, 0, 2.0)], "alpha=2"),
    ],
)
def test_invalid_cells_are_refused(cells: list[Cell], keyword: str) -> None:
    with pytest.raises(ValueError, match=keyword):
        run_trial(cells)


def test_largest_datasets_of_a_seed_come_first() -> None:
    trials = [TrialKey("logistic", name, 0, seed) for seed in (1, 0) for name in ("817", "61", "36")]
    unknown = TrialKey("mlp-robust", "1038", 0, 0)
    ordered = sorted([*trials, unknown], key=order)
    assert [trial for trial in ordered if trial != unknown] == trials[::-1]


EXAMPLE_DATASETS = {"synthetic": ("cube-2d", "circle"), "plane": ("nine-gaussians", "two-circle")}
EXAMPLE_DATASETS |= {
    "densities": ("circle", "cube-2d"),
    "genmix": ("v", "mnist-79"),
    "genmix-hidden": ("digits", "mnist"),
}
EXAMPLE_DATASETS |= dict.fromkeys(SCHEDULES, ("mnist", "cifar10"))
ALL_CELLS = [
    Cell(setting, dataset, method, 0, 0, alpha)
    for setting in SETTINGS
    for dataset in EXAMPLE_DATASETS.get(split_reading(setting)[0], ("61", "223"))
    for method, alpha in sorted(SETTINGS[setting].variants(dataset))
]


def test_differently_trained_cells_have_different_fingerprints() -> None:
    by_fingerprint = {fingerprint_cell(cell): cell for cell in ALL_CELLS}
    assert len(by_fingerprint) == len(ALL_CELLS)
    for cell in ALL_CELLS[::5]:
        assert by_fingerprint[fingerprint_cell(replace(cell, split=2, seed=3))] == cell


def test_edited_setting_changes_the_fingerprints_of_its_cells_only(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [fingerprint_cell(cell) for cell in ALL_CELLS]
    edited = replace(SETTINGS["mlp-robust"], attack=FGSM(0.3))
    monkeypatch.setitem(table_settings.SETTINGS, "mlp-robust", edited)
    _fingerprint.cache_clear()
    after = [fingerprint_cell(cell) for cell in ALL_CELLS]
    _fingerprint.cache_clear()
    assert [old != new for old, new in zip(before, after, strict=True)] == [
        cell.setting == "mlp-robust" for cell in ALL_CELLS
    ]


def test_three_tenths_of_the_rows_explain_the_printed_accuracies() -> None:
    """Each printed accuracy of the generative classifier of table 5, which has no seed, is a count of test rows."""

    def count_explained(test_size: float) -> int:
        printed = {name: value.mean for (method, name), value in TABLE5.items() if method == "generative-gm"}
        n_test = {name: math.ceil(test_size * int(manifest().loc[name, "n"])) for name in printed}
        hits = {name: round(value / 100 * n_test[name]) for name, value in printed.items()}
        return sum(abs(100 * hits[name] / n_test[name] - value) < 0.006 for name, value in printed.items())

    assert count_explained(TEST_SIZE) == 16
    assert max(count_explained(test_size) for test_size in (0.2, 0.25, 1 / 3)) <= 3
