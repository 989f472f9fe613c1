"""The training of many GANs at once, each of a class and of a trial, against critics that are regularised twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from genlabel.arrays import one_hot
from genlabel.densities.gan_networks import Network, Weights, apply

__all__ = ["Generators", "Latents", "Schedule", "TrainingRows", "train_gans"]

NOISE = 0.3
"""The noise with which a generator begins, in standard deviations of the features."""


class Latents(NamedTuple):
    """Where the generators live: a cube [-1, 1]^dim in each of several charts, w = (z, e_chart).

    NOTE[PAPER]: the paper has w in R^d. A cube gives a manifold that ends where the class ends, and charts let it be in
    several pieces, as the classes of Two-circle are.
    """

    dim: int
    charts: int

    @property
    def size(self) -> int:
        """Numbers that a generator is given."""
        return self.dim + self.charts

    def draw(self, n: int, rng: np.random.Generator) -> Tensor:
        """Latents (n, size), float32: z uniform, the charts in turn."""
        z = torch.from_numpy(rng.random((n, self.dim), dtype=np.float32) * 2 - 1)
        return torch.cat([z, one_hot(torch.arange(n) % self.charts, self.charts, torch.float32)], 1)


class Generators(NamedTuple):
    """A stack of generators: x = G(w) + sigma e is a point of the class, G(w) one of its manifold."""

    network: Network
    latents: Latents
    weights: Weights
    log_noise: Tensor
    """(s, 1, d): log sigma of each feature."""

    def __call__(self, w: Tensor) -> Tensor:
        """The points of the manifolds at latents (s, n, size): (s, n, d)."""
        return apply(self.network, self.weights, w)

    def sample(self, n: int, rng: np.random.Generator) -> Tensor:
        """Points with noise, (s, n, d); every generator is given the same latents and noise."""
        w = self.latents.draw(n, rng).to(self.log_noise)
        points = self(w.expand(len(self.log_noise), -1, -1))
        noise = torch.from_numpy(rng.standard_normal(points.shape[1:], dtype=np.float32)).to(points)
        return points + self.log_noise.exp() * noise

    def take(self, members: Tensor) -> Generators:
        """Those of some members of the stack."""
        return self._replace(weights=[part[members] for part in self.weights], log_noise=self.log_noise[members])

    def to(self, like: Tensor) -> Generators:
        """In the precision of a tensor, and on its device."""
        return self._replace(weights=[part.to(like) for part in self.weights], log_noise=self.log_noise.to(like))


class TrainingRows(Protocol):
    """Rows of a class."""

    @property
    def train(self) -> Tensor:
        """(n, d), float32."""
        ...

    @property
    def shares(self) -> Tensor:
        """(n,): the running sum of their weights, up to 1."""
        ...


class Schedule(NamedTuple):
    """How long, and how fast."""

    steps: int
    batch_size: int
    learning_rate: float


def train_gans(
    networks: tuple[Network, Network],
    latents: Latents,
    rows: Sequence[TrainingRows],
    trials: Tensor,
    schedule: Schedule,
    rng: np.random.Generator,
    tell: Callable[[int], None] = lambda step: None,
) -> Generators:
    """Return k t generators: those of class c, and trial j are at c t + j.

    The critic's loss is softplus(D(fake) - D(real)), the generator's the same with the roles changed, and the critic's
    gradients at real and at generated points are penalised alike (R1 + R2), with the weight of the trial, (t,). All
    classes begin with the same weights and see the same latents, so that their order does not matter; the generators
    that are returned have the average of the weights of the later steps.
    """
    fleet = _Fleet(networks, latents, rows, trials, schedule, rng)
    for step in range(schedule.steps):
        fleet.step(step)
        tell(step)
    return fleet.average


class _Fleet:
    """The state of the training."""

    def __init__(
        self,
        networks: tuple[Network, Network],
        latents: Latents,
        rows: Sequence[TrainingRows],
        trials: Tensor,
        schedule: Schedule,
        rng: np.random.Generator,
    ) -> None:
        self.rows, self.schedule, self.rng, self.latents = rows, schedule, rng, latents
        self.n_trials = len(trials)
        self.device = rows[0].train.device
        self.penalty = trials.repeat(len(rows)).to(self.device)
        generator, self.critic = networks
        self.critic_weights = self._draw(self.critic)
        log_noise = torch.full((len(self.penalty), 1, rows[0].train.shape[1]), np.log(NOISE))
        log_noise = log_noise.to(self.device, torch.float32).requires_grad_()
        self.generators = Generators(generator, latents, self._draw(generator), log_noise)
        self.average = self.generators._replace(
            weights=[part.detach().clone() for part in self.generators.weights], log_noise=log_noise.detach().clone()
        )
        self.optimizers = [_adam(self._learned, schedule), _adam(self.critic_weights, schedule)]

    @property
    def _learned(self) -> list[Tensor]:
        return [*self.generators.weights, self.generators.log_noise]

    def _draw(self, network: Network) -> list[Tensor]:
        """Weights of all members: each trial its own, each class the same."""
        trials = [network.draw(self.rng) for _ in range(self.n_trials)]
        stacked = [
            torch.cat(parts).repeat(len(self.rows), *[1] * (parts[0].ndim - 1)) for parts in zip(*trials, strict=True)
        ]
        return [part.to(self.device).requires_grad_() for part in stacked]

    def step(self, step: int) -> None:
        """One step of the critics, one of the generators."""
        share = step / self.schedule.steps
        for optimizer in self.optimizers:
            optimizer.param_groups[0]["lr"] = self.schedule.learning_rate * min(1.0, 2 * (1 - share))
        real, fake = self._real(), self.generators.sample(self.schedule.batch_size, self.rng)
        self._descend(1, self._critic_loss(real, fake.detach()), self.critic_weights)
        on_real, on_fake = (apply(self.critic, self.critic_weights, points) for points in (real, fake))
        self._descend(0, softplus(on_real - on_fake).mean(1).sum(), self._learned)
        self._keep_average(min(0.998, step / (step + 10)))

    def _real(self) -> Tensor:
        """Rows of each class, (s, n, d), drawn alike in all."""
        share = torch.from_numpy(self.rng.random(self.schedule.batch_size)).to(self.device)
        batches = torch.stack([rows.train[_quantile(rows.shares, share)] for rows in self.rows])
        return batches.repeat_interleave(self.n_trials, 0)

    def _critic_loss(self, real: Tensor, fake: Tensor) -> Tensor:
        points = torch.cat([real, fake], 1).requires_grad_()
        scores = apply(self.critic, self.critic_weights, points)
        on_real, on_fake = scores.chunk(2, 1)
        slopes = torch.autograd.grad(scores.sum(), points, create_graph=True)[0].square().sum(-1)
        loss = softplus(on_fake - on_real).mean(1).sum()
        return loss + (self.penalty * slopes.mean(1)).sum()  # the mean over both halves is half of R1 + R2

    def _descend(self, which: int, loss: Tensor, weights: list[Tensor]) -> None:
        for weight, slope in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            weight.grad = slope
        self.optimizers[which].step()

    @torch.no_grad()
    def _keep_average(self, decay: float) -> None:
        torch._foreach_lerp_(
            [*self.average.weights, self.average.log_noise],
            [*self.generators.weights, self.generators.log_noise],
            1 - decay,
        )


def _quantile(shares: Tensor, at: Tensor) -> Tensor:
    """The rows at which a running sum of shares (n,) passes some numbers in [0, 1)."""
    return torch.searchsorted(shares, at, right=True).clamp_max(len(shares) - 1)


def _adam(weights: list[Tensor], schedule: Schedule) -> torch.optim.Optimizer:
    return torch.optim.Adam(weights, schedule.learning_rate, betas=(0.5, 0.99), fused=True)
