"""The accuracy that a fitted classifier, or a network over images, keeps under attack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from genlabel._arrays import Seed, Values, as_numpy, as_rng, as_tensor
from genlabel._validation import check_choice, check_positive
from genlabel.attacks.adapters import check_indices, class_indices, network_view, view
from genlabel.attacks.autoattack import AutoAttack
from genlabel.attacks.base import Attack
from genlabel.attacks.boundary import Boundary
from genlabel.attacks.gradient import FGSM, PGD
from genlabel.attacks.models import AttackedModel

ATTACKS: dict[str, Attack] = {"fgsm": FGSM(), "pgd": PGD(), "boundary": Boundary()}
"""Attacks by name, radius 0.2: the paper's tables are under FGSM, its text names the boundary attack."""
IMAGE_ATTACKS: dict[str, type[Attack]] = {"fgsm": FGSM, "pgd": PGD, "boundary": Boundary, "autoattack": AutoAttack}
"""Those by name for images, which have no radius of their own: arXiv Table 7 is under AutoAttack."""
SPACES = ("standardised", "input")


@dataclass(frozen=True)
class Robustness:
    """What :func:`robust_accuracy` found, in percent of the points; prints as a table."""

    clean: float
    """Right without an attack."""
    accuracy: float
    """Right under every attack that ran."""
    each: dict[str, float]
    """Right under each attack."""
    skipped: dict[str, str]
    """Attacks that did not run, and why."""
    is_robust: NDArray[np.bool_] = field(repr=False, compare=False)
    """Points that are right under every attack, (m,)."""

    @property
    def ran(self) -> list[str]:
        """The attacks that ran."""
        return list(self.each)

    def __str__(self) -> str:
        shares = {"clean": self.clean, **self.each} | ({"all": self.accuracy} if len(self.each) > 1 else {})
        wide = max(map(len, [*shares, *self.skipped]))
        lines = [f"{name:<{wide}}  {value:5.1f} %" for name, value in shares.items()]
        return "\n".join(lines + [f"{name:<{wide}}  skipped: {why}" for name, why in self.skipped.items()])


def robust_accuracy(
    model: Any,
    X: Values,
    y: Values,
    attack: str | Attack | Iterable[str | Attack] = "fgsm",
    *,
    radius: float | None = None,
    space: str | None = None,
    rng: Seed = 0,
) -> Robustness:
    """Return the accuracy of a fitted classifier on points that an attack may move (arXiv Tables 6, 7, 9 and 12).

    The class of the largest probability counts as predicted, and a model that gives NaN for a point is wrong there. The
    attack uses the true labels, and a point that is wrong without it stays wrong. What an attack does not find may
    still exist: its accuracy is an upper bound. A model whose probabilities are steps, such as a forest, hides its
    boundary from gradients; add "boundary" there.

    Parameters
    ----------
    model : classifier or nn.Module
        Ours, a scikit-learn pipeline or search around one, or any scikit-learn classifier. Networks are differentiated,
        everything else is by differences of its probabilities; one that only predicts takes "boundary". Or a torch
        network, `network.eval()`, that gives scores (m, k) of images (m, c, h, w) of pixels in [0, 1] (it normalises
        them itself), or of points (m, d); it is attacked on its own device.
    X : array or DataFrame (m, d), or images (m, c, h, w), uint8 or in [0, 1]
    y : array (m,)
        True labels, as the model was trained with; for a torch network class indices.
    attack : "fgsm", "pgd", "boundary", Attack or sequence of them; for images also "autoattack"
        Of a sequence, a point must withstand all.
    radius : float or None
        For all attacks; None is each one's own, 0.2 by name. Images have no radius that suits all: give it, in units of
        a pixel, such as 0.1 for MNIST and 2/255 for CIFAR-10 (arXiv Table 14).
    space : "standardised", "input" or None
        Coordinates in which points move: those that the classifier standardises itself (units of the standard
        deviations of `X` for one that does not), or those of `X`. None is "standardised", and for a torch network
        "input", the only one that it has.
    rng : generator or seed

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> print(robust_accuracy(LogisticRegression(max_iter=1000).fit(X, y), X, y, ["fgsm", "pgd"]))
    clean   97.3 %
    fgsm    81.3 %
    pgd     81.3 %
    all     81.3 %
    >>> images = np.full((2, 1, 8, 8), 255, dtype=np.uint8)
    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    >>> robust_accuracy(network, images, [3, 5], "pgd", radius=0.1).clean <= 50
    True
    """
    of_torch = isinstance(model, nn.Module)
    images = of_torch and np.ndim(X) == 4
    if space is not None or not of_torch:
        check_choice("space", space or SPACES[0], SPACES[1:] if of_torch else SPACES)
    attacks = _read_attacks(attack, radius, images)
    with np.errstate(divide="ignore"), _plain_arithmetic():  # a probability of 0 has a logarithm here
        target, x, index = _read_network(model, X, y) if of_torch else _read_fitted(model, X, y, space or SPACES[0])
        right = _right(target, x, index)
        masks, skipped = _run_all(attacks, target, x, index, right, rng)
    if not masks:
        raise ValueError(f"no attack ran: {'; '.join(f'{name}: {why}' for name, why in skipped.items())}")
    is_robust = np.logical_and.reduce(list(masks.values()))
    each = {name: _percent(mask) for name, mask in masks.items()}
    return Robustness(_percent(right), _percent(is_robust), each, skipped, is_robust)


@contextmanager
def _plain_arithmetic() -> Iterator[None]:
    """Inside, a network runs kernel by kernel, and on a GPU its convolutions are in whole float32.

    An attack brings batches of many sizes, which need not be compiled; and with the ten bits of TF32 a point just
    beyond the boundary may be back on its side in a batch of another size.
    """
    with ExitStack() as stack:
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        if torch.cuda.is_available():
            stack.enter_context(torch.backends.cudnn.flags(enabled=True, allow_tf32=False))
        yield


def _read_fitted(model: Any, X: Values, y: Values, space: str) -> tuple[AttackedModel, Tensor, NDArray[np.int64]]:
    """A classifier as a target, the points (m, d) and their class indices (m,)."""
    if not hasattr(model, "fit"):
        raise TypeError(f"model is a {type(model).__name__}; give a torch module or a fitted classifier")
    check_is_fitted(model)
    index = class_indices(model, y, len(model.predict(X)))
    shown = view(model, X, space)
    return shown.target, as_tensor(shown.points), index


def _read_network(model: nn.Module, X: Values, y: Values) -> tuple[AttackedModel, Tensor, NDArray[np.int64]]:
    """The same of a torch network."""
    target, x = network_view(model, X)
    return target, x, check_indices(y, len(x), target.log_proba(x[:1]).shape[-1])


def _right(target: AttackedModel, x: Tensor, y: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which points (m, d) are taken for the class y (m,)."""
    return as_numpy(~target.wrong(x, torch.from_numpy(y).to(x.device)))


def _run_all(
    attacks: dict[str, Attack],
    target: AttackedModel,
    x: Tensor,
    y: NDArray[np.int64],
    right: NDArray[np.bool_],
    rng: Seed,
) -> tuple[dict[str, NDArray[np.bool_]], dict[str, str]]:
    """Which points withstand each attack, and why an attack was skipped; each has random numbers of its own."""
    masks: dict[str, NDArray[np.bool_]] = {}
    skipped: dict[str, str] = {}
    for (name, attack), stream in zip(attacks.items(), as_rng(rng).spawn(len(attacks)), strict=True):
        if attack.needs_gradient and not target.has_gradient:
            skipped[name] = "it needs gradients, but the model gives no probabilities"
            continue
        try:
            masks[name] = _withstand(attack, target, x, y, right, stream)
        except ImportError as error:
            skipped[name] = str(error)
    return masks, skipped


def _withstand(
    attack: Attack,
    target: AttackedModel,
    x: Tensor,
    y: NDArray[np.int64],
    right: NDArray[np.bool_],
    rng: np.random.Generator,
) -> NDArray[np.bool_]:
    """The points that are right before and after the attack; those that are wrong need none."""
    left = right.copy()
    if right.any():
        points = attack(target, x[torch.from_numpy(right).to(x.device)], y[right], rng=rng)
        left[right] = _right(target, points, y[right])
    return left


def _read_attacks(
    attack: str | Attack | Iterable[str | Attack], radius: float | None, images: bool
) -> dict[str, Attack]:
    """Attacks by their names, with the radius that is asked for."""
    given = [attack] if isinstance(attack, str | Attack) or not isinstance(attack, Iterable) else list(attack)
    if not given:
        raise ValueError(f"attack={attack!r} names none; choose among {', '.join(map(repr, ATTACKS))}")
    new: dict[str, Any] = {} if radius is None else {"radius": check_positive("radius", radius, "0.2 is the paper's")}
    found: dict[str, Attack] = {}
    for item in given:
        used = replace(item, **new) if isinstance(item, Attack) else _by_name(item, new, images)
        found[item if isinstance(item, str) else repr(used)] = used
    return found


def _by_name(name: object, new: dict[str, Any], images: bool) -> Attack:
    """The attack of a name, with a radius of its own on tables only."""
    if not images and isinstance(name, str) and name in IMAGE_ATTACKS.keys() - ATTACKS.keys():
        raise ValueError(f"attack={name!r} is for images (m, c, h, w) and a torch network; use 'pgd' on a table")
    check_choice("attack", name, IMAGE_ATTACKS if images else ATTACKS, also="an Attack such as PGD(steps=50)")
    if not images:
        return replace(ATTACKS[str(name)], **new)
    if not new:
        raise ValueError(f"radius=None has no meaning for {name!r} on images; give one, such as 0.1 or 2 / 255")
    if new["radius"] >= 1.0:
        raise ValueError(f"radius={new['radius']:g} is all of a pixel's range, [0, 1]; give a part, such as 8 / 255")
    return IMAGE_ATTACKS[str(name)](**new)


def _percent(mask: NDArray[np.bool_]) -> float:
    return 100.0 * float(mask.mean())
