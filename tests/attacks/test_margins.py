"""Test margins against quadratic programs, support vectors, spheres, grids and attacks."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls
from sklearn.datasets import load_iris, make_blobs
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from torch import nn

from genlabel import GenerativeClassifier, MixupClassifier
from genlabel.attacks import PGD, linear_margins, margins, robust_accuracy
from genlabel.attacks.margin import Margins
from genlabel.attacks.models import AttackedFleet, AttackedModel, AttackedNetwork, DecisionModel, FunctionModel
from genlabel.training.fleet import Fleet
from genlabel.training.networks import MLP

QUICK: dict[str, Any] = {
    "training__learning_rate": 0.05,
    "training__weight_decay": 1e-4,
    "training__epochs": 30,
    "random_state": 0,
}
LINEAR = MixupClassifier.from_paper(mixer=None, **QUICK)
NETWORK = MixupClassifier.from_paper((16,), None, **QUICK)


def random_linear(k: int, d: int, seed: int, m: int = 10) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(k, d)), rng.normal(size=k), rng.normal(size=(m, d))


def linear_target(W: np.ndarray, b: np.ndarray) -> AttackedNetwork:
    return AttackedNetwork(MLP(W.shape[1], len(W), seed=0, dtype=torch.float64).load([(W.T, b)]))


def steep(d: int, k: int, hidden: tuple[int, ...], seed: int) -> MLP:
    """A strongly nonlinear ReLU network that predicts every class."""
    network = MLP(d, k, hidden, seed=seed, dtype=torch.float64)
    with torch.no_grad():
        for layer in network.layers:
            layer.weight *= 2.0
        network.layers[-1].bias -= network(torch.from_numpy(np.random.default_rng(9).normal(size=(500, d)))).mean(0)
    return network


def predict_classes(target: AttackedModel, X: np.ndarray) -> np.ndarray:
    return target.log_proba(torch.from_numpy(X)).argmax(-1).numpy()


def iris(binary: bool = False) -> tuple[pd.DataFrame, pd.Series]:
    X, y = load_iris(return_X_y=True, as_frame=True)
    X["constant"] = 1.0
    rows = y > 0 if binary else y >= 0
    return X[rows], y[rows].map({0: "setosa", 1: "versicolor", 2: "virginica"})


def distance_to_polyhedron(x: np.ndarray, normals: np.ndarray, offsets: np.ndarray) -> float:
    """Distance from x to the set normals @ u + offsets >= 0: least-distance programming by its dual."""
    unit = np.append(np.zeros(len(x)), 1.0)
    dual = np.vstack([normals.T, -offsets - normals @ x])
    residual = dual @ nnls(dual, unit)[0] - unit
    assert residual[-1] < 0  # the set is not empty
    return float(np.linalg.norm(residual[:-1] / residual[-1]))


# --- the closed form


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), k=st.integers(2, 5), d=st.integers(1, 5))
def test_a_linear_margin_is_the_optimum_of_a_quadratic_program(seed: int, k: int, d: int) -> None:
    W, b, X = random_linear(k, d, seed, 4)
    y = (X @ W.T + b).argmax(1)
    for x, c, margin in zip(X, y, linear_margins(W, X, y, b), strict=True):
        rivals = [distance_to_polyhedron(x, (W[[j]] - W[c]), b[[j]] - b[c]) for j in range(k) if j != c]
        assert margin == pytest.approx(min(rivals), abs=1e-6)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), k=st.integers(2, 4), d=st.integers(1, 4))
def test_a_negative_margin_is_at_most_the_distance_to_the_own_class(seed: int, k: int, d: int) -> None:
    W, b, X = random_linear(k, d, seed, 6)
    predicted = (X @ W.T + b).argmax(1)
    c = predicted[0]  # a class that is predicted somewhere
    wrong = predicted != c
    signed = linear_margins(W, X, np.full(6, c), b)
    np.testing.assert_array_equal(signed < 0, wrong)
    for x, margin in zip(X[wrong], signed[wrong], strict=True):
        others = np.arange(k) != c
        distance = distance_to_polyhedron(x, W[c] - W[others], b[c] - b[others])
        assert -margin <= distance + 1e-6
        assert k > 2 or -margin == pytest.approx(distance, abs=1e-6)


def test_classes_of_equal_weights_have_infinite_or_zero_margins() -> None:
    W, X = np.ones((3, 2)), np.array([[0.3, 0.1]] * 3)
    signed = linear_margins(W, X, [0, 1, 2], [1.0, 0.1, 1.0])
    assert signed.tolist() == [0.0, -np.inf, 0.0]
    assert linear_margins(W[:2], X[:1], [0], [1, 0]).tolist() == [np.inf]
    assert linear_margins([[1, 0], [1, 0], [0, 0]], [[2, 5]], [0], [1, 0, 0]).tolist() == [3.0]
    result = margins(linear_target(W, np.array([2.0, 0.0, 1.0])), X[:2], [0, 1])
    assert result.exact
    assert result.distances.tolist() == [np.inf, 0.0]
    assert np.isnan(result.witnesses[0]).all()


def test_a_linear_svm_has_the_margin_of_its_support_vectors() -> None:
    X, y = make_blobs(60, centers=[[-2, 0], [2, 1]], cluster_std=0.5, random_state=0)
    model = SVC(kernel="linear", C=1e6).fit(X, y)
    result = margins(model, X, y)
    assert result.exact
    assert result.smallest == pytest.approx(1 / np.linalg.norm(model.coef_), rel=1e-3)
    np.testing.assert_allclose(result.distances[model.support_], result.smallest, rtol=1e-3)


def test_a_multiclass_svm_is_not_solved_as_linear() -> None:
    """Its three rows of coefficients belong to pairs of classes, whose votes decide."""
    X, y = load_iris(return_X_y=True)
    for shape in ("ovr", "ovo"):
        assert not margins(SVC(kernel="linear", decision_function_shape=shape).fit(X, y), X, y, steps=1).exact


@pytest.mark.parametrize("binary", [False, True], ids=["3 classes", "2 classes"])
@pytest.mark.parametrize("model", [
    LogisticRegression(max_iter=1000), LogisticRegression(max_iter=1000, fit_intercept=False), LinearSVC(),
    RidgeClassifier(fit_intercept=False),
], ids=repr)  # fmt: skip
def test_linear_classifiers_of_scikit_learn_have_exact_margins(model: Any, binary: bool) -> None:
    X, y = iris(binary)
    model.fit(X, y)
    result = margins(model, X, y)
    assert result.exact
    np.testing.assert_array_equal(result.correct, model.predict(X) == y)
    W = np.atleast_2d(model.coef_)
    b = np.broadcast_to(model.intercept_, len(W))
    if binary:
        W, b = np.vstack([-W, W]), np.concatenate([-b, b])
    expected = linear_margins(W, X, np.searchsorted(model.classes_, y), b)
    np.testing.assert_allclose(result.distances, np.maximum(expected, 0), atol=1e-9)
    by_classes = not hasattr(model, "predict_proba")
    searched = margins(model, X, y, method="search", steps=20 if by_classes else 1)
    assert not searched.exact
    ratio = searched.distances[result.correct] / result.distances[result.correct]
    assert ratio.min() > 1
    assert ratio.max() < (1.05 if by_classes else 1.0003)


def test_sparse_coefficients_have_the_same_margins() -> None:
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=1000).fit(X, y)
    dense = margins(model, X, y).distances
    np.testing.assert_allclose(margins(model.sparsify(), X, y).distances, dense)


@pytest.mark.parametrize("space", ["input", "standardized"])
def test_softmax_regression_has_exact_margins_in_both_spaces(space: str) -> None:
    X, y = iris()
    model = LINEAR.fit(X, y)
    layer = model.network_.layers[0]
    W, b = (weights.detach().double().numpy() for weights in (layer.weight, layer.bias))
    unit = 1.0 if space == "standardized" else model.scaler_.scale[model.scaler_.mask]
    expected = linear_margins(W / unit, model.scaler_(X.to_numpy()) * unit, np.searchsorted(model.classes_, y), b)
    result = margins(model, X, y, space=space)
    assert result.exact
    assert result.witnesses.shape[1] == (5 if space == "input" else 4)
    np.testing.assert_allclose(result.distances, np.maximum(expected, 0), rtol=1e-5, atol=1e-6)


# --- the search


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), k=st.integers(2, 6), d=st.integers(1, 8))
def test_the_search_finds_the_margins_of_linear_models(seed: int, k: int, d: int) -> None:
    W, b, X = random_linear(k, d, seed)
    y = (X @ W.T + b).argmax(1)
    y[0] = (y[0] + 1) % k  # a misclassified point
    exact = margins(linear_target(W, b), X, y)
    assert exact.exact
    np.testing.assert_allclose(exact.distances, np.maximum(linear_margins(W, X, y, b), 0), rtol=1e-9)
    result = margins(linear_target(W, b), X, y, method="search", steps=3, seed=seed)
    assert (result.distances >= exact.distances).all()
    np.testing.assert_allclose(result.distances, exact.distances, rtol=3e-4)
    assert (predict_classes(linear_target(W, b), exact.witnesses) != y).all()


def circle(X: np.ndarray) -> np.ndarray:
    """Class 1 is outside the unit sphere."""
    scores = np.stack([np.zeros(len(X)), (X**2).sum(1) - 1], 1)
    return torch.from_numpy(scores).log_softmax(-1).numpy()


@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_distance_to_a_sphere(d: int) -> None:
    X = np.random.default_rng(d).normal(size=(60, d)) * np.linspace(0.05, 3, 60)[:, None]
    X[0] = 0
    result = margins(FunctionModel(circle), X, ((X**2).sum(1) > 1).astype(int))
    expected = np.abs(1 - np.linalg.norm(X, axis=1))
    assert result.correct.all()
    assert (result.distances >= expected - 1e-12).all()
    np.testing.assert_allclose(result.distances, expected, rtol=2e-3)


def test_the_distance_to_a_sphere_by_classes_alone() -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    inside = DecisionModel(lambda points: circle(points).argmax(1), 2)
    result = margins(inside, X, ((X**2).sum(1) > 1).astype(int), steps=60)
    np.testing.assert_allclose(result.distances, np.abs(1 - np.linalg.norm(X, axis=1)), rtol=0.05)


@pytest.mark.parametrize("seed, k", [(0, 2), (1, 3), (2, 4), (3, 2), (4, 6)])
def test_the_search_misses_almost_no_point_of_a_fine_grid(seed: int, k: int) -> None:
    """The grid is polar: 180 directions around each point, 60 radii within its margin."""
    target = AttackedNetwork(steep(2, k, (12, 12), seed))
    X = np.random.default_rng(seed).normal(size=(40, 2))
    y = predict_classes(target, X)
    assert len(np.unique(y)) == k
    result = margins(target, X, y)
    angles, radii = np.linspace(0, 2 * np.pi, 180, endpoint=False), np.linspace(0, 0.995, 60)
    disc = radii[:, None, None] * np.stack([np.cos(angles), np.sin(angles)], -1)
    predicted = predict_classes(target, X[:, None, None] + result.distances[:, None, None, None] * disc)
    wrong = (predicted != y[:, None, None]).any(-1)
    nearest = np.where(wrong.any(1), radii[wrong.argmax(1)], 1.0)
    assert nearest.min() > 0.9
    assert (nearest > 0.99).mean() > 0.97
    assert (predict_classes(target, result.witnesses) != y).all()


def test_a_wedge_has_its_corner_as_the_nearest_point() -> None:
    """Class 1 is where x_1 > 1 + |x_2|: a hand-made ReLU network whose boundary has no normal at the nearest point."""
    hidden = (np.array([[0.0, 0.0, 1.0, -1.0], [1.0, -1.0, 0.0, 0.0]]), np.zeros(4))
    last = (np.array([[0.0, -1.0], [0.0, -1.0], [0.0, 1.0], [0.0, -1.0]]), np.array([0.0, -1.0]))
    target = AttackedNetwork(MLP(2, 2, (4,), seed=0, dtype=torch.float64).load([hidden, last]))
    X = np.array([[0.0, 0.0], [0.5, 0.1], [-1.0, 0.3], [3.0, 0.0], [1.0, 2.0]])
    result = margins(target, X, [0, 0, 0, 1, 0])
    expected = [1.0, np.hypot(0.5, 0.1), np.hypot(2.0, 0.3), 2 / 2**0.5, 2 / 2**0.5]
    np.testing.assert_allclose(result.distances, expected, rtol=5e-3)


@settings(max_examples=6)
@given(scale=st.floats(1e-3, 1e3), seed=st.integers(0, 1000))
def test_margins_are_equivariant_to_shift_and_scale(scale: float, seed: int) -> None:
    net = steep(3, 3, (8,), seed)
    shift = np.array([1.0, -2.0, 0.5])
    (W, b), last_layer = [(layer.weight.detach().numpy().T, layer.bias.detach().numpy()) for layer in net.layers]
    moved = MLP(3, 3, (8,), seed=0, dtype=torch.float64).load([(W / scale, b - shift @ W), last_layer])
    X = np.random.default_rng(seed).normal(size=(15, 3))
    y = predict_classes(AttackedNetwork(net), X)
    distances = margins(AttackedNetwork(net), X, y).distances
    np.testing.assert_allclose(
        margins(AttackedNetwork(moved), scale * (X + shift), y).distances, scale * distances, rtol=2e-3
    )


def test_margins_in_blocks_are_close(monkeypatch: pytest.MonkeyPatch) -> None:
    target, X = AttackedNetwork(steep(3, 3, (8,), 1)), np.random.default_rng(0).normal(size=(30, 3))
    y = predict_classes(target, X)
    whole = margins(target, X, y)
    monkeypatch.setattr("genlabel.attacks.margin.MAX_SEARCH_VALUES", 5000)
    parts = margins(target, X, y)
    assert (parts.distances != whole.distances).any()
    np.testing.assert_allclose(parts.distances, whole.distances, rtol=5e-3)


def test_more_steps_are_no_worse_and_the_seed_is_reproducible() -> None:
    target, X = AttackedNetwork(steep(10, 4, (32, 32), 0)), np.random.default_rng(0).normal(size=(40, 10))
    y = predict_classes(target, X)
    state = torch.random.get_rng_state()
    without_steps, with_steps, again = (margins(target, X, y, steps=steps, seed=3).distances for steps in (0, 10, 10))
    np.testing.assert_array_equal(with_steps, again)
    assert (with_steps <= without_steps * 1.0003).all()
    assert with_steps.mean() < 0.98 * without_steps.mean()
    assert torch.equal(torch.random.get_rng_state(), state)


# --- every classifier

MODELS: list[Any] = [
    LINEAR,
    NETWORK,
    MixupClassifier((16,)).set_params(search__cv=3, **QUICK),
    GenerativeClassifier("kernel"),
    LogisticRegression(max_iter=1000),
    make_pipeline(StandardScaler(), LogisticRegression()),
    make_pipeline(StandardScaler(), NETWORK),
    LinearSVC(),
    GaussianNB(),
    DecisionTreeClassifier(max_depth=3, random_state=0),
]


NAMED = [
    pytest.param(m, id=f"{i}-{type(m).__name__}", marks=[pytest.mark.long] if i in (3, 5, 6, 8) else [])
    for i, m in enumerate(MODELS)
]
"""The slowest models are marked long: a similar, faster model covers them."""


@pytest.mark.parametrize("model", NAMED)
def test_witnesses_are_the_first_points_of_another_class(model: Any) -> None:
    X, y = iris()
    X, y = X[::8], y[::8]
    model.fit(X, y)
    result = margins(model, X, y, steps=8)
    values, labels = X.to_numpy(), y.to_numpy()

    def predict(points: np.ndarray) -> np.ndarray:
        return model.predict(pd.DataFrame(points, columns=X.columns))

    np.testing.assert_array_equal(result.correct, predict(values) == labels)
    assert (predict(result.witnesses) != labels).all()
    distances = np.linalg.norm(result.witnesses - values, axis=1)
    np.testing.assert_allclose(distances, result.distances, rtol=2e-4 if result.exact else 1e-9)
    before = values + (1 - 1e-3) * (result.witnesses - values)
    np.testing.assert_array_equal(predict(before), predict(values))
    np.testing.assert_array_equal(result.witnesses[~result.correct], values[~result.correct])
    assert (result.distances[~result.correct] == 0).all()
    assert (result.distances[result.correct] > 0).all()
    assert margins(model, X, y, space="standardized", steps=1).smallest > 0


@pytest.mark.parametrize("space", ["input", "standardized"])
def test_attacks_on_a_linear_model_succeed_exactly_beyond_the_margin(space: str) -> None:
    X, y = iris()
    model = LINEAR.fit(X, y)
    result = margins(model, X, y, space=space)
    for radius in (0.99 * result.smallest, *np.quantile(result.distances, [0.1, 0.5, 0.9]) * 1.001):
        attacked = robust_accuracy(model, X, y, PGD(radius, "l2", steps=5, restarts=2), space=space)
        np.testing.assert_array_equal(attacked.is_robust, result.distances > radius)
    within = robust_accuracy(model, X, y, PGD(0.99 * result.smallest, "l2", steps=5), space=space)
    assert within.accuracy == within.clean


def test_attacks_break_a_network_only_near_its_margins() -> None:
    X, y = iris()
    model = NETWORK.fit(X, y)
    result = margins(model, X, y)
    for radius in (0.98 * result.smallest, 0.98 * result.median):
        attacked = robust_accuracy(model, X, y, PGD(radius, "l2", steps=30, targeted=True), space="input")
        assert attacked.is_robust[result.distances > radius / 0.98].all()
    assert attacked.accuracy < 0.6 * attacked.clean


# --- results and errors


def test_summaries_cover_correct_points_only() -> None:
    labels = np.array(["b", "a", "b", "a", "c"])
    correct = np.array([True, True, True, True, False])
    result = Margins(np.array([3.0, 1.0, 2.0, np.inf, 0.0]), np.zeros((5, 2)), correct, labels, False)
    assert (result.smallest, result.median, result.mean) == (1.0, 2.5, np.inf)
    assert (result.by_class["a"], result.by_class["b"]) == (1.0, 2.0)
    assert np.isnan(result.by_class["c"])
    assert str(result).splitlines() == [
        "correct   4 of 5", "smallest  1", "median    2.5", "mean      inf",
        "no other class was found for 1 of them; try more points or more steps", "by search: upper bounds",
    ]  # fmt: skip
    all_wrong = Margins(np.zeros(5), np.zeros((5, 2)), ~np.ones(5, dtype=bool), labels, True)
    assert all(
        np.isnan(value)
        for value in (all_wrong.smallest, all_wrong.median, all_wrong.mean, *all_wrong.by_class.values())
    )
    assert str(all_wrong).splitlines()[0] == "correct   0 of 5"


@pytest.mark.parametrize("scale", [1.0, 100.0])
@pytest.mark.parametrize(
    "model", [SVC(), pytest.param(KNeighborsClassifier(3), marks=pytest.mark.long)], ids=lambda model: repr(model)
)
def test_a_single_row_has_a_margin(model: Any, scale: float) -> None:
    """No other class is near a single point, so random points at all distances have to find one."""
    X, y = make_blobs(80, centers=3, random_state=0)
    model.fit(scale * X, y)
    rows = np.flatnonzero(model.predict(scale * X) == y)[:2]
    together = margins(model, scale * X, y, steps=5).distances[rows]
    for row, distance in zip(rows, together, strict=True):
        alone = margins(model, scale * X[[row]], y[[row]], steps=5).smallest
        assert alone < 1.5 * distance


def test_a_module_equals_its_attacked_network() -> None:
    network = steep(3, 3, (8,), 1)
    X = np.random.default_rng(0).normal(size=(5, 3))
    y = predict_classes(AttackedNetwork(network), X)
    np.testing.assert_array_equal(margins(network, X, y).distances, margins(AttackedNetwork(network), X, y).distances)


def test_by_class_has_the_given_labels() -> None:
    X, y = iris()
    result = margins(LINEAR.fit(X, y), X, y)
    assert set(result.by_class) == {"setosa", "versicolor", "virginica"}
    assert min(result.by_class.values()) == result.smallest
    assert result.by_class["setosa"] == result.distances[result.correct & (y == "setosa")].min()


def test_constant_models_have_infinite_or_zero_margins() -> None:
    X = np.random.default_rng(0).normal(size=(5, 3))
    for target in (AttackedNetwork(nn.Linear(3, 2)), DecisionModel(lambda points: np.ones(len(points), dtype=int), 2)):
        if isinstance(target, AttackedNetwork):
            target.module.load_state_dict({"weight": torch.zeros(2, 3), "bias": torch.tensor([0.0, 1.0])})
        result = margins(target, X, torch.ones(5, dtype=torch.int64), method="search", steps=2)
        assert np.isinf(result.distances).all()
        assert np.isnan(result.witnesses).all()
        assert result.correct.all()
        wrong = margins(target, torch.from_numpy(X), np.zeros(5, dtype=int), method="search")
        assert (wrong.distances == 0).all()
        np.testing.assert_array_equal(wrong.witnesses, X)
        assert not wrong.correct.any()


def test_a_single_point_far_from_the_boundary_has_a_margin() -> None:
    target = linear_target(np.array([[1.0, 0.0], [0.0, 0.0]]), np.zeros(2))
    result = margins(target, [[1000.0, 5.0]], [0], method="search")
    assert result.distances[0] == pytest.approx(1000.0, rel=3e-4)


W, ROWS = np.eye(3), np.zeros((2, 3))


@pytest.mark.parametrize("call, match", [
    (lambda: linear_margins(np.eye(3)[0], ROWS, [0, 1]), "W"),
    (lambda: linear_margins(W[:1], ROWS, [0, 0]), "vstack"),
    (lambda: linear_margins(W, np.zeros((2, 4)), [0, 1]), "W"),
    (lambda: linear_margins(W, ROWS, [0, 1], [0, 0]), "b"),
    (lambda: linear_margins(W, ROWS + np.nan, [0, 1]), "NaN"),
    (lambda: linear_margins(W, ROWS, [0]), "y"),
    (lambda: linear_margins(W, ROWS, [0, 3]), "indices"),
    (lambda: linear_margins(W, ROWS, ["a", "b"]), "indices"),
    (lambda: margins(AttackedNetwork(nn.Linear(3, 2)), ROWS[0], [0]), "X"),
    (lambda: margins(AttackedNetwork(nn.Linear(3, 2)), ROWS + np.inf, [0, 1]), "finite"),
    (lambda: margins(AttackedNetwork(nn.Linear(3, 2)), ROWS, [0, 2]), "indices"),
    (lambda: margins(AttackedFleet(Fleet((3, 2), [0], 4, torch.float32, torch.device("cpu"))), ROWS, [0, 1]),
     "models"),
    (lambda: margins(AttackedNetwork(nn.Linear(3, 2)), ROWS, [0, 1], method="exact"), "method="),
    (lambda: margins(AttackedNetwork(nn.Linear(3, 2)), ROWS, [0, 1], space="latent"), "space="),
    (lambda: margins(AttackedNetwork(nn.Linear(3, 2)), ROWS, [0, 1], steps=-1), "steps="),
    (lambda: margins(AttackedNetwork(nn.Linear(3, 2)), ROWS, [0, 1], tolerance=0), "tolerance="),
    (lambda: margins(LinearRegression().fit(W, np.ones(3)), W, [0, 1, 1]), "classes_"),
    (lambda: margins(LogisticRegression(), W, [0, 1, 1]), "not fitted"),
    (lambda: margins(LogisticRegression().fit(W, [0, 1, 1]), W, [0, 1, 2]), "labels"),
])  # fmt: skip
def test_bad_input_raises(call: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        call()
