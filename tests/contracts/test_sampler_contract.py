"""Contract of samplers: `check_sampler` for every sampler of genlabel, and properties of their parameters."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from genlabel import GaussianDensity, GenLabelSampler, GenMix, KernelDensity
from genlabel.densities import MixtureDensity, StackedDensity, fixed_gaussians
from genlabel.registry import SAMPLERS as REGISTRY
from genlabel.testing import check_sampler

SAMPLERS: list[Any] = [
    *(REGISTRY.create(name).set_params(random_state=0) for name in REGISTRY.names()),
    GenMix(GaussianDensity(), n_aug=50, lam="uniform", standardize=True, random_state=0),
    GenMix("kernel", n_aug=0.5, lam=(0.2, 0.6), random_state=0),
    GenMix(MixtureDensity(2), n_aug=31, lam=0.3, random_state=0),
    GenMix(fixed_gaussians([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]]), random_state=0),
    GenLabelSampler(KernelDensity(), gamma=0.5, alpha=2.0, n_aug=2.5, standardize=True, random_state=0),
    GenLabelSampler(StackedDensity([MixtureDensity(2), KernelDensity(0.5)], cv=3, cross_fit=True), random_state=0),
    GenLabelSampler(gamma=0.0, n_aug=7, random_state=0),
]
every = pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)


def sample(seed: int = 0, n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % 3)
    return rng.normal(size=(n, 2)) + 4.0 * np.array([[0, 0], [1, 0], [0, 1]])[y], y


def expected_count(sampler: Any, n: int = 120) -> int:
    return sampler.n_aug if isinstance(sampler.n_aug, int) else round(sampler.n_aug * n)


def resampled(sampler: Any, X: Any, y: Any, **params: Any) -> tuple[Any, Any, Any]:
    fresh = clone(sampler).set_params(**params)
    return (*fresh.fit_resample(X, y), fresh)


@every
def test_sampler_contract(sampler: Any) -> None:
    check_sampler(sampler)


@every
def test_the_number_of_points_is_n_aug(sampler: Any) -> None:
    points, _, fresh = resampled(sampler, *sample())
    assert points.shape == (120 + expected_count(sampler), 2)
    assert len(fresh.pair_) == expected_count(sampler)


@every
def test_hard_classes_are_drawn_in_proportion_to_the_soft_label(sampler: Any) -> None:
    X, y = sample()
    _, soft, _ = resampled(sampler, X, y, output="soft", n_aug=3000)
    _, hard, _ = resampled(sampler, X, y, n_aug=3000)
    drawn, expected = np.eye(3)[hard[120:]].mean(0), soft[120:].mean(0)
    np.testing.assert_allclose(drawn, expected, atol=4 * np.sqrt(0.25 / 3000))
    assert (soft[120:][np.arange(3000), hard[120:]] > 0).all()


@every
def test_dtypes_are_unchanged_or_become_floating(sampler: Any) -> None:
    X, y = sample()
    assert resampled(sampler, X.astype(np.float32), y.astype(np.int8))[0].dtype == np.float32
    assert resampled(sampler, X.astype(np.float32), y.astype(np.int8))[1].dtype == np.int8
    whole = (10 * X).astype(int) if "known" not in repr(sampler).lower() else X.astype(int)
    frame = pd.DataFrame({"a": whole[:, 0], "b": X[:, 1].astype(np.float32)})
    more = resampled(sampler, frame, y)[0]
    assert [str(kind) for kind in more.dtypes] == ["float64", "float32"]
    np.testing.assert_array_equal(more["a"][:120], whole[:, 0])
    sparse = frame.astype(pd.SparseDtype(float, 0))
    assert all(isinstance(kind, pd.SparseDtype) for kind in resampled(sampler, sparse, y)[0].dtypes)


@pytest.mark.parametrize("output", ["hard", "soft", "weighted"])
def test_labels_are_returned_in_the_form_in_which_they_were_given(output: str) -> None:
    X, y = sample()
    sampler = GenLabelSampler(n_aug=7, random_state=0)
    _, expected, fitted = resampled(sampler, X, y, output=output)
    column, frame = y[:, None], pd.DataFrame({"kind": y})
    for given, kind in ((y.tolist(), list), (column, np.ndarray), (frame, pd.DataFrame)):
        labels = resampled(sampler, X, given, output=output)[1]
        assert type(labels) is kind
        assert np.shape(labels)[1:] == ((3,) if output == "soft" else np.shape(given)[1:])
        np.testing.assert_array_equal(np.ravel(labels), np.ravel(expected))
    one_hot = pd.DataFrame(np.eye(3, dtype=int)[y], columns=["a", "b", "c"])
    labels = resampled(sampler, X, one_hot, output=output)[1]
    assert isinstance(labels, pd.DataFrame)
    assert sum(fitted.sampling_strategy_.values()) == fitted.is_synthetic_.sum()
    if output != "soft":
        assert labels.columns.tolist() == ["a", "b", "c"]
        np.testing.assert_array_equal(labels.to_numpy().argmax(1), expected)
    for wrong in (np.ones((120, 3)), np.full((120, 2), 0.5), np.zeros((120, 2), int)):
        with pytest.raises(ValueError, match="one-hot"):
            resampled(sampler, X, wrong, output=output)


@pytest.mark.parametrize("sampler", [GenMix(GaussianDensity()), GenLabelSampler(GaussianDensity())], ids=repr)
def test_checks_of_imbalanced_learn(sampler: Any) -> None:
    """Checks of sparse tables, missing values and strings are left out: the tags refuse them."""
    checks = pytest.importorskip("imblearn.utils.estimator_checks", reason="needs imbalanced-learn")
    names = set()
    for instance, check in checks.estimator_checks_generator(sampler.set_params(random_state=0)):
        check(instance)
        names.add(check.func.__name__)
    assert len(names) >= 14
    assert not {"check_samplers_sparse", "check_samplers_nan", "check_samplers_string"} & names


@every
@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"n_aug": 0}, "n_aug=0"),
        ({"n_aug": -0.5}, "n_aug=-0.5"),
        ({"n_aug": "all"}, "n_aug='all'"),
        ({"output": "softly"}, "output='softly'"),
        ({"density": "gausian"}, "density='gausian'"),
        ({"density": "auto"}, "density='auto'"),
    ],
)
def test_bad_parameters_raise(sampler: Any, params: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        resampled(sampler, *sample(), **params)
