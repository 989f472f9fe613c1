"""Test parts that work with a network on any table or features: finite results, or a documented error."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import strategies as st

from genlabel import GaussianDensity, GenMix, KernelDensity, OnlineGenLabel
from genlabel.densities import OnlineGaussianDensity, fixed_gaussians
from genlabel.densities.transformed import LatentDensity
from genlabel.mixing import HiddenGenMix, Mixup
from genlabel.training.networks import MLP

TryCall = Callable[[Callable[[], Any]], Any]


def network(width: int, dtype: torch.dtype = torch.float64) -> MLP:
    return MLP(max(width, 1), 2, hidden=(4,), seed=0, dtype=dtype)


def width_of(X: Any) -> int:
    """Return the number of columns of a table, or 2 if it is not two-dimensional."""
    shape = np.shape(X)
    return shape[1] if len(shape) > 1 else 2


def n_classes(y: Any) -> int:
    try:
        return len(set(np.ravel(y).tolist()))
    except TypeError:
        return 2


DENSITIES: dict[str, Callable[[Any], Any]] = {
    "latent": lambda table: LatentDensity(network(width_of(table.X)), 1, GaussianDensity(shrinkage=0.1)),
    "latent, single": lambda table: LatentDensity(network(width_of(table.X), torch.float32), 1, KernelDensity()),
    "latent, of other rows": lambda table: LatentDensity(network(2), 1, GaussianDensity(shrinkage=0.1)),
    "known": lambda table: fixed_gaussians(np.zeros((n_classes(table.y), width_of(table.X)))),
    "known, of other rows": lambda table: fixed_gaussians(np.zeros((2, 2))),
}


def check_density(make: Callable[[Any], Any], try_call: TryCall, table: Any) -> None:
    fitted = try_call(lambda: make(table).fit(table.X, table.y))
    values = None if fitted is None else try_call(lambda: fitted.log_prob(table.X))
    if values is not None:
        assert not np.isnan(np.asarray(values)).any()
        assert not np.isposinf(np.asarray(values)).any()


@pytest.mark.parametrize("number, kind", list(enumerate(DENSITIES)))
def test_a_density_is_finite_or_raises(
    number: int, kind: str, tables: Any, check_examples: Any, try_call: TryCall
) -> None:
    check_examples(tables(arrays=True), partial(check_density, DENSITIES[kind], try_call), number)


def check_hidden(other_width: bool, try_call: TryCall, table: Any) -> None:
    width = 2 if other_width else width_of(table.X)
    sampler = HiddenGenMix(network(width, torch.float32), genmix=GenMix(n_aug=3), steps=2, random_state=0)
    resampled = try_call(lambda: sampler.fit_resample(table.X, table.y))
    if resampled is None:
        assert [name for name in vars(sampler) if name.endswith("_")] == []
        return
    assert np.isfinite(np.asarray(resampled[0], dtype=np.float64)).all()
    assert not np.isnan(sampler.misfit_).any()  # infinite where no point has these features


@pytest.mark.parametrize("other_width", [False, True])
def test_hidden_genmix_adds_finite_rows_or_raises(
    other_width: bool, tables: Any, check_examples: Any, try_call: TryCall
) -> None:
    check_examples(tables(arrays=True), partial(check_hidden, other_width, try_call), 10 + other_width)


FEATURES: dict[str, Callable[[Any], Any]] = {
    "normal": lambda f: f,
    "tiny": lambda f: 1e-30 * f,
    "huge": lambda f: 1e30 * f,
    "overflowing squares": lambda f: 1e38 * f.clamp(-3, 3),
    "far from zero": lambda f: f + 1e6,
    "constant": lambda f: torch.ones_like(f),
    "zero": lambda f: 0.0 * f,
    "one outlier": lambda f: torch.where(torch.arange(len(f))[:, None] == 0, 1e20, f),
    "missing values": lambda f: torch.where(f > 1.0, torch.nan, f),
    "infinite": lambda f: torch.where(f > 1.0, torch.inf, f),
    "only missing values": lambda f: torch.full_like(f, torch.nan),
    "half": lambda f: f.half(),
    "bfloat16": lambda f: f.bfloat16(),
    "double": lambda f: f.double(),
    "integers": lambda f: f.long(),
    "flat": lambda f: f.ravel(),
    "deep": lambda f: f[:, :, None],
    "one feature too many": lambda f: torch.cat([f, f[:, :1]], 1),
    "no rows": lambda f: f[:0],
}
SETTINGS: list[dict[str, Any]] = [
    {},
    {"covariance": "diagonal", "statistics": "clean"},
    {"beta": 0.0, "temperature": "mixup"},
    {"n_features": 3, "covariance": "diagonal", "statistics": "near", "margin": 0.5},
]


def check_online(try_call: TryCall, drawn: tuple[dict[str, Any], list[str], int, int]) -> None:
    """Check the labels of a run of batches, each observed before it is labeled."""
    setting, kinds, rows, seed = drawn
    rng = np.random.default_rng(seed)
    labeler = OnlineGenLabel(OnlineGaussianDensity(3, **setting), gamma=0.7, warmup_steps=seed % 3)
    for kind in kinds:
        features = FEATURES[kind](torch.from_numpy(rng.normal(size=(rows, 3))).float())
        n = len(features) if kind == "no rows" else rows
        targets, draw = torch.eye(3)[rng.integers(0, 3, n)], Mixup().draw(n, rng) if n else None
        if draw is None:
            continue
        try_call(lambda: labeler.observe(features, targets, draw) or True)  # noqa: B023
        labels = try_call(lambda: labeler.label(features, targets, draw))  # noqa: B023
        if labels is not None:
            assert torch.isfinite(labels).all()
            assert (labels >= 0.0).all()
            torch.testing.assert_close(labels.double().sum(1), torch.ones(n).double(), rtol=0.0, atol=1e-5)
    state = {name: value for name, value in labeler.density.state_dict().items() if value is not None}
    assert all(bool(torch.isfinite(value).all()) for value in state.values())


def test_online_labels_of_any_features_are_on_the_simplex(check_examples: Any, try_call: TryCall) -> None:
    runs = st.tuples(
        st.sampled_from(SETTINGS),
        st.lists(st.sampled_from([*FEATURES]), min_size=1, max_size=4),
        st.integers(1, 12),
        st.integers(0, 99),
    )
    check_examples(runs, partial(check_online, try_call), 20, share=3.0)
