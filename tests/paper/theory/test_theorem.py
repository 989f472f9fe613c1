"""Theorems 1 and 2 where they hold, and samples where they do not."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from genlabel_paper.theory import GaussianPair, TheoremCheck, check_theorem, genlabel_loss, mixup_loss
from genlabel_paper.theory.theorem import C_RANGE

ratios = st.floats(C_RANGE[0] + 1e-3, C_RANGE[1] - 1e-3)


def at_angle(phi: float, seed: int, **kwargs: bool) -> TheoremCheck:
    """The data of arXiv Figure 8 and its model, 10 (cos phi, sin phi)."""
    X, y = GaussianPair(10.0).sample(20, rng=seed)
    return check_theorem([10 * np.cos(phi), 10 * np.sin(phi)], X, y, sigma_1=10.0, **kwargs)


@settings(max_examples=200)
@given(phi=st.floats(-np.pi / 4, np.pi / 4), seed=st.integers(0, 10**6))
def test_the_order_holds_on_the_data_of_figure_8(phi: float, seed: int) -> None:
    found = at_angle(phi, seed)
    assert found.conditions["no training error (theta in Theta)"]
    assert found.holds


@pytest.mark.parametrize("phi", np.linspace(-np.pi / 4, np.pi / 4, 5))
def test_the_exact_losses_have_the_same_order_on_the_data_of_figure_8(phi: float) -> None:
    assert at_angle(phi, 0, taylor=False).holds


def test_the_expansion_turns_the_mixup_curve_of_figure_8_upside_down() -> None:
    """Expanded, mixup's loss is least near phi = 0; itself it is largest there, and hundreds of times as large."""
    ends = [at_angle(phi, 0) for phi in (-np.pi / 4, 0.0, np.pi / 4)]
    exact = [at_angle(phi, 0, taylor=False) for phi in (-np.pi / 4, 0.0, np.pi / 4)]
    assert ends[1].mix < min(ends[0].mix, ends[2].mix)
    assert exact[1].mix > max(exact[0].mix, exact[2].mix)
    assert exact[1].mix > 400 * ends[1].mix
    assert exact[1].gen < min(exact[0].gen, exact[2].gen)


@given(c=ratios, d=st.integers(1, 5), n=st.integers(2, 12), size=st.floats(0.01, 20), seed=st.integers(0, 10**6))
def test_theorem_1_for_any_centred_sample_without_training_error(
    c: float, d: int, n: int, size: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    X, theta = rng.normal(size=(n, d)), size * rng.normal(size=d)
    X -= X.mean(0)
    y = (X @ theta > 0).astype(int)
    assert check_theorem(theta, X, y, sigma_1=np.inf, c=c).holds


@settings(max_examples=50)
@given(c=ratios, d=st.integers(1, 5), n=st.integers(2, 12), seed=st.integers(0, 10**6))
def test_theorem_2_for_any_centred_sample_without_training_error(c: float, d: int, n: int, seed: int) -> None:
    """As printed but for the factor d of its adversarial loss, see below."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(d, 6, bias=False), nn.ReLU(), nn.Linear(6, 1, bias=False)).double()
    X = np.random.default_rng(seed).normal(size=(n, d))
    X -= X.mean(0)
    y = (network(torch.from_numpy(X)).detach().numpy()[:, 0] > 0).astype(int)
    found = check_theorem(network, X, y, sigma_1=np.inf, c=c)
    assume(found.R > 0)
    assert found.holds


@settings(max_examples=8)
@given(c=st.floats(0.5, 2.0), tau=st.floats(-0.3, 0.6), d=st.integers(2, 4), seed=st.integers(0, 10**6))
def test_balanced_samples_of_narrow_classes(c: float, tau: float, d: int, seed: int) -> None:
    X, y = GaussianPair(40.0, c, tau, d).sample(10, rng=seed)
    found = check_theorem(3 * np.eye(d)[0], X, y, sigma_1=40.0, c=c, tau=tau)
    assert all(found.conditions.values())
    assert found.holds


# Outside the conditions of the theorem


@pytest.mark.parametrize("c", [0.2, 4.0, 5.0])
def test_classes_of_too_different_width(c: float) -> None:
    X, y = GaussianPair(100.0, c).sample(20, rng=0)
    found = check_theorem([10.0, 0.0], X, y, sigma_1=np.inf, c=c)
    assert found.gen > found.mix
    assert not found.conditions["2 - sqrt(3) < c < 2 + sqrt(3)"]


def test_classes_that_overlap() -> None:
    X, y = GaussianPair(1.5).sample(20, rng=0)
    found = check_theorem([1.0, 0.0], X, y, sigma_1=1.5)
    assert found.gen > found.mix
    assert not found.conditions["sigma_1 is large: A < 1/3 and B < 1/6"]


def test_training_errors() -> None:
    X, y = GaussianPair(10.0).sample(20, rng=0)
    found = check_theorem([-1.0, 0.0], X, y, sigma_1=10.0)
    assert found.gen > found.mix
    assert found.adv > found.gen
    assert not found.conditions["no training error (theta in Theta)"]


# Within the conditions that are printed


def test_unbalanced_classes_break_theorem_1() -> None:
    """5 points against 35: the mean of the sample is not 0, and the adversarial loss is above GenLabel's."""
    X, y = GaussianPair(100.0).sample((5, 35), rng=0)
    found = check_theorem([10.0, 0.0], X, y, sigma_1=100.0)
    *others, centred = found.conditions.values()
    assert all(others)
    assert not centred
    assert found.adv > found.gen


def test_theta_0_is_in_theta_and_has_three_equal_losses() -> None:
    X, y = GaussianPair(10.0).sample(5, rng=0)
    found = check_theorem([0.0, 0.0], X, y, sigma_1=np.inf)
    assert found.mix == found.gen == pytest.approx(np.log(2))
    assert not found.holds
    assert not found.conditions["f is not the same at all points"]


def test_a_theta_that_is_orthogonal_to_all_points_is_in_theta_and_has_three_equal_losses() -> None:
    found = check_theorem([0.0, 0.0, 5.0], [[-1.0, 0.1, 0.0], [1.0, -0.1, 0.0]], [0, 1], sigma_1=np.inf)
    assert found.conditions["no training error (theta in Theta)"]
    assert not found.conditions["f is not the same at all points"]
    assert not found.holds


@pytest.mark.parametrize(("n", "size"), [((19, 21), 1e-3), ((15, 25), 0.1), ((5, 35), 10.0)])
def test_any_imbalance_breaks_theorem_1_for_a_small_theta(n: tuple[int, int], size: float) -> None:
    """To first order gen is A |theta| 4 p_0 p_1 / 2 and adv is A |theta| / 2."""
    X, y = GaussianPair(1e6).sample(n, rng=0)
    found = check_theorem([size, 0.0], X, y, sigma_1=np.inf)
    assert list(found.conditions.values())[:4] == [True] * 4
    assert found.adv > found.gen
    balanced = check_theorem([size, 0.0], *GaussianPair(1e6).sample(20, rng=0), sigma_1=np.inf)
    assert balanced.holds


@pytest.mark.parametrize("d", [1, 2, 3, 5, 10])
def test_the_factor_d_of_theorem_2(d: int) -> None:
    """Two points, f(x) = 3 relu(x_1) - 3 relu(-x_1): as printed the theorem fails from three features on."""
    X = np.array([-np.eye(d)[0], np.eye(d)[0]])

    def network(x: Tensor) -> Tensor:
        return 3 * x[:, 0].relu() - 3 * (-x[:, 0]).relu()

    assert check_theorem(network, X, [0, 1], sigma_1=np.inf).holds
    assert check_theorem(network, X, [0, 1], sigma_1=np.inf, as_printed=True).holds == (d < 3)


def test_the_exact_losses_of_a_network_in_the_other_order_for_c_of_3() -> None:
    """f = 3 relu(x_1) - 0.1 relu(-x_1): the lemma's expansion has the theorem's order, the loss the other one."""

    def network(x: Tensor) -> Tensor:
        return 3 * x[:, 0].relu() - 0.1 * (-x[:, 0]).relu()

    X, y, limit = np.array([[-1.0, 0.0], [1.0, 0.0]]), [0, 1], {"sigma_1": np.inf, "c": 3.0, "taylor": True}
    found = check_theorem(network, X, y, sigma_1=np.inf, c=3.0)
    assert all(found.conditions.values())
    assert found.holds
    assert genlabel_loss(network, X, y, coefficients="class", **limit) > mixup_loss(network, X, y, taylor=True)
    assert genlabel_loss(network, X, y, sigma_1=300.0, c=3.0) > mixup_loss(network, X, y) + 0.02


def test_a_check_prints_as_a_table() -> None:
    text = str(at_angle(0.0, 0))
    assert "mix > gen >= adv holds" in text
    assert text.count("yes") == 5
    assert "does not hold" in str(check_theorem([0.0], [[1.0]], [1], sigma_1=1.0))
