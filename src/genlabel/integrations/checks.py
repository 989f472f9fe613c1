"""Checks of what a user passes to GenLabelMixup: batches, mixers, densities, labelers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from genlabel.densities import ClassDensity, OnlineGaussianDensity
from genlabel.labeling import GenLabel, Labeler, OnlineGenLabel
from genlabel.mixing import Mixer, Mixup, RandomChoice
from genlabel.mixing.base import check_within_batch

DENSITY_SETTINGS = ("beta", "covariance", "statistics", "margin", "share", "temperature")
"""Parameters of `OnlineGaussianDensity` that `GenLabelMixup` takes."""
HINTS = {
    "alpha": "alpha is a parameter of the mixer: mixer=Mixup(alpha=0.2)",
    "mixup_alpha": "pass mixer=Mixup(alpha=0.2)",
    "cutmix_alpha": "pass mixer=CutMix(alpha=1.0), or both: mixer=(Mixup(alpha=0.2), CutMix(alpha=1.0))",
    "mode": "pass mixer=Mixup(lam_per='batch'), 'pair' or 'sample'",
    "lam_per": "pass mixer=Mixup(lam_per='batch'), 'pair' or 'sample'",
    "label_smoothing": "pass it to batch.loss(scores, label_smoothing=0.1) or mixup(x, y, label_smoothing=0.1)",
    "mixup_off_epoch": "set mixup.off_step = 0 at that epoch",
}
"""Hints for parameters of other libraries."""


def check_batch(
    x: Any, y: Any, k: int, blends_input: bool = True, multi_label: bool = False, reads_gpu: bool = False
) -> None:
    """Raise unless x can be mixed and y are labels of its rows.

    Values on a GPU are read with `reads_gpu` only, which waits for it.

    Integers are fine for a mixer that does not blend them: one that pastes, or that mixes in a hidden layer.

    >>> import torch
    >>> check_batch(torch.zeros(2, 3), torch.tensor([0, 7]), 5)
    Traceback (most recent call last):
    ValueError: y must hold class indices, 0 to 4; it has 0 to 7: set num_classes to the number of all classes
    """
    if not isinstance(x, Tensor) or not isinstance(y, Tensor):
        raise TypeError(
            f"x is a {type(x).__name__} and y a {type(y).__name__}; pass tensors: x (n, ...) and the class of each row "
            "(boxes and other annotations of a row are not supported)"
        )
    if blends_input and not x.is_floating_point():
        raise TypeError(
            f"x is {x.dtype}, and mixing would round it; pass floats, such as x.float() / 255 for pixels. For token "
            "ids, mix the output of the embedding: mixer=ManifoldMixup(depths=(1,)), mix_layers=('', 'embeddings')"
        )
    if len(x) != len(y) or not len(x):
        raise ValueError(f"x has {len(x)} rows and y has {len(y)}; pass one batch, of at least one row")
    reads_x, reads_y = (reads_gpu or values.device.type == "cpu" for values in (x, y))
    if reads_x and x.is_floating_point() and not math.isfinite(float(x.sum())) and not bool(x.isfinite().all()):
        row = int((~x.flatten(1).isfinite().all(1)).nonzero()[0])
        raise ValueError(f"x has values that are NaN or infinite, first in row {row}; a mix would spread them")
    if y.ndim > 2:
        raise ValueError(
            f"y has shape {tuple(y.shape)}; masks and boxes are not supported: pass one class per row (n,), or (n, {k})"
        )
    if y.ndim == 2:
        if y.shape[1] != k:
            hint = "class indices (n,), such as y[:, 0], or " if y.shape[1] == 1 else ""
            raise ValueError(f"y has {y.shape[1]} columns, but num_classes={k}; pass {hint}soft labels (n, {k})")
        if reads_y:
            _check_rows(y, multi_label)
    elif multi_label:
        raise ValueError(f"y has shape {tuple(y.shape)}; with multi_label=True, pass (n, {k}) values of 0 and 1")
    elif y.ndim != 1 or y.is_floating_point() or y.is_complex():
        raise ValueError(f"y is {y.dtype} {tuple(y.shape)}; pass integer class indices (n,), or soft labels (n, {k})")
    elif reads_y and not (int(y.min()) >= 0 and int(y.max()) < k):
        raise ValueError(
            f"y must hold class indices, 0 to {k - 1}; it has {int(y.min())} to {int(y.max())}: set num_classes to the "
            "number of all classes"
        )


def _check_rows(y: Tensor, multi_label: bool) -> None:
    """Raise unless the rows of y (n, k) lie on the simplex, or in the unit cube for several labels per row."""
    if not bool(((y >= 0) & (y <= 1)).all()):
        raise ValueError(f"y has values from {float(y.min()):g} to {float(y.max()):g}; they must lie in [0, 1]")
    sums = y.double().sum(1)
    if not multi_label and not bool(((sums - 1.0).abs() < 1e-3).all()):
        raise ValueError(
            f"the rows of y have sums from {float(sums.min()):g} to {float(sums.max()):g}; soft labels have sum 1. For "
            "several labels per row, pass multi_label=True and gamma=0"
        )


def check_mixer(mixer: Mixer | Sequence[Mixer] | None, layers: Sequence[str]) -> Mixer:
    """Return the mixer, one for a pair; raise unless `layers` names a module for each of its depths."""
    given = [Mixup()] if mixer is None else [mixer] if isinstance(mixer, Mixer) else mixer
    if isinstance(given, str) or len(given) not in (1, 2) or not all(isinstance(one, Mixer) for one in given):
        raise TypeError(f"mixer={mixer!r} must be a Mixer such as Mixup(), ManifoldMixup() or CutMix(), or two of them")
    result = given[0] if len(given) == 1 else RandomChoice(given)
    check_within_batch(result)
    if not layers or layers[0] != "":
        raise ValueError(f"mix_layers={tuple(layers)!r} must begin with '', the input, which is depth 0 of the mixer")
    if result.max_depth >= len(layers):
        raise ValueError(
            f"{result!r} mixes at depth {result.max_depth}, but mix_layers={tuple(layers)!r} names {len(layers) - 1}; "
            "name one module per depth: mix_layers=('', 'layer1', 'layer2')"
        )
    return result


def check_density(
    density: ClassDensity | OnlineGaussianDensity | None, k: int, settings: dict[str, Any]
) -> ClassDensity | OnlineGaussianDensity:
    """Return a density of k classes, or a new one with the given settings."""
    if density is None:
        unknown = [name for name in settings if name not in DENSITY_SETTINGS]
        if unknown:
            hint = "".join(f"; {HINTS[name]}" for name in unknown if name in HINTS)
            raise TypeError(
                f"{', '.join(unknown)} is no parameter of GenLabelMixup, nor of its density, whose parameters are "
                f"{', '.join(DENSITY_SETTINGS)}{hint}"
            )
        return OnlineGaussianDensity(k, **settings)
    if isinstance(density, OnlineGaussianDensity):
        if density.num_classes != k:
            raise ValueError(f"the density has num_classes={density.num_classes}, but num_classes={k}")
        return density
    check_is_fitted(density, "classes_")
    if not np.array_equal(density.classes_, np.arange(k)):
        raise ValueError(f"the density has the classes {density.classes_.tolist()}; it must be 0 to {k - 1}")
    return density


def check_labeler(labeler: Labeler, network: nn.Module | None, k: int) -> Labeler:
    """Return a labeler of the user's own; one that learns needs the features of a network."""
    if not isinstance(labeler, Labeler):
        raise TypeError(f"labeler={labeler!r} must be a Labeler, such as LinearLabel() or LogisticLabel()")
    if labeler.update_source is not None and network is None:
        raise ValueError(f"labeler={labeler!r} learns from features; pass the network: GenLabelMixup(network, ...)")
    if isinstance(labeler.state, OnlineGaussianDensity):
        check_density(labeler.state, k, {})
    return labeler


def make_labeler(
    density: Any, gamma: Any, max_gamma: float, top_k: int | None, same_class: str, warmup_steps: int
) -> Labeler:
    """Return the labeler of a density."""
    if isinstance(density, OnlineGaussianDensity):
        return OnlineGenLabel(density, gamma, top_k, same_class, warmup_steps, max_gamma)
    if warmup_steps:
        raise ValueError(f"warmup_steps={warmup_steps!r} needs a density that learns during training; this is fitted")
    return GenLabel.from_fitted(density, gamma=gamma, top_k=top_k, same_class=same_class)
