"""Trust in generative labels, measured while a network trains: how well they predict rows whose class is known."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor, nn

from genlabel._runtime import all_reduce_sum

GAMMAS = torch.linspace(0.0, 1.0, 21)
TEMPERATURES = 4.0 ** torch.arange(6.0)  # in many dimensions log-densities differ by hundreds
MEMORY = 0.99  # weight of the batches before the newest one that has evidence, relative to the one before it
MIN_PROBABILITY = 1e-6
MIN_ROWS = 20.0  # nearly clean rows, below which there is no evidence
PRIOR_NATS = 20.0  # log-likelihood by which gamma = 0 leads before the first batch


@final
class LabelTrust(nn.Module):
    r"""Log-likelihood of the label gamma y_gen + (1 - gamma) y_mix on nearly clean rows, over a grid.

    A row that is mixed with lam close to 1 has the class c of its parent, whatever the densities say. Its label
    predicts c with gamma y_gen[c] + (1 - gamma) y_mix[c], for each weight gamma and each temperature of the densities.
    The logarithms are summed over recent batches, before the densities learn from them; the result is the mean of
    gamma, and of the logarithm of the temperature, under the likelihood (a flat prior, with forgetting). Where mixup's
    label predicts better than any label of the densities, gamma is 0; so it is before there is evidence, and batches
    without nearly clean rows change nothing. A row with lam 1 counts as one with the mean lam of nearly clean rows,
    1 - margin / 2, because mixup's label of the row itself is always right.

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
    """Number of nearly clean rows, of those whose class the densities name, and their sum of log-losses of the label
    in use relative to mixup's label, (3,)."""
    prior: Tensor
    """Log-likelihood by which gamma = 0 leads, which is forgotten as batches are."""
    gammas: Tensor
    temperatures: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("log_likelihood", torch.zeros(len(TEMPERATURES), len(GAMMAS)))
        self.register_buffer("counts", torch.zeros(3))
        self.register_buffer("prior", torch.tensor(PRIOR_NATS))
        self.register_buffer("gammas", GAMMAS.clone(), persistent=False)
        self.register_buffer("temperatures", TEMPERATURES.clone(), persistent=False)

    @torch.no_grad()
    def update(
        self, log_prob: Tensor, targets: Tensor, pairs: Any, margin: float = 0.1, top_k: int | None = None
    ) -> None:
        """Add the nearly clean rows of a batch, given log p_c of its mixed points (n, k) and labels before mixing.

        `pairs` has the `partner` and `lam` (n,) of each row.
        """
        targets = targets.to(log_prob.dtype)
        known, y_mix, rows = _nearly_clean(targets, pairs, margin)
        lam = torch.as_tensor(pairs.lam, device=targets.device)
        is_clean = lam >= 1.0
        rows = torch.where(is_clean, 1.0, rows)
        scores = log_prob
        if top_k is not None and top_k < scores.shape[1]:
            scores = scores.masked_fill(scores < scores.topk(top_k, 1).values[:, -1:], -torch.inf)
        y_gen = torch.softmax(scores[:, None] / self.temperatures.to(scores.dtype)[:, None], -1)  # (n, T, k)
        linear = torch.where(is_clean, 1.0 - margin / 2.0, (y_mix * known).sum(1))[:, None, None]
        generative = (y_gen * known[:, None]).sum(-1, keepdim=True)
        is_defined = generative.isfinite()  # a density that was never fitted has no label: mixup's is kept
        gammas = self.gammas.to(scores.dtype)
        predicted = torch.where(is_defined, gammas * generative + (1.0 - gammas) * linear, linear)
        likelihood = (rows[:, None, None] * predicted.clamp(min=MIN_PROBABILITY).log()).sum(0)
        hits = known.gather(1, log_prob.argmax(1, keepdim=True))[:, 0] * is_defined[:, 0, 0]
        counts = torch.stack([rows.sum(), (hits * rows).sum(), torch.zeros_like(hits[0])])
        sums = all_reduce_sum(torch.cat([likelihood.flatten(), counts]).double())
        memory = _memory(sums[-3]).to(self.counts.dtype)
        self.log_likelihood.mul_(memory).add_(sums[:-3].view_as(likelihood))
        self.counts.mul_(memory).add_(sums[-3:])
        self.prior.mul_(memory)

    @torch.no_grad()
    def compare(self, y_gen: Tensor, labels: Tensor, targets: Tensor, pairs: Any, margin: float = 0.1) -> None:
        """Count how well labels in use, of a fixed gamma, predict the nearly clean rows of a batch."""
        known, y_mix, rows = _nearly_clean(targets.to(labels.dtype), pairs, margin)
        hits = known.gather(1, y_gen.argmax(1, keepdim=True))[:, 0]
        predicted = (torch.stack([y_mix, labels]) * known).sum(2).clamp(min=MIN_PROBABILITY).log()
        sums = all_reduce_sum((torch.stack([torch.ones_like(hits), hits, predicted[0] - predicted[1]]) @ rows).double())
        self.counts.mul_(_memory(sums[0]).to(self.counts.dtype)).add_(sums)

    def gamma(self, max_gamma: float | Tensor) -> Tensor:
        """Return the trusted weight of the generative label, at most `max_gamma`."""
        return (self._grid_weights(max_gamma).sum(0) * self.gammas).sum()

    def temperature(self, max_gamma: float | Tensor) -> Tensor:
        """Return the temperature at which labels of the densities predict best."""
        return (self._grid_weights(max_gamma).sum(1) * self.temperatures.log()).sum().exp()

    @property
    def has_evidence(self) -> Tensor:
        """True if recent batches had enough nearly clean rows to measure anything."""
        return self.counts[0] >= MIN_ROWS

    @property
    def excess_loss(self) -> Tensor:
        """Log-loss of the labels in use on nearly clean rows above that of mixup's labels, in nats; 0 for few rows."""
        return torch.where(self.has_evidence, self.counts[2] / self.counts[0].clamp(min=1.0), 0.0)

    @property
    def accuracy(self) -> Tensor:
        """Share of the nearly clean rows whose class the densities name."""
        return self.counts[1] / self.counts[0].clamp(min=1e-6)

    def _grid_weights(self, max_gamma: float | Tensor) -> Tensor:
        allowed = self.gammas <= max_gamma + 1e-6
        values = (self.log_likelihood - self.prior * (self.gammas > 0)).masked_fill(~allowed, -torch.inf)
        return torch.softmax(values.flatten(), 0).view_as(values)


def _memory(rows: Tensor) -> Tensor:
    """Return the factor of what earlier batches counted: a batch without nearly clean rows forgets nothing."""
    return torch.where(rows > 0, MEMORY, 1.0)


def _nearly_clean(targets: Tensor, pairs: Any, margin: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the known classes (n, k) of nearly clean rows, mixup's labels (n, k), and 1.0 for these rows, (n,)."""
    partner, lam = (torch.as_tensor(value, device=targets.device) for value in (pairs.partner, pairs.lam))
    lam = lam.to(targets.dtype)[:, None]
    other = targets[partner]
    is_near = ((lam >= 1.0 - margin) & (lam < 1.0)) | ((lam <= margin) & (lam > 0.0))
    known, y_mix = torch.where(lam > 0.5, targets, other), lam * targets + (1.0 - lam) * other
    return known, y_mix, is_near[:, 0].to(targets.dtype)
