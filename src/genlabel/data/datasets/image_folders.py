"""Folders of images as arrays: a folder for each class, or the layout of TinyImageNet; needs pillow."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from genlabel.data.datasets.image_files import ImageArrays

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
GREY, COLOUR = ("1", "L", "LA"), ("P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "HSV", "LAB")
Labelled = list[tuple[Path, str]]


def class_folders(folder: Path) -> list[Path]:
    """Return the folders within a folder that are not hidden, sorted: the classes."""
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def picture_files(folder: Path) -> list[Path]:
    """Return the pictures in a folder and below it, sorted; but for hidden ones (._a.png, .ipynb_checkpoints)."""
    files = (path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    return sorted(path for path in files if not any(part.startswith(".") for part in path.relative_to(folder).parts))


def read_class_folders(folders: Sequence[Path], size: int | None = None) -> list[ImageArrays]:
    """Read folders of class folders, all with images of one size and as many channels; the labels are the names."""
    return _read([_in_class_folders(folder) for folder in folders], size)


def read_tiny_imagenet(folder: Path, size: int | None = None) -> list[ImageArrays]:
    """Read train/<class>/images/* and val/images/*, whose classes are in val/val_annotations.txt."""
    return _read([_in_class_folders(folder / "train"), _annotated(folder / "val")], size)


def _in_class_folders(folder: Path) -> Labelled:
    found: Labelled = []
    for place in class_folders(folder):
        files = picture_files(place)
        if not files:
            raise ValueError(f"{str(place)!r} has no images ({', '.join(SUFFIXES)}); each folder there is a class")
        found += [(path, place.name) for path in files]
    if not found:
        raise ValueError(f"{str(folder)!r} has no folders; put the images of each class into a folder of its name")
    return found


def _annotated(folder: Path) -> Labelled:
    lines = (folder / "val_annotations.txt").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if line.strip()]
    if not rows or any(len(row) < 2 for row in rows):
        raise ValueError(f"{str(folder / 'val_annotations.txt')!r} must have lines of a file name, a tab and a class")
    away = [row[0] for row in rows if Path(row[0]).name != row[0]]
    if away:
        raise ValueError(f"{str(folder / 'val_annotations.txt')!r} names {away[0]!r}, which is no file of 'images'")
    return [(folder / "images" / row[0], row[1]) for row in rows]


def _read(parts: Sequence[Labelled], size: int | None) -> list[ImageArrays]:
    """The images of all parts, stacked together so that they agree in size and channels."""
    paths = [path for part in parts for path, _ in part]
    x = stack_images(paths, size)
    ends = np.cumsum([len(part) for part in parts])[:-1]
    labels = [np.array([name for _, name in part], dtype=str) for part in parts]
    return [ImageArrays(images, y) for images, y in zip(np.split(x, ends), labels, strict=True)]


def stack_images(paths: Sequence[Path], size: int | None = None) -> NDArray[np.uint8]:
    """Read images into one array (N, C, H, W): one channel if all are grey, else three.

    Parameters
    ----------
    paths : sequence of Path
    size : int, optional
        Each image is scaled and cut about its centre to `size` x `size`; without, all must have one size.
    """
    images = [read_image(path, size) for path in paths]
    shapes = [image.shape[:2] for image in images]
    for path, shape in zip(paths, shapes, strict=True):
        if shape != shapes[0]:
            raise ValueError(
                f"{str(paths[0])!r} is {_said(shapes[0])} and {str(path)!r} is {_said(shape)}; give size=..., on the "
                f"command line --size, such as {min(shapes[0])}"
            )
    if any(image.ndim == 3 for image in images):
        images = [np.repeat(image[:, :, None], 3, axis=2) if image.ndim == 2 else image for image in images]
        return np.stack([image.transpose(2, 0, 1) for image in images])
    return np.stack(images)[:, None]


def _said(shape: tuple[int, ...]) -> str:
    return f"{shape[1]} x {shape[0]}"


def read_image(path: Path, size: int | None = None) -> NDArray[np.uint8]:
    """Read an image, (H, W) if it is grey, else (H, W, 3); turned as its camera says.

    >>> read_image(Path("nowhere.png"))
    Traceback (most recent call last):
    ValueError: 'nowhere.png' could not be read as an image ([Errno 2] ...); mend it or take it away
    """
    from PIL import Image, ImageOps

    try:
        with _heard_as_errors(), Image.open(path) as opened:
            image = ImageOps.exif_transpose(opened)
            mode = image.mode
            if mode not in GREY + COLOUR:
                raise ValueError(f"its pixels are {mode!r}, not of 8 bits; save it as 8-bit grey or colour")
            flat = image.convert("L" if mode in GREY else "RGB")
            return np.asarray(flat if size is None else ImageOps.fit(flat, (size, size)), dtype=np.uint8)
    except Exception as error:  # a damaged file may fail in any way
        raise ValueError(
            f"{str(path)!r} could not be read as an image ({' '.join(str(error).split())}); mend it or take it away"
        ) from error


@contextmanager
def _heard_as_errors() -> Iterator[None]:
    """Within, a picture too large for Pillow is an error; what it says of metadata that are damaged is left out."""
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield
