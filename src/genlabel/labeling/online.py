"""GenLabel whose densities learn while the network trains: labels from its own features (arXiv Alg. 3)."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor

from genlabel._validation import check_choice, check_count, check_interval
from genlabel.densities import OnlineGaussianDensity
from genlabel.labeling.base import Labeler
from genlabel.mixing import BatchInfo, MixParams, blend


@final
class OnlineGenLabel(Labeler):
    r"""The label of a mixed point is the posterior of its features under Gaussians that learn in every step.

    .. math:: y = \gamma \, y^{gen} + (1 - \gamma) \, y^{mix}

    arXiv Alg. 3 and Eq. (4): y_gen is shared by the two most likely classes. The features are those of the
    penultimate layer, of the same pass of the mixed batch that the loss needs. A point of which no density says
    anything keeps mixup's label.

    The labels come from the network that they teach: at gamma = 0.5 it feeds on its own errors, and accuracy falls;
    the paper's 0.1 to 0.15 is part of the method.

    Parameters
    ----------
    density : OnlineGaussianDensity
        Learns in place.
    gamma : float in [0, 1]
        0 is mixup.
    top_k : int or None
        How many classes share a label; None is all.
    same_class : "relabel" or "keep"
        "keep" leaves the label of a pair of one class alone.
    warmup_steps : int
        Steps over which gamma grows from 0 to its value; 0 has it from the start.

    Examples
    --------
    >>> from genlabel.mixing import identity_params
    >>> labeler = OnlineGenLabel(OnlineGaussianDensity(2), gamma=1.0)
    >>> features, y = torch.tensor([[0.0], [1.0], [4.0], [5.0]]), torch.eye(2)[[0, 0, 1, 1]]
    >>> labeler.observe(features, y, identity_params(4))
    >>> labeler.label(features, y, identity_params(4)).argmax(1)
    tensor([0, 0, 1, 1])
    """

    def __init__(
        self,
        density: OnlineGaussianDensity,
        gamma: float = 0.1,
        top_k: int | None = 2,
        same_class: str = "relabel",
        warmup_steps: int = 0,
    ) -> None:
        self.density = density
        self.gamma = gamma
        self.top_k = top_k
        self.same_class = same_class
        self.warmup_steps = warmup_steps

    @property
    def update_source(self) -> str | None:
        """As the density's statistics say."""
        return self.density.update_source

    @property
    def observed_fraction(self) -> float:
        """As the density's statistics say."""
        return self.density.observed_fraction

    @property
    def needs_inputs(self) -> bool:
        """No: it labels features."""
        return False

    @property
    def state(self) -> OnlineGaussianDensity:
        """The density."""
        return self.density

    def allocate(self, features: Tensor) -> None:
        """Let the density know the number of features."""
        self.density.allocate(features)

    def observe(self, features: Tensor, targets: Tensor, draw: MixParams) -> None:
        """Let the density learn from the features (n, d) of a batch."""
        self.density.observe(features, targets, draw)

    def check(self) -> None:
        """Warn where the labels have collapsed."""
        self.density.check()

    def to_cpu(self) -> OnlineGenLabel:
        """The labeler with its density on the CPU."""
        self.density.cpu()
        return self

    def _label(self, x_mix: Tensor, targets: Tensor, draw: MixParams, origin: BatchInfo) -> Tensor:
        gamma = check_interval("gamma", self.gamma, 0.0, 1.0, "0 is mixup, 1 the generative label alone")
        check_choice("same_class", self.same_class, ["relabel", "keep"])
        y_mix: Tensor = blend(targets, draw)
        if gamma == 0.0:
            return y_mix
        logs, lost = self.density.posterior(x_mix, y_mix, self.top_k)
        if self.same_class == "keep":
            lost = lost | (targets == targets[torch.as_tensor(draw.partner, device=targets.device)]).all(1, True)
        y_gen = torch.where(lost, y_mix, logs.exp().to(y_mix.dtype))
        return torch.lerp(y_mix, y_gen, self._gamma(gamma, y_mix))

    def _gamma(self, gamma: float, like: Tensor) -> Any:
        """Gamma as it is at this step."""
        if check_count("warmup_steps", self.warmup_steps, low=0) == 0:
            return gamma
        return (gamma * (self.density.steps / self.warmup_steps).clamp(max=1.0)).to(like.dtype)
