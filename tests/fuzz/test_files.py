"""Test damaged files: a reader returns data or one clear error, allocates little memory, and runs no code."""

import gzip
import io
import json
import os
import pickle
import re
import struct
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st
from PIL import Image
from safetensors.numpy import save

from genlabel import GenerativeClassifier, load_model, save_model
from genlabel.data.datasets import load_images
from genlabel.data.datasets.image_files import read_idx
from genlabel.data.tables import formats, read_frame, read_table

MAX_READ_BYTES = 30_000_000
"""Memory that a reader of these small files may take; their headers claim up to 2^40 bytes."""
MAX_IMAGE_BYTES = 3 * 90_000_000
"""Memory of an image of the largest size that Pillow accepts; a header of a few bytes can claim it."""
X = np.random.default_rng(0).integers(0, 256, (10, 3, 32, 32), dtype=np.uint8)
Y = (np.arange(10) % 2).astype(np.uint8)


def idx(values: np.ndarray, shape: tuple[int, ...] | None = None) -> bytes:
    sizes = values.shape if shape is None else shape
    return struct.pack(f">{1 + len(sizes)}I", 0x800 + len(sizes), *sizes) + values.tobytes()


def npy(values: np.ndarray, shape: tuple[int, ...] | None = None, kind: str = "|u1") -> bytes:
    file = io.BytesIO()
    size = values.shape if shape is None else shape
    np.lib.format.write_array_header_1_0(file, {"descr": kind, "fortran_order": False, "shape": size})
    return file.getvalue() + values.tobytes()


def npz(members: dict[str, bytes], packing: int = ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with ZipFile(file, "w", packing) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return file.getvalue()


def parts(**replaced: bytes) -> dict[str, bytes]:
    members = {"x_train": npy(X[:6]), "y_train": npy(Y[:6]), "x_test": npy(X[6:]), "y_test": npy(Y[6:])}
    return {**members, **replaced}


def one_file(name: str, read: Callable[[Path], Any]) -> Callable[[Path, bytes], Any]:
    """Return a function that writes content to a named file and reads it."""

    def run(folder: Path, content: bytes) -> Any:
        (folder / name).write_bytes(content)
        return read(folder / name)

    return run


def mnist(folder: Path, content: bytes) -> Any:
    for part in ("train", "t10k"):
        (folder / f"{part}-images-idx3-ubyte").write_bytes(idx(X[:, 0, :2, :2]))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(idx(Y))
    (folder / "train-labels-idx1-ubyte").write_bytes(content)
    return load_images(folder)


def cifar(folder: Path, content: bytes) -> Any:
    for name in ("train.bin", "test.bin"):
        (folder / name).write_bytes(ROWS)
    (folder / "train.bin").write_bytes(content)
    return load_images(folder)


ROWS = b"".join(bytes([0, label]) + pixels.tobytes() for label, pixels in zip(Y[:4], X[:4], strict=True))
FRAME = pd.DataFrame({"a": np.arange(30) / 7, "b": list("uvw") * 10, "y": ["p", "q"] * 15})
CSV = FRAME.to_csv(index=False).encode()
table = partial(read_table, target="y")


def parquet() -> bytes:
    pytest.importorskip("pyarrow")
    return bytes(FRAME.to_parquet(None))


def feather() -> bytes:
    pytest.importorskip("pyarrow")
    file = io.BytesIO()
    FRAME.to_feather(file)
    return file.getvalue()


def excel() -> bytes:
    pytest.importorskip("openpyxl")
    file = io.BytesIO()
    FRAME.to_excel(file, index=False)
    return file.getvalue()


def image_bytes(form: str, mode: str = "RGB", size: tuple[int, int] = (8, 8), **options: Any) -> Callable[[], bytes]:
    """Return a function that encodes an image in a format and a mode."""

    def make() -> bytes:
        file = io.BytesIO()
        Image.fromarray(X[0].transpose(1, 2, 0)).resize(size).convert(mode).save(file, form, **options)
        return file.getvalue()

    return make


def image_folders(name: str) -> Callable[[Path, bytes], Any]:
    """Return a function that reads folders of images, a class each; one image has the name and the content."""

    def run(folder: Path, content: bytes) -> Any:
        for part in ("u", "v"):
            (folder / part).mkdir(exist_ok=True)
            for number in range(5):
                (folder / part / f"{number}.png").write_bytes(PNG)
        (folder / "u" / name).write_bytes(content)
        return load_images(folder)

    return run


PNG = image_bytes("PNG")()
ROTATED_EXIF = b"Exif\0\0MM\0*" + struct.pack(">IH2HI2HI", 8, 1, 0x112, 3, 1, 6, 0, 0)
"""EXIF data of a camera: a rotation by 90 degrees."""
IMAGES: dict[str, tuple[Callable[[], bytes], Callable[[Path, bytes], Any]]] = {
    "PNG": (image_bytes("PNG"), image_folders("p.png")),
    "JPEG of a camera": (image_bytes("JPEG", exif=ROTATED_EXIF), image_folders("p.jpg")),
    "GIF": (image_bytes("GIF", "P"), image_folders("p.gif")),
    "TIFF": (image_bytes("TIFF", compression="tiff_lzw"), image_folders("p.tif")),
}
FORMATS: dict[str, tuple[Callable[[], bytes], Callable[[Path, bytes], Any]]] = {
    "IDX images": (lambda: idx(X[:, 0, :4, :4]), one_file("i", partial(read_idx, dimensions=3))),
    "IDX packed": (lambda: gzip.compress(idx(X[:, 0, :4, :4])), one_file("i.gz", partial(read_idx, dimensions=3))),
    "IDX labels": (lambda: idx(Y), mnist),
    "CIFAR": (lambda: ROWS, cifar),
    "npz": (lambda: npz(parts()), one_file("i.npz", load_images)),
    "npz packed": (lambda: npz(parts(), ZIP_DEFLATED), one_file("i.npz", load_images)),
    "CSV": (lambda: CSV, one_file("t.csv", table)),
    "CSV packed": (lambda: gzip.compress(CSV), one_file("t.csv.gz", table)),
    "JSON lines": (lambda: FRAME.to_json(orient="records", lines=True).encode(), one_file("t.jsonl", table)),
    "Parquet": (parquet, one_file("t.parquet", table)),
    "Feather": (feather, one_file("t.feather", table)),
    "Excel": (excel, one_file("t.xlsx", table)),
    **IMAGES,
}


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """Draw damaged content: truncated, or with bytes changed, removed or inserted, mostly in headers and footers."""
    content = bytearray(whole)
    for _ in range(draw(st.integers(1, 3))):
        ends = st.one_of(st.integers(0, min(200, len(content))), st.integers(max(0, len(content) - 400), len(content)))
        position = draw(st.one_of(ends, st.integers(0, len(content))))
        operation = draw(st.sampled_from(["cut", "flip", "flip", "flip", "set", "out", "in"]))
        if operation == "cut":
            del content[position:]
        elif operation == "out":
            del content[position : position + draw(st.integers(1, 9))]
        elif operation == "in":
            content[position:position] = draw(st.binary(min_size=1, max_size=9))
        elif position < len(content):
            content[position] = (
                content[position] ^ (1 << draw(st.integers(0, 7)))
                if operation == "flip"
                else draw(st.sampled_from([0, 0x7F, 0xFF]))
            )
    return bytes(content)


def is_clear_error(error: BaseException, folder: Path) -> bool:
    """Return whether an error is a short ValueError that names the folder."""
    return type(error) is ValueError and str(folder) in str(error) and len(str(error)) < 2000


def read_or_refuse(read: Callable[[Path, bytes], Any], folder: Path, content: bytes, extra_memory: int = 0) -> Any:
    """Return what a reader returns, or its error; check that the error is clear and memory is bounded."""
    tracemalloc.start()
    try:
        return read(folder, content)
    except Exception as error:
        if not is_clear_error(error, folder):
            raise
        return error
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < MAX_READ_BYTES + extra_memory


@pytest.mark.parametrize("number, kind", list(enumerate(FORMATS)), ids=[*range(len(FORMATS))])
def test_a_damaged_file_is_read_or_raises(number: int, kind: str, tmp_path: Path, check_examples: Any) -> None:
    make, read = FORMATS[kind]
    whole = make()
    assert not isinstance(read_or_refuse(read, tmp_path, whole), Exception)
    more = MAX_IMAGE_BYTES if kind in IMAGES else 0
    check_examples(damaged(whole), partial(read_or_refuse, read, tmp_path, extra_memory=more), number)


ODD_IMAGES: dict[str, tuple[bytes, str | None]] = {
    "nothing": (b"", "identify"),
    "text": (b"<svg/>", "identify"),
    "one pixel": (image_bytes("PNG", size=(1, 1))(), "size="),
    "16 bits": (image_bytes("PNG", "I;16")(), "'I;16'"),
    "numbers": (image_bytes("TIFF", "F")(), "'F'"),
    "a page of many": (image_bytes("GIF", "P", save_all=True)(), None),
    "two colours": (image_bytes("PNG", "1")(), None),
    "grey with a mask": (image_bytes("PNG", "LA")(), None),
    "a mask": (image_bytes("PNG", "RGBA")(), None),
    "ink": (image_bytes("JPEG", "CMYK")(), None),
    "larger than Pillow takes": (b"P6 12000 12000 255\n", "bomb"),
}


@pytest.mark.parametrize("case", ODD_IMAGES, ids=[*range(len(ODD_IMAGES))])
def test_a_folder_with_an_odd_image(case: str, tmp_path: Path) -> None:
    content, match = ODD_IMAGES[case]
    name = os.fsdecode(f"ü ' <b>.{'TIFF' if case == 'numbers' else 'PNG'}".encode())  # also where names are ASCII
    result = read_or_refuse(image_folders(name), tmp_path, content)
    assert (match is None) == (not isinstance(result, Exception)), result
    if match is None:
        assert result.x_train.shape[1:] == (3, 8, 8)
    else:
        assert "<b>" in str(result)  # the rest may be escaped
        assert re.search(match, str(result)), result


@pytest.mark.parametrize("name", ["a\nb", "<script>", "..u", "\udcff", "x" * 200, "1", os.fsdecode("名".encode())])
def test_a_folder_of_any_name_is_a_class(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    for number in range(5):
        (tmp_path / name / f"{number}.png").write_bytes(PNG)
    result = read_or_refuse(image_folders("p.png"), tmp_path, PNG)
    hidden = name.startswith(".")
    assert isinstance(result, Exception) or set(result.classes) == {"u", "v", *([] if hidden else [name])}


def far_cell(path: Path, row: int, column: int) -> Path:
    """Write an Excel file of a small table and one distant cell."""
    book = pytest.importorskip("openpyxl").Workbook()
    for line in (["a", "y"], [1.0, "p"], [2.0, "q"]):
        book.active.append(line)
    book.active.cell(row, column, "x")
    book.save(path)
    return path


@pytest.mark.parametrize("row, column", [(1_048_576, 16_384), (100_000, 101)])
def test_an_excel_file_with_a_distant_cell_raises_early(row: int, column: int, tmp_path: Path) -> None:
    path = far_cell(tmp_path / "t.xlsx", row, column)
    result = read_or_refuse(lambda folder, _: read_frame(path), tmp_path, b"")
    assert f"{row} rows and {column} columns" in str(result)


def test_an_excel_file_with_a_stray_cell_is_read(tmp_path: Path) -> None:
    assert read_frame(far_cell(tmp_path / "t.xlsx", 60, 30)).shape == (59, 30)


def test_an_excel_file_that_unpacks_to_too_much_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "MAX_UNPACKED_BYTES", 1 << 10)
    path = far_cell(tmp_path / "t.xlsx", 5, 5)
    result = read_or_refuse(lambda folder, _: read_frame(path), tmp_path, b"")
    assert "unpacks" in str(result)


HUGE = (1 << 20, 1 << 10, 1 << 10)
FALSE_SIZES: dict[str, tuple[str, bytes]] = {
    "IDX": ("IDX images", idx(X[:, 0, :4, :4], HUGE)),
    "IDX whose size is 0 in 64 bits": ("IDX images", idx(X[:0], (1 << 31, 1 << 31, 4))),
    "IDX packed": ("IDX packed", gzip.compress(idx(np.zeros(1 << 20, np.uint8), HUGE))),
    "IDX packed, and much of it": ("IDX packed", gzip.compress(idx(np.zeros(1 << 26, np.uint8), (1, 1, 1 << 10)))),
    "npz": ("npz", npz(parts(x_train=npy(X[:6], HUGE)))),
    "npz packed": ("npz packed", npz(parts(x_train=npy(np.zeros(1 << 20, np.uint8), HUGE)), ZIP_DEFLATED)),
    "npz of wide texts": ("npz", npz(parts(y_train=npy(Y[:6], (6,), f"<U{1 << 29}")))),
    "npz of objects": ("npz", npz(parts(y_train=npy(np.frombuffer(pickle.dumps([1]), np.uint8), (6,), "|O")))),
    "JSON nested": ("JSON lines", b'{"a": ' + b"[" * 100_000),
    "CSV of one column more": ("CSV", CSV + b",".join([b"1"] * 50_000)),
}


@pytest.mark.parametrize("case", FALSE_SIZES, ids=[*range(len(FALSE_SIZES))])
def test_a_file_with_a_false_size_raises_early(case: str, tmp_path: Path) -> None:
    kind, content = FALSE_SIZES[case]
    assert isinstance(read_or_refuse(FORMATS[kind][1], tmp_path, content), ValueError)


def test_a_packed_table_that_unpacks_to_too_much_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "MAX_UNPACKED_BYTES", 1 << 20)
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a,y\n" + b"1,p\n" * (1 << 20)))
    result = read_or_refuse(lambda folder, _: read_frame(path), tmp_path, b"")
    assert "unpacks" in str(result)


# Models


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    points = np.random.default_rng(0).normal(size=(12, 2))
    fitted = GenerativeClassifier().fit(points, np.array(["a", "b"])[np.arange(12) % 2])
    return save_model(fitted, tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize("number, name", list(enumerate(["model.json", "model.safetensors"])))
def test_a_damaged_model_raises(number: int, name: str, model: Path, tmp_path: Path, check_examples: Any) -> None:
    whole = {path.name: path.read_bytes() for path in model.iterdir()}

    def check(content: bytes) -> None:
        if content == whole[name]:
            return
        for file_name, stored in {**whole, name: content}.items():
            (tmp_path / file_name).write_bytes(stored)
        assert isinstance(read_or_refuse(lambda folder, _: load_model(folder), tmp_path, b""), ValueError)

    check_examples(damaged(whole[name]), check, number)


def forge(folder: Path, model: Path, change: Callable[[dict[str, Any]], None], arrays: bytes | None = None) -> None:
    """Write a model with a changed body and valid checksums."""
    from hashlib import sha256

    def text(value: Any) -> bytes:
        return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()

    document = json.loads((model / "model.json").read_bytes())
    stored = (model / "model.safetensors").read_bytes() if arrays is None else arrays
    document["body"]["arrays_sha256"] = sha256(stored).hexdigest()
    change(document["body"])
    document["body_sha256"] = sha256(text(document["body"])).hexdigest()
    (folder / "model.json").write_bytes(text(document))
    (folder / "model.safetensors").write_bytes(stored)


def wide_texts(body: dict[str, Any]) -> None:
    body["extra"] = {"is": "values", "dtype": "str999999", "items": ["a"] * 20_000, "shape": [20_000]}


def a_class_that_runs(body: dict[str, Any]) -> None:
    body["objects"].append({"class": "subprocess.Popen", "state": {"args": "touch /tmp/here"}})


FORGED: dict[str, tuple[Callable[[dict[str, Any]], None], bytes | None]] = {
    "wide texts": (wide_texts, None),
    "a class that runs": (a_class_that_runs, None),
    "no objects": (lambda body: body.update(objects=3), None),
    "arrays of another model": (lambda body: None, save({"other": np.zeros(3)})),
    "a header that lies": (lambda body: None, struct.pack("<Q", 1 << 40) + b"{}"),
    "pickle": (lambda body: None, pickle.dumps({"a": 1})),
}


@pytest.mark.parametrize("case", FORGED, ids=[*range(len(FORGED))])
def test_a_forged_model_raises(case: str, model: Path, tmp_path: Path) -> None:
    forge(tmp_path, model, *FORGED[case])
    assert isinstance(read_or_refuse(lambda folder, _: load_model(folder), tmp_path, b""), ValueError)
