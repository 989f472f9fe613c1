"""Test the forest density against trees of scikit-learn and counts by hand, and on a task with steps."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.preprocessing import StandardScaler

from genlabel import GenerativeClassifier
from genlabel.densities import DiscriminantDensity, ForestDensity, KernelDensity


def sample(seed: int, n: int, d: int, whole: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Points whose class is a step function of two features; integers, many of them equal, if `whole`."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 5, size=(n, d)).astype(float) if whole else rng.normal(size=(n, d))
    score = (X[:, 0] > X.mean()) ^ (X[:, 1] > X.mean())
    return X, np.where(rng.random(n) < 0.1, 2, score)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_posterior_is_the_mean_class_frequency_in_the_leaves(whole: bool, weighted: bool) -> None:
    X, y = sample(0, 150, 4, whole)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=150) if weighted else np.ones(150)
    queries = sample(2, 60, 4, whole)[0] + (0.5 if whole else 0.0)
    density = ForestDensity(n_estimators=7, min_samples_leaf=2, max_features=3, random_state=5).fit(X, y, weight)
    forest = ExtraTreesClassifier(7, min_samples_leaf=2, max_features=3, random_state=5)
    leaves = forest.fit(X.astype(np.float32), y, weight).apply(X), forest.apply(queries)
    prior = np.bincount(y, weights=weight) / weight.sum()
    expected = np.zeros((60, 3))
    for t in range(7):
        same_leaf = leaves[0][:, t] == leaves[1][:, t, None]
        counts = (same_leaf * weight) @ np.eye(3)[y]
        expected += (counts + prior) / (counts.sum(1, keepdims=True) + 1.0) / 7
    logs = density.log_prob(queries) + np.log(prior)
    np.testing.assert_allclose(np.exp(logs - np.logaddexp.reduce(logs, axis=1)[:, None]), expected, rtol=1e-10)


def test_points_at_a_threshold_equal_scikit_learn() -> None:
    X, y = sample(3, 200, 3, whole=True)
    density = ForestDensity(n_estimators=5, min_samples_leaf=3).fit(X, y)
    edges = density.trees_.threshold[density.trees_.threshold > -2].numpy()
    queries = np.repeat(edges[:100, None], 3, 1)
    above = np.nextafter(queries, np.float32(np.inf))
    forest = ExtraTreesClassifier(5, min_samples_leaf=3, max_features=3, random_state=0).fit(X.astype(np.float32), y)
    for points in (queries, above):
        with_prior = density.log_prob(points.astype(float)) + np.log(density.class_prior_)
        expected = np.zeros_like(with_prior)
        for tree, leaf in zip(forest.estimators_, forest.apply(points).T, strict=True):
            size = tree.tree_.weighted_n_node_samples[leaf, None]
            expected += (size * tree.tree_.value[leaf, 0] + density.class_prior_) / (size + 1.0) / 5
        posterior = np.exp(with_prior - np.logaddexp.reduce(with_prior, axis=1)[:, None])
        np.testing.assert_allclose(posterior, expected, rtol=1e-10)


def test_steps_among_irrelevant_features_are_learned() -> None:
    (X, y), (fresh, truth) = sample(4, 400, 12), sample(5, 2000, 12)
    scale = StandardScaler().fit(X)
    loss = {}
    for density in (ForestDensity(), KernelDensity(0.6, covariance="shared"), DiscriminantDensity(0.3, 0.1)):
        model = GenerativeClassifier(density=density, priors="empirical").fit(scale.transform(X), y)
        loss[type(density).__name__] = -model.predict_log_proba(scale.transform(fresh))[np.arange(2000), truth].mean()
    assert loss["ForestDensity"] < 0.85 * min(loss["KernelDensity"], loss["DiscriminantDensity"])


def test_large_values_are_finite_and_the_gradient_is_gaussian() -> None:
    X, y = sample(6, 100, 3)
    density = ForestDensity().fit(X, y)
    assert np.isfinite(density.log_prob([[1e100, -1e100, 0.0], [1e30, 0.0, 0.0]])).all()
    point = torch.tensor([[0.3, -0.2, 0.1]], dtype=torch.float64)
    gaussian = -(point - density.mean_) / density.variance_
    torch.testing.assert_close(density.gradient(point), gaussian[:, None].expand(1, 3, 3))


def test_max_points_is_a_stratified_subsample() -> None:
    X, y = sample(7, 1000, 3)
    subsampled = ForestDensity(max_points=200, n_estimators=4).fit(X, y)
    assert len(subsampled.trees_.feature) < 0.5 * len(ForestDensity(n_estimators=4).fit(X, y).trees_.feature)
    np.testing.assert_allclose(subsampled.class_prior_, np.bincount(y) / 1000)
    for params in ({"n_estimators": 0}, {"min_samples_leaf": 0}, {"max_features": 2.5}, {"max_points": 0}):
        with pytest.raises(ValueError, match=next(iter(params))):
            ForestDensity(**params).fit(X, y)
