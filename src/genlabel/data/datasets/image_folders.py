"""Folders of images as arrays: a folder for each class, or the layout of TinyImageNet; needs pillow."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from genlabel.data.datasets.image_files import ImageArrays

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
GRAY_MODES, COLOR_MODES = ("1", "L", "LA"), ("P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "HSV", "LAB")
LabeledPaths = list[tuple[Path, str]]


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
        raise ValueError(f"{str(annotations)!r} names {outside[0]!r}, which is no file of 'images'")
    test = [(folder / "val" / "images" / row[0], row[1]) for row in rows]
    return _read_labeled([_list_class_folders(folder / "train"), test], size)


def stack_images(paths: Sequence[Path], size: int | None = None) -> NDArray[np.uint8]:
    """Read images into one array (N, C, H, W): one channel if all are grayscale, else three.

    Parameters
    ----------
    paths : sequence of Path
    size : int, optional
        Side to which each image is scaled and center-cropped; without it, all images must have one size.
    """
    images = [read_image(path, size) for path in paths]
    for path, image in zip(paths, images, strict=True):
        if image.shape[:2] != images[0].shape[:2]:
            (h0, w0), (h, w) = images[0].shape[:2], image.shape[:2]
            raise ValueError(
                f"{str(paths[0])!r} is {w0} x {h0} and {str(path)!r} is {w} x {h}; give size=..., on the "
                f"command line --size, such as {min(h0, w0)}"
            )
    if any(image.ndim == 3 for image in images):
        images = [np.repeat(image[:, :, None], 3, axis=2) if image.ndim == 2 else image for image in images]
        return np.stack([image.transpose(2, 0, 1) for image in images])
    return np.stack(images)[:, None]


def read_image(path: Path, size: int | None = None) -> NDArray[np.uint8]:
    """Read an image, (H, W) if it is grayscale, else (H, W, 3), rotated according to its EXIF orientation.

    >>> read_image(Path("nowhere.png"))
    Traceback (most recent call last):
    ValueError: 'nowhere.png' could not be read as an image ([Errno 2] ...); fix or remove it
    """
    from PIL import Image, ImageOps

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about damaged metadata
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as opened:
                image = ImageOps.exif_transpose(opened)
                if image.mode not in GRAY_MODES + COLOR_MODES:
                    raise ValueError(f"its pixels are {image.mode!r}, not of 8 bits; save it as 8-bit gray or color")
                flat = image.convert("L" if image.mode in GRAY_MODES else "RGB")
                return np.asarray(flat if size is None else ImageOps.fit(flat, (size, size)), dtype=np.uint8)
    except Exception as error:  # a damaged file may fail in any way
        reason = " ".join(str(error).split())
        raise ValueError(f"{str(path)!r} could not be read as an image ({reason}); fix or remove it") from error


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
    """Read the images of all parts, stacked together so that they agree in size and channels."""
    x = stack_images([path for part in parts for path, _ in part], size)
    ends = np.cumsum([len(part) for part in parts])[:-1]
    labels = [np.array([name for _, name in part], dtype=str) for part in parts]
    return [ImageArrays(images, y) for images, y in zip(np.split(x, ends), labels, strict=True)]
