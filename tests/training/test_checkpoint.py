"""Test that a stopped run resumes bit for bit, and that files of other runs raise."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from genlabel._progress import LambdaCallback
from genlabel.densities import OnlineGaussianDensity
from genlabel.labeling import Labeler, OnlineGenLabel
from genlabel.mixing import CutMix, ManifoldMixup, Mixup
from genlabel.training import SGD, Checkpoint, ImageBatches, train_network
from genlabel.training.adamixup import train_adamixup_network
from genlabel.training.networks import MLP, LeNet5, ResNet18, StagedNetwork
from genlabel.training.networks.convolutional import SmallConvNet

# The networks are untrained, so that generative labels are poor.
pytestmark = pytest.mark.filterwarnings("ignore::genlabel.densities.base.DensityWarning")

RNG = np.random.default_rng(0)
X, Y = torch.from_numpy(RNG.normal(size=(30, 4))).float(), torch.arange(30) % 3
IMAGES, CLASSES = RNG.integers(0, 256, (24, 1, 8, 8), dtype=np.uint8), np.arange(24) % 3
TABLE = [(X[:15], Y[:15]), (X[15:], Y[15:])]


class StoppedError(Exception):
    """An error that stops a run."""


def stop_after(epochs: int) -> Callable[[int, Tensor], None]:
    """Return a callback that raises in an epoch, whose state is lost."""

    def callback(epoch: int, logs: Any) -> None:
        if epoch == epochs:
            raise StoppedError

    return callback


def online(**more: Any) -> Labeler:
    return OnlineGenLabel(OnlineGaussianDensity(3, temperature="mixup", **more), 0.5, warmup_steps=5)


Run = tuple[StagedNetwork, Any, dict[str, Any]]
RUNS: dict[str, Callable[[], Run]] = {
    "Adam": lambda: (MLP(4, 3, (6,), seed=0), TABLE, {}),
    "SGD, mixup": lambda: (MLP(4, 3, (6,), seed=0), TABLE, {"mixer": Mixup(), "optimizer": SGD()}),
    "manifold": lambda: (MLP(4, 3, (6,), seed=0), TABLE, {"mixer": ManifoldMixup(depths=(0, 1))}),
    "online, near": lambda: (MLP(4, 3, (6,), seed=0), TABLE, {"mixer": Mixup(0.3), "labeler": online()}),
    "images, batch norm": lambda: (
        ResNet18(3, 1, width=2, seed=0),
        ImageBatches(IMAGES, CLASSES, batch_size=12, mixer=CutMix(pixels=64), augment=True, seed=3),
        {"optimizer": SGD()},
    ),
    "images, online, clean": lambda: (
        LeNet5(3, size=8, seed=0),
        ImageBatches(IMAGES, CLASSES, batch_size=12, mixer=Mixup(), seed=3),
        {"labeler": online(statistics="clean", covariance="diagonal")},
    ),
}


def train(run: Run, path: Path | None, every: int = 1, **options: Any) -> tuple[np.ndarray, list[Tensor]]:
    """Train for six epochs; return the losses and all learned values."""
    network, batches, settings = run
    state = {"batches": batches} if isinstance(batches, ImageBatches) else {}
    file = None if path is None else Checkpoint(path, state, every)
    losses = train_network(
        network, batches, **{"epochs": 6, "seed": 1, "learning_rate": 0.01, "checkpoint": file, **settings, **options}
    )
    learned = [network, *([settings["labeler"].state] if "labeler" in settings else [])]
    return losses, [value for module in learned for value in module.state_dict().values()]


def equal(first: list[Tensor], second: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("stop, every", [(1, 1), (4, 1), (3, 2), (5, 2)])
def test_a_stopped_run_resumes_bit_for_bit(name: str, stop: int, every: int, tmp_path: Path) -> None:
    losses, learned = train(RUNS[name](), None)
    path = tmp_path / "deep" / "run.pt"
    with pytest.raises(StoppedError):
        train(RUNS[name](), path, every, callback=LambdaCallback(on_epoch_end=stop_after(stop)))
    epochs: list[int] = []
    again, relearned = train(
        RUNS[name](), path, every, callback=LambdaCallback(on_epoch_end=lambda epoch, loss: epochs.append(epoch))
    )
    assert epochs == list(range(stop - stop % every, 6))
    np.testing.assert_array_equal(again, losses)
    assert equal(relearned, learned)


def test_a_shuffled_loader_resumes_with_its_generator(tmp_path: Path) -> None:
    """The caller passes the generator of a DataLoader to Checkpoint, which saves its state."""

    class GeneratorState:
        def __init__(self, generator: torch.Generator) -> None:
            self.generator = generator

        def state_dict(self) -> dict[str, Tensor]:
            return {"state": self.generator.get_state()}

        def load_state_dict(self, state_dict: dict[str, Tensor]) -> None:
            self.generator.set_state(state_dict["state"])

    def run(path: Path | None, **more: Any) -> np.ndarray:
        generator = torch.Generator().manual_seed(5)
        loader = DataLoader(TensorDataset(X, Y), batch_size=10, shuffle=True, generator=generator)
        file = None if path is None else Checkpoint(path, {"order": GeneratorState(generator)})
        return train_network(
            MLP(4, 3, seed=0), loader, mixer=Mixup(), epochs=6, seed=1, checkpoint=file, learning_rate=0.01, **more
        )

    with pytest.raises(StoppedError):
        run(tmp_path / "run.pt", callback=LambdaCallback(on_epoch_end=stop_after(3)))
    np.testing.assert_array_equal(run(tmp_path / "run.pt"), run(None))


def test_adamixup_resumes_bit_for_bit(tmp_path: Path) -> None:
    def run(path: Path | None, **more: Any) -> tuple[np.ndarray, list[Tensor]]:
        network, judges = (
            LeNet5(3, size=8, seed=0),
            (SmallConvNet(2, 3, width=4, seed=1), SmallConvNet(1, 2, width=4, seed=2)),
        )
        batches = ImageBatches(IMAGES, CLASSES, batch_size=12, mixer=Mixup(), seed=3)
        file = None if path is None else Checkpoint(path, {"batches": batches})
        losses = train_adamixup_network(
            network, batches, policy=judges[0], critic=judges[1], epochs=5, learning_rate=0.01, checkpoint=file, **more
        )
        return losses, [value for net in (network, *judges) for value in net.state_dict().values()]

    with pytest.raises(StoppedError):
        run(tmp_path / "run.pt", callback=LambdaCallback(on_epoch_end=stop_after(2)))
    (losses, learned), (again, relearned) = run(None), run(tmp_path / "run.pt")
    np.testing.assert_array_equal(again, losses)
    assert equal(relearned, learned)


def test_a_complete_run_is_not_trained_again(tmp_path: Path) -> None:
    first, learned = train(RUNS["online, near"](), tmp_path / "run.pt", every=4)
    again, relearned = train(
        RUNS["online, near"](), tmp_path / "run.pt", callback=LambdaCallback(on_epoch_end=stop_after(0))
    )
    np.testing.assert_array_equal(again, first)
    assert equal(relearned, learned)


def test_the_file_holds_plain_data(tmp_path: Path) -> None:
    train(RUNS["images, online, clean"](), tmp_path / "run.pt")
    content = torch.load(tmp_path / "run.pt", weights_only=True)
    assert set(content) == {"network", "labeler", "batches", "optimizer", "losses", "rng"}
    assert len(content["losses"]) == 6
    assert os.listdir(tmp_path) == ["run.pt"]


@pytest.mark.parametrize(
    "make_run, match",
    [
        (lambda: (MLP(4, 3, (7,), seed=0), TABLE, {}), "network"),
        (lambda: (MLP(4, 3, (6, 6), seed=0), TABLE, {}), "network"),
        (
            lambda: (MLP(4, 3, (6,), seed=0), TABLE, {"labeler": online()}),
            "labeler",
        ),
        (
            lambda: (MLP(4, 3, (6,), seed=0), ImageBatches(IMAGES, CLASSES), {}),
            "batches",
        ),
        (
            lambda: (MLP(4, 3, (6,), seed=0), TABLE, {"optimizer": SGD()}),
            "optimizer",
        ),
        (
            lambda: (MLP(4, 3, (6,), seed=0), TABLE, {"weight_decay": 0.25}),
            "weight_decay",
        ),
    ],
    ids=["width", "depth", "labeler", "batches", "optimizer", "weight decay"],
)
def test_a_file_of_another_run_raises(make_run: Callable[[], Run], match: str, tmp_path: Path) -> None:
    train(RUNS["Adam"](), tmp_path / "run.pt")
    with pytest.raises(ValueError, match=match):
        train(make_run(), tmp_path / "run.pt")


@pytest.mark.parametrize("content", [b"", b"no file of torch", "cut off", "a list", "a dictionary"], ids=str)
def test_a_file_that_is_not_a_checkpoint_raises(content: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    train(RUNS["Adam"](), path)
    if content == "cut off":
        content = path.read_bytes()[:700]
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save([1] if content == "a list" else {"network": 1}, path)
    with pytest.raises(ValueError, match=r"run\.pt"):
        train(RUNS["Adam"](), path)


def test_checkpoints_are_written_every_second_epoch_and_at_the_end(tmp_path: Path) -> None:
    """Every second epoch, and after the last one."""
    path, epochs_in_file = tmp_path / "run.pt", []

    def callback(epoch: int, logs: Any) -> None:
        epochs_in_file.append(len(torch.load(path, weights_only=True)["losses"]) if path.exists() else 0)

    train(RUNS["Adam"](), path, every=2, epochs=5, callback=LambdaCallback(on_epoch_end=callback))
    assert epochs_in_file == [0, 0, 2, 2, 4]
    assert len(torch.load(path, weights_only=True)["losses"]) == 5
    with pytest.raises(ValueError, match="every=0"):
        Checkpoint(path, every=0)
