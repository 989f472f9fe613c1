"""Robust accuracy of a fitted classifier, or of a network over images, and training for it on attacked points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from genlabel._arrays import Seed, Values, as_rng, as_tensor
from genlabel._runtime import eval_mode
from genlabel._validation import check_choice, check_positive
from genlabel.attacks.base import Attack, check_class_indices
from genlabel.attacks.models import SPACES, AttackedModel, AttackedNetwork, wrap_classifier
from genlabel.registry import ATTACKS
from genlabel.training import train_network
from genlabel.training.networks import StagedNetwork


@dataclass(frozen=True)
class Robustness:
    """Result of :func:`robust_accuracy`, as shares of the points, 0 to 1; prints as a table."""

    clean: float
    """Accuracy without an attack."""
    accuracy: float
    """Accuracy under all attacks that ran."""
    by_attack: dict[str, float]
    """Accuracy under each attack."""
    skipped: dict[str, str]
    """Reasons of the attacks that did not run."""
    is_robust: NDArray[np.bool_] = field(repr=False, compare=False)
    """True if a point is correct under all attacks, (m,)."""

    def __str__(self) -> str:
        rows = {"clean": self.clean, **self.by_attack} | ({"all": self.accuracy} if len(self.by_attack) > 1 else {})
        width = max(map(len, [*rows, *self.skipped]))
        lines = [f"{name:<{width}}  {100.0 * value:5.1f} %" for name, value in rows.items()]
        return "\n".join(lines + [f"{name:<{width}}  skipped: {reason}" for name, reason in self.skipped.items()])


def robust_accuracy(
    model: Any,
    X: Values,
    y: Values,
    attack: str | Attack | Iterable[str | Attack] = "fgsm",
    *,
    eps: float | None = None,
    space: str | None = None,
    seed: Seed = 0,
) -> Robustness:
    """Return the accuracy of a fitted classifier on points that an attack may move (arXiv Tables 6, 7, 9 and 12).

    The prediction is the class of the largest probability, and a model that gives NaN at a point misclassifies it. The
    attack uses the true labels, and a point that is misclassified without it stays so. The accuracy is an upper bound:
    there may be misclassified points that no attack found. A model whose probabilities are steps, such as a forest,
    hides its boundary from gradients; add "boundary" for it.

    Parameters
    ----------
    model : classifier or nn.Module
        Classifier of genlabel, a scikit-learn pipeline or search around one, or any scikit-learn classifier. Networks
        are differentiated, all others by differences of their probabilities; one that only predicts takes "boundary".
        Or a torch network, `network.eval()`, that gives scores (m, k) of images (m, c, h, w) of pixels in [0, 1] (it
        normalizes them itself), or of points (m, d); it is attacked on its own device.
    X : array or DataFrame (m, d), or images (m, c, h, w), uint8 or in [0, 1]
    y : array (m,)
        True labels, as the model was trained with; for a torch network class indices.
    attack : str, Attack or sequence of them
        Attacks, such as "fgsm", "pgd" and "boundary", the paper's; for images also "autoattack". With several, a point
        is robust if it is correct under all.
    eps : float or None
        Radius of all attacks. None is the own radius of each attack, 0.2 for a name. Images need a radius, in units of
        a pixel, such as 0.1 for MNIST and 2/255 for CIFAR-10 (arXiv Table 14).
    space : "standardized", "input" or None
        Coordinates in which points move: those that the classifier standardizes itself (units of the standard
        deviations of `X` for one that does not), or those of `X`. None is "standardized", and for a torch network
        "input", the only one that it has.
    seed : int or Generator

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
    """
    is_network = isinstance(model, nn.Module)
    if space is not None or not is_network:
        check_choice("space", space or SPACES[0], SPACES[1:] if is_network else SPACES)
    attacks = _read_attacks(attack, eps, is_network and np.ndim(X) == 4)
    with np.errstate(divide="ignore"), ExitStack() as stack:  # a probability of 0 has a logarithm here
        # Batches of many sizes are not worth compiling. With the ten bits of TF32, a point just beyond the boundary may
        # be on the other side of it in a batch of another size.
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        if torch.cuda.is_available():
            stack.enter_context(torch.backends.cudnn.flags(enabled=True, allow_tf32=False))
        attacked: AttackedModel
        if is_network:
            array = X if isinstance(X, Tensor) else np.asarray(X)
            shape = tuple(array.shape)
            if len(shape) not in (2, 4):
                raise ValueError(f"X has shape {shape}; a network takes images (m, c, h, w) or points (m, d)")
            attacked = AttackedNetwork(model, shape[1:] if len(shape) == 4 else None)
            x = attacked.read_points(array)
            index = check_class_indices(y, len(x), attacked.log_proba(x[:1]).shape[-1])
        else:
            attacked, points, index = wrap_classifier(model, X, y, space or SPACES[0])
            x = as_tensor(points)
        correct = attacked.is_correct(x, index)
        masks: dict[str, NDArray[np.bool_]] = {}
        skipped: dict[str, str] = {}
        for (name, item), rng in zip(attacks.items(), as_rng(seed).spawn(len(attacks)), strict=True):
            if item.needs_gradient and not attacked.has_gradient:
                skipped[name] = "it needs gradients, but the model gives no probabilities"
                continue
            try:
                robust = correct.copy()  # misclassified points are not attacked
                if correct.any():
                    moved = item(attacked, x[torch.from_numpy(correct).to(x.device)], index[correct], seed=rng)
                    robust[correct] = attacked.is_correct(moved, index[correct])
                masks[name] = robust
            except ImportError as error:
                skipped[name] = str(error)
    if not masks:
        raise ValueError(f"no attack ran: {'; '.join(f'{name}: {reason}' for name, reason in skipped.items())}")
    is_robust = np.logical_and.reduce(list(masks.values()))
    by_attack = {name: float(mask.mean()) for name, mask in masks.items()}
    return Robustness(float(correct.mean()), float(is_robust.mean()), by_attack, skipped, is_robust)


def _read_attacks(attack: str | Attack | Iterable[str | Attack], eps: float | None, images: bool) -> dict[str, Attack]:
    """Return attacks by name, with the given radius."""
    items = [attack] if isinstance(attack, str | Attack) or not isinstance(attack, Iterable) else list(attack)
    classes = ATTACKS.classes()
    names = [name for name, cls in classes.items() if images or not cls.images_only]
    if not items:
        raise ValueError(f"attack={attack!r} is empty; choose among {', '.join(map(repr, names))}")
    changes: dict[str, Any] = {} if eps is None else {"eps": check_positive("eps", eps, "0.2 is the paper's")}
    result: dict[str, Attack] = {}
    for item in items:
        if isinstance(item, Attack):
            chosen = replace(item, **changes)
            result[repr(chosen)] = chosen
            continue
        if isinstance(item, str) and item in classes and item not in names:
            raise ValueError(f"attack={item!r} is for images (m, c, h, w) and a torch network; use 'pgd' on a table")
        check_choice("attack", item, names, also="an Attack such as PGD(steps=50)")
        if images and (eps is None or eps >= 1.0):
            raise ValueError(f"eps={eps} must be a fraction of the range [0, 1] of a pixel, such as 0.1 or 2 / 255")
        result[item] = ATTACKS.factories()[item](**changes)
    return result


@final
@dataclass(frozen=True)
class AttackedBatches:
    """Batches of a loader, each attacked when it is drawn, with the network in evaluation mode (Madry et al., 2018)."""

    network: StagedNetwork
    batches: Iterable[Sequence[Any]]
    attack: Attack
    shape: tuple[int, int, int] | None = None
    rng: np.random.Generator = field(default_factory=np.random.default_rng)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for x, y, *_ in self.batches:
            with eval_mode(self.network):
                moved: Tensor = self.attack(AttackedNetwork(self.network, self.shape), x, y, seed=self.rng)
            yield moved, y


def train_robust(
    network: StagedNetwork,
    batches: Iterable[Sequence[Any]],
    attack: Attack,
    *,
    shape: tuple[int, int, int] | None = None,
    seed: Seed = None,
    **settings: Any,
) -> NDArray[np.float64]:
    """Train a network on attacked points, in place, and return the mean loss of each epoch.

    The features of such a network can be inverted, which :class:`genlabel.mixing.HiddenGenMix` needs (Engstrom et al.,
    2019; arXiv Section F.4).

    Parameters
    ----------
    network : StagedNetwork
    batches : iterable of (x, y)
        Points and class indices (n,); each batch is attacked when it is drawn.
    attack : Attack
        Attack, such as `PGD(0.1, steps=5)`.
    shape : (c, h, w) or None
        Shape of an image, for a network that takes images.
    seed : int, Generator or None
        Seed of the attack.
    **settings
        Parameters of :func:`genlabel.training.train_network`: learning_rate, epochs, optimizer, ...

    Examples
    --------
    >>> from genlabel.attacks import FGSM
    >>> from genlabel.training.networks import MLP
    >>> batches = [(torch.tensor([[0.0], [4.0]]), torch.tensor([0, 1]))]
    >>> train_robust(MLP(1, 2, seed=0), batches, FGSM(0.5), seed=0, epochs=3).shape
    (3,)
    """
    rng = as_rng(seed)
    return train_network(network, AttackedBatches(network, batches, attack, shape, rng), seed=rng, **settings)
