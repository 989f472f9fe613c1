"""Test that torch.compile needs no graph breaks for apply_draw, target and a network with hooks."""

import pytest
import torch
from torch import Tensor, nn

from genlabel import CutMix, GenLabelMixup, ManifoldMixup, Mixup
from genlabel.mixing import Mixer

MIXERS = [Mixup(), pytest.param(Mixup(lam_per="batch"), marks=pytest.mark.long), CutMix(), ManifoldMixup(depths=(1,))]


@pytest.mark.parametrize("mixer", MIXERS, ids=repr)
@pytest.mark.parametrize("statistics", ["near", pytest.param("clean", marks=pytest.mark.long)])
def test_no_graph_breaks(mixer: Mixer, statistics: str, digits: tuple[Tensor, Tensor]) -> None:
    torch.compiler.reset()
    (x, y), layers = digits, ("", "1")
    network = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10)
    )
    mixup = GenLabelMixup(network, num_classes=10, mixer=mixer, mix_layers=layers, gamma=0.5, statistics=statistics)
    batch = mixup.mix(x, y)
    network(batch.x)
    batch.target()
    state, draw = {name: value.clone() for name, value in mixup.state_dict().items()}, mixup.draw(64)
    results = []
    for compiled in (False, True):
        mixup.load_state_dict(state)
        apply, net, labels = (
            torch.compile(part, fullgraph=True, backend="eager") if compiled else part
            for part in (mixup.apply_draw, network, mixup.labels_of)
        )
        batch = apply(x, y, draw)
        scores = net(batch.x)
        results.append((batch.x, scores, labels(batch), *mixup.density.buffers()))
    torch.testing.assert_close(*results)
    network.eval()
    assert mixup.mix(x, y).x is x
    torch.testing.assert_close(torch.compile(network, backend="eager")(x), network(x))
