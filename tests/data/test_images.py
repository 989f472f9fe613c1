"""Image files and folders: round trips, and errors that name what is broken."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from genlabel.data.datasets import load_images
from genlabel.data.datasets.image_files import read_cifar, read_idx
from genlabel.data.datasets.images import hold_out

X = np.random.default_rng(0).integers(0, 256, (12, 3, 32, 32), dtype=np.uint8)
Y = np.arange(12) % 3


def idx_bytes(values: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, values.ndim]) + b"".join(size.to_bytes(4, "big") for size in values.shape)
    return header + values.astype(np.uint8).tobytes()


def cifar_bytes(x: np.ndarray, *labels: np.ndarray) -> bytes:
    rows = zip(x, *labels, strict=True)
    return b"".join(bytes(int(label) for label in row[1:]) + row[0].tobytes() for row in rows)


def write_idx(folder: Path, x: np.ndarray, y: np.ndarray, dot: bool = False, packed: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for part, rows in (("train", slice(0, 9)), ("t10k", slice(9, None))):
        for kind, values in (("images-idx3-ubyte", x[rows]), ("labels-idx1-ubyte", y[rows])):
            name = f"{part}-{kind.replace('-idx', '.idx') if dot else kind}"
            content = idx_bytes(values)
            (folder / (name + ".gz" * packed)).write_bytes(gzip.compress(content) if packed else content)


def write_cifar10(folder: Path) -> None:
    folder.mkdir(parents=True)
    for number in range(5):
        rows = slice(2 * number, 2 * number + 2)
        (folder / f"data_batch_{number + 1}.bin").write_bytes(cifar_bytes(X[rows], Y[rows]))
    (folder / "test_batch.bin").write_bytes(cifar_bytes(X[10:], Y[10:]))


def write_cifar100(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, rows in (("train", slice(0, 9)), ("test", slice(9, None))):
        (folder / f"{name}.bin").write_bytes(cifar_bytes(X[rows], Y[rows] + 7, Y[rows]))


def write_npz(path: Path, x: np.ndarray, y: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, x_train=x[:9], y_train=y[:9], x_test=x[9:], y_test=y[9:])


def write_image(path: Path, pixels: np.ndarray) -> None:
    """Write pixels (C, H, W) as a lossless image."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)).save(path, format="PNG")


def write_folder(folder: Path, x: np.ndarray, y: np.ndarray) -> None:
    for number, (pixels, label) in enumerate(zip(x, y, strict=True)):
        write_image(folder / f"class {label}" / f"{number:02}.png", pixels)


def write_tiny(folder: Path) -> None:
    for number in range(9):
        write_image(folder / "train" / f"n{Y[number]}" / "images" / f"{number}.JPEG", X[number])
    for number in range(9, 12):
        write_image(folder / "val" / "images" / f"val_{number}.JPEG", X[number])
    lines = [f"val_{number}.JPEG\tn{Y[number]}\t0\t0\t9\t9" for number in range(9, 12)]
    (folder / "val" / "val_annotations.txt").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("folder", ["mnist", "MNIST/raw", "MNIST"])
@pytest.mark.parametrize("dot, packed", [(False, False), (True, False), (False, True), (True, True)])
def test_idx_files_are_read_back(tmp_path: Path, folder: str, dot: bool, packed: bool) -> None:
    write_idx(tmp_path / folder, X[:, 0], Y, dot, packed)
    images = load_images("mnist", tmp_path)
    np.testing.assert_array_equal(np.concatenate([images.x_train, images.x_test]), X[:, :1])
    np.testing.assert_array_equal(np.concatenate([images.y_train, images.y_test]), Y)
    assert images.x_train.flags.writeable
    assert (images.classes, images.name) == ([0, 1, 2], "mnist")


@pytest.mark.parametrize("folder", ["cifar-10-batches-bin", "cifar10/cifar-10-batches-bin", "cifar10"])
def test_the_binary_cifar10_is_read_back(tmp_path: Path, folder: str) -> None:
    write_cifar10(tmp_path / folder)
    for images in (load_images("cifar10", tmp_path), load_images(tmp_path / folder)):
        np.testing.assert_array_equal(images.x_train, X[:10])
        np.testing.assert_array_equal(images.x_test, X[10:])
        np.testing.assert_array_equal(images.y_train, Y[:10])
        assert images.classes[:3] == ["airplane", "automobile", "bird"]
        assert len(images.classes) == 10


@pytest.mark.parametrize("named", [False, True])
def test_the_binary_cifar100_has_its_fine_labels(tmp_path: Path, named: bool) -> None:
    folder = tmp_path / "cifar-100-binary"
    write_cifar100(folder)
    if named:
        (folder / "fine_label_names.txt").write_text("apple\nbee\ncrab\n")
    images = load_images("cifar100", tmp_path)
    np.testing.assert_array_equal(images.x_train, X[:9])
    np.testing.assert_array_equal(images.y_test, Y[9:])
    assert images.classes == (["apple", "bee", "crab"] if named else [0, 1, 2])


SHAPES = {
    "(N, H, W)": (lambda x: x[:, 0], lambda x: x[:, :1]),
    "(N, H, W, 1)": (lambda x: x[:, 0, :, :, None], lambda x: x[:, :1]),
    "(N, H, W, 3)": (lambda x: x.transpose(0, 2, 3, 1), lambda x: x),
    "(N, C, H, W)": (lambda x: x, lambda x: x),
    "float": (lambda x: x / 255.0, lambda x: x),
}
LABELS = {
    "(N,)": (Y, [0, 1, 2]),
    "(N, 1)": (Y[:, None], [0, 1, 2]),
    "gaps": (np.array([3, 5, 40])[Y], [3, 5, 40]),
    "text": (np.array(["NA", "b", "c"])[Y], ["NA", "b", "c"]),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("labels", LABELS)
def test_an_npz_of_any_shape_is_read_back(tmp_path: Path, shape: str, labels: str) -> None:
    (write, expected), (y, classes) = SHAPES[shape], LABELS[labels]
    write_npz(tmp_path / "mine.npz", write(X), y)
    images = load_images(tmp_path / "mine.npz")
    np.testing.assert_array_equal(np.concatenate([images.x_train, images.x_test]), expected(X))
    np.testing.assert_array_equal(np.concatenate([images.y_train, images.y_test]), Y)
    assert (images.classes, images.name) == (classes, "mine")


@pytest.mark.parametrize(
    "name, path", [("fashion_mnist", "fashion-mnist.npz"), ("cifar10", "cifar10/cifar10.npz"), ("MNIST", "mnist.npz")]
)
def test_a_name_resolves_to_its_npz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, path: str) -> None:
    write_npz(tmp_path / path, X, Y)
    monkeypatch.setenv("GENLABEL_DATA_HOME", str(tmp_path))
    np.testing.assert_array_equal(load_images(name).x_test, X[9:])


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("test", ["test", "val"])
def test_folders_of_class_folders_are_read_back(tmp_path: Path, channels: int, test: str) -> None:
    write_folder(tmp_path / "train", X[:9, :channels], Y[:9])
    write_folder(tmp_path / test, X[9:, :channels], Y[9:])
    images = load_images(tmp_path)
    order = np.argsort(Y[:9], kind="stable")
    np.testing.assert_array_equal(images.x_train, X[:9, :channels][order])
    np.testing.assert_array_equal(images.x_test, X[9:, :channels])
    np.testing.assert_array_equal(images.y_train, Y[:9][order])
    assert images.classes == ["class 0", "class 1", "class 2"]


def test_a_folder_without_a_test_part_is_split(tmp_path: Path) -> None:
    x = np.random.default_rng(1).integers(0, 256, (30, 1, 8, 8), dtype=np.uint8)
    write_folder(tmp_path / "pets", x, np.arange(30) % 3)
    first, again, other = (load_images(tmp_path / "pets", seed=seed) for seed in (0, 0, 1))
    assert (len(first.x_train), len(first.x_test), first.name) == (24, 6, "pets")
    assert np.bincount(first.y_test).tolist() == [2, 2, 2]
    np.testing.assert_array_equal(first.x_test, again.x_test)
    assert not np.array_equal(first.x_test, other.x_test)
    together = {pixels.tobytes() for pixels in np.concatenate([first.x_train, first.x_test])}
    assert together == {pixels.tobytes() for pixels in x}


def test_hidden_files_are_ignored(tmp_path: Path) -> None:
    write_folder(tmp_path, X, Y)
    whole = load_images(tmp_path)
    (tmp_path / "class 0" / "._0.png").write_bytes(b"metadata of macOS")
    write_image(tmp_path / "class 1" / ".ipynb_checkpoints" / "0-checkpoint.png", X[0])
    (tmp_path / ".thumbnails").mkdir()
    np.testing.assert_array_equal(load_images(tmp_path).x_train, whole.x_train)


def test_gray_images_among_color_images_have_three_channels(tmp_path: Path) -> None:
    write_folder(tmp_path, X, Y)
    write_image(tmp_path / "class 0" / "00.png", X[0, :1])
    images = load_images(tmp_path)
    gray = np.repeat(X[0, :1], 3, axis=0)
    every = np.concatenate([images.x_train, images.x_test])
    assert every.shape == (12, 3, 32, 32)
    assert any(np.array_equal(pixels, gray) for pixels in every)


def test_images_of_several_sizes_need_a_size(tmp_path: Path) -> None:
    write_folder(tmp_path, X, Y)
    write_image(tmp_path / "class 2" / "wide.png", np.full((3, 20, 50), 77, np.uint8))
    with pytest.raises(ValueError, match="size"):
        load_images(tmp_path)
    images = load_images(tmp_path, size=16)
    every = np.concatenate([images.x_train, images.x_test])
    assert every.shape == (13, 3, 16, 16)
    assert any((pixels == 77).all() for pixels in every)


def test_tiny_imagenet_is_read_back(tmp_path: Path) -> None:
    write_tiny(tmp_path / "tiny-imagenet-200")
    images = load_images("tinyimagenet", tmp_path)
    np.testing.assert_array_equal(images.x_train, X[:9][np.argsort(Y[:9], kind="stable")])
    np.testing.assert_array_equal(images.x_test, X[9:])
    np.testing.assert_array_equal(images.y_test, Y[9:])
    assert images.classes == ["n0", "n1", "n2"]


def test_digits_are_those_of_scikit_learn() -> None:
    from sklearn.datasets import load_digits

    images, digits = load_images("digits"), load_digits()
    every = np.concatenate([images.x_train, images.x_test])[:, 0] / 255.0
    assert sorted(map(bytes, np.rint(every * 16).astype(np.uint8))) == sorted(
        map(bytes, digits.images.astype(np.uint8))
    )
    counts = np.bincount(images.y_test)
    assert counts.min() >= 34
    assert counts.max() <= 37


@settings(deadline=None, max_examples=40)
@given(arrays(np.uint8, st.tuples(*[st.integers(0, 5)] * 3)))
def test_any_idx_file_is_read_back(tmp_path_factory: pytest.TempPathFactory, values: np.ndarray) -> None:
    path = tmp_path_factory.mktemp("idx") / "file"
    path.write_bytes(idx_bytes(values))
    np.testing.assert_array_equal(read_idx(path, 3), values)


@settings(deadline=None, max_examples=15)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=3), st.integers(1, 2), st.integers(0, 2**32))
def test_any_binary_cifar_files_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], label_bytes: int, seed: int
) -> None:
    rng, folder = np.random.default_rng(seed), tmp_path_factory.mktemp("cifar")
    x = [rng.integers(0, 256, (n, 3, 32, 32), dtype=np.uint8) for n in sizes]
    labels = [rng.integers(0, 100, (label_bytes, n)) for n in sizes]
    paths = [folder / f"{number}.bin" for number in range(len(sizes))]
    for path, pixels, numbers in zip(paths, x, labels, strict=True):
        path.write_bytes(cifar_bytes(pixels, *numbers))
    part = read_cifar(paths, label_bytes)
    np.testing.assert_array_equal(part.x, np.concatenate(x))
    np.testing.assert_array_equal(part.y, np.concatenate(labels, axis=1)[-1])


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 4), min_size=2, max_size=60), st.floats(0.0, 1.0), st.integers(0, 99))
def test_hold_out_is_stratified_and_keeps_a_row_of_each_class(y: list[int], share: float, seed: int) -> None:
    labels = np.array(y)
    count = int(share * (len(y) - len(set(y))))
    train, held_out = hold_out(labels, count, seed)
    assert sorted([*train, *held_out]) == list(range(len(y)))
    assert len(held_out) == count
    assert set(labels[train]) == set(y)
    if count <= len(y) / 2:
        for label in set(y):
            exact = count * float(np.mean(labels == label))
            assert abs(np.sum(labels[held_out] == label) - exact) <= 1.0 + len(set(y)) / 2


def save(**changes: np.ndarray | None):
    def write(home: Path) -> Path:
        good = {"x_train": X[:9], "y_train": Y[:9], "x_test": X[9:], "y_test": Y[9:]}
        np.savez(home / "a.npz", **{key: value for key, value in {**good, **changes}.items() if value is not None})
        return home / "a.npz"

    return write


def content(name: str, data: bytes):
    def write(home: Path) -> Path:
        (home / name).write_bytes(data)
        return home / name

    return write


def idx_with(name: str, data: bytes | None):
    def write(home: Path) -> Path:
        write_idx(home / "idx", X[:, 0], Y)
        (home / "idx" / name).unlink()
        if data is not None:
            (home / "idx" / name).write_bytes(data)
        return home / "idx"

    return write


def cifar_with(name: str, data: bytes | None):
    def write(home: Path) -> Path:
        write_cifar10(home / "c")
        (home / "c" / name).unlink()
        if data is not None:
            (home / "c" / name).write_bytes(data)
        return home / "c"

    return write


def folder_with(name: str, data: bytes | None):
    def write(home: Path) -> Path:
        write_folder(home / "f" / "train", X[:9], Y[:9])
        write_folder(home / "f" / "test", X[9:], Y[9:])
        path = home / "f" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if data is not None:
            path.write_bytes(data)
        return home / "f"

    return write


def empty(home: Path) -> Path:
    return home


def deep(home: Path) -> Path:
    write_folder(home, X, Y)
    Image.fromarray(np.full((32, 32), 40000, np.uint16)).save(home / "class 0" / "deep.png")
    return home


def one_class_folder(home: Path) -> Path:
    write_folder(home, X, np.zeros(12, int))
    return home


def new_class(home: Path) -> Path:
    write_folder(home / "train", X[:9], Y[:9])
    write_folder(home / "test", X[9:], Y[9:] + 1)
    return home


def train_only(home: Path) -> Path:
    write_folder(home / "train", X[:9], Y[:9])
    return home


def no_classes(home: Path) -> Path:
    write_image(home / "a.png", X[0])
    return home


def one_image_per_class(home: Path) -> Path:
    write_folder(home, X[:3], Y[:3])
    return home


IMAGES, TRAIN_LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
BROKEN = {
    "missing keys": (save(x_test=None, y_test=None), "x_test, y_test"),
    "objects": (save(y_train=np.array([1, "a"] * 4 + [None], dtype=object)), "npz"),
    "not a zip file": (content("a.npz", b"hello"), "npz"),
    "truncated zip": (content("a.npz", b"PK\x03\x04" + b"0" * 50), "npz"),
    "bytes as floats": (save(x_train=X[:9].astype(float)), "255"),
    "NaN": (save(x_train=np.full((9, 8, 8), np.nan)), "nan"),
    "integers": (save(x_train=X[:9].astype(np.int64)), "int64"),
    "four channels": (save(x_train=np.zeros((9, 8, 8, 4), np.uint8)), r"\(9, 8, 8, 4\)"),
    "rows": (save(x_train=np.zeros((9, 64), np.uint8)), r"\(9, 64\)"),
    "other test shape": (save(x_test=X[9:, :1]), r"\(1, 32, 32\)"),
    "one-hot labels": (save(y_train=np.eye(3, dtype=int)[Y[:9]]), r"\(9, 3\)"),
    "labels as floats": (save(y_train=Y[:9] / 2), "float64"),
    "too few labels": (save(y_train=Y[:8]), "labels"),
    "new label": (save(y_test=Y[9:] + 5), "'5'"),
    "text instead of numbers": (save(y_test=np.array(["0", "1", "2"])), "labels"),
    "one class": (save(y_train=Y[:9] * 0, y_test=Y[9:] * 0), "class"),
    "no rows": (save(x_test=X[:0], y_test=Y[:0]), "test"),
    "a text file": (content("a.txt", b"x"), ".txt"),
    "empty folder": (empty, "neither"),
    "wrong magic number": (idx_with(IMAGES, b"\0\0\x09\x03" + b"0" * 40), "00000903"),
    "labels for images": (idx_with(IMAGES, idx_bytes(Y)), "00000801"),
    "truncated IDX": (idx_with(IMAGES, idx_bytes(X[:9, 0])[:-5]), "9227"),
    "long IDX": (idx_with(TRAIN_LABELS, idx_bytes(Y[:9]) + b"0"), "17"),
    "other labels": (idx_with(TRAIN_LABELS, idx_bytes(Y[:7])), "labels"),
    "missing IDX": (idx_with(TRAIN_LABELS, None), "train-labels-idx1-ubyte"),
    "truncated CIFAR": (cifar_with("data_batch_2.bin", b"0" * 4000), "4000"),
    "missing CIFAR": (cifar_with("data_batch_4.bin", None), "data_batch_4.bin"),
    "label beyond CIFAR-10": (cifar_with("test_batch.bin", cifar_bytes(X[:1], [77])), "'77'"),
    "broken image": (folder_with("train/class 0/bad.png", b"\x89PNG"), "bad.png"),
    "empty class": (folder_with("train/class 9/notes.txt", b"-"), "class 9"),
    "16 bits": (deep, "bits"),
    "one class folder": (one_class_folder, "class"),
    "no test folder": (train_only, "train"),
    "images without classes": (no_classes, "a folder"),
    "one image per class": (one_image_per_class, "few"),
    "new class folder": (new_class, "class 3"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_files_raise(tmp_path: Path, kind: str) -> None:
    write, message = BROKEN[kind]
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        load_images(write(tmp_path))


def test_a_truncated_gzip_file_is_an_error(tmp_path: Path) -> None:
    write_idx(tmp_path / "mnist", X[:, 0], Y, packed=True)
    path = tmp_path / "mnist" / f"{IMAGES}.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match="gzip"):
        load_images("mnist", tmp_path)


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10", "cifar100", "tinyimagenet"])
def test_a_missing_dataset_names_the_searched_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileNotFoundError, match="GENLABEL_DATA_HOME"):
        load_images(name, tmp_path)


def test_the_pickled_cifar_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "cifar10" / "cifar-10-batches-py").mkdir(parents=True)
    (tmp_path / "cifar10" / "cifar-10-batches-py" / "data_batch_1").write_bytes(b"pickle")
    with pytest.raises(FileNotFoundError, match="pickled"):
        load_images("cifar10", tmp_path)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(FileNotFoundError, match="cifra10"):
        load_images("cifra10")


@pytest.mark.parametrize("source", ["digits", "file"])
def test_size_is_for_image_folders(tmp_path: Path, source: str) -> None:
    write_npz(tmp_path / "a.npz", X, Y)
    with pytest.raises(ValueError, match="size=16"):
        load_images(source if source == "digits" else tmp_path / "a.npz", size=16)


def test_each_class_keeps_an_image() -> None:
    with pytest.raises(ValueError, match="3"):
        hold_out(np.array([0, 0, 1, 1]), 3)
