"""Trust in generative labels, measured while a network trains: how well they predict rows whose class is known."""

from __future__ import annotations

from typing import Any, NamedTuple, Self, final

import torch
from torch import Tensor, nn

from genlabel._runtime import all_reduce_sum

GAMMA_STEP = 0.05
GAMMAS = torch.linspace(0.0, 1.0, 21)
TEMPERATURES = 4.0 ** torch.arange(6.0)  # in many dimensions log-densities differ by hundreds
MEMORY = 0.99  # weight of the batches before the newest one that has evidence, relative to the one before it
MIN_PROBABILITY = 1e-6
MIN_ROWS = 20.0  # nearly clean rows, below which there is no evidence
ROUNDING = 1e-6  # of lam in float32
PRIOR_NATS = 20.0  # log-likelihood by which gamma = 0 leads before the first batch


class ParentLabels(NamedTuple):
    """Labels that the parents of mixed rows give them, and which rows are nearly clean."""

    y_mix: Tensor
    """Mixup's labels, (n, k)."""
    nearer: Tensor
    """Labels of the parent with the larger weight, (n, k): the known ones of a nearly clean row."""
    is_near: Tensor
    """Mask (n, 1) of nearly clean rows: their lam is within a margin of 0 or 1."""
    is_whole: Tensor
    """Mask (n, 1) of rows that are one parent alone: their lam is 0 or 1."""

    @classmethod
    def of(cls, targets: Tensor, pairs: Any, margin: float = 0.1) -> Self:
        """Return the labels for a batch with labels `targets` (n, k) before mixing, and its pairs (partner, lam)."""
        device = targets.device
        partner, lam = torch.as_tensor(pairs.partner, device=device), torch.as_tensor(pairs.lam, device=device)
        lam, other = lam.to(targets.dtype).unsqueeze(1), targets.index_select(0, partner)
        side = lam.round()  # 1 for a row nearer to itself, 0 to its partner
        is_near = (lam - side).abs_() <= margin + ROUNDING
        return cls(torch.lerp(other, targets, lam), torch.lerp(other, targets, side), is_near, lam == side)

    @property
    def nearly_clean(self) -> Tensor:
        """Labels of nearly clean rows, (n, k), and 0 for the others."""
        return self.nearer * self.is_near


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
    >>> parents = ParentLabels.of(targets, pairs)
    >>> for _ in range(500):
    ...     trust.update(torch.tensor([[0.0, -9.0], [-9.0, 0.0]]), parents)
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

    def update(self, log_prob: Tensor, parents: ParentLabels, margin: float = 0.1, top_k: int | None = None) -> None:
        """Add the nearly clean rows of a batch, given log p_c of its mixed points (n, k) and their parents' labels."""
        y_mix, nearer, is_near, is_whole = parents
        scores, classes = log_prob.topk(min(top_k or log_prob.shape[1], log_prob.shape[1]), 1)
        known, rows = nearer.gather(1, classes), is_near.to(nearer.dtype)
        shares = torch.softmax(scores.unsqueeze(1) / self.temperatures.unsqueeze(1), -1).to(known.dtype)
        generative = (shares * known.unsqueeze(1)).sum(-1)  # (n, T)
        linear = torch.where(is_whole, 1.0 - margin / 2.0, (y_mix * nearer).sum(1, keepdim=True))
        is_undefined = generative.isnan()  # a density that was never fitted has no label: mixup's is kept
        generative = torch.where(is_undefined, linear, generative)
        predicted = torch.lerp(linear.unsqueeze(1), generative.unsqueeze(2), self.gammas.to(generative.dtype))
        likelihood = predicted.clamp_(min=MIN_PROBABILITY).log_().flatten(1)
        hits = known[:, :1] * ~is_undefined[:, :1]
        columns = torch.cat([likelihood, rows, hits, torch.zeros_like(rows)], 1)
        sums = all_reduce_sum(columns.mul_(rows).sum(0))  # no matrix product, which autocast rounds
        memory = _memory(sums[-3])
        self.counts.mul_(memory).add_(sums[-3:])
        self.log_likelihood.mul_(memory).add_(sums[:-3].view_as(self.log_likelihood))
        self.prior.mul_(memory)

    def compare(self, y_gen: Tensor, labels: Tensor, parents: ParentLabels) -> None:
        """Count how well labels in use, of a fixed gamma, predict the nearly clean rows of a batch."""
        y_mix, nearer, is_near, is_whole = parents
        rows = (is_near > is_whole).to(labels.dtype)
        hits = nearer.gather(1, y_gen.argmax(1, keepdim=True))
        known = torch.stack([y_mix, labels]).mul_(nearer).sum(2, keepdim=True).clamp_(min=MIN_PROBABILITY)
        excess = (known[0] / known[1]).log_()
        sums = all_reduce_sum((torch.cat([rows, hits, excess], 1) * rows).sum(0))
        self.counts.mul_(_memory(sums[0])).add_(sums)

    def gamma(self, max_gamma: float) -> Tensor:
        """Return the trusted weight of the generative label, at most `max_gamma`."""
        return self.choose(max_gamma)[0]

    def temperature(self, max_gamma: float) -> Tensor:
        """Return the temperature at which labels of the densities predict best."""
        return self.choose(max_gamma)[1]

    def choose(self, max_gamma: float) -> tuple[Tensor, Tensor]:
        """Return the trusted weight of the generative label, at most `max_gamma`, and its temperature."""
        count = int((max_gamma + 1e-6) / GAMMA_STEP) + 1
        values = self.log_likelihood[:, :count].clone()
        values[:, 1:].sub_(self.prior)
        weights = torch.softmax(values.flatten(), 0).view(-1, count)
        temperature = (weights.sum(1) * self.temperatures.log()).sum().exp()
        return (weights.sum(0) * self.gammas[:count]).sum(), temperature

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


def _memory(rows: Tensor) -> Tensor:
    """Return the factor of what earlier batches counted: a batch without nearly clean rows forgets nothing."""
    return torch.rsub(rows.sign(), 1.0, alpha=1.0 - MEMORY)
