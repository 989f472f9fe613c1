"""Any table and any features through the parts that go with a network: numbers, or an error that is meant."""

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

Answer = Callable[[Callable[[], Any]], Any]


def network(width: int, dtype: torch.dtype = torch.float64) -> MLP:
    return MLP(max(width, 1), 2, hidden=(4,), seed=0, dtype=dtype)


def width_of(X: Any) -> int:
    """The columns of a table, as far as it has any; another number in one of three."""
    shape = np.shape(X)
    return shape[1] if len(shape) > 1 else 2


def several(y: Any) -> int:
    try:
        return len(set(np.ravel(y).tolist()))
    except TypeError:
        return 2


DENSITIES: dict[str, Callable[[Any], Any]] = {
    "latent": lambda table: LatentDensity(network(width_of(table.X)), 1, GaussianDensity(shrinkage=0.1)),
    "latent, single": lambda table: LatentDensity(network(width_of(table.X), torch.float32), 1, KernelDensity()),
    "latent, of other rows": lambda table: LatentDensity(network(2), 1, GaussianDensity(shrinkage=0.1)),
    "known": lambda table: fixed_gaussians(np.zeros((several(table.y), width_of(table.X)))),
    "known, of other rows": lambda table: fixed_gaussians(np.zeros((2, 2))),
}


def check_density(make: Callable[[Any], Any], answer: Answer, table: Any) -> None:
    fitted = answer(lambda: make(table).fit(table.X, table.y))
    found = None if fitted is None else answer(lambda: fitted.log_prob(table.X))
    if found is not None:
        assert not np.isnan(np.asarray(found)).any()
        assert not np.isposinf(np.asarray(found)).any()


@pytest.mark.parametrize("number, kind", list(enumerate(DENSITIES)))
def test_a_density_has_numbers_or_says_why_not(
    number: int, kind: str, tables: Any, by_machine: Any, answer: Answer
) -> None:
    by_machine(tables(arrays=True), partial(check_density, DENSITIES[kind], answer), number)


def check_hidden(other: bool, answer: Answer, table: Any) -> None:
    width = 2 if other else width_of(table.X)
    sampler = HiddenGenMix(network(width, torch.float32), genmix=GenMix(n_aug=3), steps=2, random_state=0)
    made = answer(lambda: sampler.fit_resample(table.X, table.y))
    if made is None:
        assert [name for name in vars(sampler) if name.endswith("_")] == []
        return
    assert np.isfinite(np.asarray(made[0], dtype=np.float64)).all()
    assert not np.isnan(sampler.misfit_).any()  # infinity, where no point has such features


@pytest.mark.parametrize("other", [False, True])
def test_genmix_of_features_adds_finite_rows_or_says_why_not(
    other: bool, tables: Any, by_machine: Any, answer: Answer
) -> None:
    by_machine(tables(arrays=True), partial(check_hidden, other, answer), 10 + other)


FEATURES: dict[str, Callable[[Any], Any]] = {
    "normal": lambda f: f,
    "tiny": lambda f: 1e-30 * f,
    "huge": lambda f: 1e30 * f,
    "beyond squares": lambda f: 1e38 * f.clamp(-3, 3),
    "far from zero": lambda f: f + 1e6,
    "constant": lambda f: torch.ones_like(f),
    "zero": lambda f: 0.0 * f,
    "one outlier": lambda f: torch.where(torch.arange(len(f))[:, None] == 0, 1e20, f),
    "gaps": lambda f: torch.where(f > 1.0, torch.nan, f),
    "infinite": lambda f: torch.where(f > 1.0, torch.inf, f),
    "nothing but gaps": lambda f: torch.full_like(f, torch.nan),
    "half": lambda f: f.half(),
    "brain": lambda f: f.bfloat16(),
    "double": lambda f: f.double(),
    "whole numbers": lambda f: f.long(),
    "flat": lambda f: f.ravel(),
    "deep": lambda f: f[:, :, None],
    "a feature more": lambda f: torch.cat([f, f[:, :1]], 1),
    "no rows": lambda f: f[:0],
}
SETTINGS: list[dict[str, Any]] = [
    {},
    {"covariance": "diagonal", "statistics": "clean"},
    {"beta": 0.0, "temperature": "mixup"},
    {"n_features": 3, "covariance": "diagonal", "statistics": "near", "margin": 0.5},
]


def check_online(answer: Answer, drawn: tuple[dict[str, Any], list[str], int, int]) -> None:
    """Labels of the batches of a run, each observed before it is labelled."""
    setting, kinds, rows, seed = drawn
    rng = np.random.default_rng(seed)
    labeler = OnlineGenLabel(OnlineGaussianDensity(3, **setting), gamma=0.7, warmup_steps=seed % 3)
    for kind in kinds:
        features = FEATURES[kind](torch.from_numpy(rng.normal(size=(rows, 3))).float())
        n = len(features) if kind == "no rows" else rows
        targets, draw = torch.eye(3)[rng.integers(0, 3, n)], Mixup().draw(n, rng) if n else None
        if draw is None:
            continue
        answer(lambda: labeler.observe(features, targets, draw) or True)  # noqa: B023
        labels = answer(lambda: labeler.label(features, targets, draw))  # noqa: B023
        if labels is not None:
            assert torch.isfinite(labels).all()
            assert (labels >= 0.0).all()
            torch.testing.assert_close(labels.double().sum(1), torch.ones(n).double(), rtol=0.0, atol=1e-5)
    state = {name: value for name, value in labeler.density.state_dict().items() if value is not None}
    assert all(bool(torch.isfinite(value).all()) for value in state.values())


def test_labels_of_any_run_of_features_are_on_the_simplex(by_machine: Any, answer: Answer) -> None:
    runs = st.tuples(
        st.sampled_from(SETTINGS),
        st.lists(st.sampled_from([*FEATURES]), min_size=1, max_size=4),
        st.integers(1, 12),
        st.integers(0, 99),
    )
    by_machine(runs, partial(check_online, answer), 20, share=3.0)
