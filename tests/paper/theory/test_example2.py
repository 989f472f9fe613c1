"""Example 2: weights against scikit-learn, torch and the library's labelers, and the statements of section 3.2."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression

from genlabel.attacks.margin import linear_margins
from genlabel.densities import fixed_gaussians
from genlabel.labeling import GenLabel, Labeler, LinearLabel, LogisticLabel
from genlabel.mixing import MixParams, Mixup
from genlabel_paper.theory.example2 import (
    Example2,
    example2_descent,
    example2_loss,
    example2_margins,
    example2_printed_weights,
    example2_solution,
    example2_steps_to_match,
    example2_weights,
    make_example2,
)

D = st.floats(0.1, 50)
SCHEMES = ["vanilla", "mixup", "logistic", "genlabel", "svm"]


def mixed_points(labeler: Labeler, d: float, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """Mix and label all 9 ordered pairs at the midpoints of `cells` cells of lam with the library."""
    X, y = make_example2(d)
    lam = np.repeat((np.arange(cells) + 0.5) / cells, 9)
    first, second = np.tile(np.repeat([0, 1, 2], 3), cells), np.tile([0, 1, 2] * 3, cells)
    rows = np.concatenate([first, second])
    draw = MixParams(np.roll(np.arange(len(rows)), len(lam)), np.concatenate([lam, 1 - lam]))
    x = Mixup().mix(X[rows], draw)
    return x[: len(lam)], labeler.label(x, np.eye(3)[y[rows]], draw)[: len(lam)]


def make_labeler(scheme: str, d: float, sigma: float) -> Labeler:
    X, y = make_example2(d)
    known = fixed_gaussians(X, variance=sigma**2).fit(X, y)
    return {"mixup": LinearLabel(), "logistic": LogisticLabel(sigma), "genlabel": GenLabel(known)}[scheme]


def cross_entropy(W: np.ndarray, x: np.ndarray, labels: np.ndarray) -> float:
    scores = x @ W.T
    return float((np.logaddexp.reduce(scores, axis=1) - (labels * scores).sum(1)).mean())


@pytest.mark.parametrize("scheme, sigma", [("mixup", 1.0), ("logistic", 0.3), ("logistic", 1.0), ("genlabel", 4.0)])
def test_weights_equal_scikit_learn_on_mixed_points(scheme: str, sigma: float) -> None:
    """Express soft labels as weighted rows, one for each class."""
    x, labels = mixed_points(make_labeler(scheme, 5.0, sigma), 5.0, 400)
    regression = LogisticRegression(C=1e12, fit_intercept=False, tol=1e-10, max_iter=1000)
    regression.fit(np.tile(x, (3, 1)), np.repeat([0, 1, 2], len(x)), labels.T.ravel())
    W = regression.coef_ - regression.coef_.mean(0)
    np.testing.assert_allclose(example2_weights(scheme, sigma=sigma), W, atol=2e-4)


@settings(max_examples=15)
@given(
    scheme=st.sampled_from(["mixup", "logistic", "genlabel"]), d=D, sigma=st.floats(0.15, 3), seed=st.integers(0, 99)
)
def test_no_other_weights_have_a_lower_loss(scheme: str, d: float, sigma: float, seed: int) -> None:
    """The loss equals the cross-entropy with the library's labels."""
    width = sigma * d if scheme == "genlabel" else sigma
    W = example2_weights(scheme, d, width)
    x, labels = mixed_points(make_labeler(scheme, d, width), d, 1000)
    assert example2_loss(W, scheme, d, width) == pytest.approx(cross_entropy(W, x, labels), abs=1e-4)
    np.testing.assert_allclose(W.sum(0), 0, atol=1e-12 * np.abs(W).max())
    slope = ((softmax(x @ W.T, axis=1) - labels).T @ x) / len(x) / d
    np.testing.assert_allclose(slope, 0, atol=1e-4)
    other = W + np.random.default_rng(seed).normal(size=(3, 2)) * np.abs(W).max() * 0.05
    assert example2_loss(other, scheme, d, width) > example2_loss(W, scheme, d, width)


@pytest.mark.parametrize(
    "scheme, margins",
    [
        ("mixup", [5.2835, 4.6994, 4.6994]),
        ("logistic", [5.0041, 4.9959, 4.9959]),
        ("vanilla", [5.3297, 4.6470, 4.6470]),
    ],
)
def test_margins_of_each_scheme(scheme: str, margins: list[float]) -> None:
    np.testing.assert_allclose(example2_solution(scheme).margins, margins, atol=1e-4)


@given(d=D, sigma=st.floats(0.02, 20), lam=st.floats(0, 1))
def test_genlabel_has_the_margins_of_the_svm_for_any_width(d: float, sigma: float, lam: float) -> None:
    """Its probabilities equal its labels: the posterior of Gaussians of one width is a softmax of linear scores."""
    solution = example2_solution("genlabel", d, sigma * d)
    np.testing.assert_allclose(solution.margins, d, rtol=1e-9)
    np.testing.assert_allclose(solution.scores(lam), solution.labels(lam), atol=1e-9)
    X, y = make_example2(d)
    draw = MixParams(np.array([0, 2, 1]), np.array([1.0, lam, 1 - lam]))
    labels = make_labeler("genlabel", d, sigma * d).label(Mixup().mix(X, draw), y, draw)
    np.testing.assert_allclose(solution.labels(lam), labels[1], atol=1e-7)


@settings(max_examples=10)
@given(d=D)
def test_svm_weights_equal_the_printed_ones_up_to_a_shift(d: float) -> None:
    """The printed weights differ by a vector common to all classes."""
    svm = example2_solution("svm", d)
    np.testing.assert_allclose(svm.margins, d, rtol=1e-6)
    np.testing.assert_allclose(svm.W * 3 * d, [[-1, 1], [2, 1], [-1, -2]], rtol=1e-6)
    printed = example2_printed_weights("svm")
    np.testing.assert_allclose(svm.W * 2 * d, printed - printed.mean(0), rtol=1e-6)
    np.testing.assert_allclose(example2_weights("genlabel", d), printed - printed.mean(0), atol=1e-12)


@given(weights=st.lists(st.floats(-3, 3), min_size=6, max_size=6))
def test_no_weights_have_a_larger_smallest_margin(weights: list[float]) -> None:
    X, y = make_example2()
    assert linear_margins(np.reshape(weights, (3, 2)), X, y).min() <= 5 + 1e-9


def test_search_over_weights_ends_at_the_svm() -> None:
    X, y = make_example2()
    starts = np.random.default_rng(0).normal(size=(5, 6))
    minima = [
        minimize(lambda w: -linear_margins(w.reshape(3, 2), X, y).min(), start, method="Nelder-Mead").fun
        for start in starts
    ]
    assert -min(minima) == pytest.approx(5, abs=1e-2)


def test_vanilla_equals_torch_gradient_descent() -> None:
    X, y = (torch.from_numpy(values) for values in make_example2())
    W = torch.zeros(3, 2, dtype=torch.float64, requires_grad=True)
    descent = torch.optim.SGD([W], lr=0.1)
    for _ in range(200):
        descent.zero_grad()
        torch.nn.functional.cross_entropy(X @ W.T, y).backward()
        descent.step()
    np.testing.assert_allclose(example2_weights("vanilla", steps=200), W.detach().numpy(), atol=1e-12)


def test_vanilla_begins_with_the_largest_margin_and_regains_it_slowly() -> None:
    X, y = make_example2()
    path = example2_descent(steps=10_000)
    smallest = [linear_margins(path[step], X, y).min() for step in (1, 10, 100, 1000, 10_000)]
    np.testing.assert_allclose(smallest, [5, 4.3975, 4.5218, 4.6470, 4.7261], atol=1e-4)


def test_vanilla_beats_mixup_after_thousands_of_steps_only() -> None:
    """NOTE[PAPER]: margin(vanilla) > margin(mixup) depends on how long vanilla is trained."""
    X, y = make_example2()
    step = example2_steps_to_match()
    target = example2_solution("mixup").margins.min()
    path = example2_descent(steps=step)
    assert step == 4056
    assert linear_margins(path[step - 1], X, y).min() <= target < linear_margins(path[step], X, y).min()
    assert example2_solution("vanilla").margins.min() < target < example2_solution("logistic").margins.min()
    assert example2_steps_to_match(learning_rate=0.2) * 0.2 == pytest.approx(step * 0.1, rel=0.02)
    with pytest.raises(ValueError, match="max_steps=100"):
        example2_steps_to_match(max_steps=100)


def test_logistic_labels_beat_linear_ones_if_they_are_steep_enough() -> None:
    linear = example2_solution("mixup").margins.min()
    width = brentq(lambda sigma: example2_solution("logistic", sigma=sigma).margins.min() - linear, 0.3, 1.0)
    assert width == pytest.approx(0.6202, abs=1e-4)
    assert example2_solution("logistic", sigma=2.0).margins.min() < linear


@settings(max_examples=10)
@given(d=D)
def test_linear_labels_have_no_scale(d: float) -> None:
    """W(d) = W(1) / d and the losses are the same, so a large d improves nothing."""
    np.testing.assert_allclose(example2_weights("mixup", d) * d, example2_weights("mixup", 1.0), rtol=1e-7)
    losses = [
        example2_loss(example2_printed_weights("mixup", d), "mixup", d),
        example2_loss(example2_weights("mixup", d), "mixup", d),
    ]
    np.testing.assert_allclose(losses, [0.601242, 0.444212], atol=1e-6)


def test_printed_linear_weights_are_no_minimizer() -> None:
    """They have a higher loss even with the best w_1, and half the margin of linear labels."""
    x, labels = mixed_points(LinearLabel(), 5.0, 2000)
    printed = example2_printed_weights("mixup")
    np.testing.assert_allclose(printed[1:], [[-0.9, 1.1], [-1.1, 0.9]])
    best = minimize(lambda w: cross_entropy(np.vstack([w, printed[1:]]), x, labels), [-1.0, 1.0], method="BFGS")
    np.testing.assert_allclose(printed[0], best.x, atol=1e-3)
    assert best.fun == pytest.approx(0.60124, abs=1e-4)
    X, y = make_example2()
    assert linear_margins(printed, X, y).min() == pytest.approx(2.4131, abs=1e-3)


@given(d=st.floats(0.1, 1e4))
def test_printed_linear_scores_miss_their_labels_for_any_d(d: float) -> None:
    """Even with p_1 = 0: on the diagonal w_2 x = 2 lam - 1, and |p_2 - lam| is up to 1 - expit(2) = 0.119."""
    half = 1 / (2 * d)
    w_2, w_3 = np.array([-1 + half, 1 + half]), np.array([-1 - half, 1 - half])
    lam = np.linspace(0, 1, 101)
    x = np.outer((2 * lam - 1) * d, [1, 1])
    np.testing.assert_allclose(x @ w_2, 2 * lam - 1, atol=1e-9)
    share = expit(x @ w_2 - x @ w_3)
    assert np.abs(share - lam).max() == pytest.approx(1 - expit(2), abs=1e-9)


@given(weights=st.lists(st.floats(-5, 5), min_size=6, max_size=6))
def test_without_a_bias_the_scores_at_the_origin_are_equal(weights: list[float]) -> None:
    X, _ = make_example2()
    example = Example2("svm", np.reshape(weights, (3, 2)), X, np.zeros(3))
    np.testing.assert_allclose(example.scores(0.5), 1 / 3)


def test_the_svm_scores_are_not_the_logistic_labels() -> None:
    """NOTE[PAPER]: section 3.2 sets exp(w_1 x) = 0 on the diagonal, where it is 1: p_2 = y_2 fails by 1/6 and more."""
    X, _ = make_example2()
    svm = Example2("svm", example2_printed_weights("svm"), X, np.zeros(3))
    lam = np.linspace(0, 1, 501)
    printed = example2_solution("logistic").labels(lam)
    np.testing.assert_allclose(printed[:, 1], expit(8 * 5 * (lam - 0.5)), atol=1e-12)
    gap = np.abs(svm.scores(lam) - printed)
    assert gap[250, 1] == pytest.approx(1 / 6)
    assert gap[:, 1].max() == pytest.approx(0.2287, abs=1e-3)
    assert gap[:, 0].max() == pytest.approx(1 / 3)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_boundaries_are_where_two_classes_tie(scheme: str) -> None:
    solution = example2_solution(scheme)
    assert len(solution.boundaries()) == 3
    for (a, b), normal in solution.boundaries().items():
        assert np.linalg.norm(normal) == pytest.approx(1)
        along = solution.W @ [-normal[1], normal[0]]
        assert along[a] == pytest.approx(along[b], abs=1e-6 * np.abs(solution.W).max())
        assert normal @ solution.X[a] > 0 > normal @ solution.X[b]
    np.testing.assert_allclose(solution.margins, linear_margins(solution.W, solution.X, [0, 1, 2]))


def test_scores_and_labels_along_the_diagonal() -> None:
    lam = np.linspace(0, 1, 5)
    solution = example2_solution("mixup")
    np.testing.assert_allclose(solution.labels(lam), np.stack([0 * lam, lam, 1 - lam], 1))
    x = np.outer((2 * lam - 1) * 5, [1, 1])
    np.testing.assert_allclose(solution.scores(lam), softmax(x @ solution.W.T, axis=1), atol=1e-12)
    assert example2_solution("logistic").labels(0.5).tolist() == [0, 0.5, 0.5]


@pytest.mark.parametrize(
    "call, keyword",
    [
        (lambda: example2_solution("mixup-without-mi"), "mixup-without-mi"),
        (lambda: example2_solution("gen"), "scheme='gen'"),
        (lambda: example2_solution("mixup", d=-1.0), "d=-1.0"),
        (lambda: example2_solution("genlabel", sigma=0.0), "sigma=0.0"),
        (lambda: example2_solution("logistic", sigma=1e-3), "sigma=0.001"),
        (lambda: example2_solution("vanilla", steps=0), "steps=0"),
        (lambda: example2_solution("vanilla", learning_rate=0.0), "learning_rate=0.0"),
        (lambda: example2_solution("svm").labels(0.5), "svm"),
        (lambda: example2_solution("mixup").scores(1.1), "1.1"),
        (lambda: example2_loss(np.zeros((2, 2)), "mixup"), "shape"),
        (lambda: example2_loss(np.zeros((3, 2)), "vanilla"), "vanilla"),
        (lambda: example2_printed_weights("genlabel"), "genlabel"),
    ],
)
def test_errors_name_the_value(call, keyword: str) -> None:
    with pytest.raises(ValueError, match=keyword):
        call()


def test_batched_margins_equal_single_ones() -> None:
    W = np.random.default_rng(0).normal(size=(4, 5, 3, 2))
    X, y = make_example2(2.0)
    expected = [[linear_margins(weights, X, y) for weights in row] for row in W]
    np.testing.assert_allclose(example2_margins(W, 2.0), expected)


@pytest.mark.parametrize("d", [5.0, 1, 0.25])
def test_points_equal_the_paper(d: float) -> None:
    X, y = make_example2() if d == 5 else make_example2(d)
    assert X.tolist() == [[-d, d], [d, d], [-d, -d]]
    assert y.tolist() == [0, 1, 2]


@pytest.mark.parametrize("bad", [0, -5.0, np.nan, np.inf])
def test_invalid_d_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match=f"d={bad!r}"):
        make_example2(bad)


def test_points_are_typed_and_fresh_copies() -> None:
    X, y = make_example2()
    assert (X.dtype, y.dtype) == (np.dtype(np.float64), np.dtype(np.int64))
    X += 1
    assert not np.array_equal(X, make_example2()[0])
