"""Gaussians that are updated while a network trains (arXiv Alg. 3): moving means and variances of each class.

The state is buffers that are updated in place: nothing waits for a GPU, a step can be compiled and captured, and the
ranks of a distributed run have the same state.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any, final

import torch
from torch import Tensor, nn

from genlabel._runtime import all_reduce_sum, rank_and_world_size
from genlabel._validation import check_choice, check_count, check_interval, check_positive, warn
from genlabel.densities.base import DensityWarning
from genlabel.densities.covariance import LOG_2_PI
from genlabel.densities.label_trust import LabelTrust
from genlabel.densities.posterior import Posterior, log_posterior

MIN_RELATIVE_VARIANCE = 1e-6  # lower bound on a variance, relative to the mean variance of all classes
MIN_VARIANCE = 1e-12
MAX_FEATURE = 1e17  # bound on features, whose sum of squares would overflow in single precision
TEMPERATURE_RATE = 0.05  # change of log(temperature) in a step, for temperature="mixup", per nat of entropy difference
MEAN_LABEL_RATE = 0.01  # weight of the newest batch in the mean labels
MIN_RELATIVE_CLASSES = 0.5
"""Effective number of classes in the labels, relative to that of mixup, below which the labels have collapsed."""


class CollapseWarning(DensityWarning):
    """Warning that generative labels concentrate on ever fewer classes, which the message names."""


@final
class OnlineGaussianDensity(nn.Module):
    r"""Spherical or diagonal Gaussians of the features of each class, updated in the steps of a training run.

    .. math:: \mu_c \leftarrow \mu_c + r_c (\bar f_c - \mu_c), \quad
        \sigma_c^2 \leftarrow \sigma_c^2 + r_c (\tfrac1d \overline{|f - \mu_c|^2} - \sigma_c^2)

    with the means over the rows of class c in a batch, and the rate r_c = (1 - beta) / (1 - beta^t) in the t-th batch
    with rows of the class (arXiv Alg. 3). A class without rows in a batch is unchanged; one that was never seen has
    density 0 and gets no label mass.
    NOTE[PAPER]: Alg. 3 starts at mean 0 and variance 1, which bias the first labels; the rate here corrects that bias.
    After many batches it is that of the paper, 1 - beta.

    Under `torch.distributed` the sums of all ranks are added first: each rank has the moments of the joined batch.

    Parameters
    ----------
    num_classes : int
    num_features : int or None
        None reads it from the first batch.
    beta : float in [0, 1)
        Memory ratio; 0 forgets all batches but the last.
    covariance : "spherical" (as in the paper) or "diagonal"
    statistics : "near", "clean" or "part"
        Source of the features: rows of the mixed batch whose lam is within `margin` of 0 or 1, at no cost; the clean
        batch (as in the paper), by one more pass through the network; or the first `share` of the clean batch.
    margin, share : float
    temperature : float or "mixup"
        Divisor of the log-densities in a label. In many dimensions these differ by hundreds, and labels are one-hot;
        "mixup" adapts the temperature until the mean entropy of the labels is that of mixup.

    Examples
    --------
    >>> density = OnlineGaussianDensity(num_classes=2)
    >>> features = torch.tensor([[0.0, 0.0], [2.0, 2.0], [5.0, 5.0], [7.0, 7.0]])
    >>> density.update(features, torch.eye(2)[[0, 0, 1, 1]])
    >>> density.mean, density.variance
    (tensor([[1., 1.], [6., 6.]]), tensor([1., 1.]))
    """

    mean: Tensor
    """(k, d)"""
    variance: Tensor
    """(k,), or (k, d) if diagonal."""
    weight: Tensor
    """1 - beta^t for t batches with rows of the class, (k,); 0 if it was never seen."""
    log_temperature: Tensor
    mean_label: Tensor
    """Moving means of the generative labels and of those of mixup, (2, k)."""
    steps: Tensor
    """Number of updates."""

    def __init__(
        self,
        num_classes: int,
        num_features: int | None = None,
        *,
        beta: float = 0.95,
        covariance: str = "spherical",
        statistics: str = "near",
        margin: float = 0.1,
        share: float = 0.25,
        temperature: float | str = 1.0,
    ) -> None:
        super().__init__()
        self.num_classes = check_count("num_classes", num_classes, low=2)
        self.beta = check_interval("beta", beta, 0.0, 1.0 - 1e-9, "0 forgets all batches but the last")
        check_choice("covariance", covariance, ["spherical", "diagonal"])
        check_choice("statistics", statistics, ["near", "clean", "part"])
        self.covariance, self.statistics = covariance, statistics
        self.margin = check_interval("margin", margin, 0.0, 0.5, "0.1 takes lam below 0.1 and above 0.9")
        self.share = check_interval("share", share, 0.0, 1.0, "0.25 is a quarter of the batch")
        self.matched = isinstance(temperature, str)
        if self.matched:
            check_choice("temperature", temperature, ["mixup"], also="a number above 0")
        start = 1.0 if self.matched else check_positive("temperature", temperature, "1 is the density as it is")
        self.register_buffer("log_temperature", torch.tensor(math.log(start)))
        self.register_buffer("mean_label", torch.full((2, num_classes), 1.0 / num_classes))
        self.register_buffer("weight", torch.zeros(num_classes))
        self.register_buffer("steps", torch.zeros(()))
        self.register_buffer("mean", None)
        self.register_buffer("variance", None)
        self.trust = LabelTrust()
        if num_features is not None:
            self.allocate(self.weight.new_empty(0, check_count("num_features", num_features)))

    @property
    def update_source(self) -> str:
        """Batch whose features `observe` receives: "mixed" or "clean"."""
        return "mixed" if self.statistics == "near" else "clean"

    @property
    def observed_fraction(self) -> float:
        """Fraction of the clean batch that makes the additional pass."""
        return {"near": 0.0, "clean": 1.0, "part": self.share}[self.statistics]

    @torch.no_grad()
    def observe(self, features: Tensor, targets: Tensor, pairs: Any) -> None:
        """Update the moments by features (n, d) of a batch with labels `targets` (n, k) before mixing.

        The features are those of the mixed batch, whose nearly clean rows count, or of clean rows, which all count.
        `pairs` has the `partner` and `lam` (n,) of each row, as :class:`genlabel.mixing.MixParams`.
        """
        if self.statistics == "near":
            lam, partner = (torch.as_tensor(value, device=targets.device) for value in (pairs.lam, pairs.partner))
            near_itself = (lam >= 1.0 - self.margin)[:, None].to(targets)
            near_partner = (lam <= self.margin)[:, None].to(targets)
            targets = near_itself * targets + near_partner * targets[partner]
        self.update(features, targets)

    def allocate(self, features: Tensor) -> None:
        """Allocate the buffers for features (n, d) if d was unknown; called before a step is compiled."""
        if self.mean is None:
            d, dtype = features.shape[1], torch.promote_types(self.weight.dtype, features.dtype)
            shape = (self.num_classes, d) if self.covariance == "diagonal" else (self.num_classes,)
            with torch.inference_mode(False):  # buffers of inference could not be updated in training
                self.mean = torch.zeros(self.num_classes, d, dtype=dtype, device=features.device)
                self.variance = torch.zeros(shape, dtype=dtype, device=features.device)

    @torch.no_grad()
    def update(self, features: Tensor, weights: Tensor) -> None:
        """Update the moments by features (n, d) with class weights (n, k).

        Sums are in float64, so that features with a mean of a thousand times their spread keep their variance. Rows
        that are not finite, or whose squares overflow in float32, are ignored: a step that overflows in float16 and is
        skipped by loss scaling leaves no trace.
        """
        self._check(features)
        if weights.shape != (len(features), self.num_classes):
            expected = (len(features), self.num_classes)
            raise ValueError(f"weights have shape {tuple(weights.shape)}; they must be {expected}, rows by classes")
        f = features.detach().double()
        is_usable = (f.abs() <= MAX_FEATURE).all(1, keepdim=True)
        f = f.masked_fill(~is_usable, 0.0)
        self.allocate(features)
        with _full_precision(f.device.type):
            center = self.mean.double().mean(0)
            g, d = f - center, f.shape[1]
            diagonal = self.covariance == "diagonal"
            squares = g.square() if diagonal else g.square().sum(1, keepdim=True)
            sums = (weights.double() * is_usable).mT @ torch.cat([torch.ones_like(g[:, :1]), g, squares], 1)
            sums = all_reduce_sum(sums)
            mass, first, second = sums[:, 0], sums[:, 1 : d + 1], sums[:, d + 1 :]
            seen = mass > 0
            count = mass.clamp(min=MIN_VARIANCE)
            weight = torch.where(seen, self.beta * self.weight + (1.0 - self.beta), self.weight)
            rate = torch.where(seen, (1.0 - self.beta) / weight.clamp(min=MIN_VARIANCE), 0.0).double()
            change = first / count[:, None] + center - self.mean
            self.mean.add_(rate[:, None] * change)
            # The mean square about the updated mean (arXiv Alg. 3), which is defined for a single row too.
            # NOTE[PAPER]: the text of arXiv Section A.1 takes it about the mean of the batch; the pseudocode counts.
            shift = self.mean.double() - center
            if diagonal:
                variance = ((second - 2.0 * shift * first) / count[:, None] + shift.square()).clamp(min=0.0)
            else:
                about = (second[:, 0] - 2.0 * (shift * first).sum(1)) / count + shift.square().sum(1)
                variance = (about / d).clamp(min=0.0)
            self.variance.add_(_expand_like(rate, variance) * (variance - self.variance))
            self.weight.copy_(weight)
            self.steps.add_(1.0)

    @torch.no_grad()
    def log_prob(self, features: Tensor) -> Tensor:
        """Return log p_c of features (m, d), (m, k); -inf for a class that was never seen.

        NOTE[PAPER]: arXiv Alg. 3 has det^(-1/2) and no 1/2 in the exponent, which is no density; this is the Gaussian.
        """
        if self.mean is None:
            return torch.full((len(features), self.num_classes), -torch.inf, device=features.device)
        self._check(features)
        d = self.mean.shape[1]
        with _full_precision(features.device.type):
            center = self.mean.mean(0)
            x, mu = features.detach().to(self.mean.dtype) - center, self.mean - center
            seen = _expand_like((self.weight > 0).to(self.variance.dtype), self.variance)
            typical = (self.variance * seen).sum() / seen.expand_as(self.variance).sum().clamp(min=1.0)
            # A class of one point has variance 0.
            variance = torch.maximum(self.variance, MIN_RELATIVE_VARIANCE * typical + MIN_VARIANCE)
            precision = 1.0 / variance
            if self.covariance == "diagonal":
                constant = (mu.square() * precision).sum(1)
                distances = (x.square() @ precision.mT - 2.0 * x @ (mu * precision).mT + constant).clamp(min=0.0)
                log_det = -precision.log().sum(1)
            else:
                squares = x.square().sum(1, keepdim=True) - 2.0 * x @ mu.mT + mu.square().sum(1)
                distances, log_det = squares.clamp(min=0.0) * precision, -d * precision.log()
            logs = -0.5 * (distances + log_det + d * LOG_2_PI)
            return logs.masked_fill(self.weight == 0, -torch.inf)

    def _check(self, features: Tensor) -> None:
        """Raise unless features are (n, d) with the d of the buffers."""
        d = features.shape[-1] if self.mean is None else self.mean.shape[1]
        if features.ndim != 2 or features.shape[1] != d:
            raise ValueError(f"features have shape {tuple(features.shape)}; they must be (n, {d})")

    @torch.no_grad()
    def assess(self, features: Tensor, targets: Tensor, pairs: Any, top_k: int | None = None) -> None:
        """Compare the labels of a mixed batch with what is known of it, before the density learns from it."""
        self.trust.update(self.log_prob(features), targets, pairs, self.margin, top_k)

    @torch.no_grad()
    def posterior(
        self, features: Tensor, y_mix: Tensor, top_k: int | None = None, temperature: Tensor | None = None
    ) -> Posterior:
        """Return the log-posterior (n, k) of a mixed batch, with the rows for which it is undefined.

        Priors are uniform (arXiv Alg. 3). The call updates the mean labels that :meth:`check` compares with the labels
        `y_mix` of mixup, and the temperature if it is "mixup". `temperature` replaces that of the density.
        """
        logs = self.log_prob(features)
        uniform = logs.new_full((self.num_classes,), -math.log(self.num_classes))
        divisor = self.log_temperature.exp() if temperature is None else temperature
        posterior = log_posterior(logs, uniform, divisor.to(logs.dtype), top_k)
        y_gen, linear = posterior.log_proba.exp(), y_mix.to(logs.dtype)
        columns = [y_gen, linear]
        if self.matched:
            columns.append((_entropy(linear) - _entropy(y_gen))[:, None])
        means = torch.cat(columns, 1).mean(0)
        ranks = rank_and_world_size()[1]
        means = means if ranks == 1 else all_reduce_sum(means) / ranks
        labels = means[: 2 * self.num_classes].view(2, -1)
        self.mean_label.lerp_(labels.to(self.mean_label.dtype), MEAN_LABEL_RATE)
        if self.matched:
            self.log_temperature.add_(TEMPERATURE_RATE * means[-1].to(self.log_temperature.dtype)).clamp_(min=0.0)
        return posterior

    def check(self) -> None:
        """Warn if the generative labels have collapsed to fewer classes than those of mixup.

        Reading the buffers waits for a GPU: call it once per epoch.
        """
        generative, linear = (float(_entropy(label).exp()) for label in self.mean_label.detach().cpu().double())
        if generative < MIN_RELATIVE_CLASSES * linear:
            shares, classes = (part.tolist() for part in self.mean_label[0].topk(min(3, self.num_classes)))
            largest = ", ".join(f"class {c} has {100 * share:.0f} %" for c, share in zip(classes, shares, strict=True))
            message = (
                f"the generative labels have collapsed to {generative:.1f} classes on average; those of mixup have "
                f"{linear:.1f} ({largest}); lower gamma (0.1 in the paper), or set warmup_steps"
            )
            warn("collapse", message, CollapseWarning)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Read the number of features from the loaded state if it is unknown."""
        saved = state_dict.get(f"{prefix}mean")
        if saved is not None:
            self.allocate(saved.to(self.weight.device))
        for name, value in self.trust.state_dict(prefix=f"{prefix}trust.").items():
            state_dict.setdefault(name, value)  # a state of 0.2.0 has no trust
        super()._load_from_state_dict(state_dict, prefix, *args)


def _full_precision(device_type: str) -> AbstractContextManager[object]:
    """Return a context without autocast, which costs nothing where it is off."""
    is_on = torch.is_autocast_enabled(device_type)
    return torch.autocast(device_type, enabled=False) if is_on else nullcontext()


def _expand_like(per_class: Tensor, values: Tensor) -> Tensor:
    """Return values (k,) in a shape that multiplies values (k,) or (k, d)."""
    return per_class if values.ndim == 1 else per_class[:, None]


def _entropy(labels: Tensor) -> Tensor:
    """Return the entropy of each row, in nats."""
    return -torch.special.xlogy(labels, labels).sum(-1)
