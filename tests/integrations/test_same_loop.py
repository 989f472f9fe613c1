"""Test that GenLabelMixup in a plain loop equals `train_network` with the same draws."""

import copy

import pytest
import torch
from torch import Tensor

from genlabel import CutMix, GenLabelMixup, Mixup, OnlineGenLabel
from genlabel.densities import OnlineGaussianDensity
from genlabel.mixing import Mixer
from genlabel.training import SGD, train_network
from genlabel.training.batching import Batch
from genlabel.training.networks import LeNet5, StagedNetwork


def make() -> StagedNetwork:
    return LeNet5(num_classes=10, in_channels=1, size=28, seed=0)


@pytest.mark.filterwarnings("ignore::genlabel.densities.base.DensityWarning")
@pytest.mark.parametrize("mixer", [Mixup(lam_per="batch"), CutMix()], ids=repr)
@pytest.mark.parametrize("statistics", ["near", "clean", "part"])
def test_the_losses_are_the_same(mixer: Mixer, statistics: str, digits: tuple[Tensor, Tensor]) -> None:
    x = torch.nn.functional.interpolate(digits[0][:16], size=28)
    y, steps = digits[1][:16], 4
    settings = {"statistics": statistics, "margin": 0.3}
    network = make()
    mixup = GenLabelMixup(network, num_classes=10, mixer=mixer, gamma=0.3, **settings)
    copied = copy.deepcopy(mixup)
    partner = torch.arange(16).roll(1)  # none its own, of which the loops label the row differently
    batches = [Batch(x, y, draw=copied.draw(16)._replace(partner=partner)) for _ in range(steps)]
    labeler = OnlineGenLabel(OnlineGaussianDensity(10, **settings), gamma=0.3)
    other_network = make()
    expected = [
        train_network(
            other_network, [batch], mixer=mixer, labeler=labeler, learning_rate=0.05, weight_decay=0.0, epochs=1,
            optimizer=SGD(momentum=0.0),
        )[0]
        for batch in batches
    ]  # fmt: skip
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
    losses = []
    for item in batches:
        batch = mixup.apply_draw(x, y, item.draw)
        loss = batch.loss(network(batch.x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses == pytest.approx(expected, rel=1e-4)
    torch.testing.assert_close(mixup.density.mean, labeler.density.mean, rtol=1e-3, atol=1e-4)
