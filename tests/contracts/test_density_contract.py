"""Contract of the class densities, over one list of instances."""

import pickle
import warnings
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import trapezoid
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch.distributions import Independent, Laplace

from genlabel.densities import (
    ClassDensity,
    DensityWarning,
    DiscriminantDensity,
    FlowDensity,
    ForestDensity,
    GANDensity,
    GaussianDensity,
    KernelDensity,
    MixtureDensity,
    PerClassDensity,
    PowerTransformedDensity,
    StackedDensity,
    VAEDensity,
    fixed_gaussians,
)
from genlabel.densities.base import FixedDensity
from genlabel.densities.neural import NeuralDensity
from genlabel.densities.stacked import WeightedDensities
from genlabel.densities.transformed import LatentDensity
from genlabel.registry import DENSITIES as REGISTERED
from genlabel.testing import check_density
from genlabel.training.networks import MLP


class LaplaceDensity(PerClassDensity):
    """A density of a user, with one method."""

    def _fit_class(self, sample: Any) -> Any:
        center = sample.X.median(0).values
        return Independent(Laplace(center, (sample.X - center).abs().mean(0) + 1e-3), 1)


QUICK: dict[str, Any] = {"hidden": (8,), "epochs": 4, "random_state": 0}
FLOWS = [FlowDensity(transforms=2, bins=4, **QUICK), FlowDensity("maf", transforms=2, **QUICK)]
NETWORK = MLP(3, 3, hidden=(6,), seed=0, dtype=torch.float64)
DENSITIES: list[ClassDensity] = [
    GaussianDensity(),
    GaussianDensity(shrinkage="ledoit-wolf"),
    GaussianDensity(shrinkage=0.3, reg=0.0),
    KernelDensity(),
    KernelDensity("silverman", leave_one_out=True),
    KernelDensity(0.4),
    KernelDensity("likelihood"),
    KernelDensity(covariance="shrunk"),
    KernelDensity(0.5, covariance="shared"),
    DiscriminantDensity(),
    DiscriminantDensity(0.5, 0.3, "diagonal"),
    MixtureDensity(),
    MixtureDensity(2, "diagonal"),
    ForestDensity(),
    ForestDensity(8, min_samples_leaf=3, max_features=2, max_points=60, random_state=3),
    PowerTransformedDensity(MixtureDensity(2)),
    WeightedDensities([DiscriminantDensity(), KernelDensity(0.5)], [0.3, 0.7], [1.0, 2.0], standardize=True),
    StackedDensity(
        [DiscriminantDensity(), PowerTransformedDensity(KernelDensity(0.5)), MixtureDensity(2)], cross_fit=True
    ),
    LaplaceDensity(),
    fixed_gaussians([[0.0] * 3, [1.0] * 3, [2.0] * 3]),
    LatentDensity(NETWORK, 1, GaussianDensity(shrinkage=0.2)),
    VAEDensity(n_samples=8, **QUICK),
    VAEDensity(2, noise=0.5, n_samples=1, train_samples=1, **QUICK),
    *(FLOWS if find_spec("zuko") else []),
    GANDensity("l1", hidden=(8,), steps=20, min_coverage=0.0, random_state=0),
    GANDensity("l2", hidden=(8,), steps=20, min_coverage=0.0, random_state=0, encoder=None, penalty=0.1),
    GANDensity(
        "linf", hidden=(8,), steps=20, min_coverage=0.0, random_state=0, standardize=True, scale=1.0, encoder="bigan"
    ),
]
UNTESTED = set(REGISTERED.classes().values()) - {type(density) for density in DENSITIES} - {FlowDensity}  # needs zuko
DENSITIES += [REGISTERED.create(name) for name, cls in REGISTERED.classes().items() if cls in UNTESTED]
LEARNED = [d for d in DENSITIES if isinstance(d, GaussianDensity | KernelDensity | DiscriminantDensity)]
TRAINED = [d for d in DENSITIES if isinstance(d, NeuralDensity)]
SMOOTH = [
    d for d in DENSITIES if isinstance(d, MixtureDensity | PowerTransformedDensity | WeightedDensities | StackedDensity)
] + TRAINED
# The distances in L1 and L-infinity have kinks, and a nearest point is where coordinates meet them.
DIFFERENTIABLE = [d for d in DENSITIES if getattr(d, "norm", "l2") == "l2"]
every = pytest.mark.parametrize("density", DENSITIES, ids=repr)
learned = pytest.mark.parametrize("density", LEARNED, ids=repr)


def sample(seed: int = 0, n: int = 90, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % 3)
    return rng.normal(size=(n, d)) * (1 + y[:, None]) + 2 * y[:, None], y


@cache
def fitted_once(number: int) -> ClassDensity:
    X, y = sample()
    return clone(DENSITIES[number]).fit(X, y)


def fit_sample(density: ClassDensity) -> ClassDensity:
    """Return the density fitted to the sample, shared by all tests; tests must not change it."""
    return fitted_once(next(number for number, instance in enumerate(DENSITIES) if instance is density))


@every
def test_check_density(density: ClassDensity) -> None:
    trained = isinstance(density, GANDensity)  # trained in float32
    check_density(density, rtol=1e-3 if trained else 1e-9, symmetric=not isinstance(density, FixedDensity))


CHECKED = {type(density): density for density in reversed(DENSITIES)}
for cls in (FixedDensity, LatentDensity, WeightedDensities):  # given models accept only the tables that they know
    del CHECKED[cls]
del CHECKED[PowerTransformedDensity]  # its parameter `transform` looks like the method of a transformer


def expected_failures(density: Any) -> dict[str, str]:
    if isinstance(density, StackedDensity):
        return {"check_sample_weight_equivalence_on_dense_data": "the check's folds name rows that only one table has"}
    return {}


@parametrize_with_checks(list(CHECKED.values()), expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@every
def test_columns_follow_the_sorted_classes(density: ClassDensity) -> None:
    X, y = sample()
    numbers = fit_sample(density).log_prob(X)
    with_names = clone(density).fit(X, np.array(["a", "b", "c"])[y])
    assert with_names.classes_.tolist() == ["a", "b", "c"]
    assert with_names.log_prob(X).shape == (90, 3)
    np.testing.assert_allclose(with_names.log_prob(X), numbers, rtol=1e-12)
    swapped = clone(density).fit(X, np.array(["c", "b", "a"])[y]).log_prob(X)
    if not hasattr(density, "models"):
        rounding = 1e-3 if isinstance(density, GANDensity) else 1e-12  # trained in float32, and a search after it
        np.testing.assert_allclose(swapped[:, ::-1], numbers, rtol=rounding)


@every
def test_output_type_and_dtype_follow_the_query(density: ClassDensity) -> None:
    X, y = sample()
    fitted = fit_sample(density)
    exact = fitted.log_prob(X)
    assert isinstance(exact, np.ndarray)
    assert exact.dtype == np.float64
    assert fitted.log_prob(X.astype(np.float32)).dtype == np.float64
    double = fitted.log_prob(torch.from_numpy(X))
    single = fitted.log_prob(torch.from_numpy(X).float())
    assert (double.dtype, single.dtype) == (torch.float64, torch.float32)
    np.testing.assert_array_equal(double.numpy(), exact)
    if not getattr(density, "leave_one_out", False):  # a float32 query differs from the training point
        np.testing.assert_allclose(single.numpy(), exact, atol=1e-3, rtol=1e-4)
    from_torch = clone(density).fit(torch.from_numpy(X), torch.from_numpy(y))
    np.testing.assert_allclose(from_torch.log_prob(X), exact, rtol=1e-12)


@every
def test_chunks_of_rows_give_the_same_result(density: ClassDensity, monkeypatch: pytest.MonkeyPatch) -> None:
    X, _ = sample()
    fitted = fit_sample(density)
    whole = fitted.log_prob(X)
    monkeypatch.setattr(ClassDensity, "chunk_rows", 7)
    monkeypatch.setattr("genlabel.densities.kernel.CHUNK_KERNELS", 100)
    np.testing.assert_allclose(fitted.log_prob(X), whole, rtol=1e-10)
    # A search in a norm with kinks stops before it has converged: rounding, which is another for a single row, shows.
    tolerance = 1e-10 if getattr(density, "norm", "l2") == "l2" else 5e-3
    np.testing.assert_allclose(fitted.log_prob(X[41:42]), whole[41:42], rtol=tolerance)
    assert fitted.log_prob(X[:0]).shape == (0, 3)


@pytest.mark.parametrize("density", DIFFERENTIABLE, ids=repr)
def test_gradient_equals_finite_differences(density: ClassDensity) -> None:
    X, _ = sample()
    fitted = fit_sample(density)
    queries, step = X[:7] + 0.013, 1e-5
    result = fitted.gradient(queries)
    moves, manifolds = step * np.eye(3), fitted.manifolds()

    def value(points: np.ndarray) -> np.ndarray:
        if manifolds is None:
            return fitted.log_prob(points)
        frozen = manifolds.project(torch.from_numpy(queries))  # the gradient keeps the nearest point fixed
        return manifolds.log_prob_near(torch.from_numpy(points), frozen).numpy()

    expected = np.stack([value(queries + move) - value(queries - move) for move in moves], -1)
    assert result.shape == (7, 3, 3)
    np.testing.assert_allclose(result, expected / (2 * step), rtol=1e-5, atol=1e-5)
    single = fitted.gradient(torch.from_numpy(queries).float())
    assert single.dtype == torch.float32
    assert not single.requires_grad
    assert fitted.gradient(X[:0]).shape == (0, 3, 3)


@every
def test_far_points_are_not_nan(density: ClassDensity) -> None:
    fitted = fit_sample(density)
    for far in (torch.full((1, 3), 1e308, dtype=torch.float64), torch.full((1, 3), 1e38)):
        assert not fitted.log_prob(far).isnan().any()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@every
def test_results_are_on_the_gpu_of_the_query(density: ClassDensity) -> None:
    X, y = sample()
    fitted = clone(density).fit(X, y)
    log_prob = fitted.log_prob(torch.from_numpy(X).cuda())
    assert log_prob.is_cuda
    np.testing.assert_allclose(log_prob.cpu().numpy(), fitted.log_prob(X), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("density", LEARNED + SMOOTH, ids=repr)
def test_normalized_weights_give_the_same_density(density: ClassDensity) -> None:
    X, y = sample()
    plain = fit_sample(density).log_prob(X)
    np.testing.assert_allclose(clone(density).fit(X, y, np.full(90, 1 / 90)).log_prob(X), plain, rtol=1e-9)


@pytest.mark.parametrize("result, error, match", [
    (None, TypeError, "log_prob"),
    (Laplace(torch.zeros(3), 1.0), ValueError, "shape"),
])  # fmt: skip
def test_a_bad_class_model_raises(result: object, error: type[Exception], match: str) -> None:
    class Wrong(PerClassDensity):
        def _fit_class(self, sample: Any) -> Any:
            return result

    X, y = sample()
    with pytest.raises(error, match=match):
        Wrong().fit(X, y).log_prob(X)


@every
def test_clone_pickle_and_refit_give_the_same(density: ClassDensity) -> None:
    X, y = sample()
    fitted = fit_sample(density)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.log_prob(X), fitted.log_prob(X))
    np.testing.assert_array_equal(clone(fitted).fit(X, y).log_prob(X), fitted.log_prob(X))
    assert not hasattr(clone(fitted), "classes_")


def is_plain(value: Any) -> bool:
    """Return whether a value consists of arrays, numbers and strings in (named) tuples, lists and dicts."""
    if isinstance(value, ClassDensity):
        return all(map(is_plain, fitted_state(value).values()))
    if isinstance(value, dict):
        return all(map(is_plain, [*value.keys(), *value.values()]))
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biufU"
    return value is None or isinstance(value, torch.Tensor | str | bool | int | float | np.number)


def fitted_state(density: ClassDensity) -> dict[str, Any]:
    """Return the attributes that `fit` and later calls have set."""
    state = {name: value for name, value in vars(density).items() if name not in density.get_params(deep=False)}
    if isinstance(density, FixedDensity | LaplaceDensity):
        del state["models_"]  # distributions of the user
    return state


@every
def test_fitted_state_is_plain_arrays_in_named_tuples(density: ClassDensity) -> None:
    X, y = sample()
    fitted = clone(density).fit(X, np.array(["a", "b", "c"])[y])
    fitted.log_prob(X)
    state = fitted_state(fitted)
    assert {"classes_", "class_prior_", "n_features_in_"} <= set(state)
    assert {name: value for name, value in state.items() if not is_plain(value)} == {}


def test_cached_distances_are_plain_arrays() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 64)), np.arange(150) % 2
    fitted = GaussianDensity("ledoit-wolf").fit(X, y)
    before = set(vars(fitted))
    rows = np.arange(150)[::-1]  # torch does not accept a view with negative strides
    result = fitted.log_prob_of_pairs(X[rows], rows, rows, np.ones(150), X)
    np.testing.assert_allclose(result, fitted.log_prob(X)[rows], rtol=1e-8)
    assert set(vars(fitted)) > before
    assert is_plain(fitted)


class RecordingDensity(ClassDensity):
    """A density that is fitted in float32, on the device of the points, and stores the arguments of its `_fit`."""

    fit_dtype = torch.float32
    fit_device = None

    def _fit(self, X: torch.Tensor, index: torch.Tensor, weight: torch.Tensor) -> None:
        self.fit_inputs_ = (X, index, weight)
        self.means_ = torch.stack([X[index == c].mean(0) for c in range(len(self.classes_))])

    def _log_prob(self, X: torch.Tensor) -> torch.Tensor:
        return -0.5 * ((X[:, None] - self.means_.to(X)) ** 2).sum(-1)


class RecordingPerClass(PerClassDensity):
    """The same for each class separately."""

    fit_dtype = torch.float32
    fit_device = None
    native = True

    def _fit_class(self, sample: Any) -> Any:
        assert sample.X.device == sample.weight.device == sample.pooled.device
        self.fit_inputs_ = (sample.X, sample.weight, sample.pooled)
        return Independent(Laplace(sample.X.mean(0), sample.pooled.diagonal().sqrt()), 1)


RECORDING = [RecordingDensity(), RecordingPerClass(), PowerTransformedDensity(RecordingDensity())]


@pytest.mark.parametrize("density", RECORDING, ids=repr)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "device",
    ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))],
)
def test_fit_dtype_and_fit_device(density: ClassDensity, weighted: bool, device: str) -> None:
    X, y = sample()
    weight = np.where(np.arange(90) < 10, 0.0, 1.0) if weighted else None
    fitted = clone(density).fit(torch.from_numpy(X).to(device), y, weight)
    inner = getattr(fitted, "density_", fitted)
    expected_device = "cpu" if inner is not fitted else device  # a wrapper without fit_device works on the CPU
    for part in inner.fit_inputs_:
        assert part.device.type == expected_device
        assert part.dtype in (torch.float32, torch.int64)
    assert np.asarray(fitted.class_prior_).dtype == np.float64
    log_prob = fitted.log_prob(torch.from_numpy(X).float().to(device))
    assert (log_prob.dtype, log_prob.device.type) == (torch.float32, device)
    used = slice(10, None) if weighted else slice(None)
    np.testing.assert_allclose(fitted.class_prior_, np.bincount(y[used]) / len(y[used]))
    expected = clone(density).fit(X[used], y[used])
    np.testing.assert_allclose(expected.log_prob(X), log_prob.cpu(), rtol=1e-3, atol=1e-3)


def test_fit_is_in_float64_on_the_cpu_by_default() -> None:
    class Keeps(RecordingDensity):
        fit_dtype = ClassDensity.fit_dtype
        fit_device = ClassDensity.fit_device

    X, y = sample()
    for inputs in (X, X.astype(np.float32), torch.from_numpy(X).float(), X.tolist()):
        points, index, weight = Keeps().fit(inputs, y).fit_inputs_
        assert points.dtype == weight.dtype == torch.float64
        assert points.device.type == index.device.type == "cpu"


@learned
def test_integrates_to_one(density: ClassDensity) -> None:
    """Integrate each p_c on a line by the trapezoid rule."""
    rng = np.random.default_rng(1)
    X, y = np.concatenate([rng.normal(size=30), rng.normal(4, 2, size=30)])[:, None], np.repeat([0, 1], 30)
    grid = np.linspace(-30, 40, 70001)[:, None]
    p = np.exp(clone(density).fit(X, y).log_prob(grid))
    np.testing.assert_allclose(trapezoid(p, grid[:, 0], axis=0), 1.0, atol=1e-6)


@learned
def test_integer_weights_equal_repetitions(density: ClassDensity) -> None:
    X, y = sample()
    weight = np.random.default_rng(2).integers(0, 2, size=len(X)).astype(float)
    absent = clone(density).fit(X[weight > 0], y[weight > 0]).log_prob(X)
    np.testing.assert_allclose(clone(density).fit(X, y, weight).log_prob(X), absent, rtol=1e-10)
    if isinstance(density, GaussianDensity | DiscriminantDensity):
        weight += np.arange(len(X)) % 3
        repeated = np.repeat(np.arange(len(X)), weight.astype(int))
        expected = clone(density).fit(X[repeated], y[repeated]).log_prob(X)
        np.testing.assert_allclose(clone(density).fit(X, y, weight).log_prob(X), expected, rtol=1e-9)


AWKWARD = {
    "one point": lambda r: np.vstack([r.normal(size=(20, 3)), [[5.0, 5.0, 5.0]]]),
    "two points": lambda r: np.vstack([r.normal(size=(20, 3)), r.normal(size=(2, 3))]),
    "equal points": lambda r: np.vstack([r.normal(size=(20, 3)), np.ones((6, 3))]),
    "constant column": lambda r: np.hstack([r.normal(size=(30, 2)), np.ones((30, 1))]),
    "constant in one class": lambda r: np.hstack(
        [r.normal(size=(30, 2)), np.where(np.arange(30) < 20, r.normal(size=30), 0.1)[:, None]]
    ),
    "copied column": lambda r: (lambda Z: np.hstack([Z, Z[:, :1]]))(r.normal(size=(30, 2))),
    "scales 1e-12 and 1e12": lambda r: r.normal(size=(30, 3)) * [1e-12, 1.0, 1e12],
}


@pytest.mark.parametrize("density", SMOOTH, ids=repr)
@pytest.mark.parametrize("case", AWKWARD)
@pytest.mark.filterwarnings("ignore::genlabel.densities.DensityWarning", "ignore:cv=6 folds")
def test_degenerate_classes_are_finite(density: ClassDensity, case: str) -> None:
    X = AWKWARD[case](np.random.default_rng(0))
    fitted = clone(density).fit(X, np.where(np.arange(len(X)) < 20, "fine", "odd"))
    values = fitted.log_prob(np.vstack([X, X.mean(0) + 3 * X.std(0), 1e6 * np.ones(3)]))
    assert not np.isnan(values).any()
    assert np.isfinite(values[: len(X)]).all()
    assert values[: len(X)].max() < 100


@learned
@pytest.mark.parametrize("case", AWKWARD)
def test_degenerate_classes_are_finite_and_warn(density: ClassDensity, case: str) -> None:
    X = AWKWARD[case](np.random.default_rng(0))
    y = np.where(np.arange(len(X)) < 20, "fine", "odd")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = clone(density).fit(X, y)
    queries = np.vstack([X, X.mean(0) + 3 * X.std(0), 1e6 * np.ones(3)])
    values = fitted.log_prob(queries)
    assert not np.isnan(values).any()
    assert not np.isposinf(values).any()
    assert values[: len(X)].max() < 100 or "1e-12" in case  # no class is a spike
    messages = [str(w.message) for w in caught]
    assert all(issubclass(w.category, DensityWarning) for w in caught)
    assert len(messages) == len(set(messages))
    if getattr(density, "covariance", None) == "shared":
        return  # the shared covariance is never degenerate
    is_regularized = isinstance(density, GaussianDensity | DiscriminantDensity) and (
        density.reg > 0 or density.shrinkage is not None
    )
    shrunk = isinstance(density, DiscriminantDensity) or getattr(density, "covariance", None) == "shrunk"
    is_regularized = is_regularized or shrunk
    if case in ("one point", "equal points") or (
        case == "two points" and not getattr(density, "shrinkage", None) and not shrunk
    ):
        assert any("'odd'" in m and type(density).__name__ in m for m in messages)
    elif case in ("copied column", "constant in one class") and not is_regularized:
        assert any("'odd'" in m and "singular" in m for m in messages)


@learned
@given(shift=st.floats(-50, 50), scale=st.floats(0.01, 100))
def test_an_affine_map_changes_the_density_by_its_jacobian(density: ClassDensity, shift: float, scale: float) -> None:
    """log p(a x + b) = log p(x) - d log a if nothing is added to the covariance."""
    free = clone(density)
    if isinstance(free, GaussianDensity | DiscriminantDensity):
        free.set_params(reg=0.0)
    X, y = sample()
    before = free.fit(X, y).log_prob(X)
    after = clone(free).fit(scale * X + shift, y).log_prob(scale * X + shift)
    np.testing.assert_allclose(after, before - 3 * np.log(scale), rtol=1e-6, atol=1e-6)


@every
def test_bad_input_raises(density: ClassDensity) -> None:
    X, y = sample()
    bad = X.copy()
    bad[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        clone(density).fit(bad, y)
    with pytest.raises(ValueError, match="shapes"):
        clone(density).fit(X, y[:5])
    with pytest.raises(ValueError, match="samples"):
        clone(density).fit(X[:0], y[:0])
    for weight, match in ((-np.ones(90), "non-negative"), (np.full(90, np.nan), "finite"), (np.ones(5), r"\(5,\)")):
        with pytest.raises(ValueError, match=match):
            clone(density).fit(X, y, weight)
    with pytest.raises(ValueError, match="NaN"):
        clone(density).fit(X, np.where(y == 0, np.nan, y))
    with pytest.raises(ValueError, match="features"):
        fit_sample(density).log_prob(X[:, :2])
    with pytest.raises(NotFittedError):
        clone(density).log_prob(X)
