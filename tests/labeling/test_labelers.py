"""Test labelers: rows on the simplex for any input, and each rule against its closed form."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, softmax
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from torch.distributions import MultivariateNormal

from genlabel.densities import (
    ClassDensity,
    DensityWarning,
    GaussianDensity,
    KernelDensity,
    OnlineGaussianDensity,
    StackedDensity,
    fixed_gaussians,
)
from genlabel.densities.base import FixedDensity
from genlabel.densities.gaussian import MIN_PAIR_FEATURES
from genlabel.densities.posterior import log_posterior
from genlabel.labeling import GenLabel, Labeler, LinearLabel, LogisticLabel, OnlineGenLabel
from genlabel.labeling.base import WeightedLabel
from genlabel.mixing import MixParams, Mixup
from genlabel.mixing.base import BatchInfo

LABELERS: list[Labeler] = [
    LinearLabel(),
    LogisticLabel(),
    LogisticLabel(sigma=0.05),
    GenLabel(GaussianDensity()),
    GenLabel(GaussianDensity(), gamma=0.4, priors="empirical"),
    GenLabel(KernelDensity(), top_k=2, same_class="keep"),
    GenLabel(KernelDensity(), gamma=0.0),
    GenLabel(GaussianDensity(), priors=[0.2, 0.0, 0.8]),
]
every = pytest.mark.parametrize("labeler", LABELERS, ids=repr)


def sample(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(60) % 3
    return rng.normal(size=(60, 2)) + 3 * np.eye(3)[y][:, :2], np.array(["a", "b", "c"])[y]


@every
@pytest.mark.filterwarnings("ignore:.*vanishes at all:genlabel.DensityWarning")
@given(seed=st.integers(0, 10**6), far=st.sampled_from([0.0, 1.0, 1e3, 1e30, 1e200]))
def test_rows_are_on_the_simplex(labeler: Labeler, seed: int, far: float) -> None:
    """Also at points so far away that every log-density is infinite or undefined."""
    X, y = sample()
    fitted = clone(labeler).fit(X, y)
    draw = Mixup().draw(60, seed)
    with np.errstate(all="ignore"):
        labels = fitted.label(Mixup().mix(X, draw) * far, y, draw)
    assert labels.shape == (60, 3)
    assert (labels >= 0).all()
    np.testing.assert_allclose(labels.sum(1), 1.0, atol=1e-12)


@every
def test_class_names_matrices_numpy_and_torch_agree(labeler: Labeler) -> None:
    X, y = sample()
    fitted = clone(labeler).fit(X, y)
    draw = Mixup().draw(60, 3)
    X_mix = Mixup().mix(X, draw)
    labels = fitted.label(X_mix, y, draw)
    matrix = (y[:, None] == np.array(["a", "b", "c"])).astype(float)
    np.testing.assert_allclose(fitted.label(X_mix, matrix, draw), labels, atol=1e-12)
    as_torch = fitted.label(torch.from_numpy(X_mix), torch.from_numpy(matrix), draw)
    assert isinstance(as_torch, torch.Tensor)
    np.testing.assert_allclose(as_torch.numpy(), labels, atol=1e-12)
    rows = np.flatnonzero(y == "b")[:4]  # a batch without the other classes still has three columns
    small_draw = Mixup().draw(4, 0)
    assert fitted.label(X[rows], y[rows], small_draw).shape == (4, 3)


def test_linear_is_mixups_two_hot_label() -> None:
    draw = MixParams(np.array([1, 2, 0]), np.array([0.3, 1.0, 0.5]))
    labels = LinearLabel().label(np.zeros((3, 1)), [0, 1, 2], draw)
    np.testing.assert_allclose(labels, [[0.3, 0.7, 0], [0, 1, 0], [0.5, 0, 0.5]])


@given(lam=st.floats(0, 1), sigma=st.floats(0.05, 10))
def test_logistic_is_the_printed_curve(lam: float, sigma: float) -> None:
    draw = MixParams(np.array([1, 0]), np.array([lam, lam]))
    label = LogisticLabel(sigma).label(np.zeros((2, 1)), [0, 1], draw)
    np.testing.assert_allclose(label[0, 0], expit(2 * (lam - 0.5) / sigma**2), atol=1e-12)


def test_example_2_logistic_labels_are_the_svm_scores() -> None:
    """arXiv section 3.2: with sigma = 1/(2 sqrt d), rho is the SVM solution's score along the diagonal."""
    d, lam = 5.0, np.linspace(0, 1, 9)
    draw = MixParams(np.array([1] * 9), lam)
    rho = LogisticLabel(1 / (2 * np.sqrt(d))).label(np.zeros((9, 1)), np.eye(2)[[0] + [1] * 8], draw)[0]
    assert rho[0] == pytest.approx(expit(-8 * d * 0.5))
    x = (2 * lam - 1) * d
    p2 = np.exp(2 * x) / (np.exp(2 * x) + np.exp(-2 * x))
    labels = [
        LogisticLabel(1 / (2 * np.sqrt(d))).label([[0.0]] * 2, [0, 1], MixParams(np.array([1, 0]), np.full(2, v)))[0, 0]
        for v in lam
    ]
    np.testing.assert_allclose(labels, p2, atol=1e-12)


@given(lam=st.floats(0, 1), sigma=st.floats(0.2, 3))
def test_proposition_1_genlabel_of_two_gaussians_is_logistic(lam: float, sigma: float) -> None:
    """y_gen = 1 / (1 + exp(-(lam - 1/2) / sigma^2)) at x = lam between N(0, sigma^2) and N(1, sigma^2)."""
    density = fixed_gaussians([[0.0], [1.0]], variance=sigma**2).fit([[0.0], [1.0]], [0, 1])
    draw = MixParams(np.array([1, 0]), np.array([1 - lam, lam]))
    label = GenLabel(density).label(np.array([[lam], [lam]]), [0, 1], draw)
    np.testing.assert_allclose(label[:, 1], expit((lam - 0.5) / sigma**2), atol=1e-9)


def test_equation_1_is_the_softmax_of_the_log_densities() -> None:
    X, y = sample()
    density = GaussianDensity().fit(X, y)
    draw = Mixup().draw(60, 0)
    X_mix = Mixup().mix(X, draw)
    expected = softmax(density.log_prob(X_mix), axis=1)
    np.testing.assert_allclose(GenLabel(density).label(X_mix, y, draw), expected, atol=1e-12)
    mixed = LinearLabel().label(X_mix, y, draw)
    for gamma in (0.2, 0.7):
        labels = GenLabel(density, gamma=gamma).label(X_mix, y, draw)
        np.testing.assert_allclose(labels, gamma * expected + (1 - gamma) * mixed, atol=1e-12)


def test_gamma_zero_is_exactly_mixup_without_a_density() -> None:
    X, y = sample()
    draw = Mixup().draw(60, 0)
    mixed = LinearLabel().label(X, y, draw)
    np.testing.assert_array_equal(GenLabel(GaussianDensity(), gamma=0.0).label(X, y, draw), mixed)


def test_priors_equal_bayes_rule() -> None:
    """Two unit Gaussians at 0 and 2 with priors 0.9 and 0.1: Bayes by scipy, and equal at x = 1 + log(9) / 2."""
    density = FixedDensity([MultivariateNormal(torch.tensor([m]).double(), torch.eye(1).double()) for m in (0.0, 2.0)])
    y = np.array([0] * 9 + [1])
    X = np.linspace(-1, 4, 10)[:, None]
    joint = np.stack([p * multivariate_normal(m).pdf(X[:, 0]) for m, p in ((0, 0.9), (2, 0.1))], 1)
    bayes = joint / joint.sum(1, keepdims=True)
    draw = MixParams(np.arange(10), np.ones(10))
    for priors in ("empirical", [0.9, 0.1], [9, 1]):
        np.testing.assert_allclose(GenLabel(density, priors=priors).fit(X, y).label(X, y, draw), bayes, atol=1e-12)
    empirical = GenLabel(density, priors="empirical").fit(X, y)
    point = np.full((10, 1), 1 + np.log(9) / 2)
    np.testing.assert_allclose(empirical.label(point, y, draw), 0.5, atol=1e-12)
    uniform = GenLabel(density).fit(X, y).label(np.ones((10, 1)), y, draw)
    np.testing.assert_allclose(uniform, 0.5, atol=1e-12)


def test_top_two_shares_the_label_among_the_most_likely() -> None:
    scores = torch.log(torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]], dtype=torch.float64))
    for top, expected in ((2, [[5 / 8, 3 / 8, 0], [0, 2 / 9, 7 / 9]]), (1, [[1, 0, 0], [0, 0, 1]]), (9, scores.exp())):
        log_proba, undefined = log_posterior(scores, np.zeros(3), top_k=top)
        proba = log_proba.exp()
        np.testing.assert_allclose(proba.numpy(), expected)
        assert not undefined.any()


def test_undefined_posteriors_are_the_priors() -> None:
    priors = np.log([0.5, 0.3, 0.2])
    scores = torch.zeros(4, 3, dtype=torch.float64)
    scores[1], scores[2, 1] = -torch.inf, torch.nan
    log_proba, undefined = log_posterior(scores, priors)
    proba = log_proba.exp()
    assert undefined[:, 0].tolist() == [False, True, True, False]
    np.testing.assert_allclose(proba.numpy(), [[0.5, 0.3, 0.2]] * 4)


class VanishingDensity(ClassDensity):
    """A density that vanishes where x_0 < 0."""

    def _fit(self, X: torch.Tensor, index: torch.Tensor, weight: torch.Tensor) -> None:
        pass

    def _log_prob(self, X: torch.Tensor) -> torch.Tensor:
        return torch.where(X[:, :1] < 0, -torch.inf, 0.0).expand(-1, len(self.classes_))


@pytest.mark.parametrize("gamma", [0.3, 1.0])
def test_labels_are_mixup_labels_where_every_density_vanishes(gamma: float) -> None:
    X, y = sample()
    draw = Mixup().draw(60, 1)
    X_mix = Mixup().mix(X, draw)
    left = X_mix[:, 0] < 0
    assert left.any()
    labels = GenLabel(VanishingDensity(), gamma=gamma).fit(X, y).label(X_mix, y, draw)
    mixed = LinearLabel().label(X_mix, y, draw)
    np.testing.assert_allclose(labels[left], mixed[left])
    np.testing.assert_allclose(labels[~left], gamma / 3 + (1 - gamma) * mixed[~left])


def test_pairs_of_one_class_are_relabelled_or_kept() -> None:
    X, y = sample()
    density = GaussianDensity().fit(X, y)
    draw = Mixup().draw(60, 1)
    X_mix = Mixup().mix(X, draw)
    same = y == y[draw.partner]
    assert same.any()
    keep, relabel = (GenLabel(density, same_class=s).label(X_mix, y, draw) for s in ("keep", "relabel"))
    mixed = LinearLabel().label(X_mix, y, draw)
    np.testing.assert_allclose(keep[same], mixed[same], atol=1e-12)
    np.testing.assert_array_equal(keep[~same], relabel[~same])
    assert np.abs(relabel[same] - mixed[same]).max() > 1e-3


@pytest.mark.parametrize(
    "labeler, match",
    [
        (GenLabel(GaussianDensity(), gamma=1.2), "gamma="),
        (GenLabel(GaussianDensity(), gamma=-0.1), "gamma=-0.1"),
        (GenLabel(GaussianDensity(), gamma=float("nan")), "gamma=nan"),
        (GenLabel(GaussianDensity(), priors="equal"), "priors="),
        (GenLabel(GaussianDensity(), priors=[1, 2]), "priors="),
        (GenLabel(GaussianDensity(), same_class="skip"), "same_class="),
        (GenLabel(GaussianDensity(), top_k=0), "top_k=0"),
        (LogisticLabel(sigma=0), "sigma=0"),
    ],
)
def test_bad_parameters_raise(labeler: Labeler, match: str) -> None:
    X, y = sample()
    with pytest.raises(ValueError, match=match):
        labeler.fit(X, y).label(X, y, Mixup().draw(60, 0))


def test_missing_labels_raise() -> None:
    object_labels = [np.array(y, dtype=object) for y in ([1.0, np.nan, 2.0], [2, np.nan, 1], ["a", np.nan, "b"])]
    for y in (np.array([1.0, np.nan, 2.0]), np.array(["2024-05-31", "NaT"], dtype="M8[D]"), *object_labels):
        with pytest.raises(ValueError, match="NaN"):
            LinearLabel().fit(np.zeros((len(y), 1)), y)
    with pytest.raises(ValueError, match="None"):
        LinearLabel().fit(np.zeros((2, 1)), np.array([1, None], dtype=object))
    with pytest.raises(ValueError, match="sorted"):
        LinearLabel().fit(np.zeros((2, 1)), np.array([1, "a"], dtype=object))


def test_dates_of_different_units_are_equal_classes() -> None:
    days = np.array(["2024-05-31", "2024-06-01", "2024-05-31"], dtype="M8[D]")
    draw = Mixup().draw(3, 0)
    fitted = LinearLabel().fit(np.zeros((3, 1)), days.astype("M8[ns]"))
    expected = LinearLabel().label(np.zeros((3, 1)), [0, 1, 0], draw)
    for unit in ("D", "s", "ns"):
        np.testing.assert_array_equal(fitted.label(np.zeros((3, 1)), days.astype(f"M8[{unit}]"), draw), expected)


def test_bad_batches_and_densities_raise() -> None:
    X, y = sample()
    draw = Mixup().draw(60, 0)
    with pytest.raises(ValueError, match="shape"):
        LinearLabel().label(X[:30], y, draw)
    with pytest.raises(ValueError, match="density="):
        GenLabel("kernel").fit(X, y)
    with pytest.raises(ValueError, match="priors="):
        GenLabel(GaussianDensity(), priors={0: 1}).fit(X, y).label(X, y, draw)
    with pytest.warns(DensityWarning, match="vanishes"):
        labels = GenLabel(VanishingDensity()).fit(X, y).label(-np.abs(X), y, draw)
    np.testing.assert_allclose(labels, LinearLabel().label(X, y, draw))


def test_unknown_labels_and_unfitted_densities_raise() -> None:
    X, y = sample()
    draw = Mixup().draw(60, 0)
    with pytest.raises(ValueError, match="'z'"):
        LinearLabel().fit(X, y).label(X, np.where(y == "a", "z", y), draw)
    with pytest.raises(NotFittedError):
        GenLabel(GaussianDensity()).label(X, y, draw)
    with pytest.raises(ValueError, match="columns"):
        GenLabel(GaussianDensity()).fit(X, y).label(X, np.eye(2)[np.arange(60) % 2], draw)


def test_a_cross_fitted_density_needs_the_rows() -> None:
    """Given rows, labels come from fits without them; otherwise from a fit to all rows, with a warning."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 30)
    X = rng.normal(size=(60, 2)) + y[:, None]
    labeler = GenLabel(StackedDensity([GaussianDensity()], cross_fit=True)).fit(X, y)
    draw = Mixup().draw(60, rng)
    mixed = Mixup().mix(X, draw)
    with pytest.warns(DensityWarning, match="rows"):
        without_rows = labeler.label(mixed, y, draw)
    with_rows = labeler.label(mixed, y, draw, BatchInfo(rows=np.arange(60)))
    assert np.abs(with_rows - without_rows).max() > 1e-3
    np.testing.assert_allclose(with_rows.sum(1), 1.0)


def test_clean_rows_keep_their_labels() -> None:
    y = np.array([0, 0, 1, 1])
    labeler = GenLabel(GaussianDensity()).fit([[0.0], [1.0], [4.0], [5.0]], y)
    draw = Mixup().draw(4, 0).leave_clean(2)
    with pytest.warns(DensityWarning, match="vanishes"):
        labels = labeler.label(np.full((4, 1), 1e200), y, draw, BatchInfo(clean=np.arange(4) < 2))
    np.testing.assert_array_equal(labels[:2], np.eye(2)[y[:2]])


def test_attributes_that_a_training_loop_reads() -> None:
    """A training loop reads needs_inputs, update_source, observed_fraction and state of a labeler."""
    X, y = sample()
    linear, genlabel = LinearLabel(), GenLabel(GaussianDensity()).fit(X, y)
    assert not linear.needs_inputs
    assert genlabel.needs_inputs
    assert WeightedLabel([linear, genlabel], [0.5, 0.5]).needs_inputs
    assert not WeightedLabel([linear, linear], [0.5, 0.5]).needs_inputs
    for labeler in (linear, genlabel):
        assert (labeler.update_source, labeler.observed_fraction, labeler.state) == (None, 1.0, None)
        assert labeler.to_cpu() is labeler
        with pytest.raises(NotImplementedError, match="observe"):
            labeler.observe(torch.zeros(1, 1), torch.ones(1, 1), Mixup().draw(1, 0))


def test_weighted_label_is_the_weighted_mean_and_rejects_online_labelers() -> None:
    X, y = sample()
    draw = Mixup().draw(60, 0)
    labelers = [GenLabel(GaussianDensity()).fit(X, y), LinearLabel().fit(X, y), LogisticLabel().fit(X, y)]
    result = WeightedLabel(labelers, [0.5, 0.2, 0.3]).fit(X, y).label(X, y, draw)
    expected = sum(
        weight * labeler.label(X, y, draw) for weight, labeler in zip([0.5, 0.2, 0.3], labelers, strict=True)
    )
    np.testing.assert_allclose(result, expected, rtol=1e-12)
    online = OnlineGenLabel(OnlineGaussianDensity(3))
    with pytest.raises(ValueError, match="learns"):
        WeightedLabel([LinearLabel(), online], [0.5, 0.5]).label(X, np.eye(3)[np.arange(60) % 3], draw)


@pytest.mark.parametrize("gamma", [-0.01, 1.01, np.nan])
def test_gamma_is_validated_in_fit_and_label(gamma: float) -> None:
    X, y = sample()
    with pytest.raises(ValueError, match="gamma="):
        GenLabel(GaussianDensity(), gamma=gamma).fit(X, y)
    labeler = GenLabel.from_fitted(GaussianDensity().fit(X, y), gamma=gamma)
    with pytest.raises(ValueError, match="gamma="):
        labeler.label(X, y, Mixup().draw(60, 0))


def test_given_points_are_used_on_wide_tables() -> None:
    """On wide tables a Gaussian uses distances between parents, not the mixed samples (Stewart's theorem)."""
    rng = np.random.default_rng(0)
    y = np.arange(30) % 2
    X = rng.normal(size=(30, MIN_PAIR_FEATURES)) + y[:, None]
    labeler, draw = GenLabel(GaussianDensity(1.0)).fit(X, y), Mixup().draw(30, 1)
    rows = np.arange(30)
    expected = labeler.label(Mixup().mix(X, draw), y, draw, BatchInfo(rows=rows))
    np.testing.assert_allclose(
        labeler.label(Mixup().mix(X, draw), y, draw, BatchInfo(rows=rows, points=X)), expected, atol=1e-9
    )
    # The labels come from the given rows, so the mixed samples do not matter.
    nowhere = np.zeros_like(X)
    np.testing.assert_allclose(labeler.label(nowhere, y, draw, BatchInfo(rows=rows, points=X)), expected, atol=1e-9)
