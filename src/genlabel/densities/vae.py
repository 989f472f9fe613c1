"""A variational autoencoder for all classes: densities of data near a surface of few dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import Tensor, nn

from genlabel._progress import Callback
from genlabel._registry import DENSITIES
from genlabel._validation import check_choice, check_count, check_positive
from genlabel.densities._fit_network import Points, train_until_plateau
from genlabel.densities.neural import NeuralDensity, hidden_sizes

LOG_2_PI = math.log(2.0 * math.pi)
MOST_DIMENSIONS = 8
"""Of z, unless told otherwise."""
WIDEST = 6.0
"""Log standard deviations of the encoder are within this of 0."""
START = 0.1
"""sigma_c before training. From a larger one, the first steps forget z and the fit ends as a single Gaussian."""
FROM_PRIOR = 0.25
"""Share of the importance samples of a query that are drawn from the prior."""


@DENSITIES.register("vae")
@final
class VAEDensity(NeuralDensity):
    r"""A variational autoencoder, conditional on the class, with its importance-weighted bound as log-density.

    .. math:: p_c(x) = \int N(z; 0, I)\, N(x; \mu_c(z), \operatorname{diag} \sigma_c^2)\, dz
              \approx \frac1S \sum_s \frac{p_c(x, z_s)}{r_c(z_s | x)}, \quad z_s \sim r_c(z | x)

    (Burda et al., arXiv 1509.00519): an approximate density, as in arXiv Section 7.1. The logarithm of the right side
    is below log p_c(x) in the mean over the draws, by less the more samples there are. The draws are a shifted lattice
    that is fixed with the fit, so a row has the same answer in any company, and the answer is differentiable. A quarter
    of them are from the prior, the others from the encoder: the encoder never saw points with the names of other
    classes, and where it is wrong the prior's draws hold the bound up.

    It suits data near a surface of few dimensions, or of many features. It hurts where a density must be exact or the
    labels sharp: the noise around the surface is one Gaussian for each class.

    Parameters
    ----------
    latent : int or None
        Dimensions of z; None is the number of features, but at most 8.
    hidden : sequence of int
        Hidden layers of the encoder; those of the decoder are the same in reverse.
    noise : "diagonal", "scalar" or float
        sigma_c: learned for each feature, learned as one number, or given, in standard deviations of a feature.
    floor : float
        The least sigma_c that is learned.
    n_samples : int
        Importance samples S of a query; it may be changed after the fit. Time and memory are in proportion to it.
    train_samples : int
        The same in training; 1 is the plain bound of a VAE.
    epochs, batch_size, learning_rate, held_out, patience, jitter, device, verbose, random_state
        As those of :class:`FlowDensity`.

    Attributes
    ----------
    losses_ : list of float
        Held-out negative bound of standardised points after each epoch.

    Examples
    --------
    >>> from genlabel.data.datasets import make_moon
    >>> X, y = make_moon(200, random_state=0)
    >>> density = VAEDensity(hidden=(32, 32), epochs=60, learning_rate=0.01).fit(X, y)
    >>> bool((density.log_prob(X).argmax(1) == y).mean() > 0.8)
    True
    >>> density.sample(5, class_index=1, rng=0).shape
    (5, 2)
    """

    normalized = False
    gain = 2.0

    def __init__(
        self,
        latent: int | None = None,
        hidden: Sequence[int] = (64, 64, 64),
        *,
        noise: str | float = "diagonal",
        floor: float = 0.02,
        n_samples: int = 64,
        train_samples: int = 8,
        epochs: int = 200,
        batch_size: int = 256,
        learning_rate: float = 5e-3,
        held_out: float = 0.1,
        patience: int = 30,
        jitter: float = 0.02,
        device: Any = "auto",
        verbose: int = 0,
        random_state: int | np.random.Generator | None = 0,
    ) -> None:
        self.latent = latent
        self.hidden = hidden
        self.noise = noise
        self.floor = floor
        self.n_samples = n_samples
        self.train_samples = train_samples
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.held_out = held_out
        self.patience = patience
        self.jitter = jitter
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def _check(self) -> None:
        check_count("latent", self._size)
        check_count("n_samples", self.n_samples)
        check_count("train_samples", self.train_samples)
        hidden_sizes(self.hidden)
        check_positive("floor", self.floor, "0.02 is the usual choice")
        if isinstance(self.noise, str):
            check_choice("noise", self.noise, ["diagonal", "scalar"], also="a number above 0")
        else:
            check_positive("noise", self.noise, "or choose 'diagonal' or 'scalar'")
        self._schedule()

    @property
    def _size(self) -> int:
        """Dimensions of z."""
        return min(self.n_features_in_, MOST_DIMENSIONS) if self.latent is None else self.latent

    def _build(self, d: int, k: int) -> nn.Module:
        return _Autoencoder(d, k, self._size, hidden_sizes(self.hidden), self.noise, self.floor)

    def _train(
        self, network: nn.Module, points: Points, rng: np.random.Generator, callback: Callback | None
    ) -> list[float]:
        self.query_seed_ = int(rng.integers(2**31))

        def loss(x: Tensor, c: Tensor, rng: np.random.Generator) -> Tensor:
            eps = torch.from_numpy(rng.standard_normal((self.train_samples, len(x), self._size), np.float32))
            return -_bound(network, x, c, eps.to(x))

        return train_until_plateau(network, loss, points, self._schedule(), rng, callback)

    def _class_log_prob(self, network: Any, x: Tensor, place: int) -> Tensor:
        rng = np.random.default_rng(self.query_seed_)
        from_prior = int(FROM_PRIOR * check_count("n_samples", self.n_samples))
        draws = [_even_draws(n, self._size, rng) for n in (from_prior, self.n_samples - from_prior)]
        eps = torch.cat(draws).to(x)[:, None]
        context = torch.eye(network.k, dtype=x.dtype, device=x.device)[place, None]
        return _bound(network, x, context, eps, from_prior)

    def _draw(self, network: Any, n: int, place: int, rng: np.random.Generator) -> Tensor:
        weights: Tensor = next(network.parameters())
        z, e = (torch.from_numpy(rng.standard_normal((n, size))).to(weights) for size in (self._size, network.d))
        context = torch.eye(network.k).to(weights)[place].expand(n, -1)
        seen: _Normal = network.decode(z, context)
        return seen.mean + e * seen.log_std.exp()

    @property
    def _row_size(self) -> int:
        return self.n_samples * max(self._size, self.n_features_in_, *hidden_sizes(self.hidden))


class _Normal(NamedTuple):
    """A Gaussian of independent coordinates."""

    mean: Tensor
    log_std: Tensor

    def log_prob(self, x: Tensor) -> Tensor:
        """Log-density, summed over the last axis."""
        z = (x - self.mean) * (-self.log_std).exp()
        return -(0.5 * z**2 + self.log_std + 0.5 * LOG_2_PI).sum(-1)


class _Autoencoder(nn.Module):
    """Encoder and decoder, both told the class by a one-hot vector."""

    def __init__(self, d: int, k: int, latent: int, hidden: tuple[int, ...], noise: str | float, floor: float) -> None:
        super().__init__()
        self.d, self.k, self.floor = d, k, 0.0 if not isinstance(noise, str) else floor
        self.encoder = _layers(d + k, hidden, 2 * latent)
        self.decoder = _layers(latent + k, hidden[::-1], d)
        self.log_noise = nn.Parameter(torch.full((k, 1 if noise == "scalar" else d), math.log(START)))
        if not isinstance(noise, str):
            self.log_noise = nn.Parameter(torch.full((k, d), math.log(noise)), requires_grad=False)

    def encode(self, x: Tensor, c: Tensor) -> _Normal:
        """q(z | x, c): (n, d), (n or 1, k) -> (n, latent)."""
        mean, log_std = self.encoder(torch.cat([x, c.expand(len(x), -1)], -1)).chunk(2, -1)
        return _Normal(mean, WIDEST * torch.tanh(log_std / WIDEST))

    def decode(self, z: Tensor, c: Tensor) -> _Normal:
        """p(x | z, c): (..., n, latent), (n or 1, k) -> (..., n, d)."""
        mean = self.decoder(torch.cat([z, c.expand(*z.shape[:-1], -1)], -1))
        return _Normal(mean, ((c @ self.log_noise).exp() + self.floor).log())


def _bound(network: Any, x: Tensor, c: Tensor, eps: Tensor, from_prior: int = 0) -> Tensor:
    """The importance-weighted bound (n,) of points (n, d) of classes (n or 1, k), from draws (S, n or 1, latent).

    The first draws are from the prior, the others are scaled and shifted to be the encoder's. The proposal is the
    mixture of the two in proportion to their draws, for every draw.
    """
    q: _Normal = network.encode(x, c)
    parts = [eps[:from_prior], q.mean + eps[from_prior:] * q.log_std.exp()]
    weights = [_log_weight(network, x, c, z, q, from_prior / len(eps)) for z in parts if len(z)]
    return torch.logsumexp(torch.cat(weights), 0) - math.log(len(eps))


def _log_weight(network: Any, x: Tensor, c: Tensor, z: Tensor, q: _Normal, share: float) -> Tensor:
    """log p_c(x, z) / r_c(z | x), shape (S, n), where a share of the proposal r is the prior and the rest is `q`."""
    prior = -0.5 * (z**2 + LOG_2_PI).sum(-1)
    proposal = q.log_prob(z) + math.log1p(-share)
    if share:
        proposal = torch.logaddexp(proposal, prior + math.log(share))
    seen: _Normal = network.decode(z, c)
    return prior + seen.log_prob(x) - proposal


def _even_draws(n: int, size: int, rng: np.random.Generator) -> Tensor:
    """Standard normal draws (n, size), spread more evenly than independent ones: a lattice, shifted at random.

    Its steps are the powers of 1 / phi with phi^(size + 1) = phi + 1 (the golden ratio for one dimension).
    """
    phi = 2.0
    for _ in range(60):
        phi = (1.0 + phi) ** (1.0 / (size + 1))
    steps = phi ** -np.arange(1.0, size + 1.0)
    uniform = (rng.random(size) + np.arange(n)[:, None] * steps) % 1.0
    return torch.special.ndtri(torch.from_numpy(uniform.clip(1e-12, 1.0 - 1e-12)))


def _layers(n_in: int, hidden: tuple[int, ...], n_out: int) -> nn.Sequential:
    sizes = (n_in, *hidden, n_out)
    pairs = [(nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(sizes)]
    return nn.Sequential(*[layer for pair in pairs for layer in pair][:-1])
