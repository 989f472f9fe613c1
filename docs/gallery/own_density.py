"""
A density of your own
=====================

A pinwheel whose blades are in turn of two classes: both have the same mean and covariance, and a Gaussian for each
class knows nothing. A density of the angle knows nearly all, and it is one method, `_fit_class`, which returns
anything that has `log_prob`. It then works wherever a density does: in a stacked density, in GenLabel, in GenMix. Look
at the regions of the two classifiers. More on it is in `how to add a density <../extending.html#a-density>`__.
"""

import numpy as np
import torch
from matplotlib.figure import Figure

from genlabel import GaussianDensity, GenerativeClassifier
from genlabel.densities import PerClassDensity
from genlabel.reporting.figures import plot_regions


def fourfold(x):
    """Four times the angle of points (m, 2)."""
    return 4 * torch.atan2(x[:, 1], x[:, 0])


class Blades:
    """Four blades: von Mises in four times the angle, even in all else."""

    def __init__(self, x):
        mean = torch.exp(1j * fourfold(x)).mean()
        length = mean.abs().clamp(max=0.99)
        kappa = length * (2 - length**2) / (1 - length**2)  # nearly the maximum of the likelihood
        self.angle = torch.distributions.VonMises(mean.angle(), kappa)

    def log_prob(self, x):
        """Log-density of points (m, 2), up to what both classes share."""
        return self.angle.log_prob(fourfold(x))


class BladeDensity(PerClassDensity):
    """Four blades for each class."""

    def _fit_class(self, sample):
        return Blades(sample.X)


rng = np.random.default_rng(0)
y = np.arange(320) % 2
angle = (np.arange(320) % 8) * np.pi / 4 + rng.normal(0, 0.16, 320)
X = rng.uniform(0.3, 1.0, 320)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])

figure = Figure(figsize=(7, 3.4), layout="constrained")
densities = {"one Gaussian a class": GaussianDensity(), "four blades a class": BladeDensity()}
for ax, (title, density) in zip(figure.subplots(1, 2, sharey=True), densities.items(), strict=True):
    model = GenerativeClassifier(density, standardize=False).fit(X, y)
    print(f"{title}: {model.score(X, y):.1%} of the points right")
    plot_regions(ax, model.predict, X, y, steps=120)
    ax.set(title=title, aspect="equal")
