"""Check of the contract of attacks."""

from __future__ import annotations

import pickle
from math import prod

import numpy as np
import torch

from genlabel.attacks import Attack, AttackedNetwork
from genlabel.testing._raises import raises


def check_attack(attack: Attack, *, image_shape: tuple[int, int, int] | None = None) -> None:
    """Check that an attack keeps the contract of :class:`genlabel.attacks.Attack`.

    The attack runs against small models. The checks cover the ball and the bounds, misclassified points, repetition by
    the seed, global random streams, pickling, kinds of arrays and precision, models that give NaN, and invalid input.

    Parameters
    ----------
    attack : Attack
        Attack that is strong enough to move a point of a small model across its boundary.
    image_shape : (c, h, w) or None
        Shape of an image, for an attack on images.

    Examples
    --------
    >>> from genlabel.attacks import FGSM
    >>> check_attack(FGSM(0.3))
    """
    assert isinstance(attack, Attack), f"{attack!r} is not an Attack"
    d = 3 if image_shape is None else prod(image_shape)
    low, high = (-1.5, 2.0) if image_shape is None else (0.0, 1.0)
    rng = np.random.default_rng(0)
    layer = torch.nn.Linear(d, 5, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(rng.normal(size=(5, d))))
        layer.bias.copy_(-layer.weight.sum(1) * (low + high) / 2)
    network = layer if image_shape is None else torch.nn.Sequential(torch.nn.Flatten(), layer)
    model = AttackedNetwork(network, image_shape)
    X = rng.uniform(low, high, size=(30, d)).reshape(30, *(image_shape or (d,)))
    y = model.log_proba(model.to_points(X)).argmax(-1).numpy()
    y[::4] = (y[::4] + 1) % 5

    torch_state, numpy_state = torch.random.get_rng_state(), pickle.dumps(np.random.get_state())  # noqa: NPY002
    moved = attack(model, X, y, seed=7)
    assert torch.equal(torch.random.get_rng_state(), torch_state), "the attack draws from torch's global stream"
    assert pickle.dumps(np.random.get_state()) == numpy_state, "the attack draws from NumPy's global stream"  # noqa: NPY002
    assert moved.shape == X.shape, f"the result has shape {moved.shape}, not {X.shape}"
    step = (moved - X).reshape(30, d)
    length = np.linalg.norm(step, ord=2 if attack.norm == "l2" else np.inf, axis=1)
    assert (length <= attack.eps * (1 + 1e-6) + 1e-6).all(), "points leave the ball"
    correct, robust = (
        ~model.misclassifies(model.to_points(points), torch.from_numpy(y)).numpy() for points in (X, moved)
    )
    assert (robust <= correct).all(), "a misclassified point is classified correctly after the attack"
    assert robust.sum() < correct.sum(), "the attack finds no misclassified point; check a stronger one"

    again = pickle.loads(pickle.dumps(attack))  # our own bytes  # nosec B301
    assert again == attack, "a pickled copy differs"
    assert hash(again) == hash(attack), "a pickled copy has another hash"
    np.testing.assert_array_equal(again(model, X, y, seed=np.random.default_rng(7)), moved, "a seed repeats nothing")
    tensor = attack(model, torch.from_numpy(X), torch.from_numpy(y), seed=7)
    np.testing.assert_array_equal(tensor.numpy(), moved, "tensors give other points than arrays")
    assert tensor.dtype == torch.float64
    assert not tensor.requires_grad

    with torch.no_grad():
        layer.bias.fill_(torch.nan)
    np.testing.assert_array_equal(attack(model, X, y, seed=0), X, "points of a model that gives NaN are moved")
    with torch.no_grad():
        layer.bias.fill_(0.0)
    for points, classes, message in (
        (X[:0], y[:0], "accepts no points"),
        (np.full_like(X[:2], np.nan), y[:2], "accepts NaN"),
        (X[:2], y[:1], "accepts too few classes"),
        (X[:2], [0, 5], "accepts an unknown class"),
        (X[:2], ["a", "b"], "accepts labels for class indices"),
    ):
        with raises(message):
            attack(model, points, classes)
