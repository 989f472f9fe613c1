"""Files of images as arrays: IDX (MNIST), the binary version of CIFAR, and .npz."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any, NamedTuple, cast
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

IDX_NAMES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
"""Images and labels of each part; `train-images.idx3-ubyte` and an ending .gz are read as well."""
CIFAR_SHAPE = (3, 32, 32)
KEYS = ("x_train", "y_train", "x_test", "y_test")
CHANNELS = (1, 3)
UNPACKED = 1100
"""Bytes that a packed one makes at most; deflate makes 1032."""


class ImageArrays(NamedTuple):
    """Images and the labels as the file has them."""

    x: NDArray[np.uint8]
    """(N, C, H, W)"""
    y: NDArray[Any]
    """(N,), whole numbers or text"""


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """Read an IDX file of bytes with so many dimensions; one that ends in .gz is unpacked.

    >>> read_idx(Path("nowhere"), 3)
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'nowhere'
    """
    start, magic = 4 + 4 * dimensions, 0x800 + dimensions
    with _opened(path) as file:
        head = file.read(start)
        if len(head) < start or int.from_bytes(head[:4], "big") != magic:
            raise ValueError(
                f"{str(path)!r} begins with the bytes {head[:4].hex()!r}; an IDX file of {dimensions} dimensions "
                f"begins with '{magic:08x}'"
            )
        shape = tuple(int(size) for size in np.frombuffer(head, ">u4", dimensions, 4))
        size = prod(shape)
        room = path.stat().st_size * (UNPACKED if path.suffix == ".gz" else 1)
        body = file.read(size + 1) if size <= room else b""
    if len(body) != size:
        has = f"more than {start + size}" if len(body) > size else f"{start + len(body)}" if size <= room else "fewer"
        raise ValueError(
            f"{str(path)!r} has {has} bytes; for its shape {shape} it should have {start + size}; fetch it again"
        )
    return np.frombuffer(body, np.uint8).reshape(shape).copy()


def read_idx_part(folder: Path, part: str) -> ImageArrays:
    """Read the images and labels of "train" or "test" from the IDX files of a folder."""
    images, labels = (_find_idx(folder, name) for name in IDX_NAMES[part])
    return ImageArrays(read_idx(images, 3)[:, None], read_idx(labels, 1))


def _find_idx(folder: Path, name: str) -> Path:
    """The file of a name, in any of its spellings."""
    spelled = (name, name.replace("-idx", ".idx"))
    places = [folder / f"{spelling}{ending}" for spelling in spelled for ending in ("", ".gz")]
    found = [place for place in places if place.is_file()]
    if not found:
        raise FileNotFoundError(f"{str(folder)!r} has no file {name!r} (or {name + '.gz'!r}); it needs all four")
    return found[0]


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """A file to be read, unpacked if it ends in .gz."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield cast(IO[bytes], file)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{str(path)!r} is no whole gzip file ({error}); fetch it again") from error


def read_cifar(paths: list[Path], label_bytes: int) -> ImageArrays:
    """Read files of the binary CIFAR version: rows of label bytes, the last of which counts, and 3 x 32 x 32 bytes.

    CIFAR-10 has one label byte; CIFAR-100 has two, the coarse and the fine label.
    """
    row = label_bytes + int(np.prod(CIFAR_SHAPE))
    parts = []
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {str(path)!r}; the binary version of CIFAR needs it")
        content = np.frombuffer(path.read_bytes(), np.uint8)
        if len(content) == 0 or len(content) % row:
            raise ValueError(
                f"{str(path)!r} has {len(content)} bytes; it should be rows of {row} ({label_bytes} for labels): the "
                "binary version of CIFAR"
            )
        parts.append(content.reshape(-1, row))
    rows = np.concatenate(parts)
    return ImageArrays(rows[:, label_bytes:].reshape(-1, *CIFAR_SHAPE), rows[:, label_bytes - 1])


def read_npz(path: Path) -> tuple[ImageArrays, ImageArrays]:
    """Read the training and the test part of an .npz file with x_train, y_train, x_test, y_test."""
    arrays = _npz_arrays(path)
    missing = [key for key in KEYS if key not in arrays]
    if missing:
        raise ValueError(f"{str(path)!r} has no {', '.join(missing)}; it has {sorted(arrays)} and needs {list(KEYS)}")
    train, test = (
        ImageArrays(
            _as_images(arrays[f"x_{part}"], f"x_{part} of {str(path)!r}"),
            _as_labels(arrays[f"y_{part}"], f"y_{part} of {str(path)!r}"),
        )
        for part in ("train", "test")
    )
    return train, test


def _npz_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of the file that are read here; nothing is unpickled."""
    try:
        with ZipFile(path) as archive:
            names = {name.removesuffix(".npy"): name for name in archive.namelist()}
            return {key: _npy(archive, name) if key in KEYS else np.empty(0) for key, name in names.items()}
    except FileNotFoundError:
        raise
    except Exception as error:  # a damaged archive may fail in any way
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise ValueError(
            f"{str(path)!r} could not be read as .npz ({reason}); write it with np.savez(path, x_train=..., "
            "y_train=..., x_test=..., y_test=...), numbers and text only"
        ) from error


def _npy(archive: ZipFile, name: str) -> NDArray[Any]:
    """One array; memory is taken only for as many bytes as the archive can hold."""
    about = archive.getinfo(name)
    length = os.fstat(archive.fp.fileno()).st_size if archive.fp is not None else 0
    if not 0 < about.file_size <= UNPACKED * min(about.compress_size, length) + UNPACKED:
        raise ValueError(
            f"its {name} says that it has {about.file_size} bytes, which {about.compress_size} cannot hold"
        )
    with archive.open(name) as file:
        version = np.lib.format.read_magic(file)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(file)
        if dtype.hasobject or prod(shape) * dtype.itemsize != about.file_size - file.tell():
            raise ValueError(f"its {name} is not {dtype} of the shape {shape}, as its header says")
    with archive.open(name) as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def _as_images(x: NDArray[Any], what: str) -> NDArray[np.uint8]:
    """Images (N, C, H, W) of bytes, from grey or colour images with the channels in either place."""
    if x.ndim == 3:
        return _as_bytes(x, what)[:, None]
    last, first = x.ndim == 4 and x.shape[3] in CHANNELS, x.ndim == 4 and x.shape[1] in CHANNELS
    if last == first:
        raise ValueError(
            f"{what} has shape {x.shape}; images are (N, H, W), (N, H, W, C) or (N, C, H, W) with 1 or 3 channels"
        )
    return np.ascontiguousarray(np.moveaxis(_as_bytes(x, what), 3, 1) if last else _as_bytes(x, what))


def _as_bytes(x: NDArray[Any], what: str) -> NDArray[np.uint8]:
    """Bytes as they are, numbers in [0, 1] rounded to 1/255."""
    if x.dtype == np.uint8:
        return x
    if x.dtype.kind == "f" and x.size and float(x.min()) >= 0.0 and float(x.max()) <= 1.0:
        return np.rint(x * 255.0).astype(np.uint8)
    span = f" from {x.min():g} to {x.max():g}" if x.dtype.kind in "fiu" and x.size else ""
    raise ValueError(f"{what} is {x.dtype}{span}; pixels must be uint8 (0 to 255), or float in [0, 1]")


def _as_labels(y: NDArray[Any], what: str) -> NDArray[Any]:
    """Labels (N,), whole numbers or text."""
    labels = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if labels.ndim != 1 or labels.dtype.kind not in "iuU":
        raise ValueError(f"{what} is {y.dtype} of shape {y.shape}; labels are whole numbers or text, (N,) or (N, 1)")
    return labels
