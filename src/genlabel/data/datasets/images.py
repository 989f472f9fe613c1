"""Images with their classes, by name or from files of the usual kinds or a folder: a training and a test part."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from genlabel._validation import check_count
from genlabel.data.datasets.image_files import IDX_NAMES, ImageArrays, read_cifar, read_idx_part, read_npz
from genlabel.data.datasets.image_folders import class_folders, picture_files, read_class_folders, read_tiny_imagenet
from genlabel.data.datasets.manifest import DATA_HOME, find_home
from genlabel.data.tables.files import join_names

IMAGE_SETS = {
    "mnist": ("mnist.npz", "mnist/mnist.npz", "mnist", "MNIST/raw", "MNIST"),
    "fashion-mnist": (
        "fashion-mnist.npz", "fashion_mnist.npz", "fashion-mnist/fashion-mnist.npz", "fashion-mnist",
        "FashionMNIST/raw", "FashionMNIST",
    ),
    "cifar10": (
        "cifar10.npz", "cifar10/cifar10.npz", "cifar-10-batches-bin", "cifar10/cifar-10-batches-bin", "cifar10",
    ),
    "cifar100": ("cifar100.npz", "cifar100/cifar100.npz", "cifar-100-binary", "cifar100/cifar-100-binary", "cifar100"),
    "tinyimagenet": (
        "tinyimagenet.npz", "tinyimagenet/tinyimagenet.npz", "tiny-imagenet-200", "tinyimagenet/tiny-imagenet-200",
        "tinyimagenet",
    ),
    "digits": (),
}  # fmt: skip
"""The sets that have a name, and the places of the data home where each is looked for; digits are scikit-learn's."""
CLASS_NAMES = {
    "fashion-mnist": ["T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"],
    "cifar10": ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"],
}
CIFAR10_FILES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST_SHARE = 0.2


class ImageSet(NamedTuple):
    """Images and class indices, a training and a test part.

    `load_images` returns it.
    """

    x_train: NDArray[np.uint8]
    """(N, C, H, W)"""
    y_train: NDArray[np.int64]
    """(N,), class indices"""
    x_test: NDArray[np.uint8]
    """(M, C, H, W)"""
    y_test: NDArray[np.int64]
    """(M,)"""
    classes: list[str]
    """The names of the classes, in the order of their indices."""
    name: str


def load_images(
    source: str | Path, data_home: str | Path | None = None, *, size: int | None = None, seed: int = 0
) -> ImageSet:
    """Load images and their classes, a training and a test part.

    Parameters
    ----------
    source : str or Path
        A name: "mnist", "fashion-mnist", "cifar10", "cifar100", "tinyimagenet", or "digits" (8 x 8, of scikit-learn).
        Or a path: an .npz file with x_train, y_train, x_test, y_test; a folder of IDX files, of the binary CIFAR
        version or of TinyImageNet; a folder with train and test (or val), each with a folder for each class; a folder
        with a folder for each class.
    data_home : path, optional
        Where the files of a name lie; else the environment variable GENLABEL_DATA_HOME says so. Nothing is fetched.
    size : int, optional
        Images of folders are scaled and cut to `size` x `size`.
    seed : int
        Of the test part, one image in five, where the source has none.

    Returns
    -------
    ImageSet
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
        return _digits(size)
    if name in IMAGE_SETS and not Path(source).exists():
        return _read(_find(name, data_home), name, size, seed)
    path = Path(source).expanduser()
    if not path.exists():
        raise FileNotFoundError(
            f"there is no file or folder {str(source)!r}; name one of {join_names(IMAGE_SETS)}, an .npz file or a "
            f"folder"
        )
    return _read(path, path.resolve().stem, size, seed)


def hold_out(y: NDArray[Any], count: int, seed: Any = 0) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows that stay and `count` rows that are held out, each class with its share; both sorted.

    A class keeps at least one row.

    >>> [rows.tolist() for rows in hold_out(np.array([0, 0, 0, 0, 1, 1]), 3)]
    [[0, 1, 4], [2, 3, 5]]
    """
    classes, index, sizes = np.unique(y, return_inverse=True, return_counts=True)
    if not 0 <= count <= len(y) - len(classes):
        raise ValueError(
            f"{count} images of {len(y)} cannot be held out: each of {len(classes)} classes keeps one; take fewer"
        )
    shuffled = np.random.default_rng(seed).permutation(len(y))
    order = shuffled[np.argsort(index[shuffled], kind="stable")]
    rank = np.arange(len(y)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    size = np.repeat(sizes, sizes)
    place = np.where(rank == size - 1, np.inf, (rank + 0.5) / size)
    held = order[np.argsort(place, kind="stable")[:count]]
    return np.setdiff1d(np.arange(len(y)), held), np.sort(held)


def _find(name: str, data_home: str | Path | None) -> Path:
    """The place in the data home that holds the set of a name."""
    home = find_home(data_home) or Path(os.environ.get("SCIKIT_LEARN_DATA", "~/scikit_learn_data")).expanduser()
    places = [home / place for place in IMAGE_SETS[name]]
    for place in places:
        if place.is_file() or (place.is_dir() and (_layout(place) not in (None, "classes") or _has_parts(place))):
            return place
    files = {"tinyimagenet": "train and val", "cifar10": CIFAR10_FILES[0], "cifar100": "train.bin"}
    pickled = "; the pickled (Python) version is not read, take the binary one" if name.startswith("cifar") else ""
    raise FileNotFoundError(
        f"{name} is not in {str(home)!r}; looked for the .npz file or for the folder of "
        f"{files.get(name, IDX_NAMES['train'][0])}: {join_names(IMAGE_SETS[name])}{pickled}; name another folder with "
        f"data_home=..., on the command line --data-home, or with {DATA_HOME}"
    )


def _layout(folder: Path) -> str | None:
    """What a folder holds, told from the names in it."""
    names = {path.name.split(".gz")[0].replace(".idx", "-idx") for path in folder.iterdir()}
    if names & {name for pair in IDX_NAMES.values() for name in pair}:
        return "idx"
    if names & set(CIFAR10_FILES):
        return "cifar10"
    if {"train.bin", "test.bin"} & names:
        return "cifar100"
    if (folder / "val" / "val_annotations.txt").is_file():
        return "tinyimagenet"
    return "classes" if class_folders(folder) else None


def _read(path: Path, name: str, size: int | None, seed: int) -> ImageSet:
    """Read what lies at a path."""
    layout = "npz" if path.is_file() else _layout(path)
    if layout is None:
        pictures = "; its pictures have no classes: put those of each class into a folder" * bool(picture_files(path))
        raise ValueError(
            f"{str(path)!r} holds neither image files of a known kind nor a folder for each class{pictures}"
        )
    if path.is_file() and path.suffix.lower() != ".npz":
        raise ValueError(f"{str(path)!r} ends in {path.suffix!r}; give an .npz file or a folder")
    if size is not None and layout not in ("classes", "tinyimagenet"):
        raise ValueError(
            f"size={size} is for folders of pictures; the images of {str(path)!r} have a size, leave it out"
        )
    if layout == "classes" and not _has_parts(path):
        if {folder.name for folder in class_folders(path)} <= {"train", "test", "val"}:
            raise ValueError(
                f"{str(path)!r} has no train, or no test (or val) folder; it needs both, or give a folder of "
                "class folders alone"
            )
        return _cut(read_class_folders([path], size)[0], name, str(path), seed)
    return _assemble(*_read_parts(path, layout, size), name, str(path), _class_names(path, layout, name))


def _class_names(path: Path, layout: str, name: str) -> list[str] | None:
    """Names for the numbers 0, 1, ... that the files have; None where there are none."""
    listing = path / "fine_label_names.txt"
    if layout == "cifar100" and listing.is_file():
        return listing.read_text(encoding="utf-8").split()
    return CLASS_NAMES.get("cifar10" if layout == "cifar10" else name)


def _read_parts(path: Path, layout: str, size: int | None) -> tuple[ImageArrays, ImageArrays]:
    """Both parts of a file or folder that has them."""
    if layout == "npz":
        return read_npz(path)
    if layout == "idx":
        return read_idx_part(path, "train"), read_idx_part(path, "test")
    if layout == "cifar10":
        return read_cifar([path / file for file in CIFAR10_FILES], 1), read_cifar([path / "test_batch.bin"], 1)
    if layout == "cifar100":
        return read_cifar([path / "train.bin"], 2), read_cifar([path / "test.bin"], 2)
    if layout == "tinyimagenet":
        train, test = read_tiny_imagenet(path, size)
    else:
        train, test = read_class_folders([path / "train", _test_folder(path)], size)
    return train, test


def _has_parts(folder: Path) -> bool:
    return (folder / "train").is_dir() and _test_folder(folder).is_dir()


def _test_folder(folder: Path) -> Path:
    return folder / "test" if (folder / "test").is_dir() else folder / "val"


def _digits(size: int | None) -> ImageSet:
    from sklearn.datasets import load_digits

    if size is not None:
        raise ValueError(f"size={size} is for folders of pictures; the digits are 8 x 8, leave it out")
    digits = load_digits()
    pixels = np.rint(digits.images * (255.0 / 16.0)).astype(np.uint8)[:, None]
    return _cut(ImageArrays(pixels, digits.target), "digits", "digits", seed=0)


def _cut(part: ImageArrays, name: str, where: str, seed: int) -> ImageSet:
    """Cut a test part off."""
    count = int(TEST_SHARE * len(part.y))
    if not 0 < count <= len(part.y) - len(np.unique(part.y)):
        raise ValueError(
            f"{where!r} has {len(part.y)} images of {len(np.unique(part.y))} classes: too few to hold one in five for "
            "the test, where each class keeps one; give more, or train and test folders"
        )
    kept, held = hold_out(part.y, count, seed)
    return _assemble(
        ImageArrays(part.x[kept], part.y[kept]), ImageArrays(part.x[held], part.y[held]), name, where, None
    )


def _assemble(train: ImageArrays, test: ImageArrays, name: str, where: str, classes: list[str] | None) -> ImageSet:
    """Check that the parts belong together, and number the classes."""
    for part, what in ((train, "training"), (test, "test")):
        if len(part.x) != len(part.y):
            raise ValueError(f"{where!r} has {len(part.x)} {what} images and {len(part.y)} labels; each needs its own")
        if not len(part.x):
            raise ValueError(f"{where!r} has no {what} images; it needs some of each class")
    if train.x.shape[1:] != test.x.shape[1:]:
        raise ValueError(
            f"{where!r} has training images {train.x.shape[1:]} and test images {test.x.shape[1:]}; give them one shape"
        )
    known = np.unique(train.y) if classes is None else np.arange(len(classes))
    y_train, y_test = (_number(part.y, known, where) for part in (train, test))
    if len(np.unique(y_train)) < 2:
        raise ValueError(
            f"{where!r} has training images of one class, {known[y_train[0]]!s}; it takes two to tell apart"
        )
    return ImageSet(train.x, y_train, test.x, y_test, classes or [str(label) for label in known], name)


def _number(y: NDArray[Any], known: NDArray[Any], where: str) -> NDArray[np.int64]:
    """The place of each label among the classes."""
    unknown = np.setdiff1d(y, known)
    if (y.dtype.kind == "U" and known.dtype.kind != "U") or len(unknown):
        raise ValueError(
            f"{where!r} has labels {join_names(unknown, 5)} that are no classes; those are {join_names(known, 12)}"
        )
    return np.searchsorted(known, y).astype(np.int64)
