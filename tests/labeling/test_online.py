"""Test labels of online densities (arXiv Alg. 3) against mixup and Bayes' rule."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax
from scipy.stats import multivariate_normal
from torch import Tensor

from genlabel.densities import OnlineGaussianDensity
from genlabel.densities.online import CollapseWarning
from genlabel.labeling import LinearLabel, OnlineGenLabel
from genlabel.labeling.base import observe_and_label
from genlabel.mixing import MixParams, Mixup
from genlabel.mixing.base import BatchInfo, draw_to_device, identity_params

SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "the paper's": ({"statistics": "clean"}, {}),
    "near": ({}, {"gamma": 0.3}),
    "diagonal, part": ({"covariance": "diagonal", "statistics": "part"}, {"gamma": 1.0, "top_k": None}),
    "matched": ({"temperature": "mixup"}, {"gamma": 1.0, "top_k": 3}),
    "keep, ramp": ({"temperature": 5.0}, {"gamma": 0.8, "same_class": "keep", "warmup_steps": 7}),
}
every = pytest.mark.parametrize("name", SETTINGS)


def make(name: str) -> OnlineGenLabel:
    density, label = SETTINGS[name]
    return OnlineGenLabel(OnlineGaussianDensity(4, **density), **label)


def batch(seed: int = 0, d: int = 5) -> tuple[Tensor, Tensor, MixParams]:
    """Features of a mixed batch, the labels before mixing, the draw."""
    rng = np.random.default_rng(seed)
    y = rng.integers(4, size=40)
    draw = draw_to_device(Mixup(0.5).draw(40, rng), torch.zeros(1, dtype=torch.float64))
    f = torch.from_numpy(rng.normal(size=(40, d)) + 2 * np.eye(4, d)[y])
    lam = draw.lam[:, None]
    return lam * f + (1 - lam) * f[draw.partner], torch.eye(4).double()[y], draw


def mixup_label(targets: Tensor, draw: MixParams) -> Tensor:
    labels: Tensor = LinearLabel().label(targets, targets, draw)
    return labels


@every
@given(seed=st.integers(0, 10**6), far=st.sampled_from([0.0, 1.0, 1e3, 1e18]))
def test_rows_are_on_the_simplex(name: str, seed: int, far: float) -> None:
    labeler = make(name)
    for step in range(3):
        f, w, draw = (part.float() if isinstance(part, Tensor) else part for part in batch(seed + step))
        labeler.observe(f, w, draw)
    labels = labeler.label(far * f, w, draw)
    assert labels.shape == (40, 4)
    assert labels.dtype == torch.float32
    assert bool((labels >= 0).all())
    assert bool((labels.sum(1) - 1).abs().max() < 1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gamma_zero_is_the_mixup_label_bit_for_bit(dtype: torch.dtype) -> None:
    f, w, draw = batch()
    labeler = OnlineGenLabel(OnlineGaussianDensity(4), gamma=0.0)
    labeler.observe(f.to(dtype), w.to(dtype), draw)
    assert torch.equal(labeler.label(f.to(dtype), w.to(dtype), draw), mixup_label(w.to(dtype), draw))


@every
def test_unobserved_densities_give_the_mixup_label(name: str) -> None:
    f, w, draw = batch()
    torch.testing.assert_close(make(name).label(f, w, draw), mixup_label(w, draw), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("covariance", ["spherical", "diagonal"])
@pytest.mark.parametrize("top", [None, 1, 2, 3, 4])
@pytest.mark.parametrize("gamma", [0.1, 1.0])
def test_the_label_is_bayes_rule_on_scipys_densities(covariance: str, top: int | None, gamma: float) -> None:
    """The posterior of the `top` most likely classes, averaged with the mixup label (arXiv Alg. 3)."""
    f, w, draw = batch()
    density = OnlineGaussianDensity(4, covariance=covariance, statistics="clean").double()
    labeler = OnlineGenLabel(density, gamma=gamma, top_k=top)
    labeler.observe(f, w, draw)
    logs = np.empty((40, 4))
    for c in range(4):
        rows = f[w[:, c] > 0].numpy()
        variance = rows.var(0) if covariance == "diagonal" else np.full(5, rows.var(0).mean())
        logs[:, c] = multivariate_normal(rows.mean(0), np.diag(variance)).logpdf(f.numpy())
    rank = (-logs).argsort(1).argsort(1)
    y_gen = softmax(np.where(rank < (top or 4), logs, -np.inf), axis=1)
    assert ((y_gen > 0).sum(1) <= (top or 4)).all()
    expected = gamma * y_gen + (1 - gamma) * mixup_label(w, draw).numpy()
    np.testing.assert_allclose(labeler.label(f, w, draw), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("ramp", [1, 4, 10])
def test_gamma_grows_over_the_ramp(ramp: int) -> None:
    """At step t the weight of the label without a ramp is min(1, t / ramp)."""
    slow, fast = (
        OnlineGenLabel(OnlineGaussianDensity(4).double(), gamma=0.6, warmup_steps=steps) for steps in (ramp, 0)
    )
    for t in range(1, 13):
        f, w, draw = batch(t)
        for labeler in (slow, fast):
            labeler.observe(f, w, draw)
        mixup_labels = mixup_label(w, draw)
        expected = torch.lerp(mixup_labels, fast.label(f, w, draw), min(1.0, t / ramp))
        torch.testing.assert_close(slow.label(f, w, draw), expected, rtol=1e-10, atol=1e-12)


def test_pairs_of_one_class_may_keep_their_label() -> None:
    f, w, draw = batch()
    keep, relabel = (
        OnlineGenLabel(OnlineGaussianDensity(4, temperature=50.0).double(), 1.0, None, same_class=option)
        for option in ("keep", "relabel")
    )
    for labeler in (keep, relabel):
        labeler.observe(f, w, draw)
    same_class = (w == w[draw.partner]).all(1)
    assert 0 < int(same_class.sum()) < 40
    keep_labels, relabel_labels = keep.label(f, w, draw), relabel.label(f, w, draw)
    assert torch.equal(keep_labels[same_class], w[same_class])
    assert torch.equal(keep_labels[~same_class], relabel_labels[~same_class])
    assert not torch.isclose(relabel_labels[same_class], w[same_class]).all(1).any()


def test_clean_rows_keep_their_labels() -> None:
    f, w, _ = batch()
    labeler = OnlineGenLabel(OnlineGaussianDensity(4, temperature=50.0), 1.0)
    labeler.observe(f, w, identity_params(40))
    clean = np.arange(40) < 11
    nearly_clean = identity_params(40)._replace(lam=np.full(40, 0.99))
    labels = labeler.label(f, w, nearly_clean, BatchInfo(clean=clean))
    assert torch.equal(labels[:11], w[:11])
    assert not torch.equal(labels[11:], w[11:])
    assert torch.equal(labeler.label(f, w, identity_params(40)), w)


@pytest.mark.parametrize("lam", [0.0, 1.0])
def test_a_row_that_is_one_parent_alone_has_its_label(lam: float) -> None:
    f, w, draw = batch()
    labeler, whole = (
        OnlineGenLabel(OnlineGaussianDensity(4, temperature=50.0), 1.0),
        draw._replace(lam=draw.lam.clone()),
    )
    whole.lam[:5] = lam
    labels = observe_and_label(labeler, f, w, f, w, whole)
    assert torch.equal(labels[:5], (w if lam else w[draw.partner])[:5])
    assert not labels.is_inference()


def test_draws_of_numpy_and_torch_give_the_same_label() -> None:
    f, w, draw = batch()
    as_numpy = MixParams(draw.partner.numpy(), draw.lam.numpy())
    runs = []
    for batch_draw in (draw, as_numpy):
        labeler = OnlineGenLabel(OnlineGaussianDensity(4), 0.5, same_class="keep")
        labeler.observe(f, w, batch_draw)
        runs.append(labeler.label(f, w, batch_draw))
    assert torch.equal(*runs)


@pytest.mark.parametrize(
    "params, match",
    [
        ({"gamma": 1.5}, "gamma="),
        ({"top_k": 0}, "top_k="),
        ({"same_class": "drop"}, "same_class="),
        ({"warmup_steps": -1}, "warmup_steps="),
    ],
    ids=str,
)
def test_bad_arguments_raise(params: dict[str, Any], match: str) -> None:
    f, w, draw = batch()
    labeler = OnlineGenLabel(OnlineGaussianDensity(4), **params)
    labeler.observe(f, w, draw)
    with pytest.raises(ValueError, match=match):
        labeler.label(f, w, draw)


@every
def test_the_labeler_delegates_to_its_density(name: str) -> None:
    f, w, draw = batch()
    labeler = make(name)
    density = labeler.state
    assert not labeler.needs_inputs
    assert (labeler.update_source, labeler.observed_fraction) == (density.update_source, density.observed_fraction)
    labeler.allocate(f)
    assert any(f.shape[1] in buffer.shape for buffer in density.buffers())
    assert labeler.to_cpu() is labeler
    labels = observe_and_label(labeler, f.half(), w, f, w, draw)
    assert int(density.steps) == 1
    other = make(name)
    other.allocate(f)
    other.observe(f.half().float(), w, draw)
    assert torch.equal(labels, other.label(f, w, draw))
    labeler.check()
    density.mean_label[0] = torch.eye(4)[2]
    with pytest.warns(CollapseWarning, match="class 2"):
        labeler.check()
