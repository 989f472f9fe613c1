"""The figure of a mixed batch draws its images and labels."""

import numpy as np
import pytest
import torch
from torch import nn

from genlabel import CutMix, GenLabelMixup, Mixup
from genlabel.labeling import LogisticLabel
from genlabel.mixing import Mixer
from genlabel.mixing.base import blend
from genlabel.reporting import plot_batch


@pytest.mark.parametrize("channels", [1, 3, 5])
@pytest.mark.parametrize("mixer", [Mixup(), CutMix()], ids=repr)
def test_images_and_labels_are_those_of_the_batch(mixer: Mixer, channels: int) -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(channels * 36, 4))
    mixup = GenLabelMixup(network, num_classes=4, mixer=mixer, gamma=0.3, top_k=None)
    x, y = torch.rand(10, channels, 6, 6), torch.arange(10) % 4
    batch = mixup.mix(x, y)
    network(batch.x)
    figure = plot_batch(batch, ["a", "b", "c", "d"], rows=3)
    grid = np.array(figure.axes).reshape(3, 4)
    y_mix = blend(batch.targets, batch.draw)
    for row, axes in enumerate(grid):
        partner = int(batch.draw.partner[row])
        for ax, c in zip(axes[:2], (y[row], y[partner]), strict=True):
            assert ax.get_title().startswith("abcd"[int(c)])
        drawn = np.asarray(axes[2].get_images()[0].get_array())
        image = batch.x[row].numpy()
        low, high = float(x[:3].min()), float(x[:3].max())
        image = image.transpose(1, 2, 0) if channels == 3 else image.mean(0)
        np.testing.assert_allclose(drawn, ((image - low) / (high - low)).clip(0.0, 1.0), atol=1e-5)
        names = [label.get_text() for label in axes[3].get_yticklabels()]
        mixed, generative = (np.array([bar.get_width() for bar in bars]) for bars in axes[3].containers)
        classes = ["abcd".index(name) for name in names]
        np.testing.assert_allclose(mixed, y_mix[row].numpy()[classes], atol=1e-6)
        label = batch.target()[row].numpy()[classes]
        np.testing.assert_allclose(0.3 * generative + 0.7 * mixed, label, atol=1e-5)
    figure.canvas.draw()


def test_batches_without_images_or_without_a_mix_are_refused() -> None:
    mixup = GenLabelMixup(num_classes=2, gamma=0.0)
    table = mixup.mix_before_pass(torch.rand(4, 3), torch.arange(4) % 2)
    images = mixup.mix_before_pass(torch.rand(4, 5, 5), torch.arange(4) % 2)
    plain = mixup.eval().mix_before_pass(torch.rand(4, 5, 5), torch.arange(4) % 2)
    for call in (lambda: plot_batch(table), lambda: plot_batch(plain), lambda: plot_batch(images, ["a"])):
        with pytest.raises(ValueError, match=r"batch|class_names"):
            call()


def test_the_label_of_a_labeler_of_ones_own_is_drawn() -> None:
    mixup = GenLabelMixup(num_classes=4, labeler=LogisticLabel(0.4))
    batch = mixup.mix_before_pass(torch.rand(10, 1, 6, 6), torch.arange(10) % 4)
    figure = plot_batch(batch, rows=3)
    for row, axes in enumerate(np.array(figure.axes).reshape(3, 4)):
        classes = [int(label.get_text()) for label in axes[3].get_yticklabels()]
        drawn = [bar.get_width() for bar in axes[3].containers[1]]
        np.testing.assert_allclose(drawn, batch.target()[row].numpy()[classes], atol=1e-6)
    assert "LogisticLabel" in figure.get_suptitle()


def test_the_weight_is_that_of_the_batch() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(36, 4))
    mixup = GenLabelMixup(network, num_classes=4, gamma=0.5)
    batch = mixup.mix(torch.rand(10, 1, 6, 6), torch.arange(10) % 4)
    batch.loss(network(batch.x))
    mixup.gamma = 0.1
    assert "0.50" in plot_batch(batch, rows=1).get_suptitle()
