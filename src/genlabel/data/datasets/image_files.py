"""Image files as arrays: IDX (MNIST), the binary version of CIFAR, and .npz."""

from __future__ import annotations

import gzip
import os
import zlib
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
"""Files of images and labels; `train-images.idx3-ubyte` and the ending .gz are accepted as well."""
CIFAR_SHAPE = (3, 32, 32)
NPZ_KEYS = ("x_train", "y_train", "x_test", "y_test")
CHANNELS = (1, 3)
MAX_EXPANSION = 1100
"""Bytes that a compressed byte can expand to; the maximum of deflate is 1032."""


class ImageArrays(NamedTuple):
    """Images and labels as they are in a file."""

    x: NDArray[np.uint8]
    """(N, C, H, W)"""
    y: NDArray[Any]
    """(N,), integers or strings"""


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """Read an IDX file of bytes with a given number of dimensions; one that ends in .gz is unpacked.

    >>> read_idx(Path("nowhere"), 3)
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'nowhere'
    """
    packed, header_size = path.suffix == ".gz", 4 + 4 * dimensions
    max_size = path.stat().st_size * (MAX_EXPANSION if packed else 1)
    try:
        with cast(IO[bytes], gzip.open(path)) if packed else path.open("rb") as file:
            header = file.read(header_size)
            if len(header) < header_size or int.from_bytes(header[:4], "big") != 0x800 + dimensions:
                raise ValueError(
                    f"{str(path)!r} begins with the bytes {header[:4].hex()!r}; an IDX file of {dimensions} dimensions "
                    f"begins with '{0x800 + dimensions:08x}'"
                )
            shape = tuple(int(size) for size in np.frombuffer(header, ">u4", dimensions, 4))
            size = prod(shape)
            body = file.read(size + 1) if size <= max_size else b""
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{str(path)!r} is not a complete gzip file ({error}); download it again") from error
    if len(body) != size:
        wanted = header_size + size
        actual = f"more than {wanted}" if len(body) > size else f"{header_size + len(body)}"
        raise ValueError(
            f"{str(path)!r} has {actual if size <= max_size else 'fewer'} bytes; its shape {shape} needs {wanted}; "
            "download it again"
        )
    return np.frombuffer(body, np.uint8).reshape(shape).copy()


def read_idx_folder(folder: Path, part: str) -> ImageArrays:
    """Read the images and labels of "train" or "test" from the IDX files of a folder."""
    paths = []
    for name in IDX_NAMES[part]:
        spellings = (name, name.replace("-idx", ".idx"))
        candidates = [folder / f"{spelling}{ending}" for spelling in spellings for ending in ("", ".gz")]
        existing = [path for path in candidates if path.is_file()]
        if not existing:
            raise FileNotFoundError(f"{str(folder)!r} has no file {name!r} (or {name + '.gz'!r}); it needs all four")
        paths.append(existing[0])
    return ImageArrays(read_idx(paths[0], 3)[:, None], read_idx(paths[1], 1))


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
    """Read the training and test images of an .npz file with x_train, y_train, x_test, y_test; nothing is unpickled."""
    try:
        with ZipFile(path) as archive:
            names = {name.removesuffix(".npy"): name for name in archive.namelist()}
            arrays = {key: _read_npy(archive, name) for key, name in names.items() if key in NPZ_KEYS}
    except FileNotFoundError:
        raise
    except Exception as error:  # a damaged archive may fail in any way
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise ValueError(
            f"{str(path)!r} could not be read as .npz ({reason}); write it with np.savez(path, x_train=..., "
            "y_train=..., x_test=..., y_test=...), numbers and strings only"
        ) from error
    missing = [key for key in NPZ_KEYS if key not in names]
    if missing:
        has = f"it has {sorted(names)} and needs {list(NPZ_KEYS)}"
        raise ValueError(f"{str(path)!r} has no {', '.join(missing)}; {has}")
    train, test = (
        ImageArrays(
            _to_images(arrays[f"x_{part}"], f"x_{part} of {str(path)!r}"),
            _to_labels(arrays[f"y_{part}"], f"y_{part} of {str(path)!r}"),
        )
        for part in ("train", "test")
    )
    return train, test


def _read_npy(archive: ZipFile, name: str) -> NDArray[Any]:
    """Read one array; memory is allocated only for as many bytes as the archive can hold."""
    info = archive.getinfo(name)
    archive_size = os.fstat(archive.fp.fileno()).st_size if archive.fp is not None else 0
    if not 0 < info.file_size <= MAX_EXPANSION * min(info.compress_size, archive_size) + MAX_EXPANSION:
        raise ValueError(f"its {name} claims {info.file_size} bytes, which {info.compress_size} cannot hold")
    with archive.open(name) as file:
        version = np.lib.format.read_magic(file)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(file)
        if dtype.hasobject or prod(shape) * dtype.itemsize != info.file_size - file.tell():
            raise ValueError(f"its {name} is not {dtype} of the shape {shape}, as its header says")
    with archive.open(name) as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def _to_images(x: NDArray[Any], name: str) -> NDArray[np.uint8]:
    """Return images (N, C, H, W) of bytes from grayscale or color images with the channels first or last.

    Floats in [0, 1] are rounded to multiples of 1/255.
    """
    last, first = x.ndim == 4 and x.shape[3] in CHANNELS, x.ndim == 4 and x.shape[1] in CHANNELS
    if x.ndim != 3 and last == first:
        raise ValueError(
            f"{name} has shape {x.shape}; images are (N, H, W), (N, H, W, C) or (N, C, H, W) with 1 or 3 channels"
        )
    if x.dtype.kind == "f" and x.size and float(x.min()) >= 0.0 and float(x.max()) <= 1.0:
        x = np.rint(x * 255.0).astype(np.uint8)
    if x.dtype != np.uint8:
        values = f" from {x.min():g} to {x.max():g}" if x.dtype.kind in "fiu" and x.size else ""
        raise ValueError(f"{name} is {x.dtype}{values}; pixels must be uint8 (0 to 255), or float in [0, 1]")
    return x[:, None] if x.ndim == 3 else np.ascontiguousarray(np.moveaxis(x, 3, 1) if last else x)


def _to_labels(y: NDArray[Any], name: str) -> NDArray[Any]:
    """Return labels (N,), integers or strings."""
    labels = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if labels.ndim != 1 or labels.dtype.kind not in "iuU":
        raise ValueError(f"{name} is {y.dtype} of shape {y.shape}; labels are whole numbers or text, (N,) or (N, 1)")
    return labels
