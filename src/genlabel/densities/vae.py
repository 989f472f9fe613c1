"""Variational autoencoder of all classes: for data near a surface of few dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import Tensor, nn

from genlabel._validation import check_choice, check_count, check_positive
from genlabel.densities.covariance import LOG_2_PI
from genlabel.densities.neural import NeuralDensity, PointLoss, hidden_sizes
from genlabel.registry import DENSITIES

MAX_LATENT = 8  # upper bound on the default number of latent dimensions
MAX_LOG_STD = 6.0  # bound on the absolute log standard deviations of the encoder
INITIAL_NOISE = 0.1
"""sigma_c before training: from a larger one the first steps ignore z and the fit ends as a single Gaussian."""
PRIOR_FRACTION = 0.25  # fraction of the importance samples of a query that come from the prior


@DENSITIES.register("vae")
@final
@dataclass(eq=False, repr=False)
class VAEDensity(NeuralDensity):
    r"""A variational autoencoder, conditional on the class, with its importance-weighted bound as log-density.

    .. math:: p_c(x) = \int N(z; 0, I)\, N(x; \mu_c(z), \operatorname{diag} \sigma_c^2)\, dz
              \approx \frac1S \sum_s \frac{p_c(x, z_s)}{r_c(z_s | x)}, \quad z_s \sim r_c(z | x)

    (Burda et al., arXiv 1509.00519): an approximate density, as in arXiv Section 7.1, whose expected logarithm is below
    log p_c(x), by less for more samples. The samples are a shifted lattice that is fixed with the fit, so that rows are
    independent and the result is differentiable. A quarter of them come from the prior, which keeps the bound tight
    where the encoder is wrong: it was never trained on points with the label of another class. It suits data near a
    surface of few dimensions, but not sharp labels: the noise around the surface is one Gaussian for each class.

    Parameters
    ----------
    latent_dim : int or None
        Number of latent dimensions; None is the number of features, at most 8.
    hidden : sequence of int
        Hidden layers of the encoder, and in reverse order of the decoder.
    noise : "diagonal", "scalar" or float
        sigma_c: learned for each feature, learned as one number, or given, relative to the standard deviations.
    floor : float
        Lower bound on a learned sigma_c.
    n_samples, train_samples : int
        Number S of importance samples of a query, to which time and memory are proportional (it may be changed after
        the fit), and in training, where 1 is the bound of a standard VAE.
    epochs, batch_size, learning_rate, validation_fraction, patience, jitter, device, verbose, random_state
        See :class:`FlowDensity`.

    Examples
    --------
    >>> from genlabel.data.datasets.synthetic import make_moon
    >>> X, y = make_moon(200, random_state=0)
    >>> density = VAEDensity(hidden=(32, 32), epochs=60, learning_rate=0.01).fit(X, y)
    >>> density.sample(5, class_index=1, rng=0).shape
    (5, 2)
    """

    latent_dim: int | None = None
    hidden: Sequence[int] = (64, 64, 64)
    _: KW_ONLY
    noise: str | float = "diagonal"
    floor: float = 0.02
    n_samples: int = 64
    train_samples: int = 8
    epochs: int = 200
    learning_rate: float = 5e-3

    normalized = False
    gain = 2.0

    def _check_parameters(self) -> None:
        sizes = {"latent_dim": self._latent_size, "n_samples": self.n_samples, "train_samples": self.train_samples}
        for name, size in sizes.items():
            check_count(name, size)
        hidden_sizes(self.hidden)
        check_positive("floor", self.floor, "0.02 is the usual choice")
        if isinstance(self.noise, str):
            check_choice("noise", self.noise, ["diagonal", "scalar"], also="a number above 0")
        else:
            check_positive("noise", self.noise, "or choose 'diagonal' or 'scalar'")
        super()._check_parameters()

    @property
    def _latent_size(self) -> int:
        return min(self.n_features_in_, MAX_LATENT) if self.latent_dim is None else self.latent_dim

    def _build(self, d: int, k: int) -> nn.Module:
        return _Autoencoder(d, k, self._latent_size, hidden_sizes(self.hidden), self.noise, self.floor)

    def _point_loss(self, network: Any, rng: np.random.Generator) -> PointLoss:
        self.query_seed_ = int(rng.integers(2**31))

        def loss(x: Tensor, c: Tensor, rng: np.random.Generator) -> Tensor:
            eps = torch.from_numpy(rng.standard_normal((self.train_samples, len(x), self._latent_size), np.float32))
            return -_bound(network, x, c, eps.to(x))

        return loss

    def _class_log_prob(self, network: Any, x: Tensor, c: Tensor) -> Tensor:
        rng = np.random.default_rng(self.query_seed_)
        from_prior = int(PRIOR_FRACTION * check_count("n_samples", self.n_samples))
        # A randomly shifted lattice, whose steps are the powers of 1 / phi with phi^(size + 1) = phi + 1.
        phi = 2.0
        for _ in range(60):
            phi = (1.0 + phi) ** (1.0 / (self._latent_size + 1))
        steps = phi ** -np.arange(1.0, self._latent_size + 1.0)
        draws = []
        for n in (from_prior, self.n_samples - from_prior):
            uniform = (rng.random(self._latent_size) + np.arange(n)[:, None] * steps) % 1.0
            draws.append(torch.special.ndtri(torch.from_numpy(uniform.clip(1e-12, 1.0 - 1e-12))))
        eps = torch.cat(draws).to(x)[:, None]
        return _bound(network, x, c[None], eps, from_prior)

    def _draw(self, network: Any, n: int, c: Tensor, rng: np.random.Generator) -> Tensor:
        z = torch.from_numpy(rng.standard_normal((n, self._latent_size))).to(c)
        noise = torch.from_numpy(rng.standard_normal((n, self.n_features_in_))).to(c)
        decoded: _Normal = network.decode(z, c.expand(n, -1))
        return decoded.mean + noise * decoded.log_std.exp()

    @property
    def _row_values(self) -> int:
        return self.n_samples * max(self._latent_size, self.n_features_in_, *hidden_sizes(self.hidden))


class _Normal(NamedTuple):
    """Gaussian with independent coordinates."""

    mean: Tensor
    log_std: Tensor

    def log_prob(self, x: Tensor) -> Tensor:
        z = (x - self.mean) * (-self.log_std).exp()
        return -(0.5 * z**2 + self.log_std + 0.5 * LOG_2_PI).sum(-1)


class _Autoencoder(nn.Module):
    """Encoder and decoder, both conditional on a one-hot class."""

    def __init__(self, d: int, k: int, latent: int, hidden: tuple[int, ...], noise: str | float, floor: float) -> None:
        super().__init__()
        self.floor = floor if isinstance(noise, str) else 0.0
        self.encoder = _layers(d + k, hidden, 2 * latent)
        self.decoder = _layers(latent + k, hidden[::-1], d)
        initial, learn_noise = (INITIAL_NOISE, True) if isinstance(noise, str) else (noise, False)
        log_noise = torch.full((k, 1 if noise == "scalar" else d), math.log(initial))
        self.log_noise = nn.Parameter(log_noise, requires_grad=learn_noise)

    def encode(self, x: Tensor, c: Tensor) -> _Normal:
        """Return q(z | x, c): (n, d), (n or 1, k) -> (n, latent)."""
        mean, log_std = self.encoder(torch.cat([x, c.expand(len(x), -1)], -1)).chunk(2, -1)
        return _Normal(mean, MAX_LOG_STD * torch.tanh(log_std / MAX_LOG_STD))

    def decode(self, z: Tensor, c: Tensor) -> _Normal:
        """Return p(x | z, c): (..., n, latent), (n or 1, k) -> (..., n, d)."""
        mean = self.decoder(torch.cat([z, c.expand(*z.shape[:-1], -1)], -1))
        return _Normal(mean, ((c @ self.log_noise).exp() + self.floor).log())


def _bound(network: Any, x: Tensor, c: Tensor, eps: Tensor, from_prior: int = 0) -> Tensor:
    """Return the importance-weighted bound (n,) of points (n, d) of classes (n or 1, k) from draws (S, n or 1, latent).

    The first `from_prior` draws are those of the prior, the encoder scales and shifts the others; the proposal of every
    draw is the mixture of the two.
    """
    q: _Normal = network.encode(x, c)
    prior_fraction = from_prior / len(eps)
    log_weights = []
    for z in (eps[:from_prior], q.mean + eps[from_prior:] * q.log_std.exp()):
        if len(z):
            prior = -0.5 * (z**2 + LOG_2_PI).sum(-1)
            proposal = q.log_prob(z) + math.log1p(-prior_fraction)
            if prior_fraction:
                proposal = torch.logaddexp(proposal, prior + math.log(prior_fraction))
            decoded: _Normal = network.decode(z, c)
            log_weights.append(prior + decoded.log_prob(x) - proposal)
    return torch.logsumexp(torch.cat(log_weights), 0) - math.log(len(eps))


def _layers(n_in: int, hidden: tuple[int, ...], n_out: int) -> nn.Sequential:
    """Return linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for size, next_size in pairwise((n_in, *hidden, n_out)):
        layers += [nn.Linear(size, next_size), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
