"""Image files and folders as arrays: IDX (MNIST), binary CIFAR, .npz, class folders and TinyImageNet (with pillow)."""

from __future__ import annotations

import gzip
import os
import warnings
import zlib
from collections.abc import Sequence
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
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
GRAY_MODES, COLOR_MODES = ("1", "L", "LA"), ("P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "HSV", "LAB")
LabeledPaths = list[tuple[Path, str]]


class ImageArrays(NamedTuple):
    """Images and labels as they are in a file."""

    x: NDArray[np.uint8]
    """(N, C, H, W)"""
    y: NDArray[Any]
    """(N,), integers or strings"""


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """Read an IDX file of bytes with a given number of dimensions; one that ends in .gz is unpacked."""
    packed = path.suffix == ".gz"
    header_size = 4 + 4 * dimensions
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
        expected = header_size + size
        if size > max_size:
            actual = "fewer"
        else:
            actual = f"more than {expected}" if len(body) > size else f"{header_size + len(body)}"
        raise ValueError(f"{str(path)!r} has {actual} bytes; its shape {shape} needs {expected}; download it again")
    return np.frombuffer(body, np.uint8).reshape(shape).copy()


def read_idx_folder(folder: Path, part: str) -> ImageArrays:
    """Read the images and labels of "train" or "test" from the IDX files of a folder."""
    paths = []
    for name in IDX_NAMES[part]:
        spellings = (name, name.replace("-idx", ".idx"))
        candidates = [folder / f"{spelling}{suffix}" for spelling in spellings for suffix in ("", ".gz")]
        existing = [path for path in candidates if path.is_file()]
        if not existing:
            raise FileNotFoundError(f"{str(folder)!r} has no file {name!r} (or {name + '.gz'!r}); it needs all four")
        paths.append(existing[0])
    return ImageArrays(read_idx(paths[0], 3)[:, None], read_idx(paths[1], 1))


def read_cifar(paths: list[Path], label_bytes: int) -> ImageArrays:
    """Read files of the binary version of CIFAR: each row has its label bytes, then 3 x 32 x 32 pixels.

    CIFAR-10 has one label byte. CIFAR-100 has two, the coarse and the fine label; the last one is used.
    """
    row_bytes = label_bytes + prod(CIFAR_SHAPE)
    parts = []
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {str(path)!r}; the binary version of CIFAR needs it")
        content = np.frombuffer(path.read_bytes(), np.uint8)
        if len(content) == 0 or len(content) % row_bytes:
            raise ValueError(
                f"{str(path)!r} has {len(content)} bytes, but the binary version of CIFAR has rows of {row_bytes} "
                f"({label_bytes} for labels); download it again"
            )
        parts.append(content.reshape(-1, row_bytes))
    rows = np.concatenate(parts)
    return ImageArrays(rows[:, label_bytes:].reshape(-1, *CIFAR_SHAPE), rows[:, label_bytes - 1])


def read_npz(path: Path) -> list[ImageArrays]:
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
        raise ValueError(
            f"{str(path)!r} has no {', '.join(missing)}; it has {sorted(names)} and needs {list(NPZ_KEYS)}"
        )
    parts = []
    for part in ("train", "test"):
        x = _to_images(arrays[f"x_{part}"], f"x_{part} of {str(path)!r}")
        y = arrays[f"y_{part}"]
        labels = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
        if labels.ndim != 1 or labels.dtype.kind not in "iuU":
            raise ValueError(
                f"y_{part} of {str(path)!r} is {y.dtype} of shape {y.shape}; labels are whole numbers or strings, (N,) "
                "or (N, 1)"
            )
        parts.append(ImageArrays(x, labels))
    return parts


def class_folders(folder: Path) -> list[Path]:
    """Return the folders within a folder that are not hidden, sorted: the classes."""
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def find_images(folder: Path) -> list[Path]:
    """Return the image files in a folder and below it, sorted, except hidden ones (._a.png, .ipynb_checkpoints)."""
    files = (path for path in folder.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES and path.is_file())
    return sorted(path for path in files if not any(part.startswith(".") for part in path.relative_to(folder).parts))


def read_class_folders(folders: Sequence[Path], size: int | None = None) -> list[ImageArrays]:
    """Read folders of class folders, all with images of one size and number of channels; the labels are the names."""
    return _read_labeled([_list_class_folders(folder) for folder in folders], size)


def read_tiny_imagenet(folder: Path, size: int | None = None) -> list[ImageArrays]:
    """Read train/<class>/images/* and val/images/*, whose classes are in val/val_annotations.txt."""
    annotations = folder / "val" / "val_annotations.txt"
    rows = [line.split("\t") for line in annotations.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not rows or any(len(row) < 2 for row in rows):
        raise ValueError(f"{str(annotations)!r} must have lines of a file name, a tab and a class")
    outside = [row[0] for row in rows if Path(row[0]).name != row[0]]
    if outside:
        raise ValueError(f"{str(annotations)!r} names {outside[0]!r}, which is not a file in 'images'")
    test = [(folder / "val" / "images" / row[0], row[1]) for row in rows]
    return _read_labeled([_list_class_folders(folder / "train"), test], size)


def read_image(path: Path, size: int | None = None) -> NDArray[np.uint8]:
    """Read an image, (H, W) if it is grayscale, else (H, W, 3), rotated according to its EXIF orientation."""
    from PIL import Image, ImageOps

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about damaged metadata
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as opened:
                image = ImageOps.exif_transpose(opened)
                if image.mode not in GRAY_MODES + COLOR_MODES:
                    raise ValueError(f"its pixels are {image.mode!r}, not of 8 bits; save it as 8-bit gray or color")
                image = image.convert("L" if image.mode in GRAY_MODES else "RGB")
                return np.asarray(image if size is None else ImageOps.fit(image, (size, size)), dtype=np.uint8)
    except Exception as error:  # a damaged file may fail in any way
        reason = " ".join(str(error).split())
        raise ValueError(f"{str(path)!r} could not be read as an image ({reason}); fix or remove it") from error


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
    """Return images (N, C, H, W) of bytes; floats in [0, 1] are rounded to multiples of 1/255."""
    channels_last = x.ndim == 4 and x.shape[3] in CHANNELS
    channels_first = x.ndim == 4 and x.shape[1] in CHANNELS
    if x.ndim != 3 and channels_last == channels_first:
        raise ValueError(
            f"{name} has shape {x.shape}; images are (N, H, W), (N, H, W, C) or (N, C, H, W) with 1 or 3 channels"
        )
    if x.dtype.kind == "f" and x.size and float(x.min()) >= 0.0 and float(x.max()) <= 1.0:
        x = np.rint(x * 255.0).astype(np.uint8)
    if x.dtype != np.uint8:
        values = f" from {x.min():g} to {x.max():g}" if x.dtype.kind in "fiu" and x.size else ""
        raise ValueError(f"{name} is {x.dtype}{values}; pixels must be uint8 (0 to 255), or float in [0, 1]")
    return x[:, None] if x.ndim == 3 else np.ascontiguousarray(np.moveaxis(x, 3, 1) if channels_last else x)


def _list_class_folders(folder: Path) -> LabeledPaths:
    labeled: LabeledPaths = []
    for class_folder in class_folders(folder):
        files = find_images(class_folder)
        if not files:
            suffixes = ", ".join(IMAGE_SUFFIXES)
            raise ValueError(f"{str(class_folder)!r} has no images ({suffixes}); each folder there is a class")
        labeled += [(path, class_folder.name) for path in files]
    if not labeled:
        raise ValueError(f"{str(folder)!r} has no folders; put the images of each class into a folder of its name")
    return labeled


def _read_labeled(parts: Sequence[LabeledPaths], size: int | None) -> list[ImageArrays]:
    """Read the images of all parts, which must have one size; with one channel if all are grayscale, else three."""
    paths = [path for part in parts for path, _ in part]
    images = [read_image(path, size) for path in paths]
    for path, image in zip(paths, images, strict=True):
        if image.shape[:2] != images[0].shape[:2]:
            (h0, w0), (h, w) = images[0].shape[:2], image.shape[:2]
            raise ValueError(
                f"{str(paths[0])!r} is {w0} x {h0} and {str(path)!r} is {w} x {h}; give size=... (--size on the "
                f"command line), such as {min(h0, w0)}"
            )
    if any(image.ndim == 3 for image in images):
        images = [np.repeat(image[:, :, None], 3, axis=2) if image.ndim == 2 else image for image in images]
        x = np.stack([image.transpose(2, 0, 1) for image in images])
    else:
        x = np.stack(images)[:, None]
    ends = np.cumsum([len(part) for part in parts])[:-1]
    labels = [np.array([name for _, name in part], dtype=str) for part in parts]
    return [ImageArrays(pixels, y) for pixels, y in zip(np.split(x, ends), labels, strict=True)]
