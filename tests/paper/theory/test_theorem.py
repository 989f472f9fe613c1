"""Theorems 1 and 2 where they hold, and counterexamples where they do not."""

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
    """Check the theorem on the data of arXiv Figure 8 with its model, 10 (cos phi, sin phi)."""
    X, y = GaussianPair(10.0).sample(20, rng=seed)
    return check_theorem([10 * np.cos(phi), 10 * np.sin(phi)], X, y, sigma_1=10.0, **kwargs)


@settings(max_examples=200)
@given(phi=st.floats(-np.pi / 4, np.pi / 4), seed=st.integers(0, 10**6))
def test_order_of_losses_holds_on_figure_8(phi: float, seed: int) -> None:
    check = at_angle(phi, seed)
    assert check.conditions["no training error (theta in Theta)"]
    assert check.holds


@pytest.mark.parametrize("phi", np.linspace(-np.pi / 4, np.pi / 4, 5))
def test_exact_losses_have_the_same_order_on_figure_8(phi: float) -> None:
    assert at_angle(phi, 0, taylor=False).holds


def test_expansion_inverts_the_mixup_curve_of_figure_8() -> None:
    """The expanded loss of mixup is smallest near phi = 0; the exact loss is largest there and 400 times larger."""
    expanded = [at_angle(phi, 0) for phi in (-np.pi / 4, 0.0, np.pi / 4)]
    exact = [at_angle(phi, 0, taylor=False) for phi in (-np.pi / 4, 0.0, np.pi / 4)]
    assert expanded[1].mix < min(expanded[0].mix, expanded[2].mix)
    assert exact[1].mix > max(exact[0].mix, exact[2].mix)
    assert exact[1].mix > 400 * expanded[1].mix
    assert exact[1].gen < min(exact[0].gen, exact[2].gen)


@given(c=ratios, d=st.integers(1, 5), n=st.integers(2, 12), size=st.floats(0.01, 20), seed=st.integers(0, 10**6))
def test_theorem_1_holds_for_centered_samples_without_training_error(
    c: float, d: int, n: int, size: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    X, theta = rng.normal(size=(n, d)), size * rng.normal(size=d)
    X -= X.mean(0)
    y = (X @ theta > 0).astype(int)
    assert check_theorem(theta, X, y, sigma_1=np.inf, c=c).holds


@settings(max_examples=50)
@given(c=ratios, d=st.integers(1, 5), n=st.integers(2, 12), seed=st.integers(0, 10**6))
def test_theorem_2_holds_for_centered_samples_without_training_error(c: float, d: int, n: int, seed: int) -> None:
    """The printed theorem without the factor d of its adversarial loss."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(d, 6, bias=False), nn.ReLU(), nn.Linear(6, 1, bias=False)).double()
    X = np.random.default_rng(seed).normal(size=(n, d))
    X -= X.mean(0)
    y = (network(torch.from_numpy(X)).detach().numpy()[:, 0] > 0).astype(int)
    check = check_theorem(network, X, y, sigma_1=np.inf, c=c)
    assume(check.R > 0)
    assert check.holds


@settings(max_examples=8)
@given(c=st.floats(0.5, 2.0), tau=st.floats(-0.3, 0.6), d=st.integers(2, 4), seed=st.integers(0, 10**6))
def test_theorem_holds_for_balanced_narrow_classes(c: float, tau: float, d: int, seed: int) -> None:
    X, y = GaussianPair(40.0, c, tau, d).sample(10, rng=seed)
    check = check_theorem(3 * np.eye(d)[0], X, y, sigma_1=40.0, c=c, tau=tau)
    assert all(check.conditions.values())
    assert check.holds


# Outside the conditions of the theorem


@pytest.mark.parametrize("c", [0.2, 4.0, 5.0])
def test_very_different_widths_break_the_order(c: float) -> None:
    X, y = GaussianPair(100.0, c).sample(20, rng=0)
    check = check_theorem([10.0, 0.0], X, y, sigma_1=np.inf, c=c)
    assert check.gen > check.mix
    assert not check.conditions["2 - sqrt(3) < c < 2 + sqrt(3)"]


def test_overlapping_classes_break_the_order() -> None:
    X, y = GaussianPair(1.5).sample(20, rng=0)
    check = check_theorem([1.0, 0.0], X, y, sigma_1=1.5)
    assert check.gen > check.mix
    assert not check.conditions["sigma_1 is large: A < 1/3 and B < 1/6"]


def test_training_errors_break_the_order() -> None:
    X, y = GaussianPair(10.0).sample(20, rng=0)
    check = check_theorem([-1.0, 0.0], X, y, sigma_1=10.0)
    assert check.gen > check.mix
    assert check.adv > check.gen
    assert not check.conditions["no training error (theta in Theta)"]


# Within the conditions that are printed


def test_unbalanced_classes_break_theorem_1() -> None:
    """5 points against 35: the mean of the sample is not 0, and the adversarial loss is above GenLabel's."""
    X, y = GaussianPair(100.0).sample((5, 35), rng=0)
    check = check_theorem([10.0, 0.0], X, y, sigma_1=100.0)
    *others, centred = check.conditions.values()
    assert all(others)
    assert not centred
    assert check.adv > check.gen


def test_zero_theta_has_three_equal_losses() -> None:
    X, y = GaussianPair(10.0).sample(5, rng=0)
    check = check_theorem([0.0, 0.0], X, y, sigma_1=np.inf)
    assert check.mix == check.gen == pytest.approx(np.log(2))
    assert not check.holds
    assert not check.conditions["f is not the same at all points"]


def test_orthogonal_theta_has_three_equal_losses() -> None:
    check = check_theorem([0.0, 0.0, 5.0], [[-1.0, 0.1, 0.0], [1.0, -0.1, 0.0]], [0, 1], sigma_1=np.inf)
    assert check.conditions["no training error (theta in Theta)"]
    assert not check.conditions["f is not the same at all points"]
    assert not check.holds


@pytest.mark.parametrize(("n", "size"), [((19, 21), 1e-3), ((15, 25), 0.1), ((5, 35), 10.0)])
def test_any_imbalance_breaks_theorem_1_for_a_small_theta(n: tuple[int, int], size: float) -> None:
    """To first order gen is A |theta| 4 p_0 p_1 / 2 and adv is A |theta| / 2."""
    X, y = GaussianPair(1e6).sample(n, rng=0)
    check = check_theorem([size, 0.0], X, y, sigma_1=np.inf)
    assert list(check.conditions.values())[:4] == [True] * 4
    assert check.adv > check.gen
    balanced = check_theorem([size, 0.0], *GaussianPair(1e6).sample(20, rng=0), sigma_1=np.inf)
    assert balanced.holds


@pytest.mark.parametrize("d", [1, 2, 3, 5, 10])
def test_printed_theorem_2_fails_from_three_features_on(d: int) -> None:
    """Two points, f(x) = 3 relu(x_1) - 3 relu(-x_1): as printed the theorem fails from three features on."""
    X = np.array([-np.eye(d)[0], np.eye(d)[0]])

    def network(x: Tensor) -> Tensor:
        return 3 * x[:, 0].relu() - 3 * (-x[:, 0]).relu()

    assert check_theorem(network, X, [0, 1], sigma_1=np.inf).holds
    assert check_theorem(network, X, [0, 1], sigma_1=np.inf, as_printed=True).holds == (d < 3)


def test_exact_losses_of_a_network_have_the_other_order_for_c_of_3() -> None:
    """f = 3 relu(x_1) - 0.1 relu(-x_1): the lemma's expansion has the theorem's order, the loss the other one."""

    def network(x: Tensor) -> Tensor:
        return 3 * x[:, 0].relu() - 0.1 * (-x[:, 0]).relu()

    X, y, limit = np.array([[-1.0, 0.0], [1.0, 0.0]]), [0, 1], {"sigma_1": np.inf, "c": 3.0, "taylor": True}
    check = check_theorem(network, X, y, sigma_1=np.inf, c=3.0)
    assert all(check.conditions.values())
    assert check.holds
    assert genlabel_loss(network, X, y, coefficients="class", **limit) > mixup_loss(network, X, y, taylor=True)
    assert genlabel_loss(network, X, y, sigma_1=300.0, c=3.0) > mixup_loss(network, X, y) + 0.02


def test_check_prints_as_a_table() -> None:
    text = str(at_angle(0.0, 0))
    assert "mix > gen >= adv holds" in text
    assert text.count("yes") == 5
    assert "does not hold" in str(check_theorem([0.0], [[1.0]], [1], sigma_1=1.0))
