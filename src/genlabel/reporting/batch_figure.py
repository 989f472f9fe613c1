"""Figure of a mixed batch: both parents of each image, the mixed image, and its labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from genlabel._validation import check_count
from genlabel.mixing.base import blend
from genlabel.reporting import charts

if TYPE_CHECKING:
    from genlabel.integrations import MixedBatch

MAX_BARS = 4  # classes with a bar in a panel
MIN_GAMMA = 0.01  # weight below which the generative label cannot be read from the mixed one


def plot_batch(batch: MixedBatch, class_names: Sequence[str] | None = None, rows: int = 6) -> Figure:
    """Draw the first mixed images of a batch: both parents, lam, mixup's label and the generative label.

    Parameters
    ----------
    batch : MixedBatch
        Batch of images (n, height, width) or (n, channels, height, width), of which the network has seen `batch.x`.
    class_names : sequence of str, optional
        Names of the classes; their indices by default.
    rows : int
        Number of images.

    Examples
    --------
    >>> import torch
    >>> from genlabel import GenLabelMixup
    >>> mixup = GenLabelMixup(num_classes=3, gamma=0.0)
    >>> batch = mixup.mix_before_pass(torch.rand(8, 1, 5, 5), torch.arange(8) % 3)
    >>> len(plot_batch(batch, rows=2).axes)
    8
    """
    if batch.unmixed.ndim not in (3, 4):
        raise ValueError(f"plot_batch draws images; the points of the batch have shape {tuple(batch.unmixed.shape)}")
    if batch.draw is None:
        raise ValueError("the batch is not mixed: it was made in evaluation mode, or after off_step")
    count = min(check_count("rows", rows), len(batch.x))
    names = [str(c) for c in range(batch.targets.shape[1])] if class_names is None else list(class_names)
    if len(names) != batch.targets.shape[1]:
        raise ValueError(f"class_names has {len(names)} names; the labels have {batch.targets.shape[1]} classes")
    target, y_mix = batch.target().double(), blend(batch.targets, batch.draw).double()
    labels = [("mixup", y_mix, charts.ARM_COLORS["mixup"])]
    if batch.gamma is None:  # a labeler that is no blend with mixup's label
        weights = f"labels of {batch.mixup.labeler!r}"
        labels.append(("training", target, charts.ARM_COLORS["GenLabel"]))
    else:
        gamma = float(batch.gamma)
        weights = f"weight of the generative label: {gamma:.2f}"
        if gamma >= MIN_GAMMA:
            generative = ((target - (1.0 - gamma) * y_mix) / gamma).clamp(0.0, 1.0)
            labels.append(("generative", generative, charts.ARM_COLORS["GenLabel"]))
    figure = charts.new_figure(10.0, 0.7 + 1.55 * count)
    grid = figure.subplots(count, 4, squeeze=False, width_ratios=(1.0, 1.0, 1.0, 2.6))
    unmixed, partner, lam = (value.detach().cpu() for value in (batch.unmixed, batch.draw.partner, batch.draw.lam))
    mixed = batch.x.detach().cpu()
    low, high = float(unmixed[:count].min()), float(unmixed[:count].max())
    for row, axes in enumerate(grid):
        other, weight = int(partner[row]), float(lam[row])
        own_name, other_name = (names[int(batch.targets[index].argmax())] for index in (row, other))
        mixed_title = f"λ = {weight:.2f}" if not batch.draw.depth else f"λ = {weight:.2f}, in a layer"
        for ax, image, title in (
            (axes[0], unmixed[row], f"{own_name} ({weight:.0%})"),
            (axes[1], unmixed[other], f"{other_name} ({1.0 - weight:.0%})"),
            (axes[2], mixed[row], mixed_title),
        ):
            _show_image(ax, image.float().numpy(), low, high)
            ax.set_title(charts.plain_text(title, 24), fontsize=9)
        _plot_labels(axes[3], [(name, values[row].cpu().numpy(), color) for name, values, color in labels], names)
    grid[-1][3].set_xlabel("probability in the label")
    handles = [Patch(color=color, label=f"{name} label") for name, _, color in labels]
    figure.legend(handles=handles, loc="outside upper right", ncols=2, frameon=False, fontsize=9)
    figure.suptitle(charts.plain_text(weights, 90), x=0.02, ha="left", fontsize=10)
    return figure


def _show_image(ax: Axes, image: NDArray[Any], low: float, high: float) -> None:
    """Draw an image of one or three channels; of others, the mean."""
    pixels = (image - low) / max(high - low, 1e-12)
    if pixels.ndim == 3:
        pixels = pixels.transpose(1, 2, 0) if len(pixels) == 3 else pixels.mean(0)
    ax.imshow(pixels.clip(0.0, 1.0), cmap="gray", vmin=0.0, vmax=1.0, interpolation="nearest")
    ax.set_axis_off()


def _plot_labels(ax: Axes, labels: Sequence[tuple[str, NDArray[Any], str]], names: Sequence[str]) -> None:
    """Draw bars of the classes with the largest probabilities in any of the labels."""
    largest = np.max([values for _, values, _ in labels], axis=0)
    classes = [int(c) for c in np.argsort(-largest)[:MAX_BARS] if largest[c] >= 0.005]
    height = 0.8 / len(labels)
    for index, (_, values, color) in enumerate(labels):
        positions = np.arange(len(classes)) + (index - (len(labels) - 1) / 2) * height
        ax.barh(positions, values[classes], height, color=color)
    ax.set_yticks(range(len(classes)), [charts.plain_text(names[c], 16) for c in classes], fontsize=8)
    ax.set_ylim(max(len(classes), 2) - 0.5, -0.5)
    ax.set_xlim(0.0, 1.0)
    ax.tick_params(axis="x", labelsize=8)
