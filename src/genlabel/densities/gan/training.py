"""Training of many GANs at once, one for each class and setting; refinement of curves, selection, and encoders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from genlabel._arrays import one_hot
from genlabel._progress import Callback
from genlabel.densities.gan.generators import (
    Charts,
    Generators,
    Latents,
    StackedNetwork,
    Weights,
    apply,
    log_likelihood,
)

INITIAL_NOISE = 0.1  # initial noise of a generator, in standard deviations of the features
NOISE_RATE_FACTOR = 4.0  # learning rate of the noise relative to that of the manifold
ENERGY = 5.0  # weight of the energy distance in the loss of the generators. NOTE[PAPER]: the paper has none.
CRITIC = 1.0  # weight of the critic in the loss of the generators. `benchmarks/gan.py --ablation` sets either to 0.
EVENNESS = 3.0  # weight of the penalty on uneven pace along a curve
SMOOTHNESS = 0.1  # weight of the penalty on changes of curvature
CURVE_POINTS = 256  # points that represent a curve in a step of the refinement
MAX_STEP_ROWS, MAX_TEST_ROWS = 512, 4096
"""Rows of a class in a step of the refinement, and in the comparison of a smooth curve with a free one."""
REFINEMENT_STEPS, REFINEMENT_RATE = 1 / 6, 0.2
"""Steps and learning rate of the refinement, relative to those of the training."""
MAX_STANDARD_ERRORS = 2.0
"""Standard errors by which a preferred generator may be worse than the best one on the same rows."""
MIN_ROWS_TO_SPLIT = 20  # rows of a class below which none are held out
HELD_OUT_FRACTION = 0.1
TEST_POINTS = 1024  # generated points by which a generator is scored
REACH = 2.0
"""Radius within which a generated point covers a row, relative to the 90 % quantile of nearest-neighbor distances."""


class GANNetworks(NamedTuple):
    """Shapes of the trained networks."""

    latents: Latents
    generator: StackedNetwork
    critic: StackedNetwork  # network of points; with an encoder, of points and latents
    encoder: StackedNetwork | None  # network that is trained with the generator (ALI, bidirectional GAN), or None


class ClassRows(NamedTuple):
    """Standardized rows of a class, split into training rows with weights and held-out rows."""

    train: Tensor
    weight: Tensor
    held_out: Tensor

    @classmethod
    def split(cls, rows: Tensor, weight: Tensor, seed: int) -> ClassRows:
        """Hold out a fraction of the rows (n, d) of a class; all rows of a small class are in both parts."""
        order = torch.from_numpy(np.random.default_rng(seed).permutation(len(rows)))
        cut = 0 if len(rows) < MIN_ROWS_TO_SPLIT else max(4, round(HELD_OUT_FRACTION * len(rows)))
        train = order[cut:]
        return cls(rows[train], weight[train], rows[order[:cut]] if cut else rows[train])

    @property
    def is_small(self) -> bool:
        """True if the class is too small to hold rows out."""
        return len(self.train) < MIN_ROWS_TO_SPLIT and len(self.train) == len(self.held_out)

    @property
    def cumulative(self) -> Tensor:
        """Cumulative weights of the training rows, (n,), of sum 1."""
        return self.weight.cumsum(0) / self.weight.sum()

    @property
    def reach(self) -> float:
        """Distance within which a generated point covers a held-out row."""
        distance = torch.cdist(self.held_out, self.train)
        if self.is_small and len(self.train) > 1:
            distance = distance + torch.diag(torch.full((len(self.train),), torch.inf, dtype=distance.dtype))
        typical = REACH * float(distance.min(1).values.quantile(0.9))
        return max(typical, 0.1 * self.train.shape[1] ** 0.5)


class GANSettings(NamedTuple):
    """Settings that differ between the generators of a class."""

    penalty: float
    charts: int  # number of charts used


class GANSchedule(NamedTuple):
    """Steps, learning rate and device of a training."""

    steps: int
    batch_size: int
    learning_rate: float
    device: torch.device
    unit: Tensor  # size of a standardized feature in the units of the distance, in which the noise is spherical, (d,)


def train_gans(
    networks: GANNetworks,
    rows: Sequence[ClassRows],
    settings: Sequence[GANSettings],
    schedule: GANSchedule,
    rng: np.random.Generator,
    callback: Callback | None,
) -> Generators:
    """Return k t generators for k classes and t settings; that of class c with settings j has the index c t + j.

    The critic D minimizes softplus(D(fake) - D(real)) with a penalty on its gradients at real and generated points
    (R1 + R2), the generator softplus(D(real) - D(fake)) and the energy distance of a batch, which keeps it in all parts
    of its class. All classes have the same initial weights and latents, so that their order does not matter. The
    returned weights are moving averages.
    """
    device, rate, size = schedule.device, schedule.learning_rate, schedule.batch_size
    latents, generator, critic, encoder = networks
    critic_weights = draw_stack(critic, len(settings), len(rows), rng, device)
    seed = int(rng.integers(2**31))
    pieces = [Charts.fit(part.train, part.weight, latents, each.charts, seed) for part in rows for each in settings]
    charts = Charts(*(torch.cat(parts).to(device) for parts in zip(*pieces, strict=True)))
    log_unit = schedule.unit.log().to(device, torch.float32)
    log_level = torch.full((len(pieces), 1, 1), np.log(INITIAL_NOISE)) + log_unit.cpu().mean()
    log_level = log_level.to(device, torch.float32).requires_grad_()
    weights = draw_stack(generator, len(settings), len(rows), rng, device)
    generators = Generators(generator, latents, weights, (log_level - log_unit).detach(), charts.shares)
    if encoder is not None:
        encoder_weights = draw_stack(encoder, len(settings), len(rows), rng, device)
        generators = generators._replace(encoder=encoder, encoder_weights=encoder_weights)
    learned = [*weights, *generators.encoder_weights]
    optimizer = _adam([(learned, rate), ([log_level], NOISE_RATE_FACTOR * rate)], (0.5, 0.99))
    critic_optimizer = _adam([(critic_weights, rate)], (0.5, 0.99))
    chart_optimizer, chart_steps = _adam([(weights, rate)]), schedule.steps // 5
    for step in range(chart_steps):  # the generators start at the flat pieces of the charts
        w = latents.draw(size, charts.shares, rng)
        take_step(chart_optimizer, (generators(w) - charts(w)).square().mean((1, 2)).sum(), 1 - step / chart_steps)
    average = generators.map(lambda part: part.detach().clone())
    points = [part.train.to(device) for part in rows]
    cumulative = [part.cumulative.to(device) for part in rows]
    penalty = torch.tensor([each.penalty for each in settings]).repeat(len(rows)).to(device)
    epoch = max(1, sum(len(part.train) for part in rows) // (size * len(rows)))
    for step in range(schedule.steps):
        decay = min(1.0, 2 * (1 - step / schedule.steps))
        generators = generators._replace(log_noise=log_level - log_unit)
        quantiles = torch.from_numpy(rng.random(size)).to(device)
        batches = [x[_rows_at(total, quantiles)] for x, total in zip(points, cumulative, strict=True)]
        real = torch.stack(batches).repeat_interleave(len(settings), 0)
        fake, w = generators.draw(size, rng)
        inputs = torch.cat([real, fake], 1)
        if encoder is not None:
            inputs = torch.cat([inputs, torch.cat([generators.encode(real), w], 1)], -1)
        on_inputs = critic_loss(critic, critic_weights, inputs.detach().requires_grad_(), penalty)
        take_step(critic_optimizer, on_inputs, decay)
        on_real, on_fake = apply(critic, critic_weights, inputs).chunk(2, 1)
        adversarial = softplus(on_real - on_fake).mean(1)
        take_step(optimizer, (CRITIC * adversarial + ENERGY * energy_distance(real, fake)).sum(), decay)
        with torch.no_grad():
            torch._foreach_lerp_(average.tensors, generators.tensors, 1 - min(0.998, step / (step + 10)))
        if callback is not None and step % epoch == 0:
            callback.on_epoch_end(step // epoch, {})
    return average


def draw_stack(network: StackedNetwork, count: int, copies: int, rng: np.random.Generator, device: Any) -> list[Tensor]:
    """Draw a stack of `count` networks, repeated several times, as parameters on a device."""
    drawn = [torch.cat(parts) for parts in zip(*(network.draw(rng) for _ in range(count)), strict=True)]
    return [part.repeat(copies, *[1] * (part.ndim - 1)).to(device).requires_grad_() for part in drawn]


def critic_loss(critic: StackedNetwork, weights: Weights, inputs: Tensor, penalty: Tensor) -> Tensor:
    """Return the penalized loss of the critics for inputs (s, 2 n, in), the real ones first."""
    scores = apply(critic, weights, inputs)
    on_real, on_fake = scores.chunk(2, 1)
    norms = torch.autograd.grad(scores.sum(), inputs, create_graph=True)[0].square().sum(-1)
    loss = softplus(on_fake - on_real).mean(1).sum()
    return loss + (penalty * norms.mean(1)).sum()  # the mean over both halves is half of R1 + R2


def energy_distance(real: Tensor, fake: Tensor) -> Tensor:
    """Return the energy distance (s,) of points (s, n, d), up to a term of the real points."""
    n = fake.shape[1]
    between = 2 * torch.cdist(real, fake).mean((1, 2))
    return between - torch.cdist(fake, fake).sum((1, 2)) / (n * max(n - 1, 1))


def _rows_at(cumulative: Tensor, quantiles: Tensor) -> Tensor:
    """Return the rows at quantiles in [0, 1) of cumulative weights (n,)."""
    return torch.searchsorted(cumulative, quantiles, right=True).clamp_max(len(cumulative) - 1)


def _adam(rates: list[tuple[Weights, float]], betas: tuple[float, float] = (0.9, 0.999)) -> torch.optim.Optimizer:
    groups = [{"params": list(weights), "lr": rate, "initial_lr": rate} for weights, rate in rates]
    return torch.optim.Adam(groups, betas=betas, fused=True)


def take_step(optimizer: torch.optim.Optimizer, loss: Tensor, decay: float | None = None) -> None:
    """Take one step that decreases a loss by the weights of the optimizer only, at `decay` times the initial rate."""
    # The fused optimizer refuses a gradient whose memory layout differs from its weight's on a GPU, and reads it in the
    # wrong order on a CPU (torch 2.13).
    for group in optimizer.param_groups if decay is not None else ():
        group["lr"] = group["initial_lr"] * decay
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
        weight.grad = gradient.contiguous()
    optimizer.step()


def refine_curves(
    generators: Generators, rows: Sequence[ClassRows], schedule: GANSchedule, rng: np.random.Generator
) -> Generators:
    """Return generators of curves, in the order of `train_gans`, with a higher likelihood of the training rows.

    The mean over latents of exp(-d(x, G(w)) / b), the p_c of the paper (arXiv Section 7.1), is maximized over the
    weights and b. NOTE[PAPER]: the paper only evaluates it. Adversarial training leaves the ends of a curve at random
    positions, which the likelihood corrects. It would also bend them to the last outliers; two penalties prevent this,
    on uneven pace and on changes of curvature. The latter would round a corner, so each curve is refined with it and
    without it, and the smooth one is used unless the training rows are clearly less likely.
    """
    s = len(generators.log_noise)  # the first s curves of the stack have no penalty on changes of curvature
    stack = Generators.join([generators, generators]).map(lambda part: part.detach().clone())
    weights = [part.requires_grad_() for part in stack.weights]
    log_unit = schedule.unit.log().to(stack.log_noise)
    log_level = (stack.log_noise + log_unit).mean(-1, keepdim=True).requires_grad_()
    n = min(MAX_STEP_ROWS, max(len(part.train) for part in rows))
    rate, steps = REFINEMENT_RATE * schedule.learning_rate, int(REFINEMENT_STEPS * schedule.steps)
    optimizer = _adam([(weights, rate), ([log_level], 4 * rate)], (0.9, 0.99))
    for step in range(steps):
        x = draw_evenly([*rows, *rows], n, rng).to(log_level).repeat_interleave(s // len(rows), 0)
        latents = EvenLatents.draw(stack, rng)
        stack = stack._replace(weights=weights, log_noise=log_level - log_unit)
        points = stack(latents.w)
        likelihood = log_likelihood(x, points, stack.log_noise).mean(1)
        scaled = points * log_unit.exp()
        roughness = EvenLatents(*(part[s:] for part in latents)).roughness(scaled[s:])
        loss = (EVENNESS * latents.unevenness(scaled) - likelihood).sum() + SMOOTHNESS * roughness.sum()
        take_step(optimizer, loss, 1 - step / steps)
    both = stack._replace(log_noise=log_level - log_unit).map(Tensor.detach)
    members = torch.arange(s)
    return both.select(torch.where(smooth_is_not_clearly_worse(both, rows), members + s, members))


def draw_evenly(rows: Sequence[ClassRows], n: int, rng: np.random.Generator) -> Tensor:
    """Draw rows of each class, (k, n, d), at equal distances in their cumulative weights."""
    quantiles = torch.from_numpy((np.arange(n) + rng.random()) / n)
    return torch.stack([part.train[_rows_at(part.cumulative, quantiles)] for part in rows])


@torch.no_grad()
def smooth_is_not_clearly_worse(both: Generators, rows: Sequence[ClassRows]) -> Tensor:
    """Return the mask (s,) of smooth curves, in the second half, that are not clearly worse than those in the first."""
    points = both(EvenLatents.draw(both, np.random.default_rng(0)).w)
    s = len(points) // 2
    pairs = [(rows[m * len(rows) // s], [m, m + s]) for m in range(s)]
    return torch.tensor([is_not_clearly_worse(part, points[pair], both.log_noise[pair]) for part, pair in pairs])


@torch.no_grad()
def is_not_clearly_worse(rows: ClassRows, points: Tensor, log_noise: Tensor) -> bool:
    """Return True unless the second of two curves is clearly worse, by the standard error over the weighted rows."""
    x, weight = rows.train[:MAX_TEST_ROWS].to(points), rows.weight[:MAX_TEST_ROWS].to(points)
    loss = -log_likelihood(x.expand(2, -1, -1), points, log_noise).diff(dim=0)[0]
    share = weight / weight.sum()
    mean = (share * loss).sum()
    return bool(mean <= MAX_STANDARD_ERRORS * (share * (loss - mean)).norm())


class EvenLatents(NamedTuple):
    """Latents of curves at equal distances, chart after chart."""

    w: Tensor  # (s, n, size)
    chart: Tensor  # (s, n)
    share: Tensor  # share of the chart, (s, n)

    @classmethod
    def draw(cls, generators: Generators, rng: np.random.Generator) -> EvenLatents:
        """Draw latents in proportion to the shares of the charts, with a random offset."""
        shares, charts = generators.shares, generators.latents.charts
        ends = shares.cumsum(1)
        quantiles = torch.from_numpy((np.arange(CURVE_POINTS) + rng.random()) / CURVE_POINTS).to(shares)
        quantiles = quantiles.repeat(len(shares), 1)
        chart = torch.searchsorted(ends, quantiles).clamp_max(charts - 1)
        share = shares.gather(1, chart)
        z = 1 - 2 * ((ends.gather(1, chart) - quantiles) / share).clamp(0, 1)
        return cls(torch.cat([z[..., None], one_hot(chart, charts, z.dtype)], -1), chart, share)

    def unevenness(self, points: Tensor) -> Tensor:
        """Return the mean square (s,) of d log |dG / dz| / dz at points (s, n, d): 0 at an even pace."""
        pace = 0.5 * points.diff(dim=1).square().sum(-1).clamp_min(1e-12).log()
        inside = self.chart[:, 2:] == self.chart[:, :-2]
        return (0.5 * CURVE_POINTS * self.share[:, 1:-1] * pace.diff(dim=1) * inside).square().mean(1)

    def roughness(self, points: Tensor) -> Tensor:
        """Return the mean square (s,) of the second derivative of the direction by z: 0 on lines and circles."""
        # At an even pace along a circle, in any plane, a step is the mirror image of the last but one at the last.
        step = points.diff(dim=1)
        step = step / (step.square().sum(-1, keepdim=True) + 1e-12).sqrt()
        first, second, third = step[:, :-2], step[:, 1:-1], step[:, 2:]
        deviation = third + first - 2 * (first * second).sum(-1, keepdim=True) * second
        inside = self.chart[:, 3:] == self.chart[:, :-3]
        return ((0.5 * CURVE_POINTS * self.share[:, 1:-2]) ** 4 * deviation.square().sum(-1) * inside).mean(1)


class ScoredGenerator(NamedTuple):
    """A generator of a class with its scores on held-out rows."""

    generators: Generators
    settings: GANSettings
    coverage: float  # fraction of the held-out rows near a generated point
    precision: float  # fraction of the generated points near a training row
    log_prob: Tensor  # log-densities (n,) of the held-out rows under the noise around points of the manifold


def train_and_score(
    networks: GANNetworks,
    rows: Sequence[ClassRows],
    settings: Sequence[GANSettings],
    schedule: GANSchedule,
    rng: np.random.Generator,
    callback: Callback | None,
) -> list[list[ScoredGenerator]]:
    """Return the generators of each class for all settings; curves, except of small classes, also refined and first."""
    stacks = [train_gans(networks, rows, settings, schedule, rng, callback)]
    if networks.latents.dim == 1:
        stacks.insert(0, refine_curves(stacks[0], rows, schedule, rng))
    seed = int(rng.integers(2**32))
    return [
        [
            score_generator(stack.select(torch.tensor([c * len(settings) + j])), each, part, seed)
            for j, each in enumerate(settings)
            for stack in (stacks[-1:] if part.is_small else stacks)
        ]
        for c, part in enumerate(rows)
    ]


@torch.no_grad()
def score_generator(generators: Generators, settings: GANSettings, rows: ClassRows, seed: int) -> ScoredGenerator:
    """Compare the points of one generator with the held-out rows of its class."""
    drawn, w = generators.draw(TEST_POINTS, np.random.default_rng(seed))
    points = drawn[0].cpu()
    coverage, precision = (
        float((torch.cdist(queries, others).min(1).values <= rows.reach).double().mean())
        for queries, others in ((rows.held_out, points), (points, rows.train))
    )
    # The log-densities are too low where the draws of w are sparse.
    manifold, log_noise = generators(w).cpu().double(), generators.log_noise.cpu().double()
    log_prob = log_likelihood(rows.held_out.double()[None], manifold, log_noise)[0]
    return ScoredGenerator(generators, settings, coverage, precision, log_prob)


def select_generator(scored: Sequence[ScoredGenerator], min_coverage: float) -> ScoredGenerator:
    """Return the most likely generator of sufficient coverage, or one of fewer charts that is not clearly worse."""
    threshold = min(max(candidate.coverage for candidate in scored), min_coverage)
    covering = [candidate for candidate in scored if candidate.coverage >= threshold]
    covering.sort(key=lambda candidate: candidate.settings.charts)
    best = max(covering, key=lambda candidate: float(candidate.log_prob.mean()))
    for candidate in covering:  # the loss of `best` itself is 0
        loss = best.log_prob - candidate.log_prob
        error = float(loss.std(unbiased=len(loss) > 1)) / len(loss) ** 0.5
        if float(loss.mean()) <= MAX_STANDARD_ERRORS * error:
            return candidate
    return best


def train_encoder(
    network: StackedNetwork, generators: Generators, schedule: GANSchedule, rng: np.random.Generator
) -> Generators:
    """Return the generators with encoders that are regressed on latents of generated points, x = G(w) -> w."""
    weights = draw_stack(network, 1, len(generators.log_noise), rng, generators.log_noise.device)
    learned = generators._replace(encoder=network, encoder_weights=weights)
    optimizer = _adam([(weights, schedule.learning_rate)])
    for step in range(schedule.steps):
        w = generators.latents.draw(schedule.batch_size, generators.shares, rng, cycle=True)
        with torch.no_grad():
            points = generators(w)
        take_step(optimizer, (learned.encode(points) - w).square().mean((1, 2)).sum(), 1 - step / schedule.steps)
    return learned.map(Tensor.detach)
