"""Labels between two points: Proposition 1 against Bayes' rule by scipy and against the library's own GenLabel."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logit
from scipy.stats import multivariate_normal

from genlabel.densities import GaussianDensity, fixed_gaussians
from genlabel.labeling import GenLabel, LogisticLabel
from genlabel.mixing import MixParams
from genlabel_paper.theory.labels import gaussian_label, logistic_label

LAM = st.floats(0, 1)
WIDTH = st.floats(0.05, 5)
DISTANCE = st.floats(0.1, 4)


@given(lam=LAM, sigma=WIDTH, distance=DISTANCE, seed=st.integers(0, 99), d=st.integers(1, 4))
def test_gaussian_label_equals_bayes_rule(lam: float, sigma: float, distance: float, seed: int, d: int) -> None:
    """In any dimension and for any width the log-odds equal those of scipy's densities."""
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=d)
    first = rng.normal(size=d)
    second = first + distance * direction / np.linalg.norm(direction)
    x = lam * second + (1 - lam) * first
    logs = [multivariate_normal(mean, sigma**2).logpdf(x) for mean in (first, second)]
    expected = 1 / (1 + np.exp(np.clip(logs[0] - logs[1], -700, 700)))
    assert gaussian_label(lam, sigma, distance) == pytest.approx(expected, abs=1e-9)


@given(lam=LAM, sigma=WIDTH, distance=DISTANCE)
def test_gaussian_label_equals_genlabel(lam: float, sigma: float, distance: float) -> None:
    means = np.array([[0.0], [distance]])
    density = fixed_gaussians(means, variance=sigma**2).fit(means, [0, 1])
    draw = MixParams(np.array([1, 0]), np.array([1 - lam, lam]))
    label = GenLabel(density).label(np.full((2, 1), lam * distance), [0, 1], draw)
    np.testing.assert_allclose(label[:, 1], gaussian_label(lam, sigma, distance), atol=1e-9)


@pytest.mark.parametrize("sigma, distance, seed", [(0.5, 1.0, 0), (0.3, 1.0, 1), (1.0, 2.0, 2), (0.7, 0.5, 3)])
def test_fitted_density_gives_the_label_within_its_standard_error(sigma: float, distance: float, seed: int) -> None:
    """With z = (x - mean) / sigma, a fitted log density has the variance (z^2 + (z^2 - 1)^2 / 2) / n."""
    n, lam = 20_000, np.linspace(0.1, 0.9, 9)
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], n)
    X = distance * y[:, None] + sigma * rng.normal(size=(2 * n, 1))
    labeler = GenLabel(GaussianDensity(reg=0.0)).fit(X, y)
    draw = MixParams(np.arange(9), np.ones(9))
    log_odds = logit(labeler.label(distance * lam[:, None], np.eye(2)[[0] * 9], draw)[:, 1])
    z = distance * np.stack([lam, lam - 1]) / sigma
    error = np.sqrt(((z**2 + (z**2 - 1) ** 2 / 2) / n).sum(0))
    assert (np.abs(log_odds - logit(gaussian_label(lam, sigma, distance))) < 4 * error).all()


@given(lam=LAM, sigma=st.floats(1e-300, 1e300), distance=st.floats(1e-300, 1e300))
def test_gaussian_label_is_a_probability_at_any_scale(lam: float, sigma: float, distance: float) -> None:
    """There is no overflow: warnings are errors."""
    label = gaussian_label(lam, sigma, distance)
    assert 0.0 <= label <= 1.0
    assert (label - 0.5) * (lam - 0.5) >= 0
    assert label + gaussian_label(1 - lam, sigma, distance) == pytest.approx(1.0)


def test_tiny_width_labels_with_the_nearer_mean() -> None:
    lam = np.array([0.0, 0.499, 0.5, 0.501, 1.0])
    np.testing.assert_array_equal(gaussian_label(lam, 5e-324), [0, 0, 0.5, 1, 1])
    np.testing.assert_array_equal(logistic_label(lam, 1e-6), [0, 0, 0.5, 1, 1])


@given(lam=LAM, sigma=st.floats(0.05, 10))
def test_logistic_label_equals_the_library(lam: float, sigma: float) -> None:
    """It is also the label of Gaussians narrower by sqrt(2): section 3.2 has a factor 2 that Proposition 1 lacks."""
    draw = MixParams(np.array([1, 0]), np.full(2, lam))
    label = LogisticLabel(sigma).label(np.zeros((2, 1)), [0, 1], draw)[0, 0]
    assert logistic_label(lam, sigma) == pytest.approx(label, abs=1e-12)
    assert logistic_label(lam, sigma) == pytest.approx(gaussian_label(lam, sigma / np.sqrt(2)), abs=1e-12)


def test_labels_keep_scalars_and_shapes() -> None:
    for rule in (gaussian_label, logistic_label):
        assert type(rule(0.3, 0.5)) is float
        grid = np.linspace(0, 1, 6).reshape(2, 3)
        labels = rule(grid, 0.5)
        assert labels.shape == (2, 3)
        np.testing.assert_allclose(labels, [[rule(float(lam), 0.5) for lam in row] for row in grid], atol=1e-15)


@pytest.mark.parametrize(
    "arguments, keyword",
    [
        ((1.5, 0.1), "1.5"),
        ((np.array([0.5, np.nan]), 0.1), "nan"),
        ((0.5, 0.0), "sigma=0.0"),
        ((0.5, 0.1, -1.0), "distance=-1.0"),
    ],
)
def test_errors_name_the_value(arguments: tuple, keyword: str) -> None:
    with pytest.raises(ValueError, match=keyword):
        gaussian_label(*arguments)
