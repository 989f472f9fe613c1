"""GenLabel with densities that learn while the network trains, from its own features (arXiv Alg. 3)."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor

from genlabel._validation import check_choice, check_count, check_interval, warn
from genlabel.densities import DensityWarning, OnlineGaussianDensity
from genlabel.labeling.base import Labeler
from genlabel.mixing import MixParams
from genlabel.mixing.base import BatchInfo, blend

MIN_STEPS = 100  # after which gamma="auto" must have evidence
MAX_EXCESS = 0.11  # nats of log-loss on nearly clean rows above mixup's; gamma = 0.1 costs at most -log(0.9) = 0.105


@final
class OnlineGenLabel(Labeler):
    r"""Label of a mixed point by the posterior of its features under Gaussians that are updated in every step.

    .. math:: y = \gamma \, y^{gen} + (1 - \gamma) \, y^{mix}

    arXiv Alg. 3 and Eq. (4): y_gen is shared by the two most likely classes. The features are those of the
    penultimate layer in the forward pass of the mixed batch. A point at which every density vanishes keeps mixup's
    label.

    The labels come from the network that they train: at gamma = 0.5 its own errors reinforce themselves, and accuracy
    falls. The paper's 0.1 to 0.15 is part of the method.

    Parameters
    ----------
    density : OnlineGaussianDensity
        Density that is updated in place.
    gamma : float in [0, 1] or "auto"
        Weight of the generative label, as in :class:`GenLabel`. "auto" is the weight, at most `max_gamma`, at which
        the labels of nearly clean rows best predict their known classes; it adapts the temperature of the densities
        too (see :class:`genlabel.densities.label_trust.LabelTrust`).
    top_k, same_class
        As in :class:`GenLabel`.
    warmup_steps : int
        Steps over which gamma grows from 0 to its value; 0 uses it from the start.
    max_gamma : float
        Largest weight with gamma="auto".

    Examples
    --------
    >>> from genlabel.mixing.base import identity_params
    >>> labeler = OnlineGenLabel(OnlineGaussianDensity(2), gamma=1.0)
    >>> features, y = torch.tensor([[0.0], [1.0], [4.0], [5.0]]), torch.eye(2)[[0, 0, 1, 1]]
    >>> labeler.observe(features, y, identity_params(4))
    >>> labeler.label(features, y, identity_params(4)).argmax(1)
    tensor([0, 0, 1, 1])
    """

    last_gamma: Any = None
    """Weight of the generative label in the last labels: a tensor, or a float."""

    def __init__(
        self,
        density: OnlineGaussianDensity,
        gamma: float | str = 0.1,
        top_k: int | None = 2,
        same_class: str = "relabel",
        warmup_steps: int = 0,
        max_gamma: float = 0.5,
    ) -> None:
        self.density = density
        self.gamma = gamma
        self.top_k = top_k
        self.same_class = same_class
        self.warmup_steps = warmup_steps
        self.max_gamma = max_gamma

    @property
    def update_source(self) -> str:
        """Features that the density learns from: "mixed" or "clean"."""
        return self.density.update_source

    @property
    def observed_fraction(self) -> float:
        """Fraction of the batch that makes the additional pass with update_source="clean"."""
        return self.density.observed_fraction

    @property
    def state(self) -> OnlineGaussianDensity:
        """Density that learns."""
        return self.density

    def allocate(self, features: Tensor) -> None:
        """Allocate the density's means and variances."""
        self.density.allocate(features)

    def assess(self, features: Tensor, targets: Tensor, draw: MixParams) -> None:
        """Measure how well labels predict nearly clean rows, for gamma="auto"."""
        if isinstance(self.gamma, str):
            self.density.assess(features, targets, draw, self.top_k)

    def observe(self, features: Tensor, targets: Tensor, draw: MixParams) -> None:
        """Update the density with the features (n, d) of a batch."""
        self.density.observe(features, targets, draw)

    def check(self) -> None:
        """Warn if the labels have collapsed, predict nearly clean rows worse than mixup's, or cannot be measured."""
        self.density.check()
        trust = self.density.trust
        if isinstance(self.gamma, str):
            if float(self.density.steps) >= MIN_STEPS and not bool(trust.has_evidence):
                message = (
                    f"gamma='auto' has no evidence after {float(self.density.steps):.0f} batches: nearly no row has a "
                    f"lam within margin={self.density.margin:g} of 0 or 1, and labels stay those of mixup. Choose a "
                    "mixer with such rows (a smaller alpha, or prob below 1), or a fixed gamma"
                )
                warn("no evidence", message, DensityWarning)
            return
        gamma = float(self.effective_gamma())
        excess = float(trust.excess_loss)
        if excess > MAX_EXCESS:
            message = (
                f"on nearly clean rows, whose classes are known, labels with gamma={gamma:g} have a log-loss that is "
                f"{excess:.2f} above mixup's: the densities name the class of {float(trust.accuracy):.0%} of these "
                "rows. Lower gamma, or set gamma='auto'"
            )
            warn("worse than mixup", message, DensityWarning)

    def effective_gamma(self) -> Any:
        """Return the weight of the generative label in this step: a tensor, or a float if it is constant."""
        gamma: Any = self.gamma
        if isinstance(gamma, str):
            check_choice("gamma", gamma, ["auto"], also="a number from 0 to 1")
            gamma = self.density.trust.gamma(check_interval("max_gamma", self.max_gamma, 0.0, 1.0, "0 is mixup"))
        elif not isinstance(gamma, Tensor):
            gamma = check_interval("gamma", gamma, 0.0, 1.0, "0 is mixup, 1 the generative label alone")
        if check_count("warmup_steps", self.warmup_steps, low=0):
            gamma = gamma * (self.density.steps / self.warmup_steps).clamp(max=1.0)
        return gamma

    def _label(self, x_mix: Tensor, targets: Tensor, draw: MixParams, info: BatchInfo) -> Tensor:
        check_choice("same_class", self.same_class, ["relabel", "keep"])
        y_mix: Tensor = blend(targets, draw)
        gamma, temperature = self.effective_gamma(), None
        self.last_gamma = gamma.clone() if isinstance(gamma, Tensor) else gamma
        if not isinstance(gamma, Tensor) and gamma == 0.0:
            return y_mix
        if isinstance(self.gamma, str):
            temperature = self.density.trust.temperature(self.max_gamma)
        log_proba, keeps_mixup = self.density.posterior(x_mix, y_mix, self.top_k, temperature)
        lam = torch.as_tensor(draw.lam, device=targets.device)[:, None]
        keeps_mixup = keeps_mixup | (lam == 1.0)  # the row is not mixed
        if self.same_class == "keep":
            partner = torch.as_tensor(draw.partner, device=targets.device)
            keeps_mixup = keeps_mixup | (targets == targets[partner]).all(1, True)
        y_gen = torch.where(keeps_mixup, y_mix, log_proba.exp().to(y_mix.dtype))
        labels = torch.lerp(y_mix, y_gen, gamma.to(y_mix) if isinstance(gamma, Tensor) else gamma)
        if not isinstance(self.gamma, str):
            self.density.trust.compare(y_gen, labels, targets, draw, self.density.margin)
        return labels
