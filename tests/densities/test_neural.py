"""Test flows and VAEs against closed forms, grids and finite differences."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import Tensor

from genlabel import GenerativeClassifier, GenLabelClassifier
from genlabel._progress import LambdaCallback, use_callback
from genlabel.data.datasets.synthetic import make_moon
from genlabel.densities import (
    DensityWarning,
    FlowDensity,
    GaussianDensity,
    KernelDensity,
    MixtureDensity,
    VAEDensity,
)
from genlabel.densities.candidates import named_densities
from genlabel.densities.neural import NeuralDensity

pytest.importorskip("zuko", reason="flows need the package zuko")

FLOW = FlowDensity(transforms=2, hidden=(32,), epochs=30)
MAF = FlowDensity("maf", hidden=(32,), epochs=30)
VAE = VAEDensity(hidden=(32, 32), epochs=60, learning_rate=0.01)
DENSITIES: list[NeuralDensity] = [FLOW, MAF, VAE]
every = pytest.mark.parametrize("density", DENSITIES, ids=repr)
flows = pytest.mark.parametrize("density", [FLOW, MAF], ids=repr)


def two_gaussians(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two classes of known Gaussians, far from standardized."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = np.where(y[:, None] == 0, rng.normal([100.0, 0.0], [5.0, 0.1], (n, 2)), rng.normal([90, 0.3], [2, 0.2], (n, 2)))
    return X, y


@pytest.fixture(scope="module")
def moons() -> dict[str, NeuralDensity]:
    X, y = make_moon(600, random_state=0)
    return {repr(density): clone(density).fit(X, y) for density in DENSITIES}


def grid(low: float = -3.0, high: float = 4.0, steps: int = 351) -> tuple[np.ndarray, float]:
    axis = np.linspace(low, high, steps)
    return np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2), float(axis[1] - axis[0]) ** 2


@flows
def test_a_flow_integrates_to_one(density: NeuralDensity, moons: dict[str, NeuralDensity]) -> None:
    points, area = grid()
    mass = np.exp(moons[repr(density)].log_prob(points)).sum(0) * area
    np.testing.assert_allclose(mass, 1.0, atol=0.02)


def test_the_bound_of_a_vae_integrates_to_less_than_one(moons: dict[str, NeuralDensity]) -> None:
    """In the mean over draws, by Jensen's inequality; the mean is over 20 query seeds."""
    points, area = grid(steps=61)
    vae = clone(VAE)
    vars(vae).update(vars(moons[repr(VAE)]))
    masses = []
    for n_samples in (1, 4, 32):
        vae.n_samples = n_samples
        bounds = []
        for seed in range(20):
            vae.query_seed_ = seed
            bounds.append(vae.log_prob(points))
        masses.append(np.exp(np.mean(bounds, 0)).sum(0) * area)
    assert (masses[0] < masses[1]).all()
    assert (masses[1] < masses[2]).all()
    assert (masses[1] < 1.0).all()
    np.testing.assert_allclose(masses[2], 1.0, atol=0.05)
    assert not vae.normalized


def test_with_many_samples_the_bound_is_the_integral_over_the_latent_space(moons: dict[str, NeuralDensity]) -> None:
    vae = clone(VAE)
    vars(vae).update(vars(moons[repr(VAE)]))
    X, _ = make_moon(20, random_state=1)
    exact = np.stack([latent_integral(vae, X, c) for c in range(2)], 1)
    vae.n_samples = 4000
    near = exact > -8  # elsewhere both are sums of negligible terms
    np.testing.assert_allclose(vae.log_prob(X)[near], exact[near], atol=0.3)


def latent_integral(vae: Any, X: np.ndarray, c: int) -> np.ndarray:
    """Return log of the sum over a grid of z of N(z; 0, I) N(x; mu_c(z), sigma_c), in the units of the points."""
    z, area = (torch.as_tensor(part) for part in grid(-5.0, 5.0, 401))
    network, _ = vae._network(torch.device("cpu"))
    context = torch.eye(2, dtype=torch.float64)[vae.class_inputs_[c]].expand(len(z), -1)
    decoded = network.decode(z, context)
    mean, sigma = decoded.mean * vae.scaler_.scale + vae.scaler_.mean, decoded.log_std.exp()[0]
    prior = torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(1)
    normal = torch.distributions.Normal(mean, sigma * vae.scaler_.scale)
    return np.array([
        float(torch.logsumexp(prior + normal.log_prob(torch.as_tensor(x)).sum(1) + area.log(), 0)) for x in X
    ])  # fmt: skip


@pytest.mark.parametrize("name", ["flow", "vae", "kernel", "mixture"])
def test_curved_classes_are_separated_where_gaussians_fail(name: str, moons: dict[str, NeuralDensity]) -> None:
    """On fresh rows of Moon; full sizes, several seeds and Two-circle are in benchmarks/densities.py."""
    X, y = make_moon(600, random_state=0)
    fresh, classes = make_moon(2000, random_state=1)
    non_neural = {"kernel": KernelDensity("likelihood"), "mixture": MixtureDensity(32, "diagonal", reg=1e-3)}
    trained = {"flow": repr(FLOW), "vae": repr(VAE)}
    fitted = non_neural[name].fit(X, y) if name in non_neural else moons[trained[name]]
    assert (fitted.log_prob(fresh).argmax(1) == classes).mean() > 0.97
    assert (GaussianDensity().fit(X, y).log_prob(fresh).argmax(1) == classes).mean() < 0.9


@every
def test_gaussians_are_learned_in_the_units_of_the_features(density: NeuralDensity) -> None:
    X, y = two_gaussians(1000)
    result = clone(density).fit(X, y).log_prob(X)[np.arange(1000), y]
    normal = torch.distributions.Normal
    first = normal(torch.tensor([100.0, 0.0]), torch.tensor([5.0, 0.1])).log_prob(torch.as_tensor(X)).sum(1)
    second = normal(torch.tensor([90.0, 0.3]), torch.tensor([2.0, 0.2])).log_prob(torch.as_tensor(X)).sum(1)
    assert abs(result.mean() - np.where(y == 0, first, second).mean()) < 0.15


@every
def test_gradients_equal_finite_differences(density: NeuralDensity, moons: dict[str, NeuralDensity]) -> None:
    fitted = moons[repr(density)]
    X = torch.as_tensor(make_moon(12, random_state=3)[0]).requires_grad_()
    values: Tensor = fitted._log_prob(X)
    for c in range(2):
        (result,) = torch.autograd.grad(values[:, c].sum(), X, retain_graph=True)
        for axis in range(2):
            step = 1e-6 * torch.eye(2, dtype=torch.float64)[axis]
            ahead, back = fitted._log_prob(X.detach() + step), fitted._log_prob(X.detach() - step)
            numeric = (ahead - back)[:, c] / 2e-6
            torch.testing.assert_close(result[:, axis], numeric, rtol=1e-3, atol=1e-3)


@every
def test_samples_have_the_moments_and_the_class_of_the_data(
    density: NeuralDensity, moons: dict[str, NeuralDensity]
) -> None:
    X, y = make_moon(600, random_state=0)
    fitted = moons[repr(density)]
    for c in range(2):
        drawn = fitted.sample(2000, c, rng=0)
        assert drawn.shape == (2000, 2)
        np.testing.assert_array_equal(drawn, fitted.sample(2000, c, rng=0))
        np.testing.assert_allclose(drawn.mean(0), X[y == c].mean(0), atol=0.15)
        np.testing.assert_allclose(drawn.std(0), X[y == c].std(0), atol=0.15)
        assert (fitted.log_prob(drawn).argmax(1) == c).mean() > 0.85
    with pytest.raises(ValueError, match="class_index=2"):
        fitted.sample(3, 2)


@every
def test_global_generators_do_not_change(
    density: NeuralDensity,
) -> None:
    X, y = two_gaussians(100)
    quick = clone(density).set_params(epochs=2)
    before = torch.random.get_rng_state()
    first = clone(quick).fit(X, y).log_prob(X)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(7)
    np.testing.assert_array_equal(clone(quick).fit(X, y).log_prob(X), first)
    assert not np.allclose(clone(quick).set_params(random_state=1).fit(X, y).log_prob(X), first)


@every
def test_small_classes_get_a_gaussian_with_a_warning(density: NeuralDensity) -> None:
    X, y = two_gaussians(100)
    X, y = np.vstack([X, [[50.0, 5.0], [51.0, 5.1], [50.5, 4.9]]]), np.append(y, [2, 2, 2])
    names = np.array(["a", "b", "few"])[y]
    quick = clone(density).set_params(epochs=2)
    with pytest.warns(DensityWarning, match="'few'"):
        fitted = clone(quick).fit(X, names)
    assert fitted.class_inputs_[2] == -1
    assert sorted(fitted.class_inputs_[:2]) == [0, 1]
    assert (fitted.log_prob(X[-3:]).argmax(1) == 2).all()
    np.testing.assert_allclose(fitted.sample(4000, 2, rng=0).mean(0), X[-3:].mean(0), rtol=0.05)
    with pytest.warns(DensityWarning, match="'few'"):
        alone = clone(quick).fit(X[-3:], names[-3:])
    assert alone.weights_ == {}
    assert np.isfinite(alone.log_prob(X)).all()


@every
def test_weights_change_the_fit(density: NeuralDensity) -> None:
    """The class has two clusters, one of very small weight."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-3, 0.5, (200, 1)), rng.normal(3, 0.5, (200, 1))])
    fitted = clone(density).fit(X, np.zeros(400), np.repeat([1.0, 0.02], 200))
    log_prob = fitted.log_prob([[-3.0], [3.0]])[:, 0]
    assert log_prob[0] - log_prob[1] > 1.5


@every
def test_epochs_are_reported_and_the_best_one_is_restored(density: NeuralDensity) -> None:
    X, y = two_gaussians(100)
    epochs: list[int] = []
    with use_callback(LambdaCallback(on_epoch_end=lambda epoch, logs: epochs.append(epoch))):
        fitted = clone(density).set_params(epochs=12, patience=3).fit(X, y)
    assert epochs == list(range(len(fitted.losses_)))
    assert len(epochs) <= 12
    assert np.argmin(fitted.losses_) >= len(fitted.losses_) - 4


@pytest.mark.parametrize(
    ("density", "match"),
    [
        (FlowDensity("naf"), "kind='naf'"),
        (FlowDensity(bins=1), "bins=1"),
        (FlowDensity(hidden=64), "hidden=64"),
        (FlowDensity(validation_fraction=0.9), "validation_fraction=0.9"),
        (FlowDensity(jitter=-1.0), "jitter=-1.0"),
        (FlowDensity(learning_rate=1e30, epochs=3), "learning_rate"),
        (FlowDensity(device="tpu"), "device='tpu'"),
        (VAEDensity(latent_dim=0), "latent_dim=0"),
        (VAEDensity(noise="full"), "noise='full'"),
        (VAEDensity(noise=0.0), "noise=0.0"),
        (VAEDensity(n_samples=0), "n_samples=0"),
    ],
    ids=lambda value: "" if isinstance(value, str) else repr(value),
)
def test_bad_parameters_raise(density: NeuralDensity, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        density.fit(*two_gaussians(100))


@pytest.mark.parametrize("name", ["mixture", "flow", "vae", "gan"])
def test_neural_densities_are_registered(name: str) -> None:
    (density,) = named_densities(name).values()
    assert GenerativeClassifier(name).resolved_config()["density"].get_params() == density.get_params()


@pytest.mark.parametrize("density", [FLOW, VAE], ids=repr)
def test_classifiers_accept_neural_densities(density: NeuralDensity) -> None:
    X, y = make_moon(200, random_state=0)
    quick = clone(density).set_params(epochs=20)
    names = np.array(["left", "right"])[y]
    alone = GenerativeClassifier(quick).fit(X, names)
    assert alone.score(X, names) > 0.85
    mixed = GenLabelClassifier("mlp", quick, gamma=1.0, clean_fraction=0.5).set_params(
        training__learning_rate=0.01, training__epochs=10, search__cv=2
    )
    assert mixed.fit(X, names).score(X, names) > 0.85
