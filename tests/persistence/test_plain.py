"""Encoding as JSON values and arrays: restored to the last bit, or refused."""

import json
import math
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from torch.distributions import Independent, Laplace

import genlabel.densities
from genlabel.densities import (
    ClassDensity,
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
from genlabel.densities.neural import NeuralDensity
from genlabel.densities.stacked import WeightedDensities
from genlabel.densities.transformed import LatentDensity
from genlabel.estimators import Typicality
from genlabel.persistence.files import Decoder, Encoder
from genlabel.persistence.objects import PersistenceError, saved_name
from genlabel.training.networks import MLP
from genlabel.training.networks.staged import Ensemble

QUICK: dict[str, Any] = {"hidden": (8,), "epochs": 3, "random_state": 0}
DENSITIES: list[ClassDensity] = [
    GaussianDensity(),
    GaussianDensity("ledoit-wolf"),
    KernelDensity("likelihood"),
    KernelDensity(0.5, covariance="shared", leave_one_out=True),
    DiscriminantDensity(0.5, 0.3, "diagonal"),
    MixtureDensity(2),
    ForestDensity(8, min_samples_leaf=3, random_state=3),
    PowerTransformedDensity(MixtureDensity(2, "diagonal")),
    WeightedDensities(
        [PowerTransformedDensity(KernelDensity(0.5)), DiscriminantDensity()], [0.3, 0.7], [1.0, 2.0], standardize=True
    ),
    StackedDensity(
        [DiscriminantDensity(), PowerTransformedDensity(KernelDensity(0.5)), MixtureDensity(2)], cross_fit=True
    ),
    fixed_gaussians([[0.0] * 3, [1.0] * 3, [2.0] * 3]),
    LatentDensity(MLP(3, 3, hidden=(6,), seed=0, dtype=torch.float64), 1, GaussianDensity(shrinkage=0.2)),
    VAEDensity(n_samples=8, **QUICK),
    *([FlowDensity(transforms=2, bins=4, **QUICK)] if find_spec("zuko") else []),
    GANDensity("l1", hidden=(8,), steps=20, min_coverage=0.0, random_state=0),
]


def sample(n: int = 90, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(n) % 3)
    return rng.normal(size=(n, d)) * (1 + y[:, None]) + 2 * y[:, None], y


def through_files(value: Any) -> Any:
    """Return a value that was encoded as JSON and copied arrays."""
    encoder = Encoder()
    tree = encoder.encode(value, "value")
    objects, tree = json.loads(json.dumps([encoder.objects, tree], allow_nan=False))
    return Decoder(objects, {name: array.copy() for name, array in encoder.arrays.items()}).decode(tree)


def same(one: Any, other: Any) -> bool:
    """Return whether two plain values have the same types throughout and are equal to the last bit; NaN equals NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, float):
        return (
            math.isnan(other) if math.isnan(one) else (one, math.copysign(1, one)) == (other, math.copysign(1, other))
        )
    return bool(one == other)


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text() | st.integers() | st.tuples(st.integers(), st.integers()), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(TREES)
def test_plain_values_are_restored(value: Any) -> None:
    assert same(through_files(value), value)


@pytest.mark.parametrize(
    "value", [np.float32(0.1), np.int64(-3), np.bool_(True), np.str_("a"), np.float64("nan")], ids=repr
)
def test_single_numbers_keep_their_type(value: Any) -> None:
    restored = through_files([value])[0]
    assert type(restored) is type(value)
    assert restored == value or value != value


BASE = np.arange(24.0).reshape(4, 6)
ARRAYS = {
    "rows first": BASE,
    "columns first": np.asfortranarray(BASE),
    "turned": BASE.reshape(2, 3, 4).transpose(0, 2, 1),
    "some": BASE[::2, 1:],
    "backwards": BASE[::-1],
    "one number": np.array(3.5),
    "none": np.empty((0, 3)),
    "single": BASE.astype(np.float32),
    "other end": BASE.astype(">f8"),
    "whole": np.arange(5, dtype=np.uint16),
    "flags": np.array([True, False]),
    "texts": np.array([["a", "longer"], ["", "ä"]]),
    "objects": np.array(["a", None, 3, 2.5, ("b", 1)], dtype=object),
}


@pytest.mark.parametrize("name", list(ARRAYS))
def test_arrays_are_restored_with_their_shape_and_order_in_memory(name: str) -> None:
    value = ARRAYS[name]
    restored = through_files(value)
    np.testing.assert_array_equal(restored, value)
    assert (restored.shape, restored.dtype) == (value.shape, value.dtype.newbyteorder("="))
    assert restored.flags.writeable
    if value.flags.forc or name == "turned":
        assert restored.strides == value.strides


@pytest.mark.parametrize("name", ["rows first", "columns first", "turned", "one number", "none", "single", "flags"])
def test_tensors_are_restored_with_their_strides(name: str) -> None:
    value = torch.from_numpy(ARRAYS[name])
    restored = through_files(value)
    assert torch.equal(restored, value)
    assert (restored.dtype, restored.stride()) == (value.dtype, value.stride())


@pytest.mark.parametrize("density", DENSITIES, ids=repr)
def test_a_restored_density_is_equal_to_the_last_bit(density: ClassDensity) -> None:
    X, y = sample()
    fitted = clone(density).fit(X, np.array(["a", "b", "c"])[y])
    again = through_files(fitted)
    assert type(again) is type(fitted)
    assert set(vars(again)) == set(fitted.__getstate__())
    np.testing.assert_array_equal(again.log_prob(X + 0.1), fitted.log_prob(X + 0.1))
    if fitted.cross_fitted:
        rows = np.arange(90)
        pairs = [density.log_prob_of_pairs(X, rows, rows[::-1]) for density in (again, fitted)]
        np.testing.assert_array_equal(*pairs)


@pytest.mark.parametrize("d", [3, 120])
def test_restored_typicality_is_equal_to_the_last_bit(d: int) -> None:
    X, y = sample(d=d)
    X[:, 0] = X[:, 0].round()
    fitted = Typicality().fit(X, y)
    again = through_files(fitted)
    np.testing.assert_array_equal(again(X), fitted(X))
    np.testing.assert_array_equal(again.columns(X[:1]), fitted.columns(X[:1]))


def test_a_density_of_more_columns_than_rows_is_restored() -> None:
    X, y = sample(30, 200)
    fitted = DiscriminantDensity(0.3, 0.3).fit(X, y)
    np.testing.assert_array_equal(through_files(fitted).log_prob(X), fitted.log_prob(X))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_restored_networks_are_equal_to_the_last_bit(dtype: torch.dtype) -> None:
    networks = [MLP(4, 3, hidden, seed=0, dtype=dtype) for hidden in ((), (8,), (8, 5))]
    ensemble = Ensemble(networks, 0.7, torch.tensor([0.2, 0.3, 0.5], dtype=dtype).log(), 0.1)
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(10, 4))).to(dtype)
    for network in (*networks, ensemble):
        assert torch.equal(through_files(network)(x), network(x))


def test_shared_objects_are_written_once_and_stay_shared() -> None:
    X, y = sample()
    fitted = StackedDensity(
        [PowerTransformedDensity(KernelDensity(0.5)), PowerTransformedDensity(MixtureDensity(2))]
    ).fit(X, y)
    again = through_files(fitted)
    assert all(one is other for one, other in zip(again.members_, again.stack_.members_, strict=True))
    assert again.members_[0].transform_ is again.stack_.transform_


class FlatDensity(PerClassDensity):
    """A density by a user, the same for all classes."""

    def _fit_class(self, sample: Any) -> Any:
        return Independent(Laplace(torch.zeros(3).double(), 100.0), 1)


@pytest.mark.parametrize(
    "value", [object(), len, lambda x: x, {1, 2}, b"bytes", np.array(["2020-01-01"], "datetime64[D]"), FlatDensity()],
    ids=["object", "function", "lambda", "set", "bytes", "dates", "density"],
)  # fmt: skip
def test_an_object_that_cannot_be_saved_is_named_by_its_path(value: Any) -> None:
    with pytest.raises(PersistenceError, match=r"^model\.1 is "):
        Encoder().encode([0, value], "model")


def test_candidates_of_a_stacked_density_are_optional_and_its_members_are_not() -> None:
    X, y = sample()
    fitted = StackedDensity([FlatDensity(), GaussianDensity()], method="select").fit(X, y)
    again = through_files(fitted)
    np.testing.assert_array_equal(again.log_prob(X), fitted.log_prob(X))
    assert again.candidates == "default"
    assert not hasattr(again, "candidates_")
    with pytest.raises(PersistenceError, match="FlatDensity"):
        Encoder().encode(StackedDensity([FlatDensity()]).fit(X, y), "model")


def test_all_densities_are_in_the_allow_list() -> None:
    public = {getattr(genlabel.densities, name) for name in genlabel.densities.__all__}
    final = {one for one in public if isinstance(one, type) and issubclass(one, ClassDensity)}
    final -= {ClassDensity, PerClassDensity, NeuralDensity}
    assert all(saved_name(cls) == cls.__name__ for cls in final)


BAD_TREES: dict[str, tuple[list[Any], Any, str]] = {
    "a class that is not known": ([{"class": "os.system", "state": {}}], 0, "class"),
    "a class by its module": ([{"class": "genlabel.densities.KernelDensity", "state": {}}], 0, "class"),
    "a function": ([], {"is": "function", "name": "builtins.eval"}, "kind"),
    "a kind that is not known": ([], {"is": "pickle", "value": "gASVAA=="}, "kind"),
    "a dunder": ([{"class": "KernelDensity", "state": {"__class__": "x"}}], 0, "fitted"),
    "a method": ([{"class": "KernelDensity", "state": {"log_prob": 1}}], 0, "fitted"),
    "a property": ([{"class": "GaussianDensity", "state": {"means_": 1}}], 0, "fitted"),
    "a folder of pickles": ([{"class": "Pipeline", "state": {"steps": [], "memory": "/tmp"}}], 0, "parameters"),
    "a class without its parameters": ([{"class": "LatentDensity", "state": {}}], 0, "parameters"),
    "a tuple of other fields": ([{"class": "PowerTransform", "state": {"lam": 1}}], 0, "power"),
    "weights of other shapes": ([{"class": "MLP", "state": {"sizes": [9, 9], "weights": []}}], 0, "shapes"),
    "a dtype of objects": ([], {"is": "number", "dtype": "object", "value": 1}, "dtype"),
    "texts of any size": ([], {"is": "values", "dtype": "str99999999999", "shape": [1], "items": ["a"]}, "dtype"),
}


@pytest.mark.parametrize("name", list(BAD_TREES))
def test_a_forged_tree_is_refused(name: str) -> None:
    objects, tree, keyword = BAD_TREES[name]
    with pytest.raises(ValueError, match=keyword):
        Decoder(objects, {}).decode(tree)


def test_an_object_refers_to_earlier_ones_only() -> None:
    objects = [{"class": "LinearLabel", "state": {"classes_": {"is": "object", "number": 0}}}]
    with pytest.raises(IndexError):
        Decoder(objects, {})
