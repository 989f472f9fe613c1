"""Files of every usual format give the same table, and notes say what is unusual."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from genlabel.data.tables import TableReadSpec, read_frame, read_table
from genlabel.data.tables.files import read_columns, table_name
from genlabel.data.tables.formats import sniff_csv_dialect

FRAME = pd.DataFrame({"größe": [0.5, 1.25, -3.0, np.nan], "town": ["Köln", "Ulm", "Bern", "Graz"], "y": list("pqpq")})
SEPARATORS = {",": "", ";": "semicolons between values", "\t": "tabs between values", "|": "bars between values"}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("separator", SEPARATORS, ids=["comma", "semicolon", "tab", "bar"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_text_of_any_separator_and_encoding(tmp_path: Path, encoding: str, separator: str, packed: bool) -> None:
    content = FRAME.to_csv(sep=separator, index=False).encode(encoding)
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    notes: list[str] = []
    pd.testing.assert_frame_equal(read_frame(path, "y", notes), FRAME)
    assert read_columns(path) == list(FRAME.columns)
    messages = [SEPARATORS[separator], "" if encoding.startswith("utf-8") else f"encoding {encoding}"]
    shown = ", ".join(text for text in messages if text)
    assert notes == ([f"the file was read with {shown}"] if shown else [])
    assert table_name(path) == "t"


@pytest.mark.parametrize(
    "text, separator, decimal",
    [
        ("a;b\n0,5;1\n1,25;2\n", ";", ","),
        ("a;b\n1,234;1\n", ";", ","),
        ("a\tb\n1,234\t1\n", "\t", "."),
        ("a\tb\n1,5\t1\n", "\t", ","),
        ("a;b\n1,5;0.5\n", ";", "."),
        ('a,b\n"x;y;z",1\n"u;v;w",2\n', ",", "."),
        ("a b c\n1 2 3\n4  5 6\n", r"\s+", "."),
        ("only\n1\n2\n", ",", "."),
        ("a,b;c\n1,2;3\n", ",", "."),
    ],
)
def test_separator_and_decimal_mark(text: str, separator: str, decimal: str) -> None:
    result = sniff_csv_dialect(text.encode())
    assert (result.separator, result.decimal) == (separator, decimal)


def write_json(frame: pd.DataFrame, path: Path, lines: bool) -> None:
    rows = [{k: v for k, v in row.items() if v == v} for row in frame.to_dict("records")]
    text = "\n".join(json.dumps(row) for row in rows) if lines else json.dumps(rows)
    path.write_text(text, encoding="utf-8")


def write(frame: pd.DataFrame, path: Path) -> None:
    if path.suffix == ".feather":
        pytest.importorskip("pyarrow")
        frame.to_feather(path)
    elif path.suffix == ".parquet":
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
    elif path.suffix == ".xlsx":
        pytest.importorskip("openpyxl")
        frame.to_excel(path, index=False)
    else:
        write_json(frame, path, path.suffix != ".json")


@pytest.mark.parametrize("suffix", [".feather", ".parquet", ".xlsx", ".jsonl", ".ndjson", ".json"])
@pytest.mark.parametrize("named", [True, False], ids=["by ending", "by content"])
def test_other_formats_give_the_same_table(tmp_path: Path, suffix: str, named: bool) -> None:
    path = tmp_path / f"t{suffix}"
    write(FRAME, path)
    path = path if named else path.rename(tmp_path / "t")
    pd.testing.assert_frame_equal(read_frame(path, "y"), FRAME, check_dtype=False)
    assert read_columns(path) == list(FRAME.columns)


def test_the_first_excel_sheet_is_read_and_a_class_may_be_na(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    frame = pd.DataFrame({"a": [1, 2, 3, 4], "b": ["NA", "u", "v", "u"], "y": ["NA", "p", "NA", "p"]})
    with pd.ExcelWriter(tmp_path / "t.xlsx") as book:
        frame.to_excel(book, sheet_name="first", index=False)
        frame.to_excel(book, sheet_name="second", index=False)
    table = read_table(tmp_path / "t.xlsx", "y")
    assert table.y.tolist() == ["NA", "p", "NA", "p"]
    assert table.X["b"].isna().tolist() == [True, False, False, False]
    assert table.notes[0] == "the first of 2 sheets was read, 'first'"


def test_nested_json_becomes_strings(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"a": [1, 2], "y": "p"}\n\n{"a": {"b": 1}, "y": "q"}\n')
    assert read_frame(tmp_path / "t.jsonl")["a"].tolist() == ["[1, 2]", '{"b": 1}']


@pytest.mark.parametrize(
    "labels, given, missing, classes",
    [
        (["a", "b", "NA", "None"], (), 0, {"a", "b", "NA", "None"}),
        (["a", "b", "NA", "None"], ("NA",), 1, {"a", "b", "None"}),
        (["a", "b", "", "null"], (), 2, {"a", "b"}),
        (["1", "2", "NA", "1"], (), 1, {1, 2}),
        (["1", "2", "-9", "1"], ("-9",), 1, {1, 2}),
        (["01", "02", "01", "02"], (), 0, {"01", "02"}),
    ],
)
def test_which_labels_are_missing(
    tmp_path: Path, labels: list[str], given: tuple[str, ...], missing: int, classes: set[Any]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{i % 3},{label}\n" for i, label in enumerate(labels * 5)))
    table = read_table(path, "y", na_values=given)
    assert len(table.y) == 20 - 5 * missing
    assert set(table.y) == classes
    words = [word for word in ("NA", "None") if word in labels]
    assert sum("--na-values" in note or "counts as missing" in note for note in table.notes) == len(
        [word for word in words if word not in given]
    )


def test_na_values_apply_to_every_column(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("n,t,y\n-999,red,p\n1.5,?,q\n-999.0,blue,p\n2.5,?,q\n")
    table = read_table(path, "y", na_values=["-999", "?"])
    assert table.X.isna().to_numpy().tolist() == [[True, False], [False, True], [True, False], [False, True]]


@pytest.mark.parametrize(
    "text",
    ["a, town ,y \n1.5, Ulm ,p \n2.5,Ulm, q\n", 'a, "town", "y"\n1.5, "Ulm", "p"\n2.5, "Ulm ", "q"\n'],
    ids=["plain", "quoted"],
)
def test_surrounding_spaces_are_ignored(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    table = read_table(tmp_path / "t.csv", "y", force_include=["town"])
    assert read_columns(tmp_path / "t.csv") == ["a", "town", "y"]
    assert table.X["a"].tolist() == [1.5, 2.5]
    assert table.X["town"].tolist() == ["Ulm", "Ulm"]
    assert table.y.tolist() == ["p", "q"]
    new = TableReadSpec.of(table).read(tmp_path / "t.csv")
    assert TableReadSpec.of(table).classes_of(new, np.array(["p", "q"])).tolist() == [0, 1]


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "empty"),
        ("\n \n", "empty"),
        ("a,y\n1,p\n2,q,r\n", "line 3"),
    ],
    ids=["empty", "blank", "ragged"],
)
def test_text_files_without_a_table(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / "t.csv", "y")


def test_a_file_without_column_names_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("5.1,3.5,0\n4.9,3.0,1\n")
    with pytest.raises(ValueError, match="first line"):
        read_table(tmp_path / "t.csv", "y")


@pytest.mark.parametrize(
    "option, given, message",
    [
        ("drop", ["twon"], "did you mean 'town'"),
        ("force_include", ["zzz"], "force_include='zzz'"),
        ("groups", "Town", "did you mean 'town'"),
        ("time", "town", "neither dates nor numbers"),
        ("time", "y", "time='y'"),
        ("drop", ["y"], "drop='y'"),
    ],
)
def test_unknown_columns_are_errors(tmp_path: Path, option: str, given: Any, message: str) -> None:
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / "t.csv", "y", **{option: given})


@pytest.mark.parametrize("ending", [".parquet", ".feather"])
def test_lists_and_objects_become_json_strings(ending: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"l": [[1, 2], [], None], "o": [{"a": 1.5}, {"a": None}, {"a": 2.0}], "n": [1, 2, 3]})
    getattr(frame, f"to_{ending[1:]}")(tmp_path / f"t{ending}")
    result = read_frame(tmp_path / f"t{ending}")
    assert result["l"].tolist()[:2] == ["[1, 2]", "[]"]
    assert result["l"].isna().tolist() == [False, False, True]
    assert result["o"].tolist() == ['{"a": 1.5}', '{"a": null}', '{"a": 2.0}']
    assert result["n"].tolist() == [1, 2, 3]


def test_a_feather_file_with_offsets_beyond_its_memory_is_an_error(tmp_path: Path) -> None:
    """Arrow takes the offsets of strings from the file, and would read one that is far away."""
    pytest.importorskip("pyarrow")
    path = tmp_path / "t.feather"
    pd.DataFrame({"t": list("abcdefgh")}).to_feather(path, compression="uncompressed")
    content = bytearray(path.read_bytes())
    offsets = {size: np.arange(9, dtype=size).tobytes() for size in ("<i4", "<i8")}
    size, at = next((size, content.index(stored)) for size, stored in offsets.items() if stored in content)
    assert read_frame(path)["t"].tolist() == list("abcdefgh")
    far, begin = np.array([2**30], dtype=size).tobytes(), at + 4 * np.dtype(size).itemsize
    path.write_bytes(bytes(content[:begin]) + far + bytes(content[begin + len(far) :]))
    with pytest.raises(ValueError, match="feather"):
        read_frame(path)
