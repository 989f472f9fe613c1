"""Trust in generative labels, measured while a network trains: how well they predict rows whose class is known."""

from __future__ import annotations

import math
from typing import Any, final

import torch
from torch import Tensor, nn

from genlabel._runtime import all_reduce_sum

GAMMAS = torch.linspace(0.0, 1.0, 21)
TEMPERATURES = 4.0 ** torch.arange(6.0)  # in many dimensions log-densities differ by hundreds
MEMORY = 0.99  # weight of the batches before the newest one, relative to the step before
MIN_ROWS = 20.0  # nearly clean rows, below which nothing is said of them
PRIOR_NATS = 20.0  # log-likelihood by which gamma = 0 leads before the first batch


@final
class LabelTrust(nn.Module):
    r"""Log-likelihood of the label gamma y_gen + (1 - gamma) y_mix on nearly clean rows, over a grid.

    A row that is mixed with lam close to 1 has the class c of its parent, whatever the densities say. Its label
    predicts c with gamma y_gen[c] + (1 - gamma) y_mix[c], for each weight gamma and each temperature of the densities.
    The logarithms are summed over recent batches, before the densities learn from them; the result is the mean of
    gamma, and of the logarithm of the temperature, under the likelihood (a flat prior, with forgetting). Where mixup's
    label predicts better than any label of the densities, gamma is 0.

    Examples
    --------
    >>> from genlabel.mixing import MixParams
    >>> trust, targets = LabelTrust(), torch.eye(2)
    >>> pairs = MixParams(torch.tensor([1, 0]), torch.tensor([0.95, 0.92]))
    >>> for _ in range(500):
    ...     trust.update(torch.tensor([[0.0, -9.0], [-9.0, 0.0]]), targets, pairs)
    >>> bool(trust.gamma(1.0) > 0.9), float(trust.accuracy)
    (True, 1.0)
    """

    log_likelihood: Tensor
    """Sums over nearly clean rows, (temperatures, gammas)."""
    counts: Tensor
    """Numbers of nearly clean rows, and of those whose class the densities name, (2,)."""
    prior: Tensor
    """Log-likelihood by which gamma = 0 leads, which is forgotten as batches are."""
    gammas: Tensor
    temperatures: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("log_likelihood", torch.zeros(len(TEMPERATURES), len(GAMMAS)))
        self.register_buffer("counts", torch.zeros(2))
        self.register_buffer("prior", torch.tensor(PRIOR_NATS))
        self.register_buffer("gammas", GAMMAS.clone(), persistent=False)
        self.register_buffer("temperatures", TEMPERATURES.clone(), persistent=False)

    @torch.no_grad()
    def update(
        self, log_prob: Tensor, targets: Tensor, pairs: Any, margin: float = 0.1, top_k: int | None = None
    ) -> None:
        """Add the nearly clean rows of a batch, given log p_c of its mixed points (n, k) and labels before mixing.

        `pairs` has the `partner` and `lam` (n,) of each row. Rows with lam 1, which keep their labels, do not count.
        """
        partner, lam = (torch.as_tensor(value, device=targets.device) for value in (pairs.partner, pairs.lam))
        lam = lam.to(log_prob.dtype)[:, None]
        own, other = targets.to(log_prob.dtype), targets[partner].to(log_prob.dtype)
        is_near = ((lam >= 1.0 - margin) & (lam < 1.0)) | ((lam <= margin) & (lam > 0.0))
        known, y_mix = torch.where(lam > 0.5, own, other), lam * own + (1.0 - lam) * other
        scores = log_prob
        if top_k is not None and top_k < scores.shape[1]:
            scores = scores.masked_fill(scores < scores.topk(top_k, 1).values[:, -1:], -torch.inf)
        y_gen = torch.softmax(scores[:, None] / self.temperatures.to(scores.dtype)[:, None], -1)  # (n, T, k)
        generative, linear = (y_gen * known[:, None]).sum(-1, keepdim=True), (y_mix * known).sum(1)[:, None, None]
        is_defined = generative.isfinite()  # a density that was never fitted has no label: mixup's is kept
        gammas = self.gammas.to(scores.dtype)
        predicted = torch.where(is_defined, gammas * generative + (1.0 - gammas) * linear, linear)
        rows = is_near.to(scores.dtype)
        likelihood = (rows[:, :, None] * predicted.clamp(min=1e-6).log()).sum(0)
        hits = (known.gather(1, log_prob.argmax(1, keepdim=True)) * is_defined[:, 0] * rows).sum()
        sums = all_reduce_sum(torch.cat([likelihood.flatten(), rows.sum()[None], hits[None]]).double())
        self.log_likelihood.mul_(MEMORY).add_(sums[:-2].view_as(likelihood))
        self.counts.mul_(MEMORY).add_(sums[-2:])
        self.prior.mul_(MEMORY)

    def gamma(self, max_gamma: float | Tensor) -> Tensor:
        """Return the trusted weight of the generative label, at most `max_gamma`."""
        return (self._grid_weights(max_gamma).sum(0) * self.gammas).sum()

    def temperature(self, max_gamma: float | Tensor) -> Tensor:
        """Return the temperature at which labels of the densities predict best."""
        return (self._grid_weights(max_gamma).sum(1) * self.temperatures.log()).sum().exp()

    def loss_increase(self, gamma: float, temperature: float) -> float:
        """Return by how much a label's log-loss on nearly clean rows exceeds that of mixup's, in nats per row.

        The label is that of the nearest gamma and temperature of the grid; 0 without nearly clean rows.
        """
        rows = float(self.counts[0])
        if rows < MIN_ROWS:
            return 0.0
        column = int((self.gammas - gamma).abs().argmin())
        row = int((self.temperatures.log() - math.log(temperature)).abs().argmin())
        first = self.log_likelihood[row]
        return float(first[0] - first[column]) / rows

    @property
    def accuracy(self) -> Tensor:
        """Share of the nearly clean rows whose class the densities name."""
        return self.counts[1] / self.counts[0].clamp(min=1e-6)

    def _grid_weights(self, max_gamma: float | Tensor) -> Tensor:
        allowed = self.gammas <= max_gamma + 1e-6
        values = (self.log_likelihood - self.prior * (self.gammas > 0)).masked_fill(~allowed, -torch.inf)
        return torch.softmax(values.flatten(), 0).view_as(values)
