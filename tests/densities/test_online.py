"""Test online Gaussians against moments of numpy, densities of scipy and a plain loop."""

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from torch import Tensor

from genlabel.densities import OnlineGaussianDensity
from genlabel.densities.online import CollapseWarning
from genlabel.labeling import OnlineGenLabel
from genlabel.mixing import MixParams, Mixup
from genlabel.mixing.base import draw_to_device, identity_params

COVARIANCES = ["spherical", "diagonal"]
each_covariance = pytest.mark.parametrize("covariance", COVARIANCES)


def batch(n: int = 60, k: int = 3, d: int = 4, seed: int = 0, gap: float = 2.0) -> tuple[Tensor, Tensor]:
    """Features (n, d) and one-hot labels (n, k), float64."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % k)
    return torch.from_numpy(rng.normal(size=(n, d)) + gap * np.eye(k, d)[y]), torch.eye(k).double()[y]


def weighted_variance(f: np.ndarray, w: np.ndarray, mean: np.ndarray, covariance: str) -> Any:
    """Return the weighted mean square deviation of the rows from a mean."""
    square = (w[:, None] * (f - mean) ** 2).sum(0) / w.sum()
    return square if covariance == "diagonal" else square.mean()


class PlainLoop:
    """arXiv Alg. 3 class by class; the rate (1 - beta) / (1 - beta^t) corrects the bias of the first steps."""

    def __init__(self, k: int, d: int, beta: float, covariance: str) -> None:
        self.beta, self.covariance, self.t = beta, covariance, np.zeros(k, int)
        self.mean, self.variance = np.zeros((k, d)), np.zeros((k, d) if covariance == "diagonal" else k)

    def update(self, f: np.ndarray, weights: np.ndarray) -> None:
        for c, w in enumerate(weights.T):
            if w.sum() > 0:
                self.t[c] += 1
                rate = (1 - self.beta) / (1 - self.beta ** self.t[c])
                self.mean[c] += rate * (np.average(f, axis=0, weights=w) - self.mean[c])
                self.variance[c] += rate * (weighted_variance(f, w, self.mean[c], self.covariance) - self.variance[c])


def gaussians(density: OnlineGaussianDensity, x: Tensor) -> np.ndarray:
    """Return log-densities (m, k) by scipy."""
    d = x.shape[1]
    columns = [
        multivariate_normal(mean.numpy(), np.diag(np.broadcast_to(variance.numpy(), d))).logpdf(x.double().numpy())
        for mean, variance in zip(density.mean.double(), density.variance.double(), strict=True)
    ]
    return np.stack(columns, 1)


def same(first: OnlineGaussianDensity, second: OnlineGaussianDensity) -> bool:
    state, other_state = first.state_dict(), second.state_dict()
    return state.keys() == other_state.keys() and all(torch.equal(state[name], other_state[name]) for name in state)


@each_covariance
@pytest.mark.parametrize("beta", [0.0, 0.5, 0.95])
@pytest.mark.parametrize("d", [1, 4, 7])
def test_one_batch_equals_its_moments_and_scipy(covariance: str, beta: float, d: int) -> None:
    f, w = batch(d=d)
    density = OnlineGaussianDensity(3, beta=beta, covariance=covariance).double()
    density.update(f, w)
    for c in range(3):
        rows = f[w[:, c] > 0].numpy()
        variance = rows.var(0) if covariance == "diagonal" else rows.var(0).mean()
        np.testing.assert_allclose(density.mean[c], rows.mean(0), rtol=1e-12)
        np.testing.assert_allclose(density.variance[c], variance, rtol=1e-12)
    x = 3 * batch(seed=1, d=d)[0]
    np.testing.assert_allclose(density.log_prob(x), gaussians(density, x), rtol=1e-10)


@each_covariance
@pytest.mark.parametrize("beta", [0.0, 0.3, 0.95])
@pytest.mark.parametrize("kind", ["classes", "absent classes", "soft labels"])
def test_many_batches_equal_a_loop_of_algorithm_3(covariance: str, beta: float, kind: str) -> None:
    density, plain = (
        OnlineGaussianDensity(3, beta=beta, covariance=covariance).double(),
        PlainLoop(3, 4, beta, covariance),
    )
    for t in range(12):
        f, w = batch(seed=t)
        if kind == "absent classes":
            w[:, t % 3] = 0.0
        if kind == "soft labels":
            w = 0.7 * w + 0.3 * w.roll(1, 0)
        density.update(f, w)
        plain.update(f.numpy(), w.numpy())
    np.testing.assert_allclose(density.mean, plain.mean, rtol=1e-10)
    np.testing.assert_allclose(density.variance, plain.variance, rtol=1e-10)
    np.testing.assert_allclose(density.weight, 1 - beta**plain.t, rtol=1e-10)
    assert float(density.steps) == 12


@each_covariance
def test_beta_zero_uses_the_last_batch(covariance: str) -> None:
    forgets, last = (OnlineGaussianDensity(3, beta=0.0, covariance=covariance).double() for _ in range(2))
    f, w = batch(seed=1)
    for pair in (batch(seed=0), (f, w)):
        forgets.update(*pair)
    last.update(f, w)
    torch.testing.assert_close(forgets.mean, last.mean, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(forgets.variance, last.variance, rtol=1e-12, atol=1e-12)


@each_covariance
def test_an_absent_class_is_unchanged_bit_for_bit(covariance: str) -> None:
    density = OnlineGaussianDensity(3, covariance=covariance)
    density.update(*batch())
    before = copy.deepcopy(density)
    f, w = batch(seed=1)
    density.update(f, w * torch.tensor([1.0, 0.0, 1.0]))
    for name in ("mean", "variance", "weight"):
        assert torch.equal(getattr(density, name)[1], getattr(before, name)[1])
        assert not torch.equal(getattr(density, name)[0], getattr(before, name)[0])


@each_covariance
@pytest.mark.parametrize("top", [2, None])
def test_an_unseen_class_has_no_density_and_no_label_mass(covariance: str, top: int | None) -> None:
    f, w = batch()
    density = OnlineGaussianDensity(3, covariance=covariance, temperature=100.0)
    assert bool((density.log_prob(f) == -torch.inf).all())
    density.update(f, w * torch.tensor([1.0, 0.0, 1.0]))
    logs = density.log_prob(f)
    assert bool((logs[:, 1] == -torch.inf).all())
    assert bool(logs[:, [0, 2]].isfinite().all())
    labels = density.soft_labels(logs, torch.full_like(w, torch.nan), top)  # no row keeps the label of mixup
    assert float(labels[:, 1].sum()) == 0.0
    assert float(labels[:, 0].min()) > 0.0


def test_a_class_of_one_point_has_a_finite_density() -> None:
    f, w = batch(n=3)
    density = OnlineGaussianDensity(3)
    density.update(f, w)
    assert bool(density.log_prob(f).isfinite().all())
    assert torch.equal(density.log_prob(f).argmax(1), w.argmax(1))


@each_covariance
@pytest.mark.parametrize("as_tensors", [False, True])
def test_near_rows_count_for_their_parent(covariance: str, as_tensors: bool) -> None:
    f, w = batch()
    draw = Mixup(0.5).draw(60, 0)
    near_self, near_partner = draw.lam >= 0.8, draw.lam <= 0.2
    assert min(near_self.sum(), near_partner.sum(), (~near_self & ~near_partner).sum()) > 5
    observed, expected = (OnlineGaussianDensity(3, covariance=covariance, margin=0.2).double() for _ in range(2))
    observed.observe(f, w, draw_to_device(draw, f) if as_tensors else draw)
    rows = np.concatenate([np.flatnonzero(near_self), np.flatnonzero(near_partner)])
    parents = np.concatenate([np.flatnonzero(near_self), draw.partner[near_partner]])
    expected.update(f[rows], w[parents])
    torch.testing.assert_close(observed.mean, expected.mean, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(observed.variance, expected.variance, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("seen_before", [False, True])
def test_a_batch_without_near_rows_changes_nothing(seen_before: bool) -> None:
    f, w = batch()
    density = OnlineGaussianDensity(3, 4)
    if seen_before:
        density.update(f, w)
    before = copy.deepcopy(density)
    density.observe(f + 1, w, MixParams(np.arange(60), np.full(60, 0.5)))
    for name in ("mean", "variance", "weight", "log_temperature", "mean_label"):
        assert torch.equal(getattr(density, name), getattr(before, name))


@pytest.mark.parametrize(
    "statistics, source, fraction", [("near", "mixed", 0.0), ("clean", "clean", 1.0), ("part", "clean", 0.4)]
)
def test_update_source_and_observed_fraction(statistics: str, source: str, fraction: float) -> None:
    """All rows of clean features count, for any draw."""
    f, w = batch()
    observed, updated = (OnlineGaussianDensity(3, statistics=statistics, share=0.4) for _ in range(2))
    assert (observed.update_source, observed.observed_fraction) == (source, fraction)
    observed.observe(f, w, MixParams(np.arange(60)[::-1].copy(), np.full(60, 0.5)))
    updated.update(f, w)
    assert same(observed, updated) == (statistics != "near")


@each_covariance
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_rows_that_are_not_finite_are_ignored(covariance: str, value: float) -> None:
    """Loss scaling skips a step that overflows in float16; the density must stay finite."""
    features, weights = batch()
    broken = features.clone()
    broken[::7, 1] = value
    rows = torch.ones(len(features), dtype=torch.bool)
    rows[::7] = False
    with_broken_rows, without = (OnlineGaussianDensity(3, covariance=covariance) for _ in range(2))
    for density, (f, w) in ((with_broken_rows, (broken, weights)), (without, (features[rows], weights[rows]))):
        density.update(features, weights)
        density.update(f, w)
    torch.testing.assert_close(with_broken_rows.state_dict(), without.state_dict())
    saved = {name: tensor.clone() for name, tensor in with_broken_rows.state_dict().items() if name != "steps"}
    with_broken_rows.update(torch.full_like(features, value), weights)
    assert all(torch.equal(with_broken_rows.state_dict()[name], tensor) for name, tensor in saved.items())


@each_covariance
def test_a_large_offset_does_not_affect_the_variance(covariance: str) -> None:
    """Mean 1e3 and deviation 1 in float32: mean squares minus squared means would lose all digits."""
    f, w = batch(n=300, d=16)
    f = f.float().double() + 1e3
    low, high = (
        OnlineGaussianDensity(3, covariance=covariance),
        OnlineGaussianDensity(3, covariance=covariance).double(),
    )
    for t in range(4):
        low.update((f + 0.01 * t).float(), w)
        high.update((f + 0.01 * t).float().double(), w)
        np.testing.assert_allclose(low.variance, high.variance, rtol=2e-5)
        np.testing.assert_allclose(low.log_prob(f.float()), high.log_prob(f), atol=2e-3)


@each_covariance
@pytest.mark.parametrize("known", [None, 4])
def test_state_dict_round_trip(covariance: str, known: int | None) -> None:
    density = OnlineGaussianDensity(3, covariance=covariance, temperature="mixup")
    label = OnlineGenLabel(density)
    for t in range(3):
        f, w = batch(seed=t)
        label.observe(f.float(), w.float(), identity_params(60))
        label.label(f.float(), w.float(), identity_params(60))
    own = {name for name in density.state_dict() if not name.startswith("trust.")}
    assert {"mean", "variance", "weight", "log_temperature", "mean_label", "steps"} == own
    OnlineGaussianDensity(3, covariance=covariance).load_state_dict({name: density.state_dict()[name] for name in own})
    loaded = OnlineGaussianDensity(3, known, covariance=covariance, temperature="mixup")
    loaded.load_state_dict(density.state_dict())
    for other in (loaded, copy.deepcopy(density), pickle.loads(pickle.dumps(density))):
        assert same(other, density)
        before = density.mean.clone()
        other.update(*batch(seed=9))
        assert torch.equal(density.mean, before)
    empty = OnlineGaussianDensity(3, covariance=covariance)
    empty.load_state_dict(OnlineGaussianDensity(3, covariance=covariance).state_dict())
    assert empty.mean is None


@pytest.mark.parametrize("known", [None, 4])
def test_dtype_and_device_follow_the_module(known: int | None) -> None:
    f, w = batch()
    density = OnlineGaussianDensity(3, known).to(torch.float64)
    density.update(f.float(), w.float())
    assert {buffer.dtype for buffer in density.buffers()} == {torch.float64}
    assert density.log_prob(f).dtype == torch.float64
    assert {buffer.dtype for buffer in density.float().buffers()} == {torch.float32}
    density.update(f, w)
    assert density.log_prob(f).dtype == torch.float32
    assert {buffer.device.type for buffer in density.to("meta").buffers()} == {"meta"}


@each_covariance
def test_autocast_does_not_change_the_results(covariance: str) -> None:
    f, w = (part.float() for part in batch())
    runs = []
    for enabled in (False, True):
        density = OnlineGaussianDensity(3, covariance=covariance)
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            density.update(f, w)
            runs.append((density.mean, density.variance, density.log_prob(f)))
    assert all(torch.equal(one, other) for one, other in zip(*runs, strict=True))


def test_bf16_features_are_accumulated_in_float32() -> None:
    f, w = batch()
    bf16, float32 = OnlineGaussianDensity(3), OnlineGaussianDensity(3)
    bf16.update(f.bfloat16(), w.float())
    float32.update(f.bfloat16().float(), w.float())
    assert bf16.mean.dtype == torch.float32
    assert same(bf16, float32)
    assert torch.equal(bf16.log_prob(f.bfloat16()), float32.log_prob(f.bfloat16().float()))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 7.0])
def test_a_temperature_divides_the_log_densities(temperature: float) -> None:
    f, w = batch()
    density = OnlineGaussianDensity(3, temperature=temperature).double()
    density.update(f, w)
    logs = gaussians(density, f) / temperature
    expected = np.exp(logs - np.logaddexp.reduce(logs, 1, keepdims=True))
    np.testing.assert_allclose(density.soft_labels(density.log_prob(f), w), expected, rtol=1e-6)
    assert float(density.log_temperature) == pytest.approx(np.log(temperature))


def entropy(labels: Tensor) -> float:
    return float(-torch.special.xlogy(labels, labels).sum(1).mean())


def test_a_matched_temperature_matches_the_entropy_of_mixup() -> None:
    """In 512 dimensions with distant classes, labels without a temperature are one-hot."""
    density, plain = OnlineGaussianDensity(3, temperature="mixup", statistics="clean"), OnlineGaussianDensity(3)
    gaps = []
    for t in range(300):
        f, w = (part.float() for part in batch(d=512, seed=t, gap=8.0))
        draw = draw_to_device(Mixup().draw(60, t), f)
        lam = draw.lam[:, None]
        f_mix, y_mix = (lam * part + (1 - lam) * part[draw.partner] for part in (f, w))
        density.observe(f, w, draw)
        plain.update(f, w)
        gaps.append(entropy(density.soft_labels(density.log_prob(f_mix), y_mix)) - entropy(y_mix))
    sharp = entropy(plain.soft_labels(plain.log_prob(f_mix), y_mix)) - entropy(y_mix)
    assert sharp < -0.25
    assert abs(np.mean(gaps[-50:])) < 0.03
    assert float(density.log_temperature) > 1.0


def density_after_labels(w_gen: Tensor, steps: int = 300) -> OnlineGaussianDensity:
    """Return a density after many steps of labels with the class frequencies of `w_gen` (n, k)."""
    density = OnlineGaussianDensity(3, statistics="clean")
    f, w = (part.float() for part in batch(gap=20.0))
    density.update(f, w)
    centres = 20.0 * torch.eye(3, 4)
    for _ in range(steps):
        density.soft_labels(density.log_prob(centres[w_gen.argmax(1)]), w.float())
    return density


def test_collapsed_labels_warn() -> None:
    w = batch()[1]
    healthy = density_after_labels(w)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        healthy.check()
        OnlineGaussianDensity(3).check()
    collapsed = density_after_labels(torch.eye(3)[torch.full((60,), 2)])
    with pytest.warns(CollapseWarning, match="gamma"):
        collapsed.check()
    assert bool(collapsed.mean_label.sum(1).sub(1).abs().max() < 1e-5)


@pytest.mark.parametrize("statistics", ["near", pytest.param("clean", marks=pytest.mark.long)])
@each_covariance
def test_a_step_compiles_as_one_graph(statistics: str, covariance: str) -> None:
    """The labels and the state equal those of the eager step."""
    labelers = [
        OnlineGenLabel(
            OnlineGaussianDensity(3, covariance=covariance, statistics=statistics, temperature="mixup"),
            0.5,
            warmup_steps=4,
        )
        for _ in range(2)
    ]

    def step(labeler: OnlineGenLabel, f: Tensor, w: Tensor, draw: MixParams) -> Tensor:
        labeler.observe(f, w, draw)
        labels: Tensor = labeler.label(f, w, draw)
        return labels

    torch.compiler.reset()
    compiled = torch.compile(step, fullgraph=True, backend="eager", dynamic=False)
    for t in range(3):
        f, w = (part.float() for part in batch(seed=t))
        draw = draw_to_device(Mixup(0.3).draw(60, t), f)
        torch.testing.assert_close(compiled(labelers[0], f, w, draw), step(labelers[1], f, w, draw))
    for name, value in labelers[0].density.state_dict().items():
        torch.testing.assert_close(value, labelers[1].density.state_dict()[name])


def learn_a_part(rank: int, steps: list[tuple[Tensor, Tensor, int]]) -> dict[str, Any]:
    states: dict[str, Any] = {}
    for covariance in COVARIANCES:
        density = OnlineGaussianDensity(3, covariance=covariance).double()
        for f, w, split in steps:
            part = slice(0, split) if rank == 0 else slice(split, None)
            density.update(f[part], w[part])
        states[covariance] = density.state_dict()
    matched = OnlineGaussianDensity(3, temperature="mixup").double()
    for f, w, _ in steps:
        part = slice(0, 30) if rank == 0 else slice(30, None)
        matched.update(f[part], w[part])
        matched.soft_labels(matched.log_prob(3 * f[part]), 0.6 * w[part] + 0.4 * w[part].roll(1, 0))
    return states | {"matched": matched.state_dict()}


def test_two_processes_have_the_density_of_the_joined_batch(in_two_processes: Callable[..., Any]) -> None:
    """Halves, uneven parts, and a class in one process only; also the temperature and the mean label."""
    steps = []
    for seed, split in enumerate((30, 7, 59, 20)):
        f, w = batch(seed=seed)
        order = w[:, 2].argsort() if seed == 3 else torch.arange(60)
        steps.append((f[order], w[order], split))
    assert float(steps[3][1][:20, 2].sum()) == 0.0
    first, second = in_two_processes(learn_a_part, steps=steps)
    for covariance in COVARIANCES:
        alone = OnlineGaussianDensity(3, covariance=covariance).double()
        for f, w, _ in steps:
            alone.update(f, w)
        for name, value in alone.state_dict().items():
            assert torch.equal(first[covariance][name], second[covariance][name])
            torch.testing.assert_close(first[covariance][name], value, rtol=1e-12, atol=1e-13)
    alone = OnlineGaussianDensity(3, temperature="mixup").double()
    for f, w, _ in steps:
        alone.update(f, w)
        halves = [0.6 * half + 0.4 * half.roll(1, 0) for half in (w[:30], w[30:])]
        alone.soft_labels(alone.log_prob(3 * f), torch.cat(halves))
    assert float(alone.log_temperature) != 0.0
    for name, value in alone.state_dict().items():
        assert torch.equal(first["matched"][name], second["matched"][name])
        torch.testing.assert_close(first["matched"][name], value, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "params, match",
    [
        ({"num_classes": 1}, "num_classes=1"),
        ({"num_features": 0}, "num_features"),
        ({"beta": 1.0}, "beta=1.0"),
        ({"covariance": "full"}, "covariance='full'"),
        ({"statistics": "all"}, "statistics='all'"),
        ({"margin": 0.6}, "margin=0.6"),
        ({"share": -0.1}, "share=-0.1"),
        ({"temperature": 0.0}, "temperature=0.0"),
        ({"temperature": "mixpu"}, "temperature='mixpu'"),
    ],
    ids=str,
)
def test_bad_arguments_raise(params: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        OnlineGaussianDensity(**{"num_classes": 3, **params})


def test_bad_shapes_raise() -> None:
    f, w = batch()
    density = OnlineGaussianDensity(3)
    density.update(f, w)
    for call in (density.log_prob, lambda x: density.update(x, w)):
        with pytest.raises(ValueError, match="features"):
            call(f[:, :2])
    with pytest.raises(ValueError, match="weights"):
        density.update(f, w[:, :2])
    other = OnlineGaussianDensity(3, 5)
    with pytest.raises(RuntimeError, match="mean"):
        other.load_state_dict(density.state_dict())
