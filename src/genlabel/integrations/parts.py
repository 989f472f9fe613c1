"""The parts of the drop-in, from what its user gave: mixer, density, rule for labels, teacher."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted
from torch import nn

from genlabel._validation import check_choice
from genlabel.densities import ClassDensity, OnlineGaussianDensity
from genlabel.integrations.ema import Teacher
from genlabel.integrations.hooks import unwrap
from genlabel.labeling import GenLabel, Labeler, LinearLabel, OnlineGenLabel
from genlabel.mixing import Mixer
from genlabel.mixing.base import check_within_batch


def check_mixer(mixer: Mixer, layers: Sequence[str]) -> Mixer:
    """Return the mixer, if it mixes at layers that are named."""
    if not isinstance(mixer, Mixer):
        raise TypeError(f"mixer={mixer!r} must be a Mixer such as Mixup(), ManifoldMixup() or CutMix()")
    check_within_batch(mixer)
    if not layers or layers[0] != "":
        raise ValueError(f"mix_layers={tuple(layers)!r} must begin with '', the input, which is depth 0 of the mixer")
    if mixer.max_depth >= len(layers):
        raise ValueError(
            f"{mixer!r} mixes at depth {mixer.max_depth}, but mix_layers={tuple(layers)!r} names {len(layers) - 1}; "
            "name one module a depth: mix_layers=('', 'layer1', 'layer2')"
        )
    return mixer


def make_density(
    k: int, density: ClassDensity | OnlineGaussianDensity | None, settings: dict[str, Any]
) -> ClassDensity | OnlineGaussianDensity:
    """The density that was given, or one that learns."""
    if density is None:
        return OnlineGaussianDensity(k, **settings)
    if settings:
        raise ValueError(f"{', '.join(settings)} are settings of a density that is made here; make density= with them")
    if isinstance(density, ClassDensity):
        check_is_fitted(density, "classes_")
        if not np.array_equal(density.classes_, np.arange(k)):
            raise ValueError(f"the density knows the classes {density.classes_.tolist()}; it must be 0 to {k - 1}")
    elif density.num_classes != k:
        raise ValueError(f"the density has num_classes={density.num_classes}, but num_classes={k}")
    return density


def make_labeler(
    density: ClassDensity | OnlineGaussianDensity, gamma: float, top_k: int | None, same_class: str, warmup_steps: int
) -> Labeler:
    """The rule for labels: mixup's for gamma 0."""
    if isinstance(density, OnlineGaussianDensity):
        return LinearLabel() if gamma == 0.0 else OnlineGenLabel(density, gamma, top_k, same_class, warmup_steps)
    if warmup_steps:
        raise ValueError(
            f"warmup_steps={warmup_steps!r} needs a density that learns during training; this one is fitted"
        )
    return (
        LinearLabel()
        if gamma == 0.0
        else GenLabel.from_fitted(density, gamma=gamma, top_k=top_k, same_class=same_class)
    )


def make_teacher(
    teacher: nn.Module | str | None, network: nn.Module | None, layer: str | None, k: int, decay: float
) -> Teacher | None:
    """The teacher that was named or given."""
    if teacher is None:
        return None
    if isinstance(teacher, str):
        check_choice("teacher", teacher, ["ema"], also="a module")
        if network is None:
            raise ValueError("teacher='ema' needs the network that it averages: GenLabelMixup(network, ...)")
        return Teacher.average_of(network, layer, k, decay)
    if network is not None and unwrap(teacher) is unwrap(network):
        raise ValueError("teacher is the network itself; give a copy of it, copy.deepcopy(network), or 'ema'")
    return Teacher(teacher, layer, k)
