"""Test the training loop of one network: batches, labels, modes, images, and no synchronization of the GPU."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from genlabel._arrays import one_hot, to_device
from genlabel.densities import ClassDensity, GaussianDensity, KernelDensity, StackedDensity
from genlabel.labeling import GenLabel, Labeler, LinearLabel
from genlabel.labeling.base import WeightedLabel
from genlabel.mixing import CutMix, ManifoldMixup, Mixer, MixParams, Mixup
from genlabel.mixing.base import BatchInfo, blend
from genlabel.training import SGD, train_network
from genlabel.training.batching import Batch, BatchPlan, Hyperparameters, TrainingTask
from genlabel.training.fleet_trainer import train_fleet
from genlabel.training.loop import soft_cross_entropy
from genlabel.training.networks import MLP, StagedNetwork
from genlabel_paper.runs.genmix import train_task

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def clusters(n: int = 60, seed: int = 0) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return torch.from_numpy(rng.normal(size=(n, 4)) + 3 * np.eye(4)[y]), torch.from_numpy(y)


def images(n: int = 48) -> tuple[Tensor, Tensor]:
    """Noise with a bright upper, lower or left half."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    x = rng.normal(size=(n, 1, 8, 8))
    x[y == 0, :, :4] += 1.5
    x[y == 1, :, 4:] += 1.5
    x[y == 2, :, :, :4] += 1.5
    return torch.from_numpy(x).float(), torch.from_numpy(y)


class SmallConvolution(StagedNetwork):
    """Two stages with batch normalization and dropout, then a linear layer."""

    depth = 2

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stages = nn.ModuleList(
            [
                nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()),
                nn.Sequential(
                    nn.Conv2d(8, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Dropout(0.1)
                ),
            ]
        )
        self.head = nn.Linear(8 * 9, 3)

    def encode(self, x: Tensor, depth: int, start: int = 0) -> Tensor:
        for stage in self.stages[start:depth]:
            x = stage(x)
        return x

    def decode(self, h: Tensor, depth: int) -> Tensor:
        return self.head(self.encode(h, self.depth, start=depth))


class RunningMeans(Labeler):
    """An online labeler: a posterior from moving averages of the mean features of each class.

    The softmax of minus half the squared distances is the posterior of spherical Gaussians (as arXiv Alg. 3, whose
    covariances it leaves out), averaged with the mixup label.
    """

    update_source: ClassVar[str | None] = "clean"

    def __init__(self, gamma: float = 0.3, momentum: float = 0.9) -> None:
        self.gamma = gamma
        self.momentum = momentum
        self.observed = 0

    def observe(self, features: Tensor, targets: Tensor, draw: MixParams) -> None:
        mass = targets.sum(0)[:, None]
        means = targets.T @ features / mass.clamp_min(1e-9)
        first = self.observed == 0
        self.means_ = (
            means if first else torch.where(mass > 0, torch.lerp(means, self.means_, self.momentum), self.means_)
        )
        self.observed += 1

    def _label(self, x_mix: Tensor, targets: Tensor, draw: MixParams, info: BatchInfo) -> Tensor:
        nearest = torch.softmax(-0.5 * (x_mix[:, None] - self.means_).square().sum(-1), 1)
        return self.gamma * nearest + (1.0 - self.gamma) * blend(targets, draw)


class MeansOfMixed(RunningMeans):
    """The same from mixed samples that are almost clean, without a second pass through the network."""

    update_source: ClassVar[str | None] = "mixed"

    def observe(self, features: Tensor, targets: Tensor, draw: MixParams) -> None:
        near = to_device(draw.lam, features) > 0.8
        super().observe(features, targets * near[:, None], draw)


def accuracy(network: StagedNetwork, x: Tensor, y: Tensor) -> float:
    network.eval()
    with torch.no_grad():
        return float((network(x).argmax(1) == y).double().mean())


@pytest.mark.parametrize("mixer", [None, Mixup(), ManifoldMixup(depths=(0, 1))], ids=repr)
def test_a_loader_trains_as_a_plan_with_the_same_draws(mixer: Mixer | None) -> None:
    """Batches of x and y, drawn in the step, against the plan of a task of one batch."""
    x, y = clusters()
    task = TrainingTask(x.numpy(), y.numpy(), 3, (LinearLabel(),), mixer, seed=4)
    networks = [MLP(4, 3, (6,), seed=1, dtype=torch.float64) for _ in range(2)]
    planned = train_task(networks[0], task, Hyperparameters(0.05), epochs=4)
    rng = np.random.default_rng(4)

    class Loader:
        def __iter__(self) -> Iterator[list[Tensor]]:
            order = torch.from_numpy(rng.permutation(60))
            return iter([[x[order], y[order]]])

    losses = train_network(networks[1], Loader(), mixer=mixer, learning_rate=0.05, epochs=4, seed=rng)
    np.testing.assert_allclose(losses, planned, rtol=1e-9)
    for first, second in zip(networks[0].parameters(), networks[1].parameters(), strict=True):
        torch.testing.assert_close(first, second, rtol=1e-8, atol=1e-10)


def test_a_torch_loader_of_classes_weights_and_soft_labels() -> None:
    """Class indices, equal weights and one-hot labels give equal losses."""
    x, y = clusters()
    weight = torch.rand(60, generator=torch.Generator().manual_seed(0))
    weight = weight / weight.sum()
    settings = {"mixer": Mixup(), "epochs": 3, "learning_rate": 0.05}

    def run(*data: Tensor) -> Any:
        loader = DataLoader(TensorDataset(*data), batch_size=60)
        return train_network(MLP(4, 3, seed=0, dtype=torch.float64), loader, seed=0, **settings)

    hard, soft = run(x, y), run(x, one_hot(y, 3, torch.float64))
    np.testing.assert_array_equal(hard, soft)
    equal = run(x, y, torch.full((60,), 1 / 60, dtype=torch.float64))
    np.testing.assert_allclose(hard, equal, rtol=1e-12)
    assert not np.allclose(hard, run(x, y, weight))
    np.testing.assert_allclose(run(x, y, weight), run(x, y, 7.0 * weight), rtol=1e-6)
    smooth = run(x, 0.9 * one_hot(y, 3, torch.float64) + 0.1 / 3)
    assert smooth[0] != hard[0]


def test_soft_targets_of_a_task_are_mixed() -> None:
    x, _ = clusters(30)
    soft = np.random.default_rng(0).dirichlet(np.ones(3), 30)
    steps = BatchPlan(TrainingTask(x.numpy(), soft, 3, (LinearLabel(),), Mixup(), seed=2), 1, x[0]).steps(1)
    rng = np.random.default_rng(2)
    order = rng.permutation(30)
    draw = Mixup().draw(30, rng)
    np.testing.assert_allclose(steps.target[0, :, :, 0], blend(soft[order], draw), rtol=1e-14)


@pytest.mark.parametrize("mixer", [Mixup(), CutMix(), CutMix(pixels=8, lam_per="batch"), ManifoldMixup()], ids=repr)
def test_images_are_learned(mixer: Mixer) -> None:
    x, y = images()
    network = SmallConvolution()
    loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True, generator=torch.Generator().manual_seed(0))
    losses = train_network(network, loader, mixer=mixer, learning_rate=0.01, epochs=15, seed=0)
    assert losses[-1] < losses[0]
    assert accuracy(network, x, y) > 0.8


def test_a_task_of_images_is_mixed_and_keeps_clean_rows() -> None:
    x, y = images(20)
    mixer = CutMix(pixels=8)
    task = TrainingTask(x.double().numpy(), y.numpy(), 3, (LinearLabel(),), mixer, clean_fraction=0.25, seed=3)
    batches = list(BatchPlan(task, 2, torch.zeros(())))
    assert [len(batch.x) for batch in batches] == [10, 10]
    steps = BatchPlan(task, 2, torch.zeros(())).steps(1)
    for t, batch in enumerate(batches):
        assert batch.draw is not None
        assert batch.draw.box is not None
        mixed = mixer.mix(batch.x, batch.draw)
        torch.testing.assert_close(steps.x[t], mixed)
        assert torch.equal(mixed[:2], batch.x[:2])
        np.testing.assert_allclose(steps.target[t, :, :, 0], blend(batch.y, batch.draw), atol=1e-6)
    network = SmallConvolution()
    losses = train_task(network, task, Hyperparameters(0.01), epochs=10, batch_size=10)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("labeler", [RunningMeans(), MeansOfMixed()], ids=repr)
@pytest.mark.parametrize("mixer", [Mixup(0.5), ManifoldMixup(0.5, (0, 1), "sample")], ids=repr)
def test_a_labeler_learns_while_the_network_trains(labeler: RunningMeans, mixer: Mixer) -> None:
    x, y = clusters(90)
    network = MLP(4, 3, (8,), seed=0, dtype=torch.float64)
    labeler = type(labeler)()
    loader = [(x[part], y[part]) for part in (slice(0, 30), slice(30, 60), slice(60, 90))]
    losses = train_network(network, loader, mixer=mixer, labeler=labeler, learning_rate=0.02, epochs=30, seed=0)
    assert labeler.observed == 90
    assert losses[-1] < losses[0]
    assert accuracy(network, x, y) > 0.9
    features = network.encode(x, 1).detach()
    expected = torch.stack([features[y == c].mean(0) for c in range(3)])
    assert float((labeler.means_ - expected).norm() / expected.norm()) < 0.3


def test_a_learning_labeler_is_a_step_of_algorithm_3_by_hand() -> None:
    """One step: observe clean features, label features of mixed samples, compute the loss."""
    x, y = clusters(12)
    network, labeler = MLP(4, 3, (5,), seed=0, dtype=torch.float64), RunningMeans(gamma=0.7)
    draw = Mixup().draw(12, 3)
    targets = one_hot(y, 3, torch.float64)
    with torch.no_grad():
        means = torch.stack([network.encode(x[y == c], 1).mean(0) for c in range(3)])
        mixed = network.encode(blend(x, draw), 1)
        nearest = torch.softmax(-0.5 * torch.cdist(mixed, means).square(), 1)
        label = 0.7 * nearest + 0.3 * blend(targets, draw)
        expected = soft_cross_entropy(network.decode(mixed, 1), label, torch.full((12,), 1 / 12, dtype=torch.float64))
    (loss,) = train_network(
        network, [Batch(x, y, draw=draw)], mixer=Mixup(), labeler=labeler, learning_rate=1e-12, epochs=1
    )
    assert loss == pytest.approx(float(expected), rel=1e-9)


def test_training_restores_the_mode_of_the_network() -> None:
    x, y = images(12)
    training_modes: list[bool] = []
    network = SmallConvolution()
    network.stages[0].register_forward_hook(lambda module, *_: training_modes.append(module.training))
    for mode in (True, False):
        network.train(mode)
        train_network(network, [(x, y)], mixer=Mixup(), epochs=2, learning_rate=1e-3, seed=0)
        assert network.training == mode
    assert training_modes == [True] * 4

    class Broken(Mixer):
        def draw(self, n: int, rng: Any = None, x: Any = None, y: Any = None) -> MixParams:
            raise RuntimeError("no draw")

    network.eval()
    with pytest.raises(RuntimeError, match="no draw"):
        train_network(network, [(x, y)], mixer=Broken(), epochs=1)
    assert not network.training


def test_a_custom_mixer_mixes_hidden_layers() -> None:
    """The loop calls the mixer at any depth; a fleet does not support this mixer."""

    class First(Mixer):
        max_depth = 1

        def draw(self, n: int, rng: Any = None, x: Any = None, y: Any = None) -> MixParams:
            return MixParams(np.zeros(n, dtype=np.int64), np.zeros(n), 1)

        def mix(self, X: Any, draw: MixParams) -> Any:
            return X[torch.as_tensor(draw.partner)]

    x, y = clusters(9)
    network = MLP(4, 3, (5,), seed=0, dtype=torch.float64)
    with torch.no_grad():
        scores = network(x[:1]).expand(9, -1)
        expected = soft_cross_entropy(
            scores, one_hot(y[:1], 3, torch.float64), torch.full((9,), 1 / 9, dtype=torch.float64)
        )
    (loss,) = train_network(network, [(x, y)], mixer=First(), learning_rate=1e-12, epochs=1)
    assert loss == pytest.approx(float(expected), rel=1e-9)


def test_exhausted_batches_and_too_deep_mixers_raise() -> None:
    x, y = clusters(9)
    with pytest.raises(ValueError, match="batches"):
        train_network(MLP(4, 3), iter([(x, y)]), epochs=2)
    with pytest.raises(ValueError, match="depth"):
        train_network(MLP(4, 3, (5,)), [(x, y)], mixer=ManifoldMixup(), epochs=1)


@pytest.mark.parametrize("mixer", [Mixup(), CutMix(), ManifoldMixup()], ids=repr)
def test_no_step_synchronizes_the_gpu(mixer: Mixer, nothing_waits: Any) -> None:
    """Batches are on the GPU or on the CPU."""
    x, y = images(32)
    network = SmallConvolution().cuda()

    class Guarded:
        def __init__(self, *data: Tensor) -> None:
            self.data = data

        def __iter__(self) -> Iterator[Any]:
            with nothing_waits():
                yield from [self.data] * 3

    for labeler in (None, RunningMeans(), MeansOfMixed()):
        for data in ((x.cuda(), y.cuda()), (x, y)):
            losses = train_network(
                network, Guarded(*data), mixer=mixer, labeler=labeler, optimizer=SGD(), epochs=2, seed=0
            )
            assert np.isfinite(losses).all()


class Forgetful(RunningMeans):
    """A labeler that declares an update source and has no observe."""

    observe = Labeler.observe


class TwoColumns(Labeler):
    def _label(self, x_mix: Tensor, targets: Tensor, draw: MixParams, info: BatchInfo) -> Tensor:
        return targets[:, :2]


@pytest.mark.parametrize(
    "arguments, match",
    [
        ({"y": torch.tensor([-1, 0, 1])}, r"\[-1, 0, 1\]"),
        ({"y": torch.tensor([1, 2, 3])}, r"\[1, 2, 3\]"),
        ({"y": torch.tensor([0.0, 0.5, 1.0])}, "indices"),
        ({"y": -torch.eye(3)}, "negative"),
        ({"y": 2 * torch.eye(3)}, "sum"),
        ({"y": torch.full((3, 2), 0.5)}, r"\(3, 2\)"),
        ({"x": torch.full((3, 4), torch.nan)}, "epoch 1"),
        ({"network": nn.Linear(4, 3)}, "StagedNetwork"),
        ({"mixer": "mixup"}, "mixer='mixup'"),
        ({"labeler": "linear"}, "labeler='linear'"),
        ({"labeler": TwoColumns()}, r"\(3, 2\)"),
        ({"labeler": Forgetful()}, "observe"),
    ],
)  # fmt: skip
def test_bad_arguments_raise(arguments: dict[str, Any], match: str) -> None:
    batch = (arguments.pop("x", torch.zeros(3, 4)), arguments.pop("y", torch.tensor([0, 1, 2])))
    network = arguments.pop("network", MLP(4, 3, (5,), seed=0))
    with pytest.raises((ValueError, TypeError, NotImplementedError), match=match):
        train_network(network, [batch], epochs=1, seed=0, **({"mixer": Mixup()} | arguments))


def test_online_labelers_of_tasks_raise() -> None:
    x, y = clusters(9)
    task = TrainingTask(x.numpy(), y.numpy(), 3, (RunningMeans(),), Mixup())
    with pytest.raises(ValueError, match="learns"):
        train_fleet([task], [Hyperparameters(0.1)])
    weighted = WeightedLabel([RunningMeans(), LinearLabel()], [0.5, 0.5])
    with pytest.raises(ValueError, match="learns"):
        train_network(MLP(4, 3), [(x, y)], mixer=Mixup(), labeler=weighted, epochs=1)
    inconsistent = RunningMeans()
    inconsistent.__class__ = type("Confused", (RunningMeans,), {"update_source": "all"})
    with pytest.raises(ValueError, match="update_source='all'"):
        train_network(MLP(4, 3), [(x, y)], mixer=Mixup(), labeler=inconsistent, epochs=1)


@pytest.mark.parametrize(
    "density", [GaussianDensity(), KernelDensity(), StackedDensity([GaussianDensity()], cv=3)], ids=repr
)
def test_labels_of_a_density_do_not_synchronize_the_gpu(density: ClassDensity, nothing_waits: Any) -> None:
    """With clean rows, in the dtype and on the device of the network."""
    x, y = clusters(60)
    labeler = GenLabel(density, gamma=0.7).fit(x, y)
    batch = Batch(x.cuda().float(), y.cuda(), info=BatchInfo(clean=np.arange(60) % 4 == 0))
    network = MLP(4, 3, (8,), seed=0).cuda()
    train_network(network, [batch], mixer=Mixup(), labeler=labeler, epochs=1, seed=0)

    class Guarded:
        def __iter__(self) -> Iterator[Batch]:
            with nothing_waits():
                yield batch

    assert np.isfinite(train_network(network, Guarded(), mixer=Mixup(), labeler=labeler, epochs=2, seed=0)).all()


@needs_gpu
def test_the_gpu_gives_the_same_weights() -> None:
    x, y = clusters()
    labelers = (LinearLabel().fit(x, y), GenLabel(GaussianDensity()).fit(x, y))
    task = TrainingTask(x.numpy(), y.numpy(), 3, labelers, ManifoldMixup(depths=(0, 1)), seed=4)
    networks = [MLP(4, 3, (6,), seed=1, dtype=torch.float64).to(device) for device in ("cpu", "cuda")]
    runs = [train_task(network, task, Hyperparameters(0.05, label=(0.5, 0.5)), epochs=4) for network in networks]
    np.testing.assert_allclose(runs[0], runs[1], rtol=1e-8)
