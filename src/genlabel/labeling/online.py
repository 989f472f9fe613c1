"""GenLabel with densities that learn while the network trains, from its own features (arXiv Alg. 3)."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor

from genlabel._validation import check_choice, check_count, check_interval, warn
from genlabel.densities import DensityWarning, OnlineGaussianDensity
from genlabel.densities.label_trust import ParentLabels
from genlabel.labeling.base import Labeler, keep_clean, label_dtype
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

    def observe(self, features: Tensor, targets: Tensor, draw: MixParams) -> None:
        """Update the density with the features (n, d) of a batch."""
        self.density.observe(features, targets, draw)

    def observe_and_label(
        self,
        observed: Tensor,
        observed_targets: Tensor,
        features: Tensor,
        targets: Tensor,
        draw: MixParams,
        info: BatchInfo | None = None,
    ) -> Tensor:
        """Update the density, and return the labels of the mixed `features`; both share what they compute."""
        density = self.density
        density.allocate(features)
        # Inference mode takes a fifth less time than no_grad; its tensors must not leave it, for autograd refuses them.
        with torch.no_grad() if torch.compiler.is_compiling() else torch.inference_mode():
            parents = ParentLabels.of(targets.to(label_dtype(features)), draw, density.margin)
            rows = density.sufficient(features)
            if isinstance(self.gamma, str):
                density.trust.update(density.log_prob_of(rows), parents, density.margin, self.top_k)
            learned = rows if observed is features else density.sufficient(observed)
            density.learn(learned, parents.nearly_clean if density.statistics == "near" else observed_targets)
            labels = self._mix_labels(density.log_prob_of(rows), targets, draw, parents)
        return labels.clone() if info is None or info.clean is None else keep_clean(labels, targets, info)

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
        return self._gamma_and_temperature()[0]

    def _gamma_and_temperature(self) -> tuple[Any, Tensor | None]:
        """Return the weight of the generative label, and the temperature that replaces that of the density."""
        gamma: Any = self.gamma
        temperature = None
        if isinstance(gamma, str):
            check_choice("gamma", gamma, ["auto"], also="a number from 0 to 1")
            max_gamma = check_interval("max_gamma", self.max_gamma, 0.0, 1.0, "0 is mixup")
            gamma, temperature = self.density.trust.choose(max_gamma)
        elif not isinstance(gamma, Tensor):
            gamma = check_interval("gamma", gamma, 0.0, 1.0, "0 is mixup, 1 the generative label alone")
        if check_count("warmup_steps", self.warmup_steps, low=0):
            gamma = gamma * (self.density.steps / self.warmup_steps).clamp(max=1.0)
        return gamma, temperature

    def _label(self, x_mix: Tensor, targets: Tensor, draw: MixParams, info: BatchInfo) -> Tensor:
        density, parents = self.density, ParentLabels.of(targets, draw, self.density.margin)
        density.allocate(x_mix)
        return self._mix_labels(density.log_prob_of(density.sufficient(x_mix)), targets, draw, parents)

    def _mix_labels(self, log_prob: Tensor, targets: Tensor, draw: MixParams, parents: ParentLabels) -> Tensor:
        """Return the labels for given log p_c (n, k), and count how well they predict nearly clean rows."""
        check_choice("same_class", self.same_class, ["relabel", "keep"])
        density, y_mix, keeps_mixup = self.density, parents.y_mix, parents.is_whole  # such a row is not mixed
        gamma, temperature = self._gamma_and_temperature()
        self.last_gamma = gamma
        if not isinstance(gamma, Tensor) and gamma == 0.0:
            return blend(targets, draw)
        if self.same_class == "keep":
            partner = torch.as_tensor(draw.partner, device=targets.device)
            keeps_mixup = keeps_mixup | (targets == targets[partner]).all(1, True)
        y_gen = density.soft_labels(log_prob, y_mix, self.top_k, temperature)
        labels = torch.lerp(y_mix, y_gen, gamma.to(y_mix.dtype) if isinstance(gamma, Tensor) else gamma)
        labels = torch.where(keeps_mixup, y_mix, labels)
        if not isinstance(self.gamma, str):
            density.trust.compare(y_gen, labels, parents)
        return labels
