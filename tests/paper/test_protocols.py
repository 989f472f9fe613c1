"""Protocols of the tables, and the rule of their datasets: against the records, the classifiers and the data."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from genlabel import MixupClassifier
from genlabel.data.datasets import load_openml
from genlabel.data.datasets.catalog import DATA_HOME
from genlabel.metrics import score
from genlabel_paper.exports import load_records
from genlabel_paper.registry import find
from genlabel_paper.report.experiment import select_cells
from genlabel_paper.runs.cells import PAPER_SCHEMA, Cell, in_percent
from genlabel_paper.runs.data import load_split
from genlabel_paper.runs.manifest import copies, low_dimensional_datasets, manifest, reasons_to_leave_out
from genlabel_paper.runs.protocols import (
    LAST,
    PAPER,
    depends_on_protocol,
    paper_cells,
    records_by_protocol,
    under_protocol,
    with_paper_cells,
)
from genlabel_paper.runs.readings import has_text
from genlabel_paper.runs.settings import SETTINGS
from genlabel_paper.runs.trials import fingerprint_cell

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "results" / "paper"
DATA = Path(os.environ.get(DATA_HOME) or ROOT.parent / "shared" / "data" / "openml_mirror")
needs_data = pytest.mark.skipif(not (DATA / "openml").exists(), reason="needs the OpenML sets")
needs_records = pytest.mark.skipif(not RECORDS.exists(), reason="needs the source tree")
TABULAR = [*(f"table{number}" for number in (1, 2, 3, 4, 5, 6, 8, 9)), "figure3", "figure5", "figure9"]


@pytest.fixture(scope="module")
def records() -> pd.DataFrame:
    return in_percent(load_records(RECORDS, PAPER_SCHEMA).frame)


@pytest.mark.parametrize("name", TABULAR)
@pytest.mark.parametrize("budget", ["smoke", "quick", "full"])
def test_every_cell_has_its_twin_under_the_papers_protocol(name: str, budget: str) -> None:
    (experiment,) = find([name])
    cells = experiment.cells(budget)
    twins = paper_cells(cells)
    assert depends_on_protocol(cells)
    assert len(set(twins)) == len(twins)
    assert {(one.dataset, one.method, one.split, one.alpha) for one in twins} == {
        (one.dataset, one.method, one.split, one.alpha) for one in cells if one.setting in ("synthetic", *BASES)
    }
    for cell in twins:
        assert cell.setting.endswith("@codes") == has_text(cell.dataset)
        assert (cell.method, cell.alpha) in SETTINGS[cell.setting].variants(cell.dataset)
    assert set(select_cells([experiment], budget)) == set(with_paper_cells(cells))


BASES = ("logistic", "logistic-robust", "mlp", "mlp-robust")


@pytest.mark.parametrize("name", ["figure2", "figure6", "table7", "table15", "densities", "multiverse"])
def test_other_experiments_have_one_protocol(name: str) -> None:
    (experiment,) = find([name])
    assert not depends_on_protocol(experiment.cells("full"))
    renderings = experiment.render_protocols(dict.fromkeys(("paper", "last"), pd.DataFrame()))
    assert renderings["paper"] is renderings["last"]


@needs_records
def test_records_under_the_papers_protocol_are_those_of_the_best_epoch(records: pd.DataFrame) -> None:
    frames = records_by_protocol(records)
    assert frames["last"] is records
    own = frames["paper"]
    assert not own["id"].duplicated().any()
    by_id = records.set_index("id")
    for base in (*BASES, "synthetic"):
        part = own[own["setting"] == base]
        metric = "robust_accuracy" if base.endswith("robust") else "accuracy"
        np.testing.assert_array_equal(part[metric], by_id["validation/cv"].reindex(part["id"]))
        readings = part["id"].str.extract(r"@(\w+)/")[0]
        assert (readings == part["dataset"].map(lambda name: "codes" if has_text(name) else "ours").to_numpy()).all()
    others = records[~records["setting"].str.contains("@") & ~records["setting"].isin([*BASES, "synthetic"])]
    assert set(others["id"]) <= set(own["id"])
    generative = own[own["method"].eq("generative-gm") & own["setting"].eq("logistic")]
    assert len(generative)
    assert generative["train_accuracy"].notna().all()


@needs_data
@needs_records
@pytest.mark.parametrize("dataset", ["61", "830"])
def test_from_paper_gives_the_values_of_the_papers_protocol(records: pd.DataFrame, dataset: str) -> None:
    data = load_split(dataset, 0, DATA)
    model = MixupClassifier.from_paper(random_state=0).fit(data.X, data.y)
    accuracy = 100.0 * score(model, data.X_test, data.y_test)["accuracy"]
    cell = Cell("logistic@ours", dataset, "mixup", 0, 0)
    recorded = records.set_index("id").loc[cell.id, "validation/cv"]
    assert accuracy == pytest.approx(recorded, abs=100.0 / len(data.y_test) + 0.01)  # a row on another machine


@pytest.mark.parametrize("setting", ["logistic", "logistic-robust", "mlp"])
def test_settings_of_the_last_epoch_say_so(setting: str) -> None:
    for method, alpha in SETTINGS[setting].variants("61"):
        model = SETTINGS[setting].describe("61", (method, alpha))["classifier"]
        assert not getattr(getattr(model, "search", None), "restore_best", False)
    assert MixupClassifier.from_paper().search.restore_best


def test_protocol_without_records() -> None:
    assert under_protocol(pd.DataFrame(), PAPER).empty
    assert under_protocol(pd.DataFrame(), LAST).empty


def test_rule_of_the_paper_chooses_the_low_dimensional_datasets() -> None:
    chosen, left_out = low_dimensional_datasets(), reasons_to_leave_out()
    assert set(chosen) | set(left_out) == set(manifest().index)
    assert not set(chosen) & set(left_out)
    lines = manifest().loc[chosen]
    assert (lines["d"] <= 20).all()
    assert (lines["n"] < 5000).all()
    for name, reason in left_out.items():
        line = manifest().loc[name]
        assert name == "223" or pd.isna(line["n"]) or line["d"] > 20 or line["n"] >= 5000
        assert reason
    assert len(low_dimensional_datasets(classes=3)) == 38  # as many as in the paper's figure 3
    for experiment in find(["table2", "table3", "figure5", "figure9"]):
        assert {cell.dataset for cell in experiment.cells("full")} == set(chosen)
    assert {cell.dataset for cell in find(["figure3"])[0].cells("full")} == set(low_dimensional_datasets(classes=3))


@needs_data
def test_copies_have_the_same_rows_and_classes() -> None:
    assert copies() == {"948": "772", "1005": "996", "1413": "61", "1500": "1499"}
    for name, origin in copies().items():
        tables = [load_openml(int(one), DATA) for one in (name, origin)]
        rows = [sorted(map(tuple, table.X.to_numpy(dtype=float).tolist())) for table in tables]
        assert rows[0] == rows[1]
        assert sorted(tables[0].y.value_counts()) == sorted(tables[1].y.value_counts())


@needs_data
def test_manifest_equals_the_cache() -> None:
    catalog = pd.read_csv(DATA / "manifest.csv", dtype={"id": str}, index_col="id")
    known = manifest()[manifest()["n"].notna()]
    assert set(known.index) == set(catalog.index)
    assert (known["n"] == catalog["n"].reindex(known.index)).all()
    assert (known["d"] == catalog["d"].reindex(known.index)).all()
    for dataset in ("4", "504", "1558", "48"):
        table = load_openml(int(dataset), DATA)
        assert (len(table.X), table.X.shape[1], table.y.nunique()) == tuple(known.loc[dataset, ["n", "d", "k"]])
        is_text = any(not pd.api.types.is_numeric_dtype(kind) for kind in table.X.dtypes)
        assert is_text == has_text(dataset)


@pytest.mark.parametrize("dataset", ["1038", "1166"])
def test_datasets_outside_of_the_cache_run_on_request(dataset: str) -> None:
    (experiment,) = find(["table9"])
    assert dataset not in {cell.dataset for cell in experiment.cells("full")}
    cells = select_cells([experiment], "full", [dataset])
    assert {cell.setting for cell in cells} == {"mlp-robust", "mlp-robust@ours"}


@pytest.mark.parametrize(
    ("dataset", "method", "gamma"),
    [("circle", "genlabel-kde", 0.8), ("cube-3d", "genlabel-gm", 0.8), ("moon", "genlabel-kde", 1.0),
     ("cube-2d", "genlabel-gm", 1.0), ("two-circle", "genlabel-kde", 1.0)],
)  # fmt: skip
def test_synthetic_datasets_have_the_gamma_of_table_10(dataset: str, method: str, gamma: float) -> None:
    model = SETTINGS["synthetic"].describe(dataset, (method, 1.0))["classifier"]
    assert model.gamma == gamma
    for seed in (0, 1):
        cell = Cell("synthetic", dataset, method, 0, seed)
        assert cell in find(["table1"])[0].cells("full")
    assert fingerprint_cell(cell)


def test_boundary_attack_is_beside_fgsm_in_table_6() -> None:
    (experiment,) = find(["table6"])
    cells = [cell for cell in experiment.cells("full") if cell.setting == "logistic-boundary"]
    assert {cell.dataset for cell in cells} == {"223", "346", "952", "988"}
    assert not paper_cells(cells)
    assert len({fingerprint_cell(cell) for cell in cells}) == 6  # three methods, with and without a rounded target
    rows = [cell.fields | {"robust_accuracy": 50.0} for cell in cells]
    assert "boundary" in experiment.render(pd.DataFrame(rows)).grids[-1].title
