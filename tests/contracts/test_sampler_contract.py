"""What every sampler must show, over one list of instances."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from genlabel import GaussianDensity, GenLabelSampler, GenMix, KernelDensity
from genlabel.densities import MixtureDensity, StackedDensity, fixed_gaussians
from genlabel.mixing import Sampler

SAMPLERS: list[Any] = [
    GenMix(random_state=0),
    GenMix(GaussianDensity(), n_aug=50, lam="uniform", standardize=True, random_state=0),
    GenMix("kernel", n_aug=0.5, lam=(0.2, 0.6), random_state=0),
    GenMix(MixtureDensity(2), n_aug=31, lam=0.3, random_state=0),
    GenMix(fixed_gaussians([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]]), random_state=0),
    GenLabelSampler(random_state=0),
    GenLabelSampler(KernelDensity(), gamma=0.5, alpha=2.0, n_aug=2.5, standardize=True, random_state=0),
    GenLabelSampler(StackedDensity([MixtureDensity(2), KernelDensity(0.5)], cv=3, cross_fit=True), random_state=0),
    GenLabelSampler(gamma=0.0, n_aug=7, random_state=0),
]
every = pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)


def sample(seed: int = 0, n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % 3)
    return rng.normal(size=(n, 2)) + 4.0 * np.array([[0, 0], [1, 0], [0, 1]])[y], y


def asked(sampler: Any, n: int = 120) -> int:
    return sampler.n_aug if isinstance(sampler.n_aug, int) else round(sampler.n_aug * n)


def resampled(sampler: Any, X: Any, y: Any, **params: Any) -> tuple[Any, Any, Any]:
    fresh = clone(sampler).set_params(**params)
    return (*fresh.fit_resample(X, y), fresh)


@every
def test_given_rows_come_first_and_every_row_is_accounted_for(sampler: Any) -> None:
    X, y = sample()
    more, labels, fresh = resampled(sampler, X, y)
    s = asked(sampler)
    assert isinstance(sampler, Sampler)
    np.testing.assert_array_equal(more[:120], X)
    np.testing.assert_array_equal(labels[:120], y)
    assert more.shape == (120 + s, 2)
    np.testing.assert_array_equal(fresh.is_synthetic_, np.arange(120 + s) >= 120)
    assert fresh.pair_.shape == (s, 2)
    assert fresh.lam_.shape == (s,)
    assert ((fresh.lam_ >= 0) & (fresh.lam_ <= 1)).all()
    assert fresh.n_features_in_ == 2


@every
def test_soft_labels_are_on_the_simplex_and_weighted_rows_say_the_same(sampler: Any) -> None:
    X, y = sample()
    soft_points, soft, first = resampled(sampler, X, y, output="soft")
    points, hard, fresh = resampled(sampler, X, y, output="weighted")
    np.testing.assert_array_equal(soft[:120], np.eye(3)[y])
    np.testing.assert_allclose(soft.sum(1), 1.0, atol=1e-12)
    assert (soft >= 0).all()
    assert fresh.sample_weight_.shape == hard.shape
    assert (fresh.sample_weight_[:120] == 1.0).all()
    made = fresh.is_synthetic_
    assert fresh.pair_.shape == (made.sum(), 2)
    rows, columns = (soft[120:] > 1e-6).nonzero()
    np.testing.assert_array_equal(points[made], soft_points[120:][rows])
    np.testing.assert_array_equal(hard[made], columns)
    np.testing.assert_array_equal(fresh.sample_weight_[made], soft[120:][rows, columns])
    np.testing.assert_array_equal(fresh.pair_, first.pair_[rows])
    assert not hasattr(first, "sample_weight_")


@every
def test_hard_classes_are_drawn_in_proportion_to_the_soft_label(sampler: Any) -> None:
    X, y = sample()
    _, soft, _ = resampled(sampler, X, y, output="soft", n_aug=3000)
    _, hard, _ = resampled(sampler, X, y, n_aug=3000)
    drawn, expected = np.eye(3)[hard[120:]].mean(0), soft[120:].mean(0)
    np.testing.assert_allclose(drawn, expected, atol=4 * np.sqrt(0.25 / 3000))
    assert (soft[120:][np.arange(3000), hard[120:]] > 0).all()


@every
def test_the_same_seed_gives_the_same_rows_and_another_gives_others(sampler: Any) -> None:
    X, y = sample()
    first, again = resampled(sampler, X, y)[0], resampled(pickle.loads(pickle.dumps(sampler)), X, y)[0]
    np.testing.assert_array_equal(first, again)
    assert (resampled(sampler, X, y, random_state=1)[0] != first).any()


@every
def test_classes_of_any_name_and_frames_come_back_as_they_were(sampler: Any) -> None:
    X, y = sample()
    points, hard, _ = resampled(sampler, X, y)
    names = np.array(["ash", "birch", "cedar"])
    frame = pd.DataFrame(X, columns=["width", "height"], index=np.arange(120) + 7)
    more, labels, fresh = resampled(sampler, frame, pd.Series(names[y], name="tree", index=frame.index))
    assert isinstance(more, pd.DataFrame)
    assert more.columns.tolist() == fresh.feature_names_in_.tolist() == ["width", "height"]
    assert more.index.tolist() == list(range(len(more)))
    assert labels.name == "tree"
    assert labels.tolist() == names[hard].tolist()
    np.testing.assert_allclose(more.to_numpy(), points, rtol=1e-12)
    _, soft, _ = resampled(sampler, frame, pd.Series(names[y]), output="soft")
    assert soft.columns.tolist() == names.tolist()
    category = resampled(sampler, frame, pd.Series(names[y], dtype="category"))[1]
    assert category.dtype == "category"
    assert category.tolist() == labels.tolist()


@every
def test_kinds_of_numbers_make_sense(sampler: Any) -> None:
    X, y = sample()
    assert resampled(sampler, X.astype(np.float32), y.astype(np.int8))[0].dtype == np.float32
    assert resampled(sampler, X.astype(np.float32), y.astype(np.int8))[1].dtype == np.int8
    whole = (10 * X).astype(int) if "known" not in repr(sampler).lower() else X.astype(int)
    frame = pd.DataFrame({"a": whole[:, 0], "b": X[:, 1].astype(np.float32)})
    more = resampled(sampler, frame, y)[0]
    assert [str(kind) for kind in more.dtypes] == ["float64", "float32"]
    np.testing.assert_array_equal(more["a"][:120], whole[:, 0])
    assert resampled(sampler, X.tolist(), y.tolist())[0].dtype == np.float64


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
def test_bad_parameters_are_named(sampler: Any, params: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        resampled(sampler, *sample(), **params)


@every
def test_bad_input_is_named_and_changes_nothing(sampler: Any) -> None:
    X, y = sample()
    fresh = clone(sampler)
    fresh.fit_resample(X, y)
    before = set(vars(fresh))
    bad = X.copy()
    bad[3, 1] = np.nan
    cases: list[tuple[Any, Any, str]] = [
        (bad, y, "contains NaN"),
        (X, np.zeros(120), "at least 2 classes"),
        (X, np.where(np.arange(120) == 5, 9, y), "class 9"),
        (X, y[:5], "inconsistent numbers"),
        (X, X[:, 0], "continuous"),
        (pd.DataFrame({"a": ["x"] * 120, "b": X[:, 0]}), y, "convert string"),
    ]
    for points, labels, match in cases:
        with pytest.raises(ValueError, match=match):
            fresh.fit_resample(points, labels)
    assert set(vars(fresh)) == before
    assert len(fresh.is_synthetic_) == 120 + asked(sampler)
