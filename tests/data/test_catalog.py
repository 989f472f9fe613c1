"""Named tables and files: accepted and rejected input, and preprocessing fitted on training rows only."""

import datetime
import decimal
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn import datasets as embedded
from sklearn.dummy import DummyClassifier

from genlabel.data.datasets import load_table
from genlabel.data.datasets.catalog import EMBEDDED, find_source
from genlabel.data.datasets.synthetic import SYNTHETIC
from genlabel.data.tables import table_pipeline


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def mixed_frame() -> pd.DataFrame:
    """Every kind of column, with missing values in each of them."""
    return pd.DataFrame(
        {
            "number": [1.0, 2.0, np.nan, 8.0] * 5,
            "whole": pd.array([1, 2, None, 3] * 5, dtype="Int64"),
            "flag": [True, False, None, True] * 5,
            "nullable": pd.array([True, None, False, True] * 5, dtype="boolean"),
            "price": [decimal.Decimal("1.5"), None, decimal.Decimal(2), decimal.Decimal(3)] * 5,
            "color": ["red", "green", None, "blue"] * 5,
            "kind": pd.Categorical(["u", "v", "u", None] * 5),
            "day": [datetime.date(2024, 5, 31)] * 20,
            "moment": pd.Timestamp("2024-05-31 12:00"),
            "label": ["yes", "no", None, "no"] * 5,
        }
    )


@pytest.mark.parametrize("name", EMBEDDED)
def test_embedded_datasets_equal_scikit_learn(name: str) -> None:
    table = load_table(name)
    X, y = getattr(embedded, f"load_{name}")(return_X_y=True)
    np.testing.assert_array_equal(table.X.to_numpy(), X)
    assert pd.crosstab(table.y, y).gt(0).sum().eq(1).all()  # the names of the classes are one-to-one
    assert table.name == name
    assert table.notes == []


@pytest.mark.parametrize("name", SYNTHETIC)
def test_synthetic_datasets_by_name(name: str) -> None:
    table = load_table(name, random_state=3)
    X, y = SYNTHETIC[name](random_state=3)
    np.testing.assert_array_equal(table.X.to_numpy(), X)
    np.testing.assert_array_equal(table.y.to_numpy(), y)
    assert "random_state=3" in table.notes[0]


@pytest.mark.parametrize("suffix", [".csv", ".CSV", ".tsv"])
def test_text_file_round_trip(tmp_path: Path, suffix: str) -> None:
    frame = pd.DataFrame({"a": [1.5, 2.5, 3.5], "b": ["x", None, "z, too"], "label": ["p", "q", "p"]})
    path = tmp_path / f"my{suffix}"
    frame.to_csv(path, sep="\t" if suffix == ".tsv" else ",", index=False)
    table = load_table(path, "label")
    pd.testing.assert_frame_equal(table.X, frame[["a", "b"]].where(frame[["a", "b"]].notna()))
    assert table.y.tolist() == ["p", "q", "p"]
    tabs = ["the file was read with tabs between values"] if suffix == ".tsv" else []
    assert (table.name, table.notes) == ("my", tabs)
    assert [(column.name, column.kind) for column in table.columns] == [("a", "number"), ("b", "text")]


def test_semicolons_allow_decimal_commas(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.5, -2.25, 3e-7], "b": [1, 2, 3], "y": list("pqp")})
    frame.to_csv(tmp_path / "t.csv", sep=";", decimal=",", index=False)
    pd.testing.assert_frame_equal(load_table(tmp_path / "t.csv", "y").X, frame[["a", "b"]])
    tabs = write(tmp_path / "tabs.csv", "a\tb\ty\n1.5\t2\tp\n2.5\t3\tq\n")
    assert load_table(tabs, "y").X.to_numpy().tolist() == [[1.5, 2.0], [2.5, 3.0]]


def test_strings_among_numbers_are_missing_and_ids_are_dropped(tmp_path: Path) -> None:
    n = 60
    numbers = ["?" if i == 7 else f"{i / 4}" for i in range(n)]
    frame = pd.DataFrame({"a": numbers, "uuid": [f"u{i:04}x" for i in range(n)], "y": ["p", "q"] * 30})
    frame.to_csv(tmp_path / "t.csv", index=False)
    table = load_table(tmp_path / "t.csv", "y")
    assert table.X.columns.tolist() == ["a"]
    assert np.isnan(table.X["a"][7])
    assert table.X["a"][8] == 2.0
    assert table.notes == [
        "left out column 'uuid': 100 % of its values occur in one row only, so it looks like an identifier",
        "values of 'a' that are not numbers and count as missing: 1 ('?' in row 7, counted from 0)",
    ]


def test_names_accept_dash_and_underscore() -> None:
    assert load_table("two_circle").name == "two-circle"
    assert load_table("Breast-Cancer").name == "breast_cancer"


@pytest.mark.parametrize("suffix", [".parquet", ".pq"])
def test_parquet_round_trip(tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("pyarrow")
    frame = mixed_frame()
    frame.to_parquet(tmp_path / f"t{suffix}")
    table = load_table(str(tmp_path / f"t{suffix}"), "label")
    assert table.X.columns.tolist() == ["number", "whole", "flag", "nullable", "price", "color", "kind"]
    assert table.y.tolist() == ["yes", "no", "no"] * 5
    kinds = ["number", "number", "boolean", "boolean", "number", "text", "text", "date", "date"]
    assert [column.kind for column in table.columns] == kinds
    assert table.notes == [
        "rows dropped because 'label' is missing: 5",
        "left out column 'day': it has a single value",
        "left out column 'moment': it has a single value",
    ]


def test_notes_list_changes(tmp_path: Path) -> None:
    mixed_frame().assign(wild=[1.0, -np.inf, 2.0, np.inf] * 5).to_csv(tmp_path / "t.csv")
    table = load_table(tmp_path / "t.csv", "label")
    assert table.notes == [
        "rows dropped because 'label' is missing: 5",
        "left out column 'Unnamed: 0': it is the row number",
        "left out column 'day': it has a single value",
        "left out column 'moment': it has a single value",
        "infinite values of 'wild' that count as missing: 10",
    ]
    assert len(table.X) == len(table.y) == 15
    assert table.X.index.equals(pd.RangeIndex(15))
    assert np.nanmax(table.X["wild"]) == 1.0


@pytest.mark.parametrize(
    "values, labels",
    [
        (["1.0", "2.0", "1.0"], [1, 2, 1]),
        (["0.5", "1.5", "0.5"], ["0.5", "1.5", "0.5"]),
        (["True", "False", "True"], ["True", "False", "True"]),
        (["7", "9", "7"], [7, 9, 7]),
    ],
)
def test_labels_become_integers_or_strings(tmp_path: Path, values: list[str], labels: list[object]) -> None:
    rows = "\n".join(f"{i},{value}" for i, value in enumerate(values))
    assert load_table(write(tmp_path / "t.csv", f"a,y\n{rows}\n"), "y").y.tolist() == labels


CONTINUOUS = "a,y\n" + "\n".join(f"{i},{i / 7:.4f}" for i in range(60))
IDENTIFIER = "a,y\n" + "\n".join(f"{i},id{i}" for i in range(60))


@pytest.mark.parametrize(
    "name, content, target, message",
    [
        ("t.csv", "", "y", "empty"),
        ("t.csv", "a,y\n", "y", "rows"),
        ("t.csv", "a,y\n1,p\n2,q,3\n", "y", "line 3"),
        ("t.csv", "a,y\n1,p,3\n2,q,3\n", "y", "header"),
        ("t.csv", 'a,y\n"1,p\n', "y", "EOF"),
        ("t.csv", b"\xff\xfea,y", "y", "truncated"),
        ("t.csv", b"a,y\x00\x01\n", "y", "text"),
        ("t.csv.gz", b"\x1f\x8bjunk", "y", "read"),
        ("t.jsonl", '{"a": 1}\n[2]\n', "y", "line 2"),
        ("t.csv", "a,b\n1,2\n", "y", "target='y'"),
        ("t.csv", "a,b\n1,2\n", None, "target="),
        (
            "t.csv",
            CONTINUOUS,
            "y",
            "bins=3",
        ),
        ("t.csv", IDENTIFIER, "y", "identifier"),
        (
            "t.csv",
            "a,y\n1,p\n2,p\n",
            "y",
            "class",
        ),
        ("t.csv", "a,b,a,y\n1,2,3,p\n", "y", "columns"),
        ("t.csv", "y\np\nq\n", "y", "features"),
        ("t.parquet", "junk", "y", "read"),
        ("t.xlsx", "junk", "y", "zip"),
    ],
)
def test_bad_files_raise(tmp_path: Path, name: str, content: str | bytes, target: str | None, message: str) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    if name.endswith("xlsx"):
        pytest.importorskip("openpyxl")
    path = write(tmp_path / name, content)
    with pytest.raises(ValueError, match=message) as caught:
        load_table(path, target)
    assert name in str(caught.value)


def test_long_lists_of_columns_are_cut(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", ",".join(f"c{i}" for i in range(100)) + "\n" + ",".join("1" * 100) + "\n")
    with pytest.raises(ValueError, match="'c29'"):
        load_table(path, "y")


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="irsi") as caught:
        load_table("irsi")
    assert all(f"'{name}'" in str(caught.value) for name in ["irsi", *EMBEDDED, *SYNTHETIC])


@pytest.mark.parametrize("name", ["missing.csv", "some/where"])
def test_missing_file(name: str) -> None:
    with pytest.raises(FileNotFoundError, match=name):
        load_table(name, "y")


def test_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="folder"):
        load_table(tmp_path, "y")


def test_target_is_for_files() -> None:
    with pytest.raises(ValueError, match="target='species'"):
        load_table("iris", "species")


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "t.parquet", "junk")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "fastparquet", None)
    with pytest.raises(ValueError, match="pip"):
        load_table(path, "y")


def test_pipeline_learns_from_the_training_rows_only() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=40), "b": rng.exponential(size=40), "c": ["x"] * 20 + ["y"] * 20})
    X.loc[::3, ["a", "b"]] = np.nan
    pipeline = table_pipeline(X, DummyClassifier()).fit(X[:20], np.arange(20) % 2)
    filled = pipeline[:-1].transform(X)
    medians = np.nanmedian(X[["a", "b"]].to_numpy()[:20], axis=0)
    assert not np.allclose(medians, np.nanmedian(X[["a", "b"]].to_numpy(), axis=0))
    np.testing.assert_array_equal(filled[::3, :2], np.tile(medians, (14, 1)))
    assert filled.shape == (40, 3)  # "y" is not among the training rows and makes no column
    np.testing.assert_array_equal(filled[:, 2], np.repeat([1.0, 0.0], 20))


def test_pipeline_of_every_kind_of_column() -> None:
    X = mixed_frame().drop(columns="label")
    out = table_pipeline(X, "passthrough").fit_transform(X)
    columns = [
        [1, 2, 2, 8],  # number, the median being 2
        [1, 2, 2, 3],  # whole
        [1, 0, 1, 1],  # flag
        [1, 1, 0, 1],  # nullable
        [1.5, 2, 2, 3],  # price
        [0, 0, 1, 0],  # color is missing
        [0, 0, 0, 1],  # blue
        [0, 1, 0, 0],  # green
        [1, 0, 0, 0],  # red
        [0, 0, 0, 1],  # kind is missing
        [1, 0, 1, 0],  # u
        [0, 1, 0, 0],  # v
    ]
    assert out.dtype == np.float64
    np.testing.assert_array_equal(out, np.tile(np.array(columns, dtype=float).T, (5, 1)))


def test_pipeline_gathers_rare_categories() -> None:
    values = [f"often{i}" for i in range(19) for _ in range(3)] + [f"once{i}" for i in range(10)]
    pipeline = table_pipeline(X := pd.DataFrame({"c": values}), "passthrough").fit(X)
    out = pipeline.transform(pd.DataFrame({"c": ["often3", "once1", "never seen", None]}))
    assert out.shape == (4, 20)
    np.testing.assert_array_equal(out.sum(axis=1), 1.0)
    np.testing.assert_array_equal(out[1], out[2])
    assert out[0] @ out[1] == 0.0


def test_pipeline_survives_a_column_without_training_values() -> None:
    X = pd.DataFrame({"a": [np.nan, np.nan, 1.0, 2.0], "b": [1.0, 2.0, 3.0, 4.0]})
    out = table_pipeline(X, "passthrough").fit(X[:2]).transform(X)
    assert np.isfinite(out).all()
    assert out.shape == (4, 2)


def test_columns_without_values_are_left_out_with_a_note(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,y\n1,,p\n2,,q\n")
    table = load_table(path, "y")
    assert table.X.columns.tolist() == ["a"]
    assert table.notes == ["left out column 'b': it has no values"]


def test_find_source_reads_only_the_header(tmp_path: Path) -> None:
    csv = write(tmp_path / "t.csv", "a;b b;label\n1;2;x\nnot;enough\nand;too;many;fields\n")
    assert find_source(csv, "b b") == ("t", "b b")
    with pytest.raises(ValueError, match="'label'"):
        find_source(csv, "Label")
    pytest.importorskip("pyarrow")
    parquet = tmp_path / "t.parquet"
    pd.DataFrame({"a": [1], "label": ["x"]}, index=pd.Index(["row"], name="name")).to_parquet(parquet)
    assert find_source(parquet, "label") == ("t", "label")
    with pytest.raises(ValueError, match="target='name'"):
        find_source(parquet, "name")
    with pytest.raises(ValueError, match="read"):
        find_source(write(tmp_path / "u.parquet", "junk"), "label")
