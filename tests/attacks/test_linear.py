"""Test FGSM and PGD on linear models, where the margin to each class has a closed form."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from genlabel.attacks import FGSM, PGD, Attack
from genlabel.attacks.models import AttackedNetwork
from genlabel.training.networks import MLP


def linear(k: int, d: int, seed: int, size: float = 3.0) -> tuple[np.ndarray, np.ndarray, AttackedNetwork]:
    rng = np.random.default_rng(seed)
    W, b = size * rng.normal(size=(d, k)), rng.normal(size=k)
    return W, b, AttackedNetwork(MLP(d, k, seed=0, dtype=torch.float64).load([(W, b)]))


def signed_margins(W: np.ndarray, b: np.ndarray, X: np.ndarray, y: np.ndarray, radius: float, norm: str) -> np.ndarray:
    """Return the smallest (w_y - w_c) x + b_y - b_c - radius |w_y - w_c|_dual of each point."""
    scores, dual = X @ W + b, 1 if norm == "linf" else 2
    margin = np.full(len(X), np.inf)
    for c in range(len(b)):
        gap = scores[np.arange(len(X)), y] - scores[:, c] - radius * np.linalg.norm((W[:, y].T - W[:, c]), dual, axis=1)
        margin = np.where(y == c, margin, np.minimum(margin, gap))
    return margin


def is_robust(attack: Attack, target: AttackedNetwork, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    adversarial = torch.from_numpy(attack(target, X, y, seed=0))
    return target.log_proba(adversarial).argmax(-1).numpy() == y


@pytest.mark.parametrize("norm", ["linf", "l2"])
@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), k=st.integers(2, 5), d=st.integers(1, 6), radius=st.floats(0.01, 3.0))
def test_exact(norm: str, seed: int, k: int, d: int, radius: float) -> None:
    W, b, target = linear(k, d, seed)
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(40, d)), rng.integers(0, k, 40)
    y[:20] = (X @ W + b).argmax(1)[:20]
    exact = signed_margins(W, b, X, y, radius, norm)
    clear = np.abs(exact) > 1e-9
    attacks: list[Attack] = [FGSM(radius, norm, targeted=True), PGD(radius, norm, steps=2)]
    attacks += [PGD(radius, norm, steps=2, targeted=True)] + ([FGSM(radius, norm)] if k == 2 else [])
    for attack in attacks:
        np.testing.assert_array_equal(is_robust(attack, target, X, y)[clear], (exact > 0)[clear])


@pytest.mark.parametrize("attack", [FGSM(), PGD(steps=3)], ids=repr)
def test_exact_where_the_cross_entropy_rounds_to_zero(attack: Attack) -> None:
    W, b, target = linear(2, 4, 0, size=2000.0)
    X = np.random.default_rng(1).normal(size=(50, 4))
    y = (X @ W + b).argmax(1)
    x = torch.from_numpy(X).requires_grad_()
    loss = torch.nn.functional.cross_entropy(target.module(x), torch.from_numpy(y), reduction="sum")
    (gradient,) = torch.autograd.grad(loss, x)
    assert (gradient == 0).all(1).any()
    np.testing.assert_array_equal(is_robust(attack, target, X, y), signed_margins(W, b, X, y, 0.2, "linf") > 0)


@pytest.mark.parametrize("make", [
    lambda r: FGSM(r), lambda r: FGSM(r, "l2"), lambda r: FGSM(r, targeted=True), lambda r: PGD(r, steps=3),
    lambda r: PGD(r, "l2", steps=3),
])  # fmt: skip
@pytest.mark.parametrize("k", [2, 4])
def test_robust_points_shrink_with_the_radius(make: Any, k: int) -> None:
    W, b, target = linear(k, 3, 2)
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = (X @ W + b).argmax(1)
    robust = [is_robust(make(r), target, X, y) for r in (0.01, 0.05, 0.2, 0.5, 2.0)]
    if k == 2 or "targeted" in repr(make(1)) or "PGD" in repr(make(1)):
        assert all((smaller_ball >= larger_ball).all() for smaller_ball, larger_ball in pairwise(robust))
    assert robust[0].mean() > robust[-1].mean()


def test_pgd_is_stronger_than_fgsm() -> None:
    net = MLP(4, 3, (32, 32), seed=1, dtype=torch.float64)
    with torch.no_grad():
        net.layers[-1].weight.mul_(8)
    target = AttackedNetwork(net)
    X = np.random.default_rng(0).normal(size=(200, 4))
    y = target.log_proba(torch.from_numpy(X)).argmax(-1).numpy()
    fgsm = is_robust(FGSM(0.5, targeted=True), target, X, y)
    pgd = is_robust(PGD(0.5, steps=20, targeted=True), target, X, y)
    assert (pgd <= fgsm).all()
    assert pgd.sum() < fgsm.sum()


def test_fgsm_with_bounds_is_exact() -> None:
    """A linear score is separable over coordinates, so the clipped corner is the optimum in the box."""
    W, b, target = linear(2, 3, 4)
    X = np.random.default_rng(0).uniform(0, 1, size=(80, 3))
    y = (X @ W + b).argmax(1)
    w = (W[:, 1] - W[:, 0]) * np.where(y == 0, 1.0, -1.0)[:, None]
    low, high = np.maximum(X - 0.2, 0), np.minimum(X + 0.2, 1)
    gap = ((X @ W + b)[np.arange(80), y] - (X @ W + b)[np.arange(80), 1 - y]) - (
        w * (np.where(w > 0, high, low) - X)
    ).sum(1)
    np.testing.assert_array_equal(is_robust(FGSM(bounds=(0, 1)), target, X, y), gap > 0)
