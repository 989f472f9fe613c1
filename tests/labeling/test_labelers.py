"""Labelers: rows on the simplex whatever comes, and each rule against its closed form."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, softmax
from scipy.stats import multivariate_normal
from sklearn.base import clone
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
    """Also at points so far away that every density, and its logarithm, is lost."""
    X, y = sample()
    fitted = clone(labeler).fit(X, y)
    draw = Mixup().draw(60, seed)
    with np.errstate(all="ignore"):
        labels = fitted.label(Mixup().mix(X, draw) * far, y, draw)
    assert labels.shape == (60, 3)
    assert (labels >= 0).all()
    np.testing.assert_allclose(labels.sum(1), 1.0, atol=1e-12)


@every
def test_names_matrices_numpy_and_torch_agree(labeler: Labeler) -> None:
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
    part = np.flatnonzero(y == "b")[:4]  # a batch without the other classes still has three columns
    few = Mixup().draw(4, 0)
    assert fitted.label(X[part], y[part], few).shape == (4, 3)


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
    one = [
        LogisticLabel(1 / (2 * np.sqrt(d))).label([[0.0]] * 2, [0, 1], MixParams(np.array([1, 0]), np.full(2, v)))[0, 0]
        for v in lam
    ]
    np.testing.assert_allclose(one, p2, atol=1e-12)


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
        blended = GenLabel(density, gamma=gamma).label(X_mix, y, draw)
        np.testing.assert_allclose(blended, gamma * expected + (1 - gamma) * mixed, atol=1e-12)


def test_gamma_zero_is_exactly_mixup_and_never_asks_the_density() -> None:
    X, y = sample()
    draw = Mixup().draw(60, 0)
    mixed = LinearLabel().label(X, y, draw)
    np.testing.assert_array_equal(GenLabel(GaussianDensity(), gamma=0.0).label(X, y, draw), mixed)


def test_priors_against_bayes_rule_with_a_known_answer() -> None:
    """Two unit Gaussians at 0 and 2 with priors 0.9 and 0.1: Bayes by scipy, and equal at x = 1 + log(9) / 2."""
    density = FixedDensity([MultivariateNormal(torch.tensor([m]).double(), torch.eye(1).double()) for m in (0.0, 2.0)])
    y = np.array([0] * 9 + [1])
    X = np.linspace(-1, 4, 10)[:, None]
    joint = np.stack([p * multivariate_normal(m).pdf(X[:, 0]) for m, p in ((0, 0.9), (2, 0.1))], 1)
    bayes = joint / joint.sum(1, keepdims=True)
    draw = MixParams(np.arange(10), np.ones(10))
    for priors in ("empirical", [0.9, 0.1], [9, 1]):
        np.testing.assert_allclose(GenLabel(density, priors=priors).fit(X, y).label(X, y, draw), bayes, atol=1e-12)
    half = GenLabel(density, priors="empirical").fit(X, y)
    point = np.full((10, 1), 1 + np.log(9) / 2)
    np.testing.assert_allclose(half.label(point, y, draw), 0.5, atol=1e-12)
    uniform = GenLabel(density).fit(X, y).label(np.ones((10, 1)), y, draw)
    np.testing.assert_allclose(uniform, 0.5, atol=1e-12)


def test_top_two_shares_the_label_among_the_most_likely() -> None:
    scores = torch.log(torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]], dtype=torch.float64))
    for top, expected in ((2, [[5 / 8, 3 / 8, 0], [0, 2 / 9, 7 / 9]]), (1, [[1, 0, 0], [0, 0, 1]]), (9, scores.exp())):
        logs, lost = log_posterior(scores, np.zeros(3), top_k=top)
        shares = logs.exp()
        np.testing.assert_allclose(shares.numpy(), expected)
        assert not lost.any()


def test_where_every_density_vanishes_the_prior_stands_in() -> None:
    priors = np.log([0.5, 0.3, 0.2])
    scores = torch.zeros(4, 3, dtype=torch.float64)
    scores[1], scores[2, 1] = -torch.inf, torch.nan
    logs, lost = log_posterior(scores, priors)
    shares = logs.exp()
    assert lost[:, 0].tolist() == [False, True, True, False]
    np.testing.assert_allclose(shares.numpy(), [[0.5, 0.3, 0.2]] * 4)


class Nothing(ClassDensity):
    """A density that vanishes on the left."""

    def _fit(self, X: torch.Tensor, index: torch.Tensor, weight: torch.Tensor) -> None:
        pass

    def _log_prob(self, X: torch.Tensor) -> torch.Tensor:
        return torch.where(X[:, :1] < 0, -torch.inf, 0.0).expand(-1, len(self.classes_))


@pytest.mark.parametrize("gamma", [0.3, 1.0])
def test_where_every_density_vanishes_mixups_label_stands_in(gamma: float) -> None:
    X, y = sample()
    draw = Mixup().draw(60, 1)
    X_mix = Mixup().mix(X, draw)
    left = X_mix[:, 0] < 0
    assert left.any()
    labels = GenLabel(Nothing(), gamma=gamma).fit(X, y).label(X_mix, y, draw)
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
    kept, relabelled = (GenLabel(density, same_class=s).label(X_mix, y, draw) for s in ("keep", "relabel"))
    mixed = LinearLabel().label(X_mix, y, draw)
    np.testing.assert_allclose(kept[same], mixed[same], atol=1e-12)
    np.testing.assert_array_equal(kept[~same], relabelled[~same])
    assert np.abs(relabelled[same] - mixed[same]).max() > 1e-3


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
def test_bad_parameters_are_named(labeler: Labeler, match: str) -> None:
    X, y = sample()
    with pytest.raises(ValueError, match=match):
        labeler.fit(X, y).label(X, y, Mixup().draw(60, 0))


def test_gaps_among_labels_of_any_kind_are_named() -> None:
    given = [np.array(y, dtype=object) for y in ([1.0, np.nan, 2.0], [2, np.nan, 1], ["a", np.nan, "b"])]
    for y in (np.array([1.0, np.nan, 2.0]), np.array(["2024-05-31", "NaT"], dtype="M8[D]"), *given):
        with pytest.raises(ValueError, match="NaN"):
            LinearLabel().fit(np.zeros((len(y), 1)), y)
    with pytest.raises(ValueError, match="sorted"):
        LinearLabel().fit(np.zeros((2, 1)), np.array([1, None], dtype=object))


def test_dates_are_the_same_classes_in_any_unit() -> None:
    days = np.array(["2024-05-31", "2024-06-01", "2024-05-31"], dtype="M8[D]")
    draw = Mixup().draw(3, 0)
    fitted = LinearLabel().fit(np.zeros((3, 1)), days.astype("M8[ns]"))
    expected = LinearLabel().label(np.zeros((3, 1)), [0, 1, 0], draw)
    for unit in ("D", "s", "ns"):
        np.testing.assert_array_equal(fitted.label(np.zeros((3, 1)), days.astype(f"M8[{unit}]"), draw), expected)


def test_batches_that_do_not_match_and_densities_that_are_none_are_named() -> None:
    X, y = sample()
    draw = Mixup().draw(60, 0)
    with pytest.raises(ValueError, match="shape"):
        LinearLabel().label(X[:30], y, draw)
    with pytest.raises(ValueError, match="density="):
        GenLabel("kernel").fit(X, y)
    with pytest.raises(ValueError, match="priors="):
        GenLabel(GaussianDensity(), priors={0: 1}).fit(X, y).label(X, y, draw)
    with pytest.warns(DensityWarning, match="vanishes"):
        labels = GenLabel(Nothing()).fit(X, y).label(-np.abs(X), y, draw)
    np.testing.assert_allclose(labels, LinearLabel().label(X, y, draw))


def test_unknown_labels_and_unfitted_densities_are_named() -> None:
    X, y = sample()
    draw = Mixup().draw(60, 0)
    with pytest.raises(ValueError, match="'z'"):
        LinearLabel().fit(X, y).label(X, np.where(y == "a", "z", y), draw)
    with pytest.raises(Exception, match="not fitted"):
        GenLabel(GaussianDensity()).label(X, y, draw)
    with pytest.raises(ValueError, match="columns"):
        GenLabel(GaussianDensity()).fit(X, y).label(X, np.eye(2)[np.arange(60) % 2], draw)


def test_a_cross_fitted_density_asks_for_the_rows() -> None:
    """With the rows named, a label comes from fits without them; without, from all, and the user is told."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 30)
    X = rng.normal(size=(60, 2)) + y[:, None]
    labeler = GenLabel(StackedDensity([GaussianDensity()], cross_fit=True)).fit(X, y)
    draw = Mixup().draw(60, rng)
    mixed = Mixup().mix(X, draw)
    with pytest.warns(DensityWarning, match="rows"):
        plain = labeler.label(mixed, y, draw)
    named = labeler.label(mixed, y, draw, BatchInfo(rows=np.arange(60)))
    assert np.abs(named - plain).max() > 1e-3
    np.testing.assert_allclose(named.sum(1), 1.0)


def test_clean_rows_keep_their_labels_and_do_not_hide_that_a_density_vanishes() -> None:
    y = np.array([0, 0, 1, 1])
    labeler = GenLabel(GaussianDensity()).fit([[0.0], [1.0], [4.0], [5.0]], y)
    draw = Mixup().draw(4, 0).leave_clean(2)
    with pytest.warns(DensityWarning, match="vanishes at all of 2 "):
        labels = labeler.label(np.full((4, 1), 1e200), y, draw, BatchInfo(clean=np.arange(4) < 2))
    np.testing.assert_array_equal(labels[:2], np.eye(2)[y[:2]])


def test_a_labeler_says_what_it_needs() -> None:
    """What a training loop asks before it calls: the points, a module to move, features to learn from."""
    X, y = sample()
    simple, asks = LinearLabel(), GenLabel(GaussianDensity()).fit(X, y)
    assert not simple.needs_inputs
    assert asks.needs_inputs
    assert WeightedLabel([simple, asks], [0.5, 0.5]).needs_inputs
    assert not WeightedLabel([simple, simple], [0.5, 0.5]).needs_inputs
    for labeler in (simple, asks):
        assert (labeler.update_source, labeler.observed_fraction, labeler.state) == (None, 1.0, None)
        assert labeler.to_cpu() is labeler
        with pytest.raises(NotImplementedError, match="observe"):
            labeler.observe(torch.zeros(1, 1), torch.ones(1, 1), Mixup().draw(1, 0))


def test_labels_are_shared_by_their_shares_and_not_with_one_that_learns() -> None:
    X, y = sample()
    draw = Mixup().draw(60, 0)
    parts = [GenLabel(GaussianDensity()).fit(X, y), LinearLabel().fit(X, y), LogisticLabel().fit(X, y)]
    found = WeightedLabel(parts, [0.5, 0.2, 0.3]).fit(X, y).label(X, y, draw)
    expected = sum(share * part.label(X, y, draw) for share, part in zip([0.5, 0.2, 0.3], parts, strict=True))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    learns = OnlineGenLabel(OnlineGaussianDensity(3))
    with pytest.raises(ValueError, match="learns"):
        WeightedLabel([LinearLabel(), learns], [0.5, 0.5]).label(X, np.eye(3)[np.arange(60) % 3], draw)


@pytest.mark.parametrize("gamma", [-0.01, 1.01, np.nan])
def test_gamma_is_checked_when_it_is_fitted_and_when_it_labels(gamma: float) -> None:
    X, y = sample()
    with pytest.raises(ValueError, match="gamma="):
        GenLabel(GaussianDensity(), gamma=gamma).fit(X, y)
    around = GenLabel.from_fitted(GaussianDensity().fit(X, y), gamma=gamma)
    with pytest.raises(ValueError, match="gamma="):
        around.label(X, y, Mixup().draw(60, 0))


def test_the_points_of_the_origin_are_used_where_that_is_quicker() -> None:
    """Of wide tables a Gaussian asks for distances between parents, not for the blends (Stewart's theorem)."""
    rng = np.random.default_rng(0)
    y = np.arange(30) % 2
    X = rng.normal(size=(30, MIN_PAIR_FEATURES)) + y[:, None]
    labeler, draw = GenLabel(GaussianDensity(1.0)).fit(X, y), Mixup().draw(30, 1)
    rows = np.arange(30)
    named = labeler.label(Mixup().mix(X, draw), y, draw, BatchInfo(rows=rows))
    np.testing.assert_allclose(
        labeler.label(Mixup().mix(X, draw), y, draw, BatchInfo(rows=rows, points=X)), named, atol=1e-9
    )
    # The labels come from the rows that are named, whatever stands at the place of the blends.
    nowhere = np.zeros_like(X)
    np.testing.assert_allclose(labeler.label(nowhere, y, draw, BatchInfo(rows=rows, points=X)), named, atol=1e-9)
