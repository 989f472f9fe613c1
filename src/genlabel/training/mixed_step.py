"""Mix, observe, label: what a step does with a batch besides the passes of the network (arXiv Alg. 3).

`train_network` and `GenLabelMixup` share it. They differ in how they reach the features of a network: by its stages, or
by hooks.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from genlabel.labeling import Labeler
from genlabel.labeling.base import observe_and_label
from genlabel.mixing import MixParams
from genlabel.mixing.base import BatchInfo
from genlabel.training.compile import frozen_batchnorm_stats


def mixes_input(labeler: Labeler, draw: MixParams) -> bool:
    """Return whether a step needs mixed points of the input: for the network, or for the labeler."""
    return draw.depth == 0 or labeler.needs_inputs


@torch.no_grad()
def clean_features(
    labeler: Labeler, x: Tensor, network: nn.Module, features_of: Callable[[Tensor], Tensor]
) -> Tensor | None:
    """Return features of clean rows, by a pass of their own, if the labeler learns from these.

    NOTE[PAPER]: the features are those of training mode, like the features of mixed points that they are compared with;
    but the running statistics of batch normalization stay those of the mixed batches.
    """
    if labeler.update_source != "clean":
        return None
    count = max(2, round(labeler.observed_fraction * len(x)))
    with frozen_batchnorm_stats(network):
        return features_of(x[:count])


def label_batch(
    labeler: Labeler,
    inputs: Tensor,
    targets: Tensor,
    draw: MixParams,
    info: BatchInfo | None = None,
    clean_features: Tensor | None = None,
    observe_and_label: Callable[..., Tensor] = observe_and_label,
) -> Tensor:
    """Return labels (n, k) of mixed points; for a labeler that learns, of features, which it observes first.

    `clean_features` are those of the first rows before mixing, for update_source="clean".
    """
    if labeler.update_source is None:
        labels: Tensor = labeler.label(inputs, targets, draw, info)
        return labels
    labeler.allocate(inputs)
    observed = inputs if clean_features is None else clean_features
    return observe_and_label(labeler, observed, targets[: len(observed)], inputs, targets, draw, info)
