"""Gaussians that learn while a network trains: means and variances of each class's features, with a memory.

arXiv Alg. 3. All state is in buffers that are updated in place: nothing waits for a GPU, a step can be compiled and
captured, and the ranks of a distributed run hold the same numbers.
"""

from __future__ import annotations

import math
from typing import Any, Protocol, final

import torch
from torch import Tensor, nn

from genlabel._distributed import all_reduce_sum, rank_and_world_size
from genlabel._validation import check_choice, check_count, check_interval, check_positive, warn
from genlabel.densities.base import DensityWarning
from genlabel.densities.covariance import LOG_2_PI
from genlabel.densities.posterior import Posterior, log_posterior

FLOOR = 1e-6
"""A variance is at least this share of the mean variance of all classes."""
LARGEST = 1e17
"""Features beyond this have no sum of squares in single precision."""
TINY = 1e-12
"""A variance is at least this."""
PACE = 0.05
"""Change of the logarithm of a matched temperature in a step, for a difference of one nat."""
FORGETS = 0.01
"""Share of the newest batch in the mean labels."""
COLLAPSED = 0.5
"""Labels that name on average less than this share of the classes that mixup's labels name have collapsed."""


class CollapseWarning(DensityWarning):
    """The generative labels name ever fewer classes: the network teaches itself; the message names them."""


class Drawn(Protocol):
    """Of a draw, what tells which rows are nearly clean: a :class:`genlabel.mixing.MixParams` is one."""

    @property
    def partner(self) -> Any:
        """Row that each row is mixed with, (n,)."""

    @property
    def lam(self) -> Any:
        """Weight of the row itself, (n,)."""


@final
class OnlineGaussianDensity(nn.Module):
    r"""Spherical or diagonal Gaussians of the features of each class, learned in the steps of a training run.

    .. math:: \mu_c \leftarrow \mu_c + r_c (\bar f_c - \mu_c), \quad
        \sigma_c^2 \leftarrow \sigma_c^2 + r_c (\tfrac1d \overline{|f - \mu_c|^2} - \sigma_c^2)

    with the means over the rows of class c in a batch, and the rate r_c = (1 - beta) / (1 - beta^t) in the t-th batch
    with rows of the class (arXiv Alg. 3). A class that is not in a batch keeps its values; one that was never seen has
    no density, so no label mass.
    NOTE[PAPER]: Alg. 3 starts at mean 0 and variance 1, which the first labels are full of; the rate here takes that
    bias out. For many batches it is the paper's, 1 - beta.

    Under `torch.distributed` the sums of all ranks are added before anything is divided: each rank has the moments of
    the joined batch.

    Parameters
    ----------
    num_classes : int
    n_features : int or None
        None is known from the first batch.
    beta : float in [0, 1)
        The memory ratio; 0 forgets all batches but the last.
    covariance : "spherical" (the paper's) or "diagonal"
    statistics : "near", "clean" or "part"
        From which features it learns: those of the mixed batch whose lam is within `margin` of 0 or 1, which cost
        nothing; those of the clean batch (the paper's), by one more pass through the network; those of the first
        `share` of it.
    margin, share : float
    temperature : float or "mixup"
        Divides the log-densities in a label. In many dimensions they differ by hundreds, and a label is one-hot;
        "mixup" finds the temperature at which labels are, on average, as uncertain as those of mixup.

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
    """(k,): 1 - beta^t for t batches with rows of the class; 0 if it was never seen."""
    log_temperature: Tensor
    mean_label: Tensor
    """(2, k): running means of the generative labels, and of mixup's."""
    steps: Tensor
    """How often it observed."""

    def __init__(
        self,
        num_classes: int,
        n_features: int | None = None,
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
        if n_features is not None:
            self._allocate(check_count("n_features", n_features))

    @property
    def update_source(self) -> str:
        """Whose features `observe` wants: those of the "mixed" batch, or of the "clean" one."""
        return "mixed" if self.statistics == "near" else "clean"

    @property
    def observed_fraction(self) -> float:
        """Share of the clean batch that goes through the network for it."""
        return {"near": 0.0, "clean": 1.0, "part": self.share}[self.statistics]

    @torch.no_grad()
    def observe(self, features: Tensor, targets: Tensor, draw: Drawn) -> None:
        """Learn from the features (n, d) of a batch with labels `targets` (n, k) before mixing.

        They are those of the mixed batch, whose nearly clean rows count, or of clean rows, which all do.
        """
        if self.statistics == "near":
            targets = self._near(targets, draw)
        self.update(features, targets)

    def _near(self, targets: Tensor, draw: Drawn) -> Tensor:
        """The label of the parent that a row nearly is, (n, k); none for the rows between."""
        lam, partner = (torch.as_tensor(value, device=targets.device) for value in (draw.lam, draw.partner))
        itself, other = (rows[:, None].to(targets) for rows in (lam >= 1.0 - self.margin, lam <= self.margin))
        return itself * targets + other * targets[partner]

    def allocate(self, features: Tensor) -> None:
        """Make room for means and variances, if the number of features was not known; :meth:`update` does so, too.

        Before a step is compiled, so that it is compiled once.
        """
        if self.mean is None:
            self._allocate(features.shape[1], features)

    @torch.no_grad()
    def update(self, features: Tensor, weights: Tensor) -> None:
        """Update the moments by features (n, d); weights (n, k) say how much of a row belongs to each class.

        Sums are float64: features whose mean is a thousand times their spread keep their variance. Rows that are not
        finite, or have no squares in float32, do not count: a step that overflows in float16, and is skipped by the
        loss scaling, leaves no trace.
        """
        self._check(features)
        if weights.shape != (len(features), self.num_classes):
            raise ValueError(
                f"weights have shape {tuple(weights.shape)}; they must be ({len(features)}, {self.num_classes}), a row "
                "for each of the features and a column for each class"
            )
        f = features.detach().double()
        counts = (f.abs() <= LARGEST).all(1, keepdim=True)
        f = f.masked_fill(~counts, 0.0)
        self.allocate(features)
        with torch.autocast(f.device.type, enabled=False):
            centre = self.mean.double().mean(0)
            mass, first, second = self._sums(f - centre, weights.double() * counts)
            seen = mass > 0
            count = mass.clamp(min=TINY)
            weight = torch.where(seen, self.beta * self.weight + (1.0 - self.beta), self.weight)
            rate = torch.where(seen, (1.0 - self.beta) / weight.clamp(min=TINY), 0.0).double()
            moved = first / count[:, None] + centre - self.mean
            self.mean.add_(rate[:, None] * moved)
            spread = self._spread(first, second, count, self.mean.double() - centre)
            self.variance.add_(_beside(rate, spread) * (spread - self.variance))
            self.weight.copy_(weight)
            self.steps.add_(1.0)

    def _sums(self, g: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Number, sum and sum of squares of the centred features of each class, over the batches of all ranks."""
        squares = g.square() if self.covariance == "diagonal" else g.square().sum(1, keepdim=True)
        sums = weights.mT @ torch.cat([torch.ones_like(g[:, :1]), g, squares], 1)
        sums = all_reduce_sum(sums)
        d = g.shape[1]
        return sums[:, 0], sums[:, 1 : d + 1], sums[:, d + 1 :]

    def _spread(self, first: Tensor, second: Tensor, count: Tensor, shift: Tensor) -> Tensor:
        """Mean square about the (updated) mean, as in arXiv Alg. 3: a batch with one row of a class has one, too."""
        if self.covariance == "diagonal":
            return ((second - 2.0 * shift * first) / count[:, None] + shift.square()).clamp(min=0.0)
        about = (second[:, 0] - 2.0 * (shift * first).sum(1)) / count + shift.square().sum(1)
        return (about / first.shape[1]).clamp(min=0.0)

    @torch.no_grad()
    def log_prob(self, features: Tensor) -> Tensor:
        """Return log p_c of features (m, d), (m, k); minus infinity for a class that was never seen."""
        if self.mean is None:
            return torch.full((len(features), self.num_classes), -torch.inf, device=features.device)
        self._check(features)
        d = self.mean.shape[1]
        with torch.autocast(features.device.type, enabled=False):
            centre = self.mean.mean(0)
            x, mu = features.detach().to(self.mean.dtype) - centre, self.mean - centre
            precision = 1.0 / self._floored()
            logs = -0.5 * (self._distances(x, mu, precision) + self._log_det(precision) + d * LOG_2_PI)
            return logs.masked_fill(self.weight == 0, -torch.inf)

    def _check(self, features: Tensor) -> None:
        """Raise unless features are (n, d), with the d that is known."""
        known = features.shape[-1] if self.mean is None else self.mean.shape[1]
        if features.ndim != 2 or features.shape[1] != known:
            raise ValueError(f"features have shape {tuple(features.shape)}; they must be (n, {known})")

    def _floored(self) -> Tensor:
        """Variances with a floor: a class of one point has none."""
        seen = _beside((self.weight > 0).to(self.variance.dtype), self.variance)
        typical = (self.variance * seen).sum() / seen.expand_as(self.variance).sum().clamp(min=1.0)
        return torch.maximum(self.variance, FLOOR * typical + TINY)

    def _distances(self, x: Tensor, mu: Tensor, precision: Tensor) -> Tensor:
        """(x - mu_c)^T Sigma_c^-1 (x - mu_c), (m, k)."""
        if self.covariance == "diagonal":
            around = (mu.square() * precision).sum(1)
            return (x.square() @ precision.mT - 2.0 * x @ (mu * precision).mT + around).clamp(min=0.0)
        squares = x.square().sum(1, keepdim=True) - 2.0 * x @ mu.mT + mu.square().sum(1)
        return squares.clamp(min=0.0) * precision

    def _log_det(self, precision: Tensor) -> Tensor:
        """Logarithm of the determinant of each covariance, (k,)."""
        if self.covariance == "diagonal":
            return -precision.log().sum(1)
        return -self.mean.shape[1] * precision.log()

    @torch.no_grad()
    def posterior(self, features: Tensor, y_mix: Tensor, top_k: int | None = None) -> Posterior:
        """Return the log-posterior (n, k) of a mixed batch, and which rows are lost; mixup's labels are watched beside.

        Priors are uniform (arXiv Alg. 3). The mean labels that :meth:`check` compares, and a temperature that is
        matched, are updated.
        """
        logs = self.log_prob(features)
        uniform = logs.new_full((self.num_classes,), -math.log(self.num_classes))
        found = log_posterior(logs, uniform, self.log_temperature.exp().to(logs.dtype), top_k)
        y_gen, linear = found.log_proba.exp(), y_mix.to(logs.dtype)
        apart = _entropy(linear) - _entropy(y_gen)
        means = _mean_over_ranks(torch.cat([y_gen, linear, apart[:, None]], 1).mean(0))
        self.mean_label.lerp_(means[:-1].view(2, -1).to(self.mean_label.dtype), FORGETS)
        if self.matched:
            self.log_temperature.add_(PACE * means[-1].to(self.log_temperature.dtype)).clamp_(min=0.0)
        return found

    def check(self) -> None:
        """Warn where the generative labels have collapsed to fewer classes than mixup's labels name.

        It reads the buffers, and so waits for a GPU: once an epoch is enough.
        """
        ours, mixups = (float(_entropy(label).exp()) for label in self.mean_label.detach().cpu().double())
        if ours < COLLAPSED * mixups:
            most = self.mean_label[0].topk(min(3, self.num_classes))
            named = ", ".join(
                f"class {c} has {100 * share:.0f} %" for c, share in zip(*map(Tensor.tolist, most[::-1]), strict=True)
            )
            warn(
                "collapse",
                f"the generative labels have collapsed: they name {ours:.1f} classes on average, mixup's {mixups:.1f} "
                f"({named}); the network teaches itself: lower gamma (the paper's is 0.1), or set warmup_steps",
                CollapseWarning,
            )

    def _allocate(self, d: int, like: Tensor | None = None) -> None:
        at = self.weight if like is None else like
        dtype = torch.promote_types(self.weight.dtype, at.dtype)
        shape = (self.num_classes, d) if self.covariance == "diagonal" else (self.num_classes,)
        self.mean = torch.zeros(self.num_classes, d, dtype=dtype, device=at.device)
        self.variance = torch.zeros(shape, dtype=dtype, device=at.device)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Take the number of features from what is loaded, if it is not known yet."""
        saved = state_dict.get(f"{prefix}mean")
        if self.mean is None and saved is not None:
            self._allocate(saved.shape[1], saved.to(self.weight.device))
        super()._load_from_state_dict(state_dict, prefix, *args)

    def extra_repr(self) -> str:
        """What it was made with."""
        known = "?" if self.mean is None else self.mean.shape[1]
        return f"{self.num_classes} classes, {known} features, {self.covariance}, {self.statistics}, beta={self.beta:g}"


def _beside(per_class: Tensor, values: Tensor) -> Tensor:
    """Numbers (k,) in a shape that multiplies values (k,) or (k, d)."""
    return per_class if values.ndim == 1 else per_class[:, None]


def _mean_over_ranks(means: Tensor) -> Tensor:
    """The average of what the processes of a distributed run have, of batches of one size."""
    ranks = rank_and_world_size()[1]
    return means if ranks == 1 else all_reduce_sum(means) / ranks


def _entropy(labels: Tensor) -> Tensor:
    """Entropy of each row, in nats."""
    return -torch.special.xlogy(labels, labels).sum(-1)
