"""Test the latent density against its inner density on the features of the network."""

from typing import Any

import numpy as np
import torch
from torch.distributions import MultivariateNormal

from genlabel.densities import GaussianDensity, PerClassDensity
from genlabel.densities.transformed import LatentDensity
from genlabel.training.networks import MLP


def test_equals_the_density_on_the_encoded_points() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)), np.arange(50) % 2
    network = MLP(3, 2, hidden=(5, 4), seed=1, dtype=torch.float64)
    density = GaussianDensity(shrinkage=0.1)
    for depth, width in ((0, 3), (1, 5), (2, 4)):
        features = network.encode(torch.from_numpy(X), depth).detach().numpy()
        assert features.shape == (50, width)
        latent = LatentDensity(network, depth, density).fit(X, y)
        oracle = GaussianDensity(shrinkage=0.1).fit(features, y).log_prob(features)
        np.testing.assert_allclose(latent.log_prob(X), oracle, rtol=1e-12)


def test_to_cpu_moves_the_density_of_the_features_too() -> None:
    moved = []

    class RecordingDensity(PerClassDensity):
        def _fit_class(self, sample: Any) -> Any:
            return MultivariateNormal(sample.X.mean(0), torch.eye(sample.X.shape[1]).double())

        def to_cpu(self) -> Any:
            moved.append(self)
            return self

    network = MLP(2, 2, hidden=(4,), seed=0, dtype=torch.float64)
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
    latent = LatentDensity(network, 1, RecordingDensity()).fit(X, y)
    assert latent.to_cpu() is latent
    assert moved == [latent.density_]
