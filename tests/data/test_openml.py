"""Test datasets of an OpenML cache: equal to scikit-learn, unchanged files, and errors."""

import gzip
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any
from urllib.error import URLError

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.utils import Bunch
from typer.testing import CliRunner

from genlabel.cli import app
from genlabel.data.datasets import list_tables, load_openml
from genlabel.data.datasets.catalog import find_source, openml_manifest

MIRROR = Path(__file__).parents[3] / "shared" / "data" / "openml_mirror"
needs_mirror = pytest.mark.skipif(not MIRROR.is_dir(), reason="needs a cache of OpenML in ../shared/data/openml_mirror")
FOLDER = Path("openml", "openml.org")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(text)


def make_set(home: Path, number: int, rows: list[str], kinds: dict[str, str], target: str, **changes: Any) -> None:
    """Write a dataset to a cache in the layout of scikit-learn."""
    header = "".join(f"@ATTRIBUTE {name} {kind}\n" for name, kind in kinds.items())
    arff = f"@RELATION t\n{header}@DATA\n" + "\n".join(rows) + "\n"
    url = f"https://www.openml.org/data/v1/download/{number}"
    description = {"id": str(number), "name": "made", "version": "1", "description": "", "format": "ARFF", "url": url}
    description |= {"file_id": str(number), "visibility": "public", "status": "active", "processing_date": ""}
    description |= {"md5_checksum": hashlib.md5(arff.encode()).hexdigest(), "default_target_attribute": target}
    features = [
        {
            "index": str(index),
            "name": name,
            "data_type": "numeric" if kind == "NUMERIC" else "nominal",
            "is_target": str(name in target.split(",")).lower(),
            "is_ignore": "false",
            "is_row_identifier": "false",
            "number_of_missing_values": str(sum(row.split(",")[index] == "?" for row in rows)),
        }
        for index, (name, kind) in enumerate(kinds.items())
    ]
    folder = home / FOLDER / "api/v1/json/data"
    write(folder / f"{number}.gz", json.dumps({"data_set_description": description | changes}))
    write(folder / f"features/{number}.gz", json.dumps({"data_features": {"feature": features}}))
    qualities = [{"name": "NumberOfInstances", "value": str(len(rows))}]
    write(folder / f"qualities/{number}.gz", json.dumps({"data_qualities": {"quality": qualities}}))
    write(home / FOLDER / f"data/v1/download/{number}.gz", arff)


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return the bytes and the modification time of every file."""
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise URLError("no network")

    monkeypatch.setattr("sklearn.datasets._openml.urlopen", refuse)
    monkeypatch.setattr("sklearn.datasets._openml.time.sleep", lambda _: None)


KINDS = {"x": "NUMERIC", "code": "{1,2}", "class": "{yes,no}"}


def test_declared_column_types_are_used_and_unlabeled_rows_are_dropped(tmp_path: Path, offline: None) -> None:
    make_set(tmp_path, 7, ["1.5,1,yes", "?,2,no", "3,?,?", "4,1,no"], KINDS, "class")
    table = load_openml(7, tmp_path)
    assert table.name == "made"
    assert table.y.tolist() == ["yes", "no", "no"]
    assert table.X.columns.tolist() == ["x", "code"]
    np.testing.assert_array_equal(table.X["x"].astype(float), [1.5, np.nan, 4.0])
    assert table.X["code"].tolist() == ["1", "2", "1"]
    assert table.notes == ["rows dropped because 'class' is missing: 1"]
    assert table.X.index.equals(table.y.index)


def test_the_environment_names_the_cache(tmp_path: Path, offline: None, monkeypatch: pytest.MonkeyPatch) -> None:
    make_set(tmp_path, 7, ["1,1,yes", "2,2,no"], KINDS, "class")
    monkeypatch.setenv("GENLABEL_DATA_HOME", str(tmp_path))
    assert len(load_openml(7).X) == 2


def test_numeric_classes_are_integers(tmp_path: Path, offline: None) -> None:
    make_set(tmp_path, 7, ["1.5,0", "2,1", "3,1"], {"x": "NUMERIC", "y": "NUMERIC"}, "y")
    assert load_openml(7, tmp_path).y.tolist() == ["0", "1", "1"]


@pytest.mark.parametrize(
    "rows, kinds, target, message",
    [
        (
            [f"1,{i}" for i in range(30)],
            {"x": "NUMERIC", "y": "NUMERIC"},
            "y",
            "regression",
        ),
        (["1,1,no", "2,2,no"], KINDS, "class", "one class"),
        (["1,1,yes", "2,2,no"], KINDS, "code,class", "targets"),
        (["1,1,yes", "2,2,no"], KINDS, "", "targets"),
        (["yes", "no"], {"class": "{yes,no}"}, "class", "features"),
    ],
)
def test_datasets_without_classes_are_errors(
    tmp_path: Path, offline: None, rows: list[str], kinds: dict[str, str], target: str, message: str
) -> None:
    make_set(tmp_path, 7, rows, kinds, target)
    with pytest.raises(ValueError, match=message):
        load_openml(7, tmp_path)


def test_a_dataset_that_is_not_available(tmp_path: Path, offline: None) -> None:
    with pytest.raises(OSError, match="GENLABEL_DATA_HOME"):
        load_openml(7, tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("broken", ["data/v1/download/7.gz", "api/v1/json/data/7.gz", "api/v1/json/data/features/7.gz"])
@pytest.mark.parametrize("damage", ["half", "text", "other"])
def test_a_damaged_cache_is_an_error_and_is_unchanged(tmp_path: Path, offline: None, broken: str, damage: str) -> None:
    make_set(tmp_path, 7, ["1,1,yes", "2,2,no"], KINDS, "class")
    path = tmp_path / FOLDER / broken
    if damage == "half":
        path.write_bytes(path.read_bytes()[:-9])
    elif damage == "text":
        path.write_text("<html>")
    else:
        write(path, "[]")
    before = contents(tmp_path)
    with pytest.raises(ValueError, match="read"):
        load_openml(7, tmp_path)
    assert contents(tmp_path) == before


def test_a_cache_cannot_name_files_outside_of_it(tmp_path: Path, offline: None) -> None:
    home = tmp_path / "a" / "b" / "home"
    make_set(home, 7, ["1,1,yes", "2,2,no"], KINDS, "class", url="https://www.openml.org/../../../secret")
    write(home.parent / "secret.gz", "secret")
    before = contents(tmp_path)
    with pytest.raises(ValueError, match="cache"):
        load_openml(7, home)
    assert contents(tmp_path) == before


def test_downloads_are_added_to_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, home = tmp_path / "source", tmp_path / "home"
    make_set(source, 7, ["1,1,yes", "2,2,no"], KINDS, "class")
    frame = pd.DataFrame({"x": [1.0, 2.0], "class": ["yes", "no"]})

    def download(data_id: int, data_home: str, **_: Any) -> Bunch:
        shutil.copytree(source, data_home, dirs_exist_ok=True)
        return Bunch(frame=frame, details={"name": "made"})

    monkeypatch.setattr("sklearn.datasets.fetch_openml", download)
    assert load_openml(7, home).y.tolist() == ["yes", "no"]
    saved = {path.relative_to(home): path.read_bytes() for path in home.rglob("*") if path.is_file()}
    assert saved == {path.relative_to(source): path.read_bytes() for path in source.rglob("*.gz")}


def test_manifest(tmp_path: Path) -> None:
    assert openml_manifest(tmp_path) is None
    (tmp_path / "manifest.csv").write_text("id,name,n,d,k,status,group,note\n61,iris,150,4,3,exact,A,\n")
    manifest = openml_manifest(tmp_path)
    assert manifest is not None
    assert manifest["id"].tolist() == [61]
    (tmp_path / "manifest.csv").write_text("id,name\n61,iris\n")
    with pytest.raises(ValueError, match="column"):
        openml_manifest(tmp_path)


@needs_mirror
def test_mirror_datasets_load_without_changing_a_file(offline: None) -> None:
    manifest = openml_manifest(MIRROR)
    assert manifest is not None
    before = contents(MIRROR)
    for number in (61, 48, 187):
        table = load_openml(number, MIRROR)
        row = manifest.set_index("id").loc[number]
        assert (*table.X.shape, str(table.y.nunique())) == (row["n"], row["d"], str(row["k"]))
        assert table.name == row["name"]
    # Two rows of the old UCI file differ from Fisher's, which scikit-learn has.
    assert (load_openml(61, MIRROR).X.to_numpy() == load_iris().data).mean() > 0.99
    assert contents(MIRROR) == before


def test_commands_list_and_load_cached_datasets(tmp_path: Path, offline: None, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    y = rng.permutation(60) % 2
    rows = [f"{c + rng.normal():.3f},{rng.choice([1, 2])},{'yes' if c else 'no'}" for c in y]
    make_set(tmp_path, 7, rows, KINDS, "class")
    pd.DataFrame(
        {
            "id": [7, 8, 9],
            "name": ["made", "twin", "twin"],
            "n": 60,
            "d": 2,
            "k": [2, 3, "regression"],
            "group": ["BE*", "F", "A"],
        }
    ).to_csv(tmp_path / "manifest.csv", index=False)
    monkeypatch.setenv("GENLABEL_DATA_HOME", str(tmp_path))

    def invoke(*words: str) -> Any:
        return CliRunner().invoke(app, list(words), prog_name="genlabel")

    tables = json.loads(invoke("datasets", "--json").stdout)
    assert {"iris", "two-circle", "openml:7"} <= {table["name"] for table in tables}
    assert all(find_source(table["name"])[1] is None for table in tables)
    (row,) = json.loads(invoke("datasets", "--json", "--search", "MADE").stdout)
    assert (row["rows"], row["classes"], row["paper"]) == (60, "2", "Table 1, Table 9")
    assert "2 tables" in invoke("datasets", "--search", "twin").stdout
    assert find_source("openml:made") == find_source("OpenML:7") == ("openml-7", None)
    for wrong, messages in (("openml:twin", "'8', '9'"), ("openml:none", "not an available")):
        with pytest.raises(ValueError, match=messages):
            find_source(wrong)
    folder = str(tmp_path / "m")
    fast = ["--method", "vanilla", "--epochs", "2", "--test-size", "0"]
    assert invoke("fit", "openml:made", "-o", folder, *fast).exit_code == 0
    (tmp_path / "new.csv").write_text("code,x\n1,0.5\n2,1.5\n")  # codes of a nominal column, which look like numbers
    result = invoke("predict", folder, str(tmp_path / "new.csv"))
    assert result.exit_code == 0, result.output
    assert "note" not in result.stderr


def test_without_a_manifest_the_other_tables_are_listed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GENLABEL_DATA_HOME", str(tmp_path))
    result = CliRunner().invoke(app, ["datasets"], prog_name="genlabel")
    assert "GENLABEL_DATA_HOME" in result.stdout
    assert "genlabel compare iris" in result.stdout


def test_a_cache_without_a_manifest_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_set(tmp_path, 12, ["1,1,yes", "2,2,no", "4,2,no"], KINDS, "class")
    make_set(tmp_path, 7, ["1,1,yes", "2,2,no"], KINDS, "x", name="price")
    write(tmp_path / FOLDER / "api/v1/json/data/99.gz", "{}")  # damaged
    monkeypatch.setenv("GENLABEL_DATA_HOME", str(tmp_path))
    listed = list_tables().set_index("name")
    assert [name for name in listed.index if name.startswith("openml:")] == ["openml:7", "openml:12"]
    assert listed.loc["openml:12", ["title", "rows", "columns"]].tolist() == ["made", 3, 2]
    assert listed.loc["openml:7", "classes"] == "regression"
    assert find_source("openml:made")[0] == "openml-12"
    (tmp_path / "manifest.csv").write_text("id,name,n,d,k\n12,mine,3,2,2\n")
    assert list_tables().set_index("name").loc[["openml:12", "openml:7"], "title"].tolist() == ["mine", "price"]
    output = CliRunner().invoke(app, ["datasets", "--search", "price"]).output
    assert "openml:7" in output
    assert "none is local" not in output
