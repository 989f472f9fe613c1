"""Test GenLabelSampler: mixed samples of two rows with the labels of GenLabel."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.datasets import load_iris

from genlabel import GaussianDensity, GenLabelSampler, StackedDensity
from genlabel.densities import DiscriminantDensity, KernelDensity

X, y = load_iris(return_X_y=True)


@pytest.mark.parametrize("n_aug", [0.4, 1.0, 2.5, 40])
@pytest.mark.parametrize("standardize", [False, True])
def test_points_are_mixed_samples_of_their_parents(n_aug: float, standardize: bool) -> None:
    sampler = GenLabelSampler(n_aug=n_aug, standardize=standardize, output="soft", random_state=0)
    points = sampler.fit_resample(X, y)[0][150:]
    first, second = sampler.parents_.T
    lam = sampler.lam_[:, None]
    np.testing.assert_allclose(points, (1 - lam) * X[first] + lam * X[second], atol=1e-12)
    np.testing.assert_array_equal(sampler.pair_, y[sampler.parents_])
    assert len(np.unique(np.column_stack([sampler.parents_, sampler.lam_]), axis=0)) == len(points)
    if n_aug == 1.0:
        assert sorted(first) == sorted(second) == list(range(150))


def test_gamma_0_is_mixup_and_gamma_1_the_posterior() -> None:
    mixup = GenLabelSampler(gamma=0.0, output="soft", random_state=0)
    labels = mixup.fit_resample(X, y)[1][150:]
    eye = np.eye(3)[y[mixup.parents_]]
    np.testing.assert_allclose(labels, (1 - mixup.lam_)[:, None] * eye[:, 0] + mixup.lam_[:, None] * eye[:, 1])
    sampler = GenLabelSampler(GaussianDensity(reg=0.0), output="soft", random_state=0)
    points, labels = (part[150:] for part in sampler.fit_resample(X, y))
    gaussians = [multivariate_normal(X[y == c].mean(0), np.cov(X[y == c].T, bias=True)) for c in range(3)]
    p = np.stack([gaussian.pdf(points) for gaussian in gaussians], 1)
    np.testing.assert_allclose(labels, p / p.sum(1, keepdims=True), atol=1e-9)
    half = GenLabelSampler(GaussianDensity(reg=0.0), gamma=0.5, output="soft", random_state=0)
    mixed = GenLabelSampler(gamma=0.0, output="soft", random_state=0).fit_resample(X, y)[1][150:]
    np.testing.assert_allclose(half.fit_resample(X, y)[1][150:], 0.5 * (labels + mixed), atol=1e-12)


def test_a_cross_fitted_density_labels_pairs_out_of_fold() -> None:
    model = StackedDensity([DiscriminantDensity(), KernelDensity(0.5)], cv=3, cross_fit=True)
    sampler = GenLabelSampler(model, output="soft", random_state=0)
    points, labels = (part[150:] for part in sampler.fit_resample(X, y))
    density = sampler.labeler_.density_
    scores = density.log_prob_of_pairs(points, *sampler.parents_.T) + np.log(density.class_prior_)
    expected = np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))
    np.testing.assert_allclose(labels, expected, atol=1e-9)


@pytest.mark.parametrize(
    ("params", "match"),
    [({"gamma": 1.5}, "gamma="), ({"alpha": 0.0}, "alpha="),
     ({"priors": "even"}, "priors='even'")],
)  # fmt: skip
def test_bad_parameters_raise(params: dict[str, object], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        GenLabelSampler(**params).fit_resample(X, y)
