"""Gaussians that are updated while a network trains (arXiv Alg. 3): moving means and variances of each class.

The state is buffers that are updated in place: nothing waits for a GPU, a step can be compiled and captured, and the
ranks of a distributed run have the same state.
"""

from __future__ import annotations

import math
from typing import Any, final

import torch
from torch import Tensor, nn

from genlabel._runtime import all_reduce_sum, rank_and_world_size
from genlabel._validation import check_choice, check_count, check_interval, check_positive, warn
from genlabel.densities.base import DensityWarning
from genlabel.densities.covariance import LOG_2_PI
from genlabel.densities.label_trust import LabelTrust, ParentLabels

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
            targets = ParentLabels.of(targets, pairs, self.margin).nearly_clean
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

        Rows that are not finite, or whose squares overflow in float32, are ignored: a step that overflows in float16
        and is skipped by loss scaling leaves no trace.
        """
        self.allocate(features)
        self.learn(self.sufficient(features), weights)

    def sufficient(self, features: Tensor) -> Tensor:
        """Return the sufficient statistics of each row of features (n, d): they, their squares or the sum of these, 1.

        They are in float64, so that features with a mean of a thousand times their spread keep their variance.
        """
        d = features.shape[-1] if self.mean is None else self.mean.shape[1]
        if features.ndim != 2 or features.shape[1] != d:
            raise ValueError(f"features have shape {tuple(features.shape)}; they must be (n, {d})")
        x = features.double()
        squares = x * x
        if self.covariance == "spherical":
            squares = squares.sum(1, keepdim=True)
        return torch.cat([x, squares, squares.new_ones(len(x), 1)], 1)

    def learn(self, rows: Tensor, weights: Tensor) -> None:
        """Update the moments by sufficient statistics of rows, with class weights (n, k)."""
        if weights.shape != (len(rows), self.num_classes):
            expected = (len(rows), self.num_classes)
            raise ValueError(f"weights have shape {tuple(weights.shape)}; they must be {expected}, rows by classes")
        mean, variance, weight, d = self.mean, self.variance, self.weight, self.mean.shape[1]
        squares = rows[:, d:-1]
        is_usable = (squares if squares.shape[1] == 1 else squares.amax(1, keepdim=True)) <= MAX_FEATURE**2
        sums = all_reduce_sum(weights.double().mT @ torch.where(is_usable, rows, 0.0))
        mass = sums[:, -1:]
        means = sums / mass.clamp(min=MIN_VARIANCE)
        first, second = means[:, :d], means[:, d:-1]
        newest = mass.sign().mul_(1.0 - self.beta)  # 0 for a class without rows
        share = weight.unsqueeze(1)
        share.addcmul_(newest, share, value=-1.0).add_(newest)
        rate = newest.div_(share.clamp(min=MIN_VARIANCE))
        center = torch.lerp(mean.double(), first, rate)
        mean.copy_(center)
        # The mean square about the updated mean (arXiv Alg. 3), which is defined for a single row too.
        # NOTE[PAPER]: the text of arXiv Section A.1 takes it about the mean of the batch; the pseudocode counts.
        shift = torch.sub(center, first, alpha=2.0).mul_(center)
        about = second + (shift if variance.ndim == 2 else shift.sum(1, keepdim=True))
        if variance.ndim == 1:
            variance = variance.unsqueeze(1)
            about.div_(d)
        variance.copy_(torch.lerp(variance.double(), about.clamp_(min=0.0), rate))
        self.steps.add_(1.0)

    @torch.no_grad()
    def log_prob(self, features: Tensor) -> Tensor:
        """Return log p_c of features (m, d), (m, k); -inf for a class that was never seen.

        NOTE[PAPER]: arXiv Alg. 3 has det^(-1/2) and no 1/2 in the exponent, which is no density; this is the Gaussian.
        """
        if self.mean is None:
            return torch.full((len(features), self.num_classes), -torch.inf, device=features.device)
        log_prob = self.log_prob_of(self.sufficient(features)) - 0.5 * features.shape[1] * LOG_2_PI
        return log_prob.to(self.mean.dtype)

    def log_prob_of(self, rows: Tensor) -> Tensor:
        """Return log p_c + d/2 log 2 pi, in float64, by the sufficient statistics of rows: it is linear in them."""
        mean, variance, is_seen = self.mean.double(), self.variance.double(), self.weight.sign().unsqueeze(1)
        if variance.ndim == 1:
            variance = variance.unsqueeze(1)
        d, columns = mean.shape[1], variance.shape[1]
        # A class of one point has variance 0; one that was never seen has it too, and does not count.
        total, count = variance.sum(), is_seen.sum().clamp_(min=1.0)
        smallest = variance.new_full((), MIN_VARIANCE)
        smallest = torch.addcdiv(smallest, total, count, value=MIN_RELATIVE_VARIANCE / columns)
        precision = torch.maximum(variance, smallest).reciprocal_()
        slope = mean * precision
        log_det = (precision * is_seen).log_()  # -inf for a class that was never seen
        if columns > 1:
            log_det = log_det.sum(1, keepdim=True)
        offset = log_det.mul_(0.5 * d / columns).sub_((slope * mean).sum(1, keepdim=True), alpha=0.5)
        return rows @ torch.cat([slope, precision.mul_(-0.5), offset], 1).mT

    def soft_labels(
        self, log_prob: Tensor, y_mix: Tensor, top_k: int | None = None, temperature: Tensor | None = None
    ) -> Tensor:
        """Return the posterior (n, k) of the classes of a mixed batch, given log p_c, with uniform priors (Alg. 3).

        The `top_k` most likely classes share it (NOTE[PAPER]: the algorithm prints argmin, the text above it says the
        most likely). Rows where it is undefined, because every density vanishes or one is not a number, have mixup's
        labels `y_mix`. The call updates the mean labels that :meth:`check` compares, and the temperature if it is
        "mixup". `temperature` replaces that of the density.
        """
        scores, classes = log_prob, None
        if top_k is not None and check_count("top_k", top_k) < self.num_classes:
            scores, classes = log_prob.topk(top_k, 1)
        shares = torch.softmax(scores / (self.log_temperature.exp() if temperature is None else temperature), 1)
        is_undefined, shares = shares[:, :1].isnan(), shares.to(y_mix.dtype)
        if classes is not None:
            shares = torch.zeros_like(y_mix).scatter_(1, classes, shares)
        y_gen = torch.where(is_undefined, y_mix, shares)
        columns = [y_gen, y_mix]
        if self.matched:
            columns.append((_entropy(y_mix) - _entropy(y_gen))[:, None])
        means = torch.cat(columns, 1).mean(0)
        ranks = rank_and_world_size()[1]
        means = means if ranks == 1 else all_reduce_sum(means) / ranks
        labels = means[: 2 * self.num_classes].view(2, -1)
        self.mean_label.lerp_(labels.to(self.mean_label.dtype), MEAN_LABEL_RATE)
        if self.matched:
            self.log_temperature.add_(TEMPERATURE_RATE * means[-1].to(self.log_temperature.dtype)).clamp_(min=0.0)
        return y_gen

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


def _entropy(labels: Tensor) -> Tensor:
    """Return the entropy of each row, in nats."""
    return -torch.special.xlogy(labels, labels).sum(-1)
