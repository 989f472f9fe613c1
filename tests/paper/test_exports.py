"""Exports of records: small, a line for each group, rounded once, with missing rows and unusual values."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genlabel.evaluation.records import open_store
from genlabel.evaluation.records.schema import COMPARISON, Fit
from genlabel.evaluation.records.schema import make_frame as frame_of
from genlabel_paper.exports import export_records as export
from genlabel_paper.exports import load_records as load
from genlabel_paper.runs.cells import BUDGETS, PAPER_SCHEMA, Cell, make_cells

export_records, load_records = partial(export, schema=PAPER_SCHEMA), partial(load, schema=PAPER_SCHEMA)
make_frame = partial(frame_of, schema=PAPER_SCHEMA)
VERSIONS = {"genlabel": "0.1", "torch": "2", "python": "3.11"}


def row(cell: Cell, parameters: Mapping[str, Any] | None = None, **metrics: float) -> dict[str, Any]:
    key = cell.fields | {"id": cell.id, "seconds": 0.25}
    return key | {
        "parameters": dict(parameters or {}),
        "versions": VERSIONS,
        "metrics": metrics,
        "fingerprint": "today",
    }


def read_records(path: Path) -> pd.DataFrame:
    return load_records(path).frame


def lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line.startswith('{"cells"')]


cells = st.builds(
    Cell,
    setting=st.sampled_from(["logistic", "synthetic"]),
    dataset=st.sampled_from(["61", "cube-2d", "ü"]),
    method=st.sampled_from(["mixup", "vanilla"]),
    split=st.integers(0, 2),
    seed=st.integers(0, 4),
    alpha=st.sampled_from([0.5, 1.0]),
)
single = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.text(max_size=3)
rows = st.builds(
    lambda key, seconds, **parts: key.fields | {"id": key.id, "seconds": seconds / 8} | parts,
    key=cells,
    seconds=st.integers(0, 9),
    parameters=st.dictionaries(st.sampled_from(["gamma", "density"]), single),
    versions=st.sampled_from([VERSIONS, VERSIONS | {"torch": "3"}, {}]),
    fingerprint=st.sampled_from(["then", "now"]),
    metrics=st.dictionaries(st.sampled_from([*PAPER_SCHEMA.metrics, "brier"]), st.floats(-100, 100)),
)


@given(st.lists(rows, max_size=25, unique_by=lambda made: made["id"]))
def test_export_equals_the_rounded_frame(tmp_path_factory: pytest.TempPathFactory, made: list[dict[str, Any]]) -> None:
    path = tmp_path_factory.mktemp("export") / "deep" / "e.json"
    frame = make_frame(made)
    export_records(frame, path)
    result = read_records(path)
    exact = [name for name in frame if name != "seconds" and frame[name].dtype != "float64"]
    pd.testing.assert_frame_equal(result[exact], frame[exact])
    for name in frame.columns[11:]:
        if name not in result:
            assert frame[name].isna().all()
            continue
        tolerance = 5.01e-6 if name.endswith("accuracy") else 5.01e-5
        np.testing.assert_allclose(result[name], frame[name], rtol=0, atol=tolerance)
    keys = ["setting", "dataset", "method", "alpha"]
    pd.testing.assert_series_equal(frame.groupby(keys)["seconds"].sum(), result.groupby(keys)["seconds"].sum())
    before = path.read_bytes()
    export_records(result, path)
    assert path.read_bytes() == before


def test_parameter_types_and_missing_rows_survive(tmp_path: Path) -> None:
    trials = [(0, 0), (0, 2), (3, 1)]
    values: list[Any] = [{"gamma": 1}, {"gamma": 1.0, "density": None}, {"gamma": True, "sizes": [4, 5]}]
    made = [
        row(Cell("s", "61", "mixup", *trial), value, accuracy=0.9) for trial, value in zip(trials, values, strict=True)
    ]
    made[2]["metrics"] = {"log_loss": 0.5}
    export_records(make_frame(made), tmp_path / "e.json")
    (line,) = lines(tmp_path / "e.json")
    group = json.loads(line.rstrip(","))
    assert group["metrics"] == {
        "accuracy": [0.9, None, 0.9, None, None, None],
        "log_loss": [None, None, None, None, 0.5, None],
    }
    assert group["version"] == [0, None, 0, None, 0, None]
    result = read_records(tmp_path / "e.json")
    assert result[["split", "seed"]].to_numpy().tolist() == [list(trial) for trial in trials]
    assert [repr(value) for value in result["parameters"]] == [
        "{'gamma': 1}",
        "{'density': None, 'gamma': 1.0}",
        "{'gamma': True, 'sizes': [4, 5]}",
    ]


@pytest.mark.parametrize(
    "metric, value, rounded",
    [
        ("accuracy", 0.9381443, 0.93814),
        ("judged_one", 0.85925926, 0.859259),
        ("robust_accuracy", 0.0000012, 0.0),
        ("log_loss", 12.345678, 12.3457),
        ("log_loss", 0.12345678, 0.1235),
        ("log_loss", 0.0012345678, 0.001235),
        ("log_loss", 0.0, 0.0),
    ],
)
def test_metrics_are_rounded(tmp_path: Path, metric: str, value: float, rounded: float) -> None:
    export_records(make_frame([row(Cell("s", "61", "mixup", 0, 0), **{metric: value})]), tmp_path / "e.json")
    assert read_records(tmp_path / "e.json")[metric].item() == rounded


def test_full_export_is_small_and_an_edit_changes_one_line(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    methods = [f"genlabel-{number}" for number in range(12)]
    made = [
        row(
            cell,
            {"gamma": float(rng.integers(5) / 4), "learning_rate": float(rng.choice([0.001, 0.01, 0.1]))}
            | {"density": str(rng.choice(["gaussian", "kernel"]))},
            accuracy=rng.uniform(0.5, 1),
            log_loss=rng.uniform(),
            robust_accuracy=rng.uniform(0, 0.5),
        )
        for cell in make_cells("logistic", list(map(str, range(1000, 1131))), methods, "full")
    ]
    assert len(made) == 131 * 12 * BUDGETS["full"].splits * BUDGETS["full"].seeds
    export_records(make_frame(made), tmp_path / "e.json")
    assert (tmp_path / "e.json").stat().st_size < 1_500_000
    before = (tmp_path / "e.json").read_text().splitlines()
    header = json.loads("\n".join(before))
    assert header["seconds"] == len(made) / 4
    assert (header["versions"], header["lists"]) == ([VERSIONS], {"split": [0, 1, 2], "seed": [0, 1, 2, 3, 4]})
    assert len(lines(tmp_path / "e.json")) == 131 * 12
    made[777]["metrics"]["accuracy"] = 0.123
    export_records(make_frame(made), tmp_path / "e.json")
    after = (tmp_path / "e.json").read_text().splitlines()
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 1


def test_records_are_read_from_a_store_an_export_and_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    path = tmp_path / "study.sqlite"
    with open_store(path, PAPER_SCHEMA) as store:
        for setting in ("a", "b"):
            cell = Cell(setting, "61", "mixup", 0, 0)
            metrics = {"accuracy": 0.905} if setting == "a" else {"brier": 0.5}
            record = {"key": cell, "parameters": {}, "metrics": metrics, "seconds": 0.5, "versions": VERSIONS}
            store.write([record], {cell.id: "today"})
        saved = store.read().frame
    whole = read_records(path)
    pd.testing.assert_frame_equal(whole, saved)
    for setting in ("a", "b"):
        export_records(whole[whole["setting"] == setting], folder / f"{setting}.json")
    assert read_records(folder / "a.json")["setting"].tolist() == ["a"]
    pd.testing.assert_frame_equal(read_records(folder), whole)
    export_records(whole, folder / "c.json")
    with pytest.raises(ValueError, match=r"a\.json"):
        read_records(folder)


@pytest.mark.parametrize(
    "name, text, keyword",
    [
        ("none.json", None, "none.json"),
        ("none.sqlite", None, "none.sqlite"),
        ("x.csv", "", "csv"),
        ("x.json", "{", "JSON"),
        ("x.json", "[1]", "export"),
        ("x.json", '{"genlabel records": 99}', "99"),
        ("x.json", '{"genlabel records": 3, "study": "benchmark"}', "benchmark"),
        (".", None, "folder"),
    ],
)
def test_unreadable_files_are_errors(tmp_path: Path, name: str, text: str | None, keyword: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises((ValueError, FileNotFoundError), match=keyword):
        read_records(tmp_path / name)


def test_duplicate_cells_are_refused(tmp_path: Path) -> None:
    frame = make_frame([row(Cell("s", "61", "mixup", 0, 0))] * 2)
    with pytest.raises(ValueError, match="twice"):
        export_records(frame, tmp_path / "e.json")
    assert not (tmp_path / "e.json").exists()


def test_single_fits_keep_seconds_and_facts(tmp_path: Path) -> None:
    fits = [Fit("iris", "mixup", split) for split in range(3)]
    made = [
        fit.fields
        | {"id": fit.id, "seconds": 1.23456789 * (fit.split + 1), "parameters": {"average": [0.5, fit.split]}}
        | {"versions": VERSIONS, "fingerprint": "today", "metrics": {}, "facts": {"warnings": {"rare": fit.split}}}
        for fit in fits
    ]
    frame = frame_of(made, COMPARISON)
    export(frame, tmp_path / "e.json", COMPARISON, {"epochs": 5})
    result = load(tmp_path / "e.json", COMPARISON)
    assert result.frame["seconds"].tolist() == [1.234568, 2.469136, 3.703704]
    assert result.settings == {"epochs": 5}
    for name in ("parameters", "warnings"):
        assert result.frame[name].tolist() == frame[name].tolist()
    pd.testing.assert_frame_equal(result.requested, frame[list(COMPARISON.fields)])
