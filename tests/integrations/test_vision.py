"""Test networks, transforms and losses of torchvision and timm, if installed."""

import copy
import importlib
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset, default_collate

from genlabel import CutMix, GaussianDensity, GenLabelMixup, ManifoldMixup, Mixup
from genlabel.mixing import Mixer

MIXERS = [Mixup(), CutMix(), ManifoldMixup(depths=(0, 1, 2))]
LAYERS = ("", "layer1", "layer2")


@pytest.fixture
def batch() -> tuple[Tensor, Tensor]:
    return torch.rand(6, 3, 64, 64), torch.tensor([0, 1, 2, 3, 4, 4])


def check_training_steps(network: nn.Module, mixup: GenLabelMixup, x: Tensor, y: Tensor) -> None:
    """Train for three steps; check that labels sum to one and every parameter has a gradient."""
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    for _ in range(3):
        batch = mixup.mix(x, y)
        loss = batch.loss(network(batch.x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.testing.assert_close(batch.target().sum(1), torch.ones(len(x)))
    assert all(p.grad is not None for p in network.parameters())
    assert float(mixup.density.steps) == 3.0


@pytest.mark.parametrize("mixer", MIXERS, ids=repr)
def test_a_network_of_torchvision(mixer: Mixer, batch: tuple[Tensor, Tensor]) -> None:
    models = pytest.importorskip("torchvision.models", reason="needs torchvision")
    network = models.resnet18(num_classes=5)
    mixup = GenLabelMixup(network, num_classes=5, mixer=mixer, mix_layers=LAYERS, statistics="clean")
    check_training_steps(network, mixup, *batch)
    other = copy.deepcopy(network)
    with_layer_name = GenLabelMixup(
        other, num_classes=5, mixer=mixer, mix_layers=LAYERS, feature_layer="layer4", statistics="clean"
    )
    with_layer_name.load_state_dict(mixup.state_dict())
    first, second = mixup.mix(*batch), with_layer_name.mix(*batch)
    network(first.x)
    other(second.x)
    torch.testing.assert_close(second.target(), first.target(), rtol=1e-3, atol=1e-4)  # pooled layer4 is fc's input


def test_the_call_shape_of_torchvision(batch: tuple[Tensor, Tensor]) -> None:
    v2 = pytest.importorskip("torchvision.transforms.v2", reason="needs torchvision")
    theirs = v2.MixUp(num_classes=5)(*batch)
    ours = GenLabelMixup(num_classes=5, gamma=0.0)
    for mixed in (ours(*batch), v2.RandomChoice([ours, v2.CutMix(num_classes=5)])(*batch)):
        assert [part.shape for part in mixed] == [part.shape for part in theirs]
        assert [part.dtype for part in mixed] == [part.dtype for part in theirs]
    loader = DataLoader(
        TensorDataset(*batch), batch_size=3, collate_fn=lambda samples: ours(*default_collate(samples))
    )  # fmt: skip
    assert [target.shape for _, target in loader] == [(3, 5), (3, 5)]


@pytest.mark.parametrize("name", ["resnet18", "vit_tiny_patch16_224", "convnext_atto"])
def test_a_network_of_timm_with_its_loss_and_its_average(name: str, batch: tuple[Tensor, Tensor]) -> None:
    timm = pytest.importorskip("timm", reason="needs timm")
    losses, utils = (importlib.import_module(f"timm.{part}") for part in ("loss", "utils"))
    sizes = {"img_size": 64} if name.startswith("vit") else {}
    network = timm.create_model(name, num_classes=5, pretrained=False, **sizes)
    check_training_steps(network, GenLabelMixup(network, num_classes=5), *batch)
    make: Callable[..., nn.Module] = utils.ModelEmaV3
    average = make(network, decay=0.9)
    average.update(network)
    mixup = GenLabelMixup(network, num_classes=5, teacher="ema", gamma=0.3)
    x, target = mixup(*batch)
    loss = losses.SoftTargetCrossEntropy()(network(x), target)
    torch.testing.assert_close(loss, nn.functional.cross_entropy(network(x), target))
    mixup.update_ema()


def test_the_call_shape_of_timm(batch: tuple[Tensor, Tensor]) -> None:
    timm_data = pytest.importorskip("timm.data", reason="needs timm")
    theirs = timm_data.Mixup(mixup_alpha=1.0, num_classes=5, label_smoothing=0.0)(batch[0].clone(), batch[1])
    rows = batch[0][:, :, ::16, ::16].flatten(1).repeat(3, 1)
    density = GaussianDensity(shrinkage=0.9).fit(rows + 0.1 * torch.rand(rows.shape), batch[1].repeat(3))
    ours = GenLabelMixup(num_classes=5, density=density)(batch[0][:, :, ::16, ::16], batch[1])
    assert ours[1].shape == theirs[1].shape
    assert ours[1].dtype == theirs[1].dtype
