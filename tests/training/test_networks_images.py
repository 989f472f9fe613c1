"""Networks for images: any depth gives the same function, the sizes of the literature, seeds, normalisation inside."""

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
normalising = pytest.mark.parametrize("name", [name for name in NETWORKS if "SmallConvNet" not in name])


def pixels(shape: tuple[int, ...], n: int = 4) -> Tensor:
    return torch.rand(n, *shape, generator=torch.Generator().manual_seed(0))


def used(net: StagedNetwork, x: Tensor) -> StagedNetwork:
    """After a few batches in training mode, so that batch normalisation has statistics of its own."""
    net.train()
    with torch.no_grad():
        for _ in range(3):
            net(x)
    return net.eval()


@every
def test_decode_after_encode_is_the_network_at_every_depth(name: str) -> None:
    make, shape, features = NETWORKS[name]
    x = pixels(shape)
    net = used(make(seed=0), x)
    assert net.encode(x, 0) is x
    assert net.encode(x, net.depth).shape == (4, features)
    assert net(x).shape == (4, net.num_classes)
    for depth in range(net.depth + 1):
        assert torch.equal(net.decode(net.encode(x, depth), depth), net(x))
        onwards = net.encode(net.encode(x, depth), net.depth, start=depth)
        assert torch.equal(onwards, net.encode(x, net.depth))
    with pytest.raises(ValueError, match="depth=9"):
        net.encode(x, 9)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
@every
def test_gradients_are_those_in_double_precision(name: str, layout: torch.memory_format) -> None:
    """Which other code computes: oneDNN's, for single precision, was wrong where channels were few."""
    make, shape, _ = NETWORKS[name]
    x = pixels(shape, 12)

    def gradients(dtype: torch.dtype) -> list[Tensor]:
        net = used(make(seed=0), x).to(dtype, memory_format=layout)
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
        (PreActResNet18(), 11_171_146 + 2 * 512),  # the known number is without the last normalisation
        (SmallConvNet(6, 3), 6 * 32 * 9 + 32 + 32 * 64 * 9 + 64 + 64 * 64 * 9 + 64 + 64 * 3 + 3),
    ],
    ids=["LeNet5", "ResNet18", "ResNet18, 100 classes", "PreActResNet18", "SmallConvNet"],
)
def test_the_number_of_parameters_is_that_of_the_literature(net: StagedNetwork, parameters: int) -> None:
    assert sum(weight.numel() for weight in net.parameters()) == parameters


@every
def test_the_seed_gives_the_weights_and_no_one_elses_numbers_change(name: str) -> None:
    make = NETWORKS[name][0]
    torch.manual_seed(7)
    state = torch.get_rng_state()
    one, two, other = make(seed=1), make(seed=np.random.default_rng(1)), make(seed=2)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert not torch.equal(next(one.parameters()), next(other.parameters()))


@normalising
def test_pixels_are_normalised_inside(name: str) -> None:
    make, shape, _ = NETWORKS[name]
    channels = shape[0]
    mean, std = np.linspace(0.2, 0.6, channels), np.linspace(0.1, 0.4, channels)
    x = pixels(shape)
    inside, plain = make(mean=mean.tolist(), std=std.tolist(), seed=0), make(seed=0)
    normal = ((x.numpy() - mean[:, None, None]) / std[:, None, None]).astype(np.float32)
    torch.testing.assert_close(used(inside, x)(x), used(plain, torch.from_numpy(normal))(torch.from_numpy(normal)))
    assert not [weight for name, weight in inside.named_parameters() if name.endswith(("mean", "std"))]


@pytest.mark.parametrize("network", [ResNet18, PreActResNet18], ids=["ResNet18", "PreActResNet18"])
def test_compiled_regions_cover_the_network_but_its_last_layers(network: type[Any]) -> None:
    """No part twice, and no weights left out but those of the linear layer."""
    net = network(width=2, seed=0)
    inside = [weight for region in net.regions for weight in region.parameters()]
    assert len({id(weight) for weight in inside}) == len(inside)
    assert len(inside) == len(list(net.parameters())) - len(list(net.head.parameters()))


def test_the_names_are_those_of_the_networks() -> None:
    assert {name: kind.__name__ for name, kind in IMAGE_NETWORKS.items()} == {
        "lenet5": "LeNet5",
        "resnet18": "ResNet18",
        "preact-resnet18": "PreActResNet18",
    }


@pytest.mark.parametrize("network", [LeNet5, ResNet18, PreActResNet18], ids=["LeNet5", "ResNet18", "PreActResNet18"])
@pytest.mark.parametrize("std", [0.0, -1.0, [0.5, 0.0], float("nan")], ids=str)
def test_a_spread_that_is_none_is_named(network: type[Any], std: Any) -> None:
    with pytest.raises(ValueError, match="std="):
        network(in_channels=2, std=std)


def test_images_that_are_too_small_are_named() -> None:
    with pytest.raises(ValueError, match="size=4"):
        LeNet5(size=4)
