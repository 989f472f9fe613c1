"""Test networks of images: depths, sizes of the literature, seeds and normalization."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from genlabel.training.networks import LeNet5, PreActResNet18, ResNet18, StagedNetwork
from genlabel.training.networks.convolutional import IMAGE_NETWORKS, SmallConvNet

NETWORKS: dict[str, Any] = {
    "LeNet5, 8": (lambda **more: LeNet5(3, 1, 8, **more), (1, 8, 8), 84),
    "LeNet5, 12, colours": (lambda **more: LeNet5(10, 3, 12, **more), (3, 12, 12), 84),
    "LeNet5, 28": (lambda **more: LeNet5(**more), (1, 28, 28), 84),
    "LeNet5, 32, colours": (lambda **more: LeNet5(10, 3, 32, **more), (3, 32, 32), 84),
    "LeNet5, 64": (lambda **more: LeNet5(10, 1, 64, **more), (1, 64, 64), 84),
    "ResNet18, 8": (lambda **more: ResNet18(4, 1, width=2, **more), (1, 8, 8), 16),
    "ResNet18, 32": (lambda **more: ResNet18(width=3, **more), (3, 32, 32), 24),
    "PreActResNet18, 28": (lambda **more: PreActResNet18(5, 1, width=2, **more), (1, 28, 28), 16),
    "PreActResNet18, 64": (lambda **more: PreActResNet18(200, width=2, **more), (3, 64, 64), 16),
    "SmallConvNet, 8": (lambda **more: SmallConvNet(2, 3, width=4, **more), (2, 8, 8), 8),
    "SmallConvNet, 32": (lambda **more: SmallConvNet(6, 3, width=4, **more), (6, 32, 32), 8),
}
every = pytest.mark.parametrize("name", NETWORKS)
normalizing_networks = pytest.mark.parametrize("name", [name for name in NETWORKS if "SmallConvNet" not in name])


def pixels(shape: tuple[int, ...], n: int = 4) -> Tensor:
    return torch.rand(n, *shape, generator=torch.Generator().manual_seed(0))


def after_training(net: StagedNetwork, x: Tensor) -> StagedNetwork:
    """Return the network after a few batches in training mode, which set its running statistics."""
    net.train()
    with torch.no_grad():
        for _ in range(3):
            net(x)
    return net.eval()


@every
def test_decode_after_encode_equals_the_network(name: str) -> None:
    make, shape, features = NETWORKS[name]
    x = pixels(shape)
    net = after_training(make(seed=0), x)
    assert net.encode(x, 0) is x
    assert net.encode(x, net.depth).shape == (4, features)
    assert net(x).shape == (4, net.num_classes)
    for depth in range(net.depth + 1):
        assert torch.equal(net.decode(net.encode(x, depth), depth), net(x))
        continued = net.encode(net.encode(x, depth), net.depth, start=depth)
        assert torch.equal(continued, net.encode(x, net.depth))
    with pytest.raises(ValueError, match="depth=9"):
        net.encode(x, 9)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
@every
def test_gradients_equal_float64(name: str, layout: torch.memory_format) -> None:
    """oneDNN in float32 was wrong for few channels; float64 uses another implementation."""
    make, shape, _ = NETWORKS[name]
    x = pixels(shape, 12)

    def gradients(dtype: torch.dtype) -> list[Tensor]:
        net = after_training(make(seed=0), x).to(dtype, memory_format=layout)
        net(x.to(dtype, memory_format=layout)).sin().sum().backward()
        return [value.grad.double() for value in net.parameters() if value.grad is not None]

    expected = gradients(torch.float64)
    for gradient, exact in zip(gradients(torch.float32), expected, strict=True):
        torch.testing.assert_close(gradient, exact, rtol=0.0, atol=1e-3 * (float(exact.abs().max()) + 1e-4))


@pytest.mark.parametrize(
    "net, parameters",
    [
        (LeNet5(), 61_706),
        (ResNet18(), 11_173_962),
        (ResNet18(100), 11_220_132),
        (PreActResNet18(), 11_171_146 + 2 * 512),  # the published number is without the last normalization
        (SmallConvNet(6, 3), 6 * 32 * 9 + 32 + 32 * 64 * 9 + 64 + 64 * 64 * 9 + 64 + 64 * 3 + 3),
    ],
    ids=["LeNet5", "ResNet18", "ResNet18, 100 classes", "PreActResNet18", "SmallConvNet"],
)
def test_the_number_of_parameters_equals_the_literature(net: StagedNetwork, parameters: int) -> None:
    assert sum(weight.numel() for weight in net.parameters()) == parameters


@every
def test_the_seed_determines_the_weights_and_global_generators_do_not_change(name: str) -> None:
    make = NETWORKS[name][0]
    torch.manual_seed(7)
    state = torch.get_rng_state()
    first, same_seed, other_seed = make(seed=1), make(seed=np.random.default_rng(1)), make(seed=2)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), same_seed.parameters(), strict=True))
    assert not torch.equal(next(first.parameters()), next(other_seed.parameters()))


@normalizing_networks
def test_networks_normalize_pixels(name: str) -> None:
    make, shape, _ = NETWORKS[name]
    channels = shape[0]
    mean, std = np.linspace(0.2, 0.6, channels), np.linspace(0.1, 0.4, channels)
    x = pixels(shape)
    normalizing, plain = make(mean=mean.tolist(), std=std.tolist(), seed=0), make(seed=0)
    z = ((x.numpy() - mean[:, None, None]) / std[:, None, None]).astype(np.float32)
    torch.testing.assert_close(
        after_training(normalizing, x)(x), after_training(plain, torch.from_numpy(z))(torch.from_numpy(z))
    )
    assert not [weight for name, weight in normalizing.named_parameters() if name.endswith(("mean", "std"))]


@pytest.mark.parametrize("network", [ResNet18, PreActResNet18], ids=["ResNet18", "PreActResNet18"])
def test_compiled_regions_cover_all_but_the_linear_layer(network: type[Any]) -> None:
    """Regions do not overlap, and cover all weights except those of the linear layer."""
    net = network(width=2, seed=0)
    inside = [weight for region in net.regions for weight in region.parameters()]
    assert len({id(weight) for weight in inside}) == len(inside)
    assert len(inside) == len(list(net.parameters())) - len(list(net.head.parameters()))


def test_names_of_image_networks() -> None:
    assert {name: kind.__name__ for name, kind in IMAGE_NETWORKS.items()} == {
        "lenet5": "LeNet5",
        "resnet18": "ResNet18",
        "preact-resnet18": "PreActResNet18",
    }


@pytest.mark.parametrize("network", [LeNet5, ResNet18, PreActResNet18], ids=["LeNet5", "ResNet18", "PreActResNet18"])
@pytest.mark.parametrize("std", [0.0, -1.0, [0.5, 0.0], float("nan")], ids=str)
def test_bad_std_raises(network: type[Any], std: Any) -> None:
    with pytest.raises(ValueError, match="std="):
        network(in_channels=2, std=std)


def test_too_small_images_raise() -> None:
    with pytest.raises(ValueError, match="size=4"):
        LeNet5(size=4)
