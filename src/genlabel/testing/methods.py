"""Checks of the contracts of mixers, labelers, samplers and attacks."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.base import clone

from genlabel.attacks import Attack
from genlabel.attacks.models import AttackedNetwork
from genlabel.densities import DensityWarning
from genlabel.labeling import Labeler
from genlabel.mixing import Mixer, MixParams, Mixup, Sampler
from genlabel.mixing.base import BatchInfo, blend, identity_params, mix_batch, stack_draws
from genlabel.mixing.sampler import MIN_WEIGHT
from genlabel.testing.densities import Classes, Floats, raises


def check_mixer(mixer: Mixer, shape: Sequence[int] = (4,)) -> None:
    """Check that a mixer keeps the contract of :class:`genlabel.mixing.Mixer`.

    The checks cover the draw and its repetition by the seed, arrays and tensors, whole numbers, independence of the
    rows, lam as the weight of the row itself, linearity, clean rows, stacked draws, and draws of another size. The
    draw receives random points, and labels of three classes.

    Parameters
    ----------
    mixer : Mixer
    shape : sequence of int
        Shape of one point that it can mix, such as (c, h, w) for images.

    Examples
    --------
    >>> from genlabel.mixing import CutMix
    >>> check_mixer(CutMix(), shape=(3, 7, 5))
    """
    assert isinstance(mixer, Mixer), f"{mixer!r} is not a Mixer"
    shape = tuple(shape)
    for n, seed in ((1, 0), (2, 1), (20, 7), (40, 3)):
        draw = _draw(mixer, n, seed, shape)
        assert draw.partner.shape == draw.lam.shape == (n,), "partner and lam must have shape (n,)"
        assert set(draw.partner.tolist()) <= set(range(n)), "partners must be rows of the batch"
        assert ((draw.lam >= 0) & (draw.lam <= 1)).all(), "lam must lie in [0, 1]"
        assert 0 <= draw.depth <= mixer.max_depth, "depth must lie in 0..max_depth"
        if draw.box is not None:
            low, high = draw.box[:, ::2], draw.box[:, 1::2]
            assert ((low >= 0) & (low <= high) & (high <= 1)).all(), "boxes must lie in the image"
        optional = draw.row_fields().keys() - {"partner", "lam"}
        assert optional == mixer.optional_fields, "a draw must have the optional_fields of the mixer"
        assert draw.weight is None or ((draw.weight >= 0) & np.isfinite(draw.weight)).all(), "weights must be >= 0"
    rng = np.random.default_rng(7)
    first = _draw(mixer, 20, 7, shape)
    assert _equal(first, _draw(clone(mixer), 20, 7, shape)), "the same seed gives another draw"
    assert _equal(_draw(mixer, 20, rng, shape), first), "a generator gives another draw than its seed"
    assert not _equal(_draw(mixer, 20, rng, shape), first), "a generator gives the same draw twice"
    if mixer.data_dependent:
        with raises("a data-dependent mixer draws without a batch"):
            mixer.draw(20, 7)
    _check_mix(mixer, shape)
    _check_batches(mixer, shape)


def _draw(mixer: Mixer, n: int, rng: Any, shape: tuple[int, ...]) -> MixParams:
    """Draw for a batch of random points with labels of three classes."""
    return mixer.draw(n, rng, _points(n, shape, seed=n), np.arange(n) % 3)


def _check_mix(mixer: Mixer, shape: tuple[int, ...]) -> None:
    """Check the result of `mix` for arrays and tensors, independence of the rows, and lam as the weight of a row."""
    X, draw = _points(15, shape), _draw(mixer, 15, 1, shape)
    mixed = mixer.mix(X, draw)
    assert mixed.shape == X.shape, "mix changed the shape"
    message = "arrays and tensors are mixed differently"
    as_tensors = MixParams(*(None if field is None else torch.as_tensor(field) for field in draw))
    for params in (draw, as_tensors):
        tensor = mixer.mix(torch.from_numpy(X), params).numpy()
        np.testing.assert_allclose(tensor, mixed, rtol=1e-14, atol=1e-15, err_msg=message)
    single = mixer.mix(torch.from_numpy(X).float(), draw)
    assert single.dtype == torch.float32, "float32 must stay float32"
    np.testing.assert_allclose(single.numpy(), mixed, atol=1e-5, err_msg=message)
    integers = np.random.default_rng(0).integers(-9, 9, X.shape)
    expected, as_tensor = mixer.mix(integers.astype(np.float64), draw), torch.from_numpy(integers)
    for points in (integers, integers.tolist(), as_tensor, as_tensor.to(torch.int8)):
        np.testing.assert_allclose(np.asarray(mixer.mix(points, draw)), expected, atol=1e-12, err_msg="integers differ")
    for i, j in enumerate(draw.partner):
        replaced = _points(15, shape, seed=1)
        replaced[[i, j]] = X[[i, j]]
        np.testing.assert_array_equal(mixer.mix(replaced, draw)[i], mixed[i], err_msg="a row depends on other rows")
    if mixer.linear:
        np.testing.assert_allclose(mixed, blend(X, draw), rtol=1e-13, err_msg="a linear mixer must blend")
    with raises("mix accepts a draw for another number of rows"):
        mixer.mix(X[:5], _draw(mixer, 3, 0, shape))
    if draw.mask is not None:  # lam weights features by their information, not by their number
        expected = np.where(draw.mask, X[draw.partner], X)
        np.testing.assert_array_equal(mixed, expected, err_msg="masked features must come from the partner")
        return
    values = np.arange(15.0) ** 2
    constant = np.broadcast_to(values.reshape(-1, *[1] * len(shape)), X.shape)  # one value for all features of a row
    mean = mixer.mix(constant, draw).reshape(15, -1).mean(1)
    np.testing.assert_allclose(mean, blend(values, draw), atol=1e-9, err_msg="lam is not the weight of the row itself")


def _check_batches(mixer: Mixer, shape: tuple[int, ...]) -> None:
    """Check clean rows, the identity draw, and batches of several sizes that are mixed together."""
    X, draw = _points(10, shape), _draw(mixer, 10, 4, shape)
    mixed, message = mixer.mix(X, draw), "rows that are left clean must not change, the others must"
    partly, identity = draw.leave_clean(4), identity_params(10, like=draw)
    np.testing.assert_array_equal(mixer.mix(X, partly), np.concatenate([X[:4], mixed[4:]]), err_msg=message)
    assert _equal(draw.leave_clean(0), draw)
    np.testing.assert_array_equal(partly.partner[:4], np.arange(4))
    np.testing.assert_array_equal(partly.lam[:4], 1.0)
    assert (identity.depth, identity.row_fields().keys()) == (0, draw.row_fields().keys())
    np.testing.assert_array_equal(mixer.mix(X, identity), X, err_msg="the identity draw must change nothing")
    clean = np.arange(10) % 3 == 0
    batch = mix_batch(mixer, torch.from_numpy(X), draw, BatchInfo(clean=clean)).numpy()
    mask = clean.reshape(-1, *[1] * len(shape))
    np.testing.assert_array_equal(batch, np.where(mask, X, mixed), err_msg=message)

    rng, sizes = np.random.default_rng(0), (6, 7, 7, 5)
    draws = [_draw(mixer, n, rng, shape) for n in sizes]
    stack, X = stack_draws(draws), _points(28, shape).reshape(4, 7, *shape)
    assert stack.partner.shape == stack.lam.shape == (4, 7)
    assert stack.flatten().depth == 0
    together = mixer.mix(X.reshape(28, *shape), stack.flatten()).reshape(X.shape)
    for t, (n, draw) in enumerate(zip(sizes, draws, strict=True)):
        assert _equal(stack.batch(t, n), draw), "a stacked draw loses a field"
        np.testing.assert_array_equal(stack.partner[t, n:], np.arange(n, 7))
        np.testing.assert_array_equal(stack.lam[t, n:], 1.0)
        message = "batches mixed together and alone differ"
        np.testing.assert_array_equal(together[t, :n], mixer.mix(X[t, :n], draw), err_msg=message)
        np.testing.assert_array_equal(together[t, n:], X[t, n:], err_msg="padding must not be mixed")


def _points(n: int, shape: tuple[int, ...], seed: int = 0) -> Floats:
    """Return random points."""
    return np.random.default_rng(seed).normal(size=(n, *shape))


def _equal(first: MixParams, second: MixParams) -> bool:
    return all(np.array_equal(a, b) if a is not None else b is None for a, b in zip(first, second, strict=True))


def check_labeler(labeler: Labeler) -> None:
    """Check that a labeler keeps the contract of :class:`genlabel.labeling.Labeler`.

    The labeler is cloned and fitted to 60 rows of three classes. The checks cover rows on the simplex, also of far
    points, class names and matrices, arrays and tensors, batches without some classes, clean rows, and wrong shapes. A
    labeler that learns while a network trains is not for this check.

    >>> from genlabel.labeling import LogisticLabel
    >>> check_labeler(LogisticLabel(sigma=0.3))
    """
    assert isinstance(labeler, Labeler), f"{labeler!r} is not a Labeler"
    assert labeler.update_source is None, f"{labeler!r} learns while a network trains"
    X, index = _table(60)
    y = np.array(["a", "b", "c"])[index]
    fitted, draw = clone(labeler).fit(X, y), Mixup().draw(60, 3)
    mixed = Mixup().mix(X, draw)
    labels = fitted.label(mixed, y, draw)
    assert labels.shape == (60, 3), f"labels have shape {labels.shape}, expected (60, 3)"
    for scale in (1.0, 0.0, 1e3, 1e30, 1e200):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", DensityWarning)
            far = fitted.label(mixed * scale, y, draw)
        assert (far >= 0).all(), "labels must not be negative"
        np.testing.assert_allclose(far.sum(1), 1.0, atol=1e-12, err_msg="labels must sum to 1")
    np.testing.assert_array_equal(fitted.label(mixed, y, draw), labels, err_msg="labels are not deterministic")
    matrix, message = np.eye(3)[index], "names and matrices, or arrays and tensors, give different labels"
    np.testing.assert_allclose(fitted.label(mixed, matrix, draw), labels, atol=1e-12, err_msg=message)
    tensor = fitted.label(torch.from_numpy(mixed), torch.from_numpy(matrix), draw)
    assert isinstance(tensor, torch.Tensor), "a tensor must give a tensor"
    np.testing.assert_allclose(tensor.numpy(), labels, atol=1e-12, err_msg=message)
    rows = np.flatnonzero(y == "b")[:4]
    assert fitted.label(X[rows], y[rows], Mixup().draw(4, 0)).shape == (4, 3), "a batch without a class loses a column"
    clean = np.arange(60) < 20
    labels = fitted.label(mixed, y, draw, BatchInfo(clean=clean))
    np.testing.assert_array_equal(labels[clean], matrix[clean], err_msg="clean rows must keep their labels")
    with raises("label accepts points and labels of different batches"):
        fitted.label(mixed[:30], y, draw)
    with raises("label accepts an unknown class"):
        fitted.label(mixed, np.where(y == "a", "z", y), draw)


def check_sampler(sampler: Sampler) -> None:
    """Check that a sampler keeps the contract of :class:`genlabel.mixing.Sampler`.

    The sampler, which has an int as random_state, is cloned and applied to 120 rows of three classes. The checks cover
    the order and the provenance of rows, the three outputs, repetition by the seed, class names, frames, dtypes, and
    invalid input.

    >>> from genlabel.labeling import GenLabelSampler
    >>> check_sampler(GenLabelSampler(n_aug=50, random_state=0))
    """
    assert isinstance(sampler, Sampler), f"{sampler!r} is not a Sampler"
    X, y = _table(120)
    points, hard, fitted = _resample(sampler, X, y, output="hard")
    s = len(points) - 120
    np.testing.assert_array_equal(points[:120], X, err_msg="the given rows must come first")
    np.testing.assert_array_equal(hard[:120], y, err_msg="the given labels must come first")
    np.testing.assert_array_equal(fitted.is_synthetic_, np.arange(120 + s) >= 120)
    assert fitted.pair_.shape == (s, 2), "pair_ must have shape (s, 2)"
    assert fitted.lam_.shape == (s,), "lam_ must have shape (s,)"
    assert ((fitted.lam_ >= 0) & (fitted.lam_ <= 1)).all(), "lam_ must lie in [0, 1]"
    assert fitted.n_features_in_ == 2
    again = _resample(pickle.loads(pickle.dumps(sampler)), X, y, output="hard")[0]  # our own bytes  # nosec B301
    np.testing.assert_array_equal(again, points, err_msg="the same seed gives other rows")
    other = _resample(sampler, X, y, output="hard", random_state=np.random.default_rng(1))[0]
    assert not np.array_equal(other, points), "another seed gives the same rows"
    _check_outputs(sampler, X, y, points, hard)
    before = dict(vars(fitted))
    missing = X.copy()
    missing[3, 1] = np.nan
    for table, labels, message in (
        (missing, y, "accepts NaN in X"),
        (X, np.zeros(120), "accepts one class"),
        (X, np.where(np.arange(120) == 5, 9, y), "accepts a class of one row"),
        (X, y[:5], "accepts too few labels"),
        (X, X[:, 0], "accepts a continuous target"),
        (pd.DataFrame({"a": ["x"] * 120, "b": X[:, 0]}), y, "accepts strings"),
    ):
        with raises(f"fit_resample {message}"):
            fitted.fit_resample(table, labels)
    is_same = [vars(fitted).get(name) is value for name, value in before.items()]
    assert len(vars(fitted)) == sum(is_same), "a failing call changed the sampler"
    with raises("fit_resample accepts an unknown output"):
        _resample(fitted, X, y, output="softly")


def _check_outputs(sampler: Sampler, X: Floats, y: Classes, points: Floats, hard: Classes) -> None:
    """Check the outputs against one another, given the points and classes of output="hard", and kinds of tables."""
    soft_points, soft, first = _resample(sampler, X, y, output="soft")
    more, labels, fitted = _resample(sampler, X, y, output="weighted")
    np.testing.assert_array_equal(soft[:120], np.eye(3)[y])
    np.testing.assert_allclose(soft.sum(1), 1.0, atol=1e-12, err_msg="soft labels must sum to 1")
    assert (soft >= 0).all(), "soft labels must not be negative"
    mask, (rows, classes) = fitted.is_synthetic_, (soft[120:] > MIN_WEIGHT).nonzero()
    message = "weighted rows differ from the soft labels"
    assert (fitted.sample_weight_[:120] == 1.0).all(), "given rows must have weight 1"
    np.testing.assert_array_equal(more[mask], soft_points[120:][rows], err_msg=message)
    np.testing.assert_array_equal(labels[mask], classes, err_msg=message)
    np.testing.assert_array_equal(fitted.sample_weight_[mask], soft[120:][rows, classes], err_msg=message)
    np.testing.assert_array_equal(fitted.pair_, first.pair_[rows], err_msg=message)
    assert not hasattr(first, "sample_weight_")

    names = np.array(["ash", "birch", "cedar"])
    frame = pd.DataFrame(X, columns=["width", "height"], index=np.arange(120) + 7)
    more, labels, fitted = _resample(sampler, frame, pd.Series(names[y], name="tree", index=frame.index), output="hard")
    assert isinstance(more, pd.DataFrame), "a frame must give a frame"
    assert more.columns.tolist() == fitted.feature_names_in_.tolist() == ["width", "height"]
    assert more.index.tolist() == list(range(len(more)))
    assert labels.name == "tree"
    assert labels.tolist() == names[hard].tolist(), "class names change the labels"
    np.testing.assert_allclose(more.to_numpy(), points, rtol=1e-12, err_msg="frames and arrays differ")
    assert _resample(sampler, frame, pd.Series(names[y]), output="soft")[1].columns.tolist() == names.tolist()
    assert _resample(sampler, frame, pd.Series(names[y], dtype="category"), output="hard")[1].dtype == "category"
    single, small, _ = _resample(sampler, X.astype(np.float32), y.astype(np.int8), output="hard")
    assert (single.dtype, small.dtype) == (np.float32, np.int8), "dtypes must be kept"
    for given, form in ((X.tolist(), list), (X, np.ndarray)):
        more, labels, fitted = _resample(sampler, given, np.eye(3)[y].tolist(), output="hard")
        assert isinstance(more, form), "a list must give a list"
        np.testing.assert_array_equal(more, points)
        np.testing.assert_array_equal(labels, np.eye(3)[hard], err_msg="one-hot labels must give one-hot labels")
    assert list(fitted.sampling_strategy_.values()) == np.bincount(hard[120:], minlength=3).tolist()
    assert fitted.get_feature_names_out().tolist() == ["x0", "x1"]


def _resample(sampler: Sampler, X: Any, y: Any, **params: Any) -> tuple[Any, Any, Any]:
    fresh = clone(sampler).set_params(**params)
    return (*fresh.fit_resample(X, y), fresh)


def _table(n: int) -> tuple[Floats, Classes]:
    """Return points (n, 2) of three classes that overlap a little, and their class indices."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(n) % 3)
    return rng.normal(size=(n, 2)) + 4.0 * np.array([[0, 0], [1, 0], [0, 1]])[y], y


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
    layer = torch.nn.Linear(d, 5, dtype=torch.float64).requires_grad_(False)
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
    assert (again, hash(again)) == (attack, hash(attack)), "a pickled copy differs"
    message = "the same seed gives other points"
    np.testing.assert_array_equal(again(model, X, y, seed=np.random.default_rng(7)), moved, message)
    tensor = attack(model, torch.from_numpy(X), torch.from_numpy(y), seed=7)
    np.testing.assert_array_equal(tensor.numpy(), moved, "tensors give other points than arrays")
    assert tensor.dtype == torch.float64
    assert not tensor.requires_grad

    layer.bias.fill_(torch.nan)
    np.testing.assert_array_equal(attack(model, X, y, seed=0), X, "points of a model that gives NaN are moved")
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
