"""The trust in generative labels: against sums by hand, and in regimes with a known answer."""

import numpy as np
import pytest
import torch
from torch import Tensor

from genlabel.densities import OnlineGaussianDensity
from genlabel.densities.base import DensityWarning
from genlabel.densities.label_trust import MEMORY, LabelTrust, ParentLabels
from genlabel.labeling import OnlineGenLabel
from genlabel.labeling.base import observe_and_label
from genlabel.mixing import Mixer, MixParams, Mixup, RegMixup
from genlabel.mixing.base import blend, draw_to_device


def make_batch(n: int, k: int, seed: int) -> tuple[Tensor, Tensor, MixParams]:
    rng = np.random.default_rng(seed)
    targets = torch.eye(k, dtype=torch.float64)[rng.integers(k, size=n)]
    draw = draw_to_device(Mixup(alpha=0.5).draw(n, rng), targets)
    return torch.from_numpy(rng.normal(0.0, 3.0, (n, k))), targets, draw


@pytest.mark.parametrize("top_k", [None, 2])
@pytest.mark.parametrize("margin", [0.05, 0.2])
def test_the_likelihood_is_the_sum_over_nearly_clean_rows(top_k: int | None, margin: float) -> None:
    trust, expected, rows, hits = LabelTrust(), torch.zeros(6, 21, dtype=torch.float64), 0.0, 0.0
    for seed in range(3):
        scores, targets, draw = make_batch(60, 4, seed)
        trust.update(scores, ParentLabels.of(targets, draw, margin), margin, top_k)
        expected, rows, hits = MEMORY * expected, MEMORY * rows, MEMORY * hits
        for i, (j, lam) in enumerate(zip(draw.partner.tolist(), draw.lam.tolist(), strict=True)):
            if not (1.0 - margin <= lam < 1.0 or 0.0 < lam <= margin):
                continue
            known = int(targets[i if lam > 0.5 else j].argmax())
            y_mix = lam * targets[i] + (1.0 - lam) * targets[j]
            kept = scores[i].clone()
            if top_k:
                kept[scores[i].argsort()[:-top_k]] = -torch.inf
            for t, temperature in enumerate(trust.temperatures.double()):
                y_gen = torch.softmax(kept / temperature, 0)[known]
                label = trust.gammas.double() * y_gen + (1.0 - trust.gammas.double()) * y_mix[known]
                expected[t] += label.clamp(min=1e-6).log()
            rows, hits = rows + 1.0, hits + float(scores[i].argmax() == known)
    torch.testing.assert_close(trust.log_likelihood, expected.float(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(trust.counts[:2], torch.tensor([rows, hits]).float())
    assert float(trust.accuracy) == pytest.approx(hits / rows)


@pytest.mark.parametrize("gamma", [0.1, 0.7])
def test_the_excess_loss_is_the_mean_over_nearly_clean_rows(gamma: float) -> None:
    trust, losses, weights = LabelTrust(), [], []
    for seed in range(3):
        scores, targets, draw = make_batch(200, 4, seed)
        y_mix = blend(targets, draw)
        y_gen = torch.softmax(scores, 1)
        labels = torch.lerp(y_mix, y_gen, gamma)
        trust.compare(y_gen, labels, ParentLabels.of(targets, draw))
        for i, (j, lam) in enumerate(zip(draw.partner.tolist(), draw.lam.tolist(), strict=True)):
            if 0.9 <= lam < 1.0 or 0.0 < lam <= 0.1:
                known = int(targets[i if lam > 0.5 else j].argmax())
                losses.append(float(y_mix[i, known].log() - labels[i, known].log()))
                weights.append(MEMORY ** (2 - seed))
    assert float(trust.excess_loss) == pytest.approx(float(np.average(losses, weights=weights)), rel=1e-4)
    assert float(trust.gamma(0.5)) < 0.01  # the grid is for automatic weights


@pytest.mark.parametrize("scale, low, high", [(60.0, 0.45, 0.5), (0.0, 0.0, 0.02), (-60.0, 0.0, 0.02)])
def test_gamma_is_large_for_densities_that_name_the_class_and_zero_for_others(
    scale: float, low: float, high: float
) -> None:
    trust = LabelTrust()
    assert float(trust.gamma(0.5)) < 0.01  # before the first batch, labels are those of mixup
    for seed in range(200):
        _, targets, draw = make_batch(100, 3, seed)
        own = (draw.lam > 0.5)[:, None]
        trust.update(scale * torch.where(own, targets, targets[draw.partner]), ParentLabels.of(targets, draw))
    assert low <= float(trust.gamma(0.5)) <= high
    assert float(trust.gamma(0.0)) == 0.0
    assert 1.0 <= float(trust.temperature(0.5)) <= 1024.0


def test_the_temperature_follows_the_scale_of_the_densities() -> None:
    temperatures = []
    for scale in (1.0, 16.0):
        trust, rng = LabelTrust(), np.random.default_rng(0)
        for seed in range(300):
            _, targets, draw = make_batch(100, 3, seed)
            near = torch.where((draw.lam > 0.5)[:, None], targets, targets[draw.partner])
            noisy = 20.0 * near + 20.0**0.5 * torch.from_numpy(rng.normal(size=(100, 3)))
            trust.update(4.0 * scale * noisy, ParentLabels.of(targets, draw))
        temperatures.append(float(trust.temperature(1.0)))
    assert 8.0 < temperatures[1] / temperatures[0] < 32.0, temperatures


def test_mixed_rows_and_unfitted_densities_say_nothing() -> None:
    trust = LabelTrust()
    scores, targets, draw = make_batch(50, 3, 0)
    before = {name: value.clone() for name, value in trust.state_dict().items()}
    trust.update(scores, ParentLabels.of(targets, draw._replace(lam=0.5 * torch.ones(50))))
    torch.testing.assert_close(trust.state_dict(), before)
    trust.update(torch.full((50, 3), -torch.inf, dtype=torch.float64), ParentLabels.of(targets, draw))
    assert float(trust.gamma(0.5)) < 0.01
    assert trust.log_likelihood.isfinite().all()


def clusters(spread: float, seed: int) -> tuple[Tensor, Tensor, MixParams]:
    """Features of three classes on a triangle, mixed."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=200)
    angles = 2.0 * np.pi * y / 3.0
    x = torch.from_numpy(np.stack([np.cos(angles), np.sin(angles)], 1) + rng.normal(0.0, spread, (200, 2)))
    draw = draw_to_device(Mixup(alpha=0.3).draw(200, rng), x)
    lam = draw.lam[:, None]
    return lam * x + (1.0 - lam) * x[draw.partner], torch.eye(3, dtype=torch.float64)[y], draw


@pytest.mark.parametrize("spread, is_trusted", [(0.05, True), (3.0, False)])
def test_the_labeler_trusts_separated_classes(spread: float, is_trusted: bool) -> None:
    auto = OnlineGenLabel(OnlineGaussianDensity(3), "auto", max_gamma=0.8)
    fixed = OnlineGenLabel(OnlineGaussianDensity(3), 0.8)
    for seed in range(30):
        mixed, targets, draw = clusters(spread, seed)
        for labeler in (auto, fixed):
            labels = observe_and_label(labeler, mixed, targets, mixed, targets, draw)
            torch.testing.assert_close(labels.sum(1), torch.ones(200, dtype=torch.float64))
    assert (float(auto.effective_gamma()) > 0.6) is is_trusted
    auto.check()
    if is_trusted:
        fixed.check()
    else:
        with pytest.warns(DensityWarning, match="auto"):
            fixed.check()


def test_the_state_is_saved() -> None:
    density, other = OnlineGaussianDensity(3, 2), OnlineGaussianDensity(3, 2)
    labeler = OnlineGenLabel(density, "auto")
    mixed, targets, draw = clusters(0.1, 0)
    observe_and_label(labeler, mixed, targets, mixed, targets, draw)
    other.load_state_dict(density.state_dict())
    torch.testing.assert_close(other.trust.gamma(0.5), density.trust.gamma(0.5))


def test_bad_values_are_refused() -> None:
    mixed, targets, draw = clusters(0.1, 0)
    for params in ({"gamma": "automatic"}, {"gamma": "auto", "max_gamma": 1.5}):
        labeler = OnlineGenLabel(OnlineGaussianDensity(3), **params)
        labeler.observe(mixed, targets, draw)
        with pytest.raises(ValueError, match=next(reversed(params))):
            labeler.label(mixed, targets, draw)


@pytest.mark.parametrize(
    "mixer", [Mixup(20.0), RegMixup(), Mixup(2.0, lam_per="batch")], ids=["half", "half clean", "per batch"]
)
def test_gamma_stays_zero_without_evidence(mixer: Mixer) -> None:
    rng, labeler = np.random.default_rng(0), OnlineGenLabel(OnlineGaussianDensity(5), "auto")
    for _ in range(600):  # features say nothing of the classes
        targets = torch.eye(5)[rng.integers(5, size=40)]
        draw = draw_to_device(mixer.draw(40, rng), targets)
        observe_and_label(labeler, features := torch.randn(40, 3), targets, features, targets, draw)
    assert float(labeler.effective_gamma()) < 0.01
    if mixer.alpha == 20.0:
        with pytest.warns(DensityWarning, match="no evidence"):
            labeler.check()
    else:
        labeler.check()


def test_clean_rows_are_evidence() -> None:
    """Half of the rows are clean, the others mixed half and half: gamma is large where the densities name classes."""
    for spread, low, high in ((0.05, 0.4, 0.5), (3.0, 0.0, 0.02)):
        labeler = OnlineGenLabel(OnlineGaussianDensity(3), "auto")
        for seed in range(60):
            rng = np.random.default_rng(seed)
            y = rng.integers(3, size=100)
            x = torch.from_numpy(3.0 * np.eye(3)[y] + rng.normal(0.0, spread, (100, 3)))
            targets = torch.eye(3, dtype=torch.float64)[y]
            draw = draw_to_device(RegMixup().draw(100, rng), targets)
            mixed = blend(x, draw)
            observe_and_label(labeler, mixed, targets, mixed, targets, draw)
        assert low <= float(labeler.effective_gamma()) <= high
