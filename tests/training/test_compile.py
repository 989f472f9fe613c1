"""Test that bf16, compilation, several processes and CUDA graphs do not change the results of training."""

import copy
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from genlabel._progress import LambdaCallback
from genlabel._runtime import eval_mode
from genlabel.densities import OnlineGaussianDensity
from genlabel.labeling import Labeler, OnlineGenLabel
from genlabel.mixing import CutMix, ManifoldMixup, Mixer, MixParams, Mixup
from genlabel.training import SGD, Adam, CompileConfig, ImageBatches, train_network
from genlabel.training.adamixup import train_adamixup_network
from genlabel.training.batching import Batch
from genlabel.training.compile import frozen_batchnorm_stats, resolve_compile_config
from genlabel.training.networks import MLP, LeNet5, ResNet18, StagedNetwork
from genlabel.training.networks.convolutional import SmallConvNet
from genlabel.training.optimizers import Optimizer

pytestmark = [  # warnings of torch.compile, which also cuts batches on a GPU
    pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
    pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores:UserWarning"),
]
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def digits(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    data = load_digits()
    return (data.images[:n, None] * (255 / 16)).astype(np.uint8), data.target[:n]


def batches(mixer: Mixer | None = None, device: str = "cpu", size: int = 50) -> ImageBatches:
    return ImageBatches(*digits(), batch_size=size, mixer=mixer, augment=False, seed=0, device=device)


@pytest.mark.parametrize("channels_last", [False, True])
def test_bf16_learns_and_the_weights_stay_float32(channels_last: bool) -> None:
    net, labeler = LeNet5(size=8, seed=0), OnlineGenLabel(OnlineGaussianDensity(10))
    config = CompileConfig("bf16", channels_last=channels_last)
    settings: dict[str, Any] = {"mixer": Mixup(0.5), "labeler": labeler, "epochs": 8, "learning_rate": 0.01}
    losses = train_network(net, batches(Mixup(0.5)), compile_config=config, **settings)
    plain = train_network(LeNet5(size=8, seed=0), batches(Mixup(0.5)), **{**settings, "labeler": None})
    assert losses[-1] < losses[0] - 0.3
    np.testing.assert_allclose(losses, plain, atol=0.35)
    assert {value.dtype for value in (*net.parameters(), *labeler.density.buffers())} == {torch.float32}


def test_products_under_bf16_autocast_are_bf16() -> None:
    with CompileConfig("bf16").autocast(torch.device("cpu")):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
    with CompileConfig().autocast(torch.device("cpu")):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32


@pytest.mark.long
@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="needs a C++ compiler")
def test_compiled_steps_equal_eager_steps() -> None:
    """On a small network, where mixing, labels and loss are compiled."""
    torch.compiler.reset()
    runs = []
    for compiled in (False, True):
        net, labeler = MLP(3, 3, (5,), seed=0), OnlineGenLabel(OnlineGaussianDensity(3), 0.5)
        rng = np.random.default_rng(0)
        x, y = torch.from_numpy(rng.normal(size=(30, 3))).float(), torch.arange(30) % 3
        losses = train_network(
            net,
            [(x, y)],
            mixer=Mixup(0.3),
            labeler=labeler,
            epochs=4,
            seed=0,
            compile_config=CompileConfig(compiled=compiled),
        )
        runs.append((losses, [*net.parameters(), *labeler.density.buffers()]))
    np.testing.assert_allclose(runs[0][0], runs[1][0], rtol=1e-4)
    for plain, fast in zip(runs[0][1], runs[1][1], strict=True):
        torch.testing.assert_close(plain, fast, rtol=1e-3, atol=1e-4)


def test_bad_configs_raise() -> None:
    with pytest.raises(ValueError, match="graphs=True"):
        train_network(LeNet5(size=8), batches(), epochs=1, compile_config=CompileConfig(graphs=True))
    with pytest.raises(ValueError, match="precision='fp16'"):
        CompileConfig("fp16")
    with pytest.raises(ValueError, match="compile_config='fast'"):
        train_network(LeNet5(size=8), batches(), epochs=1, compile_config="fast")


def test_auto_is_eager_on_a_cpu() -> None:
    nets = [LeNet5(size=8, seed=0) for _ in range(2)]
    assert resolve_compile_config("auto", nets[0]) == resolve_compile_config(None, nets[0]) == CompileConfig()
    auto_losses, eager_losses = (
        train_network(net, batches(), epochs=1, compile_config=a) for net, a in zip(nets, ("auto", None), strict=True)
    )
    assert auto_losses == eager_losses


def noise(n: int, seed: int) -> Tensor:
    return torch.rand(n, 3, 8, 8, generator=torch.Generator().manual_seed(seed))


def test_frozen_batchnorm_stats_do_not_change() -> None:
    """The output is that of training mode, and the running statistics do not change."""
    net = ResNet18(4, width=2, seed=0).train()
    net(noise(6, 0))
    copied, before = copy.deepcopy(net), {name: value.clone() for name, value in net.state_dict().items()}
    x = noise(6, 1)
    with frozen_batchnorm_stats(net):
        out = net(x)
    assert torch.equal(out, copied(x))
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    net(x)
    assert all(torch.equal(value, copied.state_dict()[name]) for name, value in net.state_dict().items())
    without_stats = nn.BatchNorm1d(2, track_running_stats=False)
    with pytest.raises(RuntimeError, match="stop"), frozen_batchnorm_stats(nn.Sequential(net, without_stats)):
        raise RuntimeError("stop")
    assert not without_stats.track_running_stats
    assert all(part.track_running_stats for part in net.modules() if isinstance(part, nn.BatchNorm2d))


@pytest.mark.parametrize("training", [False, True])
def test_eval_mode_restores_the_mode(training: bool) -> None:
    net = ResNet18(4, width=2, seed=0).train(training)
    with eval_mode(net):
        assert not any(part.training for part in net.modules())
    assert net.training == training
    with pytest.raises(RuntimeError, match="stop"), eval_mode(net):
        raise RuntimeError("stop")
    assert all(part.training == training for part in net.modules())


def train_half(rank: int, data: list[tuple[Tensor, Tensor]], partner: Tensor, lam: Tensor) -> dict[str, Any]:
    net = MLP(4, 3, (5,), seed=rank, dtype=torch.float64)
    half = slice(0, 20) if rank == 0 else slice(20, 40)
    loader = [Batch(x[half], y[half], None, MixParams(partner, lam[half])) for x, y in data]
    losses = train_network(net, loader, learning_rate=0.1, optimizer=SGD(), epochs=3)
    return {"weights": [value.detach() for value in net.parameters()], "losses": torch.from_numpy(losses)}


def test_two_processes_equal_one_on_the_joined_batch(in_two_processes: Callable[..., Any]) -> None:
    """The initial weights of the first process are used by both; each process reports the loss of its half."""
    rng = np.random.default_rng(0)
    data = [(torch.from_numpy(rng.normal(size=(40, 4))), torch.from_numpy(rng.integers(3, size=40))) for _ in range(2)]
    partner, lam = torch.from_numpy(rng.permutation(20)), torch.from_numpy(rng.random(40))
    first, second = in_two_processes(train_half, data=data, partner=partner, lam=lam)
    net = MLP(4, 3, (5,), seed=0, dtype=torch.float64)
    joined = MixParams(torch.cat([partner, partner + 20]), lam)
    loader = [Batch(x, y, None, joined) for x, y in data]
    losses = train_network(net, loader, learning_rate=0.1, optimizer=SGD(), epochs=3)
    for first_value, second_value, expected in zip(first["weights"], second["weights"], net.parameters(), strict=True):
        assert torch.equal(first_value, second_value)
        torch.testing.assert_close(first_value, expected.detach(), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose((first["losses"] + second["losses"]) / 2, losses, rtol=1e-10)


GPU_RUNS: dict[str, tuple[Mixer | None, Callable[[], Labeler | None]]] = {
    "vanilla": (None, lambda: None),
    "mixup": (Mixup(), lambda: None),
    "manifold": (ManifoldMixup(depths=(0, 1, 3)), lambda: None),
    "cutmix": (CutMix(pixels=64), lambda: None),
    "online, near": (Mixup(0.3), lambda: OnlineGenLabel(OnlineGaussianDensity(10), 0.3, warmup_steps=9)),
    "online, clean": (
        ManifoldMixup(depths=(0, 2)),
        lambda: OnlineGenLabel(OnlineGaussianDensity(10, statistics="clean", covariance="diagonal"), 0.3),
    ),
}
each_gpu_run = pytest.mark.parametrize("name", GPU_RUNS)
may_be_wrong = pytest.mark.filterwarnings("ignore::genlabel.densities.base.DensityWarning")
"""For networks of random images, on which the densities learn little."""


def on_gpu(name: str, optimizer: Optimizer, config: CompileConfig, **options: Any) -> tuple[np.ndarray, list[Tensor]]:
    mixer, make = GPU_RUNS[name]
    net, labeler = LeNet5(size=8, seed=0).cuda(), make()
    losses = train_network(
        net,
        batches(mixer, "cuda"),
        **{"mixer": mixer, "labeler": labeler, "optimizer": optimizer, "epochs": 6, "learning_rate": 0.003, **options},
        compile_config=config,
    )
    learned = [*net.parameters(), *(labeler.density.buffers() if isinstance(labeler, OnlineGenLabel) else [])]
    return losses, learned


@needs_gpu
@may_be_wrong
@each_gpu_run
@pytest.mark.parametrize("optimizer", [SGD(), Adam(eps=1e-2)], ids=["SGD", "Adam"])
def test_captured_steps_equal_eager_steps(name: str, optimizer: Optimizer) -> None:
    """Also when the learning rate falls: SGD's does at half time, when all steps are captured.

    The kernels may differ, so the last digits do; Adam's eps is large, for it makes much of gradients that are little.
    """
    plain, fast = (on_gpu(name, optimizer, CompileConfig(graphs=graphs)) for graphs in (False, True))
    np.testing.assert_allclose(fast[0], plain[0], rtol=2e-3)
    for eager_value, captured_value in zip(plain[1], fast[1], strict=True):
        torch.testing.assert_close(eager_value, captured_value, rtol=2e-2, atol=2e-3)


@needs_gpu
def test_captured_steps_use_the_current_learning_rate() -> None:
    """After a decay to almost 0 at half time, the weights do not change."""
    optimizer, weights = SGD(momentum=0.0, milestones=(0.5,), decay=1e-12), []
    net = LeNet5(size=8, seed=0).cuda()
    train_network(
        net,
        batches(device="cuda"),
        optimizer=optimizer,
        epochs=6,
        weight_decay=0.0,
        compile_config=CompileConfig(graphs=True),
        callback=LambdaCallback(on_epoch_end=lambda epoch, logs: weights.append(net.head.weight.detach().clone())),
    )
    assert not torch.equal(weights[1], weights[2])
    torch.testing.assert_close(weights[2], weights[5], rtol=0, atol=1e-7)


@needs_gpu
def test_captured_adamixup_equals_eager_adamixup() -> None:
    runs = []
    for graphs in (False, True):
        net: StagedNetwork = LeNet5(size=8, seed=0).cuda()
        judges = SmallConvNet(2, 3, width=8, seed=1).cuda(), SmallConvNet(1, 2, width=8, seed=2).cuda()
        run = train_adamixup_network(
            net,
            batches(Mixup(), "cuda"),
            policy=judges[0],
            critic=judges[1],
            learning_rate=0.003,
            optimizer=Adam(eps=1e-2),
            epochs=5,
            compile_config=CompileConfig(graphs=graphs),
        )
        runs.append((run, [value for part in (net, *judges) for value in part.parameters()]))
    np.testing.assert_allclose(runs[0][0], runs[1][0], rtol=5e-3)
    for eager_value, captured_value in zip(runs[0][1], runs[1][1], strict=True):
        torch.testing.assert_close(eager_value, captured_value, rtol=5e-2, atol=5e-3)


@may_be_wrong
@each_gpu_run
@pytest.mark.parametrize("captured", [False, True])
def test_no_step_synchronizes_the_gpu(name: str, captured: bool, nothing_waits: Any) -> None:
    """The epochs after the first, in which a step of each depth is captured; the check after an epoch may wait."""
    mixer, make = GPU_RUNS[name]
    net, labeler, inner = LeNet5(size=8, seed=0).cuda(), make(), batches(mixer, "cuda", size=10)

    class Guarded:
        epoch = 0

        def __iter__(self) -> Any:
            self.epoch += 1
            if self.epoch < 3:
                yield from inner
            else:
                with nothing_waits():
                    yield from inner

    guarded = Guarded()
    losses = train_network(
        net,
        guarded,
        mixer=mixer,
        labeler=labeler,
        learning_rate=0.001,
        epochs=4,
        compile_config=CompileConfig(graphs=captured),
    )
    assert guarded.epoch == 4
    assert np.isfinite(losses).all()


@needs_gpu
def test_all_options_together_learn() -> None:
    """bf16, compiled, CUDA graphs and channels last, as "auto" chooses for a residual network."""
    net = ResNet18(10, 1, width=8, seed=0).cuda()
    assert resolve_compile_config("auto", net) == CompileConfig("bf16", compiled=True, graphs=True, channels_last=True)
    mixer, labeler = ManifoldMixup(depths=(0, 1)), OnlineGenLabel(OnlineGaussianDensity(10))
    losses = train_network(
        net, batches(mixer, "cuda"), mixer=mixer, labeler=labeler, epochs=8, learning_rate=0.01, compile_config="auto"
    )
    assert losses[-1] < losses[0] - 0.5
    assert {value.dtype for value in net.parameters()} == {torch.float32}
