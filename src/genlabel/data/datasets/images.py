"""Image datasets with a training and a test part: by name, or from files and folders of the usual layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from genlabel._validation import check_count
from genlabel.data.datasets.catalog import DATA_HOME, find_home
from genlabel.data.datasets.image_files import (
    IDX_NAMES,
    ImageArrays,
    class_folders,
    find_images,
    read_cifar,
    read_class_folders,
    read_idx_folder,
    read_npz,
    read_tiny_imagenet,
)
from genlabel.data.tables.files import join_names

IMAGE_DATASETS = {
    "mnist": ("mnist", "MNIST/raw", "MNIST"),
    "fashion-mnist": ("fashion_mnist.npz", "fashion-mnist", "FashionMNIST/raw", "FashionMNIST"),
    "cifar10": ("cifar-10-batches-bin", "cifar10/cifar-10-batches-bin", "cifar10"),
    "cifar100": ("cifar-100-binary", "cifar100/cifar-100-binary", "cifar100"),
    "tinyimagenet": ("tiny-imagenet-200", "tinyimagenet/tiny-imagenet-200", "tinyimagenet"),
    "digits": (),
}
"""Named datasets -> paths in the data home where each is searched after NAME.npz; digits are scikit-learn's."""
CLASS_NAMES = {
    "fashion-mnist": ["T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"],
    "cifar10": ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"],
}
CIFAR10_FILES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST_SHARE = 0.2
"""Share of the images that are held out as the test part where the source has none."""


class ImageDataset(NamedTuple):
    """Images and class indices, a training and a test part; `load_images` returns it."""

    x_train: NDArray[np.uint8]
    """(N, C, H, W)"""
    y_train: NDArray[np.int64]
    """(N,), class indices"""
    x_test: NDArray[np.uint8]
    """(M, C, H, W)"""
    y_test: NDArray[np.int64]
    """(M,)"""
    classes: list[Any]
    """Classes in the order of their indices: names, or integers if the labels were integers."""
    name: str


def load_images(
    source: str | Path, data_home: str | Path | None = None, *, size: int | None = None, seed: int = 0
) -> ImageDataset:
    """Load images and their classes, a training and a test part.

    Parameters
    ----------
    source : str or Path
        A name: "mnist", "fashion-mnist", "cifar10", "cifar100", "tinyimagenet", or "digits" (8 x 8, of scikit-learn).
        Or a path: an .npz file with x_train, y_train, x_test, y_test; a folder of IDX files, of the binary CIFAR
        version or of TinyImageNet; a folder with train and test (or val), each with a folder for each class; a folder
        with a folder for each class.
    data_home : path, optional
        Folder with the files of named datasets; else the environment variable GENLABEL_DATA_HOME names it. Nothing is
        downloaded.
    size : int, optional
        Side to which images of folders are scaled and cropped.
    seed : int
        Seed of the test part, one image in five, where the source has none.

    Returns
    -------
    ImageDataset
        Pixels are bytes. A class that only the training part has is kept.

    Examples
    --------
    >>> images = load_images("digits")
    >>> images.x_train.shape, images.x_test.shape, images.x_train.max()
    ((1438, 1, 8, 8), (359, 1, 8, 8), np.uint8(255))
    """
    if size is not None:
        check_count("size", size)
    name = str(source).lower().replace("_", "-")
    if name == "digits" and not Path(source).exists():
        if size is not None:
            raise ValueError(f"size={size} is for folders of images; the digits are 8 x 8, leave it out")
        from sklearn.datasets import load_digits

        digits = load_digits()
        pixels = np.rint(digits.images * (255.0 / 16.0)).astype(np.uint8)[:, None]
        return _split_test(ImageArrays(pixels, digits.target), "digits", "digits", seed=0)
    if name in IMAGE_DATASETS and not Path(source).exists():
        return _read(_find(name, data_home), name, size, seed)
    path = Path(source).expanduser()
    if not path.exists():
        names = join_names(IMAGE_DATASETS)
        raise FileNotFoundError(
            f"there is no file or folder {str(source)!r}; name one of {names}, an .npz file or a folder"
        )
    return _read(path, path.resolve().stem, size, seed)


def hold_out(y: NDArray[Any], count: int, seed: Any = 0) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows to train on and `count` rows to hold out, stratified by class; both are sorted.

    Of each class at least one row is not held out.

    >>> [rows.tolist() for rows in hold_out(np.array([0, 0, 0, 0, 1, 1]), 3)]
    [[0, 1, 4], [2, 3, 5]]
    """
    classes, index, sizes = np.unique(y, return_inverse=True, return_counts=True)
    if not 0 <= count <= len(y) - len(classes):
        raise ValueError(
            f"{count} images of {len(y)} cannot be held out, because each of {len(classes)} classes needs one for "
            "training; hold out fewer"
        )
    shuffled = np.random.default_rng(seed).permutation(len(y))
    order = shuffled[np.argsort(index[shuffled], kind="stable")]
    rank_in_class = np.arange(len(y)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    class_size = np.repeat(sizes, sizes)
    quantile = np.where(rank_in_class == class_size - 1, np.inf, (rank_in_class + 0.5) / class_size)
    held_out = order[np.argsort(quantile, kind="stable")[:count]]
    return np.setdiff1d(np.arange(len(y)), held_out), np.sort(held_out)


def _find(name: str, data_home: str | Path | None) -> Path:
    """Return the path in the data home that holds a named dataset."""
    home = find_home(data_home)
    candidates = (f"{name}.npz", f"{name}/{name}.npz", *IMAGE_DATASETS[name])
    for path in (home / candidate for candidate in candidates):
        if path.is_file() or (path.is_dir() and _layout(path) not in (None, "classes")):
            return path
    contents = {"tinyimagenet": "train and val", "cifar10": CIFAR10_FILES[0], "cifar100": "train.bin"}
    content = contents.get(name, IDX_NAMES["train"][0])
    pickled = "; the pickled (Python) version is not read, use the binary one" if name.startswith("cifar") else ""
    raise FileNotFoundError(
        f"{name} is not in {str(home)!r}: none of {join_names(candidates)} is an .npz file or a folder with "
        f"{content}{pickled}; name another folder with data_home=FOLDER, or with {DATA_HOME}"
    )


def _layout(folder: Path) -> str | None:
    """Return the layout of a folder, inferred from the names in it."""
    names = {path.name.split(".gz")[0].replace(".idx", "-idx") for path in folder.iterdir()}
    if names & {name for pair in IDX_NAMES.values() for name in pair}:
        return "idx"
    if names & set(CIFAR10_FILES):
        return "cifar10"
    if {"train.bin", "test.bin"} & names:
        return "cifar100"
    if (folder / "val" / "val_annotations.txt").is_file():
        return "tinyimagenet"
    if (folder / "train").is_dir() and any((folder / name).is_dir() for name in ("test", "val")):
        return "parts"
    return "classes" if class_folders(folder) else None


def _read(path: Path, name: str, size: int | None, seed: int) -> ImageDataset:
    """Read a file or folder of any layout."""
    layout = "npz" if path.is_file() else _layout(path)
    if layout is None:
        hint = "; put the images of each class into a folder" if find_images(path) else ""
        raise ValueError(f"{str(path)!r} has neither image files of a known layout nor a folder for each class{hint}")
    if path.is_file() and path.suffix.lower() != ".npz":
        raise ValueError(f"{str(path)!r} ends in {path.suffix!r}; give an .npz file or a folder")
    if size is not None and layout not in ("classes", "parts", "tinyimagenet"):
        raise ValueError(f"size={size} is for folders of images; the images of {str(path)!r} have a size, leave it out")
    if layout == "classes":
        if {folder.name for folder in class_folders(path)} <= {"train", "test", "val"}:
            raise ValueError(
                f"{str(path)!r} has no train, or no test (or val) folder; it needs both, or give a folder of "
                "class folders alone"
            )
        return _split_test(read_class_folders([path], size)[0], name, str(path), seed)
    test_folder = path / ("test" if (path / "test").is_dir() else "val")
    readers: dict[str, Callable[[], Iterable[ImageArrays]]] = {
        "npz": lambda: read_npz(path),
        "idx": lambda: [read_idx_folder(path, part) for part in ("train", "test")],
        "cifar10": lambda: [read_cifar([path / f for f in files], 1) for files in (CIFAR10_FILES, ["test_batch.bin"])],
        "cifar100": lambda: [read_cifar([path / file], 2) for file in ("train.bin", "test.bin")],
        "tinyimagenet": lambda: read_tiny_imagenet(path, size),
        "parts": lambda: read_class_folders([path / "train", test_folder], size),
    }
    train, test = readers[layout]()
    classes = CLASS_NAMES.get("cifar10" if layout == "cifar10" else name)
    names_file = path / "fine_label_names.txt"
    if layout == "cifar100" and names_file.is_file():
        classes = names_file.read_text(encoding="utf-8").split()
    return _assemble(train, test, name, str(path), classes)


def _split_test(part: ImageArrays, name: str, source: str, seed: int) -> ImageDataset:
    """Hold out a test part."""
    count = int(TEST_SHARE * len(part.y))
    if not 0 < count <= len(part.y) - len(np.unique(part.y)):
        raise ValueError(
            f"{source!r} has {len(part.y)} images of {len(np.unique(part.y))} classes, too few to hold out one in five "
            "and train on each class; give more, or train and test folders"
        )
    train, test = (ImageArrays(part.x[rows], part.y[rows]) for rows in hold_out(part.y, count, seed))
    return _assemble(train, test, name, source, None)


def _assemble(train: ImageArrays, test: ImageArrays, name: str, source: str, classes: list[str] | None) -> ImageDataset:
    """Check that the parts belong together, and encode the labels as class indices."""
    for part, title in ((train, "training"), (test, "test")):
        if len(part.x) != len(part.y):
            raise ValueError(f"{source!r} has {len(part.x)} {title} images and {len(part.y)} labels; give one for each")
        if not len(part.x):
            raise ValueError(f"{source!r} has no {title} images; it needs some of each class")
    if train.x.shape[1:] != test.x.shape[1:]:
        shapes = f"training images {train.x.shape[1:]} and test images {test.x.shape[1:]}"
        raise ValueError(f"{source!r} has {shapes}; give them one shape")
    known = np.unique(train.y) if classes is None else np.arange(len(classes))
    for part in (train, test):
        unknown = np.setdiff1d(part.y, known)
        if (part.y.dtype.kind == "U" and known.dtype.kind != "U") or len(unknown):
            raise ValueError(
                f"{source!r} has labels {join_names(unknown, 5)} that are not classes; the classes are "
                f"{join_names(known, 12)}"
            )
    y_train, y_test = (np.searchsorted(known, part.y).astype(np.int64) for part in (train, test))
    if len(np.unique(y_train)) < 2:
        raise ValueError(f"{source!r} has training images of one class, {known[y_train[0]]!s}; at least two are needed")
    return ImageDataset(train.x, y_train, test.x, y_test, classes or known.tolist(), name)
