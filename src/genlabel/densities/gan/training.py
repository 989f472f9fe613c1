"""The training of many GANs at once, each of a class and of a trial, against critics that are regularised twice."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from genlabel.densities.gan.charts import Charts, Latents, chart_rows
from genlabel.densities.gan.networks import Network, Weights, apply

NOISE = 0.1
"""The noise with which a generator begins, in standard deviations of the features."""
FASTER = 4.0
"""How much faster the noise is learned than the manifold."""
ENERGY = 5.0
"""The weight of the energy distance in the loss of the generators. NOTE[PAPER]: the paper has none."""
CRITIC = 1.0
"""The weight of what the critic says. (`benchmarks/gan.py --ablation` sets either to 0.)"""


class Generators(NamedTuple):
    """A stack of generators: x = G(w) + sigma e is a point of the class, G(w) one of its manifold.

    NOTE[PAPER]: the paper's generator has no noise; its p_c assumes one around the manifold that is spherical in the
    units of the distance, and so is this. With a noise of its own for each feature, a straight class can be
    had by a short curve with noise along it.
    """

    network: Network
    latents: Latents
    weights: Weights
    log_noise: Tensor
    """(s, 1, d): log sigma, the same for all features in the units of the distance."""
    shares: Tensor
    """(s, charts): how often a point is of each chart."""
    reader: Network | None = None
    """The encoder, if there is one."""
    reader_weights: Weights = ()

    def __call__(self, w: Tensor) -> Tensor:
        """The points of the manifolds at latents (s, n, size): (s, n, d)."""
        return apply(self.network, self.weights, w)

    def encode(self, x: Tensor) -> Tensor:
        """What the encoder says of the latents of points (s, n, d): (s, n, size), the charts as shares."""
        assert self.reader is not None
        raw = apply(self.reader, self.reader_weights, x)
        dim = self.latents.dim
        return torch.cat([raw[..., :dim].tanh(), raw[..., dim:].softmax(-1)], -1)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Points with noise, (s, n, d), and their latents; every generator is given the same z and noise."""
        w = self.latents.draw(n, self.shares, rng)
        points = self(w)
        noise = torch.from_numpy(rng.standard_normal(points.shape[1:], dtype=np.float32)).to(points)
        return points + self.log_noise.exp() * noise, w

    def take(self, members: Tensor) -> Generators:
        """Those of some members of the stack."""
        return self.map(lambda part: part[members])

    def to(self, like: Tensor) -> Generators:
        """In the precision of a tensor, and on its device."""
        return self.map(lambda part: part.to(like))

    @classmethod
    def join(cls, stacks: Sequence[Generators]) -> Generators:
        """One stack of several."""
        parts = [torch.cat(same) for same in zip(*(one._tensors for one in stacks), strict=True)]
        return stacks[0]._with(parts)

    def map(self, change: Callable[[Tensor], Tensor]) -> Generators:
        """With every tensor changed alike."""
        return self._with([change(part) for part in self._tensors])

    @property
    def _tensors(self) -> list[Tensor]:
        return [self.log_noise, self.shares, *self.weights, *self.reader_weights]

    def _with(self, tensors: list[Tensor]) -> Generators:
        log_noise, shares, *weights = tensors
        n = len(self.weights)
        return self._replace(log_noise=log_noise, shares=shares, weights=weights[:n], reader_weights=weights[n:])


class Networks(NamedTuple):
    """The shapes of what is trained."""

    generator: Network
    critic: Network
    """Of points; with an encoder, of points with their latents."""
    encoder: Network | None
    """Trained with the generator (ALI, bidirectional GAN), or none."""


class TrainingRows(Protocol):
    """Rows of a class."""

    @property
    def train(self) -> Tensor:
        """(n, d), float32."""
        ...

    @property
    def weight(self) -> Tensor:
        """(n,): their weights."""
        ...


class Trial(NamedTuple):
    """What is varied between the generators of a class."""

    penalty: float
    charts: int
    """Those of the latents' that are used."""


class Schedule(NamedTuple):
    """How long, how fast, and where."""

    steps: int
    batch_size: int
    learning_rate: float
    device: torch.device
    unit: Tensor
    """(d,): what a standardised feature is in the units of the distance, in which the noise is spherical."""


def train_gans(
    networks: Networks,
    latents: Latents,
    rows: Sequence[TrainingRows],
    trials: Sequence[Trial],
    schedule: Schedule,
    rng: np.random.Generator,
    tell: Callable[[int], None] | None = None,
) -> Generators:
    """Return k t generators: those of class c, and trial j are at c t + j.

    The critic's loss is softplus(D(fake) - D(real)), the generator's the same with the roles changed, and the critic's
    gradients at real and at generated points are penalised alike (R1 + R2), with the weight of the trial. The
    generators also lessen the energy distance of a batch, which holds them in all parts of their class. All
    classes begin with the same weights and see the same latents, so that their order does not matter; the generators
    that are returned have the average of the weights of the later steps.
    """
    fleet = _Fleet(networks, latents, rows, trials, schedule, rng)
    fleet.begin()
    for step in range(schedule.steps):
        fleet.step(step)
        if tell is not None:
            tell(step)
    return fleet.average


class _Fleet:
    """The state of the training."""

    def __init__(
        self,
        networks: Networks,
        latents: Latents,
        rows: Sequence[TrainingRows],
        trials: Sequence[Trial],
        schedule: Schedule,
        rng: np.random.Generator,
    ) -> None:
        self.schedule, self.rng, self.device, self.trials = schedule, rng, schedule.device, trials
        self.rows = [one.train.to(self.device) for one in rows]
        self.shares = [(one.weight.cumsum(0) / one.weight.sum()).to(self.device) for one in rows]
        self.penalty = torch.tensor([trial.penalty for trial in trials]).repeat(len(rows)).to(self.device)
        generator, self.critic, encoder = networks
        self.critic_weights = self._draw(self.critic)
        self.log_unit = schedule.unit.log().to(self.device, torch.float32)
        self.log_level = torch.full((len(self.penalty), 1, 1), np.log(NOISE)) + self.log_unit.cpu().mean()
        self.log_level = self.log_level.to(self.device, torch.float32).requires_grad_()
        log_noise = (self.log_level - self.log_unit).detach()
        seed = int(rng.integers(2**31))
        pieces = [chart_rows(one.train, one.weight, latents, trial.charts, seed) for one in rows for trial in trials]
        self.charts = Charts.join(pieces).to(log_noise)
        self.generators = Generators(generator, latents, self._draw(generator), log_noise, self.charts.shares)
        if encoder is not None:
            self.generators = self.generators._replace(reader=encoder, reader_weights=self._draw(encoder))
        rate = schedule.learning_rate
        learned: list[tuple[Weights, float]] = [
            ([*self.generators.weights, *self.generators.reader_weights], rate),
            ([self.log_level], FASTER * rate),
        ]
        self.optimizers = [_adam(learned), _adam([(self.critic_weights, rate)])]
        self.average = self.generators.map(lambda part: part.detach().clone())

    def _draw(self, network: Network) -> list[Tensor]:
        """Weights of all members: each trial its own, each class the same."""
        trials = [network.draw(self.rng) for _ in self.trials]
        stacked = [
            torch.cat(parts).repeat(len(self.rows), *[1] * (parts[0].ndim - 1)) for parts in zip(*trials, strict=True)
        ]
        return [part.to(self.device).requires_grad_() for part in stacked]

    def begin(self) -> None:
        """Regress the generators on the flat pieces of the charts."""
        steps, batch_size, rate = self.schedule.steps // 5, self.schedule.batch_size, self.schedule.learning_rate
        weights = list(self.generators.weights)
        optimizer = torch.optim.Adam(weights, rate, fused=True)
        for step in range(steps):
            optimizer.param_groups[0]["lr"] = rate * (1 - step / steps)
            w = self.generators.latents.draw(batch_size, self.generators.shares, self.rng)
            take_step(optimizer, (self.generators(w) - self.charts(w)).square().mean((1, 2)).sum())
        self.average = self.generators.map(lambda part: part.detach().clone())

    def step(self, step: int) -> None:
        """One step of the critics, one of the generators."""
        share = step / self.schedule.steps
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["initial_lr"] * min(1.0, 2 * (1 - share))
        self.generators = self.generators._replace(log_noise=self.log_level - self.log_unit)
        real, (fake, w) = self._real(), self.generators.draw(self.schedule.batch_size, self.rng)
        seen = self._seen(real, fake, w)
        take_step(self.optimizers[1], self._critic_loss(seen.detach()))
        on_real, on_fake = apply(self.critic, self.critic_weights, seen).chunk(2, 1)
        judged, energy = softplus(on_real - on_fake).mean(1), _energy(real, fake)
        take_step(self.optimizers[0], (CRITIC * judged + ENERGY * energy).sum())
        self._keep_average(min(0.998, step / (step + 10)))

    def _real(self) -> Tensor:
        """Rows of each class, (s, n, d), drawn alike in all."""
        share = torch.from_numpy(self.rng.random(self.schedule.batch_size)).to(self.device)
        batches = torch.stack([rows[_quantile(at, share)] for rows, at in zip(self.rows, self.shares, strict=True)])
        return batches.repeat_interleave(len(self.trials), 0)

    def _seen(self, real: Tensor, fake: Tensor, w: Tensor) -> Tensor:
        """What the critics see: real points, then generated ones; with an encoder, beside the latents."""
        points = torch.cat([real, fake], 1)
        if self.generators.reader is None:
            return points
        return torch.cat([points, torch.cat([self.generators.encode(real), w], 1)], -1)

    def _critic_loss(self, seen: Tensor) -> Tensor:
        points = seen.requires_grad_()
        scores = apply(self.critic, self.critic_weights, points)
        on_real, on_fake = scores.chunk(2, 1)
        slopes = torch.autograd.grad(scores.sum(), points, create_graph=True)[0].square().sum(-1)
        loss = softplus(on_fake - on_real).mean(1).sum()
        return loss + (self.penalty * slopes.mean(1)).sum()  # the mean over both halves is half of R1 + R2

    @torch.no_grad()
    def _keep_average(self, decay: float) -> None:
        torch._foreach_lerp_(self.average._tensors, self.generators._tensors, 1 - decay)


def log_likelihood(X: Tensor, points: Tensor, log_noise: Tensor) -> Tensor:
    """Log of the mean over points G(w_i) (s, n, d) of exp(-|x - G(w_i)| / b) / b^d at X (s, m, d): (s, m).

    arXiv Section 7.1, before its maximum, but for a constant. The density exp(-|e| / b) has heavier
    tails than the normal noise (s, 1, d) that generators draw, and here the same variances, (d + 1) b^2.
    """
    d = X.shape[-1]
    log_b = log_noise - 0.5 * math.log(d + 1)
    a, b = X / log_b.exp(), points / log_b.exp()
    square = a.square().sum(-1)[..., None] + b.square().sum(-1)[..., None, :] - 2 * a @ b.mT
    far = square.clamp_min(1e-6).sqrt()
    return torch.logsumexp(-far, -1) - math.log(points.shape[-2]) - log_b.sum(-1)


def draw_evenly(rows: Sequence[TrainingRows], n: int, rng: np.random.Generator) -> Tensor:
    """Rows of each class, (k, n, d), at even distances in their weights: all of a class of n rows of equal weights."""
    share = torch.from_numpy((np.arange(n) + rng.random()) / n)
    ends = [one.weight.double().cumsum(0) / one.weight.double().sum() for one in rows]
    return torch.stack([one.train[_quantile(end.cpu(), share)] for one, end in zip(rows, ends, strict=True)])


def _quantile(shares: Tensor, at: Tensor) -> Tensor:
    """The rows at which a running sum of shares (n,) passes some numbers in [0, 1)."""
    return torch.searchsorted(shares, at, right=True).clamp_max(len(shares) - 1)


def _energy(real: Tensor, fake: Tensor) -> Tensor:
    """The energy distance between the points (s, n, d) of each member, but for a term of the real points alone."""
    n = fake.shape[1]
    return 2 * torch.cdist(real, fake).mean((1, 2)) - torch.cdist(fake, fake).sum((1, 2)) / (n * max(n - 1, 1))


def take_step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """One step down a loss, by the weights of the optimizer alone.

    NOTE: slopes must lie in memory as their weights do. A transposed one, as a product of matrices may leave it, is
    refused by the fused optimizer of a GPU and read in the wrong order by that of a CPU (torch 2.13).
    """
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    for weight, slope in zip(weights, torch.autograd.grad(loss, weights), strict=True):
        weight.grad = slope.contiguous()
    optimizer.step()


def _adam(rates: list[tuple[Weights, float]]) -> torch.optim.Optimizer:
    groups = [{"params": list(weights), "lr": rate, "initial_lr": rate} for weights, rate in rates]
    return torch.optim.Adam(groups, betas=(0.5, 0.99), fused=True)
