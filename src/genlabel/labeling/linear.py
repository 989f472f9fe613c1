"""Labels from the parents alone: linear (mixup) and logistic in lam; and weighted sums of labelers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from torch import Tensor

from genlabel._arrays import to_device
from genlabel._validation import check_positive
from genlabel.labeling.base import Labeler
from genlabel.mixing import MixParams
from genlabel.mixing.base import BatchInfo, blend
from genlabel.registry import LABELERS


@final
@LABELERS.register("linear")
class LinearLabel(Labeler):
    """Mixup's label, y_mix = lam y_i + (1 - lam) y_j (arXiv Alg. 1, line 4, and Eq. (3)).

    >>> from genlabel.mixing import MixParams
    >>> LinearLabel().label([[0.0], [0.0]], ["a", "b"], MixParams(np.array([1, 0]), np.array([0.25, 1.0])))
    array([[0.25, 0.75],
           [0.  , 1.  ]])
    """

    def _label(self, x_mix: Tensor, targets: Tensor, draw: MixParams, info: BatchInfo) -> Tensor:
        return blend(targets, draw)


@final
@LABELERS.register("logistic")
class LogisticLabel(Labeler):
    r"""Logistic curve in lam: y = rho y_i + (1 - rho) y_j with rho = 1 / (1 + exp(-2 (lam - 1/2) / sigma^2)).

    arXiv Section 3.2. NOTE[PAPER]: Proposition 1 gives GenLabel's label of two Gaussians of width s without
    the factor 2, so that `sigma` here is sqrt(2) s.

    Parameters
    ----------
    sigma : float
        Width of the curve, above 0; a small one labels with the nearer parent, a large one weights both equally.

    Examples
    --------
    >>> from genlabel.mixing import MixParams
    >>> draw = MixParams(np.array([1, 0]), np.array([0.5, 0.75]))
    >>> LogisticLabel(sigma=0.5).label([[0.0], [0.0]], ["a", "b"], draw).round(3)
    array([[0.5  , 0.5  ],
           [0.119, 0.881]])
    """

    def __init__(self, sigma: float = 0.5) -> None:
        self.sigma = sigma

    def _label(self, x_mix: Tensor, targets: Tensor, draw: MixParams, info: BatchInfo) -> Tensor:
        sigma = check_positive("sigma", self.sigma, "it is the width of the logistic curve")
        rho = torch.sigmoid(torch.as_tensor(2.0 * (draw.lam - 0.5) / sigma**2))
        return blend(targets, draw._replace(lam=rho))


@final
class WeightedLabel(Labeler):
    """Weighted sum of several labelers' labels, such as gamma y_gen + (1 - gamma) y_mix.

    Parameters
    ----------
    labelers : sequence of Labeler
        Fitted labelers, none of which learns while a network trains.
    shares : sequence of float
        Weight of each.

    Examples
    --------
    >>> halves = WeightedLabel([LinearLabel(), LinearLabel()], [0.5, 0.5])
    >>> halves.label([[0.0], [0.0]], [0, 1], MixParams(np.array([1, 0]), np.array([0.25, 1.0])))
    array([[0.25, 0.75],
           [0.  , 1.  ]])
    """

    def __init__(self, labelers: Sequence[Labeler], shares: Sequence[float]) -> None:
        self.labelers = labelers
        self.shares = shares

    @property
    def needs_inputs(self) -> bool:
        """True if any of the labelers needs inputs."""
        return any(labeler.needs_inputs for labeler in self.labelers)

    def _label(self, x_mix: Tensor, targets: Tensor, draw: MixParams, info: BatchInfo) -> Tensor:
        for labeler in self.labelers:
            if labeler.update_source is not None:
                raise ValueError(f"{labeler!r} learns while a network trains and cannot be summed; use it alone")
        labels = torch.stack([labeler.label(x_mix, targets, draw, info) for labeler in self.labelers], -1)
        result: Tensor = labels @ to_device(np.asarray(self.shares), labels, labels.dtype)
        return result
